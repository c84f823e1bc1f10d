/* kit.h - what an algorithm that learns from rows of the log is made of.
 *
 * Its file builds networks and losses, declares what they are fed (matrix.h), which steps its
 * optimisers make (struct step), and in which functions (struct stage_of, struct update), and
 * writes these functions, in the order of its paper. The kit does the rest: it finds the
 * stages, reads the live settings, gathers the rows, shows them under their symmetries, runs
 * the session, reports, and makes each step alone, through the ps of a group that shares
 * parameters, or by trials (accept_reject).
 *
 *     static void critic(struct algo *a, struct batch *b)
 *     {
 *         batch_feed(b, a->target.input, a->next);
 *         batch_fetch(b, a->target.q, a->next_q);
 *         batch_run(b);
 *         batch_targets(b, a->next_q);
 *         ...
 *         batch_step(b, CRITIC, 1);
 *     }
 *
 * Errors   the first one counts: from then on a batch has no rows, every call on it does
 *          nothing, and the stage fails with it.
 * Sharing  an update is one step, or several that are made in one run. Alone, the agent runs
 *          each in the stage that it names. In a group that shares parameters (share.h) the
 *          updates become gradients > apply > assign, played once for each.
 * Shapes   B rows of the batch, G groups of them; E copies.
 */
#ifndef AGENT_ALGO_KIT_H
#define AGENT_ALGO_KIT_H

#include "agent/algo/algo.h"
#include "agent/algo/feeds.h"
#include "agent/algo/matrix.h"
#include "agent/algo/parts.h"
#include "agent/algo/reward_scale.h"
#include "agent/algo/share.h"
#include "agent/nn/accept_reject.h"

struct batch;

enum {
    KIT_MAX_LIVES = 12,
    KIT_MAX_STEPS = SHARE_MAX_PARTS, /* in one run */
    KIT_MAX_STAGES = 10,
    KIT_MAX_READS = 4
};

/* ---- what an algorithm declares ---- */

/* A step of an optimiser: down a loss, by the variables of a scope. */
struct step {
    const char *scope; /* within the agent's: "q_func" */
    const struct optimizer_config *optimizer;
    struct live *rate;
    enum clip_by clip_by;
    const char *norm_name; /* that the gradient's norm is reported by; NULL: it is not */
    const char *rate_name; /* that the learning rate is reported by; NULL: it is not */
    struct output loss;    /* none in a ps */
    /* Set by kit_add_step and kit_share_steps. */
    char *path;         /* of the scope: owned */
    struct output norm; /* of the gradients before clipping, where steps are made */
    struct operation *train;
    struct accept_reject *trials; /* from the first update on */
};

/* A stage that is listed as it is. */
struct stage_of {
    const char *name;
    void (*run)(struct algo *a, struct batch *b);
    int of_all_groups; /* 1: it sees the rows of all groups, (G B); 0: the agent's own */
    enum stage_runner runner;
    int writes;
    const char *reads[KIT_MAX_READS];
    int without_rows;
    /* The stages from so many places before it to this one are played kit.repeats times; 0:
     * this one is played once. */
    int repeats_from;
    /* Whether these settings need the stage; NULL: it is always played. */
    int (*is_needed)(const struct algorithm_settings *settings);
};

/* One run of the session that makes `n` steps from the values before it, where the kit lists the
 * stages: alone, and in a group that shares parameters. */
struct update {
    const char *stage; /* where nothing is shared */
    const char *reads[KIT_MAX_READS];
    /* Ends with batch_step. */
    void (*run)(struct algo *a, struct batch *b);
    size_t first,
        n; /* of the steps, in the order of kit_add_step; n 0: to the last one */
    int scales_rewards;
    /* With the new values: moves targets. NULL: nothing follows. */
    void (*after)(struct algo *a, struct batch *b);
    /* Whether that update of the run makes this step; NULL: every one. */
    int (*is_due)(const struct algo *a, uint64_t update);
};

struct kit_plan {
    const struct stage_of *stages; /* [n_stages], played before the updates */
    size_t n_stages;
    const struct update *updates; /* [n_updates] */
    size_t n_updates;
    enum rows_kind rows; /* transitions: single rows */
    int one_batch; /* 1: all learn from the same rows, since they need each other's numbers */
};

