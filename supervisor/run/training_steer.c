/* Requests to a live run: pause, continue, checkpoint, stop, kill, respawn, drive. */
#include "supervisor/run/training_internal.h"

#include "common/mem/xmalloc.h"

#include <stdlib.h>
#include <string.h>

enum wait_kind { WAIT_PAUSE, WAIT_CHECKPOINT, WAIT_STOP, WAIT_RESPAWN };

/* A request that has not been answered yet. */
struct training_wait {
    enum wait_kind kind;
    uint64_t step; /* CHECKPOINT: the first boundary whose checkpoint answers it */
    size_t agent;  /* RESPAWN */
    training_done_fn fn;
    void *ctx;
    struct training_wait *next;
};

/* ---- waiting ---- */

static struct training_wait *add_wait(struct training *t, enum wait_kind kind,
                                      training_done_fn fn, void *ctx)
{
    struct training_wait *w = xcalloc(1, sizeof(*w)), **end = &t->waits;

    while (*end != NULL)
        end = &(*end)->next;
    w->kind = kind;
    w->fn = fn;
    w->ctx = ctx;
    *end = w;
    return w;
}

/* value: for CHECKPOINT, the step of the checkpoint; for RESPAWN, the agent. */
static int is_answered(const struct training_wait *w, enum wait_kind kind, uint64_t value)
{
    return w->kind == kind && (kind != WAIT_CHECKPOINT || w->step <= value) &&
           (kind != WAIT_RESPAWN || w->agent == value);
}

/* step: at which the request was fulfilled. */
static void answer_wait(struct training_wait **at, uint64_t step, const struct err *why)
{
    struct training_wait *w = *at;

    *at = w->next;
    w->fn(w->ctx, step, why);
    free(w);
}

/* Starts again at the front after each answer, because its callback may add and remove
 * requests. */
static void answer_waits(struct training *t, enum wait_kind kind, uint64_t value,
                         const struct err *why)
{
    struct training_wait **at = &t->waits;

    while (*at != NULL) {
        if (is_answered(*at, kind, value)) {
            answer_wait(at, kind == WAIT_CHECKPOINT ? value : training_steps(t), why);
            at = &t->waits;
        } else {
            at = &(*at)->next;
        }
    }
}

void training_answer_pause(struct training *t, const struct err *why)
{
    answer_waits(t, WAIT_PAUSE, 0, why);
}

void training_answer_checkpoint(struct training *t, uint64_t step, const struct err *why)
{
    answer_waits(t, WAIT_CHECKPOINT, step, why);
}

void training_answer_respawn(struct training *t, size_t agent)
{
    answer_waits(t, WAIT_RESPAWN, agent, NULL);
}

void training_refuse_respawn(struct training *t, size_t agent, const char *why)
{
    struct err err = {0};

    (void)err_set(&err, ERR_STATE, "%s was given up: %s", t->specs.spec[agent].name, why);
    answer_waits(t, WAIT_RESPAWN, agent, &err);
}

/* First the stop requests, which the end of the run fulfils; all others get an error. */
void training_answer_all(struct training *t)
{
    const struct err *failure = t->failure.code < 0 ? &t->failure : NULL;
    struct err over = {0};

    (void)err_set(&over, ERR_STATE, "the run is over");
    training_trace_end(t);
    answer_waits(t, WAIT_STOP, 0, failure);
    while (t->waits != NULL)
        answer_wait(&t->waits, training_steps(t), failure != NULL ? failure : &over);
}

/* ---- requests ---- */

static int check_not_ending(const struct training *t, struct err *err)
{
    return life_state_is_ending(t->state) ? err_set(err, ERR_STATE, "the run is stopping")
                                          : 0;
}

void training_end_restart_delays(struct training *t)
{
    for (size_t i = 0; i < agent_table_count(t->agents); i++) {
        struct agent_info info;

        agent_table_info(t->agents, i, &info);
        if (info.state == AGENT_WAITING)
            (void)agent_table_respawn(t->agents, i, NULL); /* refused by a noop */
    }
}

int training_pause(struct training *t, training_done_fn fn, void *ctx, struct err *err)
{
    int rc = check_not_ending(t, err);

    if (rc < 0)
        return rc;
    if (life_state_is_paused(t->state)) {
        fn(ctx, training_steps(t), NULL);
        return 0;
    }
    (void)add_wait(t, WAIT_PAUSE, fn, ctx);
    training_end_restart_delays(t);
    if (t->rollout != NULL)
        rollout_request_pause(t->rollout);
    return 0;
}

int training_continue(struct training *t, struct err *err)
{
    struct err why = {0};
    int rc = check_not_ending(t, err);

    if (rc < 0)
        return rc;
    (void)err_set(&why, ERR_STATE, "another request continued the run");
    training_answer_pause(t, &why);
    training_feed(t, LIFE_EV_CONTINUE, NULL);
    if (t->rollout != NULL)
        rollout_request_continue(t->rollout);
    return 0;
}

