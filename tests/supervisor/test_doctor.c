/* The findings of `brood doctor`: each reading is changed alone, in a machine that lacks
 * nothing. */
#include "supervisor/cli/doctor.h"
#include "supervisor/proc/descriptors.h"
#include "tests/support/test_main.h"

#include <errno.h>
#include <string.h>

#define GB UINT64_C(1000000000)

static const struct doctor_readings good = {
    .files = 4096,
    .processes = 1000,
    .my_processes = 100,
    .group_processes = DOCTOR_NO_LIMIT,
    .locked = DOCTOR_NO_LIMIT,
    .memory = 64 * GB,
    .memory_free = 32 * GB,
    .group_memory = DOCTOR_NO_LIMIT,
    .cores = 8,
    .huge_pages = "never",
    .kernels = CPU_KERNELS_AVX2,
    .best_kernels = CPU_KERNELS_AVX2,
    .shm = 8 * GB,
    .shm_free = 8 * GB,
    .runs = "runs",
    .disk_free = 100 * GB,
    .clock = "tsc",
    .has_cgroup = 1,
    .python = "3.11.2",
    .python_has = 15,
    .has_slurm = 1,
    .has_ssh = 1,
    .is_utf8 = 1,
};

static size_t n;
static struct doctor_finding found[DOCTOR_MAX_FINDINGS];

static const struct doctor_finding *find(const char *check)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(found[i].check, check) == 0)
            return &found[i];
    ck_abort_msg("nothing was said about %s", check);
    return NULL;
}

/* Only the finding of this check may be worse than ok; its advice must contain the
 * text. */
static void expect(struct doctor_readings r, size_t n_agents, const char *check,
                   enum doctor_level level, const char *advice)
{
    n = doctor_judge(&r, n_agents, found);
    for (size_t i = 0; i < n; i++)
        ck_assert_msg(strcmp(found[i].check, check) == 0 || found[i].level == DOCTOR_OK,
                      "%s: %s", found[i].check, found[i].found);
    ck_assert_int_eq(find(check)->level, level);
    ck_assert_msg(strstr(find(check)->advice, advice) != NULL, "%s", find(check)->advice);
    ck_assert_msg(level == DOCTOR_OK || find(check)->advice[0] != '\0', "%s", check);
}

#define EXPECT(changes, check, level, advice)                                            \
    do {                                                                                 \
        struct doctor_readings r = good;                                                 \
                                                                                         \
        changes;                                                                         \
        expect(r, 16, check, level, advice);                                             \
    } while (0)

START_TEST(a_good_machine_needs_no_advice)
{
    n = doctor_judge(&good, 16, found);
    ck_assert_uint_ge(n, 15);
    for (size_t i = 0; i < n; i++) {
        ck_assert_msg(found[i].level == DOCTOR_OK && found[i].advice[0] == '\0', "%s: %s",
                      found[i].check, found[i].advice);
        ck_assert_msg(found[i].found[0] != '\0', "%s", found[i].check);
    }
}
END_TEST

START_TEST(limits_are_compared_with_the_number_of_agents)
{
    struct doctor_readings r = good;
    const size_t most = (4096 - DESCRIPTORS_OTHERS) / DESCRIPTORS_PER_AGENT;

    expect(r, most, "open files", DOCTOR_OK, "");
    expect(r, most + 1, "open files", DOCTOR_BAD, "ulimit -Hn 4099");
    r.files = DOCTOR_NO_LIMIT;
    expect(r, most + 1, "open files", DOCTOR_OK, "");
    r.my_processes = 600;
    expect(r, 300, "processes", DOCTOR_OK, "");
    expect(r, 400, "processes", DOCTOR_BAD, "ulimit -u");
    r.processes = DOCTOR_NO_LIMIT;
    expect(r, 400, "processes", DOCTOR_OK, "");
    r.group_processes = 512;
    r.group_processes_now = 100;
    expect(r, 396, "processes", DOCTOR_OK, "");
    expect(r, 397, "processes", DOCTOR_BAD, "TasksMax");
    r.group_processes_now = 600;
    expect(r, 1, "processes", DOCTOR_BAD, "TasksMax");
}
END_TEST

