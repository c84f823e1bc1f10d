/* The configuration of a run changes while it goes on.
 *
 * Three of them: the one in force; `wanted`, which is config.yaml: with all that is
 * agreed; and between them the plan. What is in `wanted` but neither in force nor planned
 * waits for a respawn of its agent.
 */
#include "supervisor/run/training_internal.h"

#include "common/config/changes.h"
#include "common/log/log.h"
#include "common/mem/size_text.h"
#include "common/mem/xmalloc.h"
#include "common/wire/cursor.h"
#include "supervisor/run/trial.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { LIVE_KINDS = 1u << CHANGE_LIVE | 1u << CHANGE_SETTING };

/* ---- begin and end ---- */

int training_begin_config(struct training *t, struct err *err)
{
    const struct training_args *args = t->args;
    const struct run_config *wanted = args->wanted != NULL ? args->wanted : args->config;

    t->config = args->config;
    t->config_yaml = run_config_to_yaml(t->config);
    for (size_t i = 0; args->plan != NULL && i < args->plan->n; i++)
        change_plan_add(&t->plan, args->plan->list[i].at, args->plan->list[i].text);
    return run_config_assign(&t->wanted, wanted, NULL, 0, env_agent_names, err);
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
    run_config_done(&t->wanted);
    change_plan_done(&t->plan);
    free(t->config_yaml);
    free(t->inexact);
    free(t->not_portable);
}

/* ---- agreeing on a change ---- */

struct verdict {
    const char *run; /* its path */
    struct err *err;
    int rc;
};

/* As a word of a command line; free(). */
static char *shell_word(const char *text)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                "0123456789_-+=.,:/@%";
    struct wbuf b = {0};

    if (*text != '\0' && text[strspn(text, plain)] == '\0')
        return xstrdup(text);
    wbuf_u8(&b, '\'');
    for (; *text != '\0'; text++) {
        if (*text == '\'')
            wbuf_bytes(&b, "'\\'", 3);
        wbuf_u8(&b, (uint8_t)*text);
    }
    wbuf_bytes(&b, "'", 2); /* with the NUL */
    return (char *)b.data;
}

/* A new run can have the value: with the weights of this one, where they fit. */
static int refuse(const struct verdict *v, const struct config_change *c)
{
    char *run = shell_word(v->run), *set = xasprintf("%s=%s", c->path, c->text);
    char *word = shell_word(set);
    int rc;

    if (*c->text == '\0') /* gone, or more than one value */
        rc = err_set(v->err, ERR_CONFIG,
                     "%s cannot change while the run lives; `brood run` with an edited "
                     "copy of %s/config.yaml begins a new one",
                     c->path, v->run);
    else if (c->new_weights)
        rc = err_set(v->err, ERR_CONFIG,
                     "%s cannot change while the run lives; `brood run %s/config.yaml "
                     "--set %s` begins a new one, with new weights",
                     c->path, run, word);
    else
        rc = err_set(v->err, ERR_CONFIG,
                     "%s cannot change while the run lives; `brood run %s/config.yaml "
                     "--init-from %s --set %s` begins a new one with its weights",
                     c->path, run, run, word);
    free(word);
    free(set);
    free(run);
    return rc;
}

/* What a change of one value takes: refused at the first that cannot be made. */
static void judge(void *ctx, const struct config_change *c)
{
    struct verdict *v = ctx;

    if (v->rc < 0)
        return;
    if (c->kind == CHANGE_RESTART)
        v->rc = refuse(v, c);
    else if (c->kind == CHANGE_SETTING && !isfinite((float)c->number))
        v->rc = err_set(v->err, ERR_CONFIG, "%s: %s is no finite number in 32 bits",
                        c->path, c->text);
}

static uint64_t next_step(const struct training *t)
{
    return t->rollout != NULL ? rollout_next_change_step(t->rollout) : training_steps(t);
}

/* A run that is longer than it is to be would end at once: whoever wants that can say
 * so. */
