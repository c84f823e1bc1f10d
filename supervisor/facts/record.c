#include "supervisor/facts/record.h"

#include "common/config/yaml_tree.h"
#include "common/mem/xmalloc.h"
#include "common/wire/cursor.h"
#include "supervisor/events/run_model.h"
#include "supervisor/facts/defaults.h"
#include "supervisor/facts/files.h"
#include "supervisor/rundir/journal_read.h"
#include "supervisor/rundir/run_dir.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- the journal ---- */

struct events {
    char *first[RECORD_FIRST], *newest[RECORD_NEWEST]; /* JSON; the latter is a ring */
    size_t n;                                          /* how many there were */
};

struct history {
    struct run_model model;
    struct events changes, ends;
};

static char *event_text(const struct run_event *e)
{
    struct json j = {0};
    const char *text;
    char *ret;
    size_t len;

    run_event_json(&j, e);
    text = json_line(&j, &len);
    ret = len <= RECORD_EVENT_MAX ? strndup(text, len - 1) : NULL;
    json_done(&j);
    return ret;
}

static void keep(struct events *list, const struct run_event *e)
{
    const size_t i = list->n++;
    char **at = i < RECORD_FIRST ? &list->first[i]
                                 : &list->newest[(i - RECORD_FIRST) % RECORD_NEWEST];
    struct run_event cut = {.kind = RUN_EVENT_MESSAGE,
                            .env_steps = e->env_steps,
                            .message.text = "an event that is too long to be shown here; "
                                            "the run's journal has it"};

    free(*at);
    *at = event_text(e);
    if (*at != NULL)
        return;
    memcpy(cut.time, e->time, sizeof(cut.time));
    *at = event_text(&cut);
}

static int take_event(void *ctx, uint64_t line, const struct run_event *e)
{
    struct history *h = ctx;
    const unsigned readers =
        run_event_fold(&h->model, e) ? run_event_readers(e->kind) : 0;

    if ((readers & RUN_EVENT_CHANGES_RUN) != 0)
        keep(&h->changes, e);
    if ((readers & RUN_EVENT_HAPPENS_TO_RUN) != 0)
        keep(&h->ends, e);
    return 0;
}

/* Takes the texts of the list. */
static void put_events(const char *key, struct events *list, struct json *j)
{
    const size_t first = list->n < RECORD_FIRST ? list->n : RECORD_FIRST;
    const size_t rest = list->n - first;
    const size_t newest = rest < RECORD_NEWEST ? rest : RECORD_NEWEST;

    json_put_object(j, key);
    json_put_u64(j, "n", list->n);
    json_put_array(j, "first");
    for (size_t i = 0; i < first; i++)
        json_raw(j, list->first[i], strlen(list->first[i]));
    json_close(j);
    json_put_array(j, "newest");
    for (size_t i = rest - newest; i < rest; i++) {
        const char *text = list->newest[i % RECORD_NEWEST];

        json_raw(j, text, strlen(text));
    }
    json_close(j);
    json_close(j);
    for (size_t i = 0; i < first; i++)
        free(list->first[i]);
    for (size_t i = 0; i < newest; i++)
        free(list->newest[i]);
}

static void put_history(const char *path, struct json *j)
{
    struct history *h = xcalloc(1, sizeof(*h));
    char *file = xasprintf("%s/journal", path);

    run_model_init(&h->model);
    (void)journal_each_event(file, take_event, h, NULL);
    json_put_str(j, "began", h->model.status.began);
    json_put_f64(j, "seconds", h->model.seconds);
    json_put_f64(j, "open_seconds", run_model_open_seconds(&h->model));
    json_put_u64(j, "starts", h->model.starts);
    json_put_u64(j, "deaths", h->model.deaths);
    json_put_str(j, "failure", h->model.status.failure);
    put_events("changes", &h->changes, j);
    put_events("ends", &h->ends, j);
    run_model_done(&h->model);
    free(file);
    free(h);
}

/* ---- results ---- */

