#include "supervisor/proc/proc_fsm.h"

#include "common/err/check.h"

struct cell {
    unsigned char known; /* the table has an entry for it */
    unsigned char next;
    unsigned short actions;
};

#define TO(state, actions_)                                                              \
    {                                                                                    \
        1, PROC_##state, (actions_)                                                      \
    }
#define IGNORE(state) TO(state, 0)
#define ABORT         TO(DYING, PROC_DO_KILL)
#define END           TO(GONE, PROC_DO_REPORT | PROC_DO_GONE)
#define ASK           TO(STOPPING, PROC_DO_TERMINATE)

/* Entries that several states share. An event without an entry is a bug. */
#define SERVES                                                                           \
    [PROC_EV_BAD] = ABORT, [PROC_EV_FATAL] = TO(ENDING, PROC_DO_KILL),                   \
    [PROC_EV_EXIT] = TO(DOWN, PROC_DO_JUDGE)
/* Before the caller's request can be sent. */
#define PREPARES(state) SERVES, [PROC_EV_REQUEST] = IGNORE(state), [PROC_EV_STOP] = ASK
/* Nothing that it still says counts. */
#define DEAF(state)                                                                      \
    [PROC_EV_HELLO] = IGNORE(state), [PROC_EV_RESPONSE] = IGNORE(state),                 \
    [PROC_EV_REQUEST] = IGNORE(state), [PROC_EV_BAD] = IGNORE(state),                    \
    [PROC_EV_FATAL] = IGNORE(state)

/* clang-format off */
static const struct cell table[PROC_STATE_COUNT][PROC_EVENT_COUNT] = {
    [PROC_DOWN] = {
        [PROC_EV_START] = TO(STARTING, PROC_DO_SPAWN | PROC_DO_CONFIGURE),
        [PROC_EV_REQUEST] = IGNORE(DOWN),
        [PROC_EV_FATAL] = END,
        [PROC_EV_STOP] = END,
    },
    [PROC_STARTING] = {
        [PROC_EV_SPAWN_FAILED] = TO(ENDING, PROC_DO_KILL),
        [PROC_EV_HELLO] = TO(CONFIGURING, 0),
        [PROC_EV_RESPONSE] = ABORT,
        PREPARES(STARTING),
    },
    [PROC_CONFIGURING] = {
        [PROC_EV_HELLO] = ABORT,
        [PROC_EV_RESPONSE] = TO(DESCRIBING, PROC_DO_DESCRIBE),
        PREPARES(CONFIGURING),
    },
    [PROC_DESCRIBING] = {
        [PROC_EV_HELLO] = ABORT,
        [PROC_EV_RESPONSE] = ABORT,
        [PROC_EV_COPIED] = TO(REPLAYING, PROC_DO_REPLAY),
        PREPARES(DESCRIBING),
    },
    [PROC_REPLAYING] = {
        [PROC_EV_HELLO] = ABORT,
        [PROC_EV_RESPONSE] = TO(REPLAYING, PROC_DO_COMPARE | PROC_DO_REPLAY),
        [PROC_EV_REPLAYED] = TO(IDLE, PROC_DO_READY),
        PREPARES(REPLAYING),
    },
    [PROC_IDLE] = {
        [PROC_EV_HELLO] = ABORT,
        [PROC_EV_RESPONSE] = ABORT,
        [PROC_EV_REQUEST] = TO(BUSY, PROC_DO_SEND),
        [PROC_EV_STOP] = TO(STOPPING, PROC_DO_SHUTDOWN),
        SERVES,
    },
    [PROC_BUSY] = {
        [PROC_EV_HELLO] = ABORT,
        [PROC_EV_RESPONSE] = TO(COMMITTING, PROC_DO_COMMIT),
        [PROC_EV_STOP] = ASK,
        SERVES,
    },
    [PROC_COMMITTING] = {
        [PROC_EV_HELLO] = ABORT,
        [PROC_EV_RESPONSE] = ABORT,
        [PROC_EV_COPIED] = TO(IDLE, PROC_DO_DELIVER),
        [PROC_EV_STOP] = ASK,
        SERVES,
    },
    [PROC_DYING] = {
        DEAF(DYING),
        [PROC_EV_STOP] = IGNORE(ENDING),
        [PROC_EV_EXIT] = TO(DOWN, PROC_DO_JUDGE),
    },
    [PROC_ENDING] = {
        DEAF(ENDING),
        [PROC_EV_STOP] = IGNORE(ENDING),
        [PROC_EV_OVERDUE] = IGNORE(ENDING),
        [PROC_EV_DEADLINE] = IGNORE(ENDING),
        [PROC_EV_EXIT] = END,
    },
    [PROC_STOPPING] = {
        DEAF(STOPPING),
        [PROC_EV_STOP] = IGNORE(STOPPING),
        [PROC_EV_OVERDUE] = ASK,
        [PROC_EV_DEADLINE] = TO(ENDING, PROC_DO_KILL),
        [PROC_EV_EXIT] = END,
    },
    [PROC_GONE] = {
        [PROC_EV_START] = IGNORE(GONE),
        [PROC_EV_REQUEST] = IGNORE(GONE),
        [PROC_EV_STOP] = IGNORE(GONE),
        [PROC_EV_OVERDUE] = IGNORE(GONE),
        [PROC_EV_DEADLINE] = IGNORE(GONE),
    },
};
/* clang-format on */

struct proc_step proc_fsm_step(enum proc_state state, enum proc_event event)
{
    const struct cell *c;

    CHECK((unsigned)state < PROC_STATE_COUNT && (unsigned)event < PROC_EVENT_COUNT);
    c = &table[state][event];
    if (!c->known)
        return (struct proc_step){.next = state, .actions = PROC_DO_BUG};
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
