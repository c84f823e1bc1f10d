#include "common/mem/xmalloc.h"
#include "tests/agent/session_help.h"
#include "tests/support/test_main.h"

#include <stdlib.h>

static const struct shape scalar = {0};

/* ---- feeds and fetches ---- */

START_TEST(any_tensor_is_fed_and_fetched)
{
    struct bed b;
    float x = 3;
    bed_init(&b);
    struct output in = bed_input(&b, scalar, &x, scalar);
    struct output twice = binary(b.g, "Add", in, in, NULL);
    struct output square = unary(b.g, "Square", twice, NULL);
    ck_assert_float_eq(bed_scalar(&b, in), 3);
    ck_assert_float_eq(bed_scalar(&b, twice), 6);
    ck_assert_float_eq(bed_scalar(&b, square), 36);
    /* a fed tensor in the middle replaces its computation */
    float y = 5;
    b.feeds[0] = (struct feed){twice, tensor_scalar_f32(&y)};
    ck_assert_float_eq(bed_scalar(&b, square), 25);
    ck_assert_float_eq(bed_scalar(&b, twice), 5);
    bed_done(&b);
}
END_TEST

START_TEST(a_constant_can_be_fed)
{
    struct bed b;
    bed_init(&b);
    struct output rate = constant_f32(b.g, 0.5f, "rate");
    struct output y = unary(b.g, "Neg", rate, NULL);
    float fed = 4;
    ck_assert_float_eq(bed_scalar(&b, y), -0.5f);
    b.feeds[b.n_feeds++] = (struct feed){rate, tensor_scalar_f32(&fed)};
    ck_assert_float_eq(bed_scalar(&b, y), -4);
    bed_done(&b);
}
END_TEST

START_TEST(shapes_may_differ_from_run_to_run)
{
    struct bed b;
    float x[6] = {1, 2, 3, 4, 5, 6};
    bed_init(&b);
    struct output in = bed_input(&b, SHAPE(-1, 2), x, SHAPE(3, 2));
    struct output sum = reduce(b.g, "Sum", in, (int32_t[]){0}, 1, 0, NULL);
    struct tensor t = bed_fetch(&b, sum);
    ck_assert_float_eq(tensor_f32(&t)[0], 9);
    ck_assert_float_eq(tensor_f32(&t)[1], 12);
    tensor_free(&t);
    b.feeds[0].value.shape = SHAPE(1, 2);
    t = bed_fetch(&b, sum);
    ck_assert_float_eq(tensor_f32(&t)[1], 2);
    tensor_free(&t);
    b.feeds[0].value.shape = SHAPE(0, 2);
    t = bed_fetch(&b, sum);
    ck_assert_float_eq(tensor_f32(&t)[1], 0);
    tensor_free(&t);
    bed_done(&b);
}
END_TEST

START_TEST(a_fed_shape_is_used)
{
    struct bed b;
    int32_t dims[2] = {2, 3};
    bed_init(&b);
    struct output shape = placeholder(b.g, DT_INT32, &SHAPE(2), NULL);
    struct output x = binary(b.g, "Fill", shape, constant_f32(b.g, 7, NULL), NULL);
    b.feeds[b.n_feeds++] = (struct feed){shape, tensor_view(DT_INT32, SHAPE(2), dims)};
    struct tensor t = bed_fetch(&b, x);
    ck_assert_int_eq(tensor_elements(&t), 6);
    ck_assert_float_eq(tensor_f32(&t)[5], 7);
    tensor_free(&t);
    dims[1] = 1;
    t = bed_fetch(&b, x);
    ck_assert_int_eq(tensor_elements(&t), 2);
    tensor_free(&t);
    bed_done(&b);
}
END_TEST

START_TEST(results_go_where_the_caller_says)
{
    struct bed b;
    float x[4] = {1, 2, 3, 4}, y[4], small[3];
    bed_init(&b);
    struct output in = bed_input(&b, SHAPE(-1), x, SHAPE(4));
    struct output neg = unary(b.g, "Neg", in, NULL);
    struct tensor place = tensor_view(DT_FLOAT, SHAPE(2, 2), y);
    struct run_args args = bed_args(&b);
    args.fetches = &neg;
    args.n_fetches = 1;
    ck_assert_int_eq(session_run(b.s, &args, &place, &b.err), 0);
    ck_assert_float_eq(y[3], -4);
    ck_assert_int_eq(place.shape.rank, 1);
    struct tensor narrow = tensor_view(DT_FLOAT, SHAPE(3), small);
    ck_assert_int_eq(session_run(b.s, &args, &narrow, &b.err), ERR_SHAPE);
    struct tensor other = tensor_view(DT_INT32, SHAPE(4), y);
    ck_assert_int_eq(session_run(b.s, &args, &other, &b.err), ERR_DTYPE);
    bed_done(&b);
}
END_TEST

START_TEST(wrong_feeds_are_refused)
{
    struct bed b;
    float x[3] = {0};
    bed_init(&b);
    struct output in = bed_input(&b, SHAPE(-1, 3), x, SHAPE(1, 3));
    struct output y = unary(b.g, "Neg", in, NULL);
    b.feeds[0].value.shape = SHAPE(3, 1);
    ck_assert_int_eq(bed_try(&b, y), ERR_SHAPE);
    ck_assert_ptr_nonnull(strstr(b.err.msg, "Placeholder:0"));
    b.feeds[0].value = tensor_view(DT_INT32, SHAPE(1, 3), x);
    ck_assert_int_eq(bed_try(&b, y), ERR_DTYPE);
    b.n_feeds = 0;
    ck_assert_int_eq(bed_try(&b, y), ERR_ARG);
    ck_assert_ptr_nonnull(strstr(b.err.msg, "You must feed a value for placeholder"));
    b.feeds[0].value = tensor_view(DT_FLOAT, SHAPE(1, 3), x);
    b.feeds[1] = b.feeds[0];
    b.n_feeds = 2;
    ck_assert_int_eq(bed_try(&b, y), ERR_ARG);
    ck_assert_ptr_nonnull(strstr(b.err.msg, "fed twice"));
    b.n_feeds = 1;
    b.feeds[0].row_stride = 2;
    ck_assert_int_eq(bed_try(&b, y), ERR_ARG);
    ck_assert_ptr_nonnull(strstr(b.err.msg, "rows 2 elements apart"));
    bed_done(&b);
}
END_TEST

