#include "agent/session/plan.h"
#include "common/err/check.h"
#include "common/mem/xmalloc.h"

#include <stdlib.h>
#include <string.h>
#include <wchar.h>
#ifdef __SSE2__
#include <xmmintrin.h>
#endif

#define MAX_ARGS  128
#define MAX_TAILS 24

_Static_assert(sizeof(wchar_t) == 4, "wmemset lays words");

/* ---- loops ---- */

struct loop_state {
    const struct loop_program *l;
    struct value *values;
    char *scratch;
    char *at[MAX_ARGS];   /* each arg in the current block */
    char *base[MAX_ARGS]; /* where a full operand begins */
    float lanes[MAX_TAILS][SUM_LANES];
};

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* dst[0 .. n) = src[(start + i) % period]; what lies there already is doubled. */
static void lay_period(char *dst, const char *src, size_t start, size_t n, size_t period,
                       size_t elem)
{
    size_t from = start % period;
    size_t rest = smaller(period - from, n); /* of the row that `start` falls into */
    size_t done = smaller(rest + period, n);
    memcpy(dst, src + from * elem, rest * elem);
    memcpy(dst + rest * elem, src, (done - rest) * elem);
    while (done < n) {
        size_t len = smaller(done - rest, n - done);
        memcpy(dst + done * elem, dst + rest * elem, len * elem);
        done += len;
    }
}

static void lay_same(char *dst, const char *src, size_t n, size_t elem)
{
    if (elem == 4) {
        wchar_t x;
        memcpy(&x, src, 4);
        (void)wmemset((wchar_t *)(void *)dst, x, n);
    } else if (elem == 1) {
        memset(dst, *src, n);
    } else {
        for (size_t i = 0; i < n; i++)
            memcpy(dst + i * elem, src, elem);
    }
}

#define SHORT_ROW 16

/* The same for words, where rows are shorter than that and begin with the block. What
 * runs over into the place of the next row is overwritten with it. */
static void lay_short_rows(uint32_t *dst, const uint32_t *src, size_t n, size_t repeat)
{
    size_t i = 0;
    for (; i + SHORT_ROW <= n; i += repeat, src++)
        for (size_t k = 0; k < SHORT_ROW; k++)
            dst[i + k] = *src;
    for (; i < n; i += repeat, src++)
        for (size_t k = 0; k < repeat && i + k < n; k++)
            dst[i + k] = *src;
}

/* dst[0 .. n) = src[(start + i) / repeat] */
static void lay_repeat(char *dst, const char *src, size_t start, size_t n, size_t repeat,
                       size_t elem)
{
    if (elem == 4 && repeat < SHORT_ROW && start % repeat == 0) {
        lay_short_rows((void *)dst, (const void *)(src + start / repeat * 4), n, repeat);
        return;
    }
    for (size_t done = 0; done < n;) {
        size_t row = (start + done) / repeat;
        size_t len = (row + 1) * repeat - (start + done);
        len = len < n - done ? len : n - done;
        lay_same(dst + done * elem, src + row * elem, len, elem);
        done += len;
    }
}

/* What does not change from block to block. */
static void loop_open(struct loop_state *s)
{
    const struct loop_program *l = s->l;
    size_t block = l->block < l->total ? l->block : l->total;
    for (int i = 0; i < l->n_args; i++) {
        const struct loop_arg *a = &l->args[i];
        s->base[i] = a->kind == ARG_TEMP || a->kind == ARG_RAW
                         ? NULL
                         : s->values[a->value].tensor.data;
        if (a->temp >= 0)
            s->at[i] = s->scratch + (size_t)a->temp * l->temp_bytes;
        if (a->kind == ARG_SCALAR)
            lay_same(s->at[i], s->base[i], block, a->elem);
        else if (a->kind == ARG_PERIOD && l->block % a->period == 0)
            lay_period(s->at[i], s->base[i], 0, block, a->period, a->elem);
    }
    for (int i = 0; i < l->n_tails; i++) {
        const struct loop_tail *t = &l->tails[i];
        if (t->kind == TAIL_ALL)
            memset(s->lanes[i], 0, sizeof(s->lanes[i]));
        else
            memset(s->values[t->value].tensor.data, 0, t->period * sizeof(float));
    }
}

static void loop_block(struct loop_state *s, size_t start, size_t n, char *raw)
{
    const struct loop_program *l = s->l;
    for (int i = 0; i < l->n_args; i++) {
        const struct loop_arg *a = &l->args[i];
        switch (a->kind) {
        case ARG_FULL:
            s->at[i] = s->base[i] + start * a->elem;
            break;
        case ARG_RAW:
            s->at[i] = raw;
            break;
        case ARG_PERIOD:
            if (l->block % a->period != 0)
                lay_period(s->at[i], s->base[i], start, n, a->period, a->elem);
            break;
        case ARG_REPEAT:
            lay_repeat(s->at[i], s->base[i], start, n, a->period, a->elem);
            break;
        default:
            break;
        }
    }
    for (int i = 0; i < l->n_instrs; i++) {
        const struct loop_instr *in = &l->instrs[i];
        in->fn(s->at[in->dst], s->at[in->src[0]],
               in->src[1] < 0 ? NULL : s->at[in->src[1]],
               in->src[2] < 0 ? NULL : s->at[in->src[2]], n, in->alpha);
    }
    for (int i = 0; i < l->n_tails; i++) {
        const struct loop_tail *t = &l->tails[i];
        const float *x = (const void *)s->at[t->arg];
        if (t->same >= 0)
            continue;
        if (t->kind == TAIL_ALL)
            kern_loops()->sum_lanes(s->lanes[i], x, start, n);
        else
            kern_loops()->sum_columns(s->values[t->value].tensor.data, x, start, n,
                                      t->period);
    }
}

