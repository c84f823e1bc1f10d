#include "common/config/changes.h"

#include "common/config/run_schema.h"
#include "common/err/check.h"

#include <stdlib.h>
#include <string.h>

/* A comparison under way: whose section, and who wants to know. */
struct comparison {
    const struct run_config *was, *is;
    size_t agent;
    const char *prefix; /* "agents.agent_0" */
    config_change_fn fn;
    void *ctx;
};

static void on_difference(void *ctx, const struct schema_difference *d)
{
    const struct comparison *c = ctx;
    struct config_change change = {
        .kind = d->field->change,
        .agent = c->agent,
        .path = d->path,
        .key = d->path,
        .text = d->text,
        .new_weights = (d->field->flags & (FIELD_MEANING | FIELD_VARIABLES)) != 0};

    if (c->prefix[0] != '\0')
        change.key += strlen(c->prefix) + 1;
    if (change.kind == CHANGE_SETTING)
        memcpy(&change.number, d->value, sizeof(change.number));
    c->fn(c->ctx, &change);
}

static int same_agents(const struct run_config *a, const struct run_config *b)
{
    if (a->n_agents != b->n_agents)
        return 0;
    for (size_t i = 0; i < a->n_agents; i++)
        if (strcmp(a->agents[i].name, b->agents[i].name) != 0)
            return 0;
    return 1;
}

static void compare_sections(struct comparison *c, const char *prefix, size_t agent,
                             const struct agent_config *was,
                             const struct agent_config *is)
{
    c->prefix = prefix;
    c->agent = agent;
    schema_compare(&agent_schema, prefix, was, was, is, is, on_difference, c);
}

/* following: agents are compared with what the new defaults make of them. */
static void compare(const struct run_config *was, const struct run_config *is,
                    int following, config_change_fn fn, void *ctx)
{
    struct comparison c = {was, is, is->n_agents, "", fn, ctx};

    schema_compare(&run_schema, "", was, was, is, is, on_difference, &c);
    compare_sections(&c, "defaults", is->n_agents, &was->defaults, &is->defaults);
    if (!same_agents(was, is)) {
        fn(ctx, &(struct config_change){.kind = CHANGE_RESTART,
                                        .agent = is->n_agents,
                                        .path = "agents",
                                        .key = "agents",
                                        .text = "",
                                        .new_weights = 1});
        return;
    }
    for (size_t i = 0; i < is->n_agents; i++) {
        struct agent_config agent = was->agents[i];
        char prefix[AGENT_NAME_MAX + 16];

        if (following)
            schema_follow(&agent_schema, &was->defaults, &is->defaults, &agent);
        (void)snprintf(prefix, sizeof(prefix), "agents.%s", is->agents[i].name);
        compare_sections(&c, prefix, i, &agent, &is->agents[i]);
    }
}

void run_config_compare(const struct run_config *was, const struct run_config *is,
                        config_change_fn fn, void *ctx)
{
    compare(was, is, 0, fn, ctx);
}

void run_config_compare_following(const struct run_config *was,
                                  const struct run_config *is, config_change_fn fn,
                                  void *ctx)
{
    compare(was, is, 1, fn, ctx);
}

int run_config_assign(struct run_config *ret, const struct run_config *from,
                      const char *const *set, size_t n_set, config_env_names_fn env_names,
                      struct err *err)
{
    const struct config_options options = {
        .set = set, .n_set = n_set, .set_is_bare = 1, .env_names = env_names};
    char *text = run_config_to_yaml(from);
    int rc = run_config_parse(ret, text, strlen(text), "config.yaml", &options, err);

    free(text);
    return rc;
}

/* ---- as text ---- */

struct listing {
    FILE *out;
    unsigned kinds;
    int any;
    const struct run_config *agreed, *is; /* agreed NULL: all are listed */
};

struct search {
    const struct config_change *of;
    int is_default, found;
};

static void match(void *ctx, const struct config_change *c)
{
    struct search *s = ctx;

    s->found |= strcmp(c->path, s->of->path) == 0 ||
                (s->is_default && strcmp(c->key, s->of->key) == 0);
}

static int is_agreed(const struct listing *l, const struct config_change *c)
{
    struct search s = {.of = c, .is_default = c->agent == l->is->n_agents};

    if (l->agreed == NULL)
        return 0;
    compare(l->agreed, l->is, 0, match, &s);
    return !s.found;
}

static void list_change(void *ctx, const struct config_change *c)
{
    struct listing *l = ctx;

    if ((l->kinds >> c->kind & 1u) == 0 || is_agreed(l, c))
        return;
    (void)fprintf(l->out, "%s%s=%s", l->any ? "," : "", c->path, c->text);
    l->any = 1;
}

char *run_config_assignments_beyond(const struct run_config *was,
                                    const struct run_config *agreed,
                                    const struct run_config *is, unsigned kinds)
{
    char *text = NULL;
    size_t len = 0;
    struct listing l = {open_memstream(&text, &len), kinds, 0, agreed, is};

    CHECK(l.out != NULL, "no memory");
    compare(was, is, 1, list_change, &l);
    CHECK(fclose(l.out) == 0, "no memory");
    return text;
}

char *run_config_assignments(const struct run_config *was, const struct run_config *is,
                             unsigned kinds)
{
    return run_config_assignments_beyond(was, NULL, is, kinds);
}

size_t config_split_assignments(char *text, const char **ret, size_t max)
{
    size_t n = 0;
    char *rest = text;

    for (char *word = strtok_r(text, ",", &rest); word != NULL && n < max;
         word = strtok_r(NULL, ",", &rest))
        ret[n++] = word;
    return n;
}
