/* What reverses, rolls, accumulates, mirrors, repeats or passes on tensors, and bins. Values in
 * the rows are those of TensorFlow 2.21. */
#include "tests/agent/kernel_cases.h"

#include <math.h>
#include <string.h>

/* ---- order ---- */

static int is(const struct reference *r, const char *type)
{
    return strcmp(operation_type(r->op), type) == 0;
}

static int64_t attr(const struct reference *r, const char *name)
{
    return operation_attr(r->op, name)->i;
}

/* Each element comes from a mapped index. */
static void reversed(const struct reference *r)
{
    const struct shape *s = &r->in[0].tensor.shape;

    for (int64_t i = 0; i < r->out->n; i++) {
        int64_t index[SHAPE_MAX_RANK];

        unravel(s, i, index);
        for (int64_t k = 0; k < r->in[1].n; k++) {
            int d = is(r, "Reverse") ? (int)k : (int)r->in[1].v[k];

            if (is(r, "Reverse") && r->in[1].v[k] == 0)
                continue;
            d += d < 0 ? s->rank : 0;
            index[d] = s->dim[d] - 1 - index[d];
        }
        r->out->v[i] = r->in[0].v[ravel(s, index, s->rank)];
    }
}

static void reversed_sequences(const struct reference *r)
{
    const struct shape *s = &r->in[0].tensor.shape;
    const int64_t seq = attr(r, "seq_dim"), batch = attr(r, "batch_dim");

    for (int64_t i = 0; i < r->out->n; i++) {
        int64_t index[SHAPE_MAX_RANK], n;

        unravel(s, i, index);
        n = (int64_t)r->in[1].v[index[batch]];
        if (index[seq] < n)
            index[seq] = n - 1 - index[seq];
        r->out->v[i] = r->in[0].v[ravel(s, index, s->rank)];
    }
}

static void rolled(const struct reference *r)
{
    const struct shape *s = &r->in[0].tensor.shape;

    for (int64_t i = 0; i < r->in[0].n; i++) {
        int64_t index[SHAPE_MAX_RANK];

        unravel(s, i, index);
        for (int64_t k = 0; k < r->in[2].n; k++) {
            const int d = (int)r->in[2].v[k] + (r->in[2].v[k] < 0 ? s->rank : 0);
            const int64_t to = (index[d] + (int64_t)r->in[1].v[k]) % s->dim[d];

            index[d] = to < 0 ? to + s->dim[d] : to;
        }
        r->out->v[ravel(s, index, s->rank)] = r->in[0].v[i];
    }
}

/* ---- running results ---- */

static double combine(const struct reference *r, double x, double y)
{
    return is(r, "Cumsum") ? x + y : is(r, "Cumprod") ? x * y : log(exp(x) + exp(y));
}

/* Combines everything before (or after) the element, and itself. */
static void running(const struct reference *r)
{
    const struct shape *s = &r->in[0].tensor.shape;
    const int axis = (int)r->in[1].v[0] + (r->in[1].v[0] < 0 ? s->rank : 0);
    const double start = is(r, "Cumsum") ? 0 : is(r, "Cumprod") ? 1 : -INFINITY;

    for (int64_t i = 0; i < r->out->n; i++) {
        int64_t index[SHAPE_MAX_RANK], at;

        unravel(s, i, index);
        at = index[axis];
        r->out->v[i] = start;
        for (index[axis] = 0; index[axis] < s->dim[axis]; index[axis]++) {
            const int64_t k = index[axis];

            if ((attr(r, "reverse") ? k > at : k < at) ||
                (k == at && !attr(r, "exclusive")))
                r->out->v[i] =
                    combine(r, r->out->v[i], r->in[0].v[ravel(s, index, s->rank)]);
        }
    }
}

/* ---- repetition ---- */

