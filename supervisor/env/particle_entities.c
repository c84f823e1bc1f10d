#include "supervisor/env/particle_world.h"

/* Observations as lists of entities (struct particle_entities). */

enum { OWN = 4 /* velocity, position */ };

void particle_entities_describe(const struct particle_world *w)
{
    const int64_t n = (int64_t)particle_n_entities(w) - 1;
    const struct particle_entities *e = w->entities_shown;
    const int64_t width = (int64_t)(e->n_kinds + 2 + (e->moving != 0 ? 2 : 0) + 1);

    for (size_t a = 0; a < w->n_agents && n > 0; a++) {
        w->agents[a].entities[0] = n;
        w->agents[a].entities[1] = width;
        w->agents[a].obs_width = (int32_t)(OWN + n * width);
    }
}

static void show(const struct particle_world *w, size_t self, size_t entity,
                 struct particle_obs *o)
{
    const struct particle_entities *e = w->entities_shown;
    const size_t kind = e->kind(w, entity);

    for (size_t k = 0; k < e->n_kinds; k++)
        particle_obs_row(w, o, k == kind ? w->ones : w->zeros);
    particle_obs_rel(w, o, self, entity);
    if ((e->moving >> kind & 1) != 0)
        particle_obs_vel(w, o, entity);
    for (int axis = 0; e->moving != 0 && (e->moving >> kind & 1) == 0 && axis < 2; axis++)
        particle_obs_row(w, o, w->zeros);
    particle_obs_row(w, o, w->ones);
}

void particle_entities_observe(const struct particle_world *w, size_t self,
                               struct particle_obs *o)
{
    particle_obs_vel(w, o, self);
    particle_obs_pos(w, o, self);
    for (size_t i = 0; i < particle_n_entities(w); i++)
        if (i != self)
            show(w, self, i, o);
}

void particle_entities_symmetry(const struct particle_world *w,
                                struct particle_symmetry *y)
{
    const struct particle_entities *e = w->entities_shown;
    const size_t n_points = e->moving != 0 ? 2 : 1;

    for (size_t a = 0; a < w->n_agents; a++) {
        particle_symmetry_agent(y, a);
        particle_symmetry_points(y, 2, PARTICLE_UNLIKE); /* velocity, position */
        for (size_t i = 1; i < particle_n_entities(w); i++) {
            particle_symmetry_numbers(y, 1, e->n_kinds, PARTICLE_UNLIKE);
            particle_symmetry_points(y, n_points, PARTICLE_UNLIKE);
            particle_symmetry_numbers(y, 1, 1, PARTICLE_UNLIKE);
        }
    }
}
