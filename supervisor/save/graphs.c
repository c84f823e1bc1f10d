#include "supervisor/save/graphs.h"

#include "common/ckpt/protowire.h"
#include "common/err/check.h"
#include "common/mem/pages.h"
#include "common/mem/xmalloc.h"

#include <stdlib.h>
#include <string.h>

/* Fields of MetaGraphDef, GraphDef and NodeDef (tensorflow/core/framework). */
enum { META_GRAPH_DEF = 2, GRAPH_NODE = 1, NODE_NAME = 1, NODE_INPUT = 3 };

struct metagraph {
    void *data; /* pages_map */
    size_t len;
    int is_expired;
};

struct graphs {
    struct agent_table *agents;
    size_t n, outstanding;
    struct metagraph *metagraphs; /* [n] */
    void (*on_done)(void *ctx);
    void *ctx;
};

static void keep(struct graphs *g, size_t agent, const void *data, size_t len)
{
    struct metagraph *m = &g->metagraphs[agent];

    if (len == 0)
        return;
    pages_unmap(m->data, m->len);
    m->data = pages_map(len);
    CHECK(m->data != NULL, "no memory for a graph of %zu bytes", len);
    m->len = len;
    memcpy(m->data, data, len);
}

static void on_response(void *ctx, size_t agent, const struct msg *response)
{
    struct graphs *g = ctx;
    const void *data = NULL;
    size_t len = 0;

    /* one that was given up, and answers nothing, keeps the graph that it had */
    g->metagraphs[agent].is_expired = 0;
    if (msg_get_bin(&response->body, "metagraph", &data, &len, NULL) == 0)
        keep(g, agent, data, len);
    if (--g->outstanding == 0)
        g->on_done(g->ctx);
}

static int ask(struct graphs *g, size_t agent, struct err *err)
{
    int rc;

    msg_map(agent_request_begin(g->agents, agent, "metagraph", 0), 0);
    agent_request_aside(g->agents, agent);
    rc = agent_request_send(g->agents, agent, on_response, g, err);
    if (rc == 0)
        g->outstanding++;
    return rc;
}

int graphs_start(struct graphs **ret, struct agent_table *agents,
                 void (*on_done)(void *ctx), void *ctx, struct err *err)
{
    struct graphs *g = xcalloc(1, sizeof(*g));
    int rc;

    g->agents = agents;
    g->n = agent_table_count(agents);
    g->metagraphs = xcalloc(g->n, sizeof(*g->metagraphs));
    *ret = g; /* requests may be out even when a later one fails */
    for (size_t i = 0; i < g->n; i++)
        g->metagraphs[i].is_expired = 1;
    rc = graphs_refresh(g, on_done, ctx, err);
    return rc < 0 ? rc : 0;
}

void graphs_free(struct graphs *g)
{
    if (g == NULL)
        return;
    for (size_t i = 0; i < g->n; i++)
        pages_unmap(g->metagraphs[i].data, g->metagraphs[i].len);
    free(g->metagraphs);
    free(g);
}

void graphs_expire(struct graphs *g, size_t agent)
{
    g->metagraphs[agent].is_expired = 1;
}

/* Answers come from the loop, none before this returns. */
int graphs_refresh(struct graphs *g, void (*on_done)(void *ctx), void *ctx,
                   struct err *err)
{
    const int is_under_way = g->outstanding > 0;
    int rc = 0;

    g->on_done = on_done;
    g->ctx = ctx;
    for (size_t i = 0; !is_under_way && i < g->n && rc == 0; i++)
        if (g->metagraphs[i].is_expired)
            rc = ask(g, i, err);
    return rc < 0 ? rc : g->outstanding > 0;
}

void graphs_metagraph(const struct graphs *g, size_t agent, const void **ret,
                      size_t *ret_len)
{
    const struct metagraph *m = &g->metagraphs[agent];

    *ret = m->is_expired ? NULL : m->data;
    *ret_len = m->is_expired ? 0 : m->len;
}

/* ---- one graph of all ---- */

/* A field of a message as it came. */
static void copy_field(struct wbuf *b, const struct pw_field *f)
{
    switch (f->type) {
    case PW_VARINT:
        pw_put_varint(b, f->number, f->value);
        break;
    case PW_FIXED64:
        pw_put_fixed64(b, f->number, f->value);
        break;
    case PW_FIXED32:
        pw_put_fixed32(b, f->number, (uint32_t)f->value);
        break;
    case PW_LEN:
        pw_put_bytes(b, f->number, f->bytes.p, cursor_left(&f->bytes));
        break;
    }
}

/* "x" becomes "agent_0/x", "^x" "^agent_0/x". */
static void put_name(struct wbuf *b, const struct pw_field *f, const char *agent)
{
    const char *name = (const char *)f->bytes.p;
    const size_t len = cursor_left(&f->bytes);
    const size_t mark = len > 0 && name[0] == '^' ? 1 : 0;
    char *full =
        xasprintf("%.*s%s/%.*s", (int)mark, name, agent, (int)(len - mark), name + mark);

    pw_put_text(b, f->number, full);
    free(full);
}

static int join_node(struct wbuf *b, struct cursor node, const char *agent)
{
    const size_t m = pw_begin(b, GRAPH_NODE);
    struct pw_field f;

    while (pw_next(&node, &f)) {
        if (f.type == PW_LEN && (f.number == NODE_NAME || f.number == NODE_INPUT))
            put_name(b, &f, agent);
        else
            copy_field(b, &f);
    }
    pw_end(b, m);
    return !node.failed;
}

/* The first agent's versions stand for all: they are of one build. */
static int join_graph(struct wbuf *b, struct cursor graph, const char *agent, int first)
{
    struct pw_field f;

    while (pw_next(&graph, &f)) {
        if (f.type == PW_LEN && f.number == GRAPH_NODE) {
            if (!join_node(b, f.bytes, agent))
                return 0;
        } else if (first) {
            copy_field(b, &f);
        }
    }
    return !graph.failed;
}

int graphs_joined(const struct graphs *g, struct wbuf *ret, struct err *err)
{
    for (size_t i = 0; i < g->n; i++) {
        struct cursor c = cursor_of(g->metagraphs[i].data, g->metagraphs[i].len);
        struct agent_info info;
        struct pw_field f;
        int whole = 1;

        agent_table_info(g->agents, i, &info);
        while (whole && pw_next(&c, &f))
            if (f.type == PW_LEN && f.number == META_GRAPH_DEF)
                whole = join_graph(ret, f.bytes, info.name, i == 0);
        if (!whole || c.failed)
            return err_set(err, ERR_PROTOCOL, "%s: its graph cannot be read", info.name);
    }
    return 0;
}
