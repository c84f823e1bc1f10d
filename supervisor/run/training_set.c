/* Accepts changes of a live run's configuration for a later step, refuses them, and
 * cancels them. Accepted changes take effect in training_change.c. */
#include "supervisor/run/training_internal.h"

#include "common/ckpt/atomic_file.h"
#include "common/config/changes.h"
#include "common/config/run_schema.h"
#include "common/mem/size_text.h"
#include "common/mem/xmalloc.h"
#include "common/text/scan.h"
#include "supervisor/run/live_changes.h"
#include "supervisor/run/trial.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ---- checks ---- */

static int choose_step(const struct training *t, uint64_t at,
                       struct training_set_result *ret, struct err *err)
{
    const uint64_t next = training_next_change(t);

    ret->at = at == TRAINING_SOON ? next : at;
    if (ret->at < next)
        return err_set(err, ERR_CONFIG,
                       "step %" PRIu64 " is past: the next round begins at %" PRIu64, at,
                       next);
    if (at != TRAINING_SOON && *ret->waits != '\0')
        return err_set(
            err, ERR_CONFIG,
            "%s: takes effect with a respawn of its agent, not at a step (leave out "
            "--at-step)",
            ret->waits);
    return 0;
}

struct tried {
    struct training *t;
    const struct run_config *wanted;
    size_t agent;    /* the one that is being tried */
    uint8_t *agents; /* 1 for each agent whose process would be replaced */
};

static void collect_tried(void *ctx, const struct config_change *c)
{
    struct tried *x = ctx;

    if (c->kind == CHANGE_RESPAWN && c->agent < x->wanted->n_agents)
        x->agents[c->agent] = 1;
}

static void pack_tried(void *ctx, size_t agent, int restored, struct msg_out *o)
{
    const struct tried *x = ctx;

    (void)agent; /* 0: a trial's table has one process */
    rollout_pack_configure(x->wanted, vec_env_spec(x->t->env), x->agent, restored,
                           policies_of(x->t->args->policies, x->agent), o);
}

/* Tries the configurations that respawned agents will get, so that wrong ones are refused
 * now. */
static int try_processes(struct training *t, const struct run_config *wanted,
                         struct err *err)
{
    struct tried x = {t, wanted, 0, xcalloc(wanted->n_agents, 1)};
    int rc = 0;

    if (t->rollout != NULL && t->config->n_agents == wanted->n_agents)
        run_config_compare(&t->wanted, wanted, collect_tried, &x);
    for (; x.agent < wanted->n_agents && rc == 0; x.agent++) {
        struct agent_spec spec = t->specs.spec[x.agent];

        spec.pack_configure = pack_tried;
        if (x.agents[x.agent])
            rc = trial_configure(t->agent_fd, &spec, &x,
                                 agent_table_description(t->agents, x.agent), err);
    }
    free(x.agents);
    return rc;
}

struct group_check {
    const struct training *t;
    struct err *err;
    int rc;
};

/* A process of the group that is started with another setting would no longer fit the
 * others. */
static void refuse_in_group(void *ctx, const struct config_change *c)
{
    struct group_check *x = ctx;
    const struct sharing *s = &x->t->specs.sharing;

    if (x->rc == 0 && c->kind == CHANGE_RESPAWN && c->agent < x->t->config->n_agents &&
        s->group_of[c->agent] != SHARING_NONE)
        x->rc = err_set(x->err, ERR_CONFIG,
                        "%s cannot change while the run lives: its agent shares "
                        "parameters through %s, and one process of a group cannot be "
                        "replaced by a different one",
                        c->path, s->groups[s->group_of[c->agent]].ps);
}

/* Agents that share parameters have the same settings, before and after. */
static int check_sharing(const struct training *t, const struct run_config *wanted,
                         struct err *err)
{
    struct group_check x = {.t = t, .err = err};

