#include "common/mem/arena.h"
#include "common/mem/xmalloc.h"
#include "tests/support/test_main.h"

#include <stdint.h>
#include <string.h>

START_TEST(arena_objects_are_aligned_zeroed_and_stay)
{
    struct arena a = ARENA_ZERO;
    char *kept = arena_strdup(&a, "kept");

    for (size_t size = 1; size < 20000; size = size * 2 + 1) {
        unsigned char *p = arena_alloc(&a, size);

        ck_assert_uint_eq((uintptr_t)p % 16, 0);
        for (size_t i = 0; i < size; i++)
            ck_assert_uint_eq(p[i], 0);
        memset(p, 0xee, size);
    }
    ck_assert_str_eq(kept, "kept");
    arena_reset(&a);
    ck_assert_str_eq(arena_printf(&a, "%d-%s", 7, "x"), "7-x");
    arena_done(&a);
    ck_assert_ptr_null(a.blocks);
    arena_done(&a);
}
END_TEST

START_TEST(aligned_memory_is_aligned)
{
    for (size_t size = 0; size < 300; size += 7) {
        void *p = mem_aligned(size);

        ck_assert_ptr_nonnull(p);
        ck_assert_uint_eq((uintptr_t)p % 64, 0);
        free(p);
    }
    ck_assert_ptr_null(mem_aligned(SIZE_MAX));
}
END_TEST

START_TEST(products_and_sums_that_do_not_fit_are_told)
{
    size_t r = 0;

    ck_assert(mem_mul(6, 7, &r) && r == 42);
    ck_assert(!mem_mul(SIZE_MAX, 2, &r));
    ck_assert(mem_add(SIZE_MAX - 1, 1, &r) && r == SIZE_MAX);
    ck_assert(!mem_add(SIZE_MAX, 1, &r));
}
END_TEST

static Suite *make_suite(void)
{
    Suite *s = suite_create("mem");
    TCase *tc = tcase_create("mem");

    tcase_add_test(tc, arena_objects_are_aligned_zeroed_and_stay);
    tcase_add_test(tc, aligned_memory_is_aligned);
    tcase_add_test(tc, products_and_sums_that_do_not_fit_are_told);
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(make_suite)
