#include "supervisor/run/change_plan.h"
#include "tests/support/temp_dir.h"
#include "tests/support/test_main.h"

#include <stdlib.h>
#include <string.h>

static struct err err;

static struct run_config base(void)
{
    static const char text[] = "env: {id: none}\n"
                               "agents: {a: {observation: 1, action: 1}}\n";
    struct run_config c;

    ck_assert_msg(run_config_parse(&c, text, strlen(text), "f", NULL, &err) == 0, "%s",
                  err.msg);
    return c;
}

/* In the order of their steps, and as they came where those are equal. */
START_TEST(changes_have_an_order)
{
    struct change_plan p = {0};
    struct run_config was = base(), is;

    ck_assert_uint_eq(change_plan_next(&p), UINT64_MAX);
    change_plan_add(&p, 40, "defaults.polyak=0.4");
    change_plan_add(&p, 20, "defaults.polyak=0.2,defaults.discount=0.5");
    change_plan_add(&p, 20, "defaults.polyak=0.3");
    ck_assert_uint_eq(change_plan_next(&p), 20);
    ck_assert_int_eq(change_plan_fold(&p, 19, &was, NULL, &is, &err), 0);
    ck_assert(is.agents[0].polyak == 0.01);
    run_config_done(&is);
    ck_assert_int_eq(change_plan_fold(&p, 20, &was, NULL, &is, &err), 0);
    ck_assert(is.agents[0].polyak == 0.3 && is.agents[0].discount == 0.5);
    run_config_done(&is);
    ck_assert_int_eq(change_plan_fold(&p, UINT64_MAX, &was, NULL, &is, &err), 0);
    ck_assert(is.agents[0].polyak == 0.4 && is.agents[0].discount == 0.5);
    change_plan_drop(&p, 20);
    ck_assert_uint_eq(change_plan_next(&p), 40);
    change_plan_done(&p);
    run_config_done(&was);
    run_config_done(&is);
}
END_TEST

START_TEST(a_change_that_is_wrong_is_told)
{
    struct change_plan p = {0};
    struct run_config was = base(), is;

    change_plan_add(&p, 1, "defaults.polyak=0.4");
    change_plan_add(&p, 2, "defaults.polyak=3");
    ck_assert_int_eq(change_plan_fold(&p, 2, &was, NULL, &is, &err), ERR_CONFIG);
    ck_assert_ptr_nonnull(strstr(err.msg, "polyak"));
    ck_assert(is.agents == NULL);
    change_plan_done(&p);
    run_config_done(&was);
}
END_TEST

START_TEST(lengths_are_left_out)
{
    struct change_plan p = {0};

    change_plan_add(&p, 1, "run.env_steps=,run.episodes=3,defaults.polyak=0.4");
    change_plan_add(&p, 2, "run.env_steps=3");
    change_plan_drop_lengths(&p);
    ck_assert_str_eq(p.list[0].text, "defaults.polyak=0.4");
    ck_assert_str_eq(p.list[1].text, "");
    change_plan_done(&p);
}
END_TEST

static int read_journal(struct change_plan *p, const char *text, uint64_t from)
{
    struct temp_dir dir;
    FILE *f;
    int rc;

    temp_dir_init(&dir);
    f = fopen(temp_dir_file(&dir, "journal"), "w");
    ck_assert_ptr_nonnull(f);
    ck_assert_int_ge(fputs(text, f), 0);
    ck_assert_int_eq(fclose(f), 0);
    rc = change_plan_read(p, temp_dir_file(&dir, "journal"), from, &err);
    temp_dir_done(&dir);
    return rc;
}

/* What was agreed for an earlier step is in the checkpoint; a line that was cut off was
 * not agreed. */
START_TEST(the_journal_tells_what_was_agreed)
{
    struct change_plan p = {0};

    ck_assert_int_eq(
        read_journal(&p,
                     "2026-01-31T12:00:00.123Z step=10 event=set at=10 changes=a=1\n"
                     "2026-01-31T12:00:00.123Z step=11 event=spawn agent=x at=9\n"
                     "2026-01-31T12:00:00.123Z step=20 event=set at=90 changes=b=1,c=2\n"
                     "2026-01-31T12:00:00.123Z step=20 event=set at=20 changes=d=3\n"
                     "2026-01-31T12:00:00.123Z step=20 event=set at=20 changes=e=3",
                     20),
        0);
    ck_assert_uint_eq(p.n, 2);
    ck_assert(p.list[0].at == 90 && p.list[1].at == 20);
    ck_assert_str_eq(p.list[0].text, "b=1,c=2");
    ck_assert_str_eq(p.list[1].text, "d=3");
    change_plan_done(&p);
}
END_TEST

START_TEST(a_journal_that_is_none)
{
    struct change_plan p = {0};

    ck_assert_int_eq(change_plan_read(&p, "/nowhere/journal", 0, &err), 0);
    ck_assert_int_eq(read_journal(&p, "x event=set at=soon changes=a=1\n", 0),
                     ERR_FORMAT);
    ck_assert_ptr_nonnull(strstr(err.msg, "journal:1"));
    ck_assert_int_eq(read_journal(&p, "x\nx event=set at=1\n", 0), ERR_FORMAT);
    ck_assert_uint_eq(p.n, 0);
    change_plan_done(&p);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *s = suite_create("change_plan");
    TCase *tc = tcase_create("change_plan");

    tcase_add_test(tc, changes_have_an_order);
    tcase_add_test(tc, a_change_that_is_wrong_is_told);
    tcase_add_test(tc, lengths_are_left_out);
    tcase_add_test(tc, the_journal_tells_what_was_agreed);
    tcase_add_test(tc, a_journal_that_is_none);
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(make_suite)
