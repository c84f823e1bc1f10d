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

static void add_group(struct learning_groups *to, const struct run_config *c,
                      size_t first)
{
    struct learning_group *g = &to->group[to->n];

    *g = (struct learning_group){.first = first};
    (void)snprintf(g->draws, sizeof(g->draws), "experience%s%s", to->n > 0 ? "/" : "",
                   to->n > 0 ? c->agents[first].name : "");
    to->group_of[first] = to->n++;
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
        if (g < ret->n)
            ret->group_of[i] = g;
        else
            add_group(ret, config, i);
    }
}

void learning_groups_done(struct learning_groups *g)
{
    free(g->group);
    free(g->group_of);
    *g = (struct learning_groups){0};
}
