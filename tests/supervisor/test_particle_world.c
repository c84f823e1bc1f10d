/* The physics of the particle worlds, compared with recorded episodes of the reference
 * and with values computed by hand. */
#include "supervisor/env/particle_world.h"
#include "tests/support/env_params.h"
#include "tests/support/test_main.h"

#include <math.h>
#include <string.h>

enum { RECORDS = 4 }; /* episodes per world and kind of actions, in each file */
enum {
    MAX_AGENTS = 8,
    MAX_ENTITIES = 16,
    MAX_WIDTH = 16,
    MAX_OBS = 96,
    WIDTH = 5,
    N_RECORDED = 9,
    N_SCENARIOS = 12
};

/* The worlds with recorded episodes come first. */
static const char *const scenarios[N_SCENARIOS] = {
    "simple",        "simple_adversary", "simple_crypto",
    "simple_push",   "simple_reference", "simple_speaker_listener",
    "simple_spread", "simple_tag",       "simple_world_comm",
    "simple_line",   "simple_formation", "collect_treasure"};

static struct env_config config_of(const char *id)
{
    return (struct env_config){.id = id, .copies = 1, .max_steps = 25};
}

/* One copy, with the default parameters. */
static struct particle_world *open_world(const struct env_config *config,
                                         struct arena *arena)
{
    const struct env_class *class = env_class_find(config->id);
    struct env_spec spec;
    const void *params;

    ck_assert_int_eq(env_class_describe(class, config, arena, &params, &spec, NULL), 0);
    return particle_world_new(class->scenario, config, params, 1, arena);
}

/* Recorded episodes */

static void read_row(FILE *f, double *ret, size_t n)
{
    for (size_t i = 0; i < n; i++)
        ck_assert_int_eq(fscanf(f, "%la", &ret[i]), 1);
}

static size_t read_count(FILE *f)
{
    size_t n;

    ck_assert_int_eq(fscanf(f, "%zu", &n), 1);
    return n;
}

static void expect_row(FILE *f, const double *found, size_t stride, size_t n,
                       const char *what)
{
    for (size_t i = 0; i < n; i++) {
        double want;

        ck_assert_int_eq(fscanf(f, "%la", &want), 1);
        ck_assert_msg(memcmp(&want, &found[i * stride], sizeof(want)) == 0,
                      "%s[%zu]: %a, recorded %a", what, i, found[i * stride], want);
    }
}

static void expect_observations(FILE *f, struct particle_world *w)
{
    for (size_t a = 0; a < w->n_agents; a++) {
        size_t n = read_count(f);
        double found[MAX_OBS];

        ck_assert_uint_eq(n, (size_t)w->agents[a].obs_width);
        particle_world_show(w, a, 0, 1, found);
        expect_row(f, found, 1, n, "observation");
    }
}

/* Converts a recorded action to one-hot heads. A discrete one is a number, move + 5 *
 * word (for an agent that cannot move, the word), or under the openai rules a vector. */
static void read_action(FILE *f, struct particle_world *w, size_t agent)
{
    const struct particle_entity *e = &w->entities[agent];
    const size_t width = (size_t)w->agents[agent].space.width;
    double action[MAX_WIDTH] = {0};
    size_t n = read_count(f);

    if (n == 1 && width != 1) {
        size_t number = read_count(f);

        if (e->movable)
            action[number % WIDTH] = 1.0;
        if (!e->silent)
            action[e->movable ? WIDTH + number / WIDTH : number] = 1.0;
    } else {
        ck_assert_uint_eq(n, width);
        read_row(f, action, n);
    }
    particle_world_act(w, agent, action);
}

static void expect_state(FILE *f, const struct particle_world *w)
{
    size_t n_landmark = 2 * w->n_landmarks;
    double still[2 * MAX_ENTITIES] = {0};

    expect_row(f, w->pos, 1, 2 * w->n_agents + n_landmark, "position");
    expect_row(f, w->vel, 1, 2 * w->n_agents, "velocity");
    expect_row(f, still, 1, n_landmark, "landmark velocity");
}

static void read_goals(FILE *f, struct particle_world *w)
{
    ck_assert_uint_eq(read_count(f), w->n_goals);
    for (size_t i = 0; i < w->n_goals; i++)
        particle_goal(w, i)[0] = (double)read_count(f);
}

static void replay_record(FILE *f, const char *id, enum env_rules rules, int mode)
{
    struct env_config config = config_of(id);
    struct particle_world *w;
    struct arena arena = ARENA_ZERO;
    double rewards[MAX_AGENTS], *reward[MAX_AGENTS], skip[2 * MAX_ENTITIES];

    config.rules = rules;
    config.actions = mode ? ENV_ACTIONS_CONTINUOUS : ENV_ACTIONS_DISCRETE;
    w = open_world(&config, &arena);
    for (size_t a = 0; a < w->n_agents; a++)
        reward[a] = &rewards[a];
    read_row(f, w->pos, 2 * (w->n_agents + w->n_landmarks));
    read_row(f, w->vel, 2 * w->n_agents);
    read_row(f, skip, 2 * w->n_landmarks);
    read_goals(f, w);
    expect_observations(f, w);
    for (size_t left = read_count(f); left != 0; left--) {
        for (size_t a = 0; a < w->n_agents; a++)
            read_action(f, w, a);
        particle_world_advance(w);
        expect_state(f, w);
        expect_observations(f, w);
        w->scenario->reward(w, reward);
        expect_row(f, rewards, 1, w->n_agents, "reward");
    }
    arena_done(&arena);
}

