#include "supervisor/diff/setting_parts.h"

#include "common/config/changes.h"
#include "common/mem/xmalloc.h"
#include "supervisor/begin/change_read.h"
#include "supervisor/begin/resume_config.h"
#include "supervisor/save/checkpoint_read.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- what a run was configured with ---- */

static int read_at(struct settings_course *ret, struct run_dir *dir, uint64_t step,
                   config_env_names_fn env_names, struct err *err)
{
    struct resume *r = NULL;
    char text[32];
    int rc;

    (void)snprintf(text, sizeof(text), "%" PRIu64, step);
    rc = resume_open(&r, run_dir_file(dir, "checkpoints"), text, NULL, NULL, err);
    if (rc < 0)
        return rc;
    rc = resume_saved_config_at(r, env_names, run_dir_file(dir, "config.yaml"),
                                &ret->config, err);
    resume_free(r);
    return rc;
}

int settings_course_read(struct settings_course *ret, struct run_dir *dir,
                         config_env_names_fn env_names, struct err *err)
{
    const struct change_source journal = change_source_of(run_dir_file(dir, "journal"));
    struct settings_course c = {0};
    uint64_t *steps = NULL;
    size_t n = 0;
    int rc = checkpoint_list(run_dir_file(dir, "checkpoints"), &steps, &n, err);

    if (rc < 0)
        return rc;
    rc = err_set(err, ERR_NOT_FOUND, "%s has no checkpoint yet", run_dir_name(dir));
    /* a live run may drop its oldest one meanwhile */
    for (size_t i = 0; i < n && (i == 0 || rc == ERR_CORRUPT || rc == ERR_FORMAT ||
                                 rc == ERR_NOT_FOUND || rc == -ENOENT);
         i++)
        rc = read_at(&c, dir, c.begin = steps[i], env_names, err);
    free(steps);
    if (rc == 0)
        rc = change_plan_read(&c.plan, &c.config, &journal, c.begin, SIZE_MAX, NULL, err);
    if (rc < 0)
        settings_course_done(&c);
    else
        *ret = c;
    return rc;
}

void settings_course_done(struct settings_course *c)
{
    change_plan_done(&c->plan);
    run_config_done(&c->config);
    *c = (struct settings_course){0};
}

/* ---- in what two differ ---- */

/* Takes the texts. */
static void add(struct setting_parts *p, struct setting_part one)
{
    ARRAY_GROW(p->list, p->n, p->cap);
    p->list[p->n++] = one;
}

static int is_listed(const struct setting_parts *p, const char *key)
{
    for (size_t i = 0; i < p->n; i++)
        if (strcmp(p->list[i].key, key) == 0)
            return 1;
    return 0;
}

static char *agent_names(const struct run_config *c)
{
    struct xstream text;
    FILE *out = xstream_begin(&text);

    for (size_t i = 0; i < c->n_agents; i++)
        (void)fprintf(out, "%s%s", i > 0 ? ", " : "", c->agents[i].name);
    return xstream_end(&text);
}

/* The configuration in force at a step. */
struct now {
    const struct change_plan *plan;
    size_t next; /* change of the plan */
    struct run_config config;
};

static struct now begin(const struct settings_course *c)
{
    struct now n = {.plan = &c->plan};

    run_config_copy(&n.config, &c->config);
    return n;
}

static uint64_t next_step(const struct now *n)
{
    return n->next < n->plan->n ? n->plan->list[n->next].at : UINT64_MAX;
}

/* Applies the changes up to `step`. Returns whether one of them is of a key that is not listed. */
static int go_to(struct now *n, uint64_t step, const struct setting_parts *listed)
{
    int is_news = 0;

    for (; next_step(n) <= step; n->next++) {
        const struct config_setting *set = &n->plan->list[n->next].set;

        run_config_apply(&n->config, set);
        is_news |= !is_listed(listed, set->path);
    }
    return is_news;
}

/* Adds the keys in which the two differ; those of the run's length, or all others. */
static void add_all(struct setting_parts *p, const struct now *here,
                    const struct now *there, uint64_t step, int of_length)
{
    struct config_diff d;

    run_config_diff(&d, &here->config, &there->config, 1);
    for (size_t i = 0; i < d.n; i++) {
        const struct config_change *c = &d.list[i];
        const int is_of_agents = c->field == NULL; /* they are others */

        if (strcmp(c->path, "run.name") == 0 || is_listed(p, c->path) ||
            run_length_is_key(c->path) != of_length)
            continue;
        add(p,
            (struct setting_part){
                .key = xstrdup(c->path),
                .here = is_of_agents ? agent_names(&here->config) : config_change_was(c),
                .there = is_of_agents ? agent_names(&there->config) : xstrdup(c->text),
                .from = step,
                .is_output = of_length ||
                             (!is_of_agents && (c->field->flags & FIELD_OUTPUT) != 0)});
    }
    config_diff_done(&d);
}

void setting_parts_find(struct setting_parts *ret, const struct settings_course *here,
                        const struct settings_course *there, uint64_t until)
{
    const uint64_t first = here->begin > there->begin ? here->begin : there->begin;
    struct now a = begin(here), b = begin(there);

    for (uint64_t step = first; step == first || step < until;
         step = next_step(&a) < next_step(&b) ? next_step(&a) : next_step(&b)) {
        int is_news = go_to(&a, step, ret);

        is_news |= go_to(&b, step, ret);
        if (is_news || step == first)
            add_all(ret, &a, &b, step, 0);
    }
    (void)go_to(&a, CHANGE_LAST_STEP, ret);
    (void)go_to(&b, CHANGE_LAST_STEP, ret);
    add_all(ret, &a, &b, first, 1);
    run_config_done(&a.config);
    run_config_done(&b.config);
}

uint64_t setting_parts_newest(const struct setting_parts *p, uint64_t step)
{
    for (size_t i = p->n; i > 0; i--)
        if (p->list[i - 1].from <= step && !p->list[i - 1].is_output)
            return p->list[i - 1].from;
    return UINT64_MAX;
}

void setting_parts_done(struct setting_parts *p)
{
    for (size_t i = 0; i < p->n; i++) {
        free(p->list[i].key);
        free(p->list[i].here);
        free(p->list[i].there);
    }
    free(p->list);
    *p = (struct setting_parts){0};
}

/* ---- provenance ---- */

struct lines {
    struct setting_parts *of;
    int is_there;
};

static void add_line(void *ctx, const char *key, const char *value)
{
    const struct lines *l = ctx;
    struct setting_parts *p = l->of;
    size_t i = 0;
    char **text;

    while (i < p->n && strcmp(p->list[i].key, key) != 0)
        i++;
    if (i == p->n)
        add(p, (struct setting_part){
                   .key = xstrdup(key), .here = xstrdup(""), .there = xstrdup("")});
    text = l->is_there ? &p->list[i].there : &p->list[i].here;
    free(*text);
    *text = xstrdup(value);
}

void provenance_parts_find(struct setting_parts *ret, const char *here, const char *there)
{
    struct setting_parts all = {0};

    run_dir_each_provenance(here, add_line, &(struct lines){&all, 0});
    run_dir_each_provenance(there, add_line, &(struct lines){&all, 1});
    for (size_t i = 0; i < all.n; i++)
        if (strcmp(all.list[i].key, "command") != 0 &&
            strcmp(all.list[i].here, all.list[i].there) != 0) {
            add(ret, all.list[i]);
            all.list[i] = (struct setting_part){0};
        }
    setting_parts_done(&all);
}
