#include "common/config/changes.h"

#include "common/config/loader.h"
#include "common/config/run_schema.h"
#include "common/config/schema_internal.h"
#include "common/err/check.h"
#include "common/mem/xmalloc.h"
#include "common/text/scan.h"

#include <stdlib.h>
#include <string.h>

/* The section that is being compared. */
struct comparison {
    struct config_diff *ret;
    size_t agent;
    const char *prefix; /* "agents.agent_0" */
};

static void add_difference(struct config_diff *d, const struct config_change *c)
{
    ARRAY_GROW(d->list, d->n, d->cap);
    d->list[d->n++] = *c;
}

static void on_difference(void *ctx, const struct schema_difference *d)
{
    const struct comparison *c = ctx;
    const char *path = arena_strdup(&c->ret->arena, d->path);
    struct config_change change = {
        .kind = d->field->change,
        .agent = c->agent,
        .path = path,
        .key = path,
        .text = arena_strdup(&c->ret->arena, d->text),
        .new_weights = (d->field->flags & (FIELD_MEANING | FIELD_VARIABLES)) != 0,
        .field = d->field,
        .was = d->was,
        .is = d->value};

    if (c->prefix[0] != '\0')
        change.key += strlen(c->prefix) + 1;
    if (change.kind == CHANGE_SETTING && d->value != NULL)
        memcpy(&change.number, d->value, sizeof(change.number));
    add_difference(c->ret, &change);
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

static void compare_agent(struct config_diff *ret, const char *prefix, size_t agent,
                          const struct agent_config *was, const struct agent_config *is)
{
    schema_compare(&agent_schema, prefix, was, is, on_difference,
                   &(struct comparison){ret, agent, prefix});
}

void run_config_diff(struct config_diff *ret, const struct run_config *was,
                     const struct run_config *is, int following)
{
    *ret = (struct config_diff){0};
    schema_compare(&run_schema, "", was, is, on_difference,
                   &(struct comparison){ret, is->n_agents, ""});
    compare_agent(ret, "defaults", is->n_agents, &was->defaults, &is->defaults);
    if (!same_agents(was, is)) {
        add_difference(ret, &(struct config_change){.kind = CHANGE_RESTART,
                                                    .agent = is->n_agents,
                                                    .path = "agents",
                                                    .key = "agents",
                                                    .text = "",
                                                    .new_weights = 1});
        return;
    }
    for (size_t i = 0; i < is->n_agents; i++) {
        const struct agent_config *from = &was->agents[i];
        char prefix[AGENT_NAME_MAX + 16];

        if (following) {
            struct agent_config *follower = ARENA_NEW(&ret->arena, struct agent_config);

            *follower = *from;
            schema_follow(&agent_schema, &was->defaults, &is->defaults, follower);
            from = follower;
        }
        (void)snprintf(prefix, sizeof(prefix), "agents.%s", is->agents[i].name);
        compare_agent(ret, prefix, i, from, &is->agents[i]);
    }
}

void config_diff_done(struct config_diff *d)
{
    free(d->list);
    arena_done(&d->arena);
}

char *config_change_was(const struct config_change *c)
{
    return c->was != NULL && schema_below(c->field, NULL) == NULL
               ? schema_text_of(c->field, c->was)
               : xstrdup("");
}

const struct config_change *config_diff_find(const struct config_diff *d, unsigned kinds)
{
    for (size_t i = 0; i < d->n; i++)
        if (kinds >> d->list[i].kind & 1u)
            return &d->list[i];
    return NULL;
}

static void note_difference(void *ctx, const struct schema_difference *d)
{
    *(int *)ctx = 0;
}

int agent_config_is_same(const struct agent_config *a, const struct agent_config *b)
{
    int same = 1;

    schema_compare(&agent_schema, "", a, b, note_difference, &same);
    return same;
}

/* ---- settings ---- */

void config_settings_add(struct config_settings *s, struct config_setting one)
{
    ARRAY_GROW(s->list, s->n, s->cap);
    s->list[s->n++] = one;
}

void config_settings_replace(struct config_settings *s, const struct config_setting *one)
{
    const struct config_setting copy = config_setting_copy(one);

    for (size_t i = 0; i < s->n; i++)
        if (strcmp(s->list[i].path, one->path) == 0) {
            free(s->list[i].path);
            s->list[i] = copy;
            return;
        }
    config_settings_add(s, copy);
}

void config_settings_done(struct config_settings *s)
{
    for (size_t i = 0; i < s->n; i++)
        free(s->list[i].path);
    free(s->list);
    *s = (struct config_settings){0};
}

struct config_setting config_setting_copy(const struct config_setting *s)
{
    struct config_setting copy = *s;

    copy.path = xstrdup(s->path);
    return copy;
}

char *config_setting_text(const struct config_setting *s)
{
    if (s->schedule.over > 0)
        return schedule_text(s->field, &s->schedule);
    if (s->field->flags & FIELD_SKIP_ZERO && s->field->type != FIELD_ENUM &&
        s->value.whole == 0)
        return xstrdup("");
    return schema_text_of(s->field, &s->value);
}

char *config_settings_text(const struct config_settings *s)
{
    struct xstream text;
    FILE *out = xstream_begin(&text);

    for (size_t i = 0; i < s->n; i++) {
        char *value = config_setting_text(&s->list[i]);

        (void)fprintf(out, "%s%s=%s", i > 0 ? "," : "", s->list[i].path, value);
        free(value);
    }
    return xstream_end(&text);
}

/* Whether the text, YAML, is meant as a schedule of stairs (schedule.h). */
static int is_schedule(const struct field *f, const char *text)
{
    struct arena arena = ARENA_ZERO;
    struct yaml_node *n;
    const int is =
        yaml_value_parse(&n, &arena, text, "", NULL) == 0 && schedule_is_meant(f, n);

    arena_done(&arena);
    return is;
}

static int read_value(struct config_setting *s, const char *text, const char *place,
                      struct err *err)
{
    char bytes[24]; /* as older builds wrote them: without the unit */
    struct arena arena = ARENA_ZERO;
    struct yaml_node *n;
    int rc;

    if (s->field->type == FIELD_BYTES && text_is_digits(text) && strlen(text) < 20) {
        (void)snprintf(bytes, sizeof(bytes), "%sB", text);
        text = bytes;
    }
    if (!is_schedule(s->field, text))
        return schema_read_text(s->field, text, place, &s->value, err);
    rc = yaml_value_parse(&n, &arena, text, place, err);
    if (rc == 0)
        rc = schedule_read(s->field, n, "", &s->schedule, err);
    if (rc == 0)
        schedule_stair(s->field, &s->schedule, 0, &s->value);
    arena_done(&arena);
    return rc;
}

/* Returns the row of a key that can change in a live run; NULL if it cannot. */
static const struct field *find_live(const struct run_config *c, const char *path)
{
    struct schema_place at;

    if (run_config_locate(c, path, &at) == NULL || *at.rest != '\0' ||
        at.field->change == CHANGE_RESTART || schema_below(at.field, NULL) != NULL)
        return NULL;
    return at.field;
}

int config_setting_parse(struct config_setting *ret, const struct run_config *c,
                         const char *text, struct err *err)
{
    const char *equals = strchr(text, '=');
    int rc;

    *ret = (struct config_setting){0};
    if (equals == NULL)
        return err_set(err, ERR_CONFIG, "%.160s: expected KEY=VALUE", text);
    ret->path = xstrndup(text, (size_t)(equals - text));
    ret->field = find_live(c, ret->path);
    if (ret->field == NULL)
        rc = err_set(err, ERR_CONFIG, "%.160s: no key that changes in a live run",
                     ret->path);
    else
        rc = read_value(ret, equals + 1, text, err);
    if (rc < 0) {
        free(ret->path);
        *ret = (struct config_setting){0};
    }
    return rc;
}

void run_config_apply_alone(struct run_config *c, const struct config_setting *s)
{
    struct schema_place at;

    CHECK(run_config_locate(c, s->path, &at) != NULL && at.field == s->field, "%s",
          s->path);
    memcpy(at.value, &s->value, schema_value_size(s->field->type));
}

void run_config_apply(struct run_config *c, const struct config_setting *s)
{
    const char *defaults = (const char *)&c->defaults;
    struct schema_place at;
    char was[sizeof(s->value)];
    size_t size;

    CHECK(run_config_locate(c, s->path, &at) != NULL && at.field == s->field, "%s",
          s->path);
    size = schema_value_size(s->field->type);
    memcpy(was, at.value, size);
    memcpy(at.value, &s->value, size);
    if (config_path_within(s->path, "defaults") == NULL)
        return;
    for (size_t i = 0; i < c->n_agents; i++) {
        char *own = (char *)&c->agents[i] + ((const char *)at.value - defaults);

        if (memcmp(own, was, size) == 0)
            memcpy(own, &s->value, size);
    }
}

void run_config_apply_all(struct run_config *c, const struct config_settings *s)
{
    for (size_t i = 0; i < s->n; i++)
        run_config_apply(c, &s->list[i]);
}

/* Returns the table row of the key that `set` assigns; NULL if the key cannot change
 * without a respawn. */
static const struct field *find_at_once(const struct run_config *c, const char *set,
                                        struct arena *arena)
{
    const struct field *f = find_live(c, arena_strndup(arena, set, strcspn(set, "=")));

    return f != NULL && f->change != CHANGE_RESPAWN ? f : NULL;
}

/* If *set assigns a schedule, adds the schedule to `given` and makes *set assign the
 * schedule's last value instead. */
static int take_schedule(const struct run_config *c, const char **set,
                         struct arena *arena, struct config_settings *given,
                         struct err *err)
{
    const struct field *field = find_at_once(c, *set, arena);
    const char *value = strchr(*set, '=');
    struct config_setting one;
    char *text;
    int rc;

    if (value == NULL || !is_schedule(field, value + 1))
        return 0;
    rc = config_setting_parse(&one, c, *set, err);
    if (rc < 0)
        return rc;
    config_settings_replace(given, &one);
    schedule_stair(field, &one.schedule, (uint64_t)one.schedule.over, &one.value);
    text = schema_text_of(field, &one.value);
    *set = arena_printf(arena, "%s=%s", one.path, text);
    free(text);
    free(one.path);
    return 0;
}

static int is_given(const struct config_settings *given, const char *path)
{
    for (size_t i = 0; i < given->n; i++)
        if (strcmp(given->list[i].path, path) == 0)
            return 1;
    return 0;
}

/* Adds the value that c has after the assignment `set`. */
static void take_value(struct run_config *c, const char *set, struct arena *arena,
                       struct config_settings *given)
{
    struct config_setting one = {.field = find_at_once(c, set, arena)};
    struct schema_place at;

    if (one.field == NULL || !schema_is_number(one.field))
        return;
    one.path = arena_strndup(arena, set, strcspn(set, "="));
    if (is_given(given, one.path) || run_config_locate(c, one.path, &at) == NULL)
        return;
    memcpy(&one.value, at.value, schema_value_size(one.field->type));
    config_settings_replace(given, &one);
}

int run_config_set_live(struct run_config *ret, const struct run_config *from,
                        const char *const *set, size_t n_set,
                        struct config_settings *given, struct err *err)
{
    struct arena arena = ARENA_ZERO;
    const char **all;
    const size_t n = config_expand_teams(from, set, n_set, &arena, &all);
    int rc = 0;

    for (size_t i = 0; i < n && rc == 0; i++)
        rc = take_schedule(from, &all[i], &arena, given, err);
    *ret = (struct run_config){0};
    if (rc == 0)
        rc = run_config_set(ret, from, all, n, err);
    for (size_t i = 0; i < n && rc == 0; i++)
        take_value(ret, all[i], &arena, given);
    arena_done(&arena);
    return rc;
}

/* ---- differences ---- */

struct config_setting config_change_setting(const struct config_change *c)
{
    struct config_setting s = {.path = xstrdup(c->path), .field = c->field};

    CHECK(schema_is_number(c->field), "%s", c->path);
    if (c->is != NULL)
        memcpy(&s.value, c->is, schema_value_size(c->field->type));
    return s;
}

void run_config_diff_settings(struct config_settings *ret, const struct run_config *was,
                              const struct run_config *is, unsigned kinds)
{
    struct config_diff d;

    run_config_diff(&d, was, is, 1);
    for (size_t i = 0; i < d.n; i++) {
        const struct config_change *c = &d.list[i];

        if ((kinds >> c->kind & 1u) == 0 || c->kind == CHANGE_RESTART)
            continue;
        /* else the value is absent, because another key is given instead */
        if (c->is != NULL || (c->field->flags & FIELD_SKIP_ZERO) != 0)
            config_settings_add(ret, config_change_setting(c));
    }
    config_diff_done(&d);
}

void run_config_apply_diff(struct run_config *c, const struct run_config *from,
                           unsigned kinds)
{
    struct config_settings differences = {0};

    run_config_diff_settings(&differences, c, from, kinds);
    run_config_apply_all(c, &differences);
    config_settings_done(&differences);
}
