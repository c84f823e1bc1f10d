#include "supervisor/run/life_fsm.h"

#include "common/err/check.h"

struct cell {
    unsigned char known; /* the table has an entry for it */
    unsigned char next;
    unsigned actions;
};

#define TO(state, actions_)                                                              \
    {                                                                                    \
        1, LIFE_##state, (actions_)                                                      \
    }

/* Entries that several states share. An event without an entry is a bug. */
#define CAN_FAIL                                                                         \
    [LIFE_EV_FAIL] = TO(STOPPING, LIFE_DO_REFRESH | LIFE_DO_END),                        \
    [LIFE_EV_CUT_OFF] = TO(STOPPING, LIFE_DO_REFRESH | LIFE_DO_KILL)
/* The first stop request. */
#define STOPS_AS(state)                                                                  \
    [LIFE_EV_STOP] = TO(state, LIFE_DO_RECORD_STOP | LIFE_DO_ASK_STOP),                  \
    [LIFE_EV_DELETED] = TO(state, LIFE_DO_RECORD_STOP | LIFE_DO_ASK_STOP)
/* A further stop request. */
#define STOPS_ALREADY(state)                                                             \
    [LIFE_EV_STOP] = TO(state, LIFE_DO_RECORD_STOP | LIFE_DO_ASK_STOP),                  \
    [LIFE_EV_DELETED] = TO(state, 0)
#define STOPS_AT_ONCE(first)                                                             \
    [LIFE_EV_STOP] =                                                                     \
        TO(STOPPING, LIFE_DO_RECORD_STOP | (first) | LIFE_DO_REFRESH | LIFE_DO_END),     \
    [LIFE_EV_DELETED] =                                                                  \
        TO(STOPPING, LIFE_DO_RECORD_STOP | (first) | LIFE_DO_REFRESH | LIFE_DO_END)
/* Two events that the state does not wait for. */
#define AGENT_OR_WRITER(state)                                                           \
    [LIFE_EV_AGENT_READY] = TO(state, 0), [LIFE_EV_WRITER_FREE] = TO(state, 0)
/* next: the state once the checkpoint was taken. */
#define NEEDS_CHECKPOINT(state, next)                                                    \
    [LIFE_EV_AGENT_READY] = TO(state, LIFE_DO_TAKE_CHECKPOINT),                          \
    [LIFE_EV_WRITER_FREE] = TO(state, LIFE_DO_TAKE_CHECKPOINT),                          \
    [LIFE_EV_CHECKPOINT_TAKEN] = TO(next, 0)
#define NEEDS_AGENT(state, next)                                                         \
    [LIFE_EV_AGENT_READY] = TO(state, LIFE_DO_MAKE_CHANGE),                              \
    [LIFE_EV_WRITER_FREE] = TO(state, 0), [LIFE_EV_CHANGE_MADE] = TO(next, 0)
/* Events that change nothing any more: the driver finishes what it had begun, or a
 * request comes too late. */
#define TOO_LATE(state)                                                                  \
    [LIFE_EV_DRIVEN] = TO(state, 0), [LIFE_EV_SPACE] = TO(state, 0),                     \
    [LIFE_EV_CHECKPOINT_WAITS] = TO(state, 0),                                           \
    [LIFE_EV_CHECKPOINT_TAKEN] = TO(state, 0), [LIFE_EV_CHANGE_WAITS] = TO(state, 0),    \
    [LIFE_EV_CHANGE_MADE] = TO(state, 0), [LIFE_EV_STOP] = TO(state, 0),                 \
    [LIFE_EV_DELETED] = TO(state, 0), [LIFE_EV_FAIL] = TO(state, 0),                     \
    [LIFE_EV_AGENT_READY] = TO(state, 0)
#define ENDS(state)                                                                      \
    TOO_LATE(state), [LIFE_EV_CUT_OFF] = TO(state, LIFE_DO_KILL),                        \
                     [LIFE_EV_WRITER_FREE] = TO(state, LIFE_DO_WRITE_LAST)

