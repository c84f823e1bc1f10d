#include "supervisor/rollout/acting.h"

#include "common/err/check.h"
#include "common/mem/xmalloc.h"

#include <stdlib.h>
#include <string.h>

struct actor {
    float *actions;            /* (E, U) */
    float *carry, *next_carry; /* (E, H); swapped when all agents have answered */
    float *columns[DESCRIPTION_COLUMNS]; /* (E, X) */
};

struct acting {
    struct acting_args args;
    struct actor *actors;
    const float **actions; /* [A] for the environment */
    uint8_t *first;        /* (E) */
    size_t outstanding;
    int failed;                /* 1: ignore further answers */
    const struct vec_env *env; /* of the current call, as the rest */
    const struct probe *probe;
    uint64_t step;
};

struct acting *acting_new(const struct acting_args *args)
{
    struct acting *a = xcalloc(1, sizeof(*a));
    size_t n = args->spec->n_agents, copies = args->copies;

    a->args = *args;
    a->actors = xcalloc(n, sizeof(*a->actors));
    a->actions = xcalloc(n, sizeof(*a->actions));
    a->first = xcalloc(copies, 1);
    for (size_t i = 0; i < n; i++) {
        const struct description *d = &args->descriptions[i];
        struct actor *x = &a->actors[i];

        x->actions =
            xcalloc(copies * (size_t)args->spec->agents[i].space.width, sizeof(float));
        x->carry = xcalloc(copies * d->carry, sizeof(float));
        x->next_carry = xcalloc(copies * d->carry, sizeof(float));
        for (int c = 0; c < d->n_columns && args->with_columns; c++)
            x->columns[c] = xcalloc(copies * d->columns[c].elements, sizeof(float));
        a->actions[i] = x->actions;
    }
    return a;
}

void acting_free(struct acting *a)
{
    if (a == NULL)
        return;
    for (size_t i = 0; i < a->args.spec->n_agents; i++) {
        free(a->actors[i].actions);
        free(a->actors[i].carry);
        free(a->actors[i].next_carry);
        for (int c = 0; c < DESCRIPTION_COLUMNS; c++)
            free(a->actors[i].columns[c]);
    }
    free(a->actors);
    free(a->actions);
    free(a->first);
    free(a);
}

/* ---- answers ---- */

int acting_take(const msgpack_object *answer, const char *key, size_t rows, size_t width,
                float *ret, struct err *err)
{
    struct shape want = SHAPE((int64_t)rows, (int64_t)width);
    struct tensor t = TENSOR_NONE;
    int rc;

    if ((rc = msg_require(answer, key, err)) < 0 ||
        (rc = msg_get_tensor(answer, key, &t, err)) < 0)
        return rc;
    if (t.dtype != DT_FLOAT || !shape_equal(&t.shape, &want))
        return err_set(err, ERR_PROTOCOL, "%s: %s %s expected, got %s %s", key,
                       dtype_name(DT_FLOAT), shape_text(&want), dtype_name(t.dtype),
                       shape_text(&t.shape));
    if (tensor_bytes(&t) > 0)
        memcpy(ret, t.data, tensor_bytes(&t));
    return tensor_expect_finite(&t, key, err);
}

static int take_columns(struct acting *a, size_t agent, const msgpack_object *body,
                        struct err *err)
{
    const struct description *d = &a->args.descriptions[agent];
    const msgpack_object *columns = NULL;
    int rc;

    if (!a->args.with_columns || d->n_columns == 0)
        return 0;
    if ((rc = msg_require(body, "columns", err)) < 0 ||
        (rc = msg_get_map(body, "columns", &columns, err)) < 0)
        return rc;
    for (int c = 0; c < d->n_columns; c++)
        if ((rc = acting_take(columns, d->columns[c].name, a->args.copies,
                              d->columns[c].elements, a->actors[agent].columns[c], err)) <
            0)
            return rc;
    return 0;
}

