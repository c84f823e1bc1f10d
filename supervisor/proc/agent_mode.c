/* Turns: from learning to frozen or noop, and back.
 *
 * Where an agent stands in the row of its requests is a number that only grows: the
 * writing ones that it carried out, in the upper half, and what was asked since the last
 * of them, in the lower. It is the same in a run that is resumed, so that a turn can be
 * made again at the very request. `lost` says how many writing requests before it the
 * values of that moment lacked: going there again, they are kept as they come by.
 */
#include "supervisor/proc/agent.h"

#include "common/mem/xmalloc.h"

#include <stdlib.h>
#include <string.h>

#define WRITES_SHIFT 32

static uint64_t writes_of(uint64_t position)
{
    return position >> WRITES_SHIFT;
}

/* With what is pending answered. */
static uint64_t next_position(const struct agent *a, int absent)
{
    if (a->pending.writes && !absent)
        return (writes_of(a->position) + 1) << WRITES_SHIFT;
    return a->position + !a->pending.aside;
}

/* ---- planning ---- */

static int keep_values(const struct agent *a, struct agent_planned *p,
                       const struct replay_block *values, struct err *err)
{
    int r;

    if (p->values != NULL || p->turn.lost == 0 || values->len_bytes == 0 ||
        writes_of(a->position) + p->turn.lost < writes_of(p->turn.position))
        return 0;
    p->values = xmalloc(values->len_bytes);
    r = values->copy(values->ctx, p->values, values->len_bytes, err);
    if (r < 0) {
        free(p->values);
        p->values = NULL;
    }
    return r;
}

int agent_advance(struct agent *a, int absent, struct err *err)
{
    const struct replay_block now = agent_block(a);
    int r = 0;

    a->position = next_position(a, absent);
    a->pending.active = 0;
    for (size_t i = 0; i < a->n_turns && r == 0; i++)
        r = keep_values(a, &a->turns[i], &now, err);
    return r;
}

void agent_plan_turn(struct agent *a, const struct agent_turn *turn)
{
    const struct replay_block snapshot =
        replay_block_at(a->replay.snapshot, a->replay.snapshot_bytes);
    size_t i = a->n_turns++;

    a->turns = xreallocarray(a->turns, a->n_turns, sizeof(*a->turns));
    for (; i > 0 && a->turns[i - 1].turn.position > turn->position; i--)
        a->turns[i] = a->turns[i - 1];
    a->turns[i] = (struct agent_planned){.turn = *turn};
    (void)keep_values(a, &a->turns[i], &snapshot, NULL); /* memory cannot fail */
}

static void drop_first(struct agent *a)
{
    free(a->turns[0].values);
    a->n_turns--;
    memmove(a->turns, a->turns + 1, a->n_turns * sizeof(*a->turns));
}

void agent_free_turns(struct agent *a)
{
    while (a->n_turns > 0)
        drop_first(a);
    free(a->turns);
}

int agent_is_coming_back(const struct agent *a)
{
    return a->n_turns > 0 && a->turns[a->n_turns - 1].turn.mode == AGENT_LEARNS;
}

/* ---- making them ---- */

/* Its block as it was `lost` requests ago; or, nobody replaying for a no-op, as it is. */
static int take_values(struct agent *a, const struct agent_planned *p, struct err *err)
{
    const struct replay_block values =
        replay_block_at(p->values, a->replay.snapshot_bytes);
    int r;

    if (p->values != NULL) {
        r = a->link->ops->put(a->link, p->values, values.len_bytes, err);
        return r < 0 ? r : replay_snapshot(&a->replay, &values, err);
    }
    return p->turn.mode == AGENT_NOOP && a->replay.n_requests > 0 ? agent_snapshot(a, err)
                                                                  : 0;
}

static void set_mode(struct agent *a, enum agent_mode mode)
{
    a->mode = mode;
    if (mode == AGENT_NOOP) {
        a->start_due_ns = 0;
        a->link->ops->kill(a->link);
    } else if (a->state == PROC_DOWN && a->start_due_ns == 0) {
        agent_start_again(a);
    }
}

/* 0: it has to wait, for a round or until its values are known. */
static int take_turn(struct agent *a, const struct agent_planned *p)
{
    const struct agent_turn turn = p->turn;
    struct err err;

    if (turn.mode != AGENT_LEARNS && turn.mode <= a->mode)
        return 1;
    if (turn.mode == AGENT_LEARNS ? a->round_position < turn.position
                                  : a->state != PROC_IDLE)
        return 0;
    if (turn.mode != AGENT_LEARNS && take_values(a, p, &err) < 0) {
        agent_fatal(a, &err);
        return 0;
    }
    set_mode(a, turn.mode);
    agent_emit_turn(a, AGENT_EVENT_TURNED, &turn);
    a->host->on_due(a->host); /* nobody may be there any more for what it owes */
    return 1;
}

void agent_take_turns(struct agent *a)
{
    while (a->n_turns > 0 && a->turns[0].turn.position <= a->position &&
           take_turn(a, &a->turns[0]))
        drop_first(a);
}

void agent_stand(struct agent *a, const struct agent_standing *s)
{
    const struct agent_turn turn = {.mode = s->mode, .position = s->position};

    a->position = s->position;
    if (s->mode == AGENT_LEARNS)
        return;
    set_mode(a, s->mode);
    agent_emit_turn(a, AGENT_EVENT_TURNED, &turn);
}

/* What it owes belongs to the round that has begun. */
void agent_take_back(struct agent *a)
{
    const struct agent_turn turn = {
        .mode = AGENT_LEARNS,
        .position = a->pending.active
                        ? next_position(a, agent_is_absent_for(a, a->pending.writes))
                        : a->position};

    if (a->mode == AGENT_LEARNS || agent_is_coming_back(a))
        return;
    agent_plan_turn(a, &turn);
    agent_emit_turn(a, AGENT_EVENT_TAKE_BACK, &turn);
}
