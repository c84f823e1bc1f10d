/* Values of a configuration that change at given steps, {at: {0: 0.9, 100000: 0.99}}, or by a
 * schedule, {from: 0.9, to: 0.99, over: 100000}: they become a plan of changes. */
#include "common/config/change_plan.h"
#include "common/config/loader.h"
#include "common/config/run_schema.h"
#include "common/config/schema_internal.h"
#include "common/mem/xmalloc.h"
#include "common/text/scan.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_STEPS = 16384 }; /* planned values of a file */

/* ---- taking the values for later steps out of the tree ---- */

static int is_whole(const char *text, uint64_t *ret)
{
    return text_u64(text, ret) && *ret <= (uint64_t)1 << 53;
}

static const struct yaml_node *steps_of(const struct yaml_node *n)
{
    return n->kind == YAML_MAP && n->n == 1 && strcmp(n->child[0]->key, "at") == 0
               ? n->child[0]
               : NULL;
}

struct taken {
    struct config_steps *to;
    struct arena *tree;
    struct err *err;
};

/* A key that has values for steps. */
struct stepped {
    const char *path;
    const struct field *field; /* NULL: the key is unknown */
};

static void insert(struct config_steps *to, const struct config_step *step)
{
    size_t i = to->n++;

    to->list = xreallocarray(to->list, to->n, sizeof(*to->list));
    for (; i > 0 && to->list[i - 1].at > step->at; i--)
        to->list[i] = to->list[i - 1];
    to->list[i] = *step;
}

static int fail_many(const struct yaml_node *at, const char *path, struct err *err)
{
    return yaml_fail(at, path, err, "more than %d values at steps", MAX_STEPS);
}

/* Returns the value of a schedule at a step, as text. */
static const char *value_at(const struct field *field, const struct schedule *r,
                            uint64_t step, struct arena *arena)
{
    struct schedule value = {0};
    const char *copy;
    char *text;

    schedule_stair(field, r, step, &value);
    text = schema_text_of(field, &value);
    copy = arena_strdup(arena, text);
    free(text);
    return copy;
}

/* Takes one value of a key, for the steps from `at` until before `end`. Stores the value
 * of step 0 in *first. */
static int take_value(struct taken *x, const struct stepped *key,
                      const struct yaml_node *value, uint64_t at, uint64_t end,
                      struct yaml_node *first)
{
    struct config_step step = {at, key->path, .field = key->field, .node = value};
    struct schedule *r = &step.schedule;
    int rc;

    if (!schedule_is_meant(key->field, value)) {
        step.value = at > 0 ? yaml_tree_text(value, x->tree) : NULL;
        if (at == 0)
            *first = *value;
    } else {
        rc = schedule_read(key->field, value, key->path, r, x->err);
        if (rc < 0)
            return rc;
        if (at == 0) {
            *first = (struct yaml_node){.kind = YAML_SCALAR,
                                        .place = value->place,
                                        .line = value->line,
                                        .text = value_at(key->field, r, 0, x->tree)};
            step.at = schedule_next_stair(key->field, r, 0);
        }
    }
    if (step.at > 0 && step.at < end)
        insert(x->to, &step);
    return x->to->n > MAX_STEPS ? fail_many(value, key->path, x->err) : 0;
}

static int fail_step(const struct taken *x, const struct stepped *key,
                     const struct yaml_node *value)
{
    return yaml_fail(value, key->path, x->err,
                     "found step '%.40s', expected {at: {0: VALUE, STEP: VALUE, "
                     "...}} with growing steps",
                     value->key);
}

static int take_all(struct taken *x, const struct stepped *key,
                    const struct yaml_node *steps, struct yaml_node *first)
{
    uint64_t at = 0, next = 0;
    int rc = 0;

    if (steps->kind != YAML_MAP || steps->n == 0)
        return yaml_fail(steps, key->path, x->err,
                         "expected {at: {0: VALUE, STEP: VALUE, ...}}");
    for (size_t i = 0; rc == 0 && i < steps->n; i++, at = next) {
        next = UINT64_MAX;
        if (i == 0 && (!is_whole(steps->child[0]->key, &at) || at != 0))
            return fail_step(x, key, steps->child[0]);
        if (i + 1 < steps->n &&
            (!is_whole(steps->child[i + 1]->key, &next) || next <= at))
            return fail_step(x, key, steps->child[i + 1]);
        rc = take_value(x, key, steps->child[i], at, next, first);
    }
    return rc;
}

/* Takes all values of a key. The value of step 0 replaces the map. */
static int take_steps(struct taken *x, struct yaml_node *n, const struct stepped *key)
{
    const struct yaml_node *steps = steps_of(n);
    struct yaml_node first = *n;
    int rc = steps != NULL ? take_all(x, key, steps, &first)
                           : take_value(x, key, n, 0, UINT64_MAX, &first);

    first.key = n->key;
    first.next = n->next;
    *n = first;
    return rc;
}

