#include "agent/session/session.h"

#include "agent/graph/op_def.h"
#include "agent/session/loops.h"
#include "agent/session/needed.h"
#include "agent/session/plan.h"
#include "agent/session/stages.h"
#include "agent/session/string_feeds.h"
#include "common/mem/xmalloc.h"
#include "common/tensor/string_slab.h"

#include <stdlib.h>
#include <string.h>

/* A plan is for one kind of run. If there are more kinds, the plan that was unused for
 * longest is freed. */
#define MAX_PLANS     256
#define MAX_SCHEDULES 64

struct session {
    struct graph *graph;
    struct var_store *vars;
    enum numerics numerics;
    struct plan *plans[MAX_PLANS];
    int n_plans;
    /* for runs with loops or staged operations */
    struct schedule *schedules[MAX_SCHEDULES];
    int n_schedules;
    /* NULL: the graph has no variables of strings */
    struct string_feeds *string_feeds;
    int n_seen;           /* look_at_new looked at this many operations of the graph */
    int has_staged;       /* no plan can run one of them */
    int has_sized;        /* values decide sizes of one of them */
    unsigned char *known; /* [n_seen] by operation: plan_knows */
    int is_staged; /* a run in stages, which has checked its arguments, is under way */
    int64_t max_iterations;
    uint64_t runs;
    char *buffer; /* for the values of a run; as large as the largest plan needs */
    size_t buffer_bytes;
    void (*progress)(void *ctx);
    void *progress_ctx;
    struct session_tap *tap; /* NULL: none */
};

int session_new(struct session **ret, struct graph *g, const struct session_options *o,
                struct err *err)
{
    struct session_options none = {0};

    o = o != NULL ? o : &none;
    struct session *s = xcalloc(1, sizeof(*s));
    s->graph = g;
    s->numerics = o->numerics;
    s->max_iterations =
        o->max_iterations > 0 ? o->max_iterations : SESSION_MAX_ITERATIONS;
    const struct device_memory own = {.block = o->block,
                                      .capacity = o->block_capacity,
                                      .holds_state = o->block_holds_state};
    int rc = var_store_new(&s->vars, g, &own, o->devices, o->n_devices, err);
    if (rc < 0) {
        free(s);
        return rc;
    }
    *ret = s;
    return 0;
}

void session_free(struct session *s)
{
    if (s == NULL)
        return;
    for (int i = 0; i < s->n_plans; i++)
        plan_free(s->plans[i]);
    for (int i = 0; i < s->n_schedules; i++)
        schedule_free(s->schedules[i]);
    string_feeds_free(s->string_feeds);
    var_store_free(s->vars);
    free(s->known);
    free(s->buffer);
    free(s);
}

struct graph *session_graph(const struct session *s)
{
    return s->graph;
}

struct var_store *session_variables(struct session *s)
{
    return s->vars;
}

/* ---- arguments of a run ---- */

static int check_output(const struct session *s, struct output x, const char *what,
                        struct err *err)
{
    if (!output_valid(x))
        return err_set(err, ERR_ARG, "a %s is no tensor", what);
    if (operation_graph(x.op) != s->graph)
        return err_set(err, ERR_ARG, "Tensor %s:%d is not an element of this graph.",
                       operation_name(x.op), x.index);
    return 0;
}

static int check_feed(const struct session *s, const struct run_args *args, size_t i,
                      struct err *err)
{
    const struct feed *f = &args->feeds[i];
    int rc = check_output(s, f->output, "feed", err);

