#include "supervisor/proc/detach.h"

#include "common/io/signal_process.h"
#include "supervisor/proc/signals.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { EXIT_SIGNALLED = 128 };

void detach_stdio(void)
{
    const int fd = open("/dev/null", O_RDWR | O_CLOEXEC);

    if (fd < 0)
        return;
    for (int to = STDIN_FILENO; to <= STDERR_FILENO; to++)
        (void)dup2(fd, to);
    if (fd > STDERR_FILENO)
        (void)close(fd);
}

void detach_report(int fd, const struct detach_report *r)
{
    (void)send(fd, r, sizeof(*r), MSG_NOSIGNAL); /* the launcher may have exited */
    (void)close(fd);
}

/* ---- the launcher ---- */

static int take_interrupts(sigset_t *ret_old)
{
    sigset_t set;

    (void)sigemptyset(&set);
    if (!signal_is_ignored(SIGINT))
        (void)sigaddset(&set, SIGINT);
    (void)sigaddset(&set, SIGTERM);
    (void)sigprocmask(SIG_BLOCK, &set, ret_old);
    return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

static void forward_signals(int signals, pid_t keeper)
{
    struct signalfd_siginfo info;

    while (read(signals, &info, sizeof(info)) == sizeof(info))
        (void)signal_process(keeper, (int)info.ssi_signo);
}

/* Returns 1 and the report, or 0 if the keeper closes its end without one. */
static int receive(int fd, int signals, pid_t keeper, struct detach_report *ret)
{
    struct pollfd fds[] = {{.fd = fd, .events = POLLIN},
                           {.fd = signals, .events = POLLIN}};

    do {
        (void)poll(fds, 2, -1);
        if (fds[1].revents != 0)
            forward_signals(signals, keeper);
    } while (fds[0].revents == 0);
    return recv(fd, ret, sizeof(*ret), MSG_DONTWAIT) == sizeof(*ret);
}

/* Waits for the keeper to exit, and returns its exit code. */
static int wait_for(pid_t keeper, int signals)
{
    struct pollfd p = {.fd = signals, .events = POLLIN};
    char name[SIGNAL_NAME_BYTES];
    int status = 0;

    while (waitpid(keeper, &status, WNOHANG) == 0) {
        if (poll(&p, 1, 5) > 0)
            forward_signals(signals, keeper);
    }
    if (WIFEXITED(status))
        return WEXITSTATUS(status);
    (void)fprintf(stderr, "brood: the keeper (pid %d) was ended by %s\n", (int)keeper,
                  signal_name(WTERMSIG(status), name));
    return EXIT_SIGNALLED + WTERMSIG(status);
}

/* Closes all descriptors that the process inherited but stdin, stdout, stderr and the
 * report's. Signals stay blocked until the keeper takes them. */
static int leave(int report_fd)
{
    const int fd = STDERR_FILENO + 1;

    (void)setsid();
    (void)signal(SIGHUP,
                 SIG_DFL); /* undoes nohup: setsid has detached it from the terminal */
    if (report_fd != fd)
        (void)dup3(report_fd, fd, O_CLOEXEC);
    (void)close_range(fd + 1, ~0U, 0);
    return fd;
}

int detach_split(int *ret_fd, struct detach_report *ret, int *ret_code, struct err *err)
{
    int ends[2], signals, rc = 0;
    sigset_t old;
    pid_t keeper;

    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
        return err_errno(err, "socketpair");
    signals = take_interrupts(&old);
    keeper = signals < 0 ? -1 : fork();
    if (keeper < 0) {
        rc = err_errno(err, "starting the keeper: %s", signals < 0 ? "signalfd" : "fork");
        (void)close(ends[0]);
        (void)close(ends[1]);
    } else if (keeper == 0) {
        *ret_fd = leave(ends[1]);
        return 1;
    } else {
        (void)close(ends[1]);
        *ret_code = 0;
        if (!receive(ends[0], signals, keeper, ret)) {
            ret->supervisor = 0;
            *ret_code = wait_for(keeper, signals);
        }
        (void)close(ends[0]);
    }
    if (signals >= 0)
        (void)close(signals);
    (void)sigprocmask(SIG_SETMASK, &old, NULL);
    return rc;
}
