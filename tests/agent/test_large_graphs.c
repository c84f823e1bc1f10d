/* Graphs of very many nodes are read, planned, run and written in time proportional to
 * their size. The processor time is compared with that for a quarter of the nodes: a
 * quadratic algorithm takes sixteen times as long. */
#include "agent/graph/graph.h"
#include "agent/saver/metagraph_export.h"
#include "agent/saver/metagraph_import.h"
#include "agent/session/session.h"
#include "common/ckpt/protowire.h"
#include "common/mem/xmalloc.h"
#include "tests/support/test_main.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#ifdef __SANITIZE_ADDRESS__ /* each allocation takes longer */
enum { FEW = 5000 };
#else
enum { FEW = 16000 };
#endif
enum { MANY = 4 * FEW, MOST_INPUTS = 60000, TRIES = 3 };
#define GENEROUS 10.0 /* largest accepted ratio of the times */

/* ---- NodeDefs ---- */

static struct wbuf bytes;

static void put_type_attr(const char *key, enum dtype type)
{
    const size_t attr = pw_begin(&bytes, 5);
    size_t value;

    pw_put_text(&bytes, 1, key);
    value = pw_begin(&bytes, 2);
    pw_put_varint(&bytes, 6, type);
    pw_end(&bytes, value);
    pw_end(&bytes, attr);
}

static void put_shape_attr(void)
{
    const size_t attr = pw_begin(&bytes, 5);
    size_t value;

    pw_put_text(&bytes, 1, "shape");
    value = pw_begin(&bytes, 2);
    pw_put_bytes(&bytes, 7, "", 0);
    pw_end(&bytes, value);
    pw_end(&bytes, attr);
}

static void put_value_attr(float x)
{
    const size_t attr = pw_begin(&bytes, 5);
    size_t value, tensor;

    pw_put_text(&bytes, 1, "value");
    value = pw_begin(&bytes, 2);
    tensor = pw_begin(&bytes, 8);
    pw_put_varint(&bytes, 1, DT_FLOAT);
    pw_put_bytes(&bytes, 2, "", 0);
    pw_put_bytes(&bytes, 5, &x, sizeof(x));
    pw_end(&bytes, tensor);
    pw_end(&bytes, value);
    pw_end(&bytes, attr);
}

static size_t begin_node(const char *name, int number, const char *op)
{
    const size_t node = pw_begin(&bytes, 1);
    char text[64];

    (void)snprintf(text, sizeof(text), number < 0 ? "%s" : "%s%d", name, number);
    pw_put_text(&bytes, 1, text);
    pw_put_text(&bytes, 2, op);
    return node;
}

static void put_input(const char *name, int number)
{
    char text[64];

    (void)snprintf(text, sizeof(text), number < 0 ? "%s" : "%s%d", name, number);
    pw_put_text(&bytes, 3, text);
}

static void put_const(const char *name, int number, float x)
{
    const size_t node = begin_node(name, number, "Const");

    put_type_attr("dtype", DT_FLOAT);
    put_value_attr(x);
    pw_end(&bytes, node);
}

static void put_x(void)
{
    const size_t node = begin_node("x", -1, "Placeholder");

    put_type_attr("dtype", DT_FLOAT);
    put_shape_attr();
    pw_end(&bytes, node);
}

static void put_unary(const char *op, const char *name, int number, const char *input,
                      int of)
{
    const size_t node = begin_node(name, number, op);

    put_input(input, of);
    put_type_attr("T", DT_FLOAT);
    pw_end(&bytes, node);
}

/* ---- the graphs: the node `end` is run ---- */

static void constants(int n)
{
    put_const("x", -1, 1);
    for (int i = 0; i < n; i++)
        put_unary("Neg", "n", i, i == 0 ? "x" : "n", i - 1);
    put_unary("Neg", "end", -1, "n", n - 1);
}

static void chain(int n)
{
    put_x();
    for (int i = 0; i < n; i++)
        put_unary(i % 30 == 0 ? "L2Loss" : "Neg", "n", i, i == 0 ? "x" : "n", i - 1);
    put_unary("Neg", "end", -1, "n", n - 1);
}

/* Every value is alive until all have been computed. */
static void wide(int n)
{
    size_t node;

    put_x();
    for (int i = 0; i < n; i++)
        put_unary("Neg", "a", i, i == 0 ? "x" : "a", i - 1);
    for (int i = 0; i < n; i++)
        put_unary("Tanh", "n", i, "a", i);
    node = begin_node("end", -1, "AddN");
    for (int i = 0; i < n && i < MOST_INPUTS; i++)
        put_input("n", i);
    put_type_attr("T", DT_FLOAT);
    {
        const size_t attr = pw_begin(&bytes, 5);
        size_t value;

        pw_put_text(&bytes, 1, "N");
        value = pw_begin(&bytes, 2);
        pw_put_varint(&bytes, 3, (uint64_t)(n < MOST_INPUTS ? n : MOST_INPUTS));
        pw_end(&bytes, value);
        pw_end(&bytes, attr);
    }
    pw_end(&bytes, node);
}

