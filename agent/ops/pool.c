/* pool.c - the largest element or the mean of each window over an image, channel by channel.
 *
 * window.h says how the window moves. With the channels second a batch of images is one of
 * batch times channels images of one channel, which takes the same places in memory.
 *
 * As in TensorFlow, the first of equal largest elements gets the gradient of MaxPool, all of
 * them get that of MaxPool3D; a window without an element above the smallest number (minus
 * infinity and NaN are not) has that number; and a mean is over the elements inside the image.
 *
 * Gradients after TensorFlow 1.13's python/ops/nn_grad.py.
 */
#include "agent/ops/kernel_parts.h"
#include "agent/ops/op_rules.h"
#include "agent/ops/window.h"

#include <float.h>

/* ---- windows ---- */

/* Whether ksize and strides are the last two inputs instead of attributes. */
static int numbers_are_inputs(const struct operation *op)
{
    return operation_attr(op, "ksize") == NULL;
}

/* size, strides: the values of these inputs, if they are; NULL: not known. Returns 1, 0 if
 * something is not known, or ERR_ARG, ERR_SHAPE, ERR_UNSUPPORTED. */
static int pool_window(const struct operation *op, const struct shape *image,
                       const struct tensor *size, const struct tensor *strides,
                       struct window *ret, struct err *err)
{
    const struct attr *format = operation_attr(op, "data_format");
    int64_t numbers[2][WINDOW_MAX_RANK];
    int rc;

    for (int k = 0; k < 2; k++) {
        const char *name = k == 0 ? "ksize" : "strides";
        const struct attr *a = operation_attr(op, name);
        const struct tensor *t = k == 0 ? size : strides;
        size_t n;

        if (a == NULL && t == NULL)
            return 0;
        n = a != NULL ? a->n : (size_t)tensor_elements(t);
        for (size_t i = 0; i < n && i < WINDOW_MAX_RANK; i++)
            numbers[k][i] = a != NULL ? a->list_i[i] : tensor_int(t, (int64_t)i);
        rc = window_check_numbers(op, name, numbers[k], n, err);
        if (rc < 0)
            return rc;
    }
    rc = window_init(ret, op, image,
                     numbers[0] + (format != NULL && format->s[1] == 'C' ? 2 : 1),
                     numbers[1], err);
    return rc < 0 ? rc : 1;
}

/* ---- loops, for each type ---- */

/* x, dx: like the images; y, dy: like the pooled images. The gradients are zeros before. */
struct pool_loops {
    enum dtype dtype;
    void (*max)(const struct window *w, const void *x, void *y);
    /* the place of the largest element of each window */
    void (*places)(const struct window *w, const void *x, const struct tensor *places,
                   int64_t per_image);
    /* its gradient: dx[place] += dy, or, with gather, dy = dx[place] */
    void (*route)(const struct window *w, const void *x, void *dx, void *dy, int gather);
    /* the same, for all elements that are as large */
    void (*spread)(const struct window *w, const void *x, const void *y, void *dx,
                   const void *dy);
    void (*scatter)(void *dx, int64_t at, const void *dy, int64_t from);
};

