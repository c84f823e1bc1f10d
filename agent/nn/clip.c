#include "agent/nn/nn.h"

#include "agent/graph/arithmetic.h"
#include "common/mem/xmalloc.h"

#include <stdlib.h>

static struct output pack(struct graph *g, const struct output *xs, size_t n,
                          const char *name)
{
    struct op_builder *b = op_begin(g, "Pack", name);
    struct operation *op;

    for (size_t i = 0; i < n; i++)
        op_input(b, xs[i]);
    op = op_finish(b);
    return op != NULL ? (struct output){op, 0} : OUTPUT_NONE;
}

struct output global_norm(struct graph *g, const struct gradient *grads, size_t n)
{
    struct output *halves = xcalloc(n, sizeof(*halves));
    struct output sum;

    name_scope_enter(g, "global_norm");
    for (size_t i = 0; i < n; i++)
        halves[i] = unary(g, "L2Loss", grads[i].grad, NULL);
    sum = reduce(g, "Sum", pack(g, halves, n, "stack"), NULL, 0, 0, NULL);
    sum = mul(g, sum, constant_f32(g, 2.0f, NULL));
    sum = unary(g, "Sqrt", sum, "global_norm");
    name_scope_leave(g);
    free(halves);
    return sum;
}

void clip_gradients_by_norm(struct graph *g, struct gradient *grads, size_t n,
                            struct output clip_norm)
{
    for (size_t i = 0; i < n; i++)
        grads[i].grad = clip_by_norm(g, grads[i].grad, clip_norm, NULL);
}

void clip_gradients_by_global_norm(struct graph *g, struct gradient *grads, size_t n,
                                   struct output norm, struct output clip_norm)
{
    struct output one, limit, scale;

    name_scope_enter(g, "clip_by_global_norm");
    one = constant_f32(g, 1.0f, NULL);
    limit = binary(g, "RealDiv", one, clip_norm, "truediv");
    scale = binary(g, "Minimum", binary(g, "RealDiv", one, norm, "truediv"), limit, NULL);
    scale = mul(g, clip_norm, scale);
    for (size_t i = 0; i < n; i++)
        grads[i].grad = mul(g, grads[i].grad, scale);
    name_scope_leave(g);
}
