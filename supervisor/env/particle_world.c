#include "supervisor/env/particle_world.h"

#include "common/err/check.h"

#include <math.h>
#include <string.h>

enum { MOVES = 5, MAX_DRAW = 64 };

static const double DT = 0.1;
static const double KEEP = 0.75; /* 1 - damping */
static const double CONTACT_FORCE = 100.0;
static const double CONTACT_MARGIN = 0.001;
static const double SENSITIVITY = 5.0;

/* Force of each discrete move; row 0: mpe2, row 1: openai, whose axes point the other
 * way. */
static const double move_x[2][MOVES] = {{0, -1, 1, 0, 0}, {0, 1, -1, 0, 0}};
static const double move_y[2][MOVES] = {{0, 0, 0, -1, 1}, {0, 0, 0, 1, -1}};

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
    size_t have = w->n_agents + w->n_landmarks;

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
        s.heads[s.n_heads++] = MOVES;
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
                                          const struct env_config *config, size_t copies,
                                          struct arena *arena, struct err *err)
{
    struct particle_world *w = ARENA_NEW(arena, struct particle_world);

    *w = (struct particle_world){.scenario = scenario,
                                 .rules = config->rules,
                                 .actions = config->actions,
                                 .n_copies = copies,
                                 .arena = arena};
    if (scenario->build(w, config, err) < 0)
        return NULL;
    CHECK(w->dim_c <= PARTICLE_MAX_SPEECH, "dim_c %zu", w->dim_c);
    return w;
}

/* Pairs in entity order, first against later: the order in which forces add up. */
static void list_pairs(struct particle_world *w)
{
    size_t n = w->n_agents + w->n_landmarks;

    w->pairs = ARENA_ARRAY(w->arena, struct particle_pair, w->n_agents * n);
    for (size_t a = 0; a < w->n_agents; a++) {
        for (size_t b = a + 1; b < n; b++) {
            const struct particle_entity *ea = &w->entities[a], *eb = &w->entities[b];

            if (ea->collide && eb->collide && (ea->movable || eb->movable))
                w->pairs[w->n_pairs++] = (struct particle_pair){a, b};
        }
    }
}

int particle_world_new(struct particle_world **ret,
                       const struct particle_scenario *scenario,
                       const struct env_config *config, size_t copies,
                       struct arena *arena, struct err *err)
{
    struct particle_world *w = build_world(scenario, config, copies, arena, err);
    size_t n_pos, n_vel, n_comm, widest = 0;

    if (w == NULL)
        return ERR_CONFIG;
    n_pos = (w->n_agents + w->n_landmarks) * 2 * copies;
    n_vel = w->n_agents * 2 * copies;
    n_comm = w->n_agents * w->dim_c * copies;
    w->n_state = n_pos + n_vel + n_comm + w->n_goals * copies;
    w->state = ARENA_ARRAY(arena, double, w->n_state);
    w->pos = w->state;
    w->vel = w->pos + n_pos;
    w->comm = w->vel + n_vel;
    w->goal = w->comm + n_comm;
    w->force = ARENA_ARRAY(arena, double, n_vel);
    w->scratch = ARENA_ARRAY(arena, double, PARTICLE_SCRATCH *copies);
    for (size_t a = 0; a < w->n_agents; a++) {
        if ((size_t)w->agents[a].obs_width > widest)
            widest = (size_t)w->agents[a].obs_width;
    }
    w->rows = ARENA_ARRAY(arena, double, widest *copies);
    list_pairs(w);
    *ret = w;
    return 0;
}

/* Actions */

static size_t argmax(const double *x, size_t n)
{
    size_t best = 0;

    for (size_t i = 1; i < n; i++)
        best = x[i] > x[best] ? i : best;
    return best;
}

static double clip01(double x)
{
    return x < 0.0 ? 0.0 : x > 1.0 ? 1.0 : x;
}

/* The direction of a box action. mpe2 subtracts in the float32 that actions arrive in. */
static void box_direction(enum env_rules rules, const double *a, double *x, double *y)
{
    if (rules == ENV_RULES_OPENAI) {
        *x = a[1] - a[2];
        *y = a[3] - a[4];
    } else {
        *x = (double)(float)(clip01(a[2]) - clip01(a[1]));
        *y = (double)(float)(clip01(a[4]) - clip01(a[3]));
    }
}

