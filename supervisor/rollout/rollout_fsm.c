#include "supervisor/rollout/rollout_fsm.h"

#include "common/err/check.h"

#include <stddef.h>

static const char *const state_names[] = {
    [ROLLOUT_IDLE] = "idle",
    [ROLLOUT_ACT] = "act",
    [ROLLOUT_STEP] = "step",
    [ROLLOUT_UPDATE] = "update",
    [ROLLOUT_EVALUATE] = "evaluate",
    [ROLLOUT_LOG] = "log",
    [ROLLOUT_CHECKPOINT] = "checkpoint",
    [ROLLOUT_CHANGE] = "change",
    [ROLLOUT_PAUSED] = "paused",
    [ROLLOUT_DONE] = "done",
    [ROLLOUT_FAILED] = "failed",
};
_Static_assert(sizeof(state_names) / sizeof(state_names[0]) == ROLLOUT_STATE_COUNT,
               "a name for every state");

const char *rollout_state_name(enum rollout_state s)
{
    CHECK(s >= 0 && s < ROLLOUT_STATE_COUNT);
    return state_names[s];
}

void rollout_fsm_init(struct rollout_fsm *f, const struct stage_decl *stages,
                      int n_stages)
{
    *f = (struct rollout_fsm){
        .state = ROLLOUT_IDLE, .stages = stages, .n_stages = n_stages};
}

void rollout_fsm_set_due(struct rollout_fsm *f, const struct due *due)
{
    CHECK(f->state == ROLLOUT_STEP);
    f->due = *due;
}

void rollout_fsm_add_due(struct rollout_fsm *f, const struct due *more)
{
    CHECK(f->state == ROLLOUT_EVALUATE);
    f->due.log |= more->log;
    f->due.checkpoint |= more->checkpoint;
    f->due.end |= more->end;
}

void rollout_fsm_resume_midway(struct rollout_fsm *f, const struct due *left)
{
    CHECK(f->state == ROLLOUT_IDLE);
    f->due = *left;
    f->midway = 1;
}

void rollout_fsm_plan_stop(struct rollout_fsm *f)
{
    CHECK(f->state == ROLLOUT_IDLE);
    f->due.stop = 1;
}

int rollout_fsm_is_stepping(const struct rollout_fsm *f)
{
    return (f->state == ROLLOUT_FAILED ? f->failed_in : f->state) == ROLLOUT_STEP;
}

void rollout_fsm_take_back(struct rollout_fsm *f)
{
    CHECK(rollout_fsm_is_stepping(f));
    *(f->state == ROLLOUT_FAILED ? &f->failed_in : &f->state) = ROLLOUT_ACT;
}

int rollout_fsm_left(const struct rollout_fsm *f, struct due *ret)
{
    const enum rollout_state in = f->state == ROLLOUT_FAILED ? f->failed_in : f->state;

    *ret = (struct due){0};
    switch (in) {
    case ROLLOUT_ACT:
    case ROLLOUT_PAUSED:
        return 1;
    case ROLLOUT_CHECKPOINT:
    case ROLLOUT_DONE:
        *ret = f->owed;
        return 1;
    case ROLLOUT_UPDATE:
        *ret = f->due;
        ret->updates++;
        break;
    case ROLLOUT_EVALUATE:
        *ret = f->due;
        ret->evaluate = 1;
        break;
    default:
        return 0;
    }
    ret->end = 0;
    return 1;
}

int rollout_fsm_update_over(const struct rollout_fsm *f)
{
    return f->state != ROLLOUT_UPDATE || (f->stage == 0 && f->repeat == 0);
}

typedef enum rollout_effect (*cell_fn)(struct rollout_fsm *f);

static enum rollout_effect enter(struct rollout_fsm *f, enum rollout_state state)
{
    f->state = state;
    return ROLLOUT_ENTERED;
}

static int rollout_fsm_take(int *flag)
{
    int was = *flag;

    *flag = 0;
    return was;
}

