/* quantize.c - numbers rounded to the steps of an integer type, as a quantised network would have
 * them: FakeQuantWithMinMaxArgs, -Vars and -VarsPerChannel, and their gradients.
 *
 * min .. max is moved so that 0 is one of the steps; with bounds that are both 0, every result is 0.
 *
 * Source   core/kernels/fake_quant_ops_functor.h, python/ops/array_ops.py of TensorFlow. */
#include "agent/graph/import.h"
#include "agent/ops/kernel_parts.h"
#include "agent/ops/op_rules.h"

#include <math.h>

struct steps {
    float min, max; /* after moving */
    float size;     /* from one step to the next */
    int is_zero;    /* both bounds were 0 */
};

static int steps_of(const struct kernel_args *a, float min, float max, struct steps *ret)
{
    const int64_t bits = attr_int(a->op, "num_bits");
    const float low = attr_int(a->op, "narrow_range") ? 1 : 0;
    float high, zero;

    if (bits < 2 || bits > 16)
        return err_set(a->err, ERR_ARG, "%s: num_bits is %lld, not from 2 to 16",
                       operation_name(a->op), (long long)bits);
    *ret = (struct steps){.is_zero = min == 0 && max == 0};
    if (ret->is_zero)
        return 0;
    high = (float)((1 << bits) - 1);
    ret->size = (max - min) / (high - low);
    zero = low - min / ret->size;
    zero = zero < low ? low : zero > high ? high : roundf(zero);
    ret->min = (low - zero) * ret->size;
    ret->max = (high - zero) * ret->size;
    return 0;
}

/* The bounds of channel k: inputs `at` and at+1, or attributes if at is 0. TensorFlow checks the
 * attributes only. */
static int steps_at(const struct kernel_args *a, int at, int64_t k, struct steps *ret)
{
    const float min = at > 0 ? tensor_f32(a->in[at])[k] : float_attr(a->op, "min", -6);
    const float max = at > 0 ? tensor_f32(a->in[at + 1])[k] : float_attr(a->op, "max", 6);

    if (at == 0 && !(min < max))
        return err_set(a->err, ERR_ARG, "%s: min %g is not below max %g",
                       operation_name(a->op), (double)min, (double)max);
    return steps_of(a, min, max, ret);
}

static float stepped(const struct steps *s, float x)
{
    const float per_step = 1.0f / s->size, zero = floorf(-s->min * per_step + 0.5f);
    const float inside = fmaxf(fminf(x, s->max), s->min) - s->min;

    return s->is_zero ? 0 : floorf(inside * per_step - zero + 0.5f) * s->size;
}

/* in: x and, unless they are attributes, min and max, scalars or one for each channel */
static int kern_quantize(const struct kernel_args *a)
{
    const int at = a->n_in > 1 ? 1 : 0;
    const int64_t channels = at > 0 ? tensor_elements(a->in[1]) : 1;
    const float *x = a->in[0]->data;
    float *y = a->out[0]->data;

    for (int64_t k = 0; k < channels; k++) {
        struct steps s;
        const int rc = steps_at(a, at, k, &s);

        if (rc < 0)
            return rc;
        for (int64_t i = k; i < tensor_elements(a->in[0]); i += channels)
            y[i] = stepped(&s, x[i]);
    }
    return 0;
}

/* in: gradients, x, perhaps min and max; out: by x, perhaps by min and by max */
static int kern_quantize_grad(const struct kernel_args *a)
{
    const int at = a->n_in > 2 ? 2 : 0;
    const int64_t channels = at > 0 ? tensor_elements(a->in[2]) : 1;
    const float *d = a->in[0]->data, *x = a->in[1]->data;
    float *by_x = a->out[0]->data;

    for (int64_t k = 0; k < channels; k++) {
        struct steps s;
        double below = 0, above = 0;
        const int rc = steps_at(a, at, k, &s);

        if (rc < 0)
            return rc;
        for (int64_t i = k; i < tensor_elements(a->in[1]); i += channels) {
            const int is_below = !s.is_zero && x[i] < s.min;
            const int is_above = !s.is_zero && x[i] > s.max;

            by_x[i] = is_below || is_above ? 0 : d[i];
            below += is_below ? (double)d[i] : 0;
            above += is_above ? (double)d[i] : 0;
        }
        if (at > 0) {
            tensor_f32(a->out[1])[k] = (float)below;
            tensor_f32(a->out[2])[k] = (float)above;
        }
    }
    return 0;
}

/* ---- shapes and gradients ---- */

