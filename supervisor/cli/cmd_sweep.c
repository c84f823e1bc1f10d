#include "common/config/changes.h"
#include "common/mem/words.h"
#include "common/mem/xmalloc.h"
#include "common/text/scan.h"
#include "supervisor/begin/policies.h"
#include "supervisor/begin/run_metrics.h"
#include "supervisor/cli/jobs.h"
#include "supervisor/cli/study_view.h"
#include "supervisor/cli/train.h"
#include "supervisor/control/msg_json.h"
#include "supervisor/env/env.h"
#include "supervisor/metrics/metrics.h"
#include "supervisor/node/slurm.h"
#include "supervisor/run/training.h"
#include "supervisor/rundir/run_dir.h"
#include "supervisor/study/forks.h"
#include "supervisor/study/halving.h"
#include "supervisor/study/study_dir.h"
#include "supervisor/study/study_report.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    MAX_JOBS = 1000,
    SHOWN_ROWS = 10,
    MAX_KILLS = 5, /* of a run, one after the other, without a step between them */
};

/* What became of a run's commands in this stage. */
struct attempts {
    int is_over; /* no further one: the last failed, or was stopped */
    int n_kills; /* since it got to this step */
    uint64_t steps;
};

struct sweep {
    const struct cli *cli;
    struct study study;
    struct study_dir *dir;
    struct study_stage stage;
    const char *name;
    uint64_t run_steps;      /* run.env_steps of the base; 0: none */
    struct study_view *view; /* NULL: lines only */
    long long at_once;
    char **srun; /* the words before each trial's command; NULL: trials run here */
    char srun_name[SLURM_NAME_BYTES];
    int retries_failed;
    struct attempts *attempts; /* [runs of the stage] */
    struct batch *batch;       /* that runs now */
    double best;               /* NaN: none yet */
    size_t best_trial;
    size_t n_ended, n_all; /* runs of the stage */
};

/* The runs that have not come to the end of the stage, with their commands. */
struct batch {
    struct arena arena;
    struct job *job;
    size_t *of;  /* the run's number in the stage */
    char *waits; /* [n]: the job only waits for another command's run */
    size_t n;
};

