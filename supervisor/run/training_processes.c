/* Events of a run's processes, for journal, observers and log: spawns, exits and respawns
 * of agents and of environment processes, and changes of an agent's mode.
 *
 * Journal  event=give-up agent= mode= position= lost= why=, or event=take-back agent=
 *          position=, is fsynced before the mode changes, so that a run that is resumed
 *          from an earlier checkpoint changes the mode at the same position
 *          (agent_table.h). event=turned agent= mode=: the mode has changed.
 *          event=skip-episode seed= at= sum=, fsynced, too: a resumed run skips that episode at
 *          that point, even if the environment would not fail there again (env_host.h).
 */
#include "supervisor/run/training_internal.h"

#include "common/msg/protocol.h"
#include "supervisor/proc/signals.h"
#include "supervisor/rundir/journal_read.h"

#include <inttypes.h>
#include <string.h>

enum process_kind { AN_AGENT, AN_ENVIRONMENT };

/* ---- changes of an agent's mode ---- */

static const char *const effects[] = {[AGENT_LEARNS] = "learns again",
                                      [AGENT_FROZEN] = "still acts, but no longer learns",
                                      [AGENT_NOOP] = "does nothing from now on"};

static void send_mode_event(struct training *t, enum run_event_kind kind,
                            const char *name, const struct agent_event *e)
{
    struct run_event event = {.kind = kind, .env_steps = training_steps(t)};
    struct err err = {0};

    run_event_process_init(&event.process, name, NULL);
    event.process.mode = agent_mode_name(e->change->mode);
    event.process.why = e->text;
    if (kind != RUN_EVENT_MODE) {
        event.process.position = e->change->position;
        event.process.lost = e->change->lost;
    }
    if (training_event_at(t, &event, &err) < 0)
        training_log_error(t, "%s; a resume will not repeat %s's %s", err.msg, name,
                           kind == RUN_EVENT_GIVE_UP ? "give-up" : "take-back");
}

static void on_mode_event(struct training *t, const char *name,
                          const struct agent_event *e)
{
    const char *effect = effects[e->change->mode];

    switch (e->kind) {
    case AGENT_EVENT_GIVE_UP:
        t->lost_agent = 1;
        send_mode_event(t, RUN_EVENT_GIVE_UP, name, e);
        training_log_error(t, "%s is given up: it %s: %s", name, effect, e->text);
        if (e->change->mode == AGENT_NOOP) /* no process comes that would answer them */
            training_refuse_respawn(t, e->agent, e->text);
        break;
    case AGENT_EVENT_REINSTATE:
        send_mode_event(t, RUN_EVENT_REINSTATE, name, e);
        training_log(t, "%s learns again from the next round on", name);
        break;
    default:
        send_mode_event(t, RUN_EVENT_MODE, name, e);
        if (e->change->mode != AGENT_LEARNS)
            training_log(t, "%s was given up: it %s", name, effect);
        break;
    }
}

static void add_failure(struct training *t, const struct run_event *e)
{
    const struct env_failure f = {e->skip.seed, e->skip.at, (uint32_t)e->skip.sum};

    env_host_add_failure(t->env_host, &f);
}

static int plan_mode_change(void *ctx, uint64_t line, const struct run_event *e)
{
    struct training *t = ctx;
    const struct run_event_process *p = &e->process;
    struct agent_mode_change change = {0};
    struct agent_resume_point at;
    size_t agent;

    if (e->kind == RUN_EVENT_SKIP)
        add_failure(t, e);
    if ((e->kind != RUN_EVENT_GIVE_UP && e->kind != RUN_EVENT_REINSTATE) ||
        p->agent == NULL || p->mode == NULL)
        return 0;
    agent = agent_table_find(t->agents, p->agent);
    if (agent == agent_table_count(t->agents))
        return 0;
    change.position = p->position != MEMBER_NO_U64 ? p->position : 0;
    change.lost = p->lost != MEMBER_NO_U64 ? p->lost : 0;
    while (change.mode < AGENT_NOOP && strcmp(p->mode, agent_mode_name(change.mode)) != 0)
        change.mode++;
    agent_table_get_resume_point(t->agents, agent, 0, &at);
    if (change.position >= at.position)
        agent_table_plan_mode_change(t->agents, agent, &change);
    return 0;
}

