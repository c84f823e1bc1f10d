#include "supervisor/render/shapes.h"

#include <math.h>
#include <stddef.h>

static void circle(const struct pen *p, double x, double y, double r)
{
    cairo_new_sub_path(p->cr);
    cairo_arc(p->cr, x, y, r, 0, 2 * M_PI);
    cairo_close_path(p->cr);
}

/* Traces a star of n corners, every second one on the inner circle, the first at the
 * top. */
static void star(const struct pen *p, const struct shape *s, int n, double inner)
{
    for (int i = 0; i < n; i++) {
        double r = i % 2 == 0 ? s->r : s->r * inner;
        double angle = 2 * M_PI * i / n - M_PI / 2;

        cairo_line_to(p->cr, s->x + r * cos(angle), s->y + r * sin(angle));
    }
    cairo_close_path(p->cr);
}

static void rounded(const struct pen *p, double x, double y, double half, double corner)
{
    for (int i = 0; i < 4; i++) {
        double cx = x + (i == 0 || i == 3 ? 1 : -1) * (half - corner);
        double cy = y + (i < 2 ? 1 : -1) * (half - corner);

        cairo_arc(p->cr, cx, cy, corner, i * M_PI / 2, (i + 1) * M_PI / 2);
    }
    cairo_close_path(p->cr);
}

/* Writes the text in the middle of the shape, as large as fits. */
static void write_text(const struct pen *p, const struct shape *s, struct pen_text t,
                       double room)
{
    double width;

    if (s->text == NULL || s->text[0] == '\0')
        return;
    width = pen_text_width(p, &t, s->text);
    if (width > room)
        t.size *= room / width;
    if (t.size >= 6)
        pen_text(p, &t, s->x, s->y + 0.36 * t.size, s->text);
}

static void write_on(const struct pen *p, const struct shape *s, uint32_t rgb,
                     double size, double room)
{
    write_text(
        p, s,
        (struct pen_text){.size = size, .is_bold = 1, .align = PEN_CENTRE, .rgb = rgb},
        room);
}

static double disc_letters(const struct shape *s)
{
    return fmin(fmax(s->r, 8), 19);
}

static void write_in_disc(const struct pen *p, const struct shape *s, uint32_t rgb)
{
    write_on(p, s, rgb, disc_letters(s), 1.7 * s->r);
}

static uint32_t body_of(const struct shape *s)
{
    return s->is_pale ? theme_mix(s->rgb, THEME_GROUND, 0.3) : s->rgb;
}

static uint32_t edge_of(const struct shape *s)
{
    return s->is_pale ? s->rgb : theme_outline(s->rgb);
}

static void write_in_body(const struct pen *p, const struct shape *s)
{
    write_in_disc(p, s, theme_letters(body_of(s)));
}

/* ---- agents: discs; spikes for adversaries; squares for those that cannot move ---- */

static void draw_agent(const struct pen *p, const struct shape *s)
{
    circle(p, s->x, s->y, s->r);
    pen_fill(p, edge_of(s), 0, 0);
    circle(p, s->x, s->y, s->r - 1.5);
    pen_fill(p, body_of(s), 0, 0);
    write_in_body(p, s);
}

static void draw_adversary(const struct pen *p, const struct shape *s)
{
    star(p, s, 24, 0.8);
    pen_fill(p, body_of(s), edge_of(s), 1.2);
    if (s->kind == SCENE_LEADER) {
        circle(p, s->x, s->y, 0.66 * s->r);
        pen_stroke(p, THEME_PAPER, fmax(1.5, 0.12 * s->r));
    }
    write_in_body(p, s);
}

static void draw_speaker(const struct pen *p, const struct shape *s)
{
    rounded(p, s->x, s->y, 0.9 * s->r, 0.25 * s->r);
    pen_fill(p, body_of(s), edge_of(s), 1.5);
    write_in_body(p, s);
}

/* ---- the world ---- */

static void diamond(const struct pen *p, const struct shape *s)
{
    struct shape wider = *s;

    wider.r *= 1.3;
    star(p, &wider, 4, 1);
}

static void draw_landmark(const struct pen *p, const struct shape *s)
{
    diamond(p, s);
    pen_fill(p, THEME_LANDMARK, theme_outline(THEME_LANDMARK), 1.2);
    write_in_disc(p, s, THEME_INK);
}

static void draw_obstacle(const struct pen *p, const struct shape *s)
{
    const double step = fmax(s->r / 4, 5);

    cairo_save(p->cr);
    circle(p, s->x, s->y, s->r);
    pen_fill(p, THEME_OBSTACLE, 0, 0);
    circle(p, s->x, s->y, s->r);
    cairo_clip(p->cr);
    for (double d = -2 * s->r; d < 2 * s->r; d += step) {
        cairo_move_to(p->cr, s->x + d - s->r, s->y + s->r);
        cairo_line_to(p->cr, s->x + d + s->r, s->y - s->r);
    }
    pen_stroke(p, theme_mix(THEME_OBSTACLE, THEME_PAPER, 0.78), 1);
    cairo_restore(p->cr);
    circle(p, s->x, s->y, s->r);
    pen_stroke(p, THEME_INK, 1.2);
}

static void draw_food(const struct pen *p, const struct shape *s)
{
    star(p, s, 6, 1);
    pen_fill(p, THEME_FOOD, theme_outline(THEME_FOOD), 1.3);
    write_in_disc(p, s, THEME_INK);
}

