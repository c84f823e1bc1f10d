/* particle_loops.h - the particle worlds' loops over copies, for each instruction set.
 *
 * particle_loops.c is built once for every set. All builds give the same bits: they use
 * IEEE operations in the same order, without fusing, and our own exp and log1p
 * (common/numerics/elementary.h). A world uses the best set that the CPU has.
 * Shapes   a row is n doubles; a point is two consecutive rows, x and y; the points of
 *          consecutive entities are consecutive. The rows passed to one call must not
 *          overlap unless its comment allows it.
 */
#ifndef SUPERVISOR_ENV_PARTICLE_LOOPS_H
#define SUPERVISOR_ENV_PARTICLE_LOOPS_H

#include <stddef.h>
#include <stdint.h>

enum { PARTICLE_MOVES = 5 };

/* One number of an observation, in every copy: from - less, or 0 where the mask `seen` is
 * 0 (otherwise it is all ones). seen NULL: never hidden. The three rows may overlap. */
struct particle_row {
    const double *from, *less;
    const uint64_t *seen;
};

/* Two entities that can push each other. */
struct particle_pair {
    size_t a, b;
    double reach; /* the distance of centres at which their surfaces touch */
    int b_moves;  /* 0: the force on b is not needed */
};

struct particle_loops {
    const char *isa;

    /* Transposes actions (n, width) into rows (width, n). */
    void (*widen)(size_t n, size_t width, const float *actions, double *rows);
    /* ret = (x[m], y[m]), where m is the first largest of rows (PARTICLE_MOVES, n). */
    void (*move)(size_t n, const double *rows, const double *x, const double *y,
                 double *ret);
    /* ret = factor (to - from) + 0; clip: first clips both to [0, 1], in float32. */
    void (*lean)(size_t n, const double *to, const double *from, int clip, double factor,
                 double *ret);
    /* said (words, n) = 1 for the first largest of rows (words, n), else 0. */
    void (*word)(size_t n, size_t words, const double *rows, double *said);
    void (*clip)(size_t n, const double *x, double *ret); /* to [0, 1] */

    /* Adds the forces of pairs that are near, in the order of the pairs: to a, and to b
     * if it moves. pos, force: points of all entities. */
    void (*push)(size_t n, const struct particle_pair *pairs, size_t n_pairs,
                 const double *pos, double *force);
    /* One step of a point. max_speed 0: no limit. drift_first: the position changes
     * first, with the old velocity. */
    void (*integrate)(size_t n, int drift_first, double max_speed, const double *force,
                      double *pos, double *vel);

    /* Observations (n, width), cast to float32. */
    void (*cast)(size_t n, size_t width, const struct particle_row *rows, float *ret);
    void (*show)(size_t n, const struct particle_row *row, double *ret); /* one row */

    /* Distances of two points; dist2: squared. near: to the nearest of `count` points
     * from b on. touch: 1 where the squared distance is below `square`, else `apart`;
     * stride: offset of a point's y row from its x row. */
    void (*dist)(size_t n, const double *a, const double *b, double *ret);
    void (*dist2)(size_t n, const double *a, const double *b, double *ret);
    void (*near)(size_t n, const double *a, const double *b, size_t count, double *ret);
    void (*touch)(size_t n, size_t stride, const double *a, const double *b,
                  double square, double apart, double *ret);
    /* ret -= factor bound(|x|), then the same with y: see particle_charge_bounds. */
    void (*bounds)(size_t n, const double *point, double factor, double *ret);
    /* ret = all ones where any of `count` rows, `stride` apart, is 1 in both a and b, or
     * where no row is 1 in either; else 0. All are 1 or -1. */
    void (*see)(size_t n, size_t stride, const double *a, const double *b, size_t count,
                uint64_t *ret);

    /* ret = x; ret = factor ret; ret = ret / by; ret += factor x, of `count` rows in turn;
     * ret = a - b; ret = team (1 - ratio) + ret ratio; ret = x where goal is `number`. */
    void (*fill)(size_t n, double *ret, double x);
    void (*scale)(size_t n, double *ret, double factor);
    void (*divide)(size_t n, double *ret, double by);
    void (*add)(size_t n, double *ret, double factor, const double *x, size_t count);
    void (*sub)(size_t n, double *ret, const double *a, const double *b);
    void (*mix)(size_t n, double *ret, const double *team, double ratio);
    void (*choose)(size_t n, double *ret, const double *goal, double number,
                   const double *x);
};

/* The i-th set that this CPU supports, from the simplest on; NULL past the end. */
const struct particle_loops *particle_loops_at(int i);
const struct particle_loops *particle_loops_best(void);

#endif