    if (rc < 0 || f->is_dead)
        return rc;
    const char *name = operation_name(f->output.op);
    struct shape shape = output_shape(f->output);
    if (f->value.dtype != output_dtype(f->output))
        return err_set(err, ERR_DTYPE, "Tensor %s:%d has dtype %s, but %s is fed", name,
                       f->output.index, dtype_name(output_dtype(f->output)),
                       dtype_name(f->value.dtype));
    if (!shape_known(&f->value.shape) || !shape_compatible(&shape, &f->value.shape))
        return err_set(
            err, ERR_SHAPE,
            "Cannot feed value of shape %s for Tensor %s:%d, which has shape %s",
            shape_text(&f->value.shape), name, f->output.index, shape_text(&shape));
    if (f->value.data == NULL && tensor_elements(&f->value) > 0)
        return err_set(err, ERR_ARG, "Tensor %s:%d is fed no data", name,
                       f->output.index);
    if (f->row_stride != 0 &&
        (f->value.shape.rank != 2 || dtype_size(f->value.dtype) == 0 ||
         f->row_stride < f->value.shape.dim[1]))
        return err_set(
            err, ERR_ARG, "Tensor %s:%d is fed %s with rows %lld elements apart", name,
            f->output.index, shape_text(&f->value.shape), (long long)f->row_stride);
    for (size_t k = 0; k < i; k++)
        if (output_same(args->feeds[k].output, f->output))
            return err_set(err, ERR_ARG, "Tensor %s:%d is fed twice", name,
                           f->output.index);
    return 0;
}

static int check_args(const struct session *s, const struct run_args *args,
                      struct err *err)
{
    int rc = 0;

    for (size_t i = 0; rc == 0 && i < args->n_feeds; i++)
        rc = check_feed(s, args, i, err);
    for (size_t i = 0; rc == 0 && i < args->n_fetches; i++)
        rc = check_output(s, args->fetches[i], "fetch", err);
    for (size_t i = 0; rc == 0 && i < args->n_feeds + args->n_fetches; i++) {
        const struct output x =
            i < args->n_feeds ? args->feeds[i].output : args->fetches[i - args->n_feeds];

        if (output_dtype(x) == DT_VARIANT)
            rc = err_set(err, ERR_ARG,
                         "Tensor %s:%d is a tensor list, which only exists in a run: it "
                         "cannot be fed or fetched",
                         operation_name(x.op), x.index);
    }
    for (size_t i = 0; rc == 0 && i < args->n_targets; i++) {
        if (args->targets[i] == NULL)
            rc = err_set(err, ERR_ARG, "a target is no operation");
        else if (operation_graph(args->targets[i]) != s->graph)
            rc = err_set(err, ERR_ARG, "Operation %s is not an element of this graph.",
                         operation_name(args->targets[i]));
    }
    return rc;
}

/* ---- plans ---- */

static struct plan *find_plan(struct session *s, const struct run_args *args)
{
    uint64_t hash = plan_key_hash(args);

    for (int i = 0; i < s->n_plans; i++)
        if (plan_fits(s->plans[i], args, hash))
            return s->plans[i];
    return NULL;
}

static void keep_plan(struct session *s, struct plan *p)
{
    int oldest = 0;

    if (s->n_plans < MAX_PLANS) {
        s->plans[s->n_plans++] = p;
        return;
    }
    for (int i = 1; i < s->n_plans; i++)
        if (s->plans[i]->last_used < s->plans[oldest]->last_used)
            oldest = i;
    plan_free(s->plans[oldest]);
    s->plans[oldest] = p;
}

static int make_plan(struct session *s, const struct run_args *args, struct plan **ret,
                     struct err *err)
{
    int rc = s->is_staged ? 0 : check_args(s, args, err);

    if (rc == 0)
        rc = var_store_place(s->vars, err);
    if (rc == 0)
        rc = plan_build(ret, s->graph, s->vars, s->numerics, args, err);
    if (rc == 0)
        keep_plan(s, *ret);
    return rc;
}

/* Finds or builds the plan and makes the buffer large enough for it. */
static int ready_plan(struct session *s, const struct run_args *args, struct plan **ret,
                      struct err *err)
{
    struct plan *p = find_plan(s, args);
    int rc = p != NULL ? 0 : make_plan(s, args, &p, err);

