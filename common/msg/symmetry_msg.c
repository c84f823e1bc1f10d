#include "common/msg/symmetry_msg.h"

#include "common/err/check.h"

#include <string.h>

/* ---- building ---- */

/* Makes room for one more element in an array of n, whose capacity is the next power of
 * two. */
static void *grow(struct arena *arena, void *old, size_t n, size_t size)
{
    void *ret = old;

    if ((n & (n - 1)) != 0)
        return ret;
    ret = arena_alloc(arena, (n > 0 ? 2 * n : 1) * size);
    if (n > 0)
        memcpy(ret, old, n * size);
    return ret;
}

static size_t add_factor(struct symmetry_group *g, struct arena *arena,
                         struct symmetry_factor f)
{
    g->factors = grow(arena, g->factors, g->n_factors, sizeof(f));
    g->factors[g->n_factors] = f;
    return g->n_factors++;
}

size_t symmetry_add_orders(struct symmetry_group *g, struct arena *arena, uint32_t items)
{
    return add_factor(g, arena, (struct symmetry_factor){.items = items > 0 ? items : 1});
}

size_t symmetry_add_generators(struct symmetry_group *g, struct arena *arena,
                               uint32_t n_kinds, const uint32_t *widths,
                               uint32_t n_generators, const int32_t *codes)
{
    return add_factor(g, arena,
                      (struct symmetry_factor){.n_kinds = n_kinds,
                                               .n_generators = n_generators,
                                               .widths = widths,
                                               .codes = codes});
}

static int continues(const struct symmetry_run *last, const struct symmetry_run *run)
{
    return last->agent == run->agent && last->part == run->part &&
           last->kind == run->kind && last->width == run->width &&
           last->first + last->count * last->width == run->first;
}

void symmetry_add_run(struct symmetry_group *g, struct arena *arena, size_t factor,
                      const struct symmetry_run *run)
{
    struct symmetry_factor *f = &g->factors[factor];

    if (f->items == 0 && f->n_runs > 0 && continues(&f->runs[f->n_runs - 1], run)) {
        f->runs[f->n_runs - 1].count += run->count;
        return;
    }
    CHECK(f->items == 0 ? run->kind < f->n_kinds && run->width == f->widths[run->kind]
                        : run->count == f->items,
          "a run that is none of its factor's");
    f->runs = grow(arena, f->runs, f->n_runs, sizeof(*run));
    f->runs[f->n_runs++] = *run;
}

/* ---- packing ---- */

static size_t sum_of_widths(const struct symmetry_factor *f)
{
    size_t sum = 0;

    for (uint32_t k = 0; k < f->n_kinds; k++)
        sum += f->widths[k];
    return sum;
}

static void put_generators(struct msg_out *o, const struct symmetry_factor *f)
{
    const size_t width = sum_of_widths(f);

    msg_key(o, "widths");
    msg_array(o, f->n_kinds);
    for (uint32_t k = 0; k < f->n_kinds; k++)
        msg_u64(o, f->widths[k]);
    msg_key(o, "generators");
    msg_array(o, f->n_generators);
    for (uint32_t i = 0; i < f->n_generators; i++) {
        msg_array(o, width);
        for (size_t k = 0; k < width; k++)
            msg_i64(o, f->codes[i * width + k]);
    }
}

static void put_run(struct msg_out *o, const struct symmetry_run *run)
{
    const uint32_t numbers[] = {run->agent, run->part,  run->first,
                                run->count, run->width, run->kind};

    msg_array(o, 6);
    for (int i = 0; i < 6; i++)
        msg_u64(o, numbers[i]);
}

void msg_symmetry(struct msg_out *o, const struct symmetry_group *g)
{
    msg_array(o, g->n_factors);
    for (size_t i = 0; i < g->n_factors; i++) {
        const struct symmetry_factor *f = &g->factors[i];

        msg_map(o, f->items > 0 ? 2 : 3);
        if (f->items > 0) {
            msg_key(o, "items");
            msg_u64(o, f->items);
        } else {
            put_generators(o, f);
        }
        msg_key(o, "runs");
        msg_array(o, f->n_runs);
        for (size_t k = 0; k < f->n_runs; k++)
            put_run(o, &f->runs[k]);
    }
}

