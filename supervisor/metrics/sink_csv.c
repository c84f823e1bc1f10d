#include "supervisor/metrics/sinks.h"

#include "common/ckpt/atomic_file.h"
#include "common/io/beneath.h"
#include "common/io/write_all.h"
#include "common/mem/xmalloc.h"
#include "common/text/scan.h"
#include "supervisor/metrics/json.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char head[] = "env_steps,episodes";

struct csv_sink {
    FILE *file; /* for reading; append_whole writes rows to its descriptor */
    char *path;
    uint64_t newest; /* step of the newest row that this sink wrote; 0: none */
    char **column;   /* [n] behind those of `head` */
    size_t n, room;
    int is_closed;  /* it gets no more columns of scalars */
    size_t *series; /* [n] index of each column in rows of n_mapped series; NO_SERIES */
    size_t n_mapped, n_found; /* found: of these */
};
#define NO_SERIES SIZE_MAX

static void add_column(struct csv_sink *s, const char *name)
{
    ARRAY_GROW(s->column, s->n, s->room);
    s->column[s->n++] = xstrdup(name);
    s->n_mapped = 0;
}

static int check_written(struct csv_sink *s, struct err *err)
{
    if (fflush(s->file) != 0 || ferror(s->file))
        return err_errno(err, "%s: cannot write", s->path);
    return 0;
}

static void put_header(FILE *f, const struct csv_sink *s)
{
    (void)fputs(head, f);
    for (size_t i = 0; i < s->n; i++)
        (void)fprintf(f, ",%s", s->column[i]);
    (void)fputc('\n', f);
}

static void take_fixed_columns(struct csv_sink *s, const struct metrics *m)
{
    const size_t n =
        metrics_is_older(m) ? metrics_older_count(m) : metrics_fixed_count(m);

    for (size_t i = 0; i < n; i++)
        add_column(s, metrics_name(m, i));
    s->is_closed = metrics_is_older(m);
}

static int open_sink(struct csv_sink **ret, const char *path, const char *mode,
                     struct err *err)
{
    struct csv_sink *s = xcalloc(1, sizeof(*s));
    int rc;

    s->path = xstrdup(path);
    s->file = beneath_fopen(path, mode);
    if (s->file == NULL) {
        rc = err_errno(err, "%s", path);
        csv_sink_close(s);
        return rc;
    }
    *ret = s;
    return 0;
}

int csv_sink_open(struct csv_sink **ret, const char *path, const struct metrics *m,
                  struct err *err)
{
    struct csv_sink *s = NULL;
    int rc = open_sink(&s, path, "wxe", err);

    if (rc < 0)
        return rc;
    take_fixed_columns(s, m);
    put_header(s->file, s);
    rc = check_written(s, err);
    if (rc < 0)
        csv_sink_close(s);
    else
        *ret = s;
    return rc;
}

/* ---- continuing a file ---- */

static int is_env_metric(const char *name)
{
    return text_after(name, "rollout/metric/") != NULL ||
           text_after(name, "eval/metric/") != NULL;
}

/* Whether a name can be that of a column which a run gets later, train/<process>/<scalar>, or
 * had before it was given other metrics. */
static int is_of_a_run(const char *name)
{
    const char *process = text_after(name, "train/");
    const char *scalar = process != NULL ? strchr(process, '/') : NULL;

    return is_env_metric(name) ||
           (scalar != NULL && scalar > process &&
            algorithm_scalar_is_name(scalar + 1, strlen(scalar + 1)));
}

/* Whether a declared scalar is among these fixed columns. */
static int has_scalar(const struct metrics *m, size_t first, size_t end)
{
    for (size_t i = first; i < end; i++)
        if (!is_env_metric(metrics_name(m, i)))
            return 1;
    return 0;
}

/* Takes the columns of a first line. The columns of older builds come first in all files; those
 * behind them are fixed, in their order, or others that a run may have. Returns 0 if the line is
 * none of this run's. */
static int take_columns(struct csv_sink *s, const struct metrics *m, char *line)
{
    const size_t older = metrics_older_count(m), fixed = metrics_fixed_count(m);
    size_t next = 0; /* fixed column that may come next */
    char *rest = line, *name;

    if (strncmp(line, head, sizeof(head) - 1) != 0)
        return 0;
    rest += sizeof(head) - 1;
    if (*rest != ',' && *rest != '\n')
        return 0;
    rest[strcspn(rest, "\n")] = '\0';
    for (rest += *rest == ','; rest != NULL && (name = strsep(&rest, ",")) != NULL;) {
        size_t i = next;

        while (i < fixed && strcmp(metrics_name(m, i), name) != 0)
            i++;
        if (i == fixed && (next < older || !is_of_a_run(name)))
            return 0;
        if (i < fixed && (i < older ? i != next : next < older))
            return 0;
        s->is_closed |= i < fixed && has_scalar(m, next, i);
        next = i < fixed ? i + 1 : next;
        add_column(s, name);
    }
    s->is_closed |= has_scalar(m, next, fixed) || metrics_is_older(m);
    return next >= older;
}

