/* Scenes describe the worlds: places, kinds, contacts, speech, tables. */
#include "common/config/yaml_tree.h"
#include "supervisor/env/env.h"
#include "supervisor/env/particle_world.h"
#include "tests/support/test_main.h"

#include <math.h>
#include <string.h>

enum { STEPS = 30, MAX_NUMBERS = 4096 };

static const struct scene_thing *find(const struct scene *s, enum scene_kind kind,
                                      size_t nth)
{
    for (size_t i = 0; i < s->n_things; i++) {
        if (s->thing[i].kind == kind && nth-- == 0)
            return &s->thing[i];
    }
    return NULL;
}

static size_t count(const struct scene *s, enum scene_kind kind)
{
    size_t n = 0;

    while (find(s, kind, n) != NULL)
        n++;
    return n;
}

static struct vec_env *open_env(const char *id, const char *params, struct arena *arena)
{
    struct env_config config = {.id = id, .max_steps = 25};
    struct yaml_node *tree;
    struct vec_env *v;
    struct err err = {0};

    ck_assert_int_eq(yaml_tree_parse(&tree, arena, params, strlen(params), "p", 1, &err),
                     0);
    config.params = tree;
    ck_assert_msg(vec_env_new(&v, &config, 3, ENV_DRAWS_EVALUATION, 2, &err) == 0, "%s",
                  err.msg);
    vec_env_reset(v);
    return v;
}

/* Agent a of copy 0 chooses entry choice[a]. */
static void step(struct vec_env *v, const size_t *choice, struct env_step *ret)
{
    const struct env_spec *spec = vec_env_spec(v);
    static float numbers[MAX_NUMBERS];
    const float *rows[16];
    float *next = numbers;
    struct err err = {0};

    memset(numbers, 0, sizeof(numbers));
    for (size_t a = 0; a < spec->n_agents; a++) {
        const struct action_space *space = &spec->agents[a].space;
        size_t at = 0, left = choice[a];

        rows[a] = next;
        for (int h = 0; h < space->n_heads; h++) {
            next[at + left % (size_t)space->heads[h]] = 1.0f;
            left /= (size_t)space->heads[h];
            at += (size_t)space->heads[h];
        }
        next += 2 * space->width;
    }
    ck_assert_msg(vec_env_step(v, rows, ret, &err) == 0, "%s", err.msg);
}

/* ---- all environments ---- */

static void check_scene(const struct scene *s, size_t n_agents)
{
    size_t agents = 0;

    ck_assert_uint_eq(s->n_actions, n_agents);
    ck_assert(s->x0 < s->x1 && s->y0 < s->y1 && s->frame_ms > 0);
    for (size_t i = 0; i < s->n_things; i++) {
        const struct scene_thing *t = &s->thing[i];

        ck_assert(t->kind > SCENE_UNSAID && t->kind < SCENE_KIND_COUNT);
        ck_assert(isfinite(t->x) && isfinite(t->y) && t->size > 0);
        ck_assert(t->value >= 0 && t->value <= 1);
        ck_assert(t->agent >= -1 && t->agent < (int32_t)n_agents);
        agents += t->kind >= SCENE_SPEAKER && t->kind <= SCENE_LEADER;
        for (size_t k = 0; k < i; k++)
            ck_assert(t->id == -1 || t->id != s->thing[k].id);
    }
    for (size_t a = 0; a < n_agents; a++)
        ck_assert(s->action[a].strength >= 0 && s->action[a].strength <= 1);
    ck_assert(agents == n_agents || count(s, SCENE_CELL) > 0);
}

