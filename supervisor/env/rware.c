#include "supervisor/env/rware.h"

#include "common/config/yaml_tree.h"
#include "supervisor/env/env_class.h"
#include "supervisor/env/pcg64.h"
#include "supervisor/env/rware_moves.h"

#include <stdlib.h>
#include <string.h>

enum {
    MAX_SIDE = 128,
    MAX_CELLS = 10000, /* pcg64_choose */
    MAX_SENSOR_RANGE = 5,
    MAX_BITS = SPACE_MAX_HEADS - 1,
    N_DIRECTIONS = 4,
    SELF_WIDTH = 4 + N_DIRECTIONS
};
enum { NONE, FORWARD, LEFT, RIGHT, LIFT, N_ACTIONS };
enum { INDIVIDUAL, GLOBAL, TWO_STAGE };
enum direction { FACES_UP, FACES_DOWN, FACES_LEFT, FACES_RIGHT };

struct params {
    int size, difficulty, reward, normalized;
    int64_t agents, requests, shelf_rows, shelf_columns, column_height;
    int64_t sensor_range, message_bits, max_inactivity, reference_seed;
    const char *layout;
};

static const char *const size_names[] = {"tiny", "small", "medium", "large", NULL};
static const char *const difficulty_names[] = {"normal", "easy", "hard", NULL};
static const char *const reward_names[] = {"individual", "global", "two_stage", NULL};

static const struct field fields[] = {
    {"size", FIELD_ENUM, SCHEMA_AT(struct params, size), .flags = FIELD_MEANING,
     .names = size_names, .default_text = "tiny",
     .doc = "1 x 3, 2 x 3, 2 x 5 or 3 x 5 blocks of shelves"},
    {"agents", FIELD_I64, SCHEMA_AT(struct params, agents), .flags = FIELD_MEANING,
     SCHEMA_WITHIN(1, RWARE_MAX_AGENTS), .default_text = "2", .doc = "robots"},
    {"difficulty", FIELD_ENUM, SCHEMA_AT(struct params, difficulty),
     .names = difficulty_names, .default_text = "normal",
     .doc = "as many requested shelves as robots; easy: twice, hard: half as many"},
    {"requests", FIELD_I64, SCHEMA_AT(struct params, requests),
     SCHEMA_WITHIN(0, MAX_CELLS), .default_text = "0",
     .doc = "shelves requested at a time; 0: as difficulty says"},
    {"reward", FIELD_ENUM, SCHEMA_AT(struct params, reward), .names = reward_names,
     .default_text = "individual", .doc = "who is paid for a delivery, and when"},
    {"sensor_range", FIELD_I64, SCHEMA_AT(struct params, sensor_range),
     .flags = FIELD_MEANING, SCHEMA_WITHIN(1, MAX_SENSOR_RANGE), .default_text = "1",
     .doc = "cells that a robot sees in each direction"},
    {"message_bits", FIELD_I64, SCHEMA_AT(struct params, message_bits),
     .flags = FIELD_MEANING, SCHEMA_WITHIN(0, MAX_BITS), .default_text = "0",
     .doc = "bits that a robot shows to those that see it"},
    {"normalized_coordinates", FIELD_BOOL, SCHEMA_AT(struct params, normalized),
     .flags = FIELD_MEANING, .default_text = "false",
     .doc = "a robot sees its place as shares of the floor"},
    {"shelf_rows", FIELD_I64, SCHEMA_AT(struct params, shelf_rows),
     SCHEMA_WITHIN(0, MAX_SIDE), .default_text = "0",
     .doc = "blocks one behind the other; 0: as size says"},
    {"shelf_columns", FIELD_I64, SCHEMA_AT(struct params, shelf_columns),
     SCHEMA_WITHIN(0, MAX_SIDE), .default_text = "0",
     .doc = "blocks side by side, an odd number; 0: as size says"},
    {"column_height", FIELD_I64, SCHEMA_AT(struct params, column_height),
     SCHEMA_WITHIN(1, MAX_SIDE), .default_text = "8", .doc = "shelves behind each other"},
    {"layout", FIELD_TEXT, SCHEMA_AT(struct params, layout), .flags = FIELD_MEANING,
     .default_text = "size",
     .doc = "size, or a floor of your own: x shelf, . corridor, g goal; one line a row"},
    {"max_inactivity", FIELD_I64, SCHEMA_AT(struct params, max_inactivity),
     SCHEMA_WITHIN(0, INT32_MAX), .default_text = "0",
     .doc = "steps without a delivery that end an episode; 0: none do"},
    {"reference_seed", FIELD_I64, SCHEMA_AT(struct params, reference_seed),
     SCHEMA_WITHIN(-1, 1e15), .default_text = "-1",
     .doc = "episode n is the package's with this seed + n; -1: of the run's seed"},
};
const struct schema rware_params = {SCHEMA_TABLE(fields), sizeof(struct params)};

