/* mixer.h - the network of qmix that mixes the values of a team's agents, in the central process.
 *
 * Source   Rashid et al. 2018, "QMIX: monotonic value function factorisation for deep multi-agent
 *          reinforcement learning", with the sizes of EPyMARL (Papoudakis et al. 2021).
 *
 * Shapes   B episodes of L steps, n = B L rows; N agents of the team, S the width of the state s:
 *          what all of them observe, side by side; q (n, N) their values, 0 of one that is not
 *          there.
 *
 *     w1 = |s > 64 relu > N M|     b1 = s > M
 *     w2 = |s > 64 relu > M|       v  = s > M relu > 1
 *     mix(q, s) = elu(q w1 + b1) w2 + v                   M = 32
 *
 * It grows with every q, since the weights of q do not fall below 0: so each agent's best choice is
 * part of the team's best one.
 */
#ifndef AGENT_ALGO_MIXER_H
#define AGENT_ALGO_MIXER_H

#include "agent/algo/episodes.h"
#include "agent/algo/team.h"

struct mixer { /* of one team */
    struct kit *kit;
    struct team team;
    const char *team_scope;     /* the team's name, borrowed; NULL: it is the only one */
    char *scope, *target_scope; /* of the networks, within the central process's */
    size_t step;                /* place in kit.step */
    struct reward_scale *scale;
    struct episodes episodes;
    struct output q, state, y, weight;   /* (n, N), (n, S), (n, 1), (n, 1) */
    struct output mixed, target_mixed;   /* (n, 1) */
    struct output slope;                 /* (n, N) d(loss)/d(q) */
    struct matrix *states, *next_states; /* (n, S) */
    struct matrix *qs, *nexts, *slopes;  /* (n, N) */
    struct matrix *value, *next;         /* (n) */
};

/* Of the team of that name, borrowed; is_only: no other team learns. Declares its matrices. */
void mixer_init(struct mixer *m, struct kit *k, const char *team, int is_only);
void mixer_done(struct mixer *m);
/* In the central process's scope: the networks "mixer" and "target_mixer", in a scope of the team's
 * unless it is the only one; and the step down the mean of w (y - mix(q, s))^2. */
void mixer_build(struct mixer *m, struct live *rate);
/* One step. Returns the slopes (n, N), from before it; NULL: the batch has failed. priority (B)
 * and measured: episodes.h. ret_norm: of the gradients, before clipping. */
const float *mixer_learn(struct mixer *m, struct batch *b, float lambda, float *priority,
                         double measured[EPISODES_MEASURED], double *ret_norm);

#endif
