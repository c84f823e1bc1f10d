#include "agent/algo/value_norm.h"

#include "agent/nn/nn.h"

#include <math.h>

#define KEEP           0.99999
#define SMALL_DEBIAS   1e-5
#define SMALL_VARIANCE 0.01

enum { M1, M2, DEBIAS, N_STATISTICS };

struct value_norm value_norm_new(struct graph *g, enum value_norm_kind kind)
{
    const struct initializer zeros = zeros_initializer();
    struct value_norm ret = {.kind = kind};

    if (kind == VALUE_NORM_NONE)
        return ret;
    variable_scope_enter(g, "value_norm", NULL, REUSE_INHERIT);
    ret.statistics = get_variable(g, "statistics", DT_DOUBLE, &SHAPE(N_STATISTICS),
                                  &zeros, VARIABLE_NOT_TRAINABLE);
    variable_scope_leave(g);
    return ret;
}

static struct value_scale scale_of(const double *x)
{
    const double debias = fmax(x[DEBIAS], SMALL_DEBIAS);
    const double mean = x[M1] / debias;

    return (struct value_scale){mean,
                                sqrt(fmax(x[M2] / debias - mean * mean, SMALL_VARIANCE))};
}

int value_norm_scale(const struct value_norm *v, struct session *s,
                     struct value_scale *ret, struct err *err)
{
    struct tensor t;
    int rc;

    *ret = (struct value_scale){0, 1};
    if (v->kind == VALUE_NORM_NONE)
        return 0;
    rc = session_variable(s, v->statistics, &t, err);
    if (rc == 0)
        *ret = scale_of(t.data);
    return rc;
}

/* Keeps w sd + m the same function of the inputs of the layer. */
static int rescale_last_layer(const struct value_layer *v, struct session *s,
                              struct value_scale was, struct value_scale is,
                              struct err *err)
{
    struct tensor w, b;
    float *weight, *bias;
    int rc;

    if (v->weights == NULL)
        return 0;
    if ((rc = session_variable(s, v->weights, &w, err)) < 0 ||
        (rc = session_variable(s, v->biases, &b, err)) < 0)
        return rc;
    weight = w.data;
    bias = b.data;
    for (int64_t i = 0; i < tensor_elements(&w); i++)
        weight[i] = (float)((double)weight[i] * was.deviation / is.deviation);
    for (int64_t i = 0; i < tensor_elements(&b); i++)
        bias[i] = value_rescaled(&was, &is, bias[i]);
    return 0;
}

int value_norm_update(const struct value_norm *v, struct session *s, double mean,
                      double squares, int64_t times, struct err *err)
{
    struct value_scale was;
    struct tensor t;
    double *x, keep = 1;
    int rc;

    if (v->kind == VALUE_NORM_NONE)
        return 0;
    rc = session_variable(s, v->statistics, &t, err);
    if (rc < 0)
        return rc;
    x = t.data;
    was = scale_of(x);
    for (int64_t i = 0; i < times; i++) /* pow() is not the same on every machine */
        keep *= KEEP;
    x[M1] = keep * x[M1] + (1 - keep) * mean;
    x[M2] = keep * x[M2] + (1 - keep) * squares;
    x[DEBIAS] = keep * x[DEBIAS] + (1 - keep);
    if (v->kind != VALUE_NORM_POPART)
        return 0;
    rc = rescale_last_layer(&v->value, s, was, scale_of(x), err);
    return rc < 0 ? rc : rescale_last_layer(&v->target, s, was, scale_of(x), err);
}
