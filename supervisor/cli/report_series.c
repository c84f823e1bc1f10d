#include "supervisor/cli/report_series.h"

#include "common/mem/xmalloc.h"
#include "supervisor/events/run_model.h"
#include "supervisor/metrics/progress.h"
#include "supervisor/rundir/journal_read.h"

#include <math.h>
#include <stdlib.h>

static const double LAST_PART = 0.1;

static const char *base_name(const char *path)
{
    size_t end = strlen(path);

    while (end > 1 && path[end - 1] == '/')
        end--;
    while (end > 0 && path[end - 1] != '/')
        end--;
    return path + end;
}

/* The column of the team's return; NULL: there is none. */
static const char *usual_metric(const struct progress *p)
{
    const size_t c = progress_find_return(p, progress_n_rows(p));

    return c < progress_n_columns(p) ? progress_name(p, c) : NULL;
}

static int take_series(struct report_series *s, const struct progress *p,
                       const char *path, const char *metric, struct err *err)
{
    const size_t column = progress_find(p, metric), rows = progress_n_rows(p);

    if (column == progress_n_columns(p)) {
        (void)err_set(err, ERR_NOT_FOUND, "%s has no metric %s", path, metric);
        return progress_add_nearest(p, metric, err);
    }
    s->run = base_name(path);
    s->steps = xcalloc(rows + 1, sizeof(double));
    s->value = xcalloc(rows + 1, sizeof(double));
    for (size_t r = 0; r < rows; r++) {
        double v = progress_value(p, r, column);

        s->end = progress_steps(p, r);
        if (isnan(v))
            continue;
        s->steps[s->n] = s->end;
        s->value[s->n++] = v;
    }
    return s->n > 0
               ? 0
               : err_set(err, ERR_NOT_FOUND, "%s has no value of %s yet", path, metric);
}

int report_series_read(struct report_series *s, const char *path, char **metric,
                       struct err *err)
{
    char *file = xasprintf("%s/metrics/progress.csv", path);
    struct progress *p;
    struct run_model m;
    int rc = progress_read(&p, file, err);

    free(file);
    if (rc < 0)
        return rc;
    if (*metric == NULL && usual_metric(p) != NULL)
        *metric = xstrdup(usual_metric(p));
    rc = *metric == NULL ? err_set(err, ERR_NOT_FOUND, "%s has no returns yet", path)
                         : take_series(s, p, path, *metric, err);
    progress_free(p);
    if (rc < 0)
        return rc;
    file = xasprintf("%s/journal", path);
    run_model_init(&m);
    (void)journal_fold(file, &m, NULL);
    s->count = run_status_counts(&m.status);
    run_model_done(&m);
    free(file);
    return 0;
}

void report_series_done(struct report_series *s)
{
    free(s->steps);
    free(s->value);
}

double report_series_final(const struct report_series *s)
{
    double sum = 0;
    size_t n = 0;

    for (size_t i = s->n; i > 0 && (n == 0 || s->steps[i - 1] > (1 - LAST_PART) * s->end);
         i--, n++)
        sum += s->value[i - 1];
    return sum / (double)n;
}
