/* matrix.c - products of matrices, and of batches of them.
 *
 * Gradients after TensorFlow 1.13's python/ops/math_grad.py.
 */
#include "agent/kernels/dense.h"
#include "agent/ops/kernel_parts.h"
#include "agent/ops/op_rules.h"

#include <string.h>

/* ---- kernels; float32 by dense.h, other dtypes by plain loops: k is innermost, in order ---- */

#define PRODUCT(T, U)                                                                    \
    static void product_##T(const struct matrix_product *p, const T *a, const T *b,      \
                            T *c)                                                        \
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

int matrix_multiply(const struct matrix_product *p, enum dtype dtype, const void *a,
                    const void *b, void *c)
{
    struct dense d = {.m = p->m,
                      .n = p->n,
                      .k = p->k,
                      .lda = p->ta ? p->m : p->k,
                      .transposed_a = p->ta,
                      .ldb = p->tb ? p->k : p->n,
                      .transposed_b = p->tb,
                      .ldc = p->n};

    switch (dtype) {
    case DT_FLOAT:
        d.a = a;
        d.b = b;
        d.c = c;
        dense_whole(&d);
        return 0;
    case DT_DOUBLE:
        product_double(p, a, b, c);
        return 0;
    case DT_INT32:
        product_int32_t(p, a, b, c);
        return 0;
    case DT_INT64:
        product_int64_t(p, a, b, c);
        return 0;
    default:
        return -1;
    }
}

static int product(const struct kernel_args *a, const struct matrix_product *p,
                   struct batch at)
{
    const size_t elem = dtype_size(a->out[0]->dtype);

    if (matrix_multiply(
            p, a->out[0]->dtype,
            (const char *)a->in[0]->data + (size_t)(at.x * p->m * p->k) * elem,
            (const char *)a->in[1]->data + (size_t)(at.y * p->k * p->n) * elem,
            (char *)a->out[0]->data + (size_t)(at.z * p->m * p->n) * elem) == 0)
        return 0;
    return err_set(a->err, ERR_UNSUPPORTED, "%s: no %s of %s", operation_name(a->op),
                   operation_type(a->op), dtype_name(a->out[0]->dtype));
}

static struct matrix_product product_of(const struct kernel_args *a, int ta, int tb)
{
    const struct shape *x = &a->in[0]->shape, *z = &a->out[0]->shape;

    return (struct matrix_product){ta, tb, z->dim[z->rank - 2], z->dim[z->rank - 1],
                                   x->dim[ta ? x->rank - 2 : x->rank - 1]};
}

static int kern_matmul(const struct kernel_args *a)
{
    struct matrix_product p = product_of(a, (int)attr_int(a->op, "transpose_a"),
                                         (int)attr_int(a->op, "transpose_b"));

    return product(a, &p, (struct batch){0});
}

