/* resume.h - finds, verifies and loads the checkpoint from which a run is resumed.
 *
 * Order    resume_open, before any process is started; the log is opened with section
 *          SECTION_EXPERIENCE; resume_preload, before the agents start;
 *          resume_check_agents, once they are ready; resume_discard_later, when no check
 *          can fail any more. Until then nothing in the run directory changes.
 * Journal  run.state records no position in the journal: a byte offset would differ
 *          between equal runs, and every line of the journal has its step.
 * Differs  run.state records the numerics, build, fingerprint and configuration with which
 *          the run computed. A difference that can change results is ERR_CONFIG, in one
 *          line that names it. Another numerics version can, unless what it changed does not
 *          concern the run (numerics.h); another build only under
 *          NUMERICS_NATIVE; another fingerprint under NUMERICS_NATIVE and in a run that is
 *          not portable for another reason (run_status.h). For the configuration, see
 *          begin/resume_config.h.
 */
#ifndef SUPERVISOR_SAVE_RESUME_H
#define SUPERVISOR_SAVE_RESUME_H

#include "common/numerics/numerics.h"
#include "supervisor/proc/agent_table.h"
#include "supervisor/rollout/rollout.h"
#include "supervisor/save/checkpoint_read.h"

struct resume; /* opaque */

/* Opens the checkpoint of a step given as text or, if step is NULL, the newest complete one
 * in dir: on_skipped is then called with one line for each newer one, which says what is
 * wrong with it. A newer one that may well be complete, but cannot be read now (no descriptor
 * or memory is left, no permission), is an error. ERR_NOT_FOUND, ERR_FORMAT, ERR_CORRUPT,
 * -errno, ... */
int resume_open(struct resume **ret, const char *dir, const char *step,
                void (*on_skipped)(void *ctx, const char *line), void *ctx,
                struct err *err);
void resume_free(struct resume *r); /* NULL is fine */

/* For a caller that needs only the weights: *ret is the step to take them from. With a
 * `step`, that checkpoint must exist, complete or not; with NULL, as resume_open. */
int resume_choose(uint64_t *ret, const char *dir, const char *step,
                  void (*on_skipped)(void *ctx, const char *line), void *ctx,
                  struct err *err);

/* The newest complete checkpoint whose window of rows is intact in the experience log
 * `log`, so that a run can be resumed from it. ERR_NOT_FOUND: all were read, and there is
 * none. -errno, ERR_NOMEM: it is not known, because one could not be read. */
int resume_find_covered(uint64_t *ret, const char *dir, const char *log,
                        uint64_t capacity, struct err *err);

const struct rollout_progress *resume_progress(const struct resume *r);
/* A section of run.state. Of the run's sections, only SECTION_NUMERICS, SECTION_INEXACT and
 * SECTION_EVALUATIONS may be NULL. */
const struct checkpoint_section *resume_section(const struct resume *r, const char *name);

/* What follows from the evaluations up to the checkpoint, for a run that has this configuration
 * now. ERR_FORMAT. */
int resume_verdict(const struct resume *r, const struct run_config *c,
                   struct verdict *ret, struct err *err);

/* The words of run.stop_when if the checkpoint's evaluation has ended the run; free(). NULL: it has
 * not, or the section cannot be read, which a resume reports. */
char *resume_ended_why(const struct resume *r, const struct run_config *c);

/* An agent's .meta in the checkpoint. *ret: malloc'd. */
int resume_has_graph(const struct resume *r, const char *agent);
int resume_read_graph(const struct resume *r, const char *agent, uint8_t **ret,
                      size_t *ret_len);

/* Checks the numerics version and, under NUMERICS_NATIVE, the build. c: of the run. */
int resume_check_numerics(const struct resume *r, const struct run_config *c,
                          const char *build_id, struct err *err);
int resume_is_same_build(const struct resume *r, const char *build_id);

/* Hands every agent its block. ERR_NOT_FOUND: the checkpoint has no such agent. */
int resume_preload(const struct resume *r, struct agent_table *agents, struct err *err);
/* Once the agents are ready. */
int resume_check_fingerprint(const struct resume *r, const struct agent_table *agents,
                             struct err *err);
/* ERR_CONFIG: the variables of an agent lie elsewhere in its block than at the
 * checkpoint. */
int resume_check_agents(const struct resume *r, const struct agent_table *agents,
                        struct err *err);
/* Removes later checkpoints, then later rows of the log. */
int resume_discard_later(const struct resume *r, struct store *store, struct err *err);

#endif
