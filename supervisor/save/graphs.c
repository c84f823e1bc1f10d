#include "supervisor/save/graphs.h"

#include "common/ckpt/protowire.h"
#include "common/config/schedule.h"
#include "common/err/check.h"
#include "common/mem/pages.h"
#include "common/mem/xmalloc.h"
#include "common/msg/protocol.h"
#include "supervisor/save/resume.h"

#include <stdlib.h>
#include <string.h>

/* ---- asking the agents ---- */

struct metagraph {
    void *data; /* from pages_map */
    size_t len;
    void *former; /* the saver may still write this one; NULL: none */
    size_t former_len;
    int is_expired;
    int was_absent; /* there is none yet: the agent had been given up */
};

struct graphs {
    struct agent_table *agents;
    size_t n, outstanding;
    struct metagraph *metagraphs; /* [n] */
    const struct resume *from;    /* NULL once the first graphs are there */
    void (*on_done)(void *ctx);
    void *ctx;
};

static void graphs_take(struct metagraph *m, const void *data, size_t len)
{
    if (m->former == NULL) {
        m->former = m->data;
        m->former_len = m->len;
    } else {
        pages_unmap(m->data, m->len);
    }
    m->data = pages_map(len);
    CHECK(m->data != NULL, "no memory for a graph of %zu bytes", len);
    m->len = len;
    memcpy(m->data, data, len);
}

/* Whether an agent has a graph is as it was in the checkpoint. */
static void take_saved(struct graphs *g, size_t agent)
{
    struct metagraph *m = &g->metagraphs[agent];
    struct agent_info info;
    uint8_t *saved = NULL;
    size_t len = 0;

    agent_table_info(g->agents, agent, &info);
    if (!resume_has_graph(g->from, info.name)) {
        pages_unmap(m->data, m->len);
        m->data = NULL;
        m->len = 0;
    } else if (m->data == NULL &&
               resume_read_graph(g->from, info.name, &saved, &len) == 0 && len > 0) {
        graphs_take(m, saved, len);
    }
    free(saved);
}

static void on_response(void *ctx, size_t agent, const struct msg *response)
{
    struct graphs *g = ctx;
    struct metagraph *m = &g->metagraphs[agent];
    const void *data = NULL;
    size_t len = 0;

    (void)msg_get_bin(&response->body, "metagraph", &data, &len, NULL);
    if (len > 0)
        graphs_take(m, data, len);
    if (g->from != NULL)
        take_saved(g, agent);
    /* An agent that was given up sends an empty response: keep its last graph. */
    m->is_expired = 0;
    m->was_absent = m->data == NULL && (agent_response_is_absent(response) || len > 0);
    if (--g->outstanding == 0) {
        g->from = NULL;
        g->on_done(g->ctx);
    }
}

int graphs_start(struct graphs **ret, struct agent_table *agents,
                 const struct resume *from, void (*on_done)(void *ctx), void *ctx,
                 struct err *err)
{
    struct graphs *g = xcalloc(1, sizeof(*g));
    int rc;

    g->agents = agents;
    g->from = from;
    g->n = agent_table_count(agents);
    g->metagraphs = xcalloc(g->n, sizeof(*g->metagraphs));
    *ret = g; /* even after an error: the first requests may be outstanding */
    for (size_t i = 0; i < g->n; i++)
        g->metagraphs[i].is_expired = 1;
    rc = graphs_refresh(g, on_done, ctx, err);
    return rc < 0 ? rc : 0;
}

void graphs_free(struct graphs *g)
{
    if (g == NULL)
        return;
    graphs_release_former(g);
    for (size_t i = 0; i < g->n; i++)
        pages_unmap(g->metagraphs[i].data, g->metagraphs[i].len);
    free(g->metagraphs);
    free(g);
}

void graphs_release_former(struct graphs *g)
{
    for (size_t i = 0; i < g->n; i++) {
        pages_unmap(g->metagraphs[i].former, g->metagraphs[i].former_len);
        g->metagraphs[i].former = NULL;
    }
}

void graphs_expire(struct graphs *g, size_t agent)
{
    g->metagraphs[agent].is_expired = 1;
}

/* Whether an agent that was given up before it sent its graph can send it now. */
static int is_back(const struct graphs *g, size_t agent)
{
    struct agent_info info;

    if (!g->metagraphs[agent].was_absent)
        return 0;
    agent_table_info(g->agents, agent, &info);
    return info.mode != AGENT_NOOP;
}