static int check_length(const struct training *t, const struct run_config *wanted,
                        uint64_t at, struct err *err)
{
    const int64_t steps = wanted->run.env_steps, episodes = wanted->run.episodes;
    struct rollout_progress now = {0};

    if (t->rollout != NULL)
        rollout_progress(t->rollout, &now);
    if (steps > 0 && steps != t->wanted.run.env_steps && (uint64_t)steps <= at)
        return err_set(err, ERR_CONFIG,
                       "run.env_steps=%" PRId64 " is past at step %" PRIu64
                       "; `brood stop` ends the run",
                       steps, at);
    if (episodes > 0 && episodes != t->wanted.run.episodes &&
        (uint64_t)episodes <= now.episodes)
        return err_set(err, ERR_CONFIG,
                       "run.episodes=%" PRId64 " is past: there are %" PRIu64
                       "; `brood stop` ends the run",
                       episodes, now.episodes);
    return 0;
}

static int choose_step(const struct training *t, uint64_t at,
                       struct training_set_result *ret, struct err *err)
{
    const uint64_t next = next_step(t);

    ret->at = at == TRAINING_SOON ? next : at;
    if (ret->at < next)
        return err_set(err, ERR_CONFIG,
                       "step %" PRIu64 " is past: the next round begins at %" PRIu64, at,
                       next);
    if (at != TRAINING_SOON && *ret->waits != '\0')
        return err_set(err, ERR_CONFIG,
                       "%s: takes a respawn of its agent, not a step (leave out "
                       "--at-step)",
                       ret->waits);
    return 0;
}

/* Made in the order of their steps, the changes must all be right. */
static int check_plan(const struct training *t, const struct training_set_result *r,
                      struct err *err)
{
    struct change_plan plan = {0};
    struct run_config end;
    int rc;

    for (size_t i = 0; i < t->plan.n; i++)
        change_plan_add(&plan, t->plan.list[i].at, t->plan.list[i].text);
    change_plan_add(&plan, r->at, r->changes);
    rc = change_plan_fold(&plan, UINT64_MAX, t->config, env_agent_names, &end, err);
    if (rc == 0)
        run_config_done(&end);
    change_plan_done(&plan);
    return rc;
}

struct tried {
    struct training *t;
    const struct run_config *wanted;
    size_t agent;    /* that is being tried */
    uint8_t *agents; /* a flag each: would begin anew */
};

static void note_tried(void *ctx, const struct config_change *c)
{
    struct tried *x = ctx;

    if (c->kind == CHANGE_RESPAWN && c->agent < x->wanted->n_agents)
        x->agents[c->agent] = 1;
}

static void pack_tried(void *ctx, size_t agent, int restored, struct msg_out *o)
{
    const struct tried *x = ctx;

    (void)agent; /* the only one of its table */
    rollout_pack_configure(x->wanted, vec_env_spec(x->t->env), x->agent, restored,
                           policies_of(x->t->args->policies, x->agent), o);
}

/* What a new process is to begin with must be right by then: it is tried now. */
static int try_processes(struct training *t, const struct run_config *wanted,
                         struct err *err)
{
    struct tried x = {t, wanted, 0, xcalloc(wanted->n_agents, 1)};
    int rc = 0;

    if (t->rollout != NULL && t->config->n_agents == wanted->n_agents)
        run_config_compare(&t->wanted, wanted, note_tried, &x);
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

/* A new limit that the process is above already would only kill it. */
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
                info.name, size_text((uint64_t)limit, (char[SIZE_TEXT_BYTES]){0}),
                size_text((uint64_t)info.rss_bytes, (char[SIZE_TEXT_BYTES]){0}));
    }
    return 0;
}

int training_write_config(struct training *t, struct err *err)
{
    return run_dir_write_config(t->args->dir, &t->wanted, err);
}

/* waits: what is asked for of the next respawn, or taken back; NULL: nothing. */
static int write_down(struct training *t, const struct training_set_result *r,
                      const char *waits, struct err *err)
{
    char at[24];
    int rc = 0;

    (void)snprintf(at, sizeof(at), "%" PRIu64, r->at);
    if (waits != NULL && *waits != '\0')
        rc = journal_commit(t->journal, err, training_steps(t), "waits", "changes", waits,
                            NULL);
    if (rc < 0 || *r->changes == '\0')
        return rc;
    return journal_commit(t->journal, err, training_steps(t), "set", "at", at, "changes",
                          r->changes, NULL);
}

