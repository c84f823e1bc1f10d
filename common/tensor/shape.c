#include "common/tensor/shape.h"

#include "common/err/err.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

struct shape shape_of_rank(int rank)
{
    struct shape s = {.rank = rank};

    for (int i = 0; i < rank; i++)
        s.dim[i] = -1;
    return s;
}

void shape_insert(struct shape *s, int axis, int64_t dim)
{
    memmove(&s->dim[axis + 1], &s->dim[axis],
            (size_t)(s->rank - axis) * sizeof(s->dim[0]));
    s->dim[axis] = dim;
    s->rank++;
}

void shape_remove(struct shape *s, int axis)
{
    s->rank--;
    memmove(&s->dim[axis], &s->dim[axis + 1],
            (size_t)(s->rank - axis) * sizeof(s->dim[0]));
}

int shape_known(const struct shape *s)
{
    for (int i = 0; i < s->rank; i++) {
        if (s->dim[i] < 0)
            return 0;
    }
    return s->rank >= 0;
}

int64_t shape_elements(const struct shape *s)
{
    int64_t n = 1;
    int overflow = 0;

    if (!shape_known(s))
        return -1;
    for (int i = 0; i < s->rank; i++) {
        if (s->dim[i] == 0)
            return 0;
        overflow |= __builtin_mul_overflow(n, s->dim[i], &n);
    }
    return overflow ? -1 : n;
}

int shape_equal(const struct shape *a, const struct shape *b)
{
    if (a->rank != b->rank)
        return 0;
    for (int i = 0; i < a->rank; i++) {
        if (a->dim[i] != b->dim[i])
            return 0;
    }
    return 1;
}

int shape_merge(const struct shape *a, const struct shape *b, struct shape *ret)
{
    struct shape merged = *a;

    if (a->rank < 0 || b->rank < 0) {
        *ret = a->rank < 0 ? *b : *a;
        return 0;
    }
    if (a->rank != b->rank)
        return ERR_SHAPE;
    for (int i = 0; i < a->rank; i++) {
        if (a->dim[i] < 0)
            merged.dim[i] = b->dim[i];
        else if (b->dim[i] >= 0 && a->dim[i] != b->dim[i])
            return ERR_SHAPE;
    }
    *ret = merged;
    return 0;
}

int shape_compatible(const struct shape *a, const struct shape *b)
{
    struct shape merged;

    return shape_merge(a, b, &merged) == 0;
}

/* Sets *ret, or returns ERR_SHAPE. An unknown size beside a known one other than 1 can
 * only be that size or 1; in both cases the result is the known size. */
static int broadcast_dim(int64_t a, int64_t b, int64_t *ret)
{
    if (a == 1 || a == b)
        *ret = b;
    else if (b == 1 || b < 0)
        *ret = a;
    else if (a < 0)
        *ret = b;
    else
        return ERR_SHAPE;
    return 0;
}

int shape_broadcast(const struct shape *a, const struct shape *b, struct shape *ret)
{
    struct shape out = {0};

    if (a->rank < 0 || b->rank < 0) {
        *ret = SHAPE_UNKNOWN;
        return 0;
    }
    out.rank = a->rank > b->rank ? a->rank : b->rank;
    for (int i = 0; i < out.rank; i++) {
        int ia = i - (out.rank - a->rank);
        int ib = i - (out.rank - b->rank);

        if (broadcast_dim(ia >= 0 ? a->dim[ia] : 1, ib >= 0 ? b->dim[ib] : 1,
                          &out.dim[i]) != 0)
            return ERR_SHAPE;
    }
    *ret = out;
    return 0;
}

const char *shape_format(const struct shape *s, char *buf, size_t size)
{
    size_t at = 0;

    if (s->rank < 0) {
        (void)snprintf(buf, size, "<unknown>");
        return buf;
    }
    (void)snprintf(buf, size, "(");
    for (int i = 0; i < s->rank; i++) {
        at = strlen(buf);
        if (s->dim[i] < 0)
            (void)snprintf(buf + at, size - at, "%s?", i > 0 ? ", " : "");
        else
            (void)snprintf(buf + at, size - at, "%s%" PRId64, i > 0 ? ", " : "",
                           s->dim[i]);
    }
    at = strlen(buf);
    (void)snprintf(buf + at, size - at, ")");
    return buf;
}
