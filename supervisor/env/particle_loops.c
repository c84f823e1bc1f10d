/* Built once for each instruction set, with the table's name in PARTICLE_LOOPS: see the
 * header. */
#include "supervisor/env/particle_loops.h"

#include "common/numerics/elementary.h"
#include "supervisor/env/particle_lanes.h"

#include <math.h>
#include <string.h>

extern const struct particle_loops PARTICLE_LOOPS;

static const double DT = 0.1;
static const double KEEP = 0.75; /* 1 - damping */
static const double CONTACT_FORCE = 100.0;
static const double CONTACT_MARGIN = 0.001;

/* CHUNK: copies whose intermediate results are on the stack at a time. BLOCK: copies that
 * share one branch. */
enum { CHUNK = 64, BLOCK = 8 };

enum { FOUR = 4 };
typedef double four_doubles __attribute__((vector_size(FOUR * sizeof(double))));
typedef float four_floats __attribute__((vector_size(FOUR * sizeof(float))));
typedef uint64_t four_masks __attribute__((vector_size(FOUR * sizeof(uint64_t))));

/* Actions */

static void transpose(four_floats x[FOUR])
{
    four_floats a = __builtin_shufflevector(x[0], x[1], 0, 4, 1, 5);
    four_floats b = __builtin_shufflevector(x[2], x[3], 0, 4, 1, 5);
    four_floats c = __builtin_shufflevector(x[0], x[1], 2, 6, 3, 7);
    four_floats d = __builtin_shufflevector(x[2], x[3], 2, 6, 3, 7);

    x[0] = __builtin_shufflevector(a, b, 0, 1, 4, 5);
    x[1] = __builtin_shufflevector(a, b, 2, 3, 6, 7);
    x[2] = __builtin_shufflevector(c, d, 0, 1, 4, 5);
    x[3] = __builtin_shufflevector(c, d, 2, 3, 6, 7);
}

/* The beginning of a block. If n is not a multiple of `size`, the last block begins
 * earlier and repeats part of the one before. */
static inline size_t block_begin(size_t at, size_t n, size_t size)
{
    return at + size <= n ? at : n - size;
}

static void widen_block(size_t n, size_t width, const float *actions, double *rows)
{
    four_floats x[FOUR];

    for (size_t k = 0; k < FOUR; k++)
        memcpy(&x[k], actions + k * width, sizeof(x[k]));
    transpose(x);
    for (size_t k = 0; k < FOUR; k++) {
        four_doubles wide = __builtin_convertvector(x[k], four_doubles);

        memcpy(rows + k * n, &wide, sizeof(wide));
    }
}

static void widen(size_t n, size_t width, const float *restrict actions,
                  double *restrict rows)
{
    for (size_t c = 0; (n < FOUR || width < FOUR) && c < n; c++) {
        for (size_t i = 0; i < width; i++)
            rows[i * n + c] = (double)actions[c * width + i];
    }
    for (size_t c = 0; n >= FOUR && width >= FOUR && c < n; c += FOUR) {
        size_t from = block_begin(c, n, FOUR);

        for (size_t i = 0; i < width; i += FOUR) {
            size_t first = block_begin(i, width, FOUR);

            widen_block(n, width, actions + from * width + first,
                        rows + first * n + from);
        }
    }
}

/* The largest value so far, and the point that belongs to it. */
struct largest {
    double value, x, y;
};

static inline void meet_value(struct largest *best, double value, double x, double y)
{
    int larger = value > best->value;

    best->value = larger ? value : best->value;
    best->x = larger ? x : best->x;
    best->y = larger ? y : best->y;
}

static void move(size_t n, const double *restrict rows, const double *restrict x,
                 const double *restrict y, double *restrict ret)
{
    const double x0 = x[0], x1 = x[1], x2 = x[2], x3 = x[3], x4 = x[4];
    const double y0 = y[0], y1 = y[1], y2 = y[2], y3 = y[3], y4 = y[4];

    for (size_t c = 0; c < n; c++) {
        struct largest best = {rows[c], x0, y0};

        meet_value(&best, rows[n + c], x1, y1);
        meet_value(&best, rows[2 * n + c], x2, y2);
        meet_value(&best, rows[3 * n + c], x3, y3);
        meet_value(&best, rows[4 * n + c], x4, y4);
        ret[c] = best.x;
        ret[n + c] = best.y;
    }
}

