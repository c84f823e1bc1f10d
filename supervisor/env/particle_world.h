/* particle_world.h - the physics of all particle scenarios, and the helpers to write
 * them.
 *
 * Source   Lowe et al. 2017; OpenAI's multiagent-particle-envs and its successor MPE2,
 *          whose results are reproduced bit for bit. The two differ in the order of
 *          integration (mpe2: position first, with the old velocity; openai: velocity
 *          first), in the signs of moves and in some rewards: `rules` chooses one.
 * Shapes   E copies. State is a structure of arrays with the copies innermost, so that
 *          loops over copies vectorise (particle_loops.h): row (entity, axis) of pos is E
 *          doubles. Entities are the agents, then the landmarks, each in the order added.
 * Units    dt = 0.1; all state, forces, observations and rewards float64.
 * Moves    only agents move. Velocity and communication are 0 after a reset.
 * A scenario is a few functions (struct particle_scenario) that use the helpers below.
 * Internal to supervisor/env; tests set states through the rows.
 */
#ifndef SUPERVISOR_ENV_PARTICLE_WORLD_H
#define SUPERVISOR_ENV_PARTICLE_WORLD_H

#include "supervisor/env/env_class.h"
#include "supervisor/env/particle_loops.h"
#include "supervisor/env/pcg64.h"
#include "supervisor/env/scene.h"

struct particle_entity {
    double size;          /* radius */
    int collide;          /* takes part in contacts */
    enum scene_kind look; /* SCENE_UNSAID: the default of an agent or a landmark */
    /* agents only */
    int movable, silent;
    double mass;       /* 0: 1.0 */
    double accel;      /* force of a full move; 0: 5.0 */
    double max_speed;  /* 0: no limit */
    int32_t obs_width; /* rows that the scenario's `observe` appends */
};

struct particle_world {
    const struct particle_scenario *scenario;
    const struct particle_entities *entities_shown; /* NULL: `observe` shows the world */
    const struct particle_loops *loops;
    enum env_rules rules;
    enum env_actions actions;
    size_t n_copies; /* E */
    size_t n_agents, n_landmarks;
    /* set by `build` */
    size_t n_goals;   /* integers drawn at reset */
    size_t dim_c;     /* words an agent can say */
    size_t n_aside;   /* scratch rows for the scenario */
    size_t n_own;     /* rows of state that only the scenario knows */
    size_t own_limit; /* own rows are whole numbers below it; 0: any numbers */

    const void *params;               /* the scenario's parameters */
    struct particle_entity *entities; /* (n_agents + n_landmarks) */
    struct env_agent *agents;         /* (n_agents) */
    struct particle_pair *pairs;      /* those that can push each other, in order */
    size_t n_pairs;
    double *touch_squares; /* (n_agents, entities): see particle_touch_square */

    double *state; /* pos, vel, comm, goal, own: one block */
    size_t n_state;
    double *pos;  /* (entities, 2, E) */
    double *vel;  /* (agents, 2, E) */
    double *comm; /* (agents, dim_c, E) */
    double *goal; /* (n_goals, E): whole numbers below n_landmarks */
    double *own;  /* (n_own, E) */
    /* (E): the next draws of each episode, part of the state; NULL: the scenario draws only
     * at reset */
    struct particle_draws *draws;

    double *force;              /* (entities, 2, E); ignored for immovable entities */
    double *action_rows;        /* (PARTICLE_MOVES + dim_c, E) */
    double *scratch;            /* (PARTICLE_SCRATCH, E): any helper may overwrite it */
    double *aside;              /* (n_aside, E): valid within one survey or reward */
    double *zeros, *ones;       /* (E) */
    uint64_t *seen;             /* (n_agents, E): masks for particle_obs_hide */
    struct particle_row *shown; /* (largest obs_width): the observation being built */
    double *rows;               /* (largest obs_width, E): rows computed for it */
    struct particle_places *places; /* see particle_places.c; NULL: no places */
    struct arena *arena;
};

enum { PARTICLE_SCRATCH = 6 };

/* The place of an episode's next draw, which is keyed; with a reference_seed, the state
 * of the reference's generator. */
