/* Executes a schedule: plans, and the staged operations between them. */
#include "agent/flow/stages.h"

#include "agent/graph/op_def.h"
#include "agent/plan/plan.h"
#include "common/mem/xmalloc.h"
#include "common/rng/rng.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- slots ---- */

static struct slot *new_slots(const struct schedule *sc)
{
    struct slot *ret = xcalloc((size_t)sc->n_slots + 1, sizeof(*ret));

    if (sc->n_slots > 0)
        memcpy(ret, sc->slots, sizeof(*ret) * (size_t)sc->n_slots);
    return ret;
}

static void free_slots(const struct schedule *sc, struct slot *slots)
{
    for (int i = (int)sc->kind.n_given; i < sc->n_slots; i++)
        tensor_free(&slots[i].feed.value);
    free(slots);
}

/* ---- plans ---- */

/* The feed of a slot. A handle is fed as a scalar without bytes. */
static struct feed fed(const struct slot *s)
{
    struct feed f = s->feed;

    f.value.owned = 0;
    if (f.output.index >= 0 && output_dtype(f.output) == DT_RESOURCE)
        f.value = tensor_view(DT_RESOURCE, SHAPE_SCALAR, NULL);
    return f;
}

static int run_plan(struct staged_run *r, const struct schedule *sc, int at,
                    const struct slot *slots, const struct run_args *args,
                    struct tensor *ret, unsigned char *ret_dead,
                    const struct operation **ret_memory_of, struct err *err)
{
    const struct stage *st = &sc->stages[at];
    struct feed *feeds = xcalloc((size_t)st->n_feeds + 1, sizeof(*feeds));
    struct run_args part = {.feeds = feeds,
                            .n_feeds = (size_t)st->n_feeds,
                            .fetches = st->fetches,
                            .n_fetches = (size_t)st->n_fetches,
                            .targets = st->targets,
                            .n_targets = (size_t)st->n_targets,
                            .key = args->key,
                            .counter = args->counter,
                            .ret_memory_of = ret_memory_of};
    int rc;

    for (int i = 0; i < st->n_feeds; i++)
        feeds[i] = fed(&slots[st->feeds[i]]);
    rc = plans_run_part(r->plans, &part, ret, ret_dead, err);
    free(feeds);
    return rc;
}

/* Runs the plan of a stage other than the last, and stores its results in slots. */
static int run_stage(struct staged_run *r, const struct schedule *sc, int at,
                     struct slot *slots, const struct run_args *args, struct err *err)
{
    const struct stage *st = &sc->stages[at];
    struct tensor *values = xcalloc((size_t)st->n_fetches + 1, sizeof(*values));
    unsigned char *dead = xcalloc((size_t)(st->n_fetches + st->n_targets) + 1, 1);
    const struct operation **memory_of =
        xcalloc((size_t)st->n_fetches + 1, sizeof(*memory_of));
    int rc = 0;

    if (st->n_fetches + st->n_targets > 0)
        rc = run_plan(r, sc, at, slots, args, values, dead, memory_of, err);
    for (int i = 0; rc == 0 && i < st->n_fetches; i++) {
        struct slot *s = &slots[st->fetched[i]];
        const int from = sc->same_handle[st->fetched[i]];

        s->feed.value = values[i];
        s->feed.is_dead = dead[i];
        s->feed.memory_of = memory_of[i];
        s->handle = from >= 0 ? slots[from].handle : -1;
    }
    for (int i = 0; rc == 0 && i < st->n_targets; i++)
        slots[st->done[i]].feed.is_dead = dead[st->n_fetches + i];
    free(values);
    free(dead);
    free(memory_of);
    return rc;
}

/* ---- loops ---- */

static int run_slots(struct staged_run *r, const struct schedule *sc, struct slot *slots,
                     const struct run_args *args, struct contained *ret, struct err *err);

static void clear(struct contained *x, int n)
{
    for (int i = 0; i < n; i++)
        tensor_free(&x[i].tensor);
}

/* *ret: whether the loop goes on. */
static int run_condition(struct staged_run *r, const struct schedule *sc,
                         struct slot *slots, const struct run_args *args, int *ret,
                         struct err *err)
{
    struct contained x = {.handle = -1};
    int rc = run_slots(r, sc, slots, args, &x, err);

