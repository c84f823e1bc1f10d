#include "common/mem/xmalloc.h"
#include "supervisor/metrics/json.h"
#include "supervisor/metrics/sinks.h"
#include "tests/support/temp_dir.h"
#include "tests/support/test_main.h"

#include <errno.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct temp_dir dir;

static void setup(void)
{
    temp_dir_init(&dir);
}

static void teardown(void)
{
    temp_dir_done(&dir);
}

/* A file with a version record and the scalar `reward` = 1.5 at step 10, as written by
 * TensorFlow. */
static const uint8_t example[] = {
    0x18, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0xa3, 0x7f, 0x4b, 0x22, 0x09, 0x00,
    0x00, 0x00, 0x40, 0xfc, 0x54, 0xd9, 0x41, 0x1a, 0x0d, 0x62, 0x72, 0x61, 0x69, 0x6e,
    0x2e, 0x45, 0x76, 0x65, 0x6e, 0x74, 0x3a, 0x32, 0xec, 0xed, 0x8f, 0x9d, 0x1c, 0x00,
    0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0xc8, 0xc1, 0x95, 0x1d, 0x09, 0x00, 0x00, 0x40,
    0x40, 0xfc, 0x54, 0xd9, 0x41, 0x10, 0x0a, 0x2a, 0x0f, 0x0a, 0x0d, 0x0a, 0x06, 0x72,
    0x65, 0x77, 0x61, 0x72, 0x64, 0x15, 0x00, 0x00, 0xc0, 0x3f, 0x12, 0x23, 0xd6, 0xad,
};

START_TEST(test_event_bytes)
{
    const char *const names[] = {"nothing", "reward"};
    const double values[] = {NAN, 1.5};
    const struct metrics_row row = {
        .env_steps = 10, .n = 2, .n_fixed = 2, .names = names, .values = values};
    struct event_sink *s;
    struct err err = {0};
    size_t len;
    char *data;

    ck_assert_int_eq(event_sink_open(&s, dir.path, 1700000000.0, "host", &err), 0);
    ck_assert_int_eq(event_sink_write(s, &row, 1700000001.0, &err), 0);
    event_sink_close(s);
    data =
        temp_dir_read(temp_dir_file(&dir, "events.out.tfevents.1700000000.host"), &len);
    ck_assert_uint_eq(len, sizeof(example));
    ck_assert_mem_eq(data, example, len);
    free(data);
}
END_TEST

static struct event_sink *resumed(uint64_t env_steps)
{
    struct event_sink *s;
    struct err err = {0};

    ck_assert_int_eq(event_sink_resume(&s, dir.path, env_steps, 1.7e9, "host", &err), 0);
    return s;
}

static size_t file_size(const char *name)
{
    size_t len;

    free(temp_dir_read(temp_dir_file(&dir, name), &len));
    return len;
}

/* Each step once, in a folder that is made with the first; a resumed run goes on after its
 * checkpoint. */
START_TEST(test_folder_of_events)
{
    static const char file[] = "images/events.out.tfevents.1700000000.host";
    const struct event_image image = {.data = "GIF", .len = 3, .width = 2, .height = 3};
    static const uint64_t steps[] = {10, 10, 20, 5}, after_10[] = {5, 10, 20};
    size_t size[4], whole;
    struct event_folder *f;
    struct event_sink *s;
    struct err err = {0};
    char *path = xstrdup(temp_dir_file(&dir, "images"));

    f = event_folder_new(path, "host");
    ck_assert_int_eq(event_folder_resume(f, 10, 1.7e9, &err), 0);
    ck_assert_int_ne(access(path, F_OK), 0);
    for (int i = 0; i < 4; i++) {
        ck_assert_int_eq(event_folder_begin(f, steps[i], 1.7e9, &s, &err), 0);
        ck_assert_int_eq(s != NULL, i % 2 == 0);
        if (s != NULL)
            ck_assert_int_eq(
                event_sink_write_image(s, steps[i], "t", &image, 1.7e9, &err), 0);
        size[i] = file_size(file);
    }
    event_folder_free(f);
    whole = size[3];
    ck_assert(size[0] == size[1] && size[1] < size[2] && size[2] == whole);
    f = event_folder_new(path, "host");
    ck_assert_int_eq(event_folder_resume(f, 10, 1.7e9, &err), 0);
    ck_assert_uint_eq(file_size(file), size[0]);
    for (int i = 0; i < 3; i++) {
        ck_assert_int_eq(event_folder_begin(f, after_10[i], 1.7e9, &s, &err), 0);
        ck_assert_int_eq(s != NULL, after_10[i] == 20);
    }
    ck_assert_int_eq(event_sink_write_image(s, 20, "t", &image, 1.7e9, &err), 0);
    ck_assert_uint_eq(file_size(file), whole);
    event_folder_free(f);
    free(path);
}
END_TEST

