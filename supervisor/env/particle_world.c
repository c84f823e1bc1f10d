#include "supervisor/env/particle_world.h"

#include "common/err/check.h"

#include <math.h>
#include <string.h>

static const double DT = 0.1;
static const double KEEP = 0.75; /* 1 - damping */
static const double CONTACT_FORCE = 100.0;
static const double CONTACT_MARGIN = 0.001;

struct common_params {
    struct particle_params common;
};

static const struct field common_fields[] = {PARTICLE_PARAMS(struct common_params)};
const struct schema particle_params = {SCHEMA_TABLE(common_fields),
                                       sizeof(struct common_params)};

/* Building */

static void *grow(struct arena *arena, const void *old, size_t n, size_t added,
                  size_t size)
{
    char *p = arena_alloc(arena, (n + added) * size);

    if (n != 0)
        memcpy(p, old, n * size);
    return p;
}

static void add_entities(struct particle_world *w, size_t n,
                         const struct particle_entity *like)
{
    size_t have = particle_n_entities(w);

    w->entities = grow(w->arena, w->entities, have, n, sizeof(*like));
    for (size_t i = 0; i < n; i++)
        w->entities[have + i] = *like;
}

static struct action_space agent_space(const struct particle_world *w,
                                       const struct particle_entity *e)
{
    struct action_space s = {.kind = SPACE_DISCRETE, .particle = 1};

    if (w->actions == ENV_ACTIONS_CONTINUOUS) {
        s.kind = SPACE_BOX;
        s.high = 1.0;
    }
    if (e->movable)
        s.heads[s.n_heads++] = PARTICLE_MOVES;
    if (!e->silent)
        s.heads[s.n_heads++] = (int32_t)w->dim_c;
    for (int h = 0; h < s.n_heads; h++)
        s.width += s.heads[h];
    return s;
}

void particle_add_agents(struct particle_world *w, const char *team, size_t n,
                         const struct particle_entity *like)
{
    CHECK(w->n_landmarks == 0, "agents come before landmarks");
    add_entities(w, n, like);
    w->agents = grow(w->arena, w->agents, w->n_agents, n, sizeof(w->agents[0]));
    for (size_t i = 0; i < n; i++) {
        struct env_agent *agent = &w->agents[w->n_agents + i];

        env_agent_set_name(agent, team, i);
        agent->obs_width = like->obs_width;
        agent->space = agent_space(w, like);
    }
    w->n_agents += n;
}

void particle_add_landmarks(struct particle_world *w, size_t n,
                            const struct particle_entity *like)
{
    add_entities(w, n, like);
    w->n_landmarks += n;
}

static struct particle_world *build_world(const struct particle_scenario *scenario,
                                          const struct env_config *config,
                                          const void *params, size_t copies,
                                          struct arena *arena)
{
    struct particle_world *w = ARENA_NEW(arena, struct particle_world);

    *w = (struct particle_world){.scenario = scenario,
                                 .rules = config->rules,
                                 .actions = config->actions,
                                 .n_copies = copies,
                                 .params = params,
                                 .arena = arena};
    scenario->build(w, params);
    return w;
}

/* Pairs in entity order, first against later: the order in which forces add up. */
static void list_pairs(struct particle_world *w)
{
    size_t n = particle_n_entities(w);

    w->pairs = ARENA_ARRAY(w->arena, struct particle_pair, w->n_agents * n);
    for (size_t a = 0; a < w->n_agents; a++) {
        for (size_t b = a + 1; b < n; b++) {
            const struct particle_entity *ea = &w->entities[a], *eb = &w->entities[b];

            if (ea->collide && eb->collide && (ea->movable || eb->movable))
                w->pairs[w->n_pairs++] = (struct particle_pair){a, b};
        }
    }
}

struct particle_world *particle_world_new(const struct particle_scenario *scenario,
                                          const struct env_config *config,
                                          const void *params, size_t copies,
                                          struct arena *arena)
{
    struct particle_world *w = build_world(scenario, config, params, copies, arena);
    size_t n_pos, n_vel, n_comm, widest = 0;

