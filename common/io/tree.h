/* tree.h - folders as wholes. */
#ifndef COMMON_IO_TREE_H
#define COMMON_IO_TREE_H

#include "common/err/err.h"

#include <stdint.h>

/* mkdir -p (mode 0777 less the umask). */
int tree_make(const char *path, struct err *err);
/* rm -r; follows no link. A path that is not there is no error. */
int tree_remove(const char *path, struct err *err);
/* Removes what is in a folder, and leaves the folder; the entry named `last` after all
 * others, NULL: in any order. */
int tree_empty(const char *path, const char *last, struct err *err);
/* Renames a file or folder; flags: of renameat2. */
int tree_rename(const char *from, const char *to, unsigned flags, struct err *err);
/* What it takes of the disk: holes of sparse files do not count. */
uint64_t tree_disk_bytes(const char *path);
/* fsync of a folder: what was created, renamed or removed in it lasts. */
int tree_sync(const char *path, struct err *err);
/* fsync of a folder and of every file and folder in it. */
int tree_sync_all(const char *path, struct err *err);
/* 1 if there is anything of that name. */
int tree_exists(const char *path);

#endif
