/* rollout_internal.h - the driver's struct and the functions that its files share. */
#ifndef SUPERVISOR_ROLLOUT_ROLLOUT_INTERNAL_H
#define SUPERVISOR_ROLLOUT_ROLLOUT_INTERNAL_H

#include "common/rng/rng.h"
#include "common/wire/cursor.h"
#include "supervisor/rollout/acting.h"
#include "supervisor/rollout/description.h"
#include "supervisor/rollout/due.h"
#include "supervisor/rollout/exchange.h"
#include "supervisor/rollout/learning_groups.h"
#include "supervisor/rollout/rollout.h"
#include "supervisor/rollout/rollout_fsm.h"
#include "supervisor/rollout/row_source.h"
#include "supervisor/rollout/row_writer.h"
#include "supervisor/rollout/sharing.h"
#include "supervisor/rollout/update_plan.h"

/* What a state's function returns, besides an error. */
enum { DONE_AT_ONCE = 0, WAITS = 1 };

struct runner { /* a process that runs stages: an agent, the central process, or a ps */
    int stage;  /* the stage that it runs; if idle, the one after those it has finished */
    int is_at_work;
    size_t core; /* index into cores: of this stage, or if idle, of the one before */
};

/* A group that shares parameters. Its steps, one for each pass through a range of stages,
 * are numbered, so that each has a slot of its memory (common/store/share_ring.h). */
struct group {
    struct description description; /* of its ps */
    uint64_t slots, step;
    int has_stepped; /* the ps has answered a stage of this pass */
};

/* A group of agents that learn together (learning_groups.h), and its updates. */
struct learners {
    struct update_interval interval;
    uint64_t updates; /* finished ones */
    uint64_t due;     /* at this boundary: it takes part in the last `due` updates */
    int takes_part;   /* in the current update */
    struct row_source source;
    struct priorities *priorities; /* NULL: rows are drawn evenly */
    float *answered;               /* (A, B) priorities answered in this update */
    uint8_t *has_answered;         /* [A] 1: the agent answered priorities */
    uint32_t *order;               /* [A] agents in the order of their turns */
};

struct rollout {
    struct rollout_args args;        /* args.config: the configuration at the start */
    const struct run_config *config; /* the current configuration */
    const struct env_spec *spec;
    size_t n_agents, copies;          /* A, E */
    const char **names;               /* [A] */
    struct description *descriptions; /* [A] */
    uint8_t *reads; /* [processes of the table, columns of the log]: 1 if it reads it */
    struct learning_groups groups;
    struct update_plan plan;   /* of an update */
    struct learners *learners; /* [groups.n] */

    struct intervals intervals;
    struct rollout_fsm fsm;
    int over; /* the last callback has been called */

    struct acting *acting;
    struct row_writer *writer;
    struct exchange *exchange;
    struct evaluation *evaluation;    /* NULL: none is configured */
    struct env_config evaluation_env; /* the evaluation's; borrows from the run's */
    struct verdict verdict;           /* what follows from the evaluations so far */
    struct serving *serving;          /* NULL: the run has an environment */
    struct serving *looking;          /* NULL: it has none */
    double *returns;                  /* [A] scratch */
    double *env_metrics;              /* [M] scratch */

    struct episodes *episode_rows; /* NULL: no source needs them */
    uint8_t *ended;                /* (E) scratch: the copies whose episode is over */
    size_t outstanding;            /* unanswered requests of stages or changes */
    /* [A + 1 + groups] in UPDATE: the learners, the central process, the ps of each group */
    struct runner *runners;
    struct sharing sharing;
    struct group *sharing_groups; /* [sharing.n_groups] */
    size_t first_ps;              /* place of the first ps in the table of agents */
    int stage_before;             /* fsm.stage when UPDATE was last entered */
    size_t n_cores;               /* runners that may compute at the same time */
    int *cores;                   /* [n_cores] CPU numbers; -1: unknown */

    int full;               /* the current state waits for disk space: */
    struct env_step step;   /* in STEP, to append the rows of this step */
    struct metrics_row row; /* in LOG, to write this row */

    uint64_t change_at; /* step of the next planned change; UINT64_MAX: none */
    uint64_t round, env_steps, episodes, updates;
    uint64_t round_began_ns, update_began_ns, checkpoint_ns;
};

