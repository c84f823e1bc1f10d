/* While loops, tensor arrays and stacks, built as TensorFlow 1's Python builds them. Each
 * graph runs as built, and again after an export and import. */
#include "agent/graph/import.h"
#include "agent/graph/ops.h"
#include "agent/saver/metagraph_export.h"
#include "agent/saver/metagraph_import.h"
#include "agent/session/session.h"
#include "tests/support/test_main.h"

#include <check.h>
#include <math.h>
#include <string.h>

/* ---- a graph and its copy ---- */

#define COPIES  2
#define MAX_FED 8

struct bench {
    struct graph *g[COPIES];
    struct session *s[COPIES];
    struct {
        const char *name;
        struct tensor value;
    } fed[MAX_FED];
    int n_fed;
    uint64_t counter;
    struct err err;
};

static struct graph *begin(struct bench *b)
{
    *b = (struct bench){.g = {graph_new()}};
    return b->g[0];
}

/* Ends the building of the graph and makes its copy. */
static void end(struct bench *b)
{
    struct wbuf bytes = {0};

    ck_assert_msg(graph_error(b->g[0]) == NULL, "%s", graph_error(b->g[0])->msg);
    metagraph_export(&bytes, b->g[0], NULL, NULL);
    b->g[1] = graph_new();
    ck_assert_msg(metagraph_import(b->g[1], bytes.data, bytes.len, NULL, NULL, &b->err) ==
                      0,
                  "%s", b->err.msg);
    wbuf_done(&bytes);
    for (int k = 0; k < COPIES; k++)
        ck_assert_int_eq(session_new(&b->s[k], b->g[k], NULL, &b->err), 0);
}

static void done(struct bench *b)
{
    for (int k = 0; k < COPIES; k++) {
        session_free(b->s[k]);
        graph_free(b->g[k]);
    }
}

static void set(struct bench *b, const char *name, struct tensor value)
{
    int i = 0;

    while (i < b->n_fed && strcmp(b->fed[i].name, name) != 0)
        i++;
    b->n_fed = i == b->n_fed ? i + 1 : b->n_fed;
    b->fed[i].name = name;
    b->fed[i].value = value;
}

/* Runs copy k; fetch and target may be NULL. */
static int try(struct bench *b, int k, const char *fetch, const char *target,
               struct tensor *ret)
{
    struct feed feeds[MAX_FED] = {0};
    struct run_args args = {.feeds = feeds, .n_feeds = (size_t)b->n_fed};
    struct output x = OUTPUT_NONE;
    struct operation *op = target != NULL ? graph_operation(b->g[k], target) : NULL;

    args.counter = b->counter;
    for (int i = 0; i < b->n_fed; i++) {
        ck_assert_int_eq(graph_tensor(b->g[k], b->fed[i].name, &feeds[i].output, &b->err),
                         0);
        feeds[i].value = b->fed[i].value;
    }
    if (fetch != NULL) {
        ck_assert_msg(graph_tensor(b->g[k], fetch, &x, &b->err) == 0, "%s", b->err.msg);
        args.fetches = &x;
        args.n_fetches = 1;
    }
    args.targets = &op;
    args.n_targets = op != NULL;
    *ret = TENSOR_NONE;
    return session_run(b->s[k], &args, ret, &b->err);
}

static struct tensor fetch(struct bench *b, int k, const char *name)
{
    struct tensor t;

    ck_assert_msg(try(b, k, name, NULL, &t) == 0, "%s: %s", name, b->err.msg);
    return t;
}

static double number(struct bench *b, int k, const char *name)
{
    struct tensor t = fetch(b, k, name);
    double x = t.dtype == DT_INT32 ? *(int32_t *)t.data : (double)*(float *)t.data;

    ck_assert_int_eq(tensor_elements(&t), 1);
    tensor_free(&t);
    return x;
}

static void check_floats(struct bench *b, const char *name, const float *want, int64_t n,
                         float tolerance)
{
    for (int k = 0; k < COPIES; k++) {
        struct tensor t = fetch(b, k, name);

        ck_assert_int_eq(tensor_elements(&t), n);
        for (int64_t i = 0; i < n; i++)
            ck_assert_msg(fabsf(tensor_f32(&t)[i] - want[i]) <= tolerance,
                          "%s[%d] is %g, not %g", name, (int)i, (double)tensor_f32(&t)[i],
                          (double)want[i]);
        tensor_free(&t);
    }
}

/* The run must fail with this message, in both copies. */
static void check_fails(struct bench *b, const char *name, const char *why)
{
    for (int k = 0; k < COPIES; k++) {
        struct tensor t;

        ck_assert_msg(try(b, k, name, NULL, &t) < 0, "%s", name);
        ck_assert_msg(strstr(b->err.msg, why) != NULL, "%s", b->err.msg);
    }
}

static void runs(struct bench *b, int k, const char *target)
{
    struct tensor t;

    ck_assert_msg(try(b, k, NULL, target, &t) == 0, "%s: %s", target, b->err.msg);
}

/* ---- parts of graphs ---- */

static struct output enter(struct graph *g, struct output x, const char *frame,
                           int is_constant, const char *name)
{
    struct op_builder *b = op_begin(g, output_is_ref(x) ? "RefEnter" : "Enter", name);

    op_input(b, x);
    op_attr_string(b, "frame_name", frame);
    op_attr_bool(b, "is_constant", is_constant);
    return (struct output){op_finish(b), 0};
}

struct variable_of_loop {
    /* now: the value in the body; left: the output of the Switch that leaves the loop */
    struct output merge, now, left;
};

/* Adds a variable to a loop, up to its Merge. */
static struct variable_of_loop carry(struct graph *g, struct output x, const char *frame)
{
    struct output in = enter(g, x, frame, 0, NULL);

    return (struct variable_of_loop){binary(g, "Merge", in, in, NULL), OUTPUT_NONE,
                                     OUTPUT_NONE};
}

static void take(struct graph *g, struct variable_of_loop *v, struct output cond)
{
    v->left = binary(g, "Switch", v->merge, cond, NULL);
    v->now = (struct output){v->left.op, 1};
    v->now = unary(g, "Identity", v->now, NULL);
}

/* Sets the value of the next iteration; returns the value after the loop. */
static struct output next(struct graph *g, struct variable_of_loop *v, struct output x,
                          const char *name)
{
    operation_replace_input(v->merge.op, 1, unary(g, "NextIteration", x, NULL));
    return unary(g, "Exit", v->left, name);
}

/* A constant of the body (or of the condition), which waits for the iteration to
 * begin. */
static struct output inner(struct graph *g, struct output pivot, struct tensor value)
{
    struct output x;

    control_dependencies_enter(g, &pivot.op, 1);
    x = constant(g, &value, NULL);
    control_dependencies_leave(g);
    return x;
}

static struct output inner_i32(struct graph *g, struct output pivot, int32_t value)
{
    return inner(g, pivot, tensor_view(DT_INT32, SHAPE_SCALAR, &value));
}

static struct output inner_f32(struct graph *g, struct output pivot, float value)
{
    return inner(g, pivot, tensor_view(DT_FLOAT, SHAPE_SCALAR, &value));
}

static struct output loop_cond(struct graph *g, struct output x)
{
    return unary(g, "LoopCond", x, NULL);
}

static struct output add(struct graph *g, struct output x, struct output y)
{
    return binary(g, "Add", x, y, NULL);
}

static struct output mul(struct graph *g, struct output x, struct output y)
{
    return binary(g, "Mul", x, y, NULL);
}

static struct output less(struct graph *g, struct output x, struct output y)
{
    return binary(g, "Less", x, y, NULL);
}

static struct tensor i32(int32_t *x)
{
    return tensor_view(DT_INT32, SHAPE_SCALAR, x);
}

/* ---- loops ---- */

