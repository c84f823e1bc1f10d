/* control.h - the run's control socket, through which other processes watch and steer a
 * live run.
 *
 * Socket   control.sock in the run's directory (rpc_server.h), from the first agent's
 *          start to the last one's end. README.md lists the methods; control_methods.h has
 *          them for any transport.
 * Time     requests take at most a quarter of the supervisor's time. A run without an
 *          environment has no such limit, because requests are its work.
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
/* The observer to pass to training_run. */
struct training_observer control_observer(struct control *c);

#endif