/* ---- the floor ---- */

struct floor {
    int32_t width, height;
    uint8_t *is_corridor; /* (height, width); goals are corridors, too */
    int32_t *goal;        /* [n_goals]: cells, in the order in which they are served */
    int32_t n_goals, n_shelves;
};

/* The text without spaces and without empty lines around it; lines end in one newline. */
static char *trim_layout(const char *text, struct arena *arena)
{
    char *ret = ARENA_ARRAY(arena, char, strlen(text) + 1);
    size_t n = 0;

    for (; *text != '\0'; text++) {
        const int is_blank = *text == ' ' || *text == '\t' || *text == '\r';

        if (!is_blank && !(*text == '\n' && n == 0))
            ret[n++] = *text;
    }
    while (n > 0 && ret[n - 1] == '\n')
        n--;
    ret[n] = '\0';
    return ret;
}

static int fail_layout(const struct yaml_node *params, struct err *err, const char *what,
                       int64_t line)
{
    return yaml_fail(yaml_find(params, "layout"), "env.params.layout", err,
                     "line %lld of the floor: %s", (long long)line, what);
}

static void allocate_floor(struct floor *f, struct arena *arena)
{
    const size_t cells = (size_t)f->width * (size_t)f->height;

    f->is_corridor = ARENA_ARRAY(arena, uint8_t, cells);
    f->goal = ARENA_ARRAY(arena, int32_t, cells);
}

static int read_layout(const struct params *p, const struct yaml_node *params,
                       struct arena *arena, struct floor *ret, struct err *err)
{
    const char *text = trim_layout(p->layout, arena);
    int32_t cell = 0;

    *ret = (struct floor){.width = (int32_t)strcspn(text, "\n"), .height = 1};
    for (const char *c = text; *c != '\0'; c++)
        ret->height += *c == '\n';
    if (ret->width > MAX_SIDE || ret->height > MAX_SIDE ||
        ret->width * ret->height > MAX_CELLS)
        return fail_layout(params, err, "a floor has at most 128 x 128 and 10000 cells",
                           1);
    allocate_floor(ret, arena);
    for (int64_t line = 1; line <= ret->height; line++) {
        if ((int32_t)strcspn(text, "\n") != ret->width)
            return fail_layout(params, err, "it is not as long as the first", line);
        for (int32_t i = 0; i < ret->width; i++, cell++, text++) {
            if (strchr("xX.gG", *text) == NULL)
                return fail_layout(params, err, "expected x, . and g", line);
            ret->is_corridor[cell] = *text != 'x' && *text != 'X';
            ret->n_shelves += !ret->is_corridor[cell];
            if (*text == 'g' || *text == 'G')
                ret->goal[ret->n_goals++] = cell;
        }
        text += *text == '\n';
    }
    return ret->n_goals > 0 ? 0 : fail_layout(params, err, "there is no g, a goal", 1);
}

static int is_corridor(const struct floor *f, int32_t column_height, int32_t x, int32_t y)
{
    const int queues = y > f->height - (column_height + 3);

    return x % 3 == 0 || y % (column_height + 1) == 0 || y == f->height - 1 ||
           (queues && (x == f->width / 2 - 1 || x == f->width / 2));
}

static int build_floor(const struct params *p, const struct yaml_node *params,
                       struct arena *arena, struct floor *ret, struct err *err)
{
    static const uint8_t rows[] = {1, 2, 2, 3}, columns[] = {3, 3, 5, 5};
    const int64_t down = p->shelf_rows > 0 ? p->shelf_rows : rows[p->size];
    const int64_t across = p->shelf_columns > 0 ? p->shelf_columns : columns[p->size];
    const int64_t height = (p->column_height + 1) * down + 2, width = 3 * across + 1;

