/* Ops that write parts of variables, or that read and count by reference or handle. More values:
 * tests/tensorflow/cases_variables.py. */
#include "agent/graph/op_def.h"
#include "agent/ops/op_table.h"
#include "tests/agent/variable_help.h"
#include "tests/support/test_main.h"

enum { ROWS = 4, WIDTH = 2, N = ROWS * WIDTH };

/* ---- scatters ---- */

static double put(double x, double y)
{
    (void)x;
    return y;
}

static double add(double x, double y)
{
    return x + y;
}

static double sub(double x, double y)
{
    return x - y;
}

static double mul(double x, double y)
{
    return x * y;
}

static double quotient(double x, double y)
{
    return x / y;
}

static const struct {
    const char *name;
    double (*want)(double x, double y);
    int has_pieces;
} scatters[] = {{"Update", put, 1},  {"Add", add, 1},  {"Sub", sub, 1},
                {"Min", fmin, 1},    {"Max", fmax, 1}, {"Mul", mul, 0},
                {"Div", quotient, 0}};
enum { N_SCATTERS = sizeof(scatters) / sizeof(scatters[0]) };

static const struct {
    const char *prefix;
    int is_handle, by_pieces;
} forms[] = {{"Scatter", 0, 0},
             {"ResourceScatter", 1, 0},
             {"ScatterNd", 0, 1},
             {"ResourceScatterNd", 1, 1}};

static const enum dtype dtypes[] = {DT_FLOAT, DT_DOUBLE, DT_INT32, DT_INT64};
static const double start[N] = {6, -2, 3, 0, 12, 4, -9, 8};

static struct operation *scatter(struct bed *b, const char *type,
                                 const struct variable *v, struct output indices,
                                 struct output updates)
{
    struct op_builder *o = op_begin(b->g, type, "tested");

    op_input(o, v->ref);
    op_input(o, indices);
    op_input(o, updates);
    return op_finish(o);
}

static struct variable *started(struct bed *b, enum dtype dtype, int is_handle)
{
    return variable_new(b->g, constant_of(b, dtype, SHAPE(ROWS, WIDTH), start), "v",
                        is_handle ? VARIABLE_RESOURCE : 0);
}

/* A place that occurs twice is combined twice. k: the indices that name a place */
static void check_scatter(const char *type, double (*want)(double x, double y),
                          enum dtype dtype, int is_handle, int k, int is_scalar)
{
    const int by_pieces = strstr(type, "Nd") != NULL, width = k == 1 ? WIDTH : 1;
    const double places[3][2] = {{1, 0}, {3, 1}, {1, 0}}, y[] = {2, 3, 4, -1, 1, 2};
    double indices[6], x[N];
    struct shape at = by_pieces ? SHAPE(3, k) : SHAPE(3);
    struct bed b;
    struct variable *v;
    struct operation *op;

    memcpy(x, start, sizeof(x));
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < width; j++) {
            double *to = &x[(int)places[i][0] * WIDTH + (k == 1 ? j : (int)places[i][1])];

            *to = want(*to, is_scalar ? y[0] : y[i * width + j]);
            if (dtype == DT_INT32 || dtype == DT_INT64)
                *to = trunc(*to);
        }
    for (int i = 0; i < 3 * k; i++)
        indices[i] = places[i / k][i % k];
    bed_init(&b);
    v = started(&b, dtype, is_handle);
    op = scatter(&b, type, v, constant_of(&b, DT_INT32, at, indices),
                 constant_of(&b, dtype,
                             is_scalar ? SHAPE_SCALAR
                             : k == 1  ? SHAPE(3, WIDTH)
                                       : SHAPE(3),
                             y));
    ck_assert_msg(op != NULL, "%s", type);
    bed_init_variables(&b);
    bed_target(&b, op);
    check_values(&b, v, x, N, 1e-6);
    bed_done(&b);
}

START_TEST(scatters_change_the_places_that_indices_name)
{
    for (int form = 0; form < 4; form++)
        for (int t = 0; t < 4; t++) {
            char type[64];

            (void)snprintf(type, sizeof(type), "%s%s", forms[form].prefix,
                           scatters[_i].name);
            if (forms[form].by_pieces && !scatters[_i].has_pieces)
                continue;
            check_scatter(type, scatters[_i].want, dtypes[t], forms[form].is_handle, 1,
                          0);
            if (forms[form].by_pieces)
                check_scatter(type, scatters[_i].want, dtypes[t], forms[form].is_handle,
                              2, 0);
            else
                check_scatter(type, scatters[_i].want, dtypes[t], forms[form].is_handle,
                              1, 1);
        }
}
END_TEST

