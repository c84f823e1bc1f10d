#include "supervisor/begin/trial.h"

#include "common/config/algorithms.h"
#include "common/config/changes.h"
#include "common/config/yaml_tree.h"
#include "common/err/check.h"
#include "common/mem/xmalloc.h"
#include "supervisor/ask/ask.h"
#include "supervisor/begin/renders.h"
#include "supervisor/begin/run_metrics.h"
#include "supervisor/env/env.h"
#include "supervisor/proc/binaries.h"
#include "supervisor/proc/descriptors.h"
#include "supervisor/rollout/rollout.h"
#include "supervisor/rollout/sharing.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Of an agent's limits, only a response deadline applies. */
static struct agent_spec trial_spec(const char *name, const char *role,
                                    void (*pack_configure)(void *ctx, size_t agent,
                                                           int restored,
                                                           struct msg_out *o))
{
    static const struct agent_limits limits = {.respond_within_s = TRIAL_WITHIN_S};

    return (struct agent_spec){.name = name,
                               .role = role,
                               .pack_configure = pack_configure,
                               .limits = &limits,
                               .is_trial = 1};
}

/* The agent's error: ERR_CONFIG with the key of its configuration, if it named one, and the
 * message; or a failure of the machine. */
static int refuse(const struct err *failure, struct err *err)
{
    if (err_is_failure(failure->code))
        return err_pass(err, failure);
    return err_set_at(err, ERR_CONFIG, ERR_AT(.key = failure->key), "%s",
                      err_cause(failure));
}

/* ---- an agent of a live run ---- */

enum { MAX_TRIES = 3 };

struct live_trial {
    struct live_trial_args args;
    struct agent_table *table;
    uv_timer_t last; /* never started: closed when the table has stopped */
    int n_tries;
    struct err failure; /* code 0: none */
    int was_killed;     /* by a signal that we did not send */
};

static int start_table(struct live_trial *x, struct err *err);

/* With nothing of the table on the stack: frees it, and tries again or tells the caller. */
static void on_last_closed(uv_handle_t *h)
{
    struct live_trial *x = h->data;
    struct err *why = &x->failure;

    agent_table_free(x->table);
    x->table = NULL;
    if (x->args.fn != NULL && why->code < 0 && x->was_killed && x->n_tries < MAX_TRIES &&
        start_table(x, why) == 0)
        return;
    if (x->args.fn != NULL)
        x->args.fn(x->args.ctx, why->code < 0 ? why : NULL);
    free(x);
}

static void on_trial_stopped(void *ctx)
{
    uv_close((uv_handle_t *)&((struct live_trial *)ctx)->last, on_last_closed);
}

static void on_trial_event(void *ctx, const struct agent_event *e)
{
    struct live_trial *x = ctx;

    if (e->kind == AGENT_EVENT_EXIT && x->failure.code == 0)
        x->was_killed = e->signal != 0 && e->text == NULL;
}

static void on_trial_failed(void *ctx, size_t agent, const struct err *report)
{
    struct live_trial *x = ctx;
    const char *name = x->args.spec->name;

    (void)agent; /* the only one */
    if (report->from_peer)
        (void)refuse(report, &x->failure);
    else
        (void)err_set(&x->failure, ERR_CONFIG, "%s", report->msg);
    (void)err_wrap(&x->failure, "%s", name);
    (void)err_note(&x->failure, ERR_AT(.agent = name));
    agent_table_stop(x->table, 0);
}

static void on_trial_ready(void *ctx)
{
    struct live_trial *x = ctx;

    if (!msgpack_object_equal(agent_table_description(x->table, 0)->body,
                              x->args.now->body))
        (void)err_set(&x->failure, ERR_CONFIG,
                      "%s would have different variables or stages", x->args.spec->name);
    agent_table_stop(x->table, ASK_END_WITHIN_MS);
}

