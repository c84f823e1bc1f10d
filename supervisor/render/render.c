#include "supervisor/render/render.h"

#include "common/ckpt/atomic_file.h"
#include "common/config/run_schema.h"
#include "common/io/write_all.h"
#include "common/mem/xmalloc.h"
#include "common/text/scan.h"
#include "supervisor/proc/binaries.h"
#include "supervisor/proc/command_output.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static const struct format {
    const char *suffix;
    enum draw_format drawn;
    const char *muxer,
        *codec; /* of ffmpeg, which makes the file of the drawn one; NULL: none */
} formats[] = {
    {".gif", DRAW_GIF, NULL, NULL},
    {".svg", DRAW_SVG, NULL, NULL},
    {".jsonl", DRAW_JSONL, NULL, NULL},
    {".mp4", DRAW_GIF, "mp4", "libx264"},
    {".webm", DRAW_GIF, "webm", "libvpx-vp9"},
};
enum { N_FORMATS = sizeof(formats) / sizeof(formats[0]), VIDEO_TIMEOUT_MS = 600000 };
#define VIDEO_MAX_BYTES ((size_t)1 << 30)

/* The format for the extension of a file's name; NULL and an error: none. */
static const struct format *format_of(const char *path, struct err *err)
{
    for (int i = 0; i < N_FORMATS; i++)
        if (text_ends_with(path, formats[i].suffix))
            return &formats[i];
    (void)err_set(
        err, ERR_ARG,
        "%s: expected .gif, .mp4, .webm or .svg for a picture, .jsonl for its data",
        path);
    return NULL;
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

#ifdef BROOD_STATIC
static int load(const struct draw_calls **ret, struct err *err)
{
    *ret = &draw_calls;
    return 0;
}
#else
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
#endif

int render_check_env(const char *path, const struct env_config *env, struct err *err)
{
    const struct format *format;
    const int rc = env_check_drawable(env, err);

    if (rc < 0)
        return rc;
    format = format_of(path, err);
    if (format == NULL)
        return ERR_ARG;
    return env_config_is_external(env) && format->drawn != DRAW_GIF
               ? err_set(
                     err, ERR_ARG,
                     "%s: expected .gif, .mp4 or .webm: an environment's own pictures "
                     "are animated",
                     path)
               : 0;
}

int render_check_machine(struct err *err)
{
    const struct draw_calls *draw;
    const int rc = load(&draw, err);

    return rc < 0 ? rc : draw->check(err);
}

int render_check(const char *path, struct err *err)
{
    const struct format *format = format_of(path, err);
    int rc;

    if (format == NULL)
        return ERR_ARG;
    if (format->muxer != NULL && !command_is_on_path(".", "ffmpeg"))
        return err_set(
            err, ERR_NOT_FOUND,
            "%s: there is no ffmpeg, which makes videos (apt-get install ffmpeg); a "
            ".gif needs none",
            path);
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

/* Replaces an animation by the video that ffmpeg makes of it. Both are files in memory, which
 * ffmpeg finds as those of this process. */
static int convert(const struct format *to, struct wbuf *bytes, struct err *err)
{
    const int from_fd = memfd_create("animation", MFD_CLOEXEC);
    const int to_fd = memfd_create("video", MFD_CLOEXEC);
    char from[64], video[64], *said = NULL;
    /* one thread and no dates: the same bytes each time; these codecs want even sizes */
    const char *const argv[] = {"ffmpeg",
                                "-nostdin",
                                "-v",
                                "error",
                                "-y",
                                "-threads",
                                "1",
                                "-f",
                                "gif",
                                "-i",
                                from,
                                "-vf",
                                "pad=ceil(iw/2)*2:ceil(ih/2)*2",
                                "-pix_fmt",
                                "yuv420p",
                                "-c:v",
                                to->codec,
                                "-threads",
                                "1",
                                "-fflags",
                                "+bitexact",
                                "-f",
                                to->muxer,
                                video,
                                NULL};
    int rc = 0;

    (void)snprintf(from, sizeof(from), "/proc/%d/fd/%d", (int)getpid(), from_fd);
    (void)snprintf(video, sizeof(video), "/proc/%d/fd/%d", (int)getpid(), to_fd);
    if (from_fd < 0 || to_fd < 0 || write_all(from_fd, bytes->data, bytes->len) < 0)
        rc = err_errno(err, "the animation that ffmpeg reads");
    if (rc == 0)
        rc = command_ask(argv, VIDEO_TIMEOUT_MS, &said, err);
    wbuf_clear(bytes);
    if (rc == 0)
        rc = wbuf_read_file(bytes, video, VIDEO_MAX_BYTES, err);
    free(said);
    if (from_fd >= 0)
        (void)close(from_fd);
    if (to_fd >= 0)
        (void)close(to_fd);
    return rc;
}

int render_write(const struct episode *e, const char *path, struct err *err)
{
    const struct format *format = format_of(path, err);
    struct wbuf bytes = {0};
    int rc;

    if (format == NULL)
        return ERR_ARG;
    rc = render_bytes(e, format->drawn, &bytes, err);
    if (rc == 0 && format->muxer != NULL)
        rc = convert(format, &bytes, err);
    if (rc == 0)
        rc = atomic_file_write(path, bytes.data, bytes.len, 0, err);
    wbuf_done(&bytes);
    return rc;
}
