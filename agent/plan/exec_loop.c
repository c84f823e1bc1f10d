/* Runs loops (struct loop_program), with or without a matrix product. */
#include "agent/plan/plan.h"

#include <string.h>
#include <wchar.h>

_Static_assert(sizeof(wchar_t) == 4, "wmemset lays words");

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* dst[0 .. n) = src[(start + i) % period]. Copies what is already in dst, doubling it. */
static void lay_period(char *dst, const char *src, size_t start, size_t n, size_t period,
                       size_t elem)
{
    size_t from = start % period;

    /* elements left in the row that contains `start` */
    size_t rest = smaller(period - from, n);
    size_t done = smaller(rest + period, n);

    memcpy(dst, src + from * elem, rest * elem);
    memcpy(dst + rest * elem, src, (done - rest) * elem);
    while (done < n) {
        size_t len = smaller(done - rest, n - done);

        memcpy(dst + done * elem, dst + rest * elem, len * elem);
        done += len;
    }
}

static void lay_same(char *dst, const char *src, size_t n, size_t elem)
{
    if (elem == 4) {
        wchar_t x;
        memcpy(&x, src, 4);
        (void)wmemset((wchar_t *)(void *)dst, x, n);
    } else if (elem == 1) {
        memset(dst, *src, n);
    } else {
        for (size_t i = 0; i < n; i++)
            memcpy(dst + i * elem, src, elem);
    }
}

#define SHORT_ROW 16

/* Like lay_period, for 4-byte elements and rows shorter than SHORT_ROW; dst begins with
 * a row. Each row is written with SHORT_ROW elements, of which the next row overwrites
 * the excess. */
static void lay_short_rows(uint32_t *dst, const uint32_t *src, size_t n, size_t repeat)
{
    size_t i = 0;

    for (; i + SHORT_ROW <= n; i += repeat, src++)
        for (size_t k = 0; k < SHORT_ROW; k++)
            dst[i + k] = *src;
    for (; i < n; i += repeat, src++)
        for (size_t k = 0; k < repeat && i + k < n; k++)
            dst[i + k] = *src;
}

/* dst[0 .. n) = src[(start + i) / repeat] */
static void lay_repeat(char *dst, const char *src, size_t start, size_t n, size_t repeat,
                       size_t elem)
{
    if (elem == 4 && repeat < SHORT_ROW && start % repeat == 0) {
        lay_short_rows((void *)dst, (const void *)(src + start / repeat * 4), n, repeat);
        return;
    }
    for (size_t done = 0; done < n;) {
        size_t row = (start + done) / repeat;
        size_t len = (row + 1) * repeat - (start + done);

        len = len < n - done ? len : n - done;
        lay_same(dst + done * elem, src + row * elem, len, elem);
        done += len;
    }
}

/* ---- a block ---- */

/* Whether the operand that repeats with this period lies alike in all blocks: those of a chunk
 * begin at a multiple of the block, and a chunk at a multiple of DENSE_BLOCK rows. */
static int lies_alike(const struct loop_program *l, size_t period)
{
    const size_t row = l->has_gemm ? (size_t)l->gemm.n : (size_t)l->row;

    return l->block % period == 0 && DENSE_BLOCK * row % period == 0;
}

static void lay_args(struct loop_program *l, size_t start, size_t n, char *raw,
                     size_t origin)
{
    char **at = l->state.at;

    for (int i = 0; i < l->n_args; i++) {
        const struct loop_arg *a = &l->args[i];
        const struct value *v = &l->state.values[a->value];
        const char *base = v->tensor.data;
        const size_t from = v->local_rows > 0 ? origin : 0;

        switch (a->kind) {
        case ARG_FULL:
            at[i] = (char *)v->tensor.data + (start - from) * a->elem;
            break;
        case ARG_RAW:
            at[i] = raw;
            break;
        case ARG_PERIOD:
            if (!lies_alike(l, a->period))
                lay_period(at[i], base, start, n, a->period, a->elem);
            break;
        case ARG_REPEAT:
            lay_repeat(at[i], base, start - from, n, a->period, a->elem);
            break;
        default:
            break;
        }
    }
}

