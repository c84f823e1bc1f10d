#include "supervisor/study/study_report.h"

#include "common/mem/xmalloc.h"
#include "supervisor/metrics/svg_plot.h"
#include "supervisor/rundir/run_dir.h"
#include "supervisor/study/halving.h"
#include "supervisor/study/lineage_report.h"
#include "supervisor/study/study_dir.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { WIDTH = 900, HEIGHT = 420, LEFT = 70, TOP = 40, BOTTOM = 60, CELL_BYTES = 40 };

/* ---- reading ---- */

/* The statistics over all seeds at a step; mean NaN: a seed has no value. *ret_failure:
 * if it is NULL, gets the failure of the first run that failed; free(). */
static struct seed_stats look(const struct study *s, const char *dir, size_t trial,
                              size_t birth, uint64_t until, char **ret_failure)
{
    double values[STUDY_MAX_SEEDS];

    for (size_t k = 0; k < s->n_seeds; k++) {
        struct study_run run;

        study_run_look(&run, s, dir, &(struct study_run_id){trial, k, birth}, until);
        values[k] = run.value;
        if (*ret_failure == NULL && run.failure != NULL) {
            *ret_failure = run.failure;
            run.failure = NULL;
        }
        study_run_done(&run);
        if (isnan(values[k]))
            return seed_stats_of(values, 0);
    }
    return seed_stats_of(values, s->n_seeds);
}

static void read_trial(struct study_report *r, const char *dir, size_t trial)
{
    struct study_row *row = &r->row[trial];

    *row = (struct study_row){.trial = trial, .value = seed_stats_of(NULL, 0)};
    for (size_t k = 0; k < study_n_rungs(r->study); k++) {
        const struct seed_stats v =
            look(r->study, dir, trial, 0, study_rung_until(r->study, k), &row->failure);

        if (k == 0)
            r->first[trial] = v.mean;
        if (isnan(v.mean))
            return;
        row->value = v;
        row->rung = k;
        row->is_reached = 1;
    }
}

/* Reads the last round that is over. If the member's runs were replaced since and are
 * gone, only its mean is known (rounds.csv). */
static void read_member(struct study_report *r, const char *dir, size_t member)
{
    const struct lineage *l = &r->lineage;
    struct study_row *row = &r->row[member];
    double mean;

    *row = (struct study_row){.trial = member, .value = seed_stats_of(NULL, 0)};
    r->first[member] = l->n > 0 ? lineage_value(l, 0, member) : (double)NAN;
    mean = l->n > 0 ? lineage_value(l, l->n - 1, member) : (double)NAN;
    row->rung = l->n > 0 ? l->n - 1 : 0;
    row->value = look(r->study, dir, member, lineage_birth(l, row->rung, member),
                      lineage_step(r->study, row->rung), &row->failure);
    row->is_reached = !isnan(mean);
    if (!row->is_reached) {
        row->rung = 0;
        return;
    }
    if (row->value.mean != mean) /* or they continued since, and have other rows */
        row->value = seed_stats_of(&mean, 1);
}

/* The value of a key in a trial, or of pbt in its round. In the arena. */
static const char *setting_of(const struct study_report *r, size_t trial, size_t key,
                              struct arena *arena)
{
    const struct lineage *l = &r->lineage;

    if (r->study->method != STUDY_PBT)
        return study_value(r->study, trial, key, arena);
    return lineage_settings(l, l->n > 0 ? l->n - 1 : 0, trial)[key];
}

/* Whether the study's method compares trials at several steps. */
static int has_steps(const struct study *s)
{
    return s->method == STUDY_ASHA || s->method == STUDY_PBT;
}

/* The step at which the row's trial, which has reached one, has its value. */
static uint64_t step_of(const struct study *s, const struct study_row *row)
{
    return s->method == STUDY_PBT ? lineage_step(s, row->rung) : s->rungs[row->rung];
}

