/* The driver runs stages without knowing the algorithm: real processes, one of them
 * central, learn by an algorithm of three stages that only this test and its agents have
 * (tests/support/threestage.h). The result is compared, bit for bit, with the same
 * arithmetic done here, both undisturbed and with processes killed while they work.
 *
 * The linker routes the driver's requests through the wrappers below, which record their
 * order and kill processes.
 */
#include "common/mem/xmalloc.h"
#include "common/rng/rng.h"
#include "common/store/store_view.h"
#include "supervisor/begin/agent_specs.h"
#include "supervisor/env/env.h"
#include "supervisor/rollout/rollout.h"
#include "tests/support/temp_dir.h"
#include "tests/support/test_main.h"
#include "tests/support/threestage.h"

#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

enum {
    LEARNERS = 3,
    CENTRAL = LEARNERS,
    PROCESSES,
    COPIES = 2,
    BATCH = 16,
    WARMUP = 40,
    EVERY = 20,
    STEPS = 200,
    UPDATES = (STEPS - WARMUP) / EVERY + 1,
    TRACE_BYTES = 1 << 16,
    DEADLINE_MS = 60000,
};

static const char config_text[] =
    "run: {name: stages, seed: 11, env_steps: 200}\n"
    "env: {id: simple_spread, copies: 2, params: {agents: 3}}\n"
    "experience: {capacity: 1000, batch_size: 16, warmup: 40, update_every: 20}\n"
    "evaluation: {every_env_steps: 0}\n";

/* Kill `agent` just after `method` was sent to it for the nth time (from 1); 0: never. */
struct plan {
    size_t agent;
    const char *method;
    int nth;
};

struct play {
    struct temp_dir dir;
    struct run_config config;
    uv_loop_t loop;
    uv_timer_t deadline;
    struct vec_env *env;
    struct store *store;
    struct metrics *metrics;
    struct agent_specs specs;
    struct agent_table *table;
    struct rollout *rollout;

    struct plan plans[8];
    int seen[8];
    const char *method; /* of the request under construction */
    char trace[TRACE_BYTES];
    size_t trace_len;

    void *block[PROCESSES]; /* at the end */
    size_t block_bytes[PROCESSES];
    float parameter[PROCESSES];
    uint64_t restarts[PROCESSES];
    double critic_loss; /* of the newest row */
    int done, stopped;
};

static struct play *now_playing;

/* ---- the wrappers ---- */

struct msg_out *__real_agent_request_begin(struct agent_table *t, size_t agent,
                                           const char *method, int writes);
int __real_agent_request_send(struct agent_table *t, size_t agent, agent_response_fn fn,
                              void *ctx, struct err *err);
struct msg_out *__wrap_agent_request_begin(struct agent_table *t, size_t agent,
                                           const char *method, int writes);
int __wrap_agent_request_send(struct agent_table *t, size_t agent, agent_response_fn fn,
                              void *ctx, struct err *err);

struct msg_out *__wrap_agent_request_begin(struct agent_table *t, size_t agent,
                                           const char *method, int writes)
{
    struct play *p = now_playing;

    if (strcmp(method, "act") != 0)
        p->trace_len +=
            (size_t)snprintf(p->trace + p->trace_len, sizeof(p->trace) - p->trace_len,
                             "%zu %s%s\n", agent, method, writes ? " writes" : "");
    ck_assert_uint_lt(p->trace_len, sizeof(p->trace));
    p->method = method;
    return __real_agent_request_begin(t, agent, method, writes);
}

int __wrap_agent_request_send(struct agent_table *t, size_t agent, agent_response_fn fn,
                              void *ctx, struct err *err)
{
    struct play *p = now_playing;
    int rc = __real_agent_request_send(t, agent, fn, ctx, err);

    for (size_t i = 0; i < sizeof(p->plans) / sizeof(p->plans[0]); i++) {
        const struct plan *plan = &p->plans[i];

        if (plan->nth > 0 && plan->agent == agent &&
            strcmp(plan->method, p->method) == 0 && ++p->seen[i] == plan->nth)
            ck_assert_int_eq(agent_table_signal(t, agent, SIGKILL), 0);
    }
    return rc;
}

/* ---- a run ---- */

