/* The view of a run as lines of text, on terminals of several sizes. */
#include "common/mem/xmalloc.h"
#include "common/text/number_text.h"
#include "supervisor/cli/redraw.h"
#include "supervisor/cli/study_view.h"
#include "supervisor/cli/view_layout.h"
#include "tests/support/test_main.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { AGENTS_MAX = 200 };

static struct run_agent_status agents[AGENTS_MAX];
static char names[AGENTS_MAX][64];
static struct run_status status;
static struct wbuf text;
static size_t shown;

static void setup(void)
{
    for (int i = 0; i < AGENTS_MAX; i++) {
        (void)snprintf(names[i], sizeof(names[i]), "agent_%d", i);
        agents[i] = (struct run_agent_status){
            .name = names[i], .state = "busy", .pid = 4000 + i, .rss_bytes = 4100000};
    }
    status = (struct run_status){.run = "simple_spread-1",
                                 .state = "running",
                                 .env_steps = 262400,
                                 .total_steps = 625000,
                                 .steps_per_second = 12400,
                                 .seconds_left = 29,
                                 .agents = agents,
                                 .n_agents = 3};
    text = (struct wbuf){0};
}

static void teardown(void)
{
    wbuf_done(&text);
}

static const struct view_numbers *on_numbers(void *ctx, const char *agent)
{
    static const struct view_numbers n = {-14.21, 0.01234, (double)NAN};

    return &n;
}

static const char *lay_out(struct view_frame f, int columns, int rows)
{
    const char *p;
    int lines;

    f.status = &status;
    f.numbers = on_numbers;
    f.columns = columns;
    f.rows = rows;
    wbuf_clear(&text);
    lines = view_layout(&f, &text, &shown);
    wbuf_u8(&text, 0);
    p = (const char *)text.data;
    ck_assert_int_eq(view_rows_taken(p, strlen(p), columns), lines);
    if (rows > 0)
        ck_assert_int_lt(lines, rows);
    for (size_t n; *p != '\0'; p += n + 1) {
        n = strcspn(p, "\n");
        ck_assert_int_le(view_width(p, n), columns);
    }
    return (const char *)text.data;
}

START_TEST(a_team_fits_into_80_columns)
{
    ck_assert_str_eq(lay_out((struct view_frame){.colour = 0}, 80, 24),
                     "simple_spread-1  ###....   41 %  262,400 of 625,000 steps  "
                     "12,400/s  0:29 left\n"
                     "agent        pid  state       restarts   return critic loss actor "
                     "loss   memory\n"
                     "agent_0     4000  busy               0   -14.21     0.01234        "
                     "  -   4.1 MB\n"
                     "agent_1     4001  busy               0   -14.21     0.01234        "
                     "  -   4.1 MB\n"
                     "agent_2     4002  busy               0   -14.21     0.01234        "
                     "  -   4.1 MB\n");
}
END_TEST

START_TEST(several_machines_are_named_where_there_is_room)
{
    const char *p;

    agents[0].host = agents[1].host = "here";
    p = lay_out((struct view_frame){.colour = 0}, 120, 24);
    ck_assert_ptr_null(strstr(p, "host"));
    agents[1].host = "a-host-with-a-long-name";
    agents[1].rss_bytes = -1;
    p = lay_out((struct view_frame){.colour = 0}, 120, 24);
    ck_assert_ptr_nonnull(strstr(p, "memory  host\n"));
    ck_assert_ptr_nonnull(strstr(p, "4.1 MB  here\n"));
    ck_assert_ptr_nonnull(strstr(p, "        -  a-host-with-a-lo\n"));
    p = lay_out((struct view_frame){.colour = 0}, 80, 24);
    ck_assert_ptr_null(strstr(p, "here"));
}
END_TEST

START_TEST(nodes_that_are_not_up_are_named)
{
    static const struct run_node_status nodes[] = {
        {.name = "node-0", .host = "a", .state = "up"},
        {.name = "node-1", .host = "b", .state = "starting"},
        {.name = "node-2", .state = "waiting"},
    };
    const char *p;

    status.nodes = nodes;
    status.n_nodes = 1;
    p = lay_out((struct view_frame){.colour = 0}, 80, 24);
    ck_assert_ptr_nonnull(strstr(p, "\nnodes  1 of 1 up\nagent "));
    status.n_nodes = 3;
    p = lay_out((struct view_frame){.colour = 0}, 80, 24);
    ck_assert_ptr_nonnull(
        strstr(p, "\nnodes  1 of 3 up, node-1 (b) starting, node-2 waiting\n"));
    p = lay_out((struct view_frame){.colour = 0}, 80, 6);
    ck_assert_ptr_null(strstr(p, "nodes"));
    p = lay_out((struct view_frame){.is_over = 1}, 80, 24);
    ck_assert_ptr_null(strstr(p, "nodes"));
}
END_TEST

