/* confine.h - restricts what a process of a run can do, permanently.
 *
 * Agent        only computes: it reads requests from a pipe and writes responses to another.
 *              A graph or a file that takes control of it gains nothing:
 *    at its start   seccomp allows what call_sets.c lists: memory, time, reading and writing
 *                   what is open, opening files for reading, signals to itself. So no other
 *                   programs, processes, threads and sockets, nothing of other processes, no
 *                   changes of files. Limits: no processes (nproc), 64 open files.
 *    before inputs  Landlock: an agent of a run can open no files except libraries
 *                   (/usr/lib); one that has an imported graph, or is frozen, can also read
 *                   its checkpoint (CONFINE_READS). Signals and abstract sockets cannot reach
 *                   other processes, if the kernel supports that.
 *    always         no other process can look into its memory (confine_memory).
 * Environment  runs programs of others, which need most of what a user may do: files,
 *              programs, threads, sockets, devices. Seccomp refuses what changes the machine
 *              (mount, modules, clocks, names), namespaces, bpf, io_uring, keys, and programs
 *              for another architecture (also 32-bit ones). It reads and debugs no process
 *              outside what it started itself, and sends no signals there (Linux 6.12), not
 *              even as root: it is in a Landlock domain of its own (Linux 5.19). On older
 *              kernels it debugs nothing at all; /proc/PID/mem of agents is open to root only.
 *              It changes the limits (ulimit) of no other process; priorities and processors of
 *              its user's processes it can change.
 *
 * Program      an agent of the user's: as an environment, and Landlock forbids to change files
 *              (CONFINE_RUNS). When it has been imported it takes what an agent may do
 *              (confine_fence), with reading of files, and what its key `confine` opens. The
 *              package brood does so for Python; a program in another language is an environment
 *              to the kernel unless it installs the filter itself.
 *
 * What is already open stays open: pipes, the block, the experience log. What is refused
 * fails; nothing is killed. No privileges are needed, but PR_SET_NO_NEW_PRIVS must be set
 * (launch.h).
 *
 * Where    x86-64 and aarch64; Linux 4.17 for seccomp, 5.13 for Landlock. Features that
 *          the kernel lacks are skipped. Under the sanitizers, which trace their own
 *          process, nothing is restricted, and user-space emulators support neither.
 * Costs    0.1 ms at the start and nothing later: the kernel caches which calls are
 *          allowed whatever their arguments (5.11), and processors keep speculating
 *          (SECCOMP_FILTER_FLAG_SPEC_ALLOW).
 * Source   Documentation/userspace-api/{seccomp_filter,landlock}.rst
 */
#ifndef COMMON_CONFINE_CONFINE_H
#define COMMON_CONFINE_CONFINE_H

enum confine_kind {
    CONFINE_AGENT,
    CONFINE_ENVIRONMENT,
    CONFINE_PROGRAM, /* from `build` on */
    CONFINE_KINDS,
};

enum confine_files {
    CONFINE_ALL,   /* only libraries can be opened */
    CONFINE_READS, /* all files can be opened for reading */
    CONFINE_RUNS,  /* and executed; /dev/null can be written */
};

/* No other process of the same user can trace this one, read its memory or have its core;
 * root can. BROOD_DEBUG=1 in the environment allows it, for gdb and core dumps. execve resets
 * it. Files of /proc/self then belong to root. */
void confine_memory(void);
/* Restricts system calls by kind, for this process and what it executes, and sets limits. Call
 * it once. */
void confine_calls(enum confine_kind kind);
/* Whether confine_calls made this process an agent that can change no file. */
int confine_is_without_files(void);
/* Something that may be changed all the same. */
struct confine_path {
    char *path;    /* absolute: a file, or a folder and all below it */
    int is_device; /* its own calls (ioctl) are allowed as well */
};
/* Forbids all access to files except what `files` and `paths` grant. paths: their end is a NULL;
 * or NULL. Call it once. -1: nothing is forbidden, as *ret_bad cannot be opened (errno). */
int confine_files(enum confine_files files, const struct confine_path *paths,
                  const char **ret_bad);

enum confine_opens {
    CONFINE_OPENS_THREADS = 1, /* threads, processes, pipes */
    CONFINE_OPENS_FILES = 2,   /* changes of files that Landlock allows */
};
/* A comparison with this number stands for one with the process's own pid. */
#define CONFINE_PID_PLACE 0x7fffffff
/* The filter of CONFINE_PROGRAM for a process that installs it itself: instructions (struct
 * sock_filter) as hexadecimal digits; free(). opens: of confine_opens. NULL: the kernel has no
 * seccomp. */
char *confine_fence(int opens);

/* The mechanisms that this kernel supports: "seccomp, landlock 6"; "none". ret: 64 bytes;
 * returned. */
const char *confine_describe(char ret[64]);

#endif