START_TEST(test_every_world_draws_itself)
{
    size_t drawn = 0;

    for (size_t i = 0; env_info_at(i) != NULL; i++) {
        struct env_config config = {.id = env_info_at(i)->id};
        struct arena arena = ARENA_ZERO;
        struct scene scene = {0};
        struct err err = {0};
        struct vec_env *v;

        if (env_check_drawable(&config, &err) < 0) {
            ck_assert_ptr_nonnull(strstr(err.msg, config.id));
            continue;
        }
        drawn++;
        v = open_env(config.id, "{}", &arena);
        for (size_t t = 0; t < STEPS; t++) {
            struct env_step s;
            size_t choice[16];

            vec_env_draw(v, 0, &scene);
            check_scene(&scene, vec_env_spec(v)->n_agents);
            for (size_t a = 0; a < 16; a++)
                choice[a] = 7 * t + 3 * a;
            step(v, choice, &s);
        }
        vec_env_free(v);
        scene_done(&scene);
        arena_done(&arena);
    }
    ck_assert_uint_eq(drawn, 12 + 5 + 3);
}
END_TEST

START_TEST(test_what_is_nothing_is_not_drawn)
{
    struct env_config config = {.id = "none"};
    struct err err = {0};

    ck_assert_int_eq(env_check_drawable(&config, &err), ERR_UNSUPPORTED);
    ck_assert_str_eq(err.msg, "none cannot be drawn: only the particle worlds, matrix "
                              "games, foraging, rware, overcooked, and env.command can");
}
END_TEST

/* ---- particle worlds ---- */

static struct particle_world *open_world(const char *id, struct arena *arena)
{
    struct env_config config = {.id = id};
    const struct env_class *class = env_class_find(id);
    struct env_spec spec;
    const void *params;

    ck_assert_int_eq(env_class_describe(class, &config, arena, &params, &spec, NULL), 0);
    return class->ops->open(class, &config, params, 2, arena);
}

static void put(struct particle_world *w, size_t entity, double x, double y)
{
    particle_pos(w, entity, 0)[1] = x;
    particle_pos(w, entity, 1)[1] = y;
}

START_TEST(test_places_kinds_and_contacts)
{
    struct arena arena = ARENA_ZERO;
    struct particle_world *w = open_world("simple_tag", &arena);
    struct scene s = {0};
    const struct scene_thing *t;

    for (size_t e = 0; e < 6; e++)
        put(w, e, -0.9 + 0.3 * (double)e, 0.8);
    put(w, 4, 0.5, -0.5); /* the obstacles, radius 0.2 */
    put(w, 5, -0.5, -0.5);
    put(w, 3, 0.5, -0.26); /* the prey, radius 0.05: touches the first obstacle */
    put(w, 0, 0.5, -0.14); /* a hunter, radius 0.075: touches the prey */
    scene_clear(&s, 4);
    particle_world_draw(w, 1, &s);
    ck_assert_uint_eq(count(&s, SCENE_ADVERSARY), 3);
    ck_assert_uint_eq(count(&s, SCENE_AGENT), 1);
    ck_assert_uint_eq(count(&s, SCENE_OBSTACLE), 2);
    t = find(&s, SCENE_AGENT, 0);
    ck_assert(t->x == 0.5 && t->y == -0.26 && t->size == 0.05 && t->agent == 3);
    ck_assert_str_eq(t->text, "A"); /* the only agent of its team */
    ck_assert_uint_eq(count(&s, SCENE_CONTACT), 2);
    t = find(&s, SCENE_CONTACT, 0); /* between hunter and prey, nearer to the prey */
    ck_assert_double_eq_tol(t->y, -0.14 - 0.12 * 0.075 / 0.125, 1e-12);
    t = find(&s, SCENE_CONTACT, 1);
    ck_assert_double_eq_tol(t->y, -0.26 - 0.24 * 0.05 / 0.25, 1e-12);
    put(w, 0, 0.5, 0.1);
    scene_clear(&s, 4);
    particle_world_draw(w, 1, &s);
    ck_assert_uint_eq(count(&s, SCENE_CONTACT), 1);
    scene_done(&s);
    arena_done(&arena);
}
END_TEST

