#include "supervisor/begin/weights.h"

#include "common/config/team_name.h"
#include "common/io/tree.h"
#include "common/mem/xmalloc.h"
#include "supervisor/rundir/run_dir.h"
#include "supervisor/save/resume.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* How often the newest checkpoint is chosen again because that one was removed. */
enum { MAX_TRIES = 20 };

struct weights {
    char *dir;
    uint64_t step;
    size_t n;
    char **agents;                    /* [n] */
    struct checkpoint_values *values; /* [n] */
};

struct choosing {
    const char *dir, *step;
    uint64_t newest; /* the newest checkpoint, whose folder may be gone by now */
    void (*on_skipped)(void *ctx, const char *line);
    void *ctx;
};

static int is_gone(const struct choosing *c)
{
    return c->step == NULL && c->newest != UINT64_MAX &&
           !checkpoint_is_there(c->dir, c->newest);
}

static void on_skipped(void *ctx, const char *line)
{
    const struct choosing *c = ctx;

    if (!is_gone(c))
        c->on_skipped(c->ctx, line);
}

/* Takes the values. */
static void add(struct weights *w, const char *agent, struct checkpoint_values values)
{
    w->agents = xreallocarray(w->agents, w->n + 1, sizeof(*w->agents));
    w->values = xreallocarray(w->values, w->n + 1, sizeof(*w->values));
    w->agents[w->n] = xstrdup(agent);
    w->values[w->n++] = values;
}

static int read_agents(struct weights *w, struct err *err)
{
    char *path = checkpoint_path(w->dir, "", w->step);
    char **agents = NULL;
    size_t n = 0;
    int rc = checkpoint_agents(w->dir, w->step, &agents, &n, err);

    for (size_t i = 0; rc == 0 && i < n; i++) {
        struct checkpoint_values values;

        rc = checkpoint_load(&values, w->dir, w->step, agents[i], err);
        if (rc == 0)
            add(w, agents[i], values);
        else
            (void)err_wrap(err, "checkpoint %" PRIu64 ": %s", w->step, agents[i]);
    }
    checkpoint_agents_free(agents, n);
    if (rc == 0 && !tree_exists(path)) /* some folders may have been gone already */
        rc = err_set(err, -ESTALE, "%s was removed meanwhile", path);
    free(path);
    return rc;
}

static int try_load(struct weights **ret, struct choosing *c, struct err *err)
{
    struct weights *w = xcalloc(1, sizeof(*w));
    uint64_t *steps = NULL;
    size_t n = 0;
    int rc = checkpoint_list(c->dir, &steps, &n, err);

    w->dir = xstrdup(c->dir);
    c->newest = n > 0 ? steps[n - 1] : UINT64_MAX;
    free(steps);
    if (rc == 0)
        rc = resume_choose(&w->step, c->dir, c->step, on_skipped, c, err);
    if (rc == 0) {
        c->newest = w->step;
        rc = read_agents(w, err);
    }
    if (rc < 0)
        weights_free(w);
    else
        *ret = w;
    return rc;
}

int weights_load(struct weights **ret, const char *dir, const char *step,
                 void (*skipped)(void *ctx, const char *line), void *ctx, struct err *err)
{
    struct choosing c = {.dir = dir, .step = step, .on_skipped = skipped, .ctx = ctx};
    int rc = try_load(ret, &c, err);

    for (int i = 1; rc < 0 && is_gone(&c) && i < MAX_TRIES; i++)
        rc = try_load(ret, &c, err);
    return rc;
}

int weights_find(struct weights **ret, const char *runs_dir, const char *text,
                 const char *kept, void (*skipped)(void *ctx, const char *line),
                 void *ctx, struct err *err)
{
    const char *step;
    char *run = run_dir_split(text, &step), *path = NULL, *dir;
    int rc = run_dir_find(runs_dir, run, &path, kept != NULL ? NULL : err);

    free(run);
    if (rc < 0 && kept == NULL)
        return rc;
    dir = rc == 0 ? xasprintf("%s/checkpoints", path) : xstrdup(kept);
    rc = weights_load(ret, kept != NULL ? kept : dir, step, skipped, ctx, err);
    if (rc == 0) {
        free((*ret)->dir);
        (*ret)->dir = dir;
    } else {
        free(dir);
    }
    free(path);
    return rc;
}

void weights_free(struct weights *w)
{
    for (size_t i = 0; w != NULL && i < w->n; i++) {
        free(w->agents[i]);
        checkpoint_values_done(&w->values[i]);
    }
    if (w != NULL) {
        free(w->agents);
        free(w->values);
        free(w->dir);
    }
    free(w);
}

const char *weights_dir(const struct weights *w)
{
    return w->dir;
}

uint64_t weights_step(const struct weights *w)
{
    return w->step;
}

static size_t find(const struct weights *w, const char *agent)
{
    size_t i = 0;

    while (i < w->n && strcmp(w->agents[i], agent) != 0)
        i++;
    return i;
}

static int is_lower(const char *a, const char *b)
{
    return strlen(a) != strlen(b) ? strlen(a) < strlen(b) : strcmp(a, b) < 0;
}

int weights_add(struct weights *w, const char *agent, struct err *err)
{
    const size_t team = agent_team_length(agent);
    struct checkpoint_values values;
    size_t like = w->n;
    int rc;

    if (find(w, agent) < w->n)
        return 0;
    for (size_t i = 0; i < w->n; i++)
        if (agent_team_length(w->agents[i]) == team &&
            strncmp(w->agents[i], agent, team) == 0 &&
            (like == w->n || is_lower(w->agents[i], w->agents[like])))
            like = i;
    if (like == w->n)
        return err_set(err, ERR_NOT_FOUND,
                       "checkpoint %" PRIu64 " has no agent %s, and no other of its team",
                       w->step, agent);
    rc = checkpoint_values_copy(&values, &w->values[like], err);
    if (rc < 0)
        return rc;
    checkpoint_values_rename(&values, w->agents[like], agent);
    add(w, agent, values);
    return 0;
}

int weights_of(const struct weights *w, const char *agent,
               const struct checkpoint_values **ret, struct err *err)
{
    const size_t i = find(w, agent);

    if (i < w->n) {
        *ret = &w->values[i];
        return 0;
    }
    return err_set(err, ERR_NOT_FOUND, "checkpoint %" PRIu64 " has no agent %s", w->step,
                   agent);
}
