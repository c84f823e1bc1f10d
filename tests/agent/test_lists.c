/* Tensor lists and optionals. Values are compared with TensorFlow's in
 * tests/tensorflow/cases_calls.py; here, what is refused, what is shared, and what is freed. */
#include "agent/flow/lists.h"
#include "agent/graph/import.h"
#include "agent/graph/ops.h"
#include "tests/agent/session_help.h"
#include "tests/support/test_main.h"

/* ---- parts of graphs ---- */

/* One of the ops, with attribute element_dtype = float32; the inputs end with OUTPUT_NONE. */
static struct output list_op(struct graph *g, const char *type, ...)
{
    struct op_builder *b = op_begin(g, type, NULL);
    struct output x;
    va_list ap;

    va_start(ap, type);
    while (output_valid(x = va_arg(ap, struct output)))
        op_input(b, x);
    va_end(ap);
    if (strcmp(type, "TensorListLength") != 0 && strcmp(type, "TensorListResize") != 0)
        op_attr_type(b, "element_dtype", DT_FLOAT);
    return (struct output){op_finish(b), 0};
}

#define LIST_OP(g, type, ...) list_op((g), (type), __VA_ARGS__, OUTPUT_NONE)

static struct output shape_of_two(struct graph *g)
{
    const int32_t two = 2;
    const struct tensor t = tensor_const_view(DT_INT32, SHAPE(1), &two);

    return constant(g, &t, NULL);
}

/* A list of n elements of two floats, the first with the value `first`, the others not set. */
static struct output reserved(struct graph *g, int32_t n, float first)
{
    struct output list =
        LIST_OP(g, "TensorListReserve", shape_of_two(g), constant_i32(g, n, NULL));
    float values[2] = {first, first};
    const struct tensor t = tensor_view(DT_FLOAT, SHAPE(2), values);

    return LIST_OP(g, "TensorListSetItem", list, constant_i32(g, 0, NULL),
                   constant(g, &t, NULL));
}

static struct output pair(struct graph *g, float x)
{
    float values[2] = {x, -x};
    const struct tensor t = tensor_view(DT_FLOAT, SHAPE(2), values);

    return constant(g, &t, NULL);
}

static struct output stack(struct graph *g, struct output list)
{
    return LIST_OP(g, "TensorListStack", list, shape_of_two(g));
}

static void check(struct bed *b, struct output x, int n, const float *want)
{
    struct tensor t = bed_fetch(b, x);

    ck_assert_int_eq(tensor_elements(&t), n);
    for (int i = 0; i < n; i++)
        ck_assert_msg(tensor_f32(&t)[i] == want[i], "element %d is %g, not %g", i,
                      (double)tensor_f32(&t)[i], (double)want[i]);
    tensor_free(&t);
}

static void check_fails(struct bed *b, struct output x, const char *why)
{
    struct run_args args = bed_args(b);
    struct tensor t = TENSOR_NONE;

    ck_assert_msg(output_valid(x), "%s",
                  graph_error(b->g) ? graph_error(b->g)->msg : "?");
    args.fetches = &x;
    args.n_fetches = 1;
    ck_assert_int_lt(session_run(b->s, &args, &t, &b->err), 0);
    ck_assert_msg(strstr(b->err.msg, why) != NULL, "%s", b->err.msg);
}

/* ---- lists ---- */

/* Two lists that come from one see nothing of each other. */
START_TEST(lists_are_values)
{
    static const float first[] = {1, 1, 0, 0}, longer[] = {1, 1, 0, 0, 5, -5};
    static const float other[] = {1, 1, 0, 0, 6, -6}, set[] = {1, 1, 7, -7};
    static const float both[] = {1, 1, 0, 0, 5, -5, 8, -8}, again[] = {1, 1, 0, 0, 9, -9};
    struct bed b;
    struct output x, y, popped;

    bed_init(&b);
    x = reserved(b.g, 2, 1);
    y = LIST_OP(b.g, "TensorListPushBack", x, pair(b.g, 5));
    popped = LIST_OP(b.g, "TensorListPopBack", y, shape_of_two(b.g));
    check(&b, stack(b.g, x), 4, first);
    check(&b, stack(b.g, y), 6, longer);
    check(&b, stack(b.g, LIST_OP(b.g, "TensorListPushBack", x, pair(b.g, 6))), 6, other);
    check(&b, stack(b.g, LIST_OP(b.g, "TensorListPushBack", y, pair(b.g, 8))), 8, both);
    check(&b, stack(b.g, popped), 4, first);
    check(&b, stack(b.g, LIST_OP(b.g, "TensorListPushBack", popped, pair(b.g, 9))), 6,
          again);
    check(&b, (struct output){popped.op, 1}, 2, longer + 4);
    check(&b,
          stack(b.g, LIST_OP(b.g, "TensorListSetItem", x, constant_i32(b.g, 1, NULL),
                             pair(b.g, 7))),
          4, set);
    check(&b, stack(b.g, x), 4, first);
    bed_done(&b);
}
END_TEST

