/* plain_output.h - no control character of others' reaches the terminal.
 *
 * What commands print is quoted from everywhere: logs, journals, names in checkpoints and
 * graphs, values of configurations, words of a supervisor that may be somebody else's. So
 * it is made safe in one place, where it leaves: stdout and stderr become streams that
 * pass everything through plain_text.h. Only live_view.c has escape sequences of its own,
 * and writes past them.
 */
#ifndef SUPERVISOR_CLI_PLAIN_OUTPUT_H
#define SUPERVISOR_CLI_PLAIN_OUTPUT_H

/* From here on; once, at the beginning of the program. Where there is no memory for it,
 * both stay as they were. */
void plain_output_begin(void);
/* What is printed on stdout from here on goes out as it is. */
void plain_output_raw(void);

#endif
