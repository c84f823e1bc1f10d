#include "supervisor/begin/fork.h"

#include "common/config/algorithms.h"
#include "common/config/run_schema.h"
#include "common/io/copy_file.h"
#include "common/io/tree.h"
#include "common/log/log.h"
#include "common/mem/xmalloc.h"
#include "supervisor/begin/fork_changes.h"
#include "supervisor/begin/renders.h"
#include "supervisor/begin/resume_config.h"
#include "supervisor/begin/trial.h"
#include "supervisor/rundir/journal.h"
#include "supervisor/rundir/journal_read.h"
#include "supervisor/rundir/run_remove.h"
#include "supervisor/save/checkpoint_choose.h"
#include "supervisor/save/checkpoint_read.h"
#include "supervisor/save/retention.h"
#include "supervisor/store/store.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* How often a fork of the newest checkpoint begins again because that was removed. */
enum { MAX_TRIES = 20 };

struct fork {
    const struct fork_args *args;
    struct arena arena;      /* of paths and texts */
    const char *checkpoints; /* of the other run */
    struct resume *resume;
    int *is_tried; /* by an earlier begin of this fork */
    int is_found;
    uint64_t step;            /* of the checkpoint; until it is open, of the newest one */
    struct resume_config was; /* what a resume from the checkpoint would begin with */
    struct fork_changes changes;
    struct store *log; /* the other run's log, as of the checkpoint */
    struct run_dir *dir;
    struct journal *journal;
};

static const char *path_in(struct fork *f, const char *sub)
{
    return arena_printf(&f->arena, "%s/%s", f->args->from, sub);
}

/* Whether the other run, which is live, has removed the checkpoint meanwhile. While it exists,
 * all that was copied before is whole. */
static int is_dropped(const struct fork *f)
{
    return f->is_found && !checkpoint_is_there(f->checkpoints, f->step);
}

/* ---- its changes ---- */

/* Tries the configuration as `run` does. Without --set it is the one that the other run has. */
static int take_changes(struct fork *f, struct err *err)
{
    struct trial trial = {.runs_dir = f->args->runs_dir};
    struct err why = {0};
    size_t agent = 0;
    int rc = fork_changes_make(&f->changes, &f->was, f->step, f->args->set,
                               f->args->n_set, f->args->from, err);

    if (rc == 0)
        rc = trial_plan(&f->was.config, &f->changes.plan, err);
    if (rc < 0 || f->args->n_set == 0 || *f->is_tried)
        return rc;
    rc = trial_agents(&trial, &f->changes.wanted, &agent, &why);
    *f->is_tried = rc == 0;
    if (rc == 0)
        return 0;
    if (why.code != ERR_CONFIG || agent == f->changes.wanted.n_agents)
        return err_pass(err, &why);
    return err_set(err, ERR_CONFIG, "agents.%s%s%s: %s",
                   f->changes.wanted.agents[agent].name, *why.key != '\0' ? "." : "",
                   why.key, err_cause(&why));
}

/* Reads config.yaml. *ret_differs: whether it differs from what *now had. */
static int read_now(struct fork *f, struct run_config *now, int *ret_differs,
                    struct err *err)
{
    const struct config_options options = {.env_names = f->args->env_names};
    struct run_config was = *now;
    int rc = run_config_read(now, path_in(f, "config.yaml"), &options, err);

    *ret_differs = was.agents == NULL;
    if (rc == 0 && was.agents != NULL) {
        struct config_diff d;

        run_config_diff(&d, &was, now, 0);
        *ret_differs = d.n > 0;
        config_diff_done(&d);
    }
    run_config_done(&was);
    return rc;
}

/* Reads the configuration at the checkpoint and the other run's changes from there on, as a
 * resume does. The other run may be live, and accept a change meanwhile: config.yaml is read
 * until it is the same before and after the journal. */
