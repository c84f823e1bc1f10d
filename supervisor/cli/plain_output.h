/* plain_output.h - keeps control characters in external text away from the terminal.
 *
 * Commands print external text: logs, journals, names in checkpoints and graphs, values of
 * configurations, messages of a supervisor that may belong to another user. It is escaped
 * in one place: stdout and stderr become streams that pass everything through plain_text.h.
 * Only live_view.c emits escape sequences, and it writes directly to the descriptor.
 */
#ifndef SUPERVISOR_CLI_PLAIN_OUTPUT_H
#define SUPERVISOR_CLI_PLAIN_OUTPUT_H

/* Replaces stdout and stderr; called once, when the program starts. If there is not enough
 * memory, both stay unchanged. */
void plain_output_begin(void);
/* Turns off escaping on stdout from here on. */
void plain_output_raw(void);
/* Flushes stdout. errno of the first write to it that failed; 0: none did. */
int plain_output_error(void);

#endif
