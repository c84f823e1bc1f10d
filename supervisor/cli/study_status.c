#include "supervisor/cli/study_status.h"

#include "common/config/run_config.h"
#include "common/io/monotonic.h"
#include "common/mem/xmalloc.h"
#include "common/text/scan.h"
#include "supervisor/cli/study_view.h"
#include "supervisor/facts/files.h"
#include "supervisor/proc/signals.h"
#include "supervisor/rundir/run_dir.h"

#include <math.h>
#include <poll.h>
#include <stdlib.h>
#include <unistd.h>

enum { TICK_MS = 100 };

struct study_status {
    struct study study;
    struct study_stage stage; /* its rung or round */
    const char *path;         /* the study's folder, borrowed */
    char *name;
    uint64_t run_steps;
    int is_live; /* a `brood sweep` works on it */
    int is_over; /* all its runs have come to the end, or failed */
    /* The trials of the rung whose runs have all come to its end or failed. Not of pbt. */
    size_t n_over;
};

/* ---- the rung or round ---- */

/* Neither the environment nor a program is asked: the study may be another user's. What the
 * programs are, the first trial's run knows. */
static int read_run_steps(const struct study *s, const char *folder, uint64_t *ret,
                          struct err *err)
{
    const struct config_options options = {.extends = 1};
    char *run = study_run_path(s, folder, &(struct study_run_id){0});
    struct run_config c;
    int rc = run_config_read(&c, s->base, &options, err);

    if (rc == ERR_CONFIG && files_read_config(&c, run, NULL) == 0)
        rc = 0;
    free(run);
    if (rc < 0)
        return rc;
    *ret = (uint64_t)c.run.env_steps;
    run_config_done(&c);
    return 0;
}

/* Fills in the values of the trials that take part, NaN for those that have none. Returns how
 * many of them have come to the end of the rung, or failed, with all their runs.
 * *ret_has_gone_on: a run has gone on beyond it, so that the rung is over. */
static size_t look_at_rung(const struct study_stage *g, double *value,
                           int *ret_has_gone_on)
{
    const size_t seeds = g->study->n_seeds;
    size_t n_over = 0;

    *ret_has_gone_on = 0;
    for (size_t i = 0; i < g->n; i++) {
        int is_over = 1;

        value[i] = 0;
        for (size_t k = i * seeds; k < (i + 1) * seeds; k++) {
            struct study_run run = study_stage_look(g, k);

            value[i] += run.value / (double)seeds;
            is_over &= run.state == STUDY_RUN_REACHED || run.state == STUDY_RUN_FAILED;
            *ret_has_gone_on |= run.state == STUDY_RUN_REACHED && run.steps > run.reached;
            study_run_done(&run);
        }
        n_over += (size_t)is_over;
    }
    return n_over;
}

static int find_stage(struct study_status *p, struct err *err)
{
    double *value;
    int has_gone_on;
    const int rc = study_stage_begin(&p->stage, &p->study, p->path, err);

    p->is_live = study_dir_is_locked(p->path);
    if (rc < 0)
        return rc;
    if (p->study.method == STUDY_PBT) {
        p->is_over = p->stage.lineage.n >= p->study.pbt.rounds;
        return 0;
    }
    /* The study is at the first rung that is not over, or at the last. Methods other than
     * asha have one. */
    value = xcalloc(p->stage.n + 1, sizeof(*value));
    do {
        p->n_over = look_at_rung(&p->stage, value, &has_gone_on);
        p->is_over = p->n_over == p->stage.n;
    } while ((p->is_over || has_gone_on) && study_stage_next(&p->stage, value));
    free(value);
    return 0;
}

static void study_status_done(struct study_status *p)
{
    study_stage_done(&p->stage);
    study_done(&p->study);
    free(p->name);
    *p = (struct study_status){0};
}

/* *ret must not be moved until study_status_done: its stage points into it. *ret is
 * all-zero after an error. */
static int study_status_read(struct study_status *ret, const char *path, struct err *err)
{
    int rc;

    *ret = (struct study_status){.path = path, .name = run_dir_name_of(path)};
    rc = study_dir_read(&ret->study, path, err);
    if (rc == 0)
        rc = read_run_steps(&ret->study, path, &ret->run_steps, err);
    if (rc == 0)
        rc = find_stage(ret, err);
    if (rc < 0)
        study_status_done(ret);
    return rc;
}

static const char *state_of(const struct study_status *p)
{
    return p->is_live ? "running" : p->is_over ? "done" : "stopped";
}

/* ---- one of a list ---- */

static size_t count_done(const struct study_status *p)
{
    const struct study_stage *g = &p->stage;
    const size_t n = p->study.trials - g->n;

    if (p->is_over)
        return p->study.trials;
    return p->study.method == STUDY_PBT || g->rung + 1 < study_n_rungs(&p->study)
               ? n
               : n + p->n_over;
}

