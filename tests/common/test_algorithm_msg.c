/* Descriptions of algorithms as messages: what brood-agent says is read back whole, and what a
 * stranger says is checked. */
#include "common/msg/algorithm_msg.h"
#include "tests/support/test_main.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* ---- the descriptions of this build ---- */

static void check_field(const struct field *a, const struct field *b)
{
    ck_assert_str_eq(a->key, b->key);
    ck_assert_str_eq(a->doc, b->doc);
    ck_assert(a->type == b->type && a->flags == b->flags && a->change == b->change);
    ck_assert(a->offset == b->offset);
    ck_assert((a->default_text == NULL) == (b->default_text == NULL));
    if (a->default_text != NULL)
        ck_assert_str_eq(a->default_text, b->default_text);
    if (a->type == FIELD_F64 || a->type == FIELD_I64)
        ck_assert(a->min == b->min && a->max == b->max);
    for (size_t i = 0; a->type == FIELD_ENUM && a->names[i] != NULL; i++)
        ck_assert_str_eq(a->names[i], b->names[i]);
}

START_TEST(descriptions_are_read_back)
{
    const struct algorithm_info *a = algorithm_at((size_t)_i);
    struct algorithm_info b;
    struct arena arena = ARENA_ZERO;
    struct msg_out out;
    struct msg message;
    struct err err = {0};
    const uint8_t *frame;
    size_t len;

    if (a == NULL)
        return;
    msg_out_init(&out);
    msg_begin_response(&out, 0);
    msg_algorithm(&out, a);
    msg_end(&out, &frame, &len);
    ck_assert_int_eq(msg_parse(&message, frame + 4, len - 4, &err), 0);
    ck_assert_msg(msg_to_algorithm(&message.body, &b, &arena, &err) == 0, "%s", err.msg);
    ck_assert_str_eq(a->name, b.name);
    ck_assert_str_eq(a->stages, b.stages);
    ck_assert(a->rows == b.rows && a->fixed == b.fixed && a->shares == b.shares);
    ck_assert(a->central == b.central && a->keeps_window == b.keeps_window);
    ck_assert_uint_eq(a->settings.n, b.settings.n);
    for (size_t i = 0; i < a->settings.n; i++)
        check_field(&a->settings.fields[i], &b.settings.fields[i]);
    for (size_t i = 0; a->defaults != NULL && a->defaults[i].path != NULL; i++) {
        ck_assert_str_eq(a->defaults[i].path, b.defaults[i].path);
        ck_assert_str_eq(a->defaults[i].text, b.defaults[i].text);
    }
    ck_assert((a->method == NULL) == (b.method == NULL));
    for (size_t i = 0; a->method != NULL && a->method[i] != NULL; i++)
        ck_assert_str_eq(a->method[i], b.method[i]);
    ck_assert((a->scalars == NULL) == (b.scalars == NULL));
    for (size_t i = 0; a->scalars != NULL && a->scalars[i].name != NULL; i++) {
        ck_assert_str_eq(a->scalars[i].name, b.scalars[i].name);
        ck_assert_str_eq(a->scalars[i].meaning, b.scalars[i].meaning);
        ck_assert_str_eq(a->scalars[i].unit, b.scalars[i].unit);
        ck_assert_uint_eq(a->scalars[i].by, b.scalars[i].by);
    }
    msg_done(&message);
    msg_out_done(&out);
    arena_done(&arena);
}
END_TEST

/* A page of a terminal has room for it (`brood algorithms NAME`). */
START_TEST(learners_describe_their_method)
{
    const struct algorithm_info *a = algorithm_at((size_t)_i);
    size_t n = 0;

    if (a == NULL || !algorithm_learns(a))
        return;
    ck_assert_msg(a->method != NULL, "%s", a->name);
    for (; a->method[n] != NULL; n++)
        ck_assert_msg(strlen(a->method[n]) < 86, "%s: %s", a->name, a->method[n]);
    ck_assert_msg(n >= 5 && n <= ALGORITHM_MAX_METHOD, "%s: %zu lines", a->name, n);
}
END_TEST

static void *find_default(void *ctx)
{
    return (void *)(uintptr_t)(algorithm_default()->settings.n +
                               algorithm_any()->settings.n);
}

/* The first to ask may be several threads at once, as in `brood web`. */
START_TEST(threads_find_whole_descriptions)
{
    enum { THREADS = 16 };
    pthread_t thread[THREADS];
    void *found[THREADS];

    for (int i = 0; i < THREADS; i++)
        ck_assert_int_eq(pthread_create(&thread[i], NULL, find_default, NULL), 0);
    for (int i = 0; i < THREADS; i++)
        ck_assert_int_eq(pthread_join(thread[i], &found[i]), 0);
    for (int i = 0; i < THREADS; i++)
        ck_assert_ptr_eq(found[i], find_default(NULL));
}
END_TEST

