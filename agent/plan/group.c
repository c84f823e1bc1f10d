#include "agent/plan/group.h"

#include "agent/ops/kernel_parts.h"
#include "common/err/check.h"
#include "common/mem/xmalloc.h"

#include <string.h>

/* elements, so that the intermediate blocks of a loop stay in the first-level cache */
#define BLOCK_SIZE 1024

/* ---- access patterns of operands ---- */

int loop_classify(const struct shape *operand, const struct shape *shape,
                  struct loop_arg *ret)
{
    int64_t period = 1, repeat = 1;
    /* previous dimension (innermost first): 1 kept, 2 repeated, 0 none yet */
    int part = 0;
    int runs = 0, first_kept = 0;

    for (int d = shape->rank - 1; d >= 0; d--) {
        int o = d - (shape->rank - operand->rank);
        int64_t own = o < 0 ? 1 : operand->dim[o];

        if (shape->dim[d] == 1)
            continue;
        int kept = own == shape->dim[d] ? 1 : 2;
        if (kept != part)
            runs++;
        if (runs == 1) {
            first_kept = kept == 1;
            *(kept == 1 ? &period : &repeat) *= shape->dim[d];
        }
        part = kept;
    }
    ret->period = (size_t)(first_kept ? period : repeat);
    ret->kind = shape_elements(operand) == 1             ? ARG_SCALAR
                : runs <= 1 && (first_kept || runs == 0) ? ARG_FULL
                : first_kept                             ? ARG_PERIOD
                                                         : ARG_REPEAT;
    if (shape_elements(operand) == shape_elements(shape))
        ret->kind = ARG_FULL;
    return runs <= 2;
}

/* ---- sums ---- */

int group_tail(const struct plan *p, const struct node *n, struct loop_tail *ret)
{
    const struct tensor *x = &p->values[n->in[0]].tensor;
    size_t period = 0;
    int pattern = 0;

    if (n->kind != NODE_CALL || n->n_out == 0 || x->dtype != DT_FLOAT ||
        tensor_elements(x) == 0)
        return 0;
    if (n->call == kern_bias_add_grad)
        pattern = sum_pattern_but(&x->shape, channel_axis(n->op, x->shape.rank), &period);
    else if (n->call == kern_half_sum)
        pattern = SUM_ROWS;
    else if ((n->call == kern_sum || n->call == kern_mean) &&
             p->values[n->in[1]].kind == VALUE_CONST)
        pattern = sum_pattern(&x->shape, &p->values[n->in[1]].tensor, &period);
    int64_t n_out = plan_elements(p, n->out[0]);
    ret->kind = n_out == 1 ? TAIL_ALL : TAIL_COLUMNS;
    ret->value = n->out[0];
    ret->period = period;
    ret->divisor = n->call == kern_mean       ? (float)(tensor_elements(x) / n_out)
                   : n->call == kern_half_sum ? 2.0f
                                              : 0.0f;
    return n_out == 1 ? pattern != 0 : pattern == SUM_COLUMNS;
}

/* ---- a group's program ---- */

struct building {
    struct plan *plan;
    struct loop_program *l;
    int *inside, *arg_of; /* those of struct loop_notes */
    int n_free, free_temps[3 * GROUP_MAX];
};

static int add_arg(struct building *b, struct loop_arg arg)
{
    b->l->args[b->l->n_args] = arg;
    return b->l->n_args++;
}

/* Returns the arg for an operand of a node whose result has this shape. */
static int operand(struct building *b, int v, const struct shape *shape)
{
    struct plan *p = b->plan;
    struct loop_arg arg = {
        .value = v, .temp = -1, .elem = dtype_size(p->values[v].tensor.dtype)};

    if (b->arg_of[plan_root(p, v)] >= 0)
        return b->arg_of[plan_root(p, v)];
    CHECK(loop_classify(&p->values[v].tensor.shape, shape, &arg));
    for (int i = 0; i < b->l->n_args; i++) {
        const struct loop_arg *a = &b->l->args[i];

        if (a->value == v && a->kind == arg.kind && a->period == arg.period)
            return i;
    }
    if (arg.kind != ARG_FULL)
        arg.temp = b->l->n_temps++;
    return add_arg(b, arg);
}

static int is_stored(const struct building *b, int v)
{
    return b->plan->values[v].uses > b->inside[v];
}

/* Returns the arg for a result of the loop: the value's own storage, or a block in
 * scratch memory. */
static int result(struct building *b, int v)
{
    struct loop_arg arg = {
        .value = v, .temp = -1, .elem = dtype_size(b->plan->values[v].tensor.dtype)};

    arg.kind = is_stored(b, v) ? ARG_FULL : ARG_TEMP;
    if (arg.kind == ARG_TEMP)
        arg.temp = b->n_free > 0 ? b->free_temps[--b->n_free] : b->l->n_temps++;
    return b->arg_of[v] = add_arg(b, arg);
}

