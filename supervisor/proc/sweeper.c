#include "supervisor/proc/sweeper.h"

#include "common/io/monotonic.h"
#include "common/io/signal_process.h"
#include "supervisor/proc/keeper.h"
#include "supervisor/proc/pid_file.h"
#include "supervisor/proc/scratch.h"
#include "supervisor/proc/sweep.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { TRIES = 2500, EVERY_MS = 2 };

/* ---- ending what is left ---- */

static int is_spared(void *ctx, pid_t pid)
{
    return pid == *(const pid_t *)ctx;
}

/* Children of a dead process become ours, so repeat until there are none. */
void sweeper_end_all(struct run_cgroup *g, const char *grace_mark, pid_t spared)
{
    if (grace_mark != NULL) {
        const int64_t until = monotonic_ms() + KEEPER_GRACE_MS;

        while (sweep_count(KEEPER_GRACE_MARK, grace_mark) > 0 && monotonic_ms() < until)
            (void)poll(NULL, 0, EVERY_MS);
    }
    run_cgroup_kill(g);
    for (int i = 0; i < TRIES && sweep_adopted(is_spared, &spared) > 0; i++)
        (void)poll(NULL, 0, EVERY_MS);
    for (int i = 0; i < TRIES && run_cgroup_remove(g) < 0; i++) {
        run_cgroup_kill(g);
        (void)poll(NULL, 0, EVERY_MS);
    }
    scratch_remove();
}

/* ---- the process ---- */

/* For the signal handler. It does not change while the handler is there. */
static pid_t watched;

static void on_keepers_end(int signum)
{
    const int saved = errno;
    struct pid_stat stat;

    /* Only to one that is stopped: at the end of a process LeakSanitizer waits for ever for a
     * stop that SIGCONT has taken back. */
    if (pid_stat_read(watched, &stat) < 0 || stat.state == 'T')
        (void)signal_process(watched, SIGCONT);
    errno = saved;
}

static void tell(const struct sweeper *s, int what)
{
    const struct sweeper_news news = {.what = what};

    if (write(s->news_fd, &news, sizeof(news)) < 0)
        return; /* nobody reads it any more */
}

/* Waits for the supervisor's end, and leaves it a zombie. Returns 1 if it has exited, 0 if a
 * signal ended it. */
static int watch(const struct sweeper *s)
{
    const id_t pid = (id_t)s->supervisor;

    for (;;) {
        siginfo_t info = {.si_pid = 0};

        if (waitid(P_ALL, 0, &info, WEXITED | WSTOPPED | WCONTINUED | WNOWAIT) < 0) {
            if (errno == EINTR)
                continue;
            return 0;
        }
        if (info.si_pid !=
            s->supervisor) { /* an orphan from before it was a sub-reaper */
            (void)waitpid(info.si_pid, NULL, WNOHANG | WUNTRACED | WCONTINUED);
            continue;
        }
        if (info.si_code != CLD_STOPPED && info.si_code != CLD_CONTINUED)
            return info.si_code == CLD_EXITED;
        tell(s, info.si_code == CLD_STOPPED ? SWEEPER_STOPPED : SWEEPER_CONTINUED);
        (void)waitid(P_PID, pid, &info, WSTOPPED | WCONTINUED | WNOHANG);
    }
}

void sweeper_begin(char ret_name[16])
{
    (void)prctl(PR_GET_NAME, ret_name);
    (void)prctl(PR_SET_NAME, "brood-sweeper");
    (void)sweep_enable(NULL); /* or else the keeper adopts and ends what is left */
}

_Noreturn void sweeper_run(struct sweeper *s)
{
    struct sigaction a = {.sa_handler = on_keepers_end};
    sigset_t all;
    int has_exited;

    /* not the keeper's group, whose signals are not for it, but its session: the shell's job
     * control works only for groups that have a parent there */
    (void)setpgid(0, 0);
    /* a stopped supervisor would not notice that its keeper has ended */
    watched = s->supervisor;
    (void)sigfillset(&a.sa_mask);
    (void)sigaction(SIGUSR1, &a, NULL);
    (void)sigfillset(&all);
    (void)sigdelset(&all, SIGUSR1);
    (void)sigprocmask(SIG_SETMASK, &all, NULL);
    (void)prctl(PR_SET_PDEATHSIG, SIGUSR1);
    if (getppid() != s->keeper)
        (void)raise(SIGUSR1);
    s->news_fd = dup2(s->news_fd, STDIN_FILENO);  /* -1: nobody hears of stops */
    (void)fcntl(s->news_fd, F_SETFL, O_NONBLOCK); /* a keeper may be stopped for long */
    (void)close_range(STDIN_FILENO + 1, ~0U, 0);
    has_exited = watch(s);
    sweeper_end_all(&s->cgroup,
                    has_exited && getppid() == s->keeper ? NULL : s->grace_mark,
                    s->supervisor);
    _exit(0);
}