/* U: the type in which sums are taken; those of integers wrap around. */
#define LOOPS(T, U, LOWEST)                                                              \
    static void max_##T(const struct window *w, const void *x, void *y)                  \
    {                                                                                    \
        T *to = y;                                                                       \
        struct window_place p;                                                           \
                                                                                         \
        for (int64_t pixel = 0; pixel < window_pixels(w); pixel++, to += w->channels) {  \
            for (int64_t c = 0; c < w->channels; c++)                                    \
                to[c] = LOWEST;                                                          \
            window_at(w, pixel, &p);                                                     \
            EACH_LINE(w, &p, line, at)                                                   \
            for (int64_t i = 0; i < p.n; i++) {                                          \
                const T *from = (const T *)x + at + i * w->channels;                     \
                                                                                         \
                for (int64_t c = 0; c < w->channels; c++)                                \
                    to[c] = from[c] > to[c] ? from[c] : to[c];                           \
            }                                                                            \
        }                                                                                \
    }                                                                                    \
    /* the first largest element in one channel of a window; -1 if it is outside */      \
    static int64_t largest_##T(const struct window *w, const struct window_place *p,     \
                               const T *x, int64_t c)                                    \
    {                                                                                    \
        int64_t best = -1;                                                               \
                                                                                         \
        EACH_LINE(w, p, line, at)                                                        \
        for (int64_t i = at + c; i < at + p->n * w->channels; i += w->channels)          \
            if (best < 0 || x[i] > x[best])                                              \
                best = i;                                                                \
        return best;                                                                     \
    }                                                                                    \
    static void places_##T(const struct window *w, const void *x,                        \
                           const struct tensor *places, int64_t per_image)               \
    {                                                                                    \
        struct window_place p;                                                           \
                                                                                         \
        for (int64_t i = 0; i < window_pixels(w) * w->channels; i++) {                   \
            window_at(w, i / w->channels, &p);                                           \
            tensor_set_int(places, i,                                                    \
                           largest_##T(w, &p, x, i % w->channels) -                      \
                               p.image * per_image);                                     \
        }                                                                                \
    }                                                                                    \
    static void route_##T(const struct window *w, const void *x, void *dx, void *dy,     \
                          int gather)                                                    \
    {                                                                                    \
        T *image = dx, *pooled = dy;                                                     \
        struct window_place p;                                                           \
                                                                                         \
        for (int64_t pixel = 0; pixel < window_pixels(w); pixel++) {                     \
            window_at(w, pixel, &p);                                                     \
            for (int64_t c = 0; c < w->channels; c++, pooled++) {                        \
                const int64_t at = largest_##T(w, &p, x, c);                             \
                                                                                         \
                if (gather)                                                              \
                    *pooled = at >= 0 ? image[at] : 0;                                   \
                else if (at >= 0)                                                        \
                    image[at] = (T)((U)image[at] + (U)*pooled);                          \
            }                                                                            \
        }                                                                                \
    }                                                                                    \
    static void spread_##T(const struct window *w, const void *x, const void *y,         \
                           void *dx, const void *dy)                                     \
    {                                                                                    \
        const T *from = x, *pooled = y, *d = dy;                                         \
        T *to = dx;                                                                      \
        struct window_place p;                                                           \
                                                                                         \
        for (int64_t pixel = 0; pixel < window_pixels(w); pixel++) {                     \
            window_at(w, pixel, &p);                                                     \
            EACH_LINE(w, &p, line, at)                                                   \
            for (int64_t i = 0; i < p.n; i++)                                            \
                for (int64_t c = 0; c < w->channels; c++) {                              \
                    const int64_t k = at + i * w->channels + c;                          \
                                                                                         \
                    if (from[k] == pooled[c])                                            \
                        to[k] = (T)((U)to[k] + (U)d[c]);                                 \
                }                                                                        \
            pooled += w->channels;                                                       \
            d += w->channels;                                                            \
        }                                                                                \
    }                                                                                    \
    static void scatter_##T(void *dx, int64_t at, const void *dy, int64_t from)          \
    {                                                                                    \
        T *to = (T *)dx + at;                                                            \
                                                                                         \
        *to = (T)((U)*to + (U)((const T *)dy)[from]);                                    \
    }
LOOPS(float, float, -FLT_MAX)
LOOPS(double, double, -DBL_MAX)
LOOPS(int32_t, uint32_t, INT32_MIN)
LOOPS(int64_t, uint64_t, INT64_MIN)

#define LOOP_ROW(dtype, T)                                                               \
    {                                                                                    \
        dtype, max_##T, places_##T, route_##T, spread_##T, scatter_##T                   \
    }
static const struct pool_loops loops[] = {
    LOOP_ROW(DT_FLOAT, float),
    LOOP_ROW(DT_DOUBLE, double),
    LOOP_ROW(DT_INT32, int32_t),
    LOOP_ROW(DT_INT64, int64_t),
};

