/* Sparse tensors: products and sums against loops over dense ones, the others against what is in
 * the text. */
#include "tests/agent/kernel_cases.h"

#include <math.h>

static int64_t attr(const struct reference *r, const char *name)
{
    const struct attr *a = operation_attr(r->op, name);

    return a != NULL ? a->i : 0;
}

/* a b, of which each may be turned */
static void product(const struct reference *r)
{
    const int64_t ta = attr(r, "adjoint_a"), tb = attr(r, "adjoint_b");
    const int64_t width = r->out->tensor.shape.dim[1],
                  cols = r->in[3].tensor.shape.dim[1];

    for (int64_t i = 0; i < r->in[1].n; i++) {
        const int64_t row = (int64_t)r->in[0].v[2 * i + ta];
        const int64_t k = (int64_t)r->in[0].v[2 * i + 1 - ta];

        for (int64_t j = 0; j < width; j++)
            r->out->v[row * width + j] +=
                r->in[1].v[i] * r->in[3].v[tb ? j * cols + k : k * cols + j];
    }
}

/* Of a tensor of two dimensions; the result has one number for each row. */
static void row_sums(const struct reference *r)
{
    for (int64_t i = 0; i < r->in[1].n; i++)
        r->out->v[(int64_t)r->in[0].v[2 * i]] += r->in[1].v[i];
}

static void all_sum(const struct reference *r)
{
    for (int64_t i = 0; i < r->in[1].n; i++)
        r->out->v[0] += r->in[1].v[i];
}

/* Of a tensor of two dimensions; the dense operand is (rows, cols) or (cols). */
static void element_wise(const struct reference *r)
{
    const struct shape *s = &r->in[3].tensor.shape;
    const int is_product = operation_is(r->op, "SparseDenseCwiseMul");

    for (int64_t i = 0; i < r->out->n; i++) {
        const double *at = r->in[0].v + 2 * i;
        const double y =
            r->in[3].v[s->rank == 1 ? (int64_t)at[1]
                                    : (s->dim[0] == 1 ? 0 : (int64_t)at[0]) * s->dim[1] +
                                          (s->dim[1] == 1 ? 0 : (int64_t)at[1])];

        r->out->v[i] = is_product ? r->in[1].v[i] * y : r->in[1].v[i] + y;
    }
}

static void added(const struct reference *r)
{
    for (int64_t i = 0; i < r->out->n; i++)
        r->out->v[i] = r->in[3].v[i];
    for (int64_t i = 0; i < r->in[1].n; i++)
        r->out->v[(int64_t)r->in[0].v[2 * i] * r->out->tensor.shape.dim[1] +
                  (int64_t)r->in[0].v[2 * i + 1]] += r->in[1].v[i];
}

static void softmaxes(const struct reference *r)
{
    for (int64_t i = 0; i < r->out->n; i++) {
        double sum = 0;

        for (int64_t k = 0; k < r->out->n; k++)
            if (r->in[0].v[2 * k] == r->in[0].v[2 * i])
                sum += exp(r->in[1].v[k] - r->in[1].v[i]);
        r->out->v[i] = 1 / sum;
    }
}

#define TELL(op, types, in, attrs, out)                                                  \
    {                                                                                    \
        op, types, in, attrs, out, NULL, NULL, -3, 3, 4, 0                               \
    }
#define WORK(op, types, in, attrs, out, f)                                               \
    {                                                                                    \
        op, types, in, attrs, out, f, NULL, -3, 3, 8, 0                                  \
    }
/* four elements of (3, 4), the third one at a place that is there twice */
#define FOUR   "l(4,2)=0,1,2,0,2,3,2,3 x(4) "
/* the same in two dimensions, out of order */
#define TURNED "l(3,2)=2,0,0,3,0,1 x(3)=1,2,3 "