    if (wanted->n_agents != t->config->n_agents)
        return 0;
    run_config_compare(&t->wanted, wanted, refuse_in_group, &x);
    return x.rc < 0 ? x.rc : sharing_check(wanted, vec_env_spec(t->env), err);
}

/* Refuses a memory limit below the current use: the process would only be killed. */
static int check_memory(const struct training *t, const struct run_config *wanted,
                        struct err *err)
{
    const size_t n = agent_table_count(t->agents);

    for (size_t i = 0; i < n && i < wanted->n_agents && i < t->wanted.n_agents; i++) {
        const int64_t limit = wanted->agents[i].memory_limit_bytes;
        struct agent_info info;

        agent_table_info(t->agents, i, &info);
        if (limit > 0 && limit != t->wanted.agents[i].memory_limit_bytes &&
            info.rss_bytes > limit)
            return err_set(
                err, ERR_CONFIG,
                "agents.%s.memory_limit: %s is less than the %s that it takes "
                "now",
                info.name, size_text_limit((uint64_t)limit, (char[SIZE_TEXT_BYTES]){0}),
                size_text_limit((uint64_t)info.rss_bytes, (char[SIZE_TEXT_BYTES]){0}));
    }
    return 0;
}

/* Refuses pictures that could not be drawn. */
static int check_render(const struct training *t, const struct run_config *wanted,
                        struct err *err)
{
    if (wanted->evaluation.render == t->wanted.evaluation.render)
        return 0;
    if (renders_check(wanted, err) < 0)
        return ERR_CONFIG;
    if (wanted->evaluation.render != RENDER_NONE && !t->draws_env &&
        env_config_is_external(&wanted->env))
        return err_set(err, ERR_CONFIG,
                       "evaluation.render: an environment of a program is asked for "
                       "pictures as the run begins; `brood stop`, then `brood resume %s "
                       "--set evaluation.render=gif`",
                       run_dir_path(t->args->dir));
    return 0;
}

/* ---- proposals ---- */

/* The result of a change, before it is accepted. */
struct proposal {
    uint64_t at;
    struct config_settings changes; /* take effect at that step */
    struct config_settings waits;   /* differences that take a respawn */
    struct change_plan plan;        /* t->plan with the changes */
    struct run_config wanted;       /* t->wanted with both */
    struct atomic_file *file;       /* the new config.yaml, before its rename */
};

static void proposal_done(struct proposal *p)
{
    config_settings_done(&p->changes);
    config_settings_done(&p->waits);
    change_plan_done(&p->plan);
    run_config_done(&p->wanted);
    atomic_file_free(p->file);
}

static int has_length(const struct config_settings *s)
{
    for (size_t i = 0; i < s->n; i++)
        if (run_length_is_key(s->list[i].path))
            return 1;
    return 0;
}

/* A length that the run has exceeded would end it at once, which `brood stop` is for; one that
 * it does not get to would never be in force. */
static int check_length(const struct training *t, const struct run_config *wanted,
                        const struct proposal *p, struct err *err)
{
    struct rollout_progress now = {0};
    struct err why = {0};

    if (!has_length(&p->changes))
        return 0;
    if (t->rollout != NULL)
        rollout_progress(t->rollout, &now);
    if (t->rollout != NULL && rollout_is_at_end(t->rollout))
        return err_set(err, ERR_STATE,
                       "the run has reached its end; `brood resume %s --set "
                       "run.env_steps=N` extends it",
                       run_dir_name(t->args->dir));
    if (change_plan_check_lengths(&p->plan, t->config, training_next_change(t),
                                  now.episodes, &why) == 0)
        return 0;
    return err_set(err, ERR_CONFIG, "%s; %s", why.msg,
                   run_length_is_reached(run_length_of(wanted), p->at, now.episodes)
                       ? "`brood stop` ends the run"
                       : "a length that is set without --at-step counts at once");
}

/* Checks that the configuration is valid after each step of the plan. p->wanted becomes
 * the result of the plan with the values that `wanted` has for respawns. */