/* Wherever the file is cut, the graph at its beginning is kept. */
START_TEST(test_graph_is_written_once)
{
    const char *const names[] = {"reward"};
    const double values[] = {1.5};
    const struct metrics_row row = {
        .env_steps = 10, .n = 1, .n_fixed = 1, .names = names, .values = values};
    struct event_sink *s = resumed(0); /* without a file to continue: creates one */
    struct err err = {0};

    ck_assert(!event_sink_has_graph(s));
    event_sink_close(s);
    s = resumed(0);
    ck_assert(!event_sink_has_graph(s));
    ck_assert_int_eq(event_sink_write_graph(s, "graph", 5, 1.7e9, &err), 0);
    ck_assert(event_sink_has_graph(s));
    ck_assert_int_eq(event_sink_write(s, &row, 1.7e9, &err), 0);
    event_sink_close(s);
    for (uint64_t step = 20; step != 0; step = step == 20 ? 5 : 0) {
        s = resumed(step);
        ck_assert(event_sink_has_graph(s));
        event_sink_close(s);
    }
}
END_TEST

#define OLDER_COLUMNS                                                                    \
    "env_steps,episodes,rollout/return/a,rollout/team_return/a,"                         \
    "rollout/episode_length,eval/return/a,eval/team_return/a,eval/episode_length,"       \
    "train/a/critic_loss,train/a/actor_loss,train/a/q_mean,train/a/target_q_mean,"       \
    "train/a/target_q_std,train/a/critic_grad_norm,train/a/actor_grad_norm,"             \
    "time/env_steps_per_second,time/round_us,time/learn_ms"

static const struct algorithm_scalar declared[] = {
    {"entropy", "", "", 0}, {"kl", "", "", 0}, {NULL}};

/* Of one agent, which declares the first n of these. */
static struct metrics *new_metrics(size_t n)
{
    struct metrics *m =
        metrics_new((const char *[]){"a"}, (const char *[]){"a"}, 1, 0, 0);
    struct algorithm_scalar some[3] = {{NULL}, {NULL}, {NULL}};

    memcpy(some, declared, n * sizeof(*declared));
    metrics_declare(m, 0, some, SCALAR_BY_AGENT);
    return m;
}

static void add_scalar(struct metrics *m, const char *name, double value)
{
    metrics_add_scalar(m, 0, name, strlen(name), value);
}

static void write_row(struct csv_sink *s, struct metrics *m, uint64_t steps)
{
    struct metrics_row row;
    struct err err = {0};

    metrics_take_row(m, steps, 0, 0, &row);
    ck_assert_msg(csv_sink_write(s, &row, &err) == 0, "%s", err.msg);
}

static void check_csv(const char *text)
{
    char *found = temp_dir_read(temp_dir_file(&dir, "progress.csv"), NULL);

    ck_assert_str_eq(found, text);
    free(found);
}

static void write_csv(const char *text)
{
    FILE *f = fopen(temp_dir_file(&dir, "progress.csv"), "w");

    ck_assert_ptr_nonnull(f);
    ck_assert_int_ge(fputs(text, f), 0);
    ck_assert_int_eq(fclose(f), 0);
}

static struct csv_sink *resumed_csv(const struct metrics *m, uint64_t step)
{
    struct csv_sink *s = NULL;
    struct err err = {0};

    ck_assert_int_eq(csv_sink_check(temp_dir_file(&dir, "progress.csv"), m, &err), 0);
    ck_assert_int_eq(
        csv_sink_resume(&s, temp_dir_file(&dir, "progress.csv"), m, step, &err), 0);
    return s;
}

/* Plays a run whose scalars are not all declared, from a row on. */
static void play_rows(struct csv_sink *s, struct metrics *m, uint64_t first)
{
    for (uint64_t step = first; step <= 4; step++) {
        add_scalar(m, "kl", (double)step);
        if (step >= 2)
            add_scalar(m, "b", 10 * (double)step);
        if (step == 3)
            add_scalar(m, "a", 7);
        write_row(s, m, step);
    }
}

/* An undeclared scalar gets a column with its first value. However often the run is resumed,
 * the file is the same. */
