/* graph.h - graphs of operations, in TensorFlow 1's terms and with its names.
 *
 * Once built, an operation does not change, except that control inputs can be added (and
 * import.h closes loops). Operations live in the graph's arena: pointers are stable until
 * graph_free. There is no default graph: every call names its graph, and fails with an
 * error that names the tensor if it belongs to another one.
 *
 * Errors   building calls return OUTPUT_NONE / NULL on failure and keep the first error
 *          in the graph (graph_error); a call given OUTPUT_NONE returns OUTPUT_NONE. So
 *          the code that builds a network checks for errors once, at its end.
 * Names    unique_name, name scopes, variable scopes and their reuse follow TensorFlow
 *          1.13 (framework/ops.py, ops/variable_scope.py).
 * Ops      types, inputs and attributes are TensorFlow's own (op_def registry); a
 *          graph has a table of them, one row each (op_def.h).
 */
#ifndef AGENT_GRAPH_GRAPH_H
#define AGENT_GRAPH_GRAPH_H

#include "common/err/err.h"
#include "common/tensor/tensor.h"

#include <stddef.h>
#include <stdint.h>

struct graph;
struct operation;

/* One output of an operation; "name:index" as text. */
struct output {
    struct operation *op;
    int index;
};
#define OUTPUT_NONE ((struct output){0})

static inline int output_same(struct output a, struct output b)
{
    return a.op == b.op && a.index == b.index;
}

/* With brood's op types; agent/ops/op_table.c defines it. */
struct graph *graph_new(void);
void graph_free(struct graph *g); /* NULL is fine */
/* The first error of building, or NULL. */
const struct err *graph_error(const struct graph *g);
void graph_clear_error(struct graph *g);

/* ---- operations, generically: begin, inputs and attributes, finish ---- */

enum attr_kind {
    ATTR_INT,
    ATTR_FLOAT,
    ATTR_BOOL,
    ATTR_TYPE,
    ATTR_SHAPE,
    ATTR_STRING,
    ATTR_TENSOR,
    ATTR_LIST_INT,
    ATTR_LIST_FLOAT,
    ATTR_LIST_TYPE,
    ATTR_LIST_SHAPE,
    ATTR_LIST_STRING,
    ATTR_OPAQUE
};

struct attr {
    const char *name;
    enum attr_kind kind;
    union {
        int64_t i; /* int, bool, type */
        float f;
        struct shape shape;
        struct tensor tensor; /* borrowed from the graph's arena */
    };
    const char *s; /* string, opaque: bytes */
    size_t s_len;
    size_t n;              /* lists */
    const int64_t *list_i; /* int, type */
    const float *list_f;
    const struct shape *list_shape;
    const struct tensor_string *list_s;
};

struct op_builder; /* valid until op_finish, which must follow */

/* name is made unique within the current name scope; NULL: TensorFlow's default for the
 * type. A name that ends in "/" is used unchanged. */
struct op_builder *op_begin(struct graph *g, const char *type, const char *name);
void op_input(struct op_builder *b, struct output x);
void op_control_input(struct op_builder *b, struct operation *op);
void op_device(struct op_builder *b, const char *device);
void op_colocate(struct op_builder *b, const char *op_name); /* _class: loc:@name */
void op_attr_int(struct op_builder *b, const char *name, int64_t v);
void op_attr_float(struct op_builder *b, const char *name, float v);
void op_attr_bool(struct op_builder *b, const char *name, int v);
void op_attr_type(struct op_builder *b, const char *name, enum dtype v);
void op_attr_shape(struct op_builder *b, const char *name, const struct shape *v);
void op_attr_string(struct op_builder *b, const char *name, const char *v);
void op_attr_tensor(struct op_builder *b, const char *name, const struct tensor *v);
void op_attr_ints(struct op_builder *b, const char *name, const int64_t *v, size_t n);
/* Checks arity and types, infers attributes (T, N, ...) from the inputs, runs the shape
 * rule. NULL on failure (graph_error). */
