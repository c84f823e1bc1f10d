#include "common/io/beneath.h"
#include "common/mem/xmalloc.h"
#include "common/text/scan.h"
#include "supervisor/cli/cli.h"
#include "supervisor/cli/redraw.h"
#include "supervisor/cli/report_html.h"
#include "supervisor/cli/report_tasks.h"
#include "supervisor/rundir/run_dir.h"
#include "supervisor/study/study_dir.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct request {
    const char *metric, *svg, *marl_eval;
    const char *html; /* a file, or "-": the page is printed in place of the table */
    const char *play;
    enum report_play how;
    int csv, tasks;
    struct cli_texts bounds; /* of tasks */
};

static int is_stdout(const char *path)
{
    return path != NULL && strcmp(path, "-") == 0;
}

/* Ends the page: writes it to its file, completely or not at all, or prints it. */
static int end_page(struct xstream *page, const char *path, struct err *err)
{
    char *text = xstream_end(page);
    int rc = 0;

    if (is_stdout(path))
        (void)fwrite(text, 1, page->len, stdout);
    else
        rc = cli_write_file(path, text, page->len, err);
    free(text);
    return rc;
}

/* ---- runs ---- */

static int print(const struct cli *cli, const struct request *q, const struct report *r,
                 struct err *err)
{
    struct xstream page;

    if (q->csv)
        report_print_csv(r, stdout);
    else if (cli->json)
        report_print_json(r, stdout);
    else if (!is_stdout(q->html))
        report_print_text(r, redraw_columns(STDOUT_FILENO), stdout);
    if (q->svg == NULL)
        return 0;
    report_print_svg(r, xstream_begin(&page));
    return end_page(&page, q->svg, err);
}

static void on_left_out(void *ctx, const struct err *why)
{
    const struct cli *cli = ctx;

    (void)fprintf(stderr, "brood %s: left out: %s\n", cli->command->name, why->msg);
}

/* Whether the last of n paths leads to the same run as one before. */
static int is_repeated(char *const *paths, size_t n)
{
    struct stat last, other;

    if (stat(paths[n - 1], &last) < 0)
        return 0;
    for (size_t i = 0; i + 1 < n; i++)
        if (stat(paths[i], &other) == 0 && other.st_dev == last.st_dev &&
            other.st_ino == last.st_ino)
            return 1;
    return 0;
}

/* Adds a run, once; path: taken. name: by which it was given; NULL: a pattern means it. */
static void add_run(const struct cli *cli, char *path, const char *name, char ***paths,
                    size_t *n)
{
    *paths = xreallocarray(*paths, *n + 1, sizeof(**paths));
    (*paths)[(*n)++] = path;
    if (!is_repeated(*paths, *n))
        return;
    if (name != NULL) {
        struct err why = {0};

        (void)err_set(&why, ERR_ARG, "%s: the run is given twice", name);
        on_left_out((void *)(uintptr_t)cli, &why);
    }
    free((*paths)[--*n]);
}

static int by_name(const void *a, const void *b)
{
    return strverscmp(*(char *const *)a, *(char *const *)b);
}

/* Adds the runs that a pattern means, in the order of their names and numbers. Fails if none of
 * them can be held. */
static int add_matching(const struct cli *cli, const char *pattern, char ***paths,
                        size_t *n, struct err *err)
{
    size_t n_found, n_held = 0;
    struct err why = {0};
    char **found;
    int rc = run_dir_match(cli->runs_dir, pattern, &found, &n_found, err);

    if (rc < 0)
        return rc;
    qsort(found, n_found, sizeof(*found), by_name);
    for (size_t i = 0; i < n_found; i++) {
        struct err last = why;

        if (beneath_hold(found[i], &why) == 0) { /* until the process exits */
            n_held++;
            add_run(cli, found[i], NULL, paths, n);
            continue;
        }
        if (last.code < 0)
            on_left_out((void *)(uintptr_t)cli, &last);
        free(found[i]);
    }
    free(found);
    if (n_held == 0)
        return err_pass(err, &why);
    if (why.code < 0)
        on_left_out((void *)(uintptr_t)cli, &why);
    return 0;
}

