/* Operations that update a variable in place, in the session's block.
 *
 * Source   formulas of tf.train's optimisers as in training_ops.cc of TensorFlow 1.13.
 *
 * A float64 variable is updated by the plain loops below, a float32 variable by those of
 * loops.h where there is one. */
#include "agent/session/kernels/kernel.h"
#include "agent/session/kernels/loops.h"

#include <math.h>
#include <string.h>

int kern_assign(const struct kernel_args *a)
{
    struct tensor *var = a->in[0];
    const char *x = a->in[1]->data, *y = var->data;
    const size_t bytes = tensor_bytes(var);

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

int kern_assign_add(const struct kernel_args *a)
{
    return combine(a, "Add");
}

int kern_assign_sub(const struct kernel_args *a)
{
    return combine(a, "Sub");
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
int kern_apply_gradient_descent(const struct kernel_args *a)
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
int kern_apply_momentum(const struct kernel_args *a)
{
    int64_t n = tensor_elements(a->in[0]), nesterov = int_attr(a->op, "use_nesterov", 0);

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
int kern_apply_rms_prop(const struct kernel_args *a)
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
    int64_t nesterov = int_attr(a->op, "use_nesterov", 0);

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

int kern_apply_adam(const struct kernel_args *a)
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
        .nesterov = (int)int_attr(a->op, "use_nesterov", 0),
    };
    kern_loops()->adam(a->in[0]->data, a->in[1]->data, a->in[2]->data, a->in[9]->data,
                       (size_t)n, &args);
    return 0;
}