/* Frees the blocks whose last use is instruction i: those as wide as `width`, or the
 * others. */
static void release_blocks(struct building *b, const struct node *n,
                           const struct loop_instr *in, const int *last, int i,
                           int as_wide, size_t width)
{
    for (int k = 0; k < n->n_in; k++) {
        const struct loop_arg *a = &b->l->args[in->src[k]];
        int again = 0;

        for (int e = 0; e < k; e++)
            again |= in->src[e] == in->src[k];
        if (a->kind == ARG_TEMP && last[plan_root(b->plan, n->in[k])] == i && !again &&
            (a->elem == width) == as_wide)
            b->free_temps[b->n_free++] = a->temp;
    }
}

static void add_instrs(struct building *b, const struct group *g, const int *last,
                       int first)
{
    struct plan *p = b->plan;

    for (int i = first; i < g->n_members; i++) {
        const struct node *n = g->members[i];
        struct loop_instr *in = &b->l->instrs[b->l->n_instrs++];

        *in = (struct loop_instr){n->loop->fn, n->alpha, -1, {-1, -1, -1}};
        for (int k = 0; k < n->n_in; k++)
            in->src[k] = operand(b, n->in[k], &p->values[n->out[0]].tensor.shape);
        /* The result may overwrite a block that is read here for the last time, if the
         * elements have the same width. Wider ones would overwrite elements not yet
         * read. */
        size_t width = dtype_size(p->values[n->out[0]].tensor.dtype);
        release_blocks(b, n, in, last, i, 1, width);
        in->dst = result(b, n->out[0]);
        release_blocks(b, n, in, last, i, 0, width);
    }
}

static void add_tails(struct building *b, const struct group *g)
{
    for (int i = 0; i < g->n_tails; i++) {
        const struct node *n = g->tails[i];
        struct loop_tail *t = &b->l->tails[b->l->n_tails++];

        CHECK(group_tail(b->plan, n, t));
        t->arg = b->arg_of[plan_root(b->plan, n->in[0])];
        t->same = -1;
        for (int k = 0; k < i && t->kind == TAIL_ALL; k++)
            if (b->l->tails[k].kind == TAIL_ALL && b->l->tails[k].arg == t->arg &&
                t->same < 0)
                t->same = k;
    }
}

/* Returns the number of elements from one row of a matrix to the next. */
static int64_t row_stride(const struct plan *p, int v)
{
    const struct value *x = &p->values[v];

    return x->row_stride != 0 ? x->row_stride : x->tensor.shape.dim[1];
}

/* An operation that dense.h can apply to a product, and its operands. */
struct after {
    enum dense_after after;
    int bias, feature; /* operand numbers of the node; -1: none */
};

static int find_after(const struct node *n, struct after *ret)
{
    static const struct {
        const char *type;
        struct after does;

    } known[] = {
        {"Add", {DENSE_AS_IS, 1, -1}},
        {"AddV2", {DENSE_AS_IS, 1, -1}},
        {"BiasAdd", {DENSE_AS_IS, 1, -1}},
        {"BiasAddRelu", {DENSE_RELU, 1, -1}},
        {"BiasAddLeakyRelu", {DENSE_LEAKY_RELU, 1, -1}},
        {"Relu", {DENSE_RELU, -1, -1}},
        {"LeakyRelu", {DENSE_LEAKY_RELU, -1, -1}},
        {"ReluGrad", {DENSE_RELU_GRAD, -1, 1}},
        {"LeakyReluGrad", {DENSE_LEAKY_RELU_GRAD, -1, 1}},
    };

    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
        if (strcmp(n->loop->type, known[i].type) == 0) {
            *ret = known[i].does;
            return 1;
        }
    return 0;
}

/* Whether the product can apply its first member itself, while the elements are in
 * registers. Nothing else may use the product. */
static int takes_after(const struct building *b, const struct node *n,
                       const struct node *member, struct after *ret)
{
    const struct plan *p = b->plan;
    const int y = n->out[0];
    const int64_t columns = p->values[y].tensor.shape.dim[1];
    struct loop_arg arg;

    if (n->transpose_a || b->l->by_blas || p->values[y].uses != 1 || member->in[0] != y ||
        member->loop->dtype != DT_FLOAT || !find_after(member, ret))
        return 0;
    if (ret->feature >= 0)
        return plan_elements(p, member->in[1]) == plan_elements(p, y);
    if (ret->bias < 0)
        return 1;
    return plan_elements(p, member->in[1]) == columns &&
           loop_classify(&p->values[member->in[1]].tensor.shape,
                         &p->values[y].tensor.shape, &arg) &&
           (arg.kind == ARG_PERIOD || arg.kind == ARG_FULL || columns == 1);
}

