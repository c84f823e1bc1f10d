/* agent.h - the agent program: a child of the supervisor, one process per node.
 *
 *     brood-agent agent <parent pid> <name>       descriptors as in protocol.h
 *     brood-agent launch <parent pid> [--keep N] -- command [args...]
 *
 * Says hello, then answers requests until its pipe ends. Nothing of graph, session or
 * BLAS exists before the supervisor's `configure`.
 */
#ifndef AGENT_AGENT_H
#define AGENT_AGENT_H

#include "agent/algo/algo.h"

/* Returns the exit code (enum agent_exit). algorithm: what runs whatever the
 * configuration names (a test's own); NULL: the one that it names. */
int agent_main(int argc, char **argv, const struct algo_ops *algorithm);

#endif
