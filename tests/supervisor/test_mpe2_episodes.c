/* Episodes of MPE2's newer worlds, compared with MPE2's own: every number of every
 * step. */
#include "common/config/yaml_tree.h"
#include "supervisor/env/particle_world.h"
#include "tests/supervisor/mpe2_episodes.h"
#include "tests/support/test_main.h"

#include <stdlib.h>
#include <string.h>

enum { N_EPISODES = sizeof(mpe2_episodes) / sizeof(mpe2_episodes[0]), MAX_AGENTS = 16 };
enum { COPIES = 2, MAX_WIDTH = 128 };

struct game {
    struct arena arena;
    struct particle_world *w;
    float action[MAX_AGENTS][COPIES * PARTICLE_MOVES];
    double reward[MAX_AGENTS][COPIES];
    uint8_t over[MAX_AGENTS][COPIES];
};

/* Opens two copies: one plays the recorded episode, the other one something else. */
static void open_game(struct game *g, const struct mpe2_episode *e)
{
    const struct env_class *class = env_class_find(e->id);
    struct env_config config = {.id = e->id, .copies = COPIES, .max_steps = 25};
    struct yaml_node *node;
    struct env_spec spec;
    const void *params;
    struct err err = {0};

    *g = (struct game){0};
    ck_assert_msg(yaml_value_parse(&node, &g->arena, e->params, "test", &err) == 0, "%s",
                  err.msg);
    config.params = node;
    ck_assert_msg(env_class_describe(class, &config, &g->arena, &params, &spec, &err) ==
                      0,
                  "%s", err.msg);
    g->w = particle_ops.open(class, &config, params, COPIES, &g->arena);
    ck_assert_uint_le(g->w->n_agents, MAX_AGENTS);
    particle_ops.reset(g->w, 0, &(struct env_episode){.number = 0});
    particle_ops.reset(g->w, 1, &(struct env_episode){.number = 1});
}

static void play_step(struct game *g, const char *moves)
{
    const float *action[MAX_AGENTS];
    double *reward[MAX_AGENTS];
    uint8_t *over[MAX_AGENTS];

    memset(g->action, 0, sizeof(g->action));
    for (size_t a = 0; a < g->w->n_agents; a++) {
        g->action[a][moves[a] - '0'] = 1.0f;
        g->action[a][PARTICLE_MOVES + 1] = 1.0f;
        action[a] = g->action[a];
        reward[a] = g->reward[a];
        over[a] = g->over[a];
    }
    particle_ops.step(g->w, action, reward, over);
}

/* FNV-1a of the bytes of doubles. */
static uint64_t hash(uint64_t h, const double *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < sizeof(*x); k++)
            h = (h ^ ((const unsigned char *)&x[i])[k]) * 0x100000001b3u;
    return h;
}

static uint64_t hash_step(const struct game *g)
{
    uint64_t h = 0xcbf29ce484222325u;
    double row[MAX_WIDTH];

    for (size_t a = 0; a < g->w->n_agents; a++)
        h = hash(h, &g->reward[a][0], 1);
    for (size_t a = 0; a < g->w->n_agents; a++) {
        const size_t width = (size_t)g->w->agents[a].obs_width;

        ck_assert_uint_le(width, MAX_WIDTH);
        particle_world_show(g->w, a, 0, 1, row);
        h = hash(h, row, width);
    }
    return h;
}

START_TEST(test_every_step)
{
    const struct mpe2_episode *e = &mpe2_episodes[_i];
    struct game g;

    open_game(&g, e);
    for (int t = 0; t < e->steps; t++) {
        const size_t last = g.w->n_agents - 1;

        play_step(&g, e->actions + (size_t)t * g.w->n_agents);
        ck_assert_msg(g.reward[0][0] == e->step[t].first &&
                          g.reward[last][0] == e->step[t].last,
                      "step %d: rewards %a ... %a, MPE2's %a ... %a", t, g.reward[0][0],
                      g.reward[last][0], e->step[t].first, e->step[t].last);
        ck_assert_msg(hash_step(&g) == e->step[t].hash,
                      "step %d: another reward or observation differs", t);
        ck_assert_int_eq(g.over[last][0], t + 1 == e->steps ? e->over : 0);
    }
    arena_done(&g.arena);
}
END_TEST

/* A world that gets the state of another in the middle of an episode continues in the
 * same way, including its draws. */
