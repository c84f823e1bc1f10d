/* renders.h - a picture of an episode of each evaluation, in the run's folder renders/ and in
 * event files.
 *
 *     renders/<step>.gif, .svg or .jsonl    as evaluation.render says
 *     renders/index.csv                     env_steps,team_return,file of each picture
 *     metrics/images/events.out.tfevents.*  with log.images: all of them, as GIF
 *
 * Episode  the evaluation's first one, which is recorded while it is played; for an
 *          environment that sends pictures of its own, the first one of the last copy.
 * Drawn    after the evaluation, on a thread of libuv's pool, one at a time: the run does
 *          not wait, and writes the same bytes as without pictures. Recorded episodes
 *          wait in memory, at most those that will be kept, and at most
 *          RENDERS_MAX_BYTES. A checkpoint is committed when all up to its step are drawn
 *          (run_saver.h), so that no death loses one.
 * Kept     the newest evaluation.max_to_keep, and the one with the best return of the first
 *          team (of equal ones the oldest). Which pictures are kept depends neither on
 *          the time that drawing takes nor on deaths.
 * Failure  is a warning in the log; the run goes on. A further failure is logged only if
 *          a picture was drawn in between, so that a full disk is logged once.
 * Resume   removes pictures later than the checkpoint, and files of interrupted writes.
 * End      uv_run does not return before all pictures are drawn.
 * Threads  loop thread, except for the drawing.
 */
#ifndef SUPERVISOR_BEGIN_RENDERS_H
#define SUPERVISOR_BEGIN_RENDERS_H

#include "common/config/run_config.h"
#include "supervisor/metrics/sinks.h"
#include "supervisor/rollout/evaluation.h"

#include <uv.h>

#define RENDERS_DEFAULT_KEPT 10
#define RENDERS_MAX_BYTES    ((size_t)256 << 20)

struct renders; /* opaque */

/* Whether evaluations are drawn, into files or events. */
int renders_are_wanted(const struct run_config *c);
/* Checks that the environment can be drawn as configured, and on this machine. For an
 * external environment only its processes know that. ERR_CONFIG with err->key. */
int renders_check(const struct run_config *c, struct err *err);

/* Copies the pictures of a run up to that step, with their index, to another one's folder, if
 * there are any; a live run may remove some meanwhile. */
int renders_copy(const char *from, const char *to, uint64_t step, struct err *err);

struct renders_args {
    uv_loop_t *loop;
    const char *dir; /* "<run>/renders", which need not exist; copied, as is run */
    const char *run; /* its name */
    uint64_t step;   /* of the checkpoint from which the run is resumed; 0: a new run */
    int env_draws;   /* an external environment sends pictures in evaluations */
    struct event_folder *images;
    void (*on_drawn)(void *ctx); /* after each picture */
    void *ctx;
};

/* Removes what is left of pictures after that step. -errno: the index of pictures cannot be
 * read. */
int renders_new(struct renders **ret, const struct renders_args *args, struct err *err);
/* Whether no evaluation up to that step waits to be drawn. */
int renders_are_drawn(const struct renders *r, uint64_t step);
/* The callbacks of an evaluation, and its result. c: the configuration in force, borrowed
 * for the call, except c->env, which must last until renders_free. */
void renders_begin(struct renders *r, const struct run_config *c,
                   const struct vec_env *env, size_t copy);
void renders_step(struct renders *r, const struct vec_env *env,
                  const struct env_step *step);
void renders_evaluated(struct renders *r, const struct run_config *c, uint64_t step,
                       double now_unix, const struct evaluation_result *result);
void renders_free(struct renders *r); /* after uv_run; NULL is fine */

#endif
