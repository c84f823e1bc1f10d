/* eval_picture.h - records one episode of an evaluation and draws it, for `brood eval
 * --render` and `brood report --html`. Recording does not change the evaluation's results.
 */
#ifndef SUPERVISOR_CLI_EVAL_PICTURE_H
#define SUPERVISOR_CLI_EVAL_PICTURE_H

#include "supervisor/render/render.h"
#include "supervisor/run/eval.h"

struct eval_picture {
    int is_wanted;    /* 0: record nothing */
    const char *path; /* the file to write; NULL: only eval_picture_bytes is called */
    uint64_t number;  /* of the episode to draw */
    const char *run;

    /* private */
    struct episode episode;
    size_t copy;     /* the copy that plays the episode */
    int is_external; /* the environment draws itself; the evaluation has one copy */
    int is_played;   /* the episode is being played now */
    char line[EPISODE_LINES][160];
};

/* Checks that this environment can be drawn, and in the format of `path`. Call it before the evaluation
 * starts. */
int eval_picture_check(const struct eval_picture *p, const struct env_config *env,
                       struct err *err);
/* Called from the evaluation's callbacks `begin` and `step`. */
void eval_picture_begin(struct eval_picture *p, const struct vec_env *env, size_t copy);
void eval_picture_step(struct eval_picture *p, const struct vec_env *env,
                       const struct env_step *step);
/* Draws the recorded episode. */
int eval_picture_write(struct eval_picture *p, const struct eval_args *args,
                       const char *rules, const struct env_spec *spec, struct err *err);
/* The same, as the bytes of a file of that format, appended. */
int eval_picture_bytes(struct eval_picture *p, const struct eval_args *args,
                       const char *rules, const struct env_spec *spec,
                       enum draw_format format, struct wbuf *ret, struct err *err);
void eval_picture_done(struct eval_picture *p);

#endif