/* Returns the table of a section's keys; NULL if the schema has no such section. */
static const struct schema *keys_below(const struct schema *s, const char *path,
                                       const char *key)
{
    const struct field *f = s != NULL ? schema_find(s, key) : NULL;

    if (strcmp(path, "agents") == 0)
        return &agent_schema;
    return f != NULL ? schema_below(f, NULL) : NULL;
}

static int visit(struct taken *x, struct yaml_node *map, const char *path,
                 const struct schema *s)
{
    int rc = 0;

    for (size_t i = 0; rc == 0 && map->kind == YAML_MAP && i < map->n; i++) {
        struct yaml_node *n = map->child[i];
        const char *child =
            arena_printf(x->tree, "%s%s%s", path, *path != '\0' ? "." : "", n->key);
        const struct stepped key = {child, s != NULL ? schema_find(s, n->key) : NULL};

        /* the parameters of an environment may have any form */
        if (strcmp(child, "env") != 0)
            rc = steps_of(n) != NULL || schedule_is_meant(key.field, n)
                     ? take_steps(x, n, &key)
                     : visit(x, n, child, keys_below(s, path, n->key));
    }
    return rc;
}

int loader_take_steps(struct yaml_node *root, struct arena *tree,
                      struct config_steps *ret, struct err *err)
{
    *ret = (struct config_steps){0};
    return visit(&(struct taken){ret, tree, err}, root, "", &run_schema);
}

/* ---- the agents and keys that the values are for ---- */

/* Returns the part of a path behind "agents.SECTION", or NULL. */
static const char *behind(const char *path, const char *section)
{
    const char *key = text_after(path, "agents.");
    const char *rest = key != NULL ? text_after(key, section) : NULL;

    return rest != NULL && (*rest == '.' || *rest == '\0') ? rest : NULL;
}

/* Adds a value for a team to `to`, once for each member that does not give the key, or a key
 * below it. */
static void add_for_members(struct config_steps *to, const struct config_step *step,
                            const struct loader *l, const struct yaml_node *agents,
                            const char *team, const char *const *names, size_t n)
{
    const char *rest = behind(step->path, team);

    for (size_t i = 0; i < n; i++) {
        const struct yaml_node *own = yaml_find(agents, names[i]);
        struct config_step one = *step;

        if (!config_is_team(team, strlen(team), &names[i], 1) ||
            (own != NULL && !yaml_is_null(own) &&
             yaml_find_path(own, rest + (*rest == '.')) != NULL))
            continue;
        one.path = arena_printf(l->tree, "agents.%s%s", names[i], rest);
        insert(to, &one);
    }
}

void loader_expand_steps(const struct loader *l, const struct yaml_node *agents,
                         const char *const *names, size_t n)
{
    struct config_steps all = {0};

    for (size_t i = 0; i < l->steps->n; i++) {
        const struct config_step *step = &l->steps->list[i];
        const char *team = NULL;

        for (size_t k = 0; k < agents->n; k++) {
            const char *key = agents->child[k]->key;

            if (behind(step->path, key) != NULL &&
                config_is_team(key, strlen(key), names, n))
                team = key;
        }
        if (team != NULL)
            add_for_members(&all, step, l, agents, team, names, n);
        else
            insert(&all, step);
    }
    free(l->steps->list);
    *l->steps = all;
}

void loader_drop_steps(const struct loader *l, const char *section, const char *key)
{
    char *path = xasprintf("%s.%s", section, key);
    size_t n = 0;

    for (size_t i = 0; i < l->steps->n; i++)
        if (config_path_within(l->steps->list[i].path, path) == NULL)
            l->steps->list[n++] = l->steps->list[i];
    l->steps->n = n;
    free(path);
}

/* ---- the plan ---- */

/* A value that comes at the step which is being planned. */
struct due {
    const char *path, *set; /* "KEY=VALUE" */
    const struct yaml_node *node;
    const struct config_step *step; /* NULL: one of a schedule that began before */
    int is_planned;
};

struct planning {
    const struct loader *l;
    struct change_plan *plan;
    const struct yaml_node **nodes; /* where each request of the plan is given */
    struct run_config now;          /* in force before the step */
    uint64_t at;
    struct due *due; /* [n_due] */
    size_t n_due;
    size_t next, next_planned; /* of the steps, and of the plan */
};

static void add_due(struct planning *p, const struct due *d, const char *value)
{
    p->due = xreallocarray(p->due, p->n_due + 1, sizeof(*p->due));
    p->due[p->n_due] = *d;
    p->due[p->n_due++].set = arena_printf(p->l->tree, "%s=%s", d->path, value);
}

