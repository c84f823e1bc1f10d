#include "supervisor/metrics/sinks.h"

#include "common/mem/xmalloc.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

struct csv_sink {
    FILE *file;
    char *path;
};

static int check_written(struct csv_sink *s, struct err *err)
{
    if (fflush(s->file) != 0 || ferror(s->file))
        return err_errno(err, "%s: cannot write", s->path);
    return 0;
}

int csv_sink_open(struct csv_sink **ret, const char *path, const struct metrics *m,
                  struct err *err)
{
    struct csv_sink *s = xcalloc(1, sizeof(*s));
    int rc;

    s->path = xstrdup(path);
    s->file = fopen(path, "wxe");
    if (s->file == NULL) {
        rc = err_errno(err, "%s", path);
        csv_sink_close(s);
        return rc;
    }
    (void)fputs("env_steps,episodes", s->file);
    for (size_t i = 0; i < metrics_fixed_count(m); i++)
        (void)fprintf(s->file, ",%s", metrics_name(m, i));
    (void)fputc('\n', s->file);
    rc = check_written(s, err);
    if (rc < 0) {
        csv_sink_close(s);
        return rc;
    }
    *ret = s;
    return 0;
}

int csv_sink_write(struct csv_sink *s, const struct metrics_row *row, struct err *err)
{
    char number[JSON_NUMBER_MAX];

    (void)fprintf(s->file, "%" PRIu64 ",%" PRIu64, row->env_steps, row->episodes);
    for (size_t i = 0; i < row->n_fixed; i++) {
        (void)fputc(',', s->file);
        if (!isnan(row->values[i]))
            (void)fputs(json_format_f64(row->values[i], number), s->file);
    }
    (void)fputc('\n', s->file);
    return check_written(s, err);
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
