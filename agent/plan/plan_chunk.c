/* Finds steps that work row by row, so that they can run for one chunk of the batch's
 * rows after the other, and groups them into stretches. A step that does not fit in the
 * stretch is moved before it, if it uses none of its results, or else after it. Values
 * that only the stretch uses are stored for one chunk at a time. */
#include "agent/plan/plan.h"

#include "agent/ops/kernel_parts.h"

#include <string.h>

#define FEWEST 2   /* the fewest products for which a stretch pays */
#define MOST   256 /* stretches of a plan; the search for each looks at all later steps */

/* Whether and where a value is computed, relative to the stretch. */
enum made {
    MADE_NOT,
    MADE_ROWS,   /* in the stretch, row by row */
    MADE_WHOLE,  /* in the stretch, as a sum over the batch: complete at its end */
    MADE_BEHIND, /* by a step after the stretch */
};

struct chunking {
    struct plan *plan;
    int64_t rows;           /* rows of the batch of the current stretch */
    unsigned char *made;    /* [roots] enum made */
    unsigned char *written; /* [variables] a step after the stretch writes it */
    /* [roots] used by a step outside the stretch, a fetch or a guard */
    unsigned char *elsewhere;
    int n_before, n_in, n_behind;
    struct step *before, *in, *behind;
};

/* ---- inputs and outputs of a step ---- */

typedef void (*visit_fn)(void *ctx, int v);

static int is_result(const struct loop_program *l, int arg)
{
    for (int i = 0; i < l->n_instrs; i++)
        if (l->instrs[i].dst == arg)
            return 1;
    return l->has_gemm && arg == 0;
}

static int is_value(const struct loop_arg *a)
{
    return a->kind != ARG_TEMP && a->kind != ARG_RAW;
}

static void each_input(const struct step *s, visit_fn visit, void *ctx)
{
    const struct loop_program *l = s->loop;

    for (int i = 0; i < s->n_in; i++)
        visit(ctx, s->in[i]);
    for (int i = 0; l != NULL && i < l->n_args; i++)
        if (is_value(&l->args[i]) && !is_result(l, i))
            visit(ctx, l->args[i].value);
    if (l == NULL || !l->has_gemm)
        return;
    visit(ctx, l->gemm_a);
    visit(ctx, l->gemm_b);
    if (l->gemm_bias >= 0)
        visit(ctx, l->gemm_bias);
    if (l->gemm_feature >= 0)
        visit(ctx, l->gemm_feature);
}

/* Visits the outputs computed row by row (rows), or the sums over the batch. */
static void each_output(const struct step *s, int rows, visit_fn visit, void *ctx)
{
    const struct loop_program *l = s->loop;
    const int sums = l != NULL && l->has_gemm && l->gemm.transposed_a;

    for (int i = 0; rows && i < s->n_out; i++)
        visit(ctx, s->out[i]);
    for (int i = 0; l != NULL && rows != sums && i < l->n_args; i++)
        if (is_value(&l->args[i]) && is_result(l, i))
            visit(ctx, l->args[i].value);
    if (l != NULL && l->has_gemm && l->gemm_c >= 0 && rows != sums)
        visit(ctx, l->gemm_c);
    for (int i = 0; l != NULL && !rows && i < l->n_tails; i++)
        visit(ctx, l->tails[i].value);
}

/* ---- whether a step can work row by row ---- */

/* Whether v is a variable that a step after the stretch writes: its readers must not
 * move past that step. */
static int is_overwritten(const struct chunking *c, int v)
{
    const struct value *x = &c->plan->values[plan_root(c->plan, v)];

    return x->kind == VALUE_VARIABLE && c->written[x->index];
}

