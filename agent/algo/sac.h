/* sac.h - soft actor-critic: isac (critics of the own observation and action), masac
 * (critics of all observations and the others' actions).
 *
 * Source   Haarnoja, Zhou, Hartikainen, Tucker, Ha, Tan, Kumar, Zhu, Gupta, Abbeel, Levine,
 *          "Soft actor-critic algorithms and applications", 2018; discrete actions:
 *          Christodoulou, "Soft actor-critic for discrete action settings", 2019; joint
 *          critics: Iqbal, Sha, "Actor-attention-critic for multi-agent reinforcement
 *          learning", ICML 2019 (each agent's critic gives the values of all its choices,
 *          beside the others' actions); BenchMARL for the discrete target entropy.
 *
 * Shapes   B rows, O own observation (with the id, if the setting agent_id asks for one),
 *          U own action, C choices (all combinations of heads, choices.h), S state: the seen
 *          agents' observations, then the actions of the seen agents but the own one, each
 *          in the order of seen.h.
 *          P log-probabilities of a row: C, or 1 of a box.
 * Policy   discrete: pi, categorical over C. Box: tanh-squashed normal (agent/nn/policy.h)
 *          whose mean and log-deviation, within [-20, 2], are outputs of one network.
 *          Probabilities of a box count as if the action had been scaled to (-1, 1), so that
 *          entropies do not depend on its bounds.
 * Critics  Q1, Q2 (q_func/... and q_func/twin/...) and their targets. Discrete: S > C values,
 *          the own action is no input. Box: (S, U) > 1.
 *
 * propose  every agent's policy at its own next observation: an action u', and its log pi(u'),
 *          discrete: log pi of each choice. An agent that is not there after the row
 *          proposes zeros, as the log holds them for it. Pure.
 * critic   A  discrete  v = sum over c of pi(c) (min Q'(s')(c) - alpha log pi(c))
 *             box       v = min Q'(s', u') - alpha log pi(u')
 *             y = reward + discount (1 - terminated) v, the reward scaled as the setting
 *             reward_scale says
 *             s' has the others' u'; log pi is the own: each agent maximises its own
 *             entropy.
 *          B  critics:  mean of ((Q1 - y)^2 + (Q2 - y)^2) / 2, one optimiser for both
 * learn    C  policy, with the critics just updated, the others' actions as stored:
 *             discrete  mean of sum over c of pi(c) (alpha log pi(c) - min Q(s)(c))
 *             box       mean of alpha log pi(u) - min Q(s, u), u drawn anew; the gradient
 *                       goes through u
 *          D  temperature, alpha = exp(log_alpha), in the same run of the session as C, with
 *             the policy before C and the actor's kind of optimiser:
 *             -log_alpha mean of (sum over c of pi(c) log pi(c), or log pi(u), + H)
 *             H = target_entropy_share log(choices that are possible in the row), or
 *             U target_entropy_each
 *          E  targets: t = (1 - polyak) t + polyak v
 * isac     needs no proposals of others: one stage `learn`, A to E, which computes its
 *          own.
 * Shared   (share.h) gradients > apply > assign, played twice, in place of critic and learn:
 *          the first time for B, the second time for C and D. The ps has policy, critics and
 *          temperature with their optimisers; the members have all but those optimisers, and
 *          move their targets in the second assign (E). Means are then over the rows of all
 *          members: each member's gradients are weighted by the rows in its mean.
 * Means    sum(m x) / max(1, sum m), m = alive times the row's importance weight.
 *          Priorities: the larger of |Q1 - y| and |Q2 - y|.
 * masks    lower the logits of impossible choices by 1e8, in all of the above and when
 *          acting.
 * Draws    one uniform number per row selects a choice; U normal numbers make an action of a
 *          box. Both are fed: in stages, numbers of row i from index i (or i U) of the
 *          stage's key, derived by "next" (propose, A) or "now" (C).
 * Variable `temperature/log_alpha`, trainable, begins with log(initial_alpha).
 *
 * Shared by sac*.c only.
 */
