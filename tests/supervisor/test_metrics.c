#include "supervisor/metrics/metrics.h"
#include "tests/support/test_main.h"

#include <math.h>
#include <string.h>

static const char *const names[] = {"adversary_0", "agent_0", "agent_1"};
static const char *const teams[] = {"adversary", "agent", "agent"};

static struct metrics *new_metrics(void)
{
    return metrics_new(names, teams, 3, 1, 1000000000u);
}

static double value_of(const struct metrics_row *row, const char *name)
{
    for (size_t i = 0; i < row->n; i++)
        if (strcmp(row->names[i], name) == 0)
            return row->values[i];
    ck_abort_msg("no series %s", name);
    return 0;
}

static void add_scalar(struct metrics *m, size_t agent, const char *name, double v)
{
    metrics_add_scalar(m, agent, name, strlen(name), v);
}

START_TEST(test_names)
{
    struct metrics *m = new_metrics();
    struct metrics_row row;

    metrics_take_row(m, 0, 0, 1000000000u, &row);
    ck_assert_uint_eq(row.n, row.n_fixed);
    ck_assert_uint_eq(row.n, 2 * (3 + 2 + 1) + 3 * 7 + 3);
    ck_assert_str_eq(row.names[0], "rollout/return/adversary_0");
    ck_assert_str_eq(row.names[4], "rollout/team_return/agent");
    ck_assert_str_eq(row.names[5], "rollout/episode_length");
    ck_assert_str_eq(row.names[6], "eval/return/adversary_0");
    ck_assert_str_eq(row.names[12], "train/adversary_0/critic_loss");
    ck_assert_str_eq(row.names[row.n - 3], "time/env_steps_per_second");
    ck_assert_str_eq(row.names[row.n - 2], "time/round_us");
    ck_assert_str_eq(row.names[row.n - 1], "time/learn_ms");
    for (size_t i = 0; i < row.n; i++)
        ck_assert(isnan(row.values[i]));
    metrics_free(m);
}
END_TEST

START_TEST(test_means_since_the_last_row)
{
    struct metrics *m = new_metrics();
    struct metrics_row row;

    metrics_add_episode(m, (double[]){1, 2, 4}, 25, NULL);
    metrics_add_episode(m, (double[]){3, 2, 6}, 5, NULL);
    metrics_add_evaluation(m, (double[]){-1, -2, -3}, 25, NULL);
    add_scalar(m, 1, "critic_loss", 0.5);
    add_scalar(m, 1, "critic_loss", 1.5);
    metrics_add_round(m, 2000);
    metrics_add_round(m, 4000);
    metrics_add_update(m, 3000000);
    metrics_take_row(m, 1000, 2, 1500000000u, &row);
    ck_assert_uint_eq(row.env_steps, 1000);
    ck_assert_uint_eq(row.episodes, 2);
    ck_assert(value_of(&row, "rollout/return/adversary_0") == 2);
    ck_assert(value_of(&row, "rollout/team_return/agent") == 3.5);
    ck_assert(value_of(&row, "rollout/team_return/adversary") == 2);
    ck_assert(value_of(&row, "rollout/episode_length") == 15);
    ck_assert(value_of(&row, "eval/team_return/agent") == -2.5);
    ck_assert(value_of(&row, "train/agent_0/critic_loss") == 1);
    ck_assert(isnan(value_of(&row, "train/agent_1/critic_loss")));
    ck_assert(value_of(&row, "time/env_steps_per_second") == 2000);
    ck_assert(value_of(&row, "time/round_us") == 3);
    ck_assert(value_of(&row, "time/learn_ms") == 3);

    metrics_add_episode(m, (double[]){7, 0, 0}, 1, NULL);
    metrics_take_row(m, 1500, 3, 2500000000u, &row);
    ck_assert(value_of(&row, "rollout/return/adversary_0") == 7);
    ck_assert(value_of(&row, "time/env_steps_per_second") == 500);
    ck_assert(isnan(value_of(&row, "eval/team_return/agent")));
    metrics_free(m);
}
END_TEST

