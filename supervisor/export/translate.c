#include "supervisor/export/translate.h"

#include "common/mem/xmalloc.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_DEPTH = 600, MAX_PARTS = 64 }; /* some 5 KB of stack each */

struct row {
    const char *type;
    struct net_value *(*make)(struct translation *t, const struct graph_node *n,
                              const struct row *row);
    enum net_op op;
};

/* ---- what a row's function asks for ---- */

/* Returns a value that may be passed on. */
static struct net_value *fail(struct translation *t, int code, const struct graph_node *n,
                              const char *what)
{
    struct err err = {0};

    (void)err_set(&err, code, "%s: operation %s (%s) %s", t->agent, n->name, n->op, what);
    network_fail(t->net, &err);
    return network_number(t->net, 0);
}

static struct net_value *input(struct translation *t, const struct graph_node *n,
                               size_t i)
{
    return i < n->n_inputs ? translate(t, n->inputs[i])
                           : fail(t, ERR_FORMAT, n, "has too few inputs");
}

/* The node behind those that pass its value on. */
static const struct graph_node *origin(const struct translation *t,
                                       const struct graph_node *n, size_t i)
{
    const struct graph_node *at =
        i < n->n_inputs ? graph_def_find(t->graph, n->inputs[i], NULL) : NULL;

    for (int hops = 0;
         at != NULL && hops < MAX_DEPTH && at->n_inputs == 1 &&
         (strcmp(at->op, "Identity") == 0 || strcmp(at->op, "StopGradient") == 0);
         hops++)
        at = graph_def_find(t->graph, at->inputs[0], NULL);
    return at;
}

static int is_variable(const struct graph_node *n)
{
    return n != NULL &&
           (strcmp(n->op, "VariableV2") == 0 || strcmp(n->op, "Variable") == 0);
}

/* The numbers of an input that is a constant: returns how many, MAX_PARTS at most; 0: there are
 * none, which is a failure. */
static size_t ints_of(struct translation *t, const struct graph_node *n, size_t i,
                      int64_t ret[MAX_PARTS])
{
    const struct graph_node *c = origin(t, n, i);
    struct tensor value;
    struct err err;
    size_t count;

    if (c == NULL || strcmp(c->op, "Const") != 0 ||
        graph_node_constant(t->graph, c, &value, &err) < 0 || value.dtype != DT_INT64 ||
        tensor_elements(&value) == 0 || tensor_elements(&value) > MAX_PARTS) {
        (void)fail(t, ERR_UNSUPPORTED, n, "has an input that is no constant");
        return 0;
    }
    count = (size_t)tensor_elements(&value);
    memcpy(ret, value.data, count * sizeof(*ret));
    return count;
}

/* ---- parameters ---- */

/* Letters, digits and _ only, as in a name of Python. */
static char *as_identifier(struct translation *t, const char *s, size_t len)
{
    char *ret = arena_printf(&t->net->arena, "%s%.*s",
                             isdigit((unsigned char)*s) ? "_" : "", (int)len, s);

    for (char *c = ret; *c != '\0'; c++)
        if (!isalnum((unsigned char)*c))
            *c = '_';
    return ret;
}

static const char *without(const char *s, const char *scope)
{
    const size_t n = strlen(scope);

    return strncmp(s, scope, n) == 0 && s[n] == '/' ? s + n + 1 : s;
}

