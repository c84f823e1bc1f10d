/* Clients' requests: without an environment the driver serves them in the ACT state; with
 * one, those that only fetch, between two rounds or while the run is paused. */
#include "supervisor/rollout/rollout_internal.h"

#include "common/err/check.h"
#include "common/mem/xmalloc.h"
#include "common/msg/frame.h"

#include <stdlib.h>
#include <string.h>

enum {
    NAME_MAX_BYTES = 1023,   /* the agents' limit */
    ENVELOPE_MAX_BYTES = 256 /* of a frame, around the params */
};

/* Limits on the number and the total size of queued requests. */
enum { WAITING_MAX = 4096, WAITING_MAX_BYTES = 512 << 20 };

struct served { /* a client's request */
    struct served *next;
    msgpack_sbuffer params; /* feeds, fetches, targets: pairs of a map */
    size_t n_pairs;
    int writes;
    rollout_run_fn fn; /* NULL: it has been called */
    void *ctx;
};

struct queue { /* of one agent; busy: the first request has been sent */
    struct served *first, **end;
    int busy;
    uint64_t counter; /* requests sent so far */
};

struct serving {
    struct queue *queues; /* [A] */
    size_t outstanding;   /* busy agents */
    size_t n_waiting, waiting_bytes;
    uint64_t boundary_steps; /* of the last boundary */
    uint64_t saved_steps;    /* of the last checkpoint; there is one at 0 */
    struct due boundary;     /* due at the next boundary, if wanted is 1 */
    int wanted;              /* a boundary is due: send no request before it */
    /* with an environment: */
    size_t left; /* requests to send before the round begins */
    /* Deferred because agents are busy in a pause; each once, in the order in which they
     * came last. */
    struct rollout_events events;
    uint64_t looked_at, n_looks; /* step of the newest request, and requests at it */
};

/* ---- creating, saving, freeing ---- */

static struct serving *new_serving(struct rollout *r)
{
    struct serving *s = xcalloc(1, sizeof(*s));

    s->queues = xcalloc(r->n_agents, sizeof(*s->queues));
    for (size_t a = 0; a < r->n_agents; a++)
        s->queues[a].end = &s->queues[a].first;
    return s;
}

void rollout_serve_init(struct rollout *r)
{
    r->serving = new_serving(r);
    r->copies = 0; /* rounds make no environment steps */
}

void rollout_look_init(struct rollout *r)
{
    r->looking = new_serving(r);
}

static struct served *take_first(struct serving *s, struct queue *q)
{
    struct served *x = q->first;

    q->first = x->next;
    if (q->first == NULL)
        q->end = &q->first;
    s->n_waiting--;
    s->waiting_bytes -= x->params.size;
    return x;
}

static void served_free(struct served *x)
{
    msgpack_sbuffer_destroy(&x->params);
    free(x);
}

static void free_serving(struct serving *s, size_t n_agents)
{
    if (s == NULL)
        return;
    for (size_t a = 0; a < n_agents; a++)
        while (s->queues[a].first != NULL)
            served_free(take_first(s, &s->queues[a]));
    free(s->queues);
    free(s);
}

void rollout_serve_free(struct rollout *r)
{
    free_serving(r->serving, r->n_agents);
    free_serving(r->looking, r->n_agents);
}

void rollout_serve_save(const struct rollout *r, struct wbuf *b)
{
    /* A request in progress is not saved, so that it does not count. */
    for (size_t a = 0; r->serving != NULL && a < r->n_agents; a++)
        wbuf_u64(b, r->serving->queues[a].counter - (r->serving->queues[a].busy != 0));
}

void rollout_serve_load(struct rollout *r, struct cursor *c)
{
    if (r->serving == NULL)
        return;
    for (size_t a = 0; a < r->n_agents; a++)
        r->serving->queues[a].counter = cursor_u64(c);
    r->serving->boundary_steps = r->serving->saved_steps = r->env_steps;
}

/* ---- boundaries ---- */

