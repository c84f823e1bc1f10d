#include "supervisor/events/run_model.h"

#include "common/mem/xmalloc.h"
#include "common/text/scan.h"
#include "supervisor/proc/agent_table.h"
#include "supervisor/proc/signals.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* ---- texts and times ---- */

/* An equal text stays, so that repeated deaths allocate nothing. */
static void keep(const char **at, const char *text)
{
    if (*at != NULL && text != NULL && strcmp(*at, text) == 0)
        return;
    free((char *)(uintptr_t)*at);
    *at = text != NULL ? xstrdup(text) : NULL;
}

static void keep_time(char ret[LOG_TIME_BYTES], const char *time)
{
    (void)snprintf(ret, LOG_TIME_BYTES, "%s", time);
}

/* Of a time with its milliseconds; 0 if it is malformed. */
static double seconds_of(const char *time)
{
    struct tm utc = {0};
    const char *rest = strptime(time, "%Y-%m-%dT%H:%M:%S", &utc);
    double part = 0;

    if (rest == NULL)
        return 0;
    if (*rest == '.')
        for (double unit = 0.1; *++rest >= '0' && *rest <= '9'; unit /= 10)
            part += unit * (*rest - '0');
    return (double)timegm(&utc) + part;
}

double run_model_open_seconds(const struct run_model *m)
{
    const double from = seconds_of(m->session), to = seconds_of(m->newest);

    return m->is_open && from > 0 && to > 0 ? fmax(0, to - from) : 0;
}

/* ---- the run ---- */

void run_model_init(struct run_model *m)
{
    *m = (struct run_model){.status = run_status_unknown()};
    m->status.total_restarts = 0;
    keep(&m->status.state, "starting");
}

static void forget_failure(struct run_status *s)
{
    keep(&s->failure, NULL);
    keep(&s->failure_agent, NULL);
    keep(&s->failure_file, NULL);
    s->failure_line = RUN_UNKNOWN;
}

/* seconds: as its supervisor measured them; NaN: it did not. */
static void close_session(struct run_model *m, const struct run_event *e, double seconds)
{
    if (!m->is_open)
        return;
    keep_time(m->newest, e->time);
    m->status.elapsed_s = isnan(seconds) ? run_model_open_seconds(m) : seconds;
    m->seconds += m->status.elapsed_s;
    m->is_open = 0;
}

/* The supervisor's processes are gone, and nobody waits for others in their place. */
static void forget_waits(struct run_processes *p)
{
    for (size_t i = 0; i < p->n; i++)
        p->list[i].ended_unix = 0;
}

static void begin_processes(struct run_processes *p)
{
    forget_waits(p);
    for (size_t i = 0; i < p->n; i++) {
        keep(&p->list[i].last_exit, NULL);
        p->list[i].given_up = NULL;
        p->list[i].restarts = 0;
    }
}

static void remove_nodes(struct run_model *m)
{
    for (size_t i = 0; i < m->status.n_nodes; i++) {
        keep(&m->nodes[i].name, NULL);
        keep(&m->nodes[i].host, NULL);
        keep(&m->nodes[i].why, NULL);
    }
    m->status.n_nodes = 0;
}

int run_fold_begin(struct run_model *m, const struct run_event *e, const char *state)
{
    struct run_status *s = &m->status;

    m->seconds += run_model_open_seconds(m); /* of one that left no end */
    m->is_open = 1;
    keep_time(m->session, e->time);
    keep(&s->state, state);
    keep(&s->done_why, NULL);
    keep(&s->stalled_since, NULL);
    keep(&s->numerics, e->begin.numerics);
    keep(&s->not_portable, NULL);
    forget_failure(s);
    s->exit_code = -1;
    s->pid = e->begin.pid;
    s->keeper_pid = e->begin.keeper;
    s->exact = e->begin.anyway == NULL && !m->gave_up;
    s->elapsed_s = -1;
    s->env_steps = 0;
    s->round = s->episodes = RUN_UNKNOWN;
    begin_processes(&m->agents);
    begin_processes(&m->environments);
    remove_nodes(m); /* it may have another cluster */
    return ++m->starts > 1;
}

/* A keeper may record its supervisor's end after the next supervisor began, or after the
 * supervisor's own `end` if it was killed between that and its exit: both are ignored. Only a
 * "done" that run_record_mark_done added replaces another end. */