/* Whether a value that comes is that of the key, or of a section that has it. */
static int is_due(const struct planning *p, const char *path)
{
    for (size_t i = 0; i < p->n_due; i++)
        if (config_path_within(path, p->due[i].path) != NULL)
            return 1;
    return 0;
}

/* Finds the next step, and what comes then. Returns 0 if there is nothing any more. */
static int find_due(struct planning *p)
{
    const struct config_steps *steps = p->l->steps;
    const struct planned_change *list = p->plan->list;
    uint64_t at = UINT64_MAX;

    while (p->next_planned < p->plan->n && list[p->next_planned].at <= p->at)
        p->next_planned++;
    if (p->next_planned < p->plan->n)
        at = list[p->next_planned].at;
    if (p->next < steps->n && steps->list[p->next].at < at)
        at = steps->list[p->next].at;
    p->at = at;
    p->n_due = 0;
    for (; p->next < steps->n && steps->list[p->next].at == at; p->next++) {
        const struct config_step *s = &steps->list[p->next];

        add_due(p, &(struct due){s->path, NULL, s->node, s, 0},
                s->value != NULL ? s->value
                                 : value_at(s->field, &s->schedule, at, p->l->tree));
    }
    for (size_t k = p->next_planned; k < p->plan->n && list[k].at == at; k++) {
        const char *path = list[k].set.path; /* another value ends the schedule */

        if (!is_due(p, path))
            add_due(p, &(struct due){path, NULL, p->nodes[list[k].number], NULL, 1},
                    value_at(list[k].set.field, &list[k].set.schedule, at, p->l->tree));
    }
    return p->n_due > 0;
}

/* An agent's own value stays where it would follow `defaults`, whose value it happens to have.
 * map: of the agent's section, at that path within it. */
static void keep_own(const struct planning *p, size_t agent, const struct yaml_node *map,
                     const char *path, struct run_config *next)
{
    struct agent_config *was = &p->now.agents[agent], *is = &next->agents[agent];

    for (size_t i = 0; map != NULL && map->kind == YAML_MAP && i < map->n; i++) {
        char key[PATH_MAX_BYTES], whole[AGENT_NAME_MAX + PATH_MAX_BYTES];
        struct schema_place from, to;

        schema_join_path(key, path, map->child[i]->key);
        (void)snprintf(whole, sizeof(whole), "agents.%s.%s", was->name, key);
        if (schema_locate(&agent_schema, key, was, &from) < 0 ||
            schema_locate(&agent_schema, key, is, &to) < 0)
            continue;
        if (!schema_is_number(from.field))
            keep_own(p, agent, map->child[i], key, next);
        else if (!is_due(p, whole))
            memcpy(to.value, from.value, schema_value_size(from.field->type));
    }
}

#define FIXED "cannot change while the run lives, expected one value"

/* The first change that a live run cannot make; NULL: none. */
static const struct config_change *find_fixed(const struct config_diff *d)
{
    return config_diff_find(d, ~CHANGE_KINDS_LIVE);
}

/* The first value that is wrong even without the others; the last one if there is none. why: why it
 * is refused; NULL: it changes what is fixed. */
static const struct due *find_wrong(const struct planning *p, struct err *why)
{
    const struct due *wrong = NULL;

    for (size_t i = 0; i < p->n_due && wrong == NULL; i++) {
        struct run_config next;
        struct config_diff diff;
        struct err own = {0};

        if (run_config_set(&next, &p->now, &p->due[i].set, 1, &own) < 0) {
            if (why == NULL)
                continue;
            *why = own;
            return &p->due[i];
        }
        run_config_diff(&diff, &p->now, &next, 0);
        if (why == NULL && find_fixed(&diff) != NULL)
            wrong = &p->due[i];
        config_diff_done(&diff);
        run_config_done(&next);
    }
    return wrong != NULL ? wrong : &p->due[p->n_due - 1];
}

/* Refuses a length that comes when the run has ended, and one that the run has exceeded by
 * then, which would end it at once. */
static int check_length(const struct planning *p, const struct run_config *next,
                        const struct due *d)
{
    struct err why = {0};

    if (!run_length_is_key(d->path) ||
        run_length_check(&p->now, run_length_of(&p->now), run_length_of(next), p->at, 0,
                         0, &why) == 0)
        return 0;
    return yaml_fail(d->node, d->path, p->l->err, "%s", why.msg);
}

