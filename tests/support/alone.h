/* alone.h - the only place where tests let calls fail that could make a program do harm.
 *
 * A program whose fork has failed may signal whatever the wrong number names, fill a disk or
 * wait for ever. So failures are injected only in a PID namespace of their own, from which no
 * other process can be signalled, and under a user id that no process outside has, to which
 * limits such as RLIMIT_NPROC apply alone. Everything that is started there dies with the first
 * process there, and that with the caller.
 *
 * Every injector calls alone_fault first, and refuses to run unless it returns NULL. Making such
 * a place needs root: without, a test is skipped, and says so.
 */
#ifndef TESTS_SUPPORT_ALONE_H
#define TESTS_SUPPORT_ALONE_H

enum { ALONE_WHY_BYTES = 256 };

struct alone_result {
    int is_possible; /* 0: there is no such place on this machine; `why` says why */
    int status;      /* of the process that ran fn, as of waitpid(2) */
    int n_left;      /* processes that outlived it by more than ALONE_LEFT_MS; now dead */
    char why[ALONE_WHY_BYTES]; /* or the names of the processes left */
};
#define ALONE_LEFT_MS 10000

/* Calls fn in a new process of such a place, which exits with what fn returns, and waits for the
 * end. No thread may exist. */
void alone_run(struct alone_result *ret, int (*fn)(void *ctx), void *ctx);

/* NULL if the caller runs in such a place; otherwise the reason why it may not let anything
 * fail. */
const char *alone_fault(void);

#endif
