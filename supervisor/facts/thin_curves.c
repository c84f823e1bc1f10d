#include "supervisor/facts/thin_curves.h"

#include "common/mem/xmalloc.h"
#include "common/text/scan.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { SHOWN_DIGITS = 7 };

/* ---- which columns ---- */

/* Where a column's name has that of an agent: train/AGENT/loss, rollout/return/AGENT. Returns the
 * length of the part before it, and *ret_rest is what follows; 0: no agent is in it. */
static size_t agent_place(const char *name, const char **ret_rest)
{
    static const char *const prefixes[] = {"train/", "rollout/return/", "eval/return/"};

    for (size_t i = 0; i < sizeof(prefixes) / sizeof(prefixes[0]); i++) {
        const char *agent = text_after(name, prefixes[i]);

        if (agent == NULL)
            continue;
        *ret_rest = i == 0 ? strrchr(agent, '/') : "";
        return *ret_rest != NULL ? strlen(prefixes[i]) : 0;
    }
    return 0;
}

static int are_alike(const char *a, const char *b)
{
    const char *rest_a, *rest_b;
    const size_t n = agent_place(a, &rest_a);

    return n > 0 && n == agent_place(b, &rest_b) && strncmp(a, b, n) == 0 &&
           strcmp(rest_a, rest_b) == 0;
}

static int is_wanted(const struct progress *p, size_t column, const size_t *kept,
                     size_t n_kept)
{
    size_t alike = 0, row = 0;

    if (column == progress_find(p, "env_steps") || n_kept == THIN_COLUMNS)
        return 0;
    for (size_t i = 0; i < n_kept; i++)
        alike += are_alike(progress_name(p, kept[i]), progress_name(p, column));
    while (row < progress_n_rows(p) && isnan(progress_value(p, row, column)))
        row++;
    return alike < THIN_ALIKE && row < progress_n_rows(p);
}

/* ---- values ---- */

/* The two values that a column keeps of the rows from begin to end, in their order; NaN: none. */
static void find_ends(const struct progress *p, size_t column, size_t begin, size_t end,
                      double ret[2])
{
    size_t low = end, high = end;

    for (size_t i = begin; i < end; i++) {
        const double v = progress_value(p, i, column);

        if (isnan(v))
            continue;
        if (low == end || v < progress_value(p, low, column))
            low = i;
        if (high == end || v > progress_value(p, high, column))
            high = i;
    }
    ret[0] =
        low == end ? (double)NAN : progress_value(p, low < high ? low : high, column);
    ret[1] =
        low == high ? (double)NAN : progress_value(p, low < high ? high : low, column);
}

/* Prints two rows for those from begin to end, or their only one as it is. */
static void print_range(const struct progress *p, const size_t *kept, size_t n_kept,
                        size_t begin, size_t end, FILE *f)
{
    double(*ends)[2] = xcalloc(n_kept + 1, sizeof(*ends));

    for (size_t k = 0; k < n_kept; k++)
        find_ends(p, kept[k], begin, end, ends[k]);
    for (size_t i = 0; i < 2 && i < end - begin; i++) {
        (void)fprintf(f, "%.0f", progress_steps(p, i == 0 ? begin : end - 1));
        for (size_t k = 0; k < n_kept; k++) {
            (void)fputc(',', f);
            if (isfinite(ends[k][i]))
                (void)fprintf(f, "%.*g", SHOWN_DIGITS, ends[k][i]);
        }
        (void)fputc('\n', f);
    }
    free(ends);
}

static void print_table(const struct progress *p, FILE *f)
{
    const size_t n_rows = progress_n_rows(p);
    const size_t n = n_rows > 2 * THIN_RANGES ? THIN_RANGES : n_rows;
    size_t *kept = xcalloc(THIN_COLUMNS, sizeof(*kept)), n_kept = 0;

    for (size_t c = 0; c < progress_n_columns(p); c++)
        if (is_wanted(p, c, kept, n_kept))
            kept[n_kept++] = c;
    (void)fputs("env_steps", f);
    for (size_t k = 0; k < n_kept; k++)
        (void)fprintf(f, ",%s", progress_name(p, kept[k]));
    (void)fputc('\n', f);
    for (size_t i = 0; i < n; i++)
        print_range(p, kept, n_kept, n_rows * i / n, n_rows * (i + 1) / n, f);
    free(kept);
}

void thin_curves_put(const struct progress *p, struct json *j)
{
    struct xstream text;
    FILE *f = xstream_begin(&text);

    if (p != NULL)
        print_table(p, f);
    json_str(j, xstream_end(&text));
    free(text.text);
}