static int on_row(void *ctx, const struct metrics_row *row, struct err *err)
{
    struct play *p = ctx;

    for (size_t i = 0; i < row->n; i++)
        if (strcmp(row->names[i], "train/central/critic_loss") == 0)
            p->critic_loss = row->values[i];
    return 0;
}

static int on_checkpoint(void *ctx, const struct rollout_progress *at, struct err *err)
{
    struct play *p = ctx;

    for (size_t i = 0; i < PROCESSES && at->env_steps == STEPS; i++) {
        const void *block;
        int rc = agent_table_block(p->table, i, &block, &p->block_bytes[i], err);

        if (rc < 0)
            return rc;
        p->block[i] = xmalloc(p->block_bytes[i]);
        memcpy(p->block[i], block, p->block_bytes[i]);
    }
    return 0;
}

static void on_done(void *ctx, int stopped)
{
    struct play *p = ctx;

    p->done = !stopped;
    agent_table_stop(p->table, 5000);
}

static void on_failed(void *ctx, const struct err *err)
{
    ck_abort_msg("%s", err->msg);
}

static void on_agent_failed(void *ctx, size_t agent, const struct err *report)
{
    ck_abort_msg("%zu: %s", agent, report->msg);
}

static void on_event(void *ctx, const struct agent_event *e)
{
    struct play *p = ctx;

    p->restarts[e->agent] += e->kind == AGENT_EVENT_RESPAWN;
}

static void on_ready(void *ctx)
{
    struct play *p = ctx;
    const struct rollout_args args = {
        .config = &p->config,
        .cores = PROCESSES, /* requests in a fixed order, whatever the machine */
        .agents = p->table,
        .env = p->env,
        .store = p->store,
        .metrics = p->metrics,
        .callbacks = {.on_row = on_row,
                      .on_checkpoint = on_checkpoint,
                      .on_done = on_done,
                      .on_failed = on_failed,
                      .ctx = p},
    };
    struct err err = {0};

    ck_assert_msg(rollout_new(&p->rollout, &args, &err) == 0, "%s", err.msg);
    ck_assert_msg(rollout_start(p->rollout, &err) == 0, "%s", err.msg);
}

static void on_stopped(void *ctx)
{
    struct play *p = ctx;

    p->stopped = 1;
    uv_close((uv_handle_t *)&p->deadline, NULL);
}

static void on_deadline(uv_timer_t *timer)
{
    ck_abort_msg("no end within %d ms", DEADLINE_MS);
}

static void pack_configure(void *ctx, size_t agent, int restored, struct msg_out *o)
{
    struct play *p = ctx;

    rollout_pack_configure(&p->config, vec_env_spec(p->env), agent, restored, NULL, o);
}

static void make_table(struct play *p)
{
    const struct agent_callbacks cb = {.on_event = on_event,
                                       .on_ready = on_ready,
                                       .on_failed = on_agent_failed,
                                       .on_stopped = on_stopped,
                                       .ctx = p};
    struct err err = {0};
    char exe[512];
    int fd;

    (void)snprintf(exe, sizeof(exe), "%s/tests/support/test_agent",
                   getenv("BROOD_BUILD_DIR"));
    fd = open(exe, O_RDONLY | O_CLOEXEC);
    ck_assert_msg(fd >= 0, "%s", exe);
    ck_assert(agent_specs_init(&p->specs, &p->config, vec_env_spec(p->env), 1, 0, NULL,
                               pack_configure, NULL) == 0);
    ck_assert_uint_eq(p->specs.n, PROCESSES);
    ck_assert_str_eq(p->specs.spec[CENTRAL].name, "central");
    ck_assert_msg(agent_table_new(&p->table, &p->loop, fd, store_agent_fd(p->store),
                                  p->specs.spec, p->specs.n, &cb, &err) == 0,
                  "%s", err.msg);
    (void)close(fd);
    ck_assert_int_eq(agent_table_start(p->table, &err), 0);
}

static void make_world(struct play *p)
{
    static const char *const names[] = {"agent_0", "agent_1", "agent_2"};
    static const char *const teams[] = {"agent", "agent", "agent"};
    const struct config_options options = {.env_names = env_agent_names};
    struct err err = {0};

    ck_assert_msg(run_config_parse(&p->config, config_text, strlen(config_text), "stages",
                                   &options, &err) == 0,
                  "%s", err.msg);
    ck_assert_int_eq(vec_env_new(&p->env, &p->config.env, p->config.run.seed,
                                 ENV_DRAWS_TRAINING, 0, &err),
                     0);
    vec_env_reset(p->env);
    ck_assert_int_eq(store_create(&p->store, temp_dir_file(&p->dir, "experience"),
                                  (uint64_t)p->config.experience.capacity, &err),
                     0);
    p->metrics = metrics_new(names, teams, LEARNERS, 1, 0);
}

