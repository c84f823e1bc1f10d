/* The section `env` of external environments. */
#include "common/config/changes.h"
#include "common/config/run_config.h"
#include "common/config/yaml_tree.h"
#include "tests/support/test_main.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct err err;

/* The description that such an environment would return. */
static int two_agents(void *ctx, const struct env_config *env,
                      const char *const **ret_names, struct err *e)
{
    static const char *const names[] = {"agent_0", "agent_1"};

    if (env->command != NULL && strcmp(env->command->child[0]->text, "absent") == 0)
        return err_set(e, ERR_NOT_FOUND, "it does not start");
    if (env->command != NULL && strcmp(env->command->child[0]->text, "killed") == 0)
        return err_set(e, ERR_AGENT, "it was killed three times");
    *ret_names = names;
    return 2;
}

static int parse_with(struct run_config *c, const char *text)
{
    const struct config_options options = {.env_names = two_agents};

    err = (struct err){0};
    return run_config_parse(c, text, strlen(text), "f.yaml", &options, &err);
}

static struct run_config parse(const char *text)
{
    struct run_config c;
    int rc = parse_with(&c, text);

    ck_assert_msg(rc == 0, "%s", err.msg);
    return c;
}

START_TEST(a_command_has_its_own_defaults)
{
    struct run_config c = parse("env: {command: [python3, envs/hallway.py]}\n");
    char here[4096];

    ck_assert(env_config_is_external(&c.env) && c.env.plugin == NULL);
    ck_assert_str_eq(c.env.id, "command");
    ck_assert_str_eq(c.run.name, "hallway");
    ck_assert_uint_eq(c.env.command->n, 2);
    ck_assert_str_eq(c.env.command->child[1]->text, "envs/hallway.py");
    ck_assert(c.env.max_steps == 0 && c.env.copies == 32 && c.env.processes == 1);
    ck_assert(c.env.respond_within_s == 30 && c.env.memory_limit_bytes == 0);
    ck_assert(c.env.restart.policy == RESTART_PERMANENT &&
              c.env.restart.max_restarts == 5);
    ck_assert_str_eq(c.env.directory, getcwd(here, sizeof(here)));
    run_config_done(&c);
}
END_TEST

static const struct {
    const char *text, *name;
} named[] = {
    {"env: {plugin: ./build/pursuit.so}\n", "pursuit"},
    {"env: {command: [python3, bridge.py, mpe2.simple_spread_v3]}\n",
     "mpe2.simple_spread_v3"},
    {"env: {command: [python3, bridge.py, 'gym:Cart Pole']}\n", "environment"},
    {"env: {command: [./a.out, ..]}\n", "environment"},
    {"run: {name: mine}\nenv: {command: [./a.out]}\n", "mine"},
};

START_TEST(the_run_is_named_after_it)
{
    struct run_config c = parse(named[_i].text);

    ck_assert_str_eq(c.run.name, named[_i].name);
    run_config_done(&c);
}
END_TEST

/* The file gives the same configuration for any words of the command, and in any
 * directory. */
START_TEST(the_resolved_file_reads_back_equal)
{
    struct run_config a =
        parse("env:\n"
              "  command: [python3, -c, \"print('a: [b]')\\n\", '', 7]\n"
              "  processes: 2\n"
              "  max_steps: 9\n"
              "  restart: {max_restarts: 9}\n"
              "  params: {n: 3, text: '4'}\n");
    char *text = run_config_to_yaml(&a), *again;
    struct run_config b;

    ck_assert_int_eq(chdir("/"), 0);
    b = parse(text);
    again = run_config_to_yaml(&b);
    ck_assert_str_eq(text, again);
    ck_assert_str_eq(a.env.directory, b.env.directory);
    ck_assert(yaml_tree_equal(a.env.command, b.env.command));
    ck_assert_str_eq(b.env.command->child[2]->text, "print('a: [b]')\n");
    ck_assert_ptr_null(strstr(text, "rules:"));
    free(text);
    free(again);
    run_config_done(&a);
    run_config_done(&b);
}
END_TEST

START_TEST(an_own_environment_says_nothing_of_processes)
{
    struct run_config c = parse("env: {id: simple}\n");
    char *text = run_config_to_yaml(&c);

    ck_assert_ptr_null(strstr(text, "processes"));
    ck_assert_ptr_null(strstr(text, "directory"));
    ck_assert_ptr_nonnull(strstr(text, "rules: mpe2"));
    free(text);
    run_config_done(&c);
}
END_TEST

