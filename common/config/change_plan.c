#include "common/config/change_plan.h"

#include "common/mem/xmalloc.h"

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
        struct planned_change c = {.at = at,
                                   .number = number,
                                   .part = CHANGE_BEGINS,
                                   .set = config_setting_copy(set)};

        next = schedule_next_stair(set->field, &set->schedule, at);
        if (next >= end)
            next = 0;
        if (next == 0)
            c.part = CHANGE_ENDS;
        else if (!is_first)
            c.part = CHANGE_MIDWAY;
        schedule_stair(set->field, &set->schedule, at, &c.set.value);
        insert(p, &c);
    }
}

void change_plan_add(struct change_plan *p, uint64_t at, const struct config_setting *set)
{
    const uint64_t number = p->n_requests++;

    /* schedules of the key end before the step */
    for (size_t i = p->n; i > 0 && p->list[i - 1].at >= at; i--) {
        const struct config_setting *other = &p->list[i - 1].set;

        if (other->schedule.over > 0 && strcmp(other->path, set->path) == 0)
            change_plan_remove(p, i - 1);
    }
    if (set->schedule.over > 0)
        add_schedule(p, at, set, number);
    else
        insert(p, &(struct planned_change){.at = at,
                                           .number = number,
                                           .part = CHANGE_WHOLE,
                                           .set = config_setting_copy(set)});
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

size_t change_plan_waiting(const struct change_plan *p)
{
    size_t i = p->n;

    while (i > 0 && p->list[i - 1].at == CHANGE_AT_RESPAWN)
        i--;
    return i;
}

int change_plan_wait(struct change_plan *p, const struct run_config *from,
                     const struct run_config *wanted, struct err *err)
{
    struct run_config planned;
    struct config_diff d;
    int rc = change_plan_fold(p, CHANGE_LAST_STEP, from, &planned, err);

    if (rc < 0)
        return rc;
    while (p->n > 0 && p->list[p->n - 1].at == CHANGE_AT_RESPAWN)
        change_plan_remove(p, p->n - 1);
    run_config_diff(&d, &planned, wanted, 0);
    for (size_t i = 0; i < d.n; i++)
        if (d.list[i].kind == CHANGE_RESPAWN)
            insert(p, &(struct planned_change){.at = CHANGE_AT_RESPAWN,
                                               .agent = d.list[i].agent,
                                               .part = CHANGE_WHOLE,
                                               .set = config_change_setting(&d.list[i])});
    config_diff_done(&d);
    run_config_done(&planned);
    return 0;
}

void change_plan_take_waiting(struct change_plan *p, size_t agent,
                              struct config_settings *ret)
{
    for (size_t i = change_plan_waiting(p); i < p->n;) {
        if (p->list[i].agent != agent) {
            i++;
            continue;
        }
        config_settings_add(ret, config_setting_copy(&p->list[i].set));
        change_plan_remove(p, i);
    }
}

const struct planned_change **change_plan_requests(const struct change_plan *p,
                                                   size_t *ret_n)
{
    const struct planned_change **first = xcalloc(p->n_requests + 1, sizeof(*first));

    for (size_t i = change_plan_waiting(p); i-- > 0;)
        first[p->list[i].number] = &p->list[i];
    *ret_n = 0;
    for (uint64_t k = 0; k < p->n_requests; k++)
        if (first[k] != NULL)
            first[(*ret_n)++] = first[k];
    return first;
}

void change_plan_drop(struct change_plan *p, uint64_t step)
{
    while (p->n > 0 && p->list[0].at <= step)
        change_plan_remove(p, 0);
}

static void drop_keys(struct change_plan *p,
                      int (*is_dropped)(const struct config_setting *set))
{
    for (size_t i = p->n; i > 0; i--)
        if (is_dropped(&p->list[i - 1].set))
            change_plan_remove(p, i - 1);
}

static int is_length(const struct config_setting *set)
{
    return run_length_is_key(set->path);
}

void change_plan_drop_lengths(struct change_plan *p)
{
    drop_keys(p, is_length);
}

static int is_output(const struct config_setting *set)
{
    return (set->field->flags & FIELD_OUTPUT) != 0;
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
        if (p->list[i].at == CHANGE_AT_RESPAWN)
            run_config_apply_alone(ret, &p->list[i].set); /* the agents have their own */
        else
            run_config_apply(ret, &p->list[i].set);
        if (ends_step(p, i))
            rc = run_config_check_live(ret, err);
    }
    if (rc < 0)
        run_config_done(ret);
    return rc;
}

int change_plan_each_step(const struct change_plan *p, const struct run_config *from,
                          change_plan_step_fn fn, void *ctx, struct err *err)
{
    const size_t n = change_plan_waiting(p);
    struct run_config now;
    int rc = 0;

    run_config_copy(&now, from);
    for (size_t i = 0; i < n && rc == 0; i++) {
        run_config_apply(&now, &p->list[i].set);
        if (ends_step(p, i) && (rc = fn(ctx, p->list[i].at, &now, err)) < 0)
            (void)err_wrap(err, "at step %" PRIu64, p->list[i].at);
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
    const size_t n = change_plan_waiting(p);
    struct err why = {0};

    for (size_t i = 0; i < n; i++) {
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
