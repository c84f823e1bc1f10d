/* call_kinds.h - the kinds of system calls that `calls` counts and lets fail. */
#ifndef TESTS_SUPPORT_CALL_KINDS_H
#define TESTS_SUPPORT_CALL_KINDS_H

#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/types.h>

/* What describes a call in a trace, and whether it changes a file. */
enum call_object { CALL_OF_NOTHING, CALL_OF_FD, CALL_OF_PATH, CALL_OF_PATH_AT };

struct call {
    const char *kind; /* "pwrite" */
    int nr;
    enum call_object object; /* in its first argument, or the second one after a folder */
    int changes;             /* it changes files, if its object is one */
};

extern const struct call calls[];
extern const size_t n_calls;

/* The row of a call with these arguments; NULL: none. The flags of openat2 are in the memory of
 * the process: of one that cannot be looked into, each is `openat`. */
const struct call *call_find(const struct seccomp_data *data, pid_t pid);

#endif
