#include "supervisor/render/view.h"

#include "common/mem/xmalloc.h"
#include "supervisor/render/theme.h"

#include <math.h>
#include <stdlib.h>

static const double MARGIN = 24, SIDE = 560, PANEL = 250, GAP = 28;
static const double MOST_PER_CELL = 130;
static const double HEAD = 167; /* height of the panel above its rows */

/* ---- contents ---- */

const struct scene_thing *view_find(const struct scene *s, int32_t id, size_t near)
{
    if (near < s->n_things && s->thing[near].id == id)
        return &s->thing[near];
    for (size_t i = 0; i < s->n_things; i++) {
        if (s->thing[i].id == id)
            return &s->thing[i];
    }
    return NULL;
}

int view_is_agent(enum scene_kind kind)
{
    return kind >= SCENE_SPEAKER && kind <= SCENE_LEADER;
}

static void look_at(struct view *v, const struct scene *s)
{
    for (size_t i = 0; i < s->n_things; i++) {
        const struct scene_thing *t = &s->thing[i], *first;

        v->is_present[t->kind] = 1;
        if (!view_is_agent(t->kind))
            continue;
        v->agent[t->agent].kind = t->kind;
        v->agent[t->agent].text = t->text;
        first = view_find(&v->episode->frame[0].scene, t->id, i);
        if (first != NULL && (first->x != t->x || first->y != t->y))
            v->is_moving = v->agent[t->agent].is_moving = 1;
    }
    for (size_t a = 0; a < s->n_actions; a++)
        v->agent[a].has_actions |= s->action[a].text[0] != '\0';
}

int view_is_gone(const struct view *v, const struct scene_thing *t, size_t near)
{
    const struct scene *last = &v->episode->frame[v->episode->n_frames - 1].scene;

    return t->id >= 0 && view_find(last, t->id, near) == NULL;
}

static void choose_colours(struct view *v)
{
    const int two = v->is_present[SCENE_ADVERSARY] || v->is_present[SCENE_LEADER];
    size_t n[2] = {0};

    for (size_t a = 0; a < v->episode->spec->n_agents; a++) {
        const enum scene_kind kind = v->agent[a].kind;
        const int adverse = kind == SCENE_ADVERSARY || kind == SCENE_LEADER;
        const enum theme_team team = !two      ? THEME_ONE_TEAM
                                     : adverse ? THEME_ADVERSE
                                               : THEME_GOOD;

        v->agent[a].rgb = theme_agent(team, n[adverse]++);
    }
}

/* ---- layout ---- */

struct bounds {
    double x0, y0, x1, y1;
};

/* The bounds of the first scene's own area and of every thing in every frame. */
static struct bounds bounds_of(const struct episode *e)
{
    const struct scene *first = &e->frame[0].scene;
    struct bounds b = {first->x0, first->y0, first->x1, first->y1};

    for (size_t i = 0; i < e->n_frames; i++) {
        const struct scene *s = &e->frame[i].scene;

        for (size_t k = 0; k < s->n_things; k++) {
            const struct scene_thing *t = &s->thing[k];

            if (!isfinite(t->x) || !isfinite(t->y))
                continue;
            b.x0 = fmin(b.x0, t->x - t->size);
            b.x1 = fmax(b.x1, t->x + t->size);
            b.y0 = fmin(b.y0, t->y - t->size);
            b.y1 = fmax(b.y1, t->y + t->size);
        }
    }
    return b;
}

static void place_world(struct view *v)
{
    const struct bounds b = bounds_of(v->episode);
    const double room = SIDE - 24;

    v->x = v->y = MARGIN;
    v->side = SIDE;
    v->scale = room / fmax(b.x1 - b.x0, b.y1 - b.y0);
    if (v->is_tiled)
        v->scale = fmin(v->scale, MOST_PER_CELL);
    v->world_x = v->x + SIDE / 2 - v->scale * (b.x0 + b.x1) / 2;
    v->world_y = v->y + SIDE / 2 + v->scale * (b.y0 + b.y1) / 2;
}

static void place_strip(struct view *v)
{
    const double room = SIDE - VIEW_STRIP_LEFT;
    const size_t steps = v->episode->n_frames - 1;

    for (size_t a = 0; a < v->episode->spec->n_agents; a++)
        v->strip_rows += v->agent[a].has_actions;
    if (v->strip_rows > VIEW_MAX_STRIP_ROWS)
        v->strip_rows = VIEW_MAX_STRIP_ROWS;
    if (v->strip_rows == 0)
        return;
    v->strip_y = v->y + SIDE + 14;
    v->strip_cell = fmin(fmax(floor(room / (double)steps), 10), 21);
}

static void place_panel(struct view *v)
{
    const double rows = (double)(view_agent_rows(v) + view_legend_rows(v, 1)) +
                        (view_has_team_rows(v) ? (double)v->n_teams + 0.5 : 0);
    double left = v->y + SIDE, right = MARGIN + HEAD + 52 + rows * VIEW_ROW;

    if (v->strip_rows != 0)
        left = v->strip_y + 18 + (double)v->strip_rows * VIEW_STRIP_ROW;
    v->panel_x = v->x + SIDE + GAP;
    v->panel_width = PANEL;
    v->width = v->panel_x + PANEL + MARGIN;
    v->height = ceil(fmax(left, right) + MARGIN);
}

void view_init(struct view *v, const struct episode *e)
{
    const struct scene *first = &e->frame[0].scene;

    *v = (struct view){.episode = e};
    v->agent = xcalloc(e->spec->n_agents, sizeof(*v->agent));
    for (size_t a = 0; a < e->spec->n_agents; a++)
        v->agent[a].text = "";
    for (size_t i = 0; i < e->n_frames; i++)
        look_at(v, &e->frame[i].scene);
    v->is_tiled = first->is_grid || v->is_present[SCENE_CELL];
    for (size_t i = 0; i < first->n_things; i++)
        if (view_is_gone(v, &first->thing[i], i))
            v->gone = first->thing[i].kind;
    v->team_first = xcalloc(e->spec->n_agents, sizeof(*v->team_first));
    for (size_t a = 0; a < e->spec->n_agents; a++)
        if (env_team_of(e->spec, a) == a)
            v->team_first[v->n_teams++] = a;
    choose_colours(v);
    place_world(v);
    place_strip(v);
    place_panel(v);
}

void view_done(struct view *v)
{
    free(v->agent);
    free(v->team_first);
}

/* ---- rows ---- */

size_t view_agent_rows(const struct view *v)
{
    const size_t n = v->episode->spec->n_agents;

    return n <= VIEW_MAX_ROWS ? n : VIEW_MAX_ROWS;
}

int view_has_team_rows(const struct view *v)
{
    return v->n_teams < v->episode->spec->n_agents && v->n_teams <= VIEW_MAX_ROWS;
}

size_t view_legend_rows(const struct view *v, int is_whole)
{
    /* "gone by the end", "where its track began", "how often it was" */
    size_t n = is_whole ? 2 + (v->is_present[SCENE_CHOSEN] != 0) : 0;

    for (int k = 0; k < SCENE_KIND_COUNT; k++)
        n += v->is_present[k] != 0;
    return n;
}

double view_track_offset(const struct view *v, int32_t agent)
{
    const double n = (double)v->episode->spec->n_agents;

    if (!v->is_tiled || agent < 0)
        return 0;
    return ((double)agent - (n - 1) / 2) * fmin(5, v->scale * 0.5 / n);
}
