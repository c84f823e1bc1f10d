#include "supervisor/render/render.h"

#include "common/ckpt/atomic_file.h"
#include "common/mem/xmalloc.h"
#include "supervisor/render/theme.h"
#include "supervisor/render/view.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef int make_fn(const struct view *v, const struct theme_fonts *fonts,
                    struct wbuf *ret, struct err *err);

static const struct {
    const char *suffix;
    make_fn *make;
} formats[] = {
    {".gif", render_gif},
    {".svg", render_svg},
    {".jsonl", render_jsonl},
};
enum { N_FORMATS = sizeof(formats) / sizeof(formats[0]) };

/* What the name of a file asks for; NULL, with an error, if nothing can be made of it. */
static make_fn *format_of(const char *path, struct err *err)
{
    const size_t len = strlen(path);

    for (int i = 0; i < N_FORMATS; i++) {
        const size_t n = strlen(formats[i].suffix);

        if (len > n && strcmp(path + len - n, formats[i].suffix) == 0)
            return formats[i].make;
    }
    (void)err_set(err, ERR_ARG,
                  "%s: pictures are made as .gif or .svg, the data of one as .jsonl",
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

int render_check(const char *path, struct err *err)
{
    struct theme_fonts *fonts;
    int rc;

    if (format_of(path, err) == NULL)
        return ERR_ARG;
    if ((rc = check_folder(path, err)) < 0 || (rc = theme_fonts_open(&fonts, err)) < 0)
        return rc;
    theme_fonts_close(fonts);
    return 0;
}

int render_write(const struct episode *e, const char *path, struct err *err)
{
    struct theme_fonts *fonts;
    make_fn *make = format_of(path, err);
    struct wbuf bytes = {0};
    struct view v;
    int rc;

    if (make == NULL)
        return ERR_ARG;
    rc = theme_fonts_open(&fonts, err);
    if (rc < 0)
        return rc;
    view_init(&v, e);
    rc = make(&v, fonts, &bytes, err);
    if (rc == 0)
        rc = atomic_file_write(path, bytes.data, bytes.len, 0, err);
    wbuf_done(&bytes);
    view_done(&v);
    theme_fonts_close(fonts);
    return rc;
}
