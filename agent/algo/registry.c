#include "agent/algo/algo.h"

#include <string.h>

extern const struct algo_ops critic_ops;                               /* critic.c */
extern const struct algo_ops hosted_ops;                               /* hosted.c */
extern const struct algo_ops iql_ops;                                  /* iql.c */
extern const struct algo_ops ddpg_ops, maddpg_ops;                     /* maddpg.c */
extern const struct algo_ops matd3_ops;                                /* matd3.c */
extern const struct algo_ops coma_ops;                                 /* coma.c */
extern const struct algo_ops happo_ops;                                /* happo.c */
extern const struct algo_ops ia2c_ops, ippo_ops, maa2c_ops, mappo_ops; /* ppo.c */
extern const struct algo_ops qmix_ops;                                 /* qmix.c */
extern const struct algo_ops vdn_ops;                                  /* vdn.c */
/* fixed.c */
extern const struct algo_ops frozen_ops, heuristic_ops, noop_ops, random_ops;
extern const struct algo_ops isac_ops, masac_ops; /* sac.c */

static const struct algo_ops *const registry[] = {
    &coma_ops,  &critic_ops,    &ddpg_ops,   &frozen_ops, &hosted_ops,
    &happo_ops, &heuristic_ops, &ia2c_ops,   &ippo_ops,   &iql_ops,
    &isac_ops,  &maa2c_ops,     &maddpg_ops, &mappo_ops,  &masac_ops,
    &matd3_ops, &noop_ops,      &qmix_ops,   &random_ops, &vdn_ops,
};

const struct algo_ops *algo_at(size_t i)
{
    return i < sizeof(registry) / sizeof(registry[0]) ? registry[i] : NULL;
}

const struct algo_ops *algo_find(const char *name)
{
    for (size_t i = 0; i < sizeof(registry) / sizeof(registry[0]); i++)
        if (strcmp(registry[i]->name, name) == 0)
            return registry[i];
    return NULL;
}
