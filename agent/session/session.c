#include "agent/session/session.h"

#include "agent/flow/flow.h"
#include "agent/session/session_internal.h"
#include "common/mem/xmalloc.h"
#include "common/tensor/string_slab.h"

#include <stdlib.h>
#include <string.h>

struct session {
    struct graph *graph;
    struct var_store *vars;
    struct plans *plans;
    struct flow *flow;       /* for runs that one plan cannot do */
    struct session_tap *tap; /* NULL: none */
};

int session_new(struct session **ret, struct graph *g, const struct session_options *o,
                struct err *err)
{
    struct session_options none = {0};

    o = o != NULL ? o : &none;
    struct session *s = xcalloc(1, sizeof(*s));
    s->graph = g;
    const struct device_memory own = {.block = o->block,
                                      .capacity = o->block_capacity,
                                      .holds_state = o->block_holds_state};
    int rc = var_store_new(&s->vars, g, &own, o->devices, o->n_devices, err);
    if (rc < 0) {
        free(s);
        return rc;
    }
    s->plans = plans_new(g, s->vars, o->numerics);
    s->flow =
        flow_new(g, s->vars, s->plans,
                 o->max_iterations > 0 ? o->max_iterations : SESSION_MAX_ITERATIONS);
    *ret = s;
    return 0;
}

void session_free(struct session *s)
{
    if (s == NULL)
        return;
    flow_free(s->flow);
    plans_free(s->plans);
    var_store_free(s->vars);
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

/* ---- a tap ---- */

/* Appends those outputs of the tap that the run computes to its fetches, but none of inside
 * a loop. ret_which [n]: their indices in the tap. Returns their number. */
static size_t add_tapped(struct session *s, const struct run_args *args,
                         struct output *fetches, size_t *ret_which)
{
    int *depths = flow_loop_depths(s->flow, args);
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
    rc = flow_run(s->flow, &more, values, dead, err);
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

/* ---- running ---- */

static int run_fed(struct session *s, const struct run_args *args, struct tensor *ret,
                   struct err *err)
{
    return s->tap != NULL ? run_tapped(s, args, ret, err)
                          : flow_run(s->flow, args, ret, NULL, err);
}

int session_run(struct session *s, const struct run_args *args, struct tensor *ret,
                struct err *err)
{
    struct string_feeds *strings = flow_string_feeds(s->flow);
    struct run_args more;
    int rc;

    if (strings == NULL)
        return run_fed(s, args, ret, err);
    rc = string_feeds_add(strings, &more, args, err);
    if (rc == 0)
        rc = run_fed(s, &more, ret, err);
    string_feeds_done(&more, args);
    return rc;
}

size_t session_gemms(struct session *s, const struct run_args *args, struct dense *ret,
                     size_t max)
{
    const struct plan *p = plans_find(s->plans, args);

    return p != NULL ? plan_gemms(p, ret, max) : 0;
}

void session_set_progress(struct session *s, void (*fn)(void *ctx), void *ctx)
{
    plans_set_progress(s->plans, fn, ctx);
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