START_TEST(lists_are_refused_as_in_tensorflow)
{
    struct bed b;
    struct graph *g;
    struct output x, none, empty;
    const int32_t unknown = -1;
    const struct tensor any = tensor_const_view(DT_INT32, SHAPE_SCALAR, &unknown);

    bed_init(&b);
    g = b.g;
    x = reserved(g, 2, 1);
    none = constant(g, &any, NULL);
    empty = LIST_OP(g, "EmptyTensorList", none, constant_i32(g, 1, NULL));
    check_fails(&b, (struct output){LIST_OP(g, "TensorListPopBack", empty, none).op, 1},
                "Trying to pop from an empty list.");
    check_fails(&b, LIST_OP(g, "TensorListGetItem", x, constant_i32(g, 2, NULL), none),
                "Trying to access element 2 in a list with 2 elements.");
    check_fails(&b,
                stack(g, LIST_OP(g, "TensorListSetItem", x, constant_i32(g, -1, NULL),
                                 pair(g, 1))),
                "Trying to modify element -1 in a list with 2 elements.");
    check_fails(&b,
                stack(g, LIST_OP(g, "TensorListPushBack", x, constant_f32(g, 1, NULL))),
                "incompatible shape to a list. Op element shape: () list shape: (2)");
    empty = LIST_OP(g, "TensorListPushBack", empty, pair(g, 1));
    check_fails(&b, stack(g, LIST_OP(g, "TensorListPushBack", empty, pair(g, 1))),
                "Tried to push item into a full list list size: 1 max_num_elements: 1");
    empty = LIST_OP(g, "TensorListReserve", none, constant_i32(g, 3, NULL));
    check_fails(
        &b, LIST_OP(g, "TensorListGetItem", empty, constant_i32(g, 0, NULL), none),
        "Trying to read an uninitialized tensor but element_shape is not fully defined");
    check_fails(
        &b, stack(g, LIST_OP(g, "TensorListReserve", none, constant_i32(g, -5, NULL))),
        "must be a non negative number, but got -5");
    check_fails(
        &b,
        stack(g, LIST_OP(g, "TensorListReserve", none, constant_i32(g, INT32_MAX, NULL))),
        "the tensor lists of this run would hold more than 2048 MiB");
    check_fails(&b, x,
                "is a tensor list, which only exists in a run: it cannot be fed or "
                "fetched");
    bed_done(&b);
}
END_TEST

