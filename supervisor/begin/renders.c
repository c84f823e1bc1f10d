#include "supervisor/begin/renders.h"

#include "common/ckpt/atomic_file.h"
#include "common/err/check.h"
#include "common/io/beneath.h"
#include "common/io/copy_file.h"
#include "common/io/line_reader.h"
#include "common/io/tree.h"
#include "common/log/log.h"
#include "common/mem/xmalloc.h"
#include "common/text/scan.h"
#include "supervisor/render/recording.h"
#include "supervisor/render/render.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char *const suffixes[] = {
    [RENDER_GIF] = ".gif", [RENDER_SVG] = ".svg", [RENDER_JSONL] = ".jsonl"};
enum { INDEX_LINE_MAX = 256 };
static const char index_head[] = "env_steps,team_return,file\n";

/* A picture in the folder. */
struct picture {
    uint64_t step;
    double value;
    char file[40];
};

/* An evaluation that is to be drawn. */
struct job {
    struct recording recording;
    struct recording_source source;
    enum render_kind kind; /* RENDER_NONE: no file */
    int is_image;          /* it also goes to the event files */
    double wall_time;      /* of the evaluation */
    double value;
    uint64_t best; /* the step of the best evaluation up to this one */
    size_t max;    /* pictures kept in addition to the best one */
    struct job *next;
};

struct renders {
    struct renders_args args;
    char *dir, *run;
    struct recording recording; /* of the evaluation that is being played */
    const struct env_spec *spec;
    uint64_t best; /* step of the best evaluation; UINT64_MAX: none yet */
    double best_value;

    struct job *waiting; /* in the order of their steps */
    struct job *drawn;   /* NULL: the pool draws nothing */
    uv_work_t work;
    struct err failure; /* of `drawn` */
    int has_failed;     /* the last picture could not be drawn */

    /* While a picture is drawn, only the thread that draws it uses these. */
    struct picture *list; /* in the order of their steps */
    size_t n;
};

static char *path_in(const struct renders *r, const char *file)
{
    return xasprintf("%s/%s", r->dir, file);
}

static const char *file_of(char ret[40], uint64_t step, enum render_kind kind)
{
    (void)snprintf(ret, 40, "%" PRIu64 "%s", step, suffixes[kind]);
    return ret;
}

int renders_are_wanted(const struct run_config *c)
{
    return c->evaluation.render != RENDER_NONE || c->log.images;
}

static enum render_kind kind_of(const struct run_config *c)
{
    return c->evaluation.render != RENDER_NONE ? c->evaluation.render : RENDER_GIF;
}

int renders_check(const struct run_config *c, struct err *err)
{
    const enum render_kind kind = kind_of(c);
    const char *key =
        c->evaluation.render != RENDER_NONE ? "evaluation.render" : "log.images";
    struct err why = {0};
    char file[40];
    int rc;

    if (!renders_are_wanted(c))
        return 0;
    if (env_config_is_external(&c->env) && kind != RENDER_GIF)
        return err_set_at(err, ERR_CONFIG, ERR_AT(.key = "evaluation.render"),
                          "found '%s', expected gif or none: an environment's own "
                          "pictures are animated",
                          suffixes[kind] + 1);
    rc = render_check_env(file_of(file, 0, kind), &c->env, &why);
    if (rc == 0)
        rc = render_check_machine(&why);
    return rc < 0 ? err_set_at(err, ERR_CONFIG, ERR_AT(.key = key), "%s", why.msg) : 0;
}

/* ---- the files ---- */

static int write_index(const struct renders *r, struct err *err)
{
    char *path = path_in(r, "index.csv");
    struct xstream text;
    FILE *f = xstream_begin(&text);
    int rc;

    (void)fputs(index_head, f);
    for (size_t i = 0; i < r->n; i++)
        (void)fprintf(f, "%" PRIu64 ",%.17g,%s\n", r->list[i].step, r->list[i].value,
                      r->list[i].file);
    (void)xstream_end(&text);
    rc = atomic_file_write(path, text.text, text.len, 0, err);
    free(text.text);
    free(path);
    return rc;
}

