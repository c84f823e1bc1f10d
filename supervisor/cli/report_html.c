#include "supervisor/cli/report_html.h"

#include "common/config/yaml_tree.h"
#include "common/io/beneath.h"
#include "common/mem/xmalloc.h"
#include "common/text/plain_text.h"
#include "common/wire/cursor.h"
#include "supervisor/cli/eval_play.h"
#include "supervisor/cli/run_facts.h"
#include "supervisor/facts/defaults.h"
#include "supervisor/facts/files.h"
#include "supervisor/facts/record.h"
#include "supervisor/facts/run_view.h"
#include "supervisor/facts/thin_curves.h"
#include "supervisor/metrics/svg_plot.h"
#include "supervisor/page/report_page.h"
#include "supervisor/rundir/run_dir.h"
#include "supervisor/save/checkpoint_read.h"

#include <errno.h>
#include <math.h>
#include <sodium.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

enum { ANSWERS_WITHIN_MS = 2000, POINTS = 300, CHECKPOINTS_MAX = 200 };

/* ---- the file ---- */

/* Text between tags; control characters are visible. */
static void put_text(const char *text, FILE *f)
{
    const size_t size = PLAIN_TEXT_GROWTH * strlen(text) + 1;
    char *plain = xmalloc(size);

    (void)plain_text(plain, size, text, strlen(text));
    svg_escaped(f, plain);
    free(plain);
}

/* Text in lines between tags. */
static void put_lines(const char *text, FILE *f)
{
    (void)fputs("<pre>", f);
    while (*text != '\0') {
        const size_t len = strcspn(text, "\n");
        char *line = strndup(text, len);

        put_text(line, f);
        (void)fputc('\n', f);
        free(line);
        text += len + (text[len] == '\n');
    }
    (void)fputs("</pre>\n", f);
}

/* Writes the file; without: HTML for a browser that executes no script, which is freed. */
static void put_file(const char *title, struct json *facts, struct xstream *without,
                     FILE *f)
{
    char *html = xstream_end(without);
    size_t len;
    const char *text = json_line(facts, &len);

    (void)fputs(report_page[0], f);
    put_text(title, f);
    (void)fputs(report_page[1], f);
    /* JSON inside <script>: in a string, which is where it may stand, '<' is \u003c. */
    for (size_t i = 0; i < len; i++) {
        if (text[i] == '<')
            (void)fputs("\\u003c", f);
        else
            (void)fputc(text[i], f);
    }
    (void)fputs(report_page[2], f);
    (void)fputs(html, f);
    (void)fputs(report_page[3], f);
    json_done(facts);
    free(html);
}

/* ---- an episode ---- */

enum { PLAY_STEPS = 400 };
static const size_t GIF_MAX_BYTES = (size_t)3 << 20, SVG_MAX_BYTES = (size_t)1 << 20;

struct pictures {
    struct wbuf gif, svg;
    double episode_return; /* of the first team; NaN: of several */
    double length;
    int is_cut;
    struct err failure;
};

static void on_played(struct eval_play *play, const struct env_spec *spec,
                      const struct evaluation_result *result)
{
    struct pictures *p = play->ctx;
    char *name = run_dir_name_of(play->path);
    const struct recording_source from = eval_play_source(play, name, spec);
    const int is_external = env_config_is_external(&play->run.config->env);

    p->length = result->length_mean;
    p->episode_return = env_team_mean(spec, 0, result->return_mean);
    for (size_t i = 1; i < spec->n_agents; i++)
        if (env_team_of(spec, i) != 0)
            p->episode_return = (double)NAN;
    p->is_cut = play->recording.episode.is_cut || p->length >= PLAY_STEPS;
    if (recording_bytes(&play->recording, &from, DRAW_GIF, &p->gif, &p->failure) == 0 &&
        !is_external)
        (void)recording_bytes(&play->recording, &from, DRAW_SVG, &p->svg, &p->failure);
    free(name);
}

/* Returns 0 if an episode may be played; otherwise err says why not. */
static int check_play(const char *path, const char *name, const struct run_config *c,
                      enum report_play play, struct err *err)
{
    if (play == REPORT_PLAY_NEVER)
        return err_set(err, ERR_STATE, "none was asked for (--play never)");
    if (play == REPORT_PLAY_WORLDS &&
        (env_config_is_external(&c->env) || run_config_has_programs(c)))
        return err_set(err, ERR_STATE,
                       "the environment, or an agent, is a program that the run's "
                       "configuration names, and a report executes none unless asked to "
                       "(--play always)");
    if (run_dir_check_trust(path, NULL) < 0)
        return err_set(err, -EPERM,
                       "another user may have written its configuration; `brood eval %s "
                       "--trust --render FILE` plays one nevertheless",
                       name);
    return 0;
}

