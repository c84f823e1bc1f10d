/* Every case of kernel_cases.h with other shapes, values and attributes: the operation is
 * refused, fails or runs, whatever they are, but does not read or write what is not its own
 * (the sanitized build sees that), divide by zero or run for ever. */
#include "common/rng/rng.h"
#include "tests/agent/kernel_cases.h"
#include "tests/support/test_main.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { VARIANTS = 24, MAX_TEXT = 1024 };

static struct {
    struct rng_key key;
    uint64_t n;
} draws;

/* In [0, n). */
static size_t draw(size_t n)
{
    double u;

    rng_uniform_f64(draws.key, draws.n++, 0, &u, 1);
    return (size_t)(u * (double)n);
}

static void put(char *out, const char *text, size_t len)
{
    const size_t have = strlen(out);

    ck_assert_uint_lt(have + len, MAX_TEXT);
    memcpy(out + have, text, len);
    out[have + len] = '\0';
}

static void put_number(char *out)
{
    static const char *const numbers[] = {"-1000000", "-7", "-2", "-1", "0", "0", "1",
                                          "1",        "2",  "3",  "4",  "5", "8"};

    const char *text = numbers[draw(sizeof(numbers) / sizeof(numbers[0]))];

    put(out, text, strlen(text));
}

/* Copies "(2,3)" with one dimension changed, dropped or added, now and then. Returns the end;
 * *ret_n: the number of elements. */
static const char *damage_shape(char *out, const char *p, size_t *ret_n)
{
    long dims[8];
    int rank = 0, at;
    char text[64];

    *ret_n = 1;
    if (*p == '(')
        do {
            char *end;

            dims[rank++] = strtol(p + 1, &end, 10);
            p = end;
        } while (*p == ',');
    p += *p == ')';
    at = rank > 0 ? (int)draw((size_t)rank) : 0;
    switch (draw(9)) {
    case 0:
        rank -= rank > 0;
        break;
    case 1:
        if (rank < 5)
            dims[rank++] = (long)draw(3);
        break;
    case 2:
    case 3:
        if (rank > 0)
            dims[at] = (long)draw(5);
        break;
    default:
        break;
    }
    for (int d = 0; d < rank; d++) {
        (void)snprintf(text, sizeof(text), "%c%ld", d == 0 ? '(' : ',', dims[d]);
        put(out, text, strlen(text));
        *ret_n *= (size_t)dims[d];
    }
    if (rank > 0)
        put(out, ")", 1);
    return p;
}

/* Copies up to n of the values of "=1,2,3", or gives some where there are none. */
static const char *damage_values(char *out, const char *p, size_t n, int is_whole)
{
    const int is_given = *p == '=';
    size_t k = 0;

    while (*p == '=' || *p == ',') {
        const size_t len = strcspn(p + 1, ", ");

        if (k < n) {
            put(out, k == 0 ? "=" : ",", 1);
            if (draw(5) == 0)
                put_number(out);
            else
                put(out, p + 1, len);
        }
        k++;
        p += 1 + len;
    }
    for (; !is_given && is_whole && k < n && k < 16 && draw(8) > 0; k++) {
        put(out, k == 0 ? "=" : ",", 1);
        put_number(out);
    }
    return p;
}

static void damage_inputs(char *out, const char *p)
{
    *out = '\0';
    while (*p != '\0') {
        const char letter = *p;
        size_t n;

        put(out, p, 1);
        p = damage_shape(out, p + 1, &n);
        p = damage_values(out, p, n, strchr("fdxb", tolower(letter)) == NULL);
        for (; *p == ' '; p++)
            put(out, p, 1);
    }
}

/* Copies "axis=1 dims=[1,0]" with other integers, now and then. */
static void damage_attrs(char *out, const char *p)
{
    *out = '\0';
    while (*p != '\0') {
        size_t len = strspn(p, "-0123456789");

        if (len > 0 && strchr("=[,", p[-1]) != NULL && p[len] != '.' && draw(6) == 0) {
            put_number(out);
        } else {
            len = len > 0 ? len : 1;
            put(out, p, len);
        }
        p += len;
    }
}

static void run_damaged(const struct kernel_case *c, enum dtype x)
{
    struct tensor ret[MAX_OPERANDS] = {0};
    struct stage s;
    struct err err = {0};

    stage_init(&s, c, x, draw(2) == 0 ? FEED_UNKNOWN : FEED_ALL);
    if (s.op != NULL && stage_run(&s, ret, &err) < 0)
        ck_assert_msg(err.msg[0] != '\0', "%s %s %s: no message", c->op, c->inputs,
                      c->attrs != NULL ? c->attrs : "");
    for (int i = 0; i < MAX_OPERANDS; i++)
        tensor_free(&ret[i]);
    stage_done(&s);
}

START_TEST(damaged_inputs_do_no_harm)
{
    struct kernel_case c = *kernel_case_at(_i);
    const char *const types = c.types, *const inputs = c.inputs, *const attrs = c.attrs;
    char text[MAX_TEXT], words[MAX_TEXT];

    if (strcmp(c.op, "Range") == 0)
        return; /* it may have a million elements */
    limit_memory();
    draws.key = rng_key_make((uint64_t)_i, c.op, "damage");
    for (int k = 0; k < VARIANTS; k++) {
        damage_inputs(text, inputs);
        c.inputs = text;
        if (attrs != NULL)
            damage_attrs(words, attrs);
        c.attrs = attrs != NULL ? words : NULL;
        run_damaged(&c, case_dtype(types[draw(strlen(types))]));
    }
}
END_TEST

static Suite *make_suite(void)
{
    Suite *s = suite_create("kernels_damaged");
    TCase *tc = tcase_create("damaged");
    int n = 0;

    while (kernel_case_at(n) != NULL)
        n++;
    tcase_add_loop_test(tc, damaged_inputs_do_no_harm, 0, n);
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(make_suite)
