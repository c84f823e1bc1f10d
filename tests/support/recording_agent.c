/* recording_agent.c - the shipped brood-agent, which records all bytes on its pipes:
 * those it reads in FOLDER/NAME.requests, those it writes in FOLDER/NAME.responses.
 * FOLDER is the value of BROOD_FAULT, the variable that the launcher passes on to agents
 * in tests. */
#include "agent/agent.h"
#include "common/mem/room.h"
#include "common/msg/protocol.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

ssize_t __real_read(int fd, void *data, size_t size);
ssize_t __real_write(int fd, const void *data, size_t size);
int __real_room_check(uint64_t bytes, const char *what, struct err *err);
ssize_t __wrap_read(int fd, void *data, size_t size);
ssize_t __wrap_write(int fd, const void *data, size_t size);
int __wrap_room_check(uint64_t bytes, const char *what, struct err *err);

static const char *own_name;
static int requests = -1, responses = -1;

static int open_record(const char *kind)
{
    const char *folder = getenv("BROOD_FAULT");
    char path[4096];

    (void)snprintf(path, sizeof(path), "%s/%s.%s", folder, own_name, kind);
    return folder == NULL ? -1
                          : open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
}

/* Opens the files before the agent reads its first request, with which it is confined: later,
 * no file can be opened for writing. */
int __wrap_room_check(uint64_t bytes, const char *what, struct err *err)
{
    requests = open_record("requests");
    responses = open_record("responses");
    return __real_room_check(bytes, what, err);
}

static void keep(int record, const void *data, ssize_t n)
{
    if (n > 0 && record >= 0 && __real_write(record, data, (size_t)n) != n)
        abort();
}

ssize_t __wrap_read(int fd, void *data, size_t size)
{
    const ssize_t n = __real_read(fd, data, size);

    if (fd == AGENT_FD_IN)
        keep(requests, data, n);
    return n;
}

ssize_t __wrap_write(int fd, const void *data, size_t size)
{
    const ssize_t n = __real_write(fd, data, size);

    if (fd == AGENT_FD_OUT)
        keep(responses, data, n);
    return n;
}

int main(int argc, char **argv)
{
    own_name = argc > 3 ? argv[3] : "agent";
    return agent_main(argc, argv, NULL);
}