static inline double clip01(double x)
{
    x = x < 0.0 ? 0.0 : x;
    return x > 1.0 ? 1.0 : x;
}

/* mpe2 subtracts in the actions' own type, float32. Adding 0 makes a zero force +0. */
static void lean(size_t n, const double *restrict to, const double *restrict from,
                 int clip, double factor, double *restrict ret)
{
    if (clip) {
        for (size_t c = 0; c < n; c++)
            ret[c] = (double)(float)(clip01(to[c]) - clip01(from[c])) * factor + 0.0;
    } else {
        for (size_t c = 0; c < n; c++)
            ret[c] = (to[c] - from[c]) * factor + 0.0;
    }
}

static void clip(size_t n, const double *restrict x, double *restrict ret)
{
    for (size_t c = 0; c < n; c++)
        ret[c] = clip01(x[c]);
}

/* Keeps the largest value so far; a larger one clears the word before it. */
static void word_chunk(size_t n, size_t stride, size_t words, const double *restrict rows,
                       double *restrict said)
{
    double best[CHUNK], which[CHUNK] = {0};

    memcpy(best, rows, n * sizeof(*best));
    for (size_t i = 1; i < words; i++) {
        for (size_t c = 0; c < n; c++) {
            double value = rows[i * stride + c];

            which[c] = value > best[c] ? (double)(int)i : which[c];
            best[c] = value > best[c] ? value : best[c];
        }
    }
    for (size_t i = 0; i < words; i++) {
        for (size_t c = 0; c < n; c++)
            said[i * stride + c] = which[c] == (double)(int)i ? 1.0 : 0.0;
    }
}

static void word(size_t n, size_t words, const double *rows, double *said)
{
    for (size_t c = 0; c < n; c += CHUNK)
        word_chunk(n - c < CHUNK ? n - c : CHUNK, n, words, rows + c, said + c);
}

/* Physics */

/* For a gap of FAR contact margins or more, log(1 + exp(-gap)) equals exp(-gap) bit for
 * bit; for GONE or more it is 0. */
static const double FAR = 38.0, GONE = 745.5;

enum { CONTACTS = 256 };

/* One pair's contacts, from `from` on. copies: bit c is set if the chunk's copy c has one;
 * their order is that of the copies. a, b: the indices, in pos and force, of the entities'
 * x in the chunk's first copy. */
struct near_pair {
    size_t a, b, from;
    uint64_t copies;
    int b_moves;
};
_Static_assert(CHUNK <= 64, "a chunk's copies are the bits of near_pair.copies");

/* The pairs and copies that are near enough for a force, packed together, so that the
 * costly steps skip all others, which are usually the majority. The arrays have BLOCK
 * more entries, because the last block may run past the end. */
struct contacts {
    size_t n, n_pairs;
    struct near_pair pairs[CONTACTS];
    double reach[CONTACTS + BLOCK];
    double x[CONTACTS + BLOCK], y[CONTACTS + BLOCK]; /* a - b; later the force on a */
    double dist[CONTACTS + BLOCK];
    double gap[CONTACTS + BLOCK]; /* between the surfaces, in contact margins */
    double pen[CONTACTS + BLOCK]; /* penetration: log(1 + exp(-gap)) */
};

#ifdef HAVE_LANES
/* The vector part of find_contacts; returns the number of copies it has examined. */
static size_t find_by_lanes(size_t n, size_t stride, const double *a, const double *b,
                            double reach, double limit, struct contacts *ret,
                            uint64_t *ret_copies)
{
    size_t k = ret->n, c = 0;

    for (; c + LANES <= n; c += LANES) {
        const lanes x = lanes_load(a + c) - lanes_load(b + c);
        const lanes y = lanes_load(a + stride + c) - lanes_load(b + stride + c);
        const unsigned near = lanes_not_above(x * x + y * y, lanes_same(limit));

        lanes_store(ret->x + k, lanes_pack(x, near));
        lanes_store(ret->y + k, lanes_pack(y, near));
        lanes_store(ret->reach + k, lanes_same(reach));
        k += lanes_count(near);
        *ret_copies |= (uint64_t)near << c;
    }
    ret->n = k;
    return c;
}
#else
static size_t find_by_lanes(size_t n, size_t stride, const double *a, const double *b,
                            double reach, double limit, struct contacts *ret,
                            uint64_t *ret_copies)
{
    return 0;
}
#endif

