/* child.h - executes a program in a new process, without a copy of this one's memory.
 *
 * A fork copies the page tables of the supervisor, which is the more the more agents it has. So
 * the child shares this process's memory until it executes (posix_spawn), and this process waits
 * until then. No signal is blocked or ignored in the program.
 */
#ifndef SUPERVISOR_PROC_CHILD_H
#define SUPERVISOR_PROC_CHILD_H

#include <stddef.h>
#include <sys/types.h>

enum child_kind {
    CHILD_OF_SESSION, /* leads a session of its own, and a group that can be killed */
    CHILD_OF_GROUP,   /* leads a group in this session */
};

/* Descriptors that a child has by number; -1: /dev/null below 3, otherwise none. */
#define CHILD_MAX_FDS 16

struct child_spec {
    enum child_kind kind;
    const char *file;               /* a path, or a name that is looked for in our PATH */
    char *const *args, *const *env; /* NULL-terminated; args[0] is the program's name */
    const char *directory;          /* NULL: ours */
    const int *fds;                 /* [n_fds] of this process, with O_CLOEXEC */
    size_t n_fds;
};

/* Returns an errno, or 0 once the program has been executed. */
int child_spawn(pid_t *ret, const struct child_spec *spec);

#endif