static enum rollout_effect act(struct rollout_fsm *f)
{
    f->logged = f->saved = 0;
    return enter(f, ROLLOUT_ACT);
}

/* Makes the requests that arrived since the last boundary due at this one. */
static void add_requests(struct rollout_fsm *f)
{
    const int planned = rollout_fsm_take(&f->due.stop);

    if ((rollout_fsm_take(&f->stop) || planned) && !f->due.end) {
        f->stopped = 1;
        f->due.end = f->due.checkpoint = 1;
        f->due.last_row = !f->due.log && !f->logged;
    }
    if (rollout_fsm_take(&f->checkpoint))
        f->due.checkpoint = 1;
}

static enum rollout_effect next_due(struct rollout_fsm *f);

static enum rollout_effect leave_evaluation(struct rollout_fsm *f)
{
    f->owed = f->due;
    f->owed.evaluate = 1;
    f->owed.end = f->stop = 0;
    f->due = (struct due){.checkpoint = 1, .end = 1};
    f->stopped = 1;
    return next_due(f);
}

/* Enters the next state that is due at this boundary, or the next round. */
static enum rollout_effect next_due(struct rollout_fsm *f)
{
    if (f->due.updates > 0 && f->n_stages > 0) {
        f->due.updates--;
        f->stage = 0;
        f->repeat = 0;
        return enter(f, ROLLOUT_UPDATE);
    }
    if (f->due.evaluate && f->stop)
        return leave_evaluation(f);
    if (rollout_fsm_take(&f->due.evaluate))
        return enter(f, ROLLOUT_EVALUATE);
    add_requests(f);
    if (rollout_fsm_take(&f->due.log) && !f->logged) {
        f->logged = 1;
        return enter(f, ROLLOUT_LOG);
    }
    if (rollout_fsm_take(&f->due.checkpoint) && !f->saved) {
        f->saved = 1;
        return enter(f, ROLLOUT_CHECKPOINT);
    }
    if (rollout_fsm_take(&f->due.last_row))
        return enter(f, ROLLOUT_LOG);
    if (f->due.end)
        return enter(f, ROLLOUT_DONE);
    if (f->pause)
        return enter(f, ROLLOUT_PAUSED);
    return rollout_fsm_take(&f->change) ? enter(f, ROLLOUT_CHANGE) : act(f);
}

static enum rollout_effect start(struct rollout_fsm *f)
{
    if (!f->midway)
        f->due = (struct due){.checkpoint = 1, .stop = f->due.stop};
    return next_due(f);
}

static enum rollout_effect acted(struct rollout_fsm *f)
{
    return enter(f, ROLLOUT_STEP);
}

/* Enters the next stage of the update: either the repeated stages again, or the stage
 * after them. */
static enum rollout_effect stage_finished(struct rollout_fsm *f)
{
    const struct stage_decl *s = &f->stages[f->stage];

    if (f->repeat + 1 < s->repeat) {
        f->repeat++;
        f->stage = s->repeat_from;
        return ROLLOUT_ENTERED;
    }
    if (s->repeat > 1)
        f->repeat = 0;
    if (++f->stage < f->n_stages)
        return ROLLOUT_ENTERED;
    return next_due(f);
}

static enum rollout_effect note_stop(struct rollout_fsm *f)
{
    f->stop = 1;
    return ROLLOUT_NOTED;
}

static enum rollout_effect note_pause(struct rollout_fsm *f)
{
    f->pause = 1;
    return ROLLOUT_NOTED;
}

static enum rollout_effect note_continue(struct rollout_fsm *f)
{
    f->pause = 0;
    return ROLLOUT_NOTED;
}

static enum rollout_effect note_checkpoint(struct rollout_fsm *f)
{
    f->checkpoint = 1;
    return ROLLOUT_NOTED;
}

