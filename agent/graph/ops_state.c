/* ops_state.c - variables and the ops that write them; and the QR decomposition that the
 * orthogonal initialiser needs. */
#include "agent/graph/op_rules.h"

#include <string.h>

/* With validate_shape false the variable's shape could change, but its memory cannot. */
static int assign_shape(const struct shape_args *args)
{
    if (shape_merge(&args->in[0], &args->in[1], &args->out[0]) != 0)
        return err_set(args->err, ERR_SHAPE,
                       "a value of shape %s for a variable of shape %s",
                       shape_text(&args->in[1]), shape_text(&args->in[0]));
    return 0;
}

/* ---- resource variables: a handle that names the variable ---- */

int operation_is_variable(const struct operation *op)
{
    static const char *const types[] = {"VariableV2", "Variable", "VarHandleOp", NULL};

    return operation_is_any(op, types);
}

const struct operation *operation_behind_handle(struct output handle)
{
    while (output_valid(handle) && operation_n_inputs(handle.op) > 0) {
        const int id = operation_id(handle.op);

        handle = operation_input(handle.op, 0);
        if (output_valid(handle) && operation_id(handle.op) >= id)
            return NULL; /* the handle is carried by a loop */
    }
    if (!output_valid(handle) || !operation_is(handle.op, "VarHandleOp"))
        return NULL;
    return handle.op;
}

/* Checks dtype and shape of the variable against those of the value, as far as they are
 * known. */
static int check_handle(const struct shape_args *args, struct shape *ret)
{
    const struct operation *v = operation_behind_handle(operation_input(args->op, 0));

    *ret = SHAPE_UNKNOWN;
    if (v == NULL)
        return 0;
    if (attr_int(v, "dtype") != attr_int(args->op, "dtype"))
        return err_set(args->err, ERR_DTYPE, "variable %s has dtype %s, not %s",
                       operation_name(v), dtype_name((enum dtype)attr_int(v, "dtype")),
                       dtype_name((enum dtype)attr_int(args->op, "dtype")));
    *ret = *attr_shape(v, "shape");
    return 0;
}

static int read_resource_shape(const struct shape_args *args)
{
    return check_handle(args, &args->out[0]);
}

static int assign_resource_shape(const struct shape_args *args)
{
    struct shape shape;

    if (check_handle(args, &shape) != 0)
        return ERR_DTYPE;
    if (!shape_compatible(&shape, &args->in[1]))
        return err_set(args->err, ERR_SHAPE,
                       "a value of shape %s for a variable of shape %s",
                       shape_text(&args->in[1]), shape_text(&shape));
    return 0;
}

GRAD(read_resource_grad)
{
    grad_in[0] = grad_out[0];
    return 0;
}

/* x (M, N) = q r: q (M, K), r (K, N), K = min(M, N); full_matrices: q (M, M), r (M, N).
 */
static int qr_shape(const struct shape_args *args)
{
    const struct shape *x = &args->in[0];
    int64_t m = dim_of(x, 0), n = dim_of(x, 1), k = m < n ? m : n;

    if (attr_int(args->op, "full_matrices"))
        k = m;
    args->out[0] = SHAPE(m, k);
    args->out[1] = SHAPE(k, n);
    return 0;
}

/* The diagonal of a square matrix. */
static int diag_part_shape(const struct shape_args *args)
{
    const struct shape *x = &args->in[0];

    if (dim_of(x, 0) >= 0 && dim_of(x, 1) >= 0 && dim_of(x, 0) != dim_of(x, 1))
        return err_set(args->err, ERR_SHAPE, "%s is not square", shape_text(x));
    args->out[0] = SHAPE(dim_of(x, 0) >= 0 ? dim_of(x, 0) : dim_of(x, 1));
    return 0;
}

#define ASSIGN(type, attrs)                                                              \
    {                                                                                    \
        type, OP_STATEFUL | OP_WRITES | OP_NO_GRADIENT, assign_shape, NULL,              \
            "ref:&T, value:T -> output_ref:&T; T:" attrs                                 \
    }

/* Variable is the name that TensorFlow 0.12 gave to VariableV2. */
#define VARIABLE(type)                                                                   \
    {                                                                                    \
        type, OP_STATEFUL | OP_NO_GRADIENT, shape_declared, NULL,                        \
            "-> ref:&dtype; shape:shape, dtype:type, container:string=, "                \
            "shared_name:string="                                                        \
    }

#define ASSIGN_RESOURCE(type, attrs)                                                     \
    {                                                                                    \
        type, OP_STATEFUL | OP_WRITES | OP_NO_GRADIENT, assign_resource_shape, NULL,     \
            "resource:resource, value:dtype ->; dtype:type" attrs                        \
    }

static const struct op_def rows[] = {
    VARIABLE("VariableV2"),
    VARIABLE("Variable"),
    {"IsVariableInitialized", OP_STATEFUL | OP_NO_GRADIENT, shape_scalar, NULL,
     "ref:&dtype -> is_initialized:bool; dtype:type"},
    ASSIGN("Assign", "type, validate_shape:bool=true, use_locking:bool=true"),
    ASSIGN("AssignAdd", "number_type, use_locking:bool=false"),
    ASSIGN("AssignSub", "number_type, use_locking:bool=false"),
    {"VarHandleOp", OP_STATEFUL | OP_NO_GRADIENT, shape_scalar, NULL,
     "-> resource:resource; container:string=, shared_name:string=, dtype:type, "
     "shape:shape"},
    {"ReadVariableOp", OP_STATEFUL, read_resource_shape, read_resource_grad,
     "resource:resource -> value:dtype; dtype:type"},
    {"VarIsInitializedOp", OP_STATEFUL | OP_NO_GRADIENT, shape_scalar, NULL,
     "resource:resource -> is_initialized:bool"},
    /* the shape is always checked, whatever validate_shape (since TensorFlow 2.9) says */
    ASSIGN_RESOURCE("AssignVariableOp", ", validate_shape:bool=false"),
    ASSIGN_RESOURCE("AssignAddVariableOp", ""),
    ASSIGN_RESOURCE("AssignSubVariableOp", ""),
    {"Qr", OP_NO_GRADIENT, qr_shape, NULL,
     "input:T -> q:T, r:T; full_matrices:bool=false, T:float_type", .ranks = "2"},
    {"DiagPart", OP_NO_GRADIENT, diag_part_shape, NULL,
     "input:T -> diagonal:T; T:number_type", .ranks = "2"},
};

const struct op_family ops_of_state = OP_FAMILY(rows);