/* Adds a contact for each of the n copies (at most CHUNK) in which a and b are near.
 * Returns a bit for each of these copies. */
static uint64_t find_contacts(size_t n, size_t stride, const double *a, const double *b,
                              double reach, struct contacts *ret)
{
    const double furthest = reach + GONE * CONTACT_MARGIN, limit = furthest * furthest;
    uint64_t copies = 0;
    size_t c = find_by_lanes(n, stride, a, b, reach, limit, ret, &copies);
    size_t k = ret->n;

    for (; c < n; c++) {
        const double x = a[c] - b[c], y = a[stride + c] - b[stride + c];
        const int near = !(x * x + y * y > limit);

        ret->x[k] = x;
        ret->y[k] = y;
        ret->reach[k] = reach;
        k += near;
        copies |= (uint64_t)near << c;
    }
    ret->n = k;
    return copies;
}

/* x / CONTACT_MARGIN, rounded correctly. With fused operations two corrections of a
 * product do it (Markstein 1990): 1000 is the margin's reciprocal, rounded correctly, and
 * the product is less than one unit in the last place off. */
static inline double in_margins(double x)
{
#ifdef __FMA__
    const double quotient = x * 1000.0;

    return __builtin_fma(__builtin_fma(-quotient, CONTACT_MARGIN, x), 1000.0, quotient);
#else
    return x / CONTACT_MARGIN;
#endif
}

static void measure_block(double *restrict x, double *restrict y, double *restrict reach,
                          double *restrict dist, double *restrict gap,
                          double *restrict pen)
{
    for (size_t i = 0; i < BLOCK; i++) {
        dist[i] = sqrt(x[i] * x[i] + y[i] * y[i]);
        gap[i] = in_margins(dist[i] - reach[i]);
        pen[i] = exp_f64(-fabs(gap[i]));
    }
}

/* Sets dist, gap, and pen = exp(-|gap|), which is final for gaps above FAR; press
 * corrects the others. */
static void measure(struct contacts *m)
{
    for (size_t i = m->n; i < m->n + BLOCK; i++)
        m->x[i] = m->y[i] = m->reach[i] = 1.0;
    for (size_t i = 0; i < m->n; i += BLOCK)
        measure_block(m->x + i, m->y + i, m->reach + i, m->dist + i, m->gap + i,
                      m->pen + i);
}

/* Writes the indices i where x[i] is not above the limit; returns their number. */
static size_t choose_not_above(size_t n, const double *x, double limit, uint64_t *where)
{
    size_t i = 0, k = 0;

#ifdef HAVE_LANES
    for (; i + LANES <= n; i += LANES) {
        const unsigned chosen = lanes_not_above(lanes_load(x + i), lanes_same(limit));

        for (unsigned left = chosen; left != 0; left &= left - 1)
            where[k++] = i + (size_t)__builtin_ctz(left);
    }
#endif
    for (; i < n; i++) {
        where[k] = i;
        k += !(x[i] > limit);
    }
    return k;
}

/* Finishes pen for small gaps, with the same operations as numpy's logaddexp(0, -gap). */
static void press(struct contacts *m)
{
    double log[CONTACTS + BLOCK];
    uint64_t where[CONTACTS];
    const size_t k = choose_not_above(m->n, m->gap, FAR, where);

    for (size_t i = 0; i < k; i++)
        log[i] = m->pen[where[i]];
    for (size_t i = 0; i < BLOCK; i++)
        log[k + i] = 0.0;
    for (size_t i = 0; i < k; i += BLOCK) {
        for (size_t c = 0; c < BLOCK; c++)
            log[i + c] = log1p_f64(log[i + c]);
    }
    for (size_t i = 0; i < k; i++) {
        double gap = m->gap[where[i]];

        m->pen[where[i]] = gap < 0.0 ? -gap + log[i] : log[i];
    }
}

