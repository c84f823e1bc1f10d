/* external.h - external environments: how to start their processes, and how to read the
 * description that a process sends (env_protocol.h).
 *
 * Errors   in a description: ERR_PROTOCOL or ERR_LIMIT, naming agent and key.
 * Internal to supervisor/env.
 */
#ifndef SUPERVISOR_ENV_EXTERNAL_H
#define SUPERVISOR_ENV_EXTERNAL_H

#include "common/mem/arena.h"
#include "common/msg/msg.h"
#include "supervisor/env/env.h"
#include "supervisor/proc/agent_table.h"

/* All of it is in the arena. */
struct external {
    const char *const *command; /* NULL-terminated */
    const char *mode;           /* agent_spec */
    const char *directory;
    const struct yaml_node *params; /* NULL: none */
    const char *metrics;            /* that its steps shall have; NULL: none */
    struct agent_limits limits;
    size_t processes;
    int draws; /* its processes send pictures */
    enum env_on_failure on_failure;
    int is_trial; /* its processes are never restarted (agent_spec) */
};

void external_init(struct external *ret, const struct env_config *config,
                   struct arena *arena);
struct agent_limits external_limits(const struct env_config *config);
/* Packs the params of `configure` for a process with `copies` copies, the first of which has
 * number `first`. */
void external_pack_configure(const struct external *f, size_t copies, size_t first,
                             struct msg_out *o);
/* Reads its answer. */
int external_parse(struct env_spec *ret, const msgpack_object *answer,
                   struct arena *arena, struct err *err);
int external_same_spec(const struct env_spec *a, const struct env_spec *b);
/* Replaces what is not printable in a text of a program. */
void external_make_plain(char *text);

#endif
