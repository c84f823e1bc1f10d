/* reach.h - under which address of this machine the nodes of a cluster reach it, if
 * `cluster.listen` does not say: the one from which this machine would send to them. So nobody
 * in other networks can even knock. Nothing is sent to find it out.
 *
 * ssh     for each host, by the name that `ssh -G` has for it (HostName in ssh_config(5))
 * slurm   for all machines that sinfo(1) lists, inside of a job those of the job; of several
 *         addresses the first one that is no loopback
 * local   127.0.0.1
 * command all interfaces: how it reaches its hosts is not known
 *
 * Where that cannot be known (a host behind a ProxyJump, a name that only others can resolve, no
 * answer), it is the address of the first interface.
 */
#ifndef SUPERVISOR_NODE_REACH_H
#define SUPERVISOR_NODE_REACH_H

#include "common/config/run_config.h"
#include "common/err/err.h"

#define REACH_BYTES 64u

/* From which address this machine would send to `host`, a name or an address: "10.0.0.7", or
 * "[fd00::7]". ERR_NOT_FOUND: no such name, or no way to it. */
int reach_from(const char *host, char ret[REACH_BYTES], struct err *err);
/* Where a supervisor listens for that node, without a port. */
void reach_auto(const struct cluster_config *config, size_t node, char ret[REACH_BYTES]);
/* The address of this machine's first interface; loopback if it has no other. */
void reach_first(char ret[REACH_BYTES]);

#endif
