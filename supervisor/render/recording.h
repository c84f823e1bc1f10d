/* recording.h - records one episode of an evaluation while it is played, and draws it.
 *
 * Recording does not change the evaluation's results. A world of brood is recorded from its
 * beginning; an environment of a program sends pictures of the last of its process's copies
 * (common/msg/env_protocol.h), the first one with the first step.
 * Owns    the scenes; everything else is borrowed.
 */
#ifndef SUPERVISOR_RENDER_RECORDING_H
#define SUPERVISOR_RENDER_RECORDING_H

#include "supervisor/render/episode.h"
#include "supervisor/render/render.h"

struct recording {
    uint64_t number; /* of the episode */
    int is_external; /* the environment draws itself; it has one process */

    /* private */
    struct episode episode;
    size_t copy;   /* the one that plays the episode */
    int is_played; /* the episode is being played now */
    char line[EPISODE_LINES][160];
};

/* What the page says about the episode. */
struct recording_source {
    const char *rules; /* NULL: there is only one kind */
    const struct env_spec *spec;
    const char *run;
    uint64_t step, seed; /* of the checkpoint; of the evaluation */
    int is_greedy;
};

/* For the callbacks of an evaluation. */
void recording_begin(struct recording *r, const struct vec_env *env, size_t copy);
void recording_step(struct recording *r, const struct vec_env *env,
                    const struct env_step *step);
/* Whether the episode was recorded to its end. */
int recording_is_whole(const struct recording *r);
/* Draws it into a file (render_write). ERR_UNSUPPORTED: the program sent no pictures. */
int recording_write(struct recording *r, const struct recording_source *from,
                    const char *path, struct err *err);
/* Appends the bytes of a file of that format. Errors of recording_write. */
int recording_bytes(struct recording *r, const struct recording_source *from,
                    enum draw_format format, struct wbuf *ret, struct err *err);
void recording_done(struct recording *r); /* all-zero again, but for `is_external` */

/* The name of the rules in force; NULL except for the particle worlds. */
const char *recording_rules(const struct env_config *env, const struct env_spec *spec);

#endif
