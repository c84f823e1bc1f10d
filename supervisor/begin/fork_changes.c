#include "supervisor/begin/fork_changes.h"

#include "common/config/evaluation_rules.h"
#include "common/config/run_schema.h"
#include "common/config/schema.h"
#include "common/text/scan.h"
#include "supervisor/begin/live_changes.h"

#include <stdlib.h>
#include <string.h>

struct making {
    struct fork_changes *ret;
    const struct resume_config *was;
    uint64_t step;
    const char *const *set;
    size_t n;
    const char *from;
};

void fork_changes_done(struct fork_changes *c)
{
    change_plan_done(&c->plan);
    run_config_done(&c->wanted);
}

/* Whether the agent has the value of `defaults`, so that it follows it. */
static int follows(const struct making *f, size_t agent, const char *key)
{
    /* schema_locate does not modify it */
    struct run_config *c = (struct run_config *)(uintptr_t)&f->was->config;
    struct schema_place own, all;

    return schema_locate(&agent_schema, key, &c->agents[agent], &own) == 0 &&
           schema_locate(&agent_schema, key, &c->defaults, &all) == 0 &&
           own.field->type == all.field->type &&
           memcmp(own.value, all.value, schema_value_size(own.field->type)) == 0;
}

/* Whether `path` is this key of an agent that follows `defaults`. */
static int is_of_follower(const struct making *f, const char *key, const char *path)
{
    for (size_t i = 0; i < f->was->config.n_agents; i++) {
        char of[AGENT_NAME_MAX + ERR_NAME_BYTES + 16];

        (void)snprintf(of, sizeof(of), "agents.%s.%s", f->was->config.agents[i].name,
                       key);
        if (strcmp(of, path) == 0)
            return follows(f, i, key);
    }
    return 0;
}

/* Whether the fork sets this key itself, also to the value that it has. given: its settings,
 * with the keys of a team expanded to those of its agents. */
static int is_own(const struct making *f, const char *path,
                  const struct config_settings *given)
{
    for (size_t i = 0; i < given->n; i++) {
        const char *set = given->list[i].path, *key = text_after(set, "defaults.");

        if (strcmp(set, path) == 0 || (key != NULL && is_of_follower(f, key, path)))
            return 1;
    }
    return 0;
}

/* The fork's own changes, which take effect at the checkpoint's step: every agent starts a
 * process then, so that none has to wait for a respawn. *given: they, and those to the value
 * that a key has. from: the configuration at the checkpoint with what waits in the other run; it
 * gets the fork's rules of evaluations. */
static int find_own(const struct making *f, struct run_config *from,
                    struct config_settings *own, struct config_settings *given,
                    struct err *err)
{
    struct run_config changed;
    int rc = run_config_set_live(&changed, from, f->set, f->n, given, err);

    if (rc == 0) {
        evaluation_rules_take(from, &changed);
        rc = live_changes_check(from, &changed, f->from, "in a fork", err);
    }
    if (rc == 0) {
        run_config_diff_settings(own, from, &changed,
                                 CHANGE_KINDS_LIVE | 1u << CHANGE_RESPAWN);
        for (size_t i = 0; i < given->n; i++)
            if (given->list[i].schedule.over > 0)
                config_settings_replace(own, &given->list[i]);
        for (size_t i = 0; i < own->n; i++)
            if (own->list[i].field->change == CHANGE_RESPAWN)
                config_settings_replace(given, &own->list[i]);
    }
    run_config_done(&changed);
    return rc;
}

int fork_changes_make(struct fork_changes *ret, const struct resume_config *was,
                      uint64_t step, const char *const *set, size_t n, const char *run,
                      struct err *err)
{
    const struct making making = {ret, was, step, set, n, run}, *f = &making;
    struct config_settings own = {0}, given = {0}, waiting = {0};
    struct run_config planned, from;
    int rc = change_plan_fold(&was->plan, UINT64_MAX, &was->config, &planned, err);

    if (rc == 0) {
        run_config_diff_settings(&waiting, &planned, &was->wanted, 1u << CHANGE_RESPAWN);
        run_config_done(&planned);
    }
    *ret = (struct fork_changes){0};
    change_plan_copy(&ret->plan, &was->plan);
    run_config_copy(&from, &was->config);
    run_config_apply_all(&from, &waiting);
    if (rc == 0)
        rc = find_own(f, &from, &own, &given, err);
    if (rc == 0) {
        for (size_t i = 0; i < given.n; i++)
            if (run_length_is_key(given.list[i].path)) /* one length replaces the other */
                change_plan_drop_lengths(&ret->plan);
        for (size_t k = ret->plan.n; k > 0; k--)
            if (is_own(f, ret->plan.list[k - 1].set.path, &given))
                change_plan_remove(&ret->plan, k - 1);
        change_plan_add_all(&ret->plan, step, &own);
        rc = change_plan_fold(&ret->plan, UINT64_MAX, &was->config, &ret->wanted, err);
    }
    if (rc == 0)
        evaluation_rules_take(&ret->wanted, &from);
    for (size_t i = 0; rc == 0 && i < waiting.n; i++)
        if (!is_own(f, waiting.list[i].path, &given))
            run_config_apply(&ret->wanted, &waiting.list[i]);
    for (size_t i = 0; rc == 0 && i < own.n; i++)
        if (own.list[i].field->change == CHANGE_RESPAWN) /* an agent may have followed */
            run_config_apply(&ret->wanted, &own.list[i]);
    config_settings_done(&own);
    config_settings_done(&given);
    config_settings_done(&waiting);
    run_config_done(&from);
    return rc;
}
