#include "supervisor/run/replay.h"

#include "common/config/algorithms.h"
#include "common/io/beneath.h"
#include "common/mem/xmalloc.h"
#include "common/text/scan.h"
#include "supervisor/begin/resume_config.h"
#include "supervisor/metrics/progress.h"
#include "supervisor/run/training.h"
#include "supervisor/save/retention.h"
#include "supervisor/store/store.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Rows are compared with the log in batches of at least this many. */
enum { COMPARE_ROWS = 4096 };

/* ---- conditions ---- */

static const char *const relations[] = {
    [REPLAY_ABOVE] = ">",
    [REPLAY_BELOW] = "<",
    [REPLAY_AT_LEAST] = ">=",
    [REPLAY_AT_MOST] = "<=",
};
enum { N_RELATIONS = sizeof(relations) / sizeof(relations[0]) };

int replay_condition_parse(struct replay_condition *ret, const char *text,
                           struct err *err)
{
    char relation[8] = "", number[64] = "", *end;
    int used = 0;

    *ret = (struct replay_condition){.relation = REPLAY_NONFINITE};
    if (sscanf(text, " %127s is nonfinite %n", ret->column, &used) == 1 && used > 0 &&
        text[used] == '\0')
        return 0;
    used = 0;
    if (sscanf(text, " %127[^<>= ] %7[<>=] %63s %n", ret->column, relation, number,
               &used) == 3 &&
        text[used] == '\0') {
        ret->number = strtod(number, &end);
        for (int i = 0; i < N_RELATIONS && *end == '\0' && !isnan(ret->number); i++)
            if (strcmp(relation, relations[i]) == 0) {
                ret->relation = (enum replay_relation)i;
                return 0;
            }
    }
    return err_set(err, ERR_ARG,
                   "'%s': expected 'COLUMN > NUMBER' (or <, >=, <=) or 'COLUMN is "
                   "nonfinite'",
                   text);
}

int replay_condition_holds(const struct replay_condition *c, double value)
{
    switch (c->relation) {
    case REPLAY_ABOVE:
        return value > c->number;
    case REPLAY_BELOW:
        return value < c->number;
    case REPLAY_AT_LEAST:
        return value >= c->number;
    case REPLAY_AT_MOST:
        return value <= c->number;
    case REPLAY_NONFINITE:
        break;
    }
    return !isfinite(value);
}

/* ---- one replay ---- */

struct replay {
    const struct replay_args *args;
    struct replay_result *result;
    int log; /* the run's log, read-only; -1: it is gone */
    struct resume *resume;
    struct run_config config;
    struct change_plan plan;
    struct policies *policies;
    struct training_replay training;
    uint64_t compared_to; /* the first row that was not compared yet */
    uint64_t boundary;    /* the step of the newest round boundary */
    uint64_t end;         /* the step at which the replay stops at the latest */
    uint64_t n_values;    /* of the condition's column, so far */
    int is_search;        /* 1: searches for the first value that meets the condition */
    int is_over;          /* args->is_over has returned 1 */
};

static int on_round(void *ctx, const struct store *store, int is_last, struct err *err)
{
    struct replay *r = ctx;
    const uint64_t head = store_head(store);
    uint64_t n = 0;
    int rc;

    if (is_last && r->args->on_log != NULL)
        r->args->on_log(r->args->ctx, store_layout(store), store_agent_fd(store));
    if (!is_last)
        r->boundary = head;
    if (!is_last && r->args->is_over != NULL)
        r->is_over |= r->args->is_over(r->args->ctx);
    if (r->log < 0 || head < r->compared_to + (is_last ? 1 : COMPARE_ROWS))
        return r->is_over;
    rc = store_compare(store, r->log, r->compared_to, head, &n, err);
    r->compared_to = head;
    r->result->compared += n;
    return rc < 0 ? rc : r->is_over;
}

