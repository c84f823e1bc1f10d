/* Tensors with values put into places of them. Gradients: no place occurs twice where values
 * replace others, or are chosen among: the last one, and all equal ones, would differ. */
#include "tests/agent/kernel_cases.h"

#include <math.h>
#include <string.h>

static double combined(const char *op, double x, double y)
{
    const char *how = strstr(op, "Scatter") + strlen("Scatter");

    return strcmp(how, "Update") == 0 ? y
           : strcmp(how, "Sub") == 0  ? x - y
           : strcmp(how, "Min") == 0  ? fmin(x, y)
           : strcmp(how, "Max") == 0  ? fmax(x, y)
                                      : x + y;
}

/* Combines row i of the updates with the piece that row i of the indices names. */
static void put(const struct reference *r, const struct array *indices,
                const struct array *updates)
{
    const struct shape *s = &r->out->tensor.shape, *of = &indices->tensor.shape;
    const int k = (int)of->dim[of->rank - 1];
    int64_t width = 1;

    for (int d = k; d < s->rank; d++)
        width *= s->dim[d];
    for (int64_t i = 0; i < updates->n; i++) {
        double *to = r->out->v + i % width;
        int64_t at = 0;

        for (int d = 0; d < k; d++)
            at = at * s->dim[d] + (int64_t)indices->v[i / width * k + d];
        to += at * width;
        *to = combined(operation_type(r->op), *to, updates->v[i]);
    }
}

static void scattered(const struct reference *r)
{
    put(r, &r->in[0], &r->in[1]);
}

static void changed(const struct reference *r)
{
    memcpy(r->out->v, r->in[0].v, (size_t)r->out->n * sizeof(double));
    put(r, &r->in[1], &r->in[2]);
}

/* The outputs' text gives positions in the first input, or less 100 in the last one. */
static void picked(const struct reference *r)
{
    for (int64_t i = 0; i < r->out->n; i++) {
        const int64_t at = (int64_t)r->out->v[i];

        r->out->v[i] = at >= 100 ? r->in[4].v[at - 100] : r->in[0].v[at];
    }
}

#define COPY(op, types, in, out)                                                         \
    {                                                                                    \
        op, types, in, NULL, out, changed, NULL, -5, 5, 2, 0                             \
    }
#define PART(in, attrs, out)                                                             \
    {                                                                                    \
        "TensorStridedSliceUpdate", "fdilscuwb", in, attrs, out, picked, NULL, -5, 5, 0, \
            0                                                                            \
    }

const struct kernel_case scatter_cases[] = {
    {"ScatterNd", "fdil", "i(3,1)=2,0,2 x(3,2) I(2)=4,2", NULL, "(4,2)", scattered,
     .low = -5, .high = 5, .ulps = 2},
    {"ScatterNd", "fdil", "l(2,2,2)=1,1,0,0,1,1,0,1 x(2,2) l(2)=2,2", NULL, "(2,2)",
     scattered, .low = -5, .high = 5, .ulps = 2},
    {"ScatterNd", "fd", "i(0,1) x(0,2) I(2)=3,2", NULL, "(3,2)", scattered, .ulps = 0},
    COPY("TensorScatterUpdate", "fdilscuwb", "x(4,2) i(2,1)=2,0 x(2,2)", "(4,2)"),
    COPY("TensorScatterUpdate", "fd", "x(2,2,2) l(2,3)=1,0,1,0,1,0 x(2)", "(2,2,2)"),
    COPY("TensorScatterUpdate", "fd", "x(3) i(0,1) x(0)", "(3)"),
    COPY("TensorScatterUpdate", "fd", "x(2) i(1,0) x(1,2)", "(2)"),
    COPY("TensorScatterAdd", "fdil", "x(4,2) i(3,1)=2,0,2 x(3,2)", "(4,2)"),
    COPY("TensorScatterSub", "fdil", "x(4,2) i(3,1)=2,0,2 x(3,2)", "(4,2)"),
    COPY("TensorScatterMin", "fdil", "x(4,2) i(2,1)=2,0 x(2,2)", "(4,2)"),
    COPY("TensorScatterMax", "fdil", "x(4,2) l(2,2)=2,1,0,0 x(2)", "(4,2)"),
    COPY("ScatterNdNonAliasingAdd", "fdil", "x(4,2) i(3,1)=2,0,2 x(3,2)", "(4,2)"),
    PART("x(4) I(1)=1 I(1)=3 I(1)=1 x(2)", NULL, "(4)=0,100,101,3"),
    PART("x(4) i(1)=3 i(1)=0 i(1)=-2 x(2)", NULL, "(4)=0,101,2,100"),
    PART("x(2,3) I(2)=1,0 I(2)=2,2 I(2)=1,1 x(2)", "shrink_axis_mask=1",
         "(2,3)=0,1,2,100,101,5"),
    PART("x(2,2) I(2)=0,0 I(2)=0,1 I(2)=1,1 x(1,1,2)",
         "new_axis_mask=1 begin_mask=2 end_mask=2", "(2,2)=100,101,100,101"),
    PART("x(2,3) L(1)=0 L(1)=0 L(1)=1 x(2,1)", "ellipsis_mask=1",
         "(2,3)=100,100,100,101,101,101"),
    PART("x(3) I(1)=1 I(1)=1 I(1)=1 x(0)", NULL, "(3)=0,1,2"),
    PART("x(3) I(1)=0 I(1)=2 I(1)=1 x", NULL, "(3)=100,100,2"),
    {NULL},
};
