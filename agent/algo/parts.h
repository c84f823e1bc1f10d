/* parts.h - pieces of graphs that several algorithms are made of. */
#ifndef AGENT_ALGO_PARTS_H
#define AGENT_ALGO_PARTS_H

#include "agent/graph/graph.h"
#include "common/config/run_config.h"

/* A loss made smaller: minimize_and_clip of openai/maddpg. */
struct minimizer {
    const char *scope; /* its trainable variables are moved: "agent_0/q_func/" */
    const struct optimizer_config *optimizer;
    struct output clip_norm; /* scalar */
    enum clip_by clip_by;
    struct output norm;          /* set: of the gradient before clipping */
    struct output learning_rate; /* set: the optimiser's constant */
};
/* NULL on failure (err, or the graph's error). */
struct operation *minimize_clipped(struct graph *g, struct output loss,
                                   struct minimizer *m, struct err *err);

/* Adds to ops[] what moves each trainable variable of the scope `target` towards its twin
 * in `source`, t = keep t + polyak v, and to copies[] what makes it equal; returns how
 * many. Scopes end in "/". */
size_t follow_variables(struct graph *g, const char *target, const char *source,
                        struct output keep, struct output polyak, struct operation **ops,
                        struct operation **copies);

#endif
