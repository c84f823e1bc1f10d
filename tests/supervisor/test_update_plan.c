/* Groups of agents that learn together, and the stages of an update of mixed teams. */
#include "common/config/algorithms.h"
#include "supervisor/env/env.h"
#include "supervisor/rollout/update_plan.h"
#include "tests/support/test_main.h"

#include <stdio.h>
#include <string.h>

enum { A = 4 }; /* simple_tag: adversary_0, _1, _2, agent_0 */

struct planned {
    struct run_config config;
    struct vec_env *env;
    struct sharing sharing;
    struct learning_groups groups;
    struct description descriptions[A];
    const char *names[A];
    struct update_plan plan;
    struct err err;
    int rc;
};

static struct stage_decl *add(struct description *d, const char *name, int writes)
{
    struct stage_decl *s = &d->stages.stage[d->stages.n];

    (void)snprintf(s->name, sizeof(s->name), "%s", name);
    s->writes = writes;
    s->repeat_from = d->stages.n++;
    s->repeat = 1;
    return s;
}

static void reads(struct stage_decl *s, int stage, const char *name)
{
    struct stage_read *r = &s->reads[s->n_reads++];

    r->stage = stage;
    (void)snprintf(r->name, sizeof(r->name), "%s", name);
}

/* The stages that the algorithms declare. */
static void describe(struct description *d, const struct agent_config *a, int shares)
{
    const char *name = a->algorithm;

    d->proposes = 1;
    d->rows = algorithm_rows(a);
    d->length = d->rows == ROWS_TRANSITIONS;
    if (strcmp(name, "random") == 0) {
        (void)add(d, "propose", 0);
    } else if (strcmp(name, "maddpg") == 0) {
        (void)add(d, "propose", 0);
        reads(add(d, "critic", 1), 0, "action");
        (void)add(d, "learn", 1);
    } else if (strcmp(name, "vdn") == 0 || strcmp(name, "qmix") == 0) {
        (void)add(d, "values", 0);
        if (strcmp(name, "qmix") == 0) {
            struct stage_decl *mix = add(d, "mix", 1);

            mix->central = 1;
            reads(mix, 0, "q");
        }
        reads(add(d, "learn", 1), d->stages.n - 1, "q");
    } else if (shares) {
        struct stage_decl *last;

        (void)add(d, "gradients", 0);
        add(d, "apply", 1)->ps = 1;
        last = add(d, "assign", 1);
        last->repeat_from = 0;
        last->repeat =
            (uint64_t)(agent_setting(a, "epochs") * agent_setting(a, "minibatches"));
    } else {
        (void)add(d, "learn", 1);
    }
}

static void prepare(struct planned *p, const char *text)
{
    const struct config_options options = {.env_names = env_agent_names};
    struct err err = {0};

    *p = (struct planned){0};
    ck_assert_msg(
        run_config_parse(&p->config, text, strlen(text), "mixed", &options, &err) == 0,
        "%s", err.msg);
    ck_assert_int_eq(vec_env_new(&p->env, &p->config.env, 1, ENV_DRAWS_TRAINING, 0, &err),
                     0);
    ck_assert_int_eq(
        sharing_init(&p->sharing, &p->config, vec_env_spec(p->env), NULL, &err), 0);
    learning_groups_init(&p->groups, &p->config, &p->sharing);
    for (size_t i = 0; i < A; i++) {
        p->names[i] = p->config.agents[i].name;
        describe(&p->descriptions[i], &p->config.agents[i],
                 p->sharing.group_of[i] != SHARING_NONE);
    }
}

static void plan(struct planned *p)
{
    p->rc = update_plan_init(&p->plan, &p->groups, p->descriptions, p->names, A, &p->err);
}

static void finish(struct planned *p)
{
    update_plan_done(&p->plan);
    learning_groups_done(&p->groups);
    sharing_done(&p->sharing);
    vec_env_free(p->env);
    run_config_done(&p->config);
}

