#include "supervisor/proc/proc.h"

#include "common/err/check.h"
#include "common/io/close_fd.h"
#include "common/io/signal_process.h"
#include "common/log/log.h"
#include "common/msg/protocol.h"
#include "common/numerics/cpu_kernels.h"
#include "supervisor/proc/child.h"
#include "supervisor/proc/keeper.h"
#include "supervisor/proc/program.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/wait.h>
#include <unistd.h>

/* Between two looks whether this process is the parent of an adopted one by now. */
enum { ADOPTION_MS = 2 };

/* The running processes of all owners. Any other child of this process is an orphan that
 * a worker left behind. */
static LIST_HEAD(, proc) running = LIST_HEAD_INITIALIZER(running);

/* The pipes of a new process, [0] to read from, [1] to write to; -1 when not ours. */
struct proc_pipes {
    int in[2], out[2], text[2];
};

static int take_fd(int *fd)
{
    int taken = *fd;

    *fd = -1;
    return taken;
}

static int pipes_open(struct proc_pipes *p, struct err *err)
{
    *p = (struct proc_pipes){{-1, -1}, {-1, -1}, {-1, -1}};
    if (pipe2(p->in, O_CLOEXEC) < 0 || pipe2(p->out, O_CLOEXEC) < 0 ||
        pipe2(p->text, O_CLOEXEC) < 0)
        return err_errno(err, "making pipes for a process");
    return 0;
}

static void pipes_close(struct proc_pipes *p)
{
    close_fd(&p->in[0]);
    close_fd(&p->in[1]);
    close_fd(&p->out[0]);
    close_fd(&p->out[1]);
    close_fd(&p->text[0]);
    close_fd(&p->text[1]);
}

static void part_closed(struct proc *p)
{
    if (--p->open_parts > 0)
        return;
    p->cb->on_closed(p);
}

static void on_handle_closed(uv_handle_t *h)
{
    part_closed(h->data);
}

static void on_chan_closed(struct chan *c)
{
    part_closed(c->owner);
}

static void on_capture_closed(struct capture *c)
{
    part_closed(c->owner);
}

static void proc_close(struct proc *p)
{
    if (p->closing)
        return;
    p->closing = 1;
    if (p->has_watch)
        uv_close((uv_handle_t *)&p->watch, on_handle_closed);
    close_fd(&p->pidfd);
    uv_close((uv_handle_t *)&p->timer, on_handle_closed);
    if (p->has_chan)
        chan_close(&p->chan, on_chan_closed);
    if (p->has_capture)
        capture_close(p->capture, on_capture_closed);
}

static void proc_close_if_drained(struct proc *p)
{
    if (p->exited && p->chan_eof && p->capture_eof)
        proc_close(p);
}

static void on_drained(uv_timer_t *timer)
{
    proc_close(timer->data);
}

static void take_exit(struct proc *p, int64_t status, int signum)
{
    LIST_REMOVE(p, entry);
    p->exited = 1;
    p->signal = signum;
    p->exit_code = signum != 0 ? -1 : (int)status;
    (void)uv_timer_start(&p->timer, on_drained, PROC_DRAIN_MS, 0);
    p->cb->on_exited(p);
    proc_close_if_drained(p);
}

static void on_lingering(uv_timer_t *timer)
{
    struct proc *p = timer->data;
    struct err err;

    (void)err_set(&err, ERR_PROTOCOL, "closed its message pipe and continued to run");
    p->cb->on_broken(p, &err);
}

static int is_peer_gone(int code)
{
    return code == 0 || code == UV_EOF || code == UV_EPIPE || code == UV_ECONNRESET;
}

static void on_chan_end(struct chan *c, const struct err *err)
{
    struct proc *p = c->owner;

    p->chan_eof = 1;
    if (p->is_looking) /* it has ended */
        return;
    if (!p->exited && is_peer_gone(err->code))
        (void)uv_timer_start(&p->timer, on_lingering, PROC_LINGER_MS, 0);
    else if (!p->exited)
        p->cb->on_broken(p, err);
    proc_close_if_drained(p);
}