START_TEST(test_csv_gets_columns)
{
    static const char whole[] =
        OLDER_COLUMNS ",train/a/entropy,train/a/kl,train/a/b,train/a/a\n"
                      "1,0,,,,,,,,,,,,,,,,,,1,,\n"
                      "2,0,,,,,,,,,,,,,,,,,,2,20,\n"
                      "3,0,,,,,,,,,,,,,,,,,,3,30,7\n"
                      "4,0,,,,,,,,,,,,,,,,,,4,40,\n";
    struct metrics *m = new_metrics(2);
    struct csv_sink *s;
    struct err err = {0};

    ck_assert_int_eq(csv_sink_open(&s, temp_dir_file(&dir, "progress.csv"), m, &err), 0);
    check_csv(OLDER_COLUMNS ",train/a/entropy,train/a/kl\n");
    play_rows(s, m, 1);
    csv_sink_close(s);
    metrics_free(m);
    check_csv(whole);
    for (uint64_t from = 0; from <= 4; from++) {
        m = new_metrics(2);
        s = resumed_csv(m, from);
        play_rows(s, m, from + 1);
        csv_sink_close(s);
        metrics_free(m);
        check_csv(whole);
    }
}
END_TEST

/* A file of an older build, or of one whose algorithm declared less, keeps its columns. */
START_TEST(test_csv_keeps_columns)
{
    struct metrics *m = new_metrics(2);
    struct csv_sink *s;
    struct err err = {0};
    uint8_t *state;
    size_t len;

    write_csv(OLDER_COLUMNS "\n1,0,,,,,,,,,,,,,,,,\n");
    s = resumed_csv(m, 1);
    play_rows(s, m, 2);
    csv_sink_close(s);
    check_csv(OLDER_COLUMNS "\n1,0,,,,,,,,,,,,,,,,\n2,0,,,,,,,,,,,,,,,,\n"
                            "3,0,,,,,,,,,,,,,,,,\n4,0,,,,,,,,,,,,,,,,\n");
    write_csv(OLDER_COLUMNS ",train/a/kl,train/a/b\n");
    s = resumed_csv(m, 0);
    play_rows(s, m, 3);
    csv_sink_close(s);
    metrics_free(m);
    check_csv(OLDER_COLUMNS ",train/a/kl,train/a/b\n3,0,,,,,,,,,,,,,,,,,3,30\n"
                            "4,0,,,,,,,,,,,,,,,,,4,40\n");

    /* of a program that declares nothing, only the state tells */
    m = new_metrics(0);
    metrics_state_save(m, 0, &state, &len);
    state[0] = 1;
    ck_assert_int_eq(metrics_state_load(m, state, len, &err), 0);
    write_csv(OLDER_COLUMNS "\n");
    s = resumed_csv(m, 0);
    play_rows(s, m, 4);
    csv_sink_close(s);
    check_csv(OLDER_COLUMNS "\n4,0,,,,,,,,,,,,,,,,\n");
    ck_assert_int_eq(unlink(temp_dir_file(&dir, "progress.csv")), 0);
    csv_sink_close(resumed_csv(m, 0));
    check_csv(OLDER_COLUMNS "\n");
    free(state);
    metrics_free(m);
}
END_TEST

START_TEST(test_csv_of_another_run_is_refused)
{
    static const char *const headers[] = {
        "env_steps\n",
        "env_steps,episodes\n",
        "env_steps,episodesrollout\n",
        OLDER_COLUMNS ",eval/return/b\n",
        OLDER_COLUMNS ",train/a\n",
        OLDER_COLUMNS ",train//a\n",
        OLDER_COLUMNS ",train/a/\n",
        OLDER_COLUMNS ",train/a/b c\n",
        "env_steps,episodes,train/a/kl\n",
    };
    struct metrics *m = new_metrics(2);

    for (size_t i = 0; i < sizeof(headers) / sizeof(headers[0]); i++) {
        struct csv_sink *s = NULL;
        struct err err = {0};

        write_csv(headers[i]);
        ck_assert_int_eq(csv_sink_check(temp_dir_file(&dir, "progress.csv"), m, &err),
                         ERR_FORMAT);
        ck_assert_int_eq(
            csv_sink_resume(&s, temp_dir_file(&dir, "progress.csv"), m, 0, &err),
            ERR_FORMAT);
        check_csv(headers[i]);
    }
    metrics_free(m);
}
END_TEST

START_TEST(test_csv)
{
    struct metrics *m =
        metrics_new((const char *[]){"a"}, (const char *[]){"a"}, 1, 0, 0);
    struct metrics_row row;
    struct csv_sink *s;
    struct err err = {0};
    char *text;

    ck_assert_int_eq(csv_sink_open(&s, temp_dir_file(&dir, "progress.csv"), m, &err), 0);
    metrics_add_episode(m, (double[]){0.1}, 25, NULL);
    metrics_add_scalar(m, 0, "q_mean", 6, -1e-7);
    metrics_take_row(m, 100, 4, 0, &row);
    ck_assert_int_eq(csv_sink_write(s, &row, &err), 0);
    text = temp_dir_read(temp_dir_file(&dir, "progress.csv"), NULL); /* flushed */
    ck_assert_str_eq(text, OLDER_COLUMNS "\n"
                                         "100,4,0.1,0.1,25,,,,,,-1e-07,,,,,,,\n");
    free(text);
    csv_sink_close(s);
    metrics_free(m);
}
END_TEST

