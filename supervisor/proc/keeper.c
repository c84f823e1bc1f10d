#include "supervisor/proc/keeper.h"

#include "common/confine/confine.h"
#include "common/io/monotonic.h"
#include "common/io/signal_process.h"
#include "supervisor/proc/detach.h"
#include "supervisor/proc/keeper_reexec.h"
#include "supervisor/proc/pid_file.h"
#include "supervisor/proc/pipe_marks.h"
#include "supervisor/proc/run_cgroup.h"
#include "supervisor/proc/signals.h"
#include "supervisor/proc/sweep.h"
#include "supervisor/proc/terminal_keys.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    CUT_OFF_AFTER_MS = 700, /* from a second interrupt to SIGKILL */
    SWEEP_TRIES = 2500,
    SWEEP_EVERY_MS = 2,
    EXIT_SIGNALLED = 128,
};

/* Messages from the supervisor. */
enum message_kind {
    MESSAGE_RUN,
    MESSAGE_COMMITTED,
    MESSAGE_UNDER_WAY,
    MESSAGE_KEYS,
    MESSAGE_CHECKPOINT
};

struct message {
    enum message_kind kind;
    int resume;
    unsigned place;
    uint64_t from;   /* step of the checkpoint that it resumes from */
    uint64_t folder; /* keeper_send_making; 0: keeper_send_run */
    char path[PATH_MAX];
};

struct keeper {
    const struct keeper_args *args;
    pid_t supervisor, sweeper;
    int link, signals, report_fd, has_terminal;
    int status;                /* of the supervisor, once is_over */
    int is_over;               /* the supervisor was reaped */
    int stops_late;            /* it was sent SIGTSTP, and had not stopped yet */
    int interrupts;            /* SIGINT and SIGTERM so far */
    int last_interrupt;        /* the signal */
    int64_t cut_off_ms;        /* when the supervisor gets SIGKILL; 0: never */
    int64_t stopped_until_ms;  /* the same, unless it continues */
    struct message run;        /* the newest MESSAGE_RUN; path "": none */
    int committed;             /* MESSAGE_COMMITTED was received since then */
    int has_checkpoint;        /* MESSAGE_CHECKPOINT was received since then */
    struct keeper_task before; /* the run that this keeper itself was started to resume */
    struct keeper_reexec again;
    int keys_fd;    /* what is typed goes there; -1: nowhere */
    int wants_keys; /* MESSAGE_KEYS was received */
    struct terminal_keys keys;
    struct run_cgroup cgroup; /* of supervisor and workers, not of keeper and sweeper */
};

static void print_line(const struct keeper *k, const char *text)
{
    char line[512];
    int n = snprintf(line, sizeof(line), "brood %s: %s\n", k->args->who, text);

    if (write(STDERR_FILENO, line, n < (int)sizeof(line) ? (size_t)n : sizeof(line)) < 0)
        return; /* nobody reads the output any more */
}

static const char *child_of(const struct keeper *k)
{
    return k->args->child != NULL ? k->args->child : "the supervisor";
}

/* ---- signals ---- */

static void forward(const struct keeper *k, int signum)
{
    struct pid_stat stat;

    (void)signal_process(k->supervisor, signum);
    /* Only to one that is stopped: at the end of a process LeakSanitizer waits for ever for a
     * stop that SIGCONT has taken back. */
    if (signum != SIGTSTP && signum != SIGCONT &&
        pid_stat_read(k->supervisor, &stat) == 0 && stat.state == 'T')
        (void)signal_process(k->supervisor, SIGCONT);
}

static void interrupt(struct keeper *k, int signum)
{
    forward(k, signum);
    k->last_interrupt = signum;
    if (++k->interrupts == 2)
        k->cut_off_ms = monotonic_ms() + CUT_OFF_AFTER_MS;
}

static int is_pending(int signum)
{
    sigset_t set;

    (void)sigpending(&set);
    return sigismember(&set, signum);
}

/* Whether the supervisor has stopped or ended. */
static int has_stopped(const struct keeper *k)
{
    siginfo_t info = {.si_pid = 0};

    return waitid(P_PID, (id_t)k->supervisor, &info,
                  WSTOPPED | WEXITED | WNOHANG | WNOWAIT) == 0 &&
           info.si_pid != 0;
}

