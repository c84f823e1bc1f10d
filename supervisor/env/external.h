/* foreign.h - environments of others': how their processes are started, and what they say
 * of themselves (env_protocol.h).
 *
 * Errors   of what a process says: ERR_PROTOCOL or ERR_LIMIT, naming agent and key.
 * Internal to supervisor/env.
 */
#ifndef SUPERVISOR_ENV_FOREIGN_H
#define SUPERVISOR_ENV_FOREIGN_H

#include "common/mem/arena.h"
#include "common/msg/msg.h"
#include "supervisor/env/env.h"
#include "supervisor/proc/agent_table.h"

/* All of it lives in the arena. */
struct foreign {
    const char *const *command; /* NULL-terminated */
    const char *mode;           /* agent_spec */
    const char *directory;
    const struct yaml_node *params; /* NULL: none */
    struct agent_limits limits;
    size_t processes;
};

void foreign_init(struct foreign *ret, const struct env_config *config,
                  struct arena *arena);
struct agent_limits foreign_limits(const struct env_config *config);
/* The params of `configure` for a process of so many copies, beginning with that one. */
void foreign_pack_configure(const struct foreign *f, size_t copies, size_t first,
                            struct msg_out *o);
/* Its answer. */
int foreign_parse(struct env_spec *ret, const msgpack_object *answer, struct arena *arena,
                  struct err *err);
int foreign_same_spec(const struct env_spec *a, const struct env_spec *b);

/* ---- foreign_ask.c ---- */

/* Starts a process, asks it what it is, and ends it. The last answer is kept: asking
 * again starts nothing. */
int foreign_ask(struct env_spec *ret, const struct env_config *config,
                struct arena *arena, struct err *err);

#endif
