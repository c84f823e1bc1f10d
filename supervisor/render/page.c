#include "supervisor/render/page.h"

#include "supervisor/render/shapes.h"

#include <math.h>
#include <stdio.h>

/* ---- the panel beside the world ---- */

struct line { /* the next line of the panel */
    const struct pen *p;
    const struct view *v;
    double y; /* base line */
};

static const double ICON = 7; /* radius */

static void write_line(struct line *l, double size, int is_bold, uint32_t rgb,
                       const char *text)
{
    pen_text(l->p,
             &(struct pen_text){
                 .size = size, .is_bold = is_bold, .rgb = rgb, .most = l->v->panel_width},
             l->v->panel_x, l->y, text);
}

static void write_heading(struct line *l)
{
    const struct episode *e = l->v->episode;
    char text[96];

    l->y += 16;
    write_line(l, 17, 1, THEME_INK, e->title);
    for (int i = 0; i < EPISODE_LINES; i++) {
        if (e->line[i] == NULL)
            continue;
        l->y += 17;
        write_line(l, 12, 0, THEME_MUTED, e->line[i]);
    }
    (void)snprintf(text, sizeof(text), "episode %llu, seed %llu",
                   (unsigned long long)e->number, (unsigned long long)e->seed);
    l->y += 17;
    write_line(l, 12, 0, THEME_MUTED, text);
}

static void write_step(struct line *l, size_t i, int is_whole)
{
    const struct view *v = l->v;
    const size_t steps = v->episode->n_frames - 1;
    const char *more = v->episode->is_cut ? "+" : "";
    char text[64];

    l->y += 34;
    if (is_whole)
        (void)snprintf(text, sizeof(text), "%zu%s steps", steps, more);
    else
        (void)snprintf(text, sizeof(text), "step %zu of %zu%s", i, steps, more);
    write_line(l, 17, 1, THEME_INK, text);
    l->y += 10;
    if (is_whole)
        return;
    cairo_rectangle(l->p->cr, v->panel_x, l->y, v->panel_width, 4);
    pen_fill(l->p, THEME_LINE, 0, 0);
    cairo_rectangle(l->p->cr, v->panel_x, l->y,
                    v->panel_width * (double)i / (double)steps, 4);
    pen_fill(l->p, THEME_INK, 0, 0);
}

static void write_value(struct line *l, int is_bold, double x)
{
    char text[48];

    (void)snprintf(text, sizeof(text), "%.2f", x);
    pen_text(l->p,
             &(struct pen_text){
                 .size = 13, .is_bold = is_bold, .align = PEN_RIGHT, .rgb = THEME_INK},
             l->v->panel_x + l->v->panel_width, l->y, text);
}

static void write_name(struct line *l, double indent, int is_bold, const char *name)
{
    pen_text(l->p,
             &(struct pen_text){.size = 13,
                                .is_bold = is_bold,
                                .rgb = THEME_INK,
                                .most = l->v->panel_width - indent - 80},
             l->v->panel_x + indent, l->y, name);
}

static void draw_icon(const struct pen *p, const struct view *v, size_t agent, double x,
                      double y)
{
    const struct view_agent *a = &v->agent[agent];
    shape_draw(p, &(struct shape){.kind = a->kind != SCENE_UNSAID ? a->kind : SCENE_AGENT,
                                  .x = x,
                                  .y = y,
                                  .r = ICON + 1,
                                  .rgb = a->rgb,
                                  .text = a->text});
}

static void write_agents(struct line *l, const double *returns)
{
    const struct view *v = l->v;
    const struct env_spec *spec = v->episode->spec;
    const size_t rows = view_agent_rows(v);
    char text[64];

    for (size_t a = 0; a < rows; a++) {
        l->y += VIEW_ROW;
        if (a == rows - 1 && rows < spec->n_agents) {
            (void)snprintf(text, sizeof(text), "and %zu more", spec->n_agents - a);
            write_name(l, 0, 0, text);
            continue;
        }
        draw_icon(l->p, v, a, v->panel_x + ICON, l->y - 5);
        write_name(l, 22, 0, spec->agents[a].name);
        write_value(l, 0, returns[a]);
    }
}

