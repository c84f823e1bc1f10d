#include "common/config/cluster_config.h"

#include "common/config/run_schema.h"
#include "common/text/scan.h"

#include <stdio.h>
#include <string.h>

/* ---- devices ---- */

/* Reads a task's number at *at and advances *at past it; -1: there is none. */
static int64_t take_number(const char **at)
{
    int64_t n = 0;
    const char *p = *at;

    while (*p >= '0' && *p <= '9' && n < 1000000)
        n = 10 * n + (*p++ - '0');
    if (p == *at)
        return -1;
    *at = p;
    return n;
}

static int is_part(const char **at, const char *name)
{
    const char *after = text_after(*at, name);

    if (after != NULL)
        *at = after;
    return after != NULL;
}

static int refuse(char why[DEVICE_WHY_BYTES], const char *device, const char *text)
{
    (void)snprintf(why, DEVICE_WHY_BYTES, "found '%.60s', %s", device, text);
    return ERR_ARG;
}

int64_t device_gpu(const char *device)
{
    static const char *const names[] = {"cuda:", "/device:GPU:", "/gpu:"};
    const char *at = NULL;

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]) && at == NULL; i++)
        if (device != NULL && (at = strstr(device, names[i])) != NULL)
            at += strlen(names[i]);
    return at != NULL ? take_number(&at) : -1;
}

int device_task(const char *device, int64_t n_tasks, int64_t *ret,
                char why[DEVICE_WHY_BYTES])
{
    const char *at = device;
    int64_t n;

    *ret = -1;
    if (is_part(&at, "cuda:"))
        return take_number(&at) >= 0 && *at == '\0'
                   ? 0
                   : refuse(why, device, "expected a device such as cuda:0");
    while (*at != '\0') {
        if (is_part(&at, "/job:")) {
            if (!is_part(&at, "worker"))
                return refuse(why, device, "expected the job \"worker\"");
        } else if (is_part(&at, "/task:")) {
            n = take_number(&at);
            if (n >= n_tasks && n_tasks > 0)
                return refuse(why, device, "expected a task below cluster.nodes");
            *ret = n;
            if (n < 0)
                at = "?";
        } else if (is_part(&at, "/replica:") || is_part(&at, "/device:CPU:") ||
                   is_part(&at, "/cpu:")) {
            if (take_number(&at) != 0)
                at = "?";
        } else if (is_part(&at, "/device:GPU:") || is_part(&at, "/gpu:")) {
            if (take_number(&at) < 0)
                at = "?";
        } else {
            at = "?";
        }
        if (*at != '\0' && *at != '/')
            return refuse(why, device,
                          "expected a device such as /job:worker/task:2 or cuda:0");
    }
    return 0;
}

/* ---- the section ---- */

/* A host is a word of the launcher's command, and perhaps of a shell's: it is no option, and
 * has none of the characters that ssh(1) refuses in names. */
static int is_host(const char *text)
{
    const char *at = strrchr(text, '@');

    if (*text == '\0' || *text == '-' || (at != NULL && (at[1] == '-' || at[1] == '\0')))
        return 0;
    for (const char *c = text; *c != '\0'; c++)
        if ((unsigned char)*c <= ' ' || *c == 0x7f ||
            strchr("'`\"$\\;&<>|(){}", *c) != NULL)
            return 0;
    return 1;
}

static int check_launcher(const struct run_config *c, const struct yaml_node *at,
                          struct err *err)
{
    const struct cluster_config *k = &c->cluster;

