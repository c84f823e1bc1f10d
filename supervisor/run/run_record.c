#include "supervisor/run/run_record.h"

#include "common/config/run_config.h"
#include "common/mem/xmalloc.h"
#include "supervisor/env/env.h"
#include "supervisor/metrics/progress.h"
#include "supervisor/proc/agent_table.h"
#include "supervisor/run/journal_read.h"
#include "supervisor/run/run_dir.h"
#include "supervisor/save/checkpoint_read.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* ---- the journal ---- */

static void copy(char ret[32], const char *text)
{
    (void)snprintf(ret, 32, "%s", text != NULL ? text : "");
}

static void forget_not_portable(struct run_record *r)
{
    free(r->not_portable);
    r->not_portable = NULL;
}

/* Agents come in the same order again and again. NULL: there are too many. */
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
    if (r->n_agents == r->cap_agents) {
        r->cap_agents = r->cap_agents == 0 ? 8 : r->cap_agents * 2;
        r->agents = xreallocarray(r->agents, r->cap_agents, sizeof(*r->agents));
    }
    r->last_agent = r->n_agents++;
    r->agents[r->last_agent] = (struct run_agent_status){
        .name = xstrdup(name),
        .state = agent_state_name(AGENT_GONE),
        .rss_bytes = -1,
        .update = RUN_UNKNOWN,
    };
    return &r->agents[r->last_agent];
}