    if (rc < 0)
        return rc;
    p->last_used = ++s->runs;
    if (p->buffer_bytes > s->buffer_bytes) {
        char *larger = mem_aligned(p->buffer_bytes);

        if (larger == NULL)
            return err_set(err, ERR_NOMEM, "no memory for %zu bytes of a run",
                           p->buffer_bytes);
        free(s->buffer);
        s->buffer = larger;
        s->buffer_bytes = p->buffer_bytes;
    }
    if (p->buffer != s->buffer || p->var_moves != var_store_moves(s->vars))
        plan_resolve(p, s->vars, s->buffer);
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

/* Frees those of n results that were made for the caller. had: 1 for its own places. */
static void drop_results(struct tensor *ret, size_t n, const unsigned char *had)
{
    for (size_t i = 0; i < n; i++)
        if (!had[i])
            tensor_free(&ret[i]);
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
    unsigned char few[64] = {0};
    unsigned char *had = p->n_fetches > sizeof(few) ? xcalloc(p->n_fetches, 1) : few;
    int rc = 0;

    for (size_t i = 0; i < p->n_fetches && rc == 0; i++) {
        had[i] = ret[i].data != NULL;
        if ((dead == NULL || !dead[i]) && !is_handed_on(p, i, vars, memory_of, &ret[i]))
            rc = copy_result(&p->values[p->fetch_values[i]].tensor, &ret[i], err);
        if (rc < 0)
            drop_results(ret, i, had);
    }
    if (had != few)
        free(had);
    return rc;
}

static int run_plan(struct session *s, struct plan *p, const struct run_args *args,
                    struct tensor *ret, unsigned char *ret_dead, struct err *err)
{
    int rc = 0;

    for (size_t i = 0; rc == 0 && i < args->n_fetches; i++)
        rc = check_result(p, i, &ret[i], err);
    if (rc == 0)
        rc = plan_execute(p, s->vars, args, s->progress, s->progress_ctx, ret_dead, err);
    return rc == 0 ? copy_results(p, s->vars, ret_dead, args->ret_memory_of, ret, err)
                   : rc;
}

/* ---- values that planning needs ---- */

/* Computes the probe in a separate run and adds it to the feeds. The caller frees the feeds
 * and their values from n_given on. */
static int feed_probe(struct session *s, struct run_args *args, struct output probe,
                      struct err *err)
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
    rc = session_run_plan(s, &first, &fed->value, &dead, err);
    fed->output = probe;
    fed->is_dead = dead;
    args->feeds = feeds;
    args->n_feeds++;
    return rc;
}

static int run_probe(struct session *s, const struct run_args *args, struct output probe,
                     struct tensor *ret, unsigned char *ret_dead, struct err *err)
{
    struct run_args more = *args;
    struct plan *p = NULL;
    int rc = feed_probe(s, &more, probe, err);

    if (rc == 0)
        rc = ready_plan(s, &more, &p, err);
    if (rc == 0 && p->probe.op != NULL)
        rc = run_probe(s, &more, p->probe, ret, ret_dead, err);
    else if (rc == 0)
        rc = run_plan(s, p, &more, ret, ret_dead, err);
    struct feed *feeds = (struct feed *)(uintptr_t)more.feeds;
    tensor_free(&feeds[args->n_feeds].value);
    free(feeds);
    return rc;
}

int session_run_plan(struct session *s, const struct run_args *args, struct tensor *ret,
                     unsigned char *ret_dead, struct err *err)
{
    struct plan *p = NULL;
    int rc = ready_plan(s, args, &p, err);

    if (rc < 0)
        return rc;
    if (s->is_staged && s->progress != NULL)
        /* the plan of an iteration may have no step that reports progress */
        s->progress(s->progress_ctx);
    return p->probe.op != NULL ? run_probe(s, args, p->probe, ret, ret_dead, err)
                               : run_plan(s, p, args, ret, ret_dead, err);
}

/* ---- runs in stages ---- */

