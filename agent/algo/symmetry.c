#include "agent/algo/symmetry.h"

#include "agent/algo/algo.h"
#include "agent/algo/choices.h"
#include "common/err/check.h"
#include "common/mem/arena.h"
#include "common/mem/xmalloc.h"
#include "common/msg/symmetry_msg.h"
#include "common/numerics/cpu_features.h"

#include <stdlib.h>
#include <string.h>

#ifdef __x86_64__
#include <immintrin.h>
#endif

/* An element of the group is a list of digits, drawn independently, which act on a row one
 * after the other. A factor of generators is one digit: the number of an element. Orders of
 * n items are n - 1 digits: digit i (from 1) is a number j of 0 .. i, which swaps items i and
 * j; so every order occurs once (Fisher and Yates).
 *
 * For an agent, as many digits as fit become tables: where each element of the row comes
 * from, and its sign, for all values of the digits together. Swaps that do not fit are made
 * one by one. */

enum {
    TABLE_NUMBERS = 1 << 16, /* of an agent's tables, beyond which orders get none */
    LARGEST_TABLE = 1 << 24, /* of generators; its numbers are exact as floats */
    MOST_CODES = 1 << 22,    /* of the elements of all generators */
    DRAWN_AT_ONCE = 1024
};

struct digit {
    const struct symmetry_factor *factor;
    uint32_t radix;
    uint32_t item;           /* orders */
    const int32_t *elements; /* generators: (radix, sum of widths) codes */
};

/* A table of some of a view's digits; or, without a table, one digit of orders. */
struct step {
    size_t first, n_digits;    /* of the view's */
    size_t n;                  /* rows of the table: all values of the digits; 0: none */
    int32_t *from;             /* (n, O + U) */
    float *sign;               /* (n, O + U) */
    struct symmetry_run *runs; /* without a table: this agent's */
    size_t n_runs;
};

struct view { /* of one agent */
    int is_made;
    size_t n_digits, n_steps;
    uint32_t *digit, *place; /* [n_digits]: a table's row is the sum of place x value */
    struct step *steps;
    uint32_t *value; /* (n) rows of the only table, for `draw`; no such table: NULL */
    size_t room;     /* of value */
    uint64_t draw;
};

/* Rows to turn by a table. */
struct table_args {
    const int32_t *from;   /* (table, both) from the part's first element on */
    const float *sign;     /* the same */
    const uint32_t *value; /* (n) */
    size_t n, width, both;
};
struct symmetry {
    const struct symmetry_group *group;
    const struct space *agents;
    size_t n_agents;
    struct rng_key key;
    struct digit *digits;
    size_t n_digits;
    size_t n_codes;
    struct view *views;  /* [n_agents]: each made when it is first needed */
    float *row, *turned; /* (largest of all O and U): one row, before and after a table */
    struct arena arena;

    uint64_t draw; /* number of the newest draw */
    uint64_t counter, first;
    int has_left;    /* rows of it are shown as they are stored */
    size_t n, room;  /* rows drawn; rows there is room for */
    uint16_t *drawn; /* (n, n_digits) */
};

static size_t part_width(const struct space *s, uint32_t part)
{
    return (size_t)(part == SYMMETRY_OBS ? s->obs : s->width);
}

/* The sum of the widths of all kinds before `kind`. */
static size_t sum_of_widths(const struct symmetry_factor *f, uint32_t kind)
{
    size_t sum = 0;

    for (uint32_t k = 0; k < kind; k++)
        sum += f->widths[k];
    return sum;
}

/* ---- whether the group fits the agents ---- */

static int has_sign(const struct symmetry_factor *f, uint32_t kind)
{
    const size_t width = sum_of_widths(f, f->n_kinds);
    const int32_t *code = f->codes + sum_of_widths(f, kind);

    for (uint32_t g = 0; g < f->n_generators; g++, code += width)
        for (uint32_t i = 0; i < f->widths[kind]; i++)
            if (code[i] < 0)
                return 1;
    return 0;
}

