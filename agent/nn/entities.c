#include "agent/nn/nn.h"

#include "agent/graph/arithmetic.h"

#include <math.h>

/* Layers that see the entities of observations (nn.h).
 *
 * Shapes  N observations, K entities in each, W numbers of an entity without the one that
 *         says whether it is there, D units of the last layer, H heads. `there` (N, K, 1) is
 *         1 or 0. What is not there is multiplied by 0 or falls below FAR.
 */

/* Beyond all values of a layer: exp(-FAR) is 0. */
#define FAR 1e9f

static const int32_t entity_axis = 1, unit_axis = 3;

/* x where it is there, elsewhere at most x - FAR. */
static struct output or_far_below(struct graph *g, struct output x, struct output there)
{
    struct output far = with_scalar(g, "Sub", there, 1, "sub");

    far = with_scalar(g, "Mul", far, (double)FAR, "mul");
    return add(g, mul(g, x, there), far);
}

/* x (N, K, D) > (N, D); without any entity 0. */
static struct output pool_max(struct graph *g, struct output x, struct output there)
{
    struct output any = reduce(g, "Max", there, &entity_axis, 1, 0, "any");

    x = reduce(g, "Max", or_far_below(g, x, there), &entity_axis, 1, 0, "max");
    return mul(g, x, any);
}

static struct output pool_mean(struct graph *g, struct output x, struct output there)
{
    struct output count = reduce(g, "Sum", there, &entity_axis, 1, 0, "count");

    x = reduce(g, "Sum", mul(g, x, there), &entity_axis, 1, 0, "sum");
    return binary(g, "RealDiv", x, maximum(g, count, constant_f32(g, 1.0f, NULL)),
                  "mean");
}

/* The weights of the entities, (N, K, H, 1): a softmax over those that are there. */
static struct output attention_weights(struct graph *g, struct output scores,
                                       struct output there)
{
    struct output x = or_far_below(g, scores, there);
    struct output top = reduce(g, "Max", x, &entity_axis, 1, 1, "top");
    struct output e =
        mul(g, unary(g, "Exp", sub(g, x, stop_gradient(g, top, NULL)), NULL), there);
    struct output total = reduce(g, "Sum", e, &entity_axis, 1, 1, "total");

    /* the largest is exp(0), so that a smaller total is 0: nothing is there */
    return binary(g, "RealDiv", e, maximum(g, total, constant_f32(g, 1.0f, NULL)),
                  "weights");
}

/* own (N, O), x (N K, D) > (N, D): the heads' sums of values, side by side. */
static struct output attend(struct graph *g, struct output own, struct output x,
                            struct output there, int64_t k,
                            const struct network_config *net)
{
    const int64_t d = output_shape(x).dim[1], heads = net->entities.heads;
    const struct shape each = SHAPE(-1, k, heads, d / heads);
    const struct initializer init = hidden_initializer(net);
    struct output query = projection(g, own, d, "query", &init);
    struct output key = projection(g, x, d, "key", &init);
    struct output value = fully_connected(g, x, d, net->activation, "value", &init);
    struct output scores, weights;

    query = reshape(g, query, &SHAPE(-1, 1, heads, d / heads), NULL);
    key = reshape(g, key, &each, NULL);
    value = reshape(g, value, &each, NULL);
    there = reshape(g, there, &SHAPE(-1, k, 1, 1), NULL);
    scores = reduce(g, "Sum", mul(g, key, query), &unit_axis, 1, 1, "scores");
    scores = with_scalar(g, "Mul", scores, 1 / sqrt((double)d / (double)heads), "mul");
    weights = attention_weights(g, scores, there);
    value = reduce(g, "Sum", mul(g, value, weights), &entity_axis, 1, 0, "attended");
    return reshape(g, value, &SHAPE(-1, d), NULL);
}

/* own (N, O), x (N K, W), there (N, K, 1) > (N, D) */
static struct output see(struct graph *g, struct output own, struct output x,
                         struct output there, int64_t k, const struct network_config *net)
{
    const struct entity_layers *e = &net->entities;
    const struct initializer init = hidden_initializer(net);

    for (int i = 0; i < e->units.n; i++)
        x = fully_connected(g, x, e->units.size[i], net->activation, NULL, &init);
    if (!output_valid(x))
        return OUTPUT_NONE;
    if (e->pool == POOL_ATTENTION)
        return attend(g, own, x, there, k, net);
    x = reshape(g, x, &SHAPE(-1, k, output_shape(x).dim[1]), NULL);
    return e->pool == POOL_MAX ? pool_max(g, x, there) : pool_mean(g, x, there);
}

struct output see_entities(struct graph *g, struct output own, struct output x,
                           const struct network_config *net, int64_t k, int64_t width)
{
    struct output there;

    x = reshape(g, x, &SHAPE(-1, width), NULL);
    there = slice_columns(g, x, width - 1, 1, NULL);
    there = reshape(g, there, &SHAPE(-1, k, 1), NULL);
    x = slice_columns(g, x, 0, width - 1, NULL);
    variable_scope_enter(g, "entities", NULL, REUSE_INHERIT);
    x = see(g, own, x, there, k, net);
    variable_scope_leave(g);
    return x;
}
