#include "supervisor/run/run_record.h"

#include "common/config/run_config.h"
#include "common/log/log.h"
#include "common/mem/xmalloc.h"
#include "supervisor/metrics/progress.h"
#include "supervisor/proc/agent_table.h"
#include "supervisor/run/journal.h"
#include "supervisor/run/journal_read.h"
#include "supervisor/run/run_dir.h"
#include "supervisor/save/checkpoint_read.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the journal ---- */

static void copy(char ret[32], const char *text)
{
    (void)snprintf(ret, 32, "%s", text != NULL ? text : "");
}

/* Finds an agent's entry, or adds it. The search starts after the agent found last,
 * because lines come in the agents' order. NULL: there are RUN_RECORD_AGENTS_MAX others
 * already. */
static struct run_agent_status *agent_of(struct run_record *r, const char *name)
{
    for (size_t i = 0; i < r->n_agents; i++) {
        const size_t at = (r->last_agent + 1 + i) % r->n_agents;

        if (strcmp(r->agents[at].name, name) == 0) {
            r->last_agent = at;
            return &r->agents[at];
        }
    }
    if (r->n_agents == RUN_RECORD_AGENTS_MAX)
        return NULL;
    ARRAY_GROW(r->agents, r->n_agents, r->cap_agents);
    r->last_agent = r->n_agents++;
    r->agents[r->last_agent] = (struct run_agent_status){
        .name = arena_strdup(&r->arena, name),
        .state = agent_state_name(AGENT_GONE),
        .rss_bytes = -1,
        .update = RUN_UNKNOWN,
    };
    return &r->agents[r->last_agent];
}

/* Likewise an environment process's; there are few of them. */
static struct run_agent_status *environment_of(struct run_record *r, const char *name)
{
    for (size_t i = 0; i < r->n_environments; i++)
        if (strcmp(r->environments[i].name, name) == 0)
            return &r->environments[i];
    if (r->n_environments == RUN_RECORD_NODES_MAX)
        return NULL;
    ARRAY_GROW(r->environments, r->n_environments, r->cap_environments);
    r->environments[r->n_environments] =
        (struct run_agent_status){.name = arena_strdup(&r->arena, name),
                                  .state = agent_state_name(AGENT_GONE),
                                  .rss_bytes = -1,
                                  .update = RUN_UNKNOWN};
    return &r->environments[r->n_environments++];
}

static void note_exit(struct run_record *r, struct run_agent_status *a,
                      const struct run_event_process *p)
{
    char text[RUN_EVENT_EXIT_BYTES];
    const char *by = run_event_exit_text(p, text);

    /* an equal text is not copied again, so repeated deaths take no memory */
    if (by == NULL || a->last_exit == NULL || strcmp(a->last_exit, by) != 0)
        a->last_exit = arena_strdup(&r->arena, by);
    a->pid = 0;
    a->state = agent_state_name(AGENT_GONE);
}

static const char *given_up_as(const char *mode)
{
    for (int m = AGENT_FROZEN; mode != NULL && m <= AGENT_NOOP; m++)
        if (strcmp(mode, agent_mode_name((enum agent_mode)m)) == 0)
            return agent_mode_name((enum agent_mode)m);
    return NULL;
}

static void take_process(struct run_record *r, const struct run_event *e)
{
    const struct run_event_process *p = &e->process;
    struct run_agent_status *a = p->agent != NULL ? agent_of(r, p->agent)
                                 : p->environment != NULL
                                     ? environment_of(r, p->environment)
                                     : NULL;

    if (a == NULL)
        return;
    switch (e->kind) {
    case RUN_EVENT_EXIT:
        note_exit(r, a, p);
        break;
    case RUN_EVENT_SPAWN:
    case RUN_EVENT_RESPAWN:
        a->restarts += e->kind == RUN_EVENT_RESPAWN;
        a->pid = p->pid;
        a->state = agent_state_name(AGENT_STARTING);
        break;
    case RUN_EVENT_READY:
        a->state = agent_state_name(AGENT_IDLE);
        break;
    case RUN_EVENT_WAIT:
        a->state = agent_state_name(AGENT_WAITING);
        break;
    case RUN_EVENT_GIVE_UP:
    case RUN_EVENT_MODE:
        r->gave_up = 1;
        r->status.exact = 0;
        a->given_up = given_up_as(p->mode);
        break;
    default:
        break;
    }
}

