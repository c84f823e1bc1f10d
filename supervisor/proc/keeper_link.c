/* The supervisor's end of the link to its keeper (keeper.h). */
#include "common/text/scan.h"
#include "supervisor/proc/keeper.h"
#include "supervisor/proc/keeper_message.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

static void send_message(const struct keeper_link *l, const struct message *m)
{
    if (l->fd >= 0)
        (void)send(l->fd, m, sizeof(*m), MSG_NOSIGNAL | MSG_DONTWAIT);
}

void keeper_send_run(const struct keeper_link *l, const char *path, unsigned place,
                     uint64_t from, int resume)
{
    struct message m = {
        .kind = MESSAGE_RUN, .resume = resume, .place = place, .from = from};

    if (realpath(path, m.path) != NULL)
        send_message(l, &m);
}

void keeper_send_making(const struct keeper_link *l, const char *path, uint64_t folder)
{
    struct message m = {.kind = MESSAGE_RUN, .resume = 1, .folder = folder};
    const char *name = text_base_name(path);
    char parent[PATH_MAX];
    size_t n;

    (void)snprintf(parent, sizeof(parent), "%.*s", (int)(name - path), path);
    if (realpath(name > path ? parent : ".", m.path) == NULL)
        return;
    n = strlen(m.path);
    if (snprintf(m.path + n, sizeof(m.path) - n, "/%s", name) < (int)(sizeof(m.path) - n))
        send_message(l, &m);
}

static void send_kind(const struct keeper_link *l, enum message_kind kind)
{
    const struct message m = {.kind = kind};

    send_message(l, &m);
}

void keeper_send_committed(const struct keeper_link *l)
{
    send_kind(l, MESSAGE_COMMITTED);
}

void keeper_send_under_way(const struct keeper_link *l)
{
    send_kind(l, MESSAGE_UNDER_WAY);
}

void keeper_send_keys(const struct keeper_link *l)
{
    send_kind(l, MESSAGE_KEYS);
}

void keeper_send_checkpoint(const struct keeper_link *l)
{
    send_kind(l, MESSAGE_CHECKPOINT);
}

void keeper_send_watchdog(const struct keeper_link *l, int64_t limit_ms)
{
    const struct message m = {.kind = MESSAGE_WATCHDOG, .limit_ms = limit_ms};

    send_message(l, &m);
}
