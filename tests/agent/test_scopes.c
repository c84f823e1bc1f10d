#include "agent/graph/ops.h"
#include "tests/support/test_main.h"

#include <string.h>

static struct output node(struct graph *g, const char *name)
{
    return placeholder(g, DT_FLOAT, &SHAPE_SCALAR, name);
}

static void check_name(struct output x, const char *want)
{
    ck_assert(output_valid(x));
    ck_assert_str_eq(operation_name(x.op), want);
}

START_TEST(names_are_made_unique_without_regard_to_case)
{
    struct graph *g = graph_new();

    check_name(node(g, "a"), "a");
    check_name(node(g, "a"), "a_1");
    check_name(node(g, "A"), "A_2");
    check_name(node(g, "a_1"), "a_1_1");
    check_name(node(g, "b_1"), "b_1");
    check_name(node(g, "b"), "b");
    check_name(node(g, "b"), "b_2"); /* b_1 is taken */
    check_name(node(g, NULL), "Placeholder");
    ck_assert_str_eq(graph_unique_name(g, "c"), "c");
    check_name(node(g, "c"), "c_1");
    graph_free(g);
}
END_TEST

START_TEST(name_scopes_nest_and_are_made_unique)
{
    struct graph *g = graph_new();

    ck_assert_str_eq(graph_name_scope(g), "");
    name_scope_enter(g, "a");
    check_name(node(g, "x"), "a/x");
    name_scope_enter(g, "b");
    check_name(node(g, "x"), "a/b/x");
    name_scope_enter(g, "");
    check_name(node(g, "x"), "x");
    name_scope_leave(g);
    name_scope_leave(g);
    name_scope_leave(g);
    name_scope_enter(g, "a");
    check_name(node(g, "x"), "a_1/x");
    name_scope_leave(g);
    name_scope_enter(g, "a/");
    check_name(node(g, "x"), "a/x_1");
    name_scope_leave(g);
    check_name(node(g, "exactly/"), "exactly");
    ck_assert_str_eq(graph_name_scope(g), "");
    graph_free(g);
}
END_TEST

START_TEST(a_name_is_taken_once_only)
{
    struct graph *g = graph_new();

    check_name(node(g, "exactly/"), "exactly");
    ck_assert(!output_valid(node(g, "exactly/")));
    ck_assert_int_eq(graph_error(g)->code, ERR_EXISTS);
    graph_free(g);
}
END_TEST

START_TEST(scopes_with_names_that_cannot_be_are_told)
{
    static const char *const bad[] = {"_a", "a b", "a:0", "-"};

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct graph *g = graph_new();

        name_scope_enter(g, bad[i]);
        name_scope_leave(g);
        ck_assert_msg(graph_error(g) != NULL, "'%s'", bad[i]);
        graph_free(g);
    }
}
END_TEST

START_TEST(a_second_variable_scope_has_another_name_scope)
{
    struct graph *g = graph_new();

    variable_scope_enter(g, "agent_0", NULL, REUSE_INHERIT);
    ck_assert_str_eq(graph_variable_scope(g), "agent_0");
    check_name(node(g, "x"), "agent_0/x");
    variable_scope_enter(g, "p_func", NULL, REUSE_INHERIT);
    ck_assert_str_eq(graph_variable_scope(g), "agent_0/p_func");
    variable_scope_leave(g);
    variable_scope_leave(g);
    variable_scope_enter(g, "agent_0", NULL, REUSE_INHERIT);
    ck_assert_str_eq(graph_variable_scope(g), "agent_0");
    check_name(node(g, "x"), "agent_0_1/x");
    variable_scope_leave(g);
    ck_assert_str_eq(graph_variable_scope(g), "");
    graph_free(g);
}
END_TEST

static void check_default_scope(struct graph *g, const char *variables, const char *ops)
{
    char name[64];

    variable_scope_enter(g, NULL, "dense", REUSE_INHERIT);
    ck_assert_str_eq(graph_variable_scope(g), variables);
    (void)snprintf(name, sizeof(name), "%s/x", ops);
    check_name(node(g, "x"), name);
    variable_scope_leave(g);
}

/* Each time the parent is opened, default names begin again with dense, dense_1, so that
 * layers are shared one by one. */
START_TEST(default_scopes_count_anew_in_a_parent_opened_again)
{
    struct graph *g = graph_new();

    variable_scope_enter(g, "net", NULL, REUSE_INHERIT);
    check_default_scope(g, "net/dense", "net/dense");
    check_default_scope(g, "net/dense_1", "net/dense_1");
    variable_scope_leave(g);
    variable_scope_enter(g, "net", NULL, REUSE_TRUE);
    check_default_scope(g, "net/dense", "net_1/dense");
    check_default_scope(g, "net/dense_1", "net_1/dense_1");
    variable_scope_leave(g);
    check_default_scope(g, "dense", "dense");
    check_default_scope(g, "dense_1", "dense_1");
    ck_assert_ptr_null(graph_error(g));
    variable_scope_enter(g, NULL, "dense", REUSE_TRUE);
    variable_scope_leave(g);
    ck_assert_int_eq(graph_error(g)->code, ERR_ARG);
    graph_free(g);
}
END_TEST

