/* algorithms.h - what algorithms say about themselves, and the settings of agents.
 *
 * brood knows no algorithm: whatever it decides by is in these descriptions. brood-agent gives
 * those of its own algorithms in one answer (`brood-agent describe`, algorithm_msg.h), from
 * the files that implement them (agent/algo). The build makes that answer a part of brood
 * (supervisor/describe).
 *
 * A setting of an algorithm is a row of a table, as any key of the configuration is
 * (schema.h), so that checks, `brood set`, completion, the lists of keys and the page have
 * one way for both. Flags of the row say what a setting means to the supervisor
 * (FIELD_OWN_ROWS and those after it).
 */
#ifndef COMMON_CONFIG_ALGORITHMS_H
#define COMMON_CONFIG_ALGORITHMS_H

#include "common/config/run_config.h"
#include "common/config/schema.h"

#include <stddef.h>

/* What an update of an algorithm learns from (supervisor/rollout/row_source.h). */
enum rows_kind {
    ROWS_TRANSITIONS, /* drawn rows, with those after them in their episodes */
    ROWS_EPISODES,    /* drawn whole episodes */
    ROWS_WINDOW,      /* the newest rows of every copy, used once */
    ROWS_KIND_COUNT
};
extern const char *const rows_kind_names[ROWS_KIND_COUNT + 1]; /* NULL-terminated */

enum {
    ALGORITHM_MAX_SETTINGS = 64,
    ALGORITHM_MAX_DEFAULTS = 64,
    ALGORITHM_MAX_ENVS = 64,
    ALGORITHM_MAX_IDENTITY = 1024,
    ALGORITHM_MAX_SCALARS = 32,
    ALGORITHM_MAX_METHOD = 12,
};

/* Who reports a scalar. */
enum scalar_by {
    SCALAR_BY_AGENT = 1, /* the agent itself, whether it shares parameters or not */
    SCALAR_BY_STEP = 2,  /* who makes the optimiser's steps: the agent or, in a group that
                            * shares parameters, its ps process */
    SCALAR_BY_CENTRAL = 4, /* the central process */
};

/* A number that an algorithm's stages report (metrics.h). */
struct algorithm_scalar {
    const char *name;    /* algorithm_scalar_is_name */
    const char *meaning; /* one line */
    const char *unit;    /* "": it has none */
    unsigned by;         /* bits of scalar_by; 0: SCALAR_BY_AGENT */
};

struct algorithm_info {
    const char *name;
    const char *summary; /* one line */
    const char *stages;  /* "propose(all) > critic(all, writes) > learn(all, writes)" */
    const char *use;     /* what it is good for, and what it needs */
    const char *source;  /* the paper */
    /* An update as the paper has it, a line each, NULL-terminated; NULL: it does not say. */
    const char *const *method;
    struct schema
        settings; /* its keys of `settings`; offsets from agent_settings.value */
    /* Defaults that differ from the tables', up to a NULL path; NULL: none. */
    const struct algorithm_default {
        const char *path; /* within an agent's section */
        const char *text;
    } * defaults;
    const char *const *envs; /* ids of the environments it works in, NULL-terminated;
                              * NULL: all */
    enum rows_kind rows;
    /* It learns from whole episodes instead if one of these settings is above the number
     * beside it; up to a NULL key; NULL: none. */
    const struct algorithm_bound {
        const char *key;
        double above;
    } * episodes_if;
    /* What its stages report, up to a NULL name; they may report more, and not each of these
     * with all settings. NULL: it declares none. */
    const struct algorithm_scalar *scalars;
    /* Of a program: what its bits depend on, a line each ("numpy 1.24.2", "dqn.py 5f0c..."),
     * NULL-terminated; NULL: it does not say. */
    const char *const *identity;
    /* Of a program whose files a run keeps: the folder below theirs in which it starts. */
    const char *within;
    /* Of a program: the same as an agent that acts as a checkpoint does, and is fixed. */
    const struct algorithm_info *as_policy;
    int is_unknown;   /* a program that was not asked (config_options.no_start) */
    int is_default;   /* what `algorithm` is if it is not given */
    int own_critic;   /* its critic sees only its own agent */
    int without_env;  /* has no policy; for env.id none only */
    int fixed;        /* acts but never learns */
    int central;      /* a central process runs some of its stages */
    int team_reward;  /* learns one value for the whole team */
    int shares;       /* agents can share parameters through a ps process */
    int prepares;     /* a program: a process of it can be prepared, to fork agents */
    int hybrid;       /* can take actions that are heads with numbers behind them */
    int keeps_window; /* has a variable of one element for each row of an update */
};

