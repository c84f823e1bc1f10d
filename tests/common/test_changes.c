#include "common/config/changes.h"
#include "tests/support/test_main.h"

#include <stdlib.h>
#include <string.h>

static struct err err;

static int two_agents(void *ctx, const struct env_config *env,
                      const char *const **ret_names, struct err *e)
{
    static const char *const names[] = {"agent_0", "agent_1"};

    *ret_names = names;
    return 2;
}

static const char base_text[] = "env: {id: simple_spread}\n"
                                "defaults: {polyak: 0.02}\n"
                                "agents: {agent_1: {optimizer: {learning_rate: 0.5}}}\n";

static struct run_config base(void)
{
    const struct config_options options = {.env_names = two_agents};
    struct run_config c;

    ck_assert_msg(
        run_config_parse(&c, base_text, strlen(base_text), "f", &options, &err) == 0,
        "%s", err.msg);
    return c;
}

/* Returns `from` with these assignments, which must be valid. */
static struct run_config assigned(const struct run_config *from, const char *const *set,
                                  size_t n)
{
    struct run_config c;

    ck_assert_msg(run_config_set(&c, from, set, n, &err) == 0, "%s", err.msg);
    return c;
}

/* Of an agent, of `defaults` and of the run: the rest of the list stays. */
START_TEST(a_part_of_a_list_is_assigned)
{
    static const char *const set[] = {
        "run.seed=81985529216486895", "agents.agent_1.critic.hidden.0=5",
        "agents.agent_1.actor.hidden.1=6", "defaults.critic.hidden.1=7"};
    struct run_config was = base(), seeded = assigned(&was, set, 1),
                      is = assigned(&seeded, set + 1, 3);

    ck_assert(is.agents[1].critic.hidden.n == 2 &&
              is.agents[1].critic.hidden.size[0] == 5);
    ck_assert(is.agents[1].critic.hidden.size[1] == 64);
    ck_assert(is.agents[1].actor.hidden.size[0] == 64);
    ck_assert(is.agents[1].actor.hidden.size[1] == 6);
    ck_assert(is.agents[0].critic.hidden.size[1] == 7);
    run_config_done(&is);
    run_config_done(&seeded);
    run_config_done(&was);
}
END_TEST

/* Writes the changes, "kind agent path key=text;" each. */
static void note(const struct run_config *was, const struct run_config *is,
                 char seen[1000])
{
    struct config_diff d;
    size_t len = 0;

    run_config_diff(&d, was, is, 0);
    seen[0] = '\0';
    for (size_t i = 0; i < d.n; i++) {
        const struct config_change *c = &d.list[i];

        ck_assert_uint_lt(len, 900);
        len += (size_t)snprintf(seen + len, 1000 - len, "%d %zu %s %s=%s;", (int)c->kind,
                                c->agent, c->path, c->key, c->text);
    }
    config_diff_done(&d);
}

static void assert_seen(const char *const *set, size_t n, const char *expected)
{
    struct run_config was = base(), is = assigned(&was, set, n);
    char seen[1000];

    note(&was, &is, seen);
    ck_assert_str_eq(seen, expected);
    run_config_done(&was);
    run_config_done(&is);
}

START_TEST(nothing_differs_from_itself)
{
    assert_seen(NULL, 0, "");
}
END_TEST

START_TEST(an_agents_learning_rate)
{
    const char *set[] = {"agents.agent_0.optimizer.learning_rate=0.001"};

    ck_assert_int_eq(CHANGE_SETTING, 2);
    assert_seen(set, 1,
                "2 0 agents.agent_0.optimizer.learning_rate "
                "optimizer.learning_rate=0.001;");
}
END_TEST

/* The change of a default is reported for every agent without a value of its own. */
START_TEST(a_default_reaches_those_who_follow)
{
    const char *set[] = {"defaults.optimizer.learning_rate=0.001"};

    assert_seen(set, 1,
                "2 2 defaults.optimizer.learning_rate "
                "optimizer.learning_rate=0.001;"
                "2 0 agents.agent_0.optimizer.learning_rate "
                "optimizer.learning_rate=0.001;");
}
END_TEST

START_TEST(each_kind_of_key)
{
    const char *set[] = {"log.every_env_steps=500", "env.copies=8",
                         "agents.agent_0.settings.clip_by=global",
                         "agents.agent_1.clip_norm=none"};

    assert_seen(set, 4,
                "0 2 env.copies env.copies=8;"
                "1 2 log.every_env_steps log.every_env_steps=500;"
                "3 0 agents.agent_0.settings.clip_by settings.clip_by=global;"
                "2 1 agents.agent_1.clip_norm clip_norm=none;");
}
END_TEST

START_TEST(steps_give_way_to_episodes)
{
    const char *set[] = {"run.env_steps=", "run.episodes=40"};

    assert_seen(set, 2,
                "1 2 run.env_steps run.env_steps=;1 2 run.episodes run.episodes=40;");
}
END_TEST

