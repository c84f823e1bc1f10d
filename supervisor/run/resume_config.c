/* Going on with the configuration that a run had, and with its changes since. */
#include "supervisor/run/resume_config.h"

#include "common/config/changes.h"
#include "common/mem/xmalloc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LIVE_KINDS = 1u << CHANGE_LIVE | 1u << CHANGE_SETTING };

void resume_config_done(struct resume_config *c)
{
    run_config_done(&c->config);
    run_config_done(&c->wanted);
    change_plan_done(&c->plan);
}

int resume_saved_config(const struct resume *r, config_env_names_fn env_names,
                        struct run_config *ret, struct err *err)
{
    const struct checkpoint_section *s = resume_section(r, SECTION_CONFIG);
    const struct config_options options = {.env_names = env_names};
    struct err why = {0};

    if (run_config_parse(ret, s->data, s->len, "run.state", &options, &why) == 0)
        return 0;
    return err_set(err, ERR_CONFIG, "the configuration was of another build: %s",
                   why.msg);
}

/* Its length, and what is kept at its end: no round is another one for them. */
static void take_length(struct run_config *c, const struct run_config *from)
{
    c->run.env_steps = from->run.env_steps;
    c->run.episodes = from->run.episodes;
    c->experience.keep = from->experience.keep;
}

/* *c with the differences to `from` that are of these kinds made. */
static int assign_kinds(struct run_config *c, const struct run_config *from,
                        unsigned kinds, config_env_names_fn env_names, struct err *err)
{
    struct change_plan one = {0};
    struct run_config next;
    char *text = run_config_assignments(c, from, kinds);
    int rc;

    change_plan_add(&one, 0, text);
    free(text);
    rc = change_plan_fold(&one, 0, c, env_names, &next, err);
    change_plan_done(&one);
    if (rc < 0)
        return rc;
    run_config_done(c);
    *c = next;
    return 0;
}

/* The first line that is another one. */
static int name_difference(const char *was, const char *now, struct err *err)
{
    size_t begin = 0, i = 0;

    for (; was[i] != '\0' && was[i] == now[i]; i++)
        if (was[i] == '\n')
            begin = i + 1;
    was += begin + strspn(was + begin, " ");
    now += begin + strspn(now + begin, " ");
    return err_set(err, ERR_CONFIG,
                   "the configuration had '%.*s', now it has '%.*s' (--anyway goes on)",
                   (int)strcspn(was, "\n"), was, (int)strcspn(now, "\n"), now);
}

/* Is `saved`, with the plan's changes made, what is wanted? But for its length, and for
 * what a respawn was to bring. */
static int expect(const struct change_plan *plan, const struct run_config *saved,
                  const struct run_config *wanted, config_env_names_fn env_names,
                  struct err *err)
{
    struct run_config c;
    char *was, *now;
    int rc = change_plan_fold(plan, UINT64_MAX, saved, env_names, &c, err);

    if (rc < 0)
        return rc;
    take_length(&c, wanted);
    rc = assign_kinds(&c, wanted, 1u << CHANGE_RESPAWN, env_names, err);
    if (rc == 0) {
        was = run_config_to_yaml(&c);
        now = run_config_to_yaml(wanted);
        rc = strcmp(was, now) == 0 ? 0 : name_difference(was, now, err);
        free(was);
        free(now);
    }
    run_config_done(&c);
    return rc;
}

/* The first n of what the journal says, in the order of their steps. */
static void plan_first(struct change_plan *ret, const struct change_plan *agreed,
                       size_t n)
{
    for (size_t i = 0; i < n; i++)
        change_plan_add(ret, agreed->list[i].at, agreed->list[i].text);
}

/* A supervisor that died between journal and config.yaml wrote the newest change only
 * into the first: then config.yaml is what all changes but that one made. */
static int find_plan(struct resume_config *ret, const struct change_plan *agreed,
                     const struct run_config *wanted, config_env_names_fn env_names,
                     struct err *err)
{
    struct change_plan newest = {0};
    size_t n = agreed->n;
    int rc;

    plan_first(&ret->plan, agreed, n);
    rc = expect(&ret->plan, &ret->config, wanted, env_names, err);
    if (rc == ERR_CONFIG && n > 0) {
        struct change_plan others = {0};

        plan_first(&others, agreed, n - 1);
        if (expect(&others, &ret->config, wanted, env_names, NULL) == 0) {
            change_plan_add(&newest, 0, agreed->list[n - 1].text);
            rc = 0;
        }
        change_plan_done(&others);
    }
    if (rc == 0)
        rc = change_plan_fold(&newest, 0, wanted, env_names, &ret->wanted, err);
    change_plan_done(&newest);
    return rc;
}

int resume_check_config(const struct resume *r, const struct run_config *wanted,
                        const char *journal, config_env_names_fn env_names,
                        struct resume_config *ret, struct err *err)
{
    struct change_plan agreed = {0};
    int rc;

    *ret = (struct resume_config){0};
    rc = resume_saved_config(r, env_names, &ret->config, err);
    if (rc == 0)
        rc = change_plan_read(&agreed, journal, resume_progress(r)->env_steps, err);
    if (rc == 0)
        rc = find_plan(ret, &agreed, wanted, env_names, err);
    change_plan_done(&agreed);
    if (rc < 0) {
        resume_config_done(ret);
        return rc;
    }
    take_length(&ret->config, wanted);
    change_plan_drop_lengths(&ret->plan);
    return 0;
}

/* Agents begin with the settings that their blocks hold, and are sent the others. */
int resume_force_config(const struct resume *r, const struct run_config *wanted,
                        config_env_names_fn env_names, struct resume_config *ret,
                        struct err *err)
{
    struct run_config saved;
    char *text;
    int rc;

    *ret = (struct resume_config){0};
    rc = run_config_assign(&ret->config, wanted, NULL, 0, env_names, err);
    if (rc == 0)
        rc = run_config_assign(&ret->wanted, wanted, NULL, 0, env_names, err);
    if (rc < 0 || resume_saved_config(r, env_names, &saved, NULL) < 0)
        return rc;
    if (assign_kinds(&ret->config, &saved, LIVE_KINDS, env_names, NULL) == 0) {
        take_length(&ret->config, wanted);
        text = run_config_assignments(&ret->config, wanted, LIVE_KINDS);
        change_plan_add(&ret->plan, resume_progress(r)->env_steps, text);
        free(text);
    }
    run_config_done(&saved);
    return 0;
}
