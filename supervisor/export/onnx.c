/* A network as a ModelProto, in protobuf's wire format.
 *
 * Source  github.com/onnx/onnx, onnx/onnx.proto
 */
#include "common/ckpt/atomic_file.h"
#include "common/ckpt/protowire.h"
#include "supervisor/export/network.h"

#include <string.h>

/* IR_VERSION: the oldest that has OPSET. */
enum { IR_VERSION = 8, OPSET = 17, MAX_BYTES = 0x7fffffff };

/* Numbers of the messages' fields. */
enum {
    MODEL_IR_VERSION = 1,
    MODEL_PRODUCER = 2,
    MODEL_PRODUCER_VERSION = 3,
    MODEL_DOC = 6,
    MODEL_GRAPH = 7,
    MODEL_OPSET = 8,
    OPSET_VERSION = 2,
    GRAPH_NODE = 1,
    GRAPH_NAME = 2,
    GRAPH_INITIALIZER = 5,
    GRAPH_INPUT = 11,
    GRAPH_OUTPUT = 12,
    NODE_INPUT = 1,
    NODE_OUTPUT = 2,
    NODE_OP = 4,
    NODE_ATTRIBUTE = 5,
    ATTRIBUTE_NAME = 1,
    ATTRIBUTE_F = 2,
    ATTRIBUTE_I = 3,
    ATTRIBUTE_INTS = 8,
    ATTRIBUTE_TYPE = 20,
    TENSOR_DIM = 1,
    TENSOR_TYPE = 2,
    TENSOR_NAME = 8,
    TENSOR_DATA = 9,
    VALUE_NAME = 1,
    VALUE_TYPE = 2,
    TYPE_TENSOR = 1,
    TENSOR_TYPE_ELEMENT = 1,
    TENSOR_TYPE_SHAPE = 2,
    SHAPE_DIM = 1,
    DIM_VALUE = 1,
    DIM_NAME = 2,
};
enum { ELEMENT_FLOAT = 1, ELEMENT_INT64 = 7 };
enum { ATTRIBUTE_IS_FLOAT = 1, ATTRIBUTE_IS_INT = 2, ATTRIBUTE_IS_INTS = 7 };

static void put_attribute(struct wbuf *b, const struct net_attr *a)
{
    const size_t m = pw_begin(b, NODE_ATTRIBUTE);

    pw_put_text(b, ATTRIBUTE_NAME, a->name);
    if (a->n == -2)
        pw_put_float(b, ATTRIBUTE_F, a->f);
    else if (a->n == -1)
        pw_put_varint(b, ATTRIBUTE_I, (uint64_t)a->ints[0]);
    for (int i = 0; i < a->n; i++)
        pw_put_varint(b, ATTRIBUTE_INTS, (uint64_t)a->ints[i]);
    pw_put_varint(b, ATTRIBUTE_TYPE,
                  a->n == -2   ? ATTRIBUTE_IS_FLOAT
                  : a->n == -1 ? ATTRIBUTE_IS_INT
                               : ATTRIBUTE_IS_INTS);
    pw_end(b, m);
}

static void put_node(struct wbuf *b, const struct net_node *node)
{
    /* what ONNX has to be told, and PyTorch not */
    static const struct net_attr to_float = {
        .name = "to", .n = -1, .ints = {ELEMENT_FLOAT}};
    static const struct net_attr drops = {.name = "keepdims", .n = -1, .ints = {0}};
    static const struct net_attr by_rows = {.name = "transB", .n = -1, .ints = {1}};
    const size_t m = pw_begin(b, GRAPH_NODE);

    for (size_t i = 0; i < node->n_in; i++)
        pw_put_text(b, NODE_INPUT, node->in[i]->name);
    for (size_t i = 0; i < node->n_out; i++)
        pw_put_text(b, NODE_OUTPUT, node->out[i]->name);
    pw_put_text(b, NODE_OP, net_op_rows[node->op].onnx);
    for (size_t i = 0; i < NET_MAX_ATTRS && node->attr[i].name != NULL; i++)
        put_attribute(b, &node->attr[i]);
    if (node->op == NET_CAST)
        put_attribute(b, &to_float);
    else if (node->op == NET_ARGMAX)
        put_attribute(b, &drops);
    else if (node->op == NET_GEMM)
        put_attribute(b, &by_rows);
    pw_end(b, m);
}

