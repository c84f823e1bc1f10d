/* Pictures of episodes: any episode can be drawn, with the same bytes each time. */
#include "common/wire/cursor.h"
#include "supervisor/env/env.h"
#include "supervisor/render/draw.h"
#include "supervisor/render/page.h"
#include "supervisor/render/render.h"
#include "tests/support/test_main.h"

#include <math.h>
#include <string.h>

static const char *const starts[] = {
    [DRAW_GIF] = "GIF89a",
    [DRAW_SVG] = "<?xml",
    [DRAW_JSONL] = "{\"env\": ",
};
enum { N_FORMATS = sizeof(starts) / sizeof(starts[0]) };

struct fixture {
    struct vec_env *env;
    struct episode e;
};

static void open_env(struct fixture *f, const char *id)
{
    struct env_config config = {.id = id, .max_steps = 25};

    *f = (struct fixture){0};
    ck_assert_int_eq(vec_env_new(&f->env, &config, 3, ENV_DRAWS_EVALUATION, 1, NULL), 0);
    vec_env_reset(f->env);
    f->e.spec = vec_env_spec(f->env);
    f->e.title = id;
    f->e.line[0] = "a line";
}

static void close_env(struct fixture *f)
{
    episode_done(&f->e);
    vec_env_free(f->env);
}

/* Every agent chooses the next entry in each step. */
static void step(struct fixture *f, size_t t, struct env_step *ret)
{
    static float numbers[64][64];
    const float *rows[64];

    memset(numbers, 0, sizeof(numbers));
    for (size_t a = 0; a < f->e.spec->n_agents; a++) {
        numbers[a][(t + a) % (size_t)f->e.spec->agents[a].space.width] = 1.0f;
        rows[a] = numbers[a];
    }
    ck_assert_int_eq(vec_env_step(f->env, rows, ret, NULL), 0);
}

static void play(struct fixture *f, size_t steps)
{
    struct env_step s;

    episode_add(&f->e, f->env, 0, NULL);
    for (size_t t = 0; t < steps; t++) {
        step(f, t, &s);
        episode_add(&f->e, f->env, 0, s.episode_return);
    }
}

static void draw(const struct fixture *f, int format, struct wbuf *ret)
{
    const char *start = starts[format];
    struct err err = {0};

    ck_assert_msg(draw_calls.episode(&f->e, (enum draw_format)format, ret, &err) == 0,
                  "%s", err.msg);
    ck_assert_uint_gt(ret->len, 1000);
    ck_assert_int_eq(memcmp(ret->data, start, strlen(start)), 0);
}

START_TEST(test_every_world_gives_the_same_bytes_twice)
{
    for (size_t i = 0; env_info_at(i) != NULL; i++) {
        struct env_config config = {.id = env_info_at(i)->id};
        struct fixture f;

        if (env_check_drawable(&config, NULL) < 0)
            continue;
        open_env(&f, config.id);
        play(&f, 6);
        for (int k = 0; k < N_FORMATS; k++) {
            struct wbuf one = {0}, two = {0};

            draw(&f, k, &one);
            draw(&f, k, &two);
            /* an SVG contains a counter of the drawings of this process */
            ck_assert_uint_le(one.len, two.len);
            ck_assert(memcmp(one.data, two.data, one.len) == 0 || k == DRAW_SVG);
            wbuf_done(&one);
            wbuf_done(&two);
        }
        close_env(&f);
    }
}
END_TEST

START_TEST(test_returns_and_places_are_those_of_the_steps)
{
    struct fixture f;
    struct env_step s;

    open_env(&f, "simple_spread");
    episode_add(&f.e, f.env, 0, NULL);
    step(&f, 0, &s);
    episode_add(&f.e, f.env, 0, s.episode_return);
    ck_assert_uint_eq(f.e.n_frames, 2);
    for (size_t a = 0; a < 3; a++) {
        const struct scene_thing *t = view_find(&f.e.frame[1].scene, (int32_t)a, 0);

        ck_assert(f.e.frame[0].returns[a] == 0);
        ck_assert(f.e.frame[1].returns[a] == s.episode_return[a][0]);
        ck_assert((float)t->x == s.next_obs[a][2] && (float)t->y == s.next_obs[a][3]);
    }
    close_env(&f);
}
END_TEST

/* NaN, infinite and huge positions, and texts that are not UTF-8. */
START_TEST(test_anything_can_be_drawn)
{
    const double odd[] = {NAN, INFINITY, 1e300, -1e9};
    struct fixture f;

    open_env(&f, "simple_world_comm");
    play(&f, 8);
    f.e.title = "\xff\xfe not text \xc3";
    f.e.line[1] =
        "a long line that has no end, a long line that has no end, \xc3\xa4\xc3\xa4"
        "a long line that has no end, a long line that has no end, \xc3\xa4\xc3\xa4"
        "a long line that has no end, a long line that has no end, \xc3\xa4\xc3\xa4"
        "a long line that has no end, a long line that has no end, \xc3\xa4\xc3\xa4";
    for (int i = 0; i < 4; i++) {
        f.e.frame[2].scene.thing[i].x = odd[i];
        f.e.frame[3].scene.thing[5 + i].y = odd[i];
        f.e.frame[4].returns[i] = odd[i];
    }
    for (int k = 0; k < N_FORMATS; k++) {
        struct wbuf b = {0};

        draw(&f, k, &b);
        wbuf_done(&b);
    }
    close_env(&f);
}
END_TEST