/* The force on a: 100 (a - b) / distance * penetration; that on b is the opposite. */
static void find_forces(struct contacts *m)
{
    for (size_t i = 0; i < m->n; i++) {
        double pen = m->pen[i] * CONTACT_MARGIN;

        m->x[i] = CONTACT_FORCE * m->x[i] / m->dist[i] * pen;
        m->y[i] = CONTACT_FORCE * m->y[i] / m->dist[i] * pen;
    }
}

#ifdef __AVX512F__
/* One row of shove's work, of n copies; returns the number of copies it has examined. */
static size_t shove_by_lanes(size_t n, const struct near_pair *pair, const double *x,
                             double *a, double *b)
{
    size_t c = 0;

    for (; c + LANES <= n; c += LANES) {
        const unsigned near = (unsigned)(pair->copies >> c) & ((1u << LANES) - 1);
        const lanes on_a = lanes_unpack(lanes_load(x), near);

        lanes_store(a + c, lanes_choose(near, lanes_load(a + c) + on_a, a + c));
        if (pair->b_moves)
            lanes_store(b + c, lanes_choose(near, lanes_load(b + c) - on_a, b + c));
        x += lanes_count(near);
    }
    return c;
}
#else
static size_t shove_by_lanes(size_t n, const struct near_pair *pair, const double *x,
                             double *a, double *b)
{
    return 0;
}
#endif

static void shove_row(size_t n, const struct near_pair *pair, const double *x, double *a,
                      double *b)
{
    size_t c = shove_by_lanes(n, pair, x, a, b);
    const uint64_t done = c < 64 ? ((uint64_t)1 << c) - 1 : UINT64_MAX;

    x += __builtin_popcountll(pair->copies & done);
    for (uint64_t left = pair->copies & ~done; left != 0; left &= left - 1, x++) {
        c = (size_t)__builtin_ctzll(left);
        a[c] += *x;
        if (pair->b_moves)
            b[c] -= *x;
    }
}

static void shove(size_t n, size_t stride, const struct near_pair *pair,
                  const struct contacts *m, double *force)
{
    double *a = force + pair->a, *b = force + pair->b;

    shove_row(n, pair, m->x + pair->from, a, b);
    shove_row(n, pair, m->y + pair->from, a + stride, b + stride);
}

static void push_contacts(size_t n, size_t stride, struct contacts *m, double *force)
{
    measure(m);
    press(m);
    find_forces(m);
    for (size_t p = 0; p < m->n_pairs; p++)
        shove(n, stride, &m->pairs[p], m, force);
    m->n = 0;
    m->n_pairs = 0;
}

/* Processes the pairs in order, because each copy's forces must add up in this order. */
static void push_chunk(size_t n, size_t stride, size_t first,
                       const struct particle_pair *pairs, size_t n_pairs,
                       const double *pos, double *force)
{
    struct contacts m;

    m.n = 0;
    m.n_pairs = 0;
    for (size_t p = 0; p < n_pairs; p++) {
        const size_t a = pairs[p].a * 2 * stride + first;
        const size_t b = pairs[p].b * 2 * stride + first, from = m.n;
        const uint64_t copies =
            find_contacts(n, stride, pos + a, pos + b, pairs[p].reach, &m);

        if (copies != 0)
            m.pairs[m.n_pairs++] =
                (struct near_pair){a, b, from, copies, pairs[p].b_moves};
        if (m.n + CHUNK > CONTACTS)
            push_contacts(n, stride, &m, force);
    }
    push_contacts(n, stride, &m, force);
}

static void push(size_t n, const struct particle_pair *pairs, size_t n_pairs,
                 const double *pos, double *force)
{
    for (size_t c = 0; c < n; c += CHUNK)
        push_chunk(n - c < CHUNK ? n - c : CHUNK, n, c, pairs, n_pairs, pos, force);
}

static void drift(size_t n, double *restrict pos, const double *restrict vel)
{
    for (size_t i = 0; i < n; i++)
        pos[i] += vel[i] * DT;
}

