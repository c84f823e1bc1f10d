#include "supervisor/env/assignment.h"
#include "supervisor/env/particle_world.h"

#include <math.h>
#include <string.h>

/* Scenarios with as many places as agents: each agent has to reach one. Distances are
 * roots of plain sums: MPE2's np.linalg.norm multiplies with the BLAS, which fuses on
 * some CPUs. */

static const double FURTHEST = 2.0, ARRIVED = 0.05, RING = 0.05;

struct particle_places {
    struct assignment *assignment;
    /* of one copy at a time */
    double *places; /* (n_agents, 2) */
    double *dists;  /* (n_agents, places) */
    double *left;   /* (n_agents) the distance to its own place */
    /* of all copies: computed with the rewards, and decides about success */
    uint8_t *all_arrived; /* (E) */
};

static const struct field fields[] = {
    {"agents", FIELD_I64, SCHEMA_AT(struct particle_places_params, agents),
     .flags = FIELD_MEANING, SCHEMA_WITHIN(1, ENV_MAX_AGENTS), .default_text = "4",
     .doc = "agents: N"},
    {"terminate_on_success", FIELD_BOOL,
     SCHEMA_AT(struct particle_places_params, terminate_on_success),
     .default_text = "false", .doc = "over when every agent is nearer than 0.05"},
    PARTICLE_PARAMS(struct particle_places_params),
};
const struct schema particle_places_params = {SCHEMA_TABLE(fields),
                                              sizeof(struct particle_places_params)};

struct particle_places *particle_places_new(size_t n_agents, size_t n_copies,
                                            struct arena *arena)
{
    struct particle_places *p = ARENA_NEW(arena, struct particle_places);

    *p = (struct particle_places){.assignment = assignment_new(n_agents, arena),
                                  .places = ARENA_ARRAY(arena, double, n_agents * 2),
                                  .dists = ARENA_ARRAY(arena, double, n_agents *n_agents),
                                  .left = ARENA_ARRAY(arena, double, n_agents),
                                  .all_arrived = ARENA_ARRAY(arena, uint8_t, n_copies)};
    return p;
}

void particle_add_for_places(struct particle_world *w,
                             const struct particle_places_params *p, double agent_size,
                             size_t n_landmarks, double landmark_size)
{
    particle_add_agents(
        w, "agent", (size_t)p->agents,
        &(struct particle_entity){.size = agent_size,
                                  .collide = 1,
                                  .movable = 1,
                                  .silent = 1,
                                  .obs_width = (int32_t)(4 + 2 * n_landmarks)});
    particle_add_landmarks(w, n_landmarks,
                           &(struct particle_entity){.size = landmark_size});
}

void particle_observe_for_places(const struct particle_world *w, size_t self,
                                 struct particle_obs *o)
{
    particle_obs_vel(w, o, self);
    particle_obs_pos(w, o, self);
    particle_obs_rel_landmarks(w, o, self);
}

/* Computes p->left; NaN for all if a distance is not finite. */
static const double *assign(const struct particle_world *w, size_t copy)
{
    const struct particle_places *p = w->places;
    const size_t n = w->n_agents;
    const size_t *place;
    double sum = 0.0;

    w->scenario->places(w, copy, p->places);
    for (size_t a = 0; a < n; a++) {
        const double x = particle_pos(w, a, 0)[copy], y = particle_pos(w, a, 1)[copy];

        for (size_t i = 0; i < n; i++) {
            const double dx = x - p->places[2 * i], dy = y - p->places[2 * i + 1];

            p->dists[a * n + i] = sqrt(dx * dx + dy * dy);
            sum += p->dists[a * n + i];
        }
    }
    place = isfinite(sum) ? assignment_solve(p->assignment, p->dists) : NULL;
    for (size_t a = 0; a < n; a++)
        p->left[a] = place != NULL ? p->dists[a * n + place[a]] : (double)NAN;
    return p->left;
}

/* Sums clipped distances in the order of NumPy's add.reduce: eight sums side by side in
 * blocks of up to 128 numbers; longer rows are halved. */
static double sum_clipped(const double *x, size_t n)
{
    enum { SIDE = 8, BLOCK = 128 };
    double s[SIDE] = {0.0}, whole;
    size_t i = 0;

    if (n > BLOCK) {
        const size_t half = n / 2 - n / 2 % SIDE;

        return sum_clipped(x, half) + sum_clipped(x + half, n - half);
    }
    for (; i + SIDE <= n; i += SIDE)
        for (size_t k = 0; k < SIDE; k++)
            s[k] += x[i + k] > FURTHEST ? FURTHEST : x[i + k];
    whole = ((s[0] + s[1]) + (s[2] + s[3])) + ((s[4] + s[5]) + (s[6] + s[7]));
    for (; i < n; i++)
        whole += x[i] > FURTHEST ? FURTHEST : x[i];
    return whole;
}

void particle_reward_places(const struct particle_world *w, double *const *ret)
{
    const size_t n = w->n_agents;

    for (size_t c = 0; c < w->n_copies; c++) {
        const double *left = assign(w, c);

        ret[0][c] = 0.0 - sum_clipped(left, n) / (double)n;
        w->places->all_arrived[c] = 1;
        for (size_t a = 0; a < n; a++)
            w->places->all_arrived[c] &= left[a] < ARRIVED;
    }
    for (size_t a = 1; a < n; a++)
        memcpy(ret[a], ret[0], w->n_copies * sizeof(*ret[0]));
}

enum { DISTANCE, COLLISIONS };
const struct env_metric particle_metrics_of_places[] = {
    [DISTANCE] = {"distance", "mean distance of the agents from their places", 0},
    [COLLISIONS] = PARTICLE_COLLISIONS,
    {NULL}};

void particle_measure_places(const struct particle_world *w, size_t metric, double *ret)
{
    if (metric == COLLISIONS) {
        particle_count_collisions(w, ret);
        return;
    }
    for (size_t c = 0; c < w->n_copies; c++) {
        const double *left = assign(w, c);
        double sum = 0.0;

        for (size_t a = 0; a < w->n_agents; a++)
            sum += left[a];
        ret[c] = sum / (double)w->n_agents;
    }
}

void particle_succeed_in_places(const struct particle_world *w, uint8_t *ret)
{
    const struct particle_places_params *p = w->params;

    for (size_t c = 0; c < w->n_copies; c++)
        ret[c] = p->terminate_on_success && w->places->all_arrived[c];
}

void particle_places_draw(const struct particle_world *w, size_t copy, struct scene *ret)
{
    const double *places = w->places->places;

    w->scenario->places(w, copy, w->places->places);
    for (size_t i = 0; i < w->n_agents; i++) {
        struct scene_thing *t =
            scene_add(ret, SCENE_GOAL, places[2 * i], places[2 * i + 1], RING);

        t->id = (int32_t)(particle_n_entities(w) + i);
    }
    ret->name[SCENE_GOAL] = "place for an agent";
}
