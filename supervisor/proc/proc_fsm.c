#include "supervisor/proc/proc_fsm.h"

#include "common/err/check.h"

struct cell {
    unsigned char known; /* the table has a line for it */
    unsigned char next;
    unsigned short actions;
};

#define TO(state, actions_)                                                              \
    {                                                                                    \
        1, PROC_##state, (actions_)                                                      \
    }
/* Cells that several states share. */
#define IGNORE(state) TO(state, 0)
#define NEVER(state)  TO(state, PROC_DO_BUG)
#define ABORT         TO(DYING, PROC_DO_KILL)
#define FAIL          TO(ENDING, PROC_DO_KILL)
#define DIED          TO(DOWN, PROC_DO_JUDGE)
#define END           TO(GONE, PROC_DO_REPORT | PROC_DO_GONE)
#define ASK           TO(STOPPING, PROC_DO_TERMINATE)

/* clang-format off */
static const struct cell table[PROC_STATE_COUNT][PROC_EVENT_COUNT] = {
    [PROC_DOWN] = {
        [PROC_EV_START] = TO(STARTING, PROC_DO_SPAWN | PROC_DO_CONFIGURE),
        [PROC_EV_SPAWN_FAILED] = NEVER(DOWN),
        [PROC_EV_HELLO] = NEVER(DOWN),
        [PROC_EV_RESPONSE] = NEVER(DOWN),
        [PROC_EV_COPIED] = NEVER(DOWN),
        [PROC_EV_REPLAYED] = NEVER(DOWN),
        [PROC_EV_REQUEST] = IGNORE(DOWN),
        [PROC_EV_BAD] = NEVER(DOWN),
        [PROC_EV_FATAL] = END,
        [PROC_EV_STOP] = END,
        [PROC_EV_OVERDUE] = NEVER(DOWN),
        [PROC_EV_DEADLINE] = NEVER(DOWN),
        [PROC_EV_EXIT] = NEVER(DOWN),
    },
    [PROC_STARTING] = {
        [PROC_EV_START] = NEVER(STARTING),
        [PROC_EV_SPAWN_FAILED] = FAIL,
        [PROC_EV_HELLO] = TO(CONFIGURING, 0),
        [PROC_EV_RESPONSE] = ABORT,
        [PROC_EV_COPIED] = NEVER(STARTING),
        [PROC_EV_REPLAYED] = NEVER(STARTING),
        [PROC_EV_REQUEST] = IGNORE(STARTING),
        [PROC_EV_BAD] = ABORT,
        [PROC_EV_FATAL] = FAIL,
        [PROC_EV_STOP] = ASK,
        [PROC_EV_OVERDUE] = NEVER(STARTING),
        [PROC_EV_DEADLINE] = NEVER(STARTING),
        [PROC_EV_EXIT] = DIED,
    },
    [PROC_CONFIGURING] = {
        [PROC_EV_START] = NEVER(CONFIGURING),
        [PROC_EV_SPAWN_FAILED] = NEVER(CONFIGURING),
        [PROC_EV_HELLO] = ABORT,
        [PROC_EV_RESPONSE] = TO(DESCRIBING, PROC_DO_DESCRIBE),
        [PROC_EV_COPIED] = NEVER(CONFIGURING),
        [PROC_EV_REPLAYED] = NEVER(CONFIGURING),
        [PROC_EV_REQUEST] = IGNORE(CONFIGURING),
        [PROC_EV_BAD] = ABORT,
        [PROC_EV_FATAL] = FAIL,
        [PROC_EV_STOP] = ASK,
        [PROC_EV_OVERDUE] = NEVER(CONFIGURING),
        [PROC_EV_DEADLINE] = NEVER(CONFIGURING),
        [PROC_EV_EXIT] = DIED,
    },
    [PROC_DESCRIBING] = {
        [PROC_EV_START] = NEVER(DESCRIBING),
        [PROC_EV_SPAWN_FAILED] = NEVER(DESCRIBING),
        [PROC_EV_HELLO] = ABORT,
        [PROC_EV_RESPONSE] = ABORT,
        [PROC_EV_COPIED] = TO(REPLAYING, PROC_DO_REPLAY),
        [PROC_EV_REPLAYED] = NEVER(DESCRIBING),
        [PROC_EV_REQUEST] = IGNORE(DESCRIBING),
        [PROC_EV_BAD] = ABORT,
        [PROC_EV_FATAL] = FAIL,
        [PROC_EV_STOP] = ASK,
        [PROC_EV_OVERDUE] = NEVER(DESCRIBING),
        [PROC_EV_DEADLINE] = NEVER(DESCRIBING),
        [PROC_EV_EXIT] = DIED,
    },
    [PROC_REPLAYING] = {
        [PROC_EV_START] = NEVER(REPLAYING),
        [PROC_EV_SPAWN_FAILED] = NEVER(REPLAYING),
        [PROC_EV_HELLO] = ABORT,
        [PROC_EV_RESPONSE] = TO(REPLAYING, PROC_DO_COMPARE | PROC_DO_REPLAY),
        [PROC_EV_COPIED] = NEVER(REPLAYING),
        [PROC_EV_REPLAYED] = TO(IDLE, PROC_DO_READY),
        [PROC_EV_REQUEST] = IGNORE(REPLAYING),
        [PROC_EV_BAD] = ABORT,
        [PROC_EV_FATAL] = FAIL,
        [PROC_EV_STOP] = ASK,
        [PROC_EV_OVERDUE] = NEVER(REPLAYING),
        [PROC_EV_DEADLINE] = NEVER(REPLAYING),
        [PROC_EV_EXIT] = DIED,
    },
    [PROC_IDLE] = {
        [PROC_EV_START] = NEVER(IDLE),
        [PROC_EV_SPAWN_FAILED] = NEVER(IDLE),
        [PROC_EV_HELLO] = ABORT,
        [PROC_EV_RESPONSE] = ABORT,
        [PROC_EV_COPIED] = NEVER(IDLE),
        [PROC_EV_REPLAYED] = NEVER(IDLE),
        [PROC_EV_REQUEST] = TO(BUSY, PROC_DO_SEND),
        [PROC_EV_BAD] = ABORT,
        [PROC_EV_FATAL] = FAIL,
        [PROC_EV_STOP] = TO(STOPPING, PROC_DO_SHUTDOWN),
        [PROC_EV_OVERDUE] = NEVER(IDLE),
        [PROC_EV_DEADLINE] = NEVER(IDLE),
        [PROC_EV_EXIT] = DIED,
    },
    [PROC_BUSY] = {
        [PROC_EV_START] = NEVER(BUSY),
        [PROC_EV_SPAWN_FAILED] = NEVER(BUSY),
        [PROC_EV_HELLO] = ABORT,
        [PROC_EV_RESPONSE] = TO(COMMITTING, PROC_DO_COMMIT),
        [PROC_EV_COPIED] = NEVER(BUSY),
        [PROC_EV_REPLAYED] = NEVER(BUSY),
        [PROC_EV_REQUEST] = NEVER(BUSY),
        [PROC_EV_BAD] = ABORT,
        [PROC_EV_FATAL] = FAIL,
        [PROC_EV_STOP] = ASK,
        [PROC_EV_OVERDUE] = NEVER(BUSY),
        [PROC_EV_DEADLINE] = NEVER(BUSY),
        [PROC_EV_EXIT] = DIED,
    },
    [PROC_COMMITTING] = {
        [PROC_EV_START] = NEVER(COMMITTING),
        [PROC_EV_SPAWN_FAILED] = NEVER(COMMITTING),
        [PROC_EV_HELLO] = ABORT,
        [PROC_EV_RESPONSE] = ABORT,
        [PROC_EV_COPIED] = TO(IDLE, PROC_DO_DELIVER),
        [PROC_EV_REPLAYED] = NEVER(COMMITTING),
        [PROC_EV_REQUEST] = NEVER(COMMITTING),
        [PROC_EV_BAD] = ABORT,
        [PROC_EV_FATAL] = FAIL,
        [PROC_EV_STOP] = ASK,
        [PROC_EV_OVERDUE] = NEVER(COMMITTING),
        [PROC_EV_DEADLINE] = NEVER(COMMITTING),
        [PROC_EV_EXIT] = DIED,
    },
    [PROC_DYING] = {
        [PROC_EV_START] = NEVER(DYING),
        [PROC_EV_SPAWN_FAILED] = NEVER(DYING),
        [PROC_EV_HELLO] = IGNORE(DYING),
        [PROC_EV_RESPONSE] = IGNORE(DYING),
        [PROC_EV_COPIED] = NEVER(DYING),
        [PROC_EV_REPLAYED] = NEVER(DYING),
        [PROC_EV_REQUEST] = IGNORE(DYING),
        [PROC_EV_BAD] = IGNORE(DYING),
        [PROC_EV_FATAL] = IGNORE(DYING),
        [PROC_EV_STOP] = IGNORE(ENDING),
        [PROC_EV_OVERDUE] = NEVER(DYING),
        [PROC_EV_DEADLINE] = NEVER(DYING),
        [PROC_EV_EXIT] = DIED,
    },
    [PROC_ENDING] = {
        [PROC_EV_START] = NEVER(ENDING),
        [PROC_EV_SPAWN_FAILED] = NEVER(ENDING),
        [PROC_EV_HELLO] = IGNORE(ENDING),
        [PROC_EV_RESPONSE] = IGNORE(ENDING),
        [PROC_EV_COPIED] = NEVER(ENDING),
        [PROC_EV_REPLAYED] = NEVER(ENDING),
        [PROC_EV_REQUEST] = IGNORE(ENDING),
        [PROC_EV_BAD] = IGNORE(ENDING),
        [PROC_EV_FATAL] = IGNORE(ENDING),
        [PROC_EV_STOP] = IGNORE(ENDING),
        [PROC_EV_OVERDUE] = IGNORE(ENDING),
        [PROC_EV_DEADLINE] = IGNORE(ENDING),
        [PROC_EV_EXIT] = END,
    },
    [PROC_STOPPING] = {
        [PROC_EV_START] = NEVER(STOPPING),
        [PROC_EV_SPAWN_FAILED] = NEVER(STOPPING),
        [PROC_EV_HELLO] = IGNORE(STOPPING),
        [PROC_EV_RESPONSE] = IGNORE(STOPPING),
        [PROC_EV_COPIED] = NEVER(STOPPING),
        [PROC_EV_REPLAYED] = NEVER(STOPPING),
        [PROC_EV_REQUEST] = IGNORE(STOPPING),
        [PROC_EV_BAD] = IGNORE(STOPPING),
        [PROC_EV_FATAL] = IGNORE(STOPPING),
        [PROC_EV_STOP] = IGNORE(STOPPING),
        [PROC_EV_OVERDUE] = ASK,
        [PROC_EV_DEADLINE] = TO(ENDING, PROC_DO_KILL),
        [PROC_EV_EXIT] = END,
    },
    [PROC_GONE] = {
        [PROC_EV_START] = IGNORE(GONE),
        [PROC_EV_SPAWN_FAILED] = NEVER(GONE),
        [PROC_EV_HELLO] = NEVER(GONE),
        [PROC_EV_RESPONSE] = NEVER(GONE),
        [PROC_EV_COPIED] = NEVER(GONE),
        [PROC_EV_REPLAYED] = NEVER(GONE),
        [PROC_EV_REQUEST] = IGNORE(GONE),
        [PROC_EV_BAD] = NEVER(GONE),
        [PROC_EV_FATAL] = NEVER(GONE),
        [PROC_EV_STOP] = IGNORE(GONE),
        [PROC_EV_OVERDUE] = IGNORE(GONE),
        [PROC_EV_DEADLINE] = IGNORE(GONE),
        [PROC_EV_EXIT] = NEVER(GONE),
    },
};
/* clang-format on */

