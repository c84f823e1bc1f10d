/* new_agent.h - for `brood new`: an agent of one's own to start from, and its configuration. */
#ifndef SUPERVISOR_CLI_NEW_AGENT_H
#define SUPERVISOR_CLI_NEW_AGENT_H

#include "common/err/err.h"

#include <stddef.h>

struct new_agent {
    const char *env;        /* id */
    const char *file;       /* of the agent, "my_agent.py" */
    int torch;              /* in PyTorch instead of NumPy */
    int force;              /* replace the files if they exist */
    const char *const *set; /* [n_set] "KEY=VALUE" of the configuration */
    size_t n_set;
};

/* Writes the file, for the kind of actions that the environment has with these values, and beside it
 * the configuration: *ret_config, free(). ERR_CONFIG; ERR_EXISTS: neither is written. */
int new_agent_write(const struct new_agent *a, char **ret_config, struct err *err);

#endif