START_TEST(name_state_and_return_remain_in_40_columns)
{
    const char *p = lay_out((struct view_frame){.utf8 = 1}, 40, 24);

    ck_assert_str_eq(p, "simple_spread-1   41 %  0:29 left\n"
                        "agent     state       restarts   return\n"
                        "agent_0   busy               0   -14.21\n"
                        "agent_1   busy               0   -14.21\n"
                        "agent_2   busy               0   -14.21\n");
    (void)snprintf(names[1], sizeof(names[1]), "an_agent_with_a_long_name");
    p = lay_out((struct view_frame){.utf8 = 1}, 40, 24);
    ck_assert_ptr_nonnull(strstr(p, "\nan_agent_with_a_l~  busy          -14.21\n"));
    ck_assert_ptr_nonnull(strstr(p, "\nagent               state         return\n"));
}
END_TEST

START_TEST(a_run_that_waits_says_so_instead_of_the_time_left)
{
    static const char *const states[] = {"paused", "stopping", "starting"};

    for (size_t i = 0; i < 3; i++) {
        const char *p;
        char end[32];

        status.state = states[i];
        (void)snprintf(end, sizeof(end), "/s  %s\n", states[i]);
        p = lay_out((struct view_frame){.utf8 = 1}, 80, 24);
        ck_assert_msg(strstr(p, end) != NULL && strstr(p, "left") == NULL, "%s", p);
    }
    status.state = "running";
    ck_assert_ptr_null(
        strstr(lay_out((struct view_frame){.is_over = 1}, 80, 24), "left"));
}
END_TEST

START_TEST(agents_in_trouble_come_first_and_the_rest_is_counted)
{
    const char *p;

    status.n_agents = AGENTS_MAX;
    agents[7].given_up = "frozen";
    for (int i = 100; i < 125; i++) {
        agents[i].state = i % 2 ? "waiting" : "replaying";
        agents[i].restarts = 1;
    }
    p = lay_out((struct view_frame){.colour = 0}, 80, 24);
    ck_assert_uint_eq(shown, 20);
    ck_assert_ptr_nonnull(strstr(p, "memory\nagent_7      4007  frozen "));
    ck_assert_ptr_nonnull(strstr(p, "\nagent_100    4100  replaying          1 "));
    ck_assert_ptr_nonnull(strstr(p, "\n+180 more: 174 busy, 6 restarting\n"));
    /* scrolled, and scrolled too far: the last agents are shown */
    p = lay_out((struct view_frame){.top = 30}, 80, 24);
    ck_assert_ptr_nonnull(strstr(p, "memory\nagent_4 "));
    ck_assert_ptr_nonnull(strstr(p, "\n+180 more: 154 busy, 25 restarting, 1 frozen\n"));
    p = lay_out((struct view_frame){.top = 10000}, 80, 24);
    ck_assert_ptr_nonnull(strstr(p, "\nagent_199 "));
    /* the last frame has all agents, in their order */
    p = lay_out((struct view_frame){.is_over = 1}, 80, 0);
    ck_assert_uint_eq(shown, AGENTS_MAX);
    ck_assert_ptr_nonnull(strstr(p, "memory\nagent_0 "));
    ck_assert_ptr_null(strstr(p, "more:"));
}
END_TEST

START_TEST(long_times_and_large_numbers_stay_short)
{
    static const struct {
        double seconds;
        const char *text;
    } times[] = {
        {-1, "0:00"},
        {29.4, "0:29"},
        {3723, "1:02:03"},
        {172799, "47:59:59"},
        {172800, "2 days"},
        {300000, "3 days"},
        {86400 * 365.0, "365 days"},
        {86400 * 365.0 + 1, "more than a year"},
        {1e301, "more than a year"},
    };
    static const struct {
        double value;
        const char *text;
    } numbers[] = {{-19.856, "-19.86"},
                   {999999, "999999.00"},
                   {-1e6, "-1e+06"},
                   {1.2346e301, "1.235e+301"},
                   {-INFINITY, "-inf"}};
    char text[NUMBER_TEXT_BYTES];

    for (size_t i = 0; i < sizeof(times) / sizeof(times[0]); i++)
        ck_assert_str_eq(format_duration(times[i].seconds, text, sizeof(text)),
                         times[i].text);
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
        ck_assert_str_eq(number_text(numbers[i].value, 2, text), numbers[i].text);
}
END_TEST