#define MEANS(T)                                                                         \
    static void mean_##T(const struct window *w, const T *x, T *y)                       \
    {                                                                                    \
        struct window_place p;                                                           \
                                                                                         \
        for (int64_t pixel = 0; pixel < window_pixels(w); pixel++, y += w->channels) {   \
            int64_t n = 0;                                                               \
                                                                                         \
            for (int64_t c = 0; c < w->channels; c++)                                    \
                y[c] = 0;                                                                \
            window_at(w, pixel, &p);                                                     \
            EACH_LINE(w, &p, line, at)                                                   \
            for (int64_t i = 0; i < p.n; i++, n++)                                       \
                for (int64_t c = 0; c < w->channels; c++)                                \
                    y[c] += x[at + i * w->channels + c];                                 \
            for (int64_t c = 0; c < w->channels; c++)                                    \
                y[c] /= (T)n;                                                            \
        }                                                                                \
    }                                                                                    \
    static void mean_grad_##T(const struct window *w, T *dx, const T *dy)                \
    {                                                                                    \
        struct window_place p;                                                           \
                                                                                         \
        for (int64_t pixel = 0; pixel < window_pixels(w); pixel++, dy += w->channels) {  \
            int64_t n = 0;                                                               \
                                                                                         \
            window_at(w, pixel, &p);                                                     \
            EACH_LINE(w, &p, line, at)                                                   \
            n += p.n;                                                                    \
            EACH_LINE(w, &p, line, at)                                                   \
            for (int64_t i = 0; i < p.n; i++)                                            \
                for (int64_t c = 0; c < w->channels; c++)                                \
                    dx[at + i * w->channels + c] += dy[c] * (1 / (T)n);                  \
        }                                                                                \
    }
MEANS(float)
MEANS(double)

/* ---- kernels ---- */

/* The loops for the output's type, and the window; pooled: the shape of the pooled images,
 * which sizes that are inputs may contradict. NULL: an error is set. */
static const struct pool_loops *pool_init(const struct kernel_args *a,
                                          const struct shape *image,
                                          const struct shape *pooled, struct window *ret)
{
    const int inputs = numbers_are_inputs(a->op);
    struct shape want;

    if (pool_window(a->op, image, inputs ? a->in[a->n_in - 2] : NULL,
                    inputs ? a->in[a->n_in - 1] : NULL, ret, a->err) < 0) {
        (void)err_wrap(a->err, "%s", operation_name(a->op));
        return NULL;
    }
    want = window_output(ret, ret->channels);
    if (!shape_equal(&want, pooled)) {
        (void)err_set(a->err, ERR_SHAPE, "%s: %s for an output of shape %s",
                      operation_name(a->op), shape_text(pooled), shape_text(&want));
        return NULL;
    }
    if (ret->channels_second) {
        ret->batch *= ret->channels;
        ret->channels = 1;
        ret->channels_second = 0;
    }
    for (size_t i = 0; i < sizeof(loops) / sizeof(loops[0]); i++)
        if (loops[i].dtype == a->out[0]->dtype)
            return &loops[i];
    (void)want_f32(a);
    return NULL;
}

/* in: image, perhaps ksize and strides */
static int kern_max_pool(const struct kernel_args *a)
{
    struct window w;
    const struct pool_loops *l = pool_init(a, &a->in[0]->shape, &a->out[0]->shape, &w);

    if (l == NULL)
        return a->err->code;
    l->max(&w, a->in[0]->data, a->out[0]->data);
    return 0;
}

/* out: pooled image, and in each image (or in the batch) the places of its elements */
static int kern_max_pool_argmax(const struct kernel_args *a)
{
    const int64_t per_image = attr_int(a->op, "include_batch_in_index")
                                  ? 0
                                  : span(&a->in[0]->shape, 1, a->in[0]->shape.rank);
    struct window w;
    const struct pool_loops *l = pool_init(a, &a->in[0]->shape, &a->out[0]->shape, &w);

    if (l == NULL)
        return a->err->code;
    l->max(&w, a->in[0]->data, a->out[0]->data);
    l->places(&w, a->in[0]->data, a->out[1], per_image);
    return 0;
}

/* in: image, pooled image, gradient of the pooled image; out: gradient of the image */
static int kern_max_pool_grad(const struct kernel_args *a)
{
    const struct shape *y = &a->in[1]->shape, *dy = &a->in[2]->shape;
    struct window w;
    const struct pool_loops *l = pool_init(a, &a->in[0]->shape, dy, &w);

    if (l == NULL)
        return a->err->code;
    if (!shape_equal(y, dy))
        return err_set(a->err, ERR_SHAPE, "%s: %s for an output of shape %s",
                       operation_name(a->op), shape_text(y), shape_text(dy));
    clear(a->out[0]);
    if (w.spatial == 3)
        l->spread(&w, a->in[0]->data, a->in[1]->data, a->out[0]->data, a->in[2]->data);
    else
        l->route(&w, a->in[0]->data, a->out[0]->data, a->in[2]->data, 0);
    return 0;
}

