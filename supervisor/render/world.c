/* Draws the world of a page: ground, things, tracks, texts. */
#include "supervisor/render/page.h"
#include "supervisor/render/shapes.h"

#include <math.h>
#include <stdio.h>

enum { TRAIL_STEPS = 12, TRAIL_BANDS = 12 };

/* ---- ground ---- */

static void draw_lines(const struct pen *p, const struct view *v)
{
    const struct scene *s = &v->episode->frame[0].scene;

    for (double x = s->x0; x <= s->x1; x++) {
        cairo_move_to(p->cr, view_x(v, x), view_y(v, s->y0));
        cairo_line_to(p->cr, view_x(v, x), view_y(v, s->y1));
    }
    for (double y = s->y0; y <= s->y1; y++) {
        cairo_move_to(p->cr, view_x(v, s->x0), view_y(v, y));
        cairo_line_to(p->cr, view_x(v, s->x1), view_y(v, y));
    }
    pen_stroke(p, THEME_LINE, 1);
}

/* Draws the square of side 2 in which episodes begin, and its centre. */
static void draw_arena(const struct pen *p, const struct view *v)
{
    const double dashes[] = {2, 5};

    cairo_rectangle(p->cr, view_x(v, -1), view_y(v, 1), 2 * v->scale, 2 * v->scale);
    cairo_move_to(p->cr, view_x(v, -1), view_y(v, 0));
    cairo_line_to(p->cr, view_x(v, 1), view_y(v, 0));
    cairo_move_to(p->cr, view_x(v, 0), view_y(v, -1));
    cairo_line_to(p->cr, view_x(v, 0), view_y(v, 1));
    cairo_set_dash(p->cr, dashes, 2, 0);
    pen_stroke(p, theme_mix(THEME_LINE, THEME_MUTED, 0.7), 1);
    cairo_set_dash(p->cr, NULL, 0, 0);
}

static void draw_ground(const struct pen *p, const struct view *v)
{
    cairo_rectangle(p->cr, v->x, v->y, v->side, v->side);
    pen_fill(p, THEME_GROUND, THEME_LINE, 1);
    if (v->episode->frame[0].scene.is_grid)
        draw_lines(p, v);
    else if (!v->is_tiled)
        draw_arena(p, v);
}

/* ---- things ---- */

enum how { AS_IT_IS, PALE, SMALL, EDGE, LETTERS };

static void draw_thing(const struct pen *p, const struct view *v,
                       const struct scene_thing *t, enum how how)
{
    struct shape s = {.kind = t->kind,
                      .x = view_x(v, t->x),
                      .y = view_y(v, t->y),
                      .r = shape_radius(t->kind, t->size * v->scale),
                      .rgb = THEME_MUTED,
                      .has_agent = t->agent >= 0,
                      .value = t->value,
                      .text = t->text,
                      .is_pale = how == PALE};

    if (how == SMALL)
        s.r *= 0.7;
    if (t->agent >= 0)
        s.rgb = v->agent[t->agent].rgb;
    if (!isfinite(s.x) || !isfinite(s.y))
        return;
    if (how == EDGE)
        shape_draw_edge(p, &s);
    else if (how == LETTERS)
        shape_write(p, &s);
    else
        shape_draw(p, &s);
}

static void draw_kinds(const struct pen *p, const struct view *v, const struct scene *s,
                       enum scene_kind from, enum scene_kind to, enum how how)
{
    for (int k = (int)from; k <= (int)to; k++) {
        for (size_t i = 0; v->is_present[k] && i < s->n_things; i++) {
            if ((int)s->thing[i].kind == k)
                draw_thing(p, v, &s->thing[i], how);
        }
    }
}

static int is_covered(const struct view *v, const struct scene *s,
                      const struct scene_thing *t)
{
    for (size_t i = 0; i < s->n_things; i++) {
        const struct scene_thing *a = &s->thing[i];

        if (view_is_agent(a->kind) &&
            hypot(a->x - t->x, a->y - t->y) < a->size + 1.3 * t->size)
            return 1;
    }
    return 0;
}

/* Draws the edges of the things that agents stand on. */
static void draw_covered(const struct pen *p, const struct view *v, const struct scene *s)
{
    for (size_t i = 0; i < s->n_things; i++) {
        const struct scene_thing *t = &s->thing[i];

        if ((t->kind == SCENE_FOOD || t->kind == SCENE_LANDMARK) && is_covered(v, s, t))
            draw_thing(p, v, t, EDGE);
    }
}

/* ---- tracks: where agents have been ---- */

struct track {
    int32_t id, agent;
    size_t first, last; /* frames */
    size_t near;        /* the agent's likely index in a scene's list */
};

