/* algo.h - the interface of an algorithm: functions that build its graph, act and run its
 * stages, and the list of the stages as data.
 *
 * An algorithm is one file, which also describes it (struct algo_about), and one row of the
 * registry. It is created on `configure`,
 * builds its part of the graph, and then answers `act` and its stages by running the
 * session. All that lives longer than a request is in variables; only stages that are
 * declared as writing may change them.
 *
 * Shapes   E copies, B rows, L consecutive steps, O_i observation and U_i action width of
 *          agent i, N agents.
 */
#ifndef AGENT_ALGO_ALGO_H
#define AGENT_ALGO_ALGO_H

#include "agent/algo/live.h"
#include "agent/algo/settings.h"
#include "agent/algo/symmetry.h"
#include "agent/session/session.h"
#include "common/config/algorithms.h"
#include "common/msg/obs_msg.h"
#include "common/msg/protocol.h"
#include "common/store/store_view.h"

enum stage_runner { STAGE_LEARNERS, STAGE_CENTRAL, STAGE_PS, STAGE_TURNS };

#define STAGE_MAX_READS 8

struct stage {
    const char *name;
    enum stage_runner runner;
    /* Outputs of earlier stages of the same update that it reads: "propose/action" the
     * output of every agent, "own:values/q" only its own. In a stage played in turns,
     * "prev:turn/factor" of the stage itself is the output of the agent whose turn was
     * before: input(INPUT_PREVIOUS, "factor"). */
    const char *reads[STAGE_MAX_READS]; /* NULL-terminated unless full */
    int writes;
    /* If repeat is more than 1, the stages from repeat_from to this one are repeated
     * together. */
    int repeat_from; /* index of the first of them; its own index: this stage alone */
    int repeat;      /* times; 0 or 1: once */
};

struct space { /* of one agent */
    char name[AGENT_NAME_MAX];
    char team[AGENT_NAME_MAX];
    int64_t obs;   /* O */
    int64_t stack; /* observations in it, the newest last (env.stack); 0: 1 */
    int obs_is_u8; /* in messages and in the log; algorithms get them as floats, 0 to 255 */
    struct image_part
        image; /* of each observation of the stack; if it is all: of the stack */
    /* If the observation ends with entities, how many, and the numbers of each, the last of
     * which is 1 if the entity is there and 0 if not; else 0. */
    int64_t entities[2];
    int64_t width; /* U */
    int box;      /* 0: discrete; 1 also of a hybrid action (choices.h): it has numbers */
    int particle; /* a particle world's box: heads have a meaning */
    int masked;   /* not every choice is always possible: the log has masks (layout.h) */
    int symmetric; /* its settings ask for the environment's symmetry (symmetry.h) */
    int other;     /* it is in another group of learners, or does not learn */
    int n_heads;
    int32_t heads[8];
    double low, high;
};

struct share; /* share.h */
struct reads; /* reads.h */

struct algo_args {
    const struct algo_ops *ops; /* the algorithm's own */
    struct graph *graph;
    const struct agent_config *config;
    const struct algorithm_settings *settings;
    const struct space *agents; /* all, in the environment's order */
    size_t n_agents;
    size_t self; /* index of this agent; n_agents for the central process, and for a ps
                  * process, for which agents[n_agents] has its name and the spaces of the
                  * first member */
    int central;
    /* The group that shares parameters with this agent; NULL: none. The algorithm calls
     * share_build for it, or refuses. Owned by the caller. */
    struct share *share;
    const char *env; /* env.id */
    enum env_rules rules;
    int64_t max_steps;   /* of an episode; 0: unlimited, or unknown */
    int64_t window_rows; /* E T, of an algorithm that learns from windows; 0: not known */
    int64_t copies;      /* E, in training; 0: not known */
    /* An imported policy: a MetaGraphDef, and the prefix of a checkpoint with its
     * first values, both good until `init` is over. NULL: none. */
    const void *metagraph;
    size_t metagraph_bytes;
    const char *prefix;
};

/* The rows that the stages of an algorithm get. */
struct algo_rows {
    enum rows_kind kind;
    int64_t length; /* L; episodes: 0: the longest possible; window: not used */
};

/* A column of floats that the agent adds to every row of the log. */
struct algo_column {
    const char *name; /* of letters, digits, _ and - */
    int64_t elements; /* X */
};
#define ALGO_MAX_COLUMNS 8

struct algo; /* each algorithm defines its own */

struct act_args {
    enum act_mode mode;
    /* Joint step of copy 0. In training copy e is at step + e, in evaluations all are at
     * `step` (act_step). */
    uint64_t step;
    size_t n_copies;        /* E */
    const float *obs;       /* (E, O) */
    const uint8_t *allowed; /* (E, U): entries that may be chosen; NULL: all */
    const uint8_t *first;   /* (E) or NULL */
    const float *carry;     /* (E, H) or NULL */
    /* For the draws: their key (seed, name, act | evaluate), and for each copy the
     * counter and the index of the first of U draws. */
    struct rng_key key;
    const uint64_t *counter;    /* (E) */
    const uint64_t *draw_first; /* (E) */
};
/* The step of copy e, for schedules. */
static inline uint64_t act_step(const struct act_args *args, size_t e)
{
    return args->mode == ACT_EXPLORE ? args->step + e : args->step;
}

