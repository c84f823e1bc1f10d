/* The effect of symmetry.h on rows, against a separate computation; and the refusal of
 * invalid groups. */
#include "agent/algo/choices.h"
#include "common/mem/xmalloc.h"
#include "common/rng/rng.h"
#include "tests/support/team.h"
#include "tests/support/test_main.h"

#include <string.h>

enum {
    MOVES = 5,
    MAX_N = 8,
    MORE = 40,
    MAX_OBS = 6 * MAX_N + MORE,
    BATCH = 48,
    UPDATE = 5
};

static struct rng_key symmetry_key(void)
{
    return rng_key_make(7, "experience", PURPOSE_SYMMETRY);
}

/* ---- the group of simple_spread with n agents ---- */

static size_t obs_width(size_t n)
{
    return 4 + 2 * n + 4 * (n - 1);
}

static void add_run(struct symmetry_group *g, struct arena *arena, size_t factor,
                    struct symmetry_run run)
{
    symmetry_add_run(g, arena, factor, &run);
}

static struct symmetry_group spread_group(size_t n, struct arena *arena)
{
    static const uint32_t widths[] = {2, MOVES};
    static const int32_t codes[3][2 + MOVES] = {
        {~0, 1, 0, 2, 1, 3, 4}, {0, ~1, 0, 1, 2, 4, 3}, {1, 0, 0, 3, 4, 1, 2}};
    const uint32_t l = 4, o = (uint32_t)(4 + 2 * n), c = (uint32_t)(2 + 4 * n);
    const uint32_t all = (uint32_t)n, others = all - 1;
    struct symmetry_group g = {0};
    const size_t square = symmetry_add_generators(&g, arena, 2, widths, 3, codes[0]);
    const size_t landmarks = symmetry_add_orders(&g, arena, all);

    for (uint32_t a = 0; a < n; a++) {
        const size_t view = symmetry_add_orders(&g, arena, others);

        add_run(&g, arena, square,
                (struct symmetry_run){a, SYMMETRY_OBS, 0, 1 + 2 * all, 2, 0});
        add_run(&g, arena, square,
                (struct symmetry_run){a, SYMMETRY_ACTION, 0, 1, MOVES, 1});
        add_run(&g, arena, landmarks,
                (struct symmetry_run){a, SYMMETRY_OBS, l, all, 2, 0});
        if (others == 0)
            continue;
        add_run(&g, arena, view, (struct symmetry_run){a, SYMMETRY_OBS, o, others, 2, 0});
        add_run(&g, arena, view, (struct symmetry_run){a, SYMMETRY_OBS, c, others, 2, 0});
    }
    return g;
}

/* ---- the same group by geometry ---- */

struct matrix {
    int x[2][2];
};

/* Products of the three generators, in the order in which they appear. */
static void list_square(struct matrix ret[8])
{
    static const struct matrix generator[3] = {
        {{{-1, 0}, {0, 1}}}, {{{1, 0}, {0, -1}}}, {{{0, 1}, {1, 0}}}};
    size_t n = 1;

    ret[0] = (struct matrix){{{1, 0}, {0, 1}}};
    for (size_t e = 0; e < n; e++)
        for (size_t g = 0; g < 3; g++) {
            struct matrix m = {0};
            size_t same = 0;

            for (int i = 0; i < 2; i++)
                for (int j = 0; j < 2; j++)
                    for (int k = 0; k < 2; k++)
                        m.x[i][j] += generator[g].x[i][k] * ret[e].x[k][j];
            while (same < n && memcmp(&ret[same], &m, sizeof(m)) != 0)
                same++;
            if (same == n) {
                ck_assert_uint_lt(n, 8);
                ret[n++] = m;
            }
        }
    ck_assert_uint_eq(n, 8);
}

/* How the group's element changes a row. */
struct element {
    struct matrix square;
    size_t landmarks[MAX_N];     /* the landmark at each position */
    size_t others[MAX_N][MAX_N]; /* by agent */
};

