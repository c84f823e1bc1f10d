#include "agent/flow/string_feeds.h"

#include "agent/graph/op_def.h"
#include "agent/plan/run.h"
#include "agent/plan/uses.h"
#include "common/mem/xmalloc.h"
#include "common/tensor/string_slab.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_KINDS = 64 };

struct read {
    struct output x; /* what is fed */
    const struct operation *variable;
    int is_written; /* by the same run, which is refused */
};

/* What runs of one kind read. */
struct reads {
    struct arena arena;
    struct run_kind kind;
    int n;
    struct read *reads;
    uint64_t last_used;
};

/* The reads of the kinds that ran last: to find them, all of the graph is looked at. */
struct string_feeds {
    const struct graph *graph;
    struct var_store *vars;
    int n_kinds;
    struct reads *kinds[MAX_KINDS];
    uint64_t runs;
};

struct string_feeds *string_feeds_new(const struct graph *g, struct var_store *vars)
{
    struct string_feeds *f = xcalloc(1, sizeof(*f));

    f->graph = g;
    f->vars = vars;
    return f;
}

static void reads_free(struct reads *r)
{
    if (r == NULL)
        return;
    free(r->reads);
    arena_done(&r->arena);
    free(r);
}

void string_feeds_free(struct string_feeds *f)
{
    if (f == NULL)
        return;
    for (int i = 0; i < f->n_kinds; i++)
        reads_free(f->kinds[i]);
    free(f);
}

int is_string_variable(const struct operation *op)
{
    return operation_is_variable(op) && attr_int(op, "dtype") == DT_STRING;
}

/* ---- the reads of one kind of runs ---- */

/* Whether an operation that the run needs writes the variable. */
static int is_written(const struct graph *g, const struct op_walk *needed,
                      const struct operation *variable)
{
    for (int k = 0; k < graph_n_operations(g); k++) {
        const struct operation *op = graph_operation_at(g, k);

        for (int i = 0; needed->added[k] && i < operation_n_inputs(op); i++)
            if (operation_input(op, i).op == variable && op_writes(op, i))
                return 1;
    }
    return 0;
}

static void add_read(struct reads *r, const struct graph *g, const struct op_walk *needed,
                     const struct run_args *args, struct output x,
                     const struct operation *variable)
{
    if (output_dtype(x) != DT_STRING || run_is_fed(args, x))
        return;
    for (int i = 0; i < r->n; i++)
        if (output_same(r->reads[i].x, x))
            return;
    r->reads = xreallocarray(r->reads, (size_t)r->n + 1, sizeof(*r->reads));
    r->reads[r->n++] = (struct read){x, variable, is_written(g, needed, variable)};
}

/* What passes the value on is fed in its place, since the variable itself may be needed for
 * something else. */
static void add_input(struct reads *r, const struct graph *g,
                      const struct op_walk *needed, const struct run_args *args,
                      struct operation *op, int i)
{
    const struct output x = operation_input(op, i);

    if (!is_string_variable(x.op) || op_writes(op, i) ||
        operation_is(op, "IsVariableInitialized") ||
        operation_is(op, "VarIsInitializedOp"))
        return;
    if (operation_is(op, "Identity") || operation_is(op, "ReadVariableOp"))
        add_read(r, g, needed, args, (struct output){op, 0}, x.op);
    else
        add_read(r, g, needed, args, x, x.op);
}

static struct reads *find_reads(const struct graph *g, const struct run_args *args)
{
    struct reads *r = xcalloc(1, sizeof(*r));
    struct op_walk needed;

    r->kind = run_kind_of(args, &r->arena);
    op_walk_begin(&needed, g);
    run_walk_needed(&needed, args);
    for (size_t i = 0; i < args->n_fetches; i++)
        if (is_string_variable(args->fetches[i].op))
            add_read(r, g, &needed, args, args->fetches[i], args->fetches[i].op);
    for (int k = 0; k < graph_n_operations(g); k++) {
        struct operation *op = graph_operation_at(g, k);

        for (int i = 0; needed.added[k] && i < operation_n_inputs(op); i++)
            add_input(r, g, &needed, args, op, i);
    }
    op_walk_end(&needed);
    return r;
}

static const struct reads *reads_of(struct string_feeds *f, const struct run_args *args)
{
    int at = -1;

    for (int i = 0; i < f->n_kinds && at < 0; i++)
        if (run_is_of_kind(&f->kinds[i]->kind, args))
            at = i;
    if (at < 0 && f->n_kinds < MAX_KINDS) {
        at = f->n_kinds++;
        f->kinds[at] = find_reads(f->graph, args);
    } else if (at < 0) {
        at = 0;
        for (int i = 1; i < MAX_KINDS; i++)
            if (f->kinds[i]->last_used < f->kinds[at]->last_used)
                at = i;
        reads_free(f->kinds[at]);
        f->kinds[at] = find_reads(f->graph, args);
    }
    f->kinds[at]->last_used = ++f->runs;
    return f->kinds[at];
}

/* ---- a run ---- */

static int feed(struct var_store *vars, const struct read *r, struct feed *ret,
                struct err *err)
{
    const int i = var_store_find(vars, r->variable);
    struct tensor slab;

    if (i < 0 || !var_store_initialized(vars, i))
        return err_set(err, ERR_UNINITIALIZED, "Attempting to use uninitialized value %s",
                       operation_name(r->variable));
    if (r->is_written)
        return err_set(err, ERR_UNSUPPORTED,
                       "%s holds strings, which one run cannot read and write",
                       operation_name(r->variable));
    ret->output = r->x;
    slab = var_store_value(vars, i);
    return string_slab_get(slab.data, &slab.shape, &ret->value, err);
}

int string_feeds_add(struct string_feeds *f, struct run_args *ret,
                     const struct run_args *args, struct err *err)
{
    const struct reads *r;
    struct feed *feeds;
    int rc = run_check(f->graph, args, err);

    *ret = *args;
    if (rc == 0)
        rc = var_store_place(f->vars, err);
    if (rc < 0)
        return rc;
    r = reads_of(f, args);
    if (r->n == 0)
        return 0;
    feeds = xcalloc(args->n_feeds + (size_t)r->n, sizeof(*feeds));
    if (args->n_feeds > 0)
        memcpy(feeds, args->feeds, args->n_feeds * sizeof(*feeds));
    ret->feeds = feeds;
    for (int i = 0; rc == 0 && i < r->n; i++) {
        rc = feed(f->vars, &r->reads[i], &feeds[ret->n_feeds], err);
        ret->n_feeds += rc == 0;
    }
    return rc;
}

void string_feeds_done(struct run_args *ret, const struct run_args *args)
{
    struct feed *feeds = (struct feed *)(uintptr_t)ret->feeds;

    if (ret->feeds == args->feeds)
        return;
    for (size_t i = args->n_feeds; i < ret->n_feeds; i++)
        tensor_free(&feeds[i].value);
    free(feeds);
}
