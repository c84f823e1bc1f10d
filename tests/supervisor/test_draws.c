/* No random key is used twice. A whole run (driver, environments, real agents) takes
 * place in this process, and every draw is recorded. Agents are brood-agent's services,
 * called with messages but without processes.
 */
#include "agent/loop/service.h"
#include "common/err/check.h"
#include "common/mem/xmalloc.h"
#include "common/msg/frame.h"
#include "common/msg/protocol.h"
#include "common/rng/rng.h"
#include "supervisor/env/env.h"
#include "supervisor/rollout/rollout.h"
#include "tests/supervisor/fake_agents.h"
#include "tests/support/temp_dir.h"
#include "tests/support/test_main.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

enum { AGENTS = 3, SEED = 5, EVALUATION_SEED = 6 };

static const char *const names[AGENTS] = {"agent_0", "agent_1", "agent_2"};

/* One evaluation only, at the end, because evaluations repeat their worlds on purpose. */
static const char config_text[] =
    "run: {name: draws, seed: 5, env_steps: 160}\n"
    "env: {id: simple_spread, copies: 4, max_steps: 10, params: {agents: 3}}\n"
    "experience: {capacity: 1000, batch_size: 16, warmup: 40, update_every: 20}\n"
    "evaluation: {every_env_steps: 1000, episodes: 6, mode: sample, seed: 6}\n"
    "defaults: {actor: {hidden: [8]}, critic: {hidden: [8]}}\n";

struct draw {
    struct rng_key key;
    uint64_t counter, first, end;
};

struct audit {
    struct draw *draws;
    size_t n;
};

