#include "agent/graph/ops.h"
#include "agent/graph/signature.h"
#include "agent/ops/op_table.h"
#include "tests/support/test_main.h"

#include <string.h>

static const struct shape rows_of_3 = {2, {-1, 3}};

static struct output input(struct graph *g, int64_t rows, int64_t columns)
{
    struct shape s = SHAPE(rows, columns);

    return placeholder(g, DT_FLOAT, &s, NULL);
}

static void check_shape(struct output x, struct shape want)
{
    struct shape is;

    ck_assert(output_valid(x));
    is = output_shape(x);
    ck_assert_msg(shape_equal(&is, &want), "%s: %s, not %s", operation_name(x.op),
                  shape_text(&is), shape_text(&want));
}

static void check_error(const struct graph *g, int code, const char *piece)
{
    const struct err *e = graph_error(g);

    ck_assert_ptr_nonnull(e);
    ck_assert_msg(strstr(e->msg, piece) != NULL, "'%s' is not in '%s'", piece, e->msg);
    ck_assert_int_eq(e->code, code);
}

/* ---- the table ---- */

START_TEST(every_row_is_whole)
{
    struct signature_room room;
    struct signature sig;

    for (size_t i = 0; op_def_at(&op_table, i) != NULL; i++) {
        const struct op_def *d = op_def_at(&op_table, i);

        ck_assert_msg(d->shape != NULL, "%s has no shape rule", d->type);
        ck_assert_msg((d->grad == NULL) == ((d->flags & OP_NO_GRADIENT) != 0),
                      "%s: a gradient rule or OP_NO_GRADIENT", d->type);
        ck_assert_msg(signature_parse(&sig, &room, d->signature) == 0, "%s: %s", d->type,
                      d->signature);
        ck_assert_ptr_eq(op_def_find(&op_table, d->type), d);
    }
    ck_assert_ptr_null(op_def_find(&op_table, "Frobnicate"));
}
END_TEST

static int no_shape(const struct shape_args *args)
{
    return 0;
}

START_TEST(a_graph_has_the_types_of_its_table_only)
{
    static const struct op_def rows[] = {{"Frobnicate",
                                          OP_NO_GRADIENT,
                                          no_shape,
                                          NULL,
                                          {KERNEL_PLANNED, NULL},
                                          "-> y:float32"}};
    static const struct op_family family = {rows, 1};
    static const struct op_family *const families[] = {&family};
    static const struct op_table table = {families, 1};
    struct graph *g = graph_create(&table);
    struct operation *op = op_finish(op_begin(g, "Frobnicate", NULL));

    ck_assert_ptr_nonnull(op);
    ck_assert_ptr_eq(operation_def(op), rows);
    ck_assert_ptr_eq(graph_op_table(g), &table);
    ck_assert_ptr_null(op_finish(op_begin(g, "NoOp", NULL)));
    check_error(g, ERR_UNSUPPORTED, "there is no such op");
    graph_free(g);
}
END_TEST

/* Attributes named for types and counts of arguments exist, and defaults can be read. */
START_TEST(every_signature_names_what_it_has)
{
    struct signature_room room;
    struct signature sig;

    for (size_t i = 0; op_def_at(&op_table, i) != NULL; i++) {
        const char *type = op_def_at(&op_table, i)->type;

        ck_assert_int_eq(signature_parse(&sig, &room, op_def_at(&op_table, i)->signature),
                         0);
        for (int k = 0; k < sig.n_in + sig.n_out; k++) {
            const struct signature_arg *a =
                k < sig.n_in ? &sig.in[k] : &sig.out[k - sig.n_in];
            char word[32];

            (void)snprintf(word, sizeof(word), "%.*s", (int)a->type.len, a->type.p);
            ck_assert_msg(signature_attr(&sig, a->type) != NULL ||
                              dtype_from_name(word) != DT_INVALID,
                          "%s: type %s", type, word);
            ck_assert_msg(a->number.len == 0 || signature_attr(&sig, a->number) != NULL,
                          "%s: number", type);
        }
        for (int k = 0; k < sig.n_attrs; k++) {
            struct attr value;

            ck_assert_msg(!sig.attrs[k].has_default ||
                              signature_default(&sig.attrs[k], &value) == 0,
                          "%s: default %d", type, k);
        }
    }
}
END_TEST

