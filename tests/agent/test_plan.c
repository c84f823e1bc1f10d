/* Planning must not change results: with or without fusing, for any feeds, fetches and
 * sizes, the bits are those of operations run one by one; and a cached plan allocates
 * nothing. The linker sends this project's allocations through the counter below. */
#include "agent/graph/import.h"
#include "agent/graph/ops.h"
#include "agent/session/session_internal.h"
#include "tests/agent/session_help.h"
#include "tests/support/test_main.h"

#include <math.h>
#include <stdlib.h>

#define MAX_ROWS 300
#define MAX_ALL  512

enum { IN = 7, ACTION = 5, HIDDEN = 16 };

static int n_allocations;

#define COUNTED(ret, name, params, args)                                                 \
    ret __real_##name params;                                                            \
    ret __wrap_##name params;                                                            \
    ret __wrap_##name params                                                             \
    {                                                                                    \
        n_allocations++;                                                                 \
        return __real_##name args;                                                       \
    }
COUNTED(void *, xmalloc, (size_t size), (size))
COUNTED(void *, xcalloc, (size_t n, size_t size), (n, size))
COUNTED(void *, xreallocarray, (void *p, size_t n, size_t size), (p, n, size))

static size_t too_large = SIZE_MAX; /* an allocation of so many bytes or more fails */

void *__real_mem_aligned(size_t size);
void *__wrap_mem_aligned(size_t size);
void *__wrap_mem_aligned(size_t size)
{
    n_allocations++;
    return size >= too_large ? NULL : __real_mem_aligned(size);
}

/* A critic with everything that can be fused: biases and activations, joined inputs, sums
 * over all, rows and columns, broadcasts, slices of a product. */
struct net {
    struct bed bed;
    float x[MAX_ROWS * IN], u[MAX_ROWS * ACTION], y[MAX_ROWS];
    struct output hidden, act; /* inside the chain */
    struct output results[8];  /* loss, scores, gradients by the variables and actions */
    size_t n_results;
};

static struct variable *weights(struct net *n, struct shape s, const char *name)
{
    struct tensor t = TENSOR_NONE;
    struct variable *v;

    ck_assert_int_eq(tensor_alloc(&t, DT_FLOAT, s, NULL), 0);
    for (int64_t i = 0; i < tensor_elements(&t); i++)
        tensor_f32(&t)[i] = (float)(i * 7919 % 1000 - 500) / 1500.0f;
    v = variable_new(n->bed.g, constant(n->bed.g, &t, NULL), name, 0);
    tensor_free(&t);
    return v;
}

static void set_rows(struct net *n, int64_t rows)
{
    n->bed.feeds[0].value.shape = SHAPE(rows, IN);
    n->bed.feeds[1].value.shape = SHAPE(rows, ACTION);
    n->bed.feeds[2].value.shape = SHAPE(rows, 1);
}

static struct net *net_new(int64_t rows)
{
    struct net *n = calloc(1, sizeof(*n));
    struct bed *b = &n->bed;
    struct output obs, action, target, q, error, loss, scores, xs[5];
    const int32_t last = 1;

    bed_init(b);
    for (int i = 0; i < MAX_ROWS * IN; i++)
        n->x[i] = (float)(i * 31 % 97 - 48) / 20.0f;
    for (int i = 0; i < MAX_ROWS * ACTION; i++)
        n->u[i] = (float)(i * 17 % 89 - 44) / 20.0f;
    obs = bed_input(b, SHAPE(-1, IN), n->x, SHAPE(rows, IN));
    action = bed_input(b, SHAPE(-1, ACTION), n->u, SHAPE(rows, ACTION));
    target = bed_input(b, SHAPE(-1, 1), n->y, SHAPE(rows, 1));
    struct variable *w1 = weights(n, SHAPE(IN + ACTION, HIDDEN), "w1");
    struct variable *b1 = weights(n, SHAPE(HIDDEN), "b1");
    struct variable *w2 = weights(n, SHAPE(HIDDEN, 1), "w2");
    struct variable *b2 = weights(n, SHAPE(1), "b2");

