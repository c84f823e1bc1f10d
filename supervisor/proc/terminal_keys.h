/* terminal_keys.h - single keys from the terminal on stdin, without echo, for a view that can
 * be scrolled. Ctrl-C and Ctrl-Z still send their signals. Nothing allocates.
 *
 * A process that is not in the terminal's foreground neither reads nor changes anything.
 */
#ifndef SUPERVISOR_PROC_TERMINAL_KEYS_H
#define SUPERVISOR_PROC_TERMINAL_KEYS_H

#include <stddef.h>
#include <sys/types.h>
#include <termios.h>

struct terminal_keys { /* all-zero: off */
    int is_on;
    struct termios before;
};

/* Turns it on, if stdin is a terminal whose foreground we are. */
void terminal_keys_begin(struct terminal_keys *k);
/* Restores the terminal. */
void terminal_keys_end(struct terminal_keys *k);
/* The descriptor to poll; -1: off, or in the background. */
int terminal_keys_fd(const struct terminal_keys *k);
/* Reads what was typed, without waiting; returns how many bytes. At the end of the terminal
 * it turns off. */
size_t terminal_keys_read(struct terminal_keys *k, char *ret, size_t size);

#endif
