/* The check of `.meta` files accepts files of TensorFlow and our own, and finds each of
 * many faults. */
#include "agent/saver/message.h"
#include "agent/saver/saver.h"
#include "tests/agent/metagraph_help.h"
#include "tests/support/metagraph_check.h"
#include "tests/support/team.h"
#include "tests/support/test_main.h"

#include <string.h>

static void check_passes(const char *prefix, const void *data, size_t n)
{
    struct err err = {0};

    /* with the file's own definitions, and with ours where they exist */
    ck_assert_msg(metagraph_check(data, n, data, n, &err) == 0, "%s: %s", prefix,
                  err.msg);
    ck_assert_msg(metagraph_check(data, n, NULL, 0, &err) == 0, "%s: %s", prefix,
                  err.msg);
}

START_TEST(real_files_pass_the_check)
{
    for_each_meta(check_passes);
}
END_TEST

static struct wbuf regression_file(void)
{
    struct graph *g = graph_new();
    struct saver *saver;
    struct wbuf b;

    build_regression(g);
    ck_assert_int_eq(saver_new(&saver, g, NULL, NULL), 0);
    b = export_of(g, saver_as_def(saver));
    saver_free(saver);
    graph_free(g);
    return b;
}

/* The file that TensorFlow 1.13 wrote beside the MADDPG checkpoint, for its definitions
 * of ops. */
static unsigned char *maddpg_file(size_t *ret_len)
{
    char *path =
        xasprintf("%s/data/tf-checkpoints/01-mbeliaev1-maddpg/policy/h10s5/5/.meta",
                  test_shared_dir());
    unsigned char *data = test_read_file(path, ret_len);

    free(path);
    return data;
}

START_TEST(our_files_pass_the_check)
{
    struct team_args args = team_spread("{}", 1);
    struct team *t = team_new(&args);
    struct wbuf files[2] = {export_of(t->members[0].graph, NULL), regression_file()};
    struct err err = {0};

    for (int i = 0; i < 2; i++) {
        unsigned char *real = NULL;
        size_t n = 0;

        if (test_has_real_checkpoints())
            real = maddpg_file(&n);
        ck_assert_msg(metagraph_check(files[i].data, files[i].len, real, n, &err) == 0,
                      "%s", err.msg);
        wbuf_done(&files[i]);
        free(real);
    }
    team_free(t);
}
END_TEST

static Tf__NodeDef *node_of(Tf__MetaGraphDef *m, const char *name)
{
    for (size_t i = 0; i < m->graph_def->n_node; i++)
        if (strcmp(m->graph_def->node[i]->name, name) == 0)
            return m->graph_def->node[i];
    ck_abort_msg("%s", name);
    return NULL;
}

static Tf__AttrValue *value_of(Tf__MetaGraphDef *m, const char *name, const char *attr)
{
    Tf__NodeDef *n = node_of(m, name);

    for (size_t i = 0; i < n->n_attr; i++)
        if (strcmp(n->attr[i]->key, attr) == 0)
            return n->attr[i]->value;
    ck_abort_msg("%s has no %s", name, attr);
    return NULL;
}

static Tf__CollectionDef *collection_of(Tf__MetaGraphDef *m, const char *key)
{
    for (size_t i = 0; i < m->n_collection_def; i++)
        if (strcmp(m->collection_def[i]->key, key) == 0)
            return m->collection_def[i]->value;
    ck_abort_msg("%s", key);
    return NULL;
}

#define W "fully_connected/weights"

