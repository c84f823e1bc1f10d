/* far_internal.h - what the files of far_world.h share. */
#ifndef SUPERVISOR_ENV_FAR_INTERNAL_H
#define SUPERVISOR_ENV_FAR_INTERNAL_H

#include "supervisor/env/far_world.h"

/* Of one copy; a longer episode is not kept, and cannot be played again. */
#define FAR_MAX_HISTORY ((size_t)64 << 20)

/* What a copy's running episode was, as far as it came. */
struct far_episode {
    uint64_t seed;
    uint8_t runs;   /* begun, and answered */
    uint8_t wanted; /* a reset is asked for */
    uint8_t lost;
    uint8_t too_long; /* for the history */
    size_t n_steps, cap;
    float *actions; /* (n_steps, all agents' U) */
    uint32_t *sums; /* (n_steps + 1) chained: of the reset, and of each step */
};

/* The copies that a request is about, by their numbers in the world. */
struct far_batch {
    size_t *copies, n;
};

struct far_process {
    char name[AGENT_NAME_MAX];
    char *log_path;
    size_t first, n;               /* its copies */
    int is_known;                  /* it has answered something since the start */
    struct far_batch asked, again; /* by vec_env; to play again what was played */
    /* While it is brought back: */
    size_t revived; /* steps played again */
    size_t n_lost;
    size_t lost_copy, lost_step; /* the first of them */
};

struct far_world {
    const struct foreign *foreign;
    const struct env_spec *spec;
    struct far_views views;
    struct far_listener listener;
    struct env_host *host;
    struct agent_table *table;
    struct agent_spec *specs; /* [n_processes] */
    size_t n_copies, n_processes;
    /* [A + 1] widths of all agents before; the last: of all. */
    size_t *obs_before, *action_before;
    struct far_episode *episodes; /* [E] */
    struct far_process *processes;
    const float *const *actions; /* of the step under way */
    size_t outstanding;
    int failed, inexact;
};

enum far_kind { FAR_RESET, FAR_STEP };

/* The arrays of an answer about n copies, as they came: not aligned. */
struct far_answer {
    size_t n;
    const char *obs, *present, *allowed, *reward, *terminated;
};

/* ---- far_messages.c ---- */

/* The params of a request about these copies: the seeds of their episodes; or their
 * actions, those of `actions` or, if that is NULL, of step number `step` of their
 * histories. */
void far_pack_reset(const struct far_world *w, const struct far_process *p,
                    const struct far_batch *b, struct msg_out *o);
void far_pack_step(const struct far_world *w, const struct far_process *p,
                   const struct far_batch *b, const float *const *actions, size_t step,
                   struct msg_out *o);
/* Checks all of its answer. */
int far_parse(const struct far_world *w, const struct far_process *p,
              const struct far_batch *b, enum far_kind kind, const msgpack_object *body,
              struct far_answer *ret, struct err *err);
/* Of what the answer says of its i-th copy, chained to `sum`. */
uint32_t far_sum(const struct far_world *w, enum far_kind kind,
                 const struct far_answer *a, size_t i, uint32_t sum);
/* Where the answer's i-th copy stands now, or after a step, goes to the views. */
void far_show_now(const struct far_world *w, enum far_kind kind,
                  const struct far_answer *a, size_t i, size_t copy);
void far_show_step(const struct far_world *w, const struct far_answer *a, size_t i,
                   size_t copy);
/* The copy did not move. */
void far_show_still(const struct far_world *w, size_t copy);

/* ---- far_history.c ---- */

void far_record_reset(struct far_episode *e, uint32_t sum);
void far_record_step(const struct far_world *w, size_t copy, uint32_t sum);
void far_episode_done(struct far_episode *e);

extern const struct agent_revival far_revival; /* ctx: struct far_world */

#endif
