#include "supervisor/save/run_saver.h"

#include "common/err/check.h"
#include "common/io/tree.h"
#include "common/log/log.h"
#include "common/mem/pages.h"
#include "common/mem/xmalloc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_SECTIONS = 8 };

struct copy {
    void *data;
    size_t cap;
};

struct run_saver {
    struct run_saver_args args;
    const char *next_dir, *next_log_copy;
    uv_work_t work;
    int busy;
    int is_waiting; /* busy, but is_ready is not true yet */
    /* where the newest checkpoint is written; dir NULL: there is none to repeat */
    const char *dir, *log_copy;
    struct err failure; /* why the current work failed; code 0: it has not */
    struct err damage;  /* why no checkpoint can be committed any more; code 0: one can */

    /* The checkpoint being written. Its copies stay allocated for the next one: mapping
     * fresh pages would cost more than copying. */
    uint64_t step;
    double histograms_unix;
    struct checkpoint_agent *agents;
    size_t n_agents;
    struct copy *blocks; /* [n_agents] */
    struct checkpoint_section sections[MAX_SECTIONS];
    size_t n_sections;
    struct copy section_data[MAX_SECTIONS];

    uint64_t checked; /* head of the log at the last check that found all rows intact */
    uint64_t head;    /* head of the log in the checkpoint being written */
    uint8_t *sums;    /* checksums of the rows to check */
    size_t sums_bytes;
    int wants_check; /* run_saver_check_log was called while busy */
};

struct run_saver *run_saver_new(const struct run_saver_args *args)
{
    struct run_saver *s = xcalloc(1, sizeof(*s));

    s->args = *args;
    s->next_dir = args->dir;
    s->work.data = s;
    s->checked = args->store != NULL ? store_head(args->store) : 0;
    return s;
}

void run_saver_free(struct run_saver *s)
{
    if (s == NULL)
        return;
    CHECK(!s->busy);
    for (size_t i = 0; i < s->n_agents; i++)
        pages_unmap(s->blocks[i].data, s->blocks[i].cap);
    for (size_t i = 0; i < MAX_SECTIONS; i++)
        pages_unmap(s->section_data[i].data, s->section_data[i].cap);
    free(s->blocks);
    free(s->agents);
    free(s);
}

int run_saver_is_busy(const struct run_saver *s)
{
    return s != NULL && s->busy;
}

/* ---- on a thread of the pool ---- */

/* ---- histograms of the weights ---- */

/* The float32 variables of a checkpoint but for scalars and for what optimisers keep of each:
 * `<agent>/.../<variable>/<slot>`. */
struct histograms {
    struct block_table *tables; /* [agents] which own the names */
    struct event_tensor *list;
    size_t n, cap;
};

/* Whether the name is that of another variable, which may follow the names of scopes, and one
 * more part. */
static int is_slot(const struct block_table *t, const char *name)
{
    const char *last = strrchr(name, '/');

    if (last == NULL)
        return 0;
    for (size_t i = 0; i < t->n; i++) {
        const size_t len = strlen(t->variables[i].name);
        const size_t before = (size_t)(last - name);

        if (len <= before && memcmp(last - len, t->variables[i].name, len) == 0 &&
            (len == before || last[-1 - (ptrdiff_t)len] == '/'))
            return 1;
    }
    return 0;
}

static int gather(struct histograms *w, const struct checkpoint_agent *a,
                  struct block_table *t, struct err *err)
{
    int rc = block_table_parse(t, a->description, a->block_bytes, err);

    for (size_t i = 0; i < t->n; i++) {
        const struct block_variable *v = &t->variables[i];
        const char *data = (const char *)a->block + v->offset;

        if (!v->in_bundle || v->dtype != DT_FLOAT || v->shape.rank == 0 ||
            is_slot(t, v->name))
            continue;
        ARRAY_GROW(w->list, w->n, w->cap);
        w->list[w->n++] = (struct event_tensor){.tag = v->name,
                                                .data = (const float *)(const void *)data,
                                                .n = (size_t)shape_elements(&v->shape)};
    }
    return rc;
}

/* Writes one event for TensorBoard, unless one of this step or a later one is there.
 * ERR_PROTOCOL: an agent's description is malformed. */
