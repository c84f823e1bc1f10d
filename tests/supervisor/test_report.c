/* Reports over several runs: reading progress files, statistics, groups. */
#include "supervisor/cli/report.h"
#include "supervisor/facts/run_view.h"
#include "supervisor/facts/thin_curves.h"
#include "supervisor/metrics/progress.h"
#include "supervisor/metrics/seed_stats.h"
#include "tests/support/temp_dir.h"
#include "tests/support/test_main.h"

#include <math.h>
#include <string.h>
#include <sys/stat.h>

static struct temp_dir dir;
static struct err err;

static void setup(void)
{
    temp_dir_init(&dir);
    err = (struct err){0};
}

static void teardown(void)
{
    temp_dir_done(&dir);
}

/* Makes a run directory with this progress.csv; returns its path, free(). */
static char *make_run(const char *name, const char *csv)
{
    char *run = strdup(temp_dir_file(&dir, name)), *path;
    FILE *f;

    ck_assert_int_eq(mkdir(run, 0700), 0);
    ck_assert_int_gt(asprintf(&path, "%s/metrics", run), 0);
    ck_assert_int_eq(mkdir(path, 0700), 0);
    free(path);
    ck_assert_int_gt(asprintf(&path, "%s/metrics/progress.csv", run), 0);
    f = fopen(path, "w");
    (void)fputs(csv, f);
    ck_assert_int_eq(fclose(f), 0);
    free(path);
    return run;
}

static int read_text(struct progress **ret, const char *text)
{
    const char *path = temp_dir_file(&dir, "p.csv");
    FILE *f = fopen(path, "w");

    (void)fputs(text, f);
    ck_assert_int_eq(fclose(f), 0);
    return progress_read(ret, path, &err);
}

START_TEST(a_table_is_read_back)
{
    struct progress *p;

    ck_assert_int_eq(read_text(&p, "env_steps,a,b\n10,1.5,\n20,,-2e-3\n30,4"), 0);
    ck_assert_uint_eq(progress_n_rows(p), 2); /* the third is still being written */
    ck_assert_uint_eq(progress_find(p, "b"), 2);
    ck_assert_uint_eq(progress_find(p, "c"), progress_n_columns(p));
    ck_assert_double_eq(progress_steps(p, 1), 20);
    ck_assert_double_eq(progress_value(p, 0, 1), 1.5);
    ck_assert(isnan(progress_value(p, 0, 2)));
    ck_assert_double_eq(progress_value(p, 1, 2), -2e-3);
    progress_free(p);
}
END_TEST

START_TEST(what_is_no_table_is_refused)
{
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"", "p.csv: empty"},
        {"steps,a\n", "p.csv:1: no column env_steps"},
        {"env_steps,a\n1,2\n3,x\n", "p.csv:3: 'x' is no number"},
        {"env_steps,a\n1\n", "p.csv:2: found 1 values, expected 2"},
        {"env_steps,a\n1,2,3\n", "p.csv:2: '3' is no number"},
        {"env_steps,a\n,2\n", "p.csv:2: found 2 values, expected 2"},
    };
    struct progress *p;

    ck_assert_int_eq(read_text(&p, cases[_i].text), ERR_FORMAT);
    ck_assert_msg(strstr(err.msg, cases[_i].message) != NULL, "%s", err.msg);
}
END_TEST

START_TEST(statistics)
{
    double one[] = {3}, eight[] = {8, 1, 2, 7, 3, 6, 4, 5}, same[] = {2, 2, 2};
    struct seed_stats s = seed_stats_of(one, 1);

    ck_assert_double_eq(s.mean, 3);
    ck_assert_double_eq(s.iqm, 3);
    ck_assert(isnan(s.std) && isnan(s.low) && isnan(s.high));
    s = seed_stats_of(eight, 8);
    ck_assert_double_eq(s.mean, 4.5);
    ck_assert_double_eq(s.iqm, 4.5); /* mean of 3, 4, 5, 6 */
    ck_assert_double_eq_tol(s.std, sqrt(6), 1e-12);
    /* The normal approximation gives 4.5 +- 1.96 * 2.45 / sqrt(8), a little too wide. */
    ck_assert(s.low > 2.7 && s.low < 3.4 && s.high < 6.3 && s.high > 5.6);
    s = seed_stats_of(same, 3);
    ck_assert(s.std == 0 && s.low == 2 && s.high == 2);
    ck_assert(isnan(seed_stats_of(NULL, 0).mean));
}
END_TEST

#define HEAD "env_steps,rollout/team_return/agent,eval/team_return/agent\n"

