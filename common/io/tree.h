/* tree.h - operations on whole folders. */
#ifndef COMMON_IO_TREE_H
#define COMMON_IO_TREE_H

#include "common/err/err.h"

#include <stdint.h>

/* mkdir -p (mode 0777, masked by the umask). */
int tree_make(const char *path, struct err *err);
/* rm -r; does not follow links. A missing path is not an error. */
int tree_remove(const char *path, struct err *err);
/* Removes all entries of a folder but not the folder. last: names that are removed after all
 * others, in this order; the list ends with NULL. NULL: any order. */
int tree_empty(const char *path, const char *const *last, struct err *err);
/* Renames a file or folder; flags: as for renameat2. */
int tree_rename(const char *from, const char *to, unsigned flags, struct err *err);
/* Disk use in bytes; holes of sparse files do not count. 0 for a link in a held directory.
 * What was counted so far, if the time is used up (patience.h). */
uint64_t tree_disk_bytes(const char *path);
/* fsync of a folder, which makes creations, renames and removals in it durable. */
int tree_sync(const char *path, struct err *err);
/* fsync of a folder and of every file and folder in it; one that is missing, or that somebody
 * removes or renames meanwhile, is not an error; nor are links, fifos and sockets, which have no
 * data.
 * *ret_lost (may be NULL), after an error: 1 if a sync failed, so that what was written may be
 * lost; 0 if something could not be opened. */
int tree_sync_all(const char *path, int *ret_lost, struct err *err);
/* 1 if the path exists, 0 if not, -errno if that cannot be known. */
int tree_look(const char *path, struct err *err);
/* 1 if the path is known to exist: where a wrong 0 does no harm. */
int tree_exists(const char *path);
/* The path or, if it does not exist, the nearest folder above that does; free(). */
char *tree_nearest(const char *path);

#endif
