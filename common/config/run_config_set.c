#include "common/config/algorithms.h"
#include "common/config/changes.h"
#include "common/config/evaluation_rules.h"
#include "common/config/loader.h"
#include "common/config/run_schema.h"
#include "common/mem/xmalloc.h"
#include "common/text/scan.h"

#include <stdlib.h>
#include <string.h>

static void copy_texts(struct agent_config *a, struct arena *arena)
{
    a->name = arena_strdup(arena, a->name);
    schema_copy_texts(&agent_schema, a, arena);
    if (a->from_at != NULL)
        a->from_at = yaml_tree_copy(a->from_at, arena);
}

void run_config_copy(struct run_config *ret, const struct run_config *from)
{
    *ret = *from;
    ret->arena = ARENA_ZERO;
    ret->plan = NULL;
    schema_copy_texts(&run_schema, ret, &ret->arena);
    copy_texts(&ret->defaults, &ret->arena);
    ret->agents = ARENA_ARRAY(&ret->arena, struct agent_config, from->n_agents);
    for (size_t i = 0; i < from->n_agents; i++) {
        ret->agents[i] = from->agents[i];
        copy_texts(&ret->agents[i], &ret->arena);
    }
    if (from->env.agents != NULL)
        ret->env.agents = ret->agents;
}

const char *config_path_within(const char *path, const char *prefix)
{
    const char *rest = text_after(path, prefix);

    if (rest == NULL || *rest == '\0')
        return rest;
    return *rest == '.' ? rest + 1 : NULL;
}

/* Returns the part of the path inside the agent's section; "" for the whole section,
 * NULL if the path is not about this agent. */
static const char *within_agent(const char *path, const char *name)
{
    const char *key = text_after(path, "agents.");

    if (strcmp(path, "agents") == 0)
        return "";
    return key != NULL ? config_path_within(key, name) : NULL;
}

void *run_config_locate(const struct run_config *c, const char *path,
                        struct schema_place *ret)
{
    struct run_config *base = (struct run_config *)(uintptr_t)c;
    const char *rest = config_path_within(path, "defaults");
    void *of = rest != NULL ? (void *)&base->defaults : base;
    int rc = rest != NULL ? schema_locate(&agent_schema, rest, of, ret)
                          : schema_locate(&run_schema, path, of, ret);

    for (size_t i = 0; i < c->n_agents && (rc < 0 || ret->field->type == FIELD_RAW);
         i++) {
        rest = within_agent(path, c->agents[i].name);
        if (rest == NULL)
            continue;
        of = &base->agents[i];
        rc = schema_locate(&agent_schema, rest, of, ret);
    }
    return rc == 0 ? of : NULL;
}

static char *key_of(struct arena *arena, const char *assignment)
{
    return arena_strndup(arena, assignment, strcspn(assignment, "="));
}

/* Whether one of the assignments set[0..n) assigns path[0..len) or a key below it. */
static int is_begun(const char *const *set, size_t n, const char *path, size_t len)
{
    while (n > 0 && (strncmp(set[n - 1], path, len) != 0 ||
                     (set[n - 1][len] != '.' && set[n - 1][len] != '=')))
        n--;
    return n > 0;
}

/* If `path`, the key of set[i], leads into a list or tree, the assignment changes only a
 * part of it: copies the whole list or tree from c into `root` first. */
static int put_whole(const struct run_config *c, struct yaml_node *root,
                     struct arena *arena, const char *const *set, size_t i,
                     const char *path, struct err *err)
{
    struct schema_place at;
    const void *whole = run_config_locate(c, path, &at);
    char *text;
    size_t len;
    int rc;

    if (whole == NULL || *at.rest == '\0' || at.field->type == FIELD_RAW ||
        schema_is_number(at.field) ||
        !schema_is_given(at.schema, whole, at.section, at.field))
        return 0;
    len = (size_t)(at.rest - path) - 1;
    if (is_begun(set, i, path, len))
        return 0;
    text = schema_text_of(at.field, at.value);
    rc = yaml_tree_set(root, arena, "",
                       arena_printf(arena, "%.*s=%s", (int)len, path, text), err);
    free(text);
    return rc;
}

/* Builds a tree of the assigned values. It has a map for every agent, so that agents'
 * names with dots are found. */
static int collect_given(const struct run_config *from, const char *const *set, size_t n,
                         struct arena *arena, struct yaml_node *root, struct err *err)
{
    struct yaml_node *agents = ARENA_NEW(arena, struct yaml_node);
    int rc = 0;

    *root = (struct yaml_node){.kind = YAML_MAP, .place = "config.yaml"};
    *agents = (struct yaml_node){
        .kind = YAML_MAP, .place = root->place, .key = "agents", .n = from->n_agents};
    root->child = ARENA_ARRAY(arena, struct yaml_node *, 1);
    root->child[root->n++] = agents;
    agents->child = ARENA_ARRAY(arena, struct yaml_node *, from->n_agents);
    for (size_t i = 0; i < from->n_agents; i++) {
        agents->child[i] = ARENA_NEW(arena, struct yaml_node);
        *agents->child[i] = (struct yaml_node){
            .kind = YAML_MAP, .place = root->place, .key = from->agents[i].name};
    }
    for (size_t i = 0; i < n && rc == 0; i++) {
        rc = put_whole(from, root, arena, set, i, key_of(arena, set[i]), err);
        if (rc == 0)
            rc = yaml_tree_set(root, arena, "", set[i], err);
        evaluation_rules_expand(root, arena); /* before its mode is set */
    }
    return rc;
}