struct particle_draws { /* has no padding: it is saved as it is */
    struct pcg64 reference;
    struct rng_key key;
    uint64_t episode, index;
    uint64_t by_reference; /* 1 or 0 */
};
_Static_assert(sizeof(struct particle_draws) == sizeof(struct pcg64) + 32, "padding");

/* The first member of every scenario's parameters. */
struct particle_params {
    int64_t reference_seed; /* -1: none */
};
#define PARTICLE_PARAMS(type)                                                            \
    {                                                                                    \
        "reference_seed", FIELD_I64, SCHEMA_AT(type, common.reference_seed),             \
            SCHEMA_WITHIN(-1, 1e15),                                                     \
            .default_text = "-1",                                                        \
            .doc = "-1: none; else episode k is the reference's reset(seed + k)"         \
    }

/* An observation under construction, for copies first .. first+n-1. */
struct particle_obs {
    size_t first, n, width;
    struct particle_row *rows; /* (width), each beginning at copy `first` */
    double *made;              /* (width, n): memory for computed rows */
};

/* A group of symmetries under construction. */
struct particle_symmetry {
    const struct particle_world *world;
    struct arena *arena;
    struct symmetry_group *group;
    size_t square;  /* factor: flips of x and y, and their exchange */
    uint32_t agent; /* whose rows are being described */
    uint32_t width; /* rows described so far */
};
typedef void (*particle_symmetry_fn)(const struct particle_world *w,
                                     struct particle_symmetry *y);

/* How a goal that is drawn at reset appears in a picture. */
struct particle_goal {
    const char *name;
    int32_t agent; /* the agent that has to reach it; -1: no particular one */
};

/* What a scenario shows with env.observe: entities (particle_entities.c). An agent's own part is
 * its velocity and position. Its entities are the other agents, then the landmarks; the numbers
 * of each: its kind (one-hot), its position relative to the agent and, if the velocity of any
 * kind is shown, its velocity, or 0; then 1. */
struct particle_entities {
    size_t n_kinds;
    size_t (*kind)(const struct particle_world *w, size_t entity); /* below n_kinds */
    unsigned moving; /* bit k: the velocity of kind k is shown */
};

struct particle_scenario {
    int mpe2_only;                     /* openai's rules do not have it */
    const struct particle_goal *goals; /* [n_goals] */
    const char *goals_are;             /* for a picture's legend; NULL: "goal" */
    /* Sets dim_c and n_goals, adds agents and landmarks. params: see env_class.h. */
    void (*build)(struct particle_world *w, const void *params);
    /* Draws goals and positions of one copy; the rest of its state is 0 already. NULL: the
     * goals in order, then the positions of all entities, anywhere in the arena. */
    void (*reset)(struct particle_world *w, size_t copy, struct particle_draws *d);
    /* What happens between the physics and the rewards, in all copies, with draws from
     * w->draws. NULL: nothing, and w->draws is NULL. */
    void (*after_physics)(struct particle_world *w);
    /* Computes what all agents' observations of copies o->first .. first+n-1 share, into
     * aside; appends no rows. May be NULL. */
    void (*survey)(const struct particle_world *w, const struct particle_obs *o);
    /* Appends the rows of agent `self`'s observation, in order. */
    void (*observe)(const struct particle_world *w, size_t self, struct particle_obs *o);
    /* Describes every agent's rows, in order, and which of the things in them are alike. NULL:
     * it has no symmetries. */
    particle_symmetry_fn symmetry;
    const struct particle_entities *entities; /* NULL: it shows none */
    /* Rewards of all agents: ret[a] (E), of the state after the step. */
    void (*reward)(const struct particle_world *w, double *const *ret);
    /* ret (E) = 1 where the task is complete for all agents, else 0. NULL: never. */
    void (*succeed)(const struct particle_world *w, uint8_t *ret);
    /* What it can measure, up to a NULL name, and number `metric` of it: ret (E), of the state
     * after the step. Both NULL: nothing. */
    const struct env_metric *metrics;
    void (*measure)(const struct particle_world *w, size_t metric, double *ret);
    /* Where the agents of one copy have to be, one in each place: ret (n_agents, 2). Pictures
     * show the places as goals. NULL: there are no such places. */
    void (*places)(const struct particle_world *w, size_t copy, double *ret);
    /* Changes what a picture shows of an entity; returns 0 to leave it out. NULL: nothing to
     * change. */
    int (*draw)(const struct particle_world *w, size_t copy, size_t entity,
                struct scene *scene, struct scene_thing *thing);
};

