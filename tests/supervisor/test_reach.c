/* Where a supervisor listens for its nodes, with an ssh of the test's own, and a resolver that
 * does not know an end. */
#include "common/config/yaml_tree.h"
#include "supervisor/node/node_launch.h"
#include "supervisor/node/reach.h"
#include "tests/support/test_main.h"

#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PATIENT_MS = 60000, SHORT_MS = 300, OTHERS_MS = 10000 };

static char folder[] = "/tmp/brood-test-reach-XXXXXX";

/* ---- the resolver ---- */

int __real_getaddrinfo(const char *name, const char *port, const struct addrinfo *hints,
                       struct addrinfo **ret);
int __wrap_getaddrinfo(const char *name, const char *port, const struct addrinfo *hints,
                       struct addrinfo **ret);

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int n_inside, n_wanted; /* of the calls for "together" */

/* "never" is not answered; "together" only when there are n_wanted such calls at once. */
int __wrap_getaddrinfo(const char *name, const char *port, const struct addrinfo *hints,
                       struct addrinfo **ret)
{
    if (strcmp(name, "never") == 0)
        for (;;)
            (void)pause();
    if (strcmp(name, "together") == 0) {
        (void)pthread_mutex_lock(&lock);
        n_inside++;
        (void)pthread_cond_broadcast(&changed);
        while (n_inside < n_wanted)
            (void)pthread_cond_wait(&changed, &lock);
        (void)pthread_mutex_unlock(&lock);
        name = "127.0.0.1";
    }
    return __real_getaddrinfo(name, port, hints, ret);
}

/* ---- ssh ---- */

/* Its last argument is the host. Those called "pair-..." wait for one another; "hangs" does for
 * ever. */
static const char ssh[] =
    "#!/bin/sh\n"
    "for host; do :; done\n"
    "case $host in\n"
    "pair-*) : > \"$0.$host\"\n"
    "    while ! [ -e \"$0.pair-a\" ] || ! [ -e \"$0.pair-b\" ]; do sleep 0.01; done\n"
    "    name=127.0.0.1;;\n"
    "hangs) exec sleep 1000000;;\n"
    "fails) echo 'no such option'; exit 255;;\n"
    "jumps) echo 'proxyjump gate'; name=127.0.0.1;;\n"
    "*) name=$host;;\n"
    "esac\n"
    "echo user somebody\n"
    "echo hostname $name\n"
    "echo port 22\n";

static void setup(void)
{
    char path[PATH_MAX];
    FILE *f;

    ck_assert_ptr_nonnull(mkdtemp(folder));
    (void)snprintf(path, sizeof(path), "%s/ssh", folder);
    f = fopen(path, "we");
    ck_assert_ptr_nonnull(f);
    ck_assert_int_ge(fputs(ssh, f), 0);
    ck_assert_int_eq(fclose(f), 0);
    ck_assert_int_eq(chmod(path, 0755), 0);
    (void)snprintf(path, sizeof(path), "%s:%s", folder, getenv("PATH"));
    ck_assert_int_eq(setenv("PATH", path, 1), 0);
}

static void teardown(void)
{
    char command[256];

    (void)snprintf(command, sizeof(command), "rm -r %s", folder);
    ck_assert_int_eq(system(command), 0);
}

#define MOST 16

/* For n nodes on these hosts. */
static void reach(const char *hosts, size_t n, int timeout_ms, struct reach ret[MOST])
{
    struct cluster_config config = {.launcher = LAUNCHER_SSH, .nodes = (int64_t)n};
    struct arena arena = ARENA_ZERO;
    struct yaml_node *list;

    ck_assert_int_eq(yaml_value_parse(&list, &arena, hosts, "hosts", NULL), 0);
    config.hosts = list;
    reach_all(&config, n, timeout_ms, ret);
    arena_done(&arena);
}

START_TEST(hosts_are_asked_for_side_by_side)
{
    struct reach at[MOST];

    n_inside = 0;
    n_wanted = 4;
    reach("[pair-a, together, together, pair-b, together, together]", 8, PATIENT_MS, at);
    for (size_t i = 0; i < 8; i++) {
        ck_assert_msg(at[i].why.code == 0, "%zu: %s", i, at[i].why.msg);
        ck_assert_str_eq(at[i].address, "127.0.0.1");
    }
}
END_TEST

/* Two in ssh, three in the resolver, or on a slow machine in ssh, too: none comes to an end. */
START_TEST(hosts_that_are_not_known_in_time_are_named)
{
    struct reach at[MOST];
    char first[REACH_BYTES];

    reach_first(first);
    reach("[hangs, never, never, hangs, never]", 5, SHORT_MS, at);
    for (size_t i = 0; i < 5; i++) {
        ck_assert_msg(at[i].why.code == ERR_TIMEOUT, "%zu: %d %s", i, at[i].why.code,
                      at[i].why.msg);
        ck_assert_str_eq(at[i].address, first);
        if (i % 3 == 0)
            ck_assert_str_eq(at[i].why.msg, "hangs: ssh did not end within 0.15 s");
        else
            ck_assert_int_eq(strncmp(at[i].why.msg, "never: ", 7), 0);
    }
}
END_TEST

START_TEST(the_others_are_known_beside_those_that_are_not)
{
    struct reach at[MOST];

    n_inside = 0;
    n_wanted = 1;
    reach("[fails, jumps, together, 127.0.0.1, never, hangs]", 6, OTHERS_MS, at);
    ck_assert_str_eq(at[4].why.msg, "never: no name server has answered in time");
    ck_assert_str_eq(at[0].why.msg, "fails: ssh: no such option");
    ck_assert_str_eq(at[1].why.msg, "jumps: the way leads through a proxy");
    for (size_t i = 2; i < 4; i++) {
        ck_assert_int_eq(at[i].why.code, 0);
        ck_assert_str_eq(at[i].address, "127.0.0.1");
    }
}
END_TEST

START_TEST(nodes_get_an_address_of_this_machine_for_all_interfaces)
{
    static const char *const all[] = {"0.0.0.0:77", "[::]:77"};
    struct arena arena = ARENA_ZERO;
    char first[REACH_BYTES], expected[REACH_BYTES + 8];

    reach_first(first);
    (void)snprintf(expected, sizeof(expected), "%s:77", first);
    for (size_t i = 0; i < 2; i++)
        ck_assert_str_eq(node_command_address(all[i], &arena), expected);
    ck_assert_str_eq(node_command_address("[fd00::7]:77", &arena), "[fd00::7]:77");
    arena_done(&arena);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *s = suite_create("reach");
    TCase *tc = tcase_create("reach");

    tcase_set_timeout(tc, 120);
    tcase_add_unchecked_fixture(tc, setup, teardown);
    tcase_add_test(tc, hosts_are_asked_for_side_by_side);
    tcase_add_test(tc, hosts_that_are_not_known_in_time_are_named);
    tcase_add_test(tc, the_others_are_known_beside_those_that_are_not);
    tcase_add_test(tc, nodes_get_an_address_of_this_machine_for_all_interfaces);
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(make_suite)