static void look_at_new(struct session *s)
{
    const int n = graph_n_operations(s->graph);

    if (s->n_seen == n)
        return;
    s->known = xreallocarray(s->known, (size_t)n, 1);
    for (; s->n_seen < n; s->n_seen++) {
        const struct operation *op = graph_operation_at(s->graph, s->n_seen);

        s->known[s->n_seen] = (unsigned char)plan_knows(s->known, op);
        s->has_sized |= operation_def(op)->sized_by != NULL;
        if (s->string_feeds == NULL && is_string_variable(op))
            s->string_feeds = string_feeds_new(s->graph, s->vars);
        s->has_staged |= stages_cut_at(op, s->known) || operation_is(op, "NextIteration");
    }
}

/* Whether a run may need stages. An operation sized by values is known to need none if
 * they follow from constants, which a feed may replace. */
static int has_staged(struct session *s, const struct run_args *args)
{
    int replaces = 0;

    look_at_new(s);
    for (size_t i = 0; s->has_sized && i < args->n_feeds; i++)
        replaces |= output_valid(args->feeds[i].output) &&
                    operation_graph(args->feeds[i].output.op) == s->graph &&
                    s->known[operation_id(args->feeds[i].output.op)];
    return s->has_staged || replaces;
}

static void keep_schedule(struct session *s, struct schedule *sc)
{
    int at = 0;

    if (s->n_schedules < MAX_SCHEDULES)
        at = s->n_schedules++;
    else
        for (int i = 1; i < MAX_SCHEDULES; i++)
            if (s->schedules[i]->last_used < s->schedules[at]->last_used)
                at = i;
    schedule_free(s->schedules[at]);
    s->schedules[at] = sc;
}

static int ready_schedule(struct session *s, const struct run_args *args,
                          struct schedule **ret, struct err *err)
{
    struct arena own = ARENA_ZERO;
    int rc;

    *ret = NULL;
    for (int i = 0; i < s->n_schedules && *ret == NULL; i++)
        if (run_is_of_kind(&s->schedules[i]->kind, args))
            *ret = s->schedules[i];
    if (*ret == NULL) {
        rc = check_args(s, args, err);
        if (rc < 0)
            return rc;
        const struct schedule_query q = {.graph = s->graph,
                                         .kind = run_kind_of(args, &own)};
        rc = schedule_build(ret, &q, err);
        arena_done(&own);
        if (rc < 0)
            return rc;
        keep_schedule(s, *ret);
    }
    (*ret)->last_used = ++s->runs;
    return 0;
}

static int run_staged(struct session *s, const struct schedule *sc,
                      const struct run_args *args, struct tensor *ret,
                      unsigned char *ret_dead, struct err *err)
{
    struct staged_run r = {.session = s, .max_iterations = s->max_iterations};

    /* the schedule was made for other feeds, maybe of other shapes */
    int rc = check_args(s, args, err);

    if (rc < 0)
        return rc;
    s->is_staged = 1;
    rc = schedule_run(&r, sc, args, ret, ret_dead, err);
    s->is_staged = 0;
    containers_done(&r.containers);
    lists_done(&r.lists);
    return rc;
}

/* ret_dead: see plan_execute. */
static int run_untapped(struct session *s, const struct run_args *args,
                        struct tensor *ret, unsigned char *ret_dead, struct err *err)
{
    struct schedule *sc = NULL;
    int rc = has_staged(s, args) ? ready_schedule(s, args, &sc, err) : 0;

    if (rc < 0)
        return rc;
    return sc != NULL && sc->n_stages > 1 ? run_staged(s, sc, args, ret, ret_dead, err)
                                          : session_run_plan(s, args, ret, ret_dead, err);
}

/* ---- a tap ---- */

static int raise_to(int *x, int least)
{
    if (*x >= least)
        return 0;
    *x = least;
    return 1;
}

/* Returns, for each operation of the graph, in how many while loops it is: free(). An Exit
 * counts as outside of the loop that it leaves. Only with back edges from a NextIteration is
 * more than one pass needed. */
