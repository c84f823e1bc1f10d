/* The watchdog: agents that do not answer, and agents that take too much memory.
 *
 * What tells silence from work: an agent that computes says so now and then ("progress").
 * What tells its kinds apart: its state and processor time in /proc. Memory is judged by
 * what is resident and its own (a mapped log or block is not); because a burst between
 * two looks would still hurt the machine, the kernel refuses it more than twice the
 * limit (RLIMIT_DATA: address space, of which OpenBLAS reserves some that it never
 * touches, hence the margin).
 */
#include "supervisor/proc/agent.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#define NS_PER_S       1e9
#define MEMORY_MARGIN  ((rlim_t)256 << 20)
#define BYTES_PER_MB   1e6
#define MAX_RESPOND_S  1e9
#define PROC_FILE_SIZE 1024

/* ---- /proc ---- */

static int read_proc(pid_t pid, const char *file, char ret[PROC_FILE_SIZE])
{
    char path[64];
    ssize_t n;
    int fd;

    (void)snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, file);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -1;
    n = read(fd, ret, PROC_FILE_SIZE - 1);
    (void)close(fd);
    ret[n < 0 ? 0 : n] = '\0';
    return n > 0 ? 0 : -1;
}

/* State and processor time, in clock ticks (fields 3, 14 and 15 of stat). */
static int read_stat(pid_t pid, char *ret_state, unsigned long *ret_ticks)
{
    char text[PROC_FILE_SIZE];
    const char *end;
    unsigned long user, system;

    if (read_proc(pid, "stat", text) < 0 || (end = strrchr(text, ')')) == NULL ||
        sscanf(end + 1, " %c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", ret_state,
               &user, &system) != 3)
        return -1;
    *ret_ticks = user + system;
    return 0;
}

/* Resident and not shared with anybody; 0 if unknown. */
static uint64_t own_bytes(pid_t pid)
{
    char text[PROC_FILE_SIZE];
    unsigned long resident, shared;

    if (read_proc(pid, "statm", text) < 0 ||
        sscanf(text, "%*u %lu %lu", &resident, &shared) != 2 || shared > resident)
        return 0;
    return (resident - shared) * (uint64_t)sysconf(_SC_PAGESIZE);
}

/* ---- silence ---- */

void agent_heard(struct agent *a)
{
    a->heard_at_ns = uv_hrtime();
    a->is_overdue = 0;
}

static int owes_something(const struct agent *a)
{
    return proc_state_is_live(a->state) && a->state != PROC_IDLE && !a->proc.exited;
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

static void accuse(struct agent *a, uint64_t silent_ns)
{
    char task[96], state = '?';
    unsigned long ticks = a->overdue_ticks;
    struct err err;

    (void)snprintf(task, sizeof(task), "hello");
    if (a->state != PROC_STARTING)
        agent_name_awaited(a, task, sizeof(task));
    (void)read_stat(a->proc.pid, &state, &ticks);
    a->is_blameless = state == 'T' || state == 't';
    (void)err_set(&err, ERR_TIMEOUT, "it did not answer %s for %.1f s: it %s", task,
                  (double)silent_ns / NS_PER_S,
                  what_it_does(state, ticks - a->overdue_ticks));
    agent_bad(a, &err);
}

/* Twice: its processor time in between tells what it does. */
static void watch_silence(struct agent *a, uint64_t now_ns)
{
    const double within_s = a->limits.respond_within_s;
    const uint64_t silent_ns = now_ns - a->heard_at_ns;
    char state;

    if (!owes_something(a) || within_s <= 0 || within_s > MAX_RESPOND_S ||
        now_ns < a->heard_at_ns || silent_ns < (uint64_t)(within_s * NS_PER_S))
        return;
    if (a->is_overdue) {
        accuse(a, silent_ns);
        return;
    }
    a->is_overdue = read_stat(a->proc.pid, &state, &a->overdue_ticks) == 0;
}

void agent_forgive(struct agent *a, uint64_t ns)
{
    a->heard_at_ns += ns;
    a->is_overdue = 0;
}

/* ---- memory ---- */

#ifdef __SANITIZE_ADDRESS__
enum { TELL_KERNEL = 0 }; /* it reserves more than any limit */
#else
enum { TELL_KERNEL = 1 };
#endif

void agent_limit_memory(struct agent *a)
{
    const rlim_t limit = (rlim_t)a->limits.memory_limit_bytes;
    struct rlimit r = {RLIM_INFINITY, RLIM_INFINITY};

    if (!TELL_KERNEL || a->proc.pid == 0 || a->proc.exited)
        return;
    if (limit > 0)
        r.rlim_cur = 2 * limit + MEMORY_MARGIN;
    (void)prlimit(a->proc.pid, RLIMIT_DATA, &r, NULL);
}

static void watch_memory(struct agent *a)
{
    const uint64_t limit = (uint64_t)a->limits.memory_limit_bytes;
    struct err err;
    uint64_t own;

    if (limit == 0 || !proc_state_is_live(a->state) || a->proc.exited ||
        (own = own_bytes(a->proc.pid)) <= limit)
        return;
    (void)err_set(&err, ERR_LIMIT, "it takes %.1f MB of memory, its memory_limit is %.1f",
                  (double)own / BYTES_PER_MB, (double)limit / BYTES_PER_MB);
    agent_bad(a, &err);
}

void agent_watch(struct agent *a, uint64_t now_ns)
{
    watch_silence(a, now_ns);
    watch_memory(a);
}
