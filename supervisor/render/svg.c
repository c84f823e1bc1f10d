#include "supervisor/render/draw.h"
#include "supervisor/render/page.h"

#include <cairo-svg.h>

static cairo_status_t append(void *ctx, const unsigned char *data, unsigned int n)
{
    wbuf_bytes(ctx, data, n);
    return CAIRO_STATUS_SUCCESS;
}

int draw_svg(const struct view *v, const struct theme_fonts *fonts, struct wbuf *ret,
             struct err *err)
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
