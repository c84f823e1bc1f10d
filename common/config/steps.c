/* Values of a configuration that change at given steps: {at: {0: 0.9, 100000: 0.99}}. */
#include "common/config/changes.h"
#include "common/config/loader.h"
#include "common/config/schema_internal.h"
#include "common/err/check.h"
#include "common/mem/xmalloc.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ---- taking them out of the tree ---- */

static int is_whole(const char *text, uint64_t *ret)
{
    char *end;

    errno = 0;
    *ret = strtoull(text, &end, 10);
    return *text >= '0' && *text <= '9' && *end == '\0' && errno == 0 &&
           *ret <= (uint64_t)1 << 53;
}

static const struct yaml_node *steps_of(const struct yaml_node *n)
{
    return n->kind == YAML_MAP && n->n == 1 && strcmp(n->child[0]->key, "at") == 0
               ? n->child[0]
               : NULL;
}

/* "path=value" */
static const char *assignment(const char *path, const struct yaml_node *value,
                              struct arena *arena)
{
    char *text = NULL;
    const char *copy;
    size_t len = 0;
    FILE *f = open_memstream(&text, &len);

    CHECK(f != NULL, "no memory");
    (void)fprintf(f, "%s=", path);
    yaml_tree_write(value, f);
    CHECK(fclose(f) == 0, "no memory");
    copy = arena_strdup(arena, text);
    free(text);
    return copy;
}

struct taken {
    struct config_step *list; /* malloc'd, sorted by their steps */
    size_t n;
    struct arena *tree;
    struct err *err;
};

static void insert(struct taken *x, const struct config_step *step)
{
    size_t i = x->n++;

    x->list = xreallocarray(x->list, x->n, sizeof(*x->list));
    for (; i > 0 && x->list[i - 1].at > step->at; i--)
        x->list[i] = x->list[i - 1];
    x->list[i] = *step;
}

/* The first value takes the place of the map. */
static int take_steps(struct taken *x, struct yaml_node *n, const char *path)
{
    const struct yaml_node *steps = steps_of(n);
    const struct yaml_node *first = steps->n > 0 ? steps->child[0] : NULL;
    uint64_t before = 0, at;

    for (size_t i = 0; steps->kind == YAML_MAP && i < steps->n; i++) {
        const struct yaml_node *value = steps->child[i];

        if (!is_whole(value->key, &at) || (i == 0) != (at == 0) ||
            (i > 0 && at <= before))
            return yaml_fail(value, path, x->err,
                             "found step '%.40s', expected {at: {0: VALUE, STEP: VALUE, "
                             "...}} with growing steps",
                             value->key);
        before = at;
        if (i > 0)
            insert(x, &(struct config_step){at, assignment(path, value, x->tree), value});
    }
    if (steps->kind != YAML_MAP || steps->n == 0)
        return yaml_fail(steps, path, x->err,
                         "expected {at: {0: VALUE, STEP: VALUE, ...}}");
    *n = (struct yaml_node){.kind = first->kind,
                            .place = first->place,
                            .line = first->line,
                            .key = n->key,
                            .text = first->text,
                            .quoted = first->quoted,
                            .n = first->n,
                            .child = first->child};
    return 0;
}

static int visit(struct taken *x, struct yaml_node *map, const char *path)
{
    int rc = 0;

    for (size_t i = 0; rc == 0 && map->kind == YAML_MAP && i < map->n; i++) {
        struct yaml_node *n = map->child[i];
        char *child = xasprintf("%s%s%s", path, *path != '\0' ? "." : "", n->key);

        /* An environment's parameters are its own matter. */
        if (strcmp(child, "env") != 0)
            rc = steps_of(n) != NULL ? take_steps(x, n, child) : visit(x, n, child);
        free(child);
    }
    return rc;
}

int loader_take_steps(struct yaml_node *root, struct arena *tree,
                      struct config_step **ret, size_t *ret_n, struct err *err)
{
    struct taken x = {.tree = tree, .err = err};
    const int rc = visit(&x, root, "");

    *ret = x.list;
    *ret_n = x.n;
    return rc;
}

/* ---- what they make of a configuration ---- */

int run_config_step(struct run_config *c, const struct config_step *steps, size_t n,
                    size_t *i, struct config_settings *ret, struct err *err)
{
    const uint64_t at = steps[*i].at;
    const char *set[RUN_CONFIG_MAX_STEPS];
    struct run_config next;
    size_t n_set = 0;
    int rc;

    for (; *i < n && steps[*i].at == at && n_set < RUN_CONFIG_MAX_STEPS; (*i)++)
        set[n_set++] = steps[*i].set;
    rc = run_config_assign(&next, c, set, n_set, err);
    if (rc < 0)
        return rc;
    run_config_differences(ret, c, &next, 1u << CHANGE_LIVE | 1u << CHANGE_SETTING);
    run_config_done(c);
    *c = next;
    return 0;
}

struct fixed {
    const char *path; /* of the first change that no live run can make; NULL: none */
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

/* The first of n values of one step that is refused by itself; the last one if none is. */
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

/* The first of n values of one step, of which one at least is of a key that cannot change. */
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

/* Applies n values of one step together, as the run does: keys may be consistent only with each
 * other. */
static int check_step(struct run_config *now, const struct config_step *steps, size_t n,
                      struct err *err)
{
    const char *set[RUN_CONFIG_MAX_STEPS];
    struct fixed fixed = {0};
    struct run_config next;
    struct err why = {0};
    int rc;

    for (size_t i = 0; i < n; i++)
        set[i] = steps[i].set;
    rc = run_config_assign(&next, now, set, n, &why);
    if (rc < 0) {
        const struct config_step *wrong = find_wrong(now, steps, n, &why);

        return yaml_fail(wrong->node, why.key, err, "%s", err_cause(&why));
    }
    run_config_compare(now, &next, find_fixed, &fixed);
    if (fixed.path != NULL)
        rc = fail_fixed(now, steps, n, &fixed, err);
    else if (run_config_check_lengths(&next, &why) < 0)
        rc = yaml_fail(steps[n - 1].node, "", err, "at step %" PRIu64 ": %s", steps[0].at,
                       why.msg);
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

int loader_keep_steps(struct run_config *c, const struct config_step *steps, size_t n,
                      struct err *err)
{
    struct config_step *kept;
    int rc;

    if (n == 0)
        return 0;
    if (n > RUN_CONFIG_MAX_STEPS)
        return yaml_fail(steps[n - 1].node, "", err, "more than %d values at steps",
                         RUN_CONFIG_MAX_STEPS);
    rc = check(c, steps, n, err);
    if (rc < 0)
        return rc;
    kept = ARENA_ARRAY(&c->arena, struct config_step, n);
    for (size_t i = 0; i < n; i++)
        kept[i] = (struct config_step){steps[i].at, arena_strdup(&c->arena, steps[i].set),
                                       NULL};
    c->steps = kept;
    c->n_steps = n;
    return 0;
}