/* Finds a node's entry, or adds it. NULL: there are RUN_RECORD_NODES_MAX others already. */
static struct run_node_status *node_of(struct run_record *r, const char *name)
{
    for (size_t i = 0; i < r->n_nodes; i++)
        if (strcmp(r->nodes[i].name, name) == 0)
            return &r->nodes[i];
    if (r->n_nodes == RUN_RECORD_NODES_MAX)
        return NULL;
    r->nodes = xreallocarray(r->nodes, r->n_nodes + 1, sizeof(*r->nodes));
    r->nodes[r->n_nodes] = (struct run_node_status){.name = arena_strdup(&r->arena, name),
                                                    .state = "starting",
                                                    .agents = RUN_UNKNOWN};
    return &r->nodes[r->n_nodes++];
}

/* An equal text is not copied again, so repeated losses take no memory. */
static void keep_text(struct run_record *r, const char **at, const char *text)
{
    if (text != NULL && (*at == NULL || strcmp(*at, text) != 0))
        *at = arena_strdup(&r->arena, text);
}

static void take_node(struct run_record *r, const struct run_event *e)
{
    const struct run_event_node *from = &e->node;
    struct run_node_status *n = from->node != NULL ? node_of(r, from->node) : NULL;

    if (n == NULL)
        return;
    keep_text(r, &n->host, from->host);
    switch (e->kind) {
    case RUN_EVENT_NODE_START:
    case RUN_EVENT_NODE_RESTART:
        n->restarts += e->kind == RUN_EVENT_NODE_RESTART;
        n->state = "starting";
        break;
    case RUN_EVENT_NODE_CONNECT:
        n->pid = from->pid;
        n->state = "filling";
        break;
    case RUN_EVENT_NODE_UP:
        n->state = "up";
        break;
    case RUN_EVENT_NODE_LOST:
        n->pid = 0;
        n->state = "ending";
        keep_text(r, &n->why, from->why);
        break;
    case RUN_EVENT_NODE_WAIT:
        n->state = "waiting";
        break;
    case RUN_EVENT_NODE_GIVE_UP:
        n->state = "gone";
        break;
    default:
        break;
    }
}

/* A new supervisor began: removes the processes of the last one. */
static void take_beginning(struct run_record *r, const struct run_event *e)
{
    struct run_status *s = &r->status;

    copy(r->session_began, e->time);
    *r->stalled_since = '\0';
    copy(r->state, "starting");
    s->exit_code = -1;
    s->pid = e->begin.pid;
    s->keeper_pid = e->begin.keeper;
    s->exact = e->begin.anyway == NULL && !r->gave_up;
    copy(r->numerics, e->begin.numerics);
    s->not_portable = NULL;
    r->failure = NULL;
    s->env_steps = 0;
    s->round = s->episodes = RUN_UNKNOWN;
    for (size_t i = 0; i < r->n_agents; i++) {
        r->agents[i].last_exit = NULL;
        r->agents[i].given_up = NULL;
        r->agents[i].restarts = 0;
    }
    for (size_t i = 0; i < r->n_environments; i++) {
        r->environments[i].last_exit = NULL;
        r->environments[i].restarts = 0;
    }
    r->n_nodes = 0; /* it may have another cluster */
}

/* A keeper may record its supervisor's end after the next supervisor began, or after the
 * supervisor's own `end` if it was killed between that and its exit: ignore both. Only a
 * "done" that run_record_mark_done added replaces another end. */
static void take_end(struct run_record *r, const struct run_event *e)
{
    struct run_status *s = &r->status;
    const int is_done = e->end.state != NULL && strcmp(e->end.state, "done") == 0;

    if (e->end.pid != s->pid || e->end.state == NULL || (s->exit_code >= 0 && !is_done))
        return;
    if (is_done)
        r->failure = NULL;
    copy(r->state, e->end.state);
    s->exit_code = e->end.code >= 0 ? e->end.code & 0xff : RUN_EXIT_FAILED;
    s->episodes = e->end.episodes;
    s->round = e->end.rounds;
    s->team_return_mean = e->end.team_return;
    s->elapsed_s = isnan(e->end.seconds) ? -1 : e->end.seconds;
    for (size_t i = 0; i < r->n_agents; i++)
        r->agents[i].update = e->end.updates;
}