START_TEST(hooks_are_written_only_if_they_are_given)
{
    struct run_config a = parse("env: {id: simple}\n"), b, c;
    char *none = run_config_to_yaml(&a), *some;

    ck_assert_ptr_null(strstr(none, "\non:"));
    b = parse("env: {id: simple}\non: {give_up: [./notify, 'a b'], continue: [x]}\n");
    ck_assert(b.has_hooks && b.hooks.directory[0] == '/');
    ck_assert_double_eq(b.hooks.deadline_s, 10.0);
    some = run_config_to_yaml(&b);
    c = parse(some);
    ck_assert_str_eq(c.hooks.give_up->child[1]->text, "a b");
    ck_assert_str_eq(c.hooks.continue_->child[0]->text, "x");
    ck_assert_ptr_null(c.hooks.end);
    ck_assert_str_eq(c.hooks.directory, b.hooks.directory);
    free(none);
    free(some);
    run_config_done(&a);
    run_config_done(&b);
    run_config_done(&c);
}
END_TEST

static void assert_one_restart(const struct run_config *was, const struct run_config *is)
{
    struct config_diff d;

    run_config_diff(&d, was, is, 0);
    ck_assert(d.n == 1 && d.list[0].kind == CHANGE_RESTART);
    config_diff_done(&d);
}

START_TEST(hooks_of_a_live_run_cannot_be_set)
{
    static const char *const set[] = {"on.give_up=[sh]"};
    struct run_config a = parse("env: {id: simple}\n"), b;
    struct run_config c = parse("env: {id: simple}\non: {give_up: [a]}\n"), d;

    ck_assert_int_eq(run_config_set(&b, &a, set, 1, &err), 0);
    assert_one_restart(&a, &b);
    ck_assert_int_eq(run_config_set(&d, &c, set, 1, &err), 0);
    assert_one_restart(&c, &d);
    run_config_done(&a);
    run_config_done(&b);
    run_config_done(&c);
    run_config_done(&d);
}
END_TEST

static const struct {
    const char *text, *message;
} mistakes[] = {
    {"env: {command: [a], plugin: b.so}\n",
     "f.yaml:1: env: command and plugin are both given, expected one"},
    {"env: {id: simple, command: [a]}\n",
     "f.yaml:1: env: id and command are both given, expected one"},
    {"env: {id: plugin}\n",
     "f.yaml:1: env.id: found 'plugin', but env.plugin is not given"},
    {"env: {copies: 3}\n",
     "f.yaml:1: env.id: not given, expected an environment's name or none"},
    {"env: {command: []}\n",
     "f.yaml:1: env.command: found an empty list, expected a list of at least one word"},
    {"env: {command: python3}\n",
     "f.yaml:1: env.command: found 'python3', expected a list of at least one word"},
    {"env: {command: [a, [b]]}\n",
     "f.yaml:1: env.command: found a list, expected a word"},
    {"env: {plugin: ''}\n",
     "f.yaml:1: env.plugin: found a quoted text, expected a text of 1 to 4095 bytes"},
    {"env: {id: simple, processes: 2}\n",
     "f.yaml:1: env.processes: is for env.command and env.plugin alone"},
    {"env:\n  command: [a]\n  rules: mpe2\n",
     "f.yaml:3: env.rules: is not for env.command, which has its own"},
    {"env: {command: [a], directory: envs}\n",
     "f.yaml:1: env.directory: found 'envs', expected a path that begins with /"},
    {"env: {command: [a], restart: {on_give_up: noop}}\n",
     "f.yaml:1: env.restart.on_give_up: found 'noop', expected stop: nothing can replace "
     "an environment"},
    {"env:\n  command: [absent]\n", "f.yaml:2: env.command: it does not start"},
    {"env: {id: simple}\non: {give_up: ./notify}\n",
     "f.yaml:2: on.give_up: found './notify', expected a list of at least one word"},
    {"env: {id: simple}\non:\n  directory: envs\n  end: [a]\n",
     "f.yaml:3: on.directory: found 'envs', expected a path that begins with /"},
    {"env: {id: simple}\non: {end: [a], deadline: 2h}\n",
     "f.yaml:2: on.deadline: found '2h', expected a time above 0 such as 30s or 100ms "
     "(ms, s, m, h)"},
    {"env: {command: [a]}\nagents: {agent_2: {}}\n",
     "f.yaml:2: agents: found 'agent_2', expected agent_0, agent_1 or agent; did you "
     "mean "
     "'agent_0'?"},
};

