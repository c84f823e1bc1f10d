/* change_proposal.h - what a change makes of a live run's configuration, before it is accepted;
 * without processes or files.
 *
 * Live     a run has the configuration in force, the plan of changes, for later steps and for
 *          respawns, and the wanted configuration, which config.yaml contains: the first with
 *          the whole plan applied.
 * Accept   the caller writes `waits` and `changes` into the journal, then takes the proposal's
 *          plan and its wanted configuration.
 */
#ifndef SUPERVISOR_BEGIN_CHANGE_PROPOSAL_H
#define SUPERVISOR_BEGIN_CHANGE_PROPOSAL_H

#include "common/config/change_plan.h"
#include "common/config/changes.h"

struct live_config { /* borrowed */
    const struct run_config *config, *wanted;
    const struct change_plan *plan;
    uint64_t steps;    /* at the last boundary */
    uint64_t next;     /* the first boundary at which a change can take effect */
    uint64_t episodes; /* how many there are */
    int is_at_end;     /* the run has reached its length */
    const char *run;   /* its path, for messages */
};

struct proposal {
    uint64_t at;
    struct config_settings changes; /* take effect at that step */
    struct config_settings waits;   /* differences that take a respawn */
    char *new_waits;                /* those that did not wait before, as text */
    struct change_plan plan;        /* with both */
    struct run_config wanted;       /* with the plan */
};
void proposal_done(struct proposal *p); /* all-zero is fine */

/* Proposes the assignments of `set` ("KEY=VALUE") for step `at`, or for the next boundary if
 * that is PROPOSAL_SOON. *is: the wanted configuration with them; run_config_done, also on
 * failure. ERR_CONFIG, ERR_STATE. */
#define PROPOSAL_SOON UINT64_MAX
int proposal_set(struct proposal *p, const struct live_config *live,
                 const char *const *set, size_t n, uint64_t at, struct run_config *is,
                 struct err *err);
/* Proposes the differences between live->wanted and *is. given: settings to make even if
 * live->wanted has these values already. */
int proposal_make(struct proposal *p, const struct live_config *live,
                  const struct run_config *is, const struct config_settings *given,
                  uint64_t at, struct err *err);

/* Called for each change that is cancelled. */
typedef void (*proposal_cancelled_fn)(void *ctx, const struct planned_change *c);
/* Proposes to cancel the pending changes of n keys; n 0: all. found: [n], set to 1 for each key
 * that had one. */
int proposal_cancel(struct proposal *p, const struct live_config *live,
                    const char *const *keys, size_t n, uint8_t *found,
                    proposal_cancelled_fn fn, void *ctx, struct err *err);

#endif
