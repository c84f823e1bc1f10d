/* Prints a comparison over tasks as text, JSON and SVG. */
#include "common/text/number_text.h"
#include "common/text/plain_text.h"
#include "supervisor/cli/report_tasks.h"
#include "supervisor/metrics/seed_stats.h"
#include "supervisor/metrics/svg_plot.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

/* ---- text ---- */

static int widest(int width, const char *name)
{
    const int len = (int)strlen(PLAIN_NAME(name));

    return len > width ? len : width;
}

/* The value with its interval, in a column of so many characters. */
static void print_estimate(const struct estimate *e, int width, FILE *f)
{
    char value[NUMBER_TEXT_BYTES], low[NUMBER_TEXT_BYTES], high[NUMBER_TEXT_BYTES];
    char interval[2 * NUMBER_TEXT_BYTES + 8] = "";

    if (!isnan(e->low))
        (void)snprintf(interval, sizeof(interval), " [%s, %s]",
                       number_text(e->low, 2, low), number_text(e->high, 2, high));
    (void)fprintf(f, "  %5s%-*s", number_text(e->value, 2, value),
                  width > 7 ? width - 7 : 0, interval);
}

static void print_tasks(const struct report_tasks *r, FILE *f)
{
    char low[NUMBER_TEXT_BYTES], high[NUMBER_TEXT_BYTES];
    int width = 4, metric = 6;

    for (size_t t = 0; t < r->n_tasks; t++) {
        width = widest(width, r->task[t].name);
        metric = widest(metric, r->task[t].metric);
    }
    (void)fprintf(f, "  %-*s  %-*s %5s %11s %11s\n", width, "task", metric, "metric",
                  "runs", "score 0", "score 1");
    for (size_t t = 0; t < r->n_tasks; t++) {
        const struct report_task *task = &r->task[t];

        (void)fprintf(f, "  %-*s  %-*s %5zu %11s %11s%s\n", width, PLAIN_NAME(task->name),
                      metric, PLAIN_NAME(task->metric), task->runs,
                      number_text(task->low, 3, low), number_text(task->high, 3, high),
                      task->is_given ? "  given" : "");
    }
}

static void print_algorithms(const struct report_tasks *r, int width, FILE *f)
{
    (void)fprintf(f, "\n  %-*s %5s  %-22s%-22s%-22s%s\n", width, "algorithm", "runs",
                  "iqm", "median", "mean", "optimality gap");
    for (size_t i = 0; i < r->n_algorithms; i++) {
        const struct report_algorithm *a = &r->algorithm[i];

        (void)fprintf(f, "  %-*s %5zu", width, PLAIN_NAME(a->scores.name),
                      a->scores.tasks * a->scores.runs);
        for (size_t k = 0; k < TASK_STATS; k++)
            print_estimate(&a->stats.stat[k], k + 1 < TASK_STATS ? 22 : 0, f);
        (void)fputc('\n', f);
    }
}

void report_tasks_print_text(const struct report_tasks *r, FILE *f)
{
    const size_t n = r->n_algorithms;
    int width = 9;

    for (size_t i = 0; i < n; i++)
        width = widest(width, r->algorithm[i].scores.name);
    (void)fprintf(
        f,
        "%zu algorithms over %zu tasks, by the last tenth of each run; score 0 and 1 "
        "are the lowest and highest\nrun of a task, or given; 95 %% intervals by %d "
        "stratified resamples\n",
        n, r->n_tasks, SEED_RESAMPLES);
    print_tasks(r, f);
    print_algorithms(r, width, f);
    (void)fputs(
        "\n  probability that a run of the first is better than one of the second\n", f);
    for (size_t x = 0; x < n; x++)
        for (size_t y = 0; y < n; y++) {
            if (y == x)
                continue;
            (void)fprintf(f, "  %-*s > %-*s", width,
                          PLAIN_NAME(r->algorithm[x].scores.name), width,
                          PLAIN_NAME(r->algorithm[y].scores.name));
            print_estimate(&r->improvement[x * n + y], 0, f);
            (void)fputc('\n', f);
        }
}

/* ---- JSON ---- */

static void put_estimate(const char *key, const struct estimate *e, struct json *j)
{
    json_put_object(j, key);
    json_put_f64(j, "value", e->value);
    json_put_f64(j, "low", e->low);
    json_put_f64(j, "high", e->high);
    json_close(j);
}