/* y = 1; while y < 100: y *= x. What comes of x is in the value of the next iteration alone. */
START_TEST(gradients_through_a_loop_are_refused)
{
    struct graph *g = graph_new();
    struct output x = placeholder(g, DT_FLOAT, &SHAPE_SCALAR, "x"), y, d;
    struct variable_of_loop v = carry(g, constant_f32(g, 1, NULL), "while");
    struct err err = {0};

    take(g, &v, loop_cond(g, less(g, v.merge, constant_f32(g, 100, NULL))));
    y = next(g, &v, mul(g, v.now, enter(g, x, "while", 1, NULL)), "y");
    ck_assert(graph_gradients(g, &y, 1, &x, 1, NULL, NULL, 0, &d, &err) < 0);
    ck_assert_msg(strstr(err.msg, "gradients through loops are not built") != NULL, "%s",
                  err.msg);
    graph_free(g);
}
END_TEST

/* i = 0; while i < n: i += 1 */
START_TEST(a_loop_counts)
{
    struct bench b;
    struct graph *g = begin(&b);
    struct output n = placeholder(g, DT_INT32, &SHAPE_SCALAR, "n"), cond;
    struct variable_of_loop i = carry(g, constant_i32(g, 0, NULL), "while");
    int32_t limit;

    cond = loop_cond(g, less(g, i.merge, enter(g, n, "while", 1, NULL)));
    take(g, &i, cond);
    add(g, next(g, &i, add(g, i.now, inner_i32(g, i.now, 1)), "i"),
        constant_i32(g, 100, NULL));
    end(&b);
    for (limit = 0; limit < 6; limit++)
        for (int k = 0; k < COPIES; k++) {
            set(&b, "n:0", i32(&limit));
            ck_assert_float_eq(number(&b, k, "i:0"), limit);
            ck_assert_float_eq(number(&b, k, "Add_1:0"), limit + 100);
        }
    done(&b);
}
END_TEST

/* A constant that is fed has the fed value inside of the loop, too. */
START_TEST(a_loop_reads_what_is_fed)
{
    struct bench b;
    struct graph *g = begin(&b);
    struct output n = constant_i32(g, 5, "n"), cond;
    struct variable_of_loop i = carry(g, constant_i32(g, 0, NULL), "while");
    int32_t limit = 2;

    cond = loop_cond(g, less(g, i.merge, enter(g, n, "while", 1, NULL)));
    take(g, &i, cond);
    (void)next(g, &i, add(g, i.now, inner_i32(g, i.now, 1)), "i");
    end(&b);
    for (int k = 0; k < COPIES; k++) {
        b.n_fed = 0;
        ck_assert_float_eq(number(&b, k, "i:0"), 5);
        set(&b, "n:0", i32(&limit));
        ck_assert_float_eq(number(&b, k, "i:0"), 2);
        b.n_fed = 0;
        ck_assert_float_eq(number(&b, k, "i:0"), 5);
    }
    done(&b);
}
END_TEST

/* a, b = b, a + b */
START_TEST(variables_take_values_of_each_other)
{
    struct bench b;
    struct graph *g = begin(&b);
    struct output n = placeholder(g, DT_INT32, &SHAPE_SCALAR, "n"), cond;
    struct variable_of_loop i = carry(g, constant_i32(g, 0, NULL), "fib");
    struct variable_of_loop x = carry(g, constant_i32(g, 0, NULL), "fib");
    struct variable_of_loop y = carry(g, constant_i32(g, 1, NULL), "fib");
    static const int want[] = {0, 1, 1, 2, 3, 5, 8, 13, 21, 34};
    int32_t limit;

    cond = loop_cond(g, less(g, i.merge, enter(g, n, "fib", 1, NULL)));
    take(g, &i, cond);
    take(g, &x, cond);
    take(g, &y, cond);
    (void)next(g, &i, add(g, i.now, inner_i32(g, i.now, 1)), "i");
    (void)next(g, &x, y.now, "x");
    (void)next(g, &y, add(g, x.now, y.now), "y");
    end(&b);
    for (limit = 0; limit < 10; limit++)
        for (int k = 0; k < COPIES; k++) {
            set(&b, "n:0", i32(&limit));
            ck_assert_float_eq(number(&b, k, "x:0"), want[limit]);
        }
    done(&b);
}
END_TEST

/* Gradients put an Identity that waits for others between Switch and Exit
 * (tuple/control_dependency). */
START_TEST(a_loop_is_left_through_identities)
{
    struct bench b;
    struct graph *g = begin(&b);
    struct output n = placeholder(g, DT_INT32, &SHAPE_SCALAR, "n"), cond;
    struct variable_of_loop i = carry(g, constant_i32(g, 0, NULL), "while");
    struct operation *group_deps;
    int32_t limit;

    cond = loop_cond(g, less(g, i.merge, enter(g, n, "while", 1, NULL)));
    take(g, &i, cond);
    group_deps = group(g, &i.left.op, 1, "group_deps");
    control_dependencies_enter(g, &group_deps, 1);
    i.left = unary(g, "Identity", i.left, "control_dependency");
    control_dependencies_leave(g);
    i.left = unary(g, "Identity", i.left, NULL);
    (void)next(g, &i, add(g, i.now, inner_i32(g, i.now, 1)), "i");
    end(&b);
    for (limit = 0; limit < 3; limit++)
        for (int k = 0; k < COPIES; k++) {
            set(&b, "n:0", i32(&limit));
            ck_assert_float_eq(number(&b, k, "i:0"), limit);
        }
    done(&b);
}
END_TEST

/* for i < n: for j < i: sum += w; w a variable, read through a RefEnter of two loops */
START_TEST(loops_are_nested)
{
    struct bench b;
    struct graph *g = begin(&b);
    struct output n = placeholder(g, DT_INT32, &SHAPE_SCALAR, "n"), cond, inside, w_in,
                  sum;
    struct variable *w = variable_new(g, constant_f32(g, 0.5f, NULL), "w", 0);
    struct variable_of_loop i = carry(g, constant_i32(g, 0, NULL), "outer");
    struct variable_of_loop s = carry(g, constant_f32(g, 1, NULL), "outer"), j, t;
    int32_t limit;

    ck_assert_ptr_nonnull(global_variables_initializer(g, NULL));
    cond = loop_cond(g, less(g, i.merge, enter(g, n, "outer", 1, NULL)));
    take(g, &i, cond);
    take(g, &s, cond);
    w_in = enter(g, enter(g, w->ref, "outer", 1, NULL), "inner", 1, NULL);
    j = carry(g, inner_i32(g, i.now, 0), "inner");
    t = carry(g, s.now, "inner");
    inside = loop_cond(g, less(g, j.merge, enter(g, i.now, "inner", 1, NULL)));
    take(g, &j, inside);
    take(g, &t, inside);
    (void)next(g, &j, add(g, j.now, inner_i32(g, j.now, 1)), NULL);
    sum = next(g, &t, add(g, t.now, unary(g, "Identity", w_in, NULL)), NULL);
    (void)next(g, &i, add(g, i.now, inner_i32(g, i.now, 1)), NULL);
    (void)next(g, &s, sum, "sum");
    end(&b);
    for (int k = 0; k < COPIES; k++) {
        b.n_fed = 0;
        runs(&b, k, "init");
        for (limit = 0; limit < 6; limit++) {
            set(&b, "n:0", i32(&limit));
            ck_assert_float_eq(number(&b, k, "sum:0"),
                               1 + 0.5 * (limit * (limit - 1) / 2));
        }
    }
    done(&b);
}
END_TEST

/* x = concat(x, [i]) grows; the graph does not know its shape. */
START_TEST(a_variable_changes_its_shape)
{
    struct bench b;
    struct graph *g = begin(&b);
    float first[1] = {7};
    struct tensor start = tensor_view(DT_FLOAT, SHAPE(1), first);
    struct output n = placeholder(g, DT_INT32, &SHAPE_SCALAR, "n"), cond, more[3], joined;
    struct variable_of_loop i = carry(g, constant_i32(g, 0, NULL), "while");
    struct variable_of_loop x = carry(g, constant(g, &start, NULL), "while");
    int32_t limit = 5, minus_one[1] = {-1};
    float want[6] = {7, 0, 1, 2, 3, 4};

    operation_forget_shape(x.merge.op);
    cond = loop_cond(g, less(g, i.merge, enter(g, n, "while", 1, NULL)));
    take(g, &i, cond);
    take(g, &x, cond);
    more[0] = x.now;
    more[1] = binary(g, "Reshape", cast(g, i.now, DT_FLOAT, NULL),
                     inner(g, i.now, tensor_view(DT_INT32, SHAPE(1), minus_one)), NULL);
    more[2] = inner_i32(g, i.now, 0);
    struct op_builder *join = op_begin(g, "ConcatV2", NULL);
    op_attr_int(join, "N", 2);
    for (int k = 0; k < 3; k++)
        op_input(join, more[k]);
    joined = (struct output){op_finish(join), 0};
    (void)next(g, &i, add(g, i.now, inner_i32(g, i.now, 1)), NULL);
    (void)next(g, &x, joined, "x");
    end(&b);
    set(&b, "n:0", i32(&limit));
    check_floats(&b, "x:0", want, 6, 0);
    limit = 2;
    check_floats(&b, "x:0", want, 3, 0);
    done(&b);
}
END_TEST

