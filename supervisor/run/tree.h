/* tree.h - folders as wholes. */
#ifndef SUPERVISOR_RUN_TREE_H
#define SUPERVISOR_RUN_TREE_H

#include "common/err/err.h"

/* mkdir -p (mode 0777 less the umask). */
int tree_make(const char *path, struct err *err);
/* rm -r; follows no link. A path that is not there is no error. */
int tree_remove(const char *path, struct err *err);
/* Removes what is in a folder, and leaves the folder. */
int tree_empty(const char *path, struct err *err);
/* fsync of a folder: what was created, renamed or removed in it lasts. */
int tree_sync(const char *path, struct err *err);
/* 1 if there is anything of that name. */
int tree_exists(const char *path);

#endif
