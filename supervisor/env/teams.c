#include "supervisor/env/env.h"

#include <string.h>

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
