/* program.h - programs that run beside the workers (proc.h) and send no messages: those of
 * hooks, the launchers of nodes, and what is asked for its output (command_output.h).
 *
 * There are no handles of a loop: the caller polls. Whatever a program started and left in its
 * process group is killed at its end.
 *
 * Threads  the main thread only: the parent-death signal is tied to it.
 */
#ifndef SUPERVISOR_PROC_PROGRAM_H
#define SUPERVISOR_PROC_PROGRAM_H

#include "common/err/err.h"

#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/types.h>

/* 60 of a configuration (command_check_words), and those that a launcher adds to them. */
#define PROGRAM_MAX_WORDS     80
#define PROGRAM_MAX_VARIABLES 8

struct program_spec {
    /* Executes the program, in a session of its own and set up as all children are
     * (agent/launch.h): it dies with the supervisor. From binaries_open_agent. */
    int agent_exe_fd;
    int is_direct; /* instead it is executed directly, in this session, with our environment */
    const char *const *words; /* the program, found by our PATH, with its arguments */
    size_t n_words;
    const char *directory; /* working directory; NULL, if direct: ours */
    const char *input;     /* what it reads from its standard input; NULL: nothing */
    int output_fd;      /* becomes its standard output and error; -1: they are dropped */
    int64_t timeout_ms; /* it is killed after that; 0: never */
    /* "NAME=VALUE"; besides it has only PATH, HOME and the keeper's mark. */
    const char *variables[PROGRAM_MAX_VARIABLES];
    size_t n_variables;
    int has_grace; /* it has KEEPER_GRACE_MARK instead of KEEPER_MARK */
};

struct program {      /* does not move while it runs */
    pid_t pid;        /* 0: none runs */
    int64_t until_ms; /* when it is killed, by monotonic_ms */
    int is_late;      /* it was killed because of that */
    LIST_ENTRY(program) entry;
};

/* Starts it; the descriptors remain the caller's. -errno. */
int program_start(struct program *p, const struct program_spec *spec, struct err *err);
/* 1 if it has exited, with the status as of waitpid; 0: it runs. Kills it if it is late. */
int program_ended(struct program *p, int *ret_status);
/* Sends a signal to the program and its process group. */
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
