/* limits.h - the largest numbers of agents, environment processes, parameters of a plugin and
 * observations of env.stack, and the length of agents' names. */
#ifndef COMMON_CONFIG_LIMITS_H
#define COMMON_CONFIG_LIMITS_H

#define AGENT_MAX_COUNT   4096
#define ENV_MAX_PROCESSES 1024
#define AGENT_NAME_MAX    64 /* bytes, with the terminator; [A-Za-z0-9_.-] */
#define PLUGIN_MAX_PARAMS 256
#define ENV_MAX_STACK     64

#endif
