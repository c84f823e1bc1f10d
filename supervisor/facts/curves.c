#include "supervisor/facts/curves.h"

#include "common/mem/xmalloc.h"
#include "common/wire/cursor.h"
#include "supervisor/facts/growing_file.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    FIRST_READ = 16 << 10,
    WINDOW = 16 << 10,
    SHOWN_DIGITS = 7,
    MAX_WINDOW = 2 << 20,
    MAX_TEAMS = 16
};

struct table {
    struct growing_file file;
    char *header; /* its first line, terminated */
    size_t body;  /* where the rows begin; 0: there is no header yet */
};

/* Reads as many bytes as it can; a read error counts as the end of the table. */
static size_t read_text(const struct table *t, size_t offset, char *ret, size_t max)
{
    const ssize_t n = growing_file_read(&t->file, offset, ret, max);

    return n > 0 ? (size_t)n : 0;
}

static void close_table(struct table *t)
{
    growing_file_close(&t->file);
    free(t->header);
}

static int read_header(struct table *t, const char *file, struct err *err)
{
    size_t max = FIRST_READ;

    for (;;) {
        size_t n;
        char *end;

        t->header = xrealloc(t->header, max + 1);
        n = read_text(t, 0, t->header, max);
        end = memchr(t->header, '\n', n);
        if (end != NULL) {
            *end = '\0';
            t->body = (size_t)(end - t->header) + 1;
            return 0;
        }
        t->header[0] = '\0';
        if (n < max)
            return 0; /* its first line is being written */
        if (max >= CURVES_MAX_HEADER)
            return err_set(err, ERR_LIMIT, "%s: the first line is too long", file);
        max *= 8;
    }
}

/* A run without the file has an empty table: *ret is set in any case. */
static int open_table(struct table *ret, const char *path, struct err *err)
{
    char *file = xasprintf("%s/metrics/progress.csv", path);
    int rc;

    *ret = (struct table){0};
    rc = growing_file_open(&ret->file, file, err);
    if (rc == 0)
        rc = read_header(ret, file, err);
    free(file);
    return rc;
}

/* ---- columns ---- */

/* The length of the JSON number with which a text begins (RFC 8259); 0: there is none. */
static size_t number_len(const char *text)
{
    static const char digits[] = "0123456789";
    const char *p = text + (*text == '-');
    size_t n = *p == '0' ? 1 : strspn(p, digits);

    p += n;
    if (n > 0 && *p == '.') {
        n = strspn(p + 1, digits);
        p += 1 + n;
    }
    if (n > 0 && (*p == 'e' || *p == 'E')) {
        p += p[1] == '+' || p[1] == '-' ? 2 : 1;
        n = strspn(p, digits);
        p += n;
    }
    return n > 0 ? (size_t)(p - text) : 0;
}

/* Writes a field as a JSON number, or null if it is empty or no finite number. Fractions
 * get as many digits as a chart can show, which halves the size of the answer. */
static void put_field(struct wbuf *b, const char *field, size_t len)
{
    char text[40];
    double v;

    if (len > 0 && len < sizeof(text)) {
        memcpy(text, field, len);
        text[len] = '\0';
        v = strtod(text, NULL);
        if (number_len(text) == len && isfinite(v)) {
            if (len > SHOWN_DIGITS + 2 && strchr(text, '.') != NULL)
                len = (size_t)snprintf(text, sizeof(text), "%.*g", SHOWN_DIGITS, v);
            wbuf_bytes(b, text, len);
            return;
        }
    }
    wbuf_bytes(b, "null", 4);
}

struct wanted {
    int column; /* in the file; -1: not there */
    size_t at;  /* place in the answer */
};

/* Finds the columns in one pass: a header may have as many as it has bytes. */
static void find_columns(const char *header, const char *const *names, size_t n,
                         struct wanted *ret)
{
    size_t len[CURVES_MAX_COLUMNS + 1];
    int column = 0;

