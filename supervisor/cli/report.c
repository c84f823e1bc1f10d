#include "supervisor/cli/report.h"

#include "common/mem/xmalloc.h"
#include "supervisor/events/run_model.h"
#include "supervisor/facts/files.h"
#include "supervisor/facts/record.h"
#include "supervisor/rundir/journal_read.h"

#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* One run's values of the metric, without missing ones. */
struct series {
    const char *run; /* the last part of its path */
    double *steps, *value;
    size_t n;
    double end; /* its last step, with or without a value */
    struct process_count count;
};

static const double LAST_PART = 0.1;

/* ---- reading ---- */

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

static int take_series(struct series *s, const struct progress *p, const char *path,
                       const char *metric, struct err *err)
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

static int read_series(struct series *s, const char *path, char **metric, struct err *err)
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

static void free_series(struct series *s)
{
    free(s->steps);
    free(s->value);
}

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

static double final_value(const struct series *s)
{
    double sum = 0;
    size_t n = 0;

    for (size_t i = s->n; i > 0 && (n == 0 || s->steps[i - 1] > (1 - LAST_PART) * s->end);
         i--, n++)
        sum += s->value[i - 1];
    return sum / (double)n;
}

/* The newest value at or before `steps`, which must not fall from call to call; NaN: none
 * yet. *at: 0 at first, then how many values are that old. */
static double value_at(const struct series *s, double steps, size_t *at)
{
    while (*at < s->n && s->steps[*at] <= steps)
        ++*at;
    return *at > 0 ? s->value[*at - 1] : (double)NAN;
}

/* The steps of all runs of a group, each once, in order; returns how many. */
static size_t all_steps(const struct series *const *s, size_t n, double **ret)
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

static void make_curve(struct report_group *g, const struct series *const *s, size_t n)
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
        values[i] = final_value(s[i]);
    g->final = seed_stats_of(values, n);
    free(at);
    free(values);
    free(x);
}

static void make_groups(struct report *r, const struct series *s, size_t n)
{
    const struct series **members = xcalloc(n, sizeof(*members));
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
static size_t read_all(struct series *s, char *const *paths, size_t n, char **metric,
                       struct err *first, struct err *whys)
{
    size_t n_read = 0;

    for (size_t i = 0; i < n; i++) {
        struct series one = {0};

        whys[i] = (struct err){0};
        if (read_series(&one, paths[i], metric, &whys[i]) == 0) {
            s[n_read++] = one;
            continue;
        }
        free_series(&one);
        if (first->code == 0)
            *first = whys[i];
    }
    return n_read;
}

int report_make(struct report **ret, char *const *paths, size_t n, const char *metric,
                void (*on_left_out)(void *ctx, const struct err *why), void *ctx,
                struct err *err)
{
    struct series *s = xcalloc(n, sizeof(*s));
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
        free_series(&s[i]);
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

/* ---- for the statistics package marl-eval ---- */

struct trial {
    const char *path;
    struct series series;
    char *task, *algorithm;
    uint64_t seed;
};

static int read_trial(struct trial *t, const char *path, char **metric, struct err *err)
{
    struct arena arena = ARENA_ZERO;
    struct run_config c;
    int rc = read_series(&t->series, path, metric, err);

    if (rc == 0)
        rc = files_read_config(&c, path, err);
    if (rc < 0)
        return rc;
    t->path = path;
    t->task = xstrdup(c.env.id);
    t->algorithm = xstrdup(run_algorithm_names(&c, "+", &arena));
    t->seed = c.run.seed;
    arena_done(&arena);
    run_config_done(&c);
    return 0;
}

static int compare_trials(const void *a, const void *b)
{
    const struct trial *x = a, *y = b;
    const int task = strcmp(x->task, y->task);
    const int algorithm = strcmp(x->algorithm, y->algorithm);

    return task != 0        ? task
           : algorithm != 0 ? algorithm
                            : (x->seed > y->seed) - (x->seed < y->seed);
}

static void put_numbers(struct json *j, const char *key, const double *v)
{
    json_put_array(j, key);
    json_f64(j, *v);
    json_close(j);
}

static void put_trial(const struct trial *t, struct json *j)
{
    const double last = final_value(&t->series);
    char name[32];

    (void)snprintf(name, sizeof(name), "seed_%" PRIu64, t->seed);
    json_put_object(j, name);
    for (size_t i = 0; i < t->series.n; i++) {
        (void)snprintf(name, sizeof(name), "step_%zu", i);
        json_put_object(j, name);
        json_put_u64(j, "step_count", (uint64_t)t->series.steps[i]);
        put_numbers(j, "return", &t->series.value[i]);
        json_close(j);
    }
    json_put_object(j, "absolute_metrics");
    put_numbers(j, "return", &last);
    json_close(j);
    json_close(j);
}

/* t: sorted. */
static void put_trials(const struct trial *t, size_t n, struct json *j)
{
    json_object(j);
    json_put_object(j, "brood");
    for (size_t i = 0; i < n; i++) {
        const int same_task = i > 0 && strcmp(t[i].task, t[i - 1].task) == 0;
        const int same = same_task && strcmp(t[i].algorithm, t[i - 1].algorithm) == 0;

        for (int level = same + same_task; i > 0 && level < 2; level++)
            json_close(j);
        if (!same_task)
            json_put_object(j, t[i].task);
        if (!same)
            json_put_object(j, t[i].algorithm);
        put_trial(&t[i], j);
    }
    for (int level = 0; level < 4; level++)
        json_close(j);
}

int report_put_marl_eval(char *const *paths, size_t n, const char *metric, struct json *j,
                         struct err *err)
{
    char *column = metric != NULL ? xstrdup(metric) : NULL;
    struct trial *t = xcalloc(n, sizeof(*t));
    struct err first = {0};
    size_t n_read = 0;
    int rc = 0;

    for (size_t i = 0; i < n; i++) {
        struct trial one = {0};
        struct err why = {0};

        if (read_trial(&one, paths[i], &column, &why) == 0) {
            t[n_read++] = one;
            continue;
        }
        free_series(&one.series);
        if (first.code == 0)
            first = why;
    }
    if (n_read == 0)
        rc = err_pass(err, &first);
    qsort(t, n_read, sizeof(*t), compare_trials);
    for (size_t i = 1; i < n_read && rc == 0; i++)
        if (compare_trials(&t[i - 1], &t[i]) == 0)
            rc = err_set(err, ERR_ARG, "%s and %s both have seed %" PRIu64 " of %s in %s",
                         t[i - 1].path, t[i].path, t[i].seed, t[i].algorithm, t[i].task);
    if (rc == 0)
        put_trials(t, n_read, j);
    for (size_t i = 0; i < n_read; i++) {
        free_series(&t[i].series);
        free(t[i].task);
        free(t[i].algorithm);
    }
    free(t);
    free(column);
    return rc;
}