/* The value of "<agent>/parameter", whose offset is in the response to configure. */
static float find_parameter(const struct play *p, size_t agent)
{
    const msgpack_object *variables = NULL;
    float value = NAN;
    char want[64];

    (void)snprintf(want, sizeof(want), "%s/parameter", p->specs.spec[agent].name);
    ck_assert_int_eq(msg_get_array(&agent_table_description(p->table, agent)->body,
                                   "variables", &variables, NULL),
                     0);
    for (uint32_t i = 0; i < variables->via.array.size; i++) {
        const msgpack_object *v = variables->via.array.ptr[i].via.array.ptr;

        if (v[0].via.str.size == strlen(want) &&
            memcmp(v[0].via.str.ptr, want, strlen(want)) == 0)
            memcpy(&value, (const char *)p->block[agent] + v[3].via.u64, sizeof(value));
    }
    ck_assert_msg(!isnan(value), "%s", want);
    return value;
}

static struct play *play(const struct plan *plans, size_t n)
{
    struct play *p = now_playing = xcalloc(1, sizeof(*p));

    for (size_t i = 0; i < n; i++)
        p->plans[i] = plans[i];
    temp_dir_init(&p->dir);
    ck_assert_int_eq(uv_loop_init(&p->loop), 0);
    ck_assert_int_eq(uv_timer_init(&p->loop, &p->deadline), 0);
    ck_assert_int_eq(uv_timer_start(&p->deadline, on_deadline, DEADLINE_MS, 0), 0);
    make_world(p);
    make_table(p);
    (void)uv_run(&p->loop, UV_RUN_DEFAULT);
    ck_assert_int_eq(p->stopped, 1);
    ck_assert_int_eq(p->done, 1);
    for (size_t i = 0; i < PROCESSES; i++)
        p->parameter[i] = find_parameter(p, i);
    return p;
}

static void play_free(struct play *p)
{
    rollout_free(p->rollout);
    agent_table_free(p->table);
    agent_specs_done(&p->specs);
    metrics_free(p->metrics);
    store_free(p->store);
    vec_env_free(p->env);
    run_config_done(&p->config);
    ck_assert_int_eq(uv_loop_close(&p->loop), 0);
    temp_dir_done(&p->dir);
    for (size_t i = 0; i < PROCESSES; i++)
        free(p->block[i]);
    free(p);
}

/* ---- the same arithmetic ---- */

struct expected {
    float parameter[PROCESSES];
    float reward[LEARNERS][BATCH], q[LEARNERS][BATCH], loss;
};

static void draw_rewards(struct play *p, struct expected *e, uint64_t update)
{
    const struct rng_key key =
        rng_key_make(p->config.run.seed, "experience", PURPOSE_ROWS);
    struct store_view *view;
    uint64_t rows[BATCH];

    rng_below(key, update, 0, WARMUP + EVERY * update, rows, BATCH);
    ck_assert_int_eq(store_view_open(&view, store_agent_fd(p->store), NULL), 0);
    for (size_t i = 0; i < LEARNERS; i++) {
        int column =
            store_layout_find(store_layout(p->store), p->specs.spec[i].name, "reward");

        store_view_gather(view, column, rows, BATCH, e->reward[i], 1);
    }
    store_view_close(view);
}

/* One repetition of mix and learn; q is that of the beginning of the update. */
static void expect_descent(struct expected *e)
{
    const float scale = e->parameter[CENTRAL];
    float gradient[PROCESSES] = {0};

    e->loss = 0;
    for (size_t b = 0; b < BATCH; b++) {
        float total = 0, error;

        for (size_t i = 0; i < LEARNERS; i++)
            total += (float)(i + 1) * e->q[i][b];
        error = scale * total - 1;
        e->loss += error * error / BATCH;
        gradient[CENTRAL] += 2 * error * total / BATCH;
        for (size_t i = 0; i < LEARNERS; i++)
            gradient[i] += 2 * error * scale * (float)(i + 1) / BATCH * e->reward[i][b];
    }
    for (size_t i = 0; i < PROCESSES; i++)
        e->parameter[i] -= THREESTAGE_RATE * gradient[i];
}

