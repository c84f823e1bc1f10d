/* Places the values that a run computes in one buffer. Values that are never alive at the
 * same time share memory, and a loop may overwrite an operand that it is the last to
 * use. */
#include "agent/plan/plan.h"

#include <stdlib.h>
#include <string.h>

#define ALIGN 64u

static const struct stretch *stretch_of(const struct plan *p, int step)
{
    for (int i = 0; i < p->n_stretches; i++) {
        const struct stretch *t = &p->stretches[i];

        if (step >= t->first && step < t->first + t->n)
            return t;
    }
    return NULL;
}

static void touch(struct plan *p, int v, int step)
{
    if (v < 0)
        return;
    struct value *r = &p->values[p->values[v].root];
    if (r->kind != VALUE_BUFFER)
        return;
    if (r->first < 0 || step < r->first)
        r->first = step;
    r->last = step > r->last ? step : r->last;
}

/* Extends the value's life to a step. In a stretch all steps run for each chunk, so a
 * value that is stored for more than one chunk is alive during the whole stretch. */
static void touch_in(struct plan *p, int v, int step)
{
    const struct stretch *t =
        v < 0 || p->values[v].local_rows > 0 ? NULL : stretch_of(p, step);

    touch(p, v, t != NULL ? t->first : step);
    touch(p, v, t != NULL ? t->first + t->n - 1 : step);
}

static void touch_loop(struct plan *p, const struct loop_program *l, int step)
{
    if (l->has_gemm) {
        touch_in(p, l->gemm_a, step);
        touch_in(p, l->gemm_b, step);
        touch_in(p, l->gemm_c, step);
        touch_in(p, l->gemm_bias, step);
        touch_in(p, l->gemm_feature, step);
    }
    for (int i = 0; i < l->n_args; i++)
        if (l->args[i].kind != ARG_TEMP && l->args[i].kind != ARG_RAW)
            touch_in(p, l->args[i].value, step);
    for (int i = 0; i < l->n_tails; i++)
        touch_in(p, l->tails[i].value, step);
    touch_in(p, l->scratch, step);
}

static void find_lives(struct plan *p)
{
    for (int v = 0; v < p->n_values; v++)
        p->values[v].first = p->values[v].last = -1;
    for (int k = 0; k < p->n_steps; k++) {
        const struct step *s = &p->steps[k];

        if (s->loop != NULL)
            touch_loop(p, s->loop, k);
        for (int i = 0; i < s->n_in; i++)
            touch_in(p, s->in[i], k);
        for (int i = 0; i < s->n_out; i++)
            touch_in(p, s->out[i], k);
    }
    for (size_t i = 0; i < p->n_fetches; i++)
        touch(p, p->fetch_values[i], p->n_steps);
    for (int k = 0; k < p->n_guards; k++)
        for (int i = 0; i < p->guards[k].n; i++)
            touch(p, p->guards[k].conditions[i].value, p->n_steps);
}

/* ---- results that reuse the memory of dying operands ---- */

static int representative(const struct plan *p, int v)
{
    while (p->values[v].shares_with != v)
        v = p->values[v].shares_with;
    return v;
}

static int is_root(const struct plan *p, int v, int root)
{
    return v >= 0 && p->values[v].root == root;
}

/* Whether the result of instruction `at` may overwrite arg x, which nothing reads later. */
static int dies_in_loop(const struct plan *p, const struct loop_program *l, int step,
                        int x, int at)
{
    const struct value *v = &p->values[l->args[x].value], *r = &p->values[v->root];

    if (l->args[x].kind != ARG_FULL || r->kind != VALUE_BUFFER || r->first >= step ||
        p->values[representative(p, v->root)].last != step || v->offset != 0 ||
        tensor_bytes(&v->tensor) != tensor_bytes(&r->tensor))
        return 0;
    /* in a stretch, earlier steps may read other rows of it in a later chunk */
    if (v->local_rows == 0 && stretch_of(p, step) != NULL)
        return 0;
    if (l->has_gemm &&
        (is_root(p, l->gemm_a, v->root) || is_root(p, l->gemm_b, v->root) ||
         is_root(p, l->gemm_bias, v->root) || is_root(p, l->gemm_feature, v->root)))
        return 0;
    for (int i = 0; i < l->n_args; i++)
        if (i != x && l->args[i].kind != ARG_TEMP && l->args[i].kind != ARG_RAW &&
            p->values[l->args[i].value].root == v->root)
            return 0;
    for (int i = at + 1; i < l->n_instrs; i++)
        for (int k = 0; k < 3; k++)
            if (l->instrs[i].src[k] == x)
                return 0;
    for (int i = 0; i < l->n_tails; i++)
        if (l->tails[i].arg == x)
            return 0;
    return 1;
}

static void share_places(struct plan *p)
{
    for (int k = 0; k < p->n_steps; k++) {
        const struct loop_program *l = p->steps[k].loop;

        for (int i = 0; l != NULL && i < l->n_instrs; i++) {
            const struct loop_arg *d = &l->args[l->instrs[i].dst];

            /* the product is stored there from the start, so no operand may be */
            if (d->kind != ARG_FULL || (l->has_gemm && d->value == l->gemm_c))
                continue;
            struct value *result = &p->values[d->value];
            for (int x = 0; x < l->n_args; x++) {
                if (!dies_in_loop(p, l, k, x, i) ||
                    p->values[l->args[x].value].local_rows != result->local_rows ||
                    tensor_bytes(&p->values[l->args[x].value].tensor) !=
                        tensor_bytes(&result->tensor))
                    continue;
                int rep = representative(p, p->values[l->args[x].value].root);
                result->shares_with = rep;
                p->values[rep].last = result->last;
                break;
            }
        }
    }
}

