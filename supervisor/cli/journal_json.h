/* journal_json.h - lines of a journal as JSON. */
#ifndef SUPERVISOR_CLI_JOURNAL_JSON_H
#define SUPERVISOR_CLI_JOURNAL_JSON_H

/* {"time", "env_steps", "event", and the line's own pairs, numbers as such}, as a line to stdout,
 * at once. The line is taken apart. 0, or ERR_FORMAT and ERR_LIMIT: it is none of a
 * journal's, and nothing is printed. */
int journal_json_print(char *line);

#endif
