/* The symmetries that environments declare, tested in the worlds themselves: a turned
 * world that is stepped with turned actions must have the turned observations and the
 * same rewards. */
#include "common/msg/symmetry_msg.h"
#include "common/rng/rng.h"
#include "supervisor/env/particle_world.h"
#include "tests/support/env_params.h"
#include "tests/support/test_main.h"

#include <math.h>
#include <string.h>

enum {
    COPIES = 32,
    STEPS = 5, /* from one state: an action changes a position after two */
    ROUNDS = 4,
    MAX_AGENTS = 16,
    MAX_ENTITIES = 32,
    MAX_WIDTH = 128,
};

/* ---- worlds ---- */

struct setting {
    const char *id;
    const char *key, *value; /* of env.params; NULL: default params */
    size_t factors;          /* number of factors that have an effect */
    enum env_observe observe;
};

static const struct setting settings[] = {
    {"simple", NULL, NULL, 1},
    {"simple_adversary", NULL, NULL, 3}, /* square, goals, view of the adversary */
    {"simple_adversary", "agents", "4", 7},
    {"simple_adversary", "agents", "1", 1},
    {"simple_push", NULL, NULL, 2},
    {"simple_reference", NULL, NULL, 1},
    {"simple_speaker_listener", NULL, NULL, 1},
    {"simple_spread", NULL, NULL, 5},
    {"simple_spread", "agents", "1", 1},
    {"simple_spread", "agents", "2", 2},
    {"simple_spread", "agents", "5", 7},
    {"simple_tag", NULL, NULL, 6}, /* 2 hunters in each of 3 views; 3 in the prey's */
    {"simple_tag", "good", "3", 14},
    {"simple_tag", "obstacles", "0", 5},
    {"simple_world_comm", NULL, NULL, 13},
    {"simple_world_comm", "forests", "3", 13},
    {"simple_world_comm", "forests", "0", 12},
    {"simple_world_comm", "obstacles", "3", 14},
    {"simple_spread", NULL, NULL, 1, ENV_OBSERVE_ENTITIES}, /* the plane alone */
    {"simple_tag", "good", "2", 1, ENV_OBSERVE_ENTITIES},
    {"simple_line", NULL, NULL, 2},
    {"collect_treasure", NULL, NULL, 1},
};
enum { SETTINGS = sizeof(settings) / sizeof(settings[0]), VARIANTS = 4 };
enum { FIRST_OF_MPE2_ALONE = SETTINGS - 2 };

struct pair { /* a world, and its turned image */
    struct arena arena;
    struct env_params params;
    struct env_config config;
    const struct env_class *class;
    struct particle_world *world, *turned;
    struct symmetry_group group;
    /* observations and actions of both; rewards */
    float obs[2][MAX_AGENTS][COPIES * MAX_WIDTH], act[2][MAX_AGENTS][COPIES * MAX_WIDTH];
    double reward[2][MAX_AGENTS][COPIES];
};

static void open_pair(struct pair *p, const struct setting *s, int variant)
{
    struct env_spec spec;
    const void *params;

    memset(p, 0, sizeof(*p));
    p->config = (struct env_config){
        .id = s->id,
        .rules = variant & 1 && s < &settings[FIRST_OF_MPE2_ALONE] ? ENV_RULES_OPENAI
                                                                   : ENV_RULES_MPE2,
        .observe = s->observe,
        .actions = variant & 2 ? ENV_ACTIONS_CONTINUOUS : ENV_ACTIONS_DISCRETE,
        .params = s->key != NULL ? env_params(&p->params, s->key, s->value) : NULL};
    p->class = env_class_find(s->id);
    ck_assert_int_eq(
        env_class_describe(p->class, &p->config, &p->arena, &params, &spec, NULL), 0);
    p->world =
        particle_world_new(p->class->scenario, &p->config, params, COPIES, &p->arena);
    p->turned =
        particle_world_new(p->class->scenario, &p->config, params, COPIES, &p->arena);
    ck_assert_uint_le(p->world->n_agents, MAX_AGENTS);
    ck_assert_uint_le(particle_n_entities(p->world), MAX_ENTITIES);
    env_symmetry(&p->config, &p->arena, &p->group);
}

static struct rng_key test_key(const char *purpose)
{
    return rng_key_make(11, "test symmetry", purpose);
}