static void note_exit(struct run_agent_status *a, const struct journal_event *e)
{
    const char *by = journal_value(e, "limit"), *code = journal_value(e, "code");

    if (by == NULL)
        by = journal_value(e, "signal");
    free((char *)(uintptr_t)a->last_exit);
    a->last_exit = by != NULL     ? xstrdup(by)
                   : code != NULL ? xasprintf("code %.16s", code)
                                  : NULL;
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

static void take_agent(struct run_record *r, const struct journal_event *e)
{
    const char *name = journal_value(e, "agent");
    const pid_t pid = (pid_t)journal_number(e, "pid", 0);
    struct run_agent_status *a = name != NULL ? agent_of(r, name) : NULL;

    if (a == NULL)
        return;
    if (strcmp(e->name, "exit") == 0) {
        note_exit(a, e);
    } else if (strcmp(e->name, "spawn") == 0 || strcmp(e->name, "respawn") == 0) {
        a->restarts += *e->name == 'r';
        a->pid = pid;
        a->state = agent_state_name(AGENT_STARTING);
    } else if (strcmp(e->name, "ready") == 0) {
        a->state = agent_state_name(AGENT_IDLE);
    } else if (strcmp(e->name, "wait") == 0) {
        a->state = agent_state_name(AGENT_WAITING);
    } else if (strcmp(e->name, "give-up") == 0 || strcmp(e->name, "turned") == 0) {
        r->gave_up = 1;
        r->status.exact = 0;
        a->given_up = given_up_as(journal_value(e, "mode"));
    }
}

/* A supervisor begins: what is known of its predecessor's processes is past. */
static void take_beginning(struct run_record *r, const struct journal_event *e)
{
    struct run_status *s = &r->status;

    copy(r->session_began, e->time);
    copy(r->state, "starting");
    s->exit_code = -1;
    s->pid = (pid_t)journal_number(e, "pid", 0);
    s->keeper_pid = (pid_t)journal_number(e, "keeper", 0);
    /* An older one's way to say "inexact". */
    s->exact = journal_value(e, "anyway") == NULL && !r->gave_up;
    copy(r->numerics, journal_value(e, "numerics"));
    forget_not_portable(r);
    s->env_steps = 0;
    s->round = s->episodes = RUN_UNKNOWN;
    for (size_t i = 0; i < r->n_agents; i++) {
        free((char *)(uintptr_t)r->agents[i].last_exit);
        r->agents[i].last_exit = NULL;
        r->agents[i].given_up = NULL;
        r->agents[i].restarts = 0;
    }
}

/* The keeper of one supervisor may write only after the next one began. */
static void take_end(struct run_record *r, const struct journal_event *e)
{
    const char *state = journal_value(e, "state");
    struct run_status *s = &r->status;

    if ((pid_t)journal_number(e, "pid", 0) != s->pid || state == NULL)
        return;
    copy(r->state, state);
    s->exit_code = (int)(journal_number(e, "code", RUN_EXIT_FAILED) & 0xff);
    s->episodes = journal_number(e, "episodes", RUN_UNKNOWN);
    s->round = journal_number(e, "rounds", RUN_UNKNOWN);
    s->team_return_mean = journal_real(e, "return", (double)NAN);
    s->elapsed_s = journal_real(e, "seconds", -1);
    for (size_t i = 0; i < r->n_agents; i++)
        r->agents[i].update = journal_number(e, "updates", RUN_UNKNOWN);
}

/* What a line tells of the run as a whole; NULL: nothing. */
static const char *state_after(const struct run_record *r, const char *event)
{
    static const char *const states[][2] = {
        {"pause", "paused"},  {"continue", "running"}, {"stop", "stopping"},
        {"done", "stopping"}, {"stopped", "stopping"}, {"failed", "stopping"},
    };

    for (size_t i = 0; i < sizeof(states) / sizeof(states[0]); i++)
        if (strcmp(event, states[i][0]) == 0)
            return states[i][1];
    return strcmp(event, "ready") == 0 && strcmp(r->state, "starting") == 0 ? "running"
                                                                            : NULL;
}

static int take_event(void *ctx, uint64_t line, const struct journal_event *e)
{
    struct run_record *r = ctx;
    const char *state = state_after(r, e->name);

    (void)line;
    copy(r->newest_time, e->time);
    if (state != NULL)
        copy(r->state, state);
    if (strcmp(e->name, "inexact") == 0)
        r->status.exact = 0;
    if (strcmp(e->name, "not-portable") == 0 && journal_value(e, "why") != NULL) {
        forget_not_portable(r);
        r->not_portable = xstrdup(journal_value(e, "why"));
    }
    if (strcmp(e->name, "start") == 0 || strcmp(e->name, "resume") == 0)
        take_beginning(r, e);
    else if (strcmp(e->name, "end") == 0)
        take_end(r, e);
    else
        take_agent(r, e);
    if (e->env_steps != JOURNAL_NO_STEP && e->env_steps > r->status.env_steps)
        r->status.env_steps = e->env_steps;
    return 0;
}

/* ---- the other files ---- */

static char *file_of(const char *path, const char *sub)
{
    return xasprintf("%s/%s", path, sub);
}

static void read_config(struct run_record *r, const char *path)
{
    const struct config_options options = {.env_names = env_agent_names};
    char *file = file_of(path, "config.yaml");
    struct run_config config;

    if (run_config_read(&config, file, &options, NULL) == 0) {
        r->status.total_steps = (uint64_t)config.run.env_steps;
        r->status.total_episodes = (uint64_t)config.run.episodes;
        run_config_done(&config);
    }
    free(file);
}

/* Rows come oftener than lines of the journal. */
static void read_progress(struct run_record *r, const char *path)
{
    char *file = file_of(path, "metrics/progress.csv");
    struct run_status *s = &r->status;
    struct progress *p;

    if (progress_read(&p, file, NULL) == 0) {
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

static double seconds_between(const char *from, const char *to)
{
    struct tm a = {0}, b = {0};

    if (strptime(from, "%Y-%m-%dT%H:%M:%S", &a) == NULL ||
        strptime(to, "%Y-%m-%dT%H:%M:%S", &b) == NULL)
        return 0;
    return fmax(0, difftime(timegm(&b), timegm(&a)));
}

/* ---- all of it ---- */

/* The lock knows better than the journal. */
static void judge(struct run_record *r, const char *path, pid_t holder)
{
    struct run_status *s = &r->status;

    r->is_live = holder != 0;
    r->has_end = s->exit_code >= 0;
    r->is_denied = holder == 0 && !r->has_end && run_dir_denied(path, NULL) < 0;
    if (r->is_denied) {
        copy(r->state, "no permission");
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

static void read_journal(struct run_record *r, const char *path)
{
    char *journal = file_of(path, "journal");
    pid_t holder = run_dir_holder(path); /* before it ends it writes its end */

    *r = (struct run_record){.status = {.exit_code = -1,
                                        .round = RUN_UNKNOWN,
                                        .episodes = RUN_UNKNOWN,
                                        .team_return_mean = (double)NAN,
                                        .elapsed_s = -1,
                                        .checkpoint_step = -1,
                                        .exact = 1},
                             .state = "starting"};
    (void)journal_each(journal, take_event, r, NULL);
    free(journal);
    if (holder == 0 && r->status.exit_code < 0)
        holder = run_dir_holder(path); /* another one has begun */
    judge(r, path, holder);
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

static int take_first(void *ctx, uint64_t line, const struct journal_event *e)
{
    (void)line;
    copy(ctx, e->time);
    return 1;
}

void run_record_began(const char *path, char ret[32])
{
    char *journal = file_of(path, "journal");

    *ret = '\0';
    (void)journal_each(journal, take_first, ret, NULL);
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
        s->elapsed_s = seconds_between(ret->session_began, ret->newest_time);
    if (!ret->is_live)
        s->pid = s->keeper_pid = 0;
    for (size_t i = 0; i < ret->n_agents && !ret->is_live; i++) {
        ret->agents[i].pid = 0;
        ret->agents[i].state = agent_state_name(AGENT_GONE);
    }
    ret->name = run_dir_name_of(path);
    s->run = ret->name;
    s->state = ret->state;
    s->numerics = *ret->numerics != '\0' ? ret->numerics : NULL;
    s->not_portable = ret->not_portable;
    s->agents = ret->agents;
    s->n_agents = ret->n_agents;
}

void run_record_done(struct run_record *r)
{
    for (size_t i = 0; i < r->n_agents; i++) {
        free((char *)(uintptr_t)r->agents[i].name);
        free((char *)(uintptr_t)r->agents[i].last_exit);
    }
    free(r->agents);
    free(r->not_portable);
    free(r->name);
    *r = (struct run_record){0};
}
