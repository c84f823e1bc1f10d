/* confine.h - restricts what an agent's process can do, permanently.
 *
 * An agent only computes: it reads requests from a pipe and writes responses to another.
 * It gives up all other abilities, so that a graph or a file that takes control of the
 * agent gains nothing:
 *
 *   at its start   seccomp forbids other programs and processes (execve, fork), sockets,
 *                  reading or signalling other processes (ptrace, process_vm_readv,
 *                  kill), opening files for writing, creating, removing, renaming or
 *                  changing files, mount, io_uring and bpf. Each fails with EPERM.
 *                  Limits: no processes (nproc), 64 open files.
 *   before inputs  Landlock: an agent of a run can open no files except libraries
 *                  (/usr/lib); one that has an imported graph, or is frozen, can also
 *                  read its checkpoint (CONFINE_READS). Signals and abstract sockets
 *                  cannot reach other processes, if the kernel supports that.
 *
 * What is already open stays open: pipes, the block, the experience log. No privileges
 * are needed, but PR_SET_NO_NEW_PRIVS must be set (launch.h).
 *
 * Where    x86-64 and aarch64; Linux 3.17 for seccomp, 5.13 for Landlock. Features that
 *          the kernel lacks are skipped. Under the sanitizers, which trace their own
 *          process, nothing is restricted, and user-space emulators support neither.
 * Costs    0.1 ms at the start and nothing later: the kernel caches which calls are
 *          allowed whatever their arguments (5.11), and processors keep speculating
 *          (SECCOMP_FILTER_FLAG_SPEC_ALLOW).
 * Source   Documentation/userspace-api/{seccomp_filter,landlock}.rst
 */
#ifndef COMMON_CONFINE_CONFINE_H
#define COMMON_CONFINE_CONFINE_H

enum confine_files {
    CONFINE_ALL,   /* only libraries can be opened */
    CONFINE_READS, /* all files can be opened for reading */
};

/* Restricts system calls with seccomp and sets the limits. Call it once. */
void confine_calls(void);
/* Forbids all access to files except what `files` grants. Call it once. */
void confine_files(enum confine_files files);

/* The mechanisms that this kernel supports: "seccomp, landlock 6"; "none". ret: 64 bytes;
 * returned. */
const char *confine_describe(char ret[64]);

#endif