/* The first member of every struct algo that is built with the kit. In the central process `self`
 * is NULL, and `index` is n_agents. */
struct kit {
    struct graph *graph;
    const struct agent_config *config;
    const struct algorithm_settings *settings;
    const struct space *agents, *self;
    const char *scope; /* of all its variables: the agent's name, or "central" */
    size_t n_agents, index;
    struct share *share; /* NULL: nothing is shared */
    const struct kit_plan *plan;

    struct live live[KIT_MAX_LIVES];
    size_t n_lives;
    /* NULL where the process does not need them. */
    struct live *clip_norm, *discount, *polyak;
    struct step *step; /* [n_steps] */
    size_t n_steps;
    struct operation *init_variables, *init_targets, *update_targets;

    struct matrices matrices;
    /* Of the own agent: (B, 1) each; what batch_targets and batch_weigh compute. */
    struct matrix *reward, *terminated, *alive, *weight, *target;
    struct reward_scale *scale;   /* of the own rewards; NULL: it does not learn */
    struct reward_scale **scales; /* [n_scales] of kit_add_scale */
    size_t n_scales;
    float divisor; /* how much the newest batch's means count among others (share.h) */
    /* Rows of episodes in the order of time, and their places among the request's. */
    uint64_t *order;
    uint32_t *order_place;
    size_t order_room;

    int64_t repeats;
    struct stage stages[KIT_MAX_STAGES];
    const struct stage_of *row_of[KIT_MAX_STAGES]; /* NULL: it is one of the updates' */
    size_t n_played;                               /* of `stages` */
    size_t played_in[KIT_MAX_STEPS]; /* of each update: its stage, where it is alone */
    struct err failure;              /* of building; code 0: none */
    struct feeds feeds;
};

/* Sets what comes from args, and the stages. plan: static. repeats: of stages that repeat. */
void kit_init(struct kit *k, const struct algo_args *args, const struct kit_plan *plan,
              int64_t repeats);
void kit_done(struct kit *k);
static inline int kit_learns(const struct kit *k)
{
    return share_learns(k->share);
}
static inline int kit_makes_steps(const struct kit *k)
{
    return share_makes_steps(k->share);
}

/* ---- while the graph is built ---- */

/* A place for a live setting (live.h). */
struct live *kit_add_live(struct kit *k, struct live live);
/* clip_norm; polyak: with what they are fed into. */
void kit_add_clip_norm(struct kit *k);
void kit_add_polyak(struct kit *k);
/* Both, k->discount, and the learning rates of policy and critic, which steps bind: each where the
 * process needs it. */
void kit_add_usual_lives(struct kit *k, struct live **ret_actor,
                         struct live **ret_critic);
/* Makes the critic's rate in the place of an empty one, to which a step has been bound already. */
void kit_make_critic_rate(struct kit *k, struct live *rate);
/* 1 - polyak, "keep". */
struct output kit_keep(struct kit *k);
/* (B, width) floats. */
struct output kit_placeholder(struct kit *k, int64_t width, const char *name);
/* Leaves the agent's scope and enters it again, as openai/maddpg does between critic and policy:
 * the optimiser's variables then have the names that it gives them. */
void kit_reopen_scope(struct kit *k);
/* A local variable in the current scope, 0 at first: what one stage hands to a later one. */
struct variable *kit_add_local(struct kit *k, const char *name, enum dtype dtype,
                               struct shape shape);
/* Returns its place. Alone, it is built at once, if the optimiser uses gradients; else
 * kit_share_steps builds all of them. Clipped by k->clip_norm. */
size_t kit_add_step(struct kit *k, struct step step);
/* The steps of a critic and of a policy, with the names that they are reported by. */
struct step kit_critic_step(const struct kit *k, const char *scope, struct live *rate,
                            struct output loss);
struct step kit_actor_step(const struct kit *k, const char *scope, struct live *rate,
                           struct output loss);
