/* ops_flow.c - what runs only sometimes: the nodes of tf.cond.
 *
 * Switch hands its input to one of two outputs; what depends on the other one is dead and
 * does not run. Merge takes whichever of its inputs is alive.
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

static const struct op_def rows[] = {
    {"Switch", OP_AWAITED, switch_shape, grad_missing,
     "data:T, pred:bool -> output_false:T, output_true:T; T:type"},
    {"RefSwitch", OP_AWAITED, switch_shape, grad_missing,
     "data:&T, pred:bool -> output_false:&T, output_true:&T; T:type"},
    {"Merge", OP_AWAITED, merge_shape, grad_missing,
     "inputs:N*T -> output:T, value_index:int32; T:type, N:int"},
};

const struct op_family ops_of_flow = OP_FAMILY(rows);