    if (across % 2 == 0)
        return yaml_fail(yaml_find(params, "shelf_columns"), "env.params.shelf_columns",
                         err, "found %lld, expected an odd number", (long long)across);
    if (height > MAX_SIDE || width > MAX_SIDE || height * width > MAX_CELLS)
        return yaml_fail(params, "env.params", err,
                         "a floor of %lld x %lld cells; expected at most 128 x 128 and "
                         "10000 cells",
                         (long long)width, (long long)height);
    *ret = (struct floor){.width = (int32_t)width, .height = (int32_t)height};
    allocate_floor(ret, arena);
    for (int32_t c = 0; c < ret->width * ret->height; c++) {
        ret->is_corridor[c] = (uint8_t)is_corridor(ret, (int32_t)p->column_height,
                                                   c % ret->width, c / ret->width);
        ret->n_shelves += !ret->is_corridor[c];
    }
    for (int32_t k = -1; k <= 0; k++)
        ret->goal[ret->n_goals++] = (ret->height - 1) * ret->width + ret->width / 2 + k;
    return 0;
}

/* ---- the world ---- */

struct robot {
    int32_t x, y, direction;
    int32_t shelf;     /* carried: its number from 1; 0: none */
    int32_t delivered; /* has brought the shelf that it carries to a goal */
    int32_t message;   /* bit b: what it sends as bit b */
};

struct counts {
    int32_t idle;      /* steps since the last delivery */
    int32_t delivered; /* shelves in this episode */
};

/* One copy; what is behind `state` is the world's state. */
struct place {
    struct pcg64 *draws;
    struct robot *robot; /* [n] */
    int32_t *shelf;      /* [n_shelves]: the cell that a shelf is in */
    int32_t *request;    /* [requests]: numbers of shelves from 1 */
    struct counts *count;
    int16_t *robot_at;     /* (height, width): number from 1; 0: none */
    int16_t *shelf_at;     /* likewise */
    uint8_t *is_requested; /* [n_shelves + 1], by number */
};

struct world {
    struct params p;
    struct floor floor;
    size_t n_agents, n_copies, n_requests, state_bytes; /* of a copy */
    char *state;                                        /* (E, state_bytes) */
    char *loaded;                                       /* room for one copy */
    int16_t *robot_at, *shelf_at;                       /* (E, height, width) */
    uint8_t *is_requested;                              /* (E, n_shelves + 1) */
    int8_t *last; /* (E, robots): the last action, for pictures; -1: none yet */
};

_Static_assert(sizeof(struct pcg64) == 48, "no padding in the state");

/* The place whose state is at `at`, and whose index is that of a copy. */
static struct place place_at(const struct world *w, char *at, size_t copy)
{
    const size_t cells = (size_t)w->floor.width * (size_t)w->floor.height;
    const size_t shelves = (size_t)w->floor.n_shelves;
    struct place p = {.draws = (struct pcg64 *)(void *)at};

    p.robot = (struct robot *)(void *)(p.draws + 1);
    p.shelf = (int32_t *)(void *)(p.robot + w->n_agents);
    p.request = p.shelf + shelves;
    p.count = (struct counts *)(void *)(p.request + w->n_requests);
    p.robot_at = w->robot_at + copy * cells;
    p.shelf_at = w->shelf_at + copy * cells;
    p.is_requested = w->is_requested + copy * (shelves + 1);
    return p;
}

static struct place place_of(const struct world *w, size_t copy)
{
    return place_at(w, w->state + copy * w->state_bytes, copy);
}

static int32_t cell_of(const struct world *w, const struct robot *r)
{
    return r->y * w->floor.width + r->x;
}

/* Sets what follows from the state: where robots and shelves are, what is requested. */
static void index_place(const struct world *w, struct place *p)
{
    const size_t cells = (size_t)w->floor.width * (size_t)w->floor.height;

    memset(p->robot_at, 0, cells * sizeof(*p->robot_at));
    memset(p->shelf_at, 0, cells * sizeof(*p->shelf_at));
    memset(p->is_requested, 0, (size_t)w->floor.n_shelves + 1);
    for (int32_t s = 0; s < w->floor.n_shelves; s++)
        p->shelf_at[p->shelf[s]] = (int16_t)(s + 1);
    for (size_t i = 0; i < w->n_agents; i++)
        p->robot_at[cell_of(w, &p->robot[i])] = (int16_t)(i + 1);
    for (size_t i = 0; i < w->n_requests; i++)
        p->is_requested[p->request[i]] = 1;
}

/* ---- reset ---- */

static void seed_draws(const struct world *w, const struct env_episode *e,
                       struct pcg64 *ret)
{
    uint32_t block[4];

    if (w->p.reference_seed >= 0) {
        pcg64_init(ret, (uint64_t)w->p.reference_seed + e->number);
        return;
    }
    rng_block(e->key, e->episode, 0, block);
    pcg64_init(ret, (uint64_t)block[0] << 32 | block[1]);
}

