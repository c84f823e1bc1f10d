#include "tests/support/agent_process.h"

#include "common/config/yaml_tree.h"
#include "common/err/check.h"
#include "common/io/signal_process.h"
#include "common/msg/config_msg.h"
#include "common/msg/protocol.h"
#include "tests/support/agent_config.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define DEADLINE_MS 300000
#define HIGH_FD     32 /* above all descriptors that the child sets up */

/* Duplicates `fd` to the number `at`; fd -1: closes `at`. */
static void place(int fd, int at)
{
    if (fd < 0)
        (void)close(at);
    else if (dup2(fd, at) < 0)
        _exit(126);
}

static int raise_fd(int fd)
{
    return fd < 0 ? -1 : fcntl(fd, F_DUPFD, HIGH_FD);
}

static _Noreturn void run_child(const char *exe, const char *name, pid_t parent,
                                const int *fds)
{
    char pid[32];

    for (int i = 0; i < AGENT_FD_COUNT; i++)
        if (i != 0)
            place(fds[i], i);
    (void)snprintf(pid, sizeof(pid), "%d", (int)parent);
    (void)execl(exe, "brood-agent", "agent", pid, name, (char *)NULL);
    _exit(127);
}

void agent_process_start(struct agent_process *p, const char *name, int block_fd,
                         int log_fd)
{
    agent_process_start_program(p, "agent/brood-agent", name, block_fd, log_fd);
}

void agent_process_start_program(struct agent_process *p, const char *program,
                                 const char *name, int block_fd, int log_fd)
{
    const char *build = getenv("BROOD_BUILD_DIR");
    const pid_t self = getpid();
    int in[2], out[2], text[2], fds[AGENT_FD_COUNT];
    char exe[4096];

    CHECK(build != NULL, "BROOD_BUILD_DIR");
    (void)snprintf(exe, sizeof(exe), "%s/%s", build, program);
    *p = (struct agent_process){0};
    CHECK(pipe2(in, O_CLOEXEC) == 0 && pipe2(out, O_CLOEXEC) == 0 &&
          pipe2(text, O_CLOEXEC) == 0);
    (void)signal(SIGPIPE, SIG_IGN);
    p->pid = fork();
    CHECK(p->pid >= 0);
    if (p->pid == 0) {
        fds[0] = -1;
        fds[1] = fds[2] = raise_fd(text[1]);
        fds[AGENT_FD_IN] = raise_fd(in[0]);
        fds[AGENT_FD_OUT] = raise_fd(out[1]);
        fds[AGENT_FD_BLOCK] = raise_fd(block_fd);
        fds[AGENT_FD_LOG] = raise_fd(log_fd);
        fds[AGENT_FD_SHARED] = -1;
        run_child(exe, name, self, fds);
    }
    (void)close(in[0]);
    (void)close(out[1]);
    (void)close(text[1]);
    p->to = in[1];
    p->from = out[0];
    p->stderr_fd = text[0];
    frame_reader_init(&p->reader, FRAME_MAX_BYTES);
    msg_out_init(&p->out);
}