    n->act = softmax(b->g, action, NULL);
    n->hidden = concat(b->g, (struct output[]){obs, n->act}, 2, 1, NULL);
    n->hidden =
        bias_add(b->g, matmul(b->g, n->hidden, w1->read, 0, 0, NULL), b1->read, NULL);
    n->hidden = unary(b->g, "Relu", n->hidden, NULL);
    q = bias_add(b->g, matmul(b->g, n->hidden, w2->read, 0, 0, NULL), b2->read, NULL);
    error = unary(b->g, "Square", binary(b->g, "Sub", q, target, NULL), NULL);
    scores = reduce(b->g, "Sum", binary(b->g, "Mul", n->act, q, NULL), &last, 1, 0, NULL);
    loss = binary(b->g, "Add", reduce(b->g, "Mean", error, NULL, 0, 0, NULL),
                  reduce(b->g, "Mean", scores, NULL, 0, 0, NULL), NULL);
    xs[0] = w1->read, xs[1] = b1->read, xs[2] = w2->read, xs[3] = b2->read;
    xs[4] = action;
    n->results[0] = loss;
    n->results[1] = scores;
    ck_assert_int_eq(
        graph_gradients(b->g, &loss, 1, xs, 5, NULL, NULL, 0, n->results + 2, &b->err),
        0);
    n->n_results = 7;
    bed_init_variables(b);
    return n;
}

static void net_free(struct net *n)
{
    bed_done(&n->bed);
    free(n);
}

static void fetch(struct net *n, const struct output *fetches, size_t n_fetches,
                  struct tensor *ret)
{
    struct run_args args = bed_args(&n->bed);
    args.fetches = fetches;
    args.n_fetches = n_fetches;
    ck_assert_msg(session_run(n->bed.s, &args, ret, &n->bed.err) == 0, "%s",
                  n->bed.err.msg);
}

static void free_all(struct tensor *t, size_t n)
{
    for (size_t i = 0; i < n; i++)
        tensor_free(&t[i]);
}

static void ck_same(const struct tensor *a, const struct tensor *b)
{
    ck_assert(shape_equal(&a->shape, &b->shape));
    ck_assert_mem_eq(a->data, b->data, tensor_bytes(a));
}

/* The results, followed by all other float tensors that are not results of a write. */
static size_t all_tensors(const struct net *n, struct output *ret)
{
    size_t k = n->n_results;

    memcpy(ret, n->results, sizeof(n->results));
    for (int i = 0; i < graph_n_operations(n->bed.g); i++) {
        struct operation *op = graph_operation_at(n->bed.g, i);
        const char *type = operation_type(op);
        struct output x = {op, 0};
        if (operation_n_outputs(op) == 0 || strcmp(type, "Assign") == 0 ||
            strcmp(type, "VariableV2") == 0 || output_dtype(x) != DT_FLOAT)
            continue;
        ck_assert_uint_lt(k, MAX_ALL);
        ret[k++] = x;
    }
    return k;
}

static void ck_fused_is_unfused(struct net *n)
{
    struct tensor few[8] = {TENSOR_NONE}, all[MAX_ALL] = {TENSOR_NONE};
    struct output outputs[MAX_ALL];
    size_t n_all = all_tensors(n, outputs);

    fetch(n, n->results, n->n_results, few);
    fetch(n, outputs, n_all, all);
    ck_assert_uint_gt(n_all, 30);
    for (size_t i = 0; i < n->n_results; i++)
        ck_same(&few[i], &all[i]);
    free_all(few, n->n_results);
    free_all(all, n_all);
}

/* Also tests liveness: with everything fetched, no memory is used twice. */
START_TEST(fused_equals_every_tensor_fetched)
{
    static const int64_t rows[] = {1,   2,   3,   5,   15,  16,  17,  31,  63,  64, 65,
                                   100, 127, 128, 129, 200, 255, 256, 257, 300, 64, 1};
    struct net *n = net_new(1);

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        set_rows(n, rows[i]);
        ck_fused_is_unfused(n);
    }
    net_free(n);
}
END_TEST