/* Bounds for each channel: as many as the last dimension of x, input `at`. */
static int check_channels(const struct shape_args *args, int at)
{
    const struct shape *x = &args->in[at];
    const struct shape last = x->rank < 0 ? SHAPE_UNKNOWN : SHAPE(dim_of(x, x->rank - 1));

    for (int i = at + 1; i < args->n_in; i++)
        if (x->rank == 0 || !shape_compatible(&last, &args->in[i]))
            return err_set(args->err, ERR_SHAPE, "bounds of shape %s for channels of %s",
                           shape_text(&args->in[i]), shape_text(x));
    return 0;
}

static int channels_shape(const struct shape_args *args)
{
    args->out[0] = args->in[0];
    return check_channels(args, 0);
}

static int grad_shape(const struct shape_args *args)
{
    if (shape_merge(&args->in[0], &args->in[1], &args->out[0]) != 0)
        return err_set(args->err, ERR_SHAPE, "gradients of shape %s for %s",
                       shape_text(&args->in[0]), shape_text(&args->in[1]));
    for (int i = 1; i < operation_n_outputs(args->op); i++)
        args->out[i] = args->in[i + 1];
    return 0;
}

static int channels_grad_shape(const struct shape_args *args)
{
    const int rc = grad_shape(args);

    return rc == 0 ? check_channels(args, 1) : rc;
}

/* The operation of the gradients, which has the same attributes. */
static int quantize_grad(struct graph *g, struct operation *op, const char *type,
                         const struct output *grad_out, struct output *grad_in)
{
    static const char *const attrs[] = {"min", "max", "num_bits", "narrow_range"};
    struct op_builder *b = op_begin(g, type, NULL);
    const int n = operation_n_inputs(op);
    struct operation *made;

    op_input(b, grad_out[0]);
    for (int i = 0; i < n; i++)
        op_input(b, operation_input(op, i));
    for (size_t i = 0; i < sizeof(attrs) / sizeof(attrs[0]); i++)
        if (operation_attr(op, attrs[i]) != NULL)
            op_attr(b, operation_attr(op, attrs[i]));
    made = op_finish(b);
    for (int i = 0; i < n; i++)
        grad_in[i] = (struct output){made, i};
    return made != NULL ? 0 : -1;
}

GRAD(args_grad)
{
    return quantize_grad(g, op, "FakeQuantWithMinMaxArgsGradient", grad_out, grad_in);
}

GRAD(vars_grad)
{
    return quantize_grad(g, op, "FakeQuantWithMinMaxVarsGradient", grad_out, grad_in);
}

GRAD(channels_grad)
{
    return quantize_grad(g, op, "FakeQuantWithMinMaxVarsPerChannelGradient", grad_out,
                         grad_in);
}

#define STEPS "num_bits:int=8, narrow_range:bool=false"

static const struct op_def rows[] = {
    {"FakeQuantWithMinMaxArgs", 0, shape_same, args_grad, CALL(kern_quantize),
     "inputs:float32 -> outputs:float32; min:float=-6, max:float=6, " STEPS},
    {"FakeQuantWithMinMaxArgsGradient", OP_NO_GRADIENT, grad_shape, NULL,
     CALL(kern_quantize_grad),
     "gradients:float32, inputs:float32 -> backprops:float32; min:float=-6, "
     "max:float=6, " STEPS},
    {"FakeQuantWithMinMaxVars", 0, shape_same, vars_grad, CALL(kern_quantize),
     "inputs:float32, min:float32, max:float32 -> outputs:float32; " STEPS,
     .ranks = "?00"},
    {"FakeQuantWithMinMaxVarsGradient", OP_NO_GRADIENT, grad_shape, NULL,
     CALL(kern_quantize_grad),
     "gradients:float32, inputs:float32, min:float32, max:float32 -> "
     "backprops_wrt_input:float32, backprop_wrt_min:float32, "
     "backprop_wrt_max:float32; " STEPS,
     .ranks = "??00"},
    {"FakeQuantWithMinMaxVarsPerChannel", 0, channels_shape, channels_grad,
     CALL(kern_quantize),
     "inputs:float32, min:float32, max:float32 -> outputs:float32; " STEPS,
     .ranks = "?11"},
    {"FakeQuantWithMinMaxVarsPerChannelGradient", OP_NO_GRADIENT, channels_grad_shape,
     NULL, CALL(kern_quantize_grad),
     "gradients:float32, inputs:float32, min:float32, max:float32 -> "
     "backprops_wrt_input:float32, backprop_wrt_min:float32, "
     "backprop_wrt_max:float32; " STEPS,
     .ranks = "??11"},
};

const struct op_family ops_of_quantize = OP_FAMILY(rows);
