/* training.c - the update ops of the optimisers, which change variables in place, in the
 * session's block.
 *
 * Source   formulas of tf.train's optimisers as in training_ops.cc of TensorFlow 1.13.
 *
 * A float64 variable is updated by the plain loops below, a float32 variable by those of
 * loops.h where there is one. */
#include "agent/graph/signature.h"
#include "agent/kernels/loops.h"
#include "agent/ops/kernel_parts.h"
#include "agent/ops/op_rules.h"
#include "common/err/check.h"

#include <math.h>

/* ---- kernels ---- */

static double scalar(const struct tensor *t)
{
    return t->dtype == DT_FLOAT ? (double)*tensor_f32(t) : *(const double *)t->data;
}

/* Replaces a subnormal moment with zero: this has no effect on training, while
 * arithmetic on subnormal numbers costs a hundred cycles each. */
static inline double faded(double x, double smallest)
{
    return fabs(x) < smallest ? 0 : x;
}
#define FADED(T, x) ((T)faded((double)(x), sizeof(T) == 4 ? 0x1p-126 : 0x1p-1022))

/* Replaces every NaN in the first `n` inputs, the variables, with the canonical one. */
static void canonical_nan(const struct kernel_args *a, int n)
{
    for (int i = 0; i < n; i++)
        tensor_canonical_nans(a->in[i]);
}

/* Compiles BODY for float32 and float64, with T as the type, SQRT as its square root. */
#define FOR_FLOATS(a, n_variables, BODY)                                                 \
    switch ((a)->in[0]->dtype) {                                                         \
    case DT_FLOAT: {                                                                     \
        BODY(float, sqrtf)                                                               \
        canonical_nan(a, n_variables);                                                   \
        return 0;                                                                        \
    }                                                                                    \
    case DT_DOUBLE: {                                                                    \
        BODY(double, sqrt)                                                               \
        canonical_nan(a, n_variables);                                                   \
        return 0;                                                                        \
    }                                                                                    \
    default:                                                                             \
        return err_set((a)->err, ERR_UNSUPPORTED, "%s: no %s of %s",                     \
                       operation_name((a)->op), operation_type((a)->op),                 \
                       dtype_name((a)->in[0]->dtype));                                   \
    }

/* in: var, alpha, delta.  var -= alpha delta */
static int kern_apply_gradient_descent(const struct kernel_args *a)
{
    int64_t n = tensor_elements(a->in[0]);

#define BODY(T, SQRT)                                                                    \
    T *var = a->in[0]->data;                                                             \
    const T *delta = a->in[2]->data;                                                     \
    T rate = (T)scalar(a->in[1]);                                                        \
    for (int64_t i = 0; i < n; i++)                                                      \
        var[i] -= rate * delta[i];
    FOR_FLOATS(a, 1, BODY)
#undef BODY
}

/* in: var, accum, lr, grad, momentum.  accum = momentum accum + grad; var -= lr accum,
 * or with use_nesterov var -= lr grad + lr momentum accum */
static int kern_apply_momentum(const struct kernel_args *a)
{
    int64_t n = tensor_elements(a->in[0]), nesterov = attr_int(a->op, "use_nesterov");

#define BODY(T, SQRT)                                                                    \
    T *var = a->in[0]->data, *accum = a->in[1]->data;                                    \
    const T *grad = a->in[3]->data;                                                      \
    T rate = (T)scalar(a->in[2]), momentum = (T)scalar(a->in[4]);                        \
    for (int64_t i = 0; i < n; i++) {                                                    \
        T g = grad[i];                                                                   \
        accum[i] = FADED(T, accum[i] * momentum + g);                                    \
        var[i] -= nesterov ? g * rate + accum[i] * momentum * rate : accum[i] * rate;    \
    }
    FOR_FLOATS(a, 2, BODY)
#undef BODY
}

