/* replay_print.h - collects what a replay shows of a round, and prints it when the replay is
 * known to equal the run, or has failed for another reason than a difference.
 *
 * Order    by process; of each, in the order in which it was asked.
 * Text     a line of where each value comes from, then the array as `brood inspect` prints
 *          it. JSON: one object per line.
 */
#ifndef SUPERVISOR_CLI_REPLAY_PRINT_H
#define SUPERVISOR_CLI_REPLAY_PRINT_H

#include "common/store/layout.h"
#include "supervisor/rollout/probe.h"

struct replay_item;

struct replay_view {
    struct replay_item *items; /* private */
    size_t n, cap;
    int with_requests; /* show them, too */
    const char *agent; /* show only this process; NULL: all of them */
    char *ends;        /* a result that would have ended the run; NULL: none */
    char *ends_agent;  /* private */
    /* rows of the log that the requests name: their numbers, and a JSON line of each
     * (private) */
    uint64_t *rows;
    char **row_lines;
    size_t n_rows;
};

/* The probe with the callbacks that collect; the caller adds what to fetch. */
struct probe replay_view_probe(struct replay_view *v);
/* Reads the rows that the requests name; to be called when the replay is over. */
void replay_view_read_rows(struct replay_view *v, const struct store_layout *layout,
                           int fd);
void replay_view_print(struct replay_view *v, int json);
/* How many values of that tensor were collected. */
size_t replay_view_count(const struct replay_view *v, const char *name);
/* Writes all values as an .npz; their names are AGENT/STAGE/UPDATE.PASS.RUN/TENSOR. */
int replay_view_write(struct replay_view *v, const char *path, struct err *err);
void replay_view_done(struct replay_view *v);

#endif
