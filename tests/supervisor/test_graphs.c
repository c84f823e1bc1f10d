/* Constants of a MetaGraphDef get the values in the agent's block. */
#include "common/ckpt/protowire.h"
#include "common/mem/xmalloc.h"
#include "common/msg/protocol.h"
#include "supervisor/save/graphs.h"
#include "tests/support/test_main.h"

#include <stdlib.h>
#include <string.h>

static struct err err;

static struct block_variable variables[] = {
    {.name = (char *)(uintptr_t) "a/rate", .dtype = DT_FLOAT, .offset = 4},
    {.name = (char *)(uintptr_t) "a/to", .dtype = DT_FLOAT, .offset = 8},
    {.name = (char *)(uintptr_t) "a/over", .dtype = DT_FLOAT, .offset = 12},
    {.name = (char *)(uintptr_t) "a/wide",
     .dtype = DT_FLOAT,
     .shape = {.rank = 1, .dim = {2}},
     .offset = 0},
};
static const struct block_table table = {4, variables};

/* NodeDef with attr { value: { tensor: { dtype, shape {}, float_val: [x] } } } */
static void put_const(struct wbuf *b, const char *name, float x)
{
    const size_t node = pw_begin(b, 1);
    size_t attr, value, tensor;

    pw_put_text(b, 1, name);
    pw_put_text(b, 2, "Const");
    attr = pw_begin(b, 5);
    pw_put_text(b, 1, "dtype");
    value = pw_begin(b, 2);
    pw_put_varint(b, 6, DT_FLOAT);
    pw_end(b, value);
    pw_end(b, attr);
    attr = pw_begin(b, 5);
    pw_put_text(b, 1, "value");
    value = pw_begin(b, 2);
    tensor = pw_begin(b, 8);
    pw_put_varint(b, 1, DT_FLOAT);
    pw_put_bytes(b, 2, "", 0);
    pw_put_bytes(b, 5, &x, sizeof(x));
    pw_end(b, tensor);
    pw_end(b, value);
    pw_end(b, attr);
    pw_end(b, node);
}

/* Two constants, an operation, and a collection with one line. */
static struct wbuf make_graph(const char *line, float rate)
{
    struct wbuf b = {0};
    size_t graph = pw_begin(&b, 2), node, entry, value, list;

    put_const(&b, "a/other", 7);
    put_const(&b, "a/Adam/learning_rate", rate);
    node = pw_begin(&b, 1);
    pw_put_text(&b, 1, "a/op");
    pw_put_text(&b, 2, "NoOp");
    pw_end(&b, node);
    pw_end(&b, graph);
    entry = pw_begin(&b, 4);
    pw_put_text(&b, 1, SETTING_CONSTANTS);
    value = pw_begin(&b, 2);
    list = pw_begin(&b, 2);
    if (line != NULL)
        pw_put_text(&b, 1, line);
    pw_end(&b, list);
    pw_end(&b, value);
    pw_end(&b, entry);
    return b;
}

static void check_written_at(const char *line, const float *block, uint64_t step,
                             float expected)
{
    struct wbuf got = make_graph(line, 3), want = make_graph(line, expected);

    ck_assert_msg(graphs_write_settings(got.data, got.len, &table, block, step, &err) ==
                      0,
                  "%s", err.msg);
    ck_assert_uint_eq(got.len, want.len);
    ck_assert_mem_eq(got.data, want.data, want.len);
    wbuf_done(&got);
    wbuf_done(&want);
}

static void check_written(const char *line, float in_block, float expected)
{
    const float block[] = {0, in_block};

    check_written_at(line, block, 0, expected);
}

START_TEST(a_constant_holds_what_is_in_force)
{
    check_written("a/Adam/learning_rate a/rate 0x0p+0", 0.25f, 0.25f);
    check_written("a/Adam/learning_rate a/rate 0x0p+0", 0, 0);
}
END_TEST

START_TEST(none_is_the_number_that_stands_for_it)
{
    check_written("a/Adam/learning_rate a/rate 0x1p+64", 0, 0x1p64f);
    check_written("a/Adam/learning_rate a/rate 0x1p+64", 0.5f, 0.5f);
}
END_TEST

/* Variables a/rate, a/to, a/over: from 0.5 to 0.25 over 100 steps. */
START_TEST(a_schedule_has_the_value_of_the_step)
{
    static const char line[] = "a/Adam/learning_rate a/rate 0x0p+0 a/to a/over";
    static const float block[] = {0, 0.5f, 0.25f, 100}, constant[] = {0, 0.5f, 0, 0};
    static const struct {
        uint64_t step;
        float value;
    } at[] = {{0, 0.5f}, {50, 0.375f}, {100, 0.25f}, {5000000000, 0.25f}};

    for (size_t i = 0; i < sizeof(at) / sizeof(at[0]); i++) {
        check_written_at(line, block, at[i].step, at[i].value);
        check_written_at(line, constant, at[i].step, 0.5f);
    }
}
END_TEST

START_TEST(a_graph_without_settings_stays)
{
    static const float block[] = {0, 5};

    ck_assert_int_eq(graphs_write_settings(NULL, 0, &table, block, 0, &err), 0);
    check_written(NULL, 5, 3);
}
END_TEST

static const struct {
    const char *line, *says;
} bad[] = {
    {"a/Adam/learning_rate", "'a/Adam/learning_rate'"},
    {"a/none a/rate 0x0p+0", "there is no node a/none"},
    {"a/op a/rate 0x0p+0", "a/op is no constant"},
    {"a/Adam/learning_rate a/none 0x0p+0", "there is no variable a/none"},
    {"a/Adam/learning_rate a/wide 0x0p+0", "a/wide is no float32 scalar"},
    {"a/Adam/learning_rate a/rate 0x0p+0 a/none a/over", "there is no variable a/none"},
};

START_TEST(what_does_not_fit_is_told)
{
    static const float block[] = {0, 5};
    struct wbuf b = make_graph(bad[_i].line, 3);

    ck_assert_int_eq(graphs_write_settings(b.data, b.len, &table, block, 0, &err),
                     ERR_PROTOCOL);
    ck_assert_msg(strstr(err.msg, bad[_i].says) != NULL, "%s", err.msg);
    wbuf_done(&b);
}
END_TEST

/* A graph that is cut off anywhere is an error, or has no settings. */
START_TEST(a_part_of_a_graph_is_no_trouble)
{
    static const float block[] = {0, 5};
    struct wbuf b = make_graph("a/Adam/learning_rate a/rate 0x0p+0", 3);

    for (size_t n = 0; n < b.len; n++) {
        uint8_t *part = xmalloc(n + 1);
        int rc;

        memcpy(part, b.data, n);
        rc = graphs_write_settings(part, n, &table, block, 0, &err);
        ck_assert(rc == 0 || rc == ERR_PROTOCOL);
        free(part);
    }
    wbuf_done(&b);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *s = suite_create("graphs");
    TCase *tc = tcase_create("graphs");

    tcase_add_test(tc, a_constant_holds_what_is_in_force);
    tcase_add_test(tc, none_is_the_number_that_stands_for_it);
    tcase_add_test(tc, a_schedule_has_the_value_of_the_step);
    tcase_add_test(tc, a_graph_without_settings_stays);
    tcase_add_loop_test(tc, what_does_not_fit_is_told, 0, sizeof(bad) / sizeof(bad[0]));
    tcase_add_test(tc, a_part_of_a_graph_is_no_trouble);
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(make_suite)
