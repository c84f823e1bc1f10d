#include "common/config/algorithms.h"
#include "common/config/run_schema.h"
#include "common/mem/xmalloc.h"
#include "common/rng/rng.h"
#include "common/store/store_view.h"
#include "supervisor/env/toy.h"
#include "supervisor/rollout/rollout.h"
#include "tests/supervisor/fake_agents.h"
#include "tests/support/env_params.h"
#include "tests/support/temp_dir.h"
#include "tests/support/test_main.h"

#include <math.h>
#include <string.h>

enum { N_AGENTS = 2, CARRY = 3 };
static const char *const names[] = {"agent_0", "agent_1", "central"};

/* ---- one run with fake agents ---- */

enum sabotage { NONE, NAN_ACTION, WRONG_SHAPE, NO_OUTPUT, NAN_SCALAR };

struct bench {
    struct temp_dir dir;
    struct run_config config;
    struct agent_config agents[N_AGENTS];
    struct env_params params; /* the number of agents, N_AGENTS */
    int three_stages, no_central, with_column, with_carry;
    int two_parts; /* stages propose > critic > learn */
    int turns;     /* stages turn (one agent after another) > learn */
    int mixed; /* agent 0: propose > learn; agent 1: learn, less often, also proposes */
    size_t cores;
    size_t width; /* of actions */
    enum sabotage sabotage;

    struct agent_table *table;
    struct vec_env *env;
    struct store *store;
    struct metrics *metrics;
    struct rollout *rollout;

    /* Requests to agents as text, without those of evaluations. */
    char *asked;
    size_t asked_len;
    uint64_t last_rows[64];
    struct tensor rows_seen;
    uint64_t greedy_acts;
    /* by training or evaluation, agent, copy: steps so far in the episode */
    float age[2][N_AGENTS][2];

    /* The driver's callbacks, in order. */
    char events[4096];
    uint64_t stop_at; /* round; 0: never */
    int abort_in_row;
    struct err failure;
    int done, stopped;
    double evaluated; /* mean return of agent 0 */
    double critic_loss;
};

