/* space.c - moves blocks of an image's pixels to the batch or to the channels, and back.
 *
 * SpaceToBatchND: the array (batch, space..., rest), padded, is cut along each dimension of
 * space into blocks of block_shape; the pixels at the same place o of all blocks make up one
 * image of the result, number o batch + b. BatchToSpaceND goes back and crops.
 *
 * SpaceToDepth: the pixels of a block become the channels of one pixel, channel c of pixel
 * (y, x) of the block channel (y block_size + x) channels + c.
 *
 * Gradients after TensorFlow 1.13's python/ops/array_grad.py: each is the other's.
 */
#include "agent/graph/import.h"
#include "agent/ops/kernel_parts.h"
#include "agent/ops/op_rules.h"

/* ---- space and batch ---- */

/* Room for the batch and the rest in a copy_plan. */
enum { SPACE_MAX = SHAPE_MAX_RANK - 2 };

struct blocks {
    int n; /* dimensions of space */
    int64_t size[SPACE_MAX], before[SPACE_MAX], after[SPACE_MAX];
    int64_t product; /* of all sizes */
};

/* Sets what follows from n and size; margins: paddings or crops before and after each
 * dimension. */
static int blocks_check(struct blocks *b, const int64_t *margins, struct err *err)
{
    b->product = 1;
    for (int d = 0; d < b->n; d++) {
        if (b->size[d] < 1 || __builtin_mul_overflow(b->product, b->size[d], &b->product))
            return err_set(err, ERR_ARG, "a block of %lld, expected 1 or more",
                           (long long)b->size[d]);
        b->before[d] = margins[2 * d];
        b->after[d] = margins[2 * d + 1];
        if (b->before[d] < 0 || b->after[d] < 0)
            return err_set(err, ERR_ARG, "paddings and crops must not be negative: %lld",
                           (long long)(b->before[d] < 0 ? b->before[d] : b->after[d]));
    }
    return 0;
}

/* The input that has paddings or crops: the last. */
static int margins_input(const struct operation *op)
{
    return operation_n_inputs(op) - 1;
}

/* ret->n by the shapes of the inputs alone; -1: unknown. */
static int blocks_count(const struct shape_args *args, struct blocks *ret)
{
    const struct shape *margins = &args->in[margins_input(args->op)];
    const int has_size = operation_attr(args->op, "block_size") != NULL;
    int64_t n = has_size ? 2 : dim_of(&args->in[1], 0);

    if (n < 0)
        n = dim_of(margins, 0);
    if (n > SPACE_MAX)
        return err_set(args->err, ERR_SHAPE, "blocks of %lld dimensions, at most %d",
                       (long long)n, SPACE_MAX);
    if (n >= 0 && dim_of(margins, 0) >= 0 &&
        (dim_of(margins, 0) != n || (dim_of(margins, 1) >= 0 && dim_of(margins, 1) != 2)))
        return err_set(args->err, ERR_SHAPE, "input %d is %s, expected (%lld, 2)",
                       margins_input(args->op), shape_text(margins), (long long)n);
    if (n >= 0 && args->in[0].rank >= 0 &&
        (has_size ? args->in[0].rank != 4 : args->in[0].rank < n + 1))
        return err_set(args->err, ERR_SHAPE, "blocks of %lld dimensions of an array %s",
                       (long long)n, shape_text(&args->in[0]));
    ret->n = (int)n;
    return 0;
}