static void on_chan_message(struct chan *c, const uint8_t *data, size_t len)
{
    struct proc *p = c->owner;

    p->cb->on_message(p, data, len);
}

static void on_capture_end(struct capture *c)
{
    struct proc *p = c->owner;

    p->capture_eof = 1;
    proc_close_if_drained(p);
}

/* Environment variables that a process inherits: the mark of its run, the choice of
 * kernels, what it logs and checks, how an agent of the tests is to die, and its node's
 * generation and programs (supervisor/node/node.h, node_programs.h). External programs need
 * the last two. */
static const char *const passed[] = {KEEPER_MARK "=",
                                     CPU_KERNELS_VARIABLE "=",
                                     LOG_LEVEL_VARIABLE "=",
                                     "BROOD_CHECK_PURE=",
                                     "BROOD_DEBUG=",
                                     "BROOD_FAULT=",
                                     "BROOD_GENERATION=",
                                     "BROOD_PROGRAMS=",
                                     KEEPER_NODE_MARK "=",
                                     "PATH=",
                                     "HOME="};
enum { N_PASSED = sizeof(passed) / sizeof(passed[0]), N_PASSED_TO_AGENTS = N_PASSED - 2 };

/* PYTHONHASHSEED=0: Python's hashes of strings, and so the order of a set, must be the
 * same in every process. */
static void make_environment(char *ret[N_PASSED + 3], int is_agent)
{
    static char lc_all[] = "LC_ALL=C", path[] = "PATH=/usr/bin:/bin",
                hash_seed[] = "PYTHONHASHSEED=0";
    size_t n = 0;

    ret[n++] = lc_all;
    ret[n++] = is_agent ? path : hash_seed;
    n +=
        program_pass_variables(passed, is_agent ? N_PASSED_TO_AGENTS : N_PASSED, ret + n);
    ret[n] = NULL;
}

/* `brood-agent agent PARENT NAME`, `brood-agent launch PARENT --keep N -- COMMAND...`, or
 * `brood-agent MODE PARENT COMMAND...`. */
static int make_arguments(const char *ret[PROC_MAX_COMMAND + 8],
                          const struct proc_spec *spec, const char *parent,
                          const char *keep, struct err *err)
{
    size_t n = 0;

    ret[n++] = "brood-agent";
    ret[n++] = spec->command == NULL ? "agent"
               : spec->mode != NULL  ? spec->mode
                                     : "launch";
    ret[n++] = parent;
    if (spec->command == NULL)
        ret[n++] = spec->name;
    else if (spec->mode == NULL)
        ret[n++] = "--keep", ret[n++] = keep, ret[n++] = "--";
    for (size_t i = 0; spec->command != NULL && spec->command[i] != NULL; i++) {
        if (i == PROC_MAX_COMMAND)
            return err_set(err, ERR_LIMIT, "a command of more than %d words",
                           PROC_MAX_COMMAND);
        ret[n++] = spec->command[i];
    }
    ret[n] = NULL;
    return 0;
}

static void look_for_exit(struct proc *p);

static void on_look_again(uv_timer_t *timer)
{
    look_for_exit(timer->data);
}

static void on_pidfd(uv_poll_t *watch, int status, int events)
{
    look_for_exit(watch->data);
}

/* Until the process that forked it has ended, this one is not its parent. */
static void look_for_exit(struct proc *p)
{
    siginfo_t info = {0};

    (void)uv_poll_stop(&p->watch);
    p->is_looking = waitid(P_PIDFD, (id_t)p->pidfd, &info, WEXITED | WNOHANG) < 0;
    if (p->is_looking)
        (void)uv_timer_start(&p->timer, on_look_again, ADOPTION_MS, 0);
    else if (info.si_pid == 0) /* it runs */
        CHECK(uv_poll_start(&p->watch, UV_READABLE, on_pidfd) == 0);
    else if (info.si_code == CLD_EXITED)
        take_exit(p, info.si_status, 0);
    else
        take_exit(p, 0, info.si_status);
}

