/* solve.c - systems of linear equations: triangular and Cholesky factors, solutions, inverses,
 * determinants, eigenvalues of symmetric matrices; of the last two dimensions of tensors.
 *
 * All work is done in double precision and rounded once: in a fixed order of + - * / and square
 * roots, with the same bits on every machine. Under native numerics OpenBLAS factors and solves
 * large matrices (kernels/lapack.h).
 *
 * Gradients after TensorFlow 1.13's python/ops/linalg_grad.py. */
#include "agent/kernels/lapack.h"
#include "agent/ops/kernel_parts.h"
#include "agent/ops/op_rules.h"

#include <float.h>
#include <math.h>
#include <string.h>

/* ---- matrices in scratch memory ---- */

static int64_t rows_of(const struct shape *s)
{
    return s->dim[s->rank - 2];
}

static int64_t cols_of(const struct shape *s)
{
    return s->dim[s->rank - 1];
}

static int64_t count_of(const struct shape *s)
{
    return span(s, 0, s->rank - 2);
}

/* Reads matrix z of the tensor; turned: transposed. */
static void load(const struct tensor *t, int64_t z, int turned, double *to)
{
    const int64_t m = rows_of(&t->shape), n = cols_of(&t->shape);

    for (int64_t i = 0; i < m * n; i++) {
        const int64_t at = turned ? i % n * m + i / n : i;

        to[at] = t->dtype == DT_FLOAT ? (double)tensor_f32(t)[z * m * n + i]
                                      : ((const double *)t->data)[z * m * n + i];
    }
}

static void solve_put(const struct tensor *t, int64_t i, double v)
{
    if (t->dtype == DT_FLOAT)
        tensor_f32(t)[i] = (float)v;
    else
        ((double *)t->data)[i] = v;
}

static void store(const struct tensor *t, int64_t z, const double *from)
{
    const int64_t n = rows_of(&t->shape) * cols_of(&t->shape);

    for (int64_t i = 0; i < n; i++)
        solve_put(t, z * n + i, from[i]);
}

/* Floats of scratch memory for matrices of input 0 and their columns of input 1, `copies` times
 * the former, after pivots. */
static int64_t room(const struct shape_args *args, int64_t copies)
{
    const struct shape *a = &args->in[0];
    int64_t n = copies * rows_of(a) * cols_of(a) + rows_of(a);

    if (args->n_in > 1)
        n += rows_of(&args->in[1]) * cols_of(&args->in[1]);
    return n * (int64_t)(sizeof(double) / sizeof(float));
}

static int64_t room_for_one(const struct shape_args *args)
{
    return room(args, 1);
}

static int64_t room_for_two(const struct shape_args *args)
{
    return room(args, 2);
}

/* The scratch memory, which is the last output: for matrices of n rows. */
struct work {
    int64_t n;
    int by_lapack;   /* OpenBLAS works on them */
    int32_t *pivots; /* [n] */
    double *a;       /* (n, n); NULL: no scratch memory was needed */
    double *b;       /* what room() has after the first matrix */
};

static struct work work_of(const struct kernel_args *a)
{
    const int64_t n = rows_of(&a->in[0]->shape);
    double *room =
        a->n_out > operation_n_outputs(a->op) ? a->out[a->n_out - 1]->data : NULL;
    struct work w = {.n = n};

    if (room == NULL)
        return w;
    w.by_lapack = a->numerics == NUMERICS_NATIVE && lapack_wants(n);
    w.pivots = (int32_t *)room;
    w.a = room + n;
    w.b = w.a + n * n;
    return w;
}

static int is_singular(const struct kernel_args *a)
{
    return err_set(a->err, ERR_ARG, "%s: Input matrix is not invertible.",
                   operation_name(a->op));
}

/* ---- elimination ---- */

static void swap_rows(double *a, int64_t n, int64_t i, int64_t k)
{
    for (int64_t j = 0; j < n && i != k; j++) {
        const double v = a[i * n + j];

        a[i * n + j] = a[k * n + j];
        a[k * n + j] = v;
    }
}

/* Makes a (n, n) upper triangular by exchanging rows and subtracting multiples of one from
 * others; does the same to b (n, k). Returns the sign of the exchanges. */
