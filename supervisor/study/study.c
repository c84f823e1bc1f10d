#include "supervisor/study/study.h"

#include "common/config/run_config.h"
#include "common/config/schema.h"
#include "common/config/yaml_tree.h"
#include "common/rng/rng.h"
#include "common/text/scan.h"
#include "common/wire/cursor.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#define PATH_ENDS ", " /* between the paths of one key of `search` */

/* ---- the keys ---- */

/* Counts are stored as the numbers of the tables. */
_Static_assert(sizeof(size_t) == sizeof(int64_t), "size_t is as large as int64_t");
#define STUDY(member) SCHEMA_AT(struct study, member)

static const struct field asha_fields[] = {
    {.key = "rungs", .type = FIELD_RAW},
    {"keep", FIELD_F64, STUDY(keep), .flags = FIELD_ABOVE_MIN, SCHEMA_WITHIN(0, 0.999),
     .default_text = "0.333333333333333333"},
};
static const struct schema asha_schema = {SCHEMA_TABLE(asha_fields)};

static const struct field pbt_fields[] = {
    {"population", FIELD_I64, STUDY(trials), SCHEMA_WITHIN(2, STUDY_MAX_TRIALS)},
    {"interval", FIELD_I64, STUDY(pbt.interval),
     SCHEMA_WITHIN(1, (double)(INT64_MAX / STUDY_MAX_ROUNDS))},
    {"rounds", FIELD_I64, STUDY(pbt.rounds), SCHEMA_WITHIN(1, STUDY_MAX_ROUNDS)},
    {"quantile", FIELD_F64, STUDY(pbt.quantile), SCHEMA_WITHIN(0.001, 0.5),
     .default_text = "0.25"},
    {"resample", FIELD_F64, STUDY(pbt.resample), SCHEMA_WITHIN(0, 1),
     .default_text = "0.25"},
    {"keep", FIELD_BOOL, STUDY(pbt.keep)},
    {.key = "factors", .type = FIELD_RAW},
};
static const struct schema pbt_schema = {SCHEMA_TABLE(pbt_fields)};

static const struct field method_fields[] = {
    {"asha", FIELD_MAP, .schema = &asha_schema},
    {"pbt", FIELD_MAP, .schema = &pbt_schema},
};
static const struct schema method_schema = {SCHEMA_TABLE(method_fields)};

static const struct field metric_fields[] = {
    {"column", FIELD_TEXT, STUDY(column)},
    {"mode", FIELD_ENUM, STUDY(is_max), SCHEMA_NAMES("min", "max"),
     .default_text = "max"},
    {"last", FIELD_I64, STUDY(last), SCHEMA_WITHIN(1, 1000000), .default_text = "1"},
};
static const struct schema metric_schema = {SCHEMA_TABLE(metric_fields)};

static const struct field limits_fields[] = {
    {"cores", FIELD_I64, STUDY(cores), SCHEMA_WITHIN(1, 4096)},
    {"memory", FIELD_BYTES, STUDY(memory_bytes)},
};
static const struct schema limits_schema = {SCHEMA_TABLE(limits_fields)};

static const struct field file_fields[] = {
    {"base", FIELD_TEXT, STUDY(base)},
    {.key = "search", .type = FIELD_RAW},
    {.key = "method", .type = FIELD_RAW},
    {"metric", FIELD_MAP, .schema = &metric_schema},
    {"trials", FIELD_I64, STUDY(trials), SCHEMA_WITHIN(1, STUDY_MAX_TRIALS)},
    {.key = "seeds", .type = FIELD_RAW},
    {"seed", FIELD_I64, STUDY(seed), SCHEMA_FROM(0)},
    {"limits", FIELD_MAP, .schema = &limits_schema},
};
static const struct schema file_schema = {SCHEMA_TABLE(file_fields)};

/* ---- reading values ---- */

struct reading {
    struct study *s;
    struct err *err;
};

static int is_real(const struct yaml_node *n, double *ret)
{
    static const struct field any = {
        .type = FIELD_F64, .min = -HUGE_VAL, .max = HUGE_VAL};

    return schema_read_node(&any, n, "", ret, NULL, NULL) == 0;
}

static int is_whole(const struct yaml_node *n, int64_t low, int64_t *ret)
{
    const struct field from_low = {.type = FIELD_I64, SCHEMA_FROM((double)low)};

    return schema_read_node(&from_low, n, "", ret, NULL, NULL) == 0;
}