static void add_to_tail(struct loop_program *l, int i, size_t start, size_t n)
{
    const struct loop_tail *t = &l->tails[i];
    const float *x = (const void *)l->state.at[t->arg];
    char *parts = l->state.scratch + (size_t)l->n_temps * l->temp_bytes;

    if (t->same >= 0 || i == l->gemm_sums)
        return;
    if (t->kind == TAIL_ALL)
        kern_loops()->sum_lanes(&l->state.sums[i], x, start, n);
    else
        sum_column_blocks(l->state.values[t->value].tensor.data,
                          (float *)(void *)parts + t->part, x, start, n, t->period,
                          l->total);
}

/* Runs elements first .. end-1; local values (struct value) start at element `first`.
 * raw: the rows of the product, also from `first` on. */
static void loop_blocks(struct loop_program *l, size_t first, size_t end, char *raw)
{
    char **at = l->state.at;

    if (l->n_instrs == 0 && l->n_tails == (l->gemm_sums >= 0))
        return;
    for (size_t start = first; start < end; start += l->block) {
        const size_t n = smaller(end - start, l->block);

        lay_args(l, start, n, raw != NULL ? raw + (start - first) * sizeof(float) : NULL,
                 first);
        for (int i = 0; i < l->n_instrs; i++) {
            const struct loop_instr *in = &l->instrs[i];

            in->fn(at[in->dst], at[in->src[0]], in->src[1] < 0 ? NULL : at[in->src[1]],
                   in->src[2] < 0 ? NULL : at[in->src[2]], n, in->alpha);
        }
        for (int i = 0; i < l->n_tails; i++)
            add_to_tail(l, i, start, n);
    }
}

/* ---- the product ---- */

/* Returns the place of the product's transposed operand, in scratch memory after blocks
 * and partial sums. */
static float *transposed_operand(const struct loop_program *l)
{
    char *parts = l->state.scratch + (size_t)l->n_temps * l->temp_bytes;

    return (float *)(void *)parts + l->part_floats;
}

/* Returns scratch memory for the current chunk of the product's rows; NULL if a value
 * stores them. */
static float *raw_chunk(const struct loop_program *l)
{
    return transposed_operand(l) + (l->transpose_b ? l->gemm.n * l->gemm.k : 0);
}

static float *value_data(const struct loop_program *l, int v)
{
    return v < 0 ? NULL : l->state.values[v].tensor.data;
}

static int is_local(const struct loop_program *l, int v)
{
    return v >= 0 && l->state.values[v].local_rows > 0;
}

static void product_rows(struct loop_program *l, int64_t first, int64_t rows)
{
    struct dense d = l->state.gemm;

    /* from row 0 to row `first`, except in values that only hold the current chunk */
    if (!is_local(l, l->gemm_a))
        d.a += first * d.lda;
    if (d.c != NULL && !is_local(l, l->gemm_c))
        d.c += first * d.ldc;
    if (d.feature != NULL && !is_local(l, l->gemm_feature))
        d.feature += first * d.ld_feature;
    if (d.c == NULL)
        d.c = raw_chunk(l);
    d.m = rows;
    d.add_sums = first > 0;
    kern_loops()->dense(&d);
    loop_blocks(l, (size_t)(first * d.n), (size_t)((first + rows) * d.n),
                (char *)(void *)d.c);
}

/* Adds the products of `rows` rows from `first` on to X^T Y, in a stretch. Each call
 * advances in both operands; the result stays in place. */
static void product_block(struct loop_program *l, int64_t first, int64_t rows)
{
    struct dense d = l->state.gemm;

    if (!is_local(l, l->gemm_a))
        d.a += first * d.lda;
    if (!is_local(l, l->gemm_b))
        d.b += first * d.ldb;
    if (d.c == NULL)
        d.c = raw_chunk(l);
    d.k = rows;
    d.add = first > 0;
    kern_loops()->dense(&d);
}