START_TEST(a_wrong_place_changes_nothing)
{
    static const double wrong[] = {1, ROWS, -1};

    for (int form = 0; form < 4; form++) {
        char type[64];
        struct bed b;
        struct variable *v;
        struct output indices, y;

        if (forms[form].by_pieces && !scatters[_i].has_pieces)
            continue;
        (void)snprintf(type, sizeof(type), "%s%s", forms[form].prefix, scatters[_i].name);
        bed_init(&b);
        v = started(&b, DT_FLOAT, forms[form].is_handle);
        y = constant_of(&b, DT_FLOAT, SHAPE(2, WIDTH), start);
        bed_init_variables(&b);
        for (int k = 0; k < 2; k++) {
            const double at[] = {wrong[0], wrong[1 + k]};

            indices = constant_of(&b, DT_INT32,
                                  forms[form].by_pieces ? SHAPE(2, 1) : SHAPE(2), at);
            ck_assert_ptr_nonnull(strstr(refusal(&b, scatter(&b, type, v, indices, y)),
                                         "is not in [0, 4)"));
            check_values(&b, v, start, N, 0);
        }
        y = constant_of(&b, DT_FLOAT, SHAPE(3, WIDTH), start);
        ck_assert_ptr_nonnull(strstr(refusal(&b, scatter(&b, type, v, indices, y)),
                                     "updates (3, 2), expected (2, 2)"));
        y = constant_of(&b, DT_DOUBLE, SHAPE(2, WIDTH), start);
        ck_assert_ptr_null(scatter(&b, type, v, indices, y));
        graph_clear_error(b.g);
        bed_done(&b);
    }
}
END_TEST

/* Values that are the variable's own: those of before if it is a resource; a reference shows
 * what has been written, as in TensorFlow. */
START_TEST(a_scatter_of_the_variables_own_values)
{
    static const double shifted[] = {1, 2, 3, 0};
    static const double moved[] = {-9, 8, 6, -2, 3, 0, 12, 4},
                        spread[] = {6, -2, 6, -2, 6, -2, 6, -2};

    for (int is_handle = 0; is_handle < 2; is_handle++) {
        struct bed b;
        struct variable *v;
        struct operation *op;

        bed_init(&b);
        v = started(&b, DT_FLOAT, is_handle);
        op = scatter(&b, is_handle ? "ResourceScatterUpdate" : "ScatterUpdate", v,
                     constant_of(&b, DT_INT32, SHAPE(ROWS), shifted), v->read);
        bed_init_variables(&b);
        bed_target(&b, op);
        check_values(&b, v, is_handle ? moved : spread, N, 0);
        bed_done(&b);
    }
}
END_TEST

/* Indices that the op itself changes are checked again: no place outside is written. */
START_TEST(indices_that_are_the_variable)
{
    static const double x[] = {2, 1, 0}, y[] = {9, 9, 9};
    struct bed b;
    struct variable *v;

    bed_init(&b);
    v = variable_new(b.g, constant_of(&b, DT_INT32, SHAPE(3), x), "v", 0);
    bed_init_variables(&b);
    ck_assert_ptr_nonnull(
        strstr(refusal(&b, scatter(&b, "ScatterUpdate", v, v->read,
                                   constant_of(&b, DT_INT32, SHAPE(3), y))),
               "index 9"));
    bed_done(&b);
}
END_TEST

/* ---- slices ---- */

static struct operation *assign_slice(struct bed *b, const struct variable *v,
                                      const char *type, struct output value,
                                      const int32_t *ends, int shrink)
{
    struct op_builder *o;
    struct output in[3];

    in[0] = constant_i32s(b->g, ends, 2, NULL);
    in[1] = constant_i32s(b->g, ends + 2, 2, NULL);
    in[2] = constant_i32s(b->g, ends + 4, 2, NULL);
    o = op_begin(b->g, type, "tested");
    op_input(o, v->ref);
    for (int i = 0; i < 3; i++)
        op_input(o, in[i]);
    op_input(o, value);
    op_attr_int(o, "shrink_axis_mask", shrink);
    return op_finish(o);
}