START_TEST(test_other_scalars)
{
    struct metrics *m = new_metrics();
    struct metrics_row row;
    char name[32];

    add_scalar(m, 3, "mix_loss", 3);
    add_scalar(m, 0, "entropy", 2);
    add_scalar(m, 0, "entropy", 4);
    metrics_take_row(m, 1, 0, 1, &row);
    ck_assert_uint_eq(row.n, row.n_fixed + 2);
    ck_assert_str_eq(row.names[row.n_fixed], "train/adversary_0/entropy");
    ck_assert(value_of(&row, "train/adversary_0/entropy") == 3);
    ck_assert(value_of(&row, "train/central/mix_loss") == 3);

    /* names from an agent can neither make the table grow without bound nor break a
     * file */
    metrics_add_scalar(m, 0, "a,b\n", 4, 1);
    metrics_add_scalar(m, 0, "", 0, 1);
    for (int i = 0; i < 100; i++) {
        (void)snprintf(name, sizeof(name), "s%d", i);
        add_scalar(m, 2, name, 1);
    }
    metrics_take_row(m, 1, 0, 1, &row);
    ck_assert_uint_eq(row.n, row.n_fixed + 2 + METRICS_MAX_SCALARS);
    metrics_free(m);
}
END_TEST

/* A declared scalar has a column from the first row on, and stays where it is. */
START_TEST(test_declared_scalars)
{
    static const struct algorithm_scalar scalars[] = {
        {"entropy", "", "", 0},
        {"critic_loss", "", "", SCALAR_BY_AGENT | SCALAR_BY_CENTRAL},
        {"rate", "", "", SCALAR_BY_STEP},
        {NULL},
    };
    struct metrics *m = new_metrics();
    struct metrics_row row;
    size_t n;

    metrics_add_process(m, "agent_ps");
    metrics_declare_env(m, (const char *[]){"tags"}, 1);
    metrics_declare(m, 0, NULL, SCALAR_BY_AGENT);
    metrics_declare(m, 1, scalars, SCALAR_BY_AGENT);
    metrics_declare(m, 2, scalars, SCALAR_BY_AGENT | SCALAR_BY_STEP);
    metrics_declare(m, 3, scalars, SCALAR_BY_CENTRAL);
    metrics_declare(m, 4, scalars, SCALAR_BY_STEP);
    n = metrics_older_count(m);
    ck_assert_uint_eq(metrics_fixed_count(m), n + 2 + 1 + 2 + 1 + 1);
    ck_assert_str_eq(metrics_name(m, n), "rollout/metric/tags");
    ck_assert_str_eq(metrics_name(m, n + 1), "eval/metric/tags");
    ck_assert_str_eq(metrics_name(m, n + 2), "train/agent_0/entropy");
    ck_assert_str_eq(metrics_name(m, n + 3), "train/agent_1/entropy");
    ck_assert_str_eq(metrics_name(m, n + 4), "train/agent_1/rate");
    ck_assert_str_eq(metrics_name(m, n + 5), "train/central/critic_loss");
    ck_assert_str_eq(metrics_name(m, n + 6), "train/agent_ps/rate");

    add_scalar(m, 4, "rate", 0.5);
    add_scalar(m, 2, "rate", 0.25);
    add_scalar(m, 1, "entropy", 1);
    add_scalar(m, 1, "critic_loss", 7);
    add_scalar(m, 1, "rate", 8); /* it may report what others declare */
    add_scalar(m, 3, "critic_loss", 3);
    metrics_add_episode(m, (double[]){0, 0, 0}, 1, (double[]){2});
    metrics_add_episode(m, (double[]){0, 0, 0}, 1, (double[]){NAN});
    metrics_add_episode(m, (double[]){0, 0, 0}, 1, (double[]){4});
    metrics_add_evaluation(m, (double[]){0, 0, 0}, 1, (double[]){NAN});
    metrics_take_row(m, 1, 3, 1, &row);
    ck_assert_uint_eq(row.n, row.n_fixed + 1);
    ck_assert_str_eq(row.names[row.n_fixed], "train/agent_0/rate");
    ck_assert(value_of(&row, "rollout/metric/tags") == 3);
    ck_assert(isnan(value_of(&row, "eval/metric/tags")));
    ck_assert(value_of(&row, "train/agent_ps/rate") == 0.5);
    ck_assert(value_of(&row, "train/agent_1/rate") == 0.25);
    ck_assert(value_of(&row, "train/agent_0/entropy") == 1);
    ck_assert(value_of(&row, "train/agent_0/critic_loss") == 7);
    ck_assert(value_of(&row, "train/central/critic_loss") == 3);
    ck_assert(isnan(value_of(&row, "train/agent_1/critic_loss")));
    metrics_free(m);
}
END_TEST