/* ---- search ---- */

/* As numbers 0.9 and 0.90 are the same. */
static int is_same_value(const struct yaml_node *a, const char *text_a,
                         const struct yaml_node *b, const char *text_b)
{
    double x, y;

    return strcmp(text_a, text_b) == 0 || (is_real(a, &x) && is_real(b, &y) && x == y);
}

static int take_choices(const struct reading *r, const struct yaml_node *list,
                        struct study_key *k)
{
    if (list->n == 0 || list->n > STUDY_MAX_TRIALS)
        return yaml_fail(list, k->path, r->err, "expected 1 to %d values",
                         STUDY_MAX_TRIALS);
    k->values = STUDY_CHOICE;
    k->n = list->n;
    k->choice = ARENA_ARRAY(&r->s->arena, const char *, list->n);
    for (size_t i = 0; i < list->n; i++) {
        k->choice[i] = yaml_tree_text(list->child[i], &r->s->arena);
        for (size_t j = 0; j < i; j++)
            if (is_same_value(list->child[i], k->choice[i], list->child[j], k->choice[j]))
                return yaml_fail(list->child[i], k->path, r->err, "%s is given twice",
                                 k->choice[i]);
    }
    return 0;
}

static int take_range(const struct reading *r, const struct yaml_node *n,
                      struct study_key *k)
{
    const int is_int = strcmp(n->key, "int") == 0,
              is_log = strcmp(n->key, "log_uniform") == 0;

    k->values = is_int ? STUDY_INT : is_log ? STUDY_LOG_UNIFORM : STUDY_UNIFORM;
    if (n->kind != YAML_LIST || n->n != 2 || !is_real(n->child[0], &k->low) ||
        !is_real(n->child[1], &k->high))
        return yaml_fail(n, k->path, r->err, "expected [LOW, HIGH], two numbers");
    if (k->low >= k->high)
        return yaml_fail(n, k->path, r->err,
                         k->low > k->high
                             ? "the lower end comes first: %s: [%s, %s]"
                             : "%s: [%s, %s] is one value, expected [LOW, HIGH]",
                         n->key, yaml_tree_text(n->child[1], &r->s->arena),
                         yaml_tree_text(n->child[0], &r->s->arena));
    if (is_int && (k->low != floor(k->low) || k->high != floor(k->high) ||
                   fabs(k->low) > 1e15 || fabs(k->high) > 1e15))
        return yaml_fail(n, k->path, r->err, "expected two whole numbers");
    if (is_log && k->low <= 0)
        return yaml_fail(n, k->path, r->err, "expected two numbers above 0");
    return 0;
}

/* Whether one of the first n_keys keys sets that path. */
static int is_taken(const struct study *s, size_t n_keys, const char *path)
{
    struct arena arena = ARENA_ZERO;
    int is = 0;

    for (size_t i = 0; !is && i < n_keys; i++) {
        char *rest, *paths = arena_strdup(&arena, s->key[i].path);

        for (char *p = strtok_r(paths, PATH_ENDS, &rest); p != NULL && !is;
             p = strtok_r(NULL, PATH_ENDS, &rest))
            is = strcmp(p, path) == 0;
    }
    arena_done(&arena);
    return is;
}

/* Refuses values of the base that no trial would have: a searched key, or one below it, and the
 * seed. */
static int check_sets(const struct reading *r)
{
    const struct study *s = r->s;
    struct arena arena = ARENA_ZERO;
    int rc = 0;

    for (size_t i = 0; rc == 0 && i < s->n_sets; i++) {
        char *path = arena_strndup(&arena, s->sets[i], strcspn(s->sets[i], "="));

        if (strcmp(path, "run.seed") == 0)
            rc = err_set(r->err, ERR_CONFIG,
                         "--set %s: the seeds of a study are given by `seeds: [1, 2]`",
                         s->sets[i]);
        for (char *end = path + strlen(path); rc == 0 && end != NULL;
             end = strrchr(path, '.')) {
            *end = '\0';
            if (is_taken(s, s->n_keys, path))
                rc = err_set(r->err, ERR_CONFIG,
                             "--set %s: the study searches %s: change it in %s",
                             s->sets[i], path, s->file);
        }
    }
    arena_done(&arena);
    return rc;
}