/* simple_line: the direction leads from one landmark to the other. collect_treasure:
 * random kinds, and all treasures out of reach, because objects that appear within an
 * episode are not turned.
 */
static void make_possible(struct particle_world *w)
{
    const size_t n = COPIES;

    for (size_t i = 0; w->scenario == &particle_simple_line && i < 2 * n; i++)
        w->own[i] = (particle_pos(w, w->n_agents + 1, 0)[i] -
                     particle_pos(w, w->n_agents, 0)[i]) /
                    1.25;
    if (w->scenario != &particle_collect_treasure)
        return;
    for (size_t i = 0; i < w->n_own * n; i++)
        w->own[i] = floor(w->own[i] * (double)w->own_limit);
    for (size_t i = (w->n_own - w->n_landmarks) * n; i < w->n_own * n; i++)
        w->own[i] = 1.0 + (double)(i % 2);
    for (size_t i = 0; i < 2 * w->n_landmarks * n; i++)
        particle_pos(w, w->n_agents, 0)[i] += 3.0;
}

/* Draws everything at random; half of the copies are crowded, so that there are contacts,
 * and some entities are beyond the arena. */
static void draw_state(struct particle_world *w, uint64_t round)
{
    const size_t n_pos = particle_n_entities(w) * 2 * COPIES;
    const size_t n_vel = w->n_agents * 2 * COPIES;
    double *u = w->state;

    rng_uniform_f64(test_key("state"), round, 0, u, w->n_state);
    for (size_t i = 0; i < n_pos; i++)
        u[i] = (2 * u[i] - 1) * (i % 2 ? 0.3 : 1.2);
    for (size_t i = n_pos; i < n_pos + n_vel; i++)
        u[i] = 2 * u[i] - 1;
    for (size_t i = 0; i < w->n_goals * COPIES; i++)
        w->goal[i] = floor(w->goal[i] * (double)w->n_landmarks);
    make_possible(w);
}

/* Discrete: one-hot heads. Continuous: also values that the rules clip. */
static void draw_actions(struct pair *p, uint64_t step)
{
    for (size_t a = 0; a < p->world->n_agents; a++) {
        const struct action_space *s = &p->world->agents[a].space;
        const size_t width = (size_t)s->width;
        float *x = p->act[0][a];

        rng_uniform_f32(rng_key_derive(test_key("act"), p->world->agents[a].name), step,
                        0, x, COPIES * width);
        for (size_t i = 0; s->kind == SPACE_BOX && i < COPIES * width; i++)
            x[i] = 1.5f * x[i] - 0.25f;
        for (size_t e = 0; s->kind == SPACE_DISCRETE && e < COPIES; e++)
            for (int h = 0; h < s->n_heads; x += s->heads[h++]) {
                const size_t n = (size_t)s->heads[h], choice = env_choice(x, n);

                for (size_t i = 0; i < n; i++)
                    x[i] = i == choice;
            }
    }
}

/* ---- changes of a state ---- */

/* A change of the world: of coordinates, and of two entities of one kind. */
struct change {
    double x, y;  /* factors of the coordinates, after ... */
    int exchange; /* ... x and y were exchanged */
    size_t a, b;  /* entities that change places; equal: none do */
};

static const struct change no_change = {.x = 1, .y = 1};

static size_t moved(const struct change *c, size_t entity)
{
    return entity == c->a ? c->b : entity == c->b ? c->a : entity;
}

static void change_points(const struct change *c, const double *from, double *to,
                          size_t first, size_t n)
{
    const double factor[] = {c->x, c->y};

    for (size_t i = 0; i < n; i++)
        for (size_t axis = 0; axis < 2; axis++) {
            const size_t source =
                (moved(c, first + i) - first) * 2 + (c->exchange ? 1 - axis : axis);

            for (size_t e = 0; e < COPIES; e++)
                to[(i * 2 + axis) * COPIES + e] =
                    factor[axis] * from[source * COPIES + e];
        }
}

