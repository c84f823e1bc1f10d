/* Episodes of worlds that follow a Python package, with what the package itself said of them.
 * golden-packages plays more, where the packages are installed. */
#include "common/config/yaml_tree.h"
#include "supervisor/env/env_class.h"
#include "tests/supervisor/package_episodes.h"
#include "tests/support/test_main.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_AGENTS = 16, COPIES = 2 };

struct fixture {
    struct arena arena;
    const struct env_ops *ops;
    struct env_spec spec;
    void *world;
    uint64_t hash;
    float *actions[MAX_AGENTS], *obs[MAX_AGENTS];
    double reward[MAX_AGENTS][COPIES];
    uint8_t over[MAX_AGENTS][COPIES];
};

static void open_world(struct fixture *f, const char *id, const char *params)
{
    const struct env_class *class = env_class_find(id);
    struct env_config config = {.id = id};
    struct yaml_node *tree;
    const void *values;
    struct err err = {0};

    *f = (struct fixture){.ops = class->ops, .hash = 0xcbf29ce484222325u};
    ck_assert_int_eq(
        yaml_tree_parse(&tree, &f->arena, params, strlen(params), "f", 1, &err), 0);
    config.params = tree;
    ck_assert_msg(
        env_class_describe(class, &config, &f->arena, &values, &f->spec, &err) == 0, "%s",
        err.msg);
    f->world = class->ops->open(class, &config, values, COPIES, &f->arena);
    for (size_t a = 0; a < f->spec.n_agents; a++) {
        f->actions[a] =
            ARENA_ARRAY(&f->arena, float, COPIES *(size_t)f->spec.agents[a].space.width);
        f->obs[a] =
            ARENA_ARRAY(&f->arena, float, COPIES *(size_t)f->spec.agents[a].obs_width);
    }
}

static void reset(struct fixture *f, size_t copy, uint64_t episode)
{
    const struct env_episode e = {
        .key = rng_key_make(7, "test", "env"), .episode = episode, .number = episode};

    f->ops->reset(f->world, copy, &e);
}

/* All copies choose the same. Returns the choices of the next step. */
static const char *step(struct fixture *f, const char *choices)
{
    double *reward[MAX_AGENTS];
    uint8_t *over[MAX_AGENTS];

    for (size_t a = 0; a < f->spec.n_agents; a++) {
        const struct action_space *s = &f->spec.agents[a].space;
        size_t at = 0;

        memset(f->actions[a], 0, COPIES * (size_t)s->width * sizeof(float));
        for (int h = 0; h < s->n_heads; at += (size_t)s->heads[h], h++, choices++) {
            for (size_t c = 0; c < COPIES; c++)
                f->actions[a][c * (size_t)s->width + at + (size_t)(*choices - '0')] = 1;
        }
        reward[a] = f->reward[a];
        over[a] = f->over[a];
    }
    f->ops->step(f->world, (const float *const *)f->actions, reward, over);
    return choices;
}

static void add_to_hash(struct fixture *f, const void *data, size_t n)
{
    for (size_t i = 0; i < n; i++)
        f->hash = (f->hash ^ ((const uint8_t *)data)[i]) * 0x100000001b3u;
}

static void hash_observations(struct fixture *f, size_t copy)
{
    f->ops->observe(f->world, 0, COPIES, f->obs);
    for (size_t a = 0; a < f->spec.n_agents; a++) {
        const size_t width = (size_t)f->spec.agents[a].obs_width;

        add_to_hash(f, f->obs[a] + copy * width, width * sizeof(float));
    }
}

/* Plays copy 1; copy 0 has another episode. */
START_TEST(an_episode_is_the_packages)
{
    const char *choices = episodes[_i].choices;
    struct fixture f;

    open_world(&f, episodes[_i].id, episodes[_i].params);
    reset(&f, 0, 5);
    reset(&f, 1, 0);
    hash_observations(&f, 1);
    for (int t = 0; t < episodes[_i].n_steps; t++) {
        choices = step(&f, choices);
        hash_observations(&f, 1);
        for (size_t a = 0; a < f.spec.n_agents; a++)
            add_to_hash(&f, &f.reward[a][1], sizeof(double));
        add_to_hash(&f, &f.over[0][1], 1);
    }
    ck_assert_uint_eq(f.hash, episodes[_i].hash);
    arena_done(&f.arena);
}
END_TEST

START_TEST(a_loaded_state_goes_on_as_the_saved_one)
{
    const char *choices = episodes[_i].choices;
    struct fixture f, g;
    void *state;

    open_world(&f, episodes[_i].id, episodes[_i].params);
    open_world(&g, episodes[_i].id, episodes[_i].params);
    state = malloc(f.ops->state_bytes(f.world));
    reset(&f, 0, 3);
    reset(&f, 1, 4);
    for (int t = 0; t < episodes[_i].n_steps / 2; t++)
        choices = step(&f, choices);
    f.ops->save(f.world, state);
    ck_assert_int_eq(g.ops->load(g.world, state, NULL), 0);
    for (int t = episodes[_i].n_steps / 2; t < episodes[_i].n_steps; t++) {
        (void)step(&g, choices);
        choices = step(&f, choices);
        ck_assert_mem_eq(f.reward, g.reward, sizeof(f.reward));
        for (size_t c = 0; c < COPIES; c++) {
            hash_observations(&f, c);
            hash_observations(&g, c);
        }
        ck_assert_uint_eq(f.hash, g.hash);
    }
    free(state);
    arena_done(&f.arena);
    arena_done(&g.arena);
}
END_TEST

#define N(table) (sizeof(table) / sizeof((table)[0]))

static Suite *make_suite(void)
{
    Suite *s = suite_create("package_episodes");
    TCase *tc = tcase_create("package_episodes");

    tcase_add_loop_test(tc, an_episode_is_the_packages, 0, N(episodes));
    tcase_add_loop_test(tc, a_loaded_state_goes_on_as_the_saved_one, 0, N(episodes));
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(make_suite)
