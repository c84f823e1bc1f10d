/* lists.c - tensor lists and optionals, in which TensorFlow 2's loops and conditions keep
 * values for their gradients.
 *
 * A list is a value of DT_VARIANT: operations that change one return another. A session runs
 * all of these operations itself, not in plans (flow/lists.h). */
#include "agent/ops/op_rules.h"

GRAD(list_grad)
{
    return grad_only_of_files(g, op, "a tensor list or an optional");
}

/* Output 0 is a list or a number, the others are not known. */
static int first_scalar(const struct shape_args *args)
{
    args->out[0] = SHAPE_SCALAR;
    return 0;
}

static int concat_shape(const struct shape_args *args)
{
    args->out[1] = SHAPE(-1);
    return 0;
}

#define LIST    "input_handle:variant"
#define TYPE    "element_dtype:type"
#define SHAPED  "element_dtype:type, shape_type:index_type"
#define OF_SIZE "element_shape:shape_type"

static const struct op_def rows[] = {
    {"EmptyTensorList", OP_STAGED, first_scalar, list_grad, PLANNED,
     OF_SIZE ", max_num_elements:int32 -> handle:variant; " SHAPED, .ranks = "?0"},
    {"TensorListReserve", OP_STAGED, first_scalar, list_grad, PLANNED,
     OF_SIZE ", num_elements:int32 -> handle:variant; " SHAPED, .ranks = "?0"},
    {"TensorListPushBack", OP_STAGED, first_scalar, list_grad, PLANNED,
     LIST ", tensor:element_dtype -> output_handle:variant; " TYPE, .ranks = "0"},
    {"TensorListPopBack", OP_STAGED, first_scalar, list_grad, PLANNED,
     LIST ", element_shape:int32 -> output_handle:variant, tensor:element_dtype; " TYPE,
     .ranks = "0"},
    {"TensorListLength", OP_STAGED | OP_NO_GRADIENT, first_scalar, NULL, PLANNED,
     LIST " -> length:int32", .ranks = "0"},
    {"TensorListElementShape", OP_STAGED | OP_NO_GRADIENT, shape_none, NULL, PLANNED,
     LIST " -> element_shape:shape_type; shape_type:index_type", .ranks = "0"},
    {"TensorListGetItem", OP_STAGED, shape_none, list_grad, PLANNED,
     LIST ", index:int32, element_shape:int32 -> item:element_dtype; " TYPE,
     .ranks = "00"},
    {"TensorListSetItem", OP_STAGED, first_scalar, list_grad, PLANNED,
     LIST ", index:int32, item:element_dtype -> output_handle:variant; " TYPE
          ", resize_if_index_out_of_bounds:bool=false",
     .ranks = "00"},
    {"TensorListResize", OP_STAGED, first_scalar, list_grad, PLANNED,
     LIST ", size:int32 -> output_handle:variant", .ranks = "00"},
    {"TensorListStack", OP_STAGED, shape_none, list_grad, PLANNED,
     LIST ", element_shape:int32 -> tensor:element_dtype; " TYPE ", num_elements:int=-1",
     .ranks = "0"},
    {"TensorListGather", OP_STAGED, shape_none, list_grad, PLANNED,
     LIST ", indices:int32, element_shape:int32 -> values:element_dtype; " TYPE,
     .ranks = "01"},
    {"TensorListConcatV2", OP_STAGED, concat_shape, list_grad, PLANNED,
     LIST ", " OF_SIZE
          ", leading_dims:int64 -> tensor:element_dtype, lengths:int64; " SHAPED,
     .ranks = "0?1"},
    {"TensorListFromTensor", OP_STAGED, first_scalar, list_grad, PLANNED,
     "tensor:element_dtype, " OF_SIZE " -> output_handle:variant; " SHAPED},
    {"TensorListSplit", OP_STAGED, first_scalar, list_grad, PLANNED,
     "tensor:element_dtype, " OF_SIZE ", lengths:int64 -> output_handle:variant; " SHAPED,
     .ranks = "??1"},
    {"TensorListScatter", OP_STAGED, first_scalar, list_grad, PLANNED,
     "tensor:element_dtype, indices:int32, " OF_SIZE " -> output_handle:variant; " SHAPED,
     .ranks = "?1"},
    {"TensorListScatterV2", OP_STAGED, first_scalar, list_grad, PLANNED,
     "tensor:element_dtype, indices:int32, " OF_SIZE
     ", num_elements:int32 -> output_handle:variant; " SHAPED,
     .ranks = "?1?0"},
    {"TensorListScatterIntoExistingList", OP_STAGED, first_scalar, list_grad, PLANNED,
     LIST ", tensor:element_dtype, indices:int32 -> output_handle:variant; " TYPE,
     .ranks = "0?1"},
    {"OptionalFromValue", OP_STAGED, first_scalar, list_grad, PLANNED,
     "components:Toutput_types -> optional:variant; Toutput_types:list(type)"},
    {"OptionalNone", OP_STAGED | OP_NO_GRADIENT, first_scalar, NULL, PLANNED,
     "-> optional:variant"},
    {"OptionalHasValue", OP_STAGED | OP_NO_GRADIENT, first_scalar, NULL, PLANNED,
     "optional:variant -> has_value:bool", .ranks = "0"},
    {"OptionalGetValue", OP_STAGED, shape_none, list_grad, PLANNED,
     "optional:variant -> components:output_types; output_types:list(type), "
     "output_shapes:list(shape)",
     .ranks = "0"},
};

const struct op_family ops_of_lists = OP_FAMILY(rows);