uint64_t rollout_now_ns(const struct rollout *r);
/* Calls on_failed with the first failure; later ones are ignored. */
void rollout_fail(struct rollout *r, const struct err *err);
/* Finishes the state that waited and continues. Call it last in a callback. */
void rollout_resume(struct rollout *r);
/* Reads what each group shares from the descriptions; checks that its members agree. */
int rollout_find_groups(struct rollout *r, struct err *err);
/* Fills cores with the CPUs that agents may compute on. */
void rollout_find_cores(struct rollout *r);
/* Sends the requests of the current stage. WAITS, DONE_AT_ONCE or an error. */
int rollout_enter_update(struct rollout *r, struct err *err);
/* Keeps the agents' blocks and the metrics as they are on entering a state, so that a
 * checkpoint made after a failure can resume from there. */
void rollout_keep(struct rollout *r);
/* Creates r->evaluation if the configuration asks for evaluations. */
int rollout_make_evaluation(struct rollout *r, struct err *err);
/* What is due at a boundary, with the length of the run that is in force there. */
struct due rollout_due(struct rollout *r, const struct due_at *now);
/* After a step: makes the change planned for this boundary, if any, due. */
void rollout_note_change(struct rollout *r);
int rollout_enter_change(struct rollout *r, struct err *err);

/* ---- rollout_learners.c ---- */

int rollout_make_learners(struct rollout *r, struct err *err);
void rollout_free_learners(struct rollout *r);
/* Makes each group's source of rows and its interval from the current configuration. */
int rollout_make_sources(struct rollout *r, struct err *err);
/* Finds how many updates of each group are due; returns the largest number. */
uint64_t rollout_find_due(struct rollout *r, const struct due_at *now);
/* At the beginning of an update: finds the groups that take part and draws their rows. */
void rollout_draw(struct rollout *r);
/* At the end of an update: sets the priorities that were answered, counts the update. */
void rollout_count_update(struct rollout *r);
/* Adds candidates for draws by priority: the new rows or, if episodes are drawn, the
 * first rows of those that are complete now. */
void rollout_add_to_priorities(struct rollout *r);
/* For a run that begins to draw by priority: all rows of the window get the same one. */
void rollout_begin_priorities(struct rollout *r);
/* left: the work left at the boundary. load: 0 if the bytes do not fit these groups. */
void rollout_save_learners(const struct rollout *r, const struct due *left,
                           struct wbuf *b);
int rollout_load_learners(struct rollout *r, const struct due *left, struct cursor *c);

/* ---- rollout_serve.c ---- */

void rollout_serve_init(struct rollout *r);
void rollout_serve_free(struct rollout *r);
void rollout_serve_save(const struct rollout *r, struct wbuf *b);
void rollout_serve_load(struct rollout *r, struct cursor *c);
/* Performs ACT: serves requests until a boundary is due. WAITS or DONE_AT_ONCE. */
int rollout_serve(struct rollout *r);
/* Performs STEP: sets what is due at the boundary. */
void rollout_serve_boundary(struct rollout *r);
/* The number of writing requests that agents are busy with; each makes a step once it is
 * answered. */
uint64_t rollout_serve_writing(const struct rollout *r);
/* The present step has no checkpoint after all. */
void rollout_serve_unsaved(struct rollout *r);
/* With an environment: sends the requests that only fetch. Returns 1 if agents are busy
 * with them; rollout_begin_acting is called after the last answer. */
void rollout_look_init(struct rollout *r);
int rollout_look(struct rollout *r);
/* Whether the event is deferred, because agents are busy with such requests in a pause.
 * After the last answer, rollout_request_events gets the deferred events. */
int rollout_look_defers(struct rollout *r, int event);
void rollout_begin_acting(struct rollout *r);
struct rollout_events {
    int n;
    int list[ROLLOUT_EVENT_COUNT]; /* enum rollout_event */
};
/* In their order, but a checkpoint last. */
void rollout_request_events(struct rollout *r, const struct rollout_events *events);
/* Answers all queued requests with the error `why`; NULL: the run is over. */
void rollout_serve_end(struct rollout *r, const struct err *why);

#endif