START_TEST(tensors_of_another_graph_are_refused_by_name)
{
    struct bed b;
    struct graph *other = graph_new();
    struct output strange = constant_f32(other, 1, "strange");
    struct operation *op = strange.op;
    float x = 0;
    bed_init(&b);
    struct output own = constant_f32(b.g, 1, NULL);
    ck_assert_int_eq(bed_try(&b, strange), ERR_ARG);
    ck_assert_str_eq(b.err.msg, "Tensor strange:0 is not an element of this graph.");
    struct run_args args = {.targets = &op, .n_targets = 1};
    ck_assert_int_eq(session_run(b.s, &args, NULL, &b.err), ERR_ARG);
    b.feeds[b.n_feeds++] = (struct feed){strange, tensor_scalar_f32(&x)};
    ck_assert_int_eq(bed_try(&b, own), ERR_ARG);
    graph_free(other);
    bed_done(&b);
}
END_TEST

START_TEST(fetched_values_are_copies)
{
    struct bed b;
    bed_init(&b);
    struct variable *v = bed_variable(&b, 1, "v");
    struct output add = variable_assign_add(v, constant_f32(b.g, 1, NULL), NULL);
    bed_init_variables(&b);
    struct tensor t = bed_fetch(&b, v->read);
    bed_target(&b, add.op);
    ck_assert_float_eq(tensor_f32(&t)[0], 1);
    tensor_free(&t);
    ck_assert_float_eq(bed_scalar(&b, v->read), 2);
    bed_done(&b);
}
END_TEST

/* ---- variables ---- */

START_TEST(uninitialized_reads_fail)
{
    struct bed b;
    bed_init(&b);
    struct variable *v = bed_variable(&b, 1, "v");
    struct output y = unary(b.g, "Neg", v->read, NULL);
    struct output add = variable_assign_add(v, constant_f32(b.g, 1, NULL), NULL);
    ck_assert_int_eq(bed_try(&b, y), ERR_UNINITIALIZED);
    ck_assert_str_eq(b.err.msg, "Attempting to use uninitialized value v");
    ck_assert_int_eq(bed_try(&b, v->ref), ERR_UNINITIALIZED);
    ck_assert_int_eq(bed_try(&b, add), ERR_UNINITIALIZED);
    bed_target(&b, v->initializer);
    ck_assert_float_eq(bed_scalar(&b, y), -1);
    ck_assert_float_eq(bed_scalar(&b, v->ref), 1);
    ck_assert_float_eq(bed_scalar(&b, add), 2);
    bed_done(&b);
}
END_TEST

START_TEST(reads_come_before_writes)
{
    struct bed b;
    bed_init(&b);
    struct variable *v = bed_variable(&b, 1, "v");
    struct output add = variable_assign_add(v, constant_f32(b.g, 10, NULL), NULL);
    struct output neg = unary(b.g, "Neg", v->read, NULL); /* created after the write */
    bed_init_variables(&b);
    struct output fetches[4] = {add, neg, v->read, v->ref};
    float y[4];
    struct tensor ret[4];
    for (int i = 0; i < 4; i++)
        ret[i] = tensor_view(DT_FLOAT, scalar, &y[i]);
    struct run_args args = {.fetches = fetches, .n_fetches = 4};
    ck_assert_int_eq(session_run(b.s, &args, ret, &b.err), 0);
    ck_assert_float_eq(y[0], 11);
    ck_assert_float_eq(y[1], -1);
    ck_assert_float_eq(y[2], 11); /* fetched memory shows the end of the run */
    ck_assert_float_eq(y[3], 11);
    bed_done(&b);
}
END_TEST

START_TEST(a_control_edge_puts_a_read_after_the_write)
{
    struct bed b;
    bed_init(&b);
    struct variable *v = bed_variable(&b, 1, "v");
    struct output add = variable_assign_add(v, constant_f32(b.g, 10, NULL), NULL);
    control_dependencies_enter(b.g, &add.op, 1);
    struct output after = unary(b.g, "Identity", v->ref, "after");
    /* v/read is v's memory, so it does not matter that v/read itself may run before */
    struct output late = unary(b.g, "Neg", v->read, "late");
    control_dependencies_leave(b.g);
    struct output early = unary(b.g, "Neg", v->read, "early");
    struct output neg = unary(b.g, "Neg", after, NULL);
    bed_init_variables(&b);
    struct output fetches[4] = {neg, late, early, v->read};
    float y[4];
    struct tensor ret[4];
    for (int i = 0; i < 4; i++)
        ret[i] = tensor_view(DT_FLOAT, scalar, &y[i]);
    struct run_args args = {.fetches = fetches, .n_fetches = 4};
    ck_assert_int_eq(session_run(b.s, &args, ret, &b.err), 0);
    ck_assert_float_eq(y[0], -11);
    ck_assert_float_eq(y[1], -11);
    ck_assert_float_eq(y[2], -1);
    ck_assert_float_eq(y[3], 11);
    bed_done(&b);
}
END_TEST

START_TEST(an_assigns_output_is_the_new_value)
{
    struct bed b;
    float x = 3;
    bed_init(&b);
    struct output in = bed_input(&b, scalar, &x, scalar);
    struct variable *v = bed_variable(&b, 1, "v");
    struct output set = variable_assign(v, in, NULL);
    struct output twice = binary(b.g, "Add", set, set, NULL);
    /* a second write, after the first one's output was read */
    struct output again = variable_assign_add(v, constant_f32(b.g, 1, NULL), NULL);
    (void)operation_add_control_input(again.op, set.op);
    struct output fetches[2] = {twice, again};
    float y[2];
    struct tensor ret[2] = {tensor_view(DT_FLOAT, scalar, &y[0]),
                            tensor_view(DT_FLOAT, scalar, &y[1])};
    struct run_args args = bed_args(&b);
    args.fetches = fetches;
    args.n_fetches = 2;
    ck_assert_int_eq(session_run(b.s, &args, ret, &b.err), 0);
    ck_assert_float_eq(y[0], 6);
    ck_assert_float_eq(y[1], 4);
    x = 100; /* the assigned value was copied */
    b.n_feeds = 0;
    ck_assert_float_eq(bed_scalar(&b, v->read), 4);
    bed_done(&b);
}
END_TEST

/* Each Assign would have to come before the other. What uses the variable of the first one
 * does, as it may in TensorFlow, where no order swaps the values. */
