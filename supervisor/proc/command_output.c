#include "supervisor/proc/command_output.h"

#include "common/io/close_fd.h"
#include "common/io/monotonic.h"
#include "common/io/signal_process.h"
#include "common/mem/xmalloc.h"
#include "common/wire/cursor.h"
#include "supervisor/proc/child.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    READ_BYTES = 4096,
    TAKE_BYTES = 1 << 20, /* of one program before the others have their turn */
    LOOK_MS = 10,
    MOST_AT_ONCE = 32, /* programs, each of which has a descriptor */
};

/* A program that runs. */
struct running {
    struct asked_command *of;
    pid_t pid;
    int fd;
    struct wbuf output;
};

/* Reads what is there; not all of it if the program writes as fast as this reads. */
static void command_output_take(struct running *r)
{
    struct wbuf *output = &r->output;
    size_t taken = 0;
    ssize_t n;

    do {
        wbuf_reserve(output, READ_BYTES);
        n = read(r->fd, output->data + output->len, READ_BYTES);
        taken += n > 0 ? (size_t)n : 0;
        if (n > 0 && output->len + (size_t)n < COMMAND_OUTPUT_MAX_BYTES)
            output->len += (size_t)n;
    } while ((n > 0 && taken < TAKE_BYTES) || (n < 0 && errno == EINTR));
}

/* Returns 0 if the program runs; otherwise its error is set. */
static int start(struct running *ret, struct asked_command *c)
{
    int ends[2], rc;
    struct child_spec spec = {.kind = CHILD_OF_GROUP,
                              .file = c->argv[0],
                              .args = (char *const *)(uintptr_t)c->argv, /* read only */
                              .env = environ};

    *ret = (struct running){.of = c};
    if (pipe2(ends, O_CLOEXEC) < 0)
        return err_errno(&c->err, "pipe");
    (void)fcntl(ends[0], F_SETFL, O_NONBLOCK);
    spec.fds = (const int[]){-1, ends[1], ends[1]};
    spec.n_fds = 3;
    rc = child_spawn(&ret->pid, &spec);
    (void)close(ends[1]);
    ret->fd = ends[0];
    if (rc == 0)
        return 0;
    (void)close(ends[0]);
    errno = rc;
    return err_errno(&c->err, "%s", c->argv[0]);
}

static void set_late(struct asked_command *c, int timeout_ms)
{
    (void)err_set(&c->err, ERR_TIMEOUT, "%s did not end within %g s", c->argv[0],
                  timeout_ms / 1e3);
}

/* Any exit code but 0 is an error. */
static void finish(struct running *r, int status)
{
    struct asked_command *c = r->of;

    wbuf_reserve(&r->output, 1);
    r->output.data[r->output.len] = '\0';
    if (c->err.code != 0) {
        /* it was late */
    } else if (WIFSIGNALED(status)) {
        (void)err_set(&c->err, ERR_STATE, "%s was ended by signal %d", c->argv[0],
                      WTERMSIG(status));
    } else if (WEXITSTATUS(status) != 0) {
        (void)err_set(&c->err, ERR_STATE, "%s: %s", c->argv[0],
                      command_last_line((char *)r->output.data));
    } else {
        c->output = xstrdup((const char *)r->output.data);
    }
    wbuf_done(&r->output);
    close_fd(&r->fd);
}

/* Returns 1 if the program has ended: others may hold its output for longer. */
static int look(struct running *r, int is_over, int timeout_ms)
{
    int status = 0;
    pid_t ended;

    command_output_take(r);
    ended = waitpid(r->pid, &status, WNOHANG);
    if (ended == r->pid || (ended < 0 && errno != EINTR)) {
        command_output_take(r);
        finish(r, status);
        return 1;
    }
    if (is_over && r->of->err.code == 0) {
        set_late(r->of, timeout_ms);
        (void)signal_group(r->pid, SIGKILL);
    }
    return 0;
}

/* Waits until one of them has something to read, or has ended. */
static void await(const struct running *r, size_t n)
{
    struct pollfd fds[MOST_AT_ONCE];
    int has_hung_up = 0;

    for (size_t i = 0; i < n; i++)
        fds[i] = (struct pollfd){.fd = r[i].fd, .events = POLLIN};
    (void)poll(fds, n, LOOK_MS);
    for (size_t i = 0; i < n; i++)
        has_hung_up |= fds[i].revents & (POLLHUP | POLLERR);
    if (has_hung_up)
        (void)poll(NULL, 0, 1);
}

void commands_ask(struct asked_command *c, size_t n, int timeout_ms)
{
    const int64_t until = monotonic_ms() + timeout_ms;
    struct running running[MOST_AT_ONCE];
    size_t next = 0, n_running = 0;

    while (next < n || n_running > 0) {
        const int is_over = monotonic_ms() > until;

        for (; next < n && is_over; next++)
            set_late(&c[next], timeout_ms);
        for (; next < n && n_running < MOST_AT_ONCE; next++)
            n_running += start(&running[n_running], &c[next]) == 0;
        await(running, n_running);
        for (size_t i = n_running; i > 0; i--)
            if (look(&running[i - 1], is_over, timeout_ms))
                running[i - 1] = running[--n_running];
    }
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
    struct asked_command c = {.argv = argv};

    commands_ask(&c, 1, timeout_ms);
    *ret_output = c.output;
    return c.err.code != 0 ? err_pass(err, &c.err) : 0;
}
