/* rollout_fsm.h - the driver's state machine: pure transitions, no I/O.
 *
 *     IDLE -> CHECKPOINT (step 0) -> ACT -> STEP -> UPDATE (stage k, repeat r) ...
 *          -> EVALUATE -> LOG -> CHECKPOINT -> CHANGE -> ACT ... -> DONE
 *
 * States between STEP and the next ACT are entered only if they are due. Requests (stop,
 * pause, checkpoint) are recorded at any time and carried out at the boundary, after the
 * updates and the evaluation that are due; a boundary has at most one row and one
 * checkpoint. A stop cancels the evaluation: a resume plays it again and does what comes
 * after it. A change comes last before the next round, so that a checkpoint at the same
 * boundary has the values from before it.
 */
#ifndef SUPERVISOR_ROLLOUT_ROLLOUT_FSM_H
#define SUPERVISOR_ROLLOUT_ROLLOUT_FSM_H

#include "supervisor/rollout/description.h"
#include "supervisor/rollout/due.h"

enum rollout_state {
    ROLLOUT_IDLE,
    ROLLOUT_ACT,        /* waits for actions */
    ROLLOUT_STEP,       /* steps the environments, appends rows */
    ROLLOUT_UPDATE,     /* waits for responses of stage `stage` */
    ROLLOUT_EVALUATE,   /* plays evaluation episodes */
    ROLLOUT_LOG,        /* closes a row of metrics */
    ROLLOUT_CHECKPOINT, /* writes a checkpoint */
    ROLLOUT_CHANGE,     /* changes settings before the next round */
    ROLLOUT_PAUSED,
    ROLLOUT_DONE,
    ROLLOUT_FAILED,
    ROLLOUT_STATE_COUNT,
};

enum rollout_event {
    ROLLOUT_START,
    ROLLOUT_FINISHED, /* the work of the current state is done */
    ROLLOUT_STOP_REQUEST,
    ROLLOUT_PAUSE_REQUEST,
    ROLLOUT_CONTINUE_REQUEST,
    ROLLOUT_CHECKPOINT_REQUEST,
    ROLLOUT_CHANGE_REQUEST, /* due before the next round */
    ROLLOUT_CANCELLED,      /* the evaluation was cancelled for a stop */
    ROLLOUT_FAIL,
    ROLLOUT_EVENT_COUNT,
};

struct rollout_fsm {
    enum rollout_state state;
    const struct stage_decl *stages; /* [n_stages], borrowed */
    int n_stages;
    struct due due;  /* work left at this boundary */
    struct due owed; /* after a cancelled evaluation: work for a resume */
    int stage;       /* in UPDATE: the current stage ... */
    uint64_t repeat; /* ... and its repetition, from 0 */
    int stop, pause, checkpoint, change; /* requests not yet carried out */
    int logged, saved;                   /* a row, a checkpoint at this boundary */
    int stopped;                         /* DONE on request, before the end */
    int midway;                          /* IDLE: resumed with `due` left to do */
    enum rollout_state failed_in;        /* FAILED: the state before */
};

enum rollout_effect {
    ROLLOUT_IMPOSSIBLE = -1, /* the event cannot occur in this state; nothing changed */
    ROLLOUT_NOTED = 0,       /* the event was recorded; the state is the same */
    ROLLOUT_ENTERED = 1,     /* a state (or stage) was entered: perform it */
};

void rollout_fsm_init(struct rollout_fsm *f, const struct stage_decl *stages,
                      int n_stages);
enum rollout_effect rollout_fsm_step(struct rollout_fsm *f, enum rollout_event event);
/* Sets what is due at this boundary. Call it in STEP, before FINISHED. */
void rollout_fsm_set_due(struct rollout_fsm *f, const struct due *due);
/* Adds work to this boundary, or makes it the last one. Call it in EVALUATE, before FINISHED. */
void rollout_fsm_add_due(struct rollout_fsm *f, const struct due *more);
/* Resumes in the middle of a boundary with this work left. Call it before START. */
void rollout_fsm_resume_midway(struct rollout_fsm *f, const struct due *left);
/* Stops at this boundary, after what is left there. Call it before START. */
void rollout_fsm_plan_stop(struct rollout_fsm *f);
/* Whether it is in STEP, or failed there. */
int rollout_fsm_is_stepping(const struct rollout_fsm *f);
/* Then: back to ACT, whose round has not begun. */
void rollout_fsm_take_back(struct rollout_fsm *f);
/* The work left at this boundary (without `end`), as of the beginning of the current
 * state or update. Returns 0 if a run cannot resume from this state. */
int rollout_fsm_left(const struct rollout_fsm *f, struct due *ret);
/* After FINISHED in UPDATE: whether that was the last stage of the update. */
int rollout_fsm_update_over(const struct rollout_fsm *f);
const char *rollout_state_name(enum rollout_state s);

#endif
