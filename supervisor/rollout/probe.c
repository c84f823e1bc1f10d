#include "supervisor/rollout/probe.h"

#include <string.h>

enum { MAX_NAME = 1024 };

int probe_is_round(const struct probe *p, uint64_t begin, size_t copies)
{
    return p != NULL && begin < p->step && p->step <= begin + copies;
}

static int asks(const struct probe *p, const char *agent)
{
    return p->agent == NULL || strcmp(p->agent, agent) == 0;
}

void probe_pack(const struct probe *p, int is_round, const char *agent, struct msg_out *o)
{
    const size_t n = is_round && asks(p, agent) ? p->n : 0;

    msg_key(o, "fetches");
    msg_array(o, n);
    for (size_t i = 0; i < n; i++)
        msg_str(o, p->fetches[i]);
    msg_put_bool(o, "origins", is_round && p->origins && asks(p, agent));
}

static int take_value(const struct probe *p, const struct probe_place *at,
                      const msgpack_object *o, struct err *err)
{
    struct probe_value v = {.at = at};
    struct tensor value = TENSOR_NONE;
    char name[MAX_NAME] = "";
    int rc;

    if (o->type != MSGPACK_OBJECT_MAP)
        return err_set(err, ERR_PROTOCOL, "fetched: not a map");
    if ((rc = msg_get_str(o, "name", name, sizeof(name), err)) < 0 ||
        (rc = msg_get_u64(o, "run", UINT64_MAX, &v.run, err)) < 0 ||
        (rc = msg_get_tensor(o, "value", &value, err)) < 0)
        return rc;
    v.name = name;
    v.value = value.dtype != DT_INVALID ? &value : NULL;
    p->on_value(p->ctx, &v);
    return 0;
}

int probe_take(const struct probe *p, const struct probe_place *at,
               const msgpack_object *answer, struct err *err)
{
    const msgpack_object *fetched = NULL, *origins = NULL;
    int rc;

    if (p == NULL || answer->type != MSGPACK_OBJECT_MAP)
        return 0;
    if ((rc = msg_get_array(answer, "fetched", &fetched, err)) < 0 ||
        (rc = msg_get_array(answer, "origins", &origins, err)) < 0)
        return rc;
    for (uint32_t i = 0; fetched != NULL && i < fetched->via.array.size; i++)
        if ((rc = take_value(p, at, &fetched->via.array.ptr[i], err)) < 0)
            return rc;
    for (uint32_t i = 0; origins != NULL && i < origins->via.array.size; i++)
        p->on_origin(p->ctx, at, &origins->via.array.ptr[i]);
    return 0;
}
