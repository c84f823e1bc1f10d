/* The journal, written and read back; and reading the lines of files that grow. */
#include "common/io/line_reader.h"
#include "common/mem/xmalloc.h"
#include "supervisor/rundir/journal.h"
#include "supervisor/rundir/journal_read.h"
#include "tests/support/temp_dir.h"
#include "tests/support/test_main.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

static struct temp_dir dir;
static struct err err;
static char path[256];
static int disk_fails;             /* fsync fails with EIO */
static const char *appended_first; /* what another process appends before it fails */

static void setup(void)
{
    temp_dir_init(&dir);
    (void)snprintf(path, sizeof(path), "%s", temp_dir_file(&dir, "journal"));
}

static void teardown(void)
{
    temp_dir_done(&dir);
}

static void put(const char *to, const char *text, size_t len, int flags)
{
    int fd = open(to, O_WRONLY | O_CREAT | O_APPEND | flags, 0600);

    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(write(fd, text, len), (ssize_t)len);
    (void)close(fd);
}

/* Replaces that of the C library. */
int fsync(int fd)
{
    if (!disk_fails)
        return (int)syscall(SYS_fsync, fd);
    if (appended_first != NULL)
        put(path, appended_first, strlen(appended_first), 0);
    errno = EIO;
    return -1;
}

/* ---- events ---- */

struct seen {
    size_t n;
    char names[16][32];
    uint64_t steps[16], lines[16];
    char *why;
};

static int see(void *ctx, uint64_t line, const struct journal_event *e)
{
    struct seen *s = ctx;

    ck_assert_uint_lt(s->n, 16);
    (void)snprintf(s->names[s->n], sizeof(s->names[0]), "%s", e->name);
    s->lines[s->n] = line;
    s->steps[s->n++] = e->env_steps;
    if (journal_value(e, "why") != NULL) {
        free(s->why);
        s->why = xstrdup(journal_value(e, "why"));
    }
    return strcmp(e->name, "enough") == 0 ? 7 : 0;
}

static void put_event(struct journal *j, enum run_event_kind kind, uint64_t step)
{
    struct run_event e = {.kind = kind, .env_steps = step, .time = "T"};

    run_event_process_init(&e.process, "a", NULL);
    ck_assert_int_eq(journal_write(j, &e, &err), 0);
}

/* Every value is read back as it was given, with U+FFFD for invalid UTF-8. */
START_TEST(values_come_back)
{
    static const char *const values[][2] = {
        {"plain", "plain"},
        {"", ""},
        {"two words", "two words"},
        {"event=end state=done", "event=end state=done"},
        {"say \"no\" \\ yes", "say \"no\" \\ yes"},
        {"\b\f\n\r\t\x01\x1f\x7f", "\b\f\n\r\t\x01\x1f\x7f"},
        {"h\xc3\xa9 \xe2\x82\xac \xf0\x9f\x90\xa3",
         "h\xc3\xa9 \xe2\x82\xac \xf0\x9f\x90\xa3"},
        {"a\xff z", "a\xef\xbf\xbd z"},
    };
    struct journal *j;
    struct run_event e;

    for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
        struct seen s = {0};

        (void)unlink(path);
        j = journal_new(path);
        ck_assert_int_eq(journal_begin(j, &err), 0);
        e = (struct run_event){.kind = RUN_EVENT_EXIT, .env_steps = 25 + i, .time = "T"};
        run_event_process_init(&e.process, "a", NULL);
        e.process.why = values[i][0];
        ck_assert_int_eq(journal_write(j, &e, &err), 0);
        journal_close(j);
        ck_assert_int_eq(journal_each(path, see, &s, &err), 0);
        ck_assert_uint_eq(s.n, 1);
        ck_assert_str_eq(s.names[0], "exit");
        ck_assert_uint_eq(s.steps[0], 25 + i);
        ck_assert_str_eq(s.why, values[i][1]);
        free(s.why);
    }
}
END_TEST

