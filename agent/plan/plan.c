#include "agent/plan/plan.h"

#include "common/mem/xmalloc.h"

#include <stdlib.h>
#include <string.h>

/* ---- the key ---- */

static uint64_t mix(uint64_t h, uint64_t x)
{
    h = (h ^ x) * 0x9e3779b97f4a7c15u;
    return h ^ h >> 29;
}

static uint64_t mix_output(uint64_t h, struct output x)
{
    return mix(mix(h, (uint64_t)(uintptr_t)x.op), (uint64_t)x.index);
}

uint64_t plan_key_hash(const struct run_args *args)
{
    uint64_t h = args->n_feeds * 31 + args->n_fetches * 2 + (args->ret_memory_of != NULL);

    for (size_t i = 0; i < args->n_feeds; i++) {
        const struct tensor *t = &args->feeds[i].value;

        h = mix_output(h, args->feeds[i].output);
        h = mix(h, (uint64_t)args->feeds[i].is_dead);
        h = mix(h, (uint64_t)(uintptr_t)args->feeds[i].memory_of);
        for (int d = 0; d < t->shape.rank; d++)
            h = mix(h, (uint64_t)t->shape.dim[d]);
        h = mix(h, (uint64_t)args->feeds[i].row_stride);
    }
    for (size_t i = 0; i < args->n_fetches; i++)
        h = mix_output(h, args->fetches[i]);
    for (size_t i = 0; i < args->n_targets; i++)
        h = mix(h, (uint64_t)(uintptr_t)args->targets[i]);
    return h;
}

static int feed_fits(const struct plan_feed *f, const struct feed *given)
{
    return output_same(f->output, given->output) && f->is_dead == given->is_dead &&
           f->memory_of == given->memory_of && f->dtype == given->value.dtype &&
           shape_equal(&f->shape, &given->value.shape) &&
           f->row_stride == given->row_stride &&
           (f->wanted.dtype == DT_INVALID || tensor_equal(&f->wanted, &given->value));
}

int plan_fits(const struct plan *p, const struct run_args *args, uint64_t hash)
{
    if (p->hash != hash || p->hands_on != (args->ret_memory_of != NULL) ||
        p->n_feeds != args->n_feeds || p->n_fetches != args->n_fetches ||
        p->n_targets != args->n_targets)
        return 0;
    for (size_t i = 0; i < p->n_feeds; i++)
        if (!feed_fits(&p->feeds[i], &args->feeds[i]))
            return 0;
    for (size_t i = 0; i < p->n_fetches; i++)
        if (!output_same(p->fetches[i], args->fetches[i]))
            return 0;
    for (size_t i = 0; i < p->n_targets; i++)
        if (p->targets[i] != args->targets[i])
            return 0;
    return 1;
}

static int copy_key(struct plan *p, const struct run_args *args,
                    const unsigned char *by_value, struct err *err)
{
    p->feeds = ARENA_ARRAY(&p->arena, struct plan_feed, args->n_feeds);
    p->fetches = ARENA_ARRAY(&p->arena, struct output, args->n_fetches);
    p->targets = ARENA_ARRAY(&p->arena, struct operation *, args->n_targets);
    p->fetch_values = ARENA_ARRAY(&p->arena, int, args->n_fetches);
    p->handed = ARENA_ARRAY(&p->arena, struct handed *, args->n_fetches);
    p->fetch_guards = ARENA_ARRAY(&p->arena, int, args->n_fetches);
    p->target_guards = ARENA_ARRAY(&p->arena, int, args->n_targets);
    for (; p->n_feeds < args->n_feeds; p->n_feeds++) {
        const struct feed *f = &args->feeds[p->n_feeds];
        struct plan_feed *to = &p->feeds[p->n_feeds];

        *to = (struct plan_feed){.output = f->output,
                                 .is_dead = f->is_dead,
                                 .memory_of = f->memory_of,
                                 .dtype = f->value.dtype,
                                 .shape = f->value.shape,
                                 .row_stride = f->row_stride,
                                 .value = -1};
        if (f->output.index >= 0 && !f->is_dead &&
            (f->value.dtype == DT_STRING || (by_value != NULL && by_value[p->n_feeds])) &&
            tensor_copy(&to->wanted, &f->value, err) < 0)
            return ERR_NOMEM;
    }
    for (; p->n_fetches < args->n_fetches; p->n_fetches++)
        p->fetches[p->n_fetches] = args->fetches[p->n_fetches];
    for (; p->n_targets < args->n_targets; p->n_targets++)
        p->targets[p->n_targets] = args->targets[p->n_targets];
    return 0;
}

/* ---- building ---- */

/* Returns the row strides of the step's inputs; NULL if all inputs are dense. */
static const int64_t *row_strides(struct plan *p, const struct step *s)
{
    int64_t *ret = ARENA_ARRAY(&p->arena, int64_t, s->n_in);
    int any = 0;

    for (int i = 0; i < s->n_in; i++) {
        ret[i] = p->values[s->in[i]].row_stride;
        any |= ret[i] != 0;
    }
    return any ? ret : NULL;
}