/* Puts the trials of one rung, best first, at *to, and advances it. */
static void put_rung(const struct study_report *r, size_t rung, int is_reached,
                     struct study_row **to)
{
    double *value = xcalloc(r->n + 1, sizeof(*value));
    size_t *at = xcalloc(r->n + 1, sizeof(*at)), *rank = xcalloc(r->n + 1, sizeof(*rank));
    size_t n = 0;

    for (size_t i = 0; i < r->n; i++) {
        if (r->row[i].is_reached != is_reached || r->row[i].rung != rung)
            continue;
        value[n] = r->row[i].value.mean;
        at[n++] = i;
    }
    halving_rank(value, n, r->study->is_max, rank);
    for (size_t i = 0; i < n; i++)
        *(*to)++ = r->row[at[rank[i]]];
    free(rank);
    free(at);
    free(value);
}

int study_report_make(struct study_report *ret, const struct study *study,
                      const char *dir, struct err *err)
{
    const int is_pbt = study->method == STUDY_PBT;
    struct study_row *sorted, *to;
    int rc;

    *ret = (struct study_report){.study = study, .n = study->trials};
    rc = is_pbt ? lineage_read(&ret->lineage, study, dir, err) : 0;
    if (rc < 0)
        return rc;
    ret->name = run_dir_name_of(dir);
    ret->row = xcalloc(study->trials + 1, sizeof(*ret->row));
    ret->first = xcalloc(study->trials + 1, sizeof(double));
    for (size_t i = 0; i < study->trials; i++) {
        if (is_pbt)
            read_member(ret, dir, i);
        else
            read_trial(ret, dir, i);
    }
    sorted = to = xcalloc(study->trials + 1, sizeof(*sorted));
    for (size_t k = is_pbt ? ret->lineage.n : study_n_rungs(study); k > 0; k--)
        put_rung(ret, k - 1, 1, &to);
    put_rung(ret, 0, 0, &to);
    free(ret->row);
    ret->row = sorted;
    return 0;
}

void study_report_done(struct study_report *r)
{
    lineage_done(&r->lineage);
    for (size_t i = 0; i < r->n; i++)
        free(r->row[i].failure);
    free(r->row);
    free(r->first);
    free(r->name);
    *r = (struct study_report){0};
}

/* ---- the effect of a key ---- */

/* The mean rank of v among n sorted values. */
static double rank_of(const double *sorted, size_t n, double v)
{
    size_t below = 0, same = 0;

    for (size_t i = 0; i < n; i++) {
        below += sorted[i] < v;
        same += sorted[i] == v;
    }
    return (double)below + ((double)same + 1) / 2;
}

/* Spearman's correlation of n pairs; NaN: one of the two is constant. */
static double rank_correlation(const double *x, const double *y, size_t n)
{
    double *sx = xcalloc(n + 1, sizeof(*sx)), *sy = xcalloc(n + 1, sizeof(*sy));
    double xy = 0, xx = 0, yy = 0;
    const double mean = ((double)n + 1) / 2;

    memcpy(sx, x, n * sizeof(*x));
    memcpy(sy, y, n * sizeof(*y));
    qsort(sx, n, sizeof(*sx), seed_stats_order);
    qsort(sy, n, sizeof(*sy), seed_stats_order);
    for (size_t i = 0; i < n; i++) {
        const double a = rank_of(sx, n, x[i]) - mean, b = rank_of(sy, n, y[i]) - mean;

        xy += a * b;
        xx += a * a;
        yy += b * b;
    }
    free(sy);
    free(sx);
    return xx > 0 && yy > 0 ? xy / sqrt(xx * yy) : (double)NAN;
}

/* Whether a key's values are placed as numbers: all of its choices are, or it has a range. */
static int is_numeric(const struct study_key *k)
{
    for (size_t i = 0; i < k->n; i++) {
        char *end;
        const double v = strtod(k->choice[i], &end);

        if (*end != '\0' || end == k->choice[i] || !isfinite(v))
            return 0;
    }
    return 1;
}

