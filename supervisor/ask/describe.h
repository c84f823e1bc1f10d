/* describe.h - asks programs, agents that users write, what they are.
 *
 * A program is started as an agent is, answers the one request `describe`, and is ended. What
 * it says is checked and noted (supervisor/describe/programs.h); a program that was asked before
 * is not started again, as long as its words, folder and environment are the same.
 *
 * Threads  main thread, as in ask.h.
 */
#ifndef SUPERVISOR_ASK_DESCRIBE_H
#define SUPERVISOR_ASK_DESCRIBE_H

#include "common/config/run_config.h"

/* A config_describe_fn. It takes no context. */
int describe_program(void *ctx, struct agent_config *a, struct arena *arena,
                     const struct algorithm_info **ret, struct err *err);

/* Asks the programs of a run again. ERR_CONFIG: one is not what the run keeps, and in what it
 * differs first ("--anyway continues"). */
int describe_check_same(const struct run_config *c, struct err *err);

#endif
