#include "common/log/log.h"
#include "common/numerics/cpu_kernels.h"
#include "common/numerics/numerics.h"
#include "tests/support/test_main.h"

#include <string.h>
#include <unistd.h>

/* Every case runs in a process of its own, because a process makes the choice only once.
 * CK_FORK=no would make one choice for all of them. */
static enum cpu_kernels chosen_for(const char *wish)
{
    if (wish != NULL)
        ck_assert_int_eq(setenv(CPU_KERNELS_VARIABLE, wish, 1), 0);
    else
        ck_assert_int_eq(unsetenv(CPU_KERNELS_VARIABLE), 0);
    return cpu_kernels();
}

/* Returns the choice, and the warning that it logs in ret. */
static enum cpu_kernels warned_for(const char *wish, char *ret, size_t size)
{
    enum cpu_kernels k;
    ssize_t n;
    int ends[2];

    ck_assert_int_eq(pipe(ends), 0);
    log_init("test", LOG_LEVEL_WARN, ends[1]);
    k = chosen_for(wish);
    ck_assert_int_eq(close(ends[1]), 0);
    n = read(ends[0], ret, size - 1);
    ck_assert_int_ge(n, 0);
    ret[n] = '\0';
    return k;
}

static enum cpu_kernels best_here(void)
{
    enum cpu_kernels k = CPU_KERNELS_COUNT - 1;

    while (!cpu_kernels_are_here(k))
        k--;
    return k;
}

START_TEST(the_best_that_is_here_is_taken)
{
    char line[256];

    ck_assert(cpu_kernels_are_here(CPU_KERNELS_PORTABLE));
    ck_assert_int_eq(warned_for(_i == 0 ? NULL : "", line, sizeof(line)), best_here());
    ck_assert_str_eq(line, "");
}
END_TEST

START_TEST(a_wish_is_granted_where_the_cpu_can)
{
    const enum cpu_kernels wish = _i;
    char line[256];
    const enum cpu_kernels k = warned_for(cpu_kernels_name(wish), line, sizeof(line));

    ck_assert_int_eq(k, cpu_kernels_are_here(wish) ? wish : best_here());
    if (cpu_kernels_are_here(wish)) {
        ck_assert_str_eq(line, "");
    } else {
        ck_assert_ptr_nonnull(strstr(line, cpu_kernels_name(wish)));
        ck_assert_ptr_nonnull(strstr(line, "this CPU has none of these"));
    }
}
END_TEST

START_TEST(an_unknown_wish_is_one_line_and_the_best)
{
    char line[256];

    ck_assert_int_eq(warned_for("sse9", line, sizeof(line)), best_here());
    ck_assert_ptr_nonnull(strstr(line, "BROOD_KERNELS=sse9: portable, neon, avx2 or"));
    ck_assert_ptr_eq(strchr(line, '\n'), line + strlen(line) - 1);
}
END_TEST

START_TEST(the_choice_is_made_once)
{
    const enum cpu_kernels first = chosen_for("portable");

    ck_assert_int_eq(first, CPU_KERNELS_PORTABLE);
    ck_assert_int_eq(chosen_for(NULL), first);
}
END_TEST

START_TEST(modes_have_the_names_of_the_configuration)
{
    enum numerics n = NUMERICS_NATIVE;

    ck_assert_int_eq(numerics_find(&n, "portable"), 0);
    ck_assert_int_eq(n, NUMERICS_PORTABLE);
    ck_assert_int_eq(numerics_find(&n, "native"), 0);
    ck_assert_int_eq(n, NUMERICS_NATIVE);
    ck_assert_int_lt(numerics_find(&n, "exact"), 0);
    ck_assert_int_eq(n, NUMERICS_NATIVE);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *s = suite_create("numerics");
    TCase *tc = tcase_create("numerics");

    tcase_add_loop_test(tc, the_best_that_is_here_is_taken, 0, 2);
    tcase_add_loop_test(tc, a_wish_is_granted_where_the_cpu_can, 0, CPU_KERNELS_COUNT);
    tcase_add_test(tc, an_unknown_wish_is_one_line_and_the_best);
    tcase_add_test(tc, the_choice_is_made_once);
    tcase_add_test(tc, modes_have_the_names_of_the_configuration);
    suite_add_tcase(s, tc);
    return s;
}
FORKING_TEST_MAIN(make_suite)