static struct probe_place place_of(const struct acting *a, size_t agent)
{
    return (struct probe_place){
        .agent = a->args.spec->agents[agent].name, .stage = PROBE_ACT, .step = a->step};
}

static int take_answer(struct acting *a, size_t agent, const msgpack_object *body,
                       struct err *err)
{
    size_t width = (size_t)a->args.spec->agents[agent].space.width;
    size_t carry = a->args.descriptions[agent].carry;
    const struct probe_place at = place_of(a, agent);
    int rc;

    if (body->type != MSGPACK_OBJECT_MAP)
        return err_set(err, ERR_PROTOCOL, "not a map");
    if ((rc = probe_take(a->probe, &at, body, err)) < 0)
        return rc;
    rc = acting_take(body, "actions", a->args.copies, width, a->actors[agent].actions,
                     err);
    if (rc == 0 && carry > 0)
        rc = acting_take(body, "carry", a->args.copies, carry,
                         a->actors[agent].next_carry, err);
    if (rc == 0)
        rc = take_columns(a, agent, body, err);
    return rc;
}

/* The number within the bounds that is nearest to 0. */
static float nothing_in(const struct action_space *s)
{
    return (float)(s->low > 0 ? s->low : s->high < 0 ? s->high : 0);
}

/* Sets all values of an agent that is a noop to 0, or as near to it as its box allows. */
static void take_nothing(struct acting *a, size_t agent)
{
    const struct description *d = &a->args.descriptions[agent];
    struct actor *x = &a->actors[agent];
    const struct action_space *s = &a->args.spec->agents[agent].space;
    const size_t width = (size_t)s->width, first = (size_t)space_first_number(s);

    for (size_t i = 0; i < a->args.copies * width; i++)
        x->actions[i] = i % width >= first ? nothing_in(s) : 0;
    if (d->carry > 0)
        memset(x->next_carry, 0, a->args.copies * d->carry * sizeof(float));
    for (int c = 0; c < d->n_columns && a->args.with_columns; c++)
        memset(x->columns[c], 0, a->args.copies * d->columns[c].elements * sizeof(float));
}

static void mask_head(float *x, const uint8_t *allowed, size_t n)
{
    size_t first = 0;

    while (first < n && !allowed[first])
        first++;
    if (first == n || allowed[env_choice(x, n)])
        return;
    memset(x, 0, n * sizeof(*x));
    x[first] = 1.0f;
}

/* Replaces each forbidden choice with the first allowed one. */
static void apply_mask(struct acting *a, size_t agent)
{
    const struct action_space *s = &a->args.spec->agents[agent].space;
    const uint8_t *allowed = vec_env_allowed(a->env, agent);
    float *x = a->actors[agent].actions;

    if (allowed == NULL)
        return;
    for (size_t e = 0; e < a->args.copies; e++) {
        size_t at = e * (size_t)s->width;

        for (int h = 0; h < s->n_heads; at += (size_t)s->heads[h++])
            mask_head(x + at, allowed + at, (size_t)s->heads[h]);
    }
}

static void swap_carries(struct acting *a)
{
    for (size_t i = 0; i < a->args.spec->n_agents; i++) {
        struct actor *x = &a->actors[i];
        float *carry = x->carry;

        x->carry = x->next_carry;
        x->next_carry = carry;
    }
}

void acting_undo(struct acting *a)
{
    swap_carries(a);
}

static void on_response(void *ctx, size_t agent, const struct msg *response)
{
    struct acting *a = ctx;
    struct err err;

    a->outstanding--;
    if (a->failed)
        return;
    if (agent_response_is_absent(response)) {
        take_nothing(a, agent);
    } else if (take_answer(a, agent, &response->body, &err) < 0) {
        a->failed = 1;
        (void)err_wrap(&err, "%s: answer to act", a->args.spec->agents[agent].name);
        (void)err_note(&err, ERR_AT(.agent = a->args.spec->agents[agent].name));
        a->args.on_failed(a->args.ctx, &err);
        return;
    }
    apply_mask(a, agent);
    if (a->outstanding == 0) {
        swap_carries(a);
        a->args.on_done(a->args.ctx);
    }
}

