/* The requests set, snapshot and restore. */
#include "agent/loop/service_internal.h"

#include "agent/algo/live.h"
#include "agent/algo/parts.h"
#include "common/msg/frame.h"

#include <math.h>
#include <string.h>

/* ---- set ---- */

static int read_change(struct service *s, const msgpack_object *map, uint32_t i,
                       struct variable **ret, float *ret_value, struct err *err)
{
    char key[SERVICE_MAX_NAME];
    double value = 0;
    int rc = service_read_name(&map->via.map.ptr[i].key, key, err);

    if (rc < 0 || (rc = msg_get_f64(map, key, &value, err)) < 0)
        return rc;
    *ret = live_find(s->graph, s->name, key);
    if (*ret == NULL)
        return err_set(err, ERR_NOT_FOUND, "%s cannot be changed while the agent runs",
                       key);
    *ret_value = (float)value;
    return isfinite(*ret_value)
               ? 0
               : err_set(err, ERR_ARG, "%s: a finite number expected", key);
}

/* Checks all changes before it makes the first. */
int handle_set(struct service *s, const struct msg *m, struct msg_out *out,
               struct err *err)
{
    const msgpack_object *map = NULL;
    struct variable *v;
    float value;
    int rc = msg_get_map(&m->body, "changes", &map, err);

    if (rc == 0 && map == NULL)
        rc = err_set(err, ERR_PROTOCOL, "changes is missing");
    for (uint32_t i = 0; rc == 0 && i < map->via.map.size; i++)
        rc = read_change(s, map, i, &v, &value, err);
    for (uint32_t i = 0; rc == 0 && i < map->via.map.size; i++) {
        const struct tensor t = tensor_scalar_f32(&value);

        rc = read_change(s, map, i, &v, &value, err);
        if (rc == 0)
            rc = session_variable_set(s->session, v, &t, err);
    }
    return rc < 0 ? rc : answer_nothing(s, m, out, err);
}

/* ---- snapshot and restore: for agents without a shared block ---- */

int handle_snapshot(struct service *s, const struct msg *m, struct msg_out *out,
                    struct err *err)
{
    const size_t n = session_block_bytes(s->session);

    if (n > FRAME_MAX_BYTES - SERVICE_MAX_NAME)
        return err_set(err, ERR_LIMIT, "a block of %zu bytes fits no message", n);
    msg_begin_response(out, m->id);
    msg_map(out, 1);
    msg_key(out, "block");
    msg_bin(out, session_block(s->session), n);
    return 0;
}

/* Whether the policy's actions, or what it carries, depend on the variable. Of a graph that names
 * no policy nobody knows: any of its variables may be the policy's. */
static int is_of_policy(struct service *s, const struct variable *v)
{
    static const char *const keys[] = {POLICY_LOGITS, POLICY_ACTION, POLICY_HYBRID,
                                       POLICY_NEXT_CARRY};
    struct operation *op;
    struct op_walk w;
    size_t named = 0;
    int found = 0;

    op_walk_begin(&w, s->graph);
    for (size_t k = 0; k < sizeof(keys) / sizeof(keys[0]); k++) {
        const struct collection_item *items;
        const size_t n = collection_get(s->graph, keys[k], NULL, &items);

        for (size_t i = 0; i < n; i++)
            op_walk_add(&w, items[i].output.op);
        named += n;
    }
    while (!found && (op = op_walk_next(&w)) != NULL) {
        found = op == v->ref.op;
        op_walk_add_inputs(&w, op);
    }
    op_walk_end(&w);
    return found || named == 0;
}

/* Checks the type and shape of a value. *ret: its variable. */
static int find_place(struct service *s, const char *name, const struct tensor *value,
                      struct variable **ret, struct err *err)
{
    *ret = variable_find(s->graph, name);
    if (*ret == NULL)
        return err_set(err, ERR_NOT_FOUND, "no variable '%s'", name);
    if ((*ret)->dtype == value->dtype && shape_equal(&(*ret)->shape, &value->shape))
        return 0;
    return err_set(err, ERR_SHAPE, "%s: %s %s expected", name, dtype_name((*ret)->dtype),
                   shape_text(&(*ret)->shape));
}

/* resized: the values are of a run with other numbers of agents. *ret NULL: this one has no
 * place here, and the policy does not depend on it. */
static int read_value(struct service *s, const msgpack_object_kv *kv, int resized,
                      struct variable **ret, struct tensor *ret_value, struct err *err)
{
    char name[SERVICE_MAX_NAME];
    struct err why = {0};
    int rc = service_read_name(&kv->key, name, err);

    *ret_value = TENSOR_NONE;
    if (rc < 0 || (rc = msg_to_any_tensor(&kv->val, name, ret_value, err)) < 0)
        return rc;
    rc = find_place(s, name, ret_value, ret, &why);
    if (rc == 0)
        return 0;
    if (!resized)
        return err_pass(err, &why);
    if (*ret != NULL && is_of_policy(s, *ret)) {
        (void)err_add(&why, "this policy is for one number of agents, expected one "
                            "trained with env.observe: entities");
        return err_pass(err, &why);
    }
    *ret = NULL;
    return 0;
}

/* Restores the block, then single variables; checks everything before it changes
 * anything. */
int handle_restore(struct service *s, const struct msg *m, struct msg_out *out,
                   struct err *err)
{
    const msgpack_object *values = NULL;
    const void *block = NULL;
    size_t len = 0;
    int resized = 0, rc;
    uint32_t n;
    struct variable *v;
    struct tensor t;

    if ((rc = msg_get_bin(&m->body, "block", &block, &len, err)) < 0 ||
        (rc = msg_get_map(&m->body, "values", &values, err)) < 0 ||
        (rc = msg_get_bool(&m->body, "resized", &resized, err)) < 0)
        return rc;
    if (block != NULL && len != session_block_bytes(s->session))
        return err_set(err, ERR_SHAPE, "block: %zu bytes, %zu expected", len,
                       session_block_bytes(s->session));
    n = values != NULL ? values->via.map.size : 0;
    for (uint32_t i = 0; rc == 0 && i < n; i++) {
        rc = read_value(s, &values->via.map.ptr[i], resized, &v, &t, err);
        tensor_free(&t);
    }
    if (rc == 0 && block != NULL)
        session_restore(s->session, block);
    for (uint32_t i = 0; rc == 0 && i < n; i++) {
        rc = read_value(s, &values->via.map.ptr[i], resized, &v, &t, err);
        if (rc == 0 && v != NULL)
            rc = session_variable_set(s->session, v, &t, err);
        tensor_free(&t);
    }
    return rc < 0 ? rc : answer_nothing(s, m, out, err);
}
