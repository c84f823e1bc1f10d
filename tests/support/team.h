/* team.h - a team of learners in one process, with rows to learn from: does the work of a
 * supervisor and its agents without processes and messages.
 */
#ifndef TESTS_SUPPORT_TEAM_H
#define TESTS_SUPPORT_TEAM_H

#include "agent/algo/reads.h"
#include "agent/algo/share.h"
#include "common/config/run_config.h"
#include "common/msg/symmetry_msg.h"

#define TEAM_MAX          8
#define TEAM_SHARED_BYTES ((size_t)16 << 20)

struct member {
    const struct algo_ops *ops;
    struct graph *graph;
    struct session *session;
    struct algo *algo;
    struct share *share;         /* NULL: it shares nothing */
    struct reads reads;          /* the log's columns that it declared */
    struct tensor proposal;      /* of the newest propose stage, owned */
    struct tensor log_prob;      /* the same, if the stage has this output */
    struct tensor priorities;    /* of the newest update that returned some, owned */
    struct stage_result learned; /* of the newest learn stage */
};

struct team_args {
    size_t n;           /* agents, named agent_0 ... */
    int64_t obs;        /* O of each */
    struct space space; /* of each action; name, team and obs are filled in; masked: the
                         * log has masks, which allow everything */
    const char *config; /* YAML: overrides of the defaults of an agent's section */
    uint64_t seed;
    uint64_t n_rows;     /* rows in the log, drawn at random */
    int64_t window_rows; /* as algo_args has them */
    int64_t copies;
    int share;       /* all share their parameters; "agent_ps" is member number n */
    int apart;       /* each agent is a team of its own */
    uint32_t others; /* bit i: agent i is in another group of learners */
    const struct symmetry_group *symmetry; /* NULL: rows are shown as they are */
    int64_t max_steps;                     /* of an episode; 0: unlimited */
};

struct team {
    struct team_args args;
    struct run_config read; /* owns what config points to */
    struct agent_config config;
    struct algorithm_settings settings; /* of config */
    struct space spaces[TEAM_MAX + 1];  /* [n]: of the ps */
    struct member members[TEAM_MAX + 1];
    size_t places[TEAM_MAX]; /* in the group that shares: 0, 1, ... */
    void *shared;            /* the group's memory, TEAM_SHARED_BYTES long */
    uint64_t slot, repeat;   /* of the stages that run next */
    struct algo_column columns[ALGO_MAX_COLUMNS]; /* added by the algorithm; zeros */
    size_t n_columns;
    struct store_layout layout;
    int log_fd;
    struct store_view *store;
    struct symmetry *symmetry;
};

/* Three agents as in simple_spread: observations of 18, five moves. */
struct team_args team_spread(const char *config, uint64_t n_rows);

/* Ends the program when anything fails. Members point into the team, so it must not
 * move. */
struct team *team_new(const struct team_args *args);
void team_free(struct team *t);

/* Overwrites a column (numbers or a mask) of one row. */
void team_write(struct team *t, uint64_t row, size_t agent, const char *column,
                const float *values);
/* Whether the agent is not there after the row: it is absent in it, or terminated with it. */
int team_is_gone(const struct team *t, uint64_t row, size_t agent);

/* The same for a joint column of one number. */
void team_write_joint(struct team *t, uint64_t row, const char *column, float value);

void team_write_mask(struct team *t, uint64_t row, size_t agent, const char *column,
                     const uint8_t *values);

/* Determines the columns that a member reads which is not one of the team's; after its
 * build. */
void team_find_reads(const struct team *t, struct member *m);
/* Runs a stage of a member. As in a process of its own, it sees only the columns that it
 * declared. */
int team_run_stage(struct team *t, struct member *m, const struct stage_args *args,
                   struct stage_result *ret, struct err *err);

/* Runs every stage of the algorithm for all members, and their ps; the step is the
 * update's number. rows [groups * batch]; weights or NULL. */
void team_update(struct team *t, uint64_t update, const uint64_t *rows, int64_t groups,
                 int64_t batch, const float *weights);
/* Runs one stage of one member. */
int team_stage(struct team *t, size_t member, const char *stage, uint64_t update,
               const uint64_t *rows, int64_t groups, int64_t batch, const float *weights,
               struct stage_result *ret, struct err *err);
/* (seed, name, "stage <name>") */
struct rng_key team_stage_key(const struct team *t, size_t member, const char *stage);

double team_scalar(const struct member *m, const char *name); /* of the newest learn */
/* The value of `<agent>/<name>`, in the block. */
struct tensor team_variable(struct team *t, size_t member, const char *name);

#endif
