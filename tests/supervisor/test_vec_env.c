/* Episodes, draws, state and errors of vec_env. */
#include "common/rng/rng.h"
#include "common/wire/crc32c.h"
#include "supervisor/env/env.h"
#include "supervisor/env/particle_world.h"
#include "supervisor/env/toy.h"
#include "tests/support/env_params.h"
#include "tests/support/test_main.h"

#include <math.h>
#include <string.h>

enum { MAX_AGENTS = 8, WIDTH = 5, N_ENVIRONMENTS = 23 };

static struct env_config config_of(const char *id)
{
    return (struct env_config){.id = id, .copies = 1, .max_steps = 25};
}

static struct vec_env *open_env(const struct env_config *config, enum env_draws draws,
                                size_t copies)
{
    struct vec_env *v;
    struct err err = {0};

    ck_assert_msg(vec_env_new(&v, config, 11, draws, copies, &err) == 0, "%s", err.msg);
    vec_env_reset(v);
    return v;
}

static void count_draw(void *ctx, struct rng_key key, uint64_t counter, uint64_t first,
                       size_t n)
{
    ++*(int *)ctx;
}

START_TEST(test_nothing_is_drawn_before_reset)
{
    struct env_config config = config_of("simple_spread");
    struct vec_env *v;
    int n_draws = 0;

    rng_set_audit(count_draw, &n_draws);
    ck_assert_int_eq(vec_env_new(&v, &config, 11, ENV_DRAWS_TRAINING, 4, NULL), 0);
    ck_assert_int_eq(n_draws, 0);
    vec_env_reset(v);
    ck_assert_int_eq(n_draws, 4);
    rng_set_audit(NULL, NULL);
    vec_env_free(v);
}
END_TEST

/* An action for agent a in copy c at step t, independent of the number of copies. */
struct actions {
    float values[MAX_AGENTS][64 * WIDTH];
    const float *rows[MAX_AGENTS];
};

static void fill_actions(struct actions *x, const struct vec_env *v, size_t first_copy,
                         uint64_t t)
{
    const struct env_spec *spec = vec_env_spec(v);

    for (size_t a = 0; a < spec->n_agents; a++) {
        size_t width = (size_t)spec->agents[a].space.width;

        memset(x->values[a], 0, sizeof(x->values[a]));
        x->rows[a] = x->values[a];
        for (size_t c = 0; c < vec_env_copies(v); c++)
            x->values[a][c * width + (7 * (first_copy + c) + 3 * a + t) % width] = 1.0f;
    }
}

static struct env_step step_env(struct vec_env *v, size_t first_copy, uint64_t t)
{
    struct actions x;
    struct env_step s;
    struct err err = {0};

    fill_actions(&x, v, first_copy, t);
    ck_assert_msg(vec_env_step(v, x.rows, &s, &err) == 0, "%s", err.msg);
    return s;
}

START_TEST(test_truncation)
{
    struct env_config config = config_of("simple_spread");
    struct vec_env *v;
    float before[18];

    config.max_steps = 3;
    v = open_env(&config, ENV_DRAWS_TRAINING, 2);
    for (uint64_t t = 0; t < 7; t++) {
        struct env_step s = step_env(v, 0, t);

        for (size_t c = 0; c < 2; c++) {
            int last = t % 3 == 2;

            ck_assert_int_eq(s.truncated[c], last);
            ck_assert_int_eq(s.ended[c], last);
            ck_assert_int_eq(s.terminated[1][c], 0);
            ck_assert_int_eq(s.alive[1][c], 1);
            ck_assert_int_eq(s.first[c], t % 3 == 0);
            ck_assert_uint_eq(s.episode_length[c], t % 3 + 1);
            ck_assert_uint_eq(vec_env_episode(v, c), (t + 1) / 3);
            ck_assert_uint_eq(vec_env_time(v, c), (t + 1) % 3);
            /* next_obs belongs to the old episode, obs to the new one */
            ck_assert_int_eq(memcmp(s.next_obs[0] + c * 18, vec_env_obs(v, 0) + c * 18,
                                    sizeof(before)) != 0,
                             last);
        }
    }
    vec_env_free(v);
}
END_TEST

