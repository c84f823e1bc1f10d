/* random.c - random numbers. Each is a pure function of the session's key, the operation's
 * name, the run's counter and the element; the attributes seed and seed2 exist for TensorFlow
 * and are unused. Those called stateless are functions of their inputs. */
#include "agent/ops/kernel_parts.h"
#include "agent/ops/op_rules.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static int kern_random_uniform(const struct kernel_args *a)
{
    size_t n = (size_t)tensor_elements(a->out[0]);

    if (a->out[0]->dtype == DT_FLOAT)
        rng_uniform_f32(a->key, a->counter, 0, a->out[0]->data, n);
    else
        rng_uniform_f64(a->key, a->counter, 0, a->out[0]->data, n);
    return 0;
}

static int kern_random_normal(const struct kernel_args *a)
{
    size_t n = (size_t)tensor_elements(a->out[0]);

    if (a->out[0]->dtype == DT_FLOAT)
        rng_normal_f32(a->key, a->counter, 0, a->out[0]->data, n);
    else
        rng_normal_f64(a->key, a->counter, 0, a->out[0]->data, n);
    return 0;
}

/* Draws normal numbers within two standard deviations. A number outside is drawn again
 * with a key of its own, derived from the operation's key. */
static int kern_truncated_normal(const struct kernel_args *a)
{
    int64_t n = tensor_elements(a->out[0]);
    int single = a->out[0]->dtype == DT_FLOAT;
    int rc = kern_random_normal(a);
    char label[32];

    for (int64_t i = 0; rc == 0 && i < n; i++) {
        float *f = tensor_f32(a->out[0]) + i;
        double *d = (double *)a->out[0]->data + i;

        for (unsigned try = 1; fabs(single ? (double)*f : *d) > 2.0; try++) {
            (void)snprintf(label, sizeof(label), "try %u", try);
            struct rng_key key = rng_key_derive(a->key, label);
            if (single)
                rng_normal_f32(key, a->counter, (uint64_t)i, f, 1);
            else
                rng_normal_f64(key, a->counter, (uint64_t)i, d, 1);
        }
    }
    return rc;
}

static int kern_random_uniform_int(const struct kernel_args *a)
{
    int64_t low = tensor_int(a->in[1], 0), high = tensor_int(a->in[2], 0);

    if (low >= high)
        return err_set(a->err, ERR_ARG, "%s: no integers in [%lld, %lld)",
                       operation_name(a->op), (long long)low, (long long)high);
    int64_t n = tensor_elements(a->out[0]);
    for (int64_t i = 0; i < n; i++) {
        uint64_t v;

        rng_below(a->key, a->counter, (uint64_t)i, (uint64_t)high - (uint64_t)low, &v, 1);
        tensor_set_int(a->out[0], i, (int64_t)((uint64_t)low + v));
    }
    return 0;
}

/* ---- stateless: the numbers of TensorFlow (stateless_random_ops_v2.cc), by Philox ---- */

enum { ALG_PHILOX = 1, ALG_AUTO_SELECT = 3 };

static uint64_t two_words(const uint32_t *w)
{
    return w[0] | (uint64_t)w[1] << 32;
}

/* Derives key and counter from the seed such that all of their bits depend on each bit
 * of it. */
static int kern_key_counter(const struct kernel_args *a)
{
    const struct rng_key mixer = {{0x3ec8f720, 0x02461e29}};
    uint64_t *key = a->out[0]->data, *counter = a->out[1]->data;
    uint32_t mix[4];

    rng_block(mixer, (uint64_t)tensor_int(a->in[0], 1), (uint64_t)tensor_int(a->in[0], 0),
              mix);
    key[0] = two_words(mix);
    counter[0] = 0;
    counter[1] = two_words(mix + 2);
    return 0;
}

/* Uses 23 bits as the mantissa of a number in [1, 2), and subtracts 1. */
static float uniform_of_word(uint32_t w)
{
    const uint32_t bits = UINT32_C(127) << 23 | (w & 0x7fffff);
    float x;

    memcpy(&x, &bits, sizeof(x));
    return x - 1.0f;
}

static double uniform_of_words(const uint32_t *w)
{
    const uint64_t bits = UINT64_C(1023) << 52 | (uint64_t)(w[0] & 0xfffff) << 32 | w[1];
    double x;

    memcpy(&x, &bits, sizeof(x));
    return x - 1.0;
}

/* in: shape, key, counter, alg */
static int kern_stateless_uniform(const struct kernel_args *a)
{
    const uint64_t *key = a->in[1]->data, *counter = a->in[2]->data;
    const struct rng_key k = {{(uint32_t)key[0], (uint32_t)(key[0] >> 32)}};
    const int64_t alg = tensor_int(a->in[3], 0), n = tensor_elements(a->out[0]);
    const int single = a->out[0]->dtype == DT_FLOAT, per_block = single ? 4 : 2;
    uint64_t low = counter[0], high = counter[1];

    if (!single && a->out[0]->dtype != DT_DOUBLE)
        return err_set(a->err, ERR_UNSUPPORTED, "%s: no draws of %s",
                       operation_name(a->op), dtype_name(a->out[0]->dtype));
    if (alg != ALG_PHILOX && alg != ALG_AUTO_SELECT)
        return err_set(a->err, ERR_UNSUPPORTED, "%s: algorithm %lld, only Philox is here",
                       operation_name(a->op), (long long)alg);
    for (int64_t i = 0; i < n; i += per_block) {
        uint32_t w[4];

        rng_block(k, high, low, w);
        high += ++low == 0;
        for (int64_t j = i; j < n && j < i + per_block; j++) {
            if (single)
                tensor_f32(a->out[0])[j] = uniform_of_word(w[j - i]);
            else
                ((double *)a->out[0]->data)[j] = uniform_of_words(w + 2 * (j - i));
        }
    }
    return 0;
}

/* ---- shapes and rows ---- */

#define DRAW(type, kernel)                                                               \
    {                                                                                    \
        type, OP_STATEFUL | OP_DRAWS | OP_NO_GRADIENT, shape_of_value, NULL, kernel,     \
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
    DRAW("RandomUniform", CALL(kern_random_uniform)),
    DRAW("RandomStandardNormal", CALL(kern_random_normal)),
    DRAW("TruncatedNormal", CALL(kern_truncated_normal)),
    {"RandomUniformInt", OP_STATEFUL | OP_DRAWS | OP_NO_GRADIENT, shape_of_value, NULL,
     CALL(kern_random_uniform_int),
     "shape:T, minval:Tout, maxval:Tout -> output:Tout; seed:int=0, seed2:int=0, "
     "Tout:index_type, T:index_type",
     .ranks = "?00"},
    /* functions of their inputs, with TensorFlow's own numbers */
    {"StatelessRandomGetKeyCounter", OP_NO_GRADIENT, key_counter_shape, NULL,
     CALL(kern_key_counter),
     "seed:Tseed -> key:uint64, counter:uint64; Tseed:index_type=int64", .ranks = "1"},
    {"StatelessRandomUniformV2", OP_NO_GRADIENT, draw_stateless_shape, NULL,
     CALL(kern_stateless_uniform),
     "shape:Tshape, key:uint64, counter:uint64, alg:int32 -> output:dtype; "
     "dtype:type=float32, Tshape:index_type=int32",
     .ranks = "?110"},
};

const struct op_family ops_of_random = OP_FAMILY(rows);
