/* A steady agent allocates nothing: after one act and one update of a size, the next ones
 * use the memory that exists. The linker sends this project's allocations through the
 * counters below (OpenBLAS's small products have a malloc of their own).
 */
#include "common/rng/rng.h"
#include "tests/support/team.h"
#include "tests/support/test_main.h"

#include <string.h>

#define BATCH 64

static int n_allocations;

void *__real_xmalloc(size_t size);
void *__real_xcalloc(size_t n, size_t size);
void *__real_xreallocarray(void *p, size_t n, size_t size);
void *__real_mem_aligned(size_t size);
void *__wrap_xmalloc(size_t size);
void *__wrap_xcalloc(size_t n, size_t size);
void *__wrap_xreallocarray(void *p, size_t n, size_t size);
void *__wrap_mem_aligned(size_t size);

void *__wrap_xmalloc(size_t size)
{
    n_allocations++;
    return __real_xmalloc(size);
}

void *__wrap_xcalloc(size_t n, size_t size)
{
    n_allocations++;
    return __real_xcalloc(n, size);
}

void *__wrap_xreallocarray(void *p, size_t n, size_t size)
{
    n_allocations++;
    return __real_xreallocarray(p, n, size);
}

void *__wrap_mem_aligned(size_t size)
{
    n_allocations++;
    return __real_mem_aligned(size);
}

static void play_stage(struct team *t, const struct stage *stage, uint64_t update,
                       const uint64_t *rows)
{
    const int is_ps = stage->runner == STAGE_PS;
    struct stage_result res;
    struct err err;

    for (size_t i = is_ps ? t->args.n : 0; i < t->args.n + (size_t)is_ps; i++)
        ck_assert_int_eq(
            team_stage(t, i, stage->name, update, rows, 1, BATCH, NULL, &res, &err), 0);
}

static void play(struct team *t, uint64_t update, const uint64_t *rows)
{
    struct member *m = &t->members[0];
    size_t n_stages;
    const struct stage *stages = m->ops->stages(m->algo, &n_stages);
    const uint64_t counter[4] = {update, update, update, update}, first[4] = {0};
    const float obs[4 * 18] = {0.5f};
    float actions[4 * 5];
    const struct act_args args = {.n_copies = 4,
                                  .obs = obs,
                                  .key = rng_key_make(1, "agent_0", PURPOSE_ACT),
                                  .counter = counter,
                                  .draw_first = first};
    struct act_result acted = {.actions = actions};
    struct err err;

    ck_assert_int_eq(m->ops->act(m->algo, m->session, &args, &acted, &err), 0);
    for (size_t i = 0; i < n_stages; i++) {
        t->slot = t->args.share ? t->repeat : SLOT_NONE;
        play_stage(t, &stages[i], update, rows);
        if (t->repeat + 1 < (uint64_t)stages[i].repeat) {
            t->repeat++;
            i = (size_t)stages[i].repeat_from - 1;
        }
    }
    t->repeat = 0;
}

static const struct {
    const char *text;
    int share;
} configs[] = {
    {"{}", 0},
    {"{algorithm: ddpg}", 0},
    {"{algorithm: iql}", 0},
    {"{algorithm: isac}", 0},
    {"{algorithm: masac}", 0},
    {"{algorithm: matd3}", 0},
    {"{algorithm: mappo}", 0},
    {"{algorithm: coma}", 0},
    {"{algorithm: ddpg, settings: {agent_id: true}}", 1},
    {"{algorithm: isac, settings: {agent_id: true}}", 1},
    {"{algorithm: maddpg}", 1},
    {"{algorithm: masac}", 1},
    {"{algorithm: matd3, settings: {agent_id: true}}", 1},
};
enum { PLAIN, MASKED, SYMMETRIC, VARIANTS };
enum { CONFIGS = sizeof(configs) / sizeof(configs[0]) };

/* A symmetry that swaps two landmarks. */
static void add_symmetry(struct symmetry_group *g, struct arena *arena)
{
    const size_t orders = symmetry_add_orders(g, arena, 2);

    for (uint32_t agent = 0; agent < 3; agent++)
        symmetry_add_run(g, arena, orders,
                         &(struct symmetry_run){.agent = agent,
                                                .part = SYMMETRY_OBS,
                                                .first = 4,
                                                .count = 2,
                                                .width = 2});
}

START_TEST(test_steady_requests_allocate_nothing)
{
    struct team_args args = team_spread(configs[_i / VARIANTS].text, 200);
    struct symmetry_group symmetry = {0};
    struct arena arena = ARENA_ZERO;
    struct team *t;
    uint64_t rows[BATCH];
    int before;

    args.space.masked = _i % VARIANTS == MASKED;
    args.share = configs[_i / VARIANTS].share;
    if (_i % VARIANTS == SYMMETRIC && strstr(args.config, "agent_id") == NULL) {
        add_symmetry(&symmetry, &arena);
        args.symmetry = &symmetry;
    }
    t = team_new(&args);

    rng_below(rng_key_make(1, "test", "rows"), 0, 0, 200, rows, BATCH);
    team_update(t, 0, rows, 1, BATCH, NULL);
    play(t, 1, rows);
    before = n_allocations;
    ck_assert_int_gt(before, 0);
    for (uint64_t u = 2; u < 12; u++)
        play(t, u, rows);
    ck_assert_int_eq(n_allocations, before);
    team_free(t);
    arena_done(&arena);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *suite = suite_create("steady");
    TCase *tc = tcase_create("steady");

    tcase_add_loop_test(tc, test_steady_requests_allocate_nothing, 0, VARIANTS * CONFIGS);
    suite_add_tcase(suite, tc);
    return suite;
}
TEST_MAIN(make_suite)