struct operation *op_finish(struct op_builder *b);

const char *operation_name(const struct operation *op);
const char *operation_type(const struct operation *op);
/* Whether the operation is of op `type` of the op table. Foreign ops (import.h) never
 * are, whatever their name. */
int operation_is(const struct operation *op, const char *type);
const char *operation_device(const struct operation *op);
struct graph *operation_graph(const struct operation *op);
int operation_id(const struct operation *op); /* creation order, 0-based */
/* Random operations whose names begin with `prefix` draw as if their names began with
 * `as` instead, so that networks in scopes of different names get the same initial
 * values. One prefix per graph; both strings are copied. */
void graph_alias_draws(struct graph *g, const char *prefix, const char *as);
/* The name from which the operation's draws are derived: its own, or the one that
 * graph_alias_draws gives it, in buf. */
const char *operation_draw_name(const struct operation *op, char *buf, size_t size);
int operation_n_inputs(const struct operation *op);
struct output operation_input(const struct operation *op, int i);
int operation_n_control_inputs(const struct operation *op);
struct operation *operation_control_input(const struct operation *op, int i);
int operation_n_outputs(const struct operation *op);
const struct attr *operation_attr(const struct operation *op,
                                  const char *name); /* or NULL */
int operation_n_attrs(const struct operation *op);
const struct attr *operation_attr_at(const struct operation *op, int i);
int operation_add_control_input(struct operation *op, struct operation *on);

enum dtype output_dtype(struct output x);
struct shape output_shape(struct output x); /* as far as known when it was built */
int output_is_ref(struct output x);         /* a variable's reference */
int output_valid(struct output x);
const char *output_name(struct output x, char *buf, size_t size); /* "name:0" */

int graph_n_operations(const struct graph *g);
struct operation *graph_operation_at(const struct graph *g, int id);
struct operation *graph_operation(const struct graph *g, const char *name); /* or NULL */
/* "x:0", TensorFlow's get_tensor_by_name. ERR_NOT_FOUND, ERR_ARG (no ":index"). */
int graph_tensor(const struct graph *g, const char *name, struct output *ret,
                 struct err *err);
/* graph_tensor for names that users type: errors end with "; did you mean 'x:0'?" if a name is
 * similar. */
int lookup_tensor(const struct graph *g, const char *name, struct output *ret,
                  struct err *err);
/* An operation that users name ("train/Adam"). ERR_NOT_FOUND. */
int lookup_operation(const struct graph *g, const char *name, struct operation **ret,
                     struct err *err);

/* Visits operations, each once: those that were added and not visited yet, the newest first.
 * The graph does not change meanwhile. */
struct op_walk {
    unsigned char *added;    /* [operations] */
    struct operation **todo; /* [operations] */
    size_t n_todo;
};
void op_walk_begin(struct op_walk *w, const struct graph *g);
void op_walk_end(struct op_walk *w);
/* Ignored if it was added before. */
void op_walk_add(struct op_walk *w, struct operation *op);
/* Adds what the operation depends on: its inputs, then its control inputs. */
void op_walk_add_inputs(struct op_walk *w, const struct operation *op);
struct operation *op_walk_next(struct op_walk *w); /* NULL: all are visited */

/* ---- scopes; each enter is paired with one leave ---- */

void name_scope_enter(struct graph *g,
                      const char *name); /* "x/" re-enters x, "" enters the root */
void name_scope_leave(struct graph *g);
const char *graph_name_scope(const struct graph *g);              /* "" or "a/b/" */
const char *graph_unique_name(struct graph *g, const char *name); /* arena */

enum reuse { REUSE_INHERIT, REUSE_TRUE, REUSE_AUTO };
/* name NULL: default_name made unique among the scopes opened here (dense, dense_1). */
void variable_scope_enter(struct graph *g, const char *name, const char *default_name,
                          enum reuse reuse);
