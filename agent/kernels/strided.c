#include "agent/kernels/strided.h"

#include "common/mem/copy_short.h"

#include <string.h>

void dense_strides(const struct shape *s, size_t elem, int64_t *ret)
{
    int64_t stride = (int64_t)elem;

    for (int d = s->rank - 1; d >= 0; d--) {
        ret[d] = stride;
        stride *= s->dim[d];
    }
}

/* Drops dimensions with one element, and merges dimensions that are contiguous on both
 * sides. */
static void simplify(struct copy_plan *c)
{
    int rank = 0;

    for (int d = 0; d < c->rank; d++) {
        if (c->dim[d] == 1)
            continue;
        if (rank > 0 && c->src_stride[rank - 1] == c->src_stride[d] * c->dim[d] &&
            c->dst_stride[rank - 1] == c->dst_stride[d] * c->dim[d]) {
            rank--;
            c->dim[rank] *= c->dim[d];
        } else {
            c->dim[rank] = c->dim[d];
        }
        c->src_stride[rank] = c->src_stride[d];
        c->dst_stride[rank] = c->dst_stride[d];
        rank++;
    }
    c->rank = rank;
}

static void copy_line(char *dst, const char *src, int64_t n, int64_t ds, int64_t ss,
                      size_t elem)
{
    if (ds == (int64_t)elem && ss == (int64_t)elem) {
        copy_short(dst, src, (size_t)n * elem);
        return;
    }
    for (int64_t i = 0; i < n; i++, dst += ds, src += ss) {
        if (elem == 4)
            memcpy(dst, src, 4);
        else
            memcpy(dst, src, elem);
    }
}

static void copy_dims(char *dst, const char *src, const struct copy_plan *c, int d,
                      size_t elem)
{
    int last = c->rank - 1;

    if (d == last - 1 && c->dst_stride[last] == (int64_t)elem &&
        c->src_stride[last] == (int64_t)elem) {
        copy_rows(dst, (size_t)c->dst_stride[d], src, (size_t)c->src_stride[d],
                  (size_t)c->dim[d], (size_t)c->dim[last] * elem);
        return;
    }
    if (d == last) {
        copy_line(dst, src, c->dim[d], c->dst_stride[d], c->src_stride[d], elem);
        return;
    }
    for (int64_t i = 0; i < c->dim[d]; i++)
        copy_dims(dst + i * c->dst_stride[d], src + i * c->src_stride[d], c, d + 1, elem);
}

void copy_strided(void *dst, const void *src, const struct copy_plan *plan, size_t elem)
{
    struct copy_plan c = *plan;

    for (int d = 0; d < c.rank; d++)
        if (c.dim[d] == 0)
            return;
    simplify(&c);
    if (c.rank == 0)
        memcpy(dst, src, elem);
    else
        copy_dims(dst, src, &c, 0, elem);
}
