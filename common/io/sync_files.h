/* sync_files.h - fsync of many files, several at a time.
 *
 * The disk and the journal of a file system make files durable together if they are asked
 * together: the 2,500 files of 500 agents take a tenth of the time that they take one after the
 * other. Each file is synced by itself, whatever file system has it; a few files, by the thread
 * that adds them.
 */
#ifndef COMMON_IO_SYNC_FILES_H
#define COMMON_IO_SYNC_FILES_H

struct sync_files; /* opaque */

struct sync_files *sync_files_new(void);
/* Syncs the file, at once or later, then closes fd. */
void sync_files_add(struct sync_files *s, int fd);
/* Waits until all files are synced and closed. Returns 0, or -errno of the first fsync that has
 * failed since the beginning; a file that cannot be synced (EINVAL: a fifo) is no failure. */
int sync_files_wait(struct sync_files *s);
void sync_files_free(struct sync_files *s); /* waits; NULL is fine */

#endif
