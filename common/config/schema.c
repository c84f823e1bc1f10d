/* Reading the sections that the tables describe, and their defaults. */
#include "common/config/run_schema.h"
#include "common/config/schema_internal.h"
#include "common/err/check.h"
#include "common/text/scan.h"

#include <string.h>

enum {
    SHOWN_MAX_BYTES = 60, /* bytes of a value that an error quotes */
    HINT_MAX_BYTES = 100,
    KEYS_LIST_BYTES = 300, /* leaves room for the place and the hint in a struct err */
    KEYS_MAX = 64,         /* rows in one table */
};

static void *at_offset(void *base, size_t offset)
{
    return (char *)base + offset;
}

const char *const field_flag_names[18] = {
    [3] = "variables",   [7] = "own_rows",          [8] = "symmetry",
    [9] = "units",       [10] = "box_only",         [11] = "repeats",
    [12] = "parts",      [13] = "central",          [14] = "targets",
    [15] = "checkpoint", [16] = "checkpoint_agent", [17] = "foreign",
    [0] = "above_min",   [1] = "skip_zero",         [4] = "ends_at_min",
};

size_t schema_count_names(const char *const *names)
{
    size_t n = 0;

    while (names[n] != NULL)
        n++;
    return n;
}

void schema_join_choices(char *ret, size_t size, const char *const *choices, size_t n)
{
    static const char more[] = ", ...";
    size_t len = 0;

    ret[0] = '\0';
    for (size_t i = 0; i < n; i++) {
        const char *between = i == 0 ? "" : i + 1 == n ? " or " : ", ";

        if (len + strlen(between) + strlen(choices[i]) + sizeof(more) > size) {
            (void)snprintf(ret + len, size - len, "%s", more);
            return;
        }
        len += (size_t)snprintf(ret + len, size - len, "%s%s", between, choices[i]);
    }
}

/* Sets ret to "; did you mean 'x'?", or to "" if no name is similar. */
static void suggest(char *ret, size_t size, const char *word, const char *const *choices,
                    size_t n)
{
    const char *nearest = yaml_nearest(word, choices, n);

    ret[0] = '\0';
    if (nearest != NULL)
        (void)snprintf(ret, size, "; did you mean '%s'?", nearest);
}

int schema_fail_choice(const struct yaml_node *at, const char *path, const char *found,
                       const char *const *choices, size_t n, struct err *err)
{
    char list[LIST_MAX_BYTES], hint[HINT_MAX_BYTES];

    schema_join_choices(list, sizeof(list), choices, n);
    suggest(hint, sizeof(hint), found, choices, n);
    return yaml_fail(at, path, err, "found '%.*s', expected %s%s", SHOWN_MAX_BYTES, found,
                     list, hint);
}

const struct field *schema_find(const struct schema *s, const char *key)
{
    for (size_t i = 0; i < s->n; i++) {
        if (strcmp(s->fields[i].key, key) == 0)
            return &s->fields[i];
    }
    return NULL;
}

void schema_join_path(char ret[PATH_MAX_BYTES], const char *path, const char *key)
{
    (void)snprintf(ret, PATH_MAX_BYTES, "%s%s%s", path, *path != '\0' ? "." : "", key);
}

/* Finds a key `depth` levels below the table. path: the table's path. */
static int find_at_depth(const struct schema *s, const char *path, const char *key,
                         int depth, char ret[PATH_MAX_BYTES])
{
    for (size_t i = 0; i < s->n; i++) {
        const struct field *f = &s->fields[i];
        const struct schema *map = schema_below(f, NULL);
        char below[PATH_MAX_BYTES];

        schema_join_path(below, path, f->key);
        if (depth == 0 && strcmp(f->key, key) == 0) {
            (void)snprintf(ret, PATH_MAX_BYTES, "%s", below);
            return 1;
        }
        if (depth > 0 && map != NULL && find_at_depth(map, below, key, depth - 1, ret))
            return 1;
    }
    return 0;
}

/* Finds a key at any depth below the table, the nearest first. Returns whether there is
 * one. */
static int find_below(const struct schema *s, const char *path, const char *key,
                      char ret[PATH_MAX_BYTES])
{
    int depth = 0;

    while (depth < YAML_MAX_DEPTH && !find_at_depth(s, path, key, depth, ret))
        depth++;
    return depth < YAML_MAX_DEPTH;
}

/* What other tools call keys (README.md, "Coming from other tools"). ours: below `defaults` or an
 * agent's section if it begins with a dot, otherwise the whole path. */
