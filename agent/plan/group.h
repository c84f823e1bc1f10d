/* group.h - nodes that become one step (plan_fuse.c chooses them), and the program of the
 * step. */
#ifndef AGENT_PLAN_GROUP_H
#define AGENT_PLAN_GROUP_H

#include "agent/plan/plan.h"

#define GROUP_MAX 24 /* nodes of one loop */

struct group {
    const struct node *call; /* a call, alone in its group, or NULL */
    const struct node *gemm; /* the product at the start of a loop, or NULL */
    int64_t total;
    int guard;
    int n_members, n_tails;
    const struct node *members[GROUP_MAX], *tails[GROUP_MAX];
};

/* Whether the node is a float32 sum that can become a tail of the step that computes its
 * operand. */
int group_tail(const struct plan *p, const struct node *n, struct loop_tail *ret);
/* The program of a group without a call, in `arena`. */
struct loop_program *group_program(struct plan *p, struct arena *arena,
                                   const struct group *g);

#endif