/* obs of agent 0 equals its next_obs, except in the copies in `fresh`. */
static void expect_obs(const struct vec_env *v, const struct env_step *s, unsigned fresh)
{
    for (size_t c = 0; c < vec_env_copies(v); c++) {
        int same = memcmp(s->next_obs[0] + c * 18, vec_env_obs(v, 0) + c * 18,
                          18 * sizeof(float)) == 0;

        ck_assert_int_eq(same, (fresh >> c & 1) == 0);
    }
}

/* Episodes that begin after a step do not change the step's own observations. */
START_TEST(test_begun_copies_keep_next_obs)
{
    struct env_config config = config_of("simple_spread");
    float next[4 * 18];
    struct env_step s;
    struct vec_env *v;
    char *state;

    config.max_steps = 5;
    v = open_env(&config, ENV_DRAWS_TRAINING, 4);
    state = malloc(vec_env_state_bytes(v));
    vec_env_state_save(v, state);
    (void)step_env(v, 0, 0);
    s = step_env(v, 0, 1);
    expect_obs(v, &s, 0x0);
    memcpy(next, s.next_obs[0], sizeof(next));
    vec_env_reset_copy(v, 1, 9);
    ck_assert_mem_eq(s.next_obs[0], next, sizeof(next));
    expect_obs(v, &s, 0x2);
    for (uint64_t t = 2; t < 4; t++) {
        s = step_env(v, 0, t);
        expect_obs(v, &s, 0x0);
    }
    s = step_env(v, 0, 4); /* limit of all copies but copy 1 */
    expect_obs(v, &s, 0xd);
    s = step_env(v, 0, 5);
    expect_obs(v, &s, 0x0);
    memcpy(next, s.next_obs[0], sizeof(next));
    ck_assert_int_eq(vec_env_state_load(v, state, vec_env_state_bytes(v), NULL), 0);
    ck_assert_mem_eq(s.next_obs[0], next, sizeof(next));
    expect_obs(v, &s, 0xf);
    s = step_env(v, 0, 6);
    memcpy(next, s.next_obs[0], sizeof(next));
    vec_env_reset(v);
    ck_assert_mem_eq(s.next_obs[0], next, sizeof(next));
    expect_obs(v, &s, 0xf);
    free(state);
    vec_env_free(v);
}
END_TEST

START_TEST(test_reset_draws)
{
    struct env_config config = config_of("simple_spread");
    struct vec_env *v;
    double u[12];

    config.max_steps = 1;
    v = open_env(&config, ENV_DRAWS_TRAINING, 3);
    (void)step_env(v, 0, 0);
    rng_uniform_f64(rng_key_make(11, "env/2", "reset"), 1, 0, u, 12);
    for (size_t i = 0; i < 2; i++) /* own position: after the velocity */
        ck_assert_float_eq(vec_env_obs(v, 1)[2 * 18 + 2 + i],
                           (float)(-1.0 + 2.0 * u[2 + i]));
    vec_env_free(v);
}
END_TEST

START_TEST(test_two_step_marker)
{
    struct env_config config = config_of("two_step");
    struct vec_env *v = open_env(&config, ENV_DRAWS_TRAINING, 3);

    for (uint64_t t = 0; t < 10; t++) {
        float want = t % 2 == 0 ? TOY_MARKER : 1.0f;

        ck_assert_float_eq(vec_env_obs(v, 0)[1], want);
        struct env_step s = step_env(v, 0, t);

        ck_assert_float_eq(s.next_obs[0][1], t % 2 == 0 ? 1.0f : 2.0f);
        ck_assert_int_eq(s.terminated[0][1], t % 2 == 1);
        ck_assert_int_eq(s.ended[1], t % 2 == 1);
        ck_assert_int_eq(s.truncated[1], 0);
        ck_assert_double_eq(s.episode_return[0][1], (double)(t % 2 + 1));
    }
    vec_env_free(v);
}
END_TEST

