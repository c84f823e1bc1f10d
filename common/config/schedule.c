#include "common/config/schedule.h"

#include "common/config/schema_internal.h"
#include "common/mem/xmalloc.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int has_stairs(const struct field *f)
{
    return f->type == FIELD_I64 || f->type == FIELD_F64 || f->type == FIELD_F64_OR_NONE ||
           f->type == FIELD_BYTES || f->type == FIELD_SECONDS;
}

static int is_whole(const struct field *f)
{
    return f->type == FIELD_I64 || f->type == FIELD_BYTES;
}

/* ---- reading and writing ---- */

static const char to_word[] = " to ", over_word[] = " over ";

int schedule_is_form(const struct yaml_node *n)
{
    return n->kind == YAML_MAP ||
           (n->kind == YAML_SCALAR && strstr(n->text, to_word) != NULL);
}

int schedule_is_meant(const struct field *f, const struct yaml_node *n)
{
    if (f == NULL || !has_stairs(f) || !schedule_is_form(n))
        return 0;
    return n->kind == YAML_SCALAR || yaml_find(n, "from") != NULL ||
           yaml_find(n, "to") != NULL || yaml_find(n, "over") != NULL;
}

static void store(const struct field *f, double v, void *ret)
{
    const int64_t whole = (int64_t)llround(v);

    if (is_whole(f))
        memcpy(ret, &whole, sizeof(whole));
    else
        memcpy(ret, &v, sizeof(v));
}

/* Reads `from` or `to` of a schedule. `none` is refused, because it is no number. */
static int read_end(const struct field *f, const struct yaml_node *n, const char *path,
                    double *ret, struct err *err)
{
    char value[sizeof(int64_t)];
    int rc = schema_read_node(f, n, path, value, NULL, err);

    if (rc < 0)
        return rc;
    *ret = schema_number(f, value);
    if (schema_may_be_none(f) && *ret == 0)
        return yaml_fail(n, path, err,
                         "found 'none' in a schedule, expected a number to begin and one "
                         "to end with");
    return 0;
}

static int fail_form(const struct yaml_node *n, const char *path, struct err *err)
{
    return yaml_fail(
        n, path, err,
        "expected a schedule such as {from: 1, to: 5, over: 50000}, or 1 to 5 "
        "over 50000");
}

static int read_parts(const struct field *f, const struct yaml_node *from,
                      const struct yaml_node *to, const struct yaml_node *over,
                      const char *path, struct schedule *ret, struct err *err)
{
    static const struct field steps = {
        .key = "over", .type = FIELD_I64, .min = 1, .max = SCHEDULE_MAX_STEPS};
    char of[PATH_MAX_BYTES];
    int64_t whole;
    int rc = read_end(f, from, path, &ret->from, err);

    if (rc == 0)
        rc = read_end(f, to, path, &ret->to, err);
    schema_join_path(of, path, steps.key);
    if (rc == 0)
        rc = schema_read_node(&steps, over, of, &whole, NULL, err);
    if (rc == 0)
        ret->over = (double)whole;
    return rc;
}

static int read_words(const struct field *f, const struct yaml_node *n, const char *path,
                      struct schedule *ret, struct err *err)
{
    struct yaml_node from = *n, to = *n, over = *n;
    char *text = xstrdup(n->text), *second, *third = NULL;
    int rc;

    second = strstr(text, to_word);
    if (second != NULL)
        third = strstr(second, over_word);
    if (third == NULL) {
        rc = fail_form(n, path, err);
    } else {
        *second = *third = '\0';
        from.text = text;
        to.text = second + strlen(to_word);
        over.text = third + strlen(over_word);
        rc = read_parts(f, &from, &to, &over, path, ret, err);
    }
    free(text);
    return rc;
}

int schedule_read(const struct field *f, const struct yaml_node *n, const char *path,
                  struct schedule *ret, struct err *err)
{
    const struct yaml_node *from = yaml_find(n, "from"), *to = yaml_find(n, "to");
    const struct yaml_node *over = yaml_find(n, "over");

    if (n->kind == YAML_SCALAR)
        return read_words(f, n, path, ret, err);
    if (yaml_find(n, "at") != NULL)
        return yaml_fail(
            n, path, err,
            "found `at` beside from, to or over, expected one of the two (what "
            "a file extends has its keys, too)");
    if (n->n != 3 || from == NULL || to == NULL || over == NULL)
        return fail_form(n, path, err);
    return read_parts(f, from, to, over, path, ret, err);
}

static void write_end(const struct field *f, double v, FILE *out)
{
    static const struct field real = {.type = FIELD_F64};
    char value[sizeof(int64_t)];

    store(f, v, value);
    schema_write_value(f->type == FIELD_SCHEDULE ? &real : f, value, out);
}

void schedule_write(const struct field *f, const struct schedule *s, FILE *out)
{
    write_end(f, s->from, out);
    if (s->over <= 0)
        return;
    (void)fputs(to_word, out);
    write_end(f, s->to, out);
    (void)fprintf(out, "%s%.0f", over_word, s->over);
}

char *schedule_text(const struct field *f, const struct schedule *s)
{
    struct xstream text;

    schedule_write(f, s, xstream_begin(&text));
    return xstream_end(&text);
}

/* ---- its values ---- */

static uint64_t count_of(const struct schedule *s)
{
    return s->over < SCHEDULE_STAIRS ? (uint64_t)s->over : SCHEDULE_STAIRS;
}

/* Returns the step at which stair k begins: stair 0 at step 0, and the last one at
 * `over`. */
static uint64_t step_of(const struct schedule *s, uint64_t k)
{
    const uint64_t n = count_of(s);

    return (k * (uint64_t)s->over + n - 1) / n;
}

/* Returns the stair of a step. */
static uint64_t stair_at(const struct schedule *s, uint64_t step)
{
    uint64_t k = count_of(s);

    while (k > 0 && step_of(s, k) > step)
        k--;
    return k;
}

/* Rounds to nine digits: more than an agent's float32 settings hold, and short to read
 * (0.9009, not 0.9009000000000001). */
static double round_digits(double v)
{
    char text[40];

    (void)snprintf(text, sizeof(text), "%.9g", v);
    return strtod(text, NULL);
}

static double value_of(const struct field *f, const struct schedule *s, uint64_t k)
{
    const double low = fmin(s->from, s->to), high = fmax(s->from, s->to);

    if (k == 0 || k == count_of(s))
        return k == 0 ? s->from : s->to;
    if (is_whole(f))
        return round(schedule_at(s, step_of(s, k)));
    return fmin(fmax(round_digits(schedule_at(s, step_of(s, k))), low), high);
}

void schedule_stair(const struct field *f, const struct schedule *s, uint64_t step,
                    void *ret)
{
    store(f, value_of(f, s, stair_at(s, step)), ret);
}

uint64_t schedule_next_stair(const struct field *f, const struct schedule *s,
                             uint64_t step)
{
    uint64_t k = stair_at(s, step);
    const double now = value_of(f, s, k);

    for (k++; k <= count_of(s); k++)
        if (value_of(f, s, k) != now)
            return step_of(s, k);
    return 0;
}
