#include "supervisor/run/change_plan.h"

#include "common/config/changes.h"
#include "common/mem/xmalloc.h"
#include "supervisor/run/journal_read.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

void change_plan_done(struct change_plan *p)
{
    for (size_t i = 0; i < p->n; i++)
        free(p->list[i].text);
    free(p->list);
    *p = (struct change_plan){0};
}

static void insert(struct change_plan *p, size_t i, uint64_t at, const char *text)
{
    if (p->n == p->cap) {
        p->cap = p->cap == 0 ? 8 : p->cap * 2;
        p->list = xreallocarray(p->list, p->cap, sizeof(*p->list));
    }
    memmove(p->list + i + 1, p->list + i, (p->n - i) * sizeof(*p->list));
    p->list[i] = (struct planned_change){at, xstrdup(text)};
    p->n++;
}

void change_plan_add(struct change_plan *p, uint64_t at, const char *text)
{
    size_t i = p->n;

    while (i > 0 && p->list[i - 1].at > at)
        i--;
    insert(p, i, at, text);
}

uint64_t change_plan_next(const struct change_plan *p)
{
    return p->n > 0 ? p->list[0].at : UINT64_MAX;
}

void change_plan_drop(struct change_plan *p, uint64_t step)
{
    size_t n = 0;

    while (n < p->n && p->list[n].at <= step)
        free(p->list[n++].text);
    p->n -= n;
    memmove(p->list, p->list + n, p->n * sizeof(*p->list));
}

static int is_length(const char *assignment)
{
    return strncmp(assignment, "run.env_steps=", 14) == 0 ||
           strncmp(assignment, "run.episodes=", 13) == 0 ||
           strncmp(assignment, "experience.keep=", 16) == 0;
}

void change_plan_drop_lengths(struct change_plan *p)
{
    for (size_t i = 0; i < p->n; i++) {
        char *kept = xcalloc(strlen(p->list[i].text) + 1, 1), *rest = NULL;

        for (char *word = strtok_r(p->list[i].text, ",", &rest); word != NULL;
             word = strtok_r(NULL, ",", &rest)) {
            if (is_length(word))
                continue;
            if (*kept != '\0')
                strcat(kept, ",");
            strcat(kept, word);
        }
        free(p->list[i].text);
        p->list[i].text = kept;
    }
}

/* *c with one change made in its place. */
static int make(struct run_config *c, const char *text, config_env_names_fn env_names,
                struct err *err)
{
    char *words_text = xstrdup(text);
    const char **words = xcalloc(strlen(text) / 2 + 1, sizeof(*words));
    size_t n = config_split_assignments(words_text, words, strlen(text) / 2 + 1);
    struct run_config next;
    int rc = run_config_assign(&next, c, words, n, env_names, err);

    free(words);
    free(words_text);
    if (rc < 0)
        return rc;
    run_config_done(c);
    *c = next;
    return 0;
}

int change_plan_fold(const struct change_plan *p, uint64_t step,
                     const struct run_config *from, config_env_names_fn env_names,
                     struct run_config *ret, struct err *err)
{
    int rc = run_config_assign(ret, from, NULL, 0, env_names, err);

    for (size_t i = 0; rc == 0 && i < p->n && p->list[i].at <= step; i++)
        rc = make(ret, p->list[i].text, env_names, err);
    if (rc < 0)
        run_config_done(ret);
    return rc;
}

/* ---- the journal ---- */

struct reading {
    struct change_plan *plan;
    uint64_t from, line;
};

static int take_event(void *ctx, uint64_t line, const struct journal_event *e)
{
    struct reading *r = ctx;
    const char *text = journal_value(e, "changes");
    const uint64_t at = journal_number(e, "at", UINT64_MAX);

    if (strcmp(e->name, "set") != 0)
        return 0;
    r->line = line;
    if (at == UINT64_MAX || text == NULL)
        return ERR_FORMAT;
    if (at >= r->from)
        insert(r->plan, r->plan->n, at, text);
    return 0;
}

int change_plan_read(struct change_plan *p, const char *journal, uint64_t from,
                     struct err *err)
{
    struct reading r = {.plan = p, .from = from};
    int rc = journal_each(journal, take_event, &r, err);

    if (rc == ERR_FORMAT)
        return err_set_at(err, rc, ERR_AT(.file = journal, .line = (int)r.line),
                          "cannot be read as a change");
    return rc == ERR_NOT_FOUND ? 0 : rc;
}
