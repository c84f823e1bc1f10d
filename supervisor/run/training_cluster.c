/* The nodes of a cluster: agents run there instead of on this machine. A replay of a part of a
 * run computes everything here. */
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
                                      .on_up = on_up,
                                      .on_failed = on_failed,
                                      .on_line = on_line,
                                      .ctx = t};

    if (!cluster_config_is_active(t->config) || t->args->replay != NULL)
        return 0;
    return cluster_open(&t->cluster, &args, t->specs.spec, t->specs.n, err);
}
