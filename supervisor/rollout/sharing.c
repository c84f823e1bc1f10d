#include "supervisor/rollout/sharing.h"

#include "common/config/algorithms.h"
#include "common/config/run_schema.h"
#include "common/config/schema.h"
#include "common/mem/xmalloc.h"
#include "common/text/scan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct making {
    struct sharing *s;
    const struct run_config *config;
    const struct env_spec *spec;
    struct err *err;
};

static const char *share_of(const struct making *m, size_t agent)
{
    const char *share = m->config->agents[agent].share;

    return share == NULL || strcmp(share, "none") == 0 ? NULL : share;
}

static const char *name_of(const struct making *m, size_t agent)
{
    return m->spec->agents[agent].name;
}

/* Whether the list "a b c" has the name. */
static int is_listed(const char *list, const char *name)
{
    while (*list != '\0') {
        const size_t n = strcspn(list, " ");

        if (text_is_word(list, n, name))
            return 1;
        list += n + (list[n] == ' ');
    }
    return 0;
}

#define refuse(m, at, ...)                                                               \
    err_set_at((m)->err, ERR_CONFIG, ERR_AT(.key = (at)), __VA_ARGS__)

/* ---- groups ---- */

/* Every agent on the agent's list must exist and give the same list. */
static int check_list(const struct making *m, size_t agent, const char *list)
{
    char name[AGENT_NAME_MAX];

    if (!is_listed(list, name_of(m, agent)))
        return refuse(m, "share", "found [%s], expected team, none, or a list with %s",
                      list, name_of(m, agent));
    for (const char *p = list; *p != '\0';) {
        const size_t n = strcspn(p, " ");
        size_t i = 0;

        (void)snprintf(name, sizeof(name), "%.*s", (int)n, p);
        p += n + (p[n] == ' ');
        while (i < m->spec->n_agents && strcmp(name_of(m, i), name) != 0)
            i++;
        if (i == m->spec->n_agents)
            return refuse(m, "share", "there is no agent '%s'", name);
        if (share_of(m, i) == NULL || strcmp(share_of(m, i), list) != 0)
            return refuse(m, "share", "%s is on the list, but has not the same list",
                          name);
    }
    return 0;
}

static int are_together(const struct making *m, size_t a, size_t b)
{
    const char *x = share_of(m, a), *y = share_of(m, b);

    if (x == NULL || y == NULL || strcmp(x, y) != 0)
        return 0;
    return strcmp(x, "team") != 0 ||
           strcmp(m->spec->agents[a].team, m->spec->agents[b].team) == 0;
}

static int name_group(const struct making *m, struct sharing_group *g)
{
    const int is_team = strcmp(share_of(m, g->first), "team") == 0;
    const char *stem = is_team ? m->spec->agents[g->first].team : name_of(m, g->first);
    const int len = snprintf(g->ps, sizeof(g->ps), "%s_ps", stem);

    if (len >= (int)sizeof(g->ps))
        return refuse(m, "share", "'%s_ps' is too long for a name", stem);
    for (size_t i = 0; i < m->spec->n_agents; i++)
        if (strcmp(name_of(m, i), g->ps) == 0)
            return refuse(m, "share",
                          "the process of the shared parameters would be called %s, as "
                          "an agent is",
                          g->ps);
    for (size_t i = 0; i < m->s->n_groups; i++)
        if (strcmp(m->s->groups[i].ps, g->ps) == 0)
            return refuse(m, "share", "two groups' processes would be called %s", g->ps);
    return 0;
}

static int add_group(const struct making *m, size_t first)
{
    struct sharing_group g = {.first = first};
    int rc;

    for (size_t i = first; i < m->spec->n_agents; i++)
        g.n += are_together(m, first, i);
    if (g.n < 2)
        return 0;
    rc = name_group(m, &g);
    if (rc < 0)
        return rc;
    for (size_t i = first; i < m->spec->n_agents; i++)
        if (are_together(m, first, i))
            m->s->group_of[i] = m->s->n_groups;
    m->s->groups[m->s->n_groups++] = g;
    return 0;
}