START_TEST(test_goals_and_words)
{
    struct arena arena = ARENA_ZERO;
    struct particle_world *w = open_world("simple_reference", &arena);
    struct scene s = {0};
    const struct scene_thing *t;

    for (size_t e = 0; e < 5; e++)
        put(w, e, 0.1 * (double)e, 0);
    particle_goal(w, 0)[1] = 2;
    particle_goal(w, 1)[1] = 0;
    particle_comm(w, 1, 7)[1] = 1.0;
    scene_clear(&s, 2);
    particle_world_draw(w, 1, &s);
    t = find(&s, SCENE_GOAL, 0); /* agent 0 observes the goal of agent 1 */
    ck_assert(t->x == 0.1 * 4 && t->agent == 1);
    ck_assert_str_eq(t->text, "goal of 1");
    t = find(&s, SCENE_GOAL, 1);
    ck_assert(t->x == 0.1 * 2 && t->agent == 0);
    ck_assert_str_eq(find(&s, SCENE_LANDMARK, 2)->text, "2");
    ck_assert_str_eq(s.verb, "says");
    ck_assert_str_eq(s.action[0].text, ""); /* agent 0 says nothing */
    ck_assert_str_eq(s.action[1].text, "7");
    ck_assert(s.action[0].strength == 0 && s.action[1].strength == 1);
    particle_comm(w, 1, 7)[1] = 0.25;
    particle_comm(w, 1, 3)[1] = 0.5;
    scene_clear(&s, 2);
    particle_world_draw(w, 1, &s);
    ck_assert_str_eq(s.action[1].text, "3");
    ck_assert(s.action[1].strength == 0.5);
    scene_done(&s);
    arena_done(&arena);
}
END_TEST

/* The legend distinguishes goals that do not belong to exactly one agent. */
START_TEST(test_a_key_is_no_goal)
{
    struct arena arena = ARENA_ZERO;
    struct particle_world *w = open_world("simple_crypto", &arena);
    struct scene s = {0};

    scene_clear(&s, 3);
    particle_world_draw(w, 1, &s);
    ck_assert_str_eq(s.name[SCENE_GOAL], "goal; the wider ring: key");
    ck_assert(find(&s, SCENE_GOAL, 1)->value > find(&s, SCENE_GOAL, 0)->value);
    ck_assert_str_eq(find(&s, SCENE_GOAL, 1)->text, "key");
    scene_done(&s);
    arena_done(&arena);
}
END_TEST

/* ---- foraging ---- */

START_TEST(test_a_grid_with_players_and_food)
{
    struct arena arena = ARENA_ZERO;
    struct vec_env *v = open_env("foraging", "{size: 5, players: 1, food: 1}", &arena);
    const size_t west = 3, load = 5;
    const struct scene_thing *t;
    struct scene s = {0};
    struct env_step r;
    double x, y;

    vec_env_draw(v, 0, &s);
    ck_assert(s.is_grid && s.x0 == 0 && s.x1 == 5 && s.y0 == 0 && s.y1 == 5);
    /* one food, whose level is at most the player's: 1 or 2 */
    t = find(&s, SCENE_FOOD, 0);
    ck_assert(t->text[0] >= '1' && t->text[0] <= '2' && t->text[1] == '\0');
    ck_assert(t->id != find(&s, SCENE_AGENT, 0)->id);
    t = find(&s, SCENE_AGENT, 0);
    ck_assert_str_eq(s.action[0].text, "");
    /* observation: row, column and level of the food, then of the player; rows from the
     * top */
    x = (double)vec_env_obs(v, 0)[4] + 0.5;
    y = 5 - (double)vec_env_obs(v, 0)[3] - 0.5;
    ck_assert(t->x == x && t->y == y);
    for (int i = 0; i < 5; i++) {
        step(v, &west, &r);
        vec_env_draw(v, 0, &s);
    }
    ck_assert_str_eq(s.action[0].text, "W");
    ck_assert_str_eq(s.action_key, "N S W E moves, L loads, - stays; pale: in vain");
    t = find(&s, SCENE_CONTACT, 0); /* at the border or the food */
    ck_assert_ptr_nonnull(t);
    ck_assert(t->x < find(&s, SCENE_AGENT, 0)->x && t->y == find(&s, SCENE_AGENT, 0)->y);
    ck_assert(s.action[0].strength < 1);
    step(v, &load, &r);
    vec_env_draw(v, 0, &s);
    ck_assert_str_eq(s.action[0].text, "L");
    ck_assert_ptr_null(find(&s, SCENE_CONTACT, 0));
    ck_assert_int_eq(find(&s, SCENE_LOADING, 0) != NULL, s.action[0].strength == 1);
    vec_env_free(v);
    scene_done(&s);
    arena_done(&arena);
}
END_TEST