START_TEST(each_result_alone_is_the_same)
{
    struct net *n = net_new(130);
    struct tensor together[8] = {TENSOR_NONE};

    fetch(n, n->results, n->n_results, together);
    for (size_t i = 0; i < n->n_results; i++) {
        struct tensor alone = bed_fetch(&n->bed, n->results[i]);
        ck_same(&alone, &together[i]);
        tensor_free(&alone);
    }
    free_all(together, n->n_results);
    net_free(n);
}
END_TEST

/* Feeding the value that the chain would compute leaves the results unchanged; feeding
 * another value changes them. */
static void ck_fed_inside(struct net *n, struct output inside, size_t n_same)
{
    struct tensor before[8] = {TENSOR_NONE}, after[8] = {TENSOR_NONE};
    struct tensor t = bed_fetch(&n->bed, inside);

    fetch(n, n->results, n_same, before);
    n->bed.feeds[n->bed.n_feeds++] = (struct feed){inside, t};
    fetch(n, n->results, n_same, after);
    for (size_t i = 0; i < n_same; i++) {
        ck_same(&before[i], &after[i]);
        tensor_free(&after[i]);
    }
    tensor_f32(&t)[0] += 1.0f;
    fetch(n, n->results, 1, after);
    ck_assert(*tensor_f32(&after[0]) != *tensor_f32(&before[0]));
    n->bed.n_feeds--;
    tensor_free(&after[0]);
    free_all(before, n_same);
    tensor_free(&t);
}

START_TEST(fused_chains_are_fed_inside)
{
    struct net *n = net_new(130);

    ck_fed_inside(n, n->hidden, 6);
    ck_fed_inside(n, n->act, 6);
    net_free(n);
}
END_TEST

/* Feeds two matrices as columns of a wide one, whose other columns must not be read. */
static void lay_apart(struct net *n, int64_t rows, float *wide, int64_t stride)
{
    struct feed *f = n->bed.feeds;

    for (int64_t i = 0; i < rows * stride; i++)
        wide[i] = NAN;
    for (int64_t i = 0; i < rows; i++) {
        memcpy(wide + i * stride + 1, n->x + i * IN, IN * sizeof(float));
        memcpy(wide + i * stride + 1 + IN, n->u + i * ACTION, ACTION * sizeof(float));
    }
    f[0].value.data = wide + 1;
    f[1].value.data = wide + 1 + IN;
    f[0].row_stride = f[1].row_stride = stride;
}

START_TEST(rows_may_lie_apart)
{
    static const int64_t rows[] = {1, 2, 130, 300};
    static float wide[MAX_ROWS * 20];

    for (size_t k = 0; k < sizeof(rows) / sizeof(rows[0]); k++) {
        struct net *n = net_new(rows[k]);
        struct output all[MAX_ALL], x = n->bed.feeds[0].output;
        size_t few = n->n_results, n_all;
        struct tensor before[MAX_ALL] = {TENSOR_NONE}, after[MAX_ALL] = {TENSOR_NONE};

        matmul(n->bed.g, x, x, 1, 0, NULL);
        matmul(n->bed.g, x, x, 0, 1, NULL);
        concat(n->bed.g, (struct output[]){x, x}, 2, 0, NULL);
        n_all = all_tensors(n, all);
        fetch(n, all, n_all, before);
        lay_apart(n, rows[k], wide, 20);
        fetch(n, all, few, after);
        for (size_t i = 0; i < few; i++)
            ck_same(&before[i], &after[i]);
        free_all(after, few);
        fetch(n, all, n_all, after);
        for (size_t i = 0; i < n_all; i++)
            ck_same(&before[i], &after[i]);
        free_all(before, n_all);
        free_all(after, n_all);
        net_free(n);
    }
}
END_TEST

