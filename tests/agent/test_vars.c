#include "agent/vars/var_store.h"
#include "tests/agent/session_help.h"
#include "tests/support/test_main.h"

static struct output variable_op(struct graph *g, enum dtype dtype, struct shape shape,
                                 const char *name)
{
    struct op_builder *b = op_begin(g, "VariableV2", name);
    op_attr_type(b, "dtype", dtype);
    op_attr_shape(b, "shape", &shape);
    return (struct output){op_finish(b), 0};
}

/* Three variables whose sizes are no multiples of 64 bytes. */
static struct graph *three(void)
{
    struct graph *g = graph_new();
    (void)variable_op(g, DT_FLOAT, SHAPE(3, 5), "a");
    (void)variable_op(g, DT_BOOL, SHAPE_SCALAR, "b");
    (void)variable_op(g, DT_INT64, SHAPE(20), "c");
    return g;
}

static struct var_store *open_store(struct graph *g, void *block, size_t capacity,
                                    int state)
{
    const struct device_memory own = {
        .block = block, .capacity = capacity, .holds_state = state};
    struct var_store *s = NULL;
    struct err err = {0};
    ck_assert_msg(var_store_new(&s, g, &own, NULL, 0, &err) == 0, "%s", err.msg);
    return s;
}

static int refused(struct graph *g, void *block, size_t capacity)
{
    const struct device_memory own = {.block = block, .capacity = capacity};
    struct var_store *s;
    struct err err;
    return var_store_new(&s, g, &own, NULL, 0, &err);
}

START_TEST(values_lie_in_order_and_aligned)
{
    struct graph *g = three();
    struct var_store *s = open_store(g, NULL, 0, 0);
    const struct var_header *h = var_store_block(s);
    ck_assert_uint_eq((uintptr_t)h % 64, 0);
    ck_assert_uint_eq(h->magic, VAR_MAGIC);
    ck_assert_uint_eq(h->n_variables, 3);
    ck_assert_uint_eq(h->size_bytes, var_store_bytes(s));
    /* header 64, flags 3, 60 bytes, 1 byte, 160 bytes */
    ck_assert_uint_eq(var_store_offset(s, 0), 128);
    ck_assert_uint_eq(var_store_offset(s, 1), 192);
    ck_assert_uint_eq(var_store_offset(s, 2), 256);
    ck_assert_uint_eq(var_store_bytes(s), 448);
    ck_assert_str_eq(var_store_name(s, 2), "c");
    struct tensor t = var_store_value(s, 2);
    ck_assert_int_eq(t.dtype, DT_INT64);
    ck_assert_ptr_eq(t.data, (char *)var_store_block(s) + 256);
    for (int i = 0; i < 3; i++)
        ck_assert(!var_store_initialized(s, i));
    var_store_set_initialized(s, 1);
    ck_assert_uint_eq(((const unsigned char *)var_store_block(s))[64 + 1], 1);
    var_store_free(s);
    graph_free(g);
}
END_TEST

START_TEST(growing_keeps_values_and_flags)
{
    struct graph *g = three();
    struct var_store *s = open_store(g, NULL, 0, 0);
    struct err err;
    struct tensor t = var_store_value(s, 0);
    tensor_f32(&t)[14] = 2.5f;
    var_store_set_initialized(s, 0);
    /* the flags no longer fit into their place */
    for (int i = 0; i < 100; i++)
        (void)variable_op(g, DT_FLOAT, SHAPE(i), NULL);
    unsigned moves = var_store_moves(s);
    ck_assert_int_eq(var_store_place(s, &err), 0);
    ck_assert_uint_gt(var_store_moves(s), moves);
    t = var_store_value(s, 0);
    ck_assert_float_eq(tensor_f32(&t)[14], 2.5f);
    ck_assert(var_store_initialized(s, 0));
    ck_assert(!var_store_initialized(s, 1));
    moves = var_store_moves(s);
    (void)constant_f32(g, 1, NULL); /* not a variable */
    ck_assert_int_eq(var_store_place(s, &err), 0);
    ck_assert_uint_eq(var_store_moves(s), moves);
    var_store_free(s);
    graph_free(g);
}
END_TEST

START_TEST(a_given_block_has_its_size)
{
    _Alignas(64) char block[512];
    struct graph *g = three();
    struct var_store *s;
    struct err err;
    ck_assert_int_eq(refused(g, block, 447), ERR_LIMIT);
    ck_assert_int_eq(refused(g, block + 4, 500), ERR_ARG);
    s = open_store(g, block, sizeof(block), 0);
    ck_assert_ptr_eq(var_store_block(s), block);
    /* a variable that does not fit has no place, also at the second try */
    struct output d = variable_op(g, DT_FLOAT, SHAPE(100), "d");
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(var_store_place(s, &err), ERR_LIMIT);
        ck_assert_int_eq(var_store_find(s, d.op), -1);
        ck_assert_uint_eq(var_store_bytes(s), 448);
    }
    var_store_free(s);
    graph_free(g);
}
END_TEST

START_TEST(sizes_that_overflow_are_refused)
{
    struct graph *g = graph_new();
    (void)variable_op(g, DT_DOUBLE, SHAPE(INT64_MAX / 4), "huge");
    ck_assert_int_eq(refused(g, NULL, 0), ERR_LIMIT);
    graph_free(g);
    g = graph_new();
    (void)variable_op(g, DT_RESOURCE, SHAPE(2), "handles");
    ck_assert_int_eq(refused(g, NULL, 0), ERR_UNSUPPORTED);
    graph_free(g);
}
END_TEST