/* ---- tensor arrays ---- */

struct array {
    struct output handle, flow;
};

static struct array array_new(struct graph *g, struct output size, int dynamic)
{
    struct op_builder *b = op_begin(g, "TensorArrayV3", "TensorArray");
    struct operation *op;

    op_input(b, size);
    op_attr_type(b, "dtype", DT_FLOAT);
    op_attr_bool(b, "dynamic_size", dynamic);
    op = op_finish(b);
    return (struct array){{op, 0}, {op, 1}};
}

static struct output array_op(struct graph *g, const char *type, const struct output *in,
                              int n, const char *name)
{
    struct op_builder *b = op_begin(g, type, name);

    for (int i = 0; i < n; i++)
        op_input(b, in[i]);
    if (strstr(type, "Read") != NULL || strstr(type, "Gather") != NULL ||
        strstr(type, "Concat") != NULL)
        op_attr_type(b, "dtype", DT_FLOAT);
    if (strstr(type, "Pop") != NULL)
        op_attr_type(b, "elem_type", DT_FLOAT);
    return (struct output){op_finish(b), 0};
}

#define ARRAY_OP(g, type, name, ...)                                                     \
    array_op(                                                                            \
        (g), (type), (const struct output[]){__VA_ARGS__},                               \
        (int)(sizeof((const struct output[]){__VA_ARGS__}) / sizeof(struct output)),     \
        (name))

/* The size of dimension 0, as shape[0] in Python builds it. */
static struct output vector_first(struct graph *g, struct output shape)
{
    struct output parts[2];

    split(g, shape, 2, 0, NULL, parts);
    return binary(g, "Reshape", parts[0], constant_i32s(g, NULL, 0, NULL), NULL);
}

static struct output range_of(struct graph *g, struct output n)
{
    return ternary(g, "Range", constant_i32(g, 0, NULL), n, constant_i32(g, 1, NULL),
                   NULL);
}

/* tf.scan(lambda a, x: a * 0.5 + x, xs): reads one array and writes another one. */
static void build_scan(struct graph *g)
{
    struct output xs = placeholder(g, DT_FLOAT, &SHAPE(-1, 2), "xs"), n, cond, x, y, all;
    struct array in, out;
    struct variable_of_loop i, acc, flow;

    n = vector_first(g, shape_of(g, xs, NULL));
    in = array_new(g, n, 0);
    out = array_new(g, n, 0);
    in.flow =
        ARRAY_OP(g, "TensorArrayScatterV3", NULL, in.handle, range_of(g, n), xs, in.flow);
    i = carry(g, constant_i32(g, 0, NULL), "scan");
    acc = carry(g, zeros(g, DT_FLOAT, &SHAPE(2), NULL), "scan");
    flow = carry(g, out.flow, "scan");
    cond = loop_cond(g, less(g, i.merge, enter(g, n, "scan", 1, NULL)));
    take(g, &i, cond);
    take(g, &acc, cond);
    take(g, &flow, cond);
    x = ARRAY_OP(g, "TensorArrayReadV3", NULL, enter(g, in.handle, "scan", 1, NULL),
                 i.now, enter(g, in.flow, "scan", 1, NULL));
    y = add(g, mul(g, acc.now, inner_f32(g, i.now, 0.5f)), x);
    all = ARRAY_OP(g, "TensorArrayWriteV3", NULL, enter(g, out.handle, "scan", 1, NULL),
                   i.now, y, flow.now);
    (void)next(g, &i, add(g, i.now, inner_i32(g, i.now, 1)), NULL);
    (void)next(g, &acc, y, "last");
    all = next(g, &flow, all, NULL);
    x = ARRAY_OP(g, "TensorArraySizeV3", "size", out.handle, all);
    (void)ARRAY_OP(g, "TensorArrayGatherV3", "all", out.handle, range_of(g, x), all);
}

START_TEST(a_scan_uses_tensor_arrays)
{
    struct bench b;
    float data[8] = {1, 2, 3, 4, 5, 6, 7, 8}, want[8], a[2] = {0};

    build_scan(begin(&b));
    end(&b);
    for (int64_t rows = 1; rows <= 4; rows += 3) {
        a[0] = a[1] = 0;
        for (int k = 0; k < rows * 2; k++)
            want[k] = a[k % 2] = a[k % 2] * 0.5f + data[k];
        set(&b, "xs:0", tensor_view(DT_FLOAT, SHAPE(rows, 2), data));
        check_floats(&b, "all:0", want, rows * 2, 0);
        check_floats(&b, "last:0", want + rows * 2 - 2, 2, 0);
        for (int k = 0; k < COPIES; k++)
            ck_assert_float_eq(number(&b, k, "size:0"), rows);
    }
    done(&b);
}
END_TEST

/* Split, Concat, dynamic sizes, and TensorFlow's refusals with its messages. */
START_TEST(tensor_arrays_are_those_of_tensorflow)
{
    struct bench b;
    struct graph *g = begin(&b);
    float data[6] = {1, 2, 3, 4, 5, 6};
    int64_t sizes[2] = {2, 1};
    struct tensor t = tensor_view(DT_FLOAT, SHAPE(3, 2), data);
    struct tensor cut = tensor_view(DT_INT64, SHAPE(2), sizes);
    struct output xs = constant(g, &t, "xs"),
                  at = placeholder(g, DT_INT32, &SHAPE_SCALAR, "at");
    struct array a = array_new(g, constant_i32(g, 2, NULL), 0), d;
    struct output flow, once;
    int32_t k;

    flow = ARRAY_OP(g, "TensorArraySplitV3", NULL, a.handle, xs, constant(g, &cut, NULL),
                    a.flow);
    (void)ARRAY_OP(g, "TensorArrayConcatV3", "joined", a.handle, flow);
    (void)ARRAY_OP(g, "TensorArrayReadV3", "read", a.handle, at, flow);
    (void)ARRAY_OP(g, "TensorArrayWriteV3", "again", a.handle, at, xs, flow);
    (void)ARRAY_OP(g, "TensorArrayGatherV3", "gathered", a.handle,
                   range_of(g, constant_i32(g, 2, NULL)), flow);
    once = ARRAY_OP(g, "TensorArrayReadV3", "once", a.handle, at, flow);
    control_dependencies_enter(g, &once.op, 1);
    (void)ARRAY_OP(g, "TensorArrayReadV3", "twice", a.handle, at, flow);
    control_dependencies_leave(g);
    d = array_new(g, constant_i32(g, 0, NULL), 1);
    flow = ARRAY_OP(g, "TensorArrayWriteV3", NULL, d.handle, at, xs, d.flow);
    (void)ARRAY_OP(g, "TensorArraySizeV3", "size", d.handle, flow);
    end(&b);
    k = 1;
    set(&b, "at:0", i32(&k));
    check_floats(&b, "joined:0", data, 6, 0);
    check_floats(&b, "read:0", data + 4, 2, 0);
    check_fails(&b, "again:0",
                "again: Could not write to TensorArray index 1 because it has "
                "already been written to.");
    check_fails(&b, "gathered:0",
                "gathered: TensorArray has inconsistent shapes: index 0 has "
                "shape (2, 2) but index 1 has shape (1, 2)");
    check_fails(&b, "twice:0", "twice: Could not read index 1 twice");
    k = 5;
    ck_assert_float_eq(number(&b, 0, "size:0"), 6);
    check_fails(&b, "read:0", "read: Tried to read from index 5 but array size is: 2");
    check_fails(&b, "again:0",
                "again: Tried to write to index 5 but array is not resizeable "
                "and size is: 2");
    k = -1;
    check_fails(&b, "read:0", "read: Tried to read from index -1");
    k = INT32_MAX - 1;
    check_fails(&b, "size:0",
                "the tensor arrays and stacks of this run would hold more than");
    done(&b);
}
END_TEST