/* Whether each chunk can read its own rows of an operand, and only those. */
static int reads_rows(const struct chunking *c, int v)
{
    const struct value *x = &c->plan->values[v];
    const int made = c->made[x->root];

    if (made == MADE_WHOLE || made == MADE_BEHIND || is_overwritten(c, v))
        return 0;
    if (made == MADE_ROWS)
        return x->offset == 0 &&
               plan_elements(c->plan, v) == plan_elements(c->plan, x->root);
    return 1;
}

/* Whether each chunk may read all rows of an operand. */
static int reads_all(const struct chunking *c, int v)
{
    return c->made[plan_root(c->plan, v)] == MADE_NOT && !is_overwritten(c, v);
}

static int has_rows(const struct chunking *c, int v)
{
    const struct shape *s = &c->plan->values[v].tensor.shape;

    return s->rank >= 1 && s->dim[0] == c->rows;
}

static int product_may(const struct chunking *c, const struct loop_program *l)
{
    if (l->by_blas)
        return 0;
    if (l->gemm.transposed_a)
        return l->gemm.k == c->rows && !l->gemm.transposed_b &&
               reads_rows(c, l->gemm_a) && reads_rows(c, l->gemm_b);
    return l->gemm.m == c->rows && reads_rows(c, l->gemm_a) && reads_all(c, l->gemm_b) &&
           (l->gemm_bias < 0 || reads_all(c, l->gemm_bias)) &&
           (l->gemm_feature < 0 || reads_rows(c, l->gemm_feature));
}

static int loop_may(const struct chunking *c, const struct loop_program *l)
{
    const int transposed = l->has_gemm && l->gemm.transposed_a;
    const size_t row = transposed ? 0 : l->total / (size_t)c->rows;

    if (l->has_gemm && !product_may(c, l))
        return 0;
    if (!transposed && (l->total == 0 || l->total % (size_t)c->rows != 0))
        return 0;
    for (int i = 0; i < l->n_args; i++) {
        const struct loop_arg *a = &l->args[i];

        if (!is_value(a) || is_result(l, i))
            continue;
        if (transposed || a->kind == ARG_SCALAR || a->kind == ARG_PERIOD) {
            if (!reads_all(c, a->value) ||
                (!transposed && a->kind == ARG_PERIOD && row % a->period != 0))
                return 0;
        } else if (!reads_rows(c, a->value) ||
                   (a->kind == ARG_REPEAT && row % a->period != 0)) {
            return 0;
        }
    }
    for (int i = 0; !transposed && i < l->n_tails; i++)
        if (l->tails[i].kind == TAIL_COLUMNS && row % l->tails[i].period != 0)
            return 0;
    return 1;
}

/* Whether a call works row by row: softmax, concatenations, slices and sums within the
 * rows of a matrix. */
static int call_may(const struct chunking *c, const struct step *s)
{
    const struct plan *p = c->plan;
    const int x = s->n_in > 0 ? s->in[0] : -1, y = s->n_out > 0 ? s->out[0] : -1;
    const struct tensor *axis;

    if (x < 0 || y < 0 || s->draws || s->n_out != 1 || !has_rows(c, y))
        return 0;
    if (s->call == kern_softmax || s->call == kern_log_softmax)
        return p->values[x].tensor.shape.rank == 2 && has_rows(c, x) && reads_rows(c, x);
    axis = &p->values[s->in[s->n_in - 1]].tensor;
    if (p->values[plan_root(p, s->in[s->n_in - 1])].kind != VALUE_CONST ||
        (axis->dtype != DT_INT32 && axis->dtype != DT_INT64))
        return 0;
    if (s->call == kern_concat) {
        if (operation_is(s->op, "Concat") || tensor_elements(axis) != 1 ||
            positive_axis(tensor_int(axis, 0), p->values[y].tensor.shape.rank) != 1)
            return 0;
        for (int i = 0; i < s->n_in - 1; i++)
            if (!has_rows(c, s->in[i]) || !reads_rows(c, s->in[i]))
                return 0;
        return 1;
    }
    if (p->values[x].tensor.shape.rank != 2 || !has_rows(c, x) || !reads_rows(c, x))
        return 0;
    if (s->call == kern_sum || s->call == kern_mean)
        return s->n_in == 2 && tensor_elements(axis) == 1 &&
               positive_axis(tensor_int(axis, 0), 2) == 1;
    if (s->call == kern_slice) {
        const struct tensor *begin = &p->values[s->in[1]].tensor;

        return p->values[plan_root(p, s->in[1])].kind == VALUE_CONST &&
               tensor_elements(begin) == 2 && tensor_int(begin, 0) == 0;
    }
    return 0;
}