/* ---- placement, the largest value first, each as low as it fits ---- */

struct plot {
    int value, first, last;
    size_t bytes, place;
};

static int by_size(const void *a, const void *b)
{
    const struct plot *x = a, *y = b;

    if (x->bytes != y->bytes)
        return x->bytes < y->bytes ? 1 : -1;
    return x->value - y->value;
}

/* Returns the lowest gap that is large enough. placed: sorted by place. */
static size_t lowest_gap(const struct plot *placed, int n, const struct plot *x)
{
    size_t at = 0;

    for (int i = 0; i < n; i++) {
        const struct plot *q = &placed[i];

        if (q->last < x->first || q->first > x->last)
            continue;
        if (at + x->bytes <= q->place)
            break;
        at = q->place + q->bytes > at ? q->place + q->bytes : at;
    }
    return at;
}

/* ---- placement of very many values, step by step ---- */

/* With at most this many values, the placement above is used: it needs less memory, but
 * compares all pairs. */
#define MANY 4096

enum { SIZE_CLASSES = 64 };

static int size_class(size_t bytes)
{
    return 64 - __builtin_clzll(bytes - 1);
}

/* Plots by their first or last step: the list of step n begins at heads[n]. */
struct by_step {
    int *heads, *next;
};

static struct by_step list_by_step(const struct plot *plots, int n, int n_steps, int last,
                                   struct arena *scratch)
{
    struct by_step l = {ARENA_ARRAY(scratch, int, n_steps + 1),
                        ARENA_ARRAY(scratch, int, n + 1)};

    memset(l.heads, -1, sizeof(int) * (size_t)(n_steps + 1));
    for (int i = n - 1; i >= 0; i--) {
        const int at = last ? plots[i].last : plots[i].first;

        l.next[i] = l.heads[at];
        l.heads[at] = i;
    }
    return l;
}

/* Sizes are rounded up to powers of two; a plot reuses the place of its size that became
 * free last. */
static void place_by_step(struct plan *p, struct plot *plots, int n,
                          struct arena *scratch)
{
    const struct by_step firsts = list_by_step(plots, n, p->n_steps, 0, scratch);
    const struct by_step lasts = list_by_step(plots, n, p->n_steps, 1, scratch);
    int *next_free = ARENA_ARRAY(scratch, int, n + 1), heads[SIZE_CLASSES + 1];

    memset(heads, -1, sizeof(heads));
    for (int k = 0; k <= p->n_steps; k++) {
        for (int i = firsts.heads[k]; i >= 0; i = firsts.next[i]) {
            const int c = size_class(plots[i].bytes), free_one = heads[c];

            if (free_one >= 0) {
                plots[i].place = plots[free_one].place;
                heads[c] = next_free[free_one];
            } else {
                plots[i].place = p->buffer_bytes;
                p->buffer_bytes += (size_t)1 << c;
            }
            p->values[plots[i].value].place = plots[i].place;
        }
        for (int i = lasts.heads[k]; i >= 0; i = lasts.next[i]) {
            const int c = size_class(plots[i].bytes);

            next_free[i] = heads[c];
            heads[c] = i;
        }
    }
}

static void place_by_size(struct plan *p, struct plot *plots, int n,
                          struct arena *scratch)
{
    struct plot *placed = ARENA_ARRAY(scratch, struct plot, n + 1);

    qsort(plots, (size_t)n, sizeof(*plots), by_size);
    for (int i = 0; i < n; i++) {
        struct plot *x = &plots[i];
        int at = i;

        x->place = lowest_gap(placed, i, x);
        for (; at > 0 && placed[at - 1].place > x->place; at--)
            placed[at] = placed[at - 1];
        placed[at] = *x;
        p->values[x->value].place = x->place;
        if (x->place + x->bytes > p->buffer_bytes)
            p->buffer_bytes = x->place + x->bytes;
    }
}

void plan_memory(struct plan *p, struct arena *scratch)
{
    struct plot *plots = ARENA_ARRAY(scratch, struct plot, p->n_values + 1);
    int n = 0;

    find_lives(p);
    share_places(p);
    for (int v = 0; v < p->n_values; v++) {
        const struct value *x = &p->values[v];
        size_t bytes = tensor_bytes(&x->tensor);

        if (x->local_rows > DENSE_BLOCK)
            bytes = bytes / (size_t)x->local_rows * DENSE_BLOCK;
        bytes = (bytes + ALIGN - 1) & ~(size_t)(ALIGN - 1);
        if (x->kind == VALUE_BUFFER && x->root == v && x->shares_with == v &&
            x->first >= 0)
            plots[n++] = (struct plot){v, x->first, x->last, bytes ? bytes : ALIGN, 0};
    }
    if (n <= MANY)
        place_by_size(p, plots, n, scratch);
    else
        place_by_step(p, plots, n, scratch);
    for (int v = 0; v < p->n_values; v++)
        p->values[v].place = p->values[representative(p, p->values[v].root)].place;
}