/* Sets up the product. Returns 1 if it applies the group's first member itself, otherwise
 * 0. */
static int set_gemm(struct building *b, const struct group *g)
{
    const struct node *n = g->gemm, *first = g->n_members > 0 ? g->members[0] : NULL;
    const struct plan *p = b->plan;
    struct loop_program *l = b->l;
    struct loop_arg arg = {.kind = ARG_FULL, .temp = -1, .elem = sizeof(float)};
    struct after does;
    int takes;
    const struct shape *x = &p->values[n->in[0]].tensor.shape;
    const struct shape *y = &p->values[n->out[0]].tensor.shape;

    l->has_gemm = 1;
    l->gemm = (struct dense){
        .m = y->dim[0],
        .n = y->dim[1],
        .k = x->dim[n->transpose_a ? 0 : 1],
        .lda = row_stride(p, n->in[0]),
        .transposed_a = n->transpose_a,
        .ldb = row_stride(p, n->in[1]),
        .transposed_b = n->transpose_b,
        .ldc = y->dim[1],
        .ld_feature = y->dim[1],
    };
    l->gemm_a = n->in[0];
    l->gemm_b = n->in[1];
    l->gemm_b_offset = (size_t)(n->column_begin * (n->transpose_b ? l->gemm.ldb : 1));
    l->gemm_bias = l->gemm_feature = l->gemm_sums = -1;
    l->by_blas =
        p->numerics == NUMERICS_NATIVE && blas_wants(l->gemm.m, l->gemm.n, l->gemm.k);
    /* with many chunks of rows, transposing the operand once pays */
    l->transpose_b =
        n->transpose_b && !n->transpose_a && !l->by_blas && l->gemm.m > DENSE_BLOCK;
    takes = first != NULL && takes_after(b, n, first, &does);
    if (takes) {
        l->gemm.after = does.after;
        l->gemm.alpha = first->alpha;
        l->gemm_bias = does.bias < 0 ? -1 : first->in[does.bias];
        l->gemm_feature = does.feature < 0 ? -1 : first->in[does.feature];
        n = first;
    }
    l->gemm_c = arg.value = n->out[0];
    if (!is_stored(b, n->out[0])) {
        arg.kind = ARG_RAW;
        l->gemm_c = -1;
    }
    b->arg_of[n->out[0]] = add_arg(b, arg);
    return takes;
}

/* Lets the product compute the sums of its columns, if a tail needs them. */
static void take_sums(struct loop_program *l)
{
    for (int i = 0; i < l->n_tails && !l->gemm.transposed_a && !l->by_blas; i++)
        if (l->tails[i].kind == TAIL_COLUMNS && l->tails[i].arg == 0 &&
            l->tails[i].period == (size_t)l->gemm.n) {
            l->gemm_sums = i;
            return;
        }
}

/* A multiple of the row length, so that operands repeated in every row are expanded
 * once. */
static size_t block_size(const struct loop_program *l)
{
    size_t row = l->has_gemm ? (size_t)l->gemm.n : 0;

    for (int i = 0; i < l->n_args && row == 0; i++)
        if (l->args[i].kind == ARG_PERIOD || l->args[i].kind == ARG_REPEAT)
            row = l->args[i].period;
    if (row == 0 || row > BLOCK_SIZE)
        return BLOCK_SIZE;
    return BLOCK_SIZE / row * row;
}

/* The product may be stored where the first result is stored later, if nothing reads the
 * product after that. */
static void place_product(struct building *b)
{
    struct loop_program *l = b->l;

    if (!l->has_gemm || l->gemm_c >= 0)
        return;
    int last = -1;
    for (int i = 0; i < l->n_instrs; i++)
        for (int k = 0; k < 3; k++)
            if (l->instrs[i].src[k] == 0)
                last = i;
    for (int i = 0; i < l->n_tails; i++)
        if (l->tails[i].arg == 0)
            return;
    for (int i = 0; i < l->n_instrs; i++) {
        const struct loop_arg *d = &l->args[l->instrs[i].dst];

        if (d->kind != ARG_FULL || d->elem != sizeof(float))
            continue;
        if (i < last)
            return;
        l->gemm_c = d->value;
        l->args[0].kind = ARG_FULL;
        l->args[0].value = d->value;
        return;
    }
}

static size_t scratch_bytes(const struct loop_program *l)
{
    size_t bytes = (size_t)l->n_temps * l->temp_bytes + l->part_floats * sizeof(float);

    if (l->transpose_b)
        bytes += (size_t)(l->gemm.n * l->gemm.k) * sizeof(float);
    if (l->has_gemm && l->gemm_c < 0) {
        int64_t rows = l->gemm.m;

        if (!l->gemm.transposed_a && !l->by_blas && rows > DENSE_BLOCK)
            rows = DENSE_BLOCK;
        bytes += (size_t)(rows * l->gemm.n) * sizeof(float);
    }
    return bytes;
}