    n_pos = particle_n_entities(w) * 2 * copies;
    n_vel = w->n_agents * 2 * copies;
    n_comm = w->n_agents * w->dim_c * copies;
    w->n_state = n_pos + n_vel + n_comm + w->n_goals * copies;
    w->state = ARENA_ARRAY(arena, double, w->n_state);
    w->pos = w->state;
    w->vel = w->pos + n_pos;
    w->comm = w->vel + n_vel;
    w->goal = w->comm + n_comm;
    w->force = ARENA_ARRAY(arena, double, n_pos);
    w->action_rows = ARENA_ARRAY(arena, double, (PARTICLE_MOVES + w->dim_c) * copies);
    w->scratch = ARENA_ARRAY(arena, double, PARTICLE_SCRATCH *copies);
    for (size_t a = 0; a < w->n_agents; a++) {
        if ((size_t)w->agents[a].obs_width > widest)
            widest = (size_t)w->agents[a].obs_width;
    }
    w->rows = ARENA_ARRAY(arena, double, widest *copies);
    list_pairs(w);
    return w;
}

/* Physics */

/* f = 100 (a - b) / distance, and the gap between the two surfaces in contact margins. */
PARTICLE_SIMD static void
pair_geometry(size_t n, const double *restrict ax, const double *restrict ay,
              const double *restrict bx, const double *restrict by, double reach,
              double *restrict fx, double *restrict fy, double *restrict gap)
{
    for (size_t c = 0; c < n; c++) {
        double dx = ax[c] - bx[c], dy = ay[c] - by[c];
        double dist = sqrt(dx * dx + dy * dy);

        fx[c] = CONTACT_FORCE * dx / dist;
        fy[c] = CONTACT_FORCE * dy / dist;
        gap[c] = (dist - reach) / CONTACT_MARGIN;
    }
}

/* log(1 + exp(-gap)), in the steps and branches of numpy's logaddexp(0, -gap). Past 746
 * exp gives exactly 0, and so does the whole. */
static double penetration(double gap)
{
    if (gap > 746.0)
        return 0.0;
    if (gap == 0.0)
        return M_LN2;
    if (gap > 0.0)
        return log1p(exp(-gap));
    return -gap + log1p(exp(gap));
}

PARTICLE_SIMD static void push(size_t n, double *restrict force_a,
                               double *restrict force_b, const double *restrict f,
                               const double *restrict pen)
{
    for (size_t c = 0; c < n; c++) {
        double force = f[c] * pen[c];

        force_a[c] += force;
        force_b[c] -= force;
    }
}

static void push_pair(struct particle_world *w, size_t a, size_t b)
{
    size_t n = w->n_copies;
    double *fx = particle_scratch(w, 0), *fy = particle_scratch(w, 1);
    double *pen = particle_scratch(w, 2);

    pair_geometry(n, particle_pos(w, a, 0), particle_pos(w, a, 1), particle_pos(w, b, 0),
                  particle_pos(w, b, 1), particle_reach(w, a, b), fx, fy, pen);
    for (size_t c = 0; c < n; c++)
        pen[c] = penetration(pen[c]) * CONTACT_MARGIN;
    push(n, particle_force(w, a, 0), particle_force(w, b, 0), fx, pen);
    push(n, particle_force(w, a, 1), particle_force(w, b, 1), fy, pen);
}

PARTICLE_SIMD static void drift(size_t n, double *restrict pos,
                                const double *restrict vel)
{
    for (size_t i = 0; i < n; i++)
        pos[i] += vel[i] * DT;
}

PARTICLE_SIMD static void accelerate(size_t n, double *restrict vel,
                                     const double *restrict force)
{
    for (size_t i = 0; i < n; i++)
        vel[i] = vel[i] * KEEP + force[i] * DT;
}

PARTICLE_SIMD static void limit_speed(size_t n, double *restrict vx, double *restrict vy,
                                      double max)
{
    for (size_t c = 0; c < n; c++) {
        double speed = sqrt(vx[c] * vx[c] + vy[c] * vy[c]);

        vx[c] = speed > max ? vx[c] / speed * max : vx[c];
        vy[c] = speed > max ? vy[c] / speed * max : vy[c];
    }
}

