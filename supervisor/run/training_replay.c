/* A replay runs a part of a run again and changes nothing on disk (training.h). Here is
 * what such a run does differently. */
#include "supervisor/run/training_internal.h"

#include "common/config/yaml_tree.h"
#include "common/mem/xmalloc.h"

#include <stdlib.h>
#include <string.h>

/* Requests that only a replay sends: before the first round they ask which of the probe's
 * tensors each process has, after the last round they fetch these tensors' values. */
struct training_asking {
    struct training *t;
    size_t outstanding; /* requests */
    uint8_t *has;       /* [agents][names] the process has that tensor */
    struct err missing; /* the error of the first process that lacks a tensor */
    size_t missing_of;
    size_t *next; /* [agents] index of the name to fetch next, after the last round */
};

static const struct probe *probe_of(const struct training *t)
{
    return t->args->probe;
}

static int asks(const struct training *t, size_t agent)
{
    const char *only = probe_of(t)->agent;

    return only == NULL || strcmp(only, t->specs.spec[agent].name) == 0;
}

/* ---- before the first round: do the tensors exist? ---- */

/* Refuses a tensor that no process has: its name may be misspelt. */
static int check_names(struct training_asking *q, struct err *err)
{
    const struct probe *p = probe_of(q->t);

    for (size_t i = 0; i < p->n; i++) {
        int n = 0;

        for (size_t a = 0; a < q->t->specs.n; a++)
            n += q->has[a * p->n + i];
        if (n == 0)
            return q->missing.code != 0
                       ? err_pass(err, &q->missing)
                       : err_set(err, ERR_ARG, "no process has a tensor '%s'",
                                 p->fetches[i]);
    }
    return 0;
}

static void on_found(void *ctx, size_t agent, const struct msg *response)
{
    struct training_asking *q = ctx;
    const struct probe *p = probe_of(q->t);
    const msgpack_object *missing = NULL;
    struct err err = {0};

    (void)msg_get_array(&response->body, "missing", &missing, NULL);
    for (size_t i = 0; missing != NULL && i < p->n && i < missing->via.array.size; i++) {
        const msgpack_object *o = &missing->via.array.ptr[i];

        if (o->type == MSGPACK_OBJECT_STR && o->via.str.size == 0)
            q->has[agent * p->n + i] = 1;
        else if (o->type == MSGPACK_OBJECT_STR &&
                 (q->missing.code == 0 || agent < q->missing_of)) {
            q->missing_of = agent;
            (void)err_set(&q->missing, ERR_ARG, "%s: %.*s", q->t->specs.spec[agent].name,
                          (int)o->via.str.size, o->via.str.ptr);
        }
    }
    if (--q->outstanding > 0 || life_state_is_ending(q->t->state))
        return;
    if (check_names(q, &err) < 0)
        training_fail(q->t, &err);
    else
        training_start_rollout(q->t);
}

static int ask_names(struct training_asking *q, size_t agent, struct err *err)
{
    const struct probe *p = probe_of(q->t);
    struct msg_out *o = agent_request_begin(q->t->agents, agent, "find", 0);
    int rc;

    msg_map(o, 1);
    msg_key(o, "fetches");
    msg_array(o, p->n);
    for (size_t i = 0; i < p->n; i++)
        msg_str(o, p->fetches[i]);
    agent_request_uncounted(q->t->agents, agent);
    rc = agent_request_send(q->t->agents, agent, on_found, q, err);
    if (rc == 0)
        q->outstanding++;
    return rc;
}

static int check_agent(const struct training *t, struct err *err)
{
    const char *only = probe_of(t)->agent;
    const char **names;

    if (only == NULL || agent_table_find(t->agents, only) < t->specs.n)
        return 0;
    (void)err_set(err, ERR_ARG, "no process is named '%s'", only);
    names = xcalloc(t->specs.n, sizeof(*names));
    for (size_t i = 0; i < t->specs.n; i++)
        names[i] = t->specs.spec[i].name;
    (void)yaml_add_nearest(err, only, names, t->specs.n);
    free(names);
    return ERR_ARG;
}

static void on_watched(void *ctx, double value)
{
    struct training *t = ctx;
    struct rollout_progress at;

    rollout_progress(t->rollout, &at);
    t->replay_is_over |= t->args->replay->on_value(t->args->replay->ctx, &at, value);
}

static void on_ready(struct training *t)
{
    struct training_asking *q = t->asking = xcalloc(1, sizeof(*q));
    const size_t n = probe_of(t)->n;
    struct err err = {0};
    int rc;

    if (t->args->replay->column != NULL)
        metrics_watch(t->metrics, t->args->replay->column, on_watched, t);
    q->t = t;
    q->has = xcalloc(t->specs.n * n + 1, 1);
    q->next = xcalloc(t->specs.n + 1, sizeof(*q->next));
    rc = check_agent(t, &err);
    for (size_t i = 0; rc == 0 && n > 0 && i < t->specs.n; i++)
        if (asks(t, i))
            rc = ask_names(q, i, &err);
    if (rc < 0)
        training_fail(t, &err);
    else if (q->outstanding == 0)
        training_start_rollout(t);
}

