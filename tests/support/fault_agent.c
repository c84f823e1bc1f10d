/* fault_agent.c - brood-agent that ends where a test says, at any point of any request.
 *
 *     BROOD_FAULT=agent_1:learn:before-reply:17,kill[;...]
 *
 * The named agent's first process (agent_1/2: its third) ends at that point of its 17th
 * request of that method. Points: before-read, half-read, before-reply, half-reply,
 * after-reply; ends: kill, stop (until another process ends or continues it), abort. Or,
 * before-reply, it hangs (hang: it ignores SIGTERM, too) or attacks the supervisor:
 * garbage, giant (a frame), array (a message of 4 G objects), wrong-id, shrink (its
 * block), flood (100 MiB on stderr). <name>.runs beside the executable counts the
 * processes of a name. The agent's own sources are unchanged: the linker wraps read and
 * write, and the list of what it may call.
 */
#include "agent/agent.h"
#include "common/confine/call_sets.h"
#include "common/err/check.h"
#include "common/msg/frame.h"
#include "common/msg/protocol.h"

#ifdef FAULT_ROWKINDS
#include "tests/support/rowkinds.h"
#define FAULT_OPS &rowkinds_ops
#else
#define FAULT_OPS NULL
#endif

#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { HEAD_BYTES = 96, MAX_FAULTS = 8, METHOD_AT = FRAME_HEADER_BYTES + 2 };

struct fault {
    char method[32], point[16], end[16];
    long n; /* number of requests of the method until the fault is due */
};

/* Global, because the wrapped functions have no argument for it. */
static struct {
    struct fault faults[MAX_FAULTS];
    size_t n_faults;
    int peek[2];       /* a pipe to peek at the beginning of a frame */
    size_t frame_left; /* of the request that is being read */
    char method[32];   /* of the newest request */
} seam;

ssize_t __real_read(int fd, void *data, size_t len);
ssize_t __real_write(int fd, const void *data, size_t len);
ssize_t __wrap_read(int fd, void *data, size_t len);
ssize_t __wrap_write(int fd, const void *data, size_t len);
void __real_call_sets_fill(uint8_t ret[CALLS_END], enum confine_kind kind, int more);
void __wrap_call_sets_fill(uint8_t ret[CALLS_END], enum confine_kind kind, int more);

static const struct fault *due_at(const char *point)
{
    for (size_t i = 0; i < seam.n_faults; i++) {
        const struct fault *f = &seam.faults[i];

        if (f->n == 0 && strcmp(f->method, seam.method) == 0 &&
            strcmp(f->point, point) == 0)
            return f;
    }
    return NULL;
}

static void write_all(int fd, const void *data, size_t len)
{
    const uint8_t *p = data;

    while (len > 0) {
        ssize_t n = __real_write(fd, p, len);

        if (n <= 0)
            _exit(AGENT_EXIT_DONE); /* the supervisor closed the pipe */
        p += n;
        len -= (size_t)n;
    }
}

static void write_garbage(void)
{
    uint32_t x = 1;

    for (int i = 0; i < 1 << 20; i++) {
        x = x * 1664525u + 1013904223u;
        write_all(AGENT_FD_OUT, &x, sizeof(x));
    }
}

static void flood(void)
{
    static const char line[] = "blah blah blah blah blah blah blah blah blah blah blah\n";

    for (size_t n = 0; n < 100 << 20; n += sizeof(line) - 1)
        write_all(STDERR_FILENO, line, sizeof(line) - 1);
}

static void shrink(void)
{
    (void)!ftruncate(AGENT_FD_BLOCK, 0);
    (void)raise(SIGKILL);
}

/* Called before the response `frame` is sent. Returns only for "stop" and "flood";
 * otherwise misbehaves instead of responding. */
static void misbehave(const char *how, const uint8_t *frame, size_t len)
{
    static const uint8_t giant[] = {0xff, 0xff, 0xff, 0xff};
    static const uint8_t array[] = {9,    0,    0,    0,    0x94, 1,   0,
                                    0xc0, 0xdd, 0xff, 0xff, 0xff, 0xff};
    uint8_t *copy;

    if (strcmp(how, "stop") == 0)
        return; /* was stopped, and is continued now */
    if (strcmp(how, "flood") == 0) {
        flood();
        return;
    }
    if (strcmp(how, "garbage") == 0)
        write_garbage();
    else if (strcmp(how, "giant") == 0)
        write_all(AGENT_FD_OUT, giant, sizeof(giant));
    else if (strcmp(how, "array") == 0)
        write_all(AGENT_FD_OUT, array, sizeof(array));
    else if (strcmp(how, "shrink") == 0)
        shrink();
    else if (strcmp(how, "hang") == 0)
        (void)signal(SIGTERM, SIG_IGN);
    else {
        CHECK(strcmp(how, "wrong-id") == 0 && (copy = malloc(len)) != NULL);
        memcpy(copy, frame, len);
        copy[METHOD_AT + (copy[METHOD_AT] >= 0x80)] ^= 1;
        write_all(AGENT_FD_OUT, copy, len);
        free(copy);
    }
    for (;;)
        (void)pause(); /* sends nothing more; the supervisor kills it */
}

static void end_if_due(const char *point)
{
    const struct fault *f = due_at(point);

    if (f == NULL)
        return;
    (void)signal(SIGABRT, SIG_DFL);
    if (strcmp(f->end, "stop") == 0)
        (void)raise(SIGSTOP);
    else if (strcmp(f->end, "abort") == 0)
        (void)raise(SIGABRT);
    else if (strcmp(f->end, "kill") == 0)
        (void)raise(SIGKILL);
}

