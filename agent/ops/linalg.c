/* linalg.c - the QR decomposition, for the orthogonal initialiser; cross products. */
#include "agent/ops/kernel_parts.h"
#include "agent/ops/op_rules.h"
#include "common/mem/xmalloc.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- kernels ---- */

/* Makes the columns of x (m, n), which becomes q, orthonormal: modified Gram-Schmidt,
 * applied twice, so that they are orthogonal to the last bit or two. Uses + - * / and
 * square roots in a fixed order only: the same bits on every machine. */
static void orthogonalize(double *q, double *r, int64_t m, int64_t n)
{
    memset(r, 0, (size_t)(n * n) * sizeof(*r));
    for (int64_t j = 0; j < n; j++) {
        for (int64_t pass = 0; pass < 2; pass++) {
            for (int64_t i = 0; i < j; i++) {
                double dot = 0;

                for (int64_t l = 0; l < m; l++)
                    dot += q[l * n + i] * q[l * n + j];
                for (int64_t l = 0; l < m; l++)
                    q[l * n + j] -= dot * q[l * n + i];
                r[i * n + j] += dot;
            }
        }
        double norm = 0;
        for (int64_t l = 0; l < m; l++)
            norm += q[l * n + j] * q[l * n + j];
        norm = sqrt(norm);
        r[j * n + j] = norm;
        for (int64_t l = 0; l < m; l++)
            q[l * n + j] /= norm;
    }
}

/* Computes float32 in double precision and rounds once. */
static void qr_float(const float *x, float *q, float *r, int64_t m, int64_t n)
{
    double *wide = xcalloc((size_t)(m * n + n * n), sizeof(*wide));

    for (int64_t i = 0; i < m * n; i++)
        wide[i] = (double)x[i];
    orthogonalize(wide, wide + m * n, m, n);
    for (int64_t i = 0; i < m * n; i++)
        q[i] = (float)wide[i];
    for (int64_t i = 0; i < n * n; i++)
        r[i] = (float)wide[m * n + i];
    free(wide);
}

static int kern_qr(const struct kernel_args *a)
{
    const struct shape *s = &a->in[0]->shape;

    if (s->rank != 2 || s->dim[0] < s->dim[1] || attr_int(a->op, "full_matrices"))
        return err_set(a->err, ERR_UNSUPPORTED,
                       "%s: Qr of a matrix with at least as many rows as columns only",
                       operation_name(a->op));
    const size_t n = (size_t)(s->dim[0] * s->dim[1]);
    if (a->in[0]->dtype == DT_FLOAT) {
        qr_float(a->in[0]->data, a->out[0]->data, a->out[1]->data, s->dim[0], s->dim[1]);
    } else {
        memcpy(a->out[0]->data, a->in[0]->data, n * sizeof(double));
        orthogonalize(a->out[0]->data, a->out[1]->data, s->dim[0], s->dim[1]);
    }
    return 0;
}

/* in: vectors of three elements along the last dimension */
#define CROSS(symbol, T, U)                                                              \
    case symbol:                                                                         \
        for (int64_t i = 0; i < n; i++) {                                                \
            const T *u = (const T *)a->in[0]->data + i - i % 3;                          \
            const T *v = (const T *)a->in[1]->data + i - i % 3;                          \
            const int64_t j = (i + 1) % 3, k = (i + 2) % 3;                              \
                                                                                         \
            ((T *)a->out[0]->data)[i] = (T)((U)u[j] * (U)v[k] - (U)u[k] * (U)v[j]);      \
        }                                                                                \
        return 0;

static int kern_cross(const struct kernel_args *a)
{
    const int64_t n = tensor_elements(a->out[0]);

    switch (a->in[0]->dtype) {
        CROSS(DT_FLOAT, float, float)
        CROSS(DT_DOUBLE, double, double)
        CROSS(DT_INT32, int32_t, uint32_t)
        CROSS(DT_INT64, int64_t, uint64_t)
    default:
        return err_set(a->err, ERR_UNSUPPORTED, "%s: no Cross of %s",
                       operation_name(a->op), dtype_name(a->in[0]->dtype));
    }
}
#undef CROSS

/* ---- shapes ---- */

/* x (M, N) = q r: q (M, K), r (K, N), K = min(M, N); full_matrices: q (M, M), r (M, N).
 */
static int qr_shape(const struct shape_args *args)
{
    const struct shape *x = &args->in[0];
    int64_t m = dim_of(x, 0), n = dim_of(x, 1), k = m < n ? m : n;

    if (attr_int(args->op, "full_matrices"))
        k = m;
    args->out[0] = SHAPE(m, k);
    args->out[1] = SHAPE(k, n);
    return 0;
}

static int cross_shape(const struct shape_args *args)
{
    if (shape_merged(args) != 0)
        return ERR_SHAPE;
    if (args->out[0].rank == 0 ||
        (args->out[0].rank > 0 && dim_of(&args->out[0], args->out[0].rank - 1) >= 0 &&
         args->out[0].dim[args->out[0].rank - 1] != 3))
        return err_set(args->err, ERR_SHAPE, "%s has no vectors of 3 elements",
                       shape_text(&args->out[0]));
    return 0;
}

GRAD(cross_grad)
{
    grad_in[0] = binary(g, "Cross", input_of(op, 1), grad_out[0], NULL);
    grad_in[1] = binary(g, "Cross", grad_out[0], input_of(op, 0), NULL);
    return grad_done(grad_in, 2);
}

/* ---- the rows ---- */

static const struct op_def rows[] = {
    {"Qr", OP_NO_GRADIENT, qr_shape, NULL, CALL(kern_qr),
     "input:T -> q:T, r:T; full_matrices:bool=false, T:float_type", .ranks = "2"},
    {"Cross", 0, cross_shape, cross_grad, CALL(kern_cross),
     "a:T, b:T -> product:T; T:number_type"},
};

const struct op_family ops_of_linalg = OP_FAMILY(rows);