/* Whether something is due or requested for which the agents have to be idle. */
static int wants_boundary(struct rollout *r)
{
    struct serving *s = r->serving;
    const struct rollout_fsm *f = &r->fsm;
    const struct due_at now = {.before = s->boundary_steps,
                               .steps = r->env_steps,
                               .episodes = r->episodes,
                               .since_checkpoint_ns =
                                   rollout_now_ns(r) - r->checkpoint_ns};

    s->boundary = rollout_due(r, &now);
    s->boundary.updates = 0;
    s->boundary.evaluate = 0;
    if (!s->boundary.end && r->env_steps == s->saved_steps)
        s->boundary.checkpoint = 0;
    s->wanted = f->stop || f->pause || f->checkpoint || f->change ||
                r->env_steps >= r->change_at || s->boundary.end ||
                s->boundary.checkpoint || s->boundary.log;
    return s->wanted;
}

static void pump(struct rollout *r);

/* Sends requests to idle agents. If a boundary is due, sends none, and makes the boundary
 * once no agent is busy. */
static void continue_serving(struct rollout *r)
{
    if (r->over || r->fsm.state != ROLLOUT_ACT)
        return;
    if (!wants_boundary(r))
        pump(r);
    else if (r->serving->outstanding == 0)
        rollout_resume(r);
}

void rollout_tick(struct rollout *r)
{
    if (r->serving != NULL)
        continue_serving(r);
}

int rollout_serve(struct rollout *r)
{
    if (wants_boundary(r))
        return DONE_AT_ONCE;
    pump(r);
    return WAITS;
}

void rollout_serve_unsaved(struct rollout *r)
{
    if (r->serving != NULL)
        r->serving->saved_steps = UINT64_MAX;
}

void rollout_serve_boundary(struct rollout *r)
{
    struct serving *s = r->serving;

    r->round++;
    s->boundary_steps = r->env_steps;
    if (s->boundary.checkpoint || r->fsm.checkpoint || r->fsm.stop)
        s->saved_steps = r->env_steps;
    s->wanted = 0;
    rollout_fsm_set_due(&r->fsm, &s->boundary);
    rollout_note_change(r);
}

/* ---- requests ---- */

static void answer(struct served *x, const msgpack_object *result, const struct err *why)
{
    if (x->fn != NULL)
        x->fn(x->ctx, result, why);
    served_free(x);
}

/* Takes the agent's request from its queue and answers it. */
static void answer_first(struct rollout *r, struct serving *s, size_t agent,
                         const struct msg *response)
{
    struct queue *q = &s->queues[agent];
    struct served *x = take_first(s, q);
    struct err why = {0};

    q->busy = 0;
    s->outstanding--;
    if (agent_response_is_absent(response))
        (void)err_set(&why, ERR_AGENT, "%s was given up", r->names[agent]);
    else
        (void)msg_refused(&response->body, &why);
    r->env_steps += x->writes && !agent_response_is_absent(response);
    answer(x, why.code == 0 ? &response->body : NULL, why.code == 0 ? NULL : &why);
}

static void on_run(void *ctx, size_t agent, const struct msg *response)
{
    struct rollout *r = ctx;

    answer_first(r, r->serving, agent, response);
    continue_serving(r);
}

static struct msg_out *begin_run(struct rollout *r, size_t agent, const struct served *x,
                                 uint64_t counter)
{
    struct msg_out *o = agent_request_begin(r->args.agents, agent, "run", x->writes);

    msg_map(o, x->n_pairs + 1);
    (void)msgpack_sbuffer_write(&o->buf, x->params.data, x->params.size);
    msg_put_u64(o, "counter", counter);
    return o;
}

static int send_first(struct rollout *r, size_t agent, struct err *err)
{
    struct queue *q = &r->serving->queues[agent];
    int rc;

    agent_table_begin_round(r->args.agents, agent); /* every request is a round's first */
    (void)begin_run(r, agent, q->first, q->counter);
    rc = agent_request_send(r->args.agents, agent, on_run, r, err);
    if (rc < 0)
        return rc;
    q->busy = 1;
    q->counter++;
    r->serving->outstanding++;
    return 0;
}

uint64_t rollout_serve_writing(const struct rollout *r)
{
    uint64_t n = 0;

    for (size_t a = 0; a < r->n_agents; a++) {
        const struct queue *q = &r->serving->queues[a];

        n += q->busy != 0 && q->first->writes != 0;
    }
    return n;
}

/* Whether a change comes before the request: then it waits until the writes before it are
 * answered. */
static int is_after_change(const struct rollout *r, const struct served *x)
{
    return x->writes && r->env_steps + rollout_serve_writing(r) >= r->change_at;
}

