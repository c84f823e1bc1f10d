#include "supervisor/proc/prepared.h"

#include "common/err/check.h"
#include "common/io/close_fd.h"
#include "common/log/log.h"
#include "common/mem/xmalloc.h"
#include "common/msg/msg.h"
#include "supervisor/proc/proc.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    PREPARE_WITHIN_MS = 60000, /* to import a large library takes seconds */
    FORK_WITHIN_MS = 10000,
    SWEEP_AGAIN_MS = 2,
    MAX_DEATHS = 3
};

enum state {
    STATE_NONE, /* there is no process */
    STATE_STARTING,
    STATE_READY,
    STATE_ENDING /* it was killed or has exited; not all of it is closed */
};

struct prepared {
    uv_loop_t *loop;
    int exe_fd;
    const struct agent_program *program;
    size_t (*sweep)(void);
    enum state state;
    int is_unusable;
    int n_deaths;
    struct proc proc;
    struct capture capture;
    int socket;     /* -1: none */
    uv_poll_t poll; /* of the socket */
    uv_timer_t timer;
    TAILQ_HEAD(, prepared_wait) waiting;
    struct prepared_wait *current; /* for which a fork was asked; NULL: none */
    int open_parts;                /* of proc and poll */
    int is_answering;              /* those who wait are told that none comes */
    int is_closing;
    void (*on_closed)(void *ctx);
    void *closed_ctx;
};

struct prepared *prepared_new(uv_loop_t *loop, int exe_fd,
                              const struct agent_program *program, size_t (*sweep)(void))
{
    struct prepared *p = xcalloc(1, sizeof(*p));

    *p = (struct prepared){
        .loop = loop, .exe_fd = exe_fd, .program = program, .sweep = sweep, .socket = -1};
    TAILQ_INIT(&p->waiting);
    CHECK(capture_init(&p->capture, NULL, NULL) == 0);
    (void)uv_timer_init(loop, &p->timer);
    p->timer.data = p;
    return p;
}

void prepared_free(struct prepared *p)
{
    if (p == NULL)
        return;
    CHECK(TAILQ_EMPTY(&p->waiting) && p->current == NULL);
    capture_done(&p->capture);
    free(p);
}

const struct agent_program *prepared_program(const struct prepared *p)
{
    return p->program;
}

int prepared_is_usable(const struct prepared *p)
{
    return !p->is_unusable && !p->is_closing;
}

/* ---- answers ---- */

static void answer_none(struct prepared_wait *w)
{
    w->of = NULL;
    w->on_none(w);
}

/* Nobody is answered before what the process may have forked last is dead: it would share its
 * pipes with the process that is executed instead. */
static void on_swept(uv_timer_t *timer)
{
    struct prepared *p = timer->data;
    struct prepared_wait *w = p->current;

    if (p->sweep() > 0) {
        (void)uv_timer_start(timer, on_swept, SWEEP_AGAIN_MS, 0);
        return;
    }
    p->is_answering = 0;
    p->current = NULL;
    if (w != NULL)
        answer_none(w);
    while ((w = TAILQ_FIRST(&p->waiting)) != NULL) {
        TAILQ_REMOVE(&p->waiting, w, entry);
        answer_none(w);
    }
}

static void answer_soon(struct prepared *p)
{
    p->is_answering = 1;
    (void)uv_timer_start(&p->timer, on_swept, 0, 0);
}

/* ---- the end of the process ---- */

static void report_closed(uv_handle_t *timer)
{
    struct prepared *p = timer->data;

    p->on_closed(p->closed_ctx);
}

static void part_closed(struct prepared *p)
{
    if (--p->open_parts > 0)
        return;
    p->state = STATE_NONE;
    if (p->is_closing)
        uv_close((uv_handle_t *)&p->timer, report_closed);
    else
        answer_soon(p);
}

static void on_poll_closed(uv_handle_t *poll)
{
    part_closed(poll->data);
}

static void on_proc_closed(struct proc *proc)
{
    part_closed(proc->owner);
}

static void kill_process(struct prepared *p)
{
    p->state = STATE_ENDING;
    proc_kill(&p->proc);
}

/* From here on agents are executed. */
static void give_up(struct prepared *p, const char *why)
{
    log_warn(
        "no process of the program can be prepared, its agents are executed one by one: "
        "%s",
        why);
    p->is_unusable = 1;
    kill_process(p);
}

