/* random_candidates.c - classes drawn as wrong answers for losses over very many classes (nce_loss,
 * sampled_softmax_loss), how often each is expected among them, and which are right by accident.
 *
 * Source   tensorflow/core/kernels/{range_sampler,candidate_sampler_ops}.cc */
#include "agent/ops/kernel_parts.h"
#include "agent/ops/op_rules.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>

/* ---- laws ---- */

/* Of classes 0 .. n - 1: all alike, or class c with the probability log(1 + 1 / (c + 1)) / log(n + 1),
 * as words have that are sorted by how frequent they are. */
struct law {
    int is_log;
    int64_t n;
};

static int64_t class_of(const struct law *law, double u)
{
    const double n = (double)law->n, c = law->is_log ? exp(u * log1p(n)) - 1 : u * n;

    return c < n ? (int64_t)c : law->is_log ? 0 : law->n - 1; /* it may round up to n */
}

static float probability(const struct law *law, int64_t c)
{
    const double at = (double)c;

    return law->is_log ? (float)(log((at + 2) / (at + 1)) / log1p((double)law->n))
                       : 1.0F / (float)law->n;
}

/* How often a class is expected among n draws or, if draws of the same were repeated, `tries`. */
static float expected(float p, int64_t n, int64_t tries)
{
    return tries == n ? p * (float)n : (float)-expm1((double)tries * log1p(-(double)p));
}

/* ---- drawing ---- */

/* The classes that are drawn already: places in a table of a size 2^k, -1: none. */
struct drawn {
    int64_t *at;
    uint64_t mask;
};

/* Whether the class is new. */
static int add_class(const struct drawn *d, int64_t c)
{
    uint64_t i = (uint64_t)c * 0x9e3779b97f4a7c15u & d->mask;

    for (; d->at[i] >= 0; i = (i + 1) & d->mask)
        if (d->at[i] == c)
            return 0;
    d->at[i] = c;
    return 1;
}

/* Fills `classes` with n different ones; try t takes number t. Returns how many tries it took, or
 * -1 without memory. */
static int64_t draw_different(const struct kernel_args *a, const struct law *law,
                              int64_t *classes, int64_t n)
{
    struct drawn d = {.mask = 1};
    int64_t tries = 0;
    double u;

    while (d.mask < 2 * (uint64_t)n)
        d.mask = 2 * d.mask + 1;
    d.at = malloc((size_t)(d.mask + 1) * sizeof(*d.at));
    if (d.at == NULL)
        return -1;
    for (uint64_t i = 0; i <= d.mask; i++)
        d.at[i] = -1;
    for (int64_t i = 0; i < n; tries++) {
        rng_uniform_f64(a->key, a->counter, (uint64_t)tries, &u, 1);
        classes[i] = class_of(law, u);
        i += add_class(&d, classes[i]);
    }
    free(d.at);
    return tries;
}

/* out: sampled_candidates, true_expected_count, sampled_expected_count */
static int kern_candidates(const struct kernel_args *a)
{
    const struct law law = {operation_is(a->op, "LogUniformCandidateSampler"),
                            attr_int(a->op, "range_max")};
    const struct tensor *right = a->in[0];
    const int64_t n = attr_int(a->op, "num_sampled");
    int64_t *classes = a->out[0]->data, tries = n;
    double u;

    if (attr_int(a->op, "unique")) {
        tries = draw_different(a, &law, classes, n);
        if (tries < 0)
            return err_set(a->err, ERR_NOMEM, "%s: no memory", operation_name(a->op));
    } else {
        for (int64_t i = 0; i < n; i++) {
            rng_uniform_f64(a->key, a->counter, (uint64_t)i, &u, 1);
            classes[i] = class_of(&law, u);
        }
    }
    for (int64_t i = 0; i < tensor_elements(right); i++)
        tensor_f32(a->out[1])[i] =
            expected(probability(&law, tensor_int(right, i)), n, tries);
    for (int64_t i = 0; i < n; i++)
        tensor_f32(a->out[2])[i] = expected(probability(&law, classes[i]), n, tries);
    return 0;
}

static int candidates_shape(const struct shape_args *args)
{
    const int64_t n = attr_int(args->op, "num_sampled"),
                  range = attr_int(args->op, "range_max"),
                  n_true = attr_int(args->op, "num_true"),
                  columns = dim_of(&args->in[0], 1);

    if (n < 1 || range < 1 || n_true < 1)
        return err_set(args->err, ERR_ARG,
                       "num_true, num_sampled and range_max must be above 0");
    if (args->is_planning && attr_int(args->op, "unique") && n > range)
        return err_set(args->err, ERR_ARG, "Sampler's range is too small.");
    if (columns >= 0 && columns != n_true)
        return err_set(args->err, ERR_SHAPE, "%lld true classes in a row, not %lld",
                       (long long)columns, (long long)n_true);
    args->out[0] = SHAPE(n);
    args->out[1] = SHAPE(dim_of(&args->in[0], 0), n_true);
    args->out[2] = SHAPE(n);
    return 0;
}