START_TEST(test_terminated_is_not_truncated)
{
    struct env_config config = config_of("one_step");
    struct vec_env *v;
    struct env_step s;

    config.max_steps = 1; /* limit and termination in one step count as termination */
    v = open_env(&config, ENV_DRAWS_TRAINING, 1);
    s = step_env(v, 0, 0);
    ck_assert_int_eq(s.terminated[0][0], 1);
    ck_assert_int_eq(s.truncated[0], 0);
    vec_env_free(v);
    config.id = "constant_reward";
    v = open_env(&config, ENV_DRAWS_TRAINING, 1);
    s = step_env(v, 0, 0);
    ck_assert_int_eq(s.terminated[0][0], 0);
    ck_assert_int_eq(s.truncated[0], 1);
    vec_env_free(v);
}
END_TEST

/* The value of a state under TD(0): bootstrapping with 1 - terminated gives
 * r / (1 - discount) if a limit cuts the episode, r if it is terminated. */
static double td_value(const char *id)
{
    struct env_config config = config_of(id);
    struct vec_env *v;
    double value = 0.0;

    config.max_steps = 5;
    v = open_env(&config, ENV_DRAWS_TRAINING, 1);
    for (uint64_t t = 0; t < 2000; t++) {
        struct env_step s = step_env(v, 0, t);
        double target = s.reward[0][0] + 0.9 * (1 - s.terminated[0][0]) * value;

        value += 0.1 * (target - value);
    }
    vec_env_free(v);
    return value;
}

START_TEST(test_value_converges)
{
    ck_assert_double_eq_tol(td_value("constant_reward"), 10.0, 1e-6);
    ck_assert_double_eq_tol(td_value("one_step"), 1.0, 1e-6);
}
END_TEST

START_TEST(test_copies_do_not_matter)
{
    struct env_config config = config_of("simple_spread");
    struct vec_env *many, *one;

    config.actions = _i & 1 ? ENV_ACTIONS_CONTINUOUS : ENV_ACTIONS_DISCRETE;
    config.rules = _i & 2 ? ENV_RULES_OPENAI : ENV_RULES_MPE2;
    many = open_env(&config, ENV_DRAWS_EVALUATION, 64);
    one = open_env(&config, ENV_DRAWS_EVALUATION, 1);
    for (size_t c = 0; c < 64; c += 9) {
        vec_env_reset(many);
        vec_env_reset_copy(one, 0, c);
        for (uint64_t t = 0; t < 25; t++) {
            struct env_step m = step_env(many, 0, t), o = step_env(one, c, t);

            for (size_t a = 0; a < 3; a++) {
                ck_assert_mem_eq(m.next_obs[a] + c * 18, o.next_obs[a],
                                 18 * sizeof(float));
                ck_assert_mem_eq(&m.reward[a][c], o.reward[a], sizeof(double));
            }
        }
    }
    vec_env_free(one);
    vec_env_free(many);
}
END_TEST

START_TEST(test_evaluation_waits)
{
    struct env_config config = config_of("simple_spread");
    struct vec_env *v;
    struct env_step s;

    config.max_steps = 2;
    v = open_env(&config, ENV_DRAWS_EVALUATION, 2);
    ck_assert_uint_eq(vec_env_episode(v, 1), 1);
    (void)step_env(v, 0, 0);
    s = step_env(v, 0, 1);
    ck_assert_int_eq(s.ended[0] && s.ended[1], 1);
    vec_env_reset_copy(v, 1, 9);
    s = step_env(v, 0, 2);
    ck_assert_int_eq(s.alive[0][0], 0);
    ck_assert_int_eq(s.alive[0][1], 1);
    ck_assert_int_eq(s.ended[0] || s.truncated[0] || s.first[0], 0);
    ck_assert_int_eq(s.first[1], 1);
    ck_assert_double_eq(s.reward[0][0], 0.0);
    ck_assert_uint_eq(s.episode_length[0], 2);
    ck_assert_uint_eq(vec_env_episode(v, 1), 9);
    vec_env_free(v);
}
END_TEST

