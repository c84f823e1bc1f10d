/* Convolutions and pools: every sum written out over output, window and channels.
 *
 * Tolerances: sums of some dozens of products below 1.
 */
#include "tests/agent/kernel_cases.h"

#include <string.h>

/* One spatial dimension: 0 is y, 1 is x. */
struct axis {
    int64_t in, size, stride, out, before;
};

static struct axis axis_of(const struct operation *op, int64_t in, int64_t size,
                           int64_t out, int axis)
{
    struct axis a = {in, size, operation_attr(op, "strides")->list_i[1 + axis], out, 0};
    const int64_t padding = (out - 1) * a.stride + size - in;

    if (strcmp(operation_attr(op, "padding")->s, "SAME") == 0 && padding > 0)
        a.before = padding / 2;
    return a;
}

struct conv {
    const double *image, *filter, *y; /* the inputs; NULL: the one to compute */
    double *to_image, *to_filter, *to_y;
    const struct shape *image_shape, *filter_shape, *y_shape;
};

/* The sum over all products image * filter * y, differentiated by the one of them that is
 * missing. */
static void each_product(const struct operation *op, const struct conv *c)
{
    const int64_t *n = c->image_shape->dim, *f = c->filter_shape->dim,
                  *o = c->y_shape->dim;
    const struct axis y = axis_of(op, n[1], f[0], o[1], 0),
                      x = axis_of(op, n[2], f[1], o[2], 1);
    int64_t at[7];
    const struct shape all = {7, {o[0], o[1], o[2], f[0], f[1], f[2], f[3]}};

    for (int64_t i = 0; i < shape_elements(&all); i++) {
        unravel(&all, i, at);
        const int64_t row = at[1] * y.stride - y.before + at[3],
                      column = at[2] * x.stride - x.before + at[4];
        if (row < 0 || row >= n[1] || column < 0 || column >= n[2])
            continue;
        const int64_t a = ((at[0] * n[1] + row) * n[2] + column) * n[3] + at[5];
        const int64_t b = ((at[3] * f[1] + at[4]) * f[2] + at[5]) * f[3] + at[6];
        const int64_t d = ((at[0] * o[1] + at[1]) * o[2] + at[2]) * o[3] + at[6];
        if (c->to_y != NULL)
            c->to_y[d] += c->image[a] * c->filter[b];
        else if (c->to_image != NULL)
            c->to_image[a] += c->y[d] * c->filter[b];
        else
            c->to_filter[b] += c->y[d] * c->image[a];
    }
}

static void conv2d(const struct reference *r)
{
    each_product(r->op, &(struct conv){.image = r->in[0].v,
                                       .image_shape = &r->in[0].tensor.shape,
                                       .filter = r->in[1].v,
                                       .filter_shape = &r->in[1].tensor.shape,
                                       .to_y = r->out[0].v,
                                       .y_shape = &r->out[0].tensor.shape});
}

static void to_input(const struct reference *r)
{
    each_product(r->op, &(struct conv){.to_image = r->out[0].v,
                                       .image_shape = &r->out[0].tensor.shape,
                                       .filter = r->in[1].v,
                                       .filter_shape = &r->in[1].tensor.shape,
                                       .y = r->in[2].v,
                                       .y_shape = &r->in[2].tensor.shape});
}

static void to_filter(const struct reference *r)
{
    each_product(r->op, &(struct conv){.image = r->in[0].v,
                                       .image_shape = &r->in[0].tensor.shape,
                                       .to_filter = r->out[0].v,
                                       .filter_shape = &r->out[0].tensor.shape,
                                       .y = r->in[2].v,
                                       .y_shape = &r->in[2].tensor.shape});
}

/* The position in the image of the largest element in the window of output element i. */
static int64_t largest(const struct reference *r, const struct shape *out, int64_t i)
{
    const int64_t *n = r->in[0].tensor.shape.dim;
    const int64_t *size = operation_attr(r->op, "ksize")->list_i;
    const struct axis y = axis_of(r->op, n[1], size[1], out->dim[1], 0),
                      x = axis_of(r->op, n[2], size[2], out->dim[2], 1);
    int64_t at[4], best = -1;

    unravel(out, i, at);
    for (int64_t row = 0; row < n[1]; row++)
        for (int64_t column = 0; column < n[2]; column++) {
            const int64_t k = row - (at[1] * y.stride - y.before),
                          l = column - (at[2] * x.stride - x.before),
                          a = ((at[0] * n[1] + row) * n[2] + column) * n[3] + at[3];

            if (k >= 0 && k < y.size && l >= 0 && l < x.size &&
                (best < 0 || r->in[0].v[a] > r->in[0].v[best]))
                best = a;
        }
    return best;
}