    if (rc != 0)
        return rc;
    *ret = !x.is_dead && tensor_elements(&x.tensor) == 1 && *(uint8_t *)x.tensor.data;
    if (x.is_dead || tensor_elements(&x.tensor) != 1)
        rc = err_set(err, ERR_FORMAT, "%s has no value that decides about the loop",
                     operation_name(sc->kind.wanted[0].op));
    tensor_free(&x.tensor);
    return rc;
}

static int stages_run_fill(struct slot *slots, const struct schedule *sc, int n,
                           const struct contained *x, int k)
{
    for (int i = 0; i < n; i++, k++) {
        slots[k].feed.value = x->tensor;
        slots[k].feed.value.owned = 0;
        slots[k].feed.memory_of = x->memory_of;
        slots[k].handle = x->handle;
        slots[k].feed.output = sc->kind.given[k];
    }
    return k;
}

/* Fills the given slots of the condition's or the body's schedule, in the order of
 * cut_loop: for each variable the Merge's value, the number of the input that it passed
 * on, and the Switch's value if the body uses it; then the constants. */
static void give(const struct while_loop *l, const struct schedule *sc,
                 struct slot *slots, const struct contained *variables,
                 const struct contained *constants, const struct contained *index)
{
    int k = 0;

    for (int i = 0; i < l->n_variables; i++) {
        k = stages_run_fill(slots, sc, 1, &variables[i], k);
        k = stages_run_fill(slots, sc, 1, index, k);
        k = stages_run_fill(slots, sc, l->variables[i].taken != NULL, &variables[i], k);
    }
    for (int i = 0; i < l->n_constants; i++)
        k = stages_run_fill(slots, sc, 1, &constants[i], k);
}

static struct rng_key iteration_key(const struct while_loop *l, struct rng_key key,
                                    int64_t number)
{
    char name[1100];

    if (!l->draws)
        return key;
    (void)snprintf(name, sizeof(name), "%s#%lld", operation_name(l->cond),
                   (long long)number);
    return rng_key_derive(key, name);
}

static int check_next(const struct unit *u, const struct contained *next, struct err *err)
{
    for (int i = 0; i < u->loop->n_variables; i++)
        if (next[i].is_dead)
            return err_set(err, ERR_FORMAT,
                           "%s has no value: it is on a branch not taken",
                           operation_name(u->loop->variables[i].next));
    return 0;
}

/* Runs one iteration: replaces the variables if the condition holds. */
static int iterate(struct staged_run *r, const struct unit *u,
                   struct contained *variables, const struct contained *constants,
                   const struct run_args *args, int64_t number, int *ret_goes_on,
                   struct err *err)
{
    static const uint8_t yes = 1;
    const struct while_loop *l = u->loop;
    const int32_t from = number > 0;
    const struct contained index = {
        .tensor = tensor_const_view(DT_INT32, SHAPE_SCALAR, &from), .handle = -1};
    const struct contained goes_on = {
        .tensor = tensor_const_view(DT_BOOL, SHAPE_SCALAR, &yes), .handle = -1};
    struct slot *slots = new_slots(u->condition);
    struct run_args now = *args;
    struct contained *next;
    int rc;

    now.key = iteration_key(l, args->key, number);
    give(l, u->condition, slots, variables, constants, &index);
    rc = run_condition(r, u->condition, slots, &now, ret_goes_on, err);
    free_slots(u->condition, slots);
    if (rc != 0 || !*ret_goes_on)
        return rc;
    slots = new_slots(u->body);
    next = xcalloc((size_t)l->n_variables + 1, sizeof(*next));
    give(l, u->body, slots, variables, constants, &index);
    (void)stages_run_fill(slots, u->body, 1, &goes_on, (int)u->body->kind.n_given - 1);
    rc = run_slots(r, u->body, slots, &now, next, err);
    free_slots(u->body, slots);
    if (rc == 0)
        rc = check_next(u, next, err);
    if (rc == 0) {
        clear(variables, l->n_variables);
        memcpy(variables, next, sizeof(*next) * (size_t)l->n_variables);
    } else {
        clear(next, l->n_variables);
    }
    free(next);
    return rc;
}

