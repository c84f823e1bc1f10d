#include "supervisor/proc/terminal_keys.h"

#include <errno.h>
#include <poll.h>
#include <unistd.h>

static int is_in_foreground(void)
{
    return tcgetpgrp(STDIN_FILENO) == getpgrp();
}

void terminal_keys_begin(struct terminal_keys *k)
{
    struct termios t;

    if (k->is_on || !is_in_foreground() || tcgetattr(STDIN_FILENO, &t) < 0)
        return;
    k->before = t;
    t.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
    t.c_cc[VMIN] = 0;
    t.c_cc[VTIME] = 0;
    k->is_on = tcsetattr(STDIN_FILENO, TCSANOW, &t) == 0;
}

void terminal_keys_end(struct terminal_keys *k)
{
    if (k->is_on && is_in_foreground())
        (void)tcsetattr(STDIN_FILENO, TCSANOW, &k->before);
    k->is_on = 0;
}

int terminal_keys_fd(const struct terminal_keys *k)
{
    return k->is_on && is_in_foreground() ? STDIN_FILENO : -1;
}

size_t terminal_keys_read(struct terminal_keys *k, char *ret, size_t size)
{
    struct pollfd fd = {.fd = terminal_keys_fd(k), .events = POLLIN};
    ssize_t n;

    if (fd.fd < 0 || poll(&fd, 1, 0) <= 0)
        return 0;
    n = read(fd.fd, ret, size);
    if (n == 0 || (n < 0 && errno != EINTR && errno != EAGAIN))
        k->is_on = 0; /* the terminal is gone */
    return n > 0 ? (size_t)n : 0;
}
