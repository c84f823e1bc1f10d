/* live.h - runs that browsers watch: one connection to each run's control socket, however
 * many browsers there are.
 *
 * View      the run's status, whether it lives, and the sizes of the files that grow: one JSON
 *           object, made again once a second and soon after an event of the run. Browsers get
 *           the newest; a revision tells whether they have it.
 * Looks     a thread looks at the run's directory (reading.h), also to connect; of a run that
 *           cannot be looked at in time, the view is the last one, or "unreadable"; of one whose
 *           directory cannot be held (reading.h), "deleted" or "unreadable".
 * Floods    a run whose messages take more than LIVE_MAX_MS_A_SECOND of a processor is
 *           disconnected, and shown by its files; after LIVE_REST_MS it is connected again.
 * Requests  pass through the same connection; their responses come back in any order.
 * Threads   loop thread only.
 */
#ifndef SUPERVISOR_WEB_LIVE_H
#define SUPERVISOR_WEB_LIVE_H

#include "common/msg/msg.h"
#include "supervisor/web/reading.h"

#include <uv.h>

enum { LIVE_MAX_MS_A_SECOND = 300, LIVE_REST_MS = 30000 };

struct control_client;
struct live;     /* opaque: all of them */
struct live_run; /* opaque: one */

/* The result of a request: body is NULL if it failed. */
typedef void (*live_response_fn)(void *ctx, uint64_t client, uint32_t id,
                                 const msgpack_object *body, const struct err *why);

struct live_callbacks {
    void (*on_view)(void *ctx); /* a view has changed */
    live_response_fn on_response;
    void *ctx;
};

struct live *live_new(uv_loop_t *loop, struct readings *readings,
                      struct live_callbacks callbacks);
/* Closes all connections and timers; live_free after the loop has closed its handles. */
void live_close(struct live *l);
void live_free(struct live *l);

/* Watches a run; name and path are copied. Every live_watch needs one live_unwatch. After
 * the last of them the connection is closed within a second, but not while a request of a
 * client waits for its response. */
struct live_run *live_watch(struct live *l, const char *name, const char *path);
void live_unwatch(struct live_run *r);
const char *live_name(const struct live_run *r);
/* Whether there is a view with another revision than this; 0: any view is newer. */
int live_is_newer(const struct live_run *r, uint64_t revision);
/* The view: JSON of ret_len bytes, and its revision, which is never 0. There must be one. */
const char *live_view(const struct live_run *r, size_t *ret_len, uint64_t *ret_revision);

/* Before a request to a run, a thread looks whether it can be sent. is_needed: there is no
 * connection (live_is_connected). ERR_STATE: the run's supervisor is stopped. A run that cannot be
 * reached is no error here. */
struct live_reach { /* all-zero is empty */
    int is_needed;
    struct control_client *client;
};
int live_reach(struct live_reach *ret, const char *path, struct err *err);
void live_reach_done(struct live_reach *reach);
int live_is_connected(const struct live *l, const char *name);
/* Takes over the connection, if the run has none. */
void live_reached(struct live_run *r, struct live_reach *reach);
/* A request to a watched run: begin, pack its params as one map, send. The response goes
 * to on_response with `client` and `id`. begin returns NULL, and sets err, if there is no
 * connection. If send fails, on_response is not called for this request. */
struct msg_out *live_begin(struct live_run *r, uint64_t client, uint32_t id,
                           const char *method, struct err *err);
int live_send(struct live_run *r, struct err *err);
/* The client is gone: its responses are dropped. */
void live_forget(struct live *l, uint64_t client);

#endif