/* The shape of the result, as far as it is known. */
static int space_shape(const struct shape_args *args, int to_batch)
{
    const int m = margins_input(args->op),
              has_size = operation_attr(args->op, "block_size") != NULL;
    struct shape out = args->in[0];
    int64_t margins[2 * SPACE_MAX], size[SPACE_MAX], n;
    struct blocks b;
    int rc = blocks_count(args, &b);

    if (rc < 0 || out.rank < 0)
        return rc;
    for (int d = 0; d < (b.n < 0 ? out.rank : b.n + 1); d++)
        out.dim[d] = -1;
    args->out[0] = out;
    for (int d = 0; has_size && d < 2; d++)
        size[d] = attr_int(args->op, "block_size");
    if (b.n < 0 || value_ints(args, m, margins, 2 * SPACE_MAX) != 2 * b.n ||
        (!has_size && value_ints(args, 1, size, SPACE_MAX) != b.n))
        return 0;
    memcpy(b.size, size, sizeof(b.size));
    rc = blocks_check(&b, margins, args->err);
    for (int d = 0; rc == 0 && d < b.n; d++) {
        const int64_t in = dim_of(&args->in[0], d + 1);

        if (in < 0)
            continue;
        if (to_batch ? __builtin_add_overflow(in, b.before[d], &n) ||
                           __builtin_add_overflow(n, b.after[d], &n) || n % b.size[d] != 0
                     : __builtin_mul_overflow(in, b.size[d], &n) || n < b.before[d] ||
                           n - b.before[d] < b.after[d])
            return err_set(args->err, ERR_SHAPE,
                           to_batch
                               ? "dimension %d, %lld+%lld+%lld, is not in blocks of %lld"
                               : "dimension %d, %lld cropped by %lld and %lld in blocks "
                                 "of %lld",
                           d + 1, (long long)in, (long long)b.before[d],
                           (long long)b.after[d], (long long)b.size[d]);
        args->out[0].dim[d + 1] = to_batch ? n / b.size[d] : n - b.before[d] - b.after[d];
    }
    n = dim_of(&args->in[0], 0);
    if (rc < 0 || n < 0)
        return rc;
    if (to_batch ? __builtin_mul_overflow(n, b.product, &n) : n % b.product != 0)
        return err_set(args->err, ERR_SHAPE, "a batch of %lld in blocks of %lld",
                       (long long)n, (long long)b.product);
    args->out[0].dim[0] = to_batch ? n : n / b.product;
    return 0;
}

static int space_to_batch_shape(const struct shape_args *args)
{
    return space_shape(args, 1);
}

static int batch_to_space_shape(const struct shape_args *args)
{
    return space_shape(args, 0);
}

/* The places in a block dimension: index i of the array in blocks is i size + at - before of
 * the array in space. Returns how many of `n` are inside 0 .. space-1. */
static int64_t inside(int64_t at, int64_t size, int64_t before, int64_t n, int64_t space,
                      int64_t *ret_first)
{
    const int64_t first = at < before ? (before - at + size - 1) / size : 0;
    int64_t end = space + before > at ? (space + before - at + size - 1) / size : 0;

    end = end < n ? end : n;
    *ret_first = first;
    return end > first ? end - first : 0;
}

/* Copies the pixels at place number `place` of all blocks. */
static void copy_place(const struct blocks *b, const struct tensor *space,
                       const struct tensor *batch, int64_t place, int to_batch)
{
    const size_t elem = elem_size(space);
    const int rank = b->n + 2;
    struct copy_plan c = {.rank = rank};
    struct shape s = space->shape, t = batch->shape;
    char *at_space = space->data, *at_batch = batch->data;
    int64_t first, left = place;

    s.rank = t.rank = rank;
    s.dim[rank - 1] = t.dim[rank - 1] = span(&space->shape, b->n + 1, space->shape.rank);
    dense_strides(&s, elem, c.src_stride);
    dense_strides(&t, elem, c.dst_stride);
    memcpy(c.dim, s.dim, sizeof(c.dim));
    at_batch += place * s.dim[0] * c.dst_stride[0];
    for (int d = b->n - 1; d >= 0; d--) {
        const int64_t at = left % b->size[d];

        left /= b->size[d];
        c.dim[d + 1] =
            inside(at, b->size[d], b->before[d], t.dim[d + 1], s.dim[d + 1], &first);
        if (c.dim[d + 1] == 0)
            return;
        at_space += (first * b->size[d] + at - b->before[d]) * c.src_stride[d + 1];
        at_batch += first * c.dst_stride[d + 1];
        c.src_stride[d + 1] *= b->size[d];
    }
    if (to_batch) {
        copy_strided(at_batch, at_space, &c, elem);
        return;
    }
    struct copy_plan back = c;
    memcpy(back.src_stride, c.dst_stride, sizeof(c.dst_stride));
    memcpy(back.dst_stride, c.src_stride, sizeof(c.src_stride));
    copy_strided(at_space, at_batch, &back, elem);
}