/* All three tensors are of one type. */
static int kern_batch_matmul(const struct kernel_args *a)
{
    const struct shape *shape = &a->out[0]->shape;
    struct matrix_product p =
        product_of(a, (int)attr_int(a->op, "adj_x"), (int)attr_int(a->op, "adj_y"));
    int64_t n = 1;
    int rc = 0;

    if (a->in[0]->dtype != a->in[1]->dtype || a->in[0]->dtype != a->out[0]->dtype)
        return err_set(a->err, ERR_UNSUPPORTED, "%s: no %s of %s and %s to %s",
                       operation_name(a->op), operation_type(a->op),
                       dtype_name(a->in[0]->dtype), dtype_name(a->in[1]->dtype),
                       dtype_name(a->out[0]->dtype));
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

/* ---- shapes and gradients ---- */

static int matmul_shape(const struct shape_args *args)
{
    int ta = (int)attr_int(args->op, "transpose_a");
    int tb = (int)attr_int(args->op, "transpose_b");
    const struct shape *a = &args->in[0], *b = &args->in[1];
    int64_t inner_a = dim_of(a, !ta), inner_b = dim_of(b, tb);

    if (inner_a >= 0 && inner_b >= 0 && inner_a != inner_b)
        return err_set(args->err, ERR_SHAPE,
                       "Dimensions must be equal, but are %lld and %lld: %s%s times %s%s",
                       (long long)inner_a, (long long)inner_b, shape_text(a),
                       ta ? " transposed" : "", shape_text(b), tb ? " transposed" : "");
    args->out[0] = SHAPE(dim_of(a, ta), dim_of(b, !tb));
    return 0;
}

GRAD(matmul_grad)
{
    int ta = (int)attr_int(op, "transpose_a"), tb = (int)attr_int(op, "transpose_b");
    struct output a = input_of(op, 0), b = input_of(op, 1), d = grad_out[0];

    grad_in[0] = ta ? matmul(g, b, d, tb, 1, NULL) : matmul(g, d, b, 0, !tb, NULL);
    grad_in[1] = tb ? matmul(g, d, a, 1, ta, NULL) : matmul(g, a, d, !ta, 0, NULL);
    return grad_done(grad_in, 2);
}

/* ---- batches of products ---- */

/* x (..., M, K) y (..., K, N) -> (..., M, N). adj_x, adj_y: that operand's last two
 * dimensions are swapped. BatchMatMul requires equal batches, BatchMatMulV2 broadcasts
 * them. */
static int batch_matmul_shape(const struct shape_args *args)
{
    const struct shape *x = &args->in[0], *y = &args->in[1];
    int tx = (int)attr_int(args->op, "adj_x"), ty = (int)attr_int(args->op, "adj_y"), rc;
    struct shape bx = *x, by = *y, out;
    int64_t inner_x, inner_y;

    if (x->rank < 0 || y->rank < 0)
        return 0;
    if (x->rank < 2 || y->rank < 2)
        return err_set(args->err, ERR_SHAPE, "%s times %s: matrices are needed",
                       shape_text(x), shape_text(y));
    inner_x = x->dim[x->rank - (tx ? 2 : 1)];
    inner_y = y->dim[y->rank - (ty ? 1 : 2)];
    bx.rank -= 2;
    by.rank -= 2;
    if (operation_is(args->op, "BatchMatMul"))
        rc = shape_merge(&bx, &by, &out);
    else
        rc = shape_broadcast(&bx, &by, &out);
    if (rc != 0 || (inner_x >= 0 && inner_y >= 0 && inner_x != inner_y))
        return err_set(args->err, ERR_SHAPE, "%s%s does not multiply %s%s", shape_text(x),
                       tx ? " transposed" : "", shape_text(y), ty ? " transposed" : "");
    out.dim[out.rank++] = x->dim[x->rank - (tx ? 1 : 2)];
    out.dim[out.rank++] = y->dim[y->rank - (ty ? 2 : 1)];
    args->out[0] = out;
    return 0;
}

static struct output batch_matmul(struct graph *g, const struct operation *like,
                                  struct output x, struct output y, int tx, int ty)
{
    struct op_builder *b = op_begin(
        g, operation_is(like, "BatchMatMulV3") ? "BatchMatMulV2" : operation_type(like),
        NULL);

    op_input(b, x);
    op_input(b, y);
    op_attr_bool(b, "adj_x", tx);
    op_attr_bool(b, "adj_y", ty);
    return (struct output){op_finish(b), 0};
}

GRAD(batch_matmul_grad)
{
    int tx = (int)attr_int(op, "adj_x"), ty = (int)attr_int(op, "adj_y");
    struct output x = input_of(op, 0), y = input_of(op, 1), d = grad_out[0];

    grad_in[0] =
        tx ? batch_matmul(g, op, y, d, ty, 1) : batch_matmul(g, op, d, y, 0, !ty);
    grad_in[1] =
        ty ? batch_matmul(g, op, d, x, 1, tx) : batch_matmul(g, op, x, d, !tx, 0);
    return grad_done(grad_in, 2);
}

/* All dimensions but the last two. */
static struct output batch_shape(struct graph *g, struct output x)
{
    return vector_slice(g, shape_of(g, x, NULL), 0, -2, "begin_mask");
}

GRAD(batch_matmul_v2_grad)
{
    struct output x = input_of(op, 0), y = input_of(op, 1), y_shape, axes;

    if (batch_matmul_grad(g, op, grad_out, grad_in) != 0)
        return -1;
    y_shape = batch_shape(g, y);
    axes = binary(g, "BroadcastGradientArgs", batch_shape(g, x), y_shape, NULL);
    if (!output_valid(axes))
        return -1;
    grad_in[0] = unbroadcast(g, grad_in[0], axes, shape_of(g, x, NULL));
    grad_in[1] =
        unbroadcast(g, grad_in[1], (struct output){axes.op, 1}, shape_of(g, y, NULL));
    return grad_done(grad_in, 2);
}

/* ---- the rows ---- */

static const struct op_def rows[] = {
    {"MatMul", OP_ROWS_APART, matmul_shape, matmul_grad, GEMM(kern_matmul),
     "a:T, b:T -> product:T; transpose_a:bool=false, transpose_b:bool=false, "
     "T:number_type",
     .ranks = "22"},
    {"BatchMatMul", 0, batch_matmul_shape, batch_matmul_grad, CALL(kern_batch_matmul),
     "x:T, y:T -> output:T; T:number_type, adj_x:bool=false, adj_y:bool=false"},
    {"BatchMatMulV2", 0, batch_matmul_shape, batch_matmul_v2_grad,
     CALL(kern_batch_matmul),
     "x:T, y:T -> output:T; T:number_type, adj_x:bool=false, adj_y:bool=false"},
    {"BatchMatMulV3", 0, batch_matmul_shape, batch_matmul_v2_grad,
     CALL(kern_batch_matmul),
     "x:Ta, y:Tb -> output:Tout; Ta:number_type, Tb:number_type, Tout:number_type, "
     "adj_x:bool=false, adj_y:bool=false"},
};

const struct op_family ops_of_matrix = OP_FAMILY(rows);