/* Prints a line for people. */
static void say(const struct sweep *w, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
static void say(const struct sweep *w, const char *fmt, ...)
{
    char text[1024];
    va_list ap;

    if (w->cli->quiet)
        return;
    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    if (w->view != NULL)
        study_view_message(w->view, text, strlen(text));
    else
        (void)fprintf(stderr, "%s\n", text);
}

/* ---- runs ---- */

/* The last part of its path. */
static const char *name_of_run(const struct study_run *run)
{
    return strrchr(run->path, '/') + 1;
}

/* ---- the command of a run ---- */

/* `brood run` for a new run, `brood resume` for one that has a checkpoint. */
static struct job make_job(const struct sweep *sweep, size_t of,
                           const struct study_run *run, struct arena *arena)
{
    const struct study *s = &sweep->study;
    const struct study_run_id id = study_stage_id(&sweep->stage, of);
    struct words w = {.arena = arena};
    const char *sets[STUDY_MAX_SETS];
    /* A fork has a checkpoint, and settings of its own. */
    const int is_new = !run->has_checkpoint && id.birth == 0;
    const size_t n_sets = is_new ? study_sets(s, id.trial, sets, arena) : 0;

    words_add(&w, "brood", is_new ? "run" : "resume", "--quiet", NULL);
    if (sweep->stage.until > 0)
        words_add(&w, "--until", arena_printf(arena, "%" PRIu64, sweep->stage.until),
                  NULL);
    if (is_new) /* --force: replaces an attempt that left no checkpoint */
        words_add(&w, "--force", "--runs-dir", study_dir_path(sweep->dir), "--name",
                  arena_strdup(arena, name_of_run(run)), "--seed",
                  arena_printf(arena, "%" PRIu64, s->seeds[id.seed]), NULL);
    if (s->memory_bytes > 0)
        words_add(&w, "--memory-limit",
                  arena_printf(arena, "%" PRId64 "B", s->memory_bytes), NULL);
    for (size_t i = 0; i < n_sets; i++)
        words_add(&w, "--set", sets[i], NULL);
    words_add(&w, "--",
              is_new ? arena_printf(arena, "%s/base.yaml", study_dir_path(sweep->dir))
                     : arena_strdup(arena, run->path),
              NULL);
    return (struct job){.run = arena_strdup(arena, name_of_run(run)),
                        .argv = words_argv(&w)};
}

/* A live run belongs to another command: the job waits until it ends, then the run is
 * looked at again. */
static struct job make_wait(const struct study_run *run, struct arena *arena)
{
    struct words w = {.arena = arena};

    words_add(&w, "brood", "wait", "--quiet", "--", arena_strdup(arena, run->path), NULL);
    return (struct job){.run = arena_strdup(arena, name_of_run(run)),
                        .argv = words_argv(&w)};
}

/* ---- a stage ---- */

/* Collects the runs that have not reached the stage's end. */
static void make_batch(struct sweep *w, struct batch *b)
{
    b->job = xcalloc(w->n_all + 1, sizeof(*b->job));
    b->of = xcalloc(w->n_all + 1, sizeof(*b->of));
    b->waits = xcalloc(w->n_all + 1, 1);
    for (size_t i = 0; i < w->n_all; i++) {
        struct study_run run = study_stage_look(&w->stage, i);

        if (run.state != STUDY_RUN_REACHED &&
            (run.state != STUDY_RUN_FAILED || w->retries_failed) &&
            !w->attempts[i].is_over) {
            b->of[b->n] = i;
            b->waits[b->n] = run.state == STUDY_RUN_LIVE;
            b->job[b->n++] = run.state == STUDY_RUN_LIVE
                                 ? make_wait(&run, &b->arena)
                                 : make_job(w, i, &run, &b->arena);
        }
        study_run_done(&run);
    }
}

/* Looks whether the i-th trial of the stage is the best so far. */
static void note_value(struct sweep *w, size_t i)
{
    const double v = study_stage_value(&w->stage, i);

    if (!halving_is_better(v, w->best, w->study.is_max))
        return;
    w->best = v;
    w->best_trial = w->stage.trial[i];
}

static void print_event(const struct sweep *w, size_t i, const struct study_run *run,
                        int code)
{
    const struct study_run_id id = study_stage_id(&w->stage, i);
    struct json j = {0};

    msg_json_begin_event(&j, "trial");
    json_put_u64(&j, "trial", id.trial + 1);
    json_put_u64(&j, "seed", w->study.seeds[id.seed]);
    if (w->study.method == STUDY_PBT) {
        json_put_str(&j, "run", name_of_run(run));
        json_put_u64(&j, "round", w->stage.rung + 1);
    } else {
        json_put_u64(&j, "rung", w->stage.rung);
    }
    json_put_f64(&j, "value", run->value);
    json_put_i64(&j, "exit_code", code);
    json_put_str(&j, "failure", run->failure);
    json_print(&j, stdout);
}

static void print_progress(const struct sweep *w, const struct study_run *run, int code)
{
    char value[160], step[48] = "", best[64] = "";

    if (!isnan(run->value))
        (void)snprintf(value, sizeof(value), "%.4g", run->value);
    else if (run->failure != NULL)
        (void)snprintf(value, sizeof(value), "failed");
    else
        (void)snprintf(value, sizeof(value), "has no value%s%.100s (exit code %d)",
                       code == 0 ? " of " : "",
                       code != 0                 ? ""
                       : w->study.column != NULL ? w->study.column
                                                 : "a return",
                       code);
    if (w->stage.until > 0 && run->failure == NULL)
        (void)snprintf(step, sizeof(step), " at step %" PRIu64, w->stage.until);
    if (!isnan(w->best))
        (void)snprintf(best, sizeof(best), "; best so far %zu with %.4g",
                       w->best_trial + 1, w->best);
    say(w, "%s: %zu of %zu: %s %s%s%s", w->name, w->n_ended, w->n_all, name_of_run(run),
        value, step, best);
}

/* ---- the view ---- */

static void on_start(void *ctx, size_t job)
{
    struct sweep *w = ctx;

    if (w->view != NULL)
        study_view_run(w->view, w->batch->of[job], "running", 0, (double)NAN);
}

static void on_line(void *ctx, const char *line, size_t len)
{
    const struct sweep *w = ctx;

    study_view_message(w->view, line, len);
}

static void on_tick(void *ctx)
{
    const struct sweep *w = ctx;

    study_view_tick(w->view);
}

static void on_suspend(void *ctx)
{
    const struct sweep *w = ctx;

    study_view_suspend(w->view);
}

/* Counts the kills of a run. Returns whether the limit is reached, which is printed: such a run
 * would be killed for ever, for instance because it needs more memory than there is. */
static int is_killed_again(struct sweep *w, struct attempts *a,
                           const struct study_run *run)
{
    if (run->steps > a->steps)
        a->n_kills = 0;
    a->steps = run->steps;
    if (++a->n_kills < MAX_KILLS)
        return 0;
    say(w, "%s: %s was killed %d times at step %" PRIu64 ": it is left alone", w->name,
        name_of_run(run), MAX_KILLS, run->steps);
    return 1;
}

static void on_end(void *ctx, size_t job, int code)
{
    struct sweep *w = ctx;
    const size_t of = w->batch->of[job];
    struct attempts *a = &w->attempts[of];
    struct study_run run = study_stage_look(&w->stage, of);

    /* A run that was killed is tried again, unless that is futile. So is one for which the
     * job only waited, and a live one, which another command is just ending. One that a user
     * stopped is left alone until the next sweep, and so is one whose command had nothing to
     * do. */
    a->is_over = run.state != STUDY_RUN_REACHED && run.state != STUDY_RUN_LIVE &&
                 !w->batch->waits[job] &&
                 (code < RUN_EXIT_SIGNALLED || is_killed_again(w, a, &run));
    if (w->view != NULL)
        study_view_run(w->view, of,
                       run.state == STUDY_RUN_REACHED  ? "done"
                       : run.state == STUDY_RUN_FAILED ? "failed"
                       : a->is_over                    ? "stopped"
                                                       : "waiting",
                       run.steps, run.value);
    if (run.state == STUDY_RUN_REACHED || a->is_over) {
        w->n_ended++;
        note_value(w, of / w->study.n_seeds);
        if (w->cli->json)
            print_event(w, of, &run, code);
        if (!w->cli->quiet)
            print_progress(w, &run, code);
    }
    study_run_done(&run);
}

/* Returns 0 when all runs of the stage have come as far as they can, CLI_STOPPED after a
 * signal, CLI_FAILED if one could not be started. */
static int run_stage(struct sweep *w)
{
    int stopped = CLI_DONE;

    w->best = (double)NAN;
    w->n_all = study_stage_n_runs(&w->stage);
    free(w->attempts);
    w->attempts = xcalloc(w->n_all + 1, sizeof(*w->attempts));
    for (size_t i = 0; i < w->stage.n; i++) /* values from an earlier sweep */
        note_value(w, i);
    if (w->view != NULL)
        study_view_begin(w->view);
    for (;;) {
        struct batch b = {0};

        make_batch(w, &b);
        w->batch = &b;
        w->n_ended = w->n_all - b.n;
        if (b.n > 0)
            (void)jobs_run(
                w->cli,
                &(struct jobs_args){.jobs = b.job,
                                    .n = b.n,
                                    .at_once = (size_t)w->at_once,
                                    .srun = w->srun,
                                    .srun_name = w->srun_name,
                                    .cores = w->srun == NULL ? (int)w->study.cores : 0,
                                    .goes_on = 1,
                                    .on_start = on_start,
                                    .on_end = on_end,
                                    .on_line = w->view != NULL ? on_line : NULL,
                                    .on_tick = w->view != NULL ? on_tick : NULL,
                                    .on_suspend = w->view != NULL ? on_suspend : NULL,
                                    .ctx = w},
                &stopped);
        free(b.job);
        free(b.of);
        free(b.waits);
        arena_done(&b.arena);
        w->batch = NULL;
        if (stopped != CLI_DONE)
            return stopped;
        if (b.n == 0)
            return 0;
    }
}

/* Keeps the values of a rung that is over. */
static int keep_values(struct sweep *w, struct err *err)
{
    struct rungs *passed = &w->study.passed;
    const size_t n = passed->n;

    for (size_t i = 0; i < w->n_all; i++) {
        const struct study_run_id id = study_stage_id(&w->stage, i);
        const uint64_t seed = w->study.seeds[id.seed], until = w->stage.until;
        struct study_run run = study_stage_look(&w->stage, i);

        if (!isnan(run.value) && isnan(rungs_find(passed, until, id.trial, seed)))
            rungs_add(passed, &(struct rung_value){until, id.trial, seed, run.value});
        study_run_done(&run);
    }
    return passed->n == n ? 0 : rungs_write(passed, w->stage.dir, err);
}

/* The values of the stage's trials; free(). */
static double *values_of(const struct sweep *w)
{
    double *value = xcalloc(w->stage.n + 1, sizeof(*value));

    for (size_t i = 0; i < w->stage.n; i++)
        value[i] = study_stage_value(&w->stage, i);
    return value;
}

/* Prints the error below the view. */
static int fail(struct sweep *w, struct err *err)
{
    study_view_free(w->view);
    w->view = NULL;
    return cli_fail(w->cli, CLI_FAILED, err);
}

static int run_rungs(struct sweep *w)
{
    struct err err = {0};

    for (;;) { /* a rung, in which some trials of the one below take part */
        const int code = run_stage(w);
        const size_t n = w->stage.n;
        const uint64_t step = w->stage.until;
        double *value;
        int goes_on;

        if (code != 0)
            return code;
        if (step > 0 && keep_values(w, &err) < 0)
            return fail(w, &err);
        value = values_of(w);
        goes_on = study_stage_next(&w->stage, value);
        free(value);
        if (goes_on)
            say(w, "%s: %zu of %zu trials continue from step %" PRIu64, w->name,
                w->stage.n, n, step);
        if (!goes_on || w->stage.n == 0)
            return 0;
    }
}

/* ---- population based training ---- */

/* Fails if a run keeps the round from ending: a user stopped it, or its command was
 * refused. */
static int check_round(const struct sweep *w)
{
    for (size_t i = 0; i < w->n_all; i++) {
        struct study_run run = study_stage_look(&w->stage, i);
        const int is_over =
            run.state == STUDY_RUN_REACHED || run.state == STUDY_RUN_FAILED;

        if (!is_over)
            say(w, "%s: round %zu waits for %s", w->name, w->stage.rung + 1,
                name_of_run(&run));
        study_run_done(&run);
        if (!is_over)
            return CLI_STOPPED;
    }
    return 0;
}

/* Adds the round to the lineage. Fails if no member has a value. */
static int end_round(struct sweep *w, struct err *err)
{
    struct lineage *l = &w->stage.lineage;
    double *value = values_of(w);
    struct study_run first = study_stage_look(&w->stage, 0);
    size_t failed = 0;
    int rc;

    for (size_t i = 0; i < w->stage.n; i++)
        failed += isnan(value[i]);
    rc = failed < w->stage.n
             ? lineage_add(l, w->stage.dir, value, err)
             : err_set(err, ERR_STATE,
                       "%s: no member has a value after round %zu, so that none "
                       "can be continued; `brood logs %s/%s` shows why one failed, and "
                       "metric.column must have a finite value in every round",
                       w->name, w->stage.rung + 1, w->name, name_of_run(&first));
    study_run_done(&first);
    free(value);
    if (rc < 0)
        return rc;
    say(w, "%s: round %zu of %zu is over at step %" PRIu64, w->name, l->n,
        w->study.pbt.rounds, lineage_step(&w->study, l->n - 1));
    if (l->n == w->study.pbt.rounds)
        return 0;
    for (size_t i = 0; i < w->stage.n; i++) {
        const size_t from = lineage_from(l, l->n - 1, i);

        if (from != i)
            say(w, "%s: %zu becomes a fork of %zu", w->name, i + 1, from + 1);
    }
    return 0;
}

static void on_skipped(void *ctx, const char *line)
{
    const struct sweep *w = ctx;

    if (w->view == NULL)
        cli_skipped((void *)(uintptr_t)w->cli, line);
    else
        say(w, "%s; trying the next older one", line);
}

static int make_forks(struct sweep *w, struct err *err)
{
    struct binaries bin;
    const int rc = binaries_find(&bin, err);

    return rc < 0 ? rc
                  : study_forks_make(&w->stage.lineage, w->stage.dir,
                                     &(struct fork_args){.is_tried = 1,
                                                         .binaries = &bin,
                                                         .argc = w->cli->argc,
                                                         .argv = w->cli->argv,
                                                         .env_names = env_agent_names,
                                                         .on_skipped = on_skipped,
                                                         .ctx = w},
                                     err);
}

static int run_rounds(struct sweep *w)
{
    struct err err = {0};
    int code = 0, rc = 0;

    while (rc == 0 && code == 0 && w->stage.lineage.n < w->study.pbt.rounds) {
        rc = make_forks(w, &err);
        if (rc < 0)
            break;
        study_stage_next_round(&w->stage);
        code = run_stage(w);
        if (code == 0)
            code = check_round(w);
        if (code == 0)
            rc = end_round(w, &err);
    }
    return rc == 0 ? code : fail(w, &err);
}

static int run_study(struct sweep *w)
{
    struct err err = {0};
    int code;

    if (study_stage_begin(&w->stage, &w->study, study_dir_path(w->dir), &err) < 0)
        return cli_fail(w->cli, CLI_FAILED, &err);
    if (!w->cli->quiet && !w->cli->json)
        w->view = study_view_new(&w->stage, w->name, w->run_steps, 1);
    code = w->study.method == STUDY_PBT ? run_rounds(w) : run_rungs(w);
    study_view_free(w->view);
    study_stage_done(&w->stage);
    free(w->attempts);
    return code;
}

/* ---- the command ---- */

/* dropped: is called with each key of the base that the algorithm does not use. */
static int read_config(const struct sweep *w, const char *const *sets, size_t n,
                       config_line_fn dropped, struct run_config *ret, struct err *err)
{
    const struct study *s = &w->study;
    struct policy_search search = cli_policy_search(w->cli);
    const char **all = xcalloc(s->n_sets + n + 1, sizeof(*all));
    struct config_options co;
    int rc;

    for (size_t i = 0; i < s->n_sets + n; i++)
        all[i] = i < s->n_sets ? s->sets[i] : sets[i - s->n_sets];
    co = train_config_options(w->cli, &(struct cli_texts){all, s->n_sets + n}, &search,
                              NULL);
    co.dropped = dropped;
    rc = run_config_read(ret, s->base, &co, err);
    free(all);
    return rc;
}

/* Whether the metric can have a value where trials are compared for the first time: with asha and
 * pbt on their way, else at their end, when they are evaluated once more. A return that the study
 * does not name may be that of an evaluation. max_steps: of an episode; 0: not known. */
static int check_first_value(const struct study *s, const struct run_config *c,
                             uint64_t max_steps, struct err *err)
{
    const int is_pbt = s->method == STUDY_PBT, is_asha = s->method == STUDY_ASHA;
    const uint64_t first = is_pbt    ? s->pbt.interval
                           : is_asha ? s->rungs[0]
                                     : (uint64_t)c->run.env_steps;
    const uint64_t evaluated = c->evaluation.every_env_steps > 0 && !is_pbt && !is_asha
                                   ? 1
                                   : (uint64_t)c->evaluation.every_env_steps;
    const uint64_t ended = max_steps * (uint64_t)c->env.copies;
    const struct err_place at = {.file = s->file,
                                 .key = is_pbt              ? "method.pbt.interval"
                                        : is_asha           ? "method.asha.rungs"
                                        : s->column != NULL ? "metric.column"
                                                            : "base"};

    if (first == 0) /* the base counts episodes */
        return 0;
    if (s->column != NULL && text_after(s->column, "eval/") != NULL &&
        (evaluated == 0 || first < evaluated))
        return err_set_at(err, ERR_CONFIG, &at,
                          "trials are compared at step %" PRIu64
                          ", before the first evaluation (evaluation.every_env_steps is "
                          "%" PRIu64 "): none would have a value of %s",
                          first, evaluated, s->column);
    if ((s->column == NULL || text_after(s->column, "rollout/") != NULL) &&
        first < ended && (s->column != NULL || evaluated == 0 || first < evaluated))
        return err_set_at(err, ERR_CONFIG, &at,
                          "trials are compared at step %" PRIu64
                          ", before an episode has ended (env.copies x max_steps is "
                          "%" PRIu64 "): none would have a return",
                          first, ended);
    return 0;
}

/* Whether metric.column is one of those that progress.csv will have, and has values in time, and
 * whether the rules of the configuration have such columns. */
static int check_metric(const struct study *s, const struct run_config *c,
                        struct err *err)
{
    const struct err_place at = {.file = s->file, .key = "metric.column"};
    struct vec_env *env = NULL;
    struct metrics *m = NULL;
    int rc =
        vec_env_new(&env, &c->env, (uint64_t)c->run.seed, ENV_DRAWS_TRAINING, 0, err);

    if (rc == 0)
        rc = run_metrics_new(&m, c, vec_env_spec(env), err);
    if (rc == 0 && s->column != NULL)
        rc = run_metrics_check_column(m, s->column, &at, err);
    if (rc == 0)
        rc = check_first_value(s, c, (uint64_t)vec_env_spec(env)->max_steps, err);
    if (rc == 0 && s->method == STUDY_PBT && c->run.has_stop_when)
        rc = err_set_at(err, ERR_CONFIG, ERR_AT(.file = s->file, .key = "method.pbt"),
                        "its members go on until the last round, expected run.stop_when: "
                        "none in the configuration");
    if (rc == 0)
        rc = run_metrics_check_rules(m, c, 1, err);
    metrics_free(m);
    vec_env_free(env);
    return rc;
}

/* Whether a trial goes on until the last rung. It ends at the end of a round, in which each
 * copy takes a step. */
static int check_last_rung(const struct study *s, const struct run_config *c,
                           struct err *err)
{
    const uint64_t copies = (uint64_t)c->env.copies, steps = (uint64_t)c->run.env_steps;
    const uint64_t last = s->method == STUDY_ASHA ? s->rungs[s->n_rungs - 1] : 0;

    if (steps == 0 || last <= (steps + copies - 1) / copies * copies)
        return 0;
    return err_set_at(
        err, ERR_CONFIG, ERR_AT(.file = s->file, .line = 0, .key = "method.asha.rungs"),
        "the last rung, %" PRIu64 ", is beyond run.env_steps, %" PRIu64, last, steps);
}

/* Reads the configuration of every trial and finds its policies, so that none is refused
 * later. */
static int check_trials(struct sweep *w, struct err *err)
{
    const struct policy_search search = cli_policy_search(w->cli);
    int rc = 0;

    for (size_t i = 0; rc == 0 && i < w->study.trials; i++) {
        struct arena arena = ARENA_ZERO;
        const char *sets[STUDY_MAX_SETS];
        const size_t n = study_sets(&w->study, i, sets, &arena);
        struct run_config c;

        rc = read_config(w, sets, n, i == 0 ? cli_dropped : cli_not_yet, &c, err);
        if (rc == 0) {
            struct policies *policies = NULL;

            w->run_steps = (uint64_t)c.run.env_steps;
            rc = check_last_rung(&w->study, &c, err);
            if (rc == 0)
                rc = policies_find(&policies, &c, &search, err);
            policies_free(policies);
            if (rc == 0 && i == 0)
                rc = check_metric(&w->study, &c, err);
            run_config_done(&c);
        }
        arena_done(&arena);
        if (rc < 0)
            (void)err_wrap(err, "trial %zu", i + 1);
    }
    return rc;
}

/* Checks that `brood set` can change a key to this value: the end of its range, or one of
 * its choices. */
static int check_live_value(const struct sweep *w, const struct run_config *base,
                            const struct study_key *k, const char *value, struct err *err)
{
    const struct study one = {.n_keys = 1, .key = {*k}};
    const char *sets[STUDY_MAX_SETS];
    struct arena arena = ARENA_ZERO;
    const size_t n = study_sets_of(&one, &value, sets, &arena);
    struct run_config c;
    int is_fixed = 0, rc = read_config(w, sets, n, cli_not_yet, &c, err);

    if (rc < 0) {
        (void)err_wrap(err, "%s:%d", w->study.file, k->line);
    } else {
        struct config_diff d;

        run_config_diff(&d, base, &c, 0);
        is_fixed = config_diff_find(&d, 1u << CHANGE_RESTART) != NULL;
        config_diff_done(&d);
        run_config_done(&c);
    }
    if (is_fixed)
        rc = err_set_at(err, ERR_CONFIG,
                        ERR_AT(.file = w->study.file, .line = k->line, .key = k->path),
                        "cannot change in a run that has begun, so that pbt cannot "
                        "search it");
    arena_done(&arena);
    return rc;
}

/* Whether runs of base's length are over when the last round begins. A run ends a round
 * of the study at the end of a round of its own, in which each copy takes a step. */
static int has_no_last_round(const struct study *s, const struct run_config *base)
{
    const uint64_t copies = (uint64_t)base->env.copies;
    const uint64_t begin = s->pbt.interval * (s->pbt.rounds - 1);

    return (begin + copies - 1) / copies * copies >= (uint64_t)base->run.env_steps;
}

/* Checks that `brood set` can change all keys, and that runs are long enough for all
 * rounds. */
static int check_rounds(const struct sweep *w, struct err *err)
{
    const struct study *s = &w->study;
    struct run_config base;
    int rc = read_config(w, NULL, 0, cli_not_yet, &base, err);

    if (rc < 0)
        return rc;
    for (size_t k = 0; rc == 0 && k < s->n_keys; k++) {
        const struct study_key *key = &s->key[k];
        const size_t n = key->values == STUDY_CHOICE ? key->n : 2;
        struct arena arena = ARENA_ZERO;

        for (size_t i = 0; rc == 0 && i < n; i++)
            rc = check_live_value(
                w, &base, key,
                key->values == STUDY_CHOICE
                    ? key->choice[i]
                    : arena_printf(&arena, "%.15g", i == 0 ? key->low : key->high),
                err);
        arena_done(&arena);
    }
    if (rc == 0 && base.run.env_steps == 0)
        rc = err_set_at(err, ERR_CONFIG,
                        ERR_AT(.file = s->file, .line = 0, .key = "method.pbt"),
                        "the base must have run.env_steps");
    else if (rc == 0 && has_no_last_round(s, &base))
        rc = err_set_at(err, ERR_CONFIG,
                        ERR_AT(.file = s->file, .line = 0, .key = "method.pbt.rounds"),
                        "%zu rounds of %" PRIu64 " steps are more than run.env_steps "
                        "of the base, %" PRId64,
                        s->pbt.rounds, s->pbt.interval, base.run.env_steps);
    run_config_done(&base);
    return rc;
}

/* Returns the exit code: without a best trial, the study has failed. */
static int print_end(struct sweep *w, int code)
{
    struct study_report r;
    struct json j = {0};
    struct err err = {0};

    if (study_report_make(&r, &w->study, study_dir_path(w->dir), &err) < 0) {
        (void)cli_fail(w->cli, CLI_FAILED, &err);
        return code != 0 ? code : CLI_FAILED;
    }
    if (code == 0 && (r.n == 0 || !r.row[0].is_reached)) {
        (void)err_set(&err, ERR_STATE, "%s: no trial has a value", w->name);
        code = cli_fail(w->cli, CLI_FAILED, &err);
    }
    if (w->cli->json) {
        msg_json_begin_event(&j, code == 0             ? "done"
                                 : code == CLI_STOPPED ? "stopped"
                                                       : "failed");
        json_put_str(&j, "study", w->name);
        json_put_u64(&j, "trials", w->study.trials);
        study_report_put_best(&r, &j);
        json_print(&j, stdout);
    } else {
        study_report_print(&r, SHOWN_ROWS, stdout);
    }
    study_report_done(&r);
    if (code == CLI_STOPPED && !w->cli->quiet)
        (void)fprintf(stderr, "%s: stopped; the same command continues it\n", w->name);
    return code;
}

static int sweep(struct sweep *w)
{
    struct err err = {0};
    int code = check_trials(w, &err);

    if (code == 0 && w->study.method == STUDY_PBT)
        code = check_rounds(w, &err);
    if (code < 0 ||
        study_dir_open(&w->dir, w->cli->runs_dir, w->name, &w->study, &err) < 0)
        return cli_fail(w->cli, CLI_USAGE, &err);
    if (!w->cli->quiet)
        (void)fprintf(stderr, "%s: %zu trials with %zu seed%s, in %s\n", w->name,
                      w->study.trials, w->study.n_seeds, w->study.n_seeds == 1 ? "" : "s",
                      study_dir_path(w->dir));
    code = run_study(w);
    code = print_end(w, code);
    study_dir_close(w->dir);
    return code;
}

/* "studies/lr.yaml": "lr"; free(). */
static char *name_of(const char *file)
{
    const char *base = text_base_name(file);
    const char *dot = strrchr(base, '.');

    return dot != NULL && dot > base ? xstrndup(base, (size_t)(dot - base))
                                     : xstrdup(base);
}

/* words: the study, then the options for srun that follow `--`. */
static int check_launcher(struct sweep *w, const char *launcher, int n, char **words)
{
    const int is_slurm = strcmp(launcher, "slurm") == 0;
    const struct cluster_config none = {.launcher = LAUNCHER_SLURM};
    struct err err = {0};

    if (!is_slurm && strcmp(launcher, "local") != 0)
        return cli_usage(w->cli, "--launcher %s: expected local or slurm", launcher);
    if (n < 1 || (n > 1 && (!is_slurm || words[1][0] != '-')))
        return cli_usage(w->cli, "expected one study, got %d", n);
    if (is_slurm && slurm_check(&none, &err) < 0)
        return cli_fail(w->cli, CLI_USAGE, &err);
    if (w->at_once == 0)
        w->at_once = is_slurm ? MAX_JOBS : 1; /* Slurm's queue holds them */
    return 0;
}

/* Makes the words of srun. Each trial is a job of its own or, inside of a job, a step,
 * which waits for free resources. */
static void make_srun(struct sweep *sweep, int n_options, char **options,
                      struct arena *arena)
{
    const struct study *s = &sweep->study;
    struct words w = {.arena = arena};
    struct channel_secret unique;

    channel_secret_make(&unique);
    slurm_make_name(sweep->srun_name, "sweep", (size_t)getpid(), unique.id);
    words_add(&w, "srun", "--quiet", "--unbuffered", NULL);
    if (s->cores > 0)
        words_add(&w, arena_printf(arena, "--cpus-per-task=%" PRId64, s->cores), NULL);
    if (s->memory_bytes > 0)
        words_add(&w, arena_printf(arena, "--mem=%" PRId64 "K", s->memory_bytes / 1024),
                  NULL);
    for (int i = 0; i < n_options; i++)
        words_add(&w, options[i], NULL);
    words_add(&w, "--nodes=1", "--ntasks=1",
              arena_printf(arena, "--job-name=%s", sweep->srun_name), NULL);
    if (slurm_job() != NULL)
        words_add(&w, "--exact", NULL);
    sweep->srun = words_argv(&w);
}

struct options {
    long long at_once;
    const char *name, *launcher;
    struct cli_texts sets;
    int retries_failed;
};

static int run_sweep(struct cli *cli, void *values, int argc, char **argv)
{
    const struct options *o = values;
    struct sweep w = {
        .cli = cli, .at_once = o->at_once, .retries_failed = o->retries_failed};
    struct arena arena = ARENA_ZERO;
    struct err err = {0};
    char *name;
    int code = check_launcher(&w, o->launcher, argc, argv);

    if (code != 0)
        return code;
    if (study_read(&w.study, argv[0], o->sets.text, o->sets.n, &err) < 0)
        return cli_fail(cli, CLI_USAGE, &err);
    if (strcmp(o->launcher, "slurm") == 0)
        make_srun(&w, argc - 1, argv + 1, &arena);
    name = o->name != NULL ? xstrdup(o->name) : name_of(argv[0]);
    w.name = name;
    code =
        run_dir_check_name(name, &err) < 0 ? cli_fail(cli, CLI_USAGE, &err) : sweep(&w);
    free(name);
    arena_done(&arena);
    study_done(&w.study);
    return code;
}

static const struct cli_option options[] = {
    {"jobs", "N", "N runs at a time (1; with Slurm all)",
     CLI_NUMBER(struct options, at_once, 1, MAX_JOBS)},
    {"launcher", "slurm",
     "each run is a job of Slurm's, or inside of a job a step of it;\n"
     "options for srun follow the study and --",
     CLI_TEXT(struct options, launcher)},
    {"name", "NAME", "of the study; default: the file's name",
     CLI_TEXT(struct options, name)},
    {"set", "KEY=VALUE",
     "a value that the base has in all trials, of a key that the\n"
     "study does not search; repeatable",
     CLI_TEXTS(struct options, sets)},
    {"retry-failed", NULL, "continue runs that failed in an earlier sweep, once each",
     CLI_FLAG(struct options, retries_failed)},
    {0}};

const struct command cmd_sweep = {
    .name = "sweep",
    .arguments = "STUDY.yaml [options] [-- SRUN OPTIONS]",
    .summary = "Search configurations: many runs, compared by one number",
    .options = options,
    CLI_INTO(struct options, .launcher = "local"),
    .help =
        "\nA study's file:\n"
        "  base: simple_spread.yaml        # relative to the file\n"
        "  search:                         # KEY: values; \"KEY, KEY\": the same for "
        "both\n"
        "    defaults.discount: [0.9, 0.95]\n"
        "    defaults.optimizer.learning_rate: {log_uniform: [0.0003, 0.01]}\n"
        "    experience.batch_size: {int: [64, 1024]}      # also {uniform: [0, 1]}\n"
        "  method: {asha: {rungs: [50000, 150000], keep: 0.33}}   # or grid, random, "
        "pbt\n"
        "  metric: {column: eval/team_return/agent, mode: max, last: 3}\n"
        "  trials: 24                      # a grid has one for every combination\n"
        "  seeds: [1, 2]                   # a trial's value is the mean over them\n"
        "  seed: 0                         # of the draws\n"
        "  limits: {cores: 2, memory: 8G}  # of a trial\n"
        "\nTrials are the runs STUDY/1-s1 and so on, which can be watched and steered as "
        "any\n"
        "other. The same command continues a study after an interrupt, a death, or with "
        "more\n"
        "trials or seeds. A trial that fails has no value, and the others continue; "
        "`report`\n"
        "says why it failed. With asha, trials stop at the first rung, and the best of "
        "them are\n"
        "resumed up to the next one; the result does not depend on --jobs.\n"
        "\n  method: {pbt: {population: 8, interval: 50000, rounds: 10}}\n"
        "is population based training of 8 members. After every 50,000 steps all stop; "
        "the\n"
        "worst quarter (quantile: 0.25) and those that failed become forks of members "
        "of\n"
        "the best quarter. A fork begins with the settings of the better one, each drawn "
        "anew\n"
        "with probability 0.25 (resample) or else multiplied by 0.8 or 1.25 (factors: "
        "[0.8,\n"
        "1.25]) within its range. Only keys that `brood set` can change are searched. A\n"
        "member has a run for each seed; it is STUDY/3-s1, and STUDY/3-r2-s1 after it "
        "became\n"
        "a fork after round 2. Runs that were replaced are removed, unless keep: true. "
        "More\n"
        "rounds may be added, up to run.env_steps.\n"
        "\nOn a terminal a view shows the trials, the best so far and the time left; the "
        "arrow\n"
        "keys scroll.\n"
        "\nexample: brood sweep study.yaml --jobs 2\n",
    .run = run_sweep,
};
