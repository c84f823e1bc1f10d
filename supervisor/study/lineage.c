#include "supervisor/study/lineage.h"

#include "common/ckpt/atomic_file.h"
#include "common/io/beneath.h"
#include "common/mem/xmalloc.h"
#include "common/wire/cursor.h"
#include "supervisor/metrics/json.h"
#include "supervisor/study/population.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FILE_MAX_BYTES = 256 << 20 };

/* ---- what follows from the values ---- */

static const char **settings_of(const struct lineage *l, size_t round, size_t member)
{
    return &l->setting[(round * l->study->trials + member) * l->study->n_keys];
}

/* Adds a round: which member continues from which, and with which settings. */
static void add_round(struct lineage *l, const double *value)
{
    const struct study *s = l->study;
    const size_t members = s->trials, round = l->n++;
    size_t *from;

    l->value = xreallocarray(l->value, l->n * members, sizeof(*l->value));
    l->from = xreallocarray(l->from, l->n * members, sizeof(*l->from));
    l->setting =
        xreallocarray(l->setting, (l->n + 1) * members * s->n_keys, sizeof(*l->setting));
    memcpy(&l->value[round * members], value, members * sizeof(*value));
    from = &l->from[round * members];
    population_choose(s, round, value, from);
    for (size_t i = 0; i < members; i++) {
        const char *const *was = settings_of(l, round, from[i]);

        for (size_t k = 0; k < s->n_keys; k++)
            settings_of(l, l->n, i)[k] =
                from[i] == i ? was[k]
                             : population_explore(s, round, i, k, was[k], &l->arena);
    }
}

double lineage_value(const struct lineage *l, size_t round, size_t member)
{
    return l->value[round * l->study->trials + member];
}

size_t lineage_from(const struct lineage *l, size_t round, size_t member)
{
    return l->from[round * l->study->trials + member];
}

const char *const *lineage_settings(const struct lineage *l, size_t round, size_t member)
{
    return settings_of(l, round, member);
}

size_t lineage_birth(const struct lineage *l, size_t round, size_t member)
{
    if (l->study == NULL)
        return 0;
    while (round > 0 && lineage_from(l, round - 1, member) == member)
        round--;
    return round;
}

uint64_t lineage_step(const struct study *s, size_t round)
{
    return s->pbt.interval * (round + 1);
}

/* ---- the file ---- */

static char *path_of(const char *dir)
{
    return xasprintf("%s/rounds.csv", dir);
}

/* Reads one row, such as "1,50000,-21.25,,...", at *text and advances *text past it. */
static int take_row(struct lineage *l, char **text, const char *path, struct err *err)
{
    const size_t members = l->study->trials;
    double *value = xcalloc(members, sizeof(*value));
    char *at = *text, *end = at + strcspn(at, "\n");
    int ok = strtoull(at, &at, 10) == l->n + 1 && *at++ == ',' &&
             strtoull(at, &at, 10) == lineage_step(l->study, l->n);

    for (size_t i = 0; ok && i < members; i++) {
        char *from = at + 1;

        ok = *at == ',';
        if (ok && (*from == ',' || *from == '\n')) {
            value[i] = (double)NAN;
            at = from;
        } else if (ok) {
            value[i] = strtod(from, &at);
            ok = at > from && isfinite(value[i]);
        }
    }
    ok = ok && at == end && *end == '\n';
    if (ok) {
        add_round(l, value);
        *text = end + 1;
    }
    free(value);
    return ok ? 0
              : err_set_at(err, ERR_FORMAT,
                           ERR_AT(.file = path, .line = (int)l->n + 2, .key = ""),
                           "expected round %zu with the values of %zu members", l->n + 1,
                           members);
}

int lineage_read(struct lineage *ret, const struct study *s, const char *dir,
                 struct err *err)
{
    struct err why = {0};
    const int is_held = beneath_hold(dir, &why) == 0;
    struct wbuf file = {0};
    char *path = path_of(dir), *text;
    int rc = is_held ? wbuf_read_file(&file, path, FILE_MAX_BYTES, &why) : why.code;

    *ret = (struct lineage){.study = s};
    ret->setting = xcalloc(s->trials * s->n_keys, sizeof(*ret->setting));
    for (size_t i = 0; i < s->trials; i++)
        for (size_t k = 0; k < s->n_keys; k++)
            settings_of(ret, 0, i)[k] = study_value(s, i, k, &ret->arena);
    if (rc == 0) {
        wbuf_u8(&file, '\0');
        text = (char *)file.data + strcspn((char *)file.data, "\n");
        text += *text == '\n';
        while (rc == 0 && *text != '\0' && ret->n < STUDY_MAX_ROUNDS)
            rc = take_row(ret, &text, path, &why);
    }
    if (is_held)
        beneath_release(dir);
    wbuf_done(&file);
    free(path);
    if (rc == 0 || rc == -ENOENT)
        return 0;
    lineage_done(ret);
    return err_pass(err, &why);
}

void lineage_done(struct lineage *l)
{
    free(l->value);
    free(l->from);
    free(l->setting);
    arena_done(&l->arena);
    *l = (struct lineage){0};
}

static void print(const struct lineage *l, FILE *f)
{
    (void)fputs("round,env_steps", f);
    for (size_t i = 0; i < l->study->trials; i++)
        (void)fprintf(f, ",%zu", i + 1);
    (void)fputc('\n', f);
    for (size_t r = 0; r < l->n; r++) {
        (void)fprintf(f, "%zu,%" PRIu64, r + 1, lineage_step(l->study, r));
        for (size_t i = 0; i < l->study->trials; i++) {
            const double v = lineage_value(l, r, i);
            char number[JSON_NUMBER_MAX];

            (void)fprintf(f, ",%s", isnan(v) ? "" : json_format_f64(v, number));
        }
        (void)fputc('\n', f);
    }
}

int lineage_add(struct lineage *l, const char *dir, const double *value, struct err *err)
{
    char *path = path_of(dir);
    struct xstream text;
    int rc;

    add_round(l, value);
    print(l, xstream_begin(&text));
    (void)xstream_end(&text);
    rc = atomic_file_write(path, text.text, text.len, 1, err);
    free(text.text);
    free(path);
    return rc;
}
