#include "supervisor/begin/restore.h"

#include "common/mem/xmalloc.h"

#include <stdlib.h>

struct restore {
    size_t outstanding;
    void (*on_done)(void *ctx);
    void *ctx;
};

static void on_response(void *ctx, size_t agent, const struct msg *response)
{
    struct restore *r = ctx;

    if (--r->outstanding == 0)
        r->on_done(r->ctx);
}

static int send_values(struct restore *r, struct agent_table *agents, size_t agent,
                       const struct checkpoint_values *v, int resized, struct err *err)
{
    struct msg_out *o = agent_request_begin(agents, agent, "restore", 1);
    int rc;

    msg_map(o, 1u + (resized != 0));
    if (resized)
        msg_put_bool(o, "resized", 1);
    msg_key(o, "values");
    msg_map(o, v->n);
    for (size_t i = 0; i < v->n; i++) {
        msg_key(o, v->names[i]);
        msg_tensor(o, &v->tensors[i]);
    }
    rc = agent_request_send(agents, agent, on_response, r, err);
    if (rc == 0)
        r->outstanding++;
    return rc;
}

/* Responses arrive through the loop, so on_done is never called before this returns. */
int restore_start(struct restore **ret, struct agent_table *agents,
                  restore_values_fn values_of, int resized, void (*on_done)(void *ctx),
                  void *ctx, struct err *err)
{
    struct restore *r = xcalloc(1, sizeof(*r));
    int rc = 0;

    r->on_done = on_done;
    r->ctx = ctx;
    *ret = r; /* requests may be outstanding even if a later one fails */
    for (size_t i = 0; i < agent_table_count(agents) && rc == 0; i++) {
        const struct checkpoint_values *values = NULL;
        struct agent_info info;

        agent_table_info(agents, i, &info);
        rc = values_of(ctx, i, info.name, &values, err);
        if (rc == 0 && values != NULL)
            rc = send_values(r, agents, i, values, resized, err);
    }
    if (rc == 0 && r->outstanding == 0)
        on_done(ctx);
    return rc;
}

void restore_free(struct restore *r)
{
    free(r);
}
