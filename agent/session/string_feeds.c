#include "agent/session/string_feeds.h"

#include "agent/graph/op_def.h"
#include "agent/session/needed.h"
#include "agent/session/uses.h"
#include "common/mem/xmalloc.h"
#include "common/tensor/string_slab.h"

#include <stdlib.h>
#include <string.h>

struct reads {
    struct run_args *args; /* with the feeds so far */
    struct var_store *vars;
    const struct op_walk *needed;
    struct err *err;
};

int is_string_variable(const struct operation *op)
{
    return operation_is_variable(op) && attr_int(op, "dtype") == DT_STRING;
}

/* Whether an operation that the run needs writes the variable. */
static int is_written(const struct reads *r, const struct graph *g,
                      const struct operation *variable)
{
    for (int k = 0; k < graph_n_operations(g); k++) {
        const struct operation *op = graph_operation_at(g, k);

        for (int i = 0; r->needed->added[k] && i < operation_n_inputs(op); i++)
            if (operation_input(op, i).op == variable && op_writes(op, i))
                return 1;
    }
    return 0;
}

static int feed(struct reads *r, const struct graph *g, struct output x,
                const struct operation *variable)
{
    const int i = var_store_find(r->vars, variable);
    struct feed *feeds;
    struct tensor slab;

    if (run_is_fed(r->args, x))
        return 0;
    if (i < 0 || !var_store_initialized(r->vars, i))
        return err_set(r->err, ERR_UNINITIALIZED,
                       "Attempting to use uninitialized value %s",
                       operation_name(variable));
    if (is_written(r, g, variable))
        return err_set(r->err, ERR_UNSUPPORTED,
                       "%s holds strings, which one run cannot read and write",
                       operation_name(variable));
    feeds = xcalloc(r->args->n_feeds + 1, sizeof(*feeds));
    if (r->args->n_feeds > 0)
        memcpy(feeds, r->args->feeds, r->args->n_feeds * sizeof(*feeds));
    free((struct feed *)(uintptr_t)r->args->feeds);
    r->args->feeds = feeds;
    slab = var_store_value(r->vars, i);
    feeds[r->args->n_feeds].output = x;
    return string_slab_get(slab.data, &slab.shape, &feeds[r->args->n_feeds++].value,
                           r->err);
}

/* What passes the value on is fed in its place, since the variable itself may be needed for
 * something else. */
static int feed_read(struct reads *r, const struct graph *g, struct operation *op, int i)
{
    const struct output x = operation_input(op, i);

    if (!is_string_variable(x.op) || op_writes(op, i) ||
        operation_is(op, "IsVariableInitialized") ||
        operation_is(op, "VarIsInitializedOp"))
        return 0;
    if (operation_is(op, "Identity") || operation_is(op, "ReadVariableOp"))
        return output_dtype((struct output){op, 0}) == DT_STRING
                   ? feed(r, g, (struct output){op, 0}, x.op)
                   : 0;
    return output_dtype(x) == DT_STRING ? feed(r, g, x, x.op) : 0;
}

int string_feeds_add(struct run_args *ret, const struct run_args *args,
                     const struct graph *g, struct var_store *vars, struct err *err)
{
    struct op_walk needed;
    struct reads r = {ret, vars, &needed, err};
    int rc = 0;

    *ret = *args;
    ret->feeds = xcalloc(args->n_feeds + 1, sizeof(*ret->feeds));
    if (args->n_feeds > 0)
        memcpy((struct feed *)(uintptr_t)ret->feeds, args->feeds,
               args->n_feeds * sizeof(*ret->feeds));
    op_walk_begin(&needed, g);
    run_walk_needed(&needed, args);
    for (size_t i = 0; rc == 0 && i < args->n_fetches; i++)
        if (is_string_variable(args->fetches[i].op) &&
            output_dtype(args->fetches[i]) == DT_STRING)
            rc = feed(&r, g, args->fetches[i], args->fetches[i].op);
    for (int k = 0; rc == 0 && k < graph_n_operations(g); k++) {
        struct operation *op = graph_operation_at(g, k);

        for (int i = 0; rc == 0 && needed.added[k] && i < operation_n_inputs(op); i++)
            rc = feed_read(&r, g, op, i);
    }
    op_walk_end(&needed);
    return rc;
}

void string_feeds_done(struct run_args *ret, const struct run_args *args)
{
    struct feed *feeds = (struct feed *)(uintptr_t)ret->feeds;

    for (size_t i = args->n_feeds; i < ret->n_feeds; i++)
        tensor_free(&feeds[i].value);
    free(feeds);
}