START_TEST(assigns_from_each_other_swap_nothing)
{
    struct bed b;
    bed_init(&b);
    struct variable *v = bed_variable(&b, 1, "v"), *w = bed_variable(&b, 2, "w");
    struct operation *sets[2] = {variable_assign(v, w->read, NULL).op,
                                 variable_assign(w, v->read, NULL).op};
    bed_init_variables(&b);
    bed_target(&b, group(b.g, sets, 2, NULL));
    ck_assert_float_eq(bed_scalar(&b, v->read), 1);
    ck_assert_float_eq(bed_scalar(&b, w->read), 1);
    bed_done(&b);
}
END_TEST

START_TEST(control_inputs_run)
{
    struct bed b;
    bed_init(&b);
    struct variable *v = bed_variable(&b, 1, "v");
    struct output add = variable_assign_add(v, constant_f32(b.g, 1, NULL), NULL);
    control_dependencies_enter(b.g, &add.op, 1);
    struct output y = constant_f32(b.g, 5, NULL);
    struct operation *nothing = no_op(b.g, NULL);
    control_dependencies_leave(b.g);
    bed_init_variables(&b);
    ck_assert_float_eq(bed_scalar(&b, y), 5);
    ck_assert_float_eq(bed_scalar(&b, v->read), 2);
    bed_target(&b, nothing);
    ck_assert_float_eq(bed_scalar(&b, v->read), 3);
    bed_done(&b);
}
END_TEST

START_TEST(a_circle_of_control_edges_is_an_error)
{
    struct bed b;
    bed_init(&b);
    struct variable *v = bed_variable(&b, 1, "v");
    bed_init_variables(&b);
    struct output x = constant_f32(b.g, 1, NULL), y = unary(b.g, "Neg", x, "y");
    struct output z = variable_assign(v, y, "z");
    (void)operation_add_control_input(y.op, z.op);
    ck_assert_int_eq(bed_try(&b, z), ERR_ARG);
    bed_done(&b);
}
END_TEST

/* A control edge from an operation without effects does not wait for it, but for the
 * operations that it waits for itself. */
START_TEST(control_edges_lead_to_what_is_done)
{
    struct bed b;
    bed_init(&b);
    struct variable *v = bed_variable(&b, 1, "v");
    bed_init_variables(&b);
    struct output unfed = placeholder(b.g, DT_FLOAT, &SHAPE(2), "unfed");
    struct operation *write = variable_assign(v, constant_f32(b.g, 5, NULL), NULL).op;
    struct operation *looks = unary(b.g, "Neg", constant_f32(b.g, 1, NULL), "looks").op;
    struct operation *gates[] = {group(b.g, &unfed.op, 1, NULL),
                                 group(b.g, &looks, 1, NULL)};
    (void)operation_add_control_input(looks, write);
    for (int i = 0; i < 2; i++) {
        struct output x, copy;
        control_dependencies_enter(b.g, &gates[i], 1);
        x = constant_f32(b.g, 3, NULL);
        copy = unary(b.g, "Identity", v->ref, NULL);
        control_dependencies_leave(b.g);
        ck_assert_float_eq(bed_scalar(&b, x), 3);
        ck_assert_float_eq(bed_scalar(&b, copy), i == 0 ? 1 : 5);
        ck_assert_float_eq(bed_scalar(&b, v->read), i == 0 ? 1 : 5);
    }
    bed_done(&b);
}
END_TEST

/* tf.boolean_mask(x, x > limit) */
static struct output mask_above(struct bed *b, struct output x, struct output limit)
{
    struct output is = binary(b->g, "Greater", x, limit, NULL);
    struct output at = unary(b->g, "Where", is, NULL);
    struct op_builder *o = op_begin(b->g, "Squeeze", NULL);
    op_input(o, at);
    op_attr_ints(o, "squeeze_dims", (int64_t[]){1}, 1);
    at = (struct output){op_finish(o), 0};
    return ternary(b->g, "GatherV2", x, at, constant_i32(b->g, 0, NULL), NULL);
}

START_TEST(shapes_may_follow_from_values)
{
    struct bed b;
    float data[6] = {3, -1, 4, -1, 5, -9}, limits[4] = {0, 3.5f, 100, -100};
    const int n_above[4] = {3, 2, 0, 6};
    bed_init(&b);
    struct variable *limit = bed_variable(&b, 0, "limit");
    struct output x = bed_input(&b, SHAPE(-1), data, SHAPE(6));
    struct output above = mask_above(&b, x, limit->read), d;
    struct output sum =
        reduce(b.g, "Sum", unary(b.g, "Square", above, NULL), NULL, 0, 0, NULL);
    ck_assert_int_eq(graph_gradients(b.g, &sum, 1, &x, 1, NULL, NULL, 0, &d, &b.err), 0);
    bed_init_variables(&b);
    for (int i = 0; i < 8; i++) {
        struct tensor value = tensor_scalar_f32(&limits[i % 4]), t;
        float want = 0;
        ck_assert_int_eq(session_variable_set(b.s, limit, &value, &b.err), 0);
        t = bed_fetch(&b, above);
        ck_assert_int_eq(tensor_elements(&t), n_above[i % 4]);
        for (int k = 0, n = 0; k < 6; k++)
            if (data[k] > limits[i % 4]) {
                ck_assert_float_eq(tensor_f32(&t)[n++], data[k]);
                want += data[k] * data[k];
            }
        tensor_free(&t);
        ck_assert_float_eq(bed_scalar(&b, sum), want);
        t = bed_fetch(&b, d);
        for (int k = 0; k < 6; k++)
            ck_assert_float_eq(tensor_f32(&t)[k],
                               data[k] > limits[i % 4] ? 2 * data[k] : 0);
        tensor_free(&t);
    }
    bed_done(&b);
}
END_TEST

/* A size can be computed from fed values. */
START_TEST(sizes_may_be_computed)
{
    struct bed b;
    float data[3] = {1, 2, 6};
    bed_init(&b);
    struct output x = bed_input(&b, SHAPE(-1), data, SHAPE(3));
    struct output n = cast(b.g, reduce(b.g, "Max", x, NULL, 0, 0, NULL), DT_INT32, NULL);
    struct output up = ternary(b.g, "Range", constant_i32(b.g, 0, NULL), n,
                               constant_i32(b.g, 1, NULL), NULL);
    for (int i = 6; i >= 4; i--) {
        data[2] = (float)i;
        struct tensor t = bed_fetch(&b, up);
        ck_assert_int_eq(tensor_elements(&t), i);
        ck_assert_int_eq(((const int32_t *)t.data)[i - 1], i - 1);
        tensor_free(&t);
    }
    bed_done(&b);
}
END_TEST

