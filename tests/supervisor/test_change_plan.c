#include "supervisor/begin/change_proposal.h"
#include "supervisor/begin/change_read.h"
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

static void add(struct change_plan *p, uint64_t at, const char *text)
{
    struct run_config c = base();
    struct config_setting set;

    ck_assert_msg(config_setting_parse(&set, &c, text, &err) == 0, "%s", err.msg);
    change_plan_add(p, at, &set);
    free(set.path);
    run_config_done(&c);
}

/* The plan as "key=value@step ...". */
static void assert_plan(const struct change_plan *p, const char *expected)
{
    char *text = NULL;
    size_t len = 0;
    FILE *f = open_memstream(&text, &len);

    ck_assert_ptr_nonnull(f);
    for (size_t i = 0; i < p->n; i++) {
        char *value = config_setting_text(&p->list[i].set);

        (void)fprintf(f, "%s%s=%s@%d", i > 0 ? " " : "", p->list[i].set.path, value,
                      (int)p->list[i].at);
        free(value);
    }
    ck_assert_int_eq(fclose(f), 0);
    ck_assert_str_eq(text, expected);
    free(text);
}

/* Changes are in the order of their steps, and for equal steps in the order of their
 * arrival. */
START_TEST(changes_have_an_order)
{
    struct change_plan p = {0};
    struct run_config was = base(), is;

    ck_assert_uint_eq(change_plan_next(&p), UINT64_MAX);
    add(&p, 40, "defaults.polyak=0.4");
    add(&p, 20, "defaults.polyak=0.2");
    add(&p, 20, "defaults.discount=0.5");
    add(&p, 20, "defaults.polyak=0.3");
    ck_assert_uint_eq(change_plan_next(&p), 20);
    ck_assert_int_eq(change_plan_fold(&p, 19, &was, &is, &err), 0);
    ck_assert(is.agents[0].polyak == 0.01);
    run_config_done(&is);
    ck_assert_int_eq(change_plan_fold(&p, 20, &was, &is, &err), 0);
    ck_assert(is.agents[0].polyak == 0.3 && is.agents[0].discount == 0.5);
    run_config_done(&is);
    ck_assert_int_eq(change_plan_fold(&p, UINT64_MAX, &was, &is, &err), 0);
    ck_assert(is.agents[0].polyak == 0.4 && is.agents[0].discount == 0.5);
    change_plan_drop(&p, 20);
    ck_assert_uint_eq(change_plan_next(&p), 40);
    change_plan_done(&p);
    run_config_done(&was);
    run_config_done(&is);
}
END_TEST

/* Each change alone may be valid. */
START_TEST(changes_that_do_not_go_together)
{
    struct change_plan p = {0};
    struct run_config was = base(), is;

    add(&p, 1, "run.env_steps=9");
    add(&p, 2, "run.episodes=3");
    ck_assert_int_eq(change_plan_fold(&p, 1, &was, &is, &err), 0);
    run_config_done(&is);
    ck_assert_int_eq(change_plan_fold(&p, 2, &was, &is, &err), ERR_CONFIG);
    ck_assert_ptr_nonnull(strstr(err.msg, "both given"));
    ck_assert(is.agents == NULL);
    add(&p, 2, "run.env_steps=");
    ck_assert_int_eq(change_plan_fold(&p, 2, &was, &is, &err), 0);
    change_plan_done(&p);
    run_config_done(&was);
    run_config_done(&is);
}
END_TEST

START_TEST(lengths_are_left_out)
{
    struct change_plan p = {0};

    add(&p, 1, "run.env_steps=");
    add(&p, 1, "run.episodes=3");
    add(&p, 1, "defaults.polyak=0.4");
    add(&p, 2, "run.env_steps=3");
    change_plan_drop_lengths(&p);
    assert_plan(&p, "defaults.polyak=0.4@1");
    change_plan_done(&p);
}
END_TEST

