#include "common/ckpt/ckpt_find.h"
#include "common/mem/xmalloc.h"
#include "tests/support/temp_dir.h"
#include "tests/support/test_main.h"

#include <string.h>
#include <sys/stat.h>

static struct temp_dir dir;

static void set_up(void)
{
    temp_dir_init(&dir);
}

static void tear_down(void)
{
    temp_dir_done(&dir);
}

static void write_file(const char *name, const char *text)
{
    FILE *f = fopen(temp_dir_file(&dir, name), "wb");

    ck_assert_ptr_nonnull(f);
    (void)fputs(text, f);
    (void)fclose(f);
}

static enum ckpt_kind kind_of(const char *name)
{
    return ckpt_kind_of(temp_dir_file(&dir, name));
}

START_TEST(checkpoints_are_told_by_their_files)
{
    write_file("m-1.index", "");
    write_file("my model.index", "");
    write_file(".index", "");
    write_file("old", "");
    write_file("graph.meta", "");
    write_file("shards-00000-of-00002", "");
    write_file("shards-00001-of-00002", "");
    ck_assert_int_eq(mkdir(temp_dir_file(&dir, "folder"), 0700), 0);
    ck_assert_int_eq(mkfifo(temp_dir_file(&dir, "fifo"), 0600), 0);
    ck_assert_int_eq(kind_of("m-1"), CKPT_V2);
    ck_assert_int_eq(kind_of("my model"), CKPT_V2);
    ck_assert_int_eq(kind_of(""), CKPT_V2);
    ck_assert_int_eq(kind_of("old"), CKPT_V1);
    ck_assert_int_eq(kind_of("shards-????"
                             "?-of-00002"),
                     CKPT_V1);
    ck_assert_int_eq(kind_of("shards-????"
                             "?-of-00003"),
                     CKPT_NONE);
    ck_assert_int_eq(kind_of("-????"
                             "?-of-00002"),
                     CKPT_NONE);
    ck_assert_int_eq(kind_of("shards"), CKPT_NONE);
    ck_assert_int_eq(kind_of("graph"), CKPT_NONE);
    ck_assert_int_eq(kind_of("folder"), CKPT_NONE);
    ck_assert_int_eq(kind_of("fifo"), CKPT_NONE);
    ck_assert_int_eq(kind_of("nothing"), CKPT_NONE);
}
END_TEST

static void assert_newest(const char *path, const char *want)
{
    char *text = xasprintf("model_checkpoint_path: \"%s\"", path);
    char *wanted = xasprintf("%s/%s", dir.path, want);
    char *got = NULL;
    struct err err = {0};

    write_file("checkpoint", text);
    ck_assert_msg(ckpt_find_newest(&got, dir.path, &err) == 0, "%s", err.msg);
    ck_assert_str_eq(got, wanted);
    free(got);
    free(wanted);
    free(text);
}

START_TEST(paths_are_found_where_the_files_are)
{
    char *absolute = xasprintf("%s/m-2", dir.path);

    write_file("m-1.index", "");
    write_file("m-2.index", "");
    write_file("my best model-7.index", "");
    write_file("graph.meta", "");
    write_file("old model", "");
    write_file("old-00000-of-00002", "");
    write_file(".index", "");
    assert_newest("m-1", "m-1");
    assert_newest(absolute, "m-2");
    assert_newest("/nowhere/on/this/machine/m-1", "m-1");
    assert_newest("C:\\\\old\\\\m-2", "m-2");
    assert_newest("/home/someone else/my runs/my best model-7", "my best model-7");
    assert_newest("C:/My Documents/my best model-7", "my best model-7");
    assert_newest("/nowhere/graph", "graph");
    assert_newest("/nowhere/old model", "old model");
    assert_newest("/nowhere/old-????"
                  "?-of-00002",
                  "old-????"
                  "?-of-00002");
    assert_newest("sub/m-3", "sub/m-3");
    assert_newest(".", "");
    assert_newest("/nowhere/policy/", "");
    free(absolute);
}
END_TEST

