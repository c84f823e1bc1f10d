/* diagonals.c - matrices and their diagonals: one of them, or a band of several.
 *
 * A band is a vector, if it is one diagonal, or a matrix with a row for each diagonal, the
 * uppermost first. Diagonal k of a matrix has the elements (y, y + k). Where a diagonal is
 * shorter than the longest one, its elements are at the left or at the right of its row, as
 * the attribute `align` says for diagonals above and below the main one ("RIGHT_LEFT").
 *
 * Gradients after TensorFlow 1.13's python/ops/array_grad.py. */
#include "agent/ops/kernel_parts.h"
#include "agent/ops/op_rules.h"

#include <string.h>

/* ---- a band ---- */

struct band {
    int64_t rows, cols;
    int64_t lower, upper; /* its diagonals */
    int64_t longest;      /* elements of the longest one */
    int right_above, right_below;
};

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t most(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* Elements of diagonal k. */
static int64_t diagonal_length(const struct band *b, int64_t k)
{
    return least(b->rows + least(k, 0), b->cols - most(k, 0));
}

/* Where diagonal k begins in its row of the band. */
static int64_t diagonal_begin(const struct band *b, int64_t k)
{
    const int is_left = (k >= 0 && !b->right_above) || (k <= 0 && !b->right_below);

    return is_left ? 0 : b->longest - diagonal_length(b, k);
}

/* The diagonals that k (one, or the lower and the upper) names; NULL: the main one. */
static int read_k(const struct tensor *k, struct band *b)
{
    const int64_t n = k != NULL ? tensor_elements(k) : 0;

    b->lower = b->upper = 0;
    if (k == NULL)
        return 0;
    if (n < 1 || n > 2)
        return -1;
    b->lower = tensor_int(k, 0);
    b->upper = tensor_int(k, n - 1);
    return b->lower <= b->upper ? 0 : -1;
}

/* Copies the elements of the band into those of the matrices, or back. */
static void copy_band(const struct band *b, const struct tensor *matrices,
                      const struct tensor *bands, int into_matrices)
{
    const size_t elem = elem_size(matrices);
    const int64_t n_diagonals = b->upper - b->lower + 1;
    const int64_t n = span(&matrices->shape, 0, matrices->shape.rank - 2);

    for (int64_t i = 0; i < n * n_diagonals; i++) {
        const int64_t k = b->upper - i % n_diagonals, y = most(0, -k), x = most(0, k);
        char *at = (char *)matrices->data +
                   (size_t)((i / n_diagonals * b->rows + y) * b->cols + x) * elem;
        char *of =
            (char *)bands->data + (size_t)(i * b->longest + diagonal_begin(b, k)) * elem;

        for (int64_t t = 0; t < diagonal_length(b, k); t++) {
            memcpy(into_matrices ? at : of, into_matrices ? of : at, elem);
            at += (size_t)(b->cols + 1) * elem;
            of += elem;
        }
    }
}

/* ---- kernels ---- */

/* value NULL: 0 */
static void diagonals_fill(const struct tensor *y, const struct tensor *value)
{
    const size_t elem = elem_size(y);
    const int64_t n = tensor_elements(y);

    if (value == NULL && n > 0)
        memset(y->data, 0, (size_t)n * elem);
    for (int64_t i = 0; value != NULL && i < n; i++)
        memcpy((char *)y->data + (size_t)i * elem, value->data, elem);
}

static struct band band_of(const struct kernel_args *a, const struct tensor *matrices,
                           const struct tensor *k)
{
    const struct shape *s = &matrices->shape;
    struct band b = {.rows = s->dim[s->rank - 2], .cols = s->dim[s->rank - 1]};

    (void)read_k(k, &b); /* the shape rule has checked it */
    /* V3 has the attribute; V2 aligns to the left, and V1 has one diagonal. */
    const struct attr *align = operation_attr(a->op, "align");
    const char *text = align != NULL && align->s_len > 0 ? align->s : "LEFT_LEFT";
    b.right_above = strncmp(text, "RIGHT_", 6) == 0;
    b.right_below = strstr(text, "_RIGHT") != NULL;
    b.longest = least(b.rows + least(b.upper, 0), b.cols - most(b.lower, 0));
    return b;
}

/* in: diagonal, perhaps k, num_rows, num_cols, padding_value */
static int kern_matrix_diag(const struct kernel_args *a)
{
    const int has_k = a->n_in > 1;
    const struct band b = band_of(a, a->out[0], has_k ? a->in[1] : NULL);

    diagonals_fill(a->out[0], has_k ? a->in[4] : NULL);
    copy_band(&b, a->out[0], a->in[0], 1);
    return 0;
}

/* in: matrices, perhaps k, padding_value */
static int kern_matrix_diag_part(const struct kernel_args *a)
{
    const int has_k = a->n_in > 1;
    const struct band b = band_of(a, a->in[0], has_k ? a->in[1] : NULL);

    diagonals_fill(a->out[0], has_k ? a->in[2] : NULL);
    copy_band(&b, a->in[0], a->out[0], 0);
    return 0;
}

/* in: matrices, diagonal, perhaps k, which planning may not know, so that it is checked now */
static int kern_matrix_set_diag(const struct kernel_args *a)
{
    const struct tensor *x = a->in[0];
    const int rc = kernel_check_shapes(a);
    struct band b;

    if (rc < 0)
        return rc;
    b = band_of(a, a->out[0], a->n_in > 2 ? a->in[2] : NULL);
    if (tensor_elements(x) > 0)
        memcpy(a->out[0]->data, x->data, (size_t)tensor_elements(x) * elem_size(x));
    copy_band(&b, a->out[0], a->in[1], 1);
    return 0;
}

/* in: matrices, num_lower, num_upper (negative: all). Keeps the main diagonal and this many
 * below and above it; the rest is 0. */
static int kern_band_part(const struct kernel_args *a)
{
    const struct tensor *x = a->in[0];
    const size_t elem = elem_size(x);
    const int64_t rows = x->shape.dim[x->shape.rank - 2];
    const int64_t cols = x->shape.dim[x->shape.rank - 1];
    const int64_t lower = tensor_int(a->in[1], 0), upper = tensor_int(a->in[2], 0);

    if (lower > rows || upper > cols)
        return err_set(a->err, ERR_ARG,
                       "%s: %lld diagonals below and %lld above the main one of (%lld, "
                       "%lld)",
                       operation_name(a->op), (long long)lower, (long long)upper,
                       (long long)rows, (long long)cols);
    diagonals_fill(a->out[0], NULL);
    for (int64_t i = 0; i < tensor_elements(x); i++) {
        const int64_t below = i / cols % rows - i % cols;

        if ((lower < 0 || below <= lower) && (upper < 0 || -below <= upper))
            memcpy((char *)a->out[0]->data + (size_t)i * elem,
                   (const char *)x->data + (size_t)i * elem, elem);
    }
    return 0;
}

/* The diagonal of a tensor whose shape is a list of dimensions repeated twice. */
static int kern_diag_part(const struct kernel_args *a)
{
    size_t elem = elem_size(a->in[0]);
    int64_t n = tensor_elements(a->out[0]);
    struct copy_plan c = {1, {n}, {(n + 1) * (int64_t)elem}, {(int64_t)elem}};

    copy_strided(a->out[0]->data, a->in[0]->data, &c, elem);
    return 0;
}

static int kern_diag(const struct kernel_args *a)
{
    size_t elem = elem_size(a->in[0]);
    int64_t n = tensor_elements(a->in[0]);
    struct copy_plan c = {1, {n}, {(int64_t)elem}, {(n + 1) * (int64_t)elem}};

    diagonals_fill(a->out[0], NULL);
    copy_strided(a->out[0]->data, a->in[0]->data, &c, elem);
    return 0;
}

/* ---- shapes ---- */

static int want_matrices(const struct shape_args *args)
{
    return args->in[0].rank < 0 || args->in[0].rank >= 2
               ? 0
               : err_set(args->err, ERR_SHAPE, "%s has no matrices",
                         shape_text(&args->in[0]));
}

/* Reads input i as k. Returns 0 if it is not known, or after an error (*ret_rc). */
static int known_k(const struct shape_args *args, int i, struct band *b, int *ret_rc)
{
    const struct tensor *k = i < args->n_in ? args->value[i] : NULL;

    *ret_rc = 0;
    if (i < args->n_in && k == NULL)
        return 0;
    if (read_k(k, b) == 0)
        return 1;
    *ret_rc = err_set(args->err, ERR_SHAPE,
                      "k must be a diagonal, or a lower and an upper one");
    return 0;
}

/* The shape of the band of matrices; b->rows and b->cols are known. */
static int band_shape(const struct shape_args *args, struct band *b, struct shape *ret)
{
    *ret = args->in[0];
    if (((b->lower <= -b->rows || b->lower >= b->cols) && b->lower != 0) ||
        ((b->upper <= -b->rows || b->upper >= b->cols) && b->upper != 0))
        return err_set(args->err, ERR_SHAPE, "no diagonals %lld to %lld of %s",
                       (long long)b->lower, (long long)b->upper, shape_text(ret));
    ret->rank -= 2;
    if (b->lower < b->upper)
        ret->dim[ret->rank++] = b->upper - b->lower + 1;
    ret->dim[ret->rank++] =
        least(b->rows + least(b->upper, 0), b->cols - most(b->lower, 0));
    return 0;
}

/* Fills in the band of input 0 by the k of input i. Returns 0 if it is not known, or after
 * an error (*ret_rc). */
static int known_band(const struct shape_args *args, int i, struct band *b,
                      struct shape *ret, int *ret_rc)
{
    const struct shape *x = &args->in[0];

    *ret_rc = want_matrices(args);
    if (*ret_rc != 0 || !known_k(args, i, b, ret_rc) || x->rank < 0)
        return 0;
    b->rows = x->dim[x->rank - 2];
    b->cols = x->dim[x->rank - 1];
    if (b->rows >= 0 && b->cols >= 0) {
        *ret_rc = band_shape(args, b, ret);
        return *ret_rc == 0;
    }
    *ret = *x;
    ret->rank -= b->lower == b->upper;
    ret->dim[ret->rank - 1] = -1;
    if (b->lower < b->upper)
        ret->dim[ret->rank - 2] = b->upper - b->lower + 1;
    return 1;
}

static int matrix_diag_part_shape(const struct shape_args *args)
{
    struct band b;
    struct shape s;
    int rc;

    if (known_band(args, 1, &b, &s, &rc))
        args->out[0] = s;
    return rc;
}

static int matrix_set_diag_shape(const struct shape_args *args)
{
    struct band b;
    struct shape s;
    int rc;

    if (known_band(args, 2, &b, &s, &rc) && !shape_compatible(&s, &args->in[1]))
        return err_set(args->err, ERR_SHAPE, "diagonals %s of %s, which has %s",
                       shape_text(&args->in[1]), shape_text(&args->in[0]),
                       shape_text(&s));
    args->out[0] = args->in[0];
    return rc;
}

/* The number of rows or columns that input i gives, and the band needs at least `need`. */
static int read_size(const struct shape_args *args, int i, int64_t *ret)
{
    *ret = -1;
    return value_ints(args, i, ret, 1) == 1;
}

/* The rows and columns of the matrices that have diagonals of n elements. */
static int matrix_size(const struct shape_args *args, const struct band *b, int64_t n,
                       int64_t *rows, int64_t *cols)
{
    const int64_t need_rows = n - least(b->upper, 0), need_cols = n + most(b->lower, 0);

    if (*rows < 0 && *cols < 0)
        *rows = *cols = most(need_rows, need_cols);
    *rows = *rows < 0 ? need_rows : *rows;
    *cols = *cols < 0 ? need_cols : *cols;
    if (*rows >= need_rows && *cols >= need_cols &&
        (*rows == need_rows || *cols == need_cols) &&
        least(*rows + least(b->upper, 0), *cols - most(b->lower, 0)) == n)
        return 0;
    return err_set(args->err, ERR_SHAPE,
                   "diagonals %lld to %lld of %lld elements do not make up (%lld, %lld)",
                   (long long)b->lower, (long long)b->upper, (long long)n,
                   (long long)*rows, (long long)*cols);
}

/* in: diagonal, perhaps k, num_rows, num_cols, padding_value */
static int matrix_diag_shape(const struct shape_args *args)
{
    const struct shape *x = &args->in[0];
    int64_t rows = -1, cols = -1, n;
    struct band b;
    int rc;

    if (!known_k(args, 1, &b, &rc) || x->rank < 0)
        return rc;
    if (args->n_in > 1 && (!read_size(args, 2, &rows) || !read_size(args, 3, &cols)))
        return 0;
    if (x->rank < 1 + (b.lower < b.upper))
        return err_set(args->err, ERR_SHAPE, "%s has no diagonals %lld to %lld",
                       shape_text(x), (long long)b.lower, (long long)b.upper);
    if (b.lower < b.upper && x->dim[x->rank - 2] >= 0 &&
        x->dim[x->rank - 2] != b.upper - b.lower + 1)
        return err_set(args->err, ERR_SHAPE, "%lld rows for diagonals %lld to %lld",
                       (long long)x->dim[x->rank - 2], (long long)b.lower,
                       (long long)b.upper);
    if (x->rank + (b.lower == b.upper) > SHAPE_MAX_RANK)
        return err_set(args->err, ERR_SHAPE, "more than %d dimensions", SHAPE_MAX_RANK);
    n = x->dim[x->rank - 1];
    if (n >= 0 && matrix_size(args, &b, n, &rows, &cols) != 0)
        return ERR_SHAPE;
    args->out[0] = *x;
    args->out[0].rank += b.lower == b.upper;
    args->out[0].dim[args->out[0].rank - 2] = rows;
    args->out[0].dim[args->out[0].rank - 1] = cols;
    return 0;
}

static int band_part_shape(const struct shape_args *args)
{
    args->out[0] = args->in[0];
    return want_matrices(args);
}

/* Dimensions repeated twice: the first half. */
static int diag_part_shape(const struct shape_args *args)
{
    const struct shape *x = &args->in[0];
    const int n = x->rank / 2;

    if (x->rank < 0)
        return 0;
    if (x->rank % 2 != 0 || x->rank == 0)
        return err_set(args->err, ERR_SHAPE, "%s is not square", shape_text(x));
    args->out[0].rank = n;
    for (int d = 0; d < n; d++) {
        if (x->dim[d] >= 0 && x->dim[n + d] >= 0 && x->dim[d] != x->dim[n + d])
            return err_set(args->err, ERR_SHAPE, "%s is not square", shape_text(x));
        args->out[0].dim[d] = most(x->dim[d], x->dim[n + d]);
    }
    return 0;
}

static int diag_shape(const struct shape_args *args)
{
    const struct shape *x = &args->in[0];

    if (x->rank < 0)
        return 0;
    if (x->rank == 0 || 2 * x->rank > SHAPE_MAX_RANK)
        return err_set(args->err, ERR_SHAPE, "no tensor has the diagonal %s",
                       shape_text(x));
    args->out[0].rank = 2 * x->rank;
    for (int d = 0; d < 2 * x->rank; d++)
        args->out[0].dim[d] = x->dim[d % x->rank];
    return 0;
}

/* ---- gradients ---- */

GRAD_ONE(diag_grad, unary(g, "DiagPart", grad_out[0], NULL))
GRAD_ONE(diag_part_grad, unary(g, "Diag", grad_out[0], NULL))
GRAD_ONE(matrix_diag_grad, unary(g, "MatrixDiagPart", grad_out[0], NULL))
GRAD_ONE(band_part_grad, ternary(g, operation_type(op), grad_out[0], input_of(op, 1),
                                 input_of(op, 2), NULL))

static struct output finish(struct operation *op, struct op_builder *b)
{
    const struct attr *align = operation_attr(op, "align");

    if (align != NULL)
        op_attr_string(b, "align", align->s);
    return (struct output){op_finish(b), 0};
}

/* The operation of this kind ("Diag") and of the version of op: "MatrixDiagV3". */
static const char *of_version(const struct operation *op, const char *v2, const char *v3)
{
    return operation_attr(op, "align") != NULL ? v3 : v2;
}

static struct output band_of_gradient(struct graph *g, struct operation *op,
                                      struct output d, struct output k)
{
    const char *type = of_version(op, "MatrixDiagPartV2", "MatrixDiagPartV3");
    struct output padding = constant_like(g, output_dtype(d), 0, "Const");
    struct op_builder *b = op_begin(g, type, NULL);

    op_input(b, d);
    op_input(b, k);
    op_input(b, padding);
    return finish(op, b);
}

static struct output set_band(struct graph *g, struct operation *op, struct output x,
                              struct output diagonal, struct output k)
{
    const char *type = of_version(op, "MatrixSetDiagV2", "MatrixSetDiagV3");
    struct op_builder *b = op_begin(g, type, NULL);

    op_input(b, x);
    op_input(b, diagonal);
    op_input(b, k);
    return finish(op, b);
}

GRAD_ONE(matrix_diag_v2_grad, band_of_gradient(g, op, grad_out[0], input_of(op, 1)))

/* The dimensions of the matrices of input 0, if they are known. */
static int known_matrices(struct operation *op, int32_t *rows, int32_t *cols)
{
    const struct shape s = output_shape(input_of(op, 0));

    if (s.rank < 2)
        return 0;
    *rows = (int32_t)s.dim[s.rank - 2];
    *cols = (int32_t)s.dim[s.rank - 1];
    return *rows >= 0 && *cols >= 0;
}

GRAD(matrix_diag_part_grad)
{
    struct output zero;
    int32_t rows, cols;

    if (known_matrices(op, &rows, &cols) && rows == cols) {
        grad_in[0] = unary(g, "MatrixDiag", grad_out[0], NULL);
    } else {
        zero = zeros_like(g, input_of(op, 0), NULL);
        grad_in[0] = binary(g, "MatrixSetDiag", zero, grad_out[0], NULL);
    }
    return grad_done(grad_in, 1);
}

GRAD(matrix_diag_part_v2_grad)
{
    const char *type = of_version(op, "MatrixDiagV2", "MatrixDiagV3");
    struct output k = input_of(op, 1), size[2], padding;
    struct op_builder *b;
    int32_t rows, cols;

    if (!known_matrices(op, &rows, &cols)) {
        grad_in[0] =
            set_band(g, op, zeros_like(g, input_of(op, 0), NULL), grad_out[0], k);
        return grad_done(grad_in, 1);
    }
    size[0] = constant_i32(g, rows, "num_rows");
    size[1] = constant_i32(g, cols, "num_cols");
    padding = constant_like(g, output_dtype(grad_out[0]), 0, "Const");
    b = op_begin(g, type, NULL);
    op_input(b, grad_out[0]);
    op_input(b, k);
    op_input(b, size[0]);
    op_input(b, size[1]);
    op_input(b, padding);
    grad_in[0] = finish(op, b);
    return grad_done(grad_in, 1);
}

GRAD(matrix_set_diag_grad)
{
    struct output none = zeros_like(g, input_of(op, 1), NULL);

    grad_in[0] = binary(g, "MatrixSetDiag", grad_out[0], none, NULL);
    grad_in[1] = unary(g, "MatrixDiagPart", grad_out[0], NULL);
    return grad_done(grad_in, 2);
}

GRAD(matrix_set_diag_v2_grad)
{
    struct output none = zeros_like(g, input_of(op, 1), NULL);

    grad_in[0] = set_band(g, op, grad_out[0], none, input_of(op, 2));
    grad_in[1] = band_of_gradient(g, op, grad_out[0], input_of(op, 2));
    return grad_done(grad_in, 2);
}

/* ---- the rows ---- */

#define ALIGN ", align:string=RIGHT_LEFT"
#define V1(kind, shape, grad, kernel, arguments)                                         \
    {kind, 0, shape, grad, CALL(kernel), arguments "; T:type"},                          \
    {                                                                                    \
        "Batch" kind, 0, shape, grad, CALL(kernel), arguments "; T:type"                 \
    }
#define V2(kind, shape, grad, kernel, arguments, of_ranks)                               \
    {kind "V2", 0, shape, grad, CALL(kernel), arguments "; T:type", .ranks = of_ranks},  \
    {                                                                                    \
        kind "V3", 0, shape, grad, CALL(kernel), arguments "; T:type" ALIGN,             \
            .ranks = of_ranks                                                            \
    }

static const struct op_def rows[] = {
    {"Diag", 0, diag_shape, diag_grad, CALL(kern_diag),
     "diagonal:T -> output:T; T:number_type"},
    {"DiagPart", 0, diag_part_shape, diag_part_grad, CALL(kern_diag_part),
     "input:T -> diagonal:T; T:number_type"},
    V1("MatrixDiag", matrix_diag_shape, matrix_diag_grad, kern_matrix_diag,
       "diagonal:T -> output:T"),
    V2("MatrixDiag", matrix_diag_shape, matrix_diag_v2_grad, kern_matrix_diag,
       "diagonal:T, k:int32, num_rows:int32, num_cols:int32, padding_value:T -> "
       "output:T",
       "??000"),
    V1("MatrixDiagPart", matrix_diag_part_shape, matrix_diag_part_grad,
       kern_matrix_diag_part, "input:T -> diagonal:T"),
    V2("MatrixDiagPart", matrix_diag_part_shape, matrix_diag_part_v2_grad,
       kern_matrix_diag_part, "input:T, k:int32, padding_value:T -> diagonal:T", "??0"),
    V1("MatrixSetDiag", matrix_set_diag_shape, matrix_set_diag_grad, kern_matrix_set_diag,
       "input:T, diagonal:T -> output:T"),
    V2("MatrixSetDiag", matrix_set_diag_shape, matrix_set_diag_v2_grad,
       kern_matrix_set_diag, "input:T, diagonal:T, k:int32 -> output:T", NULL),
    {"MatrixBandPart", 0, band_part_shape, band_part_grad, CALL(kern_band_part),
     "input:T, num_lower:Tindex, num_upper:Tindex -> band:T; T:type, "
     "Tindex:index_type=int64",
     .ranks = "?00"},
    {"BatchMatrixBandPart", 0, band_part_shape, band_part_grad, CALL(kern_band_part),
     "input:T, num_lower:int64, num_upper:int64 -> band:T; T:type", .ranks = "?00"},
};

const struct op_family ops_of_diagonals = OP_FAMILY(rows);
