#include "supervisor/export/network.h"

#include "common/mem/xmalloc.h"

#include <stdlib.h>
#include <string.h>

/* In PyTorch: $0 is input 0, $* are all of them, @axis is an attribute; $l calls the layer that has
 * the parameters, $s cuts out a slice, $n is the number of results. */
const struct net_op_row net_op_rows[NET_N_OPS] = {
    [NET_ADD] = {"Add", "($0 + $1)"},
    [NET_ARGMAX] = {"ArgMax", "$0.argmax(@axis)"},
    [NET_CAST] = {"Cast", "$0.float()"},
    [NET_CHUNK] = {"Split", "$0.chunk($n, @axis)"},
    [NET_CLIP] = {"Clip", "$0.clamp($1, $2)"},
    [NET_CONCAT] = {"Concat", "torch.cat(($*), @axis)"},
    [NET_CONV] = {"Conv", "$l"},
    [NET_DIV] = {"Div", "($0 / $1)"},
    [NET_ELU] = {"Elu", "F.elu($0)"},
    [NET_EXP] = {"Exp", "$0.exp()"},
    [NET_GEMM] = {"Gemm", "$l"},
    [NET_GREATER] = {"Greater", "($0 > $1)"},
    [NET_LEAKY_RELU] = {"LeakyRelu", "F.leaky_relu($0, @alpha)"},
    [NET_LOG_SOFTMAX] = {"LogSoftmax", "$0.log_softmax(@axis)"},
    [NET_MATMUL] = {"MatMul", "$0.matmul($1)"},
    [NET_MAX] = {"Max", "torch.maximum(torch.as_tensor($0), torch.as_tensor($1))"},
    [NET_MIN] = {"Min", "torch.minimum(torch.as_tensor($0), torch.as_tensor($1))"},
    [NET_MOD] = {"Mod", "($0 % $1)"},
    [NET_MUL] = {"Mul", "($0 * $1)"},
    [NET_NEG] = {"Neg", "(-$0)"},
    [NET_ONE_HOT] = {"OneHot", "F.one_hot($0, $1).float()"},
    [NET_QUOTIENT] = {"Div", "($0 // $1)"},
    [NET_RECIPROCAL] = {"Reciprocal", "$0.reciprocal()"},
    [NET_REDUCE_MAX] = {"ReduceMax", "$0.amax(@axes, bool(@keepdims))"},
    [NET_REDUCE_MEAN] = {"ReduceMean", "$0.mean(@axes, bool(@keepdims))"},
    [NET_REDUCE_SUM] = {"ReduceSum", "$0.sum($1, bool(@keepdims))"},
    [NET_RELU] = {"Relu", "F.relu($0)"},
    [NET_RESHAPE] = {"Reshape", "$0.reshape($1)"},
    [NET_SIGMOID] = {"Sigmoid", "$0.sigmoid()"},
    [NET_SLICE] = {"Slice", "$0[$s]"},
    [NET_SOFTMAX] = {"Softmax", "$0.softmax(@axis)"},
    [NET_SOFTPLUS] = {"Softplus", "F.softplus($0)"},
    [NET_SPLIT] = {"Split", "$0.split($1, @axis)"},
    [NET_SQRT] = {"Sqrt", "$0.sqrt()"},
    [NET_SUB] = {"Sub", "($0 - $1)"},
    [NET_TANH] = {"Tanh", "$0.tanh()"},
    [NET_TRANSPOSE] = {"Transpose", "$0.permute(@perm)"},
    [NET_WHERE] = {"Where", "torch.where($0, $1, $2)"},
};

void network_done(struct network *net)
{
    for (size_t i = 0; i < net->n_parameters; i++)
        tensor_free(&net->parameters[i]->value);
    free(net->nodes);
    free(net->parameters);
    free(net->constants);
    arena_done(&net->arena);
    *net = (struct network){0};
}

void network_fail(struct network *net, const struct err *why)
{
    if (net->failure.code == 0)
        net->failure = *why;
}

/* ---- values ---- */

static struct net_value *new_value(struct network *net, const char *name)
{
    struct net_value *v = ARENA_NEW(&net->arena, struct net_value);

    v->name = name != NULL ? arena_strdup(&net->arena, name)
                           : arena_printf(&net->arena, "x%zu", ++net->n_names);
    return v;
}

struct net_value *network_input(struct network *net, const char *name, int64_t width)
{
    struct net_value *v = new_value(net, name);

    net->input[net->n_inputs++] = (struct net_port){v->name, width, v};
    return v;
}

void network_output(struct network *net, const char *name, int64_t width,
                    struct net_value *x)
{
    x->uses++;
    net->output[net->n_outputs++] =
        (struct net_port){arena_strdup(&net->arena, name), width, x};
}

struct net_value *network_parameter(struct network *net, const char *name,
                                    struct tensor *value)
{
    struct net_value *v = new_value(net, name);

