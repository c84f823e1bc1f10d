/* All frames share one palette of 255 colours: the exact colours of areas, and between
 * each of them and its surroundings enough shades for smooth edges. For an environment's own
 * pictures: their most frequent colours. */
#include "common/err/check.h"
#include "common/mem/xmalloc.h"
#include "supervisor/render/draw.h"
#include "supervisor/render/page.h"

#include <cgif.h>
#include <stdlib.h>

enum {
    MOST_COLOURS = 255, /* the 256th marks pixels that do not change */
    LIGHT = 8,          /* shades between a colour and the ground */
    DARK = 4,           /* shades between a colour and the ink */
    GREYS = 12,
    TABLE = 1 << 16, /* colours with 5, 6 and 5 bits */
    LAST_CS = 200,   /* duration of the last frame, in hundredths of a second */
    FIRST_CS = 50,
};

struct palette {
    uint32_t colour[MOST_COLOURS];
    size_t n;
    uint8_t *nearest; /* (TABLE) */
};

static void add_colour(struct palette *p, uint32_t rgb)
{
    for (size_t i = 0; i < p->n; i++) {
        if (p->colour[i] == rgb)
            return;
    }
    CHECK(p->n < MOST_COLOURS, "too many colours");
    p->colour[p->n++] = rgb;
}

static size_t slot_of(uint32_t rgb)
{
    return (rgb >> 8 & 0xf800) | (rgb >> 5 & 0x07e0) | (rgb >> 3 & 0x001f);
}

static uint32_t colour_of(size_t slot)
{
    uint32_t r = slot >> 11 & 31, g = slot >> 5 & 63, b = slot & 31;

    return (r << 3 | r >> 2) << 16 | (g << 2 | g >> 4) << 8 | (b << 3 | b >> 2);
}

static int distance(uint32_t a, uint32_t b)
{
    int r = (int)(a >> 16 & 0xff) - (int)(b >> 16 & 0xff);
    int g = (int)(a >> 8 & 0xff) - (int)(b >> 8 & 0xff);
    int d = (int)(a & 0xff) - (int)(b & 0xff);

    return 3 * r * r + 4 * g * g + 2 * d * d;
}

static uint8_t find_nearest(const struct palette *p, uint32_t rgb)
{
    size_t best = 0;

    for (size_t i = 1; i < p->n; i++) {
        if (distance(p->colour[i], rgb) < distance(p->colour[best], rgb))
            best = i;
    }
    return (uint8_t)best;
}

static void map_colours(struct palette *p)
{
    for (size_t i = 0; i < TABLE; i++)
        p->nearest[i] = find_nearest(p, colour_of(i));
    /* Palette colours map to themselves; of two with the same entry, the first wins. */
    for (size_t i = p->n; i-- > 0;)
        p->nearest[slot_of(p->colour[i])] = (uint8_t)i;
}

static void make_palette(struct palette *p)
{
    size_t n;
    const uint32_t *colours = theme_colours(&n);

    *p = (struct palette){.nearest = xmalloc(TABLE)};
    for (size_t i = 0; i < n; i++)
        add_colour(p, colours[i]);
    for (int k = 1; k < GREYS; k++)
        add_colour(p, theme_mix(THEME_INK, THEME_PAPER, (double)k / GREYS));
    for (size_t i = 0; i < n; i++) {
        for (int k = 1; k < LIGHT; k++)
            add_colour(p, theme_mix(colours[i], THEME_GROUND, (double)k / LIGHT));
        for (int k = 1; k < DARK; k++)
            add_colour(p, theme_mix(colours[i], THEME_INK, (double)k / DARK));
        add_colour(p, theme_outline(colours[i]));
    }
    for (int k = 0; k < THEME_CELLS; k++)
        add_colour(p, theme_cell((double)k / (THEME_CELLS - 1)));
    map_colours(p);
}

struct frequency {
    uint32_t rgb; /* the first colour of that slot */
    uint32_t n;
};

static int by_frequency(const void *a, const void *b)
{
    const struct frequency *x = a, *y = b;

    return x->n != y->n ? (x->n < y->n) - (x->n > y->n)
                        : (x->rgb > y->rgb) - (x->rgb < y->rgb);
}

static uint32_t pixel_of(const struct scene_picture *s, size_t i)
{
    const uint8_t *p = s->rgb + 3 * i;

    return (uint32_t)p[0] << 16 | (uint32_t)p[1] << 8 | p[2];
}

static void make_picture_palette(struct palette *p, const struct episode *e)
{
    struct frequency *found = xcalloc(TABLE, sizeof(*found));

    *p = (struct palette){.nearest = xmalloc(TABLE)};
    for (size_t i = 0; i < e->n_frames; i++) {
        const struct scene_picture *s = &e->frame[i].scene.picture;

        for (size_t k = 0; k < s->width * s->height; k++) {
            const uint32_t rgb = pixel_of(s, k);
            struct frequency *f = &found[slot_of(rgb)];

            f->rgb = f->n == 0 ? rgb : f->rgb;
            f->n += f->n < UINT32_MAX;
        }
    }
    qsort(found, TABLE, sizeof(*found), by_frequency);
    for (size_t i = 0; i < MOST_COLOURS && found[i].n > 0; i++)
        add_colour(p, found[i].rgb);
    free(found);
    map_colours(p);
}

