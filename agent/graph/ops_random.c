/* ops_random.c - random numbers. Each is a pure function of the session's key, the
 * operation's name and the run's counter; the attributes seed and seed2 exist for
 * TensorFlow and are unused. Those called stateless are functions of their inputs. */
#include "agent/graph/op_rules.h"

#define DRAW(type)                                                                       \
    {                                                                                    \
        type, OP_STATEFUL | OP_NO_GRADIENT, shape_of_value, NULL,                        \
            "shape:T -> output:dtype; seed:int=0, seed2:int=0, dtype:float_type, "       \
            "T:index_type"                                                               \
    }

/* key (1), counter (2) of a seed (2) */
static int key_counter_shape(const struct shape_args *args)
{
    if (dim_of(&args->in[0], 0) >= 0 && dim_of(&args->in[0], 0) != 2)
        return err_set(args->err, ERR_SHAPE, "a seed of %s, expected 2 numbers",
                       shape_text(&args->in[0]));
    args->out[0] = SHAPE(1);
    args->out[1] = SHAPE(2);
    return 0;
}

static int draw_stateless_shape(const struct shape_args *args)
{
    for (int i = 1; i < 3; i++) {
        const int64_t n = dim_of(&args->in[i], 0);

        if (n >= 0 && n != i)
            return err_set(args->err, ERR_SHAPE, "a %s of %s, expected %d",
                           i == 1 ? "key" : "counter", shape_text(&args->in[i]), i);
    }
    return shape_of_value(args);
}

static const struct op_def rows[] = {
    DRAW("RandomUniform"),
    DRAW("RandomStandardNormal"),
    DRAW("TruncatedNormal"),
    {"RandomUniformInt", OP_STATEFUL | OP_NO_GRADIENT, shape_of_value, NULL,
     "shape:T, minval:Tout, maxval:Tout -> output:Tout; seed:int=0, seed2:int=0, "
     "Tout:index_type, T:index_type",
     .ranks = "?00"},
    /* functions of their inputs, with TensorFlow's own numbers */
    {"StatelessRandomGetKeyCounter", OP_NO_GRADIENT, key_counter_shape, NULL,
     "seed:Tseed -> key:uint64, counter:uint64; Tseed:index_type=int64", .ranks = "1"},
    {"StatelessRandomUniformV2", OP_NO_GRADIENT, draw_stateless_shape, NULL,
     "shape:Tshape, key:uint64, counter:uint64, alg:int32 -> output:dtype; "
     "dtype:type=float32, Tshape:index_type=int32",
     .ranks = "?110"},
};

const struct op_family ops_of_random = OP_FAMILY(rows);