/* ---- gradients, as tf.gradients writes them ---- */

static struct array array_grad(struct graph *g, struct output handle, struct output flow)
{
    struct op_builder *b = op_begin(g, "TensorArrayGradV3", NULL);
    struct operation *op;

    op_input(b, handle);
    op_input(b, flow);
    op_attr_string(b, "source", "gradients");
    op = op_finish(b);
    return (struct array){{op, 0}, {op, 1}};
}

/* The gradients of the elements that a loop reads: element i gets 2 * i in iteration i,
 * which finds the array of gradients again; element 0 also gets ones before the loop, and
 * the last one gets none. */
START_TEST(gradients_of_tensor_arrays_add_up)
{
    struct bench b;
    struct graph *g = begin(&b);
    const char *f = "gradients/while";
    struct output n = placeholder(g, DT_INT32, &SHAPE_SCALAR, "n"), cond, w, two, all;
    float data[6] = {1, 2, 3, 4, 5, 6}, want[6] = {1, 1, 2, 2, 0, 0};
    struct tensor t = tensor_view(DT_FLOAT, SHAPE(3, 2), data);
    struct array a = array_new(g, constant_i32(g, 3, NULL), 0), d, inside;
    struct variable_of_loop i, flow;
    int32_t limit = 2;

    a.flow =
        ARRAY_OP(g, "TensorArrayScatterV3", NULL, a.handle,
                 range_of(g, constant_i32(g, 3, NULL)), constant(g, &t, NULL), a.flow);
    two = constant_i32s(g, (int32_t[]){2}, 1, NULL);
    d = array_grad(g, a.handle, a.flow);
    w = ARRAY_OP(g, "TensorArrayWriteV3", NULL, d.handle, constant_i32(g, 0, NULL),
                 ones(g, DT_FLOAT, &SHAPE(2), NULL), d.flow);
    i = carry(g, constant_i32(g, 0, NULL), f);
    flow = carry(g, w, f);
    cond = loop_cond(g, less(g, i.merge, enter(g, n, f, 1, NULL)));
    take(g, &i, cond);
    take(g, &flow, cond);
    inside = array_grad(g, enter(g, a.handle, f, 1, NULL), enter(g, a.flow, f, 1, NULL));
    w = mul(g, binary(g, "Fill", two, inner_f32(g, i.now, 2), NULL),
            cast(g, i.now, DT_FLOAT, NULL));
    w = ARRAY_OP(g, "TensorArrayWriteV3", NULL, inside.handle, i.now, w, flow.now);
    (void)next(g, &i, add(g, i.now, inner_i32(g, i.now, 1)), NULL);
    all = next(g, &flow, w, NULL);
    (void)ARRAY_OP(g, "TensorArrayGatherV3", "grads", d.handle,
                   range_of(g, constant_i32(g, 3, NULL)), all);
    end(&b);
    set(&b, "n:0", i32(&limit));
    check_floats(&b, "grads:0", want, 6, 0);
    done(&b);
}
END_TEST

static struct output stack_new(struct graph *g)
{
    struct op_builder *b = op_begin(g, "StackV2", "f_acc");

    op_input(b, constant_i32(g, -1, NULL));
    op_attr_type(b, "elem_type", DT_FLOAT);
    return (struct output){op_finish(b), 0};
}

/* h = tanh(h * w), n times, from h = x; loss = sum(h). The gradients are those of
 * AddForwardLoopCounter, AddForwardAccumulator, AddBackpropLoopCounter and
 * AddBackpropAccumulatedValue (control_flow_ops.py): the forward loop pushes h and tanh,
 * the backward loop pops them; f_sync and b_sync order that. */
static void build_recurrence(struct graph *g)
{
    const char *f = "while", *r = "gradients/while";
    struct output x = placeholder(g, DT_FLOAT, &SHAPE(-1, 2), "x");
    struct output n = placeholder(g, DT_INT32, &SHAPE_SCALAR, "n");
    struct tensor w0 = tensor_view(DT_FLOAT, SHAPE(2, 2), (float[]){.5f, -.3f, .8f, .9f});
    struct variable *w = variable_new_constant(g, &w0, "w", 0);
    struct output stacks[2] = {stack_new(g), stack_new(g)}, cond, y, grown, gh, gy, gw,
                  pop[2];
    struct variable_of_loop i = carry(g, constant_i32(g, 0, NULL), f);
    struct variable_of_loop h = carry(g, x, f),
                            count = carry(g, constant_i32(g, 0, NULL), f);
    struct operation *push[2], *trigger;
    struct output w_in = enter(g, w->read, f, 1, NULL), last, count_out;
    struct op_builder *b;
    struct variable_of_loop down, dh, dw;

    ck_assert_ptr_nonnull(global_variables_initializer(g, NULL));
    cond = loop_cond(g, less(g, i.merge, enter(g, n, f, 1, NULL)));
    take(g, &i, cond);
    take(g, &h, cond);
    take(g, &count, cond);
    y = unary(g, "Tanh", matmul(g, h.now, w_in, 0, 0, NULL), NULL);
    (void)next(g, &i, add(g, i.now, inner_i32(g, i.now, 1)), NULL);
    last = next(g, &h, y, "h");
    (void)reduce(g, "Sum", last, NULL, 0, 0, "loss");
    grown = add(g, count.now, inner_i32(g, i.now, 1));
    for (int k = 0; k < 2; k++) {
        push[k] = ARRAY_OP(g, "StackPushV2", NULL, enter(g, stacks[k], f, 1, NULL),
                           k == 0 ? h.now : y)
                      .op;
        operation_append_control_input(push[k], grown.op);
    }
    trigger = op_finish(op_begin(g, "ControlTrigger", "f_sync"));
    operation_append_control_input(trigger, push[1]);
    count_out = next(g, &count, grown, "f_count");
    operation_append_control_input(operation_input(count.merge.op, 1).op, push[0]);
    operation_append_control_input(operation_input(count.merge.op, 1).op, trigger);

    down = carry(g, count_out, r);
    dh = carry(g, ones_like(g, last, NULL), r);
    dw = carry(g, zeros(g, DT_FLOAT, &SHAPE(2, 2), NULL), r);
    cond = loop_cond(g, binary(g, "GreaterEqual", down.merge,
                               enter(g, constant_i32(g, 1, NULL), r, 1, NULL), NULL));
    take(g, &down, cond);
    take(g, &dh, cond);
    take(g, &dw, cond);
    pop[0] = ARRAY_OP(g, "StackPopV2", NULL, enter(g, stacks[0], r, 1, NULL));
    pop[1] = ARRAY_OP(g, "StackPopV2", NULL, enter(g, stacks[1], r, 1, NULL));
    operation_append_control_input(pop[0].op, down.now.op);
    operation_append_control_input(pop[1].op, down.now.op);
    gy = binary(g, "TanhGrad", pop[1], dh.now, NULL);
    gh = matmul(g, gy, enter(g, w->read, r, 1, NULL), 0, 1, NULL);
    gw = add(g, dw.now, matmul(g, pop[0], gy, 1, 0, NULL));
    trigger = op_finish(op_begin(g, "ControlTrigger", "b_sync"));
    operation_append_control_input(trigger, pop[0].op);
    operation_append_control_input(trigger, pop[1].op);
    (void)next(g, &down, binary(g, "Sub", down.now, inner_i32(g, down.now, 1), NULL),
               "b_count");
    operation_append_control_input(operation_input(down.merge.op, 1).op, trigger);
    (void)next(g, &dh, gh, "dx");
    gw = next(g, &dw, gw, "dw");
    b = op_begin(g, "ApplyGradientDescent", "train");
    op_input(b, w->ref);
    op_input(b, constant_f32(g, 0.1f, NULL));
    op_input(b, gw);
    (void)op_finish(b);
}

