/* `brood doctor`: reads what the machine has, tries an agent, and prints what doctor.c says of it. */
#include "common/config/run_schema.h"
#include "common/io/tree.h"
#include "supervisor/ask/describe.h"
#include "supervisor/begin/trial.h"
#include "supervisor/cli/cli.h"
#include "supervisor/cli/doctor.h"
#include "supervisor/cli/view_layout.h"
#include "supervisor/env/env.h"
#include "supervisor/metrics/json.h"
#include "supervisor/proc/command_output.h"
#include "supervisor/proc/run_cgroup.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/pidfd.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>
#include <unistd.h>

enum { LINE_BYTES = 512, PATH_BYTES = 1024, PYTHON_MS = 30000 };

/* The first line of a file, without its end; 0 if there is none. */
static int first_line(const char *path, char line[LINE_BYTES])
{
    FILE *f = fopen(path, "re");
    const int there = f != NULL && fgets(line, LINE_BYTES, f) != NULL;

    if (f != NULL)
        (void)fclose(f);
    if (there)
        line[strcspn(line, "\n")] = '\0';
    return there;
}

/* ---- limits ---- */

/* is_hard: the hard limit, to which brood raises the soft one; otherwise the soft
 * limit. */
static uint64_t limit_of(__rlimit_resource_t which, int is_hard)
{
    struct rlimit r;
    rlim_t limit;

    if (getrlimit(which, &r) < 0)
        return DOCTOR_NO_LIMIT;
    limit = is_hard ? r.rlim_max : r.rlim_cur;
    return limit == RLIM_INFINITY ? DOCTOR_NO_LIMIT : limit;
}

/* Counts processes. RLIMIT_NPROC counts threads, but most processes have one. */
static uint64_t count_my_processes(void)
{
    DIR *d = opendir("/proc");
    const struct dirent *e;
    uint64_t n = 0;

    while (d != NULL && (e = readdir(d)) != NULL) {
        struct stat st;

        if (e->d_name[0] >= '0' && e->d_name[0] <= '9' &&
            fstatat(dirfd(d), e->d_name, &st, 0) == 0 && st.st_uid == geteuid())
            n++;
    }
    if (d != NULL)
        (void)closedir(d);
    return n;
}

static void read_memory(struct doctor_readings *r)
{
    FILE *f = fopen("/proc/meminfo", "re");
    char line[LINE_BYTES];

    r->memory = r->memory_free = DOCTOR_NO_LIMIT;
    while (f != NULL && fgets(line, sizeof(line), f) != NULL) {
        if (strncmp(line, "MemTotal:", 9) == 0)
            r->memory = 1024 * strtoull(line + 9, NULL, 10);
        else if (strncmp(line, "MemAvailable:", 13) == 0)
            r->memory_free = 1024 * strtoull(line + 13, NULL, 10);
    }
    if (f != NULL)
        (void)fclose(f);
}

/* ---- the control group ---- */

/* The first line of a file of this folder; 0 if there is none. */
static int line_in(const char *folder, const char *name, char line[LINE_BYTES])
{
    char path[PATH_BYTES];
    const int n = snprintf(path, sizeof(path), "%s/%s", folder, name);

    return n < PATH_BYTES && first_line(path, line);
}

static uint64_t number_in(const char *folder, const char *name)
{
    char line[LINE_BYTES];

    if (!line_in(folder, name, line) || line[0] < '0' || line[0] > '9')
        return DOCTOR_NO_LIMIT; /* also "max" */
    return strtoull(line, NULL, 10);
}

/* Reads "150000 100000": the quota and the period in microseconds; "max 100000": no
 * quota. */
static void take_quota(struct doctor_readings *r, const char *folder)
{
    char line[LINE_BYTES];
    double quota, period;

    if (line_in(folder, "cpu.max", line) &&
        sscanf(line, "%lf %lf", &quota, &period) == 2 && period > 0 &&
        (r->group_cores <= 0 || quota / period < r->group_cores))
        r->group_cores = quota / period;
}

/* Keeps, of several limits, the one that leaves least. */
static void take_limit(uint64_t limit, uint64_t now, uint64_t *ret_limit,
                       uint64_t *ret_now)
{
    now = now == DOCTOR_NO_LIMIT ? 0 : now < limit ? now : limit;
    if (limit == DOCTOR_NO_LIMIT ||
        (*ret_limit != DOCTOR_NO_LIMIT && limit - now >= *ret_limit - *ret_now))
        return;
    *ret_limit = limit;
    *ret_now = now;
}

/* Reads the limits of control groups, version 2: this process's group, and those
 * above. */
static void read_groups(struct doctor_readings *r)
{
    char line[LINE_BYTES], folder[PATH_BYTES];

    r->group_memory = r->group_processes = DOCTOR_NO_LIMIT;
    if (!first_line("/proc/self/cgroup", line) || strncmp(line, "0::", 3) != 0)
        line[3] = '\0';
    (void)snprintf(folder, sizeof(folder), "/sys/fs/cgroup%s", line + 3);
    while (strlen(folder) >= strlen("/sys/fs/cgroup")) {
        take_limit(number_in(folder, "memory.max"), number_in(folder, "memory.current"),
                   &r->group_memory, &r->group_memory_now);
        take_limit(number_in(folder, "pids.max"), number_in(folder, "pids.current"),
                   &r->group_processes, &r->group_processes_now);
        take_quota(r, folder);
        *strrchr(folder, '/') = '\0';
    }
}