START_TEST(numbers_are_read_with_what_to_take_otherwise)
{
    char line[] = "T step=7 event=e a=12 b=-1 c=1.5 d=12x e= f=99999999999999999999";
    struct journal_event e;

    ck_assert_int_eq(journal_parse(line, &e), 0);
    ck_assert_str_eq(e.time, "T");
    ck_assert_uint_eq(e.env_steps, 7);
    ck_assert_uint_eq(e.n_pairs, 6);
    ck_assert_uint_eq(journal_number(&e, "a", 3), 12);
    ck_assert_uint_eq(journal_number(&e, "b", 3), 3);
    ck_assert_uint_eq(journal_number(&e, "d", 3), 3);
    ck_assert_uint_eq(journal_number(&e, "f", 3), 3);
    ck_assert_uint_eq(journal_number(&e, "none", 3), 3);
    ck_assert(journal_real(&e, "c", 0) == 1.5 && journal_real(&e, "b", 0) == -1);
    ck_assert(journal_real(&e, "d", 2) == 2 && journal_real(&e, "e", 2) == 2);
    ck_assert_ptr_null(journal_value(&e, "step"));
}
END_TEST

START_TEST(what_is_no_line_of_a_journal_is_refused)
{
    static const char *const lines[] = {
        "",
        "T",
        "T ",
        "T step=1",
        "T event=",
        " event=e",
        "T step=-1 event=e",
        "T step=x event=e",
        "T event=e word",
        "T event=e =1",
        "T event=e a=\"open",
        "T event=e a=\"x\"y",
        "T event=e a=\"\\q\"",
        "T event=e a=\"\\u12g4\"",
        "T event=e a=\"\\u12",
        "T event=e a=\"\\ud83d\\udc23\"",
        "T event=e a=\"\\u0000\"",
        "T event=e a=\"\\",
    };

    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
        char *line = xstrdup(lines[i]);
        struct journal_event e;

        ck_assert_msg(journal_parse(line, &e) == ERR_FORMAT, "%s", lines[i]);
        free(line);
    }
}
END_TEST

START_TEST(too_many_pairs_are_refused)
{
    char line[1024] = "T event=e";
    struct journal_event e;

    for (int i = 0; i <= JOURNAL_PAIRS_MAX; i++)
        (void)strcat(line, " k=v");
    ck_assert_int_eq(journal_parse(line, &e), ERR_LIMIT);
}
END_TEST

START_TEST(damage_is_passed_over)
{
    static const char text[] = "T step=1 event=one\n"
                               "\n\0\0\0\n"
                               "T step=2 event=cut why=\"a\n"
                               "T step=3 event=n\0ul\n"
                               "T step=4 event=two\n"
                               "T step=5 event=being-writ";
    struct seen s = {0};

    put(path, text, sizeof(text) - 1, 0);
    ck_assert_int_eq(journal_each(path, see, &s, &err), 0);
    ck_assert_uint_eq(s.n, 2);
    ck_assert(s.steps[0] == 1 && s.steps[1] == 4 && s.lines[1] == 6);
}
END_TEST

START_TEST(reading_ends_when_told)
{
    static const char text[] = "T event=a\nT event=enough\nT event=b\n";
    struct seen s = {0};

    put(path, text, sizeof(text) - 1, 0);
    ck_assert_int_eq(journal_each(path, see, &s, &err), 7);
    ck_assert_uint_eq(s.n, 2);
    ck_assert(s.steps[0] == JOURNAL_NO_STEP);
    ck_assert_int_eq(journal_each("/nowhere/journal", see, &s, &err), ERR_NOT_FOUND);
    ck_assert_int_lt(journal_each("/", see, &s, &err), 0);
    ck_assert_msg(strncmp(err.msg, "/: ", 3) == 0, "%s", err.msg);
}
END_TEST

/* A line that a dead supervisor left half written, also of a change, is cut off first. */
START_TEST(others_append_to_it)
{
    struct seen s = {0};
    struct journal *j;
    const char *at;
    char *text;

    journal_append(dir.path, "event=end", 1); /* does not create a journal */
    ck_assert_int_eq(journal_each(path, see, &s, &err), ERR_NOT_FOUND);
    j = journal_new(path);
    ck_assert_int_eq(journal_begin(j, &err), 0);
    for (uint64_t i = 0; i < 300; i++)
        put_event(j, RUN_EVENT_SPACE, i);
    journal_close(j);
    put(path, "2026-01-31T12:00:00.123Z step=301 event=space\n", 46, 0);
    put(path, "2026-01-31T12:00:00.123Z step=302 event=set set=\"run.env_st", 58, 0);
    journal_append(dir.path, "event=enough code=137", 1);
    journal_append(dir.path, "event=enough code=138", 0);
    put(path, "T step=4 event=checkpoint\n", 26, 0);
    text = temp_dir_read(path, NULL);
    at = strstr(text, " event=enough code=137\n");
    ck_assert_ptr_nonnull(at);
    ck_assert_msg(strncmp(at - 9, " step=301", 9) == 0 && at[-9 - 24 - 1] == '\n', "%s",
                  at - 40);
    ck_assert_ptr_null(strstr(text, "event=set"));
    ck_assert_ptr_nonnull(strstr(text, "\nT step=4 "));
    free(text);
}
END_TEST

