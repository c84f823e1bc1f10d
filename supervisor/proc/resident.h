/* resident.h - how much memory a process holds.
 *
 * What it would take with it: its anonymous pages and those of shared memory (an agent's
 * variable block) that are resident. Pages of files, the executable and above all the
 * experience log, which every agent maps whole, count for nobody: the kernel takes them
 * back when it wants to.
 * Source   proc(5): RssAnon and RssShmem of /proc/<pid>/status.
 */
#ifndef SUPERVISOR_PROC_RESIDENT_H
#define SUPERVISOR_PROC_RESIDENT_H

#include <stdint.h>
#include <sys/types.h>

/* Bytes; -1: there is no such process, or it has ended. A few microseconds. */
int64_t resident_bytes(pid_t pid);

#endif