static int track_point(const struct view *v, const struct track *w, size_t frame,
                       double *x, double *y)
{
    const double off = view_track_offset(v, w->agent);
    const struct scene_thing *t =
        view_find(&v->episode->frame[frame].scene, w->id, w->near);

    if (t == NULL || !isfinite(t->x) || !isfinite(t->y))
        return 0;
    *x = view_x(v, t->x) + off;
    *y = view_y(v, t->y) + off;
    return 1;
}

/* Draws a track; older parts are paler. */
static void draw_track(const struct pen *p, const struct view *v, const struct track *w,
                       double palest, double width)
{
    const size_t steps = w->last - w->first;
    const size_t bands = steps < TRAIL_BANDS ? steps : TRAIL_BANDS;

    cairo_set_line_join(p->cr, CAIRO_LINE_JOIN_ROUND);
    for (size_t b = 0; b < bands; b++) {
        const double part = ((double)b + 1) / (double)bands;
        const struct pen pale = {p->cr, p->fonts, palest + (0.9 - palest) * part};
        /* from the band's first frame to that of the next band */
        const size_t from = w->first + steps * b / bands;
        const size_t to = w->first + steps * (b + 1) / bands;
        double x, y;

        for (size_t i = from; i <= to; i++) {
            if (!track_point(v, w, i, &x, &y))
                continue;
            if (cairo_has_current_point(p->cr))
                cairo_line_to(p->cr, x, y);
            else
                cairo_move_to(p->cr, x, y);
        }
        pen_stroke(&pale, v->agent[w->agent].rgb, width);
    }
    cairo_set_line_join(p->cr, CAIRO_LINE_JOIN_MITER);
}

/* Draws a dot where the agent was after each step but the last, and a ring where it
 * began. */
static void draw_steps(const struct pen *p, const struct view *v, const struct track *w)
{
    double x, y;

    for (size_t i = w->first; i < w->last; i++) {
        if (!track_point(v, w, i, &x, &y))
            continue;
        cairo_new_sub_path(p->cr);
        cairo_arc(p->cr, x, y, i == w->first ? 4.5 : 1.8, 0, 2 * M_PI);
        if (i == w->first)
            pen_fill(p, THEME_PAPER, v->agent[w->agent].rgb, 2);
        else
            pen_fill(p, theme_outline(v->agent[w->agent].rgb), 0, 0);
    }
}

static void draw_tracks(const struct pen *p, const struct view *v, size_t frame,
                        int is_whole)
{
    const struct scene *s = &v->episode->frame[frame].scene;

    for (size_t i = 0; i < s->n_things; i++) {
        const struct scene_thing *t = &s->thing[i];
        struct track w = {t->id, t->agent, 0, frame, i};

        if (!view_is_agent(t->kind) || !v->agent[t->agent].is_moving)
            continue;
        if (!is_whole && frame > TRAIL_STEPS)
            w.first = frame - TRAIL_STEPS;
        draw_track(p, v, &w, is_whole ? 0.3 : 0.0, is_whole ? 2 : 2.5);
        if (is_whole)
            draw_steps(p, v, &w);
    }
}

/* ---- texts ---- */

static void draw_goal_names(const struct pen *p, const struct view *v,
                            const struct scene *s)
{
    const struct pen_text text = {
        .size = 11, .is_bold = 1, .rgb = THEME_INK, .is_over_things = 1};

    for (size_t i = 0; v->is_present[SCENE_GOAL] && i < s->n_things; i++) {
        const struct scene_thing *t = &s->thing[i];
        const struct shape ring = {.r = shape_radius(SCENE_GOAL, t->size * v->scale),
                                   .value = t->value};
        const double r = shape_goal_radius(&ring);
        const double width = pen_text_width(p, &text, t->text);
        double x = view_x(v, t->x) - width / 2;
        double y = view_y(v, t->y) + (t->value > 0 ? r + 16 : -r - 7);

        if (t->kind != SCENE_GOAL || !isfinite(x) || !isfinite(y))
            continue;
        x = fmin(fmax(x, v->x + 4), v->x + v->side - width - 4);
        y = fmin(fmax(y, v->y + 12), v->y + v->side - 4);
        pen_text(p, &text, x, y, t->text);
    }
}

static void draw_bubble(const struct pen *p, double x, double y, uint32_t rgb,
                        const char *text)
{
    const struct pen_text t = {
        .size = 13, .is_bold = 1, .align = PEN_CENTRE, .rgb = THEME_INK};
    const double half = fmax(pen_text_width(p, &t, text) / 2 + 5, 10);

    cairo_move_to(p->cr, x - 4, y + 16);
    cairo_line_to(p->cr, x - 4 + 7, y + 8);
    cairo_line_to(p->cr, x + half + 2, y + 8);
    cairo_line_to(p->cr, x + half + 2, y - 11);
    cairo_line_to(p->cr, x + 2 - half, y - 11);
    cairo_line_to(p->cr, x + 2 - half, y + 8);
    cairo_line_to(p->cr, x - 5, y + 8);
    cairo_close_path(p->cr);
    cairo_set_line_join(p->cr, CAIRO_LINE_JOIN_ROUND);
    pen_fill(p, THEME_PAPER, rgb, 2);
    cairo_set_line_join(p->cr, CAIRO_LINE_JOIN_MITER);
    pen_text(p, &t, x + 2, y + 3.5, text);
}

