/* `brood diff`: in what two runs differ, and where they part. */
#include "common/log/log.h"
#include "common/mem/xmalloc.h"
#include "common/text/plain_text.h"
#include "supervisor/cli/cli.h"
#include "supervisor/diff/parting.h"
#include "supervisor/diff/setting_parts.h"
#include "supervisor/env/env.h"
#include "supervisor/metrics/json.h"
#include "supervisor/save/checkpoint_choose.h"
#include "supervisor/save/checkpoint_read.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* As diff(1) has them. */
enum { ARE_EQUAL = 0, DIFFER = 1, TROUBLE = 2 };

struct diff_options {
    int trust;
};

struct diff {
    const struct cli *cli;
    struct run_dir *dir[2];
    char name[2][PLAIN_NAME_BYTES]; /* of the runs, as printed */
    uint64_t until[2]; /* the newest checkpoint of each, or that of RUN@STEP */
    struct setting_parts settings, provenance;
    struct parting parting;
    int is_shown; /* a line of progress */
};

static uint64_t compared_to(const struct diff *d)
{
    return d->until[0] < d->until[1] ? d->until[0] : d->until[1];
}

/* Whether a difference was found, and not only that variables cannot be compared. */
static int has_place(const struct parting *p)
{
    return p->kind != PARTING_NONE && (p->kind != PARTING_CHECKPOINT || p->name != NULL);
}

/* ---- the search ---- */

static void on_skipped(void *ctx, const char *line)
{
    const struct diff *d = ctx;

    (void)fprintf(stderr, "brood %s: %s; it is left out\n", d->cli->command->name, line);
}

static void on_progress(void *ctx, int which, uint64_t from, uint64_t step,
                        uint64_t total)
{
    struct diff *d = ctx;

    if (d->cli->quiet || d->cli->json || !isatty(STDERR_FILENO))
        return;
    d->is_shown = 1;
    (void)fprintf(stderr,
                  "\r\033[Kreplaying %s from step %" PRIu64 ": step %" PRIu64
                  " of %" PRIu64,
                  d->name[which], from, step, total);
}

/* Opens RUN or RUN@STEP. */
static int open_run(struct diff *d, int which, const char *text, int trust,
                    struct err *err)
{
    const char *step;
    char *run = run_dir_split(text, &step), *path = NULL;
    uint64_t *steps = NULL;
    size_t n = 0;
    int rc = run_dir_find(d->cli->runs_dir, run, &path, err);

    if (rc == 0 && !trust)
        rc = run_dir_check_trust(path, err);
    if (rc == 0)
        rc = run_dir_open(&d->dir[which], path, 0, err);
    if (rc == 0) /* `diff a old/a` has two of one name */
        (void)plain_name_in(d->name[which],
                            which == 1 && strcmp(run_dir_name(d->dir[1]), d->name[0]) == 0
                                ? path
                                : run_dir_name(d->dir[which]));
    if (rc == 0 && step != NULL) {
        rc = checkpoint_choose(run_dir_file(d->dir[which], "checkpoints"), step,
                               &d->until[which], err);
    } else if (rc == 0) {
        rc = checkpoint_list(run_dir_file(d->dir[which], "checkpoints"), &steps, &n, err);
        if (rc == 0 && n == 0)
            rc = err_set(err, ERR_NOT_FOUND, "%s has no checkpoint yet", path);
        d->until[which] = n > 0 ? steps[n - 1] : 0;
    }
    free(steps);
    free(path);
    free(run);
    return rc;
}

static int find_settings(struct diff *d, uint64_t ret_copies[2], struct err *err)
{
    struct settings_course course[2] = {{.begin = 0}, {.begin = 0}};
    int rc = 0;

    for (int i = 0; i < 2 && rc == 0; i++) {
        rc = settings_course_read(&course[i], d->dir[i], env_agent_names, err);
        ret_copies[i] = (uint64_t)course[i].config.env.copies;
    }
    if (rc == 0)
        setting_parts_find(&d->settings, &course[0], &course[1], compared_to(d));
    settings_course_done(&course[0]);
    settings_course_done(&course[1]);
    return rc;
}

