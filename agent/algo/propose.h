/* propose.h - the stage `propose` of an agent whose algorithm has none: the actions
 * that it would choose at the rows' next observations (under their masks), for others'
 * critics.
 *
 * Actions  those of `act` in mode ACT_SAMPLE: the policy as it plays, without noise that
 *          only serves exploration. A recurrent policy, or one that sees its last action,
 *          acts as at the beginning of an episode: rows of single steps have no past.
 * Absent   the actions are 0 where the agent is not there any more.
 * Draws    the stage's key and counter; row i from index i * U on.
 * Shapes   G groups of B rows, O observation and U action width, H carry width.
 * Owns     the actions, until the next call.
 */
#ifndef AGENT_ALGO_PROPOSE_H
#define AGENT_ALGO_PROPOSE_H

#include "agent/algo/algo.h"
#include "agent/algo/rows.h"

struct proposals { /* all-zero: an empty one; release with proposals_done */
    size_t rows;   /* there is room for */
    float *obs, *actions, *carry; /* carry: input (0), then output of `act` */
    uint8_t *allowed, *first;
    uint64_t *counter, *draw_first;
    float *alive, *terminated;
    int next_obs_column, next_allowed_column; /* places in the log */
    struct life_columns life;
};

struct proposer { /* who proposes; borrowed for the call */
    struct algo *algo;
    int (*act)(struct algo *a, struct session *s, const struct act_args *args,
               struct act_result *ret, struct err *err);
    const struct space *self;
    size_t n_agents;
    int64_t carry; /* H */
};

void proposals_done(struct proposals *p);
/* Declares the columns that the proposals read (reads.h). */
void proposals_reads(struct proposals *p, const struct space *self, struct reads *r);
/* Answers the stage with the output "action" (G, B, U). */
int proposals_make(struct proposals *p, const struct proposer *who, struct session *s,
                   const struct stage_args *args, struct stage_result *ret,
                   struct err *err);

#endif
