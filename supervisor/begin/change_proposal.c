#include "supervisor/begin/change_proposal.h"

#include "common/config/run_length.h"
#include "common/config/run_schema.h"
#include "common/err/check.h"
#include "common/mem/xmalloc.h"
#include "common/text/scan.h"
#include "supervisor/begin/live_changes.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

void proposal_done(struct proposal *p)
{
    config_settings_done(&p->changes);
    config_settings_done(&p->waits);
    free(p->new_waits);
    change_plan_done(&p->plan);
    run_config_done(&p->wanted);
}

/* ---- setting ---- */

static int has_length(const struct config_settings *s)
{
    for (size_t i = 0; i < s->n; i++)
        if (run_length_is_key(s->list[i].path))
            return 1;
    return 0;
}

/* A length that the run has exceeded would end it at once, which `brood stop` is for; one that
 * it does not get to would never be in force. */
static int check_length(const struct live_config *live, const struct run_config *is,
                        const struct proposal *p, struct err *err)
{
    struct err why = {0};

    if (!has_length(&p->changes))
        return 0;
    if (live->is_at_end)
        return err_set(err, ERR_STATE,
                       "the run has reached its end; `brood resume %s --set "
                       "run.env_steps=N` extends it",
                       live->run);
    if (change_plan_check_lengths(&p->plan, live->config, live->next, live->episodes,
                                  &why) == 0)
        return 0;
    return err_set(err, ERR_CONFIG, "%s; %s", why.msg,
                   run_length_is_reached(run_length_of(is), p->at, live->episodes)
                       ? "`brood stop` ends the run"
                       : "a length that is set without --at-step counts at once");
}

/* The key within the section of an agent, whose name may have dots, or of `defaults`: "discount"
 * of "agents.agent_0.discount" and of "defaults.discount". Of another key, the whole path. */
static const char *key_of(const struct run_config *config, const char *path)
{
    const char *of_agents = text_after(path, "agents.");
    const char *of_defaults = config_path_within(path, "defaults");
    struct schema_place place;
    const struct agent_config *agent;

    if (of_agents == NULL)
        return of_defaults != NULL ? of_defaults : path;
    agent = run_config_locate(config, path, &place);
    CHECK(agent != NULL, "%s", path);
    return of_agents + strlen(agent->name) + 1;
}

/* Whether the value, or one that follows it, waits in the plan. */
static int is_waiting(const struct live_config *live, const struct change_plan *plan,
                      const struct config_setting *s)
{
    const char *of_defaults = config_path_within(s->path, "defaults");
    int is = 0;

    for (size_t i = change_plan_waiting(plan); i < plan->n && !is; i++) {
        const struct planned_change *c = &plan->list[i];

        is = of_defaults != NULL
                 ? strcmp(key_of(live->config, c->set.path), of_defaults) == 0
                 : strcmp(c->set.path, s->path) == 0;
    }
    return is;
}

int proposal_make(struct proposal *p, const struct live_config *live,
                  const struct run_config *is, const struct config_settings *given,
                  uint64_t at, struct err *err)
{
    struct config_settings new_waits = {0};
    int rc = live_changes_check(live->wanted, is, live->run, "while the run lives", err);

    if (rc < 0)
        return rc;
    run_config_diff_settings(&p->changes, live->wanted, is, CHANGE_KINDS_LIVE);
    for (size_t i = 0; i < given->n; i++)
        config_settings_replace(&p->changes, &given->list[i]);
    run_config_diff_settings(&p->waits, live->wanted, is, 1u << CHANGE_RESPAWN);
    change_plan_copy(&p->plan, live->plan);
    if ((rc = change_plan_wait(&p->plan, live->config, is, err)) < 0)
        return rc;
    /* a value that is in force again does not wait */
    for (size_t i = 0; i < p->waits.n; i++)
        if (is_waiting(live, &p->plan, &p->waits.list[i]))
            config_settings_add(&new_waits, config_setting_copy(&p->waits.list[i]));
    p->new_waits = config_settings_text(&new_waits);
    config_settings_done(&new_waits);
    p->at = at == PROPOSAL_SOON ? live->next : at;
    if (p->at < live->next)
        return err_set(err, ERR_CONFIG,
                       "step %" PRIu64 " is past: the next round begins at %" PRIu64, at,
                       live->next);
    if (at != PROPOSAL_SOON && *p->new_waits != '\0')
        return err_set(
            err, ERR_CONFIG,
            "%s: takes effect with a respawn of its agent, not at a step (leave out "
            "--at-step)",
            p->new_waits);
    change_plan_add_all(&p->plan, p->at, &p->changes);
    rc = check_length(live, is, p, err);
    return rc < 0 ? rc
                  : change_plan_fold(&p->plan, CHANGE_AT_RESPAWN, live->config,
                                     &p->wanted, err);
}