int training_plan_mode_changes(struct training *t, struct err *err)
{
    int rc = journal_each_event(run_dir_file(t->args->dir, "journal"), plan_mode_change,
                                t, err);

    return rc == ERR_NOT_FOUND ? 0 : rc;
}

/* ---- spawn, exit and respawn: of agents and environment processes ---- */

static void log_exit(struct training *t, const char *name, const struct agent_event *e)
{
    const int is_ending = life_state_is_ending(t->state);
    char signal_text[SIGNAL_NAME_BYTES];

    if (is_ending && e->text != NULL && e->signal == 0)
        training_log(t, "%s (pid %d): %s", name, (int)e->pid, e->text);
    if (is_ending || e->failed)
        return;
    if (e->text != NULL)
        training_log(t, "%s (pid %d) was killed: %s", name, (int)e->pid, e->text);
    else if (e->signal != 0)
        training_log(t, "%s (pid %d) was ended by %s", name, (int)e->pid,
                     signal_name(e->signal, signal_text));
    else if (e->exit_code != AGENT_EXIT_NO_RESPAWN)
        training_log(t, "%s (pid %d) ended with code %d", name, (int)e->pid,
                     e->exit_code);
}

/* The last lines of a process's output are sent only if it exited with an error. */
static void send_process_event(struct training *t, enum process_kind whose,
                               const char *name, const struct agent_event *from)
{
    static const enum run_event_kind kinds[] = {
        [AGENT_EVENT_SPAWN] = RUN_EVENT_SPAWN,     [AGENT_EVENT_HELLO] = RUN_EVENT_HELLO,
        [AGENT_EVENT_READY] = RUN_EVENT_READY,     [AGENT_EVENT_EXIT] = RUN_EVENT_EXIT,
        [AGENT_EVENT_RESPAWN] = RUN_EVENT_RESPAWN, [AGENT_EVENT_WAIT] = RUN_EVENT_WAIT,
        [AGENT_EVENT_SLOW] = RUN_EVENT_SLOW};
    struct run_event e = {.kind = kinds[from->kind], .env_steps = training_steps(t)};
    struct run_event_process *p = &e.process;

    run_event_process_init(p, whose == AN_AGENT ? name : NULL,
                           whose == AN_ENVIRONMENT ? name : NULL);
    p->pid = from->pid;
    if (from->replayed > 0)
        p->replayed = from->replayed;
    p->delay_ms = from->delay_ms;
    if (from->busy_ns > 0)
        p->seconds = (double)from->busy_ns * 1e-9;
    if (from->kind == AGENT_EVENT_EXIT) {
        p->signal = from->signal;
        p->code = from->signal != 0 ? -1 : from->exit_code;
        p->in = agent_state_name((enum agent_state)from->state);
        p->limit = from->limit;
        p->why = from->text;
        if (*from->lines != '\0' && (from->signal != 0 || from->exit_code != 0))
            p->lines = from->lines;
    }
    training_event_at(t, &e, NULL);
}

static void on_process_event(struct training *t, enum process_kind whose,
                             const char *name, const struct agent_event *e)
{
    switch (e->kind) {
    case AGENT_EVENT_SPAWN:
    case AGENT_EVENT_HELLO:
    case AGENT_EVENT_READY:
    case AGENT_EVENT_SLOW:
        send_process_event(t, whose, name, e);
        break;
    case AGENT_EVENT_EXIT:
        send_process_event(t, whose, name, e);
        log_exit(t, name, e);
        break;
    case AGENT_EVENT_RESPAWN:
        t->result->restarts++;
        send_process_event(t, whose, name, e);
        training_log(t, "%s was respawned as pid %d", name, (int)e->pid);
        break;
    case AGENT_EVENT_WAIT:
        send_process_event(t, whose, name, e);
        training_log(t, "%s will be respawned in %.1f s", name,
                     (double)e->delay_ms / 1000);
        break;
    case AGENT_EVENT_GIVE_UP:
    case AGENT_EVENT_REINSTATE:
    case AGENT_EVENT_MODE_CHANGED:
        on_mode_event(t, name, e);
        break;
    case AGENT_EVENT_COPYABLE:
        break;
    }
}

