#include "common/config/yaml_tree.h"
#include "tests/support/test_main.h"

#include <string.h>

static struct err err;
static struct arena arena;

static void setup(void)
{
    err = (struct err){0};
    arena = ARENA_ZERO;
}

static void teardown(void)
{
    arena_done(&arena);
}

static struct yaml_node *parse(const char *text)
{
    struct yaml_node *root = NULL;

    ck_assert_msg(yaml_tree_parse(&root, &arena, text, strlen(text), "f", 1, &err) == 0,
                  "%s", err.msg);
    return root;
}

START_TEST(a_tree_knows_its_lines)
{
    const struct yaml_node *root = parse("# c\na: 1\nb:\n  - x\n  - {c: 'y z', d: }\n");
    const struct yaml_node *b = yaml_find(root, "b");

    ck_assert_uint_eq(root->n, 2);
    ck_assert_str_eq(yaml_find(root, "a")->text, "1");
    ck_assert_int_eq(yaml_find(root, "a")->line, 2);
    ck_assert_int_eq(b->line, 3);
    ck_assert_int_eq(b->kind, YAML_LIST);
    ck_assert_int_eq(b->child[0]->line, 4);
    ck_assert_str_eq(yaml_find(b->child[1], "c")->text, "y z");
    ck_assert_int_eq(yaml_find(b->child[1], "c")->quoted, 1);
    ck_assert(yaml_is_null(yaml_find(b->child[1], "d")));
    ck_assert_ptr_null(yaml_find(root, "c"));
    ck_assert_ptr_null(yaml_find(b, "c"));
    ck_assert_ptr_null(yaml_find(NULL, "c"));
    ck_assert(yaml_is_null(parse("")));
    ck_assert(yaml_is_null(parse("# nothing\n")));
    ck_assert(yaml_is_null(parse("Null")) && yaml_is_null(parse("NULL")));
    ck_assert(!yaml_is_null(parse("nULL")) && !yaml_is_null(parse("'Null'")));
    /* an editor's byte order mark */
    ck_assert_str_eq(yaml_find(parse("\xef\xbb\xbf"
                                     "a: 1\n"),
                               "a")
                         ->text,
                     "1");
    ck_assert_int_eq(yaml_find(parse("\xef\xbb\xbf# c\nb: 1\n"), "b")->line, 2);
    ck_assert(yaml_is_null(parse("\xef\xbb\xbf")));
}
END_TEST

START_TEST(bad_documents_say_where)
{
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"a: 1\nb: 2\na: 3\n", "f:3: key 'a' is given here and in line 1, expected once"},
        {"x:\n  b: 2\n  b: 3\n",
         "f:3: key 'b' is given here and in line 2, expected once"},
        {"a: &x 1\nb: *y\n", "f:2: there is no anchor above for *y"},
        {"a: 1\nb: &x\n  - *x\n", "f:3: within its own anchor: *x"},
        {"a: 1\n<<: 3\n", "f:2: <<: expected a map or a list of maps"},
        {"<<: [{a: 1}, 3]\n", "f:1: <<: expected a map"},
        {"a: !!int 1\n", "f:1: tags are not read: tag:yaml.org,2002:int"},
        {"a: \"\\0\"\n", "f:1: a text with a NUL byte"},
        {"a: 1\n---\nb: 1\n", "f:2: a second document, expected one"},
        {"[a]: 1\n", "f:1: a key is a plain text"},
        {"a: 1\n b: 2\n",
         "f:2: not YAML: mapping values are not allowed in this context"},
        {"a: [1\nb", "f:3: not YAML: did not find expected ',' or ']'"},
        {"a: \xff", "f:1: not YAML: invalid leading UTF-8 octet"},
    };
    struct yaml_node *root;

    ck_assert_int_eq(yaml_tree_parse(&root, &arena, cases[_i].text,
                                     strlen(cases[_i].text), "f", 1, &err),
                     ERR_CONFIG);
    ck_assert_str_eq(err.msg, cases[_i].message);
}
END_TEST

