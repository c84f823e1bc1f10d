/* algorithms.h - the algorithms of this build, as far as both sides must know them.
 *
 * The supervisor checks names and settings and lists them (`brood algorithms`); the agent
 * side (agent/algo) implements each and declares its stages.
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
    const char *const *settings; /* names it accepts under `settings`, NULL-terminated */
    int own_critic;              /* its critic sees its own agent only */
    const struct network_config *critic; /* its own default network; NULL: the tables' */
    int without_env;                     /* has no policy: agents of env.id none only */
    int fixed;                           /* acts, and never learns */
    const char *const *envs; /* the only environments it plays in, NULL-terminated; NULL:
                              * all */
    int central;             /* some of its stages are a central process's */
};

const struct algorithm_info *algorithm_find(const char *name); /* NULL if unknown */
const struct algorithm_info *algorithm_at(size_t i);           /* NULL past the end */
int algorithm_plays_in(const struct algorithm_info *a, const char *env);
int algorithm_accepts(const struct algorithm_info *a, const char *setting);

#endif
