/* web.h - the server behind the page of `brood web`: what its parts share.
 *
 *     server.c   libwebsockets on the loop: files of the page and parts of runs' files
 *                (file_part.h), websockets, bounds
 *     methods.c  what the page may ask
 *     evals.c    episodes, played by a child process (child.h)
 *     actions.c  what a command of brood does for a page
 *
 * Protocol  a websocket with texts. The page sends requests (request.h); each gets one answer,
 *           {"id", "result"} or {"id", "error": {"message", ...}}, in any order. The first is
 *           "1 hello token=..."; without it the websocket is closed with status 4401, and 4429
 *           if too many browsers are connected. {"push": "hello", "host", "read_only"}
 *           follows its answer, and in between come {"push": "list",
 *           ...} and {"push": "run", ...}: always the newest state, and only once the browser
 *           has read what came before.
 * Bounds    WEB_MAX_CLIENTS websockets, and other connections (connections.h); a frame of
 *           REQUEST_MAX_BYTES. While a client has more than WEB_MAX_UNREAD bytes of answers to
 *           read, nothing is read from it; if all clients together have more than
 *           WEB_MAX_HELD, the one with most is disconnected.
 * Threads   loop thread only; what is in a run's directory is read by others (reading.h).
 */
#ifndef SUPERVISOR_WEB_WEB_H
#define SUPERVISOR_WEB_WEB_H

#include "supervisor/web/http.h"
#include "supervisor/web/live.h"
#include "supervisor/web/reading.h"
#include "supervisor/web/request.h"
#include "supervisor/web/runs.h"

#include <sys/queue.h>
#include <uv.h>

#define WEB_MAX_UNREAD ((size_t)2 << 20)
#define WEB_MAX_HELD   ((size_t)128 << 20)
enum { WEB_MAX_CLIENTS = 128, WEB_MAX_WATCHES = 16 };

struct lws;
struct lws_context;
struct evals;
struct actions;

struct web_message {
    STAILQ_ENTRY(web_message) entry;
    size_t len, sent;
    uint8_t *data; /* LWS_PRE bytes before the text are room for the frame's header */
};

struct web_client {
    int is_owner;    /* it has shown the token */
    uint64_t serial; /* unique, from 1: an answer may come after its client left */
    struct lws *wsi;
    STAILQ_HEAD(, web_message) unread;
    size_t n_unread; /* bytes */
    size_t n_waits;  /* requests that a thread works at */
    int is_held_back;
    char *text; /* of the request that is being received; room for the longest */
    size_t text_len;
    int wants_list;
    uint64_t list_revision, list_walk; /* the list is sent once this walk has ended */
    size_t n_watches;
    struct {
        struct live_run *run;
        uint64_t revision;
    } watch[WEB_MAX_WATCHES];
    LIST_ENTRY(web_client) entry;
};

struct web {
    uv_loop_t loop;
    struct http_server http;
    const char *program; /* the executable brood */
    struct folders folders;
    int read_only;
    struct readings *readings;
    struct runs *runs;
    struct live *live;
    struct evals *evals;
    struct actions *actions;
    struct json json; /* of the answer that is being made */
    LIST_HEAD(, web_client) clients;
    size_t n_clients, held;
    uint64_t last_serial;
    LIST_HEAD(, study_job) studies; /* that are being read */
    uv_timer_t walk;
};

/* Serves until SIGINT, SIGTERM or SIGHUP. The caller sets the fields folders, program,
 * read_only and http.port (0: any). on_ready is called once browsers can connect: http's port and
 * guard are then set. ERR_EXISTS: the port is taken. */
int web_serve(struct web *w, void (*on_ready)(const struct web *w), struct err *err);

/* ---- server.c, for methods ---- */

/* NULL: the client has left. */
struct web_client *web_find_client(struct web *w, uint64_t serial);
/* An answer: begin opens {"id", "result":; the caller puts one value; end sends it. */
struct json *web_answer_begin(struct web *w, uint32_t id);
void web_answer_end(struct web *w, struct web_client *c);
void web_answer_empty(struct web *w, struct web_client *c, uint32_t id);
/* Sends an error in place of the answer, also after its value was begun. */
void web_answer_fail(struct web *w, struct web_client *c, uint32_t id,
                     const struct err *why);
/* A request of the client waits for a thread, and does not any more. While many do, nothing is read
 * from the client. */
void web_begin_wait(struct web_client *c);
void web_end_wait(struct web_client *c);

/* ---- methods.c ---- */

void methods_call(struct web *w, struct web_client *c, const struct request *r);
/* The response of a run to a request that was passed on (live.h). */
void methods_response(void *ctx, uint64_t client, uint32_t id, const msgpack_object *body,
                      const struct err *why);
/* Ends what the client watches and waits for. */
void methods_leave(struct web *w, struct web_client *c);

/* ---- evals.c ---- */

struct evals *evals_new(struct web *w);
/* Kills the children; free after the loop has closed its handles. */
void evals_close(struct evals *e);
void evals_free(struct evals *e);
/* Plays one episode with a checkpoint's policies, or the best or worst of 20 with "pick", and answers
 * with its scenes, a list of the objects that `brood eval --render x.jsonl` writes. ERR_LIMIT: the
 * client has an episode under way already, or too many are. One that takes too long is
 * ended. */
int evals_start(struct evals *e, struct web_client *c, const struct request *r,
                const struct run_place *run, struct err *err);
/* The client is gone: kills its child. */
void evals_forget(struct evals *e, uint64_t client);

/* ---- actions.c ---- */

struct actions *actions_new(struct web *w);
/* Kills the commands; free after the loop has closed its handles. */
void actions_close(struct actions *a);
void actions_free(struct actions *a);
/* Executes `brood rm`, `resume --detach` or `tag`, as the request's method says, and answers with the
 * line that it prints; it goes on if the client leaves. "tag" has "add" and "remove", any number
 * of times, and "note". command: the method's name, of a row of methods.c.
 * ERR_LIMIT: too many are under way. */
int actions_start(struct actions *a, struct web_client *c, const struct request *r,
                  const char *command, const struct run_place *run, struct err *err);

#endif
