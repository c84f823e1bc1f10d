/* config_msg.h - an agent's section of the configuration as values in a message.
 *
 * A map with the keys of the configuration file. Numbers are sent as numbers, flags as
 * booleans, choices by name, sizes of layers as a list, sections as maps. Keys without
 * effect in the section (settings of another algorithm) are left out.
 *
 * Errors   ERR_PROTOCOL with the key's path: unknown, of another type, out of its range.
 *          ERR_CONFIG: an algorithm that this build does not have.
 */
#ifndef COMMON_MSG_CONFIG_MSG_H
#define COMMON_MSG_CONFIG_MSG_H

#include "common/config/run_config.h"
#include "common/msg/msg.h"

void msg_agent_config(struct msg_out *o, const struct agent_config *a);
/* Where a program is, and what it must be; all NULL: its own folder, whatever is there. */
struct program_place {
    const char *kept;   /* the folder with its description, files and package */
    const char *within; /* where it starts, below the files */
    const char *const *identity;
};
/* How the agent, a program, is started: the value of the key "program" (protocol.h). */
void msg_program(struct msg_out *o, const struct agent_config *a,
                 const struct program_place *place);
/* Strings are copied into the arena. The map lacks the agent's name: it stays NULL. */
int msg_to_agent_config(const msgpack_object *map, struct agent_config *ret,
                        struct arena *arena, struct err *err);

#endif
