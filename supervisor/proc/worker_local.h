/* worker_local.h - links to workers that are processes of this machine: pipes, a memfd for
 * the block, signals by pidfd, information from /proc.
 *
 * Agents of a program may be forked by a prepared process of it (prepared.h), which the site
 * starts with the first of them.
 *
 * A table has one site for all of its workers here. Orphans that a worker leaves behind are
 * killed and reaped before its exit is reported: every child of this process that no table
 * started, and that is no program of program.h, is treated as one.
 */
#ifndef SUPERVISOR_PROC_WORKER_LOCAL_H
#define SUPERVISOR_PROC_WORKER_LOCAL_H

#include "supervisor/proc/worker_link.h"

struct local_site; /* opaque */

/* For n workers. The descriptors are those of agent_table_new. ERR_LIMIT: n workers need
 * more open files than this process may have. */
int local_site_new(struct local_site **ret, uv_loop_t *loop, int agent_exe_fd, int log_fd,
                   size_t n, struct err *err);
struct worker_site *local_site_base(struct local_site *s);
/* To be called before the first process starts. */
void local_site_open(struct local_site *s);
/* To be called when all processes have exited and none will be started. Calls
 * on_closed(ctx) later. */
void local_site_close(struct local_site *s, void (*on_closed)(void *ctx), void *ctx);
/* After on_closed, or if it was never opened; its links must be closed. NULL is fine. */
void local_site_free(struct local_site *s);
/* Kills the orphans that there are, and returns their number (sweep_adopted). */
size_t local_site_sweep(void);
/* Kills and reaps all descendants of this process, also processes of other tables, but not
 * programs of program.h. */
void local_site_end(void);

#endif
