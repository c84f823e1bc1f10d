/* The section `env`. A built-in environment has an id; an external one has a command or a
 * plugin. */
#include "common/config/run_config.h"

#include "common/config/run_schema.h"
#include "common/text/scan.h"

#include <ctype.h>
#include <string.h>

int env_config_is_external(const struct env_config *c)
{
    return c->command != NULL || c->plugin != NULL;
}

int env_config_applies(const void *root, const void *section, const struct field *field)
{
    const struct run_config *c = root;

    return (field->flags &
            (env_config_is_external(&c->env) ? FIELD_NATIVE : FIELD_EXTERNAL)) == 0;
}

/* Refuses keys that belong to the other kind of environment. */
static int check_keys(const struct run_config *c, const struct yaml_node *env,
                      struct err *err)
{
    const struct schema *s = schema_find(&run_schema, "env")->schema;
    char path[64];

    for (size_t i = 0; i < env->n; i++) {
        const struct yaml_node *n = env->child[i];
        const struct field *f = schema_find(s, n->key);

        if (env_config_applies(c, &c->env, f))
            continue;
        (void)snprintf(path, sizeof(path), "env.%.48s", n->key);
        return f->flags & FIELD_NATIVE
                   ? yaml_fail(n, path, err, "is not for env.%s, which has its own",
                               c->env.id)
                   : yaml_fail(n, path, err, "is for env.command and env.plugin alone");
    }
    return 0;
}

static int check_restart(const struct run_config *c, const struct yaml_node *env,
                         struct err *err)
{
    const struct yaml_node *at = yaml_find(yaml_find(env, "restart"), "on_give_up");

    if (c->env.restart.on_give_up == GIVE_UP_STOP)
        return 0;
    return yaml_fail(at, "env.restart.on_give_up", err,
                     "found '%.20s', expected stop: nothing can replace an "
                     "environment",
                     at->text);
}

/* Returns the run's default name: "mpe2.simple_spread_v3", or "hallway" for
 * "envs/hallway.py". */
static const char *name_of(const struct env_config *c, struct arena *arena)
{
    const char *word =
        c->plugin != NULL ? c->plugin : c->command->child[c->command->n - 1]->text;
    char *name = arena_strdup(arena, text_base_name(word)), *dot;

    for (dot = strrchr(name, '.'); dot != NULL && dot != name; dot = NULL)
        if (strcmp(dot, ".so") == 0 || strcmp(dot, ".py") == 0)
            *dot = '\0';
    return schema_is_name(name) ? name : "environment";
}

/* Checks the parameters of a plugin: single values, which it receives as texts. */
static int check_plugin_params(const struct run_config *c, const struct yaml_node *env,
                               struct err *err)
{
    const struct yaml_node *params = yaml_find(env, "params");
    char path[64];

    if (c->env.plugin == NULL || params == NULL)
        return 0;
    if (params->n > PLUGIN_MAX_PARAMS)
        return yaml_fail(params, "env.params", err, "found %zu, expected at most %d",
                         params->n, PLUGIN_MAX_PARAMS);
    for (size_t i = 0; i < params->n; i++) {
        const struct yaml_node *n = params->child[i];

        (void)snprintf(path, sizeof(path), "env.params.%.48s", n->key);
        if (n->kind != YAML_SCALAR || yaml_is_null(n))
            return yaml_fail(n, path, err,
                             "found %s, expected one value: a plugin has "
                             "its text",
                             n->kind == YAML_LIST  ? "a list"
                             : n->kind == YAML_MAP ? "a map"
                                                   : "nothing");
    }
    return 0;
}

static int complete_external(struct run_config *c, const struct yaml_node *env,
                             struct err *err)
{
    const char *kind = c->env.command != NULL ? "command" : "plugin";
    int rc;

    if (c->env.command != NULL && c->env.plugin != NULL)
        return yaml_fail(
            yaml_newer(env, yaml_find(env, "plugin"), yaml_find(env, "command")), "env",
            err, "command and plugin are both given, expected one");
    if (c->env.id != NULL && strcmp(c->env.id, kind) != 0)
        return yaml_fail(yaml_newer(env, yaml_find(env, "id"), yaml_find(env, kind)),
                         "env", err, "id and %s are both given, expected one", kind);
    if (c->env.command != NULL &&
        (rc = command_check_words(c->env.command, "env.command", err)) < 0)
        return rc;
    c->env.id = kind;
    if (yaml_find(env, "max_steps") == NULL)
        c->env.max_steps = 0;
    if (c->run.name == NULL)
        c->run.name = name_of(&c->env, &c->arena);
    rc = command_complete_directory(&c->env.directory, &c->arena,
                                    yaml_find(env, "directory"), "env.directory", err);
    if (rc < 0 || (rc = check_plugin_params(c, env, err)) < 0)
        return rc;
    return check_restart(c, env, err);
}

