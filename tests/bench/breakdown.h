/* breakdown.h - measures on what kinds of work a session_run spends its time.
 *
 * The linker sends calls between the parts of a run here (--wrap, see meson.build), and steps of
 * plans call the kernels through here; each
 * part's time is counted without that of the parts it calls. Reading the clock costs some
 * 30 ns a call, so a broken-down run takes longer than one that is timed as a whole: look
 * at the shares.
 */
#ifndef TESTS_BENCH_BREAKDOWN_H
#define TESTS_BENCH_BREAKDOWN_H

/* Time is counted from this call ... */
void breakdown_begin(void);
/* ... to this one, which ends a round. */
void breakdown_round(void);
/* Prints the medians of the rounds in microseconds, and calls; then forgets the
 * rounds. */
void breakdown_end(void);

#endif
