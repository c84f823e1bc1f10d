#include "agent/ops/window.h"

#include "agent/graph/import.h"
#include "agent/graph/signature.h"
#include "agent/ops/op_rules.h"

#include <string.h>

/* ---- attributes ---- */

static const char *format_of(const struct operation *op)
{
    const struct attr *a = operation_attr(op, "data_format");

    return a != NULL ? a->s : "NHWC";
}

int window_spatial(const struct operation *op)
{
    return strlen(format_of(op)) == strlen("NDHWC") ? 3 : 2;
}

static int format_check(const struct operation *op, struct err *err)
{
    static const char *const known[] = {"NHWC", "NCHW", "NDHWC", "NCDHW"};

    for (int i = 0; i < 4; i++)
        if (strcmp(format_of(op), known[i]) == 0)
            return 0;
    return err_set(err, ERR_UNSUPPORTED, "data_format %s, expected NHWC or NCHW",
                   format_of(op));
}

int window_check_numbers(const struct operation *op, const char *name,
                         const int64_t *numbers, size_t n, struct err *err)
{
    const char *format = format_of(op);

    if (n != strlen(format))
        return err_set(err, ERR_ARG, "%s: %zu numbers, expected %zu", name, n,
                       strlen(format));
    for (size_t i = 0; i < n; i++)
        if (numbers[i] < 1 || numbers[i] > INT32_MAX)
            return err_set(err, ERR_ARG, "%s: %lld, expected 1 or more", name,
                           (long long)numbers[i]);
    for (size_t i = 0; i < n; i++)
        if ((format[i] == 'N' || format[i] == 'C') && numbers[i] != 1)
            return err_set(err, ERR_UNSUPPORTED, "%s over the batch or the channels",
                           name);
    return 0;
}

/* The numbers of an attribute, such as strides; *ret NULL: there is no such attribute. */
static int numbers_of(const struct operation *op, const char *name, const int64_t **ret,
                      struct err *err)
{
    const struct attr *a = operation_attr(op, name);

    *ret = a != NULL ? a->list_i : NULL;
    return a == NULL ? 0 : window_check_numbers(op, name, a->list_i, a->n, err);
}

/* explicit_paddings: two numbers for each letter of data_format; *ret NULL: another padding. */
static int paddings_of(const struct operation *op, const int64_t **ret, struct err *err)
{
    const char *padding = operation_attr(op, "padding")->s, *format = format_of(op);
    const struct attr *a = operation_attr(op, "explicit_paddings");
    const int is_explicit = strcmp(padding, "EXPLICIT") == 0;

    *ret = NULL;
    if (strcmp(padding, "SAME") != 0 && strcmp(padding, "VALID") != 0 &&
        (a == NULL || !is_explicit))
        return err_set(err, ERR_UNSUPPORTED, "padding %s, expected SAME or VALID",
                       padding);
    if (a == NULL || (!is_explicit && a->n == 0))
        return 0;
    if (!is_explicit)
        return err_set(err, ERR_ARG,
                       "explicit_paddings with padding %s, expected EXPLICIT", padding);
    if (a->n != 2 * strlen(format))
        return err_set(err, ERR_ARG, "explicit_paddings: %zu numbers, expected %zu", a->n,
                       2 * strlen(format));
    for (size_t i = 0; i < a->n; i++)
        if (a->list_i[i] < 0 || a->list_i[i] > INT32_MAX ||
            ((format[i / 2] == 'N' || format[i / 2] == 'C') && a->list_i[i] != 0))
            return err_set(
                err, ERR_ARG,
                "explicit_paddings: %lld, expected 0 or more, and 0 for the batch "
                "and the channels",
                (long long)a->list_i[i]);
    *ret = a->list_i;
    return 0;
}

/* ---- places ---- */

/* Finds the number of places along one axis, and the padding before the first. paddings: two
 * numbers, or NULL. */
static int place_axis(struct window_axis *a, int same, const int64_t *paddings,
                      struct err *err)
{
    const int64_t span = a->size > 0 ? (a->size - 1) * a->rate + 1 : a->size;
    int64_t padded = a->in, needed;

    a->out = -1;
    a->before = 0;
    if (a->in < 0 || (a->size < 0 && !same))
        return 0;
    if (same) {
        a->out = a->in / a->stride + (a->in % a->stride != 0);
        needed = (a->out - 1) * a->stride - a->in + span;
        a->before = a->size > 0 && needed > 0 ? needed / 2 : 0;
        return 0;
    }
    if (paddings != NULL) {
        a->before = paddings[0];
        if (__builtin_add_overflow(a->in, paddings[0] + paddings[1], &padded))
            return err_set(err, ERR_SHAPE, "an image of %lld is too large",
                           (long long)a->in);
    }
    if (padded < span)
        return err_set(err, ERR_SHAPE,
                       "a window of %lld does not fit into an image of %lld",
                       (long long)span, (long long)padded);
    a->out = (padded - span) / a->stride + 1;
    return 0;
}

