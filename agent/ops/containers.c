/* containers.c - tensor arrays and stacks, which loops use to keep values across
 * iterations.
 *
 * A handle (a resource) names the array or the stack. The float that the operations of a
 * tensor array pass on, its flow, only orders them; its value is unused. A session runs
 * all of these operations itself, not in plans (flow/containers.h). */
#include "agent/ops/op_rules.h"

GRAD(array_grad)
{
    return grad_only_of_files(g, op, "a tensor array or a stack");
}

static int concat_shape(const struct shape_args *args)
{
    args->out[1] = SHAPE(-1);
    return 0;
}

static int push_shape(const struct shape_args *args)
{
    args->out[0] = args->in[1];
    return 0;
}

#define STAGED (OP_STATEFUL | OP_AWAITED | OP_STAGED)

static const struct op_def rows[] = {
    {"TensorArrayV3", STAGED, shape_scalar, array_grad, PLANNED,
     "size:int32 -> handle:resource, flow:float32; dtype:type, "
     "element_shape:shape=unknown, "
     "dynamic_size:bool=false, clear_after_read:bool=true, "
     "identical_element_shapes:bool=false, tensor_array_name:string=",
     .ranks = "0"},
    {"TensorArrayGradV3", STAGED, shape_scalar, array_grad, PLANNED,
     "handle:resource, flow_in:float32 -> grad_handle:resource, flow_out:float32; "
     "source:string"},
    {"TensorArrayWriteV3", STAGED, shape_scalar, array_grad, PLANNED,
     "handle:resource, index:int32, value:T, flow_in:float32 -> flow_out:float32; "
     "T:type",
     .ranks = "?0"},
    {"TensorArrayReadV3", STAGED, shape_none, array_grad, PLANNED,
     "handle:resource, index:int32, flow_in:float32 -> value:dtype; dtype:type",
     .ranks = "?0"},
    {"TensorArrayGatherV3", STAGED, shape_none, array_grad, PLANNED,
     "handle:resource, indices:int32, flow_in:float32 -> value:dtype; dtype:type, "
     "element_shape:shape=unknown",
     .ranks = "?1"},
    {"TensorArrayScatterV3", STAGED, shape_scalar, array_grad, PLANNED,
     "handle:resource, indices:int32, value:T, flow_in:float32 -> flow_out:float32; "
     "T:type",
     .ranks = "?1"},
    {"TensorArrayConcatV3", STAGED, concat_shape, array_grad, PLANNED,
     "handle:resource, flow_in:float32 -> value:dtype, lengths:int64; dtype:type, "
     "element_shape_except0:shape=unknown"},
    {"TensorArraySplitV3", STAGED, shape_scalar, array_grad, PLANNED,
     "handle:resource, value:T, lengths:int64, flow_in:float32 -> flow_out:float32; "
     "T:type",
     .ranks = "??1"},
    {"TensorArraySizeV3", STAGED, shape_scalar, array_grad, PLANNED,
     "handle:resource, flow_in:float32 -> size:int32"},
    {"TensorArrayCloseV3", STAGED | OP_NO_GRADIENT, shape_none, NULL, PLANNED,
     "handle:resource ->"},
    {"StackV2", STAGED | OP_NO_GRADIENT, shape_scalar, NULL, PLANNED,
     "max_size:int32 -> handle:resource; elem_type:type, stack_name:string=",
     .ranks = "0"},
    {"StackPushV2", STAGED, push_shape, array_grad, PLANNED,
     "handle:resource, elem:T -> output:T; T:type, swap_memory:bool=false"},
    {"StackPopV2", STAGED, shape_none, array_grad, PLANNED,
     "handle:resource -> elem:elem_type; elem_type:type"},
    {"StackCloseV2", STAGED | OP_NO_GRADIENT, shape_none, NULL, PLANNED,
     "handle:resource ->"},
};

const struct op_family ops_of_containers = OP_FAMILY(rows);