static void on_deadline(uv_timer_t *timer)
{
    give_up(timer->data, "it does not answer in time");
}

/* ---- births ---- */

static int send_request(const struct prepared *p, const struct prepared_wait *w)
{
    size_t n = 0;
    union {
        char bytes[CMSG_SPACE(PREPARED_FD_COUNT * sizeof(int))];
        struct cmsghdr align;
    } control = {0};
    struct prepared_fork request = {.parent = (uint32_t)getpid()};
    struct iovec part = {&request, sizeof(request)};
    struct msghdr m = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = control.bytes};
    struct cmsghdr *c = &control.align;

    while (n < PREPARED_FD_COUNT && w->fds[n] >= 0)
        n++;
    request.n_fds = (uint32_t)n;
    m.msg_controllen = CMSG_SPACE(n * sizeof(int));
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(n * sizeof(int));
    memcpy(CMSG_DATA(c), w->fds, n * sizeof(int));
    return sendmsg(p->socket, &m, MSG_NOSIGNAL) < 0 ? -errno : 0;
}

static void ask_next(struct prepared *p)
{
    struct prepared_wait *w = TAILQ_FIRST(&p->waiting);

    if (p->state != STATE_READY || p->current != NULL || w == NULL)
        return;
    TAILQ_REMOVE(&p->waiting, w, entry);
    p->current = w;
    if (send_request(p, w) < 0)
        kill_process(p);
    else
        (void)uv_timer_start(&p->timer, on_deadline, FORK_WITHIN_MS, 0);
}

/* Returns what was sent, with the sender's pid by the kernel's word; -1: nothing was. */
static int receive(const struct prepared *p, pid_t *ret_pid)
{
    union {
        char bytes[CMSG_SPACE(sizeof(struct ucred))];
        struct cmsghdr align;
    } control = {0};
    unsigned char byte = 0;
    struct iovec part = {&byte, 1};
    struct msghdr m = {.msg_iov = &part,
                       .msg_iovlen = 1,
                       .msg_control = control.bytes,
                       .msg_controllen = sizeof(control.bytes)};
    const struct cmsghdr *c = &control.align;
    struct ucred from = {0};

    if (recvmsg(p->socket, &m, MSG_DONTWAIT | MSG_CMSG_CLOEXEC) <= 0)
        return -1;
    if (m.msg_controllen >= CMSG_LEN(sizeof(from)) && c->cmsg_level == SOL_SOCKET &&
        c->cmsg_type == SCM_CREDENTIALS)
        memcpy(&from, CMSG_DATA(c), sizeof(from));
    *ret_pid = from.pid;
    return byte;
}

static void take_births(struct prepared *p)
{
    pid_t pid = 0;
    int what;

    while ((what = receive(p, &pid)) >= 0) {
        struct prepared_wait *w = p->current;
        const unsigned char known = 1;

        p->current = NULL;
        if (w == NULL || pid <= 1 || (what == PREPARED_BORN && pid == p->proc.pid)) {
            p->current = w;
            give_up(p, "it sends what nobody asked for");
            return;
        }
        (void)uv_timer_stop(&p->timer);
        w->of = NULL;
        if (what == PREPARED_BORN)
            w->on_born(w, pid);
        else
            w->on_none(w);
        if (send(p->socket, &known, 1, MSG_NOSIGNAL) < 0 && p->state == STATE_READY)
            kill_process(p);
        ask_next(p);
    }
}

static void on_socket(uv_poll_t *poll, int status, int events)
{
    struct prepared *p = poll->data;

    take_births(p);
    if ((events & UV_DISCONNECT) != 0 || status < 0)
        (void)uv_poll_stop(poll);
}

/* ---- the process ---- */

static void on_message(struct proc *proc, const uint8_t *data, size_t len)
{
    struct prepared *p = proc->owner;
    struct err why = {0};
    struct msg m;

    if (p->state != STATE_STARTING || msg_parse(&m, data, len, &why) < 0)
        return;
    if (m.type == MSG_RESPONSE && m.error.code < 0) {
        give_up(p, m.error.msg);
    } else if (m.type == MSG_RESPONSE) {
        (void)uv_timer_stop(&p->timer);
        p->state = STATE_READY;
        ask_next(p);
    }
    msg_done(&m);
}