/* Where a value of the key is placed: itself, or its index among the choices. */
static double place_of(const struct study_key *k, const char *text)
{
    size_t i = 0;

    if (is_numeric(k))
        return strtod(text, NULL);
    while (i < k->n && strcmp(text, k->choice[i]) != 0)
        i++;
    return (double)i;
}

/* The same for the key's value in a trial. */
static double position(const struct study *s, size_t trial, size_t key)
{
    struct arena arena = ARENA_ZERO;
    const double v = place_of(&s->key[key], study_value(s, trial, key, &arena));

    arena_done(&arena);
    return v;
}

/* The part of the variance of y that lies between the choices of a key, 0 to 1 (eta squared). x:
 * places. NaN: all y are equal. */
static double variance_share(const struct study_key *k, const double *x, const double *y,
                             size_t n)
{
    double mean = 0, total = 0, between = 0;

    for (size_t i = 0; i < n; i++)
        mean += y[i] / (double)n;
    for (size_t i = 0; i < n; i++)
        total += (y[i] - mean) * (y[i] - mean);
    for (size_t c = 0; c < k->n; c++) {
        const double place = place_of(k, k->choice[c]);
        double sum = 0;
        size_t have = 0;

        for (size_t i = 0; i < n; i++) {
            sum += x[i] == place ? y[i] - mean : 0;
            have += x[i] == place;
        }
        between += have > 0 ? sum * sum / (double)have : 0;
    }
    return total > 0 ? between / total : (double)NAN;
}

struct effect {
    double correlation; /* NaN: none */
    double share;       /* of a key with choices (variance_share); NaN: none */
    size_t n;           /* trials with a value */
};

static struct effect effect_of(const struct study_report *r, size_t key)
{
    double *x = xcalloc(r->n + 1, sizeof(*x)), *y = xcalloc(r->n + 1, sizeof(*y));
    struct effect e = {.correlation = (double)NAN, .share = (double)NAN};

    for (size_t i = 0; i < r->n; i++) {
        if (isnan(r->first[i]))
            continue;
        x[e.n] = position(r->study, i, key);
        y[e.n++] = r->first[i];
    }
    if (is_numeric(&r->study->key[key]) && e.n > 2)
        e.correlation = rank_correlation(x, y, e.n);
    if (r->study->key[key].n > 0 && e.n > 2)
        e.share = variance_share(&r->study->key[key], x, y, e.n);
    free(y);
    free(x);
    return e;
}

/* The mean over the trials with that choice; NaN: none has a value. */
static double mean_of_choice(const struct study_report *r, size_t key, const char *choice)
{
    double sum = 0;
    size_t n = 0;

    for (size_t i = 0; i < r->n; i++) {
        struct arena arena = ARENA_ZERO;

        if (!isnan(r->first[i]) &&
            strcmp(study_value(r->study, i, key, &arena), choice) == 0) {
            sum += r->first[i];
            n++;
        }
        arena_done(&arena);
    }
    return n > 0 ? sum / (double)n : (double)NAN;
}

/* ---- text ---- */

static int width_of(const struct study_report *r, size_t key)
{
    size_t width = strlen(study_key_short_name(&r->study->key[key]));

    for (size_t i = 0; i < r->n; i++) {
        struct arena arena = ARENA_ZERO;
        const size_t len = strlen(setting_of(r, i, key, &arena));

        width = len > width ? len : width;
        arena_done(&arena);
    }
    return (int)(width < CELL_BYTES ? width : CELL_BYTES);
}