START_TEST(seeds_make_one_group)
{
    char *paths[] = {make_run("a-s1", HEAD "10,0,\n20,1,5\n100,1,7\n"),
                     make_run("b", HEAD "10,0,1\n"),
                     make_run("a-s12", HEAD "10,0,3\n100,1,9\n")};
    struct report *r;

    ck_assert_msg(report_make(&r, paths, 3, NULL, NULL, NULL, &err) == 0, "%s", err.msg);
    ck_assert_str_eq(r->metric, "eval/team_return/agent");
    ck_assert_uint_eq(r->n_groups, 2);
    ck_assert_str_eq(r->group[0].name, "a");
    ck_assert_str_eq(r->group[1].name, "b");
    ck_assert_uint_eq(r->group[0].n_runs, 2);
    ck_assert_double_eq(r->group[0].final.mean, 8);
    /* from step 20 on both runs have a value; the second run's is that of step 10 */
    ck_assert_uint_eq(r->group[0].n_points, 2);
    ck_assert_double_eq(r->group[0].point[0].steps, 20);
    ck_assert_double_eq(r->group[0].point[0].over.mean, 4);
    report_free(r);
    ck_assert_int_eq(report_make(&r, paths, 1, "no/such", NULL, NULL, &err),
                     ERR_NOT_FOUND);
    ck_assert_ptr_nonnull(strstr(err.msg, "a-s1 has no metric no/such"));
    for (size_t i = 0; i < 3; i++)
        free(paths[i]);
}
END_TEST

START_TEST(numbered_runs_make_one_group)
{
    char *paths[] = {make_run("x-1", HEAD "10,1,\n20,2,\n"),
                     make_run("x-2", HEAD "10,3,\n20,4,\n"),
                     make_run("7", HEAD "10,3,\n")};
    struct report *r;

    ck_assert_msg(report_make(&r, paths, 3, NULL, NULL, NULL, &err) == 0, "%s", err.msg);
    ck_assert_str_eq(r->metric, "rollout/team_return/agent"); /* there is no evaluation */
    ck_assert_uint_eq(r->n_groups, 2);
    ck_assert_str_eq(r->group[0].name, "x");
    ck_assert_str_eq(r->group[1].name, "7");
    ck_assert_double_eq(r->group[0].final.mean, 3);
    report_free(r);
    for (size_t i = 0; i < 3; i++)
        free(paths[i]);
}
END_TEST

/* A file of 1,000 rows, all 0 but for two peaks; free(). */
static char *peaks_text(void)
{
    char *text = NULL;
    size_t len = 0;
    FILE *f = open_memstream(&text, &len);

    (void)fputs("env_steps,v\n", f);
    for (int i = 0; i < 1000; i++)
        (void)fprintf(f, "%d,%d\n", i, i == 333 ? 9 : i == 334 ? -9 : 0);
    ck_assert_int_eq(fclose(f), 0);
    return text;
}

START_TEST(a_thin_curve_has_its_peaks)
{
    char *text = peaks_text();
    char *paths[] = {make_run("a-1", text), make_run("a-2", text)};
    struct report *r;
    int has_high = 0, has_low = 0;

    ck_assert_int_eq(report_make(&r, paths, 2, "v", NULL, NULL, &err), 0);
    report_thin(r, 1000);
    ck_assert_uint_eq(r->group[0].n_points, 1000);
    report_thin(r, 100);
    ck_assert_uint_eq(r->group[0].n_runs, 2);
    ck_assert(r->group[0].n_points >= 34 && r->group[0].n_points <= 102);
    for (size_t i = 0; i < r->group[0].n_points; i++) {
        const struct report_point *at = &r->group[0].point[i];

        has_high |= at->steps == 333 && at->over.mean == 9 && at->over.n == 2;
        has_low |= at->steps == 334 && at->over.mean == -9;
        ck_assert(i == 0 || at->steps > at[-1].steps);
    }
    ck_assert(has_high && has_low);
    ck_assert_double_eq(r->group[0].point[r->group[0].n_points - 1].steps, 999);
    report_free(r);
    for (size_t i = 0; i < 2; i++)
        free(paths[i]);
    free(text);
}
END_TEST

/* What a page is given of the table: JSON. */
static const char *thin_curves_of(const char *table, struct json *j)
{
    struct progress *p;

    ck_assert_int_eq(read_text(&p, table), 0);
    json_begin(j);
    thin_curves_put(p, j);
    progress_free(p);
    return json_line(j, NULL);
}

