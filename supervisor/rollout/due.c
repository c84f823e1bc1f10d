#include "supervisor/rollout/due.h"

void intervals_init(struct intervals *s, const struct run_config *c)
{
    *s = (struct intervals){
        .evaluate_every = (uint64_t)c->evaluation.every_env_steps,
        .log_every = (uint64_t)c->log.every_env_steps,
        .checkpoint_every = (uint64_t)c->checkpoint.every_env_steps,
        .checkpoint_every_ns = (uint64_t)(c->checkpoint.every_seconds * 1e9),
        .length = run_length_of(c),
    };
}

/* Multiples of interval in (before, steps]. */
static uint64_t times_due(uint64_t interval, uint64_t before, uint64_t steps)
{
    return interval == 0 || steps <= before ? 0 : steps / interval - before / interval;
}

uint64_t due_updates(const struct update_interval *u, const struct due_at *now)
{
    const uint64_t first = u->warmup > 0 ? u->warmup - 1 : 0;

    return times_due(u->every, now->before > first ? now->before : first, now->steps);
}

struct due due_find(const struct intervals *s, const struct due_at *now)
{
    struct due due = {.end = run_length_is_reached(s->length, now->steps, now->episodes)};

    due.evaluate = times_due(s->evaluate_every, now->before, now->steps) > 0 ||
                   (due.end && s->evaluate_every > 0);
    due.log = due.end || times_due(s->log_every, now->before, now->steps) > 0;
    due.checkpoint = due.end ||
                     times_due(s->checkpoint_every, now->before, now->steps) > 0 ||
                     (s->checkpoint_every_ns > 0 &&
                      now->since_checkpoint_ns >= s->checkpoint_every_ns);
    return due;
}
