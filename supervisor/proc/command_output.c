#include "supervisor/proc/command_output.h"

#include "common/io/close_fd.h"
#include "common/io/monotonic.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
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

/* Reads what is there; not all of it if the program writes as fast as this reads. */
static void command_output_take(struct asked_command *c)
{
    const size_t half = COMMAND_OUTPUT_MAX_BYTES / 2;
    struct wbuf *text = &c->text;
    size_t taken = 0;
    ssize_t n;

    do {
        if (text->len >= COMMAND_OUTPUT_MAX_BYTES) {
            memmove(text->data, text->data + half, text->len - half);
            text->len -= half;
        }
        wbuf_reserve(text, READ_BYTES + 1);
        n = read(c->fd, text->data + text->len, READ_BYTES);
        text->len += n > 0 ? (size_t)n : 0;
        taken += n > 0 ? (size_t)n : 0;
    } while ((n > 0 && taken < TAKE_BYTES) || (n < 0 && errno == EINTR));
}

int command_begin(struct asked_command *c, int timeout_ms)
{
    struct program_spec spec = {
        .is_direct = 1, .words = c->argv, .timeout_ms = timeout_ms};
    int ends[2], rc;

    c->name = c->argv[0];
    c->timeout_ms = timeout_ms;
    while (c->argv[spec.n_words] != NULL)
        spec.n_words++;
    if (pipe2(ends, O_CLOEXEC) < 0)
        return err_errno(&c->err, "pipe");
    (void)fcntl(ends[0], F_SETFL, O_NONBLOCK);
    spec.output_fd = ends[1];
    rc = program_start(&c->program, &spec, &c->err);
    (void)close(ends[1]);
    c->fd = ends[0];
    if (rc < 0)
        close_fd(&c->fd);
    return rc;
}

static void set_late(struct asked_command *c, const char *name, int timeout_ms)
{
    (void)err_set(&c->err, ERR_TIMEOUT, "%s did not end within %g s", name,
                  timeout_ms / 1e3);
}

int command_look(struct asked_command *c)
{
    int status;

    command_output_take(c);
    if (!program_ended(&c->program, &status))
        return 0;
    command_output_take(c); /* others may hold it for longer */
    close_fd(&c->fd);
    c->output = (char *)c->text.data;
    c->output[c->text.len] = '\0';
    c->text = (struct wbuf){0};
    if (c->program.is_late)
        set_late(c, c->name, c->timeout_ms);
    else if (WIFSIGNALED(status))
        (void)err_set(&c->err, ERR_STATE, "%s was ended by signal %d", c->name,
                      WTERMSIG(status));
    else if (WEXITSTATUS(status) != 0)
        (void)err_set(&c->err, ERR_STATE, "%s: %s", c->name,
                      command_last_line(c->output));
    return 1;
}

void command_cancel(struct asked_command *c)
{
    c->program.until_ms = 0;
    while (c->program.pid != 0 && !command_look(c))
        (void)poll(NULL, 0, 1);
}

/* Waits until one of them has something to read, or has ended. */
static void await(const struct asked_command *c, size_t n)
{
    struct pollfd fds[MOST_AT_ONCE];
    int has_hung_up = 0;
    nfds_t n_fds = 0;

    for (size_t i = 0; i < n; i++)
        if (c[i].program.pid != 0)
            fds[n_fds++] = (struct pollfd){.fd = c[i].fd, .events = POLLIN};
    (void)poll(fds, n_fds, LOOK_MS);
    for (nfds_t i = 0; i < n_fds; i++)
        has_hung_up |= fds[i].revents & (POLLHUP | POLLERR);
    if (has_hung_up)
        (void)poll(NULL, 0, 1);
}

void commands_ask(struct asked_command *c, size_t n, int timeout_ms)
{
    const int64_t until = monotonic_ms() + timeout_ms;
    size_t begun = 0, n_running = 0;

    while (begun < n || n_running > 0) {
        for (; begun < n && monotonic_ms() > until; begun++)
            set_late(&c[begun], c[begun].argv[0], timeout_ms);
        for (; begun < n && n_running < MOST_AT_ONCE; begun++) {
            n_running += command_begin(&c[begun], timeout_ms) == 0;
            c[begun].program.until_ms = until;
        }
        await(c, begun);
        for (size_t i = 0; i < begun; i++)
            if (c[i].program.pid != 0 && command_look(&c[i]))
                n_running--;
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
    if (c.err.code == 0)
        return 0;
    free(c.output);
    *ret_output = NULL;
    return err_pass(err, &c.err);
}