/* Checks the paths of the last key: "a, b" sets both. */
static int check_paths(const struct reading *r, const struct yaml_node *n)
{
    struct study *s = r->s;
    char *rest, *paths = arena_strdup(&s->arena, n->key);
    size_t n_paths = 0;

    for (char *p = strtok_r(paths, PATH_ENDS, &rest); p != NULL;
         p = strtok_r(NULL, PATH_ENDS, &rest), n_paths++) {
        if (strcmp(p, "run.seed") == 0)
            return yaml_fail(n, n->key, r->err,
                             "the seeds of a study are given by `seeds: [1, 2]`");
        if (is_taken(s, s->n_keys - 1, p))
            return yaml_fail(n, n->key, r->err, "another key sets %s, too", p);
        if (s->n_paths++ == STUDY_MAX_SETS)
            return yaml_fail(n, "search", r->err,
                             "at most %d paths, of all keys together", STUDY_MAX_SETS);
    }
    return n_paths > 0 ? 0
                       : yaml_fail(n, "search", r->err,
                                   "found '%s', expected the path of a key", n->key);
}

static int take_key(const struct reading *r, const struct yaml_node *n)
{
    static const char *const kinds[] = {"choice", "uniform", "log_uniform", "int", NULL};
    struct study_key *k = &r->s->key[r->s->n_keys++];
    const struct yaml_node *of = n->kind == YAML_MAP && n->n == 1 ? n->child[0] : NULL;
    int kind, rc;

    k->path = arena_strdup(&r->s->arena, n->key);
    k->line = n->line;
    if ((rc = check_paths(r, n)) < 0)
        return rc;
    if (n->kind == YAML_LIST)
        return take_choices(r, n, k);
    kind = of != NULL ? text_find(kinds, of->key) : -1;
    if (kind < 0)
        return yaml_fail(n, n->key, r->err,
                         "expected a list of values, {choice: [...]}, {uniform: [LOW, "
                         "HIGH]}, {log_uniform: ...} or {int: ...}");
    if (kind > 0)
        return take_range(r, of, k);
    return of->kind == YAML_LIST ? take_choices(r, of, k)
                                 : yaml_fail(of, k->path, r->err, "expected a list");
}

static int take_search(const struct reading *r, const struct yaml_node *root)
{
    const struct yaml_node *map = yaml_find(root, "search");

    if (map == NULL || map->kind != YAML_MAP || map->n == 0)
        return yaml_fail(map != NULL ? map : root, "search", r->err,
                         "expected the keys to search and their values");
    if (map->n > STUDY_MAX_KEYS)
        return yaml_fail(map, "search", r->err, "at most %d keys", STUDY_MAX_KEYS);
    for (size_t i = 0; i < map->n; i++) {
        const int rc = take_key(r, map->child[i]);

        if (rc < 0)
            return rc;
    }
    return 0;
}

/* ---- method ---- */

static int take_rungs(const struct reading *r, const struct yaml_node *list)
{
    struct study *s = r->s;

    if (list->kind != YAML_LIST || list->n < 2 || list->n > STUDY_MAX_RUNGS)
        return yaml_fail(list, "method.asha.rungs", r->err,
                         "expected 2 to %d ascending numbers of environment steps",
                         STUDY_MAX_RUNGS);
    for (size_t i = 0; i < list->n; i++) {
        int64_t v;

        if (!is_whole(list->child[i], 1, &v) || (i > 0 && (uint64_t)v <= s->rungs[i - 1]))
            return yaml_fail(list->child[i], "method.asha.rungs", r->err,
                             "expected ascending numbers of environment steps");
        s->rungs[s->n_rungs++] = (uint64_t)v;
    }
    return 0;
}

static int take_factors(const struct reading *r, const struct yaml_node *n)
{
    double *factor = r->s->pbt.factor;

    factor[0] = 0.8;
    factor[1] = 1.25;
    if (n == NULL ||
        (n->kind == YAML_LIST && n->n == 2 && is_real(n->child[0], &factor[0]) &&
         is_real(n->child[1], &factor[1]) && factor[0] > 0 && factor[0] < 1 &&
         factor[1] > 1))
        return 0;
    return yaml_fail(n, "method.pbt.factors", r->err,
                     "expected [DOWN, UP], a number below 1 and one above 1");
}