static void act_move(struct particle_world *w, size_t agent, size_t copy,
                     const double *action)
{
    const struct particle_entity *e = &w->entities[agent];
    double *f = w->force + agent * 2 * w->n_copies + copy;
    double sensitivity = e->accel != 0.0 ? e->accel : SENSITIVITY;
    double x, y;

    if (w->actions == ENV_ACTIONS_DISCRETE) {
        size_t move = argmax(action, MOVES);

        x = move_x[w->rules == ENV_RULES_OPENAI][move];
        y = move_y[w->rules == ENV_RULES_OPENAI][move];
    } else {
        box_direction(w->rules, action, &x, &y);
    }
    f[0] = x * sensitivity + 0.0;
    f[w->n_copies] = y * sensitivity + 0.0;
}

static void act_say(struct particle_world *w, size_t agent, size_t copy,
                    const double *action)
{
    size_t said = w->actions == ENV_ACTIONS_DISCRETE ? argmax(action, w->dim_c) : 0;
    int clipped = w->rules == ENV_RULES_MPE2;

    for (size_t i = 0; i < w->dim_c; i++) {
        double *c = particle_comm(w, agent, i) + copy;

        if (w->actions == ENV_ACTIONS_DISCRETE)
            *c = i == said ? 1.0 : 0.0;
        else
            *c = clipped ? clip01(action[i]) : action[i];
    }
}