static struct loop_notes *notes_of(struct plan *p)
{
    struct loop_notes *n = &p->notes;
    const size_t had = (size_t)n->n;

    if (n->n >= p->n_values)
        return n;
    n->n = p->cap_values;
    n->inside = xreallocarray(n->inside, (size_t)n->n, sizeof(int));
    n->arg_of = xreallocarray(n->arg_of, (size_t)n->n, sizeof(int));
    n->last_use = xreallocarray(n->last_use, (size_t)n->n, sizeof(int));
    memset(n->inside + had, 0, sizeof(int) * ((size_t)n->n - had));
    memset(n->arg_of + had, -1, sizeof(int) * ((size_t)n->n - had));
    memset(n->last_use + had, 0, sizeof(int) * ((size_t)n->n - had));
    return n;
}

static void forget(struct plan *p, const struct node *n)
{
    for (int i = 0; i < n->n_in + n->n_out; i++) {
        const int v = plan_root(p, i < n->n_in ? n->in[i] : n->out[i - n->n_in]);

        p->notes.inside[v] = p->notes.last_use[v] = 0;
        p->notes.arg_of[v] = -1;
    }
}

/* Resets the notes about the group's values. */
static void clear_notes(struct plan *p, const struct group *g)
{
    if (g->gemm != NULL)
        forget(p, g->gemm);
    for (int i = 0; i < g->n_members; i++)
        forget(p, g->members[i]);
    for (int i = 0; i < g->n_tails; i++)
        forget(p, g->tails[i]);
}

struct loop_program *group_program(struct plan *p, struct arena *arena,
                                   const struct group *g)
{
    const struct loop_notes *notes = notes_of(p);
    struct loop_program *l = ARENA_NEW(arena, struct loop_program);
    struct building building = {
        .plan = p, .l = l, .inside = notes->inside, .arg_of = notes->arg_of};
    struct building *b = &building;
    int *last = notes->last_use;

    l->total = (size_t)g->total;
    l->scratch = -1;
    /* each member has at most three operands and a result; one more for the product */
    l->args = ARENA_ARRAY(arena, struct loop_arg, 4 * g->n_members + 1);
    l->instrs = ARENA_ARRAY(arena, struct loop_instr, g->n_members + 1);
    l->tails = ARENA_ARRAY(arena, struct loop_tail, g->n_tails + 1);
    /* how often the loop uses each value, and its last use, after which its block is free */
    for (int i = 0; i < g->n_members; i++)
        for (int k = 0; k < g->members[i]->n_in; k++) {
            const int v = plan_root(p, g->members[i]->in[k]);

            b->inside[v]++;
            last[v] = i;
        }
    for (int i = 0; i < g->n_tails; i++) {
        const int v = plan_root(p, g->tails[i]->in[0]);

        b->inside[v]++;
        last[v] = GROUP_MAX;
    }
    l->gemm_sums = -1;
    add_instrs(b, g, last, g->gemm != NULL ? set_gemm(b, g) : 0);
    add_tails(b, g);
    if (l->has_gemm)
        take_sums(l);
    /* memory for one block's partial sums, for each tail that needs them */
    const size_t line = 64 / sizeof(float);
    for (int i = 0; i < l->n_tails; i++) {
        struct loop_tail *t = &l->tails[i];

        if (t->kind != TAIL_COLUMNS || i == l->gemm_sums)
            continue;
        t->part = l->part_floats;
        l->part_floats += (t->period + line - 1) / line * line;
    }
    l->row = l->has_gemm ? (size_t)l->gemm.n : l->total;
    l->block = block_size(l);
    place_product(b);
    l->state.at = ARENA_ARRAY(arena, char *, l->n_args + 1);
    l->state.sums = arena_alloc(arena, sizeof(*l->state.sums) * (size_t)(l->n_tails + 1));
    size_t widest = sizeof(float);
    for (int i = 0; i < l->n_args; i++)
        widest = l->args[i].elem > widest ? l->args[i].elem : widest;
    l->temp_bytes = BLOCK_SIZE * widest;
    size_t bytes = scratch_bytes(l);
    if (bytes > 0) {
        struct shape s = {1, {(int64_t)bytes}};

        l->scratch = plan_add_value(p, VALUE_BUFFER, DT_UINT8, s);
    }
    clear_notes(p, g);
    return l;
}

struct loop_program *plan_single_loop(struct plan *p, struct arena *scratch,
                                      const struct node *n)
{
    struct group g = {.n_members = 1, .members = {n}};

    g.total = plan_elements(p, n->out[0]);
    p->values[n->out[0]].uses = 1; /* otherwise the result would have no storage */
    return group_program(p, scratch, &g);
}