/* Checks the values together, as the run applies them: two keys may be valid only together. */
static int make_step(const struct planning *p, struct run_config *next)
{
    const char **set = xcalloc(p->n_due, sizeof(*set));
    const struct due *wrong = &p->due[p->n_due - 1];
    struct yaml_node *agents = yaml_find(p->l->root, "agents");
    const struct config_change *fixed;
    struct config_diff diff;
    struct err why = {0};
    int rc;

    for (size_t i = 0; i < p->n_due; i++)
        set[i] = p->due[i].set;
    rc = run_config_set(next, &p->now, set, p->n_due, &why);
    free(set);
    if (rc < 0) {
        wrong = find_wrong(p, &why);
        return yaml_fail(wrong->node, why.key, p->l->err, "%s", err_cause(&why));
    }
    for (size_t i = 0; i < next->n_agents; i++)
        keep_own(p, i, yaml_find(agents, next->agents[i].name), "", next);
    run_config_diff(&diff, &p->now, next, 0);
    fixed = find_fixed(&diff);
    if (fixed != NULL)
        rc = yaml_fail(find_wrong(p, NULL)->node, fixed->path, p->l->err, FIXED);
    else if (run_config_check_live(next, &why) < 0)
        rc = yaml_fail(wrong->node, "", p->l->err, "at step %" PRIu64 ": %s", p->at,
                       why.msg);
    for (size_t i = 0; i < p->n_due && rc == 0; i++)
        rc = check_length(p, next, &p->due[i]);
    config_diff_done(&diff);
    if (rc < 0)
        run_config_done(next);
    return rc;
}

/* The rest of the key's schedule; NULL: none is planned. */
static const struct schedule *rest_of(const struct planning *p, const char *path)
{
    for (size_t i = p->next_planned; i < p->plan->n; i++)
        if (p->plan->list[i].set.schedule.over > 0 &&
            strcmp(p->plan->list[i].set.path, path) == 0)
            return &p->plan->list[i].set.schedule;
    return NULL;
}

static void add_change(struct planning *p, const struct config_setting *set,
                       const struct yaml_node *node)
{
    p->nodes = xreallocarray(p->nodes, p->plan->n_requests + 1, sizeof(*p->nodes));
    p->nodes[p->plan->n_requests] = node;
    change_plan_add(p->plan, p->at, set);
}

/* Adds a schedule that begins, or a value that ends one, to the plan. */
static int add_given(struct planning *p, struct due *d)
{
    struct config_setting set;

    if (d->step == NULL || (d->step->value != NULL && rest_of(p, d->path) == NULL))
        return 0;
    if (config_setting_parse(&set, &p->now, d->set, NULL) < 0)
        return yaml_fail(d->node, d->path, p->l->err, FIXED);
    set.schedule = d->step->schedule;
    d->is_planned = (CHANGE_KINDS_LIVE >> set.field->change & 1u) != 0;
    if (d->is_planned)
        add_change(p, &set, d->node);
    free(set.path);
    return d->is_planned ? 0 : yaml_fail(d->node, d->path, p->l->err, FIXED);
}

/* Adds the other changes. The value of an agent that stays may be one of a schedule. */
static void add_others(struct planning *p, const struct run_config *next)
{
    struct config_settings changes = {0};

    run_config_diff_settings(&changes, &p->now, next, CHANGE_KINDS_LIVE);
    for (size_t i = 0; i < changes.n; i++) {
        struct config_setting *set = &changes.list[i];
        const struct schedule *rest = rest_of(p, set->path);
        size_t k = 0;

        while (k < p->n_due &&
               (!p->due[k].is_planned || strcmp(p->due[k].path, set->path) != 0))
            k++;
        if (k < p->n_due)
            continue;
        if (rest != NULL)
            set->schedule = *rest;
        add_change(p, set, p->due[0].node);
    }
    config_settings_done(&changes);
}

static int plan_step(struct planning *p)
{
    struct run_config next;
    int rc = make_step(p, &next);

    if (rc < 0)
        return rc;
    for (size_t i = 0; i < p->n_due && rc == 0; i++)
        rc = add_given(p, &p->due[i]);
    if (rc == 0)
        add_others(p, &next);
    run_config_done(&p->now);
    p->now = next;
    return rc == 0 && p->plan->n > MAX_STEPS
               ? fail_many(p->due[0].node, p->due[0].path, p->l->err)
               : rc;
}

int loader_plan_steps(const struct loader *l)
{
    const struct config_steps *steps = l->steps;
    struct planning p = {.l = l};
    int rc = 0;

    for (size_t i = 0; i < steps->n && strcmp(l->c->env.id, "none") == 0; i++)
        if (steps->list[i].value == NULL)
            return yaml_fail(steps->list[i].node, "", l->err,
                             "found a schedule, expected a number: without an "
                             "environment (env.id: none) there are no steps to follow");
    p.plan = l->c->plan = xcalloc(1, sizeof(*p.plan));
    run_config_copy(&p.now, l->c);
    while (rc == 0 && find_due(&p))
        rc = plan_step(&p);
    run_config_done(&p.now);
    free(p.due);
    free(p.nodes);
    return rc;
}