/* It is a child, or will soon be one. */
static int watch_process(struct proc *p, uv_loop_t *loop, pid_t pid, struct err *err)
{
    int rc;

    p->pidfd = pidfd_open(pid, 0);
    if (p->pidfd < 0)
        return err_errno(err, "pidfd_open");
    rc = uv_poll_init(loop, &p->watch, p->pidfd);
    if (rc < 0) {
        close_fd(&p->pidfd);
        return err_set(err, rc, "watching a process: %s", uv_strerror(rc));
    }
    p->watch.data = p;
    p->has_watch = 1;
    p->open_parts++;
    p->pid = pid;
    p->exited = 0;
    LIST_INSERT_HEAD(&running, p, entry);
    CHECK(uv_poll_start(&p->watch, UV_READABLE, on_pidfd) == 0);
    return 0;
}

static int proc_start(struct proc *p, uv_loop_t *loop, const struct proc_spec *spec,
                      const struct proc_pipes *pipes, struct err *err)
{
    const int fds[AGENT_FD_COUNT] = {
        [0] = -1,
        [1] = pipes->text[1],
        [2] = pipes->text[1],
        [AGENT_FD_IN] = pipes->in[0],
        [AGENT_FD_OUT] = pipes->out[1],
        [AGENT_FD_BLOCK] = spec->block_fd,
        [AGENT_FD_LOG] = spec->log_fd,
        [AGENT_FD_SHARED] = spec->shared_fd,
    };
    const int is_agent = spec->command == NULL;
    char exe[64], parent[32], keep[8];
    const char *args[PROC_MAX_COMMAND + 8];
    char *env[N_PASSED + 3];
    const struct child_spec child = {
        .kind = CHILD_OF_SESSION,
        .file = exe,
        .args = (char *const *)(uintptr_t)args, /* read only */
        .env = env,
        .directory = spec->directory,
        .fds = fds,
        .n_fds = is_agent ? AGENT_FD_COUNT : AGENT_FD_OUT + 1};
    pid_t pid;
    int rc;

    CHECK(spec->exe_fd >= AGENT_FD_COUNT);
    (void)snprintf(exe, sizeof(exe), "/proc/self/fd/%d", spec->exe_fd);
    (void)snprintf(parent, sizeof(parent), "%d", (int)getpid());
    (void)snprintf(keep, sizeof(keep), "%zu", child.n_fds);
    make_environment(env, is_agent);
    if ((rc = make_arguments(args, spec, parent, keep, err)) < 0)
        return rc;
    rc = child_spawn(&pid, &child);
    if (rc != 0 && spec->directory != NULL && access(spec->directory, X_OK) < 0)
        return err_errno(err, "starting process %s: its folder %s", spec->name,
                         spec->directory);
    if (rc != 0)
        return err_set(err, -rc, "starting process %s: %s", spec->name, uv_strerror(-rc));
    rc = watch_process(p, loop, pid, err);
    if (rc < 0) { /* nobody would see its end */
        (void)signal_group(pid, SIGKILL);
        (void)waitpid(pid, NULL, 0);
    }
    return rc;
}

static int proc_open_streams(struct proc *p, uv_loop_t *loop, struct proc_pipes *pipes,
                             struct err *err)
{
    int rc;

    p->has_chan = 1;
    p->chan_eof = 0;
    p->open_parts++;
    rc = chan_open(&p->chan, loop, take_fd(&pipes->out[0]), take_fd(&pipes->in[1]),
                   on_chan_message, on_chan_end, p, err);
    if (rc < 0)
        return rc;