/* A size that depends on a write cannot be determined in advance: that would write
 * twice. */
START_TEST(sizes_never_follow_from_writes)
{
    struct bed b;
    bed_init(&b);
    struct variable *v = bed_variable(&b, 1, "v");
    bed_init_variables(&b);
    struct output next = variable_assign_add(v, constant_f32(b.g, 1, NULL), NULL);
    struct output up =
        ternary(b.g, "Range", constant_i32(b.g, 0, NULL), cast(b.g, next, DT_INT32, NULL),
                constant_i32(b.g, 1, NULL), NULL);
    ck_assert_int_eq(bed_try(&b, up), ERR_SHAPE);
    ck_assert_ptr_nonnull(strstr(b.err.msg, "depends on values that only the run knows"));
    ck_assert_float_eq(bed_scalar(&b, v->read), 1);
    bed_done(&b);
}
END_TEST

START_TEST(operations_added_later_are_seen)
{
    struct bed b;
    bed_init(&b);
    struct variable *v = bed_variable(&b, 1, "v");
    bed_init_variables(&b);
    ck_assert_float_eq(bed_scalar(&b, v->read), 1);
    struct variable *w = bed_variable(&b, 2, "w");
    bed_target(&b, w->initializer);
    ck_assert_float_eq(bed_scalar(&b, binary(b.g, "Add", v->read, w->read, NULL)), 3);
    ck_assert_float_eq(bed_scalar(&b, v->read), 1);
    bed_done(&b);
}
END_TEST

START_TEST(sessions_and_graphs_share_nothing)
{
    struct bed a, b;
    struct session *second;
    bed_init(&a);
    bed_init(&b);
    struct variable *v = bed_variable(&a, 1, "v"), *w = bed_variable(&b, 5, "v");
    struct output add = variable_assign_add(v, constant_f32(a.g, 1, NULL), NULL);
    bed_init_variables(&a);
    bed_init_variables(&b);
    ck_assert_int_eq(session_new(&second, a.g, NULL, &a.err), 0);
    ck_assert(!session_variable_initialized(second, v));
    bed_target(&a, add.op);
    struct session *first = a.s;
    a.s = second;
    ck_assert_int_eq(bed_try(&a, v->read), ERR_UNINITIALIZED);
    bed_target(&a, v->initializer);
    ck_assert_float_eq(bed_scalar(&a, v->read), 1);
    a.s = first;
    ck_assert_float_eq(bed_scalar(&a, v->read), 2);
    ck_assert_float_eq(bed_scalar(&b, w->read), 5);
    struct tensor t;
    ck_assert_int_eq(session_variable(b.s, v, &t, &b.err), ERR_ARG);
    session_free(second);
    bed_done(&a);
    bed_done(&b);
}
END_TEST

START_TEST(a_snapshot_brings_everything_back)
{
    struct bed b;
    bed_init(&b);
    struct variable *v = bed_variable(&b, 1, "v"), *w = bed_variable(&b, 1, "w");
    struct output add = variable_assign_add(v, constant_f32(b.g, 1, NULL), NULL);
    bed_target(&b, v->initializer);
    int n = graph_n_operations(b.g);
    void *copy = malloc(session_block_bytes(b.s));
    session_snapshot(b.s, copy);
    bed_target(&b, add.op);
    bed_target(&b, w->initializer);
    session_restore(b.s, copy);
    ck_assert_float_eq(bed_scalar(&b, v->read), 1);
    ck_assert(!session_variable_initialized(b.s, w));
    ck_assert_mem_eq(session_block(b.s), copy, session_block_bytes(b.s));
    ck_assert_int_eq(graph_n_operations(b.g), n);
    free(copy);
    bed_done(&b);
}
END_TEST

START_TEST(draws_depend_on_key_name_and_counter_alone)
{
    struct bed b;
    bed_init(&b);
    b.key = rng_key_make(7, "agent", "stage learn");
    struct output shape = constant_i32s(b.g, (int32_t[]){5}, 1, NULL);
    struct output u = random_uniform(b.g, shape, 0, 1, "u");
    struct output v = random_uniform(b.g, shape, 0, 1, "v");
    struct tensor first = bed_fetch(&b, u), again = bed_fetch(&b, u);
    struct tensor other = bed_fetch(&b, v);
    b.counter = 1;
    struct tensor later = bed_fetch(&b, u);
    ck_assert(tensor_equal(&first, &again));
    ck_assert(!tensor_equal(&first, &other));
    ck_assert(!tensor_equal(&first, &later));
    float want[5];
    rng_uniform_f32(rng_key_derive(b.key, "u/RandomUniform"), 1, 0, want, 5);
    ck_assert_mem_eq(want, later.data, sizeof(want));
    tensor_free(&first);
    tensor_free(&again);
    tensor_free(&other);
    tensor_free(&later);
    bed_done(&b);
}
END_TEST

static void count_call(void *ctx)
{
    ++*(int *)ctx;
}

START_TEST(progress_is_told)
{
    struct bed b;
    int calls = 0;
    bed_init(&b);
    struct variable *v = bed_variable(&b, 1, "v");
    session_set_progress(b.s, count_call, &calls);
    bed_target(&b, v->initializer);
    ck_assert_int_gt(calls, 0);
    bed_done(&b);
}
END_TEST

/* ---- layers, gradients, Adam against plain C ---- */

