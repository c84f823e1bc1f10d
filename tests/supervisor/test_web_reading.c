/* Readings of runs' files on threads (supervisor/web/reading.h). */
#include "supervisor/web/reading.h"
#include "tests/support/test_main.h"

#include <stdlib.h>

enum { N = 3 };

static struct reading readings[N];
static int n_freed;
static uv_sem_t may_end;
static struct readings *all;

static void wait_for_test(struct reading *r)
{
    uv_sem_wait(&may_end);
}

static void on_end(struct reading *r, const struct err *why)
{
    ck_abort_msg("a server that closes has told somebody");
}

static void add(size_t i);

/* The second one is added again, as the third, when it is freed: as a run is that somebody wants to
 * look at once more. */
static void on_free(struct reading *r)
{
    n_freed++;
    if (r == &readings[1])
        add(2);
}

static void add(size_t i)
{
    readings[i] = (struct reading){READING_VIEW, "/", wait_for_test, on_end, on_free};
    reading_add(all, &readings[i]);
}

START_TEST(test_closing_frees_what_waits_and_what_is_added_by_that)
{
    uv_loop_t loop;

    ck_assert_int_eq(uv_loop_init(&loop), 0);
    ck_assert_int_eq(uv_sem_init(&may_end, 0), 0);
    all = readings_new(&loop);
    add(0); /* its thread waits for the test, and the others of its directory for it */
    add(1);
    readings_close(all);
    ck_assert_int_eq(n_freed, 2);
    uv_sem_post(&may_end);
    (void)uv_run(&loop, UV_RUN_DEFAULT);
    ck_assert_int_eq(n_freed, 3);
    readings_end(all);
    (void)uv_run(&loop, UV_RUN_DEFAULT);
    readings_free(all);
    ck_assert_int_eq(uv_loop_close(&loop), 0);
    uv_sem_destroy(&may_end);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *s = suite_create("web_reading");
    TCase *t = tcase_create("web_reading");

    tcase_add_test(t, test_closing_frees_what_waits_and_what_is_added_by_that);
    suite_add_tcase(s, t);
    return s;
}
TEST_MAIN(make_suite)