int run_fold_end(struct run_model *m, const struct run_event *e, const char *state)
{
    struct run_status *s = &m->status;
    const int is_done = e->end.state != NULL && strcmp(e->end.state, "done") == 0;

    if (e->end.pid != s->pid || e->end.state == NULL || (s->exit_code >= 0 && !is_done))
        return 0;
    if (is_done)
        forget_failure(s);
    close_session(m, e, e->end.seconds);
    keep(&s->state, e->end.state);
    s->exit_code = e->end.code >= 0 ? e->end.code & 0xff : RUN_EXIT_FAILED;
    s->episodes = e->end.episodes;
    s->round = e->end.rounds;
    s->team_return_mean = e->end.team_return;
    for (size_t i = 0; i < m->agents.n; i++)
        m->agents.list[i].update = e->end.updates;
    forget_waits(&m->agents);
    forget_waits(&m->environments);
    return !is_done;
}

int run_fold_supervisor_exit(struct run_model *m, const struct run_event *e,
                             const char *state)
{
    if (e->end.pid == m->status.pid)
        close_session(m, e, (double)NAN);
    m->deaths++;
    forget_waits(&m->agents);
    forget_waits(&m->environments);
    return 1;
}

int run_fold_run(struct run_model *m, const struct run_event *e, const char *state)
{
    keep(&m->status.state, state);
    return 1;
}

int run_fold_done(struct run_model *m, const struct run_event *e, const char *state)
{
    keep(&m->status.done_why, e->why);
    (void)run_fold_run(m, e, state);
    return e->why != NULL;
}

int run_fold_failed(struct run_model *m, const struct run_event *e, const char *state)
{
    struct run_status *s = &m->status;

    keep(&s->failure, e->failure.error);
    keep(&s->failure_agent, e->failure.agent);
    keep(&s->failure_file, e->failure.file);
    s->failure_line = e->failure.line;
    return run_fold_run(m, e, state);
}

int run_fold_stalls(struct run_model *m, const struct run_event *e, const char *state)
{
    if (e->stall.pid == m->status.pid)
        keep(&m->status.stalled_since,
             e->kind == RUN_EVENT_STALLS ? e->stall.since : NULL);
    return 1;
}

int run_fold_inexact(struct run_model *m, const struct run_event *e, const char *state)
{
    m->status.exact = 0;
    return 1;
}

int run_fold_not_portable(struct run_model *m, const struct run_event *e,
                          const char *state)
{
    keep(&m->status.not_portable, e->why);
    return 1;
}

void run_model_note(struct run_model *m, const struct run_event *e)
{
    struct run_status *s = &m->status;

    keep_time(m->newest, e->time);
    if (s->began == NULL)
        keep(&s->began, e->time);
    if (e->env_steps != MEMBER_NO_U64 && e->env_steps > s->env_steps)
        s->env_steps = e->env_steps;
}

/* ---- its processes ---- */

/* The search begins after the process found last, because events come in their order. */
static struct run_agent_status *find(const struct run_processes *p, const char *name)
{
    for (size_t i = 0; i < p->n; i++) {
        const size_t at = (p->last + 1 + i) % p->n;

        if (strcmp(p->list[at].name, name) == 0)
            return &p->list[at];
    }
    return NULL;
}

const struct run_agent_status *run_model_process(const struct run_model *m,
                                                 const char *name)
{
    const struct run_agent_status *agent = find(&m->agents, name);

    return agent != NULL ? agent : find(&m->environments, name);
}

/* Adds it if it is new. NULL: the event names none, or there are too many. */
static struct run_agent_status *process_of(struct run_model *m, const char *agent,
                                           const char *environment)
{
    struct run_processes *p = agent != NULL ? &m->agents : &m->environments;
    const char *name = agent != NULL ? agent : environment;
    struct run_agent_status *ret = name != NULL ? find(p, name) : NULL;

    if (ret == NULL && (name == NULL || p->n == RUN_MODEL_PROCESSES_MAX))
        return NULL;
    if (ret == NULL) {
        ARRAY_GROW(p->list, p->n, p->cap);
        ret = &p->list[p->n++];
        *ret = (struct run_agent_status){
            .state = "gone", .rss_bytes = -1, .update = RUN_UNKNOWN};
        keep(&ret->name, name);
    }
    p->last = (size_t)(ret - p->list);
    m->status.agents = m->agents.list;
    m->status.n_agents = m->agents.n;
    m->status.environments = m->environments.list;
    m->status.n_environments = m->environments.n;
    return ret;
}