static void draw_forest(const struct pen *p, const struct shape *s)
{
    const double dashes[] = {5, 4};

    circle(p, s->x, s->y, s->r);
    cairo_set_dash(p->cr, dashes, 2, 0);
    pen_fill(p, THEME_FOREST, theme_mix(THEME_FOREST, THEME_INK, 0.6), 1.3);
    cairo_set_dash(p->cr, NULL, 0, 0);
}

double shape_goal_radius(const struct shape *s)
{
    return 1.3 * s->r + 6 + 8 * s->value;
}

/* A ring with four ticks; the ring of a second goal at the same place is wider. */
static void draw_goal(const struct pen *p, const struct shape *s)
{
    const double r = shape_goal_radius(s);
    const uint32_t rgb = s->has_agent ? s->rgb : THEME_GOAL;

    for (int pass = 0; pass < 2; pass++) {
        circle(p, s->x, s->y, r);
        for (int i = 0; i < 4; i++) {
            double dx = cos(i * M_PI / 2), dy = sin(i * M_PI / 2);

            cairo_move_to(p->cr, s->x + (r - 3) * dx, s->y + (r - 3) * dy);
            cairo_line_to(p->cr, s->x + (r + 4) * dx, s->y + (r + 4) * dy);
        }
        pen_stroke(p, pass == 0 ? theme_outline(rgb) : rgb, pass == 0 ? 4.4 : 2.4);
    }
}

/* ---- tables ---- */

static void draw_cell(const struct pen *p, const struct shape *s)
{
    cairo_rectangle(p->cr, s->x - s->r, s->y - s->r, 2 * s->r, 2 * s->r);
    pen_fill(p, theme_cell(s->value), THEME_LINE, 1);
    write_on(p, s, THEME_INK, fmin(20, 0.5 * s->r), 1.7 * s->r);
}

static void draw_header(const struct pen *p, const struct shape *s)
{
    const int chosen = s->value > 0;

    rounded(p, s->x, s->y, fmin(s->r, 18), 4);
    if (chosen)
        pen_fill(p, s->rgb, theme_outline(s->rgb), 1.2);
    else
        pen_fill(p, THEME_GROUND, s->rgb, 1.2);
    write_on(p, s, chosen ? theme_letters(s->rgb) : THEME_INK, fmin(16, 0.8 * s->r),
             1.6 * s->r);
}

static void draw_chosen(const struct pen *p, const struct shape *s)
{
    const double width = fmin(5, 1 + s->r / 6), half = s->r - width / 2;

    cairo_rectangle(p->cr, s->x - half, s->y - half, 2 * half, 2 * half);
    pen_stroke(p, THEME_INK, width);
}

/* ---- events: loading, contacts ---- */

static void draw_loading(const struct pen *p, const struct shape *s)
{
    const double dashes[] = {6, 4};

    circle(p, s->x, s->y, s->r);
    cairo_set_dash(p->cr, dashes, 2, 0);
    pen_stroke(p, theme_outline(s->rgb), 2.6);
    cairo_set_dash(p->cr, NULL, 0, 0);
}

static void draw_contact(const struct pen *p, const struct shape *s)
{
    star(p, s, 16, 0.5);
    pen_fill(p, THEME_CONTACT, THEME_INK, 1.2);
}

/* ---- the table of kinds ---- */

static const struct {
    const char *name;
    double least; /* radius */
    void (*draw)(const struct pen *p, const struct shape *s);
} kinds[SCENE_KIND_COUNT] = {
    [SCENE_FOREST] = {"forest: hides who is in it", 6, draw_forest},
    [SCENE_OBSTACLE] = {"obstacle", 5, draw_obstacle},
    [SCENE_CELL] = {"payoff", 1, draw_cell},
    [SCENE_HEADER] = {"action; filled: chosen", 1, draw_header},
    [SCENE_CHOSEN] = {"joint action", 1, draw_chosen},
    [SCENE_FOOD] = {"food", 6, draw_food},
    [SCENE_LANDMARK] = {"landmark", 5, draw_landmark},
    [SCENE_GOAL] = {"goal", 5, draw_goal},
    [SCENE_SPEAKER] = {"agent that cannot move", 5, draw_speaker},
    [SCENE_AGENT] = {"agent", 5, draw_agent},
    [SCENE_ADVERSARY] = {"adversary", 5, draw_adversary},
    [SCENE_LEADER] = {"leader of adversaries", 5, draw_adversary},
    [SCENE_LOADING] = {"loads", 6, draw_loading},
    [SCENE_CONTACT] = {"contact", 7, draw_contact},
};

double shape_radius(enum scene_kind kind, double r)
{
    return fmax(r, kinds[kind].least);
}

void shape_draw(const struct pen *p, const struct shape *s)
{
    kinds[s->kind].draw(p, s);
}

void shape_write(const struct pen *p, const struct shape *s)
{
    write_text(p, s,
               (struct pen_text){.size = disc_letters(s),
                                 .is_bold = 1,
                                 .align = PEN_CENTRE,
                                 .rgb = THEME_INK,
                                 .is_over_things = 1},
               1.7 * s->r);
}

void shape_draw_edge(const struct pen *p, const struct shape *s)
{
    if (s->kind != SCENE_LANDMARK && s->kind != SCENE_FOOD)
        return;
    for (int pass = 0; pass < 2; pass++) {
        if (s->kind == SCENE_LANDMARK)
            diamond(p, s);
        else
            star(p, s, 6, 1);
        pen_stroke(p, pass == 0 ? THEME_PAPER : THEME_INK, pass == 0 ? 3 : 1.3);
    }
}

const char *shape_name(enum scene_kind kind)
{
    return kinds[kind].name;
}
