#include "supervisor/render/theme.h"

#include "common/io/own_file.h"
#include "common/mem/xmalloc.h"
#include "common/text/utf8.h"

#include <cairo-ft.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FONT_DIR "/usr/share/fonts/truetype/dejavu/"

/* ---- colours ---- */

enum { CYCLE_ONE = 6, CYCLE_TWO = 3 };

static const uint32_t one_team[CYCLE_ONE] = {0x0072b2, 0xe69f00, 0x009e73,
                                             0xcc79a7, 0x56b4e9, 0xd55e00};
static const uint32_t good[CYCLE_TWO] = {0x0072b2, 0x56b4e9, 0x009e73};
static const uint32_t adverse[CYCLE_TWO] = {0xd55e00, 0xe69f00, 0xcc79a7};

uint32_t theme_agent(enum theme_team team, size_t k)
{
    const size_t n = team == THEME_ONE_TEAM ? CYCLE_ONE : CYCLE_TWO;
    const uint32_t *cycle = team == THEME_ONE_TEAM ? one_team
                            : team == THEME_GOOD   ? good
                                                   : adverse;
    const uint32_t rgb = cycle[k % n];

    switch (k / n % 3) {
    case 0:
        return rgb;
    case 1:
        return theme_mix(rgb, THEME_INK, 0.5);
    default:
        return theme_mix(rgb, THEME_GROUND, 0.625);
    }
}

const uint32_t *theme_colours(size_t *ret_n)
{
    static const uint32_t all[] = {
        THEME_PAPER, THEME_GROUND,   THEME_INK,      THEME_MUTED, THEME_LINE,
        0x0072b2,    0xe69f00,       0x009e73,       0xcc79a7,    0x56b4e9,
        0xd55e00,    THEME_LANDMARK, THEME_OBSTACLE, THEME_FOOD,  THEME_FOREST,
        THEME_GOAL,  THEME_CONTACT,  THEME_CELL,
    };

    *ret_n = sizeof(all) / sizeof(all[0]);
    return all;
}

static double channel(uint32_t rgb, int shift)
{
    return (double)(rgb >> shift & 0xff);
}

uint32_t theme_mix(uint32_t a, uint32_t b, double part)
{
    uint32_t rgb = 0;

    for (int shift = 0; shift <= 16; shift += 8) {
        double x = part * channel(a, shift) + (1 - part) * channel(b, shift);

        rgb |= (uint32_t)lround(x) << shift;
    }
    return rgb;
}

uint32_t theme_cell(double value)
{
    return theme_mix(THEME_CELL, THEME_PAPER,
                     round(value * (THEME_CELLS - 1)) / (THEME_CELLS - 1));
}

uint32_t theme_outline(uint32_t rgb)
{
    return theme_mix(rgb, THEME_INK, 0.45);
}

uint32_t theme_letters(uint32_t rgb)
{
    double light =
        0.299 * channel(rgb, 16) + 0.587 * channel(rgb, 8) + 0.114 * channel(rgb, 0);

    return light > 135 ? THEME_INK : THEME_PAPER;
}

/* ---- fonts ---- */

enum { REGULAR, BOLD, N_FONTS };

struct theme_fonts {
    FT_Library library;
    FT_Face face[N_FONTS];
    cairo_font_face_t *font[N_FONTS];
    cairo_font_options_t *options;
};

/* The fonts that are installed with brood come first. */
static int open_font(struct theme_fonts *f, int i, struct err *err)
{
    static const char *const names[N_FONTS] = {"DejaVuSans.ttf", "DejaVuSans-Bold.ttf"};
    char *own, *path = xasprintf("fonts/%s", names[i]);
    int rc = 0;

    own = own_share(path);
    free(path);
    path = own != NULL ? own : xasprintf("%s%s", FONT_DIR, names[i]);
    if (FT_New_Face(f->library, path, 0, &f->face[i]) != 0)
        rc = err_set(err, ERR_NOT_FOUND,
                     "cannot read the font %s: apt-get install fonts-dejavu-core", path);
    else
        f->font[i] =
            cairo_ft_font_face_create_for_ft_face(f->face[i], FT_LOAD_NO_HINTING);
    free(path);
    return rc;
}

