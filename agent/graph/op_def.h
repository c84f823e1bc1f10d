/* op_def.h - the row of an operation type: signature, shape rule, gradient rule, kernel.
 *
 * Names, attributes and semantics are those of TensorFlow (op_def registry). A graph gets its
 * types as a table when it is created; agent/ops has the one that brood uses, with all rules
 * and kernels. Nothing in this folder calls a rule by name.
 */
#ifndef AGENT_GRAPH_OP_DEF_H
#define AGENT_GRAPH_OP_DEF_H

#include "agent/graph/graph.h"

/* A shape rule runs twice: when the operation is built (dimensions may be -1, most values
 * are unknown) and when a plan is made for fed sizes (all dimensions are known). */
struct shape_args {
    const struct operation *op;
    int n_in;
    const struct shape *in;
    /* value[i]: the input's value if it is known (constants, shapes), otherwise NULL */
    const struct tensor *const *value;
    struct shape *out; /* [n_outputs], preset to SHAPE_UNKNOWN */
    struct err *err;
    int is_planning; /* the shapes and values are those of a run, in which any may be fed */
};
typedef int (*shape_fn)(const struct shape_args *args); /* 0, ERR_SHAPE, ERR_ARG */

/* Builds the nodes that compute the gradients of the inputs from those of the outputs.
 * grad_in[i] is preset to OUTPUT_NONE; a missing grad_out is OUTPUT_NONE. */
typedef int (*grad_fn)(struct graph *g, struct operation *op,
                       const struct output *grad_out, struct output *grad_in);

/* Computes an operation (agent/ops/kernel.h). 0 or an error code. */
struct kernel_args;
struct signature;
struct signature_arg;
typedef int (*kernel_fn)(const struct kernel_args *args);

/* Most operations are loops over elements or return the bytes of an input unchanged; the
 * planner fuses the former and removes the latter. */
enum kernel_kind {
    KERNEL_NONE, /* only foreign ops (import.h): no session can run them */
    KERNEL_CALL,
    KERNEL_LOOP,  /* element by element, NumPy broadcasting (agent/kernels/loops.h) */
    KERNEL_ALIAS, /* output 0 has the bytes of input 0, perhaps another shape */
    KERNEL_GEMM,  /* MatMul of float32; `call` for the other dtypes */
    KERNEL_PLANNED, /* nothing to compute: the plan has the result, or the session runs it */
};

struct kernel {
    enum kernel_kind kind;
    kernel_fn call; /* KERNEL_CALL, KERNEL_GEMM */
};

enum op_flags {
    OP_STATEFUL = 1,    /* draws or uses a variable: never merged or removed */
    OP_WRITES = 2,      /* changes the variable behind input 0 (optimisers: 0..k) */
    OP_NO_GRADIENT = 4, /* TensorFlow has no gradient either */
    OP_FOREIGN = 8,     /* not in the table: cannot run (import.h) */
    /* writes no variable, but has effects that a control edge must order: uses files,
     * checks values, or decides which branch runs */
    OP_AWAITED = 16,
    /* its kernel calls libm, whose last bits differ between machines; for float32 and
     * float64 */
    OP_LIBM = 32,
    /* the same for float64 only; the float32 kernel does not call libm */
    OP_LIBM_DOUBLE = 64,
    /* no plan computes it: the session runs it between plans (flow/stages.h) */
    OP_STAGED = 128,
    /* its kernel draws random numbers and so needs a key */
    OP_DRAWS = 256,
    /* the operation of a variable; it has the attributes `dtype` and `shape` */
    OP_VARIABLE = 512,
    /* its result depends on the shapes of its inputs, not on their values */
    OP_SHAPES_ONLY = 1024,
    /* output 0 has the bytes of input 0 if it has as many elements */
    OP_SAME_IF_WHOLE = 2048,
    /* its kernel allocates the strings that it returns, and frees those that are in their
     * place from an earlier run; all others return those of inputs */
    OP_MAKES_STRINGS = 4096,
    /* its float32 kernel can read matrices whose rows are apart (kernel_args.row_stride) */
    OP_ROWS_APART = 8192,
    /* with OP_WRITES: may read an element of an input after it wrote another element of the
     * variable, so that a value that was read before must be a copy */
    OP_WRITES_PARTS = 16384,
    /* uses the look-up table whose handle is input 0: its kernel gets the table's index, keys
     * and values in place of it (agent/ops/tables.c) */
    OP_TABLE = 32768,
};