static void max_pool(const struct reference *r)
{
    for (int64_t i = 0; i < r->out->n; i++)
        r->out->v[i] = r->in[0].v[largest(r, &r->out->tensor.shape, i)];
}

static void max_pool_grad(const struct reference *r)
{
    for (int64_t i = 0; i < r->in[2].n; i++)
        r->out->v[largest(r, &r->in[2].tensor.shape, i)] += r->in[2].v[i];
}

static void max_pool_grad_grad(const struct reference *r)
{
    for (int64_t i = 0; i < r->out->n; i++)
        r->out->v[i] = r->in[2].v[largest(r, &r->out->tensor.shape, i)];
}

/* ---- the rows ---- */

#define ROW(op, f, in, attrs, out)                                                       \
    {                                                                                    \
        op, "f", in, attrs, out, f, NULL, -1, 1, 60, 0                                   \
    }
/* The same window in all three operations. */
#define CONV(image, filter, y, sizes, filter_sizes, attrs)                               \
    ROW("Conv2D", conv2d, "f" image " f" filter, attrs, y),                              \
        ROW("Conv2DBackpropInput", to_input, "I(4)=" sizes " f" filter " f" y, attrs,    \
            image),                                                                      \
        ROW("Conv2DBackpropFilter", to_filter, "f" image " I(4)=" filter_sizes " f" y,   \
            attrs, filter)
#define POOL(image, y, attrs)                                                            \
    ROW("MaxPool", max_pool, "f" image, attrs, y),                                       \
        ROW("MaxPoolGrad", max_pool_grad, "f" image " f" y " f" y, attrs, image),        \
        ROW("MaxPoolGradGrad", max_pool_grad_grad, "f" image " f" y " f" image, attrs,   \
            y)

const struct kernel_case conv_cases[] = {
    CONV("(2,4,5,2)", "(3,2,2,3)", "(2,2,4,3)", "2,4,5,2", "3,2,2,3",
         "strides=[1,1,1,1] padding=VALID"),
    CONV("(2,4,5,1)", "(3,2,1,2)", "(2,4,5,2)", "2,4,5,1", "3,2,1,2",
         "strides=[1,1,1,1] padding=SAME"),
    CONV("(1,7,6,2)", "(4,3,2,2)", "(1,2,2,2)", "1,7,6,2", "4,3,2,2",
         "strides=[1,2,3,1] padding=VALID"),
    CONV("(1,7,6,2)", "(4,3,2,2)", "(1,4,2,2)", "1,7,6,2", "4,3,2,2",
         "strides=[1,2,3,1] padding=SAME"),
    /* a window wider than the image, and one that skips pixels */
    CONV("(1,2,3,1)", "(5,5,1,1)", "(1,2,3,1)", "1,2,3,1", "5,5,1,1",
         "strides=[1,1,1,1] padding=SAME"),
    CONV("(2,5,5,1)", "(1,1,1,4)", "(2,2,2,4)", "2,5,5,1", "1,1,1,4",
         "strides=[1,3,3,1] padding=SAME"),
    /* more pixels than a block of 128 */
    CONV("(3,7,7,1)", "(2,1,1,2)", "(3,6,7,2)", "3,7,7,1", "2,1,1,2",
         "strides=[1,1,1,1] padding=VALID"),
    CONV("(0,4,4,1)", "(2,2,1,3)", "(0,3,3,3)", "0,4,4,1", "2,2,1,3",
         "strides=[1,1,1,1] padding=VALID"),
    POOL("(2,4,6,2)", "(2,2,3,2)", "ksize=[1,2,2,1] strides=[1,2,2,1] padding=VALID"),
    POOL("(1,5,4,3)", "(1,3,2,3)", "ksize=[1,3,2,1] strides=[1,2,2,1] padding=SAME"),
    POOL("(1,5,5,1)", "(1,3,3,1)", "ksize=[1,3,3,1] strides=[1,1,1,1] padding=VALID"),
    POOL("(1,5,5,1)", "(1,2,2,1)", "ksize=[1,1,1,1] strides=[1,3,3,1] padding=SAME"),
    POOL("(0,4,4,1)", "(0,2,2,1)", "ksize=[1,2,2,1] strides=[1,2,2,1] padding=VALID"),
    {NULL},
};
