/* env.metrics of built-in environments: what they measure, and that episodes keep it. */
#include "supervisor/env/env.h"
#include "tests/support/test_main.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { COPIES = 3, LIMIT = 7, MAX_AGENTS = 6, MAX_WIDTH = 10 };

static struct vec_env *open_env(const char *id, const char *metrics)
{
    const struct env_config config = {
        .id = id, .metrics = metrics, .copies = COPIES, .max_steps = LIMIT};
    struct vec_env *v = NULL;
    struct err err = {0};

    ck_assert_msg(vec_env_new(&v, &config, 11, ENV_DRAWS_TRAINING, 0, &err) == 0, "%s",
                  err.msg);
    vec_env_reset(v);
    return v;
}

/* One action of each agent, which depends on copy and time. */
static struct env_step step_env(struct vec_env *v, uint64_t t)
{
    static float values[MAX_AGENTS][COPIES * MAX_WIDTH];
    const struct env_spec *spec = vec_env_spec(v);
    const float *rows[MAX_AGENTS];
    struct env_step s;
    struct err err = {0};

    for (size_t a = 0; a < spec->n_agents; a++) {
        const size_t width = (size_t)spec->agents[a].space.width;

        memset(values[a], 0, sizeof(values[a]));
        rows[a] = values[a];
        for (size_t c = 0; c < COPIES; c++)
            values[a][c * width + (7 * c + 3 * a + t * t) % width] = 1.0f;
    }
    ck_assert_msg(vec_env_step(v, rows, &s, &err) == 0, "%s", err.msg);
    return s;
}

/* ---- what they are ---- */

static double dist(const float *a, const float *b)
{
    return hypot((double)a[0] - (double)b[0], (double)a[1] - (double)b[1]);
}

/* Of simple_spread, from what its agents see: velocity, place, landmarks, others. */
static double occupied(const struct env_step *s, size_t c)
{
    double n = 0;

    for (size_t l = 0; l < 3; l++) {
        static const float here[2] = {0, 0};
        double least = (double)INFINITY;

        for (size_t a = 0; a < 3; a++)
            least = fmin(least, dist(here, s->next_obs[a] + c * 18 + 4 + 2 * l));
        n += least < 0.1;
    }
    return n;
}

static double collisions(const struct env_step *s, size_t c)
{
    double n = 0;

    for (size_t a = 0; a < 3; a++)
        for (size_t b = a + 1; b < 3; b++)
            n += dist(s->next_obs[a] + c * 18 + 2, s->next_obs[b] + c * 18 + 2) < 0.3;
    return n;
}

START_TEST(spread_counts_landmarks_and_collisions)
{
    struct vec_env *v = open_env("simple_spread", "collisions occupied");
    double sum[2][COPIES] = {{0}}, all[2] = {0};

    ck_assert_uint_eq(vec_env_spec(v)->n_metrics, 2);
    ck_assert_str_eq(vec_env_spec(v)->metrics[1], "occupied");
    for (uint64_t t = 0; t < 60 * LIMIT; t++) {
        const struct env_step s = step_env(v, t);

        for (size_t c = 0; c < COPIES; c++) {
            sum[0][c] += collisions(&s, c);
            sum[1][c] += occupied(&s, c);
            for (size_t m = 0; m < 2; m++) {
                const double want = sum[m][c] / (double)(t % LIMIT + 1);

                ck_assert_double_eq_tol(s.episode_metric[m][c], want, 1e-12);
                all[m] += sum[m][c];
                sum[m][c] *= !s.ended[c];
            }
        }
    }
    ck_assert(all[0] > 0 && all[1] > 0);
    vec_env_free(v);
}
END_TEST

/* The share of the food is that of the last step: with rewards that sum to 1 and are given for
 * nothing else, their sum. */
START_TEST(foraging_counts_food)
{
    struct vec_env *v = open_env("foraging", "food");
    double most = 0;

    for (uint64_t t = 0; t < 400 * LIMIT; t++) {
        const struct env_step s = step_env(v, t);

        for (size_t c = 0; c < COPIES; c++) {
            ck_assert_double_eq_tol(s.episode_metric[0][c],
                                    s.episode_return[0][c] + s.episode_return[1][c],
                                    1e-12);
            most = fmax(most, s.episode_metric[0][c]);
        }
    }
    ck_assert(most > 0 && most <= 1);
    vec_env_free(v);
}
END_TEST

/* Each metric of each environment has a number in every step. */
START_TEST(all_can_be_measured)
{
    const struct env_info *info = env_info_at((size_t)_i);
    const struct env_metric *m = info != NULL ? env_metrics(info->id) : NULL;

    for (; m != NULL && m->name != NULL; m++) {
        struct vec_env *v = open_env(info->id, m->name);

        ck_assert(m->doc[0] != '\0');
        for (uint64_t t = 0; t < 2 * LIMIT; t++) {
            const struct env_step s = step_env(v, t);

            for (size_t c = 0; c < COPIES; c++)
                ck_assert(isfinite(s.episode_metric[0][c]) &&
                          s.episode_metric[0][c] >= 0);
        }
        vec_env_free(v);
    }
}
END_TEST