static void shuffle(size_t *order, size_t n, const float **u)
{
    for (size_t i = 0; i < n; i++)
        order[i] = i;
    for (size_t i = 1; i < n; i++) {
        const size_t j = (size_t)(*(*u)++ * (float)(i + 1)), was = order[i];

        order[i] = order[j];
        order[j] = was;
    }
}

/* The element of a row of the batch, from the row's own draws, in the order of the
 * factors. */
static struct element draw(size_t n, uint64_t counter, uint64_t row)
{
    const size_t n_draws = 1 + (n - 1) + n * (n > 1 ? n - 2 : 0);
    struct matrix squares[8];
    struct element ret;
    float u[1 + MAX_N * MAX_N];
    const float *next = u + 1;

    list_square(squares);
    rng_uniform_f32(symmetry_key(), counter, row * n_draws, u, n_draws);
    ret.square = squares[(size_t)(u[0] * 8)];
    shuffle(ret.landmarks, n, &next);
    for (size_t a = 0; a < n; a++)
        shuffle(ret.others[a], n - 1, &next);
    return ret;
}

static void see_point(const struct matrix *m, const float *from, float *to)
{
    for (int i = 0; i < 2; i++)
        to[i] = (float)m->x[i][0] * from[0] + (float)m->x[i][1] * from[1];
}

static void see_obs(const struct element *e, size_t n, size_t agent, const float *from,
                    float *to)
{
    const float *landmark = from + 4, *other = landmark + 2 * n;
    const float *word = other + 2 * (n - 1);

    see_point(&e->square, from, to);
    see_point(&e->square, from + 2, to + 2);
    for (size_t i = 0; i < n; i++)
        see_point(&e->square, landmark + 2 * e->landmarks[i], to + 4 + 2 * i);
    for (size_t i = 0; i + 1 < n; i++) {
        const size_t j = e->others[agent][i];

        see_point(&e->square, other + 2 * j, to + (other - from) + 2 * i);
        memcpy(to + (word - from) + 2 * i, word + 2 * j, 2 * sizeof(*to));
    }
}

/* The image of a choice: the one that moves in the turned direction. */
static size_t see_choice(const struct element *e, size_t choice)
{
    static const int way[MOVES][2] = {{0, 0}, {-1, 0}, {1, 0}, {0, -1}, {0, 1}};
    const struct matrix *m = &e->square;
    const int x = m->x[0][0] * way[choice][0] + m->x[0][1] * way[choice][1];
    const int y = m->x[1][0] * way[choice][0] + m->x[1][1] * way[choice][1];
    size_t ret = 0;

    while (way[ret][0] != x || way[ret][1] != y)
        ret++;
    return ret;
}

static void fill(float *x, size_t n, const char *what)
{
    rng_uniform_f32(rng_key_make(3, "test", what), 0, 0, x, n);
    for (size_t i = 0; i < n; i++)
        x[i] -= 0.5f;
}

static void make_spaces(struct space *spaces, size_t n)
{
    for (size_t a = 0; a < n; a++)
        spaces[a] = (struct space){.name = "agent",
                                   .obs = (int64_t)obs_width(n),
                                   .width = MOVES,
                                   .n_heads = 1,
                                   .heads = {MOVES}};
}

static struct symmetry *open_symmetry(const struct symmetry_group *g,
                                      const struct space *spaces, size_t n)
{
    struct symmetry *s;
    struct err err;

    ck_assert_msg(symmetry_new(&s, g, spaces, n, symmetry_key(), &err) == 0, "%s",
                  err.msg);
    return s;
}

/* Groups of one table, of several, and of tables and single swaps; rows with gaps between
 * them, and with numbers that no element moves; draws that begin in the middle. */