static void replay_file(const char *name, enum env_rules rules, const char *id)
{
    const char *dir = test_shared_dir();
    char path[512], line[32768], want[64], found[64];
    size_t seen[2] = {0};
    int mode;
    FILE *f;

    (void)snprintf(path, sizeof(path), "%s/data/%s", dir != NULL ? dir : "", name);
    f = dir != NULL ? fopen(path, "r") : NULL;
    if (f == NULL) {
        (void)printf("# SKIP %s: BROOD_SHARED_DIR has no data/%s\n", __func__, name);
        return;
    }
    (void)snprintf(want, sizeof(want), "%s_v", id); /* the version follows */
    while (fgets(line, sizeof(line), f) != NULL) {
        if (sscanf(line, "%63[a-z_]%*d %d", found, &mode) != 2 ||
            strcmp(found, want) != 0)
            continue;
        ck_assert(mode == 0 || mode == 1);
        seen[mode]++;
        replay_record(f, id, rules, mode);
    }
    ck_assert_uint_eq(seen[0], RECORDS);
    ck_assert_uint_eq(seen[1], RECORDS);
    (void)fclose(f);
}

START_TEST(test_records_mpe2)
{
    replay_file("mpe-vectors-v3.txt", ENV_RULES_MPE2, scenarios[_i]);
}
END_TEST

START_TEST(test_records_openai)
{
    replay_file("mpe-vectors-openai.txt", ENV_RULES_OPENAI, scenarios[_i]);
}
END_TEST

/* Values computed by hand; agents are far apart unless a test moves them. */

struct fixture {
    struct arena arena;
    struct particle_world *w;
    double rewards[3][1], *reward[3];
};

static void set_xy(double *rows, size_t i, double x, double y)
{
    rows[2 * i] = x;
    rows[2 * i + 1] = y;
}

static void place(struct fixture *f, enum env_rules rules, enum env_actions actions)
{
    struct env_config config = config_of("simple_spread");

    *f = (struct fixture){.reward = {f->rewards[0], f->rewards[1], f->rewards[2]}};
    config.rules = rules;
    config.actions = actions;
    f->w = open_world(&config, &f->arena);
    for (size_t i = 0; i < 3; i++) {
        set_xy(f->w->pos, i, 10.0 * (double)i, 0.0);
        set_xy(f->w->pos, 3 + i, 10.0 * (double)i, 1.0);
    }
}

static void act(struct fixture *f, size_t agent, const double *action)
{
    particle_world_act(f->w, agent, action);
}

START_TEST(test_integration_order)
{
    const double right_mpe2[] = {0, 0, 1, 0, 0}, right_openai[] = {0, 1, 0, 0, 0};
    struct fixture f;

    place(&f, ENV_RULES_MPE2, ENV_ACTIONS_DISCRETE);
    set_xy(f.w->vel, 0, 1.0, 0.0);
    act(&f, 0, right_mpe2);
    particle_world_advance(f.w);
    ck_assert_double_eq(f.w->pos[0], 0.1);  /* moved by the old velocity */
    ck_assert_double_eq(f.w->vel[0], 1.25); /* 0.75 + 5 * 0.1 */
    arena_done(&f.arena);

    place(&f, ENV_RULES_OPENAI, ENV_ACTIONS_DISCRETE);
    set_xy(f.w->vel, 0, 1.0, 0.0);
    act(&f, 0, right_openai);
    particle_world_advance(f.w);
    ck_assert_double_eq(f.w->vel[0], 1.25);
    ck_assert_double_eq(f.w->pos[0], 0.125); /* moved by the new velocity */
    arena_done(&f.arena);
}
END_TEST

/* Velocity after one step from rest: direction * 5 * 0.1. */
static void expect_direction(enum env_rules rules, enum env_actions actions,
                             const double *action, double x, double y)
{
    struct fixture f;

    place(&f, rules, actions);
    act(&f, 1, action);
    particle_world_advance(f.w);
    ck_assert_double_eq(f.w->vel[2], x * 5.0 * 0.1);
    ck_assert_double_eq(f.w->vel[3], y * 5.0 * 0.1);
    arena_done(&f.arena);
}

START_TEST(test_moves)
{
    const double x[] = {0, -1, 1, 0, 0}, y[] = {0, 0, 0, -1, 1};

    for (int m = 0; m < WIDTH; m++) {
        double one_hot[WIDTH] = {0};

        one_hot[m] = 1.0;
        expect_direction(ENV_RULES_MPE2, ENV_ACTIONS_DISCRETE, one_hot, x[m], y[m]);
        expect_direction(ENV_RULES_MPE2, ENV_ACTIONS_CONTINUOUS, one_hot, x[m], y[m]);
        expect_direction(ENV_RULES_OPENAI, ENV_ACTIONS_DISCRETE, one_hot, -x[m], -y[m]);
        expect_direction(ENV_RULES_OPENAI, ENV_ACTIONS_CONTINUOUS, one_hot, -x[m], -y[m]);
    }
}
END_TEST