/* The offset after the last complete row at or before env_steps; rows are sorted. -1, with
 * errno: the file could not be read. */
static off_t end_of_rows(FILE *f, uint64_t env_steps)
{
    char *line = NULL;
    size_t cap = 0;
    ssize_t n;
    off_t end = ftello(f);

    while ((n = getline(&line, &cap, f)) > 0 && line[n - 1] == '\n' &&
           strtoull(line, NULL, 10) <= env_steps)
        end = ftello(f);
    if (ferror(f))
        end = -1;
    free(line);
    return end;
}

enum { NEW_FILE = 1 };

/* Reads the first line, whose columns become the sink's: 0; NEW_FILE: it is to be written
 * again; or an error. What could not be read must not be cut. */
static int check_header(struct csv_sink *s, const struct metrics *m, struct err *err)
{
    char *line = NULL;
    size_t cap = 0;
    int c = 0, unfinished, same = 0;

    while (c != EOF && c != '\n')
        c = getc(s->file);
    unfinished = c == EOF; /* its creation was interrupted */
    if (!unfinished && fseeko(s->file, 0, SEEK_SET) == 0 &&
        getline(&line, &cap, s->file) >= 0)
        same = take_columns(s, m, line);
    free(line);
    if (ferror(s->file))
        return err_errno(err, "%s", s->path);
    if (unfinished)
        return NEW_FILE;
    if (same)
        return 0;
    return err_set(err, ERR_FORMAT,
                   "%s has other columns than this run; move it away, or restore its "
                   "first line",
                   s->path);
}

int csv_sink_check(const char *path, const struct metrics *m, struct err *err)
{
    struct csv_sink *s = NULL;
    int rc = open_sink(&s, path, "r+e", err);

    if (rc < 0)
        return rc == -ENOENT ? 0 : rc;
    rc = check_header(s, m, err);
    csv_sink_close(s);
    return rc < 0 ? rc : 0;
}

static int write_header_again(struct csv_sink *s, const struct metrics *m,
                              struct err *err)
{
    if (fseeko(s->file, 0, SEEK_SET) < 0 || ftruncate(fileno(s->file), 0) < 0)
        return err_errno(err, "%s: cannot cut", s->path);
    take_fixed_columns(s, m);
    put_header(s->file, s);
    return check_written(s, err);
}

int csv_sink_resume(struct csv_sink **ret, const char *path, const struct metrics *m,
                    uint64_t env_steps, struct err *err)
{
    struct csv_sink *s = NULL;
    off_t end;
    int rc = open_sink(&s, path, "r+e", err);

    atomic_file_tidy(path);
    if (rc == -ENOENT)
        return csv_sink_open(ret, path, m, err);
    if (rc < 0)
        return rc;
    rc = check_header(s, m, err);
    if (rc == NEW_FILE)
        rc = write_header_again(s, m, err);
    else if (rc == 0 && ((end = end_of_rows(s->file, env_steps)) < 0 ||
                         ftruncate(fileno(s->file), end) < 0))
        rc = err_errno(err, "%s: cannot cut", path);
    if (rc < 0)
        csv_sink_close(s);
    else
        *ret = s;
    return rc;
}

/* ---- rows ---- */

/* The place of the name in a list, of which i is the likeliest place; n: it is not there. */
static size_t find_from(const char *const *names, size_t n, size_t i, const char *name)
{
    for (size_t k = 0; k < n; k++, i++)
        if (strcmp(names[i % n], name) == 0)
            return i % n;
    return n;
}

/* Finds the columns' series. The same number of series means the same series. */
static void map_columns(struct csv_sink *s, const struct metrics_row *row)
{
    size_t likely = 0;

    if (s->n_mapped == row->n)
        return;
    s->series = xreallocarray(s->series, s->n + 1, sizeof(*s->series));
    for (size_t i = 0; i < s->n; i++) {
        const size_t k = find_from(row->names, row->n, likely, s->column[i]);

        s->series[i] = k < row->n ? k : NO_SERIES;
        likely = k < row->n ? k + 1 : likely;
    }
    s->n_mapped = row->n;
    s->n_found = 0;
    for (size_t i = 0; i < s->n; i++)
        s->n_found += s->series[i] != NO_SERIES;
}

