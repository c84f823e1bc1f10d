#include "common/mem/xmalloc.h"
#include "supervisor/cli/cli.h"
#include "supervisor/cli/report.h"
#include "supervisor/cli/study_report.h"
#include "supervisor/run/run_dir.h"
#include "supervisor/study/study_dir.h"

#include <stdlib.h>
#include <string.h>

enum option_id { OPT_METRIC = 1, OPT_CSV, OPT_SVG };

static const struct option options[] = {
    {"metric", required_argument, NULL, OPT_METRIC},
    {"csv", no_argument, NULL, OPT_CSV},
    {"svg", required_argument, NULL, OPT_SVG},
    {0},
};

struct request {
    const char *metric, *svg;
    int csv;
};

/* print: writes `what` into the file. */
static int write_svg(const char *path, void (*print)(const void *what, FILE *f),
                     const void *what, struct err *err)
{
    FILE *f = fopen(path, "we");
    int rc = 0;

    if (f == NULL)
        return err_errno(err, "%s", path);
    print(what, f);
    if (ferror(f))
        rc = err_errno(err, "%s", path);
    return fclose(f) != 0 && rc == 0 ? err_errno(err, "%s", path) : rc;
}

/* ---- runs ---- */

static void print_curves(const void *report, FILE *f)
{
    report_print_svg(report, f);
}

static int print(const struct cli *cli, const struct request *q, const struct report *r,
                 struct err *err)
{
    if (q->csv)
        report_print_csv(r, stdout);
    else if (cli->json)
        report_print_json(r, stdout);
    else
        report_print_text(r, stdout);
    return q->svg != NULL ? write_svg(q->svg, print_curves, r, err) : 0;
}

static void on_left_out(void *ctx, const struct err *why)
{
    const struct cli *cli = ctx;

    (void)fprintf(stderr, "brood %s: left out: %s\n", cli->command->name, why->msg);
}

static int report(const struct cli *cli, const struct request *q, char *const *runs,
                  size_t n, struct err *err)
{
    char **paths = xcalloc(n, sizeof(*paths));
    struct report *r;
    size_t n_found = 0;
    int rc = 0;

    for (size_t i = 0; i < n; i++) {
        rc = run_dir_find(cli->runs_dir, runs[i], &paths[n_found], err);
        if (rc < 0 && n > 1)
            on_left_out((void *)(uintptr_t)cli, err);
        n_found += rc == 0;
    }
    if (n_found > 0)
        rc = report_make(&r, paths, n_found, q->metric, on_left_out,
                         (void *)(uintptr_t)cli, err);
    if (rc == 0) {
        rc = print(cli, q, r, err);
        report_free(r);
    }
    for (size_t i = 0; i < n_found; i++)
        free(paths[i]);
    free(paths);
    return rc;
}

/* ---- studies ---- */

static void print_study(const void *report, FILE *f)
{
    study_report_print_svg(report, f);
}

static int report_study(const struct cli *cli, const struct request *q, const char *path,
                        struct err *err)
{
    struct study study;
    struct study_report r;
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
    else
        study_report_print(&r, 0, stdout);
    rc = q->svg != NULL ? write_svg(q->svg, print_study, &r, err) : 0;
    study_report_done(&r);
    study_done(&study);
    return rc;
}

/* ---- */

static int is_svg(const char *path)
{
    const size_t len = strlen(path);

    return len > 4 && strcmp(path + len - 4, ".svg") == 0;
}

static int run_report(struct cli *cli, int argc, char **argv)
{
    struct request q = {0};
    char *newest = NULL, *study;
    struct err err = {0};
    int c, code, rc;

    while ((c = cli_option(cli, argc, argv, options, &code)) >= 0) {
        if (c == OPT_METRIC)
            q.metric = optarg;
        else if (c == OPT_CSV)
            q.csv = 1;
        else
            q.svg = optarg;
    }
    if (c == CLI_OPTION_EXIT)
        return code;
    if (q.svg != NULL && !is_svg(q.svg))
        return cli_usage(cli, "--svg: %s: curves are drawn as .svg", q.svg);
    study = optind == argc - 1 ? study_dir_find(cli->runs_dir, argv[optind]) : NULL;
    if (study != NULL)
        rc = report_study(cli, &q, study, &err);
    else if (optind == argc)
        rc = report(cli, &q, &newest, 1, &err);
    else
        rc = report(cli, &q, argv + optind, (size_t)(argc - optind), &err);
    free(study);
    if (rc < 0)
        return cli_fail(cli, rc == ERR_NOT_FOUND ? CLI_NOT_THERE : CLI_FAILED, &err);
    return CLI_DONE;
}

const struct command cmd_report = {
    .name = "report",
    .arguments = "[RUN... | STUDY] [options]",
    .summary =
        "Print a table and draw learning curves over seeds, or the results of a study",
    .help =
        "  --metric NAME    a column of progress.csv (default: the team's return)\n"
        "  --csv            print every point of every curve as CSV\n"
        "  --svg FILE       draw the curves\n"
        "\nRuns whose names differ only in their number or seed form one row. Each "
        "run\ncontributes the mean of its last tenth; the interval is bootstrapped, "
        "and iqm is\nthe mean without the lowest and highest quarter. Runs that "
        "cannot be used are "
        "left\nout, with a line that names them.\n"
        "\nOf a study (`brood sweep`): all trials, the best first, and how each key and "
        "value\ngoes together; --svg draws parallel coordinates, and each key "
        "alone.\nOf population based training: each member's value and settings, and who "
        "became a\nfork of whom, which --svg draws and --csv prints for every round.\n"
        "\nexample: brood report trial-s1 trial-s2 trial-s3 --svg curves.svg\n",
    .run = run_report,
};