START_TEST(others_are_refused)
{
    static const struct {
        const char *id, *metrics, *why;
    } cases[] = {
        {"simple_spread", "occupid", "expected some of occupied, collisions; did you"},
        {"simple_spread", "occupied occupied", "occupied is there twice"},
        {"climbing", "success", "found 'success', but climbing has no metrics"},
        {"simple_spread", "a123456789b123456789c123456789d123456789e12345678",
         "at most 48 characters"},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const struct env_config config = {.id = cases[i].id,
                                          .metrics = cases[i].metrics,
                                          .copies = COPIES,
                                          .max_steps = LIMIT};
        struct vec_env *v = NULL;
        struct err err = {0};

        ck_assert_int_eq(vec_env_new(&v, &config, 11, ENV_DRAWS_TRAINING, 0, &err),
                         ERR_CONFIG);
        ck_assert_msg(strstr(err.msg, cases[i].why) != NULL, "%s", err.msg);
        ck_assert_str_eq(err.key, "env.metrics");
    }
}
END_TEST

/* ---- state ---- */

static void *save(const struct vec_env *v, size_t *ret_len)
{
    void *state = calloc(1, *ret_len = vec_env_state_bytes(v));

    ck_assert_ptr_nonnull(state);
    vec_env_state_save(v, state);
    return state;
}

static void load(struct vec_env *v, const void *state, size_t len)
{
    struct err err = {0};

    ck_assert_msg(vec_env_state_load(v, state, len, &err) == 0, "%s", err.msg);
}

START_TEST(an_episode_goes_on_from_its_state)
{
    struct vec_env *v = open_env("simple_spread", "occupied collisions");
    struct vec_env *other = open_env("simple_spread", "occupied collisions");
    size_t len, again_len;
    void *state, *again;

    for (uint64_t t = 0; t < LIMIT / 2; t++)
        (void)step_env(v, t);
    state = save(v, &len);
    load(other, state, len);
    again = save(other, &again_len);
    ck_assert_uint_eq(len, again_len);
    ck_assert_mem_eq(state, again, len);
    for (uint64_t t = LIMIT / 2; t < 3 * LIMIT; t++) {
        const struct env_step s = step_env(v, t), o = step_env(other, t);

        for (size_t m = 0; m < 2; m++)
            ck_assert_mem_eq(s.episode_metric[m], o.episode_metric[m],
                             COPIES * sizeof(double));
    }
    for (size_t cut = 0; cut < len; cut += 7)
        ck_assert_int_lt(vec_env_state_load(other, state, cut, NULL), 0);
    free(state);
    free(again);
    vec_env_free(v);
    vec_env_free(other);
}
END_TEST

/* A run resumed with --anyway may ask for other metrics: what has been played does not count for them. */
START_TEST(other_metrics_begin_anew)
{
    static const char *const metrics[] = {NULL, "occupied", "collisions",
                                          "occupied collisions"};
    enum { N = sizeof(metrics) / sizeof(metrics[0]) };

    for (size_t from = 0; from < N; from++)
        for (size_t to = 0; to < N; to++) {
            struct vec_env *v = open_env("simple_spread", metrics[from]);
            struct vec_env *other = open_env("simple_spread", metrics[to]);
            struct env_step s, o;
            size_t len;
            void *state;

            for (uint64_t t = 0; t < LIMIT - 1; t++)
                (void)step_env(v, t);
            state = save(v, &len);
            load(other, state, len);
            s = step_env(v, LIMIT - 1);
            o = step_env(other, LIMIT - 1);
            ck_assert_mem_eq(s.next_obs[0], o.next_obs[0], 18 * sizeof(float));
            ck_assert_mem_eq(s.episode_return[0], o.episode_return[0],
                             COPIES * sizeof(double));
            for (size_t c = 0; to == 1 && from != to && c < COPIES; c++)
                ck_assert_double_eq(o.episode_metric[0][c], occupied(&o, c));
            free(state);
            vec_env_free(v);
            vec_env_free(other);
        }
}
END_TEST

/* A run that asks for none has the state that it had before there were any. */
START_TEST(without_metrics_nothing_is_added)
{
    struct vec_env *none = open_env("simple_spread", NULL);
    struct vec_env *one = open_env("simple_spread", "occupied");
    size_t len, more;
    char *a, *b;

    (void)step_env(none, 0);
    (void)step_env(one, 0);
    a = save(none, &len);
    b = save(one, &more);
    ck_assert_uint_eq(more, len + 2 * sizeof(uint64_t) + 2 * COPIES * sizeof(double));
    ck_assert_mem_eq(a + len - 300, b + more - 300, 300);
    ck_assert_int_eq(a[4], 1); /* the version */
    free(a);
    free(b);
    vec_env_free(none);
    vec_env_free(one);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *s = suite_create("env_metrics");
    TCase *tc = tcase_create("env_metrics");

    tcase_add_test(tc, spread_counts_landmarks_and_collisions);
    tcase_add_test(tc, foraging_counts_food);
    tcase_add_loop_test(tc, all_can_be_measured, 0, 32);
    tcase_add_test(tc, others_are_refused);
    tcase_add_test(tc, an_episode_goes_on_from_its_state);
    tcase_add_test(tc, other_metrics_begin_anew);
    tcase_add_test(tc, without_metrics_nothing_is_added);
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(make_suite)
