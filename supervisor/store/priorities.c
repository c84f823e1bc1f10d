#include "supervisor/store/priorities.h"

#include "common/err/check.h"
#include "common/mem/xmalloc.h"
#include "common/numerics/elementary.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define LEAST_P 1e-6

/* Trees with 8 children per node, stored level by level: entry i of level k combines
 * entries 8i .. 8i + 7 of level k - 1. Level 0 has one entry per slot (0: the slot has
 * no candidate), the last level has one entry. The children of a node share a cache
 * line, because most of a draw's time is waiting for memory. */
enum { FAN = 8, LEVELS_MAX = 20, LEVELS_LEAST = 4 };

struct priorities {
    uint64_t capacity, head;
    double alpha, largest; /* largest: of all p, plus LEAST_P */
    uint64_t n;            /* candidates */
    int levels;
    double *sum[LEVELS_MAX];    /* [FAN^(levels - 1 - k)] */
    double *rarest[LEVELS_MAX]; /* 1 / the smallest share that is not 0 */
    double *scratch;            /* (2, places) of a draw */
    size_t places;
};

static double power(double x, double exponent)
{
    return exp_f64(exponent * log_f64(x));
}

static size_t entries(const struct priorities *p, int level)
{
    return (size_t)1 << 3 * (p->levels - 1 - level);
}

static double total_of(const struct priorities *p)
{
    return p->sum[p->levels - 1][0];
}

static double larger(double a, double b)
{
    return a > b ? a : b;
}

static void join(struct priorities *p, int level, size_t i)
{
    const double *s = p->sum[level - 1] + FAN * i, *m = p->rarest[level - 1] + FAN * i;

    p->sum[level][i] = ((s[0] + s[1]) + (s[2] + s[3])) + ((s[4] + s[5]) + (s[6] + s[7]));
    p->rarest[level][i] = larger(larger(larger(m[0], m[1]), larger(m[2], m[3])),
                                 larger(larger(m[4], m[5]), larger(m[6], m[7])));
}

static double *new_level(size_t n)
{
    void *x = mem_aligned(n * sizeof(double));

    CHECK(x != NULL, "no memory for the priorities of %zu rows", n);
    return memset(x, 0, n * sizeof(double));
}

/* Makes room for `slots` slots. In the larger tree, the old root is the first node of its
 * level and the other nodes of that level are 0, so that no sum changes. */
static void grow(struct priorities *p, uint64_t slots)
{
    while (p->levels < LEVELS_LEAST || entries(p, 0) < slots) {
        CHECK(p->levels < LEVELS_MAX);
        p->levels++;
        for (int k = 0; k < p->levels; k++) {
            const size_t n = entries(p, k);
            double *sum = new_level(n), *rarest = new_level(n);

            if (p->sum[k] != NULL) {
                memcpy(sum, p->sum[k], n / FAN * sizeof(*sum));
                memcpy(rarest, p->rarest[k], n / FAN * sizeof(*rarest));
            }
            free(p->sum[k]);
            free(p->rarest[k]);
            p->sum[k] = sum;
            p->rarest[k] = rarest;
        }
        if (p->levels > 1)
            join(p, p->levels - 1, 0);
    }
}

struct priorities *priorities_new(uint64_t capacity, double alpha)
{
    struct priorities *p = xcalloc(1, sizeof(*p));

    CHECK(capacity > 0 && alpha >= 0);
    p->capacity = capacity;
    p->alpha = alpha;
    p->largest = 1.0 + LEAST_P;
    grow(p, 1);
    return p;
}

void priorities_free(struct priorities *p)
{
    if (p == NULL)
        return;
    for (int k = 0; k < p->levels; k++) {
        free(p->sum[k]);
        free(p->rarest[k]);
    }
    free(p->scratch);
    free(p);
}

static int is_in_window(const struct priorities *p, uint64_t row)
{
    return row < p->head && p->head - row <= p->capacity;
}

static size_t slot_of(const struct priorities *p, uint64_t row)
{
    return (size_t)(row % p->capacity);
}

static double share_of(const struct priorities *p, uint64_t row)
{
    return p->sum[0][slot_of(p, row)];
}

/* Sets the share of the row; 0: the row is not a candidate. */
static void priorities_put(struct priorities *p, uint64_t row, double share)
{
    size_t i = slot_of(p, row);

    p->n += (share > 0) - (p->sum[0][i] > 0);
    p->sum[0][i] = share;
    p->rarest[0][i] = share > 0 ? 1.0 / share : 0.0;
    for (int k = 1; k < p->levels; k++)
        join(p, k, i /= FAN);
}

void priorities_begin(struct priorities *p, uint64_t head)
{
    CHECK(p->n == 0);
    p->head = head;
    grow(p, head < p->capacity ? head : p->capacity);
}

void priorities_append(struct priorities *p, uint64_t row, size_t n)
{
    const uint64_t head = row + n;

    CHECK(row == p->head);
    grow(p, head < p->capacity ? head : p->capacity);
    p->head = head;
    for (size_t i = 0; i < n; i++)
        if (share_of(p, row + i) > 0)
            priorities_put(p, row + i, 0);
}

void priorities_add(struct priorities *p, uint64_t row)
{
    CHECK(is_in_window(p, row));
    priorities_put(p, row, power(p->largest, p->alpha));
}

