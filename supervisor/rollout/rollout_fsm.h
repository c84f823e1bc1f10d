/* rollout_fsm.h - the driver's states: pure transitions, no I/O.
 *
 *     IDLE -> CHECKPOINT (step 0) -> ACT -> STEP -> UPDATE (stage k, repeat r) ...
 *          -> EVALUATE -> LOG -> CHECKPOINT -> CHANGE -> ACT ... -> DONE
 *
 * States between STEP and the next ACT are entered only if they are due. Requests (stop,
 * pause, checkpoint) are noted at any time and honoured at the boundary, after the
 * updates and the evaluation that are due; a boundary has at most one row and one
 * checkpoint. A stop does not wait for the evaluation: that is left, with what comes after
 * it, to who resumes the run. A change is the last thing before the next round, so that a checkpoint of
 * the boundary is from before it.
 */
#ifndef SUPERVISOR_ROLLOUT_ROLLOUT_FSM_H
#define SUPERVISOR_ROLLOUT_ROLLOUT_FSM_H

#include "supervisor/rollout/description.h"
#include "supervisor/rollout/schedule.h"

enum rollout_state {
    ROLLOUT_IDLE,
    ROLLOUT_ACT,        /* actions are awaited */
    ROLLOUT_STEP,       /* the environments step, rows are appended */
    ROLLOUT_UPDATE,     /* responses of stage `stage` are awaited */
    ROLLOUT_EVALUATE,   /* evaluation episodes are played */
    ROLLOUT_LOG,        /* a row of metrics is closed */
    ROLLOUT_CHECKPOINT, /* one is written */
    ROLLOUT_CHANGE,     /* settings change before the next round */
    ROLLOUT_PAUSED,
    ROLLOUT_DONE,
    ROLLOUT_FAILED,
    ROLLOUT_STATE_COUNT,
};

enum rollout_event {
    ROLLOUT_START,
    ROLLOUT_FINISHED, /* what the state stands for is done */
    ROLLOUT_STOP_REQUEST,
    ROLLOUT_PAUSE_REQUEST,
    ROLLOUT_CONTINUE_REQUEST,
    ROLLOUT_CHECKPOINT_REQUEST,
    ROLLOUT_CHANGE_REQUEST, /* due before the next round */
    ROLLOUT_BROKEN_OFF,     /* the evaluation, for a stop */
    ROLLOUT_FAIL,
    ROLLOUT_EVENT_COUNT,
};

struct rollout_fsm {
    enum rollout_state state;
    const struct stage_list *stages; /* borrowed */
    struct schedule_due due;         /* what is left at this boundary */
    struct schedule_due owed;        /* of it, to who goes on after a stop in its midst */
    int stage;                       /* in UPDATE: which, and the how manieth time */
    uint64_t repeat;
    int stop, pause, checkpoint, change; /* requests not yet honoured */
    int logged, saved;                   /* at this boundary */
    int stopped;                         /* DONE on request, before the end */
    int midway;                          /* IDLE: `due` is where a run goes on */
    enum rollout_state failed_in;        /* FAILED */
};

enum rollout_effect {
    ROLLOUT_IMPOSSIBLE = -1, /* this event cannot come in this state; nothing changed */
    ROLLOUT_NOTED = 0,       /* the state is the same */
    ROLLOUT_ENTERED = 1,     /* a state (or stage) was entered: act on it */
};

void rollout_fsm_init(struct rollout_fsm *f, const struct stage_list *stages);
enum rollout_effect rollout_fsm_step(struct rollout_fsm *f, enum rollout_event event);
/* In STEP, before FINISHED: what this boundary has to do. */
void rollout_fsm_set_due(struct rollout_fsm *f, const struct schedule_due *due);
/* Before START: goes on in the midst of a boundary, where this was left to do. */
void rollout_fsm_go_on(struct rollout_fsm *f, const struct schedule_due *left);
/* What is left to do at this boundary (without its end), counted from the beginning of
 * the state, or of the update. 0: the state is none that could be entered again. */
int rollout_fsm_left(const struct rollout_fsm *f, struct schedule_due *ret);
/* After FINISHED in UPDATE: that was the update's last stage. */
int rollout_fsm_update_over(const struct rollout_fsm *f);
const char *rollout_state_name(enum rollout_state s);

#endif
