/* Programs that are sent to nodes: what a node makes of the messages, and the folder it is in. */
#include "common/io/tree.h"
#include "common/mem/xmalloc.h"
#include "supervisor/node/node_programs.h"
#include "supervisor/proc/scratch.h"
#include "tests/support/test_main.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utime.h>

static const char hash[] = "0123456789abcdef0123456789abcdef";
static char folder[64];
static struct node_programs programs;

static int take(const char *its_hash, const char *name, uint64_t offset, const char *data)
{
    struct wbuf b = {0};
    struct node_message m = {.kind = NODE_PROGRAM, .number = offset};
    struct err err = {0};
    int rc;

    wbuf_bytes(&b, its_hash, strlen(its_hash));
    wbuf_u8(&b, strcmp(name, "files/run.sh") == 0);
    wbuf_u32(&b, (uint32_t)strlen(name));
    wbuf_bytes(&b, name, strlen(name));
    wbuf_bytes(&b, data, strlen(data));
    m.body = b.data;
    m.len = b.len;
    rc = node_programs_take(&programs, &m, &err);
    wbuf_done(&b);
    return rc;
}

static char *path_of(const char *name)
{
    return xasprintf("%s/%s/%s", programs.folder, hash, name);
}

static void check_file(const char *name, const char *text, mode_t mode)
{
    char *path = path_of(name), found[64] = "";
    FILE *f = fopen(path, "re");
    struct stat st;

    ck_assert_ptr_nonnull(f);
    ck_assert_uint_eq(fread(found, 1, sizeof(found) - 1, f), strlen(text));
    (void)fclose(f);
    ck_assert_str_eq(found, text);
    ck_assert_int_eq(stat(path, &st), 0);
    ck_assert_uint_eq(st.st_mode & 0777u, mode);
    free(path);
}

static void begin(void)
{
    (void)snprintf(folder, sizeof(folder), "/tmp/test_node_programsXXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
    (void)setenv("TMPDIR", folder, 1);
    scratch_name("1-2");
    programs = NODE_PROGRAMS_NONE;
}

static void end(void)
{
    node_programs_done(&programs);
    ck_assert_int_eq(tree_remove(folder, NULL), 0);
}

/* Pieces become files when the program is whole. */
START_TEST(test_files_are_made)
{
    char *path;

    begin();
    ck_assert_int_eq(take(hash, "files/a/b.py", 0, "one "), 0);
    ck_assert_int_eq(take(hash, "files/run.sh", 0, ""), 0);
    ck_assert_int_eq(take(hash, "files/a/b.py", 4, "two"), 0);
    path = path_of("files");
    ck_assert(!tree_exists(path));
    ck_assert_int_eq(take(hash, "", 0, ""), 0);
    ck_assert(tree_exists(path));
    free(path);
    check_file("files/a/b.py", "one two", 0600);
    check_file("files/run.sh", "", 0700);
    ck_assert_str_eq(getenv("BROOD_PROGRAMS"), programs.folder);
    ck_assert_int_eq(take(hash, "", 0, ""), 0); /* twice is once */
    scratch_remove();
    ck_assert(!tree_exists(programs.folder));
    end();
}
END_TEST

/* No name leads out of the folder, and no number makes a file large. */
START_TEST(test_what_is_malformed_is_refused)
{
    static const char *const names[] = {"../x", "a/../../x", "/etc/x", "a//x", "a/",
                                        ".",    "a/.",       "..",     "/"};

    begin();
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        ck_assert_int_eq(take(hash, names[i], 0, "x"), ERR_PROTOCOL);
    ck_assert_int_eq(take("0123456789abcdef0123456789abcdeF", "x", 0, "x"), ERR_PROTOCOL);
    ck_assert_int_eq(take("../../../../../../../../../../..", "x", 0, "x"), ERR_PROTOCOL);
    ck_assert_int_eq(take("0123", "x", 0, ""), ERR_PROTOCOL);
    ck_assert_int_eq(take(hash, "x", UINT64_MAX, "x"), ERR_LIMIT);
    ck_assert_int_eq(take(hash, "x", (uint64_t)1 << 40, "x"), ERR_LIMIT);
    programs.bytes = UINT64_MAX / 2; /* so much has come */
    ck_assert_int_ne(take(hash, "x", 0, "x"), 0);
    ck_assert_ptr_null(programs.folder);
    end();
}
END_TEST

/* A folder that nobody uses any more goes; one that is new or in use stays. */
START_TEST(test_what_was_left_is_removed)
{
    const struct utimbuf old = {0};
    const char *path;
    char *left, *used, *young;
    struct err err;
    int fd;

    begin();
    left = xasprintf("%s/brood-scratch-3-4", folder);
    young = xasprintf("%s/brood-scratch-5-6", folder);
    scratch_name("7-8");
    fd = scratch_make(&path, &err);
    ck_assert_int_ge(fd, 0);
    used = xasprintf("%s", path);
    ck_assert_int_eq(mkdir(left, 0700), 0);
    ck_assert_int_eq(mkdir(young, 0700), 0);
    ck_assert_int_eq(utime(left, &old), 0);
    ck_assert_int_eq(utime(used, &old), 0);
    scratch_name("9-10");
    programs.lock_fd = scratch_make(&programs.folder, &err);
    ck_assert_int_ge(programs.lock_fd, 0);
    ck_assert(!tree_exists(left));
    ck_assert(tree_exists(young));
    ck_assert(tree_exists(used));
    ck_assert_int_lt(scratch_make(&path, &err), 0); /* it is there */
    (void)close(fd);
    free(left);
    free(young);
    free(used);
    end();
}
END_TEST

static Suite *make_suite(void)
{
    Suite *s = suite_create("node_programs");
    TCase *c = tcase_create("node_programs");

    tcase_add_test(c, test_files_are_made);
    tcase_add_test(c, test_what_is_malformed_is_refused);
    tcase_add_test(c, test_what_was_left_is_removed);
    suite_add_tcase(s, c);
    return s;
}

TEST_MAIN(make_suite)
