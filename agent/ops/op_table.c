#include "agent/ops/op_table.h"

#include "agent/ops/op_rules.h"

#define ADDRESS(name) &ops_of_##name,
static const struct op_family *const families[] = {OP_FAMILIES(ADDRESS)};
#undef ADDRESS
const struct op_table op_table = {families, sizeof(families) / sizeof(families[0])};

struct graph *graph_new(void)
{
    return graph_create(&op_table);
}