START_TEST(a_cached_plan_allocates_nothing)
{
    struct net *n = net_new(MAX_ROWS);
    struct tensor ret[8] = {TENSOR_NONE};
    int before;

    fetch(n, n->results, n->n_results, ret);
    before = n_allocations;
    ck_assert_int_gt(before, 0);
    for (int i = 0; i < 3; i++)
        fetch(n, n->results, n->n_results, ret);
    ck_assert_int_eq(n_allocations, before);
    set_rows(n, 12); /* another plan */
    free_all(ret, n->n_results);
    fetch(n, n->results, n->n_results, ret);
    ck_assert_int_gt(n_allocations, before);
    free_all(ret, n->n_results);
    net_free(n);
}
END_TEST

/* ---- variables that the run changes ---- */

static struct operation *overwrite(struct bed *b, struct variable *v,
                                   struct operation *after)
{
    struct operation *op;

    control_dependencies_enter(b->g, &after, 1);
    op = variable_assign(v, zeros_like(b->g, v->read, NULL), NULL).op;
    control_dependencies_leave(b->g);
    return op;
}

static struct variable *numbers(struct bed *b)
{
    float data[12];
    struct tensor t = tensor_view(DT_FLOAT, SHAPE(4, 3), data);

    for (int i = 0; i < 12; i++)
        data[i] = (float)(i + 1);
    return variable_new(b->g, constant(b->g, &t, NULL), "v", 0);
}

/* Slicing happened before the write; a slice made of the slice after it has the old
 * values. */
START_TEST(a_slice_of_a_slice_keeps_what_was_read)
{
    struct bed b;
    struct tensor t;

    bed_init(&b);
    struct variable *v = numbers(&b);
    struct output first = slice_columns(b.g, v->ref, 1, 2, NULL);
    struct operation *write = overwrite(&b, v, first.op);
    control_dependencies_enter(b.g, &write, 1);
    struct output second = slice_columns(b.g, first, 1, 1, NULL);
    control_dependencies_leave(b.g);
    bed_init_variables(&b);
    t = bed_fetch(&b, second);
    for (int i = 0; i < 4; i++)
        ck_assert_float_eq(tensor_f32(&t)[i], (float)(3 * i + 3));
    tensor_free(&t);
    bed_done(&b);
}
END_TEST

START_TEST(a_join_of_a_join_keeps_what_was_read)
{
    struct bed b;
    struct tensor t;

    bed_init(&b);
    struct variable *v = numbers(&b);
    struct output first = concat(b.g, (struct output[]){v->ref, v->ref}, 2, 1, NULL);
    struct operation *write = overwrite(&b, v, first.op);
    control_dependencies_enter(b.g, &write, 1);
    struct output second = concat(b.g, (struct output[]){first, first}, 2, 1, NULL);
    control_dependencies_leave(b.g);
    bed_init_variables(&b);
    t = bed_fetch(&b, second);
    for (int i = 0; i < 48; i++)
        ck_assert_float_eq(tensor_f32(&t)[i], (float)(i / 12 * 3 + i % 3 + 1));
    tensor_free(&t);
    bed_done(&b);
}
END_TEST

/* The pieces of a split have the values from before the write, with both ways of
 * splitting. */
START_TEST(pieces_keep_what_was_read)
{
    struct output piece[4], sum;
    struct operation *write;
    struct variable *v;
    struct tensor t;
    struct bed b;

    bed_init(&b);
    v = numbers(&b); /* (4, 3): 1 .. 12 */
    if (_i == 0)
        split(b.g, v->ref, 4, 0, NULL, piece);
    else
        split_into(b.g, v->ref, (const int32_t[]){1, 1, 1, 1}, 4, -2, NULL, piece);
    write = overwrite(&b, v, piece[3].op);
    control_dependencies_enter(b.g, &write, 1);
    sum = binary(b.g, "Add", piece[3], piece[1], NULL);
    control_dependencies_leave(b.g);
    bed_init_variables(&b);
    t = bed_fetch(&b, sum);
    for (int i = 0; i < 3; i++)
        ck_assert_float_eq(tensor_f32(&t)[i], (float)(10 + i + 4 + i));
    tensor_free(&t);
    bed_done(&b);
}
END_TEST