static void on_skipped(void *ctx, const char *line)
{
    (void)line; /* the report names the step of the checkpoint that it shows */
}

static int play_episode(struct eval_play *play, struct run_config *c, struct err *err)
{
    char *checkpoints = xasprintf("%s/checkpoints", play->path);
    int rc = eval_play_check(play, NULL, err);

    if (rc == 0)
        rc = weights_load(&play->weights, checkpoints, NULL, on_skipped, NULL, err);
    if (rc == 0) {
        c->env.draws = 1;
        if (c->evaluation.max_steps > PLAY_STEPS)
            c->evaluation.max_steps = PLAY_STEPS;
        rc = eval_play(play, err);
    }
    free(checkpoints);
    return rc;
}

static void put_picture(const struct wbuf *picture, size_t max, const char *type,
                        const char *alt, struct json *j)
{
    const size_t size =
        sodium_base64_ENCODED_LEN(picture->len, sodium_base64_VARIANT_ORIGINAL);
    char *text;

    if (picture->len == 0 || picture->len > max)
        return;
    text = xmalloc(size);
    (void)sodium_bin2base64(text, size, picture->data, picture->len,
                            sodium_base64_VARIANT_ORIGINAL);
    json_object(j);
    json_put_str(j, "alt", alt);
    json_put_str(j, "type", type);
    json_put_str(j, "base64", text);
    json_close(j);
    free(text);
}

/* Plays episode 0; name: of the run, in messages. */
static void put_played(const char *path, const char *name, enum report_play play,
                       struct json *j)
{
    struct pictures p = {.episode_return = (double)NAN};
    struct run_config config;
    struct eval_play args = {
        .path = path,
        .run = {.config = &config, .episodes = 1, .copies = 1, .mode = ACT_GREEDY},
        .records = 1,
        .on_result = on_played,
        .ctx = &p};
    struct err err = {0};
    int rc = files_read_config(&config, path, &err);
    const int is_read = rc == 0;

    if (rc == 0)
        rc = check_play(path, name, &config, play, &err);
    if (rc == 0)
        rc = play_episode(&args, &config, &err);
    json_object(j);
    if (rc == 0 && p.gif.len > 0) {
        json_put_u64(j, "step", args.run.step);
        json_put_f64(j, "length", p.length);
        json_put_f64(j, "return", p.episode_return);
        json_put_bool(j, "is_cut", p.is_cut);
        json_put_array(j, "pictures");
        put_picture(&p.gif, GIF_MAX_BYTES, "image/gif",
                    "the episode, step by step, as an animation", j);
        put_picture(&p.svg, SVG_MAX_BYTES, "image/svg+xml",
                    "the whole episode on one page, with tracks", j);
        json_close(j);
        json_put_bool(j, "left_out",
                      p.gif.len > GIF_MAX_BYTES || p.svg.len > SVG_MAX_BYTES);
    } else {
        json_put_str(j, "why", rc < 0 ? err.msg : p.failure.msg);
    }
    json_close(j);
    eval_play_done(&args);
    if (is_read)
        run_config_done(&config);
    wbuf_done(&p.gif);
    wbuf_done(&p.svg);
}

/* ---- runs ---- */

struct html_run {
    const char *path;
    char *name; /* owned; unique in the report */
    struct run_facts facts;
    struct progress *progress; /* NULL: there is none */
    int plays;                 /* it is the first of its group */
};

struct html_runs {
    struct html_run *run;
    size_t n;
    struct words keys; /* that any of them changes from the defaults */
    enum report_play play;
};

static int is_taken(const struct html_runs *all, size_t n, const char *name)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(all->run[i].name, name) == 0)
            return 1;
    return 0;
}

static void read_run(struct html_runs *all, size_t i, const char *path)
{
    struct html_run *r = &all->run[i];
    char *file = xasprintf("%s/metrics/progress.csv", path);
    struct run_config config;

    r->path = path;
    r->name = run_dir_name_of(path);
    if (is_taken(all, i, r->name)) {
        free(r->name);
        r->name = xstrdup(path);
    }
    r->plays = 1;
    for (size_t k = 0; k < i; k++)
        r->plays &= !report_same_group(all->run[k].name, r->name);
    run_facts_get(&r->facts, path, ANSWERS_WITHIN_MS);
    if (progress_read(&r->progress, file, NULL) < 0)
        r->progress = NULL;
    free(file);
    if (files_read_config(&config, path, NULL) == 0) {
        defaults_add_keys(&config, &all->keys);
        run_config_done(&config);
    }
}

