/* Finds the place in the file of an error that an agent reports about its
 * configuration. */
#include "common/config/run_schema.h"

#include <stdio.h>

/* Adds the place to an agent's error; why->key is a key of the agent's section. */
static int place(const struct yaml_node *root, const char *agent, const struct err *why,
                 struct err *err)
{
    const struct yaml_node *own = yaml_find(yaml_find(root, "agents"), agent);
    const struct yaml_node *defaults = yaml_find(root, "defaults"), *at;
    char path[AGENT_NAME_MAX + ERR_NAME_BYTES + 16];

    (void)snprintf(path, sizeof(path), "agents.%s%s%s", agent,
                   *why->key != '\0' ? "." : "", why->key);
    at = yaml_find_path(own, why->key);
    if (at == NULL && *why->key != '\0' && yaml_find_path(defaults, why->key) != NULL) {
        at = yaml_find_path(defaults, why->key);
        (void)snprintf(path, sizeof(path), "defaults.%s", why->key);
    }
    if (at == NULL)
        at = own != NULL ? own : defaults != NULL ? defaults : root;
    (void)yaml_fail(at, path, err, "%s (agent %s)", err_cause(why), agent);
    (void)err_note(err, ERR_AT(.agent = agent));
    return ERR_CONFIG;
}

int run_config_try(const struct run_config *c, const struct yaml_node *root,
                   const struct config_options *options, struct err *err)
{
    struct err why = {0};
    size_t agent = 0;
    int rc;

    if (options == NULL || options->try_agents == NULL)
        return 0;
    rc = options->try_agents(options->try_ctx, c, &agent, &why);
    if (rc == ERR_CONFIG && agent == c->n_agents) { /* about the whole configuration */
        const struct yaml_node *at = yaml_find_path(root, why.key);

        return yaml_fail(at != NULL ? at : root, why.key, err, "%s", err_cause(&why));
    }
    if (rc == ERR_CONFIG)
        return place(root, c->agents[agent].name, &why, err);
    return rc < 0 ? err_pass(err, &why) : 0;
}