static int read_config(struct fork *f, struct err *err)
{
    struct run_config saved = {0}, now = {0};
    struct resume_from from = {.saved = &saved,
                               .step = f->step,
                               .wanted = &now,
                               .journal = change_source_of(path_in(f, "journal"))};
    int rc = resume_saved_config_at(f->resume, f->args->env_names,
                                    path_in(f, "config.yaml"), &saved, err);
    int is_new = 1;

    for (int i = 0; rc == 0 && is_new && i < MAX_TRIES; i++) {
        resume_config_done(&f->was);
        f->was = (struct resume_config){0};
        rc = read_now(f, &now, &is_new, err);
        if (rc == 0)
            rc = resume_config_make(&f->was, &from, err);
        if (rc == 0)
            rc = read_now(f, &now, &is_new, err);
    }
    run_config_done(&now);
    run_config_done(&saved);
    return rc;
}

static void on_skipped(void *ctx, const char *line)
{
    const struct fork *f = ctx;

    if (!is_dropped(f))
        f->args->on_skipped(f->args->ctx, line);
}

static int open_checkpoint(struct fork *f, struct err *err)
{
    uint64_t *steps = NULL;
    size_t n = 0;
    int rc = f->args->step != NULL
                 ? checkpoint_choose(f->checkpoints, f->args->step, &f->step, err)
                 : checkpoint_list(f->checkpoints, &steps, &n, err);

    if (n > 0)
        f->step = steps[n - 1];
    f->is_found = rc == 0 && (n > 0 || f->args->step != NULL);
    free(steps);
    if (rc == 0)
        rc = resume_open(&f->resume, f->checkpoints, f->args->step, on_skipped, f, err);
    if (rc == 0)
        f->step = resume_progress(f->resume)->env_steps;
    return rc;
}

/* Reads and checks everything; writes nothing. */
static int prepare(struct fork *f, struct err *err)
{
    const char *experience = path_in(f, "experience");
    const struct rollout_progress *at;
    const struct checkpoint_section *s;
    struct run_length length;
    char *why;
    int rc = open_checkpoint(f, err);

    if (rc == 0)
        rc = read_config(f, err);
    if (rc == 0)
        rc = resume_check_numerics(f->resume, &f->was.config, f->args->binaries->build_id,
                                   err);
    if (rc == 0)
        rc = take_changes(f, err);
    if (rc < 0)
        return rc;
    at = resume_progress(f->resume);
    length = change_plan_length(&f->changes.plan, &f->was.config, f->step);
    if (run_length_is_reached(length, at->env_steps, at->episodes))
        return err_set(err, ERR_CONFIG,
                       "%s@%" PRIu64 " is the end of that run: --set run.env_steps or "
                       "run.episodes to more",
                       f->args->from, f->step);
    why = resume_ended_why(f->resume, &f->changes.wanted);
    if (why != NULL)
        rc = err_set(err, ERR_CONFIG,
                     "%s@%" PRIu64 " is the end of that run: %s; --set "
                     "run.stop_when=none continues from there",
                     f->args->from, f->step, why);
    free(why);
    if (rc < 0)
        return rc;
    rc = retention_check_log(
        experience, err,
        "there is nothing to continue; `brood run CONFIG --init-from %s` begins anew "
        "with its weights",
        f->args->from);
    if (rc < 0)
        return rc;
    s = resume_section(f->resume, SECTION_EXPERIENCE);
    return store_open_read(&f->log, experience, run_config_log_window(&f->was.config),
                           s->data, s->len, err);
}

/* ---- its files ---- */

/* Copies a file or folder, if the other run has it. */
static int copy_if_there(struct fork *f, const char *sub, struct err *err)
{
    const char *from = path_in(f, sub), *to = run_dir_file(f->dir, sub);
    int rc = tree_look(from, err);

    if (rc != 1)
        return rc;
    rc = tree_remove(to, err); /* the new run has this folder already, empty */
    return rc < 0 ? rc : copy_tree(from, to, err);
}