START_TEST(test_discrete_takes_first_largest)
{
    const double tie[] = {0.1, 0.7, 0.7, 0.2, 0.0};

    expect_direction(ENV_RULES_MPE2, ENV_ACTIONS_DISCRETE, tie, -1.0, 0.0);
}
END_TEST

START_TEST(test_box_is_clipped_under_mpe2_only)
{
    const double wild[] = {9, -3, 4, 0.5, 0.25};

    expect_direction(ENV_RULES_MPE2, ENV_ACTIONS_CONTINUOUS, wild, 1.0, -0.25);
    expect_direction(ENV_RULES_OPENAI, ENV_ACTIONS_CONTINUOUS, wild, -7.0, 0.25);
}
END_TEST

START_TEST(test_box_subtracts_in_float32)
{
    const double a = (double)0.1f, b = (double)0.7f;
    const double action[] = {0, a, b, 0, 0};

    ck_assert(((double)(0.7f - 0.1f)) != b - a);
    expect_direction(ENV_RULES_MPE2, ENV_ACTIONS_CONTINUOUS, action,
                     (double)(0.7f - 0.1f), 0.0);
    expect_direction(ENV_RULES_OPENAI, ENV_ACTIONS_CONTINUOUS, action, a - b, 0.0);
}
END_TEST

START_TEST(test_contact_force)
{
    struct fixture f;
    double depth;

    /* Sizes 0.15: touching at 0.3. Overlap 0.1 pushes with 100 * (overlap + ...). */
    place(&f, ENV_RULES_MPE2, ENV_ACTIONS_DISCRETE);
    set_xy(f.w->pos, 0, 0.0, 5.0);
    set_xy(f.w->pos, 1, 0.2, 5.0);
    particle_world_advance(f.w);
    depth = 0.3 - 0.2;
    ck_assert_double_eq_tol(f.w->vel[0], -100.0 * depth * 0.1, 1e-12);
    ck_assert_double_eq(f.w->vel[2], -f.w->vel[0]);
    ck_assert_double_eq(f.w->vel[1], 0.0);
    ck_assert_double_eq(f.w->vel[4], 0.0); /* no force at all on the distant agent */
    arena_done(&f.arena);

    /* Just touching: margin * log 2. */
    place(&f, ENV_RULES_MPE2, ENV_ACTIONS_DISCRETE);
    set_xy(f.w->pos, 0, 0.0, 5.0);
    set_xy(f.w->pos, 1, 0.0, 5.3);
    particle_world_advance(f.w);
    ck_assert_double_eq_tol(f.w->vel[1], -100.0 * 0.001 * log(2.0) * 0.1, 1e-12);
    arena_done(&f.arena);

    /* the reference has no special case: the direction between agents in the same place
     * is NaN */
    place(&f, ENV_RULES_MPE2, ENV_ACTIONS_DISCRETE);
    set_xy(f.w->pos, 1, 0.0, 0.0);
    particle_world_advance(f.w);
    ck_assert(isnan(f.w->vel[0]) && isnan(f.w->vel[2]));
    arena_done(&f.arena);
}
END_TEST

START_TEST(test_rewards)
{
    struct fixture f;

    /* each landmark is at distance 1 from its agent: the team's part is -3 */
    place(&f, ENV_RULES_MPE2, ENV_ACTIONS_DISCRETE);
    f.w->scenario->reward(f.w, f.reward);
    for (size_t a = 0; a < 3; a++)
        ck_assert_double_eq(f.rewards[a][0], -1.5);
    set_xy(f.w->pos, 1, 0.0, 0.25); /* touches 0; 0.75 from landmark 0, 10 from 1 */
    f.w->scenario->reward(f.w, f.reward);
    double team = -0.75 - sqrt(10.0 * 10.0 + 0.75 * 0.75) - 1.0;
    ck_assert_double_eq_tol(f.rewards[0][0], team / 2 - 0.5, 1e-12);
    ck_assert_double_eq_tol(f.rewards[1][0], team / 2 - 0.5, 1e-12);
    ck_assert_double_eq_tol(f.rewards[2][0], team / 2, 1e-12);
    arena_done(&f.arena);

    /* openai: summed over the agents, each touching itself. */
    place(&f, ENV_RULES_OPENAI, ENV_ACTIONS_DISCRETE);
    f.w->scenario->reward(f.w, f.reward);
    ck_assert_double_eq(f.rewards[2][0], 3 * (-3.0 - 1.0));
    set_xy(f.w->pos, 1, 0.0, 0.25);
    f.w->scenario->reward(f.w, f.reward);
    for (size_t a = 0; a < 3; a++)
        ck_assert_double_eq_tol(f.rewards[a][0], 3 * team - 3 - 2, 1e-12);
    arena_done(&f.arena);
}
END_TEST