START_TEST(test_state_within_an_episode)
{
    const struct mpe2_episode *e = &mpe2_episodes[_i];
    struct game g, other;
    char *state;

    open_game(&g, e);
    open_game(&other, e);
    for (int t = 0; t < e->steps; t++) {
        const char *moves = e->actions + (size_t)t * g.w->n_agents;

        play_step(&g, moves);
        if (t != e->steps / 2) {
            play_step(&other, moves + (t < e->steps / 2 ? g.w->n_agents : 0));
            continue;
        }
        state = malloc(particle_ops.state_bytes(g.w));
        particle_ops.save(g.w, state);
        ck_assert_int_eq(particle_ops.load(other.w, state, NULL), 0);
        free(state);
    }
    ck_assert_mem_eq(g.w->state, other.w->state, g.w->n_state * sizeof(double));
    ck_assert_mem_eq(g.reward, other.reward, sizeof(g.reward));
    arena_done(&g.arena);
    arena_done(&other.arena);
}
END_TEST

/* Without a reference seed, objects that appear within an episode are drawn with the same
 * key as the reset, after its draws. */

enum { MAX_DRAWS = 200 };

struct drawn {
    uint64_t counter[MAX_DRAWS], first[MAX_DRAWS], end[MAX_DRAWS];
    size_t n;
};

static void on_draw(void *ctx, struct rng_key key, uint64_t counter, uint64_t first,
                    size_t n)
{
    struct drawn *d = ctx;

    if (key.k[0] != 5) /* a draw of the other copy */
        return;
    ck_assert_uint_lt(d->n, MAX_DRAWS);
    d->counter[d->n] = counter;
    d->first[d->n] = first;
    d->end[d->n++] = first + n;
}

START_TEST(test_draws_go_on)
{
    static const struct mpe2_episode e = {.id = "collect_treasure",
                                          .params = "{collectors: 1, treasures: 1}"};
    struct drawn d = {.n = 0};
    struct game g;
    size_t at_reset;

    open_game(&g, &e);
    rng_set_audit(on_draw, &d);
    particle_ops.reset(g.w, 0, &(struct env_episode){.key = {{5, 6}}, .episode = 3});
    at_reset = d.n;
    memcpy(g.w->pos, particle_pos(g.w, 3, 0), 4 * sizeof(double)); /* onto the treasure */
    play_step(&g, "000");
    ck_assert_uint_eq(d.n, at_reset); /* picked up */
    play_step(&g, "000");
    ck_assert_uint_gt(d.n, at_reset);
    rng_set_audit(NULL, NULL);
    for (size_t i = 0; i < d.n; i++) {
        ck_assert_uint_eq(d.counter[i], 3);
        ck_assert_uint_eq(d.first[i], i == 0 ? 0 : d.end[i - 1]);
    }
    arena_done(&g.arena);
}
END_TEST

START_TEST(test_impossible_states_are_refused)
{
    static const struct mpe2_episode e = {.id = "collect_treasure", .params = "{}"};
    const double bad[] = {3.0, -1.0, 0.5};
    const uint64_t worse = 2;
    struct game g;
    char *state;
    size_t n;

    open_game(&g, &e);
    n = g.w->n_state * sizeof(double);
    state = malloc(particle_ops.state_bytes(g.w));
    for (size_t i = 0; i < 3; i++) {
        particle_ops.save(g.w, state);
        memcpy(state + n - sizeof(double), &bad[i], sizeof(double));
        ck_assert_int_eq(particle_ops.load(g.w, state, NULL), ERR_CORRUPT);
    }
    particle_ops.save(g.w, state);
    memcpy(state + n + offsetof(struct particle_draws, by_reference), &worse,
           sizeof(worse));
    ck_assert_int_eq(particle_ops.load(g.w, state, NULL), ERR_CORRUPT);
    free(state);
    arena_done(&g.arena);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *s = suite_create("mpe2_episodes");
    TCase *tc = tcase_create("mpe2_episodes");

    tcase_add_loop_test(tc, test_every_step, 0, N_EPISODES);
    tcase_add_loop_test(tc, test_state_within_an_episode, 0, N_EPISODES);
    tcase_add_test(tc, test_draws_go_on);
    tcase_add_test(tc, test_impossible_states_are_refused);
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(make_suite)
