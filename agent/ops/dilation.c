/* dilation.c - grey-scale dilation of images by a filter (y, x, channels).
 *
 * The output is the largest sum of an element in the window (window.h) and the filter's at
 * that place, channel by channel; the first of equal ones gets the gradient.
 *
 * Gradients after TensorFlow 1.13's python/ops/nn_grad.py.
 */
#include "agent/ops/kernel_parts.h"
#include "agent/ops/op_rules.h"
#include "agent/ops/window.h"

#include <float.h>

/* ---- kernels ---- */

/* What one pass computes. */
enum dilation { DILATION, TO_INPUT, TO_FILTER };

/* The largest sum in channel c of a window; ret_x, ret_f: where it is. */
#define DILATE(T, LOWEST)                                                                \
    static T largest_##T(const struct window *w, const struct window_place *p,           \
                         const T *x, const T *filter, int64_t c, int64_t *ret_x,         \
                         int64_t *ret_f)                                                 \
    {                                                                                    \
        T best = LOWEST;                                                                 \
                                                                                         \
        *ret_x = *ret_f = -1;                                                            \
        EACH_LINE(w, p, line, at)                                                        \
        for (int64_t i = 0; i < p->n; i++) {                                             \
            const int64_t k = at + i * w->axis[2].rate * w->channels + c;                \
            const int64_t f = (line * w->axis[2].size + p->first + i) * w->channels + c; \
            const T sum = x[k] + filter[f];                                              \
                                                                                         \
            if (*ret_x >= 0 && !(sum > best))                                            \
                continue;                                                                \
            best = sum > best ? sum : best;                                              \
            *ret_x = k;                                                                  \
            *ret_f = f;                                                                  \
        }                                                                                \
        return best;                                                                     \
    }                                                                                    \
    static void dilate_##T(const struct window *w, const T *x, const T *filter,          \
                           const T *dy, T *to, enum dilation what)                       \
    {                                                                                    \
        struct window_place p;                                                           \
        int64_t at_x, at_f;                                                              \
                                                                                         \
        for (int64_t i = 0; i < window_pixels(w) * w->channels; i++) {                   \
            window_at(w, i / w->channels, &p);                                           \
            const T best = largest_##T(w, &p, x, filter, i % w->channels, &at_x, &at_f); \
                                                                                         \
            if (what == DILATION)                                                        \
                to[i] = best;                                                            \
            else if (at_x >= 0)                                                          \
                to[what == TO_INPUT ? at_x : at_f] += dy[i];                             \
        }                                                                                \
    }
DILATE(float, -FLT_MAX)
DILATE(double, -DBL_MAX)

static int dilate(const struct kernel_args *a, enum dilation what)
{
    const struct tensor *dy = a->n_in > 2 ? a->in[2] : NULL;
    struct window w;

    if (a->out[0]->dtype != DT_DOUBLE && want_f32(a) < 0)
        return ERR_UNSUPPORTED;
    if (window_init(&w, a->op, &a->in[0]->shape, a->in[1]->shape.dim, NULL, a->err) < 0)
        return err_wrap(a->err, "%s", operation_name(a->op));
    clear(a->out[0]);
    if (a->out[0]->dtype == DT_FLOAT)
        dilate_float(&w, a->in[0]->data, a->in[1]->data, dy != NULL ? dy->data : NULL,
                     a->out[0]->data, what);
    else
        dilate_double(&w, a->in[0]->data, a->in[1]->data, dy != NULL ? dy->data : NULL,
                      a->out[0]->data, what);
    return 0;
}

static int kern_dilation(const struct kernel_args *a)
{
    return dilate(a, DILATION);
}

/* in: image, filter, gradient of the output */
static int kern_dilation_to_input(const struct kernel_args *a)
{
    return dilate(a, TO_INPUT);
}

static int kern_dilation_to_filter(const struct kernel_args *a)
{
    return dilate(a, TO_FILTER);
}

/* ---- shapes and gradients ---- */

static int dilation_window(const struct shape_args *args, struct window *ret)
{
    const struct shape *filter = &args->in[1];
    const int64_t size[] = {dim_of(filter, 0), dim_of(filter, 1)},
                  deep = dim_of(filter, 2);
    int rc = window_init(ret, args->op, &args->in[0], size, NULL, args->err);

    if (rc == 0 && ret->channels >= 0 && deep >= 0 && ret->channels != deep)
        rc = err_set(args->err, ERR_SHAPE, "a filter %s does not fit an image %s",
                     shape_text(filter), shape_text(&args->in[0]));
    return rc;
}

static int dilation_shape(const struct shape_args *args)
{
    struct window w;
    int rc = dilation_window(args, &w);

    if (rc == 0)
        args->out[0] = window_output(&w, w.channels);
    return rc;
}

static int backprop_shape(const struct shape_args *args, int like)
{
    struct window w;
    int rc = dilation_window(args, &w);

    args->out[0] = args->in[like];
    return rc < 0 ? rc : window_want_output(args, &w, 2, w.channels);
}

static int to_input_shape(const struct shape_args *args)
{
    return backprop_shape(args, 0);
}

static int to_filter_shape(const struct shape_args *args)
{
    return backprop_shape(args, 1);
}

GRAD(dilation_grad)
{
    const struct output inputs[] = {input_of(op, 0), input_of(op, 1), grad_out[0]};

    grad_in[0] = window_node(g, "Dilation2DBackpropInput", op, inputs, 3);
    grad_in[1] = window_node(g, "Dilation2DBackpropFilter", op, inputs, 3);
    return grad_done(grad_in, 2);
}

/* ---- the rows ---- */

#define ATTRS "; T:number_type, strides:list(int), rates:list(int), padding:string"

static const struct op_def rows[] = {
    {"Dilation2D", 0, dilation_shape, dilation_grad, CALL(kern_dilation),
     "input:T, filter:T -> output:T" ATTRS, .ranks = "43"},
    {"Dilation2DBackpropInput", OP_NO_GRADIENT, to_input_shape, NULL,
     CALL(kern_dilation_to_input),
     "input:T, filter:T, out_backprop:T -> in_backprop:T" ATTRS, .ranks = "434"},
    {"Dilation2DBackpropFilter", OP_NO_GRADIENT, to_filter_shape, NULL,
     CALL(kern_dilation_to_filter),
     "input:T, filter:T, out_backprop:T -> filter_backprop:T" ATTRS, .ranks = "434"},
};

const struct op_family ops_of_dilation = OP_FAMILY(rows);