static void change_state(const struct pair *p, const struct change *c)
{
    const struct particle_world *w = p->world, *t = p->turned;

    change_points(c, w->pos, t->pos, 0, particle_n_entities(w));
    change_points(c, w->vel, t->vel, 0, w->n_agents);
    for (size_t a = 0; a < w->n_agents && w->dim_c > 0; a++)
        memcpy(particle_comm(t, a, 0), particle_comm(w, moved(c, a), 0),
               w->dim_c * COPIES * sizeof(double));
    for (size_t i = 0; i < w->n_goals * COPIES; i++)
        t->goal[i] = (double)(moved(c, w->n_agents + (size_t)w->goal[i]) - w->n_agents);
    memcpy(t->own, w->own, w->n_own * COPIES * sizeof(double));
    if (t->scenario == &particle_simple_line)
        make_possible(p->turned);
}

/* ---- declared symmetries ---- */

/* Applies generator `move`, or swaps items `move` and `move` + 1, in one part of a
 * row. */
static void turn(const struct symmetry_factor *f, size_t move, size_t agent,
                 enum symmetry_part part, const float *from, float *to, size_t width)
{
    memcpy(to, from, width * sizeof(*to));
    for (size_t r = 0; r < f->n_runs; r++) {
        const struct symmetry_run *run = &f->runs[r];
        const int32_t *code = f->codes;
        size_t all = 0;

        if (run->agent != agent || run->part != part)
            continue;
        if (run->first + run->count * run->width > width)
            ck_abort_msg("a run of agent %zu ends beyond its row", agent);
        for (size_t k = 0; k < f->n_kinds; k++)
            all += f->widths[k];
        for (size_t k = 0; f->items == 0 && k < run->kind; k++)
            code += f->widths[k];
        for (size_t b = 0; b < run->count; b++)
            for (size_t i = 0; i < run->width; i++) {
                const size_t at = run->first + b * run->width;
                const int32_t c = f->items == 0 ? code[move * all + i] : (int32_t)i;
                const size_t swapped = b == move ? b + 1 : b == move + 1 ? b - 1 : b;
                const float x = f->items > 0 ? from[run->first + swapped * run->width + i]
                                             : from[at + (size_t)(c < 0 ? ~c : c)];

                to[at + i] = c < 0 ? -x : x;
            }
    }
}

/* ---- one move of the group through the world ---- */

static void step(struct pair *p, int which)
{
    struct particle_world *w = which == 0 ? p->world : p->turned;
    const float *act[MAX_AGENTS];
    double *reward[MAX_AGENTS];
    uint8_t done[MAX_AGENTS][COPIES] = {{0}}, *terminated[MAX_AGENTS];

    for (size_t a = 0; a < w->n_agents; a++) {
        act[a] = p->act[which][a];
        reward[a] = p->reward[which][a];
        terminated[a] = done[a];
    }
    p->class->ops->step(w, act, reward, terminated);
}

static void observe(struct pair *p, int which)
{
    float *obs[MAX_AGENTS];

    for (size_t a = 0; a < p->world->n_agents; a++)
        obs[a] = p->obs[which][a];
    p->class->ops->observe(which == 0 ? p->world : p->turned, 0, COPIES, obs);
}

/* 1 for agents that the factor affects: all, if it is shared, or the one that has its
 * runs. */
static int is_about(const struct symmetry_factor *f, size_t agent)
{
    for (size_t r = 0; r < f->n_runs; r++)
        if (f->runs[r].agent != f->runs[0].agent)
            return 1;
    return f->runs[0].agent == agent;
}

static double difference(double a, double b)
{
    return fabs(a - b) / fmax(1, fabs(a));
}

/* The largest difference between an agent's turned observation and that of the turned
 * world. */
static double compare(const struct pair *p, const struct symmetry_factor *f, size_t move)
{
    double worst = 0;

    for (size_t a = 0; a < p->world->n_agents; a++) {
        const size_t width = (size_t)p->world->agents[a].obs_width;
        float want[MAX_WIDTH];

        for (size_t e = 0; is_about(f, a) && e < COPIES; e++) {
            turn(f, move, a, SYMMETRY_OBS, p->obs[0][a] + e * width, want, width);
            for (size_t i = 0; i < width; i++)
                worst = fmax(worst, difference((double)want[i],
                                               (double)p->obs[1][a][e * width + i]));
        }
    }
    return worst;
}

static double compare_rewards(const struct pair *p, const struct symmetry_factor *f)
{
    double worst = 0;

    for (size_t a = 0; a < p->world->n_agents; a++)
        for (size_t e = 0; is_about(f, a) && e < COPIES; e++)
            worst = fmax(worst, difference(p->reward[0][a][e], p->reward[1][a][e]));
    return worst;
}

