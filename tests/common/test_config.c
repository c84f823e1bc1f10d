#include "common/config/algorithms.h"
#include "common/config/change_plan.h"
#include "common/config/changes.h"
#include "common/config/run_config.h"
#include "common/config/yaml_tree.h"
#include "common/mem/xmalloc.h"
#include "common/msg/config_msg.h"
#include "tests/support/test_main.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static struct err err;

/* An environment of three agents, or of the number in params. */
static int three_agents(void *ctx, const struct env_config *env,
                        const char *const **ret_names, struct err *e)
{
    static const char *const names[] = {"agent_0", "agent_1", "agent_2", "agent_3"};

    if (strcmp(env->id, "simple_spread") != 0)
        return err_set_at(e, ERR_NOT_FOUND, ERR_AT(.key = "env.id"),
                          "unknown environment '%s'", env->id);
    *ret_names = names;
    return yaml_find(env->params, "agents") != NULL
               ? atoi(yaml_find(env->params, "agents")->text)
               : 3;
}

static const struct config_options with_env = {.env_names = three_agents};

static int parse_with(struct run_config *c, const char *text,
                      const struct config_options *options)
{
    err = (struct err){0};
    return run_config_parse(c, text, strlen(text), "f.yaml", options, &err);
}

static struct run_config parse(const char *text)
{
    struct run_config c;
    int rc = parse_with(&c, text, &with_env);

    ck_assert_msg(rc == 0, "%s", err.msg);
    return c;
}

/* A setting as it is written; valid until the next call. */
static const char *setting_text(const struct agent_config *a, const char *key)
{
    static char ret[64];
    const struct field *f = schema_find(&a->settings.of->settings, key);
    char *text;

    ck_assert_msg(f != NULL, "%s has no %s", a->algorithm, key);
    text = schema_text_of(f, a->settings.value + f->offset);
    (void)snprintf(ret, sizeof(ret), "%s", text);
    free(text);
    return ret;
}

START_TEST(names_of_the_runs_own_are_reserved)
{
    static const char *const reserved[] = {"central", "run.state", "supervisor",
                                           "hooks",   "env_0",     "eval_env_12"};
    static const char *const others[] = {"env_",   "env",    "env_a",
                                         "env_1a", "eval_0", "an_env_0"};

    for (size_t i = 0; i < 6; i++) {
        ck_assert_msg(schema_is_reserved(reserved[i]), "%s", reserved[i]);
        ck_assert_msg(!schema_is_reserved(others[i]), "%s", others[i]);
    }
}
END_TEST

START_TEST(everything_has_a_default)
{
    struct run_config c = parse("env: {id: simple_spread}\n");
    const struct agent_config *a;

    ck_assert_str_eq(c.run.name, "simple_spread");
    ck_assert(c.run.seed == 1 && c.run.env_steps == 625000 && c.run.episodes == 0);
    ck_assert_int_eq(c.run.resume_on_supervisor_death, 0);
    ck_assert_int_eq(c.run.numerics, NUMERICS_PORTABLE);
    ck_assert(c.env.rules == ENV_RULES_MPE2 && c.env.actions == ENV_ACTIONS_DISCRETE);
    ck_assert(c.env.reward == ENV_REWARD_OWN && c.env.copies == 32);
    ck_assert(c.env.max_steps == 25 && c.env.params == NULL);
    ck_assert(c.experience.capacity == 1000000 && c.experience.batch_size == 1024);
    ck_assert(c.experience.warmup == 25600 && c.experience.update_every == 100);
    ck_assert_int_eq(c.experience.keep, KEEP_LOG_AUTO);
    ck_assert(c.checkpoint.every_env_steps == 100000 && c.checkpoint.every_seconds == 0);
    ck_assert(c.checkpoint.max_to_keep == 5);
    ck_assert(c.checkpoint.keep_checkpoint_every_n_hours == 10000);
    ck_assert(c.evaluation.every_env_steps == 50000 && c.evaluation.episodes == 100);
    ck_assert(c.evaluation.greedy == 1 && c.evaluation.seed == 0);
    ck_assert(c.log.every_env_steps == 10000);
    ck_assert_uint_eq(c.n_agents, 3);
    a = &c.agents[2];
    ck_assert_str_eq(a->name, "agent_2");
    ck_assert_str_eq(a->algorithm, "maddpg");
    ck_assert_str_eq(setting_text(a, "logit_penalty"), "0.001");
    ck_assert_str_eq(setting_text(a, "temperature"), "1");
    ck_assert_str_eq(setting_text(a, "policy"), "auto");
    ck_assert_str_eq(setting_text(a, "execute"), "hard");
    ck_assert_str_eq(setting_text(a, "own_batches"), "false");
    ck_assert_str_eq(setting_text(a, "clip_by"), "variable");
    ck_assert_str_eq(setting_text(a, "exploration_noise"), "0.1");
    ck_assert(a->discount == 0.95 && a->polyak == 0.01);
    ck_assert(a->actor.hidden.n == 2 && a->actor.hidden.size[1] == 64);
    ck_assert(a->actor.activation == ACTIVATION_RELU && a->actor.output_init == 0);
    ck_assert(a->actor.layer_norm == 0 && a->actor.init == INIT_XAVIER);
    ck_assert(a->critic.input == CRITIC_ALL && a->critic.after_action.n == 0);
    ck_assert(!a->critic.has_optimizer);
    ck_assert(a->optimizer.type == OPT_ADAM && a->optimizer.learning_rate.from == 0.003);
    ck_assert(a->optimizer.beta1 == 0.9 && a->optimizer.beta2 == 0.999);
    ck_assert(a->optimizer.epsilon == 1e-8 && a->optimizer.momentum == 0);
    ck_assert(a->clip_norm == 0.5 && a->memory_limit_bytes == 0);
    ck_assert(a->respond_within_s == 30 && a->stop_on_nonfinite == 1);
    ck_assert(a->restart.policy == RESTART_PERMANENT && a->restart.max_restarts == 5);
    ck_assert(a->restart.within_s == 60 && a->restart.delay_s == 0.1);
    ck_assert(a->restart.max_delay_s == 10 && a->restart.on_give_up == GIVE_UP_STOP);
    ck_assert(a->observation == 0 && a->action == 0);
    run_config_done(&c);
    run_config_done(&c);
}
END_TEST

/* The sample of the documentation, with every kind of value changed somewhere. */
static const char rich[] =
    "run: {name: rich-1.a, seed: 18446744073709551615, episodes: 2.5e4,\n"
    "      on_supervisor_death: resume, numerics: native}\n"
    "env: {id: simple_spread, rules: openai, actions: continuous, reward: team_mean,\n"
    "      copies: 1, max_steps: 50, params: {agents: 4}}\n"
    "experience: {capacity: 5000, batch_size: 64, warmup: 1, update_every: 7, keep: "
    "true}\n"
    "checkpoint: {every_seconds: 0.1, max_to_keep: none, keep_checkpoint_every_n_hours: "
    "0.3}\n"
    "evaluation: {every_env_steps: 0, episodes: 3, mode: sample, seed: 9}\n"
    "log: {every_env_steps: 1}\n"
    "defaults:\n"
    "  settings: {logit_penalty: 0, temperature: 0.7, policy: deterministic,\n"
    "             execute: soft, own_batches: true, clip_by: global,\n"
    "             exploration_noise: {from: 0.5, to: 0.05, over: 5e4}}\n"
    "  discount: 1\n"
    "  critic: {conv: [[32, 8, 4], [64, 3, 1]],\n"
    "           hidden: [128, 32], activation: leaky_relu, after_action: [64],\n"
    "           output_init: 0.003, optimizer: {learning_rate: 1e-4 to 0 over 1000}}\n"
    "  clip_norm: none\n"
    "  memory_limit: 1536M\n"
    "  respond_within: 1.5m\n"
    "  on_nonfinite: continue\n"
    "  restart: {policy: transient, max_restarts: 0, within: 1h, delay: 250ms,\n"
    "            max_delay: 0s, on_give_up: noop}\n"
    "agents:\n"
    "  agent_3: {optimizer: {type: rmsprop, decay: 0}, algorithm: ddpg}\n"
    "  agent_1:\n"
    "    optimizer: {type: sgd, learning_rate: 0.1}\n"
    "    critic: {hidden: []}\n"
    "    actor: {optimizer: {type: accept_reject}}\n"
    "  agent_2:\n"
    "    optimizer: {type: accept_reject, tries: 4}\n"
    "    actor: {optimizer: {learning_rate: 0.5}}\n"
    "  agent_0: {optimizer: {type: momentum}, clip_norm: 1,\n"
    "            actor: {optimizer: {type: adam}}}\n";

START_TEST(agents_override_deeply)
{
    struct run_config c = parse(rich);
    const struct agent_config *a = c.agents;

    ck_assert_uint_eq(c.n_agents, 4);
    ck_assert(c.run.seed == UINT64_MAX && c.run.episodes == 25000 &&
              c.run.env_steps == 0);
    ck_assert(c.checkpoint.every_env_steps == 0 && c.checkpoint.every_seconds == 0.1);
    ck_assert(c.defaults.memory_limit_bytes == INT64_C(1536) << 20);
    ck_assert(c.defaults.respond_within_s == 90 && c.defaults.restart.within_s == 3600);
    ck_assert(c.defaults.restart.delay_s == 0.25 && c.defaults.clip_norm == 0);
    ck_assert(c.defaults.stop_on_nonfinite == 0);
    for (int i = 0; i < 4; i++) { /* in the environment's order, not the file's */
        ck_assert_int_eq(a[i].name[6], '0' + i);
        ck_assert_str_eq(setting_text(&a[i], "temperature"), "0.7");
        ck_assert(a[i].restart.max_restarts == 0);
        ck_assert(a[i].critic.has_optimizer && a[i].critic.after_action.size[0] == 64);
        ck_assert(a[i].critic.optimizer.learning_rate.from == 1e-4);
        ck_assert(a[i].critic.optimizer.learning_rate.to == 0);
        ck_assert(a[i].critic.optimizer.learning_rate.over == 1000);
        ck_assert_str_eq(setting_text(&a[i], "exploration_noise"),
                         "0.5 to 0.05 over 50000");
    }
    ck_assert(a[0].optimizer.type == OPT_MOMENTUM && a[0].optimizer.momentum == 0.9);
    ck_assert(a[0].optimizer.beta1 == 0 && a[0].optimizer.learning_rate.from == 0.003);
    ck_assert(a[0].actor.has_optimizer && a[0].actor.optimizer.type == OPT_ADAM);
    ck_assert(a[0].actor.optimizer.beta2 == 0.999 && a[0].clip_norm == 1);
    ck_assert(a[0].critic.optimizer.type == OPT_MOMENTUM); /* inherits the agent's */
    ck_assert(a[1].optimizer.type == OPT_SGD && a[1].optimizer.learning_rate.from == 0.1);
    ck_assert(a[1].critic.conv.n == 2 && a[1].critic.conv.layer[0].filters == 32);
    ck_assert(a[1].critic.conv.layer[0].stride == 4 &&
              a[1].critic.conv.layer[1].kernel == 3 && a[1].actor.conv.n == 0);
    ck_assert(a[1].critic.hidden.n == 0 &&
              a[1].critic.activation == ACTIVATION_LEAKY_RELU);
    ck_assert(a[1].optimizer.tries == 0 && a[1].actor.optimizer.tries == 1);
    ck_assert(a[2].optimizer.type == OPT_ACCEPT_REJECT && a[2].optimizer.tries == 4);
    ck_assert(a[2].actor.optimizer.tries == 4 && a[2].optimizer.beta1 == 0);
    ck_assert(a[3].optimizer.type == OPT_RMSPROP && a[3].optimizer.epsilon == 1e-10);
    ck_assert(a[3].optimizer.decay == 0 && a[3].critic.optimizer.decay == 0);
    ck_assert(a[3].critic.input == CRITIC_OWN && a[2].critic.input == CRITIC_ALL);
    run_config_done(&c);
}
END_TEST