extern const struct particle_scenario particle_collect_treasure, particle_simple,
    particle_simple_adversary, particle_simple_crypto, particle_simple_formation,
    particle_simple_line, particle_simple_push, particle_simple_reference,
    particle_simple_speaker_listener, particle_simple_spread, particle_simple_tag,
    particle_simple_world_comm;
extern const struct schema collect_treasure_params, particle_params,
    particle_places_params, simple_adversary_params, simple_reference_params,
    simple_spread_params, simple_tag_params, simple_world_comm_params;

static inline size_t particle_n_entities(const struct particle_world *w)
{
    return w->n_agents + w->n_landmarks;
}

/* Rows of E doubles. */
static inline double *particle_pos(const struct particle_world *w, size_t entity,
                                   size_t axis)
{
    return w->pos + (entity * 2 + axis) * w->n_copies;
}
static inline double *particle_vel(const struct particle_world *w, size_t agent,
                                   size_t axis)
{
    return w->vel + (agent * 2 + axis) * w->n_copies;
}
static inline double *particle_force(const struct particle_world *w, size_t entity,
                                     size_t axis)
{
    return w->force + (entity * 2 + axis) * w->n_copies;
}
static inline double *particle_comm(const struct particle_world *w, size_t agent,
                                    size_t i)
{
    return w->comm + (agent * w->dim_c + i) * w->n_copies;
}
static inline double *particle_goal(const struct particle_world *w, size_t i)
{
    return w->goal + i * w->n_copies;
}
static inline double *particle_scratch(const struct particle_world *w, size_t i)
{
    return w->scratch + i * w->n_copies;
}
static inline double *particle_own(const struct particle_world *w, size_t i)
{
    return w->own + i * w->n_copies;
}
static inline uint64_t *particle_seen(const struct particle_world *w, size_t agent)
{
    return w->seen + agent * w->n_copies;
}
static inline double *particle_aside(const struct particle_world *w, size_t i)
{
    return w->aside + i * w->n_copies;
}

/* For `build`: adds n agents "<team>_0", ... or n landmarks with the properties of `like`
 * (for landmarks, size, collide and look). */
void particle_add_agents(struct particle_world *w, const char *team, size_t n,
                         const struct particle_entity *like);
void particle_add_landmarks(struct particle_world *w, size_t n,
                            const struct particle_entity *like);

/* For `reset` and `after_physics`: makes the next draws. A goal is uniform over the landmarks.
 * Positions of n entities from `entity` on: x and y are each uniform in [-half, half). below:
 * a whole number below n. between: a number in [low, high). */
double particle_draw_below(struct particle_draws *d, size_t n);
double particle_draw_between(struct particle_draws *d, double low, double high);
void particle_draw_goal(struct particle_world *w, struct particle_draws *d, size_t copy,
                        size_t i);
void particle_draw_positions(struct particle_world *w, struct particle_draws *d,
                             size_t copy, size_t entity, size_t n, double half);

/* For `observe`: each function appends rows. row: the caller's o->n doubles, which must
 * not change until the observation is complete. next: returns a row to fill. rel: the
 * position of `entity` minus that of `self`. */
void particle_obs_row(const struct particle_world *w, struct particle_obs *o,
                      const double *row);
double *particle_obs_next(const struct particle_world *w, struct particle_obs *o);
void particle_obs_pos(const struct particle_world *w, struct particle_obs *o,
                      size_t agent);
void particle_obs_vel(const struct particle_world *w, struct particle_obs *o,
                      size_t agent);
void particle_obs_comm(const struct particle_world *w, struct particle_obs *o,
                       size_t agent);
void particle_obs_rel(const struct particle_world *w, struct particle_obs *o, size_t self,
                      size_t entity);