static int on_value(void *ctx, const struct rollout_progress *at, double value)
{
    struct replay *r = ctx;
    struct replay_result *res = r->result;

    r->n_values++;
    if (res->found || !replay_condition_holds(r->args->until, value))
        return 0;
    res->found = 1;
    res->value = value;
    res->to = at->env_steps;
    res->has_update = strcmp(at->state, "update") == 0;
    res->update = at->updates;
    return 1;
}

static void on_tick(void *ctx, struct training *t)
{
    const struct replay *r = ctx;
    struct run_status status;

    training_status(t, &status);
    if (r->args->on_progress != NULL)
        r->args->on_progress(r->args->ctx, r->result->from, status.env_steps, r->end);
}

static int read_config(struct replay *r, struct err *err)
{
    const struct change_source journal =
        change_source_of(run_dir_file(r->args->dir, "journal"));
    int rc = resume_saved_config_at(r->resume, r->args->env_names,
                                    run_dir_file(r->args->dir, "config.yaml"), &r->config,
                                    err);

    if (rc == 0)
        rc = resume_check_numerics(r->resume, &r->config, r->args->binaries->build_id,
                                   err);
    if (rc == 0)
        rc = change_plan_read(&r->plan, &r->config, &journal,
                              resume_progress(r->resume)->env_steps, SIZE_MAX, NULL, err);
    if (rc < 0)
        return rc;
    /* Neither the configured length nor a rule that ends the run matters: the replay stops at
     * r->end, which may lie behind the end that a rule made, since a resume may go on without. */
    change_plan_drop_lengths(&r->plan);
    change_plan_drop_outputs(&r->plan);
    r->config.run.env_steps = INT64_MAX;
    r->config.run.episodes = 0;
    r->config.run.has_stop_when = r->config.checkpoint.has_keep_best = 0;
    r->config.cluster.launcher = LAUNCHER_NONE; /* all processes run on this machine */
    return policies_load(&r->policies, &r->config, run_dir_path(r->args->dir), err);
}

static int open_store(struct replay *r, struct err *err)
{
    const struct checkpoint_section *s = resume_section(r->resume, SECTION_EXPERIENCE);
    const char *path = run_dir_file(r->args->dir, "experience");
    int rc = r->result->from > 0
                 ? retention_check_log(path, err, "there is nothing to replay")
                 : 0;

    if (rc == 0)
        rc = store_open_copy(&r->training.store, path, run_config_log_window(&r->config),
                             s->data, s->len, err);
    if (rc == 0)
        r->boundary = r->compared_to = store_head(r->training.store);
    return rc;
}

static int play(struct replay *r, const struct probe *probe, struct err *err)
{
    const struct training_observer observer = {.on_tick = on_tick, .ctx = r};
    const struct training_args args = {.config = &r->config,
                                       .plan = &r->plan,
                                       .dir = r->args->dir,
                                       .binaries = r->args->binaries,
                                       .policies = r->policies,
                                       .resume = r->resume,
                                       .observers = &observer,
                                       .n_observers = 1,
                                       .keeper = r->args->keeper,
                                       .replay = &r->training,
                                       .probe = probe,
                                       .until = r->end};
    struct training_result result;
    int rc;

    r->training.trace = r->args->trace;
    r->training.on_round = on_round;
    r->training.ctx = r;
    if (r->is_search) {
        r->training.column = r->args->until->column;
        r->training.on_value = on_value;
    }
    rc = training_run(&args, &result, err);
    if (!r->result->found)
        r->result->to = result.env_steps;
    if (rc == 0 && (result.is_interrupted || (!(r->is_search && r->result->found) &&
                                              !r->is_over && result.env_steps < r->end)))
        rc = err_set(err, ERR_INTERRUPTED, "interrupted at step %" PRIu64,
                     result.env_steps);
    return rc;
}

/* Plays from the opened checkpoint. */
static int replay_from(struct replay *r, const struct probe *probe, struct err *err)
{
    int rc;

    r->result->from = resume_progress(r->resume)->env_steps;
    r->result->compared = 0;
    if ((rc = read_config(r, err)) == 0 && (rc = open_store(r, err)) == 0)
        rc = play(r, probe, err);
    store_free(r->training.store); /* NULL unless the run ended before it took it */
    r->training.store = NULL;
    policies_free(r->policies);
    run_config_done(&r->config);
    change_plan_done(&r->plan);
    r->policies = NULL;
    r->plan = (struct change_plan){0};
    return rc;
}

