/* msg_json.h - prints messages, and lines of a journal, as JSON. */
#ifndef SUPERVISOR_CONTROL_MSG_JSON_H
#define SUPERVISOR_CONTROL_MSG_JSON_H

#include "common/msg/msg.h"
#include "supervisor/metrics/json.h"

/* Appends any parsed object. Byte strings become null; pairs whose key is not a string are
 * left out. */
void msg_json_put(struct json *j, const msgpack_object *o);

/* Appends the pairs of a map to the open JSON object; ignores anything but a map. */
void msg_json_put_pairs(struct json *j, const msgpack_object *map);
/* Begins an object that is an event: {"time": now, "event": name. */
void msg_json_begin_event(struct json *j, const char *name);
/* Prints o as one line of JSON and flushes stdout. */
void msg_json_print_object(const msgpack_object *o);
/* Prints a line of a journal as {"time", "env_steps", "event", and the line's own pairs} on one
 * line and flushes stdout; numbers become JSON numbers. `line` is modified. ERR_FORMAT,
 * ERR_LIMIT: the text is not a line of a journal, and nothing was printed. */
int journal_json_print(char *line);

#endif
