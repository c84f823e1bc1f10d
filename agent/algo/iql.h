/* iql.h - independent Q-learning: each agent has its own deep Q-network.
 *
 * Source   Tampuu et al. 2017, "Multiagent cooperation and competition with deep
 *          reinforcement learning"; Mnih et al. 2015, "Human-level control through deep
 *          reinforcement learning". Hysteresis: Matignon, Laurent, Le Fort-Piat 2007,
 *          "Hysteretic Q-learning"; with networks: Omidshafiei et al. 2017, "Deep
 *          decentralized multi-task multi-agent reinforcement learning under partial
 *          observability".
 *
 * act      the best choice; exploring, any choice with probability epsilon. Where actions
 *          are masked, only among the possible ones.
 * learn    y = reward + discount (1 - terminated) max Q'(next observation), of the choices
 *          that are possible there
 *          d = y - Q(observation, choice)
 *          loss: mean of w (max(d, 0)^2 + hysteresis max(-d, 0)^2)
 *          targets: t = (1 - polyak) t + polyak v
 *          In a team that shares its reward, a bad reward may be another agent's fault.
 *          With hysteresis below 1 it weighs less than a good one.
 *
 * Shared: gradients > apply > assign (share.h) instead of learn; the ps has the network and
 * its optimiser, the members network, target and loss. `assign` moves the targets.
 *
 * A choice is a combination of the action's heads (choices.h); the network, which is the
 * configuration's `critic`, has an output for each.
 *
 * Shared by iql*.c only.
 */
#ifndef AGENT_ALGO_IQL_H
#define AGENT_ALGO_IQL_H

#include "agent/algo/algo.h"
#include "agent/algo/feeds.h"
#include "agent/algo/reward_scale.h"
#include "agent/nn/nn.h"

enum iql_live {
    IQL_RATE,
    IQL_CLIP_NORM,
    IQL_POLYAK,
    IQL_DISCOUNT,
    IQL_HYSTERESIS,
    IQL_EPSILON,
    IQL_LIVES
};

struct batch { /* 64-byte aligned, kept from update to update */
    int64_t rows;
    void *memory;
    float *obs;      /* (B, O): first the next ones, then those of the rows */
    float *action;   /* (B, U) */
    float *choice;   /* (B, C) one-hot */
    float *target_q; /* (B, C) */
    float *reward, *terminated, *weight, *next_q, *target; /* (B) */
    uint8_t *next_allowed;                                 /* (B, U), masked only */
};

struct algo {
    struct graph *graph;
    const struct agent_config *config;
    const struct algorithm_settings *settings;
    struct share *share; /* NULL: nothing is shared */
    const struct space *agents, *self;
    size_t index, n_agents;
    int32_t n_choices; /* C */

    struct pictures pictures; /* that its network sees */
    struct output obs, choice, target, weight;
    struct output q, target_q;        /* (B, C) */
    struct output td;                 /* (B, 1) target minus q of the choices */
    struct output loss, q_mean, norm; /* norm: none in a member of a sharing group */
    struct operation *train, *update_target, *init_target, *init_variables;
    struct live live[IQL_LIVES];
    struct reward_scale scale;

    struct feeds feeds;
    struct batch batch;
    void *act_memory; /* (act_rows, C) values of choices, then (act_rows) draws */
    uint8_t *allowed; /* (C) of one row */
    int64_t act_rows;
    /* places in the log */
    int obs_column, action_column, next_obs_column;
    int reward_column, terminated_column, alive_column;
    int next_allowed_column; /* masked only */
};

/* iql_graph.c: everything from `obs` to `live`. */
int iql_build_graph(struct algo *a, struct err *err);

/* iql.c: the network's output for n observations, (n, C). */
int iql_run_network(struct algo *a, struct session *s, struct output q, const float *obs,
                    int64_t n, float *ret, struct err *err);

/* iql_stages.c */
void iql_reads(struct algo *a, struct reads *r);
int iql_stage(struct algo *a, struct session *s, const struct stage_args *args,
              struct stage_result *ret, struct err *err);

#endif
