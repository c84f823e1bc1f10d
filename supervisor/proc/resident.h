/* resident.h - how much memory a process holds.
 *
 * Counts what ending the process would free: resident anonymous pages and pages of shared
 * memory (an agent's variable block). Does not count pages of files, such as the executable
 * and the experience log, which every agent maps as a whole: the kernel can reclaim them at
 * any time. Several processes may map the same shared memory, and it counts for each of them:
 * parameters that agents share, and an experience log on a tmpfs.
 * Source   proc(5): RssAnon and RssShmem of /proc/<pid>/status.
 */
#ifndef SUPERVISOR_PROC_RESIDENT_H
#define SUPERVISOR_PROC_RESIDENT_H

#include <stdint.h>
#include <sys/types.h>

/* In bytes; -1: there is no such process, or it has exited. Takes a few microseconds. */
int64_t resident_bytes(pid_t pid);
/* Without shared memory: what it holds beside the blocks of other processes that it maps. */
int64_t resident_own_bytes(pid_t pid);

#endif