/* A choice must remain a choice of the same head, and a number within its bounds. */
static int check_action(const struct symmetry_factor *f, const struct symmetry_run *run,
                        const struct space *s, struct err *err)
{
    const uint64_t end = run->first + (uint64_t)run->count * run->width;
    uint64_t head = 0;

    for (int h = 0; h < s->n_heads; h++) {
        head += (uint64_t)s->heads[h];
        if (run->first < head && end > head)
            return err_set(err, ERR_PROTOCOL, "a run across heads of %s's action",
                           s->name);
    }
    if (f->items == 0 && has_sign(f, run->kind) &&
        (!s->box || s->n_heads > 0 || s->low != -s->high))
        return err_set(err, ERR_PROTOCOL, "%s's actions have no opposites", s->name);
    return 0;
}

static int check_run(const struct symmetry *s, const struct symmetry_factor *f,
                     const struct symmetry_run *run, struct err *err)
{
    const struct space *space;

    if (run->agent >= s->n_agents)
        return err_set(err, ERR_PROTOCOL, "a run of agent %u of %zu", run->agent,
                       s->n_agents);
    space = &s->agents[run->agent];
    if (run->first + (uint64_t)run->count * run->width > part_width(space, run->part))
        return err_set(err, ERR_PROTOCOL, "a run outside %s's %s", space->name,
                       run->part == SYMMETRY_OBS ? "observation" : "action");
    return run->part == SYMMETRY_ACTION ? check_action(f, run, space, err) : 0;
}

/* ---- digits ---- */

/* product = generator g after the element. */
static void multiply(const struct symmetry_factor *f, uint32_t g, size_t width,
                     const int32_t *element, int32_t *product)
{
    const int32_t *code = f->codes + g * width;

    for (uint32_t k = 0; k < f->n_kinds; k++) {
        for (uint32_t i = 0; i < f->widths[k]; i++)
            product[i] = code[i] >= 0 ? element[code[i]] : ~element[~code[i]];
        code += f->widths[k];
        element += f->widths[k];
        product += f->widths[k];
    }
}

/* Appends products until no new one appears. Element 0 changes nothing. Returns their
 * number, or one more than SYMMETRY_MAX_ITEMS. */
static size_t generate(const struct symmetry_factor *f, size_t width, int32_t *elements)
{
    size_t n = 1;

    for (size_t at = 0, k = 0; k < f->n_kinds; at += f->widths[k++])
        for (uint32_t i = 0; i < f->widths[k]; i++)
            elements[at + i] = (int32_t)i;
    for (size_t e = 0; e < n; e++)
        for (uint32_t g = 0; g < f->n_generators && n <= SYMMETRY_MAX_ITEMS; g++) {
            int32_t *product = elements + n * width;
            size_t same = 0;

            multiply(f, g, width, elements + e * width, product);
            while (memcmp(elements + same * width, product, width * sizeof(*product)) !=
                   0)
                same++;
            n += same == n ? 1 : 0;
        }
    return n;
}

static int add_generators(struct symmetry *s, const struct symmetry_factor *f,
                          struct err *err)
{
    const size_t width = sum_of_widths(f, f->n_kinds);
    int32_t *elements = xcalloc((SYMMETRY_MAX_ITEMS + 1) * width, sizeof(*elements));
    const size_t n = generate(f, width, elements);
    int r = 0;

    s->n_codes += n * width;
    if (n > SYMMETRY_MAX_ITEMS)
        r = err_set(err, ERR_LIMIT, "generators of more than %d elements",
                    SYMMETRY_MAX_ITEMS);
    else if (s->n_codes > MOST_CODES)
        r = err_set(err, ERR_LIMIT, "elements of more than %d numbers", MOST_CODES);
    else
        s->digits[s->n_digits++] = (struct digit){
            .factor = f,
            .radix = (uint32_t)n,
            .elements = arena_memdup(&s->arena, elements, n * width * sizeof(*elements))};
    free(elements);
    return r;
}

/* Generators must become tables. Refuses tables that would be too large. */
static int check_tables(const struct symmetry *s, const struct symmetry_factor *f,
                        uint32_t radix, struct err *err)
{
    for (size_t i = 0; i < f->n_runs; i++) {
        const struct space *a = &s->agents[f->runs[i].agent];

        if ((a->obs + a->width) * radix > LARGEST_TABLE)
            return err_set(err, ERR_LIMIT, "%u elements for %lld numbers of %s", radix,
                           (long long)(a->obs + a->width), a->name);
    }
    return 0;
}

