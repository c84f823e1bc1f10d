/* episode.h - a recorded episode: for each step, a scene and the returns so far.
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
    struct scene scene; /* the episode owns its lists */
    double *returns;    /* [A] undiscounted sums of the environment's own rewards */
};

struct episode {
    const struct env_spec *spec;
    const char *title;               /* borrowed */
    const char *line[EPISODE_LINES]; /* shown below the title; borrowed; NULL: none */
    uint64_t number, seed;           /* of the episode in its evaluation; of that */
    struct episode_frame *frame;
    size_t n_frames;
    int is_cut;        /* the episode was longer than the limits below */
    size_t kept_bytes; /* of the frames */

    /* private */
    struct arena arena;
    struct scene scratch;
    size_t room;
};

/* Limits of a recording; later frames are dropped. */
#define EPISODE_MAX_FRAMES 2001
#define EPISODE_MAX_BYTES  ((size_t)256 << 20)

/* Appends a frame with the current world of one copy. An all-zero episode, apart from
 * spec and texts, is empty. returns[a] (E) as in env_step; NULL: all 0. */
void episode_add(struct episode *e, const struct vec_env *env, size_t copy,
                 const double *const *returns);
void episode_done(struct episode *e);

#endif
