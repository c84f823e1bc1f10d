#include "agent/session/needed.h"

int run_is_of_kind(const struct run_kind *kind, const struct run_args *args)
{
    int same = kind->n_given == args->n_feeds && kind->n_wanted == args->n_fetches &&
               kind->n_targets == args->n_targets;

    for (size_t i = 0; same && i < args->n_feeds; i++)
        same = output_same(kind->given[i], args->feeds[i].output);
    for (size_t i = 0; same && i < args->n_fetches; i++)
        same = output_same(kind->wanted[i], args->fetches[i]);
    for (size_t i = 0; same && i < args->n_targets; i++)
        same = kind->targets[i] == args->targets[i];
    return same;
}

struct run_kind run_kind_copy(const struct run_kind *kind, struct arena *a)
{
    struct run_kind ret = *kind;

    ret.given = arena_memdup(a, kind->given, kind->n_given * sizeof(*kind->given));
    ret.wanted = arena_memdup(a, kind->wanted, kind->n_wanted * sizeof(*kind->wanted));
    ret.targets =
        arena_memdup(a, kind->targets, kind->n_targets * sizeof(*kind->targets));
    return ret;
}

struct run_kind run_kind_of(const struct run_args *args, struct arena *a)
{
    struct output *given = ARENA_ARRAY(a, struct output, args->n_feeds + 1);
    const struct run_kind own = {.wanted = args->fetches,
                                 .n_wanted = args->n_fetches,
                                 .targets = args->targets,
                                 .n_targets = args->n_targets};
    struct run_kind ret = run_kind_copy(&own, a);

    for (size_t i = 0; i < args->n_feeds; i++)
        given[i] = args->feeds[i].output;
    ret.given = given;
    ret.n_given = args->n_feeds;
    return ret;
}

int run_is_fed(const struct run_args *args, struct output x)
{
    for (size_t i = 0; i < args->n_feeds; i++)
        if (output_same(args->feeds[i].output, x))
            return 1;
    return 0;
}

static void reach(struct op_walk *w, const struct run_args *args, struct output x)
{
    if (!run_is_fed(args, x))
        op_walk_add(w, x.op);
}

void run_walk_needed(struct op_walk *w, const struct run_args *args)
{
    for (size_t i = 0; i < args->n_fetches; i++)
        reach(w, args, args->fetches[i]);
    for (size_t i = 0; i < args->n_targets; i++)
        op_walk_add(w, args->targets[i]);
    for (struct operation *op; (op = op_walk_next(w)) != NULL;) {
        for (int i = 0; i < operation_n_inputs(op); i++)
            reach(w, args, operation_input(op, i));
        for (int i = 0; i < operation_n_control_inputs(op); i++)
            op_walk_add(w, operation_control_input(op, i));
    }
}