static struct run_agent_status *in_state(struct run_model *m, const struct run_event *e,
                                         const char *state)
{
    struct run_agent_status *a = process_of(m, e->process.agent, e->process.environment);

    if (a != NULL && state != NULL)
        a->state = state;
    return a;
}

int run_fold_process(struct run_model *m, const struct run_event *e, const char *state)
{
    (void)in_state(m, e, state);
    return 1;
}

int run_fold_spawn(struct run_model *m, const struct run_event *e, const char *state)
{
    struct run_agent_status *a = in_state(m, e, state);
    const int is_restart = e->kind == RUN_EVENT_RESPAWN;

    m->status.total_restarts += is_restart;
    if (a == NULL)
        return 1;
    a->pid = e->process.pid;
    a->restarts += is_restart;
    a->count.restarts += is_restart;
    if (!is_restart)
        a->ended_unix = 0;
    return 1;
}

static const char *exit_text(const struct run_event_process *p, char ret[64])
{
    char name[SIGNAL_NAME_BYTES];

    if (p->limit != NULL)
        (void)snprintf(ret, 64, "%s", p->limit);
    else if (p->signal != 0)
        (void)snprintf(ret, 64, "%s", signal_name(p->signal, name));
    else if (p->code >= 0)
        (void)snprintf(ret, 64, "code %d", p->code);
    else
        return NULL;
    return ret;
}

/* Whether the supervisor ended the process at the end of the run: by a request or, if it
 * was slow, by a signal. */
static int was_asked_to_end(const struct run_event_process *p)
{
    return p->in != NULL && strcmp(p->in, "stopping") == 0 &&
           ((p->signal == 0 && p->code == 0) || p->signal == SIGTERM ||
            p->signal == SIGKILL);
}

static double known(double seconds)
{
    return isfinite(seconds) ? fmax(0, seconds) : 0;
}

int run_fold_exit(struct run_model *m, const struct run_event *e, const char *state)
{
    const struct run_event_process *p = &e->process;
    struct run_agent_status *a = in_state(m, e, state);
    const int is_death = !was_asked_to_end(p);
    char text[64];

    m->deaths += (uint64_t)is_death;
    if (a == NULL)
        return is_death;
    keep(&a->last_exit, exit_text(p, text));
    a->pid = 0;
    a->ended_unix = seconds_of(e->time);
    a->count.hangs += p->limit != NULL && strcmp(p->limit, "respond_within") == 0;
    a->count.lost_s += known(p->seconds);
    return is_death;
}

int run_fold_ready(struct run_model *m, const struct run_event *e, const char *state)
{
    struct run_agent_status *a = in_state(m, e, state);

    if (strcmp(m->status.state, "starting") == 0)
        keep(&m->status.state, "running");
    if (a != NULL && a->ended_unix > 0)
        a->count.lost_s += fmax(0, seconds_of(e->time) - a->ended_unix);
    if (a != NULL)
        a->ended_unix = 0;
    return 1;
}

int run_fold_slow(struct run_model *m, const struct run_event *e, const char *state)
{
    struct run_agent_status *a = in_state(m, e, state);

    if (a != NULL) {
        a->count.slow++;
        a->count.lost_s += known(e->process.seconds);
    }
    return 1;
}

/* agent_mode_name; NULL: it learns. */
static const char *given_up_as(const char *mode)
{
    for (int m = AGENT_FROZEN; mode != NULL && m <= AGENT_NOOP; m++)
        if (strcmp(mode, agent_mode_name((enum agent_mode)m)) == 0)
            return agent_mode_name((enum agent_mode)m);
    return NULL;
}

int run_fold_mode(struct run_model *m, const struct run_event *e, const char *state)
{
    struct run_agent_status *a = in_state(m, e, state);

    m->gave_up = 1;
    m->status.exact = 0;
    if (a != NULL) {
        a->given_up = given_up_as(e->process.mode);
        a->ended_unix = 0;
    }
    return 1;
}

int run_fold_skip(struct run_model *m, const struct run_event *e, const char *state)
{
    struct run_agent_status *a = process_of(m, NULL, e->skip.environment);

    if (a != NULL)
        a->count.skipped++;
    return 1;
}

static void end_processes(struct run_processes *p)
{
    for (size_t i = 0; i < p->n; i++) {
        p->list[i].pid = 0;
        p->list[i].state = "gone";
    }
}