START_TEST(mistakes_are_told_in_one_line)
{
    struct run_config c;

    ck_assert_int_eq(parse_with(&c, mistakes[_i].text), ERR_CONFIG);
    ck_assert_str_eq(err.msg, mistakes[_i].message);
}
END_TEST

/* It says nothing against the file. */
START_TEST(a_process_that_is_killed_is_no_mistake)
{
    struct run_config c;

    ck_assert_int_eq(parse_with(&c, "env:\n  command: [killed]\n"), ERR_AGENT);
    ck_assert_int_eq(err.code, ERR_AGENT);
    ck_assert_str_eq(err.msg, "f.yaml:2: env.command: it was killed three times");
}
END_TEST

START_TEST(what_concerns_its_processes_is_live)
{
    static const char *const set[] = {"env.respond_within=3s", "env.memory_limit=1G",
                                      "env.restart.max_restarts=7", "env.processes=3"};
    struct run_config a = parse("env: {command: [a]}\n"), b;
    struct config_diff d;

    ck_assert_int_eq(run_config_set(&b, &a, set, 4, &err), 0);
    run_config_diff(&d, &a, &b, 0);
    ck_assert_uint_eq(d.n, 4);
    for (size_t i = 0; i < d.n; i++)
        ck_assert_int_eq(d.list[i].kind, strcmp(d.list[i].path, "env.processes") == 0
                                             ? CHANGE_RESTART
                                             : CHANGE_LIVE);
    config_diff_done(&d);
    run_config_done(&a);
    run_config_done(&b);
}
END_TEST

#define N_OF(rows) (int)(sizeof(rows) / sizeof((rows)[0]))

/* Of an environment that was in /usr and is in /tmp now. */
static const struct {
    const char *was, *is;
    int has_moved;
} words[] = {
    {"/usr/x.py", "/tmp/x.py", 1},
    {"/usr", "/tmp", 1},
    {"--data=/usr/d", "--data=/tmp/d", 1},
    {"--a=/usr/d,b=/usr", "--a=/tmp/d,b=/tmp", 1},
    {"/usr/x.py", "/usr/x.py", 1},
    {"x.py", "x.py", 1},
    {"x.py", "y.py", 0},
    {"/usr/x.py", "/tmp/y.py", 0},
    {"/usr2/x.py", "/tmp2/x.py", 0},
    {"/data/usr/x", "/data/tmp/x", 0},
    {"/data/../usr", "/data/../tmp", 0},
};

START_TEST(only_what_begins_with_its_folder_moves_with_it)
{
    struct run_config was, is;
    char text[200];

    (void)snprintf(text, sizeof(text),
                   "env: {command: [program, '%s'], directory: /usr}\n", words[_i].was);
    was = parse(text);
    (void)snprintf(text, sizeof(text),
                   "env: {command: [program, '%s'], directory: /tmp}\n", words[_i].is);
    is = parse(text);
    ck_assert_int_eq(env_config_take_place(&was.env, &is.env, &was.arena),
                     words[_i].has_moved);
    ck_assert_str_eq(was.env.directory, words[_i].has_moved ? "/tmp" : "/usr");
    ck_assert_str_eq(was.env.command->child[1]->text,
                     words[_i].has_moved ? words[_i].is : words[_i].was);
    run_config_done(&was);
    run_config_done(&is);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *s = suite_create("env_config");
    TCase *tc = tcase_create("env_config");

    tcase_add_test(tc, a_command_has_its_own_defaults);
    tcase_add_loop_test(tc, the_run_is_named_after_it, 0, N_OF(named));
    tcase_add_test(tc, the_resolved_file_reads_back_equal);
    tcase_add_test(tc, an_own_environment_says_nothing_of_processes);
    tcase_add_test(tc, hooks_are_written_only_if_they_are_given);
    tcase_add_test(tc, hooks_of_a_live_run_cannot_be_set);
    tcase_add_loop_test(tc, mistakes_are_told_in_one_line, 0, N_OF(mistakes));
    tcase_add_test(tc, a_process_that_is_killed_is_no_mistake);
    tcase_add_test(tc, what_concerns_its_processes_is_live);
    tcase_add_loop_test(tc, only_what_begins_with_its_folder_moves_with_it, 0,
                        N_OF(words));
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(make_suite)
