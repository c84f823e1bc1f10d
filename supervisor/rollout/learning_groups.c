#include "supervisor/rollout/learning_groups.h"

#include "common/config/algorithms.h"
#include "common/mem/xmalloc.h"

#include <stdio.h>
#include <stdlib.h>

/* A group's stages are repeated for each minibatch if its members share parameters. */
static int repeat_alike(const struct agent_config *a, const struct agent_config *b)
{
    const struct schema *s = &algorithm_of(a)->settings;

    for (size_t i = 0; i < s->n; i++) {
        const struct field *f = &s->fields[i];

        if (f->flags & FIELD_REPEATS &&
            agent_setting(a, f->key) != agent_setting(b, f->key))
            return 0;
    }
    return 1;
}

static int are_together(const struct run_config *c, const struct sharing *s, size_t i,
                        size_t k)
{
    const struct agent_config *a = &c->agents[i], *b = &c->agents[k];
    const struct experience_config *x = &a->experience, *y = &b->experience;
    const int shares = s->group_of[i] != SHARING_NONE;

    return algorithm_of(a) == algorithm_of(b) && algorithm_rows(a) == algorithm_rows(b) &&
           x->batch_size == y->batch_size && x->warmup == y->warmup &&
           x->update_every == y->update_every &&
           shares == (s->group_of[k] != SHARING_NONE) && (!shares || repeat_alike(a, b));
}

void learning_groups_init(struct learning_groups *ret, const struct run_config *config,
                          const struct sharing *sharing)
{
    *ret = (struct learning_groups){
        .group = xcalloc(config->n_agents + 1, sizeof(*ret->group)),
        .group_of = xcalloc(config->n_agents + 1, sizeof(*ret->group_of))};
    for (size_t i = 0; i < config->n_agents; i++) {
        size_t g = 0;

        ret->group_of[i] = LEARNING_NONE;
        if (!algorithm_learns(algorithm_of(&config->agents[i])))
            continue;
        while (g < ret->n && !are_together(config, sharing, ret->group[g].first, i))
            g++;
        ret->group_of[i] = g;
        if (g == ret->n) {
            ret->group[ret->n++].first = i;
            (void)snprintf(ret->group[g].draws, sizeof(ret->group[g].draws),
                           "experience%s%s", g > 0 ? "/" : "",
                           g > 0 ? config->agents[i].name : "");
        }
    }
}

void learning_groups_done(struct learning_groups *g)
{
    free(g->group);
    free(g->group_of);
    *g = (struct learning_groups){0};
}
