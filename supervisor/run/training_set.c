/* Accepts changes of a live run's configuration for a later step, refuses them, and
 * cancels them. Accepted changes take effect in training_change.c. */
#include "supervisor/run/training_internal.h"

#include "common/ckpt/atomic_file.h"
#include "common/config/changes.h"
#include "common/mem/size_text.h"
#include "common/mem/xmalloc.h"
#include "supervisor/begin/live_changes.h"
#include "supervisor/begin/trial.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum request_kind { REQUEST_SET, REQUEST_REREAD, REQUEST_CANCEL };

/* A request to change the configuration, or to cancel changes. They are served in order, one at
 * a time: while processes try what the first one would make of their agents' configurations,
 * the run goes on and the others wait. */
struct change_request {
    enum request_kind kind;
    char **words; /* [n], owned: "KEY=VALUE" of SET, "KEY" of CANCEL */
    size_t n;
    uint64_t at; /* of SET */
    training_set_fn fn;
    void *ctx;
    uint8_t *agents; /* 1 where a process has to try its configuration; NULL: none has */
    struct run_config tried; /* what they try; [n_agents] agents */
    size_t agent;            /* the one that is being tried */
    struct agent_spec spec;  /* of its process */
    struct change_request *next;
};

/* ---- checks ---- */

/* A process of the group that is started with another setting would no longer fit the
 * others. */
static int check_groups(const struct training *t, const struct run_config *wanted,
                        struct err *err)
{
    const struct sharing *s = &t->specs.sharing;
    struct config_diff d;
    int rc = 0;

    run_config_diff(&d, &t->changes.wanted, wanted, 0);
    for (size_t i = 0; i < d.n && rc == 0; i++) {
        const struct config_change *c = &d.list[i];

        if (c->kind == CHANGE_RESPAWN && c->agent < t->config->n_agents &&
            s->group_of[c->agent] != SHARING_NONE)
            rc = err_set(err, ERR_CONFIG,
                         "%s cannot change while the run lives: its agent shares "
                         "parameters through %s, and one process of a group cannot be "
                         "replaced by a different one",
                         c->path, s->groups[s->group_of[c->agent]].ps);
    }
    config_diff_done(&d);
    return rc;
}

/* Agents that share parameters have the same settings, before and after. */
static int check_sharing(const struct training *t, const struct run_config *wanted,
                         struct err *err)
{
    int rc;

    if (wanted->n_agents != t->config->n_agents)
        return 0;
    rc = check_groups(t, wanted, err);
    return rc < 0 ? rc : sharing_check(wanted, vec_env_spec(t->env), err);
}

/* Refuses a memory limit below the current use: the process would only be killed. */
static int check_memory(const struct training *t, const struct run_config *wanted,
                        struct err *err)
{
    const size_t n = agent_table_count(t->agents);