/* The loop delivers the responses, so none arrives before this function returns. */
int graphs_refresh(struct graphs *g, void (*on_done)(void *ctx), void *ctx,
                   struct err *err)
{
    const int is_under_way = g->outstanding > 0;
    int rc = 0;

    g->on_done = on_done;
    g->ctx = ctx;
    for (size_t i = 0; !is_under_way && i < g->n && rc == 0; i++) {
        if (!g->metagraphs[i].is_expired && !is_back(g, i))
            continue;
        msg_map(agent_request_begin(g->agents, i, "metagraph", 0), 0);
        agent_request_uncounted(g->agents, i);
        rc = agent_request_send(g->agents, i, on_response, g, err);
        if (rc == 0)
            g->outstanding++;
    }
    return rc < 0 ? rc : g->outstanding > 0;
}

void graphs_metagraph(const struct graphs *g, size_t agent, const void **ret,
                      size_t *ret_len)
{
    const struct metagraph *m = &g->metagraphs[agent];

    *ret = m->is_expired ? NULL : m->data;
    *ret_len = m->is_expired ? 0 : m->len;
}

/* ---- fields of a MetaGraphDef ---- */

/* Field numbers from tensorflow/core/protobuf/meta_graph.proto and framework/{graph,
 * node_def, attr_value, tensor}.proto. */
enum {
    META_GRAPH_DEF = 2,
    META_COLLECTION_DEF = 4,
    MAP_KEY = 1,
    MAP_VALUE = 2,
    COLLECTION_BYTES_LIST = 2,
    BYTES_LIST_VALUE = 1,
    GRAPH_NODE = 1,
    NODE_NAME = 1,
    NODE_INPUT = 3,
    NODE_ATTR = 5,
    ATTR_TENSOR = 8,
    TENSOR_FLOAT_VAL = 5,
};

/* Returns 1 and the value if this entry of a map has that key. */
static int is_entry(struct cursor entry, const char *key, struct cursor *ret_value)
{
    struct cursor found;

    return pw_find_bytes(entry, MAP_KEY, &found) && pw_is_text(&found, key) &&
           pw_find_bytes(entry, MAP_VALUE, ret_value);
}

/* ---- the settings in force ---- */

static int unreadable(struct err *err)
{
    return err_set(err, ERR_PROTOCOL, "its graph cannot be read");
}

/* Reads the value of a setting's variable from the block. */
static int value_of(const char *variable, const struct block_table *table,
                    const void *block, float *ret, struct err *err)
{
    for (size_t i = 0; i < table->n; i++) {
        const struct block_variable *v = &table->variables[i];

        if (strcmp(v->name, variable) != 0)
            continue;
        if (v->dtype != DT_FLOAT || v->shape.rank != 0)
            return err_set(err, ERR_PROTOCOL, "setting %s is no float32 scalar", v->name);
        memcpy(ret, (const char *)block + v->offset, sizeof(*ret));
        return 0;
    }
    return err_set(err, ERR_PROTOCOL, "its graph's settings: there is no variable %s",
                   variable);
}

/* Finds the float32 of a scalar Const node. Returns 0 if the node has none. */
static int find_value(struct cursor node, struct cursor *ret)
{
    struct pw_field f;
    struct cursor value, tensor;

    while (pw_next(&node, &f))
        if (f.number == NODE_ATTR && f.type == PW_LEN &&
            is_entry(f.bytes, "value", &value))
            return pw_find_bytes(value, ATTR_TENSOR, &tensor) &&
                   pw_find_bytes(tensor, TENSOR_FLOAT_VAL, ret) &&
                   cursor_left(ret) == sizeof(float);
    return 0;
}

static int write_constant(struct cursor metagraph, const char *node, float value,
                          struct err *err)
{
    struct cursor graph, name, place;
    struct pw_field f;

    if (!pw_find_bytes(metagraph, META_GRAPH_DEF, &graph))
        return unreadable(err);
    while (pw_next(&graph, &f)) {
        if (f.number != GRAPH_NODE || f.type != PW_LEN)
            continue;
        if (!pw_find_bytes(f.bytes, NODE_NAME, &name))
            return unreadable(err);
        if (!pw_is_text(&name, node))
            continue;
        if (!find_value(f.bytes, &place))
            return err_set(err, ERR_PROTOCOL, "its graph's settings: %s is no constant",
                           node);
        /* The bytes are graphs_write_settings's argument, which is not const; cursors
         * only read. */
        memcpy((uint8_t *)(uintptr_t)place.p, &value, sizeof(value));
        return 0;
    }
    if (graph.failed)
        return unreadable(err);
    return err_set(err, ERR_PROTOCOL, "its graph's settings: there is no node %s", node);
}

