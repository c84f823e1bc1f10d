#include "supervisor/web/runs.h"

#include "common/mem/xmalloc.h"
#include "common/text/scan.h"
#include "supervisor/facts/files.h"
#include "supervisor/facts/run_view.h"
#include "supervisor/rundir/run_dir.h"
#include "supervisor/rundir/run_record.h"
#include "supervisor/study/study_dir.h"
#include "supervisor/web/stamps.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    MAX_JOBS = 2,
    PAUSE_TIMES = 20, /* pause before a run is read again / time that reading took */
    SHOW_EVERY = 16,  /* during the first walk, the list is sent after this many runs */
};

struct run {
    char *name, *path, *study; /* study: "" outside of any */
    const struct place *place;
    struct stamps stamps;
    char *summary; /* JSON; NULL: not read yet */
    uint64_t revision;
    int is_seen, is_own, is_stale, is_being_read;
    uint64_t next_ms; /* earliest time of the next reading (PAUSE_TIMES) */
};

/* What a walk has found. */
struct found {
    char *path, *study; /* study: as in struct run */
    int is_own;         /* its directory is this user's */
    struct stamps stamps;
};

/* A folder, with what its last walk has found. */
struct place {
    const struct folder *folder;
    char **study; /* names */
    size_t n_studies;
    char *why;      /* it could not be read; NULL: it could */
    int is_walking; /* a thread is there */
};

struct runs {
    struct readings *readings;
    struct place *place;
    size_t n_places;
    void (*on_change)(void *ctx);
    void *ctx;
    struct run **run; /* newest first */
    size_t n, cap;
    uint64_t revision, names_revision;
    size_t found; /* where the search for the next name begins: the order is the same */
    unsigned jobs;
    uint64_t n_walks, n_walked; /* begun, ended */
    size_t n_under_way;         /* places of the walk that has begun, without late ones */
    int walks_again;
    int has_walked, is_complete, is_closing;
};

/* The summary of one run. */
struct job {
    struct reading reading;
    struct runs *runs;
    char *name, *path, *study;
    const char *label; /* of its folder */
    uint64_t took_ms;
    struct json json;
};

struct walk {
    struct reading reading;
    struct runs *runs;
    struct place *place;
    struct found *found;
    size_t n, cap;
    char **study;
    size_t n_studies;
    struct err err; /* the folder cannot be read */
};

struct runs *runs_new(struct readings *readings, const struct folders *folders,
                      void (*on_change)(void *ctx), void *ctx)
{
    struct runs *r = xcalloc(1, sizeof(*r));

    *r = (struct runs){.readings = readings,
                       .place = xcalloc(folders->n, sizeof(*r->place)),
                       .n_places = folders->n,
                       .on_change = on_change,
                       .ctx = ctx,
                       .revision = 1,
                       .names_revision = 1};
    for (size_t i = 0; i < folders->n; i++)
        r->place[i].folder = &folders->folder[i];
    return r;
}

static void free_run(struct run *one)
{
    free(one->name);
    free(one->path);
    free(one->study);
    free(one->summary);
    free(one);
}

static void free_names(char **names, size_t n)
{
    for (size_t i = 0; i < n; i++)
        free(names[i]);
    free(names);
}

void runs_free(struct runs *r)
{
    for (size_t i = 0; i < r->n; i++)
        free_run(r->run[i]);
    free(r->run);
    for (size_t i = 0; i < r->n_places; i++) {
        free_names(r->place[i].study, r->place[i].n_studies);
        free(r->place[i].why);
    }
    free(r->place);
    free(r);
}

void runs_close(struct runs *r)
{
    r->is_closing = 1;
}

static struct run *find_from(const struct runs *r, const char *name, size_t *at)
{
    for (size_t i = 0; name != NULL && i < r->n; i++) {
        const size_t k = (*at + i) % r->n;

        if (strcmp(r->run[k]->name, name) == 0) {
            *at = k + 1;
            return r->run[k];
        }
    }
    return NULL;
}

static struct run *find(const struct runs *r, const char *name)
{
    size_t from = 0;

    return find_from(r, name, &from);
}

/* ---- reading one run, on a thread of the pool ---- */

/* What a summary is made of. */
struct read_run {
    struct run_record record;
    struct run_tags tags;
    const struct run_config *config; /* NULL: it cannot be read */
    struct progress *course;         /* NULL: there is none */
};