static struct run_view view_of(const struct html_run *r)
{
    const uint64_t rows = r->progress != NULL ? progress_n_rows(r->progress) : 0;

    return (struct run_view){.name = r->name,
                             .status = &r->facts.status,
                             .tags = &r->facts.tags,
                             .stamps = {.rows = rows},
                             .is_live = r->facts.is_live,
                             .is_denied = r->facts.is_denied};
}

typedef void (*put_fn)(const struct html_runs *all, const struct html_run *r,
                       struct json *j);

static void put_view(const struct html_runs *all, const struct html_run *r,
                     struct json *j)
{
    const struct run_view view = view_of(r);

    run_view_put(&view, j);
}

static void put_config(const struct html_runs *all, const struct html_run *r,
                       struct json *j)
{
    if (files_put_config(r->path, j, NULL) < 0) {
        json_array(j);
        json_close(j);
    }
}

static void put_record(const struct html_runs *all, const struct html_run *r,
                       struct json *j)
{
    record_put_all(r->path, r->progress, all->keys.list, all->keys.n, j);
}

static void put_checkpoints(const struct html_runs *all, const struct html_run *r,
                            struct json *j)
{
    if (files_put_checkpoints_with(r->path, r->progress, CHECKPOINTS_MAX, j, NULL) < 0) {
        json_array(j);
        json_close(j);
    }
}

static void put_curves(const struct html_runs *all, const struct html_run *r,
                       struct json *j)
{
    thin_curves_put(r->progress, j);
}

static void put_episode(const struct html_runs *all, const struct html_run *r,
                        struct json *j)
{
    if (r->plays)
        put_played(r->path, r->name, all->play, j);
    else
        json_null(j);
}

/* An object with a member for each run. */
static void put_each(const char *key, const struct html_runs *all, put_fn put,
                     struct json *j)
{
    json_put_object(j, key);
    for (size_t i = 0; i < all->n; i++) {
        json_key(j, all->run[i].name);
        put(all, &all->run[i], j);
    }
    json_close(j);
}

/* A list for each of some numbers of a group's points. */
static void put_points(const struct report_group *g, struct json *j)
{
    static const struct {
        const char *key;
        size_t at;
    } lists[] = {{"steps", offsetof(struct report_point, steps)},
                 {"means", offsetof(struct report_point, over.mean)},
                 {"lows", offsetof(struct report_point, over.low)},
                 {"highs", offsetof(struct report_point, over.high)}};

    for (size_t k = 0; k < sizeof(lists) / sizeof(lists[0]); k++) {
        json_put_array(j, lists[k].key);
        for (size_t i = 0; i < g->n_points; i++)
            json_f64(j, *(const double *)((const char *)&g->point[i] + lists[k].at));
        json_close(j);
    }
}

static void put_groups(const struct report *r, const struct err *why, struct json *j)
{
    json_put_object(j, "groups");
    if (r == NULL)
        json_put_str(j, "why", why->msg);
    else
        json_put_str(j, "metric", r->metric);
    json_put_array(j, "list");
    for (size_t i = 0; r != NULL && i < r->n_groups; i++) {
        const struct report_group *g = &r->group[i];

        json_object(j);
        report_put_group(r, g, j);
        put_points(g, j);
        json_close(j);
    }
    json_close(j);
    json_close(j);
}

static void put_runs(const struct html_runs *all, const struct report *r,
                     const struct err *why, const struct report_tasks *tasks,
                     struct json *j)
{
    json_object(j);
    json_put_str(j, "version", BROOD_VERSION);
    json_put_array(j, "names");
    for (size_t i = 0; i < all->n; i++)
        json_str(j, all->run[i].name);
    json_close(j);
    json_put_array(j, "studies");
    json_close(j);
    json_put_array(j, "runs");
    for (size_t i = 0; i < all->n; i++) {
        const struct run_view view = view_of(&all->run[i]);
        struct run_config config;
        const int is_read = files_read_config(&config, all->run[i].path, NULL) == 0;

        json_object(j);
        run_summary_put(&view, NULL, is_read ? &config : NULL, all->run[i].progress, j);
        json_close(j);
        if (is_read)
            run_config_done(&config);
    }
    json_close(j);
    put_each("views", all, put_view, j);
    json_put_object(j, "answers");
    put_each("config", all, put_config, j);
    put_each("record", all, put_record, j);
    put_each("checkpoints", all, put_checkpoints, j);
    put_each("curves", all, put_curves, j);
    put_each("episode", all, put_episode, j);
    json_close(j);
    put_groups(r, why, j);
    json_key(j, "tasks");
    if (tasks != NULL)
        report_tasks_put(tasks, j);
    else
        json_null(j);
    json_close(j);
}

