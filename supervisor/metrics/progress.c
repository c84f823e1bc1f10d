#include "supervisor/metrics/progress.h"

#include "common/config/yaml_tree.h"
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
#include <sys/stat.h>

enum {
    MAX_BYTES = 512 << 20,
    MAX_LINE_BYTES = 4 << 20,
    MAX_COLUMNS = 65536, /* of 1,000 agents, each in a team of its own */
    MAX_VALUES = 64 << 20,
    END_BYTES = 64 << 10,
    LONG_END_BYTES = 64 << 20,
    PLACE_BYTES = 64 << 10
};

struct progress {
    struct arena arena;
    const char **name;
    size_t n_columns, n_rows, cap_rows;
    double *values; /* (n_rows, n_columns) */
    size_t steps;   /* column */
    int is_course;  /* it has only values that draw its course */
    int is_part;    /* it lacks rows of the file */
};

static const char EVALUATED[] = "eval/team_return/", TRAINED[] = "rollout/team_return/";

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

static int is_wanted(const struct progress *p, size_t column)
{
    const char *name = p->name[column];

    return !p->is_course || column == p->steps || text_after(name, TRAINED) != NULL ||
           text_after(name, EVALUATED) != NULL || strcmp(name, PROGRESS_SPEED) == 0;
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
        if (n == p->n_columns || !read_value(is_wanted(p, n) ? word : "", &row[n]))
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

/* What is read of a file: the first row with a return behind each of n places at equal
 * distances, and all that begins behind them, in the last `last` bytes. */
struct part {
    size_t n, last; /* n 0: only the last bytes; both 0: all */
    off_t body, end;
    off_t place; /* the newest one */
    size_t i;    /* of the next one; at n, the end */
};

/* Goes to the next place, once a return was found behind this one or too much was read. */
static void go_on(struct part *part, FILE *f, int is_found)
{
    int c = 0;

    if (part->i > part->n || (!is_found && ftello(f) < part->place + PLACE_BYTES))
        return;
    part->place = part->i == part->n ? part->end
                                     : part->body + (part->end - part->body) /
                                                        (off_t)part->n * (off_t)part->i;
    part->i++;
    if (part->place <= ftello(f))
        return;
    /* to the first line that begins there or behind */
    (void)fseeko(f, part->place - 1, SEEK_SET);
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

static int read_lines(struct progress *p, const char *path, FILE *f, struct part part,
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
            struct stat st = {0};

            rc = read_header(p, path, line, err);
            part.body = part.place = part.end = ftello(f);
            if (part.last > 0 && fstat(fileno(f), &st) == 0)
                part.end = st.st_size - (off_t)part.last;
            go_on(&part, f, 1);
            p->is_part = ftello(f) > part.body;
        } else {
            rc = read_row(p, path, number, line, err);
            if (rc == 0 && part.i <= part.n)
                go_on(&part, f, !isnan(progress_team_return_in(p, p->n_rows - 1)));
        }
    }
    if (rc == 0 && number == 0)
        rc = err_set(err, ERR_FORMAT, "%s: empty", path);
    free(line);
    return rc;
}

static int read_file(struct progress **ret, const char *path, struct part part,
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
    p->is_course = part.n > 0;
    rc = read_lines(p, path, f, part, err);
    p->is_part |= p->is_course;
    (void)fclose(f);
    if (rc < 0)
        progress_free(p);
    else
        *ret = p;
    return rc;
}

int progress_read(struct progress **ret, const char *path, struct err *err)
{
    return read_file(ret, path, (struct part){0}, err);
}

int progress_read_end(struct progress **ret, const char *path, struct err *err)
{
    const int rc = read_file(ret, path, (struct part){.last = END_BYTES}, err);

    if (rc == ERR_FORMAT) /* only the whole file gives the line's number */
        return read_file(ret, path, (struct part){0}, err);
    if (rc < 0 || !isnan(progress_team_return(*ret)))
        return rc;
    progress_free(*ret); /* only an older row can have a team's return */
    return read_file(ret, path, (struct part){.last = LONG_END_BYTES}, err);
}

int progress_read_course(struct progress **ret, const char *path, size_t places,
                         struct err *err)
{
    return read_file(ret, path, (struct part){.n = places, .last = END_BYTES}, err);
}

void progress_free(struct progress *p)
{
    if (p == NULL)
        return;
    arena_done(&p->arena);
    free(p->values);
    free(p);
}

int progress_is_whole(const struct progress *p)
{
    return !p->is_part;
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

int progress_add_nearest(const struct progress *p, const char *name, struct err *err)
{
    const char **last = xcalloc(p->n_columns + 1, sizeof(*last));
    const char *nearest = yaml_nearest(name, (const char *const *)p->name, p->n_columns);

    for (size_t i = 0; i < p->n_columns; i++)
        last[i] = text_base_name(p->name[i]);
    if (nearest == NULL && (nearest = yaml_nearest(name, last, p->n_columns)) != NULL)
        name = nearest;
    /* it may lack what stands before its last part */
    for (size_t i = 0; i < p->n_columns; i++)
        if (strcmp(last[i], name) == 0) {
            nearest = p->name[i];
            break;
        }
    free(last);
    return nearest != NULL ? err_add(err, "did you mean '%s'?", nearest) : err->code;
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

/* The first column with that prefix that has a value in these rows. */
/* The first column of that prefix with a value in these rows; rows NULL: with or without one. */
static size_t find_prefixed(const struct progress *p, const char *prefix,
                            const size_t *rows)
{
    for (size_t c = 0; c < p->n_columns; c++) {
        if (text_after(p->name[c], prefix) == NULL)
            continue;
        if (rows == NULL)
            return c;
        for (size_t r = 0; r < *rows; r++)
            if (!isnan(progress_value(p, r, c)))
                return c;
    }
    return p->n_columns;
}

static size_t find_return(const struct progress *p, const size_t *rows)
{
    const size_t c = find_prefixed(p, EVALUATED, rows);

    return c < p->n_columns ? c : find_prefixed(p, TRAINED, rows);
}

size_t progress_find_return(const struct progress *p, size_t rows)
{
    return find_return(p, &rows);
}

int progress_is_first_return(const struct progress *p, size_t column)
{
    return column == find_return(p, NULL);
}

double progress_team_return_in(const struct progress *p, size_t row)
{
    double sum = 0;
    int n = 0;

    for (size_t c = 0; c < p->n_columns; c++) {
        const double v = progress_value(p, row, c);

        if (isnan(v) || text_after(p->name[c], TRAINED) == NULL)
            continue;
        sum += v;
        n++;
    }
    return n > 0 ? sum / n : (double)NAN;
}

double progress_team_return(const struct progress *p)
{
    double ret = (double)NAN;

    for (size_t row = p->n_rows; isnan(ret) && row-- > 0;)
        ret = progress_team_return_in(p, row);
    return ret;
}
