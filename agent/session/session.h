/* session.h - runs a graph: the first run prunes, orders, fuses and plans memory; later runs
 * only compute.
 *
 * Values   a session has one block of memory for the values and the initialised flags of
 *          all variables of its graph; sessions share nothing. A snapshot is a copy of that
 *          block (its layout: vars/var_store.h).
 * Devices  the variables of a device whose memory is given in the options live there, and
 *          every session that maps the memory sees each change at once: the parameter
 *          servers and workers of replica_device_enter. No snapshot contains them; a
 *          Saver saves them like all others. Two sessions that write one variable at the
 *          same time may each undo a part of the other's change, as with TensorFlow's
 *          use_locking=False.
 * Running  any tensor may be fed and any fetched, also one that fusion would remove. A
 *          reference variable is memory, as in TensorFlow, and so is what passes its bytes
 *          on, such as v/read, an Identity: an operation that computes from v/read after a
 *          write (by its inputs or control inputs) sees the new value, even if v/read itself
 *          does not depend on the write. What nothing orders against a write comes before
 *          it. A resource variable has the value that a ReadVariableOp found. The rules:
 *          plan/uses.h. Fetched values are copies, made at the end of the run.
 * Plans    are cached by feeds, fetches, targets and fed shapes; running a cached plan
 *          allocates nothing. Later plans include operations added to the graph later.
 * Shapes   may depend on a size or an axis that only a run can compute. The session first
 *          computes it in a separate run, the probe, and feeds it. It must not depend on an
 *          operation that writes: ERR_SHAPE. Where values decide how large a result is
 *          (Unique, Where), the run is cut, as at loops. These runs allocate.
 * Loops    while loops (Enter, Merge, Switch, NextIteration, Exit, LoopCond), tensor arrays,
 *          stacks and tensor lists run between plans: such a run is cut into several plans, and so are
 *          a loop's condition and body (flow/stages.h). These runs allocate. Uses and
 *          writes of variables have the same order as in other runs; a loop is one use and
 *          one write, and its iterations run one after another. ERR_FORMAT: a loop is
 *          malformed; ERR_LIMIT: it does not end, or its arrays, stacks and lists take too
 *          much memory. ERR_UNSUPPORTED: a Merge joins branches that one variable decided about
 *          before and after it was written.
 * Draws    random ops draw from rng_key_derive(key, operation name) at the counter given
 *          for the run; in a loop, from another key in each iteration.
 * Errors   ERR_UNINITIALIZED "Attempting to use uninitialized value v"; ERR_SHAPE,
 *          ERR_DTYPE, ERR_ARG naming the tensor. A failed run changes no variable unless a
 *          writing operation had already run.
 * Threads  one call at a time per session. The graph must outlive its sessions.
 */
#ifndef AGENT_SESSION_SESSION_H
#define AGENT_SESSION_SESSION_H

#include "agent/graph/graph.h"
#include "agent/plan/run.h"
#include "agent/vars/var_store.h"
#include "common/numerics/numerics.h"

struct session;

enum { SESSION_MAX_ITERATIONS = 10000000 };

struct session_options {
    /* NULL: the session allocates its block. Otherwise the block: block_capacity bytes,
     * 64-byte aligned, mapped as long as the session exists (a shared memfd). */
    void *block;
    size_t block_capacity;
    int block_holds_state;  /* keep the values in the block (they were restored) */
    enum numerics numerics; /* NATIVE: OpenBLAS works on large matrices */
    /* Memory of devices; the strings and blocks outlive the session. */
    const struct device_memory *devices;
    size_t n_devices;       /* at most VAR_STORE_MAX_DEVICES */
    int64_t max_iterations; /* of all loops of one run; 0: SESSION_MAX_ITERATIONS */
};

int session_new(struct session **ret, struct graph *g, const struct session_options *o,
                struct err *err);
void session_free(struct session *s);

/* args: plan/run.h. ret[n_fetches]: if ret[i].data is NULL, ret[i] becomes a new tensor that the
 * caller owns (tensor_free). Otherwise ret[i] is the caller's tensor, whose dtype and element
 * count must fit; it receives a copy and the shape, and nothing is allocated. ret may be NULL
 * if there are no fetches. */
int session_run(struct session *s, const struct run_args *args, struct tensor *ret,
                struct err *err);

struct graph *session_graph(const struct session *s);

/* The session's own block of variables: values and flags. Only session_run and the calls
 * below change it. */
void *session_block(struct session *s);
size_t session_block_bytes(const struct session *s);
/* Variables added to the graph since session_new get their place in the block when first
 * used; this call assigns all places now. ERR_LIMIT: the given block is too small. */
int session_fix_layout(struct session *s, struct err *err);

/* Copy the whole block to dst, or from src. The graph does not change. */
void session_snapshot(const struct session *s, void *dst /* block_bytes */);
void session_restore(struct session *s, const void *src /* block_bytes */);

/* A view of a variable's value inside the block. ERR_UNINITIALIZED. */
int session_variable(struct session *s, const struct variable *v, struct tensor *ret,
                     struct err *err);
int session_variable_set(struct session *s, const struct variable *v,
                         const struct tensor *value, struct err *err);
int session_variable_initialized(struct session *s, const struct variable *v);
/* The name of the first float32 variable with a value that is not finite; NULL: there is
 * none. */
const char *session_find_nonfinite(const struct session *s);
/* Offset of the value from the start of its block. */
size_t session_variable_offset(struct session *s, const struct variable *v);

/* Passes values of a session's runs to fn, for `brood replay`. While a tap is set, each
 * session_run also fetches those of the tap's outputs that the run feeds or computes
 * anyway. This changes no other value, and no variable. */
struct session_tap {
    const struct output *outputs; /* borrowed, as ctx; dtype_size must not be 0 */
    size_t n;
    /* value: borrowed for the call. Called in the order of outputs. */
    void (*fn)(void *ctx, size_t i, const struct tensor *value);
    void *ctx;
    unsigned runs; /* runs that have begun since the tap was set */
};
void session_set_tap(struct session *s, struct session_tap *tap); /* NULL: none */

/* fn is called between the steps of a long run (the agent's sign of life); NULL: none. */
void session_set_progress(struct session *s, void (*fn)(void *ctx), void *ctx);

#endif
