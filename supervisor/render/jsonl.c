#include "supervisor/metrics/json.h"
#include "supervisor/render/draw.h"
#include "supervisor/render/page.h"

static const char *const kinds[SCENE_KIND_COUNT] = {
    [SCENE_FOREST] = "forest",       [SCENE_OBSTACLE] = "obstacle",
    [SCENE_CELL] = "cell",           [SCENE_HEADER] = "header",
    [SCENE_CHOSEN] = "chosen",       [SCENE_FOOD] = "food",
    [SCENE_LANDMARK] = "landmark",   [SCENE_GOAL] = "goal",
    [SCENE_SPEAKER] = "speaker",     [SCENE_AGENT] = "agent",
    [SCENE_ADVERSARY] = "adversary", [SCENE_LEADER] = "leader",
    [SCENE_LOADING] = "loading",     [SCENE_CONTACT] = "contact",
};

static void put_number(struct json *j, const char *key, double x)
{
    json_key(j, key);
    json_f64(j, x);
}

static void put_text(struct json *j, const char *key, const char *text)
{
    json_key(j, key);
    json_str(j, text);
}

static void end_line(struct json *j, struct wbuf *ret)
{
    size_t len;
    const char *text;

    json_close(j);
    text = json_line(j, &len);
    wbuf_bytes(ret, text, len);
}

static void put_head(struct json *j, const struct view *v, struct wbuf *ret)
{
    const struct episode *e = v->episode;

    json_begin(j);
    json_object(j);
    put_text(j, "env", e->spec->id);
    json_key(j, "episode");
    json_u64(j, e->number);
    json_key(j, "seed");
    json_u64(j, e->seed);
    json_key(j, "steps");
    json_u64(j, e->n_frames - 1);
    json_key(j, "page");
    json_object(j);
    put_number(j, "width", v->width);
    put_number(j, "height", v->height);
    put_number(j, "scale", v->scale);
    put_number(j, "x", v->world_x);
    put_number(j, "y", v->world_y);
    json_close(j);
    json_key(j, "agents");
    json_array(j);
    for (size_t a = 0; a < e->spec->n_agents; a++) {
        char colour[16];

        (void)snprintf(colour, sizeof(colour), "#%06x", (unsigned)v->agent[a].rgb);
        json_object(j);
        put_text(j, "name", e->spec->agents[a].name);
        put_text(j, "team", e->spec->agents[a].team);
        put_text(j, "colour", colour);
        json_close(j);
    }
    json_close(j);
    end_line(j, ret);
}

static void put_thing(struct json *j, const struct scene_thing *t)
{
    json_object(j);
    put_text(j, "kind", kinds[t->kind]);
    if (t->id >= 0) {
        json_key(j, "id");
        json_i64(j, t->id);
    }
    if (t->agent >= 0) {
        json_key(j, "agent");
        json_i64(j, t->agent);
    }
    put_number(j, "x", t->x);
    put_number(j, "y", t->y);
    put_number(j, "size", t->size);
    if (t->text[0] != '\0')
        put_text(j, "text", t->text);
    json_close(j);
}

static void put_frame(struct json *j, const struct episode *e, size_t i, struct wbuf *ret)
{
    const struct scene *s = &e->frame[i].scene;

    json_begin(j);
    json_object(j);
    json_key(j, "step");
    json_u64(j, i);
    json_key(j, "returns");
    json_object(j);
    for (size_t a = 0; a < e->spec->n_agents; a++)
        put_number(j, e->spec->agents[a].name, e->frame[i].returns[a]);
    json_close(j);
    if (s->verb != NULL) {
        json_key(j, s->verb);
        json_object(j);
        for (size_t a = 0; a < s->n_actions; a++) {
            if (s->action[a].text[0] != '\0')
                put_text(j, e->spec->agents[a].name, s->action[a].text);
        }
        json_close(j);
    }
    json_key(j, "things");
    json_array(j);
    for (size_t k = 0; k < s->n_things; k++)
        put_thing(j, &s->thing[k]);
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