static void loop_blocks(struct loop_state *s, size_t first, size_t end, char *raw)
{
    if (s->l->n_instrs == 0 && s->l->n_tails == 0)
        return;
    for (size_t start = first; start < end; start += s->l->block) {
        size_t n = end - start < s->l->block ? end - start : s->l->block;
        loop_block(s, start, n, raw + (start - first) * sizeof(float));
    }
}

static void loop_close(struct loop_state *s)
{
    for (int i = 0; i < s->l->n_tails; i++) {
        const struct loop_tail *t = &s->l->tails[i];
        float *y = s->values[t->value].tensor.data;
        size_t n = t->kind == TAIL_ALL ? 1 : t->period;
        if (t->kind == TAIL_ALL)
            y[0] = loop_sum_finish(s->lanes[t->same >= 0 ? t->same : i]);
        for (size_t k = 0; t->divisor != 0.0f && k < n; k++)
            y[k] /= t->divisor;
    }
}

/* Where the turned operand of the product lies, after the blocks. */
static float *turned_operand(const struct loop_program *l, char *scratch)
{
    return (float *)(void *)(scratch + (size_t)l->n_temps * l->temp_bytes);
}

static void set_operands(struct gemm *g, const struct loop_program *l,
                         const struct value *values, char *scratch)
{
    *g = l->gemm;
    g->a = values[l->gemm_a].tensor.data;
    g->b = (const float *)values[l->gemm_b].tensor.data + l->gemm_b_offset;
    g->c = l->gemm_c >= 0 ? values[l->gemm_c].tensor.data : NULL;
    if (l->turn_b) {
        g->b = turned_operand(l, scratch);
        g->transpose_b = 0;
        g->ldb = g->n;
    }
}

/* dst (k, n) = the transpose of src (n, k) with rows ld apart; four rows at a time. */
static void turn(float *restrict dst, const float *src, int64_t n, int64_t k, int64_t ld)
{
    int64_t j = 0;
    for (; j + 4 <= n; j += 4) {
        const float *a = src + j * ld, *b = a + ld, *c = b + ld, *d = c + ld;
        for (int64_t i = 0; i < k; i++) {
            float *to = dst + i * n + j;
            to[0] = a[i];
            to[1] = b[i];
            to[2] = c[i];
            to[3] = d[i];
        }
    }
    for (; j < n; j++)
        for (int64_t i = 0; i < k; i++)
            dst[i * n + j] = src[j * ld + i];
}

static void loop_product(struct loop_state *s)
{
    const struct loop_program *l = s->l;
    struct gemm g;
    set_operands(&g, l, s->values, s->scratch);
    char *chunk = s->scratch + (size_t)l->n_temps * l->temp_bytes;
    if (l->turn_b) {
        const float *b = s->values[l->gemm_b].tensor.data;
        turn(turned_operand(l, s->scratch), b + l->gemm_b_offset, g.n, g.k, l->gemm.ldb);
        chunk += (size_t)(g.n * g.k) * sizeof(float);
    }
    int64_t step = g.transpose_a ? g.m : GEMM_CHUNK;
    for (int64_t row = 0; row < g.m; row += step) {
        int64_t rows = g.m - row < step ? g.m - row : step;
        char *to = g.c ? (char *)(g.c + row * g.ldc) : chunk;
        gemm_rows(&g, row, rows, (float *)(void *)to, g.ldc);
        loop_blocks(s, (size_t)(row * g.n), (size_t)((row + rows) * g.n), to);
    }
}

void loop_run(const struct loop_program *l, struct value *values, void *scratch)
{
    struct loop_state s;
    s.l = l;
    s.values = values;
    s.scratch = scratch;
    loop_open(&s);
    if (l->has_gemm)
        loop_product(&s);
    else
        loop_blocks(&s, 0, l->total, scratch);
    loop_close(&s);
}

/* ---- constants at planning time ---- */

static int evaluate_loop(struct plan *p, const struct node *n)
{
    struct arena scratch = ARENA_ZERO;
    struct loop_program *l = plan_single_loop(p, &scratch, n);
    void *memory =
        l->scratch >= 0 ? mem_aligned(tensor_bytes(&p->values[l->scratch].tensor)) : NULL;
    CHECK(l->scratch < 0 || memory);
    loop_run(l, p->values, memory);
    free(memory);
    arena_done(&scratch);
    return 0;
}

