#include "common/mem/xmalloc.h"
#include "supervisor/cli/jobs.h"
#include "supervisor/cli/study_report.h"
#include "supervisor/env/env.h"
#include "supervisor/study/halving.h"
#include "supervisor/study/study_dir.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_JOBS = 1000, SHOWN_ROWS = 10, MAX_ARGS = 32 + 2 * STUDY_MAX_SETS };

struct sweep {
    const struct cli *cli;
    struct study study;
    struct study_dir *dir;
    const char *name;
    size_t n_agents; /* of the base's environment */
    long long at_once;
    size_t *trial; /* [n] that take part in the rung */
    size_t n;
    size_t rung;
    uint64_t until;      /* of the rung; 0: to the run's end */
    char *refused;       /* [trials * seeds]: its command failed, or it was stopped */
    struct batch *batch; /* that runs now */
    double best;         /* NaN: none yet */
    size_t best_trial;
    size_t n_ended, n_all; /* runs of the rung */
};

/* The runs that have something to do for the rung. */
struct batch {
    struct arena arena;
    struct job *job;
    size_t *of;  /* index of trial and seed: trial * n_seeds + seed */
    char *waits; /* it waits for another command's run */
    size_t n;
};

/* ---- the command of a run ---- */

static void add(const char **argv, size_t *n, const char *word)
{
    argv[(*n)++] = word;
}

/* `brood run` for a new run, `brood resume` for one that has come some way. */
static struct job make_job(struct sweep *w, size_t trial, size_t seed,
                           const struct study_run *run, struct arena *arena)
{
    const struct study *s = &w->study;
    const char **argv = ARENA_ARRAY(arena, const char *, MAX_ARGS);
    const char *sets[STUDY_MAX_SETS], *name = strrchr(run->path, '/') + 1;
    const int is_new = run->state == STUDY_RUN_NEW;
    size_t n = 0, n_sets = is_new ? study_sets(s, trial, sets, arena) : 0;

    add(argv, &n, "brood");
    add(argv, &n, is_new ? "run" : "resume");
    add(argv, &n, "--quiet");
    if (w->until > 0) {
        add(argv, &n, "--until");
        add(argv, &n, arena_printf(arena, "%" PRIu64, w->until));
    }
    if (is_new) {
        add(argv, &n, "--force"); /* what has no checkpoint begins again */
        add(argv, &n, "--runs-dir");
        add(argv, &n, study_dir_path(w->dir));
        add(argv, &n, "--name");
        add(argv, &n, arena_strdup(arena, name));
        add(argv, &n, "--seed");
        add(argv, &n, arena_printf(arena, "%" PRIu64, s->seeds[seed]));
    }
    if (is_new && s->memory_bytes > 0) {
        add(argv, &n, "--set");
        add(argv, &n,
            arena_printf(arena, "defaults.memory_limit=%" PRId64,
                         s->memory_bytes / (int64_t)w->n_agents));
    }
    for (size_t i = 0; i < n_sets; i++) {
        add(argv, &n, "--set");
        add(argv, &n, sets[i]);
    }
    add(argv, &n, "--");
    add(argv, &n,
        is_new ? arena_printf(arena, "%s/base.yaml", study_dir_path(w->dir))
               : arena_strdup(arena, run->path));
    return (struct job){.run = arena_strdup(arena, name),
                        .argv = (char *const *)(uintptr_t)argv};
}

/* A live run is another command's: it is waited for, and looked at again. */
static struct job make_wait(const struct study_run *run, struct arena *arena)
{
    const char **argv = ARENA_ARRAY(arena, const char *, 8);
    size_t n = 0;

    add(argv, &n, "brood");
    add(argv, &n, "wait");
    add(argv, &n, "--quiet");
    add(argv, &n, arena_strdup(arena, run->path));
    return (struct job){.run = strrchr(argv[n - 1], '/') + 1,
                        .argv = (char *const *)(uintptr_t)argv};
}

/* ---- a rung ---- */