static void print_row(const struct study_report *r, const struct study_row *row,
                      const int *width, FILE *f)
{
    const struct study *s = r->study;
    struct arena arena = ARENA_ZERO;

    (void)fprintf(f, "%5zu ", row->trial + 1);
    if (!row->is_reached)
        (void)fprintf(f, "%9s %17s", "-", "");
    else if (row->value.n > 1)
        (void)fprintf(f, "%9.4g [%7.4g %7.4g]", row->value.mean, row->value.low,
                      row->value.high);
    else
        (void)fprintf(f, "%9.4g %17s", row->value.mean, "");
    if (has_steps(s) && row->is_reached)
        (void)fprintf(f, "%10" PRIu64, step_of(s, row));
    else if (has_steps(s))
        (void)fprintf(f, "%10s", "-");
    if (s->method == STUDY_ASHA && row->is_reached)
        (void)fprintf(f, "%4zu of %zu", row->rung + 1, s->n_rungs);
    else if (s->method == STUDY_ASHA)
        (void)fprintf(f, "%9s", "-");
    for (size_t k = 0; k < s->n_keys; k++)
        (void)fprintf(f, "  %*.*s", width[k], CELL_BYTES,
                      setting_of(r, row->trial, k, &arena));
    (void)fputc('\n', f);
    arena_done(&arena);
}

static void print_effects(const struct study_report *r, FILE *f)
{
    const struct study *s = r->study;

    for (size_t k = 0; k < s->n_keys; k++) {
        const struct effect e = effect_of(r, k);

        if (e.n < 3 || (isnan(e.correlation) && s->key[k].n == 0))
            continue;
        (void)fprintf(f, "%s:", s->key[k].path);
        if (!isnan(e.correlation))
            (void)fprintf(f, " rank correlation %+.2f", e.correlation);
        if (!isnan(e.share))
            (void)fprintf(f, "%s variance share %.2f", isnan(e.correlation) ? "" : ",",
                          e.share);
        for (size_t i = 0; i < s->key[k].n; i++) {
            const double mean = mean_of_choice(r, k, s->key[k].choice[i]);

            if (!isnan(mean))
                (void)fprintf(f, "%s %s gives %.4g",
                              i > 0 || !isnan(e.correlation) || !isnan(e.share) ? ","
                                                                                : "",
                              s->key[k].choice[i], mean);
        }
        (void)fputc('\n', f);
    }
}

void study_report_print(const struct study_report *r, size_t rows, FILE *f)
{
    const struct study *s = r->study;
    int width[STUDY_MAX_KEYS];

    (void)fprintf(f, "trial     value %17s%s%s", s->n_seeds > 1 ? "95 % interval  " : "",
                  has_steps(s) ? "   at step" : "",
                  s->method == STUDY_ASHA ? "     rung" : "");
    for (size_t k = 0; k < s->n_keys; k++) {
        width[k] = width_of(r, k);
        (void)fprintf(f, "  %*s", width[k], study_key_short_name(&s->key[k]));
    }
    (void)fputc('\n', f);
    for (size_t i = 0; i < r->n && (rows == 0 || i < rows); i++)
        print_row(r, &r->row[i], width, f);
    if (rows > 0 && r->n > rows)
        (void)fprintf(f, "and %zu more: brood report %s\n", r->n - rows, r->name);
    for (size_t i = 0; i < r->n; i++)
        if (r->row[i].failure != NULL)
            (void)fprintf(f, "failed: %s\n", r->row[i].failure);
    if (s->method == STUDY_PBT && rows == 0)
        lineage_report_print(&r->lineage, f);
    print_effects(r, f);
}

/* ---- CSV and JSON ---- */

void study_report_print_csv(const struct study_report *r, FILE *f)
{
    const struct study *s = r->study;

    if (s->method == STUDY_PBT) {
        lineage_report_print_csv(&r->lineage, f);
        return;
    }
    (void)fputs("trial,value,low,high,seeds,rung", f);
    for (size_t k = 0; k < s->n_keys; k++) {
        (void)fputc(',', f);
        report_csv_text(s->key[k].path, f);
    }
    (void)fputc('\n', f);
    for (size_t i = 0; i < r->n; i++) {
        const struct study_row *row = &r->row[i];
        struct arena arena = ARENA_ZERO;

        (void)fprintf(f, "%zu", row->trial + 1);
        report_csv_number(row->value.mean, f);
        report_csv_number(row->value.low, f);
        report_csv_number(row->value.high, f);
        (void)fprintf(f, ",%zu,%zu", row->value.n, row->rung);
        for (size_t k = 0; k < s->n_keys; k++) {
            (void)fputc(',', f);
            report_csv_text(setting_of(r, row->trial, k, &arena), f);
        }
        (void)fputc('\n', f);
        arena_done(&arena);
    }
}