static int copy_files(struct fork *f, struct err *err)
{
    char *from = checkpoint_path(f->checkpoints, "", f->step);
    char *to = checkpoint_path(run_dir_file(f->dir, "checkpoints"), "", f->step);
    int rc = copy_tree(from, to, err);

    free(from);
    free(to);

    if (rc == 0)
        rc = copy_if_there(f, "policies", err);
    if (rc == 0)
        rc = copy_if_there(f, "metrics", err);
    if (rc == 0)
        rc = renders_copy(path_in(f, "renders"), run_dir_file(f->dir, "renders"), f->step,
                          err);
    return rc < 0
               ? rc
               : store_copy(f->log, store_needed_first_at(f->log, store_head(f->log)),
                            store_head(f->log), run_dir_file(f->dir, "experience"), err);
}

/* ---- its journal ---- */

static int write_event(struct fork *f, struct run_event *e, struct err *err)
{
    (void)log_time(e->time);
    e->env_steps = f->step;
    return journal_write(f->journal, e, err);
}

struct repeating {
    struct fork *fork;
    struct err *err;
};

/* Repeats the event if an agent was given up, or was to learn again. */
static int repeat_mode(void *ctx, uint64_t number, const struct run_event *e)
{
    const struct repeating *r = ctx;

    /* It is skipped only at the same point of the same episode, wherever that comes. */
    if (e->kind == RUN_EVENT_SKIP)
        return journal_write(r->fork->journal, e, r->err);
    if (e->kind != RUN_EVENT_GIVE_UP && e->kind != RUN_EVENT_REINSTATE)
        return 0;
    /* With changes of its own the fork develops differently: later give-ups of the other
     * run do not belong to it. */
    if (e->env_steps > r->fork->step && r->fork->args->n_set > 0)
        return 0;
    return journal_write(r->fork->journal, e, r->err);
}

static int is_planned(const struct change_plan *p, const struct planned_change *c)
{
    for (size_t i = 0; i < p->n; i++)
        if (p->list[i].at == c->at && strcmp(p->list[i].set.path, c->set.path) == 0)
            return 1;
    return 0;
}

/* Cancels the rest of each schedule whose rest the plan does not have: it was cancelled in the
 * other run, or ended by a change that was cancelled later. p: what a reader makes of the
 * requests. */
static int write_cancels(struct fork *f, const struct change_plan *p, struct err *err)
{
    uint64_t *cut = xcalloc(p->n_requests + 1, sizeof(*cut)); /* 1: it is cancelled */
    int rc = 0;

    for (size_t i = 0; rc == 0 && i < p->n; i++) {
        const struct planned_change *c = &p->list[i];
        struct run_event e = {.kind = RUN_EVENT_CANCEL, .change = {.at = MEMBER_NO_U64}};

        if (cut[c->number] || is_planned(&f->changes.plan, c))
            continue;
        cut[c->number] = 1;
        e.change.changes = arena_printf(&f->arena, "%s@%" PRIu64, c->set.path, c->at);
        rc = write_event(f, &e, err);
    }
    free(cut);
    return rc;
}

static int write_plan(struct fork *f, struct err *err)
{
    struct change_plan written = {0};
    const struct planned_change **requests;
    size_t n;
    int rc = 0;

    requests = change_plan_requests(&f->changes.plan, &n);
    for (size_t i = 0; i < n && rc == 0; i++) {
        const struct planned_change *c = requests[i];
        char *value = config_setting_text(&c->set);
        struct run_event e = {
            .kind = RUN_EVENT_SET,
            .change = {.at = c->at,
                       .changes = arena_printf(&f->arena, "%s=%s", c->set.path, value)}};

        free(value);
        change_plan_add(&written, c->at, &c->set);
        rc = write_event(f, &e, err);
    }
    if (rc == 0)
        rc = write_cancels(f, &written, err);
    free(requests);
    change_plan_done(&written);
    return rc;
}

