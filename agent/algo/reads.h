/* reads.h - the columns of the experience log that an agent reads.
 *
 * On `configure` the algorithm declares them (algo_ops.reads), each with the place where it
 * keeps the column's index. The answer to `configure` names them, so that a machine without
 * the log can be sent these columns alone. The log exists only when all agents have answered;
 * reads_find then sets the places, and reads_restrict hides all other columns of a view: it
 * is a programming error to gather a column that is not declared.
 */
#ifndef AGENT_ALGO_READS_H
#define AGENT_ALGO_READS_H

#include "agent/algo/algo.h"
#include "common/store/store_view.h"

struct read {
    const char *agent; /* NULL: a joint column; borrowed, as the name is */
    const char *name;
    int64_t elements;
    int is_mask; /* a column of bytes that stay bytes */
    int *place;  /* index in the log's layout */
};

struct reads { /* all-zero: none; release with reads_done */
    struct read *list;
    size_t n;
};

void reads_done(struct reads *r);

/* Declares a column of floats, or of bytes that store_view_gather converts to floats. The
 * same column may be declared several times, with several places. */
void reads_add(struct reads *r, const char *agent, const char *name, int64_t elements,
               int *place);
/* Declares a masked agent's column of bytes, "allowed" or "next_allowed". */
void reads_add_mask(struct reads *r, const struct space *agent, const char *name,
                    int *place);
/* Whether the i-th declaration is the first one of its column. */
int reads_is_first(const struct reads *r, size_t i);
/* Its name in the log's layout. */
void reads_name(const struct reads *r, size_t i, char ret[STORE_COLUMN_NAME_MAX]);

/* Sets the places. ERR_NOT_FOUND, ERR_SHAPE: the log has no such column. */
int reads_find(const struct reads *r, const struct store_layout *l, struct err *err);
/* After reads_find: hides all columns but these. */
void reads_restrict(const struct reads *r, struct store_view *store);

#endif
