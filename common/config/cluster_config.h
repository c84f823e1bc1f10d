/* cluster_config.h - the section `cluster`, and the devices of agents. */
#ifndef COMMON_CONFIG_CLUSTER_CONFIG_H
#define COMMON_CONFIG_CLUSTER_CONFIG_H

#include "common/config/run_config.h"
#include "common/config/yaml_tree.h"

#define DEVICE_WHY_BYTES 160

/* Sets *ret to the task that a device names, 2 for /job:worker/task:2, or to -1 if it
 * names none. n_tasks: number of tasks; 0: any task is valid. ERR_ARG, with the reason in
 * `why`: the device is malformed, or there is no such job or task. */
int device_task(const char *device, int64_t n_tasks, int64_t *ret,
                char why[DEVICE_WHY_BYTES]);

/* The GPU that a device names, 0 for cuda:0 or /job:worker/task:2/device:GPU:0; -1: none. */
int64_t device_gpu(const char *device);

/* Checks and completes the section where the table does not suffice. */
int cluster_config_complete(struct run_config *c, const struct yaml_node *root,
                            struct err *err);
/* Copies the section and all devices from another configuration with the same agents. The
 * bytes of a run do not depend on where it is computed. */
void cluster_config_take(struct run_config *c, const struct run_config *from);
/* Whether processes run on nodes. */
static inline int cluster_config_is_active(const struct run_config *c)
{
    return c->has_cluster && c->cluster.launcher != LAUNCHER_NONE;
}

#endif
