#include "common/config/algorithms.h"
#include "common/config/loader.h"
#include "common/config/run_schema.h"
#include "common/err/check.h"

#include <stdio.h>
#include <string.h>

/* What optimizers have beside `type` and `learning_rate`, and the default by their type. */
static const struct optimizer_setting {
    const char *key;
    size_t offset;
    struct {
        int is_there;
        double usual;
    } of[OPT_ACCEPT_REJECT + 1];
} optimizer_settings[] = {
#define SETTING(member) #member, offsetof(struct optimizer_config, member)
    {SETTING(beta1), {[OPT_ADAM] = {1, 0.9}}},
    {SETTING(beta2), {[OPT_ADAM] = {1, 0.999}}},
    {SETTING(epsilon), {[OPT_ADAM] = {1, 1e-8}, [OPT_RMSPROP] = {1, 1e-10}}},
    {SETTING(momentum), {[OPT_MOMENTUM] = {1, 0.9}, [OPT_RMSPROP] = {1, 0.0}}},
    {SETTING(decay), {[OPT_RMSPROP] = {1, 0.9}}},
    {SETTING(tries), {[OPT_ACCEPT_REJECT] = {1, 1}}}, /* the last one: a whole number */
#undef SETTING
};

enum { N_SETTINGS = sizeof(optimizer_settings) / sizeof(optimizer_settings[0]) };

int optimizer_has(enum optimizer_type type, const char *key)
{
    for (size_t i = 0; i < N_SETTINGS; i++)
        if (strcmp(optimizer_settings[i].key, key) == 0)
            return optimizer_settings[i].of[type].is_there;
    return 1;
}

/* Fills in the values that were not given: from `base` (for a network's optimizer, the
 * agent's) if it has the same type, otherwise from the defaults of the type. Settings
 * that the type does not have become 0. */
static void resolve_optimizer(struct optimizer_config *o,
                              const struct optimizer_config *base)
{
    if ((int)o->type == FIELD_UNSET_ENUM)
        o->type = base->type;
    if (field_is_unset(o->learning_rate.from))
        o->learning_rate = base->learning_rate;
    for (size_t i = 0; i + 1 < N_SETTINGS; i++) {
        const struct optimizer_setting *s = &optimizer_settings[i];
        double *v = (double *)(void *)((char *)o + s->offset);

        if (!s->of[o->type].is_there)
            *v = 0.0;
        else if (field_is_unset(*v) && base != o && base->type == o->type)
            *v = *(const double *)(const void *)((const char *)base + s->offset);
        else if (field_is_unset(*v))
            *v = s->of[o->type].usual;
    }
    if (o->type != OPT_ACCEPT_REJECT)
        o->tries = 0;
    else if (o->tries == 0)
        o->tries = base->type == o->type && base->tries > 0 ? base->tries : 1;
}

static void resolve_network(struct network_config *n, const struct optimizer_config *base)
{
    struct entity_layers *e = &n->entities;

    if (n->has_optimizer)
        resolve_optimizer(&n->optimizer, base);
    else
        n->optimizer = (struct optimizer_config){0};
    if (!n->has_entities) {
        *e = (struct entity_layers){0};
        return;
    }
    if (e->units.n == 0)
        e->units = (struct layer_sizes){1, {64}};
    if ((int)e->pool == FIELD_UNSET_ENUM)
        e->pool = POOL_MEAN;
    if (e->heads == 0)
        e->heads = 1;
}

/* Afterwards no value is "unset". */
void agent_config_resolve(struct agent_config *a)
{
    const int own_critic = algorithm_of(a)->own_critic;

    resolve_optimizer(&a->optimizer, &a->optimizer);
    resolve_network(&a->actor, &a->optimizer);
    resolve_network(&a->critic, &a->optimizer);
    if (own_critic)
        a->critic.input = CRITIC_OWN;
    else if ((int)a->critic.input == FIELD_UNSET_ENUM)
        a->critic.input = CRITIC_ALL;
}

/* ---- the algorithm ---- */

static int refuse_algorithm(const struct loader *l, const struct yaml_node *section,
                            const char *path, const struct agent_config *a)
{
    const struct yaml_node *at = yaml_find(section, "algorithm");
    const char *names[64];
    size_t n = 0;

    for (; algorithm_at(n) != NULL; n++) {
        CHECK(n + 1 < sizeof(names) / sizeof(names[0]));
        names[n] = algorithm_at(n)->name;
    }
    names[n++] = ALGORITHM_PROGRAM;
    return schema_fail_choice(at != NULL ? at : section,
                              loader_path(l, "%s.algorithm", path), a->algorithm, names,
                              n, l->err);
}

/* Gives the agent the section's algorithm, if it names one, and its settings. */
static int take_algorithm(const struct loader *l, const struct yaml_node *section,
                          const char *path, struct agent_config *a)
{
    const struct yaml_node *at = yaml_find(section, "algorithm");
    int rc;

    if (at != NULL && at->kind == YAML_SCALAR && schema_is_name(at->text))
        a->algorithm = arena_strdup(&l->c->arena, at->text);
    if (a->algorithm != NULL && strcmp(a->algorithm, ALGORITHM_PROGRAM) == 0)
        return program_section_take(l, section, path, a);
    if (a->algorithm != NULL && algorithm_find(a->algorithm) == NULL)
        return refuse_algorithm(l, section, path, a);
    rc = program_section_drop(l, section, path, a);
    if (rc == 0)
        agent_section_take(a, &l->c->arena);
    return rc;
}