static void count_request(void)
{
    for (size_t i = 0; i < seam.n_faults; i++)
        if (strcmp(seam.faults[i].method, seam.method) == 0)
            seam.faults[i].n--;
}

/* Reads the method from [0, id, "method", params]: the id takes 1, 2, 3 or 5 bytes, the
 * name is short. */
static void take_method(const uint8_t *head, size_t len)
{
    const uint8_t id = head[METHOD_AT];
    const size_t at = METHOD_AT + (id < 0x80    ? 1u
                                   : id == 0xcc ? 2u
                                   : id == 0xcd ? 3u
                                                : 5u);
    const size_t n = head[at] & 0x1f;

    CHECK((head[at] & 0xe0) == 0xa0 && at + 1 + n <= len && n < sizeof(seam.method));
    memcpy(seam.method, head + at + 1, n);
    seam.method[n] = '\0';
}

/* It may do what the shipped agent may, and peek. */
void __wrap_call_sets_fill(uint8_t ret[CALLS_END], enum confine_kind kind, int more)
{
    __real_call_sets_fill(ret, kind, more);
    ret[SYS_pipe2] = ret[SYS_tee] = CALL_ALLOW;
}

/* Peeks at the next request without consuming it. */
static void begin_request(void)
{
    uint8_t head[HEAD_BYTES], half[4096];
    ssize_t n;

    /* made at the first request: at its start, the agent closes all unknown
     * descriptors */
    if (seam.peek[1] == 0)
        CHECK(pipe2(seam.peek, O_CLOEXEC) == 0);
    n = tee(AGENT_FD_IN, seam.peek[1], sizeof(head), 0);

    if (n <= 0)
        return; /* end of the stream: read returns it, too */
    CHECK(__real_read(seam.peek[0], head, (size_t)n) == n && n > METHOD_AT + 8);
    seam.frame_left =
        FRAME_HEADER_BYTES + ((size_t)head[0] | (size_t)head[1] << 8 |
                              (size_t)head[2] << 16 | (size_t)head[3] << 24);
    take_method(head, (size_t)n);
    count_request();
    end_if_due("before-read");
    if (due_at("half-read") == NULL)
        return;
    n = (ssize_t)(seam.frame_left / 2 < sizeof(half) ? seam.frame_left / 2
                                                     : sizeof(half));
    CHECK(__real_read(AGENT_FD_IN, half, (size_t)n) > 0);
    end_if_due("half-read");
}

ssize_t __wrap_read(int fd, void *data, size_t len)
{
    ssize_t n;

    if (fd != AGENT_FD_IN)
        return __real_read(fd, data, len);
    if (seam.frame_left == 0)
        begin_request();
    if (seam.frame_left > 0 && len > seam.frame_left)
        len = seam.frame_left;
    n = __real_read(fd, data, len);
    if (n > 0)
        seam.frame_left -= (size_t)n;
    return n;
}

static int is_response(const uint8_t *frame, size_t len)
{
    return len > FRAME_HEADER_BYTES + 1 && frame[FRAME_HEADER_BYTES + 1] == 1;
}

ssize_t __wrap_write(int fd, const void *data, size_t len)
{
    const struct fault *f;
    ssize_t n;

    if (fd != AGENT_FD_OUT || !is_response(data, len))
        return __real_write(fd, data, len);
    end_if_due("before-reply");
    if ((f = due_at("before-reply")) != NULL)
        misbehave(f->end, data, len);
    if (due_at("half-reply") != NULL) {
        (void)__real_write(fd, data, len / 2);
        end_if_due("half-reply");
    }
    n = __real_write(fd, data, len);
    end_if_due("after-reply");
    return n;
}

/* Counts this process; returns the number of earlier processes of this name. */
static long count_run(const char *name)
{
    char path[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 1);
    struct stat st;
    int fd;

    CHECK(n > 0);
    path[n] = '\0';
    *(strrchr(path, '/') + 1) = '\0';
    CHECK(strlen(path) + strlen(name) + sizeof(".runs") < sizeof(path));
    strcat(strcat(path, name), ".runs");
    fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    CHECK(fd >= 0 && fstat(fd, &st) == 0 && __real_write(fd, "x", 1) == 1);
    (void)close(fd);
    return (long)st.st_size;
}

static void take_fault(const char *text, const char *name, long run)
{
    struct fault f;
    char agent[64], *slash;

    CHECK(sscanf(text, "%63[^:]:%31[^:]:%15[^:]:%ld,%15[a-z-]", agent, f.method, f.point,
                 &f.n, f.end) == 5,
          "BROOD_FAULT: %s", text);
    slash = strchr(agent, '/');
    if (slash != NULL)
        *slash = '\0';
    if (strcmp(agent, name) == 0 && run == (slash != NULL ? atol(slash + 1) : 0)) {
        CHECK(seam.n_faults < MAX_FAULTS);
        seam.faults[seam.n_faults++] = f;
    }
}

int main(int argc, char **argv)
{
    const char *text = getenv("BROOD_FAULT");

    if (argc == 4 && text != NULL) {
        const long run = count_run(argv[3]);

        for (; text != NULL && *text != '\0';
             text = strchr(text, ';') != NULL ? strchr(text, ';') + 1 : NULL)
            take_fault(text, argv[3], run);
    }
    return agent_main(argc, argv, FAULT_OPS);
}
