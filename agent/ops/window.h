/* window.h - how a window moves over a batch of images of two or three dimensions.
 *
 * An image has the axes y and x, or z, y and x; one of two dimensions is treated as one of a
 * single z. The attributes are TensorFlow's: strides, ksize and dilations have one number for
 * each letter of data_format. Along each axis, output place p sees the input at
 *     p stride - before + k rate,   k = 0 .. size - 1
 * What lies outside the image is 0 to a convolution, and absent to a pool.
 *     VALID     only whole windows:  out = (in - span) / stride + 1, no padding,
 *               with span = (size - 1) rate + 1
 *     SAME      out = ceil(in / stride); the padding needed is divided between both sides, an
 *               odd pixel goes to the end
 *     EXPLICIT  the padding that explicit_paddings gives for each side
 */
#ifndef AGENT_OPS_WINDOW_H
#define AGENT_OPS_WINDOW_H

#include "agent/graph/op_def.h"

enum { WINDOW_AXES = 3, WINDOW_MAX_RANK = WINDOW_AXES + 2 };

struct window_axis {
    int64_t in, size, stride, rate, out; /* -1: unknown */
    int64_t before;                      /* padding; 0 if the sizes are unknown */
};

struct window {
    int spatial;                          /* 2 or 3: dimensions of an image */
    int channels_second;                  /* data_format NCHW or NCDHW */
    int64_t batch, channels;              /* of the input; -1: unknown */
    struct window_axis axis[WINDOW_AXES]; /* z, y, x */
};

/* 2 or 3, by the attribute data_format; 2 without it. */
int window_spatial(const struct operation *op);

/* image: the shape of the input, of rank spatial + 2 or unknown. size: of the window along the
 * image's dimensions, y and x or z, y and x; -1: unknown. strides: one for each letter of
 * data_format, or NULL: the attribute's. ERR_SHAPE, ERR_ARG, ERR_UNSUPPORTED (another padding
 * or data_format, strides or dilations over the batch or the channels). */
int window_init(struct window *ret, const struct operation *op, const struct shape *image,
                const int64_t *size, const int64_t *strides, struct err *err);
/* Checks one number for each letter of data_format, as strides are: all 1 or more, and 1 for
 * the batch and the channels. */
int window_check_numbers(const struct operation *op, const char *name,
                         const int64_t *numbers, size_t n, struct err *err);
/* The shape of the output, with this number of channels. */
struct shape window_output(const struct window *w, int64_t channels);
/* ERR_SHAPE if input i of the operation cannot have the shape window_output(w, channels). */
int window_want_output(const struct shape_args *args, const struct window *w, int i,
                       int64_t channels);

/* ---- for kernels, all sizes known ---- */

/* The window over one pixel of the output. Its columns first .. first + n - 1 are inside the
 * image; column `first` of line 0 would be element `start` of the input if that line were the
 * image's first. */
struct window_place {
    int64_t image; /* its number in the batch */
    /* of the window's first element in the image, z, y, x; may be outside */
    int64_t at[WINDOW_AXES];
    int64_t first, n, start;
};
/* Pixels of an image of the output, and those of all images. */
int64_t window_image_pixels(const struct window *w);
int64_t window_pixels(const struct window *w);
void window_at(const struct window *w, int64_t pixel, struct window_place *ret);
/* Elements from one pixel of the input to the next along x, and from one channel to the
 * next. */
int64_t window_pixel_step(const struct window *w);
int64_t window_channel_step(const struct window *w);

/* Line k of the window, of size z times size y: its first column inside is element *ret_at of
 * the input (in channel 0). Returns 0 if the line lies outside. */
static inline int window_line(const struct window *w, const struct window_place *p,
                              int64_t k, int64_t *ret_at)
{
    const struct window_axis *z = &w->axis[0], *y = &w->axis[1];
    const int64_t of_z = k < y->size ? 0 : k / y->size;
    const int64_t at_z = p->at[0] + of_z * z->rate;
    const int64_t at_y = p->at[1] + (k - of_z * y->size) * y->rate;

    if (at_z < 0 || at_z >= z->in || at_y < 0 || at_y >= y->in || p->n == 0)
        return 0;
    *ret_at = p->start + (at_z * y->in + at_y) * w->axis[2].in *
                             (w->channels_second ? 1 : w->channels);
    return 1;
}

/* Calls for every line that is inside: `at` is the element, in channel 0, of column p->first;
 * `line` the line's number. */
#define EACH_LINE(w, p, line, at)                                                        \
    for (int64_t line = 0, at; line < (w)->axis[0].size * (w)->axis[1].size; line++)     \
        if (window_line(w, p, line, &at))

/* ---- for gradient rules ---- */
/* A node of these inputs, with those of the window's attributes of `like` that its type has. */
struct output window_node(struct graph *g, const char *type, const struct operation *like,
                          const struct output *inputs, int n);

#endif