/* The struct without its strings, for comparing bytes. */
static struct agent_config values_of(const struct agent_config *a)
{
    struct agent_config v;

    memcpy(&v, a, sizeof(v));
    v.name = v.algorithm = NULL;
    return v;
}

static void assert_same_agent(const struct agent_config *a, const struct agent_config *b)
{
    struct agent_config x = values_of(a), y = values_of(b);

    ck_assert_mem_eq(&x, &y, sizeof(x));
    ck_assert_str_eq(a->algorithm, b->algorithm);
}

/* An update learns from all rows since the last one: none are drawn, and there is no
 * warm-up. */
START_TEST(windows_have_no_batch)
{
    static const char window[] = "env: {id: simple_spread, copies: 8, max_steps: 20}\n"
                                 "defaults: {algorithm: ippo}\nagents: {a: {}}\n";
    static const char drawn[] = "env: {id: simple_spread}\nagents: {a: {}}\n"
                                "experience: {priority: {beta: 0.5}}\n";
    const struct config_options none = {0};
    struct run_config c, again;
    char *text;

    ck_assert_int_eq(run_config_parse(&c, window, strlen(window), "f", &none, &err), 0);
    ck_assert_int_eq(c.experience.update_every, 160); /* one episode of every copy */
    text = run_config_to_yaml(&c);
    ck_assert_ptr_null(strstr(text, "batch_size"));
    ck_assert_ptr_null(strstr(text, "warmup"));
    ck_assert_msg(run_config_parse(&again, text, strlen(text), "f", &none, &err) == 0,
                  "%s", err.msg);
    ck_assert_int_eq(again.experience.update_every, 160);
    run_config_done(&again);
    run_config_done(&c);
    free(text);

    ck_assert_int_eq(run_config_parse(&c, drawn, strlen(drawn), "f", &none, &err), 0);
    text = run_config_to_yaml(&c);
    ck_assert_msg(run_config_parse(&again, text, strlen(text), "f", &none, &err) == 0,
                  "%s", err.msg);
    ck_assert(again.experience.has_priority && again.experience.priority.alpha == 0.6 &&
              again.experience.priority.beta == 0.5 &&
              again.experience.priority.beta_to == 1.0);
    run_config_done(&again);
    run_config_done(&c);
    free(text);
}
END_TEST

START_TEST(the_resolved_file_reads_back_equal)
{
    static const char *const texts[] = {
        "env: {id: simple_spread}",
        rich,
        "env: {id: none}\nagents: {a: {observation: 54, action: 15}, b: {observation: "
        "1,\n"
        "  action: 1, settings: {logit_penalty: 0.1000000000000000055}}}",
        "env: {id: simple_spread}\ncheckpoint: {every_env_steps: 0}\n"
        "defaults: {optimizer: {type: sgd}, algorithm: ddpg}\n"
        "agents: {agent_1: {optimizer: {type: adam, epsilon: 1e-30}, algorithm: maddpg}}",
    };
    struct run_config a = parse(texts[_i]), b;
    char *first = run_config_to_yaml(&a), *second;

    b = parse(first);
    second = run_config_to_yaml(&b);
    ck_assert_str_eq(first, second);
    ck_assert_ptr_null(strstr(first, "e+")); /* 60s, 10000 */
    ck_assert_str_eq(a.run.name, b.run.name);
    ck_assert(a.run.seed == b.run.seed && a.run.env_steps == b.run.env_steps);
    ck_assert(a.run.episodes == b.run.episodes);
    ck_assert_mem_eq(&a.env.rules, &b.env.rules,
                     offsetof(struct env_config, params) -
                         offsetof(struct env_config, rules));
    ck_assert(yaml_tree_equal(a.env.params, b.env.params));
    ck_assert_mem_eq(&a.experience, &b.experience, sizeof(a.experience));
    ck_assert_mem_eq(&a.checkpoint, &b.checkpoint, sizeof(a.checkpoint));
    ck_assert_mem_eq(&a.evaluation, &b.evaluation, sizeof(a.evaluation));
    assert_same_agent(&a.defaults, &b.defaults);
    ck_assert_uint_eq(a.n_agents, b.n_agents);
    for (size_t i = 0; i < a.n_agents; i++) {
        assert_same_agent(&a.agents[i], &b.agents[i]);
        ck_assert_str_eq(a.agents[i].name, b.agents[i].name);
    }
    free(first);
    free(second);
    run_config_done(&a);
    run_config_done(&b);
}
END_TEST

START_TEST(texts_read_back_whatever_is_in_them)
{
    static const char *const texts[] = {
        "run@300", "/a b/model.ckpt-7", "x:0",        "null",         "~",      "1e5",
        "- a",     "\\\"quoted\\\"",    "a\\\\b # c", "line\\nbreak", "{a: 1}", " ",
        "#",
    };
    char text[256], *first, *second;
    struct run_config a, b;
    const char *from;

    (void)snprintf(text, sizeof(text),
                   "env: {id: simple_spread}\ndefaults: {algorithm: frozen, settings: "
                   "{from: \"%s\"}}",
                   texts[_i]);
    a = parse(text);
    first = run_config_to_yaml(&a);
    b = parse(first);
    second = run_config_to_yaml(&b);
    ck_assert_str_eq(first, second);
    from = agent_setting_text(&a.agents[1], FIELD_CHECKPOINT);
    ck_assert_ptr_nonnull(from);
    ck_assert_str_eq(from, agent_setting_text(&b.agents[1], FIELD_CHECKPOINT));
    free(first);
    free(second);
    run_config_done(&a);
    run_config_done(&b);
}
END_TEST

START_TEST(an_agents_section_travels)
{
    struct run_config c = parse(rich);

    for (size_t i = 0; i < c.n_agents; i++) {
        struct arena arena = ARENA_ZERO;
        struct agent_config got;
        struct msg_out o;
        msgpack_unpacked m;

        msg_out_init(&o);
        msg_agent_config(&o, &c.agents[i]);
        msgpack_unpacked_init(&m);
        ck_assert_int_eq(msgpack_unpack_next(&m, o.buf.data, o.buf.size, NULL),
                         MSGPACK_UNPACK_SUCCESS);
        ck_assert_msg(msg_to_agent_config(&m.data, &got, &arena, &err) == 0, "%s",
                      err.msg);
        msgpack_unpacked_destroy(&m);
        msg_out_done(&o);
        ck_assert(agent_config_is_same(&c.agents[i], &got));
        assert_same_agent(&c.agents[i], &got);
        ck_assert_ptr_null(got.name);
        arena_done(&arena);
    }
    run_config_done(&c);
}
END_TEST

/* Values of another kind, and out of their range. */
START_TEST(a_wrong_section_is_a_broken_protocol)
{
    static const struct {
        const char *key, *message;
    } cases[] = {
        {"discount", "config.discount: found '2', expected a number of at least 0"},
        {"polyak", "config.polyak: found an empty list, expected a number"},
        {"name", "config.name: unknown key"},
        {"memory_limit", "config.memory_limit: found '-1B', expected none or a size"},
    };
    struct arena arena = ARENA_ZERO;
    struct agent_config got;
    struct msg_out o;
    msgpack_unpacked m;

    msg_out_init(&o);
    msg_map(&o, 1);
    msg_key(&o, cases[_i].key);
    if (_i == 0)
        msg_f64(&o, 2);
    else if (_i == 1)
        msg_array(&o, 0);
    else
        msg_i64(&o, -1);
    msgpack_unpacked_init(&m);
    ck_assert_int_eq(msgpack_unpack_next(&m, o.buf.data, o.buf.size, NULL),
                     MSGPACK_UNPACK_SUCCESS);
    ck_assert_int_eq(msg_to_agent_config(&m.data, &got, &arena, &err), ERR_PROTOCOL);
    ck_assert_msg(strstr(err.msg, cases[_i].message) != NULL, "%s", err.msg);
    msgpack_unpacked_destroy(&m);
    msg_out_done(&o);
    arena_done(&arena);
}
END_TEST

#define ENV  "env: {id: simple_spread}\n"
#define SEEN "env: {id: simple_spread, observe: entities}\n"