START_TEST(test_touch_is_strict)
{
    struct fixture f;

    place(&f, ENV_RULES_MPE2, ENV_ACTIONS_DISCRETE);
    f.w->scenario->reward(f.w, f.reward);
    set_xy(f.w->pos, 3, 0.0, 0.0);
    set_xy(f.w->pos, 4, 0.0, 0.3);
    set_xy(f.w->pos, 1, 0.0, 0.3); /* 0.3 < 0.15 + 0.15 does not hold */
    f.w->scenario->reward(f.w, f.reward);
    ck_assert_double_eq(f.rewards[0][0], -0.5); /* landmark 2 alone is at distance 1 */
    arena_done(&f.arena);
}
END_TEST

/* A scenario with the features that simple_spread lacks: goals, speech, acceleration, a
 * speed limit, an agent that cannot move. */

enum { SPEAKER, RUNNER };

static void tiny_build(struct particle_world *w, const void *params)
{
    w->dim_c = 3;
    w->n_goals = 2;
    particle_add_agents(
        w, "speaker", 1,
        &(struct particle_entity){.size = 0.1, .collide = 1, .obs_width = 1});
    particle_add_agents(w, "runner", 1,
                        &(struct particle_entity){.size = 0.1,
                                                  .collide = 1,
                                                  .movable = 1,
                                                  .accel = 3.0,
                                                  .max_speed = 0.25,
                                                  .obs_width = 3 + 2});
    particle_add_landmarks(w, 4, &(struct particle_entity){.size = 0.2, .collide = 1});
}

static void tiny_reset(struct particle_world *w, size_t copy, struct particle_draws *d)
{
    particle_draw_goal(w, d, copy, 0);
    particle_draw_goal(w, d, copy, 1);
    particle_draw_positions(w, d, copy, 0, 2, 1.0);
    particle_draw_positions(w, d, copy, 2, 4, 0.9);
}

static void tiny_observe(const struct particle_world *w, size_t self,
                         struct particle_obs *o)
{
    if (self == SPEAKER) {
        double *row = particle_obs_next(w, o);

        for (size_t c = 0; c < o->n; c++)
            row[c] = particle_goal(w, 0)[o->first + c];
    } else {
        particle_obs_comm(w, o, SPEAKER);
        particle_obs_rel(w, o, RUNNER, SPEAKER);
    }
}

static void tiny_reward(const struct particle_world *w, double *const *ret)
{
    particle_row_fill(w, ret[SPEAKER], 1.0);
    particle_row_fill(w, ret[RUNNER], 2.0);
}

static const struct particle_scenario tiny = {.build = tiny_build,
                                              .reset = tiny_reset,
                                              .observe = tiny_observe,
                                              .reward = tiny_reward};

static struct particle_world *open_tiny(struct arena *arena, enum env_actions actions)
{
    static const struct particle_params params = {.reference_seed = -1};
    struct env_config config = {.actions = actions};
    struct particle_world *w;

    w = particle_world_new(&tiny, &config, &params, 2, arena);
    for (size_t e = 0; e < 6; e++)
        particle_pos(w, e, 0)[0] = particle_pos(w, e, 0)[1] = 10.0 * (double)e;
    return w;
}

START_TEST(test_seam_spaces)
{
    struct arena arena = ARENA_ZERO;
    struct particle_world *w = open_tiny(&arena, ENV_ACTIONS_CONTINUOUS);
    const struct action_space *speaker = &w->agents[SPEAKER].space;
    const struct action_space *runner = &w->agents[RUNNER].space;

    ck_assert_int_eq(speaker->kind, SPACE_BOX);
    ck_assert_int_eq(speaker->n_heads, 1);
    ck_assert_int_eq(speaker->heads[0], 3);
    ck_assert_int_eq(speaker->width, 3);
    ck_assert_int_eq(runner->n_heads, 2);
    ck_assert_int_eq(runner->heads[0], 5);
    ck_assert_int_eq(runner->heads[1], 3);
    ck_assert_int_eq(runner->width, 8);
    ck_assert_str_eq(w->agents[RUNNER].name, "runner_0");
    ck_assert_str_eq(w->agents[RUNNER].team, "runner");
    arena_done(&arena);
}
END_TEST

START_TEST(test_seam_speech_and_speed)
{
    struct arena arena = ARENA_ZERO;
    struct particle_world *w = open_tiny(&arena, ENV_ACTIONS_DISCRETE);
    /* Columns are copies: copy 0 chooses the first of each; copy 1 speaks and moves. */
    const double say[][2] = {{1, 0}, {0, 0}, {0, 1}};
    const double move_say[][2] = {{1, 0}, {0, 0}, {0, 0}, {0, 0},
                                  {0, 1}, {0, 0}, {1, 0}, {0, 1}};
    double rows[5];

    particle_world_act(w, SPEAKER, say[0]);
    particle_world_act(w, RUNNER, move_say[0]);
    particle_world_advance(w);
    particle_world_show(w, RUNNER, 1, 1, rows);
    ck_assert_double_eq(rows[0] + rows[1], 0.0);
    ck_assert_double_eq(rows[2], 1.0);
    ck_assert_double_eq(rows[3], -10.0);
    ck_assert_double_eq(particle_comm(w, SPEAKER, 0)[0], 1.0);
    ck_assert_double_eq(particle_comm(w, RUNNER, 2)[1], 1.0);
    ck_assert_double_eq(particle_comm(w, RUNNER, 1)[1], 0.0);
    ck_assert_double_eq(particle_comm(w, RUNNER, 1)[0], 1.0);
    /* 3.0 * 0.1 exceeds the limit. */
    ck_assert_double_eq_tol(particle_vel(w, RUNNER, 1)[1], 0.25, 1e-15);
    ck_assert_double_eq(particle_vel(w, RUNNER, 1)[0], 0.0);
    arena_done(&arena);
}
END_TEST