/* Splitting a tensor along its first dimension takes no step. */
START_TEST(pieces_of_rows_are_not_copied)
{
    float x[12], want[4];
    struct output piece[3], fetches[3];
    struct run_args args;
    struct tensor t[3] = {0};
    struct plan *p;
    struct bed b;

    bed_init(&b);
    for (int i = 0; i < 12; i++)
        x[i] = (float)i;
    split(b.g, bed_input(&b, SHAPE(-1, 2), x, SHAPE(6, 2)), 3, 0, NULL, piece);
    for (int i = 0; i < 3; i++)
        fetches[i] = unary(b.g, "Neg", piece[i], NULL);
    args = bed_args(&b);
    args.fetches = fetches;
    args.n_fetches = 3;
    ck_assert_int_eq(
        plan_build(&p, b.g, session_variables(b.s), NUMERICS_PORTABLE, &args, &b.err), 0);
    ck_assert_int_eq(p->n_steps, 3); /* the Neg operations */
    plan_free(p);
    ck_assert_int_eq(session_run(b.s, &args, t, &b.err), 0);
    for (int i = 0; i < 3; i++) {
        for (int k = 0; k < 4; k++)
            want[k] = -x[4 * i + k];
        ck_assert_mem_eq(t[i].data, want, sizeof(want));
        tensor_free(&t[i]);
    }
    bed_done(&b);
}
END_TEST

/* Gradients that wait for each other take the same steps as others. */
START_TEST(gates_between_gradients_cost_nothing)
{
    struct net *n = net_new(5);
    struct bed *b = &n->bed;
    struct output plain[4], gated[4], xs[4];

    for (int i = 0; i < 4; i++)
        xs[i] = graph_variable_at(b->g, i)->read;
    ck_assert_int_eq(
        graph_gradients(b->g, &n->results[0], 1, xs, 4, NULL, NULL, 0, plain, &b->err),
        0);
    ck_assert_int_eq(graph_gradients_gated(b->g, n->results[0], xs, 4, gated, &b->err),
                     0);
    struct run_args args[2] = {bed_args(b), bed_args(b)};
    struct plan *p[2];
    struct tensor t[2][4] = {0};
    args[0].n_fetches = args[1].n_fetches = 4;
    args[0].fetches = plain;
    args[1].fetches = gated;
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(plan_build(&p[i], b->g, session_variables(b->s),
                                    NUMERICS_PORTABLE, &args[i], &b->err),
                         0);
        fetch(n, args[i].fetches, 4, t[i]);
    }
    ck_assert_int_eq(p[0]->n_steps, p[1]->n_steps);
    ck_assert_uint_eq(p[0]->buffer_bytes, p[1]->buffer_bytes);
    for (int i = 0; i < 4; i++)
        ck_same(&t[0][i], &t[1][i]);
    for (int i = 0; i < 2; i++) {
        plan_free(p[i]);
        free_all(t[i], 4);
    }
    net_free(n);
}
END_TEST

/* ---- a variable that follows another ---- */

struct follower {
    struct bed bed;
    struct variable *to, *from;
    struct output inside[3]; /* both products and their sum */
    struct operation *assign;
    float polyak;
};

static void follower_init(struct follower *f)
{
    struct bed *b = &f->bed;
    float x[23];
    struct tensor t = tensor_view(DT_FLOAT, SHAPE(23), x);

    bed_init(b);
    for (int i = 0; i < 23; i++)
        x[i] = (float)(i * 31 % 23 - 11) / 7.0f;
    f->to = variable_new(b->g, constant(b->g, &t, NULL), "to", 0);
    for (int i = 0; i < 23; i++)
        x[i] = i == 7 ? NAN : (float)(i * 17 % 23 - 11) / 3.0f;
    f->from = variable_new(b->g, constant(b->g, &t, NULL), "from", 0);
    f->polyak = 0.3f;
    struct output polyak = bed_input(b, SHAPE_SCALAR, &f->polyak, SHAPE_SCALAR);
    struct output keep =
        binary(b->g, "Sub", constant_f32(b->g, 1.0f, NULL), polyak, NULL);
    f->inside[0] = binary(b->g, "Mul", keep, f->to->read, NULL);
    f->inside[1] = binary(b->g, "Mul", f->from->ref, polyak, NULL);
    f->inside[2] = binary(b->g, "Add", f->inside[0], f->inside[1], NULL);
    f->assign = variable_assign(f->to, f->inside[2], NULL).op;
    bed_init_variables(b);
}

