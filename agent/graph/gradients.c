/* gradients.c - tf.gradients of TensorFlow 1.13 (python/ops/gradients_impl.py).
 *
 * Visits the ops between xs and ys backwards, each after all of its consumers among them.
 * AddN sums the gradients that arrived at an output; the op's gradient rule then computes
 * those of its inputs. Creation order is a topological order but for the edges that close
 * loops, so one pass over the ids finds the ops that depend on xs where there are none. */
#include "agent/graph/graph_internal.h"
#include "agent/graph/ops.h"

#include "common/mem/xmalloc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The gradients that have arrived at one output. */
struct arrived {
    struct output *grads;
    size_t n, cap;
};

struct backprop {
    struct graph *g;
    int n_ops;
    int gated;     /* gate() */
    char *reached; /* depends on xs, through differentiable outputs */
    char *between; /* and ys depend on it */
    char *stop;
    /* uses of an op's outputs by ops between, not visited yet */
    int *pending;
    struct arrived **arrived; /* [op][output], allocated when needed */
    struct operation **queue;
    int head, tail;
};

/* The gradient of a handle is that of its variable. */
static int differentiable(enum dtype dtype)
{
    return dtype_is_floating(dtype) || dtype == DT_RESOURCE || dtype == DT_VARIANT;
}

/* ---- which ops take part ---- */

static void mark_reached(struct backprop *bp, const struct output *xs, size_t n_xs)
{
    int again = 1; /* an op is reached that may be an input of an earlier one */

    for (size_t i = 0; i < n_xs; i++)
        bp->reached[xs[i].op->id] = 1;
    while (again) {
        int any = 0, loops = 0;

        for (int id = 0; id < bp->n_ops; id++) {
            const struct operation *op = graph_operation_at(bp->g, id);

            for (int i = 0; i < op->n_inputs && !bp->reached[id]; i++) {
                bp->reached[id] = bp->reached[op->inputs[i].op->id] &&
                                  differentiable(output_dtype(op->inputs[i]));
                any |= bp->reached[id];
                loops |= op->inputs[i].op->id > id;
            }
        }
        again = any && loops;
    }
}

static void mark_between(struct backprop *bp, const struct output *ys, size_t n_ys)
{
    for (size_t i = 0; i < n_ys; i++)
        bp->between[ys[i].op->id] = bp->reached[ys[i].op->id];
    for (int id = bp->n_ops - 1; id >= 0; id--) {
        const struct operation *op = graph_operation_at(bp->g, id);

        if (!bp->between[id])
            continue;
        for (int i = 0; i < op->n_inputs; i++) {
            int from = op->inputs[i].op->id;

            if (bp->reached[from]) {
                bp->between[from] = 1;
                bp->pending[from]++;
            }
        }
    }
}

/* Marks where the walk stops: at an x that depends on no other x, and at outputs that the
 * caller wants constant. */
static void mark_stops(struct backprop *bp, const struct output *xs, size_t n_xs,
                       const struct output *stop, size_t n_stop)
{
    for (size_t i = 0; i < n_xs; i++) {
        const struct operation *op = xs[i].op;

        bp->stop[op->id] = 1;
        for (int k = 0; k < op->n_inputs; k++)
            if (bp->pending[op->inputs[k].op->id] > 0)
                bp->stop[op->id] = 0;
    }
    for (size_t i = 0; i < n_stop; i++)
        if (stop[i].op->id < bp->n_ops)
            bp->stop[stop[i].op->id] = 1;
}

/* ---- gradients that arrive ---- */

static struct arrived *arrived_at(struct backprop *bp, struct output x)
{
    struct arrived **at = &bp->arrived[x.op->id];

    if (*at == NULL)
        *at = xcalloc((size_t)x.op->n_outputs, sizeof(**at));
    return &(*at)[x.index];
}

static void arrive(struct backprop *bp, struct output at, struct output grad)
{
    struct arrived *a = arrived_at(bp, at);

    ARRAY_GROW(a->grads, a->n, a->cap);
    a->grads[a->n++] = grad;
}

/* The sum of the gradients that have arrived; OUTPUT_NONE if there are none. The sum
 * replaces them. */
static struct output sum_of(struct backprop *bp, struct output at)
{
    struct arrived *a = arrived_at(bp, at);
    struct op_builder *b;