/* The slope of the loss by the number at `at`, which is fed, by finite differences. */
static float slope(struct bench *b, int k, float *at)
{
    const float step = 0.01f, x = *at;
    double up, low;

    *at = x + step;
    up = number(b, k, "loss:0");
    *at = x - step;
    low = number(b, k, "loss:0");
    *at = x;
    return (float)((up - low) / (2 * (double)step));
}

START_TEST(gradients_of_a_loop_use_stacks)
{
    struct bench b;
    float x[6] = {.3f, -.2f, .5f, .1f, -.7f, .4f};
    int32_t n;

    build_recurrence(begin(&b));
    end(&b);
    for (int k = 0; k < COPIES; k++) {
        struct tensor dx, dw, w;
        double before;

        b.n_fed = 0;
        runs(&b, k, "init");
        set(&b, "x:0", tensor_view(DT_FLOAT, SHAPE(3, 2), x));
        set(&b, "n:0", i32(&n));
        for (n = 0; n < 4; n++) {
            const struct variable *v = graph_variable_at(b.g[k], 0);

            dx = fetch(&b, k, "dx:0");
            dw = fetch(&b, k, "dw:0");
            ck_assert_int_eq(session_variable(b.s[k], v, &w, &b.err), 0);
            for (int i = 0; i < 6; i++)
                ck_assert_float_eq_tol(tensor_f32(&dx)[i], slope(&b, k, &x[i]), 2e-3);
            for (int i = 0; i < 4; i++)
                ck_assert_float_eq_tol(tensor_f32(&dw)[i],
                                       slope(&b, k, &tensor_f32(&w)[i]), 2e-3);
            tensor_free(&dx);
            tensor_free(&dw);
        }
        before = number(&b, k, "loss:0");
        for (int i = 0; i < 5; i++)
            runs(&b, k, "train");
        ck_assert_msg(number(&b, k, "loss:0") < before, "no descent from %g", before);
    }
    done(&b);
}
END_TEST

/* The same operations without a loop, unrolled, give the same bytes. */
START_TEST(a_loop_computes_what_its_body_does)
{
    struct bench b;
    struct graph *g = begin(&b);
    struct output h, w;
    float x[6] = {.3f, -.2f, .5f, .1f, -.7f, .4f};
    int32_t n = 7;

    build_recurrence(g);
    h = (struct output){graph_operation(g, "x"), 0};
    w = graph_variable_at(g, 0)->read;
    for (int i = 0; i < n; i++)
        h = unary(g, "Tanh", matmul(g, h, w, 0, 0, NULL), NULL);
    (void)unary(g, "Identity", h, "unrolled");
    end(&b);
    for (int k = 0; k < COPIES; k++) {
        struct tensor loop, unrolled;

        b.n_fed = 0;
        runs(&b, k, "init");
        set(&b, "x:0", tensor_view(DT_FLOAT, SHAPE(3, 2), x));
        set(&b, "n:0", i32(&n));
        loop = fetch(&b, k, "h:0");
        unrolled = fetch(&b, k, "unrolled:0");
        ck_assert(tensor_equal(&loop, &unrolled));
        tensor_free(&loop);
        tensor_free(&unrolled);
    }
    done(&b);
}
END_TEST

/* while i < n: v += 2; v is a resource, whose handle enters the loop. Operations after
 * the loop read the value that it wrote. */
START_TEST(a_loop_writes_a_resource)
{
    struct bench b;
    struct graph *g = begin(&b);
    struct output n = placeholder(g, DT_INT32, &SHAPE_SCALAR, "n"), cond, handle, two, x;
    struct variable *v =
        variable_new(g, constant_f32(g, 1, NULL), "v", VARIABLE_RESOURCE);
    struct variable_of_loop i = carry(g, constant_i32(g, 0, NULL), "while"), last;
    struct operation *wrote;
    struct op_builder *o;
    int32_t limit = 4;

    ck_assert_ptr_nonnull(global_variables_initializer(g, NULL));
    last = carry(g, constant_f32(g, 0, NULL), "while");
    cond = loop_cond(g, less(g, i.merge, enter(g, n, "while", 1, NULL)));
    take(g, &i, cond);
    take(g, &last, cond);
    handle = enter(g, v->ref, "while", 1, NULL);
    two = inner_f32(g, i.now, 2);
    o = op_begin(g, "AssignAddVariableOp", NULL);
    op_input(o, handle);
    op_input(o, two);
    op_attr_type(o, "dtype", DT_FLOAT);
    wrote = op_finish(o);
    o = op_begin(g, "ReadVariableOp", NULL);
    op_input(o, handle);
    op_control_input(o, wrote);
    op_attr_type(o, "dtype", DT_FLOAT);
    x = (struct output){op_finish(o), 0};
    (void)next(g, &i, add(g, i.now, inner_i32(g, i.now, 1)), NULL);
    (void)next(g, &last, x, "last");
    end(&b);
    for (int k = 0; k < COPIES; k++) {
        b.n_fed = 0;
        runs(&b, k, "init");
        set(&b, "n:0", i32(&limit));
        ck_assert_float_eq(number(&b, k, "last:0"), 9);
        ck_assert_float_eq(number(&b, k, "last:0"), 17);
    }
    done(&b);
}
END_TEST

/* while i < 3: total = 10 total + value of a; a, b = b, a. The names of v and w change places,
 * which no node shows. */
static void build_swap(struct graph *g, const struct variable *v,
                       const struct variable *w)
{
    struct variable_of_loop i = carry(g, constant_i32(g, 0, NULL), "while"), a, b, total;
    struct output cond, x;
    struct op_builder *o;

    total = carry(g, constant_f32(g, 0, NULL), "while");
    a = carry(g, v->ref, "while");
    b = carry(g, w->ref, "while");
    cond = constant_i32(g, 3, NULL);
    cond = loop_cond(g, less(g, i.merge, enter(g, cond, "while", 1, NULL)));
    take(g, &i, cond);
    take(g, &total, cond);
    take(g, &a, cond);
    take(g, &b, cond);
    o = op_begin(g, "ReadVariableOp", "read_a");
    op_input(o, a.now);
    op_attr_type(o, "dtype", DT_FLOAT);
    x = (struct output){op_finish(o), 0};
    x = add(g, mul(g, total.now, inner_f32(g, i.now, 10)), x);
    (void)next(g, &i, add(g, i.now, inner_i32(g, i.now, 1)), NULL);
    (void)next(g, &total, x, "total");
    (void)next(g, &a, b.now, NULL);
    (void)next(g, &b, a.now, NULL);
}

START_TEST(handles_change_places_in_a_loop)
{
    double two = 2;
    const struct tensor float64 = tensor_view(DT_DOUBLE, SHAPE_SCALAR, &two);
    struct bench b;
    struct graph *g;
    const struct variable *v, *w;

    for (int same = 0; same < 2; same++) {
        g = begin(&b);
        v = variable_new(g, constant_f32(g, 1, NULL), "v", VARIABLE_RESOURCE);
        w = variable_new(g, same ? constant_f32(g, 2, NULL) : constant(g, &float64, NULL),
                         "w", VARIABLE_RESOURCE);
        ck_assert_ptr_nonnull(global_variables_initializer(g, NULL));
        build_swap(g, v, w);
        end(&b);
        for (int k = 0; k < COPIES; k++) {
            struct tensor t;

            b.n_fed = 0;
            runs(&b, k, "init");
            if (same) {
                ck_assert_float_eq(number(&b, k, "total:0"), 121);
                continue;
            }
            ck_assert_int_ne(try(&b, k, "total:0", NULL, &t), 0);
            ck_assert_ptr_nonnull(
                strstr(b.err.msg,
                       "read_a: input 0 is a variable of dtype float64, not float32"));
        }
        done(&b);
    }
}
END_TEST

/* ---- branches ---- */

/* x on this side of a tf.cond (0 or 1); each side computes from its own value. */
static struct output branch_of(struct graph *g, struct output x, struct output pred,
                               int side)
{
    struct output s = binary(g, "Switch", x, pred, NULL);

    return (struct output){s.op, side};
}