/* clang-format off */
static const struct cell table[LIFE_STATE_COUNT][LIFE_EVENT_COUNT] = {
    [LIFE_LOADING] = {
        [LIFE_EV_OPENED] = TO(CONNECTING, 0),
    },
    [LIFE_CONNECTING] = {
        [LIFE_EV_CONNECTED] = TO(STARTING, LIFE_DO_START_AGENTS),
        [LIFE_EV_CONTINUE] = TO(CONNECTING, 0),
        STOPS_AT_ONCE(0), CAN_FAIL, AGENT_OR_WRITER(CONNECTING),
    },
    [LIFE_STARTING] = {
        [LIFE_EV_DRIVEN] = TO(PLAYING, 0),
        [LIFE_EV_CONTINUE] = TO(STARTING, 0),
        STOPS_AT_ONCE(0), CAN_FAIL, AGENT_OR_WRITER(STARTING),
    },
    [LIFE_PLAYING] = {
        [LIFE_EV_PAUSED] = TO(PAUSED, LIFE_DO_REPORT_PAUSE | LIFE_DO_ANSWER_PAUSE),
        [LIFE_EV_FULL] = TO(FULL, LIFE_DO_REPORT_FULL | LIFE_DO_TRY_LATER),
        [LIFE_EV_CHECKPOINT_WAITS] = TO(AT_CHECKPOINT, 0),
        [LIFE_EV_CHANGE_WAITS] = TO(AT_CHANGE, 0),
        [LIFE_EV_DONE] = TO(STOPPING, LIFE_DO_REFRESH | LIFE_DO_END),
        [LIFE_EV_CONTINUE] = TO(PLAYING, 0),
        STOPS_AS(FINISHING), CAN_FAIL, AGENT_OR_WRITER(PLAYING),
    },
    [LIFE_AT_CHECKPOINT] = {
        [LIFE_EV_SPACE] = TO(AT_CHECKPOINT, LIFE_DO_REPORT_SPACE),
        [LIFE_EV_CONTINUE] = TO(AT_CHECKPOINT, 0),
        NEEDS_CHECKPOINT(AT_CHECKPOINT, PLAYING),
        STOPS_AS(FINISHING_AT_CHECKPOINT), CAN_FAIL,
    },
    [LIFE_AT_CHANGE] = {
        [LIFE_EV_SPACE] = TO(AT_CHANGE, LIFE_DO_REPORT_SPACE),
        [LIFE_EV_CONTINUE] = TO(AT_CHANGE, 0),
        NEEDS_AGENT(AT_CHANGE, PLAYING),
        STOPS_AS(FINISHING_AT_CHANGE), CAN_FAIL,
    },
    /* The driver retries in this state, which may raise any event of PLAYING before SPACE:
     * so the states that those events lead to have an entry for SPACE. */
    [LIFE_FULL] = {
        [LIFE_EV_PAUSED] = TO(PAUSED, LIFE_DO_REPORT_PAUSE | LIFE_DO_ANSWER_PAUSE),
        [LIFE_EV_FULL] = TO(FULL, LIFE_DO_TRY_LATER),
        [LIFE_EV_SPACE] = TO(PLAYING, LIFE_DO_REPORT_SPACE),
        [LIFE_EV_CHECKPOINT_WAITS] = TO(AT_CHECKPOINT, 0),
        [LIFE_EV_CHANGE_WAITS] = TO(AT_CHANGE, 0),
        [LIFE_EV_DONE] = TO(STOPPING, LIFE_DO_REFRESH | LIFE_DO_END),
        [LIFE_EV_CONTINUE] = TO(FULL, 0),
        STOPS_AT_ONCE(LIFE_DO_DISCARD_ROUND), CAN_FAIL, AGENT_OR_WRITER(FULL),
    },
    [LIFE_PAUSED] = {
        [LIFE_EV_PAUSED] = TO(PAUSED, LIFE_DO_ANSWER_PAUSE), /* after a checkpoint */
        [LIFE_EV_SPACE] = TO(PAUSED, LIFE_DO_REPORT_SPACE),
        [LIFE_EV_CHECKPOINT_WAITS] = TO(PAUSED_AT_CHECKPOINT, 0),
        [LIFE_EV_CONTINUE] = TO(PLAYING, LIFE_DO_REPORT_CONTINUE),
        STOPS_AS(FINISHING), CAN_FAIL, AGENT_OR_WRITER(PAUSED),
    },
    [LIFE_PAUSED_AT_CHECKPOINT] = {
        [LIFE_EV_CONTINUE] = TO(AT_CHECKPOINT, LIFE_DO_REPORT_CONTINUE),
        NEEDS_CHECKPOINT(PAUSED_AT_CHECKPOINT, PAUSED),
        STOPS_AS(FINISHING_AT_CHECKPOINT), CAN_FAIL,
    },
    [LIFE_FINISHING] = {
        [LIFE_EV_FULL] =
            TO(STOPPING, LIFE_DO_DISCARD_ROUND | LIFE_DO_REFRESH | LIFE_DO_END),
        [LIFE_EV_CHECKPOINT_WAITS] = TO(FINISHING_AT_CHECKPOINT, 0),
        [LIFE_EV_CHANGE_WAITS] = TO(FINISHING_AT_CHANGE, 0),
        [LIFE_EV_DONE] = TO(STOPPING, LIFE_DO_REFRESH | LIFE_DO_END),
        [LIFE_EV_CONTINUE] = TO(FINISHING, 0),
        STOPS_ALREADY(FINISHING), CAN_FAIL, AGENT_OR_WRITER(FINISHING),
    },
    [LIFE_FINISHING_AT_CHECKPOINT] = {
        [LIFE_EV_CONTINUE] = TO(FINISHING_AT_CHECKPOINT, 0),
        NEEDS_CHECKPOINT(FINISHING_AT_CHECKPOINT, FINISHING),
        STOPS_ALREADY(FINISHING_AT_CHECKPOINT), CAN_FAIL,
    },
    [LIFE_FINISHING_AT_CHANGE] = {
        [LIFE_EV_CONTINUE] = TO(FINISHING_AT_CHANGE, 0),
        NEEDS_AGENT(FINISHING_AT_CHANGE, FINISHING),
        STOPS_ALREADY(FINISHING_AT_CHANGE), CAN_FAIL,
    },
    [LIFE_STOPPING] = {
        [LIFE_EV_AGENTS_ENDED] = TO(STOPPING_ENVIRONMENTS, 0),
        [LIFE_EV_ENVIRONMENTS_ENDED] = TO(STOPPING_AGENTS, 0),
        ENDS(STOPPING),
    },
    [LIFE_STOPPING_AGENTS] = {
        [LIFE_EV_AGENTS_ENDED] = TO(SAVING, LIFE_DO_UNWATCH | LIFE_DO_CLOSE),
        ENDS(STOPPING_AGENTS),
    },
    [LIFE_STOPPING_ENVIRONMENTS] = {
        [LIFE_EV_ENVIRONMENTS_ENDED] = TO(SAVING, LIFE_DO_UNWATCH | LIFE_DO_CLOSE),
        ENDS(STOPPING_ENVIRONMENTS),
    },
    [LIFE_SAVING] = {
        [LIFE_EV_WRITER_FREE] = TO(SAVING, LIFE_DO_WRITE_LAST | LIFE_DO_CLOSE),
        [LIFE_EV_CLOSED] = TO(OVER, LIFE_DO_ANSWER_ALL),
        [LIFE_EV_CUT_OFF] = TO(SAVING, 0),
        TOO_LATE(SAVING),
    },
    [LIFE_OVER] = {
        [LIFE_EV_CUT_OFF] = TO(OVER, 0), [LIFE_EV_WRITER_FREE] = TO(OVER, 0),
        TOO_LATE(OVER),
    },
};
/* clang-format on */