START_TEST(malformed_signatures_are_told)
{
    static const char *const bad[] = {"x",           "x:T",
                                      "x -> y:T",    "x:T -> y:T; T",
                                      "x:T - y:T",   "x:T -> y:T; T:kind",
                                      "x:T, -> y:T", ":T -> y:T"};
    struct signature_room room;
    struct signature sig;

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        ck_assert_msg(signature_parse(&sig, &room, bad[i]) != 0, "%s", bad[i]);
    ck_assert_int_eq(
        signature_parse(&sig, &room, "a:N*T, b:&float32 -> ; N:int, T:type=int32"), 0);
    ck_assert_int_eq(sig.n_in, 2);
    ck_assert_int_eq(sig.n_out, 0);
    ck_assert(sig.in[1].is_ref && !sig.in[0].is_ref);
}
END_TEST

START_TEST(a_graph_names_its_first_op_of_libm)
{
    static const struct {
        const char *type;
        enum dtype dtype;
        int is_libm;
    } cases[] = {{"Exp", DT_FLOAT, 0},     {"Exp", DT_DOUBLE, 1},
                 {"Softmax", DT_FLOAT, 0}, {"Softmax", DT_DOUBLE, 1},
                 {"Sqrt", DT_DOUBLE, 0},   {"Pow", DT_FLOAT, 1},
                 {"Pow", DT_DOUBLE, 1},    {"Pow", DT_INT32, 0}};
    struct graph *g = graph_new();
    struct output x = placeholder(g, cases[_i].dtype, &rows_of_3, NULL), y;

    ck_assert_ptr_null(graph_first_libm(g));
    y = strcmp(cases[_i].type, "Pow") == 0 ? binary(g, "Pow", x, x, "layer/first")
                                           : unary(g, cases[_i].type, x, "layer/first");
    (void)unary(g, "Neg", y, NULL);
    ck_assert_ptr_eq(graph_first_libm(g), cases[_i].is_libm ? y.op : NULL);
    ck_assert_ptr_null(graph_error(g));
    graph_free(g);
}
END_TEST

/* ---- building ---- */

START_TEST(an_operation_knows_what_it_was_built_from)
{
    struct graph *g = graph_new();
    struct output x = input(g, -1, 3), w = input(g, 3, 5);
    struct output y = matmul(g, x, w, 0, 0, "layer/product");
    char name[64];

    ck_assert_str_eq(output_name(y, name, sizeof(name)), "layer/product:0");
    ck_assert_str_eq(operation_type(y.op), "MatMul");
    ck_assert_ptr_eq(operation_graph(y.op), g);
    ck_assert_int_eq(operation_id(y.op), 2);
    ck_assert_int_eq(graph_n_operations(g), 3);
    ck_assert_ptr_eq(graph_operation_at(g, 2), y.op);
    ck_assert_int_eq(operation_n_inputs(y.op), 2);
    ck_assert_ptr_eq(operation_input(y.op, 1).op, w.op);
    ck_assert_int_eq(output_dtype(y), DT_FLOAT);
    ck_assert_int_eq(operation_attr(y.op, "T")->i, DT_FLOAT);
    ck_assert_int_eq(operation_attr(y.op, "transpose_b")->i, 0);
    ck_assert_ptr_null(operation_attr(y.op, "nothing"));
    ck_assert_str_eq(operation_name(x.op), "Placeholder");
    ck_assert_str_eq(operation_name(w.op), "Placeholder_1");
    check_shape(y, SHAPE(-1, 5));
    ck_assert_ptr_null(graph_error(g));
    graph_free(g);
}
END_TEST

START_TEST(tensors_are_found_by_name)
{
    struct graph *g = graph_new();
    struct output x = input(g, 1, 2), got;
    struct err err = {0};

    ck_assert_int_eq(graph_tensor(g, "Placeholder:0", &got, &err), 0);
    ck_assert(got.op == x.op && got.index == 0);
    ck_assert_int_eq(graph_tensor(g, "Placeholder", &got, &err), ERR_ARG);
    ck_assert_int_eq(graph_tensor(g, "Placeholder:x", &got, &err), ERR_ARG);
    ck_assert_int_eq(graph_tensor(g, "Placeholder:1", &got, &err), ERR_NOT_FOUND);
    ck_assert_int_eq(graph_tensor(g, "y:0", &got, &err), ERR_NOT_FOUND);
    ck_assert_str_eq(err.msg,
                     "The name 'y:0' refers to a Tensor which does not exist. The "
                     "operation, 'y', does not exist in the graph.");
    ck_assert_ptr_eq(graph_operation(g, "Placeholder"), x.op);
    ck_assert_ptr_null(graph_operation(g, "placeholder"));
    graph_free(g);
}
END_TEST

