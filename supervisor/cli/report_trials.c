#include "supervisor/cli/report_trials.h"

#include "common/config/yaml_tree.h"
#include "common/mem/xmalloc.h"
#include "common/text/scan.h"
#include "supervisor/facts/files.h"
#include "supervisor/facts/record.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ---- reading ---- */

static const char *environment_of(const struct env_config *e)
{
    if (e->plugin != NULL)
        return text_base_name(e->plugin);
    if (e->command != NULL && e->command->n > 0 &&
        e->command->child[e->command->n - 1]->text != NULL)
        return text_base_name(e->command->child[e->command->n - 1]->text);
    return e->id;
}

static const char *text_of(const struct yaml_node *n, struct arena *arena)
{
    return n != NULL ? yaml_tree_text(n, arena) : "";
}

static int read_trial(struct trial *t, const char *path, const char *metric,
                      struct arena *arena, struct err *err)
{
    char *column = metric != NULL ? xstrdup(metric) : NULL;
    struct run_config c;
    int rc = report_series_read(&t->series, path, &column, err);

    if (rc == 0)
        rc = files_read_config(&c, path, err);
    if (rc == 0) {
        t->path = path;
        t->metric = arena_strdup(arena, column);
        t->task = arena_strdup(arena, environment_of(&c.env));
        t->command = text_of(c.env.command, arena);
        t->params = text_of(c.env.params, arena);
        t->algorithm = arena_strdup(arena, run_algorithm_names(&c, "+", arena));
        t->seed = c.run.seed;
        run_config_done(&c);
    }
    free(column);
    return rc;
}

/* Reads the runs that can be used. *first: why the first of the others cannot. */
static void read_all(struct trials *t, char *const *paths, size_t n, const char *metric,
                     void (*on_left_out)(void *ctx, const struct err *why), void *ctx,
                     struct err *first)
{
    for (size_t i = 0; i < n; i++) {
        struct trial one = {0};
        struct err why = {0};

        if (read_trial(&one, paths[i], metric, &t->arena, &why) == 0) {
            t->list[t->n++] = one;
            continue;
        }
        report_series_done(&one.series);
        if (on_left_out != NULL && n > 1)
            on_left_out(ctx, &why);
        if (first->code == 0)
            *first = why;
    }
}

/* The environment's name with what differs between the runs of that name. */
static const char *task_name(struct trials *t, const struct trial *of)
{
    int commands = 0, params = 0;

    for (size_t i = 0; i < t->n; i++) {
        if (strcmp(t->list[i].task, of->task) != 0)
            continue;
        commands |= strcmp(t->list[i].command, of->command) != 0;
        params |= strcmp(t->list[i].params, of->params) != 0;
    }
    commands &= *of->command != '\0';
    params &= *of->params != '\0';
    return arena_printf(&t->arena, "%s%s%s%s%s", of->task, commands ? " " : "",
                        commands ? of->command : "", params ? " " : "",
                        params ? of->params : "");
}

static void name_tasks(struct trials *t)
{
    const char **name = xcalloc(t->n, sizeof(*name));

    for (size_t i = 0; i < t->n; i++)
        name[i] = task_name(t, &t->list[i]);
    for (size_t i = 0; i < t->n; i++)
        t->list[i].task = name[i];
    free(name);
}

static int compare_trials(const void *a, const void *b)
{
    const struct trial *x = a, *y = b;
    const int task = strcmp(x->task, y->task);
    const int algorithm = strcmp(x->algorithm, y->algorithm);

    return task != 0        ? task
           : algorithm != 0 ? algorithm
                            : (x->seed > y->seed) - (x->seed < y->seed);
}

static int check_neighbours(const struct trial *a, const struct trial *b, struct err *err)
{
    if (compare_trials(a, b) == 0)
        return err_set(err, ERR_ARG, "%s and %s both have seed %" PRIu64 " of %s in %s",
                       a->path, b->path, a->seed, a->algorithm, a->task);
    if (strcmp(a->task, b->task) == 0 && strcmp(a->metric, b->metric) != 0)
        return err_set(err, ERR_ARG,
                       "in %s, %s has %s, but %s has %s: choose one with --metric",
                       a->task, a->path, a->metric, b->path, b->metric);
    return 0;
}

int report_trials_read(struct trials *ret, char *const *paths, size_t n,
                       const char *metric,
                       void (*on_left_out)(void *ctx, const struct err *why), void *ctx,
                       struct err *err)
{
    struct err first = {0};
    int rc = 0;

    *ret = (struct trials){.list = xcalloc(n, sizeof(*ret->list)), .arena = ARENA_ZERO};
    read_all(ret, paths, n, metric, on_left_out, ctx, &first);
    if (ret->n == 0)
        rc = err_pass(err, &first);
    name_tasks(ret);
    qsort(ret->list, ret->n, sizeof(*ret->list), compare_trials);
    for (size_t i = 1; i < ret->n && rc == 0; i++)
        rc = check_neighbours(&ret->list[i - 1], &ret->list[i], err);
    if (rc < 0)
        report_trials_done(ret);
    return rc;
}

void report_trials_done(struct trials *t)
{
    for (size_t i = 0; i < t->n; i++)
        report_series_done(&t->list[i].series);
    free(t->list);
    arena_done(&t->arena);
    *t = (struct trials){0};
}

/* ---- for the statistics package marl-eval ---- */

static void put_numbers(struct json *j, const char *key, const double *v)
{
    json_put_array(j, key);
    json_f64(j, *v);
    json_close(j);
}

static void put_trial(const struct trial *t, struct json *j)
{
    const double last = report_series_final(&t->series);
    char name[32];

    (void)snprintf(name, sizeof(name), "seed_%" PRIu64, t->seed);
    json_put_object(j, name);
    for (size_t i = 0; i < t->series.n; i++) {
        (void)snprintf(name, sizeof(name), "step_%zu", i);
        json_put_object(j, name);
        json_put_u64(j, "step_count", (uint64_t)t->series.steps[i]);
        put_numbers(j, "return", &t->series.value[i]);
        json_close(j);
    }
    json_put_object(j, "absolute_metrics");
    put_numbers(j, "return", &last);
    json_close(j);
    json_close(j);
}

void report_trials_put_marl_eval(const struct trials *trials, struct json *j)
{
    const struct trial *t = trials->list;

    json_object(j);
    json_put_object(j, "brood");
    for (size_t i = 0; i < trials->n; i++) {
        const int same_task = i > 0 && strcmp(t[i].task, t[i - 1].task) == 0;
        const int same = same_task && strcmp(t[i].algorithm, t[i - 1].algorithm) == 0;

        for (int level = same + same_task; i > 0 && level < 2; level++)
            json_close(j);
        if (!same_task)
            json_put_object(j, t[i].task);
        if (!same)
            json_put_object(j, t[i].algorithm);
        put_trial(&t[i], j);
    }
    for (int level = 0; level < 4; level++)
        json_close(j);
}