static void plan(struct training *t, const struct training_set_result *r)
{
    if (*r->changes == '\0')
        return;
    change_plan_add(&t->plan, r->at, r->changes);
    training_plan_changes(t);
}

/* What is in force, and planned. */
static int fold_plan(const struct training *t, struct run_config *ret, struct err *err)
{
    return change_plan_fold(&t->plan, UINT64_MAX, t->config, env_agent_names, ret, err);
}

/* What the change comes to: *ret, and in *ret_waits what write_down takes; free(). */
static int compare(const struct training *t, const struct run_config *wanted,
                   struct training_set_result *ret, char **ret_waits, struct err *err)
{
    struct run_config agreed;
    int rc = fold_plan(t, &agreed, err);

    if (rc < 0)
        return rc;
    ret->changes = run_config_assignments(&t->wanted, wanted, LIVE_KINDS);
    ret->waits =
        run_config_assignments_beyond(&t->wanted, &agreed, wanted, 1u << CHANGE_RESPAWN);
    *ret_waits = run_config_assignments(&t->wanted, wanted, 1u << CHANGE_RESPAWN);
    run_config_done(&agreed);
    return 0;
}

/* Takes *wanted, whether it can be or not. */
static int agree(struct training *t, struct run_config *wanted, uint64_t at,
                 struct training_set_result *ret, struct err *err)
{
    struct verdict v = {run_dir_path(t->args->dir), err, 0};
    struct err why = {0};
    char *waits = NULL;

    run_config_compare(&t->wanted, wanted, judge, &v);
    if (life_state_is_ending(t->state) || !t->committed)
        v.rc = err_set(err, ERR_STATE, "the run is %s",
                       life_state_is_ending(t->state) ? "ending" : "starting: try again");
    if (v.rc < 0 || (v.rc = compare(t, wanted, ret, &waits, err)) < 0 ||
        (v.rc = choose_step(t, at, ret, err)) < 0 ||
        (v.rc = check_length(t, wanted, ret->at, err)) < 0 ||
        (v.rc = check_plan(t, ret, err)) < 0 ||
        (v.rc = check_memory(t, wanted, err)) < 0 ||
        (v.rc = try_processes(t, wanted, err)) < 0 ||
        (v.rc = write_down(t, ret, waits, err)) < 0) {
        free(waits);
        run_config_done(wanted);
        training_set_result_done(ret);
        return v.rc;
    }
    run_config_done(&t->wanted);
    t->wanted = *wanted;
    if ((*ret->changes != '\0' || *waits != '\0') && training_write_config(t, &why) < 0)
        training_complain(t, "config.yaml could not be written: %s", why.msg);
    free(waits);
    plan(t, ret);
    return 0;
}

int training_set(struct training *t, const char *const *set, size_t n, uint64_t at,
                 struct training_set_result *ret, struct err *err)
{
    struct run_config wanted;
    int rc;

    *ret = (struct training_set_result){0};
    rc = run_config_assign(&wanted, &t->wanted, set, n, env_agent_names, err);
    return rc < 0 ? rc : agree(t, &wanted, at, ret, err);
}

int training_reread(struct training *t, struct training_set_result *ret, struct err *err)
{
    const struct config_options options = {.env_names = env_agent_names};
    struct run_config wanted;
    int rc;

    *ret = (struct training_set_result){0};
    rc = run_config_read(&wanted, run_dir_file(t->args->dir, "config.yaml"), &options,
                         err);
    return rc < 0 ? rc : agree(t, &wanted, TRAINING_SOON, ret, err);
}

void training_set_result_done(struct training_set_result *r)
{
    free(r->changes);
    free(r->waits);
    *r = (struct training_set_result){0};
}

/* ---- what waits for a respawn ---- */

struct waiting {
    size_t agent;
    struct change_plan plan; /* a change for each value */
};

static void collect_waiting(void *ctx, const struct config_change *c)
{
    struct waiting *w = ctx;
    char *text;

    if (c->kind != CHANGE_RESPAWN || c->agent != w->agent)
        return;
    text = xasprintf("%s=%s", c->path, c->text);
    change_plan_add(&w->plan, 0, text);
    free(text);
}

static char *join(const struct change_plan *p)
{
    char *text = xstrdup("");

    for (size_t i = 0; i < p->n; i++) {
        char *longer = xasprintf("%s%s%s", text, i > 0 ? "," : "", p->list[i].text);

        free(text);
        text = longer;
    }
    return text;
}

