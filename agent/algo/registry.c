#include "agent/algo/algo.h"
#include "agent/algo/maddpg.h"

#include <string.h>

extern const struct algo_ops critic_ops; /* critic.c */

static const struct algo_ops *const registry[] = {
    &critic_ops,
    &maddpg_ops,
    &ddpg_ops,
};

const struct algo_ops *algo_find(const char *name)
{
    for (size_t i = 0; i < sizeof(registry) / sizeof(registry[0]); i++)
        if (strcmp(registry[i]->name, name) == 0)
            return registry[i];
    return NULL;
}
