#include "supervisor/rundir/run_dir_internal.h"

#include "common/ckpt/atomic_file.h"
#include "common/io/beneath.h"
#include "common/io/tree.h"
#include "common/mem/xmalloc.h"
#include "supervisor/describe/programs.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

int run_dir_hold(struct run_dir *d, struct err *err)
{
    const int rc = beneath_hold_same(d->path, err);

    d->is_held = rc == 0;
    return rc;
}

struct run_dir *run_dir_new(const char *runs_dir, const char *name)
{
    struct run_dir *d = xcalloc(1, sizeof(*d));

    d->path = xasprintf("%s/%s", runs_dir, name);
    d->name = xstrdup(name);
    d->lock = -1;
    return d;
}

void run_dir_forget_files(struct run_dir *d)
{
    for (size_t i = 0; i < d->n_files; i++)
        free(d->files[i]);
    d->n_files = 0;
}

void run_dir_free(struct run_dir *d)
{
    if (d == NULL)
        return;
    if (d->lock >= 0 && d->keeps_time)
        (void)futimens(d->lock, (struct timespec[]){{.tv_nsec = UTIME_OMIT}, d->started});
    if (d->lock >= 0)
        (void)close(d->lock);
    if (d->is_held)
        beneath_release(d->path);
    run_dir_forget_files(d);
    free(d->files);
    free(d->final);
    free(d->base);
    free(d->moved);
    free(d->path);
    free(d->name);
    free(d);
}

char *run_dir_name_of(const char *path)
{
    char *copy = xstrdup(path), *real = NULL, *name;
    size_t len = strlen(copy);

    while (len > 1 && copy[len - 1] == '/')
        copy[--len] = '\0';
    name = strrchr(copy, '/') != NULL && len > 1 ? strrchr(copy, '/') + 1 : copy;
    if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
        real = realpath(copy, NULL);
    if (real != NULL && real[1] != '\0')
        name = strrchr(real, '/') + 1;
    name = xstrdup(name);
    free(real);
    free(copy);
    return name;
}

int run_dir_open(struct run_dir **ret, const char *path, int lock, struct err *err)
{
    struct run_dir *d;
    size_t len = strlen(path);
    int rc = 0;

    while (len > 1 && path[len - 1] == '/')
        len--;
    d = xcalloc(1, sizeof(*d));
    d->name = run_dir_name_of(path);
    d->path = xstrndup(path, len);
    d->lock = -1;
    rc = run_dir_look(path);
    if (rc < 0)
        rc = rc == -EACCES ? run_dir_deny(path, err)
                           : err_set(err, ERR_NOT_FOUND, "%s is no run", path);
    if (rc == 0)
        rc = run_dir_hold(d, err);
    if (rc == 0 && lock)
        rc = run_dir_lock(d, err);
    d->keeps_time = 1;
    if (rc < 0) {
        run_dir_free(d);
        return rc;
    }
    if (lock) { /* only the holder of the lock writes there, except tags (run_tags.c) */
        atomic_file_tidy_folder(d->path, "tags");
        atomic_file_tidy_folder(run_dir_file(d, "policies"), NULL);
    }
    *ret = d;
    return 0;
}

void run_dir_begin(struct run_dir *d)
{
    d->keeps_time = 0;
}

/* ---- files ---- */

const char *run_dir_name(const struct run_dir *d)
{
    return d->name;
}

const char *run_dir_path(const struct run_dir *d)
{
    return d->path;
}

const char *run_dir_file(struct run_dir *d, const char *sub)
{
    size_t head = strlen(d->path) + 1;

    for (size_t i = 0; i < d->n_files; i++)
        if (strcmp(d->files[i] + head, sub) == 0)
            return d->files[i];
    d->files = xreallocarray(d->files, d->n_files + 1, sizeof(*d->files));
    d->files[d->n_files] = xasprintf("%s/%s", d->path, sub);
    return d->files[d->n_files++];
}

double run_dir_began_unix(struct run_dir *d)
{
    struct stat st;

    return beneath_stat(run_dir_file(d, "provenance"), &st) == 0
               ? (double)st.st_mtim.tv_sec
               : (double)time(NULL);
}

int run_dir_write(struct run_dir *d, const char *sub, const void *data, size_t len,
                  struct err *err)
{
    return atomic_file_write(run_dir_file(d, sub), data, len, 1, err);
}

void run_dir_place_programs(const struct run_dir *d, const struct run_config *config)
{
    for (size_t i = 0; i < config->n_agents; i++)
        if (config->agents[i].program != NULL)
            program_start_from(config->agents[i].program, d->path);
}

int run_dir_prepare_config(struct run_dir *d, const struct run_config *config,
                           struct atomic_file **ret, struct err *err)
{
    char *yaml = run_config_to_yaml(config);
    struct atomic_file *f = NULL;
    int rc = 0;

    for (size_t i = 0; i <= config->n_agents && rc == 0; i++) {
        const struct agent_config *a =
            i < config->n_agents ? &config->agents[i] : &config->defaults;

        if (a->program != NULL)
            rc = program_keep(a->program, d->path, err);
    }
    if (rc == 0)
        rc = atomic_file_new(&f, run_dir_file(d, "config.yaml"), 1, err);
    if (rc == 0)
        rc = atomic_file_append(f, yaml, strlen(yaml), err);
    if (rc == 0)
        rc = atomic_file_flush(f, err);
    free(yaml);
    if (rc < 0)
        atomic_file_free(f);
    else
        *ret = f;
    return rc;
}

int run_dir_write_config(struct run_dir *d, const struct run_config *config,
                         struct err *err)
{
    struct atomic_file *f = NULL;
    int rc = run_dir_prepare_config(d, config, &f, err);

    if (rc == 0)
        rc = atomic_file_commit(f, err);
    atomic_file_free(f);
    return rc;
}