static int may_go_by_rows(const struct chunking *c, const struct step *s)
{
    if (s->guard != 0 || s->sets_flag >= 0 || s->reads_flag >= 0)
        return 0;
    return s->loop != NULL ? loop_may(c, s->loop) : call_may(c, s);
}

/* ---- moving steps ---- */

static int writes(const struct step *s)
{
    return s->call != NULL && s->op != NULL && s->n_out == 0;
}

struct asking {
    const struct chunking *c;
    int needs; /* the step uses a result of the stretch or of a step after it */
};

static void ask_need(void *ctx, int v)
{
    struct asking *a = ctx;

    a->needs |= !reads_all(a->c, v);
}

/* Whether the step can run before the stretch. */
static int may_go_before(const struct chunking *c, const struct step *s)
{
    struct asking a = {c, 0};

    if (s->guard != 0 || writes(s) || s->reads_flag >= 0)
        return 0;
    each_input(s, ask_need, &a);
    return !a.needs;
}

struct marking {
    struct chunking *c;
    enum made made;
};

static void mark(void *ctx, int v)
{
    struct marking *m = ctx;

    m->c->made[plan_root(m->c->plan, v)] = (unsigned char)m->made;
}

static void put_in(struct chunking *c, const struct step *s)
{
    struct marking rows = {c, MADE_ROWS}, sums = {c, MADE_WHOLE};

    each_output(s, 1, mark, &rows);
    each_output(s, 0, mark, &sums);
    c->in[c->n_in++] = *s;
}

static void put_behind(struct chunking *c, const struct step *s)
{
    const struct plan *p = c->plan;
    struct marking m = {c, MADE_BEHIND};

    each_output(s, 1, mark, &m);
    each_output(s, 0, mark, &m);
    for (int i = 0; writes(s) && i < s->n_in; i++)
        if (p->values[plan_root(p, s->in[i])].kind == VALUE_VARIABLE)
            c->written[p->values[plan_root(p, s->in[i])].index] = 1;
    c->behind[c->n_behind++] = *s;
}

/* The number of rows of the first product that has enough of them; 0 if there is none. */
static int64_t find_rows(const struct step *steps, int n)
{
    for (int i = 0; i < n; i++) {
        const struct loop_program *l = steps[i].loop;

        if (l != NULL && l->has_gemm && !l->gemm.transposed_a && l->gemm.m > DENSE_BLOCK)
            return l->gemm.m;
    }
    return 0;
}

static int count_products(const struct step *steps, int n)
{
    int found = 0;

    for (int i = 0; i < n; i++)
        found += steps[i].loop != NULL && steps[i].loop->has_gemm;
    return found;
}

/* ---- values of which only one chunk is stored ---- */

static void mark_use(void *ctx, int v)
{
    struct chunking *c = ctx;

    if (v >= 0)
        c->elsewhere[plan_root(c->plan, v)] = 1;
}

static void make_local(void *ctx, int v)
{
    struct chunking *c = ctx;
    struct value *x = &c->plan->values[plan_root(c->plan, v)];

    if (x->kind == VALUE_BUFFER && !c->elsewhere[x->root])
        x->local_rows = c->rows;
}