void particle_world_act(struct particle_world *w, size_t agent, size_t copy,
                        const double *action)
{
    const struct particle_entity *e = &w->entities[agent];

    if (e->movable)
        act_move(w, agent, copy, action);
    if (!e->silent)
        act_say(w, agent, copy, action + (e->movable ? MOVES : 0));
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

PARTICLE_SIMD static void add_force(size_t n, double *restrict force,
                                    const double *restrict f, const double *restrict pen,
                                    double sign)
{
    for (size_t c = 0; c < n; c++)
        force[c] += sign * (f[c] * pen[c]);
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
    if (w->entities[a].movable) {
        add_force(n, w->force + a * 2 * n, fx, pen, 1.0);
        add_force(n, w->force + (a * 2 + 1) * n, fy, pen, 1.0);
    }
    if (w->entities[b].movable) {
        add_force(n, w->force + b * 2 * n, fx, pen, -1.0);
        add_force(n, w->force + (b * 2 + 1) * n, fy, pen, -1.0);
    }
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
    accelerate(2 * n, vel, w->force + agent * 2 * n);
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
}

/* Draws */

void particle_draw_goal(struct particle_world *w, struct particle_draws *d, size_t copy,
                        size_t i)
{
    double u;

    rng_uniform_f64(d->key, d->episode, d->index++, &u, 1);
    particle_goal(w, i)[copy] = floor(u * (double)w->n_landmarks);
}

void particle_draw_positions(struct particle_world *w, struct particle_draws *d,
                             size_t copy, size_t entity, size_t n, double half)
{
    double u[MAX_DRAW];
    double *pos = particle_pos(w, entity, 0) + copy;

    for (size_t left = 2 * n; left != 0;) {
        size_t take = left < MAX_DRAW ? left : MAX_DRAW;

        rng_uniform_f64(d->key, d->episode, d->index, u, take);
        for (size_t i = 0; i < take; i++, pos += w->n_copies)
            *pos = -half + (half - -half) * u[i];
        d->index += take;
        left -= take;
    }
}

/* Observations and rewards */

PARTICLE_SIMD static void subtract(size_t n, double *restrict ret,
                                   const double *restrict a, const double *restrict b)
{
    for (size_t i = 0; i < n; i++)
        ret[i] = a[i] - b[i];
}

double *particle_obs_next(struct particle_obs *o)
{
    return o->rows + o->width++ * o->n;
}

static void append_row(struct particle_obs *o, const double *row)
{
    memcpy(particle_obs_next(o), row + o->first, o->n * sizeof(*row));
}

void particle_obs_pos(const struct particle_world *w, struct particle_obs *o,
                      size_t agent)
{
    append_row(o, particle_pos(w, agent, 0));
    append_row(o, particle_pos(w, agent, 1));
}

void particle_obs_vel(const struct particle_world *w, struct particle_obs *o,
                      size_t agent)
{
    append_row(o, particle_vel(w, agent, 0));
    append_row(o, particle_vel(w, agent, 1));
}

void particle_obs_comm(const struct particle_world *w, struct particle_obs *o,
                       size_t agent)
{
    for (size_t i = 0; i < w->dim_c; i++)
        append_row(o, particle_comm(w, agent, i));
}

void particle_obs_rel(const struct particle_world *w, struct particle_obs *o, size_t self,
                      size_t entity)
{
    for (size_t axis = 0; axis < 2; axis++)
        subtract(o->n, particle_obs_next(o), particle_pos(w, entity, axis) + o->first,
                 particle_pos(w, self, axis) + o->first);
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

PARTICLE_SIMD static void distances(size_t n, const double *restrict ax,
                                    const double *restrict ay, const double *restrict bx,
                                    const double *restrict by, double *restrict ret)
{
    for (size_t c = 0; c < n; c++) {
        double dx = ax[c] - bx[c], dy = ay[c] - by[c];

        ret[c] = sqrt(dx * dx + dy * dy);
    }
}

void particle_dist(const struct particle_world *w, size_t a, size_t b, double *ret)
{
    distances(w->n_copies, particle_pos(w, a, 0), particle_pos(w, a, 1),
              particle_pos(w, b, 0), particle_pos(w, b, 1), ret);
}

PARTICLE_SIMD void particle_row_fill(size_t n, double *ret, double x)
{
    for (size_t c = 0; c < n; c++)
        ret[c] = x;
}

PARTICLE_SIMD void particle_row_add(size_t n, double *restrict ret, double factor,
                                    const double *restrict x)
{
    for (size_t c = 0; c < n; c++)
        ret[c] += factor * x[c];
}

PARTICLE_SIMD void particle_row_min(size_t n, double *restrict ret,
                                    const double *restrict x)
{
    for (size_t c = 0; c < n; c++)
        ret[c] = x[c] < ret[c] ? x[c] : ret[c];
}

PARTICLE_SIMD static void mix_row(size_t n, double *restrict ret,
                                  const double *restrict team, double ratio)
{
    for (size_t c = 0; c < n; c++)
        ret[c] = team[c] * (1.0 - ratio) + ret[c] * ratio;
}

void particle_reward_mix(const struct particle_world *w, double *const *ret,
                         const double *team, double ratio)
{
    for (size_t a = 0; a < w->n_agents; a++)
        mix_row(w->n_copies, ret[a], team, ratio);
}

void particle_reward_sum(const struct particle_world *w, double *const *ret)
{
    double *sum = particle_scratch(w, PARTICLE_SCRATCH - 1);

    particle_row_fill(w->n_copies, sum, 0.0);
    for (size_t a = 0; a < w->n_agents; a++)
        particle_row_add(w->n_copies, sum, 1.0, ret[a]);
    for (size_t a = 0; a < w->n_agents; a++)
        memcpy(ret[a], sum, w->n_copies * sizeof(*sum));
}

/* The registry's operations */

static int particle_describe(const struct env_class *class,
                             const struct env_config *config, struct arena *arena,
                             struct env_spec *ret, struct err *err)
{
    struct particle_world *w = build_world(class->scenario, config, 0, arena, err);

    if (w == NULL)
        return ERR_CONFIG;
    ret->n_agents = w->n_agents;
    ret->agents = w->agents;
    return 0;
}

static void *particle_open(const struct env_class *class, const struct env_config *config,
                           size_t copies, struct arena *arena)
{
    struct particle_world *w;
    int rc = particle_world_new(&w, class->scenario, config, copies, arena, NULL);

    CHECK(rc == 0, "described, but not built");
    return w;
}

static void particle_reset(void *world, size_t copy, struct rng_key key, uint64_t episode)
{
    struct particle_world *w = world;
    struct particle_draws d = {.key = key, .episode = episode};

    for (size_t i = copy; i < w->n_state; i += w->n_copies)
        w->state[i] = 0.0;
    w->scenario->reset(w, copy, &d);
}

static void act_all(struct particle_world *w, size_t agent, const float *actions)
{
    double action[MOVES + PARTICLE_MAX_SPEECH];
    size_t width = (size_t)w->agents[agent].space.width;

    for (size_t c = 0; c < w->n_copies; c++, actions += width) {
        for (size_t i = 0; i < width; i++)
            action[i] = (double)actions[i];
        particle_world_act(w, agent, c, action);
    }
}

static void particle_step(void *world, const float *const *actions, double *const *reward,
                          uint8_t *const *terminated)
{
    struct particle_world *w = world;

    for (size_t a = 0; a < w->n_agents; a++)
        act_all(w, a, actions[a]);
    particle_world_advance(w);
    w->scenario->reward(w, reward);
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

const struct env_ops particle_ops = {
    .describe = particle_describe,
    .open = particle_open,
    .reset = particle_reset,
    .step = particle_step,
    .observe = particle_observe,
    .state_bytes = particle_state_bytes,
    .save = particle_save,
    .load = particle_load,
};
