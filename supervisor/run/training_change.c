/* The configurations of a live run, and how a change that was accepted (training_set.c) takes
 * effect.
 *
 * t->config, t->changes.plan and t->changes.wanted are those of a live run (change_proposal.h).
 */
#include "supervisor/run/training_internal.h"

#include "common/config/changes.h"
#include "common/mem/xmalloc.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ---- pending changes ---- */

void training_pending_done(struct pending_list *p)
{
    for (size_t i = 0; i < p->n; i++) {
        free((char *)(uintptr_t)p->list[i].key);
        free((char *)(uintptr_t)p->list[i].value);
    }
    free(p->list);
    *p = (struct pending_list){0};
}

void training_pending_add(struct pending_list *p, const struct training *t,
                          const struct planned_change *c)
{
    const int waits = c->at == CHANGE_AT_RESPAWN;

    p->list = xreallocarray(p->list, p->n + 1, sizeof(*p->list));
    p->list[p->n++] = (struct run_pending){
        .key = xstrdup(c->set.path),
        .value = config_setting_text(&c->set),
        .at = waits ? RUN_UNKNOWN : c->at,
        .agent = waits ? t->args->config->agents[c->agent].name : NULL};
}

/* The joint step at which the next change takes effect at the earliest. */
static uint64_t next_change(const struct training *t)
{
    return t->rollout != NULL ? rollout_next_change_step(t->rollout) : training_steps(t);
}

struct live_config training_live(const struct training *t)
{
    struct rollout_progress now = {.env_steps = training_steps(t)};

    if (t->rollout != NULL)
        rollout_progress(t->rollout, &now);
    return (struct live_config){.config = t->config,
                                .wanted = &t->changes.wanted,
                                .plan = &t->changes.plan,
                                .steps = now.env_steps,
                                .next = next_change(t),
                                .episodes = now.episodes,
                                .is_at_end =
                                    t->rollout != NULL && rollout_is_at_end(t->rollout),
                                .run = run_dir_path(t->args->dir)};
}

/* Lists what is planned, in the order of its steps, then what waits. whole: without the rest of a
 * schedule that has begun. */
static void list_pending(const struct training *t, struct pending_list *ret, int whole)
{
    const struct planned_change **requests;
    size_t n;

    requests = change_plan_requests(&t->changes.plan, &n);
    for (size_t k = 0; k < n; k++) {
        const struct planned_change *c = requests[k];

        if (whole && c->part != CHANGE_WHOLE && c->part != CHANGE_BEGINS)
            continue;
        training_pending_add(ret, t, c);
        for (size_t i = ret->n - 1; i > 0 && ret->list[i - 1].at > ret->list[i].at; i--) {
            const struct run_pending later = ret->list[i - 1];

            ret->list[i - 1] = ret->list[i];
            ret->list[i] = later;
        }
    }
    free(requests);
    for (size_t i = change_plan_waiting(&t->changes.plan); i < t->changes.plan.n; i++)
        if (t->changes.plan.list[i].agent < t->config->n_agents)
            training_pending_add(ret, t, &t->changes.plan.list[i]);
}

/* To be called after each change of the plan. */
static void update_pending(struct training *t)
{
    training_pending_done(&t->changes.pending);
    list_pending(t, &t->changes.pending, 0);
}

void training_tell_left(struct training *t)
{
    struct pending_list left = {0};
    struct xstream text;
    FILE *f = xstream_begin(&text);
    char *list;

    list_pending(t, &left, 1); /* the rest of a schedule is no change that was not made */
    for (size_t i = 0; i < left.n; i++) {
        (void)fprintf(f, "%s%s=%s ", i > 0 ? ", " : "", left.list[i].key,
                      left.list[i].value);
        if (left.list[i].agent != NULL)
            (void)fputs("(with a respawn)", f);
        else
            (void)fprintf(f, "(step %" PRIu64 ")", left.list[i].at);
    }
    list = xstream_end(&text);
    if (*list != '\0')
        training_log(t, "never in force: %s", list);
    free(list);
    training_pending_done(&left);
}

/* ---- begin and end ---- */

int training_begin_config(struct training *t, struct err *err)
{
    const struct training_args *args = t->args;
    const struct run_config *wanted = args->wanted != NULL ? args->wanted : args->config;
    int rc;

    t->config = args->config;
    if (args->plan != NULL)
        change_plan_copy(&t->changes.plan, args->plan);
    run_config_copy(&t->changes.wanted, wanted);
    rc = change_plan_wait(&t->changes.plan, t->config, wanted, err);
    update_pending(t);
    return rc;
}

static void drop_config(struct training *t, const struct run_config *config)
{
    struct run_config *own = (struct run_config *)(uintptr_t)config;

    if (config == NULL || config == t->args->config)
        return;
    run_config_done(own);
    free(own);
}

void training_end_config(struct training *t)
{
    drop_config(t, t->config);
    run_config_done(&t->changes.wanted);
    change_plan_done(&t->changes.plan);
    training_pending_done(&t->changes.pending);
    training_pending_done(&t->changes.cancelled);
    free(t->changes.agent_names);
    free(t->changes.config_yaml);
    free(t->inexact);
}

