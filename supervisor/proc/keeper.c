#include "supervisor/proc/keeper.h"

#include "common/confine/confine.h"
#include "common/io/close_fd.h"
#include "common/io/monotonic.h"
#include "common/io/signal_process.h"
#include "common/log/log.h"
#include "supervisor/proc/detach.h"
#include "supervisor/proc/keeper_message.h"
#include "supervisor/proc/keeper_reexec.h"
#include "supervisor/proc/pid_file.h"
#include "supervisor/proc/run_cgroup.h"
#include "supervisor/proc/scratch.h"
#include "supervisor/proc/signals.h"
#include "supervisor/proc/stall.h"
#include "supervisor/proc/sweep.h"
#include "supervisor/proc/sweeper.h"
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
    TOLD_WITHIN_MS = 1000,  /* after the supervisor's end */
    EXIT_SIGNALLED = 128,
};

struct keeper {
    const struct keeper_args *args;
    pid_t self, supervisor, sweeper; /* 0: there is none */
    int news;                        /* from the sweeper */
    int link, signals, report_fd, has_terminal;
    int status;    /* of the supervisor, once is_over */
    int is_over;   /* the supervisor was reaped */
    int is_paused; /* the job was stopped, and not continued yet */
    struct keeper_watch watch;
    int is_overdue;            /* the supervisor was killed for run.watchdog */
    pid_t teller;              /* the newest process of tell; 0: it has ended */
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
    struct pid_stat stat;

    return pid_stat_read(k->supervisor, &stat) < 0 || strchr("TZX", stat.state) != NULL;
}

static void note_stop(struct keeper *k, int is_stopped)
{
    const int ms = k->args->max_stopped_ms;

    k->stopped_until_ms = is_stopped && ms > 0 ? monotonic_ms() + ms : 0;
    if (is_stopped && k->stops_late)
        forward(k, SIGCONT);
    if (is_stopped)
        k->stops_late = 0;
}

/* Closes the pipe if the sweeper has ended. */
static void take_news(struct keeper *k)
{
    struct sweeper_news news;
    ssize_t n;

    while ((n = read(k->news, &news, sizeof(news))) == sizeof(news))
        note_stop(k, news.what == SWEEPER_STOPPED);
    if (n == 0)
        close_fd(&k->news);
}

/* Stops the job on SIGTSTP: agents and supervisor first, then the keeper. A supervisor that
 * waits for a slow disk stops later, perhaps after the job was continued: reap() then
 * continues it. */
static void stop_all(struct keeper *k)
{
    const int64_t until = monotonic_ms() + CUT_OFF_AFTER_MS;

    take_news(k); /* of earlier stops */
    forward(k, SIGTSTP);
    k->is_paused = 1;
    k->stops_late = 1;
    while (k->stops_late && monotonic_ms() < until && !is_pending(SIGCONT)) {
        k->stops_late = !has_stopped(k);
        (void)poll(NULL, 0, 1);
    }
    terminal_keys_end(&k->keys);
    if (!is_pending(SIGCONT)) /* SIGSTOP would discard it */
        (void)raise(SIGSTOP);
}

/* The supervisor is this process's child once the sweeper has ended. */
static void reap(struct keeper *k)
{
    int status;
    pid_t pid;

    while ((pid = waitpid(-1, &status, WNOHANG | WUNTRACED | WCONTINUED)) > 0) {
        const int has_ended = WIFEXITED(status) || WIFSIGNALED(status);

        if (pid == k->sweeper && WIFSTOPPED(status))
            (void)signal_process(pid, SIGCONT);
        else if (pid == k->sweeper && has_ended)
            k->sweeper = 0;
        else if (pid == k->teller && has_ended)
            k->teller = 0;
        else if (pid == k->supervisor && !has_ended)
            note_stop(k, WIFSTOPPED(status));
        if (pid != k->supervisor || !has_ended)
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
        k->is_paused = 0;
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
        close_fd(&k->link); /* poll ignores it */
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
    case MESSAGE_WATCHDOG:
        k->watch.limit_ms = m.limit_ms;
        break;
    }
    return 1;
}

/* ---- the split ---- */

static const char *mark_of(const struct keeper *k)
{
    return k->args->mark != NULL ? k->args->mark : KEEPER_MARK;
}

/* The keeper of this process, which is a supervisor or a node; 0: it has none. */
static pid_t kept_by;

pid_t keeper_pid(void)
{
    return kept_by;
}

/* Descriptors that are there before the processes are. */
struct ends {
    int link[2], keys[2], news[2];
};

static void close_ends(struct ends *e)
{
    for (int i = 0; i < 2; i++) {
        close_fd(&e->link[i]);
        close_fd(&e->keys[i]);
        close_fd(&e->news[i]);
    }
}

