#include "common/ckpt/atomic_file.h"

#include "common/err/check.h"
#include "common/io/beneath.h"
#include "common/mem/xmalloc.h"
#include "common/text/scan.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_LEFTOVERS = 1000 };

static const char temporary[] = ".tempstate"; /* and digits follow the name of the file */

struct atomic_file {
    char *path;
    char *temp_path;
    FILE *stream; /* NULL after the commit, and after an error */
    int durable;
};

/* Finds an unused name: a killed process with this pid may have left a file behind. */
static int create_temp(struct atomic_file *f)
{
    for (int i = 0; i < MAX_LEFTOVERS; i++) {
        int fd;

        free(f->temp_path);
        f->temp_path = xasprintf("%s%s%ld%03d", f->path, temporary, (long)getpid(), i);
        fd = beneath_open(f->temp_path, O_WRONLY | O_CREAT | O_EXCL, 0666);
        if (fd >= 0 || errno != EEXIST)
            return fd;
    }
    return -1;
}

int atomic_file_new(struct atomic_file **ret, const char *path, int durable,
                    struct err *err)
{
    struct atomic_file *f = xcalloc(1, sizeof(*f));
    int fd, rc;

    f->path = xstrdup(path);
    f->durable = durable;
    fd = create_temp(f);
    if (fd >= 0) {
        f->stream = fdopen(fd, "wb");
        CHECK(f->stream != NULL);
        *ret = f;
        return 0;
    }
    rc = err_errno(err, "%s: create", path);
    atomic_file_free(f);
    return rc;
}

/* Sets err from errno and removes the temporary file. */
static int atomic_file_fail(struct atomic_file *f, const char *step, struct err *err)
{
    int rc = err_errno(err, "%s: %s", f->path, step);

    if (f->stream != NULL)
        (void)fclose(f->stream);
    f->stream = NULL;
    (void)beneath_unlink(f->temp_path);
    return rc;
}

int atomic_file_append(struct atomic_file *f, const void *data, size_t len_bytes,
                       struct err *err)
{
    CHECK(f->stream != NULL);
    if (len_bytes > 0 && fwrite(data, 1, len_bytes, f->stream) != len_bytes)
        return atomic_file_fail(f, "write", err);
    return 0;
}

FILE *atomic_file_stream(struct atomic_file *f)
{
    CHECK(f->stream != NULL);
    return f->stream;
}

/* The directory that holds `path`; free(). */
static char *parent_of(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash != NULL ? xstrndup(path, (size_t)(slash - path) + 1) : xstrdup("./");
}

/* fsync of the directory that holds `path`, which makes a rename or unlink durable. */
static int sync_parent(const char *path, struct err *err)
{
    char *dir = parent_of(path);
    int fd = beneath_open(dir, O_RDONLY | O_DIRECTORY, 0);
    int rc = 0;

    if (fd < 0 || fsync(fd) != 0)
        rc = err_errno(err, "%s: fsync of the directory", path);
    if (fd >= 0)
        (void)close(fd);
    free(dir);
    return rc;
}

int atomic_file_flush(struct atomic_file *f, struct err *err)
{
    CHECK(f->stream != NULL);
    if (fflush(f->stream) != 0 || ferror(f->stream))
        return atomic_file_fail(f, "write", err);
    if (f->durable && fsync(fileno(f->stream)) != 0)
        return atomic_file_fail(f, "fsync", err);
    return 0;
}

int atomic_file_commit(struct atomic_file *f, struct err *err)
{
    FILE *stream = f->stream;
    int rc = atomic_file_flush(f, err);

    if (rc < 0)
        return rc;
    f->stream = NULL; /* fclose frees the stream even if it fails */
    if (fclose(stream) != 0)
        return atomic_file_fail(f, "close", err);
    if (beneath_rename(f->temp_path, f->path, 0) != 0)
        return atomic_file_fail(f, "rename", err);
    return f->durable ? sync_parent(f->path, err) : 0;
}

void atomic_file_free(struct atomic_file *f)
{
    if (f == NULL)
        return;
    if (f->stream != NULL) {
        (void)fclose(f->stream);
        (void)beneath_unlink(f->temp_path);
    }
    free(f->temp_path);
    free(f->path);
    free(f);
}

/* Whether the name is that of a temporary file. */
static int is_temporary(const char *name)
{
    const char *ending = strstr(name, temporary);

    return ending != NULL && text_is_digits(ending + strlen(temporary));
}

/* Removes the temporary files in dir whose names begin with `first` and not with `but`. */
static void tidy(const char *dir, const char *first, const char *but)
{
    DIR *d = beneath_opendir(dir);
    struct dirent *e;

    while (d != NULL && (e = readdir(d)) != NULL) {
        char *path;

        if (!is_temporary(e->d_name) || text_after(e->d_name, first) == NULL ||
            (but != NULL && text_after(e->d_name, but) != NULL))
            continue;
        path = xasprintf("%s/%s", dir, e->d_name);
        (void)beneath_unlink(path);
        free(path);
    }
    if (d != NULL)
        (void)closedir(d);
}

void atomic_file_tidy(const char *path)
{
    char *first = xasprintf("%s%s", text_base_name(path), temporary);
    char *dir = parent_of(path);

    tidy(dir, first, NULL);
    free(dir);
    free(first);
}

void atomic_file_tidy_folder(const char *dir, const char *but)
{
    tidy(dir, "", but);
}

int atomic_file_write(const char *path, const void *data, size_t len_bytes, int durable,
                      struct err *err)
{
    struct atomic_file *f;
    int rc = atomic_file_new(&f, path, durable, err);

    if (rc != 0)
        return rc;
    rc = atomic_file_append(f, data, len_bytes, err);
    if (rc == 0)
        rc = atomic_file_commit(f, err);
    atomic_file_free(f);
    return rc;
}
