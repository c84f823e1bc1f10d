/* external_internal.h - shared by the files that implement external_world.h. */
#ifndef SUPERVISOR_ENV_EXTERNAL_INTERNAL_H
#define SUPERVISOR_ENV_EXTERNAL_INTERNAL_H

#include "supervisor/env/external_world.h"
#include "supervisor/env/scene.h"

/* Bytes of history per copy; a longer episode is not kept and cannot be replayed. */
#define EXTERNAL_MAX_HISTORY ((size_t)64 << 20)

/* The history of a copy's running episode. */
struct external_episode {
    uint64_t seed;
    uint8_t runs;     /* its reset was answered */
    uint8_t wanted;   /* a reset is to be requested */
    uint8_t lost;     /* it cannot continue: it could not be replayed, or ... */
    uint8_t failed;   /* ... it failed, and is skipped (external_failure.c) */
    uint8_t too_long; /* longer than EXTERNAL_MAX_HISTORY */
    size_t n_steps, cap;
    float *actions; /* (n_steps, all agents' U) */
    uint32_t *sums; /* (n_steps + 1): chained checksums of the reset and of each step */
};

/* The copies that a request concerns, by their numbers in the world. */
struct external_batch {
    size_t *copies, n;
};

/* What a step and the reset after it change of a copy's history. */
struct external_before {
    uint64_t seed;
    size_t n_steps;
    uint32_t first_sum;
    uint8_t runs, lost, failed, too_long;
};

enum external_kind { EXTERNAL_RESET, EXTERNAL_STEP };

struct external_process {
    char name[AGENT_NAME_MAX];
    char *log_path;
    size_t first, n; /* its copies */
    int is_known;    /* it has answered a request since external_world_start */
    struct external_batch asked;    /* the request of vec_env */
    struct external_batch replayed; /* the request that replays the history */
    /* external_failure.c: */
    struct external_batch rest; /* copies of the request that are yet to be asked */
    enum external_kind kind;    /* of the request */
    int is_apart;               /* the copies are asked one at a time */
    int has_changed;            /* the request is to be packed again */
    /* During a replay: */
    size_t revived;              /* steps replayed so far */
    size_t n_lost;               /* copies whose replay differed */
    size_t lost_copy, lost_step; /* the first of them, and the step */
};

struct external_world {
    const struct external *external;
    const struct env_spec *spec;
    struct external_views views;
    struct external_listener listener;
    struct env_host *host;
    struct agent_table *table;
    struct agent_spec *specs; /* [n_processes] */
    size_t n_copies, n_processes;
    /* [A + 1] sums over all agents before this one, of the bytes of an observation and of
     * the widths of actions; the last entry: over all. */
    size_t *obs_before, *action_before;
    struct external_episode *episodes; /* [E] */
    struct external_process *processes;
    const float *const *actions; /* of the step in progress */
    size_t outstanding;
    size_t n_failed; /* episodes in a row, none of which came to its end */
    int failed, inexact;
    uint8_t *pixels; /* of the picture, owned */
    struct scene_picture picture;
    const char *why_inexact; /* of external_world_mark_inexact, or NULL; borrowed */
    struct external_before *before; /* [E]: external_world_note */
};

/* The arrays of an answer about n copies, as received: not aligned. */
struct external_answer {
    size_t n;
    const char *obs, *present, *allowed, *reward, *terminated;
    const char *metrics; /* NULL: it has none */
};

/* ---- external_messages.c ---- */

/* Pack the params of a request about these copies: the seeds of their episodes, or their
 * actions, taken from `actions` or, if that is NULL, from step `step` of their
 * histories. */
void external_pack_reset(const struct external_world *w, const struct external_process *p,
                         const struct external_batch *b, struct msg_out *o);
void external_pack_step(const struct external_world *w, const struct external_process *p,
                        const struct external_batch *b, const float *const *actions,
                        size_t step, struct msg_out *o);
/* Checks sizes, but no values. */
int external_parse_answer(const struct external_world *w,
                          const struct external_process *p,
                          const struct external_batch *b, enum external_kind kind,
                          const msgpack_object *body, struct external_answer *ret,
                          struct err *err);
/* Check the answer to p->asked, all of it or its i-th copy: ERR_NONFINITE. */
int external_check_finite(const struct external_world *w,
                          const struct external_process *p,
                          const struct external_answer *x, struct err *err);
int external_check_copy(const struct external_world *w, const struct external_process *p,
                        const struct external_answer *x, size_t i, struct err *err);
/* Checks that each copy which it resets, and which is not lost, has an agent: ERR_PROTOCOL. */
int external_check_presence(const struct external_world *w,
                            const struct external_process *p,
                            const struct external_answer *x, struct err *err);
/* Keeps the picture of an answer, if it has one. */
int external_take_picture(struct external_world *w, const struct external_process *p,
                          const msgpack_object *body, struct err *err);
/* Passes the warnings of an answer to the host. */
int external_take_warnings(const struct external_world *w,
                           const struct external_process *p, const msgpack_object *body,
                           struct err *err);
/* Checksum of the answer's i-th copy, chained to `sum`. */
uint32_t external_sum(const struct external_world *w, enum external_kind kind,
                      const struct external_answer *a, size_t i, uint32_t sum);
/* Write the answer's i-th copy to the views: as the present observation, or as the result
 * of a step. */
void external_write_now(const struct external_world *w, enum external_kind kind,
                        const struct external_answer *a, size_t i, size_t copy);
void external_write_step(const struct external_world *w, const struct external_answer *a,
                         size_t i, size_t copy);
/* Writes the result of a step in which the copy did not move. */
void external_write_idle(const struct external_world *w, size_t copy);

/* ---- external_history.c ---- */

/* Packs the process's request about p->asked. */
void external_pack(const struct external_world *w, const struct external_process *p,
                   struct msg_out *o);

void external_record_reset(struct external_episode *e, uint32_t sum);
void external_record_step(const struct external_world *w, size_t copy, uint32_t sum);
void external_episode_done(struct external_episode *e);

/* ---- external_failure.c: episodes in which the environment fails ---- */

/* The whole environment does. */
void external_fail(struct external_world *w, const struct err *why);

/* Whether the copy's episode is known to fail in what is to be asked of it now; then skips
 * it. */
int external_skip_known(struct external_world *w, struct external_process *p,
                        size_t copy);
/* agent_revival.pardon */
int external_pardon(void *ctx, size_t process, int is_last, const struct err *why);
/* Begins with the copies of p->rest that are asked next; 0: there are none. */
size_t external_take_rest(struct external_world *w, struct external_process *p);
/* Skips the episodes of the answer's copies whose values are not finite. Returns 0 if there
 * were none, or they must not be skipped. */
int external_skip_nonfinite(struct external_world *w, struct external_process *p,
                            const struct external_answer *x);

extern const struct agent_revival external_revival; /* ctx: struct external_world */

#endif
