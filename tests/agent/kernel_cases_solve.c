/* Systems of linear equations: the results are multiplied out. */
#include "tests/agent/kernel_cases.h"

#include <math.h>

/* Matrices with a large diagonal are well-conditioned, and positive definite if symmetric. A
 * reference gets its result from the definition, by Cramer's rule for sizes up to three. */
static double determinant(const double *a, int64_t n, int64_t stride)
{
    if (n == 0)
        return 1;
    if (n == 1)
        return a[0];
    if (n == 2)
        return a[0] * a[stride + 1] - a[1] * a[stride];
    return a[0] *
               (a[stride + 1] * a[2 * stride + 2] - a[stride + 2] * a[2 * stride + 1]) -
           a[1] * (a[stride] * a[2 * stride + 2] - a[stride + 2] * a[2 * stride]) +
           a[2] * (a[stride] * a[2 * stride + 1] - a[stride + 1] * a[2 * stride]);
}

static int64_t size_of(const struct array *x)
{
    return x->tensor.shape.dim[x->tensor.shape.rank - 1];
}

/* Element (i, j) of the matrix, or of the part of it that the operation reads. */
static double element(const struct reference *r, int64_t matrix, int64_t i, int64_t j)
{
    const int64_t n = size_of(&r->in[0]);
    const struct attr *adjoint = operation_attr(r->op, "adjoint");
    const struct attr *lower = operation_attr(r->op, "lower");
    int64_t t;

    if (adjoint != NULL && adjoint->i) {
        t = i;
        i = j;
        j = t;
    }
    if (lower != NULL && (lower->i ? i < j : i > j))
        return 0;
    return r->in[0].v[(matrix * n + i) * n + j];
}

/* Column c of the right-hand sides, or of the identity; Cramer's rule. */
static void solved(const struct reference *r)
{
    const int64_t n = size_of(&r->in[0]), k = size_of(r->out);
    const int64_t of_x = n > 0 ? r->in[0].n / (n * n) : 0;

    for (int64_t at = 0; at < r->out->n; at++) {
        const int64_t z = at / (n * k), row = at / k % n, c = at % k;
        const int64_t under = z % of_x; /* only the first dimension may broadcast */
        double a[9], b[9];

        for (int64_t i = 0; i < n; i++)
            for (int64_t j = 0; j < n; j++)
                a[i * n + j] = b[i * n + j] = element(r, under, i, j);
        for (int64_t i = 0; i < n; i++)
            b[i * n + row] = r->n_in > 1 ? r->in[1].v[(z * n + i) * k + c] : i == c;
        r->out->v[at] = determinant(b, n, n) / determinant(a, n, n);
    }
}

static void determinants(const struct reference *r)
{
    const int64_t n = size_of(&r->in[0]);

    for (int64_t i = 0; i < r->out->n; i++) {
        const double d = determinant(r->in[0].v + i * n * n, n, n);

        r->out[0].v[i] = r->n_out == 1 ? d : d > 0 ? 1 : d < 0 ? -1 : 0;
        if (r->n_out > 1)
            r->out[1].v[i] = log(fabs(d));
    }
}

/* l l' has the elements of the lower triangle: row by row. */
static void factored(const struct reference *r)
{
    const int64_t n = size_of(&r->in[0]);

    for (int64_t at = 0; at < r->out->n; at++) {
        const int64_t z = at / (n * n), i = at / n % n, j = at % n;
        const double *l = r->out->v + z * n * n;
        double sum = j > i ? 0 : r->in[0].v[at];

        for (int64_t k = 0; k < j && j <= i; k++)
            sum -= l[i * n + k] * l[j * n + k];
        r->out->v[at] = j > i ? 0 : i == j ? sqrt(sum) : sum / l[j * n + j];
    }
}

#define TELL(op, in, attrs, out)                                                         \
    {                                                                                    \
        op, "fd", in, attrs, out, NULL, NULL, -5, 5, 8, 0                                \
    }
#define SOLVE(op, in, attrs, out)                                                        \
    {                                                                                    \
        op, "fd", in, attrs, out, solved, NULL, 1, 2, 60, 0                              \
    }
#define WHOLE(op, in, out, f)                                                            \
    {                                                                                    \
        op, "fd", in, NULL, out, f, NULL, 1, 2, 20, 0                                    \
    }
#define THREE "(3,3)=4,1,-1,2,5,1,-2,1,6"
#define TWICE "(2,2,2)=4,1,-1,3,2,1,1,-5"