void priorities_set(struct priorities *p, const uint64_t *rows, const float *values,
                    size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const double x =
            isfinite(values[i]) ? (double)fabsf(values[i]) + LEAST_P : p->largest;

        if (!is_in_window(p, rows[i]) || share_of(p, rows[i]) == 0.0)
            continue;
        if (x > p->largest)
            p->largest = x;
        priorities_put(p, rows[i], power(x, p->alpha));
    }
}

uint64_t priorities_count(const struct priorities *p)
{
    return p->n;
}

double priorities_probability(const struct priorities *p, uint64_t row)
{
    return is_in_window(p, row) ? share_of(p, row) / total_of(p) : 0.0;
}

static int first_candidate(const double *sum)
{
    int c = 0;

    while (sum[c] == 0.0)
        c++;
    return c;
}

/* sum: the sums of a node's 8 children. Returns the child in which position *x of their
 * total lies, and makes *x relative to that child. Rounding may put *x past the last
 * candidate: a child without candidates is never returned. */
static size_t descend(const double *sum, double *x)
{
    double before[FAN + 1] = {0};
    int c = 0;

    for (int d = 0; d < FAN; d++)
        before[d + 1] = before[d] + sum[d];
    for (int d = 1; d < FAN; d++)
        c += *x >= before[d];
    while (sum[c] == 0.0)
        c = c > 0 ? c - 1 : first_candidate(sum);
    *x -= before[c];
    return (size_t)c;
}

/* ret_slots (n): the slots at the positions x (n) of the sum; x is modified. All n
 * searches go down one level before the next, and prefetch the memory that they need
 * there: one by one, each would wait for memory at every level. */
static void priorities_find(const struct priorities *p, double *x, uint64_t *ret_slots,
                            size_t n)
{
    memset(ret_slots, 0, n * sizeof(*ret_slots));
    for (int k = p->levels - 2; k >= 0; k--)
        for (size_t i = 0; i < n; i++) {
            ret_slots[i] =
                FAN * ret_slots[i] + descend(p->sum[k] + FAN * ret_slots[i], &x[i]);
            if (k > 0)
                __builtin_prefetch(p->sum[k - 1] + FAN * ret_slots[i]);
        }
}

/* The newest row of a slot. */
static uint64_t row_of(const struct priorities *p, size_t slot)
{
    const uint64_t newest = p->head - 1, last = newest % p->capacity;

    return newest - (slot <= last ? last - slot : last + p->capacity - slot);
}

void priorities_draw(struct priorities *p, struct rng_key key, uint64_t counter,
                     double beta, uint64_t *ret_rows, float *ret_weights, size_t n)
{
    const double total = total_of(p), rarest = p->rarest[p->levels - 1][0];
    double *u, *share;

    CHECK(p->n > 0);
    if (n > p->places) {
        free(p->scratch);
        p->scratch = xcalloc(2 * n, sizeof(*p->scratch));
        p->places = n;
    }
    u = p->scratch;
    share = u + n;
    rng_uniform_f64(key, counter, 0, u, n);
    for (size_t k = 0; k < n; k++)
        u[k] = ((double)k + u[k]) / (double)n * total;
    priorities_find(p, u, ret_rows, n);
    for (size_t k = 0; k < n; k++) {
        share[k] = p->sum[0][ret_rows[k]];
        ret_rows[k] = row_of(p, ret_rows[k]);
    }
    /* (n P)^-beta / (n Pmin)^-beta = (Pmin / P)^beta */
    for (size_t k = 0; k < n; k++)
        u[k] = power(1.0 / (rarest * share[k]), beta);
    for (size_t k = 0; k < n; k++)
        ret_weights[k] = (float)u[k];
}

/* ---- run.state ---- */

static uint64_t window_first(const struct priorities *p)
{
    return p->head < p->capacity ? 0 : p->head - p->capacity;
}

void priorities_save(const struct priorities *p, struct wbuf *b)
{
    wbuf_u64(b, bits_of_f64(p->largest));
    wbuf_u64(b, p->head);
    wbuf_u64(b, window_first(p));
    for (uint64_t row = window_first(p); row < p->head; row++)
        wbuf_u64(b, bits_of_f64(share_of(p, row)));
}

/* The sums equal those of the saved run, because each is computed from its children
 * alone. */
int priorities_load(struct priorities *p, uint64_t head, struct cursor *c)
{
    const double largest = f64_of_bits(cursor_u64(c));
    const uint64_t saved = cursor_u64(c), first = cursor_u64(c);

    if (c->failed || saved != head || first > head || !(largest > 0) ||
        cursor_left(c) / sizeof(uint64_t) < head - first)
        return 0;
    p->largest = largest;
    p->head = head;
    grow(p, head < p->capacity ? head : p->capacity);
    for (uint64_t row = first; row < head; row++) {
        const double sum = f64_of_bits(cursor_u64(c));

        if (!isfinite(sum) || sum < 0)
            return 0;
        if (row < window_first(p) || sum == 0.0)
            continue;
        p->sum[0][slot_of(p, row)] = sum;
        p->rarest[0][slot_of(p, row)] = 1.0 / sum;
        p->n++;
    }
    for (int k = 1; k < p->levels; k++)
        for (size_t i = 0; i < entries(p, k); i++)
            join(p, k, i);
    return !c->failed;
}
