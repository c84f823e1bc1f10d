/* The walks through several folders of runs (supervisor/web/runs.h). The test is what reads: it
 * decides when a thread has read a folder, and which one does not come back. */
#include "supervisor/web/runs.h"
#include "tests/support/temp_dir.h"
#include "tests/support/test_main.h"

#include <string.h>
#include <sys/stat.h>

enum { MAX_READINGS = 16 };

static struct reading *waiting[MAX_READINGS];
static size_t n_waiting;

void reading_add(struct readings *all, struct reading *r)
{
    ck_assert_uint_lt(n_waiting, MAX_READINGS);
    waiting[n_waiting++] = r;
}

uint64_t readings_now(const struct readings *all)
{
    return 0;
}

/* Takes the first reading of that folder, or of a run in it; NULL: there is none. */
static struct reading *take(const char *folder)
{
    for (size_t i = 0; i < n_waiting; i++) {
        struct reading *r = waiting[i];

        if (strncmp(r->dir, folder, strlen(folder)) != 0)
            continue;
        waiting[i] = waiting[--n_waiting];
        return r;
    }
    return NULL;
}

/* Reads the folder, and what is then to be read of its runs. */
static void read_all(const char *folder)
{
    struct reading *r;

    while ((r = take(folder)) != NULL) {
        r->read(r);
        r->end(r, NULL);
        r->free(r);
    }
}

static void on_change(void *ctx)
{
}

/* Whether the whole list has that text. */
static int says(const struct runs *r, const char *text)
{
    struct json j = {0};
    size_t len;
    int ret;

    json_object(&j);
    runs_put(r, 0, &j);
    json_close(&j);
    ret = strstr(json_line(&j, &len), text) != NULL;
    json_done(&j);
    return ret;
}

static void make_run(struct temp_dir *dir, const char *folder)
{
    char name[64];

    ck_assert_int_eq(mkdir(temp_dir_file(dir, folder), 0700), 0);
    (void)snprintf(name, sizeof(name), "%s/one", folder);
    ck_assert_int_eq(mkdir(temp_dir_file(dir, name), 0700), 0);
    (void)snprintf(name, sizeof(name), "%s/one/lock", folder);
    temp_dir_write(temp_dir_file(dir, name), "", 0);
}

START_TEST(test_a_folder_that_hangs_holds_up_no_other)
{
    struct temp_dir dir;
    char a[sizeof(dir.file)], b[sizeof(dir.file)], *paths[] = {a, b};
    const struct err late = {.code = ERR_TIMEOUT};
    struct folders folders;
    struct reading *hangs;
    struct runs *r;
    struct run_place place;

    temp_dir_init(&dir);
    make_run(&dir, "a");
    make_run(&dir, "b");
    (void)strcpy(a, temp_dir_file(&dir, "a"));
    (void)strcpy(b, temp_dir_file(&dir, "b"));
    ck_assert_int_eq(folders_open(&folders, paths, 2, NULL), 0);
    r = runs_new(NULL, &folders, on_change, NULL);

    ck_assert_uint_eq(runs_walk(r), 1);
    read_all(a);
    ck_assert(runs_find(r, "a/one", &place));
    ck_assert_str_eq(place.folder, a);
    ck_assert_uint_eq(runs_walked(r), 0);
    ck_assert(!runs_is_complete(r));
    hangs = take(b);
    hangs->end(hangs, &late);
    ck_assert_uint_eq(runs_walked(r), 1);
    ck_assert(runs_is_complete(r));
    ck_assert(says(r, "takes longer than 5 s") && says(r, "\"names\": [\"a/one\"]"));

    ck_assert_uint_eq(runs_walk(r), 2); /* through the other one alone */
    ck_assert_ptr_null(take(b));
    read_all(a);
    ck_assert_uint_eq(runs_walked(r), 2);

    hangs->free(hangs); /* its thread has come back */
    ck_assert_uint_eq(runs_walk(r), 3);
    ck_assert_uint_eq(runs_walk(r), 4); /* is noted */
    read_all(a);
    ck_assert_uint_eq(runs_walked(r), 2);
    read_all(b);
    ck_assert_uint_eq(runs_walked(r), 3);
    ck_assert(runs_find(r, "b/one", &place) && runs_find(r, "a/one", &place));
    ck_assert(!says(r, "takes longer"));
    read_all(a);
    read_all(b);
    ck_assert_uint_eq(runs_walked(r), 4);
    ck_assert_uint_eq(n_waiting, 0);

    ck_assert_uint_eq(runs_walk(r), 5); /* all hang: no walk can begin */
    for (size_t i = 0; i < 2; i++)
        waiting[i]->end(waiting[i], &late);
    ck_assert(runs_find(r, "b/one", &place)); /* the list stays as it is */
    ck_assert_uint_eq(runs_walk(r), 5);
    ck_assert_uint_eq(n_waiting, 2);
    runs_close(r);
    for (; n_waiting > 0; n_waiting--)
        waiting[n_waiting - 1]->free(waiting[n_waiting - 1]);
    runs_free(r);
    folders_close(&folders);
    temp_dir_done(&dir);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *s = suite_create("web_runs");
    TCase *t = tcase_create("web_runs");

    tcase_add_test(t, test_a_folder_that_hangs_holds_up_no_other);
    suite_add_tcase(s, t);
    return s;
}
TEST_MAIN(make_suite)
