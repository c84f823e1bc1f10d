/* child.h - a command of brood, as a child process of the page's server.
 *
 * What a page wants of a run and the run's supervisor does not do is done by the command of that
 * name: with its checks and its messages.
 *
 * Ends      it is killed when it takes too long, with child_kill, and when the server dies.
 * Priority  the server's, which is low, or that with which the server was begun: a run that a page
 *           resumes is not slower than others. The system gives nobody his priority back, so a
 *           thread that has kept it starts such a command.
 * Threads   the loop's.
 */
#ifndef SUPERVISOR_WEB_CHILD_H
#define SUPERVISOR_WEB_CHILD_H

#include "supervisor/proc/command_output.h"

#include <uv.h>

struct web;

enum child_priority { CHILD_AS_SERVER, CHILD_AS_RUNS };

struct child { /* part of the caller's struct; does not move until `end` */
    struct asked_command command; /* private, as what follows */
    uv_timer_t look;
    enum child_priority priority; /* set by the caller, as `end` */
    /* Once, when the process and all handles are gone: frees what the child is part of. */
    void (*end)(struct child *c);
};

/* The caller's struct, which has the child as its member of that name. */
#define CHILD_OF(type, c) ((type *)((char *)(c)-offsetof(type, child)))

/* To be called once, before the server lowers its priority. */
int children_keep_priority(struct err *err);
/* After it, when no command will be started any more. */
void children_end(void);
/* Starts `brood WORDS...` with that folder of runs; words: the command first, NULL behind the last
 * one, read only now, as the folder. c->end and c->priority are set, the rest is zero. -errno: it was
 * not started, and end is not called. */
int child_begin(struct child *c, struct web *w, const char *runs_dir,
                const char *const *words, int timeout_ms, struct err *err);
void child_kill(struct child *c);
/* The server ends: as child_kill, and waits for the process; end follows on the loop. */
void child_close(struct child *c);
/* In `end`: the last line that it has printed, "" if there is none. NULL: it failed, and err has that
 * line without "brood COMMAND: ", or says that it took too long. command: as "rm". To be called
 * once; valid until child_done. */
const char *child_says(struct child *c, const char *command, struct err *err);
/* Frees what the child has. */
void child_done(struct child *c);

#endif
