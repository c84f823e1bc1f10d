/* Finds the place in the file of an error that an agent reports about its
 * configuration. */
#include "common/config/loader.h"
#include "common/config/run_schema.h"

/* Adds the place to an agent's error; why->key is a key of the agent's section. */
static int place(const struct yaml_node *root, const char *agent, const struct err *why,
                 struct err *err)
{
    const struct yaml_node *own = yaml_find(yaml_find(root, "agents"), agent);
    const struct yaml_node *defaults = yaml_find(root, "defaults"), *at;
    char path[LOADER_PATH_BYTES];

    at = loader_find(root, agent, why->key, path);
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
