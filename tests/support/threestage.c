#include "tests/support/threestage.h"

#include "agent/algo/reads.h"
#include "agent/nn/nn.h"
#include "common/mem/xmalloc.h"

#include <stdlib.h>
#include <string.h>

struct algo {
    struct algo_args args;
    struct variable *parameter; /* w_i of a learner, s of the central process */
    struct operation *init;
    int reward; /* column of the log */
    float *out; /* (B) q, or (N, B) gradients; the result of the stage */
};

static const struct stage stages[] = {
    {.name = "values", .runner = STAGE_LEARNERS},
    {.name = "mix",
     .runner = STAGE_CENTRAL,
     .reads = {"values/q"},
     .writes = 1,
     .repeat_from = 1},
    {.name = "learn",
     .runner = STAGE_LEARNERS,
     .reads = {"mix/gradient"},
     .writes = 1,
     .repeat_from = 1,
     .repeat = THREESTAGE_REPEATS},
};

static const char *own_name(const struct algo *a)
{
    return a->args.central ? "central" : a->args.agents[a->args.self].name;
}

static int build(struct algo *a, const struct algo_args *args, struct err *err)
{
    const struct initializer one = ones_initializer();

    a->args = *args;
    variable_scope_enter(args->graph, own_name(a), NULL, REUSE_INHERIT);
    a->parameter =
        get_variable(args->graph, "parameter", DT_FLOAT, &SHAPE_SCALAR, &one, 0);
    variable_scope_leave(args->graph);
    a->init = global_variables_initializer(args->graph, NULL);
    return 0;
}

static void done(struct algo *a)
{
    free(a->out);
}

static const struct stage *get_stages(const struct algo *a, size_t *ret_n)
{
    *ret_n = sizeof(stages) / sizeof(stages[0]);
    return stages;
}

static void reads(struct algo *a, struct reads *r)
{
    if (!a->args.central)
        reads_add(r, own_name(a), "reward", 1, &a->reward);
}

static int64_t carry_width(const struct algo *a)
{
    return 0;
}

static int init(struct algo *a, struct session *s, struct rng_key key, struct err *err)
{
    const struct run_args run = {.targets = &a->init, .n_targets = 1, .key = key};

    return session_run(s, &run, NULL, err);
}

/* Always chooses the first move of each head. */
static int act(struct algo *a, struct session *s, const struct act_args *args,
               struct act_result *ret, struct err *err)
{
    const struct space *space = &a->args.agents[a->args.self];

    memset(ret->actions, 0, args->n_copies * (size_t)space->width * sizeof(float));
    for (size_t e = 0; e < args->n_copies; e++)
        ret->actions[e * (size_t)space->width] = 1;
    return 0;
}

static int get(struct algo *a, struct session *s, float *ret, struct err *err)
{
    struct tensor t;
    int r = session_variable(s, a->parameter, &t, err);

    if (r == 0)
        *ret = *tensor_f32(&t);
    return r;
}

static int descend(struct algo *a, struct session *s, float gradient, const char *what,
                   double value, struct stage_result *ret, struct err *err)
{
    float p = 0;
    int r = get(a, s, &p, err);

    if (r < 0)
        return r;
    p -= THREESTAGE_RATE * gradient;
    ret->n_scalars = 1;
    ret->scalar[0].name = what;
    ret->scalar[0].value = value;
    return session_variable_set(s, a->parameter, &(struct tensor){DT_FLOAT, .data = &p},
                                err);
}

static float *rewards(struct algo *a, const struct stage_args *args)
{
    float *r = xcalloc((size_t)args->batch, sizeof(float));

    store_view_gather(args->store, a->reward, args->rows, (size_t)args->batch, r, 1);
    return r;
}

static int values(struct algo *a, struct session *s, const struct stage_args *args,
                  struct stage_result *ret, struct err *err)
{
    float w = 0;
    int r = get(a, s, &w, err);

    if (r < 0)
        return r;
    free(a->out);
    a->out = rewards(a, args);
    for (int64_t b = 0; b < args->batch; b++)
        a->out[b] *= w;
    ret->n_outputs = 1;
    ret->output[0].name = "q";
    ret->output[0].value = tensor_view(DT_FLOAT, SHAPE(args->batch), a->out);
    return 0;
}

static int mix(struct algo *a, struct session *s, const struct stage_args *args,
               struct stage_result *ret, struct err *err)
{
    const size_t n = a->args.n_agents, batch = (size_t)args->batch;
    float scale = 0, gradient = 0, loss = 0, *total = xcalloc(batch, sizeof(float));
    int r = get(a, s, &scale, err);

    for (size_t i = 0; r == 0 && i < n; i++) {
        const struct tensor *q =
            args->input(args->input_ctx, a->args.agents[i].name, "q");

        if (q == NULL || tensor_elements(q) != args->batch)
            r = err_set(err, ERR_PROTOCOL, "no q of %s", a->args.agents[i].name);
        for (size_t b = 0; r == 0 && b < batch; b++)
            total[b] += (float)(i + 1) * tensor_f32(q)[b];
    }
    free(a->out);
    a->out = xcalloc(n * batch, sizeof(float));
    for (size_t b = 0; b < batch; b++) {
        const float error = scale * total[b] - 1;

        loss += error * error / (float)batch;
        gradient += 2 * error * total[b] / (float)batch;
        for (size_t i = 0; i < n; i++)
            a->out[i * batch + b] = 2 * error * scale * (float)(i + 1) / (float)batch;
    }
    free(total);
    if (r < 0)
        return r;
    ret->n_outputs = 1;
    ret->output[0].name = "gradient";
    ret->output[0].value = tensor_view(DT_FLOAT, SHAPE((int64_t)n, args->batch), a->out);
    return descend(a, s, gradient, "critic_loss", (double)loss, ret, err);
}

static int learn(struct algo *a, struct session *s, const struct stage_args *args,
                 struct stage_result *ret, struct err *err)
{
    const struct tensor *g = args->input(args->input_ctx, "central", "gradient");
    float *reward, gradient = 0;

    if (g == NULL || tensor_elements(g) != (int64_t)a->args.n_agents * args->batch)
        return err_set(err, ERR_PROTOCOL, "no gradient of central");
    reward = rewards(a, args);
    for (int64_t b = 0; b < args->batch; b++)
        gradient += tensor_f32(g)[(int64_t)a->args.self * args->batch + b] * reward[b];
    free(reward);
    return descend(a, s, gradient, "actor_grad_norm", (double)gradient, ret, err);
}

static int stage(struct algo *a, struct session *s, const struct stage_args *args,
                 struct stage_result *ret, struct err *err)
{
    static int (*const play[])(struct algo *, struct session *, const struct stage_args *,
                               struct stage_result *,
                               struct err *) = {values, mix, learn};

    if (args->store == NULL || args->groups != 1)
        return err_set(err, ERR_ARG, "one group of rows expected");
    return play[args->stage - stages](a, s, args, ret, err);
}

const struct algo_ops threestage_ops = {
    .name = "threestage",
    .size = sizeof(struct algo),
    .build = build,
    .done = done,
    .stages = get_stages,
    .reads = reads,
    .carry_width = carry_width,
    .init = init,
    .act = act,
    .stage = stage,
};