/* ---- a stranger's description ---- */

/* What a case gives instead of a good description's value; NULL: the good one. */
struct stranger {
    const char *name, *rows, *is, *key, *type, *value, *flag, *choice, *path, *text;
    const char *scalar, *meaning, *by;
    const char *method;
    int lines;   /* of the method */
    int scalars; /* how many, all but the first of other names; -1: two of the same */
    double min, max;
    int twice, many;
    const char *error; /* a part of the message; NULL: it is accepted */
};

#define OR(text, other) ((text) != NULL ? (text) : (other))

static void put_setting(struct msg_out *o, const struct stranger *s, int i)
{
    msg_map(o, 7u + (s->choice != NULL));
    if (i > 1) {
        char key[16];

        (void)snprintf(key, sizeof(key), "k%d", i);
        msg_put_str(o, "key", key);
    } else {
        msg_put_str(o, "key", i == 1 && !s->twice ? "other" : OR(s->key, "width"));
    }
    msg_put_str(o, "type", OR(s->type, "whole"));
    msg_put_str(o, "doc", "how wide");
    msg_put_str(o, "default", OR(s->value, "8"));
    msg_put_f64(o, "min", s->min);
    msg_put_f64(o, "max", s->max > 0 ? s->max : 64);
    msg_key(o, "flags");
    msg_array(o, s->flag != NULL);
    if (s->flag != NULL)
        msg_str(o, s->flag);
    if (s->choice != NULL) {
        msg_key(o, "names");
        msg_array(o, 2);
        msg_str(o, s->choice);
        msg_str(o, "b");
    }
}

static void put_scalars(struct msg_out *o, const struct stranger *s)
{
    const int n = s->scalars < 0 ? 2 : s->scalars;

    if (n == 0)
        return;
    msg_key(o, "scalars");
    msg_array(o, (size_t)n);
    for (int i = 0; i < n; i++) {
        char name[16];

        (void)snprintf(name, sizeof(name), "s%d", i);
        msg_map(o, 2u + (s->by != NULL));
        msg_put_str(o, "name", i == 0 || s->scalars < 0 ? OR(s->scalar, "kl") : name);
        msg_put_str(o, "meaning", OR(s->meaning, "a number"));
        if (s->by == NULL)
            continue;
        msg_key(o, "by");
        msg_array(o, 1);
        msg_str(o, s->by);
    }
}

static void put_stranger(struct msg_out *o, const struct stranger *s)
{
    const int n = s->many > 0 ? s->many : 2;

    msg_map(o, 9u + (s->scalars != 0) + (s->lines != 0));
    msg_put_str(o, "name", OR(s->name, "mine"));
    msg_put_str(o, "summary", "a stranger");
    msg_put_str(o, "stages", "learn(all, writes)");
    msg_put_str(o, "use", "tests");
    msg_put_str(o, "source", "none");
    if (s->lines != 0) {
        msg_key(o, "method");
        msg_array(o, (size_t)s->lines);
        for (int i = 0; i < s->lines; i++)
            msg_str(o, OR(s->method, "y = r"));
    }
    msg_key(o, "settings");
    msg_array(o, (size_t)n);
    for (int i = 0; i < n; i++)
        put_setting(o, s, i);
    msg_key(o, "defaults");
    msg_map(o, 1);
    msg_put_str(o, OR(s->path, "discount"), OR(s->text, "0.9"));
    msg_put_str(o, "rows", OR(s->rows, "window"));
    put_scalars(o, s);
    msg_key(o, "is");
    msg_array(o, 1);
    msg_str(o, OR(s->is, "shares"));
}

