/* control_methods.h - what clients may ask of a run: one row per method (README.md). */
#ifndef SUPERVISOR_CONTROL_CONTROL_METHODS_H
#define SUPERVISOR_CONTROL_CONTROL_METHODS_H

#include "supervisor/control/rpc.h"
#include "supervisor/run/training.h"

/* Channels of notifications (rpc.h): CONTROL_LINES carries `message`, `journal` and
 * `row`, CONTROL_EVENTS carries `event` for events of every kind. */
enum { CONTROL_LINES = 1, CONTROL_EVENTS = 2 };

/* What the methods act on: the ctx of rpc_new. Both are borrowed. */
struct control_run {
    struct training *training; /* set before the first request */
    struct run_dir *dir;
};

const struct rpc_method *control_methods(size_t *ret_n);

#endif