/* For a group that shares parameters: gradients of the losses, or in a ps the optimisers. */
void kit_share_steps(struct kit *k);
/* How the rewards of n agents are scaled, as the setting reward_scale says. */
struct reward_scale *kit_add_scale(struct kit *k, const size_t *agents, size_t n);
/* Where it learns: sets k->scale. The rewards of all who share its parameters count. */
void kit_scale_rewards(struct kit *k);
/* Makes k->update_targets and k->init_targets; keep: 1 - polyak. */
void kit_follow(struct kit *k, const struct following *f, size_t n, struct output keep,
                const char *update, const char *copy);
/* Ends the building: the first error of the calls above, or the graph's. */
int kit_finish(struct kit *k, struct err *err);

/* ---- members of algo_ops ---- */

const struct stage *kit_stages(const struct algo *a, size_t *ret_n);
void kit_reads(struct algo *a, struct reads *r);
const struct live *kit_lives(const struct algo *a, size_t *ret_n);
int kit_init_values(struct algo *a, struct session *s, struct rng_key key,
                    struct err *err);
int kit_stage(struct algo *a, struct session *s, const struct stage_args *args,
              struct stage_result *ret, struct err *err);
#define KIT_OPS(NAME, ABOUT, VARIANT, BUILD, DONE, ACT)                                  \
    .name = (NAME), .about = &(ABOUT), .variant = (VARIANT),                             \
    .size = sizeof(struct algo), .build = (BUILD), .done = (DONE), .stages = kit_stages, \
    .reads = kit_reads, .lives = kit_lives, .init = kit_init_values, .act = (ACT),       \
    .stage = kit_stage

/* ---- a batch: the rows of a request, or the copies of one to act ---- */

struct batch {
    struct kit *kit;
    struct session *session;
    const struct stage_args *args; /* NULL: it acts */
    struct stage_result *ret;
    const uint64_t *rows; /* (n) of the log */
    const float *weights; /* (n), of importance; NULL: all 1 */
    int64_t n, group;
    const uint32_t *place;     /* (n) of selected rows among the request's; NULL: all */
    int64_t sequences;         /* B, of episodes or chunks, n = B L; 0: single rows */
    int in_time;               /* batch_in_time, batch_select_sequences */
    struct symmetry *symmetry; /* that rows are shown under; NULL: as stored */
    uint64_t draw;             /* the counter of its draw */
    uint64_t first;            /* number of the group's first row, or sequence, in that */
    struct fetches fetched;
    struct err *err;
    int rc;
};

struct batch batch_to_act(struct kit *k, struct session *s, const struct act_args *args,
                          struct err *err);
/* The batch fails with rc, unless it has failed already: its n is 0, and what is called with it
 * later does nothing. The caller has set *b->err. */
void batch_fail(struct batch *b, int rc);
/* The values of a variable in the block; NULL: the batch has failed. */
void *batch_variable(struct batch *b, const struct variable *v);

/* Goes on with some of the request's rows: place [n], borrowed, NULL: with all;
 * ROW_NOT_REQUESTED: no row is there. rows: room for n, borrowed. turned: shown under symmetries
 * that are drawn with `draw`; else as they are stored. */
void batch_select(struct batch *b, const uint32_t *place, uint64_t *rows, int64_t n,
                  int turned, uint64_t draw);

/* batch_select with rows of `sequences` sequences in the order of time: row t sequences + r is
 * step t of sequence r. Each is shown under one symmetry. */
void batch_select_sequences(struct batch *b, const uint32_t *place, uint64_t *rows,
                            int64_t n, int64_t sequences, uint64_t draw);
/* Shows sequence r as it is stored, before any of its numbers that could be turned is taken. */
void batch_leave_sequence(struct batch *b, int64_t r);

/* Goes on with the rows of the B episodes in the order of time, n = (L + 1) B: row t B + b is
 * step t of episode b, or none if that has fewer steps. In the step after an episode's last one a
 * network sees what followed it. weights: still one for each episode. */
void batch_in_time(struct batch *b);

/* The numbers (n, width) of a matrix; NULL: the batch has failed, n is 0. */
float *batch_take(struct batch *b, struct matrix *m);
/* Room for them, for its owner to fill. */
float *batch_room(struct batch *b, struct matrix *m);

