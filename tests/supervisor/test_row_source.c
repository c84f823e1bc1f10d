/* The rows of an update, from logs of invented episodes. */
#include "common/msg/protocol.h"
#include "common/store/store_view.h"
#include "supervisor/rollout/row_source.h"
#include "tests/support/temp_dir.h"
#include "tests/support/test_main.h"

#include <stdlib.h>
#include <string.h>

enum { COPIES = 3, CAPACITY = 60 };

static struct env_agent agents[] = {
    {.name = "a", .obs_width = 1, .space = {.kind = SPACE_BOX, .width = 1}}};

/* A log in which an episode of copy e ends in every round t with ends(e, t). */
struct log {
    struct temp_dir dir;
    struct store *store;
    struct episodes *episodes;
    size_t rounds;
    uint8_t fresh[COPIES]; /* 1: the next row begins an episode */
};

static int ends(size_t e, size_t t)
{
    static const size_t length[COPIES] = {4, 5, 7};

    return t % length[e] == length[e] - 1 || (e == 2 && t == 8);
}

static void log_new(struct log *g)
{
    const struct env_spec spec = {.n_agents = 1, .agents = agents};
    struct store_layout layout;
    struct err err = {0};

    *g = (struct log){0};
    temp_dir_init(&g->dir);
    ck_assert_int_eq(
        store_create(&g->store, temp_dir_file(&g->dir, "log"), CAPACITY, &err), 0);
    ck_assert_int_eq(store_layout_make(&layout, &spec, NULL, 0, &err), 0);
    ck_assert_int_eq(store_describe(g->store, &layout, &err), 0);
    store_layout_done(&layout);
    g->episodes = episodes_new(COPIES);
    memset(g->fresh, 1, COPIES);
}

static void log_free(struct log *g)
{
    episodes_free(g->episodes);
    store_free(g->store);
    temp_dir_done(&g->dir);
}

static void play(struct log *g, size_t rounds)
{
    const struct store_layout *l = store_layout(g->store);
    const size_t place = l->columns[store_layout_find(l, NULL, "first")].offset;

    for (size_t end = g->rounds + rounds; g->rounds < end; g->rounds++) {
        uint8_t *rows = store_rows(g->store, COPIES), first[COPIES], ended[COPIES];

        for (size_t e = 0; e < COPIES; e++) {
            const float value = g->fresh[e];

            memcpy(rows + e * l->row_bytes + place, &value, sizeof(value));
            first[e] = g->fresh[e];
            ended[e] = g->fresh[e] = (uint8_t)ends(e, g->rounds);
        }
        ck_assert_int_eq(store_append(g->store, COPIES, NULL), 0);
        episodes_add(g->episodes, g->rounds * COPIES, first, ended,
                     store_window_first(g->store));
    }
}

static const struct row_index *index_of(const struct log *g)
{
    static struct row_index index;

    index = (struct row_index){.store = g->store, .episodes = g->episodes};
    return &index;
}

static struct row_source source_of(enum rows_kind kind, size_t length, size_t batch)
{
    static const char *const names[] = {"experience"};
    const struct row_source_args args = {.kind = kind,
                                         .length = length,
                                         .batch = batch,
                                         .copies = COPIES,
                                         .update_every = 4 * COPIES,
                                         .max_steps = 6,
                                         .seed = 3,
                                         .names = names,
                                         .groups = 1};
    struct row_source s = {0};
    struct err err = {0};

    ck_assert_msg(row_source_init(&s, &args, &err) == 0, "%s", err.msg);
    return s;
}

START_TEST(window_is_the_newest_rows_by_copy)
{
    struct row_source s = source_of(ROWS_WINDOW, 0, 77);
    struct log g;

    log_new(&g);
    play(&g, 3);
    ck_assert_int_eq(row_source_is_ready(&s, index_of(&g)), 0);
    play(&g, 4);
    ck_assert_int_eq(row_source_is_ready(&s, index_of(&g)), 1);
    row_source_draw(&s, index_of(&g), 9);
    ck_assert_uint_eq(s.groups, 1);
    ck_assert_uint_eq(s.batch, COPIES);
    ck_assert_uint_eq(s.length, 4);
    for (size_t e = 0; e < COPIES; e++)
        for (size_t t = 0; t < 4; t++)
            ck_assert_uint_eq(s.rows[e * 4 + t], (3 + t) * COPIES + e);
    row_source_done(&s);
    log_free(&g);
}
END_TEST

/* For sequences of one row, the draws are those of the store. */
START_TEST(single_transitions_are_drawn_as_ever)
{
    struct row_source s = source_of(ROWS_TRANSITIONS, 1, 50);
    struct log g;
    uint64_t rows[50];

    log_new(&g);
    ck_assert_int_eq(row_source_is_ready(&s, index_of(&g)), 0);
    ck_assert_int_eq(row_source_needs_episodes(&s), 0);
    play(&g, 30);
    row_source_draw(&s, index_of(&g), 4);
    store_draw(g.store, rng_key_make(3, "experience", PURPOSE_ROWS), 4, rows, 50);
    ck_assert_mem_eq(s.rows, rows, sizeof(rows));
    row_source_done(&s);
    log_free(&g);
}
END_TEST

