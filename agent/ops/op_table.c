#include "agent/ops/op_table.h"

#include "agent/ops/op_rules.h"

static const struct op_family *const families[] = {
    &ops_of_math,       &ops_of_matrix, &ops_of_reduce,   &ops_of_array, &ops_of_join,
    &ops_of_slice,      &ops_of_index,  &ops_of_nn,       &ops_of_conv,  &ops_of_random,
    &ops_of_state,      &ops_of_io,     &ops_of_training, &ops_of_flow,  &ops_of_linalg,
    &ops_of_containers, &ops_of_sets,
};
const struct op_table op_table = {families, sizeof(families) / sizeof(families[0])};

struct graph *graph_new(void)
{
    return graph_create(&op_table);
}