    v->value = *value;
    v->is_parameter = 1;
    *value = TENSOR_NONE;
    ARRAY_GROW(net->parameters, net->n_parameters, net->cap_parameters);
    net->parameters[net->n_parameters++] = v;
    return v;
}

struct net_value *network_constant(struct network *net, const struct tensor *value)
{
    struct net_value *v = new_value(net, NULL);

    v->value = *value;
    v->value.owned = 0;
    v->value.data = arena_memdup(&net->arena, value->data, tensor_bytes(value));
    ARRAY_GROW(net->constants, net->n_constants, net->cap_constants);
    net->constants[net->n_constants++] = v;
    return v;
}

struct net_value *network_number(struct network *net, float x)
{
    const struct tensor t = tensor_scalar_f32(&x);

    return network_constant(net, &t);
}

struct net_value *network_integer(struct network *net, int64_t x)
{
    const struct tensor t = tensor_scalar_i64(&x);

    return network_constant(net, &t);
}

struct net_value *network_ints(struct network *net, const int64_t *x, size_t n)
{
    const struct tensor t = tensor_const_view(DT_INT64, SHAPE((int64_t)n), x);

    return network_constant(net, &t);
}

/* ---- nodes ---- */

static struct net_node *add_node(struct network *net, enum net_op op,
                                 struct net_value *const *in, size_t n, size_t n_out)
{
    struct net_node *node = ARENA_NEW(&net->arena, struct net_node);

    node->op = op;
    node->in = ARENA_ARRAY(&net->arena, struct net_value *, n);
    while (node->n_in < n && in[node->n_in] != NULL) {
        in[node->n_in]->uses++;
        node->in[node->n_in] = in[node->n_in];
        node->n_in++;
    }
    node->out = ARENA_ARRAY(&net->arena, struct net_value *, n_out);
    node->n_out = n_out;
    for (size_t i = 0; i < n_out; i++) {
        node->out[i] = new_value(net, NULL);
        node->out[i]->by = node;
    }
    ARRAY_GROW(net->nodes, net->n_nodes, net->cap_nodes);
    net->nodes[net->n_nodes++] = node;
    return node;
}

struct net_value *network_op(struct network *net, enum net_op op,
                             struct net_value *const *in, size_t n,
                             const struct net_attr *attrs, size_t n_attrs)
{
    struct net_node *node = add_node(net, op, in, n, 1);

    for (size_t i = 0; i < n_attrs; i++)
        node->attr[i] = attrs[i];
    return node->out[0];
}

struct net_value *network_unary(struct network *net, enum net_op op, struct net_value *x)
{
    return network_op(net, op, &x, 1, NULL, 0);
}

struct net_value *network_binary(struct network *net, enum net_op op, struct net_value *x,
                                 struct net_value *y)
{
    return network_op(net, op, (struct net_value *const[]){x, y}, 2, NULL, 0);
}

struct net_value *network_columns(struct network *net, struct net_value *x, int64_t begin,
                                  int64_t width, int64_t columns)
{
    static const int64_t axis = 1;
    const int64_t end = begin + width;

    if (begin == 0 && width == columns)
        return x;
    return network_op(net, NET_SLICE,
                      (struct net_value *const[]){x, network_ints(net, &begin, 1),
                                                  network_ints(net, &end, 1),
                                                  network_ints(net, &axis, 1)},
                      4, NULL, 0);
}

void network_split(struct network *net, struct net_value *x, const int64_t *sizes,
                   size_t n, int64_t axis, struct net_value **ret)
{
    struct net_value *const in[] = {x,
                                    sizes != NULL ? network_ints(net, sizes, n) : NULL};
    struct net_node *node =
        add_node(net, sizes != NULL ? NET_SPLIT : NET_CHUNK, in, 2, n);

    node->attr[0] = NET_INT("axis", axis);
    memcpy(ret, node->out, n * sizeof(struct net_value *));
}

struct net_value *network_concat(struct network *net, struct net_value *const *x,
                                 size_t n, int64_t axis)
{
    struct net_value **there = ARENA_ARRAY(&net->arena, struct net_value *, n);
    size_t n_there = 0;

    for (size_t i = 0; i < n; i++)
        if (x[i] != NULL)
            there[n_there++] = x[i];
    return n_there == 1
               ? there[0]
               : network_op(net, NET_CONCAT, there, n_there, &NET_INT("axis", axis), 1);
}

const struct net_attr *net_node_attr(const struct net_node *node, const char *name,
                                     size_t len)
{
    for (size_t i = 0; i < NET_MAX_ATTRS && node->attr[i].name != NULL; i++)
        if (strncmp(node->attr[i].name, name, len) == 0 &&
            node->attr[i].name[len] == '\0')
            return &node->attr[i];
    return NULL;
}