START_TEST(sequences_end_with_their_episode)
{
    struct row_source s = source_of(ROWS_TRANSITIONS, 4, 500);
    struct log g;
    size_t padded = 0, cut = 0;

    log_new(&g);
    play(&g, 33); /* the window begins in the middle of episodes */
    row_source_draw(&s, index_of(&g), 1);
    for (size_t b = 0; b < 500; b++) {
        const uint64_t *rows = s.rows + b * 4;
        int over = 0;

        ck_assert_uint_ge(rows[0], store_window_first(g.store));
        for (size_t t = 0; t < 4; t++) {
            const uint64_t want = rows[0] + t * COPIES;

            cut += !over && want >= store_head(g.store);
            over |= want >= store_head(g.store);
            ck_assert_uint_eq(rows[t], over ? ROW_NONE : want);
            padded += over;
            over |= ends(want % COPIES, want / COPIES);
        }
    }
    ck_assert_uint_gt(padded, cut);
    ck_assert_uint_gt(cut, 0);
    row_source_done(&s);
    log_free(&g);
}
END_TEST

/* Lists the complete episodes of the window by a slow search: first rows and lengths. */
static size_t list_episodes(const struct log *g, uint64_t *ret_start, size_t *ret_length)
{
    size_t n = 0;

    for (size_t e = 0; e < COPIES; e++)
        for (size_t t = 0, from = 0; t < g->rounds; t++)
            if (ends(e, t)) {
                ret_start[n] = from * COPIES + e;
                ret_length[n] = t + 1 - from;
                from = t + 1;
                n += ret_start[n] >= store_window_first(g->store);
            }
    return n;
}

START_TEST(episodes_are_whole_and_even)
{
    enum { BATCH = 6000 };
    struct row_source s = source_of(ROWS_EPISODES, 0, BATCH);
    uint64_t start[64];
    size_t length[64], seen[64] = {0}, n;
    struct log g;
    double chi = 0;

    log_new(&g);
    play(&g, 3);
    ck_assert_int_eq(row_source_is_ready(&s, index_of(&g)), 0);
    play(&g, 1); /* the fourth row of copy 0 ends an episode */
    ck_assert_int_eq(row_source_is_ready(&s, index_of(&g)), 1);
    play(&g, 46);
    n = list_episodes(&g, start, length);
    ck_assert_uint_eq(episodes_complete(g.episodes), n);
    ck_assert_uint_gt(n, 8);
    row_source_draw(&s, index_of(&g), 2);
    ck_assert_uint_eq(s.length, 6); /* env.max_steps; episodes of copy 2 have 7 */
    for (size_t b = 0; b < BATCH; b++) {
        const uint64_t *rows = s.rows + b * 6;
        size_t k = 0;

        while (k < n && start[k] != rows[0])
            k++;
        ck_assert_uint_lt(k, n);
        seen[k]++;
        for (size_t t = 0; t < 6; t++)
            ck_assert_uint_eq(rows[t], t < length[k] ? start[k] + t * COPIES : ROW_NONE);
    }
    for (size_t k = 0; k < n; k++) {
        const double want = (double)BATCH / (double)n, d = (double)seen[k] - want;

        chi += d * d / want;
    }
    ck_assert_double_lt(chi, 3.0 * (double)n);
    row_source_done(&s);
    log_free(&g);
}
END_TEST

/* In every round, an index that is read from the log equals the one that got every
 * row. */
START_TEST(episodes_are_found_again)
{
    struct log g;

    log_new(&g);
    for (size_t round = 0; round < 45; round++) {
        struct episodes *again = episodes_new(COPIES);
        uint8_t ended[COPIES];

        play(&g, 1);
        for (size_t e = 0; e < COPIES; e++)
            ended[e] = (uint8_t)ends(e, round);
        ck_assert_int_eq(episodes_read(again, g.store, ended, NULL), 0);
        ck_assert_uint_eq(episodes_complete(again), episodes_complete(g.episodes));
        for (uint64_t k = 0; k < episodes_complete(again); k++) {
            uint64_t a[8], b[8];

            episodes_rows(again, k, a, 8);
            episodes_rows(g.episodes, k, b, 8);
            ck_assert_mem_eq(a, b, sizeof(a));
        }
        for (uint64_t row = store_window_first(g.store); row < store_head(g.store);
             row++) {
            uint64_t a[8], b[8];

            episodes_behind(again, row, a, 8);
            episodes_behind(g.episodes, row, b, 8);
            ck_assert_mem_eq(a, b, sizeof(a));
        }
        episodes_free(again);
    }
    log_free(&g);
}
END_TEST

START_TEST(what_cannot_be_is_refused)
{
    static const char *const names[] = {"experience"};
    struct row_source_args args = {.kind = ROWS_WINDOW,
                                   .copies = COPIES,
                                   .update_every = 4 * COPIES + 1,
                                   .names = names,
                                   .groups = 1,
                                   .batch = 8};
    struct row_source s = {0};
    struct err err = {0};

    ck_assert_int_eq(row_source_init(&s, &args, &err), ERR_CONFIG);
    ck_assert_ptr_nonnull(strstr(err.msg, "found 13, expected a multiple of env.copies"));
    args.kind = ROWS_EPISODES;
    ck_assert_int_eq(row_source_init(&s, &args, &err), ERR_CONFIG);
    ck_assert_ptr_nonnull(strstr(err.msg, "env.max_steps"));
    ck_assert_ptr_null(s.rows);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *s = suite_create("row_source");
    TCase *tc = tcase_create("row_source");

    tcase_add_test(tc, window_is_the_newest_rows_by_copy);
    tcase_add_test(tc, single_transitions_are_drawn_as_ever);
    tcase_add_test(tc, sequences_end_with_their_episode);
    tcase_add_test(tc, episodes_are_whole_and_even);
    tcase_add_test(tc, episodes_are_found_again);
    tcase_add_test(tc, what_cannot_be_is_refused);
    suite_add_tcase(s, tc);
    return s;
}
TEST_MAIN(make_suite)
