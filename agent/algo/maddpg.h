/* maddpg.h - multi-agent deep deterministic policy gradient, its one-agent case, and its
 *            successor with twin critics.
 *
 * Source   Lowe, Wu, Tamar, Harb, Abbeel, Mordatch, "Multi-agent actor-critic for mixed
 *          cooperative-competitive environments", NIPS 2017, Algorithm 1; openai/maddpg
 *          for names, Gumbel policies and the penalty on logits. ddpg: Lillicrap et al.,
 *          "Continuous control with deep reinforcement learning", ICLR 2016. matd3:
 *          Ackermann, Gabler, Osa, Sugiyama, "Reducing overestimation bias in multi-agent
 *          domains using double centralized critics", 2019; Fujimoto, van Hoof, Meger,
 *          "Addressing function approximation error in actor-critic methods", ICML 2018.
 *
 * propose  every agent's target policy at its own next observation.
 * critic   A  Q' = target critic (next observations, proposals)
 *          y  = reward + discount (1 - terminated) Q'
 *          B  critic:  mean of w (Q - y)^2
 * learn    C  policy, with the critic just updated: own action sampled anew, the others'
 *             as stored: -mean Q + logit_penalty mean(logits^2)
 *          D  targets: t = (1 - polyak) t + polyak v
 *          Two stages of about the same length rather than one, so that an odd number of
 *          agents shares an even number of cores well.
 *          Four runs of the session, as openai/maddpg makes them. With optimizer
 *          accept_reject, B and C try changes of the network on the batch instead
 *          (agent/nn/accept_reject.h), and there are no gradients and no norms.
 * masks    where actions are masked, the logits of impossible choices are lowered so far
 *          that they get no part of the softmax and no gradient (Huang, Ontanon 2020, "A
 *          closer look at invalid action masking in policy gradient algorithms"): at next
 *          observations by next_allowed, at those of the rows by allowed, in the penalty,
 *          too. The masks are fed into placeholder `allowed`, which no other graph has.
 * ddpg     has a critic of its own observation and action, and so needs no proposals of
 *          others: one stage `learn`, A to D, which computes its own.
 * matd3    has the stages of maddpg; with one agent it is TD3. What differs:
 *          propose  Deterministic policies add e = clip(n target_policy_noise,
 *                   +-target_noise_clip), n normal, in half ranges, and keep within the
 *                   bounds. Gumbel policies sample as they do in maddpg.
 *          A        Q' = min of two target critics
 *          B        mean of w ((Q1 - y)^2 + (Q2 - y)^2), one optimiser for both
 *                   critics; their variables are q_func/... and q_func/twin/...
 *                   Priorities: the larger of |Q1 - y| and |Q2 - y|.
 *          C, D     with Q1, and only in updates number policy_delay - 1,
 *                   2 policy_delay - 1, ...; all others leave the block as it is.
 *          B, C     means are sum(m x) / max(1, sum m), m = alive w, where maddpg divides
 *                   by the number of rows, and its policy learns from all of them.
 * shared   (share.h) gradients > apply > assign, played twice, in place of critic and learn:
 *          the first time for B, the second time for C. The ps has critic and policy with
 *          their optimisers; the members have critic, policy and the targets of both, and
 *          move the targets in the second assign (D). Means are then over the rows of all
 *          members.
 * inputs   in the order of seen.h, which also says where an id is (setting agent_id).
 *
 * Shared by maddpg*.c only.
 */
#ifndef AGENT_ALGO_MADDPG_H
#define AGENT_ALGO_MADDPG_H

#include "agent/algo/algo.h"
#include "agent/algo/feeds.h"
#include "agent/algo/live.h"
#include "agent/algo/reward_scale.h"
#include "agent/algo/seen.h"
#include "agent/nn/accept_reject.h"
#include "agent/nn/nn.h"

extern const struct algo_ops maddpg_ops, ddpg_ops, matd3_ops;

enum live_key {
    LIVE_ACTOR_RATE,
    LIVE_CRITIC_RATE,
    LIVE_CLIP_NORM,
    LIVE_POLYAK,
    LIVE_DISCOUNT,
    LIVE_LOGIT_PENALTY,
    LIVE_TEMPERATURE,
    LIVE_EXPLORATION_NOISE,
    LIVE_TARGET_NOISE, /* this and the next: matd3 */
    LIVE_TARGET_NOISE_CLIP,
    LIVE_COUNT
};

