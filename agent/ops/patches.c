/* patches.c - patches of images, one after the other.
 *
 * Source   extract_image_patches_op.cc of TensorFlow 1.13 */
#include "agent/ops/kernel_parts.h"
#include "agent/ops/op_rules.h"

#include <string.h>

/* One direction of an image: out places, of which each sees `size` pixels, `rate` apart, from
 * place stride - before on. */
struct patch_axis {
    int64_t in, size, stride, rate, before, out;
};

/* d: 0 rows, 1 columns. ERR_ARG, ERR_SHAPE. */
static int patch_axis(struct patch_axis *ret, const struct operation *op, int d,
                      int64_t in, struct err *err)
{
    static const char *const names[] = {"ksizes", "strides", "rates"};
    const struct attr *padding = operation_attr(op, "padding");
    int64_t numbers[3], span, all;

    for (int i = 0; i < 3; i++) {
        const struct attr *a = operation_attr(op, names[i]);

        if (a->n != 4 || a->list_i[0] != 1 || a->list_i[3] != 1 || a->list_i[d + 1] < 1 ||
            a->list_i[d + 1] > INT32_MAX)
            return err_set(err, ERR_ARG, "%s must be [1, rows, columns, 1], 1 or more",
                           names[i]);
        numbers[i] = a->list_i[d + 1];
    }
    *ret = (struct patch_axis){in, numbers[0], numbers[1], numbers[2], 0, -1};
    if (in < 0)
        return 0;
    span = (ret->size - 1) * ret->rate + 1;
    if (padding->s_len == 4 && memcmp(padding->s, "SAME", 4) == 0) {
        ret->out = (in + ret->stride - 1) / ret->stride;
        all = (ret->out - 1) * ret->stride + span - in;
        ret->before = all > 0 ? all / 2 : 0;
    } else if (padding->s_len == 5 && memcmp(padding->s, "VALID", 5) == 0) {
        if (in < span)
            return err_set(err, ERR_SHAPE, "patches of %lld pixels in %lld",
                           (long long)span, (long long)in);
        ret->out = (in - span) / ret->stride + 1;
    } else {
        return err_set(err, ERR_ARG, "padding '%.*s'", (int)padding->s_len, padding->s);
    }
    return 0;
}

static int patches_shape(const struct shape_args *args)
{
    struct patch_axis axes[2];
    int64_t n = dim_of(&args->in[0], 3);

    for (int d = 0; d < 2; d++) {
        const int rc =
            patch_axis(&axes[d], args->op, d, dim_of(&args->in[0], d + 1), args->err);

        if (rc != 0)
            return rc;
        if (n >= 0 && __builtin_mul_overflow(n, axes[d].size, &n))
            return err_set(args->err, ERR_SHAPE, "patches of more than 2^63 elements");
    }
    args->out[0] = SHAPE(dim_of(&args->in[0], 0), axes[0].out, axes[1].out, n);
    return 0;
}

/* in: images; out: of each place the pixels of its patch, one after the other */
static int kern_patches(const struct kernel_args *a)
{
    const struct shape *s = &a->in[0]->shape, *to = &a->out[0]->shape;
    const size_t pixel = (size_t)s->dim[3] * elem_size(a->in[0]);
    const size_t patch = (size_t)to->dim[3] * elem_size(a->in[0]);
    const int64_t places = to->dim[0] * to->dim[1] * to->dim[2];
    struct patch_axis y, x;

    if (patch_axis(&y, a->op, 0, s->dim[1], a->err) != 0 ||
        patch_axis(&x, a->op, 1, s->dim[2], a->err) != 0)
        return ERR_ARG;
    clear(a->out[0]);
    for (int64_t i = 0; pixel > 0 && i < places; i++) {
        const int64_t image = i / (y.out * x.out);
        const int64_t top = i / x.out % y.out * y.stride - y.before;
        const int64_t left = i % x.out * x.stride - x.before;

        for (int64_t k = 0; k < y.size * x.size; k++) {
            const int64_t row = top + k / x.size * y.rate;
            const int64_t column = left + k % x.size * x.rate;

            if (row < 0 || row >= y.in || column < 0 || column >= x.in)
                continue;
            memcpy((char *)a->out[0]->data + (size_t)i * patch + (size_t)k * pixel,
                   (const char *)a->in[0]->data +
                       (size_t)((image * y.in + row) * x.in + column) * pixel,
                   pixel);
        }
    }
    return 0;
}

GRAD(patches_grad)
{
    return grad_only_of_files(g, op, "patches of images");
}

/* ---- the rows ---- */

static const struct op_def rows[] = {
    {"ExtractImagePatches", 0, patches_shape, patches_grad, CALL(kern_patches),
     "images:T -> patches:T; ksizes:list(int), strides:list(int), rates:list(int), "
     "T:type, padding:string",
     .ranks = "4"},
};

const struct op_family ops_of_patches = OP_FAMILY(rows);