    for (size_t i = 0; i < n && i < wanted->n_agents && i < t->changes.wanted.n_agents;
         i++) {
        const int64_t limit = wanted->agents[i].memory_limit_bytes;
        struct agent_info info;

        agent_table_info(t->agents, i, &info);
        if (limit > 0 && limit != t->changes.wanted.agents[i].memory_limit_bytes &&
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
    const int by_images = wanted->log.images && !t->changes.wanted.log.images;

    if (wanted->evaluation.render == t->changes.wanted.evaluation.render && !by_images)
        return 0;
    if (renders_check(wanted, err) < 0)
        return ERR_CONFIG;
    if (renders_are_wanted(wanted) && !t->draws_env &&
        env_config_is_external(&wanted->env))
        return err_set(err, ERR_CONFIG,
                       "%s: an environment of a program is asked for "
                       "pictures as the run begins; `brood stop`, then `brood resume %s "
                       "--set %s`",
                       by_images ? "log.images" : "evaluation.render",
                       run_dir_path(t->args->dir),
                       by_images ? "log.images=true" : "evaluation.render=gif");
    return 0;
}

/* ---- proposals ---- */

static int check_step(void *ctx, uint64_t at, const struct run_config *c, struct err *err)
{
    const struct training *t = ctx;
    const int rc = live_changes_check_rows(t->config, c, "while the run lives", err);

    return rc < 0 ? rc : sharing_check(c, vec_env_spec(t->env), err);
}

int training_check_plan(struct training *t, const struct change_plan *p, struct err *err)
{
    return change_plan_each_step(p, t->config, check_step, t, err);
}

/* Whether agents i and i - 1 differ only in their names, in `wanted` as in what is in force. */
static int is_like_last(const struct training *t, const struct run_config *wanted,
                        size_t i)
{
    const struct env_spec *env = vec_env_spec(t->env);

    return i > 0 && trial_is_like_last(wanted, env, i) &&
           trial_is_like_last(t->config, env, i);
}

/* A respawn replaces the process of one agent: what waits for it has to be possible before the
 * other agents have what waits for them. */
static int check_waiting(struct training *t, const struct proposal *p, struct err *err)
{
    const struct planned_change *list = p->plan.list;
    const size_t first = change_plan_waiting(&p->plan);
    int rc = 0;

    for (size_t i = first; i < p->plan.n && rc == 0; i++) {
        const size_t agent = list[i].agent;
        struct change_plan plan;
        struct config_settings changes = {0};
        struct err why = {0};

        if (agent == t->config->n_agents || (i > first && list[i - 1].agent == agent) ||
            is_like_last(t, &p->wanted, agent))
            continue;
        if (training_plan_waiting(t, &p->plan, agent, &plan, &changes, &why) < 0)
            rc = err_set(err, why.code,
                         "%s; respawns, for which the change would wait, replace one "
                         "agent at a time",
                         why.msg);
        change_plan_done(&plan);
        config_settings_done(&changes);
    }
    return rc;
}

/* If there is no space for the new config.yaml, the change must be refused before the
 * journal records it, because a resume compares the two. */
static int prepare_file(struct training *t, const struct proposal *p,
                        struct atomic_file **ret, struct err *err)
{
    return run_dir_prepare_config(t->args->dir, &p->wanted, ret, err);
}

static int write_journal(struct training *t, const struct proposal *p,
                         struct atomic_file **ret_file, struct err *err)
{
    int rc;

    if (p->changes.n == 0 && p->waits.n == 0)
        return 0;
    rc = prepare_file(t, p, ret_file, err);
    if (rc == 0)
        rc = training_write_settings(t, RUN_EVENT_WAITS, MEMBER_NO_U64, &p->waits, err);
    return rc < 0 ? rc
                  : training_write_settings(t, RUN_EVENT_SET, p->at, &p->changes, err);
}

/* Accepts the proposal: moves its plan and configuration into t, and renames
 * config.yaml. */
static void commit(struct training *t, struct proposal *p, struct atomic_file *file)
{
    struct err why = {0};

    training_take_plan(t, &p->plan);
    run_config_done(&t->changes.wanted);
    t->changes.wanted = p->wanted;
    p->wanted = (struct run_config){0};
    t->changes.is_unwritten = atomic_file_commit(file, &why) < 0;
    if (t->changes.is_unwritten)
        training_log_error(t, "config.yaml could not be written: %s", why.msg);
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
    t->changes.agent_names = xreallocarray(t->changes.agent_names, c->n_agents,
                                           sizeof(*t->changes.agent_names));
    for (size_t i = 0; i < c->n_agents; i++)
        t->changes.agent_names[i] = c->agents[i].name;
    *ret = t->changes.agent_names;
    return (int)c->n_agents;
}

/* *ret: config.yaml as a user has edited it; run_config_done, also on failure. */
static int read_edited(struct training *t, struct run_config *ret, struct err *err)
{
    const struct config_options options = {.env_names = env_names, .env_ctx = t};

    if (t->changes.is_unwritten)
        return err_set(err, ERR_STATE,
                       "config.yaml could not be written, and lacks changes that were "
                       "accepted; the next checkpoint tries again");
    return run_config_read(ret, run_dir_file(t->args->dir, "config.yaml"), &options, err);
}

/* Proposes what the request, SET or REREAD, asks for. */
static int propose_change(struct training *t, const struct change_request *r,
                          struct proposal *p, struct err *err)
{
    const struct live_config live = training_live(t);
    const struct config_settings none = {0};
    struct run_config is = {0}; /* t->changes.wanted with the assignments */
    int rc;

    if (r->kind == REQUEST_SET) {
        rc = proposal_set(p, &live, (const char *const *)r->words, r->n, r->at, &is, err);
    } else {
        rc = read_edited(t, &is, err);
        if (rc == 0)
            rc = proposal_make(p, &live, &is, &none, TRAINING_SOON, err);
    }
    if (rc == 0)
        rc = check_sharing(t, &is, err);
    if (rc == 0)
        rc = check_render(t, &is, err);
    if (rc == 0)
        rc = training_check_plan(t, &p->plan, err);
    if (rc == 0)
        rc = check_waiting(t, p, err);
    if (rc == 0)
        rc = check_memory(t, &is, err);
    run_config_done(&is);
    return rc;
}

static int accept_change(struct training *t, struct proposal *p, struct err *err)
{
    struct atomic_file *file = NULL;
    const int rc = write_journal(t, p, &file, err);

    if (rc == 0 && (p->changes.n > 0 || p->waits.n > 0))
        commit(t, p, file);
    atomic_file_free(file);
    return rc;
}

/* ---- cancelling ---- */

static void add_cancelled(void *ctx, const struct planned_change *c)
{
    struct training *t = ctx;

    training_pending_add(&t->changes.cancelled, t, c);
}

static int check_found(const struct training *t, const char *const *keys, size_t n,
                       const uint8_t *found, struct err *err)
{
    const struct pending_list *p = &t->changes.pending;

    for (size_t i = 0; i < n; i++) {
        if (found[i])
            continue;
        for (size_t k = 0; k < p->n; k++)
            if (strcmp(p->list[k].key, keys[i]) == 0)
                return err_set(err, ERR_CONFIG,
                               "%.160s: is being applied with the respawn of its agent",
                               keys[i]);
        return err_set(err, ERR_CONFIG,
                       "%.160s: nothing is pending for this key (`brood status` lists "
                       "what is)",
                       keys[i]);
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

/* Writes the event, then takes the proposal. */
static int accept_cancel(struct training *t, struct proposal *p, struct err *err)
{
    char *text = cancelled_text(&t->changes.cancelled);
    const struct run_event e = {.kind = RUN_EVENT_CANCEL,
                                .env_steps = training_steps(t),
                                .change = {.at = MEMBER_NO_U64, .changes = text}};
    struct atomic_file *file = NULL;
    int rc = prepare_file(t, p, &file, err);

    if (rc == 0)
        rc = training_event_at(t, &e, err);
    if (rc == 0) {
        commit(t, p, file);
        training_log(t, "cancelled: %s", text);
    }
    atomic_file_free(file);
    free(text);
    return rc;
}

/* Proposes to cancel what the request names, and lists it in t->changes.cancelled. */
static int propose_cancel(struct training *t, const struct change_request *r,
                          struct proposal *p, struct err *err)
{
    const struct live_config live = training_live(t);
    const char *const *keys = (const char *const *)r->words;
    uint8_t *found = xcalloc(r->n + 1, 1);
    int rc;

    training_pending_done(&t->changes.cancelled);
    rc = proposal_cancel(p, &live, keys, r->n, found, add_cancelled, t, err);
    if (rc == 0)
        rc = check_found(t, keys, r->n, found, err);
    free(found);
    return rc < 0 ? rc : training_check_plan(t, &p->plan, err);
}

/* ---- requests ---- */

static void pack_tried(void *ctx, size_t agent, int restored, struct msg_out *o)
{
    const struct training *t = ctx;
    const struct change_request *r = t->changes.requests;

    (void)agent; /* 0: a trial has one process */
    rollout_pack_configure(&r->tried, vec_env_spec(t->env), r->agent, restored,
                           policies_of(t->args->policies, r->agent), o);
}

static void on_tried(void *ctx, const struct err *why);

/* The agents that a respawn would give a configuration which no process has tried, one of each
 * group that differs only in its names: [n_agents], 1 for each; free(). NULL: there are none. */
static uint8_t *find_untried(const struct training *t, const struct change_request *r,
                             const struct run_config *wanted)
{
    const int was_tried = r->agents != NULL;
    uint8_t *ret = xcalloc(wanted->n_agents, 1);
    struct config_diff d;
    int n = 0;

    run_config_diff(&d, was_tried ? &r->tried : &t->changes.wanted, wanted, 0);
    for (size_t i = 0; i < d.n; i++)
        if (d.list[i].kind == CHANGE_RESPAWN && d.list[i].agent < wanted->n_agents)
            n += ret[d.list[i].agent] = 1;
    config_diff_done(&d);
    for (size_t i = wanted->n_agents; i-- > 1;)
        if (ret[i] && ret[i - 1] && is_like_last(t, wanted, i))
            ret[i] = 0;
    if (n > 0)
        return ret;
    free(ret);
    return NULL;
}

/* Lets the next process try the configuration that its agent would get with a respawn, so that
 * a wrong one is refused now. Returns 1: it has begun; 0: there is none; or the error. */
static int try_next(struct training *t, struct change_request *r, struct err *err)
{
    struct live_trial_args args = {.loop = &t->loop,
                                   .agent_exe_fd = t->agent_fd,
                                   .spec = &r->spec,
                                   .fn = on_tried,
                                   .ctx = t};
    int rc;

    while (r->agent < r->tried.n_agents && !r->agents[r->agent])
        r->agent++;
    if (r->agent == r->tried.n_agents)
        return 0;
    r->spec = t->specs.spec[r->agent];
    r->spec.pack_configure = pack_tried;
    args.now = agent_table_description(t->agents, r->agent);
    rc = trial_begin(&t->changes.trial, &args, err);
    return rc < 0 ? rc : 1;
}

/* Begins to try what no process has tried of `wanted`, which the request then takes. Returns as
 * try_next. */
static int try_changed(struct training *t, struct change_request *r,
                       struct run_config *wanted, struct err *err)
{
    uint8_t *agents = find_untried(t, r, wanted);

    if (agents == NULL)
        return 0;
    free(r->agents);
    run_config_done(&r->tried);
    r->agents = agents;
    r->agent = 0;
    r->tried = *wanted;
    *wanted = (struct run_config){0};
    return try_next(t, r, err);
}

static void answer(struct training *t, const struct training_set_result *result,
                   const struct err *why)
{
    struct change_request *r = t->changes.requests;

    t->changes.requests = r->next;
    r->fn(r->ctx, result, why);
    for (size_t i = 0; i < r->n; i++)
        free(r->words[i]);
    free(r->words);
    free(r->agents);
    run_config_done(&r->tried);
    free(r);
}

/* Proposes what the first request asks for. Processes try it first, if there are any for it. Then
 * it is proposed once more, because the run has gone on, and a user may have edited config.yaml
 * again; what differs is tried, too, and the rest accepted. */
static void serve(struct training *t)
{
    struct change_request *r = t->changes.requests;
    struct training_set_result result = {0};
    struct proposal p = {0};
    struct err why = {0};
    char *changes = NULL;
    int rc = 0;

    if (life_state_is_ending(t->state))
        rc = err_set(&why, ERR_STATE, "the run is ending");
    else if (!t->committed)
        rc = err_set(&why, ERR_STATE, "the run is starting: try again");
    else
        rc = r->kind == REQUEST_CANCEL ? propose_cancel(t, r, &p, &why)
                                       : propose_change(t, r, &p, &why);
    if (rc == 0 && t->rollout != NULL)
        rc = try_changed(t, r, &p.wanted, &why);
    if (rc == 0) {
        result.at = p.at;
        result.changes = changes = config_settings_text(&p.changes);
        result.waits = p.new_waits;
        rc = r->kind != REQUEST_CANCEL    ? accept_change(t, &p, &why)
             : t->changes.cancelled.n > 0 ? accept_cancel(t, &p, &why)
                                          : 0;
        result.cancelled = t->changes.cancelled.list;
        result.n_cancelled = r->kind == REQUEST_CANCEL ? t->changes.cancelled.n : 0;
    }
    if (rc <= 0)
        answer(t, &result, rc < 0 ? &why : NULL);
    proposal_done(&p);
    free(changes);
}

static void serve_all(struct training *t)
{
    while (t->changes.requests != NULL && t->changes.trial == NULL)
        serve(t);
}

static void on_tried(void *ctx, const struct err *why)
{
    struct training *t = ctx;
    struct change_request *r = t->changes.requests;
    struct err err = {0};
    int rc = why != NULL ? err_pass(&err, why) : 0;

    t->changes.trial = NULL;
    r->agent++;
    if (rc == 0)
        rc = try_next(t, r, &err);
    if (rc < 0)
        answer(t, NULL, &err);
    serve_all(t);
}

static void request(struct training *t, enum request_kind kind, const char *const *words,
                    size_t n, uint64_t at, training_set_fn fn, void *ctx)
{
    struct change_request *r = xcalloc(1, sizeof(*r)), **end = &t->changes.requests;
    const int is_first = t->changes.requests == NULL;

    r->kind = kind;
    r->words = xcalloc(n, sizeof(*r->words));
    for (; r->n < n; r->n++)
        r->words[r->n] = xstrdup(words[r->n]);
    r->at = at;
    r->fn = fn;
    r->ctx = ctx;
    while (*end != NULL)
        end = &(*end)->next;
    *end = r;
    if (is_first)
        serve_all(t);
}

void training_set(struct training *t, const char *const *set, size_t n, uint64_t at,
                  training_set_fn fn, void *ctx)
{
    request(t, REQUEST_SET, set, n, at, fn, ctx);
}

void training_cancel(struct training *t, const char *const *keys, size_t n,
                     training_set_fn fn, void *ctx)
{
    request(t, REQUEST_CANCEL, keys, n, 0, fn, ctx);
}

void training_reread(struct training *t, training_set_fn fn, void *ctx)
{
    request(t, REQUEST_REREAD, NULL, 0, 0, fn, ctx);
}

void training_refuse_changes(struct training *t)
{
    struct err why = {0};

    if (t->changes.trial != NULL)
        trial_abandon(t->changes.trial);
    t->changes.trial = NULL;
    (void)err_set(&why, ERR_STATE, "the run is ending");
    while (t->changes.requests != NULL)
        answer(t, NULL, &why);
}