static void put_row(const struct study_report *r, const struct study_row *row,
                    struct json *j)
{
    const struct study *s = r->study;
    struct arena arena = ARENA_ZERO;

    json_object(j);
    json_put_u64(j, "trial", row->trial + 1);
    json_put_f64(j, "value", row->value.mean);
    json_put_f64(j, "low", row->value.low);
    json_put_f64(j, "high", row->value.high);
    if (s->method == STUDY_PBT)
        json_put_u64(j, "round", r->lineage.n);
    else
        json_put_u64(j, "rung", row->rung);
    json_put_known(j, "step", has_steps(s) && row->is_reached,
                   has_steps(s) ? step_of(s, row) : 0);
    json_put_str(j, "failure", row->failure);
    json_put_object(j, "settings");
    for (size_t k = 0; k < s->n_keys; k++)
        json_put_str(j, s->key[k].path, setting_of(r, row->trial, k, &arena));
    json_close(j);
    json_close(j);
    arena_done(&arena);
}

void study_report_put_best(const struct study_report *r, struct json *j)
{
    json_key(j, "best");
    if (r->n == 0 || !r->row[0].is_reached)
        json_null(j);
    else
        put_row(r, &r->row[0], j);
}

void study_report_put(const struct study_report *r, struct json *j)
{
    static const char *const methods[] = {[STUDY_GRID] = "grid",
                                          [STUDY_RANDOM] = "random",
                                          [STUDY_ASHA] = "asha",
                                          [STUDY_PBT] = "pbt"};
    static const char *const values[] = {[STUDY_CHOICE] = "choice",
                                         [STUDY_UNIFORM] = "uniform",
                                         [STUDY_LOG_UNIFORM] = "log_uniform",
                                         [STUDY_INT] = "int"};
    const struct study *s = r->study;

    json_object(j);
    json_put_str(j, "study", r->name);
    json_put_str(j, "method", methods[s->method]);
    json_put_str(j, "metric", s->column);
    json_put_bool(j, "higher_is_better", s->is_max);
    json_put_u64(j, "seeds", s->n_seeds);
    if (s->method == STUDY_PBT) {
        json_put_u64(j, "rounds", s->pbt.rounds);
        json_put_u64(j, "rounds_over", r->lineage.n);
    }
    study_report_put_best(r, j);
    json_put_array(j, "trials");
    for (size_t i = 0; i < r->n; i++)
        put_row(r, &r->row[i], j);
    json_close(j);
    if (r->study->method == STUDY_PBT)
        lineage_report_put(&r->lineage, j);
    json_put_object(j, "search");
    for (size_t k = 0; k < s->n_keys; k++)
        json_put_str(j, s->key[k].path, values[s->key[k].values]);
    json_close(j);
    json_put_object(j, "rank_correlation");
    for (size_t k = 0; k < s->n_keys; k++)
        json_put_f64(j, s->key[k].path, effect_of(r, k).correlation);
    json_close(j);
    json_put_object(j, "variance_share");
    for (size_t k = 0; k < s->n_keys; k++)
        json_put_f64(j, s->key[k].path, effect_of(r, k).share);
    json_close(j);
    json_close(j);
}

void study_report_print_json(const struct study_report *r, FILE *f)
{
    struct json j = {0};

    study_report_put(r, &j);
    json_print(&j, f);
}

/* ---- SVG ---- */

/* Of the settings of a key or, behind the last one, of the values. */
static struct svg_axis axis_of(const struct study_report *r, size_t key)
{
    struct svg_axis a = SVG_AXIS(HEIGHT - BOTTOM, TOP);