struct op_def {
    const char *type;
    unsigned flags;
    shape_fn shape;
    grad_fn grad; /* NULL with OP_NO_GRADIENT */
    struct kernel kernel;
    const char *signature; /* "x:T, y:T -> z:T; T:type", see signature.h */
    /* The ranks that the first inputs must have, checked before `shape`: "?0": input 1 is a
     * scalar, all others are of any rank. NULL: any. */
    const char *ranks;
    /* The arguments whose values decide the sizes of the results: "indices", "x axis". Unless
     * planning knows them, the session runs the operation between plans (flow/stages.h),
     * where the shape rule gets all values. NULL: none, or those that a plan must know. */
    const char *sized_by;
    /* The number of floats of scratch memory that the kernel gets as one more output, after the
     * operation's own; all shapes are known. NULL: none. */
    int64_t (*scratch)(const struct shape_args *args);
    /* The length of the string that is the result, whatever the values of inputs that are not
     * strings are (their memory is not read): the kernel writes it in place. NULL: unknown. */
    size_t (*text_bytes)(const struct kernel_args *args);
    /* `signature`, read: of the definitions that an import adds to a graph. NULL: a row. */
    const struct signature *read;
};

/* The rows of one source file. */
struct op_family {
    const struct op_def *rows;
    size_t n;
};
struct op_table {
    const struct op_family *const *families;
    size_t n;
};

/* An empty graph whose operations are of these types; the table outlives it. graph_free(). */
struct graph *graph_create(const struct op_table *types);
const struct op_table *graph_op_table(const struct graph *g);

const struct op_def *op_def_find(const struct op_table *t,
                                 const char *type); /* or NULL */
const struct op_def *op_def_at(const struct op_table *t,
                               size_t i); /* NULL past the end */
const struct op_def *operation_def(const struct operation *op);
const struct signature *operation_signature(const struct operation *op);
/* The argument of its signature that input i belongs to; NULL if it has fewer inputs. */
const struct signature_arg *operation_argument(const struct operation *op, int i);
/* The signature, read once for each graph. def: a row, or a definition of this graph. */
const struct signature *op_def_signature(struct graph *g, const struct op_def *def);

/* Attributes that the signature has, and so every operation of the type. */
int64_t attr_int(const struct operation *op, const char *name); /* int, bool, type */
const struct shape *attr_shape(const struct operation *op, const char *name);

/* Whether the row names the argument of input i in `sized_by`. Parses the signature. */
int operation_is_sized_by(const struct operation *op, int i);

/* Whether the operation is that of a variable: VariableV2, Variable or VarHandleOp. */
int operation_is_variable(const struct operation *op);
/* Switch, Merge, Enter, or the same of references. */
int operation_is_switch(const struct operation *op);
int operation_is_merge(const struct operation *op);
int operation_is_enter(const struct operation *op);
/* Whether the session runs it between plans: OP_STAGED, or it computes a list (a DT_VARIANT)
 * from lists, as the AddN of lists does (flow/lists.h). */
int operation_is_staged(const struct operation *op);
/* The VarHandleOp of this handle, which other operations may have passed on; NULL if
 * there is none. */
const struct operation *operation_behind_handle(struct output handle);
/* The HashTableV2 of this handle; NULL if there is none. */
const struct operation *operation_table(struct output handle);
/* Checks the ranks of the inputs and applies the shape rule. 0, ERR_SHAPE, ERR_ARG. */
int operation_infer_shapes(const struct shape_args *args);
/* The first operation whose kernel calls libm, so that the graph's results may have other
 * bits on another machine. NULL if there is none. */
const struct operation *graph_first_libm(const struct graph *g);

/* ---- for rules ---- */
/* A grad_fn. ERR_UNSUPPORTED: TensorFlow has no gradient either. */
int grad_missing(struct graph *g, struct operation *op, const struct output *grad_out,
                 struct output *grad_in);
/* Records the graph's first error; returns its code. */
int graph_fail(struct graph *g, int code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* ERR_SHAPE if input i is known to have another rank, otherwise 0. */
int want_rank(const struct shape_args *args, int i, int rank);
/* The value of a Const, or NULL. */
const struct tensor *output_constant(struct output x);
/* Adds information to the output's shape. ERR_SHAPE: it contradicts what is known. */
int output_set_shape(struct output x, const struct shape *shape);
/* Memory that lives as long as the graph. */
struct arena *graph_arena(struct graph *g);

#endif