START_TEST(test_sharing)
{
    struct env_config config = config_of("simple_spread");
    struct vec_env *v[3];

    for (int i = 0; i < 3; i++) {
        config.reward = (enum env_reward)i;
        v[i] = open_env(&config, ENV_DRAWS_TRAINING, 4);
    }
    for (uint64_t t = 0; t < 30; t++) {
        struct env_step own = step_env(v[ENV_REWARD_OWN], 0, t);
        struct env_step sum = step_env(v[ENV_REWARD_TEAM_SUM], 0, t);
        struct env_step mean = step_env(v[ENV_REWARD_TEAM_MEAN], 0, t);
        double want = own.reward[0][3] + own.reward[1][3] + own.reward[2][3];

        for (size_t a = 0; a < 3; a++) {
            ck_assert_double_eq(sum.reward[a][3], want);
            ck_assert_double_eq(mean.reward[a][3], want / 3.0);
            ck_assert_double_eq(sum.episode_return[a][3], own.episode_return[a][3]);
        }
    }
    for (int i = 0; i < 3; i++)
        vec_env_free(v[i]);
}
END_TEST

START_TEST(test_state_is_exact)
{
    struct env_config config = config_of("simple_spread");
    struct vec_env *a = open_env(&config, ENV_DRAWS_TRAINING, 5);
    struct vec_env *b = open_env(&config, ENV_DRAWS_TRAINING, 5);
    size_t n = vec_env_state_bytes(a);
    char *state = malloc(n), *again = malloc(n);
    struct err err = {0};

    for (uint64_t t = 0; t < 37; t++)
        (void)step_env(a, 0, t);
    vec_env_state_save(a, state);
    ck_assert_int_eq(vec_env_state_load(b, state, n, &err), 0);
    vec_env_state_save(b, again);
    ck_assert_mem_eq(state, again, n);
    for (size_t i = 0; i < 3; i++)
        ck_assert_mem_eq(vec_env_obs(a, i), vec_env_obs(b, i), 5 * 18 * sizeof(float));
    for (uint64_t t = 37; t < 60; t++) {
        struct env_step x = step_env(a, 0, t), y = step_env(b, 0, t);

        ck_assert_mem_eq(x.next_obs[2], y.next_obs[2], 5 * 18 * sizeof(float));
        ck_assert_mem_eq(x.episode_return[2], y.episode_return[2], 5 * sizeof(double));
    }
    free(again);
    free(state);
    vec_env_free(b);
    vec_env_free(a);
}
END_TEST

enum { STACK = 3 };

/* Compares what agents 0 to 2 see with the observations so far, past[age][agent]. */
static void expect_seen(const struct vec_env *v, float past[STACK][3][5 * 18])
{
    for (size_t a = 0; a < 3; a++) {
        const float *seen = vec_env_seen(v, a);

        for (size_t c = 0; c < vec_env_copies(v); c++)
            for (size_t age = 0; age < STACK; age++) {
                const uint64_t time = vec_env_time(v, c);

                ck_assert_mem_eq(seen + (c * STACK + STACK - 1 - age) * 18,
                                 past[age < time ? age : time][a] + c * 18,
                                 18 * sizeof(float));
            }
    }
}

/* The last observations of the episode, the first one in place of those before it; also of a
 * loaded state. */
START_TEST(test_stacks)
{
    struct env_config config = config_of("simple_spread");
    static float past[STACK][3][5 * 18];
    struct vec_env *v, *again;
    char *state;
    size_t n;
    struct err err = {0};

    config.stack = STACK;
    config.max_steps = 5;
    v = open_env(&config, ENV_DRAWS_TRAINING, 5);
    again = open_env(&config, ENV_DRAWS_TRAINING, 5);
    n = vec_env_state_bytes(v);
    state = malloc(n);
    for (uint64_t t = 0; t < 13; t++) {
        memmove(past[1], past[0], (STACK - 1) * sizeof(past[0]));
        for (size_t a = 0; a < 3; a++)
            memcpy(past[0][a], vec_env_obs(v, a), sizeof(past[0][a]));
        expect_seen(v, past);
        vec_env_state_save(v, state);
        ck_assert_int_eq(vec_env_state_load(again, state, n, &err), 0);
        expect_seen(again, past);
        (void)step_env(v, 0, t);
    }
    config.stack = STACK + 1;
    vec_env_free(again);
    again = open_env(&config, ENV_DRAWS_TRAINING, 5);
    ck_assert_int_eq(vec_env_state_load(again, state, n, &err), ERR_SHAPE);
    ck_assert_ptr_nonnull(strstr(err.msg, "another env.stack than 4"));
    config.stack = 1;
    vec_env_free(again);
    again = open_env(&config, ENV_DRAWS_TRAINING, 5);
    ck_assert_ptr_eq(vec_env_seen(again, 1), vec_env_obs(again, 1));
    ck_assert_int_eq(vec_env_state_load(again, state, n, &err), ERR_SHAPE);
    free(state);
    vec_env_free(again);
    vec_env_free(v);
}
END_TEST