/* Fills a matrix of masks with those of a request to act. */
void batch_put_masks(struct batch *b, struct matrix *m, const uint8_t *allowed);

/* The masks (n, U) that a matrix of them was made of, as the log has them; NULL: there is no such
 * matrix. After batch_take. */
const uint8_t *batch_masks(const struct batch *b, const struct matrix *m);

/* What the next run is fed, and what it fetches. The last of these makes the run, which
 * forgets them. */
void batch_feed(struct batch *b, struct output x, struct matrix *m);
void batch_feed_part(struct batch *b, struct output x, struct matrix *m, int64_t first,
                     int64_t width);
/* The first `rows` rows of a matrix, which nothing else may take of these rows. */
void batch_feed_first(struct batch *b, struct output x, struct matrix *m, int64_t rows);
void batch_feed_data(struct batch *b, struct output x, const float *data, int64_t width);
/* The observations to act on, with the id after each; room: (n, observation and id). */
void batch_feed_acting(struct batch *b, struct output x, const struct agent_id *id,
                       const struct act_args *args, struct matrix *room);
void batch_feed_live(struct batch *b, const struct live *l);
void batch_fetch(struct batch *b, struct output x, struct matrix *m);
void batch_fetch_data(struct batch *b, struct output x, float *data, int64_t width);
void batch_scalar(struct batch *b, const char *name, struct output x);
void batch_run(struct batch *b);
/* The steps first .. first + n - 1, in one run: what was fetched is from before them, and is
 * reported, as their norms and rates are. */
void batch_step(struct batch *b, size_t first, size_t n);
/* batch_step that reports nothing: what was fetched stays in b->fetched for the caller,
 * until batch_forget. batch_report_rates then reports the steps' learning rates. */
void batch_step_quietly(struct batch *b, size_t first, size_t n);
void batch_forget(struct batch *b);
void batch_report_rates(struct batch *b, size_t first, size_t n);
/* Reports a number that no run fetched. */
void batch_show(struct batch *b, const char *name, double value);
/* Members of a group: take over the values of these steps. */
void batch_assign(struct batch *b, size_t first, size_t n);
/* Moves the targets by polyak, or makes them equal after each target_every-th update. */
void batch_move_targets(struct batch *b);
/* batch_move_targets as an update's `after`. */
void kit_move_targets(struct algo *a, struct batch *b);

/* Fills a matrix with numbers that are drawn with the stage's key, derived by the label. */
void batch_draw_normal(struct batch *b, struct matrix *m, const char *label);
void batch_draw_uniform(struct batch *b, struct matrix *m, const char *label);
/* Sets actions, proposed for the rows' next observations, to 0 where the agent is not there
 * any more, as the log does with its actions: others' critics are trained with these. */
void batch_leave_out_absent(struct batch *b, struct matrix *actions);
/* A matrix as the output (G, B L, width) of a stage that sees all groups. */
void batch_output(struct batch *b, const char *name, struct matrix *m);
/* An agent's, or "central"'s, output of an earlier stage, of so many elements, borrowed until the
 * next one is looked up; NULL: the batch has failed. */
const void *batch_input(struct batch *b, const char *agent, const char *name,
                        enum dtype dtype, int64_t elements);

/* Scales the batch's rewards, (n). */
void batch_scale(struct batch *b, struct reward_scale *scale, float *reward);
/* k->target = reward + discount (1 - terminated) next; the reward is scaled as the setting
 * reward_scale says. Reports its mean and deviation. */
void batch_targets(struct batch *b, struct matrix *next);
/* k->weight: alive times the importance of the row ... */
enum weighing {
    WEIGH_ROWS,   /* ... as it is: a loss is the mean over all rows */
    WEIGH_MEAN,   /* ... divided by its mean over the rows */
    WEIGH_SHARES, /* ... divided by its sum: a loss is a sum */
};
void batch_weigh(struct batch *b, enum weighing by);
/* Reports the scalar td_error, and if the rows were drawn by importance, their priorities:
 * |error|, of rows with a weight. */
void batch_report_errors(struct batch *b, struct matrix *error);

#endif
