#include "common/ckpt/graph_def.h"

#include "common/ckpt/protowire.h"

#include <stdlib.h>
#include <string.h>

/* Numbers of the messages' fields. */
enum {
    METAGRAPH_GRAPH = 2,
    METAGRAPH_COLLECTION = 4, /* map */
    GRAPH_NODE = 1,
    NODE_NAME = 1,
    NODE_OP = 2,
    NODE_INPUT = 3,
    NODE_ATTR = 5, /* map */
    MAP_KEY = 1,
    MAP_VALUE = 2,
    COLLECTION_NODES = 1,
    COLLECTION_INTS = 3,
    LIST_VALUE = 1, /* of a NodeList, an Int64List */
    ATTR_LIST = 1,
    ATTR_TEXT = 2,
    ATTR_I = 3,
    ATTR_F = 4,
    ATTR_B = 5,
    ATTR_SHAPE = 7,
    ATTR_TENSOR = 8,
    ATTR_LIST_I = 3,
    SHAPE_DIM = 2,
    DIM_SIZE = 1,
    TENSOR_DTYPE = 1,
    TENSOR_SHAPE = 2,
    TENSOR_CONTENT = 4,
    TENSOR_FLOATS = 5,
    TENSOR_INTS = 7,
    TENSOR_INT64S = 10,
    TENSOR_BOOLS = 11,
};

enum {
    MAX_CONSTANT = 1 << 20,
    MAX_CONSTANTS = 1 << 22
}; /* elements of one, and of all */

/* ---- messages ---- */

/* The first field of that number and type. */
static int find_field(struct cursor c, uint32_t number, enum pw_type type,
                      struct pw_field *ret)
{
    while (pw_next(&c, ret))
        if (ret->number == number && ret->type == type)
            return 1;
    return 0;
}

static struct cursor find_message(struct cursor c, uint32_t number)
{
    struct cursor ret;

    return pw_find_bytes(c, number, &ret) ? ret : cursor_of(NULL, 0);
}

/* The value of a key in a map; without bytes if there is none. */
static struct cursor find_in_map(struct cursor c, uint32_t number, const char *key)
{
    struct pw_field f;

    while (pw_next(&c, &f)) {
        const struct cursor name = f.number == number && f.type == PW_LEN
                                       ? find_message(f.bytes, MAP_KEY)
                                       : cursor_of(NULL, 0);

        if (pw_is_text(&name, key))
            return find_message(f.bytes, MAP_VALUE);
    }
    return cursor_of(NULL, 0);
}

/* Repeated integers, packed or not. */
static size_t read_ints(struct cursor c, uint32_t number, int64_t *ret, size_t max)
{
    struct pw_field f;
    size_t n = 0;

    while (pw_next(&c, &f)) {
        if (f.number != number)
            continue;
        if (f.type == PW_VARINT) {
            if (n < max)
                ret[n] = (int64_t)f.value;
            n++;
        }
        while (f.type == PW_LEN && cursor_left(&f.bytes) > 0 && !f.bytes.failed) {
            const int64_t x = (int64_t)cursor_varint64(&f.bytes);

            if (n < max)
                ret[n] = x;
            n++;
        }
    }
    return n;
}

static size_t read_floats(struct cursor c, float *ret, size_t max)
{
    struct pw_field f;
    size_t n = 0;

    while (pw_next(&c, &f)) {
        if (f.number != TENSOR_FLOATS)
            continue;
        if (f.type == PW_FIXED32)
            f.bytes = cursor_of(&f.value, sizeof(float));
        while ((f.type == PW_FIXED32 || f.type == PW_LEN) &&
               cursor_left(&f.bytes) >= sizeof(float)) {
            const uint32_t bits = cursor_u32(&f.bytes);

            if (n < max)
                memcpy(&ret[n], &bits, sizeof(bits));
            n++;
        }
    }
    return n;
}

/* ---- nodes ---- */

static char *text_of(struct arena *a, struct cursor c)
{
    return arena_strndup(a, (const char *)c.p, cursor_left(&c));
}