/* Also the first observations of episodes, and those of a loaded state. Rewards and returns are
 * the environment's own. */
START_TEST(test_clipping)
{
    struct env_config config = config_of("two_step");
    struct vec_env *v, *again;
    char *state;
    struct err err = {0};

    config.clip_observations = 1.5;
    config.clip_rewards = 0.5;
    v = open_env(&config, ENV_DRAWS_TRAINING, 1);
    again = open_env(&config, ENV_DRAWS_TRAINING, 1);
    state = malloc(vec_env_state_bytes(v));
    for (uint64_t t = 0; t < 4; t++) {
        struct env_step s;

        ck_assert(vec_env_obs(v, 0)[0] == (t % 2 == 0 ? -1.5f : 1.0f));
        vec_env_state_save(v, state);
        ck_assert_int_eq(vec_env_state_load(again, state, vec_env_state_bytes(v), &err),
                         0);
        ck_assert(vec_env_obs(again, 0)[0] == vec_env_obs(v, 0)[0]);
        s = step_env(v, 0, t);
        ck_assert(s.next_obs[0][0] == (t % 2 == 0 ? 1.0f : 1.5f));
        ck_assert(s.reward[0][0] == 1.0 && s.episode_return[0][0] == (double)(t % 2 + 1));
    }
    free(state);
    vec_env_free(again);
    vec_env_free(v);
}
END_TEST

START_TEST(test_state_refusals)
{
    struct env_config config = config_of("simple_spread");
    struct vec_env *v = open_env(&config, ENV_DRAWS_TRAINING, 2);
    struct vec_env *wide = open_env(&config, ENV_DRAWS_TRAINING, 3);
    size_t n = vec_env_state_bytes(v);
    char *state = malloc(n);
    struct err err = {0};

    vec_env_state_save(v, state);
    ck_assert_int_eq(vec_env_state_load(v, state, n - 1, &err), ERR_CORRUPT);
    ck_assert_int_eq(vec_env_state_load(v, state, 7, &err), ERR_CORRUPT);
    ck_assert_int_eq(vec_env_state_load(wide, state, n, &err), ERR_SHAPE);
    state[4]++;
    ck_assert_int_eq(vec_env_state_load(v, state, n, &err), ERR_UNSUPPORTED);
    state[0]++;
    ck_assert_int_eq(vec_env_state_load(v, state, n, &err), ERR_CORRUPT);
    free(state);
    vec_env_free(wide);
    vec_env_free(v);
}
END_TEST

START_TEST(test_nonfinite_action)
{
    struct env_config config = config_of("simple_spread");
    struct vec_env *v = open_env(&config, ENV_DRAWS_TRAINING, 4);
    const float bad[] = {NAN, INFINITY, -INFINITY};
    struct actions x;
    struct env_step s;
    struct err err = {0};

    for (size_t i = 0; i < 3; i++) {
        fill_actions(&x, v, 0, 0);
        x.values[1][2 * WIDTH + 3] = bad[i];
        ck_assert_int_eq(vec_env_step(v, x.rows, &s, &err), ERR_NONFINITE);
        ck_assert_ptr_nonnull(strstr(err.msg, "agent_1"));
        ck_assert_ptr_nonnull(strstr(err.msg, "copy 2"));
    }
    ck_assert_uint_eq(vec_env_time(v, 0), 0);
    vec_env_free(v);
}
END_TEST

