/* window.h - how a convolution's or a pool's window moves over a batch of images.
 *
 * Attributes as in TensorFlow: strides and ksize of four numbers in the order of
 * data_format, padding SAME or VALID. Output pixel (y, x) sees the input's rows from
 * y stride_y - top and columns from x stride_x - left on; what lies outside the image is 0
 * to a convolution, and absent to a pool.
 *     VALID  only whole windows:  out = (in - size) / stride + 1, no padding
 *     SAME   out = ceil(in / stride); the padding needed is divided between both sides,
 *            an odd pixel goes below and to the right
 */
#ifndef AGENT_GRAPH_WINDOW_H
#define AGENT_GRAPH_WINDOW_H

#include "agent/graph/graph.h"

struct window {
    int64_t batch, channels; /* of the input; -1 here and in all sizes below: unknown */
    int64_t in_y, in_x;      /* size of the input */
    int64_t size_y, size_x;  /* of the window */
    int64_t stride_y, stride_x;
    int64_t out_y, out_x; /* size of the output */
    int64_t top, left;    /* padding; 0 if the sizes are unknown */
};

/* image: the shape of the input, of rank 4 or unknown. size_y, size_x: -1 if unknown.
 * ERR_SHAPE, ERR_ARG, ERR_UNSUPPORTED (another padding or data_format, dilations, strides
 * over the batch or the channels). */
int window_init(struct window *ret, const struct operation *op, const struct shape *image,
                int64_t size_y, int64_t size_x, struct err *err);
/* Whether data_format is NHWC, the only format that kernels read. */
int window_is_nhwc(const struct operation *op);

#endif
