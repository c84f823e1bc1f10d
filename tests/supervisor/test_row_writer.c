/* Rows of the log for invented steps. The functions of environment and agents are
 * wrapped. */
#include "common/mem/xmalloc.h"
#include "supervisor/rollout/row_writer.h"
#include "tests/support/test_main.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { COPIES = 2, OBS = 2, MOVES = 3, POINT = 1, ROW_MAX = 256 };

/* A rover with masked discrete actions, and a scout with continuous ones. */
static struct env_agent agents[] = {
    {.name = "rover_0",
     .obs_width = OBS,
     .space = {.n_heads = 1, .heads = {MOVES}, .width = MOVES}},
    {.name = "scout_0", .obs_width = OBS, .space = {.kind = SPACE_BOX, .width = POINT}},
};
static const struct description descriptions[2];

static float obs[2][COPIES * OBS], actions[2][COPIES * MOVES];
static uint8_t allowed[2][COPIES * MOVES];

const float *__wrap_vec_env_obs(const struct vec_env *v, size_t agent);
const uint8_t *__wrap_vec_env_allowed(const struct vec_env *v, size_t agent);
const float *const *__wrap_acting_actions(const struct acting *a);

const float *__wrap_vec_env_obs(const struct vec_env *v, size_t agent)
{
    return obs[agent];
}

const uint8_t *__wrap_vec_env_allowed(const struct vec_env *v, size_t agent)
{
    return allowed[agent];
}

const float *const *__wrap_acting_actions(const struct acting *a)
{
    static const float *const both[] = {actions[0], actions[1]};

    return both;
}

struct step { /* the memory to which env_step points */
    float next_obs[2][COPIES * OBS];
    uint8_t next_allowed[2][COPIES * MOVES];
    double reward[2][COPIES];
    uint8_t terminated[2][COPIES], alive[2][COPIES], truncated[COPIES], first[COPIES];
};

static void write_rows(const struct store_layout *l, const struct env_spec *spec,
                       const struct step *s, uint8_t *rows)
{
    const float *const next_obs[] = {s->next_obs[0], s->next_obs[1]};
    const uint8_t *const next_allowed[] = {s->next_allowed[0], s->next_allowed[1]};
    const double *const reward[] = {s->reward[0], s->reward[1]};
    const uint8_t *const terminated[] = {s->terminated[0], s->terminated[1]};
    const uint8_t *const alive[] = {s->alive[0], s->alive[1]};
    const struct env_step step = {.next_obs = next_obs,
                                  .next_allowed = spec->masks ? next_allowed : NULL,
                                  .reward = reward,
                                  .terminated = terminated,
                                  .alive = alive,
                                  .truncated = s->truncated,
                                  .first = s->first};
    struct row_writer *w = row_writer_new(l, spec, descriptions, COPIES);

    row_writer_before(w, NULL, rows);
    memset(allowed, 0, sizeof(allowed)); /* overwritten by the next episode's masks */
    row_writer_after(w, &step, NULL, rows);
    row_writer_free(w);
}

static const void *at(const struct store_layout *l, const uint8_t *rows, size_t row,
                      const char *agent, const char *name)
{
    const int c = store_layout_find(l, agent, name);

    ck_assert_int_ge(c, 0);
    return rows + row * l->row_bytes + l->columns[c].offset;
}

/* In copy 0 the episode continues without the rover; in copy 1 it was cut off. The mask
 * after the step belongs to the end of that episode, not to the beginning of the next. */
START_TEST(masks_of_a_step)
{
    const struct env_spec spec = {.n_agents = 2, .agents = agents, .masks = 1};
    const struct step s = {.next_allowed = {{1, 0, 0, 0, 1, 1}},
                           .alive = {{0, 1}, {1, 1}},
                           .truncated = {0, 1}};
    static const uint8_t before[] = {0, 1, 0, 1, 1, 0};
    static const float none[MOVES], chosen[] = {1, 0, 0};
    struct store_layout l;
    uint8_t rows[COPIES * ROW_MAX];
    struct err err = {0};

    memcpy(allowed[0], before, sizeof(before));
    for (int c = 0; c < COPIES; c++)
        actions[0][c * MOVES] = 1;
    ck_assert_int_eq(row_writer_layout(&l, &spec, descriptions, &err), 0);
    ck_assert_uint_le(l.row_bytes, ROW_MAX);
    write_rows(&l, &spec, &s, rows);
    for (size_t c = 0; c < COPIES; c++) {
        ck_assert_mem_eq(at(&l, rows, c, "rover_0", "allowed"), before + c * MOVES,
                         MOVES);
        ck_assert_mem_eq(at(&l, rows, c, "rover_0", "next_allowed"),
                         s.next_allowed[0] + c * MOVES, MOVES);
        ck_assert_mem_eq(at(&l, rows, c, "rover_0", "action"), c ? chosen : none,
                         sizeof(none));
    }
    store_layout_done(&l);
}
END_TEST