START_TEST(thin_curves_keep_peaks_and_some_of_many_agents)
{
    char *text = peaks_text(), *head = NULL;
    struct json j = {0};
    const char *json = thin_curves_of(text, &j);
    size_t len = 0;
    FILE *f = open_memstream(&head, &len);

    ck_assert_msg(strstr(json, "\\n332,\\n333,9\\n339,-9\\n340,0\\n") != NULL, "%s",
                  json);
    ck_assert(strstr(json, "\"env_steps,v\\n0,0\\n5,\\n6,0\\n") != NULL);
    ck_assert(strstr(json, "\\n999,\\n\"") != NULL && strlen(json) < 4000);
    (void)fputs("env_steps,empty", f);
    for (int i = 0; i < 20; i++)
        (void)fprintf(f, ",train/a%d/loss", i);
    (void)fputs("\n1,", f);
    for (int i = 0; i < 20; i++)
        (void)fputs(",0.25", f);
    (void)fputs("\n", f);
    ck_assert_int_eq(fclose(f), 0);
    json = thin_curves_of(head, &j);
    ck_assert(strstr(json, "train/a7/loss\\n1,0.25,") != NULL);
    ck_assert(strstr(json, "train/a8/") == NULL && strstr(json, "empty") == NULL);
    json_begin(&j);
    thin_curves_put(NULL, &j);
    ck_assert_str_eq(json_line(&j, NULL), "\"\"\n");
    json_done(&j);
    free(head);
    free(text);
}
END_TEST

/* The samples of a run of n rows, of which every third has a return, its step. Returns how many. */
static size_t spark_of(int n, double *ret_first, double *ret_last)
{
    const struct run_status status = {.state = "done"};
    const struct run_tags tags = {0};
    const struct run_view view = {.name = "a", .status = &status, .tags = &tags};
    struct progress *p;
    struct json j = {0};
    char *text = NULL, *path;
    const char *at;
    size_t len = 0, samples = 0;
    FILE *f = open_memstream(&text, &len);

    (void)fputs("env_steps,rollout/team_return/x,rollout/team_return/y,pad\n", f);
    for (int i = 0; i < n; i++) {
        (void)fprintf(f, "%d,", i);
        if (i % 3 == 0)
            (void)fprintf(f, "%d,%d", i - 1, i + 1);
        else
            (void)fputc(',', f);
        (void)fprintf(f, ",%0200d\n", 1);
    }
    ck_assert_int_eq(fclose(f), 0);
    path = make_run("spark", text);
    free(text);
    ck_assert_int_gt(asprintf(&text, "%s/metrics/progress.csv", path), 0);
    ck_assert_int_eq(progress_read_course(&p, text, RUN_SPARK, NULL), 0);
    json_object(&j);
    run_summary_put(&view, NULL, NULL, p, &j);
    json_close(&j);
    at = strstr(json_line(&j, NULL), "\"spark\": [") + strlen("\"spark\": [");
    for (char *end; *at != ']'; samples++) {
        const double v = strtod(at, &end);

        *(samples == 0 ? ret_first : ret_last) = v;
        ck_assert(end > at);
        at = end + strspn(end, ", ");
    }
    progress_free(p);
    json_done(&j);
    free(path);
    free(text);
    return samples;
}

START_TEST(a_spark_has_the_first_and_the_newest_return)
{
    static const struct {
        int rows;
        size_t samples;
        double last;
    } cases[] = {{0, 0, -1},     {1, 1, -1},     {4, 2, 3},
                 {6, 2, 3},      {190, 64, 189}, {192, 64, 189},
                 {193, 64, 192}, {300, 64, 297}, {4000, 64, 3999}};
    const size_t i = (size_t)_i;
    double first = 0, last = -1;

    ck_assert_uint_eq(spark_of(cases[i].rows, &first, &last), cases[i].samples);
    ck_assert(first == 0 && last == cases[i].last);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *s = suite_create("report");
    TCase *tc = tcase_create("report");

    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, a_table_is_read_back);
    tcase_add_loop_test(tc, what_is_no_table_is_refused, 0, 6);
    tcase_add_test(tc, statistics);
    tcase_add_test(tc, seeds_make_one_group);
    tcase_add_test(tc, numbered_runs_make_one_group);
    tcase_add_test(tc, a_thin_curve_has_its_peaks);
    tcase_add_test(tc, thin_curves_keep_peaks_and_some_of_many_agents);
    tcase_add_loop_test(tc, a_spark_has_the_first_and_the_newest_return, 0, 9);
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(make_suite)