    if (a->n == 0)
        return OUTPUT_NONE;
    if (a->n > 1) {
        colocate_with_enter(bp->g, a->grads[0].op);
        b = op_begin(bp->g, "AddN", NULL);
        for (size_t i = 0; i < a->n; i++)
            op_input(b, a->grads[i]);
        a->grads[0] = (struct output){op_finish(b), 0};
        colocate_with_leave(bp->g);
        a->n = 1;
    }
    return a->grads[0];
}

/* ---- the walk ---- */

static int gradients_fail(struct backprop *bp, struct err *err,
                          const struct operation *op)
{
    if (graph_error(bp->g) == NULL)
        (void)graph_fail(bp->g, ERR_UNSUPPORTED, "no gradient for operation '%s'",
                         op->name);
    return err_pass(err, &bp->g->error);
}

static int hand_to_inputs(struct backprop *bp, struct operation *op,
                          const struct output *grad_in)
{
    for (int i = 0; i < op->n_inputs; i++) {
        struct shape known = output_shape(op->inputs[i]);

        if (!output_valid(grad_in[i]))
            continue;
        if (output_dtype(op->inputs[i]) != DT_RESOURCE &&
            output_set_shape(grad_in[i], &known) != 0)
            return graph_fail(bp->g, ERR_SHAPE,
                              "the gradient of input %d of '%s' has shape %s, not %s", i,
                              op->name, shape_text(&grad_in[i].op->outputs->shape),
                              shape_text(&known));
        arrive(bp, op->inputs[i], grad_in[i]);
    }
    return 0;
}

/* Makes the gradients of several inputs available all at the same time: gate_gradients of
 * tf.gradients, which optimisers use. */
static void gate(struct graph *g, struct output *grads, int n)
{
    int n_given = 0;

    for (int i = 0; i < n; i++)
        n_given += output_valid(grads[i]);
    if (n_given < 2)
        return;
    device_enter(g, NULL);
    colocate_with_enter(g, NULL);
    tuple(g, grads, (size_t)n, NULL, grads);
    colocate_with_leave(g);
    device_leave(g);
}

/* Ops built by a gradient rule are in the scope `<scope of gradients>/<op>_grad/`. */
static int apply_rule(struct backprop *bp, struct operation *op,
                      const struct output *grad_out)
{
    struct output *grad_in = xcalloc((size_t)op->n_inputs, sizeof(*grad_in));
    char *scope = xasprintf("%s_grad", op->name);
    int rc;

    name_scope_enter(bp->g, scope);
    rc = op->def->grad(bp->g, op, grad_out, grad_in);
    if (rc == 0 && bp->gated)
        gate(bp->g, grad_in, op->n_inputs);
    name_scope_leave(bp->g);
    if (rc == 0)
        rc = hand_to_inputs(bp, op, grad_in);
    free(scope);
    free(grad_in);
    return rc;
}

static int walk(struct backprop *bp, const struct output *ys, size_t n_ys,
                struct err *err)
{
    char *queued = xcalloc((size_t)bp->n_ops, 1);
    int rc = 0;

    for (size_t i = 0; i < n_ys; i++) {
        int id = ys[i].op->id;

        if (bp->pending[id] == 0 && bp->between[id] && !queued[id]) {
            queued[id] = 1;
            bp->queue[bp->tail++] = ys[i].op;
        }
    }
    free(queued);
    while (rc == 0 && bp->head < bp->tail) {
        struct operation *op = bp->queue[bp->head++];

        struct output *grad_out = xcalloc((size_t)op->n_outputs, sizeof(*grad_out));
        int any = 0;

        for (int i = 0; i < op->n_outputs; i++) {
            grad_out[i] = sum_of(bp, (struct output){op, i});
            any |= output_valid(grad_out[i]);
        }
        if (any && !bp->stop[op->id] && op->def->grad != NULL)
            rc = apply_rule(bp, op, grad_out);
        free(grad_out);
        if (rc != 0)
            return gradients_fail(bp, err, op);
        for (int i = 0; i < op->n_inputs; i++) {
            int id = op->inputs[i].op->id;

            if (bp->between[id] && --bp->pending[id] == 0)
                bp->queue[bp->tail++] = op->inputs[i].op;
        }
    }
    return 0;
}

/* ---- beginning and end ---- */