static void read_node(struct graph_node *ret, struct arena *a, struct cursor message)
{
    struct cursor c = message;
    struct pw_field f;
    const char **inputs;
    size_t n = 0;

    ret->message = message;
    ret->name = text_of(a, find_message(message, NODE_NAME));
    ret->op = text_of(a, find_message(message, NODE_OP));
    while (pw_next(&c, &f))
        n += f.number == NODE_INPUT && f.type == PW_LEN;
    inputs = ARENA_ARRAY(a, const char *, n + 1);
    c = message;
    while (pw_next(&c, &f))
        if (f.number == NODE_INPUT && f.type == PW_LEN &&
            (cursor_left(&f.bytes) == 0 || f.bytes.p[0] != '^'))
            inputs[ret->n_inputs++] = text_of(a, f.bytes);
    ret->inputs = inputs;
}

int graph_def_read(struct graph_def *ret, struct arena *a, const void *metagraph,
                   size_t len_bytes, struct err *err)
{
    const struct cursor all = cursor_of(metagraph, len_bytes);
    const struct cursor graph = find_message(all, METAGRAPH_GRAPH);
    struct cursor c = graph;
    struct pw_field f;
    size_t n = 0;

    while (pw_next(&c, &f))
        n += f.number == GRAPH_NODE && f.type == PW_LEN;
    if (c.failed)
        return err_set(err, ERR_FORMAT, "its graph is malformed");
    if (n > GRAPH_DEF_MAX_NODES)
        return err_set(err, ERR_LIMIT, "a graph of %zu nodes, at most %d", n,
                       GRAPH_DEF_MAX_NODES);
    *ret = (struct graph_def){
        .nodes = ARENA_ARRAY(a, struct graph_node, n + 1), .metagraph = all, .arena = a};
    c = graph;
    while (pw_next(&c, &f))
        if (f.number == GRAPH_NODE && f.type == PW_LEN)
            read_node(&ret->nodes[ret->n++], a, f.bytes);
    return 0;
}

const struct graph_node *graph_def_find(const struct graph_def *g, const char *tensor,
                                        int *ret_index)
{
    const size_t len = strcspn(tensor, ":");

    if (ret_index != NULL)
        *ret_index = tensor[len] == ':' ? atoi(tensor + len + 1) : 0;
    for (size_t i = 0; i < g->n; i++)
        if (strncmp(g->nodes[i].name, tensor, len) == 0 && g->nodes[i].name[len] == '\0')
            return &g->nodes[i];
    return NULL;
}

/* ---- collections ---- */

const char *graph_def_named(const struct graph_def *g, const char *collection)
{
    const struct cursor list = find_message(
        find_in_map(g->metagraph, METAGRAPH_COLLECTION, collection), COLLECTION_NODES);
    struct pw_field f;

    return find_field(list, LIST_VALUE, PW_LEN, &f) ? text_of(g->arena, f.bytes) : NULL;
}

size_t graph_def_ints(const struct graph_def *g, const char *collection, int64_t *ret,
                      size_t max)
{
    return read_ints(
        find_message(find_in_map(g->metagraph, METAGRAPH_COLLECTION, collection),
                     COLLECTION_INTS),
        LIST_VALUE, ret, max);
}

/* ---- attributes ---- */

int64_t graph_node_int(const struct graph_node *n, const char *attr, int64_t missing)
{
    const struct cursor value = find_in_map(n->message, NODE_ATTR, attr);
    struct pw_field f;

    return find_field(value, ATTR_I, PW_VARINT, &f) ||
                   find_field(value, ATTR_B, PW_VARINT, &f)
               ? (int64_t)f.value
               : missing;
}

float graph_node_float(const struct graph_node *n, const char *attr, float missing)
{
    struct pw_field f;
    uint32_t bits;
    float ret = missing;

    if (find_field(find_in_map(n->message, NODE_ATTR, attr), ATTR_F, PW_FIXED32, &f)) {
        bits = (uint32_t)f.value;
        memcpy(&ret, &bits, sizeof(ret));
    }
    return ret;
}

struct cursor graph_node_text(const struct graph_node *n, const char *attr)
{
    return find_message(find_in_map(n->message, NODE_ATTR, attr), ATTR_TEXT);
}

size_t graph_node_ints(const struct graph_node *n, const char *attr, int64_t *ret,
                       size_t max)
{
    return read_ints(find_message(find_in_map(n->message, NODE_ATTR, attr), ATTR_LIST),
                     ATTR_LIST_I, ret, max);
}