void variable_scope_leave(struct graph *g);
const char *graph_variable_scope(const struct graph *g); /* "" or "a/b" */

/* Every op built inside runs after `ops` (NULL: one that could not be built); n 0
 * suspends the outer control dependencies. */
void control_dependencies_enter(struct graph *g, struct operation *const *ops, size_t n);
void control_dependencies_leave(struct graph *g);
void device_enter(struct graph *g, const char *device); /* innermost wins; NULL: none */
/* tf.train.replica_device_setter: places variables on /job:ps/task:0 .. n_ps-1 in turn,
 * and everything else on `worker` (NULL: "/job:worker"). device_leave ends it. */
void replica_device_enter(struct graph *g, int n_ps, const char *worker);
void device_leave(struct graph *g);
/* Ops built inside get the `_class` of op, or loc:@op if it has none. The innermost scope
 * wins; NULL: no colocation. */
void colocate_with_enter(struct graph *g, const struct operation *op);
void colocate_with_leave(struct graph *g);

/* ---- collections: ordered, made on first use ---- */

#define GLOBAL_VARIABLES    "variables"
#define LOCAL_VARIABLES     "local_variables"
#define TRAINABLE_VARIABLES "trainable_variables"
#define MODEL_VARIABLES     "model_variables"
#define TRAIN_OP            "train_op"
#define GLOBAL_STEP         "global_step"
#define HYPERPARAMETERS     "hyperparameters"

enum item_kind {
    ITEM_VARIABLE,
    ITEM_OUTPUT,
    ITEM_OPERATION,
    ITEM_INT,
    ITEM_FLOAT,
    ITEM_STRING,
    ITEM_BYTES /* a message that is kept without parsing it: s, n_bytes */
};
struct variable;
struct collection_item {
    enum item_kind kind;
    struct variable *variable;
    struct output output;
    struct operation *op;
    int64_t i;
    double f;
    const char *s;
    size_t n_bytes;
};

void collection_add(struct graph *g, const char *key, struct collection_item item);
/* Removes all items. */
void collection_clear(struct graph *g, const char *key);
/* scope NULL: all; otherwise items whose name begins with it (a regular expression in
 * TensorFlow; here a literal prefix). ret_items: arena of the graph, may be NULL. */
size_t collection_get(struct graph *g, const char *key, const char *scope,
                      const struct collection_item **ret_items);
int graph_n_collections(const struct graph *g);
const char *graph_collection_name(const struct graph *g, int i);

/* ---- initialisers (source: tf.initializers; He et al. 2015; Saxe et al. 2014) ---- */

/* Builds the initial value of a variable when its shape is known. */
struct initializer {
    struct output (*build)(struct graph *g, const struct initializer *self,
                           enum dtype dtype, const struct shape *shape);
    double a, b;         /* parameters of `build` */
    struct output value; /* build NULL: the initial value itself */
};
struct initializer zeros_initializer(void);
struct initializer ones_initializer(void);
struct initializer constant_initializer(double value);
struct initializer uniform_initializer(double low, double high);
struct initializer random_normal_initializer(double mean, double stddev);
struct initializer truncated_normal_initializer(double mean, double stddev);
struct initializer glorot_uniform_initializer(void); /* = xavier of contrib.layers */
struct initializer he_normal_initializer(void);
struct initializer he_uniform_initializer(void);
/* Q of the QR decomposition of normal draws, times gain. on-policy's networks: gain sqrt 2
 * before a ReLU, 5/3 before a tanh, 1 in recurrent cells, 0.01 in the head of a policy. */
struct initializer orthogonal_initializer(double gain);
/* torch.nn.Linear's: uniform in +-1/sqrt(fan_in), for weights and biases alike. */
struct initializer linear_initializer(int64_t fan_in);
struct initializer tensor_initializer(struct output value);

/* ---- variables ---- */

