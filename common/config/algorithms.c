#include "common/config/algorithms.h"

#include "common/err/check.h"
#include "common/text/scan.h"

#include <pthread.h>
#include <string.h>

const char *const rows_kind_names[ROWS_KIND_COUNT + 1] = {"transitions", "episodes",
                                                          "window"};

const struct algorithm_info *algorithm_find(const char *name)
{
    const struct algorithm_info *a;

    for (size_t i = 0; (a = algorithm_at(i)) != NULL; i++) {
        if (strcmp(a->name, name) == 0)
            return a;
    }
    return NULL;
}

const struct algorithm_info *algorithm_default(void)
{
    const struct algorithm_info *a;

    for (size_t i = 0; (a = algorithm_at(i)) != NULL; i++) {
        if (a->is_default)
            return a;
    }
    CHECK(0, "no algorithm is the default");
}

const struct algorithm_info *algorithm_unknown(void)
{
    static const struct algorithm_info unknown = {
        .name = ALGORITHM_PROGRAM, .as_policy = &unknown, .is_unknown = 1};

    return &unknown;
}

const struct algorithm_info *algorithm_of(const struct agent_config *a)
{
    return a->settings.of != NULL ? a->settings.of : algorithm_find(a->algorithm);
}

int algorithm_plays_in(const struct algorithm_info *a, const char *env)
{
    return a->envs == NULL || text_find(a->envs, env) >= 0;
}

int algorithm_scalar_is_name(const char *name, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        const char c = name[i];

        if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
              (c >= '0' && c <= '9') || strchr("_.-/", c) != NULL) ||
            c == '\0')
            return 0;
    }
    return len > 0 && len <= ALGORITHM_SCALAR_NAME;
}

int algorithm_scalar_is_by(const struct algorithm_scalar *s, unsigned by)
{
    return ((s->by != 0 ? s->by : SCALAR_BY_AGENT) & by) != 0;
}

int algorithm_learns(const struct algorithm_info *a)
{
    return !a->fixed && !a->without_env;
}

const struct field *algorithm_setting(const struct algorithm_info *a, unsigned flag)
{
    for (size_t i = 0; i < a->settings.n; i++) {
        if (a->settings.fields[i].flags & flag)
            return &a->settings.fields[i];
    }
    return NULL;
}

static struct field any_settings[4 * ALGORITHM_MAX_SETTINGS];
static struct algorithm_info any = {.name = "any", .settings = {.fields = any_settings}};

static void make_any(void)
{
    const size_t room = sizeof(any_settings) / sizeof(any_settings[0]);
    struct schema *s = &any.settings;
    const struct algorithm_info *a;

    for (size_t i = 0; (a = algorithm_at(i)) != NULL; i++) {
        for (size_t k = 0; k < a->settings.n && s->n < room; k++)
            if (schema_find(s, a->settings.fields[k].key) == NULL)
                any_settings[s->n++] = a->settings.fields[k];
    }
}

const struct algorithm_info *algorithm_any(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    CHECK(pthread_once(&once, make_any) == 0);
    return &any;
}

int algorithm_place_settings(struct field *settings, size_t n, struct err *err)
{
    size_t at = 0;

    for (size_t i = 0; i < n; i++) {
        const size_t size = schema_value_size(settings[i].type);

        settings[i].offset = at;
        at += (size + SETTINGS_ALIGN - 1) / SETTINGS_ALIGN * SETTINGS_ALIGN;
        if (at > SETTINGS_MAX_BYTES)
            return err_set(err, ERR_LIMIT, "the settings need more than %d bytes",
                           SETTINGS_MAX_BYTES);
    }
    return 0;
}

/* ---- an agent's settings ---- */

void agent_section_take(struct agent_config *a, struct arena *arena)
{
    const struct algorithm_info *is;

    if (a->algorithm == NULL)
        a->algorithm = algorithm_default()->name;
    if (strcmp(a->algorithm, ALGORITHM_PROGRAM) == 0 && a->settings.of != NULL)
        return;
    is = algorithm_find(a->algorithm);
    CHECK(is != NULL, "%s", a->algorithm);
    agent_section_take_as(a, is, arena);
}

void agent_section_take_as(struct agent_config *a, const struct algorithm_info *is,
                           struct arena *arena)
{
    const struct agent_settings old = a->settings;

