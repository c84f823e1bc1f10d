/* The driver's UPDATE state: requests of a stage, and what comes back. */
#include "supervisor/rollout/rollout_internal.h"

#include <math.h>

/* Config and algorithm say which agent's non-finite numbers are an end. */
static int nonfinite_ends(const struct rollout *r, size_t runner)
{
    return runner == r->n_agents || r->config->agents[runner].stop_on_nonfinite;
}

static int number_of(const msgpack_object *o, double *ret)
{
    switch (o->type) {
    case MSGPACK_OBJECT_FLOAT32:
    case MSGPACK_OBJECT_FLOAT64:
        *ret = o->via.f64;
        return 1;
    case MSGPACK_OBJECT_POSITIVE_INTEGER:
        *ret = (double)o->via.u64;
        return 1;
    case MSGPACK_OBJECT_NEGATIVE_INTEGER:
        *ret = (double)o->via.i64;
        return 1;
    default:
        return 0;
    }
}

static int take_scalar(struct rollout *r, size_t runner, const msgpack_object_kv *kv,
                       struct err *err)
{
    const msgpack_object_str *name = &kv->key.via.str;
    double value;

    if (kv->key.type != MSGPACK_OBJECT_STR || name->size >= STAGE_OUTPUT_MAX)
        return err_set(err, ERR_PROTOCOL, "scalars: a name is no short string");
    if (!number_of(&kv->val, &value))
        return err_set(err, ERR_PROTOCOL, "scalars: '%.*s' is no number", (int)name->size,
                       name->ptr);
    if (!isfinite(value) && nonfinite_ends(r, runner))
        return err_set(err, ERR_NONFINITE, "%.*s is %g", (int)name->size, name->ptr,
                       value);
    metrics_add_scalar(r->args.metrics, runner, name->ptr, name->size, value);
    return 0;
}

static int take_scalars(struct rollout *r, size_t runner, const msgpack_object *body,
                        struct err *err)
{
    const msgpack_object *scalars = NULL;
    int rc = msg_get_map(body, "scalars", &scalars, err);

    if (rc < 0 || scalars == NULL)
        return rc;
    for (uint32_t i = 0; i < scalars->via.map.size; i++)
        if ((rc = take_scalar(r, runner, &scalars->via.map.ptr[i], err)) < 0)
            return rc;
    return 0;
}

static int take_stage_answer(struct rollout *r, size_t runner, const msgpack_object *body,
                             struct err *err)
{
    const msgpack_object *outputs = NULL;
    int rc;

    if (body->type != MSGPACK_OBJECT_MAP)
        return err_set(err, ERR_PROTOCOL, "not a map");
    if ((rc = msg_get_map(body, "outputs", &outputs, err)) < 0 ||
        (rc = take_scalars(r, runner, body, err)) < 0)
        return rc;
    return exchange_put(r->exchange, r->fsm.stage, runner, outputs,
                        nonfinite_ends(r, runner), err);
}

static void on_stage_response(void *ctx, size_t agent, const struct msg *response)
{
    struct rollout *r = ctx;
    struct err err = {0};

    r->outstanding--;
    if (r->over)
        return;
    if (agent_response_is_absent(response)) {
        exchange_put_nothing(r->exchange, r->fsm.stage, agent);
    } else if (take_stage_answer(r, agent, &response->body, &err) < 0) {
        (void)err_wrap(&err, "%s: answer to stage '%s'",
                       agent < r->n_agents ? r->names[agent] : "central",
                       r->stages->stage[r->fsm.stage].name);
        rollout_fail(r, &err);
        return;
    }
    if (r->outstanding == 0)
        rollout_resume(r);
}

static int send_stage(struct rollout *r, size_t runner, struct err *err)
{
    const struct stage_decl *s = &r->stages->stage[r->fsm.stage];
    struct shape shape = SHAPE((int64_t)r->groups, (int64_t)r->batch, 1);
    struct tensor rows = tensor_view(DT_UINT64, shape, r->rows);
    struct msg_out *o = agent_request_begin(r->args.agents, runner, s->name, s->writes);
    int rc;

    msg_map(o, 5);
    msg_key(o, "step");
    msg_u64(o, r->env_steps);
    msg_key(o, "update");
    msg_u64(o, r->updates);
    msg_key(o, "repeat");
    msg_u64(o, r->fsm.repeat);
    msg_key(o, "rows");
    msg_tensor(o, &rows);
    msg_key(o, "inputs");
    rc = exchange_pack(r->exchange, r->fsm.stage, runner, o, err);
    if (rc == 0)
        rc = agent_request_send(r->args.agents, runner, on_stage_response, r, err);
    if (rc == 0)
        r->outstanding++;
    return rc;
}

static void begin_update(struct rollout *r)
{
    rollout_keep(r);
    r->update_began_ns = rollout_now_ns(r);
    for (size_t g = 0; g < r->groups; g++)
        store_draw(r->args.store, r->rows_key[g], r->updates, r->rows + g * r->batch,
                   r->batch);
}

int rollout_enter_update(struct rollout *r, struct err *err)
{
    const uint8_t *plays = r->plays + (size_t)r->fsm.stage * r->n_agents;
    int rc = 0;

    if (r->fsm.stage == 0 && r->fsm.repeat == 0)
        begin_update(r);
    if (r->stages->stage[r->fsm.stage].central)
        rc = send_stage(r, r->n_agents, err);
    else
        for (size_t a = 0; a < r->n_agents && rc == 0; a++)
            if (plays[a])
                rc = send_stage(r, a, err);
    return rc < 0 ? rc : WAITS;
}