START_TEST(a_layer_trains)
{
    /* y = leaky(x w + b), loss = mean((y - t)^2); one step of gradient descent by hand */
    struct bed b;
    float x[4] = {1, 2, -3, 4}, t[2] = {1, -1};
    bed_init(&b);
    struct output in = bed_input(&b, SHAPE(-1, 2), x, SHAPE(2, 2));
    struct output want = bed_input(&b, SHAPE(-1, 1), t, SHAPE(2, 1));
    float w0[2] = {0.5f, -0.25f};
    struct tensor w_init = tensor_view(DT_FLOAT, SHAPE(2, 1), w0);
    struct variable *w = variable_new(b.g, constant(b.g, &w_init, NULL), "w", 0);
    float b0[1] = {0.1f};
    struct tensor b_init = tensor_view(DT_FLOAT, SHAPE(1), b0);
    struct variable *bias = variable_new(b.g, constant(b.g, &b_init, NULL), "b", 0);
    struct output y = leaky_relu(
        b.g, bias_add(b.g, matmul(b.g, in, w->read, 0, 0, NULL), bias->read, NULL), 0.2f,
        NULL);
    struct output loss =
        reduce(b.g, "Mean", unary(b.g, "Square", binary(b.g, "Sub", y, want, NULL), NULL),
               NULL, 0, 0, NULL);
    struct output xs[2] = {w->read, bias->read}, grads[2];
    ck_assert_int_eq(graph_gradients(b.g, &loss, 1, xs, 2, NULL, NULL, 0, grads, &b.err),
                     0);
    bed_init_variables(&b);
    /* z = (0.1, -2.4); y = (0.1, -0.48) */
    ck_assert_float_eq_tol(bed_scalar(&b, loss), (0.81f + 0.2704f) / 2, 1e-6f);
    /* dy = y - t = (-0.9, 0.52); dz = (-0.9, 0.104) */
    struct tensor gw = bed_fetch(&b, grads[0]), gb = bed_fetch(&b, grads[1]);
    ck_assert_float_eq_tol(tensor_f32(&gw)[0], -0.9f - 3 * 0.104f, 1e-5f);
    ck_assert_float_eq_tol(tensor_f32(&gw)[1], -1.8f + 4 * 0.104f, 1e-5f);
    ck_assert_float_eq_tol(tensor_f32(&gb)[0], -0.9f + 0.104f, 1e-5f);
    tensor_free(&gw);
    tensor_free(&gb);
    bed_done(&b);
}
END_TEST

struct seen {
    size_t n, which[8];
    float value[8];
};

static void on_tapped(void *ctx, size_t i, const struct tensor *value)
{
    struct seen *seen = ctx;

    seen->which[seen->n] = i;
    seen->value[seen->n++] = tensor_f32(value)[0];
}

/* A tap gets only tensors that a run feeds or computes, and changes neither results nor
 * variables. */
START_TEST(a_tap_sees_what_a_run_computes)
{
    struct bed b;
    float x = 3, y = 5;
    bed_init(&b);
    struct output in = bed_input(&b, scalar, &x, scalar);
    struct output twice = binary(b.g, "Add", in, in, NULL);
    struct output square = unary(b.g, "Square", twice, NULL);
    struct variable *v = bed_variable(&b, 1, "v");
    struct output add = variable_assign_add(v, square, NULL);
    struct output other = unary(b.g, "Neg", square, NULL);
    struct output outputs[] = {other, square, v->read, twice, in};
    struct seen seen = {0};
    struct session_tap tap = {.outputs = outputs, .n = 5, .fn = on_tapped, .ctx = &seen};
    struct run_args args = bed_args(&b);
    bed_init_variables(&b);
    session_set_tap(b.s, &tap);
    args.fetches = &add;
    args.n_fetches = 1;
    struct tensor ret = TENSOR_NONE;
    ck_assert_int_eq(session_run(b.s, &args, &ret, &b.err), 0);
    ck_assert_float_eq(tensor_f32(&ret)[0], 37);
    tensor_free(&ret);
    ck_assert_uint_eq(seen.n, 3);
    ck_assert_uint_eq(seen.which[0], 1);
    ck_assert_float_eq(seen.value[0], 36);
    ck_assert_uint_eq(seen.which[1], 3);
    ck_assert_float_eq(seen.value[1], 6);
    ck_assert_uint_eq(seen.which[2], 4);
    ck_assert_float_eq(seen.value[2], 3);
    /* as a target, with a tensor fed in the middle: nothing before it is computed */
    b.feeds[0] = (struct feed){twice, tensor_scalar_f32(&y)};
    args.n_fetches = 0;
    args.targets = &add.op;
    args.n_targets = 1;
    seen.n = 0;
    ck_assert_int_eq(session_run(b.s, &args, NULL, &b.err), 0);
    ck_assert_uint_eq(seen.n, 2);
    ck_assert_float_eq(seen.value[0], 25);
    ck_assert_float_eq(seen.value[1], 5);
    ck_assert_uint_eq(tap.runs, 2);
    session_set_tap(b.s, NULL);
    ck_assert_float_eq(bed_scalar(&b, v->read), 62);
    ck_assert_uint_eq(seen.n, 2);
    bed_done(&b);
}
END_TEST

/* ---- what a plan may not mix up ---- */

enum { ROWS = 384, WIDE = 7, NARROW = 5 };

static void fill(float *x, int n, int salt)
{
    for (int i = 0; i < n; i++)
        x[i] = (float)((i * 7919 + salt * 104729) % 1000 - 500) / 700.0f;
}

/* A pattern that is longer than a row of the product lies otherwise in each chunk of 128. */
START_TEST(patterns_go_on_from_chunk_to_chunk)
{
    static float x[ROWS * WIDE], w[WIDE * NARROW], b[3 * NARROW];
    struct bed bed;
    struct tensor product, sum;

    fill(x, ROWS * WIDE, 1);
    fill(w, WIDE * NARROW, 2);
    fill(b, 3 * NARROW, 3);
    bed_init(&bed);
    struct output in = bed_input(&bed, SHAPE(-1, WIDE), x, SHAPE(ROWS, WIDE));
    struct output weights = bed_input(&bed, SHAPE(WIDE, NARROW), w, SHAPE(WIDE, NARROW));
    struct output bias = bed_input(&bed, SHAPE(3 * NARROW), b, SHAPE(3 * NARROW));
    struct output y = matmul(bed.g, in, weights, 0, 0, NULL);
    struct output z =
        binary(bed.g, "Add", reshape(bed.g, y, &SHAPE(-1, 3 * NARROW), NULL), bias, NULL);
    product = bed_fetch(&bed, y);
    sum = bed_fetch(&bed, z);
    for (int i = 0; i < ROWS * NARROW; i++)
        ck_assert_float_eq(tensor_f32(&sum)[i],
                           tensor_f32(&product)[i] + b[i % (3 * NARROW)]);
    tensor_free(&product);
    tensor_free(&sum);
    bed_done(&bed);
}
END_TEST

/* A graph network with a residual: a later chunk of A H reads rows of H to which the sum of
 * an earlier chunk must not be written. */
