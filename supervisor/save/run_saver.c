#include "supervisor/save/run_saver.h"

#include "common/err/check.h"
#include "common/log/log.h"
#include "common/mem/pages.h"
#include "common/mem/xmalloc.h"

#include <stdlib.h>
#include <string.h>

struct copy {
    void *data;
    size_t cap;
};

struct checkpointer {
    struct checkpointer_args args;
    const char *next_dir, *next_log_copy;
    uv_work_t work;
    int busy;
    const char *dir, *log_copy; /* of the newest that was begun; NULL: none */
    struct err failure;         /* of the one that is being written; code 0: none */

    /* What is being written. The memory is used again: fresh pages would cost more than
     * the copying. */
    uint64_t step;
    struct checkpoint_agent *agents;
    size_t n_agents;
    struct checkpoint_section *sections;
    size_t n_sections;
    struct copy *copies; /* [n_agents + n_sections] */

    uint64_t checked; /* head of the log when all rows were last found sound */
    uint64_t head;    /* in what is being written */
    uint8_t *sums;    /* of the rows to look at */
    size_t sums_bytes;
    int wants_look;
};

struct checkpointer *checkpointer_new(const struct checkpointer_args *args)
{
    struct checkpointer *c = xcalloc(1, sizeof(*c));

    c->args = *args;
    c->next_dir = args->dir;
    c->work.data = c;
    c->checked = args->store != NULL ? store_head(args->store) : 0;
    return c;
}

void checkpointer_free(struct checkpointer *c)
{
    if (c == NULL)
        return;
    CHECK(!c->busy);
    for (size_t i = 0; i < c->n_agents + c->n_sections; i++)
        pages_unmap(c->copies[i].data, c->copies[i].cap);
    free(c->copies);
    free(c->agents);
    free(c->sections);
    free(c);
}

int checkpointer_is_busy(const struct checkpointer *c)
{
    return c->busy;
}

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

/* The same agents and as many sections every time. */
static void make_room(struct checkpointer *c, size_t n_agents, size_t n_sections)
{
    if (c->copies == NULL) {
        c->n_agents = n_agents;
        c->n_sections = n_sections;
        c->agents = xcalloc(n_agents, sizeof(*c->agents));
        c->sections = xcalloc(n_sections, sizeof(*c->sections));
        c->copies = xcalloc(n_agents + n_sections, sizeof(*c->copies));
    }
    CHECK(n_agents == c->n_agents && n_sections == c->n_sections);
}

static int copy_all(struct checkpointer *c, const struct checkpoint_agent *agents,
                    const struct checkpoint_section *sections, struct err *err)
{
    struct copy *to = c->copies;
    int rc = 0;

    for (size_t i = 0; i < c->n_agents && rc == 0; i++, to++) {
        rc = take_copy(to, agents[i].block, agents[i].block_bytes, err);
        c->agents[i] = agents[i];
        c->agents[i].block = to->data;
    }
    for (size_t i = 0; i < c->n_sections && rc == 0; i++, to++) {
        rc = take_copy(to, sections[i].data, sections[i].len, err);
        c->sections[i] = sections[i];
        c->sections[i].data = to->data;
    }
    return rc;
}

/* On another thread. */
static void on_work(uv_work_t *work)
{
    struct checkpointer *c = work->data;
    const struct checkpoint_args args = {.dir = c->dir,
                                         .step = c->step,
                                         .agents = c->agents,
                                         .n_agents = c->n_agents,
                                         .sections = c->sections,
                                         .n_sections = c->n_sections,
                                         .keep = c->args.keep,
                                         .log = c->args.store,
                                         .log_sums = c->sums,
                                         .log_sums_bytes = c->sums_bytes};
    struct err why = {0};

    if (checkpoint_commit(&args, &c->failure) < 0)
        return;
    if (c->log_copy != NULL)
        (void)store_copy(c->args.store, c->log_copy, &c->failure);
    else if (checkpoint_forget_rows(args.dir, c->step, c->args.store, &why) < 0)
        log_warn("%s", why.msg);
}

static void end_work(struct checkpointer *c)
{
    c->busy = 0;
    free(c->sums);
    c->sums = NULL;
}

static void on_worked(uv_work_t *work, int status)
{
    struct checkpointer *c = work->data;
    const struct err failure = c->failure;

    CHECK(status == 0);
    end_work(c);
    if (failure.code == 0)
        c->checked = c->head;
    if (c->wants_look) /* before anything else is begun */
        checkpointer_look(c);
    c->args.on_written(c->args.ctx, c->step, failure.code < 0 ? &failure : NULL);
}

/* Updates have drawn from the windows of all heads since the last check. */
static void take_sums(struct checkpointer *c)
{
    const struct store *log = c->args.store;

    c->sums_bytes = 0;
    if (log == NULL)
        return;
    c->head = store_head(log);
    store_sums_save(log, store_window_first_at(log, c->checked), &c->sums,
                    &c->sums_bytes);
}

/* On another thread. */
static void on_look(uv_work_t *work)
{
    struct checkpointer *c = work->data;

    (void)store_check(c->args.store, c->sums, c->sums_bytes, &c->failure);
}

static void on_look_over(uv_work_t *work, int status)
{
    struct checkpointer *c = work->data;
    const struct err failure = c->failure;

    CHECK(status == 0);
    end_work(c);
    if (c->wants_look)
        checkpointer_look(c);
    c->args.on_looked(c->args.ctx, failure.code < 0 ? &failure : NULL);
}

void checkpointer_look(struct checkpointer *c)
{
    c->wants_look = c->busy;
    if (c->busy || c->args.store == NULL || store_layout(c->args.store)->n_columns == 0)
        return;
    c->failure = (struct err){0};
    take_sums(c);
    CHECK(uv_queue_work(c->args.loop, &c->work, on_look, on_look_over) == 0);
    c->busy = 1;
}

static void write_down(struct checkpointer *c)
{
    c->failure = (struct err){0};
    take_sums(c);
    c->dir = c->next_dir;
    c->log_copy = c->next_log_copy;
    checkpoint_announce(c->dir, c->step);
    CHECK(uv_queue_work(c->args.loop, &c->work, on_work, on_worked) == 0);
    c->busy = 1;
}

void checkpointer_move(struct checkpointer *c, const char *dir, const char *log)
{
    c->next_dir = dir;
    c->next_log_copy = log;
}

int checkpointer_is_moved(const struct checkpointer *c)
{
    return c->log_copy != NULL;
}

int checkpointer_again(struct checkpointer *c)
{
    if (c->busy || c->dir == NULL)
        return 0;
    write_down(c);
    return 1;
}

int checkpointer_begin(struct checkpointer *c, uint64_t step,
                       const struct checkpoint_agent *agents, size_t n_agents,
                       const struct checkpoint_section *sections, size_t n_sections,
                       struct err *err)
{
    int rc;

    CHECK(!c->busy);
    make_room(c, n_agents, n_sections);
    rc = copy_all(c, agents, sections, err);
    if (rc < 0)
        return rc;
    c->step = step;
    write_down(c);
    return 0;
}
