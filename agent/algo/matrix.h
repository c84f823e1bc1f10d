/* matrix.h - what the networks of a stage are fed: matrices of a batch's rows, declared once.
 *
 *     m = matrix_new(all, 0);
 *     matrix_add_obs(m, NEXT, agent);
 *     matrix_add_id(m, &id);
 *     matrix_add_output(m, agent, "action", U, 1);
 *
 * A matrix is (n, width) floats, n the rows of the batch at hand (kit.h), width the sum of
 * the blocks that were added to it, side by side. From the declarations follow the columns of
 * the log that the agent reads (reads.h). batch_take() gathers a matrix when it is first used:
 * blocks that are adjacent in the log in one pass over the rows, then each is shown under the
 * rows' symmetries (symmetry.h). Rows of the log never change, so what was gathered for the
 * rows of an update is not gathered again for its next stage.
 *
 * Filled   A matrix without blocks is its owner's: it has the numbers that were put there last,
 *          of whichever rows they were.
 * Memory   64-byte aligned, kept from update to update; it grows with the largest batch.
 */
#ifndef AGENT_ALGO_MATRIX_H
#define AGENT_ALGO_MATRIX_H

#include "agent/algo/algo.h"
#include "agent/algo/seen.h"

struct matrix; /* opaque */

#define ROW_NOT_REQUESTED UINT32_MAX

/* At a row of the log, or after it. */
enum when { NOW, NEXT };

/* All matrices of an algorithm. All-zero: none; release with matrices_done. */
struct matrices {
    const struct space *agents; /* borrowed */
    size_t self;
    struct matrix **list;
    size_t n;
    /* What the newest batch is about: matrices that were gathered at this `generation` hold
     * its rows, as they were shown at `draw`. */
    uint64_t generation, draw;
    struct symmetry *symmetry;
    uint64_t *rows;
    size_t n_rows, room, sequences;
};

/* The rows of a batch. */
struct gathering {
    const struct stage_args *args;
    struct symmetry *symmetry; /* that they are shown under; NULL: as stored */
    uint64_t draw;             /* the counter of its draw */
    const uint64_t *rows;      /* [n] of the log */
    size_t n;
    /* [n] of each row among the request's, or ROW_NOT_REQUESTED; NULL: in their order. */
    const uint32_t *place;
    int64_t group; /* whose part of outputs is meant */
    /* The rows are those of so many sequences of equal length, each of which is shown under one
     * symmetry; 0: they are single rows. */
    size_t sequences;
    int in_time; /* 1: row t sequences + b is step t of sequence b; 0: (sequences, steps) */
};
/* Which rows of a batch of n are step t of sequence b: b of_sequence + t of_step. Single rows are
 * sequences of one step. */
struct row_layout {
    int64_t batch, length; /* B, L */
    int64_t of_sequence, of_step;
};
static inline struct row_layout row_layout_of(int64_t n, int64_t sequences, int in_time)
{
    const int64_t batch = sequences > 0 ? sequences : n;
    const int64_t length = batch > 0 ? n / batch : 0;

    return in_time ? (struct row_layout){batch, length, 1, batch}
                   : (struct row_layout){batch, length, length, 1};
}

void matrices_done(struct matrices *all);
/* Declares the columns that are gathered. */
void matrices_reads(struct matrices *all, struct reads *r);
/* A batch with these rows begins: what was gathered for others, or was sent with another
 * request, is no longer used. */
void matrices_begin(struct matrices *all, const struct gathering *g);

/* Blocks are added to it; or, with a width, its owner fills it with numbers of its own. */
struct matrix *matrix_new(struct matrices *all, int64_t width);
int64_t matrix_width(const struct matrix *m);
void matrix_add_obs(struct matrix *m, enum when when, size_t agent);
void matrix_add_action(struct matrix *m, size_t agent);
/* A column of that name which agents add to the log, of numbers like their actions. */
void matrix_add_actions_in(struct matrix *m, size_t agent, const char *column);
/* Of sequences in the order of time: the observation at a row, or where there is none, what
 * followed the row before it; and the action of the row before. 0 where that is none, too. */
void matrix_add_obs_through(struct matrix *m, size_t agent);
void matrix_add_action_before(struct matrix *m, size_t agent);
/* A column of one number, such as "reward"; not turned. agent MATRIX_ALL: of no agent. */
#define MATRIX_ALL SIZE_MAX
void matrix_add_column(struct matrix *m, size_t agent, const char *name);
void matrix_add_columns(struct matrix *m, size_t agent, const char *name, int64_t width);
void matrix_add_id(struct matrix *m, const struct agent_id *id);
/* An output of an earlier stage; 0 for rows that are not among the request's. */
enum output_kind {
    OUTPUT_NUMBERS,
    OUTPUT_ACTION, /* turned if the agent that sent it saw the rows as they are stored */
    OUTPUT_IF_SENT /* 0 of an agent that sent none */
};
void matrix_add_output(struct matrix *m, size_t agent, const char *name, int64_t width,
                       enum output_kind kind);
/* Part `part` of an output of the central process, of one number a row. */
void matrix_add_central(struct matrix *m, const char *name, size_t part, size_t parts);
/* What another matrix holds. */
void matrix_add_copy(struct matrix *m, struct matrix *of);
/* The observations of those that a critic sees, with the id (seen.h). */
void matrix_add_seen(struct matrix *m, enum when when, const struct seen *seen);
/* A matrix of the own agent's possible choices, 1 or 0: (n, U) of each head's, or (n, choices)
 * of all combinations (choices.h). choices 0: the former. */
struct matrix *matrix_of_masks(struct matrices *all, enum when when, int32_t choices);
/* (n, choices) the combination of heads that `action` is, one-hot. */
struct matrix *matrix_of_choices(struct matrices *all, struct matrix *action,
                                 int32_t choices);
/* Both have the same memory: only the one that was taken last holds its numbers. */
void matrix_share_memory(struct matrix *m, struct matrix *with);

/* For kit.c. Room for n rows, without numbers; NULL: no memory. */
float *matrix_room(struct matrix *m, size_t n, struct err *err);
/* Fills a matrix of masks with those of a request to act, (n, U) or NULL; NULL: no memory. */
float *matrix_put_masks(struct matrix *m, const uint8_t *allowed, size_t n,
                        struct err *err);
/* The masks that it was gathered from, (n, U). */
const uint8_t *matrix_masks(const struct matrix *m);
/* The numbers themselves: gathers what is not there. */
int matrix_take(struct matrix *m, const struct gathering *g, float **ret,
                struct err *err);
/* Its owner has changed the numbers: they are gathered anew when they are next taken. */
void matrix_spoil(struct matrix *m);

#endif
