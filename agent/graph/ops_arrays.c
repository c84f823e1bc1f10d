/* ops_arrays.c - tensor arrays and stacks, which loops use to keep values across
 * iterations.
 *
 * A handle (a resource) names the array or the stack. The float that the operations of a
 * tensor array pass on, its flow, only orders them; its value is unused. A session runs
 * all of these operations itself, not in plans (session/containers.h). */
#include "agent/graph/graph_internal.h"
#include "agent/graph/op_rules.h"

/* TensorFlow builds gradients of most of these ops. Here, gradients can only be imported
 * from a file. */
GRAD(array_grad)
{
    return graph_fail(
        g, ERR_UNSUPPORTED,
        "'%s' uses a tensor array or a stack: gradients through these are not "
        "built here, only those of a file run",
        operation_name(op));
}

static int array_new_shape(const struct shape_args *args)
{
    return want_rank(args, 0, 0) != 0 ? ERR_SHAPE : shape_scalar(args);
}

static int write_shape(const struct shape_args *args)
{
    return want_rank(args, 1, 0) != 0 ? ERR_SHAPE : shape_scalar(args);
}

static int read_shape(const struct shape_args *args)
{
    return want_rank(args, 1, 0);
}

static int indices_shape(const struct shape_args *args)
{
    return want_rank(args, 1, 1);
}

static int scatter_shape(const struct shape_args *args)
{
    return want_rank(args, 1, 1) != 0 ? ERR_SHAPE : shape_scalar(args);
}

static int concat_shape(const struct shape_args *args)
{
    args->out[1] = SHAPE(-1);
    return 0;
}

static int split_shape(const struct shape_args *args)
{
    return want_rank(args, 2, 1) != 0 ? ERR_SHAPE : shape_scalar(args);
}

static int push_shape(const struct shape_args *args)
{
    args->out[0] = args->in[1];
    return 0;
}

#define STAGED (OP_STATEFUL | OP_AWAITED | OP_STAGED)

static const struct op_def rows[] = {
    {"TensorArrayV3", STAGED, array_new_shape, array_grad,
     "size:int32 -> handle:resource, flow:float32; dtype:type, "
     "element_shape:shape=unknown, "
     "dynamic_size:bool=false, clear_after_read:bool=true, "
     "identical_element_shapes:bool=false, tensor_array_name:string="},
    {"TensorArrayGradV3", STAGED, shape_scalar, array_grad,
     "handle:resource, flow_in:float32 -> grad_handle:resource, flow_out:float32; "
     "source:string"},
    {"TensorArrayWriteV3", STAGED, write_shape, array_grad,
     "handle:resource, index:int32, value:T, flow_in:float32 -> flow_out:float32; "
     "T:type"},
    {"TensorArrayReadV3", STAGED, read_shape, array_grad,
     "handle:resource, index:int32, flow_in:float32 -> value:dtype; dtype:type"},
    {"TensorArrayGatherV3", STAGED, indices_shape, array_grad,
     "handle:resource, indices:int32, flow_in:float32 -> value:dtype; dtype:type, "
     "element_shape:shape=unknown"},
    {"TensorArrayScatterV3", STAGED, scatter_shape, array_grad,
     "handle:resource, indices:int32, value:T, flow_in:float32 -> flow_out:float32; "
     "T:type"},
    {"TensorArrayConcatV3", STAGED, concat_shape, array_grad,
     "handle:resource, flow_in:float32 -> value:dtype, lengths:int64; dtype:type, "
     "element_shape_except0:shape=unknown"},
    {"TensorArraySplitV3", STAGED, split_shape, array_grad,
     "handle:resource, value:T, lengths:int64, flow_in:float32 -> flow_out:float32; "
     "T:type"},
    {"TensorArraySizeV3", STAGED, shape_scalar, array_grad,
     "handle:resource, flow_in:float32 -> size:int32"},
    {"TensorArrayCloseV3", STAGED | OP_NO_GRADIENT, shape_none, NULL,
     "handle:resource ->"},
    {"StackV2", STAGED | OP_NO_GRADIENT, array_new_shape, NULL,
     "max_size:int32 -> handle:resource; elem_type:type, stack_name:string="},
    {"StackPushV2", STAGED, push_shape, array_grad,
     "handle:resource, elem:T -> output:T; T:type, swap_memory:bool=false"},
    {"StackPopV2", STAGED, shape_none, array_grad,
     "handle:resource -> elem:elem_type; elem_type:type"},
    {"StackCloseV2", STAGED | OP_NO_GRADIENT, shape_none, NULL, "handle:resource ->"},
};

const struct op_family ops_of_arrays = OP_FAMILY(rows);
