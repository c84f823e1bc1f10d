/* copy.h - copies of files: by reference where the filesystem can do it (btrfs, XFS),
 * otherwise of the data between the holes. */
#ifndef COMMON_IO_COPY_H
#define COMMON_IO_COPY_H

#include "common/err/err.h"

#include <sys/types.h>

/* Copies the data of these bytes of a file to the same place of another one; holes stay
 * holes. -1 with errno. */
int copy_bytes(int from, int to, off_t begin, off_t end);
/* The whole file by reference. -1 with errno: this filesystem cannot, and nothing was
 * copied. */
int copy_reference(int from, int to);

/* A new folder with copies of all files and folders of another one. Fails for other kinds of
 * files and for links (beneath.h). */
int copy_tree(const char *from, const char *to, struct err *err);

#endif
