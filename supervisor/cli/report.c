#include "supervisor/cli/report.h"

#include "common/mem/xmalloc.h"
#include "supervisor/cli/report_series.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- grouping ---- */

/* Length of a run's name without "-<number>" or "-s<number>". */
static size_t stem_len(const char *run)
{
    size_t len = strcspn(run, "/"), end = len;

    while (end > 0 && isdigit((unsigned char)run[end - 1]))
        end--;
    if (end == len || end == 0)
        return len;
    if (end > 1 && run[end - 1] == 's' && run[end - 2] == '-')
        return end > 2 ? end - 2 : len;
    return end > 1 && run[end - 1] == '-' ? end - 1 : len;
}

int report_same_group(const char *a, const char *b)
{
    return stem_len(a) == stem_len(b) && strncmp(a, b, stem_len(a)) == 0;
}

/* The newest value at or before `steps`, which must not fall from call to call; NaN: none
 * yet. *at: 0 at first, then how many values are that old. */
static double value_at(const struct report_series *s, double steps, size_t *at)
{
    while (*at < s->n && s->steps[*at] <= steps)
        ++*at;
    return *at > 0 ? s->value[*at - 1] : (double)NAN;
}

/* The steps of all runs of a group, each once, in order; returns how many. */
static size_t all_steps(const struct report_series *const *s, size_t n, double **ret)
{
    size_t total = 0, kept = 0;
    double *x;

    for (size_t i = 0; i < n; i++)
        total += s[i]->n;
    x = *ret = xcalloc(total, sizeof(*x));
    for (size_t i = 0; i < n; i++) {
        memcpy(x + kept, s[i]->steps, s[i]->n * sizeof(*x));
        kept += s[i]->n;
    }
    qsort(x, total, sizeof(*x), seed_stats_order);
    kept = 0;
    for (size_t i = 0; i < total; i++) {
        if (kept == 0 || x[kept - 1] != x[i])
            x[kept++] = x[i];
    }
    return kept;
}

/* Thins a group's points: keeps the lowest and the highest of each range, in their
 * order, and the last one of all. */
static void thin(struct report_group *g, size_t points)
{
    const size_t each = (2 * g->n_points + points - 1) / points;
    size_t kept = 0;

    for (size_t i = 0; i < g->n_points; i += each) {
        size_t low = i, high = i, first, second;

        for (size_t k = i; k < i + each && k < g->n_points; k++) {
            if (g->point[k].over.mean < g->point[low].over.mean)
                low = k;
            if (g->point[k].over.mean > g->point[high].over.mean)
                high = k;
        }
        first = low < high ? low : high;
        second = low < high ? high : low;
        g->point[kept++] = g->point[first];
        if (second != first)
            g->point[kept++] = g->point[second];
    }
    if (g->point[kept - 1].steps != g->point[g->n_points - 1].steps)
        g->point[kept++] = g->point[g->n_points - 1];
    g->n_points = kept;
}

static void make_curve(struct report_group *g, const struct report_series *const *s,
                       size_t n)
{
    double *x, *values = xcalloc(n, sizeof(*values));
    size_t *at = xcalloc(n, sizeof(*at)), n_steps = all_steps(s, n, &x);

    g->point = xcalloc(n_steps, sizeof(*g->point));
    for (size_t k = 0; k < n_steps; k++) {
        int all = 1;

        for (size_t i = 0; i < n; i++) {
            values[i] = value_at(s[i], x[k], &at[i]);
            all &= !isnan(values[i]);
        }
        if (all)
            g->point[g->n_points++] =
                (struct report_point){x[k], seed_stats_of(values, n)};
    }
    for (size_t i = 0; i < n; i++)
        values[i] = report_series_final(s[i]);
    g->final = seed_stats_of(values, n);
    free(at);
    free(values);
    free(x);
}

static void make_groups(struct report *r, const struct report_series *s, size_t n)
{
    const struct report_series **members = xcalloc(n, sizeof(*members));
    char *taken = xcalloc(n, 1);

    r->group = xcalloc(n, sizeof(*r->group));
    for (size_t i = 0; i < n; i++) {
        struct report_group *g = &r->group[r->n_groups];

        if (taken[i])
            continue;
        for (size_t k = i; k < n; k++) {
            if (!taken[k] && report_same_group(s[i].run, s[k].run)) {
                members[g->n_runs++] = &s[k];
                process_count_add(&g->count, &s[k].count);
                taken[k] = 1;
            }
        }
        g->name = g->n_runs == 1 ? strndup(s[i].run, strcspn(s[i].run, "/"))
                                 : strndup(s[i].run, stem_len(s[i].run));
        make_curve(g, members, g->n_runs);
        r->n_groups++;
    }
    free(taken);
    free(members);
}

/* Reads the runs that can be used; returns how many. *first: why the first of the others
 * cannot be used. */
static size_t read_all(struct report_series *s, char *const *paths, size_t n,
                       char **metric, struct err *first, struct err *whys)
{
    size_t n_read = 0;

    for (size_t i = 0; i < n; i++) {
        struct report_series one = {0};

        whys[i] = (struct err){0};
        if (report_series_read(&one, paths[i], metric, &whys[i]) == 0) {
            s[n_read++] = one;
            continue;
        }
        report_series_done(&one);
        if (first->code == 0)
            *first = whys[i];
    }
    return n_read;
}

int report_make(struct report **ret, char *const *paths, size_t n, const char *metric,
                void (*on_left_out)(void *ctx, const struct err *why), void *ctx,
                struct err *err)
{
    struct report_series *s = xcalloc(n, sizeof(*s));
    struct err *whys = xcalloc(n, sizeof(*whys)), first = {0};
    struct report *r = xcalloc(1, sizeof(*r));
    size_t n_read;

    r->metric = metric != NULL ? xstrdup(metric) : NULL;
    n_read = read_all(s, paths, n, &r->metric, &first, whys);
    if (n_read > 0)
        make_groups(r, s, n_read);
    for (size_t i = 0; i < n && n_read > 0; i++)
        if (whys[i].code < 0)
            on_left_out(ctx, &whys[i]);
    for (size_t i = 0; i < n_read; i++)
        report_series_done(&s[i]);
    free(whys);
    free(s);
    if (n_read == 0) {
        report_free(r);
        return err_pass(err, &first);
    }
    *ret = r;
    return 0;
}

void report_thin(struct report *r, size_t points)
{
    for (size_t i = 0; i < r->n_groups; i++)
        if (r->group[i].n_points > points)
            thin(&r->group[i], points);
}

void report_free(struct report *r)
{
    for (size_t i = 0; i < r->n_groups; i++) {
        free(r->group[i].name);
        free(r->group[i].point);
    }
    free(r->group);
    free(r->metric);
    free(r);
}