START_TEST(test_rows)
{
    const size_t n = (size_t)_i % MAX_N + 1, more = _i < MAX_N ? 0 : MORE;
    const size_t width = obs_width(n) + more, stride = width + 3;
    const uint64_t first = 17;
    struct arena arena = ARENA_ZERO;
    const struct symmetry_group g = spread_group(n, &arena);
    struct space spaces[MAX_N];
    float x[BATCH * (MAX_OBS + 3)], before[BATCH * (MAX_OBS + 3)];
    struct symmetry *s;
    size_t changed = 0;

    make_spaces(spaces, n);
    for (size_t a = 0; a < n; a++)
        spaces[a].obs += (int64_t)more;
    s = open_symmetry(&g, spaces, n);
    ck_assert_int_eq(symmetry_draw(s, UPDATE, first, BATCH, NULL), 0);
    for (size_t a = 0; a < n; a++) {
        float action[BATCH * MOVES];
        uint8_t mask[BATCH * MOVES];

        fill(x, BATCH * stride, "obs");
        memcpy(before, x, sizeof(x));
        symmetry_obs(s, a, BATCH, x, stride);
        fill(action, BATCH * MOVES, "action");
        for (size_t i = 0; i < BATCH; i++) {
            for (size_t k = 0; k < MOVES; k++)
                mask[i * MOVES + k] = k == i % MOVES;
        }
        symmetry_action(s, a, BATCH, action, MOVES);
        symmetry_mask(s, a, BATCH, mask);
        for (size_t i = 0; i < BATCH; i++) {
            const struct element e = draw(n, UPDATE, first + i);
            float want[MAX_OBS + 3], was[BATCH * MOVES];

            memcpy(want, before + i * stride, stride * sizeof(*want));
            see_obs(&e, n, a, before + i * stride, want);
            for (size_t k = 0; k < stride; k++)
                ck_assert_float_eq(x[i * stride + k], want[k]);
            changed += memcmp(want, before + i * stride, width * sizeof(*want)) != 0;
            fill(was, BATCH * MOVES, "action");
            for (size_t k = 0; k < MOVES; k++)
                ck_assert_float_eq(action[i * MOVES + see_choice(&e, k)],
                                   was[i * MOVES + k]);
            for (size_t k = 0; k < MOVES; k++)
                ck_assert_uint_eq(mask[i * MOVES + k], k == see_choice(&e, i % MOVES));
        }
    }
    ck_assert_uint_gt(changed, n * BATCH * 3 / 4);
    symmetry_free(s);
    arena_done(&arena);
}
END_TEST

/* A row's element depends on counter and number alone, and all elements are equally
 * likely. */
START_TEST(test_draws)
{
    enum { ROWS = 48000, ELEMENTS = 48 };
    struct arena arena = ARENA_ZERO;
    const struct symmetry_group g = spread_group(3, &arena);
    struct space spaces[3];
    static float x[ROWS * 18], one[18];
    int count[ELEMENTS] = {0};
    double chi = 0;
    struct symmetry *s;

    make_spaces(spaces, 3);
    s = open_symmetry(&g, spaces, 3);
    for (size_t i = 0; i < ROWS * 18; i++)
        x[i] = (float)(i % 18 + 1);
    ck_assert_int_eq(symmetry_draw(s, 9, 0, ROWS, NULL), 0);
    symmetry_obs(s, 1, ROWS, x, 18);
    for (size_t i = 0; i < ROWS; i++) {
        /* velocity (1, 2) tells the element of the square; landmarks 5, 7, 9 tell the
         * order */
        const float *r = x + i * 18;
        const int swap = r[0] == 2 || r[0] == -2, flips = (r[0] < 0) + 2 * (r[1] < 0);
        int at[3];

        for (int k = 0; k < 3; k++) {
            const float v = r[4 + 2 * k] < 0 ? -r[4 + 2 * k] : r[4 + 2 * k];

            at[k] = ((int)v - 5) / 2;
        }
        count[(swap * 4 + flips) * 6 + at[0] * 2 + (at[1] > at[2])]++;
    }
    for (int i = 0; i < ELEMENTS; i++) {
        const double d = count[i] - (double)ROWS / ELEMENTS;

        chi += d * d / ((double)ROWS / ELEMENTS);
    }
    ck_assert_double_lt(chi, 90); /* 47 degrees of freedom: p = 0.001 at 82 */
    for (uint64_t row = 3; row < ROWS; row += 7919) {
        for (size_t k = 0; k < 18; k++)
            one[k] = (float)(k + 1);
        ck_assert_int_eq(symmetry_draw(s, 9, row, 1, NULL), 0);
        symmetry_obs(s, 1, 1, one, 18);
        ck_assert_mem_eq(one, x + row * 18, sizeof(one));
    }
    symmetry_free(s);
    arena_done(&arena);
}
END_TEST

