/* copy_file.h - copies files: by reference if the filesystem can (btrfs, XFS), otherwise the
 * data between the holes. */
#ifndef COMMON_IO_COPY_FILE_H
#define COMMON_IO_COPY_FILE_H

#include "common/err/err.h"

#include <sys/types.h>

/* Copies bytes begin .. end - 1 of a file to the same offsets of another file; in an empty one holes
 * stay holes, and one at the end does not lengthen it. -1 with errno. */
int copy_bytes(int from, int to, off_t begin, off_t end);
/* Copies the whole file by reference. -1 with errno: nothing was copied, in most cases because the
 * filesystem cannot do that. */
int copy_reference(int from, int to);

/* Copies a folder, with all files and folders in it, to a new folder, and brings them to the disk.
 * Links and files of other kinds are errors (beneath.h); ERR_LIMIT: deeper than 100 folders. After an
 * error a part is there. */
int copy_tree(const char *from, const char *to, struct err *err);

#endif
