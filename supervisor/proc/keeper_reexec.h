/* keeper_reexec.h - lets a keeper whose supervisor died execute itself again: with the same
 * command line, and with the keeper_task in its environment, as
 *
 *     BROOD_KEEPER_AGAIN=<deaths>@<from>@<committed>@<place>@<folder>@<path>
 *
 * All memory is allocated by keeper_reexec_init, before the supervisor is forked.
 */
#ifndef SUPERVISOR_PROC_KEEPER_REEXEC_H
#define SUPERVISOR_PROC_KEEPER_REEXEC_H

#include "supervisor/proc/keeper.h"

struct keeper_reexec {
    char variable[PATH_MAX + 128];
    char **environment; /* that variable and those of this process */
};

void keeper_reexec_init(struct keeper_reexec *a);
void keeper_reexec_done(struct keeper_reexec *a);
/* Returns only if execve failed. argv: the whole command line. */
void keeper_reexec(struct keeper_reexec *a, char *const *argv,
                   const struct keeper_task *task);

#endif