static int eliminate(double *a, int64_t n, double *b, int64_t k)
{
    int sign = 1;

    for (int64_t c = 0; c < n; c++) {
        int64_t pivot = c;

        for (int64_t i = c + 1; i < n; i++)
            if (fabs(a[i * n + c]) > fabs(a[pivot * n + c]))
                pivot = i;
        swap_rows(a, n, c, pivot);
        swap_rows(b, k, c, pivot);
        sign = pivot != c ? -sign : sign;
        for (int64_t i = c + 1; i < n && a[c * n + c] != 0; i++) {
            const double factor = a[i * n + c] / a[c * n + c];

            for (int64_t j = c; j < n; j++)
                a[i * n + j] -= factor * a[c * n + j];
            for (int64_t j = 0; j < k; j++)
                b[i * k + j] -= factor * b[c * k + j];
        }
    }
    return sign;
}

/* Whether the diagonal has no 0 and no NaN. */
static int has_diagonal(const double *a, int64_t n)
{
    int64_t i = 0;

    while (i < n && fabs(a[i * n + i]) > 0)
        i++;
    return i == n;
}

/* Replaces b (n, k) by the solution of a x = b; a is triangular, the other triangle is not
 * read. 0, or -1 if an element of the diagonal is 0 or NaN. */
static int solve_triangle(const struct work *w, const double *a, int lower, double *b,
                          int64_t k)
{
    const int64_t n = w->n;

    if (!has_diagonal(a, n))
        return -1;
    if (w->by_lapack) {
        lapack_triangle(a, n, lower, b, k);
        return 0;
    }
    for (int64_t step = 0; step < n; step++) {
        const int64_t i = lower ? step : n - 1 - step;

        for (int64_t t = 0; t < step; t++) {
            const int64_t l = lower ? t : n - 1 - t;

            for (int64_t j = 0; j < k; j++)
                b[i * k + j] -= a[i * n + l] * b[l * k + j];
        }
        for (int64_t j = 0; j < k; j++)
            b[i * k + j] /= a[i * n + i];
    }
    return 0;
}

/* Replaces w->a by a triangular matrix with the same determinant but for the sign, which is
 * returned. */
static int make_triangular(const struct work *w)
{
    return w->by_lapack ? lapack_factor(w->a, w->n, w->pivots)
                        : eliminate(w->a, w->n, NULL, 0);
}

/* Replaces b (n, k) by the solution of w->a x = b. 0, or -1: the matrix, which is replaced, too,
 * has no inverse. */
static int solve_equations(const struct work *w, double *b, int64_t k)
{
    if (!w->by_lapack) {
        (void)eliminate(w->a, w->n, b, k);
        return solve_triangle(w, w->a, 0, b, k);
    }
    (void)make_triangular(w);
    if (!has_diagonal(w->a, w->n))
        return -1;
    lapack_solve(w->a, w->n, w->pivots, b, k);
    return 0;
}

/* in: matrix, rhs */
static int solve(const struct kernel_args *a, int is_triangular)
{
    const struct tensor *x = a->in[0], *rhs = a->in[1], *y = a->out[0];
    const int turned = (int)attr_int(a->op, "adjoint");
    const int lower = is_triangular && attr_int(a->op, "lower") != turned;
    const int64_t k = cols_of(&rhs->shape);
    const struct work w = work_of(a);

    for (int64_t z = 0; w.a != NULL && z < count_of(&y->shape); z++) {
        load(x, matrix_under(&x->shape, &y->shape, z), turned, w.a);
        load(rhs, matrix_under(&rhs->shape, &y->shape, z), 0, w.b);
        if ((is_triangular ? solve_triangle(&w, w.a, lower, w.b, k)
                           : solve_equations(&w, w.b, k)) != 0)
            return is_singular(a);
        store(y, z, w.b);
    }
    return 0;
}

static int kern_triangular_solve(const struct kernel_args *a)
{
    return solve(a, 1);
}

static int kern_solve(const struct kernel_args *a)
{
    return solve(a, 0);
}

static int kern_inverse(const struct kernel_args *a)
{
    const struct tensor *x = a->in[0];
    const struct work w = work_of(a);
    const int64_t n = w.n;

    for (int64_t z = 0; w.a != NULL && z < count_of(&x->shape); z++) {
        load(x, z, (int)attr_int(a->op, "adjoint"), w.a);
        memset(w.b, 0, (size_t)(n * n) * sizeof(*w.b));
        for (int64_t i = 0; i < n; i++)
            w.b[i * n + i] = 1;
        if (solve_equations(&w, w.b, n) != 0)
            return is_singular(a);
        store(a->out[0], z, w.b);
    }
    return 0;
}

