/* log_merge.h - a run's journal and logs as one text, in the order of time.
 *
 * Order    by the time that a line begins with, as ours do; one without belongs to the
 *          line before it in its file, or, where there is none, comes last.
 * Files    journal and logs/<name>.log; they may come, grow, and be replaced meanwhile.
 */
#ifndef SUPERVISOR_CLI_LOG_MERGE_H
#define SUPERVISOR_CLI_LOG_MERGE_H

#include "supervisor/run/line_reader.h"

#define LOG_LINE_MAX ((size_t)16 << 20)

struct log_source {
    const char *name; /* "journal", "supervisor", an agent's */
    char *path;

    struct line_reader reader; /* private from here on */
    int is_dry;                /* nothing came, last time */
    char *line;                /* the next; NULL: none is here */
    size_t len;
    char time[32];
};

struct log_merge {
    struct log_source **sources;
    size_t n;
    const char *run, *only; /* private */
    struct log_source *handed_out;
};

/* path: the run's, borrowed. only: a source's name, borrowed; NULL: all. */
void log_merge_open(struct log_merge *m, const char *path, const char *only);
void log_merge_close(struct log_merge *m);
/* Sources that have come since are found, and files that were replaced. */
void log_merge_refresh(struct log_merge *m);
/* The next line, valid until the next call; NULL: no further one is there now. last: a
 * line without its newline is one. */
const struct log_source *log_merge_next(struct log_merge *m, int last);

#endif