START_TEST(a_directory_may_end_in_a_slash)
{
    char *slash = xasprintf("%s/", dir.path), *want = xasprintf("%s/m-1", dir.path);
    const char *const in_state[] = {"m-1", "/nowhere/m-1"};
    char *got;

    write_file("m-1.index", "");
    for (size_t i = 0; i < 2; i++) {
        got = ckpt_resolve(slash, in_state[i]);
        ck_assert_str_eq(got, want);
        free(got);
    }
    got = ckpt_resolve("", "m-1");
    ck_assert_str_eq(got, "m-1");
    free(got);
    free(want);
    free(slash);
}
END_TEST

START_TEST(a_file_stands_for_its_checkpoint)
{
    static const char *const ends[] = {".meta", ".index", ".data-00000-of-00001"};
    char *want = xasprintf("%s/m.ckpt-7", dir.path), *got;
    struct err err = {0};

    for (size_t i = 0; i < 3; i++) {
        char *path = xasprintf("%s%s", want, ends[i]);

        /* without the file, the path is a prefix like any other */
        ck_assert_int_eq(ckpt_find_prefix(&got, path, &err), 0);
        ck_assert_str_eq(got, path);
        ck_assert_int_eq(ckpt_is_there(path, &err), 0);
        free(got);
        write_file(path + strlen(dir.path) + 1, "");
        ck_assert_int_eq(ckpt_find_prefix(&got, path, &err), 0);
        ck_assert_str_eq(got, want);
        ck_assert_int_eq(ckpt_is_there(path, &err), 1);
        free(got);
        free(path);
    }
    /* a prefix that looks like a file */
    write_file("m.ckpt-7.meta.index", "");
    got = xasprintf("%s.meta", want);
    free(want);
    ck_assert_int_eq(ckpt_find_prefix(&want, got, &err), 0);
    ck_assert_str_eq(got, want);
    free(got);
    free(want);
}
END_TEST

static int is_graph_def(const char *bytes, size_t n)
{
    FILE *f = fopen(temp_dir_file(&dir, "g"), "wb");

    ck_assert_ptr_nonnull(f);
    ck_assert_uint_eq(fwrite(bytes, 1, n, f), n);
    (void)fclose(f);
    return ckpt_is_graph_def(temp_dir_file(&dir, "g"));
}

/* A GraphDef begins with a node, {1: name, 2: operation}; a MetaGraphDef with
 * {1: version, 2: OpList}. */
START_TEST(a_graph_alone_is_told_by_its_first_node)
{
    static const char node[] = "\x0a\x0a\x0a\x01x\x12\x05"
                               "Const";
    char *got;
    struct err err = {0};

    ck_assert(is_graph_def(node, sizeof(node) - 1));
    ck_assert_int_eq(kind_of("g"), CKPT_NONE);
    ck_assert_int_eq(ckpt_find_prefix(&got, temp_dir_file(&dir, "g"), &err), 0);
    ck_assert_str_eq(got, temp_dir_file(&dir, "g"));
    free(got);
    got = ckpt_graph_path(temp_dir_file(&dir, "g"));
    ck_assert_str_eq(got, temp_dir_file(&dir, "g"));
    free(got);
    for (size_t n = 0; n < 8; n++)
        ck_assert_msg(!is_graph_def(node, n), "%zu bytes", n);
    ck_assert(!is_graph_def("\x0a\x08\x0a\x01x\x12\x03\x0a\x01y", 10)); /* an OpList */
    ck_assert(!is_graph_def("\x0a\x05\x0a\xff\xff\xff\xff\x0f\x12\x01x", 11));
    ck_assert(!is_graph_def("\x00\x0a\x0a\x01x", 5)); /* a V1 checkpoint */
    ck_assert_int_eq(kind_of("g"), CKPT_V1);
    write_file("g.meta", "");
    ck_assert(is_graph_def(node, sizeof(node) - 1));
    got = ckpt_graph_path(temp_dir_file(&dir, "g"));
    ck_assert_str_eq(got, temp_dir_file(&dir, "g.meta"));
    free(got);
}
END_TEST

