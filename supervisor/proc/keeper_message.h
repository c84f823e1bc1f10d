/* keeper_message.h - what the supervisor (keeper_link.c) sends to its keeper (keeper.c): a struct
 * in each packet of their socket, since both are the same program. */
#ifndef SUPERVISOR_PROC_KEEPER_MESSAGE_H
#define SUPERVISOR_PROC_KEEPER_MESSAGE_H

#include <limits.h>
#include <stdint.h>

enum message_kind {
    MESSAGE_RUN,
    MESSAGE_COMMITTED,
    MESSAGE_UNDER_WAY,
    MESSAGE_KEYS,
    MESSAGE_CHECKPOINT,
    MESSAGE_WATCHDOG,
};

struct message {
    enum message_kind kind;
    int resume;
    unsigned place;
    uint64_t from;    /* step of the checkpoint that it resumes from */
    uint64_t folder;  /* keeper_send_making; 0: keeper_send_run */
    int64_t limit_ms; /* MESSAGE_WATCHDOG */
    char path[PATH_MAX];
};

#endif
