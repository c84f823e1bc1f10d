/* Keys that may also stand directly in a section of agents, and other short forms: they are
 * moved to where the schema has them, with their file and line. */
#include "common/config/evaluation_rules.h"
#include "common/config/loader.h"
#include "common/config/run_schema.h"

#include "common/text/scan.h"

#include <string.h>

struct expanding {
    struct yaml_node *root;
    struct arena *arena;
    struct err *err;
    const char *path; /* of the section: "defaults", "agents.NAME" */
    struct yaml_node *section;
};

/* The map with that key, which is added if there is none. NULL: the key has another value. */
static struct yaml_node *map_in(struct yaml_node *parent, const char *key,
                                const struct yaml_node *like, struct arena *arena)
{
    struct yaml_node *map = yaml_find(parent, key);

    if (map != NULL && yaml_is_null(map)) {
        yaml_remove(parent, map);
        map = NULL;
    }
    if (map == NULL) {
        map = yaml_as(&(struct yaml_node){.kind = YAML_MAP,
                                          .place = like->place,
                                          .line = like->line},
                      key, arena);
        yaml_add(parent, map, arena);
    }
    return map->kind == YAML_MAP ? map : NULL;
}

/* Moves a value to its place in the section, "settings.n_step". A value of the command line, which
 * has no line, comes before one of a file. */
static int move(struct expanding *x, const struct yaml_node *value, const char *is)
{
    const char *dot = *x->path != '\0' ? "." : "", *last = strrchr(is, '.');
    const char *key = last != NULL ? last + 1 : is;
    const char *where =
        arena_strndup(x->arena, is, last != NULL ? (size_t)(last - is) : 0);
    struct yaml_node *map =
        *where != '\0' ? map_in(x->section, where, value, x->arena) : x->section;
    const struct yaml_node *other = yaml_find(map, key);
    const char *path = arena_printf(x->arena, "%s%s%s", x->path, dot, value->key);

    if (map == NULL)
        return yaml_fail(value, path, x->err, "%s%s%s is no map", x->path, dot, where);
    if (other != NULL && (other->line == 0) == (value->line == 0))
        return yaml_fail(value, path, x->err, "%s%s%s is given, too, expected one",
                         x->path, dot, is);
    yaml_remove(x->section, value);
    if (other != NULL && other->line == 0)
        return 0;
    if (other != NULL)
        yaml_remove(map, other);
    yaml_add(map, yaml_as(value, key, x->arena), x->arena);
    return 0;
}

static int is_text(const struct yaml_node *n, const char *text)
{
    return n != NULL && n->kind == YAML_SCALAR && strcmp(n->text, text) == 0;
}

/* ---- keys of the section ---- */

/* recurrent: none, or {cell: gru, width: 64}; target: {polyak: 0.01}, or {every: 200}. */
static int check_forms(const struct expanding *x)
{
    const struct yaml_node *recurrent = yaml_find(x->section, "recurrent");
    const struct yaml_node *target = yaml_find(x->section, "target");
    const size_t n = 1u + (yaml_find(recurrent, "cell") != NULL);

    if (recurrent != NULL && recurrent->kind == YAML_MAP &&
        (yaml_find(recurrent, "width") == NULL || recurrent->n != n))
        return yaml_fail(recurrent, arena_printf(x->arena, "%s.recurrent", x->path),
                         x->err, "expected none or {cell: gru, width: UNITS}");
    if (target != NULL && (target->n != 1 || (yaml_find(target, "polyak") == NULL &&
                                              yaml_find(target, "every") == NULL)))
        return yaml_fail(target, arena_printf(x->arena, "%s.target", x->path), x->err,
                         "expected {polyak: SHARE} or {every: UPDATES}");
    return 0;
}

static int expand_alias(struct expanding *x, const struct schema_alias *a)
{
    const char *dot = strchr(a->key, '.');
    const char *key = arena_strndup(x->arena, a->key, strcspn(a->key, "."));
    struct yaml_node *whole = yaml_find(x->section, key), *value = whole;

    if (dot != NULL)
        value = yaml_find(whole, dot + 1);
    if (value == NULL)
        return 0;
    if (dot != NULL)
        yaml_remove(whole, value);
    if (dot != NULL && whole->n == 0)
        yaml_remove(x->section, whole);
    if (a->none_is_zero && is_text(value, "none"))
        value->text = "0";
    value->key = key;
    return move(x, value, a->is);
}

/* ---- keys of the run, and of other agents ---- */

/* All agents draw the same rows, so that `defaults` alone can have it. */
static int expand_priority(struct expanding *x)
{
    struct yaml_node *value = yaml_find(x->section, "priority");
    struct expanding of_root = {x->root, x->arena, x->err, "", x->root};

    if (value == NULL || strcmp(x->path, "defaults") != 0)
        return 0;
    yaml_remove(x->section, value);
    return is_text(value, "none") ? 0 : move(&of_root, value, "experience.priority");
}