/* Finds the directories of n runs, given by their names or by patterns: *ret_n of them, each
 * once; free them and *ret. */
static int find_runs(const struct cli *cli, char *const *runs, size_t n, char ***ret,
                     size_t *ret_n, struct err *err)
{
    char *path = NULL;
    int rc = 0;

    *ret = NULL;
    *ret_n = 0;
    for (size_t i = 0; i < n; i++) {
        if (runs[i] != NULL && run_dir_is_pattern(runs[i])) {
            rc = add_matching(cli, runs[i], ret, ret_n, err);
        } else {
            rc = run_dir_find(cli->runs_dir, runs[i], &path, err);
            if (rc == 0)
                add_run(cli, path, runs[i], ret, ret_n);
        }
        if (rc < 0 && n > 1)
            on_left_out((void *)(uintptr_t)cli, err);
    }
    return rc;
}

static int write_marl_eval(const struct request *q, char *const *paths, size_t n,
                           struct err *err)
{
    struct json j = {0};
    struct trials trials;
    const char *text;
    size_t len;
    int rc = report_trials_read(&trials, paths, n, q->metric, NULL, NULL, err);

    if (rc < 0)
        return rc;
    report_trials_put_marl_eval(&trials, &j);
    text = json_line(&j, &len);
    rc = cli_write_file(q->marl_eval, text, len, err);
    json_done(&j);
    report_trials_done(&trials);
    return rc;
}

/* The runs of a report, and what they are compared by. */
struct compared {
    char **paths;
    size_t n;
    struct report *curves; /* NULL: there are none; `why` is the reason */
    struct err why;
    struct report_tasks tasks; /* all-zero without --tasks */
};

static int compare_seeds(const struct cli *cli, const struct request *q,
                         struct compared *c, struct err *err)
{
    if (report_make(&c->curves, c->paths, c->n, q->metric, on_left_out,
                    (void *)(uintptr_t)cli, &c->why) == 0)
        return print(cli, q, c->curves, err);
    if (q->html == NULL || q->metric != NULL || q->svg != NULL)
        return err_pass(err, &c->why);
    /* a run that died early has a page, too */
    (void)fprintf(stderr, "brood %s: no curves: %s\n", cli->command->name, c->why.msg);
    return 0;
}

static void on_known(void *ctx, const struct err *why)
{
    (void)why; /* the comparison over tasks has said which runs it leaves out */
}

static int compare_tasks(const struct cli *cli, const struct request *q,
                         struct compared *c, struct err *err)
{
    struct json j = {0};
    struct xstream picture;
    int rc = report_tasks_make(&c->tasks, c->paths, c->n, q->metric, q->bounds.text,
                               q->bounds.n, on_left_out, (void *)(uintptr_t)cli, err);

    if (rc < 0)
        return rc;
    if (cli->json) {
        report_tasks_put(&c->tasks, &j);
        json_print(&j, stdout);
    } else if (!is_stdout(q->html)) {
        report_tasks_print_text(&c->tasks, stdout);
    }
    if (q->svg != NULL) {
        report_tasks_print_svg(&c->tasks, xstream_begin(&picture));
        rc = end_page(&picture, q->svg, err);
    }
    if (rc == 0 && q->html != NULL)
        (void)report_make(&c->curves, c->paths, c->n, q->metric, on_known, NULL, &c->why);
    return rc;
}

static int report(const struct cli *cli, const struct request *q, char *const *runs,
                  size_t n, struct err *err)
{
    struct compared c = {0};
    struct xstream page;
    int rc = find_runs(cli, runs, n, &c.paths, &c.n, err);

    if (c.n > 0)
        rc = q->tasks ? compare_tasks(cli, q, &c, err) : compare_seeds(cli, q, &c, err);
    if (rc == 0 && q->marl_eval != NULL)
        rc = write_marl_eval(q, c.paths, c.n, err);
    if (rc == 0 && q->html != NULL) {
        report_html_runs(c.paths, c.n, c.curves, &c.why, q->tasks ? &c.tasks : NULL,
                         q->how, xstream_begin(&page));
        rc = end_page(&page, q->html, err);
    }
    if (c.curves != NULL)
        report_free(c.curves);
    report_tasks_done(&c.tasks);
    run_dir_list_free(c.paths, c.n);
    return rc;
}