struct proc_step proc_fsm_step(enum proc_state state, enum proc_event event)
{
    const struct cell *c;

    CHECK((unsigned)state < PROC_STATE_COUNT && (unsigned)event < PROC_EVENT_COUNT);
    c = &table[state][event];
    CHECK(c->known, "no cell for %s in state %s", proc_event_name(event),
          proc_state_name(state));
    return (struct proc_step){.next = (enum proc_state)c->next, .actions = c->actions};
}

int proc_state_is_serving(enum proc_state state)
{
    return state >= PROC_STARTING && state <= PROC_COMMITTING;
}

int proc_state_is_asked(enum proc_state state)
{
    return state == PROC_CONFIGURING || state == PROC_REPLAYING || state == PROC_BUSY;
}

const char *proc_state_name(enum proc_state state)
{
    static const char *const names[PROC_STATE_COUNT] = {
        [PROC_DOWN] = "down",
        [PROC_STARTING] = "starting",
        [PROC_CONFIGURING] = "configuring",
        [PROC_DESCRIBING] = "describing",
        [PROC_REPLAYING] = "replaying",
        [PROC_IDLE] = "idle",
        [PROC_BUSY] = "busy",
        [PROC_COMMITTING] = "committing",
        [PROC_DYING] = "dying",
        [PROC_ENDING] = "ending",
        [PROC_STOPPING] = "stopping",
        [PROC_GONE] = "gone",
    };

    return names[state];
}

const char *proc_event_name(enum proc_event event)
{
    static const char *const names[PROC_EVENT_COUNT] = {
        [PROC_EV_START] = "start",     [PROC_EV_SPAWN_FAILED] = "spawn failed",
        [PROC_EV_HELLO] = "hello",     [PROC_EV_RESPONSE] = "response",
        [PROC_EV_COPIED] = "copied",   [PROC_EV_REPLAYED] = "replayed",
        [PROC_EV_REQUEST] = "request", [PROC_EV_BAD] = "bad output",
        [PROC_EV_FATAL] = "fatal",     [PROC_EV_STOP] = "stop",
        [PROC_EV_OVERDUE] = "overdue", [PROC_EV_DEADLINE] = "deadline",
        [PROC_EV_EXIT] = "exit",
    };

    return names[event];
}
