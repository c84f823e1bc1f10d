/* service.h - one agent's requests: what it holds, and who answers which method.
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

/* algorithm: used whatever the configuration names; NULL: the one it names. With
 * BROOD_CHECK_PURE=1 in the environment every request that is declared pure has the block
 * compared around it. */
struct service *service_new(const struct algo_ops *algorithm);
void service_free(struct service *s); /* NULL is fine */

/* Called now and then, at most every SERVICE_PROGRESS_MS, inside a request that takes long:
 * the agent's sign of life. */
#define SERVICE_PROGRESS_MS 100
void service_set_progress(struct service *s, void (*fn)(void *ctx), void *ctx);

/* A loop_request_fn; ctx is the service. */
int service_handle(void *ctx, const struct msg *request, struct msg_out *out);

#endif