/* ---- studies ---- */

static int report_study(const struct cli *cli, const struct request *q, const char *path,
                        struct err *err)
{
    struct study study;
    struct study_report r;
    struct xstream page;
    int rc = study_dir_read(&study, path, err);

    if (rc < 0)
        return rc;
    rc = study_report_make(&r, &study, path, err);
    if (rc < 0) {
        study_done(&study);
        return rc;
    }
    if (q->csv)
        study_report_print_csv(&r, stdout);
    else if (cli->json)
        study_report_print_json(&r, stdout);
    else if (!is_stdout(q->html))
        study_report_print(&r, 0, stdout);
    if (q->svg != NULL) {
        study_report_print_svg(&r, xstream_begin(&page));
        rc = end_page(&page, q->svg, err);
    }
    if (rc == 0 && q->html != NULL) {
        report_html_study(&r, path, xstream_begin(&page));
        rc = end_page(&page, q->html, err);
    }
    study_report_done(&r);
    study_done(&study);
    return rc;
}

/* ---- */

/* Refuses options that exclude each other or have no meaning. */
static int check_request(const struct cli *cli, struct request *q)
{
    static const char *const plays[] = {[REPORT_PLAY_WORLDS] = "worlds",
                                        [REPORT_PLAY_ALWAYS] = "always",
                                        [REPORT_PLAY_NEVER] = "never",
                                        NULL};
    struct err err = {0};
    double low, high;
    size_t len;
    int how;

    if (q->svg != NULL && !text_ends_with(q->svg, ".svg"))
        return cli_usage(cli, "--svg: %s: curves are drawn as .svg", q->svg);
    if (q->marl_eval != NULL && !text_ends_with(q->marl_eval, ".json"))
        return cli_usage(cli, "--marl-eval: %s: the values are written as .json",
                         q->marl_eval);
    if (q->tasks && q->csv)
        return cli_usage(cli, "%s",
                         "--csv prints curves, which --tasks has none of: --json");
    if (!q->tasks && q->bounds.n > 0)
        return cli_usage(cli, "%s", "--bounds is for --tasks");
    for (size_t i = 0; i < q->bounds.n; i++)
        if (report_bounds_read(q->bounds.text[i], &len, &low, &high, &err) < 0)
            return cli_usage(cli, "%s", err.msg);
    if (q->html != NULL && !is_stdout(q->html) && !text_ends_with(q->html, ".html") &&
        !text_ends_with(q->html, ".htm"))
        return cli_usage(cli, "--html: %s: a page is written as .html, or to - (stdout)",
                         q->html);
    if (is_stdout(q->html) && (q->csv || cli->json))
        return cli_usage(cli, "--html - and %s both print to stdout",
                         q->csv ? "--csv" : "--json");
    if (q->play == NULL)
        return 0;
    if (q->html == NULL)
        return cli_usage(cli, "--play is for --html FILE");
    if ((how = text_find(plays, q->play)) < 0)
        return cli_usage(cli, "--play: %.60s: expected worlds, always or never", q->play);
    q->how = (enum report_play)how;
    return 0;
}