START_TEST(test_any_number_of_agents)
{
    struct env_config config = config_of("simple_spread");
    const char *const *names;
    struct err err = {0};
    struct env_params params;
    char count[16];

    (void)snprintf(count, sizeof(count), "%d", _i);
    config.params = env_params(&params, "agents", count);
    ck_assert_int_eq(env_agent_names(NULL, &config, &names, &err), _i);
    for (int a = 0; a < _i; a++) {
        char want[32];

        (void)snprintf(want, sizeof(want), "agent_%d", a);
        ck_assert_str_eq(names[a], want);
    }
    struct vec_env *v = open_env(&config, ENV_DRAWS_TRAINING, 2);

    ck_assert_int_eq(vec_env_spec(v)->agents[0].obs_width, 4 + 2 * _i + 4 * (_i - 1));
    for (uint64_t t = 0; t < 26; t++)
        (void)step_env(v, 0, t);
    vec_env_free(v);
}
END_TEST

/* The id of entry i of the registry. */
static const char *world_at(int i)
{
    const struct env_info *info = env_info_at((size_t)i);

    ck_assert_ptr_nonnull(info);
    return info->id;
}

/* One check for all numbers, because there are millions. */
static void expect_finite(const struct vec_env *v, const struct env_step *s)
{
    const struct env_spec *spec = vec_env_spec(v);

    for (size_t a = 0; a < spec->n_agents; a++) {
        size_t n = vec_env_copies(v), width = (size_t)spec->agents[a].obs_width;
        double sum = 0; /* a NaN makes the sum NaN */

        for (size_t i = 0; i < n * width; i++)
            sum += 0 * ((double)s->next_obs[a][i] + (double)vec_env_obs(v, a)[i]);
        for (size_t c = 0; c < n; c++)
            sum += 0 * s->reward[a][c];
        /* an assertion of Check takes long even if it holds */
        if (sum != 0)
            ck_abort_msg("%s, %s: not finite", spec->id, spec->agents[a].name);
    }
}

/* Random actions for all agents, keyed by the time; U_a differs. */
static void step_at_random(struct vec_env *v, uint64_t t, struct env_step *ret)
{
    const struct env_spec *spec = vec_env_spec(v);
    struct rng_key key = rng_key_make(3, "test", "act");
    const float *rows[16];
    float values[16][4 * 16];

    for (size_t a = 0; a < spec->n_agents; a++) {
        size_t n = vec_env_copies(v) * (size_t)spec->agents[a].space.width;

        if (n > sizeof(values[a]) / sizeof(float))
            ck_abort_msg("%s: %zu actions", spec->agents[a].name, n);
        rng_uniform_f32(key, t, a * 64, values[a], n);
        rows[a] = values[a];
    }
    ck_assert_int_eq(vec_env_step(v, rows, ret, NULL), 0);
}

/* Extends a hash by everything that a step returns. */
static uint32_t add_step(uint32_t sum, const struct vec_env *v, const struct env_step *s)
{
    const struct env_spec *spec = vec_env_spec(v);
    const size_t n = vec_env_copies(v);

    for (size_t a = 0; a < spec->n_agents; a++) {
        size_t bytes = n * (size_t)spec->agents[a].obs_width * sizeof(float);

        sum = crc32c_extend(sum, s->next_obs[a], bytes);
        sum = crc32c_extend(sum, vec_env_obs(v, a), bytes);
        sum = crc32c_extend(sum, s->reward[a], n * sizeof(double));
        sum = crc32c_extend(sum, s->terminated[a], n);
    }
    return crc32c_extend(sum, s->truncated, n);
}

/* Observations with known bounds. */
static const struct {
    const char *id;
    float low, high;
} ranges[] = {
    {"simple_crypto", 0, 1},     {"climbing", 1, 1},  {"penalty", 1, 1},
    {"prisoners_dilemma", 1, 1}, {"stag_hunt", 1, 1}, {"matrix_game", 1, 1},
    {"foraging", -1, 7},
};

static void expect_in_range(const struct vec_env *v, const struct env_step *s)
{
    const struct env_spec *spec = vec_env_spec(v);
    size_t k = 0;

    while (k < sizeof(ranges) / sizeof(ranges[0]) && strcmp(ranges[k].id, spec->id) != 0)
        k++;
    if (k == sizeof(ranges) / sizeof(ranges[0]))
        return;
    for (size_t a = 0; a < spec->n_agents; a++) {
        size_t n = vec_env_copies(v) * (size_t)spec->agents[a].obs_width;
        int out = 0;

        for (size_t i = 0; i < n; i++)
            out |=
                s->next_obs[a][i] < ranges[k].low || s->next_obs[a][i] > ranges[k].high;
        if (out)
            ck_abort_msg("%s, %s: out of range", spec->id, spec->agents[a].name);
    }
}