START_TEST(the_first_error_stays_and_travels)
{
    struct graph *g = graph_new();
    struct output x = input(g, -1, 3),
                  bad = matmul(g, x, input(g, 4, 5), 0, 0, "product");

    ck_assert(!output_valid(bad));
    check_error(g, ERR_SHAPE,
                "MatMul 'product': Dimensions must be equal, but are 3 and 4");
    check_error(g, ERR_SHAPE, "(?, 3)");
    check_error(g, ERR_SHAPE, "(4, 5)");
    ck_assert(!output_valid(unary(g, "Relu", bad, NULL)));
    ck_assert(!output_valid(reduce(g, "Sum", bad, NULL, 0, 0, NULL)));
    ck_assert(!output_valid(clip_by_norm(g, bad, x, NULL)));
    check_error(g, ERR_SHAPE, "MatMul 'product'");
    ck_assert_ptr_null(graph_operation(g, "product"));
    graph_clear_error(g);
    ck_assert_ptr_null(graph_error(g));
    ck_assert(output_valid(unary(g, "Relu", x, NULL)));
    graph_free(g);
}
END_TEST

START_TEST(graphs_do_not_mix)
{
    struct graph *a = graph_new(), *b = graph_new();
    struct output x = input(a, 2, 2), y;

    ck_assert(!output_valid(unary(b, "Relu", x, NULL)));
    check_error(b, ERR_ARG, "Tensor \"Placeholder:0\" is not an element of this graph.");
    ck_assert_ptr_null(graph_error(a));
    graph_clear_error(b);
    ck_assert_ptr_null(group(b, &x.op, 1, NULL));
    check_error(b, ERR_ARG, "Operation \"Placeholder\" is not an element of this graph.");
    graph_clear_error(b);
    y = input(b, 2, 2);
    ck_assert_str_eq(operation_name(y.op), "Placeholder");
    ck_assert_int_eq(operation_add_control_input(y.op, x.op), ERR_ARG);
    ck_assert_int_eq(graph_n_operations(b), 1);
    graph_free(a);
    ck_assert_int_eq(output_dtype(y), DT_FLOAT);
    graph_free(b);
}
END_TEST

START_TEST(arguments_are_checked_by_the_signature)
{
    struct graph *g = graph_new();
    struct output x = input(g, 2, 2), i = constant_i32(g, 1, "i");
    struct op_builder *b;

    ck_assert(!output_valid(unary(g, "Frobnicate", x, NULL)));
    check_error(g, ERR_UNSUPPORTED, "Frobnicate");
    graph_clear_error(g);
    ck_assert(!output_valid(unary(g, "MatMul", x, NULL)));
    check_error(g, ERR_ARG, "takes 2 arguments, but 1 are given");
    graph_clear_error(g);
    ck_assert(!output_valid(binary(g, "Add", x, i, NULL)));
    check_error(g, ERR_DTYPE, "i:0 of type int32, not float32");
    graph_clear_error(g);
    ck_assert(!output_valid(unary(g, "Exp", i, NULL)));
    check_error(g, ERR_DTYPE, "'T' may not be int32");
    graph_clear_error(g);
    ck_assert(!output_valid(binary(g, "Assign", x, x, NULL)));
    check_error(g, ERR_ARG, "Placeholder:0");
    graph_clear_error(g);
    b = op_begin(g, "Relu", NULL);
    op_input(b, x);
    op_attr_int(b, "alpha", 1);
    ck_assert_ptr_null(op_finish(b));
    check_error(g, ERR_ARG, "no attribute 'alpha'");
    graph_clear_error(g);
    b = op_begin(g, "LeakyRelu", NULL);
    op_input(b, x);
    op_attr_int(b, "alpha", 1);
    ck_assert_ptr_null(op_finish(b));
    check_error(g, ERR_ARG, "attribute 'alpha' is a float");
    graph_clear_error(g);
    ck_assert(!output_valid(unary(g, "Cast", x, NULL)));
    check_error(g, ERR_ARG, "attribute 'DstT' is missing");
    graph_clear_error(g);
    ck_assert(!output_valid(unary(g, "Relu", x, "not a name")));
    check_error(g, ERR_ARG, "'not a name' is not a valid node name");
    graph_free(g);
}
END_TEST

