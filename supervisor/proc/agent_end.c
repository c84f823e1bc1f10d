/* Handles the exit of a worker's process: starts another one, gives the worker up, or
 * reports the exit. */
#include "supervisor/proc/agent.h"
#include "supervisor/proc/signals.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

#define NS_PER_MS 1000000u

/* ---- how the process exited ---- */

/* Whether it was killed from outside, by a person or by the kernel for lack of memory. */
static int was_killed(const struct agent *a)
{
    return a->cause.code == 0 && a->link->signal == SIGKILL;
}

void agent_note_death(struct agent *a)
{
    const int is_suspect = !was_killed(a) && !a->is_blameless;

    a->death = (struct agent_death){.in = agent_public_state(a)};
    /* the request that may have caused this death; 0: none */
    if (is_suspect && a->state == PROC_REPLAYING && a->n_replayed < a->replay.n_requests)
        a->death.request = replay_request_at(&a->replay, a->n_replayed)->id;
    else if (is_suspect && a->state == PROC_BUSY)
        a->death.request = a->pending.id;
    if (proc_state_is_asked(a->state) || a->state == PROC_COMMITTING)
        agent_name_awaited(a, a->death.task, sizeof(a->death.task));
}

static enum restart_event exited_by(const struct agent *a)
{
    if (a->requested_end != RESTART_EV_STARTED)
        return a->requested_end;
    if (was_killed(a) && (a->death.in == AGENT_IDLE || a->link->was_lost))
        return RESTART_EV_KILLED;
    if (a->is_over_memory)
        return RESTART_EV_OVER_MEMORY;
    if (a->was_refused)
        return RESTART_EV_LATER;
    if (a->cause.code != 0 || a->link->signal != 0)
        return RESTART_EV_CRASHED;
    switch (a->link->exit_code) {
    case AGENT_EXIT_DONE:
        return RESTART_EV_DONE;
    case AGENT_EXIT_NO_RESPAWN:
        return RESTART_EV_REFUSED;
    case AGENT_EXIT_TRY_LATER:
        return RESTART_EV_LATER;
    default:
        return RESTART_EV_CRASHED;
    }
}

/* The time spent on the request during which it died does not count as healthy. */
static int was_healthy(const struct agent *a, uint64_t now_ns)
{
    const uint64_t until_ns = a->death.in == AGENT_BUSY ? a->sent_at_ns : now_ns;

    return a->ready_at_ns != 0 &&
           until_ns >= a->ready_at_ns + (uint64_t)RESTART_HEALTHY_MS * NS_PER_MS;
}

static int had_no_memory(const struct agent *a)
{
    return a->cause.code == ERR_NOMEM || (a->cause.code == 0 && a->link->signal == 0 &&
                                          a->link->exit_code == AGENT_EXIT_TRY_LATER);
}

static void describe_exit(const struct agent *a, char *ret, size_t size)
{
    char name[SIGNAL_NAME_BYTES];

    if (a->was_refused)
        (void)snprintf(ret, size, "%.200s", a->cause.msg);
    else if (a->cause.code == ERR_AGENT && a->cause.from_peer)
        (void)snprintf(ret, size, "with the error %s", err_cause(&a->cause));
    else if (a->cause.code != 0)
        (void)snprintf(ret, size, "killed because %.200s", a->cause.msg);
    else if (a->link->signal != 0)
        (void)snprintf(ret, size, "killed by %s", signal_name(a->link->signal, name));
    else
        (void)snprintf(ret, size, "exited with code %d%s", a->link->exit_code,
                       had_no_memory(a) ? " because memory ran out" : "");
}

/* ---- another process ---- */

/* Whether it was killed from outside while no writing request was pending: its block then
 * has the newest values. (A process that crashed may have damaged the block.) */
static int is_block_whole(const struct agent *a)
{
    return was_killed(a) && !a->link->is_block_lost &&
           !(a->pending.active && a->pending.writes) &&
           (a->death.in == AGENT_IDLE || a->death.in == AGENT_BUSY);
}

