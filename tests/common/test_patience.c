#include "common/io/patience.h"

#include "tests/support/temp_dir.h"
#include "tests/support/test_main.h"

#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

enum { OTHER = 65534, LIMIT_MS = 20 };

static struct temp_dir place;
static char own[256], theirs[256], another[256];

static void make(char path[256], const char *name, uid_t owner)
{
    (void)snprintf(path, 256, "%s/%s", place.path, name);
    ck_assert_int_eq(mkdir(path, 0700), 0);
    if (owner != geteuid() && geteuid() == 0)
        ck_assert_int_eq(chown(path, owner, owner), 0);
}

static void set_up(void)
{
    temp_dir_init(&place);
    make(own, "own", geteuid());
    make(theirs, "theirs", OTHER);
    make(another, "another", OTHER);
}

static void tear_down(void)
{
    ck_assert_int_eq(rmdir(own), 0);
    ck_assert_int_eq(rmdir(theirs), 0);
    ck_assert_int_eq(rmdir(another), 0);
    temp_dir_done(&place);
}

/* What patience_check says of a run, in which nothing else is done. */
static int look(const char *path)
{
    int rc;

    patience_enter(path);
    rc = patience_check(NULL);
    patience_leave();
    return rc;
}

START_TEST(own_runs_have_no_limit)
{
    patience_begin(LIMIT_MS);
    patience_enter(own);
    ck_assert_int_eq(patience_left_ms(), INT_MAX);
    ck_assert_int_eq(patience_check(NULL), 0);
    patience_leave();
    ck_assert_int_eq(patience_n_given_up(), 0);
}
END_TEST

START_TEST(a_run_counts_once_however_often_it_is_given_up)
{
    if (geteuid() != 0) /* who cannot make a folder of another user */
        return;
    patience_begin(LIMIT_MS);
    patience_enter(theirs);
    ck_assert_int_le(patience_left_ms(), LIMIT_MS);
    while (patience_check(NULL) == 0) /* the time of all runs of others */
        continue;
    ck_assert_int_eq(patience_n_given_up(), 1);
    patience_leave();
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(look(theirs), ERR_TIMEOUT);
    ck_assert_int_eq(patience_n_given_up(), 1);
    ck_assert_int_eq(look(own), 0);
    ck_assert_int_eq(look(theirs), ERR_TIMEOUT);
    ck_assert_int_eq(patience_n_given_up(), 1);
    ck_assert_int_eq(look(another), ERR_TIMEOUT);
    ck_assert_int_eq(patience_n_given_up(), 2);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *s = suite_create("patience");
    TCase *tc = tcase_create("patience");

    tcase_add_checked_fixture(tc, set_up, tear_down);
    tcase_add_test(tc, own_runs_have_no_limit);
    tcase_add_test(tc, a_run_counts_once_however_often_it_is_given_up);
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(make_suite)
