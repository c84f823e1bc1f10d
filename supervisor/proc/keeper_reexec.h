/* keeper_again.h - how a keeper whose supervisor died executes itself anew: with the same
 * command line, and what it is to go on with in its environment, as
 *
 *     BROOD_KEEPER_AGAIN=<deaths>@<from>@<stands>@<place>@<path>
 *
 * It is made ready before there is a supervisor; from then on nothing is allocated.
 */
#ifndef SUPERVISOR_PROC_KEEPER_AGAIN_H
#define SUPERVISOR_PROC_KEEPER_AGAIN_H

#include "supervisor/proc/keeper.h"

struct keeper_again {
    char variable[PATH_MAX + 128];
    char **environment; /* the variable, and this process's own */
};

void keeper_again_init(struct keeper_again *a);
void keeper_again_done(struct keeper_again *a);
/* Returns if that failed. argv: the whole command line. */
void keeper_again_execute(struct keeper_again *a, char *const *argv,
                          const struct keeper_task *task);

#endif