START_TEST(attributes_are_inferred_or_take_their_default)
{
    struct graph *g = graph_new();
    struct output x = input(g, 2, 2), y = leaky_relu(g, x, 0.25f, NULL);
    struct output joined = concat(g, (struct output[]){x, y}, 2, -1, NULL);

    ck_assert_float_eq(operation_attr(y.op, "alpha")->f, 0.25f);
    ck_assert_float_eq(operation_attr(unary(g, "LeakyRelu", x, NULL).op, "alpha")->f,
                       0.2f);
    ck_assert_int_eq(operation_attr(joined.op, "N")->i, 2);
    ck_assert_int_eq(operation_attr(joined.op, "Tidx")->i, DT_INT32);
    ck_assert_str_eq(operation_attr_at(joined.op, 0)->name, "N");
    ck_assert_int_eq(operation_n_attrs(joined.op), 3);
    ck_assert_str_eq(
        operation_attr(
            bias_add(g, x, reduce(g, "Sum", x, (int32_t[]){0}, 1, 0, NULL), NULL).op,
            "data_format")
            ->s,
        "NHWC");
    graph_free(g);
}
END_TEST

START_TEST(constants_keep_a_copy)
{
    struct graph *g = graph_new();
    int32_t values[] = {1, 2, 3};
    char text[] = "name";
    struct tensor_string s = {text, 4};
    struct tensor words = tensor_view(DT_STRING, SHAPE(1), &s);
    struct output c = constant_i32s(g, values, 3, NULL), w = constant(g, &words, "words");
    const struct tensor *t;

    values[1] = 7;
    text[0] = 'X';
    t = &operation_attr(c.op, "value")->tensor;
    ck_assert_int_eq(((int32_t *)t->data)[1], 2);
    t = &operation_attr(w.op, "value")->tensor;
    ck_assert_mem_eq(((struct tensor_string *)t->data)->bytes, "name", 4);
    check_shape(c, SHAPE(3));
    ck_assert_int_eq(output_dtype(w), DT_STRING);
    graph_free(g);
}
END_TEST

/* ---- shape rules ---- */

/* Names in attributes, such as colocation groups, are read as C strings: each has a zero behind
 * it, whatever follows in memory. */
START_TEST(copied_strings_end_with_a_zero)
{
    struct graph *g = graph_new();
    char text[] = "loc:@0123456789A";
    struct tensor_string all[4];
    struct tensor words = tensor_view(DT_STRING, SHAPE(4), all);
    const struct tensor_string *copies;

    for (size_t i = 0; i < 4; i++)
        all[i] = (struct tensor_string){text, 16};
    copies = operation_attr(constant(g, &words, "words").op, "value")->tensor.data;
    for (size_t i = 0; i < 4; i++)
        ck_assert_uint_eq(strlen(copies[i].bytes), 16);
    graph_free(g);
}
END_TEST

