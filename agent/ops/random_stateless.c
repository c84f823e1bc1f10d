/* random_stateless.c - random numbers that are functions of a seed, or of a key and a counter:
 * those of TensorFlow (stateless_random_ops.cc, lib/random/random_distributions.h), by Philox. Sines
 * and logarithms are libm's, so that normal numbers may differ from TensorFlow's in the last bits.
 */
#include "agent/ops/kernel_parts.h"
#include "agent/ops/op_rules.h"
#include "agent/ops/random_parts.h"

#include <math.h>
#include <string.h>

enum { ALG_PHILOX = 1, ALG_AUTO_SELECT = 3 };

/* ---- a stream of words ---- */

struct stream {
    struct rng_key key;
    uint64_t low, high; /* the counter of the first block */
};

static uint64_t two_words(const uint32_t *w)
{
    return w[0] | (uint64_t)w[1] << 32;
}

static struct rng_key key_of(uint64_t key)
{
    return (struct rng_key){{(uint32_t)key, (uint32_t)(key >> 32)}};
}

/* All bits of key and counter depend on each bit of the seed. */
static struct stream stream_of_seed(const struct tensor *seed)
{
    const struct rng_key mixer = {{0x3ec8f720, 0x02461e29}};
    uint32_t mix[4];

    rng_block(mixer, (uint64_t)tensor_int(seed, 1), (uint64_t)tensor_int(seed, 0), mix);
    return (struct stream){key_of(two_words(mix)), 0, two_words(mix + 2)};
}

static void block(const struct stream *s, uint64_t i, uint32_t w[4])
{
    const uint64_t low = s->low + i;

    rng_block(s->key, s->high + (low < i), low, w);
}

/* in: shape, then seed (2), or key (1), counter (2) and algorithm */
static int stream_of(const struct kernel_args *a, struct stream *ret)
{
    const uint64_t *key = a->in[1]->data;
    const uint64_t *counter;
    int64_t alg;

    if (tensor_elements(a->in[1]) == 2) {
        *ret = stream_of_seed(a->in[1]);
        return 0;
    }
    counter = a->in[2]->data;
    alg = tensor_int(a->in[3], 0);
    if (alg != ALG_PHILOX && alg != ALG_AUTO_SELECT)
        return err_set(a->err, ERR_UNSUPPORTED, "%s: algorithm %lld, only Philox is here",
                       operation_name(a->op), (long long)alg);
    *ret = (struct stream){key_of(key[0]), counter[0], counter[1]};
    return 0;
}

static int kern_key_counter(const struct kernel_args *a)
{
    const struct stream s = stream_of_seed(a->in[0]);
    uint64_t *key = a->out[0]->data, *counter = a->out[1]->data;

    key[0] = two_words(s.key.k);
    counter[0] = s.low;
    counter[1] = s.high;
    if (a->n_out > 2)
        tensor_set_int(a->out[2], 0, ALG_PHILOX);
    return 0;
}

static int kern_alg(const struct kernel_args *a)
{
    tensor_set_int(a->out[0], 0, ALG_PHILOX);
    return 0;
}

/* ---- words to numbers ---- */

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

/* Two normal numbers of two uniform ones (Box-Muller). */
static void normal_floats(const uint32_t *w, float *y)
{
    const float u = fmaxf(uniform_of_word(w[0]), 1.0e-7f);
    const float angle = (float)(2.0 * M_PI * (double)uniform_of_word(w[1]));
    const float radius = sqrtf(-2.0f * logf(u));

    y[0] = sinf(angle) * radius;
    y[1] = cosf(angle) * radius;
}

static void normal_doubles(const uint32_t *w, double *y)
{
    const double u = fmax(uniform_of_words(w), 1.0e-7);
    const double angle = 2.0 * M_PI * uniform_of_words(w + 2);
    const double radius = sqrt(-2.0 * log(u));

    y[0] = sin(angle) * radius;
    y[1] = cos(angle) * radius;
}

