/* Values of a configuration that change at given steps, {at: {0: 0.9, 100000: 0.99}}, or by a
 * schedule, {from: 0.9, to: 0.99, over: 100000}. */
#include "common/config/changes.h"
#include "common/config/loader.h"
#include "common/config/run_length.h"
#include "common/config/run_schema.h"
#include "common/config/schema_internal.h"
#include "common/config/staircase.h"
#include "common/err/check.h"
#include "common/mem/xmalloc.h"
#include "common/text/scan.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

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

/* Returns "path=value". */
static const char *assignment(const char *path, const struct yaml_node *value,
                              struct arena *arena)
{
    return arena_printf(arena, "%s=%s", path, yaml_tree_text(value, arena));
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
    return yaml_fail(at, path, err, "more than %d values at steps", RUN_CONFIG_MAX_STEPS);
}

/* Returns the value of a schedule at a step, as text. */
static const char *value_at(const struct taken *x, const struct stepped *key,
                            const struct ramp *r, uint64_t step)
{
    struct ramp value = {0};
    const char *copy;
    char *text;

    staircase_value(key->field, r, step, &value);
    text = schema_text_of(key->field, &value);
    copy = arena_strdup(x->tree, text);
    free(text);
    return copy;
}

/* Inserts a schedule's values from step `at` on, before step `end`. */
static int take_schedule(struct taken *x, const struct stepped *key,
                         const struct yaml_node *value, const struct ramp *r, uint64_t at,
                         uint64_t end)
{
    char *text = staircase_text(key->field, r);
    const char *whole = arena_printf(x->tree, "%s=%s", key->path, text);

    free(text);
    if (at == 0)
        at = staircase_next(key->field, r, 0);
    for (; at != 0 && at < end; at = staircase_next(key->field, r, at)) {
        if (x->to->n >= RUN_CONFIG_MAX_STEPS)
            return fail_many(value, key->path, x->err);
        insert(x->to,
               &(struct config_step){
                   at, arena_printf(x->tree, "%s=%s", key->path, value_at(x, key, r, at)),
                   whole, value});
        whole = "";
    }
    return 0;
}

/* Takes one value of a key, for the steps from `at` until before `end`. Stores the value
 * of step 0 in *first. */
static int take_value(struct taken *x, const struct stepped *key,
                      const struct yaml_node *value, uint64_t at, uint64_t end,
                      struct yaml_node *first)
{
    struct ramp r = {0};
    int rc;

    if (!staircase_is_meant(key->field, value)) {
        if (at == 0)
            *first = *value;
        else
            insert(x->to, &(struct config_step){at, assignment(key->path, value, x->tree),
                                                NULL, value});
        return 0;
    }
    rc = staircase_read(key->field, value, key->path, &r, x->err);
    if (rc == 0)
        rc = take_schedule(x, key, value, &r, at, end);
    if (rc == 0 && at == 0)
        *first = (struct yaml_node){.kind = YAML_SCALAR,
                                    .place = value->place,
                                    .line = value->line,
                                    .text = value_at(x, key, &r, 0)};
    return rc;
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
        char *child = xasprintf("%s%s%s", path, *path != '\0' ? "." : "", n->key);
        const struct stepped key = {child, s != NULL ? schema_find(s, n->key) : NULL};

        /* the parameters of an environment may have any form */
        if (strcmp(child, "env") != 0)
            rc = steps_of(n) != NULL || staircase_is_meant(key.field, n)
                     ? take_steps(x, n, &key)
                     : visit(x, n, child, keys_below(s, path, n->key));
        free(child);
    }
    return rc;
}

int loader_take_steps(struct yaml_node *root, struct arena *tree,
                      struct config_steps *ret, struct err *err)
{
    int rc;

    *ret = (struct config_steps){0};
    rc = visit(&(struct taken){ret, tree, err}, root, "", &run_schema);
    if (rc == 0 && ret->n > RUN_CONFIG_MAX_STEPS)
        rc = fail_many(ret->list[ret->n - 1].node, "", err);
    return rc;
}

/* ---- the agents and keys that the values are for ---- */

/* Returns the part of an assignment behind "agents.SECTION", or NULL. */
static const char *behind(const char *assignment, const char *section)
{
    const char *key = text_after(assignment, "agents.");
    const char *rest = key != NULL ? text_after(key, section) : NULL;

    return rest != NULL && (*rest == '.' || *rest == '=') ? rest : NULL;
}

/* Whether a section gives the key of an assignment, or a key below it. rest: the
 * assignment without the section's path. */
