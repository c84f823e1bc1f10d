#include "agent/graph/ops.h"
#include "tests/agent/session_help.h"
#include "tests/support/test_main.h"

#include <math.h>
#include <string.h>

static const struct shape shape_34 = {2, {3, 4}};

static struct variable *get(struct graph *g, const char *name)
{
    return get_variable(g, name, DT_FLOAT, &shape_34, NULL, 0);
}

static void check_exists(const struct graph *g, const char *name, const char *type)
{
    const struct operation *op = graph_operation(g, name);

    ck_assert_msg(op != NULL, "%s", name);
    ck_assert_str_eq(operation_type(op), type);
}

static void check_class(const struct graph *g, const char *name, const char *want)
{
    const struct attr *class = operation_attr(graph_operation(g, name), "_class");

    ck_assert_msg(class != NULL && class->n == 1, "%s", name);
    ck_assert_uint_eq(class->list_s[0].len_bytes, strlen(want));
    ck_assert_mem_eq(class->list_s[0].bytes, want, strlen(want));
}

static float constant_value(const struct graph *g, const char *name)
{
    const struct operation *op = graph_operation(g, name);

    ck_assert_msg(op != NULL, "%s", name);
    return *tensor_f32(&operation_attr(op, "value")->tensor);
}

START_TEST(get_variable_makes_tensorflow_s_nodes)
{
    static const struct {
        const char *name, *type;
    } want[] = {
        {"net/w/Initializer/random_uniform/shape", "Const"},
        {"net/w/Initializer/random_uniform/min", "Const"},
        {"net/w/Initializer/random_uniform/max", "Const"},
        {"net/w/Initializer/random_uniform/RandomUniform", "RandomUniform"},
        {"net/w/Initializer/random_uniform/sub", "Sub"},
        {"net/w/Initializer/random_uniform/mul", "Mul"},
        {"net/w/Initializer/random_uniform", "Add"},
        {"net/w", "VariableV2"},
        {"net/w/Assign", "Assign"},
        {"net/w/read", "Identity"},
    };
    struct graph *g = graph_new();
    struct variable *v;
    float limit = sqrtf(6.0f / 7.0f);

    variable_scope_enter(g, "net", NULL, REUSE_INHERIT);
    name_scope_enter(g, "ops_only");
    v = get(g, "w");
    name_scope_leave(g);
    variable_scope_leave(g);
    ck_assert_ptr_nonnull(v);
    ck_assert_int_eq(graph_n_operations(g), 10);
    for (int i = 0; i < 10; i++) {
        check_exists(g, want[i].name, want[i].type);
        check_class(g, want[i].name, "loc:@net/w");
        ck_assert_int_eq(operation_id(graph_operation(g, want[i].name)), i);
    }
    ck_assert_float_eq_tol(constant_value(g, "net/w/Initializer/random_uniform/max"),
                           limit, 1e-6f);
    ck_assert_float_eq_tol(constant_value(g, "net/w/Initializer/random_uniform/min"),
                           -limit, 1e-6f);
    ck_assert_str_eq(v->name, "net/w");
    ck_assert(v->dtype == DT_FLOAT && v->trainable && shape_equal(&v->shape, &shape_34));
    ck_assert(output_is_ref(v->ref) && !output_is_ref(v->read));
    ck_assert_ptr_eq(v->initializer, graph_operation(g, "net/w/Assign"));
    ck_assert_int_eq(operation_attr(v->initializer, "use_locking")->i, 1);
    graph_free(g);
}
END_TEST

START_TEST(small_zeros_are_one_constant)
{
    struct graph *g = graph_new();
    struct shape large = SHAPE(1000);

    ck_assert_ptr_nonnull(
        get_variable(g, "n", DT_INT64, &SHAPE_SCALAR, NULL, VARIABLE_NOT_TRAINABLE));
    ck_assert_ptr_nonnull(get_variable(g, "b", DT_BOOL, &SHAPE(999), NULL, 0));
    ck_assert_ptr_nonnull(get_variable(g, "big", DT_INT32, &large, NULL, 0));
    check_exists(g, "n/Initializer/zeros", "Const");
    check_exists(g, "b/Initializer/zeros", "Const");
    check_exists(g, "big/Initializer/zeros", "Fill");
    check_exists(g, "big/Initializer/zeros/shape_as_tensor", "Const");
    check_exists(g, "big/Initializer/zeros/Const", "Const");
    ck_assert_int_eq(output_dtype(variable_find(g, "big")->initial_value), DT_INT32);
    graph_free(g);
}
END_TEST

