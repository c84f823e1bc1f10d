#include "supervisor/save/graph_settings.h"

#include "common/ckpt/protowire.h"
#include "common/mem/xmalloc.h"
#include "common/msg/protocol.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Fields of tensorflow/core/protobuf/meta_graph.proto and framework/{graph, node_def,
 * attr_value, tensor}.proto. */
enum {
    META_GRAPH_DEF = 2,
    META_COLLECTION_DEF = 4,
    MAP_KEY = 1,
    MAP_VALUE = 2,
    COLLECTION_BYTES_LIST = 2,
    BYTES_LIST_VALUE = 1,
    GRAPH_NODE = 1,
    NODE_NAME = 1,
    NODE_ATTR = 5,
    ATTR_TENSOR = 8,
    TENSOR_FLOAT_VAL = 5,
};

/* A constant that stands for a setting. */
struct constant {
    char *node, *variable;
    float instead_of_zero;
    int is_written;
};

struct constants {
    struct constant *list;
    size_t n;
};

static int unreadable(struct err *err)
{
    return err_set(err, ERR_PROTOCOL, "its graph cannot be read");
}

static int is_text(const struct pw_field *f, const char *text)
{
    const size_t n = strlen(text);

    return f->type == PW_LEN && cursor_left(&f->bytes) == n &&
           memcmp(f->bytes.p, text, n) == 0;
}

/* The first field of that number, a message or text. 0: there is none. */
static int find_field(struct cursor message, uint32_t number, struct cursor *ret)
{
    struct pw_field f;

    while (pw_next(&message, &f))
        if (f.number == number && f.type == PW_LEN) {
            *ret = f.bytes;
            return 1;
        }
    return 0;
}

/* A map's entry of this key: its value. */
static int is_entry(struct cursor entry, const char *key, struct cursor *ret_value)
{
    struct pw_field f;
    int is_key = 0, has_value = 0;

    while (pw_next(&entry, &f)) {
        if (f.number == MAP_KEY)
            is_key = is_text(&f, key);
        if (f.number == MAP_VALUE && f.type == PW_LEN) {
            *ret_value = f.bytes;
            has_value = 1;
        }
    }
    return is_key && has_value;
}

/* ---- which constants ---- */

static int add_constant(struct constants *c, const struct cursor *text, struct err *err)
{
    char *line = xstrndup((const char *)text->p, cursor_left(text));
    struct constant new = {0};
    char instead[32], *end;

    new.node = xcalloc(strlen(line) + 1, 1);
    new.variable = xcalloc(strlen(line) + 1, 1);
    if (sscanf(line, "%[^ ] %[^ ] %31[^ ]", new.node, new.variable, instead) != 3) {
        (void)err_set(err, ERR_PROTOCOL, "collection %s of its graph: '%s'",
                      SETTING_CONSTANTS, line);
        free(new.node);
        free(new.variable);
        free(line);
        return ERR_PROTOCOL;
    }
    new.instead_of_zero = strtof(instead, &end);
    c->list = xreallocarray(c->list, c->n + 1, sizeof(*c->list));
    c->list[c->n++] = new;
    free(line);
    return 0;
}

static int read_collection(struct constants *c, struct cursor collection, struct err *err)
{
    struct cursor list;
    struct pw_field f;
    int rc = 0;

    if (!find_field(collection, COLLECTION_BYTES_LIST, &list))
        return unreadable(err);
    while (rc == 0 && pw_next(&list, &f))
        if (f.number == BYTES_LIST_VALUE && f.type == PW_LEN)
            rc = add_constant(c, &f.bytes, err);
    return rc < 0 || !list.failed ? rc : unreadable(err);
}

static int read_constants(struct constants *c, struct cursor metagraph, struct err *err)
{
    struct cursor value;
    struct pw_field f;
    int rc = 0;

    while (rc == 0 && pw_next(&metagraph, &f))
        if (f.number == META_COLLECTION_DEF && f.type == PW_LEN &&
            is_entry(f.bytes, SETTING_CONSTANTS, &value))
            rc = read_collection(c, value, err);
    return rc < 0 || !metagraph.failed ? rc : unreadable(err);
}

