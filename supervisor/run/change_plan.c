#include "supervisor/run/change_plan.h"

#include "common/config/staircase.h"
#include "common/mem/xmalloc.h"
#include "common/text/scan.h"
#include "supervisor/run/live_changes.h"
#include "supervisor/run/trial.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

void change_plan_done(struct change_plan *p)
{
    for (size_t i = 0; i < p->n; i++)
        free(p->list[i].set.path);
    free(p->list);
    *p = (struct change_plan){0};
}

/* Takes c->set.path. */
static void insert(struct change_plan *p, const struct planned_change *c)
{
    size_t i = p->n;

    while (i > 0 && p->list[i - 1].at > c->at)
        i--;
    ARRAY_GROW(p->list, p->n, p->cap);
    memmove(p->list + i + 1, p->list + i, (p->n - i) * sizeof(*p->list));
    p->list[i] = *c;
    p->n++;
}

/* Ends schedules of the key before the step. */
static void end_schedules(struct change_plan *p, const char *path, uint64_t at)
{
    for (size_t i = p->n; i > 0 && p->list[i - 1].at >= at; i--) {
        const struct config_setting *set = &p->list[i - 1].set;

        if (set->schedule.over > 0 && strcmp(set->path, path) == 0)
            change_plan_remove(p, i - 1);
    }
}

/* Returns the first step after `at` for which the key has another value; UINT64_MAX if
 * there is none. */
static uint64_t next_of(const struct change_plan *p, const char *path, uint64_t at)
{
    for (size_t i = 0; i < p->n; i++)
        if (p->list[i].at > at && strcmp(p->list[i].set.path, path) == 0)
            return p->list[i].at;
    return UINT64_MAX;
}

static void add_schedule(struct change_plan *p, uint64_t at,
                         const struct config_setting *set, uint64_t number)
{
    const uint64_t end = next_of(p, set->path, at);
    int is_first = 1;

    for (uint64_t next; at != 0 || is_first; at = next, is_first = 0) {
        struct planned_change c = {at, number, CHANGE_BEGINS, config_setting_copy(set)};

        next = staircase_next(set->field, &set->schedule, at);
        if (next >= end)
            next = 0;
        if (next == 0)
            c.part = CHANGE_ENDS;
        else if (!is_first)
            c.part = CHANGE_MIDWAY;
        staircase_value(set->field, &set->schedule, at, &c.set.value);
        insert(p, &c);
    }
}

void change_plan_add(struct change_plan *p, uint64_t at, const struct config_setting *set)
{
    const uint64_t number = p->n_requests++;

    end_schedules(p, set->path, at);
    if (set->schedule.over > 0)
        add_schedule(p, at, set, number);
    else
        insert(p, &(struct planned_change){at, number, CHANGE_WHOLE,
                                           config_setting_copy(set)});
}

void change_plan_add_all(struct change_plan *p, uint64_t at,
                         const struct config_settings *settings)
{
    for (size_t i = 0; i < settings->n; i++)
        change_plan_add(p, at, &settings->list[i]);
}

void change_plan_copy(struct change_plan *ret, const struct change_plan *p)
{
    *ret = (struct change_plan){.n_requests = p->n_requests};
    for (size_t i = 0; i < p->n; i++) {
        struct planned_change c = p->list[i];

        c.set = config_setting_copy(&c.set);
        insert(ret, &c);
    }
}

uint64_t change_plan_next(const struct change_plan *p)
{
    return p->n > 0 ? p->list[0].at : UINT64_MAX;
}

void change_plan_remove(struct change_plan *p, size_t i)
{
    free(p->list[i].set.path);
    p->n--;
    memmove(p->list + i, p->list + i + 1, (p->n - i) * sizeof(*p->list));
}

int change_plan_each_request(const struct change_plan *p,
                             int (*fn)(void *ctx, const struct planned_change *c),
                             void *ctx)
{
    const struct planned_change **first = xcalloc(p->n_requests + 1, sizeof(*first));
    int rc = 0;

    for (size_t i = 0; i < p->n; i++)
        if (first[p->list[i].number] == NULL)
            first[p->list[i].number] = &p->list[i];
    for (uint64_t k = 0; rc >= 0 && k < p->n_requests; k++)
        if (first[k] != NULL)
            rc = fn(ctx, first[k]);
    free(first);
    return rc < 0 ? rc : 0;
}

void change_plan_drop(struct change_plan *p, uint64_t step)
{
    while (p->n > 0 && p->list[0].at <= step)
        change_plan_remove(p, 0);
}

static void drop_keys(struct change_plan *p, int (*is_dropped)(const char *path))
{
    for (size_t i = p->n; i > 0; i--)
        if (is_dropped(p->list[i - 1].set.path))
            change_plan_remove(p, i - 1);
}

