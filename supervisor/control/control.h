/* control.h - the run's control socket: how others look at a live run and steer it.
 *
 * Socket   control.sock in the run's directory (rpc_server.h), from the first agent's
 *          start to the last one's end. README.md lists the methods; control_methods.h has
 *          them for any transport.
 * Time     requests take at most a quarter of the supervisor's time, but for a run without
 *          an environment, whose work they are.
 * Threads  loop thread only.
 */
#ifndef SUPERVISOR_CONTROL_CONTROL_H
#define SUPERVISOR_CONTROL_CONTROL_H

#include "supervisor/run/training.h"

#define CONTROL_SOCKET "control.sock"

struct control; /* opaque */

/* For one run; dir is borrowed. */
struct control *control_new(struct run_dir *dir);
void control_free(struct control *c); /* after training_run */
/* To be handed to training_run. */
struct training_observer control_observer(struct control *c);

#endif
