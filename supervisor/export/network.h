/* network.h - an acting network, as what others compute with it need: inputs, outputs and the
 * operations between them, in ONNX's terms.
 *
 * Values   named by the network ("x7"), or inputs and outputs, named by who makes them. A
 *          parameter is a value of the checkpoint, with PyTorch's name and layout
 *          ("fully_connected.weight", (outputs, inputs)); a constant is small, and a part of
 *          the program.
 * Nodes    in the order of computing. A row of the table in network.c says how each kind is
 *          written in ONNX and in PyTorch.
 * Errors   the first error is kept in the network (`failure`), to be looked at before the network
 *          is used; what is made after it may be passed on.
 * Owns     everything is in the network's arena, but the data of parameters, which
 *          network_done frees.
 */
#ifndef SUPERVISOR_EXPORT_NETWORK_H
#define SUPERVISOR_EXPORT_NETWORK_H

#include "common/mem/arena.h"
#include "common/tensor/tensor.h"

#include <stddef.h>
#include <stdint.h>

enum net_op {
    NET_ADD,
    NET_ARGMAX, /* axis; keepdims 0 */
    NET_CAST,   /* integers to floats */
    NET_CHUNK,  /* axis: equal parts, as many as there are results */
    NET_CLIP,   /* x, low, high */
    NET_CONCAT, /* axis */
    NET_CONV,   /* x (N, C, y, x), weight, [bias]; strides */
    NET_DIV,
    NET_ELU,
    NET_EXP,
    NET_GEMM, /* x, weight (outputs, inputs), [bias] */
    NET_GREATER,
    NET_LEAKY_RELU, /* alpha */
    NET_LOG_SOFTMAX,
    NET_MATMUL,
    NET_MAX,
    NET_MIN,
    NET_MOD,
    NET_MUL,
    NET_NEG,
    NET_ONE_HOT,  /* integers (N), depth, {0, 1}: floats (N, depth) */
    NET_QUOTIENT, /* of integers */
    NET_RECIPROCAL,
    NET_REDUCE_MAX, /* axes, keepdims */
    NET_REDUCE_MEAN,
    NET_REDUCE_SUM, /* x, axes; keepdims */
    NET_RELU,
    NET_RESHAPE,
    NET_SIGMOID,
    NET_SLICE, /* x, begin, end, axis: one of each */
    NET_SOFTMAX,
    NET_SOFTPLUS,
    NET_SPLIT, /* x, sizes; axis */
    NET_SQRT,
    NET_SUB,
    NET_TANH,
    NET_TRANSPOSE, /* perm */
    NET_WHERE,     /* condition, x, y */
    NET_N_OPS
};

struct net_op_row {
    const char *onnx;  /* the operation's name */
    const char *torch; /* an expression: network.c */
};
extern const struct net_op_row net_op_rows[NET_N_OPS];

struct net_node;
struct net_value {
    const char *name;
    struct tensor
        value; /* of a constant, a parameter; data NULL: it is computed, or fed */
    int is_parameter;
    const struct net_node *by; /* NULL: nothing computes it */
    unsigned uses;             /* as an input, or as an output of the network */
};

enum { NET_MAX_ATTRS = 2, NET_MAX_INTS = 8 };
struct net_attr {
    const char *name; /* ONNX's; NULL: there is none */
    int n;            /* of ints; -1: one integer, ints[0]; -2: a float */
    int64_t ints[NET_MAX_INTS];
    float f;
};

struct net_node {
    enum net_op op;
    size_t n_in, n_out;
    struct net_value **in, **out;
    struct net_attr attr[NET_MAX_ATTRS];
};

struct net_port { /* an input, or an output */
    const char *name;
    int64_t width; /* of (batch, width) floats */
    struct net_value *value;
};
enum { NET_MAX_PORTS = 4 };

struct network {
    struct arena arena;
    char *about; /* one line: whose policy it is */
    struct net_node **nodes;
    size_t n_nodes, cap_nodes;
    struct net_value **parameters;
    size_t n_parameters, cap_parameters;
    struct net_value **constants;
    size_t n_constants, cap_constants;
    struct net_port input[NET_MAX_PORTS], output[NET_MAX_PORTS];
    size_t n_inputs, n_outputs, n_names;
    struct err failure; /* code 0: none */
};

/* Frees what it has, also after a failure. A network is all-zero at first. */
void network_done(struct network *net);
/* Keeps the first failure. */
void network_fail(struct network *net, const struct err *why);

struct net_value *network_input(struct network *net, const char *name, int64_t width);
void network_output(struct network *net, const char *name, int64_t width,
                    struct net_value *x);
/* A parameter of that name, which takes over the tensor's data. */
struct net_value *network_parameter(struct network *net, const char *name,
                                    struct tensor *value);
/* A constant; the data are copied. */
struct net_value *network_constant(struct network *net, const struct tensor *value);
struct net_value *network_number(struct network *net, float x);
struct net_value *network_integer(struct network *net, int64_t x);
struct net_value *network_ints(struct network *net, const int64_t *x, size_t n);

/* A node of one output. in[n]; NULL ones at the end are left out. */
struct net_value *network_op(struct network *net, enum net_op op,
                             struct net_value *const *in, size_t n,
                             const struct net_attr *attrs, size_t n_attrs);
struct net_value *network_unary(struct network *net, enum net_op op, struct net_value *x);
struct net_value *network_binary(struct network *net, enum net_op op, struct net_value *x,
                                 struct net_value *y);
/* Columns begin .. begin + width - 1 of x (N, columns); x itself if that is all of them. */
struct net_value *network_columns(struct network *net, struct net_value *x, int64_t begin,
                                  int64_t width, int64_t columns);
/* Along an axis; ret[n] get the parts, of these sizes; NULL: of equal ones. */
void network_split(struct network *net, struct net_value *x, const int64_t *sizes,
                   size_t n, int64_t axis, struct net_value **ret);
/* Side by side along an axis; NULL ones are left out, and one alone is returned as it is. */
struct net_value *network_concat(struct network *net, struct net_value *const *x,
                                 size_t n, int64_t axis);

/* NULL: it has no such attribute. */
const struct net_attr *net_node_attr(const struct net_node *node, const char *name,
                                     size_t len);

#define NET_INT(NAME, X)   ((struct net_attr){.name = (NAME), .n = -1, .ints = {(X)}})
#define NET_FLOAT(NAME, X) ((struct net_attr){.name = (NAME), .n = -2, .f = (X)})

/* ---- writing: onnx.c, torch.c ---- */

/* ONNX's model, opset 17. ERR_LIMIT, -errno. */
int network_write_onnx(const struct network *net, const char *path, struct err *err);
/* The parameters as an .npz, and a module of PyTorch that loads them to the path with .py
 * in place of .npz. ERR_ARG: the path does not end in .npz. */
int network_write_torch(const struct network *net, const char *path, struct err *err);

#endif