static void pack_trial(void *ctx, size_t agent, int restored, struct msg_out *o)
{
    const struct live_trial *x = ctx;

    x->args.spec->pack_configure(x->args.ctx, agent, restored, o);
}

static int start_table(struct live_trial *x, struct err *err)
{
    const struct agent_spec spec =
        trial_spec(x->args.spec->name, x->args.spec->role, pack_trial);
    const struct agent_callbacks cb = {.on_event = on_trial_event,
                                       .on_ready = on_trial_ready,
                                       .on_failed = on_trial_failed,
                                       .on_stopped = on_trial_stopped,
                                       .ctx = x};
    int rc = agent_table_new(&x->table, x->args.loop, x->args.agent_exe_fd, -1, &spec, 1,
                             &cb, err);

    if (rc < 0)
        return rc;
    x->failure = (struct err){0};
    x->was_killed = 0;
    x->n_tries++;
    CHECK(uv_timer_init(x->args.loop, &x->last) == 0);
    x->last.data = x;
    if (agent_table_start(x->table, &x->failure) < 0)
        agent_table_stop(x->table, 0);
    return 0;
}

int trial_begin(struct live_trial **ret, const struct live_trial_args *args,
                struct err *err)
{
    struct live_trial *x = xcalloc(1, sizeof(*x));
    int rc;

    x->args = *args;
    rc = start_table(x, err);
    if (rc < 0)
        free(x);
    else
        *ret = x;
    return rc;
}

void trial_abandon(struct live_trial *x)
{
    x->args.fn = NULL;
    if (x->table != NULL)
        agent_table_stop(x->table, 0);
}

/* ---- the agents of a new run ---- */

struct tried {
    const struct run_config *config;
    struct vec_env *env;
    const struct env_spec *spec;
    const struct rollout_policy *policy; /* of a frozen agent */
    size_t agent;
    struct first_variables *variables; /* to be noted; NULL: not */
    struct description *descriptions;  /* [A] */
    uint64_t *block_bytes;             /* [A] */
    int is_complete;                   /* all of them are known */
    int no_start;                      /* programs are not started */
};

/* Makes the environment, and room for what the agents answer. */
static int begin(struct tried *x, const struct run_config *c, struct err *err)
{
    const int rc = vec_env_new(&x->env, &c->env, c->run.seed, ENV_DRAWS_TRAINING, 1, err);

    if (rc < 0)
        return rc;
    x->config = c;
    x->spec = vec_env_spec(x->env);
    x->descriptions = xcalloc(c->n_agents + 1, sizeof(*x->descriptions));
    x->block_bytes = xcalloc(c->n_agents + 1, sizeof(*x->block_bytes));
    return 0;
}

static void end(struct tried *x)
{
    free(x->descriptions);
    free(x->block_bytes);
    vec_env_free(x->env);
}

static void pack_tried(void *ctx, size_t agent, int restored, struct msg_out *o)
{
    const struct tried *x = ctx;

    rollout_pack_configure(x->config, x->spec, x->agent, restored, x->policy, o);
}

int trial_is_like_last(const struct run_config *c, const struct env_spec *spec, size_t i)
{
    const struct env_agent *own = &spec->agents[i], *last = own - 1;

    return strcmp(own->team, last->team) == 0 && env_sees_alike(own, last) &&
           env_acts_alike(own, last) &&
           agent_config_is_same(&c->agents[i], &c->agents[i - 1]);
}

/* The process is named "trial", because it is none of the run's. Its death or a malformed
 * answer is not the configuration's fault, and the run handles both. A lack of memory is
 * an error, because it would happen again. */