static int add_factor(struct symmetry *s, const struct symmetry_factor *f,
                      struct err *err)
{
    int r = 0;

    for (size_t i = 0; i < f->n_runs; i++)
        if ((r = check_run(s, f, &f->runs[i], err)) < 0)
            return r;
    if (f->items == 0) {
        r = add_generators(s, f, err);
        return r < 0 ? r : check_tables(s, f, s->digits[s->n_digits - 1].radix, err);
    }
    for (uint32_t item = 1; item < f->items; item++)
        s->digits[s->n_digits++] =
            (struct digit){.factor = f, .radix = item + 1, .item = item};
    return 0;
}

static int make_digits(struct symmetry *s, struct err *err)
{
    const struct symmetry_group *g = s->group;
    size_t room = 0;

    for (size_t i = 0; i < g->n_factors; i++)
        room += g->factors[i].items > 0 ? g->factors[i].items - 1 : 1;
    s->digits = ARENA_ARRAY(&s->arena, struct digit, room);
    for (size_t i = 0; i < g->n_factors; i++) {
        int r = add_factor(s, &g->factors[i], err);

        if (r < 0)
            return err_wrap(err, "symmetry: factor %zu", i), r;
    }
    return 0;
}

int symmetry_new(struct symmetry **ret, const struct symmetry_group *group,
                 const struct space *agents, size_t n_agents, struct rng_key key,
                 struct err *err)
{
    struct symmetry *s = xcalloc(1, sizeof(*s));
    size_t widest = 0;
    int r;

    *s = (struct symmetry){
        .group = group, .agents = agents, .n_agents = n_agents, .key = key};
    r = make_digits(s, err);
    if (r < 0) {
        symmetry_free(s);
        return r;
    }
    for (size_t a = 0; a < n_agents; a++)
        for (uint32_t part = 0; part < SYMMETRY_PARTS; part++)
            if (part_width(&agents[a], part) > widest)
                widest = part_width(&agents[a], part);
    s->views = ARENA_ARRAY(&s->arena, struct view, n_agents);
    s->row = ARENA_ARRAY(&s->arena, float, widest);
    s->turned = ARENA_ARRAY(&s->arena, float, widest);
    *ret = s;
    return 0;
}

void symmetry_free(struct symmetry *s)
{
    if (s == NULL)
        return;
    for (size_t a = 0; s->views != NULL && a < s->n_agents; a++)
        free(s->views[a].value);
    free(s->drawn);
    arena_done(&s->arena);
    free(s);
}

/* ---- an agent's tables ---- */

static void swap_blocks(float *x, const struct symmetry_run *run, size_t i, size_t j)
{
    float *a = x + run->first + i * run->width, *b = x + run->first + j * run->width;

    for (uint32_t k = 0; k < run->width; k++) {
        const float was = a[k];

        a[k] = b[k];
        b[k] = was;
    }
}

/* Turns the inside of each block by an element of the factor's generators. */
static void turn_blocks(float *x, const struct digit *d, const struct symmetry_run *run,
                        uint32_t element)
{
    const int32_t *code = d->elements +
                          element * sum_of_widths(d->factor, d->factor->n_kinds) +
                          sum_of_widths(d->factor, run->kind);
    float block[SYMMETRY_MAX_WIDTH];

    x += run->first;
    for (uint32_t b = 0; b < run->count; b++, x += run->width) {
        memcpy(block, x, run->width * sizeof(*x));
        for (uint32_t i = 0; i < run->width; i++)
            x[i] = code[i] >= 0 ? block[code[i]] : -block[~code[i]];
    }
}

/* The runs of a factor that concern this agent; ret NULL: only counts them. */
static size_t runs_of(const struct symmetry_factor *f, size_t agent,
                      struct symmetry_run *ret)
{
    size_t n = 0;

    for (size_t i = 0; i < f->n_runs; i++) {
        if (f->runs[i].agent != agent)
            continue;
        if (ret != NULL)
            ret[n] = f->runs[i];
        n++;
    }
    return n;
}

/* Fills row k of a table: turns a row that holds the numbers 1, 2, ... of its places,
 * which then shows where each element comes from. */