/* Stops the job on SIGTSTP: agents and supervisor first, then the keeper. A supervisor that
 * waits for a slow disk stops later, perhaps after the job was continued: reap() then
 * continues it. */
static void stop_all(struct keeper *k)
{
    const int64_t until = monotonic_ms() + CUT_OFF_AFTER_MS;

    forward(k, SIGTSTP);
    k->stops_late = 1;
    while (k->stops_late && monotonic_ms() < until && !is_pending(SIGCONT)) {
        k->stops_late = !has_stopped(k);
        (void)poll(NULL, 0, 1);
    }
    terminal_keys_end(&k->keys);
    if (!is_pending(SIGCONT)) /* SIGSTOP would discard it */
        (void)raise(SIGSTOP);
}

static void note_stop(struct keeper *k, int is_stopped)
{
    const int ms = k->args->max_stopped_ms;

    k->stopped_until_ms = is_stopped && ms > 0 ? monotonic_ms() + ms : 0;
}

static void reap(struct keeper *k)
{
    int status;
    pid_t pid;

    while ((pid = waitpid(-1, &status, WNOHANG | WUNTRACED | WCONTINUED)) > 0) {
        if (pid == k->supervisor)
            note_stop(k, WIFSTOPPED(status));
        if (WIFCONTINUED(status))
            continue;
        if (WIFSTOPPED(status)) {
            if (pid == k->supervisor && k->stops_late)
                forward(k, SIGCONT);
            k->stops_late = 0;
            continue;
        }
        if (pid == k->sweeper)
            k->sweeper = 0;
        if (pid != k->supervisor)
            continue;
        k->is_over = 1;
        k->status = status;
    }
}

static void take_signal(struct keeper *k)
{
    struct signalfd_siginfo info;

    if (read(k->signals, &info, sizeof(info)) != sizeof(info))
        return;
    switch (info.ssi_signo) {
    case SIGCHLD:
        reap(k);
        break;
    case SIGTSTP:
        stop_all(k);
        break;
    case SIGCONT:
        if (k->wants_keys)
            terminal_keys_begin(&k->keys);
        forward(k, SIGCONT);
        break;
    case SIGHUP: /* the supervisor decides: an interrupt only if it has a terminal */
        forward(k, (int)info.ssi_signo);
        break;
    default:
        interrupt(k, (int)info.ssi_signo);
        break;
    }
}

static int take_signals_by_descriptor(struct keeper *k, struct err *err)
{
    sigset_t set;

    stop_signals_get(&set);
    (void)sigaddset(&set, SIGTSTP);
    (void)sigaddset(&set, SIGCONT);
    (void)sigaddset(&set, SIGCHLD);
    (void)sigprocmask(SIG_BLOCK, &set, NULL);
    k->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    return k->signals < 0 ? err_errno(err, "signalfd") : 0;
}

/* ---- messages from the supervisor ---- */

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
    const char *slash = strrchr(path, '/');
    const char *name = slash != NULL ? slash + 1 : path;
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

/* Sends the report to the launcher; from now on the run is in the background. */
static void report(struct keeper *k)
{
    static struct detach_report r;

    if (k->report_fd < 0)
        return;
    r.supervisor = k->supervisor;
    r.keeper = getpid();
    memcpy(r.path, k->run.path, sizeof(r.path));
    detach_stdio();
    detach_report(k->report_fd, &r);
    k->report_fd = -1;
}

/* Returns 0 if the link is at end of file or has no message now. */
static int take_message(struct keeper *k)
{
    static struct message m;
    ssize_t n = recv(k->link, &m, sizeof(m), MSG_DONTWAIT);

    /* Any other error is for want of memory, and passes. */
    if (n == 0 || (n < 0 && errno == ECONNRESET)) {
        (void)close(k->link);
        k->link = -1; /* poll ignores it */
    }
    if (n != sizeof(m))
        return 0;
    switch (m.kind) {
    case MESSAGE_RUN:
        k->run = m;
        k->committed = k->has_checkpoint = 0;
        break;
    case MESSAGE_COMMITTED:
        k->committed = 1;
        break;
    case MESSAGE_UNDER_WAY:
        report(k);
        break;
    case MESSAGE_KEYS:
        k->wants_keys = 1;
        terminal_keys_begin(&k->keys);
        break;
    case MESSAGE_CHECKPOINT:
        k->has_checkpoint = 1;
        break;
    }
    return 1;
}