START_TEST(mistakes_are_told_in_one_line)
{
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"run: {seed: 1}\n",
         "f.yaml:1: env.id: not given, expected an environment's name or none"},
        {"", "f.yaml:1: env.id: not given, expected an environment's name or none"},
        {"- a\n", "f.yaml:1: found a list, expected a map of keys"},
        {ENV "experience:\n  batchsize: 3\n",
         "f.yaml:3: experience.batchsize: unknown key, expected capacity, batch_size, "
         "warmup, update_every, keep or priority; did you mean 'batch_size'?"},
        {ENV "exprience: {}\n",
         "f.yaml:2: exprience: unknown key, expected run, env, experience, checkpoint, "
         "evaluation, log, on, cluster, defaults, agents or extends; did you mean "
         "'experience'?"},
        {ENV "run: {seed: abc}\n",
         "f.yaml:2: run.seed: found 'abc', expected a whole number of at least 0"},
        {ENV "run: {seed: 'one'}\n",
         "f.yaml:2: run.seed: found the text 'one', expected a whole number of at least "
         "0"},
        {ENV "run: {seed: -1}\n",
         "f.yaml:2: run.seed: found '-1', expected a whole number of at least 0"},
        {ENV "run: {seed: 18446744073709551616}\n",
         "f.yaml:2: run.seed: found '18446744073709551616', expected a whole number of "
         "at "
         "least 0"},
        {ENV "run: {numerics: exact}\n",
         "f.yaml:2: run.numerics: found 'exact', expected portable or native"},
        {ENV "run:\n  name: a/b\n", "f.yaml:3: run.name: found 'a/b', expected a name of "
                                    "at most 63 of A-Z a-z 0-9 _ "
                                    ". -, with a letter, digit or _ first"},
        {ENV "run: {name: ..}\n",
         "f.yaml:2: run.name: found '..', expected a name of at most 63 of A-Z a-z 0-9 _ "
         ". -, with a letter, digit or _ first"},
        {ENV "run: {env_steps: 10, episodes: 3}\n",
         "f.yaml:2: run: env_steps and episodes are both given, expected one"},
        {ENV "checkpoint: {every_env_steps: 10, every_seconds: 3}\n",
         "f.yaml:2: checkpoint: every_env_steps and every_seconds are both given, "
         "expected "
         "one"},
        {"env:\n  id: simple_spred\n",
         "f.yaml:2: env.id: unknown environment 'simple_spred'"},
        {"env: {id: simple_spread, copies: 0}\n",
         "f.yaml:1: env.copies: found '0', expected a whole number of at least 1 and at "
         "most 1048576"},
        {"env: {id: simple_spread}\nevaluation: {episodes: 1000001}\n",
         "f.yaml:2: evaluation.episodes: found '1000001', expected a whole number of at "
         "least 1 and at most 1000000"},
        {"env: {id: simple_spread, copies: 1.5}\n",
         "f.yaml:1: env.copies: found '1.5', expected a whole number of at least 1 and "
         "at "
         "most 1048576"},
        {"env: {id: simple_spread, rules: mpe3}\n",
         "f.yaml:1: env.rules: found 'mpe3', expected mpe2 or openai; did you mean "
         "'mpe2'?"},
        {"env: {id: simple_spread, rules: []}\n",
         "f.yaml:1: env.rules: found an empty list, expected mpe2 or openai"},
        {ENV "experience: {keep: yes}\n",
         "f.yaml:2: experience.keep: found 'yes', expected false, true or auto"},
        {ENV "experience:\n  batch_size: 512\n  capacity: 511\n",
         "f.yaml:3: experience.batch_size: found 512, expected at most "
         "experience.capacity, 511"},
        {ENV "experience:\n  capacity: 1000\n",
         "f.yaml:3: experience.batch_size: found 1024, expected at most "
         "experience.capacity, 1000"},
        {ENV "experience: {capacity: 10000}\n",
         "f.yaml:2: experience.warmup: found 25600, expected at most "
         "experience.capacity, "
         "10000"},
        {ENV "defaults: {algorithm: ippo}\nexperience:\n  update_every: 100\n",
         "f.yaml:4: experience.update_every: found 100, expected a multiple of "
         "env.copies, 32, because ippo learns from the newest rows of every copy "
         "(default: 800)"},
        {ENV "defaults: {algorithm: ippo}\nexperience:\n  batch_size: 100\n",
         "f.yaml:4: experience: batch_size is not used by ippo, which learns from the "
         "newest rows of every copy"},
        {ENV "defaults: {algorithm: ippo}\nexperience:\n  priority: {}\n",
         "f.yaml:4: experience: priority is not used by ippo, which learns from the "
         "newest rows of every copy"},
        {ENV "experience: {warmup: 0}\n",
         "f.yaml:2: experience.warmup: found '0', expected a whole number of at least 1 "
         "and at most 1e+15"},
        {ENV "defaults: {optimizer: {learning_rate: 0}}\n",
         "f.yaml:2: defaults.optimizer.learning_rate: found '0', expected a number above "
         "0"},
        {ENV "defaults: {optimizer: {learning_rate: .inf}}\n",
         "f.yaml:2: defaults.optimizer.learning_rate: found '.inf', expected a number "
         "above 0"},
        {ENV "defaults: {optimizer: {learning_rate: 0 to 0.1 over 10}}\n",
         "f.yaml:2: defaults.optimizer.learning_rate: found '0 to 0.1 over 10', expected "
         "a "
         "schedule within the number's range, such as 1 to 0.05 over 50000"},
        {ENV "defaults: {settings: {temperature: 1 to 0 over 10}}\n",
         "f.yaml:2: defaults.settings.temperature: found '1 to 0 over 10', expected a "
         "schedule within the number's range, such as 1 to 0.05 over 50000"},
        {ENV "defaults: {settings: {temperature: {from: 1, to: 0.5}}}\n",
         "f.yaml:2: defaults.settings.temperature: found a map, expected a schedule "
         "within the number's range, such as 1 to 0.05 over 50000"},
        {ENV "defaults: {settings: {temperature: 2 to 1 over 0}}\n",
         "f.yaml:2: defaults.settings.temperature: found '2 to 1 over 0', expected a "
         "schedule within the number's range, such as 1 to 0.05 over 50000"},
        {"env: {id: none}\nagents:\n  a: {observation: 1, action: 1, optimizer: "
         "{learning_rate: 1 to 0 over 9}}\n",
         "f.yaml:3: agents.a.optimizer.learning_rate: found a schedule, expected a "
         "number: "
         "without an environment (env.id: none) there are no steps to follow"},
        {ENV "defaults: {optimizer: {type: sgd, beta1: 0.9}}\n",
         "f.yaml:2: defaults.optimizer: beta1 is no setting of the optimizer sgd"},
        {ENV "agents:\n  agent_0:\n    critic:\n      optimizer: {decay: 0.9}\n",
         "f.yaml:5: agents.agent_0.critic.optimizer: decay is no setting of the "
         "optimizer "
         "adam"},
        {ENV "defaults: {discount: 1.1}\n", "f.yaml:2: defaults.discount: found '1.1', "
                                            "expected a number of at least 0 and at "
                                            "most 1"},
        {ENV "defaults: {settings: {temperature: 0}}\n",
         "f.yaml:2: defaults.settings.temperature: found '0', expected a number above 0"},
        {ENV "defaults: {restart: {tau: 0}}\n",
         "f.yaml:2: defaults.restart.tau: unknown key, expected policy, max_restarts, "
         "within, delay, max_delay or on_give_up; did you mean 'defaults.polyak'?"},
        {ENV "agents: {agent_1: {lr: 0.1}}\n",
         "f.yaml:2: agents.agent_1.lr: unknown key, expected algorithm, command, "
         "directory, environment, sources, threads, exact, confine, program, policy, "
         "settings, discount, polyak, actor, critic, optimizer, clip_norm, memory_limit, "
         "respond_within, on_nonfinite, restart, share, device, experience, observation "
         "or "
         "action; did you mean "
         "'agents.agent_1.optimizer.learning_rate'?"},
        {ENV "defaults:\n  settings:\n    execute: soft\n",
         "f.yaml:4: defaults.settings.execute: found 'soft', expected hard with "
         "env.actions: discrete (soft needs env.actions: continuous)"},
        {ENV "agents: {agent_1: {settings: {execute: soft}}}\n",
         "f.yaml:2: agents.agent_1.settings.execute: found 'soft', expected hard with "
         "env.actions: discrete (soft needs env.actions: continuous)"},
        {ENV "defaults: {algorithm: madpg}\n",
         "f.yaml:2: defaults.algorithm: found 'madpg', expected coma, critic, ddpg, "
         "frozen, graph, happo, heuristic, ia2c, ippo, iql, isac, maa2c, maddpg, mappo, "
         "masac, "
         "matd3, noop, qmix, random, vdn or program; did you mean 'maddpg'?"},
        {ENV "defaults: {algorithm: ddpg, critic: {input: all}}\n",
         "f.yaml:2: defaults.critic.input: found 'all', expected own with ddpg"},
        {ENV "defaults: {actor: {input: own}}\n",
         "f.yaml:2: defaults.actor.input: unknown key, expected conv, entities, hidden, "
         "activation, layer_norm, init, output_init or optimizer; did you mean "
         "'defaults.critic.input'?"},
        {ENV "defaults: {actor: {init: orthogonl}}\n",
         "f.yaml:2: defaults.actor.init: found 'orthogonl', expected xavier, he or "
         "orthogonal; did you mean 'orthogonal'?"},
        {ENV "defaults: {actor: {hidden: [64, 0]}}\n",
         "f.yaml:2: defaults.actor.hidden: found '0', expected a list of at most 16 "
         "layer "
         "sizes, each 1 to 65536"},
        {ENV "agents: {agent_1: {actor: {entities: {pool: max}}}}\n",
         "f.yaml:2: agents.agent_1.actor.entities: agent_1 observes no entities, "
         "expected "
         "env.observe: entities"},
        {SEEN "defaults: {critic: {entities: {pool: max, heads: 2}}}\n",
         "f.yaml:2: defaults.critic.entities: heads are for pool: attention"},
        {SEEN "defaults: {actor: {entities: {pool: attention, heads: 3}}}\n",
         "f.yaml:2: defaults.actor.entities: 3 heads cannot share the last 64 units "
         "evenly"},
        {SEEN "defaults: {actor: {conv: [[8, 4, 2]]}}\n",
         "f.yaml:2: defaults.actor.conv: convolutions see images, expected none with "
         "env.observe: entities"},
        {ENV "defaults: {actor: {conv: [[8, 4]]}}\n",
         "f.yaml:2: defaults.actor.conv: found a list, expected a list of at most 8 "
         "convolutions [filters, kernel, stride], each number 1 to 1024"},
        {ENV "defaults: {actor: {conv: [[8, 4, 0]]}}\n",
         "f.yaml:2: defaults.actor.conv: found a list, expected a list of at most 8 "
         "convolutions [filters, kernel, stride], each number 1 to 1024"},
        {ENV "defaults: {actor: {hidden: 64}}\n",
         "f.yaml:2: defaults.actor.hidden: found '64', expected a list of at most 16 "
         "layer "
         "sizes, each 1 to 65536"},
        {ENV "defaults: {clip_norm: 0}\n",
         "f.yaml:2: defaults.clip_norm: found '0', expected none or a number above 0"},
        {ENV "defaults: {memory_limit: 12Q}\n",
         "f.yaml:2: defaults.memory_limit: found '12Q', expected none or a size with its "
         "unit, such as 512M (B, K, M, G, T)"},
        {ENV "defaults: {respond_within: 30}\n",
         "f.yaml:2: defaults.respond_within: found '30', expected a time above 0 such as "
         "30s or 100ms (ms, s, m, h)"},
        {ENV "defaults:\n  restart: 3\n",
         "f.yaml:3: defaults.restart: found a single value, expected a map of keys"},
        {ENV "agents:\n  agent_0: {}\n  agent_0: {}\n",
         "f.yaml:4: key 'agent_0' is given here and in line 3, expected once"},
        {ENV "agents: {agent_4: {}}\n", "f.yaml:2: agents: found 'agent_4', expected "
                                        "agent_0, agent_1, agent_2 or agent; did you "
                                        "mean 'agent_0'?"},
        {ENV "agents: [agent_0]\n", "f.yaml:2: agents: expected a map of agents by name"},
        {ENV "agents: {agent_0: {observation: 3}}\n",
         "f.yaml:2: agents.agent_0: observation and action are given by the environment, "
         "expected neither"},
        {"env: {id: none}\n", "f.yaml:1: agents: found 0 agents, expected 1 to 4096"},
        {"env: {id: none}\nagents:\n  a: {observation: 3}\n",
         "f.yaml:3: agents.a: without an environment (env.id: none) expected "
         "{observation: WIDTH, action: WIDTH}"},
        {"env: {id: none}\nagents:\n  env_7: {observation: 3, action: 1}\n",
         "f.yaml:3: agents: found 'env_7', expected another name: the run has a process "
         "or "
         "a file that is called so"},
        {"env: {id: none}\nagents:\n  a b: {observation: 3, action: 1}\n",
         "f.yaml:3: agents: found 'a b', expected a name of at most 63 of A-Z a-z 0-9 _ "
         ". "
         "-, with a letter, digit or _ first"},
    };
    enum { N = sizeof(cases) / sizeof(cases[0]) };

    for (int i = 0; i < N; i++) {
        struct run_config c;

        ck_assert_msg(parse_with(&c, cases[i].text, &with_env) == ERR_CONFIG, "%s",
                      cases[i].text);
        ck_assert_str_eq(err.msg, cases[i].message);
        ck_assert_ptr_null(c.arena.blocks);
    }
}
END_TEST

static int tag_agents(void *ctx, const struct env_config *env,
                      const char *const **ret_names, struct err *e)
{
    static const char *const names[] = {"adversary_0", "adversary_1", "agent_0", "lone"};

    *ret_names = names;
    return 4;
}

/* Writes a file into the folder; returns its path, free(). */
static char *write_file(const char *folder, const char *name, const char *text)
{
    char *path = xasprintf("%s/%s", folder, name);
    FILE *f = fopen(path, "w");

    ck_assert_ptr_nonnull(f);
    (void)fputs(text, f);
    ck_assert_int_eq(fclose(f), 0);
    return path;
}

/* Makes a folder with base.yaml, sub/next.yaml, which extends it, and top.yaml. folder:
 * set to its path. */
static char *write_files(char folder[64], const char *base, const char *top)
{
    char *path;

    (void)snprintf(folder, 64, "/tmp/brood-test-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
    path = xasprintf("%s/sub", folder);
    ck_assert_int_eq(mkdir(path, 0700), 0);
    free(path);
    free(write_file(folder, "base.yaml", base));
    free(write_file(folder, "sub/next.yaml",
                    "extends: ../base.yaml\nrun: {seed: 5, env_steps: 9000}\n"));
    return write_file(folder, "top.yaml", top);
}

static void remove_files(const char *folder, char *top)
{
    static const char *const names[] = {"base.yaml", "sub/next.yaml", "sub", "top.yaml",
                                        ""};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        char *path = xasprintf("%s/%s", folder, names[i]);

        ck_assert_int_eq(remove(path), 0);
        free(path);
    }
    free(top);
}