#ifndef AGENT_ALGO_SAC_H
#define AGENT_ALGO_SAC_H

#include "agent/algo/algo.h"
#include "agent/algo/feeds.h"
#include "agent/algo/reward_scale.h"
#include "agent/algo/seen.h"
#include "agent/nn/nn.h"

enum sac_live {
    SAC_CRITIC_RATE,
    SAC_ACTOR_RATE,
    SAC_ALPHA_RATE,
    SAC_CLIP_NORM,
    SAC_POLYAK,
    SAC_DISCOUNT,
    SAC_TARGET_ENTROPY,
    SAC_LIVES
};

enum sac_step { SAC_CRITIC, SAC_ACTOR, SAC_ALPHA, SAC_STEPS };

struct sac_policy {
    struct output scores; /* (B, C) logits, masked; box: (B, U) the most likely action */
    struct output p;      /* (B, C); box: none */
    struct output log_prob; /* (B, P) */
    struct output noise;    /* (B, U) standard normal, and ... */
    struct output action;   /* (B, U) ... the action drawn with it; box only */
};

struct sac_batch {            /* 64-byte aligned, kept from update to update */
    int64_t rows, group_rows; /* there is room for: B, G B */
    void *memory;
    float divisor; /* of the sums with these weights, see rows_mean */
    float *state;  /* (B, S) */
    float *action; /* (B, U) own */
    float *choice; /* (B, C) of it, one-hot; discrete only */
    float *reward, *terminated, *weight, *target, *next_value, *error; /* (B) */
    /* (G B, .): what propose reads, and what it returns */
    float *obs, *proposal, *p, *log_prob, *noise, *alive, *over;
    uint8_t *mask; /* (G B, U) as the log has it, masked only */
    float *open;   /* (G B, C) choices that are possible */
};

struct algo {
    struct graph *graph;
    const struct agent_config *config;
    const struct algorithm_settings *settings;
    const struct space *agents;
    size_t n_agents, self;
    struct share *share; /* NULL: nothing is shared */
    int32_t n_choices;   /* C; 0: a box */
    int masked;
    int one_stage;       /* isac */
    int64_t n_values;    /* what the critics see of the own action, beside S: C, or U */
    int64_t n_log_probs; /* P */
    struct seen seen;    /* the agents that the critics see: all, or the own one */
    int64_t state_width; /* S */
    struct pictures pictures, state_pictures; /* what policy and critics see */

    struct output observation, state, allowed, action; /* action: (B, C) or (B, U) */
    struct output next_log_prob, target, weight;
    struct sac_policy policy;
    struct output alpha;
    struct output next_value; /* v */
    struct output error;      /* what priorities are made of */
    struct output critic_loss, q_mean, actor_loss, entropy, norm[SAC_STEPS];
    struct variable *log_alpha;
    struct operation *train[SAC_STEPS];
    struct operation *update_targets, *init_variables, *init_targets;
    struct live live[SAC_LIVES];
    struct reward_scale scale;

    struct feeds feeds;
    struct sac_batch batch;
    uint8_t *allowed_choices; /* (C) of one row */
    void *act_memory;
    int64_t act_rows;
};

static inline const struct space *sac_self(const struct algo *a)
{
    return &a->agents[a->self];
}

static inline int sac_is_box(const struct algo *a)
{
    return a->n_choices == 0;
}

/* sac_graph.c: everything from `observation` to `live`. */
int sac_build_graph(struct algo *a, struct err *err);

/* sac_stages.c */
void sac_reads(struct algo *a, struct reads *r);
int sac_stage(struct algo *a, struct session *s, const struct stage_args *args,
              struct stage_result *ret, struct err *err);

/* sac.c */
/* Which choices are possible: ret (n, C), 1 or 0. allowed (n, U), NULL: all. */
void sac_open_choices(struct algo *a, const uint8_t *allowed, int64_t n, float *ret);
/* Draws a choice of each row with one uniform number, noise (n): p (n, C), ret (n, U). */
void sac_draw_choices(const struct algo *a, const float *p, const float *noise, int64_t n,
                      float *ret);

#endif
