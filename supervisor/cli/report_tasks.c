#include "supervisor/cli/report_tasks.h"

#include "common/config/yaml_tree.h"
#include "common/mem/xmalloc.h"
#include "supervisor/metrics/seed_stats.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- bounds ---- */

int report_bounds_read(const char *text, size_t *ret_name_len, double *ret_low,
                       double *ret_high, struct err *err)
{
    const char *equals = strrchr(text, '='); /* a task's name may have one, too */
    char *end = NULL;

    if (equals != NULL && equals > text) {
        *ret_low = strtod(equals + 1, &end);
        if (end > equals + 1 && *end == ',') {
            const char *second = end + 1;

            *ret_high = strtod(second, &end);
            if (end > second && *end == '\0' && isfinite(*ret_low) &&
                isfinite(*ret_high) && *ret_low < *ret_high) {
                *ret_name_len = (size_t)(equals - text);
                return 0;
            }
        }
    }
    return err_set(err, ERR_ARG,
                   "--bounds %.80s: expected TASK=LOW,HIGH with LOW below HIGH, such as "
                   "simple_spread=-60,-15",
                   text);
}

static int set_bounds(struct report_tasks *r, const char *text, struct err *err)
{
    const char **names;
    char *name;
    double low, high;
    size_t len;
    int rc = report_bounds_read(text, &len, &low, &high, err);

    if (rc < 0)
        return rc;
    for (size_t t = 0; t < r->n_tasks; t++) {
        struct report_task *task = &r->task[t];

        if (strlen(task->name) == len && memcmp(task->name, text, len) == 0) {
            task->low = low;
            task->high = high;
            task->is_given = 1;
            return 0;
        }
    }
    names = xcalloc(r->n_tasks, sizeof(*names));
    for (size_t t = 0; t < r->n_tasks; t++)
        names[t] = r->task[t].name;
    name = strndup(text, len);
    (void)err_set(err, ERR_ARG, "--bounds %.80s: none of the runs is of this task", name);
    rc = yaml_add_nearest(err, name, names, r->n_tasks);
    free(name);
    free(names);
    return rc;
}

/* ---- tasks ---- */

static void find_tasks(struct report_tasks *r)
{
    r->task = xcalloc(r->trials.n, sizeof(*r->task));
    for (size_t i = 0; i < r->trials.n; i++) {
        const struct trial *of = &r->trials.list[i];
        const double value = report_series_final(&of->series);
        struct report_task *t;

        if (i == 0 || strcmp(of->task, of[-1].task) != 0)
            r->task[r->n_tasks++] = (struct report_task){
                .name = of->task, .metric = of->metric, .low = value, .high = value};
        t = &r->task[r->n_tasks - 1];
        t->low = fmin(t->low, value);
        t->high = fmax(t->high, value);
        t->runs++;
    }
}

static int check_tasks(const struct report_tasks *r, struct err *err)
{
    if (r->n_tasks == 1)
        return err_set(
            err, ERR_ARG,
            "all runs are of %s, but --tasks compares over several tasks: without "
            "it, `brood report` compares runs of one",
            r->task[0].name);
    for (size_t t = 0; t < r->n_tasks; t++)
        if (!r->task[t].is_given && !(r->task[t].high > r->task[t].low))
            return err_set(
                err, ERR_ARG,
                "in %s, all runs end with %g, so that nothing says what is good: "
                "give --bounds '%s=LOW,HIGH'",
                r->task[t].name, r->task[t].low, r->task[t].name);
    return 0;
}

/* ---- algorithms ---- */

