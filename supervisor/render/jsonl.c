#include "supervisor/metrics/json.h"
#include "supervisor/render/draw.h"
#include "supervisor/render/view.h"

static const char *const kinds[SCENE_KIND_COUNT] = {
    [SCENE_FOREST] = "forest",       [SCENE_OBSTACLE] = "obstacle",
    [SCENE_CELL] = "cell",           [SCENE_HEADER] = "header",
    [SCENE_CHOSEN] = "chosen",       [SCENE_FOOD] = "food",
    [SCENE_LANDMARK] = "landmark",   [SCENE_GOAL] = "goal",
    [SCENE_SPEAKER] = "speaker",     [SCENE_AGENT] = "agent",
    [SCENE_ADVERSARY] = "adversary", [SCENE_LEADER] = "leader",
    [SCENE_LOADING] = "loading",     [SCENE_CONTACT] = "contact",
};

static void end_line(struct json *j, struct wbuf *ret)
{
    size_t len;
    const char *text;

    json_close(j);
    text = json_line(j, &len);
    wbuf_bytes(ret, text, len);
}

/* Where the lines of a grid begin and end, of which a field is 1 wide. */
static void put_grid(struct json *j, const struct scene *s)
{
    const double edges[] = {s->x0, s->y0, s->x1, s->y1};

    json_put_array(j, "grid");
    for (size_t i = 0; i < 4; i++)
        json_f64(j, edges[i]);
    json_close(j);
}

static void put_head(struct json *j, const struct view *v, struct wbuf *ret)
{
    const struct episode *e = v->episode;

    json_begin(j);
    json_object(j);
    json_put_str(j, "env", e->spec->id);
    json_put_u64(j, "episode", e->number);
    json_put_u64(j, "seed", e->seed);
    json_put_u64(j, "steps", e->n_frames - 1);
    if (e->frame[0].scene.is_grid)
        put_grid(j, &e->frame[0].scene);
    json_put_object(j, "page");
    json_put_f64(j, "width", v->width);
    json_put_f64(j, "height", v->height);
    json_put_f64(j, "scale", v->scale);
    json_put_f64(j, "x", v->world_x);
    json_put_f64(j, "y", v->world_y);
    json_close(j);
    json_put_array(j, "agents");
    for (size_t a = 0; a < e->spec->n_agents; a++) {
        char colour[16];

        (void)snprintf(colour, sizeof(colour), "#%06x", (unsigned)v->agent[a].rgb);
        json_object(j);
        json_put_str(j, "name", e->spec->agents[a].name);
        json_put_str(j, "team", e->spec->agents[a].team);
        json_put_str(j, "colour", colour);
        json_close(j);
    }
    json_close(j);
    end_line(j, ret);
}

static void put_frame(struct json *j, const struct episode *e, size_t i, struct wbuf *ret)
{
    const struct scene *s = &e->frame[i].scene;

    json_begin(j);
    json_object(j);
    json_put_u64(j, "step", i);
    json_put_object(j, "returns");
    for (size_t a = 0; a < e->spec->n_agents; a++)
        json_put_f64(j, e->spec->agents[a].name, e->frame[i].returns[a]);
    json_close(j);
    if (s->verb != NULL) {
        json_put_object(j, s->verb);
        for (size_t a = 0; a < s->n_actions; a++) {
            if (s->action[a].text[0] != '\0')
                json_put_str(j, e->spec->agents[a].name, s->action[a].text);
        }
        json_close(j);
    }
    json_put_array(j, "things");
    for (size_t k = 0; k < s->n_things; k++) {
        const struct scene_thing *t = &s->thing[k];

        json_object(j);
        json_put_str(j, "kind", kinds[t->kind]);
        if (t->id >= 0)
            json_put_i64(j, "id", t->id);
        if (t->agent >= 0)
            json_put_i64(j, "agent", t->agent);
        json_put_f64(j, "x", t->x);
        json_put_f64(j, "y", t->y);
        json_put_f64(j, "size", t->size);
        if (t->text[0] != '\0')
            json_put_str(j, "text", t->text);
        json_close(j);
    }
    json_close(j);
    end_line(j, ret);
}

int draw_jsonl(const struct view *v, const struct theme_fonts *fonts, struct wbuf *ret,
               struct err *err)
{
    struct json j = {0};

    put_head(&j, v, ret);
    for (size_t i = 0; i < v->episode->n_frames; i++)
        put_frame(&j, v->episode, i, ret);
    json_done(&j);
    return 0;
}
