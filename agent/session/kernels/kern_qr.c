/* The QR decomposition, for the orthogonal initialiser. */
#include "agent/session/kernels/kernel.h"

#include <math.h>
#include <string.h>

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
