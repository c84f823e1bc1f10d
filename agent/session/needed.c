#include "agent/session/needed.h"

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