START_TEST(documents_are_bounded)
{
    size_t size = YAML_MAX_BYTES + 1;
    char *text = malloc(size);
    struct yaml_node *root;

    memset(text, ' ', size);
    ck_assert_int_eq(yaml_tree_parse(&root, &arena, text, size, "f", 1, &err), ERR_LIMIT);
    ck_assert_int_eq(yaml_tree_parse(&root, &arena, text, size - 1, "f", 1, &err), 0);
    memset(text, '[', size);
    ck_assert_int_eq(yaml_tree_parse(&root, &arena, text, size - 1, "f", 1, &err),
                     ERR_CONFIG);
    ck_assert_str_eq(err.msg, "f:1: nested too deeply");
    for (size_t i = 0; i + 1 < size; i += 2)
        memcpy(text + i, "-\n", 2);
    ck_assert_int_eq(yaml_tree_parse(&root, &arena, text, size - 1, "f", 1, &err),
                     ERR_CONFIG);
    ck_assert_str_eq(err.msg, "f:100000: too many values, at most 100000");
    free(text);
}
END_TEST

static char *written(const struct yaml_node *n)
{
    char *text = NULL;
    size_t len = 0;
    FILE *f = open_memstream(&text, &len);

    yaml_tree_write(n, f);
    ck_assert_int_eq(fclose(f), 0);
    return text;
}

START_TEST(aliases_are_copies_of_their_anchors)
{
    static const struct {
        const char *text, *same;
    } cases[] = {
        {"a: &x 1\nb: *x\n", "{a: 1, b: 1}"},
        {"a: &x {c: [1, 2]}\nb: *x\nd: [*x, *x]\n",
         "{a: {c: [1, 2]}, b: {c: [1, 2]}, d: [{c: [1, 2]}, {c: [1, 2]}]}"},
        {"a: &x 1\nb: &x 2\nc: *x\n", "{a: 1, b: 2, c: 2}"},
        {"a: &x '1'\nb: *x\n", "{a: \"1\", b: \"1\"}"},
        {"a: &x {c: &y 3}\nb: *y\n", "{a: {c: 3}, b: 3}"},
        {"a: &x {c: 1, d: {e: 2}}\nb: {d: {f: 3}, <<: *x}\n",
         "{a: {c: 1, d: {e: 2}}, b: {c: 1, d: {e: 2, f: 3}}}"},
        {"b: {<<: [{c: 1}, {c: 2, d: 4}], e: 5}\n", "{b: {c: 1, d: 4, e: 5}}"},
        {"<<: []\na: 1\n", "{a: 1}"},
    };
    struct yaml_node *root = parse(cases[_i].text);
    char *text = written(root);

    ck_assert_str_eq(text, cases[_i].same);
    free(text);
    if (_i == 1) { /* a change of one copy leaves the others unchanged */
        ck_assert_int_eq(yaml_find(root, "b")->line, 2);
        ck_assert_int_eq(yaml_find(yaml_find(root, "b"), "c")->line, 1);
        ck_assert_int_eq(yaml_tree_set(root, &arena, "", "d.0.c.1=7", &err), 0);
        text = written(root);
        ck_assert_str_eq(text, "{a: {c: [1, 2]}, b: {c: [1, 2]}, d: [{c: [1, 7]}, "
                               "{c: [1, 2]}]}");
        free(text);
    }
}
END_TEST