/* Ten thousand joint steps of every environment, with both sets of rules and both kinds
 * of actions: all values are finite and within their bounds, and a second time they are
 * the same. */
START_TEST(test_long_random_play)
{
    struct env_config config = config_of(world_at(_i / 4));
    const struct env_class *class = env_class_find(config.id);
    const struct particle_scenario *particles =
        class->ops == &particle_ops ? class->scenario : NULL;
    uint32_t sum[2] = {0};
    void *state[2];
    size_t bytes = 0;

    config.actions = _i % 2 != 0 ? ENV_ACTIONS_CONTINUOUS : ENV_ACTIONS_DISCRETE;
    config.rules = _i / 2 % 2 != 0 ? ENV_RULES_OPENAI : ENV_RULES_MPE2;
    if (particles != NULL ? particles->mpe2_only && config.rules != ENV_RULES_MPE2
                          : _i % 4 != 0) {
        struct vec_env *v;

        ck_assert_int_eq(vec_env_new(&v, &config, 11, ENV_DRAWS_TRAINING, 4, NULL),
                         ERR_UNSUPPORTED);
        return;
    }
    for (int k = 0; k < 2; k++) {
        struct vec_env *v = open_env(&config, ENV_DRAWS_TRAINING, 4);

        for (uint64_t t = 0; t < 2500; t++) {
            struct env_step s;

            step_at_random(v, t, &s);
            expect_finite(v, &s);
            expect_in_range(v, &s);
            sum[k] = add_step(sum[k], v, &s);
        }
        bytes = vec_env_state_bytes(v);
        state[k] = malloc(bytes);
        vec_env_state_save(v, state[k]);
        vec_env_free(v);
    }
    ck_assert_uint_eq(sum[0], sum[1]);
    ck_assert_int_eq(memcmp(state[0], state[1], bytes), 0);
    free(state[0]);
    free(state[1]);
}
END_TEST

/* Lets a single agent go to its landmark; returns the step in which the first episode
 * ends. */
static struct env_step go_there(struct vec_env *v)
{
    struct env_step s;

    do {
        const float *rel = vec_env_obs(v, 0) + 4;
        const int along_y = fabsf(rel[1]) > fabsf(rel[0]);
        float action[WIDTH] = {0};
        const float *rows[] = {action};

        action[1 + 2 * along_y + (rel[along_y] > 0)] = 1;
        ck_assert_int_eq(vec_env_step(v, rows, &s, NULL), 0);
    } while (!s.ended[0]);
    return s;
}

START_TEST(test_success_ends_unless_the_limit_does)
{
    static struct yaml_node one = {.key = "agents", .text = "1"},
                            on = {.key = "terminate_on_success", .text = "true"};
    static struct yaml_node *both[] = {&one, &on};
    static const struct yaml_node params = {.kind = YAML_MAP, .n = 2, .child = both};
    struct env_config config = config_of("simple_spread");
    struct vec_env *v;
    struct env_step s;
    uint64_t length;

    config.params = &params;
    config.max_steps = 1000;
    v = open_env(&config, ENV_DRAWS_TRAINING, 1);
    s = go_there(v);
    length = s.episode_length[0];
    ck_assert_uint_lt(length, 100);
    ck_assert(s.terminated[0][0] && !s.truncated[0]);
    ck_assert_double_gt(s.reward[0][0], -0.1);
    vec_env_free(v);

    config.max_steps = (int64_t)length;
    v = open_env(&config, ENV_DRAWS_TRAINING, 1);
    s = go_there(v);
    ck_assert_uint_eq(s.episode_length[0], length);
    ck_assert(!s.terminated[0][0] && s.truncated[0]);
    vec_env_free(v);
}
END_TEST