/* Relative positions of goal i's landmark; of all landmarks; of all other agents. */
void particle_obs_rel_goal(const struct particle_world *w, struct particle_obs *o,
                           size_t self, size_t i);
void particle_obs_rel_landmarks(const struct particle_world *w, struct particle_obs *o,
                                size_t self);
void particle_obs_rel_others(const struct particle_world *w, struct particle_obs *o,
                             size_t self);
/* n rows: colour (n); or the colour of goal i's landmark, from colours (n_landmarks,
 * n). */
void particle_obs_colour(const struct particle_world *w, struct particle_obs *o,
                         const double *colour, size_t n);
void particle_obs_goal_colour(const struct particle_world *w, struct particle_obs *o,
                              size_t i, const double *colours, size_t n);
/* Makes the last two rows 0 where mask (o->n) is 0; elsewhere mask must be all ones. */
void particle_obs_hide(struct particle_obs *o, const uint64_t *mask);

/* For `symmetry` (particle_symmetry.c). orders: declares n things alike; returns the
 * value of `alike` for them. agent: begins an agent's rows. points: n pairs of
 * coordinates, which the square's symmetries transform, one pair for each thing. numbers:
 * `width` rows for each of n things, which the square's symmetries leave unchanged.
 * PARTICLE_UNLIKE: no things alike. */
#define PARTICLE_UNLIKE SIZE_MAX
size_t particle_symmetry_orders(struct particle_symmetry *y, size_t n);
void particle_symmetry_agent(struct particle_symmetry *y, size_t agent);
void particle_symmetry_points(struct particle_symmetry *y, size_t n, size_t alike);
void particle_symmetry_numbers(struct particle_symmetry *y, size_t n, size_t width,
                               size_t alike);
/* The symmetries of a world, as `describe` has them; all in the arena. */
void particle_world_symmetry(const struct particle_world *w,
                             particle_symmetry_fn describe, struct arena *arena,
                             struct symmetry_group *ret);

/* For `reward`: distances (E) of two entities, or of an entity and goal i's landmark
 * (which uses the last two scratch rows); dist2: squared. touch: 1 where agent a collides
 * with b, that is, where their distance is below the sum of their sizes; else 0. */
void particle_dist2(const struct particle_world *w, size_t a, size_t b, double *ret);
void particle_goal_dist(const struct particle_world *w, size_t entity, size_t i,
                        double *ret);
void particle_goal_dist2(const struct particle_world *w, size_t entity, size_t i,
                         double *ret);
void particle_touch(const struct particle_world *w, size_t a, size_t b, double *ret);
/* For `measure`: how many pairs of agents touch, of those that collide (uses the first
 * scratch row). */
#define PARTICLE_COLLISIONS                                                              \
    {                                                                                    \
        "collisions", "pairs of agents that touch each other", 0                         \
    }
void particle_count_collisions(const struct particle_world *w, double *ret);
/* Counts collisions of agents below first_good with others: hunters and their prey. */
void particle_count_tags(const struct particle_world *w, size_t first_good, double *ret);
/* The distance from an entity, or from goal i's landmark (uses the last two scratch
 * rows), to the nearest of `count` entities from `first` on. */
void particle_nearest(const struct particle_world *w, size_t entity, size_t first,
                      size_t count, double *ret);
void particle_goal_nearest(const struct particle_world *w, size_t i, size_t first,
                           size_t count, double *ret);
static inline double particle_reach(const struct particle_world *w, size_t a, size_t b)
{
    return w->entities[a].size + w->entities[b].size;
}

/* The limit for comparing squares: the rounded distance of agent a and entity b is below
 * their reach if and only if the squared distance is below this. */
static inline double particle_touch_square(const struct particle_world *w, size_t a,
                                           size_t b)
{
    return w->touch_squares[a * particle_n_entities(w) + b];
}

/* For env.observe: entities, instead of a scenario's obs_width, `observe` and `symmetry`. No order
 * of entities is declared alike: what networks compute does not depend on it. */
void particle_entities_describe(const struct particle_world *w);
void particle_entities_observe(const struct particle_world *w, size_t self,
                               struct particle_obs *o);