START_TEST(test_seam_immovable)
{
    struct arena arena = ARENA_ZERO;
    struct particle_world *w = open_tiny(&arena, ENV_ACTIONS_DISCRETE);

    particle_pos(w, RUNNER, 0)[0] = 0.05; /* onto the speaker, to its right */
    particle_world_advance(w);
    ck_assert_double_gt(particle_vel(w, RUNNER, 0)[0], 0.0);
    ck_assert_double_eq(particle_vel(w, SPEAKER, 0)[0], 0.0);
    particle_pos(w, RUNNER, 0)[1] = 20.1; /* onto landmark 0, to its right */
    particle_world_advance(w);
    ck_assert_double_gt(particle_vel(w, RUNNER, 0)[1], 0.0);
    arena_done(&arena);
}
END_TEST

START_TEST(test_seam_draw_order)
{
    struct arena arena = ARENA_ZERO;
    struct particle_world *w = open_tiny(&arena, ENV_ACTIONS_DISCRETE);
    struct rng_key key = rng_key_make(5, "env/1", "reset");
    double u[2 + 2 * 6];

    particle_ops.reset(w, 1, &(struct env_episode){key, 7, 15});
    rng_uniform_f64(key, 7, 0, u, 14);
    for (size_t i = 0; i < 2; i++)
        ck_assert_double_eq(particle_goal(w, i)[1], floor(u[i] * 4.0));
    for (size_t i = 0; i < 12; i++) {
        double half = i < 4 ? 1.0 : 0.9;

        ck_assert_double_eq(particle_pos(w, i / 2, i % 2)[1],
                            -half + (half - -half) * u[2 + i]);
    }
    ck_assert_double_eq(particle_pos(w, 1, 0)[0], 10.0); /* copy 0 is untouched */
    arena_done(&arena);
}
END_TEST

START_TEST(test_seam_state_refuses_bad_goal)
{
    struct arena arena = ARENA_ZERO;
    struct particle_world *w = open_tiny(&arena, ENV_ACTIONS_DISCRETE);
    double *state = malloc(particle_ops.state_bytes(w));
    const double bad[] = {4.0, -1.0, 0.5, NAN};
    struct err err = {0};

    particle_ops.save(w, state);
    ck_assert_int_eq(particle_ops.load(w, state, &err), 0);
    for (size_t i = 0; i < 4; i++) {
        state[w->n_state - 1] = bad[i];
        ck_assert_int_eq(particle_ops.load(w, state, &err), ERR_CORRUPT);
    }
    free(state);
    arena_done(&arena);
}
END_TEST

/* simple_reference draws two goals, then the positions of two agents and three landmarks,
 * in NumPy: Generator(PCG64(seed)).integers(3) twice, then uniform(-1, 1). */
START_TEST(test_reference_seeds)
{
    static const struct {
        const char *seed;
        double goals[2], first_x, landmark_y;
    } cases[] = {
        {"0", {2, 1}, -0x1.d77a103be9318p-2, 0x1.65603cf43b8f0p-4},
        {"1", {1, 1}, 0x1.cd465aef054aap-1, 0x1.964580549a3f0p-4},
        {"42", {0, 2}, -0x1.f4b533cb0dc10p-4, -0x1.7ccfc7a5f274cp-1},
        {"4294967296", {1, 2}, 0x1.d4132d1fc63b0p-4, 0x1.ce47e6104f5ccp-2},
        {"123456789012", {2, 1}, -0x1.aa522fa94c7f4p-1, -0x1.186ef76ff9ac0p-5},
    };
    struct env_config config = config_of("simple_reference");

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct arena arena = ARENA_ZERO;
        struct env_params params;
        struct particle_world *w;

        config.params = env_params(&params, "reference_seed", cases[i].seed);
        w = open_world(&config, &arena);
        particle_ops.reset(w, 0, &(struct env_episode){.episode = 0});
        ck_assert_double_eq(particle_goal(w, 0)[0], cases[i].goals[0]);
        ck_assert_double_eq(particle_goal(w, 1)[0], cases[i].goals[1]);
        ck_assert_double_eq(particle_pos(w, 0, 0)[0], cases[i].first_x);
        ck_assert_double_eq(particle_pos(w, 3, 1)[0], cases[i].landmark_y);
        arena_done(&arena);
    }
}
END_TEST

