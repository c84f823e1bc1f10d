/* actor.h - the policies that critics' slopes go through.
 *
 * Of maddpg, ddpg and matd3, which have a target policy:
 * Deterministic  a bounded box: low + (high - low) (tanh(x) + 1) / 2. Exploring adds normal
 *                noise of `exploration_noise` half ranges, within the bounds.
 * Gumbel         discrete actions: softmax((logits + Gumbel) / temperature) of each head, a
 *                sample that has a gradient; `execute: hard` plays its largest entry.
 *
 * Of isac and masac, soft ones, whose log-probabilities count:
 * Categorical    over the C combinations of the action's heads (choices.h); one uniform number
 *                per row selects a choice.
 * Squashed       a bounded box: tanh-squashed normal (agent/nn/policy.h) whose mean and
 *                log-deviation, within [-20, 2], are outputs of one network; U normal numbers make
 *                an action. Probabilities count as if the action had been scaled to (-1, 1), so that
 *                entropies do not depend on the bounds.
 *
 * Masks          the logits of impossible choices are lowered so far that they get no part of
 *                the softmax and no gradient: at next observations by next_allowed, at those of
 *                the rows by allowed. They are fed into placeholder `allowed`.
 * Draws          in stages, numbers of row i from index i (or i U) of the stage's key, derived by
 *                a label.
 * Shapes         P log-probabilities of a row: C, or 1 of a squashed normal.
 * Source         openai/maddpg; Jang, Gu, Poole 2017, "Categorical reparameterization with
 *                Gumbel-softmax"; Huang, Ontanon 2020, "A closer look at invalid action masking
 *                in policy gradient algorithms".
 */
#ifndef AGENT_ALGO_ACTOR_H
#define AGENT_ALGO_ACTOR_H

#include "agent/algo/joint.h"

enum actor_kind { ACTOR_DETERMINISTIC, ACTOR_GUMBEL, ACTOR_CATEGORICAL, ACTOR_SQUASHED };

/* A policy's output: the result of its layers, and the action made of it. */
struct policy {
    struct output raw; /* of its layers: logits, or the values before tanh */
    struct output
        noise; /* (B, U) fed when acting; Gumbel: uniform in [0, 1), squashed: normal */
    struct output
        scores; /* the best choice has the largest; squashed: the most likely action */
    struct output action;   /* (B, U); none of a categorical one */
    struct output p;        /* (B, C) categorical only */
    struct output log_prob; /* (B, P) soft ones only */
};

struct actor {
    struct joint *joint; /* has the own observation */
    enum actor_kind kind;
    int masked;
    int32_t n_choices;   /* C; 0: not categorical */
    int64_t n_log_probs; /* P; 0: not soft */
    struct obs_form form;
    struct output allowed; /* masked only: placeholder, 1: possible, else 0 */
    struct live *penalty, *temperature, *exploration_noise;
    struct policy policy, target;
    struct matrix *own_next;                           /* (G B, O), with the id */
    struct matrix *proposal, *probability, *log_probs; /* (G B, U), (G B, C), (G B, P) */
    struct matrix *draw;                 /* (G B, 1) or (G B, U) of soft ones */
    struct matrix *open_now, *open_next; /* masks */
    struct matrix *act_draw, *act_input, *act_open, *act_p; /* of copies */
};

/* Settings of those that are not soft. */
#define ACTOR_SETTINGS                                                                   \
    "logit_penalty", "temperature", "policy", "execute", "exploration_noise"

/* Sets what the agent's space and settings say. ERR_CONFIG: they do not fit. */
int actor_init(struct actor *p, const struct algo_args *args, int is_soft,
               struct err *err);
/* After joint_init. */
void actor_make_matrices(struct actor *p, struct joint *j);
/* The live settings, what they are fed into, and placeholder `allowed`. */
void actor_make_lives(struct actor *p);
struct policy actor_policy(struct actor *p, const char *scope);
/* p->policy of scope "p_func", named for frozen agents. */
void actor_make_policy(struct actor *p);
static inline int actor_is_box(const struct actor *p)
{
    return p->kind == ACTOR_DETERMINISTIC || p->kind == ACTOR_SQUASHED;
}
/* The policy's outputs squared, of possible choices: what logit_penalty weighs. */
struct output actor_penalty(struct actor *p);

/* p->proposal, at the next observations of the batch's rows: the target policy's actions, or draws
 * from a soft policy, with p->log_probs. smoothing: noise that is added, and clipped to the bounds;
 * NULL: none. */
void actor_propose(struct actor *p, struct batch *b,
                   void (*smoothing)(struct algo *a, struct batch *b, float *x));
/* Feeds what the policy needs besides the observation: at the rows. */
void actor_feed(struct actor *p, struct batch *b);

int actor_act(struct actor *p, struct session *s, const struct act_args *args,
              struct act_result *ret, struct err *err);

#endif
