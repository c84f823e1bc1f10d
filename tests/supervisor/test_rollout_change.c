/* Settings that change between two rounds. The agents record the requests that they
 * get. */
#include "common/config/changes.h"
#include "common/mem/xmalloc.h"
#include "supervisor/env/env.h"
#include "supervisor/rollout/rollout.h"
#include "tests/supervisor/fake_agents.h"
#include "tests/support/temp_dir.h"
#include "tests/support/test_main.h"

#include <stdlib.h>
#include <string.h>

static const char *const names[] = {"agent_0", "agent_1"};

static const char text[] =
    "run: {env_steps: 12}\n"
    "env: {id: two_step, copies: 2, max_steps: 3, params: {agents: 2}}\n"
    "experience: {capacity: 100, batch_size: 2, warmup: 1, update_every: 100}\n"
    "evaluation: {every_env_steps: 0, episodes: 2}\n"
    "checkpoint: {every_env_steps: 4}\n"
    "log: {every_env_steps: 100}\n"
    "agents: {agent_0: {}, agent_1: {}}\n";

struct bench {
    struct temp_dir dir;
    struct run_config config, changed;
    struct agent_table *table;
    struct vec_env *env;
    struct store *store;
    struct metrics *metrics;
    struct rollout *rollout;
    char seen[4096]; /* requests and callbacks, in order */
    int waits;       /* on_change makes the driver wait */
    uint64_t ask_at; /* step of a boundary at which a change is planned; 0: none */
};