static int64_t now_ms(void)
{
    struct timespec t;

    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static int wait_for(struct agent_process *p)
{
    const int64_t deadline = now_ms() + DEADLINE_MS;
    int status;

    while (waitpid(p->pid, &status, WNOHANG) == 0) {
        if (now_ms() > deadline)
            (void)signal_process(p->pid, SIGKILL);
        (void)poll(NULL, 0, 1);
    }
    return status;
}

static void close_fd(int *fd)
{
    if (*fd >= 0)
        (void)close(*fd);
    *fd = -1;
}

int agent_process_end(struct agent_process *p)
{
    int status;

    close_fd(&p->to);
    close_fd(&p->from);
    status = wait_for(p);
    close_fd(&p->stderr_fd);
    msg_done(&p->reply);
    msg_out_done(&p->out);
    frame_reader_done(&p->reader);
    return status;
}

void agent_process_write(struct agent_process *p, const void *data, size_t len)
{
    const char *at = data;

    while (len > 0) {
        ssize_t n = write(p->to, at, len);

        if (n < 0 && errno == EPIPE) /* the agent refused the first bytes and exited */
            return;
        CHECK(n > 0);
        at += n;
        len -= (size_t)n;
    }
}

int agent_process_read(struct agent_process *p)
{
    const uint8_t *data;
    uint8_t *room;
    size_t len;
    ssize_t n;
    struct err err;
    int r;

    while ((r = frame_reader_next(&p->reader, &data, &len, &err)) == 0) {
        struct pollfd fd = {.fd = p->from, .events = POLLIN};

        CHECK(poll(&fd, 1, DEADLINE_MS) == 1, "no answer");
        CHECK(frame_reader_room(&p->reader, &room, &len, &err) == 0);
        n = read(p->from, room, len);
        if (n <= 0)
            return 0;
        frame_reader_filled(&p->reader, (size_t)n);
    }
    CHECK(r > 0, "%s", err.msg);
    CHECK(msg_reparse(&p->reply, data, len, &err) == 0, "%s", err.msg);
    return 1;
}

struct msg_out *agent_process_request(struct agent_process *p, const char *method)
{
    msg_begin_request(&p->out, ++p->id, method);
    return &p->out;
}

int agent_process_call(struct agent_process *p)
{
    const uint8_t *frame;
    size_t len;

    msg_end(&p->out, &frame, &len);
    agent_process_write(p, frame, len);
    do
        CHECK(agent_process_read(p) == 1, "the agent ended");
    while (p->reply.type == MSG_NOTIFICATION); /* progress */
    CHECK(p->reply.type == MSG_RESPONSE && p->reply.id == p->id);
    return p->reply.error.code;
}

void agent_process_stderr(struct agent_process *p, char *buf, size_t size)
{
    size_t used = 0;
    ssize_t n;

    while (used + 1 < size && (n = read(p->stderr_fd, buf + used, size - used - 1)) > 0)
        used += (size_t)n;
    buf[used] = '\0';
}

static void pack_agent(struct msg_out *o, size_t i)
{
    char name[AGENT_NAME_MAX];

    (void)snprintf(name, sizeof(name), "agent_%zu", i);
    msg_map(o, 4);
    msg_put_str(o, "name", name);
    msg_put_str(o, "team", "agent");
    msg_put_u64(o, "obs", 18);
    msg_key(o, "action");
    msg_map(o, 4);
    msg_put_str(o, "kind", "discrete");
    msg_put_bool(o, "particle", 1);
    msg_key(o, "heads");
    msg_array(o, 1);
    msg_u64(o, 5);
    msg_put_u64(o, "width", 5);
}

/* Packs the tree as written, valid or not. */
static void pack_tree(struct msg_out *o, const struct yaml_node *n)
{
    char *end;
    double v;

    if (n->kind == YAML_SCALAR) {
        v = strtod(n->text, &end);
        if (*n->text != '\0' && *end == '\0')
            msg_f64(o, v);
        else
            msg_str(o, n->text);
        return;
    }
    if (n->kind == YAML_MAP)
        msg_map(o, n->n);
    else
        msg_array(o, n->n);
    for (size_t i = 0; i < n->n; i++) {
        if (n->kind == YAML_MAP)
            msg_key(o, n->child[i]->key);
        pack_tree(o, n->child[i]);
    }
}

/* Packs a section as the supervisor does, or an invalid one as written. */
static void pack_config(struct msg_out *o, const char *config)
{
    struct arena arena = ARENA_ZERO;
    struct run_config read;
    struct yaml_node *tree;
    struct err err = {0};

    if (agent_config_from_text(&read, config, &err) == 0) {
        msg_agent_config(o, &read.defaults);
        run_config_done(&read);
    } else if (yaml_tree_parse(&tree, &arena, config, strlen(config), "", 0, &err) == 0) {
        pack_tree(o, tree);
    } else {
        msg_str(o, config);
    }
    arena_done(&arena);
}

void agent_process_pack_configure(struct msg_out *o, const char *config, size_t n,
                                  size_t self, int restored, const char *numerics)
{
    char name[AGENT_NAME_MAX];

    (void)snprintf(name, sizeof(name), "agent_%zu", self);
    msg_map(o, 7);
    msg_put_str(o, "numerics", numerics);
    msg_put_str(o, "role", "learner");
    msg_put_str(o, "name", name);
    msg_put_u64(o, "seed", 7);
    msg_key(o, "config");
    pack_config(o, config);
    msg_put_bool(o, "restored", restored);
    msg_key(o, "agents");
    msg_array(o, n);
    for (size_t i = 0; i < n; i++)
        pack_agent(o, i);
}

int agent_process_configure(struct agent_process *p, const char *config, size_t n,
                            size_t self, int restored)
{
    agent_process_pack_configure(agent_process_request(p, "configure"), config, n, self,
                                 restored, "portable");
    return agent_process_call(p);
}

int agent_process_block(void)
{
    int fd = memfd_create("test block", MFD_CLOEXEC);

    CHECK(fd >= 0 && ftruncate(fd, (off_t)BLOCK_CAPACITY_BYTES) == 0);
    return fd;
}
