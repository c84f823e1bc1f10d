/* resume.h - a checkpoint from which a run goes on: found, verified whole, in memory.
 *
 * Order    resume_open, before any process; the log (resume_section "experience");
 *          resume_preload, before the agents start; resume_check_agents, once they are
 *          ready; resume_settle, when nothing stands in the way any more.
 * Journal  its position is the checkpoint's step, which stands on every line: a byte offset
 *          would make equal runs unequal, whose journals tell of other processes.
 * Differs  "numerics", "build id", "fingerprint" and "config" in run.state say what
 *          computed and what: one that matters and is another now is ERR_CONFIG, in one
 *          line that says what changed. Another numerics version always matters; the build
 *          under NUMERICS_NATIVE; the fingerprint there, too, and for a run that is not
 *          portable for other reasons (run_status.h).
 */
#ifndef SUPERVISOR_SAVE_RESUME_H
#define SUPERVISOR_SAVE_RESUME_H

#include "common/numerics/numerics.h"
#include "supervisor/proc/agent_table.h"
#include "supervisor/rollout/rollout.h"
#include "supervisor/save/checkpoint_write.h"

/* Names of the sections of run.state. */
#define RESUME_ROLLOUT     "rollout"     /* rollout_state_save */
#define RESUME_EXPERIENCE  "experience"  /* store_state_save */
#define RESUME_BUILD_ID    "build id"    /* text */
#define RESUME_FINGERPRINT "fingerprint" /* text */
#define RESUME_CONFIG      "config"      /* run_config_to_yaml */
/* Text, "portable 1": mode and version. Checkpoints of older builds lack it. */
#define RESUME_NUMERICS    "numerics"
/* Only of a run that went on although something was another one: the first, as text. */
#define RESUME_INEXACT     "inexact"

struct resume; /* opaque */

/* The checkpoint of a step given as text, or with NULL the newest complete one in dir:
 * on_skipped is told, in a line, why a newer one is not. ERR_NOT_FOUND, ERR_FORMAT, ...
 */
int resume_open(struct resume **ret, const char *dir, const char *step,
                void (*on_skipped)(void *ctx, const char *line), void *ctx,
                struct err *err);
void resume_free(struct resume *r); /* NULL is fine */

/* For those who want the weights alone: of which step. With `step` a checkpoint that is
 * there, whether whole or not; otherwise as resume_open. */
int resume_choose(uint64_t *ret, const char *dir, const char *step,
                  void (*on_skipped)(void *ctx, const char *line), void *ctx,
                  struct err *err);

/* The newest complete checkpoint whose window the experience log `log` still holds as it
 * was: one that a run can go on from. ERR_NOT_FOUND: there is none. */
int resume_find_covered(uint64_t *ret, const char *dir, const char *log,
                        uint64_t capacity, struct err *err);

const struct rollout_progress *resume_progress(const struct resume *r);
/* Never NULL for the names above but the last two. */
const struct checkpoint_section *resume_section(const struct resume *r, const char *name);

/* The numerics version, and under NUMERICS_NATIVE the build. */
int resume_check_numerics(const struct resume *r, const char *build_id, struct err *err);
int resume_is_same_build(const struct resume *r, const char *build_id);

/* Every agent's block. ERR_NOT_FOUND: the checkpoint has no such agent. */
int resume_preload(const struct resume *r, struct agent_table *agents, struct err *err);
/* Once the agents are ready. */
int resume_check_fingerprint(const struct resume *r, const struct agent_table *agents,
                             struct err *err);
/* Places of the variables. */
int resume_check_agents(const struct resume *r, const struct agent_table *agents,
                        struct err *err);
/* Forgets what came after: later checkpoints, then rows of the log. */
int resume_settle(const struct resume *r, struct store *store, struct err *err);

#endif
