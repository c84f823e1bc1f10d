#include "supervisor/diff/parting_internal.h"

#include "common/io/beneath.h"
#include "common/mem/xmalloc.h"
#include "common/text/scan.h"
#include "supervisor/diff/values.h"
#include "supervisor/metrics/progress.h"
#include "supervisor/proc/signals.h"
#include "supervisor/save/checkpoint_read.h"
#include "supervisor/store/store.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ROWS_AT_ONCE = 1 << 20 }; /* of logs, between looks at signals */

struct search {
    const struct parting_args *args;
    struct parting *ret;
    uint64_t *steps; /* [n] of the checkpoints that both have */
    size_t n;
    size_t n_equal; /* how many of them are equal, from the first on */
    int log[2];     /* -1: it is gone */
};

/* ---- what both kept ---- */

static int has_logs(const struct search *s)
{
    return s->log[HERE] >= 0 && s->log[THERE] >= 0;
}

/* Keeps the steps that both runs have. */
static int list_common(struct search *s, struct err *err)
{
    uint64_t *a = NULL, *b = NULL;
    size_t n_a = 0, n_b = 0;
    int rc =
        checkpoint_list(run_dir_file(s->args->dir[HERE], "checkpoints"), &a, &n_a, err);

    if (rc == 0)
        rc = checkpoint_list(run_dir_file(s->args->dir[THERE], "checkpoints"), &b, &n_b,
                             err);
    s->steps = xcalloc(n_a + 1, sizeof(*s->steps));
    for (size_t i = 0, k = 0; rc == 0 && i < n_a && k < n_b; i++) {
        while (k < n_b && b[k] < a[i])
            k++;
        if (k < n_b && a[i] == b[k] && a[i] <= s->args->until)
            s->steps[s->n++] = a[i];
    }
    free(a);
    free(b);
    return rc;
}

/* Returns 1 if the checkpoints of a step differ, and where. */
static int compare_snapshots(const struct search *s, const struct snapshot *a,
                             const struct snapshot *b, uint64_t step)
{
    struct parting *p = s->ret;
    struct values_part part;

    for (size_t i = 0; i < a->n; i++) {
        const struct checkpoint_block *x = &a->block[i];
        const size_t k = snapshot_find(b, x->agent);
        const struct checkpoint_block *y = &b->block[k];
        const struct block_table *t = &x->section.table;
        const int is_there = a->n == b->n && k < b->n;
        const int fits =
            is_there && agent_section_fits(&y->section, t, x->section.block_bytes);

        if (fits && !values_compare(&part, t, x->bytes, y->bytes))
            continue;
        parting_found(p, PARTING_CHECKPOINT, step, x->agent, NULL);
        if (fits)
            parting_found_values(p, t, &part);
        else
            (void)err_set(&p->incomparable, ERR_UNSUPPORTED, "%s %s in %s than in %s",
                          is_there ? x->agent : "there are",
                          is_there ? "has other variables" : "other processes",
                          run_dir_name(s->args->dir[HERE]),
                          run_dir_name(s->args->dir[THERE]));
        return 1;
    }
    return 0;
}

static int compare_checkpoints(const struct search *s, uint64_t step, struct err *err)
{
    struct snapshot a = {0}, b = {0};
    int rc = snapshot_load(&a, s->args->dir[HERE], step, err);

    if (rc == 0)
        rc = snapshot_load(&b, s->args->dir[THERE], step, err);
    if (rc == 0)
        rc = compare_snapshots(s, &a, &b, step);
    snapshot_done(&a);
    snapshot_done(&b);
    return rc;
}

/* Between pieces of work that no training run does, which reads the signals itself. */
static int check_stop(struct err *err)
{
    return stop_signal_is_pending() ? err_set(err, ERR_INTERRUPTED, "interrupted") : 0;
}

/* Finds the first checkpoint that differs. One that cannot be read, or is dropped meanwhile, is
 * left out. */