static void fill_row(struct symmetry *s, const struct view *v, const struct step *t,
                     size_t agent, size_t k)
{
    const struct space *space = &s->agents[agent];
    size_t at = k * (size_t)(space->obs + space->width);

    for (uint32_t part = 0; part < SYMMETRY_PARTS; part++) {
        const size_t width = part_width(space, part);
        float *row = s->row;

        for (size_t i = 0; i < width; i++)
            row[i] = (float)(i + 1);
        for (size_t i = t->first; i < t->first + t->n_digits; i++) {
            const struct digit *d = &s->digits[v->digit[i]];
            const uint32_t value = (uint32_t)(k / v->place[i] % d->radix);

            for (size_t r = 0; r < d->factor->n_runs; r++) {
                const struct symmetry_run *run = &d->factor->runs[r];

                if (run->agent == agent && run->part == part && d->elements != NULL)
                    turn_blocks(row, d, run, value);
                else if (run->agent == agent && run->part == part)
                    swap_blocks(row, run, d->item, value);
            }
        }
        for (size_t i = 0; i < width; i++, at++) {
            t->from[at] = (int32_t)(row[i] < 0 ? -row[i] : row[i]) - 1;
            t->sign[at] = row[i] < 0 ? -1.0f : 1.0f;
        }
    }
}

static void make_step(struct symmetry *s, const struct view *v, struct step *t,
                      size_t agent)
{
    const struct symmetry_factor *f = s->digits[v->digit[t->first]].factor;
    const size_t both = (size_t)(s->agents[agent].obs + s->agents[agent].width);

    if (t->n == 0) {
        t->n_runs = runs_of(f, agent, NULL);
        t->runs = ARENA_ARRAY(&s->arena, struct symmetry_run, t->n_runs);
        (void)runs_of(f, agent, t->runs);
        return;
    }
    t->from = ARENA_ARRAY(&s->arena, int32_t, t->n * both);
    t->sign = ARENA_ARRAY(&s->arena, float, t->n *both);
    for (size_t k = 0; k < t->n; k++)
        fill_row(s, v, t, agent, k);
}

/* Adds a digit: to the last table, to a new one, or as a step of its own. room: numbers that
 * tables may still have. */
static void add_digit(struct symmetry *s, struct view *v, uint32_t digit, size_t both,
                      size_t *room)
{
    const struct digit *d = &s->digits[digit];
    struct step *t = v->n_steps > 0 ? &v->steps[v->n_steps - 1] : NULL;
    size_t more = t != NULL ? t->n * (d->radix - 1) * both : 0;

    if (more == 0 || more > *room) {
        t = &v->steps[v->n_steps++];
        t->first = v->n_digits;
        more = d->radix * both;
        t->n = d->elements != NULL || more <= *room ? 1 : 0;
    }
    if (t->n > 0)
        *room -= more < *room ? more : *room;
    v->digit[v->n_digits] = digit;
    v->place[v->n_digits++] = (uint32_t)t->n;
    t->n_digits++;
    t->n *= d->radix;
}

static void make_view(struct symmetry *s, size_t agent)
{
    struct view *v = &s->views[agent];
    const size_t both = (size_t)(s->agents[agent].obs + s->agents[agent].width);
    size_t room = TABLE_NUMBERS;

    v->is_made = 1;
    v->steps = ARENA_ARRAY(&s->arena, struct step, s->n_digits);
    v->digit = ARENA_ARRAY(&s->arena, uint32_t, s->n_digits);
    v->place = ARENA_ARRAY(&s->arena, uint32_t, s->n_digits);
    for (size_t d = 0; d < s->n_digits; d++)
        if (s->digits[d].radix > 1 && runs_of(s->digits[d].factor, agent, NULL) > 0)
            add_digit(s, v, (uint32_t)d, both, &room);
    for (size_t i = 0; i < v->n_steps; i++)
        make_step(s, v, &v->steps[i], agent);
}

/* ---- draws ---- */

static int reserve(struct symmetry *s, size_t n, struct err *err)
{
    size_t bytes = 0;

    if (n <= s->room)
        return 0;
    free(s->drawn);
    s->drawn = NULL;
    s->room = s->n = 0;
    if (mem_mul(n, s->n_digits * sizeof(*s->drawn), &bytes))
        s->drawn = mem_aligned(bytes > 0 ? bytes : 1);
    if (s->drawn == NULL)
        return err_set(err, ERR_NOMEM, "no memory for the symmetries of %zu rows", n);
    s->room = n;
    return 0;
}