/* An optimizer of its own has separate variables, so its appearance is one change. */
START_TEST(a_networks_optimizer_is_one_change)
{
    const char *set[] = {"agents.agent_0.critic.optimizer.learning_rate=0.1"};

    assert_seen(set, 1, "0 0 agents.agent_0.critic.optimizer critic.optimizer=;");
}
END_TEST

START_TEST(a_mistake_is_said_as_at_start)
{
    static const struct {
        const char *set, *says;
    } cases[] = {
        {"agents.agent_0.optimizer.learning_rat=1", "did you mean 'learning_rate'?"},
        {"agents.agent_7.polyak=0.1", "expected agent_0, agent_1 or agent"},
        {"agents.agent_0.polyak=2", "a number of at least 0 and at most 1"},
        {"defaults.optimizer.momentum=0.5", "no setting of the optimizer adam"},
        {"run.episodes=3", "both given"},
        {"polyak", "expected KEY=VALUE"},
    };
    struct run_config was = base(), is;

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        ck_assert_int_eq(run_config_set(&is, &was, &cases[i].set, 1, &err), ERR_CONFIG);
        ck_assert_msg(strstr(err.msg, cases[i].says) != NULL, "%s", err.msg);
        ck_assert(is.agents == NULL);
    }
    run_config_done(&was);
}
END_TEST

/* Setting the differences from `was` one by one makes the same configuration. */
static void assert_round_trip(const char *const *set, size_t n, const char *expected)
{
    struct run_config was = base(), is = assigned(&was, set, n), again;
    struct config_settings differences = {0};
    char *text, *wanted, *got;

    run_config_diff_settings(&differences, &was, &is, ~0u);
    text = config_settings_text(&differences);
    ck_assert_str_eq(text, expected);
    run_config_copy(&again, &was);
    for (size_t i = 0; i < differences.n; i++)
        run_config_apply(&again, &differences.list[i]);
    wanted = run_config_to_yaml(&is);
    got = run_config_to_yaml(&again);
    ck_assert_str_eq(got, wanted);
    config_settings_done(&differences);
    free(text);
    free(wanted);
    free(got);
    run_config_done(&was);
    run_config_done(&is);
    run_config_done(&again);
}

/* Assigning values to a configuration gives the same result as reading its file again
 * with the values as options. */
START_TEST(assigning_is_as_reading_the_file_anew)
{
    static const char *const sets[][3] = {
        {"defaults.polyak=0.5"},
        {"defaults.polyak=0.5", "agents.agent_0.polyak=0.02"},
        {"agents.agent_0.polyak=0.5", "agents.agent_0.polyak="},
        {"agents.agent_1.optimizer.learning_rate="},
        {"agents.agent_1="},
        {"agents=", "defaults.discount=0.5"},
        {"agents.agent_0={polyak: 0.3, optimizer: {beta1: 0.5}}"},
        {"defaults.optimizer={learning_rate: 0.25}"},
        {"defaults.optimizer.beta1=0.5", "agents.agent_0.optimizer.beta1="},
        {"defaults.optimizer.beta1=0.5", "defaults.optimizer.beta1="},
        {"defaults.clip_norm=none", "agents.agent_1.clip_norm=2"},
        {"defaults.settings.temperature=", "defaults.settings.own_batches=true"},
        {"run.env_steps=", "run.episodes=40"},
        {"run.episodes=40", "run.env_steps="},
        {"run.env_steps="},
        {"checkpoint.every_env_steps=", "checkpoint.every_seconds=60"},
        {"checkpoint.every_env_steps=0", "checkpoint.every_seconds=60"},
        {"log.every_env_steps=1e3", "experience.keep='true'"},
        {"defaults.memory_limit=512M", "agents.agent_1.respond_within=100ms"},
        {"defaults.restart={max_restarts: 9}", "defaults.restart.delay=1s"},
        {"env.params={agents: 2}", "env.params.agents=3"},
        {"defaults.actor.hidden=[8, 9]", "defaults.actor.hidden.1=7"},
        {"defaults.critic.activation=tanh", "env.copies=8"},
        {"experience={capacity: 5000, batch_size: 32, warmup: 100}"},
        {"defaults.optimizer.learning_rate=0.01 to 0 over 500"},
        {"defaults.settings.temperature={from: 1, to: 0.5, over: 1e3}",
         "agents.agent_0.settings.temperature=0.7"},
    };

    for (size_t i = 0; i < sizeof(sets) / sizeof(sets[0]); i++) {
        const size_t n = sets[i][1] == NULL ? 1 : 2;
        const struct config_options options = {
            .set = sets[i], .n_set = n, .env_names = two_agents};
        struct run_config was = base(), is = assigned(&was, sets[i], n), anew;
        char *text = run_config_to_yaml(&was), *wanted, *got;

        ck_assert_msg(run_config_parse(&anew, text, strlen(text), "f", &options, &err) ==
                          0,
                      "%s", err.msg);
        wanted = run_config_to_yaml(&anew);
        got = run_config_to_yaml(&is);
        ck_assert_msg(strcmp(got, wanted) == 0, "%s\n%s\n%s", sets[i][0], got, wanted);
        free(text);
        free(wanted);
        free(got);
        run_config_done(&was);
        run_config_done(&is);
        run_config_done(&anew);
    }
}
END_TEST

