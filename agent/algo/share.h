/* share.h - parameters that a group of agents shares through a ps process.
 *
 * Each member has the variables, and computes the gradient of its own loss on its own rows;
 * the group's ps process has the variables and the optimiser's slots, and makes the step
 * with the mean of the gradients; each member then takes over the new values. An
 * algorithm does this in three stages (share_stages), `repeat` times where an update has
 * several optimiser steps:
 *
 *     gradients(all) > apply(ps, writes) > assign(all, writes)
 *
 * Sharing    the numbers travel in the group's memory (common/store/share_ring.h); the
 *            requests carry the number of a slot. Between two repetitions of a range of
 *            stages there may be one such step, no more: one slot is one step. Where the
 *            critics' step comes before the policies', each is a repetition of its own, with
 *            gradients and values of its parts alone (struct share_range).
 * Vector     the trainable variables of the parts' scopes, part by part in the order of
 *            their creation, each from a multiple of 16 floats on. Members and ps must build
 *            the same ones; the supervisor compares `share_layout`.
 * Mean       sum of w_i g_i in the order of the environment's agents, times 1 / sum of w_i,
 *            all in float32. With weights of 1 it is the plain mean. A loss that is a
 *            mean over the member's own m_i rows has weight m_i: the result is then the
 *            gradient of the mean over all rows. Each part has weights of its own.
 * Measure    beside its gradients a member may write a number, summed over its rows; all then
 *            find the same mean over the rows of the group. No message is sent for it.
 * ps         builds its graph as a member does, under its own name (args->agents[args->self]
 *            has it, with the spaces of the first member): what makes a policy, the optimiser
 *            and its slots; no loss. So its checkpoint is a usable policy.
 * First      random initial values of a member's scope are drawn as the ps draws those of
 * values     its own (graph_alias_draws), so that all begin with the same values.
 * Repeated   a respawned process repeats its ps stages and `assign`. Only variables
 *            survive, as everywhere, and the slots of the steps since the snapshot.
 */
#ifndef AGENT_ALGO_SHARE_H
#define AGENT_ALGO_SHARE_H

#include "agent/algo/algo.h"
#include "agent/algo/parts.h"
#include "common/config/run_config.h"
#include "common/store/share_ring.h"

/* The group, as one of its processes sees it. */
struct share_group {
    const char *ps;        /* name of the ps process, and of its scope */
    const size_t *members; /* [n] indices in algo_args.agents, in its order */
    size_t n;              /* N */
    size_t self;           /* place of this member; n: this is the ps */
};

/* Of one process; made by agent/loop, given to the algorithm in algo_args. */
struct share;

/* group: its strings and arrays are borrowed. */
struct share *share_new(const struct share_group *group);
void share_free(struct share *s); /* NULL is fine */
/* Call it before the first stage. memory: the ring, mapped shared, 64-byte aligned;
 * borrowed. ERR_LIMIT: too small. */
int share_set_memory(struct share *s, void *memory, size_t memory_bytes, struct err *err);
int share_is_ps(const struct share *s);
/* In a group the ps makes the optimisers' steps, and the members do all else; an agent
 * without a group (NULL) does both. */
int share_makes_steps(const struct share *s);
int share_learns(const struct share *s);
const struct share_group *share_group(const struct share *s);

/* Variables that one optimiser moves. */
struct share_part {
    /* Which trainable variables are shared, and how they are moved (parts.h). norm, of
     * all gradients before clipping, and learning_rate are set where steps are made. */
    struct minimizer step;
    struct output loss; /* members: what the gradient is of */
    /* Variables that only the ps has, with their gradients: clipped and moved with the
     * others (a mixer's). NULL: none. */
    const struct gradient *own;
    size_t n_own;
};

/* The parts that one stage is about, in the order of share_build. A step may move only
 * some of them, and the others stay as they are; several stages may write the gradients
 * of one step, since shorter stages share an uneven number of cores better. */
struct share_range {
    size_t first, n;
};
#define SHARE_ALL ((struct share_range){0, SHARE_MAX_PARTS}) /* however many there are */

/* Builds what this process needs, in the current scopes: gradients (members), or
 * placeholders, clipping and optimiser steps (ps). Called once. ERR_ARG: a variable has no
 * gradient. */
int share_build(struct share *s, struct graph *g, struct share_part *parts, size_t n,
                struct err *err);
/* P, with the gaps; 0 before share_build. */
uint64_t share_elements(const struct share *s);
/* A checksum of names (without the process's own), shapes and places. */
uint32_t share_layout(const struct share *s);

/* gradients > apply > assign, not repeated: an algorithm that repeats them changes a
 * copy. */
#define SHARE_N_STAGES 3
extern const struct stage share_stages[SHARE_N_STAGES];

/* Members, stage `gradients`, pure: does the run `run`, and computes the gradients
 * with it, into this member's vector. run, values: the caller's, as for session_run, at
 * most 16 fetches. weight: see Mean; at least 0. */
int share_gradients(struct share *s, struct share_range parts, struct session *session,
                    const struct run_args *run, struct tensor *values,
                    const struct stage_args *args, float weight, struct err *err);
/* ps, stage `apply`: forms the mean and runs `run` (the settings as feeds, norms as
 * fetches) with one step of each part's optimiser; then writes the new values into the
 * slot. At most 16 feeds. */
int share_apply(struct share *s, struct share_range parts, struct session *session,
                const struct run_args *run, struct tensor *values,
                const struct stage_args *args, struct err *err);
/* The step of one or the other; of an agent without a group (s NULL), `run` itself, whose
 * targets are the optimisers' steps. Groups leave those out. */
int share_step(struct share *s, struct share_range parts, struct session *session,
               const struct run_args *run, struct tensor *values,
               const struct stage_args *args, float weight, struct err *err);
/* Members, after share_gradients of the step: the number's sum over so many rows. Later gradients
 * of the same step leave it. */
int share_measure(struct share *s, const struct stage_args *args, double sum, double rows,
                  struct err *err);
/* The number's mean over the rows of all members, 0 if there are none: of a ps after share_apply,
 * of members when the ps has found it, in `assign`. */
int share_measured(struct share *s, const struct stage_args *args, double *ret_mean,
                   struct err *err);
/* Members, stage `assign`: copies the slot's values into the variables. */
int share_assign(struct share *s, struct share_range parts, struct session *session,
                 const struct stage_args *args, struct err *err);

#endif