static int kern_determinant(const struct kernel_args *a)
{
    const struct tensor *x = a->in[0];
    const struct work w = work_of(a);

    for (int64_t z = 0; z < count_of(&x->shape); z++) {
        double y = 1;

        if (w.n > 0) {
            load(x, z, 0, w.a);
            y = make_triangular(&w);
        }
        for (int64_t i = 0; i < w.n; i++)
            y *= w.a[i * w.n + i];
        solve_put(a->out[0], z, y);
    }
    return 0;
}

/* out: the sign of the determinant, and the logarithm of its size */
static int kern_log_determinant(const struct kernel_args *a)
{
    const struct tensor *x = a->in[0];
    const struct work w = work_of(a);

    for (int64_t z = 0; z < count_of(&x->shape); z++) {
        double sign = 1, sum = 0;

        if (w.n > 0) {
            load(x, z, 0, w.a);
            sign = make_triangular(&w);
        }
        for (int64_t i = 0; i < w.n; i++) {
            const double v = w.a[i * w.n + i];

            sign *= v > 0 ? 1 : v < 0 ? -1 : v; /* 0, NaN */
            sum += log(fabs(v));
        }
        solve_put(a->out[0], z, sign);
        solve_put(a->out[1], z, sum);
    }
    return 0;
}

/* ---- Cholesky ---- */

/* Replaces the lower triangle of w->a by l, l l' = a. -1: it is not positive definite. */
static int cholesky(const struct work *w)
{
    const int64_t n = w->n;
    double *a = w->a;

    if (w->by_lapack)
        return lapack_cholesky(a, n);
    for (int64_t j = 0; j < n; j++) {
        double d = a[j * n + j];

        for (int64_t k = 0; k < j; k++)
            d -= a[j * n + k] * a[j * n + k];
        if (!(d > 0))
            return -1;
        a[j * n + j] = sqrt(d);
        for (int64_t i = j + 1; i < n; i++) {
            for (int64_t k = 0; k < j; k++)
                a[i * n + j] -= a[i * n + k] * a[j * n + k];
            a[i * n + j] /= a[j * n + j];
        }
    }
    return 0;
}

/* A matrix that is not positive definite gives NaNs, as in TensorFlow 2. */
static int kern_cholesky(const struct kernel_args *a)
{
    const struct tensor *x = a->in[0];
    const struct work w = work_of(a);
    const int64_t n = w.n;

    for (int64_t z = 0; w.a != NULL && z < count_of(&x->shape); z++) {
        load(x, z, 0, w.a);
        const int rc = cholesky(&w);
        for (int64_t i = 0; i < n * n; i++)
            if (i % n > i / n)
                w.a[i] = 0;
            else if (rc != 0)
                w.a[i] = (double)NAN;
        store(a->out[0], z, w.a);
    }
    return 0;
}

/* in: l, grad; out: half of s + s', s = inv(l') middle inv(l), where middle is the lower triangle
 * of l' grad with half of its diagonal */
static int kern_cholesky_grad(const struct kernel_args *a)
{
    const struct tensor *x = a->in[0];
    const struct work w = work_of(a);
    const int64_t n = w.n;
    double *l = w.a, *t = w.b, *d = w.a != NULL ? w.b + n * n : NULL;

    for (int64_t z = 0; l != NULL && z < count_of(&x->shape); z++) {
        load(x, z, 0, l);
        load(a->in[1], z, 0, d);
        for (int64_t i = 0; i < n; i++)
            for (int64_t j = 0; j < n; j++) {
                double sum = 0;

                for (int64_t k = i; k < n && j <= i; k++) /* l and grad are lower */
                    sum += k >= j ? l[k * n + i] * d[k * n + j] : 0;
                t[j * n + i] = i == j ? sum / 2 : sum; /* transposed */
            }
        load(x, z, 1, d); /* l' */
        /* s' = inv(l') (inv(l') middle)' */
        for (int pass = 0; pass < 2; pass++) {
            for (int64_t i = 0; i < n; i++)
                for (int64_t j = i + 1; j < n; j++) {
                    const double v = t[i * n + j];

                    t[i * n + j] = t[j * n + i];
                    t[j * n + i] = v;
                }
            if (solve_triangle(&w, d, 0, t, n) != 0)
                return is_singular(a);
        }
        for (int64_t i = 0; i < n * n; i++)
            l[i] = (t[i] + t[i % n * n + i / n]) / 2;
        store(a->out[0], z, l);
    }
    return 0;
}

