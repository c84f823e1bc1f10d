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

static void put_number(double v, struct json *j)
{
    char text[40];

    if (!isfinite(v)) {
        json_null(j);
        return;
    }
    (void)snprintf(text, sizeof(text), "%.*g", SHOWN_DIGITS, v);
    json_raw(j, text, strlen(text));
}

/* Puts the two values that a column keeps of the rows from begin to end. */
static void put_range(const struct progress *p, size_t column, size_t begin, size_t end,
                      struct json *j)
{
    double low = (double)NAN, high = (double)NAN;
    size_t low_at = end, high_at = end;

    for (size_t i = begin; i < end; i++) {
        const double v = progress_value(p, i, column);

        if (isnan(v))
            continue;
        if (isnan(low) || v < low) {
            low = v;
            low_at = i;
        }
        if (isnan(high) || v > high) {
            high = v;
            high_at = i;
        }
    }
    put_number(low_at < high_at ? low : high, j);
    put_number(low_at < high_at ? high : low_at > high_at ? low : (double)NAN, j);
}

static size_t range_begin(size_t n_rows, size_t i)
{
    return n_rows * i / THIN_RANGES;
}

static void put_column(const struct progress *p, size_t column, struct json *j)
{
    const size_t n = progress_n_rows(p);

    json_array(j);
    for (size_t i = 0; n <= 2 * THIN_RANGES && i < n; i++)
        put_number(progress_value(p, i, column), j);
    for (size_t i = 0; n > 2 * THIN_RANGES && i < THIN_RANGES; i++)
        put_range(p, column, range_begin(n, i), range_begin(n, i + 1), j);
    json_close(j);
}

static void put_steps(const struct progress *p, struct json *j)
{
    const size_t n = p != NULL ? progress_n_rows(p) : 0;

    json_put_array(j, "steps");
    for (size_t i = 0; n <= 2 * THIN_RANGES && i < n; i++)
        json_u64(j, (uint64_t)progress_steps(p, i));
    for (size_t i = 0; n > 2 * THIN_RANGES && i < THIN_RANGES; i++) {
        json_u64(j, (uint64_t)progress_steps(p, range_begin(n, i)));
        json_u64(j, (uint64_t)progress_steps(p, range_begin(n, i + 1) - 1));
    }
    json_close(j);
}

void thin_curves_put(const struct progress *p, struct json *j)
{
    const size_t n = p != NULL ? progress_n_columns(p) : 0;
    size_t *kept = xcalloc(THIN_COLUMNS, sizeof(*kept)), n_kept = 0;

    for (size_t c = 0; c < n; c++)
        if (is_wanted(p, c, kept, n_kept))
            kept[n_kept++] = c;
    json_object(j);
    put_steps(p, j);
    json_put_array(j, "names");
    for (size_t i = 0; i < n_kept; i++)
        json_str(j, progress_name(p, kept[i]));
    json_close(j);
    json_put_array(j, "columns");
    for (size_t i = 0; i < n_kept; i++)
        put_column(p, kept[i], j);
    json_close(j);
    json_put_u64(j, "left_out", n > 0 ? n - 1 - n_kept : 0);
    json_close(j);
    free(kept);
}
