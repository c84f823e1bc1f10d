/* ops_random.c - random numbers. Each is a pure function of the session's key, the
 * operation's name and the run's counter; the attributes seed and seed2 exist for
 * TensorFlow and are unused. */
#include "agent/graph/op_rules.h"

static int draw_shape(const struct shape_args *args)
{
    return value_sizes(args, 0, &args->out[0]);
}

static int draw_int_shape(const struct shape_args *args)
{
    if (want_rank(args, 1, 0) != 0 || want_rank(args, 2, 0) != 0)
        return ERR_SHAPE;
    return draw_shape(args);
}

#define DRAW(type)                                                                       \
    {                                                                                    \
        type, OP_STATEFUL | OP_NO_GRADIENT, draw_shape, NULL,                            \
            "shape:T -> output:dtype; seed:int=0, seed2:int=0, dtype:float_type, "       \
            "T:index_type"                                                               \
    }

static const struct op_def rows[] = {
    DRAW("RandomUniform"),
    DRAW("RandomStandardNormal"),
    DRAW("TruncatedNormal"),
    {"RandomUniformInt", OP_STATEFUL | OP_NO_GRADIENT, draw_int_shape, NULL,
     "shape:T, minval:Tout, maxval:Tout -> output:Tout; seed:int=0, seed2:int=0, "
     "Tout:index_type, T:index_type"},
};

const struct op_family ops_of_random = OP_FAMILY(rows);