static const struct stranger strangers[] = {
    {.error = NULL},
    {.type = "schedule", .value = "1 to 0.5 over 10", .error = NULL},
    {.type = "choice", .value = "b", .choice = "a", .error = NULL},
    {.path = "critic.hidden", .text = "[32, 16]", .error = NULL},
    {.path = "settings.width", .text = "16", .error = NULL},
    {.name = "a/b", .error = "name: found 'a/b'"},
    {.name = "a\033[2J", .error = "a text of one line"},
    {.key = "a.b", .error = "key of a setting"},
    {.rows = "lines", .error = "rows: 'lines' is unknown"},
    {.is = "odd", .error = "is: 'odd' is unknown"},
    {.type = "-", .error = "a type expected"},
    {.type = "blob", .error = "type: 'blob' is unknown"},
    {.value = "65", .error = "width: default"},
    {.value = "x", .error = "width: default"},
    {.value = "[", .error = "width: default"},
    {.type = "text", .value = "a", .error = "a text has no default"},
    {.type = "choice", .value = "a", .error = "do not agree"},
    {.choice = "a", .error = "do not agree"},
    {.min = 9, .max = 8, .error = "do not agree"},
    {.flag = "checkpoint", .error = "do not agree"},
    {.flag = "own_rows", .error = "do not agree"},
    {.flag = "none", .error = "flags: 'none' is unknown"},
    {.twice = 1, .error = "two settings are named width"},
    {.many = ALGORITHM_MAX_SETTINGS, .error = NULL},
    {.many = ALGORITHM_MAX_SETTINGS + 1, .error = "settings: more than 64"},
    {.path = "nothing", .error = "there is no nothing"},
    {.path = "optimizer", .error = "there is no optimizer"},
    {.path = "share", .text = "team", .error = "there is no share"},
    {.text = "2", .error = "discount"},
    {.path = "settings.width", .text = "65", .error = "settings.width"},
    {.lines = ALGORITHM_MAX_METHOD, .error = NULL},
    {.lines = ALGORITHM_MAX_METHOD + 1, .error = "method: more than 12"},
    {.lines = 1, .method = "a\nb", .error = "method: a text of one line"},
    {.scalars = 1, .error = NULL},
    {.scalars = 1, .by = "step", .error = NULL},
    {.scalars = ALGORITHM_MAX_SCALARS, .error = NULL},
    {.scalars = ALGORITHM_MAX_SCALARS + 1, .error = "scalars: more than 32"},
    {.scalars = -1, .error = "two scalars are named kl"},
    {.scalars = 1, .scalar = "k l", .error = "scalars: found 'k l'"},
    {.scalars = 1, .scalar = "", .error = "scalars: found ''"},
    {.scalars = 1, .meaning = "a\nb", .error = "a text of one line"},
    {.scalars = 1, .by = "nobody", .error = "by: 'nobody' is unknown"},
};
enum { STRANGERS = sizeof(strangers) / sizeof(strangers[0]) };

START_TEST(a_stranger_is_checked)
{
    const struct stranger *s = &strangers[_i];
    struct arena arena = ARENA_ZERO;
    struct algorithm_info info;
    struct msg_out out;
    struct msg message;
    struct err err = {0};
    const uint8_t *frame;
    size_t len;
    int rc;

    msg_out_init(&out);
    msg_begin_response(&out, 0);
    put_stranger(&out, s);
    msg_end(&out, &frame, &len);
    ck_assert_int_eq(msg_parse(&message, frame + 4, len - 4, &err), 0);
    rc = msg_to_algorithm(&message.body, &info, &arena, &err);
    if (s->error == NULL)
        ck_assert_msg(rc == 0, "%s", err.msg);
    else
        ck_assert_msg(rc < 0 && strstr(err.msg, s->error) != NULL, "%d: %s", rc, err.msg);
    msg_done(&message);
    msg_out_done(&out);
    arena_done(&arena);
}
END_TEST

/* A frame that was cut or changed anywhere is an error, never more. */
START_TEST(a_damaged_description_is_an_error)
{
    struct msg_out out;
    const uint8_t *frame;
    uint8_t *copy;
    size_t len;

    msg_out_init(&out);
    msg_begin_response(&out, 0);
    msg_algorithm(&out, algorithm_find("mappo"));
    msg_end(&out, &frame, &len);
    copy = malloc(len);
    ck_assert_ptr_nonnull(copy);
    for (size_t i = 4; i < len; i++) {
        struct arena arena = ARENA_ZERO;
        struct algorithm_info info;
        struct msg message;
        struct err err = {0};

        memcpy(copy, frame, len);
        copy[i] ^= (uint8_t)(1u << i % 8);
        if (msg_parse(&message, copy + 4, len - 4, &err) == 0) {
            (void)msg_to_algorithm(&message.body, &info, &arena, &err);
            msg_done(&message);
        }
        arena_done(&arena);
    }
    free(copy);
    msg_out_done(&out);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *s = suite_create("algorithm_msg");
    TCase *tc = tcase_create("algorithm_msg");

    tcase_add_test(tc, threads_find_whole_descriptions); /* before any other asks */
    tcase_add_loop_test(tc, descriptions_are_read_back, 0, 64);
    tcase_add_loop_test(tc, learners_describe_their_method, 0, 64);
    tcase_add_loop_test(tc, a_stranger_is_checked, 0, STRANGERS);
    tcase_add_test(tc, a_damaged_description_is_an_error);
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(make_suite)