START_TEST(test_full_disk_is_an_error)
{
    struct metrics *m =
        metrics_new((const char *[]){"a"}, (const char *[]){"a"}, 1, 0, 0);
    struct metrics_row row;
    struct csv_sink *s;
    struct err err = {0};

    ck_assert_int_eq(symlink("/dev/full", temp_dir_file(&dir, "full")), 0);
    ck_assert_int_lt(csv_sink_open(&s, temp_dir_file(&dir, "full"), m, &err), 0);
    metrics_take_row(m, 0, 0, 0, &row);
    metrics_free(m);
}
END_TEST

/* A resume would cut it. Reading the first bytes of a process's memory is an I/O error. */
START_TEST(test_unreadable_rows_are_an_error)
{
    struct metrics *m =
        metrics_new((const char *[]){"a"}, (const char *[]){"a"}, 1, 0, 0);
    struct event_sink *s;
    struct err err = {0};

    ck_assert_int_eq(csv_sink_check("/proc/self/mem", m, &err), -EIO);
    ck_assert_int_eq(
        symlink("/proc/self/mem", temp_dir_file(&dir, "events.out.tfevents.1")), 0);
    ck_assert_int_eq(event_sink_resume(&s, dir.path, 8, 1.7e9, "host", &err), -EIO);
    metrics_free(m);
}
END_TEST

START_TEST(test_shortest_numbers)
{
    static const double values[] = {0,       -0.0,    1,        0.1,
                                    1.0 / 3, 1e300,   5e-324,   -2.5,
                                    DBL_MAX, DBL_MIN, 1e15 + 1, 123456789.0};
    char text[JSON_NUMBER_MAX];

    for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
        double back = strtod(json_format_f64(values[i], text), NULL);
        ck_assert_mem_eq(&back, &values[i], sizeof(back));
    }
    ck_assert_str_eq(json_format_f64(0.1, text), "0.1");
    ck_assert_str_eq(json_format_f64(100, text), "100");
}
END_TEST

START_TEST(test_json)
{
    struct json j = {0};
    size_t len;

    json_object(&j);
    json_key(&j, "event");
    json_str(&j, "say \"hi\"\\\n\x01");
    json_key(&j, "list");
    json_array(&j);
    json_u64(&j, UINT64_MAX);
    json_i64(&j, -5);
    json_f64(&j, NAN);
    json_f64(&j, 0.25);
    json_bool(&j, 1);
    json_object(&j);
    json_close(&j);
    json_close(&j);
    json_key(&j, "text");
    json_str(&j, "gr\xc3\xbc\xc3\x9f \xff\xc0\x80 \xed\xa0\x80");
    json_key(&j, "none");
    json_str(&j, NULL);
    json_close(&j);
    ck_assert_str_eq(json_line(&j, &len),
                     "{\"event\": \"say \\\"hi\\\"\\\\\\n\\u0001\", "
                     "\"list\": [18446744073709551615, -5, null, 0.25, true, {}], "
                     "\"text\": \"gr\xc3\xbc\xc3\x9f \\ufffd\\ufffd\\ufffd "
                     "\\ufffd\\ufffd\\ufffd\", \"none\": null}\n");
    ck_assert_uint_eq(len, strlen(j.data));
    json_begin(&j);
    json_u64(&j, 1);
    ck_assert_str_eq(json_line(&j, NULL), "1\n");
    json_done(&j);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *s = suite_create("sinks");
    TCase *tc = tcase_create("sinks");

    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, test_event_bytes);
    tcase_add_test(tc, test_folder_of_events);
    tcase_add_test(tc, test_graph_is_written_once);
    tcase_add_test(tc, test_csv);
    tcase_add_test(tc, test_csv_gets_columns);
    tcase_add_test(tc, test_csv_keeps_columns);
    tcase_add_test(tc, test_csv_of_another_run_is_refused);
    tcase_add_test(tc, test_full_disk_is_an_error);
    tcase_add_test(tc, test_unreadable_rows_are_an_error);
    tcase_add_test(tc, test_shortest_numbers);
    tcase_add_test(tc, test_json);
    suite_add_tcase(s, tc);
    return s;
}
TEST_MAIN(make_suite)
