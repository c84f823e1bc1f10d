/* test_main.h - the main function of every unit test: one Check suite, TAP to meson.
 *
 *     static Suite *make_suite(void) { ... }
 *     TEST_MAIN(make_suite)
 *
 * CK_FORK=no runs the cases in one process, for gdb and the sanitizers. If cases need
 * processes of their own, FORKING_TEST_MAIN(make_suite) always forks.
 */
#ifndef TESTS_SUPPORT_TEST_MAIN_H
#define TESTS_SUPPORT_TEST_MAIN_H

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* Prints the reason as TAP's "1..0 # SKIP", which meson counts as skipped, and exits with
 * 0. */
#define TEST_SKIP_ALL(reason)                                                            \
    do {                                                                                 \
        (void)printf("1..0 # SKIP %s\n", (reason));                                      \
        exit(0);                                                                         \
    } while (0)

/* The folder with the data that only developers have, or NULL. */
static inline const char *test_shared_dir(void)
{
    const char *dir = getenv("BROOD_SHARED_DIR");

    return dir != NULL && access(dir, R_OK) == 0 ? dir : NULL;
}

/* Tests of many sizes or numbers take only every n-th: BROOD_TEST_STRIDE, which is set
 * for emulated machines, because they are slow. 1: all of them. */
static inline int test_stride(void)
{
    const char *text = getenv("BROOD_TEST_STRIDE");
    const int stride = text != NULL ? atoi(text) : 1;

    return stride > 1 ? stride : 1;
}

#define TEST_MAIN(make_suite)         TEST_MAIN_OF(make_suite, CK_FORK_GETENV)
#define FORKING_TEST_MAIN(make_suite) TEST_MAIN_OF(make_suite, CK_FORK)

#define TEST_MAIN_OF(make_suite, fork_status)                                            \
    int main(void)                                                                       \
    {                                                                                    \
        SRunner *sr = srunner_create(make_suite());                                      \
        int failed;                                                                      \
                                                                                         \
        srunner_set_fork_status(sr, fork_status);                                        \
        srunner_set_tap(sr, "-");                                                        \
        srunner_run_all(sr, CK_SILENT);                                                  \
        failed = srunner_ntests_failed(sr);                                              \
        srunner_free(sr);                                                                \
        return failed != 0;                                                              \
    }

#endif