    if (old.of == is)
        return;
    a->settings = (struct agent_settings){.of = is};
    for (size_t i = 0; i < is->settings.n; i++) {
        const struct field *f = &is->settings.fields[i], *was = NULL;

        if (old.of != NULL)
            was = schema_counterpart(&is->settings, f, &old.of->settings);
        if (was != NULL)
            memcpy(a->settings.value + f->offset, old.value + was->offset,
                   schema_value_size(f->type));
        else
            schema_default(f, a->settings.value + f->offset, arena);
    }
}

static double number_of(const struct agent_config *a, const struct field *f)
{
    return f != NULL ? schema_number(f, a->settings.value + f->offset) : 0;
}

double agent_setting_marked(const struct agent_config *a, unsigned flag)
{
    const struct algorithm_info *of = a->settings.of;
    double sum = 0;

    for (size_t i = 0; of != NULL && i < of->settings.n; i++)
        if (of->settings.fields[i].flags & flag)
            sum += number_of(a, &of->settings.fields[i]);
    return sum;
}

double agent_setting(const struct agent_config *a, const char *key)
{
    return a->settings.of != NULL
               ? number_of(a, schema_find(&a->settings.of->settings, key))
               : 0;
}

const char *agent_setting_text(const struct agent_config *a, unsigned flag)
{
    const struct field *f =
        a->settings.of != NULL ? algorithm_setting(a->settings.of, flag) : NULL;
    const char *text;

    if (f == NULL || !schema_is_text(f))
        return NULL;
    memcpy(&text, a->settings.value + f->offset, sizeof(text));
    return text;
}

int algorithm_brings_graph(const struct agent_config *a)
{
    return algorithm_setting(algorithm_of(a), FIELD_CHECKPOINT) != NULL;
}

int run_config_trains_graphs(const struct run_config *c)
{
    for (size_t i = 0; i < c->n_agents; i++)
        if (algorithm_brings_graph(&c->agents[i]) && !algorithm_of(&c->agents[i])->fixed)
            return 1;
    return 0;
}

int run_config_has_programs(const struct run_config *c)
{
    for (size_t i = 0; i < c->n_agents; i++)
        if (c->agents[i].command != NULL)
            return 1;
    return 0;
}

static int needs_episodes(const struct agent_config *a, const struct algorithm_bound *b)
{
    return agent_setting(a, b->key) > b->above;
}

enum rows_kind algorithm_rows(const struct agent_config *a)
{
    const struct algorithm_info *info = algorithm_of(a);

    for (const struct algorithm_bound *b = info->episodes_if; b != NULL && b->key != NULL;
         b++)
        if (needs_episodes(a, b))
            return ROWS_EPISODES;
    return info->rows;
}

const struct algorithm_bound *algorithm_rows_differ(const struct agent_config *a,
                                                    const struct agent_config *b)
{
    const struct algorithm_bound *bound = algorithm_of(a)->episodes_if;

    while (bound != NULL && bound->key != NULL) {
        if (needs_episodes(a, bound) != needs_episodes(b, bound))
            return bound;
        bound++;
    }
    return NULL;
}

enum rows_kind run_config_rows(const struct run_config *c)
{
    enum rows_kind kind = ROWS_KIND_COUNT;

    for (size_t i = 0; i < c->n_agents; i++) {
        const struct algorithm_info *info = algorithm_of(&c->agents[i]);

        if (info == NULL || !algorithm_learns(info))
            continue;
        if (kind != ROWS_KIND_COUNT && kind != algorithm_rows(&c->agents[i]))
            return ROWS_KIND_COUNT;
        kind = algorithm_rows(&c->agents[i]);
    }
    return kind;
}

uint64_t run_config_log_window(const struct run_config *c)
{
    int64_t most = 0;

    if (run_config_rows(c) != ROWS_WINDOW || c->experience.keep == KEEP_LOG_ALWAYS)
        return (uint64_t)c->experience.capacity;
    for (size_t i = 0; i < c->n_agents; i++) {
        const int64_t rows = run_config_experience(c, i).update_every;

        if (algorithm_learns(algorithm_of(&c->agents[i])) && rows > most)
            most = rows;
    }
    return (uint64_t)most;
}
