/* fetch.h - tensors that a request for `act` or a stage asks for besides its answer
 * (protocol.h: fetches, origins), as `brood replay` does. They do not change the answer.
 */
#ifndef AGENT_LOOP_FETCH_H
#define AGENT_LOOP_FETCH_H

#include "agent/loop/service_internal.h"

struct fetch; /* opaque */

/* Starts to watch the runs of the session. *ret is NULL if the request has no fetches;
 * all calls below accept NULL. */
int fetch_begin(struct fetch **ret, struct service *s, const msgpack_object *body,
                struct err *err);
/* Records `why` in the answer instead of failing the request. Returns 1 if the request asked
 * for tensors, else 0 and nothing is recorded. */
int fetch_note_failure(struct fetch *f, const struct err *why);
/* The pairs that fetch_pack adds to the answer's map. */
size_t fetch_pairs(const struct fetch *f);
void fetch_pack(const struct fetch *f, struct msg_out *out);
void fetch_end(struct fetch *f, struct service *s);

#endif