static void pump(struct rollout *r)
{
    struct err err = {0};

    for (size_t a = 0; a < r->n_agents && !r->over; a++) {
        struct queue *q = &r->serving->queues[a];

        if (!q->busy && q->first != NULL && !is_after_change(r, q->first) &&
            send_first(r, a, &err) < 0)
            rollout_fail(r, &err);
    }
}

/* ---- with an environment: requests that only fetch ---- */

enum { LOOKS_SHIFT = 16 };

/* Returns the counter of a request's draws: the step, and the number of requests before
 * it at that step. So a resumed run uses new keys at later steps; no counter is saved. */
static uint64_t look_counter(struct rollout *r)
{
    struct serving *s = r->looking;

    if (s->looked_at != r->env_steps)
        s->n_looks = 0;
    s->looked_at = r->env_steps;
    return (r->env_steps << LOOKS_SHIFT) + s->n_looks++;
}

static void look(struct rollout *r);

static void on_looked(void *ctx, size_t agent, const struct msg *response)
{
    struct rollout *r = ctx;

    answer_first(r, r->looking, agent, response);
    if (!r->over)
        look(r);
}

static void send_looks(struct rollout *r)
{
    struct serving *s = r->looking;
    struct err err = {0};

    for (size_t a = 0; a < r->n_agents && !r->over; a++) {
        struct queue *q = &s->queues[a];

        if (q->busy || q->first == NULL || s->left == 0)
            continue;
        (void)begin_run(r, a, q->first, look_counter(r));
        agent_request_uncounted(r->args.agents, a);
        if (agent_request_send(r->args.agents, a, on_looked, r, &err) < 0) {
            rollout_fail(r, &err);
            return;
        }
        q->busy = 1;
        s->outstanding++;
        s->left--;
    }
}

/* Sends the next requests. After the last answer, begins the round, or performs the
 * events that were deferred during the pause. */
static void look(struct rollout *r)
{
    struct serving *s = r->looking;
    const struct rollout_events events = s->events;

    if (events.n == 0)
        send_looks(r);
    if (r->over || s->outstanding > 0)
        return;
    s->events.n = 0;
    if (r->fsm.state == ROLLOUT_ACT)
        rollout_begin_acting(r);
    else
        rollout_request_events(r, &events);
    if (events.n != 0 && !r->over && r->fsm.state == ROLLOUT_PAUSED &&
        s->outstanding == 0)
        (void)rollout_look(r); /* those that the events kept waiting */
}

int rollout_look(struct rollout *r)
{
    struct serving *s = r->looking;

    /* An agent may be given up in the midst of a request: what is saved then must have the
     * updates that the driver has counted. */
    if (s->n_waiting > 0)
        rollout_keep(r);
    s->left = s->n_waiting; /* later ones wait for the next round */
    send_looks(r);
    return r->over || s->outstanding > 0;
}

int rollout_look_defers(struct rollout *r, int event)
{
    struct serving *s = r->looking;

    if (s == NULL || s->outstanding == 0 || r->fsm.state != ROLLOUT_PAUSED)
        return 0;
    for (int i = 0; i < s->events.n; i++)
        if (s->events.list[i] == event) {
            memmove(&s->events.list[i], &s->events.list[i + 1],
                    (size_t)(--s->events.n - i) * sizeof(s->events.list[0]));
            break;
        }
    s->events.list[s->events.n++] = event;
    return 1;
}

/* ---- checking a client's request: a malformed one must not reach an agent ---- */

static int check_name(const msgpack_object *o, const char *what, struct err *err)
{
    if (o->type != MSGPACK_OBJECT_STR || o->via.str.size > NAME_MAX_BYTES)
        return err_set(err, ERR_PROTOCOL, "%s: names are strings of at most %d bytes",
                       what, NAME_MAX_BYTES);
    return 0;
}

static int check_feeds(const msgpack_object *params, const msgpack_object **ret,
                       struct err *err)
{
    int rc = msg_get_map(params, "feeds", ret, err);

    for (uint32_t i = 0; rc == 0 && *ret != NULL && i < (*ret)->via.map.size; i++) {
        const msgpack_object_kv *kv = &(*ret)->via.map.ptr[i];
        struct tensor t = TENSOR_NONE;

        rc = check_name(&kv->key, "feeds", err);
        if (rc == 0)
            rc = msg_to_any_tensor(&kv->val, "feeds", &t, err);
        tensor_free(&t);
    }
    return rc;
}

