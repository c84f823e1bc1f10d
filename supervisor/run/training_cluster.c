/* The nodes of a cluster: agents run there instead of on this machine. */
#include "supervisor/run/training_internal.h"

#include "common/config/cluster_config.h"

static void on_up(void *ctx)
{
    training_feed(ctx, LIFE_EV_CONNECTED, NULL);
}

static void on_failed(void *ctx, const struct err *why)
{
    training_fail(ctx, why);
}

static void send_event(struct training *t, const struct cluster_event *from)
{
    static const enum run_event_kind kinds[] = {
        [CLUSTER_EVENT_START] = RUN_EVENT_NODE_START,
        [CLUSTER_EVENT_CONNECT] = RUN_EVENT_NODE_CONNECT,
        [CLUSTER_EVENT_UP] = RUN_EVENT_NODE_UP,
        [CLUSTER_EVENT_LOST] = RUN_EVENT_NODE_LOST,
        [CLUSTER_EVENT_FENCE] = RUN_EVENT_NODE_FENCE,
        [CLUSTER_EVENT_WAIT] = RUN_EVENT_NODE_WAIT,
        [CLUSTER_EVENT_GIVE_UP] = RUN_EVENT_NODE_GIVE_UP};
    struct run_event e = {.kind = kinds[from->kind], .env_steps = training_steps(t)};
    struct run_event_node *n = &e.node;

    if (from->kind == CLUSTER_EVENT_START && from->generation > 1)
        e.kind = RUN_EVENT_NODE_RESTART;
    run_event_node_init(n, from->node, from->host);
    n->generation = from->generation;
    n->pid = from->pid;
    if (from->kind == CLUSTER_EVENT_LOST || from->kind == CLUSTER_EVENT_GIVE_UP)
        n->why = from->why;
    n->to = from->to;
    if (from->kind == CLUSTER_EVENT_WAIT)
        n->delay_ms = from->delay_ms;
    training_event_at(t, &e, NULL);
}

/* Logs the loss of a node together with what follows: another start, now or later, or a
 * give-up. If no node is left, the run's failure reports the loss. */
static void log_event(struct training *t, const struct cluster_event *e)
{
    switch (e->kind) {
    case CLUSTER_EVENT_START:
        if (e->why != NULL)
            training_log(t, "%s is lost: %s; it is started again", e->shown, e->why);
        break;
    case CLUSTER_EVENT_WAIT:
        training_log(t, "%s is lost: %s; it is started again in %.1f s", e->shown, e->why,
                     (double)e->delay_ms / 1000);
        break;
    case CLUSTER_EVENT_GIVE_UP:
        if (e->to != NULL)
            training_log_error(t, "%s is given up: %s; %s takes its agents", e->shown,
                               e->why, e->to_shown);
        break;
    default:
        break;
    }
}

static void on_event(void *ctx, const struct cluster_event *e)
{
    send_event(ctx, e);
    log_event(ctx, e);
}

static void on_line(void *ctx, const char *line)
{
    training_log(ctx, "%s", line);
}

int training_open_cluster(struct training *t, struct err *err)
{
    const struct cluster_args args = {.loop = &t->loop,
                                      .name = run_dir_name(t->args->dir),
                                      .config =
                                          t->args->config, /* outlives all changes */
                                      .binaries = t->args->binaries,
                                      .agent_exe_fd = t->agent_fd,
                                      .logs = run_dir_file(t->args->dir, "logs"),
                                      .store = t->store,
                                      .on_up = on_up,
                                      .on_failed = on_failed,
                                      .on_event = on_event,
                                      .on_line = on_line,
                                      .ctx = t};

    if (!cluster_config_is_active(t->config))
        return 0;
    return cluster_open(&t->cluster, &args, t->specs.spec, t->specs.n, err);
}

void training_pass_reads(struct training *t)
{
    const size_t n = agent_table_count(t->agents);

    for (size_t i = 0; t->cluster != NULL && i < n; i++) {
        struct agent_info info;

        agent_table_info(t->agents, i, &info);
        cluster_reads(t->cluster, info.name, rollout_reads(t->rollout, i),
                      store_layout(t->store)->n_columns);
    }
}