/* Whether the key, of some agent, has a schedule or a change that is pending. */
static int is_planned(const struct live_config *live, const struct config_setting *s)
{
    const char *key = key_of(live->config, s->path);
    int is = s->schedule.over > 0;

    for (size_t i = 0; i < live->plan->n; i++)
        is |= strcmp(key_of(live->config, live->plan->list[i].set.path), key) == 0;
    return is;
}

int proposal_set(struct proposal *p, const struct live_config *live,
                 const char *const *set, size_t n, uint64_t at, struct run_config *is,
                 struct err *err)
{
    struct config_settings given = {0}, kept = {0};
    int rc = run_config_set_live(is, live->wanted, set, n, &given, err);

    /* Values of keys that have other values later, planned or given, are changes even if config.yaml
     * has them already, because it has the last of these, and any given value replaces a schedule. */
    for (size_t i = 0; i < given.n; i++)
        if (is_planned(live, &given.list[i]))
            config_settings_add(&kept, config_setting_copy(&given.list[i]));
    if (rc == 0)
        rc = proposal_make(p, live, is, &kept, at, err);
    config_settings_done(&given);
    config_settings_done(&kept);
    return rc;
}

/* ---- cancelling ---- */

struct cancellation {
    const struct live_config *live;
    const char *const *keys; /* n 0: all */
    size_t n;
    uint8_t *found; /* [n] 1 for each key for which a change was pending */
    proposal_cancelled_fn fn;
    void *ctx;
};

/* key: the path within its agent's section, for a change that waits for a respawn;
 * otherwise NULL. */
static int is_cancelled(struct cancellation *x, const char *path, const char *key)
{
    int is = x->n == 0;

    for (size_t i = 0; i < x->n; i++) {
        const char *rest = config_path_within(x->keys[i], "defaults");

        if (strcmp(x->keys[i], path) == 0 ||
            (key != NULL && rest != NULL && strcmp(rest, key) == 0))
            is = x->found[i] = 1;
    }
    return is;
}

/* Whether an agent waits for the value that change i of the plan has. */
static int is_awaited(const struct run_config *config, const struct change_plan *plan,
                      size_t i)
{
    const char *key = key_of(config, plan->list[i].set.path);
    int is = 0;

    for (size_t k = change_plan_waiting(plan); k < plan->n && !is; k++)
        is = plan->list[k].agent < config->n_agents &&
             strcmp(key_of(config, plan->list[k].set.path), key) == 0;
    return is;
}

/* A change of `defaults` is kept as long as an agent waits for its value. */
static void cancel_waiting(struct cancellation *x, struct change_plan *plan)
{
    const struct run_config *config = x->live->config;
    const size_t first = change_plan_waiting(plan);

    for (size_t i = first; i < plan->n;) {
        const struct planned_change *c = &plan->list[i];

        if (c->agent < config->n_agents &&
            is_cancelled(x, c->set.path, key_of(config, c->set.path))) {
            x->fn(x->ctx, c);
            change_plan_remove(plan, i);
        } else {
            i++;
        }
    }
    for (size_t i = plan->n; i-- > first;)
        if (plan->list[i].agent == config->n_agents && !is_awaited(config, plan, i))
            change_plan_remove(plan, i);
}

/* Changes for a respawn that was requested already are not cancelled: the request waits
 * for them. */
static void cancel_planned(struct cancellation *x, struct change_plan *plan)
{
    uint8_t *numbers = xcalloc(plan->n_requests + 1, 1); /* 1: it is cancelled */
    const struct planned_change **requests;
    size_t n;

    requests = change_plan_requests(plan, &n);
    for (size_t i = 0; i < n; i++) {
        const struct planned_change *c = requests[i];

        if (c->set.field->change == CHANGE_RESPAWN || !is_cancelled(x, c->set.path, NULL))
            continue;
        x->fn(x->ctx, c);
        numbers[c->number] = 1;
    }
    for (size_t i = change_plan_waiting(plan); i-- > 0;)
        if (numbers[plan->list[i].number])
            change_plan_remove(plan, i);
    free(requests);
    free(numbers);
}

int proposal_cancel(struct proposal *p, const struct live_config *live,
                    const char *const *keys, size_t n, uint8_t *found,
                    proposal_cancelled_fn fn, void *ctx, struct err *err)
{
    struct cancellation x = {
        .live = live, .keys = keys, .n = n, .found = found, .fn = fn, .ctx = ctx};
    struct run_length was, is;

    change_plan_copy(&p->plan, live->plan);
    cancel_planned(&x, &p->plan);
    cancel_waiting(&x, &p->plan);
    was = change_plan_length(live->plan, live->config, live->steps);
    is = change_plan_length(&p->plan, live->config, live->steps);
    if (!run_length_is_same(is, was) &&
        run_length_is_reached(is, live->steps, live->episodes))
        return err_set(
            err, ERR_CONFIG,
            "%s: the run has passed the length that it had before; `brood stop` ends "
            "the run",
            is.env_steps > 0 ? "run.env_steps" : "run.episodes");
    return change_plan_fold(&p->plan, CHANGE_AT_RESPAWN, live->config, &p->wanted, err);
}
