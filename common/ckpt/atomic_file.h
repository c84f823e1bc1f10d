/* atomic_file.h - files that appear completely or not at all.
 *
 * A file is written under a temporary name in the same directory, `<path>.tempstate<digits>`
 * as TensorFlow names its own, then renamed to `path`. With `durable`, file and directory
 * are fsynced: the bytes are on disk before the rename, and the rename before commit
 * returns.
 *
 * Errors   the message names the path and the step that failed (create, write, fsync,
 *          close, rename, fsync of the directory); the code is -errno. After an error
 *          before the rename, an existing file is unchanged and the temporary file is
 *          removed; if the fsync of the directory fails, `path` is already the new file.
 */
#ifndef COMMON_CKPT_ATOMIC_FILE_H
#define COMMON_CKPT_ATOMIC_FILE_H

#include "common/err/err.h"

#include <stddef.h>
#include <stdio.h>

struct atomic_file;

/* Mode 0666, masked by the umask; in a held directory by the rule of beneath.h. */
int atomic_file_new(struct atomic_file **ret, const char *path, int durable,
                    struct err *err);
/* Buffered; after a failure only atomic_file_free may be called. */
int atomic_file_append(struct atomic_file *f, const void *data, size_t len_bytes,
                       struct err *err);
/* For printing to the file; borrowed. Failed writes are found by the flush or the commit. */
FILE *atomic_file_stream(struct atomic_file *f);
/* Does everything but the rename: afterwards a full disk cannot make the commit fail. */
int atomic_file_flush(struct atomic_file *f, struct err *err);
/* Renames the file to `path`. Nothing may be appended afterwards. */
int atomic_file_commit(struct atomic_file *f, struct err *err);
/* Removes the temporary file unless it was committed. NULL is fine. */
void atomic_file_free(struct atomic_file *f);

/* Removes temporary files of `path` that killed processes have left. Nobody else may be writing
 * the file. */
void atomic_file_tidy(const char *path);

/* Removes those of all files of a folder except those that begin with `but` (NULL: none). */
void atomic_file_tidy_folder(const char *dir, const char *but);

/* A whole file in one call. */
int atomic_file_write(const char *path, const void *data, size_t len_bytes, int durable,
                      struct err *err);

#endif