/* The "billion laughs": ten lines that would expand to 10^9 values. */
START_TEST(expansion_is_bounded)
{
    char text[2000] = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n", *anchors;
    size_t len = strlen(text);
    struct yaml_node *root;
    FILE *f;

    for (int i = 1; i < 9; i++) {
        len += (size_t)snprintf(text + len, sizeof(text) - len, "a%d: &a%d [", i, i);
        for (int k = 0; k < 10; k++)
            len += (size_t)snprintf(text + len, sizeof(text) - len, "*a%d, ", i - 1);
        len += (size_t)snprintf(text + len, sizeof(text) - len, "]\n");
    }
    ck_assert_int_eq(yaml_tree_parse(&root, &arena, text, len, "f", 1, &err), ERR_CONFIG);
    ck_assert_str_eq(err.msg, "f:5: aliases expand to too many values, at most 100000");

    /* the same with nesting: each level is one deeper */
    len = (size_t)snprintf(text, sizeof(text), "a0: &a0 [x]\n");
    for (int i = 1; i < 40; i++)
        len += (size_t)snprintf(text + len, sizeof(text) - len, "a%d: &a%d [*a%d]\n", i,
                                i, i - 1);
    ck_assert_int_eq(yaml_tree_parse(&root, &arena, text, len, "f", 1, &err), ERR_CONFIG);
    ck_assert_str_eq(err.msg, "f:32: nested too deeply");

    f = open_memstream(&anchors, &len);
    for (int i = 0; i < 1001; i++)
        (void)fprintf(f, "- &x 1\n");
    ck_assert_int_eq(fclose(f), 0);
    ck_assert_int_eq(yaml_tree_parse(&root, &arena, anchors, len, "f", 1, &err),
                     ERR_CONFIG);
    ck_assert_str_eq(err.msg, "f:1001: too many anchors");
    free(anchors);
}
END_TEST

START_TEST(values_are_set_by_path)
{
    struct yaml_node *root = parse("a: {b: 1}\nl: [1, 2]\nx.y: {z: 1}\nn:\n");
    const struct yaml_node *n;

    ck_assert_int_eq(yaml_tree_set(root, &arena, "--set ", "a.b=2", &err), 0);
    ck_assert_int_eq(yaml_tree_set(root, &arena, "--set ", "a.c.d={e: [5]}", &err), 0);
    ck_assert_int_eq(yaml_tree_set(root, &arena, "--set ", "l.1=7", &err), 0);
    ck_assert_int_eq(yaml_tree_set(root, &arena, "--set ", "x.y.z=3", &err), 0);
    ck_assert_int_eq(yaml_tree_set(root, &arena, "--set ", "n.m=4", &err), 0);
    ck_assert_str_eq(yaml_find(yaml_find(root, "a"), "b")->text, "2");
    n = yaml_find(yaml_find(yaml_find(yaml_find(root, "a"), "c"), "d"), "e");
    ck_assert_str_eq(n->child[0]->text, "5");
    ck_assert_str_eq(n->place, "--set a.c.d={e: [5]}");
    ck_assert_str_eq(yaml_find(root, "l")->child[1]->text, "7");
    ck_assert_str_eq(yaml_find(yaml_find(root, "x.y"), "z")->text, "3");
    ck_assert_str_eq(yaml_find(yaml_find(root, "n"), "m")->text, "4");
    ck_assert_int_eq(yaml_tree_set(root, &arena, "--set ", "a.b=", &err), 0);
    ck_assert_ptr_null(yaml_find(yaml_find(root, "a"), "b"));
    ck_assert_int_eq(yaml_tree_set(root, &arena, "--set ", "new=~", &err), 0);
    ck_assert_ptr_null(yaml_find(root, "new"));
    /* keys can be set in an empty document */
    root = parse("");
    ck_assert_int_eq(yaml_tree_set(root, &arena, "--set ", "a.b=1", &err), 0);
    ck_assert_str_eq(yaml_find(yaml_find(root, "a"), "b")->text, "1");
}
END_TEST

