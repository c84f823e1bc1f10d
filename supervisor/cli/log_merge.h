/* log_merge.h - merges a run's journal and logs into one text in the order of time.
 *
 * Order    by the time at the beginning of each line. A line without a time follows the
 *          line before it in its file; if there is none, it comes last.
 * Files    journal and logs/<name>.log. Files may appear, grow and be replaced while they
 *          are read.
 */
#ifndef SUPERVISOR_CLI_LOG_MERGE_H
#define SUPERVISOR_CLI_LOG_MERGE_H

#include "supervisor/run/line_reader.h"

#define LOG_LINE_MAX ((size_t)16 << 20)

struct log_source {
    const char *name; /* "journal", "supervisor" or an agent's name */
    char *path;

    struct line_reader reader; /* private from here on */
    int is_dry;                /* the last read returned nothing */
    char *line;                /* the next line; NULL: none was read yet */
    size_t len;
    char time[32];
};

struct log_merge {
    struct log_source **sources;
    size_t n;
    const char *run, *only; /* private */
    struct log_source *handed_out;
};

/* path: the run's directory. only: the one source to read; NULL: all. Both are borrowed. */
void log_merge_open(struct log_merge *m, const char *path, const char *only);
void log_merge_close(struct log_merge *m);
/* Looks for new sources, and reopens files that were replaced. */
void log_merge_refresh(struct log_merge *m);
/* Returns the source of the next line, which is valid until the next call; NULL if there is
 * no further line yet. last: also accept a final line without a newline. */
const struct log_source *log_merge_next(struct log_merge *m, int last);

#endif