/* The algorithms that this program knows, by name; NULL past the end. Each program that reads
 * configurations has one definition: agent/algo/described.c in an agent, and
 * supervisor/describe/described.c in brood. */
const struct algorithm_info *algorithm_at(size_t i);

const struct algorithm_info *algorithm_find(const char *name); /* NULL if unknown */
const struct algorithm_info *algorithm_default(void);
/* That of an agent: if the agent is a program, what the program said of itself. */
const struct algorithm_info *algorithm_of(const struct agent_config *a);

/* ---- programs: agents that users write ---- */

#define ALGORITHM_PROGRAM "program" /* the name of all of them in a configuration */

/* The description with this hash (agent_config.program), which lives as long as the process.
 * Each program that reads configurations has one definition: in brood it was noted
 * (supervisor/describe/programs.h), or is read from the folder, in which a run keeps it; folder
 * NULL: only if it was noted. ERR_NOT_FOUND, ERR_PROTOCOL, -errno. */
int algorithm_load(const struct algorithm_info **ret, const char *hash,
                   const char *folder, struct err *err);
/* What stands for a program that was not asked. */
const struct algorithm_info *algorithm_unknown(void);
/* Whether it works in that environment. */
int algorithm_plays_in(const struct algorithm_info *a, const char *env);
/* Whether a text of len bytes can be the name of a scalar, or of a metric of an environment:
 * letters, digits and _.-/, at most ALGORITHM_SCALAR_NAME of them. */
enum { ALGORITHM_SCALAR_NAME = 48 };
int algorithm_scalar_is_name(const char *name, size_t len);
/* Whether that process reports the scalar: one bit of scalar_by, or several. */
int algorithm_scalar_is_by(const struct algorithm_scalar *s, unsigned by);
/* Whether it learns from the experience log. */
int algorithm_learns(const struct algorithm_info *a);
/* Its setting with one of the flags; NULL: it has none. */
const struct field *algorithm_setting(const struct algorithm_info *a, unsigned flag);
/* One that has the settings of all algorithms, each key once: to find keys, and to check
 * sections whose algorithm is not known yet. Its settings may lie over each other. */
const struct algorithm_info *algorithm_any(void);
/* Places the n settings one after the other. ERR_LIMIT: they need more than
 * SETTINGS_MAX_BYTES. */
int algorithm_place_settings(struct field *settings, size_t n, struct err *err);

/* ---- an agent's settings ---- */

/* Makes the agent's settings those of its algorithm (NULL: the default one), which exists:
 * those of the same key and form keep their values, others get their defaults. */
void agent_section_take(struct agent_config *a, struct arena *arena);
/* agent_section_take for an algorithm that is no row of algorithm_at. */
void agent_section_take_as(struct agent_config *a, const struct algorithm_info *is,
                           struct arena *arena);
/* The number, flag or choice of the setting with one of the flags (of several: their sum), or of
 * that key (a schedule's first value); 0 if the agent has no such setting. */
double agent_setting_marked(const struct agent_config *a, unsigned flag);
double agent_setting(const struct agent_config *a, const char *key);
/* The text of the setting with that flag; NULL: none, or not given. */
const char *agent_setting_text(const struct agent_config *a, unsigned flag);

/* Whether the agent gets its graph from a checkpoint, which a setting names: it is frozen, or
 * hosts a graph. */
int algorithm_brings_graph(const struct agent_config *a);

/* Whether an agent hosts a graph (and is not frozen), so that clients train it. */
int run_config_trains_graphs(const struct run_config *c);

/* Whether an agent is a program. */
int run_config_has_programs(const struct run_config *c);

/* The rows that an agent learns from, as it declares in its answer to `configure`. */
enum rows_kind algorithm_rows(const struct agent_config *a);
/* The setting that makes the rows of two agents of one algorithm differ; NULL: none. */
const struct algorithm_bound *algorithm_rows_differ(const struct agent_config *a,
                                                    const struct agent_config *b);
/* The kind of rows that all learners of a configuration use; ROWS_KIND_COUNT: the
 * configuration has no learners, or theirs differ. */
enum rows_kind run_config_rows(const struct run_config *c);
/* The rows of the log that an update may need: experience.capacity; but if all learners use
 * each row once, the newest window, unless experience.keep is true. */
uint64_t run_config_log_window(const struct run_config *c);

#endif