static int gives(const struct yaml_node *section, const char *rest)
{
    const char *key = rest + (*rest == '.');
    char *path = xasprintf("%.*s", (int)strcspn(key, "="), key);
    const int is = section != NULL && !yaml_is_null(section) &&
                   yaml_find_path(section, path) != NULL;

    free(path);
    return is;
}

/* Adds a value for a team to `to`, once for each member that does not give the key. */
static void add_for_members(struct config_steps *to, const struct config_step *step,
                            const struct loader *l, const struct yaml_node *agents,
                            const char *team, const char *const *names, size_t n)
{
    struct arena *arena = &l->c->arena;
    const char *rest = behind(step->set, team);

    for (size_t i = 0; i < n; i++) {
        struct config_step one = *step;

        if (!config_is_team(team, strlen(team), &names[i], 1) ||
            gives(yaml_find(agents, names[i]), rest))
            continue;
        one.set = arena_printf(arena, "agents.%s%s", names[i], rest);
        if (step->schedule != NULL && *step->schedule != '\0')
            one.schedule = arena_printf(arena, "agents.%s%s", names[i],
                                        behind(step->schedule, team));
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

            if (behind(step->set, key) != NULL &&
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

    for (size_t i = 0; i < l->steps->n; i++) {
        const struct config_step step = l->steps->list[i];
        const char *rest = text_after(step.set, path);

        if (rest == NULL || (*rest != '.' && *rest != '='))
            l->steps->list[n++] = step;
    }
    l->steps->n = n;
    free(path);
}

/* ---- agents that give a key themselves ---- */

/* Values of one key, of `defaults` and of an agent that gives it, too. */
struct own_key {
    const struct run_config *c;
    const struct config_steps *all;
    struct arena *tree;
    const char *key;      /* the path within a section: "optimizer.learning_rate" */
    const char *paths[2]; /* "defaults.<key>", "agents.agent_0.<key>" */
    size_t agent;
    const struct field *field;
    size_t size;
    char of_all[sizeof(struct ramp)], own[sizeof(struct ramp)];
};

/* Returns the rest of the path if the step assigns the key of this path (""), or a section that
 * has it (".learning_rate"), otherwise NULL. */
static const char *assigned(const struct config_step *step, const char *path)
{
    const size_t len = strcspn(step->set, "=");
    const char *rest = strncmp(step->set, path, len) == 0 ? path + len : NULL;

    return rest != NULL && (*rest == '\0' || *rest == '.') ? rest : NULL;
}

static void locate(const struct run_config *c, const struct own_key *k, int is_own,
                   struct schema_place *ret)
{
    const struct agent_config *a = is_own ? &c->agents[k->agent] : &c->defaults;

    CHECK(schema_locate(&agent_schema, k->key, (void *)(uintptr_t)a, ret) == 0);
}

/* If the step assigns the key, in `defaults` or the agent's own one, stores the value. */
static int take_step(const struct own_key *k, const struct config_step *step, int is_own,
                     void *ret)
{
    const char *rest = assigned(step, k->paths[is_own]);
    struct config_setting s;
    struct schema_place at;
    struct run_config next;

    if (rest == NULL)
        return 0;
    if (*rest == '\0') {
        if (config_setting_parse(&s, k->c, step->set, NULL) < 0)
            return 0;
        memcpy(ret, &s.value, k->size);
        free(s.path);
        return 1;
    }
    if (run_config_assign(&next, k->c, &step->set, 1, NULL) < 0)
        return 0;
    locate(&next, k, is_own, &at);
    memcpy(ret, at.value, k->size);
    run_config_done(&next);
    return 1;
}

/* Adds to `to` the agent's own value at each step at which it would follow `defaults`, whose
 * value it happens to have. */
static void keep_own(struct own_key *k, struct config_steps *to)
{
    const struct config_step *list = k->all->list;

    for (size_t i = 0, end; i < k->all->n; i = end) {
        const int was_same = memcmp(k->of_all, k->own, k->size) == 0;
        int moves = 0, is_set = 0;
        char *text;

        for (end = i; end < k->all->n && list[end].at == list[i].at; end++) {
            moves |= take_step(k, &list[end], 0, k->of_all);
            is_set |= take_step(k, &list[end], 1, k->own);
        }
        if (!was_same || !moves || is_set)
            continue;
        text = schema_text_of(k->field, k->own);
        insert(to, &(struct config_step){
                       list[i].at, arena_printf(k->tree, "%s=%s", k->paths[1], text),
                       NULL, list[i].node});
        free(text);
    }
}

static int is_assigned(const struct config_steps *all, const char *path)
{
    for (size_t i = 0; i < all->n; i++)
        if (assigned(&all->list[i], path) != NULL)
            return 1;
    return 0;
}

/* The same for all keys that a map of the agent's section gives. path: of the map, within the
 * section; "": the section itself. */
static void keep_given(const struct own_key *of, const struct yaml_node *map,
                       const char *path, struct config_steps *to)
{
    for (size_t i = 0; map != NULL && map->kind == YAML_MAP && i < map->n; i++) {
        const struct yaml_node *n = map->child[i];
        const char *key =
            arena_printf(of->tree, "%s%s%s", path, *path != '\0' ? "." : "", n->key);
        const char *name = of->c->agents[of->agent].name;
        struct own_key k = *of;
        struct schema_place place;

        k.key = key;
        if (schema_locate(&agent_schema, key, (void *)(uintptr_t)&of->c->defaults,
                          &place) < 0)
            continue;
        if (!schema_is_number(place.field)) {
            keep_given(of, n, key, to);
            continue;
        }
        k.paths[0] = arena_printf(of->tree, "defaults.%s", key);
        k.paths[1] = arena_printf(of->tree, "agents.%s.%s", name, key);
        if (!is_assigned(of->all, k.paths[0]))
            continue;
        k.field = place.field;
        k.size = schema_value_size(place.field->type);
        memcpy(k.of_all, place.value, k.size);
        locate(of->c, &k, 1, &place);
        memcpy(k.own, place.value, k.size);
        keep_own(&k, to);
    }
}

void loader_keep_own(const struct run_config *c, const struct yaml_node *root,
                     struct config_steps *all, struct arena *tree)
{
    const struct yaml_node *agents = yaml_find(root, "agents");
    struct config_steps kept = {0};

    for (size_t i = 0; i < c->n_agents && agents != NULL && all->n > 0; i++) {
        const struct own_key of = {.c = c, .all = all, .tree = tree, .agent = i};

        keep_given(&of, yaml_find(agents, c->agents[i].name), "", &kept);
    }
    for (size_t i = 0; i < kept.n; i++)
        insert(all, &kept.list[i]);
    free(kept.list);
}

/* ---- applying the values to a configuration ---- */

/* Adds the schedules that begin at one of n values. */
static int add_schedules(const struct run_config *c, const struct config_step *steps,
                         size_t n, struct config_settings *ret, struct err *err)
{
    int rc = 0;

    for (size_t i = 0; rc == 0 && i < n; i++) {
        struct config_setting one;

        if (steps[i].schedule == NULL || *steps[i].schedule == '\0')
            continue;
        rc = config_setting_parse(&one, c, steps[i].schedule, err);
        if (rc == 0)
            config_settings_add(ret, one);
    }
    return rc;
}

/* Whether one of n values belongs to a schedule of this key. */
static int is_scheduled(const struct config_step *steps, size_t n, const char *path)
{
    for (size_t i = 0; i < n; i++)
        if (steps[i].schedule != NULL &&
            text_is_word(steps[i].set, strcspn(steps[i].set, "="), path))
            return 1;
    return 0;
}

int run_config_step(struct run_config *c, const struct config_step *steps, size_t n,
                    size_t *i, struct config_settings *ret, struct err *err)
{
    const struct config_step *first = &steps[*i];
    struct config_settings changes = {0};
    struct run_config next;
    const char **set;
    size_t n_set = 0;
    int rc;

    set = xcalloc(n - *i, sizeof(*set));
    for (; *i < n && steps[*i].at == first->at; (*i)++)
        set[n_set++] = steps[*i].set;
    rc = run_config_assign(&next, c, set, n_set, err);
    free(set);
    if (rc < 0)
        return rc;
    rc = add_schedules(c, first, n_set, ret, err);
    run_config_differences(&changes, c, &next, CHANGE_KINDS_LIVE);
    for (size_t k = 0; k < changes.n; k++) {
        const struct config_setting one = config_setting_copy(&changes.list[k]);

        if (is_scheduled(first, n_set, one.path))
            free(one.path);
        else
            config_settings_add(ret, one);
    }
    config_settings_done(&changes);
    run_config_done(c);
    *c = next;
    return rc;
}

struct fixed {
    const char *path; /* of the first change that a live run cannot make; NULL: none */
    char text[PATH_MAX_BYTES];
};

static void find_fixed(void *ctx, const struct config_change *c)
{
    struct fixed *x = ctx;

    if (x->path != NULL || c->kind == CHANGE_LIVE || c->kind == CHANGE_SETTING)
        return;
    (void)snprintf(x->text, sizeof(x->text), "%s", c->path);
    x->path = x->text;
}

/* Returns the first of n values of one step that is refused even without the others; the
 * last value if there is none. */
static const struct config_step *find_wrong(const struct run_config *c,
                                            const struct config_step *steps, size_t n,
                                            struct err *why)
{
    for (size_t i = 0; i < n; i++) {
        const char *set = steps[i].set;
        struct run_config next;
        struct err own = {0};

        if (run_config_assign(&next, c, &set, 1, &own) < 0) {
            *why = own;
            return &steps[i];
        }
        run_config_done(&next);
    }
    return &steps[n - 1];
}

/* Reports the first of n values of one step whose key cannot change. */
static int fail_fixed(const struct run_config *c, const struct config_step *steps,
                      size_t n, const struct fixed *fixed, struct err *err)
{
    const struct config_step *at = &steps[n - 1];

    for (size_t i = n; i-- > 0;) {
        const char *set = steps[i].set;
        struct fixed own = {0};
        struct run_config next;

        if (run_config_assign(&next, c, &set, 1, NULL) < 0)
            continue;
        run_config_compare(c, &next, find_fixed, &own);
        run_config_done(&next);
        if (own.path != NULL)
            at = &steps[i];
    }
    return yaml_fail(at->node, fixed->path, err,
                     "cannot change while the run lives, expected one value");
}

/* Refuses a length that comes when the run has ended, and one that the run has exceeded by
 * then, which would end it at once. */
static int check_length(const struct run_config *now, const struct run_config *next,
                        const struct config_step *step, struct err *err)
{
    char *key = xstrndup(step->set, strcspn(step->set, "="));
    struct err why = {0};
    int rc = 0;

    if (run_length_is_key(key))
        rc = run_length_check(now, run_length_of(now), run_length_of(next), step->at, 0,
                              0, &why);
    if (rc < 0)
        rc = yaml_fail(step->node, key, err, "%s", why.msg);
    free(key);
    return rc;
}

/* Applies n values of one step together, as the run does: two keys may be valid only
 * together. */
static int check_step(struct run_config *now, const struct config_step *steps, size_t n,
                      struct err *err)
{
    const char **set = xcalloc(n, sizeof(*set));
    struct fixed fixed = {0};
    struct run_config next;
    struct err why = {0};
    int rc;

    for (size_t i = 0; i < n; i++)
        set[i] = steps[i].set;
    rc = run_config_assign(&next, now, set, n, &why);
    free(set);
    if (rc < 0) {
        const struct config_step *wrong = find_wrong(now, steps, n, &why);

        return yaml_fail(wrong->node, why.key, err, "%s", err_cause(&why));
    }
    run_config_compare(now, &next, find_fixed, &fixed);
    if (fixed.path != NULL)
        rc = fail_fixed(now, steps, n, &fixed, err);
    else if (run_config_check_live(&next, &why) < 0)
        rc = yaml_fail(steps[n - 1].node, "", err, "at step %" PRIu64 ": %s", steps[0].at,
                       why.msg);
    for (size_t i = 0; i < n && rc == 0; i++)
        rc = check_length(now, &next, &steps[i], err);
    run_config_done(now);
    *now = next;
    return rc;
}

static int check(const struct run_config *c, const struct config_step *steps, size_t n,
                 struct err *err)
{
    struct run_config now;
    int rc = 0;

    run_config_copy(&now, c);
    for (size_t i = 0, end; rc == 0 && i < n; i = end) {
        for (end = i; end < n && steps[end].at == steps[i].at;)
            end++;
        rc = check_step(&now, &steps[i], end - i, err);
    }
    run_config_done(&now);
    return rc;
}

int loader_keep_steps(struct run_config *c, const struct config_steps *all,
                      struct err *err)
{
    const struct config_step *steps = all->list;
    const size_t n = all->n;
    struct config_step *kept;
    int rc;

    if (n == 0)
        return 0;
    for (size_t i = 0; i < n && strcmp(c->env.id, "none") == 0; i++)
        if (steps[i].schedule != NULL)
            return yaml_fail(steps[i].node, "", err,
                             "found a schedule, expected a number: without an "
                             "environment (env.id: none) there are no steps to follow");
    rc = check(c, steps, n, err);
    if (rc < 0)
        return rc;
    kept = ARENA_ARRAY(&c->arena, struct config_step, n);
    for (size_t i = 0; i < n; i++)
        kept[i] = (struct config_step){
            steps[i].at, arena_strdup(&c->arena, steps[i].set),
            steps[i].schedule != NULL ? arena_strdup(&c->arena, steps[i].schedule) : NULL,
            NULL};
    c->steps = kept;
    c->n_steps = n;
    return 0;
}