static void rware_reset(void *world, size_t copy, const struct env_episode *episode)
{
    struct world *w = world;
    struct place p = place_of(w, copy);
    uint32_t drawn[RWARE_MAX_AGENTS];
    int32_t shelf = 0;

    memset(w->state + copy * w->state_bytes, 0, w->state_bytes);
    memset(w->last + copy * w->n_agents, -1, w->n_agents);
    seed_draws(w, episode, p.draws);
    for (int32_t c = 0; c < w->floor.width * w->floor.height; c++) {
        if (!w->floor.is_corridor[c])
            p.shelf[shelf++] = c;
    }
    pcg64_choose(p.draws, (uint32_t)(w->floor.width * w->floor.height),
                 (uint32_t)w->n_agents, drawn);
    for (size_t i = 0; i < w->n_agents; i++) {
        p.robot[i].x = (int32_t)drawn[i] % w->floor.width;
        p.robot[i].y = (int32_t)drawn[i] / w->floor.width;
    }
    for (size_t i = 0; i < w->n_agents; i++)
        p.robot[i].direction = (int32_t)pcg64_integer(p.draws, N_DIRECTIONS);
    pcg64_choose(p.draws, (uint32_t)w->floor.n_shelves, (uint32_t)w->n_requests,
                 (uint32_t *)p.request);
    for (size_t i = 0; i < w->n_requests; i++)
        p.request[i]++;
    index_place(w, &p);
}

/* ---- a step ---- */

static int32_t least(int32_t a, int32_t b)
{
    return a < b ? a : b;
}

static int32_t most(int32_t a, int32_t b)
{
    return a > b ? a : b;
}

/* The cell in front of a robot; its own at a wall. */
static void look_ahead(const struct world *w, const struct robot *r, int32_t *x,
                       int32_t *y)
{
    *x = r->x + (r->direction == FACES_RIGHT) - (r->direction == FACES_LEFT);
    *y = r->y + (r->direction == FACES_DOWN) - (r->direction == FACES_UP);
    *x = most(0, least(w->floor.width - 1, *x));
    *y = most(0, least(w->floor.height - 1, *y));
}

/* Whether a shelf in that cell stops a robot that carries one; a carried shelf may give way. */
static int shelf_stops(const struct place *p, const struct robot *r, int32_t cell)
{
    const int32_t other = p->robot_at[cell];

    return r->shelf != 0 && p->shelf_at[cell] != 0 &&
           (other == 0 || p->robot[other - 1].shelf == 0);
}

/* Turns `forward` of those that cannot move into `none`. */
static void resolve(const struct world *w, const struct place *p, int32_t *action)
{
    struct rware_wish wish[RWARE_MAX_AGENTS];
    uint8_t moves[RWARE_MAX_AGENTS];

    for (size_t i = 0; i < w->n_agents; i++) {
        const struct robot *r = &p->robot[i];
        int32_t x = r->x, y = r->y;

        if (action[i] == FORWARD)
            look_ahead(w, r, &x, &y);
        if ((x != r->x || y != r->y) && shelf_stops(p, r, y * w->floor.width + x)) {
            action[i] = NONE;
            x = r->x;
            y = r->y;
        }
        wish[i] = (struct rware_wish){r->x, r->y, x, y,
                                      p->robot_at[y * w->floor.width + x] - 1};
    }
    rware_resolve(wish, w->n_agents, moves);
    for (size_t i = 0; i < w->n_agents; i++) {
        if (!moves[i])
            action[i] = NONE;
    }
}

static int32_t turned(int32_t direction, int32_t action)
{
    static const uint8_t left[] = {FACES_LEFT, FACES_RIGHT, FACES_DOWN, FACES_UP};
    static const uint8_t right[] = {FACES_RIGHT, FACES_LEFT, FACES_UP, FACES_DOWN};

    return action == LEFT ? left[direction] : right[direction];
}

static void lift_or_put_down(const struct world *w, struct place *p, size_t i,
                             double *reward)
{
    struct robot *r = &p->robot[i];

    if (r->shelf == 0) {
        r->shelf = p->shelf_at[cell_of(w, r)];
    } else if (!w->floor.is_corridor[cell_of(w, r)]) {
        r->shelf = 0;
        if (r->delivered && w->p.reward == TWO_STAGE)
            *reward += 0.5;
        r->delivered = 0;
    }
}

