/* state.c - variables and the ops that write them, in place, in the session's block. */
#include "agent/kernels/loops.h"
#include "agent/ops/kernel_parts.h"
#include "agent/ops/op_rules.h"
#include "common/tensor/half.h"
#include "common/tensor/string_slab.h"

#include <string.h>

/* ---- kernels ---- */

int kern_assign(const struct kernel_args *a)
{
    struct tensor *var = a->in[0];
    const char *x = a->in[1]->data, *y = var->data;
    const size_t bytes = tensor_bytes(var);

    if (var->dtype == DT_STRING) {
        const int rc = string_slab_put(var->data, a->in[1], a->err);

        return rc == 0 ? 0 : (err_wrap(a->err, "%s", operation_name(a->op)), rc);
    }
    if (var->dtype == DT_FLOAT && (x == y || x + bytes <= y || y + bytes <= x)) {
        kern_loops()->canonical_nan(var->data, a->in[1]->data, bytes / sizeof(float));
        return 0;
    }
    memmove(a->in[0]->data, a->in[1]->data, bytes);
    tensor_canonical_nans(a->in[0]);
    return 0;
}

/* in: var, x, p, y, q; p and q are scalars.  var = x p + y q. The planner makes this
 * operation from an Assign and the operations that compute its value. */
int kern_follow(const struct kernel_args *a)
{
    kern_loops()->follow(a->in[0]->data, a->in[1]->data, *tensor_f32(a->in[2]),
                         a->in[3]->data, *tensor_f32(a->in[4]),
                         (size_t)tensor_elements(a->in[0]));
    return 0;
}

static int combine(const struct kernel_args *a, const char *type)
{
    struct tensor *var = a->in[0];
    const struct loop_row *row = kern_loop_find(type, var->dtype);

    if (row == NULL)
        return err_set(a->err, ERR_UNSUPPORTED, "%s: no %s of %s", operation_name(a->op),
                       operation_type(a->op), dtype_name(var->dtype));
    row->fn(var->data, var->data, a->in[1]->data, NULL, (size_t)tensor_elements(var), 0);
    tensor_canonical_nans(var);
    return 0;
}

static int kern_assign_add(const struct kernel_args *a)
{
    return combine(a, "Add");
}

static int kern_assign_sub(const struct kernel_args *a)
{
    return combine(a, "Sub");
}

/* The result is the value before; the planner copies it first. */
static int kern_count_up_to(const struct kernel_args *a)
{
    const int64_t limit = attr_int(a->op, "limit"), n = tensor_int(a->in[0], 0);

    if (n >= limit)
        return err_set(a->err, ERR_ARG, "%s: Reached limit of %lld",
                       operation_name(a->op), (long long)limit);
    tensor_set_int(a->in[0], 0, n + 1);
    return 0;
}

/* The session forgets that the variable has a value. */
int kern_destroy(const struct kernel_args *a)
{
    if (a->initialized || attr_int(a->op, "ignore_lookup_error"))
        return 0;
    return err_set(a->err, ERR_UNINITIALIZED,
                   "%s: the variable has no value that it could destroy",
                   operation_name(a->op));
}

enum { MAX_INPUTS = 16 }; /* of an operation that writes float16 */

static int is_half(const struct tensor *t)
{
    return t->dtype == DT_HALF || t->dtype == DT_BFLOAT16;
}

/* TensorFlow rounds alpha delta before it is subtracted: makes that delta, and alpha 1. */
static void round_step(const struct tensor *alpha, const struct tensor *delta,
                       const struct tensor *half)
{
    float *x = tensor_f32(delta), rate = *tensor_f32(alpha);
    const size_t n = (size_t)tensor_elements(delta);

    for (size_t i = 0; i < n; i++)
        x[i] = half->dtype == DT_HALF ? half_to_f32(half_from_f32(rate * x[i]))
                                      : bfloat16_to_f32(bfloat16_from_f32(rate * x[i]));
    *tensor_f32(alpha) = 1;
}

/* Calls the kernel of an operation that writes variables with float32 in the place of float16
 * and bfloat16; out 0 is scratch memory for all of them. */
int kern_in_float32(const struct kernel_args *a)
{
    float *at = a->out[0]->data;
    struct tensor wide[MAX_INPUTS], *in[MAX_INPUTS];
    struct kernel_args own = *a;
    int rc;

    if (a->n_in > MAX_INPUTS)
        return err_set(a->err, ERR_UNSUPPORTED, "%s: no %s of %s", operation_name(a->op),
                       operation_type(a->op), dtype_name(a->in[0]->dtype));
    for (int i = 0; i < a->n_in; i++) {
        const struct tensor *x = a->in[i];
        const size_t n = is_half(x) ? (size_t)tensor_elements(x) : 0;

        in[i] = a->in[i];
        if (!is_half(x))
            continue;
        wide[i] = tensor_view(DT_FLOAT, x->shape, at);
        in[i] = &wide[i];
        kern_loops()->cast(x->dtype, DT_FLOAT)(at, x->data, NULL, NULL, n, 0);
        at += n;
    }
    if (operation_is(a->op, "ApplyGradientDescent") ||
        operation_is(a->op, "ResourceApplyGradientDescent"))
        round_step(in[1], in[2], a->in[2]);
    own.in = in;
    own.out = NULL;
    own.n_out = 0;
    rc = operation_def(a->op)->kernel.call(&own);
    for (int i = 0; rc == 0 && i < a->n_in; i++) {
        const struct output x = operation_input(a->op, i);

        if (is_half(a->in[i]) && (output_is_ref(x) || output_dtype(x) == DT_RESOURCE))
            kern_loops()->cast(DT_FLOAT,
                               a->in[i]->dtype)(a->in[i]->data, wide[i].data, NULL, NULL,
                                                (size_t)tensor_elements(a->in[i]), 0);
    }
    return rc;
}

