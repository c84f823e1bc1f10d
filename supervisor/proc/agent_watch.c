/* The watchdog: agents that do not answer, and agents that take too much memory.
 *
 * An agent that computes sends "progress" from time to time; otherwise it is silent. One
 * that is given memory is not: it may take a while to allocate weights or to load a library,
 * most of all where memory is short. The
 * process's state and processor time tell why (worker_activity). Memory is private resident
 * memory (resident.h), as in `status`.
 */
#include "common/mem/size_text.h"
#include "supervisor/proc/agent.h"

#include <stdio.h>

#define NS_PER_S       1e9
#define STARVED_FACTOR 10 /* a process that gets no processor may be silent longer */
#define MAX_RESPOND_S  1e9
#define GROWTH_BYTES   (UINT64_C(1) << 20) /* of memory, which count as a sign of life */

/* ---- silence ---- */

void agent_note_sign_of_life(struct agent *a)
{
    a->last_sign_ns = uv_hrtime();
    a->is_overdue = a->is_sampled = 0;
}

static int must_answer(const struct agent *a)
{
    return (a->state == PROC_STARTING || proc_state_is_asked(a->state)) &&
           a->link->is_running;
}

static const char *what_it_does(char state, unsigned long ticks)
{
    switch (state) {
    case 'T':
    case 't':
        return "is stopped";
    case 'D':
        return "waits for a disk";
    case 'S':
        return ticks == 0 ? "waits for something that does not come" : "computes";
    default:
        return ticks == 0 ? "gets no processor" : "computes without an end";
    }
}

/* A process that is slow to begin, as it imports or builds much, may only need more time. */
static void put_patience(const struct agent *a, char state, char *ret, size_t size)
{
    const int is_starting = a->state == PROC_STARTING || a->state == PROC_CONFIGURING;
    const char *section = a->kind->section;

    ret[0] = '\0';
    if (!is_starting || state == 'T' || state == 't' ||
        (section == NULL && a->spec.is_trial))
        return;
    (void)snprintf(ret, size, "; if it is slow to start, raise %s%s.respond_within (%gs)",
                   section != NULL ? "" : "agents.", section != NULL ? section : a->name,
                   a->limits.respond_within_s);
}

static void report_silent(struct agent *a, uint64_t silent_ns,
                          const struct worker_activity *now)
{
    char task[96], space[128], patience[AGENT_NAME_MAX + 96];
    struct err err;

    /* a program that gets no memory may retry for ever */
    space[0] = '\0';
    if (now->space_limit_bytes != 0)
        (void)snprintf(space, sizeof(space),
                       "; its address space is limited to %s (ulimit -v), it may lack "
                       "memory",
                       size_text(now->space_limit_bytes, (char[SIZE_TEXT_BYTES]){0}));
    put_patience(a, now->state, patience, sizeof(patience));
    (void)snprintf(task, sizeof(task), "hello");
    if (a->state != PROC_STARTING)
        agent_name_awaited(a, task, sizeof(task));
    a->is_blameless = now->state == 'T' || now->state == 't';
    (void)err_set(&err, ERR_TIMEOUT, "it did not answer %s for %.1f s: it %s%s%s", task,
                  (double)silent_ns / NS_PER_S,
                  what_it_does(now->state, now->ticks - a->overdue_ticks), space,
                  patience);
    agent_feed_bad(a, &err);
}

/* Whether the process is ready to run but got no processor since the last check, because
 * the machine is busy. */
static int is_starved(const struct agent *a, const struct worker_activity *now)
{
    return now->state == 'R' && now->ticks == a->overdue_ticks;
}

/* Whether the process got memory since half of its time was over. */
static int has_grown(struct agent *a, const struct worker_activity *now)
{
    if (a->is_sampled)
        return now->resident_bytes >= a->sampled_bytes + GROWTH_BYTES;
    a->is_sampled = 1;
    a->sampled_bytes = now->resident_bytes;
    return 0;
}

/* Checks twice, to see the processor time used in between. */
static void watch_silence(struct agent *a, uint64_t now_ns)
{
    const double within_s = a->limits.respond_within_s;
    const uint64_t silent_ns = now_ns - a->last_sign_ns;
    struct worker_activity now;

    if (!must_answer(a) || within_s <= 0 || within_s > MAX_RESPOND_S ||
        now_ns < a->last_sign_ns || silent_ns < (uint64_t)(within_s / 2 * NS_PER_S))
        return;
    if (a->link->ops->activity(a->link, &now) < 0)
        return; /* its exit is on its way */
    if (has_grown(a, &now)) {
        agent_note_sign_of_life(a);
        return;
    }
    if (silent_ns < (uint64_t)(within_s * NS_PER_S))
        return;
    if (!a->is_overdue) {
        a->is_overdue = 1;
        a->overdue_ticks = now.ticks;
    } else if (!is_starved(a, &now) ||
               silent_ns >= (uint64_t)(STARVED_FACTOR * within_s * NS_PER_S)) {
        report_silent(a, silent_ns, &now);
    }
}

void agent_extend_deadline(struct agent *a, uint64_t ns)
{
    a->last_sign_ns += ns;
    a->is_overdue = 0;
}

/* ---- memory ---- */

void agent_watch(struct agent *a, uint64_t now_ns)
{
    const int64_t limit = a->limits.memory_limit_bytes;
    struct err err;
    int64_t own;

    watch_silence(a, now_ns);
    if (limit == 0 || !proc_state_is_serving(a->state) || !a->link->is_running ||
        (own = a->link->ops->memory(a->link)) <= limit)
        return;
    a->is_over_memory = 1;
    (void)err_set(&err, ERR_LIMIT, "it takes %s of memory, its memory_limit is %s",
                  size_text_limit((uint64_t)own, (char[SIZE_TEXT_BYTES]){0}),
                  size_text_limit((uint64_t)limit, (char[SIZE_TEXT_BYTES]){0}));
    agent_feed_bad(a, &err);
}