START_TEST(results_do_not_replace_what_later_chunks_read)
{
    enum { N = 300, WIDTH = 16 };
    static float x[N * WIDTH], a[N * N], w[WIDTH * WIDTH];
    struct bed b;
    struct tensor out[3] = {TENSOR_NONE, TENSOR_NONE, TENSOR_NONE};

    fill(x, N * WIDTH, 1);
    fill(a, N * N, 2);
    fill(w, WIDTH * WIDTH, 3);
    bed_init(&b);
    struct output in = bed_input(&b, SHAPE(-1, WIDTH), x, SHAPE(N, WIDTH));
    struct output to = bed_input(&b, SHAPE(N, N), a, SHAPE(N, N));
    struct output weights = bed_input(&b, SHAPE(WIDTH, WIDTH), w, SHAPE(WIDTH, WIDTH));
    struct output h = unary(b.g, "Tanh", matmul(b.g, in, weights, 0, 0, NULL), NULL);
    h = unary(b.g, "Tanh", matmul(b.g, h, weights, 0, 0, NULL), NULL);
    struct output y = matmul(b.g, matmul(b.g, to, h, 0, 0, NULL), weights, 0, 0, NULL);
    struct output sum = binary(b.g, "Add", softmax(b.g, y, NULL), h, NULL);
    struct output both[2] = {sum, h};
    struct run_args args = bed_args(&b);
    args.fetches = both;
    args.n_fetches = 2; /* so H has a place of its own */
    ck_assert_msg(session_run(b.s, &args, out, &b.err) == 0, "%s", b.err.msg);
    out[2] = bed_fetch(&b, sum);
    ck_assert_mem_eq(out[2].data, out[0].data, N * WIDTH * sizeof(float));
    for (int i = 0; i < 3; i++)
        tensor_free(&out[i]);
    bed_done(&b);
}
END_TEST

/* Sums of four million squares, from products in chunks, from a loop and from memory, have the same
 * bits, and are close; in one chain a lane they are off by 2e-5. */
START_TEST(long_sums_are_close_and_the_same)
{
    enum { MANY = 1 << 17, WIDTH = 33 };
    const int64_t rows = test_stride() > 1 ? MANY / 8 : MANY, n = rows * WIDTH;
    float *x = xmalloc(sizeof(*x) * (size_t)n), unit[WIDTH * WIDTH] = {0};
    uint32_t state = 1;
    double want = 0;
    struct bed b;

    for (int64_t i = 0; i < n; i++) {
        state = state * 1664525u + 1013904223u;
        x[i] = (float)(state >> 8) * 0x1p-24f;
        want += (double)x[i] * (double)x[i];
    }
    for (int i = 0; i < WIDTH; i++)
        unit[i * WIDTH + i] = 1;
    bed_init(&b);
    struct output in = bed_input(&b, SHAPE(-1, WIDTH), x, SHAPE(rows, WIDTH));
    struct output one = bed_input(&b, SHAPE(WIDTH, WIDTH), unit, SHAPE(WIDTH, WIDTH));
    struct output squares = unary(b.g, "Square", in, NULL);
    struct output y = unary(b.g, "Square", matmul(b.g, in, one, 0, 0, NULL), NULL);
    struct output both[2] = {reduce(b.g, "Sum", squares, NULL, 0, 0, NULL), squares};
    struct tensor out[2] = {TENSOR_NONE, TENSOR_NONE};
    const float sum = bed_scalar(&b, both[0]);

    ck_assert_double_lt(fabs((double)sum / want - 1), 1e-6);
    ck_assert_float_eq(bed_scalar(&b, reduce(b.g, "Sum", y, NULL, 0, 0, NULL)), sum);
    ck_assert_float_eq(bed_scalar(&b, unary(b.g, "L2Loss", in, NULL)), sum / 2);
    ck_assert_float_eq(bed_scalar(&b, reduce(b.g, "Mean", squares, NULL, 0, 0, NULL)),
                       sum / (float)n);
    ck_assert_float_eq(bed_scalar(&b, reduce(b.g, "EuclideanNorm", in, NULL, 0, 0, NULL)),
                       sqrtf(sum));
    struct run_args args = bed_args(&b);
    args.fetches = both;
    args.n_fetches = 2;
    ck_assert_msg(session_run(b.s, &args, out, &b.err) == 0, "%s", b.err.msg);
    ck_assert_float_eq(tensor_f32(&out[0])[0], sum);
    b.feeds[b.n_feeds++] = (struct feed){squares, out[1]};
    ck_assert_float_eq(bed_scalar(&b, both[0]), sum);
    for (int i = 0; i < 2; i++)
        tensor_free(&out[i]);
    bed_done(&b);
    free(x);
}
END_TEST

/* One side of `x if pred else x`. */
static struct output side(struct graph *g, struct output x, struct output pred, int taken)
{
    return (struct output){binary(g, "Switch", x, pred, NULL).op, taken};
}

/* Three steps of "if the flag is set: clear it, n += 1; else n += 10". A branch that changes
 * the variable that decides is still the only one that runs. */
static void check_flag(struct bed *b, struct variable *flag, struct output pred,
                       struct output cleared)
{
    struct variable *n = bed_variable(b, 0, "n");
    struct output yes = unary(b->g, "Identity", side(b->g, pred, pred, 1), NULL);
    struct output no = unary(b->g, "Identity", side(b->g, pred, pred, 0), NULL);
    struct operation *ops[3];

    control_dependencies_enter(b->g, &yes.op, 1);
    ops[0] = variable_assign(flag, cleared, NULL).op;
    ops[1] = variable_assign_add(n, constant_f32(b->g, 1, NULL), NULL).op;
    control_dependencies_leave(b->g);
    control_dependencies_enter(b->g, &no.op, 1);
    ops[2] = variable_assign_add(n, constant_f32(b->g, 10, NULL), NULL).op;
    control_dependencies_leave(b->g);
    bed_init_variables(b);
    for (int step = 0; step < 3; step++) {
        struct run_args args = bed_args(b);

        args.targets = ops;
        args.n_targets = 3;
        ck_assert_msg(session_run(b->s, &args, NULL, &b->err) == 0, "%s", b->err.msg);
        ck_assert_float_eq(bed_scalar(b, n->read), (float)(1 + 10 * step));
    }
}

START_TEST(a_branch_may_change_what_decides)
{
    struct bed b;
    bed_init(&b);
    struct variable *flag = bed_variable(&b, 1, "flag");
    struct output zero = constant_f32(b.g, 0, NULL);
    check_flag(&b, flag, binary(b.g, "Greater", flag->read, zero, NULL), zero);
    bed_done(&b);
}
END_TEST