static const struct {
    const char *usual, *ours;
} usual_keys[] = {
    {"gamma", ".discount"},
    {"lr", ".optimizer.learning_rate"},
    {"tau", ".polyak"},
    {"grad_clip", ".clip_norm"},
    {"max_grad_norm", ".clip_norm"},
    {"net_arch", ".actor.hidden"},
    {"hidden_dim", ".actor.hidden"},
    {"hidden_size", ".actor.hidden"},
    {"n_epochs", ".settings.epochs"},
    {"num_epochs", ".settings.epochs"},
    {"ppo_epoch", ".settings.epochs"},
    {"gae_lambda", ".settings.gae"},
    {"clip_range", ".settings.clip_ratio"},
    {"clip_param", ".settings.clip_ratio"},
    {"ent_coef", ".settings.entropy"},
    {"entropy_coef", ".settings.entropy"},
    {"use_rnn", ".settings.recurrent"},
    {"target_update_interval", ".settings.target_every"},
    {"buffer_size", "experience.capacity"},
    {"learning_starts", "experience.warmup"},
    {"train_freq", "experience.update_every"},
    {"n_steps", "experience.update_every"},
    {"num_envs", "env.copies"},
    {"n_envs", "env.copies"},
    {"total_timesteps", "run.env_steps"},
    {"t_max", "run.env_steps"},
};

/* Finds a key by what other tools call it. above: the path of the table that was searched.
 * Returns whether there is one. */
static int find_usual(const char *above, const char *key, char ret[PATH_MAX_BYTES])
{
    for (size_t i = 0; i < sizeof(usual_keys) / sizeof(usual_keys[0]); i++) {
        const char *ours = usual_keys[i].ours, *agent = "defaults", *end;
        size_t len = strlen(agent);

        if (strcmp(usual_keys[i].usual, key) != 0)
            continue;
        if (strncmp(above, "agents.", 7) == 0) {
            end = strchr(above + 7, '.');
            agent = above;
            len = end != NULL ? (size_t)(end - above) : strlen(above);
        }
        if (*ours != '.')
            len = 0;
        (void)snprintf(ret, PATH_MAX_BYTES, "%.*s%s", (int)len, agent, ours);
        return 1;
    }
    return 0;
}

/* Fails because the table s has no such key. path: the key's path. */
static int unknown_key(const struct schema *s, const struct yaml_node *entry,
                       const char *path, struct err *err)
{
    const char *keys[KEYS_MAX], *dot = strrchr(path, '.');
    char list[KEYS_LIST_BYTES], hint[HINT_MAX_BYTES], above[PATH_MAX_BYTES];
    char elsewhere[PATH_MAX_BYTES];

    CHECK(s->n <= KEYS_MAX, "%zu keys", s->n);
    for (size_t i = 0; i < s->n; i++)
        keys[i] = s->fields[i].key;
    schema_join_choices(list, sizeof(list), keys, s->n);
    (void)snprintf(above, sizeof(above), "%.*s", dot != NULL ? (int)(dot - path) : 0,
                   path);
    if ((find_below(s, above, entry->key, elsewhere) ||
         find_below(&run_schema, "", entry->key, elsewhere) ||
         find_usual(above, entry->key, elsewhere)) &&
        strcmp(elsewhere, path) != 0) /* of another kind of file, it may be */
        (void)snprintf(hint, sizeof(hint), "; did you mean '%.80s'?", elsewhere);
    else
        suggest(hint, sizeof(hint), entry->key, keys, s->n);
    return yaml_fail(entry, path, err, "unknown key, expected %s%s", list, hint);
}

static int read_section(const struct schema *s, const struct yaml_node *map,
                        const char *path, const void *root, void *base,
                        struct arena *arena, struct err *err)
{
    if (yaml_is_null(map))
        return 0;
    if (map->kind != YAML_MAP)
        return yaml_fail(map, path, err, "found %s, expected a map of keys",
                         map->kind == YAML_LIST ? "a list" : "a single value");
    for (size_t i = 0; i < map->n; i++) {
        char child_path[PATH_MAX_BYTES];
        const struct field *f = schema_find(s, map->child[i]->key);
        int rc;

        schema_join_path(child_path, path, map->child[i]->key);
        if (f == NULL)
            return unknown_key(s, map->child[i], child_path, err);
        if (f->type == FIELD_OPTIONAL_MAP) { /* also given if it is empty */
            const int is_given = !yaml_is_word(map->child[i], "none", "none", "none");

            memcpy(at_offset(base, f->has_offset), &is_given, sizeof(int));
            if (!is_given)
                continue;
        }
        rc = schema_storage(f) == STORED_MAP
                 ? read_section(schema_below(f, root), map->child[i], child_path, root,
                                at_offset(base, f->offset), arena, err)
                 : schema_read_node(f, map->child[i], child_path,
                                    at_offset(base, f->offset), arena, err);
        if (rc < 0)
            return rc;
    }
    return 0;
}

int schema_read(const struct schema *s, const struct yaml_node *map, const char *path,
                void *base, struct arena *arena, struct err *err)
{
    return read_section(s, map, path, base, base, arena, err);
}

static void schema_fill(const struct schema *s, const void *root, void *base,
                        struct arena *arena, int unset);

static void fill_field(const struct field *f, const void *root, void *dst,
                       struct arena *arena, int unset)
{
    if (schema_storage(f) == STORED_MAP)
        schema_fill(schema_below(f, root), root, dst, arena,
                    unset || (f->flags & FIELD_INHERITS) != 0);
    else if (unset)
        schema_unset(f, dst);
    else
        schema_default(f, dst, arena);
}