/* ---- eigenvalues of symmetric matrices ---- */

/* Rotates rows and columns p and q of a so that a[p][q] becomes 0; columns of v (NULL: none). */
static void rotate(double *a, double *v, int64_t n, int64_t p, int64_t q)
{
    const double theta = (a[q * n + q] - a[p * n + p]) / (2 * a[p * n + q]);
    const double t = (theta < 0 ? -1 : 1) / (fabs(theta) + sqrt(theta * theta + 1));
    const double c = 1 / sqrt(t * t + 1), s = t * c;

    for (int64_t k = 0; k < n; k++) {
        const double x = a[k * n + p], y = a[k * n + q];

        a[k * n + p] = c * x - s * y;
        a[k * n + q] = s * x + c * y;
    }
    for (int64_t k = 0; k < n; k++) {
        const double x = a[p * n + k], y = a[q * n + k];

        a[p * n + k] = c * x - s * y;
        a[q * n + k] = s * x + c * y;
    }
    a[p * n + q] = a[q * n + p] = 0;
    for (int64_t k = 0; k < n; k++) {
        const double x = v[k * n + p], y = v[k * n + q];

        v[k * n + p] = c * x - s * y;
        v[k * n + q] = s * x + c * y;
    }
}

/* Jacobi's method: a becomes diagonal, v (n, n) the eigenvectors as columns. -1: not finite. */
static int diagonalize(double *a, double *v, int64_t n)
{
    enum { SWEEPS = 100 };
    double size = 0;

    for (int64_t i = 0; i < n * n; i++) {
        v[i] = i / n == i % n;
        a[i] =
            i / n >= i % n ? a[i] : a[i % n * n + i / n]; /* the lower triangle counts */
        size += fabs(a[i]);
    }
    if (!isfinite(size))
        return -1;
    for (int sweep = 0; sweep < SWEEPS; sweep++) {
        int any = 0;

        for (int64_t p = 0; p < n; p++)
            for (int64_t q = p + 1; q < n; q++)
                if (fabs(a[p * n + q]) > DBL_EPSILON * 1e-4 * size) {
                    rotate(a, v, n, p, q);
                    any = 1;
                }
        if (!any)
            break;
    }
    return 0;
}

/* Sorts the eigenvalues, which are the diagonal of a, with their vectors. */
static void sort_values(double *a, double *v, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        int64_t least = i;

        for (int64_t j = i + 1; j < n; j++)
            if (a[j * n + j] < a[least * n + least])
                least = j;
        for (int64_t k = 0; k < n && least != i; k++) {
            const double x = v[k * n + i];

            v[k * n + i] = v[k * n + least];
            v[k * n + least] = x;
        }
        const double e = a[i * n + i];

        a[i * n + i] = a[least * n + least];
        a[least * n + least] = e;
    }
}

/* out: eigenvalues, ascending; eigenvectors as columns, of length 1 */
static int kern_eigen(const struct kernel_args *a)
{
    const struct tensor *x = a->in[0];
    const struct work w = work_of(a);
    const int64_t n = w.n;

    for (int64_t z = 0; w.a != NULL && z < count_of(&x->shape); z++) {
        load(x, z, 0, w.a);
        if (diagonalize(w.a, w.b, n) != 0)
            return err_set(a->err, ERR_ARG,
                           "%s: Self-adjoint eigen decomposition was not successful. The "
                           "input might not be valid.",
                           operation_name(a->op));
        sort_values(w.a, w.b, n);
        for (int64_t i = 0; i < n; i++)
            solve_put(a->out[0], z * n + i, w.a[i * n + i]);
        if (attr_int(a->op, "compute_v") != 0)
            store(a->out[1], z, w.b);
    }
    return 0;
}

/* ---- shapes ---- */

static int want_square(const struct shape_args *args)
{
    const struct shape *x = &args->in[0];

    if (x->rank < 0 ||
        (x->rank >= 2 && (rows_of(x) < 0 || cols_of(x) < 0 || rows_of(x) == cols_of(x))))
        return 0;
    return err_set(args->err, ERR_SHAPE, "%s has no square matrices", shape_text(x));
}

