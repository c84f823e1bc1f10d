/* ops_io.c - the nodes of a Saver: checkpoints written and read from within a graph; and
 * summaries for TensorBoard, as serialised messages. */
#include "agent/graph/op_rules.h"

/* Names of files, and summaries. */
static int scalars_shape(const struct shape_args *args)
{
    for (int i = 0; i < args->n_in; i++)
        if (want_rank(args, i, 0) != 0)
            return ERR_SHAPE;
    return shape_scalar(args);
}

/* tags and values of one shape, or one tag for all */
static int scalar_summary_shape(const struct shape_args *args)
{
    if (args->in[0].rank != 0 && !shape_compatible(&args->in[0], &args->in[1]))
        return err_set(args->err, ERR_SHAPE, "tags %s and values %s are not the same",
                       shape_text(&args->in[0]), shape_text(&args->in[1]));
    return shape_scalar(args);
}

static const struct op_def rows[] = {
    {"SaveV2", OP_STATEFUL | OP_AWAITED | OP_NO_GRADIENT, shape_none, NULL,
     "prefix:string, tensor_names:string, shape_and_slices:string, tensors:dtypes ->; "
     "dtypes:list(type)",
     .ranks = "0"},
    {"RestoreV2", OP_STATEFUL | OP_AWAITED | OP_NO_GRADIENT, shape_none, NULL,
     "prefix:string, tensor_names:string, shape_and_slices:string -> tensors:dtypes; "
     "dtypes:list(type)",
     .ranks = "0"},
    {"MergeV2Checkpoints", OP_STATEFUL | OP_AWAITED | OP_NO_GRADIENT, shape_none, NULL,
     "checkpoint_prefixes:string, destination_prefix:string ->; "
     "delete_old_dirs:bool=true",
     .ranks = "?0"},
    {"ShardedFilename", OP_NO_GRADIENT, scalars_shape, NULL,
     "basename:string, shard:int32, num_shards:int32 -> filename:string"},
    {"StringJoin", OP_NO_GRADIENT, scalars_shape, NULL,
     "inputs:N*string -> output:string; N:int, separator:string="},
    {"ScalarSummary", OP_NO_GRADIENT, scalar_summary_shape, NULL,
     "tags:string, values:T -> summary:string; T:type"},
    {"MergeSummary", OP_NO_GRADIENT, scalars_shape, NULL,
     "inputs:N*string -> summary:string; N:int"},
};

const struct op_family ops_of_io = OP_FAMILY(rows);