static void schema_fill(const struct schema *s, const void *root, void *base,
                        struct arena *arena, int unset)
{
    for (size_t i = 0; i < s->n; i++)
        fill_field(&s->fields[i], root, at_offset(base, s->fields[i].offset), arena,
                   unset);
}

void schema_defaults(const struct schema *s, void *base, struct arena *arena)
{
    schema_fill(s, base, base, arena, 0);
}

/* ---- single values of a section that was read ---- */

int schema_locate(const struct schema *s, const char *path, void *base,
                  struct schema_place *ret)
{
    const void *root = base;

    for (;;) {
        const size_t len = strcspn(path, ".");
        const struct schema *below;
        const struct field *f = NULL;

        for (size_t i = 0; i < s->n && f == NULL; i++)
            if (text_is_word(path, len, s->fields[i].key))
                f = &s->fields[i];
        if (f == NULL)
            return ERR_NOT_FOUND;
        path += len + (path[len] == '.');
        below = f->type != FIELD_RAW ? schema_below(f, root) : NULL;
        if (below == NULL || *path == '\0') {
            *ret = (struct schema_place){s, f, base, at_offset(base, f->offset), path};
            return 0;
        }
        s = below;
        base = at_offset(base, f->offset);
    }
}

const struct field *schema_counterpart(const struct schema *s, const struct field *field,
                                       const struct schema *other)
{
    const struct field *f = s == other ? field : schema_find(other, field->key);

    if (f == field || f == NULL)
        return f;
    if (f->type != field->type)
        return NULL;
    for (size_t i = 0; f->type == FIELD_ENUM; i++) {
        const char *a = f->names[i], *b = field->names[i];

        if (a == NULL || b == NULL)
            return a == b ? f : NULL;
        if (strcmp(a, b) != 0)
            return NULL;
    }
    return f;
}

struct member schema_member(const struct section *s, const struct field *f)
{
    struct member m = {0};

    if (f == NULL || s->base == NULL)
        return m;
    m.field = f;
    m.value = (const char *)s->base + f->offset;
    m.is_given = schema_is_given(s->schema, s->root, s->base, f);
    if (schema_storage(f) == STORED_MAP)
        m.inner = (struct section){schema_below(f, s->root), s->root, m.value};
    return m;
}

struct member schema_member_like(const struct section *s, const struct schema *of,
                                 const struct field *f)
{
    return schema_member(s,
                         s->base != NULL ? schema_counterpart(of, f, s->schema) : NULL);
}

static void reset_section(const struct schema *s, const void *root, void *base,
                          const struct section *from, struct arena *arena);

/* Copies the value of `from` or, without `from`, the default. If there is neither, the
 * value becomes 0 or "unset", which the owner of the table resolves. */
static void reset_field(const struct schema *s, const struct field *f, const void *root,
                        void *base, const struct section *from, struct arena *arena)
{
    const struct member its = schema_member_like(from, s, f);
    void *dst = at_offset(base, f->offset);

    if (f->type == FIELD_OPTIONAL_MAP)
        memcpy(at_offset(base, f->has_offset), &its.is_given, sizeof(int));
    if (f->type == FIELD_MAP || (f->type == FIELD_OPTIONAL_MAP && its.is_given)) {
        reset_section(schema_below(f, root), root, dst, &its.inner, arena);
    } else if (its.is_given) {
        memcpy(dst, its.value, schema_value_size(f->type));
    } else {
        memset(dst, 0, schema_value_size(f->type));
        fill_field(f, root, dst, arena, 0);
    }
}

static void reset_section(const struct schema *s, const void *root, void *base,
                          const struct section *from, struct arena *arena)
{
    for (size_t i = 0; i < s->n; i++)
        if (s->fields[i].type != FIELD_RAW)
            reset_field(s, &s->fields[i], root, base, from, arena);
}

void schema_reset(const struct schema *s, const char *path, void *base, void *from,
                  struct arena *arena)
{
    struct section source = {s, from, from};
    struct schema_place at, there;

    if (*path == '\0') {
        reset_section(s, base, base, &source, arena);
        return;
    }
    if (schema_locate(s, path, base, &at) < 0 || *at.rest != '\0' ||
        at.field->type == FIELD_RAW)
        return;
    source.base = NULL;
    if (from != NULL && schema_locate(s, path, from, &there) == 0)
        source = (struct section){there.schema, from, there.section};
    reset_field(at.schema, at.field, base, at.section, &source, arena);
}

static void copy_texts(const struct schema *s, const void *root, void *base,
                       struct arena *arena)
{
    for (size_t i = 0; i < s->n; i++) {
        const struct field *f = &s->fields[i];
        void *p = at_offset(base, f->offset);

        if (schema_storage(f) == STORED_MAP)
            copy_texts(schema_below(f, root), root, p, arena);
        else
            schema_own_value(f, p, arena);
    }
}

void schema_copy_texts(const struct schema *s, void *base, struct arena *arena)
{
    copy_texts(s, base, base, arena);
}
