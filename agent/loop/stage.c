#include "agent/loop/service_internal.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* The stage `propose` of an agent whose algorithm declares none. Critics of other agents
 * may need it, also those of a group of learners that this agent does not belong to. */
static const struct stage any_propose = {.name = STAGE_PROPOSE};

const struct stage *service_find_stage(const struct service *s, const char *name)
{
    size_t n;
    const struct stage *stages = service_stages(s, &n);

    for (size_t i = 0; i < n; i++)
        if (strcmp(stages[i].name, name) == 0)
            return &stages[i];
    return strcmp(name, STAGE_PROPOSE) == 0 && service_proposes(s) ? &any_propose : NULL;
}

/* ---- the request ---- */

/* Inputs are looked up in the message when the algorithm asks for them. */
struct inputs {
    const msgpack_object *map;
    struct tensor found; /* by the last look-up */
};

static const struct tensor *find_input(void *ctx, const char *agent, const char *name)
{
    struct inputs *in = ctx;
    char key[AGENT_NAME_MAX + 64];

    (void)snprintf(key, sizeof(key), "%s/%s", agent, name);
    in->found = TENSOR_NONE;
    if (msg_get_tensor(in->map, key, &in->found, NULL) < 0 || in->found.data == NULL)
        return NULL;
    return &in->found;
}

static int open_store(struct service *s, struct err *err)
{
    struct store_view *v;
    int r;

    if (s->store != NULL)
        return 0;
    r = store_view_open(&v, AGENT_FD_LOG, err);
    if (r < 0)
        return r;
    r = reads_find(&s->reads, store_view_layout(v), err);
    if (r < 0) {
        store_view_close(v);
        return r;
    }
    reads_restrict(&s->reads, v);
    s->store = v;
    return 0;
}

/* Maps the group's memory at the first stage that uses it: a process that only acts never
 * maps it. */
static int open_shared(struct service *s, struct err *err)
{
    int rc;

    if (s->share == NULL || s->shared != NULL)
        return 0;
    rc = service_map(AGENT_FD_SHARED, "what an agent reserves for shared parameters",
                     &s->shared, &s->shared_bytes, err);
    if (rc == 0 && s->shared == NULL)
        rc = err_set(err, ERR_STATE, "there is no memory to share parameters by");
    return rc < 0 ? rc : share_set_memory(s->share, s->shared, s->shared_bytes, err);
}

static int read_rows(struct service *s, const msgpack_object *body,
                     struct stage_args *args, struct err *err)
{
    struct tensor rows = TENSOR_NONE;
    int rc = msg_get_tensor(body, "rows", &rows, err);

    if (rc < 0 || rows.dtype == DT_INVALID)
        return rc;
    if (rows.dtype != DT_UINT64 || rows.shape.rank != 3 || tensor_elements(&rows) < 1)
        return err_set(err, ERR_SHAPE, "rows: uint64 (G, B, L) expected");
    args->groups = rows.shape.dim[0];
    args->batch = rows.shape.dim[1];
    args->length = rows.shape.dim[2];
    args->rows = rows.data;
    if ((rc = open_store(s, err)) < 0 ||
        (rc = store_view_check(s->store, args->rows, (size_t)tensor_elements(&rows),
                               err)) < 0)
        return rc;
    args->store = s->store;
    return 0;
}

static int read_weights(const msgpack_object *body, struct stage_args *args,
                        struct err *err)
{
    const struct shape want = SHAPE(args->groups, args->batch);
    struct tensor weights = TENSOR_NONE;
    int rc = msg_get_tensor(body, "weights", &weights, err);

    if (rc < 0 || weights.dtype == DT_INVALID)
        return rc;
    if (weights.dtype != DT_FLOAT || !shape_equal(&weights.shape, &want))
        return err_set(err, ERR_SHAPE, "weights: float32 %s expected", shape_text(&want));
    args->weights = tensor_f32(&weights);
    return 0;
}

/* How often an update runs the stage: as often as the range of stages that it belongs
 * to. */
static uint64_t repeats_of(const struct service *s, const struct stage *stage)
{
    size_t n;
    const struct stage *stages = service_stages(s, &n);

    if (stage == &any_propose)
        return 1;
    for (size_t i = (size_t)(stage - stages); i < n; i++)
        if (stages[i].repeat > 1 && stages[i].repeat_from <= (int)(stage - stages))
            return (uint64_t)stages[i].repeat;
    return 1;
}

static int read_request(struct service *s, const msgpack_object *body,
                        struct stage_args *args, const msgpack_object **ret_inputs,
                        struct err *err)
{
    char purpose[sizeof(PURPOSE_STAGE_PREFIX) + STAGE_NAME_MAX + AGENT_NAME_MAX + 1];
    char group[AGENT_NAME_MAX] = "";
    int rc;

