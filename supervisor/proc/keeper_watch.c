#include "supervisor/proc/keeper_watch.h"

#include "supervisor/proc/pid_file.h"
#include "supervisor/proc/stall.h"

#include <sys/mman.h>

void keeper_watch_init(struct keeper_watch *w)
{
    void *page = mmap(NULL, sizeof(*w->beats), PROT_READ | PROT_WRITE,
                      MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    *w = (struct keeper_watch){.beats = page != MAP_FAILED ? page : NULL};
}

static int is_stopped(pid_t pid)
{
    struct pid_stat stat;

    return pid_stat_read(pid, &stat) == 0 && stat.state == 'T';
}

static enum keeper_news note_silence(struct keeper_watch *w, pid_t pid, int stopped,
                                     int64_t lived)
{
    if (w->silent_ms == 0 && stopped)
        (void)clock_gettime(CLOCK_REALTIME, &w->since);
    w->silent_ms += lived > 0 ? lived : 1;
    if (w->limit_ms > 0 && stall_tracer(pid) == 0)
        w->overdue_ms += lived;
    if (!w->is_stalled && (stopped || w->silent_ms >= KEEPER_STALL_MS)) {
        w->is_stalled = 1;
        return KEEPER_STALLS;
    }
    if (w->limit_ms == 0 || w->overdue_ms < w->limit_ms)
        return KEEPER_NO_NEWS;
    w->overdue_ms = 0;
    return KEEPER_OVERDUE;
}

enum keeper_news keeper_watch_look(struct keeper_watch *w, pid_t supervisor,
                                   int64_t now_ms, int is_paused)
{
    const uint64_t beats = w->beats != NULL ? atomic_load(w->beats) : 0;
    const int stopped = !is_paused && is_stopped(supervisor);
    const int is_silent = stopped || (!is_paused && beats != 0 && beats == w->last);
    const int was_stalled = w->is_stalled;
    int64_t lived = w->looked_ms != 0 ? now_ms - w->looked_ms : 0;

    if (lived > 2 * KEEPER_LOOK_MS) /* this process did not live through all of it */
        lived = 2 * KEEPER_LOOK_MS;
    w->last = beats;
    w->looked_ms = now_ms;
    if (is_silent)
        return note_silence(w, supervisor, stopped, lived);
    w->silent_ms = w->overdue_ms = 0;
    w->is_stalled = 0;
    if (was_stalled)
        return KEEPER_GOES_ON;
    (void)clock_gettime(CLOCK_REALTIME, &w->since);
    return KEEPER_NO_NEWS;
}