int kern_is_initialized(const struct kernel_args *a)
{
    *(uint8_t *)a->out[0]->data = a->initialized != 0;
    return 0;
}

/* in: the variable whose operation a->op is */
int kern_need_value(const struct kernel_args *a)
{
    if (a->initialized)
        return 0;
    return err_set(a->err, ERR_UNINITIALIZED, "Attempting to use uninitialized value %s",
                   operation_name(a->op));
}

/* ---- shapes and gradients ---- */

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

static int read_resource_shape(const struct shape_args *args)
{
    return variable_shape(args, 0, "dtype", &args->out[0]);
}

static int assign_resource_shape(const struct shape_args *args)
{
    struct shape shape;

    if (variable_shape(args, 0, "dtype", &shape) != 0)
        return ERR_DTYPE;
    if (!shape_compatible(&shape, &args->in[1]))
        return err_set(args->err, ERR_SHAPE,
                       "a value of shape %s for a variable of shape %s",
                       shape_text(&args->in[1]), shape_text(&shape));
    return 0;
}

static int count_up_to_shape(const struct shape_args *args)
{
    struct shape x;

    if (variable_shape(args, 0, "T", &x) != 0)
        return ERR_DTYPE;
    args->out[0] = SHAPE_SCALAR;
    if (x.rank <= 0)
        return 0;
    return err_set(args->err, ERR_SHAPE, "a counter must be a scalar, but is %s",
                   shape_text(&x));
}

GRAD(read_resource_grad)
{
    grad_in[0] = grad_out[0];
    return 0;
}

/* ---- the rows ---- */

#define ASSIGN(type, kernel, attrs)                                                      \
    {                                                                                    \
        type, OP_STATEFUL | OP_WRITES | OP_NO_GRADIENT, assign_shape, NULL, kernel,      \
            "ref:&T, value:T -> output_ref:&T; T:" attrs                                 \
    }

/* Variable is the name that TensorFlow 0.12 gave to VariableV2. */
#define VARIABLE(type)                                                                   \
    {                                                                                    \
        type, OP_STATEFUL | OP_NO_GRADIENT | OP_VARIABLE, shape_declared, NULL, PLANNED, \
            "-> ref:&dtype; shape:shape, dtype:type, container:string=, "                \
            "shared_name:string="                                                        \
    }

#define ASSIGN_RESOURCE(type, kernel, attrs)                                             \
    {                                                                                    \
        type, OP_STATEFUL | OP_WRITES | OP_NO_GRADIENT, assign_resource_shape, NULL,     \
            kernel, "resource:resource, value:dtype ->; dtype:type" attrs                \
    }

static const struct op_def rows[] = {
    VARIABLE("VariableV2"),
    VARIABLE("Variable"),
    {"IsVariableInitialized", OP_STATEFUL | OP_NO_GRADIENT, shape_scalar, NULL,
     CALL(kern_is_initialized), "ref:&dtype -> is_initialized:bool; dtype:type"},
    ASSIGN("Assign", CALL(kern_assign),
           "type, validate_shape:bool=true, use_locking:bool=true"),
    ASSIGN("AssignAdd", CALL(kern_assign_add), "number_type, use_locking:bool=false"),
    ASSIGN("AssignSub", CALL(kern_assign_sub), "number_type, use_locking:bool=false"),
    {"VarHandleOp", OP_STATEFUL | OP_NO_GRADIENT | OP_VARIABLE, shape_scalar, NULL,
     PLANNED,
     "-> resource:resource; container:string=, shared_name:string=, dtype:type, "
     "shape:shape"},
    {"ReadVariableOp", OP_STATEFUL, read_resource_shape, read_resource_grad, ALIAS,
     "resource:resource -> value:dtype; dtype:type"},
    {"VarIsInitializedOp", OP_STATEFUL | OP_NO_GRADIENT, shape_scalar, NULL,
     CALL(kern_is_initialized), "resource:resource -> is_initialized:bool"},
    /* the shape is always checked, whatever validate_shape (since TensorFlow 2.9) says */
    ASSIGN_RESOURCE("AssignVariableOp", CALL(kern_assign), ", validate_shape:bool=false"),
    ASSIGN_RESOURCE("AssignAddVariableOp", CALL(kern_assign_add), ""),
    ASSIGN_RESOURCE("AssignSubVariableOp", CALL(kern_assign_sub), ""),
    {"CountUpTo", OP_STATEFUL | OP_WRITES | OP_NO_GRADIENT, count_up_to_shape, NULL,
     CALL(kern_count_up_to), "ref:&T -> output:T; limit:int, T:index_type"},
    {"ResourceCountUpTo", OP_STATEFUL | OP_WRITES | OP_NO_GRADIENT, count_up_to_shape,
     NULL, CALL(kern_count_up_to),
     "resource:resource -> output:T; limit:int, T:index_type"},
    /* concerns TensorFlow's memory for values that are read and written at once */
    {"DisableCopyOnRead", OP_NO_GRADIENT, shape_none, NULL, PLANNED,
     "resource:resource ->"},
    {"DestroyResourceOp", OP_STATEFUL | OP_WRITES | OP_NO_GRADIENT, shape_none, NULL,
     CALL(kern_destroy), "resource:resource ->; ignore_lookup_error:bool=true"},
};

const struct op_family ops_of_state = OP_FAMILY(rows);
