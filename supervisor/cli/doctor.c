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
#define TELLS_MORE  "; `brood check CONFIG` estimates what a run takes"

struct findings {
    struct doctor_finding *list;
    size_t n;
};

/* Adds a finding. advice: unless it is ok; NULL: none, or by advise. */
static void add(struct findings *f, const char *check, enum doctor_level level,
                const char *advice, const char *fmt, ...)
    __attribute__((format(printf, 5, 6)));
/* Gives advice to the newest finding. */
static void advise(struct findings *f, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

static void add(struct findings *f, const char *check, enum doctor_level level,
                const char *advice, const char *fmt, ...)
{
    struct doctor_finding *x = &f->list[f->n++];
    va_list ap;

    CHECK(f->n <= DOCTOR_MAX_FINDINGS, "too many findings");
    *x = (struct doctor_finding){.check = check, .level = level};
    va_start(ap, fmt);
    (void)vsnprintf(x->found, sizeof(x->found), fmt, ap);
    va_end(ap);
    if (advice != NULL && level != DOCTOR_OK)
        advise(f, "%s", advice);
}

static void advise(struct findings *f, const char *fmt, ...)
{
    struct doctor_finding *x = &f->list[f->n - 1];
    va_list ap;

    va_start(ap, fmt);
    (void)vsnprintf(x->advice, sizeof(x->advice), fmt, ap);
    va_end(ap);
}

/* The level of an amount. */
static enum doctor_level level_of(uint64_t there, uint64_t bad, uint64_t little)
{
    return there < bad ? DOCTOR_BAD : there < little ? DOCTOR_NOTE : DOCTOR_OK;
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

static void judge_files(struct findings *f, const struct doctor_readings *r, size_t n)
{
    const uint64_t need = DESCRIPTORS_OTHERS + DESCRIPTORS_PER_AGENT * (uint64_t)n;
    char buf[SIZE_TEXT_BYTES];

    add(f, "open files", level_of(r->files, need, need), NULL,
        "%s at most, a run of %zu agent%s needs %llu", limit_text(r->files, buf), n,
        n == 1 ? "" : "s", (unsigned long long)need);
    if (r->files < need)
        advise(f,
               "raise the hard limit: `ulimit -Hn %llu` as root, nofile in "
               "/etc/security/limits.conf, LimitNOFILE= of a systemd unit",
               (unsigned long long)need);
}

static void judge_processes(struct findings *f, const struct doctor_readings *r, size_t n)
{
    const uint64_t need = n + OTHER_PROCESSES;
    const uint64_t of_user = left(r->processes, r->my_processes);
    const uint64_t free = less(of_user, left(r->group_processes, r->group_processes_now));
    char buf[SIZE_TEXT_BYTES];

    add(f, "processes", level_of(free, need, need),
        of_user < need
            ? "raise the limit: `ulimit -u`, nproc in /etc/security/limits.conf"
            : "raise pids.max of the control group: TasksMax= of a systemd unit, "
              "--pids-limit of a container",
        "%s more, a run of %zu agents needs %llu", limit_text(free, buf), n,
        (unsigned long long)need);
}

static void judge_memory(struct findings *f, const struct doctor_readings *r, size_t n)
{
    const uint64_t of_group = left(r->group_memory, r->group_memory_now);
    const uint64_t free = less(r->memory_free, of_group);
    const uint64_t need = AGENT_BYTES * (n + 2);
    const int is_limited = of_group < r->memory_free;
    char a[SIZE_TEXT_BYTES], b[SIZE_TEXT_BYTES], c[SIZE_TEXT_BYTES];

    add(f, "memory", level_of(free, need, 4 * need),
        is_limited ? "raise memory.max (MemoryMax= of a systemd unit)" TELLS_MORE
                   : "end other programs, or train fewer agents" TELLS_MORE,
        "%s of %s free%s; small networks of %zu agents take about %s", size_text(free, a),
        size_text(less(r->memory, r->group_memory), b),
        is_limited ? " (a limit of the control group)" : "", n, size_text(need, c));
    add(f, "locked memory", DOCTOR_OK, NULL, "%s; brood locks none",
        r->locked == DOCTOR_NO_LIMIT ? "unlimited" : size_text(r->locked, a));
}

/* ---- the kernel ---- */

static void judge_call(struct findings *f, const char *check, const char *call, int error,
                       const char *fine, const char *since)
{
    if (error == 0) {
        add(f, check, DOCTOR_OK, NULL, "%s", fine);
        return;
    }
    add(f, check, DOCTOR_BAD, NULL, "%s: %s", call, strerror(error));
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
    add(f, "huge pages", DOCTOR_OK, NULL, "of shared memory: %s",
        r->huge_pages[0] != '\0' ? r->huge_pages : "not known");
    add(f, "control groups", r->has_cgroup ? DOCTOR_OK : DOCTOR_NOTE,
        "its processes are still found by other means; under systemd, `systemd-run "
        "--user --scope brood ...` has one",
        "a run gets %s of its own", r->has_cgroup ? "one" : "none");
}

/* ---- speed ---- */

static void judge_cpu(struct findings *f, const struct doctor_readings *r)
{
    const char *name = cpu_kernels_name(r->kernels);

    if (r->group_cores <= 0 || r->group_cores >= r->cores)
        add(f, "cores", DOCTOR_OK, NULL, "%d", r->cores);
    else
        add(f, "cores", DOCTOR_NOTE,
            "raise cpu.max (CPUQuota= of a systemd unit, --cpus of a container): agents "
            "wait while the quota is used up",
            "%d, but the control group gets %.3g of them", r->cores, r->group_cores);
    if (r->kernels != r->best_kernels)
        add(f, "CPU", DOCTOR_NOTE, "unset " CPU_KERNELS_VARIABLE,
            "kernels: %s, though it can run %s", name, cpu_kernels_name(r->best_kernels));
    else if (r->kernels == CPU_KERNELS_PORTABLE)
        add(f, "CPU", DOCTOR_NOTE,
            "another machine, or a virtual one with the host's CPU features, trains "
            "several times faster, with the same bytes",
            "kernels: portable, it has no AVX2");
    else
        add(f, "CPU", DOCTOR_OK, NULL, "kernels: %s", name);
}

/* ---- places ---- */

static void judge_runs(struct findings *f, const struct doctor_readings *r)
{
    static const char *const slow[] = {"nfs", "cifs", "fuse", NULL};
    const int is_slow = text_find(slow, r->file_system) >= 0;
    const int is_lost = strcmp(r->file_system, "tmpfs") == 0;
    char buf[SIZE_TEXT_BYTES];

    if (r->runs_error != 0) {
        add(f, "runs directory", DOCTOR_BAD,
            "give another one with --runs-dir or $BROOD_RUNS_DIR",
            "%s cannot be written: %s", r->runs, strerror(r->runs_error));
        return;
    }
    add(f, "runs directory", is_slow || is_lost ? DOCTOR_NOTE : DOCTOR_OK,
        is_lost ? "runs take memory there and are gone after the next boot"
                : "checkpoints and logs wait for the network; a local disk is faster, "
                  "and keeps a second supervisor out more surely",
        "%s%s%s", r->runs, r->file_system[0] != '\0' ? " on " : "", r->file_system);
    if (r->disk_free == DOCTOR_NO_LIMIT)
        add(f, "disk", DOCTOR_OK, NULL, "as much for runs as there is memory");
    else
        add(f, "disk", level_of(r->disk_free, DISK_BAD, DISK_LITTLE),
            "`brood prune` removes old checkpoints, `brood rm` whole runs",
            "%s free for runs", size_text(r->disk_free, buf));
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
        add(f, "python3", DOCTOR_NOTE,
            "needed only by environments in Python and by scripts/brood.py: apt install "
            "python3 python3-numpy python3-msgpack",
            "not here");
        return;
    }
    for (size_t i = 0; i < sizeof(modules) / sizeof(modules[0]); i++)
        if ((r->python_has & modules[i].bit) == 0)
            (void)snprintf(lacks + strlen(lacks), sizeof(lacks) - strlen(lacks), "%s%s",
                           lacks[0] != '\0' ? " " : "", modules[i].name);
    if (lacks[0] == '\0') {
        add(f, "python3", DOCTOR_OK, NULL,
            "%s with numpy, msgpack, gymnasium and pettingzoo", r->python);
        return;
    }
    add(f, "python3", DOCTOR_NOTE, NULL, "%s without %s", r->python, lacks);
    advise(f,
           "pip install %s (scripts/brood.py needs numpy and msgpack; environments of "
           "gymnasium or pettingzoo need these)",
           lacks);
}

size_t doctor_judge(const struct doctor_readings *r, size_t n_agents,
                    struct doctor_finding ret[DOCTOR_MAX_FINDINGS])
{
    /* The kernel reads other clocks in system calls, or over a slow bus. "": not known */
    static const char *const fine[] = {
        "", "tsc", "arch_sys_counter", "kvm-clock", "hyperv_clocksource_tsc_page", NULL};
    struct findings f = {.list = ret};
    char shm_free[SIZE_TEXT_BYTES], shm[SIZE_TEXT_BYTES];

    add(&f, "agent", r->agent[0] == '\0' ? DOCTOR_OK : DOCTOR_BAD,
        "mend what it says; `brood version` names the executables",
        r->agent[0] == '\0' ? "a process started and built its graph"
                            : "no agent can start: %s",
        r->agent);
    judge_files(&f, r, n_agents);
    judge_processes(&f, r, n_agents);
    judge_memory(&f, r, n_agents);
    judge_kernel(&f, r);
    judge_cpu(&f, r);
    add(&f, "clock", text_find(fine, r->clock) >= 0 ? DOCTOR_OK : DOCTOR_NOTE,
        "each look at the clock is a system call; boot with clocksource=tsc if the "
        "kernel's log does not call it unstable",
        "%s", r->clock[0] != '\0' ? r->clock : "not known");
    judge_runs(&f, r);
    if (r->shm_free >= SHM_LITTLE)
        add(&f, "/dev/shm", DOCTOR_OK, NULL, "%s of %s free",
            size_text(r->shm_free, shm_free), size_text(r->shm, shm));
    else
        add(&f, "/dev/shm", DOCTOR_NOTE,
            "brood does not use it, but environments in Python may: --shm-size of a "
            "container",
            r->shm == 0 ? "missing" : "%s free", size_text(r->shm_free, shm_free));
    judge_python(&f, r);
    add(&f, "Slurm", DOCTOR_OK, NULL,
        r->has_slurm ? "sbatch and srun are here" : "not here");
    if (!r->has_slurm)
        advise(&f, "needed only on clusters");
    add(&f, "ssh", DOCTOR_OK, NULL, r->has_ssh ? "here" : "not here");
    if (!r->has_ssh)
        advise(&f, "needed only to reach other machines: apt install openssh-client");
    add(&f, "locale", r->is_utf8 ? DOCTOR_OK : DOCTOR_NOTE,
        "views are drawn in ASCII; LC_ALL=C.UTF-8 has finer bars",
        r->is_utf8 ? "UTF-8" : "not UTF-8");
    return f.n;
}
