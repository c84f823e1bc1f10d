#include "supervisor/env/particle_world.h"

#include "common/err/check.h"

#include <math.h>
#include <string.h>

struct common_params {
    struct particle_params common;
};

static const struct field common_fields[] = {PARTICLE_PARAMS(struct common_params)};
const struct schema particle_params = {SCHEMA_TABLE(common_fields),
                                       sizeof(struct common_params)};

static struct particle_world *build_world(const struct particle_scenario *scenario,
                                          const struct env_config *config,
                                          const void *params, size_t copies,
                                          struct arena *arena)
{
    struct particle_world *w = ARENA_NEW(arena, struct particle_world);

    *w = (struct particle_world){.scenario = scenario,
                                 .loops = particle_loops_best(),
                                 .rules = config->rules,
                                 .actions = config->actions,
                                 .n_copies = copies,
                                 .params = params,
                                 .arena = arena};
    scenario->build(w, params);
    if (config->observe == ENV_OBSERVE_ENTITIES && scenario->entities != NULL) {
        w->entities_shown = scenario->entities;
        particle_entities_describe(w);
    }
    return w;
}

/* The smallest x whose rounded square root is not below `reach`. The root is monotonic,
 * so that a few steps from reach^2 suffice. */
static double least_square(double reach)
{
    double x = reach * reach;

    while (sqrt(x) < reach)
        x = nextafter(x, (double)INFINITY);
    while (x > 0.0 && sqrt(nextafter(x, 0.0)) >= reach)
        x = nextafter(x, 0.0);
    return x;
}

/* Allocates n doubles, aligned for vectors of the widest instruction set. */
static double *vectors(struct particle_world *w, size_t n)
{
    enum { ALIGN = 64 };
    uintptr_t at = (uintptr_t)arena_alloc(w->arena, n * sizeof(double) + ALIGN);

    return (double *)((at + ALIGN - 1) & ~(uintptr_t)(ALIGN - 1));
}

static void allocate_state(struct particle_world *w)
{
    const size_t n = w->n_copies, n_pos = particle_n_entities(w) * 2 * n;
    const size_t n_vel = w->n_agents * 2 * n, n_comm = w->n_agents * w->dim_c * n;

    w->n_state = n_pos + n_vel + n_comm + (w->n_goals + w->n_own) * n;
    w->state = vectors(w, w->n_state);
    w->pos = w->state;
    w->vel = w->pos + n_pos;
    w->comm = w->vel + n_vel;
    w->goal = w->comm + n_comm;
    w->own = w->goal + w->n_goals * n;
    if (w->scenario->after_physics != NULL)
        w->draws = ARENA_ARRAY(w->arena, struct particle_draws, n);
    w->force = vectors(w, n_pos);
}

static void allocate_rows(struct particle_world *w)
{
    const size_t n = w->n_copies;
    size_t widest = 0;

    for (size_t a = 0; a < w->n_agents; a++) {
        if ((size_t)w->agents[a].obs_width > widest)
            widest = (size_t)w->agents[a].obs_width;
    }
    w->action_rows = vectors(w, (PARTICLE_MOVES + w->dim_c) * n);
    w->scratch = vectors(w, PARTICLE_SCRATCH * n);
    w->aside = vectors(w, w->n_aside * n);
    w->zeros = vectors(w, n);
    w->ones = vectors(w, n);
    particle_row_fill(w, w->ones, 1.0);
    w->seen = (uint64_t *)vectors(w, w->n_agents * n);
    w->shown = ARENA_ARRAY(w->arena, struct particle_row, widest);
    w->rows = vectors(w, widest * n);
}

struct particle_world *particle_world_new(const struct particle_scenario *scenario,
                                          const struct env_config *config,
                                          const void *params, size_t copies,
                                          struct arena *arena)
{
    struct particle_world *w = build_world(scenario, config, params, copies, arena);
    const size_t n = particle_n_entities(w);

    allocate_state(w);
    allocate_rows(w);
    if (scenario->places != NULL)
        w->places = particle_places_new(w->n_agents, copies, arena);
    w->pairs = ARENA_ARRAY(w->arena, struct particle_pair, w->n_agents * n);
    for (size_t a = 0; a < w->n_agents; a++) { /* forces add up in this order */
        for (size_t b = a + 1; b < n; b++) {
            const struct particle_entity *ea = &w->entities[a], *eb = &w->entities[b];

            if (ea->collide && eb->collide && (ea->movable || eb->movable))
                w->pairs[w->n_pairs++] =
                    (struct particle_pair){a, b, particle_reach(w, a, b), eb->movable};
        }
    }
    w->touch_squares = ARENA_ARRAY(w->arena, double, w->n_agents *n);
    for (size_t a = 0; a < w->n_agents; a++) {
        for (size_t b = 0; b < n; b++)
            w->touch_squares[a * n + b] = least_square(particle_reach(w, a, b));
    }
    return w;
}