/* For a browser that executes no script. */
static void put_tasks(const struct report_tasks *tasks, FILE *html)
{
    struct xstream text;

    report_tasks_print_text(tasks, xstream_begin(&text));
    put_lines(xstream_end(&text), html);
    free(text.text);
    report_tasks_print_svg(tasks, html);
}

void report_html_runs(char *const *paths, size_t n, struct report *r,
                      const struct err *why, const struct report_tasks *tasks,
                      enum report_play play, FILE *f)
{
    struct arena arena = ARENA_ZERO;
    struct html_runs all = {.run = xcalloc(n, sizeof(*all.run)),
                            .n = n,
                            .keys = {.arena = &arena},
                            .play = play};
    struct xstream text, without;
    struct json j = {0};
    char *title;
    FILE *html = xstream_begin(&without);

    for (size_t i = 0; i < n; i++)
        read_run(&all, i, paths[i]);
    title = n == 1 ? xasprintf("%s - brood", all.run[0].name)
                   : xasprintf("%s and %zu more - brood", all.run[0].name, n - 1);
    (void)fputs("<h1>", html);
    put_text(title, html);
    (void)fputs("</h1>\n", html);
    if (tasks != NULL)
        put_tasks(tasks, html);
    if (r != NULL) {
        report_print_text(r, 0, xstream_begin(&text));
        put_lines(xstream_end(&text), html);
        free(text.text);
        report_thin(r, POINTS);
        report_print_svg(r, html);
    } else {
        put_lines(why->msg, html);
    }
    put_runs(&all, r, why, tasks, &j);
    put_file(title, &j, &without, f);
    free(title);
    for (size_t i = 0; i < n; i++) {
        if (all.run[i].progress != NULL)
            progress_free(all.run[i].progress);
        run_facts_done(&all.run[i].facts);
        free(all.run[i].name);
    }
    free(all.run);
    arena_done(&arena);
}

/* ---- a study ---- */

/* A file that is a link, perhaps to a secret, is not followed: the folder is held. */
static void put_study_file(const char *dir, const char *name, struct json *j)
{
    char *path = xasprintf("%s/%s", dir, name);
    struct wbuf text = {0};

    if (wbuf_read_file(&text, path, YAML_MAX_BYTES, NULL) == 0) {
        json_array(j);
        json_str(j, name);
        json_strn(j, (const char *)text.data, text.len);
        json_close(j);
    }
    wbuf_done(&text);
    free(path);
}

static void put_study(const struct study_report *r, const char *dir, const char *picture,
                      struct json *j)
{
    const int is_held = beneath_hold(dir, NULL) == 0;

    json_object(j);
    json_put_str(j, "version", BROOD_VERSION);
    json_put_array(j, "names");
    json_close(j);
    json_put_array(j, "studies");
    json_str(j, r->name);
    json_close(j);
    json_put_array(j, "runs");
    json_close(j);
    json_put_object(j, "views");
    json_close(j);
    json_put_object(j, "answers");
    json_put_object(j, "study");
    json_key(j, r->name);
    study_report_put(r, j);
    json_close(j);
    json_put_object(j, "picture");
    json_put_str(j, r->name, picture);
    json_close(j);
    json_put_object(j, "files");
    json_put_array(j, r->name);
    if (is_held) {
        put_study_file(dir, "study.yaml", j);
        put_study_file(dir, "base.yaml", j);
        beneath_release(dir);
    }
    json_close(j);
    json_close(j);
    json_close(j);
    json_close(j);
}

void report_html_study(const struct study_report *r, const char *dir, FILE *f)
{
    char *title = xasprintf("%s - brood", r->name);
    struct xstream text, picture, without;
    struct json j = {0};
    FILE *html = xstream_begin(&without);

    (void)fputs("<h1>", html);
    put_text(title, html);
    (void)fputs("</h1>\n", html);
    study_report_print(r, 0, xstream_begin(&text));
    put_lines(xstream_end(&text), html);
    free(text.text);
    study_report_print_svg(r, xstream_begin(&picture));
    (void)fputs(xstream_end(&picture), html);
    put_study(r, dir, picture.text, &j);
    put_file(title, &j, &without, f);
    free(picture.text);
    free(title);
}