/* ---- elements of a block ---- */

/* Makes the numbers of one block: four of 32 bits, or two of 64. */
typedef void (*make_fn)(const struct kernel_args *a, const uint32_t *w, void *ret);

static int is_wide(const struct kernel_args *a)
{
    return dtype_size(a->out[0]->dtype) == 8;
}

static void make_uniform(const struct kernel_args *a, const uint32_t *w, void *ret)
{
    for (int i = 0; i < 4 && !is_wide(a); i++)
        ((float *)ret)[i] = uniform_of_word(w[i]);
    for (int i = 0; i < 2 && is_wide(a); i++)
        ((double *)ret)[i] = uniform_of_words(w + 2 * i);
}

static void make_normal(const struct kernel_args *a, const uint32_t *w, void *ret)
{
    if (is_wide(a)) {
        normal_doubles(w, ret);
        return;
    }
    normal_floats(w, ret);
    normal_floats(w + 2, (float *)ret + 2);
}

static void make_integers(const struct kernel_args *a, const uint32_t *w, void *ret)
{
    for (int i = 0; i < 4 && !is_wide(a); i++)
        ((uint32_t *)ret)[i] = w[i];
    for (int i = 0; i < 2 && is_wide(a); i++)
        ((uint64_t *)ret)[i] = two_words(w + 2 * i);
}

/* in [minval, maxval), which are the last inputs */
static void make_bounded(const struct kernel_args *a, const uint32_t *w, void *ret)
{
    const int64_t low = tensor_int(a->in[a->n_in - 2], 0);
    const uint64_t range = (uint64_t)tensor_int(a->in[a->n_in - 1], 0) - (uint64_t)low;

    make_integers(a, w, ret);
    for (int i = 0; i < 4 && !is_wide(a); i++)
        ((uint32_t *)ret)[i] = (uint32_t)low + ((uint32_t *)ret)[i] % (uint32_t)range;
    for (int i = 0; i < 2 && is_wide(a); i++)
        ((uint64_t *)ret)[i] = (uint64_t)low + ((uint64_t *)ret)[i] % range;
}

static int random_stateless_fill(const struct kernel_args *a, make_fn make)
{
    const struct tensor *y = a->out[0];
    const int64_t n = tensor_elements(y), per_block = is_wide(a) ? 2 : 4;
    const size_t elem = dtype_size(y->dtype);
    struct stream s;

    if (stream_of(a, &s) != 0)
        return ERR_UNSUPPORTED;
    for (int64_t i = 0; i < n; i += per_block) {
        const int64_t k = n - i < per_block ? n - i : per_block;
        uint32_t w[4];
        uint64_t made[2];

        block(&s, (uint64_t)(i / per_block), w);
        make(a, w, made);
        memcpy((char *)y->data + (size_t)i * elem, made, (size_t)k * elem);
    }
    return 0;
}

static int want_type(const struct kernel_args *a, int ok)
{
    return ok ? 0
              : err_set(a->err, ERR_UNSUPPORTED, "%s: no draws of %s",
                        operation_name(a->op), dtype_name(a->out[0]->dtype));
}

static int want_floats(const struct kernel_args *a)
{
    const enum dtype t = a->out[0]->dtype;

    return want_type(a, t == DT_FLOAT || t == DT_DOUBLE);
}

static int kern_stateless_uniform(const struct kernel_args *a)
{
    return want_floats(a) != 0 ? ERR_UNSUPPORTED : random_stateless_fill(a, make_uniform);
}

static int kern_stateless_normal(const struct kernel_args *a)
{
    return want_floats(a) != 0 ? ERR_UNSUPPORTED : random_stateless_fill(a, make_normal);
}

static int kern_stateless_full_int(const struct kernel_args *a)
{
    const enum dtype t = a->out[0]->dtype;
    const int ok = t == DT_INT32 || t == DT_INT64 || t == DT_UINT32 || t == DT_UINT64;

    return want_type(a, ok) != 0 ? ERR_UNSUPPORTED
                                 : random_stateless_fill(a, make_integers);
}

