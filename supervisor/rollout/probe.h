/* probe.h - what a replay shows of one round: tensors of its `act` and of the stages of its
 * updates, and the requests themselves.
 *
 * In a replay every request of a stage asks for tensors, in all other rounds for none, so
 * that a result which is not finite comes as an answer and its scalars are seen. It then ends
 * the run all the same, unless it is the probe's round. Nothing of this changes what agents
 * compute.
 */
#ifndef SUPERVISOR_ROLLOUT_PROBE_H
#define SUPERVISOR_ROLLOUT_PROBE_H

#include "common/err/err.h"
#include "common/msg/msg.h"
#include "common/tensor/tensor.h"

#include <stddef.h>
#include <stdint.h>

#define PROBE_ALL_UPDATES UINT64_MAX
#define PROBE_ACT         "act"
#define PROBE_AFTER       "after" /* no stage: the state that the round leaves */

struct probe_place {      /* a request of the round */
    const char *agent;    /* its process */
    const char *stage;    /* PROBE_ACT, PROBE_AFTER, or the stage's name */
    uint64_t step;        /* environment steps at that time */
    uint64_t update;      /* of a stage: the number of its group's updates before */
    uint64_t pass;        /* of a stage: its repetition */
    const uint64_t *rows; /* [groups][batch][length] of a stage; NULL: PROBE_ACT */
    size_t groups, batch, length;
};

struct probe_value {
    const struct probe_place *at;
    uint64_t run; /* number of the graph's run in the request */
    const char *name;
    const struct tensor *value; /* NULL: too large for a message */
};

struct probe {
    uint64_t step; /* the round that reaches this number of environment steps */
    /* Of its updates only the one after so many (rollout_progress.updates). */
    uint64_t update;            /* PROBE_ALL_UPDATES */
    const char *const *fetches; /* [n] names of tensors */
    size_t n;
    const char *agent; /* the process that is asked for them; NULL: each that has them */
    int origins;       /* on_origin is wanted */
    /* All is borrowed for the call. */
    void (*on_value)(void *ctx, const struct probe_value *v);
    void (*on_scalar)(void *ctx, const struct probe_place *at, const char *name,
                      double value);
    /* A tensor that is not finite, computed from finite ones: `origins` of protocol.h. */
    void (*on_origin)(void *ctx, const struct probe_place *at, const msgpack_object *o);
    /* A request, before its frame's length is filled in. */
    void (*on_request)(void *ctx, const struct probe_place *at, const void *frame,
                       size_t len);
    /* A result that is not finite, which ends a run. */
    void (*on_ends)(void *ctx, const struct probe_place *at, const char *why);
    void *ctx;
};

/* 1 if the round that begins at environment step `begin` with so many copies is the
 * probe's; p may be NULL. */
int probe_is_round(const struct probe *p, uint64_t begin, size_t copies);
/* Appends PROBE_PAIRS pairs to a request's map. is_round: of the probe's round. */
enum { PROBE_PAIRS = 2 };
void probe_pack(const struct probe *p, int is_round, const char *agent,
                struct msg_out *o);
/* Passes on what the answer has beside the usual. ERR_PROTOCOL. */
int probe_take(const struct probe *p, const struct probe_place *at,
               const msgpack_object *answer, struct err *err);

#endif
