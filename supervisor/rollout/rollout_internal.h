/* rollout_internal.h - the driver's own: what its files share. */
#ifndef SUPERVISOR_ROLLOUT_ROLLOUT_INTERNAL_H
#define SUPERVISOR_ROLLOUT_ROLLOUT_INTERNAL_H

#include "common/rng/rng.h"
#include "common/wire/cursor.h"
#include "supervisor/rollout/acting.h"
#include "supervisor/rollout/description.h"
#include "supervisor/rollout/exchange.h"
#include "supervisor/rollout/rollout.h"
#include "supervisor/rollout/rollout_fsm.h"
#include "supervisor/rollout/row_writer.h"
#include "supervisor/rollout/schedule.h"

/* What performing a state can come to, besides an error. */
enum { DONE_AT_ONCE = 0, WAITS = 1 };

struct runner { /* of stages: an agent, or the central process */
    int stage;  /* that it plays, or that comes after those it has finished */
    int is_at_work;
    size_t core; /* that it plays it on, or has played the one before on */
};

struct rollout {
    struct rollout_args args;        /* its config: as at the beginning */
    const struct run_config *config; /* as it is now */
    const struct env_spec *spec;
    size_t n_agents, copies;          /* A, E */
    const char **names;               /* [A] */
    struct description *descriptions; /* [A] */
    const struct stage_list *stages;  /* of an update: those of the agents that learn */
    uint8_t *plays;                   /* (stages, A): the agent runs the stage */

    struct schedule schedule;
    struct rollout_fsm fsm;
    int over; /* nothing is reported any more */

    struct acting *acting;
    struct row_writer *writer;
    struct exchange *exchange;
    struct evaluation *evaluation; /* NULL: there are none */
    struct serving *serving;       /* NULL: there is an environment */
    double *returns;               /* [A] scratch */

    size_t groups, batch;     /* G, B */
    struct rng_key *rows_key; /* [G] */
    uint64_t *rows;           /* (G, B, 1) of the current update */
    size_t outstanding;       /* responses, of stages or to changes */
    struct runner *runners;   /* [A + 1] in UPDATE, the last the central process */
    int stage_before;         /* the machine's, when UPDATE was entered before */
    size_t n_cores;           /* that the runners have */
    int *cores;               /* [n_cores] their numbers; -1: unknown */

    int full;               /* the state waits for space on the disk ... */
    struct env_step step;   /* ... in STEP to append what came of it */
    struct metrics_row row; /* ... in LOG to write this one */

    uint64_t change_at; /* step of the next planned change; UINT64_MAX: none */
    uint64_t round, env_steps, episodes, updates;
    uint64_t round_began_ns, update_began_ns, checkpoint_ns;
};

uint64_t rollout_now_ns(const struct rollout *r);
/* Reports the first failure; nothing is reported after it. */
void rollout_fail(struct rollout *r, const struct err *err);
/* The state that waited is finished: plays on. Called last in a callback. */
void rollout_resume(struct rollout *r);
/* The cores that agents may compute on. */
void rollout_find_cores(struct rollout *r);
/* Sends the requests of the stage the machine is in. WAITS, DONE_AT_ONCE or an error. */
int rollout_enter_update(struct rollout *r, struct err *err);
/* The state that is entered can be gone on from: what it begins with is kept. */
void rollout_keep(struct rollout *r);
/* Once evaluations are wanted, there is what plays them. */
int rollout_make_evaluation(struct rollout *r, struct err *err);
/* Whose rows are drawn, and how: as the configuration says. */
void rollout_make_row_keys(struct rollout *r);
/* After a step: the change planned for this boundary, if any, is due. */
void rollout_note_change(struct rollout *r);
int rollout_enter_change(struct rollout *r, struct err *err);

/* ---- rollout_serve.c ---- */

void rollout_serve_init(struct rollout *r);
void rollout_serve_free(struct rollout *r);
void rollout_serve_save(const struct rollout *r, struct wbuf *b);
void rollout_serve_load(struct rollout *r, struct cursor *c);
/* Enters ACT: until something is due at a boundary. WAITS or DONE_AT_ONCE. */
int rollout_serve(struct rollout *r);
/* Enters STEP: a boundary. */
void rollout_serve_boundary(struct rollout *r);
/* Those who wait are told why nobody will answer; NULL: the run is over. */
void rollout_serve_end(struct rollout *r, const struct err *why);

#endif
