#include "supervisor/metrics/progress.h"

#include "common/io/beneath.h"
#include "common/io/patience.h"
#include "common/mem/arena.h"
#include "common/mem/xmalloc.h"
#include "common/text/scan.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    MAX_BYTES = 512 << 20,
    MAX_LINE_BYTES = 4 << 20,
    MAX_COLUMNS = 65536, /* of 1,000 agents, each in a team of its own */
    MAX_VALUES = 64 << 20,
    END_BYTES = 64 << 10,
    LONG_END_BYTES = 64 << 20
};

struct progress {
    struct arena arena;
    const char **name;
    size_t n_columns, n_rows, cap_rows;
    double *values; /* (n_rows, n_columns) */
    size_t steps;   /* column */
};

static int read_header(struct progress *p, const char *path, char *line, struct err *err)
{
    p->name = ARENA_ARRAY(&p->arena, const char *, MAX_COLUMNS);
    for (char *next = line, *word; (word = strsep(&next, ",")) != NULL;) {
        if (p->n_columns == MAX_COLUMNS)
            return err_set(err, ERR_LIMIT, "%s:1: more than %d columns", path,
                           MAX_COLUMNS);
        p->name[p->n_columns++] = arena_strdup(&p->arena, word);
    }
    p->steps = progress_find(p, "env_steps");
    if (p->steps == p->n_columns)
        return err_set(err, ERR_FORMAT, "%s:1: no column env_steps", path);
    return 0;
}

static int read_value(const char *text, double *ret)
{
    char *end;

    *ret = (double)NAN;
    if (*text == '\0')
        return 1;
    *ret = strtod(text, &end);
    return *end == '\0';
}

static int read_row(struct progress *p, const char *path, size_t line_number, char *line,
                    struct err *err)
{
    size_t n = 0;
    double *row;

    if ((p->n_rows + 1) * p->n_columns > MAX_VALUES)
        return err_set(err, ERR_LIMIT, "%s: more than %d values", path, MAX_VALUES);
    if (p->n_rows == p->cap_rows) {
        p->cap_rows = p->cap_rows == 0 ? 64 : p->cap_rows * 2;
        p->values =
            xreallocarray(p->values, p->cap_rows, p->n_columns * sizeof(*p->values));
    }
    row = p->values + p->n_rows * p->n_columns;
    for (char *next = line, *word; (word = strsep(&next, ",")) != NULL; n++) {
        if (n == p->n_columns || !read_value(word, &row[n]))
            return err_set_at(err, ERR_FORMAT,
                              ERR_AT(.file = path, .line = (int)line_number),
                              "'%.40s' is no number", word);
    }
    if (n != p->n_columns || isnan(row[p->steps]))
        return err_set_at(err, ERR_FORMAT, ERR_AT(.file = path, .line = (int)line_number),
                          "found %zu values, expected %zu", n, p->n_columns);
    p->n_rows++;
    return 0;
}

/* Moves to the first line that begins in the last `max` bytes, if more bytes are left. */
static void skip_to_end(FILE *f, off_t max)
{
    const off_t at = ftello(f);
    int c = 0;

    if (fseeko(f, -max - 1, SEEK_END) < 0 || ftello(f) <= at)
        (void)fseeko(f, at, SEEK_SET);
    else
        while (c != EOF && c != '\n')
            c = getc(f);
}

/* Like getline, but a line that is too long ends without a newline. */
static ssize_t read_line(char **line, size_t *cap, FILE *f)
{
    size_t n = 0;
    int c = 0;

    while (c != '\n' && n < MAX_LINE_BYTES && (c = getc_unlocked(f)) != EOF) {
        if (n + 1 >= *cap) {
            *cap = *cap == 0 ? 4096 : *cap * 2;
            *line = xrealloc(*line, *cap);
        }
        (*line)[n++] = (char)c;
    }
    if (n > 0)
        (*line)[n] = '\0';
    return (ssize_t)n;
}

/* last: how many bytes to read, about, from the end of the file; 0: all. */
static int read_lines(struct progress *p, const char *path, FILE *f, size_t last,
                      struct err *err)
{
    char *line = NULL;
    size_t cap = 0, number = 0, bytes = 0;
    ssize_t len;
    int rc = 0;

