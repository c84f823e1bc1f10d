#include "agent/plan/plans.h"

#include "common/mem/xmalloc.h"

#include <stdlib.h>
#include <string.h>

/* A plan is for one kind of run. If there are more kinds, the plan that was unused for
 * longest is freed. */
#define MAX_PLANS 256

struct plans {
    struct graph *graph;
    struct var_store *vars;
    enum numerics numerics;
    struct plan *plans[MAX_PLANS];
    int n_plans;
    uint64_t runs;
    char *buffer; /* for the values of a run; as large as the largest plan needs */
    size_t buffer_bytes;
    void (*progress)(void *ctx);
    void *progress_ctx;
};

struct plans *plans_new(struct graph *g, struct var_store *vars, enum numerics numerics)
{
    struct plans *ps = xcalloc(1, sizeof(*ps));

    ps->graph = g;
    ps->vars = vars;
    ps->numerics = numerics;
    return ps;
}

void plans_free(struct plans *ps)
{
    if (ps == NULL)
        return;
    for (int i = 0; i < ps->n_plans; i++)
        plan_free(ps->plans[i]);
    free(ps->buffer);
    free(ps);
}

void plans_set_progress(struct plans *ps, void (*fn)(void *ctx), void *ctx)
{
    ps->progress = fn;
    ps->progress_ctx = ctx;
}

/* ---- finding and keeping ---- */

struct plan *plans_find(const struct plans *ps, const struct run_args *args)
{
    uint64_t hash = plan_key_hash(args);

    for (int i = 0; i < ps->n_plans; i++)
        if (plan_fits(ps->plans[i], args, hash))
            return ps->plans[i];
    return NULL;
}

static void keep_plan(struct plans *ps, struct plan *p)
{
    int oldest = 0;

    if (ps->n_plans < MAX_PLANS) {
        ps->plans[ps->n_plans++] = p;
        return;
    }
    for (int i = 1; i < ps->n_plans; i++)
        if (ps->plans[i]->last_used < ps->plans[oldest]->last_used)
            oldest = i;
    plan_free(ps->plans[oldest]);
    ps->plans[oldest] = p;
}

/* Finds or builds the plan and makes the buffer large enough for it. */
static int ready_plan(struct plans *ps, const struct run_args *args, int is_part,
                      struct plan **ret, struct err *err)
{
    struct plan *p = plans_find(ps, args);

    if (p == NULL) {
        int rc = is_part ? 0 : run_check(ps->graph, args, err);

        if (rc == 0)
            rc = var_store_place(ps->vars, err);
        if (rc == 0)
            rc = plan_build(&p, ps->graph, ps->vars, ps->numerics, args, err);
        if (rc < 0)
            return rc;
        keep_plan(ps, p);
    }
    p->last_used = ++ps->runs;
    if (p->buffer_bytes > ps->buffer_bytes) {
        char *larger = mem_aligned(p->buffer_bytes);

        if (larger == NULL)
            return err_set(err, ERR_NOMEM, "no memory for %zu bytes of a run",
                           p->buffer_bytes);
        free(ps->buffer);
        ps->buffer = larger;
        ps->buffer_bytes = p->buffer_bytes;
    }
    if (p->buffer != ps->buffer || p->var_moves != var_store_moves(ps->vars))
        plan_resolve(p, ps->vars, ps->buffer);
    *ret = p;
    return 0;
}

/* ---- running ---- */

static int check_result(const struct plan *p, size_t i, const struct tensor *ret,
                        struct err *err)
{
    const struct tensor *t;
    struct output x = p->fetches[i];

    if (ret->data == NULL || p->fetch_values[i] < 0)
        return 0;
    t = &p->values[p->fetch_values[i]].tensor;
    if (ret->dtype != t->dtype || dtype_size(t->dtype) == 0)
        return err_set(err, ERR_DTYPE, "Tensor %s:%d has dtype %s, its place has %s",
                       operation_name(x.op), x.index, dtype_name(t->dtype),
                       dtype_name(ret->dtype));
    if (tensor_elements(ret) != tensor_elements(t))
        return err_set(err, ERR_SHAPE, "Tensor %s:%d has shape %s, its place has %s",
                       operation_name(x.op), x.index, shape_text(&t->shape),
                       shape_text(&ret->shape));
    return 0;
}

static int copy_result(const struct tensor *t, struct tensor *ret, struct err *err)
{
    int rc = 0;

    if (t->dtype == DT_RESOURCE) /* a handle, which only a run in stages fetches */
        *ret = tensor_view(DT_RESOURCE, SHAPE_SCALAR, NULL);
    else if (ret->data == NULL)
        rc = tensor_copy(ret, t, err);
    else if (tensor_bytes(t) > 0)
        memcpy(ret->data, t->data, tensor_bytes(t));
    if (rc < 0)
        return rc;
    ret->shape = t->shape;
    tensor_canonical_nans(ret);
    return 0;
}