/* A schedule ends where its key gets another value, whichever was planned first. */
START_TEST(a_schedule_becomes_a_change_for_each_of_its_steps)
{
    struct change_plan p = {0}, copy;
    struct run_config was = base(), is;

    add(&p, 3, "defaults.polyak=0.5");
    add(&p, 1, "defaults.polyak=0 to 0.5 over 5");
    add(&p, 0, "defaults.discount=1 to 0 over 4");
    assert_plan(&p, "defaults.discount=1 to 0 over 4@0 "
                    "defaults.polyak=0 to 0.5 over 5@1 defaults.discount=1 to 0 over 4@1 "
                    "defaults.polyak=0 to 0.5 over 5@2 defaults.discount=1 to 0 over 4@2 "
                    "defaults.polyak=0.5@3 defaults.discount=1 to 0 over 4@3 "
                    "defaults.discount=1 to 0 over 4@4");
    ck_assert(p.list[0].part == CHANGE_BEGINS && p.list[1].part == CHANGE_BEGINS &&
              p.list[2].part == CHANGE_MIDWAY && p.list[3].part == CHANGE_ENDS &&
              p.list[7].part == CHANGE_ENDS);
    change_plan_copy(&copy, &p);
    add(&copy, 2, "defaults.discount=0.3");
    assert_plan(&copy, "defaults.discount=1 to 0 over 4@0 "
                       "defaults.polyak=0 to 0.5 over 5@1 defaults.discount=1 to 0 over "
                       "4@1 defaults.polyak=0 to 0.5 over 5@2 defaults.discount=0.3@2 "
                       "defaults.polyak=0.5@3");
    ck_assert_int_eq(change_plan_fold(&copy, 1, &was, &is, &err), 0);
    ck_assert(is.agents[0].polyak == 0.1 && is.agents[0].discount == 0.75);
    run_config_done(&is);
    ck_assert_int_eq(change_plan_fold(&copy, UINT64_MAX, &was, &is, &err), 0);
    ck_assert(is.agents[0].polyak == 0.5 && is.agents[0].discount == 0.3);
    run_config_done(&is);
    change_plan_done(&copy);
    change_plan_done(&p);
    run_config_done(&was);
}
END_TEST

/* The remaining requests as "key=value@step ...", in their order. */
static void assert_requests(const struct change_plan *p, const char *expected)
{
    char *text = NULL;
    size_t len = 0;
    FILE *f = open_memstream(&text, &len);
    const struct planned_change **requests;
    size_t n;

    ck_assert_ptr_nonnull(f);
    requests = change_plan_requests(p, &n);
    for (size_t i = 0; i < n; i++) {
        char *value = config_setting_text(&requests[i]->set);

        (void)fprintf(f, "%s=%s@%d ", requests[i]->set.path, value, (int)requests[i]->at);
        free(value);
    }
    free(requests);
    ck_assert_int_eq(fclose(f), 0);
    ck_assert_str_eq(text, expected);
    free(text);
}

static int read_journal(struct change_plan *p, const char *text, uint64_t from,
                        size_t max, size_t *ret_n)
{
    struct run_config of = base();
    struct change_source journal;
    struct temp_dir dir;
    FILE *f;
    int rc;

    temp_dir_init(&dir);
    f = fopen(temp_dir_file(&dir, "journal"), "w");
    ck_assert_ptr_nonnull(f);
    ck_assert_int_ge(fputs(text, f), 0);
    ck_assert_int_eq(fclose(f), 0);
    journal = change_source_of(temp_dir_file(&dir, "journal"));
    rc = change_plan_read(p, &of, &journal, from, max, ret_n, &err);
    temp_dir_done(&dir);
    run_config_done(&of);
    return rc;
}

/* Changes of steps before the checkpoint's are in the checkpoint; a line that was cut off
 * was not committed. */
START_TEST(the_journal_tells_what_was_agreed)
{
    struct change_plan p = {0};
    size_t n;

    ck_assert_int_eq(
        read_journal(&p,
                     "2026-01-31T12:00:00.123Z step=10 event=set at=10 "
                     "changes=a.b=1\n"
                     "2026-01-31T12:00:00.123Z step=11 event=spawn agent=x at=9\n"
                     "2026-01-31T12:00:00.123Z step=20 event=set at=90 "
                     "changes=defaults.polyak=0.5,run.episodes=2\n"
                     "2026-01-31T12:00:00.123Z step=20 event=set at=20 "
                     "changes=agents.a.clip_norm=none\n"
                     "2026-01-31T12:00:00.123Z step=20 event=set at=20 changes=e=3",
                     20, SIZE_MAX, &n),
        0);
    ck_assert_uint_eq(n, 2);
    assert_plan(&p,
                "agents.a.clip_norm=none@20 defaults.polyak=0.5@90 run.episodes=2@90");
    change_plan_done(&p);
}
END_TEST