/* a and c on the first of two parameter servers, b on the second, own on none. */
static struct graph *spread(void)
{
    struct graph *g = graph_new();
    replica_device_enter(g, 2, NULL);
    (void)variable_op(g, DT_FLOAT, SHAPE(2), "a");
    (void)variable_op(g, DT_FLOAT, SHAPE(2), "b");
    (void)variable_op(g, DT_FLOAT, SHAPE(2), "c");
    device_leave(g);
    (void)variable_op(g, DT_FLOAT, SHAPE(2), "own");
    return g;
}

START_TEST(variables_of_a_device_are_in_its_memory)
{
    _Alignas(64) char first[512] = {0}, second[512] = {0};
    struct device_memory devices[] = {{"/job:ps/task:0", first, sizeof(first), 0},
                                      {"/job:ps/task:1", second, sizeof(second), 0}};
    const struct device_memory none = {0};
    struct graph *g = spread(), *other = spread();
    struct var_store *s, *t;
    struct err err;
    ck_assert_int_eq(var_store_new(&s, g, &none, devices, 2, &err), 0);
    const struct tensor a = var_store_value(s, 0), b = var_store_value(s, 1),
                        c = var_store_value(s, 2), own = var_store_value(s, 3);
    ck_assert_ptr_eq(a.data, first + 128);
    ck_assert_ptr_eq(c.data, first + 192);
    ck_assert_ptr_eq(b.data, second + 128);
    ck_assert_ptr_eq(own.data, (char *)var_store_block(s) + 128);
    ck_assert(!var_store_adjacent(s, 0));
    var_store_set_initialized(s, 2);
    ck_assert_int_eq(first[65], 1);
    ck_assert_int_eq(second[64], 0);

    /* another store shares the variables on devices, and has its own memory for the
     * others */
    devices[0].holds_state = devices[1].holds_state = 1;
    ck_assert_int_eq(var_store_new(&t, other, &none, devices, 2, &err), 0);
    ck_assert(var_store_initialized(t, 2));
    ck_assert_ptr_eq(var_store_value(t, 2).data, c.data);
    ck_assert_ptr_ne(var_store_value(t, 3).data, own.data);

    /* a variable added later is refused on a device, but fits into the store's own
     * memory */
    (void)variable_op(other, DT_FLOAT, SHAPE(2), "late");
    ck_assert_int_eq(var_store_place(t, &err), 0);
    device_enter(other, "/job:ps/task:1/device:CPU:0");
    (void)variable_op(other, DT_FLOAT, SHAPE(2), "too_late");
    ck_assert_int_eq(var_store_place(t, &err), ERR_STATE);
    ck_assert_ptr_nonnull(strstr(err.msg, "too_late"));
    ck_assert(var_store_initialized(t, 2));
    var_store_free(t);

    /* device memory of other variables, or too little of it */
    ck_assert_int_eq(var_store_new(&t, other, &none, devices, 2, &err), ERR_STATE);
    ck_assert_ptr_nonnull(strstr(err.msg, "/job:ps/task:1"));
    devices[1].capacity = 64;
    ck_assert_int_eq(var_store_new(&t, g, &none, devices, 2, &err), ERR_LIMIT);
    ck_assert_int_eq(
        var_store_new(&t, g, &none, devices, VAR_STORE_MAX_DEVICES + 1, &err), ERR_LIMIT);
    var_store_free(s);
    graph_free(g);
    graph_free(other);
}
END_TEST

START_TEST(a_state_is_taken_over_by_its_own_graph_only)
{
    _Alignas(64) char block[512];
    struct graph *g = three(), *other = graph_new();
    struct err err;
    struct var_store *s = open_store(g, block, sizeof(block), 0);
    struct tensor t = var_store_value(s, 2);
    ((int64_t *)t.data)[19] = 7;
    var_store_set_initialized(s, 2);
    var_store_free(s);
    graph_free(g);
    g = three();
    s = open_store(g, block, sizeof(block), 1);
    t = var_store_value(s, 2);
    ck_assert_int_eq(((int64_t *)t.data)[19], 7);
    ck_assert(var_store_initialized(s, 2));
    var_store_free(s);
    /* the store is opened before the graph has variables, and then they differ */
    s = open_store(other, block, sizeof(block), 1);
    (void)variable_op(other, DT_FLOAT, SHAPE(3, 5), "a");
    ck_assert_int_eq(var_store_place(s, &err), ERR_STATE);
    ck_assert_int_eq(var_store_place(s, &err), ERR_STATE);
    (void)variable_op(other, DT_BOOL, SHAPE_SCALAR, "b");
    (void)variable_op(other, DT_INT64, SHAPE(20), "c");
    ck_assert_int_eq(var_store_place(s, &err), 0);
    ck_assert(var_store_initialized(s, 2));
    var_store_free(s);
    graph_free(g);
    graph_free(other);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *s = suite_create("vars");
    TCase *tc = tcase_create("vars");
    tcase_add_test(tc, values_lie_in_order_and_aligned);
    tcase_add_test(tc, growing_keeps_values_and_flags);
    tcase_add_test(tc, a_given_block_has_its_size);
    tcase_add_test(tc, sizes_that_overflow_are_refused);
    tcase_add_test(tc, variables_of_a_device_are_in_its_memory);
    tcase_add_test(tc, a_state_is_taken_over_by_its_own_graph_only);
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(make_suite)