START_TEST(a_file_extends_another)
{
    static const char *const set[] = {"defaults.discount=0.25"};
    const struct config_options options = {
        .set = set, .n_set = 1, .env_names = three_agents, .extends = 1};
    struct run_config c;
    char folder[64];
    char *top = write_files(folder,
                            "run: {name: base, seed: 4, episodes: 3}\n"
                            "env: {id: simple_spread, copies: 2}\n"
                            "defaults: {actor: {hidden: [1, 2]}, discount: 0.5,\n"
                            "           optimizer: {type: sgd, learning_rate: 0.5}}\n"
                            "agents: {agent_2: {discount: 0.75}}\n",
                            "extends: sub/next.yaml\n"
                            "run: {name: top, episodes: ~}\n"
                            "defaults: {actor: {hidden: [3]}, optimizer: "
                            "{learning_rate: 0.1}}\n"
                            "agents: {agent: {clip_norm: 7}}\n");

    ck_assert_msg(run_config_read(&c, top, &options, &err) == 0, "%s", err.msg);
    ck_assert_str_eq(c.run.name, "top");
    ck_assert(c.run.seed == 5 && c.run.env_steps == 9000 && c.run.episodes == 0);
    ck_assert(c.env.copies == 2);
    ck_assert(c.defaults.actor.hidden.n == 1 && c.defaults.actor.hidden.size[0] == 3);
    ck_assert(c.defaults.optimizer.type == OPT_SGD &&
              c.defaults.optimizer.learning_rate.from == 0.1);
    ck_assert(c.agents[2].discount == 0.75 && c.agents[1].discount == 0.25);
    ck_assert(c.agents[2].clip_norm == 7);
    run_config_done(&c);
    remove_files(folder, top);
}
END_TEST

START_TEST(what_cannot_be_extended_names_its_file)
{
    static const struct {
        const char *base, *top, *message;
    } cases[] = {
        {"env: {id: simple_spread}\nrun:\n  sead: 1\n", "extends: base.yaml\n",
         "base.yaml:3: run.sead: unknown key"},
        {"env: {id: simple_spread}\nrun:\n  seed: 1\n",
         "extends: base.yaml\nrun:\n  seed: x\n", "top.yaml:3: run.seed: found 'x'"},
        {"", "\nextends: gone.yaml\n", "top.yaml:2: extends: "},
        {"extends: top.yaml\n", "extends: base.yaml\n", "base.yaml:1: extends: "},
        {"extends: base.yaml\n", "extends: sub/next.yaml\n", "base.yaml:1: extends: "},
        {"", "extends: top.yaml\n", "top.yaml:1: extends: "},
        {"- 1\n", "extends: sub/next.yaml\n", "base.yaml:1: expected a map of keys"},
        {"a: [\n", "extends: sub/next.yaml\n", "base.yaml:2: not YAML: "},
        {"", "extends: [base.yaml]\n",
         "top.yaml:1: extends: expected the path of a file"},
    };
    static const char *const ends[] = {[2] = "/gone.yaml: No such file or directory",
                                       [3] = "/top.yaml would extend itself",
                                       [4] = "/sub/../base.yaml would extend itself",
                                       [5] = "/top.yaml would extend itself",
                                       [8] = ""};
    const struct config_options options = {.env_names = three_agents, .extends = 1};
    struct run_config c;
    char folder[64], *top = write_files(folder, cases[_i].base, cases[_i].top);
    const char *end = ends[_i] != NULL ? ends[_i] : "";

    ck_assert_int_eq(run_config_read(&c, top, &options, &err), ERR_CONFIG);
    ck_assert_msg(strncmp(err.msg, folder, strlen(folder)) == 0 &&
                      strstr(err.msg, cases[_i].message) != NULL &&
                      strcmp(err.msg + strlen(err.msg) - strlen(end), end) == 0,
                  "%s", err.msg);
    ck_assert_ptr_null(strchr(err.msg, '\n'));
    remove_files(folder, top);

    /* `extends` opens files only when `run` and `check` read theirs */
    ck_assert_int_eq(parse_with(&c, "extends: base.yaml\n" ENV, &with_env), ERR_CONFIG);
    ck_assert_str_eq(err.msg, "f.yaml:1: extends: not read here, expected a whole "
                              "configuration");
}
END_TEST

START_TEST(a_team_is_configured_as_its_members)
{
    const struct config_options options = {.env_names = tag_agents};
    struct run_config c;

    ck_assert_msg(
        parse_with(&c,
                   "env: {id: simple_tag}\n"
                   "defaults: {discount: 0.5}\n"
                   "agents:\n"
                   "  adversary_1: {optimizer: {learning_rate: 0.1}, discount: 0.7}\n"
                   "  adversary: {algorithm: ddpg, discount: 0.6,\n"
                   "              optimizer: {type: sgd, learning_rate: 0.2}}\n"
                   "  adversary_0:\n"
                   "  lone: {discount: 0.8}\n",
                   &options) == 0,
        "%s", err.msg);
    for (int i = 0; i < 2; i++) {
        ck_assert_str_eq(c.agents[i].algorithm, "ddpg");
        ck_assert_int_eq(c.agents[i].optimizer.type, OPT_SGD);
        ck_assert(c.agents[i].optimizer.learning_rate.from == (i == 0 ? 0.2 : 0.1));
        ck_assert(c.agents[i].discount == (i == 0 ? 0.6 : 0.7));
    }
    ck_assert_str_eq(c.agents[2].algorithm, "maddpg");
    ck_assert(c.agents[2].discount == 0.5 && c.agents[3].discount == 0.8);
    run_config_done(&c);

    /* messages name the team if the file does */
    ck_assert_int_eq(parse_with(&c, ENV "agents:\n  agent: {discont: 1}\n", &with_env),
                     ERR_CONFIG);
    ck_assert_ptr_nonnull(strstr(err.msg, "f.yaml:3: agents.agent.discont: unknown key"));
    ck_assert_int_eq(parse_with(&c, ENV "agents:\n  agent: 3\n", &with_env), ERR_CONFIG);
    ck_assert_str_eq(err.msg, "f.yaml:3: agents.agent: found a single value, expected a "
                              "map of keys");
    ck_assert_int_eq(
        parse_with(&c, "env: {id: simple_tag}\nagents: {advesary: {}}\n", &options),
        ERR_CONFIG);
    ck_assert_str_eq(err.msg, "f.yaml:2: agents: found 'advesary', expected adversary_0, "
                              "adversary_1, agent_0, lone, adversary or agent; did you "
                              "mean 'adversary'?");
}
END_TEST

/* Applies `set` to a complete configuration, which has the keys of the old choice. */
static struct run_config rewritten(const char *text, const char *set,
                                   const struct config_options *options)
{
    struct config_options with = *options;
    struct run_config c = parse(text);
    char *whole = run_config_to_yaml(&c);

    run_config_done(&c);
    with.set = &set;
    with.n_set = 1;
    ck_assert_msg(parse_with(&c, whole, &with) == 0, "%s\n%s", err.msg, whole);
    free(whole);
    return c;
}

static void keep_line(void *ctx, const char *line)
{
    FILE *f = ctx;

    (void)fprintf(f, "%s\n", strchr(line, ' ') + 1);
}

START_TEST(a_complete_configuration_takes_another_choice)
{
    static const struct {
        const char *text, *set, *lines;
    } cases[] = {
        {ENV, "defaults.algorithm=iql",
         "defaults.settings: dropped logit_penalty, temperature, policy, execute and "
         "exploration_noise: no setting of iql\n"
         "defaults.critic: dropped input: a critic of iql sees its own agent\n"},
        {ENV, "defaults.algorithm=mappo",
         "defaults.settings: dropped logit_penalty, temperature, policy, execute, "
         "own_batches, clip_by and exploration_noise: no setting of mappo\n"
         "experience: dropped batch_size and warmup: not used by mappo, which learns "
         "from "
         "the newest rows of every copy\n"
         "experience: dropped update_every: found 100, but mappo needs a multiple of "
         "env.copies, 32; its default takes its place\n"},
        {ENV "defaults: {algorithm: ippo}\n", "defaults.algorithm=maddpg",
         "defaults.settings: dropped gae, n_step, clip_ratio, entropy, epochs, "
         "minibatches, normalize_observations, target_kl, value_norm, advantage_norm, "
         "huber, recurrent, recurrent_critic, cell and chunk: no setting of maddpg\n"},
        {ENV, "defaults.optimizer.type=rmsprop",
         "defaults.optimizer: dropped beta1 and beta2: no setting of the optimizer "
         "rmsprop\n"},
        {ENV "agents: {agent_1: {critic: {optimizer: {type: adam, beta1: 0.5}}, "
             "settings: {logit_penalty: 1}}}\n",
         "agents.agent_1.critic.optimizer.type=sgd",
         "agents.agent_1.critic.optimizer: dropped beta1, beta2 and epsilon: no setting "
         "of the optimizer sgd\n"},
        {ENV "agents: {agent_1: {settings: {logit_penalty: 1}}}\n",
         "agents.agent_1.algorithm=random",
         "agents.agent_1.settings: dropped logit_penalty: no setting of random\n"},
    };
    char *lines = NULL;
    size_t len = 0;
    FILE *f = open_memstream(&lines, &len);
    const struct config_options options = {
        .env_names = three_agents, .dropped = keep_line, .dropped_ctx = f};
    struct run_config c = rewritten(cases[_i].text, cases[_i].set, &options), again;
    char *text = run_config_to_yaml(&c), *same;

    ck_assert_int_eq(fclose(f), 0);
    ck_assert_str_eq(lines, cases[_i].lines);
    again = parse(text);
    same = run_config_to_yaml(&again);
    ck_assert_str_eq(text, same);
    free(lines);
    free(text);
    free(same);
    run_config_done(&c);
    run_config_done(&again);
}
END_TEST

/* --set is refused, although such keys of the file may be dropped. */
START_TEST(keys_of_another_choice_are_refused_on_the_command_line)
{
    static const char *const set[] = {"defaults.optimizer.decay=0.5"};
    const struct config_options options = {
        .set = set, .n_set = 1, .env_names = three_agents, .dropped = keep_line};
    struct run_config c;

    ck_assert_int_eq(parse_with(&c, ENV, &options), ERR_CONFIG);
    ck_assert_str_eq(err.msg, "--set defaults.optimizer.decay=0.5: defaults.optimizer: "
                              "decay is no setting of the optimizer adam");
}
END_TEST

START_TEST(a_cluster_completes_what_is_not_given)
{
    struct run_config c;

    ck_assert_int_eq(parse_with(&c,
                                ENV
                                "cluster: {launcher: local, nodes: 2, start_within: 5s, "
                                "restart: {max_restarts: 0, delay: 2s}}\n",
                                &with_env),
                     0);
    ck_assert(c.cluster.nodes == 2 && c.cluster.encrypt && c.cluster.silence_s == 10);
    ck_assert(c.cluster.start_within_s == 5 && c.cluster.restart.max_restarts == 0);
    ck_assert(c.cluster.restart.delay_s == 2 && c.cluster.restart.within_s == 60 &&
              c.cluster.restart.max_delay_s == 10 &&
              c.cluster.restart.policy == RESTART_PERMANENT);
    run_config_done(&c);
    ck_assert_int_eq(
        parse_with(&c, ENV "cluster: {launcher: local, hosts: [a, b, c]}\n", &with_env),
        0);
    ck_assert(c.cluster.nodes == 3 && c.cluster.start_within_s == 60);
    ck_assert(c.cluster.restart.max_restarts == 5 && c.cluster.restart.delay_s == 0.1);
    run_config_done(&c);
    ck_assert_int_eq(parse_with(&c,
                                ENV "cluster: {launcher: local, restart: {within: 0s}}\n",
                                &with_env),
                     ERR_CONFIG);
}
END_TEST

