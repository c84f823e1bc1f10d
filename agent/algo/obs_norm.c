#include "agent/algo/obs_norm.h"

#include "agent/graph/arithmetic.h"

#include <math.h>
#include <string.h>

#define EPSILON 1e-8
#define LIMIT   10.0

struct obs_norm obs_norm_new(struct graph *g, int64_t columns)
{
    const struct initializer zeros = zeros_initializer();
    const struct initializer ones = constant_initializer(1);
    struct obs_norm ret = {.columns = columns};

    variable_scope_enter(g, "observation_norm", NULL, REUSE_INHERIT);
    ret.statistics = get_variable(g, "statistics", DT_DOUBLE, &SHAPE(1 + 2 * columns),
                                  &zeros, VARIABLE_NOT_TRAINABLE);
    ret.mean = get_variable(g, "mean", DT_FLOAT, &SHAPE(columns), &zeros,
                            VARIABLE_NOT_TRAINABLE);
    ret.scale = get_variable(g, "scale", DT_FLOAT, &SHAPE(columns), &ones,
                             VARIABLE_NOT_TRAINABLE);
    variable_scope_leave(g);
    return ret;
}

/* The first n elements of a variable, as a row. */
static struct output first_of(struct graph *g, const struct variable *v, int64_t n)
{
    const struct output row = reshape(g, v->read, &SHAPE(1, v->shape.dim[0]), NULL);

    return slice_columns(g, row, 0, n, NULL);
}

struct output obs_norm_apply(const struct obs_norm *o, struct graph *g, struct output x,
                             int64_t n)
{
    struct output parts[2] = {x};
    const int64_t rest = output_valid(x) ? output_shape(x).dim[1] - n : 0;

    if (o->statistics == NULL || o->mean == NULL || o->scale == NULL)
        return x;
    if (rest > 0) {
        parts[1] = slice_columns(g, x, n, rest, NULL);
        parts[0] = slice_columns(g, x, 0, n, NULL);
    }
    parts[0] = sub(g, parts[0], first_of(g, o->mean, n));
    parts[0] = mul(g, parts[0], first_of(g, o->scale, n));
    parts[0] = clip_by_value(g, parts[0], -LIMIT, LIMIT, NULL);
    return rest > 0 ? concat(g, parts, 2, 1, NULL) : parts[0];
}

/* Joins the mean and the squares of a column with those of n rows: Chan et al. 1979. */
static void join(double before, double *mean, double *squares, double n, double rows_mean,
                 double rows_squares)
{
    const double apart = rows_mean - *mean, all = before + n;

    *mean += apart * n / all;
    *squares += rows_squares + apart * apart * before * n / all;
}

static void summarize_column(double rows, const float *x, int64_t n, int64_t stride,
                             const float *weight, double *ret_mean, double *ret_squares)
{
    double sum = 0, distance = 0;

    for (int64_t i = 0; i < n; i++)
        sum += weight[i] != 0 ? (double)x[i * stride] : 0;
    for (int64_t i = 0; i < n; i++) {
        const double d = (double)x[i * stride] - sum / rows;

        distance += weight[i] != 0 ? d * d : 0;
    }
    *ret_mean = sum / rows;
    *ret_squares = distance;
}

void obs_norm_summarize(const struct obs_norm *o, const float *rows, int64_t n,
                        int64_t stride, const float *weight, double *ret)
{
    double *means = ret + 1, *squares = means + o->columns;

    memset(ret, 0, (size_t)(1 + 2 * o->columns) * sizeof(*ret));
    for (int64_t i = 0; i < n; i++)
        ret[0] += weight[i] != 0;
    for (int64_t k = 0; ret[0] > 0 && k < o->columns; k++)
        summarize_column(ret[0], rows + k, n, stride, weight, &means[k], &squares[k]);
}

int obs_norm_count(const struct obs_norm *o, struct session *s, const double *summary,
                   struct err *err)
{
    const int64_t columns = o->columns;
    const double *rows_means = summary + 1, *rows_squares = rows_means + columns;
    struct tensor statistics, mean, scale;
    double *count, *means, *squares;
    float *to_mean, *to_scale;
    int rc;

    if ((rc = session_variable(s, o->statistics, &statistics, err)) < 0 ||
        (rc = session_variable(s, o->mean, &mean, err)) < 0 ||
        (rc = session_variable(s, o->scale, &scale, err)) < 0 || summary[0] == 0)
        return rc;
    count = statistics.data;
    means = count + 1;
    squares = means + columns;
    to_mean = mean.data;
    to_scale = scale.data;
    for (int64_t k = 0; k < columns; k++)
        join(*count, &means[k], &squares[k], summary[0], rows_means[k], rows_squares[k]);
    *count += summary[0];
    for (int64_t k = 0; k < columns; k++) {
        to_mean[k] = (float)means[k];
        to_scale[k] = (float)(1 / sqrt(squares[k] / *count + EPSILON));
    }
    return 0;
}