/* One node waits for all; each of them waits for the one created after it, and the last
 * one waits for a write. */
static void control(int n)
{
    size_t node = begin_node("v", -1, "VariableV2");

    put_type_attr("dtype", DT_FLOAT);
    put_shape_attr();
    pw_end(&bytes, node);
    put_const("one", -1, 1);
    for (int i = 0; i < n; i++) {
        node = begin_node("n", i, "NoOp");
        put_input(i + 1 < n ? "^n" : "^write", i + 1 < n ? i + 1 : -1);
        pw_end(&bytes, node);
    }
    node = begin_node("write", -1, "Assign");
    put_input("v", -1);
    put_input("one", -1);
    put_type_attr("T", DT_FLOAT);
    pw_end(&bytes, node);
    node = begin_node("end", -1, "NoOp");
    for (int i = 0; i < n && i < MOST_INPUTS; i++)
        put_input("^n", i);
    pw_end(&bytes, node);
}

/* Each variable is read, then written. */
static void variables(int n)
{
    size_t node;

    put_const("one", -1, 1);
    for (int i = 0; i < n / 4; i++) {
        node = begin_node("v", i, "VariableV2");
        put_type_attr("dtype", DT_FLOAT);
        put_shape_attr();
        pw_end(&bytes, node);
        put_unary("Identity", "read", i, "v", i);
        node = begin_node("init", i, "Assign");
        put_input("v", i);
        put_input("one", -1);
        put_type_attr("T", DT_FLOAT);
        pw_end(&bytes, node);
        node = begin_node("add", i, "AssignAdd");
        put_input("v", i);
        put_input("one", -1);
        put_type_attr("T", DT_FLOAT);
        pw_end(&bytes, node);
    }
    node = begin_node("end", -1, "NoOp");
    for (int i = 0; i < n / 4; i++)
        put_input("^init", i);
    pw_end(&bytes, node);
}

static const struct {
    const char *name;
    void (*nodes)(int n);
    int has_x;
} kinds[] = {{"constants", constants, 0},
             {"chain", chain, 1},
             {"wide", wide, 1},
             {"control", control, 0},
             {"variables", variables, 0}};
enum { N_KINDS = sizeof(kinds) / sizeof(kinds[0]) };

/* n definitions of ops, and n collections. */
static void put_extras(int n)
{
    char name[32];
    size_t info = pw_begin(&bytes, 1), ops = pw_begin(&bytes, 2);

    for (int i = 0; i < n; i++) {
        const size_t op = pw_begin(&bytes, 1);

        (void)snprintf(name, sizeof(name), "Op%d", i);
        pw_put_text(&bytes, 1, name);
        pw_end(&bytes, op);
    }
    pw_end(&bytes, ops);
    pw_end(&bytes, info);
    for (int i = 0; i < n; i++) {
        const size_t entry = pw_begin(&bytes, 4);
        size_t value, list;

        (void)snprintf(name, sizeof(name), "collection%d", i);
        pw_put_text(&bytes, 1, name);
        value = pw_begin(&bytes, 2);
        list = pw_begin(&bytes, 1);
        pw_put_text(&bytes, 1, "end");
        pw_end(&bytes, list);
        pw_end(&bytes, value);
        pw_end(&bytes, entry);
    }
}

/* ---- the time ---- */