static int find(struct diff *d, struct err *err)
{
    struct parting_args args = {.dir = {d->dir[0], d->dir[1]},
                                .until = compared_to(d),
                                .keeper = &d->cli->keeper,
                                .env_names = env_agent_names,
                                .on_skipped = on_skipped,
                                .on_progress = on_progress,
                                .ctx = d};
    struct binaries bin;
    int rc = binaries_find(&bin, err);

    if (rc == 0)
        rc = find_settings(d, args.copies, err);
    if (rc < 0)
        return rc;
    args.binaries = &bin;
    provenance_parts_find(&d->provenance, run_dir_path(d->dir[0]),
                          run_dir_path(d->dir[1]));
    rc = parting_find(&args, &d->parting, err);
    if (d->is_shown)
        (void)fputs("\r\033[K", stderr);
    return rc;
}

/* ---- as text ---- */

static const char *text_of(const char *value)
{
    return *value != '\0' ? value : "(none)";
}

static void print_parts(const struct diff *d, const char *title,
                        const struct setting_parts *p)
{
    if (p->n > 0)
        (void)printf("%s:\n", title);
    for (size_t i = 0; i < p->n; i++) {
        const struct setting_part *x = &p->list[i];

        (void)printf("  %s: %s in %s, %s in %s", PLAIN_NAME(x->key),
                     PLAIN_NAME(text_of(x->here)), d->name[0],
                     PLAIN_NAME(text_of(x->there)), d->name[1]);
        if (x->from > 0)
            (void)printf(", from step %" PRIu64 " on", x->from);
        (void)puts("");
    }
}

/* "0.5 in a, 0.25 in b"; nan: the word for NaN. */
static void print_both(const struct diff *d, const char *nan)
{
    const double x[] = {d->parting.here, d->parting.there};

    for (int i = 0; i < 2; i++) {
        if (isnan(x[i]))
            (void)fputs(nan, stdout);
        else
            (void)printf("%.9g", x[i]);
        (void)printf(" in %s%s", d->name[i], i == 0 ? ", " : "\n");
    }
}

static void print_tensor(const struct diff *d)
{
    const struct parting *p = &d->parting;

    if (p->name == NULL) /* a program that need not repeat its bits made others */
        return;
    (void)printf("  tensor %s[%" PRIu64 "]: ", PLAIN_NAME(p->name), p->element);
    print_both(d, "nan");
    (void)fputs("  ", stdout);
    if (!isnan(p->largest))
        (void)printf("its largest difference is %.9g; ", p->largest);
    (void)printf("%zu tensor%s of %s differ%s\n", p->n_differing,
                 p->n_differing == 1 ? "" : "s", PLAIN_NAME(p->agent),
                 p->n_differing == 1 ? "s" : "");
}

static void print_place(const struct diff *d)
{
    const struct parting *p = &d->parting;
    const char *who = p->agent != NULL ? PLAIN_NAME(p->agent) : "all";

    (void)printf("%s at step %" PRIu64 ": ",
                 p->is_first ? "they part" : "the first difference that both kept is",
                 p->step);
    switch (p->kind) {
    case PARTING_NONE:
        break;
    case PARTING_ROW:
        (void)printf("%s, %s, in row %" PRIu64 " of the log\n  element %" PRIu64 ": ",
                     who, PLAIN_NAME(p->name), p->row, p->element);
        print_both(d, "nan");
        break;
    case PARTING_STAGE:
    case PARTING_WHEN:
        (void)printf("%s, %s of update %" PRIu64 ", pass %" PRIu64 "\n", who,
                     PLAIN_NAME(p->stage), p->update, p->pass);
        if (p->kind == PARTING_STAGE)
            print_tensor(d);
        else {
            (void)printf("  its step: ");
            print_both(d, "none");
        }
        break;
    case PARTING_CHECKPOINT:
        (void)printf("%s, %s\n", who,
                     p->step == 0 ? "the first weights" : "the checkpoint");
        print_tensor(d);
        break;
    case PARTING_METRIC:
        (void)printf("the metric %s\n  value: ", PLAIN_NAME(p->name));
        print_both(d, "none");
        break;
    }
}