/* Moves the robots with action `forward`, and the shelves that they carry. */
static void drive(const struct world *w, struct place *p, const int32_t *action)
{
    for (size_t i = 0; i < w->n_agents; i++) {
        struct robot *r = &p->robot[i];

        if (action[i] != FORWARD)
            continue;
        p->robot_at[cell_of(w, r)] = 0;
        if (r->shelf != 0)
            p->shelf_at[cell_of(w, r)] = 0;
    }
    for (size_t i = 0; i < w->n_agents; i++) {
        struct robot *r = &p->robot[i];
        int32_t x, y;

        if (action[i] != FORWARD)
            continue;
        look_ahead(w, r, &x, &y);
        r->x = x;
        r->y = y;
        p->robot_at[cell_of(w, r)] = (int16_t)(i + 1);
        if (r->shelf == 0)
            continue;
        p->shelf[r->shelf - 1] = cell_of(w, r);
        p->shelf_at[cell_of(w, r)] = (int16_t)r->shelf;
    }
}

static void pay(const struct world *w, struct place *p, int32_t robot, size_t copy,
                double *const *reward)
{
    if (w->p.reward == GLOBAL) {
        for (size_t i = 0; i < w->n_agents; i++)
            reward[i][copy] += 1;
        return;
    }
    reward[robot][copy] += w->p.reward == TWO_STAGE ? 0.5 : 1;
    p->robot[robot].delivered = w->p.reward == TWO_STAGE;
}

/* Requests another shelf, drawn from those that are not requested, instead of this one. */
static void request_another(const struct world *w, struct place *p, int32_t shelf)
{
    const uint32_t others = (uint32_t)w->floor.n_shelves - (uint32_t)w->n_requests;
    uint32_t left = pcg64_integer(p->draws, others);
    int32_t chosen = 1;
    size_t at = 0;

    for (; p->is_requested[chosen] || left > 0; chosen++)
        left -= !p->is_requested[chosen];
    while (p->request[at] != shelf)
        at++;
    p->request[at] = chosen;
    p->is_requested[shelf] = 0;
    p->is_requested[chosen] = 1;
}

/* Takes requested shelves that are on a goal; a shelf on a goal is carried. */
static void deliver(const struct world *w, struct place *p, size_t copy,
                    double *const *reward)
{
    p->count->idle = least(p->count->idle, INT32_MAX - 1) + 1;
    for (int32_t g = 0; g < w->floor.n_goals; g++) {
        const int32_t cell = w->floor.goal[g], shelf = p->shelf_at[cell];

        if (shelf == 0 || !p->is_requested[shelf])
            continue;
        request_another(w, p, shelf);
        pay(w, p, p->robot_at[cell] - 1, copy, reward);
        p->count->idle = 0;
        p->count->delivered = least(p->count->delivered, INT32_MAX - 1) + 1;
    }
}

static void take_actions(const struct world *w, size_t copy, const float *const *actions,
                         struct robot *robots, int32_t *ret)
{
    const size_t width = N_ACTIONS + 2 * (size_t)w->p.message_bits;

    for (size_t i = 0; i < w->n_agents; i++) {
        const float *values = actions[i] + copy * width;

        ret[i] = (int32_t)env_choice(values, N_ACTIONS);
        w->last[copy * w->n_agents + i] = (int8_t)ret[i];
        robots[i].message = 0;
        for (int64_t b = 0; b < w->p.message_bits; b++)
            robots[i].message |= (int32_t)env_choice(values + N_ACTIONS + 2 * b, 2) << b;
    }
}

static void rware_step(void *world, const float *const *actions, double *const *reward,
                       uint8_t *const *terminated)
{
    struct world *w = world;

    for (size_t c = 0; c < w->n_copies; c++) {
        struct place p = place_of(w, c);
        int32_t action[RWARE_MAX_AGENTS];

        take_actions(w, c, actions, p.robot, action);
        resolve(w, &p, action);
        for (size_t i = 0; i < w->n_agents; i++) {
            reward[i][c] = 0;
            if (action[i] == LEFT || action[i] == RIGHT)
                p.robot[i].direction = turned(p.robot[i].direction, action[i]);
            else if (action[i] == LIFT)
                lift_or_put_down(w, &p, i, &reward[i][c]);
        }
        drive(w, &p, action);
        deliver(w, &p, c, reward);
        for (size_t i = 0; i < w->n_agents; i++)
            terminated[i][c] =
                w->p.max_inactivity > 0 && p.count->idle >= (int32_t)w->p.max_inactivity;
    }
}

static const struct env_metric *rware_metrics(const struct env_class *class)
{
    static const struct env_metric metrics[] = {
        {"delivered", "requested shelves that came to a goal in the episode", 1}, {NULL}};

    return metrics;
}

static void rware_measure(void *world, size_t metric, double *ret)
{
    const struct world *w = world;

    for (size_t c = 0; c < w->n_copies; c++)
        ret[c] = place_of(w, c).count->delivered;
}

