/* agent.h - the agent program: a child process of the supervisor, one for each agent.
 *
 *     brood-agent agent <parent pid> <name>       descriptors as in protocol.h
 *     brood-agent describe                        prints what its algorithms say of themselves
 *     brood-agent launch <parent pid> [--keep N] -- command [args...]
 *
 * Sends hello, then answers requests until its pipe ends. Graph, session and BLAS are not
 * used before the supervisor's `configure`.
 */
#ifndef AGENT_AGENT_H
#define AGENT_AGENT_H

#include "agent/algo/algo.h"

/* Returns the exit code (enum agent_exit). algorithm: replaces the configured one (for
 * tests); NULL: the configured one. */
int agent_main(int argc, char **argv, const struct algo_ops *algorithm);

#endif