static int run_loop(struct staged_run *r, const struct unit *u,
                    const struct contained *in, struct contained *ret,
                    const struct run_args *args, struct err *err)
{
    const int n = u->loop->n_variables, n_lists = r->lists.n;
    int rc = 0, goes_on = 1;

    for (int i = 0; i < n; i++) {
        ret[i] = (struct contained){.handle = in[i].handle, .memory_of = in[i].memory_of};
        if (in[i].memory_of != NULL)
            ret[i].tensor =
                tensor_view(in[i].tensor.dtype, in[i].tensor.shape, in[i].tensor.data);
        else if (rc == 0 && in[i].tensor.dtype != DT_RESOURCE &&
                 in[i].tensor.dtype != DT_INVALID)
            rc = tensor_copy(&ret[i].tensor, &in[i].tensor, err);
    }
    for (int64_t number = 0; rc == 0 && goes_on; number++) {
        if (r->n_iterations++ >= r->max_iterations)
            rc = err_set(err, ERR_LIMIT,
                         "%s: no end of the loop after %lld iterations of this run",
                         operation_name(u->loop->cond), (long long)r->max_iterations);
        else
            rc = iterate(r, u, ret, in + n, args, number, &goes_on, err);
        lists_sweep(&r->lists, n_lists, ret, rc == 0 ? n : 0);
    }
    if (rc != 0)
        clear(ret, n);
    return rc;
}

/* ---- staged operations ---- */

/* Allocates the outputs by the shape rule, which knows all values. */
static int size_outputs(struct operation *op, const struct contained *in,
                        struct tensor *ret, struct err *err)
{
    const int n_in = operation_n_inputs(op), n_out = operation_n_outputs(op);
    struct shape *shapes = xcalloc((size_t)(n_in + n_out) + 1, sizeof(*shapes));
    const struct tensor **values = xcalloc((size_t)n_in + 1, sizeof(*values));
    struct shape *out = shapes + n_in;
    const struct shape_args rule = {op, n_in, shapes, values, out, err, 1};
    int rc;

    for (int i = 0; i < n_in; i++) {
        values[i] = &in[i].tensor;
        shapes[i] = in[i].tensor.shape;
    }
    for (int i = 0; i < n_out; i++)
        out[i] = SHAPE_UNKNOWN;
    rc = operation_infer_shapes(&rule);
    for (int i = 0; rc == 0 && i < n_out; i++)
        rc = tensor_alloc(&ret[i], output_dtype((struct output){op, i}), out[i], err);
    if (rc != 0)
        (void)err_wrap(err, "%s", operation_name(op));
    free(shapes);
    free(values);
    return rc;
}

/* Replaces strings, which a kernel only moved from its inputs, by copies; rc: of the kernel. */
static int own_strings(struct tensor *t, int rc, struct err *err)
{
    struct tensor moved = *t;

    if (t->dtype != DT_STRING)
        return rc;
    *t = TENSOR_NONE;
    if (rc == 0)
        rc = tensor_copy(t, &moved, err);
    free(moved.data);
    return rc;
}

/* Runs one operation whose values decide the sizes of its results. */
static int run_sized(struct operation *op, const struct contained *in,
                     struct contained *ret, struct err *err)
{
    const int n_in = operation_n_inputs(op), n_out = operation_n_outputs(op);
    struct tensor *tensors = xcalloc((size_t)(n_in + n_out) + 1, sizeof(*tensors));
    struct tensor **at = xcalloc((size_t)(n_in + n_out) + 1, sizeof(*at));
    struct tensor *out = tensors + n_in;
    const struct kernel_args args = {
        .op = op, .n_in = n_in, .n_out = n_out, .in = at, .out = at + n_in, .err = err};
    int rc;

    for (int i = 0; i < n_in + n_out; i++) {
        at[i] = &tensors[i];
        if (i < n_in)
            tensors[i] = in[i].tensor;
    }
    rc = size_outputs(op, in, out, err);
    if (rc == 0)
        rc = operation_def(op)->kernel.call(&args);
    for (int i = 0; i < n_out; i++)
        rc = own_strings(&out[i], rc, err);
    for (int i = 0; i < n_out; i++) {
        if (rc != 0)
            tensor_free(&out[i]);
        ret[i] = (struct contained){.tensor = out[i], .handle = -1};
    }
    free(at);
    free(tensors);
    return rc;
}