/* One row of a draw stays as it is, for observations, actions and masks; the others turn as before,
 * also if some had turned already. */
START_TEST(test_left_rows)
{
    enum { ROWS = 40, LEFT = 17 };
    struct arena arena = ARENA_ZERO;
    const struct symmetry_group g = spread_group(3, &arena);
    float x[ROWS * 18], turned[ROWS * 18], action[ROWS * MOVES];
    struct space spaces[3];
    uint8_t mask[ROWS * MOVES];
    struct symmetry *s;

    make_spaces(spaces, 3);
    s = open_symmetry(&g, spaces, 3);
    for (size_t i = 0; i < ROWS * 18; i++)
        x[i] = turned[i] = (float)(i % 18 + 1);
    for (size_t i = 0; i < ROWS * MOVES; i++) {
        mask[i] = i % MOVES == 1;
        action[i] = mask[i];
    }
    ck_assert_int_eq(symmetry_draw(s, 9, 0, ROWS, NULL), 0);
    symmetry_obs(s, 1, ROWS, turned, 18);
    symmetry_leave(s, LEFT);
    symmetry_obs(s, 1, ROWS, x, 18);
    symmetry_action(s, 1, ROWS, action, MOVES);
    symmetry_mask(s, 1, ROWS, mask);
    for (size_t i = 0; i < 18; i++)
        ck_assert_float_eq(x[LEFT * 18 + i], (float)(i + 1));
    ck_assert_mem_ne(turned + LEFT * 18, x + LEFT * 18, 18 * sizeof(*x));
    for (size_t i = 0; i < MOVES; i++) {
        ck_assert_float_eq(action[LEFT * MOVES + i], i == 1);
        ck_assert_int_eq(mask[LEFT * MOVES + i], i == 1);
    }
    ck_assert_mem_eq(turned, x, LEFT * 18 * sizeof(*x));
    ck_assert_mem_eq(turned + (LEFT + 1) * 18, x + (LEFT + 1) * 18,
                     (ROWS - LEFT - 1) * 18 * sizeof(*x));
    symmetry_leave(NULL, 0);
    symmetry_free(s);
    arena_done(&arena);
}
END_TEST

/* ---- in the algorithms ---- */

static const struct {
    const char *config;
    int masked;
    int64_t groups;
} learners[] = {
    {"{actor: {hidden: [16]}, critic: {hidden: [16]}}", 0, 1},
    {"{actor: {hidden: [16]}, critic: {hidden: [16]}}", 1, 3},
    {"{critic: {hidden: [16], input: own}}", 0, 1},
    {"{algorithm: ddpg, critic: {hidden: [16]}}", 1, 1},
    {"{algorithm: ddpg, critic: {hidden: [16]}}", 0, 3},
    {"{algorithm: matd3, actor: {hidden: [16]}, critic: {hidden: [16]}}", 1, 3},
    {"{algorithm: iql, critic: {hidden: [16]}}", 1, 1},
    {"{algorithm: iql, critic: {hidden: [16]}}", 0, 3},
    {"{algorithm: isac, actor: {hidden: [16]}, critic: {hidden: [16]}}", 0, 3},
    {"{algorithm: masac, actor: {hidden: [16]}, critic: {hidden: [16]}}", 1, 1},
};
enum { LEARNERS = sizeof(learners) / sizeof(learners[0]) };