static int gradients_check(struct graph *g, const char *what, const struct output *xs,
                           size_t n, struct err *err)
{
    for (size_t i = 0; i < n; i++) {
        if (!output_valid(xs[i]))
            return err_set(err, ERR_ARG, "gradients: %s %zu is missing", what, i);
        if (xs[i].op->graph != g)
            return err_set(err, ERR_ARG,
                           "Tensor \"%s:%d\" is not an element of this graph.",
                           xs[i].op->name, xs[i].index);
    }
    return 0;
}

static int seed(struct backprop *bp, const struct output *ys, size_t n_ys,
                const struct output *grad_ys, struct err *err)
{
    struct graph *g = bp->g;

    for (size_t i = 0; i < n_ys; i++) {
        struct output grad;
        char name[32];

        (void)snprintf(name, sizeof(name), "grad_ys_%zu", i);
        if (grad_ys != NULL && output_valid(grad_ys[i])) {
            grad = unary(g, "Identity", grad_ys[i], name);
        } else {
            struct output dims = shape_of(g, ys[i], NULL);
            struct output one = constant_like(g, output_dtype(ys[i]), 1.0, name);

            grad = binary(g, "Fill", dims, one, NULL);
        }
        if (!output_valid(grad))
            return gradients_fail(bp, err, ys[i].op);
        arrive(bp, ys[i], grad);
    }
    return 0;
}

static void backprop_done(struct backprop *bp)
{
    for (int id = 0; id < bp->n_ops; id++) {
        int n = graph_operation_at(bp->g, id)->n_outputs;

        for (int i = 0; bp->arrived[id] != NULL && i < n; i++)
            free(bp->arrived[id][i].grads);
        free(bp->arrived[id]);
    }
    free(bp->arrived);
    free(bp->reached);
    free(bp->between);
    free(bp->stop);
    free(bp->pending);
    free(bp->queue);
}

static int gradients(struct graph *g, const struct output *ys, size_t n_ys,
                     const struct output *xs, size_t n_xs, const struct output *grad_ys,
                     const struct output *stop, size_t n_stop, int gated,
                     struct output *ret_grads, struct err *err)
{
    struct backprop bp;
    int rc = 0;

    for (size_t i = 0; i < n_xs; i++)
        ret_grads[i] = OUTPUT_NONE;
    if (graph_error(g) != NULL)
        return err_pass(err, &g->error);
    if (gradients_check(g, "y", ys, n_ys, err) != 0 ||
        gradients_check(g, "x", xs, n_xs, err) != 0 ||
        gradients_check(g, "stop", stop, n_stop, err) != 0)
        return ERR_ARG;
    size_t n = g->ops.n;
    bp = (struct backprop){.g = g, .n_ops = (int)n, .gated = gated};
    bp.reached = xcalloc(n, 1);
    bp.between = xcalloc(n, 1);
    bp.stop = xcalloc(n, 1);
    bp.pending = xcalloc(n, sizeof(*bp.pending));
    bp.arrived = xcalloc(n, sizeof(*bp.arrived));
    bp.queue = xcalloc(n, sizeof(struct operation *));
    mark_reached(&bp, xs, n_xs);
    mark_between(&bp, ys, n_ys);
    mark_stops(&bp, xs, n_xs, stop, n_stop);
    name_scope_enter(g, "gradients");
    rc = seed(&bp, ys, n_ys, grad_ys, err);
    if (rc == 0)
        rc = walk(&bp, ys, n_ys, err);
    for (size_t i = 0; rc == 0 && i < n_xs; i++)
        ret_grads[i] = sum_of(&bp, xs[i]);
    name_scope_leave(g);
    backprop_done(&bp);
    return rc;
}

int graph_gradients(struct graph *g, const struct output *ys, size_t n_ys,
                    const struct output *xs, size_t n_xs, const struct output *grad_ys,
                    const struct output *stop, size_t n_stop, struct output *ret_grads,
                    struct err *err)
{
    return gradients(g, ys, n_ys, xs, n_xs, grad_ys, stop, n_stop, 0, ret_grads, err);
}

int graph_gradients_gated(struct graph *g, struct output y, const struct output *xs,
                          size_t n_xs, struct output *ret_grads, struct err *err)
{
    return gradients(g, &y, 1, xs, n_xs, NULL, NULL, 0, 1, ret_grads, err);
}