START_TEST(memory_is_that_of_the_machine_or_of_the_group)
{
    EXPECT(r.memory_free = GB, "memory", DOCTOR_NOTE, "end other programs");
    EXPECT(r.memory_free = GB / 10, "memory", DOCTOR_BAD, "end other programs");
    EXPECT((r.group_memory = 4 * GB, r.group_memory_now = GB), "memory", DOCTOR_OK, "");
    ck_assert_ptr_nonnull(
        strstr(find("memory")->found, "3.0 GB of 4.0 GB free (a limit"));
    EXPECT((r.group_memory = 4 * GB, r.group_memory_now = 4 * GB), "memory", DOCTOR_BAD,
           "memory.max");
    /* the limit leaves more than the machine has */
    EXPECT((r.memory_free = GB, r.group_memory = 4 * GB, r.group_memory_now = GB),
           "memory", DOCTOR_NOTE, "end other programs");
}
END_TEST

START_TEST(what_costs_time_is_noted)
{
    EXPECT(r.group_cores = 1.5, "cores", DOCTOR_NOTE, "cpu.max");
    ck_assert_str_eq(find("cores")->found, "8, but the control group gets 1.5 of them");
    EXPECT(r.group_cores = 8, "cores", DOCTOR_OK, "");
    EXPECT(r.best_kernels = CPU_KERNELS_AVX512, "CPU", DOCTOR_NOTE, "BROOD_KERNELS");
    EXPECT(r.kernels = r.best_kernels = CPU_KERNELS_PORTABLE, "CPU", DOCTOR_NOTE,
           "another machine");
    EXPECT(r.kernels = r.best_kernels = CPU_KERNELS_NEON, "CPU", DOCTOR_OK, "");
    EXPECT(strcpy(r.clock, "hpet"), "clock", DOCTOR_NOTE, "clocksource=tsc");
    EXPECT(r.clock[0] = '\0', "clock", DOCTOR_OK, "");
    ck_assert_str_eq(find("clock")->advice, "");
    EXPECT(strcpy(r.clock, "kvm-clock"), "clock", DOCTOR_OK, "");
}
END_TEST

START_TEST(places_of_runs)
{
    EXPECT(r.runs_error = EROFS, "runs directory", DOCTOR_BAD, "--runs-dir");
    EXPECT(strcpy(r.file_system, "nfs"), "runs directory", DOCTOR_NOTE, "local disk");
    EXPECT(strcpy(r.file_system, "tmpfs"), "runs directory", DOCTOR_NOTE, "next boot");
    EXPECT(strcpy(r.file_system, "overlay"), "runs directory", DOCTOR_OK, "");
    EXPECT(r.disk_free = GB, "disk", DOCTOR_NOTE, "brood prune");
    EXPECT(r.disk_free = GB / 100, "disk", DOCTOR_BAD, "brood prune");
    EXPECT(r.disk_free = DOCTOR_NO_LIMIT, "disk", DOCTOR_OK, "");
    EXPECT(r.shm_free = 1000, "/dev/shm", DOCTOR_NOTE, "--shm-size");
    EXPECT(r.shm = r.shm_free = 0, "/dev/shm", DOCTOR_NOTE, "--shm-size");
    ck_assert_str_eq(find("/dev/shm")->found, "missing");
}
END_TEST

START_TEST(kernel_and_programs)
{
    EXPECT(strcpy(r.agent, "no such file"), "agent", DOCTOR_BAD, "brood version");
    EXPECT(r.memfd_error = ENOSYS, "memfd", DOCTOR_BAD, "3.17");
    EXPECT(r.pidfd_error = EPERM, "process descriptors", DOCTOR_BAD, "seccomp");
    EXPECT(r.has_cgroup = 0, "control groups", DOCTOR_NOTE, "systemd-run");
    EXPECT(r.python[0] = '\0', "python3", DOCTOR_NOTE, "apt install python3");
    EXPECT(r.python_has = DOCTOR_PYTHON_NUMPY | DOCTOR_PYTHON_GYMNASIUM, "python3",
           DOCTOR_NOTE, "pip install msgpack pettingzoo ");
    EXPECT(r.has_slurm = 0, "Slurm", DOCTOR_OK, "clusters");
    EXPECT(r.has_ssh = 0, "ssh", DOCTOR_OK, "openssh-client");
    EXPECT(r.is_utf8 = 0, "locale", DOCTOR_NOTE, "C.UTF-8");
}
END_TEST

static Suite *make_suite(void)
{
    Suite *s = suite_create("doctor");
    TCase *tc = tcase_create("judgements");

    tcase_add_test(tc, a_good_machine_needs_no_advice);
    tcase_add_test(tc, limits_are_compared_with_the_number_of_agents);
    tcase_add_test(tc, memory_is_that_of_the_machine_or_of_the_group);
    tcase_add_test(tc, what_costs_time_is_noted);
    tcase_add_test(tc, places_of_runs);
    tcase_add_test(tc, kernel_and_programs);
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(make_suite)
