#include "supervisor/render/draw.h"

#include "supervisor/render/page.h"

#include <cairo-svg.h>

static cairo_status_t append(void *ctx, const unsigned char *data, unsigned int n)
{
    wbuf_bytes(ctx, data, n);
    return CAIRO_STATUS_SUCCESS;
}

static int draw_svg(const struct view *v, const struct theme_fonts *fonts,
                    struct wbuf *ret, struct err *err)
{
    cairo_surface_t *surface =
        cairo_svg_surface_create_for_stream(append, ret, v->width, v->height);
    struct pen p = {cairo_create(surface), fonts, 1};
    cairo_status_t status;

    cairo_svg_surface_set_document_unit(surface, CAIRO_SVG_UNIT_PX);
    page_draw_whole(&p, v);
    status = cairo_status(p.cr);
    cairo_destroy(p.cr);
    cairo_surface_finish(surface);
    if (status == CAIRO_STATUS_SUCCESS)
        status = cairo_surface_status(surface);
    cairo_surface_destroy(surface);
    if (status != CAIRO_STATUS_SUCCESS)
        return err_set(err, ERR_IO, "drawing: %s", cairo_status_to_string(status));
    return 0;
}

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