/* The likely cause: what became different last before they part. */
static void print_newest(const struct diff *d)
{
    const uint64_t from = setting_parts_newest(&d->settings, d->parting.step);
    const char *before = ": ";

    if (from == UINT64_MAX)
        return;
    (void)printf("newest difference of configuration there, from step %" PRIu64 " on",
                 from);
    for (size_t i = 0; i < d->settings.n; i++)
        if (d->settings.list[i].from == from && !d->settings.list[i].is_output) {
            (void)printf("%s%s", before, PLAIN_NAME(d->settings.list[i].key));
            before = ", ";
        }
    (void)puts("");
}

static void print_why(const struct diff *d)
{
    for (int i = 0; i < 2; i++) {
        const struct err *why = &d->parting.why[i];

        if (why->code != 0)
            (void)printf("%s %s: %s\n", d->name[i],
                         why->code == ERR_CORRUPT ? "does not reproduce itself"
                                                  : "cannot be replayed",
                         why->msg);
    }
}

static void print_text(const struct diff *d)
{
    const struct parting *p = &d->parting;

    print_parts(d, "configuration", &d->settings);
    print_parts(d, "build and machine", &d->provenance);
    if (p->incomparable.code != 0)
        (void)printf("not comparable: %s\n", p->incomparable.msg);
    if (has_place(p)) {
        print_place(d);
        if (p->has_equal)
            (void)printf("up to the checkpoints of step %" PRIu64 " they are equal\n",
                         p->equal);
        print_why(d);
        if (p->why[0].code != ERR_CORRUPT && p->why[1].code != ERR_CORRUPT)
            print_newest(d);
    } else if (p->incomparable.code == 0)
        (void)printf("%s up to step %" PRIu64 "\n",
                     d->settings.n == 0 ? "no difference" : "they do not part",
                     compared_to(d));
}

/* ---- as JSON ---- */

static void put_parts(struct json *j, const char *key, const struct setting_parts *p,
                      int with_steps)
{
    json_put_array(j, key);
    for (size_t i = 0; i < p->n; i++) {
        const struct setting_part *x = &p->list[i];

        json_object(j);
        json_put_str(j, "key", x->key);
        json_put_str(j, "here", *x->here != '\0' ? x->here : NULL);
        json_put_str(j, "there", *x->there != '\0' ? x->there : NULL);
        if (with_steps)
            json_put_u64(j, "from_step", x->from);
        json_close(j);
    }
    json_close(j);
}

static void put_parting(struct json *j, const struct parting *p)
{
    static const char *const kinds[] = {
        [PARTING_ROW] = "row",       [PARTING_STAGE] = "stage",
        [PARTING_WHEN] = "when",     [PARTING_CHECKPOINT] = "checkpoint",
        [PARTING_METRIC] = "metric",
    };
    const int in_update = p->kind == PARTING_STAGE || p->kind == PARTING_WHEN;

    json_put_object(j, "difference");
    json_put_str(j, "kind", kinds[p->kind]);
    json_put_bool(j, "is_first", p->is_first);
    json_put_u64(j, "env_steps", p->step);
    json_put_str(j, "agent", p->agent);
    json_put_str(j, "stage", p->stage);
    json_put_known(j, "update", in_update, p->update);
    json_put_known(j, "pass", in_update, p->pass);
    json_put_known(j, "row", p->kind == PARTING_ROW, p->row);
    json_put_str(j, "name", p->name);
    json_put_known(j, "element", p->name != NULL && p->kind != PARTING_METRIC,
                   p->element);
    json_put_f64(j, "here", p->here);
    json_put_f64(j, "there", p->there);
    json_put_f64(j, "largest", p->largest);
    json_put_known(j, "tensors", p->n_differing > 0, p->n_differing);
    json_close(j);
}

