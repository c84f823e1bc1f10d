/* The nodes of a cluster: agents run there instead of on this machine. A replay of a part of a
 * run computes everything here. */
#include "supervisor/run/training_internal.h"

#include "common/config/cluster_config.h"
#include "supervisor/proc/signals.h"

#include <poll.h>

/* While the nodes start, nothing watches the signals and the keeper yet. */
static int is_in_haste(void *ctx)
{
    const struct training *t = ctx;
    struct pollfd p = {.fd = t->args->keeper != NULL ? t->args->keeper->fd : -1,
                       .events = POLLIN}; /* poll ignores -1 */

    return life_state_is_ending(t->state) || stop_signal_is_pending() ||
           poll(&p, 1, 0) > 0;
}

static void on_line(void *ctx, const char *line)
{
    training_log(ctx, "%s", line);
}

int training_open_cluster(struct training *t, struct err *err)
{
    const struct cluster_args args = {.loop = &t->loop,
                                      .config =
                                          t->args->config, /* outlives all changes */
                                      .binaries = t->args->binaries,
                                      .agent_exe_fd = t->agent_fd,
                                      .logs = run_dir_file(t->args->dir, "logs"),
                                      .store = t->store,
                                      .is_in_haste = is_in_haste,
                                      .on_line = on_line,
                                      .ctx = t};

    if (!cluster_config_is_active(t->config) || t->args->replay != NULL)
        return 0;
    return cluster_open(&t->cluster, &args, t->specs.spec, t->specs.n, err);
}

void training_tell_reads(struct training *t)
{
    const size_t n = agent_table_count(t->agents);

    for (size_t i = 0; t->cluster != NULL && i < n; i++) {
        struct agent_info info;

        agent_table_info(t->agents, i, &info);
        cluster_reads(t->cluster, info.name, rollout_reads(t->rollout, i),
                      store_layout(t->store)->n_columns);
    }
}