/* ---- remaining processes ---- */

static const char *mark_of(const struct keeper *k)
{
    return k->args->mark != NULL ? k->args->mark : KEEPER_MARK;
}

static int is_sweeper(void *ctx, pid_t pid)
{
    return pid == ((const struct keeper *)ctx)->sweeper;
}

static void remove_cgroup(struct run_cgroup *g)
{
    for (int i = 0; i < SWEEP_TRIES && run_cgroup_remove(g) < 0; i++) {
        run_cgroup_kill(g);
        (void)poll(NULL, 0, SWEEP_EVERY_MS);
    }
}

/* Waits for processes that end by themselves. k: NULL in the sweeper, which has no children. */
static void await_grace(struct keeper *k, const char *mark)
{
    const int64_t until = monotonic_ms() + KEEPER_GRACE_MS;

    while (sweep_count(KEEPER_GRACE_MARK, mark) > 0 && monotonic_ms() < until) {
        (void)poll(NULL, 0, SWEEP_EVERY_MS);
        if (k != NULL)
            reap(k);
    }
}

/* Children of a dead process become ours, so repeat until there are none. */
static void sweep(struct keeper *k)
{
    if (!WIFEXITED(k->status))
        await_grace(k, getenv(mark_of(k)));
    run_cgroup_kill(&k->cgroup);
    for (int i = 0; i < SWEEP_TRIES && sweep_adopted(is_sweeper, k) > 0; i++)
        (void)poll(NULL, 0, SWEEP_EVERY_MS);
    remove_cgroup(&k->cgroup);
}

static void end_sweeper(struct keeper *k)
{
    if (k->sweeper == 0) /* it has ended, or was never started */
        return;
    (void)signal_process(k->sweeper, SIGKILL);
    (void)waitpid(k->sweeper, NULL, 0);
    k->sweeper = 0;
}

/* Runs the sweeper: sleeps until keeper and supervisor have both closed the pipe, then
 * ends the run's remaining processes. */
static _Noreturn void run_sweeper(struct run_cgroup *cgroup, const char *variable,
                                  int alive_fd)
{
    const char *mark = getenv(variable);
    sigset_t all;
    ssize_t n;
    char byte;

    (void)prctl(PR_SET_NAME, "brood-sweeper");
    (void)sigfillset(&all);
    (void)sigprocmask(SIG_BLOCK, &all, NULL);
    (void)setsid();
    if (dup2(alive_fd, STDIN_FILENO) < 0)
        _exit(1); /* it may not take another file's end for that of the run */
    (void)close_range(STDIN_FILENO + 1, ~0U, 0);
    while ((n = read(STDIN_FILENO, &byte, 1)) < 0)
        if (errno != EINTR)
            _exit(1);
    await_grace(NULL, mark);
    run_cgroup_kill(cgroup);
    for (int i = 0;
         i < SWEEP_TRIES &&
         sweep_marked(variable, mark) + sweep_marked(KEEPER_GRACE_MARK, mark) > 0;
         i++)
        (void)poll(NULL, 0, SWEEP_EVERY_MS);
    remove_cgroup(cgroup);
    _exit(0);
}

/* ---- the split ---- */

pid_t keeper_pid(void)
{
    const char *mark = getenv(KEEPER_MARK);

    return mark != NULL && (pid_t)atoi(mark) == getppid() ? getppid() : 0;
}

static void set_mark(const struct keeper *k)
{
    char mark[64];

    (void)snprintf(mark, sizeof(mark), "%d-%lld", (int)getpid(),
                   (long long)monotonic_ms());
    (void)setenv(mark_of(k), mark, 1);
}

static void become_supervisor(struct keeper *k, struct keeper_link *ret, int fd, int keys)
{
    sigset_t set;

    *ret = (struct keeper_link){.fd = fd, .has_terminal = k->has_terminal, .keys = keys};
    if (k->keys_fd >= 0)
        (void)close(k->keys_fd);
    (void)close(k->signals);
    (void)close(k->link);
    if (k->report_fd >= 0)
        (void)close(k->report_fd);
    (void)setpgid(0, 0);
    (void)signal(SIGTTOU, SIG_IGN); /* it still writes to the terminal */
    /* A stopped supervisor would not notice that its keeper has ended. */
    (void)prctl(PR_SET_PDEATHSIG, SIGCONT);
    stop_signals_get(&set);
    (void)sigprocmask(SIG_SETMASK, &set, NULL);
}