/* ---- config.yaml and the journal ---- */

/* A checkpoint has the same bytes whether evaluations are drawn, and weights counted, or not. */
const char *training_config_yaml(struct training *t)
{
    struct run_config c = *t->config;

    c.evaluation.render = RENDER_NONE;
    c.evaluation.max_to_keep = 0;
    c.log.images = c.log.histograms = 0;
    if (t->changes.config_yaml == NULL)
        t->changes.config_yaml = run_config_to_yaml(&c);
    return t->changes.config_yaml;
}

int training_write_config(struct training *t, struct err *err)
{
    const int rc = run_dir_write_config(t->args->dir, &t->changes.wanted, err);

    t->changes.is_unwritten = rc < 0;
    return rc;
}

int training_write_settings(struct training *t, enum run_event_kind kind, uint64_t at,
                            const struct config_settings *s, struct err *err)
{
    char *text = config_settings_text(s);
    const struct run_event e = {.kind = kind,
                                .env_steps = training_steps(t),
                                .change = {.at = at, .changes = text}};
    int rc = s->n > 0 ? training_event_at(t, &e, err) : 0;

    free(text);
    return rc;
}

int training_journal_plan(struct training *t, struct err *err)
{
    const struct planned_change **requests;
    size_t n;
    int rc = 0;

    requests = change_plan_requests(&t->changes.plan, &n);
    for (size_t i = 0; i < n && rc == 0; i++) {
        struct config_setting set = requests[i]->set;

        rc =
            training_write_settings(t, RUN_EVENT_SET, requests[i]->at,
                                    &(struct config_settings){.list = &set, .n = 1}, err);
    }
    free(requests);
    return rc;
}

/* ---- changes that wait for a respawn ---- */

int training_plan_waiting(struct training *t, const struct change_plan *p, size_t agent,
                          struct change_plan *plan, struct config_settings *ret,
                          struct err *err)
{
    change_plan_copy(plan, p);
    change_plan_take_waiting(plan, agent, ret);
    change_plan_add_all(plan, next_change(t), ret);
    return ret->n > 0 ? training_check_plan(t, plan, err) : 0;
}

int training_apply_waiting(struct training *t, size_t agent, struct err *err)
{
    struct change_plan plan;
    struct config_settings changes = {0};
    int rc = training_plan_waiting(t, &t->changes.plan, agent, &plan, &changes, err);

    if (rc == 0 && changes.n > 0 && life_state_is_paused(t->state))
        rc = err_set(err, ERR_STATE,
                     "the run is paused, and the changes that wait for %s are applied "
                     "between rounds: `brood continue` first",
                     t->specs.spec[agent].name);
    if (rc == 0)
        rc = training_write_settings(t, RUN_EVENT_SET, next_change(t), &changes, err);
    if (rc == 0 && changes.n > 0) {
        training_take_plan(t, &plan);
        rc = 1;
    }
    change_plan_done(&plan);
    config_settings_done(&changes);
    return rc;
}

/* ---- applying changes ---- */

void training_plan_changes(struct training *t)
{
    if (t->rollout != NULL)
        rollout_plan_change(t->rollout, change_plan_next(&t->changes.plan));
}

void training_take_plan(struct training *t, struct change_plan *p)
{
    change_plan_done(&t->changes.plan);
    t->changes.plan = *p;
    *p = (struct change_plan){0};
    update_pending(t);
    training_plan_changes(t);
}

struct renewal {
    struct training *t;
    struct err *err;
    uint8_t *agents; /* 1 for each agent whose process is replaced */
};

/* The central process has the settings of one agent. (A group that shares parameters with a ps
 * has one value for all, which `defaults` changes in a new run only.) */
static void find_renewed(const struct renewal *r, const struct run_config *next)
{
    const struct run_config *config = r->t->config;
    struct config_diff d;

    run_config_diff(&d, config, next, 0);
    for (size_t i = 0; i < d.n; i++) {
        const size_t agent = d.list[i].agent;

        if (d.list[i].kind != CHANGE_RESPAWN || agent >= config->n_agents)
            continue;
        r->agents[agent] = 1;
        if (agent == rollout_central_settings(config))
            r->agents[config->n_agents] = 1;
    }
    config_diff_done(&d);
}

/* Takes a snapshot of each replaced agent's present block, so that no request from before
 * the change is replayed with the new configuration. UV_EAGAIN: an agent is being
 * restarted. */
static int hold_blocks(const struct renewal *r)
{
    const void *block;
    size_t len;
    int rc = 0;

    for (size_t i = 0; i < agent_table_count(r->t->agents) && rc == 0; i++)
        if (r->agents[i])
            rc = agent_table_block(r->t->agents, i, &block, &len, r->err);
    return rc;
}

/* An agent that was given up is not respawned. */
static void renew(const struct renewal *r)
{
    for (size_t i = 0; i < agent_table_count(r->t->agents); i++)
        if (r->agents[i]) {
            (void)agent_table_respawn(r->t->agents, i, NULL);
            if (r->t->graphs != NULL)
                graphs_expire(r->t->graphs, i);
        }
}

