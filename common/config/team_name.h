/* team_name.h - the team of an agent: its name without the number at the end. */
#ifndef COMMON_CONFIG_TEAM_NAME_H
#define COMMON_CONFIG_TEAM_NAME_H

#include <stddef.h>
#include <string.h>

/* The length of the team's name, with which the agent's name begins: 9 for "adversary_0"
 * and for "adversary". */
static inline size_t agent_team_length(const char *name)
{
    const size_t len = strlen(name);
    size_t end = len;

    while (end > 0 && name[end - 1] >= '0' && name[end - 1] <= '9')
        end--;
    if (end > 1 && end < len && name[end - 1] == '_')
        end--;
    return end > 0 ? end : len;
}

#endif