/* The same for a bool variable, whose read itself decides. */
START_TEST(a_branch_may_change_the_flag_that_decides)
{
    struct bed b;
    uint8_t on = 1, off = 0;
    const struct tensor set = tensor_view(DT_BOOL, SHAPE_SCALAR, &on);
    const struct tensor clear = tensor_view(DT_BOOL, SHAPE_SCALAR, &off);
    bed_init(&b);
    struct variable *flag = variable_new(b.g, constant(b.g, &set, NULL), "flag", 0);
    check_flag(&b, flag, flag->read, constant(b.g, &clear, NULL));
    bed_done(&b);
}
END_TEST

/* A fed variable can be read; it has no place to write to, and no other one's flag. */
START_TEST(a_fed_variable_is_only_read)
{
    struct bed b;
    float fed = 7;
    bed_init(&b);
    struct variable *a = bed_variable(&b, 1, "a"), *v = bed_variable(&b, 2, "v");
    struct output add = variable_assign_add(v, constant_f32(b.g, 1, NULL), NULL);
    struct output is_set = variable_is_initialized(v, NULL);
    struct output sum = binary(b.g, "Add", v->read, constant_f32(b.g, 1, NULL), NULL);
    struct output assign = variable_assign(v, constant_f32(b.g, 5, NULL), NULL);
    b.feeds[b.n_feeds++] =
        (struct feed){v->ref, tensor_view(DT_FLOAT, SHAPE_SCALAR, &fed)};
    ck_assert_float_eq(bed_scalar(&b, sum), 8);
    ck_assert_int_eq(bed_try(&b, add), ERR_ARG);
    ck_assert_msg(strstr(b.err.msg, "changes or checks the variable v") != NULL, "%s",
                  b.err.msg);
    ck_assert_int_eq(bed_try(&b, assign), ERR_ARG);
    ck_assert_int_eq(bed_try(&b, is_set), ERR_ARG);
    ck_assert_int_eq(bed_try(&b, a->read), ERR_UNINITIALIZED);
    bed_done(&b);
}
END_TEST

/* Feeds decide about shapes, not what the graph has in their place. */
START_TEST(shapes_follow_what_is_fed)
{
    struct bed b;
    int32_t rows = 2, four = 8, sizes[2] = {2, 8};
    float x[16] = {0};
    struct tensor t;
    bed_init(&b);
    struct output in = bed_input(&b, SHAPE(-1), x, SHAPE(16));
    struct output n = placeholder(b.g, DT_INT32, &SHAPE_SCALAR, NULL);
    struct output wide = constant_i32(b.g, 4, NULL), parts[2] = {n, wide};
    struct op_builder *o = op_begin(b.g, "Pack", NULL);

    op_input(o, parts[0]);
    op_input(o, parts[1]);
    struct output pack = {op_finish(o), 0};
    struct output y = binary(b.g, "Reshape", in, pack, NULL);
    b.feeds[b.n_feeds++] = (struct feed){n, tensor_view(DT_INT32, SHAPE_SCALAR, &rows)};
    ck_assert_int_lt(bed_try(&b, y), 0);
    b.feeds[b.n_feeds++] =
        (struct feed){wide, tensor_view(DT_INT32, SHAPE_SCALAR, &four)};
    t = bed_fetch(&b, y);
    ck_assert_msg(shape_equal(&t.shape, &SHAPE(2, 8)), "%s", shape_text(&t.shape));
    tensor_free(&t);
    b.feeds[1] = (struct feed){pack, tensor_view(DT_INT32, SHAPE(2), sizes)};
    b.n_feeds = 2;
    t = bed_fetch(&b, y);
    ck_assert_msg(shape_equal(&t.shape, &SHAPE(2, 8)), "%s", shape_text(&t.shape));
    tensor_free(&t);
    bed_done(&b);
}
END_TEST

/* What is impossible on a branch does not matter while the branch is not taken. */
START_TEST(branches_that_are_not_taken_fail_nothing)
{
    struct bed b;
    float x[6] = {1, 2, 3, 4, 5, 6};
    uint8_t no = 0;
    struct tensor never = tensor_view(DT_BOOL, SHAPE_SCALAR, &no), t;
    bed_init(&b);
    struct output in = bed_input(&b, SHAPE(-1, 3), x, SHAPE(2, 3));
    struct output shape = shape_of(b.g, in, NULL);
    struct output rows = reduce(b.g, "Prod", shape, NULL, 0, 0, NULL);
    struct output pred = binary(b.g, "Equal", rows, constant_i32(b.g, 3, NULL), NULL);
    struct op_builder *o = op_begin(b.g, "Reshape", NULL);

    op_input(o, side(b.g, in, pred, 1));
    op_input(o, constant_i32s(b.g, (const int32_t[]){1, 3}, 2, NULL));
    struct output squeezed = {op_finish(o), 0};
    struct output y = binary(b.g, "Merge", side(b.g, in, pred, 0), squeezed, NULL);
    t = bed_fetch(&b, y);
    ck_assert_int_eq(tensor_elements(&t), 6);
    tensor_free(&t);
    b.feeds[0].value.shape = SHAPE(1, 3);
    t = bed_fetch(&b, y);
    ck_assert_int_eq(tensor_elements(&t), 3);
    tensor_free(&t);
    /* an Assert that fails whenever it runs, on the side that does not */
    struct output open = placeholder(b.g, DT_BOOL, &SHAPE_SCALAR, NULL);
    struct output pivot = unary(b.g, "Identity", side(b.g, open, open, 1), NULL);
    control_dependencies_enter(b.g, &pivot.op, 1);
    o = op_begin(b.g, "Assert", NULL);
    op_input(o, constant(b.g, &never, NULL));
    op_input(o, constant_f32(b.g, 1, NULL));
    struct operation *check = op_finish(o);
    control_dependencies_leave(b.g);
    struct run_args args = bed_args(&b);
    uint8_t taken = 0;
    b.feeds[b.n_feeds++] =
        (struct feed){open, tensor_view(DT_BOOL, SHAPE_SCALAR, &taken)};
    args.n_feeds = b.n_feeds;
    args.targets = &check;
    args.n_targets = 1;
    ck_assert_msg(session_run(b.s, &args, NULL, &b.err) == 0, "%s", b.err.msg);
    taken = 1;
    ck_assert_int_lt(session_run(b.s, &args, NULL, &b.err), 0);
    bed_done(&b);
}
END_TEST