static double processor_s(void)
{
    struct timespec t;

    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void run(struct session *s, int has_x)
{
    struct graph *g = session_graph(s);
    struct operation *end = graph_operation(g, "end");
    const float one = 1;
    struct feed x = {.value = tensor_scalar_f32(&one)};
    struct output fetch = {end, 0};
    const int fetches = operation_n_outputs(end) > 0;
    const struct run_args args = {.feeds = &x,
                                  .n_feeds = (size_t)has_x,
                                  .fetches = &fetch,
                                  .n_fetches = (size_t)fetches,
                                  .targets = &end,
                                  .n_targets = (size_t)!fetches};
    struct tensor value = {0};
    struct err err;

    if (has_x)
        x.output = (struct output){graph_operation(g, "x"), 0};
    ck_assert_msg(session_run(s, &args, &value, &err) == 0, "%s", err.msg);
    tensor_free(&value);
}

static double time_of(int kind, int n)
{
    struct session_options o = {0};
    struct session *s;
    struct graph *g = graph_new();
    struct wbuf out = {0};
    struct err err;
    size_t graph;
    double began;

    wbuf_clear(&bytes);
    graph = pw_begin(&bytes, 2);
    kinds[kind].nodes(n);
    pw_end(&bytes, graph);
    put_extras(n / 4);
    began = processor_s();
    ck_assert_msg(metagraph_import(g, bytes.data, bytes.len, NULL, NULL, &err) == 0, "%s",
                  err.msg);
    ck_assert_msg(session_new(&s, g, &o, &err) == 0, "%s", err.msg);
    run(s, kinds[kind].has_x);
    metagraph_export(&out, g, NULL, NULL);
    began = processor_s() - began;
    session_free(s);
    graph_free(g);
    wbuf_done(&out);
    return began;
}

START_TEST(time_grows_as_the_graph)
{
    double ratio = 0;

    /* a busy machine makes some tries slow, a quadratic algorithm all of them */
    for (int i = 0; i < TRIES; i++) {
        const double few = time_of(_i, FEW), many = time_of(_i, MANY);

        ratio = i == 0 || many / few < ratio ? many / few : ratio;
        if (ratio < GENEROUS)
            break;
    }
    wbuf_done(&bytes);
    ck_assert_msg(ratio < GENEROUS, "%s: four times the nodes take %.1f times as long",
                  kinds[_i].name, ratio);
}
END_TEST

/* ---- limits: the message says what is too much ---- */

START_TEST(too_many_nodes_are_told)
{
    struct graph *g = graph_new();
    struct err err;
    size_t graph = pw_begin(&bytes, 2);

    for (int i = 0; i <= METAGRAPH_MAX_NODES; i++)
        pw_put_bytes(&bytes, 1, "", 0);
    pw_end(&bytes, graph);
    ck_assert_int_eq(metagraph_import(g, bytes.data, bytes.len, NULL, NULL, &err),
                     ERR_LIMIT);
    ck_assert_msg(strstr(err.msg, "1048577 nodes; at most 1048576") != NULL, "%s",
                  err.msg);
    graph_free(g);
    wbuf_done(&bytes);
}
END_TEST

static void put_variable(const char *name, int64_t a, int64_t b)
{
    size_t node = begin_node(name, -1, "VariableV2"), attr, value, shape, dim;

    put_type_attr("dtype", DT_FLOAT);
    attr = pw_begin(&bytes, 5);
    pw_put_text(&bytes, 1, "shape");
    value = pw_begin(&bytes, 2);
    shape = pw_begin(&bytes, 7);
    for (int i = 0; i < 2; i++) {
        dim = pw_begin(&bytes, 2);
        pw_put_varint(&bytes, 1, (uint64_t)(i == 0 ? a : b));
        pw_end(&bytes, dim);
    }
    pw_end(&bytes, shape);
    pw_end(&bytes, value);
    pw_end(&bytes, attr);
    pw_end(&bytes, node);
}

static const struct {
    int64_t a, b;
    const char *says;
} giants[] = {
    /* 2^62 floats, 2^64 bytes; with the small one, 64 bytes for each and for the head */
    {(int64_t)1 << 31, (int64_t)1 << 31,
     "need 18446744073709551808 bytes (w, (2147483648, 2147483648), alone "
     "18446744073709551616)"},
    {(int64_t)1 << 32, (int64_t)1 << 31,
     "variable w: (4294967296, 2147483648) has 2^63 elements or more"},
};

START_TEST(giant_variables_are_told_in_full)
{
    struct session_options o = {0};
    struct session *s;
    struct graph *g = graph_new();
    struct err err;
    size_t graph = pw_begin(&bytes, 2);

    put_variable("small", 1, 1);
    put_variable("w", giants[_i].a, giants[_i].b);
    pw_end(&bytes, graph);
    ck_assert_msg(metagraph_import(g, bytes.data, bytes.len, NULL, NULL, &err) == 0, "%s",
                  err.msg);
    ck_assert_int_eq(session_new(&s, g, &o, &err), ERR_LIMIT);
    ck_assert_msg(strstr(err.msg, giants[_i].says) != NULL, "%s", err.msg);
    graph_free(g);
    wbuf_done(&bytes);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *s = suite_create("large_graphs");
    TCase *tc = tcase_create("large_graphs");

    tcase_set_timeout(tc, 240);
    tcase_add_loop_test(tc, time_grows_as_the_graph, 0, N_KINDS);
    tcase_add_test(tc, too_many_nodes_are_told);
    tcase_add_loop_test(tc, giant_variables_are_told_in_full, 0,
                        sizeof(giants) / sizeof(giants[0]));
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(make_suite)