START_TEST(wrong_paths_name_the_option)
{
    static const struct {
        const char *set, *message;
    } cases[] = {
        {"abc", "--set abc: expected KEY=VALUE"},
        {"=1", "--set =1: expected KEY=VALUE"},
        {"a..b=1", "--set a..b=1: a..b: no key path, expected e.g. run.seed"},
        {"a.=1", "--set a.=1: a.: no key path, expected e.g. run.seed"},
        {"l.2=1", "--set l.2=1: l.2: '2' is no index of a list of 2, expected 0 to 1"},
        {"l.x=1", "--set l.x=1: l.x: 'x' is no index of a list of 2, expected 0 to 1"},
        {"a.b.c=1", "--set a.b.c=1: a.b.c: there is nothing under the value '1'"},
        {"a=[1", "--set a=[1: not YAML: did not find expected ',' or ']'"},
    };
    struct yaml_node *root = parse("a: {b: 1}\nl: [1, 2]\n");

    ck_assert_int_eq(yaml_tree_set(root, &arena, "--set ", cases[_i].set, &err),
                     ERR_CONFIG);
    ck_assert_str_eq(err.msg, cases[_i].message);
}
END_TEST

START_TEST(the_nearest_word_is_found)
{
    static const char *const words[] = {"learning_rate", "batch_size", "seed", NULL,
                                        "id"};

    ck_assert_str_eq(yaml_nearest("learnign_rate", words, 5), "learning_rate");
    ck_assert_str_eq(yaml_nearest("batchsize", words, 5), "batch_size");
    ck_assert_str_eq(yaml_nearest("sead", words, 5), "seed");
    ck_assert_ptr_null(yaml_nearest("id", words, 5)); /* itself is no suggestion */
    ck_assert_ptr_null(yaml_nearest("entirely", words, 5));
    ck_assert_ptr_null(yaml_nearest("", words, 0));
    ck_assert_uint_eq(yaml_edits("stpo", "stop"), 1);
    ck_assert_uint_eq(yaml_edits("shw", "set"), 2);
}
END_TEST

START_TEST(a_tree_is_copied_and_written)
{
    const struct yaml_node *a =
        parse("{b: 1, 'c d': [x, \"q\\\"\\n{\", '', ~, -], e: {},\n"
              " f: two words, '7': '7'}\n");
    struct arena other = ARENA_ZERO;
    const struct yaml_node *copy = yaml_tree_copy(a, &other);
    char *text = NULL;
    size_t len = 0;
    FILE *f = open_memstream(&text, &len);

    ck_assert(yaml_tree_equal(a, copy) && a->child[0] != copy->child[0]);
    yaml_tree_write(copy, f);
    ck_assert_int_eq(fclose(f), 0);
    ck_assert_str_eq(text, "{b: 1, \"c d\": [x, \"q\\\"\\x0a{\", \"\", ~, \"-\"], e: {}, "
                           "f: \"two words\", 7: \"7\"}");
    ck_assert(yaml_tree_equal(a, parse(text)));
    ck_assert(!yaml_tree_equal(a, parse("{b: 1}")));
    ck_assert(!yaml_tree_equal(parse("{b: 1}"), parse("{b: '1'}")));
    ck_assert(!yaml_tree_equal(parse("{b: 1}"), parse("{c: 1}")));
    ck_assert(!yaml_tree_equal(parse("{b: [1]}"), parse("{b: 1}")));
    ck_assert(yaml_tree_equal(NULL, NULL) && !yaml_tree_equal(a, NULL));
    free(text);
    arena_done(&other);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *s = suite_create("yaml_tree");
    TCase *tc = tcase_create("yaml_tree");

    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, a_tree_knows_its_lines);
    tcase_add_loop_test(tc, bad_documents_say_where, 0, 13);
    tcase_add_test(tc, documents_are_bounded);
    tcase_add_loop_test(tc, aliases_are_copies_of_their_anchors, 0, 8);
    tcase_add_test(tc, expansion_is_bounded);
    tcase_add_test(tc, values_are_set_by_path);
    tcase_add_loop_test(tc, wrong_paths_name_the_option, 0, 8);
    tcase_add_test(tc, the_nearest_word_is_found);
    tcase_add_test(tc, a_tree_is_copied_and_written);
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(make_suite)