int symmetry_draw(struct symmetry *s, uint64_t counter, uint64_t first, size_t n,
                  struct err *err)
{
    size_t digit = 0;
    int r;

    if (s == NULL ||
        (n == s->n && counter == s->counter && first == s->first && !s->has_left))
        return 0;
    if ((r = reserve(s, n, err)) < 0)
        return r;
    for (size_t done = 0, take; done < n * s->n_digits; done += take) {
        float u[DRAWN_AT_ONCE];

        take = n * s->n_digits - done;
        take = take < DRAWN_AT_ONCE ? take : DRAWN_AT_ONCE;
        rng_uniform_f32(s->key, counter, first * s->n_digits + done, u, take);
        for (size_t i = 0; i < take; i++) {
            const uint32_t radix = s->digits[digit].radix;
            const uint32_t value = (uint32_t)(u[i] * (float)radix);

            /* the product may be rounded up to the radix */
            s->drawn[done + i] = (uint16_t)(value < radix ? value : radix - 1);
            digit = digit + 1 < s->n_digits ? digit + 1 : 0;
        }
    }
    s->draw++;
    s->counter = counter;
    s->first = first;
    s->n = n;
    s->has_left = 0;
    return 0;
}

/* Each digit gets the value that changes nothing: element 0, or the item's own place. */
void symmetry_leave(struct symmetry *s, size_t i)
{
    if (s == NULL)
        return;
    CHECK(i < s->n, "row %zu of a draw of %zu", i, s->n);
    for (size_t d = 0; d < s->n_digits; d++)
        s->drawn[i * s->n_digits + d] = (uint16_t)s->digits[d].item;
    s->has_left = 1;
    s->draw++;
}

/* ---- turning rows ---- */

/* The table's row for the digits drawn for one row. */
static size_t row_of_table(const struct view *v, const struct step *t,
                           const uint16_t *drawn)
{
    size_t k = 0;

    for (size_t d = t->first; d < t->first + t->n_digits; d++)
        k += (size_t)v->place[d] * drawn[v->digit[d]];
    return k;
}

/* Turns s->row: `width` elements of an agent's observation and action, from `at` on. */
static void turn_row(struct symmetry *s, const struct view *v, const uint16_t *drawn,
                     uint32_t part, size_t at, size_t width, size_t both)
{
    for (const struct step *t = v->steps; t < v->steps + v->n_steps; t++) {
        float *row = s->row, *turned = s->turned;
        const int32_t *from;
        const float *sign;
        size_t k;

        if (t->n == 0) {
            const uint32_t d = v->digit[t->first];

            for (size_t r = 0; r < t->n_runs; r++)
                if (t->runs[r].part == part)
                    swap_blocks(row, &t->runs[r], s->digits[d].item, drawn[d]);
            continue;
        }
        k = row_of_table(v, t, drawn);
        from = t->from + k * both + at;
        sign = t->sign + k * both + at;
        for (size_t i = 0; i < width; i++)
            turned[i] = row[from[i]] * sign[i];
        s->row = turned;
        s->turned = row;
    }
}

static void turn(struct symmetry *s, size_t agent, uint32_t part, size_t row)
{
    const struct space *space = &s->agents[agent];

    turn_row(s, &s->views[agent], s->drawn + row * s->n_digits, part,
             part == SYMMETRY_OBS ? 0 : (size_t)space->obs, part_width(space, part),
             (size_t)(space->obs + space->width));
}

/* Turns rows of a view that has a single table. */
static void by_table(const struct table_args *t, float *x, size_t stride,
                     float *restrict row)
{
    for (size_t i = 0; i < t->n; i++, x += stride) {
        const int32_t *from = t->from + t->value[i] * t->both;
        const float *sign = t->sign + t->value[i] * t->both;

        for (size_t k = 0; k < t->width; k++)
            row[k] = x[k];
        for (size_t k = 0; k < t->width; k++)
            x[k] = row[from[k]] * sign[k];
    }
}

#ifdef __x86_64__
enum { AVX512_WIDTH = 32 };