/* why: what its state does not say; NULL: nothing. */
static void put_summary(const struct job *job, struct json *j, const struct read_run *r,
                        const char *why)
{
    const struct run_view view = {.name = job->name,
                                  .status = &r->record.status,
                                  .tags = &r->tags,
                                  .is_live = r->record.is_live};

    json_begin(j);
    json_object(j);
    json_put_str(j, "folder", *job->label != '\0' ? job->label : NULL);
    json_put_str(j, "why", why);
    run_summary_put(&view, *job->study != '\0' ? job->study : NULL, r->config, r->course,
                    j);
    json_close(j);
}

static const char *why_of(const struct run_record *r)
{
    if (r->is_denied)
        return "No end is recorded, and whether it is live its owner alone may know. "
               "What "
               "may be read of it is shown.";
    return r->is_unreadable && !r->is_live ? "Its journal cannot be read." : NULL;
}

static void read_summary(struct reading *reading)
{
    struct job *job = READING_OF(struct job, reading);
    const uint64_t began_ns = uv_hrtime();
    char *file = xasprintf("%s/metrics/progress.csv", job->path);
    struct run_config config;
    struct read_run r = {0};

    run_record_read(&r.record, job->path);
    (void)run_tags_read(&r.tags, job->path, NULL);
    if (files_read_config(&config, job->path, NULL) == 0)
        r.config = &config;
    (void)progress_read_course(&r.course, file, RUN_SPARK, NULL);
    put_summary(job, &job->json, &r, why_of(&r.record));
    progress_free(r.course);
    if (r.config != NULL)
        run_config_done(&config);
    run_tags_done(&r.tags);
    run_record_done(&r.record);
    free(file);
    job->took_ms = (uv_hrtime() - began_ns) / 1000000;
}

static void start_jobs(struct runs *r);

struct run_status runs_unreadable(void)
{
    struct run_status ret = run_status_unknown();

    ret.state = "unreadable";
    return ret;
}

static void take_summary(struct runs *r, struct run *one, struct json *j)
{
    size_t len;
    const char *text = json_line(j, &len);

    if (one->summary != NULL && strcmp(one->summary, text) == 0)
        return;
    free(one->summary);
    one->summary = xstrdup(text);
    one->revision = ++r->revision;
}

/* A run that is gone is dropped by the next walk, which may also find another in its place. All
 * others are tried again, but not before the thread of a late reading has come back. */
static void take_unread(struct runs *r, struct run *one, const struct job *job,
                        const struct err *why)
{
    const struct read_run unknown = {.record.status = runs_unreadable()};
    const uint64_t times = why->code == ERR_TIMEOUT ? PAUSE_TIMES : 1;
    struct json j = {0};

    if (why->code == -ENOENT)
        return;
    put_summary(job, &j, &unknown, why->msg);
    take_summary(r, one, &j);
    json_done(&j);
    one->is_stale = 1;
    one->next_ms = readings_now(r->readings) + times * READING_WITHIN_MS;
}

static void on_read(struct reading *reading, const struct err *why)
{
    struct job *job = READING_OF(struct job, reading);
    struct runs *r = job->runs;
    struct run *one = find(r, job->name);

    r->jobs--;
    if (one != NULL && why != NULL) {
        take_unread(r, one, job, why);
    } else if (one != NULL) {
        one->next_ms = readings_now(r->readings) + PAUSE_TIMES * job->took_ms;
        take_summary(r, one, &job->json);
    }
    if (why != NULL)
        start_jobs(r);
}

static void after_read(struct reading *reading)
{
    struct job *job = READING_OF(struct job, reading);
    struct runs *r = job->runs;
    struct run *one = find(r, job->name);

    if (one != NULL)
        one->is_being_read = 0;
    json_done(&job->json);
    free(job->name);
    free(job->path);
    free(job->study);
    free(job);
    if (r->is_closing)
        return;
    start_jobs(r);
    if (r->jobs == 0 || r->revision % SHOW_EVERY == 0)
        r->on_change(r->ctx);
}

static void start_job(struct runs *r, struct run *one)
{
    struct job *job = xcalloc(1, sizeof(*job));

    one->is_stale = 0;
    one->is_being_read = 1;
    job->runs = r;
    job->name = xstrdup(one->name);
    job->path = xstrdup(one->path);
    job->study = xstrdup(one->study);
    job->label = one->place->folder->label;
    r->jobs++;
    job->reading =
        (struct reading){READING_LIST, job->path, read_summary, on_read, after_read};
    reading_add(r->readings, &job->reading);
}

/* Reads the newest runs first: they are on the screen. Those of other users come last, because each
 * may take as long as reading.h allows. */
