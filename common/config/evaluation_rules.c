#include "common/config/evaluation_rules.h"

#include "common/config/schema.h"
#include "common/text/scan.h"

#include <stdarg.h>

#define STOP_WHEN "run.stop_when"
#define KEEP_BEST "checkpoint.keep_best"

void evaluation_rules_expand(struct yaml_node *root, struct arena *tree)
{
    struct yaml_node *section = yaml_find(root, "checkpoint");
    const struct yaml_node *metric = yaml_find(section, "keep_best");
    struct yaml_node *map;

    if (metric == NULL || metric->kind != YAML_SCALAR || yaml_is_null(metric) ||
        yaml_is_word(metric, "none", "none", "none"))
        return;
    map = yaml_as(&(struct yaml_node){.kind = YAML_MAP,
                                      .place = metric->place,
                                      .line = metric->line},
                  "keep_best", tree);
    yaml_add(map, yaml_as(metric, "metric", tree), tree);
    yaml_remove(section, metric);
    yaml_add(section, map, tree);
}

/* Fails at the rule or, if the file does not give it, at its beginning. */
static int fail(const struct yaml_node *root, const char *path, struct err *err,
                const char *fmt, ...) __attribute__((format(printf, 4, 5)));
static int fail(const struct yaml_node *root, const char *path, struct err *err,
                const char *fmt, ...)
{
    const struct yaml_node *at = yaml_find_path(root, path);
    va_list ap;

    va_start(ap, fmt);
    (void)yaml_vfail(at != NULL ? at : root, path, err, fmt, ap);
    va_end(ap);
    return ERR_CONFIG;
}

static int check_metric(const char *metric, const struct yaml_node *root,
                        const char *path, struct err *err)
{
    if (metric == NULL)
        return fail(root, path, err,
                    "metric is not given, expected a column of evaluations, such as "
                    "eval/team_return/agent");
    if (text_after(metric, "eval/") == NULL)
        return fail(root, path, err,
                    "found '%.100s', expected a column of evaluations, eval/...", metric);
    return 0;
}

static int check_stop_when(const struct stop_when_config *s, const struct yaml_node *root,
                           struct err *err)
{
    const int n = !field_is_unset(s->above) + !field_is_unset(s->below);
    const int rc = check_metric(s->metric, root, STOP_WHEN, err);

    if (rc < 0)
        return rc;
    if (n + (s->without_best > 0) != 1)
        return fail(root, STOP_WHEN, err,
                    "expected one of above: NUMBER, below: NUMBER and "
                    "without_improvement: EVALUATIONS");
    if (s->without_best > 0 && s->evaluations != 1)
        return fail(root, STOP_WHEN, err, "for is for above and below, expected none");
    if (s->without_best == 0 && s->is_min)
        return fail(root, STOP_WHEN, err,
                    "mode is for without_improvement, expected none");
    return 0;
}

int evaluation_rules_check(const struct run_config *c, const struct yaml_node *root,
                           struct err *err)
{
    int rc = c->run.has_stop_when ? check_stop_when(&c->run.stop_when, root, err) : 0;

    if (rc == 0 && c->checkpoint.has_keep_best)
        rc = check_metric(c->checkpoint.keep_best.metric, root, KEEP_BEST, err);
    return rc;
}

static const char *copy_text(struct arena *arena, const char *text)
{
    return text != NULL ? arena_strdup(arena, text) : NULL;
}

void evaluation_rules_take(struct run_config *c, const struct run_config *from)
{
    struct stop_when_config *s = &c->run.stop_when;
    struct keep_best_config *k = &c->checkpoint.keep_best;

    c->run.has_stop_when = from->run.has_stop_when;
    *s = from->run.stop_when;
    s->metric = copy_text(&c->arena, s->metric);
    c->checkpoint.has_keep_best = from->checkpoint.has_keep_best;
    *k = from->checkpoint.keep_best;
    k->metric = copy_text(&c->arena, k->metric);
}

int evaluation_rules_each(const struct run_config *c,
                          int (*fn)(void *ctx, const char *metric, const char *path,
                                    struct err *err),
                          void *ctx, struct err *err)
{
    int rc = c->run.has_stop_when ? fn(ctx, c->run.stop_when.metric, STOP_WHEN, err) : 0;

    if (rc == 0 && c->checkpoint.has_keep_best)
        rc = fn(ctx, c->checkpoint.keep_best.metric, KEEP_BEST, err);
    return rc;
}
