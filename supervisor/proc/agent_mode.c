/* Mode changes: from learning to frozen or noop, and back.
 *
 * An agent's position is a number that only grows: the number of writing requests that it
 * carried out in the upper half, the number of other requests since then in the lower. It
 * is the same in a resumed run, so that the change can be repeated at the same request.
 * `lost` is the number of writing requests before the change whose effect was lost. A
 * resumed run therefore keeps the values of that earlier position when it gets there.
 */
#include "supervisor/proc/agent.h"

#include "common/err/check.h"
#include "common/mem/xmalloc.h"

#include <stdlib.h>
#include <string.h>

#define WRITES_SHIFT 32

static uint64_t writes_of(uint64_t position)
{
    return position >> WRITES_SHIFT;
}

/* The position once the pending request is answered. */
static uint64_t next_position(const struct agent *a, int absent)
{
    if (a->pending.writes && !absent)
        return (writes_of(a->position) + 1) << WRITES_SHIFT;
    return a->position + !a->pending.uncounted;
}

/* ---- planning ---- */

/* Whether this change needs the values that the agent has at this position. */
static int needs_values(const struct agent *a, const struct agent_planned_change *p,
                        uint64_t position)
{
    return p->values == NULL && p->change.lost > 0 && a->replay.snapshot_bytes > 0 &&
           writes_of(position) + p->change.lost >= writes_of(p->change.position);
}

int agent_must_copy(const struct agent *a)
{
    const uint64_t position = next_position(a, 0);

    for (size_t i = 0; i < a->n_changes; i++)
        if (needs_values(a, &a->changes[i], position))
            return 1;
    return 0;
}

/* The newest snapshot is of this position: agent_must_copy made it so. */
static void keep_values(struct agent *a, struct agent_planned_change *p)
{
    if (!needs_values(a, p, a->position))
        return;
    CHECK(a->replay.n_requests == 0);
    p->values = xmalloc(a->replay.snapshot_bytes);
    memcpy(p->values, a->replay.snapshot, a->replay.snapshot_bytes);
}

void agent_advance(struct agent *a, int absent)
{
    a->position = next_position(a, absent);
    a->pending.active = 0;
    for (size_t i = 0; i < a->n_changes; i++)
        keep_values(a, &a->changes[i]);
}

void agent_plan_mode_change(struct agent *a, const struct agent_mode_change *change)
{
    size_t i = a->n_changes++;

    a->changes = xreallocarray(a->changes, a->n_changes, sizeof(*a->changes));
    for (; i > 0 && a->changes[i - 1].change.position > change->position; i--)
        a->changes[i] = a->changes[i - 1];
    a->changes[i] = (struct agent_planned_change){.change = *change};
    keep_values(a, &a->changes[i]);
}

static void drop_first(struct agent *a)
{
    free(a->changes[0].values);
    a->n_changes--;
    memmove(a->changes, a->changes + 1, a->n_changes * sizeof(*a->changes));
}

void agent_free_mode_changes(struct agent *a)
{
    while (a->n_changes > 0)
        drop_first(a);
    free(a->changes);
}

int agent_will_learn_again(const struct agent *a)
{
    return a->n_changes > 0 && a->changes[a->n_changes - 1].change.mode == AGENT_LEARNS;
}

/* ---- applying ---- */

/* Restores the block as it was `lost` writing requests ago. A noop has no process that
 * could replay requests, so its block is kept as it is. UV_EAGAIN: when its copy has come. */
static int take_values(struct agent *a, const struct agent_planned_change *p,
                       struct err *err)
{
    const struct replay_block values =
        replay_block_at(p->values, a->replay.snapshot_bytes);

    if (p->values != NULL)
        return agent_put(a, &values, err);
    return p->change.mode == AGENT_NOOP && a->replay.n_requests > 0
               ? agent_snapshot(a, err)
               : 0;
}

static void set_mode(struct agent *a, enum agent_mode mode)
{
    a->mode = mode;
    if (mode == AGENT_NOOP) {
        a->start_due_ns = 0;
        a->link->ops->kill(a->link);
    } else if (a->state == PROC_DOWN && a->start_due_ns == 0) {
        agent_restart(a);
    }
}

/* Returns 0 if the change has to wait, for a round or until its values are known. */
static int apply_mode_change(struct agent *a, const struct agent_planned_change *p)
{
    const struct agent_mode_change change = p->change;
    struct err err;
    int rc = 0;

    if (change.mode != AGENT_LEARNS && change.mode <= a->mode)
        return 1;
    if (change.mode == AGENT_LEARNS ? a->round_position < change.position
                                    : a->state != PROC_IDLE)
        return 0;
    if (change.mode != AGENT_LEARNS)
        rc = take_values(a, p, &err);
    a->holds_back = rc == UV_EAGAIN;
    if (rc < 0 && rc != UV_EAGAIN)
        agent_feed_fatal(a, &err);
    if (rc < 0)
        return 0;
    set_mode(a, change.mode);
    agent_emit_mode_change(a, AGENT_EVENT_MODE_CHANGED, &change);
    a->host->on_due(a->host); /* answers the pending request if no process will */
    return 1;
}

void agent_apply_mode_changes(struct agent *a)
{
    a->holds_back = 0;
    while (a->n_changes > 0 && a->changes[0].change.position <= a->position &&
           apply_mode_change(a, &a->changes[0]))
        drop_first(a);
}

void agent_resume_at(struct agent *a, const struct agent_resume_point *s)
{
    const struct agent_mode_change change = {.mode = s->mode, .position = s->position};

    a->position = s->position;
    if (s->mode == AGENT_LEARNS)
        return;
    set_mode(a, s->mode);
    agent_emit_mode_change(a, AGENT_EVENT_MODE_CHANGED, &change);
}

/* A pending request belongs to the round that has begun. */
void agent_reinstate(struct agent *a)
{
    const struct agent_mode_change change = {
        .mode = AGENT_LEARNS,
        .position = a->pending.active
                        ? next_position(a, agent_is_absent_for(a, a->pending.writes))
                        : a->position};

    if (a->mode == AGENT_LEARNS || agent_will_learn_again(a))
        return;
    agent_plan_mode_change(a, &change);
    agent_emit_mode_change(a, AGENT_EVENT_REINSTATE, &change);
}