START_TEST(a_slice_is_assigned)
{
    static const char *const types[] = {"StridedSliceAssign",
                                        "ResourceStridedSliceAssign"};
    static const struct {
        int32_t ends[6]; /* begin, end, step */
        int shrink;
        struct shape shape;
        double want[N];
    } slices[] = {
        {{1, 0, 3, 2, 1, 1}, 0, {2, {2, 2}}, {6, -2, 21, 22, 23, 24, -9, 8}},
        {{3, 0, 0, 1, -2, 1}, 0, {2, {2, 1}}, {6, -2, 22, 0, 12, 4, 21, 8}},
        {{1, 0, 2, 2, 1, 1}, 1, {1, {2}}, {6, -2, 21, 22, 12, 4, -9, 8}},
        {{1, 0, 3, 2, 1, 1}, 0, {1, {2}}, {6, -2, 21, 22, 21, 22, -9, 8}},
        {{1, 0, 3, 2, 1, 1}, 0, {0, {0}}, {6, -2, 21, 21, 21, 21, -9, 8}},
        {{1, 0, 3, 2, 1, 1}, 0, {3, {1, 2, 1}}, {6, -2, 21, 21, 22, 22, -9, 8}},
    };
    static const double y[] = {21, 22, 23, 24, 25};
    struct bed b;
    struct variable *v;

    for (size_t k = 0; k < sizeof(slices) / sizeof(slices[0]); k++) {
        bed_init(&b);
        v = started(&b, DT_FLOAT, _i);
        bed_init_variables(&b);
        bed_target(&b, assign_slice(&b, v, types[_i],
                                    constant_of(&b, DT_FLOAT, slices[k].shape, y),
                                    slices[k].ends, slices[k].shrink));
        check_values(&b, v, slices[k].want, N, 0);
        bed_done(&b);
    }
    bed_init(&b);
    v = started(&b, DT_FLOAT, _i);
    ck_assert_ptr_nonnull(strstr(
        refusal(&b, assign_slice(&b, v, types[_i], constant_of(&b, DT_FLOAT, SHAPE(3), y),
                                 slices[0].ends, 0)),
        "a value of shape (3) for a slice of shape (2, 2)"));
    bed_done(&b);
}
END_TEST

/* ---- counters, handles ---- */

START_TEST(a_counter_counts_up_to_its_limit)
{
    static const char *const types[] = {"CountUpTo", "ResourceCountUpTo"};
    static const double zero = 0, two = 2;
    struct bed b;
    struct variable *v;
    struct op_builder *o;
    struct output before;

    bed_init(&b);
    v = variable_new(b.g, constant_of(&b, DT_INT64, SHAPE_SCALAR, &zero), "v",
                     _i ? VARIABLE_RESOURCE : 0);
    o = op_begin(b.g, types[_i], "tested");
    op_input(o, v->ref);
    op_attr_int(o, "limit", 2);
    op_attr_type(o, "T", DT_INT64);
    before = (struct output){op_finish(o), 0};
    bed_init_variables(&b);
    for (int i = 0; i < 2; i++) {
        struct tensor t = bed_fetch(&b, before);

        ck_assert_double_eq(element(&t, 0), i);
        tensor_free(&t);
    }
    ck_assert_ptr_nonnull(strstr(refusal(&b, before.op), "Reached limit of 2"));
    check_values(&b, v, &two, 1, 0);
    bed_done(&b);
}
END_TEST

START_TEST(a_counter_is_a_scalar)
{
    struct bed b;
    struct op_builder *o;

    bed_init(&b);
    o = op_begin(b.g, _i ? "ResourceCountUpTo" : "CountUpTo", "tested");
    op_input(o, started(&b, DT_INT32, _i)->ref);
    op_attr_int(o, "limit", 2);
    op_attr_type(o, "T", DT_INT32);
    ck_assert_ptr_null(op_finish(o));
    ck_assert_ptr_nonnull(strstr(refusal(&b, NULL), "a counter must be a scalar"));
    bed_done(&b);
}
END_TEST

START_TEST(a_destroyed_variable_has_no_value)
{
    struct bed b;
    struct variable *v;
    struct op_builder *o;
    struct operation *op[2];

    bed_init(&b);
    v = started(&b, DT_FLOAT, 1);
    for (int i = 0; i < 2; i++) {
        o = op_begin(b.g, "DestroyResourceOp", "tested");
        op_input(o, v->ref);
        op_attr_bool(o, "ignore_lookup_error", i == 0);
        op[i] = op_finish(o);
    }
    ck_assert_ptr_nonnull(strstr(refusal(&b, op[1]), "has no value"));
    bed_init_variables(&b);
    ck_assert_int_eq(bed_try(&b, v->read), 0);
    bed_target(&b, op[1]);
    ck_assert_int_eq(bed_try(&b, v->read), ERR_UNINITIALIZED);
    bed_target(&b, op[0]);
    bed_init_variables(&b);
    check_values(&b, v, start, N, 0);
    bed_done(&b);
}
END_TEST

