/* algorithms.h - names, settings and properties of the algorithms of this build.
 *
 * The supervisor uses the table to check configurations and for `brood algorithms`;
 * agent/algo implements each algorithm and declares its stages.
 */
#ifndef COMMON_CONFIG_ALGORITHMS_H
#define COMMON_CONFIG_ALGORITHMS_H

#include "common/config/run_config.h"

#include <stddef.h>

/* What an update of an algorithm learns from (supervisor/rollout/row_source.h). */
enum rows_kind {
    ROWS_TRANSITIONS, /* drawn rows, with those after them in their episodes */
    ROWS_EPISODES,    /* drawn whole episodes */
    ROWS_WINDOW,      /* the newest rows of every copy, used once */
    ROWS_KIND_COUNT
};
extern const char *const rows_kind_names[ROWS_KIND_COUNT + 1]; /* NULL-terminated */

struct algorithm_info {
    const char *name;
    const char *summary; /* one line */
    const char *stages;  /* "propose(all) > critic(all, writes) > learn(all, writes)" */
    const char *use;     /* what it is good for, and what it needs */
    const char *source;  /* the paper */
    const char *const *settings; /* accepted keys of `settings`, NULL-terminated */
    int own_critic;              /* its critic sees only its own agent */
    /* Defaults that differ from the tables', up to a NULL path; NULL: none. */
    const struct algorithm_default {
        const char *path; /* within an agent's section; of a number, flag or choice */
        const char *text;
    } * defaults;
    const struct network_config *critic; /* default critic; NULL: run_schema's default */
    int without_env;                     /* has no policy; for env.id none only */
    int fixed;                           /* acts but never learns */
    const char *const *envs; /* ids of the environments it works in, NULL-terminated;
                              * NULL: all */
    int central;             /* a central process runs some of its stages */
    enum rows_kind rows;     /* by default; some settings need others: algorithm_rows */
    int team_reward;         /* learns one value for the whole team */
    int shares;              /* agents can share parameters through a ps process */
};

const struct algorithm_info *algorithm_find(const char *name); /* NULL if unknown */
const struct algorithm_info *algorithm_at(size_t i);           /* NULL past the end */
/* Whether it works in that environment; whether it has that key of `settings`. */
int algorithm_plays_in(const struct algorithm_info *a, const char *env);
int algorithm_accepts(const struct algorithm_info *a, const char *setting);
/* Whether it learns from the experience log. */
int algorithm_learns(const struct algorithm_info *a);
/* Whether the agent gets its graph from a checkpoint, which settings.from names: it is frozen,
 * or hosts a graph. */
int algorithm_brings_graph(const struct agent_config *a);

/* Whether an agent hosts a graph (and is not frozen), so that clients train it. */
int run_config_trains_graphs(const struct run_config *c);

/* The rows that an agent learns from, as it declares in its answer to `configure`. */
enum rows_kind algorithm_rows(const struct agent_config *a);
/* The kind of rows that all learners of a configuration use; ROWS_KIND_COUNT: the
 * configuration has no learners, or theirs differ. */
enum rows_kind run_config_rows(const struct run_config *c);

#endif