    while (rc == 0 && (rc = patience_check(err)) == 0 &&
           (len = read_line(&line, &cap, f)) > 0 && line[len - 1] == '\n') {
        line[len - 1] = '\0';
        bytes += (size_t)len;
        if (bytes > MAX_BYTES)
            rc = err_set(err, ERR_LIMIT, "%s: more than %d MiB", path, MAX_BYTES >> 20);
        else if (number++ == 0) {
            rc = read_header(p, path, line, err);
            if (last > 0)
                skip_to_end(f, (off_t)last);
        } else
            rc = read_row(p, path, number, line, err);
    }
    if (rc == 0 && number == 0)
        rc = err_set(err, ERR_FORMAT, "%s: empty", path);
    free(line);
    return rc;
}

static int read_file(struct progress **ret, const char *path, size_t last,
                     struct err *err)
{
    FILE *f = beneath_fopen(path, "re");
    struct progress *p;
    int rc;

    if (f == NULL)
        return errno == ENOENT ? err_set(err, ERR_NOT_FOUND, "%s does not exist", path)
                               : err_errno(err, "%s", path);
    p = xcalloc(1, sizeof(*p));
    p->arena = ARENA_ZERO;
    rc = read_lines(p, path, f, last, err);
    (void)fclose(f);
    if (rc < 0)
        progress_free(p);
    else
        *ret = p;
    return rc;
}

int progress_read(struct progress **ret, const char *path, struct err *err)
{
    return read_file(ret, path, 0, err);
}

int progress_read_end(struct progress **ret, const char *path, struct err *err)
{
    const int rc = read_file(ret, path, END_BYTES, err);

    if (rc == ERR_FORMAT) /* only the whole file gives the line's number */
        return read_file(ret, path, 0, err);
    if (rc < 0 || !isnan(progress_team_return(*ret)))
        return rc;
    progress_free(*ret); /* only an older row can have a team's return */
    return read_file(ret, path, LONG_END_BYTES, err);
}

void progress_free(struct progress *p)
{
    if (p == NULL)
        return;
    arena_done(&p->arena);
    free(p->values);
    free(p);
}

size_t progress_n_rows(const struct progress *p)
{
    return p->n_rows;
}

size_t progress_n_columns(const struct progress *p)
{
    return p->n_columns;
}

const char *progress_name(const struct progress *p, size_t column)
{
    return p->name[column];
}

size_t progress_find(const struct progress *p, const char *name)
{
    size_t i = 0;

    while (i < p->n_columns && strcmp(p->name[i], name) != 0)
        i++;
    return i;
}

double progress_value(const struct progress *p, size_t row, size_t column)
{
    return p->values[row * p->n_columns + column];
}

double progress_steps(const struct progress *p, size_t row)
{
    return progress_value(p, row, p->steps);
}

double progress_value_at(const struct progress *p, size_t column, uint64_t step)
{
    double v = (double)NAN;

    for (size_t r = 0; r < p->n_rows && progress_steps(p, r) <= (double)step; r++)
        if (!isnan(progress_value(p, r, column)))
            v = progress_value(p, r, column);
    return v;
}

double progress_newest(const struct progress *p, size_t column)
{
    for (size_t r = p->n_rows; r-- > 0;)
        if (!isnan(progress_value(p, r, column)))
            return progress_value(p, r, column);
    return (double)NAN;
}

static const char EVALUATED[] = "eval/team_return/", TRAINED[] = "rollout/team_return/";

/* The first column with that prefix that has a value in these rows. */
static size_t find_prefixed(const struct progress *p, const char *prefix, size_t rows)
{
    for (size_t c = 0; c < p->n_columns; c++) {
        if (text_after(p->name[c], prefix) == NULL)
            continue;
        for (size_t r = 0; r < rows; r++)
            if (!isnan(progress_value(p, r, c)))
                return c;
    }
    return p->n_columns;
}

size_t progress_find_return(const struct progress *p, size_t rows)
{
    const size_t c = find_prefixed(p, EVALUATED, rows);

    return c < p->n_columns ? c : find_prefixed(p, TRAINED, rows);
}

double progress_team_return(const struct progress *p)
{
    for (size_t row = p->n_rows; row-- > 0;) {
        double sum = 0;
        int n = 0;

        for (size_t c = 0; c < p->n_columns; c++) {
            const double v = progress_value(p, row, c);

            if (isnan(v) || text_after(p->name[c], TRAINED) == NULL)
                continue;
            sum += v;
            n++;
        }
        if (n > 0)
            return sum / n;
    }
    return (double)NAN;
}