static int try_one(struct tried *x, int agent_exe_fd, struct err *err)
{
    const struct agent_spec spec = trial_spec("trial", "learner", pack_tried);
    const struct ask_args args = {
        .agent_exe_fd = agent_exe_fd, .specs = &spec, .n = 1, .ctx = x};
    struct ask *ask;
    struct err why;
    int rc = ask_open(&ask, &args, &why);

    if (rc < 0 && why.from_peer) {
        rc = refuse(&why, err);
    } else if (rc == ERR_NOMEM || (rc < 0 && !ask_process_failed(ask))) {
        (void)err_pass(err, &why);
    } else if (rc < 0 || description_parse(&x->descriptions[x->agent], ask_answer(ask, 0),
                                           x->spec->agents[x->agent].name, &why) < 0) {
        x->is_complete = rc = 0;
    } else {
        (void)msg_get_u64(ask_answer(ask, 0), "block_bytes", UINT64_MAX,
                          &x->block_bytes[x->agent], NULL);
        if (x->variables != NULL)
            first_variables_take(x->variables, x->agent, x->spec->agents[x->agent].name,
                                 ask_answer(ask, 0));
    }
    ask_close(ask);
    return rc;
}

/* Returns a descriptor of the agent executable. */
static int open_agent_exe(struct err *err)
{
    struct binaries bin;
    const int rc = binaries_find(&bin, err);

    return rc < 0 ? rc : binaries_open_agent(&bin, err);
}

static int try_each(struct tried *x, size_t *ret_agent, struct err *err)
{
    const int fd = open_agent_exe(err);
    int rc = 0;

    if (fd < 0)
        return fd;
    for (; x->agent < x->config->n_agents && rc == 0; x->agent++) {
        struct description *d = &x->descriptions[x->agent];

        *ret_agent = x->agent;
        if (algorithm_brings_graph(&x->config->agents[x->agent])) {
            /* its file is looked up later */
            d->proposes = 1;
        } else if (x->no_start && x->config->agents[x->agent].command != NULL) {
            x->is_complete = 0;
        } else if (x->agent > 0 && trial_is_like_last(x->config, x->spec, x->agent)) {
            *d = d[-1];
            x->block_bytes[x->agent] = x->block_bytes[x->agent - 1];
            if (x->variables != NULL)
                first_variables_repeat(x->variables, x->agent);
        } else {
            rc = try_one(x, fd, err);
        }
    }
    (void)close(fd);
    return rc;
}

/* Checks that an update can be made of the stages and rows that the agents declare. */
static int try_together(const struct tried *x, const struct sharing *sharing,
                        size_t *ret_agent, struct err *err)
{
    const int rc = x->is_complete
                       ? rollout_check(x->config, x->spec, sharing, x->descriptions, err)
                       : 0;

    for (size_t i = 0; rc < 0 && i < x->config->n_agents; i++)
        if (strcmp(x->spec->agents[i].name, err->agent) == 0)
            *ret_agent = i;
    return rc;
}

/* Checks that the machine has enough memory and disk. */
static int try_size(const struct tried *x, struct trial *trial, size_t *ret_agent,
                    struct err *err)
{
    struct err why;
    int rc = estimate_make(&trial->estimate, x->config, x->spec, x->descriptions,
                           x->block_bytes, &why);

    if (rc == 0)
        rc = estimate_check(&trial->estimate, x->config, trial->runs_dir, ret_agent, err);
    else
        rc = err_set_at(err, ERR_CONFIG, ERR_AT(.key = "env"), "%s", why.msg);
    return rc;
}

/* Agents that cannot share are reported later, by sharing_init. */
static int check_rules(const struct run_config *c, const struct env_spec *spec,
                       struct err *err)
{
    struct metrics *m = NULL;
    int rc = 0;

    if (run_metrics_new(&m, c, spec, NULL) == 0)
        rc = run_metrics_check_rules(m, c, 1, err);
    metrics_free(m);
    return rc;
}

int trial_agents(void *ctx, const struct run_config *c, size_t *ret_agent,
                 struct err *err)
{
    const struct trial *trial = ctx;
    struct tried x = {
        .is_complete = 1, .no_start = trial->no_start, .variables = trial->variables};
    struct sharing sharing = {0};
    int rc = descriptors_reserve(c->n_agents, err); /* of the run, not only of a trial */