static struct team *open_team(int i, const struct symmetry_group *g)
{
    struct team_args args = team_spread(learners[i].config, 3 * BATCH);

    args.space.masked = learners[i].masked;
    args.symmetry = g;
    return team_new(&args);
}

static void update(struct team *t, int i)
{
    uint64_t rows[3 * BATCH];

    for (size_t k = 0; k < 3 * BATCH; k++)
        rows[k] = k;
    team_update(t, UPDATE, rows, learners[i].groups, BATCH, NULL);
}

static void check_equal(struct team *a, struct team *b, int equal)
{
    for (size_t i = 0; i < 3; i++) {
        struct session *x = a->members[i].session, *y = b->members[i].session;
        const size_t bytes = session_block_bytes(x);

        ck_assert_uint_eq(bytes, session_block_bytes(y));
        ck_assert_int_eq(memcmp(session_block(x), session_block(y), bytes) == 0, equal);
    }
}

/* Writes random masks, the same in each team; the choice of the row is always allowed. */
static void write_masks(struct team *t, const struct element *e, uint64_t row,
                        size_t agent)
{
    static const char *const columns[] = {"allowed", "next_allowed"};

    for (int c = 0; c < 2; c++) {
        uint8_t mask[MOVES] = {0};

        for (size_t k = 0; k < MOVES; k++)
            mask[e != NULL ? see_choice(e, k) : k] = (row + agent + k * k) % 3 != 0;
        team_write_mask(t, row, agent, columns[c], mask);
    }
}

/* Replaces the rows of the log by their images under their elements. */
static void write_turned(struct team *t)
{
    struct store_view *log;
    struct err err;

    ck_assert_int_eq(store_view_open(&log, t->log_fd, &err), 0);
    for (uint64_t row = 0; row < 3 * BATCH; row++) {
        const struct element e = draw(3, UPDATE, row);

        for (size_t a = 0; a < 3; a++) {
            static const char *const columns[] = {"obs", "next_obs", "action"};
            float from[18], to[18];

            for (int c = 0; c < 3; c++) {
                const int column =
                    store_layout_find(&t->layout, t->spaces[a].name, columns[c]);

                store_view_gather(log, column, &row, 1, from, 18);
                if (c < 2)
                    see_obs(&e, 3, a, from, to);
                for (size_t k = 0; c == 2 && k < MOVES; k++)
                    to[see_choice(&e, k)] = from[k];
                team_write(t, row, a, columns[c], to);
            }
        }
    }
    store_view_close(log);
}

/* An update under the group's elements equals the update with a log of the rows'
 * images. */
START_TEST(test_updates)
{
    struct arena arena = ARENA_ZERO;
    const struct symmetry_group g = spread_group(3, &arena);
    struct team *symmetric = open_team(_i, &g), *turned = open_team(_i, NULL);
    struct team *plain = open_team(_i, NULL);

    for (uint64_t row = 0; learners[_i].masked && row < 3 * BATCH; row++)
        for (size_t a = 0; a < 3; a++) {
            const struct element e = draw(3, UPDATE, row);

            write_masks(symmetric, NULL, row, a);
            write_masks(plain, NULL, row, a);
            write_masks(turned, &e, row, a);
        }
    write_turned(turned);
    update(symmetric, _i);
    update(turned, _i);
    update(plain, _i);
    check_equal(symmetric, turned, 1);
    check_equal(symmetric, plain, 0);
    team_free(symmetric);
    team_free(turned);
    team_free(plain);
    arena_done(&arena);
}
END_TEST