/* If the fetch is the memory of a variable, which is to be handed on, *ret is a view. */
static int is_handed_on(const struct plan *p, size_t i, struct var_store *vars,
                        const struct operation **ret_of, struct tensor *ret)
{
    if (!p->hands_on)
        return 0;
    ret_of[i] = plan_handed(p, i);
    if (ret_of[i] == NULL)
        return 0;
    *ret = tensor_view(DT_RESOURCE, SHAPE_SCALAR, NULL);
    if (output_dtype(p->fetches[i]) == DT_RESOURCE)
        return 1;
    *ret = p->values[p->fetch_values[i]].tensor;
    ret->data = var_store_value(vars, var_store_find(vars, ret_of[i])).data;
    ret->owned = 0;
    return 1;
}

/* dead [n_fetches]: 1 for those without a value; NULL: all have one. memory_of: see
 * run_args.ret_memory_of. */
static int copy_results(const struct plan *p, struct var_store *vars,
                        const unsigned char *dead, const struct operation **memory_of,
                        struct tensor *ret, struct err *err)
{
    /* 1: the caller's own place; the others are freed if a later one fails */
    unsigned char few[64] = {0};
    unsigned char *had = p->n_fetches > sizeof(few) ? xcalloc(p->n_fetches, 1) : few;
    int rc = 0;

    for (size_t i = 0; i < p->n_fetches && rc == 0; i++) {
        had[i] = ret[i].data != NULL;
        if ((dead == NULL || !dead[i]) && !is_handed_on(p, i, vars, memory_of, &ret[i]))
            rc = copy_result(&p->values[p->fetch_values[i]].tensor, &ret[i], err);
        if (rc < 0)
            for (size_t k = 0; k < i; k++)
                if (!had[k])
                    tensor_free(&ret[k]);
    }
    if (had != few)
        free(had);
    return rc;
}

static int run_plan(struct plans *ps, struct plan *p, const struct run_args *args,
                    struct tensor *ret, unsigned char *ret_dead, struct err *err)
{
    int rc = 0;

    for (size_t i = 0; rc == 0 && i < args->n_fetches; i++)
        rc = check_result(p, i, &ret[i], err);
    if (rc == 0)
        rc = plan_execute(p, ps->vars, args, ps->progress, ps->progress_ctx, ret_dead,
                          err);
    return rc == 0 ? copy_results(p, ps->vars, ret_dead, args->ret_memory_of, ret, err)
                   : rc;
}

/* ---- values that planning needs ---- */

static int run(struct plans *ps, const struct run_args *args, int is_part,
               struct tensor *ret, unsigned char *ret_dead, struct err *err);

/* Computes the probe in a separate run and adds it to the feeds. The caller frees the feeds
 * and their values from n_given on. */
static int feed_probe(struct plans *ps, struct run_args *args, int is_part,
                      struct output probe, struct err *err)
{
    struct feed *feeds = xcalloc(args->n_feeds + 1, sizeof(*feeds));
    struct feed *fed = &feeds[args->n_feeds];
    struct run_args first = *args;
    unsigned char dead = 0;
    int rc;

    first.fetches = &probe;
    first.n_fetches = 1;
    first.n_targets = 0;
    first.ret_memory_of = NULL;
    if (args->n_feeds > 0)
        memcpy(feeds, args->feeds, args->n_feeds * sizeof(*feeds));
    rc = run(ps, &first, is_part, &fed->value, &dead, err);
    fed->output = probe;
    fed->is_dead = dead;
    args->feeds = feeds;
    args->n_feeds++;
    return rc;
}

static int run_probe(struct plans *ps, const struct run_args *args, int is_part,
                     struct output probe, struct tensor *ret, unsigned char *ret_dead,
                     struct err *err)
{
    struct run_args more = *args;
    struct plan *p = NULL;
    int rc = feed_probe(ps, &more, is_part, probe, err);

    if (rc == 0)
        rc = ready_plan(ps, &more, is_part, &p, err);
    if (rc == 0 && p->probe.op != NULL)
        rc = run_probe(ps, &more, is_part, p->probe, ret, ret_dead, err);
    else if (rc == 0)
        rc = run_plan(ps, p, &more, ret, ret_dead, err);
    struct feed *feeds = (struct feed *)(uintptr_t)more.feeds;
    tensor_free(&feeds[args->n_feeds].value);
    free(feeds);
    return rc;
}

static int run(struct plans *ps, const struct run_args *args, int is_part,
               struct tensor *ret, unsigned char *ret_dead, struct err *err)
{
    struct plan *p = NULL;
    int rc = ready_plan(ps, args, is_part, &p, err);

    if (rc < 0)
        return rc;
    if (is_part && ps->progress != NULL)
        /* the plan of an iteration may have no step that reports progress */
        ps->progress(ps->progress_ctx);
    return p->probe.op != NULL
               ? run_probe(ps, args, is_part, p->probe, ret, ret_dead, err)
               : run_plan(ps, p, args, ret, ret_dead, err);
}

int plans_run(struct plans *ps, const struct run_args *args, struct tensor *ret,
              unsigned char *ret_dead, struct err *err)
{
    return run(ps, args, 0, ret, ret_dead, err);
}

int plans_run_part(struct plans *ps, const struct run_args *args, struct tensor *ret,
                   unsigned char *ret_dead, struct err *err)
{
    return run(ps, args, 1, ret, ret_dead, err);
}