/* Physics */

void particle_world_advance(struct particle_world *w)
{
    const int drift_first = w->rules == ENV_RULES_MPE2;

    w->loops->push(w->n_copies, w->pairs, w->n_pairs, w->pos, w->force);
    for (size_t a = 0; a < w->n_agents; a++) {
        const struct particle_entity *e = &w->entities[a];

        if (e->mass != 0.0)
            w->loops->divide(2 * w->n_copies, particle_force(w, a, 0), e->mass);
        if (e->movable)
            w->loops->integrate(w->n_copies, drift_first, e->max_speed,
                                particle_force(w, a, 0), particle_pos(w, a, 0),
                                particle_vel(w, a, 0));
    }
    memset(w->force, 0, particle_n_entities(w) * 2 * w->n_copies * sizeof(*w->force));
    if (w->scenario->after_physics != NULL)
        w->scenario->after_physics(w);
}

static struct particle_obs survey(struct particle_world *w, size_t first, size_t n)
{
    struct particle_obs o = {.first = first, .n = n, .rows = w->shown, .made = w->rows};

    if (w->scenario->survey != NULL)
        w->scenario->survey(w, &o);
    return o;
}

/* Builds the observation rows of one agent; returns their number. Call survey before. */
static size_t put_together(struct particle_world *w, size_t agent, struct particle_obs o)
{
    if (w->entities_shown != NULL)
        particle_entities_observe(w, agent, &o);
    else
        w->scenario->observe(w, agent, &o);
    CHECK(o.width == (size_t)w->agents[agent].obs_width, "agent %zu: %zu rows", agent,
          o.width);
    return o.width;
}

void particle_world_show(struct particle_world *w, size_t agent, size_t first, size_t n,
                         double *ret)
{
    size_t width = put_together(w, agent, survey(w, first, n));

    for (size_t i = 0; i < width; i++)
        w->loops->show(n, &w->shown[i], ret + i * n);
}

/* The registry's operations */

static int particle_describe(const struct env_class *class,
                             const struct env_config *config, const void *params,
                             struct arena *arena, struct env_spec *ret, struct err *err)
{
    const struct particle_scenario *scenario = class->scenario;
    struct particle_world *w = build_world(scenario, config, params, 0, arena);

    if (scenario->mpe2_only && config->rules != ENV_RULES_MPE2)
        return err_set_at(err, ERR_UNSUPPORTED, ERR_AT(.key = "env.rules"),
                          "%s is a world of MPE2 alone: only mpe2 has rules for it",
                          class->info.id);
    if (w->n_agents > ENV_MAX_AGENTS)
        return err_set_at(err, ERR_CONFIG, ERR_AT(.key = "env.params"),
                          "%zu agents, expected at most %d", w->n_agents, ENV_MAX_AGENTS);
    ret->n_agents = w->n_agents;
    ret->agents = w->agents;
    return 0;
}

static void particle_symmetry(const struct env_class *class,
                              const struct env_config *config, const void *params,
                              struct arena *arena, struct symmetry_group *ret)
{
    const struct particle_scenario *s = class->scenario;
    const struct particle_world *w = build_world(s, config, params, 0, arena);

    if (s->symmetry != NULL)
        particle_world_symmetry(
            w, w->entities_shown != NULL ? particle_entities_symmetry : s->symmetry,
            arena, ret);
}

static void *particle_open(const struct env_class *class, const struct env_config *config,
                           const void *params, size_t copies, struct arena *arena)
{
    return particle_world_new(class->scenario, config, params, copies, arena);
}

static void particle_reset(void *world, size_t copy, const struct env_episode *e)
{
    struct particle_world *w = world;
    const struct particle_params *p = w->params;
    struct particle_draws d = {.key = e->key, .episode = e->episode};

    if (p->reference_seed >= 0) {
        d.by_reference = 1;
        pcg64_init(&d.reference, (uint64_t)p->reference_seed + e->number);
    }
    for (size_t i = copy; i < w->n_state; i += w->n_copies)
        w->state[i] = 0.0;
    if (w->scenario->reset != NULL) {
        w->scenario->reset(w, copy, &d);
    } else {
        for (size_t i = 0; i < w->n_goals; i++)
            particle_draw_goal(w, &d, copy, i);
        particle_draw_positions(w, &d, copy, 0, particle_n_entities(w), 1.0);
    }
    if (w->draws != NULL)
        w->draws[copy] = d;
}

