/* external_world.h - copies of an external environment, run by processes of their own.
 *
 * vec_env calls functions of a built-in world; here it sends one message to each process
 * instead (env_protocol.h), and the answers are written directly to vec_env's arrays. Each
 * process has a range of consecutive copies.
 * History  the seed and the actions of every copy's running episode are kept, with a
 *          checksum of the result of each step. A new process replays them, whether the
 *          former one died or the run was resumed; its results must have the same checksums.
 *          A copy whose checksums differ is lost: its episode cannot continue.
 * Failure  with env.on_failure skip_episode, an episode in which the environment fails in
 *          three processes is lost, too, and has failed (external_failure.c).
 * Checks   answers come from external programs: sizes and finiteness are checked, those of a
 *          replay by their checksums. ERR_PROTOCOL or ERR_NONFINITE, naming process, copy
 *          and agent, make the host fail.
 * Memory   a step allocates nothing unless its messages are longer than any before.
 * Internal to supervisor/env.
 */
#ifndef SUPERVISOR_ENV_EXTERNAL_WORLD_H
#define SUPERVISOR_ENV_EXTERNAL_WORLD_H

#include "supervisor/env/env.h"
#include "supervisor/env/env_host.h"
#include "supervisor/env/external.h"

struct external_world; /* opaque */

/* vec_env's arrays, [A] (E, width); the masks are NULL if the environment has none.
 * Observations are bytes where the agent's obs_is_u8 is set. */
struct external_views {
    float *const *obs; /* after the last reset */
    uint8_t *const *allowed;
    float *const *next_obs; /* this and what follows: after the last step */
    uint8_t *const *next_allowed;
    double *const *reward;
    uint8_t *const *terminated, *const *present;
    double *const *metric;
};

struct external_listener { /* never called from within the calls below */
    void (*on_stepped)(void *ctx);
    void (*on_ready)(void *ctx);
    /* The copy's episode has failed, and is lost; also from within the calls. */
    void (*on_failed)(void *ctx, const char *process, size_t copy,
                      const struct env_failure *at, const char *why);
    void *ctx;
};

/* external, spec and the arrays of views are borrowed as long as the world. */
struct external_world *external_world_new(const struct external *external,
                                          const struct env_spec *spec, size_t copies,
                                          const struct external_views *views,
                                          const struct external_listener *listener);
/* Its processes must have ended, or were never started. */
void external_world_free(struct external_world *w);

/* Starts the processes, "<name>_0" and so on. They replay a history that was loaded. */
int external_world_start(struct external_world *w, struct env_host *host,
                         const char *name, struct err *err);

/* The copy begins an episode with the next external_world_make_ready. */
void external_world_reset(struct external_world *w, size_t copy, uint64_t seed);
/* The copy's episode is over, and no other one begins yet. */
void external_world_end_episode(struct external_world *w, size_t copy);
/* Requests the pending resets; after the start also makes sure that every process has
 * replayed its history. ENV_LATER: on_ready follows; 0: there is nothing to wait for. */
int external_world_make_ready(struct external_world *w, struct err *err);
/* Skips the episodes that are to begin and are known to fail in their reset; returns their
 * number. */
size_t external_world_skip_known(struct external_world *w);
/* Takes back what happened since the last external_world_step began. */
void external_world_undo(struct external_world *w);
/* Steps every copy whose episode runs. A copy that is idle (E) or lost does not move: its
 * reward, terminated and present are 0. actions: borrowed until on_stepped. Returns
 * ENV_LATER, or 0 if no copy moves. */
int external_world_step(struct external_world *w, const float *const *actions,
                        const uint8_t *idle, struct err *err);

/* Whether the copy's running episode could not be replayed; until its next reset. */
int external_world_is_lost(const struct external_world *w, size_t copy);
/* Whether it is lost because the environment failed in it. */
int external_world_has_failed(const struct external_world *w, size_t copy);
/* Whether the copy has an episode that is not lost. */
int external_world_runs(const struct external_world *w, size_t copy);

/* The last picture that a process sent; valid until the next step. */
struct scene;
void external_world_draw(const struct external_world *w, struct scene *ret);
/* Copies the checksums of the copy's present or last episode, that of its reset and of each
 * step; at most max. Returns their number. */
size_t external_world_sums(const struct external_world *w, size_t copy, uint32_t *ret,
                           size_t max);
/* To be called before the start: the environment was found not to be reproducible. line: as
 * for env_host_on_inexact; borrowed. */
void external_world_mark_inexact(struct external_world *w, const char *line);

/* ---- external_state.c: the history as a flat block ---- */

size_t external_world_state_bytes(const struct external_world *w);
void external_world_save(const struct external_world *w, void *dst);
/* Before the start. ERR_CORRUPT changes nothing. */
int external_world_load(struct external_world *w, const void *src, size_t len,
                        struct err *err);

#endif