/* while i < n: x = x * 2 if i % 2 else x + 3. Each x to which 3 is added is pushed to a
 * stack, in that branch only; then another loop pops and sums all of them. */
static void build_branches(struct graph *g)
{
    struct output n = placeholder(g, DT_INT32, &SHAPE_SCALAR, "n"), cond, odd, yes, no,
                  sum;
    struct output stack = stack_new(g), pushed, handle, added, count, popped;
    struct variable_of_loop i = carry(g, constant_i32(g, 0, NULL), "a");
    struct variable_of_loop x = carry(g, constant_f32(g, 1, NULL), "a");
    struct variable_of_loop c = carry(g, constant_i32(g, 0, NULL), "a"), t;

    cond = loop_cond(g, less(g, i.merge, enter(g, n, "a", 1, NULL)));
    take(g, &i, cond);
    take(g, &x, cond);
    take(g, &c, cond);
    odd = binary(g, "Equal", binary(g, "FloorMod", i.now, inner_i32(g, i.now, 2), NULL),
                 inner_i32(g, i.now, 1), NULL);
    yes = branch_of(g, x.now, odd, 1);
    yes = mul(g, yes, inner_f32(g, yes, 2));
    no = branch_of(g, x.now, odd, 0);
    no = unary(g, "Identity", no, NULL);
    handle = branch_of(g, enter(g, stack, "a", 1, NULL), odd, 0);
    pushed = ARRAY_OP(g, "StackPushV2", "pushed", handle, no);
    added = add(g, pushed, inner_f32(g, no, 3));
    count = binary(g, "Merge", branch_of(g, c.now, odd, 1),
                   add(g, branch_of(g, c.now, odd, 0), inner_i32(g, no, 1)), NULL);
    (void)next(g, &i, add(g, i.now, inner_i32(g, i.now, 1)), NULL);
    (void)next(g, &x, binary(g, "Merge", added, yes, NULL), "x");
    count = next(g, &c, count, "count");
    i = carry(g, count, "b");
    t = carry(g, constant_f32(g, 0, NULL), "b");
    cond = loop_cond(g, binary(g, "Greater", i.merge,
                               enter(g, constant_i32(g, 0, NULL), "b", 1, NULL), NULL));
    take(g, &i, cond);
    take(g, &t, cond);
    popped = ARRAY_OP(g, "StackPopV2", NULL, enter(g, stack, "b", 1, NULL));
    operation_append_control_input(popped.op, i.now.op);
    sum = add(g, t.now, popped);
    (void)next(g, &i, binary(g, "Sub", i.now, inner_i32(g, i.now, 1), NULL), NULL);
    (void)next(g, &t, sum, "sum");
}

START_TEST(branches_in_loops)
{
    struct bench b;
    int32_t limit;

    build_branches(begin(&b));
    end(&b);
    for (limit = 0; limit < 7; limit++) {
        float want = 1, total = 0;

        for (int k = 0; k < limit; k++) {
            total += k % 2 ? 0 : want;
            want = k % 2 ? want * 2 : want + 3;
        }
        set(&b, "n:0", i32(&limit));
        for (int k = 0; k < COPIES; k++) {
            struct operation *op;
            struct tensor out[2] = {TENSOR_NONE, TENSOR_NONE};
            struct output both[2];
            struct feed f = {.value = i32(&limit)};
            struct run_args args = {
                .feeds = &f, .n_feeds = 1, .fetches = both, .n_fetches = 2};

            ck_assert_int_eq(graph_tensor(b.g[k], "n:0", &f.output, &b.err), 0);
            ck_assert_int_eq(graph_tensor(b.g[k], "x:0", &both[0], &b.err), 0);
            ck_assert_int_eq(graph_tensor(b.g[k], "sum:0", &both[1], &b.err), 0);
            op = graph_operation(b.g[k], "pushed");
            ck_assert_ptr_nonnull(op);
            ck_assert_msg(session_run(b.s[k], &args, out, &b.err) == 0, "%s", b.err.msg);
            ck_assert_float_eq(tensor_f32(&out[0])[0], want);
            /* x depends on the pushed value, so the push runs */
            ck_assert_float_eq(tensor_f32(&out[1])[0], total);
            tensor_free(&out[0]);
            tensor_free(&out[1]);
        }
    }
    done(&b);
}
END_TEST

static void on_tapped(void *ctx, size_t i, const struct tensor *value)
{
    double *seen = ctx;

    seen[i] = value->dtype == DT_INT32 ? *(int32_t *)value->data
                                       : (double)*(float *)value->data;
}

/* A tap is given neither what a branch that was not taken computes, nor what loops do. */
START_TEST(a_tap_passes_over_dead_branches_and_loops)
{
    enum { COUNT, IN_BODY, TAKEN, NOT_TAKEN, N_TAPPED };
    static const char *const names[] = {"x:0", "pushed:0", "taken:0", "dead:0"};
    struct bench b;
    struct graph *g = begin(&b);
    struct output pred, three = constant_f32(g, 3, NULL), yes, no;
    struct tensor ret;
    int32_t limit = 2;
    uint8_t taken = 1;

    build_branches(g);
    pred = placeholder(g, DT_BOOL, &SHAPE_SCALAR, "pred");
    yes = unary(g, "Square", branch_of(g, three, pred, 1), "taken");
    no = unary(g, "Neg", branch_of(g, three, pred, 0), "dead");
    (void)binary(g, "Add", binary(g, "Merge", no, yes, NULL),
                 (struct output){graph_operation(g, "x"), 0}, "all");
    end(&b);
    set(&b, "n:0", i32(&limit));
    set(&b, "pred:0", tensor_view(DT_BOOL, SHAPE_SCALAR, &taken));
    for (int k = 0; k < COPIES; k++) {
        struct output outputs[N_TAPPED];
        double seen[N_TAPPED] = {-1, -1, -1, -1};
        struct session_tap tap = {
            .outputs = outputs, .n = N_TAPPED, .fn = on_tapped, .ctx = seen};

        for (int i = 0; i < N_TAPPED; i++)
            ck_assert_int_eq(graph_tensor(b.g[k], names[i], &outputs[i], &b.err), 0);
        session_set_tap(b.s[k], &tap);
        ck_assert_float_eq(number(&b, k, "all:0"), 9 + 8);
        ck_assert_double_eq(seen[COUNT], 8);
        ck_assert_double_eq(seen[IN_BODY], -1);
        ck_assert_double_eq(seen[TAKEN], 9);
        ck_assert_double_eq(seen[NOT_TAKEN], -1);
        ck_assert_msg(try(&b, k, "dead:0", NULL, &ret) < 0, "it has a value");
        ck_assert_msg(strstr(b.err.msg, "dead:0 is on a branch that was not taken") !=
                          NULL,
                      "%s", b.err.msg);
        session_set_tap(b.s[k], NULL);
    }
    done(&b);
}
END_TEST

/* An operation on more branches at once than a plan keeps is refused by name. */
START_TEST(branches_in_branches_end)
{
    struct bench b;
    struct graph *g = begin(&b);
    struct output x = constant_f32(g, 3, NULL);
    struct tensor ret;
    uint8_t taken = 1;

    for (int i = 0; i < 300; i++) {
        struct output pred =
            unary(g, "Identity", placeholder(g, DT_BOOL, &SHAPE_SCALAR, NULL), NULL);

        x = unary(g, "Neg", branch_of(g, x, pred, 1), i == 255 ? "most" : NULL);
        if (i == 256)
            (void)unary(g, "Neg", x, "more");
    }
    (void)unary(g, "Neg", x, "last");
    end(&b);
    for (int k = 0; k < COPIES; k++) {
        struct feed feeds[300] = {0};
        struct output most;
        struct run_args args = {
            .feeds = feeds, .n_feeds = 300, .fetches = &most, .n_fetches = 1};

        for (int i = 0; i < 300; i++) {
            char name[32];

            (void)snprintf(name, sizeof(name),
                           i == 0 ? "Placeholder:0" : "Placeholder_%d:0", i);
            ck_assert_int_eq(graph_tensor(b.g[k], name, &feeds[i].output, &b.err), 0);
            feeds[i].value = tensor_view(DT_BOOL, SHAPE_SCALAR, &taken);
        }
        for (int i = 0; i < 3; i++) {
            static const char *const names[] = {"most:0", "more:0", "last:0"};

            ck_assert_int_eq(graph_tensor(b.g[k], names[i], &most, &b.err), 0);
            ret = TENSOR_NONE;
            ck_assert_int_eq(session_run(b.s[k], &args, &ret, &b.err),
                             i == 0 ? 0 : ERR_LIMIT);
            ck_assert_msg(i == 0 || strstr(b.err.msg, "more than 256 branches") != NULL,
                          "%s", b.err.msg);
            tensor_free(&ret);
        }
    }
    done(&b);
}
END_TEST

