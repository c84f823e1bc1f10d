/* probe.h - what a replay shows of one round: tensors of its `act` and of the stages of its
 * updates, and the requests themselves.
 *
 * In a replay, the request of every stage lists tensors to fetch; outside the probe's
 * round the list is empty. Because of the list, an agent answers even if a result is not
 * finite, and the answer has the scalars. Outside the probe's round such a result still
 * ends the run. None of this changes what agents compute.
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
#define PROBE_AFTER       "after" /* not a stage: the state after the round */

struct probe_place {      /* a request of the round */
    const char *agent;    /* its process */
    const char *stage;    /* PROBE_ACT, PROBE_AFTER, or the stage's name */
    uint64_t step;        /* environment steps at that time */
    uint64_t update;      /* of a stage: the number of its group's updates before */
    uint64_t pass;        /* of a stage: its repetition */
    const uint64_t *rows; /* [groups][batch][length] of a stage; NULL: PROBE_ACT */
    size_t groups, batch, length;
};

/* A stage's place among those of a boundary: what comes later may depend on it, whichever
 * process answers first. Compared member by member, in this order. */
struct probe_turn {
    uint64_t update; /* of all groups of learners */
    uint64_t group;
    uint64_t from; /* the first of the stages that are repeated with it, or itself */
    uint64_t pass, stage;
    uint64_t turn; /* of its process, where they take turns; else 0 */
};

struct probe_value {
    const struct probe_place *at;
    uint64_t run; /* number of the graph's run in the request */
    const char *name;
    const struct tensor *value; /* NULL: too large for a message */
};

struct probe {
    uint64_t step; /* the round that reaches this number of environment steps */
    /* Only the update that follows this number of updates (rollout_progress.updates). */
    uint64_t update;            /* or PROBE_ALL_UPDATES */
    const char *const *fetches; /* [n] names of tensors */
    size_t n;
    const char *agent; /* the process to fetch them from; NULL: every one that has them */
    int origins;       /* 1: call on_origin */
    /* The arguments of all callbacks are borrowed for the call. */
    void (*on_value)(void *ctx, const struct probe_value *v);
    void (*on_scalar)(void *ctx, const struct probe_place *at, const char *name,
                      double value);
    /* A tensor that is not finite, computed from finite ones: `origins` of protocol.h. */
    void (*on_origin)(void *ctx, const struct probe_place *at, const msgpack_object *o);
    /* A request, before its frame's length is filled in. */
    void (*on_request)(void *ctx, const struct probe_place *at, const void *frame,
                       size_t len);
    /* After the answer to a stage that writes, in every round, the probe's or not: the
     * variables of the process. NULL: nobody looks. */
    void (*on_written)(void *ctx, const struct probe_place *at,
                       const struct probe_turn *turn, const void *block, size_t bytes);
    /* A result that is not finite, and that ends a run. */
    void (*on_ends)(void *ctx, const struct probe_place *at, const char *why);
    void *ctx;
};

/* 1 if the round of `copies` copies that begins at environment step `begin` is the
 * probe's; p may be NULL. */
int probe_is_round(const struct probe *p, uint64_t begin, size_t copies);
/* Appends PROBE_PAIRS pairs to a request's map. is_round: 1 in the probe's round. */
enum { PROBE_PAIRS = 2 };
void probe_pack(const struct probe *p, int is_round, const char *agent,
                struct msg_out *o);
/* Passes the answer's fetched tensors and origins to the callbacks. ERR_PROTOCOL. */
int probe_take(const struct probe *p, const struct probe_place *at,
               const msgpack_object *answer, struct err *err);

#endif