static int *loop_depths(const struct graph *g)
{
    const int n = graph_n_operations(g);
    int *depths = xcalloc((size_t)n + 1, sizeof(*depths)), changed = 1;

    for (int pass = 0; changed && pass <= LOOPS_MAX_DEPTH; pass++) {
        changed = 0;
        for (int k = 0; k < n; k++) {
            const struct operation *op = graph_operation_at(g, k);
            int depth = 0;

            for (int i = 0; i < operation_n_inputs(op); i++)
                raise_to(&depth, depths[operation_id(operation_input(op, i).op)]);
            for (int i = 0; i < operation_n_control_inputs(op); i++)
                raise_to(&depth, depths[operation_id(operation_control_input(op, i))]);
            if (loop_is_enter(op))
                depth++;
            else if (operation_is(op, "Exit") || operation_is(op, "RefExit"))
                depth--;
            changed |= raise_to(&depths[k], depth);
        }
    }
    return depths;
}

/* Appends those outputs of the tap that the run computes to its fetches, but none of inside
 * a loop. ret_which [n]: their indices in the tap. Returns their number. */
static size_t add_tapped(struct session *s, const struct run_args *args,
                         struct output *fetches, size_t *ret_which)
{
    int *depths = has_staged(s, args) ? loop_depths(s->graph) : NULL;
    struct op_walk needed;
    size_t n = 0;

    op_walk_begin(&needed, s->graph);
    run_walk_needed(&needed, args);
    for (size_t i = 0; i < s->tap->n; i++) {
        const struct output x = s->tap->outputs[i];

        if (output_dtype(x) == DT_VARIANT)
            continue;
        if (!run_is_fed(args, x) && (!needed.added[operation_id(x.op)] ||
                                     (depths != NULL && depths[operation_id(x.op)] > 0)))
            continue;
        fetches[args->n_fetches + n] = x;
        ret_which[n++] = i;
    }
    free(depths);
    op_walk_end(&needed);
    return n;
}

static int run_tapped(struct session *s, const struct run_args *args, struct tensor *ret,
                      struct err *err)
{
    struct session_tap *tap = s->tap;
    const size_t room = args->n_fetches + tap->n + 1;
    struct output *fetches = xcalloc(room, sizeof(*fetches));
    struct tensor *values = xcalloc(room, sizeof(*values));
    unsigned char *dead = xcalloc(room + args->n_targets, 1);
    size_t *which = xcalloc(tap->n + 1, sizeof(*which)), n;
    struct run_args more = *args;
    int rc;

    for (size_t i = 0; i < args->n_fetches; i++) {
        fetches[i] = args->fetches[i];
        values[i] = ret[i];
    }
    n = add_tapped(s, args, fetches, which);
    more.fetches = fetches;
    more.n_fetches += n;
    tap->runs++;
    rc = run_untapped(s, &more, values, dead, err);
    for (size_t i = 0; rc == 0 && i < args->n_fetches; i++)
        if (dead[i])
            rc = plan_fail_dead(fetches[i], i, err);
    for (size_t i = 0; rc == 0 && i < n; i++)
        if (!dead[args->n_fetches + i])
            tap->fn(tap->ctx, which[i], &values[args->n_fetches + i]);
    for (size_t i = 0; i < args->n_fetches + n; i++)
        if (rc == 0 && i < args->n_fetches)
            ret[i] = values[i];
        else if (i >= args->n_fetches || ret[i].data == NULL)
            tensor_free(&values[i]);
    free(dead);
    free(fetches);
    free(values);
    free(which);
    return rc;
}

void session_set_tap(struct session *s, struct session_tap *tap)
{
    s->tap = tap;
}

static int run_fed(struct session *s, const struct run_args *args, struct tensor *ret,
                   struct err *err)
{
    return s->tap != NULL ? run_tapped(s, args, ret, err)
                          : run_untapped(s, args, ret, NULL, err);
}

int session_run(struct session *s, const struct run_args *args, struct tensor *ret,
                struct err *err)
{
    struct run_args more;
    int rc;

    look_at_new(s);
    if (s->string_feeds == NULL)
        return run_fed(s, args, ret, err);
    rc = check_args(s, args, err);
    if (rc == 0)
        rc = var_store_place(s->vars, err);
    if (rc < 0)
        return rc;
    rc = string_feeds_add(s->string_feeds, &more, args, err);
    if (rc == 0)
        rc = run_fed(s, &more, ret, err);
    string_feeds_done(&more, args);
    return rc;
}