static void put_task(const struct report_tasks *r, size_t t, struct json *j)
{
    const struct report_task *task = &r->task[t];

    json_object(j);
    json_put_str(j, "task", task->name);
    json_put_str(j, "metric", task->metric);
    json_put_u64(j, "runs", task->runs);
    json_put_f64(j, "low", task->low);
    json_put_f64(j, "high", task->high);
    json_put_bool(j, "given", task->is_given);
    json_close(j);
}

/* A list of one of the numbers of a profile's points. */
static void put_points(const char *key, const struct estimate *of, size_t at,
                       struct json *j)
{
    json_put_array(j, key);
    for (size_t k = 0; k < TASK_TAUS; k++)
        json_f64(j, *(const double *)((const char *)&of[k] + at));
    json_close(j);
}

static void put_algorithm(const struct report_tasks *r, const struct report_algorithm *a,
                          struct json *j)
{
    const struct task_scores *s = &a->scores;

    json_object(j);
    json_put_str(j, "algorithm", s->name);
    json_put_u64(j, "runs", s->tasks * s->runs);
    json_put_array(j, "scores"); /* a list for each task */
    for (size_t t = 0; t < s->tasks; t++) {
        json_array(j);
        for (size_t i = 0; i < s->runs; i++)
            json_f64(j, s->score[t * s->runs + i]);
        json_close(j);
    }
    json_close(j);
    for (size_t k = 0; k < TASK_STATS; k++)
        put_estimate(task_stat_names[k], &a->stats.stat[k], j);
    json_put_object(j, "profile");
    json_put_array(j, "tau");
    for (size_t k = 0; k < TASK_TAUS; k++)
        json_f64(j, r->tau[k]);
    json_close(j);
    put_points("above", a->stats.profile, offsetof(struct estimate, value), j);
    put_points("low", a->stats.profile, offsetof(struct estimate, low), j);
    put_points("high", a->stats.profile, offsetof(struct estimate, high), j);
    json_close(j);
    json_close(j);
}

void report_tasks_put(const struct report_tasks *r, struct json *j)
{
    const size_t n = r->n_algorithms;

    json_object(j);
    json_put_array(j, "tasks");
    for (size_t t = 0; t < r->n_tasks; t++)
        put_task(r, t, j);
    json_close(j);
    json_put_array(j, "algorithms");
    for (size_t i = 0; i < n; i++)
        put_algorithm(r, &r->algorithm[i], j);
    json_close(j);
    json_put_array(j, "improvement");
    for (size_t i = 0; i < n * n; i++) {
        if (i / n == i % n)
            continue;
        json_object(j);
        json_put_str(j, "better", r->algorithm[i / n].scores.name);
        json_put_str(j, "than", r->algorithm[i % n].scores.name);
        put_estimate("probability", &r->improvement[i], j);
        json_close(j);
    }
    json_close(j);
    json_put_u64(j, "resamples", SEED_RESAMPLES);
    json_close(j);
}

/* ---- SVG ---- */

void report_tasks_print_svg(const struct report_tasks *r, FILE *f)
{
    struct svg_plot plot = SVG_PLOT;

    plot.x.low = r->tau[0];
    plot.x.high = r->tau[TASK_TAUS - 1];
    plot.y.low = 0;
    plot.y.high = 1;
    plot.x_label = "score";
    svg_plot_begin(&plot, "Part of the runs with a greater score",
                   " (and 95 % interval, over tasks)", f);
    svg_plot_axes(&plot, f);
    for (size_t i = 0; i < r->n_algorithms; i++) {
        struct svg_point point[TASK_TAUS];

        for (size_t k = 0; k < TASK_TAUS; k++) {
            const struct estimate *e = &r->algorithm[i].stats.profile[k];

            point[k] = (struct svg_point){r->tau[k], e->value, e->low, e->high};
        }
        svg_plot_curve(&plot, point, TASK_TAUS, i, f);
    }
    for (size_t i = 0; i < r->n_algorithms; i++)
        svg_plot_legend(&plot, plot.y.to + 18 * (double)i + 10, i,
                        r->algorithm[i].scores.name,
                        r->algorithm[i].scores.tasks * r->algorithm[i].scores.runs, f);
    (void)fputs("</svg>\n", f);
}
