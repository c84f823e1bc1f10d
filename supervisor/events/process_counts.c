#include "supervisor/events/process_counts.h"

#include "common/mem/xmalloc.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Seconds of a journal's time (log_time), with its milliseconds; 0 if it is malformed. */
static double seconds_of(const char *time)
{
    struct tm utc = {0};
    const char *rest = strptime(time, "%Y-%m-%dT%H:%M:%S", &utc);
    double part = 0;

    if (rest == NULL)
        return 0;
    if (*rest == '.')
        for (double unit = 0.1; *++rest >= '0' && *rest <= '9'; unit /= 10)
            part += unit * (*rest - '0');
    return (double)timegm(&utc) + part;
}

struct process_counted {
    char *name;
    struct process_count count;
    double
        ended_unix; /* when the last process ended, if another one is awaited; else 0 */
};

void process_counts_done(struct process_counts *c)
{
    for (size_t i = 0; i < c->n; i++)
        free(c->list[i].name);
    free(c->list);
    *c = (struct process_counts){0};
}

/* The search begins after the process found last, because lines come in their order. Returns
 * c->n if there is none. */
static size_t find(const struct process_counts *c, const char *name)
{
    for (size_t i = 0; i < c->n; i++) {
        const size_t at = (c->last + 1 + i) % c->n;

        if (strcmp(c->list[at].name, name) == 0)
            return at;
    }
    return c->n;
}

/* NULL: there are too many. */
static struct process_counted *entry_of(struct process_counts *c, const char *name)
{
    const size_t at = find(c, name);

    if (at == c->n && c->n == PROCESS_COUNTS_MAX)
        return NULL;
    if (at == c->n) {
        ARRAY_GROW(c->list, c->n, c->cap);
        c->list[c->n++] = (struct process_counted){.name = xstrdup(name)};
    }
    c->last = at;
    return &c->list[at];
}

static void take_exit(struct process_counted *p, const struct run_event *e)
{
    const struct run_event_process *from = &e->process;

    p->count.hangs += from->limit != NULL && strcmp(from->limit, "respond_within") == 0;
    p->count.lost_s += isfinite(from->seconds) ? fmax(0, from->seconds) : 0;
    p->ended_unix = seconds_of(e->time);
}

static void take_process(struct process_counts *c, const struct run_event *e)
{
    const struct run_event_process *from = &e->process;
    const char *name = from->agent != NULL ? from->agent : from->environment;
    struct process_counted *p = name != NULL ? entry_of(c, name) : NULL;

    if (p == NULL)
        return;
    switch (e->kind) {
    case RUN_EVENT_EXIT:
        take_exit(p, e);
        break;
    case RUN_EVENT_RESPAWN:
        p->count.restarts++;
        break;
    case RUN_EVENT_SLOW:
        p->count.slow++;
        p->count.lost_s += isfinite(from->seconds) ? fmax(0, from->seconds) : 0;
        break;
    case RUN_EVENT_READY:
        if (p->ended_unix > 0)
            p->count.lost_s += fmax(0, seconds_of(e->time) - p->ended_unix);
        p->ended_unix = 0;
        break;
    default:
        p->ended_unix = 0;
        break;
    }
}

void process_counts_take(struct process_counts *c, const struct run_event *e)
{
    struct process_counted *p;

    switch (e->kind) {
    case RUN_EVENT_START:
    case RUN_EVENT_RESUME:
    case RUN_EVENT_END:
    case RUN_EVENT_SUPERVISOR_EXIT:
        process_counts_begin(c);
        break;
    case RUN_EVENT_SPAWN:
    case RUN_EVENT_EXIT:
    case RUN_EVENT_RESPAWN:
    case RUN_EVENT_READY:
    case RUN_EVENT_SLOW:
    case RUN_EVENT_GIVE_UP:
        take_process(c, e);
        break;
    case RUN_EVENT_SKIP:
        p = e->skip.environment != NULL ? entry_of(c, e->skip.environment) : NULL;
        if (p != NULL)
            p->count.skipped++;
        break;
    default:
        break;
    }
}

void process_counts_begin(struct process_counts *c)
{
    for (size_t i = 0; i < c->n; i++)
        c->list[i].ended_unix = 0;
}

struct process_count process_counts_of(const struct process_counts *c,
                                       const char *process)
{
    const size_t at = find(c, process);

    return at < c->n ? c->list[at].count : (struct process_count){0};
}

void process_count_add(struct process_count *to, const struct process_count *c)
{
    to->restarts += c->restarts;
    to->hangs += c->hangs;
    to->slow += c->slow;
    to->skipped += c->skipped;
    to->lost_s += c->lost_s;
}

struct process_count process_counts_all(const struct process_counts *c)
{
    struct process_count all = {0};

    for (size_t i = 0; i < c->n; i++)
        process_count_add(&all, &c->list[i].count);
    return all;
}

const char *process_count_text(const struct process_count *c,
                               char ret[PROCESS_COUNT_TEXT_BYTES])
{
    const struct {
        uint64_t n;
        const char *one, *many;
    } parts[] = {{c->restarts, "restart", "restarts"},
                 {c->hangs, "hang", "hangs"},
                 {c->slow, "slow answer", "slow answers"},
                 {c->skipped, "skipped episode", "skipped episodes"}};
    size_t len = 0;

    *ret = '\0';
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
        if (parts[i].n > 0)
            len += (size_t)snprintf(ret + len, PROCESS_COUNT_TEXT_BYTES - len,
                                    "%s%" PRIu64 " %s", len > 0 ? ", " : "", parts[i].n,
                                    parts[i].n == 1 ? parts[i].one : parts[i].many);
    if (len > 0)
        (void)snprintf(ret + len, PROCESS_COUNT_TEXT_BYTES - len, ", %.1f s lost",
                       c->lost_s);
    return ret;
}