START_TEST(reuse_finds_or_refuses)
{
    struct graph *g = graph_new();
    struct variable *v = get(g, "v");

    ck_assert_ptr_null(get(g, "v"));
    ck_assert_str_eq(
        graph_error(g)->msg,
        "Variable v already exists, disallowed. Did you mean to set reuse=True "
        "or reuse=tf.AUTO_REUSE in VarScope?");
    graph_clear_error(g);
    variable_scope_enter(g, "", NULL, REUSE_TRUE);
    ck_assert_ptr_eq(get(g, "v"), v);
    ck_assert_ptr_null(get(g, "u"));
    ck_assert_str_eq(graph_error(g)->msg,
                     "Variable u does not exist, or was not created with "
                     "tf.get_variable(). Did you mean to set reuse=tf.AUTO_REUSE in "
                     "VarScope?");
    graph_clear_error(g);
    ck_assert_ptr_null(get_variable(g, "v", DT_FLOAT, &SHAPE(4, 3), NULL, 0));
    ck_assert_str_eq(graph_error(g)->msg,
                     "Trying to share variable v, but specified shape (4, 3) and found "
                     "shape (3, 4).");
    graph_clear_error(g);
    ck_assert_ptr_null(get_variable(g, "v", DT_INT32, &shape_34, NULL, 0));
    ck_assert_int_eq(graph_error(g)->code, ERR_DTYPE);
    graph_clear_error(g);
    variable_scope_leave(g);
    variable_scope_enter(g, "", NULL, REUSE_AUTO);
    ck_assert_ptr_eq(get(g, "v"), v);
    ck_assert_ptr_nonnull(get(g, "u"));
    variable_scope_enter(g, "inner", NULL, REUSE_INHERIT); /* inherits AUTO */
    ck_assert_ptr_eq(get(g, "w"), get(g, "w"));
    variable_scope_leave(g);
    variable_scope_leave(g);
    ck_assert_int_eq(graph_n_variables(g), 3);
    ck_assert_ptr_null(graph_error(g));
    graph_free(g);
}
END_TEST

START_TEST(plain_variables_are_uniquified_in_name_scopes)
{
    struct graph *g = graph_new();
    float start = 0.9f;
    struct tensor value = tensor_scalar_f32(&start);
    struct variable *v;

    name_scope_enter(g, "train");
    v = variable_new_constant(g, &value, "beta1_power", VARIABLE_NOT_TRAINABLE);
    ck_assert_str_eq(v->name, "train/beta1_power");
    v = variable_new_constant(g, &value, "beta1_power", VARIABLE_NOT_TRAINABLE);
    ck_assert_str_eq(v->name, "train/beta1_power_1");
    name_scope_leave(g);
    check_exists(g, "train/beta1_power_1/initial_value", "Const");
    check_class(g, "train/beta1_power_1/Assign", "loc:@train/beta1_power_1");
    check_class(g, "train/beta1_power_1/read", "loc:@train/beta1_power_1");
    ck_assert_ptr_null(operation_attr(v->ref.op, "_class"));
    v = variable_new(g, constant_f32(g, 1.0f, NULL), NULL, 0);
    ck_assert_str_eq(v->name, "Variable");
    ck_assert_ptr_null(
        variable_new(g, placeholder(g, DT_FLOAT, &SHAPE(-1), NULL), NULL, 0));
    ck_assert_int_eq(graph_error(g)->code, ERR_SHAPE);
    graph_free(g);
}
END_TEST

START_TEST(a_tensor_may_be_the_initializer)
{
    struct graph *g = graph_new();
    struct output value = constant_i32s(g, (int32_t[]){1, 2, 3}, 3, "start");
    struct initializer init = {.value = value};
    struct variable *v = get_variable(g, "v", DT_INT32, NULL, &init, 0);

    ck_assert_ptr_nonnull(v);
    ck_assert(v->dtype == DT_INT32 && shape_equal(&v->shape, &SHAPE(3)));
    ck_assert_ptr_eq(operation_input(v->initializer, 1).op, value.op);
    ck_assert_ptr_null(get_variable(g, "w", DT_FLOAT, NULL, NULL, 0));
    ck_assert_ptr_nonnull(strstr(graph_error(g)->msg, "Shape of a new variable (w)"));
    graph_free(g);
}
END_TEST

