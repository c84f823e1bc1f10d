#include "common/config/run_length.h"

#include "common/config/change_plan.h"
#include "common/mem/xmalloc.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

struct run_length run_length_of(const struct run_config *c)
{
    return (struct run_length){c->run.env_steps, c->run.episodes};
}

void run_length_set(struct run_config *c, struct run_length length)
{
    c->run.env_steps = length.env_steps;
    c->run.episodes = length.episodes;
}

struct run_length run_length_last(const struct run_config *c)
{
    return c->plan != NULL ? change_plan_length(c->plan, c, UINT64_MAX)
                           : run_length_of(c);
}

int run_length_is_same(struct run_length a, struct run_length b)
{
    return a.env_steps == b.env_steps && a.episodes == b.episodes;
}

int run_length_is_reached(struct run_length length, uint64_t env_steps, uint64_t episodes)
{
    return (length.env_steps > 0 && env_steps >= (uint64_t)length.env_steps) ||
           (length.episodes > 0 && episodes >= (uint64_t)length.episodes);
}

int run_length_is_key(const char *path)
{
    return strcmp(path, "run") == 0 || strcmp(path, "run.env_steps") == 0 ||
           strcmp(path, "run.episodes") == 0;
}

int run_length_is_assigned(const char *assignment)
{
    char *key = xstrndup(assignment, strcspn(assignment, "="));
    const int ret = run_length_is_key(key);

    free(key);
    return ret;
}

void run_length_change(struct run_length *length, const struct config_setting *s)
{
    if (strcmp(s->path, "run.env_steps") == 0)
        length->env_steps = s->value.whole;
    else if (strcmp(s->path, "run.episodes") == 0)
        length->episodes = s->value.whole;
}

/* The first boundary at or after `step`. */
static uint64_t boundary_at(const struct run_config *c, uint64_t step)
{
    const uint64_t round = (uint64_t)c->env.copies;

    if (strcmp(c->env.id, "none") == 0)
        return step;
    return step <= UINT64_MAX - round ? (step + round - 1) / round * round : step;
}

int run_length_check(const struct run_config *c, struct run_length was,
                     struct run_length is, uint64_t at, uint64_t next, uint64_t episodes,
                     struct err *err)
{
    const uint64_t boundary = boundary_at(c, at);

    if (run_length_is_same(was, is))
        return 0;
    if (was.env_steps > 0 && boundary > boundary_at(c, (uint64_t)was.env_steps))
        return err_set(err, ERR_CONFIG,
                       "the run ends at step %" PRId64
                       ", before the value of step %" PRIu64,
                       was.env_steps, at);
    if (was.episodes > 0 && boundary > next)
        return err_set(err, ERR_CONFIG,
                       "the run ends after %" PRId64
                       " episodes, which may be before step "
                       "%" PRIu64 ": a length cannot wait for it",
                       was.episodes, at);
    if (is.env_steps > 0 && (uint64_t)is.env_steps <= at)
        return err_set(err, ERR_CONFIG, "%" PRId64 " is past at step %" PRIu64,
                       is.env_steps, at);
    if (is.episodes > 0 && (uint64_t)is.episodes <= episodes)
        return err_set(err, ERR_CONFIG, "%" PRId64 " is past: there are %" PRIu64,
                       is.episodes, episodes);
    return 0;
}