START_TEST(shapes_with_unknown_batch_sizes)
{
    struct graph *g = graph_new();
    struct output x = placeholder(g, DT_FLOAT, &rows_of_3, "x");
    struct output any = placeholder(g, DT_FLOAT, &SHAPE_UNKNOWN, "any");
    struct output bias = reduce(g, "Mean", x, (int32_t[]){0}, 1, 0, NULL), y;

    check_shape(bias, SHAPE(3));
    check_shape(bias_add(g, x, bias, NULL), rows_of_3);
    check_shape(bias_add(g, any, bias, NULL), SHAPE_UNKNOWN);
    check_shape(binary(g, "Mul", x, constant_f32(g, 2.0f, NULL), NULL), rows_of_3);
    check_shape(binary(g, "Add", x, any, NULL), SHAPE_UNKNOWN);
    check_shape(reduce(g, "Sum", x, NULL, 0, 0, NULL), SHAPE_SCALAR);
    check_shape(reduce(g, "Sum", x, (int32_t[]){-1}, 1, 1, NULL), SHAPE(-1, 1));
    check_shape(reduce(g, "Max", x, (int32_t[]){1}, 1, 0, NULL), SHAPE(-1));
    check_shape(reduce(g, "Sum", any, NULL, 0, 0, NULL), SHAPE_UNKNOWN);
    check_shape(matmul(g, x, x, 1, 0, NULL), SHAPE(3, 3));
    check_shape(matmul(g, x, x, 0, 1, NULL), SHAPE(-1, -1));
    y = concat(g, (struct output[]){x, input(g, 8, 2)}, 2, 1, NULL);
    check_shape(y, SHAPE(8, 5));
    check_shape(slice_columns(g, y, 3, 2, NULL), SHAPE(8, 2));
    check_shape(slice_columns(g, x, 1, 2, NULL), SHAPE(-1, 2));
    check_shape(slice_columns(g, x, 1, -1, NULL), SHAPE(-1, 2));
    check_shape(reshape(g, y, &SHAPE(4, -1), NULL), SHAPE(4, 10));
    check_shape(reshape(g, x, &SHAPE(-1, 1), NULL), SHAPE(-1, 1));
    check_shape(shape_of(g, x, NULL), SHAPE(2));
    ck_assert_str_eq(operation_type(shape_of(g, x, NULL).op), "Shape");
    ck_assert_str_eq(operation_type(shape_of(g, y, NULL).op), "Const");
    check_shape(random_uniform(g, shape_of(g, x, NULL), 0.0f, 1.0f, NULL), rows_of_3);
    check_shape(unary(g, "Softmax", x, NULL), rows_of_3);
    check_shape(binary(g, "ArgMax", x, constant_i32(g, 1, NULL), NULL), SHAPE(-1));
    check_shape(binary(g, "ExpandDims", x, constant_i32(g, -1, NULL), NULL),
                SHAPE(-1, 3, 1));
    check_shape(unary(g, "Squeeze", input(g, 1, 3), NULL), SHAPE(3));
    check_shape(binary(g, "Tile", x, constant_i32s(g, (int32_t[]){2, 2}, 2, NULL), NULL),
                SHAPE(-1, 6));
    check_shape(
        binary(g, "Transpose", x, constant_i32s(g, (int32_t[]){1, 0}, 2, NULL), NULL),
        SHAPE(3, -1));
    ck_assert_ptr_null(graph_error(g));
    graph_free(g);
}
END_TEST

START_TEST(shapes_of_pieces_and_indices)
{
    struct graph *g = graph_new();
    struct output x = placeholder(g, DT_FLOAT, &rows_of_3, "x");
    struct output ids = placeholder(g, DT_INT32, &SHAPE(-1), "ids");
    struct output one = constant_f32(g, 1.0f, NULL), zero = constant_f32(g, 0.0f, NULL);
    struct op_builder *b = op_begin(g, "OneHot", NULL);
    struct operation *parts;

    op_input(b, ids);
    op_input(b, constant_i32(g, 5, NULL));
    op_input(b, one);
    op_input(b, zero);
    check_shape((struct output){op_finish(b), 0}, SHAPE(-1, 5));
    b = op_begin(g, "Split", NULL);
    op_input(b, constant_i32(g, 1, NULL));
    op_input(b, input(g, 4, 6));
    op_attr_int(b, "num_split", 3);
    parts = op_finish(b);
    ck_assert_int_eq(operation_n_outputs(parts), 3);
    check_shape((struct output){parts, 2}, SHAPE(4, 2));
    b = op_begin(g, "Unpack", NULL);
    op_input(b, x);
    op_attr_int(b, "num", 3);
    op_attr_int(b, "axis", 1);
    parts = op_finish(b);
    ck_assert_int_eq(operation_n_outputs(parts), 3);
    check_shape((struct output){parts, 0}, SHAPE(-1));
    check_shape(binary(g, "Gather", x, ids, NULL), rows_of_3);
    check_shape(ternary(g, "UnsortedSegmentSum", x, ids, constant_i32(g, 4, NULL), NULL),
                SHAPE(4, 3));
    check_shape(ternary(g, "Range", constant_i32(g, 10, NULL), constant_i32(g, 0, NULL),
                        constant_i32(g, -3, NULL), NULL),
                SHAPE(4));
    ck_assert_ptr_null(graph_error(g));
    graph_free(g);
}
END_TEST