/* A limit on the file size simulates a full disk. */
START_TEST(a_line_for_which_there_is_no_space_leaves_no_piece)
{
    struct run_event change = {
        .kind = RUN_EVENT_SET, .env_steps = 5, .time = "T", .change = {.at = 5}};
    struct rlimit was, limit;
    struct journal *j = journal_new(path);
    struct seen s = {0};

    change.change.changes = "defaults.discount=0.9";
    ck_assert_int_eq(journal_begin(j, &err), 0);
    put_event(j, RUN_EVENT_READY, 1);
    (void)signal(SIGXFSZ, SIG_IGN);
    ck_assert_int_eq(getrlimit(RLIMIT_FSIZE, &was), 0);
    /* space for one line and a part of the next */
    limit = (struct rlimit){60, was.rlim_max};
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
    ck_assert_int_lt(journal_write(j, &change, &err), 0);
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &was), 0);
    put_event(j, RUN_EVENT_READY, 9);
    journal_close(j);
    ck_assert_int_eq(journal_each(path, see, &s, &err), 0);
    ck_assert_uint_eq(s.n, 2);
    ck_assert_str_eq(s.names[1], "ready");
    ck_assert_uint_eq(s.steps[1], 9);
}
END_TEST

/* A change that the disk does not take is refused, so that no resume may find it. */
START_TEST(a_change_that_cannot_be_synced_leaves_no_line)
{
    const struct run_event change = {
        .kind = RUN_EVENT_SET, .time = "T", .change = {.at = 5, .changes = "a=1"}};
    struct journal *j = journal_new(path);
    struct seen s = {0};

    ck_assert_int_eq(journal_begin(j, &err), 0);
    put_event(j, RUN_EVENT_READY, 1);
    disk_fails = 1;
    ck_assert_int_eq(journal_write(j, &change, &err), -EIO);
    appended_first = "T step=1 event=stall\n";
    ck_assert_int_eq(journal_write(j, &change, &err), -EIO);
    appended_first = NULL;
    disk_fails = 0;
    put_event(j, RUN_EVENT_READY, 9);
    journal_close(j);
    ck_assert_int_eq(journal_each(path, see, &s, &err), 0);
    ck_assert_uint_eq(s.n, 2);
    ck_assert_str_eq(s.names[1], "ready");
    ck_assert_uint_eq(s.steps[1], 9);
}
END_TEST

START_TEST(lines_wait_until_it_begins)
{
    static const char cut[] = "2026-01-31T12:00:00.123Z step=3";
    struct journal *j = journal_new(path);
    struct seen s = {0};
    char *text;

    put(path, cut, sizeof(cut) - 1, 0);
    put_event(j, RUN_EVENT_SPACE, 4);
    put_event(j, RUN_EVENT_REINSTATE, 4); /* an event that is committed to the disk */
    journal_close(j);
    text = temp_dir_read(path, NULL);
    ck_assert_str_eq(text, cut);
    free(text);
    j = journal_new(path);
    put_event(j, RUN_EVENT_SPACE, 5);
    put_event(j, RUN_EVENT_SPAWN, 5);
    ck_assert_int_eq(journal_begin(j, &err), 0);
    put_event(j, RUN_EVENT_ROW, 6); /* not an event of the journal */
    put_event(j, RUN_EVENT_READY, 6);
    ck_assert_int_eq(journal_begin(j, &err), 0);
    journal_close(j);
    ck_assert_int_eq(journal_each(path, see, &s, &err), 0);
    ck_assert_uint_eq(s.n, 3);
    ck_assert(s.steps[0] == 5 && s.lines[0] == 1 && s.steps[2] == 6);
    ck_assert_str_eq(s.names[1], "spawn");
}
END_TEST