/* A constant index out of range, on a branch. */
START_TEST(a_constant_may_fail_on_a_branch)
{
    struct bed b;
    uint8_t taken = 0;
    bed_init(&b);
    struct output open = placeholder(b.g, DT_BOOL, &SHAPE_SCALAR, NULL);
    struct output pivot = unary(b.g, "Identity", side(b.g, open, open, 1), NULL);
    struct output table = constant_i32s(b.g, (const int32_t[]){1, 2}, 2, NULL);
    control_dependencies_enter(b.g, &pivot.op, 1);
    struct output x = ternary(b.g, "GatherV2", table, constant_i32(b.g, 2, NULL),
                              constant_i32(b.g, 0, NULL), NULL);
    control_dependencies_leave(b.g);
    struct output zero = side(b.g, constant_i32(b.g, 0, NULL), open, 0);
    struct output y = binary(b.g, "Merge", zero, x, NULL);
    b.feeds[b.n_feeds++] =
        (struct feed){open, tensor_view(DT_BOOL, SHAPE_SCALAR, &taken)};
    struct tensor t = bed_fetch(&b, y);
    ck_assert_int_eq(*(const int32_t *)t.data, 0);
    tensor_free(&t);
    taken = 1;
    ck_assert_int_eq(bed_try(&b, y), ERR_ARG);
    ck_assert_msg(strstr(b.err.msg, "index 2 is not in [0, 2)") != NULL, "%s", b.err.msg);
    bed_done(&b);
}
END_TEST

/* A feed replaces the result of a write that is a target; the write is made. */
START_TEST(a_target_whose_result_is_fed_is_executed)
{
    struct bed b;
    float fed = 7;
    bed_init(&b);
    struct variable *v = bed_variable(&b, 2, "v");
    bed_init_variables(&b);
    struct output add = variable_assign_add(v, constant_f32(b.g, 1, NULL), NULL);
    struct output read = binary(b.g, "Mul", add, constant_f32(b.g, 10, NULL), NULL);
    b.feeds[b.n_feeds++] = (struct feed){add, tensor_view(DT_FLOAT, SHAPE_SCALAR, &fed)};
    ck_assert_float_eq(bed_scalar(&b, read), 70);
    b.n_feeds = 0;
    ck_assert_float_eq(bed_scalar(&b, v->read), 2);
    b.feeds[b.n_feeds++] = (struct feed){add, tensor_view(DT_FLOAT, SHAPE_SCALAR, &fed)};
    bed_target(&b, add.op);
    b.n_feeds = 0;
    ck_assert_float_eq(bed_scalar(&b, v->read), 3);
    bed_done(&b);
}
END_TEST

/* A handle is passed on; nothing makes one of another. */
START_TEST(handles_are_no_values)
{
    struct bed b;
    bed_init(&b);
    struct op_builder *o = op_begin(b.g, "VarHandleOp", "v");
    op_attr_type(o, "dtype", DT_FLOAT);
    op_attr_shape(o, "shape", &SHAPE(2));
    struct output handle = {op_finish(o), 0};
    struct operation *zeros = unary(b.g, "ZerosLike", handle, "zeros").op;
    struct run_args args = bed_args(&b);
    args.targets = &zeros;
    args.n_targets = 1;
    ck_assert_msg(zeros != NULL, "%s", graph_error(b.g)->msg);
    ck_assert_int_eq(session_run(b.s, &args, NULL, &b.err), ERR_UNSUPPORTED);
    ck_assert_msg(strstr(b.err.msg, "zeros") != NULL, "%s", b.err.msg);
    bed_done(&b);
}
END_TEST

/* Merge has no shape of its own if those of three inputs differ. */
START_TEST(merges_of_other_shapes_are_refused)
{
    struct bed b;
    float x[2] = {1, 2}, y[5] = {0};
    uint8_t taken = 1;
    bed_init(&b);
    struct output a = bed_input(&b, SHAPE(2), x, SHAPE(2));
    struct output c = bed_input(&b, SHAPE(5), y, SHAPE(5));
    struct output pred = placeholder(b.g, DT_BOOL, &SHAPE_SCALAR, NULL);
    struct op_builder *o = op_begin(b.g, "Merge", NULL);

    op_input(o, side(b.g, a, pred, 1));
    op_input(o, side(b.g, c, pred, 0));
    op_input(o, side(b.g, c, pred, 0));
    struct output merged = {op_finish(o), 0};
    b.feeds[b.n_feeds++] =
        (struct feed){pred, tensor_view(DT_BOOL, SHAPE_SCALAR, &taken)};
    ck_assert_int_eq(bed_try(&b, merged), ERR_SHAPE);
    bed_done(&b);
}
END_TEST

static Suite *make_suite(void)
{
    const TTest *const tests[] = {
        any_tensor_is_fed_and_fetched,
        a_constant_can_be_fed,
        shapes_may_differ_from_run_to_run,
        a_fed_shape_is_used,
        results_go_where_the_caller_says,
        wrong_feeds_are_refused,
        tensors_of_another_graph_are_refused_by_name,
        fetched_values_are_copies,
        draws_depend_on_key_name_and_counter_alone,
        progress_is_told,
        uninitialized_reads_fail,
        reads_come_before_writes,
        a_control_edge_puts_a_read_after_the_write,
        an_assigns_output_is_the_new_value,
        assigns_from_each_other_swap_nothing,
        control_inputs_run,
        a_circle_of_control_edges_is_an_error,
        control_edges_lead_to_what_is_done,
        shapes_may_follow_from_values,
        sizes_may_be_computed,
        sizes_never_follow_from_writes,
        operations_added_later_are_seen,
        sessions_and_graphs_share_nothing,
        a_snapshot_brings_everything_back,
        a_layer_trains,
        a_tap_sees_what_a_run_computes,
        patterns_go_on_from_chunk_to_chunk,
        results_do_not_replace_what_later_chunks_read,
        long_sums_are_close_and_the_same,
        a_branch_may_change_what_decides,
        a_branch_may_change_the_flag_that_decides,
        a_fed_variable_is_only_read,
        shapes_follow_what_is_fed,
        branches_that_are_not_taken_fail_nothing,
        a_constant_may_fail_on_a_branch,
        a_target_whose_result_is_fed_is_executed,
        handles_are_no_values,
        merges_of_other_shapes_are_refused,
    };
    Suite *s = suite_create("session");
    TCase *tc = tcase_create("session");
    for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++)
        tcase_add_test(tc, tests[i]);
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(make_suite)