/* Collects what is left to do. */
static void make_batch(struct sweep *w, struct batch *b)
{
    const size_t seeds = w->study.n_seeds;

    b->job = xcalloc(w->n * seeds + 1, sizeof(*b->job));
    b->of = xcalloc(w->n * seeds + 1, sizeof(*b->of));
    b->waits = xcalloc(w->n * seeds + 1, 1);
    for (size_t i = 0; i < w->n * seeds; i++) {
        const size_t trial = w->trial[i / seeds], seed = i % seeds;
        struct study_run run;

        study_run_look(&run, &w->study, study_dir_path(w->dir), trial,
                       w->study.seeds[seed], w->until);
        if (run.state != STUDY_RUN_REACHED && run.state != STUDY_RUN_FAILED &&
            !w->refused[trial * seeds + seed]) {
            b->of[b->n] = trial * seeds + seed;
            b->waits[b->n] = run.state == STUDY_RUN_LIVE;
            b->job[b->n++] = run.state == STUDY_RUN_LIVE
                                 ? make_wait(&run, &b->arena)
                                 : make_job(w, trial, seed, &run, &b->arena);
        }
        free(run.path);
    }
}

static void batch_done(struct batch *b)
{
    free(b->job);
    free(b->of);
    free(b->waits);
    arena_done(&b->arena);
}

/* The mean over the seeds at the rung; NaN: it is not complete. */
static double trial_value(const struct sweep *w, size_t trial)
{
    double sum = 0;

    for (size_t k = 0; k < w->study.n_seeds; k++) {
        struct study_run run;

        study_run_look(&run, &w->study, study_dir_path(w->dir), trial, w->study.seeds[k],
                       w->until);
        sum += run.value;
        free(run.path);
    }
    return sum / (double)w->study.n_seeds;
}

static void note_value(struct sweep *w, size_t trial, double v)
{
    if (!halving_is_better(v, w->best, w->study.is_max))
        return;
    w->best = v;
    w->best_trial = trial;
}

static void print_event(const struct sweep *w, size_t trial, size_t seed, double value,
                        int code)
{
    struct json j = {0};
    size_t len;

    json_begin(&j);
    json_object(&j);
    json_key(&j, "event");
    json_str(&j, "trial");
    json_key(&j, "trial");
    json_u64(&j, trial + 1);
    json_key(&j, "seed");
    json_u64(&j, w->study.seeds[seed]);
    json_key(&j, "rung");
    json_u64(&j, w->rung);
    json_key(&j, "value");
    json_f64(&j, value);
    json_key(&j, "exit_code");
    json_i64(&j, code);
    json_close(&j);
    (void)fputs(json_line(&j, &len), stdout);
    (void)fflush(stdout);
    json_done(&j);
}

static void print_progress(const struct sweep *w, size_t trial, size_t seed, double value,
                           int code)
{
    (void)fprintf(stderr, "%s: %zu of %zu: %zu-s%" PRIu64, w->name, w->n_ended, w->n_all,
                  trial + 1, w->study.seeds[seed]);
    if (!isnan(value))
        (void)fprintf(stderr, " %.4g", value);
    else
        (void)fprintf(stderr, " has no value (exit code %d)", code);
    if (w->until > 0)
        (void)fprintf(stderr, " at step %" PRIu64, w->until);
    if (!isnan(w->best))
        (void)fprintf(stderr, "; best so far %zu with %.4g", w->best_trial + 1, w->best);
    (void)fputc('\n', stderr);
}

static void on_end(void *ctx, size_t job, int code)
{
    struct sweep *w = ctx;
    const size_t of = w->batch->of[job], seeds = w->study.n_seeds;
    const size_t trial = of / seeds, seed = of % seeds;
    struct study_run run;
    double v;

    study_run_look(&run, &w->study, study_dir_path(w->dir), trial, w->study.seeds[seed],
                   w->until);
    v = run.value;
    free(run.path);
    /* What was killed or waited for is looked at again, and what is live, because another
     * command's run was just ending; what somebody stopped is left alone until the next
     * sweep. */
    w->refused[of] = run.state != STUDY_RUN_REACHED && run.state != STUDY_RUN_LIVE &&
                     !w->batch->waits[job] && code != CLI_DONE &&
                     code < RUN_EXIT_SIGNALLED;
    if (run.state != STUDY_RUN_REACHED && !w->refused[of])
        return;
    w->n_ended++;
    note_value(w, trial, trial_value(w, trial));
    if (w->cli->json)
        print_event(w, trial, seed, v, code);
    if (!w->cli->quiet)
        print_progress(w, trial, seed, v, code);
}