/* Prepares the block for the next process. One that finds the newest values there replays
 * nothing, whether or not a snapshot of them is complete yet. */
static int agent_restore(struct agent *a, struct err *err)
{
    const struct replay_block snapshot =
        replay_block_at(a->replay.snapshot, a->replay.snapshot_bytes);
    int rc = 0;

    if (!a->kind->has_block)
        return 0;
    if (!a->replay.has_snapshot)
        return a->link->ops->clear(a->link, err);
    a->is_block_whole = is_block_whole(a);
    if (!a->is_block_whole)
        return agent_put(a, &snapshot, err);
    if (a->replay.n_requests > 0)
        rc = agent_snapshot(a, err);
    return rc == UV_EAGAIN ? 0 : rc;
}

void agent_begin(struct agent *a)
{
    struct err err;

    if (a->link->is_block_lost && agent_restore(a, &err) < 0)
        agent_feed_fatal(a, &err);
    else
        agent_feed(a, PROC_EV_START);
}

void agent_restart(struct agent *a)
{
    a->start_due_ns = 0;
    a->n_restarts++;
    agent_begin(a);
}

static void start_after(struct agent *a, uint64_t delay_ns)
{
    a->start_due_ns = uv_hrtime() + delay_ns;
    a->start_delay_ns = delay_ns;
    agent_emit(a, AGENT_EVENT_WAIT);
    a->host->on_due(a->host);
}

/* ---- giving up ---- */

static void describe_give_up(const struct agent *a, enum restart_reason reason,
                             struct err *ret)
{
    const struct restart_config *c = &a->limits.restart;
    const char *in = a->death.task[0] != '\0' ? " in " : "", *once;
    char end[ERR_MSG_BYTES];
    const int code = had_no_memory(a) ? ERR_NOMEM : ERR_AGENT;

    describe_exit(a, end, sizeof(end));
    switch (reason) {
    case RESTART_TOO_OFTEN:
        (void)err_set(ret, code, "died %zu times within %g s%s, the last time%s%s %s",
                      a->restarts.n_deaths, c->within_s,
                      a->restarts.over_memory ? "" : " without progress", in,
                      a->death.task, end);
        break;
    case RESTART_ONE_REQUEST:
        (void)err_set(ret, code, "%s ended it %u times, the last time %s", a->death.task,
                      RESTART_REQUEST_DEATHS, end);
        break;
    case RESTART_BY_EXIT_CODE:
        (void)err_set(ret, code, "%s, which means that it must not be restarted", end);
        break;
    default:
        /* What it did not answer is named already. */
        once = a->cause.code == ERR_TIMEOUT ? NULL : a->death.task;
        (void)err_set(ret, code, "%s%s%s%s%s", end, once != NULL ? in : "",
                      once != NULL ? once : "",
                      a->spec.is_trial ? "" : ", and its restart policy is ",
                      a->spec.is_trial ? "" : restart_policy_name(c->policy));
        break;
    }
}

/* Whether the run could continue without the agent if it knew its description. */
static int may_be_missed(const struct agent *a)
{
    return a->limits.restart.on_give_up != GIVE_UP_STOP &&
           strcmp(a->spec.role, "learner") == 0;
}

/* Whether the run can continue without the agent: it knows the agent's description, and
 * the restart policy permits it. */
static int can_be_missed(const struct agent *a)
{
    return a->mode != AGENT_LEARNS || (may_be_missed(a) && a->description_data != NULL);
}

static void leave_down(struct agent *a)
{
    struct err err;

    restart_history_done(&a->restarts);
    if (agent_restore(a, &err) < 0)
        agent_feed_fatal(a, &err);
}

/* The request that caused the death is not repeated; a noop replays nothing. */
static void change_mode(struct agent *a, enum agent_mode mode, const struct err *why)
{
    const int forgets = mode == AGENT_NOOP || a->death.in == AGENT_REPLAYING;
    const struct agent_mode_change t = {.mode = mode,
                                        .position = a->position,
                                        .lost = forgets ? a->replay.n_requests : 0};

    a->mode = mode;
    a->failure = *why;
    agent_emit_mode_change(a, AGENT_EVENT_GIVE_UP, &t);
    a->failure = (struct err){0};
    if (forgets)
        replay_forget(&a->replay);
}

