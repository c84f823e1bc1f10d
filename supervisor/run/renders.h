/* renders.h - a picture of an episode of each evaluation, in the run's folder renders/.
 *
 *     renders/<step>.gif, .svg or .jsonl    as evaluation.render says
 *     renders/index.csv                     env_steps,team_return,file: those that there are
 *
 * Episode  the evaluation's first one, which is recorded while it is played; of an
 *          environment with pictures of its own, the first one of the last copy.
 * Drawn    on a thread of libuv's pool, one at a time, later than the evaluation: the run
 *          does not wait, and its bytes are the same without. Recorded episodes wait in
 *          memory, at most those that will be kept, and at most RENDERS_MAX_BYTES.
 * Kept     the newest evaluation.max_to_keep, and the one with the best return of the first
 *          team (of equal ones the oldest). What is kept depends on neither the time that
 *          drawing takes nor on deaths.
 * Failure  is a warning in the log; the run goes on. The next one only if it was drawn in
 *          between, so that a full disk is told once.
 * Resume   what is later than the checkpoint is removed, and what an interrupted write left.
 * End      uv_run does not return before all are drawn.
 * Threads  loop thread, except for the drawing.
 */
#ifndef SUPERVISOR_RUN_RENDERS_H
#define SUPERVISOR_RUN_RENDERS_H

#include "common/config/run_config.h"
#include "supervisor/rollout/evaluation.h"

#include <uv.h>

#define RENDERS_DEFAULT_KEPT 10
#define RENDERS_MAX_BYTES    ((size_t)256 << 20)

struct renders; /* opaque */

/* Whether this environment can be drawn as the configuration says, and on this machine. Of an
 * external environment only its processes know. ERR_CONFIG with err->key. */
int renders_check(const struct run_config *c, struct err *err);

/* dir: "<run>/renders", which need not exist; run: its name. Both are copied. step: of the
 * checkpoint that the run resumes from; 0: it is new. env_draws: an external environment
 * sends pictures in evaluations. */
struct renders *renders_new(uv_loop_t *loop, const char *dir, const char *run,
                            uint64_t step, int env_draws);
/* The callbacks of an evaluation, and its result; with the configuration in force, borrowed
 * for the call but for its environment, which lasts until renders_free. */
void renders_begin(struct renders *r, const struct run_config *c,
                   const struct vec_env *env, size_t copy);
void renders_step(struct renders *r, const struct vec_env *env,
                  const struct env_step *step);
void renders_evaluated(struct renders *r, const struct run_config *c, uint64_t step,
                       const struct evaluation_result *result);
void renders_free(struct renders *r); /* after uv_run; NULL is fine */

#endif