START_TEST(control_dependencies_reach_what_does_not_wait_yet)
{
    struct graph *g = graph_new();
    struct output first = node(g, "first"), other = node(g, "other"), x, y;

    control_dependencies_enter(g, &first.op, 1);
    x = unary(g, "Neg", other, "x");
    ck_assert_int_eq(operation_n_control_inputs(x.op), 1);
    ck_assert_ptr_eq(operation_control_input(x.op, 0), first.op);
    y = unary(g, "Neg", x, "y"); /* waits through x */
    ck_assert_int_eq(operation_n_control_inputs(y.op), 0);
    control_dependencies_enter(g, &other.op, 1);
    x = node(g, "inner");
    ck_assert_int_eq(operation_n_control_inputs(x.op), 2);
    control_dependencies_leave(g);
    control_dependencies_enter(g, NULL, 0);
    x = node(g, "free");
    ck_assert_int_eq(operation_n_control_inputs(x.op), 0);
    control_dependencies_leave(g);
    y = unary(g, "Neg", x, "bound"); /* its input does not wait for anything */
    ck_assert_int_eq(operation_n_control_inputs(y.op), 1);
    control_dependencies_leave(g);
    ck_assert_int_eq(operation_n_control_inputs(node(g, "after").op), 0);
    graph_free(g);
}
END_TEST

START_TEST(control_inputs_are_kept_once)
{
    struct graph *g = graph_new();
    struct output a = node(g, "a"), b = node(g, "b");
    struct operation *all = group(g, (struct operation *[]){a.op, b.op, a.op}, 3, NULL);

    ck_assert_str_eq(operation_name(all), "group_deps");
    ck_assert_int_eq(operation_n_control_inputs(all), 2);
    ck_assert_int_eq(operation_add_control_input(all, b.op), 0);
    ck_assert_int_eq(operation_n_control_inputs(all), 2);
    ck_assert_int_eq(operation_n_outputs(all), 0);
    graph_free(g);
}
END_TEST

START_TEST(devices_are_the_innermost_scope_s)
{
    struct graph *g = graph_new();
    struct op_builder *b;

    device_enter(g, "/job:ps/task:0");
    ck_assert_str_eq(operation_device(node(g, NULL).op), "/job:ps/task:0");
    device_enter(g, NULL);
    ck_assert_str_eq(operation_device(node(g, NULL).op), "");
    device_leave(g);
    b = op_begin(g, "NoOp", NULL);
    op_device(b, "/device:CPU:0");
    ck_assert_str_eq(operation_device(op_finish(b)), "/device:CPU:0");
    device_leave(g);
    ck_assert_str_eq(operation_device(node(g, NULL).op), "");
    graph_free(g);
}
END_TEST

START_TEST(colocation_is_an_attribute)
{
    struct graph *g = graph_new();
    struct output a = node(g, "a"), x;
    const struct attr *class;

    colocate_with_enter(g, a.op);
    x = node(g, "x");
    colocate_with_leave(g);
    class = operation_attr(x.op, "_class");
    ck_assert_ptr_nonnull(class);
    ck_assert_uint_eq(class->n, 1);
    ck_assert_mem_eq(class->list_s[0].bytes, "loc:@a", 6);
    ck_assert_ptr_null(operation_attr(node(g, "y").op, "_class"));
    graph_free(g);
}
END_TEST

/* as a file may have them */
START_TEST(a_class_that_is_no_list_of_strings_is_ignored)
{
    static const int64_t numbers[] = {1, 2};
    struct graph *g = graph_new();
    struct op_builder *b = op_begin(g, "VariableV2", "v");
    struct operation *v;
    struct output x;

    op_attr_type(b, "dtype", DT_FLOAT);
    op_attr_shape(b, "shape", &SHAPE_SCALAR);
    op_attr_ints(b, "_class", numbers, 2);
    v = op_finish(b);
    ck_assert_msg(v != NULL, "%s", graph_error(g) != NULL ? graph_error(g)->msg : "");
    x = binary(g, "Assign", (struct output){v, 0}, constant_f32(g, 1, NULL), "assign");
    ck_assert_ptr_nonnull(x.op);
    colocate_with_enter(g, v);
    ck_assert_ptr_nonnull(node(g, "x").op);
    colocate_with_leave(g);
    graph_free(g);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *s = suite_create("scopes");
    TCase *tc = tcase_create("scopes");

    tcase_add_test(tc, names_are_made_unique_without_regard_to_case);
    tcase_add_test(tc, name_scopes_nest_and_are_made_unique);
    tcase_add_test(tc, a_name_is_taken_once_only);
    tcase_add_test(tc, scopes_with_names_that_cannot_be_are_told);
    tcase_add_test(tc, a_second_variable_scope_has_another_name_scope);
    tcase_add_test(tc, default_scopes_count_anew_in_a_parent_opened_again);
    tcase_add_test(tc, control_dependencies_reach_what_does_not_wait_yet);
    tcase_add_test(tc, control_inputs_are_kept_once);
    tcase_add_test(tc, devices_are_the_innermost_scope_s);
    tcase_add_test(tc, colocation_is_an_attribute);
    tcase_add_test(tc, a_class_that_is_no_list_of_strings_is_ignored);
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(make_suite)