static void close_both(const int ends[2])
{
    for (int i = 0; i < 2; i++)
        if (ends[i] >= 0)
            (void)close(ends[i]);
}

/* The pipe's other end stays open in keeper and supervisor, for their lifetime. */
static int fork_sweeper(struct keeper *k, struct err *err)
{
    int alive[2], rc;
    pid_t pid;

    if (pipe2(alive, O_CLOEXEC) < 0)
        return err_errno(err, "starting the sweeper: pipe");
    pid = fork();
    if (pid == 0) {
        (void)close(alive[1]);
        run_sweeper(&k->cgroup, mark_of(k), alive[0]);
    }
    if (pid < 0) {
        rc = err_errno(err, "starting the sweeper: fork");
        close_both(alive);
        return rc;
    }
    k->sweeper = pid;
    (void)close(alive[0]);
    return 0;
}

/* Returns 1 in the supervisor. */
static int fork_supervisor(struct keeper *k, struct keeper_link *ret, struct err *err)
{
    int link[2] = {-1, -1}, keys[2] = {-1, -1}, rc;
    const char *what = "pipe";
    pid_t pid = -1;

    if (pipe2(keys, O_CLOEXEC | O_NONBLOCK) == 0) {
        what = "socketpair";
        if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, link) == 0) {
            what = "fork";
            k->keys_fd = keys[1];
            k->link = link[0];
            pid = run_cgroup_fork(&k->cgroup);
        }
    }
    if (pid == 0) {
        become_supervisor(k, ret, link[1], keys[0]);
        return 1;
    }
    if (pid < 0) {
        rc = err_errno(err, "starting %s: %s", child_of(k), what);
        close_both(link);
        close_both(keys);
        k->link = k->keys_fd = -1;
        return rc;
    }
    k->supervisor = pid;
    (void)close(keys[0]);
    (void)close(link[1]);
    return 0;
}

/* ---- the end ---- */

static int is_as_before(const struct keeper *k)
{
    return strcmp(k->run.path, k->before.path) == 0;
}

/* A supervisor may die between the commit of a checkpoint and its message; the next one
 * then begins at a later step, which shows that there was a checkpoint. */
static int deaths_so_far(const struct keeper *k)
{
    return k->has_checkpoint || !is_as_before(k) || k->before.from < k->run.from
               ? 0
               : k->before.deaths;
}

/* Executes this program again to resume the run; returns only if that failed. Signals stay
 * blocked: those that arrive meanwhile wait for the next keeper. */
static void resume(struct keeper *k)
{
    struct keeper_task task = {.deaths = deaths_so_far(k) + 1,
                               .from = k->run.from,
                               .committed = k->has_checkpoint || k->committed ||
                                            (is_as_before(k) && k->before.committed),
                               .place = k->run.place,
                               .folder = k->run.folder};

    memcpy(task.path, k->run.path, sizeof(task.path));
    keeper_reexec(&k->again, k->args->argv, &task);
}

/* Decides what follows a supervisor's death by a signal. */
static struct keeper_death decide(const struct keeper *k)
{
    struct keeper_death d = {.path = k->run.path,
                             .pid = k->supervisor,
                             .signum = WTERMSIG(k->status),
                             .is_cut_off = k->interrupts > 1};

    d.exit_code = EXIT_SIGNALLED + (d.is_cut_off ? k->last_interrupt : d.signum);
    d.resumes = k->run.resume && k->interrupts == 0 && k->report_fd < 0 &&
                deaths_so_far(k) < KEEPER_MAX_DEATHS;
    return d;
}

static void report_death(const struct keeper *k)
{
    char text[256], name[SIGNAL_NAME_BYTES];

    (void)snprintf(text, sizeof(text),
                   "%s (pid %d) was ended by %s; none of its processes is left%s",
                   child_of(k), (int)k->supervisor,
                   signal_name(WTERMSIG(k->status), name),
                   k->run.path[0] == '\0' ? ""
                                          : "; `brood resume` continues from its "
                                            "newest checkpoint");
    print_line(k, text);
}