static int open_ends(struct ends *e, struct err *err)
{
    const char *what = "pipe";
    int rc;

    *e = (struct ends){{-1, -1}, {-1, -1}, {-1, -1}};
    if (pipe2(e->keys, O_CLOEXEC | O_NONBLOCK) == 0 && pipe2(e->news, O_CLOEXEC) == 0) {
        what = "socketpair";
        if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, e->link) == 0)
            return 0;
    }
    rc = err_errno(err, "starting the sweeper: %s", what);
    close_ends(e);
    return rc;
}

static void become_supervisor(struct keeper *k, struct keeper_link *ret, struct ends *e,
                              const char *name)
{
    sigset_t set;

    (void)prctl(PR_SET_NAME, name);
    kept_by = k->self;
    *ret = (struct keeper_link){.fd = e->link[1],
                                .has_terminal = k->has_terminal,
                                .keys = e->keys[0],
                                .beats = k->watch.beats};
    e->link[1] = e->keys[0] = -1;
    close_ends(e);
    close_fd(&k->signals);
    close_fd(&k->report_fd);
    (void)setpgid(0, 0);
    (void)signal(SIGTTOU, SIG_IGN); /* it still writes to the terminal */
    /* if the sweeper is killed, the keeper is its parent */
    (void)prctl(PR_SET_PDEATHSIG, SIGCONT);
    stop_signals_get(&set);
    (void)sigprocmask(SIG_SETMASK, &set, NULL);
}

/* Forks the supervisor, in the sweeper. Returns only in the supervisor. */
static void fork_supervisor(struct keeper *k, struct keeper_link *ret, struct ends *e)
{
    struct sweeper s = {.keeper = k->self,
                        .news_fd = e->news[1],
                        .cgroup = k->cgroup,
                        .grace_mark = getenv(mark_of(k))};
    struct sweeper_news news = {.what = SWEEPER_STARTED};
    char name[16];

    sweeper_begin(name);
    s.supervisor = run_cgroup_fork(&k->cgroup);
    if (s.supervisor == 0) {
        become_supervisor(k, ret, e, name);
        return;
    }
    news.value = s.supervisor;
    if (s.supervisor < 0)
        news = (struct sweeper_news){SWEEPER_FAILED, errno};
    if (write(s.news_fd, &news, sizeof(news)) != sizeof(news) || s.supervisor < 0)
        _exit(1);
    sweeper_run(&s);
}