static int kern_space(const struct kernel_args *a, int to_batch)
{
    const struct tensor *x = a->in[0], *y = a->out[0], *margins = a->in[a->n_in - 1];
    const struct attr *size = operation_attr(a->op, "block_size");
    struct blocks b = {.n = size != NULL ? 2 : (int)tensor_elements(a->in[1])};
    int64_t both[2 * SPACE_MAX];

    for (int d = 0; d < b.n; d++)
        b.size[d] = size != NULL ? size->i : tensor_int(a->in[1], d);
    for (int i = 0; i < 2 * b.n; i++)
        both[i] = tensor_int(margins, i);
    if (blocks_check(&b, both, a->err) < 0)
        return err_wrap(a->err, "%s", operation_name(a->op));
    clear(y);
    for (int64_t place = 0; place < b.product && tensor_elements(x) > 0; place++)
        copy_place(&b, to_batch ? x : y, to_batch ? y : x, place, to_batch);
    return 0;
}

static int kern_space_to_batch(const struct kernel_args *a)
{
    return kern_space(a, 1);
}

static int kern_batch_to_space(const struct kernel_args *a)
{
    return kern_space(a, 0);
}

/* The opposite operation, with all inputs but the first and all attributes of `op`. */
static int opposite(struct graph *g, struct operation *op, const char *type,
                    struct output grad, struct output *grad_in)
{
    static const char *const names[] = {"block_size", "data_format"};
    struct op_builder *b = op_begin(g, type, NULL);

    op_input(b, grad);
    for (int i = 1; i < operation_n_inputs(op); i++)
        op_input(b, input_of(op, i));
    for (int i = 0; i < 2; i++)
        if (operation_attr(op, names[i]) != NULL)
            op_attr(b, operation_attr(op, names[i]));
    grad_in[0] = (struct output){op_finish(b), 0};
    return grad_done(grad_in, 1);
}

GRAD(space_to_batch_grad)
{
    const int has_size = operation_attr(op, "block_size") != NULL;

    return opposite(g, op, has_size ? "BatchToSpace" : "BatchToSpaceND", grad_out[0],
                    grad_in);
}

GRAD(batch_to_space_grad)
{
    const int has_size = operation_attr(op, "block_size") != NULL;

    return opposite(g, op, has_size ? "SpaceToBatch" : "SpaceToBatchND", grad_out[0],
                    grad_in);
}

/* ---- space and depth ---- */

static int depth_shape(const struct shape_args *args, int to_depth)
{
    const int64_t size = attr_int(args->op, "block_size");
    const int channel = channel_axis(args->op, 4), y = channel == 1 ? 2 : 1;
    const char *format = operation_attr(args->op, "data_format")->s;
    struct shape out = args->in[0];
    int64_t square;

    if (strcmp(format, "NHWC") != 0 && strcmp(format, "NCHW") != 0)
        return err_set(args->err, ERR_UNSUPPORTED,
                       "data_format %s, expected NHWC or NCHW", format);
    if (size < 2 || size > INT32_MAX)
        return err_set(args->err, ERR_ARG, "block_size: %lld, expected 2 or more",
                       (long long)size);
    if (out.rank < 0) {
        args->out[0] = shape_of_rank(4);
        return 0;
    }
    square = size * size;
    for (int d = 1; d < 4; d++) {
        const int64_t factor = d == channel ? square : size;
        const int divides = (d == y || d == y + 1) == to_depth;

        if (out.dim[d] < 0)
            continue;
        if (divides ? out.dim[d] % factor != 0
                    : __builtin_mul_overflow(out.dim[d], factor, &out.dim[d]))
            return err_set(args->err, ERR_SHAPE, "dimension %d of %s in blocks of %lld",
                           d, shape_text(&args->in[0]), (long long)factor);
        if (divides)
            out.dim[d] /= factor;
    }
    args->out[0] = out;
    return 0;
}

static int space_to_depth_shape(const struct shape_args *args)
{
    return depth_shape(args, 1);
}

static int depth_to_space_shape(const struct shape_args *args)
{
    return depth_shape(args, 0);
}