/* ---- unpacking ---- */

static int take_u32(const msgpack_object *o, uint64_t max, const char *what,
                    uint32_t *ret, struct err *err)
{
    if (o->type != MSGPACK_OBJECT_POSITIVE_INTEGER || o->via.u64 > max)
        return err_set(err, ERR_PROTOCOL, "%s: a number up to %llu expected", what,
                       (unsigned long long)max);
    *ret = (uint32_t)o->via.u64;
    return 0;
}

static int take_array(const msgpack_object *map, const char *key, uint32_t min,
                      uint32_t max, const msgpack_object **ret, struct err *err)
{
    int rc;

    *ret = NULL;
    if ((rc = msg_require(map, key, err)) < 0 ||
        (rc = msg_get_array(map, key, ret, err)) < 0)
        return rc;
    if ((*ret)->via.array.size < min)
        return err_set(err, ERR_PROTOCOL, "%s: %u, at least %u expected", key,
                       (*ret)->via.array.size, min);
    if ((*ret)->via.array.size > max)
        return err_set(err, ERR_LIMIT, "%s: %u, at most %u", key, (*ret)->via.array.size,
                       max);
    return 0;
}

static int take_widths(const msgpack_object *map, struct symmetry_factor *f,
                       struct arena *arena, struct err *err)
{
    const msgpack_object *list;
    uint32_t *widths;
    int rc = take_array(map, "widths", 1, SYMMETRY_MAX_KINDS, &list, err);

    if (rc < 0)
        return rc;
    f->n_kinds = list->via.array.size;
    f->widths = widths = ARENA_ARRAY(arena, uint32_t, f->n_kinds);
    for (uint32_t k = 0; k < f->n_kinds; k++) {
        rc = take_u32(&list->via.array.ptr[k], SYMMETRY_MAX_WIDTH, "widths", &widths[k],
                      err);
        if (rc < 0)
            return rc;
        if (widths[k] == 0)
            return err_set(err, ERR_PROTOCOL, "widths: 0");
    }
    return 0;
}

/* Reads a signed permutation for one kind of block: each of its `width` elements must
 * occur once. */
static int take_codes(const msgpack_object *codes, uint32_t width, int32_t *ret,
                      struct err *err)
{
    uint64_t seen = 0;

    for (uint32_t i = 0; i < width; i++) {
        const msgpack_object *o = &codes[i];
        int64_t from;

        if (o->type != MSGPACK_OBJECT_POSITIVE_INTEGER &&
            o->type != MSGPACK_OBJECT_NEGATIVE_INTEGER)
            return err_set(err, ERR_PROTOCOL, "generators: whole numbers expected");
        from = o->via.i64 < 0 ? ~o->via.i64 : o->via.i64;
        if (from >= width || (seen >> from & 1) != 0)
            return err_set(err, ERR_PROTOCOL, "generators: no signed permutation of %u",
                           width);
        seen |= UINT64_C(1) << from;
        ret[i] = (int32_t)o->via.i64;
    }
    return 0;
}

static int take_generators(const msgpack_object *map, struct symmetry_factor *f,
                           struct arena *arena, struct err *err)
{
    const msgpack_object *list;
    size_t width;
    int32_t *codes;
    int rc;

    if ((rc = take_widths(map, f, arena, err)) < 0 ||
        (rc = take_array(map, "generators", 1, SYMMETRY_MAX_GENERATORS, &list, err)) < 0)
        return rc;
    width = sum_of_widths(f);
    f->n_generators = list->via.array.size;
    f->codes = codes = ARENA_ARRAY(arena, int32_t, f->n_generators * width);
    for (uint32_t i = 0; i < f->n_generators; i++) {
        const msgpack_object *generator = &list->via.array.ptr[i];
        size_t at = 0;

        if (generator->type != MSGPACK_OBJECT_ARRAY || generator->via.array.size != width)
            return err_set(err, ERR_PROTOCOL, "generators: lists of %zu numbers expected",
                           width);
        for (uint32_t k = 0; k < f->n_kinds; at += f->widths[k++]) {
            rc = take_codes(generator->via.array.ptr + at, f->widths[k],
                            codes + i * width + at, err);
            if (rc < 0)
                return rc;
        }
    }
    return 0;
}