static int by_algorithm(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* The names of the algorithms, each once, in order; free(). */
static const char **find_algorithms(const struct trials *t, size_t *ret_n)
{
    const char **name = xcalloc(t->n, sizeof(*name));

    *ret_n = 0;
    for (size_t i = 0; i < t->n; i++)
        name[i] = t->list[i].algorithm;
    qsort(name, t->n, sizeof(*name), by_algorithm);
    for (size_t i = 0; i < t->n; i++)
        if (i == 0 || strcmp(name[i], name[*ret_n - 1]) != 0)
            name[(*ret_n)++] = name[i];
    return name;
}

/* The first of an algorithm's trials in a task, which stand side by side, and how many there are. */
static const struct trial *trials_of(const struct report_tasks *r, const char *algorithm,
                                     const char *task, size_t *ret_n)
{
    const struct trial *first = NULL;

    *ret_n = 0;
    for (size_t i = 0; i < r->trials.n; i++) {
        const struct trial *t = &r->trials.list[i];

        if (strcmp(t->algorithm, algorithm) != 0 || strcmp(t->task, task) != 0)
            continue;
        first = first != NULL ? first : t;
        ++*ret_n;
    }
    return first;
}

static int take_scores(struct report_algorithm *a, const struct report_tasks *r,
                       const char *name, struct err *err)
{
    size_t runs;

    (void)trials_of(r, name, r->task[0].name, &runs);
    a->score = xcalloc(runs * r->n_tasks, sizeof(*a->score));
    a->scores = (struct task_scores){
        .name = name, .tasks = r->n_tasks, .runs = runs, .score = a->score};
    for (size_t t = 0; t < r->n_tasks; t++) {
        const struct report_task *task = &r->task[t];
        size_t n;
        const struct trial *of = trials_of(r, name, task->name, &n);

        if (n != runs)
            return err_set(
                err, ERR_ARG,
                "runs of %s: %zu in %s, but %zu in %s; --tasks needs equally many "
                "in each task",
                name, runs, r->task[0].name, n, task->name);
        for (size_t i = 0; i < n; i++)
            a->score[t * runs + i] = (report_series_final(&of[i].series) - task->low) /
                                     (task->high - task->low);
    }
    return 0;
}

static int make_algorithms(struct report_tasks *r, struct err *err)
{
    size_t n;
    const char **name = find_algorithms(&r->trials, &n);
    int rc = 0;

    if (n == 1)
        rc = err_set(err, ERR_ARG,
                     "all runs are of %s, but --tasks compares several algorithms",
                     name[0]);
    r->algorithm = xcalloc(n, sizeof(*r->algorithm));
    while (rc == 0 && r->n_algorithms < n) {
        rc = take_scores(&r->algorithm[r->n_algorithms], r, name[r->n_algorithms], err);
        r->n_algorithms++;
    }
    free(name);
    return rc;
}

/* ---- statistics ---- */

static void set_taus(struct report_tasks *r)
{
    double low = 0, high = 1;

    for (size_t a = 0; a < r->n_algorithms; a++) {
        const struct task_scores *s = &r->algorithm[a].scores;

        for (size_t i = 0; i < s->tasks * s->runs; i++) {
            low = fmin(low, s->score[i]);
            high = fmax(high, s->score[i]);
        }
    }
    for (size_t k = 0; k < TASK_TAUS; k++)
        r->tau[k] = low + (high - low) * (double)k / (TASK_TAUS - 1);
}

static void compute(struct report_tasks *r)
{
    const size_t n = r->n_algorithms;

    set_taus(r);
    r->improvement = xcalloc(n * n, sizeof(*r->improvement));
    for (size_t x = 0; x < n; x++) {
        struct report_algorithm *a = &r->algorithm[x];

        task_stats_of(&a->stats, &a->scores, r->tau);
        for (size_t y = 0; y < n; y++)
            if (y != x)
                r->improvement[x * n + y] =
                    task_improvement(&a->scores, &r->algorithm[y].scores);
    }
}

int report_tasks_make(struct report_tasks *ret, char *const *paths, size_t n,
                      const char *metric, const char *const *bounds, size_t n_bounds,
                      void (*on_left_out)(void *ctx, const struct err *why), void *ctx,
                      struct err *err)
{
    int rc;

    *ret = (struct report_tasks){0};
    rc = report_trials_read(&ret->trials, paths, n, metric, on_left_out, ctx, err);
    if (rc < 0)
        return rc;
    find_tasks(ret);
    for (size_t i = 0; i < n_bounds && rc == 0; i++)
        rc = set_bounds(ret, bounds[i], err);
    if (rc == 0)
        rc = check_tasks(ret, err);
    if (rc == 0)
        rc = make_algorithms(ret, err);
    if (rc == 0)
        compute(ret);
    else
        report_tasks_done(ret);
    return rc;
}

void report_tasks_done(struct report_tasks *r)
{
    for (size_t a = 0; a < r->n_algorithms; a++)
        free(r->algorithm[a].score);
    free(r->algorithm);
    free(r->improvement);
    free(r->task);
    report_trials_done(&r->trials);
    *r = (struct report_tasks){0};
}