static struct shape read_shape(struct cursor c)
{
    struct shape ret = {0};
    struct pw_field f, size;

    while (pw_next(&c, &f)) {
        if (f.number != SHAPE_DIM || f.type != PW_LEN)
            continue;
        if (ret.rank == SHAPE_MAX_RANK)
            return SHAPE_UNKNOWN;
        ret.dim[ret.rank++] =
            find_field(f.bytes, DIM_SIZE, PW_VARINT, &size) ? (int64_t)size.value : 0;
    }
    return ret;
}

struct shape graph_node_shape(const struct graph_node *n, const char *attr)
{
    struct pw_field f;

    return find_field(find_in_map(n->message, NODE_ATTR, attr), ATTR_SHAPE, PW_LEN, &f)
               ? read_shape(f.bytes)
               : SHAPE_UNKNOWN;
}

/* ---- constants ---- */

/* The last value that a message gives stands for all that follow (tensor.proto). */
static void repeat_last(void *data, size_t size, size_t n_given, size_t n)
{
    for (size_t i = n_given; n_given > 0 && i < n; i++)
        memcpy((char *)data + i * size, (char *)data + (n_given - 1) * size, size);
}

static void content_to_ints(struct cursor c, enum dtype dtype, int64_t *ret, size_t n)
{
    for (size_t i = 0; i < n; i++)
        ret[i] = dtype == DT_INT64   ? (int64_t)cursor_u64(&c)
                 : dtype == DT_INT32 ? (int32_t)cursor_u32(&c)
                                     : cursor_u8(&c);
}

int graph_node_constant(struct graph_def *g, const struct graph_node *n,
                        struct tensor *ret, struct err *err)
{
    const struct cursor tensor =
        find_message(find_in_map(n->message, NODE_ATTR, "value"), ATTR_TENSOR);
    const struct cursor content = find_message(tensor, TENSOR_CONTENT);
    const struct shape shape = read_shape(find_message(tensor, TENSOR_SHAPE));
    const int64_t elements = shape_elements(&shape);
    struct pw_field f = {0};
    enum dtype dtype;

    if (!find_field(tensor, TENSOR_DTYPE, PW_VARINT, &f) || elements < 0)
        return err_set(err, ERR_FORMAT, "%s: no constant", n->name);
    if (elements > MAX_CONSTANT)
        return err_set(err, ERR_LIMIT, "%s: a constant of %lld elements, at most %d",
                       n->name, (long long)elements, MAX_CONSTANT);
    g->constants += elements;
    if (g->constants > MAX_CONSTANTS)
        return err_set(err, ERR_LIMIT, "%s: the graph's constants have over %d elements",
                       n->name, MAX_CONSTANTS);
    dtype = (enum dtype)f.value;
    if (dtype != DT_FLOAT && dtype != DT_INT32 && dtype != DT_INT64 && dtype != DT_BOOL)
        return err_set(err, ERR_UNSUPPORTED, "%s: a constant of %s", n->name,
                       dtype_name(dtype));
    if (cursor_left(&content) > 0 &&
        cursor_left(&content) != (size_t)elements * dtype_size(dtype))
        return err_set(err, ERR_FORMAT, "%s: %zu bytes for %lld elements", n->name,
                       cursor_left(&content), (long long)elements);
    if (dtype == DT_FLOAT) {
        float *x = ARENA_ARRAY(g->arena, float, elements + 1);

        if (cursor_left(&content) > 0)
            memcpy(x, content.p, cursor_left(&content));
        else
            repeat_last(x, sizeof(*x), read_floats(tensor, x, (size_t)elements),
                        (size_t)elements);
        *ret = tensor_view(DT_FLOAT, shape, x);
    } else {
        const uint32_t field = dtype == DT_INT64   ? TENSOR_INT64S
                               : dtype == DT_INT32 ? TENSOR_INTS
                                                   : TENSOR_BOOLS;
        int64_t *x = ARENA_ARRAY(g->arena, int64_t, elements + 1);

        if (cursor_left(&content) > 0)
            content_to_ints(content, dtype, x, (size_t)elements);
        else
            repeat_last(x, sizeof(*x), read_ints(tensor, field, x, (size_t)elements),
                        (size_t)elements);
        *ret = tensor_view(DT_INT64, shape, x);
    }
    return 0;
}