static void constants_done(struct constants *c)
{
    for (size_t i = 0; i < c->n; i++) {
        free(c->list[i].node);
        free(c->list[i].variable);
    }
    free(c->list);
}

/* ---- their values ---- */

static int value_of(const struct constant *c, const struct block_table *table,
                    const void *block, float *ret, struct err *err)
{
    for (size_t i = 0; i < table->n; i++) {
        const struct block_variable *v = &table->variables[i];

        if (strcmp(v->name, c->variable) != 0)
            continue;
        if (v->dtype != DT_FLOAT || v->shape.rank != 0)
            return err_set(err, ERR_PROTOCOL, "setting %s is no float32 scalar", v->name);
        memcpy(ret, (const char *)block + v->offset, sizeof(*ret));
        if (*ret <= 0)
            *ret = c->instead_of_zero;
        return 0;
    }
    return err_set(err, ERR_PROTOCOL, "its graph's settings: there is no variable %s",
                   c->variable);
}

/* Where a Const node has its one float32; 0: nowhere. */
static int find_value(struct cursor node, struct cursor *ret)
{
    struct pw_field f;
    struct cursor value;

    while (pw_next(&node, &f)) {
        struct cursor tensor;

        if (f.number == NODE_ATTR && f.type == PW_LEN &&
            is_entry(f.bytes, "value", &value))
            return find_field(value, ATTR_TENSOR, &tensor) &&
                   find_field(tensor, TENSOR_FLOAT_VAL, ret) &&
                   cursor_left(ret) == sizeof(float);
    }
    return 0;
}

/* The graph's bytes are the caller's to change; cursors only read. */
static void put_value(const struct cursor *place, float value)
{
    memcpy((uint8_t *)(uintptr_t)place->p, &value, sizeof(value));
}

static int write_node(struct constants *c, struct cursor node,
                      const struct block_table *table, const void *block, struct err *err)
{
    struct cursor name, place;
    int rc = 0;

    if (!find_field(node, NODE_NAME, &name))
        return unreadable(err);
    for (size_t i = 0; i < c->n && rc == 0; i++) {
        struct constant *x = &c->list[i];
        float value;

        if (strlen(x->node) != cursor_left(&name) ||
            memcmp(x->node, name.p, cursor_left(&name)) != 0)
            continue;
        rc = value_of(x, table, block, &value, err);
        if (rc == 0 && !find_value(node, &place))
            rc = err_set(err, ERR_PROTOCOL, "its graph's settings: %s is no constant",
                         x->node);
        if (rc == 0)
            put_value(&place, value);
        x->is_written = 1;
    }
    return rc;
}

static int write_nodes(struct constants *c, struct cursor graph,
                       const struct block_table *table, const void *block,
                       struct err *err)
{
    struct pw_field f;
    int rc = 0;

    while (rc == 0 && pw_next(&graph, &f))
        if (f.number == GRAPH_NODE && f.type == PW_LEN)
            rc = write_node(c, f.bytes, table, block, err);
    return rc < 0 || !graph.failed ? rc : unreadable(err);
}

static int check_written(const struct constants *c, struct err *err)
{
    for (size_t i = 0; i < c->n; i++)
        if (!c->list[i].is_written)
            return err_set(err, ERR_PROTOCOL, "its graph's settings: there is no node %s",
                           c->list[i].node);
    return 0;
}

int graph_settings_write(void *metagraph, size_t len, const struct block_table *table,
                         const void *block, struct err *err)
{
    struct cursor c = cursor_of(metagraph, len), graph;
    struct constants constants = {0};
    int rc = read_constants(&constants, c, err);

    if (rc == 0 && constants.n > 0) {
        rc = find_field(c, META_GRAPH_DEF, &graph)
                 ? write_nodes(&constants, graph, table, block, err)
                 : unreadable(err);
        if (rc == 0)
            rc = check_written(&constants, err);
    }
    constants_done(&constants);
    return rc;
}
