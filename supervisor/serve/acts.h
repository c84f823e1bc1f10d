/* acts.h - requests for actions: checked, put into a queue for their agent's process, and answered.
 * Knows nothing of how they came.
 *
 * A request is a map:
 *     agent        its name; may be left out where there is one
 *     observation  numbers of one row, a list of rows, or bytes (msgpack: float32, or uint8 where the
 *                  agent sees bytes)
 *     mask         likewise, 1 or 0 for each choice; left out: all are possible
 *     mode         "greedy" (default) or "sample"
 *     seed         of samples: the same request with the same seed has the same answer
 *     episode      a name that the client chooses, of at most 64 bytes: needed by a policy with a
 *                  memory, or that sees several observations; what it remembers is kept under it
 *     first        true in the request that begins the episode, or a list: for each row
 * The answer is {"action": of the row, or a list of them}: a choice (0, 1, ...), a list of choices where
 * an action has several parts, a list of numbers, or {"choices": [...], "numbers": [...]}.
 * A refusal is {"error": one line}.
 *
 * Merged   what waits while an agent's process works at others is then sent to it as one request, as
 *          far as the rows agree in mode, seed and having masks, and no two are of one episode:
 *          ACTS_MERGED_ROWS at most. Nothing waits for more to come. The answers have the bits that
 *          they would have alone: so only with portable numerics, and not for programs or imported
 *          graphs.
 * Order    requests of an agent are answered in the order in which they came: those of an episode
 *          see each other's effects. One that is refused, or not answered, changes nothing.
 * Deaths   a process that dies is replaced, and the new one gets its request, however often it is
 *          killed from outside. A request that has ended the process three times itself, or is
 *          answered with an error, gives 500, and the next ones go on (agent_request_may_fail);
 *          of several that were merged, each is then tried alone.
 *          One that is not answered within ACTS_ANSWER_WITHIN_MS gives 503. An agent fails for
 *          good, and the server with it, if its program says so (AGENT_EXIT_NO_RESPAWN).
 * Bounds   ACTS_*; episodes.h
 * Draws    keyed by (seed, the episode's name and the row, time): as in evaluations, none depends
 *          on other requests. Without a seed, that of the server and, without an episode, a number
 *          that grows with each request.
 * Threads  loop thread = main thread.
 */
#ifndef SUPERVISOR_SERVE_ACTS_H
#define SUPERVISOR_SERVE_ACTS_H

#include "common/config/run_config.h"
#include "supervisor/begin/players.h"

#include <msgpack.h>
#include <stddef.h>
#include <stdint.h>

enum {
    ACTS_MAX_ROWS = 4096,              /* of a request */
    ACTS_MERGED_ROWS = 64,             /* of several */
    ACTS_MAX_BYTES = 16 << 20,         /* of its numbers, in and out */
    ACTS_MAX_WAITING = 256,            /* requests of all agents */
    ACTS_MAX_WAITING_BYTES = 64 << 20, /* of their numbers */
    ACTS_EPISODE_BYTES = 64 << 20,     /* of an agent's episodes */
    ACTS_ANSWER_WITHIN_MS = 10000,
};

/* Statuses of HTTP. */
enum acts_status {
    ACTS_OK = 200,
    ACTS_WRONG = 400,     /* the request is malformed, or does not fit the agent */
    ACTS_NO_AGENT = 404,  /* there is no such agent */
    ACTS_FORGOTTEN = 410, /* the episode was forgotten, or never begun */
    ACTS_TOO_LARGE = 413,
    ACTS_FAILED = 500, /* the agent cannot answer it */
    ACTS_LATER = 503,  /* too many wait, or the agent is being restarted */
};

struct acts; /* opaque */
struct act;  /* a request that waits; invalid once on_answer was called */

struct acts_args { /* borrowed until acts_close */
    struct players *players;
    const struct run_config *config;
    const char *run;
    uint64_t step; /* of the checkpoint */
    uint64_t seed;
    size_t max_episodes; /* of each agent */
};

/* Sets *ret even on failure, for acts_close and acts_free. ERR_PROTOCOL: an agent's description. */
int acts_open(struct acts **ret, const struct acts_args *args, struct err *err);
/* Answers nobody any more; the loop then closes its timer. */
void acts_close(struct acts *s);
/* When the players are closed. */
void acts_free(struct acts *s);

/* Called once for each request: the answer is borrowed for the call. */
typedef void (*acts_answer_fn)(void *ctx, enum acts_status status,
                               const msgpack_sbuffer *answer);
/* Begins to answer. The request is borrowed for the call. Returns NULL if on_answer was called
 * already. */
struct act *acts_ask(struct acts *s, const msgpack_object *request,
                     acts_answer_fn on_answer, void *ctx);
/* Nobody waits for it any more: on_answer is not called, and the act is invalid. */
void acts_forget(struct act *a);

/* Appends a map that describes the run and its agents: of each also how many requests were taken, and
 * as how many batches they went to its process. */
void acts_describe(const struct acts *s, msgpack_sbuffer *ret);
/* Appends a refusal. */
void acts_refuse(msgpack_sbuffer *ret, const char *why);

#endif