/* "agent_0/p_func/entities/key/weights" > "entities_key.weight" */
static const char *parameter_name(struct translation *t, const char *variable)
{
    static const char *const words[][2] = {{"weights", "weight"},
                                           {"kernel", "weight"},
                                           {"gamma", "weight"},
                                           {"biases", "bias"},
                                           {"beta", "bias"}};
    const char *s = without(variable, t->agent), *slash, *leaf, *name;

    s = without(without(s, "p_func"), "q_func");
    slash = strrchr(s, '/');
    leaf = slash != NULL ? slash + 1 : s;
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        if (strcmp(leaf, words[i][0]) == 0)
            leaf = words[i][1];
    leaf = as_identifier(t, leaf, strlen(leaf));
    name = slash == NULL ? leaf
                         : arena_printf(&t->net->arena, "%s.%s",
                                        as_identifier(t, s, (size_t)(slash - s)), leaf);
    for (size_t i = 0; i < t->net->n_parameters; i++)
        if (strcmp(t->net->parameters[i]->name, name) == 0) {
            name = arena_printf(&t->net->arena, "_%s", name); /* of another module, too */
            i = (size_t)-1;
        }
    return name;
}

/* Sets `to` to `from` with its axes in another order: axis i is axis perm[i] of it. */
static void permute(const struct tensor *from, const int *perm, struct tensor *to)
{
    const int rank = from->shape.rank;
    int64_t stride[SHAPE_MAX_RANK], at[SHAPE_MAX_RANK] = {0}, n = 1;

    for (int i = rank; i-- > 0; n *= from->shape.dim[i])
        stride[i] = n;
    for (int64_t k = 0; k < n; k++) {
        int64_t place = 0;

        for (int i = 0; i < rank; i++)
            place += at[i] * stride[perm[i]];
        tensor_f32(to)[k] = tensor_f32(from)[place];
        for (int i = rank; i-- > 0 && ++at[i] == to->shape.dim[i];)
            at[i] = 0;
    }
}

/* The order of PyTorch's axes: (inputs, outputs) > (outputs, inputs), and (y, x, inputs, outputs)
 * > (outputs, inputs, y, x). NULL: they are the same. */
static const int *torch_order(int rank)
{
    static const int matrix[] = {1, 0}, kernel[] = {3, 2, 0, 1};

    return rank == 2 ? matrix : rank == 4 ? kernel : NULL;
}

static int read_parameter(struct translation *t, const char *name, struct tensor *ret,
                          struct err *err)
{
    const struct bundle_entry *e = bundle_reader_find(t->values, name);
    struct tensor as_stored = TENSOR_NONE;
    const int *order;
    struct shape shape;
    int rc;

    if (e == NULL)
        return bundle_reader_missing(t->values, name, err);
    if (e->dtype != DT_FLOAT)
        return err_set(err, ERR_UNSUPPORTED, "%s is %s, not float32", name,
                       dtype_name(e->dtype));
    rc = bundle_reader_read(t->values, e, &as_stored, err);
    shape = as_stored.shape;
    order = torch_order(shape.rank);
    if (rc < 0 || order == NULL) {
        *ret = as_stored;
        return rc;
    }
    for (int i = 0; i < shape.rank; i++)
        shape.dim[i] = as_stored.shape.dim[order[i]];
    rc = tensor_alloc(ret, DT_FLOAT, shape, err);
    if (rc == 0)
        permute(&as_stored, order, ret);
    tensor_free(&as_stored);
    return rc;
}

static struct net_value *find_done(const struct translation *t, const char *tensor,
                                   int *ret_found)
{
    for (size_t i = 0; i < t->n_done; i++)
        if (strcmp(t->done[i].tensor, tensor) == 0) {
            *ret_found = 1;
            return t->done[i].value;
        }
    *ret_found = 0;
    return NULL;
}

/* The parameter of a variable, in PyTorch's layout. */
static struct net_value *parameter(struct translation *t, const struct graph_node *n)
{
    const char *key = arena_printf(&t->net->arena, "%s as a parameter", n->name);
    struct tensor value = TENSOR_NONE;
    struct err err = {0};
    struct net_value *v;
    int found;

    v = find_done(t, key, &found);
    if (found)
        return v;
    if (read_parameter(t, n->name, &value, &err) < 0) {
        (void)err_wrap(&err, "%s", t->agent);
        network_fail(t->net, &err);
        return network_number(t->net, 0);
    }
    v = network_parameter(t->net, parameter_name(t, n->name), &value);
    translation_feed(t, key, v);
    return v;
}

