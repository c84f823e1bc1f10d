/* The largest values, places in sorted rows, counts of equal integers. */
#include "tests/agent/kernel_cases.h"

#define TELL(op, in, attrs, out)                                                         \
    {                                                                                    \
        op, "f", in, attrs, out, NULL, NULL, -5, 5, 0, 0                                 \
    }

/* Takes the largest element that is left, the first of equal ones, k times from each row. */
static void largest(const struct reference *r)
{
    const struct shape *s = &r->in[0].tensor.shape;
    const int64_t n = s->dim[s->rank - 1], k = r->out[0].tensor.shape.dim[s->rank - 1];

    for (int64_t i = 0; i < r->out[0].n; i++) {
        const double *row = r->in[0].v + i / k * n;
        int64_t best = -1;

        for (int64_t j = 0; j < n; j++) {
            int taken = 0;

            for (int64_t t = i / k * k; t < i; t++)
                taken |= r->out[1].v[t] == (double)j;
            if (!taken && (best < 0 || row[j] > row[best]))
                best = j;
        }
        r->out[0].v[i] = row[best];
        r->out[1].v[i] = (double)best;
    }
}

static void crossed(const struct reference *r)
{
    for (int64_t i = 0; i < r->out->n; i += 3) {
        const double *u = r->in[0].v + i, *v = r->in[1].v + i;

        r->out->v[i] = u[1] * v[2] - u[2] * v[1];
        r->out->v[i + 1] = u[2] * v[0] - u[0] * v[2];
        r->out->v[i + 2] = u[0] * v[1] - u[1] * v[0];
    }
}

#define LARGEST(op, types, in, attrs, out)                                               \
    {                                                                                    \
        op, types, in, attrs, out, largest, NULL, -9, 9, 0, 0                            \
    }

const struct kernel_case order_cases[] = {
    LARGEST("TopK", "fdil", "x(2,7)", "k=3", "(2,3) (2,3)"),
    LARGEST("TopKV2", "fdil", "x(2,3,9) I=4", NULL, "(2,3,4) (2,3,4)"),
    LARGEST("TopKV2", "fdil", "x(40) i=40", "sorted=false", "(40) (40)"),
    LARGEST("TopKV2", "fd", "x(2,3) l=0", "index_type=@l", "(2,0) (2,0)"),
    TELL("TopKV2", "f(6)=2,1,2,3,1,2 i=5", NULL, "(5)=3,2,2,2,1 (5)=3,0,2,5,1"),
    TELL("TopKV2", "d(4)=nan,-inf,1,nan i=4", NULL, "(4)=1,-inf,nan,nan (4)=2,1,0,3"),
    TELL("InTopK", "f(4,3)=1,2,3,3,2,1,5,5,5,1,2,3 i(4)=1,1,2,3", "k=2", "(4)=1,1,1,0"),
    TELL("InTopKV2", "f(4,2)=1,2,2,1,1,inf,nan,0 l(4)=0,0,0,1 l=1", NULL, "(4)=0,1,0,0"),
    TELL("LowerBound", "f(2,4)=1,2,2,3,0,0,5,9 f(2,3)=2,0,4,0,6,10", NULL,
         "(2,3)=1,0,4,0,3,4"),
    TELL("LowerBound", "l(1,3)=-1,0,7 l(1,2)=7,8", "out_type=@l", "(1,2)=2,3"),
    TELL("UpperBound", "d(2,4)=1,2,2,3,0,0,5,9 d(2,3)=2,0,4,0,6,10", NULL,
         "(2,3)=3,0,4,2,3,4"),
    TELL("UpperBound", "i(1,0) i(1,2)=7,8", NULL, "(1,2)=0,0"),
    TELL("Bincount", "i(5)=0,2,2,9,1 I=4 f(0)", NULL, "(4)=1,1,2,0"),
    TELL("Bincount", "i(2,2)=0,2,2,9 i=3 d(2,2)=1,2,3,4", NULL, "(3)=1,0,5"),
    TELL("Bincount", "i(3)=1,1,0 i=2 l(3)=5,-6,7", NULL, "(2)=7,-1"),
    TELL("DenseBincount", "l(4)=0,2,2,9 l=3 i(0)", NULL, "(3)=1,0,2"),
    TELL("DenseBincount", "i(2,3)=0,2,2,1,1,5 i=3 f(2,3)=1,2,3,4,5,6", NULL,
         "(2,3)=1,0,5,0,9,0"),
    TELL("DenseBincount", "i(2,3)=0,2,2,1,1,5 I=3 f(0)", "binary_output=true",
         "(2,3)=1,0,1,0,1,0"),
    TELL("Cross", "f(3)=1,0,0 f(3)=0,1,0", NULL, "(3)=0,0,1"),
    {"Cross", "fdil", "x(2,3) x(2,3)", NULL, "(2,3)", crossed, NULL, -9, 9, 40, 0},
    {NULL},
};