void change_plan_drop_lengths(struct change_plan *p)
{
    drop_keys(p, run_length_is_key);
}

static int is_output(const char *path)
{
    static const char *const keys[] = {"experience.keep",
                                       "evaluation.render",
                                       "evaluation.max_to_keep",
                                       "log.images",
                                       "log.histograms",
                                       "env.on_failure",
                                       NULL};

    return text_find(keys, path) >= 0;
}

void change_plan_drop_outputs(struct change_plan *p)
{
    drop_keys(p, is_output);
}

char *change_plan_cancel_after(struct change_plan *p, uint64_t step, int only_lengths)
{
    uint8_t *numbers = xcalloc(p->n_requests + 1, 1); /* 1: the request is in the text */
    struct xstream text;
    FILE *f = xstream_begin(&text);
    size_t n = 0;
    char *ret;

    for (size_t i = 0; i < p->n;) {
        const struct planned_change *c = &p->list[i];

        if (c->at <= step || (only_lengths && !run_length_is_key(c->set.path))) {
            i++;
            continue;
        }
        if (!numbers[c->number])
            (void)fprintf(f, "%s%s@%" PRIu64, n++ > 0 ? "," : "", c->set.path, c->at);
        numbers[c->number] = 1;
        change_plan_remove(p, i);
    }
    free(numbers);
    ret = xstream_end(&text);
    if (n > 0)
        return ret;
    free(ret);
    return NULL;
}

/* Whether change i is the last one of its step. */
static int ends_step(const struct change_plan *p, size_t i)
{
    return i + 1 == p->n || p->list[i + 1].at != p->list[i].at;
}

int change_plan_fold(const struct change_plan *p, uint64_t step,
                     const struct run_config *from, struct run_config *ret,
                     struct err *err)
{
    int rc = 0;

    run_config_copy(ret, from);
    for (size_t i = 0; rc == 0 && i < p->n && p->list[i].at <= step; i++) {
        run_config_set(ret, &p->list[i].set);
        if (ends_step(p, i))
            rc = run_config_check_live(ret, err);
    }
    if (rc < 0)
        run_config_done(ret);
    return rc;
}

int change_plan_check(const struct change_plan *p, const struct run_config *from,
                      int (*check)(void *ctx, const struct run_config *c,
                                   struct err *err),
                      void *ctx, struct err *err)
{
    struct run_config now;
    struct err why = {0};
    int rc = 0;

    run_config_copy(&now, from);
    for (size_t i = 0; i < p->n && rc == 0; i++) {
        run_config_set(&now, &p->list[i].set);
        if (ends_step(p, i) && check(ctx, &now, &why) < 0)
            rc = err_set(err, ERR_CONFIG, "at step %" PRIu64 ": %s", p->list[i].at,
                         why.msg);
    }
    run_config_done(&now);
    return rc;
}

struct run_length change_plan_length(const struct change_plan *p,
                                     const struct run_config *from, uint64_t step)
{
    struct run_length length = run_length_of(from);

    for (size_t i = 0; i < p->n && p->list[i].at <= step; i++)
        run_length_change(&length, &p->list[i].set);
    return length;
}

int change_plan_check_lengths(const struct change_plan *p, const struct run_config *from,
                              uint64_t next, uint64_t episodes, struct err *err)
{
    struct run_length was = run_length_of(from), is = was;
    struct err why = {0};

    for (size_t i = 0; i < p->n; i++) {
        run_length_change(&is, &p->list[i].set);
        if (!ends_step(p, i))
            continue;
        if (run_length_check(from, was, is, p->list[i].at, next, episodes, &why) < 0)
            return err_set(err, ERR_CONFIG, "%s: %s",
                           is.env_steps > 0 ? "run.env_steps" : "run.episodes", why.msg);
        was = is;
    }
    return 0;
}

int change_plan_from_config(struct change_plan *p, const struct run_config *c,
                            struct run_config *ret, struct err *err)
{
    struct run_config now;
    int rc = 0;

    run_config_copy(&now, c);
    for (size_t i = 0; rc == 0 && i < c->n_steps;) {
        const uint64_t at = c->steps[i].at;
        struct config_settings settings = {0};

        rc = run_config_step(&now, c->steps, c->n_steps, &i, &settings, err);
        if (rc == 0)
            rc = live_changes_check_rows(c, &now, "in a run that has begun", err);
        change_plan_add_all(p, at, &settings);
        config_settings_done(&settings);
    }
    run_config_done(&now);
    if (rc == 0)
        rc = trial_plan(c, p, err);
    if (rc == 0)
        return change_plan_fold(p, UINT64_MAX, c, ret, err);
    *ret = (struct run_config){0};
    return rc;
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