static int take_run(const msgpack_object *o, const struct symmetry_factor *f,
                    struct symmetry_run *ret, struct err *err)
{
    uint32_t *const numbers[] = {&ret->agent, &ret->part,  &ret->first,
                                 &ret->count, &ret->width, &ret->kind};

    if (o->type != MSGPACK_OBJECT_ARRAY || o->via.array.size != 6)
        return err_set(err, ERR_PROTOCOL, "runs: lists of 6 numbers expected");
    for (int i = 0; i < 6; i++) {
        int rc = take_u32(&o->via.array.ptr[i], INT32_MAX, "runs", numbers[i], err);

        if (rc < 0)
            return rc;
    }
    if (ret->part >= SYMMETRY_PARTS || ret->width == 0 ||
        (f->items > 0 ? ret->count != f->items
                      : ret->kind >= f->n_kinds || ret->width != f->widths[ret->kind]))
        return err_set(err, ERR_PROTOCOL, "runs: one that is none of its factor's");
    return 0;
}

static int take_runs(const msgpack_object *map, struct symmetry_factor *f, size_t *n_all,
                     struct arena *arena, struct err *err)
{
    const msgpack_object *list;
    int rc =
        take_array(map, "runs", 0, (uint32_t)(SYMMETRY_MAX_RUNS - *n_all), &list, err);

    if (rc < 0)
        return rc;
    f->n_runs = list->via.array.size;
    f->runs = ARENA_ARRAY(arena, struct symmetry_run, f->n_runs);
    for (size_t i = 0; i < f->n_runs; i++)
        if ((rc = take_run(&list->via.array.ptr[i], f, &f->runs[i], err)) < 0)
            return rc;
    *n_all += f->n_runs;
    return 0;
}

static int take_factor(const msgpack_object *map, struct symmetry_factor *f,
                       size_t *n_all, struct arena *arena, struct err *err)
{
    uint64_t items = 0;
    int rc;

    if (map->type != MSGPACK_OBJECT_MAP)
        return err_set(err, ERR_PROTOCOL, "a map expected");
    if ((rc = msg_get_u64(map, "items", UINT32_MAX, &items, err)) < 0)
        return rc;
    if (items > SYMMETRY_MAX_ITEMS)
        return err_set(err, ERR_LIMIT, "orders of %llu items, at most %d",
                       (unsigned long long)items, SYMMETRY_MAX_ITEMS);
    f->items = (uint32_t)items;
    if (items == 0 && (rc = take_generators(map, f, arena, err)) < 0)
        return rc;
    return take_runs(map, f, n_all, arena, err);
}

int msg_to_symmetry(const msgpack_object *list, struct symmetry_group *ret,
                    struct arena *arena, struct err *err)
{
    struct symmetry_group g = {0};
    size_t n_runs = 0, n_numbers = 0;

    if (list->type != MSGPACK_OBJECT_ARRAY)
        return err_set(err, ERR_PROTOCOL, "symmetry: a list expected");
    if (list->via.array.size > SYMMETRY_MAX_FACTORS)
        return err_set(err, ERR_LIMIT, "symmetry: %u factors, at most %d",
                       list->via.array.size, SYMMETRY_MAX_FACTORS);
    g.n_factors = list->via.array.size;
    g.factors = ARENA_ARRAY(arena, struct symmetry_factor, g.n_factors);
    for (size_t i = 0; i < g.n_factors; i++) {
        struct symmetry_factor *f = &g.factors[i];
        int rc = take_factor(&list->via.array.ptr[i], f, &n_runs, arena, err);

        if (rc < 0)
            return err_wrap(err, "symmetry: factor %zu", i), rc;
        n_numbers += f->items > 0 ? f->items - 1 : 1;
    }
    if (n_numbers > SYMMETRY_MAX_NUMBERS)
        return err_set(err, ERR_LIMIT, "symmetry: %zu numbers to draw, at most %d",
                       n_numbers, SYMMETRY_MAX_NUMBERS);
    *ret = g;
    return 0;
}