    for (size_t i = 0; i < n; i++) {
        len[i] = strlen(names[i]);
        ret[i] = (struct wanted){-1, i};
    }
    for (const char *p = header;; p++, column++) {
        const size_t field = strcspn(p, ",");

        for (size_t i = 0; i < n; i++)
            if (field == len[i] && ret[i].column < 0 && memcmp(p, names[i], field) == 0)
                ret[i].column = column;
        p += field;
        if (*p == '\0')
            return;
    }
}

static int compare_wanted(const void *a, const void *b)
{
    const struct wanted *x = a, *y = b;

    return (x->column > y->column) - (x->column < y->column);
}

/* Appends the wanted fields of one line; `wanted` ascends by column. */
static void take_line(const char *line, const char *end, const struct wanted *wanted,
                      size_t n, struct wbuf *values)
{
    const char *p = line;
    int column = 0;

    for (size_t i = 0; i < n; i++) {
        struct wbuf *b = &values[wanted[i].at];
        const char *comma;

        if (b->len > 0)
            wbuf_u8(b, ',');
        while (p != NULL && column < wanted[i].column) {
            p = memchr(p, ',', (size_t)(end - p));
            p = p != NULL ? p + 1 : NULL;
            column++;
        }
        if (p == NULL || wanted[i].column < 0) {
            wbuf_bytes(b, "null", 4);
            continue;
        }
        comma = memchr(p, ',', (size_t)(end - p));
        put_field(b, p, (size_t)((comma != NULL ? comma : end) - p));
    }
}

static void put_raw_list(struct json *j, const struct wbuf *values)
{
    char *text = xcalloc(1, values->len + 3);

    text[0] = '[';
    if (values->len > 0)
        memcpy(text + 1, values->data, values->len);
    text[values->len + 1] = ']';
    json_raw(j, text, values->len + 2);
    free(text);
}

static void put_answer(const struct table *t, const char *const *columns, size_t n,
                       const char *from, struct json *j)
{
    struct wbuf values[CURVES_MAX_COLUMNS + 1] = {{0}};
    struct wanted wanted[CURVES_MAX_COLUMNS + 1];
    const char *names[CURVES_MAX_COLUMNS + 1];
    const size_t max_rows = CURVES_MAX_VALUES / (n + 1),
                 size = (size_t)t->file.st.st_size;
    size_t rows = 0, offset = t->body, got, used = 0;
    const enum growing_place place = growing_file_find(&t->file, from, t->body, &offset);
    const size_t left = t->body > 0 && size > offset ? size - offset : 0;
    const size_t max = left < CURVES_MAX_BYTES ? left : CURVES_MAX_BYTES;
    char *text = xcalloc(1, max + 1);

    for (size_t i = 0; i < n; i++)
        names[i] = columns[i];
    names[n] = "env_steps";
    find_columns(t->header, names, n + 1, wanted);
    qsort(wanted, n + 1, sizeof(wanted[0]), compare_wanted);
    got = read_text(t, offset, text, max);
    for (char *end;
         rows < max_rows && (end = memchr(text + used, '\n', got - used)) != NULL;
         used = (size_t)(end - text) + 1, rows++)
        take_line(text + used, end, wanted, n + 1, values);
    growing_file_put(&t->file, offset + used, place, j);
    json_put_bool(j, "more", used > 0 && (left > CURVES_MAX_BYTES || rows == max_rows));
    json_key(j, "steps");
    put_raw_list(j, &values[n]);
    json_put_array(j, "columns");
    for (size_t i = 0; i < n; i++)
        put_raw_list(j, &values[i]);
    json_close(j);
    for (size_t i = 0; i <= n; i++)
        wbuf_done(&values[i]);
    free(text);
}

int curves_put(const char *path, const char *const *columns, size_t n, const char *from,
               struct json *j, struct err *err)
{
    struct table t;
    int rc = n > CURVES_MAX_COLUMNS
                 ? err_set(err, ERR_LIMIT, "more than %d columns are asked for",
                           CURVES_MAX_COLUMNS)
                 : 0;

