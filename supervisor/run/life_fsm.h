/* life_fsm.h - the life of a run as a pure table: state x event gives the next state and
 * what to do. No I/O, no memory: training_life.c performs the actions in the order of
 * their bits. An action may raise another event; if that changes the state, the actions
 * left of the first event are dropped.
 *
 *     LOADING -> STARTING -> PLAYING <-> PAUSED, FULL, AT_CHECKPOINT, AT_CHANGE
 *             -> FINISHING (somebody asked for the end)
 *             -> STOPPING (the processes) -> SAVING -> OVER
 *
 * An AT_ state, and FULL, is one in which the driver (rollout.h) has to wait. Pause and
 * checkpoint requests change nothing here until the driver has reached a boundary.
 */
#ifndef SUPERVISOR_RUN_LIFE_FSM_H
#define SUPERVISOR_RUN_LIFE_FSM_H

enum life_state {
    LIFE_LOADING,       /* files are opened; nothing has started */
    LIFE_STARTING,      /* agents configure, graphs and first weights are fetched */
    LIFE_PLAYING,       /* the driver plays rounds */
    LIFE_AT_CHECKPOINT, /* at a boundary until its checkpoint can be taken */
    LIFE_AT_CHANGE,     /* before a round until an agent is back, for a change */
    LIFE_FULL,          /* the disk is full: tried again until the rows fit */
    LIFE_PAUSED,        /* at a boundary until somebody lets it continue */
    LIFE_PAUSED_AT_CHECKPOINT, /* until a checkpoint of that boundary can be taken */
    LIFE_FINISHING,            /* asked to stop: plays to the next boundary */
    LIFE_FINISHING_AT_CHECKPOINT,
    LIFE_FINISHING_AT_CHANGE,
    LIFE_STOPPING,              /* agents and environments are asked to end */
    LIFE_STOPPING_AGENTS,       /* environments have ended */
    LIFE_STOPPING_ENVIRONMENTS, /* agents have ended */
    LIFE_SAVING,                /* all have ended; a checkpoint may still be written */
    LIFE_OVER,
    LIFE_STATE_COUNT,
};

enum life_event {
    LIFE_EV_OPENED, /* observers can steer; agents start next */
    LIFE_EV_DRIVEN, /* everything is loaded; the driver starts next */

    /* from the driver */
    LIFE_EV_PAUSED,           /* it stands still */
    LIFE_EV_FULL,             /* it has no space for its rows */
    LIFE_EV_SPACE,            /* it has found space again */
    LIFE_EV_CHECKPOINT_WAITS, /* the checkpoint of this boundary cannot be taken yet */
    LIFE_EV_CHECKPOINT_TAKEN, /* now it was */
    LIFE_EV_CHANGE_WAITS,     /* the change before this round cannot be made yet */
    LIFE_EV_CHANGE_MADE,      /* now it was */
    LIFE_EV_DONE,             /* it has ended, as planned or as asked */

    /* from people */
    LIFE_EV_CONTINUE,
    LIFE_EV_STOP,    /* in order, at the next boundary */
    LIFE_EV_DELETED, /* the run directory is gone */
    LIFE_EV_CUT_OFF, /* at once: a second signal */

    /* from processes and files */
    LIFE_EV_FAIL,               /* the run cannot go on */
    LIFE_EV_AGENT_READY,        /* an agent can be asked again */
    LIFE_EV_WRITER_FREE,        /* no checkpoint is being written any more */
    LIFE_EV_AGENTS_ENDED,       /* all of them */
    LIFE_EV_ENVIRONMENTS_ENDED, /* all of them; maybe there were none */
    LIFE_EV_CLOSED,             /* everything is written */
    LIFE_EVENT_COUNT,
};

enum life_action {
    LIFE_DO_NOTE_STOP = 1 << 0,    /* result and journal; waiting agents start at once */
    LIFE_DO_SAY_PAUSED = 1 << 1,   /* journal and observers */
    LIFE_DO_ANSWER_PAUSE = 1 << 2, /* those who asked */
    LIFE_DO_SAY_CONTINUE = 1 << 3,
    LIFE_DO_SAY_FULL = 1 << 4,
    LIFE_DO_TRY_LATER = 1 << 5, /* a timer, which raises SPACE, or FULL again */
    LIFE_DO_SAY_SPACE = 1 << 6,
    LIFE_DO_ASK_STOP = 1 << 7,   /* the driver */
    LIFE_DO_LOSE_ROUND = 1 << 8, /* reports it: no boundary is reached without space */
    LIFE_DO_SHOW = 1 << 9,       /* observers see the agents before they stop */
    LIFE_DO_END = 1 << 10,       /* the driver, and all processes within the deadline */
    LIFE_DO_KILL = 1 << 11,      /* the same, at once */
    LIFE_DO_TAKE_CHECKPOINT = 1 << 12, /* if possible; raises CHECKPOINT_TAKEN */
    LIFE_DO_MAKE_CHANGE = 1 << 13,     /* if possible; raises CHANGE_MADE */
    LIFE_DO_WRITE_LAST = 1 << 14,      /* the checkpoint of a failure, if it waits */
    LIFE_DO_UNWATCH = 1 << 15,         /* closes the run's own handles */
    LIFE_DO_CLOSE = 1 << 16,      /* raises CLOSED unless something is being written */
    LIFE_DO_ANSWER_ALL = 1 << 17, /* requests that still wait; observers close */
    LIFE_DO_BUG = 1 << 18,        /* our own mistake */
};

struct life_step {
    enum life_state next;
    unsigned actions; /* of enum life_action */
};

struct life_step life_fsm_step(enum life_state state, enum life_event event);

/* There is a driver, and nothing has ended it: PLAYING to FINISHING_AT_CHANGE. */
int life_state_is_driven(enum life_state state);
int life_state_is_paused(enum life_state state);
/* The processes are being ended, or have ended: nothing can be asked of the run. */
int life_state_is_ending(enum life_state state);
const char *life_state_name(enum life_state state);
const char *life_event_name(enum life_event event);

#endif