/* x[begin:end:stride] with masks, against what NumPy gives. */
START_TEST(strided_slices)
{
    static const struct {
        int32_t begin[3], end[3], stride[3];
        int n, begin_mask, end_mask, ellipsis, new_axis, shrink;
        struct shape want;
    } cases[] = {
        {{0, 0}, {0, 1}, {1, 1}, 2, 1, 1, 0, 0, 2, {1, {-1}}},       /* x[:, 0] */
        {{0, 1}, {0, 3}, {1, 1}, 2, 1, 3, 0, 0, 0, {2, {-1, 5}}},    /* x[:, 1:] */
        {{0, 0}, {0, 0}, {1, -2}, 2, 1, 3, 0, 0, 0, {2, {-1, 1}}},   /* x[:, 0::-2] */
        {{0, -1}, {0, 0}, {1, -2}, 2, 1, 3, 0, 0, 0, {2, {-1, 3}}},  /* x[:, -1::-2] */
        {{0, 0}, {0, 2}, {1, 1}, 2, 0, 0, 1, 0, 0, {2, {-1, 2}}},    /* x[..., 0:2] */
        {{0, 0}, {0, 0}, {1, 1}, 2, 1, 1, 0, 2, 0, {3, {-1, 1, 6}}}, /* x[:, None] */
        {{0, 0}, {0, 0}, {1, 1}, 1, 1, 1, 0, 0, 0, {2, {-1, 6}}},    /* x[:] */
        {{0, 4}, {0, 2}, {1, 1}, 2, 1, 1, 0, 0, 0, {2, {-1, 0}}},    /* x[:, 4:2] */
    };
    struct graph *g = graph_new();
    struct output x = input(g, -1, 6);

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        size_t n = (size_t)cases[i].n;
        struct output begin = constant_i32s(g, cases[i].begin, n, NULL);
        struct output end = constant_i32s(g, cases[i].end, n, NULL);
        struct output stride = constant_i32s(g, cases[i].stride, n, NULL);
        struct op_builder *b = op_begin(g, "StridedSlice", NULL);

        op_input(b, x);
        op_input(b, begin);
        op_input(b, end);
        op_input(b, stride);
        op_attr_int(b, "begin_mask", cases[i].begin_mask);
        op_attr_int(b, "end_mask", cases[i].end_mask);
        op_attr_int(b, "ellipsis_mask", cases[i].ellipsis);
        op_attr_int(b, "new_axis_mask", cases[i].new_axis);
        op_attr_int(b, "shrink_axis_mask", cases[i].shrink);
        check_shape((struct output){op_finish(b), 0}, cases[i].want);
    }
    graph_free(g);
}
END_TEST

START_TEST(shapes_that_do_not_fit_are_told_with_both)
{
    struct graph *g = graph_new();
    struct output x = input(g, -1, 3), y = input(g, 2, 4),
                  bias = unary(g, "Identity",
                               constant_i32s(g, (int32_t[]){1, 2}, 2, NULL), NULL);

    bias = cast(g, bias, DT_FLOAT, NULL);
    (void)binary(g, "Add", x, y, NULL);
    check_error(g, ERR_SHAPE, "(?, 3) and (2, 4)");
    graph_clear_error(g);
    (void)bias_add(g, x, bias, NULL);
    check_error(g, ERR_SHAPE, "(2) does not fit (?, 3)");
    graph_clear_error(g);
    (void)concat(g, (struct output[]){x, y}, 2, 0, NULL);
    check_error(g, ERR_SHAPE, "(?, 3) and (2, 4)");
    graph_clear_error(g);
    (void)reshape(g, y, &SHAPE(3, -1), NULL);
    check_error(g, ERR_SHAPE, "(2, 4) to (3, ?)");
    graph_clear_error(g);
    (void)slice_columns(g, y, 3, 2, NULL);
    check_error(g, ERR_SHAPE, "dimension 1 of (2, 4)");
    graph_clear_error(g);
    (void)reduce(g, "Sum", y, (int32_t[]){2}, 1, 0, NULL);
    check_error(g, ERR_SHAPE, "axis 2");
    graph_clear_error(g);
    (void)matmul(g, x, bias, 0, 0, NULL);
    check_error(g, ERR_SHAPE, "input 1 must have 2 dimensions, but is (2)");
    graph_free(g);
}
END_TEST

static struct operation *split_v(struct graph *g, struct output x, int32_t a, int32_t b)
{
    struct op_builder *p = op_begin(g, "SplitV", NULL);

    op_input(p, x);
    op_input(p, constant_i32s(g, (int32_t[]){a, b}, 2, NULL));
    op_input(p, constant_i32(g, 1, NULL));
    op_attr_int(p, "num_split", 2);
    return op_finish(p);
}

