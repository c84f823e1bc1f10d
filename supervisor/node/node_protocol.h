/* node_protocol.h - the messages between a run's supervisor and a node, which holds the
 * processes of one machine. They travel over a secure_channel.h.
 *
 * A message is a head of NODE_HEAD_BYTES, little-endian: kind u8, 3 zero bytes, worker u32,
 * number u64; then a body, which has the rest of the message.
 *
 * Workers  are numbered by the supervisor, from 0; OPEN names one. A message that concerns
 *          none has NODE_NO_WORKER.
 * Answers  START is answered by STARTED, each SNAPSHOT by COPY, in order; or one of both, HOLD,
 *          PUT or CLEAR by FAILED, with which the worker has failed for good. Nobody waits for
 *          them. All other messages are answered by none.
 * Order    a node does what it is sent in that order. What it sends about a worker comes in the
 *          order in which it happened; EXIT is the last message about a process.
 * Bounds   every length is checked against the message and against a fixed limit before a
 *          byte is used; values are checked where they are read. A node and a supervisor that
 *          send garbage lose their connection, nothing else.
 */
#ifndef SUPERVISOR_NODE_NODE_PROTOCOL_H
#define SUPERVISOR_NODE_NODE_PROTOCOL_H

#include "common/config/limits.h"
#include "common/err/err.h"
#include "common/msg/frame.h"
#include "common/wire/cursor.h"
#include "supervisor/net/secure_channel.h"

#include <stddef.h>
#include <stdint.h>

#define NODE_PROTOCOL_VERSION  5u
#define NODE_HEAD_BYTES        16u
#define NODE_CHUNK_BYTES       ((size_t)16 << 20) /* of a block or of rows, at most */
#define NODE_MAX_MESSAGE_BYTES ((size_t)FRAME_MAX_BYTES + 4096)
#define NODE_NO_WORKER         UINT32_MAX
#define NODE_NO_GROUP          UINT32_MAX
#define NODE_PARTING           1u
/* Agents, their ps, central; environment processes for training and for evaluations. */
#define NODE_MAX_WORKERS                                                                 \
    ((uint32_t)2 * AGENT_MAX_COUNT + 1 + (uint32_t)2 * ENV_MAX_PROCESSES)
#define NODE_MAX_COMMAND_BYTES ((size_t)1 << 20)

enum node_message_kind {
    /* supervisor -> node; `number`, then the body */
    NODE_OPEN = 1, /* -; struct node_open: the worker exists from now on */
    NODE_START,    /* -> STARTED */
    NODE_HOLD,     /* the block's length */
    NODE_SNAPSHOT, /* offset; 0 takes a new copy -> COPY */
    NODE_PUT,      /* offset; u64 length of the whole, the bytes; the end puts it */
    NODE_CLEAR,
    NODE_FRAME, /* both ways; a whole frame, to the node with its length, from it without */
    NODE_SIGNAL, /* the signal's number */
    NODE_KILL,
    NODE_PAUSE,   /* 1 or 0 */
    NODE_LIMIT,   /* of memory, in bytes; 0: none */
    NODE_HEADER,  /* the experience log's header, without zeros at its end */
    NODE_COLUMNS, /* worker: the pass (node_feed.h); the parts of its rows (row_parts.h) */
    NODE_ROWS,    /* worker: the pass; the first row; their u32 number, their parts */
    NODE_FORGET,  /* the log below this offset is not read again */
    NODE_SHARED,  /* both ways; worker: the group; offset in its memory; bytes */
    NODE_PROGRAM, /* a piece of a file of a program (node_programs.h) */
    NODE_NOTHING, /* shows that the supervisor lives; number NODE_PARTING: the run ends */
    /* node -> supervisor */
    NODE_HELLO,   /* struct node_hello */
    NODE_STARTED, /* the pid */
    NODE_COPY,    /* offset; NODE_CHUNK_BYTES of the copy from there, or the rest */
    NODE_FAILED,  /* i32 code, text */
    NODE_EXIT,    /* struct node_exit */
    NODE_BROKEN,  /* i32 code, text */
    NODE_OUTPUT,  /* bytes of the process's stdout and stderr */
    NODE_SAMPLE,  /* struct node_sample */
    NODE_LAST, /* i32 code, text: why the node ends; the supervisor ends the connection */
    NODE_STORED, /* it has taken so many more bytes of HEADER, ROWS, SHARED and PUT */
    NODE_KIND_COUNT,
};
const char *node_kind_name(enum node_message_kind kind);