size_t session_gemms(struct session *s, const struct run_args *args, struct dense *ret,
                     size_t max)
{
    const struct plan *p = find_plan(s, args);

    return p != NULL ? plan_gemms(p, ret, max) : 0;
}

void session_set_progress(struct session *s, void (*fn)(void *ctx), void *ctx)
{
    s->progress = fn;
    s->progress_ctx = ctx;
}

/* ---- the variables' block ---- */

void *session_block(struct session *s)
{
    return var_store_block(s->vars);
}

size_t session_block_bytes(const struct session *s)
{
    return var_store_bytes(s->vars);
}

int session_fix_layout(struct session *s, struct err *err)
{
    return var_store_place(s->vars, err);
}

void session_snapshot(const struct session *s, void *dst)
{
    memcpy(dst, var_store_block(s->vars), var_store_bytes(s->vars));
}

void session_restore(struct session *s, const void *src)
{
    memcpy(var_store_block(s->vars), src, var_store_bytes(s->vars));
}

static int find_variable(struct session *s, const struct variable *v, struct err *err)
{
    if (operation_graph(v->ref.op) != s->graph)
        return err_set(err, ERR_ARG, "Tensor %s:0 is not an element of this graph.",
                       v->name);
    int rc = var_store_place(s->vars, err);
    if (rc < 0)
        return rc;
    rc = var_store_find(s->vars, v->ref.op);
    return rc >= 0 ? rc
                   : err_set(err, ERR_UNSUPPORTED, "the session keeps no variable %s",
                             v->name);
}

int session_variable(struct session *s, const struct variable *v, struct tensor *ret,
                     struct err *err)
{
    int i = find_variable(s, v, err);

    if (i < 0)
        return i;
    if (!var_store_initialized(s->vars, i))
        return err_set(err, ERR_UNINITIALIZED, "Attempting to use uninitialized value %s",
                       v->name);
    *ret = var_store_value(s->vars, i);
    return 0;
}

int session_variable_set(struct session *s, const struct variable *v,
                         const struct tensor *value, struct err *err)
{
    int i = find_variable(s, v, err), rc;

    if (i < 0)
        return i;
    struct tensor to = var_store_value(s->vars, i);
    if (value->dtype != to.dtype)
        return err_set(err, ERR_DTYPE, "variable %s has dtype %s, its value %s", v->name,
                       dtype_name(to.dtype), dtype_name(value->dtype));
    if (!shape_equal(&value->shape, &to.shape))
        return err_set(err, ERR_SHAPE, "variable %s has shape %s, its value %s", v->name,
                       shape_text(&to.shape), shape_text(&value->shape));
    if (to.dtype == DT_STRING && (rc = string_slab_put(to.data, value, err)) < 0)
        return err_wrap(err, "variable %s", v->name), rc;
    if (tensor_bytes(&to) > 0)
        memcpy(to.data, value->data, tensor_bytes(&to));
    var_store_set_initialized(s->vars, i);
    return 0;
}

int session_variable_initialized(struct session *s, const struct variable *v)
{
    int i = find_variable(s, v, NULL);

    return i >= 0 && var_store_initialized(s->vars, i);
}

const char *session_find_nonfinite(const struct session *s)
{
    for (int i = 0, n = var_store_count(s->vars); i < n; i++) {
        const struct tensor t = var_store_value(s->vars, i);

        if (t.dtype == DT_FLOAT && var_store_initialized(s->vars, i) &&
            !tensor_finite_f32(tensor_f32(&t), (size_t)tensor_elements(&t)))
            return var_store_name(s->vars, i);
    }
    return NULL;
}

size_t session_variable_offset(struct session *s, const struct variable *v)
{
    int i = find_variable(s, v, NULL);

    return i < 0 ? 0 : var_store_offset(s->vars, i);
}
