/* `brood prune`: removes checkpoints of runs that are over, but the best and the newest. */
#include "common/config/algorithms.h"
#include "common/io/beneath.h"
#include "common/io/patience.h"
#include "common/io/tree.h"
#include "common/mem/size_text.h"
#include "common/mem/xmalloc.h"
#include "common/text/plain_text.h"
#include "common/text/scan.h"
#include "supervisor/cli/live_run.h"
#include "supervisor/facts/files.h"
#include "supervisor/metrics/json.h"
#include "supervisor/metrics/progress.h"
#include "supervisor/rundir/run_dir.h"
#include "supervisor/rundir/run_record.h"
#include "supervisor/save/checkpoint_choose.h"
#include "supervisor/save/checkpoint_read.h"
#include "supervisor/save/resume.h"
#include "supervisor/save/retention.h"
#include "supervisor/study/study_dir.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define EVALUATED "eval/team_return/"

struct options {
    long long keep; /* newest checkpoints */
    int is_dry, with_log;
};

struct checkpoint {
    uint64_t step;
    int is_damaged, is_kept;
};

/* The checkpoint with the best evaluation of a team. */
struct best {
    char *team;
    uint64_t step;
    double value;
};

struct pruning {
    struct checkpoint *checkpoint; /* by step */
    size_t n;
    struct best *best; /* of each team that has one */
    size_t n_best;
    uint64_t freed_bytes;
    int is_log_gone;
};

/* ---- which ---- */

/* Keeps the best checkpoint; of equal ones the oldest, which is nearest to its
 * evaluation. Damaged ones do not count. */
static void keep_best(struct pruning *x, const struct progress *p, size_t column)
{
    struct checkpoint *best = NULL;
    double most = 0;

    for (size_t i = 0; i < x->n; i++) {
        /* at a boundary, the evaluation comes before the checkpoint */
        const double v = progress_value_at(p, column, x->checkpoint[i].step);

        if (x->checkpoint[i].is_damaged || isnan(v) || (best != NULL && v <= most))
            continue;
        best = &x->checkpoint[i];
        most = v;
    }
    if (best == NULL)
        return;
    best->is_kept = 1;
    x->best = xreallocarray(x->best, x->n_best + 1, sizeof(*x->best));
    x->best[x->n_best++] = (struct best){
        xstrdup(progress_name(p, column) + strlen(EVALUATED)), best->step, most};
}

static size_t count_removed(const struct pruning *x)
{
    size_t n = 0;

    for (size_t i = 0; i < x->n; i++)
        n += !x->checkpoint[i].is_kept;
    return n;
}

/* Keeps the checkpoint that RUN@best names. Fails if it could not be read in time, or for lack of
 * rights or memory, so that it may be any of them. */
static int keep_named_best(struct pruning *x, const char *dir, struct err *err)
{
    struct best_value best;
    const int rc = x->n > 0 ? checkpoint_find_best(dir, &best, err) : ERR_NOT_FOUND;

    for (size_t i = 0; rc == 0 && i < x->n; i++)
        x->checkpoint[i].is_kept |= x->checkpoint[i].step == best.step;
    return rc == ERR_NOT_FOUND || rc == ERR_CORRUPT || rc == ERR_FORMAT || rc == -ENOENT
               ? 0
               : rc;
}

/* Keeps the checkpoint from which the run can be resumed: an older one than the newest, if
 * the experience log is damaged. Fails if the log or the configuration, which has the log's
 * capacity, cannot be read, so that this is not known. */
static int keep_resumable(struct pruning *x, const char *run, const char *dir,
                          struct err *err)
{
    char *log = xasprintf("%s/experience", run);
    struct run_config config;
    uint64_t step;
    int rc = 0;

    if (tree_exists(log) && (rc = files_read_config(&config, run, err)) == 0) {
        rc = resume_find_covered(&step, dir, log, run_config_log_window(&config), err);
        for (size_t i = 0; i < x->n && rc == 0; i++)
            x->checkpoint[i].is_kept |= x->checkpoint[i].step == step;
        rc = rc == ERR_NOT_FOUND ? 0 : rc;
        run_config_done(&config);
    }
    free(log);
    return rc;
}

