/* confine.h - an agent gives up what it does not need, for good.
 *
 * An agent computes: it reads requests from a pipe and writes answers to another. So that
 * a graph or a file that takes it over gains nothing by it, it gives up the rest:
 *
 *   at its start   seccomp: no other program or process (execve, fork), no socket, no look
 *                  into or signal to another process (ptrace, process_vm_readv, kill), no
 *                  file opened for writing, made, removed, renamed or changed, no mount, no
 *                  io_uring, no bpf. Each fails with EPERM. Limits: no process (nproc), 64
 *                  open files.
 *   before inputs  Landlock: an agent of a run opens no file any more but libraries
 *                  (/usr/lib); one that holds an imported graph, or is frozen, also reads
 *                  its checkpoint (CONFINE_READS). No signal and no abstract socket leads
 *                  out, where the kernel knows that.
 *
 * What is open stays open: pipes, the block, the experience log. Nothing here needs
 * privileges, but PR_SET_NO_NEW_PRIVS to be set (launch.h).
 *
 * Where    x86-64 and aarch64; Linux 3.17 for seccomp, 5.13 for Landlock. What the kernel
 *          lacks is left out. Under the sanitizers, which trace themselves, nothing is
 *          done, and emulators of user space have neither.
 * Costs    0.1 ms at the start, nothing after it: the kernel remembers which calls are
 *          allowed whatever their arguments (5.11), and processors keep speculating
 *          (SECCOMP_FILTER_FLAG_SPEC_ALLOW).
 * Source   Documentation/userspace-api/{seccomp_filter,landlock}.rst
 */
#ifndef COMMON_CONFINE_CONFINE_H
#define COMMON_CONFINE_CONFINE_H

enum confine_files {
    CONFINE_ALL,   /* libraries alone are opened */
    CONFINE_READS, /* files are opened for reading */
};

/* No other process, no socket, nothing written; limits. Once. */
void confine_calls(void);
/* Forbids all access to files but what `files` grants. Call it once. */
void confine_files(enum confine_files files);

/* What of it this kernel has: "seccomp, landlock 6"; "none". ret: 64 bytes; returned. */
const char *confine_describe(char ret[64]);

#endif