struct play {
    struct temp_dir dir;
    struct run_config config;
    struct vec_env *env;
    struct store *store;
    struct metrics *metrics;
    struct service *services[AGENTS];
    struct agent_table *table;
    struct rollout *rollout;
    int done, evaluations;
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

/* The number of draws that share an element with the previous one in the sorted list. */
static size_t count_reuse(struct audit *a)
{
    size_t n = 0;

    qsort(a->draws, a->n, sizeof(*a->draws), by_name_and_place);
    for (size_t i = 1; i < a->n; i++) {
        const struct draw *d = &a->draws[i - 1], *e = &a->draws[i];

        n += memcmp(&d->key, &e->key, sizeof(d->key)) == 0 && d->counter == e->counter &&
             d->end > e->first;
    }
    return n;
}

static size_t count_key(const struct audit *a, uint64_t seed, const char *name,
                        const char *purpose)
{
    const struct rng_key key = rng_key_make(seed, name, purpose);
    size_t n = 0;

    for (size_t i = 0; i < a->n; i++)
        n += memcmp(&a->draws[i].key, &key, sizeof(key)) == 0;
    return n;
}

/* ---- the run ---- */

/* fake_agents sends an empty request for the description; this function completes it. */
static void configure(struct play *p, size_t agent, struct msg_out *o)
{
    struct msg_out request;
    struct msg m = {0};
    const uint8_t *frame;
    size_t len;

    msg_out_init(&request);
    msg_begin_request(&request, 0, "configure");
    rollout_pack_configure(&p->config, vec_env_spec(p->env), agent, 0, NULL, &request);
    msg_end(&request, &frame, &len);
    CHECK(msg_parse(&m, frame + FRAME_HEADER_BYTES, len - FRAME_HEADER_BYTES, NULL) == 0);
    CHECK(service_handle(p->services[agent], &m, o) == 0);
    msg_done(&m);
    msg_out_done(&request);
}

static void answer(void *ctx, size_t agent, const struct msg *request, struct msg_out *o)
{
    struct play *p = ctx;

    if (strcmp(request->method, "configure") == 0)
        configure(p, agent, o);
    else
        CHECK(service_handle(p->services[agent], request, o) == 0);
}

static int on_row(void *ctx, const struct metrics_row *row, struct err *err)
{
    return 0;
}

static int on_checkpoint(void *ctx, const struct rollout_progress *at, struct err *err)
{
    return 0;
}

static void on_evaluation(void *ctx, const struct evaluation_result *result)
{
    struct play *p = ctx;

    p->evaluations++;
}

static void on_done(void *ctx, int stopped)
{
    struct play *p = ctx;

    p->done = !stopped;
}

static void on_failed(void *ctx, const struct err *err)
{
    ck_abort_msg("%s", err->msg);
}

/* The descriptors that an agent expects at fixed numbers: the log, but no shared
 * block. */
static void place_log(struct play *p)
{
    ck_assert_int_ne(dup2(store_agent_fd(p->store), AGENT_FD_LOG), -1);
}

static void reserve_places(void)
{
    const int null = open("/dev/null", O_RDONLY);

    for (int fd = AGENT_FD_BLOCK; fd <= AGENT_FD_LOG; fd++) {
        ck_assert_msg(null == fd || fcntl(fd, F_GETFD) == -1, "%d is taken", fd);
        ck_assert_int_eq(dup2(null, fd), fd);
    }
}

static void begin(struct play *p, const char *const *set, size_t n_set)
{
    const struct config_options options = {
        .set = set, .n_set = n_set, .env_names = env_agent_names};
    static const char *const teams[AGENTS] = {"agent", "agent", "agent"};
    struct err err = {0};

    temp_dir_init(&p->dir);
    reserve_places();
    ck_assert_msg(run_config_parse(&p->config, config_text, strlen(config_text), "draws",
                                   &options, &err) == 0,
                  "%s", err.msg);
    ck_assert_int_eq(vec_env_new(&p->env, &p->config.env, p->config.run.seed,
                                 ENV_DRAWS_TRAINING, 0, &err),
                     0);
    vec_env_reset(p->env);
    ck_assert_int_eq(store_create(&p->store, temp_dir_file(&p->dir, "experience"),
                                  (uint64_t)p->config.experience.capacity, &err),
                     0);
    place_log(p);
    p->metrics = metrics_new(names, teams, AGENTS, 0, 0);
    for (size_t i = 0; i < AGENTS; i++)
        p->services[i] = service_new(NULL);
    p->table = fake_agents_new(names, AGENTS, answer, p);
}

static void play(struct audit *audit, const char *const *set, size_t n_set)
{
    struct play p = {0};
    struct rollout_args args = {.callbacks = {.on_row = on_row,
                                              .on_checkpoint = on_checkpoint,
                                              .on_evaluation = on_evaluation,
                                              .on_done = on_done,
                                              .on_failed = on_failed,
                                              .ctx = &p}};
    struct err err = {0};

    rng_set_audit(on_draw, audit);
    begin(&p, set, n_set);
    args.config = &p.config;
    args.agents = p.table;
    args.env = p.env;
    args.store = p.store;
    args.metrics = p.metrics;
    ck_assert_msg(rollout_new(&p.rollout, &args, &err) == 0, "%s", err.msg);
    ck_assert_msg(rollout_start(p.rollout, &err) == 0, "%s", err.msg);
    (void)fake_agents_run(p.table, 1000000);
    rng_set_audit(NULL, NULL);
    ck_assert_int_eq(p.done, 1);
    ck_assert_int_eq(p.evaluations, 1);

    rollout_free(p.rollout);
    fake_agents_free(p.table);
    for (size_t i = 0; i < AGENTS; i++)
        service_free(p.services[i]);
    metrics_free(p.metrics);
    store_free(p.store);
    vec_env_free(p.env);
    run_config_done(&p.config);
    temp_dir_done(&p.dir);
    (void)close(AGENT_FD_BLOCK);
    (void)close(AGENT_FD_LOG);
}

/* ---- tests ---- */

static const struct {
    const char *set[3];
    size_t n;
} variants[] = {
    {{NULL}, 0},
    {{"defaults.settings.own_batches=true"}, 1},
    {{"env.actions=continuous", "defaults.settings.execute=soft"}, 2},
    {{"defaults.algorithm=ddpg", "env.actions=continuous",
      "defaults.settings.policy=deterministic"},
     3},
    {{"defaults.algorithm=iql", "evaluation.mode=sample"}, 2},
    /* three groups, which request proposals from each other */
    {{"agents.agent_1={algorithm: iql}", "agents.agent_2={experience: {batch_size: 8}}"},
     2},
};

START_TEST(test_no_key_is_used_twice)
{
    struct audit a = {0};

    play(&a, variants[_i].set, variants[_i].n);
    ck_assert_uint_eq(count_reuse(&a), 0);
    for (size_t i = 0; i < AGENTS; i++) /* 40 rounds of 4 copies */
        ck_assert_uint_eq(count_key(&a, SEED, names[i], PURPOSE_ACT), 160);
    if (_i != 3) /* deterministic policies evaluate without noise */
        ck_assert_uint_gt(count_key(&a, EVALUATION_SEED, names[1], PURPOSE_EVALUATE), 0);
    ck_assert_uint_eq(
        count_key(&a, SEED, _i == 1 ? names[2] : "experience", PURPOSE_ROWS), 7);
    free(a.draws);
}
END_TEST

/* The check itself works: a repetition of the run reuses every draw. */
START_TEST(test_reuse_would_be_seen)
{
    struct audit a = {0};
    size_t n;

    play(&a, NULL, 0);
    n = a.n;
    play(&a, NULL, 0);
    ck_assert_uint_eq(a.n, 2 * n);
    ck_assert_uint_eq(count_reuse(&a), n);
    free(a.draws);
}
END_TEST

/* Runs with other seeds have no draw in common. */
START_TEST(test_other_seeds_share_nothing)
{
    static const char *const other[] = {"run.seed=7", "evaluation.seed=8"};
    struct audit a = {0};

    play(&a, NULL, 0);
    play(&a, other, 2);
    ck_assert_uint_eq(count_reuse(&a), 0);
    free(a.draws);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *s = suite_create("draws");
    TCase *tc = tcase_create("draws");

    tcase_set_timeout(tc, 60);
    tcase_add_loop_test(tc, test_no_key_is_used_twice, 0,
                        sizeof(variants) / sizeof(variants[0]));
    tcase_add_test(tc, test_reuse_would_be_seen);
    tcase_add_test(tc, test_other_seeds_share_nothing);
    suite_add_tcase(s, tc);
    return s;
}
TEST_MAIN(make_suite)
