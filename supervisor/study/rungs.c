#include "supervisor/study/rungs.h"

#include "common/ckpt/atomic_file.h"
#include "common/io/beneath.h"
#include "common/mem/xmalloc.h"
#include "common/text/scan.h"
#include "common/wire/cursor.h"
#include "supervisor/metrics/json.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_BYTES = 64 << 20 };

static const char head[] = "env_steps,trial,seed,value\n";

static char *path_of(const char *dir)
{
    return xasprintf("%s/rungs.csv", dir);
}

/* Whether the line at *at is a row; then advances *at past it. */
static int take_row(struct rungs *r, const char **at)
{
    struct rung_value v;
    char *end;

    v.env_steps = strtoull(*at, &end, 10);
    if (*end++ != ',')
        return 0;
    v.trial = strtoull(end, &end, 10);
    if (*end++ != ',' || v.trial-- == 0)
        return 0;
    v.seed = strtoull(end, &end, 10);
    if (*end++ != ',')
        return 0;
    v.value = strtod(end, &end);
    if (*end++ != '\n' || !isfinite(v.value))
        return 0;
    rungs_add(r, &v);
    *at = end;
    return 1;
}

static int rungs_take(struct rungs *r, const char *text, const char *path,
                      struct err *err)
{
    text = text_after(text, head);
    if (text == NULL)
        return err_set(err, ERR_FORMAT, "%s:1: expected %.*s", path,
                       (int)strlen(head) - 1, head);
    while (*text != '\0')
        if (!take_row(r, &text))
            return err_set(err, ERR_FORMAT,
                           "%s:%zu: expected environment steps, trial, seed and value",
                           path, r->n + 2);
    return 0;
}

int rungs_read(struct rungs *ret, const char *dir, struct err *err)
{
    struct err why = {0};
    const int is_held = beneath_hold(dir, &why) == 0;
    char *path = path_of(dir);
    struct wbuf file = {0};
    int rc = is_held ? wbuf_read_file(&file, path, MAX_BYTES, &why) : why.code;

    *ret = (struct rungs){0};
    if (rc == 0) {
        wbuf_u8(&file, 0);
        rc = rungs_take(ret, (const char *)file.data, path, &why);
    }
    if (is_held)
        beneath_release(dir);
    wbuf_done(&file);
    free(path);
    if (rc == 0 || rc == -ENOENT)
        return 0;
    rungs_done(ret);
    return err_pass(err, &why);
}

void rungs_done(struct rungs *r)
{
    free(r->row);
    *r = (struct rungs){0};
}

double rungs_find(const struct rungs *r, uint64_t env_steps, size_t trial, uint64_t seed)
{
    for (size_t i = 0; i < r->n; i++)
        if (r->row[i].env_steps == env_steps && r->row[i].trial == trial &&
            r->row[i].seed == seed)
            return r->row[i].value;
    return (double)NAN;
}

void rungs_add(struct rungs *r, const struct rung_value *v)
{
    if ((r->n & (r->n - 1)) == 0) /* 0, 1, 2, 4, ...: there is no room */
        r->row = xreallocarray(r->row, 2 * r->n + 1, sizeof(*r->row));
    r->row[r->n++] = *v;
}

int rungs_write(const struct rungs *r, const char *dir, struct err *err)
{
    char *path = path_of(dir);
    struct xstream text;
    FILE *f = xstream_begin(&text);
    int rc;

    (void)fputs(head, f);
    for (size_t i = 0; i < r->n; i++) {
        char number[JSON_NUMBER_MAX];

        (void)fprintf(f, "%" PRIu64 ",%zu,%" PRIu64 ",%s\n", r->row[i].env_steps,
                      r->row[i].trial + 1, r->row[i].seed,
                      json_format_f64(r->row[i].value, number));
    }
    (void)xstream_end(&text);
    rc = atomic_file_write(path, text.text, text.len, 1, err);
    free(text.text);
    free(path);
    return rc;
}