/* ---- lines of files that grow ---- */

static struct line_reader reader;

static void expect(const char *want, int cut)
{
    char *line;
    size_t len;

    ck_assert_int_eq(line_reader_next(&reader, &line, &len, &err), 1);
    ck_assert_str_eq(line, want);
    ck_assert_uint_eq(len, strlen(want));
    ck_assert_int_eq(reader.cut, cut);
}

static void expect_none(void)
{
    char *line;
    size_t len;

    ck_assert_int_eq(line_reader_next(&reader, &line, &len, &err), 0);
}

START_TEST(lines_come_as_they_are_written)
{
    char *line;
    size_t len;

    ck_assert_int_eq(line_reader_open(&reader, path, 100, &err), ERR_NOT_FOUND);
    expect_none();
    ck_assert_int_eq(line_reader_renew(&reader, path), 0);
    put(path, "one\n\ntw", 7, 0);
    ck_assert_int_eq(line_reader_renew(&reader, path), 1);
    expect("one", 0);
    expect("", 0);
    expect_none();
    put(path, "o\nthree", 7, 0);
    ck_assert_int_eq(line_reader_renew(&reader, path), 0);
    expect("two", 0);
    expect_none();
    ck_assert_int_eq(line_reader_rest(&reader, &line, &len), 1);
    ck_assert_str_eq(line, "three");
    ck_assert_int_eq(line_reader_rest(&reader, &line, &len), 0);
    ck_assert_uint_eq(reader.number, 4);
    line_reader_close(&reader);
    line_reader_close(&reader);
}
END_TEST

START_TEST(another_file_in_its_place_is_read_from_its_beginning)
{
    char older[300];

    (void)snprintf(older, sizeof(older), "%s.1", path);
    put(path, "one\nrest", 8, 0);
    ck_assert_int_eq(line_reader_open(&reader, path, 100, &err), 0);
    expect("one", 0);
    expect_none();
    ck_assert_int_eq(rename(path, older), 0);
    ck_assert_int_eq(line_reader_renew(&reader, path), 0);
    put(path, "two\n", 4, 0);
    ck_assert_int_eq(line_reader_renew(&reader, path), 1);
    expect("two", 0);
    expect_none();
    put(path, "x\n", 2, O_TRUNC);
    ck_assert_int_eq(line_reader_renew(&reader, path), 1);
    expect("x", 0);
    expect_none();
    line_reader_close(&reader);
}
END_TEST

START_TEST(long_lines_are_cut)
{
    char *text = xmalloc(400000);

    memset(text, 'x', 400000);
    text[50] = text[50 + 1 + 200] = text[299999] = '\n';
    text[300002] = '\n';
    put(path, text, 400000, 0);
    ck_assert_int_eq(line_reader_open(&reader, path, 100, &err), 0);
    text[50] = text[100] = '\0';
    expect(text, 0);
    text[50] = 'x';
    expect(text, 1);
    expect(text, 1); /* the line of 300,000 bytes */
    expect("xx", 0);
    expect(text, 1);
    ck_assert_uint_lt(reader.cap, 400000);
    expect_none();
    put(path, "x\nend\n", 6, 0);
    expect("end", 0);
    line_reader_close(&reader);
    free(text);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *s = suite_create("journal");
    TCase *tc = tcase_create("journal");

    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, values_come_back);
    tcase_add_test(tc, numbers_are_read_with_what_to_take_otherwise);
    tcase_add_test(tc, what_is_no_line_of_a_journal_is_refused);
    tcase_add_test(tc, too_many_pairs_are_refused);
    tcase_add_test(tc, damage_is_passed_over);
    tcase_add_test(tc, reading_ends_when_told);
    tcase_add_test(tc, others_append_to_it);
    tcase_add_test(tc, a_line_for_which_there_is_no_space_leaves_no_piece);
    tcase_add_test(tc, a_change_that_cannot_be_synced_leaves_no_line);
    tcase_add_test(tc, lines_wait_until_it_begins);
    tcase_add_test(tc, lines_come_as_they_are_written);
    tcase_add_test(tc, another_file_in_its_place_is_read_from_its_beginning);
    tcase_add_test(tc, long_lines_are_cut);
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(make_suite)