START_TEST(an_optional_map_may_be_none)
{
    struct run_config c =
        parse("run: {stop_when: {metric: eval/x, below: -2}}\n" ENV "cluster: none\n");

    ck_assert(c.run.has_stop_when && c.run.stop_when.below == -2 && !c.has_cluster);
    ck_assert(field_is_unset(c.run.stop_when.above));
    ck_assert_int_eq(c.run.stop_when.evaluations, 1);
    run_config_done(&c);
    c = parse(ENV "defaults: {actor: {optimizer: {type: sgd}}}\n"
                  "agents: {agent_1: {actor: {optimizer: none}}}\n");
    for (int again = 0; again < 2; again++) {
        char *text = run_config_to_yaml(&c);

        ck_assert(c.agents[0].actor.has_optimizer && !c.agents[1].actor.has_optimizer);
        run_config_done(&c);
        c = parse(text);
        free(text);
    }
    run_config_done(&c);
    c = parse("run: {stop_when: none}\n" ENV "experience: {priority: none}\n");
    ck_assert(!c.run.has_stop_when && !c.experience.has_priority);
    run_config_done(&c);
}
END_TEST

START_TEST(keep_best_may_be_a_metric_alone)
{
    struct run_config c = parse(ENV "checkpoint: {keep_best: eval/x}\n"), set;
    const char *assignments[] = {"checkpoint.keep_best=eval/y"},
               *with_mode[] = {assignments[0], "checkpoint.keep_best.mode=min"};

    ck_assert(c.checkpoint.has_keep_best && !c.checkpoint.keep_best.is_min);
    ck_assert_str_eq(c.checkpoint.keep_best.metric, "eval/x");
    ck_assert_int_eq(run_config_set(&set, &c, assignments, 1, &err), 0);
    ck_assert_str_eq(set.checkpoint.keep_best.metric, "eval/y");
    run_config_done(&set);
    ck_assert_int_eq(run_config_set(&set, &c, with_mode, 2, &err), 0);
    ck_assert_str_eq(set.checkpoint.keep_best.metric, "eval/y");
    ck_assert(set.checkpoint.keep_best.is_min);
    run_config_done(&set);
    run_config_done(&c);
    c = parse(ENV "checkpoint: {keep_best: {metric: eval/x, mode: min}}\n");
    ck_assert(c.checkpoint.has_keep_best && c.checkpoint.keep_best.is_min);
    run_config_done(&c);
    c = parse(ENV "checkpoint: {keep_best: none}\n");
    ck_assert(!c.checkpoint.has_keep_best);
    run_config_done(&c);
    ck_assert_int_eq(
        parse_with(&c, ENV "checkpoint: {keep_best: rollout/x}\n", &with_env),
        ERR_CONFIG);
    ck_assert_str_eq(err.msg,
                     "f.yaml:2: checkpoint.keep_best: found 'rollout/x', expected "
                     "a column of evaluations, eval/...");
}
END_TEST

START_TEST(a_short_run_has_a_short_warmup)
{
    static const struct {
        const char *text;
        int64_t warmup;
        const char *untrained;
    } cases[] = {
        {"run: {env_steps: 25600}\n" ENV, 25600, NULL},
        {"run: {env_steps: 25568}\n" ENV, 2556, NULL}, /* 799 rounds of 32 copies */
        {"run: {env_steps: 1000}\n" ENV, 102, NULL},
        {"run: {episodes: 1024}\n" ENV, 25600, NULL}, /* of 25 steps each */
        {"run: {episodes: 992}\n" ENV, 2480, NULL},
        {"run: {episodes: 1}\nenv: {id: simple_spread, max_steps: 0}\n", 25600, NULL},
        {"run: {env_steps: 25600}\n" ENV "experience: {update_every: 1000}\n", 2560,
         NULL},
        {"run: {env_steps: 1000}\n" ENV "experience: {warmup: 5000}\n", 5000,
         "experience.warmup: nothing is trained: the first update comes after 5000 "
         "steps, and the run ends after 1024"},
        {"run: {env_steps: 64}\n" ENV, 6,
         "experience.update_every: nothing is trained: the first update comes after 100 "
         "steps, and the run ends after 64"},
        {"run: {env_steps: 1000}\n" ENV "defaults: {experience: {warmup: 1001}}\n", 25600,
         "defaults.experience.warmup: nothing is trained: the first update comes after "
         "1100 steps, and the run ends after 1024"},
        {"run: {env_steps: 1000}\n" ENV
         "defaults: {algorithm: random}\nagents: {agent_1: {algorithm: maddpg, "
         "experience: {warmup: 1001}}}\n",
         25600,
         "agents.agent_1.experience.warmup: nothing is trained: the first update comes "
         "after 1100 steps, and the run ends after 1024"},
        {"run: {env_steps: 1000}\n" ENV "defaults: {algorithm: random}\n", 25600, NULL},
        {"run: {env_steps: 700}\n" ENV "defaults: {algorithm: ippo}\n", 25600,
         "experience.update_every: nothing is trained: the first update comes after 800 "
         "steps, and the run ends after 704"},
    };
    struct run_config c = parse(cases[_i].text);
    const int64_t steps = run_config_most_steps(&c);
    char *why = steps > 0 ? run_config_untrained(&c, steps) : NULL;

    ck_assert_int_eq(c.experience.warmup, cases[_i].warmup);
    ck_assert_pstr_eq(why, cases[_i].untrained);
    free(why);
    run_config_done(&c);
}
END_TEST

/* Other tools that write YAML quote values with a unit, and some quote everything. */
START_TEST(quoted_values_are_read)
{
    struct run_config c =
        parse("run: {seed: '7', episodes: \"1e3\"}\n" ENV "experience: {keep: 'true'}\n"
              "defaults:\n"
              "  discount: '0.9'\n"
              "  clip_norm: 'none'\n"
              "  respond_within: '100ms'\n"
              "  memory_limit: \"300M\"\n"
              "  actor: {hidden: ['8', 4]}\n"
              "  settings: {own_batches: 'true',\n"
              "             temperature: '1 to 0.5 over 10',\n"
              "             exploration_noise: {from: '1', to: 0, over: "
              "'9'}}\n");
    const struct agent_config *a = &c.defaults;

    ck_assert(c.run.seed == 7 && c.run.episodes == 1000);
    ck_assert_int_eq(c.experience.keep, KEEP_LOG_ALWAYS);
    ck_assert(a->discount == 0.9 && a->clip_norm == 0);
    ck_assert(a->respond_within_s == 0.1 && a->memory_limit_bytes == 300 << 20);
    ck_assert(a->actor.hidden.n == 2 && a->actor.hidden.size[0] == 8);
    ck_assert_str_eq(setting_text(a, "own_batches"), "true");
    ck_assert_str_eq(setting_text(a, "temperature"), "1 to 0.5 over 10");
    ck_assert_str_eq(setting_text(a, "exploration_noise"), "1 to 0 over 9");
    run_config_done(&c);
}
END_TEST

/* The file of a run, which an older build wrote, and not one of a user. */
START_TEST(a_size_without_its_unit_is_read_only_in_a_run)
{
    static const char *const set[] = {"defaults.memory_limit=512"};
    static const char text[] = "run: {env_steps: 5}\n"
                               "env: {command: [play], memory_limit: 300000001}\n"
                               "defaults: {memory_limit: 100000001}\n"
                               "agents: {a: {}, b: {memory_limit: 200000001}}\n";
    const struct config_options of_run = {0}, of_user = {.extends = 1},
                                with_set = {.set = set, .n_set = 1};
    struct run_config c;

    ck_assert_msg(parse_with(&c, text, &of_run) == 0, "%s", err.msg);
    ck_assert_int_eq(c.env.memory_limit_bytes, 300000001);
    ck_assert_int_eq(c.agents[0].memory_limit_bytes, 100000001);
    ck_assert_int_eq(c.agents[1].memory_limit_bytes, 200000001);
    run_config_done(&c);
    ck_assert_int_eq(parse_with(&c, text, &of_user), ERR_CONFIG);
    ck_assert_str_eq(err.msg,
                     "f.yaml:2: env.memory_limit: found '300000001', expected none "
                     "or a size with its unit, such as 512M (B, K, M, G, T)");
    ck_assert_int_eq(parse_with(&c, text, &with_set), ERR_CONFIG);
    ck_assert_str_eq(err.msg,
                     "--set defaults.memory_limit=512: defaults.memory_limit: found "
                     "'512', expected none or a size with its unit, such as 512M "
                     "(B, K, M, G, T)");
}
END_TEST

START_TEST(values_are_set_on_the_command_line)
{
    static const char *const set[] = {
        "agents.agent_0.optimizer.learning_rate=0.001",
        "run.episodes=100",
        "run.env_steps=",
        "defaults.critic.hidden.1=7",
        "env.params={agents: 4}",
    };
    const struct config_options options = {
        .set = set, .n_set = 5, .env_names = three_agents};
    struct run_config c;

    ck_assert_int_eq(parse_with(&c,
                                "run: {env_steps: 5}\nenv: {id: simple_spread}\n"
                                "defaults: {critic: {hidden: [1, 2, 3]}}\n",
                                &options),
                     0);
    ck_assert(c.agents[0].optimizer.learning_rate.from == 0.001);
    ck_assert(c.agents[1].optimizer.learning_rate.from == 0.003);
    ck_assert(c.run.episodes == 100 && c.run.env_steps == 0);
    ck_assert(c.agents[3].critic.hidden.size[1] == 7);
    run_config_done(&c);
}
END_TEST

static int parse_new(struct run_config *c, const char *text)
{
    static const struct config_options options = {.env_names = three_agents,
                                                  .extends = 1};

    return parse_with(c, text, &options);
}

START_TEST(values_may_change_at_steps)
{
    static const char text[] =
        "env: {id: simple_spread, params: {at: {0: 1}}}\n"
        "evaluation: {every_env_steps: {at: {0: 0, 5000: 100}}}\n"
        "defaults:\n"
        "  discount: {at: {0: 0.9, 1000: 0.95, 5000: 0.99}}\n"
        "agents:\n"
        "  agent: {optimizer: {learning_rate: {at: {0: 0.01, 700: 1 to 0 over 900}}}}\n"
        "  agent_2: {discount: {at: {0: 0.5, 1000: 0.6}}}\n";
    struct run_config c, copy;

    ck_assert_msg(parse_new(&c, text) == 0, "%s", err.msg);
    ck_assert(c.defaults.discount == 0.9 && c.agents[1].discount == 0.9);
    ck_assert(c.agents[2].discount == 0.5 && c.evaluation.every_env_steps == 0);
    ck_assert(c.agents[0].optimizer.learning_rate.from == 0.01);
    ck_assert_uint_eq(c.plan->n, 7);
    ck_assert_uint_eq(c.plan->list[0].at, 700);
    run_config_copy(&copy, &c);
    ck_assert(copy.plan == NULL);
    run_config_done(&copy);
    ck_assert_int_eq(change_plan_fold(c.plan, 700, &c, &copy, &err), 0);
    ck_assert(copy.agents[1].optimizer.learning_rate.to == 0);
    run_config_done(&copy);
    ck_assert_int_eq(change_plan_fold(c.plan, 4999, &c, &copy, &err), 0);
    ck_assert(copy.agents[0].discount == 0.95 && copy.agents[2].discount == 0.6);
    run_config_done(&copy);
    ck_assert_int_eq(change_plan_fold(c.plan, 5000, &c, &copy, &err), 0);
    ck_assert(copy.agents[0].discount == 0.99 && copy.agents[2].discount == 0.6);
    ck_assert_int_eq(copy.evaluation.every_env_steps, 100);
    run_config_done(&copy);
    run_config_done(&c);
    /* steps are refused in a run's own file */
    ck_assert_int_eq(parse_with(&c, text, &with_env), ERR_CONFIG);
}
END_TEST

