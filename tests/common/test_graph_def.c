#include "common/ckpt/graph_def.h"
#include "common/ckpt/protowire.h"
#include "tests/support/test_main.h"

#include <stdlib.h>
#include <string.h>

/* Puts attribute `name`, whose value is field `number`, and returns where to end it. */
struct open_attr {
    size_t entry, value;
};

static struct open_attr begin_attr(struct wbuf *b, const char *name)
{
    struct open_attr a = {.entry = pw_begin(b, 5)};

    pw_put_text(b, 1, name);
    a.value = pw_begin(b, 2);
    return a;
}

static void end_attr(struct wbuf *b, struct open_attr a)
{
    pw_end(b, a.value);
    pw_end(b, a.entry);
}

static size_t begin_node(struct wbuf *b, const char *name, const char *op)
{
    const size_t m = pw_begin(b, 1);

    pw_put_text(b, 1, name);
    pw_put_text(b, 2, op);
    return m;
}

/* c: a Const [2, 2] whose values are 1, 2 and that again; x: an op of c with attributes; the
 * collections "named" (x:0) and "numbers" (7, -1). */
static void put_metagraph(struct wbuf *b)
{
    const size_t graph = pw_begin(b, 2);
    size_t m = begin_node(b, "c", "Const"), n, k;
    struct open_attr a = begin_attr(b, "value");

    n = pw_begin(b, 8);
    pw_put_varint(b, 1, DT_FLOAT);
    k = pw_begin(b, 2);
    for (int i = 0; i < 2; i++) {
        const size_t dim = pw_begin(b, 2);

        pw_put_varint(b, 1, 2);
        pw_end(b, dim);
    }
    pw_end(b, k);
    pw_put_float(b, 5, 1);
    pw_put_float(b, 5, 2);
    pw_end(b, n);
    end_attr(b, a);
    pw_end(b, m);
    m = begin_node(b, "x", "Op");
    pw_put_text(b, 3, "c:1");
    pw_put_text(b, 3, "^c");
    a = begin_attr(b, "i");
    pw_put_varint(b, 3, (uint64_t)-5);
    end_attr(b, a);
    a = begin_attr(b, "f");
    pw_put_float(b, 4, 0.5f);
    end_attr(b, a);
    pw_end(b, m);
    pw_end(b, graph);
    for (int i = 0; i < 2; i++) {
        m = pw_begin(b, 4);
        pw_put_text(b, 1, i == 0 ? "named" : "numbers");
        n = pw_begin(b, 2);
        k = pw_begin(b, i == 0 ? 1 : 3);
        if (i == 0) {
            pw_put_text(b, 1, "x:0");
        } else {
            pw_put_varint(b, 1, 7);
            pw_put_varint(b, 1, (uint64_t)-1);
        }
        pw_end(b, k);
        pw_end(b, n);
        pw_end(b, m);
    }
}

START_TEST(nodes_attributes_and_collections_are_read)
{
    struct arena a = ARENA_ZERO;
    struct wbuf b = {0};
    struct graph_def g;
    const struct graph_node *x;
    struct tensor t;
    struct err err;
    int64_t numbers[1];
    int index;

    put_metagraph(&b);
    ck_assert_int_eq(graph_def_read(&g, &a, b.data, b.len, &err), 0);
    ck_assert_uint_eq(g.n, 2);
    x = graph_def_find(&g, "x:3", &index);
    ck_assert_str_eq(x->op, "Op");
    ck_assert_int_eq(index, 3);
    ck_assert_uint_eq(x->n_inputs, 1);
    ck_assert_str_eq(x->inputs[0], "c:1");
    ck_assert_int_eq(graph_node_int(x, "i", 0), -5);
    ck_assert_int_eq(graph_node_int(x, "none", 9), 9);
    ck_assert_float_eq(graph_node_float(x, "f", 0), 0.5f);
    ck_assert_ptr_null(graph_def_find(&g, "y", NULL));
    ck_assert_str_eq(graph_def_named(&g, "named"), "x:0");
    ck_assert_ptr_null(graph_def_named(&g, "none"));
    ck_assert_uint_eq(graph_def_ints(&g, "numbers", numbers, 1), 2);
    ck_assert_int_eq(numbers[0], 7);
    ck_assert_int_eq(graph_node_constant(&g, graph_def_find(&g, "c", NULL), &t, &err), 0);
    ck_assert_mem_eq(t.data, ((const float[]){1, 2, 2, 2}), 4 * sizeof(float));
    ck_assert_int_eq(graph_node_constant(&g, x, &t, &err), ERR_FORMAT);
    wbuf_done(&b);
    arena_done(&a);
}
END_TEST

/* Cut anywhere, or with any byte changed, it is refused or read, within its bounds. */
START_TEST(damage_is_survived)
{
    struct wbuf b = {0};

    put_metagraph(&b);
    for (size_t i = 0; i < 2 * b.len; i++) {
        const size_t len = i < b.len ? i : b.len;
        uint8_t *copy = malloc(len + 1);
        struct arena a = ARENA_ZERO;
        struct graph_def g;
        struct tensor t;
        struct err err;
        int64_t number;

        memcpy(copy, b.data, len);
        if (i >= b.len)
            copy[i - b.len] ^= 0x55;
        if (graph_def_read(&g, &a, copy, len, &err) == 0) {
            (void)graph_def_named(&g, "named");
            (void)graph_def_ints(&g, "numbers", &number, 1);
            for (size_t k = 0; k < g.n; k++)
                (void)graph_node_constant(&g, &g.nodes[k], &t, &err);
        }
        arena_done(&a);
        free(copy);
    }
    wbuf_done(&b);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *s = suite_create("graph_def");
    TCase *tc = tcase_create("graph_def");

    tcase_add_test(tc, nodes_attributes_and_collections_are_read);
    tcase_add_test(tc, damage_is_survived);
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(make_suite)
