#include "common/mem/xmalloc.h"
#include "common/text/scan.h"
#include "supervisor/cli/cli.h"
#include "supervisor/cli/report_html.h"
#include "supervisor/rundir/run_dir.h"
#include "supervisor/study/study_dir.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

struct request {
    const char *metric, *svg;
    const char *html; /* a file, or "-": the page is printed in place of the table */
    const char *play;
    enum report_play how;
    int csv;
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
        report_print_text(r, stdout);
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

/* Finds the directories of n runs; stores *ret_n of them, each run once. */
static int find_runs(const struct cli *cli, char *const *runs, size_t n, char **paths,
                     size_t *ret_n, struct err *err)
{
    size_t n_found = 0;
    int rc = 0;

    for (size_t i = 0; i < n; i++) {
        rc = run_dir_find(cli->runs_dir, runs[i], &paths[n_found], err);
        n_found += rc == 0;
        if (rc == 0 && is_repeated(paths, n_found)) {
            struct err why = {0};

            (void)err_set(&why, ERR_ARG, "%s: the run is given twice", runs[i]);
            on_left_out((void *)(uintptr_t)cli, &why);
            free(paths[--n_found]);
        } else if (rc < 0 && n > 1) {
            on_left_out((void *)(uintptr_t)cli, err);
        }
    }
    *ret_n = n_found;
    return rc;
}

static int report(const struct cli *cli, const struct request *q, char *const *runs,
                  size_t n, struct err *err)
{
    char **paths = xcalloc(n, sizeof(*paths));
    struct report *r = NULL; /* there are no curves; `why` is the reason */
    struct xstream page;
    struct err why = {0};
    size_t n_found;
    int rc = find_runs(cli, runs, n, paths, &n_found, err);

    if (n_found > 0)
        rc = report_make(&r, paths, n_found, q->metric, on_left_out,
                         (void *)(uintptr_t)cli, &why);
    if (rc == 0)
        rc = print(cli, q, r, err);
    else if (n_found > 0 && (q->html == NULL || q->metric != NULL || q->svg != NULL))
        rc = err_pass(err, &why);
    else if (n_found > 0) { /* a run that died early has a page, too */
        (void)fprintf(stderr, "brood %s: no curves: %s\n", cli->command->name, why.msg);
        rc = 0;
    }
    if (rc == 0 && q->html != NULL) {
        report_html_runs(paths, n_found, r, &why, q->how, xstream_begin(&page));
        rc = end_page(&page, q->html, err);
    }
    if (r != NULL)
        report_free(r);
    for (size_t i = 0; i < n_found; i++)
        free(paths[i]);
    free(paths);
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
    int how;

    if (q->svg != NULL && !text_ends_with(q->svg, ".svg"))
        return cli_usage(cli, "--svg: %s: curves are drawn as .svg", q->svg);
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
    if (study != NULL && (q->play != NULL || q->metric != NULL)) {
        free(study);
        return cli_usage(cli,
                         q->play != NULL
                             ? "--play is for runs: the page of a study has no episode"
                             : "--metric is for runs: a study's file names its column");
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
    {"metric", "NAME", "a column of progress.csv (default: the team's return)",
     CLI_TEXT(struct request, metric)},
    {"csv", NULL, "print every point of every curve as CSV",
     CLI_FLAG(struct request, csv)},
    {"svg", "FILE", "draw the curves", CLI_TEXT(struct request, svg)},
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
        "out, with a line that names them.\n"
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
