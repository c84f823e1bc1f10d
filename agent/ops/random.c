/* random.c - random numbers. Each is a pure function of the session's key, the operation's
 * name, the run's counter and the element; the attributes seed and seed2 exist for TensorFlow
 * and are unused. */
#include "agent/kernels/vmath.h"
#include "agent/ops/kernel_parts.h"
#include "agent/ops/op_rules.h"
#include "agent/ops/random_parts.h"

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

/* ---- classes ---- */

/* Returns the logit of a class as float32. */
static float logit(const struct tensor *logits, int64_t i)
{
    switch (logits->dtype) {
    case DT_FLOAT:
        return tensor_f32(logits)[i];
    case DT_DOUBLE:
        return (float)((const double *)logits->data)[i];
    default:
        return (float)tensor_int(logits, i);
    }
}

/* sums[k]: of the weights of the classes up to k, which are exp(logit - the largest one) */
static void sum_weights(const struct tensor *logits, int64_t row, int64_t n, double *sums)
{
    float largest = -INFINITY;
    double sum = 0;

    for (int64_t k = 0; k < n; k++) {
        const float x = logit(logits, row * n + k);

        largest = isfinite(x) && x > largest ? x : largest;
    }
    for (int64_t k = 0; k < n; k++) {
        const float x = logit(logits, row * n + k);

        sum += isfinite(x) ? (double)vm_expf(x - largest) : 0;
        sums[k] = sum;
    }
}

/* The first class whose sum is above `to`; n: none. */
static int64_t find_class(const double *sums, int64_t n, double to)
{
    int64_t low = 0, high = n;

    while (low < high) {
        const int64_t mid = low + (high - low) / 2;

        if (sums[mid] > to)
            high = mid;
        else
            low = mid + 1;
    }
    return low;
}

int draw_classes(const struct kernel_args *a,
                 double (*uniform)(const void *ctx, int64_t i), const void *ctx)
{
    const int64_t n = a->in[0]->shape.dim[1], samples = a->out[0]->shape.dim[1];
    double *sums = n > 0 ? a->out[1]->data : NULL;

    for (int64_t row = 0; row < a->out[0]->shape.dim[0] && n > 0; row++) {
        sum_weights(a->in[0], row, n, sums);
        for (int64_t i = row * samples; i < (row + 1) * samples; i++)
            tensor_set_int(a->out[0], i,
                           find_class(sums, n, uniform(ctx, i) * sums[n - 1]));
    }
    return 0;
}

int64_t class_scratch(const struct shape_args *args)
{
    return args->in[0].dim[1] * (int64_t)(sizeof(double) / sizeof(float));
}

int shape_classes(const struct shape_args *args)
{
    int64_t n = -1;

    if (value_ints(args, 1, &n, 1) == 1 && n < 0)
        return err_set(args->err, ERR_SHAPE, "%lld draws", (long long)n);
    if (dim_of(&args->in[0], 1) == 0)
        return err_set(args->err, ERR_SHAPE, "no classes to draw from");
    args->out[0] = SHAPE(dim_of(&args->in[0], 0), n);
    return 0;
}

static double own_uniform(const void *ctx, int64_t i)
{
    const struct kernel_args *a = ctx;
    double u;

    rng_uniform_f64(a->key, a->counter, (uint64_t)i, &u, 1);
    return u;
}

static int kern_multinomial(const struct kernel_args *a)
{
    return draw_classes(a, own_uniform, a);
}

/* ---- permutations ---- */

static int64_t shuffle_scratch(const struct shape_args *args)
{
    return args->in[0].rank > 0 ? args->in[0].dim[0] : 0;
}

/* Permutes the rows; out 1: scratch memory for their numbers. */
static int kern_shuffle(const struct kernel_args *a)
{
    const struct tensor *x = a->in[0];
    const int64_t n = x->shape.rank > 0 ? x->shape.dim[0] : 1;
    const size_t bytes =
        n > 0 ? (size_t)tensor_elements(x) / (size_t)n * elem_size(x) : 0;
    uint32_t *order = x->shape.rank > 0 && n > 0 ? a->out[1]->data : NULL;

    if (n > UINT32_MAX)
        return err_set(a->err, ERR_LIMIT, "%s: %lld rows", operation_name(a->op),
                       (long long)n);
    if (order != NULL)
        rng_permutation(a->key, a->counter, order, (size_t)n);
    for (int64_t i = 0; i < n && bytes > 0; i++)
        memcpy((char *)a->out[0]->data + (size_t)i * bytes,
               (const char *)x->data + (order != NULL ? order[i] : 0) * bytes, bytes);
    return 0;
}

/* ---- shapes and rows ---- */

#define DRAW(type, kernel)                                                               \
    {                                                                                    \
        type, OP_STATEFUL | OP_DRAWS | OP_NO_GRADIENT, shape_of_value, NULL, kernel,     \
            "shape:T -> output:dtype; seed:int=0, seed2:int=0, dtype:float_type, "       \
            "T:index_type"                                                               \
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
    {"Multinomial", OP_STATEFUL | OP_DRAWS | OP_NO_GRADIENT, shape_classes, NULL,
     CALL(kern_multinomial),
     "logits:T, num_samples:int32 -> output:output_dtype; seed:int=0, seed2:int=0, "
     "T:number_type, output_dtype:index_type=int64",
     .ranks = "20", .scratch = class_scratch},
    {"RandomShuffle", OP_STATEFUL | OP_DRAWS | OP_NO_GRADIENT, shape_same, NULL,
     CALL(kern_shuffle), "value:T -> output:T; seed:int=0, seed2:int=0, T:type",
     .scratch = shuffle_scratch},
};

const struct op_family ops_of_random = OP_FAMILY(rows);