static void on_broken(struct proc *proc, const struct err *why)
{
    give_up(proc->owner, why->msg);
}

/* What it has forked last may have said so, and is known then. One that ends while it imports will
 * do so again, unless somebody killed it. */
static void on_exited(struct proc *proc)
{
    struct prepared *p = proc->owner;
    const int cannot_start = p->state == STATE_STARTING && proc->signal != SIGKILL;
    char lines[256];

    p->state = STATE_ENDING;
    (void)uv_timer_stop(&p->timer);
    (void)shutdown(p->socket, SHUT_RD);
    take_births(p);
    if (!p->is_closing && !p->is_unusable &&
        (cannot_start || ++p->n_deaths == MAX_DEATHS)) {
        capture_last_lines(&p->capture, lines, sizeof(lines));
        give_up(p, *lines != '\0' ? lines : "it dies");
    }
    uv_close((uv_handle_t *)&p->poll, on_poll_closed);
    close_fd(&p->socket);
}

static const struct proc_callbacks callbacks = {.on_message = on_message,
                                                .on_broken = on_broken,
                                                .on_exited = on_exited,
                                                .on_closed = on_proc_closed};

/* *ret_theirs is at least 3, as descriptors for a new process must be. */
static int open_socket(struct prepared *p, int *ret_theirs, struct err *err)
{
    const int on = 1;
    int ends[2];

    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
        return err_errno(err, "socketpair");
    if (setsockopt(ends[0], SOL_SOCKET, SO_PASSCRED, &on, sizeof(on)) < 0) {
        (void)close(ends[0]);
        (void)close(ends[1]);
        return err_errno(err, "SO_PASSCRED");
    }
    p->socket = ends[0];
    *ret_theirs = ends[1];
    return 0;
}

static int start(struct prepared *p, struct err *err)
{
    struct proc_spec spec = {.name = "prepared",
                             .exe_fd = p->exe_fd,
                             .block_fd = -1,
                             .log_fd = -1,
                             .shared_fd = -1};
    int rc = open_socket(p, &spec.shared_fd, err);

    if (rc < 0)
        return rc;
    (void)uv_poll_init(p->loop, &p->poll, p->socket);
    p->poll.data = p;
    p->open_parts = 2;
    p->state = STATE_STARTING;
    rc = proc_spawn(&p->proc, p->loop, &spec, &p->capture, &callbacks, p, err);
    (void)close(spec.shared_fd);
    if (rc == 0)
        rc = chan_send(&p->proc.chan, p->program->frame, p->program->len, err);
    if (rc == 0) {
        (void)uv_poll_start(&p->poll, UV_READABLE | UV_DISCONNECT, on_socket);
        (void)uv_timer_start(&p->timer, on_deadline, PREPARE_WITHIN_MS, 0);
        return 0;
    }
    if (p->proc.pid == 0) { /* its exit is not reported */
        uv_close((uv_handle_t *)&p->poll, on_poll_closed);
        close_fd(&p->socket);
    }
    return rc;
}

void prepared_ask(struct prepared *p, struct prepared_wait *w)
{
    struct err why = {0};

    w->of = p;
    TAILQ_INSERT_TAIL(&p->waiting, w, entry);
    if (p->state == STATE_READY)
        ask_next(p);
    else if (p->state == STATE_NONE && !p->is_answering && start(p, &why) < 0)
        give_up(p, why.msg);
    if (p->state == STATE_ENDING && p->open_parts == 0) {
        p->state = STATE_NONE; /* it did not come to a process */
        answer_soon(p);
    }
}

int prepared_cancel(struct prepared_wait *w)
{
    struct prepared *p = w->of;

    if (p == NULL || p->current == w)
        return 0;
    TAILQ_REMOVE(&p->waiting, w, entry);
    w->of = NULL;
    return 1;
}

void prepared_close(struct prepared *p, void (*on_closed)(void *ctx), void *ctx)
{
    p->is_closing = 1;
    p->on_closed = on_closed;
    p->closed_ctx = ctx;
    (void)uv_timer_stop(&p->timer);
    if (p->state == STATE_NONE)
        uv_close((uv_handle_t *)&p->timer, report_closed);
    else
        kill_process(p);
}