static void give_up(struct agent *a, enum restart_reason reason)
{
    const int freezes =
        a->mode == AGENT_LEARNS && a->limits.restart.on_give_up == GIVE_UP_FROZEN;
    struct err err;

    describe_give_up(a, reason, &err);
    if (!can_be_missed(a)) {
        agent_feed_fatal(a, &err);
        return;
    }
    if (a->mode != AGENT_NOOP)
        change_mode(a, freezes ? AGENT_FROZEN : AGENT_NOOP, &err);
    leave_down(a);
    if (a->state == PROC_GONE)
        return;
    a->host->on_due(a->host); /* answers its pending request, if it has one */
    if (freezes)
        agent_restart(a);
}

/* Until its description is known, an agent that the run may continue without is needed: if
 * it was killed, its policy must not end the run. */
static struct restart_config config_for_death(const struct agent *a)
{
    struct restart_config c = a->limits.restart;

    if (was_killed(a) && may_be_missed(a) && a->description_data == NULL)
        c.policy = RESTART_PERMANENT;
    return c;
}

/* Whether the process died of what its request made it do, and the caller has changed that
 * request (agent_revival.pardon). */
static int is_pardoned(struct agent *a, enum restart_event event, int is_last)
{
    const struct agent_revival *r = a->spec.revival;
    char end[ERR_MSG_BYTES];
    struct err why;

    if (r == NULL || r->pardon == NULL || a->death.request == 0 ||
        (event != RESTART_EV_CRASHED && event != RESTART_EV_OVER_MEMORY &&
         event != RESTART_EV_DONE))
        return 0;
    describe_exit(a, end, sizeof(end));
    (void)err_set(&why, ERR_AGENT, "%s", end);
    return r->pardon(a->host->ctx, a->index, is_last, &why);
}

static void start_pardoned(struct agent *a)
{
    a->requested_end = RESTART_EV_STARTED;
    restart_history_done(&a->restarts);
    if (a->state == PROC_DOWN) /* else the caller has given up the run */
        agent_restart(a);
}

/* Whether the request alone may be the reason that the worker is given up. */
static int is_of_request(const struct agent *a, const struct restart_verdict *v)
{
    return v->action == RESTART_DO_GIVE_UP &&
           (v->reason == RESTART_ONE_REQUEST ||
            (v->reason == RESTART_TOO_OFTEN && !a->restarts.over_memory));
}

/* Whether the request is given up instead of the agent (agent_request_may_fail). */
static int is_of_request_alone(const struct agent *a, const struct restart_verdict *v)
{
    return v->reason == RESTART_ONE_REQUEST && a->pending.active && a->pending.may_fail &&
           a->death.request == a->pending.id;
}

static struct restart_verdict give_up_request(struct agent *a)
{
    describe_give_up(a, RESTART_ONE_REQUEST, &a->request_failure);
    a->pending.has_failed = 1;
    restart_history_done(&a->restarts);
    a->host->on_due(a->host); /* answers it */
    return (struct restart_verdict){.action = RESTART_DO_START};
}

void agent_decide_restart(struct agent *a)
{
    const struct restart_config config = config_for_death(a);
    const enum restart_event event = exited_by(a);
    const uint64_t now_ns = uv_hrtime();
    struct restart_verdict v;
    struct err err;

    if (a->mode == AGENT_NOOP && !agent_will_learn_again(a)) {
        a->requested_end = RESTART_EV_STARTED;
        leave_down(a);
        return;
    }
    if (is_pardoned(a, event, 0)) {
        start_pardoned(a);
        return;
    }
    if (was_healthy(a, now_ns))
        (void)restart_history_feed(&a->restarts, &a->limits.restart, RESTART_EV_PROGRESS,
                                   now_ns, 0);
    v = restart_history_feed(&a->restarts, &config, event, now_ns, a->death.request);
    a->requested_end = RESTART_EV_STARTED;
    if (is_of_request_alone(a, &v))
        v = give_up_request(a);
    if (is_of_request(a, &v) && is_pardoned(a, event, 1))
        start_pardoned(a);
    else if (v.action == RESTART_DO_GIVE_UP)
        give_up(a, v.reason);
    else if (agent_restore(a, &err) < 0)
        agent_feed_fatal(a, &err);
    else if (v.action == RESTART_DO_WAIT)
        start_after(a, v.delay_ns);
    else
        agent_restart(a);
}