/* ---- rounds ---- */

/* When a round is over, or was cut short by a failure. An error ends the run. */
static int end_round(struct training *t, int is_last)
{
    const struct training_replay *r = t->args->replay;
    struct err err = {0};
    int rc = r->on_round(r->ctx, t->store, is_last, &err);

    t->replay_is_over |= rc > 0;
    if (rc < 0)
        training_fail(t, &err);
    else if (t->replay_is_over)
        rollout_request_stop(t->rollout);
    return rc < 0 ? rc : 0;
}

static void on_traced(void *ctx, const struct training_trace_result *result,
                      const struct err *why)
{
    struct training_replay *r = ctx;

    if (result == NULL)
        (void)err_set(&r->trace_error, why->code, "--trace: %s", why->msg);
}

/* Ends the round before this one, and records this one if it is the probe's. */
static int begin_round(struct training *t, uint64_t env_steps)
{
    struct training_replay *r = t->args->replay;
    int rc = end_round(t, 0);

    if (rc == 0 && r->trace != NULL && t->trace == NULL &&
        probe_is_round(probe_of(t), env_steps, vec_env_copies(t->env)))
        (void)training_trace(t, 1, r->trace, on_traced, NULL, r, NULL);
    return rc;
}

static int on_row(void *ctx, const struct metrics_row *row, struct err *err)
{
    struct training *t = ctx;

    training_event(t, ROW, .row = row);
    return 0;
}

static int on_checkpoint(void *ctx, const struct rollout_progress *at, struct err *err)
{
    return 0;
}

static void on_failed(struct training *t)
{
    (void)end_round(t, 1);
}

/* ---- after the last round: tensors that need no feeds, such as variables ---- */

static int fetch_next(struct training_asking *q, size_t agent, struct err *err);

static void on_fetched(void *ctx, size_t agent, const struct msg *response)
{
    struct training_asking *q = ctx;
    struct training *t = q->t;
    const struct probe *p = probe_of(t);
    const msgpack_object *fetched = NULL;
    const struct probe_place at = {.agent = t->specs.spec[agent].name,
                                   .stage = PROBE_AFTER,
                                   .step = training_steps(t)};
    struct probe_value v = {.at = &at, .name = p->fetches[q->next[agent] - 1]};
    struct tensor value;
    struct err err = {0};

    q->outstanding--;
    if (life_state_is_ending(t->state))
        return;
    (void)msg_get_array(&response->body, "fetched", &fetched, NULL);
    if (fetched != NULL && fetched->via.array.size == 1 &&
        msg_to_tensor(&fetched->via.array.ptr[0], v.name, &value, NULL) == 0) {
        v.value = &value;
        p->on_value(p->ctx, &v);
    }
    if (fetch_next(q, agent, &err) < 0)
        training_fail(t, &err);
    else if (q->outstanding == 0)
        training_feed(t, LIFE_EV_DONE, NULL);
}

/* Fetches one tensor per request, because an agent refuses a whole request if one of its
 * tensors needs feeds. */
static int fetch_next(struct training_asking *q, size_t agent, struct err *err)
{
    const struct probe *p = probe_of(q->t);
    struct msg_out *o;
    size_t i = q->next[agent];
    int rc;

    while (i < p->n && !q->has[agent * p->n + i])
        i++;
    q->next[agent] = i + 1;
    if (i >= p->n)
        return 0;
    o = agent_request_begin(q->t->agents, agent, "run", 0);
    msg_map(o, 1);
    msg_key(o, "fetches");
    msg_array(o, 1);
    msg_str(o, p->fetches[i]);
    agent_request_uncounted(q->t->agents, agent);
    rc = agent_request_send(q->t->agents, agent, on_fetched, q, err);
    if (rc == 0)
        q->outstanding++;
    return rc;
}

static void on_done(struct training *t)
{
    struct err err = {0};
    int rc = 0;

    if (end_round(t, 1) < 0)
        return;
    for (size_t i = 0; rc == 0 && i < t->specs.n; i++)
        rc = fetch_next(t->asking, i, &err);
    if (rc < 0)
        training_fail(t, &err);
    else if (t->asking->outstanding == 0)
        training_feed(t, LIFE_EV_DONE, NULL);
}

void training_replay_free(struct training *t)
{
    struct training_asking *q = t->asking;

    if (q == NULL)
        return;
    free(q->has);
    free(q->next);
    free(q);
}

/* ---- what a replay leaves out ---- */

static void begin(struct training *t)
{
}

static int open_files(struct training *t, struct err *err)
{
    t->store = t->args->replay->store;
    t->args->replay->store = NULL;
    return 0;
}

static int succeed(struct training *t, struct err *err)
{
    return 0;
}

static void finish(struct training *t, int rc)
{
}

const struct training_kind training_replayed = {
    .begin = begin,
    .open_files = open_files,
    .on_ready = on_ready,
    .commit_resume = succeed,
    .open_outputs = succeed,
    .begin_round = begin_round,
    .on_row = on_row,
    .on_checkpoint = on_checkpoint,
    .on_done = on_done,
    .on_failed = on_failed,
    .finish = finish,
};