static int take_method(const struct reading *r, const struct yaml_node *root)
{
    static const char *const plain[] = {"grid", "random", NULL};
    const struct yaml_node *n = yaml_find(root, "method");
    int rc;

    if (n == NULL)
        return 0;
    if (n->kind == YAML_SCALAR && text_find(plain, n->text) >= 0) {
        r->s->method = text_find(plain, n->text) == 0 ? STUDY_GRID : STUDY_RANDOM;
        return 0;
    }
    if (n->kind != YAML_MAP || n->n != 1)
        return yaml_fail(n, "method", r->err,
                         "expected grid, random, {asha: {rungs: [...]}} or {pbt: {...}}");
    rc = schema_read(&method_schema, n, "method", r->s, &r->s->arena, r->err);
    if (rc < 0)
        return rc;
    n = n->child[0];
    r->s->method = strcmp(n->key, "pbt") == 0 ? STUDY_PBT : STUDY_ASHA;
    if (r->s->method == STUDY_ASHA)
        return yaml_find(n, "rungs") != NULL
                   ? take_rungs(r, yaml_find(n, "rungs"))
                   : yaml_fail(
                         n, "method.asha.rungs", r->err,
                         "expected the environment steps at which trials are compared");
    for (size_t i = 0; i < 3; i++) /* these have no defaults */
        if (yaml_find(n, pbt_fields[i].key) == NULL)
            return yaml_fail(n, "method.pbt", r->err, "expected `%s`", pbt_fields[i].key);
    return take_factors(r, yaml_find(n, "factors"));
}

/* The number of combinations of choices; 0: a key has other values than choices, or there
 * are more than STUDY_MAX_TRIALS. */
static size_t grid_size(const struct study *s)
{
    size_t n = 1;

    for (size_t i = 0; i < s->n_keys; i++) {
        if (s->key[i].values != STUDY_CHOICE || s->key[i].n > STUDY_MAX_TRIALS / n)
            return 0;
        n *= s->key[i].n;
    }
    return n;
}

static int take_trials(const struct reading *r, const struct yaml_node *root)
{
    const struct yaml_node *n = yaml_find(root, "trials");
    struct study *s = r->s;

    if (n != NULL && s->method == STUDY_GRID)
        return yaml_fail(n, "trials", r->err, "a grid has its own number of trials");
    if (n != NULL && s->method == STUDY_PBT)
        return yaml_fail(n, "trials", r->err, "pbt has a trial for each of `population`");
    if (s->method == STUDY_PBT)
        return 0;
    if (n == NULL && s->method == STUDY_RANDOM)
        return yaml_fail(root, "trials", r->err, "expected the number of random trials");
    s->is_grid = n == NULL;
    if (s->is_grid)
        s->trials = grid_size(s);
    if (s->trials > 0)
        return 0;
    for (size_t i = 0; i < s->n_keys; i++)
        if (s->key[i].values != STUDY_CHOICE)
            return err_set_at(
                r->err, ERR_CONFIG,
                ERR_AT(.file = s->file, .line = s->key[i].line, .key = s->key[i].path),
                "a grid needs a list of values; method: random draws from a "
                "range");
    return yaml_fail(root, "search", r->err, "the grid has more than %d points",
                     STUDY_MAX_TRIALS);
}

/* ---- the rest ---- */

static int take_seeds(const struct reading *r, const struct yaml_node *root)
{
    const struct yaml_node *list = yaml_find(root, "seeds");
    struct study *s = r->s;

    s->n_seeds = 1;
    s->seeds[0] = 1;
    if (list == NULL)
        return 0;
    if (list->kind != YAML_LIST || list->n == 0 || list->n > STUDY_MAX_SEEDS)
        return yaml_fail(list, "seeds", r->err, "expected a list of 1 to %d seeds",
                         STUDY_MAX_SEEDS);
    for (s->n_seeds = 0; s->n_seeds < list->n; s->n_seeds++) {
        int64_t v;

        if (!is_whole(list->child[s->n_seeds], 0, &v))
            return yaml_fail(list->child[s->n_seeds], "seeds", r->err,
                             "expected a whole number");
        s->seeds[s->n_seeds] = (uint64_t)v;
        for (size_t i = 0; i < s->n_seeds; i++)
            if (s->seeds[i] == (uint64_t)v)
                return yaml_fail(list->child[s->n_seeds], "seeds", r->err,
                                 "seed %" PRId64 " is given twice", v);
    }
    return 0;
}