void run_model_end_processes(struct run_model *m)
{
    m->status.pid = m->status.keeper_pid = 0;
    end_processes(&m->agents);
    end_processes(&m->environments);
    for (size_t i = 0; i < m->status.n_nodes; i++) {
        m->nodes[i].pid = 0;
        m->nodes[i].state = "gone";
    }
}

/* ---- its returns ---- */

/* The team whose return the column has; NULL: it has none. */
static const char *team_of(const char *column, int *ret_is_trained)
{
    const char *trained = text_after(column, "rollout/team_return/");

    *ret_is_trained = trained != NULL;
    return trained != NULL ? trained : text_after(column, "eval/team_return/");
}

int run_model_is_return(const char *column)
{
    return team_of(column, &(int){0}) != NULL;
}

void run_model_note_return(struct run_model *m, const char *column, double value)
{
    int is_trained;
    const char *team = team_of(column, &is_trained);
    size_t i = 0;

    if (team == NULL || isnan(value))
        return;
    if (m->returns == NULL)
        m->status.returns = m->returns = xcalloc(RUN_RETURNS_MAX, sizeof(*m->returns));
    while (i < m->status.n_returns && strcmp(m->returns[i].team, team) != 0)
        i++;
    if (i == RUN_RETURNS_MAX)
        return;
    if (i == m->status.n_returns) {
        m->returns[i] = (struct run_return){xstrdup(team), (double)NAN, (double)NAN};
        m->status.n_returns++;
    }
    if (is_trained)
        m->returns[i].trained = value;
    else
        m->returns[i].evaluated = value;
}

int run_fold_row(struct run_model *m, const struct run_event *e, const char *state)
{
    for (size_t i = 0; e->row != NULL && i < e->row->n; i++)
        run_model_note_return(m, e->row->names[i], e->row->values[i]);
    return 1;
}

/* ---- its nodes ---- */

/* Adds it if it is new. NULL: the event names none, or there are too many. */
static struct run_node_status *node_of(struct run_model *m, const char *name)
{
    const size_t n = m->status.n_nodes;

    for (size_t i = 0; name != NULL && i < n; i++)
        if (strcmp(m->nodes[i].name, name) == 0)
            return &m->nodes[i];
    if (name == NULL || n == RUN_MODEL_PROCESSES_MAX)
        return NULL;
    m->nodes = xreallocarray(m->nodes, n + 1, sizeof(*m->nodes));
    m->nodes[n] = (struct run_node_status){.agents = RUN_UNKNOWN};
    keep(&m->nodes[n].name, name);
    m->status.nodes = m->nodes;
    m->status.n_nodes = n + 1;
    return &m->nodes[n];
}

static struct run_node_status *node_in_state(struct run_model *m,
                                             const struct run_event *e, const char *state)
{
    struct run_node_status *n = node_of(m, e->node.node);

    if (n == NULL)
        return NULL;
    n->state = state;
    if (e->node.host != NULL)
        keep(&n->host, e->node.host);
    return n;
}

int run_fold_node(struct run_model *m, const struct run_event *e, const char *state)
{
    struct run_node_status *n = node_in_state(m, e, state);

    if (n == NULL)
        return 1;
    n->restarts += e->kind == RUN_EVENT_NODE_RESTART;
    if (e->kind == RUN_EVENT_NODE_CONNECT)
        n->pid = e->node.pid;
    return 1;
}

int run_fold_node_lost(struct run_model *m, const struct run_event *e, const char *state)
{
    struct run_node_status *n = node_in_state(m, e, state);

    m->deaths++;
    if (n == NULL)
        return 1;
    n->pid = 0;
    if (e->node.why != NULL)
        keep(&n->why, e->node.why);
    return 1;
}

static void free_processes(struct run_processes *p)
{
    for (size_t i = 0; i < p->n; i++) {
        keep(&p->list[i].name, NULL);
        keep(&p->list[i].last_exit, NULL);
    }
    free(p->list);
}

void run_model_done(struct run_model *m)
{
    struct run_status *s = &m->status;

    keep(&s->began, NULL);
    keep(&s->state, NULL);
    keep(&s->done_why, NULL);
    keep(&s->stalled_since, NULL);
    keep(&s->numerics, NULL);
    keep(&s->not_portable, NULL);
    forget_failure(s);
    for (size_t i = 0; i < s->n_returns; i++)
        free((char *)(uintptr_t)m->returns[i].team);
    free(m->returns);
    free_processes(&m->agents);
    free_processes(&m->environments);
    remove_nodes(m);
    free(m->nodes);
    *m = (struct run_model){0};
}