static int bisect(struct search *s, struct err *err)
{
    size_t low = 0, high = s->n;

    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        struct err why = {0};
        int rc = check_stop(&why);

        if (rc == 0)
            rc = compare_checkpoints(s, s->steps[middle], &why);
        if (rc < 0) {
            if (parting_ends_by(rc))
                return err_pass(err, &why);
            s->args->on_skipped(s->args->ctx, why.msg);
            memmove(s->steps + middle, s->steps + middle + 1,
                    (--s->n - middle) * sizeof(*s->steps));
            high--;
        } else if (rc == 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    s->n_equal = low;
    if (low > 0) {
        s->ret->has_equal = 1;
        s->ret->equal = s->steps[low - 1];
    }
    return 0;
}

/* Takes the first row in which the logs differ, if that is before what was found. */
static int compare_logs(struct search *s, struct err *err)
{
    struct store_difference d;
    struct err why = {0};
    int rc = 0;

    for (int i = HERE; i <= THERE; i++) {
        const char *path = run_dir_file(s->args->dir[i], "experience");

        s->log[i] = beneath_open(path, O_RDONLY, 0);
        if (s->log[i] < 0 && errno != ENOENT)
            return err_errno(err, "%s", path);
    }
    if (!has_logs(s))
        return 0;
    for (uint64_t from = 0; rc == 0 && from < s->args->until; from += ROWS_AT_ONCE) {
        const uint64_t left = s->args->until - from;

        rc = check_stop(&why);
        if (rc == 0)
            rc = store_find_difference(&d, s->log[HERE], s->log[THERE], from,
                                       from + (left < ROWS_AT_ONCE ? left : ROWS_AT_ONCE),
                                       &why);
    }
    if (rc == ERR_UNSUPPORTED || rc == ERR_FORMAT) {
        if (s->ret->incomparable.code == 0)
            s->ret->incomparable = why;
        return 0;
    }
    if (rc < 0)
        return err_pass(err, &why);
    if (rc > 0 && (s->ret->kind == PARTING_NONE || d.row < s->ret->step))
        parting_found_row(s->ret, s->args->copies[HERE], &d);
    return 0;
}

/* Takes the first value of training that differs in a row. */
static int compare_row(const struct search *s, const struct progress *a,
                       const struct progress *b, size_t row)
{
    for (size_t c = 0; c < progress_n_columns(a); c++) {
        const char *name = progress_name(a, c);
        const size_t k = progress_find(b, name);
        const double here = progress_value(a, row, c);
        double there;

        if (k == progress_n_columns(b) ||
            (text_after(name, "rollout/") == NULL && text_after(name, "train/") == NULL))
            continue;
        there = progress_value(b, row, k);
        if (here == there || (isnan(here) && isnan(there)))
            continue;
        parting_found(s->ret, PARTING_METRIC, (uint64_t)progress_steps(a, row), NULL,
                      name);
        s->ret->here = here;
        s->ret->there = there;
        return 1;
    }
    return 0;
}

/* In place of a log that is gone. Rows are compared as far as they are of equal steps. */
static void compare_metrics(const struct search *s)
{
    struct progress *p[2] = {NULL, NULL};
    const uint64_t end = s->ret->kind != PARTING_NONE ? s->ret->step : s->args->until + 1;
    size_t n = 0, i = 0;

    for (int k = HERE; k <= THERE; k++)
        (void)progress_read(&p[k], run_dir_file(s->args->dir[k], "metrics/progress.csv"),
                            NULL);
    if (p[HERE] != NULL && p[THERE] != NULL)
        n = progress_n_rows(p[HERE]) < progress_n_rows(p[THERE])
                ? progress_n_rows(p[HERE])
                : progress_n_rows(p[THERE]);
    while (i < n && progress_steps(p[HERE], i) == progress_steps(p[THERE], i) &&
           progress_steps(p[HERE], i) < (double)end &&
           !compare_row(s, p[HERE], p[THERE], i))
        i++;
    progress_free(p[HERE]);
    progress_free(p[THERE]);
}

/* ---- the search ---- */

/* The number of equal checkpoints that what was found may come from. */
static size_t n_equal_before(const struct search *s)
{
    const struct parting *p = s->ret;
    size_t n = s->n_equal;

    while (n > 0 && (s->steps[n - 1] > p->step ||
                     (p->kind != PARTING_ROW && s->steps[n - 1] == p->step)))
        n--;
    return n;
}

/* Narrows down what both kept by replays from the newest equal checkpoint that it may come from. */
static int replay_both(struct search *s, struct err *err)
{
    struct parting *p = s->ret;
    const int is_row = p->kind == PARTING_ROW;
    const uint64_t copies = s->args->copies[HERE];
    size_t n = n_equal_before(s);
    int rc = 0;

    /* The weights that a run begins with come before everything. */
    p->is_first = p->kind == PARTING_CHECKPOINT && p->step == 0;
    if (n > 0)
        rc = replays_narrow(s->args, s->steps[has_logs(s) ? n - 1 : 0],
                            p->step + (is_row ? copies : 0), p, err);
    /* A row from before the oldest one: does that one have the rows of its run's log? */
    else if (is_row && s->n_equal > 0 && s->steps[0] + copies <= s->args->until)
        rc = replays_narrow(s->args, s->steps[0], s->steps[0] + copies, p, err);
    /* Replays of runs whose logs are gone may have found an earlier difference. */
    n = n_equal_before(s);
    p->has_equal = n > 0;
    p->equal = n > 0 ? s->steps[n - 1] : 0;
    return rc;
}

static int search(struct search *s, struct err *err)
{
    const uint64_t *copies = s->args->copies;
    struct parting *p = s->ret;
    int rc = list_common(s, err);

    if (rc == 0 && copies[HERE] != copies[THERE]) {
        (void)err_set(&p->incomparable, ERR_UNSUPPORTED,
                      "a round has %" PRIu64 " rows in %s and %" PRIu64
                      " in %s (env.copies)",
                      copies[HERE], run_dir_name(s->args->dir[HERE]), copies[THERE],
                      run_dir_name(s->args->dir[THERE]));
        return 0;
    }
    if (rc == 0)
        rc = bisect(s, err);
    if (rc == 0)
        rc = compare_logs(s, err);
    if (rc < 0)
        return rc;
    if (p->incomparable.code == 0 && !has_logs(s))
        compare_metrics(s);
    return p->kind == PARTING_NONE || p->incomparable.code != 0 ? 0 : replay_both(s, err);
}

int parting_find(const struct parting_args *args, struct parting *ret, struct err *err)
{
    struct search s = {.args = args, .ret = ret, .log = {-1, -1}};
    int rc;

    *ret = (struct parting){0};
    rc = search(&s, err);
    for (int i = HERE; i <= THERE; i++)
        if (s.log[i] >= 0)
            (void)close(s.log[i]);
    free(s.steps);
    if (rc < 0)
        parting_done(ret);
    return rc;
}