static void write_teams(struct line *l, const double *returns)
{
    const struct view *v = l->v;
    char text[AGENT_NAME_MAX + 16];

    if (!view_has_team_rows(v))
        return;
    l->y += VIEW_ROW / 2.0;
    cairo_rectangle(l->p->cr, v->panel_x, l->y - 2, v->panel_width, 1);
    pen_fill(l->p, THEME_LINE, 0, 0);
    for (size_t t = 0; t < v->n_teams; t++) {
        (void)snprintf(text, sizeof(text), "team %s",
                       v->episode->spec->agents[v->team_first[t]].team);
        l->y += VIEW_ROW;
        write_name(l, 0, 1, text);
        write_value(l, 1, env_team_mean(v->episode->spec, v->team_first[t], returns));
    }
}

/* ---- the legend ---- */

/* The colour of a kind in the legend: that of the first agent of this kind, or of the
 * first agent for marks that belong to agents; otherwise a neutral one. */
static uint32_t sample_colour(const struct view *v, int kind)
{
    for (size_t a = 0; a < v->episode->spec->n_agents; a++) {
        if ((int)v->agent[a].kind == kind)
            return v->agent[a].rgb;
    }
    return kind == SCENE_HEADER || kind == SCENE_LOADING ? v->agent[0].rgb : THEME_MUTED;
}

static void write_legend_line(struct line *l, const char *text)
{
    pen_text(l->p,
             &(struct pen_text){
                 .size = 12, .rgb = THEME_MUTED, .most = l->v->panel_width - 30},
             l->v->panel_x + 30, l->y, text);
}

static void draw_sample(const struct pen *p, const struct view *v, int kind, double y)
{
    shape_draw(p, &(struct shape){.kind = (enum scene_kind)kind,
                                  .x = v->panel_x + 10,
                                  .y = y - 4,
                                  .r = kind == SCENE_GOAL ? 0 : ICON,
                                  .rgb = sample_colour(v, kind),
                                  .value = kind == SCENE_HEADER ? 1
                                           : kind == SCENE_CELL ? 0.6
                                                                : 0});
}

/* Legend lines for marks that only the page of a whole episode has. */
static void write_whole(struct line *l)
{
    const struct view *v = l->v;
    const struct pen pale = {l->p->cr, l->p->fonts, PEN_PALE};

    if (v->gone != SCENE_UNSAID) {
        l->y += VIEW_ROW;
        draw_sample(&pale, v, (int)v->gone, l->y);
        write_legend_line(l, "gone by the end");
    }
    if (v->is_present[SCENE_CHOSEN]) {
        l->y += VIEW_ROW;
        pen_text(l->p,
                 &(struct pen_text){.size = 12, .align = PEN_CENTRE, .rgb = THEME_INK},
                 v->panel_x + 10, l->y, "2\xc3\x97");
        write_legend_line(l, "how often it was");
    }
    if (v->is_moving) {
        l->y += VIEW_ROW;
        cairo_new_sub_path(l->p->cr);
        cairo_arc(l->p->cr, v->panel_x + 10, l->y - 4, 4.5, 0, 2 * M_PI);
        pen_fill(l->p, THEME_PAPER, v->agent[0].rgb, 2);
        write_legend_line(l, "where its track began");
    }
}

static void write_legend(struct line *l, int is_whole)
{
    l->y += 18;
    for (int k = 0; k < SCENE_KIND_COUNT; k++) {
        const char *name = l->v->episode->frame[0].scene.name[k];

        if (!l->v->is_present[k])
            continue;
        l->y += VIEW_ROW;
        draw_sample(l->p, l->v, k, l->y);
        write_legend_line(l, name != NULL ? name : shape_name((enum scene_kind)k));
    }
    if (is_whole)
        write_whole(l);
}