/* A cancel line applies only to earlier lines, and only to its key and step. */
START_TEST(the_journal_tells_what_was_cancelled)
{
    static const char text[] =
        "t step=1 event=set at=20 changes=defaults.polyak=0.1\n"
        "t step=2 event=set at=30 changes=defaults.polyak=0.2,defaults.discount=0.5\n"
        "t step=3 event=cancel changes=defaults.polyak@30,agents.a.optimizer.beta1\n"
        "t step=4 event=set at=30 changes=defaults.polyak=0.3\n";
    struct change_plan p = {0};
    size_t n;

    ck_assert_int_eq(read_journal(&p, text, 10, SIZE_MAX, &n), 0);
    ck_assert_uint_eq(n, 4);
    assert_plan(&p, "defaults.polyak=0.1@20 defaults.discount=0.5@30 "
                    "defaults.polyak=0.3@30");
    change_plan_done(&p);
    ck_assert_int_eq(read_journal(&p, text, 10, 3, NULL), 0);
    assert_plan(&p, "defaults.polyak=0.1@20 defaults.discount=0.5@30");
    change_plan_done(&p);
    ck_assert_int_eq(read_journal(&p, text, 10, 2, NULL), 0);
    assert_plan(&p, "defaults.polyak=0.1@20 defaults.polyak=0.2@30 "
                    "defaults.discount=0.5@30");
    change_plan_done(&p);
    ck_assert_int_eq(read_journal(&p,
                                  "t step=3 event=cancel changes=defaults.polyak@soon\n",
                                  0, SIZE_MAX, NULL),
                     ERR_FORMAT);
}
END_TEST

/* A run that resumes in the middle of a schedule continues it, unless it was ended. */
START_TEST(the_journal_tells_of_schedules)
{
    static const char text[] =
        "t step=0 event=set at=1 changes=\"defaults.polyak=0 to 1 over 5\"\n"
        "t step=0 event=set at=1 changes=\"defaults.discount=1 to 0.5 over 5\"\n"
        "t step=0 event=set at=1 changes=\"agents.a.clip_norm=5 to 1 over 4\"\n"
        "t step=2 event=set at=2 changes=defaults.polyak=0.5,no.such=key\n"
        "t step=3 event=cancel changes=defaults.discount@4\n";
    struct change_plan p = {0};
    size_t n;

    ck_assert_int_eq(read_journal(&p, text, 3, SIZE_MAX, &n), 0);
    ck_assert_uint_eq(n, 1);
    assert_requests(&p, "defaults.discount=1 to 0.5 over 5@3 "
                        "agents.a.clip_norm=5 to 1 over 4@3 ");
    ck_assert_uint_eq(p.n, 3);
    change_plan_done(&p);
    ck_assert_int_eq(read_journal(&p, text, 3, 0, &n), 0);
    ck_assert_uint_eq(p.n, 5);
    change_plan_done(&p);
    ck_assert_int_eq(read_journal(&p, text, 1, SIZE_MAX, NULL), ERR_CONFIG);
    change_plan_done(&p);
}
END_TEST

START_TEST(a_journal_that_is_none)
{
    struct run_config of = base();
    struct change_plan p = {0};

    const struct change_source nowhere = change_source_of("/nowhere/journal");

    ck_assert_int_eq(change_plan_read(&p, &of, &nowhere, 0, SIZE_MAX, NULL, &err), 0);
    ck_assert_int_eq(read_journal(&p, "x event=set at=soon changes=defaults.polyak=1\n",
                                  0, SIZE_MAX, NULL),
                     ERR_FORMAT);
    ck_assert_ptr_nonnull(strstr(err.msg, "journal:1"));
    ck_assert_int_eq(read_journal(&p, "x\nx event=set at=1\n", 0, SIZE_MAX, NULL),
                     ERR_FORMAT);
    ck_assert_int_eq(
        read_journal(&p, "x\nx event=set at=1 changes=no.such=key\n", 0, SIZE_MAX, NULL),
        ERR_CONFIG);
    ck_assert_ptr_nonnull(strstr(err.msg, "line 2: no.such"));
    ck_assert_uint_eq(p.n, 0);
    change_plan_done(&p);
    run_config_done(&of);
}
END_TEST