/* From here on the array of values no longer grows, so calls can point to its
 * elements. */
static void point_calls(struct plan *p)
{
    for (int k = 0; k < p->n_steps; k++) {
        struct step *s = &p->steps[k];

        if (s->loop != NULL)
            continue;
        struct tensor **in = ARENA_ARRAY(&p->arena, struct tensor *, s->n_in);
        struct tensor **out = ARENA_ARRAY(&p->arena, struct tensor *, s->n_out);
        for (int i = 0; i < s->n_in; i++)
            in[i] = s->view != NULL ? &s->view[i] : &p->values[s->in[i]].tensor;
        for (int i = 0; i < s->n_out; i++)
            out[i] =
                s->view != NULL ? &s->view[s->n_in + i] : &p->values[s->out[i]].tensor;
        s->args = (struct kernel_args){.op = s->op,
                                       .n_in = s->n_in,
                                       .n_out = s->n_out,
                                       .in = in,
                                       .out = out,
                                       .numerics = p->numerics,
                                       .row_stride = row_strides(p, s),
                                       .refusal = s->refusal};
    }
}

static int build(struct plan *p, struct var_store *vars, const struct run_args *args,
                 const unsigned char *by_value, struct err *err)
{
    struct arena scratch = ARENA_ZERO;
    struct order order;
    int rc = copy_key(p, args, by_value, err);

    if (rc == 0)
        rc = plan_order(p, &scratch, args, vars, &order, err);
    if (rc == 0)
        rc = plan_lower(p, &scratch, &order, vars, err);
    if (rc == 0) {
        plan_fuse(p, &scratch);
        plan_chunk(p, &scratch);
        plan_memory(p, &scratch);
        point_calls(p);
        p->fed = ARENA_ARRAY(&p->arena, int, p->n_values);
        for (int v = 0; v < p->n_values; v++)
            if (p->values[p->values[v].root].kind == VALUE_FEED)
                p->fed[p->n_fed++] = v;
    }
    arena_done(&scratch);
    /* the nodes point to scratch memory, which is freed */
    free(p->nodes);
    p->nodes = NULL;
    free(p->notes.inside);
    free(p->notes.arg_of);
    free(p->notes.last_use);
    p->notes = (struct loop_notes){0};
    return rc;
}

static struct plan *new_plan(struct graph *g, enum numerics numerics,
                             const struct run_args *args)
{
    struct plan *p = xcalloc(1, sizeof(*p));

    p->graph = g;
    p->numerics = numerics;
    p->hash = plan_key_hash(args);
    p->hands_on = args->ret_memory_of != NULL;
    return p;
}

/* Makes a plan that runs nothing: it names the output that a separate run must compute
 * and feed first (plan_probe.c). */
static int stand_in(struct plan **ret, struct graph *g, const struct run_args *args,
                    struct output probe, struct err *err)
{
    struct plan *p = new_plan(g, NUMERICS_PORTABLE, args);
    int rc = copy_key(p, args, NULL, err);

    if (rc < 0) {
        plan_free(p);
        return rc;
    }
    p->probe = probe;
    *ret = p;
    return 0;
}

int plan_build(struct plan **ret, struct graph *g, struct var_store *vars,
               enum numerics numerics, const struct run_args *args, struct err *err)
{
    unsigned char *by_value = xcalloc(args->n_feeds + 1, 1);
    struct plan *p = new_plan(g, numerics, args);
    int rc = build(p, vars, args, by_value, err);

    while (rc < 0 && p->needs_values && plan_take_wanted(p, args, by_value)) {
        plan_free(p);
        p = new_plan(g, numerics, args);
        rc = build(p, vars, args, by_value, err);
    }
    free(by_value);
    if (rc < 0) {
        struct output probe = p->probe;

        plan_free(p);
        return probe.op != NULL ? stand_in(ret, g, args, probe, err) : rc;
    }
    *ret = p;
    return 0;
}

void plan_free(struct plan *p)
{
    if (p == NULL)
        return;
    for (int i = 0; i < p->n_owned; i++)
        tensor_free(&p->owned[i]);
    for (size_t i = 0; i < p->n_feeds; i++)
        tensor_free(&p->feeds[i].wanted);
    free(p->owned);
    free(p->nodes);
    free(p->values);
    arena_done(&p->arena);
    free(p);
}

void plan_resolve(struct plan *p, struct var_store *vars, char *buffer)
{
    for (int v = 0; v < p->n_values; v++) {
        struct value *x = &p->values[v];
        const struct value *root = &p->values[x->root];

        if (root->kind == VALUE_BUFFER)
            x->tensor.data = buffer != NULL ? buffer + x->place + x->offset : NULL;
        else if (root->kind == VALUE_VARIABLE)
            x->tensor.data = (char *)var_store_value(vars, root->index).data + x->offset;
    }
    p->buffer = buffer;
    p->var_moves = var_store_moves(vars);
}
