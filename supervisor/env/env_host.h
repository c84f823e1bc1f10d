/* env_host.h - the processes of external environments: starts, watches and ends them.
 *
 * A run or an evaluation has one; every vec_env of such an environment is started in it
 * (vec_env_start). Built-in environments need none.
 * Exact    a process that dies is restarted and replays the steps of the dead one; its
 *          observations must be the same as before. If they differ, on_inexact is called
 *          with one line, and from then on the host is not exact.
 * Stop     all processes under one deadline, as agent_table.h says.
 * Owns     nothing but itself: the vec_envs own their processes. They may be freed after
 *          on_stopped.
 * Threads  loop thread = main thread.
 */
#ifndef SUPERVISOR_ENV_ENV_HOST_H
#define SUPERVISOR_ENV_ENV_HOST_H

#include "common/config/run_config.h"
#include "common/err/err.h"
#include "supervisor/proc/agent_table.h"

#include <stddef.h>
#include <stdint.h>
#include <uv.h>

struct env_host; /* opaque */

/* A point of an episode at which the environment fails. The same point of the same episode fails
 * again, whichever copy is in it: it is known by what the environment is a function of. */
struct env_failure {
    uint64_t seed, step; /* the number of the step, from 1; 0: the reset */
    uint32_t sum;        /* checksum of what came before, and of the step's actions */
};

/* An episode that is skipped there (env.on_failure). */
struct env_skip {
    const char *process;
    size_t copy;
    uint64_t episode;
    int is_evaluation;
    struct env_failure at;
    const char *why;
};

struct env_host_args {
    uv_loop_t *loop; /* borrowed */
    int agent_exe_fd; /* the agent executable, which launches external programs; borrowed */
    const char *logs; /* folder for <process>.log; copied; NULL: kept in memory only */
    /* Where process number `process` of n runs (agent_spec.site); NULL: all on this machine. */
    struct worker_site *(*site)(void *ctx, size_t process, size_t n);
    void (*on_event)(void *ctx, const struct agent_event *e, const char *process);
    void (*on_inexact)(void *ctx, const char *line);
    /* A process was given up or sent an invalid answer. No other callback but on_stopped
     * follows. */
    void (*on_failed)(void *ctx, const struct err *why);
    /* An episode is skipped, before the run goes on without it; NULL: nobody is told. */
    void (*on_skipped)(void *ctx, const struct env_skip *s);
    /* The environment does what is hardly meant; once for each kind, in one line. NULL: nobody
     * is told. */
    void (*on_warning)(void *ctx, const char *process, const char *line);
    void (*on_stopped)(
        void *ctx); /* all processes have ended; may be called from env_host_stop */
    void *ctx;
};

struct env_host *env_host_new(const struct env_host_args *args);
void env_host_free(struct env_host *h); /* after the vec_envs; NULL is fine */

/* Idempotent; a shorter deadline replaces a longer one. Nothing can start later. */
void env_host_stop(struct env_host *h, uint64_t deadline_ms);
int env_host_is_exact(const struct env_host *h);
/* Changes the limits of all processes, also of those that are started later, and what follows
 * when an episode fails. */
void env_host_set_limits(struct env_host *h, const struct env_config *config);

/* The journal of the run says that an episode was skipped there: it is skipped again, without a try
 * and whatever env.on_failure is now. What this host skips is known without that. */
void env_host_add_failure(struct env_host *h, const struct env_failure *f);

/* The processes, in the order of their starts. */
size_t env_host_count(const struct env_host *h);
void env_host_info(const struct env_host *h, size_t process, struct agent_info *ret);
int env_host_kill(struct env_host *h, size_t process, struct err *err);
int env_host_respawn(struct env_host *h, size_t process, struct err *err);

/* ---- for the code that starts processes in the host ---- */

const struct env_host_args *env_host_args(const struct env_host *h);
/* Adds the processes of one vec_env, before their start; borrowed. ERR_STATE: the host is
 * stopping. */
int env_host_add(struct env_host *h, struct agent_table *processes, struct err *err);
/* To be called when an added table has failed, is no longer exact, or has stopped. */
void env_host_on_failed(struct env_host *h, const struct err *why);
void env_host_on_inexact(struct env_host *h, const char *line);
void env_host_on_stopped(struct env_host *h);
void env_host_on_skipped(struct env_host *h, const struct env_skip *s);
/* what: the kind, of which only the first is reported; where: an instance. Both short. */
void env_host_on_warning(struct env_host *h, const char *process, const char *what,
                         const char *where);
int env_host_has_failures(const struct env_host *h);
int env_host_is_known(const struct env_host *h, const struct env_failure *f);
/* Whether failing episodes are skipped; configured: what the host's table began with. */
int env_host_skips(const struct env_host *h, enum env_on_failure configured);

#endif