static void remove_file(const struct renders *r, const char *file)
{
    char *path = path_in(r, file);

    (void)beneath_unlink(path);
    free(path);
}

/* Removes the pictures that are not kept. Writes the index first, so that it never names
 * a removed picture. */
static int keep(struct renders *r, uint64_t best, size_t max, struct err *err)
{
    const size_t n = r->n;
    struct picture *old = xcalloc(n + 1, sizeof(*old));
    size_t n_old = 0;
    int rc;

    r->n = 0;
    for (size_t i = 0; i < n; i++) {
        if (i + max >= n || r->list[i].step == best)
            r->list[r->n++] = r->list[i];
        else
            old[n_old++] = r->list[i];
    }
    rc = write_index(r, err);
    for (size_t i = 0; rc == 0 && i < n_old; i++)
        remove_file(r, old[i].file);
    free(old);
    return rc;
}

static int draw_image(struct renders *r, struct job *j, struct err *err)
{
    struct event_sink *sink;
    struct wbuf gif = {0};
    int rc = recording_bytes(&j->recording, &j->source, DRAW_GIF, &gif, err);

    if (rc == 0)
        rc = event_folder_begin(r->args.images, j->source.step, j->wall_time, &sink, err);
    if (rc == 0 && sink != NULL) {
        const uint8_t *size =
            gif.data + 6; /* after "GIF89a": width, height, two bytes each */
        const struct event_image image = {.data = gif.data,
                                          .len = gif.len,
                                          .width = size[0] | (unsigned)size[1] << 8,
                                          .height = size[2] | (unsigned)size[3] << 8};

        rc = event_sink_write_image(sink, j->source.step, "eval/episode", &image,
                                    j->wall_time, err);
    }
    wbuf_done(&gif);
    return rc;
}

static int draw_file(struct renders *r, struct job *j, struct err *err)
{
    struct picture p = {.step = j->source.step, .value = j->value};
    char *path = path_in(r, file_of(p.file, p.step, j->kind));
    int rc = 0;

    if (beneath_mkdir(r->dir, 0777) < 0 && errno != EEXIST)
        rc = err_errno(err, "%s", r->dir);
    if (rc == 0)
        rc = recording_write(&j->recording, &j->source, path, err);
    free(path);
    if (rc < 0)
        return rc;
    r->list = xreallocarray(r->list, r->n + 1, sizeof(*r->list));
    r->list[r->n++] = p;
    return keep(r, j->best, j->max, err);
}

/* ---- the pictures that a resumed run finds ---- */

static int parse_line(const char *line, struct picture *ret)
{
    char *end;

    *ret = (struct picture){0};
    ret->step = strtoull(line, &end, 10);
    if (end == line || *end != ',')
        return 0;
    line = end + 1;
    ret->value = strtod(line, &end);
    if (end == line || *end != ',')
        return 0;
    line = end + 1;
    (void)snprintf(ret->file, sizeof(ret->file), "%.*s", (int)strcspn(line, "\n"), line);
    return strchr(ret->file, '/') == NULL && ret->file[0] != '\0';
}

/* Of pictures that are there. */
static int read_index(struct renders *r, uint64_t step, struct err *err)
{
    char *path = path_in(r, "index.csv"), *line, *file;
    struct line_reader in;
    struct picture p;
    size_t len;
    int is_there = 0, rc = line_reader_open(&in, path, INDEX_LINE_MAX, err);

    while (is_there >= 0 && rc >= 0 &&
           (rc = line_reader_next(&in, &line, &len, err)) > 0) {
        if (!parse_line(line, &p) || p.step > step)
            continue;
        file = path_in(r, p.file);
        is_there = tree_look(file, err);
        free(file);
        if (is_there != 1)
            continue;
        r->list = xreallocarray(r->list, r->n + 1, sizeof(*r->list));
        r->list[r->n++] = p;
        if (r->best == UINT64_MAX || p.value > r->best_value) {
            r->best = p.step;
            r->best_value = p.value;
        }
    }
    line_reader_close(&in);
    if (rc == ERR_NOT_FOUND) /* there are no pictures yet */
        rc = 0;
    else if (rc < 0)
        (void)err_wrap(err, "%s", path);
    free(path);
    return is_there < 0 ? is_there : rc;
}

