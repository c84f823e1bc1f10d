#include "agent/algo/rows.h"

#include "common/mem/xmalloc.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define ALIGN_FLOATS 16 /* 64 bytes */

static int check(const struct stage_args *args, int fits, const char *what,
                 size_t n_agents, struct err *err)
{
    if (args->batch < 1 || !fits || args->store == NULL)
        return err_set(err, ERR_ARG, "stage %s: rows of %s expected", args->stage->name,
                       what);
    if (args->groups != 1 && args->groups != (int64_t)n_agents)
        return err_set(err, ERR_ARG, "stage %s: %lld groups of rows for %zu agents",
                       args->stage->name, (long long)args->groups, n_agents);
    return 0;
}

int rows_check(const struct stage_args *args, size_t n_agents, struct err *err)
{
    return check(args, args->length == 1, "single steps", n_agents, err);
}

int rows_check_episodes(const struct stage_args *args, size_t n_agents, struct err *err)
{
    return check(args, args->length >= 1, "episodes", n_agents, err);
}

int rows_check_window(const struct stage_args *args, int64_t minibatches, struct err *err)
{
    if (args->groups != 1 || args->store == NULL ||
        args->batch * args->length < minibatches)
        return err_set(err, ERR_ARG,
                       "stage %s: a window of rows expected, a row for each minibatch",
                       args->stage->name);
    return 0;
}

int rows_check_symmetry(const struct space *agents, size_t n_agents, size_t self,
                        int own_team, struct err *err)
{
    for (size_t i = 0; i < n_agents; i++) {
        if (own_team &&
            (agents[i].other || strcmp(agents[i].team, agents[self].team) != 0))
            continue;
        if (agents[i].symmetric && !agents[self].symmetric)
            return err_set_at(err, ERR_CONFIG, ERR_AT(.key = "settings.symmetry"),
                              "none, but %s has env: they read each other's %s",
                              agents[i].name, own_team ? "values" : "proposals");
    }
    return 0;
}

int64_t rows_group(const struct stage_args *args, size_t self)
{
    return args->groups > 1 ? (int64_t)self : 0;
}

int rows_input(const struct stage_args *args, const char *agent, const char *name,
               int64_t width, int64_t parts, int64_t part, const float **ret,
               struct err *err)
{
    const int64_t rows = args->batch * args->length;
    const struct shape want = SHAPE(parts, rows, width);
    const struct shape of_sequences = SHAPE(parts, args->batch, args->length);
    const struct tensor *t = args->input(args->input_ctx, agent, name);

    if (t == NULL)
        return err_set(err, ERR_PROTOCOL, "input %s/%s is missing", agent, name);
    if (t->dtype != DT_FLOAT || !(shape_equal(&t->shape, &want) ||
                                  (width == 1 && shape_equal(&t->shape, &of_sequences))))
        return err_set(err, ERR_SHAPE, "input %s/%s is %s, %s expected", agent, name,
                       shape_text(&t->shape), shape_text(&want));
    *ret = tensor_f32(t) + part * rows * width;
    return 0;
}

void rows_leave_out_absent(const struct store_view *store,
                           const struct life_columns *columns, const uint64_t *rows,
                           size_t n, float *alive, float *terminated, int64_t width,
                           float *actions)
{
    store_view_gather(store, columns->alive, rows, n, alive, 1);
    store_view_gather(store, columns->terminated, rows, n, terminated, 1);
    for (size_t i = 0; i < n; i++)
        if (alive[i] == 0 || terminated[i] == 1)
            memset(actions + i * (size_t)width, 0, (size_t)width * sizeof(*actions));
}

void rows_weights(float *weight, const float *weights, const float *alive, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        weight[i] = (weights != NULL ? weights[i] : 1.0f) * alive[i];
}

float rows_mean(float *weight, int64_t n)
{
    double sum = 0;

    for (int64_t i = 0; i < n; i++)
        sum += (double)weight[i];
    for (int64_t i = 0; i < n; i++)
        weight[i] = (float)((double)weight[i] / fmax(sum, 1));
    return sum > 0 ? (float)fmax(sum, 1) : 0;
}

void rows_targets(float *y, const float *reward, const float *terminated,
                  const float *next, float discount, int64_t n, struct stage_result *ret)
{
    double sum = 0, squares = 0, mean;

    for (int64_t i = 0; i < n; i++) {
        y[i] = reward[i] + discount * (1.0f - terminated[i]) * next[i];
        sum += (double)y[i];
    }
    mean = sum / (double)n;
    for (int64_t i = 0; i < n; i++) {
        const double d = (double)y[i] - mean;

        squares += d * d;
    }
    stage_scalar(ret, "target_q_mean", mean);
    stage_scalar(ret, "target_q_std", sqrt(squares / (double)n));
}

void rows_priorities(float *td, const float *weight, int64_t n, struct stage_result *ret)
{
    for (int64_t i = 0; i < n; i++)
        td[i] = weight[i] != 0 ? fabsf(td[i]) : 0;
    ret->priorities = tensor_view(DT_FLOAT, SHAPE(1, n), td);
}

void rows_td_error(const float *td, const float *weight, int64_t n,
                   struct stage_result *ret)
{
    double sum = 0, rows = 0;

    for (int64_t i = 0; i < n; i++) {
        if (weight[i] == 0)
            continue;
        sum += fabs((double)td[i]);
        rows++;
    }
    stage_shown(ret, "td_error", sum / rows);
}

void stage_shown(struct stage_result *ret, const char *name, double value)
{
    if (isfinite(value))
        stage_scalar(ret, name, value);
}

void stage_scalar(struct stage_result *ret, const char *name, double value)
{
    ret->scalar[ret->n_scalars].name = name;
    ret->scalar[ret->n_scalars++].value = value;
}

void stage_output(struct stage_result *ret, const char *name, struct tensor value)
{
    ret->output[ret->n_outputs].name = name;
    ret->output[ret->n_outputs++].value = value;
}