/* In TensorFlow's layout. */
static struct net_value *make_variable(struct translation *t, const struct graph_node *n,
                                       const struct row *row)
{
    struct net_value *v = parameter(t, n);
    struct net_attr back = {.name = "perm", .n = 2, .ints = {1, 0}};

    (void)row;
    if (v->value.shape.rank == 4)
        back = (struct net_attr){.name = "perm", .n = 4, .ints = {2, 3, 1, 0}};
    return torch_order(v->value.shape.rank) == NULL
               ? v
               : network_op(t->net, NET_TRANSPOSE, &v, 1, &back, 1);
}

static struct net_value *make_constant(struct translation *t, const struct graph_node *n,
                                       const struct row *row)
{
    struct tensor value;
    struct err err = {0};

    (void)row;
    if (graph_node_constant(t->graph, n, &value, &err) < 0) {
        (void)err_wrap(&err, "%s", t->agent);
        network_fail(t->net, &err);
        return network_number(t->net, 0);
    }
    return network_constant(t->net, &value);
}

/* ---- layers ---- */

/* x W + b; bias NULL: without. */
static struct net_value *gemm(struct translation *t, const struct graph_node *n,
                              const struct graph_node *bias)
{
    if (graph_node_int(n, "transpose_a", 0) != 0 ||
        graph_node_int(n, "transpose_b", 0) != 0)
        return fail(t, ERR_UNSUPPORTED, n, "transposes its inputs");
    if (!is_variable(origin(t, n, 1)))
        return network_binary(t->net, NET_MATMUL, input(t, n, 0), input(t, n, 1));
    return network_op(
        t->net, NET_GEMM,
        (struct net_value *const[]){input(t, n, 0), parameter(t, origin(t, n, 1)),
                                    bias != NULL ? parameter(t, bias) : NULL},
        3, NULL, 0);
}

/* ONNX has the channels before the places, TensorFlow's policies behind them. */
static struct net_value *convolution(struct translation *t, const struct graph_node *n,
                                     const struct graph_node *bias)
{
    const struct net_attr to = {.name = "perm", .n = 4, .ints = {0, 3, 1, 2}};
    const struct net_attr from = {.name = "perm", .n = 4, .ints = {0, 2, 3, 1}};
    const struct cursor padding = graph_node_text(n, "padding");
    const struct cursor format = graph_node_text(n, "data_format");
    struct net_attr strides = {.name = "strides", .n = 2};
    int64_t step[4] = {1, 1, 1, 1};
    struct net_value *x;

    if (cursor_left(&padding) != 5 || memcmp(padding.p, "VALID", 5) != 0)
        return fail(t, ERR_UNSUPPORTED, n, "is padded");
    if (cursor_left(&format) > 0 &&
        (cursor_left(&format) != 4 || memcmp(format.p, "NHWC", 4) != 0))
        return fail(t, ERR_UNSUPPORTED, n, "has its channels before the places");
    if (!is_variable(origin(t, n, 1)))
        return fail(t, ERR_UNSUPPORTED, n, "has a kernel that is no variable");
    (void)graph_node_ints(n, "strides", step, 4);
    strides.ints[0] = step[1];
    strides.ints[1] = step[2];
    x = input(t, n, 0);
    x = network_op(t->net, NET_TRANSPOSE, &x, 1, &to, 1);
    x = network_op(t->net, NET_CONV,
                   (struct net_value *const[]){x, parameter(t, origin(t, n, 1)),
                                               bias != NULL ? parameter(t, bias) : NULL},
                   3, &strides, 1);
    return network_op(t->net, NET_TRANSPOSE, &x, 1, &from, 1);
}

static struct net_value *make_matmul(struct translation *t, const struct graph_node *n,
                                     const struct row *row)
{
    (void)row;
    return gemm(t, n, NULL);
}

