/* algorithms.h - names, settings and properties of the algorithms of this build.
 *
 * The supervisor uses the table to check configurations and for `brood algorithms`;
 * agent/algo implements each algorithm and declares its stages.
 */
#ifndef COMMON_CONFIG_ALGORITHMS_H
#define COMMON_CONFIG_ALGORITHMS_H

#include "common/config/run_config.h"

#include <stddef.h>

struct algorithm_info {
    const char *name;
    const char *summary; /* one line */
    const char *stages;  /* "propose(all) > critic(all, writes) > learn(all, writes)" */
    const char *source;  /* the paper */
    const char *const *settings; /* accepted keys of `settings`, NULL-terminated */
    int own_critic;              /* its critic sees only its own agent */
    const struct network_config *critic; /* default critic; NULL: run_schema's default */
    int without_env;                     /* has no policy; only for env.id none */
    int fixed;                           /* acts but never learns */
    const char *const *envs; /* ids of the environments it works in, NULL-terminated;
                              * NULL: all */
    int central;             /* a central process runs some of its stages */
};

const struct algorithm_info *algorithm_find(const char *name); /* NULL if unknown */
const struct algorithm_info *algorithm_at(size_t i);           /* NULL past the end */
/* Whether it works in that environment, and whether it has that key of `settings`. */
int algorithm_plays_in(const struct algorithm_info *a, const char *env);
int algorithm_accepts(const struct algorithm_info *a, const char *setting);

#endif