START_TEST(people_name_a_prefix_or_a_directory)
{
    char *prefix, *want = xasprintf("%s/my model", dir.path);
    struct err err = {0};

    ck_assert_int_eq(ckpt_find_prefix(&prefix, dir.path, &err), ERR_NOT_FOUND);
    write_file(".meta", "");
    ck_assert_int_eq(ckpt_find_prefix(&prefix, dir.path, &err), 0);
    ck_assert_str_eq(prefix, temp_dir_file(&dir, ""));
    free(prefix);
    write_file("checkpoint", "model_checkpoint_path: 'my model'");
    ck_assert_int_eq(ckpt_find_prefix(&prefix, dir.path, &err), ERR_NOT_FOUND);
    ck_assert_ptr_nonnull(strstr(err.msg, "/checkpoint names "));
    ck_assert_ptr_nonnull(strstr(err.msg, "/my model: there are no such files"));
    write_file("my model.index", "");
    ck_assert_int_eq(ckpt_find_prefix(&prefix, dir.path, &err), 0);
    ck_assert_str_eq(prefix, want);
    free(prefix);
    ck_assert_int_eq(ckpt_find_prefix(&prefix, want, &err), 0);
    ck_assert_str_eq(prefix, want);
    free(prefix);
    ck_assert_int_eq(ckpt_find_prefix(&prefix, "/nowhere/m", &err), 0);
    ck_assert_str_eq(prefix, "/nowhere/m");
    free(prefix);
    free(want);
}
END_TEST

START_TEST(what_is_not_there_is_told)
{
    char *prefix;
    struct err err = {0};

    ck_assert_int_eq(ckpt_find_newest(&prefix, dir.path, &err), ERR_NOT_FOUND);
    ck_assert_ptr_nonnull(strstr(err.msg, "/checkpoint"));
    write_file("checkpoint", "other: 1");
    ck_assert_int_eq(ckpt_find_newest(&prefix, dir.path, &err), ERR_FORMAT);
    ck_assert_ptr_nonnull(strstr(err.msg, "names no checkpoint"));
    write_file("checkpoint", "!");
    ck_assert_int_eq(ckpt_find_newest(&prefix, dir.path, &err), ERR_FORMAT);
    ck_assert_ptr_nonnull(strstr(err.msg, "/checkpoint: line 1"));
}
END_TEST

/* There may be shards in it. */
START_TEST(a_folder_that_cannot_be_listed)
{
    char *loop = xstrdup(temp_dir_file(&dir, "loop")), *prefix = NULL;
    char *path = xasprintf("%s/m", loop);
    struct err err = {0};

    ck_assert_int_eq(symlink("loop", loop), 0);
    ck_assert_int_lt(ckpt_find_prefix(&prefix, path, &err), 0);
    ck_assert_ptr_null(prefix);
    ck_assert_msg(strstr(err.msg, "/loop/: ") != NULL, "%s", err.msg);
    err = (struct err){0};
    ck_assert_int_lt(ckpt_is_there(path, &err), 0);
    ck_assert_ptr_nonnull(strstr(err.msg, "/loop/"));
    /* a file of that name is found without a list */
    ck_assert_int_eq(unlink(loop), 0);
    ck_assert_int_eq(mkdir(loop, 0755), 0);
    write_file("loop/m.index", "");
    ck_assert_int_eq(chmod(loop, 0100), 0);
    ck_assert_int_eq(ckpt_find_prefix(&prefix, path, &err), 0);
    ck_assert_str_eq(prefix, path);
    free(prefix);
    ck_assert_int_eq(chmod(loop, 0700), 0);
    free(path);
    free(loop);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *s = suite_create("ckpt_find");
    TCase *tc = tcase_create("ckpt_find");

    tcase_add_checked_fixture(tc, set_up, tear_down);
    tcase_add_test(tc, checkpoints_are_told_by_their_files);
    tcase_add_test(tc, paths_are_found_where_the_files_are);
    tcase_add_test(tc, a_directory_may_end_in_a_slash);
    tcase_add_test(tc, a_file_stands_for_its_checkpoint);
    tcase_add_test(tc, a_graph_alone_is_told_by_its_first_node);
    tcase_add_test(tc, people_name_a_prefix_or_a_directory);
    tcase_add_test(tc, what_is_not_there_is_told);
    tcase_add_test(tc, a_folder_that_cannot_be_listed);
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(make_suite)
