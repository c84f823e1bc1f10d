#include "common/config/team_name.h"
#include "common/err/check.h"
#include "supervisor/env/env_class.h"

#include <stdio.h>
#include <string.h>

size_t env_choice(const float *x, size_t n)
{
    size_t best = 0;

    for (size_t i = 1; i < n; i++)
        best = x[i] > x[best] ? i : best;
    return best;
}

void env_clip(const struct env_spec *spec, size_t agent, size_t n, void *obs)
{
    const float most = (float)spec->clip_observations;
    float *x = obs;

    if (spec->clip_observations <= 0 || env_has_bytes(&spec->agents[agent]))
        return;
    for (size_t i = 0; i < n * (size_t)spec->agents[agent].obs_width; i++)
        x[i] = x[i] > most ? most : x[i] < -most ? -most : x[i];
}

int env_is_masked(const struct env_spec *spec, size_t agent)
{
    return spec->masks && spec->agents[agent].space.n_heads > 0;
}

void env_agent_set_name(struct env_agent *agent, const char *team, size_t number)
{
    int n = snprintf(agent->name, sizeof(agent->name), "%s_%zu", team, number);

    CHECK(n > 0 && (size_t)n < sizeof(agent->name), "agent name of team %s", team);
    memcpy(agent->team, team, strlen(team) + 1);
}

void env_agent_find_team(struct env_agent *a)
{
    const size_t len = agent_team_length(a->name);

    memcpy(a->team, a->name, len);
    a->team[len] = '\0';
}

size_t env_team_of(const struct env_spec *spec, size_t agent)
{
    size_t first = 0;

    while (strcmp(spec->agents[first].team, spec->agents[agent].team) != 0)
        first++;
    return first;
}

double env_team_mean(const struct env_spec *spec, size_t first, const double *values)
{
    double sum = 0;
    int n = 0;

    for (size_t i = first; i < spec->n_agents; i++) {
        if (strcmp(spec->agents[i].team, spec->agents[first].team) != 0)
            continue;
        sum += values[i];
        n++;
    }
    return sum / n;
}