int training_apply_waiting(struct training *t, size_t agent, struct err *err)
{
    struct waiting w = {.agent = agent};
    struct training_set_result r = {.at = next_step(t)};
    struct run_config agreed;
    int rc = fold_plan(t, &agreed, err);

    if (rc < 0)
        return rc;
    run_config_compare(&agreed, &t->wanted, collect_waiting, &w);
    run_config_done(&agreed);
    r.changes = join(&w.plan);
    if (w.plan.n > 0 && life_state_is_paused(t->state))
        rc = err_set(err, ERR_STATE,
                     "the run is paused, and what waits for %s begins with "
                     "a round: `brood continue` first",
                     t->specs.spec[agent].name);
    else
        rc = w.plan.n > 0 ? check_plan(t, &r, err) : 0;
    if (rc == 0)
        rc = write_down(t, &r, NULL, err);
    if (rc == 0) {
        plan(t, &r);
        rc = w.plan.n > 0;
    }
    change_plan_done(&w.plan);
    training_set_result_done(&r);
    return rc;
}

/* ---- making it ---- */

void training_plan_changes(struct training *t)
{
    if (t->rollout != NULL)
        rollout_plan_change(t->rollout, change_plan_next(&t->plan));
}

struct renewal {
    struct training *t;
    struct err *err;
    uint8_t *agents; /* a flag each: begins anew */
};

static void collect_renewed(void *ctx, const struct config_change *c)
{
    struct renewal *r = ctx;

    if (c->kind == CHANGE_RESPAWN && c->agent < agent_table_count(r->t->agents))
        r->agents[c->agent] = 1;
}

/* Their blocks are kept as of now, so that nothing is replayed under the configuration to
 * come. UV_EAGAIN: one is being restarted. */
static int keep_blocks(const struct renewal *r)
{
    const void *block;
    size_t len;
    int rc = 0;

    for (size_t i = 0; i < agent_table_count(r->t->agents) && rc == 0; i++)
        if (r->agents[i])
            rc = agent_table_block(r->t->agents, i, &block, &len, r->err);
    return rc;
}

/* One that was given up stays as it is. */
static void renew(const struct renewal *r)
{
    for (size_t i = 0; i < agent_table_count(r->t->agents); i++)
        if (r->agents[i]) {
            (void)agent_table_respawn(r->t->agents, i, NULL);
            graphs_expire(r->t->graphs, i);
        }
}

/* What concerns the agents' processes. */
static void set_limits(struct training *t)
{
    const struct run_config *c = t->config;

    for (size_t i = 0; i < agent_table_count(t->agents); i++) {
        const struct agent_limits limits =
            agent_specs_limits(i < c->n_agents ? &c->agents[i] : &c->defaults);

        agent_table_set_limits(t->agents, i, &limits);
    }
    env_host_set_limits(t->env_host, &c->env);
}

/* `next` is in force; takes it. */
static int put_in_force(struct training *t, struct run_config *next, struct err *err)
{
    const struct run_config *was = t->config;
    const uint64_t step = training_steps(t);
    char *text = run_config_assignments(was, next, ~0u);
    int rc;

    t->config = next;
    free(t->config_yaml);
    t->config_yaml = run_config_to_yaml(next);
    change_plan_drop(&t->plan, step);
    training_plan_changes(t);
    set_limits(t);
    if (*text != '\0') {
        journal_write(t->journal, step, "changed", "changes", text, NULL);
        training_say(t, "from step %" PRIu64 " on: %s", step, text);
    }
    free(text);
    training_tell(t, on_config, next);
    rc = rollout_change(t->rollout, was, next, err);
    drop_config(t, was);
    return rc;
}

static int make_changes(struct training *t, struct err *err)
{
    struct run_config *next = xcalloc(1, sizeof(*next));
    struct renewal r = {t, err, xcalloc(agent_table_count(t->agents), 1)};
    int rc = change_plan_fold(&t->plan, training_steps(t), t->config, env_agent_names,
                              next, err);

    if (rc == 0) {
        run_config_compare(t->config, next, collect_renewed, &r);
        rc = keep_blocks(&r);
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