static void integrate(struct particle_world *w, size_t agent)
{
    const struct particle_entity *e = &w->entities[agent];
    size_t n = w->n_copies;
    double *pos = particle_pos(w, agent, 0), *vel = particle_vel(w, agent, 0);

    if (w->rules == ENV_RULES_MPE2)
        drift(2 * n, pos, vel);
    accelerate(2 * n, vel, particle_force(w, agent, 0));
    if (e->max_speed != 0.0)
        limit_speed(n, vel, vel + n, e->max_speed);
    if (w->rules == ENV_RULES_OPENAI)
        drift(2 * n, pos, vel);
}

void particle_world_advance(struct particle_world *w)
{
    for (size_t p = 0; p < w->n_pairs; p++)
        push_pair(w, w->pairs[p].a, w->pairs[p].b);
    for (size_t a = 0; a < w->n_agents; a++) {
        if (w->entities[a].movable)
            integrate(w, a);
    }
    memset(w->force, 0, particle_n_entities(w) * 2 * w->n_copies * sizeof(*w->force));
}

const double *particle_world_observe(struct particle_world *w, size_t agent, size_t first,
                                     size_t n)
{
    struct particle_obs o = {.rows = w->rows, .first = first, .n = n};

    w->scenario->observe(w, agent, &o);
    CHECK(o.width == (size_t)w->agents[agent].obs_width, "agent %zu: %zu rows", agent,
          o.width);
    return o.rows;
}

/* The registry's operations */

static int particle_describe(const struct env_class *class,
                             const struct env_config *config, const void *params,
                             struct arena *arena, struct env_spec *ret, struct err *err)
{
    struct particle_world *w = build_world(class->scenario, config, params, 0, arena);

    if (w->n_agents > ENV_MAX_AGENTS)
        return err_set(err, ERR_CONFIG, "env.params: %zu agents, at most %d can be",
                       w->n_agents, ENV_MAX_AGENTS);
    ret->n_agents = w->n_agents;
    ret->agents = w->agents;
    return 0;
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
    w->scenario->reset(w, copy, &d);
}

/* actions (n, width) -> rows (width, n). */
static void widen_actions(size_t n, size_t width, const float *restrict actions,
                          double *restrict rows)
{
    for (size_t i = 0; i < width; i++) {
        for (size_t c = 0; c < n; c++)
            rows[i * n + c] = (double)actions[c * width + i];
    }
}

static void particle_step(void *world, const float *const *actions, double *const *reward,
                          uint8_t *const *terminated)
{
    struct particle_world *w = world;

    for (size_t a = 0; a < w->n_agents; a++) {
        widen_actions(w->n_copies, (size_t)w->agents[a].space.width, actions[a],
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

/* rows (width, n) -> dst (n, width). */
PARTICLE_SIMD static void cast_rows(size_t n, size_t width, const double *restrict rows,
                                    float *restrict dst)
{
    for (size_t j = 0; j < width; j++) {
        for (size_t c = 0; c < n; c++)
            dst[c * width + j] = (float)rows[j * n + c];
    }
}

static void particle_observe(void *world, size_t first, size_t n, float *const *obs)
{
    struct particle_world *w = world;

    for (size_t a = 0; a < w->n_agents; a++) {
        size_t width = (size_t)w->agents[a].obs_width;

        cast_rows(n, width, particle_world_observe(w, a, first, n),
                  obs[a] + first * width);
    }
}

static size_t particle_state_bytes(const void *world)
{
    const struct particle_world *w = world;

    return w->n_state * sizeof(w->state[0]);
}

static void particle_save(const void *world, void *dst)
{
    const struct particle_world *w = world;

    memcpy(dst, w->state, particle_state_bytes(w));
}

static int particle_load(void *world, const void *src, struct err *err)
{
    struct particle_world *w = world;
    size_t n_goals = w->n_goals * w->n_copies;
    const char *goals = (const char *)src + (w->n_state - n_goals) * sizeof(double);

    for (size_t i = 0; i < n_goals; i++) {
        double g;

        memcpy(&g, goals + i * sizeof(g), sizeof(g));
        if (!(g >= 0.0 && g < (double)w->n_landmarks && g == floor(g)))
            return err_set(err, ERR_CORRUPT, "goal %zu is no landmark's number", i);
    }
    memcpy(w->state, src, particle_state_bytes(w));
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
    .observe = particle_observe,
    .state_bytes = particle_state_bytes,
    .save = particle_save,
    .load = particle_load,
    .draw = particle_draw,
};
