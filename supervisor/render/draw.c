#include "supervisor/render/draw.h"

#include "supervisor/render/theme.h"
#include "supervisor/render/view.h"

typedef int draw_fn(const struct view *v, const struct theme_fonts *fonts,
                    struct wbuf *ret, struct err *err);

static draw_fn *const formats[] = {
    [DRAW_GIF] = draw_gif,
    [DRAW_SVG] = draw_svg,
    [DRAW_JSONL] = draw_jsonl,
};

static int draw_check(struct err *err)
{
    struct theme_fonts *fonts;
    int rc = theme_fonts_open(&fonts, err);

    if (rc == 0)
        theme_fonts_close(fonts);
    return rc;
}

static int draw_episode(const struct episode *e, enum draw_format format,
                        struct wbuf *ret, struct err *err)
{
    const struct scene_picture *own = &e->frame[0].scene.picture;
    struct theme_fonts *fonts;
    struct view v = {
        .episode = e, .width = (double)own->width, .height = (double)own->height};
    int rc;

    if (own->rgb != NULL && format != DRAW_GIF)
        return err_set(err, ERR_UNSUPPORTED,
                       "an environment's own pictures can only be a GIF");
    if (own->rgb != NULL)
        return draw_gif(&v, NULL, ret, err);
    rc = theme_fonts_open(&fonts, err);

    if (rc < 0)
        return rc;
    view_init(&v, e);
    rc = formats[format](&v, fonts, ret, err);
    view_done(&v);
    theme_fonts_close(fonts);
    return rc;
}

__attribute__((visibility("default"))) const struct draw_calls draw_calls = {
    .check = draw_check,
    .episode = draw_episode,
};