static void see(struct bench *b, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
static void see(struct bench *b, const char *fmt, ...)
{
    size_t n = strlen(b->seen);
    va_list ap;

    va_start(ap, fmt);
    (void)vsnprintf(b->seen + n, sizeof(b->seen) - n, fmt, ap);
    va_end(ap);
}

/* ---- the agents: they have a learning rate and polyak, but no discount ---- */

static void describe(size_t agent, struct msg_out *o)
{
    static const char *const settings[] = {"optimizer/learning_rate", "polyak"};

    msg_map(o, 1);
    msg_key(o, "variables");
    msg_array(o, 2);
    for (int i = 0; i < 2; i++) {
        char *name = xasprintf("%s/hyperparameters/%s", names[agent], settings[i]);

        msg_array(o, 1);
        msg_str(o, name);
        free(name);
    }
}

static void see_set(struct bench *b, size_t agent, const struct msg *m)
{
    const msgpack_object *map = NULL;

    ck_assert_int_eq(msg_get_map(&m->body, "changes", &map, NULL), 0);
    see(b, "%zu set", agent);
    for (uint32_t i = 0; i < map->via.map.size; i++)
        see(b, " %.*s=%g", (int)map->via.map.ptr[i].key.via.str.size,
            map->via.map.ptr[i].key.via.str.ptr, map->via.map.ptr[i].val.via.f64);
    see(b, "; ");
}

static void answer(void *ctx, size_t agent, const struct msg *m, struct msg_out *o)
{
    static float actions[8];
    const struct tensor t = tensor_view(DT_FLOAT, SHAPE(2, 2), actions);
    struct bench *b = ctx;

    if (strcmp(m->method, "configure") == 0) {
        describe(agent, o);
    } else if (strcmp(m->method, "set") == 0) {
        see_set(b, agent, m);
        msg_map(o, 0);
    } else {
        msg_map(o, 1);
        msg_key(o, "actions");
        msg_tensor(o, &t);
    }
}

/* ---- the driver ---- */

static int on_row(void *ctx, const struct metrics_row *row, struct err *err)
{
    see(ctx, "row %llu; ", (unsigned long long)row->env_steps);
    return 0;
}

static int on_checkpoint(void *ctx, const struct rollout_progress *at, struct err *err)
{
    see(ctx, "checkpoint %llu; ", (unsigned long long)at->env_steps);
    return 0;
}

static int on_change(void *ctx, const struct rollout_progress *at, struct err *err)
{
    struct bench *b = ctx;

    see(b, "change %llu; ", (unsigned long long)at->env_steps);
    rollout_plan_change(b->rollout, UINT64_MAX);
    if (b->waits)
        return ROLLOUT_CHANGE_WAITS;
    return rollout_change(b->rollout, &b->config, &b->changed, err);
}

static void on_round(void *ctx, const struct rollout_progress *at)
{
    struct bench *b = ctx;

    see(b, "round %llu; ", (unsigned long long)at->env_steps);
    if (b->ask_at == at->env_steps) {
        see(b, "next %llu; ", (unsigned long long)rollout_next_change_step(b->rollout));
        rollout_plan_change(b->rollout, rollout_next_change_step(b->rollout));
    }
}

static void on_evaluation(void *ctx, const struct evaluation_result *result)
{
    see(ctx, "evaluation; ");
}

static void on_done(void *ctx, int stopped)
{
    see(ctx, "%s", stopped ? "stopped" : "done");
}

static void on_failed(void *ctx, const struct err *err)
{
    ck_abort_msg("%s", err->msg);
}

static struct bench *bench_new(const char *const *set, size_t n_set)
{
    struct bench *b = xcalloc(1, sizeof(*b));
    struct rollout_args args = {.config = &b->config,
                                .callbacks = {.on_row = on_row,
                                              .on_checkpoint = on_checkpoint,
                                              .on_change = on_change,
                                              .on_round = on_round,
                                              .on_evaluation = on_evaluation,
                                              .on_done = on_done,
                                              .on_failed = on_failed,
                                              .ctx = b}};
    struct err err = {0};

    temp_dir_init(&b->dir);
    ck_assert_int_eq(run_config_parse(&b->config, text, strlen(text), "f", NULL, &err),
                     0);
    ck_assert_msg(run_config_set(&b->changed, &b->config, set, n_set, &err) == 0, "%s",
                  err.msg);
    args.agents = b->table = fake_agents_new(names, 2, answer, b);
    ck_assert_int_eq(vec_env_new(&b->env, &b->config.env, 1, ENV_DRAWS_TRAINING, 0, &err),
                     0);
    vec_env_reset(b->env);
    ck_assert_int_eq(
        store_create(&b->store, temp_dir_file(&b->dir, "experience"), 100, &err), 0);
    b->metrics = metrics_new(names, (const char *[]){"agent", "agent"}, 2, 0, 0);
    args.env = b->env;
    args.store = b->store;
    args.metrics = b->metrics;
    ck_assert_msg(rollout_new(&b->rollout, &args, &err) == 0, "%s", err.msg);
    return b;
}

static void bench_run(struct bench *b)
{
    struct err err = {0};

    ck_assert_msg(rollout_start(b->rollout, &err) == 0, "%s", err.msg);
    (void)fake_agents_run(b->table, 100000);
}

static void bench_free(struct bench *b)
{
    rollout_free(b->rollout);
    metrics_free(b->metrics);
    store_free(b->store);
    vec_env_free(b->env);
    fake_agents_free(b->table);
    run_config_done(&b->config);
    run_config_done(&b->changed);
    temp_dir_done(&b->dir);
    free(b);
}

/* A change takes place at the first boundary at or after its step, after the checkpoint.
 * Only values that differ are sent, and only to agents that have the setting. */
START_TEST(test_settings_are_sent_before_the_round)
{
    static const char *const set[] = {"defaults.discount=0.5",
                                      "agents.agent_1.polyak=0.25",
                                      "agents.agent_1.optimizer.learning_rate=0.5"};
    struct bench *b = bench_new(set, 3);

    rollout_plan_change(b->rollout, 3);
    bench_run(b);
    ck_assert_str_eq(b->seen, "checkpoint 0; round 2; checkpoint 4; change 4; "
                              "1 set polyak=0.25 optimizer.learning_rate=0.5; "
                              "round 4; round 6; checkpoint 8; round 8; round 10; "
                              "row 12; checkpoint 12; round 12; done");
    bench_free(b);
}
END_TEST

START_TEST(test_intervals_and_length_from_then_on)
{
    static const char *const set[] = {"run.env_steps=8", "checkpoint.every_env_steps=0",
                                      "log.every_env_steps=6",
                                      "evaluation.every_env_steps=6"};
    struct bench *b = bench_new(set, 4);

    rollout_plan_change(b->rollout, 0);
    bench_run(b);
    ck_assert_str_eq(b->seen,
                     "checkpoint 0; change 0; round 2; round 4; "
                     "evaluation; row 6; round 6; evaluation; row 8; checkpoint 8; "
                     "round 8; "
                     "done");
    bench_free(b);
}
END_TEST

/* A change that is requested during a round takes effect in the next round. */
START_TEST(test_a_round_under_way_sees_none)
{
    static const char *const set[] = {"defaults.polyak=0.5", "run.env_steps=6"};
    struct bench *b = bench_new(set, 2);

    b->ask_at = 2;
    bench_run(b);
    ck_assert_str_eq(b->seen, "checkpoint 0; round 2; next 4; checkpoint 4; change 4; "
                              "1 set polyak=0.5; 0 set polyak=0.5; round 4; "
                              "row 6; checkpoint 6; round 6; done");
    bench_free(b);
}
END_TEST

START_TEST(test_the_driver_waits_for_a_change)
{
    static const char *const set[] = {"run.env_steps=2"};
    struct bench *b = bench_new(set, 1);
    struct err err = {0};

    b->waits = 1;
    rollout_plan_change(b->rollout, 0);
    bench_run(b);
    ck_assert_str_eq(b->seen, "checkpoint 0; change 0; ");
    ck_assert_int_eq(rollout_change(b->rollout, &b->config, &b->changed, &err), 0);
    rollout_change_made(b->rollout);
    (void)fake_agents_run(b->table, 100000);
    ck_assert_str_eq(b->seen, "checkpoint 0; change 0; row 2; checkpoint 2; round 2; "
                              "done");
    bench_free(b);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *s = suite_create("rollout_change");
    TCase *tc = tcase_create("rollout_change");

    tcase_add_test(tc, test_settings_are_sent_before_the_round);
    tcase_add_test(tc, test_intervals_and_length_from_then_on);
    tcase_add_test(tc, test_a_round_under_way_sees_none);
    tcase_add_test(tc, test_the_driver_waits_for_a_change);
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(make_suite)
