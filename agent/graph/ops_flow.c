/* ops_flow.c - what runs only sometimes: the nodes of tf.cond.
 *
 * Switch hands its input to one of two outputs; what depends on the other one is dead and
 * does not run. Merge takes whichever of its inputs is alive.
 *
 * Gradients after TensorFlow 1.13's python/ops/control_flow_grad.py, by its rules for ops
 * that are in no context: which branch was taken is what Merge says.
 */
#include "agent/graph/op_rules.h"

static int merge_shape(const struct shape_args *args)
{
    struct shape all = args->in[0];

    for (int i = 1; i < args->n_in; i++)
        if (shape_merge(&all, &args->in[i], &all) != 0)
            all = SHAPE_UNKNOWN;
    args->out[0] = all;
    args->out[1] = SHAPE_SCALAR;
    return 0;
}

static int switch_shape(const struct shape_args *args)
{
    return want_rank(args, 1, 0) != 0 ? ERR_SHAPE : shape_same(args);
}

/* Zeros that are alive while output i is. */
static struct output zeros_of_branch(struct graph *g, struct operation *op, int i)
{
    const struct operation *v = operation_behind_handle(input_of(op, 0));
    struct output x = output_of(op, i);
    struct op_builder *b;

    if (v != NULL) {
        b = op_begin(g, "ReadVariableOp", NULL);
        op_input(b, x);
        op_attr_type(b, "dtype", (enum dtype)attr_int(v, "dtype"));
        x = (struct output){op_finish(b), 0};
    }
    return zeros_like(g, x, NULL);
}

/* From the branch that was taken; the other one, if nothing came from it, gives zeros that
 * are alive when it is. */
GRAD(switch_grad)
{
    struct op_builder *b;
    struct output part[2];

    for (int i = 0; i < 2; i++)
        part[i] = output_valid(grad_out[i]) ? grad_out[i] : zeros_of_branch(g, op, i);
    b = op_begin(g, "Merge", NULL);
    op_input(b, part[0]);
    op_input(b, part[1]);
    grad_in[0] = (struct output){op_finish(b), 0};
    return grad_done(grad_in, 1);
}

/* To the input that was alive. */
GRAD(merge_grad)
{
    const int n = operation_n_inputs(op);

    for (int i = 0; i < n && output_valid(grad_out[0]); i++) {
        struct output taken = with_scalar(g, "Equal", output_of(op, 1), i, "Equal");

        grad_in[i] = binary(g, "Switch", grad_out[0], taken, NULL);
        grad_in[i].index = 1;
    }
    return output_valid(grad_out[0]) ? grad_done(grad_in, n) : 0;
}

static const struct op_def rows[] = {
    {"Switch", OP_AWAITED, switch_shape, switch_grad,
     "data:T, pred:bool -> output_false:T, output_true:T; T:type"},
    {"RefSwitch", OP_AWAITED, switch_shape, switch_grad,
     "data:&T, pred:bool -> output_false:&T, output_true:&T; T:type"},
    {"Merge", OP_AWAITED, merge_shape, merge_grad,
     "inputs:N*T -> output:T, value_index:int32; T:type, N:int"},
};

const struct op_family ops_of_flow = OP_FAMILY(rows);
