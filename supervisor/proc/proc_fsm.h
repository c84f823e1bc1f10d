/* proc_fsm.h - the life of one worker's process as a pure table: state x event gives the
 * next state and the actions. No I/O, no memory: agent.c performs the actions in the order
 * of their bits. An action may raise another event; if that changes the state, the
 * remaining actions of the first event are dropped.
 */
#ifndef SUPERVISOR_PROC_PROC_FSM_H
#define SUPERVISOR_PROC_PROC_FSM_H

enum proc_state {
    PROC_DOWN,        /* no process */
    PROC_STARTING,    /* hello awaited */
    PROC_CONFIGURING, /* response to configure awaited */
    PROC_DESCRIBING,  /* that response is here; the first snapshot awaited */
    PROC_REPLAYING,   /* response to a replayed request awaited */
    PROC_IDLE,        /* no request pending */
    PROC_BUSY,        /* response to the pending request awaited */
    PROC_COMMITTING,  /* that response is here; a snapshot of its effect awaited */
    PROC_DYING,       /* killed by us; another process follows */
    PROC_ENDING,      /* killed by us; none follows */
    PROC_STOPPING,    /* asked to exit */
    PROC_GONE,        /* no process, and none follows */
    PROC_STATE_COUNT,
};

enum proc_event {
    PROC_EV_START,        /* a process is wanted */
    PROC_EV_SPAWN_FAILED, /* but could not be started */
    PROC_EV_HELLO,        /* acceptable hello received */
    PROC_EV_RESPONSE,     /* a response without error */
    PROC_EV_COPIED,       /* the snapshot is complete, or none is needed */
    PROC_EV_REPLAYED,     /* nothing is left to replay */
    PROC_EV_REQUEST,      /* the caller's request is to be sent */
    PROC_EV_BAD,          /* output that breaks the protocol */
    PROC_EV_FATAL,        /* a restart cannot help */
    PROC_EV_STOP,         /* the run ends */
    PROC_EV_OVERDUE,      /* half of the time to stop has passed */
    PROC_EV_DEADLINE,     /* all of it has passed */
    PROC_EV_EXIT,         /* it exited, and all that it started has been ended */
    PROC_EVENT_COUNT,
};

enum proc_action {
    PROC_DO_KILL = 1 << 0,      /* SIGKILL to the group */
    PROC_DO_REPORT = 1 << 1,    /* calls on_failed if the agent has failed */
    PROC_DO_GONE = 1 << 2,      /* there will be no further process */
    PROC_DO_SHUTDOWN = 1 << 3,  /* shutdown message, SIGCONT */
    PROC_DO_TERMINATE = 1 << 4, /* SIGTERM, SIGCONT */
    PROC_DO_SPAWN = 1 << 5,     /* may raise SPAWN_FAILED */
    PROC_DO_CONFIGURE =
        1 << 6, /* sends configure, which the process reads after its hello */
    PROC_DO_DESCRIBE = 1 << 7, /* keeps the response to configure; raises COPIED or FATAL,
                                  or COPIED follows */
    PROC_DO_COMPARE = 1 << 8,  /* checks a replayed response; may raise FATAL */
    PROC_DO_REPLAY = 1 << 9,   /* sends the next request to replay, or raises REPLAYED */
    PROC_DO_READY = 1 << 10,   /* calls on_ready; raises REQUEST if one is waiting */
    PROC_DO_SEND = 1 << 11,    /* sends the pending request */
    PROC_DO_COMMIT = 1 << 12,  /* keeps what the response has changed; raises COPIED or
                                  FATAL, or COPIED follows */
    PROC_DO_DELIVER = 1 << 13, /* passes the response to the caller; may raise REQUEST */
    PROC_DO_JUDGE = 1 << 14,   /* counts the death; raises START or FATAL */
    PROC_DO_BUG = 1 << 15,     /* the table has no entry: a bug of this program */
};

struct proc_step {
    enum proc_state next;
    unsigned actions; /* bits of enum proc_action */
};

struct proc_step proc_fsm_step(enum proc_state state, enum proc_event event);

/* Whether messages from the process are handled (it was not killed or told to exit). */
int proc_state_is_serving(enum proc_state state);
/* Whether the process has been sent a request that it has not answered. */
int proc_state_is_asked(enum proc_state state);
const char *proc_state_name(enum proc_state state);
const char *proc_event_name(enum proc_event event);

#endif
