#include "agent/plan/run.h"

/* ---- arguments of a run ---- */

static int check_output(const struct graph *g, struct output x, const char *what,
                        struct err *err)
{
    if (!output_valid(x))
        return err_set(err, ERR_ARG, "a %s is no tensor", what);
    if (operation_graph(x.op) != g)
        return err_set(err, ERR_ARG, "Tensor %s:%d is not an element of this graph.",
                       operation_name(x.op), x.index);
    return 0;
}

static int check_feed(const struct graph *g, const struct run_args *args, size_t i,
                      struct err *err)
{
    const struct feed *f = &args->feeds[i];
    int rc = check_output(g, f->output, "feed", err);

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

int run_check(const struct graph *g, const struct run_args *args, struct err *err)
{
    int rc = 0;

    for (size_t i = 0; rc == 0 && i < args->n_feeds; i++)
        rc = check_feed(g, args, i, err);
    for (size_t i = 0; rc == 0 && i < args->n_fetches; i++)
        rc = check_output(g, args->fetches[i], "fetch", err);
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
        else if (operation_graph(args->targets[i]) != g)
            rc = err_set(err, ERR_ARG, "Operation %s is not an element of this graph.",
                         operation_name(args->targets[i]));
    }
    return rc;
}

/* ---- kinds of runs ---- */

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

/* ---- what a run needs ---- */

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