static void accelerate(size_t n, double *restrict vel, const double *restrict force)
{
    for (size_t i = 0; i < n; i++)
        vel[i] = vel[i] * KEEP + force[i] * DT;
}

/* Whether any copy of a block may be faster than max. The margin of 1e-9 is far more than
 * the rounding errors. */
static int some_hurry(const double *vx, const double *vy, double max)
{
    const double slow = max * max * (1.0 - 1e-9);
    unsigned some = 0;

#ifdef HAVE_LANES
    for (size_t c = 0; c < BLOCK; c += LANES) {
        const lanes x = lanes_load(vx + c), y = lanes_load(vy + c);

        some |= lanes_not_above(lanes_same(slow), x * x + y * y);
    }
#else
    for (size_t c = 0; c < BLOCK; c++)
        some |= !(slow > vx[c] * vx[c] + vy[c] * vy[c]);
#endif
    return some != 0;
}

static void limit_block(size_t n, double *restrict vx, double *restrict vy, double max)
{
    for (size_t c = 0; c < n; c++) {
        double speed = sqrt(vx[c] * vx[c] + vy[c] * vy[c]);

        vx[c] = speed > max ? vx[c] / speed * max : vx[c];
        vy[c] = speed > max ? vy[c] / speed * max : vy[c];
    }
}

static void limit_speed(size_t n, double *vx, double *vy, double max)
{
    size_t c = 0;

    for (; c + BLOCK <= n; c += BLOCK) {
        if (some_hurry(vx + c, vy + c, max))
            limit_block(BLOCK, vx + c, vy + c, max);
    }
    limit_block(n - c, vx + c, vy + c, max);
}

static void integrate(size_t n, int drift_first, double max_speed, const double *force,
                      double *pos, double *vel)
{
    if (drift_first)
        drift(2 * n, pos, vel);
    accelerate(2 * n, vel, force);
    if (max_speed != 0.0)
        limit_speed(n, vel, vel + n, max_speed);
    if (!drift_first)
        drift(2 * n, pos, vel);
}

/* Observations */

static inline double shown(const struct particle_row *row, size_t c)
{
    double x = row->from[c] - row->less[c];

    return row->seen == NULL ? x : f64_of_bits(bits_of_f64(x) & row->seen[c]);
}

/* Defines a function that shows as many copies, from c on, as the vector types have. */
#define SHOWN(name, doubles, masks, floats)                                              \
    static inline floats name(const struct particle_row *row, size_t c, int some_unseen) \
    {                                                                                    \
        doubles from, less;                                                              \
        masks seen;                                                                      \
                                                                                         \
        memcpy(&from, row->from + c, sizeof(from));                                      \
        memcpy(&less, row->less + c, sizeof(less));                                      \
        from -= less;                                                                    \
        if (some_unseen && row->seen != NULL) {                                          \
            memcpy(&seen, row->seen + c, sizeof(seen));                                  \
            from = (doubles)((masks)from & seen);                                        \
        }                                                                                \
        return __builtin_convertvector(from, floats);                                    \
    }

SHOWN(shown_four, four_doubles, four_masks, four_floats)

static int some_are_hidden(const struct particle_row *rows, size_t count)
{
    int some = 0;

    for (size_t i = 0; i < count; i++)
        some |= rows[i].seen != NULL;
    return some;
}

static inline void cast_four(const struct particle_row *rows, size_t c, size_t width,
                             int some_unseen, float *ret)
{
    four_floats x[FOUR];

    for (size_t k = 0; k < FOUR; k++)
        x[k] = shown_four(&rows[k], c, some_unseen);
    transpose(x);
    for (size_t k = 0; k < FOUR; k++)
        memcpy(ret + (c + k) * width, &x[k], sizeof(x[k]));
}

#ifdef __AVX__

enum { EIGHT = 8 };
typedef float eight_floats __attribute__((vector_size(EIGHT * sizeof(float))));