/* Episode k begins with seed + k, whichever copy plays it. */
START_TEST(test_reference_seed_goes_on)
{
    struct env_config config = config_of("simple");
    struct arena arena = ARENA_ZERO;
    struct env_params params;
    struct particle_world *a, *b;

    config.params = env_params(&params, "reference_seed", "8");
    a = open_world(&config, &arena);
    config.params = env_params(&params, "reference_seed", "5");
    b = open_world(&config, &arena);
    particle_ops.reset(a, 0, &(struct env_episode){.number = 0});
    particle_ops.reset(b, 0, &(struct env_episode){.number = 3});
    ck_assert_mem_eq(a->pos, b->pos, 4 * sizeof(*a->pos));
    particle_ops.reset(b, 0, &(struct env_episode){.number = 4});
    ck_assert_mem_ne(a->pos, b->pos, 4 * sizeof(*a->pos));
    arena_done(&arena);
}
END_TEST

/* Integers use the two halves of a 64-bit number. Uniform draws in between do not affect
 * them, nor do integers below 1, which use no bits. */
START_TEST(test_pcg64_halves)
{
    struct pcg64 g;

    pcg64_init(&g, 7);
    ck_assert_uint_eq(pcg64_integer(&g, 1), 0);
    ck_assert_uint_eq(pcg64_integer(&g, 5), 4);
    ck_assert_uint_eq(pcg64_integer(&g, 1), 0);
    ck_assert_uint_eq(pcg64_integer(&g, 5), 3);
    ck_assert_uint_eq(pcg64_integer(&g, 5), 3);
    ck_assert_double_eq(pcg64_uniform(&g), 0x1.8d26acbf2815fp-1);
    ck_assert_uint_eq(pcg64_integer(&g, 1000000007), 897213807);
    ck_assert_uint_eq(pcg64_integer(&g, 1000000007), 833651027);
}
END_TEST

/* 1 if a world with terminate_on_success is over when its entities are at these
 * places. */
static int is_over(const char *id, const char *on, const double (*xy)[2])
{
    struct env_config config = config_of(id);
    struct arena arena = ARENA_ZERO;
    struct env_params params;
    struct particle_world *w;
    uint8_t over;

    config.params = env_params(&params, "terminate_on_success", on);
    w = open_world(&config, &arena);
    for (size_t i = 0; i < particle_n_entities(w); i++)
        set_xy(w->pos, i, xy[i][0], xy[i][1]);
    w->scenario->succeed(w, &over);
    arena_done(&arena);
    return over;
}

/* simple_spread: an agent is nearer than 0.1 to each landmark. simple_tag: hunter and
 * prey touch, that is, their centres are nearer than 0.125. */
START_TEST(test_success)
{
    double spread[6][2] = {{2, 0}, {0, 0.0625}, {1, 0}, {0, 0}, {1, 0}, {2, 0.0625}};
    double tag[6][2] = {{3, 0}, {3, 1}, {0.0625, 0}, {0, 0}, {5, 0}, {6, 0}};

    ck_assert_int_eq(is_over("simple_spread", "true", spread), 1);
    ck_assert_int_eq(is_over("simple_spread", "false", spread), 0);
    spread[1][1] = 0.1;
    ck_assert_int_eq(is_over("simple_spread", "true", spread), 0);
    ck_assert_int_eq(is_over("simple_tag", "true", tag), 1);
    ck_assert_int_eq(is_over("simple_tag", "false", tag), 0);
    tag[2][0] = 0.125;
    ck_assert_int_eq(is_over("simple_tag", "true", tag), 0);
}
END_TEST

/* The loops of every instruction set give the same bits as the simplest ones. */

enum { LOOP_COPIES = 75, LOOP_STEPS = 30, LOOP_CASES = N_SCENARIOS * 4 };

struct loop_case {
    struct env_config config;
    struct arena arena;
    struct particle_world *w;
    float *obs[MAX_AGENTS];
    double *reward[MAX_AGENTS];
    uint8_t *over[MAX_AGENTS];
};

static void open_loops(struct loop_case *l, int i, int isa, size_t copies)
{
    const struct env_class *class;
    struct env_spec spec;
    const void *params;

    *l = (struct loop_case){.config = config_of(scenarios[i / 4])};
    l->config.rules = i % 2 && i / 4 < N_RECORDED ? ENV_RULES_OPENAI : ENV_RULES_MPE2;
    l->config.actions = i / 2 % 2 ? ENV_ACTIONS_CONTINUOUS : ENV_ACTIONS_DISCRETE;
    class = env_class_find(l->config.id);
    ck_assert_int_eq(
        env_class_describe(class, &l->config, &l->arena, &params, &spec, NULL), 0);
    l->w = particle_ops.open(class, &l->config, params, copies, &l->arena);
    l->w->loops = particle_loops_at(isa);
    for (size_t a = 0; a < l->w->n_agents; a++) {
        l->obs[a] = ARENA_ARRAY(&l->arena, float, copies *MAX_OBS);
        l->reward[a] = ARENA_ARRAY(&l->arena, double, copies);
        l->over[a] = ARENA_ARRAY(&l->arena, uint8_t, copies);
    }
}

/* Places the entities close together, so that many agents touch; in some copies all are
 * in one place, in some far apart. */
static void reset_loops(struct loop_case *l)
{
    struct particle_world *w = l->w;

    for (size_t c = 0; c < w->n_copies; c++) {
        particle_ops.reset(w, c, &(struct env_episode){rng_key_make(3, "e", "r"), c, c});
        for (size_t row = 0; row < 2 * particle_n_entities(w); row++)
            w->pos[row * w->n_copies + c] *= c % 5 == 0 ? 0.0 : c % 5 == 1 ? 1.5 : 0.4;
    }
}