/* However many agents: a log has at most STORE_MAX_COLUMNS. */
START_TEST(columns_without_an_environment)
{
    struct env_agent *many = xcalloc(STORE_MAX_COLUMNS, sizeof(*many));
    struct description *of = xcalloc(STORE_MAX_COLUMNS, sizeof(*of));
    struct env_spec spec = {.n_agents = STORE_MAX_COLUMNS, .agents = many};
    struct store_layout l = {0};
    struct err err = {0};

    for (size_t i = 0; i < spec.n_agents; i++) {
        (void)snprintf(many[i].name, sizeof(many[i].name), "a%zu", i);
        many[i].obs_width = many[i].space.width = 1;
    }
    ck_assert_int_eq(row_writer_layout(&l, &spec, of, &err), ERR_LIMIT);
    (void)snprintf(spec.id, sizeof(spec.id), "none");
    ck_assert_int_eq(row_writer_layout(&l, &spec, of, &err), 0);
    ck_assert_uint_eq(l.n_columns, 2); /* truncated, first */
    store_layout_done(&l);
    free(many);
    free(of);
}
END_TEST

/* Without masks, a row consists of the other columns. */
START_TEST(rows_without_masks)
{
    const struct env_spec masked = {.n_agents = 2, .agents = agents, .masks = 1};
    const struct env_spec plain = {.n_agents = 2, .agents = agents};
    const struct step s = {.reward = {{1, 2}, {3, 4}}, .alive = {{1, 1}, {1, 1}}};
    struct store_layout l, with;
    uint8_t rows[COPIES * ROW_MAX];
    struct err err = {0};
    float reward;

    ck_assert_int_eq(row_writer_layout(&with, &masked, descriptions, &err), 0);
    ck_assert_int_eq(row_writer_layout(&l, &plain, descriptions, &err), 0);
    ck_assert_uint_eq(with.n_columns, l.n_columns + 2);
    ck_assert_uint_eq(with.row_bytes, l.row_bytes + 8);
    write_rows(&l, &plain, &s, rows);
    memcpy(&reward, at(&l, rows, 1, "scout_0", "reward"), sizeof(reward));
    ck_assert(reward == 4.0f);
    store_layout_done(&with);
    store_layout_done(&l);
}
END_TEST

/* In the log, which learners see. */
START_TEST(rewards_are_clipped)
{
    const struct env_spec spec = {.n_agents = 2, .agents = agents, .clip_rewards = 1.5};
    const struct step s = {.reward = {{-7, 1}, {1e300, -1.5}}, .alive = {{1, 1}, {1, 1}}};
    const float want[2][COPIES] = {{-1.5f, 1}, {1.5f, -1.5f}};
    struct store_layout l;
    uint8_t rows[COPIES * ROW_MAX];

    ck_assert_int_eq(row_writer_layout(&l, &spec, descriptions, NULL), 0);
    write_rows(&l, &spec, &s, rows);
    for (size_t a = 0; a < 2; a++)
        for (size_t c = 0; c < COPIES; c++)
            ck_assert_mem_eq(at(&l, rows, c, agents[a].name, "reward"), &want[a][c],
                             sizeof(float));
    store_layout_done(&l);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *s = suite_create("row_writer");
    TCase *tc = tcase_create("row_writer");

    tcase_add_test(tc, masks_of_a_step);
    tcase_add_test(tc, rows_without_masks);
    tcase_add_test(tc, columns_without_an_environment);
    tcase_add_test(tc, rewards_are_clipped);
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(make_suite)