START_TEST(no_size_breaks_it)
{
    status.n_agents = AGENTS_MAX;
    for (int rows = 2; rows < 30; rows++)
        for (int columns = 1; columns < 120; columns += 7)
            (void)lay_out((struct view_frame){.colour = 1, .utf8 = rows % 2, .top = 3},
                          columns, rows);
}
END_TEST

START_TEST(evaluations_are_a_curve_for_each_team)
{
    char adversary[] = "adversary", agent[] = "agent";
    const struct view_curve curve[] = {{adversary, {1, 2, 3, 4}, 4}, {agent, {-7}, 1}};
    const struct view_frame one = {.curve = curve, .n_curves = 1};
    const struct view_frame both = {.curve = curve, .n_curves = 2, .utf8 = 1};

    ck_assert_ptr_nonnull(
        strstr(lay_out(one, 80, 24), "\nevaluation  4.00 _-+#\nagent "));
    ck_assert_ptr_nonnull(strstr(lay_out(both, 80, 24),
                                 "\nevaluation  adversary 4.00 ▁▃▆█  agent -7.00 ▁\n"));
}
END_TEST

START_TEST(the_locale_decides_about_the_characters)
{
    static const struct {
        const char *all, *ctype, *lang;
        int utf8;
    } cases[] = {{"", "", "", 0},
                 {"", "", "C.UTF-8", 1},
                 {"C", "", "C.UTF-8", 0},
                 {"", "de_DE.utf8", "C", 1},
                 {"", "POSIX", "x.UTF-8", 0},
                 {"en_US.ISO-8859-1", "C.UTF-8", "", 0}};

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        (void)setenv("LC_ALL", cases[i].all, 1);
        (void)setenv("LC_CTYPE", cases[i].ctype, 1);
        (void)setenv("LANG", cases[i].lang, 1);
        ck_assert_int_eq(glyphs_are_utf8(), cases[i].utf8);
    }
}
END_TEST

START_TEST(wrapped_lines_take_more_rows)
{
    static const char lines[] = "\033[32m12345\033[0m\n\n1234567890\n▁▂▃▄▅▆\n";

    ck_assert_int_eq(view_rows_taken(lines, strlen(lines), 10), 4);
    ck_assert_int_eq(view_rows_taken(lines, strlen(lines), 5), 6);
    ck_assert_int_eq(view_rows_taken(lines, strlen(lines), 4), 8);
}
END_TEST

/* ---- a study ---- */

static const char *on_key(void *ctx, size_t key)
{
    return key == 0 ? "learning_rate" : "discount";
}

static const char *on_setting(void *ctx, size_t trial, size_t key)
{
    return key == 0 ? "0.003" : trial == 6 ? "0.95" : "0.9";
}

static const char *lay_out_study(int columns, int rows, size_t top)
{
    static const struct study_view_trial trial[] = {{7, "running", 8200, (double)NAN},
                                                    {6, "done", 12800, -19.86},
                                                    {0, "done", 12800, -20.5},
                                                    {1, "failed", 300, (double)NAN},
                                                    {2, "waiting", 0, (double)NAN}};
    const struct study_frame f = {.name = "lr",
                                  .stage = "rung 1 of 3",
                                  .part = 0.423,
                                  .n_ended = 3,
                                  .n_all = 5,
                                  .rate = 12400,
                                  .seconds_left = 29,
                                  .trial = trial,
                                  .n = 5,
                                  .best = &trial[1],
                                  .n_keys = 2,
                                  .key = on_key,
                                  .setting = on_setting,
                                  .columns = columns,
                                  .rows = rows,
                                  .top = top};
    const char *p;
    int lines;

    wbuf_clear(&text);
    lines = study_layout(&f, &text, &shown);
    wbuf_u8(&text, 0);
    ck_assert_int_lt(lines, rows);
    for (p = (const char *)text.data; *p != '\0'; lines--) {
        const size_t len = strcspn(p, "\n");

        ck_assert_int_le(view_width(p, len), columns);
        p += len + 1;
    }
    ck_assert_int_eq(lines, 0);
    return (const char *)text.data;
}