static int check_own_values(void *ctx, uint64_t at, const struct run_config *now,
                            struct err *why)
{
    (void)why;
    *(struct run_config *)ctx = *now;
    ck_assert(now->agents[0].polyak == 0.01 && now->agents[0].discount == 0.95);
    ck_assert(now->agents[1].polyak == (at < 30 ? 0.005 : 0.01));
    ck_assert(now->agents[1].discount == now->defaults.discount);
    ck_assert(now->agents[2].polyak == now->defaults.polyak);
    for (size_t k = 0; k < 3; k++)
        ck_assert(now->agents[k].optimizer.learning_rate.from == 0.01);
    return 0;
}

/* Also while it equals the default; an agent without a value of its own follows. */
START_TEST(an_agents_own_value_stays_when_the_default_moves)
{
    static const char keys[] = "env: {id: simple_spread}\n"
                               "defaults:\n"
                               "  polyak: {at: {0: 0.01, 20: 0.005, 40: 0.03}}\n"
                               "  discount: 0.9 to 0.99 over 90\n"
                               "  optimizer: {learning_rate: {at: {0: 0.01, 30: 0.02}}}\n"
                               "agents:\n"
                               "  agent_0: {polyak: 0.010, discount: 0.95}\n"
                               "  agent_1: {polyak: {at: {0: 0.005, 30: 0.01}}}\n"
                               "  agent: {optimizer: {learning_rate: 0.01}}\n";
    static const char section[] =
        "env: {id: simple_spread}\n"
        "defaults:\n"
        "  polyak: {at: {0: 0.01, 20: 0.005, 40: 0.03}}\n"
        "  discount: 0.9 to 0.99 over 90\n"
        "  optimizer: {at: {0: {learning_rate: 0.01}, 30: {learning_rate: 0.02}}}\n"
        "agents:\n"
        "  agent_0: {polyak: 0.010, discount: 0.95, optimizer: {at: {0: {learning_rate: "
        "0.01},\n"
        "            40: {learning_rate: 0.01}}}}\n"
        "  agent_1: {polyak: {at: {0: 0.005, 30: 0.01}}, optimizer: {learning_rate: "
        "0.01}}\n"
        "  agent_2: {optimizer: {learning_rate: 0.01}}\n";
    const char *const texts[] = {keys, section};
    struct run_config c, now;

    ck_assert_msg(parse_new(&c, texts[_i]) == 0, "%s", err.msg);
    ck_assert_int_eq(change_plan_each_step(c.plan, &c, check_own_values, &now, &err), 0);
    ck_assert(now.defaults.polyak == 0.03 && now.defaults.discount == 0.99);
    ck_assert(now.defaults.optimizer.learning_rate.from == 0.02);
    run_config_done(&c);
}
END_TEST

/* A value ends a schedule even if it is the one in force; an agent's own schedule goes on where
 * the default, whose value it happens to have, moves. */
START_TEST(schedules_end_where_the_file_says)
{
    static const char text[] = "env: {id: simple_spread}\n"
                               "defaults:\n"
                               "  discount: {at: {0: 0.9 to 0.99 over 1000, 5: 0.9}}\n"
                               "  polyak: {at: {0: 0.01, 1: 0.02}}\n"
                               "agents:\n"
                               "  agent_0: {polyak: 0.01 to 0.05 over 200}\n";
    struct run_config c, is;

    ck_assert_msg(parse_new(&c, text) == 0, "%s", err.msg);
    ck_assert_int_eq(change_plan_fold(c.plan, UINT64_MAX, &c, &is, &err), 0);
    ck_assert(is.defaults.discount == 0.9 && is.agents[2].discount == 0.9);
    ck_assert(is.agents[0].polyak == 0.05 && is.agents[1].polyak == 0.02);
    run_config_done(&is);
    run_config_done(&c);
}
END_TEST

START_TEST(the_values_of_a_step_take_effect_together)
{
    static const char together[] = "env: {id: simple_spread}\n"
                                   "checkpoint:\n"
                                   "  every_seconds: {at: {0: 0, 500: 60}}\n"
                                   "  every_env_steps: {at: {0: 1000, 500: 0}}\n";
    static const char apart[] = "env: {id: simple_spread}\n"
                                "checkpoint:\n"
                                "  every_seconds: {at: {0: 0, 500: 60}}\n"
                                "  every_env_steps: {at: {0: 1000, 501: 0}}\n";
    struct run_config c;

    ck_assert_msg(parse_new(&c, together) == 0, "%s", err.msg);
    ck_assert_uint_eq(c.plan->n, 2);
    run_config_done(&c);
    ck_assert_int_eq(parse_new(&c, apart), ERR_CONFIG);
    ck_assert_msg(strstr(err.msg, "f.yaml:3: ") == err.msg &&
                      strstr(err.msg, "every_seconds") != NULL,
                  "%s", err.msg);
}
END_TEST

/* The first request of the plan, "KEY=VALUE". */
static void assert_first_request(const struct run_config *c, const char *expected)
{
    struct config_setting set = {0};
    char *text;

    for (size_t i = c->plan->n; i-- > 0;)
        if (c->plan->list[i].number == 0)
            set = c->plan->list[i].set;
    text = config_settings_text(&(struct config_settings){&set, 1, 1});
    ck_assert_str_eq(text, expected);
    free(text);
}

/* The steps of one key, "STEP:VALUE ...". */
static void assert_steps(const struct run_config *c, const char *key, size_t first,
                         size_t n, const char *expected)
{
    char *text = NULL;
    size_t bytes = 0, k = 0;
    FILE *f = open_memstream(&text, &bytes);

    ck_assert_ptr_nonnull(f);
    for (size_t i = 0; i < c->plan->n; i++) {
        const struct config_setting *set = &c->plan->list[i].set;
        char *value = schema_text_of(set->field, &set->value);

        if (strcmp(set->path, key) == 0 && k++ >= first && k <= first + n)
            (void)fprintf(f, "%s%d:%s", k > first + 1 ? " " : "",
                          (int)c->plan->list[i].at, value);
        free(value);
    }
    ck_assert_int_eq(fclose(f), 0);
    ck_assert_str_eq(text, expected);
    free(text);
}

/* A number that its readers take for a constant changes in a hundred steps, or in fewer if
 * there are fewer whole numbers or environment steps. */
START_TEST(constants_move_in_steps)
{
    static const char text[] =
        "env: {id: simple_spread}\n"
        "evaluation: {every_env_steps: {from: 10, to: 13, over: 600}}\n"
        "experience: {update_every: 20 to 10 over 5}\n"
        "defaults:\n"
        "  discount: {from: 0.9, to: 0.99, over: 1001}\n"
        "  memory_limit: 1M to 2M over 2\n"
        "  settings: {exploration_noise: 1 to 0 over 9}\n"
        "agents:\n"
        "  agent: {discount: {at: {0: 0.5, 70: 0 to 1 over 200, 75: 0.25}}}\n";
    struct run_config c;

    ck_assert_msg(parse_new(&c, text) == 0, "%s", err.msg);
    ck_assert(c.defaults.discount == 0.9 && c.agents[0].discount == 0.5);
    ck_assert_int_eq(c.evaluation.every_env_steps, 10);
    assert_steps(&c, "evaluation.every_env_steps", 0, 9, "102:11 300:12 504:13");
    assert_steps(&c, "experience.update_every", 0, 9, "1:18 2:16 3:14 4:12 5:10");
    assert_steps(&c, "defaults.discount", 0, 2, "11:0.900989011 21:0.901888112");
    assert_steps(&c, "defaults.discount", 98, 9, "991:0.989100899 1001:0.99");
    assert_steps(&c, "defaults.memory_limit", 0, 9, "1:1536K 2:2M");
    assert_steps(&c, "agents.agent_2.discount", 0, 9, "70:0.35 72:0.36 74:0.37 75:0.25");
    assert_first_request(&c, "experience.update_every=20 to 10 over 5");
    run_config_done(&c);
    ck_assert_int_eq(parse_with(&c, text, &with_env), ERR_CONFIG);
    ck_assert_int_eq(parse_new(&c, "env: {id: none}\n"
                                   "agents: {a: {observation: 1, action: 1}}\n"
                                   "defaults: {polyak: 0 to 1 over 9}\n"),
                     ERR_CONFIG);
    ck_assert_str_eq(err.msg, "f.yaml:3: found a schedule, expected a number: without an "
                              "environment (env.id: none) there are no steps to follow");
}
END_TEST

START_TEST(a_members_own_value_overrides_its_teams_at_steps)
{
    static const char text[] =
        "env: {id: simple_spread}\n"
        "agents:\n"
        "  agent_2: {polyak: {at: {0: 0.1, 300: 0.2}}, optimizer: {beta1: 0.5}}\n"
        "  agent:\n"
        "    polyak: {at: {0: 0.01, 300: 0.5, 400: 0.6}}\n"
        "    optimizer: {learning_rate: {at: {0: 0.1, 300: 0.2}}}\n"
        "    discount: 0.5 to 0.6 over 2\n"
        "  agent_1: {polyak: 0.3, discount: 0.7, optimizer: {learning_rate: 1}}\n";
    struct run_config c;

    ck_assert_msg(parse_new(&c, text) == 0, "%s", err.msg);
    ck_assert_uint_eq(c.plan->n, 9);
    assert_steps(&c, "agents.agent_0.polyak", 0, 9, "300:0.5 400:0.6");
    assert_steps(&c, "agents.agent_2.polyak", 0, 9, "300:0.2");
    assert_steps(&c, "agents.agent_0.optimizer.learning_rate", 0, 9, "300:0.2");
    assert_steps(&c, "agents.agent_2.optimizer.learning_rate", 0, 9, "300:0.2");
    assert_steps(&c, "agents.agent_0.discount", 0, 9, "1:0.55 2:0.6");
    assert_steps(&c, "agents.agent_2.discount", 0, 9, "1:0.55 2:0.6");
    assert_first_request(&c, "agents.agent_0.discount=0.5 to 0.6 over 2");
    run_config_done(&c);
}
END_TEST

/* A key without effect is dropped with its values for later steps. */
START_TEST(keys_are_dropped_with_their_steps)
{
    static const struct {
        const char *text, *set, *lines;
        size_t n_steps; /* that are kept */
    } cases[] = {
        {"experience: {priority: {beta: {at: {0: 0.4, 500: 0.9}}}}\n"
         "defaults: {algorithm: mappo, discount: {at: {0: 0.9, 500: 0.8}}}\n",
         "defaults.polyak=0.1",
         "experience: dropped priority: not used by mappo, which learns from the newest "
         "rows of every copy\n",
         1},
        {"agents:\n"
         "  agent: {algorithm: ippo, settings: {gae: {at: {0: 0.9, 300: 0.8}}}}\n"
         "  agent_0: {algorithm: ddpg}\n",
         "defaults.polyak=0.1",
         "agents.agent_0.settings: dropped gae: no setting of ddpg\n", 2},
        {"defaults: {algorithm: iql, settings: {epsilon: {at: {0: 0.5, 500: 0.1}}}}\n",
         "defaults.algorithm=maddpg",
         "defaults.settings: dropped epsilon: no setting of maddpg\n", 0},
    };
    char *lines = NULL, *text = xasprintf(ENV "%s", cases[_i].text);
    size_t len = 0;
    FILE *f = open_memstream(&lines, &len);
    const struct config_options options = {.env_names = three_agents,
                                           .extends = 1,
                                           .set = &cases[_i].set,
                                           .n_set = 1,
                                           .dropped = keep_line,
                                           .dropped_ctx = f};
    struct run_config c;

    ck_assert_msg(parse_with(&c, text, &options) == 0, "%s", err.msg);
    ck_assert_int_eq(fclose(f), 0);
    ck_assert_str_eq(lines, cases[_i].lines);
    ck_assert_uint_eq(c.plan != NULL ? c.plan->n : 0, cases[_i].n_steps);
    run_config_done(&c);
    free(lines);
    free(text);
}
END_TEST