const struct kernel_case solve_cases[] = {
    SOLVE("MatrixTriangularSolve", "x" THREE " x(3,2)", NULL, "(3,2)"),
    SOLVE("MatrixTriangularSolve", "x" THREE " x(3,2)", "adjoint=true", "(3,2)"),
    SOLVE("MatrixTriangularSolve", "x" THREE " x(3,2)", "lower=false", "(3,2)"),
    SOLVE("MatrixTriangularSolve", "x" THREE " x(3,1)", "lower=false adjoint=true",
          "(3,1)"),
    SOLVE("MatrixTriangularSolve", "x" TWICE " x(2,2,2)", NULL, "(2,2,2)"),
    SOLVE("MatrixTriangularSolve", "x(0,0) x(0,2)", NULL, "(0,2)"),
    {"MatrixTriangularSolve", "fd", "x(1,2,2)=4,1,-1,3 x(2,2,2)", NULL, "(2,2,2)", solved,
     NULL, 1, 2, 60, CASE_NO_DIFFERENCE}, /* no gradient if it broadcasts */
    SOLVE("BatchMatrixTriangularSolve", "x" TWICE " x(2,2,2)", NULL, "(2,2,2)"),
    SOLVE("MatrixSolve", "x" THREE " x(3,2)", NULL, "(3,2)"),
    SOLVE("MatrixSolve", "x(3,3)=0,2,1,1,0,3,2,1,0 x(3,2)", "adjoint=true", "(3,2)"),
    SOLVE("BatchMatrixSolve", "x" TWICE " x(2,2,3)", NULL, "(2,2,3)"),
    SOLVE("MatrixInverse", "x" THREE, NULL, "(3,3)"),
    SOLVE("MatrixInverse", "x" TWICE, "adjoint=true", "(2,2,2)"),
    SOLVE("MatrixInverse", "x(2,0,0)", NULL, "(2,0,0)"),
    SOLVE("BatchMatrixInverse", "x(1,2,2)=0,2,3,1", NULL, "(1,2,2)"),
    WHOLE("MatrixDeterminant", "x" THREE, ".", determinants),
    WHOLE("MatrixDeterminant", "x" TWICE, "(2)", determinants),
    WHOLE("MatrixDeterminant", "x(0,0)", ".", determinants),
    WHOLE("BatchMatrixDeterminant", "x" TWICE, "(2)", determinants),
    WHOLE("LogMatrixDeterminant", "x" TWICE, "(2) (2)", determinants),
    WHOLE("LogMatrixDeterminant", "x" THREE, ". .", determinants),
    TELL("MatrixDeterminant", "d(2,2)=1,2,2,4", NULL, ".=0"),
    TELL("LogMatrixDeterminant", "d(2,2)=1,2,2,4", NULL, ".=0 .=-inf"),
    /* only the lower triangle is read, while the gradient is that of a symmetric matrix: the
     * golden files of tests/tensorflow have it */
    {"Cholesky", "fd", "x(2,2,2)=4,9,1,3,2,9,-1,5", NULL, "(2,2,2)", factored, NULL, 1, 2,
     20, CASE_NO_DIFFERENCE},
    {"BatchCholesky", "fd", "x(3,3)=4,9,9,1,3,9,-1,1,5", NULL, "(3,3)", factored, NULL, 1,
     2, 20, CASE_NO_DIFFERENCE},
    TELL("Cholesky", "f(2,2)=1,9,2,1", NULL, "(2,2)=nan,0,nan,nan"),
    TELL("CholeskyGrad", "d(1,1)=2 d(1,1)=3", NULL, "(1,1)=0.75"),
    TELL("CholeskyGrad", "d(2,2)=2,0,1,3 d(2,2)=1,0,0,0", NULL, "(2,2)=0.25,0,0,0"),
    TELL("BatchCholeskyGrad", "f(1,2,2)=2,0,1,3 f(1,2,2)=0,0,0,6", NULL,
         "(1,2,2)=0.25,-0.5,-0.5,1"),
    TELL("SelfAdjointEigV2", "d(2,2)=2,9,0,-1", NULL, "(2)=-1,2 (2,2)=0,1,1,0"),
    TELL("SelfAdjointEigV2", "f(1,2,2)=2,9,1,2", "compute_v=false", "(1,2)=1,3 (0)"),
    TELL("BatchSelfAdjointEigV2", "d(2,1,1)=2,-3", NULL, "(2,1)=2,-3 (2,1,1)=1,1"),
    {NULL},
};
