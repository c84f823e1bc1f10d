/* node_programs.h - the programs that a node's agents are: the files that the run keeps of them
 * (supervisor/describe/program_files.h) travel to the node before their first process starts there,
 * so that nothing of them need be installed, and no folder shared, on its machine.
 *
 * A file travels in pieces, NODE_PROGRAM: the message's number is the offset of the piece; its body
 * is the program's hash (NODE_HASH_BYTES hexadecimal digits), u8 1 if the file can be executed, u32
 * length of its name, the name, the piece. A piece without a name says that the program is whole.
 *
 * The node writes them to its scratch folder (scratch.h), as <hash>/files/... and so on;
 * brood-agent finds it by BROOD_PROGRAMS (agent/program.h).
 */
#ifndef SUPERVISOR_NODE_NODE_PROGRAMS_H
#define SUPERVISOR_NODE_NODE_PROGRAMS_H

#include "common/err/err.h"
#include "supervisor/net/secure_channel.h"
#include "supervisor/node/node_protocol.h"

enum { NODE_HASH_BYTES = 32 };

/* ---- the supervisor's side ---- */

/* Sends all files of kept, RUN/programs/<hash>. An error of the channel; -errno. */
int node_program_send(struct channel *c, const char *kept, struct err *err);

/* ---- the node's side ---- */

struct node_programs {
    const char *folder; /* NULL: none came yet */
    int lock_fd;
    uint64_t bytes; /* that came, of all programs */
};
#define NODE_PROGRAMS_NONE ((struct node_programs){.lock_fd = -1})

struct node_program_piece {
    char hash[NODE_HASH_BYTES + 1];
    int is_executable;
    const char *name; /* of name_len bytes, in the message; 0: the program is whole */
    size_t name_len;
    const uint8_t *data; /* in the message */
    size_t len;
};
/* ERR_PROTOCOL: the message is malformed, or its name leads out of the folder. */
int node_program_piece_parse(struct node_program_piece *ret, const struct node_message *m,
                             struct err *err);

/* ERR_PROTOCOL: the message is malformed, or a name leads out of the folder; ERR_LIMIT: they are
 * larger than a run keeps them; -errno. */
int node_programs_take(struct node_programs *p, const struct node_message *m,
                       struct err *err);
void node_programs_done(struct node_programs *p);

#endif