START_TEST(test_params_are_the_environments_own)
{
    struct env_config config = config_of("simple_tag");
    const char *const *names;
    struct env_params params;
    struct err err = {0};

    config.params = env_params(&params, "adversaries", "2");
    ck_assert_int_eq(env_agent_names(NULL, &config, &names, &err), 3);
    ck_assert_str_eq(names[1], "adversary_1");
    ck_assert_str_eq(names[2], "agent_0");
    config.params = env_params(&params, "adversary", "2");
    ck_assert_int_eq(env_agent_names(NULL, &config, &names, &err), ERR_CONFIG);
    ck_assert_ptr_nonnull(strstr(err.msg, "env.params.adversary"));
    ck_assert_ptr_nonnull(strstr(err.msg, "did you mean 'adversaries'?"));
    config.params = env_params(&params, "good", "0");
    ck_assert_int_eq(env_agent_names(NULL, &config, &names, &err), ERR_CONFIG);
    config.id = "simple_crypto"; /* has no params */
    ck_assert_int_eq(env_agent_names(NULL, &config, &names, &err), ERR_CONFIG);
}
END_TEST

START_TEST(test_impossible_configurations)
{
    struct env_config config = config_of("simple_sprout");
    struct env_params params;
    const char *const *names;
    struct vec_env *v;
    struct err err = {0};

    ck_assert_int_eq(env_agent_names(NULL, &config, &names, &err), ERR_NOT_FOUND);
    ck_assert_int_eq(vec_env_new(&v, &config, 0, ENV_DRAWS_TRAINING, 1, &err),
                     ERR_NOT_FOUND);
    config.id = "simple_spread";
    config.params = env_params(&params, "agents", "1001");
    ck_assert_int_eq(env_agent_names(NULL, &config, &names, &err), ERR_CONFIG);
    ck_assert_int_eq(vec_env_new(&v, &config, 0, ENV_DRAWS_TRAINING, 1, &err),
                     ERR_CONFIG);
    config.params = env_params(&params, "agents", "1000");
    ck_assert_int_eq(vec_env_new(&v, &config, 0, ENV_DRAWS_TRAINING, 65536, &err),
                     ERR_LIMIT);
    config.params = NULL;
    ck_assert_int_eq(vec_env_new(&v, &config, 0, ENV_DRAWS_TRAINING, 65537, &err),
                     ERR_CONFIG);
}
END_TEST

START_TEST(test_registry)
{
    size_t n = 0;

    for (; env_info_at(n) != NULL; n++)
        ck_assert_ptr_eq(env_info_find(env_info_at(n)->id), env_info_at(n));
    ck_assert_uint_eq(n, N_ENVIRONMENTS);
    ck_assert_ptr_null(env_info_find("none"));
}
END_TEST

static Suite *make_suite(void)
{
    Suite *s = suite_create("vec_env");
    TCase *tc = tcase_create("vec_env");

    tcase_add_test(tc, test_nothing_is_drawn_before_reset);
    tcase_add_test(tc, test_truncation);
    tcase_add_test(tc, test_begun_copies_keep_next_obs);
    tcase_add_test(tc, test_reset_draws);
    tcase_add_test(tc, test_two_step_marker);
    tcase_add_test(tc, test_terminated_is_not_truncated);
    tcase_add_test(tc, test_value_converges);
    tcase_add_loop_test(tc, test_copies_do_not_matter, 0, 4);
    tcase_add_test(tc, test_evaluation_waits);
    tcase_add_test(tc, test_sharing);
    tcase_add_test(tc, test_state_is_exact);
    tcase_add_test(tc, test_stacks);
    tcase_add_test(tc, test_clipping);
    tcase_add_test(tc, test_state_refusals);
    tcase_add_test(tc, test_nonfinite_action);
    tcase_add_loop_test(tc, test_any_number_of_agents, 1, MAX_AGENTS + 1);
    tcase_add_loop_test(tc, test_long_random_play, 0, 4 * N_ENVIRONMENTS);
    tcase_add_test(tc, test_success_ends_unless_the_limit_does);
    tcase_add_test(tc, test_params_are_the_environments_own);
    tcase_add_test(tc, test_impossible_configurations);
    tcase_add_test(tc, test_registry);
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(make_suite)