static struct net_value *
make_convolution(struct translation *t, const struct graph_node *n, const struct row *row)
{
    (void)row;
    return convolution(t, n, NULL);
}

/* A layer has its bias in one operation with its weights. */
static struct net_value *make_bias(struct translation *t, const struct graph_node *n,
                                   const struct row *row)
{
    const struct graph_node *of = origin(t, n, 0), *bias = origin(t, n, 1);

    if (of != NULL && is_variable(bias) && is_variable(origin(t, of, 1))) {
        if (strcmp(of->op, "MatMul") == 0)
            return gemm(t, of, bias);
        if (strcmp(of->op, "Conv2D") == 0)
            return convolution(t, of, bias);
    }
    return network_binary(t->net, row->op, input(t, n, 0), input(t, n, 1));
}

/* ---- the rest ---- */

static struct net_value *make_same(struct translation *t, const struct graph_node *n,
                                   const struct row *row)
{
    (void)row;
    return input(t, n, 0);
}

static struct net_value *make_one(struct translation *t, const struct graph_node *n,
                                  const struct row *row)
{
    return network_unary(t->net, row->op, input(t, n, 0));
}

static struct net_value *make_two(struct translation *t, const struct graph_node *n,
                                  const struct row *row)
{
    return network_binary(t->net, row->op, input(t, n, 0), input(t, n, 1));
}

/* Over the last axis. */
static struct net_value *make_softmax(struct translation *t, const struct graph_node *n,
                                      const struct row *row)
{
    struct net_value *x = input(t, n, 0);

    return network_op(t->net, row->op, &x, 1, &NET_INT("axis", -1), 1);
}

static struct net_value *make_leaky(struct translation *t, const struct graph_node *n,
                                    const struct row *row)
{
    struct net_value *x = input(t, n, 0);

    return network_op(t->net, row->op, &x, 1,
                      &NET_FLOAT("alpha", graph_node_float(n, "alpha", 0.2f)), 1);
}

static struct net_value *make_square(struct translation *t, const struct graph_node *n,
                                     const struct row *row)
{
    struct net_value *x = input(t, n, 0);

    return network_binary(t->net, row->op, x, x);
}

static struct net_value *make_rsqrt(struct translation *t, const struct graph_node *n,
                                    const struct row *row)
{
    return network_unary(t->net, row->op,
                         network_unary(t->net, NET_SQRT, input(t, n, 0)));
}

static struct net_value *make_concat(struct translation *t, const struct graph_node *n,
                                     const struct row *row)
{
    struct net_value *x[MAX_PARTS];
    int64_t axis[MAX_PARTS];
    const size_t count = n->n_inputs - 1;

    (void)row;
    if (n->n_inputs < 2 || count > MAX_PARTS)
        return fail(t, ERR_UNSUPPORTED, n, "has too many inputs, or too few");
    if (ints_of(t, n, count, axis) == 0)
        return network_number(t->net, 0);
    for (size_t i = 0; i < count; i++)
        x[i] = input(t, n, i);
    return network_concat(t->net, x, count, axis[0]);
}

/* The parts get into the list of what is translated; the first is returned. sizes NULL: all are
 * equal. */
static struct net_value *split(struct translation *t, const struct graph_node *n,
                               struct net_value *x, const int64_t *sizes, size_t count,
                               int64_t axis)
{
    struct net_value *parts[MAX_PARTS];

    network_split(t->net, x, sizes, count, axis, parts);
    for (size_t i = 1; i < count; i++)
        translation_feed(t, arena_printf(&t->net->arena, "%s:%zu", n->name, i), parts[i]);
    return parts[0];
}