    if ((rc = msg_get_str(body, "group", group, sizeof(group), err)) < 0 ||
        (rc = msg_get_u64(body, "step", UINT64_MAX, &args->step, err)) < 0 ||
        (rc = msg_get_u64(body, "update", UINT64_MAX, &args->update, err)) < 0 ||
        (rc = msg_get_u64(body, "repeat", UINT64_MAX, &args->repeat, err)) < 0 ||
        (rc = msg_get_u64(body, "slot", UINT64_MAX, &args->slot, err)) < 0 ||
        (args->slot != SLOT_NONE && (rc = open_shared(s, err)) < 0) ||
        (rc = read_rows(s, body, args, err)) < 0 ||
        (rc = read_weights(body, args, err)) < 0 ||
        (rc = msg_get_map(body, "inputs", ret_inputs, err)) < 0)
        return rc;
    if (group[0] != '\0' && strcmp(args->stage->name, STAGE_PROPOSE) != 0)
        return err_set(err, ERR_PROTOCOL, "group: only in %s", STAGE_PROPOSE);
    if (group[0] != '\0')
        args->stage = &any_propose;
    (void)snprintf(purpose, sizeof(purpose), PURPOSE_STAGE_PREFIX "%s%s%s",
                   args->stage->name, group[0] != '\0' ? "/" : "", group);
    args->key = rng_key_make(s->seed, s->name, purpose);
    args->permutation = rng_key_make(s->seed, s->name, PURPOSE_PERMUTATION);
    args->counter = args->update * repeats_of(s, args->stage) + args->repeat;
    return 0;
}

/* ---- the result ---- */

static int check_finite(struct service *s, const struct stage *stage,
                        const struct stage_result *res, struct err *err)
{
    const char *what = NULL;

    for (int i = 0; i < res->n_scalars && what == NULL; i++)
        if (!isfinite(res->scalar[i].value))
            what = res->scalar[i].name;
    if (what == NULL)
        what = session_find_nonfinite(s->session);
    if (what == NULL)
        return 0;
    return err_set(err, ERR_NONFINITE, "agent %s, stage %s: %s is not finite", s->name,
                   stage->name, what);
}

static void pack_result(const struct stage_result *res, const struct fetch *fetch,
                        struct msg_out *out)
{
    msg_map(out, (res->priorities.data != NULL ? 3u : 2u) + fetch_pairs(fetch));
    msg_key(out, "outputs");
    msg_map(out, (size_t)res->n_outputs);
    for (int i = 0; i < res->n_outputs; i++) {
        msg_key(out, res->output[i].name);
        msg_tensor(out, &res->output[i].value);
    }
    msg_key(out, "scalars");
    msg_map(out, (size_t)res->n_scalars);
    for (int i = 0; i < res->n_scalars; i++) {
        msg_put_f64(out, res->scalar[i].name, res->scalar[i].value);
    }
    if (res->priorities.data != NULL) {
        msg_key(out, "priorities");
        msg_tensor(out, &res->priorities);
    }
    fetch_pack(fetch, out);
}

int handle_stage(struct service *s, const struct msg *m, struct msg_out *out,
                 struct err *err)
{
    struct stage_args args = {.stage = service_find_stage(s, m->method),
                              .slot = SLOT_NONE};
    struct stage_result res = {0};
    struct inputs inputs = {0};
    struct fetch *fetch = NULL;
    struct err why = {0};
    int rc = read_request(s, &m->body, &args, &inputs.map, err);

    if (rc == 0)
        rc = fetch_begin(&fetch, s, &m->body, err);
    if (rc < 0)
        return rc;
    args.input = find_input;
    args.input_ctx = &inputs;
    args.symmetry = s->symmetry;
    const struct proposer who = {.algo = s->algo,
                                 .act = s->ops->act,
                                 .self = &s->agents[s->self],
                                 .n_agents = s->n_agents,
                                 .carry = service_carry_width(s)};
    rc = args.stage == &any_propose
             ? proposals_make(&s->proposals, &who, s->session, &args, &res, &why)
             : s->ops->stage(s->algo, s->session, &args, &res, &why);
    if (rc == 0 && args.stage->writes && s->config.stop_on_nonfinite &&
        (rc = check_finite(s, args.stage, &res, &why)) < 0 &&
        fetch_note_failure(fetch, &why))
        rc = 0;
    if (rc == 0) {
        msg_begin_response(out, m->id);
        pack_result(&res, fetch, out);
    } else if (err != NULL) {
        *err = why;
    }
    fetch_end(fetch, s);
    return rc;
}