static void draw_panel(const struct pen *p, const struct view *v, size_t i, int is_whole)
{
    const double *returns = v->episode->frame[i].returns;
    struct line l = {p, v, v->y};

    write_heading(&l);
    write_step(&l, i, is_whole);
    l.y += 30;
    pen_text(p, &(struct pen_text){.size = 11, .align = PEN_RIGHT, .rgb = THEME_MUTED},
             v->panel_x + v->panel_width, l.y, "return");
    l.y -= 2;
    write_agents(&l, returns);
    write_teams(&l, returns);
    write_legend(&l, is_whole);
}

/* ---- the strip below the world: each agent's actions, step by step ---- */

static void draw_action(const struct pen *p, const struct view *v, size_t agent,
                        const struct scene_action *d, double x, double y, int is_now)
{
    const uint32_t rgb =
        theme_mix(v->agent[agent].rgb, THEME_GROUND, 0.125 + 0.375 * d->strength);

    if (d->text[0] == '\0')
        return;
    cairo_rectangle(p->cr, x + 1, y + 1, v->strip_cell - 2, VIEW_STRIP_ROW - 3);
    pen_fill(p, rgb, THEME_INK, is_now ? 1.5 : 0);
    pen_text(p,
             &(struct pen_text){.size = fmin(11, 0.85 * v->strip_cell),
                                .is_bold = is_now,
                                .align = PEN_CENTRE,
                                .rgb = THEME_INK,
                                .fit = v->strip_cell - 3},
             x + v->strip_cell / 2, y + 13, d->text);
}

/* Draws the newest steps, as many as fit. */
static void draw_strip(const struct pen *p, const struct view *v, size_t frame,
                       int is_whole)
{
    const size_t room = (size_t)((v->side - VIEW_STRIP_LEFT) / v->strip_cell);
    const size_t first = frame > room ? frame - room : 0;
    const size_t n_agents = v->episode->spec->n_agents;
    const struct scene *s = &v->episode->frame[0].scene;
    double y = v->strip_y + 14;
    char text[128];
    int len;

    if (first > 0)
        len = snprintf(text, sizeof(text), "%s, the last %zu steps", s->verb,
                       frame - first);
    else
        len = snprintf(text, sizeof(text), "%s, step by step", s->verb);
    if (s->action_key != NULL)
        (void)snprintf(text + len, sizeof(text) - (size_t)len, ": %s", s->action_key);
    pen_text(p, &(struct pen_text){.size = 11, .rgb = THEME_MUTED}, v->x, v->strip_y + 7,
             text);
    for (size_t a = 0, row = 0; a < n_agents && row < v->strip_rows; a++) {
        if (!v->agent[a].has_actions)
            continue;
        draw_icon(p, v, a, v->x + ICON + 2, y + VIEW_STRIP_ROW / 2.0);
        for (size_t i = first + 1; i <= frame; i++)
            draw_action(p, v, a, &v->episode->frame[i].scene.action[a],
                        v->x + VIEW_STRIP_LEFT + (double)(i - 1 - first) * v->strip_cell,
                        y, i == frame && !is_whole);
        y += VIEW_STRIP_ROW;
        row++;
    }
}

static void draw_page(const struct pen *p, const struct view *v, size_t i, int is_whole)
{
    pen_colour(p, THEME_PAPER);
    cairo_paint(p->cr);
    page_draw_world(p, v, i, is_whole);
    if (v->strip_rows != 0)
        draw_strip(p, v, i, is_whole);
    draw_panel(p, v, i, is_whole);
}

void page_draw_frame(const struct pen *p, const struct view *v, size_t i)
{
    draw_page(p, v, i, 0);
}

void page_draw_whole(const struct pen *p, const struct view *v)
{
    draw_page(p, v, v->episode->n_frames - 1, 1);
}
