#include "supervisor/env/env_host.h"

#include "common/err/check.h"
#include "common/mem/xmalloc.h"
#include "supervisor/env/external.h"

#include <stdlib.h>

enum { MAX_TABLES = 4 }; /* a run has two: for training and for evaluations */

struct env_host {
    struct env_host_args args;
    char *logs;
    struct agent_table *tables[MAX_TABLES];
    size_t n, n_stopped;
    int stopping, stopped, failed, inexact, has_limits;
    struct agent_limits limits; /* with has_limits: of tables that are added, too */
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
static struct agent_table *find(const struct env_host *h, size_t *process)
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
    struct agent_table *t = find(h, &process);

    agent_table_info(t, process, ret);
}

int env_host_kill(struct env_host *h, size_t process, struct err *err)
{
    struct agent_table *t = find(h, &process);

    return agent_table_kill(t, process, err);
}

int env_host_respawn(struct env_host *h, size_t process, struct err *err)
{
    struct agent_table *t = find(h, &process);

    return agent_table_respawn(t, process, err);
}

void env_host_set_limits(struct env_host *h, const struct env_config *config)
{
    h->limits = external_limits(config);
    h->has_limits = 1;
    for (size_t i = 0; i < h->n; i++)
        limit(h, h->tables[i]);
}