START_TEST(a_setting_is_read_and_written)
{
    static const struct {
        const char *text, *value;
    } good[] = {
        {"agents.agent_1.optimizer.learning_rate=1e-3", "0.001"},
        {"run.env_steps=", ""},
        {"run.episodes=1e3", "1000"},
        {"defaults.clip_norm=none", "none"},
        {"defaults.memory_limit=2048K", "2M"},
        {"defaults.memory_limit=300000001", "300000001B"}, /* of an older build */
        {"defaults.respond_within=2m", "120s"},
        {"experience.keep=auto", "auto"},
        {"agents.agent_0.settings.own_batches=true", "true"},
        {"defaults.optimizer.learning_rate=1e-3 to 0 over 2e6",
         "0.001 to 0 over 2000000"},
        {"defaults.settings.temperature={from: 1, to: 0.5, over: 100}",
         "1 to 0.5 over 100"},
    };
    static const char *const bad[] = {
        "defaults.polyak", "defaults.polyak=2", "defaults.polyak=",
        "polyak=0.1",      "env.copies=8",      "agents.agent_7.polyak=0.1",
        "defaults=3",      "agents=3",          "defaults.optimizer.type=sgd",
    };
    struct run_config c = base();
    struct config_setting s;

    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        char *value;

        ck_assert_msg(config_setting_parse(&s, &c, good[i].text, &err) == 0, "%s",
                      err.msg);
        value = config_setting_text(&s);
        ck_assert_str_eq(value, good[i].value);
        free(value);
        free(s.path);
    }
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        ck_assert_msg(config_setting_parse(&s, &c, bad[i], &err) == ERR_CONFIG, "%s",
                      bad[i]);
        ck_assert_ptr_null(s.path);
    }
    run_config_done(&c);
}
END_TEST

START_TEST(assignments_make_the_difference_again)
{
    const char *rate[] = {"defaults.optimizer.learning_rate=0.001"};
    const char *length[] = {"run.env_steps=", "run.episodes=7"};
    const char *falling[] = {"defaults.optimizer.learning_rate=0.1 to 0 over 9"};
    /* agent_0 keeps the old default */
    const char *stays[] = {"defaults.polyak=0.5", "agents.agent_0.polyak=0.02"};

    assert_round_trip(NULL, 0, "");
    assert_round_trip(rate, 1, "defaults.optimizer.learning_rate=0.001");
    assert_round_trip(falling, 1, "defaults.optimizer.learning_rate=0.1 to 0 over 9");
    assert_round_trip(length, 2, "run.env_steps=,run.episodes=7");
    assert_round_trip(stays, 2, "defaults.polyak=0.5,agents.agent_0.polyak=0.02");
}
END_TEST

START_TEST(kinds_are_told_apart)
{
    const char *set[] = {"agents.agent_0.polyak=0.5",
                         "agents.agent_0.optimizer.beta1=0.5"};
    struct run_config was = base(), is = assigned(&was, set, 2);
    struct config_settings waits = {0};

    run_config_diff_settings(&waits, &was, &is, 1u << CHANGE_RESPAWN);
    ck_assert_uint_eq(waits.n, 1);
    ck_assert_str_eq(waits.list[0].path, "agents.agent_0.optimizer.beta1");
    ck_assert(waits.list[0].value.real == 0.5);
    config_settings_done(&waits);
    run_config_done(&was);
    run_config_done(&is);
}
END_TEST

START_TEST(other_agents_are_another_run)
{
    static const char other[] =
        "env: {id: none}\nagents: {a: {observation: 1, action: 1}}";
    struct run_config was = base(), is;
    char seen[1000] = "";

    ck_assert_int_eq(run_config_parse(&is, other, strlen(other), "f", NULL, &err), 0);
    note(&was, &is, seen);
    ck_assert_ptr_nonnull(strstr(seen, "0 1 agents agents=;"));
    run_config_done(&was);
    run_config_done(&is);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *s = suite_create("changes");
    TCase *tc = tcase_create("changes");

    tcase_add_test(tc, a_part_of_a_list_is_assigned);
    tcase_add_test(tc, nothing_differs_from_itself);
    tcase_add_test(tc, an_agents_learning_rate);
    tcase_add_test(tc, a_default_reaches_those_who_follow);
    tcase_add_test(tc, each_kind_of_key);
    tcase_add_test(tc, steps_give_way_to_episodes);
    tcase_add_test(tc, a_networks_optimizer_is_one_change);
    tcase_add_test(tc, a_mistake_is_said_as_at_start);
    tcase_add_test(tc, assigning_is_as_reading_the_file_anew);
    tcase_add_test(tc, a_setting_is_read_and_written);
    tcase_add_test(tc, assignments_make_the_difference_again);
    tcase_add_test(tc, kinds_are_told_apart);
    tcase_add_test(tc, other_agents_are_another_run);
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(make_suite)