/* Runs one step, fetching one of `inside` (-1: none); ret: the variable after it. */
static void follow_once(struct follower *f, int fetched, float ret[23])
{
    struct run_args args = bed_args(&f->bed);
    struct tensor t = TENSOR_NONE;

    args.fetches = fetched >= 0 ? &f->inside[fetched] : NULL;
    args.n_fetches = fetched >= 0;
    args.targets = &f->assign;
    args.n_targets = 1;
    ck_assert_msg(session_run(f->bed.s, &args, &t, &f->bed.err) == 0, "%s",
                  f->bed.err.msg);
    if (fetched == 2)
        for (int i = 0; i < 23; i++)
            ck_assert(i == 7
                          ? isnan(tensor_f32(&t)[i])
                          : tensor_f32(&t)[i] ==
                                (1.0f - f->polyak) * ((float)(i * 31 % 23 - 11) / 7.0f) +
                                    f->polyak * ((float)(i * 17 % 23 - 11) / 3.0f));
    tensor_free(&t);
    ck_assert_int_eq(session_variable(f->bed.s, f->to, &t, &f->bed.err), 0);
    memcpy(ret, t.data, 23 * sizeof(float));
}

/* The average is stored when it is computed, unless a part of it is fetched; the bits are
 * the same. */
START_TEST(a_variable_that_follows_has_the_same_bits)
{
    float want[23], got[23];

    for (int fetched = 2; fetched >= -1; fetched--) {
        struct follower f;

        follower_init(&f);
        follow_once(&f, fetched, fetched == 2 ? want : got);
        if (fetched < 2)
            ck_assert_mem_eq(got, want, sizeof(want));
        bed_done(&f.bed);
    }
}
END_TEST

/* The followed variable is read before it is changed: the write waits for the product. */
START_TEST(a_variable_is_followed_as_it_was)
{
    struct follower f;
    float want[23], got[23];

    follower_init(&f);
    follow_once(&f, -1, want);
    bed_done(&f.bed);
    follower_init(&f);
    struct bed *b = &f.bed;
    struct operation *const product = f.inside[1].op;
    struct operation *write = overwrite(b, f.from, product);
    control_dependencies_enter(b->g, &write, 1);
    struct output sum = binary(b->g, "Add", f.inside[0], f.inside[1], NULL);
    f.assign = variable_assign(f.to, sum, NULL).op;
    control_dependencies_leave(b->g);
    follow_once(&f, -1, got);
    ck_assert_mem_eq(got, want, sizeof(want));
    bed_done(b);
}
END_TEST

/* Two norms share the squares and their sum, but not across a write. */
START_TEST(norms_share_their_sum)
{
    struct bed b;
    struct tensor t[3] = {TENSOR_NONE, TENSOR_NONE, TENSOR_NONE};
    struct output fetches[3];
    struct run_args args;

    bed_init(&b);
    struct variable *v = numbers(&b);
    struct output squares = binary(b.g, "Mul", v->ref, v->ref, NULL);
    fetches[0] = reduce(b.g, "Sum", squares, NULL, 0, 0, NULL);
    fetches[1] = unary(b.g, "L2Loss", v->ref, NULL);
    struct operation *const first[] = {fetches[0].op, fetches[1].op};
    control_dependencies_enter(b.g, first, 2);
    struct operation *write = overwrite(&b, v, first[0]);
    control_dependencies_leave(b.g);
    control_dependencies_enter(b.g, &write, 1);
    fetches[2] = unary(b.g, "Square", v->ref, NULL);
    control_dependencies_leave(b.g);
    bed_init_variables(&b);
    args = bed_args(&b);
    args.fetches = fetches;
    args.n_fetches = 3;
    ck_assert_msg(session_run(b.s, &args, t, &b.err) == 0, "%s", b.err.msg);
    ck_assert_float_eq(*tensor_f32(&t[0]), 650.0f); /* 1 + 4 + ... + 144 */
    ck_assert_float_eq(*tensor_f32(&t[1]), 325.0f);
    for (int i = 0; i < 12; i++)
        ck_assert_float_eq(tensor_f32(&t[2])[i], 0.0f);
    free_all(t, 3);
    bed_done(&b);
}
END_TEST