/* Sizes that would lead a kernel outside of its tensors are refused. */
START_TEST(sizes_that_cannot_be_are_told)
{
    struct graph *g = graph_new();
    struct output x = input(g, -1, 5), one = constant_f32(g, 1.0f, NULL);
    struct operation *parts = split_v(g, x, 2, -1);

    check_shape((struct output){parts, 1}, SHAPE(-1, 3));
    ck_assert_ptr_null(split_v(g, x, 2, 4));
    check_error(g, ERR_SHAPE, "pieces of 6 in all do not make up (?, 5)");
    graph_clear_error(g);
    ck_assert_ptr_null(split_v(g, x, 6, -1));
    check_error(g, ERR_SHAPE, "pieces of 6 in all");
    graph_clear_error(g);
    ck_assert_ptr_null(split_v(g, x, -1, -1));
    check_error(g, ERR_SHAPE, "a piece of size -1");
    graph_clear_error(g);
    (void)binary(g, "Fill", constant_i32s(g, (int32_t[]){3, -1}, 2, NULL), one, NULL);
    check_error(g, ERR_SHAPE, "dimension 1 may not be -1");
    graph_clear_error(g);
    (void)random_uniform(g, constant_i32s(g, (int32_t[]){-7}, 1, NULL), 0.0f, 1.0f, NULL);
    check_error(g, ERR_SHAPE, "dimension 0 may not be -7");
    graph_clear_error(g);
    (void)reshape(g, x, &SHAPE(1 << 30, 1 << 30, 1 << 30), NULL);
    check_error(g, ERR_LIMIT, "too many elements");
    graph_clear_error(g);
    (void)ternary(g, "Range", constant_i32(g, 0, NULL), constant_i32(g, 5, NULL),
                  constant_i32(g, 0, NULL), NULL);
    check_error(g, ERR_ARG, "delta must not be 0");
    graph_free(g);
}
END_TEST

/* ---- collections ---- */

START_TEST(collections_keep_their_order)
{
    struct graph *g = graph_new();
    const struct collection_item *items;
    struct output x = input(g, 1, 1);
    char text[] = "hello";

    collection_add(g, "b", (struct collection_item){.kind = ITEM_INT, .i = 3});
    collection_add(g, "a", (struct collection_item){.kind = ITEM_OUTPUT, .output = x});
    collection_add(g, "a", (struct collection_item){.kind = ITEM_OPERATION, .op = x.op});
    collection_add(g, "a", (struct collection_item){.kind = ITEM_STRING, .s = text});
    text[0] = 'X';
    ck_assert_int_eq(graph_n_collections(g), 2);
    ck_assert_str_eq(graph_collection_name(g, 0), "b");
    ck_assert_uint_eq(collection_get(g, "a", NULL, &items), 3);
    ck_assert_str_eq(items[2].s, "hello");
    ck_assert_uint_eq(collection_get(g, "a", "Place", &items), 2);
    ck_assert_ptr_eq(items[1].op, x.op);
    ck_assert_uint_eq(collection_get(g, "b", "Place", NULL), 0);
    ck_assert_uint_eq(collection_get(g, "c", NULL, NULL), 0);
    graph_free(g);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *s = suite_create("graph");
    TCase *tc = tcase_create("graph");

    tcase_add_test(tc, every_row_is_whole);
    tcase_add_test(tc, a_graph_has_the_types_of_its_table_only);
    tcase_add_test(tc, every_signature_names_what_it_has);
    tcase_add_test(tc, malformed_signatures_are_told);
    tcase_add_loop_test(tc, a_graph_names_its_first_op_of_libm, 0, 8);
    tcase_add_test(tc, an_operation_knows_what_it_was_built_from);
    tcase_add_test(tc, tensors_are_found_by_name);
    tcase_add_test(tc, the_first_error_stays_and_travels);
    tcase_add_test(tc, graphs_do_not_mix);
    tcase_add_test(tc, arguments_are_checked_by_the_signature);
    tcase_add_test(tc, attributes_are_inferred_or_take_their_default);
    tcase_add_test(tc, constants_keep_a_copy);
    tcase_add_test(tc, copied_strings_end_with_a_zero);
    tcase_add_test(tc, shapes_with_unknown_batch_sizes);
    tcase_add_test(tc, shapes_of_pieces_and_indices);
    tcase_add_test(tc, strided_slices);
    tcase_add_test(tc, shapes_that_do_not_fit_are_told_with_both);
    tcase_add_test(tc, sizes_that_cannot_be_are_told);
    tcase_add_test(tc, collections_keep_their_order);
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(make_suite)