int window_init(struct window *ret, const struct operation *op, const struct shape *image,
                const int64_t *size, const int64_t *strides, struct err *err)
{
    const int spatial = window_spatial(op), second = format_of(op)[1] == 'C';
    const int same = strcmp(operation_attr(op, "padding")->s, "SAME") == 0;
    const int64_t *own_strides = NULL, *rates, *paddings;
    struct window w = {.spatial = spatial,
                       .channels_second = second,
                       .batch = dim_of(image, 0),
                       .channels = dim_of(image, second ? 1 : spatial + 1),
                       .axis[0] = {1, 1, 1, 1, 1, 0}};
    int rc = format_check(op, err);

    if (rc == 0 && strides == NULL)
        rc = numbers_of(op, "strides", &own_strides, err);
    if (rc == 0)
        rc = numbers_of(op, operation_attr(op, "rates") != NULL ? "rates" : "dilations",
                        &rates, err);
    if (rc == 0)
        rc = paddings_of(op, &paddings, err);
    for (int i = 0; rc == 0 && i < spatial; i++) {
        const int letter = i + 1 + second;
        struct window_axis *a = &w.axis[WINDOW_AXES - spatial + i];

        a->in = dim_of(image, letter);
        a->size = size[i];
        a->stride = strides != NULL ? strides[letter] : own_strides[letter];
        a->rate = rates != NULL ? rates[letter] : 1;
        rc = place_axis(a, same, paddings != NULL ? paddings + 2 * letter : NULL, err);
    }
    if (rc == 0)
        *ret = w;
    return rc;
}

struct shape window_output(const struct window *w, int64_t channels)
{
    struct shape s = {.rank = w->spatial + 2};

    s.dim[0] = w->batch;
    s.dim[w->channels_second ? 1 : w->spatial + 1] = channels;
    for (int i = 0; i < w->spatial; i++)
        s.dim[i + 1 + w->channels_second] = w->axis[WINDOW_AXES - w->spatial + i].out;
    return s;
}

int window_want_output(const struct shape_args *args, const struct window *w, int i,
                       int64_t channels)
{
    const struct shape want = window_output(w, channels);
    struct shape both;

    return shape_merge(&want, &args->in[i], &both) == 0
               ? 0
               : err_set(args->err, ERR_SHAPE, "%s for an output of shape %s",
                         shape_text(&args->in[i]), shape_text(&want));
}

/* ---- for kernels ---- */

int64_t window_image_pixels(const struct window *w)
{
    return w->axis[0].out * w->axis[1].out * w->axis[2].out;
}

int64_t window_pixels(const struct window *w)
{
    return w->batch * window_image_pixels(w);
}

void window_at(const struct window *w, int64_t pixel, struct window_place *ret)
{
    const struct window_axis *x = &w->axis[2];
    const int64_t plane = w->axis[0].in * w->axis[1].in * x->in;
    int64_t left = 0, end;

    for (int i = WINDOW_AXES - 1; i >= 0; i--) {
        const struct window_axis *a = &w->axis[i];
        const int64_t rest = a->out > 1 ? pixel / a->out : pixel;

        ret->at[i] = (a->out > 1 ? pixel - rest * a->out : 0) * a->stride - a->before;
        pixel = rest;
    }
    ret->image = pixel;
    if (ret->at[2] < 0)
        left = (-ret->at[2] + x->rate - 1) / x->rate;
    end = ret->at[2] < x->in ? (x->in - ret->at[2] + x->rate - 1) / x->rate : 0;
    end = end < x->size ? end : x->size;
    ret->first = left;
    ret->n = end > left ? end - left : 0;
    ret->start = pixel * plane * w->channels +
                 (ret->at[2] + left * x->rate) * window_pixel_step(w);
}

int64_t window_pixel_step(const struct window *w)
{
    return w->channels_second ? 1 : w->channels;
}

int64_t window_channel_step(const struct window *w)
{
    return w->channels_second ? w->axis[0].in * w->axis[1].in * w->axis[2].in : 1;
}

/* ---- for gradient rules ---- */

struct output window_node(struct graph *g, const char *type, const struct operation *like,
                          const struct output *inputs, int n)
{
    static const char *const names[] = {"strides",
                                        "use_cudnn_on_gpu",
                                        "padding",
                                        "explicit_paddings",
                                        "data_format",
                                        "dilations",
                                        "ksize",
                                        "rates",
                                        "include_batch_in_index"};
    const struct op_def *def = op_def_find(graph_op_table(g), type);
    struct op_builder *b = op_begin(g, type, NULL);
    const struct signature *sig = op_def_signature(g, def);

    for (int i = 0; i < n; i++)
        op_input(b, inputs[i]);
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (operation_attr(like, names[i]) != NULL &&
            signature_attr(sig, span_of(names[i])) != NULL)
            op_attr(b, operation_attr(like, names[i]));
    return (struct output){op_finish(b), 0};
}
