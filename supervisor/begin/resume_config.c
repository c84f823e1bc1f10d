/* Restores the configuration of a resumed run, and the changes since its checkpoint. */
#include "supervisor/begin/resume_config.h"

#include "common/config/changes.h"
#include "common/config/cluster_config.h"
#include "common/config/evaluation_rules.h"
#include "common/config/run_schema.h"
#include "common/err/check.h"
#include "common/io/shell_quote.h"
#include "common/mem/xmalloc.h"

#include <stdlib.h>
#include <string.h>

void resume_config_done(struct resume_config *c)
{
    run_config_done(&c->config);
    run_config_done(&c->wanted);
    change_plan_done(&c->plan);
    config_settings_done(&c->given);
    free(c->cancelled);
}

/* ---- an environment whose folder has moved ---- */

struct place {
    config_env_names_fn names;
    const struct env_config *now; /* NULL: where it was */
};

static int names_there(void *ctx, const struct env_config *env, const char *const **ret,
                       struct err *err)
{
    const struct place *p = ctx;
    struct arena arena = ARENA_ZERO;
    struct env_config own = *env;
    int n;

    if (p->now != NULL)
        (void)env_config_take_place(&own, p->now, &arena);
    n = p->names(NULL, &own, ret, err);
    arena_done(&arena);
    return n;
}

int resume_saved_config(const struct resume *r, config_env_names_fn env_names,
                        const struct env_config *now, struct run_config *ret,
                        struct err *err)
{
    const struct checkpoint_section *s = resume_section(r, SECTION_CONFIG);
    struct place place = {env_names, now};
    const struct config_options options = {
        .env_names = env_names != NULL ? names_there : NULL, .env_ctx = &place};
    struct err why = {0};

    if (run_config_parse(ret, s->data, s->len, "run.state", &options, &why) < 0)
        return err_is_failure(why.code) || why.code == ERR_INTERRUPTED
                   ? err_pass(err, &why)
                   : err_set(err, ERR_CONFIG,
                             "the configuration was written by another build: %s",
                             why.msg);
    if (now != NULL)
        (void)env_config_take_place(&ret->env, now, &ret->arena);
    return 0;
}

int resume_saved_config_at(const struct resume *r, config_env_names_fn env_names,
                           const char *config_yaml, struct run_config *ret,
                           struct err *err)
{
    const struct config_options options = {0};
    struct run_config now;
    int is_read = run_config_read(&now, config_yaml, &options, NULL) == 0;
    const int rc = resume_saved_config(r, env_names, is_read ? &now.env : NULL, ret, err);

    if (is_read)
        run_config_done(&now);
    return rc;
}

/* ---- differences ---- */

/* Copies what has no effect on any round, but the length. */
static void take_outputs(struct run_config *c, const struct run_config *from)
{
    c->experience.keep = from->experience.keep;
    c->evaluation.render = from->evaluation.render;
    c->evaluation.max_to_keep = from->evaluation.max_to_keep;
    c->log.images = from->log.images;
    c->log.histograms = from->log.histograms;
    c->env.on_failure = from->env.on_failure; /* what was skipped is in the journal */
    cluster_config_take(c, from);
    evaluation_rules_take(c, from);
}

/* Advises a fork where one can have the value: it stays exact. */
static int fail_difference(const struct config_change *c, struct err *err)
{
    const char *dot = strrchr(c->path, '.'), *key = dot != NULL ? dot + 1 : c->path;
    const int can_fork = c->kind != CHANGE_RESTART && *c->text != '\0';
    char *was = config_change_was(c);
    char *set = xasprintf("%s=%s", c->path, c->text), *word = shell_word(set);

    (void)err_set(
        err, ERR_CONFIG,
        "the configuration had '%s: %.200s', now it has '%s: %.200s' (%s%.200s%s"
        "--anyway continues%s)",
        key, was, key, c->text, can_fork ? "`brood fork RUN --set " : "",
        can_fork ? word : "", can_fork ? "` makes a run with it; " : "",
        can_fork ? " this one, no longer exactly" : "");
    free(word);
    free(set);
    free(was);
    return ERR_CONFIG;
}

/* Checks that `saved` with the plan applied equals `wanted`, except for what has no effect on
 * any round and values that wait for a respawn. */
static int expect(const struct change_plan *plan, const struct run_config *saved,
                  const struct run_config *wanted, struct err *err)
{
    struct config_diff d;
    struct run_config c;
    int rc = change_plan_fold(plan, UINT64_MAX, saved, &c, err);

    if (rc < 0)
        return rc;
    run_length_set(&c, run_length_of(wanted));
    take_outputs(&c, wanted);
    run_config_apply_diff(&c, wanted, 1u << CHANGE_RESPAWN);
    run_config_diff(&d, &c, wanted, 0);
    if (d.n > 0)
        rc = fail_difference(&d.list[0], err);
    config_diff_done(&d);
    run_config_done(&c);
    return rc;
}

/* Whether `wanted` has the length that the plan gives. */
static int has_length(const struct change_plan *plan, const struct resume_from *from)
{
    return run_length_is_same(change_plan_length(plan, from->saved, UINT64_MAX),
                              run_length_of(from->wanted));
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
        run_config_diff_settings(&newest, &was, &is, ~0u);
        run_config_apply_all(wanted, &newest);
        config_settings_done(&newest);
        run_config_done(&is);
    }
    run_config_done(&was);
    return rc;
}