/* ---- a loop ---- */

void loop_open(struct loop_program *l, struct value *values, void *scratch)
{
    const size_t block = smaller(l->block, l->total);

    l->state.values = values;
    l->state.scratch = scratch;
    for (int i = 0; i < l->n_args; i++) {
        const struct loop_arg *a = &l->args[i];

        if (a->temp >= 0)
            l->state.at[i] = l->state.scratch + (size_t)a->temp * l->temp_bytes;
        if (a->kind == ARG_SCALAR)
            lay_same(l->state.at[i], values[a->value].tensor.data, block, a->elem);
        else if (a->kind == ARG_PERIOD && lies_alike(l, a->period))
            lay_period(l->state.at[i], values[a->value].tensor.data, 0, block, a->period,
                       a->elem);
    }
    for (int i = 0; i < l->n_tails; i++)
        if (l->tails[i].kind == TAIL_ALL)
            l->state.sums[i] = (struct lane_sums){0};
    if (l->has_gemm) {
        struct dense *d = &l->state.gemm;

        *d = l->gemm;
        d->a = value_data(l, l->gemm_a);
        d->b = value_data(l, l->gemm_b) + l->gemm_b_offset;
        d->c = value_data(l, l->gemm_c);
        d->bias = value_data(l, l->gemm_bias);
        d->feature = value_data(l, l->gemm_feature);
        if (l->gemm_sums >= 0)
            d->column_sums = value_data(l, l->tails[l->gemm_sums].value);
        if (l->transpose_b) {
            kern_loops()->transpose(transposed_operand(l), d->b, d->n, d->k, d->ldb);
            d->b = transposed_operand(l);
            d->transposed_b = 0;
            d->ldb = d->n;
        }
    }
}

void loop_rows(struct loop_program *l, int64_t first, int64_t rows)
{
    if (l->has_gemm && l->gemm.transposed_a)
        product_block(l, first, rows);
    else if (l->has_gemm)
        product_rows(l, first, rows);
    else
        loop_blocks(l, (size_t)first * l->row, (size_t)(first + rows) * l->row, NULL);
}

void loop_close(struct loop_program *l)
{
    if (l->has_gemm && l->gemm.transposed_a)
        loop_blocks(l, 0, l->total,
                    l->state.gemm.c != NULL ? (char *)(void *)l->state.gemm.c
                                            : (char *)(void *)raw_chunk(l));
    for (int i = 0; i < l->n_tails; i++) {
        const struct loop_tail *t = &l->tails[i];
        float *y = l->state.values[t->value].tensor.data;
        const size_t n = t->kind == TAIL_ALL ? 1 : t->period;

        if (t->kind == TAIL_ALL)
            y[0] = loop_sum_finish(&l->state.sums[t->same >= 0 ? t->same : i], l->total);
        for (size_t k = 0; t->divisor != 0.0f && k < n; k++)
            y[k] /= t->divisor;
    }
}

void loop_run(struct loop_program *l, struct value *values, void *scratch)
{
    loop_open(l, values, scratch);
    if (!l->has_gemm) {
        loop_blocks(l, 0, l->total, NULL);
    } else if (l->gemm.transposed_a || l->by_blas) {
        struct dense *d = &l->state.gemm;

        if (d->c == NULL)
            d->c = raw_chunk(l);
        if (l->by_blas)
            blas_product(d);
        else
            dense_whole(d);
        if (!l->gemm.transposed_a)
            loop_blocks(l, 0, l->total, (char *)(void *)l->state.gemm.c);
    } else {
        for (int64_t row = 0; row < l->gemm.m; row += DENSE_BLOCK)
            loop_rows(l, row,
                      l->gemm.m - row < DENSE_BLOCK ? l->gemm.m - row : DENSE_BLOCK);
    }
    loop_close(l);
}