struct variable {
    const char *name; /* operation name, without ":0" */
    enum dtype dtype;
    struct shape shape; /* fully known */
    struct output ref;  /* VariableV2, or VarHandleOp's handle (dtype resource) */
    struct output read; /* the value: name/read:0, an Identity; for a resource,
                         * name/Read/ReadVariableOp:0 */
    struct output initial_value;
    struct operation *initializer; /* name/Assign */
    int trainable;
};

#define VARIABLE_NOT_TRAINABLE 1u
#define VARIABLE_LOCAL         2u /* collection local_variables instead of variables */

#define VARIABLE_RESOURCE 4u /* a VarHandleOp (use_resource=True) */

/* tf.get_variable: named by variable scopes only. init NULL: Glorot uniform for floats,
 * zeros for integers and bools. shape NULL with a tensor initialiser: the tensor's.
 * If it exists without reuse, or does not exist with REUSE_TRUE: NULL and graph_error,
 * with TensorFlow's message. */
struct variable *get_variable(struct graph *g, const char *name, enum dtype dtype,
                              const struct shape *shape, const struct initializer *init,
                              unsigned flags);
/* tf.Variable: its name is made unique, and name scopes prefix it, too. */
struct variable *variable_new(struct graph *g, struct output initial_value,
                              const char *name, unsigned flags);
/* tf.Variable(value): the Const is `<name>/initial_value`, or for a resource
 * `<name>/Initializer/initial_value`. */
struct variable *variable_new_constant(struct graph *g, const struct tensor *value,
                                       const char *name, unsigned flags);
struct variable *variable_find(const struct graph *g, const char *name); /* or NULL */
int graph_n_variables(const struct graph *g); /* of all kinds, creation order */
struct variable *graph_variable_at(const struct graph *g, int i);

/* For a resource, use only `op` of the returned outputs: the operation has no outputs. */
struct output variable_assign(struct variable *v, struct output value, const char *name);
struct output variable_assign_add(struct variable *v, struct output value,
                                  const char *name);
struct output variable_assign_sub(struct variable *v, struct output value,
                                  const char *name);
/* A scalar bool: whether the variable has a value at that point of the run. */
struct output variable_is_initialized(struct variable *v, const char *name);
/* The variable's value if it has one, otherwise its initial value, so that another
 * variable can be initialised from it: the tf.cond that TensorFlow builds. */
struct output variable_initialized_value(struct variable *v);
/* NoOp "init" with every initializer of the collection(s) as control input. */
struct operation *global_variables_initializer(struct graph *g, const char *name);
struct operation *initialize_all_variables(struct graph *g); /* its old name */
struct operation *local_variables_initializer(struct graph *g, const char *name);
struct operation *variables_initializer(struct graph *g, struct variable *const *vars,
                                        size_t n, const char *name);

/* tf.train.get_global_step: NULL if there is none. */
struct variable *global_step(struct graph *g);
/* An int64 scalar, always named `global_step`, whatever scopes are open; also in
 * collection GLOBAL_STEP. */
struct variable *get_or_create_global_step(struct graph *g);

/* ---- gradients ---- */

/* tf.gradients: adds nodes for d(sum of ys)/d(x) under name scope "gradients". ret_grads
 * [n_xs]; OUTPUT_NONE where y does not depend on x. grad_ys NULL: ones. stop: outputs
 * treated as constants. */
int graph_gradients(struct graph *g, const struct output *ys, size_t n_ys,
                    const struct output *xs, size_t n_xs, const struct output *grad_ys,
                    const struct output *stop, size_t n_stop, struct output *ret_grads,
                    struct err *err);
/* tf.gradients with gate_gradients: the gradients of an operation's inputs are passed on only
 * when all of them are computed (a tuple; it costs a run nothing). */
int graph_gradients_gated(struct graph *g, struct output y, const struct output *xs,
                          size_t n_xs, struct output *ret_grads, struct err *err);

#endif