static void start_jobs(struct runs *r)
{
    const uint64_t now = readings_now(r->readings);

    for (int are_own = 1; are_own >= 0; are_own--)
        for (size_t i = 0; i < r->n && r->jobs < MAX_JOBS && !r->is_closing; i++) {
            struct run *one = r->run[i];

            if (one->is_own == are_own && one->is_stale && !one->is_being_read &&
                one->next_ms <= now)
                start_job(r, one);
        }
    if (r->has_walked && r->jobs == 0 && !r->is_complete) {
        r->is_complete = 1;
        r->revision++; /* who has the list is told */
    }
}

/* ---- walking, on a thread ---- */

/* A name as a page has it, behind the folder's label; free(). */
static char *name_in(const struct folder *f, const char *name)
{
    return xasprintf("%s%s%s", f->label, *f->label != '\0' ? "/" : "", name);
}

static int walk_folder(struct walk *w, const char *study, const char *folder,
                       struct err *err)
{
    size_t n;
    char **paths;
    const int rc = run_dir_list(folder, &paths, &n, err);

    for (size_t i = 0; i < n; i++) {
        struct found *f;
        struct stat st;

        ARRAY_GROW(w->found, w->n, w->cap);
        f = &w->found[w->n++];
        *f = (struct found){.path = paths[i], .study = xstrdup(study)};
        f->is_own = stat(f->path, &st) == 0 && st.st_uid == geteuid();
        stamps_look(&f->stamps, f->path);
    }
    free(paths);
    return rc;
}

static void walk(struct reading *reading)
{
    struct walk *w = READING_OF(struct walk, reading);
    const struct folder *folder = w->place->folder;
    char **paths;

    if (walk_folder(w, "", folder->path, &w->err) < 0)
        return;
    study_dir_list(folder->path, &paths, &w->n_studies);
    w->study = xcalloc(w->n_studies + 1, sizeof(*w->study));
    for (size_t i = 0; i < w->n_studies; i++) {
        w->study[i] = name_in(folder, text_base_name(paths[i]));
        (void)walk_folder(w, w->study[i], paths[i], NULL);
    }
    run_dir_list_free(paths, w->n_studies);
}

/* ---- what a walk has found ---- */

static void take_run(struct runs *r, const struct place *place, const struct found *f)
{
    const char *last = text_base_name(f->path);
    char *name = *f->study != '\0' ? xasprintf("%s/%s", f->study, last)
                                   : name_in(place->folder, last);
    struct run *one = find_from(r, name, &r->found);

    if (one == NULL) {
        ARRAY_GROW(r->run, r->n, r->cap);
        one = r->run[r->n++] = xcalloc(1, sizeof(*one));
        one->name = xstrdup(name);
        one->path = xstrdup(f->path);
        one->study = xstrdup(f->study);
        one->place = place;
        one->is_stale = 1; /* though nobody may look at its files */
        r->names_revision = ++r->revision;
    }
    one->is_seen = 1;
    one->is_own = f->is_own;
    one->is_stale |= stamps_renew(&one->stamps, &f->stamps);
    free(name);
}

static int compare(const void *a, const void *b)
{
    const struct run *x = *(struct run *const *)a, *y = *(struct run *const *)b;

    const struct timespec *a_began = stamps_began(&x->stamps),
                          *b_began = stamps_began(&y->stamps);

    if (a_began->tv_sec != b_began->tv_sec)
        return a_began->tv_sec > b_began->tv_sec ? -1 : 1;
    if (a_began->tv_nsec != b_began->tv_nsec)
        return a_began->tv_nsec > b_began->tv_nsec ? -1 : 1;
    return strcmp(x->name, y->name);
}

/* A folder that cannot be held, or read, has no runs. */
static void take_walk(struct runs *r, struct walk *w)
{
    struct place *place = w->place;
    size_t kept = 0;

    for (size_t i = 0; i < r->n; i++)
        r->run[i]->is_seen = r->run[i]->place != place;
    r->found = 0;
    for (size_t i = 0; i < w->n; i++)
        take_run(r, place, &w->found[i]);
    for (size_t i = 0; i < r->n; i++) {
        if (r->run[i]->is_seen) {
            r->run[kept++] = r->run[i];
            continue;
        }
        free_run(r->run[i]);
        r->names_revision = ++r->revision;
    }
    r->n = kept;
    if (r->n > 0)
        qsort(r->run, r->n, sizeof(struct run *), compare);
    free_names(place->study, place->n_studies);
    place->study = w->study;
    place->n_studies = w->n_studies;
    w->study = NULL;
    w->n_studies = 0;
}

