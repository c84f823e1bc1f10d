/* program.h - short-lived programs that the supervisor starts beside its workers (proc.h),
 * and that send it no messages.
 *
 * A program runs in a session of its own and is set up as all children are (agent/launch.h):
 * it dies with the supervisor. The caller gives it files, so there are no pipes and no
 * handles of a loop: the caller polls.
 *
 * Threads  the main thread only: the parent-death signal is tied to it.
 */
#ifndef SUPERVISOR_PROC_PROGRAM_H
#define SUPERVISOR_PROC_PROGRAM_H

#include "common/err/err.h"

#include <stddef.h>
#include <sys/queue.h>
#include <sys/types.h>

/* 60 of a configuration (command_check_words), and those that a launcher adds to them. */
#define PROGRAM_MAX_WORDS     80
#define PROGRAM_MAX_VARIABLES 8

struct program_spec {
    int agent_exe_fd;         /* binaries_open_agent; it executes the program */
    const char *const *words; /* the program, found by our PATH, with its arguments */
    size_t n_words;
    const char *directory; /* working directory */
    int input_fd;          /* becomes its standard input */
    int output_fd;         /* becomes its standard output and error */
    /* "NAME=VALUE"; besides it has only PATH, HOME and the keeper's mark. */
    const char *variables[PROGRAM_MAX_VARIABLES];
    size_t n_variables;
    int has_grace; /* it has KEEPER_GRACE_MARK instead of KEEPER_MARK */
};

struct program { /* does not move while it runs */
    pid_t pid;   /* 0: none runs */
    LIST_ENTRY(program) entry;
};

/* Starts it; the descriptors remain the caller's. -errno. */
int program_start(struct program *p, const struct program_spec *spec, struct err *err);
/* 1 if it has exited: what it started and left in its session is killed, and *ret_status is
 * the status as of waitpid. 0: it runs. */
int program_ended(struct program *p, int *ret_status);
/* Sends a signal to the program and its session's first process group. */
void program_signal(const struct program *p, int signum);
/* program_signal with SIGKILL. */
void program_kill(const struct program *p);
/* Copies those variables of this process's environment, "NAME=VALUE", that begin with one of
 * `passed`, "NAME=", to ret, and returns how many, at most n_passed. They are borrowed. */
size_t program_pass_variables(const char *const *passed, size_t n_passed, char **ret);
/* Adds those variables to the spec's, as far as there is room. */
void program_spec_pass(struct program_spec *spec, const char *const *passed,
                       size_t n_passed);
/* Whether pid is a program that was started here and is not reaped. */
int program_is_known(pid_t pid);

#endif