/* ---- which checkpoint ---- */

static int open_checkpoint(struct replay *r, const char *step, struct err *err)
{
    resume_free(r->resume);
    r->resume = NULL;
    return resume_open(&r->resume, run_dir_file(r->args->dir, "checkpoints"), step,
                       r->args->on_skipped, r->args->ctx, err);
}

/* Opens the newest complete checkpoint before `step`, or the oldest one. */
static int find_checkpoint(struct replay *r, uint64_t step, int oldest, struct err *err)
{
    uint64_t *steps = NULL;
    size_t n = 0;
    int rc = checkpoint_list(run_dir_file(r->args->dir, "checkpoints"), &steps, &n, err);
    int is_open = 0;

    for (size_t k = 0; rc == 0 && !is_open && k < n; k++) {
        const uint64_t at = steps[oldest ? k : n - 1 - k];
        char text[32];
        struct err why = {0};

        if (at >= step)
            continue;
        (void)snprintf(text, sizeof(text), "%" PRIu64, at);
        is_open = open_checkpoint(r, text, &why) == 0;
        if (!is_open && r->args->on_skipped != NULL)
            r->args->on_skipped(r->args->ctx, why.msg);
    }
    free(steps);
    if (rc == 0 && !is_open)
        rc = err_set(err, ERR_NOT_FOUND,
                     "%s has no complete checkpoint before step %" PRIu64,
                     run_dir_name(r->args->dir), step);
    return rc;
}

static int open_start(struct replay *r, uint64_t step, int oldest, struct err *err)
{
    int rc;

    if (r->args->from == NULL)
        return find_checkpoint(r, step, oldest, err);
    rc = open_checkpoint(r, r->args->from, err);
    if (rc == 0 && resume_progress(r->resume)->env_steps >= step)
        rc = err_set(err, ERR_CONFIG, "--from %s is not before step %" PRIu64,
                     r->args->from, step);
    return rc;
}

/* Whether a non-finite value of any agent ends the run: then there was none before the
 * newest checkpoint. */
static int stops_on_nonfinite(struct replay *r)
{
    struct run_config c;
    int all = 1;

    if (resume_saved_config_at(r->resume, r->args->env_names,
                               run_dir_file(r->args->dir, "config.yaml"), &c, NULL) < 0)
        return 0;
    for (size_t i = 0; i < c.n_agents; i++)
        all &= c.agents[i].stop_on_nonfinite;
    run_config_done(&c);
    return all;
}

/* ---- the run's log ---- */

/* Without a log, the run came at least to its newest checkpoint. */
static int open_log(struct replay *r, struct err *err)
{
    const char *path = run_dir_file(r->args->dir, "experience");
    int rc;

    r->log = beneath_open(path, O_RDONLY, 0);
    if (r->log < 0 && errno == ENOENT) {
        uint64_t *steps = NULL;
        size_t n = 0;

        rc = checkpoint_list(run_dir_file(r->args->dir, "checkpoints"), &steps, &n, err);
        r->result->log_end = n > 0 ? steps[n - 1] : 0;
        free(steps);
        return rc;
    }
    if (r->log < 0)
        return err_errno(err, "%s", path);
    if ((rc = store_log_end(r->log, &r->result->log_end, err)) < 0)
        return rc;
    return r->result->log_end > 0
               ? 0
               : err_set(
                     err, ERR_CONFIG,
                     "%s has no rows, so that there is no round to replay (the run has "
                     "just begun, or has no environment)",
                     path);
}

/* Fails if no column has this name. Some columns train/... are not in progress.csv, so
 * that these are checked only at the end of the replay. */