static int square_shape(const struct shape_args *args)
{
    args->out[0] = args->in[0];
    return want_square(args);
}

static int two_squares_shape(const struct shape_args *args)
{
    return want_square(args) != 0 ? ERR_SHAPE : shape_merged(args);
}

/* One number for each matrix, in every output. */
static int determinant_shape(const struct shape_args *args)
{
    if (want_square(args) != 0)
        return ERR_SHAPE;
    for (int i = 0; args->in[0].rank >= 2 && i < operation_n_outputs(args->op); i++) {
        args->out[i] = args->in[0];
        args->out[i].rank -= 2;
    }
    return 0;
}

/* matrix (..., M, M), rhs (..., M, K) -> (..., M, K); triangular ones broadcast. */
static int solve_shape(const struct shape_args *args)
{
    const struct shape *x = &args->in[0], *rhs = &args->in[1];
    struct shape bx = *x, by = *rhs, out;
    int rc;

    if (want_square(args) != 0)
        return ERR_SHAPE;
    if (x->rank < 0 || rhs->rank < 0)
        return 0;
    bx.rank -= 2;
    by.rank -= 2;
    if (rhs->rank < 2)
        rc = -1;
    else if (operation_is(args->op, "MatrixTriangularSolve"))
        rc = shape_broadcast(&bx, &by, &out);
    else
        rc = shape_merge(&bx, &by, &out);
    if (rc != 0 || (rows_of(x) >= 0 && rows_of(rhs) >= 0 && rows_of(x) != rows_of(rhs)))
        return err_set(args->err, ERR_SHAPE, "matrices %s, right-hand sides %s",
                       shape_text(x), shape_text(rhs));
    out.dim[out.rank++] = rows_of(rhs) >= 0 ? rows_of(rhs) : rows_of(x);
    out.dim[out.rank++] = cols_of(rhs);
    args->out[0] = out;
    return 0;
}

static int eigen_shape(const struct shape_args *args)
{
    if (want_square(args) != 0)
        return ERR_SHAPE;
    if (args->in[0].rank >= 2) {
        args->out[0] = args->in[0];
        args->out[0].rank--;
    }
    args->out[1] = attr_int(args->op, "compute_v") != 0 ? args->in[0] : SHAPE(0);
    return 0;
}

/* ---- gradients ---- */

/* tf.matmul */
static struct output multiplied(struct graph *g, struct output x, struct output y, int tx,
                                int ty)
{
    struct op_builder *b;

    if (!output_valid(x) || output_shape(x).rank == 2)
        return matmul(g, x, y, tx, ty, NULL);
    b = op_begin(g, "BatchMatMul", NULL);
    op_input(b, x);
    op_input(b, y);
    op_attr_bool(b, "adj_x", tx);
    op_attr_bool(b, "adj_y", ty);
    return (struct output){op_finish(b), 0};
}

/* The operation with input x and this attribute. */
static struct output with_adjoint(struct graph *g, const char *type, struct output x,
                                  struct output y, int adjoint, int lower)
{
    struct op_builder *b = op_begin(g, type, NULL);

    op_input(b, x);
    if (output_valid(y))
        op_input(b, y);
    op_attr_bool(b, "adjoint", adjoint);
    if (lower >= 0)
        op_attr_bool(b, "lower", lower);
    return (struct output){op_finish(b), 0};
}

static struct output band(struct graph *g, struct output x, int64_t lower, int64_t upper)
{
    struct output below =
        constant_like(g, DT_INT64, (double)lower, "MatrixBandPart/num_lower");
    struct output above =
        constant_like(g, DT_INT64, (double)upper, "MatrixBandPart/num_upper");

    return ternary(g, "MatrixBandPart", x, below, above, NULL);
}

/* x, which has as many dimensions as `like`, with its last two exchanged. */
static struct output adjoint(struct graph *g, struct output x, struct output like)
{
    const int rank = output_shape(like).rank;
    int32_t perm[SHAPE_MAX_RANK];

    for (int d = 0; d < rank; d++)
        perm[d] = d < rank - 2 ? d : 2 * rank - 3 - d;
    return binary(g, "Transpose", x,
                  constant_i32s(g, perm, (size_t)rank, "matrix_transpose/perm"), NULL);
}