static int take_event(void *ctx, uint64_t line, const struct run_event *e)
{
    struct run_record *r = ctx;

    copy(r->newest_time, e->time);
    process_counts_take(&r->counts, e);
    switch (e->kind) {
    case RUN_EVENT_START:
    case RUN_EVENT_RESUME:
        take_beginning(r, e);
        break;
    case RUN_EVENT_END:
        take_end(r, e);
        break;
    case RUN_EVENT_STALLS:
        if (e->stall.pid == r->status.pid)
            copy(r->stalled_since, e->stall.since);
        break;
    case RUN_EVENT_GOES_ON:
        *r->stalled_since = '\0';
        break;
    case RUN_EVENT_INEXACT:
        r->status.exact = 0;
        break;
    case RUN_EVENT_NOT_PORTABLE:
        if (e->why != NULL)
            r->status.not_portable = arena_strdup(&r->arena, e->why);
        break;
    case RUN_EVENT_PAUSE:
        copy(r->state, "paused");
        break;
    case RUN_EVENT_CONTINUE:
        copy(r->state, "running");
        break;
    case RUN_EVENT_FAILED:
        r->failure = arena_strdup(&r->arena, e->error);
        copy(r->state, "stopping");
        break;
    case RUN_EVENT_STOP:
    case RUN_EVENT_DONE:
    case RUN_EVENT_STOPPED:
        copy(r->state, "stopping");
        break;
    case RUN_EVENT_READY:
        if (strcmp(r->state, "starting") == 0)
            copy(r->state, "running");
        take_process(r, e);
        break;
    case RUN_EVENT_SPAWN:
    case RUN_EVENT_HELLO:
    case RUN_EVENT_EXIT:
    case RUN_EVENT_RESPAWN:
    case RUN_EVENT_WAIT:
    case RUN_EVENT_GIVE_UP:
    case RUN_EVENT_REINSTATE:
    case RUN_EVENT_MODE:
        take_process(r, e);
        break;
    case RUN_EVENT_NODE_START:
    case RUN_EVENT_NODE_RESTART:
    case RUN_EVENT_NODE_CONNECT:
    case RUN_EVENT_NODE_UP:
    case RUN_EVENT_NODE_LOST:
    case RUN_EVENT_NODE_WAIT:
    case RUN_EVENT_NODE_GIVE_UP:
        take_node(r, e);
        break;
    default:
        break;
    }
    if (e->env_steps != JOURNAL_NO_STEP && e->env_steps > r->status.env_steps)
        r->status.env_steps = e->env_steps;
    return 0;
}

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

/* Sets the state. The lock takes precedence over the journal. */
static void set_state(struct run_record *r, const char *path, pid_t holder)
{
    struct run_status *s = &r->status;

    r->is_live = holder != 0;
    r->has_end = s->exit_code >= 0;
    r->is_denied = holder == 0 && !r->has_end && run_dir_denied(path, NULL) < 0;
    if (r->is_denied) {
        copy(r->state, "no permission");
    } else if (holder == 0 && r->is_unreadable) {
        copy(r->state, "unreadable");
        s->exit_code = RUN_EXIT_FAILED;
    } else if (holder == 0 && s->exit_code < 0) {
        copy(r->state, "killed");
        s->exit_code = RUN_EXIT_SIGNALLED + SIGKILL;
    } else if (holder != 0 && holder != s->pid) {
        copy(r->state, "starting");
        s->exit_code = -1;
        s->pid = holder;
        s->keeper_pid = 0;
    }
}

