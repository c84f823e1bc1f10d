/* Sums, products and extrema of segments, against a loop that collects the rows of each
 * segment. */
#include "tests/agent/kernel_cases.h"

#include <float.h>
#include <math.h>
#include <string.h>

/* Folds the rows of segment `id` in one column; *ret_n: their number. */
static double fold(const struct reference *r, const struct array *ids,
                   const struct array *indices, int64_t id, int64_t column, int64_t width,
                   int64_t *ret_n)
{
    const char *type = operation_type(r->op);
    double y = 0;

    *ret_n = 0;
    for (int64_t i = 0; i < ids->n; i++) {
        const int64_t row = indices != NULL ? (int64_t)indices->v[i] : i;
        double x;

        if ((int64_t)ids->v[i] != id)
            continue;
        x = r->in[0].v[row * width + column];
        if ((*ret_n)++ == 0)
            y = x;
        else if (strstr(type, "Max") != NULL)
            y = fmax(y, x);
        else if (strstr(type, "Min") != NULL)
            y = fmin(y, x);
        else
            y = strstr(type, "Prod") != NULL ? y * x : y + x;
    }
    return y;
}

/* What an unsorted segment without rows has. */
static double empty(const struct reference *r)
{
    const char *type = operation_type(r->op);
    const int most = strstr(type, "Max") != NULL, least = strstr(type, "Min") != NULL;

    if (strstr(type, "Prod") != NULL)
        return 1;
    if (strstr(type, "Unsorted") == NULL || (!most && !least))
        return 0;
    switch (r->out->tensor.dtype) {
    case DT_FLOAT:
        return most ? -(double)FLT_MAX : (double)FLT_MAX;
    case DT_DOUBLE:
        return most ? -DBL_MAX : DBL_MAX;
    case DT_INT32:
        return most ? INT32_MIN : INT32_MAX;
    default: /* the largest int64 is no double, so that no case has one */
        return most ? (double)INT64_MIN : 0;
    }
}

static void folded(const struct reference *r)
{
    const char *type = operation_type(r->op);
    const int sparse = strncmp(type, "Sparse", 6) == 0;
    const struct array *ids = &r->in[sparse ? 2 : 1];
    const int64_t rows = r->out->tensor.shape.dim[0];
    const int64_t width = rows > 0 ? r->out->n / rows : 0;

    for (int64_t i = 0; i < r->out->n; i++) {
        int64_t n;
        double y =
            fold(r, ids, sparse ? &r->in[1] : NULL, i / width, i % width, width, &n);

        if (n > 0 && strstr(type, "Mean") != NULL)
            y /= (double)n;
        if (n > 0 && strstr(type, "SqrtN") != NULL)
            y /= sqrt((double)n);
        r->out->v[i] =
            n > 0 ? (r->out->tensor.dtype == DT_INT32 || r->out->tensor.dtype == DT_INT64
                         ? trunc(y)
                         : y)
                  : empty(r);
    }
}

/* The gradient of a sparse sum, mean, or sum over the root of the number. */
static void spread(const struct reference *r)
{
    const char *type = operation_type(r->op);
    const struct array *grad = &r->in[0], *at = &r->in[1], *ids = &r->in[2];
    const int64_t width = grad->n / grad->tensor.shape.dim[0];

    for (int64_t i = 0; i < ids->n; i++) {
        double n = 0;

        for (int64_t k = 0; k < ids->n; k++)
            n += ids->v[k] == ids->v[i];
        if (strstr(type, "Mean") == NULL)
            n = strstr(type, "SqrtN") != NULL ? sqrt(n) : 1;
        for (int64_t k = 0; k < width; k++)
            r->out->v[(int64_t)at->v[i] * width + k] +=
                grad->v[(int64_t)ids->v[i] * width + k] / n;
    }
}

/* The same, without the rows that get nothing; their numbers are in the text. */
static void spread_to_some(const struct reference *r)
{
    const struct array *at = &r->in[1], *rows = &r->out[1];
    struct array in[3] = {r->in[0], r->in[1], r->in[2]};
    const struct reference of_rows = {r->op, in, r->out, 3, 1};
    double places[16];

    for (int64_t i = 0; i < at->n; i++)
        for (int64_t k = 0; k < rows->n; k++)
            if (rows->v[k] == at->v[i])
                places[i] = (double)k;
    in[1].v = places;
    spread(&of_rows);
}

#define FOLD(op, types, in, out)                                                         \
    {                                                                                    \
        op, types, in, NULL, out, folded, NULL, -3, 3, 8, 0                              \
    }
/* the gradient of a row of extrema needs the number of its dimensions */
#define RANKED(op, types, in, out)                                                       \
    {                                                                                    \
        op, types, in, NULL, out, folded, NULL, -3, 3, 8, CASE_KNOWN_RANKS               \
    }