static void repeated(const struct reference *r)
{
    const struct shape *s = &r->out->tensor.shape;

    for (int64_t i = 0; i < r->out->n; i++) {
        int64_t index[SHAPE_MAX_RANK];

        unravel(s, i, index);
        r->out->v[i] = r->in[0].v[ravel(&r->in[0].tensor.shape, index, s->rank)];
    }
}

static void first_input(const struct reference *r)
{
    for (int k = 0; k < r->n_out; k++)
        memcpy(r->out[k].v, r->in[k].v, sizeof(double) * (size_t)r->out[k].n);
}

/* Pads with the value of input 2, or mirrors: entry -1-k is entry k (SYMMETRIC) or k+1. */
static int64_t inside(const struct reference *r, int64_t k, int64_t n)
{
    const int edge = operation_attr(r->op, "mode")->s[0] == 'S';

    for (; k < 0 || k >= n;)
        k = k < 0 ? -k - edge : 2 * n - 2 + edge - k;
    return k;
}

static void padded(const struct reference *r)
{
    const int mirrors = !is(r, "PadV2"), folds = is(r, "MirrorPadGrad");
    const struct array *big = folds ? &r->in[0] : r->out;
    const struct array *small = folds ? r->out : &r->in[0];
    const struct shape *s = &small->tensor.shape;

    for (int64_t i = 0; i < big->n; i++) {
        int64_t index[SHAPE_MAX_RANK], at;
        int is_inside = 1;

        unravel(&big->tensor.shape, i, index);
        for (int d = 0; d < s->rank; d++) {
            index[d] -= (int64_t)r->in[1].v[2 * d];
            if (mirrors)
                index[d] = inside(r, index[d], s->dim[d]);
            is_inside &= index[d] >= 0 && index[d] < s->dim[d];
        }
        at = is_inside ? ravel(s, index, s->rank) : -1;
        if (folds)
            r->out->v[at] += r->in[0].v[i];
        else
            r->out->v[i] = at < 0 ? r->in[2].v[0] : r->in[0].v[at];
    }
}

static void norm(const struct reference *r)
{
    const struct shape *s = &r->in[0].tensor.shape;

    for (int64_t i = 0; i < r->in[0].n; i++) {
        int64_t index[SHAPE_MAX_RANK], at = 0;

        unravel(s, i, index);
        for (int d = 0; d < s->rank; d++) {
            int gone = 0;

            for (int64_t k = 0; k < r->in[1].n; k++)
                gone |= (int)r->in[1].v[k] == d || (int)r->in[1].v[k] + s->rank == d;
            at = gone ? at : at * s->dim[d] + index[d];
        }
        r->out->v[at] += r->in[0].v[i] * r->in[0].v[i];
    }
    for (int64_t i = 0; i < r->out->n; i++)
        r->out->v[i] = sqrt(r->out->v[i]);
}

/* ---- the rows ---- */

#define ROW(op, types, f, ulps, in, attrs, out)                                          \
    {                                                                                    \
        op, types, in, attrs, out, f, NULL, 0.5, 2, ulps, 0                              \
    }
#define GIVEN(op, types, in, attrs, out)                                                 \
    {                                                                                    \
        op, types, in, attrs, out, NULL, NULL, .ulps = 2, .flags = CASE_NO_DIFFERENCE    \
    }
#define RUNNING(op, types, ulps)                                                         \
    ROW(op, types, running, ulps, "x(2,3,2) I=1", NULL, "(2,3,2)"),                      \
        ROW(op, types, running, ulps, "x(2,3,2) i=-3", "exclusive=true", "(2,3,2)"),     \
        ROW(op, types, running, ulps, "x(2,4) L=-1", "reverse=true", "(2,4)"),           \
        ROW(op, types, running, ulps, "x(5) i=0", "exclusive=true reverse=true", "(5)"), \
        ROW(op, types, running, ulps, "x(0,3) i=0", NULL, "(0,3)"),                      \
        ROW(op, types, running, ulps, "x(3,0) i=0", NULL, "(3,0)")

