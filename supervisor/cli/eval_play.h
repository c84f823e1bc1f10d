/* eval_play.h - plays episodes with the policies of a run's checkpoint, and may record one of
 * them to draw it. Prints nothing.
 *
 * Executes   agents, and for an external environment what the run's configuration names: the
 *            caller decides whether that is wanted (run_dir_check_trust).
 */
#ifndef SUPERVISOR_CLI_EVAL_PLAY_H
#define SUPERVISOR_CLI_EVAL_PLAY_H

#include "supervisor/cli/eval_picture.h"
#include "supervisor/run/eval.h"

struct eval_play;

/* Called once; spec, result and the recorded episode are borrowed for the call. */
typedef void (*eval_play_fn)(struct eval_play *p, const struct env_spec *spec,
                             const struct evaluation_result *result);

struct eval_play {
    const char *path; /* the run's directory */
    struct eval_args
        run; /* config, step, episodes, seed, copies and mode; the rest is set */
    struct eval_picture picture; /* all-zero: nothing is drawn */
    eval_play_fn on_result;
    void *ctx;
};

/* The name of the rules in force; NULL except for the particle worlds. */
const char *eval_rules_name(const struct run_config *c, const struct env_spec *spec);
/* The last part of a run's path. */
const char *eval_run_name(const char *path);

/* Plays; eval_play_done in any case. ERR_NOT_FOUND: this build has no agent. */
int eval_play(struct eval_play *p, struct err *err);
void eval_play_done(struct eval_play *p);

#endif