static void count_cancelled(void *ctx, const struct planned_change *c)
{
    ck_assert_uint_eq(c->at, CHANGE_AT_RESPAWN);
    (*(int *)ctx)++;
}

/* Agents' names may have dots. */
START_TEST(a_default_that_waits_is_cancelled_for_all_its_agents)
{
    static const char text[] = "env: {id: none}\n"
                               "defaults: {observation: 1, action: 1}\n"
                               "agents: {a.b: {}, c: {}}\n";
    const char *const set[] = {"defaults.optimizer.beta1=0.5"},
                      *const key[] = {"defaults.optimizer.beta1"};
    struct change_plan none = {0};
    struct proposal p = {0}, back = {0};
    struct run_config c, is = {0};
    struct live_config live;
    uint8_t found = 0;
    int n = 0;

    ck_assert_msg(run_config_parse(&c, text, strlen(text), "f", NULL, &err) == 0, "%s",
                  err.msg);
    live = (struct live_config){
        .config = &c, .wanted = &c, .plan = &none, .next = 8, .run = "x"};
    ck_assert_msg(proposal_set(&p, &live, set, 1, PROPOSAL_SOON, &is, &err) == 0, "%s",
                  err.msg);
    ck_assert_str_eq(p.new_waits, set[0]);
    ck_assert_uint_eq(p.plan.n, 3); /* the default's, and two agents' */
    live.wanted = &p.wanted;
    live.plan = &p.plan;
    ck_assert_int_eq(
        proposal_cancel(&back, &live, key, 1, &found, count_cancelled, &n, &err), 0);
    ck_assert_int_eq(found, 1);
    ck_assert_int_eq(n, 2);
    ck_assert_uint_eq(back.plan.n, 0);
    ck_assert(back.wanted.agents[0].optimizer.beta1 == c.agents[0].optimizer.beta1);
    proposal_done(&p);
    proposal_done(&back);
    run_config_done(&is);
    run_config_done(&c);
}
END_TEST

/* The value that the configuration has already ends the schedule of the agent a.b. */
START_TEST(a_default_is_set_again_while_an_agent_has_another_value_planned)
{
    static const char text[] = "env: {id: none}\n"
                               "defaults: {observation: 1, action: 1}\n"
                               "agents: {a.b: {}, c: {}}\n";
    const char *const planned[] = {"agents.a.b.discount=0.5"},
                      *const set[] = {"defaults.discount=0.95"};
    struct change_plan none = {0};
    struct proposal p = {0}, again = {0};
    struct run_config c, is = {0}, back = {0};
    struct live_config live;

    ck_assert_msg(run_config_parse(&c, text, strlen(text), "f", NULL, &err) == 0, "%s",
                  err.msg);
    ck_assert(c.defaults.discount == 0.95);
    live = (struct live_config){
        .config = &c, .wanted = &c, .plan = &none, .next = 8, .run = "x"};
    ck_assert_msg(proposal_set(&p, &live, planned, 1, 100, &is, &err) == 0, "%s",
                  err.msg);
    live.wanted = &p.wanted;
    live.plan = &p.plan;
    ck_assert_msg(proposal_set(&again, &live, set, 1, 200, &back, &err) == 0, "%s",
                  err.msg);
    ck_assert_uint_eq(again.changes.n, 1);
    ck_assert_str_eq(again.changes.list[0].path, "defaults.discount");
    proposal_done(&p);
    proposal_done(&again);
    run_config_done(&is);
    run_config_done(&back);
    run_config_done(&c);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *s = suite_create("change_plan");
    TCase *tc = tcase_create("change_plan");

    tcase_add_test(tc, changes_have_an_order);
    tcase_add_test(tc, changes_that_do_not_go_together);
    tcase_add_test(tc, lengths_are_left_out);
    tcase_add_test(tc, the_journal_tells_what_was_agreed);
    tcase_add_test(tc, the_journal_tells_what_was_cancelled);
    tcase_add_test(tc, a_schedule_becomes_a_change_for_each_of_its_steps);
    tcase_add_test(tc, the_journal_tells_of_schedules);
    tcase_add_test(tc, a_journal_that_is_none);
    tcase_add_test(tc, a_default_that_waits_is_cancelled_for_all_its_agents);
    tcase_add_test(tc, a_default_is_set_again_while_an_agent_has_another_value_planned);
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(make_suite)