static int run_unit(struct staged_run *r, const struct unit *u, struct slot *slots,
                    const struct run_args *args, struct err *err)
{
    struct contained *in = xcalloc((size_t)u->n_in + 1, sizeof(*in));
    struct contained *ret = xcalloc((size_t)u->n_out + 1, sizeof(*ret));
    int is_dead = 0, rc = 0;

    for (int i = 0; i < u->n_in; i++) {
        if (u->in[i] < 0)
            continue;
        in[i].tensor = slots[u->in[i]].feed.value;
        in[i].handle = slots[u->in[i]].handle;
        in[i].memory_of = slots[u->in[i]].feed.memory_of;
        if (slots[u->in[i]].feed.row_stride != 0)
            rc = err_set(err, ERR_UNSUPPORTED, "%s: it is fed a matrix with rows apart",
                         operation_name(u->op));
        is_dead |= slots[u->in[i]].feed.is_dead;
    }
    if (rc == 0 && !is_dead && u->loop != NULL)
        rc = run_loop(r, u, in, ret, args, err);
    else if (rc == 0 && !is_dead && operation_def(u->op)->sized_by != NULL)
        rc = run_sized(u->op, in, ret, err);
    else if (rc == 0 && !is_dead && lists_has(u->op))
        rc = lists_run(&r->lists, u->op, in, ret, err);
    else if (rc == 0 && !is_dead)
        rc = containers_run(&r->containers, u->op, in, ret, err);
    for (int i = 0; rc == 0 && i < u->n_out; i++) {
        if (u->out[i] < 0) {
            tensor_free(&ret[i].tensor);
            continue;
        }
        slots[u->out[i]].feed.value = ret[i].tensor;
        slots[u->out[i]].feed.is_dead = is_dead;
        slots[u->out[i]].feed.memory_of = ret[i].memory_of;
        slots[u->out[i]].handle = ret[i].handle;
    }
    for (int i = 0; i < u->n_out + (u->n_out == 0); i++)
        if (u->done[i] >= 0)
            slots[u->done[i]].feed.is_dead = is_dead;
    free(in);
    free(ret);
    return rc;
}

static int run_until_last(struct staged_run *r, const struct schedule *sc,
                          struct slot *slots, const struct run_args *args,
                          struct err *err)
{
    int rc = 0;

    for (int at = 0; rc == 0 && at < sc->n_stages - 1; at++) {
        const struct stage *st = &sc->stages[at];

        rc = run_stage(r, sc, at, slots, args, err);
        for (int i = 0; rc == 0 && i < st->n_units; i++)
            rc = run_unit(r, st->units[i], slots, args, err);
    }
    return rc;
}

/* Runs a schedule whose given slots are filled. Dead results are not errors. The caller
 * frees all results. */
static int run_slots(struct staged_run *r, const struct schedule *sc, struct slot *slots,
                     const struct run_args *args, struct contained *ret, struct err *err)
{
    const int last = sc->n_stages - 1;
    const size_t n = sc->kind.n_wanted;
    struct tensor *values = xcalloc(n + 1, sizeof(*values));
    unsigned char *dead = xcalloc(n + (size_t)sc->stages[last].n_targets + 1, 1);
    const struct operation **memory_of = xcalloc(n + 1, sizeof(*memory_of));
    int rc = run_until_last(r, sc, slots, args, err);

    if (rc == 0)
        rc = run_plan(r, sc, last, slots, args, values, dead, memory_of, err);
    for (size_t i = 0; rc == 0 && i < n; i++) {
        const int from = sc->wanted_handle[i];

        ret[i] = (struct contained){.tensor = values[i],
                                    .handle = from >= 0 ? slots[from].handle : -1,
                                    .is_dead = dead[i],
                                    .memory_of = memory_of[i]};
    }
    free(values);
    free(dead);
    free(memory_of);
    return rc;
}

int schedule_run(struct staged_run *r, const struct schedule *sc,
                 const struct run_args *args, struct tensor *ret, unsigned char *ret_dead,
                 struct err *err)
{
    struct slot *slots = new_slots(sc);
    int rc;

    for (size_t i = 0; i < args->n_feeds; i++)
        slots[i].feed = args->feeds[i];
    rc = run_until_last(r, sc, slots, args, err);
    if (rc == 0)
        rc = run_plan(r, sc, sc->n_stages - 1, slots, args, ret, ret_dead, NULL, err);
    free_slots(sc, slots);
    return rc;
}