/* ---- matrix games ---- */

START_TEST(test_a_table_and_the_joint_action)
{
    struct arena arena = ARENA_ZERO;
    struct vec_env *v = open_env("matrix_game",
                                 "{payoffs: {agent_0: [[1, 2, 3], [4, 5, 6]], "
                                 "agent_1: [[-1, -2, -3.5], [0, 0, 0]]}}",
                                 &arena);
    struct scene s = {0};
    struct env_step r;
    const struct scene_thing *t;

    vec_env_draw(v, 0, &s);
    ck_assert_uint_eq(count(&s, SCENE_CELL), 6);
    ck_assert_uint_eq(count(&s, SCENE_HEADER), 5);
    ck_assert_uint_eq(count(&s, SCENE_CHOSEN), 0);
    ck_assert_str_eq(s.action[0].text, "");
    step(v, (const size_t[]){0, 2}, &r);
    vec_env_draw(v, 0, &s);
    t = find(&s, SCENE_CHOSEN, 0); /* the upper row, the last column */
    ck_assert(t->x == 2.5 && t->y == 1.5);
    t = find(&s, SCENE_CELL, 2);
    ck_assert(t->x == 2.5 && t->y == 1.5 && t->value == 0); /* the least of the means */
    ck_assert_str_eq(t->text, "3, -3.5");
    ck_assert(find(&s, SCENE_CELL, 5)->value == 1);
    ck_assert_str_eq(s.action[0].text, "0");
    ck_assert_str_eq(s.action[1].text, "2");
    for (size_t i = 0; i < 5; i++)
        ck_assert(find(&s, SCENE_HEADER, i)->value == (i == 0 || i == 4));
    vec_env_free(v);
    scene_done(&s);
    arena_done(&arena);
}
END_TEST

/* With three agents, the table for the third agent's action is drawn. */
START_TEST(test_a_table_of_three)
{
    struct arena arena = ARENA_ZERO;
    struct vec_env *v = open_env(
        "matrix_game", "{payoffs: {all: [[[1, 2], [3, 4]], [[5, 6], [7, 8]]]}}", &arena);
    struct scene s = {0};
    struct env_step r;

    step(v, (const size_t[]){1, 0, 1}, &r);
    vec_env_draw(v, 0, &s);
    ck_assert_uint_eq(count(&s, SCENE_CELL), 4);
    ck_assert_str_eq(find(&s, SCENE_CELL, 0)->text, "2");
    ck_assert_str_eq(find(&s, SCENE_CELL, 2)->text, "6");
    ck_assert(find(&s, SCENE_CHOSEN, 0)->x == 0.5 && find(&s, SCENE_CHOSEN, 0)->y == 0.5);
    ck_assert_str_eq(s.action[2].text, "1");
    vec_env_free(v);
    scene_done(&s);
    arena_done(&arena);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *s = suite_create("scene");
    TCase *tc = tcase_create("scene");

    tcase_add_test(tc, test_every_world_draws_itself);
    tcase_add_test(tc, test_what_is_nothing_is_not_drawn);
    tcase_add_test(tc, test_places_kinds_and_contacts);
    tcase_add_test(tc, test_goals_and_words);
    tcase_add_test(tc, test_a_key_is_no_goal);
    tcase_add_test(tc, test_a_grid_with_players_and_food);
    tcase_add_test(tc, test_a_table_and_the_joint_action);
    tcase_add_test(tc, test_a_table_of_three);
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(make_suite)
