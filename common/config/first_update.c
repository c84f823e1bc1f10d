/* When agents learn for the first time, and whether the run is long enough for that. */
#include "common/config/algorithms.h"
#include "common/config/loader.h"
#include "common/config/run_length.h"
#include "common/mem/xmalloc.h"

#include <stdlib.h>

/* the warm-up takes at most a tenth of a short run's steps */
enum { SHORT_WARMUP_SHARE = 10 };

int64_t run_config_most_steps(const struct run_config *c)
{
    const struct run_length length = run_length_last(c);
    const int64_t copies = c->env.copies;
    int64_t rounds = 0, steps;

    if (length.env_steps > 0)
        rounds = (length.env_steps + copies - 1) / copies;
    else if (__builtin_mul_overflow((length.episodes + copies - 1) / copies,
                                    c->env.max_steps, &rounds))
        return 0;
    return __builtin_mul_overflow(rounds, copies, &steps) ? 0 : steps;
}

static int learns(const struct run_config *c, size_t agent)
{
    return algorithm_learns(algorithm_of(&c->agents[agent]));
}

static int draws_rows(const struct run_config *c, size_t agent)
{
    return algorithm_rows(&c->agents[agent]) != ROWS_WINDOW;
}

/* Returns the step of the first update: the first multiple of update_every after the
 * warm-up. */
static int64_t first_update(const struct run_config *c, size_t agent)
{
    const struct experience_config x = run_config_experience(c, agent);

    if (!draws_rows(c, agent))
        return x.update_every;
    return (x.warmup + x.update_every - 1) / x.update_every * x.update_every;
}

/* Returns the full path of the key whose value the agent uses: the one of the run
 * ("experience.warmup"), of `defaults` or of the agent; free(). */
static char *key_of(const struct run_config *c, size_t agent, int is_warmup)
{
    const char *key = is_warmup ? "warmup" : "update_every";
    const struct experience_config *own = &c->agents[agent].experience;
    const struct experience_config *all = &c->defaults.experience;
    const int64_t value = is_warmup ? own->warmup : own->update_every;

    if (value == 0)
        return xasprintf("experience.%s", key);
    if (value == (is_warmup ? all->warmup : all->update_every))
        return xasprintf("defaults.experience.%s", key);
    return xasprintf("agents.%s.experience.%s", c->agents[agent].name, key);
}

char *run_config_untrained(const struct run_config *c, int64_t steps)
{
    size_t first = c->n_agents;
    struct experience_config x;
    char *key, *text;

    for (size_t i = 0; i < c->n_agents; i++)
        if (learns(c, i) &&
            (first == c->n_agents || first_update(c, i) < first_update(c, first)))
            first = i;
    if (first == c->n_agents || first_update(c, first) <= steps)
        return NULL;
    x = run_config_experience(c, first);
    key = key_of(c, first, draws_rows(c, first) && x.warmup > x.update_every);
    text = xasprintf("%s: nothing is trained: the first update comes after %lld steps, "
                     "and the run ends after %lld",
                     key, (long long)first_update(c, first), (long long)steps);
    free(key);
    return text;
}

void loader_shorten_warmup(const struct loader *l)
{
    struct run_config *c = l->c;
    const int64_t steps = run_config_most_steps(c);
    int is_used = 0;

    if (!l->is_new || steps == 0 || loader_given(l->root, "experience", "warmup") != NULL)
        return;
    for (size_t i = 0; i < c->n_agents; i++) {
        if (!learns(c, i) || !draws_rows(c, i) || c->agents[i].experience.warmup > 0)
            continue;
        if (first_update(c, i) <= steps)
            return;
        is_used = 1;
    }
    if (is_used)
        c->experience.warmup =
            steps > SHORT_WARMUP_SHARE ? steps / SHORT_WARMUP_SHARE : 1;
}
