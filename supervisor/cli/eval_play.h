/* eval_play.h - plays episodes with the policies of a run's checkpoint, and may record one of
 * them to draw it. Prints nothing.
 *
 * Executes   agents, and for an external environment what the run's configuration names: the
 *            caller decides whether that is wanted (run_dir_check_trust).
 */
#ifndef SUPERVISOR_CLI_EVAL_PLAY_H
#define SUPERVISOR_CLI_EVAL_PLAY_H

#include "supervisor/begin/eval.h"
#include "supervisor/render/recording.h"

struct eval_play;

/* Which episode is recorded: that of recording.number, or the one with the first team's highest or
 * lowest return. Which one that is, is known at the end: it is played again. */
enum eval_pick { EVAL_PICK_NUMBER, EVAL_PICK_BEST, EVAL_PICK_WORST };

/* Called once; spec, result and the recorded episode, if it has a number, are borrowed for the
 * call. */
typedef void (*eval_play_fn)(struct eval_play *p, const struct env_spec *spec,
                             const struct evaluation_result *result);

struct eval_play {
    const char *path;        /* the run's directory */
    struct weights *weights; /* of its checkpoint; eval_play_done frees them */
    struct eval_args run; /* config, episodes, seed, copies and mode; the rest is set */
    int records;          /* an episode is recorded, the one of `pick` */
    enum eval_pick pick;
    struct recording recording;
    eval_play_fn on_result;
    /* Called once after on_result, if an episode is recorded, which is borrowed for the call, as
     * spec; may be NULL. */
    void (*on_recorded)(struct eval_play *p, const struct env_spec *spec);
    void *ctx;
};

/* Checks, before anything is played, whether the environment and this machine can draw;
 * file: the one to write, NULL: none. ERR_ARG, ERR_UNSUPPORTED, ERR_NOT_FOUND. */
int eval_play_check(const struct eval_play *p, const char *file, struct err *err);
/* For recording_write and recording_bytes; name: of the run. */
struct recording_source eval_play_source(const struct eval_play *p, const char *name,
                                         const struct env_spec *spec);

/* Plays the episodes. Call eval_play_done in any case. ERR_NOT_FOUND: this build has no
 * agent. */
int eval_play(struct eval_play *p, struct err *err);
void eval_play_done(struct eval_play *p);

#endif