START_TEST(collections_hold_variables_in_creation_order)
{
    struct graph *g = graph_new();
    const struct collection_item *items;

    (void)get(g, "b");
    (void)get_variable(g, "step", DT_INT64, &SHAPE_SCALAR, NULL, VARIABLE_NOT_TRAINABLE);
    (void)get_variable(g, "rate", DT_FLOAT, &SHAPE_SCALAR, NULL, VARIABLE_LOCAL);
    variable_scope_enter(g, "a", NULL, REUSE_INHERIT);
    (void)get(g, "w");
    variable_scope_leave(g);
    ck_assert_uint_eq(collection_get(g, GLOBAL_VARIABLES, NULL, &items), 3);
    ck_assert_str_eq(items[0].variable->name, "b");
    ck_assert_str_eq(items[1].variable->name, "step");
    ck_assert_str_eq(items[2].variable->name, "a/w");
    ck_assert_uint_eq(collection_get(g, TRAINABLE_VARIABLES, "a/", &items), 1);
    ck_assert_str_eq(items[0].variable->name, "a/w");
    ck_assert_uint_eq(collection_get(g, TRAINABLE_VARIABLES, NULL, NULL), 2);
    ck_assert_uint_eq(collection_get(g, LOCAL_VARIABLES, NULL, NULL), 1);
    ck_assert_int_eq(graph_n_variables(g), 4);
    ck_assert_ptr_eq(graph_variable_at(g, 3), variable_find(g, "a/w"));
    ck_assert_ptr_null(variable_find(g, "w"));
    graph_free(g);
}
END_TEST

START_TEST(initializers_and_assignments_are_operations)
{
    struct graph *g = graph_new();
    struct variable *v = get(g, "v"), *w = get(g, "w");
    struct operation *init = global_variables_initializer(g, NULL);
    struct output x = placeholder(g, DT_FLOAT, &shape_34, NULL), y;

    ck_assert_str_eq(operation_name(init), "init");
    ck_assert_int_eq(operation_n_control_inputs(init), 2);
    ck_assert_ptr_eq(operation_control_input(init, 1), w->initializer);
    ck_assert_str_eq(operation_name(variables_initializer(g, &v, 1, NULL)), "init_1");
    y = variable_assign(v, x, NULL);
    ck_assert_str_eq(operation_name(y.op), "Assign");
    ck_assert(output_is_ref(y));
    ck_assert_int_eq(operation_attr(y.op, "use_locking")->i, 0);
    ck_assert_str_eq(operation_type(variable_assign_add(v, x, NULL).op), "AssignAdd");
    ck_assert_str_eq(operation_type(variable_assign_sub(v, x, "less").op), "AssignSub");
    ck_assert(!output_valid(variable_assign(v, constant_f32(g, 1.0f, NULL), NULL)));
    ck_assert_ptr_nonnull(
        strstr(graph_error(g)->msg, "() for a variable of shape (3, 4)"));
    graph_free(g);
}
END_TEST

static void run_target(struct bed *b, struct operation *target)
{
    struct run_args args = bed_args(b);

    args.targets = &target;
    args.n_targets = 1;
    ck_assert_msg(session_run(b->s, &args, NULL, &b->err) == 0, "%s", b->err.msg);
}

/* Whether the two have the same 12 values, which are not all the same. */
static void check_equal(struct bed *b, struct output x, struct output y)
{
    struct tensor one = bed_fetch(b, x), other = bed_fetch(b, y);

    ck_assert(shape_equal(&one.shape, &shape_34) && shape_equal(&other.shape, &shape_34));
    ck_assert_mem_eq(one.data, other.data, tensor_bytes(&one));
    ck_assert(tensor_f32(&one)[0] != tensor_f32(&one)[11]);
    tensor_free(&one);
    tensor_free(&other);
}