int node_evaluate(struct plan *p, const struct node *n, struct err *err)
{
    struct tensor *in[MAX_ARGS], *out[MAX_ARGS];
    if (n->kind == NODE_LOOP)
        return evaluate_loop(p, n);
    if (n->n_in > MAX_ARGS || n->n_out > MAX_ARGS)
        return err_set(err, ERR_LIMIT, "%s: more than %d operands", operation_name(n->op),
                       MAX_ARGS);
    for (int i = 0; i < n->n_in; i++)
        in[i] = &p->values[n->in[i]].tensor;
    for (int i = 0; i < n->n_out; i++)
        out[i] = &p->values[n->out[i]].tensor;
    struct kernel_args args = {.op = n->op,
                               .n_in = n->n_in,
                               .n_out = n->n_out,
                               .in = in,
                               .out = out,
                               .err = err};
    return n->call(&args);
}

/* ---- runs ---- */

static void set_keys(struct plan *p, struct rng_key key)
{
    if (p->has_key && memcmp(&p->key, &key, sizeof(key)) == 0)
        return;
    for (int i = 0; i < p->n_steps; i++)
        if (p->steps[i].draws)
            p->steps[i].args.key = rng_key_derive(key, operation_name(p->steps[i].op));
    p->key = key;
    p->has_key = 1;
}

static void set_feeds(struct plan *p, const struct run_args *args)
{
    for (int i = 0; i < p->n_moving; i++) {
        struct value *v = &p->values[p->moving[i]];
        v->tensor.data = (char *)args->feeds[v->index].value.data + v->offset;
    }
}

static void *step_scratch(const struct plan *p, const struct step *s)
{
    return s->loop->scratch < 0 ? NULL : p->values[s->loop->scratch].tensor.data;
}

static int holds(const struct plan *p, int guard)
{
    const struct guard *g = &p->guards[guard];
    for (int i = 0; i < g->n; i++) {
        const struct condition *c = &g->conditions[i];
        if ((*(const uint8_t *)p->values[c->value].tensor.data != 0) != c->branch)
            return 0;
    }
    return 1;
}

static int check_fetches(const struct plan *p, struct err *err)
{
    for (size_t i = 0; i < p->n_fetches; i++)
        if (!holds(p, p->fetch_guards[i]))
            return err_set(err, ERR_ARG,
                           "Retval[%zu] does not have value: Tensor %s:%d is on a branch "
                           "that was not taken",
                           i, operation_name(p->fetches[i].op), p->fetches[i].index);
    return 0;
}

static int run_call(struct step *s, struct var_store *vars, uint64_t counter,
                    struct err *err)
{
    s->args.counter = counter;
    s->args.err = err;
    if (s->reads_flag >= 0)
        s->args.initialized = var_store_initialized(vars, s->reads_flag);
    int r = s->call(&s->args);
    if (r == 0 && s->initializes >= 0)
        var_store_set_initialized(vars, s->initializes);
    return r;
}

/* Denormal numbers count as zero, as in TensorFlow's own threads: the moments of a weight
 * whose gradient stays zero decay into them, and each then costs a hundred cycles. */
static unsigned flush_denormals(void)
{
#ifdef __SSE2__
    const unsigned flush_to_zero = 0x8000, denormals_are_zero = 0x0040;
    const unsigned before = _mm_getcsr();

    _mm_setcsr(before | flush_to_zero | denormals_are_zero);
    return before;
#else
    return 0;
#endif
}

static void restore_fp_mode(unsigned before)
{
#ifdef __SSE2__
    _mm_setcsr(before);
#else
    (void)before;
#endif
}

int plan_execute(struct plan *p, struct var_store *vars, const struct run_args *args,
                 void (*progress)(void *ctx), void *progress_ctx, struct err *err)
{
    unsigned fp_mode;
    int r = 0;
    for (int i = 0; i < p->n_checked; i++)
        if (!var_store_initialized(vars, p->checked[i]))
            return err_set(err, ERR_UNINITIALIZED,
                           "Attempting to use uninitialized value %s",
                           var_store_name(vars, p->checked[i]));
    set_keys(p, args->key);
    set_feeds(p, args);
    fp_mode = flush_denormals();
    for (int i = 0; r == 0 && i < p->n_steps; i++) {
        struct step *s = &p->steps[i];
        if (s->guard != 0 && !holds(p, s->guard))
            continue;
        if (s->loop)
            loop_run(s->loop, p->values, step_scratch(p, s));
        else
            r = run_call(s, vars, args->counter, err);
        if (progress)
            progress(progress_ctx);
    }
    restore_fp_mode(fp_mode);
    return r == 0 && p->n_guards > 1 ? check_fetches(p, err) : r;
}

size_t plan_gemms(const struct plan *p, struct gemm *ret, size_t max)
{
    size_t n = 0;
    for (int i = 0; i < p->n_steps; i++) {
        if (!p->steps[i].loop || !p->steps[i].loop->has_gemm)
            continue;
        if (n < max)
            set_operands(&ret[n], p->steps[i].loop, p->values,
                         step_scratch(p, &p->steps[i]));
        n++;
    }
    return n;
}