/* Reads the limits of control groups, version 1, as containers show them. */
static void read_old_groups(struct doctor_readings *r)
{
    static const char memory[] = "/sys/fs/cgroup/memory", cpu[] = "/sys/fs/cgroup/cpu",
                      pids[] = "/sys/fs/cgroup/pids";
    const uint64_t quota = number_in(cpu, "cpu.cfs_quota_us"),
                   period = number_in(cpu, "cpu.cfs_period_us");

    take_limit(number_in(memory, "memory.limit_in_bytes"),
               number_in(memory, "memory.usage_in_bytes"), &r->group_memory,
               &r->group_memory_now);
    take_limit(number_in(pids, "pids.max"), number_in(pids, "pids.current"),
               &r->group_processes, &r->group_processes_now);
    if (quota != DOCTOR_NO_LIMIT && period != DOCTOR_NO_LIMIT && period > 0)
        r->group_cores = (double)quota / (double)period;
}

/* ---- CPU and kernel ---- */

static void read_kernel(struct doctor_readings *r)
{
    char line[LINE_BYTES];
    const char *chosen;
    int fd = memfd_create("brood-doctor", MFD_CLOEXEC | MFD_ALLOW_SEALING);

    /* Creates a memfd like that of a variable block: sized, then sealed. */
    r->memfd_error = fd < 0 || ftruncate(fd, 4096) < 0 ||
                             fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) < 0
                         ? errno
                         : 0;
    if (fd >= 0)
        (void)close(fd);
    fd = pidfd_open(getpid(), 0);
    r->pidfd_error = fd < 0 ? errno : 0;
    if (fd >= 0)
        (void)close(fd);
    /* "always within_size [never]" */
    if (first_line("/sys/kernel/mm/transparent_hugepage/shmem_enabled", line) &&
        (chosen = strchr(line, '[')) != NULL)
        (void)snprintf(r->huge_pages, sizeof(r->huge_pages), "%.*s",
                       (int)strcspn(chosen + 1, "]"), chosen + 1);
    if (first_line("/sys/devices/system/clocksource/clocksource0/current_clocksource",
                   line))
        (void)snprintf(r->clock, sizeof(r->clock), "%.31s", line);
    r->has_cgroup = run_cgroup_is_possible();
}

/* ---- places ---- */

static const char *file_system_name(uint32_t magic)
{
    static const struct {
        uint32_t magic;
        const char *name;
    } known[] = {{TMPFS_MAGIC, "tmpfs"},
                 {RAMFS_MAGIC, "tmpfs"},
                 {NFS_SUPER_MAGIC, "nfs"},
                 {SMB_SUPER_MAGIC, "cifs"},
                 {0xff534d42u, "cifs"},
                 {0xfe534d42u, "cifs"},
                 {0x65735546u, "fuse"}, /* also sshfs, and many on clusters */
                 {OVERLAYFS_SUPER_MAGIC, "overlay"}};

    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
        if (known[i].magic == magic)
            return known[i].name;
    return "";
}

static void read_runs(struct doctor_readings *r, const char *runs_dir)
{
    struct statvfs space;
    struct statfs type;
    char folder[PATH_BYTES], *nearest = tree_nearest(runs_dir);

    (void)snprintf(r->runs, sizeof(r->runs), "%.199s", nearest);
    free(nearest);
    (void)snprintf(folder, sizeof(folder), "%s/.doctor-XXXXXX", r->runs);
    r->runs_error = mkdtemp(folder) == NULL || rmdir(folder) < 0 ? errno : 0;
    if (statvfs(r->runs, &space) == 0)
        r->disk_free = space.f_blocks == 0 ? DOCTOR_NO_LIMIT /* a ramfs */
                                           : (uint64_t)space.f_bavail * space.f_frsize;
    if (statfs(r->runs, &type) == 0)
        (void)snprintf(r->file_system, sizeof(r->file_system), "%s",
                       file_system_name((uint32_t)type.f_type));
    if (statvfs("/dev/shm", &space) == 0) {
        r->shm = (uint64_t)space.f_blocks * space.f_frsize;
        r->shm_free = (uint64_t)space.f_bavail * space.f_frsize;
    }
}

/* ---- programs ---- */

/* python3 prints its version, and for each module 1 if it finds it, otherwise 0. */
static void read_python(struct doctor_readings *r)
{
    static const char *const argv[] = {
        "python3", "-c",
        "import sys, importlib.util as u; print(\"%d.%d.%d\" % sys.version_info[:3], "
        "*[int(u.find_spec(m) is not None) for m in "
        "(\"numpy\", \"msgpack\", \"gymnasium\", \"pettingzoo\")])",
        NULL};
    char *output = NULL;
    int has[4] = {0};

    if (command_ask(argv, PYTHON_MS, &output, NULL) < 0)
        return;
    if (sscanf(command_last_line(output), "%31s %d %d %d %d", r->python, &has[0], &has[1],
               &has[2], &has[3]) != 5)
        r->python[0] = '\0';
    for (int i = 0; i < 4; i++)
        r->python_has |= has[i] ? 1u << i : 0;
    free(output);
}