int theme_fonts_open(struct theme_fonts **ret, struct err *err)
{
    struct theme_fonts *f = xcalloc(1, sizeof(*f));
    int rc = 0;

    if (FT_Init_FreeType(&f->library) != 0)
        rc = err_set(err, ERR_NOMEM, "FreeType cannot be initialised");
    for (int i = 0; rc == 0 && i < N_FONTS; i++)
        rc = open_font(f, i, err);
    if (rc < 0) {
        theme_fonts_close(f);
        return rc;
    }
    f->options = cairo_font_options_create();
    cairo_font_options_set_antialias(f->options, CAIRO_ANTIALIAS_GRAY);
    cairo_font_options_set_hint_style(f->options, CAIRO_HINT_STYLE_NONE);
    cairo_font_options_set_hint_metrics(f->options, CAIRO_HINT_METRICS_OFF);
    *ret = f;
    return 0;
}

void theme_fonts_close(struct theme_fonts *f)
{
    if (f == NULL)
        return;
    for (int i = 0; i < N_FONTS; i++) {
        if (f->font[i] != NULL)
            cairo_font_face_destroy(f->font[i]);
    }
    cairo_debug_reset_static_data(); /* Cairo's cache keeps references to the faces */
    for (int i = 0; i < N_FONTS; i++) {
        if (f->face[i] != NULL)
            (void)FT_Done_Face(f->face[i]);
    }
    if (f->library != NULL)
        (void)FT_Done_FreeType(f->library);
    if (f->options != NULL)
        cairo_font_options_destroy(f->options);
    free(f);
}

/* ---- the pen ---- */

void pen_colour(const struct pen *p, uint32_t rgb)
{
    cairo_set_source_rgba(p->cr, channel(rgb, 16) / 255, channel(rgb, 8) / 255,
                          channel(rgb, 0) / 255, p->alpha);
}

void pen_fill(const struct pen *p, uint32_t rgb, uint32_t outline, double width)
{
    pen_colour(p, rgb);
    cairo_fill_preserve(p->cr);
    if (width > 0)
        pen_stroke(p, outline, width);
    cairo_new_path(p->cr);
}

void pen_stroke(const struct pen *p, uint32_t rgb, double width)
{
    pen_colour(p, rgb);
    cairo_set_line_width(p->cr, width);
    cairo_stroke(p->cr);
}

static void use_font(const struct pen *p, const struct pen_text *t)
{
    cairo_set_font_face(p->cr, p->fonts->font[t->is_bold ? BOLD : REGULAR]);
    cairo_set_font_options(p->cr, p->fonts->options);
    cairo_set_font_size(p->cr, t->size);
}

static double width_of(const struct pen *p, const char *text)
{
    cairo_text_extents_t x;

    cairo_text_extents(p->cr, text, &x);
    return x.x_advance;
}

double pen_text_width(const struct pen *p, const struct pen_text *t, const char *text)
{
    use_font(p, t);
    return width_of(p, text);
}

/* Copies as much as fits; unprintable characters become question marks. */
static void copy_letters(char *to, size_t room, const char *text)
{
    size_t left = strlen(text), len = 0;

    while (left > 0) {
        size_t n = utf8_len((const uint8_t *)text, left), step = n != 0 ? n : 1;

        if (len + step >= room)
            break;
        memcpy(to + len, n != 0 ? text : "?", step);
        len += step;
        text += step;
        left -= step;
    }
    to[len] = '\0';
}

/* Cuts the text at a whole character, so that it and the dots are at most `most` wide. */
static void shorten(const struct pen *p, char *text, size_t room, double most)
{
    size_t len = strlen(text);

    while (len > 0 && width_of(p, text) > most) {
        do
            len--;
        while (len > 0 && ((unsigned char)text[len] & 0xc0) == 0x80);
        (void)snprintf(text + len, room - len, "\xe2\x80\xa6");
    }
}

void pen_text(const struct pen *p, const struct pen_text *t, double x, double y,
              const char *text)
{
    char shown[256];

    use_font(p, t);
    copy_letters(shown, sizeof(shown) - 4, text);
    if (t->fit > 0 && width_of(p, shown) > t->fit)
        cairo_set_font_size(p->cr, t->size * t->fit / width_of(p, shown));
    if (t->most > 0)
        shorten(p, shown, sizeof(shown), t->most);
    if (t->align != PEN_LEFT)
        x -= width_of(p, shown) * (t->align == PEN_CENTRE ? 0.5 : 1);
    if (t->is_over_things) {
        cairo_move_to(p->cr, x, y);
        cairo_text_path(p->cr, shown);
        cairo_set_line_join(p->cr, CAIRO_LINE_JOIN_ROUND);
        pen_stroke(p, THEME_GROUND, 3.5);
        cairo_set_line_join(p->cr, CAIRO_LINE_JOIN_MITER);
    }
    cairo_move_to(p->cr, x, y);
    pen_colour(p, t->rgb);
    cairo_show_text(p->cr, shown);
    cairo_new_path(p->cr);
}