struct life_step life_fsm_step(enum life_state state, enum life_event event)
{
    const struct cell *c;

    CHECK((unsigned)state < LIFE_STATE_COUNT && (unsigned)event < LIFE_EVENT_COUNT);
    c = &table[state][event];
    if (!c->known)
        return (struct life_step){.next = state, .actions = LIFE_DO_BUG};
    return (struct life_step){.next = (enum life_state)c->next, .actions = c->actions};
}

int life_state_is_driven(enum life_state state)
{
    return state >= LIFE_PLAYING && state <= LIFE_FINISHING_AT_CHANGE;
}

int life_state_is_paused(enum life_state state)
{
    return state == LIFE_PAUSED || state == LIFE_PAUSED_AT_CHECKPOINT;
}

int life_state_is_ending(enum life_state state)
{
    return state >= LIFE_STOPPING;
}

const char *life_state_name(enum life_state state)
{
    static const char *const names[LIFE_STATE_COUNT] = {
        [LIFE_LOADING] = "loading",
        [LIFE_CONNECTING] = "connecting",
        [LIFE_STARTING] = "starting",
        [LIFE_PLAYING] = "playing",
        [LIFE_AT_CHECKPOINT] = "at a checkpoint",
        [LIFE_AT_CHANGE] = "at a change",
        [LIFE_FULL] = "without space",
        [LIFE_PAUSED] = "paused",
        [LIFE_PAUSED_AT_CHECKPOINT] = "paused, at a checkpoint",
        [LIFE_FINISHING] = "finishing",
        [LIFE_FINISHING_AT_CHECKPOINT] = "finishing, at a checkpoint",
        [LIFE_FINISHING_AT_CHANGE] = "finishing, at a change",
        [LIFE_STOPPING] = "stopping",
        [LIFE_STOPPING_AGENTS] = "stopping agents",
        [LIFE_STOPPING_ENVIRONMENTS] = "stopping environments",
        [LIFE_SAVING] = "saving",
        [LIFE_OVER] = "over",
    };

    return names[state];
}

const char *life_event_name(enum life_event event)
{
    static const char *const names[LIFE_EVENT_COUNT] = {
        [LIFE_EV_OPENED] = "opened",
        [LIFE_EV_CONNECTED] = "connected",
        [LIFE_EV_DRIVEN] = "driven",
        [LIFE_EV_PAUSED] = "paused",
        [LIFE_EV_FULL] = "disk full",
        [LIFE_EV_SPACE] = "space again",
        [LIFE_EV_CHECKPOINT_WAITS] = "checkpoint waits",
        [LIFE_EV_CHECKPOINT_TAKEN] = "checkpoint taken",
        [LIFE_EV_CHANGE_WAITS] = "change waits",
        [LIFE_EV_CHANGE_MADE] = "change made",
        [LIFE_EV_DONE] = "done",
        [LIFE_EV_CONTINUE] = "continue",
        [LIFE_EV_STOP] = "stop",
        [LIFE_EV_DELETED] = "directory deleted",
        [LIFE_EV_CUT_OFF] = "cut off",
        [LIFE_EV_FAIL] = "failed",
        [LIFE_EV_AGENT_READY] = "agent ready",
        [LIFE_EV_WRITER_FREE] = "writer free",
        [LIFE_EV_AGENTS_ENDED] = "agents ended",
        [LIFE_EV_ENVIRONMENTS_ENDED] = "environments ended",
        [LIFE_EV_CLOSED] = "closed",
    };

    return names[event];
}
