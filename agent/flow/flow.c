#include "agent/flow/flow.h"

#include "agent/flow/stages.h"
#include "agent/graph/op_def.h"
#include "common/mem/xmalloc.h"

#include <stdlib.h>

#define MAX_SCHEDULES 64

struct flow {
    struct graph *graph;
    struct var_store *vars;
    struct plans *plans;
    int64_t max_iterations;
    struct schedule *schedules[MAX_SCHEDULES];
    int n_schedules;
    uint64_t runs;
    struct string_feeds *string_feeds; /* NULL: the graph has no variables of strings */
    int n_seen;           /* look_at_new looked at this many operations of the graph */
    int has_staged;       /* no plan can run one of them */
    int has_sized;        /* values decide sizes of one of them */
    unsigned char *known; /* [n_seen] by operation: plan_knows */
};

struct flow *flow_new(struct graph *g, struct var_store *vars, struct plans *plans,
                      int64_t max_iterations)
{
    struct flow *f = xcalloc(1, sizeof(*f));

    f->graph = g;
    f->vars = vars;
    f->plans = plans;
    f->max_iterations = max_iterations;
    return f;
}

void flow_free(struct flow *f)
{
    if (f == NULL)
        return;
    for (int i = 0; i < f->n_schedules; i++)
        schedule_free(f->schedules[i]);
    string_feeds_free(f->string_feeds);
    free(f->known);
    free(f);
}

/* ---- the graph ---- */

static void look_at_new(struct flow *f)
{
    const int n = graph_n_operations(f->graph);

    if (f->n_seen == n)
        return;
    f->known = xreallocarray(f->known, (size_t)n, 1);
    for (; f->n_seen < n; f->n_seen++) {
        const struct operation *op = graph_operation_at(f->graph, f->n_seen);

        f->known[f->n_seen] = (unsigned char)plan_knows(f->known, op);
        f->has_sized |= operation_def(op)->sized_by != NULL;
        if (f->string_feeds == NULL && is_string_variable(op))
            f->string_feeds = string_feeds_new(f->graph, f->vars);
        f->has_staged |= stages_cut_at(op, f->known) || operation_is(op, "NextIteration");
    }
}

/* Whether a run may need stages. An operation sized by values is known to need none if
 * they follow from constants, which a feed may replace. */
static int may_need_stages(struct flow *f, const struct run_args *args)
{
    int replaces = 0;

    look_at_new(f);
    for (size_t i = 0; f->has_sized && i < args->n_feeds; i++)
        replaces |= output_valid(args->feeds[i].output) &&
                    operation_graph(args->feeds[i].output.op) == f->graph &&
                    f->known[operation_id(args->feeds[i].output.op)];
    return f->has_staged || replaces;
}

/* ---- schedules ---- */

static int ready_schedule(struct flow *f, const struct run_args *args,
                          struct schedule **ret, struct err *err)
{
    struct arena own = ARENA_ZERO;
    int rc;

    *ret = NULL;
    for (int i = 0; i < f->n_schedules && *ret == NULL; i++)
        if (run_is_of_kind(&f->schedules[i]->kind, args))
            *ret = f->schedules[i];
    if (*ret == NULL) {
        rc = run_check(f->graph, args, err);
        if (rc < 0)
            return rc;
        const struct schedule_query q = {.graph = f->graph,
                                         .kind = run_kind_of(args, &own)};
        rc = schedule_build(ret, &q, err);
        arena_done(&own);
        if (rc < 0)
            return rc;
        int at = 0;
        if (f->n_schedules < MAX_SCHEDULES)
            at = f->n_schedules++;
        else
            for (int i = 1; i < MAX_SCHEDULES; i++)
                if (f->schedules[i]->last_used < f->schedules[at]->last_used)
                    at = i;
        schedule_free(f->schedules[at]);
        f->schedules[at] = *ret;
    }
    (*ret)->last_used = ++f->runs;
    return 0;
}

int flow_run(struct flow *f, const struct run_args *args, struct tensor *ret,
             unsigned char *ret_dead, struct err *err)
{
    struct schedule *sc = NULL;
    int rc = may_need_stages(f, args) ? ready_schedule(f, args, &sc, err) : 0;

    if (rc < 0)
        return rc;
    if (sc == NULL || sc->n_stages <= 1)
        return plans_run(f->plans, args, ret, ret_dead, err);
    /* the schedule was made for other feeds, maybe of other shapes */
    rc = run_check(f->graph, args, err);
    if (rc < 0)
        return rc;
    struct staged_run r = {.plans = f->plans, .max_iterations = f->max_iterations};
    rc = schedule_run(&r, sc, args, ret, ret_dead, err);
    containers_done(&r.containers);
    lists_done(&r.lists);
    return rc;
}

struct string_feeds *flow_string_feeds(struct flow *f)
{
    look_at_new(f);
    return f->string_feeds;
}

/* ---- loops ---- */

static int raise_to(int *x, int least)
{
    if (*x >= least)
        return 0;
    *x = least;
    return 1;
}

/* Only with back edges from a NextIteration is more than one pass needed. */
int *flow_loop_depths(struct flow *f, const struct run_args *args)
{
    const struct graph *g = f->graph;
    const int n = graph_n_operations(g);
    int *depths, changed = 1;

    if (!may_need_stages(f, args))
        return NULL;
    depths = xcalloc((size_t)n + 1, sizeof(*depths));
    for (int pass = 0; changed && pass <= LOOPS_MAX_DEPTH; pass++) {
        changed = 0;
        for (int k = 0; k < n; k++) {
            const struct operation *op = graph_operation_at(g, k);
            int depth = 0;

            for (int i = 0; i < operation_n_inputs(op); i++)
                raise_to(&depth, depths[operation_id(operation_input(op, i).op)]);
            for (int i = 0; i < operation_n_control_inputs(op); i++)
                raise_to(&depth, depths[operation_id(operation_control_input(op, i))]);
            if (operation_is_enter(op))
                depth++;
            else if (operation_is(op, "Exit") || operation_is(op, "RefExit"))
                depth--;
            changed |= raise_to(&depths[k], depth);
        }
    }
    return depths;
}