/* As a loop does, keeps the newest list, and one that is in it. */
START_TEST(lists_that_nothing_names_are_freed)
{
    const int32_t any = -1, n = 1;
    const struct tensor shape = tensor_const_view(DT_INT32, SHAPE_SCALAR, &any);
    const struct tensor number = tensor_const_view(DT_INT32, SHAPE_SCALAR, &n);
    struct graph *g = graph_new();
    struct output one = constant(g, &shape, NULL), list, nested;
    struct op_builder *o = op_begin(g, "TensorListReserve", "nested");
    struct contained in[2] = {{.tensor = shape}, {.tensor = number}}, now, kept, ret;
    struct lists l = {0};
    size_t bytes = 0;
    struct err err;

    list = LIST_OP(g, "TensorListReserve", one, constant_i32(g, 1, NULL));
    op_input(o, one);
    op_input(o, constant_i32(g, 1, NULL));
    op_attr_type(o, "element_dtype", DT_VARIANT);
    nested = (struct output){op_finish(o), 0};
    o = op_begin(g, "TensorListPushBack", NULL);
    op_input(o, nested);
    op_input(o, list);
    op_attr_type(o, "element_dtype", DT_VARIANT);
    struct operation *push = op_finish(o);
    ck_assert_msg(graph_error(g) == NULL, "%s", graph_error(g)->msg);

    ck_assert_int_eq(lists_run(&l, list.op, in, &kept, &err), 0); /* before the loop */
    ck_assert_int_eq(lists_run(&l, nested.op, in, &now, &err), 0);
    for (int i = 0; i < 100; i++) {
        struct contained both[2] = {now};

        ck_assert_int_eq(lists_run(&l, list.op, in, &both[1], &err), 0);
        ck_assert_int_eq(lists_run(&l, push, both, &ret, &err), 0);
        ck_assert_int_eq(lists_run(&l, list.op, in, &now, &err), 0);
        tensor_free(&now.tensor);
        tensor_free(&both[0].tensor);
        tensor_free(&both[1].tensor);
        now = ret;
        lists_sweep(&l, 1, &now, 1);
        if (i == 1)
            bytes = l.bytes;
    }
    /* 98 more lists of one element in the newest list */
    ck_assert_uint_lt(l.bytes, bytes + 98 * 400);
    ck_assert_int_lt(l.n, 110);
    lists_sweep(&l, 1, NULL, 0);
    ck_assert_uint_lt(l.bytes, 400);
    ck_assert_int_eq(lists_run(&l, push, (struct contained[]){now, kept}, &ret, &err),
                     ERR_ARG);
    tensor_free(&now.tensor);
    tensor_free(&kept.tensor);
    lists_done(&l);
    ck_assert_uint_eq(l.bytes, 0);
    graph_free(g);
}
END_TEST

/* ---- optionals ---- */

static struct output optional_of(struct graph *g, const char *type, struct output x)
{
    const int64_t dtype = DT_FLOAT;
    struct op_builder *o = op_begin(g, type, NULL);
    struct attr a = {.kind = ATTR_LIST_TYPE, .n = 1, .list_i = &dtype};

    op_input(o, x);
    a.name = strcmp(type, "OptionalGetValue") == 0 ? "output_types" : "Toutput_types";
    op_attr(o, &a);
    if (strcmp(type, "OptionalGetValue") == 0) {
        a = (struct attr){.name = "output_shapes",
                          .kind = ATTR_LIST_SHAPE,
                          .n = 1,
                          .list_shape = &SHAPE_UNKNOWN};
        op_attr(o, &a);
    }
    return (struct output){op_finish(o), 0};
}

START_TEST(an_optional_has_a_value_or_none)
{
    static const float want[] = {3, -3}, zeros[] = {0, 0}, sum[] = {6, -6};
    struct bed b;
    struct output some, none, both;
    struct tensor t;

    bed_init(&b);
    some = optional_of(b.g, "OptionalFromValue", pair(b.g, 3));
    none = (struct output){op_finish(op_begin(b.g, "OptionalNone", NULL)), 0};
    check(&b, optional_of(b.g, "OptionalGetValue", some), 2, want);
    check_fails(&b, optional_of(b.g, "OptionalGetValue", none),
                "The given optional does not have a value.");
    check_fails(&b, optional_of(b.g, "OptionalGetValue", reserved(b.g, 1, 1)),
                "The given optional does not have a value.");
    check(&b, optional_of(b.g, "OptionalGetValue", unary(b.g, "ZerosLike", some, NULL)),
          2, zeros);
    both = binary(b.g, "AddN", some, some, NULL);
    check(&b, optional_of(b.g, "OptionalGetValue", both), 2, sum);
    for (int k = 0; k < 2; k++) {
        t = bed_fetch(&b, unary(b.g, "OptionalHasValue", k == 0 ? some : none, NULL));
        ck_assert_int_eq(*(uint8_t *)t.data, k == 0);
        tensor_free(&t);
    }
    bed_done(&b);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *s = suite_create("lists");
    TCase *tc = tcase_create("lists");

    tcase_add_test(tc, lists_are_values);
    tcase_add_test(tc, lists_are_refused_as_in_tensorflow);
    tcase_add_test(tc, lists_that_nothing_names_are_freed);
    tcase_add_test(tc, an_optional_has_a_value_or_none);
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(make_suite)
