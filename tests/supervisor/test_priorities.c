#include "supervisor/store/priorities.h"
#include "tests/support/test_main.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { CAPACITY = 50 };

static const double alpha = 0.6;

/* A log of `head` rows, whose row n has the priority value_of(n). */
static float value_of(uint64_t row)
{
    return (float)(row % 7) * 0.5f + 0.01f;
}

static struct priorities *make(uint64_t head)
{
    struct priorities *p = priorities_new(CAPACITY, alpha);

    for (uint64_t row = 0; row < head; row++) {
        const float value = value_of(row);

        priorities_append(p, row, 1);
        priorities_add(p, row);
        priorities_set(p, &row, &value, 1);
    }
    return p;
}

static double mass_of(uint64_t row)
{
    return pow((double)value_of(row) + 1e-6, alpha);
}

START_TEST(probabilities_and_weights_are_those_of_the_formula)
{
    enum { HEAD = 130, N = 200 };
    struct priorities *p = make(HEAD);
    double total = 0, most = 0;
    uint64_t rows[N];
    float weights[N];

    for (uint64_t row = HEAD - CAPACITY; row < HEAD; row++)
        total += mass_of(row);
    for (uint64_t row = HEAD - CAPACITY; row < HEAD; row++)
        most = fmax(most, pow(CAPACITY * mass_of(row) / total, -0.7));
    ck_assert_uint_eq(priorities_count(p), CAPACITY);
    priorities_draw(p, rng_key_make(1, "x", "rows"), 3, 0.7, rows, weights, N);
    for (size_t i = 0; i < N; i++) {
        const double share = mass_of(rows[i]) / total;

        ck_assert(rows[i] >= HEAD - CAPACITY && rows[i] < HEAD);
        ck_assert_double_eq_tol(priorities_probability(p, rows[i]), share, 1e-12);
        ck_assert_double_eq_tol((double)weights[i], pow(CAPACITY * share, -0.7) / most,
                                1e-6);
    }
    ck_assert(priorities_probability(p, HEAD - CAPACITY - 1) == 0.0);
    priorities_free(p);
}
END_TEST

/* Stratified draws follow the probabilities more closely than independent ones would:
 * their chi squared is below its 99.9 % bound, and that for another distribution far
 * above. */
START_TEST(draws_follow_the_probabilities)
{
    enum { HEAD = 130, B = 64, TIMES = 400 };
    struct priorities *p = make(HEAD);
    size_t seen[CAPACITY] = {0};
    double chi = 0, even = 0;

    for (uint64_t t = 0; t < TIMES; t++) {
        uint64_t rows[B];
        float weights[B];

        priorities_draw(p, rng_key_make(1, "x", "rows"), t, 0.4, rows, weights, B);
        for (size_t i = 0; i < B; i++)
            seen[rows[i] - (HEAD - CAPACITY)]++;
    }
    for (uint64_t i = 0; i < CAPACITY; i++) {
        const double want = priorities_probability(p, HEAD - CAPACITY + i) * B * TIMES;
        const double d = (double)seen[i] - want, flat = (double)B * TIMES / CAPACITY;

        chi += d * d / want;
        even += ((double)seen[i] - flat) * ((double)seen[i] - flat) / flat;
    }
    ck_assert_double_lt(chi, 85.4); /* 49 degrees of freedom */
    ck_assert_double_gt(even, 1000.0);
    priorities_free(p);
}
END_TEST

START_TEST(new_rows_get_the_largest_so_far)
{
    struct priorities *p = priorities_new(CAPACITY, 1.0);
    const uint64_t rows[] = {0, 1, 1};
    const float values[] = {0.5f, 9.0f, 3.0f};

    priorities_append(p, 0, 2);
    priorities_add(p, 0);
    priorities_add(p, 1);
    ck_assert_double_eq_tol(priorities_probability(p, 0), 0.5, 1e-12);
    priorities_set(p, rows, values, 3); /* of equal rows, the last one counts */
    ck_assert_double_eq_tol(priorities_probability(p, 1), 3.0 / 3.5, 1e-6);
    priorities_append(p, 2, 1);
    ck_assert_uint_eq(priorities_count(p), 2);
    priorities_add(p, 2);
    ck_assert_double_eq_tol(priorities_probability(p, 2), 9.0 / 12.5, 1e-6);
    priorities_free(p);
}
END_TEST

/* A state that is saved at any head and loaded draws the same rows and weights, also
 * after more rows. */