/* "0:propose(0123)": the group, the stage, and its runners. */
static const char *text_of(const struct planned *p)
{
    static char text[1024];
    size_t n = 0;

    text[0] = '\0';
    for (int i = 0; i < p->plan.n; i++) {
        const struct stage_decl *s = &p->plan.stage[i];

        n += (size_t)snprintf(text + n, sizeof(text) - n, "%s%zu:%s(", i > 0 ? " " : "",
                              s->group, s->name);
        for (size_t a = 0; a < A; a++)
            if (update_plan_plays(&p->plan, i, a))
                n += (size_t)snprintf(text + n, sizeof(text) - n, "%zu", a);
        n += (size_t)snprintf(text + n, sizeof(text) - n, "%s)",
                              s->central ? "central"
                              : s->ps    ? "ps"
                                         : "");
        ck_assert_uint_lt(n, sizeof(text));
    }
    return text;
}

#define TAG "env: {id: simple_tag, copies: 4, reward: team_mean}\n"
#define PREDATORS(x)                                                                     \
    "agents: {adversary_0: {algorithm: " x "}, adversary_1: {algorithm: " x              \
    "}, adversary_2: {algorithm: " x "}, agent_0: {algorithm: "

static const struct {
    const char *config, *plan, *draws; /* draws: name of the last group's draws */
} mixes[] = {
    {TAG PREDATORS("maddpg") "ddpg}}\n",
     "0:propose(0123) 0:critic(012) 0:learn(012) 1:learn(3)", "experience/agent_0"},
    {TAG PREDATORS("ddpg") "maddpg}}\n",
     "0:learn(012) 1:propose(0123) 1:critic(3) 1:learn(3)", "experience/agent_0"},
    {TAG PREDATORS("mappo") "maddpg}}\n",
     "0:learn(012) 1:propose(0123) 1:critic(3) 1:learn(3)", "experience/agent_0"},
    {TAG PREDATORS("vdn") "iql}}\n", "0:values(012) 0:learn(012) 1:learn(3)",
     "experience/agent_0"},
    {TAG PREDATORS("qmix") "maddpg}}\n",
     "0:values(012) 0:mix(central) 0:learn(012) 1:propose(0123) 1:critic(3) 1:learn(3)",
     "experience/agent_0"},
    {TAG PREDATORS("vdn") "random}}\n", "0:values(012) 0:learn(012)", "experience"},
    {TAG PREDATORS("random") "maddpg}}\n", "0:propose(0123) 0:critic(3) 0:learn(3)",
     "experience"},
    /* all differ: groups are in the order of their first members */
    {TAG "agents: {adversary_1: {algorithm: ddpg}, adversary_2: {algorithm: iql}}\n",
     "0:propose(0123) 0:critic(03) 0:learn(03) 1:learn(1) 2:learn(2)",
     "experience/adversary_2"},
    /* the same algorithm with other rows */
    {TAG "agents: {agent_0: {experience: {batch_size: 7}}}\n",
     "0:propose(0123) 0:critic(012) 0:learn(012) 1:propose(0123) 1:critic(3) 1:learn(3)",
     "experience/agent_0"},
    {TAG "defaults: {algorithm: iql}\nagents: {agent_0: {settings: {n_step: 3}}}\n",
     "0:learn(012) 1:learn(3)", "experience/agent_0"},
    /* an agent that is alone in its team shares nothing */
    {TAG "defaults: {algorithm: mappo, share: team, settings: {epochs: 3}}\n",
     "0:gradients(012) 0:apply(ps) 0:assign(012) 1:learn(3)", "experience/agent_0"},
    {TAG "defaults: {algorithm: maddpg}\n",
     "0:propose(0123) 0:critic(0123) 0:learn(0123)", "experience"},
};

START_TEST(an_update_is_the_union_of_the_groups_stages)
{
    struct planned p;

    prepare(&p, mixes[_i].config);
    plan(&p);
    ck_assert_msg(p.rc == 0, "%s", p.err.msg);
    ck_assert_str_eq(text_of(&p), mixes[_i].plan);
    ck_assert_str_eq(p.groups.group[0].draws, "experience");
    ck_assert_str_eq(p.groups.group[p.groups.n - 1].draws, mixes[_i].draws);
    finish(&p);
}
END_TEST