/* A group of one element changes no byte. */
START_TEST(test_identity)
{
    static const uint32_t width = 2;
    static const int32_t code[] = {0, 1};
    struct arena arena = ARENA_ZERO;
    struct symmetry_group g = {0};
    const size_t still = symmetry_add_generators(&g, &arena, 1, &width, 1, code);
    struct team *symmetric, *plain = open_team(_i, NULL);

    for (uint32_t a = 0; a < 3; a++)
        add_run(&g, &arena, still, (struct symmetry_run){a, SYMMETRY_OBS, 0, 9, 2, 0});
    (void)symmetry_add_orders(&g, &arena, 1);
    symmetric = open_team(_i, &g);
    update(symmetric, _i);
    update(plain, _i);
    check_equal(symmetric, plain, 1);
    team_free(symmetric);
    team_free(plain);
    arena_done(&arena);
}
END_TEST

/* ---- messages ---- */

/* Parses and uses the group as the agent does. Returns 0 or the error. */
static int take(const uint8_t *frame, size_t len, struct err *err)
{
    struct arena arena = ARENA_ZERO;
    struct symmetry_group g;
    struct symmetry *s = NULL;
    struct space spaces[3];
    const msgpack_object *list = NULL;
    struct msg m;
    float row[18] = {0};
    int r = msg_parse(&m, frame, len, err);

    if (r < 0)
        return r;
    make_spaces(spaces, 3);
    r = msg_get_array(&m.body, "symmetry", &list, err);
    if (r == 0)
        r = list != NULL ? msg_to_symmetry(list, &g, &arena, err) : ERR_PROTOCOL;
    if (r == 0)
        r = symmetry_new(&s, &g, spaces, 3, symmetry_key(), err);
    if (r == 0)
        r = symmetry_draw(s, 1, 0, 1, err);
    for (size_t a = 0; r == 0 && a < 3; a++) {
        symmetry_obs(s, a, 1, row, 18);
        symmetry_action(s, a, 1, row, 5);
    }
    symmetry_free(s);
    arena_done(&arena);
    msg_done(&m);
    return r;
}

static void pack(struct msg_out *o, const struct symmetry_group *g, const uint8_t **frame,
                 size_t *len)
{
    msg_out_init(o);
    msg_begin_notification(o, "symmetry");
    msg_map(o, 1);
    msg_key(o, "symmetry");
    msg_symmetry(o, g);
    msg_end(o, frame, len);
    *frame += 4; /* the length */
    *len -= 4;
}

static const struct {
    struct symmetry_run run; /* replaces the first run of `factor` */
    size_t factor;
    const char *says;
} misfits[] = {
    {{3, 0, 0, 7, 2, 0}, 0, "symmetry: factor 0: a run of agent 3 of 3"},
    {{0, 0, 0, 10, 2, 0}, 0, "symmetry: factor 0: a run outside agent's observation"},
    {{0, 0, INT32_MAX, INT32_MAX, 2, 0},
     0,
     "symmetry: factor 0: a run outside agent's observation"},
    {{0, 1, 0, 2, 2, 0}, 0, "symmetry: factor 0: agent's actions have no opposites"},
    {{0, 2, 0, 1, 2, 0}, 0, "symmetry: factor 0: runs: one that is none of its factor's"},
    {{0, 0, 0, 1, 2, 2}, 0, "symmetry: factor 0: runs: one that is none of its factor's"},
    {{0, 0, 0, 1, 3, 0}, 0, "symmetry: factor 0: runs: one that is none of its factor's"},
    {{0, 0, 0, 2, 2, 0}, 1, "symmetry: factor 1: runs: one that is none of its factor's"},
    {{0, 0, 0, 3, 0, 0}, 1, "symmetry: factor 1: runs: one that is none of its factor's"},
};

START_TEST(test_misfits)
{
    struct arena arena = ARENA_ZERO;
    struct symmetry_group g = spread_group(3, &arena);
    struct msg_out o;
    const uint8_t *frame;
    size_t len;
    struct err err;

    pack(&o, &g, &frame, &len);
    ck_assert_int_eq(take(frame, len, &err), 0);
    msg_out_done(&o);
    g.factors[misfits[_i].factor].runs[0] = misfits[_i].run;
    pack(&o, &g, &frame, &len);
    ck_assert_int_eq(take(frame, len, &err), ERR_PROTOCOL);
    ck_assert_str_eq(err.msg, misfits[_i].says);
    msg_out_done(&o);
    arena_done(&arena);
}
END_TEST