/* A loop in a branch runs only if the branch is taken. */
START_TEST(loops_in_branches)
{
    struct bench b;
    struct graph *g = begin(&b);
    struct output pred = placeholder(g, DT_BOOL, &SHAPE_SCALAR, "pred"), x, cond, calls;
    struct variable *v = variable_new(g, constant_f32(g, 0, NULL), "v", 0);
    struct variable_of_loop i;
    uint8_t taken;

    ck_assert_ptr_nonnull(global_variables_initializer(g, NULL));
    x = branch_of(g, constant_i32(g, 3, NULL), pred, 1);
    i = carry(g, x, "while");
    cond = loop_cond(
        g, less(g, i.merge, enter(g, constant_i32(g, 10, NULL), "while", 1, NULL)));
    take(g, &i, cond);
    control_dependencies_enter(g, &i.now.op, 1);
    calls = variable_assign_add(v, constant_f32(g, 1, NULL), NULL);
    control_dependencies_leave(g);
    control_dependencies_enter(g, &calls.op, 1);
    x = add(g, i.now, inner_i32(g, i.now, 1));
    control_dependencies_leave(g);
    x = next(g, &i, x, "left");
    (void)binary(g, "Merge", branch_of(g, constant_i32(g, -1, NULL), pred, 0), x, "out");
    (void)unary(g, "Identity", v->read, "calls");
    end(&b);
    for (int k = 0; k < COPIES; k++) {
        b.n_fed = 0;
        runs(&b, k, "init");
        for (taken = 0; taken < 2; taken++) {
            struct tensor t;

            set(&b, "pred:0", tensor_view(DT_BOOL, SHAPE_SCALAR, &taken));
            ck_assert_float_eq(number(&b, k, "out:0"), taken ? 10 : -1);
            ck_assert_float_eq(number(&b, k, "calls:0"), taken ? 7 : 0);
            if (taken)
                continue;
            ck_assert_int_eq(try(&b, k, "left:0", NULL, &t), ERR_ARG);
            ck_assert_ptr_nonnull(strstr(b.err.msg, "does not have value"));
        }
    }
    done(&b);
}
END_TEST

/* sum(fill([x], 2)) if pred else x: the shape in the branch is known only if it is
 * taken. */
START_TEST(a_branch_computes_a_shape)
{
    struct bench b;
    struct graph *g = begin(&b);
    struct output pred = placeholder(g, DT_BOOL, &SHAPE_SCALAR, "pred"), dims, sum;
    struct output x = placeholder(g, DT_FLOAT, &SHAPE_SCALAR, "x");
    float three = 3;
    uint8_t taken;

    dims = reshape(g, cast(g, branch_of(g, x, pred, 1), DT_INT32, NULL), &SHAPE(1), NULL);
    sum = reduce(g, "Sum", binary(g, "Fill", dims, constant_f32(g, 2, NULL), NULL), NULL,
                 0, 0, NULL);
    (void)binary(g, "Merge", branch_of(g, x, pred, 0), sum, "out");
    end(&b);
    set(&b, "x:0", tensor_scalar_f32(&three));
    for (taken = 0; taken < 2; taken++)
        for (int k = 0; k < COPIES; k++) {
            set(&b, "pred:0", tensor_view(DT_BOOL, SHAPE_SCALAR, &taken));
            ck_assert_float_eq(number(&b, k, "out:0"), taken ? 6 : 3);
        }
    done(&b);
}
END_TEST

/* ---- random numbers ---- */

START_TEST(iterations_draw_other_numbers)
{
    struct bench b;
    struct graph *g = begin(&b);
    struct variable_of_loop i = carry(g, constant_i32(g, 0, NULL), "while"), flow;
    struct array out = array_new(g, constant_i32(g, 4, NULL), 0);
    struct output cond, x, all;
    float first[4];

    flow = carry(g, out.flow, "while");
    cond = loop_cond(
        g, less(g, i.merge, enter(g, constant_i32(g, 4, NULL), "while", 1, NULL)));
    take(g, &i, cond);
    take(g, &flow, cond);
    x = random_uniform_of(g, DT_FLOAT, &SHAPE_SCALAR, 0, 1, NULL);
    all = ARRAY_OP(g, "TensorArrayWriteV3", NULL, enter(g, out.handle, "while", 1, NULL),
                   i.now, x, flow.now);
    (void)next(g, &i, add(g, i.now, inner_i32(g, i.now, 1)), NULL);
    all = next(g, &flow, all, NULL);
    (void)ARRAY_OP(g, "TensorArrayGatherV3", "all", out.handle,
                   range_of(g, constant_i32(g, 4, NULL)), all);
    end(&b);
    for (uint64_t counter = 0; counter < 2; counter++) {
        struct tensor t;

        b.counter = counter;
        t = fetch(&b, 0, "all:0");
        for (int k = 0; k < 4; k++)
            for (int j = 0; j < k; j++)
                ck_assert_float_ne(tensor_f32(&t)[k], tensor_f32(&t)[j]);
        if (counter == 1)
            ck_assert_float_ne(tensor_f32(&t)[0], first[0]);
        memcpy(first, t.data, sizeof(first));
        tensor_free(&t);
        check_floats(&b, "all:0", first, 4, 0);
    }
    done(&b);
}
END_TEST

/* ---- malformed loops ---- */

enum {
    GOOD,
    INSIDE,
    NO_COND,
    NO_SWITCH,
    NO_MERGE,
    NO_ENTER,
    OTHER_FRAME,
    OTHER_NEXT,
    PLAIN_ENTER,
    SELF,
    FED,
    TWO_EXITS,
    LATE_WRITE,
    N_MALFORMED
};

static const struct {
    const char *fetch, *why;
} malformed[N_MALFORMED] = {
    [GOOD] = {"i:0", NULL},
    [INSIDE] = {"body:0", "is inside of a loop: only what leaves it through an Exit"},
    [NO_COND] = {"i:0", "i leaves no loop: Less decides, no LoopCond"},
    [NO_SWITCH] = {"i:0", "i leaves no loop: its input body:0 is not of a loop's Switch"},
    [NO_MERGE] = {"i:0", "i leaves no loop: Switch switches no Merge"},
    [NO_ENTER] = {"i:0",
                  "Merge begins no iteration: the Merge of a loop has an Enter and a "
                  "NextIteration"},
    [OTHER_FRAME] = {"i:0", "enters the loop 'other', but is used in 'while'"},
    [OTHER_NEXT] = {"i:0", "NextIteration_1 is not of the loop 'while' that uses it"},
    [PLAIN_ENTER] = {"i:0",
                     "limit is neither a constant of the loop 'while' nor has it a "
                     "Merge"},
    [SELF] = {"i:0", "leaves a loop that needs it"},
    [FED] = {"i:0", "body is inside of the loop 'while': it cannot be fed"},
    [TWO_EXITS] = {"both:0", "leave a loop with the same value"},
    [LATE_WRITE] = {"i:0",
                    "late waits for Assign, which would run after the last iteration"},
};