static int end(struct keeper *k)
{
    struct keeper_death death;

    while (k->link >= 0 && take_message(k))
        ;
    sweep(k);
    end_sweeper(k);
    if (WIFEXITED(k->status))
        return WEXITSTATUS(k->status);
    death = decide(k);
    if (k->run.path[0] != '\0' && k->args->on_death != NULL)
        k->args->on_death(&death);
    if (death.resumes) {
        print_line(k, "the supervisor died: continuing from the newest checkpoint");
        resume(k);
    }
    if (!death.is_cut_off)
        report_death(k);
    return death.exit_code;
}

/* A supervisor that does not read them loses some. */
static void take_keys(struct keeper *k)
{
    char typed[64];
    const size_t n = terminal_keys_read(&k->keys, typed, sizeof(typed));

    if (n > 0 && write(k->keys_fd, typed, n) < 0)
        return;
}

/* When the supervisor is to be killed; 0: never. */
static int64_t kill_time(const struct keeper *k)
{
    if (k->cut_off_ms == 0 || k->stopped_until_ms == 0)
        return k->cut_off_ms + k->stopped_until_ms;
    return k->cut_off_ms < k->stopped_until_ms ? k->cut_off_ms : k->stopped_until_ms;
}

/* For poll: -1 waits for ever, and so would any other number below 0. */
static int wait_ms(const struct keeper *k)
{
    const int64_t left = kill_time(k) - monotonic_ms();

    if (kill_time(k) == 0)
        return -1;
    return left > 0 ? (int)left : 0;
}

static int keep(struct keeper *k)
{
    while (!k->is_over) {
        struct pollfd fds[] = {{.fd = k->signals, .events = POLLIN},
                               {.fd = k->link, .events = POLLIN},
                               {.fd = terminal_keys_fd(&k->keys), .events = POLLIN}};

        if (kill_time(k) != 0 && monotonic_ms() >= kill_time(k)) {
            (void)signal_process(k->supervisor, SIGKILL);
            k->cut_off_ms = k->stopped_until_ms = 0;
        }
        (void)poll(fds, 3, wait_ms(k));
        take_signal(k);
        if (fds[1].revents != 0)
            (void)take_message(k);
        if (fds[2].revents != 0)
            take_keys(k);
    }
    terminal_keys_end(&k->keys);
    return end(k);
}

/* Before anything else: once it has closed, a terminal cannot be opened. */
static int has_terminal(void)
{
    const int fd = open("/dev/tty", O_RDONLY | O_CLOEXEC | O_NOCTTY);

    if (fd >= 0)
        (void)close(fd);
    return fd >= 0;
}

/* Until the supervisor sends its run, the keeper assumes the run that it resumes. */
static void load_resume_task(struct keeper *k)
{
    if (!keeper_resume_task(&k->before))
        return;
    k->run.resume = 1;
    k->run.place = k->before.place;
    k->run.from = k->before.from;
    k->run.folder = k->before.folder;
    memcpy(k->run.path, k->before.path, sizeof(k->run.path));
}

int keeper_split(struct keeper_link *ret, const struct keeper_args *args, int *ret_code,
                 struct err *err)
{
    struct keeper k = {.args = args,
                       .link = -1,
                       .report_fd = args->report_fd,
                       .keys_fd = -1,
                       .has_terminal = has_terminal()};
    int rc;

    set_mark(&k);
    /* A configuration may contain secrets, and controlling the supervisor means controlling the
     * run. */
    confine_memory();
    load_resume_task(&k);
    keeper_reexec_init(&k.again);
    run_cgroup_make(&k.cgroup, getenv(mark_of(&k)));
    rc = sweep_enable(err);
    if (rc == 0)
        rc = pipe_marks_share(err);
    if (rc == 0)
        rc = take_signals_by_descriptor(&k, err);
    if (rc == 0)
        rc = fork_sweeper(&k, err);
    if (rc == 0)
        rc = fork_supervisor(&k, ret, err);
    if (rc == 0)
        *ret_code = keep(&k);
    else if (rc < 0)
        end_sweeper(&k);
    if (rc < 0)
        remove_cgroup(&k.cgroup);
    keeper_reexec_done(&k.again);
    return rc;
}
