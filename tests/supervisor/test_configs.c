/* Every shipped configuration is valid, and this build has its environment. Settings that
 * an environment does not have are refused. */
#include "common/text/scan.h"
#include "supervisor/env/env.h"
#include "tests/support/test_main.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>

enum { SHIPPED_AT_LEAST = 17 };

/* External environments are started by the shipped program, in the folder that the files
 * assume. */
static void check_by_program(const char *name, const char *plugin)
{
    const char *build = getenv("BROOD_BUILD_DIR");
    char command[8192], set[4096] = "";

    if (plugin != NULL) /* the plugin of this build is in another folder */
        (void)snprintf(set, sizeof(set), "--set 'env.plugin=%s/tests/examples/%s'", build,
                       plugin);
    (void)snprintf(command, sizeof(command),
                   "cd '%s' && '%s/supervisor/brood' check --quiet %s 'configs/%s'",
                   getenv("BROOD_SOURCE_DIR"), build, set, name);
    ck_assert_msg(system(command) == 0, "%s", command);
}

static int names(void *ctx, const struct env_config *env, const char *const **ret,
                 struct err *err)
{
    static const char *const somebody = "somebody";
    int *is_external = ctx;

    *is_external = env_config_is_external(env);
    if (!*is_external)
        return env_agent_names(NULL, env, ret, err);
    *ret = &somebody;
    return 1;
}

static void check_file(const char *name)
{
    int is_external = 0;

    const struct config_options options = {
        .env_names = names, .env_ctx = &is_external, .extends = 1};
    struct run_config c;
    struct err err = {0};
    char path[4096];

    (void)snprintf(path, sizeof(path), "%s/configs/%s", getenv("BROOD_SOURCE_DIR"), name);
    ck_assert_msg(run_config_read(&c, path, &options, &err) == 0, "%s", err.msg);
    ck_assert_msg(strncmp(c.run.name, name, strlen(c.run.name)) == 0, "%s", name);
    ck_assert_uint_gt(c.n_agents, 0);
    if (is_external)
        check_by_program(name, c.env.plugin);
    run_config_done(&c);
}

START_TEST(test_every_shipped_file_is_right)
{
    char path[4096];
    struct dirent **files;
    int n, n_read = 0;

    (void)snprintf(path, sizeof(path), "%s/configs", getenv("BROOD_SOURCE_DIR"));
    n = scandir(path, &files, NULL, alphasort);
    ck_assert_int_gt(n, 0);
    for (int i = 0; i < n; i++) {
        if (text_ends_with(files[i]->d_name, ".yaml")) {
            check_file(files[i]->d_name);
            n_read++;
        }
        free(files[i]);
    }
    free(files);
    ck_assert_int_ge(n_read, SHIPPED_AT_LEAST);
}
END_TEST

static const struct {
    const char *text, *message; /* NULL: the text is valid */
} ruled[] = {
    {"env: {id: foraging}\n", NULL},
    {"env: {id: simple_tag, rules: openai, actions: continuous}\n", NULL},
    {"env: {id: collect_treasure, actions: continuous}\n", NULL},
    {"env:\n  id: simple_line\n  rules: openai\n",
     "f.yaml:3: env.rules: simple_line is a world of MPE2 alone: only mpe2 has rules for "
     "it"},
    {"env:\n  id: foraging\n  rules: openai\n",
     "f.yaml:3: env.rules: applies only to the particle worlds, not to foraging"},
    {"env:\n  id: foraging\n  actions: continuous\n",
     "f.yaml:3: env.actions: applies only to the particle worlds, not to foraging"},
    {"env: {id: climbing, rules: openai, actions: continuous}\n",
     "f.yaml:1: env.rules: applies only to the particle worlds, not to climbing"},
    {"env: {id: one_step, actions: continuous}\n",
     "f.yaml:1: env.actions: applies only to the particle worlds, not to one_step"},
};

START_TEST(test_rules_are_told_to_those_that_have_some)
{
    const struct config_options options = {.env_names = env_agent_names};
    struct run_config c;
    struct err err = {0};
    int rc = run_config_parse(&c, ruled[_i].text, strlen(ruled[_i].text), "f.yaml",
                              &options, &err);

    ck_assert_int_eq(rc, ruled[_i].message != NULL ? ERR_CONFIG : 0);
    if (rc < 0)
        ck_assert_str_eq(err.msg, ruled[_i].message);
    run_config_done(&c);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *s = suite_create("configs");
    TCase *tc = tcase_create("configs");

    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, test_every_shipped_file_is_right);
    tcase_add_loop_test(tc, test_rules_are_told_to_those_that_have_some, 0,
                        sizeof(ruled) / sizeof(ruled[0]));
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(make_suite)