/* Gives each agent of the list this list as its `share`, unless it has one. */
static int expand_group(struct expanding *x, struct yaml_node *agents,
                        const struct yaml_node *group)
{
    if (group->kind != YAML_LIST)
        return yaml_fail(group, "defaults.share", x->err,
                         "expected lists of agents' names");
    for (size_t i = 0; i < group->n; i++) {
        const struct yaml_node *name = group->child[i];
        struct yaml_node *agent;

        if (name->kind != YAML_SCALAR)
            return yaml_fail(name, "defaults.share", x->err,
                             "expected the name of an agent");
        if (agents->n >= AGENT_MAX_COUNT)
            return yaml_fail(name, "defaults.share", x->err,
                             "these are more than %d agents", AGENT_MAX_COUNT);
        agent = map_in(agents, name->text, group, x->arena);
        if (agent != NULL && yaml_find(agent, "share") == NULL)
            yaml_add(agent, yaml_as(group, "share", x->arena), x->arena);
    }
    return 0;
}

/* share: [[agent_0, agent_1], ...], in `defaults`. */
static int expand_groups(struct expanding *x)
{
    const struct yaml_node *groups = yaml_find(x->section, "share");
    struct yaml_node *agents;
    int rc = 0;

    if (groups == NULL || groups->kind != YAML_LIST || groups->n == 0 ||
        groups->child[0]->kind != YAML_LIST || strcmp(x->path, "defaults") != 0)
        return 0;
    agents = map_in(x->root, "agents", groups, x->arena);
    for (size_t i = 0; i < groups->n && agents != NULL && rc == 0; i++)
        rc = expand_group(x, agents, groups->child[i]);
    yaml_remove(x->section, groups);
    return rc;
}

/* ---- sections ---- */

static int expand_section(void *ctx, struct yaml_node *section, const char *path)
{
    struct expanding *x = ctx;
    int rc;

    x->section = section;
    x->path = path;
    rc = check_forms(x);
    for (const struct schema_alias *a = agent_aliases; a->key != NULL && rc == 0; a++)
        rc = expand_alias(x, a);
    if (rc == 0)
        rc = expand_priority(x);
    return rc == 0 ? expand_groups(x) : rc;
}

int loader_each_section(struct yaml_node *root, struct arena *tree,
                        int (*fn)(void *ctx, struct yaml_node *section, const char *path),
                        void *ctx)
{
    struct yaml_node *agents = yaml_find(root, "agents");
    struct yaml_node *defaults = yaml_find(root, "defaults");
    int rc = 0;

    for (size_t i = 0;
         agents != NULL && agents->kind == YAML_MAP && i < agents->n && rc == 0; i++)
        if (agents->child[i]->kind == YAML_MAP)
            rc = fn(ctx, agents->child[i],
                    arena_printf(tree, "agents.%s", agents->child[i]->key));
    return rc == 0 && defaults != NULL && defaults->kind == YAML_MAP
               ? fn(ctx, defaults, "defaults")
               : rc;
}

int loader_expand_shorthands(struct yaml_node *root, struct arena *tree, struct err *err)
{
    evaluation_rules_expand(root, tree);
    return loader_each_section(
        root, tree, expand_section,
        &(struct expanding){.root = root, .arena = tree, .err = err});
}

/* ---- sizes of older builds ---- */

static int add_unit(void *ctx, struct yaml_node *section, const char *path)
{
    struct yaml_node *size = yaml_find(section, "memory_limit");

    if (size != NULL && size->kind == YAML_SCALAR && text_is_digits(size->text))
        size->text = arena_printf(ctx, "%sB", size->text);
    return 0;
}

void loader_add_units(struct yaml_node *root, struct arena *tree)
{
    (void)add_unit(tree, yaml_find(root, "env"), "env");
    (void)loader_each_section(root, tree, add_unit, tree);
}

/* ---- agent_id: auto ---- */

struct sharing {
    const struct yaml_node *defaults;
    int any_number; /* policies are for any number of agents */
    struct arena *arena;
};

static const struct yaml_node *value_of(const struct sharing *x,
                                        const struct yaml_node *own, const char *path)
{
    const struct yaml_node *n = yaml_find_path(own, path);

    return n != NULL ? n : yaml_find_path(x->defaults, path);
}

/* Agents that share parameters without symmetry see which of the team they are; but not if their
 * policies are for any number of agents. */
static int resolve_agent_id(void *ctx, struct yaml_node *own, const char *path)
{
    const struct sharing *x = ctx;
    const struct yaml_node *value = value_of(x, own, "settings.agent_id");
    const struct yaml_node *share = value_of(x, own, "share");
    struct yaml_node *settings, *resolved;

    if (!is_text(value, "auto"))
        return 0;
    settings = map_in(own, "settings", value, x->arena);
    if (settings == NULL)
        return 0;
    resolved = yaml_as(value, "agent_id", x->arena);
    resolved->text = share != NULL && !x->any_number && !is_text(share, "none") &&
                             !is_text(value_of(x, own, "settings.symmetry"), "env")
                         ? "true"
                         : "false";
    yaml_remove(settings, yaml_find(settings, "agent_id"));
    yaml_add(settings, resolved, x->arena);
    return 0;
}

void loader_resolve_agent_ids(struct yaml_node *root, struct arena *tree)
{
    struct sharing x = {.defaults = yaml_find(root, "defaults"),
                        .any_number =
                            is_text(yaml_find_path(root, "env.observe"), "entities"),
                        .arena = tree};

    (void)loader_each_section(root, tree, resolve_agent_id, &x);
}
