/* doctor.h - what a machine lacks for runs, and what is unusual about it.
 *
 * doctor_judge decides from what `brood doctor` has read alone what is good, what has a cost and
 * what keeps a run from starting, and gives advice.
 * Units    bytes, unless a name says otherwise. DOCTOR_NO_LIMIT: there is none.
 */
#ifndef SUPERVISOR_CLI_DOCTOR_H
#define SUPERVISOR_CLI_DOCTOR_H

#include "common/err/err.h"
#include "common/numerics/cpu_kernels.h"

#include <stddef.h>
#include <stdint.h>

#define DOCTOR_NO_LIMIT UINT64_MAX

enum {
    DOCTOR_PYTHON_NUMPY = 1,
    DOCTOR_PYTHON_MSGPACK = 2,
    DOCTOR_PYTHON_GYMNASIUM = 4,
    DOCTOR_PYTHON_PETTINGZOO = 8,
};

struct doctor_readings {
    char agent[200];       /* why an agent's process did not answer; "": it did */
    uint64_t files;        /* RLIMIT_NOFILE, hard */
    uint64_t processes;    /* RLIMIT_NPROC, soft; no limit for root */
    uint64_t my_processes; /* of this user, now */
    uint64_t group_processes, group_processes_now; /* pids.max and pids.current */
    uint64_t locked;                               /* RLIMIT_MEMLOCK, soft */
    uint64_t memory, memory_free;                  /* MemTotal, MemAvailable */
    uint64_t group_memory, group_memory_now;       /* of the control group */
    int cores;                                     /* that this process may use */
    double group_cores;                            /* its quota; 0: none */
    char huge_pages[32];                           /* of shared memory: "never" */
    enum cpu_kernels kernels, best_kernels;        /* chosen; that this CPU can run */
    uint64_t shm, shm_free;                        /* /dev/shm; 0: it is missing */
    char runs[200];       /* the runs directory, or the first folder above that exists */
    char file_system[16]; /* "tmpfs", "nfs", ...; "": an ordinary one */
    uint64_t disk_free;   /* or DOCTOR_NO_LIMIT: the file system tells none */
    int runs_error;       /* errno of writing there; 0: it can be written */
    char clock[32];       /* "tsc" */
    int memfd_error, pidfd_error; /* errno; 0: they work */
    int has_cgroup;               /* a run can have a control group of its own */
    char python[32];              /* version of python3; "": there is none */
    unsigned python_has;          /* DOCTOR_PYTHON_... */
    int has_slurm, has_ssh;       /* sbatch and srun; ssh: in PATH */
    int is_utf8;
};

enum doctor_level {
    DOCTOR_OK,
    DOCTOR_NOTE, /* a run can start, but something is slow, scarce or missing */
    DOCTOR_BAD,  /* no run can start */
};

struct doctor_finding {
    const char *check; /* "open files" */
    enum doctor_level level;
    char found[256];
    char advice[256]; /* what to do; "" if there is nothing to do */
};

enum { DOCTOR_MAX_FINDINGS = 32 };

/* Judges the readings for a run of n_agents agents. Returns the number of findings. */
size_t doctor_judge(const struct doctor_readings *r, size_t n_agents,
                    struct doctor_finding ret[DOCTOR_MAX_FINDINGS]);

#endif