static int write_journal(struct fork *f, struct err *err)
{
    struct run_event e = {
        .kind = RUN_EVENT_FORK,
        .name = arena_printf(&f->arena, "%s@%" PRIu64, f->args->from, f->step)};
    struct repeating r = {f, err};
    int rc;

    f->journal = journal_new(run_dir_file(f->dir, "journal"));
    rc = journal_begin(f->journal, err);
    if (rc == 0)
        rc = write_event(f, &e, err);
    if (rc == 0)
        rc = journal_each_event(path_in(f, "journal"), repeat_mode, &r, err);
    return rc < 0 ? rc : write_plan(f, err);
}

/* ---- */

static void tell(struct fork *f)
{
    const struct fork_args *a = f->args;

    if (a->on_making != NULL)
        a->on_making(a->ctx, run_dir_final_path(f->dir), run_dir_inode(f->dir),
                     f->changes.wanted.run.resume_on_supervisor_death);
}

static int fill_dir(struct fork *f, struct err *err)
{
    const struct fork_args *a = f->args;
    int rc = copy_files(f, err);

    if (rc == 0 && is_dropped(f))
        rc = -ESTALE;
    if (rc == 0)
        rc = write_journal(f, err);
    if (rc == 0)
        rc = run_dir_write_config(f->dir, &f->changes.wanted, err);
    return rc < 0
               ? rc
               : run_dir_write_provenance(f->dir, a->argc, a->argv, a->binaries->build_id,
                                          f->changes.wanted.run.numerics, err);
}

static int make_dir(struct fork *f, struct err *err)
{
    const struct fork_args *a = f->args;
    struct err why = {0};
    int rc = run_dir_refuse_within(a->runs_dir, a->name, a->from, err);

    if (rc < 0)
        return rc;
    if (run_remove_leftovers(a->runs_dir, &why) < 0)
        log_warn("%s", why.msg);
    rc = run_dir_make(&f->dir, a->runs_dir, a->name, f->changes.wanted.run.name, a->force,
                      (mode_t)f->changes.wanted.run.mode, err);
    if (rc < 0)
        return rc;
    tell(f);
    rc = fill_dir(f, err);
    if (rc == 0)
        rc = run_dir_appear(f->dir, err);
    while (rc == ERR_EXISTS && a->name == NULL) { /* the number was taken meanwhile */
        rc = run_dir_next_name(f->dir, err);
        if (rc == 0) {
            tell(f);
            rc = run_dir_appear(f->dir, err);
        }
    }
    if (rc < 0) {
        run_dir_discard(f->dir);
        f->dir = NULL;
    }
    return rc;
}

/* -ESTALE: it failed because the checkpoint was removed meanwhile. */
static int try_fork(struct run_dir **ret, const struct fork_args *a, int *is_tried,
                    struct err *err)
{
    struct fork f = {.args = a, .is_tried = is_tried};
    int rc;

    f.checkpoints = path_in(&f, "checkpoints");
    rc = prepare(&f, err);
    if (rc == 0)
        rc = make_dir(&f, err);
    if (rc < 0 && is_dropped(&f))
        rc = err_set(err, -ESTALE,
                     "%s has dropped its checkpoint of step %" PRIu64
                     " meanwhile: `brood pause` it, or keep more with "
                     "checkpoint.max_to_keep",
                     a->from, f.step);
    *ret = f.dir;
    journal_close(f.journal);
    store_free(f.log);
    fork_changes_done(&f.changes);
    resume_config_done(&f.was);
    resume_free(f.resume);
    arena_done(&f.arena);
    return rc;
}

int fork_run(struct run_dir **ret, const struct fork_args *a, struct err *err)
{
    int is_tried = a->is_tried, rc = try_fork(ret, a, &is_tried, err);

    for (int i = 1; rc == -ESTALE && a->step == NULL && i < MAX_TRIES; i++)
        rc = try_fork(ret, a, &is_tried, err);
    return rc;
}