void particle_entities_symmetry(const struct particle_world *w,
                                struct particle_symmetry *y);

/* Shares a team's rewards. mix: ret = team (1 - ratio) + ret ratio. sum: every agent gets
 * the sum over all agents, in their order; uses the last scratch row. */
void particle_reward_mix(const struct particle_world *w, double *const *ret,
                         const double *team, double ratio);
void particle_reward_sum(const struct particle_world *w, double *const *ret);
/* Charges an agent that leaves the arena: ret -= factor bound(|x|), then the same with y.
 * bound is 0 below 0.9, then rises to 1 at 1.0, then as exp(2 x - 2) up to 10. */
void particle_charge_bounds(const struct particle_world *w, size_t agent, double factor,
                            double *ret);

/* For scenarios with places (particle_places.c). Observation: velocity, position, landmarks.
 * The reward of all is minus the mean of the agents' distances from their places, each at
 * most 2; places are assigned so that the sum of the distances is least.
 * terminate_on_success: over when all are nearer than 0.05. */
struct particle_places_params {
    struct particle_params common;
    int64_t agents;
    int terminate_on_success;
};
#define PARTICLE_WITH_PLACES                                                             \
    .mpe2_only = 1, .observe = particle_observe_for_places,                              \
    .reward = particle_reward_places, .succeed = particle_succeed_in_places,             \
    .metrics = particle_metrics_of_places, .measure = particle_measure_places
extern const struct env_metric particle_metrics_of_places[];
void particle_measure_places(const struct particle_world *w, size_t metric, double *ret);
/* For `build`: adds the agents of these params, and landmarks. Sizes are radii. */
void particle_add_for_places(struct particle_world *w,
                             const struct particle_places_params *p, double agent_size,
                             size_t n_landmarks, double landmark_size);
void particle_observe_for_places(const struct particle_world *w, size_t self,
                                 struct particle_obs *o);
void particle_reward_places(const struct particle_world *w, double *const *ret);
/* Uses what particle_reward_places has computed in the same step. */
void particle_succeed_in_places(const struct particle_world *w, uint8_t *ret);
void particle_places_draw(const struct particle_world *w, size_t copy, struct scene *ret);
struct particle_places *particle_places_new(size_t n_agents, size_t n_copies,
                                            struct arena *arena);

/* Rows of E doubles: ret = x; ret = factor ret; ret += factor x, of `count` rows in turn;
 * ret = a - b. */
static inline void particle_row_fill(const struct particle_world *w, double *ret,
                                     double x)
{
    w->loops->fill(w->n_copies, ret, x);
}
static inline void particle_row_scale(const struct particle_world *w, double *ret,
                                      double factor)
{
    w->loops->scale(w->n_copies, ret, factor);
}
static inline void particle_row_add(const struct particle_world *w, double *ret,
                                    double factor, const double *x, size_t count)
{
    w->loops->add(w->n_copies, ret, factor, x, count);
}
static inline void particle_row_sub(const struct particle_world *w, double *ret,
                                    const double *a, const double *b)
{
    w->loops->sub(w->n_copies, ret, a, b);
}

/* A world with `copies` copies, all zero until reset. Everything is in the arena, also
 * params. */
struct particle_world *particle_world_new(const struct particle_scenario *scenario,
                                          const struct env_config *config,
                                          const void *params, size_t copies,
                                          struct arena *arena);
/* Sets an agent's action for the next step. rows (U, E), as its action space defines
 * them. The speech of a silent agent is ignored. */
void particle_world_act(struct particle_world *w, size_t agent, const double *rows);
/* Makes one step of the physics with these actions. An agent without a new action since
 * the last step only drifts. */
void particle_world_advance(struct particle_world *w);
/* Adds one copy to an empty scene (particle_draw.c). */
void particle_world_draw(const struct particle_world *w, size_t copy, struct scene *ret);
/* An agent's observations of copies first .. first+n-1, before the cast to float32:
 * ret (obs_width, n). */
void particle_world_show(struct particle_world *w, size_t agent, size_t first, size_t n,
                         double *ret);

#endif
