/* far_world.h - copies of a world that live in processes of their own.
 *
 * What vec_env asks of a world of ours by function calls is here asked by messages
 * (env_protocol.h), one to each process, and the answers go straight to vec_env's arrays.
 * Each process has a run of consecutive copies.
 * History  the seed and the actions of every copy's running episode are kept, with a
 *          checksum of what came of each step. A new process plays them again, whether
 *          the last one died or the run was resumed; what it observes must have the same
 *          sums. A copy for which it has not is lost: its episode cannot go on.
 * Checks   answers come from programs of others': sizes and finiteness, ERR_PROTOCOL or
 *          ERR_NONFINITE, naming process, copy and agent; they fail the host.
 * Memory   steps that are as long as others before them allocate nothing.
 * Internal to supervisor/env.
 */
#ifndef SUPERVISOR_ENV_FAR_WORLD_H
#define SUPERVISOR_ENV_FAR_WORLD_H

#include "supervisor/env/env.h"
#include "supervisor/env/env_host.h"
#include "supervisor/env/foreign.h"

struct far_world; /* opaque */

/* vec_env's arrays, [A] (E, width); those of masks are NULL where there are none. */
struct far_views {
    float *const *obs; /* of the last reset */
    uint8_t *const *allowed;
    float *const *next_obs; /* of the last step, as what follows */
    uint8_t *const *next_allowed;
    double *const *reward;
    uint8_t *const *terminated, *const *present;
};

struct far_listener { /* never called from within the calls below */
    void (*on_stepped)(void *ctx);
    void (*on_settled)(void *ctx);
    void *ctx;
};

/* foreign, spec, views' arrays: borrowed. */
struct far_world *far_world_new(const struct foreign *foreign,
                                const struct env_spec *spec, size_t copies,
                                const struct far_views *views,
                                const struct far_listener *listener);
/* Its processes are gone, or were never started. */
void far_world_free(struct far_world *w);

/* Starts the processes, "<name>_0" and so on; `copies` of history that was loaded are
 * played again by them. */
int far_world_start(struct far_world *w, struct env_host *host, const char *name,
                    struct err *err);

/* The copy begins an episode once far_world_settle is called. */
void far_world_reset(struct far_world *w, size_t copy, uint64_t seed);
/* The copy's episode is over, and no other is wanted yet. */
void far_world_rest(struct far_world *w, size_t copy);
/* Asks for what is wanted: resets, and once after the start whether every process stands
 * where it should. ENV_LATER: on_settled comes; 0: there is nothing to wait for. */
int far_world_settle(struct far_world *w, struct err *err);
/* Steps every copy whose episode runs; where it does not (idle (E)), or is lost, nothing
 * moves: reward, terminated and present are 0. actions: borrowed until on_stepped.
 * ENV_LATER, or 0: no copy moves. */
int far_world_step(struct far_world *w, const float *const *actions, const uint8_t *idle,
                   struct err *err);

/* Its running episode could not be played again; until the copy's next reset. */
int far_world_is_lost(const struct far_world *w, size_t copy);
/* It has an episode that is not lost. */
int far_world_runs(const struct far_world *w, size_t copy);

/* ---- far_state.c: the history as a flat block ---- */

size_t far_world_state_bytes(const struct far_world *w);
void far_world_save(const struct far_world *w, void *dst);
/* Before the start. ERR_CORRUPT changes nothing. */
int far_world_load(struct far_world *w, const void *src, size_t len, struct err *err);

#endif
