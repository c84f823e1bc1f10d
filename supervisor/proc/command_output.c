#include "supervisor/proc/command_output.h"

#include "common/io/monotonic.h"
#include "common/io/signal_process.h"
#include "common/wire/cursor.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { READ_BYTES = 4096, LOOK_MS = 10 };

/* errno, or 0. No signal is blocked or ignored in the program. */
static int spawn(pid_t *ret, const char *const *argv, int output)
{
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attr;
    sigset_t none, all;
    int rc;

    (void)sigemptyset(&none);
    (void)sigfillset(&all);
    if ((rc = posix_spawn_file_actions_init(&files)) != 0)
        return rc;
    if ((rc = posix_spawnattr_init(&attr)) != 0) {
        (void)posix_spawn_file_actions_destroy(&files);
        return rc;
    }
    (void)posix_spawnattr_setsigmask(&attr, &none);
    (void)posix_spawnattr_setsigdefault(&attr, &all);
    (void)posix_spawnattr_setpgroup(&attr, 0);
    rc = posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF |
                                             POSIX_SPAWN_SETPGROUP);
    if (rc == 0)
        rc = posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY,
                                              0);
    if (rc == 0)
        rc = posix_spawn_file_actions_adddup2(&files, output, STDOUT_FILENO);
    if (rc == 0)
        rc = posix_spawn_file_actions_adddup2(&files, output, STDERR_FILENO);
    if (rc == 0)
        rc = posix_spawnp(ret, argv[0], &files, &attr, (char *const *)(uintptr_t)argv,
                          environ); /* reads them only */
    (void)posix_spawnattr_destroy(&attr);
    (void)posix_spawn_file_actions_destroy(&files);
    return rc;
}

/* Reads what is there. */
static void take(int fd, struct wbuf *output)
{
    ssize_t n;

    do {
        wbuf_reserve(output, READ_BYTES);
        n = read(fd, output->data + output->len, READ_BYTES);
        if (n > 0 && output->len + (size_t)n < COMMAND_OUTPUT_MAX_BYTES)
            output->len += (size_t)n;
    } while (n > 0 || (n < 0 && errno == EINTR));
}

/* Reads until the program has ended: others may hold its output for longer. */
static int follow(pid_t pid, int fd, int timeout_ms, struct wbuf *output, int *ret_status)
{
    const int64_t until = monotonic_ms() + timeout_ms;
    int is_late = 0;

    for (;;) {
        struct pollfd p = {.fd = fd, .events = POLLIN};
        pid_t ended;

        (void)poll(&p, 1, LOOK_MS);
        if (p.revents & (POLLHUP | POLLERR))
            (void)poll(NULL, 0, 1);
        take(fd, output);
        ended = waitpid(pid, ret_status, WNOHANG);
        if (ended == pid || (ended < 0 && errno != EINTR)) {
            take(fd, output);
            return is_late;
        }
        if (monotonic_ms() > until) {
            is_late = 1;
            (void)signal_group(pid, SIGKILL);
        }
    }
}

int command_output(const char *const *argv, int timeout_ms, char **ret_output,
                   int *ret_status, struct err *err)
{
    struct wbuf output = {0};
    pid_t pid;
    int ends[2], rc, is_late;

    *ret_output = NULL;
    if (pipe2(ends, O_CLOEXEC) < 0)
        return err_errno(err, "pipe");
    (void)fcntl(ends[0], F_SETFL, O_NONBLOCK);
    rc = spawn(&pid, argv, ends[1]);
    (void)close(ends[1]);
    if (rc != 0) {
        (void)close(ends[0]);
        errno = rc;
        return err_errno(err, "%s", argv[0]);
    }
    is_late = follow(pid, ends[0], timeout_ms, &output, ret_status);
    (void)close(ends[0]);
    wbuf_reserve(&output, 1);
    output.data[output.len] = '\0';
    *ret_output = strdup((const char *)output.data);
    wbuf_done(&output);
    if (!is_late)
        return 0;
    free(*ret_output);
    *ret_output = NULL;
    return err_set(err, ERR_TIMEOUT, "%s did not end within %d s", argv[0],
                   timeout_ms / 1000);
}

char *command_last_line(char *text)
{
    size_t len = strlen(text);
    char *line;

    while (len > 0 && (text[len - 1] == '\n' || text[len - 1] == ' '))
        text[--len] = '\0';
    line = strrchr(text, '\n');
    return line != NULL ? line + 1 : text;
}

int command_ask(const char *const *argv, int timeout_ms, char **ret_output,
                struct err *err)
{
    int status, rc = command_output(argv, timeout_ms, ret_output, &status, err);

    if (rc < 0 || (WIFEXITED(status) && WEXITSTATUS(status) == 0))
        return rc;
    if (WIFSIGNALED(status))
        rc = err_set(err, ERR_STATE, "%s was ended by signal %d", argv[0],
                     WTERMSIG(status));
    else
        rc = err_set(err, ERR_STATE, "%s: %s", argv[0], command_last_line(*ret_output));
    free(*ret_output);
    *ret_output = NULL;
    return rc;
}