/* ---- observing ---- */

static size_t obs_width(const struct params *p)
{
    const size_t side = 2 * (size_t)p->sensor_range + 1;

    return SELF_WIDTH + side * side * (1 + N_DIRECTIONS + (size_t)p->message_bits + 2);
}

static float *put_direction(float *ret, int32_t direction)
{
    for (int32_t d = 0; d < N_DIRECTIONS; d++)
        *ret++ = d == direction;
    return ret;
}

/* What a robot sees of one cell; robot, shelf: numbers from 1; 0: none. */
static float *put_cell(const struct world *w, const struct place *p, int32_t robot,
                       int32_t shelf, float *ret)
{
    const struct robot *r = robot > 0 ? &p->robot[robot - 1] : NULL;

    *ret++ = r != NULL;
    ret = put_direction(ret, r != NULL ? r->direction : FACES_UP);
    for (int64_t b = 0; b < w->p.message_bits; b++)
        *ret++ = r != NULL && r->message >> b & 1;
    *ret++ = shelf > 0;
    *ret++ = shelf > 0 && p->is_requested[shelf];
    return ret;
}

static void observe_robot(const struct world *w, const struct place *p,
                          const struct robot *r, float *ret)
{
    const int32_t range = (int32_t)w->p.sensor_range;
    const struct floor *f = &w->floor;

    *ret++ = w->p.normalized ? (float)((double)r->x / (f->width - 1)) : (float)r->x;
    *ret++ = w->p.normalized ? (float)((double)r->y / (f->height - 1)) : (float)r->y;
    *ret++ = r->shelf != 0;
    ret = put_direction(ret, r->direction);
    *ret++ = f->is_corridor[cell_of(w, r)];
    for (int32_t y = r->y - range; y <= r->y + range; y++) {
        for (int32_t x = r->x - range; x <= r->x + range; x++) {
            const int inside = x >= 0 && y >= 0 && x < f->width && y < f->height;
            const int32_t cell = inside ? y * f->width + x : 0;

            ret = put_cell(w, p, inside ? p->robot_at[cell] : 0,
                           inside ? p->shelf_at[cell] : 0, ret);
        }
    }
}

static void rware_observe(void *world, size_t first, size_t n, float *const *obs)
{
    const struct world *w = world;
    const size_t width = obs_width(&w->p);

    for (size_t c = first; c < first + n; c++) {
        const struct place p = place_of(w, c);

        for (size_t i = 0; i < w->n_agents; i++)
            observe_robot(w, &p, &p.robot[i], obs[i] + c * width);
    }
}

/* ---- the rest of a world ---- */

static size_t requests_of(const struct params *p)
{
    static const uint8_t per_two_robots[] = {2, 4, 1}; /* normal, easy, hard */

    return p->requests > 0 ? (size_t)p->requests
                           : (size_t)p->agents * per_two_robots[p->difficulty] / 2;
}

static int make_floor(const struct params *p, const struct yaml_node *params,
                      struct arena *arena, struct floor *ret, struct err *err)
{
    return strcmp(p->layout, "size") != 0 ? read_layout(p, params, arena, ret, err)
                                          : build_floor(p, params, arena, ret, err);
}

static int fail_at(const struct yaml_node *params, const char *key, struct err *err,
                   const char *what, int64_t found, int64_t expected)
{
    const struct yaml_node *at = yaml_find(params, key);
    char path[48];

    (void)snprintf(path, sizeof(path), "env.params.%s", key);
    return yaml_fail(at != NULL ? at : params, path, err, "%lld %s, expected %s %lld",
                     (long long)found, what, found < expected ? "at least" : "at most",
                     (long long)expected);
}

static int check_room(const struct params *p, const struct floor *f,
                      const struct yaml_node *params, struct err *err)
{
    const int64_t requests = (int64_t)requests_of(p);
    const int64_t cells = (int64_t)f->width * f->height;

    if (p->agents > cells)
        return fail_at(params, "agents", err, "robots", p->agents, cells);
    if (requests < 1)
        return fail_at(params, "difficulty", err, "requested shelves", requests, 1);
    if (requests >=
        f->n_shelves) /* another one is requested for each that is delivered */
        return fail_at(params, "requests", err, "requested shelves", requests,
                       (int64_t)f->n_shelves - 1);
    return 0;
}

static int rware_describe(const struct env_class *class, const struct env_config *config,
                          const void *params, struct arena *arena, struct env_spec *ret,
                          struct err *err)
{
    const struct params *p = params;
    struct floor floor;
    int rc = make_floor(p, config->params, arena, &floor, err);