/* in: image, pooled image, an array like the image; out: its elements that were pooled */
static int kern_max_pool_grad_grad(const struct kernel_args *a)
{
    struct window w;
    const struct pool_loops *l = pool_init(a, &a->in[0]->shape, &a->out[0]->shape, &w);

    if (l == NULL)
        return a->err->code;
    l->route(&w, a->in[0]->data, a->in[2]->data, a->out[0]->data, 1);
    return 0;
}

/* in: image, gradient of the pooled image, its places in the image; out: gradient of the
 * image */
static int kern_max_pool_grad_argmax(const struct kernel_args *a)
{
    const int in_batch = (int)attr_int(a->op, "include_batch_in_index");
    const int64_t size = span(&a->in[0]->shape, 1, 4),
                  pooled = span(&a->in[1]->shape, 1, 4);
    struct window w;
    const struct pool_loops *l = pool_init(a, &a->in[0]->shape, &a->in[1]->shape, &w);

    if (l == NULL)
        return a->err->code;
    clear(a->out[0]);
    for (int64_t i = 0; i < tensor_elements(a->in[1]); i++) {
        const int64_t image = i / pooled * size, place = tensor_int(a->in[2], i);
        const int64_t at = in_batch ? place - image : place;

        if (at < 0 || at >= size)
            return err_set(a->err, ERR_ARG, "%s: argmax %lld is not in the image",
                           operation_name(a->op), (long long)place);
        l->scatter(a->out[0]->data, image + at, a->in[1]->data, i);
    }
    return 0;
}

static int wants_mean(const struct kernel_args *a)
{
    return a->out[0]->dtype == DT_DOUBLE ? 0 : want_f32(a);
}

static int kern_avg_pool(const struct kernel_args *a)
{
    struct window w;

    if (wants_mean(a) < 0 ||
        pool_init(a, &a->in[0]->shape, &a->out[0]->shape, &w) == NULL)
        return a->err->code;
    if (a->out[0]->dtype == DT_FLOAT)
        mean_float(&w, a->in[0]->data, a->out[0]->data);
    else
        mean_double(&w, a->in[0]->data, a->out[0]->data);
    return 0;
}

/* in: the shape of the image, gradient of the pooled image; out: that of the image */
static int kern_avg_pool_grad(const struct kernel_args *a)
{
    struct window w;

    if (wants_mean(a) < 0 ||
        pool_init(a, &a->out[0]->shape, &a->in[1]->shape, &w) == NULL)
        return a->err->code;
    clear(a->out[0]);
    if (a->out[0]->dtype == DT_FLOAT)
        mean_grad_float(&w, a->out[0]->data, a->in[1]->data);
    else
        mean_grad_double(&w, a->out[0]->data, a->in[1]->data);
    return 0;
}

/* ---- shapes ---- */

/* Like pool_window(), with the values that the shape rule knows. */
static int rule_window(const struct shape_args *args, const struct shape *image,
                       struct window *ret)
{
    const int inputs = numbers_are_inputs(args->op), n = args->n_in;

    return pool_window(args->op, image, inputs ? args->value[n - 2] : NULL,
                       inputs ? args->value[n - 1] : NULL, ret, args->err);
}

/* Every output is a pooled image of input 0. */
static int pool_shape(const struct shape_args *args)
{
    struct window w;
    int known = rule_window(args, &args->in[0], &w);

    for (int i = 0; i < operation_n_outputs(args->op); i++)
        args->out[i] = known > 0 ? window_output(&w, w.channels)
                                 : shape_of_rank(window_spatial(args->op) + 2);
    return known < 0 ? known : 0;
}

/* Inputs from .. to-1 are pooled images of `image`. */
static int want_pooled(const struct shape_args *args, const struct shape *image, int from,
                       int to)
{
    struct window w;
    int rc = rule_window(args, image, &w);

    for (int i = from; rc > 0 && i < to; i++)
        if (window_want_output(args, &w, i, w.channels) < 0)
            rc = ERR_SHAPE;
    return rc < 0 ? rc : 0;
}

static int max_pool_grad_shape(const struct shape_args *args)
{
    if (operation_attr(args->op, "TInput") != NULL &&
        attr_int(args->op, "TInput") != attr_int(args->op, "T"))
        return err_set(args->err, ERR_UNSUPPORTED, "types TInput and T differ");
    args->out[0] = args->in[0];
    return want_pooled(args, &args->in[0], 1, 3);
}

