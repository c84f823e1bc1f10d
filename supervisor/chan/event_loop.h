/* event_loop.h - opens an event loop, with an error where libuv would abort the process.
 *
 * Threads  libuv starts its pool of threads with the first work, and aborts if the machine has no
 *          room for them (ulimit -u). event_loop_start_threads finds that out before, and then starts
 *          them: call it at the beginning, while an error can still be reported.
 */
#ifndef SUPERVISOR_CHAN_EVENT_LOOP_H
#define SUPERVISOR_CHAN_EVENT_LOOP_H

#include "common/err/err.h"

#include <uv.h>

/* After an error, the loop need not be closed. */
int event_loop_open(uv_loop_t *loop, struct err *err);
/* Runs the loop until the threads work: it must not have handles yet. */
int event_loop_start_threads(uv_loop_t *loop, struct err *err);

#endif