/* in: var, ms, mom, lr, rho, momentum, epsilon, grad.  ms += (g^2 - ms)(1 - rho);
 * mom = momentum mom + lr g / sqrt(ms + epsilon); var -= mom */
static int kern_apply_rms_prop(const struct kernel_args *a)
{
    int64_t n = tensor_elements(a->in[0]);

#define BODY(T, SQRT)                                                                    \
    T *var = a->in[0]->data, *ms = a->in[1]->data, *mom = a->in[2]->data;                \
    const T *grad = a->in[7]->data;                                                      \
    T rate = (T)scalar(a->in[3]), rho = (T)scalar(a->in[4]);                             \
    T momentum = (T)scalar(a->in[5]), epsilon = (T)scalar(a->in[6]);                     \
    for (int64_t i = 0; i < n; i++) {                                                    \
        T g = grad[i];                                                                   \
        ms[i] = FADED(T, ms[i] + (g * g - ms[i]) * ((T)1 - rho));                        \
        mom[i] = FADED(T, mom[i] * momentum + g * rate / SQRT(ms[i] + epsilon));         \
        var[i] -= mom[i];                                                                \
    }
    FOR_FLOATS(a, 3, BODY)
#undef BODY
}

/* in: var, m, v, beta1_power, beta2_power, lr, beta1, beta2, epsilon, grad
 * rate = lr sqrt(1 - beta2_power) / (1 - beta1_power); m += (g - m)(1 - beta1);
 * v += (g^2 - v)(1 - beta2); var -= rate m / (sqrt(v) + epsilon) */
static int adam_f64(const struct kernel_args *a, double rate, int64_t n)
{
    double *var = a->in[0]->data, *m = a->in[1]->data, *v = a->in[2]->data;
    const double *grad = a->in[9]->data;
    double beta1 = scalar(a->in[6]), beta2 = scalar(a->in[7]), eps = scalar(a->in[8]);
    int64_t nesterov = attr_int(a->op, "use_nesterov");

    for (int64_t i = 0; i < n; i++) {
        double g = grad[i];

        m[i] = FADED(double, m[i] + (g - m[i]) * (1 - beta1));
        v[i] = FADED(double, v[i] + (g * g - v[i]) * (1 - beta2));
        double step = nesterov ? m[i] * beta1 + g * (1 - beta1) : m[i];
        var[i] -= rate * step / (sqrt(v[i]) + eps);
    }
    canonical_nan(a, 3);
    return 0;
}

static int kern_apply_adam(const struct kernel_args *a)
{
    int64_t n = tensor_elements(a->in[0]);

    if (a->in[0]->dtype == DT_DOUBLE)
        return adam_f64(
            a, scalar(a->in[5]) * sqrt(1 - scalar(a->in[4])) / (1 - scalar(a->in[3])), n);
    if (a->in[0]->dtype != DT_FLOAT)
        return err_set(a->err, ERR_UNSUPPORTED, "%s: no ApplyAdam of %s",
                       operation_name(a->op), dtype_name(a->in[0]->dtype));
    float power1 = *tensor_f32(a->in[3]), power2 = *tensor_f32(a->in[4]);
    struct adam_args args = {
        .rate = *tensor_f32(a->in[5]) * sqrtf(1.0f - power2) / (1.0f - power1),
        .beta1 = *tensor_f32(a->in[6]),
        .beta2 = *tensor_f32(a->in[7]),
        .epsilon = *tensor_f32(a->in[8]),
        .nesterov = (int)attr_int(a->op, "use_nesterov"),
    };
    kern_loops()->adam(a->in[0]->data, a->in[1]->data, a->in[2]->data, a->in[9]->data,
                       (size_t)n, &args);
    return 0;
}

/* ---- shapes ---- */

/* The number of the input that is the gradient, called `grad` or `delta`. */
static int gradient_input(const struct operation *op)
{
    struct signature_room room;
    struct signature sig;
    int i = 0;

    CHECK(signature_parse(&sig, &room, operation_def(op)->signature) == 0, "%s",
          operation_type(op));
    while (!span_is(sig.in[i].name, "grad") && !span_is(sig.in[i].name, "delta"))
        i++;
    return i;
}