/* Returns 0 when all runs of the rung have come as far as they can, CLI_STOPPED after a
 * signal. */
static int run_rung(struct sweep *w)
{
    int stopped = 0;

    w->best = (double)NAN;
    w->n_all = w->n * w->study.n_seeds;
    for (size_t i = 0; i < w->n; i++) /* of an earlier sweep */
        note_value(w, w->trial[i], trial_value(w, w->trial[i]));
    for (;;) {
        struct batch b = {0};

        make_batch(w, &b);
        w->batch = &b;
        w->n_ended = w->n_all - b.n;
        if (b.n > 0)
            (void)jobs_run(w->cli,
                           &(struct jobs_args){.jobs = b.job,
                                               .n = b.n,
                                               .at_once = (size_t)w->at_once,
                                               .cores = w->study.cores,
                                               .goes_on = 1,
                                               .on_end = on_end,
                                               .ctx = w},
                           &stopped);
        batch_done(&b);
        w->batch = NULL;
        if (stopped)
            return CLI_STOPPED;
        if (b.n == 0)
            return 0;
    }
}

/* Keeps the trials that take part in the next rung. */
static void go_up(struct sweep *w)
{
    double *value = xcalloc(w->n + 1, sizeof(*value));
    size_t *kept = xcalloc(w->n + 1, sizeof(*kept)), n;

    for (size_t i = 0; i < w->n; i++)
        value[i] = trial_value(w, w->trial[i]);
    n = halving_keep(w->trial, value, w->n, w->study.keep, w->study.is_max, kept);
    if (!w->cli->quiet)
        (void)fprintf(stderr, "%s: %zu of %zu trials continue from step %" PRIu64 "\n",
                      w->name, n, w->n, w->until);
    free(value);
    free(w->trial);
    w->trial = kept;
    w->n = n;
}

static int run_rungs(struct sweep *w)
{
    const struct study *s = &w->study;
    const size_t rungs = s->method == STUDY_ASHA ? s->n_rungs : 1;
    int code = 0;

    w->refused = xcalloc(s->trials * s->n_seeds, 1);
    w->trial = xcalloc(s->trials + 1, sizeof(*w->trial));
    for (w->n = 0; w->n < s->trials; w->n++)
        w->trial[w->n] = w->n;
    for (w->rung = 0; w->rung < rungs && code == 0 && w->n > 0; w->rung++) {
        w->until = s->method == STUDY_ASHA ? s->rungs[w->rung] : 0;
        code = run_rung(w);
        if (code == 0 && w->rung + 1 < rungs)
            go_up(w);
    }
    free(w->refused);
    free(w->trial);
    return code;
}

/* ---- the command ---- */

/* Reads the configuration of every trial, so that none is refused later. */
static int check_trials(struct sweep *w, struct err *err)
{
    int rc = 0;

    for (size_t i = 0; rc == 0 && i < w->study.trials; i++) {
        struct arena arena = ARENA_ZERO;
        const char *sets[STUDY_MAX_SETS];
        const struct config_options options = {.set = sets,
                                               .n_set =
                                                   study_sets(&w->study, i, sets, &arena),
                                               .env_names = env_agent_names,
                                               .extends = 1};
        struct run_config c;

        rc = run_config_read(&c, w->study.base, &options, err);
        if (rc == 0) {
            w->n_agents = c.n_agents;
            run_config_done(&c);
        }
        arena_done(&arena);
        if (rc < 0)
            (void)err_wrap(err, "trial %zu", i + 1);
    }
    return rc;
}

static void print_end(struct sweep *w, int code)
{
    struct study_report r;
    struct json j = {0};
    size_t len;

    study_report_make(&r, &w->study, study_dir_path(w->dir));
    if (w->cli->json) {
        json_begin(&j);
        json_object(&j);
        json_key(&j, "event");
        json_str(&j, code == 0 ? "done" : "stopped");
        json_key(&j, "study");
        json_str(&j, w->name);
        json_key(&j, "trials");
        json_u64(&j, w->study.trials);
        study_report_put_best(&r, &j);
        json_close(&j);
        (void)fputs(json_line(&j, &len), stdout);
        json_done(&j);
    } else {
        study_report_print(&r, SHOWN_ROWS, stdout);
    }
    study_report_done(&r);
    if (code == CLI_STOPPED && !w->cli->quiet)
        (void)fprintf(stderr, "%s: stopped; the same command continues it\n", w->name);
}