/* Under native numerics OpenBLAS computes large products, with results close to the
 * portable ones; other products have the same bits. A bias and an activation follow
 * both. */
START_TEST(native_numerics_differ_in_large_products_only)
{
    static const struct {
        int64_t side;
        int by_blas;
    } cases[] = {{255, 0}, {512, 1}};
    const struct session_options native = {.numerics = NUMERICS_NATIVE};
    static float x[512 * 512];

    for (int i = 0; i < 512 * 512; i++)
        x[i] = (float)(i * 7919 % 2003 - 1001) / 8000.0f;
    for (size_t k = 0; k < sizeof(cases) / sizeof(cases[0]); k++) {
        const int64_t n = test_stride() > 4 ? cases[k].side / 2 : cases[k].side;
        struct session *other;
        struct tensor a, b = TENSOR_NONE;
        struct run_args args;
        struct plan *p;
        struct bed bed;
        int n_blas = 0, n_off = 0;

        /* it takes half a minute on an emulated x86-64, to which test_machines.py gives a
         * stride of 5; this machine (1) and an emulated arm64 (3) run it */
        if (cases[k].by_blas && test_stride() > 4)
            continue;
        bed_init(&bed);
        struct output in = bed_input(&bed, SHAPE(n, n), x, SHAPE(n, n));
        struct output bias = bed_input(&bed, SHAPE(n), x, SHAPE(n));
        struct output y = matmul(bed.g, in, in, 0, 0, NULL);
        y = unary(bed.g, "Relu", bias_add(bed.g, y, bias, NULL), NULL);
        ck_assert_int_eq(session_new(&other, bed.g, &native, &bed.err), 0);
        args = bed_args(&bed);
        args.fetches = &y;
        args.n_fetches = 1;
        a = bed_fetch(&bed, y);
        ck_assert_int_eq(session_run(other, &args, &b, &bed.err), 0);
        for (int64_t i = 0; i < n * n; i++) /* faster than an assertion each */
            n_off += !(fabsf(tensor_f32(&a)[i] - tensor_f32(&b)[i]) <= 1e-4f);
        ck_assert_int_eq(n_off, 0);
        if (!cases[k].by_blas)
            ck_same(&a, &b);
        ck_assert_int_eq(plan_build(&p, bed.g, session_variables(other), NUMERICS_NATIVE,
                                    &args, &bed.err),
                         0);
        for (int i = 0; i < p->n_steps; i++)
            n_blas += p->steps[i].loop != NULL && p->steps[i].loop->by_blas;
        ck_assert_int_eq(n_blas, cases[k].by_blas);
        plan_free(p);
        tensor_free(&a);
        tensor_free(&b);
        session_free(other);
        bed_done(&bed);
    }
}
END_TEST

/* A batch larger than a chunk goes through its products chunk by chunk; intermediate
 * values have memory for one chunk only. */
START_TEST(a_large_batch_is_played_in_chunks)
{
    struct net *n = net_new(MAX_ROWS);
    struct run_args args = bed_args(&n->bed);
    struct plan *p[2];
    int n_local = 0;

    args.fetches = n->results;
    args.n_fetches = n->n_results;
    for (int i = 0; i < 2; i++) {
        set_rows(n, i == 0 ? 128 : MAX_ROWS);
        ck_assert_int_eq(plan_build(&p[i], n->bed.g, session_variables(n->bed.s),
                                    NUMERICS_PORTABLE, &args, &n->bed.err),
                         0);
    }
    ck_assert_int_eq(p[0]->n_stretches, 0);
    ck_assert_int_eq(p[1]->n_stretches, 1);
    ck_assert_int_gt(p[1]->stretches[0].n, p[1]->n_steps / 2);
    for (int v = 0; v < p[1]->n_values; v++)
        n_local += p[1]->values[v].local_rows > 0;
    ck_assert_int_gt(n_local, 3);
    for (int i = 0; i < 2; i++)
        plan_free(p[i]);
    net_free(n);
}
END_TEST

