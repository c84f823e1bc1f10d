/* arithmetic.h - builders of the commonest ops, for formulas that read like a paper's.
 *
 * Each is a call of ops.h, with the name that Python's operator gives its operation.
 */
#ifndef AGENT_GRAPH_ARITHMETIC_H
#define AGENT_GRAPH_ARITHMETIC_H

#include "agent/graph/ops.h"

static inline struct output add(struct graph *g, struct output x, struct output y)
{
    return binary(g, "Add", x, y, "add");
}
static inline struct output sub(struct graph *g, struct output x, struct output y)
{
    return binary(g, "Sub", x, y, "sub");
}
static inline struct output mul(struct graph *g, struct output x, struct output y)
{
    return binary(g, "Mul", x, y, "mul");
}
static inline struct output minimum(struct graph *g, struct output x, struct output y)
{
    return binary(g, "Minimum", x, y, NULL);
}
static inline struct output maximum(struct graph *g, struct output x, struct output y)
{
    return binary(g, "Maximum", x, y, NULL);
}
static inline struct output negative(struct graph *g, struct output x)
{
    return unary(g, "Neg", x, NULL);
}
static inline struct output square(struct graph *g, struct output x)
{
    return unary(g, "Square", x, NULL);
}
static inline struct output absolute(struct graph *g, struct output x)
{
    return unary(g, "Abs", x, NULL);
}
static inline struct output logarithm(struct graph *g, struct output x)
{
    return unary(g, "Log", x, NULL);
}
static inline struct output named(struct graph *g, struct output x, const char *name)
{
    return unary(g, "Identity", x, name);
}
/* Of all elements. */
static inline struct output mean_of(struct graph *g, struct output x, const char *name)
{
    return reduce(g, "Mean", x, NULL, 0, 0, name);
}
static inline struct output sum_of(struct graph *g, struct output x, const char *name)
{
    return reduce(g, "Sum", x, NULL, 0, 0, name);
}
/* (B, n) > (B, 1) */
static inline struct output sum_of_row(struct graph *g, struct output x)
{
    static const int32_t columns = 1;

    return reduce(g, "Sum", x, &columns, 1, 1, NULL);
}

#endif