static struct output gather(struct bed *b, const char *type, struct output handle,
                            struct output indices)
{
    struct op_builder *o = op_begin(b->g, type, "tested");

    op_input(o, handle);
    op_input(o, indices);
    op_attr_type(o, "dtype", DT_FLOAT);
    return (struct output){op_finish(o), 0};
}

static void check_fetch(struct bed *b, struct output x, const double *want, int n)
{
    struct tensor t = bed_fetch(b, x);

    ck_assert_int_eq(tensor_elements(&t), n);
    for (int i = 0; i < n; i++)
        ck_assert_double_eq(element(&t, i), want[i]);
    tensor_free(&t);
}

/* Rows before a write that nothing orders, and rows after one; their gradients. */
START_TEST(a_handle_gives_rows)
{
    static const char *const types[] = {"ResourceGather", "ResourceGatherNd"};
    static const double at[] = {3, 0, 3}, was[] = {-9, 8, 6, -2, -9, 8},
                        is[] = {-18, 16, 12, -4, -18, 16},
                        counts[] = {1, 1, 0, 0, 0, 0, 2, 2}, shape[] = {ROWS, WIDTH};
    const double wrong = ROWS;
    struct bed b;
    struct variable *v;
    struct output indices, rows, late, d;
    struct operation *write;

    bed_init(&b);
    v = started(&b, DT_FLOAT, 1);
    indices = constant_of(&b, DT_INT32, _i ? SHAPE(3, 1) : SHAPE(3), at);
    write = variable_assign_add(v, v->read, NULL).op;
    rows = gather(&b, types[_i], v->ref, indices);
    ck_assert_int_eq(output_shape(rows).dim[1], WIDTH);
    control_dependencies_enter(b.g, &write, 1);
    late = gather(&b, types[_i], v->ref, indices);
    control_dependencies_leave(b.g);
    ck_assert_int_eq(bed_try(&b, rows), ERR_UNINITIALIZED);
    bed_init_variables(&b);
    check_fetch(&b, rows, was, 6);
    check_fetch(&b, binary(b.g, "Sub", late, rows, NULL), was, 6);
    check_fetch(&b, rows, is, 6);
    ck_assert_int_eq(
        graph_gradients(b.g, &rows, 1, &v->ref, 1, NULL, NULL, 0, &d, &b.err), 0);
    check_fetch(&b, d, counts, N);
    check_fetch(&b, unary(b.g, "VariableShape", v->ref, NULL), shape, 2);
    indices = constant_of(&b, DT_INT32, _i ? SHAPE(1, 1) : SHAPE(1), &wrong);
    ck_assert_int_ne(bed_try(&b, gather(&b, types[_i], v->ref, indices)), 0);
    ck_assert_ptr_nonnull(strstr(b.err.msg, "is not in [0, 4)"));
    bed_done(&b);
}
END_TEST

/* ---- the table ---- */

START_TEST(every_type_that_writes_parts_is_tested)
{
    const struct op_def *d;

    for (size_t k = 0; (d = op_def_at(&op_table, k)) != NULL; k++) {
        int found = (d->flags & OP_WRITES_PARTS) == 0 ||
                    strstr(d->type, "SparseApply") != NULL || /* test_updates.c */
                    strstr(d->type, "StridedSliceAssign") != NULL;

        for (int i = 0; i < N_SCATTERS; i++)
            for (int form = 0; form < 4; form++) {
                char type[64];

                (void)snprintf(type, sizeof(type), "%s%s", forms[form].prefix,
                               scatters[i].name);
                found |= strcmp(type, d->type) == 0;
            }
        ck_assert_msg(found, "%s has no test", d->type);
    }
}
END_TEST

static Suite *make_suite(void)
{
    Suite *s = suite_create("parts");
    TCase *tc = tcase_create("parts");

    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, every_type_that_writes_parts_is_tested);
    tcase_add_loop_test(tc, scatters_change_the_places_that_indices_name, 0, N_SCATTERS);
    tcase_add_loop_test(tc, a_wrong_place_changes_nothing, 0, N_SCATTERS);
    tcase_add_test(tc, a_scatter_of_the_variables_own_values);
    tcase_add_test(tc, indices_that_are_the_variable);
    tcase_add_loop_test(tc, a_slice_is_assigned, 0, 2);
    tcase_add_loop_test(tc, a_counter_counts_up_to_its_limit, 0, 2);
    tcase_add_loop_test(tc, a_counter_is_a_scalar, 0, 2);
    tcase_add_test(tc, a_destroyed_variable_has_no_value);
    tcase_add_loop_test(tc, a_handle_gives_rows, 0, 2);
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(make_suite)