const struct kernel_case segment_cases[] = {
    FOLD("SegmentSum", "fdil", "x(5,2) i(5)=0,0,2,2,2", "(3,2)"),
    FOLD("SegmentSum", "fdil", "x(3) l(3)=1,1,3", "(4)"),
    FOLD("SegmentSum", "fd", "x(0,2) i(0)", "(0,2)"),
    FOLD("SegmentSum", "fd", "x(3,2,2) I(3)=0,1,1", "(2,2,2)"),
    FOLD("SegmentMean", "fdil", "x(5,2) i(5)=0,0,2,2,2", "(3,2)"),
    FOLD("SegmentMean", "fd", "x(3) l(3)=0,0,1", "(2)"),
    FOLD("SegmentProd", "fdil", "x(5,2) i(5)=0,0,2,2,2", "(3,2)"),
    FOLD("SegmentMax", "fdil", "x(5,2) i(5)=0,0,2,2,2", "(3,2)"),
    FOLD("SegmentMin", "fdil", "x(5,2) l(5)=0,0,2,2,2", "(3,2)"),
    FOLD("UnsortedSegmentMax", "fdil", "x(5,2) i(5)=2,0,-1,2,1 I=3", "(3,2)"),
    FOLD("UnsortedSegmentMax", "f", "f(2,2) i(2)=1,1 I=3", "(3,2)"),
    FOLD("UnsortedSegmentMax", "f", "d(2,2) i(2)=1,1 I=3", "(3,2)"),
    FOLD("UnsortedSegmentMax", "f", "l(2,2) i(2)=1,1 I=3", "(3,2)"),
    RANKED("UnsortedSegmentMax", "fd", "x(2,2,3) l(2,2)=1,0,1,1 i=2", "(2,3)"),
    FOLD("UnsortedSegmentMin", "fdil", "x(5,2) l(5)=2,0,-1,2,1 I=3", "(3,2)"),
    FOLD("UnsortedSegmentMin", "f", "f(2,2) i(2)=1,1 I=3", "(3,2)"),
    FOLD("UnsortedSegmentMin", "f", "d(2,2) i(2)=1,1 I=3", "(3,2)"),
    FOLD("UnsortedSegmentMin", "f", "i(2,2) i(2)=1,1 I=3", "(3,2)"),
    FOLD("UnsortedSegmentProd", "fdil", "x(5,2) i(5)=2,0,-1,2,2 I=4", "(4,2)"),
    FOLD("UnsortedSegmentProd", "d", "x(4)=0,2,3,4 i(4)=0,0,1,0 I=2", "(2)"),
    FOLD("UnsortedSegmentProd", "d", "x(4)=0,2,0,4 i(4)=0,0,0,1 I=2", "(2)"),
    FOLD("SparseSegmentSum", "fdil", "x(4,2) i(5)=3,0,1,3,1 i(5)=0,0,2,2,2", "(3,2)"),
    FOLD("SparseSegmentSum", "fd", "x(4) l(3)=3,0,1 l(3)=0,0,1", "(2)"),
    FOLD("SparseSegmentMean", "fd", "x(4,2) i(5)=3,0,1,3,1 i(5)=0,0,2,2,2", "(3,2)"),
    FOLD("SparseSegmentSqrtN", "fd", "x(4,2) i(5)=3,0,1,3,1 i(5)=0,0,2,2,2", "(3,2)"),
    FOLD("SparseSegmentSumWithNumSegments", "fdil", "x(4,2) i(3)=3,0,1 i(3)=0,0,2 I=5",
         "(5,2)"),
    FOLD("SparseSegmentMeanWithNumSegments", "fd", "x(4,2) l(3)=3,0,1 i(3)=0,0,2 i=5",
         "(5,2)"),
    FOLD("SparseSegmentSqrtNWithNumSegments", "fd", "x(4,2) i(3)=3,0,1 l(3)=0,0,2 L=5",
         "(5,2)"),
    {"SparseSegmentSumGrad", "fd", "x(3,2) i(4)=1,0,1,3 i(4)=0,0,2,2 I=4", NULL, "(4,2)",
     spread, NULL, -3, 3, 4, 0},
    {"SparseSegmentMeanGrad", "fd", "x(3,2) l(4)=1,0,1,3 i(4)=0,0,2,2 i=4", NULL, "(4,2)",
     spread, NULL, -3, 3, 4, 0},
    {"SparseSegmentSqrtNGrad", "fd", "x(3) i(4)=1,0,1,3 i(4)=0,0,2,2 I=4", NULL, "(4)",
     spread, NULL, -3, 3, 4, 0},
    {"SparseSegmentSumGradV2", "fd", "x(3,2) i(4)=5,0,5,3 i(4)=0,0,2,2 I=6", NULL,
     "(3,2) (3)=0,3,5", spread_to_some, NULL, -3, 3, 4, 0},
    {"SparseSegmentMeanGradV2", "fd", "x(3,2) l(4)=5,0,5,3 i(4)=0,0,2,2 i=6", NULL,
     "(3,2) (3)=0,3,5", spread_to_some, NULL, -3, 3, 4, 0},
    {"SparseSegmentSqrtNGradV2", "fd", "x(3) i(4)=1,0,1,3 l(4)=0,0,2,2 I=4", NULL,
     "(3) (3)=0,1,3", spread_to_some, NULL, -3, 3, 4, 0},
    {NULL},
};