static int is_listed(const struct renders *r, const char *file)
{
    for (size_t i = 0; i < r->n; i++)
        if (strcmp(r->list[i].file, file) == 0)
            return 1;
    return 0;
}

/* A picture's name begins with its step; temporary files of pictures and of the index
 * have longer names. */
static int is_leftover(const struct renders *r, const char *name)
{
    return text_after(name, "index.csv.") != NULL ||
           (*name >= '0' && *name <= '9' && !is_listed(r, name));
}

static int tidy(struct renders *r, uint64_t step, struct err *err)
{
    DIR *d = beneath_opendir(r->dir);
    const struct dirent *e;
    struct err why = {0};
    int rc;

    if (d == NULL)
        return errno == ENOENT || errno == ENOTDIR ? 0 : err_errno(err, "%s", r->dir);
    rc = read_index(r, step, err);
    if (rc == 0 && write_index(r, &why) < 0)
        log_warn("%s", why.msg);
    while (rc == 0 && why.code == 0 && (e = beneath_readdir(d)) != NULL)
        if (is_leftover(r, e->d_name))
            remove_file(r, e->d_name);
    (void)closedir(d);
    return rc;
}

int renders_copy(const char *from, const char *to, uint64_t step, struct err *err)
{
    struct renders source = {.dir = xstrdup(from), .best = UINT64_MAX};
    struct renders copy = {.dir = xstrdup(to)};
    int rc = read_index(&source, step, err);

    if (rc == 0 && source.n > 0)
        rc = tree_make(to, err);
    for (size_t i = 0; i < source.n && rc == 0; i++) {
        char *picture = path_in(&source, source.list[i].file);
        char *copied = path_in(&copy, source.list[i].file);
        struct err why = {0};

        rc = copy_tree(picture, copied, &why);
        if (rc == -ENOENT && !tree_exists(picture))
            rc = 0;
        if (rc < 0)
            (void)err_pass(err, &why);
        free(picture);
        free(copied);
    }
    copy.list = source.list;
    copy.n = source.n;
    if (rc == 0 && source.n > 0)
        rc = write_index(&copy, err);
    free(source.list);
    free(source.dir);
    free(copy.dir);
    return rc;
}

int renders_new(struct renders **ret, const struct renders_args *args, struct err *err)
{
    struct renders *r = xcalloc(1, sizeof(*r));
    int rc;

    r->args = *args;
    r->dir = xstrdup(args->dir);
    r->run = xstrdup(args->run);
    r->best = UINT64_MAX;
    rc = tidy(r, args->step, err);
    if (rc < 0) {
        renders_free(r);
        r = NULL;
    }
    *ret = r;
    return rc;
}

/* ---- drawing ---- */

static void free_job(struct job *j)
{
    recording_done(&j->recording);
    free(j);
}

static void draw_work(uv_work_t *work)
{
    struct renders *r = work->data;

    int rc = r->drawn->is_image ? draw_image(r, r->drawn, &r->failure) : 0;

    if (rc == 0 && r->drawn->kind != RENDER_NONE)
        (void)draw_file(r, r->drawn, &r->failure);
}

static void draw_next(struct renders *r);

static void on_drawn(uv_work_t *work, int status)
{
    struct renders *r = work->data;

    CHECK(status == 0);
    if (r->failure.code < 0 && !r->has_failed)
        log_warn("the evaluation of step %" PRIu64 " was not drawn: %s",
                 r->drawn->source.step, r->failure.msg);
    r->has_failed = r->failure.code < 0;
    free_job(r->drawn);
    r->drawn = NULL;
    draw_next(r);
    r->args.on_drawn(r->args.ctx);
}

static void draw_next(struct renders *r)
{
    if (r->drawn != NULL || r->waiting == NULL)
        return;
    r->drawn = r->waiting;
    r->waiting = r->drawn->next;
    r->failure = (struct err){0};
    r->work.data = r;
    CHECK(uv_queue_work(r->args.loop, &r->work, draw_work, on_drawn) == 0);
}

