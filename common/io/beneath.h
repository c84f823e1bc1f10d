/* beneath.h - the files of a run directory: opened relative to the directory's descriptor,
 * never through links.
 *
 * A run directory may belong to another user, or other users may write in it: then
 * any of its names can be a link to a file of the caller's, a fifo, or a second name of
 * such a file. Everything that opens, makes, renames or removes something in a run
 * directory goes through this module.
 *
 * Held     beneath_hold opens a directory once. From then on every path below that begins
 *          with the path it was held by, as text, is resolved from that descriptor; all
 *          other paths are left to the plain system calls.
 * Links    are not followed anywhere behind the held directory (ELOOP), nor is "..". The
 *          path of the directory itself is the caller's and may lead through links. This
 *          is openat2 with RESOLVE_BENEATH and RESOLVE_NO_SYMLINKS, or, where the kernel
 *          has none, one openat with O_NOFOLLOW for every folder on the way.
 * Kinds    only regular files and folders are opened: ENXIO otherwise, without waiting
 *          for a fifo's other end. A file with further names that belongs to somebody else
 *          than the held directory is not opened for writing: EMLINK.
 * Modes    what is created gets the mode that was asked for, less what the held directory
 *          does not grant: 0600 for 0666 in a directory of mode 0700. The umask does not
 *          count.
 * Threads  any.
 * Errors   -1 or NULL, with errno, as the system calls; err_errno has words for the codes
 *          above.
 */
#ifndef COMMON_IO_BENEATH_H
#define COMMON_IO_BENEATH_H

#include "common/err/err.h"

#include <dirent.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/types.h>

/* As often as it is released. A directory that has meanwhile taken the place of one that
 * is held by this path takes its place here, too. -errno. */
int beneath_hold(const char *dir, struct err *err);
void beneath_release(const char *dir);
/* What is held by this path: its stat, through the descriptor. st_nlink 0: it was removed.
 */
int beneath_held(const char *dir, struct stat *ret);
/* Its descriptor once more (O_PATH; close it). */
int beneath_dup(const char *dir);

/* The length of the held directory's path at the beginning of path; 0: it is in none. */
size_t beneath_prefix(const char *path);

/* flags: as open has them; O_CLOEXEC is added. */
int beneath_open(const char *path, int flags, mode_t mode);
/* A file that is there, in a directory that need not be held; name: without a slash.
 * Allocates nothing. */
int beneath_open_in(const char *dir, const char *name, int flags);
/* mode: r, r+, w, wx or a, as fopen has them; b and e are ignored, and files are always opened close-on-exec. */
FILE *beneath_fopen(const char *path, const char *mode);
DIR *beneath_opendir(const char *path);
/* As scandir, sorted by name. */
int beneath_scandir(const char *path, struct dirent ***ret,
                    int (*keep)(const struct dirent *));
/* In a held directory, of the link itself (lstat); elsewhere of what it leads to. */
int beneath_stat(const char *path, struct stat *ret);
int beneath_mkdir(const char *path, mode_t mode);
int beneath_unlink(const char *path);
/* flags: of renameat2. */
int beneath_rename(const char *from, const char *to, unsigned flags);

/* The folder that a path is in, opened (O_PATH; close it), and the name in it, a part of
 * path: for the *at calls, which follow no link at the end. */
int beneath_parent(const char *path, const char **ret_name);

#endif