static void step_loops(struct loop_case *l, uint64_t step)
{
    static float actions[MAX_AGENTS][LOOP_COPIES * MAX_WIDTH];
    const float *rows[MAX_AGENTS];

    for (size_t a = 0; a < l->w->n_agents; a++) {
        rng_uniform_f32(rng_key_make(a, "a", "act"), step, 0, actions[a],
                        l->w->n_copies * (size_t)l->w->agents[a].space.width);
        rows[a] = actions[a];
    }
    particle_ops.step(l->w, rows, l->reward, l->over);
    particle_ops.observe(l->w, 0, l->w->n_copies, l->obs);
}

static void expect_same_step(const struct loop_case *a, const struct loop_case *b)
{
    const size_t n = a->w->n_copies;

    ck_assert_mem_eq(a->w->state, b->w->state, a->w->n_state * sizeof(double));
    for (size_t i = 0; i < a->w->n_agents; i++) {
        size_t width = (size_t)a->w->agents[i].obs_width;

        ck_assert_mem_eq(a->reward[i], b->reward[i], n * sizeof(double));
        ck_assert_mem_eq(a->obs[i], b->obs[i], n * width * sizeof(float));
    }
}

START_TEST(test_instruction_sets_agree)
{
    const size_t copies[] = {1, 3, 5, 8, LOOP_COPIES};

    for (int isa = 1; particle_loops_at(isa) != NULL; isa++) {
        for (size_t k = 0; k < sizeof(copies) / sizeof(copies[0]); k++) {
            struct loop_case plain, wide;

            open_loops(&plain, _i, 0, copies[k]);
            open_loops(&wide, _i, isa, copies[k]);
            reset_loops(&plain);
            reset_loops(&wide);
            for (uint64_t step = 0; step < LOOP_STEPS; step++) {
                step_loops(&plain, step);
                step_loops(&wide, step);
                expect_same_step(&plain, &wide);
            }
            arena_done(&plain.arena);
            arena_done(&wide.arena);
        }
    }
}
END_TEST

/* The observation of one copy alone equals that among all copies, for any block size. */
static void look_at_parts(int i, int isa)
{
    struct loop_case whole, part;

    open_loops(&whole, i, isa, LOOP_COPIES);
    open_loops(&part, i, isa, LOOP_COPIES);
    for (size_t first = 0; first < 12; first++) {
        const size_t n = first % 12 + 1;

        reset_loops(&whole);
        step_loops(&whole, first);
        reset_loops(&part);
        step_loops(&part, first);
        for (size_t a = 0; a < part.w->n_agents; a++)
            memset(part.obs[a], 0xff, LOOP_COPIES * MAX_OBS * sizeof(float));
        particle_ops.observe(part.w, first, n, part.obs);
        for (size_t a = 0; a < part.w->n_agents; a++) {
            size_t width = (size_t)part.w->agents[a].obs_width;

            ck_assert_mem_eq(part.obs[a] + first * width, whole.obs[a] + first * width,
                             n * width * sizeof(float));
            ck_assert(isnan(part.obs[a][(first + n) * width]));
        }
    }
    arena_done(&whole.arena);
    arena_done(&part.arena);
}

START_TEST(test_part_of_the_copies)
{
    for (int isa = 0; particle_loops_at(isa) != NULL; isa++)
        look_at_parts(_i, isa);
}
END_TEST

/* Comparing squared distances gives the same result as comparing distances. */
START_TEST(test_touch_squares)
{
    struct loop_case l;

    open_loops(&l, _i, 0, 1);
    for (size_t a = 0; a < l.w->n_agents; a++) {
        for (size_t b = 0; b < particle_n_entities(l.w); b++) {
            const double square = particle_touch_square(l.w, a, b);
            const double reach = particle_reach(l.w, a, b);

            ck_assert(sqrt(square) >= reach);
            ck_assert(sqrt(nextafter(square, 0.0)) < reach);
        }
    }
    arena_done(&l.arena);
}
END_TEST

/* One copy with a speed close to the limit, among slow ones. */
START_TEST(test_speed_limit)
{
    enum { N = 19, ULPS = 40 };
    const double max = 1.3, force[2 * N] = {0};

    for (int step = 0; step < 2 * ULPS * N; step++) {
        const size_t at = (size_t)step % N;
        const int ulps = step / N - ULPS;
        double pos[2 * N] = {0}, vel[2 * N] = {0};
        double x, y = 0.5, speed, share;

        x = sqrt(max * max - y * y) * (1.0 + ulps * 0x1p-52);
        vel[at] = x / 0.75;
        vel[N + at] = y / 0.75;
        x = vel[at] * 0.75 + 0.0 * 0.1;
        y = vel[N + at] * 0.75 + 0.0 * 0.1;
        speed = sqrt(x * x + y * y);
        share = speed > max ? x / speed * max : x;
        particle_loops_at(_i)->integrate(N, 0, max, force, pos, vel);
        ck_assert_double_eq(vel[at], share);
        ck_assert_double_eq(vel[N + at], speed > max ? y / speed * max : y);
        ck_assert_double_eq(vel[(at + 1) % N], 0.0);
    }
}
END_TEST

