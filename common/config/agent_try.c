/* Where in the file stands what an agent says against its configuration. */
#include "common/config/run_schema.h"

#include <stdio.h>
#include <string.h>

enum { KEY_MAX_BYTES = 64 };

/* "settings.policy" below a section; NULL: not given. */
static const struct yaml_node *find_path(const struct yaml_node *section,
                                         const char *path)
{
    char key[KEY_MAX_BYTES];

    while (section != NULL && *path != '\0') {
        const size_t n = strcspn(path, ".");

        (void)snprintf(key, sizeof(key), "%.*s", (int)n, path);
        section = yaml_find(section, key);
        path += n + (path[n] == '.' ? 1 : 0);
    }
    return section;
}

/* "settings.policy: why" of an agent. */
static int place(const struct yaml_node *root, const char *agent, const char *why,
                 struct err *err)
{
    const struct yaml_node *own = yaml_find(yaml_find(root, "agents"), agent);
    const struct yaml_node *defaults = yaml_find(root, "defaults"), *at;
    const size_t n = strspn(why, "abcdefghijklmnopqrstuvwxyz_.");
    char key[KEY_MAX_BYTES] = "", path[AGENT_NAME_MAX + KEY_MAX_BYTES + 16];

    if (n < sizeof(key) && strncmp(why + n, ": ", 2) == 0) {
        (void)snprintf(key, sizeof(key), "%.*s", (int)n, why);
        why += n + 2;
    }
    (void)snprintf(path, sizeof(path), "agents.%s%s%s", agent, *key != '\0' ? "." : "",
                   key);
    at = find_path(own, key);
    if (at == NULL && *key != '\0' && find_path(defaults, key) != NULL) {
        at = find_path(defaults, key);
        (void)snprintf(path, sizeof(path), "defaults.%s", key);
    }
    if (at == NULL)
        at = own != NULL ? own : defaults != NULL ? defaults : root;
    return yaml_fail(at, path, err, "%s (agent %s)", why, agent);
}

int run_config_try(const struct run_config *c, const struct yaml_node *root,
                   const struct config_options *options, struct err *err)
{
    struct err why = {0};
    size_t agent = 0;
    int rc;

    if (options == NULL || options->try_agents == NULL)
        return 0;
    rc = options->try_agents(c, &agent, &why);
    if (rc == ERR_CONFIG)
        return place(root, c->agents[agent].name, why.msg, err);
    return rc < 0 ? err_set(err, rc, "%s", why.msg) : 0;
}