const struct kernel_case sparse_cases[] = {
    WORK("SparseTensorDenseMatMul", "fdil", FOUR "L(2)=3,4 x(4,2)", NULL, "(3,2)",
         product),
    WORK("SparseTensorDenseMatMul", "fd", FOUR "l(2)=3,4 x(3,2)", "adjoint_a=true",
         "(4,2)", product),
    WORK("SparseTensorDenseMatMul", "fd", FOUR "l(2)=3,4 x(2,4)", "adjoint_b=true",
         "(3,2)", product),
    WORK("SparseTensorDenseMatMul", "fd", FOUR "L(2)=3,4 x(2,3)",
         "adjoint_a=true adjoint_b=true", "(4,2)", product),
    WORK("SparseTensorDenseMatMul", "f", "i(1,2)=1,1 f(1) L(2)=2,2 f(2,3)", NULL, "(2,3)",
         product),
    WORK("SparseTensorDenseMatMul", "f", "l(0,2) f(0) L(2)=2,2 f(2,1)", NULL, "(2,1)",
         product),
    TELL("SparseReshape", "f", "l(2,2)=0,1,2,3 l(2)=3,4 l(3)=2,-1,3", NULL,
         "(2,3)=0,0,1,1,1,2 (3)=2,2,3"),
    TELL("SparseReshape", "f", "l(2,1)=5,0 L(1)=6 L(2)=3,2", NULL,
         "(2,2)=2,1,0,0 (2)=3,2"),
    TELL("SparseReorder", "fdil", TURNED "l(2)=3,4", NULL, "(3,2)=0,1,0,3,2,0 (3)=3,2,1"),
    TELL("SparseReorder", "fb", "l(3,1)=1,0,1 x(3)=1,0,1 L(1)=2", NULL,
         "(3,1)=0,1,1 (3)=0,1,1"),
    WORK("SparseReduceSum", "fdil", FOUR "L(2)=3,4 I(1)=1", NULL, "(3)", row_sums),
    WORK("SparseReduceSum", "fd", FOUR "l(2)=3,4 i(1)=-1", "keep_dims=true", "(3,1)",
         row_sums),
    WORK("SparseReduceSum", "fd", FOUR "L(2)=3,4 I(2)=0,-1", NULL, ".", all_sum),
    TELL("SparseFillEmptyRows", "fdil", "l(3,2)=3,1,1,0,1,2 x(3)=1,2,3 L(2)=5,4 x=9",
         NULL, "(6,2)=0,0,1,0,1,2,2,0,3,1,4,0 (6)=9,2,3,9,1,9 (5)=1,0,1,0,1 (3)=4,1,2"),
    TELL("SparseFillEmptyRows", "f", "l(0,1) f(0) l(1)=2 f=4", NULL,
         "(2,1)=0,1 (2)=4,4 (2)=1,1 (0)"),
    TELL("SparseFillEmptyRowsGrad", "fdil", "l(3)=4,1,2 x(6)=1,2,3,4,5,6", NULL,
         "(3)=5,2,3 .=11"),
    WORK("SparseSoftmax", "fd", "l(4,2)=0,1,2,0,2,1,2,3 x(4) L(2)=3,4", NULL, "(4)",
         softmaxes),
    WORK("SparseSoftmax", "fd", "l(4,2)=2,0,0,1,2,3,0,0 x(4) l(2)=3,4", NULL, "(4)",
         softmaxes),
    TELL("SparseConcat", "fdil",
         "l(2,2)=0,1,1,0 l(1,2)=0,0 x(2)=1,2 x(1)=3 l(2)=2,2 l(2)=2,1",
         "concat_dim=1 N=2", "(3,2)=0,1,0,2,1,0 (3)=1,3,2 (2)=2,3"),
    TELL("SparseConcat", "f", "l(1,2)=0,1 l(1,2)=0,0 f(1)=1 f(1)=3 l(2)=2,2 l(2)=1,2",
         "concat_dim=-2 N=2", "(2,2)=0,1,2,0 (2)=1,3 (2)=3,2"),
    TELL("SparseSlice", "fdil",
         "l(4,2)=0,1,1,0,1,3,2,2 x(4)=1,2,3,4 l(2)=3,4 l(2)=1,1 l(2)=9,2", NULL,
         "(1,2)=1,1 (1)=4 (2)=2,2"),
    TELL("SparseSlice", "f", "l(1,1)=1 f(1)=1 L(1)=3 L(1)=4 L(1)=2", NULL,
         "(0,1) (0) (1)=0"),
    TELL("SparseSliceGrad", "fdil",
         "x(2)=5,6 l(4,2)=0,1,1,0,1,3,2,2 l(2)=1,0 l(2,2)=0,0,1,2", NULL, "(4)=0,5,0,6"),
    {"SparseDenseCwiseAdd", "fdil", FOUR "L(2)=3,4 x(3,1)", NULL, "(4)", element_wise,
     NULL, -3, 3, 4, CASE_NO_DIFFERENCE}, /* TensorFlow has no gradient either */
    WORK("SparseDenseCwiseMul", "fdil", FOUR "L(2)=3,4 x(3,4)", NULL, "(4)",
         element_wise),
    WORK("SparseDenseCwiseMul", "fd", FOUR "l(2)=3,4 x(4)", NULL, "(4)", element_wise),
    WORK("SparseDenseCwiseMul", "fd", FOUR "l(2)=3,4 x(1,4)", NULL, "(4)", element_wise),
    WORK("SparseTensorDenseAdd", "fdil", FOUR "L(2)=3,4 x(3,4)", NULL, "(3,4)", added),
    WORK("SparseTensorDenseAdd", "fd", "i(2,2)=1,1,0,0 x(2) i(2)=2,2 x(2,2)", NULL,
         "(2,2)", added),
    {NULL},
};