/* The dimensions of the copy: image, row and column of blocks, row and column in the block,
 * channel. */
static int kern_depth(const struct kernel_args *a, int to_depth)
{
    const struct tensor *space = to_depth ? a->in[0] : a->out[0];
    const struct shape *deep = to_depth ? &a->out[0]->shape : &a->in[0]->shape;
    const int second = channel_axis(a->op, 4) == 1, y = second ? 2 : 1;
    const int64_t size = attr_int(a->op, "block_size");
    const int64_t channels = space->shape.dim[second ? 1 : 3];
    const size_t elem = elem_size(space);
    int64_t s[SHAPE_MAX_RANK], d[SHAPE_MAX_RANK], channel;
    struct copy_plan c = {.rank = 6};

    dense_strides(&space->shape, elem, s);
    dense_strides(deep, elem, d);
    channel = d[second ? 1 : 3];
    memcpy(
        c.dim,
        (int64_t[]){deep->dim[0], deep->dim[y], deep->dim[y + 1], size, size, channels},
        6 * sizeof(int64_t));
    memcpy(c.src_stride,
           (int64_t[]){s[0], s[y] * size, s[y + 1] * size, s[y], s[y + 1],
                       s[second ? 1 : 3]},
           6 * sizeof(int64_t));
    memcpy(c.dst_stride,
           (int64_t[]){d[0], d[y], d[y + 1], channel * channels * size,
                       channel * channels, channel},
           6 * sizeof(int64_t));
    if (!to_depth) {
        int64_t stride[SHAPE_MAX_RANK];

        memcpy(stride, c.src_stride, sizeof(stride));
        memcpy(c.src_stride, c.dst_stride, sizeof(stride));
        memcpy(c.dst_stride, stride, sizeof(stride));
    }
    copy_strided(a->out[0]->data, a->in[0]->data, &c, elem);
    return 0;
}

static int kern_space_to_depth(const struct kernel_args *a)
{
    return kern_depth(a, 1);
}

static int kern_depth_to_space(const struct kernel_args *a)
{
    return kern_depth(a, 0);
}

GRAD(space_to_depth_grad)
{
    return opposite(g, op, "DepthToSpace", grad_out[0], grad_in);
}

GRAD(depth_to_space_grad)
{
    return opposite(g, op, "SpaceToDepth", grad_out[0], grad_in);
}

/* ---- the rows ---- */

#define DEPTH "input:T -> output:T; T:type, block_size:int, data_format:string=NHWC"

static const struct op_def rows[] = {
    {"SpaceToBatchND", 0, space_to_batch_shape, space_to_batch_grad,
     CALL(kern_space_to_batch),
     "input:T, block_shape:Tblock_shape, paddings:Tpaddings -> output:T; T:type, "
     "Tblock_shape:index_type=int32, Tpaddings:index_type=int32",
     .ranks = "?12"},
    {"BatchToSpaceND", 0, batch_to_space_shape, batch_to_space_grad,
     CALL(kern_batch_to_space),
     "input:T, block_shape:Tblock_shape, crops:Tcrops -> output:T; T:type, "
     "Tblock_shape:index_type=int32, Tcrops:index_type=int32",
     .ranks = "?12"},
    {"SpaceToBatch", 0, space_to_batch_shape, space_to_batch_grad,
     CALL(kern_space_to_batch),
     "input:T, paddings:Tpaddings -> output:T; T:type, Tpaddings:index_type=int32, "
     "block_size:int",
     .ranks = "42"},
    {"BatchToSpace", 0, batch_to_space_shape, batch_to_space_grad,
     CALL(kern_batch_to_space),
     "input:T, crops:Tidx -> output:T; T:type, block_size:int, Tidx:index_type=int32",
     .ranks = "42"},
    {"SpaceToDepth", 0, space_to_depth_shape, space_to_depth_grad,
     CALL(kern_space_to_depth), DEPTH, .ranks = "4"},
    {"DepthToSpace", 0, depth_to_space_shape, depth_to_space_grad,
     CALL(kern_depth_to_space), DEPTH, .ranks = "4"},
};

const struct op_family ops_of_space = OP_FAMILY(rows);
