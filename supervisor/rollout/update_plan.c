#include "supervisor/rollout/update_plan.h"

#include "common/mem/xmalloc.h"

#include <stdlib.h>
#include <string.h>

struct planning {
    struct update_plan *to;
    const struct learning_groups *groups;
    const struct description *descriptions;
    const char *const *names;
    struct err *err;
};

static int is_member(const struct planning *p, size_t group, size_t agent)
{
    return p->groups->group_of[agent] == group;
}

/* Finds the description that holds for all members of the group. A member that declares no
 * stage that writes does not learn. */
static int find_declaration(const struct planning *p, size_t group)
{
    const struct description *d = NULL;
    size_t first = 0;

    for (size_t a = 0; a < p->to->n_agents; a++) {
        const struct description *own = &p->descriptions[a];

        if (!is_member(p, group, a) || !stage_list_writes(&own->stages))
            continue;
        if (d == NULL) {
            d = own;
            first = a;
        } else if (!stage_list_equal(&d->stages, &own->stages) || d->rows != own->rows ||
                   d->length != own->length) {
            return err_set_at(
                p->err, ERR_CONFIG, ERR_AT(.agent = p->names[a]),
                "%s and %s have one algorithm, but learn in different stages "
                "or from different rows: expected equal settings",
                p->names[first], p->names[a]);
        }
    }
    p->to->of[group] = d;
    return 0;
}

/* Whether an agent outside the stage's group can answer it. */
static int can_answer(const struct description *d, const char *stage)
{
    return strcmp(stage, STAGE_PROPOSE) == 0 &&
           (d->proposes || stage_list_find(&d->stages, stage) != NULL);
}

static int find_players(const struct planning *p, size_t group, int i, uint8_t *plays)
{
    const struct stage_list *l = &p->to->of[group]->stages;
    const struct stage_decl *s = &l->stage[i];
    const int is_read = stage_list_read_by_all(l, i);

    for (size_t a = 0; a < p->to->n_agents && !s->central && !s->ps; a++) {
        const struct description *d = &p->descriptions[a];

        plays[a] = is_member(p, group, a) ? stage_list_find(&d->stages, s->name) != NULL
                                          : is_read && can_answer(d, s->name);
        if (!plays[a] && is_read && strcmp(s->name, STAGE_PROPOSE) == 0)
            return err_set_at(
                p->err, ERR_CONFIG, ERR_AT(.agent = p->names[a]),
                "%s reads every agent's stage '%s', which %s does not have: "
                "their algorithms cannot play together",
                p->names[p->groups->group[group].first], s->name, p->names[a]);
    }
    return 0;
}

static int check_central(const struct planning *p)
{
    const struct stage_decl *first = NULL;

    for (int i = 0; i < p->to->n; i++) {
        const struct stage_decl *s = &p->to->stage[i];

        if (s->central && first != NULL && first->group != s->group)
            return err_set_at(
                p->err, ERR_CONFIG,
                ERR_AT(.agent = p->names[p->groups->group[s->group].first]),
                "%s and %s both need the central process for their updates, which only "
                "one group of agents can have: expected equal settings, and share: none "
                "where a team is one agent",
                p->names[p->groups->group[first->group].first],
                p->names[p->groups->group[s->group].first]);
        if (s->central && first == NULL)
            first = s;
    }
    return 0;
}

static int add_stages(const struct planning *p, size_t group)
{
    const struct stage_list *l = &p->to->of[group]->stages;
    const int first = p->to->n;
    int rc = 0;

    for (int i = 0; i < l->n && rc == 0; i++) {
        struct stage_decl *s = &p->to->stage[p->to->n];

        *s = l->stage[i];
        s->group = group;
        s->repeat_from += first;
        for (int k = 0; k < s->n_reads; k++)
            s->reads[k].stage += first;
        rc = find_players(p, group, i, p->to->plays + (size_t)p->to->n * p->to->n_agents);
        p->to->n++;
    }
    return rc;
}

int update_plan_init(struct update_plan *ret, const struct learning_groups *groups,
                     const struct description *descriptions, const char *const *names,
                     size_t n_agents, struct err *err)
{
    const struct planning p = {ret, groups, descriptions, names, err};
    size_t n = 0;
    int rc = 0;

    *ret = (struct update_plan){.n_agents = n_agents};
    ret->of = xcalloc(groups->n + 1, sizeof(*ret->of));
    for (size_t g = 0; g < groups->n && rc == 0; g++) {
        rc = find_declaration(&p, g);
        n += ret->of[g] != NULL ? (size_t)ret->of[g]->stages.n : 0;
    }
    ret->stage = xcalloc(n + 1, sizeof(*ret->stage));
    ret->plays = xcalloc(n + 1, n_agents);
    for (size_t g = 0; g < groups->n && rc == 0; g++)
        if (ret->of[g] != NULL)
            rc = add_stages(&p, g);
    return rc == 0 ? check_central(&p) : rc;
}

void update_plan_done(struct update_plan *p)
{
    free(p->stage);
    free(p->plays);
    free(p->of);
    *p = (struct update_plan){0};
}

int update_plan_plays(const struct update_plan *p, int stage, size_t agent)
{
    return p->plays[(size_t)stage * p->n_agents + agent];
}

int update_plan_has_central(const struct update_plan *p)
{
    for (int i = 0; i < p->n; i++)
        if (p->stage[i].central)
            return 1;
    return 0;
}
