#include "common/io/beneath.h"
#include "common/io/write_all.h"
#include "supervisor/metrics/sinks.h"

#include "common/mem/xmalloc.h"
#include "supervisor/metrics/json.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct csv_sink {
    FILE *file; /* for reading; append_whole writes rows to its descriptor */
    char *path;
    uint64_t newest; /* step of the newest row that this sink wrote; 0: none */
};

static int check_written(struct csv_sink *s, struct err *err)
{
    if (fflush(s->file) != 0 || ferror(s->file))
        return err_errno(err, "%s: cannot write", s->path);
    return 0;
}

static void put_header(FILE *f, const struct metrics *m)
{
    (void)fputs("env_steps,episodes", f);
    for (size_t i = 0; i < metrics_fixed_count(m); i++)
        (void)fprintf(f, ",%s", metrics_name(m, i));
    (void)fputc('\n', f);
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
    put_header(s->file, m);
    rc = check_written(s, err);
    if (rc < 0)
        csv_sink_close(s);
    else
        *ret = s;
    return rc;
}

static int has_header(FILE *f, const struct metrics *m)
{
    struct xstream want;
    char *line = NULL;
    size_t cap = 0;
    int same;

    put_header(xstream_begin(&want), m);
    (void)xstream_end(&want);
    same = getline(&line, &cap, f) >= 0 && strcmp(line, want.text) == 0;
    free(line);
    free(want.text);
    return same;
}

static int refuse_columns(const char *path, struct err *err)
{
    return err_set(err, ERR_FORMAT,
                   "%s has other columns than this run; move it away, or restore its "
                   "first line",
                   path);
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

/* Whether the file lacks a whole first line, because its creation was interrupted. */
static int is_unfinished(FILE *f)
{
    int c = 0;

    while (c != EOF && c != '\n')
        c = getc(f);
    return c == EOF;
}

enum { NEW_FILE = 1 };

/* Reads the first line: 0; NEW_FILE: it is to be written again; or an error. What could not
 * be read must not be cut. */
static int check_header(struct csv_sink *s, const struct metrics *m, struct err *err)
{
    const int unfinished = is_unfinished(s->file);
    int same = 0;

    if (!unfinished && fseeko(s->file, 0, SEEK_SET) == 0)
        same = has_header(s->file, m);
    if (ferror(s->file))
        return err_errno(err, "%s", s->path);
    return unfinished ? NEW_FILE : same ? 0 : refuse_columns(s->path, err);
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
    put_header(s->file, m);
    return check_written(s, err);
}

int csv_sink_resume(struct csv_sink **ret, const char *path, const struct metrics *m,
                    uint64_t env_steps, struct err *err)
{
    struct csv_sink *s = NULL;
    off_t end;
    int rc = open_sink(&s, path, "r+e", err);

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

static void put_row(FILE *f, const struct metrics_row *row)
{
    char number[JSON_NUMBER_MAX];

    (void)fprintf(f, "%" PRIu64 ",%" PRIu64, row->env_steps, row->episodes);
    for (size_t i = 0; i < row->n_fixed; i++) {
        (void)fputc(',', f);
        if (!isnan(row->values[i]))
            (void)fputs(json_format_f64(row->values[i], number), f);
    }
    (void)fputc('\n', f);
}

int csv_sink_write(struct csv_sink *s, const struct metrics_row *row, struct err *err)
{
    struct xstream text;
    int rc;

    if (row->env_steps == s->newest && s->newest != 0)
        return 0;
    put_row(xstream_begin(&text), row);
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
    free(s->path);
    free(s);
}