    a.is_log = key < r->study->n_keys && r->study->key[key].values == STUDY_LOG_UNIFORM;
    for (size_t i = 0; i < r->n; i++)
        svg_axis_take(&a, key < r->study->n_keys
                              ? position(r->study, r->row[i].trial, key)
                              : r->row[i].value.mean);
    return a;
}

static void put_text(FILE *f, double x, double y, const char *text)
{
    (void)fprintf(f, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">", x, y);
    svg_escaped(f, text);
    (void)fputs("</text>\n", f);
}

static void put_axis(const struct study_report *r, size_t key, const struct svg_axis *a,
                     double x, FILE *f)
{
    const struct study_key *k = key < r->study->n_keys ? &r->study->key[key] : NULL;
    const int is_scale = k == NULL || is_numeric(k);
    char text[64];

    (void)fprintf(f, "<path d=\"M%.1f %dV%d\" stroke=\"#888\" fill=\"none\"/>\n", x, TOP,
                  HEIGHT - BOTTOM);
    put_text(f, x, HEIGHT - BOTTOM + 40, k != NULL ? study_key_short_name(k) : "value");
    for (int i = 0; i < 2 && is_scale && a->high >= a->low; i++) {
        (void)snprintf(text, sizeof(text), "%.4g", i == 0 ? a->low : a->high);
        put_text(f, x, i == 0 ? HEIGHT - BOTTOM + 18 : TOP - 10, text);
    }
    for (size_t i = 0; !is_scale && i < k->n; i++)
        put_text(f, x, svg_axis_at(a, (double)i) + 4, k->choice[i]);
}

/* Puts the line of a trial: from grey, the last in the order of the report, to blue, the first.
 * Values at an earlier rung are not compared with those at a later one. */
static void put_line(const struct study_report *r, size_t i, const struct svg_axis *axis,
                     double step, FILE *f)
{
    const struct study_row *row = &r->row[i];
    const double part = 1 - (double)i / (double)r->n;
    const size_t n = r->study->n_keys;

    if (!row->is_reached)
        return;
    (void)fprintf(f,
                  "<path fill=\"none\" "
                  "stroke=\"rgb(%.0f,%.0f,%.0f)\" stroke-width=\"%.1f\" d=\"",
                  200 - 180 * part, 200 - 80 * part, 200 + 10 * part, 1 + 1.5 * part);
    for (size_t k = 0; k <= n; k++) {
        const double v = k < n ? position(r->study, row->trial, k) : row->value.mean;

        (void)fprintf(f, "%c%.1f %.1f", k == 0 ? 'M' : 'L', LEFT + (double)k * step,
                      svg_axis_at(&axis[k], v));
    }
    (void)fprintf(f, "\"><title>%zu: %.4g</title></path>\n", row->trial + 1,
                  row->value.mean);
}

/* ---- SVG: each key alone ---- */

enum { PER_ROW = 3, PANEL_WIDTH = WIDTH / PER_ROW, PANEL_HEIGHT = 200, EDGE = 40 };

/* Puts the ends of the range, or the choices, below the frame, and the mean of each
 * choice as a bar. */
static void put_scale(const struct study_report *r, size_t key, const struct svg_axis *x,
                      const struct svg_axis *y, FILE *f)
{
    const struct study_key *k = &r->study->key[key];
    const int is_scale = is_numeric(k);

    for (int i = 0; i < 2 && is_scale && x->high > x->low; i++) {
        char text[64];

        (void)snprintf(text, sizeof(text), "%.4g", i == 0 ? x->low : x->high);
        put_text(f, i == 0 ? x->from : x->to, y->from + 16, text);
    }
    for (size_t i = 0; !is_scale && i < k->n; i++)
        put_text(f, svg_axis_at(x, (double)i), y->from + 16, k->choice[i]);
    for (size_t i = 0; i < k->n; i++) {
        const double at = svg_axis_at(x, place_of(k, k->choice[i]));
        const double mean = mean_of_choice(r, key, k->choice[i]);
        const double height = svg_axis_at(y, mean);

        if (!isnan(mean))
            (void)fprintf(f,
                          "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" "
                          "stroke=\"#d55e00\" "
                          "stroke-width=\"2\"/>\n",
                          at - 9, height, at + 9, height);
    }
}