/* Actions of the turned world: each agent's action is turned; agents that change places
 * also exchange their actions. */
static void turn_actions(struct pair *p, const struct symmetry_factor *f, size_t move,
                         const struct change *c)
{
    for (size_t a = 0; a < p->world->n_agents; a++) {
        const size_t width = (size_t)p->world->agents[a].space.width;

        for (size_t e = 0; e < COPIES; e++)
            turn(f, move, a, SYMMETRY_ACTION, p->act[0][moved(c, a)] + e * width,
                 p->act[1][a] + e * width, width);
    }
}

#define TOLERANCE 1e-6

/* The largest difference in all rounds. Stops at the first one above the tolerance, so
 * that wrong changes take little time. */
static double walk(struct pair *p, const struct symmetry_factor *f, size_t move,
                   const struct change *c)
{
    double worst = 0;

    for (uint64_t round = 0; round < ROUNDS && worst <= TOLERANCE; round++) {
        draw_state(p->world, round);
        change_state(p, c);
        for (uint64_t t = 0; worst <= TOLERANCE; t++) {
            observe(p, 0);
            observe(p, 1);
            worst = fmax(worst, compare(p, f, move));
            if (t == STEPS)
                break;
            draw_actions(p, round * STEPS + t);
            turn_actions(p, f, move, c);
            step(p, 0);
            step(p, 1);
            worst = fmax(worst, compare_rewards(p, f));
        }
    }
    return worst;
}

/* The test does not know which two entities change places in the world: exactly one of
 * all pairs must fit. */
static size_t count_pairs(struct pair *p, const struct symmetry_factor *f, size_t move)
{
    const size_t n = particle_n_entities(p->world);
    size_t found = 0;

    for (size_t a = 0; a < n; a++)
        for (size_t b = a + 1; b < n; b++) {
            struct change c = no_change;

            c.a = a;
            c.b = b;
            /* an agent is never in its own view of others */
            if ((a < p->world->n_agents) != (b < p->world->n_agents) ||
                (a < p->world->n_agents && (is_about(f, a) || is_about(f, b))) ||
                (a < p->world->n_agents &&
                 p->world->agents[a].space.width != p->world->agents[b].space.width))
                continue;
            found += walk(p, f, move, &c) <= TOLERANCE ? 1 : 0;
        }
    return found;
}

static const struct change squares[3] = {
    {.x = -1, .y = 1}, {.x = 1, .y = -1}, {.x = 1, .y = 1, .exchange = 1}};

START_TEST(test_each_generator)
{
    static struct pair p;
    const struct setting *s = &settings[_i / VARIANTS];
    size_t n = 0;

    open_pair(&p, s, _i % VARIANTS);
    for (size_t k = 0; k < p.group.n_factors; k++) {
        const struct symmetry_factor *f = &p.group.factors[k];

        n += f->n_runs > 0 ? 1 : 0;
        ck_assert_uint_eq(f->n_generators, f->items > 0 ? 0 : 3);
        for (size_t g = 0; g < f->n_generators; g++) {
            const double worst = walk(&p, f, g, &squares[g]);

            ck_assert_msg(worst <= TOLERANCE, "%s: generator %zu: %g", s->id, g, worst);
        }
        for (size_t i = 0; f->n_runs > 0 && i + 1 < f->items; i++)
            ck_assert_msg(count_pairs(&p, f, i) == 1, "%s: factor %zu, items %zu and %zu",
                          s->id, k, i, i + 1);
    }
    ck_assert_uint_eq(n, s->factors);
    arena_done(&p.arena);
}
END_TEST

/* The walk notices one wrong sign, two exchanged choices, or a run at a wrong
 * position. */