/* Reads all but `agent`, which is "". */
static void doctor_read(struct doctor_readings *ret, const char *runs_dir)
{
    cpu_set_t mine;

    *ret = (struct doctor_readings){0};
    ret->files = limit_of(RLIMIT_NOFILE, 1);
    ret->processes = geteuid() == 0 ? DOCTOR_NO_LIMIT : limit_of(RLIMIT_NPROC, 0);
    ret->my_processes = count_my_processes();
    ret->locked = limit_of(RLIMIT_MEMLOCK, 0);
    read_memory(ret);
    read_groups(ret);
    read_old_groups(ret);
    ret->cores = sched_getaffinity(0, sizeof(mine), &mine) == 0
                     ? CPU_COUNT(&mine)
                     : (int)sysconf(_SC_NPROCESSORS_ONLN);
    ret->kernels = cpu_kernels();
    for (int k = 0; k < CPU_KERNELS_COUNT; k++)
        if (cpu_kernels_are_here((enum cpu_kernels)k))
            ret->best_kernels = (enum cpu_kernels)k;
    read_kernel(ret);
    read_runs(ret, runs_dir);
    read_python(ret);
    ret->has_slurm = command_is_on_path(".", "sbatch") && command_is_on_path(".", "srun");
    ret->has_ssh = command_is_on_path(".", "ssh");
    ret->is_utf8 = glyphs_are_utf8();
}

/* ---- the command ---- */

enum { MAX_AGENTS = 100000 };

struct options {
    long long n_agents;
};

static const char *const level_names[] = {
    [DOCTOR_OK] = "ok", [DOCTOR_NOTE] = "note", [DOCTOR_BAD] = "bad"};

/* Starts an agent's process, as `brood check` does. runs_dir "/": doctor_judge looks at
 * the disk of the runs itself. */
static void try_agent(struct doctor_readings *r)
{
    static const char text[] =
        "env: {id: simple}\nexperience: {capacity: 1000, batch_size: "
        "8}\nrun: {env_steps: 1000}\n";
    struct trial trial = {.runs_dir = "/"};
    const struct config_options options = {.env_names = env_agent_names,
                                           .describe = describe_program,
                                           .try_agents = trial_agents,
                                           .try_ctx = &trial};
    struct run_config c;
    struct err err = {0};

    if (run_config_parse(&c, text, strlen(text), "doctor", &options, &err) == 0)
        run_config_done(&c);
    else
        (void)snprintf(r->agent, sizeof(r->agent), "%.199s", err_cause(&err));
}

static void print_finding(const struct cli *cli, const struct doctor_finding *f)
{
    struct json j = {0};

    if (cli->json) {
        json_object(&j);
        json_put_str(&j, "check", f->check);
        json_put_str(&j, "state", level_names[f->level]);
        json_put_str(&j, "found", f->found);
        json_put_str(&j, "advice", f->advice[0] != '\0' ? f->advice : NULL);
        json_print(&j, stdout);
    } else if (!cli->quiet || f->level == DOCTOR_BAD) {
        (void)printf("%-4s  %-19s  %s%s%s\n", level_names[f->level], f->check, f->found,
                     f->advice[0] != '\0' ? "; " : "", f->advice);
    }
}

static int run_doctor(struct cli *cli, void *values, int argc, char **argv)
{
    struct doctor_finding findings[DOCTOR_MAX_FINDINGS];
    struct doctor_readings readings;
    const struct options *o = values;
    size_t n;
    int code = CLI_DONE;

    if (argc > 0)
        return cli_usage(cli, "expected no arguments");
    doctor_read(&readings, cli->runs_dir);
    try_agent(&readings);
    n = doctor_judge(&readings, (size_t)o->n_agents, findings);
    for (size_t i = 0; i < n; i++) {
        if (findings[i].level == DOCTOR_BAD)
            code = CLI_FAILED;
        print_finding(cli, &findings[i]);
    }
    return code;
}

static const struct cli_option options[] = {
    {"agents", "N", "judge limits for a run of N agents (16)",
     CLI_NUMBER(struct options, n_agents, 1, MAX_AGENTS)},
    {0}};

const struct command cmd_doctor = {
    .name = "doctor",
    .arguments = "[options]",
    .summary = "Look for what this machine lacks, and try an agent",
    .options = options,
    CLI_INTO(struct options, .n_agents = 16),
    .help = "\nA line for each check: ok, note (a run can start, but something costs or\n"
            "lacks) or bad, what was found, and what to do. The exit code is 0 if a run\n"
            "can start, and 1 if not.\n"
            "\nexample: brood doctor --agents 20\n",
    .run = run_doctor,
};