static void put_result(const struct progress *p, size_t column, struct json *j)
{
    double last = (double)NAN, best = (double)NAN;
    double last_step = 0, best_step = 0;

    for (size_t i = 0; i < progress_n_rows(p); i++) {
        const double v = progress_value(p, i, column);

        if (isnan(v))
            continue;
        last = v;
        last_step = progress_steps(p, i);
        if (v <= best)
            continue;
        best = v;
        best_step = last_step;
    }
    if (isnan(last))
        return;
    json_object(j);
    json_put_str(j, "column", progress_name(p, column));
    json_put_f64(j, "last", last);
    json_put_u64(j, "last_step", (uint64_t)last_step);
    json_put_f64(j, "best", best);
    json_put_u64(j, "best_step", (uint64_t)best_step);
    json_close(j);
}

/* Of the returns of all teams: in evaluations or, without any, in training. */
static void put_results(const struct progress *p, struct json *j)
{
    const size_t n = progress_n_columns(p);
    const size_t usual = progress_find_return(p, progress_n_rows(p));
    size_t n_put = 0;

    for (size_t c = 0; usual < n && c < n && n_put < RECORD_RESULTS; c++) {
        const char *name = progress_name(p, usual);
        const size_t stem = (size_t)(strrchr(name, '/') + 1 - name);

        if (strncmp(progress_name(p, c), name, stem) != 0)
            continue;
        put_result(p, c, j);
        n_put++;
    }
}

/* ---- files ---- */

static void put_line(void *ctx, const char *key, const char *value)
{
    json_array(ctx);
    json_str(ctx, key);
    json_str(ctx, value);
    json_close(ctx);
}

static void put_provenance(const char *path, struct json *j)
{
    json_put_array(j, "provenance");
    run_dir_each_provenance(path, put_line, j);
    json_close(j);
}

const char *run_algorithm_names(const struct run_config *c, const char *between,
                                struct arena *arena)
{
    const char *ret = "";

    for (size_t i = 0; i < c->n_agents; i++) {
        const char *name = c->agents[i].algorithm;
        size_t k = 0;

        while (strcmp(c->agents[k].algorithm, name) != 0)
            k++;
        if (k == i)
            ret = arena_printf(arena, "%s%s%s", ret, *ret != '\0' ? between : "", name);
    }
    return ret;
}

void run_setup_put(const struct run_config *c, struct json *j)
{
    struct arena arena = ARENA_ZERO;

    json_put_str(j, "environment", c != NULL ? c->env.id : NULL);
    json_put_str(j, "algorithms",
                 c != NULL ? run_algorithm_names(c, ", ", &arena) : NULL);
    json_put_known(j, "seed", c != NULL, c != NULL ? c->run.seed : 0);
    arena_done(&arena);
}

static void put_config(const char *path, const char *const *keys, size_t n,
                       struct json *j)
{
    struct run_config config;
    struct err why = {0};
    char *file = xasprintf("%s/config.yaml", path);
    struct wbuf text = {0};
    const int is_read = files_read_config(&config, path, &why) == 0;

    run_setup_put(is_read ? &config : NULL, j);
    json_put_known(j, "agents", is_read, is_read ? config.n_agents : 0);
    json_put_object(j, "defaults");
    (void)defaults_put(is_read ? &config : NULL, keys, n, j, &why);
    json_put_str(j, "why", why.code < 0 ? why.msg : NULL);
    json_close(j);
    if (wbuf_read_file(&text, file, YAML_MAX_BYTES, NULL) < 0)
        wbuf_done(&text);
    free(file);
    json_key(j, "text");
    json_strn(j, (const char *)text.data, text.len);
    wbuf_done(&text);
    if (is_read)
        run_config_done(&config);
}

void record_put_all(const char *path, const struct progress *progress,
                    const char *const *keys, size_t n, struct json *j)
{
    json_object(j);
    put_history(path, j);
    json_put_array(j, "results");
    if (progress != NULL)
        put_results(progress, j);
    json_close(j);
    put_config(path, keys, n, j);
    put_provenance(path, j);
    json_close(j);
}

int record_put(const char *path, struct json *j, struct err *err)
{
    record_put_all(path, NULL, NULL, 0, j);
    return 0;
}
