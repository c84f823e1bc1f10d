#include "supervisor/rundir/run_record.h"

#include "common/config/run_config.h"
#include "common/log/log.h"
#include "common/mem/xmalloc.h"
#include "supervisor/metrics/progress.h"
#include "supervisor/rundir/journal.h"
#include "supervisor/rundir/journal_read.h"
#include "supervisor/rundir/run_dir.h"
#include "supervisor/save/checkpoint_read.h"

#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

/* ---- the other files ---- */

static char *file_of(const char *path, const char *sub)
{
    return xasprintf("%s/%s", path, sub);
}

/* Does not ask the environment for its agents' names, which would execute env.command of
 * a run that the caller only looks at: a saved configuration has them. */
static void read_config(struct run_record *r, const char *path)
{
    const struct config_options options = {0};
    char *file = file_of(path, "config.yaml");
    struct run_config config;

    if (run_config_read(&config, file, &options, NULL) == 0) {
        r->status.total_steps = (uint64_t)config.run.env_steps;
        r->status.total_episodes = (uint64_t)config.run.episodes;
        r->status.learners = config.n_agents;
        run_config_done(&config);
    }
    free(file);
}

/* progress.csv is newer than the journal, because rows are written more often. */
static void read_progress(struct run_record *r, const char *path)
{
    char *file = file_of(path, "metrics/progress.csv");
    struct run_status *s = &r->status;
    struct progress *p;

    if (progress_read_end(&p, file, NULL) == 0) {
        const size_t n = progress_n_rows(p), c = progress_find(p, "episodes");

        if (isnan(s->team_return_mean))
            s->team_return_mean = progress_team_return(p);
        for (size_t i = 0; i < progress_n_columns(p); i++)
            if (run_model_is_return(progress_name(p, i))) /* few of many are */
                run_model_note_return(&r->model, progress_name(p, i),
                                      progress_newest(p, i));
        s->returns = r->model.status.returns;
        s->n_returns = r->model.status.n_returns;
        if (n > 0 && progress_steps(p, n - 1) > (double)s->env_steps)
            s->env_steps = (uint64_t)progress_steps(p, n - 1);
        if (s->episodes == RUN_UNKNOWN && n > 0 && c < progress_n_columns(p) &&
            progress_value(p, n - 1, c) >= 0)
            s->episodes = (uint64_t)progress_value(p, n - 1, c);
        progress_free(p);
    }
    free(file);
}

static void read_checkpoints(struct run_record *r, const char *path)
{
    char *folder = file_of(path, "checkpoints");
    uint64_t *steps = NULL;
    size_t n = 0;

    if (checkpoint_list(folder, &steps, &n, NULL) == 0 && n > 0)
        r->status.checkpoint_step = (int64_t)steps[n - 1];
    free(steps);
    free(folder);
}

/* ---- the whole record ---- */

/* Sets what the journal records. */
static void take_journal(struct run_record *r, const char *path)
{
    char *journal = file_of(path, "journal");
    int rc;

    *r = (struct run_record){0};
    run_model_init(&r->model);
    rc = journal_fold(journal, &r->model, NULL);
    r->is_unreadable = rc < 0 && rc != ERR_NOT_FOUND;
    r->status = r->model.status;
    free(journal);
}

/* Sets the state. The lock takes precedence over the journal. */
static void set_state(struct run_record *r, const char *path, pid_t holder)
{
    struct run_status *s = &r->status;

    r->is_live = holder != 0;
    r->has_end = s->exit_code >= 0;
    r->is_denied = holder == 0 && !r->has_end && run_dir_denied(path, NULL) < 0;
    if (r->is_denied) {
        s->state = "no permission";
    } else if (holder == 0 && r->is_unreadable) {
        s->state = "unreadable";
        s->exit_code = RUN_EXIT_FAILED;
    } else if (holder == 0 && s->exit_code < 0) {
        s->state = "killed";
        s->exit_code = RUN_EXIT_SIGNALLED + SIGKILL;
    } else if (holder != 0 && holder != s->pid) {
        s->state = "starting";
        s->exit_code = -1;
        s->pid = holder;
        s->keeper_pid = 0;
    }
}

static void read_journal(struct run_record *r, const char *path)
{
    pid_t holder = run_dir_holder(
        path); /* a supervisor writes its end before it releases the lock */

    take_journal(r, path);
    if (holder == 0 && r->status.exit_code < 0)
        holder = run_dir_holder(path); /* another supervisor has begun */
    set_state(r, path, holder);
}

int run_record_exit_code(const char *path, int *ret_has_end)
{
    struct run_record r;
    int code;

    read_journal(&r, path);
    code = r.is_live ? -1 : r.status.exit_code;
    *ret_has_end = r.has_end;
    run_record_done(&r);
    return code;
}

void run_record_read(struct run_record *ret, const char *path)
{
    struct run_status *s = &ret->status;

    read_journal(ret, path);
    read_config(ret, path);
    read_progress(ret, path);
    read_checkpoints(ret, path);
    if (s->elapsed_s < 0)
        s->elapsed_s = run_model_open_seconds(&ret->model);
    s->total_s = ret->model.seconds + run_model_open_seconds(&ret->model);
    if (!ret->is_live) {
        run_model_end_processes(&ret->model);
        s->pid = s->keeper_pid = 0;
    }
    s->stalled_since = NULL; /* run_record_note_silence */
    s->run = ret->name = run_dir_name_of(path);
}

void run_record_note_silence(struct run_record *r)
{
    struct run_status *s = &r->status;

    s->state = stall_is_suspended(s->pid) ? "suspended" : "not answering";
    s->stalled_since = r->model.status.stalled_since;
    s->stalled_why = stall_text(s->pid, r->stalled_why);
}

static int append_end(const struct run_record *r, const char *path,
                      const struct rollout_progress *at, const char *why, struct err *err)
{
    struct run_event done = {
        .kind = RUN_EVENT_DONE, .env_steps = at->env_steps, .why = why};
    struct run_event e = {.kind = RUN_EVENT_END,
                          .env_steps = at->env_steps,
                          .end = {.state = "done",
                                  .code = RUN_EXIT_DONE,
                                  .pid = r->status.pid,
                                  .episodes = at->episodes,
                                  .rounds = at->round,
                                  .updates = at->updates,
                                  .restarts = MEMBER_NO_U64,
                                  .seconds = r->status.elapsed_s >= 0
                                                 ? r->status.elapsed_s
                                                 : run_model_open_seconds(&r->model),
                                  .team_return = r->status.team_return_mean}};
    char *file = file_of(path, "journal");
    struct journal *j = journal_new(file);
    int rc = journal_begin(j, err);

    (void)log_time(done.time);
    (void)log_time(e.time);
    if (rc == 0 && why != NULL && r->status.done_why == NULL)
        rc = journal_write(j, &done, err);
    if (rc == 0)
        rc = journal_write(j, &e, err);
    journal_close(j);
    free(file);
    return rc;
}

int run_record_mark_done(const char *path, const struct rollout_progress *at,
                         const char *why, struct err *err)
{
    struct run_record r;
    int rc = 0;

    take_journal(&r, path);
    if (strcmp(r.status.state, "done") != 0)
        rc = append_end(&r, path, at, why, err);
    run_record_done(&r);
    return rc;
}

void run_record_done(struct run_record *r)
{
    run_model_done(&r->model);
    free(r->name);
    *r = (struct run_record){0};
}
