/* life_fsm.h - the life of a run as a pure table: state x event gives the next state and
 * the actions. No I/O, no allocation: training_life.c performs the actions in the order of
 * their bits. An action may raise another event; if that event changes the state, the
 * remaining actions of the first event are dropped.
 *
 *     LOADING -> CONNECTING -> STARTING
 *             -> PLAYING <-> PAUSED, FULL, AT_CHECKPOINT, AT_CHANGE
 *             -> FINISHING (somebody asked for the end)
 *             -> STOPPING (the processes) -> SAVING -> OVER
 *
 * In the AT_ states and in FULL, the driver (rollout.h) waits. Requests for a pause or a
 * checkpoint have no effect here until the driver has reached a round boundary.
 */
#ifndef SUPERVISOR_RUN_LIFE_FSM_H
#define SUPERVISOR_RUN_LIFE_FSM_H

enum life_state {
    LIFE_LOADING,       /* opens files; no process has started */
    LIFE_CONNECTING,    /* the nodes of a cluster start; no agent has started */
    LIFE_STARTING,      /* agents configure; graphs and first weights are exchanged */
    LIFE_PLAYING,       /* the driver plays rounds */
    LIFE_AT_CHECKPOINT, /* waits at a boundary until its checkpoint can be taken */
    LIFE_AT_CHANGE,     /* waits before a round for an agent, to apply a change */
    LIFE_FULL,          /* the disk is full: retries until the rows fit */
    LIFE_PAUSED,        /* waits at a boundary for `continue` */
    LIFE_PAUSED_AT_CHECKPOINT, /* paused, and waits until a checkpoint can be taken */
    LIFE_FINISHING,            /* was asked to stop: plays to the next boundary */
    LIFE_FINISHING_AT_CHECKPOINT,
    LIFE_FINISHING_AT_CHANGE,
    LIFE_STOPPING,              /* agents and environments were asked to end */
    LIFE_STOPPING_AGENTS,       /* environments have ended */
    LIFE_STOPPING_ENVIRONMENTS, /* agents have ended */
    LIFE_SAVING,                /* both have ended; a checkpoint may be in progress */
    LIFE_OVER,
    LIFE_STATE_COUNT,
};

enum life_event {
    LIFE_EV_OPENED,    /* observers can steer; the nodes of a cluster start next */
    LIFE_EV_CONNECTED, /* all nodes are up, if there are any; agents start next */
    LIFE_EV_DRIVEN,    /* everything is loaded; the driver starts next */

    /* from the driver */
    LIFE_EV_PAUSED,           /* it has stopped at a boundary */
    LIFE_EV_FULL,             /* the disk has no space for its rows */
    LIFE_EV_SPACE,            /* the disk has space again */
    LIFE_EV_CHECKPOINT_WAITS, /* the checkpoint of this boundary cannot be taken yet */
    LIFE_EV_CHECKPOINT_TAKEN, /* that checkpoint was taken */
    LIFE_EV_CHANGE_WAITS,     /* the change before this round cannot be applied yet */
    LIFE_EV_CHANGE_MADE,      /* that change was applied */
    LIFE_EV_DONE,             /* it has ended, as planned or on request */

    /* from users */
    LIFE_EV_CONTINUE,
    LIFE_EV_STOP,    /* stop at the next boundary */
    LIFE_EV_DELETED, /* the run directory was deleted */
    LIFE_EV_CUT_OFF, /* end at once: a second signal */

    /* from processes and files */
    LIFE_EV_FAIL,               /* the run cannot continue */
    LIFE_EV_AGENT_READY,        /* an agent takes requests again, or never will */
    LIFE_EV_WRITER_FREE,        /* no checkpoint is being written any more */
    LIFE_EV_AGENTS_ENDED,       /* all agents */
    LIFE_EV_ENVIRONMENTS_ENDED, /* all environment processes, if there were any */
    LIFE_EV_CLOSED,             /* every file is written */
    LIFE_EVENT_COUNT,
};

enum life_action {
    LIFE_DO_RECORD_STOP = 1 << 0,  /* in result and journal; ends delays of restarts */
    LIFE_DO_REPORT_PAUSE = 1 << 1, /* to journal and observers; likewise the next ones */
    LIFE_DO_ANSWER_PAUSE = 1 << 2, /* answers the pause requests */
    LIFE_DO_REPORT_CONTINUE = 1 << 3,
    LIFE_DO_REPORT_FULL = 1 << 4,
    LIFE_DO_TRY_LATER = 1 << 5, /* starts a timer, which raises SPACE, or FULL again */
    LIFE_DO_REPORT_SPACE = 1 << 6,
    LIFE_DO_ASK_STOP = 1 << 7,      /* asks the driver to stop at the next boundary */
    LIFE_DO_DISCARD_ROUND = 1 << 8, /* reports the loss: no boundary without space */
    LIFE_DO_REFRESH = 1 << 9,       /* observers see the agents before they stop */
    LIFE_DO_END = 1 << 10,  /* ends the driver, and all processes within the deadline */
    LIFE_DO_KILL = 1 << 11, /* ends them at once */
    LIFE_DO_TAKE_CHECKPOINT = 1 << 12, /* if possible; raises CHECKPOINT_TAKEN */
    LIFE_DO_MAKE_CHANGE = 1 << 13,     /* if possible; raises CHANGE_MADE */
    LIFE_DO_WRITE_LAST = 1 << 14,      /* the pending checkpoint of a failure, if any */
    LIFE_DO_UNWATCH = 1 << 15,         /* closes the run's own handles */
    LIFE_DO_CLOSE = 1 << 16,      /* raises CLOSED unless something is being written */
    LIFE_DO_ANSWER_ALL = 1 << 17, /* answers all open requests; closes the observers */
    LIFE_DO_START_AGENTS = 1 << 18,
    LIFE_DO_BUG = 1 << 19, /* the table has no entry: a bug of this program */
};

struct life_step {
    enum life_state next;
    unsigned actions; /* of enum life_action */
};

struct life_step life_fsm_step(enum life_state state, enum life_event event);

/* The driver exists and has not ended: PLAYING to FINISHING_AT_CHANGE. */
int life_state_is_driven(enum life_state state);
int life_state_is_paused(enum life_state state);
/* The processes are being ended, or have ended: the run takes no more requests. */
int life_state_is_ending(enum life_state state);
const char *life_state_name(enum life_state state);
const char *life_event_name(enum life_event event);

#endif
