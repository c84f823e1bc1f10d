#include "supervisor/node/placement.h"

#include "common/config/cluster_config.h"
#include "common/config/yaml_tree.h"

#include <stdio.h>
#include <string.h>

/* The task that an agent's device names; -1: any. */
static int task_of(const struct run_config *c, size_t nodes, size_t agent, int64_t *ret,
                   struct err *err)
{
    char why[DEVICE_WHY_BYTES], key[AGENT_NAME_MAX + 32];

    *ret = -1;
    if (agent >= c->n_agents || c->agents[agent].device == NULL ||
        device_task(c->agents[agent].device, (int64_t)nodes, ret, why) == 0)
        return 0;
    (void)snprintf(key, sizeof(key), "agents.%s.device", c->agents[agent].name);
    (void)err_set(err, ERR_CONFIG, "%s: %s", key, why);
    return err_note(err, ERR_AT(.key = key, .agent = c->agents[agent].name));
}

static int is_in_group(const struct agent_spec *a, const struct agent_spec *b)
{
    return a->shared_fd > 0 && a->shared_fd == b->shared_fd;
}

/* The first process of the same group; i itself if it shares nothing. */
static size_t first_of(const struct agent_spec *specs, size_t i)
{
    size_t first = 0;

    while (first < i && !is_in_group(&specs[first], &specs[i]))
        first++;
    return first;
}

/* The node of a group, by its first member; -1: no member asks for one. */
static int group_task(const struct run_config *c, size_t nodes,
                      const struct agent_spec *specs, size_t n, size_t first,
                      int64_t *ret, struct err *err)
{
    int rc = task_of(c, nodes, first, ret, err);

    for (size_t i = first + 1; i < n && rc == 0 && *ret < 0; i++)
        if (is_in_group(&specs[first], &specs[i]))
            rc = task_of(c, nodes, i, ret, err);
    return rc;
}

int placement_make(const struct run_config *config, size_t nodes,
                   const struct agent_spec *specs, size_t n, size_t *ret, struct err *err)
{
    const size_t learners = config->n_agents;
    int rc = 0;

    for (size_t i = 0; i < n && rc == 0; i++) {
        const size_t first = first_of(specs, i);
        int64_t task = -1;

        if (first == i) {
            rc = group_task(config, nodes, specs, n, i, &task, err);
            if (task < 0)
                task = i < learners ? (int64_t)(i * nodes / learners) : (int64_t)ret[0];
        } else {
            rc = task_of(config, nodes, i, &task, err);
            if (task < 0)
                task = (int64_t)ret[first];
        }
        ret[i] = (size_t)task;
    }
    return rc;
}

const char *placement_host(const struct cluster_config *config, size_t node)
{
    const struct yaml_node *hosts = config->hosts;

    return hosts != NULL && hosts->n > 0 ? hosts->child[node % hosts->n]->text : "";
}

void placement_add_options(const struct cluster_config *config, struct words *w)
{
    const struct yaml_node *list = config->options;

    for (size_t i = 0; list != NULL && i < list->n; i++)
        words_add(w, list->child[i]->text, NULL);
}