    if (rc < 0)
        return rc;
    rc = open_table(&t, path, err);
    if (rc == 0) {
        json_object(j);
        put_answer(&t, columns, n, from, j);
        json_close(j);
    }
    close_table(&t);
    return rc;
}

int curves_put_names(const char *path, struct json *j, struct err *err)
{
    struct table t;
    const int rc = open_table(&t, path, err);

    if (rc == 0) {
        size_t names = 0;

        json_array(j);
        for (const char *p = t.header; *p != '\0' && names < CURVES_MAX_NAMES;
             p += *p == ',', names++) {
            const size_t n = strcspn(p, ",");

            json_strn(j, p, n);
            p += n;
        }
        json_close(j);
    }
    close_table(&t);
    return rc;
}

/* ---- the small picture of a run in the list ---- */

/* Appends the column's first value in a text that begins at a line, and returns where the
 * line after it begins; 0: there is no value. */
static size_t take_value(const char *text, size_t len, int column, struct wbuf *ret)
{
    const struct wanted wanted = {column, 0};
    const char *line = text, *end;

    while ((end = memchr(line, '\n', len - (size_t)(line - text))) != NULL) {
        struct wbuf value = {0};
        int is_null;

        take_line(line, end, &wanted, 1, &value);
        is_null = value.len == 0 || value.data[0] == 'n';
        if (!is_null) {
            if (ret->len > 0)
                wbuf_u8(ret, ',');
            wbuf_bytes(ret, value.data, value.len);
        }
        wbuf_done(&value);
        line = end + 1;
        if (!is_null)
            return (size_t)(line - text);
    }
    return 0;
}

/* Of the first MAX_TEAMS columns with that prefix, the first that has a value in any row of the
 * text; -1: none has. */
static int find_filled(const char *header, const char *prefix, const char *text,
                       size_t len)
{
    const size_t n = strlen(prefix);
    int column = 0, teams = 0;

    for (const char *p = header; *p != '\0' && teams < MAX_TEAMS; column++) {
        struct wbuf value = {0};

        if (strncmp(p, prefix, n) == 0) {
            const int is_filled = take_value(text, len, column, &value) > 0;

            wbuf_done(&value);
            if (is_filled)
                return column;
            teams++;
        }
        p += strcspn(p, ",");
        p += *p == ',';
    }
    return -1;
}

static void sample(const struct table *t, size_t points, struct wbuf *ret)
{
    const size_t size = (size_t)t->file.st.st_size - t->body;
    const size_t step = size / points > 0 ? size / points : 1;
    /* Rows are about as long as the header. */
    const size_t rows = 8 * t->body < MAX_WINDOW ? 8 * t->body : MAX_WINDOW;
    const size_t window = WINDOW + rows;
    char *text = xcalloc(1, window + 1);
    size_t taken = t->body; /* what lies before is sampled already */
    int column = -1;

    for (size_t i = 0; i < points; i++) {
        const size_t offset = t->body + i * step;
        size_t n, begin = 0, end;

        if (offset < taken)
            continue;
        n = read_text(t, offset, text, window);
        if (offset > t->body) { /* skip the rest of a line */
            const char *line = memchr(text, '\n', n);

            if (line == NULL)
                continue;
            begin = (size_t)(line - text) + 1;
        }
        if (column < 0) /* tried first: it has more values */
            column =
                find_filled(t->header, "rollout/team_return/", text + begin, n - begin);
        if (column < 0)
            column = find_filled(t->header, "eval/team_return/", text + begin, n - begin);
        end = column >= 0 ? take_value(text + begin, n - begin, column, ret) : 0;
        if (end > 0)
            taken = offset + begin + end;
    }
    free(text);
}

void curves_put_spark(const char *path, size_t points, struct json *j)
{
    struct wbuf values = {0};
    struct table t;

    if (open_table(&t, path, NULL) == 0 && t.body > 0 &&
        (size_t)t.file.st.st_size > t.body)
        sample(&t, points, &values);
    close_table(&t);
    put_raw_list(j, &values);
    wbuf_done(&values);
}