/* The checks of a section's maps, given the agent's values so far, which include the
 * defaults. They return the number of keys that were dropped, or ERR_CONFIG. */

static int is_of_algorithm(const void *ctx, const char *key)
{
    const struct agent_config *a = ctx;

    return schema_find(&algorithm_of(a)->settings, key) != NULL;
}

static int is_of_optimizer(const void *ctx, const char *key)
{
    const enum optimizer_type *type = ctx;

    return optimizer_has(*type, key);
}

/* Checks the optimizer of the agent, or of a network that has its own. at: of the section that it
 * is in. */
static int check_optimizer(const struct loader *l, const struct yaml_node *at,
                           const char *path, const struct optimizer_config *o,
                           const struct agent_config *a)
{
    const enum optimizer_type type =
        o == NULL || (int)o->type == FIELD_UNSET_ENUM ? a->optimizer.type : o->type;

    return loader_drop(
        l, yaml_find(at, "optimizer"), loader_path(l, "%s.optimizer", path),
        schema_find(&agent_schema, "optimizer")->schema, is_of_optimizer, &type,
        loader_path(l, "no setting of the optimizer %s", optimizer_names[type]));
}

static int check_network(const struct loader *l, const struct yaml_node *section,
                         const char *path, const char *name,
                         const struct network_config *n, const struct agent_config *a)
{
    return check_optimizer(l, yaml_find(section, name),
                           loader_path(l, "%s.%s", path, name),
                           n->has_optimizer ? &n->optimizer : NULL, a);
}

static int is_no_input(const void *ctx, const char *key)
{
    return strcmp(key, "input") != 0;
}

/* Refuses critic.input for an algorithm whose critics see only their own agent. */
static int check_input(const struct loader *l, const struct yaml_node *section,
                       const char *path, const struct agent_config *a)
{
    struct yaml_node *critic = yaml_find(section, "critic");
    const struct yaml_node *input = yaml_find(critic, "input");

    if (input == NULL || a->critic.input == CRITIC_OWN || !algorithm_of(a)->own_critic)
        return 0;
    if (!loader_may_drop(l, input))
        return yaml_fail(input, loader_path(l, "%s.critic.input", path), l->err,
                         "found 'all', expected own with %s", a->algorithm);
    return loader_drop(l, critic, loader_path(l, "%s.critic", path),
                       schema_find(&agent_schema, "critic")->schema, is_no_input, NULL,
                       loader_path(l, "a critic of %s sees its own agent", a->algorithm));
}

/* Checks what the tables cannot express about one section that was read. Returns the number of
 * keys that were dropped. */
static int check_section(const struct loader *l, const struct yaml_node *section,
                         const char *path, const struct agent_config *a)
{
    int input, own, actor, critic;

    if ((input = check_input(l, section, path, a)) < 0 ||
        (own = check_optimizer(l, section, path, &a->optimizer, a)) < 0 ||
        (actor = check_network(l, section, path, "actor", &a->actor, a)) < 0 ||
        (critic = check_network(l, section, path, "critic", &a->critic, a)) < 0)
        return ERR_CONFIG;
    return input + own + actor + critic;
}

int agent_section_read(const struct loader *l, const struct yaml_node *section,
                       const char *path, struct agent_config *a)
{
    int rc = take_algorithm(l, section, path, a), dropped = 0;
    const struct agent_config was = *a;

    if (rc == 0) {
        struct yaml_node *settings = yaml_find(section, "settings");

        if (algorithm_of(a)->is_unknown && settings != NULL)
            settings->n = 0; /* nothing is known of them */
        rc = loader_drop(l, settings, loader_path(l, "%s.settings", path),
                         &algorithm_any()->settings, is_of_algorithm, a,
                         loader_path(l, "no setting of %s", a->algorithm));
    }
    if (rc >= 0)
        rc = schema_read(&agent_schema, section, path, a, &l->c->arena, l->err);
    if (rc == 0)
        rc = dropped = check_section(l, section, path, a);
    if (rc < 0 || dropped == 0)
        return rc;
    *a = was; /* undoes what the dropped keys set */
    return schema_read(&agent_schema, section, path, a, &l->c->arena, l->err);
}

void agent_section_default_values(const struct yaml_node *section,
                                  const struct yaml_node *defaults,
                                  struct agent_config *a, struct arena *arena)
{
    const struct algorithm_default *d = algorithm_of(a)->defaults;

    for (; d != NULL && d->path != NULL; d++) {
        struct schema_place at;

        if (yaml_find_path(section, d->path) != NULL ||
            yaml_find_path(defaults, d->path) != NULL)
            continue;
        CHECK(schema_locate(&agent_schema, d->path, a, &at) == 0, "%s", d->path);
        schema_put_text(at.field, d->text, at.value, arena);
    }
}

int agent_config_take(struct agent_config *a, struct arena *arena, struct err *err)
{
    if (a->algorithm != NULL && algorithm_of(a) == NULL)
        return err_set(err, ERR_CONFIG, "algorithm '%s' is not in this build",
                       a->algorithm);
    agent_section_take(a, arena);
    return 0;
}