/* If config.yaml is as it was before the newest change of the journal, makes that change in
 * ret->wanted. n: the number of changes; is_expected: but for its length, config.yaml is as it
 * is after that change, too. Returns 1 if it did. */
static int find_newest(struct resume_config *ret, const struct resume_from *from,
                       size_t n, int is_expected)
{
    struct change_plan others = {0};
    int is = 0;

    if (n == 0 || (is_expected && from->is_length_given))
        return 0;
    if (change_plan_read(&others, from->saved, &from->journal, from->step, n - 1, NULL,
                         NULL) == 0 &&
        (!is_expected || has_length(&others, from)) &&
        expect(&others, from->saved, from->wanted, NULL) == 0)
        is = make_newest(&ret->wanted, from->saved, &others, &ret->plan, NULL) == 0;
    if (from->is_length_given)
        run_length_set(&ret->wanted, run_length_of(from->wanted));
    change_plan_done(&others);
    return is;
}

static void add_key(struct resume_config *c, const char *key, int64_t was, int64_t is)
{
    struct schema_place at;
    struct config_setting s = {.path = xstrdup(key), .value.whole = is};

    CHECK(schema_locate(&run_schema, key, &c->config, &at) == 0);
    s.field = at.field;
    if (was != is)
        config_settings_add(&c->given, s);
    else
        free(s.path);
}

/* Makes the length of `wanted` a change of the checkpoint's step, and cancels those for later
 * steps. */
static void give_length(struct resume_config *c, uint64_t step)
{
    const struct run_length is = run_length_of(&c->wanted);
    struct run_length was;

    c->cancelled = change_plan_cancel_after(&c->plan, step, 1);
    was = change_plan_length(&c->plan, &c->config, step);
    add_key(c, "run.env_steps", was.env_steps, is.env_steps);
    add_key(c, "run.episodes", was.episodes, is.episodes);
    change_plan_add_all(&c->plan, step, &c->given);
}

/* Finds the plan, and whether config.yaml is as expected; is_checked: an error if it is not. */
static int find_plan(struct resume_config *ret, const struct resume_from *from,
                     int is_checked, struct err *err)
{
    struct err why = {0};
    size_t n = 0;
    int rc = change_plan_read(&ret->plan, from->saved, &from->journal, from->step,
                              SIZE_MAX, &n, err);

    if (rc < 0)
        return rc;
    rc = expect(&ret->plan, from->saved, from->wanted, &why);
    if (rc == 0 && has_length(&ret->plan, from))
        return 0;
    if (find_newest(ret, from, n, rc == 0) || rc == 0)
        return 0;
    if (is_checked || rc != ERR_CONFIG)
        return err_pass(err, &why);
    /* where config.yaml was edited, what is to be expected of it is wanted */
    run_config_done(&ret->wanted);
    if (change_plan_fold(&ret->plan, UINT64_MAX, from->saved, &ret->wanted, err) < 0)
        return ERR_CONFIG;
    run_length_set(&ret->wanted, run_length_of(from->wanted));
    take_outputs(&ret->wanted, from->wanted);
    run_config_apply_diff(&ret->wanted, from->wanted, 1u << CHANGE_RESPAWN);
    return 0;
}

static int make(struct resume_config *ret, const struct resume_from *from, int is_checked,
                struct err *err)
{
    int rc;

    *ret = (struct resume_config){0};
    run_config_copy(&ret->config, from->saved);
    run_config_copy(&ret->wanted, from->wanted);
    rc = find_plan(ret, from, is_checked, err);
    if (rc < 0) {
        resume_config_done(ret);
        *ret = (struct resume_config){0};
        return rc;
    }
    if (from->is_length_given ||
        !run_length_is_same(run_length_of(&ret->wanted),
                            change_plan_length(&ret->plan, from->saved, UINT64_MAX)))
        give_length(ret, from->step);
    take_outputs(&ret->config, &ret->wanted);
    change_plan_drop_outputs(&ret->plan);
    return 0;
}

int resume_config_check(struct resume_config *ret, const struct resume_from *from,
                        struct err *err)
{
    return make(ret, from, 1, err);
}

int resume_config_make(struct resume_config *ret, const struct resume_from *from,
                       struct err *err)
{
    return make(ret, from, 0, err);
}

/* Agents begin with the settings in their blocks; the differences become changes of the
 * first round. Of these, only the length is recorded: a resume from before the difference is
 * exact again. */
void resume_config_force(struct resume_config *ret, const struct resume_from *from)
{
    const struct run_config *wanted = from->wanted;
    struct config_settings later = {0};

    *ret = (struct resume_config){0};
    run_config_copy(&ret->config, wanted);
    run_config_copy(&ret->wanted, wanted);
    if (from->saved == NULL)
        return;
    run_config_apply_diff(&ret->config, from->saved, CHANGE_KINDS_LIVE);
    take_outputs(&ret->config, wanted);
    if (change_plan_read(&ret->plan, from->saved, &from->journal, from->step, SIZE_MAX,
                         NULL, NULL) == 0)
        give_length(ret, from->step);
    change_plan_done(&ret->plan);
    run_config_diff_settings(&later, &ret->config, wanted, CHANGE_KINDS_LIVE);
    change_plan_add_all(&ret->plan, from->step, &later);
    config_settings_done(&later);
}