/* ---- a folder that has moved ---- */

/* Whether `is` is `was` with the old folder's name, wherever a path begins with it, replaced:
 * of /old, in --data=/old/x, but not in /data/old. */
static int is_moved_text(const char *was, const char *is, const char *old,
                         const char *new)
{
    const char *const begin = was;
    const char *after;

    while (*was != '\0') {
        const int is_within =
            was > begin && (isalnum((unsigned char)was[-1]) || strchr("._-~/", was[-1]));

        after = is_within ? NULL : text_after(was, old);
        if (after != NULL && (*after == '/' || *after == '\0') &&
            text_after(is, new) != NULL) {
            was = after;
            is = text_after(is, new);
        } else if (*was++ != *is++) {
            return 0;
        }
    }
    return *is == '\0';
}

static int is_moved(const struct env_config *was, const struct env_config *is)
{
    const char *old = was->directory, *new = is->directory;

    if (!env_config_is_external(was) || strcmp(was->id, is->id) != 0 || old == NULL ||
        new == NULL)
        return 0;
    if (was->plugin != NULL)
        return is->plugin != NULL && is_moved_text(was->plugin, is->plugin, old, new);
    if (is->command == NULL || is->command->n != was->command->n)
        return 0;
    for (size_t i = 0; i < was->command->n; i++)
        if (!is_moved_text(was->command->child[i]->text, is->command->child[i]->text, old,
                           new))
            return 0;
    return 1;
}

int env_config_take_place(struct env_config *e, const struct env_config *from,
                          struct arena *arena)
{
    if (!is_moved(e, from))
        return 0;
    e->directory = arena_strdup(arena, from->directory);
    if (e->plugin != NULL)
        e->plugin = arena_strdup(arena, from->plugin);
    else
        e->command = yaml_tree_copy(from->command, arena);
    return 1;
}

/* ---- the section ---- */

/* Without an environment there is nothing to stack or to clip; and entities are told apart by their
 * place in one observation. */
static int check_seen(const struct run_config *c, const struct yaml_node *env,
                      struct err *err)
{
    const char *key = c->env.stack > 1               ? "stack"
                      : c->env.clip_observations > 0 ? "clip_observations"
                      : c->env.clip_rewards > 0      ? "clip_rewards"
                                                     : NULL;
    char path[64];

    if (c->env.stack > 1 && c->env.observe == ENV_OBSERVE_ENTITIES)
        return yaml_fail(
            yaml_find(env, "stack"), "env.stack", err,
            "entities are seen one observation at a time, expected stack: 1 or "
            "observe: vector");
    if (key == NULL || strcmp(c->env.id, "none") != 0)
        return 0;
    (void)snprintf(path, sizeof(path), "env.%s", key);
    return yaml_fail(yaml_find(env, key), path, err, "is for runs with an environment");
}

int env_config_check(const struct run_config *c, const struct yaml_node *env,
                     struct err *err)
{
    int rc = check_keys(c, env, err);

    if (rc == 0)
        rc = check_seen(c, env, err);
    if (rc == 0 && env_config_is_external(&c->env) &&
        yaml_find(yaml_find(env, "restart"), "on_give_up") != NULL)
        rc = check_restart(c, env, err);
    return rc;
}

int env_config_complete(struct run_config *c, const struct yaml_node *root,
                        struct err *err)
{
    const struct yaml_node *env = yaml_find(root, "env");
    int rc = 0;

    if (!env_config_is_external(&c->env) && c->env.id == NULL)
        return yaml_fail(root, "env.id", err,
                         "not given, expected an environment's name or none");
    if (env_config_is_external(&c->env))
        rc = complete_external(c, env, err);
    else if (strcmp(c->env.id, "command") == 0 || strcmp(c->env.id, "plugin") == 0)
        return yaml_fail(yaml_find(env, "id"), "env.id", err,
                         "found '%s', but env.%s is not given", c->env.id, c->env.id);
    /* the limit of the package that the environment comes from */
    if (rc == 0 && yaml_find(env, "max_steps") == NULL)
        c->env.max_steps = strcmp(c->env.id, "foraging") == 0 ? 50 : c->env.max_steps;
    if (rc == 0)
        rc = check_seen(c, env, err);
    return rc < 0 ? rc : check_keys(c, env, err);
}