/* *ret: the setting's value at that step. to, over: the variables of its schedule; NULL
 * if the setting cannot have one. */
static int value_at(const char *variable, const char *to, const char *over,
                    const struct block_table *table, const void *block, uint64_t step,
                    float *ret, struct err *err)
{
    float v[3] = {0};
    struct schedule schedule;
    int rc = value_of(variable, table, block, &v[0], err);

    if (rc == 0 && to != NULL)
        rc = value_of(to, table, block, &v[1], err);
    if (rc == 0 && over != NULL)
        rc = value_of(over, table, block, &v[2], err);
    schedule = (struct schedule){(double)v[0], (double)v[1], (double)v[2]};
    *ret = (float)schedule_at(&schedule, step);
    return rc;
}

/* Writes one setting into its Const node. line: "<node> <variable> <number>" or "<node>
 * <variable> <number> <to> <over>", see SETTING_CONSTANTS. */
static int write_setting(struct cursor metagraph, const struct cursor *line,
                         const struct block_table *table, const void *block,
                         uint64_t step, struct err *err)
{
    char *words = xstrndup((const char *)line->p, cursor_left(line)), *rest;
    const char *node = strtok_r(words, " ", &rest);
    const char *variable = strtok_r(NULL, " ", &rest);
    const char *number = strtok_r(NULL, " ", &rest);
    const char *to = number != NULL ? strtok_r(NULL, " ", &rest) : NULL;
    const char *over = to != NULL ? strtok_r(NULL, " ", &rest) : NULL;
    float value = 0;
    int rc;

    if (number == NULL)
        rc = err_set(err, ERR_PROTOCOL, "collection %s of its graph: '%.*s'",
                     SETTING_CONSTANTS, (int)cursor_left(line), (const char *)line->p);
    else
        rc = value_at(variable, to, over, table, block, step, &value, err);
    if (rc == 0 && value == 0)
        value = strtof(number, NULL);
    if (rc == 0)
        rc = write_constant(metagraph, node, value, err);
    free(words);
    return rc;
}

int graphs_write_settings(void *metagraph, size_t len, const struct block_table *table,
                          const void *block, uint64_t step, struct err *err)
{
    const struct cursor whole = cursor_of(metagraph, len);
    struct cursor c = whole, value, list;
    struct pw_field f, line;
    int rc = 0;

    while (rc == 0 && pw_next(&c, &f)) {
        if (f.number != META_COLLECTION_DEF || f.type != PW_LEN ||
            !is_entry(f.bytes, SETTING_CONSTANTS, &value))
            continue;
        if (!pw_find_bytes(value, COLLECTION_BYTES_LIST, &list))
            return unreadable(err);
        while (rc == 0 && pw_next(&list, &line))
            if (line.number == BYTES_LIST_VALUE && line.type == PW_LEN)
                rc = write_setting(whole, &line.bytes, table, block, step, err);
        if (rc == 0 && list.failed)
            rc = unreadable(err);
    }
    return rc == 0 && c.failed ? unreadable(err) : rc;
}

/* ---- one graph made of all agents' graphs ---- */

/* Copies a field of a message unchanged. */
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

/* Adds the agent's name: "x" becomes "agent_0/x", and "^x" becomes "^agent_0/x". */
static void put_name(struct wbuf *b, const struct pw_field *f, const char *agent)
{
    const char *name = (const char *)f->bytes.p;
    const size_t len = cursor_left(&f->bytes);
    const size_t mark = len > 0 && name[0] == '^' ? 1 : 0;
    const size_t text = pw_begin(b, f->number);

    wbuf_bytes(b, name, mark);
    wbuf_bytes(b, agent, strlen(agent));
    wbuf_bytes(b, "/", 1);
    wbuf_bytes(b, name + mark, len - mark);
    pw_end(b, text);
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

/* Copies the versions of the first agent only: all agents run the same build. */
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
    for (size_t i = 0; i < g->n && ret->len < GRAPHS_JOINED_BYTES; i++) {
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