    if (rc == 0)
        rc = check_room(p, &floor, config->params, err);
    if (rc < 0)
        return rc;
    ret->n_agents = (size_t)p->agents;
    ret->agents = ARENA_ARRAY(arena, struct env_agent, ret->n_agents);
    for (size_t i = 0; i < ret->n_agents; i++) {
        struct env_agent *agent = &ret->agents[i];

        env_agent_set_name(agent, "robot", i);
        agent->obs_width = (int32_t)obs_width(p);
        agent->space = (struct action_space){.kind = SPACE_DISCRETE,
                                             .n_heads = 1 + (int)p->message_bits,
                                             .heads = {N_ACTIONS},
                                             .width = N_ACTIONS};
        for (int64_t b = 0; b < p->message_bits; b++) {
            agent->space.heads[1 + b] = 2;
            agent->space.width += 2;
        }
    }
    return 0;
}

static void *rware_open(const struct env_class *class, const struct env_config *config,
                        const void *params, size_t copies, struct arena *arena)
{
    struct world *w = ARENA_NEW(arena, struct world);
    size_t cells, words;

    w->p = *(const struct params *)params;
    (void)make_floor(&w->p, config->params, arena, &w->floor,
                     NULL); /* it was described */
    w->n_agents = (size_t)w->p.agents;
    w->n_copies = copies;
    w->n_requests = requests_of(&w->p);
    cells = (size_t)w->floor.width * (size_t)w->floor.height;
    words = (size_t)w->floor.n_shelves + w->n_requests;
    w->state_bytes = sizeof(struct pcg64) + w->n_agents * sizeof(struct robot) +
                     words * sizeof(int32_t) + sizeof(struct counts);
    w->state_bytes = (w->state_bytes + 15) / 16 * 16; /* pcg64 has 128-bit numbers */
    w->state = (char *)ARENA_ARRAY(arena, struct pcg64,
                                   copies * w->state_bytes / sizeof(struct pcg64) + 1);
    w->loaded = (char *)ARENA_ARRAY(arena, struct pcg64,
                                    w->state_bytes / sizeof(struct pcg64) + 1);
    w->robot_at = ARENA_ARRAY(arena, int16_t, copies * cells);
    w->shelf_at = ARENA_ARRAY(arena, int16_t, copies * cells);
    w->is_requested =
        ARENA_ARRAY(arena, uint8_t, copies * ((size_t)w->floor.n_shelves + 1));
    w->last = ARENA_ARRAY(arena, int8_t, copies * w->n_agents);
    return w;
}

static size_t rware_state_bytes(const void *world)
{
    const struct world *w = world;

    return w->n_copies * w->state_bytes;
}

static void rware_save(const void *world, void *dst)
{
    const struct world *w = world;

    memcpy(dst, w->state, rware_state_bytes(w));
}

static int is_below(int32_t x, int32_t end)
{
    return x >= 0 && x < end;
}

/* Whether n numbers are all in first .. first + room - 1, and no two of them are the same;
 * room: at most MAX_CELLS. */
static int are_distinct(const int32_t *x, size_t n, int32_t first, int32_t room)
{
    uint8_t seen[MAX_CELLS] = {0};

    for (size_t i = 0; i < n; i++) {
        if (x[i] < first || x[i] - first >= room || seen[x[i] - first]++)
            return 0;
    }
    return 1;
}

/* Whether a shelf is on a goal without a robot that carries it: nobody would be paid. */
static int stands_on_goal(const struct world *w, const struct place *p)
{
    uint8_t carried[MAX_CELLS] = {0};

    for (size_t i = 0; i < w->n_agents; i++) {
        if (p->robot[i].shelf != 0)
            carried[p->robot[i].shelf - 1] = 1;
    }
    for (int32_t s = 0; s < w->floor.n_shelves; s++) {
        for (int32_t g = 0; g < w->floor.n_goals; g++) {
            if (p->shelf[s] == w->floor.goal[g] && !carried[s])
                return 1;
        }
    }
    return 0;
}

static int is_possible_robot(const struct world *w, const struct place *p,
                             const struct robot *r)
{
    return is_below(r->x, w->floor.width) && is_below(r->y, w->floor.height) &&
           is_below(r->direction, N_DIRECTIONS) && is_below(r->delivered, 2) &&
           is_below(r->message, 1 << w->p.message_bits) &&
           is_below(r->shelf, w->floor.n_shelves + 1) &&
           (r->shelf == 0 || p->shelf[r->shelf - 1] == cell_of(w, r));
}