/* Passes the configured limits to the tables of processes. */
static void set_limits(struct training *t)
{
    const struct run_config *c = t->config;

    for (size_t i = 0; i < agent_table_count(t->agents); i++) {
        const struct agent_limits limits = agent_specs_limits_at(&t->specs, c, i);

        agent_table_set_limits(t->agents, i, &limits);
    }
    env_host_set_limits(t->env_host, &c->env);
    training_send_watchdog(t);
}

void training_send_watchdog(const struct training *t)
{
    if (t->args->keeper != NULL)
        keeper_send_watchdog(t->args->keeper, (int64_t)(t->config->run.watchdog_s * 1e3));
}

/* Returns the planned change that gives the key its new value; NULL: none. */
static const struct planned_change *cause_of(const struct training *t, const char *path)
{
    const struct change_plan *p = &t->changes.plan;
    const uint64_t step = training_steps(t);
    const struct planned_change *ret = NULL;

    for (size_t i = 0; i < p->n && p->list[i].at <= step; i++)
        if (strcmp(p->list[i].set.path, path) == 0)
            ret = &p->list[i];
    return ret;
}

/* Returns the changed values as a text for the event; free(). A schedule appears as it
 * was written when it begins, and with its last value when it ends. */
static char *news_text(const struct training *t, const struct run_config *next)
{
    struct config_settings changes = {0}, news = {0};
    char *text;

    run_config_diff_settings(&changes, t->config, next, ~0u);
    for (size_t i = 0; i < changes.n; i++) {
        const struct planned_change *cause = cause_of(t, changes.list[i].path);
        struct config_setting one;

        if (cause != NULL && cause->part == CHANGE_MIDWAY)
            continue;
        one = config_setting_copy(&changes.list[i]);
        if (cause != NULL && cause->part == CHANGE_BEGINS)
            one.schedule = cause->set.schedule;
        config_settings_add(&news, one);
    }
    text = config_settings_text(&news);
    config_settings_done(&changes);
    config_settings_done(&news);
    return text;
}

/* What was the run's length as it began is a number of its own: another length must change no
 * weights. */
static void tell_of_length(struct training *t, const struct run_config *was,
                           const struct run_config *next)
{
    const struct priority_config *p = &next->experience.priority;
    const int in_steps = p->over > 0;
    const double over = in_steps ? p->over : p->over_episodes;

    if (run_length_is_same(run_length_of(was), run_length_of(next)) ||
        !next->experience.has_priority || over <= 0 || p->beta == p->beta_to ||
        over == (double)(in_steps ? next->run.env_steps : next->run.episodes))
        return;
    training_log(t,
                 "experience.priority.%s stays %.0f, whatever the length of the run; "
                 "`brood set` changes it",
                 in_steps ? "over" : "over_episodes", over);
}

/* Puts *next in force, and takes ownership of it. */
static int put_in_force(struct training *t, struct run_config *next, struct err *err)
{
    const struct run_config *was = t->config;
    const uint64_t step = training_steps(t);
    char *text = news_text(t, next);
    int rc;

    t->config = next;
    free(t->changes.config_yaml);
    t->changes.config_yaml = NULL;
    change_plan_drop(&t->changes.plan, step);
    update_pending(t);
    training_plan_changes(t);
    set_limits(t);
    if (*text != '\0') {
        training_event(t, CHANGED, .change = {.at = MEMBER_NO_U64, .changes = text});
        training_log(t, "from step %" PRIu64 " on: %s", step, text);
    }
    free(text);
    tell_of_length(t, was, next);
    rc = rollout_change(t->rollout, was, next, err);
    drop_config(t, was);
    return rc;
}

static int make_changes(struct training *t, struct err *err)
{
    struct run_config *next = xcalloc(1, sizeof(*next));
    struct renewal r = {t, err, xcalloc(agent_table_count(t->agents), 1)};
    int rc = change_plan_fold(&t->changes.plan, training_steps(t), t->config, next, err);

    if (rc == 0) {
        find_renewed(&r, next);
        rc = hold_blocks(&r);
    }
    if (rc == 0) {
        rc = put_in_force(t, next, err);
        renew(&r);
    } else {
        run_config_done(next);
        free(next);
    }
    free(r.agents);
    return rc;
}

struct run_length training_length(void *ctx, uint64_t env_steps)
{
    const struct training *t = ctx;

    return change_plan_length(&t->changes.plan, t->config, env_steps);
}

int training_on_change(void *ctx, const struct rollout_progress *at, struct err *err)
{
    struct training *t = ctx;
    int rc;

    rc = make_changes(t, err);
    if (rc != UV_EAGAIN)
        return rc;
    training_feed(t, LIFE_EV_CHANGE_WAITS, NULL);
    return ROLLOUT_CHANGE_WAITS;
}

void training_retry_change(struct training *t)
{
    struct err err = {0};
    int rc = make_changes(t, &err);

    if (rc == UV_EAGAIN)
        return;
    training_feed(t, LIFE_EV_CHANGE_MADE, NULL);
    if (rc < 0)
        training_fail(t, &err);
    else if (rc == 0)
        rollout_change_made(t->rollout);
}