/* The shape of the variable that a reference or a handle refers to. */
static struct shape shape_behind(const struct shape_args *args, int i)
{
    const struct output x = operation_input(args->op, i);
    const struct operation *v;

    if (output_dtype(x) != DT_RESOURCE)
        return args->in[i];
    v = operation_behind_handle(x);
    return v != NULL ? *attr_shape(v, "shape") : SHAPE_UNKNOWN;
}

/* The variable, its slots and the gradient have the same shape; all other inputs are
 * scalars. */
static int apply_shape(const struct shape_args *args)
{
    const int gradient = gradient_input(args->op);
    struct shape all = SHAPE_UNKNOWN;

    for (int i = 0; i < args->n_in; i++) {
        const struct output x = operation_input(args->op, i);
        const struct operation *v =
            output_dtype(x) == DT_RESOURCE ? operation_behind_handle(x) : NULL;
        struct shape s = shape_behind(args, i);

        if (v != NULL && attr_int(v, "dtype") != attr_int(args->op, "T"))
            return err_set(args->err, ERR_DTYPE, "variable %s is %s, not %s",
                           operation_name(v),
                           dtype_name((enum dtype)attr_int(v, "dtype")),
                           dtype_name((enum dtype)attr_int(args->op, "T")));
        if (i != gradient && !output_is_ref(x) && output_dtype(x) != DT_RESOURCE) {
            if (want_rank(args, i, 0) != 0)
                return ERR_SHAPE;
        } else if (shape_merge(&all, &s, &all) != 0) {
            return err_set(args->err, ERR_SHAPE, "input %d is %s, but the variable is %s",
                           i, shape_text(&s), shape_text(&all));
        }
    }
    if (operation_n_outputs(args->op) > 0)
        args->out[0] = all;
    return 0;
}

/* ---- the rows ---- */

/* One row for a variable and slots given by reference, and one for handles. */
#define APPLY(type, kernel, variables, inputs, attrs)                                    \
    {type,                                                                               \
     OP_STATEFUL | OP_WRITES | OP_NO_GRADIENT,                                           \
     apply_shape,                                                                        \
     NULL,                                                                               \
     kernel,                                                                             \
     variables("&T") inputs " -> out:&T; T:number_type, use_locking:bool=false" attrs},  \
    {                                                                                    \
        "Resource" type, OP_STATEFUL | OP_WRITES | OP_NO_GRADIENT, apply_shape, NULL,    \
            kernel,                                                                      \
            variables("resource") inputs                                                 \
            " ->; T:number_type, use_locking:bool=false" attrs                           \
    }
#define VAR(t)        "var:" t ", "
#define VAR_ACCUM(t)  VAR(t) "accum:" t ", "
#define VAR_MS_MOM(t) VAR(t) "ms:" t ", mom:" t ", "
#define VAR_M_V(t)    VAR(t) "m:" t ", v:" t ", "

static const struct op_def rows[] = {
    APPLY("ApplyGradientDescent", CALL(kern_apply_gradient_descent), VAR,
          "alpha:T, delta:T", ""),
    APPLY("ApplyMomentum", CALL(kern_apply_momentum), VAR_ACCUM,
          "lr:T, grad:T, momentum:T", ", use_nesterov:bool=false"),
    APPLY("ApplyRMSProp", CALL(kern_apply_rms_prop), VAR_MS_MOM,
          "lr:T, rho:T, momentum:T, epsilon:T, grad:T", ""),
    APPLY("ApplyAdam", CALL(kern_apply_adam), VAR_M_V,
          "beta1_power:T, beta2_power:T, lr:T, beta1:T, beta2:T, epsilon:T, grad:T",
          ", use_nesterov:bool=false"),
};

const struct op_family ops_of_training = OP_FAMILY(rows);