static int want_rank_known(struct graph *g, const struct operation *op, struct output x)
{
    return output_shape(x).rank >= 2
               ? 0
               : graph_fail(g, ERR_UNSUPPORTED, "%s: the gradient needs known ranks",
                            operation_name(op));
}

static struct output halved_diagonal(struct graph *g, struct output x)
{
    struct output half = unary(g, "MatrixDiagPart", x, NULL);

    return binary(g, "MatrixSetDiag", x, scalar_with(g, "Mul", 0.5, half, "mul"), NULL);
}

/* tf.eye for the matrices of x */
static struct output eye_like(struct graph *g, struct output x)
{
    struct output rows = vector_slice(g, shape_of(g, x, NULL), 0, -1, "begin_mask");
    struct output one = constant_like(g, output_dtype(x), 1, "eye/ones/Const");

    return unary(g, "MatrixDiag", binary(g, "Fill", rows, one, "eye/ones"), "eye/diag");
}

GRAD(cholesky_grad)
{
    struct output l = output_of(op, 0), inverse, d;

    if (want_rank_known(g, op, l) != 0)
        return ERR_UNSUPPORTED;
    inverse = with_adjoint(g, "MatrixTriangularSolve", l, eye_like(g, l), 0, 1);
    d = multiplied(g, l, grad_out[0], 1, 0);
    d = band(g, halved_diagonal(g, d), -1, 0);
    d = multiplied(g, multiplied(g, inverse, d, 1, 0), inverse, 0, 0);
    d = binary(g, "Add", d, adjoint(g, d, l), "add");
    grad_in[0] = with_scalar(g, "Mul", d, 0.5, "mul");
    return grad_done(grad_in, 1);
}

/* c: the solution; d_b: the gradient of the right-hand side */
static struct output of_matrix(struct graph *g, struct operation *op, struct output d_b)
{
    struct output c = output_of(op, 0);
    const int turned = (int)attr_int(op, "adjoint");

    return unary(g, "Neg", multiplied(g, turned ? c : d_b, turned ? d_b : c, 0, 1), NULL);
}

/* Whether the batches are known to be broadcast. */
static int broadcasts(const struct operation *op)
{
    struct shape x = output_shape(input_of(op, 0)), y = output_shape(input_of(op, 1));

    x.rank -= x.rank >= 2 ? 2 : 0;
    y.rank -= y.rank >= 2 ? 2 : 0;
    return !shape_compatible(&x, &y);
}

GRAD(triangular_solve_grad)
{
    const int lower = (int)attr_int(op, "lower"), turned = (int)attr_int(op, "adjoint");

    if (broadcasts(op))
        return graph_fail(g, ERR_UNSUPPORTED, "%s: the gradient needs equal batches",
                          operation_name(op));
    grad_in[1] =
        with_adjoint(g, operation_type(op), input_of(op, 0), grad_out[0], !turned, lower);
    grad_in[0] = band(g, of_matrix(g, op, grad_in[1]), lower ? -1 : 0, lower ? 0 : -1);
    return grad_done(grad_in, 2);
}

GRAD(solve_grad)
{
    const int turned = (int)attr_int(op, "adjoint");

    grad_in[1] =
        with_adjoint(g, operation_type(op), input_of(op, 0), grad_out[0], !turned, -1);
    grad_in[0] = of_matrix(g, op, grad_in[1]);
    return grad_done(grad_in, 2);
}

GRAD(inverse_grad)
{
    const int turned = (int)attr_int(op, "adjoint");
    struct output y = output_of(op, 0), d;

    d = multiplied(g, grad_out[0], y, turned, !turned);
    grad_in[0] = unary(g, "Neg", multiplied(g, y, d, !turned, 0), NULL);
    return grad_done(grad_in, 1);
}

/* d, one number for each matrix, times the transposed inverse of the matrix */
static struct output times_inverse(struct graph *g, struct operation *op, struct output d)
{
    struct output inverse =
        with_adjoint(g, "MatrixInverse", input_of(op, 0), OUTPUT_NONE, 1, -1);
    struct output parts[2];

    parts[0] = shape_of(g, d, NULL);
    parts[1] = constant_i32s(g, (const int32_t[]){1, 1}, 2, "concat/values_1");
    d = binary(g, "Reshape", d, concat(g, parts, 2, 0, NULL), NULL);
    return binary(g, "Mul", d, inverse, "mul");
}