/* Indices of reads and repetitions refer to stages of the same group. */
START_TEST(indices_are_of_the_whole_list)
{
    struct planned p;

    prepare(&p, TAG PREDATORS("ddpg") "maddpg}}\n");
    plan(&p);
    ck_assert_int_eq(p.plan.stage[2].reads[0].stage, 1);
    ck_assert_int_eq(p.plan.stage[3].repeat_from, 3);
    finish(&p);

    prepare(&p, TAG "defaults: {share: team, algorithm: mappo}\n"
                    "agents: {adversary_0: {algorithm: iql, share: none},\n"
                    "  adversary_1: {settings: {epochs: 3, minibatches: 2}},\n"
                    "  adversary_2: {settings: {epochs: 3, minibatches: 2}}}\n");
    plan(&p);
    ck_assert_str_eq(text_of(&p), "0:learn(0) 1:gradients(12) 1:apply(ps) 1:assign(12) "
                                  "2:learn(3)");
    ck_assert_int_eq(p.plan.stage[3].repeat_from, 1);
    ck_assert_uint_eq(p.plan.stage[3].repeat, 6);
    finish(&p);
}
END_TEST

static void refuse(struct planned *p, const char *text)
{
    plan(p);
    ck_assert_int_eq(p->rc, ERR_CONFIG);
    ck_assert_str_eq(p->err.msg, text);
    ck_assert_str_eq(p->err.agent, "agent_0");
    finish(p);
}

START_TEST(what_does_not_fit_is_refused)
{
    struct planned p;

    prepare(&p, TAG PREDATORS("maddpg") "ddpg}}\n");
    p.descriptions[3].proposes = 0;
    refuse(&p, "adversary_0 reads every agent's stage 'propose', which agent_0 does not "
               "have: their algorithms cannot play together");
    prepare(&p, TAG "defaults: {algorithm: maddpg}\n");
    p.descriptions[3].length = 2;
    refuse(&p,
           "adversary_0 and agent_0 have one algorithm, but learn in different stages "
           "or from different rows: expected equal settings");
    prepare(&p, TAG "defaults: {algorithm: qmix}\n"
                    "agents: {agent_0: {experience: {update_every: 7}}}\n");
    refuse(&p, "adversary_0 and agent_0 both need the central process for their updates, "
               "which only one group of agents can have: expected equal settings, and "
               "share: none "
               "where a team is one agent");
}
END_TEST

/* A group with windows has its own interval, even if other groups draw rows; other values
 * are the run's. */
START_TEST(experience_of_a_group)
{
    struct planned p;
    struct experience_config x;

    prepare(&p, TAG "experience: {batch_size: 64, warmup: 100, update_every: 50}\n"
                    "defaults: {experience: {warmup: 200}}\n"
                    "agents: {adversary_1: {algorithm: mappo},\n"
                    "  agent_0: {algorithm: ddpg, experience: {batch_size: 8}}}\n");
    ck_assert_uint_eq(p.groups.n, 3);
    x = run_config_experience(&p.config, 0);
    ck_assert(x.batch_size == 64 && x.warmup == 200 && x.update_every == 50);
    ck_assert_int_eq(run_config_experience(&p.config, 1).update_every, 4 * 25);
    x = run_config_experience(&p.config, 3);
    ck_assert(x.batch_size == 8 && x.warmup == 200 && x.update_every == 50);
    finish(&p);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *s = suite_create("update_plan");
    TCase *tc = tcase_create("update_plan");

    tcase_add_loop_test(tc, an_update_is_the_union_of_the_groups_stages, 0,
                        sizeof(mixes) / sizeof(mixes[0]));
    tcase_add_test(tc, indices_are_of_the_whole_list);
    tcase_add_test(tc, what_does_not_fit_is_refused);
    tcase_add_test(tc, experience_of_a_group);
    suite_add_tcase(s, tc);
    return s;
}
TEST_MAIN(make_suite)
