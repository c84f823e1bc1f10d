/* Sections of `agents` for whole teams. */
#include "common/config/algorithms.h"
#include "common/config/loader.h"
#include "common/config/run_schema.h"
#include "common/config/team_name.h"
#include "common/text/scan.h"

#include <string.h>

static int is_of_team(const char *name, const char *team, size_t len)
{
    return agent_team_length(name) == len && strncmp(name, team, len) == 0;
}

static int is_agent(const char *key, const char *const *names, size_t n)
{
    size_t i = 0;

    while (i < n && strcmp(names[i], key) != 0)
        i++;
    return i < n;
}

int config_is_team(const char *key, size_t len, const char *const *names, size_t n)
{
    size_t i = 0;

    for (size_t k = 0; k < n; k++)
        if (text_is_word(key, len, names[k]))
            return 0;
    while (i < n && !is_of_team(names[i], key, len))
        i++;
    return i < n;
}

/* Fails because there is no agent or team of that name. The error lists each agent, then
 * each team whose name is not an agent's; and where the environment was chosen, if a file extends
 * that of the section. */
static int fail_unknown(const struct loader *l, const struct yaml_node *section,
                        const char *const *names, size_t n)
{
    const struct yaml_node *id = yaml_find_path(l->root, "env.id");
    const char **choices = ARENA_ARRAY(&l->c->arena, const char *, 2 * n);
    size_t n_choices = n;

    if (n > 0)
        memcpy(choices, names, n * sizeof(*names));
    for (size_t i = 0; i < n; i++) {
        const size_t len = agent_team_length(names[i]);
        const char *team = arena_strndup(&l->c->arena, names[i], len);

        if (!is_agent(team, choices, n_choices))
            choices[n_choices++] = team;
    }
    (void)schema_fail_choice(section, "agents", section->key, choices, n_choices, l->err);
    if (id != NULL && id->line > 0 && yaml_newer(l->root, section, id) == id)
        (void)err_add(l->err, "%s:%d chooses another environment", id->place, id->line);
    return l->err->code;
}

/* Checks a team's section before the members get copies of it, so that errors in it name
 * the team. The members may have several algorithms. */
static int check_team(const struct loader *l, const struct yaml_node *section)
{
    struct agent_config any = l->c->defaults;
    const char *path = arena_printf(&l->c->arena, "agents.%s", section->key);

    any.settings.of = algorithm_any();
    return schema_read(&agent_schema, section, path, &any, &l->c->arena, l->err);
}

static struct yaml_node *section_of(const struct loader *l, struct yaml_node *agents,
                                    const char *name)
{
    struct yaml_node *own = yaml_find(agents, name), *all, *both;
    const char *team = arena_strndup(&l->c->arena, name, agent_team_length(name));

    all = strcmp(team, name) != 0 ? yaml_find(agents, team) : NULL;
    if (all == NULL || all->kind != YAML_MAP ||
        (own != NULL && own->kind != YAML_MAP && !yaml_is_null(own)))
        return own;
    both = yaml_merge(&l->c->arena, all, own != NULL && yaml_is_null(own) ? NULL : own);
    both->key = arena_strdup(&l->c->arena, name);
    return both;
}

int loader_expand_teams(const struct loader *l, struct yaml_node *agents,
                        const char *const *names, size_t n)
{
    struct yaml_node **sections = ARENA_ARRAY(&l->c->arena, struct yaml_node *, n);
    size_t n_sections = 0;
    int any = 0;

    for (size_t i = 0; i < agents->n; i++) {
        const struct yaml_node *section = agents->child[i];
        int rc;

        if (is_agent(section->key, names, n))
            continue;
        if (!config_is_team(section->key, strlen(section->key), names, n))
            return fail_unknown(l, section, names, n);
        if ((rc = check_team(l, section)) < 0)
            return rc;
        any = 1;
    }
    if (any && l->steps != NULL)
        loader_expand_steps(l, agents, names, n);
    for (size_t i = 0; i < n && any; i++) {
        struct yaml_node *section = section_of(l, agents, names[i]);

        if (section != NULL)
            sections[n_sections++] = section;
    }
    if (any) {
        agents->child = sections;
        agents->n = n_sections;
    }
    return 0;
}

void loader_resize_teams(const struct loader *l, struct yaml_node *agents,
                         const char *const *names, size_t n)
{
    struct yaml_node **sections = ARENA_ARRAY(&l->c->arena, struct yaml_node *, n);
    size_t n_sections = 0;

    for (size_t i = 0; i < n; i++) {
        const struct yaml_node *like = yaml_find(agents, names[i]);
        struct yaml_node *section;

        for (size_t k = 0; like == NULL && k < agents->n; k++) /* the first of its team */
            if (is_of_team(agents->child[k]->key, names[i], agent_team_length(names[i])))
                like = agents->child[k];
        if (like == NULL)
            continue;
        section = yaml_tree_copy(like, &l->c->arena);
        section->key = arena_strdup(&l->c->arena, names[i]);
        sections[n_sections++] = section;
    }
    agents->child = sections;
    agents->n = n_sections;
}
