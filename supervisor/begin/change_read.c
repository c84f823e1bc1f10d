#include "supervisor/begin/change_read.h"

#include "common/mem/xmalloc.h"
#include "supervisor/begin/live_changes.h"
#include "supervisor/begin/trial.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static int check_rows(void *ctx, uint64_t at, const struct run_config *now,
                      struct err *err)
{
    (void)at;
    return live_changes_check_rows(ctx, now, "in a run that has begun", err);
}

int change_plan_from_config(struct change_plan *p, const struct run_config *c,
                            struct run_config *ret, struct err *err)
{
    int rc;

    *ret = (struct run_config){0};
    if (c->plan != NULL)
        change_plan_copy(p, c->plan);
    rc = change_plan_each_step(p, c, check_rows, (void *)(uintptr_t)c, err);
    if (rc == 0)
        rc = trial_plan(c, p, err);
    return rc < 0 ? rc : change_plan_fold(p, UINT64_MAX, c, ret, err);
}

/* ---- the journal ---- */

struct reading {
    struct change_plan *plan;
    const struct run_config *of;
    uint64_t from, line;
    size_t n, max; /* number of events read, and to read */
    struct err *err;
};

static int take_set(struct reading *r, uint64_t at, char *changes)
{
    char *rest = NULL;

    for (char *word = strtok_r(changes, ",", &rest); word != NULL;
         word = strtok_r(NULL, ",", &rest)) {
        struct config_setting set;
        struct err why = {0};

        if (config_setting_parse(&set, r->of, word, &why) < 0 && at < r->from)
            /* this build does not know the key any more, but the checkpoint has the
             * value */
            continue;
        if (why.code != 0)
            return err_set(r->err, ERR_CONFIG, "the journal's line %" PRIu64 ": %s",
                           r->line, why.msg);
        change_plan_add(r->plan, at, &set);
        free(set.path);
    }
    return 0;
}

/* Removes change i, and those after it of the same schedule. */
static void remove_rest(struct change_plan *p, size_t i)
{
    const uint64_t number = p->list[i].number;

    for (size_t k = p->n; k > i; k--)
        if (p->list[k - 1].number == number)
            change_plan_remove(p, k - 1);
}

/* changes: "KEY@STEP,KEY". Removes, for each KEY@STEP, the newest change of that key at
 * that step. A KEY alone waited for a respawn and is not in the plan. */
static int take_cancel(struct reading *r, char *changes)
{
    char *rest = NULL;

    for (char *word = strtok_r(changes, ",", &rest); word != NULL;
         word = strtok_r(NULL, ",", &rest)) {
        char *step = strchr(word, '@'), *end = NULL;
        uint64_t at;

        if (step == NULL)
            continue;
        *step++ = '\0';
        at = strtoull(step, &end, 10);
        if (end == step || *end != '\0')
            return ERR_FORMAT;
        for (size_t i = r->plan->n; i > 0; i--)
            if (r->plan->list[i - 1].at == at &&
                strcmp(r->plan->list[i - 1].set.path, word) == 0) {
                remove_rest(r->plan, i - 1);
                break;
            }
    }
    return 0;
}

static int take_event(void *ctx, uint64_t line, const struct run_event *e)
{
    struct reading *r = ctx;
    const int is_set = e->kind == RUN_EVENT_SET;
    char *changes;
    int rc = 0;

    if (!is_set && e->kind != RUN_EVENT_CANCEL)
        return 0;
    r->line = line;
    if ((is_set && e->change.at == MEMBER_NO_U64) || e->change.changes == NULL)
        return ERR_FORMAT;
    /* Changes before the checkpoint are read, but not counted: a schedule may continue
     * after it, or another value may have ended the schedule. */
    if (!(is_set && e->change.at < r->from) && r->n++ >= r->max)
        return 0;
    changes = xstrdup(e->change.changes);
    rc = is_set ? take_set(r, e->change.at, changes) : take_cancel(r, changes);
    free(changes);
    return rc;
}

/* Returns the first step whose changes the checkpoint does not have. A checkpoint is
 * written at the end of a round, before the changes that are due then: those of all
 * steps within the round. */
static uint64_t first_due(const struct run_config *of, uint64_t checkpoint)
{
    const uint64_t round = (uint64_t)of->env.copies;

    if (strcmp(of->env.id, "none") == 0)
        return checkpoint;
    return checkpoint >= round ? checkpoint - round + 1 : 0;
}

static int each_of_file(const void *from, journal_run_event_fn fn, void *ctx,
                        struct err *err)
{
    return journal_each_event(from, fn, ctx, err);
}

struct change_source change_source_of(const char *journal)
{
    return (struct change_source){each_of_file, journal, journal};
}

int change_plan_read(struct change_plan *p, const struct run_config *of,
                     const struct change_source *journal, uint64_t checkpoint,
                     size_t n_events, size_t *ret_n, struct err *err)
{
    struct reading r = {.plan = p,
                        .of = of,
                        .from = first_due(of, checkpoint),
                        .max = n_events,
                        .err = err};
    int rc = journal->each(journal->from, take_event, &r, err);

    if (r.from > 0)
        change_plan_drop(p, r.from - 1);
    if (ret_n != NULL)
        *ret_n = r.n;
    if (rc == ERR_FORMAT)
        return err_set_at(err, rc, ERR_AT(.file = journal->name, .line = (int)r.line),
                          "is no change of the configuration");
    return rc == ERR_NOT_FOUND ? 0 : rc;
}
