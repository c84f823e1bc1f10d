/* row_source.h - the rows of the log that an update learns from.
 *
 * Kinds    as the agents declare them in their answer to `configure` (protocol.h):
 *          transitions  (G,B,L): B rows, drawn evenly from the window with replacement, each
 *                       with the L-1 rows that follow it in its episode;
 *          episodes     (1 or A,B,L): B of the window's complete episodes, drawn evenly with
 *                       replacement, at most L rows of each from its beginning;
 *          window       (1,E,T): the newest E * T rows, row e being copy e in the order of
 *                       time; T = update_every / E. Nothing is drawn, rows are used once.
 *          With priorities (priorities.h), transitions and episodes are drawn by them, and
 *          have weights.
 *          Where an episode or the log ends early: ROW_NONE (store_view.h).
 * Draws    key (seed, name, rows): the name is the group's or, of a batch of its own, the
 *          agent's; counter: the group's update.
 */
#ifndef SUPERVISOR_ROLLOUT_ROW_SOURCE_H
#define SUPERVISOR_ROLLOUT_ROW_SOURCE_H

#include "common/config/algorithms.h"
#include "common/rng/rng.h"
#include "supervisor/store/episodes.h"
#include "supervisor/store/priorities.h"
#include "supervisor/store/store.h"

#include <stddef.h>
#include <stdint.h>

struct row_source {
    enum rows_kind kind;
    size_t groups, batch, length; /* G, B, L */
    struct rng_key *keys;         /* [G] */
    uint64_t *rows;               /* (G, B, L) of the current update */
    float *weights;               /* (G, B) of the current update; NULL: all 1 */
    uint64_t *beginnings;         /* (B) scratch; NULL: rows are drawn evenly */
};

/* What is needed to find rows. */
struct row_index {
    const struct store *store;
    const struct episodes *episodes; /* NULL if not needed */
    struct priorities *priorities;   /* NULL: rows are drawn evenly */
    double beta;
};

struct row_source_args {
    enum rows_kind kind;
    size_t length; /* as declared */
    size_t batch;  /* experience.batch_size; not for a window */
    size_t copies, update_every;
    uint64_t max_steps; /* of an episode; 0: unlimited */
    uint64_t seed;
    /* G names, each with its own draws. */
    const char *const *names;
    size_t groups;
    int is_prioritised;
};

/* An all-zero struct is an empty source; what *s had before is released. ERR_CONFIG says
 * what does not fit. */
int row_source_init(struct row_source *s, const struct row_source_args *args,
                    struct err *err);
void row_source_done(struct row_source *s);
/* Whether episodes_add is needed. */
int row_source_needs_episodes(const struct row_source *s);
/* Whether there are rows to learn from. */
int row_source_is_ready(const struct row_source *s, const struct row_index *index);
/* Fills `rows` and `weights`; the source must be ready. */
void row_source_draw(struct row_source *s, const struct row_index *index,
                     uint64_t update);
/* Sets priorities from the errors that agents answered: answers (A, B), which may change;
 * has [A]: 1 if the agent answered. If there is one batch, a row gets the largest answer
 * of all agents; otherwise agent a's answers are for batch a, and are set in the order of
 * agents. */
void row_source_prioritise(const struct row_source *s, struct priorities *priorities,
                           float *answers, const uint8_t *has, size_t n_agents);

#endif