static struct expected expect(struct play *p, double *ret_mean_loss)
{
    struct expected e;

    *ret_mean_loss = 0;
    for (size_t i = 0; i < PROCESSES; i++)
        e.parameter[i] = 1;
    for (uint64_t u = 0; u < UPDATES; u++) {
        draw_rewards(p, &e, u);
        for (size_t i = 0; i < LEARNERS; i++)
            for (size_t b = 0; b < BATCH; b++)
                e.q[i][b] = e.reward[i][b] * e.parameter[i];
        for (int repeat = 0; repeat < THREESTAGE_REPEATS; repeat++) {
            expect_descent(&e);
            *ret_mean_loss += (double)e.loss / (UPDATES * THREESTAGE_REPEATS);
        }
    }
    return e;
}

/* ---- tests ---- */

static const char one_update[] = "0 values\n1 values\n2 values\n"
                                 "3 mix writes\n"
                                 "0 learn writes\n1 learn writes\n2 learn writes\n"
                                 "3 mix writes\n"
                                 "0 learn writes\n1 learn writes\n2 learn writes\n";

START_TEST(test_stages_are_played_as_declared)
{
    struct play *p = play(NULL, 0);
    const size_t len = strlen(one_update);
    double loss;
    struct expected e = expect(p, &loss);

    ck_assert_uint_eq(p->trace_len, UPDATES * len);
    for (size_t u = 0; u < UPDATES; u++)
        ck_assert_mem_eq(p->trace + u * len, one_update, len);
    ck_assert_mem_eq(p->parameter, e.parameter, sizeof(e.parameter));
    for (size_t i = 1; i < PROCESSES; i++) /* each has its own gradient */
        ck_assert(p->parameter[i] != p->parameter[0] && p->parameter[i] != 1);
    ck_assert_double_eq_tol(p->critic_loss, loss, 1e-6 * loss);
    play_free(p);
}
END_TEST

/* Which process dies after which request: the request is in the pipe, in progress or just
 * answered. None is the last one, after which a death may pass unnoticed. */
static const struct plan kills[][3] = {
    {{CENTRAL, "mix", 1}, {CENTRAL, "mix", 6}, {CENTRAL, "mix", 2 * UPDATES - 1}},
    {{0, "learn", 1}, {1, "learn", 8}, {2, "learn", 2 * UPDATES - 1}},
    {{0, "values", 4}, {CENTRAL, "mix", 7}, {2, "act", 60}},
    {{1, "learn", 5}, {2, "learn", 5}, {CENTRAL, "mix", 5}},
};

START_TEST(test_deaths_at_work_change_no_byte)
{
    struct play *calm = play(NULL, 0), *p = play(kills[_i], 3);
    uint64_t restarts = 0;

    for (size_t i = 0; i < PROCESSES; i++) {
        restarts += p->restarts[i];
        ck_assert_uint_eq(p->block_bytes[i], calm->block_bytes[i]);
        ck_assert_mem_eq(p->block[i], calm->block[i], p->block_bytes[i]);
    }
    ck_assert_uint_eq(restarts, 3);
    ck_assert_str_eq(p->trace, calm->trace);
    ck_assert(p->critic_loss == calm->critic_loss);
    play_free(calm);
    play_free(p);
}
END_TEST

/* No algorithm of this build has central stages, so its runs have no central process. */
START_TEST(test_who_needs_a_central_process)
{
    const struct config_options options = {.env_names = env_agent_names};
    struct run_config config;

    ck_assert_int_eq(run_config_parse(&config, config_text, strlen(config_text), "stages",
                                      &options, NULL),
                     0);
    ck_assert_int_eq(rollout_needs_central(&config), 0);
    run_config_done(&config);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *s = suite_create("stages");
    TCase *tc = tcase_create("stages");

    tcase_set_timeout(tc, 2 * DEADLINE_MS / 1000);
    tcase_add_test(tc, test_stages_are_played_as_declared);
    tcase_add_loop_test(tc, test_deaths_at_work_change_no_byte, 0, 4);
    tcase_add_test(tc, test_who_needs_a_central_process);
    suite_add_tcase(s, tc);
    return s;
}
TEST_MAIN(make_suite)