    p->has_capture = 1;
    p->capture_eof = 0;
    p->open_parts++;
    return capture_open(p->capture, loop, take_fd(&pipes->text[0]), on_capture_end, p,
                        err);
}

static void proc_init(struct proc *p, uv_loop_t *loop, struct capture *capture,
                      const struct proc_callbacks *cb, void *owner)
{
    /* A stream that was not opened counts as ended. */
    *p = (struct proc){.owner = owner,
                       .cb = cb,
                       .capture = capture,
                       .pidfd = -1,
                       .ends = {-1, -1, -1},
                       .exited = 1,
                       .exit_code = -1,
                       .chan_eof = 1,
                       .capture_eof = 1,
                       .open_parts = 1};
    (void)uv_timer_init(loop, &p->timer);
    p->timer.data = p;
}

int proc_spawn(struct proc *p, uv_loop_t *loop, const struct proc_spec *spec,
               struct capture *capture, const struct proc_callbacks *cb, void *owner,
               struct err *err)
{
    struct proc_pipes pipes;
    int rc;

    proc_init(p, loop, capture, cb, owner);
    rc = pipes_open(&pipes, err);
    if (rc == 0)
        rc = proc_start(p, loop, spec, &pipes, err);
    if (rc == 0)
        rc = proc_open_streams(p, loop, &pipes, err);
    pipes_close(&pipes);
    if (rc < 0)
        proc_kill(p);
    if (rc < 0 && p->exited)
        proc_close(p);
    return rc;
}

/* ---- a process that another one has started ---- */

static void close_ends(struct proc *p)
{
    for (size_t i = 0; i < sizeof(p->ends) / sizeof(p->ends[0]); i++)
        close_fd(&p->ends[i]);
}

int proc_expect(struct proc *p, uv_loop_t *loop, struct capture *capture,
                const struct proc_callbacks *cb, void *owner, struct err *err)
{
    struct proc_pipes pipes;
    int rc;

    proc_init(p, loop, capture, cb, owner);
    rc = pipes_open(&pipes, err);
    if (rc == 0)
        rc = proc_open_streams(p, loop, &pipes, err);
    if (rc == 0) {
        p->ends[0] = take_fd(&pipes.in[0]);
        p->ends[1] = take_fd(&pipes.out[1]);
        p->ends[2] = take_fd(&pipes.text[1]);
    }
    pipes_close(&pipes);
    if (rc < 0)
        proc_close(p);
    return rc;
}

void proc_forget(struct proc *p)
{
    close_ends(p);
    if (p->exited) /* otherwise it has been killed, and its exit follows */
        proc_close(p);
}

int proc_adopt(struct proc *p, uv_loop_t *loop, pid_t pid, struct err *err)
{
    close_ends(p);
    return watch_process(p, loop, pid, err);
}

int proc_spawn_expected(struct proc *p, uv_loop_t *loop, const struct proc_spec *spec,
                        struct err *err)
{
    const struct proc_pipes pipes = {
        {p->ends[0], -1}, {-1, p->ends[1]}, {-1, p->ends[2]}};
    const int rc = proc_start(p, loop, spec, &pipes, err);

    close_ends(p);
    if (rc < 0)
        proc_kill(p);
    return rc;
}

int proc_signal(struct proc *p, int signum)
{
    if (p->pidfd < 0)
        return UV_ESRCH;
    return signal_pidfd(p->pidfd, p->pid, signum) < 0 ? -errno : 0;
}

void proc_kill(struct proc *p)
{
    /* Only this thread waits for it: until it does, no other group has that number. */
    if (proc_signal(p, SIGKILL) == 0)
        (void)signal_group(p->pid, SIGKILL);
}

int proc_is_known(pid_t pid)
{
    const struct proc *p;

    LIST_FOREACH(p, &running, entry)
    if (p->pid == pid)
        return 1;
    return 0;
}
