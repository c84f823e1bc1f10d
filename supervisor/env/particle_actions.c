#include "supervisor/env/particle_world.h"

#include <string.h>

/* What an agent's numbers mean: the force it moves with and what it says. */

enum { MOVES = PARTICLE_MOVES };

static const double SENSITIVITY = 5.0;

/* Direction of each discrete move; row 0: mpe2, row 1: openai, whose axes point the other
 * way. */
static const double move_x[2][MOVES] = {{0, -1, 1, 0, 0}, {0, 1, -1, 0, 0}};
static const double move_y[2][MOVES] = {{0, 0, 0, -1, 1}, {0, 0, 0, 1, -1}};

/* Where x is larger than any before, best becomes x and the rest its own. */
PARTICLE_SIMD static void take_larger(size_t n, double *restrict best,
                                      const double *restrict x, double *restrict ret_a,
                                      double a, double *restrict ret_b, double b)
{
    for (size_t c = 0; c < n; c++) {
        int larger = x[c] > best[c];

        best[c] = larger ? x[c] : best[c];
        ret_a[c] = larger ? a : ret_a[c];
        ret_b[c] = larger ? b : ret_b[c];
    }
}

static void decode_move(struct particle_world *w, const double *rows, double *x,
                        double *y)
{
    size_t n = w->n_copies, rules = w->rules == ENV_RULES_OPENAI;
    double *best = particle_scratch(w, 0);

    memcpy(best, rows, n * sizeof(*best));
    particle_row_fill(n, x, move_x[rules][0]);
    particle_row_fill(n, y, move_y[rules][0]);
    for (size_t m = 1; m < MOVES; m++)
        take_larger(n, best, rows + m * n, x, move_x[rules][m], y, move_y[rules][m]);
}

static inline double clip01(double x)
{
    x = x < 0.0 ? 0.0 : x;
    return x > 1.0 ? 1.0 : x;
}

/* mpe2 subtracts in the float32 that actions arrive in. */
PARTICLE_SIMD static void subtract_clipped(size_t n, double *restrict ret,
                                           const double *restrict a,
                                           const double *restrict b)
{
    for (size_t c = 0; c < n; c++)
        ret[c] = (double)(float)(clip01(a[c]) - clip01(b[c]));
}

/* A box move is {nothing, left, right, down, up}, under openai's rules {nothing, right,
 * left, up, down}. */
static void decode_box(struct particle_world *w, const double *rows, double *x, double *y)
{
    size_t n = w->n_copies;

    if (w->rules == ENV_RULES_OPENAI) {
        particle_row_sub(n, x, rows + 1 * n, rows + 2 * n);
        particle_row_sub(n, y, rows + 3 * n, rows + 4 * n);
    } else {
        subtract_clipped(n, x, rows + 2 * n, rows + 1 * n);
        subtract_clipped(n, y, rows + 4 * n, rows + 3 * n);
    }
}

PARTICLE_SIMD static void scale(size_t n, double *x, double factor)
{
    for (size_t i = 0; i < n; i++)
        x[i] = x[i] * factor + 0.0; /* no force is +0 */
}

static void act_move(struct particle_world *w, size_t agent, const double *rows)
{
    const struct particle_entity *e = &w->entities[agent];
    size_t n = w->n_copies;
    double *force = particle_force(w, agent, 0);

    if (w->actions == ENV_ACTIONS_DISCRETE)
        decode_move(w, rows, force, force + n);
    else
        decode_box(w, rows, force, force + n);
    scale(2 * n, force, e->accel != 0.0 ? e->accel : SENSITIVITY);
}

/* The one-hot vector of the word that is said: the first largest. */
static void say_word(struct particle_world *w, size_t agent, const double *rows)
{
    for (size_t c = 0; c < w->n_copies; c++) {
        size_t said = 0;

        for (size_t i = 1; i < w->dim_c; i++)
            said = rows[i * w->n_copies + c] > rows[said * w->n_copies + c] ? i : said;
        for (size_t i = 0; i < w->dim_c; i++)
            particle_comm(w, agent, i)[c] = i == said ? 1.0 : 0.0;
    }
}

static void act_say(struct particle_world *w, size_t agent, const double *rows)
{
    int clip = w->rules == ENV_RULES_MPE2;
    double *said = particle_comm(w, agent, 0);

    if (w->actions == ENV_ACTIONS_DISCRETE) {
        say_word(w, agent, rows);
        return;
    }
    for (size_t i = 0; i < w->dim_c * w->n_copies; i++)
        said[i] = clip ? clip01(rows[i]) : rows[i];
}

void particle_world_act(struct particle_world *w, size_t agent, const double *rows)
{
    const struct particle_entity *e = &w->entities[agent];

    if (e->movable)
        act_move(w, agent, rows);
    if (!e->silent)
        act_say(w, agent, rows + (e->movable ? MOVES * w->n_copies : 0));
}
