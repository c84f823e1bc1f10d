/* temp_dir.h - a folder for one test, removed with all that is in it. */
#ifndef TESTS_SUPPORT_TEMP_DIR_H
#define TESTS_SUPPORT_TEMP_DIR_H

#include <check.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

struct temp_dir {
    char path[64];
    char file[256]; /* the last path returned by temp_dir_file */
};

static inline void temp_dir_init(struct temp_dir *t)
{
    (void)snprintf(t->path, sizeof(t->path), "/tmp/brood-test-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(t->path));
}

/* "<path>/<name>": valid until the next call. */
static inline const char *temp_dir_file(struct temp_dir *t, const char *name)
{
    (void)snprintf(t->file, sizeof(t->file), "%s/%s", t->path, name);
    return t->file;
}

static inline int temp_dir_remove_one(const char *path, const struct stat *st, int type,
                                      struct FTW *ftw)
{
    (void)st;
    (void)type;
    (void)ftw;
    return remove(path);
}

static inline void temp_dir_done(struct temp_dir *t)
{
    ck_assert_int_eq(nftw(t->path, temp_dir_remove_one, 16, FTW_DEPTH | FTW_PHYS), 0);
}

/* The whole file, NUL-terminated; free(). */
static inline char *temp_dir_read(const char *path, size_t *ret_len)
{
    FILE *f = fopen(path, "rb");
    char *data = NULL;
    size_t len = 0, cap = 0;

    ck_assert_msg(f != NULL, "cannot read %s", path);
    do {
        cap = cap * 2 + 4096;
        data = realloc(data, cap + 1);
        ck_assert_ptr_nonnull(data);
        len += fread(data + len, 1, cap - len, f);
    } while (len == cap);
    fclose(f);
    data[len] = '\0';
    if (ret_len != NULL)
        *ret_len = len;
    return data;
}

/* Replaces the content of a file without truncating it first. After a truncation, ext4
 * would wait for the disk at close, a thousand times in tests that damage every byte. */
static inline void temp_dir_write(const char *path, const void *data, size_t len)
{
    const int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

    ck_assert_msg(fd >= 0, "cannot write %s", path);
    ck_assert_int_eq(write(fd, data, len), (ssize_t)len);
    ck_assert_int_eq(ftruncate(fd, (off_t)len), 0);
    ck_assert_int_eq(close(fd), 0);
}

#endif