/* A run of an older build stays one, so that its columns stay the same. */
START_TEST(test_state_of_an_older_run)
{
    struct metrics *a = new_metrics(), *b = new_metrics();
    uint8_t *state, *again;
    size_t len, again_len;
    struct err err = {0};

    add_scalar(a, 1, "critic_loss", 1);
    metrics_state_save(a, 0, &state, &len);
    ck_assert_int_eq(metrics_state_load(b, state, len, &err), 0);
    ck_assert(!metrics_is_older(b));
    state[0] = 1; /* the version */
    ck_assert_int_eq(metrics_state_load(b, state, len, &err), 0);
    ck_assert(metrics_is_older(b));
    metrics_state_save(b, 0, &again, &again_len);
    ck_assert_uint_eq(len, again_len);
    ck_assert_mem_eq(state, again, len);
    state[0] = 3;
    ck_assert_int_eq(metrics_state_load(b, state, len, &err), ERR_FORMAT);
    free(state);
    free(again);
    metrics_free(a);
    metrics_free(b);
}
END_TEST

START_TEST(test_state)
{
    struct metrics *a = new_metrics(), *b = new_metrics();
    struct metrics_row row;
    uint8_t *state, *again;
    size_t len, again_len;
    struct err err = {0};

    metrics_add_episode(a, (double[]){1, 2, 4}, 25, NULL);
    add_scalar(a, 3, "mix_loss", 3);
    metrics_add_round(a, 17);
    metrics_state_save(a, 0, &state, &len);
    ck_assert_int_eq(metrics_state_load(b, state, len, &err), 0);
    metrics_state_save(b, 0, &again, &again_len);
    ck_assert_uint_eq(len, again_len);
    ck_assert_mem_eq(state, again, len);
    metrics_take_row(b, 1, 1, 1, &row);
    ck_assert(value_of(&row, "rollout/return/agent_1") == 4);
    ck_assert(value_of(&row, "train/central/mix_loss") == 3);
    ck_assert(isnan(value_of(&row, "time/round_us")));
    for (size_t cut = 0; cut < len; cut++)
        ck_assert_int_eq(metrics_state_load(b, state, cut, &err), ERR_FORMAT);

    /* saves the marked state, without later values */
    free(again);
    metrics_mark(a);
    add_scalar(a, 1, "critic_loss", 9);
    add_scalar(a, 0, "a_new_one", 9);
    metrics_state_save(a, 1, &again, &again_len);
    ck_assert_uint_eq(len, again_len);
    ck_assert_mem_eq(state, again, len);
    free(state);
    free(again);
    metrics_free(a);
    metrics_free(b);
}
END_TEST

START_TEST(test_the_newest_evaluation)
{
    struct metrics *m = new_metrics();
    const char *env[] = {"success"};

    metrics_declare_env(m, env, 1);
    metrics_add_evaluation(m, (double[]){-1, -2, -4}, 25, (double[]){0.5});
    ck_assert_double_eq(metrics_evaluated(m, "eval/team_return/agent"), -3);
    ck_assert_double_eq(metrics_evaluated(m, "eval/metric/success"), 0.5);
    metrics_add_evaluation(m, (double[]){-1, 6, 8}, 20, (double[]){(double)NAN});
    ck_assert_double_eq(metrics_evaluated(m, "eval/team_return/agent"), 7);
    ck_assert_double_eq(metrics_evaluated(m, "eval/episode_length"), 20);
    ck_assert(isnan(metrics_evaluated(m, "eval/metric/success")));
    ck_assert(isnan(metrics_evaluated(m, "eval/none")));
    metrics_free(m);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *s = suite_create("metrics");
    TCase *tc = tcase_create("metrics");

    tcase_add_test(tc, test_names);
    tcase_add_test(tc, test_means_since_the_last_row);
    tcase_add_test(tc, test_other_scalars);
    tcase_add_test(tc, test_declared_scalars);
    tcase_add_test(tc, test_the_newest_evaluation);
    tcase_add_test(tc, test_state);
    tcase_add_test(tc, test_state_of_an_older_run);
    suite_add_tcase(s, tc);
    return s;
}
TEST_MAIN(make_suite)
