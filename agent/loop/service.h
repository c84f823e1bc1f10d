/* service.h - the state of an agent process, and the handlers of its requests.
 *
 * An agent is a function (variables, request, rows) -> (variables, response). A request
 * that is malformed, unknown or not allowed in this state gets an error response and
 * changes nothing.
 */
#ifndef AGENT_LOOP_SERVICE_H
#define AGENT_LOOP_SERVICE_H

#include "agent/algo/algo.h"
#include "common/msg/msg.h"

struct service; /* opaque */

/* algorithm: used instead of the configured one; NULL: the configured one. With
 * BROOD_CHECK_PURE=1 in the environment the block is compared before and after every
 * request that is declared pure. */
struct service *service_new(const struct algo_ops *algorithm);
void service_free(struct service *s); /* NULL is fine */

/* fn is called during long requests, at most once per SERVICE_PROGRESS_MS, so that the
 * supervisor knows that the agent works. */
#define SERVICE_PROGRESS_MS 100
void service_set_progress(struct service *s, void (*fn)(void *ctx), void *ctx);

/* Packs an agent's first message: its version, build and numerics. The whole notification;
 * send it with msg_end. */
void hello_pack(struct msg_out *out);

/* Writes the answer to the request `describe` to the standard output, as the build of brood
 * reads it. Returns the exit code. */
int describe_main(void);

/* A loop_request_fn; ctx is the service. */
int service_handle(void *ctx, const struct msg *request, struct msg_out *out);

#endif
