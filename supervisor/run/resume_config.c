/* Restores the configuration of a resumed run, and the changes since its checkpoint. */
#include "supervisor/run/resume_config.h"

#include "common/config/changes.h"
#include "common/config/cluster_config.h"
#include "common/mem/xmalloc.h"

#include <stdlib.h>
#include <string.h>

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
    return err_set(err, ERR_CONFIG, "the configuration was written by another build: %s",
                   why.msg);
}

void resume_take_length(struct run_config *c, const struct run_config *from)
{
    c->run.env_steps = from->run.env_steps;
    c->run.episodes = from->run.episodes;
    c->experience.keep = from->experience.keep;
    c->evaluation.render = from->evaluation.render;
    c->evaluation.max_to_keep = from->evaluation.max_to_keep;
    cluster_config_take(c, from);
}

/* Sets ERR_CONFIG at the first difference. */
static void name_difference(void *ctx, const struct config_change *c)
{
    const char *dot = strrchr(c->path, '.'), *key = dot != NULL ? dot + 1 : c->path;
    struct err *err = ctx;
    char *was;

    if (err->code != 0)
        return;
    was = c->was != NULL && c->field->schema == NULL ? schema_text_of(c->field, c->was)
                                                     : xstrdup("");
    (void)err_set(err, ERR_CONFIG,
                  "the configuration had '%s: %.200s', now it has '%s: %.200s' (--anyway "
                  "continues)",
                  key, was, key, c->text);
    free(was);
}

/* Checks that `saved` with the plan applied equals `wanted`, except for the run's length
 * and values that wait for a respawn. */
static int expect(const struct change_plan *plan, const struct run_config *saved,
                  const struct run_config *wanted, struct err *err)
{
    struct err difference = {0};
    struct run_config c;
    int rc = change_plan_fold(plan, UINT64_MAX, saved, &c, err);

    if (rc < 0)
        return rc;
    resume_take_length(&c, wanted);
    run_config_take(&c, wanted, 1u << CHANGE_RESPAWN);
    run_config_compare(&c, wanted, name_difference, &difference);
    run_config_done(&c);
    return difference.code != 0 ? err_set(err, difference.code, "%s", difference.msg) : 0;
}

/* Applies the newest change to *wanted: the difference between the results of `others`,
 * the plan without that change, and of the whole `plan`. */
static int make_newest(struct run_config *wanted, const struct run_config *saved,
                       const struct change_plan *others, const struct change_plan *plan,
                       struct err *err)
{
    struct config_settings newest = {0};
    struct run_config was, is;
    int rc = change_plan_fold(others, UINT64_MAX, saved, &was, err);

    if (rc < 0)
        return rc;
    rc = change_plan_fold(plan, UINT64_MAX, saved, &is, err);
    if (rc == 0) {
        run_config_differences(&newest, &was, &is, ~0u);
        run_config_set_all(wanted, &newest);
        config_settings_done(&newest);
        run_config_done(&is);
    }
    run_config_done(&was);
    return rc;
}

/* A supervisor that died between writing the journal and writing config.yaml recorded the
 * newest change only in the journal: then config.yaml contains all changes but that
 * one. */
static int find_plan(struct resume_config *ret, const struct run_config *wanted,
                     const char *journal, uint64_t from, struct err *err)
{
    struct change_plan others = {0};
    size_t n = 0;
    int rc = change_plan_read(&ret->plan, &ret->config, journal, from, SIZE_MAX, &n, err);

    if (rc < 0)
        return rc;
    run_config_copy(&ret->wanted, wanted);
    rc = expect(&ret->plan, &ret->config, wanted, err);
    if (rc != ERR_CONFIG || n == 0)
        return rc;
    if (change_plan_read(&others, &ret->config, journal, from, n - 1, NULL, NULL) == 0 &&
        expect(&others, &ret->config, wanted, NULL) == 0)
        rc = make_newest(&ret->wanted, &ret->config, &others, &ret->plan, err);
    change_plan_done(&others);
    return rc;
}

/* Whether the run is as long as its checkpoint and its planned changes say. If not, somebody has
 * given it another length since. */
static int is_length_kept(const struct resume_config *c, const struct run_config *wanted)
{
    struct run_config last;
    int is_kept;

    if (change_plan_fold(&c->plan, UINT64_MAX, &c->config, &last, NULL) < 0)
        return 0;
    is_kept = last.run.env_steps == wanted->run.env_steps &&
              last.run.episodes == wanted->run.episodes;
    run_config_done(&last);
    return is_kept;
}

/* A length that changes at a later step does so again. */
static void take_length(struct resume_config *c, const struct run_config *wanted)
{
    const int64_t steps = c->config.run.env_steps, episodes = c->config.run.episodes;
    const int is_kept = is_length_kept(c, wanted);

    resume_take_length(&c->config, wanted);
    change_plan_drop_outputs(&c->plan);
    if (is_kept) {
        c->config.run.env_steps = steps;
        c->config.run.episodes = episodes;
    } else {
        change_plan_drop_lengths(&c->plan);
    }
}

int resume_check_config(const struct resume *r, const struct run_config *wanted,
                        const char *journal, config_env_names_fn env_names,
                        struct resume_config *ret, struct err *err)
{
    int rc;

    *ret = (struct resume_config){0};
    rc = resume_saved_config(r, env_names, &ret->config, err);
    if (rc == 0)
        rc = find_plan(ret, wanted, journal, resume_progress(r)->env_steps, err);
    if (rc < 0) {
        resume_config_done(ret);
        return rc;
    }
    take_length(ret, wanted);
    return 0;
}

/* Agents begin with the settings in their blocks; the differences become changes of the
 * first round. */
void resume_force_config(const struct resume *r, const struct run_config *wanted,
                         config_env_names_fn env_names, struct resume_config *ret)
{
    struct config_settings later = {0};
    struct run_config saved;

    *ret = (struct resume_config){0};
    run_config_copy(&ret->config, wanted);
    run_config_copy(&ret->wanted, wanted);
    if (resume_saved_config(r, env_names, &saved, NULL) < 0)
        return;
    run_config_take(&ret->config, &saved, CHANGE_KINDS_LIVE);
    resume_take_length(&ret->config, wanted);
    run_config_differences(&later, &ret->config, wanted, CHANGE_KINDS_LIVE);
    change_plan_add_all(&ret->plan, resume_progress(r)->env_steps, &later);
    config_settings_done(&later);
    run_config_done(&saved);
}