const struct kernel_case axes_cases[] = {
    ROW("ReverseV2", "fdilb", reversed, 0, "x(2,3,2) I(1)=1", NULL, "(2,3,2)"),
    ROW("ReverseV2", "fdl", reversed, 0, "x(2,3,2) i(2)=-1,0", NULL, "(2,3,2)"),
    ROW("ReverseV2", "fd", reversed, 0, "x(4) l(0)", NULL, "(4)"),
    ROW("ReverseV2", "fd", reversed, 0, "x(0,3) i(1)=0", NULL, "(0,3)"),
    ROW("ReverseV2", "fd", reversed, 0, "x I(0)", NULL, "."),
    ROW("Reverse", "fdil", reversed, 0, "x(2,3) b(2)=0,1", NULL, "(2,3)"),
    ROW("Reverse", "fd", reversed, 0, "x(2,3) b(2)=1,1", NULL, "(2,3)"),
    ROW("ReverseSequence", "fdil", reversed_sequences, 0, "x(3,4,2) l(3)=2,0,4",
        "seq_dim=1", "(3,4,2)"),
    ROW("ReverseSequence", "fd", reversed_sequences, 0, "x(4,3) i(3)=1,3,4",
        "seq_dim=0 batch_dim=1", "(4,3)"),
    ROW("ReverseSequence", "fd", reversed_sequences, 0, "x(2,2,3) i(3)=1,2,0",
        "seq_dim=0 batch_dim=2", "(2,2,3)"),
    ROW("ReverseSequence", "fd", reversed_sequences, 0, "x(2,0) i(2)=0,0", "seq_dim=1",
        "(2,0)"),
    ROW("Roll", "fdilb", rolled, 0, "x(2,5) i=2 i=1", NULL, "(2,5)"),
    ROW("Roll", "fd", rolled, 0, "x(3,5) l(2)=-4,1 i(2)=-1,0", NULL, "(3,5)"),
    ROW("Roll", "fd", rolled, 0, "x(4,2) i(2)=3,-10 I(2)=0,0", NULL, "(4,2)"),
    ROW("Roll", "fd", rolled, 0, "x(0,2) i=3 i=0", NULL, "(0,2)"),
    RUNNING("Cumsum", "fdil", 4),
    RUNNING("Cumprod", "fdil", 6),
    ROW("CumulativeLogsumexp", "fd", running, 6, "x(2,3) i=1", NULL, "(2,3)"),
    ROW("CumulativeLogsumexp", "d", running, 6, "x(2,3) I=0", "reverse=true", "(2,3)"),
    /* the first result is -inf */
    GIVEN("CumulativeLogsumexp", "fd", "x(3)=0,0,1 i=0", "exclusive=true",
          "(3)=-inf,0,0.69314718055994531"),
    GIVEN("CumulativeLogsumexp", "fd", "x(2)=nan,1 i=0", NULL, "(2)=nan,nan"),
    /* TensorFlow has no gradient for the value */
    ROW("PadV2", "d", padded, 0, "x(2,3) I(2,2)=1,0,2,1 d", NULL, "(3,6)"),
    ROW("PadV2", "f", padded, 0, "x(0) i(1,2)=1,2 f", NULL, "(3)"),
    ROW("PadV2", "il", padded, 0, "x(2) i(1,2)=1,2 x", NULL, "(5)"),
    ROW("MirrorPad", "fdilb", padded, 0, "x(2,3) I(2,2)=1,0,2,1", "mode=REFLECT",
        "(3,6)"),
    ROW("MirrorPad", "fdl", padded, 0, "x(2,3) i(2,2)=1,2,3,0", "mode=SYMMETRIC",
        "(5,6)"),
    GIVEN("MirrorPad", "i", "x(3)=1,2,3 i(1,2)=2,1", "mode=REFLECT", "(6)=3,2,1,2,3,2"),
    GIVEN("MirrorPad", "i", "x(3)=1,2,3 i(1,2)=2,3", "mode=SYMMETRIC",
          "(8)=2,1,1,2,3,3,2,1"),
    ROW("MirrorPadGrad", "fdil", padded, 2, "x(3,6) I(2,2)=1,0,2,1", "mode=REFLECT",
        "(2,3)"),
    ROW("MirrorPadGrad", "fdil", padded, 2, "x(5,6) i(2,2)=1,2,3,0", "mode=SYMMETRIC",
        "(2,3)"),
    ROW("EuclideanNorm", "fd", norm, 8, "x(2,3,4) I(1)=1", NULL, "(2,4)"),
    ROW("EuclideanNorm", "fd", norm, 8, "x(2,3) i(2)=0,-1", "keep_dims=true", "(1,1)"),
    GIVEN("EuclideanNorm", "fdil", "x(2)=3,4 i(1)=0", NULL, ".=5"),
    ROW("BroadcastTo", "fdilb", repeated, 0, "x(3) I(2)=2,3", NULL, "(2,3)"),
    ROW("BroadcastTo", "fd", repeated, 0, "x(2,1) l(3)=2,2,4", NULL, "(2,2,4)"),
    ROW("BroadcastTo", "fd", repeated, 0, "x(2,3) i(2)=2,3", NULL, "(2,3)"),
    ROW("BroadcastTo", "fd", repeated, 0, "x i(0)", NULL, "."),
    ROW("BroadcastTo", "fd", repeated, 0, "x i(2)=0,2", NULL, "(0,2)"),
    GIVEN("BroadcastArgs", "il", "x(2)=3,1 x(3)=4,1,2", NULL, "(3)=4,3,2"),
    GIVEN("BroadcastArgs", "il", "x(0) x(1)=4", NULL, "(1)=4"),
    ROW("IdentityN", "fdilb", first_input, 0, "x(2,3) i(4)=1,2,3,4 x", NULL,
        "(2,3) (4) ."),
    ROW("Snapshot", "fdilb", first_input, 0, "x(2,3)", NULL, "(2,3)"),
    ROW("DeepCopy", "fdilb", first_input, 0, "x(2,3)", NULL, "(2,3)"),
    {"PreventGradient", "fdilb", "x(2,3)", NULL, "(2,3)", first_input, NULL, .high = 2,
     .flags = CASE_NO_DIFFERENCE},
    ROW("EnsureShape", "fdilb", first_input, 0, "x(2,3)", "shape=(2,-1)", "(2,3)"),
    ROW("Print", "f", first_input, 0, "x(2,3) i(4)=1,2,3,4 d", "message=shown:", "(2,3)"),
    ROW("CheckNumericsV2", "fd", first_input, 0, "x(2,3)", "message=here", "(2,3)"),
    GIVEN("LinSpace", "fd", "x=1 x=3 i=5", NULL, "(5)=1,1.5,2,2.5,3"),
    GIVEN("LinSpace", "fd", "x=1 x=3 I=1", NULL, "(1)=1"),
    GIVEN("Empty", "f", "i(2)=2,2", "dtype=@d", "(2,2)"),
    GIVEN("HistogramFixedWidth", "fd", "x(7)=-1,0,1.5,2,5,15,4.75 x(2)=0,5 I=5", NULL,
          "(5)=2,1,1,0,3"),
    GIVEN("HistogramFixedWidth", "il", "x(3)=-1,0,9 x(2)=0,6 i=2", "dtype=@l", "(2)=2,1"),
    GIVEN("Bucketize", "fd", "x(6)=-1,0,0.5,2,5,15", "boundaries=[0.0,2.0,5.0]",
          "(6)=0,1,1,2,3,3"),
    GIVEN("Bucketize", "il", "x(2,1)=-1,7", "boundaries=[0.0,2.0]", "(2,1)=0,2"),
    {NULL},
};