    if (k->launcher == LAUNCHER_SSH && k->hosts == NULL)
        return yaml_fail(at, "cluster", err, "launcher: ssh needs hosts: [a, b, ...]");
    if (k->launcher == LAUNCHER_COMMAND && k->command == NULL)
        return yaml_fail(at, "cluster", err,
                         "launcher: command needs command: [PROGRAM, ARGUMENTS...]");
    if (k->launcher != LAUNCHER_COMMAND && k->command != NULL)
        return yaml_fail(yaml_find(at, "command"), "cluster.command", err,
                         "is for launcher: command alone");
    if (k->launcher != LAUNCHER_SSH && k->launcher != LAUNCHER_SLURM &&
        k->options != NULL)
        return yaml_fail(yaml_find(at, "options"), "cluster.options", err,
                         "is for launcher: ssh or slurm");
    if (k->launcher == LAUNCHER_SLURM && k->hosts != NULL)
        return yaml_fail(yaml_find(at, "hosts"), "cluster.hosts", err,
                         "Slurm chooses the hosts; options: [--nodelist=a] limits them");
    for (size_t i = 0; k->hosts != NULL && i < k->hosts->n; i++)
        if (!is_host(k->hosts->child[i]->text))
            return yaml_fail(k->hosts->child[i], "cluster.hosts", err,
                             "found '%.100s', expected a host's name, which neither "
                             "begins with a dash nor has blanks or a shell's characters",
                             k->hosts->child[i]->text);
    if (k->options != NULL && command_check_words(k->options, "cluster.options", err) < 0)
        return ERR_CONFIG;
    return k->command != NULL ? command_check_words(k->command, "cluster.command", err)
                              : 0;
}

static int check_env_device(const struct run_config *c, const struct yaml_node *root,
                            struct err *err)
{
    const struct yaml_node *at = yaml_find(yaml_find(root, "env"), "device");
    const int64_t nodes = cluster_config_is_active(c) ? c->cluster.nodes : 0;
    char why[DEVICE_WHY_BYTES];
    int64_t task;

    if (at == NULL || c->env.device == NULL ||
        (device_gpu(c->env.device) < 0 &&
         device_task(c->env.device, nodes, &task, why) == 0))
        return 0;
    if (device_gpu(c->env.device) >= 0)
        (void)refuse(why, c->env.device, "expected a machine: brood gives it no GPU");
    return yaml_fail(at, "env.device", err, "%s", why);
}

int cluster_config_complete(struct run_config *c, const struct yaml_node *root,
                            struct err *err)
{
    const struct yaml_node *at = yaml_find(root, "cluster");
    struct cluster_config *k = &c->cluster;
    int rc;

    if (!c->has_cluster)
        return check_env_device(c, root, err);
    if (k->nodes == 0 && k->launcher != LAUNCHER_SLURM)
        k->nodes = k->hosts != NULL ? (int64_t)k->hosts->n : 1;
    if (k->listen == NULL)
        k->listen = "auto";
    rc = check_launcher(c, at, err);
    return rc < 0 ? rc : check_env_device(c, root, err);
}

static const struct yaml_node *copy_words(const struct yaml_node *words,
                                          struct arena *arena)
{
    return words != NULL ? yaml_tree_copy(words, arena) : NULL;
}

static void take_device(struct agent_config *a, const struct agent_config *from,
                        struct arena *arena)
{
    a->device = from->device != NULL ? arena_strdup(arena, from->device) : NULL;
}

void cluster_config_take(struct run_config *c, const struct run_config *from)
{
    struct cluster_config *k = &c->cluster;

    c->has_cluster = from->has_cluster;
    *k = from->cluster;
    k->hosts = copy_words(k->hosts, &c->arena);
    k->options = copy_words(k->options, &c->arena);
    k->command = copy_words(k->command, &c->arena);
    k->listen = k->listen != NULL ? arena_strdup(&c->arena, k->listen) : NULL;
    c->env.device =
        from->env.device != NULL ? arena_strdup(&c->arena, from->env.device) : NULL;
    take_device(&c->defaults, &from->defaults, &c->arena);
    for (size_t i = 0; i < c->n_agents && i < from->n_agents; i++)
        take_device(&c->agents[i], &from->agents[i], &c->arena);
}
