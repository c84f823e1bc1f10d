/* beneath.h - the files of a run directory: opened relative to the directory's descriptor,
 * never through links.
 *
 * A run directory may belong to another user, or be writable for other users. Any name in
 * it can then be a symbolic or hard link to one of the caller's files, or a fifo. All code
 * that opens, creates, renames or removes something in a run directory uses this module.
 *
 * Held     beneath_hold opens a directory once. From then on, paths that begin (as text)
 *          with the path given to beneath_hold are resolved from that descriptor; all
 *          other paths, also those with a ".." after it, are passed to the plain system calls.
 * Links    below the held directory are not followed (ELOOP). The
 *          folders of the directory's own path are trusted and may be links. The directory
 *          itself may be one, too, if the link belongs to the caller, to root or to the
 *          directory's owner: anybody else could plant it in a shared folder. Implemented by
 *          openat2 with RESOLVE_BENEATH and RESOLVE_NO_SYMLINKS or, if the kernel lacks
 *          it, by one openat with O_NOFOLLOW for every folder of the path.
 * Kinds    only regular files and folders are opened; others give ENXIO, without waiting
 *          for a fifo's other end. A file with several hard links whose owner is not the
 *          owner of the held directory is not opened for writing: EMLINK.
 * Fifos    elsewhere, beneath_fopen waits two seconds for a program that opens a fifo for
 *          writing: ENODATA. It reads from one that has one for as long as it writes.
 * Modes    files are created with the requested mode, masked by the mode of the held
 *          directory: 0666 becomes 0600 in a directory of mode 0700. The umask is ignored.
 * Threads  any.
 * Errors   -1 or NULL, with errno, as the system calls; err_errno has messages for the
 *          codes above.
 */
#ifndef COMMON_IO_BENEATH_H
#define COMMON_IO_BENEATH_H

#include "common/err/err.h"

#include <dirent.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/types.h>

/* Holds are counted: call beneath_release once per hold. If the path now leads to another
 * directory than the one held, that one is held instead. -errno; -EXDEV: a link of somebody
 * else to a directory that is not theirs. */
int beneath_hold(const char *dir, struct err *err);
/* beneath_hold after something was decided about the directory: ERR_STATE if the
 * path leads to another one than this process holds. */
int beneath_hold_same(const char *dir, struct err *err);
void beneath_release(const char *dir);
/* The directory held as `from` has got the path `to`, as which none is held. */
void beneath_move(const char *from, const char *to);
/* fstat of the directory held by this path; st_nlink 0: it was removed. */
int beneath_held(const char *dir, struct stat *ret);
/* A duplicate of its descriptor (O_PATH; close it). */
int beneath_dup(const char *dir);

/* The length of the held directory's path at the beginning of path; 0 if the path is not in
 * a held directory. */
size_t beneath_prefix(const char *path);

/* flags: as for open; O_CLOEXEC is added. The path may be that of the held directory. */
int beneath_open(const char *path, int flags, mode_t mode);
/* Opens an existing file in a directory that need not be held; name: without a slash. Does
 * not allocate memory. */
int beneath_open_in(const char *dir, const char *name, int flags);
/* mode: r, r+, w, wx or a, as for fopen. Files in a held directory, and whatever is only read,
 * are always opened close-on-exec, all others only if mode has an e. */
FILE *beneath_fopen(const char *path, const char *mode);
DIR *beneath_opendir(const char *path);
/* The next entry of any directory; NULL: there is none, and errno is 0, or it could not be
 * read. A directory that was read in part must not pass for a whole one. */
struct dirent *beneath_readdir(DIR *d);
/* For beneath_scandir: all but "." and "..". */
int beneath_is_entry(const struct dirent *e);
/* As scandir, sorted by name. */
int beneath_scandir(const char *path, struct dirent ***ret,
                    int (*keep)(const struct dirent *));
/* lstat in a held directory, fstat of the directory itself, stat elsewhere. */
int beneath_stat(const char *path, struct stat *ret);
int beneath_mkdir(const char *path, mode_t mode);
int beneath_unlink(const char *path);
/* flags: as for renameat2. */
int beneath_rename(const char *from, const char *to, unsigned flags);

/* Opens the folder that contains path (O_PATH; close it) and returns the last part of path
 * in *ret_name, for *at system calls that do not follow a link. */
int beneath_parent(const char *path, const char **ret_name);

#endif
