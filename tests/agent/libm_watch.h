/* libm_watch.h - tells whether a kernel called one of libm's functions whose last bits differ
 * between machines: a test that links libm_watch.c has them all through it. Not of these are
 * the functions that round, take apart or compare exactly (sqrt, floor, fma). */
#ifndef TESTS_AGENT_LIBM_WATCH_H
#define TESTS_AGENT_LIBM_WATCH_H

/* The first such function that was called since libm_forget(); NULL: none. */
const char *libm_called(void);
void libm_forget(void);

#endif