/* It begins with the values that the other one has or, before that has any, will get. */
START_TEST(a_variable_may_depend_on_another)
{
    struct bed b;
    struct variable *v, *w;
    struct output value;

    bed_init(&b);
    v = get(b.g, "v");
    value = variable_initialized_value(v);
    w = variable_new(b.g, value, "w", 0);
    ck_assert_ptr_nonnull(w);
    ck_assert(shape_equal(&w->shape, &shape_34));
    check_exists(b.g, "IsVariableInitialized", "IsVariableInitialized");
    check_exists(b.g, "cond/Switch", "Switch");
    check_exists(b.g, "cond/switch_t", "Identity");
    check_exists(b.g, "cond/read/Switch", "RefSwitch");
    check_exists(b.g, "cond/read", "Identity");
    ck_assert_str_eq(operation_name(value.op), "cond/Merge");
    ck_assert_ptr_eq(operation_input(operation_input(value.op, 0).op, 0).op,
                     v->initial_value.op);
    run_target(&b, w->initializer);
    check_equal(&b, w->read, v->initial_value);
    ck_assert_int_eq(bed_try(&b, v->read), ERR_UNINITIALIZED);
    run_target(&b, v->initializer);
    run_target(&b, variable_assign(v, unary(b.g, "Neg", v->read, NULL), NULL).op);
    run_target(&b, w->initializer);
    check_equal(&b, w->read, v->read);
    check_equal(&b, unary(b.g, "Neg", w->read, NULL), v->initial_value);
    bed_done(&b);
}
END_TEST

/* w = 2 v: uses the initial value of v until v is initialised, and its value from then
 * on. */
START_TEST(the_value_of_another_variable_is_taken_as_it_is)
{
    struct bed b;
    struct variable *v, *w;
    struct output twice;

    bed_init(&b);
    v = variable_new(b.g, constant_f32(b.g, 3.0f, NULL), "v", 0);
    twice = binary(b.g, "Mul", variable_initialized_value(v),
                   constant_f32(b.g, 2.0f, NULL), NULL);
    w = variable_new(b.g, twice, "w", 0);
    run_target(&b, w->initializer);
    ck_assert_float_eq(bed_scalar(&b, w->read), 6.0f);
    ck_assert_int_eq(bed_try(&b, v->read), ERR_UNINITIALIZED);
    run_target(&b, global_variables_initializer(b.g, NULL));
    run_target(&b, variable_assign(v, constant_f32(b.g, 5.0f, NULL), NULL).op);
    run_target(&b, w->initializer);
    ck_assert_float_eq(bed_scalar(&b, w->read), 10.0f);
    ck_assert_float_eq(bed_scalar(&b, v->read), 5.0f);
    bed_done(&b);
}
END_TEST

/* Slots are placed with their variable; control scopes do not apply to a variable. */
START_TEST(variables_stand_outside_of_the_scopes_around_them)
{
    struct graph *g = graph_new();
    struct variable *v = get(g, "v"), *slot;
    struct operation *before = no_op(g, "before");

    control_dependencies_enter(g, &before, 1);
    device_enter(g, "/job:ps/task:1");
    colocate_with_enter(g, v->ref.op);
    slot = get(g, "v/Adam");
    colocate_with_leave(g);
    device_leave(g);
    control_dependencies_leave(g);
    check_class(g, "v/Adam", "loc:@v");
    check_class(g, "v/Adam/Initializer/random_uniform", "loc:@v");
    check_class(g, "v/Adam/Assign", "loc:@v");
    ck_assert_int_eq(operation_n_control_inputs(slot->initializer), 0);
    ck_assert_str_eq(operation_device(slot->ref.op), "/job:ps/task:1");
    ck_assert_str_eq(operation_device(slot->initial_value.op), "");
    graph_free(g);
}
END_TEST

/* ---- the global step, initialisers, devices, tuple ---- */

START_TEST(there_is_one_global_step)
{
    struct graph *g = graph_new();
    struct variable *step;

    ck_assert_ptr_null(global_step(g));
    variable_scope_enter(g, "agent_0", NULL, REUSE_INHERIT);
    step = get_or_create_global_step(g);
    variable_scope_leave(g);
    ck_assert_ptr_nonnull(step);
    ck_assert_str_eq(step->name, "global_step");
    ck_assert_int_eq(step->dtype, DT_INT64);
    ck_assert_int_eq(step->trainable, 0);
    ck_assert_ptr_eq(get_or_create_global_step(g), step);
    ck_assert_ptr_eq(global_step(g), step);
    ck_assert_uint_eq(collection_get(g, GLOBAL_STEP, NULL, NULL), 1);
    ck_assert_uint_eq(collection_get(g, GLOBAL_VARIABLES, NULL, NULL), 1);
    graph_free(g);
}
END_TEST

