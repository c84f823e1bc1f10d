#include "tests/support/rowkinds.h"

#include "agent/algo/reads.h"
#include "agent/nn/nn.h"
#include "common/mem/xmalloc.h"

#include <stdlib.h>
#include <string.h>

enum { TRAIL = 2 };

struct algo {
    struct algo_args args;
    enum rows_kind kind;
    struct variable *parameter;
    struct operation *init;
    struct {
        int reward, first, log_prob, trail;
    } column; /* of the log */
};

static const struct stage stages[] = {
    {.name = "learn", .runner = STAGE_LEARNERS, .writes = 1}};

static int build(struct algo *a, const struct algo_args *args, struct err *err)
{
    const struct initializer one = ones_initializer();

    a->args = *args;
    a->kind = algorithm_of(args->config)->name[0] == 'm'    ? ROWS_TRANSITIONS
              : strcmp(args->config->algorithm, "iql") == 0 ? ROWS_WINDOW
                                                            : ROWS_EPISODES;
    variable_scope_enter(args->graph, args->agents[args->self].name, NULL, REUSE_INHERIT);
    a->parameter =
        get_variable(args->graph, "parameter", DT_FLOAT, &SHAPE_SCALAR, &one, 0);
    variable_scope_leave(args->graph);
    a->init = global_variables_initializer(args->graph, NULL);
    return 0;
}

static void done(struct algo *a)
{
    (void)a;
}

static const struct stage *get_stages(const struct algo *a, size_t *ret_n)
{
    *ret_n = 1;
    return stages;
}

static void reads(struct algo *a, struct reads *r)
{
    const char *name = a->args.agents[a->args.self].name;

    reads_add(r, name, "reward", 1, &a->column.reward);
    reads_add(r, NULL, "first", 1, &a->column.first);
    reads_add(r, name, "log_prob", 1, &a->column.log_prob);
    reads_add(r, name, "trail", TRAIL, &a->column.trail);
}

static int64_t carry_width(const struct algo *a)
{
    return 0;
}

static void get_rows(const struct algo *a, struct algo_rows *ret)
{
    ret->kind = a->kind;
    ret->length = a->kind == ROWS_TRANSITIONS ? ROWKINDS_LENGTH : 0;
}

static size_t get_columns(const struct algo *a, struct algo_column *ret)
{
    ret[0] = (struct algo_column){"log_prob", 1};
    ret[1] = (struct algo_column){"trail", TRAIL};
    return 2;
}

static int init(struct algo *a, struct session *s, struct rng_key key, struct err *err)
{
    return algo_run_each(s, &a->init, 1, key, err);
}

static int get(const struct algo *a, struct session *s, float *ret, struct err *err)
{
    struct tensor t;
    int r = session_variable(s, a->parameter, &t, err);

    if (r == 0)
        *ret = *tensor_f32(&t);
    return r;
}

static int act(struct algo *a, struct session *s, const struct act_args *args,
               struct act_result *ret, struct err *err)
{
    const size_t width = (size_t)a->args.agents[a->args.self].width;
    float w = 0;
    int r = get(a, s, &w, err);

    memset(ret->actions, 0, args->n_copies * width * sizeof(float));
    for (size_t e = 0; e < args->n_copies; e++) {
        ret->actions[e * width + (args->counter[e] + a->args.self) % width] = 1;
        if (ret->columns[0] == NULL)
            continue;
        ret->columns[0][e] = 0.5f * w + (float)(args->counter[e] % 7);
        ret->columns[1][e * TRAIL] = w;
        ret->columns[1][e * TRAIL + 1] = (float)args->counter[e];
    }
    return r;
}

static int is_there(const struct stage_args *args, int64_t b, int64_t t)
{
    return args->rows[b * args->length + t] != ROW_NONE;
}

/* Checks what the kind of rows guarantees. The second number of "trail" is the row's
 * number. */
static int check_rows(const struct algo *a, const struct stage_args *args,
                      const float *first, const float *trail, struct err *err)
{
    int64_t holes = 0;

    for (int64_t b = 0; b < args->groups * args->batch; b++) {
        for (int64_t t = 0; t < args->length; t++) {
            const int64_t i = b * args->length + t;

            holes += !is_there(args, b, t);
            if (is_there(args, b, t) && (uint64_t)trail[i * TRAIL + 1] != args->rows[i])
                return err_set(err, ERR_STATE, "row %lld has another row's column",
                               (long long)args->rows[i]);
            if (t > 0 && is_there(args, b, t) &&
                (!is_there(args, b, t - 1) || (first[i] > 0 && a->kind != ROWS_WINDOW)))
                return err_set(err, ERR_STATE, "a sequence goes on behind its end");
        }
        if (!is_there(args, b, 0) ||
            (a->kind == ROWS_EPISODES && first[b * args->length] < 1))
            return err_set(err, ERR_STATE, "an episode without its beginning");
    }
    if (a->kind == ROWS_WINDOW &&
        (holes > 0 || args->groups != 1 ||
         args->rows[args->batch * args->length - 1] + 1 != args->step ||
         args->rows[0] + (uint64_t)(args->batch * args->length) != args->step))
        return err_set(err, ERR_STATE, "not the newest rows");
    return 0;
}

static int stage(struct algo *a, struct session *s, const struct stage_args *args,
                 struct stage_result *ret, struct err *err)
{
    const size_t n = (size_t)(args->groups * args->batch * args->length);
    float *x = xcalloc(n * (3 + TRAIL), sizeof(float)), w = 0;
    float *reward = x, *first = x + n, *log_prob = x + 2 * n, *trail = x + 3 * n;
    double sum = 0;
    int r;

    store_view_gather(args->store, a->column.reward, args->rows, n, reward, 1);
    store_view_gather(args->store, a->column.first, args->rows, n, first, 1);
    store_view_gather(args->store, a->column.log_prob, args->rows, n, log_prob, 1);
    store_view_gather(args->store, a->column.trail, args->rows, n, trail, TRAIL);
    r = check_rows(a, args, first, trail, err);
    for (size_t i = 0; i < n; i++)
        sum +=
            (double)(i % 13 + 1) * (double)(reward[i] + log_prob[i] - trail[i * TRAIL] +
                                            (args->rows[i] == ROW_NONE));
    free(x);
    if (r < 0 || (r = get(a, s, &w, err)) < 0)
        return r;
    w = 0.9f * w + (float)(sum / (double)n);
    ret->n_scalars = 1;
    ret->scalar[0].name = "critic_loss";
    ret->scalar[0].value = (double)w;
    return session_variable_set(s, a->parameter, &(struct tensor){DT_FLOAT, .data = &w},
                                err);
}

const struct algo_ops rowkinds_ops = {
    .name = "rowkinds",
    .size = sizeof(struct algo),
    .build = build,
    .done = done,
    .stages = get_stages,
    .carry_width = carry_width,
    .rows = get_rows,
    .columns = get_columns,
    .reads = reads,
    .init = init,
    .act = act,
    .stage = stage,
};