static int fold_proposal(const struct training *t, const struct run_config *wanted,
                         struct proposal *p, struct err *err)
{
    const int rc = change_plan_fold(&p->plan, UINT64_MAX, t->config, &p->wanted, err);

    if (rc == 0)
        run_config_take(&p->wanted, wanted, 1u << CHANGE_RESPAWN);
    return rc;
}

static int check_step(void *ctx, const struct run_config *c, struct err *err)
{
    const struct training *t = ctx;
    const int rc = live_changes_check_rows(t->config, c, "while the run lives", err);

    return rc < 0 ? rc : sharing_check(c, vec_env_spec(t->env), err);
}

int training_check_plan(struct training *t, const struct change_plan *p, struct err *err)
{
    return change_plan_check(p, t->config, check_step, t, err);
}

/* A respawn replaces the process of one agent: what waits for it has to be possible before the
 * other agents have what waits for them. */
static int check_waiting(struct training *t, const struct proposal *p, struct err *err)
{
    struct err why = {0};
    int rc = 0;

    for (size_t i = 0; i < p->wanted.n_agents && rc == 0; i++)
        rc = training_check_waiting(t, &p->plan, &p->wanted, i, &why);
    if (rc < 0)
        return err_set(err, rc,
                       "%s; respawns, for which the change would wait, replace one "
                       "agent at a time",
                       why.msg);
    return 0;
}

/* If there is no space for the new config.yaml, the change must be refused before the
 * journal records it, because a resume compares the two. */
static int prepare_file(struct training *t, struct proposal *p, struct err *err)
{
    return run_dir_prepare_config(t->args->dir, &p->wanted, &p->file, err);
}

static int write_journal(struct training *t, struct proposal *p, struct err *err)
{
    int rc;

    if (p->changes.n == 0 && p->waits.n == 0)
        return 0;
    rc = prepare_file(t, p, err);
    if (rc == 0)
        rc = training_write_settings(t, RUN_EVENT_WAITS, MEMBER_NO_U64, &p->waits, err);
    return rc < 0 ? rc
                  : training_write_settings(t, RUN_EVENT_SET, p->at, &p->changes, err);
}

/* Accepts the proposal: moves its plan and configuration into t, and renames
 * config.yaml. */
static void commit(struct training *t, struct proposal *p)
{
    struct err why = {0};

    change_plan_done(&t->plan);
    t->plan = p->plan;
    p->plan = (struct change_plan){0};
    run_config_done(&t->wanted);
    t->wanted = p->wanted;
    p->wanted = (struct run_config){0};
    t->config_is_old = atomic_file_commit(p->file, &why) < 0;
    if (t->config_is_old)
        training_log_error(t, "config.yaml could not be written: %s", why.msg);
    if (training_update_pending(t, &why) < 0)
        training_log_error(t, "pending changes cannot be listed: %s", why.msg);
    training_plan_changes(t);
}

/* The changes that wait for a respawn in `wanted`, but not yet in t->wanted. */
static int waits_text(const struct training *t, const struct run_config *wanted,
                      char **ret, struct err *err)
{
    struct config_settings waits = {0};
    struct run_config planned;
    int rc = training_fold_plan(t, &planned, err);

    if (rc < 0)
        return rc;
    run_config_differences_beyond(&waits, &t->wanted, &planned, wanted,
                                  1u << CHANGE_RESPAWN);
    *ret = config_settings_text(&waits);
    config_settings_done(&waits);
    run_config_done(&planned);
    return 0;
}

static int check_can_change(const struct training *t, struct err *err)
{
    if (!life_state_is_ending(t->state) && t->committed)
        return 0;
    return err_set(err, ERR_STATE, "the run is %s",
                   life_state_is_ending(t->state) ? "ending" : "starting: try again");
}

static int propose(struct training *t, const struct run_config *wanted, uint64_t at,
                   const struct config_settings *given, struct proposal *p,
                   struct training_set_result *ret, struct err *err)
{
    int rc;