START_TEST(initialisers_by_collection)
{
    struct graph *g = graph_new();
    struct variable *v = variable_new(g, constant_f32(g, 1, NULL), "v", 0);
    struct variable *local =
        variable_new(g, constant_f32(g, 1, NULL), "local", VARIABLE_LOCAL);
    struct operation *op = local_variables_initializer(g, NULL);

    ck_assert_int_eq(operation_n_control_inputs(op), 1);
    ck_assert_ptr_eq(operation_control_input(op, 0), local->initializer);
    op = initialize_all_variables(g);
    ck_assert_int_eq(operation_n_control_inputs(op), 1);
    ck_assert_ptr_eq(operation_control_input(op, 0), v->initializer);
    /* as in a graph from a file: not a variable */
    collection_add(
        g, GLOBAL_VARIABLES,
        (struct collection_item){.kind = ITEM_OUTPUT, .output = constant_f32(g, 1, "x")});
    ck_assert_int_eq(operation_n_control_inputs(global_variables_initializer(g, "again")),
                     1);
    graph_free(g);
}
END_TEST

START_TEST(replica_device_setter_takes_turns)
{
    static const char *const want[] = {"/job:ps/task:0", "/job:ps/task:1",
                                       "/job:ps/task:0"};
    struct graph *g = graph_new();
    struct output x;

    replica_device_enter(g, 2, NULL);
    for (int i = 0; i < 3; i++) {
        struct variable *v = variable_new(g, constant_f32(g, 1, NULL), NULL,
                                          i == 2 ? VARIABLE_RESOURCE : 0);

        ck_assert_str_eq(operation_device(v->ref.op), want[i]);
        if (i < 2) { /* operations of a variable are on its device */
            ck_assert_str_eq(operation_device(v->initializer), want[i]);
            ck_assert_str_eq(operation_device(v->read.op), want[i]);
        }
    }
    x = constant_f32(g, 1, NULL);
    ck_assert_str_eq(operation_device(x.op), "/job:worker");
    device_enter(g, "/job:ps/task:7");
    x = constant_f32(g, 1, NULL);
    ck_assert_str_eq(operation_device(x.op), "/job:ps/task:7");
    device_leave(g);
    device_leave(g);
    x = constant_f32(g, 1, NULL);
    ck_assert_str_eq(operation_device(x.op), "");
    graph_free(g);
}
END_TEST

START_TEST(tuple_waits_for_all)
{
    struct bed b;
    struct variable *v;
    struct output values[2], out[2];

    bed_init(&b);
    v = variable_new(b.g, constant_f32(b.g, 1, NULL), "v", 0);
    values[0] = constant_f32(b.g, 5, NULL);
    values[1] = variable_assign_add(v, constant_f32(b.g, 1, NULL), NULL);
    tuple(b.g, values, 2, NULL, out);
    ck_assert_str_eq(operation_name(out[1].op), "tuple/control_dependency_1");
    run_target(&b, v->initializer);
    ck_assert_float_eq(bed_scalar(&b, out[0]), 5); /* the other operation ran, too */
    ck_assert_float_eq(bed_scalar(&b, v->read), 2);
    bed_done(&b);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *s = suite_create("variables");
    TCase *tc = tcase_create("variables");

    tcase_add_test(tc, get_variable_makes_tensorflow_s_nodes);
    tcase_add_test(tc, small_zeros_are_one_constant);
    tcase_add_test(tc, reuse_finds_or_refuses);
    tcase_add_test(tc, plain_variables_are_uniquified_in_name_scopes);
    tcase_add_test(tc, a_tensor_may_be_the_initializer);
    tcase_add_test(tc, collections_hold_variables_in_creation_order);
    tcase_add_test(tc, initializers_and_assignments_are_operations);
    tcase_add_test(tc, a_variable_may_depend_on_another);
    tcase_add_test(tc, the_value_of_another_variable_is_taken_as_it_is);
    tcase_add_test(tc, variables_stand_outside_of_the_scopes_around_them);
    tcase_add_test(tc, there_is_one_global_step);
    tcase_add_test(tc, initialisers_by_collection);
    tcase_add_test(tc, replica_device_setter_takes_turns);
    tcase_add_test(tc, tuple_waits_for_all);
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(make_suite)
