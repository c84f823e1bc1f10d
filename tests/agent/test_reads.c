/* Agents declare the columns of the experience log that they read, and read no others. */
#include "tests/support/team.h"
#include "tests/support/test_main.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

enum { ROWS = 8 };

/* Lists each declared column once, in alphabetical order, with a space after each. */
static void list(const struct reads *r, char *ret, size_t size)
{
    char names[64][STORE_COLUMN_NAME_MAX], name[STORE_COLUMN_NAME_MAX];
    size_t n = 0;

    for (size_t i = 0; i < r->n; i++) {
        size_t at = n;

        if (!reads_is_first(r, i))
            continue;
        ck_assert_uint_lt(n, 64);
        reads_name(r, i, name);
        for (; at > 0 && strcmp(names[at - 1], name) > 0; at--)
            memcpy(names[at], names[at - 1], sizeof(name));
        memcpy(names[at], name, sizeof(name));
        n++;
    }
    *ret = '\0';
    for (size_t i = 0; i < n; i++)
        (void)snprintf(ret + strlen(ret), size - strlen(ret), "%s ", names[i]);
}

#define OWN      "agent_0/action agent_0/alive "
#define OWN_OBS  "agent_0/next_obs agent_0/obs "
#define OWN_ENDS "agent_0/reward agent_0/terminated "
#define PLAYED   OWN OWN_OBS OWN_ENDS
#define OTHER    "agent_1/action agent_1/next_obs agent_1/obs "

static const struct {
    const char *config;
    int is_masked;
    const char *reads; /* expected, of the first of two agents */
} cases[] = {
    {"algorithm: iql", 0, PLAYED},
    {"algorithm: iql", 1, OWN "agent_0/next_allowed " OWN_OBS OWN_ENDS},
    {"algorithm: ddpg", 0, PLAYED},
    {"algorithm: maddpg", 0, PLAYED OTHER},
    {"algorithm: maddpg, settings: {reward_scale: running}", 0, PLAYED OTHER},
    {"algorithm: matd3", 1,
     OWN "agent_0/allowed agent_0/next_allowed " OWN_OBS OWN_ENDS OTHER},
    {"algorithm: maddpg, critic: {input: own}", 0, PLAYED},
    {"algorithm: isac", 0, PLAYED},
    {"algorithm: masac", 0, PLAYED OTHER},
    {"algorithm: vdn", 0, PLAYED "agent_1/alive agent_1/reward agent_1/terminated "},
    {"algorithm: qmix", 0, PLAYED},
    {"algorithm: ippo", 0, OWN "agent_0/log_prob " OWN_OBS OWN_ENDS "first truncated "},
    {"algorithm: mappo", 0,
     OWN "agent_0/log_prob " OWN_OBS OWN_ENDS
         "agent_1/next_obs agent_1/obs first truncated "},
    {"algorithm: coma", 0,
     OWN "agent_0/log_prob " OWN_OBS OWN_ENDS
         "agent_1/action agent_1/alive agent_1/next_obs agent_1/obs first truncated "},
    {"algorithm: random", 0, "agent_0/alive agent_0/next_obs agent_0/terminated "},
    {"algorithm: noop", 1,
     "agent_0/alive agent_0/next_allowed agent_0/next_obs agent_0/terminated "},
};

static struct team *make(size_t i, int share)
{
    char config[256];
    struct team_args args;

    (void)snprintf(config, sizeof(config), "{%s}", cases[i].config);
    args = team_spread(config, ROWS);
    args.n = 2;
    args.space.masked = cases[i].is_masked;
    args.window_rows = ROWS;
    args.max_steps = ROWS;
    args.share = share;
    return team_new(&args);
}

START_TEST(test_what_is_declared)
{
    struct team *t = make((size_t)_i, 0);
    char found[2048];

    list(&t->members[0].reads, found, sizeof(found));
    ck_assert_str_eq(found, cases[_i].reads);
    team_free(t);
}
END_TEST

/* Each member also reads the rewards of all agents that share the scale; the ps reads
 * nothing. */
START_TEST(test_a_group_that_shares_parameters)
{
    struct team_args args =
        team_spread("{algorithm: iql, settings: {reward_scale: running}}", ROWS);
    struct team *t;
    char found[2048];

    args.n = 2;
    args.share = 1;
    t = team_new(&args);
    list(&t->members[0].reads, found, sizeof(found));
    ck_assert_str_eq(found, PLAYED "agent_1/alive agent_1/reward ");
    ck_assert_uint_eq(t->members[2].reads.n, 0);
    team_free(t);
}
END_TEST

START_TEST(test_a_column_that_the_log_lacks)
{
    struct team *t = make(0, 0);
    struct reads r = {0};
    struct err err;
    int place;

    reads_add(&r, "agent_0", "obs", 17, &place);
    ck_assert_int_eq(reads_find(&r, &t->layout, &err), ERR_SHAPE);
    reads_done(&r);
    reads_add(&r, NULL, "weather", 1, &place);
    ck_assert_int_eq(reads_find(&r, &t->layout, &err), ERR_NOT_FOUND);
    ck_assert_ptr_nonnull(strstr(err.msg, "no column weather"));
    reads_done(&r);
    team_free(t);
}
END_TEST

/* The process aborts. */
START_TEST(test_an_undeclared_read)
{
    struct team *t = make(0, 0);
    const uint64_t row = 0;
    float x[18];

    reads_restrict(&t->members[0].reads, t->store);
    store_view_gather(t->store, store_layout_find(&t->layout, "agent_0", "obs"), &row, 1,
                      x, 18);
    store_view_gather(t->store, store_layout_find(&t->layout, "agent_1", "obs"), &row, 1,
                      x, 18);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *s = suite_create("reads");
    TCase *c = tcase_create("reads");

    tcase_set_timeout(c, 120);
    tcase_add_loop_test(c, test_what_is_declared, 0, sizeof(cases) / sizeof(cases[0]));
    tcase_add_test(c, test_a_group_that_shares_parameters);
    tcase_add_test(c, test_a_column_that_the_log_lacks);
    tcase_add_test_raise_signal(c, test_an_undeclared_read, SIGABRT);
    suite_add_tcase(s, c);
    return s;
}

FORKING_TEST_MAIN(make_suite)