static int check_column(const struct replay *r, int is_end, struct err *err)
{
    const char *column = r->args->until->column;
    struct progress *p = NULL;
    int rc = 0;

    if ((!is_end && text_after(column, "train/") != NULL) ||
        progress_read(&p, run_dir_file(r->args->dir, "metrics/progress.csv"), NULL) < 0)
        return 0;
    if (progress_find(p, column) == progress_n_columns(p)) {
        (void)err_set(err, ERR_ARG, "no column '%s'", column);
        rc = progress_add_nearest(p, column, err);
    }
    progress_free(p);
    return rc;
}

/* ---- to a step, or to a value ---- */

static int replay_to(struct replay *r, uint64_t step, uint64_t update, struct err *err)
{
    struct probe probe = r->args->probe;
    int rc;

    if (step > r->result->log_end)
        return err_set(err, ERR_CONFIG,
                       "%s has come to step %" PRIu64 ": there is no step %" PRIu64
                       " to replay",
                       run_dir_name(r->args->dir), r->result->log_end, step);
    r->end = step;
    probe.step = probe.on_written == NULL ? step : 0; /* no round reaches 0 */
    probe.update = update;
    rc = open_start(r, step, 0, err);
    if (rc == 0)
        rc = replay_from(r, &probe, err);
    /* A later update at the same boundary is not probed, and ends the run again: the
     * replay has shown its update by then. */
    if (rc == ERR_NONFINITE && update != PROBE_ALL_UPDATES)
        rc = 0;
    return rc == 0 && r->training.trace_error.code != 0
               ? err_pass(err, &r->training.trace_error)
               : rc;
}

/* Sets the error that no value met the condition. why: the error that ended the run; code
 * 0: none. */
static int report_never(const struct replay *r, const struct err *why, struct err *err)
{
    const struct replay_condition *c = r->args->until;
    const struct replay_result *res = r->result;

    if (r->n_values == 0 && check_column(r, 1, err) < 0)
        return ERR_ARG;
    (void)err_set(err, why->code != 0 ? why->code : ERR_STATE,
                  "it holds for none of %" PRIu64 " values of %s between steps %" PRIu64
                  " and %" PRIu64,
                  r->n_values, c->column, res->from, res->to);
    if (why->code != 0)
        (void)err_add(err, "the run ended there: %s", why->msg);
    if (why->code != 0 && res->to > r->boundary) /* in a round whose steps are counted */
        (void)err_add(err, "; --to %" PRIu64 " shows that round", res->to);
    return err->code;
}

static int search(struct replay *r, struct err *err)
{
    struct probe none = r->args->probe;
    struct err why = {0};
    int rc;

    none.step = 0; /* no round reaches it */
    none.n = 0;
    none.origins = 0;
    r->end = r->result->log_end;
    r->is_search = 1;
    rc = open_start(r, r->end, 0, err);
    if (rc == 0 && r->args->from == NULL &&
        !(r->args->until->relation == REPLAY_NONFINITE && stops_on_nonfinite(r)))
        rc = open_start(r, r->end, 1, err);
    if (rc < 0)
        return rc;
    rc = replay_from(r, &none, &why);
    r->is_search = 0;
    r->training.column = NULL;
    if (r->result->found && why.code != ERR_CORRUPT && why.code != ERR_INTERRUPTED)
        return 0;
    return rc == 0 || rc == ERR_NONFINITE ? report_never(r, &why, err)
                                          : err_pass(err, &why);
}

static int replay_until(struct replay *r, struct err *err)
{
    int rc = check_column(r, 0, err);

    if (rc == 0)
        rc = search(r, err);
    if (rc < 0)
        return rc;
    return replay_to(r, r->result->to,
                     r->result->has_update ? r->result->update : PROBE_ALL_UPDATES, err);
}

int replay_run(const struct replay_args *args, struct replay_result *ret, struct err *err)
{
    struct replay r = {.args = args, .result = ret, .log = -1};
    int rc;

    *ret = (struct replay_result){0};
    rc = open_log(&r, err);
    if (rc == 0)
        rc = args->until != NULL ? replay_until(&r, err)
                                 : replay_to(&r, args->to, PROBE_ALL_UPDATES, err);
    resume_free(r.resume);
    if (r.log >= 0)
        (void)close(r.log);
    return rc;
}