START_TEST(test_an_endless_episode_is_cut)
{
    struct fixture f;
    struct env_step s;

    open_env(&f, "climbing");
    for (size_t t = 0; t < EPISODE_MAX_FRAMES; t++) {
        ck_assert(!f.e.is_cut);
        step(&f, t, &s);
        episode_add(&f.e, f.env, 0, s.episode_return);
    }
    ck_assert(!f.e.is_cut);
    episode_add(&f.e, f.env, 0, s.episode_return);
    ck_assert(f.e.is_cut);
    ck_assert_uint_eq(f.e.n_frames, EPISODE_MAX_FRAMES);
    close_env(&f);
}
END_TEST

/* The number of pixels of one colour in a square of the page of a whole episode. */
static size_t count_colour(const struct view *v, double x, double y, int half,
                           uint32_t rgb)
{
    cairo_surface_t *surface = cairo_image_surface_create(
        CAIRO_FORMAT_RGB24, (int)v->width + 1, (int)v->height + 1);
    struct theme_fonts *fonts;
    struct pen p = {cairo_create(surface), NULL, 1};
    const unsigned char *data;
    size_t n = 0;

    ck_assert_int_eq(theme_fonts_open(&fonts, NULL), 0);
    p.fonts = fonts;
    page_draw_whole(&p, v);
    cairo_surface_flush(surface);
    data = cairo_image_surface_get_data(surface);
    for (int row = (int)y - half; row <= (int)y + half; row++)
        for (int col = (int)x - half; col <= (int)x + half; col++) {
            uint32_t pixel;

            memcpy(&pixel, data + row * cairo_image_surface_get_stride(surface) + col * 4,
                   sizeof(pixel));
            n += (pixel & 0xffffff) == rgb;
        }
    cairo_destroy(p.cr);
    cairo_surface_destroy(surface);
    theme_fonts_close(fonts);
    return n;
}

/* A player's level is covered neither by its own track nor by the ring at the track's
 * beginning. */
START_TEST(test_levels_stand_over_ways)
{
    struct fixture f;
    struct view v;
    const struct scene_thing *t;

    open_env(&f, "foraging");
    play(&f, 24);
    view_init(&v, &f.e);
    for (int32_t a = 0; a < 2; a++) {
        size_t crossed, plain;

        t = view_find(&f.e.frame[24].scene, a, 0);
        ck_assert(v.agent[a].is_moving);
        crossed = count_colour(&v, view_x(&v, t->x), view_y(&v, t->y), 8, THEME_INK);
        v.agent[a].is_moving = 0; /* without a track */
        plain = count_colour(&v, view_x(&v, t->x), view_y(&v, t->y), 8, THEME_INK);
        ck_assert_uint_gt(plain, 0);
        ck_assert_uint_gt(10 * crossed, 9 * plain);
    }
    view_done(&v);
    close_env(&f);
}
END_TEST

/* For a matrix game: how often each joint action was chosen. */
START_TEST(test_counts_are_in_the_legend)
{
    struct fixture f;
    struct view v;
    size_t kinds = 0;

    open_env(&f, "climbing");
    play(&f, 4);
    view_init(&v, &f.e);
    for (int k = 0; k < SCENE_KIND_COUNT; k++)
        kinds += v.is_present[k] != 0;
    ck_assert_uint_eq(view_legend_rows(&v, 0), kinds);
    ck_assert_uint_eq(view_legend_rows(&v, 1), kinds + 3);
    view_done(&v);
    close_env(&f);
}
END_TEST

START_TEST(test_what_cannot_be_made_is_refused)
{
    const struct {
        const char *path, *says;
    } cases[] = {
        {"x.png",
         "x.png: expected .gif, .mp4, .webm or .svg for a picture, .jsonl for its data"},
        {"x", "x: expected .gif, .mp4, .webm or .svg for a picture, .jsonl for its data"},
        {".gif",
         ".gif: expected .gif, .mp4, .webm or .svg for a picture, .jsonl for its data"},
        {"/nowhere/at/all/x.gif", "/nowhere/at/all: No such file or directory"},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct err err = {0};

        ck_assert_int_lt(render_check(cases[i].path, &err), 0);
        ck_assert_str_eq(err.msg, cases[i].says);
    }
    ck_assert_int_eq(draw_calls.check(NULL), 0);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *s = suite_create("render");
    TCase *tc = tcase_create("render");

    tcase_set_timeout(tc, 120);
    tcase_add_test(tc, test_every_world_gives_the_same_bytes_twice);
    tcase_add_test(tc, test_returns_and_places_are_those_of_the_steps);
    tcase_add_test(tc, test_anything_can_be_drawn);
    tcase_add_test(tc, test_an_endless_episode_is_cut);
    tcase_add_test(tc, test_levels_stand_over_ways);
    tcase_add_test(tc, test_counts_are_in_the_legend);
    tcase_add_test(tc, test_what_cannot_be_made_is_refused);
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(make_suite)