static int kern_stateless_int(const struct kernel_args *a)
{
    const int64_t low = tensor_int(a->in[a->n_in - 2], 0);
    const int64_t high = tensor_int(a->in[a->n_in - 1], 0);

    if (low >= high)
        return err_set(a->err, ERR_ARG, "%s: no integers in [%lld, %lld)",
                       operation_name(a->op), (long long)low, (long long)high);
    return random_stateless_fill(a, make_bounded);
}

/* ---- normal numbers within two standard deviations ---- */

/* Each group of elements draws from 256 blocks for each of its elements, of which four make a
 * block, until it has enough. */
static void draw_truncated(const struct kernel_args *a, const struct stream *s,
                           int64_t group, int64_t n, char *ret)
{
    const int per_block = is_wide(a) ? 2 : 4;
    const size_t elem = dtype_size(a->out[0]->dtype);
    const uint64_t first = (uint64_t)group * 256u * (unsigned)per_block / 4u;
    int64_t have = 0;

    for (uint64_t b = 0; have < n; b++) {
        uint32_t w[4];
        double wide[2];
        float narrow[4];

        block(s, first + b, w);
        make_normal(a, w, is_wide(a) ? (void *)wide : (void *)narrow);
        for (int i = 0; i < per_block && have < n; i++) {
            const double v = is_wide(a) ? wide[i] : (double)narrow[i];

            if (!(fabs(v) < 2.0))
                continue;
            memcpy(ret + (size_t)have * elem,
                   is_wide(a) ? (void *)&wide[i] : (void *)&narrow[i], elem);
            have++;
        }
    }
}

static int kern_stateless_truncated(const struct kernel_args *a)
{
    const struct tensor *y = a->out[0];
    const int64_t n = tensor_elements(y), group = is_wide(a) ? 2 : 4;
    struct stream s;

    if (want_floats(a) != 0 || stream_of(a, &s) != 0)
        return ERR_UNSUPPORTED;
    for (int64_t i = 0; i < n; i += group)
        draw_truncated(a, &s, i / group, n - i < group ? n - i : group,
                       (char *)y->data + (size_t)i * dtype_size(y->dtype));
    return 0;
}

/* ---- classes ---- */

static double uniform_at(const void *ctx, int64_t i)
{
    uint32_t w[4];

    block(ctx, (uint64_t)(i / 2), w);
    return uniform_of_words(w + 2 * (i % 2));
}

/* in: logits, num_samples, seed */
static int kern_stateless_multinomial(const struct kernel_args *a)
{
    const struct stream s = stream_of_seed(a->in[2]);

    return draw_classes(a, uniform_at, &s);
}

/* ---- shapes ---- */

static int check_length(const struct shape_args *args, int i, int64_t n, const char *what)
{
    const int64_t have = dim_of(&args->in[i], 0);

    if (have < 0 || have == n)
        return 0;
    return err_set(args->err, ERR_SHAPE, "a %s of %s, expected %lld", what,
                   shape_text(&args->in[i]), (long long)n);
}

/* key (1), counter (2), perhaps the algorithm, of a seed (2) */
static int key_counter_shape(const struct shape_args *args)
{
    if (check_length(args, 0, 2, "seed") != 0)
        return ERR_SHAPE;
    args->out[0] = SHAPE(1);
    args->out[1] = SHAPE(2);
    if (operation_n_outputs(args->op) > 2)
        args->out[2] = SHAPE_SCALAR;
    return 0;
}

static int seeded_shape(const struct shape_args *args)
{
    return check_length(args, 1, 2, "seed") != 0 ? ERR_SHAPE : shape_of_value(args);
}

static int keyed_shape(const struct shape_args *args)
{
    if (check_length(args, 1, 1, "key") != 0 || check_length(args, 2, 2, "counter") != 0)
        return ERR_SHAPE;
    return shape_of_value(args);
}