static void draw_words(const struct pen *p, const struct view *v, const struct scene *s)
{
    if (s->verb == NULL || v->is_tiled)
        return;
    for (size_t i = 0; i < s->n_things; i++) {
        const struct scene_thing *t = &s->thing[i];
        const double r = t->size * v->scale;

        if (view_is_agent(t->kind) && s->action[t->agent].text[0] != '\0' &&
            isfinite(t->x) && isfinite(t->y))
            draw_bubble(p, view_x(v, t->x) + 0.7 * r + 6, view_y(v, t->y) - 0.7 * r - 18,
                        v->agent[t->agent].rgb, s->action[t->agent].text);
    }
}

/* ---- a whole episode ---- */

static void draw_all(const struct pen *p, const struct view *v, enum scene_kind kind)
{
    for (size_t i = 0; i < v->episode->n_frames; i++)
        draw_kinds(p, v, &v->episode->frame[i].scene, kind, kind, SMALL);
}

static int is_chosen_at(const struct scene *s, double x, double y)
{
    for (size_t i = 0; i < s->n_things; i++) {
        const struct scene_thing *t = &s->thing[i];

        if (t->kind == SCENE_CHOSEN && t->x == x && t->y == y)
            return 1;
    }
    return 0;
}

/* Writes how often each cell was the joint action. */
static void draw_counts(const struct pen *p, const struct view *v)
{
    const struct episode *e = v->episode;
    const struct scene *last = &e->frame[e->n_frames - 1].scene;

    for (size_t i = 0; i < last->n_things; i++) {
        struct scene_thing t = last->thing[i];
        size_t n = 0;

        if (t.kind != SCENE_CELL)
            continue;
        for (size_t k = 0; k < e->n_frames; k++)
            n += (size_t)is_chosen_at(&e->frame[k].scene, t.x, t.y);
        if (n == 0)
            continue;
        t.kind = SCENE_CHOSEN;
        draw_thing(p, v, &t, AS_IT_IS);
        (void)snprintf(t.text, sizeof(t.text), "%zu\xc3\x97", n);
        pen_text(p,
                 &(struct pen_text){.size = fmin(14, 0.3 * v->scale),
                                    .align = PEN_RIGHT,
                                    .rgb = THEME_INK},
                 view_x(v, t.x + 0.43), view_y(v, t.y - 0.4), t.text);
    }
}

static void draw_whole(const struct pen *p, const struct view *v, size_t i)
{
    const struct scene *s = &v->episode->frame[i].scene;
    const struct scene *first = &v->episode->frame[0].scene;
    const struct pen pale = {p->cr, p->fonts, PEN_PALE};

    for (size_t k = 0; k < first->n_things; k++) /* pale: what is missing at the end */
        if (view_is_gone(v, &first->thing[k], k))
            draw_thing(&pale, v, &first->thing[k], AS_IT_IS);
    draw_counts(p, v);
    draw_kinds(p, v, s, SCENE_FOOD, SCENE_GOAL, AS_IT_IS);
    draw_kinds(p, v, s, SCENE_SPEAKER, SCENE_LEADER, PALE);
    draw_tracks(p, v, i, 1);
    draw_kinds(p, v, s, SCENE_SPEAKER, SCENE_LEADER, LETTERS);
    draw_all(p, v, SCENE_LOADING);
    draw_all(p, v, SCENE_CONTACT);
}

static void draw_frame(const struct pen *p, const struct view *v, size_t i)
{
    const struct scene *s = &v->episode->frame[i].scene;

    draw_kinds(p, v, s, SCENE_CHOSEN, SCENE_GOAL, AS_IT_IS);
    draw_tracks(p, v, i, 0);
    draw_kinds(p, v, s, SCENE_SPEAKER, SCENE_LEADER, AS_IT_IS);
    draw_covered(p, v, s);
    draw_kinds(p, v, s, SCENE_LOADING, SCENE_CONTACT, AS_IT_IS);
}

void page_draw_world(const struct pen *p, const struct view *v, size_t i, int is_whole)
{
    const struct scene *s = &v->episode->frame[i].scene;

    cairo_save(p->cr);
    draw_ground(p, v);
    cairo_rectangle(p->cr, v->x, v->y, v->side, v->side);
    cairo_clip(p->cr);
    draw_kinds(p, v, s, SCENE_FOREST, SCENE_HEADER, AS_IT_IS);
    if (is_whole)
        draw_whole(p, v, i);
    else
        draw_frame(p, v, i);
    draw_goal_names(p, v, s);
    draw_words(p, v, s);
    cairo_restore(p->cr);
}