/* A live run takes schedules; a team's is given to each of its agents. One that agents
 * follow by themselves counts as a value. */
START_TEST(schedules_are_given_to_live_runs)
{
    static const char *const set[] = {
        "defaults.discount=0.5 to 0.75 over 100",
        "agents.agent_1.polyak={from: 0, to: 1, over: 4}",
        "agents.agent.clip_norm=1 to 2 over 9",
        "agents.agent_1.optimizer.learning_rate=1 to 0 over 9",
        "log.every_env_steps=10000"};
    static const char *const wrong = "defaults.discount=0.5 to 2 over 9";
    struct config_settings given = {0};
    struct run_config c, next;
    char *text;

    ck_assert_int_eq(parse_new(&c, "env: {id: simple_spread}\n"), 0);
    ck_assert_msg(run_config_set_live(&next, &c, set, 5, &given, &err) == 0, "%s",
                  err.msg);
    ck_assert(next.agents[2].discount == 0.75 && next.agents[1].polyak == 1);
    ck_assert(next.agents[1].optimizer.learning_rate.over == 9);
    text = config_settings_text(&given);
    ck_assert_str_eq(text,
                     "defaults.discount=0.5 to 0.75 over 100,agents.agent_1.polyak=0 "
                     "to 1 over 4,agents.agent_0.clip_norm=1 to 2 over "
                     "9,agents.agent_1.clip_norm=1 to 2 over "
                     "9,agents.agent_2.clip_norm=1 to 2 over "
                     "9,agents.agent_1.optimizer.learning_rate=1 to 0 over "
                     "9,log.every_env_steps=10000");
    free(text);
    config_settings_done(&given);
    run_config_done(&next);
    ck_assert_int_eq(run_config_set_live(&next, &c, &wrong, 1, &given, &err), ERR_CONFIG);
    ck_assert_ptr_nonnull(strstr(err.msg, "found '2', expected a number"));
    config_settings_done(&given);
    run_config_done(&c);
}
END_TEST

static const struct {
    const char *value, *message;
} wrong_steps[] = {
    {"discount: {at: {0: 0.9, 100: 1.5}}",
     "f.yaml:3: defaults.discount: found '1.5', expected a number of at least 0 and at "
     "most 1"},
    {"discount: {at: {0: 2, 100: 1}}", "f.yaml:3: defaults.discount: found '2', expected "
                                       "a number of at least 0 and at most 1"},
    {"discount: {at: {10: 0.9}}", "f.yaml:3: defaults.discount: found step '10', "
                                  "expected {at: {0: VALUE, STEP: VALUE, "
                                  "...}} with growing steps"},
    {"discount: {at: {0: 0.9, 20: 1, 10: 0}}",
     "f.yaml:3: defaults.discount: found step '10', expected {at: {0: VALUE, STEP: "
     "VALUE, "
     "...}} with growing steps"},
    {"discount: {at: {0: 0.9, soon: 1}}", "f.yaml:3: defaults.discount: found step "
                                          "'soon', expected {at: {0: VALUE, STEP: VALUE, "
                                          "...}} with growing steps"},
    {"discount: {at: 0.9}",
     "f.yaml:3: defaults.discount: expected {at: {0: VALUE, STEP: VALUE, ...}}"},
    {"actor: {hidden: {at: {0: [64], 100: [32]}}}",
     "f.yaml:3: defaults.actor.hidden: cannot change while the run lives, expected one "
     "value"},
    {"discount: {from: 0.9, to: 1.5, over: 10}",
     "f.yaml:3: defaults.discount: found '1.5', expected a number of at least 0 and at "
     "most 1"},
    {"discount: {from: 0.9, to: 1}",
     "f.yaml:3: defaults.discount: expected a schedule such as {from: 1, to: 5, over: "
     "50000}, or 1 to 5 over 50000"},
    {"discount: 0.9 to 1 over 0",
     "f.yaml:3: defaults.discount.over: found '0', expected a whole number of at least 1 "
     "and at most 1e+15"},
    {"clip_norm: none to 1 over 9", "f.yaml:3: defaults.clip_norm: found 'none' in a "
                                    "schedule, expected a number to begin "
                                    "and one to end with"},
    {"discount: {from: 0.9, to: 1, over: 9, at: {0: 1}}",
     "f.yaml:3: defaults.discount: found `at` beside from, to or over, expected one of "
     "the "
     "two (what a file extends has its keys, too)"},
    {"settings: {epochs: 1 to 5 over 10}\n  algorithm: mappo",
     "f.yaml:3: defaults.settings.epochs: cannot change while the run lives, expected "
     "one "
     "value"},
    {"discount: 1\nrun: {env_steps: {at: {0: 2000, 2017: 4000}}}",
     "f.yaml:4: run.env_steps: the run ends at step 2000, before the value of step 2017"},
    {"discount: 1\nrun: {episodes: {at: {0: 9, 2000: 20}}}",
     "f.yaml:4: run.episodes: the run ends after 9 episodes, which may be before step "
     "2000: "
     "a length cannot wait for it"},
    {"discount: 1\nrun: {env_steps: {at: {0: 4000, 3000: 2000}}}",
     "f.yaml:4: run.env_steps: 2000 is past at step 3000"},
    {"clip_norm: {at: {0: 0.5, 10: 1e300}}",
     "f.yaml:3: defaults.clip_norm: found '1e300', expected a number that is finite in "
     "32 bits (at most 3.4e38)"},
    {"optimizer: {learning_rate: 1e144}", "f.yaml:3: defaults.optimizer.learning_rate: "
                                          "found '1e144', expected a number that is "
                                          "finite in 32 bits (at most 3.4e38)"},
    {"optimizer: {learning_rate: 1e-50}", "f.yaml:3: defaults.optimizer.learning_rate: "
                                          "found '1e-50', expected a number that is not "
                                          "0 in 32 bits (at least 1.4e-45)"},
    {"clip_norm: 1e-50", "f.yaml:3: defaults.clip_norm: found '1e-50', expected a number "
                         "that is not 0 in 32 bits (at least 1.4e-45)"},
    {"optimizer: {learning_rate: 1 to 1e-50 over 9}",
     "f.yaml:3: defaults.optimizer.learning_rate: found '1 to 1e-50 over 9', expected a "
     "schedule within the number's range, such as 1 to 0.05 over 50000"},
    {"optimizer: {learning_rate: 1 to 1e144 over 9}",
     "f.yaml:3: defaults.optimizer.learning_rate: found '1 to 1e144 over 9', expected a "
     "schedule within the number's range, such as 1 to 0.05 over 50000"},
    {"algorithm: {at: {0: maddpg, 100: ddpg}}",
     "f.yaml:3: defaults.algorithm: cannot change while the run lives, expected one "
     "value"},
};

START_TEST(wrong_steps_name_their_line)
{
    struct run_config c;
    char *text =
        xasprintf("env: {id: simple_spread}\ndefaults:\n  %s\n", wrong_steps[_i].value);

    ck_assert_int_eq(parse_new(&c, text), ERR_CONFIG);
    ck_assert_str_eq(err.msg, wrong_steps[_i].message);
    free(text);
}
END_TEST

START_TEST(wrong_settings_name_their_option)
{
    static const struct {
        const char *set, *message;
    } cases[] = {
        {"run.sead=1",
         "--set run.sead=1: run.sead: unknown key, expected name, seed, env_steps, "
         "episodes, on_supervisor_death, watchdog, "
         "numerics, mode or stop_when; did you mean 'seed'?"},
        {"run.seed=x",
         "--set run.seed=x: run.seed: found 'x', expected a whole number of at least 0"},
        {"experience.batch_size=2000000",
         "--set experience.batch_size=2000000: experience.batch_size: found 2000000, "
         "expected at most experience.capacity, 1000000"},
        {"agents.agent_7.discount=1",
         "--set agents.agent_7.discount=1: agents: found 'agent_7', expected agent_0, "
         "agent_1, agent_2 or agent; did you mean 'agent_0'?"},
    };
    const struct config_options options = {
        .set = &cases[_i].set, .n_set = 1, .env_names = three_agents};
    struct run_config c;

    ck_assert_int_eq(parse_with(&c, ENV, &options), ERR_CONFIG);
    ck_assert_str_eq(err.msg, cases[_i].message);
}
END_TEST

/* Each text is the same configuration as the one below it. */
START_TEST(short_forms_are_moved_to_their_place)
{
    static const char *const same[][2] = {
        {"defaults: {algorithm: iql, n_step: 3, last_action: true, agent_id: true,\n"
         "  epsilon: {from: 1.0, to: 0.05, over: 50000}, reward_scale: running}\n",
         "defaults: {algorithm: iql, settings: {n_step: 3, last_action: true, agent_id: "
         "true,\n"
         "  epsilon: {from: 1.0, to: 0.05, over: 50000}, reward_scale: running}}\n"},
        {"defaults: {algorithm: iql, recurrent: {cell: gru, width: 32}, lambda: none,\n"
         "  target: {every: 200}}\n"
         "agents: {agent_1: {recurrent: none, target: {polyak: 0.5}, lambda: 0.7},\n"
         "  agent_2: {recurrent: {cell: lstm, width: 8}}}\n",
         "defaults: {algorithm: iql, settings: {recurrent: 32, lambda: 0, target_every: "
         "200}}\n"
         "agents: {agent_1: {settings: {recurrent: 0, lambda: 0.7}, polyak: 0.5},\n"
         "  agent_2: {settings: {recurrent: 8, cell: lstm}}}\n"},
        {"defaults: {algorithm: iql, priority: {alpha: 0.6, beta: 0.4}}\n",
         "defaults: {algorithm: iql}\nexperience: {priority: {alpha: 0.6, beta: 0.4}}\n"},
        {"defaults: {algorithm: iql, batch_size: 8}\nagents: {agent_1: {warmup: 64}}\n",
         "defaults: {algorithm: iql, experience: {batch_size: 8}}\n"
         "agents: {agent_1: {experience: {warmup: 64}}}\n"},
        {"defaults: {algorithm: iql, priority: none}\n", "defaults: {algorithm: iql}\n"},
        {"defaults: {algorithm: mappo, value_norm: none,\n"
         "  share: [[agent_0, agent_2], [agent_1]], agent_id: auto}\n"
         "agents: {agent_0: , agent_2: {clip_norm: 1}}\nenv: {reward: team_mean, id: "
         "simple_spread}\n",
         "defaults: {algorithm: mappo, settings: {value_norm: none, agent_id: false}}\n"
         "agents: {agent_0: {share: [agent_0, agent_2], settings: {agent_id: true}},\n"
         "  agent_1: {share: [agent_1], settings: {agent_id: true}}, agent_2: {share: "
         "[agent_0, agent_2],\n"
         "  clip_norm: 1, settings: {agent_id: true}}}\nenv: {reward: "
         "team_mean, id: simple_spread}\n"},
        {"defaults: {algorithm: iql, settings: {symmetry: env}, agent_id: auto, share: "
         "team}\n",
         "defaults: {algorithm: iql, settings: {symmetry: env, agent_id: false}, share: "
         "team}\n"},
        {"env: {id: simple_spread, observe: entities}\n"
         "defaults: {algorithm: iql, agent_id: auto, share: team,\n"
         "  critic: {entities: {units: [8]}}}\n"
         "agents: {agent_1: {critic: {entities: {pool: max}}}}\n",
         "env: {id: simple_spread, observe: entities}\n"
         "defaults: {algorithm: iql, share: team, settings: {agent_id: false},\n"
         "  actor: {entities: {units: [64], pool: mean, heads: 1}},\n"
         "  critic: {entities: {units: [8], pool: mean, heads: 1}}}\n"
         "agents: {agent_1: {critic: {entities: {units: [8], pool: max, heads: 1}}}}\n"}};

    for (size_t i = 0; i < sizeof(same) / sizeof(same[0]); i++) {
        char *yaml[2];

        for (int k = 0; k < 2; k++) {
            const char *env =
                strstr(same[i][k], "env: {") == NULL ? "env: {id: simple_spread}\n" : "";
            char *text = xasprintf("%s%s", same[i][k], env);
            struct run_config c = parse(text);

            yaml[k] = run_config_to_yaml(&c);
            run_config_done(&c);
            free(text);
        }
        ck_assert_str_eq(yaml[0], yaml[1]);
        free(yaml[0]);
        free(yaml[1]);
    }
}
END_TEST