    run_config_differences(&p->changes, &t->wanted, wanted, CHANGE_KINDS_LIVE);
    for (size_t i = 0; i < given->n; i++)
        config_settings_replace(&p->changes, &given->list[i]);
    run_config_differences(&p->waits, &t->wanted, wanted, 1u << CHANGE_RESPAWN);
    ret->changes = config_settings_text(&p->changes);
    if ((rc = waits_text(t, wanted, &ret->waits, err)) < 0 ||
        (rc = choose_step(t, at, ret, err)) < 0 ||
        (rc = check_sharing(t, wanted, err)) < 0 ||
        (rc = check_render(t, wanted, err)) < 0)
        return rc;
    p->at = ret->at;
    change_plan_copy(&p->plan, &t->plan);
    change_plan_add_all(&p->plan, p->at, &p->changes);
    if ((rc = check_length(t, wanted, p, err)) < 0 ||
        (rc = fold_proposal(t, wanted, p, err)) < 0 ||
        (rc = training_check_plan(t, &p->plan, err)) < 0 ||
        (rc = check_waiting(t, p, err)) < 0 || (rc = check_memory(t, wanted, err)) < 0)
        return rc;
    return try_processes(t, &p->wanted, err);
}

/* Checks and accepts the differences between t->wanted and *wanted, and the settings in
 * `given`. Takes *wanted, also on failure. */
static int accept_config(struct training *t, struct run_config *wanted, uint64_t at,
                         const struct config_settings *given,
                         struct training_set_result *ret, struct err *err)
{
    struct proposal p = {0};
    int rc = check_can_change(t, err);

    if (rc == 0)
        rc = live_changes_check(&t->wanted, wanted, run_dir_path(t->args->dir),
                                "while the run lives", err);
    if (rc == 0)
        rc = propose(t, wanted, at, given, &p, ret, err);
    if (rc == 0)
        rc = write_journal(t, &p, err);
    if (rc < 0)
        training_set_result_done(ret);
    else if (p.changes.n > 0 || p.waits.n > 0)
        commit(t, &p);
    proposal_done(&p);
    run_config_done(wanted);
    return rc;
}

/* The key of an agent's section, which `defaults` and teams have, too: "discount" of
 * "agents.agent_0.discount" and of "defaults.discount". Of another key, the whole path. */
static const char *key_of(const char *path)
{
    const char *key = text_after(path, "defaults."), *agent, *dot;

    if (key != NULL)
        return key;
    agent = text_after(path, "agents.");
    dot = agent != NULL ? strchr(agent, '.') : NULL;
    return dot != NULL ? dot + 1 : path;
}

struct planned {
    const char *path;
    int is; /* the key, of some agent, has a schedule or a change that is pending */
};

static int match_planned(void *ctx, const struct planned_change *c)
{
    struct planned *x = ctx;

    x->is |= strcmp(key_of(c->set.path), key_of(x->path)) == 0;
    return 0;
}

/* Keeps only the given values of keys that have other values later, planned or given: they
 * are changes even if config.yaml has them already, because it has the last of these, and
 * any given value replaces a schedule. */
static void keep_those_of_planned(const struct training *t, struct config_settings *given)
{
    struct config_settings kept = {0};

    for (size_t i = 0; i < given->n; i++) {
        struct planned x = {given->list[i].path, given->list[i].schedule.over > 0};

        (void)change_plan_each_request(&t->plan, match_planned, &x);
        if (x.is)
            config_settings_add(&kept, config_setting_copy(&given->list[i]));
    }
    config_settings_done(given);
    *given = kept;
}

int training_set(struct training *t, const char *const *set, size_t n, uint64_t at,
                 struct training_set_result *ret, struct err *err)
{
    struct config_settings given = {0};
    struct run_config wanted;
    int rc;

