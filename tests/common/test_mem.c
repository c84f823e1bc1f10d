#include "common/mem/arena.h"
#include "common/mem/size_text.h"
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

START_TEST(lists_grow_and_keep_their_entries)
{
    size_t *list = NULL, cap = 0;

    for (size_t n = 0; n < 1000; n++) {
        ARRAY_GROW(list, n, cap);
        ck_assert_uint_gt(cap, n);
        list[n] = n;
    }
    for (size_t i = 0; i < 1000; i++)
        ck_assert_uint_eq(list[i], i);
    free(list);
}
END_TEST

START_TEST(limits_are_printed_as_they_are_given)
{
    static const struct {
        uint64_t n;
        const char *text;
    } cases[] = {
        {512, "512B"},
        {1024, "1K"},
        {300 << 20, "300M"},
        {(300 << 20) + 1, "300.1M"},
        {UINT64_C(3) << 29, "1.5G"},
        {UINT64_C(5000) << 40, "5000T"},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char buf[SIZE_TEXT_BYTES];

        ck_assert_str_eq(size_text_limit(cases[i].n, buf), cases[i].text);
    }
}
END_TEST

static Suite *make_suite(void)
{
    Suite *s = suite_create("mem");
    TCase *tc = tcase_create("mem");

    tcase_add_test(tc, arena_objects_are_aligned_zeroed_and_stay);
    tcase_add_test(tc, aligned_memory_is_aligned);
    tcase_add_test(tc, products_and_sums_that_do_not_fit_are_told);
    tcase_add_test(tc, lists_grow_and_keep_their_entries);
    tcase_add_test(tc, limits_are_printed_as_they_are_given);
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(make_suite)