#define FIRSTS(x, y)      __builtin_shufflevector(x, y, 0, 8, 1, 9, 4, 12, 5, 13)
#define LASTS(x, y)       __builtin_shufflevector(x, y, 2, 10, 3, 11, 6, 14, 7, 15)
#define FIRST_TWOS(x, y)  __builtin_shufflevector(x, y, 0, 1, 8, 9, 4, 5, 12, 13)
#define LAST_TWOS(x, y)   __builtin_shufflevector(x, y, 2, 3, 10, 11, 6, 7, 14, 15)
#define FIRST_FOURS(x, y) __builtin_shufflevector(x, y, 0, 1, 2, 3, 8, 9, 10, 11)
#define LAST_FOURS(x, y)  __builtin_shufflevector(x, y, 4, 5, 6, 7, 12, 13, 14, 15)

static inline void transpose_eight(eight_floats x[EIGHT])
{
    eight_floats y[EIGHT];

    for (size_t k = 0; k < EIGHT; k += 2) {
        y[k] = FIRSTS(x[k], x[k + 1]);
        y[k + 1] = LASTS(x[k], x[k + 1]);
    }
    for (size_t k = 0; k < EIGHT; k += FOUR) {
        x[k] = FIRST_TWOS(y[k], y[k + 2]);
        x[k + 1] = LAST_TWOS(y[k], y[k + 2]);
        x[k + 2] = FIRST_TWOS(y[k + 1], y[k + 3]);
        x[k + 3] = LAST_TWOS(y[k + 1], y[k + 3]);
    }
    for (size_t k = 0; k < FOUR; k++) {
        y[k] = FIRST_FOURS(x[k], x[k + FOUR]);
        y[k + FOUR] = LAST_FOURS(x[k], x[k + FOUR]);
    }
    for (size_t k = 0; k < EIGHT; k++)
        x[k] = y[k];
}

#ifdef __AVX512F__
typedef double eight_doubles __attribute__((vector_size(EIGHT * sizeof(double))));
typedef uint64_t eight_masks __attribute__((vector_size(EIGHT * sizeof(uint64_t))));

SHOWN(shown_eight, eight_doubles, eight_masks, eight_floats)
#else
static inline eight_floats shown_eight(const struct particle_row *row, size_t c,
                                       int some_unseen)
{
    four_floats a = shown_four(row, c, some_unseen);
    four_floats b = shown_four(row, c + FOUR, some_unseen);

    return __builtin_shufflevector(a, b, 0, 1, 2, 3, 4, 5, 6, 7);
}
#endif

static inline void cast_eight(const struct particle_row *rows, size_t c, size_t width,
                              int some_unseen, float *ret)
{
    eight_floats x[EIGHT];

    for (size_t k = 0; k < EIGHT; k++)
        x[k] = shown_eight(&rows[k], c, some_unseen);
    transpose_eight(x);
    ret += c * width;
#pragma GCC unroll 8 /* otherwise the rows are spilled to the stack */
    for (size_t k = 0; k < EIGHT; k++, ret += width)
        memcpy(ret, &x[k], sizeof(x[k]));
}

static void cast_eight_rows(size_t n, size_t width, const struct particle_row *rows,
                            float *ret)
{
    const int hidden = some_are_hidden(rows, EIGHT);

    for (size_t c = 0; c < n; c += EIGHT) {
        if (hidden)
            cast_eight(rows, block_begin(c, n, EIGHT), width, 1, ret);
        else
            cast_eight(rows, block_begin(c, n, EIGHT), width, 0, ret);
    }
}

#endif

static void cast_four_rows(size_t n, size_t width, const struct particle_row *rows,
                           float *ret)
{
    const int hidden = some_are_hidden(rows, FOUR);

    for (size_t c = 0; c < n; c += FOUR) {
        if (hidden)
            cast_four(rows, block_begin(c, n, FOUR), width, 1, ret);
        else
            cast_four(rows, block_begin(c, n, FOUR), width, 0, ret);
    }
}

static void cast_plainly(size_t n, size_t width, const struct particle_row *rows,
                         float *ret)
{
    for (size_t c = 0; c < n; c++) {
        for (size_t i = 0; i < width; i++)
            ret[c * width + i] = (float)shown(&rows[i], c);
    }
}