/* Adds the process's last lines to the report, unless the reason is known: the process
 * answered, or it lacked memory. */
void agent_report(struct agent *a)
{
    static const char quote[] = "; its last lines: ";
    char lines[sizeof(a->failure.msg)];
    struct err report;
    size_t n;

    if (a->failure.code == 0)
        return;
    report = a->failure;
    if (a->link->pid > 0)
        (void)err_wrap(&report, "%s %s (pid %d)", a->kind->noun, a->name,
                       (int)a->link->pid);
    else
        (void)err_wrap(&report, "%s %s", a->kind->noun, a->name);
    (void)err_note(&report, ERR_AT(.agent = a->name));
    n = strlen(report.msg) + sizeof(quote);
    if (n < sizeof(report.msg) && !a->failure.from_peer && !a->cause.from_peer &&
        a->cause.code != ERR_NOMEM) {
        capture_last_lines(&a->link->capture, lines, sizeof(report.msg) - n + 1);
        if (lines[0] != '\0')
            strcat(strcat(report.msg, quote), lines);
    }
    a->host->on_failed(a, &report);
}

/* ---- on request ---- */

int agent_kill(struct agent *a, enum restart_event wish, struct err *err)
{
    const int is_awaited = a->start_due_ns != 0 || agent_will_learn_again(a);

    if (a->state == PROC_DOWN && is_awaited && wish == RESTART_EV_REPLACED) {
        (void)restart_history_feed(&a->restarts, &a->limits.restart, wish, uv_hrtime(),
                                   0);
        agent_restart(a);
        return 0;
    }
    if (a->mode == AGENT_NOOP && a->state == PROC_DOWN)
        return err_set(err, ERR_STATE,
                       "agent %s was given up and has no process; `brood respawn` "
                       "reinstates it",
                       a->name);
    if (!proc_state_is_serving(a->state) || !a->link->is_running)
        return err_set(err, ERR_STATE, "agent %s has no process now: it is %s", a->name,
                       agent_state_name(agent_public_state(a)));
    a->requested_end = wish;
    a->link->ops->kill(a->link);
    return 0;
}

/* ---- requests that no process answers ---- */

int agent_is_absent_for(const struct agent *a, int writes)
{
    return a->mode == AGENT_NOOP || (a->mode == AGENT_FROZEN && writes);
}

int agent_answers_itself(const struct agent *a)
{
    return a->pending.active &&
           (a->pending.has_failed || agent_is_absent_for(a, a->pending.writes));
}

uint64_t agent_due_ns(const struct agent *a)
{
    if (agent_answers_itself(a))
        return 0;
    return a->start_due_ns != 0 ? a->start_due_ns : UINT64_MAX;
}

void agent_run_timers(struct agent *a, uint64_t now_ns)
{
    if (a->start_due_ns != 0 && a->start_due_ns <= now_ns) {
        (void)restart_history_feed(&a->restarts, &a->limits.restart,
                                   RESTART_EV_DELAY_OVER, now_ns, 0);
        agent_restart(a);
    }
    if (agent_answers_itself(a)) {
        const struct agent_pending p = a->pending;
        struct msg answer = {.type = MSG_RESPONSE, .body = {.type = MSGPACK_OBJECT_NIL}};

        if (p.has_failed)
            answer.error = a->request_failure;
        agent_advance(a, 1);
        p.fn(p.ctx, a->index, &answer);
    }
}