static void note(struct bench *b, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
static void note(struct bench *b, const char *fmt, ...)
{
    size_t n = strlen(b->events);
    va_list ap;

    va_start(ap, fmt);
    (void)vsnprintf(b->events + n, sizeof(b->events) - n, fmt, ap);
    va_end(ap);
}

static void ask(struct bench *b, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
static void ask(struct bench *b, const char *fmt, ...)
{
    char line[512];
    va_list ap;
    int n;

    va_start(ap, fmt);
    n = vsnprintf(line, sizeof(line), fmt, ap);
    va_end(ap);
    b->asked = xrealloc(b->asked, b->asked_len + (size_t)n + 1);
    memcpy(b->asked + b->asked_len, line, (size_t)n + 1);
    b->asked_len += (size_t)n;
}

/* ---- the agents ---- */

static void stage_decl(struct msg_out *o, const char *name, const char *runner,
                       const char *read, int writes, int from, int repeat)
{
    msg_map(o, 6);
    msg_put_str(o, "name", name);
    msg_put_str(o, "runner", runner);
    msg_key(o, "reads");
    msg_array(o, read != NULL);
    if (read != NULL)
        msg_str(o, read);
    msg_put_bool(o, "writes", writes);
    msg_put_u64(o, "repeat_from", (uint64_t)from);
    msg_put_u64(o, "repeat", (uint64_t)repeat);
}

static void describe(const struct bench *b, size_t agent, struct msg_out *o)
{
    msg_map(o, 4);
    msg_put_bool(o, "proposes", b->mixed);
    msg_put_u64(o, "carry", b->with_carry ? CARRY : 0);
    msg_key(o, "stages");
    msg_array(o, b->three_stages || b->two_parts ? 3
                 : b->mixed                      ? 2 - agent
                                                 : 1u + (size_t)b->turns);
    if (b->mixed && agent == 0) {
        stage_decl(o, "propose", "learners", NULL, 0, 0, 1);
        stage_decl(o, "learn", "learners", "propose/q", 1, 1, 1);
    } else if (b->turns) {
        stage_decl(o, "turn", "turns", "prev:turn/q", 1, 0, 2);
        stage_decl(o, "learn", "learners", "turn/q", 1, 1, 1);
    } else if (b->two_parts) {
        stage_decl(o, "propose", "learners", NULL, 0, 0, 1);
        stage_decl(o, "critic", "learners", "propose/q", 1, 1, 1);
        stage_decl(o, "learn", "learners", NULL, 1, 2, 1);
    } else if (b->three_stages) {
        stage_decl(o, "values", "learners", NULL, 0, 0, 1);
        stage_decl(o, "mix", "central", "values/q", 1, 1, 1);
        stage_decl(o, "learn", "learners", "mix/dq", 1, 1, 2);
    } else {
        stage_decl(o, "learn", "learners", NULL, 1, 0, 1);
    }
    msg_key(o, "columns");
    msg_array(o, b->with_column ? 1 : 0);
    if (b->with_column) {
        msg_map(o, 2);
        msg_put_str(o, "name", "log_prob");
        msg_put_u64(o, "elements", 1);
    }
}

/* A carry contains its owner's number and counts the steps of its episode: it must come
 * back to the same agent, for the same copy, with the next step, even if an evaluation
 * takes place in between. ret (copies, CARRY) */
static void answer_carry(struct bench *b, size_t agent, const struct msg *m,
                         int evaluates, size_t copies, float *ret)
{
    const uint8_t *first = NULL;
    struct tensor carry = TENSOR_NONE;
    size_t len = 0;

    ck_assert_int_eq(msg_get_tensor(&m->body, "carry", &carry, NULL), 0);
    ck_assert(carry.dtype == DT_FLOAT &&
              shape_equal(&carry.shape, &SHAPE((int64_t)copies, CARRY)));
    ck_assert_int_eq(msg_get_bin(&m->body, "first", (const void **)&first, &len, NULL),
                     0);
    ck_assert_uint_eq(len, copies);
    memcpy(ret, carry.data, tensor_bytes(&carry));
    for (size_t e = 0; e < copies; e++, ret += CARRY) {
        const float owner = (float)(100 * agent + 10 * (size_t)evaluates + e + 1);
        float *age = &b->age[evaluates][agent][e];

        if (first[e])
            *age = ret[0] = 0;
        else
            ck_assert(ret[0] == *age && *age > 0 && ret[1] == owner && ret[2] == -owner);
        ret[0] = *age += 1;
        ret[1] = owner;
        ret[2] = -owner;
    }
}

static void answer_act(struct bench *b, size_t agent, const struct msg *m,
                       struct msg_out *o)
{
    uint64_t mode = 9, step = 0;
    struct tensor obs = TENSOR_NONE, t;
    float actions[64] = {0}, column[64];
    size_t copies;

    ck_assert_int_eq(msg_get_u64(&m->body, "mode", 2, &mode, NULL), 0);
    ck_assert_int_eq(msg_get_u64(&m->body, "step", UINT64_MAX, &step, NULL), 0);
    ck_assert_int_eq(msg_get_tensor(&m->body, "obs", &obs, NULL), 0);
    copies = (size_t)obs.shape.dim[0];
    if (mode == ACT_EXPLORE)
        ask(b, "%zu act %llu\n", agent, (unsigned long long)step);
    else
        b->greedy_acts++;
    for (size_t e = 0; e < copies; e++) {
        actions[b->width * e + (step + e + agent) % 2] = 1;
        column[e] = (float)(step + e) + 0.5f * (float)agent;
    }
    if (b->sabotage == NAN_ACTION && agent == 1)
        actions[0] = (float)NAN;
    msg_map(o, 1u + (b->with_column != 0) + (b->with_carry != 0));
    if (b->with_carry) {
        float carry[2 * CARRY];

        answer_carry(b, agent, m, mode != ACT_EXPLORE, copies, carry);
        t = tensor_view(DT_FLOAT, SHAPE((int64_t)copies, CARRY), carry);
        msg_key(o, "carry");
        msg_tensor(o, &t);
    }
    msg_key(o, "actions");
    t = tensor_view(
        DT_FLOAT,
        SHAPE((int64_t)copies, (int64_t)b->width - (b->sabotage == WRONG_SHAPE)),
        actions);
    msg_tensor(o, &t);
    if (b->with_column) {
        msg_key(o, "columns");
        msg_map(o, 1);
        msg_key(o, "log_prob");
        t = tensor_view(DT_FLOAT, SHAPE((int64_t)copies, 1), column);
        msg_tensor(o, &t);
    }
}

static void ask_stage(struct bench *b, size_t agent, const struct msg *m)
{
    const msgpack_object *inputs = NULL;
    uint64_t step = 0, update = 0, repeat = 0;
    struct tensor rows = TENSOR_NONE;
    char group[AGENT_NAME_MAX] = "";

    ck_assert_int_eq(msg_get_u64(&m->body, "step", UINT64_MAX, &step, NULL), 0);
    ck_assert_int_eq(msg_get_u64(&m->body, "update", UINT64_MAX, &update, NULL), 0);
    ck_assert_int_eq(msg_get_u64(&m->body, "repeat", UINT64_MAX, &repeat, NULL), 0);
    ck_assert_int_eq(msg_get_tensor(&m->body, "rows", &rows, NULL), 0);
    ck_assert_int_eq(msg_get_map(&m->body, "inputs", &inputs, NULL), 0);
    ck_assert_int_eq(rows.dtype, DT_UINT64);
    ck_assert_uint_le(tensor_bytes(&rows), sizeof(b->last_rows));
    memcpy(b->last_rows, rows.data, tensor_bytes(&rows));
    b->rows_seen = rows;
    ask(b, "%zu %s step %llu update %llu repeat %llu row %llu", agent, m->method,
        (unsigned long long)step, (unsigned long long)update, (unsigned long long)repeat,
        (unsigned long long)b->last_rows[0]);
    ck_assert_int_eq(msg_get_str(&m->body, "group", group, sizeof(group), NULL), 0);
    if (*group != '\0')
        ask(b, " for %s", group);
    for (uint32_t i = 0; i < inputs->via.map.size; i++) {
        const msgpack_object_kv *kv = &inputs->via.map.ptr[i];
        struct tensor t = TENSOR_NONE;
        float v;

        ck_assert_int_eq(msg_to_tensor(&kv->val, "input", &t, NULL), 0);
        memcpy(&v, t.data, sizeof(v));
        ask(b, " %.*s=%g", (int)kv->key.via.str.size, kv->key.via.str.ptr, (double)v);
    }
    ask(b, "\n");
}

static void pack_output(struct msg_out *o, const char *name, float value)
{
    struct tensor t = tensor_view(DT_FLOAT, SHAPE(1), &value);

    msg_key(o, "outputs");
    msg_map(o, 1);
    msg_key(o, name);
    msg_tensor(o, &t);
}

static void answer_stage(struct bench *b, size_t agent, const struct msg *m,
                         struct msg_out *o)
{
    ask_stage(b, agent, m);
    if (strcmp(m->method, "learn") == 0) {
        msg_map(o, 1);
        msg_key(o, "scalars");
        msg_map(o, 1);
        msg_put_f64(o, "critic_loss",
                    b->sabotage == NAN_SCALAR ? (double)NAN : 0.5 + (double)agent);
    } else if (b->sabotage == NO_OUTPUT && agent == 1) {
        msg_map(o, 0);
    } else {
        msg_map(o, 1);
        pack_output(o, agent == N_AGENTS ? "dq" : "q", 10 * (float)agent + 1);
    }
}

static void answer(void *ctx, size_t agent, const struct msg *m, struct msg_out *o)
{
    struct bench *b = ctx;

    if (strcmp(m->method, "configure") == 0)
        describe(b, agent, o);
    else if (strcmp(m->method, "act") == 0)
        answer_act(b, agent, m, o);
    else
        answer_stage(b, agent, m, o);
}

/* ---- the driver's callbacks ---- */

static int on_row(void *ctx, const struct metrics_row *row, struct err *err)
{
    struct bench *b = ctx;

    note(b, "row %llu; ", (unsigned long long)row->env_steps);
    if (b->abort_in_row)
        rollout_abort(b->rollout);
    for (size_t i = 0; i < row->n; i++)
        if (strcmp(row->names[i], "train/agent_1/critic_loss") == 0)
            b->critic_loss = row->values[i];
    return 0;
}

static int on_checkpoint(void *ctx, const struct rollout_progress *at, struct err *err)
{
    note(ctx, "checkpoint %llu; ", (unsigned long long)at->env_steps);
    return 0;
}

static void on_round(void *ctx, const struct rollout_progress *at)
{
    struct bench *b = ctx;

    if (b->stop_at != 0 && at->round == b->stop_at)
        rollout_request_stop(b->rollout);
}

static void on_evaluation(void *ctx, const struct evaluation_result *result)
{
    struct bench *b = ctx;

    note(b, "evaluation; ");
    b->evaluated = result->return_mean[0];
}

static void on_done(void *ctx, int stopped)
{
    struct bench *b = ctx;

    b->done = 1;
    b->stopped = stopped;
    note(b, "done");
}

static void on_failed(void *ctx, const struct err *err)
{
    struct bench *b = ctx;

    ck_assert_int_eq(b->failure.code, 0);
    b->failure = *err;
}

/* ---- set-up ---- */

static struct bench *bench_new(const char *env)
{
    struct bench *b = xcalloc(1, sizeof(*b));

    temp_dir_init(&b->dir);
    b->cores = N_AGENTS + 1; /* independent of the machine */
    b->width = strcmp(env, "simple_spread") == 0 ? 5 : 2;
    b->config.run.seed = 7;
    b->config.run.env_steps = 20;
    b->config.env = (struct env_config){.id = env,
                                        .copies = 2,
                                        .max_steps = 3,
                                        .params = env_params(&b->params, "agents", "2")};
    b->config.experience.capacity = 1000;
    b->config.experience.batch_size = 4;
    b->config.experience.warmup = 8;
    b->config.experience.update_every = 4;
    b->config.evaluation.episodes = 5;
    b->config.evaluation.greedy = 1;
    b->config.agents = b->agents;
    b->config.n_agents = N_AGENTS;
    for (size_t i = 0; i < N_AGENTS; i++) {
        b->agents[i].name = names[i];
        b->agents[i].algorithm = "maddpg";
        b->agents[i].stop_on_nonfinite = 1;
    }
    return b;
}

static int bench_begin(struct bench *b, struct err *err)
{
    struct rollout_args args = {.config = &b->config,
                                .cores = b->cores,
                                .callbacks = {.on_row = on_row,
                                              .on_checkpoint = on_checkpoint,
                                              .on_round = on_round,
                                              .on_evaluation = on_evaluation,
                                              .on_done = on_done,
                                              .on_failed = on_failed,
                                              .ctx = b}};

    b->table =
        fake_agents_new(names, N_AGENTS + (b->three_stages && !b->no_central), answer, b);
    ck_assert_int_eq(vec_env_new(&b->env, &b->config.env, b->config.run.seed,
                                 ENV_DRAWS_TRAINING, 0, err),
                     0);
    vec_env_reset(b->env);
    ck_assert_int_eq(store_create(&b->store, temp_dir_file(&b->dir, "experience"),
                                  (uint64_t)b->config.experience.capacity, err),
                     0);
    b->metrics = metrics_new(names, (const char *[]){"agent", "agent"}, N_AGENTS,
                             b->three_stages, 0);
    args.agents = b->table;
    args.env = b->env;
    args.store = b->store;
    args.metrics = b->metrics;
    return rollout_new(&b->rollout, &args, err);
}

static void bench_run(struct bench *b)
{
    struct err err = {0};

    ck_assert_msg(bench_begin(b, &err) == 0, "%s", err.msg);
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
    temp_dir_done(&b->dir);
    free(b->asked);
    free(b);
}

static float value(struct bench *b, uint64_t row, const char *agent, const char *column,
                   int element)
{
    struct store_view *view;
    float got[8];
    struct err err = {0};

    ck_assert_int_eq(store_view_open(&view, store_agent_fd(b->store), &err), 0);
    store_view_gather(view, store_layout_find(store_layout(b->store), agent, column),
                      &row, 1, got, 8);
    store_view_close(view);
    return got[element];
}

/* ---- rows ---- */

START_TEST(test_rows_of_a_task_that_ends)
{
    struct bench *b = bench_new("two_step");

    b->with_column = 1;
    bench_run(b);
    ck_assert_uint_eq(store_head(b->store), 20);
    for (uint64_t row = 0; row < 20; row++) {
        int second = (int)(row / 2 % 2); /* second step of the episode */
        uint64_t step = row - row % 2, copy = row % 2;

        ck_assert(value(b, row, "agent_1", "obs", 0) == (second ? 1 : TOY_MARKER));
        ck_assert(value(b, row, "agent_1", "next_obs", 0) == (second ? 2 : 1));
        ck_assert(value(b, row, "agent_1", "reward", 0) == 1);
        ck_assert(value(b, row, "agent_1", "terminated", 0) == (float)second);
        ck_assert(value(b, row, "agent_1", "alive", 0) == 1);
        ck_assert(value(b, row, NULL, "truncated", 0) == 0);
        ck_assert(value(b, row, NULL, "first", 0) == (float)!second);
        ck_assert(value(b, row, "agent_1", "log_prob", 0) == (float)(step + copy) + 0.5f);
        for (int u = 0; u < 2; u++)
            ck_assert(value(b, row, "agent_1", "action", u) ==
                      (float)((int)((step + copy + 1) % 2) == u));
    }
    bench_free(b);
}
END_TEST

/* A step limit truncates and does not terminate; the last observation belongs to the
 * episode that ended. */
START_TEST(test_rows_of_an_episode_cut_off)
{
    struct bench *b = bench_new("constant_reward");

    bench_run(b);
    for (uint64_t row = 0; row < 18; row++) {
        int step = (int)(row / 2 % 3);

        ck_assert(value(b, row, "agent_0", "terminated", 0) == 0);
        ck_assert(value(b, row, NULL, "truncated", 0) == (float)(step == 2));
        ck_assert(value(b, row, NULL, "first", 0) == (float)(step == 0));
    }
    bench_free(b);
}
END_TEST

/* ---- updates ---- */

START_TEST(test_rounds_and_updates)
{
    struct bench *b = bench_new("two_step");
    uint64_t rows[4];
    char want[256];

    b->config.run.env_steps = 12;
    bench_run(b);
    ck_assert_str_eq(b->events, "checkpoint 0; row 12; checkpoint 12; done");
    ck_assert_int_eq(b->stopped, 0);
    ck_assert(b->critic_loss == 1.5);

    /* Updates at 8 and 12; agent 1 answers before agent 0. */
    store_draw(b->store, rng_key_make(7, "experience", "rows"), 1, rows, 4);
    ck_assert_mem_eq(rows, b->last_rows, sizeof(rows));
    (void)snprintf(want, sizeof(want),
                   "1 learn step 12 update 1 repeat 0 row %llu\n"
                   "0 learn step 12 update 1 repeat 0 row %llu\n",
                   (unsigned long long)rows[0], (unsigned long long)rows[0]);
    ck_assert_str_eq(b->asked + b->asked_len - strlen(want), want);
    ck_assert_ptr_null(strstr(b->asked, "update 2"));
    ck_assert_ptr_null(strstr(b->asked, "step 4 update"));
    bench_free(b);
}
END_TEST

/* (turn(turns)) twice > learn(all): each agent reads the output of the one before it in
 * the drawn order; the first one reads ones. */
START_TEST(test_turns)
{
    struct bench *b = bench_new("two_step");
    char want[2048];
    size_t n = 0;

    b->turns = 1;
    b->config.run.env_steps = 28; /* updates at 8, 12, ..., 28 */
    bench_run(b);
    ck_assert_int_eq(b->done, 1);
    for (uint64_t update = 0, orders = 0; update < 6; update++) {
        const struct rng_key key = rng_key_make(7, "experience", PURPOSE_PERMUTATION);
        uint32_t order[N_AGENTS];
        uint64_t rows[4];

        rng_permutation(key, update, order, N_AGENTS);
        orders |= 1u << order[0];
        if (update == 5)
            ck_assert_uint_eq(orders, 3); /* both orders occurred */
        n = 0;
        rng_below(rng_key_make(7, "experience", PURPOSE_ROWS), update, 0, 8 + 4 * update,
                  rows, 4);
        for (int repeat = 0; repeat < 2; repeat++)
            for (int i = 0; i < N_AGENTS; i++)
                n += (size_t)snprintf(
                    want + n, sizeof(want) - n,
                    "%u turn step %llu update %llu repeat %d row %llu prev:/q=%g\n",
                    order[i], (unsigned long long)(8 + 4 * update),
                    (unsigned long long)update, repeat, (unsigned long long)rows[0],
                    i == 0 ? 1.0 : 10.0 * order[0] + 1);
        ck_assert_msg(strstr(b->asked, want) != NULL, "%s", want);
    }
    bench_free(b);
}
END_TEST

static struct bench *mixed_bench(void)
{
    struct bench *b = bench_new("two_step");

    b->mixed = 1;
    b->cores = 1; /* requests go out in one order */
    b->agents[1].algorithm = "ddpg";
    b->agents[1].experience = (struct experience_config){.update_every = 6};
    return b;
}

static unsigned long long first_row(const char *draws, uint64_t update, uint64_t n)
{
    uint64_t rows[4];

    rng_below(rng_key_make(7, draws, PURPOSE_ROWS), update, 0, n, rows, 4);
    return rows[0];
}

/* Two algorithms: an update has the stages of the groups that are due. Each group counts
 * its own updates and draws its own rows; an agent that is asked for a proposal gets the
 * name of the asking group. */
START_TEST(test_two_groups)
{
    static const uint64_t ends[] = {8, 12, 16, 18, 20};
    struct bench *b = mixed_bench();
    char want[2048];
    size_t n = 0;

    bench_run(b);
    ck_assert_msg(b->done, "%s", b->failure.msg);
    for (uint64_t i = 0, u = 0, v = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
        const unsigned long long step = ends[i];

        n = 0;
        if (step % 4 == 0) {
            const unsigned long long row = first_row("experience", u, step), k = u++;

            n += (size_t)snprintf(want + n, sizeof(want) - n,
                                  "0 propose step %llu update %llu repeat 0 row %llu\n"
                                  "1 propose step %llu update %llu repeat 0 row %llu for "
                                  "agent_0\n"
                                  "0 learn step %llu update %llu repeat 0 row %llu "
                                  "agent_0/q=1 agent_1/q=11\n",
                                  step, k, row, step, k, row, step, k, row);
        }
        if (step % 6 == 0) {
            n += (size_t)snprintf(want + n, sizeof(want) - n,
                                  "1 learn step %llu update %llu repeat 0 row %llu\n",
                                  step, (unsigned long long)v,
                                  first_row("experience/agent_1", v, step));
            v++;
        }
        ck_assert_msg(strstr(b->asked, want) != NULL, "%s not in %s", want, b->asked);
    }
    bench_free(b);
}
END_TEST

/* A run that failed in an update continues in it: each group has its own count, and only
 * groups that were due run. */
START_TEST(test_two_groups_are_in_the_state)
{
    struct bench *a = mixed_bench(), *b = mixed_bench();
    const uint64_t fails_at = _i == 0 ? 12 : 16;
    struct rollout_progress at = {0};
    struct err err = {0};
    uint8_t *state;
    size_t len;

    ck_assert_int_eq(bench_begin(a, &err), 0);
    ck_assert_int_eq(rollout_start(a->rollout, &err), 0);
    while (at.env_steps < fails_at || strcmp(at.state, "update") != 0) {
        ck_assert_uint_eq(fake_agents_run(a->table, 1), 1);
        rollout_progress(a->rollout, &at);
    }
    a->sabotage = NAN_SCALAR;
    (void)fake_agents_run(a->table, 100000);
    ck_assert_int_eq(a->failure.code, ERR_NONFINITE);
    rollout_state_save(a->rollout, &state, &len);

    ck_assert_int_eq(bench_begin(b, &err), 0);
    memset(store_rows(b->store, fails_at), 0,
           fails_at * store_layout(b->store)->row_bytes);
    ck_assert_int_eq(store_append(b->store, fails_at, &err), 0);
    ck_assert_msg(rollout_state_load(b->rollout, state, len, &err) == 0, "%s", err.msg);
    ck_assert_int_eq(rollout_start(b->rollout, &err), 0);
    (void)fake_agents_run(b->table, 100000);
    ck_assert_int_eq(b->done, 1);
    /* the requests of the first run in that update, and those that would have followed */
    ck_assert_msg(strstr(b->asked, _i == 0 ? "0 propose step 12 update 1 "
                                           : "0 propose step 16 update 2 ") == b->asked,
                  "%s", b->asked);
    ck_assert_int_eq(strstr(b->asked, "1 learn step 12 update 0 ") != NULL, _i == 0);
    ck_assert_ptr_null(strstr(b->asked, "1 learn step 16 "));
    ck_assert_ptr_nonnull(strstr(b->asked, "1 learn step 18 update 1 "));
    ck_assert_ptr_nonnull(strstr(b->asked, "0 learn step 20 update 3 "));
    free(state);
    bench_free(a);
    bench_free(b);
}
END_TEST

/* values(all) > (mix(central) > learn(all)) twice: which requests are sent to which
 * runner, and with which inputs. */
START_TEST(test_three_stages)
{
    struct bench *b = bench_new("two_step");
    char want[1024];
    uint64_t rows[4];
    unsigned long long r;

    b->three_stages = 1;
    b->config.run.env_steps = 8;
    bench_run(b);
    ck_assert_msg(b->done, "%s", b->failure.msg);
    store_draw(b->store, rng_key_make(7, "experience", "rows"), 0, rows, 4);
    r = rows[0];
    (void)snprintf(want, sizeof(want),
                   "0 act 6\n"
                   "1 values step 8 update 0 repeat 0 row %llu\n"
                   "0 values step 8 update 0 repeat 0 row %llu\n"
                   "2 mix step 8 update 0 repeat 0 row %llu agent_0/q=1 agent_1/q=11\n"
                   "1 learn step 8 update 0 repeat 0 row %llu central/dq=21\n"
                   "0 learn step 8 update 0 repeat 0 row %llu central/dq=21\n"
                   "2 mix step 8 update 0 repeat 1 row %llu agent_0/q=1 agent_1/q=11\n"
                   "1 learn step 8 update 0 repeat 1 row %llu central/dq=21\n"
                   "0 learn step 8 update 0 repeat 1 row %llu central/dq=21\n",
                   r, r, r, r, r, r, r, r);
    ck_assert_uint_gt(b->asked_len, strlen(want));
    ck_assert_str_eq(b->asked + b->asked_len - strlen(want), want);
    bench_free(b);
}
END_TEST

/* The newest request is answered first. A runner whose next inputs exist continues before
 * the others have finished, but at most one runner works for each core, and those
 * furthest behind go first. */
static const struct {
    size_t cores;
    const char *order;
} parts[] = {
    {2, "1 propose 0 propose 1 critic 1 learn 0 critic 0 learn "},
    {1, "0 propose 1 propose 0 critic 1 critic 0 learn 1 learn "},
};

START_TEST(test_nobody_waits_for_the_slowest)
{
    struct bench *b = bench_new("two_step");
    const size_t wanted = strlen(parts[_i].order);
    char order[256] = "";
    size_t n = 0;

    b->two_parts = 1;
    b->cores = parts[_i].cores;
    bench_run(b);
    ck_assert_msg(b->done, "%s", b->failure.msg);
    for (char *line = strtok(b->asked, "\n"); line != NULL; line = strtok(NULL, "\n")) {
        char name[32];
        int agent;

        ck_assert_int_eq(sscanf(line, "%d %31s", &agent, name), 2);
        if (strcmp(name, "act") == 0)
            continue;
        n += (size_t)snprintf(order + n, sizeof(order) - n, "%d %s ", agent, name);
        ck_assert_uint_lt(n, sizeof(order));
    }
    ck_assert_uint_eq(n % wanted, 0);
    ck_assert_uint_gt(n, wanted); /* more than one update, all with the same order */
    for (size_t at = 0; at < n; at += wanted)
        ck_assert_mem_eq(order + at, parts[_i].order, wanted);
    bench_free(b);
}
END_TEST

/* Gives the agent the setting by which it draws rows of its own. */
static void draw_own_rows(struct agent_config *a)
{
    struct arena unused = ARENA_ZERO; /* no setting of the algorithm is a text */
    struct schema_place at;

    agent_section_take(a, &unused);
    arena_done(&unused);
    ck_assert_int_eq(schema_locate(&agent_schema, "settings.own_batches", a, &at), 0);
    memcpy(at.value, &(int){1}, sizeof(int));
}

/* Every agent gets the rows of all groups; those of group a are drawn under agent a's
 * name. */
START_TEST(test_own_batches)
{
    struct bench *b = bench_new("two_step");
    uint64_t rows[8];

    draw_own_rows(&b->agents[0]);
    draw_own_rows(&b->agents[1]);
    b->config.run.env_steps = 8;
    bench_run(b);
    ck_assert_int_eq(b->rows_seen.shape.rank, 3);
    ck_assert_int_eq(b->rows_seen.shape.dim[0], 2);
    ck_assert_int_eq(b->rows_seen.shape.dim[1], 4);
    ck_assert_int_eq(b->rows_seen.shape.dim[2], 1);
    store_draw(b->store, rng_key_make(7, "agent_0", "rows"), 0, rows, 4);
    store_draw(b->store, rng_key_make(7, "agent_1", "rows"), 0, rows + 4, 4);
    ck_assert_mem_eq(rows, b->last_rows, sizeof(rows));
    bench_free(b);
}
END_TEST

/* ---- evaluation ---- */

START_TEST(test_evaluating_changes_nothing)
{
    struct bench *calm = bench_new("two_step"), *b = bench_new("two_step");
    size_t calm_len, len;
    char *calm_log, *log;

    b->config.evaluation.every_env_steps = 4;
    bench_run(calm);
    bench_run(b);
    ck_assert_str_eq(calm->asked, b->asked);
    calm_log = temp_dir_read(temp_dir_file(&calm->dir, "experience"), &calm_len);
    log = temp_dir_read(temp_dir_file(&b->dir, "experience"), &len);
    ck_assert_uint_eq(calm_len, len);
    ck_assert_mem_eq(calm_log, log, len);
    free(calm_log);
    free(log);

    ck_assert_ptr_nonnull(strstr(b->events, "evaluation; "));
    ck_assert(b->evaluated == 2); /* a reward of 1 in both steps */
    /* 5 episodes of 2 steps in 2 copies: 6 steps of 2 agents, every 4 of 20 steps */
    ck_assert_uint_eq(b->greedy_acts, 5 * 6 * 2);
    bench_free(calm);
    bench_free(b);
}
END_TEST

START_TEST(test_carry_comes_back)
{
    struct bench *b = bench_new("simple_spread");

    b->with_carry = 1;
    b->config.evaluation.every_env_steps = 4;
    bench_run(b);
    ck_assert_int_eq(b->done, 1);
    ck_assert_uint_gt(b->greedy_acts, 0);
    for (size_t i = 0; i < N_AGENTS; i++) /* the first of three steps of an episode */
        for (size_t e = 0; e < 2; e++)
            ck_assert(b->age[0][i][e] == 1);
    bench_free(b);
}
END_TEST

/* A run that continues from a saved state sends the carry of the last step before it. */
START_TEST(test_carry_is_in_the_state)
{
    struct bench *a = bench_new("simple_spread"), *b = bench_new("simple_spread");
    struct err err = {0};
    uint8_t *state;
    size_t len;

    a->with_carry = b->with_carry = 1;
    bench_run(a);
    rollout_state_save(a->rollout, &state, &len);
    b->config.run.env_steps = 22;
    ck_assert_int_eq(bench_begin(b, &err), 0);
    memset(store_rows(b->store, 20), 0, 20 * store_layout(b->store)->row_bytes);
    ck_assert_int_eq(store_append(b->store, 20, &err), 0);
    ck_assert_msg(rollout_state_load(b->rollout, state, len, &err) == 0, "%s", err.msg);
    memcpy(b->age, a->age, sizeof(b->age));
    ck_assert_int_eq(rollout_start(b->rollout, &err), 0);
    (void)fake_agents_run(b->table, 100000);
    ck_assert_int_eq(b->done, 1);
    ck_assert(b->age[0][0][0] == 2 && b->age[0][1][1] == 2);
    free(state);
    bench_free(a);
    bench_free(b);
}
END_TEST

struct played {
    double returns[7 * N_AGENTS];
    double mean;
    int done;
};

static void on_played(void *ctx, const struct evaluation_result *result)
{
    struct played *p = ctx;

    ck_assert_uint_eq(result->episodes, 7);
    memcpy(p->returns, result->episode_returns, sizeof(p->returns));
    p->mean = result->return_mean[1];
    p->done++;
}

static void play(struct bench *b, size_t copies, struct played *ret)
{
    const struct evaluation_args args = {.config = &b->config,
                                         .env = &b->config.env,
                                         .copies = copies,
                                         .episodes = 7,
                                         .seed = 3,
                                         .mode = ACT_GREEDY,
                                         .agents = b->table,
                                         .on_done = on_played,
                                         .on_failed = on_failed,
                                         .ctx = ret};
    struct evaluation *e;
    struct err err = {0};

    *ret = (struct played){0};
    ck_assert_msg(evaluation_new(&e, &args, &err) == 0, "%s", err.msg);
    for (int again = 0; again < 2; again++) {
        struct played first = *ret;
        ck_assert_int_eq(evaluation_start(e, 0, &err), 0);
        (void)fake_agents_run(b->table, 100000);
        ck_assert_int_eq(ret->done, again + 1);
        if (again)
            ck_assert_mem_eq(first.returns, ret->returns, sizeof(first.returns));
    }
    evaluation_free(e);
}

/* Episode k does not depend on the number of copies. (The fake agents' answers depend on
 * the copy, but these worlds ignore actions.) */
START_TEST(test_episodes_do_not_depend_on_copies)
{
    struct bench *b = bench_new("two_step");
    struct played one, three, many;
    struct err err = {0};

    ck_assert_int_eq(bench_begin(b, &err), 0);
    play(b, 1, &one);
    play(b, 3, &three);
    play(b, 100, &many);
    ck_assert_mem_eq(one.returns, three.returns, sizeof(one.returns));
    ck_assert_mem_eq(one.returns, many.returns, sizeof(one.returns));
    ck_assert(one.mean == 2);
    bench_free(b);
}
END_TEST

/* ---- bad answers ---- */

START_TEST(test_bad_answers)
{
    static const struct {
        enum sabotage sabotage;
        int code;
        const char *agent, *says;
    } cases[] = {
        {NAN_ACTION, ERR_NONFINITE, "agent_1", "actions"},
        {WRONG_SHAPE, ERR_PROTOCOL, "agent_", "(2, 2) expected, got float32 (2, 1)"},
        {NO_OUTPUT, ERR_PROTOCOL, "agent_1", "'q'"},
        {NAN_SCALAR, ERR_NONFINITE, "agent_1", "critic_loss is nan"},
    };
    struct bench *b = bench_new("two_step");

    b->three_stages = 1;
    b->sabotage = cases[_i].sabotage;
    bench_run(b);
    ck_assert_int_eq(b->done, 0);
    ck_assert_int_eq(b->failure.code, cases[_i].code);
    ck_assert_msg(strstr(b->failure.msg, cases[_i].agent) != NULL, "%s", b->failure.msg);
    ck_assert_msg(strstr(b->failure.msg, cases[_i].says) != NULL, "%s", b->failure.msg);
    bench_free(b);
}
END_TEST

START_TEST(test_nonfinite_scalars_may_go_on)
{
    struct bench *b = bench_new("two_step");

    b->sabotage = NAN_SCALAR;
    b->agents[0].stop_on_nonfinite = b->agents[1].stop_on_nonfinite = 0;
    bench_run(b);
    ck_assert_int_eq(b->done, 1);
    bench_free(b);
}
END_TEST

/* ---- memory ---- */

#ifndef __SANITIZE_ADDRESS__
static struct {
    int on;
    uint64_t n;
} allocations;

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *p, size_t size);

void *malloc(size_t size)
{
    allocations.n += (uint64_t)allocations.on;
    return __libc_malloc(size);
}

void *calloc(size_t n, size_t size)
{
    allocations.n += (uint64_t)allocations.on;
    return __libc_calloc(n, size);
}

void *realloc(void *p, size_t size)
{
    allocations.n += (uint64_t)allocations.on;
    return __libc_realloc(p, size);
}

static void count_inside(int inside)
{
    allocations.on = inside;
}

/* Once every buffer has its final size, rounds and updates allocate no memory: with
 * several stages, with priorities, in turns. */
START_TEST(test_steady_rounds_allocate_nothing)
{
    struct bench *b = bench_new("two_step");
    struct err err = {0};

    b->three_stages = _i == 0;
    b->config.experience.has_priority = _i == 1;
    b->config.experience.priority = (struct priority_config){0.6, 0.4, 1.0};
    b->turns = _i == 2;
    b->with_column = 1;
    b->config.experience.capacity =
        500; /* the trees of priorities soon have their final size */
    b->config.run.env_steps = 2000;
    allocations.n = 0;
    ck_assert_int_eq(bench_begin(b, &err), 0);
    ck_assert_int_eq(rollout_start(b->rollout, &err), 0);
    fake_agents_watch(b->table, count_inside);
    (void)fake_agents_run(b->table, 200);
    ck_assert_uint_gt(allocations.n, 0); /* for the buffers */
    allocations.n = 0;
    (void)fake_agents_run(b->table, 2000);
    ck_assert_int_eq(b->done, 0);
    ck_assert_uint_eq(allocations.n, 0);
    fake_agents_watch(b->table, NULL);
    (void)fake_agents_run(b->table, 100000);
    ck_assert_int_eq(b->done, 1);
    bench_free(b);
}
END_TEST
#endif

/* ---- requests ---- */

START_TEST(test_stop)
{
    struct bench *b = bench_new("two_step");

    b->stop_at = 3;
    bench_run(b);
    /* requested at the beginning of round 4, carried out at its end */
    ck_assert_str_eq(b->events, "checkpoint 0; checkpoint 8; row 8; done");
    ck_assert_int_eq(b->stopped, 1);
    bench_free(b);
}
END_TEST

START_TEST(test_pause)
{
    struct bench *b = bench_new("two_step");
    struct rollout_progress at;
    struct err err = {0};

    ck_assert_int_eq(bench_begin(b, &err), 0);
    ck_assert_int_eq(rollout_start(b->rollout, &err), 0);
    ck_assert_uint_eq(fake_agents_run(b->table, 1), 1);
    rollout_request_pause(b->rollout);
    (void)fake_agents_run(b->table, 100000);
    rollout_progress(b->rollout, &at);
    ck_assert_str_eq(at.state, "paused");
    ck_assert_uint_eq(at.env_steps, 2);
    rollout_request_checkpoint(b->rollout);
    ck_assert_str_eq(b->events, "checkpoint 0; checkpoint 2; ");
    rollout_request_continue(b->rollout);
    (void)fake_agents_run(b->table, 100000);
    ck_assert_int_eq(b->done, 1);
    rollout_progress(b->rollout, &at);
    ck_assert_uint_eq(at.env_steps, 20);
    ck_assert_uint_eq(at.episodes, 10);
    ck_assert_uint_eq(at.updates, 4);
    bench_free(b);
}
END_TEST

START_TEST(test_abort_is_silent)
{
    struct bench *b = bench_new("two_step");
    struct err err = {0};

    ck_assert_int_eq(bench_begin(b, &err), 0);
    ck_assert_int_eq(rollout_start(b->rollout, &err), 0);
    (void)fake_agents_run(b->table, 1);
    rollout_abort(b->rollout);
    ck_assert_uint_eq(fake_agents_run(b->table, 100000), 1);
    ck_assert_str_eq(b->events, "checkpoint 0; ");
    ck_assert_int_eq(b->failure.code, 0);
    bench_free(b);
}
END_TEST

START_TEST(test_abort_from_a_callback)
{
    struct bench *b = bench_new("two_step");

    b->abort_in_row = 1;
    b->config.log.every_env_steps = 4;
    bench_run(b);
    ck_assert_str_eq(b->events, "checkpoint 0; row 4; ");
    ck_assert_int_eq(b->done, 0);
    bench_free(b);
}
END_TEST

START_TEST(test_central_stage_needs_a_process)
{
    struct bench *b = bench_new("two_step");
    struct err err = {0};

    b->three_stages = b->no_central = 1;
    ck_assert_int_eq(bench_begin(b, &err), ERR_PROTOCOL);
    ck_assert_msg(strstr(err.msg, "central") != NULL, "%s", err.msg);
    bench_free(b);
}
END_TEST

/* ---- draws ---- */

struct draw {
    struct rng_key key;
    uint64_t counter, first, end;
};

struct audit {
    struct draw *draws;
    size_t n;
};

static void on_draw(void *ctx, struct rng_key key, uint64_t counter, uint64_t first,
                    size_t n)
{
    struct audit *a = ctx;

    a->draws = xreallocarray(a->draws, a->n + 1, sizeof(*a->draws));
    a->draws[a->n++] = (struct draw){key, counter, first, first + n};
}

static int by_name_and_place(const void *x, const void *y)
{
    const struct draw *a = x, *b = y;
    int by_key = memcmp(&a->key, &b->key, sizeof(a->key));

    if (by_key != 0)
        return by_key;
    if (a->counter != b->counter)
        return a->counter < b->counter ? -1 : 1;
    return (a->first > b->first) - (a->first < b->first);
}

/* In a whole run no element of a draw is drawn twice. There is only one evaluation,
 * because evaluations repeat their worlds on purpose. */
START_TEST(test_no_draw_is_used_twice)
{
    struct bench *b = bench_new("simple_spread");
    struct audit audit = {0};

    draw_own_rows(&b->agents[0]);
    b->config.evaluation.every_env_steps = 1000; /* at the end */
    b->config.evaluation.seed = 7;
    rng_set_audit(on_draw, &audit);
    bench_run(b);
    rng_set_audit(NULL, NULL);
    ck_assert_msg(b->done, "%s", b->failure.msg);
    ck_assert_uint_gt(audit.n, 10);
    qsort(audit.draws, audit.n, sizeof(*audit.draws), by_name_and_place);
    for (size_t i = 1; i < audit.n; i++) {
        const struct draw *d = &audit.draws[i - 1], *e = &audit.draws[i];

        ck_assert(memcmp(&d->key, &e->key, sizeof(d->key)) != 0 ||
                  d->counter != e->counter || d->end <= e->first);
    }
    free(audit.draws);
    bench_free(b);
}
END_TEST

/* ---- state ---- */

START_TEST(test_state)
{
    struct bench *a = bench_new("two_step"), *b = bench_new("two_step");
    struct rollout_progress at;
    uint8_t *state;
    size_t len;
    struct err err = {0};

    bench_run(a);
    rollout_state_save(a->rollout, &state, &len);
    ck_assert_int_eq(bench_begin(b, &err), 0);
    ck_assert_int_eq(rollout_state_load(b->rollout, state, len, &err), ERR_STATE);
    memset(store_rows(b->store, 20), 0, 20 * store_layout(b->store)->row_bytes);
    ck_assert_int_eq(store_append(b->store, 20, &err), 0);
    ck_assert_msg(rollout_state_load(b->rollout, state, len, &err) == 0, "%s", err.msg);
    rollout_progress(b->rollout, &at);
    ck_assert_uint_eq(at.env_steps, 20);
    ck_assert_uint_eq(at.updates, 4);
    for (size_t cut = 0; cut < len; cut++)
        ck_assert_int_lt(rollout_state_load(b->rollout, state, cut, &err), 0);
    free(state);
    bench_free(a);
    bench_free(b);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *s = suite_create("rollout");
    TCase *tc = tcase_create("rollout");

    tcase_add_test(tc, test_rows_of_a_task_that_ends);
    tcase_add_test(tc, test_rows_of_an_episode_cut_off);
    tcase_add_test(tc, test_rounds_and_updates);
    tcase_add_test(tc, test_turns);
    tcase_add_test(tc, test_two_groups);
    tcase_add_loop_test(tc, test_two_groups_are_in_the_state, 0, 2);
    tcase_add_test(tc, test_three_stages);
    tcase_add_loop_test(tc, test_nobody_waits_for_the_slowest, 0,
                        sizeof(parts) / sizeof(parts[0]));
    tcase_add_test(tc, test_own_batches);
    tcase_add_test(tc, test_evaluating_changes_nothing);
    tcase_add_test(tc, test_carry_comes_back);
    tcase_add_test(tc, test_carry_is_in_the_state);
    tcase_add_test(tc, test_episodes_do_not_depend_on_copies);
    tcase_add_loop_test(tc, test_bad_answers, 0, 4);
    tcase_add_test(tc, test_nonfinite_scalars_may_go_on);
#ifndef __SANITIZE_ADDRESS__
    tcase_add_loop_test(tc, test_steady_rounds_allocate_nothing, 0, 3);
#endif
    tcase_add_test(tc, test_stop);
    tcase_add_test(tc, test_pause);
    tcase_add_test(tc, test_abort_is_silent);
    tcase_add_test(tc, test_abort_from_a_callback);
    tcase_add_test(tc, test_central_stage_needs_a_process);
    tcase_add_test(tc, test_no_draw_is_used_twice);
    tcase_add_test(tc, test_state);
    suite_add_tcase(s, tc);
    return s;
}
TEST_MAIN(make_suite)