static enum rollout_effect note_change(struct rollout_fsm *f)
{
    f->change = 1;
    return ROLLOUT_NOTED;
}

static enum rollout_effect stop_paused(struct rollout_fsm *f)
{
    f->stop = 1;
    return next_due(f);
}

static enum rollout_effect continue_paused(struct rollout_fsm *f)
{
    f->pause = 0;
    return next_due(f);
}

/* Ignored if this boundary has a checkpoint: a second one would be equal to it. */
static enum rollout_effect checkpoint_paused(struct rollout_fsm *f)
{
    if (f->saved)
        return ROLLOUT_NOTED;
    f->checkpoint = 1;
    return next_due(f);
}

static enum rollout_effect ignore(struct rollout_fsm *f)
{
    return ROLLOUT_NOTED;
}

static enum rollout_effect rollout_fsm_fail(struct rollout_fsm *f)
{
    f->failed_in = f->state;
    return enter(f, ROLLOUT_FAILED);
}

/* An event without a cell is a bug. */
#define NOTED                                                                            \
    [ROLLOUT_STOP_REQUEST] = note_stop, [ROLLOUT_PAUSE_REQUEST] = note_pause,            \
    [ROLLOUT_CONTINUE_REQUEST] = note_continue,                                          \
    [ROLLOUT_CHECKPOINT_REQUEST] = note_checkpoint,                                      \
    [ROLLOUT_CHANGE_REQUEST] = note_change, [ROLLOUT_FAIL] = rollout_fsm_fail
#define OVER                                                                             \
    [ROLLOUT_STOP_REQUEST] = ignore, [ROLLOUT_PAUSE_REQUEST] = ignore,                   \
    [ROLLOUT_CONTINUE_REQUEST] = ignore, [ROLLOUT_CHECKPOINT_REQUEST] = ignore,          \
    [ROLLOUT_CHANGE_REQUEST] = ignore, [ROLLOUT_FAIL] = ignore

static const cell_fn cells[ROLLOUT_STATE_COUNT][ROLLOUT_EVENT_COUNT] = {
    [ROLLOUT_IDLE] = {[ROLLOUT_START] = start, NOTED},
    [ROLLOUT_ACT] = {[ROLLOUT_FINISHED] = acted, NOTED},
    [ROLLOUT_STEP] = {[ROLLOUT_FINISHED] = next_due, NOTED},
    [ROLLOUT_UPDATE] = {[ROLLOUT_FINISHED] = stage_finished, NOTED},
    [ROLLOUT_EVALUATE] =
        {[ROLLOUT_FINISHED] = next_due, [ROLLOUT_CANCELLED] = leave_evaluation, NOTED},
    [ROLLOUT_LOG] = {[ROLLOUT_FINISHED] = next_due, NOTED},
    [ROLLOUT_CHECKPOINT] = {[ROLLOUT_FINISHED] = next_due, NOTED},
    [ROLLOUT_CHANGE] = {[ROLLOUT_FINISHED] = act, NOTED},
    [ROLLOUT_PAUSED] = {[ROLLOUT_STOP_REQUEST] = stop_paused,
                        [ROLLOUT_PAUSE_REQUEST] = ignore,
                        [ROLLOUT_CONTINUE_REQUEST] = continue_paused,
                        [ROLLOUT_CHECKPOINT_REQUEST] = checkpoint_paused,
                        [ROLLOUT_CHANGE_REQUEST] = note_change,
                        [ROLLOUT_FAIL] = rollout_fsm_fail},
    [ROLLOUT_DONE] = {OVER},
    [ROLLOUT_FAILED] = {OVER},
};

enum rollout_effect rollout_fsm_step(struct rollout_fsm *f, enum rollout_event event)
{
    cell_fn cell;

    CHECK(event >= 0 && event < ROLLOUT_EVENT_COUNT);
    cell = cells[f->state][event];
    return cell != NULL ? cell(f) : ROLLOUT_IMPOSSIBLE;
}