START_TEST(a_saved_state_goes_on_exactly)
{
    for (uint64_t head = 1; head < 140; head += 13) {
        struct priorities *p = make(head), *q = priorities_new(CAPACITY, alpha);
        struct wbuf b = {0};
        struct cursor c;

        priorities_save(p, &b);
        c = cursor_of(b.data, b.len);
        ck_assert_int_eq(priorities_load(q, head, &c), 1);
        ck_assert_uint_eq(cursor_left(&c), 0);
        for (uint64_t more = 0; more < 30; more++) {
            uint64_t rows[2][8];
            float weights[2][8];
            struct priorities *const both[] = {p, q};

            for (int i = 0; i < 2; i++) {
                priorities_draw(both[i], rng_key_make(2, "x", "rows"), more, 0.5, rows[i],
                                weights[i], 8);
                priorities_append(both[i], head + more, 1);
                priorities_add(both[i], head + more);
                priorities_set(both[i], rows[i], weights[i], 8);
            }
            ck_assert_mem_eq(rows[0], rows[1], sizeof(rows[0]));
            ck_assert_mem_eq(weights[0], weights[1], sizeof(weights[0]));
        }
        c = cursor_of(b.data, b.len - 1);
        priorities_free(q);
        q = priorities_new(CAPACITY, alpha);
        ck_assert_int_eq(priorities_load(q, head, &c), 0);
        priorities_free(p);
        priorities_free(q);
        wbuf_done(&b);
    }
}
END_TEST

/* ---- the blind cliffwalk of the paper (its section 3.1 and appendix B.1) ----
 *
 * N states in a row; one of two actions leads on, the other one back to the start without
 * a reward; the last right action has the reward 1. The memory holds every sequence that
 * a random player can play, as often as it occurs: 2^(N+1) - 2 transitions, one with a
 * reward. The result is the number of single steps of tabular Q-learning until the values
 * are right.
 */

enum { STATES = 10, ROWS = (2 << STATES) - 2, STEPS_MAX = 4000000 };
#define DISCOUNT (1.0 - 1.0 / STATES)

struct step {
    int state, right;
};

static size_t fill_memory(struct step *memory)
{
    size_t n = 0;

    for (unsigned play = 0; play < 1u << STATES; play++)
        for (int s = 0; s < STATES; s++) {
            memory[n++] = (struct step){s, (int)(play >> s & 1)};
            if (!(play >> s & 1))
                break;
        }
    return n;
}

static double error_of(const double q[STATES][2])
{
    double sum = 0;

    for (int s = 0; s < STATES; s++) {
        const double d = q[s][1] - pow(DISCOUNT, STATES - 1 - s);

        sum += (d * d + q[s][0] * q[s][0]) / (2 * STATES);
    }
    return sum;
}

static size_t learn(uint64_t seed, int prioritised)
{
    struct step *memory = calloc(ROWS, sizeof(*memory));
    const size_t n = fill_memory(memory);
    const struct rng_key key = rng_key_make(seed, "cliffwalk", "rows");
    struct priorities *p = priorities_new(n, 1.0);
    double q[STATES][2];
    float first[2 * STATES];
    size_t steps = 0;

    ck_assert_uint_eq(n, ROWS);
    rng_normal_f32(key, UINT64_MAX, 0, first, 2 * STATES);
    for (int i = 0; i < 2 * STATES; i++)
        q[i / 2][i % 2] = 0.1 * (double)first[i];
    for (uint64_t row = 0; row < n; row++) {
        priorities_append(p, row, 1);
        priorities_add(p, row);
    }
    for (; error_of(q) > 1e-3 && steps < STEPS_MAX; steps++) {
        const struct step *x;
        uint64_t row;
        float weight, td;
        double target = 0;

        if (prioritised)
            priorities_draw(p, key, steps, 0.0, &row, &weight, 1);
        else
            rng_below(key, steps, 0, n, &row, 1);
        x = &memory[row];
        if (x->right && x->state + 1 < STATES)
            target = DISCOUNT * fmax(q[x->state + 1][0], q[x->state + 1][1]);
        else if (x->right)
            target = 1;
        td = (float)(target - q[x->state][x->right]);
        q[x->state][x->right] += 0.25 * (double)td;
        priorities_set(p, &row, &td, 1);
    }
    priorities_free(p);
    free(memory);
    return steps;
}

START_TEST(the_blind_cliffwalk_is_learnt_sooner)
{
    size_t even = 0, by_error = 0;

    for (uint64_t seed = 1; seed <= 5; seed++) {
        even += learn(seed, 0);
        by_error += learn(seed, 1);
    }
    printf("# blind cliffwalk, %d states: %zu steps evenly, %zu by priority, %.1f times "
           "fewer\n",
           STATES, even / 5, by_error / 5, (double)even / (double)by_error);
    ck_assert_uint_gt(even, 4 * by_error);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *s = suite_create("priorities");
    TCase *tc = tcase_create("priorities");

    tcase_add_test(tc, probabilities_and_weights_are_those_of_the_formula);
    tcase_add_test(tc, draws_follow_the_probabilities);
    tcase_add_test(tc, new_rows_get_the_largest_so_far);
    tcase_add_test(tc, a_saved_state_goes_on_exactly);
    tcase_add_test(tc, the_blind_cliffwalk_is_learnt_sooner);
    suite_add_tcase(s, tc);
    return s;
}
TEST_MAIN(make_suite)
