#include "agent/algo/team.h"

#include "common/mem/xmalloc.h"

#include <stdlib.h>
#include <string.h>

const struct algorithm_default team_defaults[] = {
    {"clip_norm", "10"},
    {"optimizer.learning_rate", "0.0005"},
    {"settings.clip_by", "global"},
    {"settings.epsilon", "1 to 0.05 over 50000"},
    {NULL},
};

void team_init(struct team *t, const struct space *agents, size_t n_agents,
               const char *name)
{
    t->agents = agents;
    t->member = xcalloc(n_agents, sizeof(*t->member));
    for (size_t i = 0; i < n_agents; i++)
        if (!agents[i].other && strcmp(agents[i].team, name) == 0)
            t->member[t->n++] = i;
}

void team_done(struct team *t)
{
    free(t->member);
}

int team_begins(const struct space *agents, size_t agent)
{
    for (size_t i = 0; i < agent; i++)
        if (!agents[i].other && strcmp(agents[i].team, agents[agent].team) == 0)
            return 0;
    return !agents[agent].other;
}

size_t teams_count(const struct space *agents, size_t n_agents, const char *team,
                   size_t *ret_place)
{
    size_t n = 0;

    for (size_t i = 0; i < n_agents; i++) {
        if (!team_begins(agents, i))
            continue;
        if (team != NULL && strcmp(agents[i].team, team) == 0)
            *ret_place = n;
        n++;
    }
    return n;
}

struct matrix *team_outputs(const struct team *t, struct matrices *all, const char *name)
{
    struct matrix *m = matrix_new(all, 0);

    for (size_t k = 0; k < t->n; k++)
        matrix_add_output(m, t->member[k], name, 1, OUTPUT_IF_SENT);
    return m;
}