GRAD(determinant_grad)
{
    grad_in[0] =
        times_inverse(g, op, binary(g, "Mul", grad_out[0], output_of(op, 0), "mul"));
    return grad_done(grad_in, 1);
}

GRAD(log_determinant_grad)
{
    if (!output_valid(grad_out[1]))
        return 0;
    grad_in[0] = times_inverse(g, op, grad_out[1]);
    return grad_done(grad_in, 1);
}

/* 1 / (e[j] - e[i]), and 0 where i = j */
static struct output gaps(struct graph *g, struct output e)
{
    struct output none = zeros_like(g, e, NULL), across, down, axis;

    axis = constant_i32(g, -2, "ExpandDims/dim");
    across = binary(g, "ExpandDims", e, axis, NULL);
    axis = constant_i32(g, -1, "ExpandDims/dim");
    down = binary(g, "ExpandDims", e, axis, NULL);
    across = unary(g, "Reciprocal", binary(g, "Sub", across, down, "sub"), NULL);
    return binary(g, "MatrixSetDiag", across, none, NULL);
}

GRAD(eigen_grad)
{
    struct output e = output_of(op, 0), v = output_of(op, 1), d, of_v;

    if (want_rank_known(g, op, input_of(op, 0)) != 0)
        return ERR_UNSUPPORTED;
    d = output_valid(grad_out[0]) ? grad_out[0] : zeros_like(g, e, NULL);
    d = unary(g, "MatrixDiag", d, NULL);
    if (attr_int(op, "compute_v") == 0) {
        v = (struct output){unary(g, "SelfAdjointEigV2", input_of(op, 0), NULL).op, 1};
    } else if (output_valid(grad_out[1])) {
        of_v = multiplied(g, v, grad_out[1], 1, 0);
        d = binary(g, "Add", d, binary(g, "Mul", gaps(g, e), of_v, "mul"), "add");
    }
    d = multiplied(g, v, multiplied(g, d, v, 0, 1), 0, 0);
    d = band(g, binary(g, "Add", d, adjoint(g, d, input_of(op, 0)), "add"), -1, 0);
    grad_in[0] = halved_diagonal(g, d);
    return grad_done(grad_in, 1);
}

/* ---- the rows, with the old names of those of batches ---- */

#define BOTH(name, flags, shape, grad, kernel, signature, room)                          \
    {name, flags, shape, grad, CALL(kernel), signature, .scratch = (room)},              \
    {                                                                                    \
        "Batch" name, flags, shape, grad, CALL(kernel), signature, .scratch = (room)     \
    }

static const struct op_def rows[] = {
    BOTH("Cholesky", 0, square_shape, cholesky_grad, kern_cholesky,
         "input:T -> output:T; T:float_type", room_for_one),
    BOTH("CholeskyGrad", OP_NO_GRADIENT, two_squares_shape, NULL, kern_cholesky_grad,
         "l:T, grad:T -> output:T; T:float_type", room_for_two),
    BOTH("MatrixTriangularSolve", 0, solve_shape, triangular_solve_grad,
         kern_triangular_solve,
         "matrix:T, rhs:T -> output:T; lower:bool=true, adjoint:bool=false, T:float_type",
         room_for_one),
    BOTH("MatrixSolve", 0, solve_shape, solve_grad, kern_solve,
         "matrix:T, rhs:T -> output:T; adjoint:bool=false, T:float_type", room_for_one),
    BOTH("MatrixInverse", 0, square_shape, inverse_grad, kern_inverse,
         "input:T -> output:T; adjoint:bool=false, T:float_type", room_for_two),
    BOTH("MatrixDeterminant", 0, determinant_shape, determinant_grad, kern_determinant,
         "input:T -> output:T; T:float_type", room_for_one),
    {"LogMatrixDeterminant", OP_LIBM, determinant_shape, log_determinant_grad,
     CALL(kern_log_determinant), "input:T -> sign:T, log_abs_determinant:T; T:float_type",
     .scratch = room_for_one},
    BOTH("SelfAdjointEigV2", 0, eigen_shape, eigen_grad, kern_eigen,
         "input:T -> e:T, v:T; compute_v:bool=true, T:float_type", room_for_two),
};

const struct op_family ops_of_solve = OP_FAMILY(rows);