/* Makes the base's path one from here. */
static int take_base(const struct reading *r, const struct yaml_node *root)
{
    const struct yaml_node *n = yaml_find(root, "base");
    const char *slash = strrchr(r->s->file, '/');
    struct study *s = r->s;
    struct err why = {0};

    if (s->base == NULL)
        return yaml_fail(n != NULL ? n : root, "base", r->err,
                         "expected the path of a configuration");
    if (s->base[0] != '/' && slash != NULL)
        s->base =
            arena_printf(&s->arena, "%.*s/%s", (int)(slash - s->file), s->file, s->base);
    if (run_config_merged(s->base, s->sets, s->n_sets, &s->base_text, &s->arena, &why) <
        0)
        return yaml_fail_since(n, "base", r->err, &why);
    return 0;
}

static int study_take(const struct reading *r, const struct yaml_node *root)
{
    struct study *s = r->s;
    int rc;

    schema_defaults(&file_schema, s, &s->arena);
    schema_defaults(&method_schema, s, &s->arena);
    rc = schema_read(&file_schema, root, "", s, &s->arena, r->err);
    if (rc == 0)
        rc = take_search(r, root);
    if (rc == 0)
        rc = take_method(r, root);
    if (rc == 0)
        rc = take_trials(r, root);
    if (rc == 0)
        rc = take_seeds(r, root);
    if (rc == 0)
        rc = check_sets(r);
    return rc < 0 ? rc : take_base(r, root);
}

int study_read(struct study *ret, const char *path, const char *const *sets,
               size_t n_sets, struct err *err)
{
    struct arena tree = ARENA_ZERO;
    struct wbuf text = {0};
    struct yaml_node *root;
    int rc;

    *ret = (struct study){.sets = sets, .n_sets = n_sets};
    ret->file = arena_strdup(&ret->arena, path);
    rc = wbuf_read_file(&text, path, YAML_MAX_BYTES, err);
    if (rc == 0)
        rc = yaml_tree_parse(&root, &tree, (const char *)text.data, text.len, ret->file,
                             1, err);
    if (rc == 0 && yaml_find(root, "env") != NULL)
        rc = yaml_fail(yaml_find(root, "env"), "env", err,
                       "this is a configuration, `brood run` starts it; a study's file "
                       "names one, base: %s",
                       text_base_name(path));
    if (rc == 0)
        rc = study_take(&(struct reading){ret, err}, root);
    wbuf_done(&text);
    arena_done(&tree);
    if (rc < 0)
        study_done(ret);
    return rc;
}

void study_done(struct study *s)
{
    rungs_done(&s->passed);
    arena_done(&s->arena);
    *s = (struct study){0};
}

/* ---- comparing ---- */

static int same_text(const char *a, const char *b)
{
    return a == b || (a != NULL && b != NULL && strcmp(a, b) == 0);
}

static int same_key(const struct study_key *a, const struct study_key *b)
{
    if (strcmp(a->path, b->path) != 0 || a->values != b->values || a->n != b->n ||
        a->low != b->low || a->high != b->high)
        return 0;
    for (size_t i = 0; i < a->n; i++)
        if (strcmp(a->choice[i], b->choice[i]) != 0)
            return 0;
    return 1;
}

static int same_search(const struct study *a, const struct study *b)
{
    if (a->n_keys != b->n_keys || a->seed != b->seed || a->is_grid != b->is_grid)
        return 0;
    for (size_t i = 0; i < a->n_keys; i++)
        if (!same_key(&a->key[i], &b->key[i]))
            return 0;
    return 1;
}

static int same_method(const struct study *a, const struct study *b)
{
    return a->method == b->method && a->n_rungs == b->n_rungs && a->keep == b->keep &&
           memcmp(a->rungs, b->rungs, a->n_rungs * sizeof(a->rungs[0])) == 0 &&
           a->pbt.interval == b->pbt.interval && a->pbt.quantile == b->pbt.quantile &&
           a->pbt.resample == b->pbt.resample && a->pbt.factor[0] == b->pbt.factor[0] &&
           a->pbt.factor[1] == b->pbt.factor[1];
}