/* A checkpoint delays the run, so requests are granted at most once a tick. */
void training_begin_checkpoint(struct training *t)
{
    const uint64_t now = uv_now(&t->loop);

    if (!t->saves.is_wanted || t->rollout == NULL || now < t->saves.next_ms)
        return;
    t->saves.is_wanted = 0;
    t->saves.next_ms = now + TRAINING_TICK_MS;
    rollout_request_checkpoint(t->rollout);
}

int training_checkpoint(struct training *t, training_done_fn fn, void *ctx,
                        struct err *err)
{
    uint64_t step =
        t->rollout != NULL ? rollout_next_change_step(t->rollout) : training_steps(t);
    int rc = check_not_ending(t, err);

    if (rc < 0)
        return rc;
    if (t->saves.step >= 0 && (uint64_t)t->saves.step >= step) {
        fn(ctx, (uint64_t)t->saves.step, NULL);
        return 0;
    }
    add_wait(t, WAIT_CHECKPOINT, fn, ctx)->step = step;
    training_end_restart_delays(t);
    t->saves.is_wanted = 1;
    training_begin_checkpoint(t);
    return 0;
}

void training_stop(struct training *t, training_done_fn fn, void *ctx)
{
    if (fn != NULL)
        (void)add_wait(t, WAIT_STOP, fn, ctx);
    training_feed(t, LIFE_EV_STOP, NULL);
}

void training_begin_requests(struct training *t)
{
    for (const struct training_wait *w = t->waits; w != NULL; w = w->next)
        if (w->kind == WAIT_PAUSE)
            rollout_request_pause(t->rollout);
}

/* ---- agents, numbered from 0, and after them the processes of an external environment
 * ---- */

static size_t find_environment(const struct training *t, const char *name)
{
    const size_t n = env_host_count(t->env_host);

    for (size_t i = 0; i < n; i++) {
        struct agent_info info;

        env_host_info(t->env_host, i, &info);
        if (strcmp(info.name, name) == 0)
            return i;
    }
    return n;
}

void training_answer_env_respawn(struct training *t, const char *process)
{
    training_answer_respawn(t,
                            agent_table_count(t->agents) + find_environment(t, process));
}

int training_find_agent(const struct training *t, const char *name, size_t *ret,
                        struct err *err)
{
    size_t n = agent_table_count(t->agents);
    char known[256] = "";

    *ret = agent_table_find(t->agents, name);
    if (*ret < n)
        return 0;
    *ret = n + find_environment(t, name);
    if (*ret < n + env_host_count(t->env_host))
        return 0;
    for (size_t i = 0; i < n && strlen(known) + AGENT_NAME_MAX + 2 < sizeof(known); i++) {
        (void)strcat(known, i > 0 ? ", " : "");
        (void)strcat(known, t->specs.spec[i].name);
    }
    return err_set(err, ERR_NOT_FOUND, "there is no agent %s; there are: %s", name,
                   known);
}

int training_kill(struct training *t, size_t agent, struct err *err)
{
    const size_t n = agent_table_count(t->agents);
    int rc = check_not_ending(t, err);

    if (rc < 0)
        return rc;
    return agent < n ? agent_table_kill(t->agents, agent, err)
                     : env_host_kill(t->env_host, agent - n, err);
}

int training_respawn(struct training *t, size_t agent, training_done_fn fn, void *ctx,
                     struct err *err)
{
    const size_t n = agent_table_count(t->agents);
    struct agent_info was = {.mode = AGENT_LEARNS};
    int rc = check_not_ending(t, err);

    if (rc == 0 && t->rollout != NULL && agent < t->config->n_agents)
        rc = training_apply_waiting(t, agent, err);
    if (rc >= 0 && agent < n) {
        agent_table_info(t->agents, agent, &was);
        agent_table_reinstate(t->agents, agent);
    }
    if (rc == 0)
        rc = agent < n ? agent_table_respawn(t->agents, agent, err)
                       : env_host_respawn(t->env_host, agent - n, err);
    /* its process has just died; the next one learns again */
    if (rc == ERR_STATE && was.mode != AGENT_LEARNS)
        rc = 0;
    if (rc >= 0 && fn != NULL)
        add_wait(t, WAIT_RESPAWN, fn, ctx)->agent = agent;
    return rc < 0 ? rc : 0;
}

int training_is_driven(const struct training *t)
{
    return strcmp(t->config->env.id, "none") == 0;
}

int training_drive(struct training *t, size_t agent, const msgpack_object *params,
                   rollout_run_fn fn, void *ctx, struct err *err)
{
    int rc = check_not_ending(t, err);

    if (rc < 0)
        return rc;
    if (t->rollout == NULL)
        return err_set(err, ERR_STATE, "the run is starting");
    if (agent >= t->config->n_agents)
        return err_set(err, ERR_NOT_FOUND, "only agents can be driven");
    return rollout_run(t->rollout, agent, params, fn, ctx, err);
}