/* Assigns the values of the run and of `defaults`. */
static int read_run_over(struct loader *l, const struct run_config *from)
{
    const struct yaml_node *defaults = yaml_find(l->root, "defaults");
    const struct yaml_node *env = yaml_find(l->root, "env");
    struct run_config *c = l->c;
    int rc = loader_refuse_extends(l->root, l->err);

    if (rc == 0)
        rc = schema_read(&run_schema, l->root, "", c, &c->arena, l->err);
    if (rc == 0 && c->env.id == NULL)
        rc = yaml_fail(l->root, "env.id", l->err,
                       "not given, expected an environment's name or none");
    if (rc == 0 && env != NULL && env->kind == YAML_MAP &&
        env_config_is_external(&c->env) == env_config_is_external(&from->env))
        rc = env_config_check(c, env, l->err);
    if (rc == 0)
        rc = evaluation_rules_check(c, l->root, l->err);
    if (rc == 0 && c->run.name == NULL)
        c->run.name = c->env.id;
    if (rc == 0)
        rc = loader_resolve_lengths(l);
    if (rc == 0 && defaults != NULL)
        rc = agent_section_read(l, defaults, "defaults", &c->defaults);
    return rc;
}

static int read_agents_over(struct loader *l)
{
    struct yaml_node *agents = yaml_find(l->root, "agents");
    struct run_config *c = l->c;
    const char **names = xcalloc(c->n_agents + 1, sizeof(*names));
    int rc = 0;

    for (size_t i = 0; i < c->n_agents; i++)
        names[i] = c->agents[i].name;
    if (agents != NULL && agents->kind != YAML_MAP)
        rc = yaml_fail(agents, "agents", l->err, "expected a map of agents by name");
    else if (agents != NULL)
        rc = loader_expand_teams(l, agents, names, c->n_agents);
    for (size_t i = 0; i < c->n_agents && rc == 0; i++) {
        const struct yaml_node *section = yaml_find(agents, names[i]);
        char path[AGENT_NAME_MAX + 16];

        (void)snprintf(path, sizeof(path), "agents.%s", names[i]);
        if (section != NULL)
            rc = agent_section_read(l, section, path, &c->agents[i]);
        if (rc == 0) {
            agent_config_resolve(&c->agents[i]);
            rc = loader_check_actions(l, &c->agents[i]);
        }
    }
    free(names);
    return rc;
}

/* The order matters: first the values of the run and of `defaults`, then agents follow
 * changed defaults, then their own values are assigned. */
static int assign(struct loader *l, const struct run_config *from, const char *const *set,
                  size_t n, struct arena *arena)
{
    struct run_config *c = l->c;
    int rc;

    l->steps_given = from->checkpoint.every_env_steps > 0;
    for (size_t i = 0; i < n; i++) {
        const char *path = key_of(arena, set[i]);
        const char *rest = config_path_within(path, "defaults");

        if (config_path_within("checkpoint.every_env_steps", path) != NULL)
            l->steps_given =
                loader_given(l->root, "checkpoint", "every_env_steps") != NULL;
        if (rest != NULL)
            schema_reset(&agent_schema, rest, &c->defaults, NULL, &c->arena);
        else
            schema_reset(&run_schema, path, c, NULL, &c->arena);
    }
    rc = read_run_over(l, from);
    if (rc < 0)
        return rc;
    agent_config_resolve(&c->defaults);
    for (size_t k = 0; k < c->n_agents; k++) {
        struct agent_config *a = &c->agents[k];

        schema_follow(&agent_schema, &from->defaults, &c->defaults, a);
        for (size_t i = 0; i < n; i++) {
            const char *rest = within_agent(key_of(arena, set[i]), a->name);

            if (rest != NULL)
                schema_reset(&agent_schema, rest, a, &c->defaults, &c->arena);
        }
        agent_section_take(a, &c->arena);
    }
    rc = read_agents_over(l);
    return rc < 0 ? rc : loader_check_experience(l);
}

size_t config_expand_teams(const struct run_config *c, const char *const *set, size_t n,
                           struct arena *arena, const char ***ret)
{
    const char **names = ARENA_ARRAY(arena, const char *, c->n_agents);
    const char **all = ARENA_ARRAY(arena, const char *, n *(c->n_agents + 1));
    size_t n_all = 0;

    for (size_t k = 0; k < c->n_agents; k++)
        names[k] = c->agents[k].name;
    for (size_t i = 0; i < n; i++) {
        const char *key = text_after(set[i], "agents.");
        const size_t len = key != NULL ? strcspn(key, ".=") : 0;
        const int is_team = key != NULL && config_is_team(key, len, names, c->n_agents);

        if (!is_team)
            all[n_all++] = set[i];
        for (size_t k = 0; is_team && k < c->n_agents; k++)
            if (config_is_team(key, len, &names[k], 1))
                all[n_all++] = arena_printf(arena, "agents.%s%s", names[k], key + len);
    }
    *ret = all;
    return n_all;
}

int run_config_set(struct run_config *ret, const struct run_config *from,
                   const char *const *set, size_t n_set, struct err *err)
{
    struct arena tree = ARENA_ZERO;
    const char **all;
    const size_t n = config_expand_teams(from, set, n_set, &tree, &all);
    struct yaml_node root;
    int rc = collect_given(from, all, n, &tree, &root, err);

    run_config_copy(ret, from);
    if (rc == 0)
        rc = assign(&(struct loader){.c = ret, .root = &root, .err = err}, from, all, n,
                    &tree);
    arena_done(&tree);
    if (rc < 0)
        run_config_done(ret);
    return rc;
}
