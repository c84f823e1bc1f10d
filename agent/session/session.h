/* session.h - running a graph: prune, order, fuse, plan memory once, then only compute.
 *
 * Values   a session has one block of memory for the values of all of its graph's
 *          variables and their initialised flags; sessions share nothing. A snapshot
 *          is one copy of that block (vars/var_store.h lays it out).
 * Running  any tensor may be fed and any fetched, also one that fusion would swallow.
 *          In one run, reads of a variable come before its writes unless a control
 *          dependency says otherwise. What counts is the operation that reads the
 *          reference, v/read: its users get the old value even when they run later,
 *          so a read after a write is an Identity of v's reference that depends on
 *          it, or the output of the Assign. Fetched values are copies.
 * Plans    are cached by feeds, fetches, targets and fed shapes; running a cached plan
 *          allocates nothing. Operations added to the graph later are seen by later
 *          plans.
 * Shapes   that follow from values which only the run knows (Where, a size computed in the
 *          graph): such a value is found by a run of its own first, and fed. It may depend
 *          on what looks, not on what writes: ERR_SHAPE. These runs allocate.
 * Draws    random ops draw from rng_key_derive(key, operation name) at the counter given
 *          for the run.
 * Errors   ERR_UNINITIALIZED "Attempting to use uninitialized value v"; ERR_SHAPE,
 *          ERR_DTYPE, ERR_ARG naming the tensor; a failed run changes no variable unless
 *          an op that writes had already run.
 * Threads  one at a time per session. The graph must outlive its sessions.
 */
#ifndef AGENT_SESSION_SESSION_H
#define AGENT_SESSION_SESSION_H

#include "agent/graph/graph.h"
#include "common/numerics/numerics.h"
#include "common/rng/rng.h"

struct session;

struct session_options {
    /* NULL: the session allocates its block. Otherwise a 64-byte aligned place of
     * block_capacity bytes that stays mapped (a shared memfd). */
    void *block;
    size_t block_capacity;
    int block_holds_state;  /* restored: keep what is in it */
    enum numerics numerics; /* NATIVE: large products are the matrix library's */
};

int session_new(struct session **ret, struct graph *g, const struct session_options *o,
                struct err *err);
void session_free(struct session *s);

struct feed {
    struct output output;
    struct tensor value; /* borrowed for the run; 64-byte alignment is faster */
    /* Elements from one row to the next of a matrix whose rows lie apart, being columns
     * of a wider one: products and concatenations read it in its place. 0: dense. */
    int64_t row_stride;
};

struct run_args {
    const struct feed *feeds;
    size_t n_feeds;
    const struct output *fetches;
    size_t n_fetches;
    struct operation *const *targets;
    size_t n_targets;
    struct rng_key key;
    uint64_t counter;
};

/* ret[n_fetches]: where ret[i].data is NULL the value is a new owned tensor
 * (tensor_free); otherwise ret[i] is a tensor of the caller's whose dtype and element
 * count must fit and which receives a copy (and the shape): no allocation. May be NULL
 * without fetches. */
int session_run(struct session *s, const struct run_args *args, struct tensor *ret,
                struct err *err);

struct graph *session_graph(const struct session *s);

/* The variables' block: values and flags. Bytes change only inside session_run and the
 * calls below. */
void *session_block(struct session *s);
size_t session_block_bytes(const struct session *s);
/* Variables added to the graph since session_new get their place when first used; call
 * this to settle the layout now. ERR_LIMIT: the given block is too small. */
int session_settle(struct session *s, struct err *err);

/* One copy each way: no node is added, nothing else is touched. */
void session_snapshot(const struct session *s, void *dst /* block_bytes */);
void session_restore(struct session *s, const void *src /* block_bytes */);

/* A view of a variable's value inside the block. ERR_UNINITIALIZED. */
int session_variable(struct session *s, const struct variable *v, struct tensor *ret,
                     struct err *err);
int session_variable_set(struct session *s, const struct variable *v,
                         const struct tensor *value, struct err *err);
int session_variable_initialized(struct session *s, const struct variable *v);
/* Offset of the value from the start of the block. */
size_t session_variable_offset(struct session *s, const struct variable *v);

/* Called between steps of a long run (the agent's sign of life); NULL: none. */
void session_set_progress(struct session *s, void (*fn)(void *ctx), void *ctx);

#endif