static void find_elsewhere(struct chunking *c, int first, int n)
{
    const struct plan *p = c->plan;

    memset(c->elsewhere, 0, (size_t)p->n_values);
    for (int k = 0; k < p->n_steps; k++)
        if (k < first || k >= first + n) {
            each_input(&p->steps[k], mark_use, c);
            each_output(&p->steps[k], 1, mark_use, c);
            each_output(&p->steps[k], 0, mark_use, c);
        }
    for (size_t i = 0; i < p->n_fetches; i++)
        mark_use(c, p->fetch_values[i]);
    for (int k = 0; k < p->n_guards; k++)
        for (int i = 0; i < p->guards[k].n; i++)
            mark_use(c, p->guards[k].conditions[i].value);
}

/* ---- stretches ---- */

/* Reorders the steps from `first` on: some steps, a stretch, the remaining steps. Returns
 * the index of the remaining ones; n_steps if there is no stretch. */
static int make_stretch(struct chunking *c, int first)
{
    struct plan *p = c->plan;
    struct step *to = p->steps + first;
    const int n = p->n_steps - first;

    c->rows = find_rows(to, n);
    if (c->rows == 0)
        return p->n_steps;
    c->n_before = c->n_in = c->n_behind = 0;
    memset(c->made, MADE_NOT, (size_t)c->plan->n_values);
    memset(c->written, 0, (size_t)graph_n_operations(c->plan->graph));
    for (int i = 0; i < n; i++) {
        if (may_go_by_rows(c, &to[i]))
            put_in(c, &to[i]);
        else if (may_go_before(c, &to[i]))
            c->before[c->n_before++] = to[i];
        else
            put_behind(c, &to[i]);
    }
    if (count_products(c->in, c->n_in) < FEWEST)
        return p->n_steps;
    memcpy(to, c->before, sizeof(*to) * (size_t)c->n_before);
    memcpy(to + c->n_before, c->in, sizeof(*to) * (size_t)c->n_in);
    memcpy(to + c->n_before + c->n_in, c->behind, sizeof(*to) * (size_t)c->n_behind);
    p->stretches[p->n_stretches++] =
        (struct stretch){first + c->n_before, c->n_in, c->rows};
    return first + c->n_before + c->n_in;
}

void plan_chunk(struct plan *p, struct arena *scratch)
{
    struct chunking c = {
        .plan = p,
        .made = ARENA_ARRAY(scratch, unsigned char, p->n_values + 1),
        .written = ARENA_ARRAY(scratch, unsigned char, graph_n_operations(p->graph) + 1),
        .elsewhere = ARENA_ARRAY(scratch, unsigned char, p->n_values + 1),
        .before = ARENA_ARRAY(scratch, struct step, p->n_steps + 1),
        .in = ARENA_ARRAY(scratch, struct step, p->n_steps + 1),
        .behind = ARENA_ARRAY(scratch, struct step, p->n_steps + 1),
    };

    p->stretches = ARENA_ARRAY(&p->arena, struct stretch, p->n_steps + 1);
    for (int first = 0; first < p->n_steps && p->n_stretches < MOST;)
        first = make_stretch(&c, first);
    for (int i = 0; i < p->n_stretches; i++) {
        const struct stretch *t = &p->stretches[i];

        c.rows = t->rows;
        find_elsewhere(&c, t->first, t->n);
        for (int k = t->first; k < t->first + t->n; k++)
            each_output(&p->steps[k], 1, make_local, &c);
        for (int v = 0; v < p->n_values; v++) /* an alias follows its root */
            p->values[v].local_rows = p->values[plan_root(p, v)].local_rows;
        for (int k = t->first; k < t->first + t->n; k++) {
            struct step *s = &p->steps[k];

            if (s->loop != NULL && !(s->loop->has_gemm && s->loop->gemm.transposed_a))
                s->loop->row = s->loop->total / (size_t)t->rows;
            else if (s->loop == NULL)
                s->view = ARENA_ARRAY(&p->arena, struct tensor, s->n_in + s->n_out);
        }
    }
}