/* Of a run's file, for an environment with other numbers of agents. */
START_TEST(resized_teams_have_the_first_members_section)
{
    static const char text[] = "env: {id: simple_spread}\ndefaults: {algorithm: iql}\n"
                               "agents: {agent_0: {discount: 0.5}, agent_1: {discount: "
                               "0.25}, agent_2: {}}\n";
    const char *const set[] = {"env.params={agents: 4}", "env.params={agents: 1}"};
    struct config_options options = {
        .set = set, .n_set = 1, .env_names = three_agents, .resized = 1};
    struct run_config c;

    ck_assert_msg(parse_with(&c, text, &options) == 0, "%s", err.msg);
    ck_assert_uint_eq(c.n_agents, 4);
    for (size_t i = 0; i < c.n_agents; i++)
        ck_assert_double_eq(c.agents[i].discount, i == 1 ? 0.25 : i == 2 ? 0.95 : 0.5);
    ck_assert_str_eq(c.agents[3].name, "agent_3");
    run_config_done(&c);
    options.set = set + 1;
    ck_assert_msg(parse_with(&c, text, &options) == 0, "%s", err.msg);
    ck_assert_uint_eq(c.n_agents, 1);
    run_config_done(&c);
    options.resized = 0;
    ck_assert_int_eq(parse_with(&c, text, &options), ERR_CONFIG);
}
END_TEST

/* A later file or option overrides either form by either form. */
START_TEST(short_forms_override_long_ones)
{
    static const char *const set[] = {"defaults.n_step=4", "agents.agent_1.polyak=0.5",
                                      "agents.agent_2.settings.lambda=0.5"};
    const struct config_options options = {
        .set = set, .n_set = 3, .env_names = three_agents, .extends = 1};
    struct run_config c;
    char folder[64];
    char *top = write_files(
        folder,
        "env: {id: simple_spread}\n"
        "defaults: {algorithm: iql, settings: {epsilon: 0.5, n_step: 2}, lambda: 0.25}\n"
        "agents: {agent_1: {target: {polyak: 0.25}}, agent_2: {lambda: 0.75}}\n",
        "extends: sub/next.yaml\n"
        "defaults: {epsilon: 0.125, settings: {lambda: ~}}\n");

    ck_assert_msg(run_config_read(&c, top, &options, &err) == 0, "%s", err.msg);
    ck_assert_str_eq(setting_text(&c.defaults, "epsilon"), "0.125");
    ck_assert_str_eq(setting_text(&c.defaults, "lambda"), "0");
    ck_assert_str_eq(setting_text(&c.agents[2], "lambda"), "0.5");
    ck_assert_str_eq(setting_text(&c.defaults, "n_step"), "4");
    ck_assert(c.agents[1].polyak == 0.5);
    run_config_done(&c);
    remove_files(folder, top);
}
END_TEST

START_TEST(wrong_short_forms_name_their_line)
{
    static const char *const wrong[][2] = {
        {"defaults:\n  n_step: 3\n  settings: {n_step: 3}\n",
         "f.yaml:2: defaults.n_step: defaults.settings.n_step is given, too"},
        {"defaults:\n  settings: 3\n  n_step: 3\n", "defaults.settings is no map"},
        {"defaults:\n  algorithm: iql\n  recurrent: {cell: rnn, width: 3}\n",
         "f.yaml:3: defaults.settings.cell: found 'rnn', expected gru or lstm"},
        {"defaults:\n  recurrent: {cell: gru}\n", "expected none or {cell: gru, width: "},
        {"agents:\n  agent_0: {target: {polyak: 1, every: 2}}\n",
         "f.yaml:2: agents.agent_0.target: expected {polyak: SHARE} or {every: UPDATES}"},
        {"defaults:\n  target: {polyak: 0.1}\n  polyak: 0.1\n",
         "defaults.target: defaults.polyak is given, too"},
        {"defaults: {priority: {alpha: 1}}\nexperience: {priority: {alpha: 1}}\n",
         "priority: experience.priority is given, too"},
        {"defaults:\n  share: [[agent_0], agent_1]\n",
         "f.yaml:2: defaults.share: expected lists of agents' names"},
        {"defaults:\n  share: [[[agent_0]]]\n", "expected the name of an agent"},
        {"defaults:\n  algorithm: iql\n  epsilon: 3\n",
         "f.yaml:3: defaults.settings.epsilon: found '3'"}};

    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        char *text = xasprintf("%senv: {id: simple_spread}\n", wrong[i][0]);
        struct run_config c;

        ck_assert_int_eq(parse_with(&c, text, &with_env), ERR_CONFIG);
        ck_assert_msg(strstr(err.msg, wrong[i][1]) != NULL, "'%s' is not in '%s'",
                      wrong[i][1], err.msg);
        free(text);
    }
}
END_TEST

START_TEST(files_that_cannot_be_read_are_told)
{
    struct run_config c;

    ck_assert_int_lt(run_config_read(&c, "/nonexistent/x.yaml", NULL, &err), 0);
    ck_assert_str_eq(err.msg, "/nonexistent/x.yaml: No such file or directory");
    ck_assert_int_lt(run_config_read(&c, "/", NULL, &err), 0);
    ck_assert_str_eq(err.msg, "/: Is a directory");
    ck_assert_int_eq(run_config_read(&c, "/dev/zero", NULL, &err), ERR_LIMIT);
}
END_TEST

START_TEST(keys_are_listed)
{
    char *text = NULL;
    size_t len = 0;
    FILE *f = open_memstream(&text, &len);

    run_config_print_keys(f);
    ck_assert_int_eq(fclose(f), 0);
    ck_assert_ptr_nonnull(strstr(text, "  experience.batch_size "));
    ck_assert_ptr_nonnull(strstr(text, "  defaults.optimizer.learning_rate "));
    ck_assert_ptr_nonnull(strstr(text, "mpe2 or openai"));
    for (const char *line = text; *line != '\0'; line = strchr(line, '\n') + 1)
        ck_assert_int_lt(strchr(line, '\n') - line, 140);
    free(text);
}
END_TEST

START_TEST(algorithms_are_found)
{
    ck_assert_str_eq(algorithm_find("maddpg")->stages,
                     "propose(all) > critic(all, writes) > "
                     "learn(all, writes)");
    ck_assert_ptr_null(algorithm_find("none"));
    ck_assert_ptr_null(algorithm_at(1000));
    for (size_t i = 0; algorithm_at(i) != NULL; i++) {
        ck_assert_ptr_nonnull(algorithm_at(i)->use);
        ck_assert_ptr_nonnull(algorithm_at(i)->source);
    }
    ck_assert_ptr_nonnull(schema_find(&algorithm_find("ddpg")->settings, "temperature"));
    ck_assert_ptr_null(schema_find(&algorithm_find("ddpg")->settings, "temp"));
    ck_assert_str_eq(algorithm_default()->name, "maddpg");
    ck_assert(algorithm_plays_in(algorithm_find("random"), "any"));
    ck_assert(algorithm_plays_in(algorithm_find("heuristic"), "simple_tag"));
    ck_assert(!algorithm_plays_in(algorithm_find("heuristic"), "simple_crypto"));
}
END_TEST

static Suite *make_suite(void)
{
    Suite *s = suite_create("config");
    TCase *tc = tcase_create("config");

    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, everything_has_a_default);
    tcase_add_test(tc, names_of_the_runs_own_are_reserved);
    tcase_add_test(tc, agents_override_deeply);
    tcase_add_test(tc, windows_have_no_batch);
    tcase_add_loop_test(tc, the_resolved_file_reads_back_equal, 0, 4);
    tcase_add_loop_test(tc, texts_read_back_whatever_is_in_them, 0, 13);
    tcase_add_test(tc, an_agents_section_travels);
    tcase_add_loop_test(tc, a_wrong_section_is_a_broken_protocol, 0, 4);
    tcase_add_test(tc, mistakes_are_told_in_one_line);
    tcase_add_test(tc, a_team_is_configured_as_its_members);
    tcase_add_test(tc, a_file_extends_another);
    tcase_add_loop_test(tc, what_cannot_be_extended_names_its_file, 0, 9);
    tcase_add_loop_test(tc, a_complete_configuration_takes_another_choice, 0, 6);
    tcase_add_test(tc, keys_of_another_choice_are_refused_on_the_command_line);
    tcase_add_test(tc, a_cluster_completes_what_is_not_given);
    tcase_add_test(tc, an_optional_map_may_be_none);
    tcase_add_test(tc, keep_best_may_be_a_metric_alone);
    tcase_add_loop_test(tc, a_short_run_has_a_short_warmup, 0, 13);
    tcase_add_test(tc, quoted_values_are_read);
    tcase_add_test(tc, values_may_change_at_steps);
    tcase_add_loop_test(tc, an_agents_own_value_stays_when_the_default_moves, 0, 2);
    tcase_add_test(tc, schedules_end_where_the_file_says);
    tcase_add_test(tc, the_values_of_a_step_take_effect_together);
    tcase_add_test(tc, constants_move_in_steps);
    tcase_add_test(tc, schedules_are_given_to_live_runs);
    tcase_add_test(tc, a_members_own_value_overrides_its_teams_at_steps);
    tcase_add_loop_test(tc, keys_are_dropped_with_their_steps, 0, 3);
    tcase_add_loop_test(tc, wrong_steps_name_their_line, 0,
                        sizeof(wrong_steps) / sizeof(wrong_steps[0]));
    tcase_add_test(tc, a_size_without_its_unit_is_read_only_in_a_run);
    tcase_add_test(tc, values_are_set_on_the_command_line);
    tcase_add_loop_test(tc, wrong_settings_name_their_option, 0, 4);
    tcase_add_test(tc, short_forms_are_moved_to_their_place);
    tcase_add_test(tc, resized_teams_have_the_first_members_section);
    tcase_add_test(tc, short_forms_override_long_ones);
    tcase_add_test(tc, wrong_short_forms_name_their_line);
    tcase_add_test(tc, files_that_cannot_be_read_are_told);
    tcase_add_test(tc, keys_are_listed);
    tcase_add_test(tc, algorithms_are_found);
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(make_suite)