/* ---- actions ---- */

static int check_actions(const struct making *m, size_t agent)
{
    const struct algorithm_info *info = algorithm_of(&m->config->agents[agent]);
    const struct action_space *s = &m->spec->agents[agent].space;
    const char *names[64];
    char list[512];
    size_t n = 0;

    if (s->kind != SPACE_HYBRID || info->hybrid || info->is_unknown)
        return 0;
    for (size_t i = 0; n < 64 && algorithm_at(i) != NULL; i++)
        if (algorithm_at(i)->hybrid)
            names[n++] = algorithm_at(i)->name;
    schema_join_choices(list, sizeof(list), names, n);
    return refuse(m, "algorithm",
                  "%s cannot take the hybrid actions of %s, choices beside numbers, "
                  "expected %s",
                  info->name, name_of(m, agent), list);
}

/* ---- members ---- */

static int check_spaces(const struct making *m, size_t first, size_t agent)
{
    const struct env_agent *a = &m->spec->agents[first], *b = &m->spec->agents[agent];

    if (a->obs_width != b->obs_width)
        return refuse(m, "share",
                      "%s sees %lld numbers and %s %lld: they cannot share parameters "
                      "(share: none, or lists of agents that are alike)",
                      b->name, (long long)b->obs_width, a->name, (long long)a->obs_width);
    if (!env_sees_alike(a, b))
        return refuse(
            m, "share",
            "the observations of %s and %s differ in type or shape: they cannot "
            "share parameters (share: none, or lists of agents that are alike)",
            b->name, a->name);
    if (!env_acts_alike(a, b) ||
        env_is_masked(m->spec, first) != env_is_masked(m->spec, agent))
        return refuse(m, "share",
                      "%s and %s have different actions: they cannot share parameters "
                      "(share: none, or lists of agents that are alike)",
                      b->name, a->name);
    return 0;
}

/* Keys that count: these, or those that begin so, up to NULL, and settings with the flag. */
struct keys {
    const char *const *common;
    unsigned flag;
};

struct difference {
    const struct keys *among; /* NULL: all but `device` */
    char key[64];             /* "": there is none */
};

static int counts(const struct difference *first, const struct schema_difference *d)
{
    if (first->among == NULL)
        return strcmp(d->path, "device") != 0; /* members may run on several nodes */
    for (const char *const *key = first->among->common; *key != NULL; key++)
        if (text_after(d->path, *key) != NULL)
            return 1;
    return (d->field->flags & first->among->flag) != 0;
}

static void keep_first(void *ctx, const struct schema_difference *d)
{
    struct difference *first = ctx;

    if (d->field->change == CHANGE_LIVE || first->key[0] != '\0' || !counts(first, d))
        return;
    (void)snprintf(first->key, sizeof(first->key), "%s", d->path);
}

/* Returns the first setting in which a and b differ, or that only one of them has. */
static struct difference find_difference(const struct agent_config *a,
                                         const struct agent_config *b,
                                         const struct keys *among)
{
    struct difference d = {.among = among};

    schema_compare(&agent_schema, "", a, b, keep_first, &d);
    if (d.key[0] == '\0')
        schema_compare(&agent_schema, "", b, a, keep_first, &d);
    return d;
}

static int check_member(const struct making *m, const struct sharing_group *g,
                        size_t agent)
{
    const struct agent_config *a = &m->config->agents[agent];
    const struct algorithm_info *info = algorithm_of(a);
    struct difference d;
    int rc;

    if (!info->shares)
        return refuse(m, "share", "%s cannot share parameters, expected share: none",
                      a->algorithm);
    if (strcmp(m->config->env.id, "none") == 0)
        return refuse(m, "share", "nothing is shared in a run without environment");
    if (a->restart.on_give_up != GIVE_UP_STOP)
        return refuse(m, "restart.on_give_up",
                      "expected stop: the agents that share parameters through %s need "
                      "%s in every step",
                      g->ps, name_of(m, agent));
    if ((rc = check_spaces(m, g->first, agent)) < 0)
        return rc;
    d = find_difference(&m->config->agents[g->first], a, NULL);
    if (d.key[0] == '\0')
        return 0;
    return refuse(m, d.key,
                  "%s shares parameters with %s through %s, so it cannot have a value of "
                  "its own; expected one value for all of the group, as by defaults.%s",
                  name_of(m, agent), name_of(m, g->first), g->ps, d.key);
}

