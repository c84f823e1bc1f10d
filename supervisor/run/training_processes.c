/* What becomes of a run's processes: those of an external environment, and agents that are
 * given up or taken back.
 *
 * Journal  event=give-up agent= mode= position= lost= why=, or event=take-back agent=
 *          position=, on the disk before it has an effect: a run that is resumed from an
 *          earlier checkpoint changes the agent's mode at the same position (agent_table.h).
 *          event=turned agent= mode=: the mode changed.
 */
#include "supervisor/run/training_internal.h"

#include "common/mem/xmalloc.h"
#include "supervisor/run/journal_read.h"

#include <stdlib.h>
#include <string.h>

/* ---- the processes of an external environment ---- */

/* How a process ended last. */
struct training_env_exit {
    char *process, *text;
    struct training_env_exit *next;
};

char **training_env_last_exit(struct training *t, const char *process)
{
    struct training_env_exit *x = t->env_exits;

    while (x != NULL && strcmp(x->process, process) != 0)
        x = x->next;
    if (x == NULL) {
        x = xcalloc(1, sizeof(*x));
        x->process = xstrdup(process);
        x->next = t->env_exits;
        t->env_exits = x;
    }
    return &x->text;
}

static void on_event(void *ctx, const struct agent_event *e, const char *process)
{
    struct training *t = ctx;

    training_note_process(t, TRAINING_ENVIRONMENT, process, e);
    if (e->kind == AGENT_EVENT_READY)
        training_settle_env_respawn(t, process);
}

static void on_inexact(void *ctx, const char *line)
{
    struct training *t = ctx;

    training_complain(t, "%s", line);
    training_event(t, INEXACT, .why = line);
}

static void on_failed(void *ctx, const struct err *why)
{
    training_fail(ctx, why);
}

static void on_stopped(void *ctx)
{
    training_feed(ctx, LIFE_EV_ENVIRONMENTS_ENDED, NULL);
}

void training_make_env_host(struct training *t)
{
    const struct env_host_args args = {.loop = &t->loop,
                                       .agent_exe_fd = t->agent_fd,
                                       .logs = run_dir_file(t->args->dir, "logs"),
                                       .on_event = on_event,
                                       .on_inexact = on_inexact,
                                       .on_failed = on_failed,
                                       .on_stopped = on_stopped,
                                       .ctx = t};

    t->env_host = env_host_new(&args);
}

void training_free_env_host(struct training *t)
{
    struct training_env_exit *x;

    env_host_free(t->env_host);
    while ((x = t->env_exits) != NULL) {
        t->env_exits = x->next;
        free(x->process);
        free(x->text);
        free(x);
    }
}

/* ---- agents that are given up, or taken back ---- */

static const char *const effects[] = {[AGENT_LEARNS] = "learns again",
                                      [AGENT_FROZEN] = "acts on, but learns no more",
                                      [AGENT_NOOP] = "does nothing any more"};

static void mode_event(struct training *t, enum run_event_kind kind, const char *name,
                       const struct agent_event *e)
{
    struct run_event event = {.kind = kind, .env_steps = training_steps(t)};
    struct err err = {0};

    run_event_process_init(&event.process, name, NULL);
    event.process.mode = agent_mode_name(e->change->mode);
    event.process.why = e->text;
    if (kind != RUN_EVENT_TURNED) {
        event.process.position = e->change->position;
        event.process.lost = e->change->lost;
    }
    if (training_event_at(t, &event, &err) < 0)
        training_complain(t, "%s; a resume will not know of %s's %s", err.msg, name,
                          kind == RUN_EVENT_GIVE_UP ? "give-up" : "take-back");
}

void training_note_mode_change(struct training *t, const char *name,
                               const struct agent_event *e)
{
    const char *effect = effects[e->change->mode];

    t->gave_up = 1;
    switch (e->kind) {
    case AGENT_EVENT_GIVE_UP:
        mode_event(t, RUN_EVENT_GIVE_UP, name, e);
        training_complain(t, "%s is given up and %s: %s", name, effect, e->text);
        break;
    case AGENT_EVENT_REINSTATE:
        mode_event(t, RUN_EVENT_TAKE_BACK, name, e);
        training_say(t, "%s learns again from the next round on", name);
        break;
    default:
        mode_event(t, RUN_EVENT_TURNED, name, e);
        if (e->change->mode != AGENT_LEARNS)
            training_say(t, "%s was given up and %s", name, effect);
        break;
    }
}

static int plan_mode_change(void *ctx, const struct run_event *e)
{
    struct training *t = ctx;
    const struct run_event_process *p = &e->process;
    struct agent_mode_change turn = {0};
    struct agent_resume_point at;
    size_t agent;

    if ((e->kind != RUN_EVENT_GIVE_UP && e->kind != RUN_EVENT_TAKE_BACK) ||
        p->agent == NULL || p->mode == NULL)
        return 0;
    agent = agent_table_find(t->agents, p->agent);
    if (agent == agent_table_count(t->agents))
        return 0;
    turn.position = p->position != MEMBER_NO_U64 ? p->position : 0;
    turn.lost = p->lost != MEMBER_NO_U64 ? p->lost : 0;
    while (turn.mode < AGENT_NOOP && strcmp(p->mode, agent_mode_name(turn.mode)) != 0)
        turn.mode++;
    t->gave_up = 1;
    agent_table_get_resume_point(t->agents, agent, 0, &at);
    if (turn.position >= at.position)
        agent_table_plan_mode_change(t->agents, agent, &turn);
    return 0;
}

int training_plan_mode_changes(struct training *t, struct err *err)
{
    int rc = journal_each_event(run_dir_file(t->args->dir, "journal"), plan_mode_change,
                                t, err);

    return rc == ERR_NOT_FOUND ? 0 : rc;
}
