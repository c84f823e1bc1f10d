/* proc_fsm.h - the life of one worker's process as a pure table: state x event gives the
 * next state and what to do. No I/O, no memory: the driver (agent.c) performs the actions
 * in the order of their bits. An action may raise another event; if that changes the
 * state, the actions left of the first event are dropped.
 */
#ifndef SUPERVISOR_PROC_PROC_FSM_H
#define SUPERVISOR_PROC_PROC_FSM_H

enum proc_state {
    PROC_DOWN,        /* no process */
    PROC_STARTING,    /* hello awaited */
    PROC_CONFIGURING, /* response to configure awaited */
    PROC_REPLAYING,   /* response to a replayed request awaited */
    PROC_IDLE,        /* owes nothing */
    PROC_BUSY,        /* owes the response to the pending request */
    PROC_DYING,       /* killed by us; another process follows */
    PROC_ENDING,      /* killed by us; none follows */
    PROC_STOPPING,    /* asked to end */
    PROC_GONE,        /* for good */
    PROC_STATE_COUNT,
};

enum proc_event {
    PROC_EV_START,        /* a process is wanted */
    PROC_EV_SPAWN_FAILED, /* but could not be had */
    PROC_EV_HELLO,        /* it introduced itself, acceptably */
    PROC_EV_RESPONSE,     /* a response without error */
    PROC_EV_REPLAYED,     /* nothing is left to replay */
    PROC_EV_REQUEST,      /* the user's request waits to be sent */
    PROC_EV_BAD,          /* output that breaks the protocol */
    PROC_EV_FATAL,        /* starting again cannot help */
    PROC_EV_STOP,         /* the run ends */
    PROC_EV_OVERDUE,      /* half of the time to stop is over */
    PROC_EV_DEADLINE,     /* all of it */
    PROC_EV_EXIT,         /* it exited; nothing that it started is left */
    PROC_EVENT_COUNT,
};

enum proc_action {
    PROC_DO_KILL = 1 << 0,      /* SIGKILL to the group */
    PROC_DO_REPORT = 1 << 1,    /* if the agent has failed, says so */
    PROC_DO_GONE = 1 << 2,      /* there will be no further process */
    PROC_DO_SHUTDOWN = 1 << 3,  /* shutdown message, SIGCONT */
    PROC_DO_TERMINATE = 1 << 4, /* SIGTERM, SIGCONT */
    PROC_DO_SPAWN = 1 << 5,     /* may raise SPAWN_FAILED */
    PROC_DO_CONFIGURE = 1 << 6, /* sends configure, to be read after its hello */
    PROC_DO_DESCRIBE = 1 << 7,  /* takes the response to configure; may raise FATAL */
    PROC_DO_COMPARE = 1 << 8,   /* checks a replayed response; may raise FATAL */
    PROC_DO_REPLAY = 1 << 9,    /* sends the next request to replay, or raises REPLAYED */
    PROC_DO_READY = 1 << 10,    /* says so; raises REQUEST if one waits */
    PROC_DO_SEND = 1 << 11,     /* sends the pending request */
    PROC_DO_DELIVER = 1 << 12,  /* hands the response on; may raise REQUEST */
    PROC_DO_JUDGE = 1 << 13,    /* counts the death; raises START or FATAL */
    PROC_DO_BUG = 1 << 14,      /* our own mistake */
};

struct proc_step {
    enum proc_state next;
    unsigned actions; /* of enum proc_action */
};

struct proc_step proc_fsm_step(enum proc_state state, enum proc_event event);

/* The process is to serve: what it writes counts. */
int proc_state_is_live(enum proc_state state);
const char *proc_state_name(enum proc_state state);
const char *proc_event_name(enum proc_event event);

#endif