/* why: of code 0: the folder was read. */
static void note_why(struct runs *r, struct place *place, const struct err *why)
{
    const char *text = why->code != 0 ? why->msg : NULL;

    if (text == NULL ? place->why == NULL
                     : place->why != NULL && strcmp(text, place->why) == 0)
        return;
    free(place->why);
    place->why = text != NULL ? xstrdup(text) : NULL;
    r->names_revision = ++r->revision;
    if (text != NULL)
        (void)fprintf(stderr, "brood web: %s\n", text);
}

static void on_walked(struct reading *reading, const struct err *why)
{
    struct walk *w = READING_OF(struct walk, reading);
    struct runs *r = w->runs;
    struct err late = {0};

    if (why != NULL && why->code == ERR_TIMEOUT) { /* the list stays as it is */
        (void)err_set(&late, ERR_TIMEOUT, "%s: to read it takes longer than %d s",
                      w->place->folder->path, READING_WITHIN_MS / 1000);
        why = &late;
    } else {
        take_walk(r, w);
    }
    note_why(r, w->place, why != NULL ? why : &w->err);
    if (--r->n_under_way == 0) {
        r->n_walked = r->n_walks;
        r->has_walked = 1;
    }
    start_jobs(r);
    r->on_change(r->ctx); /* who has asked for the list waits for the walk */
}

static void after_walk(struct reading *reading)
{
    struct walk *w = READING_OF(struct walk, reading);
    struct runs *r = w->runs;

    w->place->is_walking = 0;
    for (size_t i = 0; i < w->n; i++) {
        free(w->found[i].path);
        free(w->found[i].study);
    }
    free(w->found);
    free_names(w->study, w->n_studies);
    free(w);
    if (r->walks_again && r->n_under_way == 0)
        (void)runs_walk(r);
}

static void start_walk(struct runs *r, struct place *place)
{
    struct walk *w = xcalloc(1, sizeof(*w));

    place->is_walking = 1;
    r->n_under_way++;
    w->runs = r;
    w->place = place;
    w->reading =
        (struct reading){READING_LIST, place->folder->path, walk, on_walked, after_walk};
    reading_add(r->readings, &w->reading);
}

uint64_t runs_walk(struct runs *r)
{
    r->walks_again = r->n_under_way > 0;
    if (r->walks_again || r->is_closing)
        return r->n_walks + 1;
    for (size_t i = 0; i < r->n_places; i++)
        if (!r->place[i].is_walking)
            start_walk(r, &r->place[i]);
    if (r->n_under_way == 0) /* all were too late, and no thread has come back */
        return r->n_walked;
    return ++r->n_walks;
}

uint64_t runs_walked(const struct runs *r)
{
    return r->n_walked;
}

int runs_is_complete(const struct runs *r)
{
    return r->is_complete;
}

/* ---- asking ---- */

int runs_find(const struct runs *r, const char *name, struct run_place *ret)
{
    const struct run *one = find(r, name);

    if (one == NULL)
        return 0;
    *ret = (struct run_place){one->path, one->place->folder->path};
    return 1;
}

const char *runs_study_path(const struct runs *r, const char *name)
{
    static char path[PATH_MAX];

    for (size_t i = 0; name != NULL && i < r->n_places; i++) {
        const struct place *place = &r->place[i];

        for (size_t k = 0; k < place->n_studies; k++) {
            if (strcmp(place->study[k], name) != 0)
                continue;
            (void)snprintf(path, sizeof(path), "%s/%s", place->folder->path,
                           text_base_name(name));
            return path;
        }
    }
    return NULL;
}

uint64_t runs_revision(const struct runs *r)
{
    return r->revision;
}

void runs_put(const struct runs *r, uint64_t since, struct json *j)
{
    json_put_array(j, "runs");
    for (size_t i = 0; i < r->n; i++)
        if (r->run[i]->revision > since && r->run[i]->summary != NULL)
            json_raw(j, r->run[i]->summary, strlen(r->run[i]->summary));
    json_close(j);
    if (r->names_revision <= since)
        return;
    json_put_array(j, "names");
    for (size_t i = 0; i < r->n; i++)
        json_str(j, r->run[i]->name);
    json_close(j);
    json_put_array(j, "studies");
    for (size_t i = 0; i < r->n_places; i++)
        for (size_t k = 0; k < r->place[i].n_studies; k++)
            json_str(j, r->place[i].study[k]);
    json_close(j);
    json_put_array(j, "folders");
    for (size_t i = 0; i < r->n_places; i++) {
        const struct place *place = &r->place[i];

        json_object(j);
        json_put_str(j, "folder",
                     *place->folder->label != '\0' ? place->folder->label : NULL);
        json_put_str(j, "path", place->folder->path);
        json_put_str(j, "why", place->why);
        json_close(j);
    }
    json_close(j);
}