static int max_pool_grad_grad_shape(const struct shape_args *args)
{
    struct shape both;

    if (shape_merge(&args->in[0], &args->in[2], &both) != 0)
        return err_set(args->err, ERR_SHAPE, "%s for an image of shape %s",
                       shape_text(&args->in[2]), shape_text(&args->in[0]));
    args->out[0] = args->in[1];
    return want_pooled(args, &args->in[0], 1, 2);
}

static int avg_pool_grad_shape(const struct shape_args *args)
{
    const int rank = window_spatial(args->op) + 2;
    struct shape image;
    int rc = value_sizes(args, 0, &image);

    if (rc == 0 && image.rank >= 0 && image.rank != rank)
        rc = err_set(args->err, ERR_SHAPE, "orig_input_shape: %d numbers, expected %d",
                     image.rank, rank);
    if (rc < 0)
        return rc;
    args->out[0] = image.rank >= 0 ? image : shape_of_rank(rank);
    return want_pooled(args, &args->out[0], 1, 2);
}

static int grad_argmax_shape(const struct shape_args *args)
{
    args->out[0] = args->in[0];
    return want_pooled(args, &args->in[0], 1, 3);
}

/* ---- gradients ---- */

/* A node with the window of `op`, and with its ksize and strides if they are inputs. */
static struct output pool_node(struct graph *g, const char *type, struct operation *op,
                               struct output x, struct output y, struct output z)
{
    struct output inputs[5] = {x, y, z};
    const int n_op = operation_n_inputs(op);
    int n = z.op != NULL ? 3 : y.op != NULL ? 2 : 1;

    if (numbers_are_inputs(op)) {
        inputs[n++] = input_of(op, n_op - 2);
        inputs[n++] = input_of(op, n_op - 1);
    }
    return window_node(g, type, op, inputs, n);
}

/* The types whose nodes are each other's gradients: pools, with V2 if ksize and strides are
 * inputs. */
enum { MAX_GRAD, MAX_GRAD_GRAD, AVG, AVG_GRAD };
static const char *const types[][3] = {
    [MAX_GRAD] = {"MaxPoolGrad", "MaxPoolGradV2", "MaxPool3DGrad"},
    [MAX_GRAD_GRAD] = {"MaxPoolGradGrad", "MaxPoolGradGradV2", "MaxPool3DGradGrad"},
    [AVG] = {"AvgPool", NULL, "AvgPool3D"},
    [AVG_GRAD] = {"AvgPoolGrad", NULL, "AvgPool3DGrad"},
};

static const char *type_like(int which, const struct operation *op)
{
    return types[which][window_spatial(op) == 3 ? 2 : numbers_are_inputs(op)];
}

GRAD_ONE(max_pool_grad, pool_node(g, type_like(MAX_GRAD, op), op, input_of(op, 0),
                                  output_of(op, 0), grad_out[0]))

static int second_grad(struct graph *g, struct operation *op, const char *type,
                       struct output d, struct output *grad_in)
{
    struct output x = input_of(op, 0), y = input_of(op, 1);

    grad_in[0] = zeros_as(g, x);
    grad_in[1] = zeros_as(g, y);
    grad_in[2] = pool_node(g, type, op, x, y, d);
    return grad_done(grad_in, 3);
}

GRAD(max_pool_grad_grad)
{
    return second_grad(g, op, type_like(MAX_GRAD_GRAD, op), grad_out[0], grad_in);
}

GRAD(max_pool_grad_grad_grad)
{
    return second_grad(g, op, type_like(MAX_GRAD, op), grad_out[0], grad_in);
}

GRAD_ONE(max_pool_argmax_grad, pool_node(g, "MaxPoolGradWithArgmax", op, input_of(op, 0),
                                         grad_out[0], output_of(op, 1)))

GRAD_ONE(avg_pool_grad,
         pool_node(g, type_like(AVG_GRAD, op), op, shape_of(g, input_of(op, 0), NULL),
                   grad_out[0], OUTPUT_NONE))

GRAD(avg_pool_grad_grad)
{
    grad_in[1] =
        pool_node(g, type_like(AVG, op), op, grad_out[0], OUTPUT_NONE, OUTPUT_NONE);
    return grad_done(grad_in + 1, 1);
}

/* ---- the rows ---- */