START_TEST(malformed_loops_are_refused)
{
    struct bench b;
    struct graph *g = begin(&b);
    struct variable_of_loop i = carry(g, constant_i32(g, 0, NULL), "while"), j;
    struct output limit, cond, body, out, other;
    int32_t ten = 10;

    limit = enter(g, constant_i32(g, 3, NULL), _i == OTHER_FRAME ? "other" : "while",
                  _i != PLAIN_ENTER, "limit");
    cond = less(g, i.merge, limit);
    if (_i != NO_COND)
        cond = loop_cond(g, cond);
    take(g, &i, cond);
    body = add(g, i.now, inner_i32(g, i.now, 1));
    body = unary(g, "Identity", body, "body");
    out = next(g, &i, body, "i");
    j = carry(g, constant_i32(g, 0, NULL), "while");
    take(g, &j, cond);
    other = next(g, &j, j.now, "j");
    switch (_i) {
    case NO_SWITCH:
        operation_replace_input(out.op, 0, body);
        break;
    case NO_MERGE:
        operation_replace_input(i.left.op, 0, limit);
        break;
    case NO_ENTER:
        operation_replace_input(i.merge.op, 0, constant_i32(g, 1, NULL));
        break;
    case OTHER_NEXT:
        operation_replace_input(body.op, 0, operation_input(j.merge.op, 1));
        break;
    case SELF:
        operation_replace_input(body.op, 0, other);
        break;
    case TWO_EXITS:
        (void)binary(g, "AddV2", out, unary(g, "Exit", i.left, "again"), "both");
        break;
    case LATE_WRITE: {
        struct variable *v = variable_new(g, constant_i32(g, 1, NULL), "v", 0);
        struct operation *write = binary(g, "Assign", v->ref, i.left, NULL).op;

        control_dependencies_enter(g, &write, 1);
        operation_replace_input(out.op, 0, unary(g, "Identity", i.left, "late"));
        control_dependencies_leave(g);
        break;
    }
    default:
        break;
    }
    end(&b);
    if (_i == FED)
        set(&b, "body:0", i32(&ten));
    if (_i == GOOD)
        ck_assert_float_eq(number(&b, 0, "i:0"), 3);
    else
        check_fails(&b, malformed[_i].fetch, malformed[_i].why);
    done(&b);
}
END_TEST

/* ---- endless loops, and random loops ---- */

START_TEST(a_loop_without_an_end_is_stopped)
{
    const struct session_options few = {.max_iterations = 1000};
    struct bench b;
    struct graph *g = begin(&b);
    struct variable_of_loop i = carry(g, constant_i32(g, 0, NULL), "while");
    struct output cond = loop_cond(
        g, less(g, i.merge, enter(g, constant_i32(g, 1, NULL), "while", 1, NULL)));

    take(g, &i, cond);
    (void)next(g, &i, i.now, "i");
    end(&b);
    for (int k = 0; k < COPIES; k++) {
        session_free(b.s[k]);
        ck_assert_int_eq(session_new(&b.s[k], b.g[k], &few, &b.err), 0);
    }
    check_fails(&b, "i:0",
                "LoopCond: no end of the loop after 1000 iterations of this run");
    done(&b);
}
END_TEST

enum { N_SEEDS = 6 };

static uint32_t draw(uint64_t *state, uint32_t n)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*state >> 33) % n;
}

/* Changes an input of an operation, as a file may contain it: to an earlier operation of
 * that type, or a NextIteration; or adds a control edge. */
static void rewire(struct graph *g, uint64_t *state)
{
    const uint32_t n = (uint32_t)graph_n_operations(g);
    struct operation *op = graph_operation_at(g, (int)draw(state, n));
    struct operation *of = graph_operation_at(g, (int)draw(state, n));
    struct output x = {of, 0};
    int i;

    if (draw(state, 8) == 0 && op != of)
        operation_append_control_input(op, of);
    if (operation_n_inputs(op) == 0 || operation_n_outputs(of) == 0)
        return;
    i = (int)draw(state, (uint32_t)operation_n_inputs(op));
    x.index = (int)draw(state, (uint32_t)operation_n_outputs(of));
    if (output_dtype(x) == output_dtype(operation_input(op, i)) &&
        output_is_ref(x) == output_is_ref(operation_input(op, i)) &&
        (operation_id(of) < operation_id(op) || operation_is(of, "NextIteration")))
        operation_replace_input(op, i, x);
}

/* Feeds every placeholder. */
static size_t feed_all(struct graph *g, struct feed *ret, size_t max)
{
    static float zeros_of[6];
    static int32_t three = 3;
    size_t n = 0;

    for (int i = 0; i < graph_n_operations(g) && n < max; i++) {
        const struct output x = {graph_operation_at(g, i), 0};

        if (operation_is(x.op, "Placeholder"))
            ret[n++] =
                (struct feed){x, output_dtype(x) == DT_INT32
                                     ? i32(&three)
                                     : tensor_view(DT_FLOAT, SHAPE(3, 2), zeros_of)};
    }
    return n;
}

/* Runs four random operations of the graph, more often later ones; errors have
 * messages. */
static void run_any(struct graph *g, uint64_t *state)
{
    const struct session_options few = {.max_iterations = 50};
    const int n = graph_n_operations(g);
    struct session *s;
    struct err err = {0};
    struct feed feeds[4];
    struct run_args args = {.feeds = feeds, .n_feeds = feed_all(g, feeds, 4)};

    ck_assert_int_eq(session_new(&s, g, &few, &err), 0);
    for (int k = 0; k < 4; k++) {
        struct operation *op =
            graph_operation_at(g, n - 1 - (int)draw(state, draw(state, (uint32_t)n) + 1));
        struct output fetch = {op, 0};
        struct tensor t = TENSOR_NONE;

        args.n_fetches =
            operation_n_outputs(op) > 0 && output_dtype(fetch) != DT_RESOURCE;
        args.fetches = &fetch;
        args.targets = &op;
        args.n_targets = !args.n_fetches;
        err.msg[0] = '\0';
        if (session_run(s, &args, &t, &err) != 0)
            ck_assert_msg(err.msg[0] != '\0', "%s", operation_name(op));
        tensor_free(&t);
    }
    session_free(s);
}

START_TEST(any_loop_runs_or_is_refused)
{
    uint64_t state = (uint64_t)_i + 1;

    static void (*const build[])(struct graph * g) = {build_recurrence, build_scan,
                                                      build_branches};

    for (int round = 0; round < 60; round++) {
        struct graph *g = graph_new(), *read = graph_new();
        struct wbuf bytes = {0};

        build[round % 3](g);
        for (uint32_t k = draw(&state, 4) + 1; k > 0; k--)
            rewire(g, &state);
        metagraph_export(&bytes, g, NULL, NULL);
        if (metagraph_import(read, bytes.data, bytes.len, NULL, NULL, NULL) == 0)
            run_any(read, &state);
        wbuf_done(&bytes);
        graph_free(read);
        graph_free(g);
    }
}
END_TEST

static Suite *make_suite(void)
{
    Suite *s = suite_create("while");
    TCase *tc = tcase_create("while");

    tcase_add_test(tc, gradients_through_a_loop_are_refused);
    tcase_add_test(tc, a_loop_counts);
    tcase_add_test(tc, a_loop_reads_what_is_fed);
    tcase_add_test(tc, variables_take_values_of_each_other);
    tcase_add_test(tc, a_loop_is_left_through_identities);
    tcase_add_test(tc, loops_are_nested);
    tcase_add_test(tc, a_variable_changes_its_shape);
    tcase_add_test(tc, a_scan_uses_tensor_arrays);
    tcase_add_test(tc, tensor_arrays_are_those_of_tensorflow);
    tcase_add_test(tc, gradients_of_a_loop_use_stacks);
    tcase_add_test(tc, a_loop_computes_what_its_body_does);
    tcase_add_test(tc, gradients_of_tensor_arrays_add_up);
    tcase_add_test(tc, a_loop_writes_a_resource);
    tcase_add_test(tc, handles_change_places_in_a_loop);
    tcase_add_test(tc, branches_in_loops);
    tcase_add_test(tc, a_tap_passes_over_dead_branches_and_loops);
    tcase_add_test(tc, branches_in_branches_end);
    tcase_add_test(tc, loops_in_branches);
    tcase_add_test(tc, a_branch_computes_a_shape);
    tcase_add_test(tc, iterations_draw_other_numbers);
    tcase_add_loop_test(tc, malformed_loops_are_refused, 0, N_MALFORMED);
    tcase_add_test(tc, a_loop_without_an_end_is_stopped);
    tcase_add_loop_test(tc, any_loop_runs_or_is_refused, 0, N_SEEDS);
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(make_suite)
