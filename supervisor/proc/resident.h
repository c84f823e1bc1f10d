/* resident.h - how much memory a process holds.
 *
 * Counts what ending the process would free: resident anonymous pages and pages of shared
 * memory (an agent's variable block). Does not count pages of files, such as the executable
 * and the experience log, which every agent maps as a whole: the kernel can reclaim them at
 * any time. Several processes may map the same shared memory, and it counts for each of them:
 * parameters that agents share, and an experience log on a tmpfs.
 * Source   proc(5): RssAnon, RssShmem and VmData of /proc/<pid>/status, smaps_rollup.
 */
#ifndef SUPERVISOR_PROC_RESIDENT_H
#define SUPERVISOR_PROC_RESIDENT_H

#include <stdint.h>
#include <sys/types.h>

/* In bytes; -1: there is no such process, or it has exited. Takes a few microseconds. */
int64_t resident_bytes(pid_t pid);
/* Anonymous pages that the process has from the one that forked it, as neither has written to them
 * since: they are part of resident_bytes, but ending the process frees none of them. 0: none, or
 * the kernel does not say. Walks its pages, which takes 1 ms for some 100 MB. */
int64_t resident_inherited_bytes(pid_t pid);
/* The address space that RLIMIT_DATA counts; -1 as above. */
int64_t resident_data_bytes(pid_t pid);
/* Without shared memory: what it holds beside the blocks of other processes that it maps. */
int64_t resident_own_bytes(pid_t pid);

#endif
