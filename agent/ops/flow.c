/* flow.c - the nodes of tf.cond, of which only one branch runs, and of tf.while_loop.
 *
 * Switch passes its input to one of two outputs; operations that depend on the other
 * output are dead and do not run. Merge passes on the input that is alive.
 *
 * A loop has for each of its variables an Enter, a Merge (of the Enter and a
 * NextIteration), a Switch and an Exit; one LoopCond decides for all Switches. A session
 * runs it as one operation (flow/loops.h).
 *
 * Gradients after TensorFlow 1.13's python/ops/control_flow_grad.py, by its rules for ops
 * without a context: Merge's second output says which branch was taken. */
#include "agent/ops/op_rules.h"

static int merge_shape(const struct shape_args *args)
{
    struct shape all = args->in[0];

    for (int i = 1; i < args->n_in; i++) {
        if (shape_merge(&all, &args->in[i], &all) == 0)
            continue;
        all = SHAPE_UNKNOWN;
        break;
    }
    args->out[0] = all;
    args->out[1] = SHAPE_SCALAR;
    return 0;
}

/* TensorFlow builds a second loop. Here, such a loop can only be imported from a file. */
GRAD(loop_grad)
{
    return graph_fail(
        g, ERR_UNSUPPORTED,
        "'%s' is part of a while loop: gradients through loops are not built "
        "here, only those of a file run",
        operation_name(op));
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

/* The gradient comes from the branch that was taken. If an output has no gradient, zeros
 * are used, which are alive while that output is. */
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

/* The gradient goes to the input that was alive. */
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

GRAD(same_grad)
{
    grad_in[0] = grad_out[0];
    return 0;
}

#define ENTERS "frame_name:string, is_constant:bool=false, parallel_iterations:int=10"

static const struct op_def rows[] = {
    {"Switch", OP_AWAITED, shape_same, switch_grad, ALIAS,
     "data:T, pred:bool -> output_false:T, output_true:T; T:type", .ranks = "?0"},
    {"RefSwitch", OP_AWAITED, shape_same, switch_grad, ALIAS,
     "data:&T, pred:bool -> output_false:&T, output_true:&T; T:type", .ranks = "?0"},
    {"Merge", OP_AWAITED, merge_shape, merge_grad, PLANNED,
     "inputs:N*T -> output:T, value_index:int32; T:type, N:int"},
    {"RefMerge", OP_AWAITED, merge_shape, merge_grad, PLANNED,
     "inputs:&N*T -> output:&T, value_index:int32; T:type, N:int"},
    {"RefIdentity", 0, shape_same, same_grad, ALIAS, "input:&T -> output:&T; T:type"},
    {"Enter", OP_AWAITED, shape_same, loop_grad, ALIAS,
     "data:T -> output:T; T:type, " ENTERS},
    {"RefEnter", OP_AWAITED, shape_same, loop_grad, ALIAS,
     "data:&T -> output:&T; T:type, " ENTERS},
    {"Exit", OP_AWAITED | OP_STAGED, shape_none, loop_grad, PLANNED,
     "data:T -> output:T; T:type"},
    {"NextIteration", OP_AWAITED, shape_same, loop_grad, ALIAS,
     "data:T -> output:T; T:type"},
    {"LoopCond", OP_AWAITED, shape_same, loop_grad, ALIAS, "input:bool -> output:bool",
     .ranks = "0"},
    /* runs even if its control inputs are dead */
    {"ControlTrigger", OP_AWAITED | OP_NO_GRADIENT, shape_none, NULL, PLANNED, "->"},
};

const struct op_family ops_of_flow = OP_FAMILY(rows);
