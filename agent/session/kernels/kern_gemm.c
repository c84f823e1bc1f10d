/* Matrix products. float32 goes to OpenBLAS, in chunks of 128 rows of the batch: a chunk
 * stays in cache for what is done to it next, and the cut depends on the shapes only. */
#include "agent/session/kernels/kernel.h"

#include <cblas.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#ifdef __x86_64__
/* OpenBLAS knows processors by model number and falls back to SSE3 for those younger than
 * itself, a sixth of their speed. So its kernels are chosen here by what the processor
 * can do, through OpenBLAS's own variable, before its constructor reads it; the user's
 * choice stands. It also makes the bits of a product a matter of these three classes
 * alone. */
__attribute__((constructor(101))) static void choose_blas_kernels(void)
{
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
        __builtin_cpu_supports("avx512cd"))
        (void)setenv("OPENBLAS_CORETYPE", "SkylakeX", 0);
    else if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        (void)setenv("OPENBLAS_CORETYPE", "Haswell", 0);
}
#endif

static void sgemm(const struct gemm *g, int64_t m, int64_t k, const float *a,
                  const float *b, float beta, float *c, int64_t ldc)
{
    cblas_sgemm(CblasRowMajor, g->transpose_a ? CblasTrans : CblasNoTrans,
                g->transpose_b ? CblasTrans : CblasNoTrans, (blasint)m, (blasint)g->n,
                (blasint)k, 1.0f, a, (blasint)g->lda, b, (blasint)g->ldb, beta, c,
                (blasint)ldc);
}

static void clear(float *c, int64_t rows, int64_t n, int64_t ldc)
{
    for (int64_t r = 0; r < rows; r++)
        memset(c + r * ldc, 0, (size_t)n * sizeof(float));
}

void gemm_rows(const struct gemm *g, int64_t first, int64_t rows, float *c, int64_t ldc)
{
    if (rows == 0 || g->n == 0)
        return;
    if (g->k == 0) {
        clear(c, rows, g->n, ldc);
        return;
    }
    if (!g->transpose_a) {
        sgemm(g, rows, g->k, g->a + first * g->lda, g->b, 0.0f, c, ldc);
        return;
    }
    /* The batch is what is summed over: X^T dY, chunk by chunk. */
    for (int64_t k = 0; k < g->k; k += GEMM_CHUNK) {
        int64_t part = g->k - k < GEMM_CHUNK ? g->k - k : GEMM_CHUNK;
        const float *b = g->b + (g->transpose_b ? k : k * g->ldb);
        sgemm(g, rows, part, g->a + k * g->lda + first, b, k == 0 ? 0.0f : 1.0f, c, ldc);
    }
}

/* ---- other dtypes: plain loops, k innermost and in order ---- */

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

/* Matrix `at` of each operand and of the result. */
struct batch {
    int64_t x, y, z;
};

static int product(const struct kernel_args *a, const struct product *p, struct batch at)
{
    size_t elem = dtype_size(a->out[0]->dtype);
    const char *x = (const char *)a->in[0]->data + (size_t)(at.x * p->m * p->k) * elem;
    const char *y = (const char *)a->in[1]->data + (size_t)(at.y * p->k * p->n) * elem;
    char *z = (char *)a->out[0]->data + (size_t)(at.z * p->m * p->n) * elem;
    struct gemm g = {.transpose_a = p->ta,
                     .transpose_b = p->tb,
                     .m = p->m,
                     .n = p->n,
                     .k = p->k,
                     .lda = p->ta ? p->m : p->k,
                     .ldb = p->tb ? p->k : p->n};
    switch (a->out[0]->dtype) {
    case DT_FLOAT:
        g.a = (const void *)x;
        g.b = (const void *)y;
        gemm_rows(&g, 0, p->m, (void *)z, p->n);
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

/* Which matrix of an operand stands under matrix `z` of the result (broadcasting). */
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
    int r = 0;
    if (tensor_elements(a->out[0]) == 0)
        return 0; /* one size is none, and the others may be anything */
    for (int d = 0; d < shape->rank - 2; d++)
        n *= shape->dim[d];
    for (int64_t z = 0; r == 0 && z < n; z++)
        r = product(a, &p,
                    (struct batch){matrix_under(&a->in[0]->shape, shape, z),
                                   matrix_under(&a->in[1]->shape, shape, z), z});
    return r;
}

/* ---- QR, for the orthogonal initialiser ---- */

#define QR(T, SQRT)                                                                      \
    static void qr_##T(const T *x, T *q, T *r, int64_t m, int64_t n)                     \
    {                                                                                    \
        /* Modified Gram-Schmidt, applied twice: orthogonal to the last bit or two. */   \
        memset(r, 0, (size_t)(n * n) * sizeof(T));                                       \
        memcpy(q, x, (size_t)(m * n) * sizeof(T));                                       \
        for (int64_t j = 0; j < n; j++) {                                                \
            for (int64_t pass = 0; pass < 2; pass++) {                                   \
                for (int64_t i = 0; i < j; i++) {                                        \
                    T dot = 0;                                                           \
                    for (int64_t l = 0; l < m; l++)                                      \
                        dot += q[l * n + i] * q[l * n + j];                              \
                    for (int64_t l = 0; l < m; l++)                                      \
                        q[l * n + j] -= dot * q[l * n + i];                              \
                    r[i * n + j] += dot;                                                 \
                }                                                                        \
            }                                                                            \
            T norm = 0;                                                                  \
            for (int64_t l = 0; l < m; l++)                                              \
                norm += q[l * n + j] * q[l * n + j];                                     \
            norm = SQRT(norm);                                                           \
            r[j * n + j] = norm;                                                         \
            for (int64_t l = 0; l < m; l++)                                              \
                q[l * n + j] /= norm;                                                    \
        }                                                                                \
    }
QR(float, sqrtf)
QR(double, sqrt)

int kern_qr(const struct kernel_args *a)
{
    const struct shape *s = &a->in[0]->shape;
    if (s->rank != 2 || s->dim[0] < s->dim[1] || int_attr(a->op, "full_matrices", 0))
        return err_set(a->err, ERR_UNSUPPORTED,
                       "%s: Qr of a matrix with at least as many rows as columns only",
                       operation_name(a->op));
    if (a->in[0]->dtype == DT_FLOAT)
        qr_float(a->in[0]->data, a->out[0]->data, a->out[1]->data, s->dim[0], s->dim[1]);
    else
        qr_double(a->in[0]->data, a->out[0]->data, a->out[1]->data, s->dim[0], s->dim[1]);
    return 0;
}