/* ---- teams with one central process ---- */

/* The central process has one value for these: that of the first team, for all teams. */
static const struct keys central_keys = {(const char *const[]){"clip_norm", "polyak",
                                                               "discount", "optimizer.",
                                                               "critic.optimizer.", NULL},
                                         FIELD_CENTRAL};

/* The targets, which the central process computes, depend on these. */
static const struct keys target_keys = {(const char *const[]){"discount", NULL},
                                        FIELD_TARGETS};

/* The first agent of the same team, or (team NULL) of any, whose algorithm has a central
 * process. */
static size_t first_central(const struct making *m, const char *team)
{
    size_t i = 0;

    while (!algorithm_of(&m->config->agents[i])->central ||
           (team != NULL && strcmp(m->spec->agents[i].team, team) != 0))
        i++;
    return i;
}

static int check_central(const struct making *m, size_t agent)
{
    const struct agent_config *own = &m->config->agents[agent];
    const char *team = m->spec->agents[agent].team;
    struct difference d;
    size_t first;

    if (!algorithm_of(own)->central)
        return 0;
    first = first_central(m, NULL);
    if (first_central(m, team) != agent) {
        d = find_difference(&m->config->agents[first], own, &target_keys);
        if (d.key[0] == '\0')
            return 0;
        return refuse(
            m, d.key,
            "the mixer computes the targets of %s and %s, so that %s cannot have "
            "a value of its own",
            name_of(m, first), name_of(m, agent), name_of(m, agent));
    }
    d = find_difference(&m->config->agents[first], own, &central_keys);
    if (d.key[0] == '\0')
        return 0;
    return refuse(m, d.key,
                  "the mixers of teams %s and %s learn in one process, so that %s cannot "
                  "have a value of its own; expected one value for both teams",
                  m->spec->agents[first].team, team, name_of(m, agent));
}

int sharing_init(struct sharing *ret, const struct run_config *config,
                 const struct env_spec *spec, size_t *ret_agent, struct err *err)
{
    const struct making m = {ret, config, spec, err};
    size_t i;
    int rc = 0;

    *ret =
        (struct sharing){.groups = xcalloc(spec->n_agents + 1, sizeof(*ret->groups)),
                         .group_of = xcalloc(spec->n_agents + 1, sizeof(*ret->group_of))};
    for (i = 0; i < spec->n_agents; i++)
        ret->group_of[i] = SHARING_NONE;
    for (i = 0; i < spec->n_agents && rc == 0; i++) {
        const char *share = share_of(&m, i);

        rc = check_actions(&m, i);
        if (rc == 0 && share != NULL && strcmp(share, "team") != 0)
            rc = check_list(&m, i, share);
        if (rc == 0 && share != NULL && ret->group_of[i] == SHARING_NONE)
            rc = add_group(&m, i);
        if (rc == 0 && ret->group_of[i] != SHARING_NONE)
            rc = check_member(&m, &ret->groups[ret->group_of[i]], i);
        if (rc == 0)
            rc = check_central(&m, i);
    }
    if (rc < 0 && ret_agent != NULL)
        *ret_agent = i - 1;
    if (rc < 0)
        sharing_done(ret);
    return rc;
}

int sharing_check(const struct run_config *config, const struct env_spec *spec,
                  struct err *err)
{
    struct sharing s;
    struct err why = {0};
    size_t agent = 0;

    if (sharing_init(&s, config, spec, &agent, &why) < 0)
        return err_set(err, ERR_CONFIG, "agents.%s.%s: %s", config->agents[agent].name,
                       why.key, err_cause(&why));
    sharing_done(&s);
    return 0;
}

void sharing_done(struct sharing *s)
{
    free(s->groups);
    free(s->group_of);
    *s = (struct sharing){0};
}