static void cast(size_t n, size_t width, const struct particle_row *rows, float *ret)
{
    size_t i = 0;

    if (n < FOUR || width < FOUR) {
        cast_plainly(n, width, rows, ret);
        return;
    }
#ifdef __AVX__
    for (; n >= EIGHT && width >= EIGHT && i + FOUR < width; i += EIGHT) {
        size_t first = block_begin(i, width, EIGHT);

        cast_eight_rows(n, width, rows + first, ret + first);
    }
#endif
    for (; i < width; i += FOUR) {
        size_t first = block_begin(i, width, FOUR);

        cast_four_rows(n, width, rows + first, ret + first);
    }
}

static void show(size_t n, const struct particle_row *row, double *restrict ret)
{
    for (size_t c = 0; c < n; c++)
        ret[c] = shown(row, c);
}

/* Rewards */

static inline double square_dist(const double *a, const double *b, size_t stride,
                                 size_t c)
{
    double dx = a[c] - b[c], dy = a[stride + c] - b[stride + c];

    return dx * dx + dy * dy;
}

static void dist(size_t n, const double *restrict a, const double *restrict b,
                 double *restrict ret)
{
    for (size_t c = 0; c < n; c++)
        ret[c] = sqrt(square_dist(a, b, n, c));
}

static void dist2(size_t n, const double *restrict a, const double *restrict b,
                  double *restrict ret)
{
    for (size_t c = 0; c < n; c++)
        ret[c] = square_dist(a, b, n, c);
}

/* Takes one square root at the end: the root of the minimum is the minimum of the
 * roots. */
static void near(size_t n, const double *restrict a, const double *restrict b,
                 size_t count, double *restrict ret)
{
    dist2(n, a, b, ret);
    for (size_t k = 1; k < count; k++) {
        for (size_t c = 0; c < n; c++) {
            double d = square_dist(a, b + 2 * k * n, n, c);

            ret[c] = d < ret[c] ? d : ret[c];
        }
    }
    for (size_t c = 0; c < n; c++)
        ret[c] = sqrt(ret[c]);
}

static void touch(size_t n, size_t stride, const double *restrict a,
                  const double *restrict b, double square, double apart,
                  double *restrict ret)
{
    for (size_t c = 0; c < n; c++)
        ret[c] = square_dist(a, b, stride, c) < square ? 1.0 : apart;
}

/* Beyond FAR_OUT, exp(2 x - 2) exceeds the maximum penalty MOST. */
static const double FAR_OUT = 2.2, MOST = 10.0;

/* charge: the penalty where no exp is needed. NaN is charged MOST, as fmin would. */
static void charge_plainly(size_t n, const double *restrict x, double *restrict charge)
{
    for (size_t c = 0; c < n; c++) {
        double near = x[c] < 0.9 ? 0.0 : (x[c] - 0.9) * 10.0;

        charge[c] = x[c] < 1.0 ? near : MOST;
    }
}

/* Writes the indices i where 1 <= x[i] < FAR_OUT; returns their number. */
static size_t choose_out(size_t n, const double *x, uint64_t *where)
{
    size_t i = 0, k = 0;

#ifdef HAVE_LANES
    for (; i + LANES <= n; i += LANES) {
        const lanes some = lanes_load(x + i);
        unsigned left = lanes_not_above(lanes_same(1.0), some) &
                        ~lanes_not_above(lanes_same(FAR_OUT), some);

        for (; left != 0; left &= left - 1)
            where[k++] = i + (size_t)__builtin_ctz(left);
    }
#endif
    for (; i < n; i++) {
        where[k] = i;
        k += (x[i] >= 1.0) & (x[i] < FAR_OUT);
    }
    return k;
}

static void charge_by_exp(size_t n, const double *restrict x, double *restrict charge)
{
    double out[CHUNK + BLOCK];
    uint64_t where[CHUNK];
    const size_t k = choose_out(n, x, where);

    for (size_t i = 0; i < k; i++)
        out[i] = x[where[i]];
    for (size_t i = 0; i < BLOCK; i++)
        out[k + i] = 1.0;
    for (size_t i = 0; i < k; i += BLOCK) {
        for (size_t c = 0; c < BLOCK; c++)
            out[i + c] = exp_f64(2.0 * out[i + c] - 2.0);
    }
    for (size_t i = 0; i < k; i++)
        charge[where[i]] = out[i] < MOST ? out[i] : MOST;
}