static int choose(struct pruning *x, const char *run, const char *dir,
                  const struct options *o, struct err *err)
{
    char *file = xasprintf("%s/metrics/progress.csv", run);
    struct progress *p = NULL;
    uint64_t *steps = NULL;
    long long left = o->keep;
    int rc = checkpoint_list(dir, &steps, &x->n, err);

    if (rc == -ENOENT) /* somebody removed them all */
        rc = 0;
    if (rc == 0 && (rc = progress_read(&p, file, err)) == ERR_NOT_FOUND)
        rc = 0; /* the run has no evaluations */
    x->checkpoint = xcalloc(x->n + 1, sizeof(*x->checkpoint));
    for (size_t i = 0; rc == 0 && i < x->n; i++)
        x->checkpoint[i] =
            (struct checkpoint){steps[i], checkpoint_is_damaged(dir, steps[i]), 0};
    for (size_t c = 0; rc == 0 && p != NULL && c < progress_n_columns(p) &&
                       (rc = patience_check(err)) == 0;
         c++)
        if (text_after(progress_name(p, c), EVALUATED) != NULL)
            keep_best(x, p, c);
    /* The newest ones, and damaged ones, which do not count: someone may want to look at
     * them. */
    for (size_t i = x->n; rc == 0 && i-- > 0;)
        if (x->checkpoint[i].is_damaged || left-- > 0)
            x->checkpoint[i].is_kept = 1;
    if (rc == 0)
        rc = keep_named_best(x, dir, err);
    if (rc == 0 && !o->with_log && count_removed(x) > 0) /* it reads the log */
        rc = keep_resumable(x, run, dir, err);
    if (rc == 0) /* what could not be read in time might be what must be kept */
        rc = patience_check(err);
    progress_free(p);
    free(steps);
    free(file);
    return rc;
}

/* ---- removing ---- */

/* Also what a kill left of others. */
static int drop_checkpoints(struct pruning *x, const char *dir, int is_dry,
                            struct err *err)
{
    int rc = 0;

    if (x->n == 0 && !tree_exists(dir))
        return 0;
    for (size_t i = 0; rc == 0 && i < x->n; i++) {
        char *folder = checkpoint_path(dir, "", x->checkpoint[i].step);

        if (!x->checkpoint[i].is_kept) {
            x->freed_bytes += tree_disk_bytes(folder);
            if (!is_dry)
                rc = retention_drop(dir, x->checkpoint[i].step, err);
        }
        free(folder);
    }
    if (rc == 0 && !is_dry)
        rc = retention_tidy(dir, err);
    return rc == 0 && !is_dry ? tree_sync(dir, err) : rc;
}

static int drop_log(struct pruning *x, const char *path, int is_dry, struct err *err)
{
    char *log = xasprintf("%s/experience", path);
    const enum keep_log keep = is_dry ? KEEP_LOG_ALWAYS : KEEP_LOG_NEVER;
    uint64_t bytes = 0;
    int rc = retention_drop_log(log, keep, 0, &bytes, err);

    if (rc >= 0) {
        x->is_log_gone = bytes > 0;
        x->freed_bytes += bytes;
    }
    free(log);
    return rc < 0 ? rc : 0;
}

/* The lock keeps a supervisor from resuming the run meanwhile. */
static int prune(struct pruning *x, const char *path, const struct options *o,
                 struct err *err)
{
    char *dir = xasprintf("%s/checkpoints", path);
    struct run_dir *d = NULL;
    int has_end;
    int end, rc;

    patience_enter(path);
    /* Ask first: the lock of run_dir_open makes the run look live (-1). */
    end = run_record_exit_code(path, &has_end);
    rc = run_dir_open(&d, path, 1, err);

    if (rc == 0 && o->with_log && end != RUN_EXIT_DONE)
        rc = err_set(err, ERR_STATE,
                     "%s is not done: a resume would need its experience log", path);
    if (rc == 0)
        rc = choose(x, path, dir, o, err);
    if (rc == 0 && o->with_log)
        rc = drop_log(x, path, o->is_dry, err);
    if (rc == 0)
        rc = drop_checkpoints(x, dir, o->is_dry, err);
    patience_leave();
    run_dir_free(d);
    free(dir);
    return rc;
}

/* ---- printing ---- */

static void put_steps(struct json *j, const char *key, const struct pruning *x,
                      int is_kept)
{
    json_put_array(j, key);
    for (size_t i = 0; i < x->n; i++)
        if (x->checkpoint[i].is_kept == is_kept)
            json_u64(j, x->checkpoint[i].step);
    json_close(j);
}

static void print_json(const char *run, const struct pruning *x, int is_dry)
{
    struct json j = {0};

    json_object(&j);
    json_put_str(&j, "run", run);
    json_put_bool(&j, "dry_run", is_dry);
    put_steps(&j, "removed", x, 0);
    put_steps(&j, "kept", x, 1);
    json_put_array(&j, "best");
    for (size_t i = 0; i < x->n_best; i++) {
        json_object(&j);
        json_put_str(&j, "team", x->best[i].team);
        json_put_u64(&j, "checkpoint", x->best[i].step);
        json_put_f64(&j, "value", x->best[i].value);
        json_close(&j);
    }
    json_close(&j);
    json_put_bool(&j, "log_removed", x->is_log_gone);
    json_put_u64(&j, "freed_bytes", x->freed_bytes);
    json_print(&j, stdout);
}

