/* agent_config.h - the configuration of one agent, from the YAML text of its section. */
#ifndef TESTS_SUPPORT_AGENT_CONFIG_H
#define TESTS_SUPPORT_AGENT_CONFIG_H

#include "common/config/run_config.h"

/* Reads the section as `defaults` of a run's configuration, in the same way as the program
 * reads a file: the result is ret->defaults, without a name. run_config_done releases it. On
 * failure nothing has to be released. */
int agent_config_from_text(struct run_config *ret, const char *section, struct err *err);

#endif
