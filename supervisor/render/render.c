#include "supervisor/render/render.h"

#include "common/ckpt/atomic_file.h"
#include "common/mem/xmalloc.h"
#include "common/text/scan.h"
#include "supervisor/proc/binaries.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *const suffixes[] = {
    [DRAW_GIF] = ".gif",
    [DRAW_SVG] = ".svg",
    [DRAW_JSONL] = ".jsonl",
};
enum { N_SUFFIXES = sizeof(suffixes) / sizeof(suffixes[0]) };

/* The format for the extension of a file's name, or an error. */
static int format_of(const char *path, struct err *err)
{
    for (int i = 0; i < N_SUFFIXES; i++)
        if (text_ends_with(path, suffixes[i]))
            return i;
    return err_set(err, ERR_ARG,
                   "%s: expected .gif or .svg for a picture, .jsonl for its data", path);
}

static int check_folder(const char *path, struct err *err)
{
    const char *slash = strrchr(path, '/');
    char *folder = slash == NULL   ? xstrdup(".")
                   : slash == path ? xstrdup("/")
                                   : xstrndup(path, (size_t)(slash - path));
    int rc = access(folder, W_OK | X_OK) == 0 ? 0 : err_errno(err, "%s", folder);

    free(folder);
    return rc;
}

static int load(const struct draw_calls **ret, struct err *err)
{
    static const struct draw_calls *loaded;
    char path[PATH_MAX];
    void *module;
    int rc = 0;

    if (loaded == NULL) {
        rc = binaries_beside(DRAW_MODULE, path, err);
        if (rc < 0)
            return rc;
        module = dlopen(path, RTLD_NOW | RTLD_LOCAL);
        if (module != NULL)
            loaded = dlsym(module, DRAW_SYMBOL);
        if (loaded == NULL)
            rc = err_set(err, ERR_NOT_FOUND, "pictures cannot be drawn: %s", dlerror());
    }
    *ret = loaded;
    return rc;
}

int render_check_env(const char *path, const struct env_config *env, struct err *err)
{
    int rc = env_check_drawable(env, err);

    if (rc == 0)
        rc = format_of(path, err);
    if (rc >= 0 && env_config_is_external(env) && rc != DRAW_GIF)
        return err_set(err, ERR_ARG,
                       "%s: expected .gif: an environment's own pictures are animated",
                       path);
    return rc < 0 ? rc : 0;
}

int render_check_machine(struct err *err)
{
    const struct draw_calls *draw;
    const int rc = load(&draw, err);

    return rc < 0 ? rc : draw->check(err);
}

int render_check(const char *path, struct err *err)
{
    int rc = format_of(path, err);

    if (rc >= 0)
        rc = check_folder(path, err);
    return rc < 0 ? rc : render_check_machine(err);
}

int render_bytes(const struct episode *e, enum draw_format format, struct wbuf *ret,
                 struct err *err)
{
    const struct draw_calls *draw;
    const int rc = load(&draw, err);

    return rc < 0 ? rc : draw->episode(e, format, ret, err);
}

int render_write(const struct episode *e, const char *path, struct err *err)
{
    const int format = format_of(path, err);
    struct wbuf bytes = {0};
    int rc;

    if (format < 0)
        return format;
    rc = render_bytes(e, (enum draw_format)format, &bytes, err);
    if (rc == 0)
        rc = atomic_file_write(path, bytes.data, bytes.len, 0, err);
    wbuf_done(&bytes);
    return rc;
}
