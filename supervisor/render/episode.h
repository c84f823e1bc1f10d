/* episode.h - one episode as it was played: a scene and the returns so far, step by step.
 *
 * Frame 0 is the world as the episode began, frame t after t steps.
 * Owns    everything but the spec, which is borrowed.
 */
#ifndef SUPERVISOR_RENDER_EPISODE_H
#define SUPERVISOR_RENDER_EPISODE_H

#include "common/mem/arena.h"
#include "supervisor/env/env.h"
#include "supervisor/env/scene.h"

#define EPISODE_LINES 3

struct episode_frame {
    struct scene scene; /* its lists are the episode's */
    double *returns;    /* [A] undiscounted, of the environment's own rewards */
};

struct episode {
    const struct env_spec *spec;
    const char *title;               /* static, or of whoever asks for the picture */
    const char *line[EPISODE_LINES]; /* below it; NULL: none */
    uint64_t number, seed;           /* of the evaluation that it is part of */
    struct episode_frame *frame;
    size_t n_frames;
    int is_cut; /* it went on, but that is more than is kept */

    /* private */
    struct arena arena;
    struct scene scratch;
    size_t room, kept_bytes;
};

/* At most so many steps are kept, and so many bytes. */
#define EPISODE_MAX_FRAMES 2001
#define EPISODE_MAX_BYTES  ((size_t)256 << 20)

/* All-zero but for what is said about it: no frame yet. Adds the world of a copy as it
 * is. returns[a] (E) as in env_step; NULL: all 0. */
void episode_add(struct episode *e, const struct vec_env *env, size_t copy,
                 const double *const *returns);
void episode_done(struct episode *e);

#endif