static int write_histograms(const struct run_saver *s, struct err *err)
{
    struct histograms w = {.tables = xcalloc(s->n_agents, sizeof(*w.tables))};
    struct event_sink *sink = NULL;
    int rc = 0;

    for (size_t i = 0; i < s->n_agents && rc == 0; i++)
        rc = gather(&w, &s->agents[i], &w.tables[i], err);
    if (rc == 0)
        rc = event_folder_begin(s->args.weights, s->step, s->histograms_unix, &sink, err);
    if (rc == 0 && sink != NULL)
        rc = event_sink_write_histograms(sink, s->step, w.list, w.n, s->histograms_unix,
                                         err);
    for (size_t i = 0; i < s->n_agents; i++)
        block_table_done(&w.tables[i]);
    free(w.tables);
    free(w.list);
    return rc;
}

/* A folder that could not be opened may be synced the next time. */
static int sync_sides(struct run_saver *s)
{
    int is_lost = 0, rc = 0;

    for (size_t i = 0; i < sizeof(s->args.sides) / sizeof(s->args.sides[0]); i++)
        if (rc == 0 && s->args.sides[i] != NULL && s->log_copy == NULL)
            rc = tree_sync_all(s->args.sides[i], &is_lost, &s->failure);
    if (is_lost)
        s->failure.code = ERR_CORRUPT;
    return rc;
}

static void write_work(uv_work_t *work)
{
    struct run_saver *s = work->data;
    const struct checkpoint_args args = {.dir = s->dir,
                                         .step = s->step,
                                         .agents = s->agents,
                                         .n_agents = s->n_agents,
                                         .sections = s->sections,
                                         .n_sections = s->n_sections,
                                         .log = s->args.store,
                                         .log_sums = s->sums,
                                         .log_sums_bytes = s->sums_bytes};
    struct err why = {0};

    s->failure = s->damage;
    if (s->failure.code == 0 && s->histograms_unix > 0 && s->log_copy == NULL &&
        write_histograms(s, &why) < 0)
        log_warn("the histograms of step %llu were not written: %s",
                 (unsigned long long)s->step, why.msg);
    if (s->failure.code < 0 || sync_sides(s) < 0 ||
        checkpoint_write(&args, &s->failure) < 0)
        return;
    if (retention_drop_old(&s->args.keep, s->dir, &why) < 0)
        log_warn("older checkpoints were not removed yet: %s", why.msg);
    if (s->log_copy != NULL)
        (void)store_copy(s->args.store, 0, STORE_ALL_ROWS, s->log_copy, &s->failure);
    else if (retention_release_rows(s->dir, s->step, s->args.store, &why) < 0)
        log_warn("%s", why.msg);
}

static void check_work(uv_work_t *work)
{
    struct run_saver *s = work->data;

    (void)store_check(s->args.store, s->sums, s->sums_bytes, &s->failure);
}

/* ---- on the loop ---- */

/* Starts work on another thread. Copies the checksums that the work compares: those of
 * all rows that updates may have drawn since the last check. */
static void begin_work(struct run_saver *s, uv_work_cb work, uv_after_work_cb after)
{
    const struct store *log = s->args.store;

    s->failure = (struct err){0};
    s->is_waiting = 0;
    s->sums_bytes = 0;
    if (log != NULL) {
        s->head = store_head(log);
        store_sums_save(log, store_needed_first_at(log, s->checked), &s->sums,
                        &s->sums_bytes);
    }
    CHECK(uv_queue_work(s->args.loop, &s->work, work, after) == 0);
    s->busy = 1;
}

static void end_work(struct run_saver *s, int status)
{
    CHECK(status == 0);
    s->busy = 0;
    if (s->failure.code == ERR_CORRUPT)
        s->damage = s->failure;
    free(s->sums);
    s->sums = NULL;
    if (s->wants_check) /* before the callback, which may begin the next checkpoint */
        run_saver_check_log(s);
}

static void on_write_done(uv_work_t *work, int status)
{
    struct run_saver *s = work->data;
    const struct err failure = s->failure;

    if (failure.code == 0)
        s->checked = s->head;
    end_work(s, status);
    s->args.on_written(s->args.ctx, s->step, failure.code < 0 ? &failure : NULL);
}

static void on_check_done(uv_work_t *work, int status)
{
    struct run_saver *s = work->data;
    const struct err failure = s->failure;

    end_work(s, status);
    s->args.on_log_checked(s->args.ctx, failure.code < 0 ? &failure : NULL);
}

void run_saver_check_log(struct run_saver *s)
{
    s->wants_check = s->busy;
    if (s->busy || s->args.store == NULL || store_layout(s->args.store)->n_columns == 0)
        return;
    begin_work(s, check_work, on_check_done);
}