/* Generators of all permutations of seven: 5040 elements. */
START_TEST(test_limits)
{
    static const uint32_t width = 7;
    static const int32_t codes[2][7] = {{1, 0, 2, 3, 4, 5, 6}, {1, 2, 3, 4, 5, 6, 0}};
    static const int32_t twice[7] = {0, 0, 2, 3, 4, 5, 6};
    struct arena arena = ARENA_ZERO;
    struct symmetry_group g = {0};
    struct msg_out o;
    const uint8_t *frame;
    size_t len;
    struct err err;

    (void)symmetry_add_generators(&g, &arena, 1, &width, 2, codes[0]);
    pack(&o, &g, &frame, &len);
    ck_assert_int_eq(take(frame, len, &err), ERR_LIMIT);
    ck_assert_str_eq(err.msg,
                     "symmetry: factor 0: generators of more than 1024 elements");
    msg_out_done(&o);
    g.factors[0].codes = twice;
    g.factors[0].n_generators = 1;
    pack(&o, &g, &frame, &len);
    ck_assert_int_eq(take(frame, len, &err), ERR_PROTOCOL);
    ck_assert_str_eq(err.msg,
                     "symmetry: factor 0: generators: no signed permutation of 7");
    msg_out_done(&o);
    g.n_factors = 0;
    for (int i = 0; i < 5; i++)
        (void)symmetry_add_orders(&g, &arena, 1000);
    pack(&o, &g, &frame, &len);
    ck_assert_int_eq(take(frame, len, &err), ERR_LIMIT);
    ck_assert_str_eq(err.msg, "symmetry: 4995 numbers to draw, at most 4096");
    msg_out_done(&o);
    arena_done(&arena);
}
END_TEST

/* Damaged messages are refused, or describe another valid group. */
START_TEST(test_damage)
{
    struct arena arena = ARENA_ZERO;
    const struct symmetry_group g = spread_group(3, &arena);
    struct msg_out o;
    const uint8_t *frame;
    size_t len, refused = 0;
    struct err err;

    pack(&o, &g, &frame, &len);
    for (uint64_t i = 0; i < 3000; i++) {
        uint8_t *copy = xmalloc(len);
        uint64_t at[2], value[2];

        memcpy(copy, frame, len);
        rng_below(rng_key_make(1, "test", "damage"), i, 0, len, at, 2);
        rng_below(rng_key_make(1, "test", "value"), i, 0, 256, value, 2);
        for (size_t k = 0; k < 1 + i % 2; k++)
            copy[at[k]] = (uint8_t)value[k];
        refused += take(copy, i % 5 == 0 ? at[0] : len, &err) < 0 ? 1 : 0;
        free(copy);
    }
    ck_assert_uint_gt(refused, 1000);
    msg_out_done(&o);
    arena_done(&arena);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *s = suite_create("symmetry");
    TCase *rows = tcase_create("rows"), *learning = tcase_create("learning");
    TCase *messages = tcase_create("messages");

    tcase_add_loop_test(rows, test_rows, 0, 2 * MAX_N);
    tcase_add_test(rows, test_draws);
    tcase_add_test(rows, test_left_rows);
    tcase_add_loop_test(learning, test_updates, 0, LEARNERS);
    tcase_add_loop_test(learning, test_identity, 0, LEARNERS);
    tcase_add_loop_test(messages, test_misfits, 0, sizeof(misfits) / sizeof(misfits[0]));
    tcase_add_test(messages, test_limits);
    tcase_add_test(messages, test_damage);
    suite_add_tcase(s, rows);
    suite_add_tcase(s, learning);
    suite_add_tcase(s, messages);
    return s;
}

TEST_MAIN(make_suite)