static void bounds_chunk(size_t n, const double *restrict coordinate, double factor,
                         double *restrict ret)
{
    double x[CHUNK], charge[CHUNK];

    for (size_t c = 0; c < n; c++)
        x[c] = fabs(coordinate[c]);
    charge_plainly(n, x, charge);
    charge_by_exp(n, x, charge);
    for (size_t c = 0; c < n; c++)
        ret[c] -= factor * charge[c];
}

static void bounds(size_t n, const double *point, double factor, double *ret)
{
    for (size_t c = 0; c < n; c += CHUNK) {
        const size_t some = n - c < CHUNK ? n - c : CHUNK;

        bounds_chunk(some, point + c, factor, ret + c);
        bounds_chunk(some, point + n + c, factor, ret + c);
    }
}

static inline void see_block(size_t n, size_t stride, const double *a, const double *b,
                             size_t count, uint64_t *restrict ret)
{
    uint64_t never_both[BLOCK], never[BLOCK]; /* sign bits */

    for (size_t c = 0; c < BLOCK; c++)
        never_both[c] = never[c] = UINT64_MAX;
    for (size_t k = 0; k < count; k++) {
        for (size_t c = 0; c < n; c++) {
            const uint64_t out_a = bits_of_f64(a[k * stride + c]);
            const uint64_t out_b = bits_of_f64(b[k * stride + c]);

            never_both[c] &= out_a | out_b;
            never[c] &= out_a & out_b;
        }
    }
    for (size_t c = 0; c < n; c++)
        ret[c] = -((~never_both[c] | never[c]) >> 63);
}

static void see(size_t n, size_t stride, const double *a, const double *b, size_t count,
                uint64_t *ret)
{
    size_t c = 0;

    for (; c + BLOCK <= n; c += BLOCK)
        see_block(BLOCK, stride, a + c, b + c, count, ret + c);
    see_block(n - c, stride, a + c, b + c, count, ret + c);
}

/* Rows */

static void particle_loops_fill(size_t n, double *ret, double x)
{
    for (size_t c = 0; c < n; c++)
        ret[c] = x;
}

static void scale(size_t n, double *ret, double factor)
{
    for (size_t c = 0; c < n; c++)
        ret[c] *= factor;
}

static void divide(size_t n, double *ret, double by)
{
    for (size_t c = 0; c < n; c++)
        ret[c] /= by;
}

static void particle_loops_add(size_t n, double *restrict ret, double factor,
                               const double *restrict x, size_t count)
{
    for (size_t k = 0; k < count; k++) {
        for (size_t c = 0; c < n; c++)
            ret[c] += factor * x[k * n + c];
    }
}

static void sub(size_t n, double *restrict ret, const double *restrict a,
                const double *restrict b)
{
    for (size_t c = 0; c < n; c++)
        ret[c] = a[c] - b[c];
}

static void mix(size_t n, double *restrict ret, const double *restrict team, double ratio)
{
    for (size_t c = 0; c < n; c++)
        ret[c] = team[c] * (1.0 - ratio) + ret[c] * ratio;
}

static void particle_loops_choose(size_t n, double *restrict ret,
                                  const double *restrict goal, double number,
                                  const double *restrict x)
{
    for (size_t c = 0; c < n; c++)
        ret[c] = goal[c] == number ? x[c] : ret[c];
}

const struct particle_loops PARTICLE_LOOPS = {
    .isa = PARTICLE_ISA,
    .widen = widen,
    .move = move,
    .lean = lean,
    .word = word,
    .clip = clip,
    .push = push,
    .integrate = integrate,
    .cast = cast,
    .show = show,
    .dist = dist,
    .dist2 = dist2,
    .near = near,
    .touch = touch,
    .bounds = bounds,
    .see = see,
    .fill = particle_loops_fill,
    .scale = scale,
    .divide = divide,
    .add = particle_loops_add,
    .sub = sub,
    .mix = mix,
    .choose = particle_loops_choose,
};
