/* ops_matrix.c - products of matrices, and of batches of them.
 *
 * Gradients after TensorFlow 1.13's python/ops/math_grad.py.
 */
#include "agent/graph/graph_internal.h"
#include "agent/graph/op_rules.h"

#include <string.h>

/* ---- matrix product ---- */

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
    struct op_builder *b = op_begin(g, operation_type(like), NULL);

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
    {"MatMul", 0, matmul_shape, matmul_grad,
     "a:T, b:T -> product:T; transpose_a:bool=false, transpose_b:bool=false, "
     "T:number_type",
     .ranks = "22"},
    {"BatchMatMul", 0, batch_matmul_shape, batch_matmul_grad,
     "x:T, y:T -> output:T; T:number_type, adj_x:bool=false, adj_y:bool=false"},
    {"BatchMatMulV2", 0, batch_matmul_shape, batch_matmul_v2_grad,
     "x:T, y:T -> output:T; T:number_type, adj_x:bool=false, adj_y:bool=false"},
};

const struct op_family ops_of_matrix = OP_FAMILY(rows);
