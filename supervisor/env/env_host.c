#include "supervisor/env/env_host.h"

#include "common/err/check.h"
#include "common/mem/xmalloc.h"
#include "supervisor/env/external.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    MAX_TABLES = 4,   /* a run has two: for training and for evaluations */
    MAX_WARNINGS = 32 /* kinds that are reported */
};

struct env_host {
    struct env_host_args args;
    char *logs;
    struct agent_table *tables[MAX_TABLES];
    size_t n, n_stopped;
    int stopping, stopped, failed, inexact, has_limits;
    struct agent_limits limits;     /* with has_limits: of tables that are added, too */
    enum env_on_failure on_failure; /* likewise */
    struct env_failure *failures;   /* that are known, in the order of compare */
    size_t n_failures, failures_cap;
    char *warnings[MAX_WARNINGS]; /* the kinds so far */
    size_t n_warnings;
};

struct env_host *env_host_new(const struct env_host_args *args)
{
    struct env_host *h = xcalloc(1, sizeof(*h));

    h->args = *args;
    h->logs = args->logs != NULL ? xstrdup(args->logs) : NULL;
    h->args.logs = h->logs;
    return h;
}

void env_host_free(struct env_host *h)
{
    if (h == NULL)
        return;
    free(h->logs);
    free(h->failures);
    for (size_t i = 0; i < h->n_warnings; i++)
        free(h->warnings[i]);
    free(h);
}

const struct env_host_args *env_host_args(const struct env_host *h)
{
    return &h->args;
}

static void limit(const struct env_host *h, struct agent_table *t)
{
    for (size_t i = 0; i < agent_table_count(t); i++)
        agent_table_set_limits(t, i, &h->limits);
}

int env_host_add(struct env_host *h, struct agent_table *processes, struct err *err)
{
    if (h->stopping)
        return err_set(err, ERR_STATE, "the environments are stopping");
    CHECK(h->n < MAX_TABLES);
    h->tables[h->n++] = processes;
    if (h->has_limits)
        limit(h, processes);
    return 0;
}

void env_host_on_failed(struct env_host *h, const struct err *why)
{
    if (h->failed || h->stopping)
        return;
    h->failed = 1;
    h->args.on_failed(h->args.ctx, why);
}

void env_host_on_inexact(struct env_host *h, const char *line)
{
    h->inexact = 1;
    h->args.on_inexact(h->args.ctx, line);
}

int env_host_is_exact(const struct env_host *h)
{
    return !h->inexact;
}

static void stopped(struct env_host *h)
{
    if (h->n_stopped < h->n || h->stopped)
        return;
    h->stopped = 1;
    h->args.on_stopped(h->args.ctx);
}

void env_host_on_stopped(struct env_host *h)
{
    h->n_stopped++;
    if (h->stopping)
        stopped(h);
}

void env_host_stop(struct env_host *h, uint64_t deadline_ms)
{
    h->stopping = 1;
    for (size_t i = 0; i < h->n; i++)
        agent_table_stop(h->tables[i], deadline_ms);
    stopped(h);
}

/* Returns the table that has the process; *process becomes its index in that table. */
static struct agent_table *env_host_find(const struct env_host *h, size_t *process)
{
    for (size_t i = 0; i < h->n; i++) {
        if (*process < agent_table_count(h->tables[i]))
            return h->tables[i];
        *process -= agent_table_count(h->tables[i]);
    }
    CHECK(0, "no such process");
    return NULL;
}

size_t env_host_count(const struct env_host *h)
{
    size_t n = 0;

    for (size_t i = 0; i < h->n; i++)
        n += agent_table_count(h->tables[i]);
    return n;
}

void env_host_info(const struct env_host *h, size_t process, struct agent_info *ret)
{
    struct agent_table *t = env_host_find(h, &process);

    agent_table_info(t, process, ret);
}

int env_host_kill(struct env_host *h, size_t process, struct err *err)
{
    struct agent_table *t = env_host_find(h, &process);

    return agent_table_kill(t, process, err);
}

int env_host_respawn(struct env_host *h, size_t process, struct err *err)
{
    struct agent_table *t = env_host_find(h, &process);

    return agent_table_respawn(t, process, err);
}

void env_host_set_limits(struct env_host *h, const struct env_config *config)
{
    h->limits = external_limits(config);
    h->on_failure = config->on_failure;
    h->has_limits = 1;
    for (size_t i = 0; i < h->n; i++)
        limit(h, h->tables[i]);
}

void env_host_on_warning(struct env_host *h, const char *process, const char *what,
                         const char *where)
{
    char line[512];

    for (size_t i = 0; i < h->n_warnings; i++)
        if (strcmp(h->warnings[i], what) == 0)
            return;
    if (h->n_warnings == MAX_WARNINGS || h->args.on_warning == NULL)
        return;
    h->warnings[h->n_warnings++] = xstrdup(what);
    (void)snprintf(line, sizeof(line), "%s (%s)", what, where);
    h->args.on_warning(h->args.ctx, process, line);
}

/* ---- episodes that fail ---- */

static int compare(const struct env_failure *a, const struct env_failure *b)
{
    if (a->seed != b->seed)
        return a->seed < b->seed ? -1 : 1;
    if (a->step != b->step)
        return a->step < b->step ? -1 : 1;
    return a->sum < b->sum ? -1 : a->sum > b->sum;
}

/* Returns the place of the first known failure that is not before *f. */
static size_t place_of(const struct env_host *h, const struct env_failure *f)
{
    size_t low = 0, high = h->n_failures;

    while (low < high) {
        const size_t middle = low + (high - low) / 2;

        if (compare(&h->failures[middle], f) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

int env_host_has_failures(const struct env_host *h)
{
    return h->n_failures > 0;
}

int env_host_is_known(const struct env_host *h, const struct env_failure *f)
{
    const size_t at = place_of(h, f);

    return at < h->n_failures && compare(&h->failures[at], f) == 0;
}

void env_host_add_failure(struct env_host *h, const struct env_failure *f)
{
    const size_t at = place_of(h, f);

    if (env_host_is_known(h, f))
        return;
    ARRAY_GROW(h->failures, h->n_failures, h->failures_cap);
    memmove(h->failures + at + 1, h->failures + at,
            (h->n_failures - at) * sizeof(*h->failures));
    h->failures[at] = *f;
    h->n_failures++;
}

void env_host_on_skipped(struct env_host *h, const struct env_skip *s)
{
    env_host_add_failure(h, &s->at);
    if (h->args.on_skipped != NULL)
        h->args.on_skipped(h->args.ctx, s);
}

int env_host_skips(const struct env_host *h, enum env_on_failure configured)
{
    return (h->has_limits ? h->on_failure : configured) == ENV_FAILURE_SKIPS_EPISODE;
}