static struct net_value *make_split(struct translation *t, const struct graph_node *n,
                                    const struct row *row)
{
    const int64_t count = graph_node_int(n, "num_split", 0);
    int64_t axis[MAX_PARTS];

    (void)row;
    if (count < 1 || count > MAX_PARTS)
        return fail(t, ERR_UNSUPPORTED, n, "has too many results");
    if (ints_of(t, n, 0, axis) == 0)
        return network_number(t->net, 0);
    return split(t, n, input(t, n, 1), NULL, (size_t)count, axis[0]);
}

static struct net_value *
make_split_sizes(struct translation *t, const struct graph_node *n, const struct row *row)
{
    int64_t axis[MAX_PARTS], sizes[MAX_PARTS];
    const size_t count = ints_of(t, n, 1, sizes);

    (void)row;
    if (count == 0 || ints_of(t, n, 2, axis) == 0)
        return network_number(t->net, 0);
    return split(t, n, input(t, n, 0), sizes, count, axis[0]);
}

static struct net_value *make_reduce(struct translation *t, const struct graph_node *n,
                                     const struct row *row)
{
    const int64_t keeps = graph_node_int(n, "keep_dims", 0);
    struct net_attr attrs[] = {NET_INT("keepdims", keeps), {.name = "axes"}};
    int64_t axes[MAX_PARTS];
    const size_t count = ints_of(t, n, 1, axes);
    struct net_value *x = input(t, n, 0);

    if (count == 0 || count > NET_MAX_INTS)
        return fail(t, ERR_UNSUPPORTED, n, "has too many axes, or none");
    if (row->op == NET_REDUCE_SUM) /* whose axes ONNX has as an input */
        return network_op(
            t->net, row->op,
            (struct net_value *const[]){x, network_ints(t->net, axes, count)}, 2, attrs,
            1);
    attrs[1].n = (int)count;
    memcpy(attrs[1].ints, axes, count * sizeof(*axes));
    return network_op(t->net, row->op, &x, 1, attrs, 2);
}

static struct net_value *make_slice(struct translation *t, const struct graph_node *n,
                                    const struct row *row)
{
    int64_t begin[MAX_PARTS], size[MAX_PARTS];
    const size_t rank = ints_of(t, n, 1, begin);
    struct net_value *x = input(t, n, 0);

    if (ints_of(t, n, 2, size) != rank)
        return fail(t, ERR_FORMAT, n, "has a begin and a size of different lengths");
    for (size_t i = 0; i < rank; i++) {
        const int64_t axis = (int64_t)i;
        int64_t end = INT64_MAX;

        if (begin[i] < 0 || size[i] < -1 ||
            (size[i] >= 0 && __builtin_add_overflow(begin[i], size[i], &end)))
            return fail(t, ERR_FORMAT, n, "has a begin and a size that name no part");
        if (begin[i] == 0 && size[i] < 0)
            continue;
        x = network_op(t->net, row->op,
                       (struct net_value *const[]){x, network_ints(t->net, &begin[i], 1),
                                                   network_ints(t->net, &end, 1),
                                                   network_ints(t->net, &axis, 1)},
                       4, NULL, 0);
    }
    return x;
}

static struct net_value *make_transpose(struct translation *t, const struct graph_node *n,
                                        const struct row *row)
{
    struct net_attr attr = {.name = "perm"};
    int64_t perm[MAX_PARTS];
    const size_t rank = ints_of(t, n, 1, perm);
    struct net_value *x = input(t, n, 0);

    if (rank == 0 || rank > NET_MAX_INTS)
        return fail(t, ERR_UNSUPPORTED, n, "has too many axes");
    attr.n = (int)rank;
    memcpy(attr.ints, perm, rank * sizeof(*perm));
    return network_op(t->net, row->op, &x, 1, &attr, 1);
}