/* ---- frames ---- */

struct film {
    const struct view *v;
    const struct theme_fonts *fonts;
    int width, height;
    struct palette palette;
    cairo_surface_t *surface;
    uint8_t *pixels; /* (height, width) indices */
    CGIF *gif;
};

static int take_frame(struct film *f, size_t i, struct err *err)
{
    struct pen p = {cairo_create(f->surface), f->fonts, 1};
    const int stride = cairo_image_surface_get_stride(f->surface);
    const unsigned char *data = cairo_image_surface_get_data(f->surface);
    cairo_status_t status;

    page_draw_frame(&p, f->v, i);
    status = cairo_status(p.cr);
    cairo_destroy(p.cr);
    if (status != CAIRO_STATUS_SUCCESS)
        return err_set(err, ERR_IO, "drawing: %s", cairo_status_to_string(status));
    cairo_surface_flush(f->surface);
    for (int y = 0; y < f->height; y++) {
        const uint32_t *row = (const void *)(data + (ptrdiff_t)y * stride);

        for (int x = 0; x < f->width; x++)
            f->pixels[(ptrdiff_t)y * f->width + x] =
                f->palette.nearest[slot_of(row[x] & 0xffffff)];
    }
    return 0;
}

static int take_picture(struct film *f, size_t i, struct err *err)
{
    const struct scene_picture *s = &f->v->episode->frame[i].scene.picture;

    if (s->width != (size_t)f->width || s->height != (size_t)f->height)
        return err_set(err, ERR_SHAPE, "picture %zu is %zu x %zu, the first %d x %d", i,
                       s->width, s->height, f->width, f->height);
    for (size_t k = 0; k < s->width * s->height; k++)
        f->pixels[k] = f->palette.nearest[slot_of(pixel_of(s, k))];
    return 0;
}

static int add_frame(struct film *f, size_t i, struct err *err)
{
    const struct episode *e = f->v->episode;
    const int cs = e->frame[0].scene.frame_ms / 10;
    CGIF_FrameConfig config = {.pImageData = f->pixels,
                               .genFlags = CGIF_FRAME_GEN_USE_TRANSPARENCY |
                                           CGIF_FRAME_GEN_USE_DIFF_WINDOW,
                               .delay = (uint16_t)(i == e->n_frames - 1      ? LAST_CS
                                                   : i == 0 && cs < FIRST_CS ? FIRST_CS
                                                                             : cs)};
    int rc = e->frame[i].scene.picture.rgb != NULL ? take_picture(f, i, err)
                                                   : take_frame(f, i, err);

    if (rc == 0 && cgif_addframe(f->gif, &config) != CGIF_OK)
        rc = err_set(err, ERR_IO, "frame %zu cannot be encoded", i);
    return rc;
}

static int append(void *ctx, const uint8_t *data, const size_t n)
{
    wbuf_bytes(ctx, data, n);
    return 0;
}

static int open_gif(struct film *f, struct wbuf *ret, struct err *err)
{
    uint8_t table[3 * MOST_COLOURS];
    CGIF_Config config = {.pGlobalPalette = table,
                          .attrFlags = CGIF_ATTR_IS_ANIMATED,
                          .width = (uint16_t)f->width,
                          .height = (uint16_t)f->height,
                          .numGlobalPaletteEntries = (uint16_t)f->palette.n,
                          .numLoops = CGIF_INFINITE_LOOP,
                          .pWriteFn = append,
                          .pContext = ret};

    for (size_t i = 0; i < f->palette.n; i++) {
        table[3 * i] = (uint8_t)(f->palette.colour[i] >> 16);
        table[3 * i + 1] = (uint8_t)(f->palette.colour[i] >> 8);
        table[3 * i + 2] = (uint8_t)f->palette.colour[i];
    }
    f->gif = cgif_newgif(&config);
    return f->gif != NULL ? 0 : err_set(err, ERR_NOMEM, "no memory for a GIF");
}

int draw_gif(const struct view *v, const struct theme_fonts *fonts, struct wbuf *ret,
             struct err *err)
{
    struct film f = {
        .v = v, .fonts = fonts, .width = (int)v->width, .height = (int)v->height};
    int rc;

    if (v->episode->frame[0].scene.picture.rgb != NULL)
        make_picture_palette(&f.palette, v->episode);
    else
        make_palette(&f.palette);
    f.surface = cairo_image_surface_create(CAIRO_FORMAT_RGB24, f.width, f.height);
    f.pixels = xcalloc((size_t)f.width, (size_t)f.height);
    rc = open_gif(&f, ret, err);
    for (size_t i = 0; rc == 0 && i < v->episode->n_frames; i++)
        rc = add_frame(&f, i, err);
    if (f.gif != NULL && cgif_close(f.gif) != CGIF_OK && rc == 0)
        rc = err_set(err, ERR_IO, "the GIF cannot be completed");
    free(f.pixels);
    free(f.palette.nearest);
    cairo_surface_destroy(f.surface);
    return rc;
}