static int run_report(struct cli *cli, void *values, int argc, char **argv)
{
    struct request *q = values;
    char *newest = NULL, *study;
    struct err err = {0};
    int rc, code = check_request(cli, q);

    if (code != 0)
        return code;
    study = argc == 1 ? study_dir_find(cli->runs_dir, argv[0]) : NULL;
    if (study != NULL &&
        (q->play != NULL || q->metric != NULL || q->marl_eval != NULL || q->tasks)) {
        free(study);
        return cli_usage(
            cli, "%s",
            q->play != NULL     ? "--play is for runs: the page of a study has no episode"
            : q->metric != NULL ? "--metric is for runs: a study's file names its column"
            : q->tasks          ? "--tasks is for runs, as 'STUDY/*'"
                                : "--marl-eval is for runs, as 'STUDY/*'");
    }
    if (study != NULL)
        rc = report_study(cli, q, study, &err);
    else if (argc == 0)
        rc = report(cli, q, &newest, 1, &err);
    else
        rc = report(cli, q, argv, (size_t)argc, &err);
    free(study);
    if (rc < 0)
        return cli_fail(cli, rc == ERR_NOT_FOUND ? CLI_NOT_THERE : CLI_FAILED, &err);
    return CLI_DONE;
}

static const struct cli_option options[] = {
    {"metric", "METRIC", "a column of progress.csv (default: the team's return)",
     CLI_TEXT(struct request, metric)},
    {"csv", NULL, "print every point of every curve as CSV",
     CLI_FLAG(struct request, csv)},
    {"svg", "FILE", "draw the curves", CLI_TEXT(struct request, svg)},
    {"tasks", NULL,
     "compare algorithms over several environments: interquartile mean,\n"
     "median, mean, optimality gap, performance profiles (--svg, --html,\n"
     "--json) and probability of improvement",
     CLI_FLAG(struct request, tasks)},
    {"bounds", "TASK=LOW,HIGH",
     "\nwith --tasks: values of a task that are scores 0 and 1 (repeatable;\n"
     "default: its lowest and its highest run)",
     CLI_TEXTS(struct request, bounds)},
    {"marl-eval", "FILE",
     "write the values in the format of the statistics package\n"
     "marl-eval, by environment, algorithm and seed, as .json",
     CLI_TEXT(struct request, marl_eval)},
    {"html", "FILE",
     "write a page to send to somebody: one file that loads nothing;\n"
     "- prints it in place of the table",
     CLI_TEXT(struct request, html)},
    {"play", "WHEN",
     "the episode in the page: worlds (only of brood's own worlds, the\n"
     "default), always (also of an environment that is a program, which\n"
     "the run's configuration names), never",
     CLI_TEXT(struct request, play)},
    {0}};

const struct command cmd_report = {
    .name = "report",
    .arguments = "[RUN... | STUDY] [options]",
    .summary =
        "Print a table and draw learning curves over seeds, or the results of a study",
    .options = options,
    CLI_INTO(struct request, 0),
    .help =
        "\nRuns whose names differ only in their number or seed form one row. Each run\n"
        "contributes the mean of its last tenth; the interval is bootstrapped, and iqm "
        "is\n"
        "the mean without the lowest and highest quarter. Runs that cannot be used are "
        "left\n"
        "out, with a line that names them. RUN may have * and ?, quoted: 'mappo-*' "
        "stands\n"
        "for all runs of such names, 'lr/*' for those of the study lr.\n"
        "\n--tasks compares the algorithms of runs in several environments (Agarwal et "
        "al.\n"
        "2021). Each run has one score, from its last tenth. Each algorithm needs "
        "equally\n"
        "many runs in each task. A task is an environment, with env.params where they "
        "differ.\n"
        "Intervals: 2,000 resamples of each task's runs; the same runs give the same.\n"
        "\nOf a study (`brood sweep`): all trials, the best first, and how each key and "
        "value\n"
        "goes together; --svg draws parallel coordinates, and each key alone.\n"
        "Of population based training: each member's value and settings, and who became "
        "a\n"
        "fork of whom, which --svg draws and --csv prints for every round.\n"
        "\nThe page of runs has their curves, evaluations, an episode of the newest "
        "checkpoint,\n"
        "the configuration and what it changes against the defaults, changes while they "
        "ran,\n"
        "deaths and respawns, checkpoints, build and machine. That of a study has its "
        "trials,\n"
        "pictures, failures and files.\n"
        "\nexample: brood report trial-s1 trial-s2 trial-s3 --svg curves.svg\n",
    .run = run_report,
};