START_TEST(a_study_has_a_line_for_each_trial_that_there_is_room_for)
{
    ck_assert_str_eq(
        lay_out_study(72, 24, 0),
        "lr  ######........   42 %  rung 1 of 3  3 of 5 runs  12,400/s  0:29 left\n"
        "best so far: 7 with -19.86, learning_rate 0.003, discount 0.95\n"
        "trial  state            step     value  learning_rate   discount\n"
        "    8  running         8,200         -          0.003        0.9\n"
        "    7  done           12,800    -19.86          0.003       0.95\n"
        "    1  done           12,800     -20.5          0.003        0.9\n"
        "    2  failed            300         -          0.003        0.9\n"
        "    3  waiting             0         -          0.003        0.9\n");
    ck_assert_uint_eq(shown, 5);
}
END_TEST

START_TEST(a_narrow_or_low_terminal_shows_what_matters_most_of_a_study)
{
    const char *p = lay_out_study(34, 24, 0);

    ck_assert_ptr_nonnull(strstr(p, "lr   42 %  rung 1 of 3  0:29 left\n"));
    p = lay_out_study(30, 24, 0);
    ck_assert_ptr_nonnull(strstr(p, "lr  ###.....   42 %  0:29 left\n"));
    ck_assert_ptr_nonnull(strstr(p, "trial  state        value\n"));
    ck_assert_ptr_nonnull(strstr(p, "    7  done        -19.86\n"));
    p = lay_out_study(80, 7, 1);
    ck_assert_uint_eq(shown, 2);
    ck_assert_ptr_nonnull(strstr(p, "\n    7  done "));
    ck_assert_ptr_nonnull(strstr(p, "\n    1  done "));
    ck_assert_ptr_nonnull(strstr(p, "\n+3 more: 1 running, 1 failed, 1 waiting\n"));
    p = lay_out_study(80, 7, 99); /* trials have been removed in the meantime */
    ck_assert_ptr_nonnull(strstr(p, "\n    3  waiting"));
    for (int columns = 1; columns < 100; columns++)
        for (int rows = 2; rows < 12; rows++)
            (void)lay_out_study(columns, rows, (size_t)columns % 7);
}
END_TEST

START_TEST(keys_scroll_a_list)
{
    ck_assert_uint_eq(redraw_scroll(0, 4, 10, "\033[B\033[B\033[A", 9), 1);
    ck_assert_uint_eq(redraw_scroll(1, 4, 10, "\033[6~x", 5), 4);
    ck_assert_uint_eq(redraw_scroll(4, 4, 10, "\033OF", 3), 6);
    ck_assert_uint_eq(redraw_scroll(6, 4, 10, "\033[H", 3), 0);
    ck_assert_uint_eq(redraw_scroll(3, 10, 4, "", 0), 3);
    ck_assert_uint_eq(redraw_scroll(3, 10, 4, "q", 1), 0);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *s = suite_create("view_layout");
    TCase *tc = tcase_create("view_layout");

    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, a_team_fits_into_80_columns);
    tcase_add_test(tc, several_machines_are_named_where_there_is_room);
    tcase_add_test(tc, nodes_that_are_not_up_are_named);
    tcase_add_test(tc, name_state_and_return_remain_in_40_columns);
    tcase_add_test(tc, a_run_that_waits_says_so_instead_of_the_time_left);
    tcase_add_test(tc, agents_in_trouble_come_first_and_the_rest_is_counted);
    tcase_add_test(tc, no_size_breaks_it);
    tcase_add_test(tc, long_times_and_large_numbers_stay_short);
    tcase_add_test(tc, evaluations_are_a_curve_for_each_team);
    tcase_add_test(tc, the_locale_decides_about_the_characters);
    tcase_add_test(tc, wrapped_lines_take_more_rows);
    tcase_add_test(tc, a_study_has_a_line_for_each_trial_that_there_is_room_for);
    tcase_add_test(tc, a_narrow_or_low_terminal_shows_what_matters_most_of_a_study);
    tcase_add_test(tc, keys_scroll_a_list);
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(make_suite)
