/* The status of a live run (run_status.h). */
#include "supervisor/run/training_internal.h"

#include "common/mem/xmalloc.h"

#include <math.h>
#include <stdlib.h>
#include <unistd.h>

/* Smoothed over about 3 s, so that the remaining time shown does not jump; but anew from the first
 * update on, which makes rounds much slower. */
void training_update_rate(struct training *t)
{
    const uint64_t now = uv_now(&t->loop);
    const double passed = (double)(now - t->shown.rate.at_ms) * 1e-3;
    struct rollout_progress at = {.env_steps = training_steps(t)};
    double rate, weight;

    if (t->rollout != NULL)
        rollout_progress(t->rollout, &at);
    if (t->shown.rate.at_ms == 0 || t->shown.rate.has_learned != (at.updates > 0)) {
        t->shown.rate.per_second = 0;
        t->shown.rate.has_learned = at.updates > 0;
    } else if (t->rollout != NULL && passed < 0.05) {
        return;
    } else if (t->rollout != NULL) {
        rate = (double)(at.env_steps - t->shown.rate.steps) / passed;
        weight = t->shown.rate.per_second == 0 ? 1 : 1 - exp(-passed / 3);
        t->shown.rate.per_second += weight * (rate - t->shown.rate.per_second);
    }
    t->shown.rate.at_ms = now;
    t->shown.rate.steps = at.env_steps;
}

static const char *state_of(const struct training *t)
{
    if (life_state_is_ending(t->state))
        return "stopping";
    if (!life_state_is_driven(t->state))
        return "starting";
    return life_state_is_paused(t->state) ? "paused" : "running";
}

/* Of a process, as its table has it, what its events have told, too. */
static struct run_agent_status process_status(const struct training *t,
                                              const struct agent_info *info)
{
    static char own[256]; /* the name of this machine */
    const struct run_agent_status *known = run_model_process(&t->model, info->name);
    struct run_agent_status ret = known != NULL ? *known : (struct run_agent_status){0};

    ret.name = info->name;
    ret.state = agent_state_name(info->state);
    ret.given_up = info->mode != AGENT_LEARNS ? agent_mode_name(info->mode) : NULL;
    ret.pid = info->pid;
    ret.restarts = info->restarts;
    ret.rss_bytes = info->rss_bytes;
    if (info->host != NULL)
        ret.host = *info->host != '\0' ? info->host : NULL; /* not on a node yet */
    else if (own[0] != '\0' || gethostname(own, sizeof(own) - 1) == 0)
        ret.host = own;
    return ret;
}

static void take_nodes(struct training *t)
{
    const size_t n = cluster_count(t->cluster);

    t->shown.nodes = xrealloc(t->shown.nodes, (n + 1) * sizeof(*t->shown.nodes));
    for (size_t i = 0; i < n; i++) {
        struct cluster_info info;

        cluster_info(t->cluster, i, &info);
        t->shown.nodes[i] = (struct run_node_status){.name = info.name,
                                                     .host = info.host,
                                                     .state = info.state,
                                                     .agents = info.agents,
                                                     .restarts = info.restarts,
                                                     .pid = info.pid,
                                                     .why = info.why};
    }
}

static void take_environments(struct training *t)
{
    const size_t n = env_host_count(t->env_host);

    t->shown.envs = xrealloc(t->shown.envs, (n + 1) * sizeof(*t->shown.envs));
    for (size_t i = 0; i < n; i++) {
        struct agent_info info;

        env_host_info(t->env_host, i, &info);
        t->shown.envs[i] = process_status(t, &info);
        t->shown.envs[i].update = 0;
    }
}

void training_status(struct training *t, struct run_status *ret)
{
    const struct run_status *known = &t->model.status;
    const double elapsed_s = (double)(uv_hrtime() - t->began_ns) * 1e-9;
    struct rollout_progress at = {.env_steps = training_steps(t)};

    if (t->rollout != NULL)
        rollout_progress(t->rollout, &at);
    for (size_t i = 0; i < t->specs.n; i++) {
        struct agent_info info;

        agent_table_info(t->agents, i, &info);
        t->shown.agents[i] = process_status(t, &info);
        t->shown.agents[i].update = at.updates;
    }
    take_environments(t);
    take_nodes(t);
    *ret = (struct run_status){
        .run = run_dir_name(t->args->dir),
        .began = known->began,
        .state = state_of(t),
        .done_why = known->done_why,
        .failure = known->failure,
        .failure_agent = known->failure_agent,
        .failure_file = known->failure_file,
        .failure_line = known->failure_line,
        .exit_code = -1,
        .pid = getpid(),
        .keeper_pid = keeper_pid(),
        .round = at.round,
        .env_steps = at.env_steps,
        .episodes = at.episodes,
        .total_steps = (uint64_t)t->changes.wanted.run.env_steps,
        .total_episodes = (uint64_t)t->changes.wanted.run.episodes,
        .steps_per_second = life_state_is_paused(t->state) ? 0 : t->shown.rate.per_second,
        .elapsed_s = elapsed_s,
        .total_s = t->model.seconds + elapsed_s,
        .total_restarts = known->total_restarts,
        .checkpoint_step = t->saves.step,
        .team_return_mean = t->result->team_return_mean,
        .returns = known->returns,
        .n_returns = known->n_returns,
        .numerics = numerics_names[t->config->run.numerics],
        .not_portable = known->not_portable,
        .exact = known->exact && env_host_is_exact(t->env_host),
        .learners = t->config->n_agents,
        .agents = t->shown.agents,
        .n_agents = t->specs.n,
        .environments = t->shown.envs,
        .n_environments = env_host_count(t->env_host),
        .nodes = t->shown.nodes,
        .n_nodes = cluster_count(t->cluster),
        .pending = t->changes.pending.list,
        .n_pending = t->changes.pending.n,
    };
    ret->seconds_left = run_status_left(ret, at.updates > 0);
}

void training_free_status(struct training *t)
{
    free(t->shown.agents);
    free(t->shown.envs);
    free(t->shown.nodes);
    run_model_done(&t->model);
}
