/* patience.h - how long a thread reads what belongs to other users.
 *
 * In a folder that several users share, a neighbour's run may hold files as large as files
 * can be, endless folders, or a socket that never comes to an end. A command that looks at
 * runs has a few seconds for all runs of others together; its own runs, and root's, may take
 * as long as they need.
 *
 * Use      patience_begin once; patience_enter and patience_leave around the work on one
 *          run; loops over what a run contains ask patience_check, and give up with
 *          ERR_TIMEOUT. Without patience_begin, nothing is limited.
 * Threads  each has its own.
 */
#ifndef COMMON_IO_PATIENCE_H
#define COMMON_IO_PATIENCE_H

#include "common/err/err.h"

/* Gives this thread ms milliseconds from now on; 0: no limit. */
void patience_begin(int ms);
/* dir: a run's directory, held (beneath.h) or not. The time until patience_leave counts if
 * it belongs to another user. Calls may be nested; the outermost decides. */
void patience_enter(const char *dir);
void patience_leave(void);
/* ERR_TIMEOUT: this thread works on another user's run, and its time is used up. */
int patience_check(struct err *err);
/* How long patience_check will succeed, if nothing else is done: for poll. INT_MAX: no
 * limit. */
int patience_left_ms(void);
/* On how many runs patience_check has failed; one that was entered several times in a row
 * counts once. */
int patience_n_given_up(void);

#endif
