/* msg_json.h - what a run says, as JSON. */
#ifndef SUPERVISOR_CLI_MSG_JSON_H
#define SUPERVISOR_CLI_MSG_JSON_H

#include "common/msg/msg.h"
#include "supervisor/metrics/json.h"

/* Any object of a message that was parsed: byte strings become null, pairs whose key is no
 * string are left out. */
void msg_json_put(struct json *j, const msgpack_object *o);

/* The pairs of a map, into an object that is open; of anything else nothing. */
void msg_json_put_pairs(struct json *j, const msgpack_object *map);
/* Begins an object that is an event: {"time": now, "event": name. */
void msg_json_begin_event(struct json *j, const char *name);
/* The line under construction, to stdout, at once. */
void msg_json_print(struct json *j);
/* The object as a line, to stdout, at once. */
void msg_json_print_object(const msgpack_object *o);

#endif