static int seeded_classes_shape(const struct shape_args *args)
{
    return check_length(args, 2, 2, "seed") != 0 ? ERR_SHAPE : shape_classes(args);
}

/* ---- the rows ---- */

#define SEEDED "Tseed:index_type=int64"
#define DRAW(name, flags, kernel)                                                        \
    {"Stateless" name,                                                                   \
     OP_NO_GRADIENT | (flags),                                                           \
     seeded_shape,                                                                       \
     NULL,                                                                               \
     CALL(kernel),                                                                       \
     "shape:T, seed:Tseed -> output:dtype; dtype:type=float32, "                         \
     "T:index_type=int32, " SEEDED,                                                      \
     .ranks = "?1"},                                                                     \
    {                                                                                    \
        "Stateless" name "V2", OP_NO_GRADIENT | (flags), keyed_shape, NULL,              \
            CALL(kernel),                                                                \
            "shape:Tshape, key:uint64, counter:uint64, alg:int32 -> output:dtype; "      \
            "dtype:type=float32, Tshape:index_type=int32",                               \
            .ranks = "?110"                                                              \
    }

static const struct op_def rows[] = {
    {"StatelessRandomGetKeyCounter", OP_NO_GRADIENT, key_counter_shape, NULL,
     CALL(kern_key_counter), "seed:Tseed -> key:uint64, counter:uint64; " SEEDED,
     .ranks = "1"},
    {"StatelessRandomGetKeyCounterAlg", OP_NO_GRADIENT, key_counter_shape, NULL,
     CALL(kern_key_counter),
     "seed:Tseed -> key:uint64, counter:uint64, alg:int32; " SEEDED, .ranks = "1"},
    {"StatelessRandomGetAlg", OP_NO_GRADIENT, shape_scalar, NULL, CALL(kern_alg),
     "-> alg:int32"},
    DRAW("RandomUniform", 0, kern_stateless_uniform),
    DRAW("RandomNormal", OP_LIBM, kern_stateless_normal),
    DRAW("TruncatedNormal", OP_LIBM, kern_stateless_truncated),
    {"StatelessRandomUniformInt", OP_NO_GRADIENT, seeded_shape, NULL,
     CALL(kern_stateless_int),
     "shape:T, seed:Tseed, minval:dtype, maxval:dtype -> output:dtype; dtype:index_type, "
     "T:index_type, " SEEDED,
     .ranks = "?100"},
    {"StatelessRandomUniformIntV2", OP_NO_GRADIENT, keyed_shape, NULL,
     CALL(kern_stateless_int),
     "shape:Tshape, key:uint64, counter:uint64, alg:int32, minval:dtype, maxval:dtype -> "
     "output:dtype; dtype:index_type, Tshape:index_type=int32",
     .ranks = "?11000"},
    {"StatelessRandomUniformFullInt", OP_NO_GRADIENT, seeded_shape, NULL,
     CALL(kern_stateless_full_int),
     "shape:T, seed:Tseed -> output:dtype; dtype:type=uint64, "
     "T:index_type=int32, " SEEDED,
     .ranks = "?1"},
    {"StatelessRandomUniformFullIntV2", OP_NO_GRADIENT, keyed_shape, NULL,
     CALL(kern_stateless_full_int),
     "shape:Tshape, key:uint64, counter:uint64, alg:int32 -> output:dtype; "
     "dtype:type=uint64, Tshape:index_type=int32",
     .ranks = "?110"},
    {"StatelessMultinomial", OP_NO_GRADIENT, seeded_classes_shape, NULL,
     CALL(kern_stateless_multinomial),
     "logits:T, num_samples:int32, seed:Tseed -> output:output_dtype; "
     "T:number_type, " SEEDED ", output_dtype:index_type=int64",
     .ranks = "201", .scratch = class_scratch},
};

const struct op_family ops_of_random_stateless = OP_FAMILY(rows);