static int sweep(struct sweep *w)
{
    struct err err = {0};
    int code = check_trials(w, &err);

    if (code < 0 ||
        study_dir_open(&w->dir, w->cli->runs_dir, w->name, &w->study, &err) < 0)
        return cli_fail(w->cli, CLI_USAGE, &err);
    if (!w->cli->quiet)
        (void)fprintf(stderr, "%s: %zu trials with %zu seed%s, in %s\n", w->name,
                      w->study.trials, w->study.n_seeds, w->study.n_seeds == 1 ? "" : "s",
                      study_dir_path(w->dir));
    code = run_rungs(w);
    print_end(w, code);
    study_dir_close(w->dir);
    return code;
}

/* "studies/lr.yaml": "lr"; free(). */
static char *name_of(const char *file)
{
    const char *slash = strrchr(file, '/'), *base = slash != NULL ? slash + 1 : file;
    const char *dot = strrchr(base, '.');

    return dot != NULL && dot > base ? xstrndup(base, (size_t)(dot - base))
                                     : xstrdup(base);
}

static int run_sweep(struct cli *cli, int argc, char **argv)
{
    static const struct option options[] = {{"jobs", required_argument, NULL, 'j'},
                                            {"name", required_argument, NULL, 'n'},
                                            {0}};
    struct sweep w = {.cli = cli, .at_once = 1};
    const char *given = NULL;
    struct err err = {0};
    char *name;
    int c, code = 0;

    while (code == 0 && (c = cli_option(cli, argc, argv, options, &code)) != -1) {
        if (c == CLI_OPTION_EXIT)
            return code;
        if (c == 'j')
            code = cli_integer(cli, "--jobs", optarg, 1, MAX_JOBS, &w.at_once);
        else
            given = optarg;
    }
    if (code == 0 && optind != argc - 1)
        code = cli_usage(cli, "expected one study, got %d", argc - optind);
    if (code != 0)
        return code;
    if (study_read(&w.study, argv[optind], &err) < 0)
        return cli_fail(cli, CLI_USAGE, &err);
    name = given != NULL ? xstrdup(given) : name_of(argv[optind]);
    w.name = name;
    code = sweep(&w);
    free(name);
    study_done(&w.study);
    return code;
}

const struct command cmd_sweep = {
    .name = "sweep",
    .arguments = "STUDY.yaml [options]",
    .summary = "Search configurations: many runs, compared by one number",
    .help =
        "  --jobs N         N runs at a time (1)\n"
        "  --name NAME      of the study; default: the file's name\n"
        "\nA study's file:\n"
        "  base: simple_spread.yaml        # relative to the file\n"
        "  search:                         # KEY: values; \"KEY, KEY\": the same for "
        "both\n"
        "    defaults.discount: [0.9, 0.95]\n"
        "    defaults.optimizer.learning_rate: {log_uniform: [0.0003, 0.01]}\n"
        "    experience.batch_size: {int: [64, 1024]}      # also {uniform: [0, 1]}\n"
        "  method: {asha: {rungs: [50000, 150000], keep: 0.33}}   # or grid, or random\n"
        "  metric: {column: eval/team_return/agent, mode: max, last: 3}\n"
        "  trials: 24                      # a grid has one for every combination\n"
        "  seeds: [1, 2]                   # a trial's value is the mean over them\n"
        "  limits: {cores: 2, memory: 8G}  # of a trial\n"
        "\nTrials are the runs STUDY/1-s1 and so on, which can be watched and steered as "
        "any\n"
        "other. The same command continues a study after an interrupt, a death, or with "
        "more\n"
        "trials or seeds. With asha, trials stop at the first rung, and the best of them "
        "are\n"
        "resumed up to the next one; the result does not depend on --jobs.\n"
        "\nexample: brood sweep study.yaml --jobs 2\n",
    .run = run_sweep,
};