struct node_message {
    enum node_message_kind kind;
    uint32_t worker;
    uint64_t number;
    const uint8_t *body; /* within the message */
    size_t len;
};

void node_head_pack(uint8_t ret[NODE_HEAD_BYTES], enum node_message_kind kind,
                    uint32_t worker, uint64_t number);
/* Sends the head, and the body after it. An error of the channel. */
int node_send(struct channel *c, enum node_message_kind kind, uint32_t worker,
              uint64_t number, const void *body, size_t len, struct err *err);
/* ERR_PROTOCOL: it is too short, or of no known kind, or its worker's number is too large. */
int node_message_parse(struct node_message *ret, const void *data, size_t len,
                       struct err *err);

#define NODE_TEXT_BYTES 256 /* of any text but an error's, with its NUL */

/* Which start of which node of which run: "RUN/NODE/GENERATION" as a text. A supervisor takes
 * only the one that it has just launched. */
struct node_identity {
    char run
        [NODE_TEXT_BYTES]; /* its name, and the supervisor's random suffix: "small-1:0f..." */
    uint32_t node;
    uint64_t generation; /* number of the start, from 1 */
};
#define NODE_IDENTITY_BYTES (NODE_TEXT_BYTES + 40)
const char *node_identity_text(const struct node_identity *v,
                               char ret[NODE_IDENTITY_BYTES]);
/* ERR_FORMAT. */
int node_identity_parse(struct node_identity *ret, const char *text, struct err *err);

struct node_hello {
    uint32_t protocol; /* NODE_PROTOCOL_VERSION */
    uint32_t numerics; /* NUMERICS_VERSION */
    uint32_t pid, cores;
    uint64_t memory_bytes;
    char build_id[NODE_TEXT_BYTES]; /* of its agent executable */
    char version[NODE_TEXT_BYTES];
    char host[NODE_TEXT_BYTES];
    char boot[NODE_TEXT_BYTES]; /* of its kernel's present life; "": unknown */
    struct node_identity identity;
};

struct node_open {
    char name[AGENT_NAME_MAX], role[16];
    uint32_t group;           /* shares the memory of this group; NODE_NO_GROUP */
    uint32_t member, members; /* its vector in share_ring.h; how many compute gradients */
    /* Of an environment process (agent_spec): the folder, then the words, each with its NUL,
     * within the message. n_words 0: it is an agent. */
    char mode[16]; /* "": none */
    uint32_t n_words;
    const char *command;
    size_t command_bytes;
};

struct node_exit {
    int32_t exit_code, signal;
    uint32_t had_process; /* 0: its start failed */
};

struct node_sample {
    int64_t memory_bytes; /* -1: unknown */
    uint8_t has_activity;
    char state;
    uint64_t ticks, resident_bytes, space_limit_bytes;
};

/* The number of this kernel's present life: two processes that read the same one share their
 * clock. "": unknown. */
void node_boot_id(char ret[NODE_TEXT_BYTES]);

/* pack: appends the body to b. parse: ERR_PROTOCOL, and *ret is then undefined. */
void node_hello_pack(struct wbuf *b, const struct node_hello *v);
int node_hello_parse(struct node_hello *ret, const struct node_message *m,
                     struct err *err);
void node_open_pack(struct wbuf *b, const struct node_open *v);
/* ret->command is within m. */
int node_open_parse(struct node_open *ret, const struct node_message *m, struct err *err);
void node_exit_pack(struct wbuf *b, const struct node_exit *v);
int node_exit_parse(struct node_exit *ret, const struct node_message *m, struct err *err);
void node_sample_pack(struct wbuf *b, const struct node_sample *v);
int node_sample_parse(struct node_sample *ret, const struct node_message *m,
                      struct err *err);
/* Of FAILED, BROKEN and LAST. */
void node_error_pack(struct wbuf *b, const struct err *e);
/* *ret is the error that m tells of, its code negative. */
int node_error_parse(struct err *ret, const struct node_message *m, struct err *err);

#endif