static void print_text(const char *run, const struct pruning *x, int is_dry)
{
    char freed[SIZE_TEXT_BYTES];
    size_t n_printed = 0;

    (void)printf("%s: %s %s, %zu of %zu checkpoints; keeps", PLAIN_NAME(run),
                 size_text(x->freed_bytes, freed), is_dry ? "to be freed" : "freed",
                 count_removed(x), x->n);
    for (size_t i = 0; i < x->n; i++) {
        if (!x->checkpoint[i].is_kept)
            continue;
        (void)printf("%s %llu", n_printed++ > 0 ? "," : "",
                     (unsigned long long)x->checkpoint[i].step);
        for (size_t k = 0; k < x->n_best; k++)
            if (x->best[k].step == x->checkpoint[i].step)
                (void)printf(" (best of %s, %.4g)", PLAIN_NAME(x->best[k].team),
                             x->best[k].value);
    }
    (void)puts(n_printed > 0 ? "" : " none");
    if (x->is_log_gone)
        (void)printf("%s: its experience log %s, so that it cannot be made longer or "
                     "forked\n",
                     PLAIN_NAME(run), is_dry ? "would be removed" : "is removed");
}

static int prune_one(const struct cli *cli, const char *path, const struct options *o)
{
    char *run = run_dir_name_of(path);
    struct pruning x = {0};
    struct err err = {0};
    int code = CLI_DONE;

    if (prune(&x, path, o, &err) < 0) {
        code = cli_fail(cli, err.code == ERR_STATE ? CLI_USAGE : CLI_FAILED, &err);
    } else if (cli->json) {
        print_json(run, &x, o->is_dry);
    } else if (!cli->quiet) {
        print_text(run, &x, o->is_dry);
    }
    for (size_t i = 0; i < x.n_best; i++)
        free(x.best[i].team);
    free(x.best);
    free(x.checkpoint);
    free(run);
    return code;
}

/* ---- the command ---- */

/* Whether a sweep works on the run's study: it may resume or fork the run. */
static int is_in_use(const char *run)
{
    char *study = xasprintf("%s/..", run);
    const int ret = study_dir_is_locked(study);

    free(study);
    return ret;
}

static int prune_listed(const struct cli *cli, const char *path, const struct options *o)
{
    int code = CLI_DONE, end, has_end;
    struct err err = {0};

    if (beneath_hold(path, &err) < 0) /* or it has gone, or is a link now */
        return err_is_failure(err.code) ? cli_fail(cli, CLI_FAILED, &err) : CLI_DONE;
    patience_enter(path);
    end = run_record_exit_code(path, &has_end);
    patience_leave();
    if (end >= 0 && (!o->with_log || end == RUN_EXIT_DONE) && !is_in_use(path))
        code = prune_one(cli, path, o);
    beneath_release(path);
    return code;
}

/* Prunes all runs but live ones and those of a study on which a sweep works; with --log,
 * only runs that are done. */
static int prune_all(const struct cli *cli, const struct options *o)
{
    size_t n;
    char **paths;
    struct err err = {0};
    int code = CLI_DONE;

    if (run_dir_list(cli->runs_dir, &paths, &n, &err) < 0)
        code = cli_fail(cli, CLI_FAILED, &err);
    for (size_t i = 0; i < n; i++) {
        const int one = prune_listed(cli, paths[i], o);

        code = code == CLI_DONE ? one : code;
    }
    run_dir_list_free(paths, n);
    return code;
}

static int run_prune(struct cli *cli, void *values, int argc, char **argv)
{
    const struct options *o = values;
    int code = CLI_DONE;

    if (argc == 0)
        return prune_all(cli, o);
    for (int i = 0; i < argc; i++) {
        struct err err = {0};
        char *path = NULL;
        int one = run_dir_find_own_name(cli->runs_dir, argv[i], &path, &err) < 0
                      ? cli_fail_run(cli, &err)
                      : prune_one(cli, path, o);

        code = code == CLI_DONE ? one : code;
        free(path);
    }
    return code;
}

static const struct cli_option options[] = {
    {"keep", "N", "keep the N newest (1)", CLI_NUMBER(struct options, keep, 1, 1000000)},
    {"log", NULL,
     "also remove the experience log of a run that is done; it\n"
     "can then not be made longer, nor forked",
     CLI_FLAG(struct options, with_log)},
    {"dry-run", NULL,
     "remove nothing, print what would go (--json, too: removed,\n"
     "log_removed and freed_bytes are those of a real one)",
     CLI_FLAG(struct options, is_dry)},
    {0}};

const struct command cmd_prune = {
    .name = "prune",
    .arguments = "[RUN...] [options]",
    .summary = "Remove checkpoints of runs that are over, but the best and the newest",
    .options = options,
    CLI_INTO(struct options, .keep = 1),
    .help =
        "\nWithout RUN, all runs that are over are pruned; those of a study with\n"
        "--runs-dir runs/STUDY, while no sweep works on it. The best checkpoint is\n"
        "the one whose newest evaluation has the highest return, of each team, and\n"
        "RUN@best (checkpoint.keep_best); a run without evaluations has none. A live\n"
        "run is refused; its checkpoint.max_to_keep decides. Damaged checkpoints\n"
        "stay, and the one from which a run with a damaged log can be resumed.\n"
        "\nexample: brood prune --keep 2 --dry-run\n",
    .takes = CLI_OVER,
    .run = run_prune,
};
