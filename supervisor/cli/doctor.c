#include "supervisor/cli/doctor.h"

#include "common/err/check.h"
#include "common/mem/size_text.h"
#include "common/text/scan.h"
#include "supervisor/proc/descriptors.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Processes and threads of a run besides its agents: keeper, supervisor, sweeper, the
 * threads that write. */
enum { OTHER_PROCESSES = 16 };
/* Memory of an agent with small networks; `brood check` estimates that of a
 * configuration. */
#define AGENT_BYTES UINT64_C(16000000)
#define DISK_BAD    UINT64_C(100000000)
#define DISK_LITTLE UINT64_C(5000000000)
#define SHM_LITTLE  UINT64_C(64000000)

struct findings {
    struct doctor_finding *list;
    size_t n;
};

/* Adds a finding. */
static void add(struct findings *f, const char *check, enum doctor_level level,
                const char *fmt, ...) __attribute__((format(printf, 4, 5)));
/* Adds advice to the newest finding. */
static void advise(struct findings *f, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

static void add(struct findings *f, const char *check, enum doctor_level level,
                const char *fmt, ...)
{
    struct doctor_finding *x = &f->list[f->n++];
    va_list ap;

    CHECK(f->n <= DOCTOR_MAX_FINDINGS, "too many findings");
    *x = (struct doctor_finding){.check = check, .level = level};
    va_start(ap, fmt);
    (void)vsnprintf(x->found, sizeof(x->found), fmt, ap);
    va_end(ap);
}

static void advise(struct findings *f, const char *fmt, ...)
{
    struct doctor_finding *x = &f->list[f->n - 1];
    va_list ap;

    va_start(ap, fmt);
    (void)vsnprintf(x->advice, sizeof(x->advice), fmt, ap);
    va_end(ap);
}

static uint64_t less(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* Returns what is left of a limit. */
static uint64_t left(uint64_t limit, uint64_t used)
{
    if (limit == DOCTOR_NO_LIMIT)
        return limit;
    return used < limit ? limit - used : 0;
}

static const char *limit_text(uint64_t n, char buf[SIZE_TEXT_BYTES])
{
    (void)snprintf(buf, SIZE_TEXT_BYTES, "%llu", (unsigned long long)n);
    return n == DOCTOR_NO_LIMIT ? "unlimited" : buf;
}

/* ---- limits ---- */

static void judge_agent(struct findings *f, const struct doctor_readings *r)
{
    if (r->agent[0] == '\0') {
        add(f, "agent", DOCTOR_OK, "a process started and built its graph");
    } else {
        add(f, "agent", DOCTOR_BAD, "no agent can start: %s", r->agent);
        advise(f, "mend what it says; `brood version` names the executables");
    }
}

static void judge_files(struct findings *f, const struct doctor_readings *r, size_t n)
{
    const uint64_t need = DESCRIPTORS_OTHERS + DESCRIPTORS_PER_AGENT * (uint64_t)n;
    const int is_bad = r->files < need;
    char buf[SIZE_TEXT_BYTES];

    add(f, "open files", is_bad ? DOCTOR_BAD : DOCTOR_OK,
        "%s at most, a run of %zu agent%s needs %llu", limit_text(r->files, buf), n,
        n == 1 ? "" : "s", (unsigned long long)need);
    if (is_bad)
        advise(f,
               "raise the hard limit: `ulimit -Hn %llu` as root, nofile in "
               "/etc/security/limits.conf, LimitNOFILE= of a systemd unit",
               (unsigned long long)need);
}

static void judge_processes(struct findings *f, const struct doctor_readings *r, size_t n)
{
    const uint64_t need = n + OTHER_PROCESSES;
    const uint64_t free = less(left(r->processes, r->my_processes),
                               left(r->group_processes, r->group_processes_now));
    char buf[SIZE_TEXT_BYTES];

    add(f, "processes", free < need ? DOCTOR_BAD : DOCTOR_OK,
        "%s more, a run of %zu agents needs %llu", limit_text(free, buf), n,
        (unsigned long long)need);
    if (free < need && left(r->processes, r->my_processes) < need)
        advise(f, "raise the limit: `ulimit -u`, nproc in /etc/security/limits.conf");
    else if (free < need)
        advise(f, "raise pids.max of the control group: TasksMax= of a systemd unit, "
                  "--pids-limit of a container");
}

static void judge_locked(struct findings *f, const struct doctor_readings *r)
{
    char buf[SIZE_TEXT_BYTES];

    add(f, "locked memory", DOCTOR_OK, "%s; brood locks none",
        r->locked == DOCTOR_NO_LIMIT ? "unlimited" : size_text(r->locked, buf));
}

static void judge_memory(struct findings *f, const struct doctor_readings *r, size_t n)
{
    const uint64_t free =
        less(r->memory_free, left(r->group_memory, r->group_memory_now));
    const uint64_t need = AGENT_BYTES * (n + 2);
    const int is_limited = left(r->group_memory, r->group_memory_now) < r->memory_free;
    char a[SIZE_TEXT_BYTES], b[SIZE_TEXT_BYTES], c[SIZE_TEXT_BYTES];

    add(f, "memory",
        free < need       ? DOCTOR_BAD
        : free / 4 < need ? DOCTOR_NOTE
                          : DOCTOR_OK,
        "%s of %s free%s; small networks of %zu agents take about %s", size_text(free, a),
        size_text(less(r->memory, r->group_memory), b),
        is_limited ? " (a limit of the control group)" : "", n, size_text(need, c));
    if (free / 4 < need)
        advise(f, "%s; `brood check CONFIG` estimates what a run takes",
               is_limited ? "raise memory.max (MemoryMax= of a systemd unit)"
                          : "end other programs, or train fewer agents");
}

/* ---- speed ---- */

static void judge_cores(struct findings *f, const struct doctor_readings *r)
{
    if (r->group_cores <= 0 || r->group_cores >= r->cores) {
        add(f, "cores", DOCTOR_OK, "%d", r->cores);
        return;
    }
    add(f, "cores", DOCTOR_NOTE, "%d, but the control group gets %.3g of them", r->cores,
        r->group_cores);
    advise(f,
           "raise cpu.max (CPUQuota= of a systemd unit, --cpus of a container): agents "
           "wait while the quota is used up");
}

static void judge_kernels(struct findings *f, const struct doctor_readings *r)
{
    const char *name = cpu_kernels_name(r->kernels);

    if (r->kernels != r->best_kernels) {
        add(f, "CPU", DOCTOR_NOTE, "kernels: %s, though it can run %s", name,
            cpu_kernels_name(r->best_kernels));
        advise(f, "unset " CPU_KERNELS_VARIABLE);
    } else if (r->kernels == CPU_KERNELS_PORTABLE) {
        add(f, "CPU", DOCTOR_NOTE, "kernels: portable, it has no AVX2");
        advise(f,
               "another machine, or a virtual one with the host's CPU features, trains "
               "several times faster, with the same bytes");
    } else {
        add(f, "CPU", DOCTOR_OK, "kernels: %s", name);
    }
}

static void judge_clock(struct findings *f, const struct doctor_readings *r)
{
    /* The kernel reads other clocks in system calls, or over a slow bus. */
    static const char *const fast[] = {"tsc", "arch_sys_counter", "kvm-clock",
                                       "hyperv_clocksource_tsc_page", NULL};

    if (text_find(fast, r->clock) >= 0) {
        add(f, "clock", DOCTOR_OK, "%s", r->clock);
        return;
    }
    if (r->clock[0] == '\0') {
        add(f, "clock", DOCTOR_OK, "not known");
        return;
    }
    add(f, "clock", DOCTOR_NOTE, "%s", r->clock);
    advise(f, "each look at the clock is a system call; boot with clocksource=tsc if the "
              "kernel's log does not call it unstable");
}

/* ---- places ---- */

static void judge_runs(struct findings *f, const struct doctor_readings *r)
{
    const int is_network = strcmp(r->file_system, "nfs") == 0 ||
                           strcmp(r->file_system, "cifs") == 0 ||
                           strcmp(r->file_system, "fuse") == 0;
    const int is_lost = strcmp(r->file_system, "tmpfs") == 0;
    char buf[SIZE_TEXT_BYTES];

    if (r->runs_error != 0) {
        add(f, "runs directory", DOCTOR_BAD, "%s cannot be written: %s", r->runs,
            strerror(r->runs_error));
        advise(f, "give another one with --runs-dir or $BROOD_RUNS_DIR");
        return;
    }
    add(f, "runs directory", is_network || is_lost ? DOCTOR_NOTE : DOCTOR_OK, "%s%s%s",
        r->runs, r->file_system[0] != '\0' ? " on " : "", r->file_system);
    if (is_network)
        advise(f,
               "checkpoints and logs wait for the network; a local disk is faster, and "
               "keeps a second supervisor out more surely");
    else if (is_lost)
        advise(f, "runs take memory there and are gone after the next boot");
    if (r->disk_free == DOCTOR_NO_LIMIT) {
        add(f, "disk", DOCTOR_OK, "as much for runs as there is memory");
        return;
    }
    add(f, "disk",
        r->disk_free < DISK_BAD      ? DOCTOR_BAD
        : r->disk_free < DISK_LITTLE ? DOCTOR_NOTE
                                     : DOCTOR_OK,
        "%s free for runs", size_text(r->disk_free, buf));
    if (r->disk_free < DISK_LITTLE)
        advise(f, "`brood prune` removes old checkpoints, `brood rm` whole runs");
}

static void judge_shm(struct findings *f, const struct doctor_readings *r)
{
    char a[SIZE_TEXT_BYTES], b[SIZE_TEXT_BYTES];

    if (r->shm_free >= SHM_LITTLE) {
        add(f, "/dev/shm", DOCTOR_OK, "%s of %s free", size_text(r->shm_free, a),
            size_text(r->shm, b));
        return;
    }
    add(f, "/dev/shm", DOCTOR_NOTE, r->shm == 0 ? "missing" : "%s free",
        size_text(r->shm_free, a));
    advise(f, "brood does not use it, but environments in Python may: --shm-size of a "
              "container");
}

/* ---- the kernel ---- */

static void judge_call(struct findings *f, const char *check, const char *call, int error,
                       const char *fine, const char *since)
{
    if (error == 0) {
        add(f, check, DOCTOR_OK, "%s", fine);
        return;
    }
    add(f, check, DOCTOR_BAD, "%s: %s", call, strerror(error));
    advise(f,
           "allow the system call (seccomp profile of the container), or take a kernel "
           "from %s on",
           since);
}

static void judge_kernel(struct findings *f, const struct doctor_readings *r)
{
    judge_call(f, "memfd", "memfd_create", r->memfd_error,
               "agents' variables can be shared and sealed", "3.17");
    judge_call(f, "process descriptors", "pidfd_open", r->pidfd_error, "pidfd_open works",
               "5.3");
    add(f, "huge pages", DOCTOR_OK, "of shared memory: %s",
        r->huge_pages[0] != '\0' ? r->huge_pages : "not known");
    if (r->has_cgroup) {
        add(f, "control groups", DOCTOR_OK, "a run gets one of its own");
        return;
    }
    add(f, "control groups", DOCTOR_NOTE, "a run gets none of its own");
    advise(f, "its processes are still found by other means; under systemd, `systemd-run "
              "--user --scope brood ...` has one");
}

/* ---- other programs ---- */

static void judge_python(struct findings *f, const struct doctor_readings *r)
{
    static const struct {
        unsigned bit;
        const char *name;
    } modules[] = {{DOCTOR_PYTHON_NUMPY, "numpy"},
                   {DOCTOR_PYTHON_MSGPACK, "msgpack"},
                   {DOCTOR_PYTHON_GYMNASIUM, "gymnasium"},
                   {DOCTOR_PYTHON_PETTINGZOO, "pettingzoo"}};
    char lacks[64] = "";

    if (r->python[0] == '\0') {
        add(f, "python3", DOCTOR_NOTE, "not here");
        advise(f, "needed only by environments in Python and by scripts/brood.py: apt "
                  "install python3 python3-numpy python3-msgpack");
        return;
    }
    for (size_t i = 0; i < sizeof(modules) / sizeof(modules[0]); i++)
        if ((r->python_has & modules[i].bit) == 0)
            (void)snprintf(lacks + strlen(lacks), sizeof(lacks) - strlen(lacks), "%s%s",
                           lacks[0] != '\0' ? " " : "", modules[i].name);
    if (lacks[0] == '\0') {
        add(f, "python3", DOCTOR_OK, "%s with numpy, msgpack, gymnasium and pettingzoo",
            r->python);
        return;
    }
    add(f, "python3", DOCTOR_NOTE, "%s without %s", r->python, lacks);
    advise(f,
           "pip install %s (scripts/brood.py needs numpy and msgpack; environments of "
           "gymnasium or pettingzoo need these)",
           lacks);
}

static void judge_programs(struct findings *f, const struct doctor_readings *r)
{
    add(f, "Slurm", DOCTOR_OK, r->has_slurm ? "sbatch and srun are here" : "not here");
    if (!r->has_slurm)
        advise(f, "needed only on clusters");
    add(f, "ssh", DOCTOR_OK, r->has_ssh ? "here" : "not here");
    if (!r->has_ssh)
        advise(f, "needed only to reach other machines: apt install openssh-client");
    add(f, "locale", r->is_utf8 ? DOCTOR_OK : DOCTOR_NOTE,
        r->is_utf8 ? "UTF-8" : "not UTF-8");
    if (!r->is_utf8)
        advise(f, "views are drawn in ASCII; LC_ALL=C.UTF-8 has finer bars");
}

size_t doctor_judge(const struct doctor_readings *r, size_t n_agents,
                    struct doctor_finding ret[DOCTOR_MAX_FINDINGS])
{
    struct findings f = {.list = ret};

    judge_agent(&f, r);
    judge_files(&f, r, n_agents);
    judge_processes(&f, r, n_agents);
    judge_memory(&f, r, n_agents);
    judge_locked(&f, r);
    judge_kernel(&f, r);
    judge_cores(&f, r);
    judge_kernels(&f, r);
    judge_clock(&f, r);
    judge_runs(&f, r);
    judge_shm(&f, r);
    judge_python(&f, r);
    judge_programs(&f, r);
    return f.n;
}
