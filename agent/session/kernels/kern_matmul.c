/* Matrix products of whole tensors. */
#include "agent/session/kernels/kernel.h"
#include "agent/session/kernels/loops.h"

#include <string.h>

/* Adds the product of one block, `rows` rows of A^T and B from `first` on, to C. The
 * first block sets C. */
static void add_block(const struct dense *whole, int64_t first, int64_t rows)
{
    struct dense d = *whole;

    d.k = rows;
    d.a += first * d.lda;
    d.b += d.transposed_b ? first : first * d.ldb;
    d.add = first > 0;
    kern_loops()->dense(&d);
}

void dense_whole(const struct dense *d)
{
    if (!d->transposed_a || d->k <= DENSE_BLOCK) {
        kern_loops()->dense(d);
        return;
    }
    for (int64_t k = 0; k < d->k; k += DENSE_BLOCK)
        add_block(d, k, d->k - k < DENSE_BLOCK ? d->k - k : DENSE_BLOCK);
}

/* ---- other dtypes: plain loops; k is innermost, in order ---- */

struct product {
    int ta, tb;
    int64_t m, n, k;
};

#define PRODUCT(T, U)                                                                    \
    static void product_##T(const struct product *p, const T *a, const T *b, T *c)       \
    {                                                                                    \
        for (int64_t i = 0; i < p->m; i++) {                                             \
            for (int64_t j = 0; j < p->n; j++) {                                         \
                U sum = 0;                                                               \
                for (int64_t l = 0; l < p->k; l++)                                       \
                    sum += (U)a[p->ta ? l * p->m + i : i * p->k + l] *                   \
                           (U)b[p->tb ? j * p->k + l : l * p->n + j];                    \
                c[i * p->n + j] = (T)sum;                                                \
            }                                                                            \
        }                                                                                \
    }
PRODUCT(double, double)
PRODUCT(int32_t, uint32_t)
PRODUCT(int64_t, uint64_t)

/* Which matrix of each operand, x and y, gives matrix z of the result. */
struct batch {
    int64_t x, y, z;
};

static int product(const struct kernel_args *a, const struct product *p, struct batch at)
{
    size_t elem = dtype_size(a->out[0]->dtype);
    const char *x = (const char *)a->in[0]->data + (size_t)(at.x * p->m * p->k) * elem;
    const char *y = (const char *)a->in[1]->data + (size_t)(at.y * p->k * p->n) * elem;
    char *z = (char *)a->out[0]->data + (size_t)(at.z * p->m * p->n) * elem;
    struct dense d = {.m = p->m,
                      .n = p->n,
                      .k = p->k,
                      .lda = p->ta ? p->m : p->k,
                      .transposed_a = p->ta,
                      .ldb = p->tb ? p->k : p->n,
                      .transposed_b = p->tb,
                      .ldc = p->n};

    switch (a->out[0]->dtype) {
    case DT_FLOAT:
        d.a = (const void *)x;
        d.b = (const void *)y;
        d.c = (void *)z;
        dense_whole(&d);
        return 0;
    case DT_DOUBLE:
        product_double(p, (const void *)x, (const void *)y, (void *)z);
        return 0;
    case DT_INT32:
        product_int32_t(p, (const void *)x, (const void *)y, (void *)z);
        return 0;
    case DT_INT64:
        product_int64_t(p, (const void *)x, (const void *)y, (void *)z);
        return 0;
    default:
        return err_set(a->err, ERR_UNSUPPORTED, "%s: no %s of %s", operation_name(a->op),
                       operation_type(a->op), dtype_name(a->out[0]->dtype));
    }
}

static struct product product_of(const struct kernel_args *a, int ta, int tb)
{
    const struct shape *x = &a->in[0]->shape, *z = &a->out[0]->shape;

    return (struct product){ta, tb, z->dim[z->rank - 2], z->dim[z->rank - 1],
                            x->dim[ta ? x->rank - 2 : x->rank - 1]};
}

int kern_matmul(const struct kernel_args *a)
{
    struct product p = product_of(a, (int)int_attr(a->op, "transpose_a", 0),
                                  (int)int_attr(a->op, "transpose_b", 0));

    return product(a, &p, (struct batch){0});
}

/* Returns the operand's matrix for matrix `z` of the result (broadcasting). */
static int64_t matrix_under(const struct shape *s, const struct shape *result, int64_t z)
{
    int64_t at = 0, step = 1;

    for (int d = result->rank - 3; d >= 0; d--) {
        int o = d - (result->rank - s->rank);

        if (o >= 0 && s->dim[o] > 1)
            at += z % result->dim[d] * step;
        step *= o >= 0 ? s->dim[o] : 1;
        z /= result->dim[d];
    }
    return at;
}

int kern_batch_matmul(const struct kernel_args *a)
{
    const struct shape *shape = &a->out[0]->shape;
    struct product p =
        product_of(a, (int)int_attr(a->op, "adj_x", 0), (int)int_attr(a->op, "adj_y", 0));
    int64_t n = 1;
    int rc = 0;

    if (tensor_elements(a->out[0]) == 0)
        /* the result has no elements; sizes beside a 0 were not checked */
        return 0;
    for (int d = 0; d < shape->rank - 2; d++)
        n *= shape->dim[d];
    for (int64_t z = 0; rc == 0 && z < n; z++)
        rc = product(a, &p,
                     (struct batch){matrix_under(&a->in[0]->shape, shape, z),
                                    matrix_under(&a->in[1]->shape, shape, z), z});
    return rc;
}