static int count_isas(void)
{
    int n = 0;

    while (particle_loops_at(n) != NULL)
        n++;
    return n;
}

/* The same state as a vector and as entities: their kinds, places and velocities. */
START_TEST(test_entities)
{
    enum { OWN = 4, HUNTERS = 3, OBSTACLES = 2, KINDS = 3, EACH = KINDS + 5 };
    struct env_config config = config_of("simple_tag");
    struct arena arena = ARENA_ZERO;
    struct particle_world *w = open_world(&config, &arena), *e;
    double vector[MAX_OBS], entity[MAX_OBS];

    config.observe = ENV_OBSERVE_ENTITIES;
    e = open_world(&config, &arena);
    for (size_t i = 0; i < w->n_state; i++)
        w->state[i] = e->state[i] = 0.1 * (double)(i * 7 % 23) - 1;
    for (size_t a = 0; a < w->n_agents; a++) {
        const size_t n_others = w->n_agents - 1;

        ck_assert_int_eq(e->agents[a].entities[0], (int64_t)n_others + OBSTACLES);
        ck_assert_int_eq(e->agents[a].entities[1], EACH);
        ck_assert_int_eq(e->agents[a].obs_width,
                         (int32_t)(OWN + (n_others + OBSTACLES) * EACH));
        particle_world_show(w, a, 0, 1, vector);
        particle_world_show(e, a, 0, 1, entity);
        ck_assert_mem_eq(entity, vector, OWN * sizeof(*vector));
        for (size_t i = 0; i < n_others + OBSTACLES; i++) {
            const double *x = entity + OWN + i * EACH;
            const size_t id = i < a || i >= n_others ? i : i + 1; /* of an agent */
            const size_t kind = i >= n_others ? 2 : id >= HUNTERS;
            const size_t place = i >= n_others ? i - n_others : OBSTACLES + i;

            for (size_t k = 0; k < KINDS; k++)
                ck_assert_double_eq(x[k], k == kind);
            ck_assert_mem_eq(x + KINDS, vector + OWN + 2 * place, 2 * sizeof(*x));
            for (size_t axis = 0; axis < 2; axis++)
                ck_assert_double_eq(x[KINDS + 2 + axis],
                                    kind == 1 ? particle_vel(w, id, axis)[0] : 0);
            ck_assert_double_eq(x[EACH - 1], 1);
        }
    }
    arena_done(&arena);
}
END_TEST

START_TEST(test_entities_are_of_some_worlds)
{
    for (size_t i = 0; i < N_SCENARIOS; i++) {
        struct env_config config = config_of(scenarios[i]);
        struct arena arena = ARENA_ZERO;
        struct env_spec spec;
        const void *params;
        struct err err = {0};
        int rc;

        config.observe = ENV_OBSERVE_ENTITIES;
        rc = env_class_describe(env_class_find(config.id), &config, &arena, &params,
                                &spec, &err);
        if (strcmp(config.id, "simple_spread") == 0 ||
            strcmp(config.id, "simple_tag") == 0)
            ck_assert_int_eq(rc, 0);
        else
            ck_assert_int_eq(rc, ERR_UNSUPPORTED);
        ck_assert_str_eq(err.key, rc == 0 ? "" : "env.observe");
        arena_done(&arena);
    }
}
END_TEST

static Suite *make_suite(void)
{
    Suite *s = suite_create("particle_world");
    TCase *tc = tcase_create("particle_world");

    tcase_add_loop_test(tc, test_records_mpe2, 0, N_RECORDED);
    tcase_add_loop_test(tc, test_records_openai, 0, N_RECORDED);
    tcase_add_loop_test(tc, test_touch_squares, 0, LOOP_CASES);
    tcase_add_loop_test(tc, test_speed_limit, 0, count_isas());
    tcase_add_test(tc, test_integration_order);
    tcase_add_test(tc, test_moves);
    tcase_add_test(tc, test_discrete_takes_first_largest);
    tcase_add_test(tc, test_box_is_clipped_under_mpe2_only);
    tcase_add_test(tc, test_box_subtracts_in_float32);
    tcase_add_test(tc, test_contact_force);
    tcase_add_test(tc, test_rewards);
    tcase_add_test(tc, test_touch_is_strict);
    tcase_add_test(tc, test_seam_spaces);
    tcase_add_test(tc, test_seam_speech_and_speed);
    tcase_add_test(tc, test_seam_immovable);
    tcase_add_test(tc, test_seam_draw_order);
    tcase_add_test(tc, test_seam_state_refuses_bad_goal);
    tcase_add_test(tc, test_reference_seeds);
    tcase_add_test(tc, test_reference_seed_goes_on);
    tcase_add_test(tc, test_pcg64_halves);
    tcase_add_test(tc, test_success);
    tcase_add_test(tc, test_entities);
    tcase_add_test(tc, test_entities_are_of_some_worlds);
    tcase_add_loop_test(tc, test_instruction_sets_agree, 0, LOOP_CASES);
    tcase_add_loop_test(tc, test_part_of_the_copies, 0, LOOP_CASES);
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(make_suite)
