#include "supervisor/env/particle_world.h"

#include "common/err/check.h"
#include "common/msg/symmetry_msg.h"

/* Particle worlds have no walls, and forces act along the line between two things, so that
 * the square's symmetries (x flipped, y flipped, x and y exchanged: 8 elements) hold in all
 * worlds that observe positions only relative to others or to the origin. Moves change
 * with the axes: none, two for x, two for y. */

enum { POINT, MOVE, KINDS };

static const uint32_t widths[KINDS] = {2, PARTICLE_MOVES};
static const int32_t generators[3][2 + PARTICLE_MOVES] = {
    {~0, 1, 0, 2, 1, 3, 4}, /* x flipped */
    {0, ~1, 0, 1, 2, 4, 3}, /* y flipped */
    {1, 0, 0, 3, 4, 1, 2},  /* exchanged */
};

static void add_run(struct particle_symmetry *y, size_t factor, enum symmetry_part part,
                    uint32_t count, uint32_t width, uint32_t kind)
{
    const struct symmetry_run run = {.agent = y->agent,
                                     .part = part,
                                     .first = part == SYMMETRY_OBS ? y->width : 0,
                                     .count = count,
                                     .width = width,
                                     .kind = kind};

    symmetry_add_run(y->group, y->arena, factor, &run);
}

static void check_width(const struct particle_symmetry *y)
{
    CHECK(y->width == (uint32_t)y->world->agents[y->agent].obs_width,
          "agent %u: %u rows described", y->agent, y->width);
}

size_t particle_symmetry_orders(struct particle_symmetry *y, size_t n)
{
    return symmetry_add_orders(y->group, y->arena, (uint32_t)n);
}

void particle_symmetry_agent(struct particle_symmetry *y, size_t agent)
{
    if (agent > 0)
        check_width(y);
    y->agent = (uint32_t)agent;
    y->width = 0;
    if (y->world->entities[agent].movable)
        add_run(y, y->square, SYMMETRY_ACTION, 1, PARTICLE_MOVES, MOVE);
}

void particle_symmetry_numbers(struct particle_symmetry *y, size_t n, size_t width,
                               size_t alike)
{
    if (alike != PARTICLE_UNLIKE && n > 1 && width > 0)
        add_run(y, alike, SYMMETRY_OBS, (uint32_t)n, (uint32_t)width, 0);
    y->width += (uint32_t)(n * width);
}

void particle_symmetry_points(struct particle_symmetry *y, size_t n, size_t alike)
{
    if (n > 0)
        add_run(y, y->square, SYMMETRY_OBS, (uint32_t)n, 2, POINT);
    particle_symmetry_numbers(y, n, 2, alike);
}

void particle_world_symmetry(const struct particle_world *w,
                             particle_symmetry_fn describe, struct arena *arena,
                             struct symmetry_group *ret)
{
    struct particle_symmetry y = {.world = w, .arena = arena, .group = ret};

    y.square = symmetry_add_generators(ret, arena, KINDS, widths, 3, generators[0]);
    describe(w, &y);
    check_width(&y);
}