static int check_names(const msgpack_object *params, const char *key,
                       const msgpack_object **ret, struct err *err)
{
    int rc = msg_get_array(params, key, ret, err);

    for (uint32_t i = 0; rc == 0 && *ret != NULL && i < (*ret)->via.array.size; i++)
        rc = check_name(&(*ret)->via.array.ptr[i], key, err);
    return rc;
}

static void keep_pair(struct served *x, msgpack_packer *pk, const char *key,
                      const msgpack_object *value)
{
    if (value == NULL)
        return;
    msgpack_pack_str_with_body(pk, key, strlen(key));
    msgpack_pack_object(pk, *value);
    x->n_pairs++;
}

static int make_served(struct served **ret, const msgpack_object *params, struct err *err)
{
    const msgpack_object *feeds = NULL, *fetches = NULL, *targets = NULL;
    struct served *x;
    msgpack_packer pk;
    int rc;

    if (params->type != MSGPACK_OBJECT_MAP)
        return err_set(err, ERR_PROTOCOL,
                       "run: params must be a map of feeds, fetches, targets");
    if ((rc = check_feeds(params, &feeds, err)) < 0 ||
        (rc = check_names(params, "fetches", &fetches, err)) < 0 ||
        (rc = check_names(params, "targets", &targets, err)) < 0)
        return rc;
    x = xcalloc(1, sizeof(*x));
    msgpack_sbuffer_init(&x->params);
    msgpack_packer_init(&pk, &x->params, msgpack_sbuffer_write);
    keep_pair(x, &pk, "feeds", feeds);
    keep_pair(x, &pk, "fetches", fetches);
    keep_pair(x, &pk, "targets", targets);
    x->writes = targets != NULL && targets->via.array.size > 0;
    if (x->params.size > FRAME_MAX_BYTES - ENVELOPE_MAX_BYTES) {
        rc = err_set(err, ERR_LIMIT, "run: %zu bytes, at most %u", x->params.size,
                     FRAME_MAX_BYTES - ENVELOPE_MAX_BYTES);
        served_free(x);
        return rc;
    }
    *ret = x;
    return 0;
}

int rollout_run(struct rollout *r, size_t agent, const msgpack_object *params,
                rollout_run_fn fn, void *ctx, struct err *err)
{
    struct serving *s = r->serving != NULL ? r->serving : r->looking;
    struct served *x = NULL;
    struct queue *q;
    int rc;

    CHECK(agent < r->n_agents);
    if (r->over)
        return err_set(err, ERR_STATE, "the run is over");
    if (s->n_waiting >= WAITING_MAX || s->waiting_bytes >= WAITING_MAX_BYTES)
        return err_set(err, ERR_LIMIT, "%zu requests are queued already", s->n_waiting);
    if ((rc = make_served(&x, params, err)) < 0)
        return rc;
    if (x->writes && r->serving == NULL) {
        served_free(x);
        return err_set(
            err, ERR_STATE,
            "this run has an environment and drives its agents itself: clients may "
            "fetch, but targets are for those of env.id: none");
    }
    q = &s->queues[agent];
    x->fn = fn;
    x->ctx = ctx;
    *q->end = x;
    q->end = &x->next;
    s->n_waiting++;
    s->waiting_bytes += x->params.size;
    if (r->serving != NULL && r->fsm.state == ROLLOUT_ACT && !s->wanted)
        pump(r);
    if (r->serving == NULL && r->fsm.state == ROLLOUT_PAUSED && s->events.n == 0)
        (void)rollout_look(r);
    return 0;
}

static void end_serving(struct serving *s, size_t n_agents, const struct err *why)
{
    struct err over = {0};

    (void)err_set(&over, ERR_STATE, "the run is over");
    for (size_t a = 0; s != NULL && a < n_agents; a++)
        for (struct served *x = s->queues[a].first; x != NULL; x = x->next) {
            rollout_run_fn fn = x->fn;

            x->fn = NULL;
            if (fn != NULL)
                fn(x->ctx, NULL, why != NULL ? why : &over);
        }
}

void rollout_serve_end(struct rollout *r, const struct err *why)
{
    end_serving(r->serving, r->n_agents, why);
    end_serving(r->looking, r->n_agents, why);
}