    *ret = (struct training_set_result){0};
    rc = run_config_assign_live(&wanted, &t->wanted, set, n, &given, err);
    keep_those_of_planned(t, &given);
    if (rc == 0)
        rc = accept_config(t, &wanted, at, &given, ret, err);
    config_settings_done(&given);
    return rc;
}

static int same_text(const char *a, const char *b)
{
    return a == NULL || b == NULL ? a == b : strcmp(a, b) == 0;
}

/* The names of an external environment's agents: those that its processes returned at the
 * start of the run. */
static int env_names(void *ctx, const struct env_config *env, const char *const **ret,
                     struct err *err)
{
    struct training *t = ctx;
    const struct run_config *c = t->config;

    if (!env_config_is_external(env))
        return env_agent_names(NULL, env, ret, err);
    if (!same_text(env->id, c->env.id) || !same_text(env->plugin, c->env.plugin) ||
        !same_text(env->directory, c->env.directory) ||
        !yaml_tree_equal(env->command, c->env.command) ||
        !yaml_tree_equal(env->params, c->env.params))
        return err_set(err, ERR_STATE,
                       "the environment of a live run cannot be replaced; stop the run, "
                       "and begin a new one");
    t->agent_names = xreallocarray(t->agent_names, c->n_agents, sizeof(*t->agent_names));
    for (size_t i = 0; i < c->n_agents; i++)
        t->agent_names[i] = c->agents[i].name;
    *ret = t->agent_names;
    return (int)c->n_agents;
}

int training_reread(struct training *t, struct training_set_result *ret, struct err *err)
{
    const struct config_options options = {.env_names = env_names, .env_ctx = t};
    const struct config_settings none = {0};
    struct run_config wanted;
    int rc;

    *ret = (struct training_set_result){0};
    rc = run_config_read(&wanted, run_dir_file(t->args->dir, "config.yaml"), &options,
                         err);
    return rc < 0 ? rc : accept_config(t, &wanted, TRAINING_SOON, &none, ret, err);
}

void training_set_result_done(struct training_set_result *r)
{
    free(r->changes);
    free(r->waits);
    *r = (struct training_set_result){0};
}

/* ---- cancelling ---- */