    if (rc == 0 && trial->no_start && env_config_is_external(&c->env))
        return 0;
    if (rc == 0 && (rc = begin(&x, c, err)) < 0)
        *ret_agent = c->n_agents;
    if (rc < 0)
        return rc;
    if (trial->variables != NULL)
        first_variables_begin(trial->variables, c->n_agents);
    rc = renders_check(c, err);
    if (rc == 0)
        rc = check_rules(c, x.spec, err);
    if (rc < 0)
        *ret_agent = c->n_agents;
    else
        rc = sharing_init(&sharing, c, x.spec, ret_agent, err);
    if (rc == 0)
        rc = try_each(&x, ret_agent, err);
    if (rc == 0)
        rc = try_together(&x, &sharing, ret_agent, err);
    if (rc == 0)
        rc = try_size(&x, ctx, ret_agent, err);
    sharing_done(&sharing);
    end(&x);
    return rc;
}

/* ---- later changes ---- */

static int are_settings_shared(const struct run_config *c)
{
    int is = rollout_needs_central(c);

    for (size_t i = 0; i < c->n_agents; i++)
        is |= c->agents[i].share != NULL && strcmp(c->agents[i].share, "none") != 0;
    return is;
}

static int check_sharing(void *ctx, uint64_t at, const struct run_config *c,
                         struct err *err)
{
    return sharing_check(c, ctx, err);
}

int trial_plan(const struct run_config *c, const struct change_plan *plan,
               struct err *err)
{
    struct vec_env *env = NULL;
    int rc;

    if (plan->n == 0 || !are_settings_shared(c))
        return 0;
    rc = vec_env_new(&env, &c->env, c->run.seed, ENV_DRAWS_TRAINING, 1, err);
    if (rc == 0)
        rc = change_plan_each_step(plan, c, check_sharing,
                                   (struct env_spec *)(uintptr_t)vec_env_spec(env), err);
    vec_env_free(env);
    return rc;
}

/* ---- frozen agents ---- */

/* Adds the place in the file that names the policy. */
static int place(const struct agent_config *a, const struct err *why, struct err *err)
{
    char path[AGENT_NAME_MAX + ERR_NAME_BYTES + 16];

    (void)snprintf(path, sizeof(path), "agents.%s.%s", a->name,
                   *why->key != '\0' ? why->key : "settings.from");
    return yaml_fail(a->from_at, path, err, "%s", err_cause(why));
}

static int try_policies(struct tried *x, const struct policies *policies, int fd,
                        struct err *err)
{
    int rc = 0;

    for (; x->agent < x->config->n_agents && rc == 0; x->agent++) {
        struct err why = {0};

        x->policy = policies_of(policies, x->agent);
        if (x->policy == NULL)
            continue;
        rc = try_one(x, fd, &why);
        if (rc == ERR_CONFIG)
            rc = place(&x->config->agents[x->agent], &why, err);
        else if (rc < 0)
            (void)err_pass(err, &why);
    }
    return rc;
}

static int has_frozen(const struct run_config *c)
{
    for (size_t i = 0; i < c->n_agents; i++)
        if (algorithm_brings_graph(&c->agents[i]))
            return 1;
    return 0;
}

int trial_policies(const struct run_config *c, const struct policies *policies,
                   struct err *err)
{
    struct tried x = {0};
    int fd, rc = first_policies_check(c, policies, err);

    if (rc < 0 || !has_frozen(c))
        return rc;
    if ((rc = begin(&x, c, err)) < 0)
        return rc;
    rc = fd = open_agent_exe(err);
    if (fd >= 0) {
        rc = try_policies(&x, policies, fd, err);
        (void)close(fd);
    }
    end(&x);
    return rc < 0 ? rc : 0;
}