/* ---- right by accident ---- */

struct hit {
    int64_t class, at; /* of the sampled candidates */
};

static int compare_hits(const void *a, const void *b)
{
    const struct hit *x = a, *y = b;

    if (x->class != y->class)
        return x->class < y->class ? -1 : 1;
    return x->at < y->at ? -1 : x->at > y->at;
}

/* Finds the sampled candidates that are true classes, row by row; the last of several that are
 * alike. Writes which row and which candidate unless these are NULL. Returns their number, or -1
 * without memory. */
static int64_t find_hits(const struct tensor *right, const struct tensor *sampled,
                         const struct tensor *rows, const struct tensor *ids)
{
    const int64_t n = tensor_elements(sampled), n_true = right->shape.dim[1];
    struct hit *sorted = malloc((size_t)(n + 1) * sizeof(*sorted));
    int64_t found = 0;

    if (sorted == NULL)
        return -1;
    for (int64_t i = 0; i < n; i++)
        sorted[i] = (struct hit){tensor_int(sampled, i), i};
    qsort(sorted, (size_t)n, sizeof(*sorted), compare_hits);
    for (int64_t i = 0; i < tensor_elements(right); i++) {
        const int64_t class = tensor_int(right, i);
        int64_t low = 0, high = n;

        while (low < high) { /* the first one above */
            const int64_t mid = low + (high - low) / 2;

            if (sorted[mid].class <= class)
                low = mid + 1;
            else
                high = mid;
        }
        if (low == 0 || sorted[low - 1].class != class)
            continue;
        if (rows != NULL) {
            tensor_set_int(rows, found, i / n_true);
            tensor_set_int(ids, found, sorted[low - 1].at);
        }
        found++;
    }
    free(sorted);
    return found;
}

static int hits_shape(const struct shape_args *args)
{
    const struct tensor *right = args->value[0], *sampled = args->value[1];
    const int64_t n_true = attr_int(args->op, "num_true"),
                  columns = dim_of(&args->in[0], 1);
    int64_t n = -1;

    if (columns >= 0 && columns != n_true)
        return err_set(args->err, ERR_SHAPE, "%lld true classes in a row, not %lld",
                       (long long)columns, (long long)n_true);
    if (args->is_planning && right != NULL && sampled != NULL) {
        n = find_hits(right, sampled, NULL, NULL);
        if (n < 0)
            return err_set(args->err, ERR_NOMEM, "no memory");
    }
    for (int i = 0; i < 3; i++)
        args->out[i] = SHAPE(n);
    return 0;
}

/* out: indices (rows of the true classes), ids (places among the candidates), weights, the lowest
 * number, to be added to logits */
static int kern_hits(const struct kernel_args *a)
{
    const int64_t n = tensor_elements(a->out[0]);

    if (find_hits(a->in[0], a->in[1], NULL, NULL) != n)
        return err_set(a->err, ERR_SHAPE, "%s: not %lld accidental hits",
                       operation_name(a->op), (long long)n);
    if (find_hits(a->in[0], a->in[1], a->out[0], a->out[1]) < 0)
        return err_set(a->err, ERR_NOMEM, "%s: no memory", operation_name(a->op));
    for (int64_t i = 0; i < n; i++)
        tensor_f32(a->out[2])[i] = -FLT_MAX;
    return 0;
}

/* ---- the rows ---- */

#define CANDIDATES                                                                       \
    OP_STATEFUL | OP_DRAWS | OP_LIBM | OP_NO_GRADIENT, candidates_shape, NULL,           \
        CALL(kern_candidates),                                                           \
        "true_classes:int64 -> sampled_candidates:int64, true_expected_count:float32, "  \
        "sampled_expected_count:float32; num_true:int, num_sampled:int, unique:bool, "   \
        "range_max:int, seed:int=0, seed2:int=0"

static const struct op_def rows[] = {
    {"UniformCandidateSampler", CANDIDATES, .ranks = "2"},
    {"LogUniformCandidateSampler", CANDIDATES, .ranks = "2"},
    {"ComputeAccidentalHits", OP_NO_GRADIENT, hits_shape, NULL, CALL(kern_hits),
     "true_classes:int64, sampled_candidates:int64 -> indices:int32, ids:int64, "
     "weights:float32; num_true:int, seed:int=0, seed2:int=0",
     .ranks = "21", .sized_by = "true_classes sampled_candidates"},
};

const struct op_family ops_of_random_candidates = OP_FAMILY(rows);