/* Turns rows that fit into two registers. */
__attribute__((target("avx512f"))) static void by_table_avx512(const struct table_args *t,
                                                               float *x, size_t stride)
{
    const size_t n_high = t->width > 16 ? t->width - 16 : 0;
    const __mmask16 low = (__mmask16)((1u << (t->width - n_high)) - 1);
    const __mmask16 high = (__mmask16)((1u << n_high) - 1);

    for (size_t i = 0; i < t->n; i++, x += stride) {
        const int32_t *from = t->from + t->value[i] * t->both;
        const float *sign = t->sign + t->value[i] * t->both;
        const __m512 a = _mm512_maskz_loadu_ps(low, x);
        const __m512 b = _mm512_maskz_loadu_ps(high, x + 16);
        const __m512 c =
            _mm512_permutex2var_ps(a, _mm512_maskz_loadu_epi32(low, from), b);

        _mm512_mask_storeu_ps(x, low, _mm512_mul_ps(c, _mm512_maskz_loadu_ps(low, sign)));
        if (n_high > 0) {
            const __m512 d =
                _mm512_permutex2var_ps(a, _mm512_maskz_loadu_epi32(high, from + 16), b);

            _mm512_mask_storeu_ps(
                x + 16, high, _mm512_mul_ps(d, _mm512_maskz_loadu_ps(high, sign + 16)));
        }
    }
}
#endif

static void turn_by_table(const struct table_args *t, float *x, size_t stride, float *row)
{
#ifdef __x86_64__
    if (t->width <= AVX512_WIDTH && cpu_has(x86_cpu_AVX512F)) {
        by_table_avx512(t, x, stride);
        return;
    }
#endif
    by_table(t, x, stride, row);
}

static void symmetry_begin(struct symmetry *s, size_t agent, size_t n)
{
    struct view *v = &s->views[agent];

    CHECK(n <= s->n, "%zu rows of a draw of %zu", n, s->n);
    if (!v->is_made)
        make_view(s, agent);
    if (v->n_steps != 1 || v->steps[0].n == 0 || v->draw == s->draw)
        return;
    if (s->n > v->room) {
        v->value = xreallocarray(v->value, s->room, sizeof(*v->value));
        v->room = s->room;
    }
    for (size_t i = 0; i < s->n; i++)
        v->value[i] = (uint32_t)row_of_table(v, &v->steps[0], s->drawn + i * s->n_digits);
    v->draw = s->draw;
}

static void turn_rows(struct symmetry *s, size_t agent, uint32_t part, size_t n, float *x,
                      size_t stride)
{
    const size_t bytes = part_width(&s->agents[agent], part) * sizeof(*x);
    const struct view *v = &s->views[agent];

    symmetry_begin(s, agent, n);
    if (v->value != NULL) {
        const size_t at = part == SYMMETRY_OBS ? 0 : (size_t)s->agents[agent].obs;
        const struct table_args t = {
            .from = v->steps[0].from + at,
            .sign = v->steps[0].sign + at,
            .value = v->value,
            .n = n,
            .width = bytes / sizeof(*x),
            .both = (size_t)(s->agents[agent].obs + s->agents[agent].width)};

        turn_by_table(&t, x, stride, s->row);
        return;
    }
    for (size_t i = 0; i < n; i++, x += stride) {
        memcpy(s->row, x, bytes);
        turn(s, agent, part, i);
        memcpy(x, s->row, bytes);
    }
}

void symmetry_obs(struct symmetry *s, size_t agent, size_t n, float *x, size_t stride)
{
    if (s != NULL)
        turn_rows(s, agent, SYMMETRY_OBS, n, x, stride);
}

void symmetry_action(struct symmetry *s, size_t agent, size_t n, float *x, size_t stride)
{
    if (s != NULL)
        turn_rows(s, agent, SYMMETRY_ACTION, n, x, stride);
}

void symmetry_mask(struct symmetry *s, size_t agent, size_t n, uint8_t *x)
{
    if (s == NULL)
        return;
    symmetry_begin(s, agent, n);
    for (size_t i = 0; i < n; i++, x += s->agents[agent].width) {
        for (int64_t k = 0; k < s->agents[agent].width; k++)
            s->row[k] = x[k];
        turn(s, agent, SYMMETRY_ACTION, i);
        for (int64_t k = 0; k < s->agents[agent].width; k++)
            x[k] = s->row[k] != 0;
    }
}