/* Forks sweeper and supervisor. Returns 1 in the supervisor. */
static int fork_both(struct keeper *k, struct keeper_link *ret, struct err *err)
{
    struct sweeper_news news = {.what = SWEEPER_FAILED, .value = ECHILD};
    struct ends e;
    pid_t pid;
    int rc = open_ends(&e, err);

    if (rc < 0)
        return rc;
    pid = fork();
    if (pid == 0) {
        fork_supervisor(k, ret, &e);
        return 1;
    }
    if (pid < 0) {
        rc = err_errno(err, "starting the sweeper: fork");
        close_ends(&e);
        return rc;
    }
    k->sweeper = pid;
    k->link = e.link[0];
    k->keys_fd = e.keys[1];
    k->news = e.news[0];
    close_fd(&e.link[1]);
    close_fd(&e.keys[0]);
    close_fd(&e.news[1]);
    /* the sweeper's first news; at end of file somebody has killed it */
    while (read(k->news, &news, sizeof(news)) < 0 && errno == EINTR)
        ;
    if (news.what != SWEEPER_STARTED) {
        errno = news.value;
        return err_errno(err, "starting %s: fork", child_of(k));
    }
    k->supervisor = news.value;
    (void)fcntl(k->news, F_SETFL, O_NONBLOCK);
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

static void report_overdue(const struct keeper *k)
{
    char text[256];

    (void)snprintf(text, sizeof(text),
                   "%s (pid %d) has not gone on for %g s (run.watchdog): it was ended",
                   child_of(k), (int)k->supervisor, (double)k->watch.limit_ms / 1000);
    print_line(k, text);
}

static int end(struct keeper *k)
{
    struct keeper_death death;
    int64_t until;

    while (k->link >= 0 && take_message(k))
        ;
    /* what waits for a blocked disk or reader is ended with the rest */
    until = monotonic_ms() + TOLD_WITHIN_MS;
    while (k->teller != 0 && monotonic_ms() < until) {
        (void)poll(NULL, 0, 2);
        reap(k);
    }
    /* nothing, unless the sweeper was killed */
    sweeper_end_all(&k->cgroup, WIFEXITED(k->status) ? NULL : getenv(mark_of(k)), 0);
    if (WIFEXITED(k->status))
        return WEXITSTATUS(k->status);
    if (k->is_overdue)
        report_overdue(k);
    death = decide(k);
    if (k->run.path[0] != '\0' && k->args->on_death != NULL)
        k->args->on_death(&death);
    if (death.resumes) {
        print_line(k, "the supervisor died: continuing from the newest checkpoint");
        resume(k);
    }
    if (!death.is_cut_off) {
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
    return death.exit_code;
}

/* ---- a supervisor that does not go on ---- */

/* Another process writes it down and prints the text, if any: this one must not wait for the
 * disk, nor for whoever reads the output. */
static void tell(struct keeper *k, const char *why, const char *text)
{
    char since[LOG_TIME_BYTES];
    const struct keeper_stall stall = {k->run.path, k->supervisor,
                                       log_time_of(k->watch.since, since), why};
    const pid_t pid = fork();

    if (pid != 0) {
        k->teller = pid > 0 ? pid : 0; /* without another process nobody is told */
        return;
    }
    (void)setsid(); /* as the sweeper: it is not the supervisor */
    if (k->args->on_stall != NULL)
        k->args->on_stall(&stall);
    if (text != NULL)
        print_line(k, text);
    _exit(0);
}

static void report_stall(struct keeper *k, const char *why)
{
    char text[64 + STALL_TEXT_BYTES];

    if (k->run.path[0] == '\0') /* it has no run, or is a node */
        return;
    (void)snprintf(text, sizeof(text), "%s (pid %d) %s%s", child_of(k),
                   (int)k->supervisor, why != NULL ? "does not go on: " : "goes on",
                   why != NULL ? why : "");
    tell(k, why, text);
}

static void watch(struct keeper *k)
{
    char why[STALL_TEXT_BYTES];

    switch (keeper_watch_look(&k->watch, k->supervisor, monotonic_ms(), k->is_paused)) {
    case KEEPER_NO_NEWS:
        break;
    case KEEPER_STALLS:
        report_stall(k, stall_text(k->supervisor, why));
        break;
    case KEEPER_GOES_ON:
        report_stall(k, NULL);
        break;
    case KEEPER_OVERDUE:
        k->is_overdue = 1; /* the end says why (report_overdue) */
        tell(k, stall_text(k->supervisor, why), NULL);
        (void)signal_process(k->supervisor, SIGKILL);
        break;
    }
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

static int wait_ms(const struct keeper *k)
{
    const int64_t left = kill_time(k) - monotonic_ms();

    if (kill_time(k) == 0 || left > KEEPER_LOOK_MS)
        return KEEPER_LOOK_MS;
    return left > 0 ? (int)left : 0;
}

static int keep(struct keeper *k)
{
    while (!k->is_over) {
        struct pollfd fds[] = {{.fd = k->signals, .events = POLLIN},
                               {.fd = k->link, .events = POLLIN},
                               {.fd = terminal_keys_fd(&k->keys), .events = POLLIN},
                               {.fd = k->news, .events = POLLIN}};

        if (kill_time(k) != 0 && monotonic_ms() >= kill_time(k)) {
            (void)signal_process(k->supervisor, SIGKILL);
            k->cut_off_ms = k->stopped_until_ms = 0;
        }
        (void)poll(fds, 4, wait_ms(k));
        take_signal(k);
        if (fds[1].revents != 0)
            (void)take_message(k);
        if (fds[2].revents != 0)
            take_keys(k);
        if (fds[3].revents != 0)
            take_news(k);
        if (!k->is_over)
            watch(k);
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

int keeper_split(struct keeper_link *ret, const struct keeper_args *args, int *ret_code,
                 struct err *err)
{
    char mark[64];
    struct keeper k = {.args = args,
                       .self = getpid(),
                       .link = -1,
                       .news = -1,
                       .report_fd = args->report_fd,
                       .keys_fd = -1,
                       .has_terminal = has_terminal()};
    int rc;

    keeper_watch_init(&k.watch);
    (void)snprintf(mark, sizeof(mark), "%d-%lld", (int)getpid(),
                   (long long)monotonic_ms());
    (void)setenv(mark_of(&k), mark, 1);
    scratch_name(mark);
    /* A configuration may contain secrets, and controlling the supervisor means controlling the
     * run. */
    confine_memory();
    if (keeper_resume_task(&k.before)) { /* assumed until the supervisor sends its run */
        k.run.resume = 1;
        k.run.place = k.before.place;
        k.run.from = k.before.from;
        k.run.folder = k.before.folder;
        memcpy(k.run.path, k.before.path, sizeof(k.run.path));
    }
    keeper_reexec_init(&k.again);
    run_cgroup_make(&k.cgroup, getenv(mark_of(&k)));
    rc = sweep_enable(err);
    if (rc == 0)
        rc = take_signals_by_descriptor(&k, err);
    if (rc == 0)
        rc = fork_both(&k, ret, err);
    if (rc == 0)
        *ret_code = keep(&k);
    if (rc < 0) {
        if (k.sweeper != 0) { /* 0: it has ended, or was never started */
            (void)signal_process(k.sweeper, SIGKILL);
            (void)waitpid(k.sweeper, NULL, 0);
        }
        sweeper_end_all(&k.cgroup, NULL, 0);
    }
    keeper_reexec_done(&k.again);
    return rc;
}