static int has_seeds_of(const struct study *a, const struct study *b)
{
    return a->n_seeds >= b->n_seeds &&
           memcmp(a->seeds, b->seeds, b->n_seeds * sizeof(b->seeds[0])) == 0;
}

/* Adding a member or a seed would change earlier rounds' choices. */
static int has_population_of(const struct study *a, const struct study *b)
{
    return a->method != STUDY_PBT ||
           (a->trials == b->trials && a->pbt.rounds >= b->pbt.rounds &&
            a->n_seeds == b->n_seeds);
}

/* By another metric, asha and pbt would have made other choices. */
static int has_metric_of(const struct study *a, const struct study *b)
{
    return a->method == STUDY_GRID || a->method == STUDY_RANDOM ||
           (a->is_max == b->is_max && a->last == b->last &&
            same_text(a->column, b->column));
}

int study_check_same(const struct study *was, const struct study *is, struct err *err)
{
    const char *what = !same_text(was->base_text, is->base_text) ? "base"
                       : !same_search(was, is)                   ? "search"
                       : !same_method(was, is)                   ? "method"
                       : !has_metric_of(is, was)                 ? "metric"
                       : is->trials < was->trials                ? "trials"
                       : !has_seeds_of(is, was)                  ? "seeds"
                       : !has_population_of(is, was)             ? "method"
                                                                 : NULL;

    if (what == NULL)
        return 0;
    return err_set(err, ERR_CONFIG,
                   "%s: `%s` is not what the study began with (%s); %s may be added, "
                   "anything else needs another --name",
                   is->file, what, was->file,
                   was->method == STUDY_PBT ? "rounds" : "trials and seeds");
}

const char *study_key_short_name(const struct study_key *k)
{
    const char *dot = strrchr(k->path, '.');

    return dot != NULL ? dot + 1 : k->path;
}

/* ---- rungs ---- */

size_t study_n_rungs(const struct study *s)
{
    return s->method == STUDY_ASHA ? s->n_rungs : 1;
}

uint64_t study_rung_until(const struct study *s, size_t rung)
{
    return s->method == STUDY_ASHA ? s->rungs[rung] : 0;
}

/* ---- trials ---- */

/* Which choice of a key a point of the grid has: the last key changes fastest. */
static size_t grid_choice(const struct study *s, size_t trial, size_t key)
{
    for (size_t i = s->n_keys - 1; i > key; i--)
        trial /= s->key[i].n;
    return trial % s->key[key].n;
}

const char *study_value_at(const struct study_key *k, double u, struct arena *arena)
{
    switch (k->values) {
    case STUDY_CHOICE:
        return k->choice[(size_t)(u * (double)k->n)];
    case STUDY_INT:
        return arena_printf(arena, "%.0f", floor(k->low + u * (k->high - k->low + 1)));
    case STUDY_LOG_UNIFORM:
        u = exp(log(k->low) + u * (log(k->high) - log(k->low)));
        break;
    default:
        u = k->low + u * (k->high - k->low);
    }
    return arena_printf(arena, "%.6g", u);
}

const char *study_value(const struct study *s, size_t trial, size_t key,
                        struct arena *arena)
{
    const struct study_key *k = &s->key[key];
    double u;

    if (k->values == STUDY_CHOICE && s->is_grid)
        return k->choice[grid_choice(s, trial, key)];
    rng_uniform_f64(rng_key_make(s->seed, k->path, "study"), trial, 0, &u, 1);
    return study_value_at(k, u, arena);
}

size_t study_sets_of(const struct study *s, const char *const *values, const char **ret,
                     struct arena *arena)
{
    size_t n = 0;

    for (size_t i = 0; i < s->n_keys; i++) {
        char *rest, *paths = arena_strdup(arena, s->key[i].path);

        for (char *p = strtok_r(paths, PATH_ENDS, &rest); p != NULL;
             p = strtok_r(NULL, PATH_ENDS, &rest))
            ret[n++] = arena_printf(arena, "%s=%s", p, values[i]);
    }
    return n;
}

size_t study_sets(const struct study *s, size_t trial, const char **ret,
                  struct arena *arena)
{
    const char *values[STUDY_MAX_KEYS];

    for (size_t i = 0; i < s->n_keys; i++)
        values[i] = study_value(s, trial, i, arena);
    return study_sets_of(s, values, ret, arena);
}
