/* What the simulated networks, relay.c and wire.c, share: time, chance, and the commands on
 * their standard input. Each command is a line with a word and perhaps a number. */
#ifndef BROOD_TESTS_SIMULATED_H
#define BROOD_TESTS_SIMULATED_H

#include <poll.h>
#include <stdint.h>

/* CLOCK_MONOTONIC. */
uint64_t simulated_now_ns(void);

/* Begins the sequence of draws that belongs to a number. */
void simulated_seed(uint64_t seed);

/* A random number below another one; 0 if that is 0. */
uint64_t simulated_draw(uint64_t below);

/* Prints a line on standard output at once. */
void simulated_print(const char *line);

/* Reads what is on standard input and calls obey for each whole command; n is 0 without a
 * number. `seed N` is obeyed here. Returns 0 at the end of standard input. */
int simulated_commands(void (*obey)(const char *word, uint64_t n));

/* poll until there is an event, or until due_ns (0: never) has come. */
void simulated_poll(struct pollfd *fds, nfds_t n, uint64_t due_ns);

#endif