/* Lists the series without a column that have a value and may get one; free(). */
static size_t *find_new(struct csv_sink *s, const struct metrics_row *row, size_t *ret_n)
{
    uint8_t *has_column = xcalloc(row->n + 1, 1);
    size_t *list = xcalloc(row->n + 1, sizeof(*list)), n = 0;

    for (size_t i = 0; i < s->n; i++)
        if (s->series[i] != NO_SERIES)
            has_column[s->series[i]] = 1;
    for (size_t i = 0; i < row->n; i++)
        if (!has_column[i] && !isnan(row->values[i]) &&
            (is_env_metric(row->names[i]) || (!s->is_closed && i >= row->n_fixed)))
            list[n++] = i;
    free(has_column);
    *ret_n = n;
    return list;
}

static int copy_with_columns(struct csv_sink *s, const struct metrics_row *row,
                             const size_t *list, size_t n, struct atomic_file *to,
                             struct err *err)
{
    FILE *f = atomic_file_stream(to);
    char *line = NULL;
    size_t cap = 0;
    ssize_t len;

    for (int is_first = 1; (len = getline(&line, &cap, s->file)) > 0; is_first = 0) {
        (void)fwrite(line, 1, (size_t)len - (line[len - 1] == '\n'), f);
        for (size_t i = 0; i < n; i++)
            (void)fprintf(f, ",%s", is_first ? row->names[list[i]] : "");
        (void)fputc('\n', f);
    }
    free(line);
    return ferror(s->file) ? err_errno(err, "%s", s->path) : atomic_file_flush(to, err);
}

/* Replaces the file by one that has columns for these series, too. */
static int add_columns(struct csv_sink *s, const struct metrics_row *row,
                       const size_t *list, size_t n, struct err *err)
{
    struct atomic_file *to = NULL;
    FILE *file =
        beneath_fopen(s->path, "r+e"); /* what the old stream has read may be cut */
    int rc;

    if (file == NULL)
        return err_errno(err, "%s", s->path);
    (void)fclose(s->file);
    s->file = file;
    rc = atomic_file_new(&to, s->path, 1, err);
    if (rc == 0)
        rc = copy_with_columns(s, row, list, n, to, err);
    if (rc == 0)
        rc = atomic_file_commit(to, err);
    atomic_file_free(to);
    if (rc < 0)
        return rc;
    for (size_t i = 0; i < n; i++)
        add_column(s, row->names[list[i]]);
    file = beneath_fopen(s->path, "r+e");
    if (file == NULL)
        return err_errno(err, "%s", s->path);
    (void)fclose(s->file);
    s->file = file;
    return 0;
}

static void put_row(FILE *f, const struct csv_sink *s, const struct metrics_row *row)
{
    char number[JSON_NUMBER_MAX];

    (void)fprintf(f, "%" PRIu64 ",%" PRIu64, row->env_steps, row->episodes);
    for (size_t i = 0; i < s->n; i++) {
        const size_t k = s->series[i];

        (void)fputc(',', f);
        if (k != NO_SERIES && !isnan(row->values[k]))
            (void)fputs(json_format_f64(row->values[k], number), f);
    }
    (void)fputc('\n', f);
}

int csv_sink_write(struct csv_sink *s, const struct metrics_row *row, struct err *err)
{
    struct xstream text;
    int rc = 0;

    if (row->env_steps == s->newest && s->newest != 0)
        return 0;
    map_columns(s, row);
    if (s->n_found < row->n) {
        size_t n, *list = find_new(s, row, &n);

        rc = n > 0 ? add_columns(s, row, list, n, err) : 0;
        free(list);
    }
    if (rc < 0)
        return rc;
    map_columns(s, row);
    put_row(xstream_begin(&text), s, row);
    (void)xstream_end(&text);
    rc = append_whole(fileno(s->file), s->path, text.text, text.len, err);
    free(text.text);
    if (rc == 0)
        s->newest = row->env_steps;
    return rc;
}

void csv_sink_close(struct csv_sink *s)
{
    if (s == NULL)
        return;
    if (s->file != NULL)
        (void)fclose(s->file);
    for (size_t i = 0; i < s->n; i++)
        free(s->column[i]);
    free(s->column);
    free(s->series);
    free(s->path);
    free(s);
}