static const struct row rows[] = {
    {"Add", make_two, NET_ADD},
    {"AddV2", make_two, NET_ADD},
    {"BiasAdd", make_bias, NET_ADD},
    {"ConcatV2", make_concat, 0},
    {"Const", make_constant, 0},
    {"Conv2D", make_convolution, 0},
    {"Elu", make_one, NET_ELU},
    {"Exp", make_one, NET_EXP},
    {"Identity", make_same, 0},
    {"LeakyRelu", make_leaky, NET_LEAKY_RELU},
    {"LogSoftmax", make_softmax, NET_LOG_SOFTMAX},
    {"MatMul", make_matmul, 0},
    {"Max", make_reduce, NET_REDUCE_MAX},
    {"Maximum", make_two, NET_MAX},
    {"Mean", make_reduce, NET_REDUCE_MEAN},
    {"Minimum", make_two, NET_MIN},
    {"Mul", make_two, NET_MUL},
    {"Neg", make_one, NET_NEG},
    {"RealDiv", make_two, NET_DIV},
    {"Relu", make_one, NET_RELU},
    {"Reshape", make_two, NET_RESHAPE},
    {"Rsqrt", make_rsqrt, NET_RECIPROCAL},
    {"Sigmoid", make_one, NET_SIGMOID},
    {"Slice", make_slice, NET_SLICE},
    {"Softmax", make_softmax, NET_SOFTMAX},
    {"Softplus", make_one, NET_SOFTPLUS},
    {"Split", make_split, 0},
    {"SplitV", make_split_sizes, 0},
    {"Sqrt", make_one, NET_SQRT},
    {"Square", make_square, NET_MUL},
    {"StopGradient", make_same, 0},
    {"Sub", make_two, NET_SUB},
    {"Sum", make_reduce, NET_REDUCE_SUM},
    {"Tanh", make_one, NET_TANH},
    {"Transpose", make_transpose, NET_TRANSPOSE},
    {"Variable", make_variable, 0},
    {"VariableV2", make_variable, 0},
};

/* ---- tensors ---- */

void translation_done(struct translation *t)
{
    free(t->done);
}

/* "x" and "x:0" are one tensor. */
static const char *whole_name(struct translation *t, const char *tensor)
{
    return strchr(tensor, ':') != NULL ? tensor
                                       : arena_printf(&t->net->arena, "%s:0", tensor);
}

void translation_feed(struct translation *t, const char *tensor, struct net_value *x)
{
    ARRAY_GROW(t->done, t->n_done, t->cap_done);
    t->done[t->n_done++] = (struct translated){whole_name(t, tensor), x};
}

static struct net_value *translate_node(struct translation *t, const struct graph_node *n)
{
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        if (strcmp(rows[i].type, n->op) == 0)
            return rows[i].make(t, n, &rows[i]);
    return fail(t, ERR_UNSUPPORTED, n, "has no translation");
}

struct net_value *translate(struct translation *t, const char *tensor)
{
    const char *name = whole_name(t, tensor);
    struct err err = {0};
    int found, index;
    const struct graph_node *n = graph_def_find(t->graph, name, &index);
    struct net_value *v = find_done(t, name, &found);
    size_t at;

    if (v != NULL)
        return v;
    if (found || n == NULL || t->depth == MAX_DEPTH || t->net->failure.code < 0) {
        (void)err_set(&err, ERR_FORMAT, "%s: its graph %s at %s", t->agent,
                      found       ? "goes in a circle"
                      : n == NULL ? "ends"
                                  : "is too deep",
                      name);
        network_fail(t->net, &err);
        return network_number(t->net, 0);
    }
    translation_feed(t, name, NULL);
    at = t->n_done - 1;
    t->depth++;
    v = translate_node(t, n);
    t->depth--;
    if (index == 0) {
        t->done[at].value = v;
        return v;
    }
    /* a later part of several: the first one was made with all others */
    t->done[at].tensor = arena_printf(&t->net->arena, "%s:0", n->name);
    t->done[at].value = v;
    v = find_done(t, name, &found);
    return v != NULL ? v : fail(t, ERR_FORMAT, n, "has fewer results");
}
