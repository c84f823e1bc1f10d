/* parts.h - pieces of graphs that several algorithms use. */
#ifndef AGENT_ALGO_PARTS_H
#define AGENT_ALGO_PARTS_H

#include "agent/algo/settings.h"
#include "agent/graph/graph.h"
#include "agent/nn/nn.h"
#include "common/config/run_config.h"

struct space; /* algo.h */

/* Collections that name a policy's tensors: the one that observations (B, O) are fed
 * into, and its output. */
#define POLICY_OBSERVATION  "policy/observation"
/* Scores of each head's choices, (B, U), or of their combinations (choices.h). */
#define POLICY_LOGITS       "policy/logits"
/* POLICY_LOGITS once more, if its scores are of combinations. */
#define POLICY_COMBINATIONS "policy/combinations"
/* The action in a box, (B, U). */
#define POLICY_ACTION       "policy/action"
/* Of a hybrid action, (B, U): scores of each head's choices, and behind them the numbers. */
#define POLICY_HYBRID       "policy/hybrid"

/* What a recurrent policy takes from step to step, (B, H): fed, and its value after the step. */
#define POLICY_CARRY      "policy/carry"
#define POLICY_NEXT_CARRY "policy/next_carry"

/* What a policy sees behind the observation: the width of its last action, and then the width and
 * the place of its id (seen.h); numbers. None: it sees neither. */
#define POLICY_LAST_ACTION "policy/last_action"
#define POLICY_ID          "policy/id"

enum policy_gives {
    POLICY_GIVES_ACTION,
    POLICY_SCORES_CHOICES,
    POLICY_SCORES_COMBINATIONS,
    POLICY_GIVES_HYBRID
};
/* Names a policy's tensors, for frozen.c, which acts without the algorithm. */
void name_policy(struct graph *g, struct output observation, struct output action,
                 enum policy_gives gives);

/* Names the carry of a recurrent policy: the one that it is fed, and the next one. */
void name_policy_carry(struct graph *g, struct output carry, struct output next_carry);

struct agent_id; /* seen.h */
/* Names what it sees behind the observation; 0: no last action. */
void name_policy_inputs(struct graph *g, int64_t last_action, const struct agent_id *id);

/* The op ("Softmax", "LogSoftmax") of each head's columns of x (B, choices). */
struct output of_each_head(struct graph *g, const char *type, struct output x,
                           const struct space *space);
/* Squashes x to the bounds of a box: (low + high)/2 + (high - low)/2 tanh(x). */
struct output squash(struct graph *g, struct output x, double low, double high);

/* The network's own optimiser, or else the agent's. */
const struct optimizer_config *network_optimizer(const struct agent_config *c,
                                                 const struct network_config *net);

/* What a network's convolutions, or its layers for entities, see: the observations of
 * agents[which[0]], ... side by side; which NULL: of agents[0], .... Without such layers *ret
 * is 0. key: the setting of the convolutions, "critic.conv". ERR_CONFIG: observations are not
 * images (have no entities), have different shapes, or are smaller than a kernel. */
int obs_form_of(const struct network_config *net, const char *key,
                const struct space *agents, const size_t *which, size_t n,
                struct obs_form *ret, struct err *err);

/* obs_form_of for the policy of `self`, and for a critic of agents[which[0]], .... */
int obs_forms_of(const struct agent_config *c, const struct space *self,
                 const struct space *agents, const size_t *which, size_t n,
                 struct obs_form *ret_actor, struct obs_form *ret_critic,
                 struct err *err);

/* Refuses optimisers that do not use gradients. ERR_CONFIG. */
int check_optimizers(const struct agent_config *c, struct err *err);

/* An optimiser step for a loss, with clipped gradients: minimize_and_clip of
 * openai/maddpg. */
struct minimizer {
    const char *scope; /* whose trainable variables are moved: "agent_0/q_func/" */
    const struct optimizer_config *optimizer;
    struct output clip_norm; /* scalar */
    enum clip_by clip_by;
    struct output norm;          /* set: of the gradient before clipping */
    struct output learning_rate; /* set: the optimiser's constant */
};
/* Clips the gradients and applies them; sets norm and learning_rate. NULL on failure (the
 * graph's error). */
struct operation *apply_clipped(struct graph *g, struct gradient *grads, size_t n,
                                struct minimizer *m);
/* Computes the gradients of the loss, then apply_clipped. NULL on failure (err, or the graph's
 * error). */
struct operation *minimize_clipped(struct graph *g, struct output loss,
                                   struct minimizer *m, struct err *err);

/* Two scopes of an agent: the trainable variables of target follow those of source. */
struct following {
    const char *target, *source; /* "target_q_func", "q_func" */
};
/* Builds the updates of all targets: *ret_update, named `update`, moves each towards its
 * source, t = keep t + polyak v (keep: 1 - polyak); *ret_copy, named `copy`, makes them
 * equal. */
void follow_variables(struct graph *g, const char *agent, const struct following *f,
                      size_t n, struct output keep, struct output polyak,
                      const char *update, const char *copy, struct operation **ret_update,
                      struct operation **ret_copy);

/* ERR_CONFIG: agent_id and symmetry are both set, but a symmetry cannot turn an agent's
 * id (symmetry.h). */
int check_agent_id(const struct algorithm_settings *set, struct err *err);

/* Ends the building of a graph. *ret_init, for `init`, sets every variable to its first
 * value. Returns the graph's error, or else rc. */
int finish_graph(struct graph *g, int rc, struct operation **ret_init, struct err *err);

#endif
