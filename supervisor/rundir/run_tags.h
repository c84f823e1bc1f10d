/* run_tags.h - what people note about a run: tags and a note, in its file `tags`.
 *
 *     tag: paper
 *     note: the run of figure 3
 *
 * Lives    beside the run's own files, which never mention it: a run, live or over, can be
 *          tagged at any time, and trains as before.
 * Owns     a run_tags owns its texts.
 */
#ifndef SUPERVISOR_RUNDIR_RUN_TAGS_H
#define SUPERVISOR_RUNDIR_RUN_TAGS_H

#include "common/err/err.h"
#include "supervisor/metrics/json.h"

#include <stddef.h>

enum { RUN_TAGS_MAX = 64, RUN_NOTE_MAX_BYTES = 1000, RUN_TAGS_FILE_MAX_BYTES = 64 << 10 };

struct run_tags {
    char *tag[RUN_TAGS_MAX]; /* in the order in which they were added */
    size_t n;
    char *note; /* one line; NULL: none */
};

/* path: a run's directory, which should be held (beneath.h). A missing file: no tags. Lines
 * that are not understood are ignored. ERR_LIMIT: more than RUN_TAGS_FILE_MAX_BYTES. */
int run_tags_read(struct run_tags *ret, const char *path, struct err *err);
void run_tags_done(struct run_tags *t); /* all-zero is fine */

/* 1 if a tag matches the pattern (fnmatch), which may be a tag. */
int run_tags_match(const struct run_tags *t, const char *pattern);

/* Changes the file as a whole, one caller at a time: removes tags, then adds those that are
 * not there. note NULL: unchanged; "": none. ret: the result. ERR_ARG: a name that is no tag,
 * a note of several lines; ERR_NOT_FOUND: a tag to remove is not there; ERR_LIMIT. */
struct run_tags_change {
    const char *const *add, *const *remove;
    size_t n_add, n_remove;
    const char *note;
};
int run_tags_change(struct run_tags *ret, const char *path,
                    const struct run_tags_change *change, struct err *err);

/* The keys "tags" and "note" of an open object. */
void run_tags_json(const struct run_tags *t, struct json *j);

#endif