void training_on_agent_event(void *ctx, const struct agent_event *e)
{
    struct training *t = ctx;
    const char *name = t->specs.spec[e->agent].name;

    on_process_event(t, AN_AGENT, name, e);
    if (e->kind == AGENT_EVENT_RESPAWN && e->agent < t->config->n_agents &&
        t->config->agents[e->agent].is_inexact)
        training_lose_bits(t, name, "a process was replaced");
    if (e->kind == AGENT_EVENT_READY || e->kind == AGENT_EVENT_COPYABLE)
        training_feed(t, LIFE_EV_AGENT_READY, NULL);
    if (e->kind == AGENT_EVENT_READY)
        training_answer_respawn(t, e->agent);
}

/* ---- the processes of an external environment ---- */

static void on_event(void *ctx, const struct agent_event *e, const char *process)
{
    struct training *t = ctx;

    on_process_event(t, AN_ENVIRONMENT, process, e);
    if (e->kind == AGENT_EVENT_READY)
        training_answer_env_respawn(t, process);
}

static void on_inexact(void *ctx, const char *line)
{
    struct training *t = ctx;

    training_log_error(t, "%s", line);
    training_event(t, INEXACT, .why = line);
}

static void on_skipped(void *ctx, const struct env_skip *s)
{
    struct training *t = ctx;
    const struct run_event e = {.kind = RUN_EVENT_SKIP,
                                .env_steps = training_steps(t),
                                .skip = {.environment = s->process,
                                         .copy = s->copy,
                                         .episode = s->episode,
                                         .evaluation = s->is_evaluation,
                                         .seed = s->at.seed,
                                         .at = s->at.step,
                                         .sum = s->at.sum,
                                         .why = s->why}};
    char where[48] = "its reset";
    struct err err = {0};

    if (s->at.step > 0)
        (void)snprintf(where, sizeof(where), "step %" PRIu64, s->at.step);
    training_log_error(
        t, "%s: episode %" PRIu64 " of copy %zu is skipped, it fails in %s: %s",
        s->process, s->episode, s->copy, where, s->why);
    if (training_event_at(t, &e, &err) < 0) /* a resume would not skip it */
        training_fail(t, &err);
}

static void on_warning(void *ctx, const char *process, const char *line)
{
    struct training *t = ctx;

    training_log(t, "%s: warning: %s", process, line);
    training_event(t, WARNING, .why = line);
}

/* The round that has begun is lost, and no more: a resume tries it again. */
static void on_failed(void *ctx, const struct err *why)
{
    struct training *t = ctx;

    training_on_failed(t, why);
    if (why->code == ERR_AGENT && t->config->env.on_failure == ENV_FAILURE_STOPS)
        training_log_error(t,
                           "with `env.on_failure: skip_episode` a run, also one that is "
                           "resumed with --set, goes on without such an episode");
}

static void on_stopped(void *ctx)
{
    training_feed(ctx, LIFE_EV_ENVIRONMENTS_ENDED, NULL);
}

static struct worker_site *site_of(void *ctx, size_t process, size_t n)
{
    const struct training *t = ctx;

    return t->cluster != NULL ? cluster_environment_site(t->cluster, process, n) : NULL;
}

void training_make_env_host(struct training *t)
{
    const struct env_host_args args = {
        .loop = &t->loop,
        .agent_exe_fd = t->agent_fd,
        .logs = t->logs_in != NULL ? run_dir_file(t->logs_in, "logs") : NULL,
        .site = site_of,
        .on_event = on_event,
        .on_inexact = on_inexact,
        .on_failed = on_failed,
        .on_skipped = on_skipped,
        .on_warning = on_warning,
        .on_stopped = on_stopped,
        .ctx = t};

    t->env_host = env_host_new(&args);
}

void training_free_env_host(struct training *t)
{
    env_host_free(t->env_host);
}