struct act_result {
    float *actions; /* (E, U): written by the algorithm */
    float *carry;   /* (E, H) */
    /* (E, X) of each column, in the order in which the algorithm declares them; also
     * written by the algorithm. NULL: do not write it, as in evaluations. */
    float *columns[ALGO_MAX_COLUMNS];
};

#define SLOT_NONE UINT64_MAX
struct stage_args {
    const struct stage *stage;
    uint64_t step, update, repeat;
    uint64_t slot; /* of a shared step (share.h); SLOT_NONE: nothing is shared */
    int64_t groups, batch, length; /* G, B, L */
    const uint64_t *rows;          /* (G, B, L); ROW_NONE: no row is there */
    const float *weights;          /* (G, B) or NULL: all 1 */
    struct store_view *store;
    struct rng_key key;         /* "stage <name>" of this agent */
    struct rng_key permutation; /* of this agent, the same in all its stages */
    uint64_t counter;           /* update * repeats + repeat */
    struct symmetry *symmetry;  /* NULL: rows are used as stored (symmetry.h) */
    /* Looks up an input "agent/name": valid until the next look-up; NULL if it was not
     * sent. */
    const struct tensor *(*input)(void *ctx, const char *agent, const char *name);
    void *input_ctx;
};

#define STAGE_MAX_OUTPUTS 8
#define STAGE_MAX_SCALARS 32
struct stage_result { /* tensors are borrowed from the algorithm until its next call */
    int n_outputs;
    struct {
        const char *name;
        struct tensor value;
    } output[STAGE_MAX_OUTPUTS];
    int n_scalars;
    struct {
        const char *name;
        double value;
    } scalar[STAGE_MAX_SCALARS];
    struct tensor priorities; /* (G, B) f32, for the next draws; data NULL: none */
};

/* What an algorithm says about itself. Its name is that of its algo_ops. */
struct algo_about {
    struct algorithm_info
        info; /* but for name and settings, which described.c fills in */
    const char *const *settings; /* keys of settings.h; NULL-terminated */
};

struct algo_ops {
    const char *name;
    const struct algo_about *about; /* NULL: it is no row of the registry */
    int variant; /* tells algorithms that share their functions apart; their file's enum */
    size_t size; /* of its struct algo */
    /* Builds the graph; a is all-zero. Errors of building come from graph_error. */
    int (*build)(struct algo *a, const struct algo_args *args, struct err *err);
    void (*done)(struct algo *a); /* frees what it owns, also after an error of build */
    /* stages, act, stage: all NULL if only clients run the graph (`run` on the control
     * socket, env.id: none): it has no stages and no policy. */
    const struct stage *(*stages)(const struct algo *a, size_t *ret_n);
    int64_t (*carry_width)(const struct algo *a); /* H; NULL: 0 */
    /* NULL: transitions of single steps. */
    void (*rows)(const struct algo *a, struct algo_rows *ret);
    /* Fills up to ALGO_MAX_COLUMNS and returns their number. NULL: it adds none. */
    size_t (*columns)(const struct algo *a, struct algo_column *ret);
    /* Declares the columns of the log that its stages read (reads.h). Not called for a
     * ps, which reads none. NULL: none. */
    void (*reads)(struct algo *a, struct reads *r);
    /* The settings that are fed into a client's run of the graph, unless the client feeds
     * them itself (live.h); those without a constant are left out. NULL: none. */
    const struct live *(*lives)(const struct algo *a, size_t *ret_n);
    /* Sets every variable to its initial value (targets: to copies). key: (seed, name,
     * "init"). */
    int (*init)(struct algo *a, struct session *s, struct rng_key key, struct err *err);
    int (*act)(struct algo *a, struct session *s, const struct act_args *args,
               struct act_result *ret, struct err *err);
    int (*stage)(struct algo *a, struct session *s, const struct stage_args *args,
                 struct stage_result *ret, struct err *err);
};

/* Builds args->ops' algorithm; the caller frees it with algo_free (NULL is fine). */
int algo_new(struct algo **ret, const struct algo_args *args, struct err *err);
void algo_free(const struct algo_ops *ops, struct algo *a);
const struct algo_ops *algo_at(size_t i);           /* NULL past the end */
const struct algo_ops *algo_find(const char *name); /* NULL if unknown */

/* Clips x (rows, U), or the numbers of hybrid actions, to the bounds of a box, as 32-bit numbers.
 * What is no number stays so: the supervisor reports it. */
void clip_to_box(float *x, size_t rows, const struct space *space);

/* For `init`: runs the operations in order, all with this key. NULL ones are skipped. */
int algo_run_each(struct session *s, struct operation *const *ops, size_t n,
                  struct rng_key key, struct err *err);

#endif