/* Sets what the journal records. */
static void take_journal(struct run_record *r, const char *path)
{
    char *journal = file_of(path, "journal");
    int rc;

    *r = (struct run_record){.status = {.exit_code = -1,
                                        .round = RUN_UNKNOWN,
                                        .episodes = RUN_UNKNOWN,
                                        .team_return_mean = (double)NAN,
                                        .elapsed_s = -1,
                                        .checkpoint_step = -1,
                                        .exact = 1},
                             .state = "starting"};
    rc = journal_each_event(journal, take_event, r, NULL);
    r->is_unreadable = rc < 0 && rc != ERR_NOT_FOUND;
    free(journal);
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

static int take_first(void *ctx, uint64_t line, const struct run_event *e)
{
    copy(ctx, e->time);
    return 1;
}

void run_record_began(const char *path, char ret[32])
{
    char *journal = file_of(path, "journal");

    *ret = '\0';
    (void)journal_each_event(journal, take_first, ret, NULL);
    free(journal);
}

void run_record_read(struct run_record *ret, const char *path)
{
    struct run_status *s = &ret->status;

    read_journal(ret, path);
    read_config(ret, path);
    read_progress(ret, path);
    read_checkpoints(ret, path);
    if (s->elapsed_s < 0)
        s->elapsed_s = journal_seconds(ret->session_began, ret->newest_time);
    if (!ret->is_live)
        s->pid = s->keeper_pid = 0;
    for (size_t i = 0; i < ret->n_agents && !ret->is_live; i++) {
        ret->agents[i].pid = 0;
        ret->agents[i].state = agent_state_name(AGENT_GONE);
    }
    for (size_t i = 0; i < ret->n_nodes && !ret->is_live; i++) {
        ret->nodes[i].pid = 0;
        ret->nodes[i].state = "gone";
    }
    for (size_t i = 0; i < ret->n_environments; i++) {
        struct run_agent_status *to = &ret->environments[i];

        to->count = process_counts_of(&ret->counts, to->name);
        if (ret->is_live)
            continue;
        to->pid = 0;
        to->state = agent_state_name(AGENT_GONE);
    }
    for (size_t i = 0; i < ret->n_agents; i++)
        ret->agents[i].count = process_counts_of(&ret->counts, ret->agents[i].name);
    ret->name = run_dir_name_of(path);
    s->run = ret->name;
    s->state = ret->state;
    s->numerics = *ret->numerics != '\0' ? ret->numerics : NULL;
    s->agents = ret->agents;
    s->n_agents = ret->n_agents;
    s->environments = ret->environments;
    s->n_environments = ret->n_environments;
    s->nodes = ret->nodes;
    s->n_nodes = ret->n_nodes;
}

void run_record_note_silence(struct run_record *r)
{
    struct run_status *s = &r->status;

    s->state = "not answering";
    s->stalled_since = *r->stalled_since != '\0' ? r->stalled_since : NULL;
    s->stalled_why = stall_text(s->pid, r->stalled_why);
}

static int append_end(const struct run_record *r, const char *path,
                      const struct rollout_progress *at, struct err *err)
{
    struct run_event e = {
        .kind = RUN_EVENT_END,
        .env_steps = at->env_steps,
        .end = {.state = "done",
                .code = RUN_EXIT_DONE,
                .pid = r->status.pid,
                .episodes = at->episodes,
                .rounds = at->round,
                .updates = at->updates,
                .restarts = MEMBER_NO_U64,
                .seconds = journal_seconds(r->session_began, r->newest_time),
                .team_return = r->status.team_return_mean}};
    char *file = file_of(path, "journal");
    struct journal *j = journal_new(file);
    int rc = journal_begin(j, err);

    (void)log_time(e.time);
    if (rc == 0)
        rc = journal_write(j, &e, err);
    journal_close(j);
    free(file);
    return rc;
}

int run_record_mark_done(const char *path, const struct rollout_progress *at,
                         struct err *err)
{
    struct run_record r;
    int rc = 0;

    take_journal(&r, path);
    if (strcmp(r.state, "done") != 0)
        rc = append_end(&r, path, at, err);
    run_record_done(&r);
    return rc;
}

void run_record_done(struct run_record *r)
{
    free(r->agents);
    free(r->environments);
    free(r->nodes);
    process_counts_done(&r->counts);
    arena_done(&r->arena);
    free(r->name);
    *r = (struct run_record){0};
}