/* A policy's output: the result of its layers, and the action made of it. */
struct policy {
    struct output raw;    /* (B, U): logits, or the values before tanh */
    struct output noise;  /* (B, U) uniform in [0, 1), fed when acting; Gumbel only */
    struct output scores; /* (B, U) logits and noise: the largest is the choice; Gumbel */
    struct output action; /* (B, U) */
};

/* What moves one network's variables: an op of the graph, or trials. */
struct learner {
    const char *scope; /* in the agent's: "q_func/" */
    const struct optimizer_config *optimizer;
    enum live_key rate;
    const char *norm_name;   /* that `norm` is reported by */
    const char *rate_name;   /* that the learning rate is reported by */
    struct operation *train; /* NULL: accept_reject; or parameters are shared */
    struct output norm;      /* of the gradient before clipping, with train, or in a ps */
    struct accept_reject *trials; /* of accept_reject, from the first update on */
};

/* A critic: its value, and the tensors that its input is fed into. */
struct critic {
    struct output q;       /* (B, 1) */
    struct output actions; /* of the seen agents, side by side */
    struct output input;   /* (B, J): observations and actions; OUTPUT_NONE where the
                            * actions join later */
};

/* Memory for one update's batch, 64-byte aligned, kept from update to update. */
struct batch {
    int64_t rows;       /* B there is room for */
    int64_t group_rows; /* G * B there is room for, in propose */
    void *memory;
    /* (B, J): the seen agents' observations, then their actions. At first the next
     * observations and the proposals, then those of the rows. */
    float *joint;
    uint64_t *joint_rows; /* (B) the first `gathered` are the rows in `joint` */
    uint64_t update;      /* whose symmetries turned those rows */
    size_t gathered;      /* 0: `joint` holds something else */
    float divisor;        /* how much this batch's mean counts among others (share.h) */
    float *own_next;      /* (G * B, O), with the id */
    float *proposal;      /* (G * B, U) */
    float *noise;         /* (G * B, U), smoothing only */
    float *reward, *terminated, *alive, *weight, *target, *next_q; /* (B) */
    float *proposer_alive, *proposer_over;                         /* (G, B) */
    /* (G * B, U), masked only: the masks of rows as the log has them, and as they are fed */
    uint8_t *mask;
    float *allowed;
};

struct algo {
    struct graph *graph;
    const struct agent_config *config;
    const struct algorithm_settings *settings;
    const struct space *agents;
    size_t n_agents, self;
    struct share *share; /* NULL: nothing is shared */
    int deterministic;   /* policy */
    int masked;          /* not every choice is always possible; Gumbel only */
    int one_stage;       /* ddpg */
    int twin;            /* matd3 */
    int smoothing;       /* matd3 with a deterministic policy */
    struct seen seen;    /* the agents that the critic sees: all, or the own one */
    struct pictures pictures, joint_pictures; /* what policy and critic see */
    int64_t joint_width;                      /* J: width of `joint` */

    struct output *obs;      /* [seen.n] placeholders; the own one with the id */
    struct output *action;   /* [seen.n] */
    struct output allowed;   /* (B, U), masked only: placeholder, 1: possible, else 0 */
    struct output joint_obs; /* the seen ones side by side */
    struct output target, weight;
    struct critic critic, target_critic;
    struct output td; /* (B, 1) q minus target; twin: the larger distance of the two */
    struct output critic_loss, q_mean, actor_loss;
    struct learner critic_learner, actor_learner;
    struct operation *update_targets;
    struct operation *init_variables, *init_targets;
    struct policy policy, target_policy;
    struct output keep; /* 1 - polyak */
    struct live live[LIVE_COUNT];
    struct reward_scale scale;

    struct batch batch;
    struct feeds feeds;
    /* (act_rows, U): draws; then, if masked, masks; then, with an id, inputs */
    void *act_memory;
    int64_t act_rows;
};

static inline const struct space *maddpg_self(const struct algo *a)
{
    return &a->agents[a->self];
}

/* maddpg_graph.c: everything from `obs` to `live`. */
int maddpg_build_graph(struct algo *a, struct err *err);

/* maddpg_stages.c */
void maddpg_reads(struct algo *a, struct reads *r);
int maddpg_stage(struct algo *a, struct session *s, const struct stage_args *args,
                 struct stage_result *ret, struct err *err);

#endif
