/* reach.h - under which address of this machine the nodes of a cluster reach it, if
 * `cluster.listen` does not say: the one from which this machine would send to them. So nobody
 * in other networks can even knock. Nothing is sent to find it out.
 *
 * ssh     for each host, by the name that `ssh -G` has for it (HostName in ssh_config(5))
 * slurm   for all machines that sinfo(1) lists, inside of a job those of the job; of several
 *         addresses the first one that is no loopback
 * local   127.0.0.1
 * command all interfaces: only the program knows where its hosts are
 *
 * Where that cannot be known (a host behind a ProxyJump, a name that only others can resolve, no
 * answer in time), it is the address of the first interface.
 */
#ifndef SUPERVISOR_NODE_REACH_H
#define SUPERVISOR_NODE_REACH_H

#include "common/config/run_config.h"
#include "common/err/err.h"

#define REACH_BYTES 64u

struct reach {
    char address
        [REACH_BYTES]; /* of this machine, without a port: "10.0.0.7", "[fd00::7]" */
    struct err why; /* why it is only that of the first interface; code 0: it is known */
};

/* Where a supervisor listens for each of its n nodes. All hosts are asked for side by side; those
 * for which timeout_ms is not enough are not known. */
void reach_all(const struct cluster_config *config, size_t n, int timeout_ms,
               struct reach *ret);
/* The address of this machine's first interface; loopback if it has no other. */
void reach_first(char ret[REACH_BYTES]);

#endif