#define NUMBERS  "ksize:list(int), strides:list(int), padding:string"
#define WINDOW   NUMBERS ", data_format:string=NHWC"
#define EXPLICIT NUMBERS ", explicit_paddings:list(int)=[], data_format:string=NHWC"
#define WINDOW3  NUMBERS ", data_format:string=NDHWC"
#define INPUTS   "padding:string, data_format:string=NHWC"
#define MAX_T    "; T:number_type=float32, "
#define GRADS    "orig_input:T, orig_output:T, grad:T"

static const struct op_def rows[] = {
    {"MaxPool", 0, pool_shape, max_pool_grad, CALL(kern_max_pool),
     "input:T -> output:T" MAX_T EXPLICIT, .ranks = "4"},
    {"MaxPoolGrad", 0, max_pool_grad_shape, max_pool_grad_grad, CALL(kern_max_pool_grad),
     GRADS " -> output:T" MAX_T EXPLICIT, .ranks = "4"},
    {"MaxPoolGradGrad", 0, max_pool_grad_grad_shape, max_pool_grad_grad_grad,
     CALL(kern_max_pool_grad_grad), GRADS " -> output:T" MAX_T WINDOW, .ranks = "4"},
    {"MaxPoolV2", 0, pool_shape, max_pool_grad, CALL(kern_max_pool),
     "input:T, ksize:int32, strides:int32 -> output:T" MAX_T INPUTS, .ranks = "411"},
    {"MaxPoolGradV2", 0, max_pool_grad_shape, max_pool_grad_grad,
     CALL(kern_max_pool_grad),
     GRADS ", ksize:int32, strides:int32 -> output:T" MAX_T INPUTS, .ranks = "4??11"},
    {"MaxPoolGradGradV2", 0, max_pool_grad_grad_shape, max_pool_grad_grad_grad,
     CALL(kern_max_pool_grad_grad),
     GRADS ", ksize:int32, strides:int32 -> output:T" MAX_T INPUTS, .ranks = "44?11"},
    {"MaxPoolWithArgmax", 0, pool_shape, max_pool_argmax_grad, CALL(kern_max_pool_argmax),
     "input:T -> output:T, argmax:Targmax; T:number_type, "
     "Targmax:index_type=int64, " NUMBERS ", include_batch_in_index:bool=false",
     .ranks = "4"},
    {"MaxPoolGradWithArgmax", OP_NO_GRADIENT, grad_argmax_shape, NULL,
     CALL(kern_max_pool_grad_argmax),
     "input:T, grad:T, argmax:Targmax -> output:T; T:number_type, "
     "Targmax:index_type, " NUMBERS ", include_batch_in_index:bool=false",
     .ranks = "4"},
    {"MaxPool3D", 0, pool_shape, max_pool_grad, CALL(kern_max_pool),
     "input:T -> output:T; T:float_type, " WINDOW3, .ranks = "5"},
    {"MaxPool3DGrad", 0, max_pool_grad_shape, max_pool_grad_grad,
     CALL(kern_max_pool_grad),
     "orig_input:TInput, orig_output:TInput, grad:T -> output:T; "
     "T:float_type=float32, TInput:float_type=float32, " WINDOW3,
     .ranks = "5"},
    {"MaxPool3DGradGrad", 0, max_pool_grad_grad_shape, max_pool_grad_grad_grad,
     CALL(kern_max_pool_grad_grad), GRADS " -> output:T; T:number_type, " WINDOW3,
     .ranks = "5"},
    {"AvgPool", 0, pool_shape, avg_pool_grad, CALL(kern_avg_pool),
     "value:T -> output:T; T:float_type, " WINDOW, .ranks = "4"},
    {"AvgPoolGrad", 0, avg_pool_grad_shape, avg_pool_grad_grad, CALL(kern_avg_pool_grad),
     "orig_input_shape:int32, grad:T -> output:T; T:float_type, " WINDOW, .ranks = "14"},
    {"AvgPool3D", 0, pool_shape, avg_pool_grad, CALL(kern_avg_pool),
     "input:T -> output:T; T:float_type, " WINDOW3, .ranks = "5"},
    {"AvgPool3DGrad", 0, avg_pool_grad_shape, avg_pool_grad_grad,
     CALL(kern_avg_pool_grad),
     "orig_input_shape:int32, grad:T -> output:T; T:float_type, " WINDOW3, .ranks = "15"},
};

const struct op_family ops_of_pool = OP_FAMILY(rows);