/* Returns what is impossible of a copy; NULL: nothing. */
static const char *find_impossible(const struct world *w, const struct place *p)
{
    const int32_t cells = w->floor.width * w->floor.height;
    int32_t at[RWARE_MAX_AGENTS];

    for (size_t i = 0; i < w->n_agents; i++) {
        if (!is_possible_robot(w, p, &p->robot[i]))
            return "robot";
        at[i] = cell_of(w, &p->robot[i]);
    }
    if (!are_distinct(at, w->n_agents, 0, cells))
        return "two robots in a cell";
    if (!are_distinct(p->shelf, (size_t)w->floor.n_shelves, 0, cells) ||
        stands_on_goal(w, p))
        return "shelf";
    if (!are_distinct(p->request, w->n_requests, 1, w->floor.n_shelves))
        return "request";
    return p->count->idle < 0 || p->count->delivered < 0 ? "count" : NULL;
}

static int rware_load(void *world, const void *src, struct err *err)
{
    struct world *w = world;

    for (size_t c = 0; c < w->n_copies; c++) {
        struct place p = place_at(w, w->loaded, c);
        const char *what;

        memcpy(w->loaded, (const char *)src + c * w->state_bytes, w->state_bytes);
        what = find_impossible(w, &p);
        if (what != NULL)
            return err_set(err, ERR_CORRUPT,
                           "copy %zu of the warehouse has an impossible %s", c, what);
    }
    memcpy(w->state, src, rware_state_bytes(w));
    memset(w->last, -1, w->n_copies * w->n_agents);
    for (size_t c = 0; c < w->n_copies; c++) {
        struct place p = place_of(w, c);

        index_place(w, &p);
    }
    return 0;
}

/* ---- drawing ---- */

static struct scene_thing *rware_add(const struct world *w, struct scene *ret,
                                     enum scene_kind kind, int32_t cell, double size)
{
    const int32_t x = cell % w->floor.width, y = cell / w->floor.width;

    return scene_add(ret, kind, x + 0.5, w->floor.height - y - 0.5, size);
}

static void draw_robot(const struct world *w, const struct place *p, size_t i,
                       size_t copy, struct scene *ret)
{
    static const char *const arrow[] = {"^", "v", "<", ">"};
    const struct robot *r = &p->robot[i];
    const int last = w->last[copy * w->n_agents + i];
    struct scene_thing *t = rware_add(w, ret, SCENE_AGENT, cell_of(w, r), 0.3);

    t->id = t->agent = (int32_t)i;
    scene_label(t, "%s", arrow[r->direction]);
    if (r->shelf != 0)
        rware_add(w, ret, SCENE_LOADING, cell_of(w, r), 0.42)->agent = (int32_t)i;
    if (last >= 0)
        scene_set_action(ret, i, 1, "%c", "-FLRT"[last]);
}

static void rware_draw(const void *world, size_t copy, struct scene *ret)
{
    const struct world *w = world;
    const struct place p = place_of(w, copy);

    ret->x1 = w->floor.width;
    ret->y1 = w->floor.height;
    ret->is_grid = 1;
    ret->frame_ms = 200;
    ret->verb = "does";
    ret->action_key = "F forward, L R turns, T takes or puts down, - nothing";
    ret->name[SCENE_AGENT] = "robot and where it looks";
    ret->name[SCENE_LANDMARK] = "shelf";
    ret->name[SCENE_FOOD] = "requested shelf";
    ret->name[SCENE_GOAL] = "goal";
    ret->name[SCENE_LOADING] = "carries a shelf";
    for (int32_t g = 0; g < w->floor.n_goals; g++)
        (void)rware_add(w, ret, SCENE_GOAL, w->floor.goal[g], 0.46);
    for (int32_t s = 0; s < w->floor.n_shelves; s++)
        rware_add(w, ret, p.is_requested[s + 1] ? SCENE_FOOD : SCENE_LANDMARK, p.shelf[s],
                  0.38)
            ->id = (int32_t)w->n_agents + s;
    for (size_t i = 0; i < w->n_agents; i++)
        draw_robot(w, &p, i, copy, ret);
}

const struct env_ops rware_ops = {
    .describe = rware_describe,
    .open = rware_open,
    .reset = rware_reset,
    .step = rware_step,
    .metrics = rware_metrics,
    .measure = rware_measure,
    .observe = rware_observe,
    .state_bytes = rware_state_bytes,
    .save = rware_save,
    .load = rware_load,
    .draw = rware_draw,
};