static void print_json(const struct diff *d)
{
    const struct parting *p = &d->parting;
    struct json j = {0};

    json_begin(&j);
    json_object(&j);
    json_put_str(&j, "here", d->name[0]);
    json_put_str(&j, "there", d->name[1]);
    json_put_u64(&j, "compared_to", compared_to(d));
    put_parts(&j, "configuration", &d->settings, 1);
    put_parts(&j, "provenance", &d->provenance, 0);
    if (has_place(p))
        put_parting(&j, p);
    else {
        json_key(&j, "difference");
        json_null(&j);
    }
    json_put_known(&j, "equal_to", p->has_equal, p->equal);
    json_put_str(&j, "incomparable",
                 p->incomparable.code != 0 ? p->incomparable.msg : NULL);
    json_put_array(&j, "replays");
    for (int i = 0; i < 2; i++) {
        json_object(&j);
        json_put_str(&j, "run", d->name[i]);
        json_put_bool(&j, "diverges", p->why[i].code == ERR_CORRUPT);
        json_put_str(&j, "why", p->why[i].code != 0 ? p->why[i].msg : NULL);
        json_close(&j);
    }
    json_close(&j);
    json_close(&j);
    json_print(&j, stdout);
}

/* ---- the command ---- */

static int report(const struct diff *d)
{
    if (d->cli->json)
        print_json(d);
    else
        print_text(d);
    return has_place(&d->parting) || d->parting.incomparable.code != 0 ||
                   d->settings.n > 0
               ? DIFFER
               : ARE_EQUAL;
}

static int run_diff(struct cli *cli, void *values, int argc, char **argv)
{
    const struct diff_options *o = values;
    struct diff d = {.cli = cli};
    struct err err = {0};
    int code, rc = 0;

    if (argc != 2)
        return cli_usage(cli, "expected two runs, RUN or RUN@STEP, got %d", argc);
    if (!cli_keep(cli, 0, &code))
        return code;
    if (log_get_level() == LOG_LEVEL_INFO)
        log_set_level(LOG_LEVEL_WARN); /* the runs' own lines are in their logs */
    for (int i = 0; i < 2 && rc == 0; i++)
        rc = open_run(&d, i, argv[i], o->trust, &err);
    if (rc == 0)
        rc = find(&d, &err);
    if (rc == 0)
        code = report(&d);
    else /* cli_fail's code might be that of a difference */
        code = cli_fail(cli, TROUBLE, &err) == CLI_STOPPED ? CLI_STOPPED : TROUBLE;
    setting_parts_done(&d.settings);
    setting_parts_done(&d.provenance);
    parting_done(&d.parting);
    run_dir_free(d.dir[0]);
    run_dir_free(d.dir[1]);
    return code;
}

static const struct cli_option options[] = {
    {"trust", NULL,
     "compare another user's runs; programs that their\n"
     "configurations name are executed",
     CLI_FLAG(struct diff_options, trust)},
    {0}};

const struct command cmd_diff = {
    .name = "diff",
    .arguments = "RUN[@STEP] RUN[@STEP] [options]",
    .summary = "Say in what two runs differ, and where they part",
    .options = options,
    CLI_INTO(struct diff_options, 0),
    .help =
        "\nPrints the keys of the configurations that differ, with the step of the\n"
        "change, what differs in build and machine, and the first step, agent, stage\n"
        "and value at which the runs part: logs and checkpoints are compared as far as\n"
        "both have them, then both are replayed from their last equal checkpoint.\n"
        "Nothing of the runs changes, which may be live or over; what lies after the\n"
        "newest checkpoint of either, or after STEP, is not compared. A run is named\n"
        "whose replay is not what it kept: its files were changed, or its machine\n"
        "computes otherwise.\n"
        "\nThe exit code is 0 if they are equal (build and machine may differ), 1 if\n"
        "they differ, 2 if there was trouble, 4 if it was interrupted.\n"
        "\nexample: brood diff simple_spread-1 simple_spread-2\n",
    .run = run_diff,
};
