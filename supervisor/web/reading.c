#include "supervisor/web/reading.h"

#include "common/io/beneath.h"
#include "common/io/patience.h"
#include "common/mem/xmalloc.h"

#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Threads of the loop's pool. Those that no lane has replace threads of late readings. */
enum { THREADS = 16, LOOK_EVERY_MS = 250, PATIENCE_MS = READING_WITHIN_MS - 1000 };
static const size_t lane_threads[READING_N_LANES] = {
    [READING_LIST] = 3, [READING_VIEW] = 2, [READING_REQUEST] = 3, [READING_STUDY] = 1};

struct readings {
    uv_loop_t *loop;
    TAILQ_HEAD(, reading) list; /* in the order in which they came */
    size_t n_busy;              /* threads */
    size_t n_running[READING_N_LANES];
    uv_timer_t timer; /* for the next deadline */
    int is_closing;
};

static void start_some(struct readings *all);

static void work(uv_work_t *w)
{
    struct reading *r = w->data;

    /* While the directory is held, no link in it leads out of it. */
    if (beneath_hold(r->dir, &r->not_held) < 0)
        return;
    patience_begin(PATIENCE_MS);
    patience_enter(r->dir);
    r->read(r);
    patience_leave();
    beneath_release(r->dir);
}

static void after_work(uv_work_t *w, int status)
{
    struct reading *r = w->data;
    struct readings *all = r->all;

    all->n_busy--;
    TAILQ_REMOVE(&all->list, r, entry);
    if (r->state == READING_RUNS) {
        all->n_running[r->lane]--;
        if (!all->is_closing)
            r->end(r, r->not_held.code != 0 ? &r->not_held : NULL);
    }
    r->free(r);
    start_some(all);
}

static int is_busy(const struct readings *all, const char *dir)
{
    const struct reading *r;

    TAILQ_FOREACH(r, &all->list, entry)
    if (r->state != READING_WAITS && strcmp(r->dir, dir) == 0)
        return 1;
    return 0;
}

static void start_some(struct readings *all)
{
    struct reading *r;

    TAILQ_FOREACH(r, &all->list, entry)
    {
        if (all->n_busy == THREADS || all->is_closing)
            return;
        if (r->state != READING_WAITS ||
            all->n_running[r->lane] == lane_threads[r->lane] || is_busy(all, r->dir))
            continue;
        r->state = READING_RUNS;
        r->has_begun = 1;
        all->n_running[r->lane]++;
        all->n_busy++;
        if (uv_queue_work(all->loop, &r->work, work, after_work) < 0)
            abort(); /* fails only without a function to call */
    }
}

/* The process ends though a thread reads what never ends. */
static void on_too_late(uv_timer_t *timer)
{
    _exit(0);
}

static void on_look(uv_timer_t *timer)
{
    struct readings *all = timer->data;
    const uint64_t now = uv_now(all->loop);
    struct reading *r, *next;
    struct err why;

    for (r = TAILQ_FIRST(&all->list); r != NULL; r = next) {
        if (r->state != READING_IS_LATE && now >= r->ends_ms) {
            r->state = READING_IS_LATE;
            all->n_running[r->lane] -= (size_t)r->has_begun;
            why = reading_late_err(r);
            r->end(r, &why); /* which may add others */
        }
        next = TAILQ_NEXT(r, entry);
        if (r->state == READING_IS_LATE && !r->has_begun) {
            TAILQ_REMOVE(&all->list, r, entry);
            r->free(r);
        }
    }
    start_some(all);
    TAILQ_FOREACH(r, &all->list, entry)
    if (r->state != READING_IS_LATE)
        return;
    (void)uv_timer_stop(timer);
}

void readings_set_pool(void)
{
    char size[16];

    (void)mallopt(M_ARENA_MAX, 2); /* otherwise each thread keeps memory of its own */
    (void)snprintf(size, sizeof(size), "%d", THREADS);
    (void)setenv("UV_THREADPOOL_SIZE", size, 1);
}

struct readings *readings_new(uv_loop_t *loop)
{
    struct readings *all = xcalloc(1, sizeof(*all));

    all->loop = loop;
    TAILQ_INIT(&all->list);
    (void)uv_timer_init(loop, &all->timer);
    all->timer.data = all;
    (void)unsetenv("UV_THREADPOOL_SIZE"); /* of programs that this one starts */
    return all;
}

static struct reading *find_waiting(const struct readings *all)
{
    struct reading *r;

    TAILQ_FOREACH(r, &all->list, entry)
    if (r->state == READING_WAITS)
        break;
    return r;
}

void readings_close(struct readings *all)
{
    struct reading *r;

    all->is_closing = 1;
    while ((r = find_waiting(all)) != NULL) {
        TAILQ_REMOVE(&all->list, r, entry);
        r->free(r); /* which may add another */
    }
    /* Unreferenced: it does not keep the loop, which ends with the last thread. */
    (void)uv_timer_start(&all->timer, on_too_late, READING_WITHIN_MS, 0);
    uv_unref((uv_handle_t *)&all->timer);
}

void readings_end(struct readings *all)
{
    uv_close((uv_handle_t *)&all->timer, NULL);
}

void readings_free(struct readings *all)
{
    free(all);
}

static uint64_t within_ms(const struct reading *r)
{
    return r->lane == READING_STUDY ? 6 * READING_WITHIN_MS : READING_WITHIN_MS;
}

uint64_t readings_now(const struct readings *all)
{
    return uv_now(all->loop);
}

int reading_is_late(const struct reading *r)
{
    return r->state == READING_IS_LATE;
}

struct err reading_late_err(const struct reading *r)
{
    const char *name = strrchr(r->dir, '/');
    struct err err = {0};

    (void)err_set(&err, ERR_TIMEOUT, "%.100s: to read its files takes longer than %d s",
                  name != NULL ? name + 1 : r->dir, (int)(within_ms(r) / 1000));
    return err;
}

void reading_add(struct readings *all, struct reading *r)
{
    r->all = all;
    r->work.data = r;
    r->state = READING_WAITS;
    r->has_begun = 0;
    r->not_held = (struct err){0};
    r->ends_ms = uv_now(all->loop) + within_ms(r);
    TAILQ_INSERT_TAIL(&all->list, r, entry);
    start_some(all);
    if (!uv_is_active((uv_handle_t *)&all->timer) && !all->is_closing)
        (void)uv_timer_start(&all->timer, on_look, LOOK_EVERY_MS, LOOK_EVERY_MS);
}
