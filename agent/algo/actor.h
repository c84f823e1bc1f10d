/* actor.h - the policies of maddpg and matd3, which critics' gradients go through.
 *
 * Deterministic  a bounded box: low + (high - low) (tanh(x) + 1) / 2. Exploring adds normal
 *                noise of `exploration_noise` half ranges, within the bounds.
 * Gumbel         discrete actions: softmax((logits + Gumbel) / temperature) of each head, a
 *                sample that has a gradient; `execute: hard` plays its largest entry.
 * Masks          the logits of impossible choices are lowered so far that they get no part of
 *                the softmax and no gradient: at next observations by next_allowed, at those of
 *                the rows by allowed. They are fed into placeholder `allowed`.
 * Source         openai/maddpg; Jang, Gu, Poole 2017, "Categorical reparameterization with
 *                Gumbel-softmax"; Huang, Ontanon 2020, "A closer look at invalid action masking
 *                in policy gradient algorithms".
 */
#ifndef AGENT_ALGO_ACTOR_H
#define AGENT_ALGO_ACTOR_H

#include "agent/algo/joint.h"

/* A policy's output: the result of its layers, and the action made of it. */
struct policy {
    struct output raw;    /* (B, U): logits, or the values before tanh */
    struct output noise;  /* (B, U) uniform in [0, 1), fed when acting; Gumbel only */
    struct output scores; /* (B, U) logits and noise: the largest is the choice; Gumbel */
    struct output action; /* (B, U) */
};

struct actor {
    struct joint *joint; /* has the own observation */
    int deterministic;
    int masked;
    struct obs_form form;
    struct output allowed; /* (B, U), masked only: placeholder, 1: possible, else 0 */
    struct live *rate, *critic_rate; /* where steps are made */
    struct live *penalty, *temperature, *exploration_noise;
    struct policy policy, target;
    struct matrix *own_next;                         /* (G B, O), with the id */
    struct matrix *proposal;                         /* (G B, U) */
    struct matrix *open_now, *open_next;             /* masks */
    struct matrix *act_noise, *act_input, *act_open; /* of copies */
};

/* Settings that both algorithms have. */
#define ACTOR_SETTINGS                                                                   \
    "logit_penalty", "temperature", "policy", "execute", "own_batches", "clip_by",       \
        "exploration_noise", "symmetry", "reward_scale", "agent_id"

/* Sets what the agent's space and settings say. ERR_CONFIG: they do not fit. */
int actor_init(struct actor *p, const struct algo_args *args, struct err *err);
/* Refuses optimisers and symmetries that do not go with the settings. reads_proposals: critics see
 * what others propose. ERR_CONFIG. */
int actor_check(const struct algo_args *args, int reads_proposals, struct err *err);
/* After joint_init. */
void actor_make_matrices(struct actor *p, struct joint *j);
/* The live settings of policy and critic. */
void actor_make_lives(struct actor *p);
/* What they are fed into; then placeholder `allowed`. Returns 1 - polyak. */
struct output actor_make_constants(struct actor *p);
void actor_make_masks(struct actor *p);
struct policy actor_policy(struct actor *p, const char *scope);
/* p->policy of scope "p_func", named for frozen agents. */
void actor_make_policy(struct actor *p);
/* The policy's outputs squared, of possible choices: what logit_penalty weighs. */
struct output actor_penalty(struct actor *p);

/* The target policy's actions at the next observations of the batch's rows: p->proposal.
 * smoothing: noise that is added, and clipped to the bounds; NULL: none. */
void actor_propose(struct actor *p, struct batch *b,
                   void (*smoothing)(struct algo *a, struct batch *b, float *x));
/* Feeds what the policy needs besides the observation: at the rows. */
void actor_feed(struct actor *p, struct batch *b);

int actor_act(struct actor *p, struct session *s, const struct act_args *args,
              struct act_result *ret, struct err *err);

#endif
