#include "agent/graph/ops.h"

#include <math.h>

/* A Const of `shape` with all elements equal to v (TensorFlow also writes out every
 * element). */
static struct output filled_constant(struct graph *g, enum dtype dtype,
                                     const struct shape *shape, double v)
{
    struct output x = OUTPUT_NONE;
    struct tensor t;

    if (tensor_alloc(&t, dtype, *shape, NULL) < 0)
        return x;
    for (int64_t i = 0, n = tensor_elements(&t); i < n; i++) {
        if (dtype == DT_FLOAT)
            ((float *)t.data)[i] = (float)v;
        else if (dtype == DT_DOUBLE)
            ((double *)t.data)[i] = v;
        else if (dtype == DT_INT32)
            ((int32_t *)t.data)[i] = (int32_t)v;
        else if (dtype == DT_INT64)
            ((int64_t *)t.data)[i] = (int64_t)v;
        else if (dtype == DT_BOOL || dtype == DT_UINT8)
            ((uint8_t *)t.data)[i] = (uint8_t)v;
    }
    x = constant(g, &t, NULL);
    tensor_free(&t);
    return x;
}

static struct output build_zeros(struct graph *g, const struct initializer *self,
                                 enum dtype dtype, const struct shape *shape)
{
    return zeros(g, dtype, shape, NULL);
}

static struct output build_ones(struct graph *g, const struct initializer *self,
                                enum dtype dtype, const struct shape *shape)
{
    return ones(g, dtype, shape, NULL);
}

static struct output build_constant(struct graph *g, const struct initializer *self,
                                    enum dtype dtype, const struct shape *shape)
{
    return filled_constant(g, dtype, shape, self->a);
}

static struct output build_uniform(struct graph *g, const struct initializer *self,
                                   enum dtype dtype, const struct shape *shape)
{
    return random_uniform_of(g, dtype, shape, self->a, self->b, NULL);
}

static struct output build_normal(struct graph *g, const struct initializer *self,
                                  enum dtype dtype, const struct shape *shape)
{
    return random_normal_of(g, "RandomStandardNormal", dtype, shape, self->a, self->b,
                            NULL);
}

static struct output build_truncated(struct graph *g, const struct initializer *self,
                                     enum dtype dtype, const struct shape *shape)
{
    return random_normal_of(g, "TruncatedNormal", dtype, shape, self->a, self->b, NULL);
}

/* init_ops._compute_fans: the last two dimensions, times the others (a receptive field).
 */
static void compute_fans(const struct shape *s, double *ret_in, double *ret_out)
{
    double field = 1;

    *ret_in = *ret_out = s->rank == 1 ? (double)s->dim[0] : 1;
    if (s->rank < 2)
        return;
    for (int i = 0; i < s->rank - 2; i++)
        field *= (double)s->dim[i];
    *ret_in = field * (double)s->dim[s->rank - 2];
    *ret_out = field * (double)s->dim[s->rank - 1];
}

/* Glorot and Bengio 2010, eq. 16: uniform in +-sqrt(6 / (in + out)). */
static struct output build_glorot(struct graph *g, const struct initializer *self,
                                  enum dtype dtype, const struct shape *shape)
{
    double in, out, limit;

    compute_fans(shape, &in, &out);
    limit = sqrt(6 / fmax(in + out, 1));
    return random_uniform_of(g, dtype, shape, -limit, limit, NULL);
}

static struct output build_he_uniform(struct graph *g, const struct initializer *self,
                                      enum dtype dtype, const struct shape *shape)
{
    double in, out, limit;

    compute_fans(shape, &in, &out);
    limit = sqrt(6 / fmax(in, 1));
    return random_uniform_of(g, dtype, shape, -limit, limit, NULL);
}

/* He et al. 2015, eq. 10: variance 2 / in. The divisor gives the truncated draw the
 * deviation of the whole one (scipy.stats.truncnorm.std(-2, 2)). */
static struct output build_he_normal(struct graph *g, const struct initializer *self,
                                     enum dtype dtype, const struct shape *shape)
{
    double in, out;

    compute_fans(shape, &in, &out);
    return random_normal_of(g, "TruncatedNormal", dtype, shape, 0,
                            sqrt(2 / fmax(in, 1)) / 0.87962566103423978, NULL);
}

/* Output `index` of an op of one input without attributes that must be given. */
static struct output apply(struct graph *g, const char *type, struct output x, int index)
{
    struct op_builder *b = op_begin(g, type, NULL);
    struct operation *op;

    op_input(b, x);
    op = op_finish(b);
    return op != NULL ? (struct output){op, index} : OUTPUT_NONE;
}

/* Saxe et al. 2014: Q of a normal matrix's QR, its signs set so that every rotation is
 * equally likely; wider than high: its transpose. */
static struct output build_orthogonal(struct graph *g, const struct initializer *self,
                                      enum dtype dtype, const struct shape *shape)
{
    int64_t rows = 1, cols = shape->rank > 0 ? shape->dim[shape->rank - 1] : 1;
    struct output x, q, diagonal;

    for (int i = 0; i + 1 < shape->rank; i++)
        rows *= shape->dim[i];
    x = random_normal_of(g, "RandomStandardNormal", dtype,
                         &SHAPE(rows < cols ? cols : rows, rows < cols ? rows : cols), 0,
                         1, NULL);
    q = apply(g, "Qr", x, 0);
    if (!output_valid(q))
        return OUTPUT_NONE;
    diagonal = apply(g, "DiagPart", (struct output){q.op, 1}, 0);
    q = binary(g, "Mul", q, unary(g, "Sign", diagonal, NULL), "mul");
    if (rows < cols)
        q = binary(g, "Transpose", q, constant_i32s(g, (int32_t[]){1, 0}, 2, "perm"),
                   NULL);
    q = reshape(g, q, shape, NULL);
    return binary(g, "Mul", constant_like(g, dtype, self->a, NULL), q, "mul");
}

struct initializer zeros_initializer(void)
{
    return (struct initializer){.build = build_zeros};
}

struct initializer ones_initializer(void)
{
    return (struct initializer){.build = build_ones};
}

struct initializer constant_initializer(double value)
{
    return (struct initializer){.build = build_constant, .a = value};
}

struct initializer uniform_initializer(double low, double high)
{
    return (struct initializer){.build = build_uniform, .a = low, .b = high};
}

struct initializer random_normal_initializer(double mean, double stddev)
{
    return (struct initializer){.build = build_normal, .a = mean, .b = stddev};
}

struct initializer truncated_normal_initializer(double mean, double stddev)
{
    return (struct initializer){.build = build_truncated, .a = mean, .b = stddev};
}

struct initializer glorot_uniform_initializer(void)
{
    return (struct initializer){.build = build_glorot};
}

struct initializer he_normal_initializer(void)
{
    return (struct initializer){.build = build_he_normal};
}

struct initializer he_uniform_initializer(void)
{
    return (struct initializer){.build = build_he_uniform};
}

struct initializer orthogonal_initializer(double gain)
{
    return (struct initializer){.build = build_orthogonal, .a = gain};
}

struct initializer linear_initializer(int64_t fan_in)
{
    const double limit = 1 / sqrt((double)fan_in);

    return uniform_initializer(-limit, limit);
}

struct initializer tensor_initializer(struct output value)
{
    return (struct initializer){.value = value};
}