/* ---- requests ---- */

/* A frozen agent's own setting holds in training and in evaluations. */
enum act_mode acting_mode(const struct agent_config *agent, enum act_mode mode)
{
    if (agent->policy.from == NULL)
        return mode;
    return agent->policy.samples ? ACT_SAMPLE : ACT_GREEDY;
}

static void pack_call(struct acting *a, size_t agent, const struct acting_call *call,
                      struct msg_out *o)
{
    const struct env_agent *who = &a->args.spec->agents[agent];
    struct shape shape =
        SHAPE((int64_t)a->args.copies, (int64_t)env_seen_width(a->args.spec, agent));
    struct tensor obs =
        tensor_const_view(env_obs_dtype(who), shape, vec_env_seen(call->env, agent));
    const uint8_t *allowed = vec_env_allowed(call->env, agent);
    int has_carry = a->args.descriptions[agent].carry > 0;

    msg_map(o, 3u + (has_carry ? 2 : 0) + (call->episode != NULL ? 3 : 0) +
                   (allowed != NULL ? 1 : 0) + (call->probe != NULL ? PROBE_PAIRS : 0));
    msg_put_u64(o, "mode", acting_mode(&a->args.config->agents[agent], call->mode));
    msg_put_u64(o, "step", call->step);
    msg_key(o, "obs");
    msg_tensor(o, &obs);
    if (allowed != NULL) {
        msg_key(o, "allowed");
        msg_bin(o, allowed,
                a->args.copies * (size_t)a->args.spec->agents[agent].space.width);
    }
    if (has_carry) {
        struct tensor carry = tensor_const_view(
            DT_FLOAT,
            SHAPE((int64_t)a->args.copies, (int64_t)a->args.descriptions[agent].carry),
            a->actors[agent].carry);

        msg_key(o, "first");
        msg_bin(o, a->first, a->args.copies);
        msg_key(o, "carry");
        msg_tensor(o, &carry);
    }
    if (call->episode != NULL) {
        size_t bytes = a->args.copies * sizeof(uint64_t);

        msg_put_u64(o, "seed", call->seed);
        msg_key(o, "episode");
        msg_bin(o, call->episode, bytes);
        msg_key(o, "time");
        msg_bin(o, call->time, bytes);
    }
    if (call->probe != NULL) {
        const struct probe_place at = place_of(a, agent);

        probe_pack(call->probe, 1, who->name, o);
        call->probe->on_request(call->probe->ctx, &at, o->buf.data, o->buf.size);
    }
}

int acting_begin(struct acting *a, const struct acting_call *call, struct err *err)
{
    CHECK(a->outstanding == 0 && !a->failed);
    a->env = call->env;
    a->probe = call->probe;
    a->step = call->step;
    for (size_t e = 0; e < a->args.copies; e++)
        a->first[e] = vec_env_time(call->env, e) == 0;
    for (size_t i = 0; i < a->args.spec->n_agents; i++) {
        struct msg_out *o = agent_request_begin(a->args.agents, i, "act", 0);
        int rc;

        pack_call(a, i, call, o);
        rc = agent_request_send(a->args.agents, i, on_response, a, err);
        if (rc < 0) {
            a->failed = 1;
            return rc;
        }
        a->outstanding++;
    }
    return 0;
}

const float *const *acting_actions(const struct acting *a)
{
    return a->actions;
}

const float *acting_column(const struct acting *a, size_t agent, int i)
{
    CHECK(i < a->args.descriptions[agent].n_columns);
    return a->actors[agent].columns[i];
}

float *acting_carry(struct acting *a, size_t agent)
{
    return a->actors[agent].carry;
}