/* Puts fault i into a file; returns the message that the checker must give. */
static const char *seed_fault(Tf__MetaGraphDef *m, struct arena *a, int i)
{
    Tf__NodeDef *matmul = node_of(m, "fully_connected/MatMul"), *n;

    switch (i) {
    case 0:
        matmul->op = arena_strdup(a, "Frobnicate");
        return "op Frobnicate is not defined";
    case 1:
        matmul->n_input = 1;
        return "has 1 inputs, MatMul takes 2";
    case 2:
        n = node_of(m, "x");
        n->input = matmul->input;
        n->n_input = 1;
        return "has more inputs than the 0 of Placeholder";
    case 3:
        matmul->input[0] = arena_strdup(a, "nowhere");
        return "its input 'nowhere' does not exist";
    case 4:
        matmul->input[0] = arena_strdup(a, "x:1");
        return "its input 'x:1' does not exist";
    case 5:
        matmul->input[0] = arena_strdup(a, "noise/shape");
        return "is of type 3, not 1";
    case 6:
        node_of(m, W "/Assign")->input[0] = arena_strdup(a, W "/read");
        return "is no reference to a variable";
    case 7:
        value_of(m, "fully_connected/MatMul", "T")->type = DT_DOUBLE;
        return "of type";
    case 8:
        node_of(m, W)->n_attr = 0;
        return "is missing";
    case 9:
        node_of(m, W)->attr[0]->key = arena_strdup(a, "colour");
        return "has no attribute 'colour'";
    case 10:
        value_of(m, "fully_connected/MatMul", "transpose_a")->value_case =
            TF__ATTR_VALUE__VALUE_I;
        return "attribute 'transpose_a' is no bool";
    case 11:
        matmul->name = arena_strdup(a, "x");
        return "node 'x' is there twice";
    case 12:
        matmul->name = arena_strdup(a, "a b");
        return "'a b' is not a valid node name";
    case 13:
        n = node_of(m, "init");
        n->input[0] = arena_strdup(a, "^nothing");
        return "its input '^nothing' does not exist";
    case 14:
        n = node_of(m, "save/control_dependency");
        ck_assert_uint_eq(n->n_input, 2);
        n->input[1] = n->input[0];
        n->input[0] = arena_strdup(a, "^save/SaveV2");
        return "comes after control inputs";
    case 15:
        value_of(m, W "/read", "_class")->list->s[0] = message_bytes(a, "loc:@gone", 9);
        return "_class names 'gone', which does not exist";
    case 16:
        collection_of(m, "train_op")->node_list->value[0] = arena_strdup(a, "Adam_7");
        return "collection 'train_op': operation 'Adam_7' does not exist";
    case 17:
        collection_of(m, "variables")->bytes_list->value[0].data[3]++;
        return "collection 'variables': tensor";
    case 18:
        collection_of(m, "variables")->bytes_list->n_value = 1;
        return "element 1 of collection 'trainable_variables' is not in 'variables'";
    case 19:
        m->saver_def->restore_op_name = arena_strdup(a, "save/restore_none");
        return "saver_def: operation 'save/restore_none' does not exist";
    case 20:
        m->saver_def->save_tensor_name = arena_strdup(a, "");
        return "saver_def: tensor '' does not exist";
    case 21:
        m->graph_def->versions->producer = 0;
        return "does not say which version made it";
    default:
        value_of(m, "noise/shape", "value")->tensor->dtype = DT_INT64;
        return "a value of type 9 in a Const of type 3";
    }
}

START_TEST(seeded_faults_fail_the_check)
{
    struct wbuf file = regression_file(), bad = {0};
    struct arena a = {0};
    Tf__MetaGraphDef *m = MESSAGE_UNPACK(&a, meta_graph_def, file.data, file.len);
    const char *want = seed_fault(m, &a, _i);
    struct err err = {0};

    ck_assert_int_eq(metagraph_check(file.data, file.len, NULL, 0, &err), 0);
    message_pack(&bad, m);
    ck_assert_int_eq(metagraph_check(bad.data, bad.len, NULL, 0, &err), ERR_FORMAT);
    ck_assert_msg(strstr(err.msg, want) != NULL, "'%s' is not in '%s'", want, err.msg);
    wbuf_done(&file);
    wbuf_done(&bad);
    arena_done(&a);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *s = suite_create("metagraph_check");
    TCase *tc = tcase_create("check");

    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, real_files_pass_the_check);
    tcase_add_test(tc, our_files_pass_the_check);
    tcase_add_loop_test(tc, seeded_faults_fail_the_check, 0, 23);
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(make_suite)