static void particle_step(void *world, const float *const *actions, double *const *reward,
                          uint8_t *const *terminated)
{
    struct particle_world *w = world;

    for (size_t a = 0; a < w->n_agents; a++) {
        w->loops->widen(w->n_copies, (size_t)w->agents[a].space.width, actions[a],
                        w->action_rows);
        particle_world_act(w, a, w->action_rows);
    }
    particle_world_advance(w);
    w->scenario->reward(w, reward);
    if (w->scenario->succeed == NULL)
        return;
    w->scenario->succeed(w, terminated[0]);
    for (size_t a = 1; a < w->n_agents; a++)
        memcpy(terminated[a], terminated[0], w->n_copies);
}

static const struct env_metric *particle_metrics(const struct env_class *class)
{
    return ((const struct particle_scenario *)class->scenario)->metrics;
}

static void particle_measure(void *world, size_t metric, double *ret)
{
    const struct particle_world *w = world;

    w->scenario->measure(w, metric, ret);
}

static void particle_observe(void *world, size_t first, size_t n, float *const *obs)
{
    struct particle_world *w = world;
    const struct particle_obs o = survey(w, first, n);

    for (size_t a = 0; a < w->n_agents; a++) {
        size_t width = put_together(w, a, o);

        w->loops->cast(n, width, w->shown, obs[a] + first * width);
    }
}

static size_t draws_bytes(const struct particle_world *w)
{
    return w->draws != NULL ? w->n_copies * sizeof(w->draws[0]) : 0;
}

static size_t particle_state_bytes(const void *world)
{
    const struct particle_world *w = world;

    return w->n_state * sizeof(w->state[0]) + draws_bytes(w);
}

static void particle_save(const void *world, void *dst)
{
    const struct particle_world *w = world;
    const size_t n = w->n_state * sizeof(w->state[0]);

    memcpy(dst, w->state, n);
    if (w->draws != NULL)
        memcpy((char *)dst + n, w->draws, draws_bytes(w));
}

/* Whether n doubles at p, which may be anywhere, are whole numbers below the limit. */
static int are_below(const char *p, size_t n, size_t limit)
{
    for (size_t i = 0; i < n; i++) {
        double x;

        memcpy(&x, p + i * sizeof(x), sizeof(x));
        if (!(x >= 0.0 && x < (double)limit && x == floor(x)))
            return 0;
    }
    return 1;
}

static int are_draws(const char *p, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        struct particle_draws d;

        memcpy(&d, p + i * sizeof(d), sizeof(d));
        if (d.reference.has_half > 1 || d.reference.half > UINT32_MAX ||
            d.by_reference > 1)
            return 0;
    }
    return 1;
}

static int particle_load(void *world, const void *src, struct err *err)
{
    struct particle_world *w = world;
    const size_t n = w->n_state * sizeof(double), n_copies = w->n_copies;
    const char *own = (const char *)src + n - w->n_own * n_copies * sizeof(double);
    const char *goals = own - w->n_goals * n_copies * sizeof(double);

    if (!are_below(goals, w->n_goals * n_copies, w->n_landmarks))
        return err_set(err, ERR_CORRUPT, "a goal: there is no landmark of that number");
    if (w->own_limit != 0 && !are_below(own, w->n_own * n_copies, w->own_limit))
        return err_set(err, ERR_CORRUPT, "a number of the world's own is impossible");
    if (w->draws != NULL && !are_draws((const char *)src + n, n_copies))
        return err_set(err, ERR_CORRUPT, "a random generator is in an impossible state");
    memcpy(w->state, src, n);
    if (w->draws != NULL)
        memcpy(w->draws, (const char *)src + n, draws_bytes(w));
    return 0;
}

static void particle_draw(const void *world, size_t copy, struct scene *ret)
{
    particle_world_draw(world, copy, ret);
}

const struct env_ops particle_ops = {
    .describe = particle_describe,
    .open = particle_open,
    .reset = particle_reset,
    .step = particle_step,
    .limit_first = 1,
    .metrics = particle_metrics,
    .measure = particle_measure,
    .observe = particle_observe,
    .state_bytes = particle_state_bytes,
    .save = particle_save,
    .load = particle_load,
    .symmetry = particle_symmetry,
    .draw = particle_draw,
};
