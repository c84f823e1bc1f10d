/* eval_picture.h - `brood eval --render`: keeps one episode of an evaluation, and draws it.
 *
 * The evaluation is the same with it and without.
 */
#ifndef SUPERVISOR_CLI_EVAL_PICTURE_H
#define SUPERVISOR_CLI_EVAL_PICTURE_H

#include "supervisor/render/episode.h"
#include "supervisor/run/eval.h"

struct eval_picture {
    const char *path; /* NULL: no picture is wanted */
    uint64_t number;  /* of the episode */
    const char *run;

    /* private */
    struct episode episode;
    size_t copy;   /* that plays it */
    int is_played; /* right now */
    char line[EPISODE_LINES][160];
};

/* Whether there can be one; before anything is played. */
int eval_picture_check(const struct eval_picture *p, const struct env_config *env,
                       struct err *err);
/* For the evaluation's callbacks of those names. */
void eval_picture_begin(struct eval_picture *p, const struct vec_env *env, size_t copy);
void eval_picture_step(struct eval_picture *p, const struct vec_env *env,
                       const struct env_step *step);
/* Draws what was played. */
int eval_picture_write(struct eval_picture *p, const struct eval_args *args,
                       const char *rules, const struct env_spec *spec, struct err *err);
void eval_picture_done(struct eval_picture *p);

#endif
