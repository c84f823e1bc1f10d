#include "supervisor/env/particle_world.h"

#include <string.h>

/* Converts an agent's action into the force that moves it and the word it says. */

enum { MOVES = PARTICLE_MOVES };

static const double SENSITIVITY = 5.0;

/* Direction of each discrete move; row 0: mpe2, row 1: openai, with opposite signs. */
static const double move_x[2][MOVES] = {{0, -1, 1, 0, 0}, {0, 1, -1, 0, 0}};
static const double move_y[2][MOVES] = {{0, 0, 0, -1, 1}, {0, 0, 0, 1, -1}};

/* The force of a discrete move; a zero force is +0. */
static void move(struct particle_world *w, const double *rows, double factor,
                 double *force)
{
    const int rules = w->rules == ENV_RULES_OPENAI;
    double x[MOVES], y[MOVES];

    for (size_t m = 0; m < MOVES; m++) {
        x[m] = move_x[rules][m] * factor + 0.0;
        y[m] = move_y[rules][m] * factor + 0.0;
    }
    w->loops->move(w->n_copies, rows, x, y, force);
}

/* The force of a continuous action: {nothing, left, right, down, up}, or under openai's
 * rules {nothing, right, left, up, down}. */
static void lean(struct particle_world *w, const double *rows, double factor,
                 double *force)
{
    const int openai = w->rules == ENV_RULES_OPENAI;
    const size_t n = w->n_copies;
    const double *minus = rows + (openai ? 2 : 1) * n;
    const double *plus = rows + (openai ? 1 : 2) * n;

    w->loops->lean(n, plus, minus, !openai, factor, force);
    w->loops->lean(n, plus + 2 * n, minus + 2 * n, !openai, factor, force + n);
}

void particle_world_act(struct particle_world *w, size_t agent, const double *rows)
{
    const struct particle_entity *e = &w->entities[agent];
    const size_t n = w->dim_c * w->n_copies;
    double *said;

    if (e->movable) {
        const double factor = e->accel != 0.0 ? e->accel : SENSITIVITY;
        double *force = particle_force(w, agent, 0);

        if (w->actions == ENV_ACTIONS_DISCRETE)
            move(w, rows, factor, force);
        else
            lean(w, rows, factor, force);
        rows += MOVES * w->n_copies;
    }
    if (e->silent)
        return;
    said = particle_comm(w, agent, 0);
    if (w->actions == ENV_ACTIONS_DISCRETE)
        w->loops->word(w->n_copies, w->dim_c, rows, said);
    else if (w->rules == ENV_RULES_MPE2)
        w->loops->clip(n, rows, said);
    else
        memcpy(said, rows, n * sizeof(*said));
}