static void put_initializer(struct wbuf *b, const struct net_value *v)
{
    const struct tensor *t = &v->value;
    const size_t m = pw_begin(b, GRAPH_INITIALIZER);

    for (int i = 0; i < t->shape.rank; i++)
        pw_put_varint(b, TENSOR_DIM, (uint64_t)t->shape.dim[i]);
    pw_put_varint(b, TENSOR_TYPE, t->dtype == DT_FLOAT ? ELEMENT_FLOAT : ELEMENT_INT64);
    pw_put_text(b, TENSOR_NAME, v->name);
    pw_put_bytes(b, TENSOR_DATA, t->data, tensor_bytes(t));
    pw_end(b, m);
}

static void put_port(struct wbuf *b, uint32_t field, const struct net_port *p)
{
    const size_t port = pw_begin(b, field);
    size_t type, tensor, shape, dim;

    pw_put_text(b, VALUE_NAME, p->name);
    type = pw_begin(b, VALUE_TYPE);
    tensor = pw_begin(b, TYPE_TENSOR);
    pw_put_varint(b, TENSOR_TYPE_ELEMENT, ELEMENT_FLOAT);
    shape = pw_begin(b, TENSOR_TYPE_SHAPE);
    dim = pw_begin(b, SHAPE_DIM);
    pw_put_text(b, DIM_NAME, "batch");
    pw_end(b, dim);
    dim = pw_begin(b, SHAPE_DIM);
    pw_put_varint(b, DIM_VALUE, (uint64_t)p->width);
    pw_end(b, dim);
    pw_end(b, shape);
    pw_end(b, tensor);
    pw_end(b, type);
    pw_end(b, port);
}

/* Names the value as the output. */
static void put_naming(struct wbuf *b, const struct net_port *p)
{
    const size_t m = pw_begin(b, GRAPH_NODE);

    pw_put_text(b, NODE_INPUT, p->value->name);
    pw_put_text(b, NODE_OUTPUT, p->name);
    pw_put_text(b, NODE_OP, "Identity");
    pw_end(b, m);
}

static void put_graph(struct wbuf *b, const struct network *net)
{
    const size_t m = pw_begin(b, MODEL_GRAPH);

    for (size_t i = 0; i < net->n_nodes; i++)
        put_node(b, net->nodes[i]);
    for (size_t i = 0; i < net->n_outputs; i++)
        put_naming(b, &net->output[i]);
    pw_put_text(b, GRAPH_NAME, "policy");
    for (size_t i = 0; i < net->n_parameters; i++)
        put_initializer(b, net->parameters[i]);
    for (size_t i = 0; i < net->n_constants; i++)
        put_initializer(b, net->constants[i]);
    for (size_t i = 0; i < net->n_inputs; i++)
        put_port(b, GRAPH_INPUT, &net->input[i]);
    for (size_t i = 0; i < net->n_outputs; i++)
        put_port(b, GRAPH_OUTPUT, &net->output[i]);
    pw_end(b, m);
}

int network_write_onnx(const struct network *net, const char *path, struct err *err)
{
    struct atomic_file *f = NULL;
    struct wbuf b = {0};
    size_t m;
    int rc = 0;

    pw_put_varint(&b, MODEL_IR_VERSION, IR_VERSION);
    pw_put_text(&b, MODEL_PRODUCER, "brood");
    pw_put_text(&b, MODEL_PRODUCER_VERSION, BROOD_VERSION);
    pw_put_text(&b, MODEL_DOC, net->about);
    put_graph(&b, net);
    m = pw_begin(&b, MODEL_OPSET);
    pw_put_varint(&b, OPSET_VERSION, OPSET);
    pw_end(&b, m);
    if (b.len > MAX_BYTES)
        rc = err_set(err, ERR_LIMIT, "%s: a model of %zu bytes; a file of ONNX has 2 GiB",
                     path, b.len);
    if (rc == 0)
        rc = atomic_file_new(&f, path, 0, err);
    if (rc == 0)
        rc = atomic_file_append(f, b.data, b.len, err);
    if (rc == 0)
        rc = atomic_file_commit(f, err);
    atomic_file_free(f);
    wbuf_done(&b);
    return rc;
}
