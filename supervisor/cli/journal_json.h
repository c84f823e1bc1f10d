/* journal_json.h - prints lines of a journal as JSON. */
#ifndef SUPERVISOR_CLI_JOURNAL_JSON_H
#define SUPERVISOR_CLI_JOURNAL_JSON_H

/* Prints {"time", "env_steps", "event", and the line's own pairs} as one line and flushes
 * stdout; numbers become JSON numbers. `line` is modified. ERR_FORMAT, ERR_LIMIT: the text
 * is not a line of a journal, and nothing was printed. */
int journal_json_print(char *line);

#endif
