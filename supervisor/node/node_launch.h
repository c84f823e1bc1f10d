/* node_launch.h - the command that starts a node, for each launcher. */
#ifndef SUPERVISOR_NODE_NODE_LAUNCH_H
#define SUPERVISOR_NODE_NODE_LAUNCH_H

#include "common/config/run_config.h"
#include "common/mem/words.h"
#include "supervisor/net/secure_channel.h"
#include "supervisor/node/node_protocol.h"
#include "supervisor/proc/program.h"

/* The command of node number `node`, in the arena. binary: brood's path; address: where the
 * supervisor listens; name: slurm.h, of this start. ERR_LIMIT: too many words. */
int node_command_make(struct words *ret, const struct cluster_config *config, size_t node,
                      const char *binary, const char *address, const char *name,
                      struct arena *arena, struct err *err);
/* The key and the identity as a node reads them, in the arena. */
const char *node_command_key(const struct channel_secret *secret,
                             const struct node_identity *identity, struct arena *arena);
/* The address, with its port, under which nodes reach a supervisor that listens on `address`:
 * where that is 0.0.0.0 or [::], the one of this machine's first interface. In the arena. */
const char *node_command_address(const char *address, struct arena *arena);

#endif