START_TEST(test_the_walk_notices)
{
    static struct pair p;
    struct symmetry_factor *f, wrong;
    int32_t codes[21];

    open_pair(&p, &settings[7], _i);
    f = &p.group.factors[0];
    ck_assert_uint_eq(f->widths[0] + f->widths[1], 7);
    wrong = *f;
    wrong.codes = codes;
    for (size_t g = 0; g < 3; g++)
        for (size_t i = 0; i < 6; i++) {
            int32_t *code = codes + g * 7 + i;

            memcpy(codes, f->codes, sizeof(codes));
            if (i < 2) {
                code[0] = ~code[0];
            } else {
                const int32_t was = code[0];

                code[0] = code[1];
                code[1] = was;
            }
            ck_assert_double_gt(walk(&p, &wrong, g, &squares[g]), TOLERANCE);
        }
    f = &p.group.factors[1]; /* the landmarks */
    ck_assert_uint_eq(count_pairs(&p, f, 0), 1);
    f->runs[0].first++;
    ck_assert_uint_eq(count_pairs(&p, f, 0), 0);
    arena_done(&p.arena);
}
END_TEST

/* How often a factor has a block at that place: of orders, as that item. */
static size_t count_blocks(const struct symmetry_factor *f, const struct symmetry_run *at,
                           uint32_t first, uint32_t item)
{
    size_t n = 0;

    for (size_t i = 0; i < f->n_runs; i++)
        for (uint32_t b = 0; b < f->runs[i].count; b++)
            n += f->runs[i].agent == at->agent && f->runs[i].part == at->part &&
                 f->runs[i].kind == at->kind && f->runs[i].width == at->width &&
                 f->runs[i].first + b * at->width == first &&
                 (f->items == 0 || b == item);
    return n;
}

static size_t count_all(const struct symmetry_factor *f, uint32_t part)
{
    size_t n = 0;

    for (size_t i = 0; i < f->n_runs; i++)
        n += f->runs[i].part == part ? f->runs[i].count : 0;
    return n;
}

/* Of what agents see with env.stack, a factor turns every observation, and actions as before. */
START_TEST(test_stacks_are_turned_alike)
{
    struct symmetry_group stacked;
    struct env_spec spec;
    const void *params;
    static struct pair p;

    open_pair(&p, &settings[_i], 0);
    ck_assert_int_eq(
        env_class_describe(p.class, &p.config, &p.arena, &params, &spec, NULL), 0);
    spec.stack = 3;
    env_symmetry(&p.config, &p.arena, &stacked);
    env_symmetry_stack(&spec, &p.arena, &stacked);
    ck_assert_uint_eq(stacked.n_factors, p.group.n_factors);
    for (size_t f = 0; f < p.group.n_factors; f++) {
        const struct symmetry_factor *was = &p.group.factors[f];
        const struct symmetry_factor *is = &stacked.factors[f];

        ck_assert_uint_eq(count_all(is, SYMMETRY_OBS), 3 * count_all(was, SYMMETRY_OBS));
        ck_assert_uint_eq(count_all(is, SYMMETRY_ACTION),
                          count_all(was, SYMMETRY_ACTION));
        for (size_t i = 0; i < was->n_runs; i++) {
            const struct symmetry_run *run = &was->runs[i];
            const uint32_t obs = (uint32_t)spec.agents[run->agent].obs_width;
            const uint32_t n = run->part == SYMMETRY_OBS ? 3 : 1;

            for (uint32_t b = 0; b < n * run->count; b++) {
                const uint32_t k = b / run->count, item = b % run->count;

                ck_assert_uint_eq(
                    count_blocks(is, run, k * obs + run->first + item * run->width, item),
                    1);
            }
        }
    }
    arena_done(&p.arena);
}
END_TEST

START_TEST(test_environments_without)
{
    static const char *const without[] = {
        "simple_crypto", "simple_formation", "foraging", "climbing",
        "none",          "command",          "two_step"};

    for (size_t i = 0; i < sizeof(without) / sizeof(without[0]); i++) {
        const struct env_config config = {.id = without[i]};
        struct arena arena = ARENA_ZERO;
        struct symmetry_group g;

        env_symmetry(&config, &arena, &g);
        ck_assert_uint_eq(g.n_factors, 0);
        arena_done(&arena);
    }
}
END_TEST

static Suite *make_suite(void)
{
    Suite *s = suite_create("symmetry");
    TCase *tc = tcase_create("worlds");

    tcase_set_timeout(tc, 60);
    tcase_add_loop_test(tc, test_each_generator, 0, SETTINGS * VARIANTS);
    tcase_add_loop_test(tc, test_the_walk_notices, 0, VARIANTS);
    tcase_add_loop_test(tc, test_stacks_are_turned_alike, 0, SETTINGS);
    tcase_add_test(tc, test_environments_without);
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(make_suite)