/* Puts the panel of one key: the values at the first rung over its settings. */
static void put_panel(const struct study_report *r, size_t key, FILE *f)
{
    const double left = (double)(key % PER_ROW) * PANEL_WIDTH + EDGE;
    const double top = HEIGHT + (double)(key / PER_ROW) * PANEL_HEIGHT + EDGE;
    struct svg_axis x = axis_of(r, key);
    struct svg_axis y = SVG_AXIS(top + PANEL_HEIGHT - 2 * EDGE, top);
    const double correlation = effect_of(r, key).correlation;
    char title[160];

    x.from = left;
    x.to = left + PANEL_WIDTH - 2 * EDGE;
    for (size_t i = 0; i < r->n; i++)
        svg_axis_take(&y, r->first[i]);
    (void)snprintf(title, sizeof(title), "%.100s",
                   study_key_short_name(&r->study->key[key]));
    if (!isnan(correlation))
        (void)snprintf(title + strlen(title), sizeof(title) - strlen(title),
                       " (rank correlation %+.2f)", correlation);
    put_text(f, (x.from + x.to) / 2, top - 10, title);
    (void)fprintf(f,
                  "<rect x=\"%.1f\" y=\"%.1f\" width=\"%d\" height=\"%d\" "
                  "fill=\"none\" stroke=\"#888\"/>\n",
                  left, top, PANEL_WIDTH - 2 * EDGE, PANEL_HEIGHT - 2 * EDGE);
    put_scale(r, key, &x, &y, f);
    for (int i = 0; i < 2 && y.high > y.low; i++) {
        (void)snprintf(title, sizeof(title), "%.4g", i == 0 ? y.low : y.high);
        put_text(f, left - EDGE / 2.0, i == 0 ? y.from - 4 : y.to + 4, title);
    }
    for (size_t i = 0; i < r->n; i++) {
        if (!isnan(r->first[i]))
            (void)fprintf(f,
                          "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3\" "
                          "fill=\"#0072b2\" "
                          "fill-opacity=\"0.6\"><title>%zu: %.4g</title></circle>\n",
                          svg_axis_at(&x, position(r->study, i, key)),
                          svg_axis_at(&y, r->first[i]), i + 1, r->first[i]);
    }
}

void study_report_print_svg(const struct study_report *r, FILE *f)
{
    const size_t rows = (r->study->n_keys + PER_ROW - 1) / PER_ROW;
    const int height = HEIGHT + (int)rows * PANEL_HEIGHT;
    const size_t n = r->study->n_keys;
    const double step = (WIDTH - 2.0 * LEFT) / (double)n;
    struct svg_axis axis[STUDY_MAX_KEYS + 1];

    if (r->study->method == STUDY_PBT) {
        lineage_report_print_svg(&r->lineage, f);
        return;
    }
    (void)fprintf(f,
                  "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" "
                  "font-family=\"sans-serif\" font-size=\"12\">\n<rect "
                  "width=\"%d\" height=\"%d\" fill=\"white\"/>\n",
                  WIDTH, height, WIDTH, height);
    for (size_t k = 0; k <= n; k++)
        axis[k] = axis_of(r, k);
    for (size_t i = r->n; i > 0; i--) /* the best on top */
        put_line(r, i - 1, axis, step, f);
    for (size_t k = 0; k <= n; k++)
        put_axis(r, k, &axis[k], LEFT + (double)k * step, f);
    for (size_t k = 0; k < n; k++)
        put_panel(r, k, f);
    (void)fputs("</svg>\n", f);
}