void study_summary_read(struct study_summary *ret, const char *path)
{
    struct study_status *p = xcalloc(1, sizeof(*p));
    struct study_report *report = xcalloc(1, sizeof(*report));

    *ret = (struct study_summary){
        .name = text_base_name(path), .state = "unreadable", .status = p};
    if (study_status_read(p, path, NULL) == 0 &&
        study_report_make(report, &p->study, path, NULL) == 0) {
        ret->report = report;
        ret->state = state_of(p);
        ret->n_trials = p->study.trials;
        ret->n_done = count_done(p);
    } else {
        free(report);
    }
}

void study_summary_done(struct study_summary *s)
{
    if (s->report != NULL)
        study_report_done(s->report);
    free(s->report);
    study_status_done(s->status);
    free(s->status);
}

/* ---- the commands ---- */

/* Returns NULL if is_drawn, and stderr is no terminal that can redraw. */
static struct study_view *view_of(const struct study_status *p, int is_drawn)
{
    return study_view_new(&p->stage, p->name, p->run_steps, is_drawn);
}

int study_status_print(const struct cli *cli, const char *path)
{
    struct study_status p;
    struct study_view *v;
    struct err err = {0};

    if (study_status_read(&p, path, &err) < 0)
        return cli_fail(cli, CLI_FAILED, &err);
    v = view_of(&p, 0);
    study_view_begin(v);
    if (cli->json)
        study_view_print_json(v, state_of(&p));
    else
        study_view_print(v, state_of(&p), 0, stdout);
    study_view_free(v);
    study_status_done(&p);
    return CLI_DONE;
}

/* Prints changes where attach cannot redraw: in JSON, or without a terminal. */
static void print_change(const struct cli *cli, const struct study_status *p,
                         struct study_view *v)
{
    if (cli->json)
        study_view_print_json(v, state_of(p));
    else if (!cli->quiet)
        study_view_print(v, state_of(p), 1, stderr);
}

/* Shows the study until no sweep works on it (returns 1) or Ctrl-C is pressed (0).
 * Reading the files of all runs takes at most a tenth of the time. */
static int watch(const struct cli *cli, struct study_status *p, struct study_view *v,
                 int is_drawn, int signals, struct err *err)
{
    struct pollfd fd = {.fd = signals, .events = POLLIN};
    size_t rung = p->stage.rung, n_ended = study_view_n_ended(v);
    double due = monotonic_s() + 1;

    while (p->is_live) {
        const int rc = poll(&fd, 1, TICK_MS);
        const double begun = monotonic_s();

        if (rc > 0)
            return 0;
        if (is_drawn)
            study_view_tick(v);
        if (begun < due && study_dir_is_locked(p->path))
            continue;
        study_stage_done(&p->stage);
        if (find_stage(p, err) < 0) {
            study_status_done(p);
            return err->code;
        }
        study_view_begin(v);
        due = begun + fmax(1, 10 * (monotonic_s() - begun));
        if (!is_drawn && p->is_live &&
            (rung != p->stage.rung || n_ended != study_view_n_ended(v)))
            print_change(cli, p, v);
        rung = p->stage.rung;
        n_ended = study_view_n_ended(v);
    }
    return 1;
}

static int attach(const struct cli *cli, struct study_status *p, struct err *err)
{
    const int wants_view = !cli->quiet && !cli->json;
    struct study_view *v = wants_view ? view_of(p, 1) : NULL;
    const int is_drawn = v != NULL, signals = signals_watch(&(int){SIGINT}, 1);
    int rc;

    if (v == NULL)
        v = view_of(p, 0);
    study_view_begin(v);
    if (!is_drawn)
        print_change(cli, p, v);
    rc = watch(cli, p, v, is_drawn, signals, err);
    (void)close(signals);
    if (rc == 1 && cli->json)
        study_view_print_json(v, state_of(p));
    study_view_free(v);
    if (rc >= 0 && !cli->quiet && !cli->json)
        (void)fprintf(stderr, "%s: %s; `brood %s %s` shows how far it is\n", p->name,
                      rc == 0 ? "the sweep continues" : state_of(p),
                      rc == 1 && p->is_over ? "report" : "status", p->name);
    return rc < 0 ? rc : rc == 0 || p->is_over ? CLI_DONE : CLI_STOPPED;
}

int study_status_attach(const struct cli *cli, const char *path)
{
    struct study_status p;
    struct err err = {0};
    int code;

    if (study_status_read(&p, path, &err) < 0)
        return cli_fail(cli, CLI_FAILED, &err);
    if (!p.is_live) {
        (void)err_set(
            &err, ERR_STATE,
            "no `brood sweep` works on %s; `brood status %s` shows how far it is", path,
            p.name);
        code = cli_fail(cli, CLI_NOT_THERE, &err);
    } else {
        code = attach(cli, &p, &err);
        if (code < 0)
            code = cli_fail(cli, CLI_FAILED, &err);
    }
    study_status_done(&p);
    return code;
}
