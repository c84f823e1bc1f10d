/* far_internal.h - shared by the files that implement far_world.h. */
#ifndef SUPERVISOR_ENV_FAR_INTERNAL_H
#define SUPERVISOR_ENV_FAR_INTERNAL_H

#include "supervisor/env/far_world.h"

/* Bytes of history per copy; a longer episode is not kept and cannot be replayed. */
#define FAR_MAX_HISTORY ((size_t)64 << 20)

/* The history of a copy's running episode. */
struct far_episode {
    uint64_t seed;
    uint8_t runs;     /* its reset was answered */
    uint8_t wanted;   /* a reset is to be requested */
    uint8_t lost;     /* it could not be replayed */
    uint8_t too_long; /* longer than FAR_MAX_HISTORY */
    size_t n_steps, cap;
    float *actions; /* (n_steps, all agents' U) */
    uint32_t *sums; /* (n_steps + 1): chained checksums of the reset and of each step */
};

/* The copies that a request concerns, by their numbers in the world. */
struct far_batch {
    size_t *copies, n;
};

struct far_process {
    char name[AGENT_NAME_MAX];
    char *log_path;
    size_t first, n;           /* its copies */
    int is_known;              /* it has answered a request since far_world_start */
    struct far_batch asked;    /* the request of vec_env */
    struct far_batch replayed; /* the request that replays the history */
    /* During a replay: */
    size_t revived;              /* steps replayed so far */
    size_t n_lost;               /* copies whose replay differed */
    size_t lost_copy, lost_step; /* the first of them, and the step */
};

struct far_world {
    const struct external *external;
    const struct env_spec *spec;
    struct far_views views;
    struct far_listener listener;
    struct env_host *host;
    struct agent_table *table;
    struct agent_spec *specs; /* [n_processes] */
    size_t n_copies, n_processes;
    /* [A + 1] sum of the widths of all agents before this one; the last entry: of all. */
    size_t *obs_before, *action_before;
    struct far_episode *episodes; /* [E] */
    struct far_process *processes;
    const float *const *actions; /* of the step in progress */
    size_t outstanding;
    int failed, inexact;
};

enum far_kind { FAR_RESET, FAR_STEP };

/* The arrays of an answer about n copies, as received: not aligned. */
struct far_answer {
    size_t n;
    const char *obs, *present, *allowed, *reward, *terminated;
};

/* ---- far_messages.c ---- */

/* Pack the params of a request about these copies: the seeds of their episodes, or their
 * actions, taken from `actions` or, if that is NULL, from step `step` of their histories. */
void far_pack_reset(const struct far_world *w, const struct far_process *p,
                    const struct far_batch *b, struct msg_out *o);
void far_pack_step(const struct far_world *w, const struct far_process *p,
                   const struct far_batch *b, const float *const *actions, size_t step,
                   struct msg_out *o);
/* Checks the whole answer. */
int far_parse(const struct far_world *w, const struct far_process *p,
              const struct far_batch *b, enum far_kind kind, const msgpack_object *body,
              struct far_answer *ret, struct err *err);
/* Checksum of the answer's i-th copy, chained to `sum`. */
uint32_t far_sum(const struct far_world *w, enum far_kind kind,
                 const struct far_answer *a, size_t i, uint32_t sum);
/* Write the answer's i-th copy to the views: as the present observation, or as the result of
 * a step. */
void far_write_now(const struct far_world *w, enum far_kind kind,
                   const struct far_answer *a, size_t i, size_t copy);
void far_write_step(const struct far_world *w, const struct far_answer *a, size_t i,
                    size_t copy);
/* Writes the result of a step in which the copy did not move. */
void far_write_idle(const struct far_world *w, size_t copy);

/* ---- far_history.c ---- */

void far_record_reset(struct far_episode *e, uint32_t sum);
void far_record_step(const struct far_world *w, size_t copy, uint32_t sum);
void far_episode_done(struct far_episode *e);

extern const struct agent_revival far_revival; /* ctx: struct far_world */

#endif