/* One place has memory of the caller's, and the copy for another one fails. */
START_TEST(the_callers_tensors_stay_its_own)
{
    float one = 7, many[1024] = {0};
    struct tensor ret[3] = {TENSOR_NONE, TENSOR_NONE, TENSOR_NONE};
    struct output fetches[3];
    struct run_args args;
    struct bed b;
    const void *own;

    bed_init(&b);
    fetches[0] = fetches[1] = bed_input(&b, (struct shape){0}, &one, (struct shape){0});
    fetches[2] = bed_input(&b, SHAPE(1024), many, SHAPE(1024));
    args = bed_args(&b);
    args.fetches = fetches;
    args.n_fetches = 3;
    ck_assert_int_eq(tensor_alloc(&ret[0], DT_FLOAT, (struct shape){0}, NULL), 0);
    own = ret[0].data;
    too_large = sizeof(many);
    ck_assert_int_eq(session_run(b.s, &args, ret, &b.err), ERR_NOMEM);
    ck_assert(ret[0].data == own && ret[0].owned);
    ck_assert(ret[1].data == NULL && ret[2].data == NULL);
    too_large = SIZE_MAX;
    ck_assert_int_eq(session_run(b.s, &args, ret, &b.err), 0);
    ck_assert(ret[0].data == own && *tensor_f32(&ret[0]) == 7);
    for (size_t i = 0; i < 3; i++)
        tensor_free(&ret[i]);
    bed_done(&b);
}
END_TEST

/* A list before it counts as all its inputs. */
START_TEST(a_reference_is_found_among_the_inputs)
{
    struct graph *g = graph_new();
    const struct op_def *def =
        op_def_foreign(g, "Odd", "values:N*T, ref:&T, last:T ->; N:int, T:type", 0);
    struct variable *v = variable_new(g, constant_f32(g, 1, NULL), "v", 0);
    struct output x = constant_f32(g, 2, NULL);
    struct op_builder *b;
    struct operation *op;

    ck_assert_ptr_nonnull(def);
    b = op_begin_imported(g, def, "odd");
    for (int i = 0; i < 3; i++)
        op_input(b, x);
    op_input(b, v->ref);
    op_input(b, x);
    op_attr_int(b, "N", 3);
    op_attr_type(b, "T", DT_FLOAT);
    op = op_finish(b);
    ck_assert_ptr_nonnull(op);
    for (int i = 0; i < 5; i++)
        ck_assert_int_eq(takes_reference(op, i), i == 3);
    graph_free(g);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *s = suite_create("plan");
    TCase *tc = tcase_create("plan");

    tcase_add_test(tc, fused_equals_every_tensor_fetched);
    tcase_add_test(tc, each_result_alone_is_the_same);
    tcase_add_test(tc, fused_chains_are_fed_inside);
    tcase_add_test(tc, the_callers_tensors_stay_its_own);
    tcase_add_test(tc, a_reference_is_found_among_the_inputs);
    tcase_add_test(tc, rows_may_lie_apart);
    tcase_add_test(tc, a_cached_plan_allocates_nothing);
    tcase_add_test(tc, gates_between_gradients_cost_nothing);
    tcase_add_test(tc, a_slice_of_a_slice_keeps_what_was_read);
    tcase_add_test(tc, a_join_of_a_join_keeps_what_was_read);
    tcase_add_loop_test(tc, pieces_keep_what_was_read, 0, 2);
    tcase_add_test(tc, pieces_of_rows_are_not_copied);
    tcase_add_test(tc, a_variable_that_follows_has_the_same_bits);
    tcase_add_test(tc, a_variable_is_followed_as_it_was);
    tcase_add_test(tc, norms_share_their_sum);
    tcase_add_test(tc, native_numerics_differ_in_large_products_only);
    tcase_add_test(tc, a_large_batch_is_played_in_chunks);
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(make_suite)