int renders_are_drawn(const struct renders *r, uint64_t step)
{
    /* what waits is of the same step or of later ones */
    const struct job *first = r->drawn != NULL ? r->drawn : r->waiting;

    return first == NULL || first->source.step > step;
}

/* Drops waiting evaluations whose pictures would be removed after the newest one is
 * drawn, and the oldest ones if all take too much memory. */
static void drop_waiting(struct renders *r, size_t max)
{
    struct job **at = &r->waiting;
    size_t n = 0, bytes = 0;

    for (const struct job *j = r->waiting; j != NULL; j = j->next) {
        n++;
        bytes += j->recording.episode.kept_bytes;
    }
    for (size_t left = n; left > 1; left--) {
        struct job *j = *at;

        if (bytes > RENDERS_MAX_BYTES) {
            log_warn("the evaluation of step %" PRIu64
                     " was not drawn: too many pictures wait",
                     j->source.step);
        } else if (left <= max || j->source.step == r->best) {
            at = &j->next;
            continue;
        }
        bytes -= j->recording.episode.kept_bytes;
        *at = j->next;
        free_job(j);
    }
}

/* ---- evaluations ---- */

/* Checks again, because a fork can set evaluation.render whatever its environment is. */
static int can_draw(struct renders *r, const struct run_config *c)
{
    struct err why = {0};
    char file[40];

    if (env_config_is_external(&c->env) && !r->args.env_draws)
        return 0;
    if (render_check_env(file_of(file, 0, kind_of(c)), &c->env, &why) == 0)
        return 1;
    if (!r->has_failed)
        log_warn("evaluations are not drawn: %s", why.msg);
    r->has_failed = 1;
    return 0;
}

void renders_begin(struct renders *r, const struct run_config *c,
                   const struct vec_env *env, size_t copy)
{
    if (!renders_are_wanted(c) || !can_draw(r, c))
        return;
    r->recording.is_external = env_config_is_external(&c->env);
    r->recording.number = r->recording.is_external ? vec_env_copies(env) - 1 : 0;
    if (vec_env_episode(env, copy) != r->recording.number)
        return;
    r->spec = vec_env_spec(env);
    episode_done(&r->recording.episode); /* of an evaluation that was cancelled */
    r->recording.episode = (struct episode){0};
    recording_begin(&r->recording, env, copy);
}

void renders_step(struct renders *r, const struct vec_env *env,
                  const struct env_step *step)
{
    recording_step(&r->recording, env, step);
}

void renders_evaluated(struct renders *r, const struct run_config *c, uint64_t step,
                       double now_unix, const struct evaluation_result *result)
{
    const size_t max = c->evaluation.max_to_keep > 0 ? (size_t)c->evaluation.max_to_keep
                                                     : RENDERS_DEFAULT_KEPT;
    struct job *j, **end = &r->waiting;

    if (!renders_are_wanted(c) || !recording_is_whole(&r->recording))
        return;
    j = xcalloc(1, sizeof(*j));
    j->recording = r->recording;
    r->recording = (struct recording){0};
    j->value = env_team_mean(r->spec, 0, result->return_mean);
    if (r->best == UINT64_MAX || j->value > r->best_value) {
        r->best = step;
        r->best_value = j->value;
    }
    j->source = (struct recording_source){.rules = recording_rules(&c->env, r->spec),
                                          .spec = r->spec,
                                          .run = r->run,
                                          .step = step,
                                          .seed = c->evaluation.seed,
                                          .is_greedy = c->evaluation.greedy};
    j->kind = c->evaluation.render;
    j->is_image = c->log.images;
    j->wall_time = now_unix;
    j->best = r->best;
    j->max = max;
    while (*end != NULL)
        end = &(*end)->next;
    *end = j;
    drop_waiting(r, c->log.images ? SIZE_MAX : max); /* event files have all */
    draw_next(r);
}

void renders_free(struct renders *r)
{
    if (r == NULL)
        return;
    CHECK(r->drawn == NULL);
    while (r->waiting != NULL) {
        struct job *j = r->waiting;

        r->waiting = j->next;
        free_job(j);
    }
    recording_done(&r->recording);
    free(r->list);
    free(r->dir);
    free(r->run);
    free(r);
}