struct cancellation {
    struct training *t;
    const char *const *keys; /* n 0: all */
    size_t n;
    uint8_t *found;              /* [n] 1 for each key for which a change was pending */
    uint8_t *numbers;            /* 1 for each request of the plan that is cancelled */
    struct config_settings kept; /* the changes that still wait for a respawn */
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

static void cancel_waiting(void *ctx, const struct config_change *c)
{
    struct cancellation *x = ctx;
    const struct run_config *config = x->t->args->config;
    struct config_setting s;

    if (c->kind != CHANGE_RESPAWN || c->agent >= config->n_agents)
        return;
    s = config_change_setting(c);
    if (is_cancelled(x, c->path, c->key)) {
        training_pending_add(&x->t->cancelled, &s, RUN_UNKNOWN,
                             config->agents[c->agent].name);
        free(s.path);
    } else {
        config_settings_add(&x->kept, s);
    }
}

/* A change of `defaults` is kept as long as an agent waits for its value. */
static void keep_defaults(void *ctx, const struct config_change *c)
{
    struct cancellation *x = ctx;

    if (c->kind != CHANGE_RESPAWN || c->agent != x->t->wanted.n_agents)
        return;
    for (size_t i = 0; i < x->kept.n; i++) {
        const char *path = x->kept.list[i].path;
        const size_t n = strlen(path), k = strlen(c->key);

        if (n > k && strcmp(path + n - k, c->key) == 0 && path[n - k - 1] == '.') {
            config_settings_add(&x->kept, config_change_setting(c));
            return;
        }
    }
}

/* Changes for a respawn that was requested already are not cancelled: the request waits
 * for them. */
static int cancel_request(void *ctx, const struct planned_change *c)
{
    struct cancellation *x = ctx;

    if (c->set.field->change != CHANGE_RESPAWN && is_cancelled(x, c->set.path, NULL)) {
        training_pending_add(&x->t->cancelled, &c->set, c->at, NULL);
        x->numbers[c->number] = 1;
    }
    return 0;
}

static void cancel_planned(struct cancellation *x, struct change_plan *plan)
{
    x->numbers = xcalloc(plan->n_requests + 1, 1);
    (void)change_plan_each_request(plan, cancel_request, x);
    for (size_t i = plan->n; i > 0; i--)
        if (x->numbers[plan->list[i - 1].number])
            change_plan_remove(plan, i - 1);
    free(x->numbers);
}

static int check_found(const struct cancellation *x, struct err *err)
{
    const struct pending_list *p = &x->t->pending;

    for (size_t i = 0; i < x->n; i++) {
        if (x->found[i])
            continue;
        for (size_t k = 0; k < p->n; k++)
            if (strcmp(p->list[k].key, x->keys[i]) == 0)
                return err_set(err, ERR_CONFIG,
                               "%.160s: is being applied with the respawn of its agent",
                               x->keys[i]);
        return err_set(err, ERR_CONFIG,
                       "%.160s: nothing is pending for this key (`brood status` lists "
                       "what is)",
                       x->keys[i]);
    }
    return 0;
}

/* The cancelled changes as "KEY@STEP,KEY" (change_plan.h). */
static char *cancelled_text(const struct pending_list *p)
{
    struct xstream text;
    FILE *f = xstream_begin(&text);

    for (size_t i = 0; i < p->n; i++) {
        (void)fprintf(f, "%s%s", i > 0 ? "," : "", p->list[i].key);
        if (p->list[i].at != RUN_UNKNOWN)
            (void)fprintf(f, "@%" PRIu64, p->list[i].at);
    }
    return xstream_end(&text);
}

/* *p: plan and configuration without the cancelled changes. */
static int propose_without(struct cancellation *x, struct proposal *p, struct err *err)
{
    struct training *t = x->t;
    struct run_config planned;
    int rc = training_fold_plan(t, &planned, err);

    if (rc < 0)
        return rc;
    change_plan_copy(&p->plan, &t->plan);
    cancel_planned(x, &p->plan);
    run_config_compare(&planned, &t->wanted, cancel_waiting, x);
    run_config_compare(&planned, &t->wanted, keep_defaults, x);
    run_config_done(&planned);
    rc = check_found(x, err);
    if (rc == 0)
        rc = change_plan_fold(&p->plan, UINT64_MAX, t->config, &p->wanted, err);
    if (rc == 0)
        rc = training_check_plan(t, &p->plan, err);
    for (size_t i = 0; i < x->kept.n && rc == 0; i++)
        run_config_set_only(&p->wanted, &x->kept.list[i]);
    return rc < 0 ? rc : try_processes(t, &p->wanted, err);
}

int training_cancel(struct training *t, const char *const *keys, size_t n,
                    const struct run_pending **ret, size_t *ret_n, struct err *err)
{
    struct cancellation x = {.t = t, .keys = keys, .n = n, .found = xcalloc(n + 1, 1)};
    struct proposal p = {0};
    int rc = check_can_change(t, err);

    training_pending_done(&t->cancelled);
    if (rc == 0)
        rc = propose_without(&x, &p, err);
    if (rc == 0 && t->cancelled.n > 0) {
        char *text = cancelled_text(&t->cancelled);

        const struct run_event e = {.kind = RUN_EVENT_CANCEL,
                                    .env_steps = training_steps(t),
                                    .change = {.at = MEMBER_NO_U64, .changes = text}};

        rc = prepare_file(t, &p, err);
        if (rc == 0)
            rc = training_event_at(t, &e, err);
        if (rc == 0) {
            commit(t, &p);
            training_log(t, "cancelled: %s", text);
        }
        free(text);
    }
    *ret = t->cancelled.list;
    *ret_n = t->cancelled.n;
    proposal_done(&p);
    config_settings_done(&x.kept);
    free(x.found);
    return rc;
}