static void begin_write(struct run_saver *s)
{
    s->dir = s->next_dir;
    s->log_copy = s->next_log_copy;
    checkpoint_announce(s->dir, s->step);
    s->busy = s->is_waiting = 1;
    run_saver_ready(s);
}

void run_saver_ready(struct run_saver *s)
{
    if (s->is_waiting && (s->args.is_ready == NULL || s->log_copy != NULL ||
                          s->args.is_ready(s->args.ctx, s->step)))
        begin_work(s, write_work, on_write_done);
}

void run_saver_redirect(struct run_saver *s, const char *dir, const char *log)
{
    s->next_dir = dir;
    s->next_log_copy = log;
}

int run_saver_is_redirected(const struct run_saver *s)
{
    return s->log_copy != NULL;
}

int run_saver_repeat(struct run_saver *s)
{
    if (s->busy || s->dir == NULL)
        return 0;
    begin_write(s);
    return 1;
}

/* ---- copying the run's state ---- */

static int take_copy(struct copy *to, const void *data, size_t len, struct err *err)
{
    if (len > to->cap) {
        void *p = pages_map(len);

        if (p == NULL)
            return err_set(err, ERR_NOMEM, "no memory to copy %zu bytes", len);
        pages_unmap(to->data, to->cap);
        *to = (struct copy){p, len};
    }
    if (len > 0)
        memcpy(to->data, data, len);
    return 0;
}

static int copy_agents(struct run_saver *s, const struct save_point *p, struct err *err)
{
    int rc = 0;

    if (s->agents == NULL) {
        s->n_agents = p->n_agents;
        s->agents = xcalloc(p->n_agents, sizeof(*s->agents));
        s->blocks = xcalloc(p->n_agents, sizeof(*s->blocks));
    }
    CHECK(p->n_agents == s->n_agents);
    for (size_t i = 0; i < s->n_agents && rc == 0; i++) {
        rc = take_copy(&s->blocks[i], p->agents[i].block, p->agents[i].block_bytes, err);
        s->agents[i] = p->agents[i];
        s->agents[i].block = s->blocks[i].data;
    }
    return rc;
}

static int copy_section(struct run_saver *s, const char *name, const void *data,
                        size_t len, struct err *err)
{
    const size_t i = s->n_sections++;
    int rc = take_copy(&s->section_data[i], data, len, err);

    s->sections[i] = (struct checkpoint_section){name, s->section_data[i].data, len};
    return rc;
}

static int copy_text(struct run_saver *s, const char *name, const char *text,
                     struct err *err)
{
    return copy_section(s, name, text, strlen(text), err);
}

/* Copies the sections that resume.c reads. */
static int copy_sections(struct run_saver *s, const struct save_point *p, struct err *err)
{
    char numerics[32];
    uint8_t *log;
    size_t log_bytes;
    int rc;

    (void)snprintf(numerics, sizeof(numerics), "%s %d", numerics_names[p->numerics],
                   NUMERICS_VERSION);
    store_state_save(s->args.store, &log, &log_bytes);
    s->n_sections = 0;
    rc = copy_section(s, SECTION_ROLLOUT, p->rollout, p->rollout_bytes, err);
    if (rc == 0)
        rc = copy_section(s, SECTION_EXPERIENCE, log, log_bytes, err);
    if (rc == 0)
        rc = copy_text(s, SECTION_BUILD_ID, p->build_id, err);
    if (rc == 0)
        rc = copy_text(s, SECTION_FINGERPRINT, p->fingerprint, err);
    if (rc == 0)
        rc = copy_text(s, SECTION_CONFIG, p->config_yaml, err);
    if (rc == 0)
        rc = copy_text(s, SECTION_NUMERICS, numerics, err);
    if (rc == 0 && p->inexact != NULL)
        rc = copy_text(s, SECTION_INEXACT, p->inexact, err);
    if (rc == 0 && p->evaluations_bytes > 0)
        rc = copy_section(s, SECTION_EVALUATIONS, p->evaluations, p->evaluations_bytes,
                          err);
    free(log);
    return rc;
}

int run_saver_begin(struct run_saver *s, const struct save_point *p, struct err *err)
{
    int rc;

    CHECK(!s->busy);
    rc = copy_agents(s, p, err);
    if (rc == 0)
        rc = copy_sections(s, p, err);
    if (rc < 0) {
        /* the copies may mix two steps: run_saver_repeat must not write them */
        s->dir = NULL;
        return rc;
    }
    s->step = p->step;
    s->args.keep.best = p->best;
    s->histograms_unix = s->args.weights != NULL ? p->histograms_unix : 0;
    begin_write(s);
    return 0;
}
