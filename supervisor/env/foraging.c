#include "supervisor/env/foraging.h"

#include "common/config/yaml_tree.h"
#include "supervisor/env/env_class.h"
#include "supervisor/env/pcg64.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    MIN_SIZE = 4,
    MAX_SIZE = 64,
    MAX_PLAYERS = 32,
    MAX_FOOD = 64,
    MAX_LEVEL = 100,
    ATTEMPTS = 1000
};
enum { MAX_FOOD_LEVEL = MAX_LEVEL * MAX_PLAYERS };
enum { NONE, NORTH, SOUTH, WEST, EAST, LOAD, N_ACTIONS };

struct params {
    int64_t size, rows, columns, players, food;
    int64_t min_level, max_level, min_food_level, max_food_level, sight;
    int cooperate, grid, observe_levels, normalize_reward, food_levels;
    int64_t reference_seed;
    double penalty;
};

enum { LEVELS_V3, LEVELS_OLD };
static const char *const food_level_names[] = {"v3", "old", NULL};

static const struct field fields[] = {
    {"size", FIELD_I64, SCHEMA_AT(struct params, size), SCHEMA_WITHIN(MIN_SIZE, MAX_SIZE),
     .default_text = "8", .doc = "number of rows and of columns"},
    {"rows", FIELD_I64, SCHEMA_AT(struct params, rows), SCHEMA_WITHIN(0, MAX_SIZE),
     .default_text = "0", .doc = "of a field that is no square; 0: size"},
    {"columns", FIELD_I64, SCHEMA_AT(struct params, columns), SCHEMA_WITHIN(0, MAX_SIZE),
     .default_text = "0", .doc = "likewise"},
    {"players", FIELD_I64, SCHEMA_AT(struct params, players), .flags = FIELD_MEANING,
     SCHEMA_WITHIN(1, MAX_PLAYERS), .default_text = "2", .doc = "agents"},
    {"food", FIELD_I64, SCHEMA_AT(struct params, food), .flags = FIELD_MEANING,
     SCHEMA_WITHIN(1, MAX_FOOD), .default_text = "2",
     .doc = "food at most; less if there is no place for all"},
    {"min_level", FIELD_I64, SCHEMA_AT(struct params, min_level),
     SCHEMA_WITHIN(1, MAX_LEVEL), .default_text = "1", .doc = "lowest level of a player"},
    {"max_level", FIELD_I64, SCHEMA_AT(struct params, max_level),
     SCHEMA_WITHIN(1, MAX_LEVEL), .default_text = "2",
     .doc = "highest level of a player"},
    {"min_food_level", FIELD_I64, SCHEMA_AT(struct params, min_food_level),
     SCHEMA_WITHIN(1, MAX_FOOD_LEVEL), .default_text = "1",
     .doc = "lowest level of food"},
    {"max_food_level", FIELD_I64, SCHEMA_AT(struct params, max_food_level),
     SCHEMA_WITHIN(0, MAX_FOOD_LEVEL), .default_text = "0",
     .doc = "highest level of food; 0: the sum of the three lowest players'"},
    {"food_levels", FIELD_ENUM, SCHEMA_AT(struct params, food_levels),
     .names = food_level_names, .default_text = "v3",
     .doc = "old: food is below the highest level, as before November 2023"},
    {"sight", FIELD_I64, SCHEMA_AT(struct params, sight), .flags = FIELD_MEANING,
     SCHEMA_WITHIN(0, MAX_SIZE), .default_text = "0",
     .doc = "cells that a player sees in each direction; 0: all"},
    {"cooperate", FIELD_BOOL, SCHEMA_AT(struct params, cooperate),
     .default_text = "false", .doc = "no player can load food alone"},
    {"penalty", FIELD_F64, SCHEMA_AT(struct params, penalty), SCHEMA_WITHIN(0, 1e6),
     .default_text = "0", .doc = "reward subtracted when players fail to load"},
    {"grid", FIELD_BOOL, SCHEMA_AT(struct params, grid), .flags = FIELD_MEANING,
     .default_text = "false", .doc = "observe three layers of the cells in sight"},
    {"observe_levels", FIELD_BOOL, SCHEMA_AT(struct params, observe_levels),
     .flags = FIELD_MEANING, .default_text = "true",
     .doc = "players see players' levels"},
    {"normalize_reward", FIELD_BOOL, SCHEMA_AT(struct params, normalize_reward),
     .default_text = "true", .doc = "the rewards of an episode sum to 1"},
    {"reference_seed", FIELD_I64, SCHEMA_AT(struct params, reference_seed),
     SCHEMA_WITHIN(-1, 1e15), .default_text = "-1",
     .doc = "-1: none; else episode k is the package's reset(seed + k)"},
};
const struct schema foraging_params = {SCHEMA_TABLE(fields), sizeof(struct params)};

struct player {
    int32_t row, col, level;
};

static int64_t rows_of(const struct params *p)
{
    return p->rows != 0 ? p->rows : p->size;
}

static int64_t columns_of(const struct params *p)
{
    return p->columns != 0 ? p->columns : p->size;
}

/* One copy: players and the level of the food in each cell, 0: none. */
struct grid {
    struct player *player;
    int32_t *cell;     /* (rows, cols) */
    int32_t *all_food; /* sum of the levels after the reset */
};

struct world {
    struct params p;
    int entities; /* env.observe: entities */
    int32_t rows, cols, sight;
    size_t n_players, n_copies;
    int32_t *state; /* (E, state_width) */
    size_t state_width;
    int32_t *intent; /* (players): actions of the copy that is being stepped */
    /* For pictures only, not part of the state: */
    int8_t *last;   /* (E, players): the last action; -1: none yet */
    uint8_t *stuck; /* (E, players): 1 if it had no effect */
};

static struct grid grid_of(const struct world *w, size_t copy)
{
    int32_t *s = w->state + copy * w->state_width;

    return (struct grid){.player = (struct player *)(void *)s,
                         .cell = s + 3 * w->n_players,
                         .all_food = s + w->state_width - 1};
}

/* The food at a place; 0 off the grid. */
static int32_t food_at(const struct world *w, const struct grid *g, int32_t row,
                       int32_t col)
{
    if (row < 0 || col < 0 || row >= w->rows || col >= w->cols)
        return 0;
    return g->cell[row * w->cols + col];
}

static int32_t least(int32_t a, int32_t b)
{
    return a < b ? a : b;
}

static int32_t most(int32_t a, int32_t b)
{
    return a > b ? a : b;
}

/* ---- reset ---- */

struct draws {
    const struct env_episode *e;
    uint64_t index;
    int by_reference;
    struct pcg64 reference;
};

static void begin_draws(const struct params *p, const struct env_episode *e,
                        struct draws *ret)
{
    *ret = (struct draws){.e = e, .by_reference = p->reference_seed >= 0};
    if (ret->by_reference)
        pcg64_init(&ret->reference, (uint64_t)p->reference_seed + e->number);
}

/* Uniform in low .. high - 1. */
static int32_t draw(struct draws *d, int32_t low, int32_t high)
{
    double u;

    if (d->by_reference)
        return low + (int32_t)pcg64_integer(&d->reference, (uint32_t)(high - low));
    rng_uniform_f64(d->e->key, d->e->episode, d->index++, &u, 1);
    return low + (int32_t)(u * (double)(high - low));
}

/* The package permutes n levels, which are all alike here. */
static void permute_levels(struct draws *d, int64_t n)
{
    uint32_t order[MAX_FOOD];
    _Static_assert(MAX_PLAYERS <= MAX_FOOD, "room for either's levels");

    if (d->by_reference)
        pcg64_permutation(&d->reference, (uint32_t)n, order);
}

static int is_taken(const struct grid *g, size_t n_players, int32_t row, int32_t col)
{
    for (size_t i = 0; i < n_players; i++) {
        if (g->player[i].row == row && g->player[i].col == col)
            return 1;
    }
    return 0;
}

static void place_players(struct world *w, struct grid *g, struct draws *d)
{
    permute_levels(d, w->p.players);
    for (size_t i = 0; i < w->n_players; i++) {
        struct player *p = &g->player[i];
        int tries = 0;

        do {
            p->row = draw(d, 0, w->rows);
            p->col = draw(d, 0, w->cols);
        } while (is_taken(g, i, p->row, p->col) && ++tries < ATTEMPTS);
        p->level = draw(d, (int32_t)w->p.min_level, (int32_t)w->p.max_level + 1);
    }
}

/* Whether the cell is free, and there is no food next to it or two cells away in a
 * straight line. */
static int is_free_for_food(const struct world *w, const struct grid *g, int32_t row,
                            int32_t col)
{
    for (int32_t r = -1; r <= 1; r++) {
        for (int32_t c = -1; c <= 1; c++) {
            if (food_at(w, g, row + r, col + c) != 0)
                return 0;
        }
    }
    return food_at(w, g, row - 2, col) == 0 && food_at(w, g, row + 2, col) == 0 &&
           food_at(w, g, row, col - 2) == 0 && food_at(w, g, row, col + 2) == 0 &&
           !is_taken(g, w->n_players, row, col);
}

static int by_value(const void *a, const void *b)
{
    int32_t x, y;

    memcpy(&x, a, sizeof(x));
    memcpy(&y, b, sizeof(y));
    return (x > y) - (x < y);
}

/* Returns the highest level of food: the parameter or, if that is 0, the sum of the
 * levels of the three weakest players; one less by the old rule, unless players cooperate. */
static int32_t most_level(const struct world *w, const struct grid *g)
{
    int32_t levels[MAX_PLAYERS], sum = 0;

    if (w->p.max_food_level != 0)
        return (int32_t)w->p.max_food_level;
    for (size_t i = 0; i < w->n_players; i++)
        levels[i] = g->player[i].level;
    qsort(levels, w->n_players, sizeof(levels[0]), by_value);
    for (size_t i = 0; i < w->n_players && i < 3; i++)
        sum += levels[i];
    if (w->p.food_levels == LEVELS_OLD && !w->p.cooperate && sum > w->p.min_food_level)
        sum--;
    return sum;
}

static void place_food(struct world *w, struct grid *g, struct draws *d)
{
    const int32_t highest = most_level(w, g);
    const int32_t from =
        w->p.cooperate ? highest : least((int32_t)w->p.min_food_level, highest);
    int64_t placed = 0;

    permute_levels(d, w->p.food);
    for (int tries = 0; placed < w->p.food && tries < ATTEMPTS; tries++) {
        int32_t row = draw(d, 1, w->rows - 1), col = draw(d, 1, w->cols - 1);
        int32_t *cell = &g->cell[row * w->cols + col];

        if (!is_free_for_food(w, g, row, col))
            continue;
        *cell = draw(d, from, highest + 1);
        *g->all_food += *cell;
        placed++;
    }
}

static void foraging_reset(void *world, size_t copy, const struct env_episode *episode)
{
    struct world *w = world;
    struct grid g = grid_of(w, copy);
    struct draws d;

    begin_draws(&w->p, episode, &d);
    memset(w->state + copy * w->state_width, 0, w->state_width * sizeof(*w->state));
    memset(w->last + copy * w->n_players, -1, w->n_players);
    place_players(w, &g, &d);
    place_food(w, &g, &d);
}

/* ---- a step ---- */

static void step_from(const struct player *p, int32_t action, int32_t *row, int32_t *col)
{
    *row = p->row + (action == SOUTH) - (action == NORTH);
    *col = p->col + (action == EAST) - (action == WEST);
}

/* Finds the food that a player loads from its place: north, south, west, then east. */
static int find_food(const struct world *w, const struct grid *g, const struct player *p,
                     int32_t *row, int32_t *col)
{
    for (int32_t side = NORTH; side <= EAST; side++) {
        step_from(p, side, row, col);
        if (food_at(w, g, *row, *col) > 0)
            return 1;
    }
    return 0;
}

/* The action that is executed: `none` in place of an impossible one. */
static int32_t executed_action(const struct world *w, const struct grid *g,
                               const struct player *p, int32_t action)
{
    int32_t row, col;

    if (action == LOAD)
        return find_food(w, g, p, &row, &col) ? LOAD : NONE;
    step_from(p, action, &row, &col);
    if (row < 0 || col < 0 || row >= w->rows || col >= w->cols ||
        food_at(w, g, row, col) > 0)
        return NONE;
    return action;
}

/* Moves all players at once. If several want the same cell, none of them moves; a player
 * that stays wants its own cell. */
static void move_players(struct world *w, struct grid *g, uint8_t *stuck)
{
    int32_t row[MAX_PLAYERS], col[MAX_PLAYERS];

    for (size_t i = 0; i < w->n_players; i++)
        step_from(&g->player[i], w->intent[i], &row[i], &col[i]);
    for (size_t i = 0; i < w->n_players; i++) {
        int wanted_by = 0;

        for (size_t k = 0; k < w->n_players; k++)
            wanted_by += row[k] == row[i] && col[k] == col[i];
        if (wanted_by > 1) {
            stuck[i] |= w->intent[i] != NONE && w->intent[i] != LOAD;
            continue;
        }
        g->player[i].row = row[i];
        g->player[i].col = col[i];
    }
}

static int is_beside(const struct player *p, int32_t row, int32_t col)
{
    return abs(p->row - row) + abs(p->col - col) == 1;
}

/* Loads food for player i and all who load the same one, and marks them as done. */
static void load(struct world *w, struct grid *g, size_t i, size_t copy,
                 double *const *reward)
{
    int32_t row, col, food, sum = 0;

    if (!find_food(w, g, &g->player[i], &row, &col))
        return;
    food = food_at(w, g, row, col);
    for (size_t k = i; k < w->n_players; k++) {
        if (w->intent[k] == LOAD && is_beside(&g->player[k], row, col))
            sum += g->player[k].level;
    }
    for (size_t k = i; k < w->n_players; k++) {
        if (w->intent[k] != LOAD || !is_beside(&g->player[k], row, col))
            continue;
        w->intent[k] = NONE;
        if (sum < food)
            reward[k][copy] -= w->p.penalty;
        else if (w->p.normalize_reward)
            reward[k][copy] =
                (double)g->player[k].level * food / ((double)sum * *g->all_food);
        else
            reward[k][copy] = (double)g->player[k].level * food;
    }
    if (sum >= food)
        g->cell[row * w->cols + col] = 0;
}

static int is_empty(const struct world *w, const struct grid *g)
{
    for (int32_t i = 0; i < w->rows * w->cols; i++) {
        if (g->cell[i] != 0)
            return 0;
    }
    return 1;
}

static void foraging_step(void *world, const float *const *actions, double *const *reward,
                          uint8_t *const *terminated)
{
    struct world *w = world;

    for (size_t c = 0; c < w->n_copies; c++) {
        struct grid g = grid_of(w, c);
        int over;

        for (size_t i = 0; i < w->n_players; i++) {
            const int32_t wanted =
                (int32_t)env_choice(actions[i] + c * N_ACTIONS, N_ACTIONS);

            reward[i][c] = 0.0;
            /* the chosen action is kept for pictures */
            w->intent[i] = executed_action(w, &g, &g.player[i], wanted);
            w->last[c * w->n_players + i] = (int8_t)wanted;
            w->stuck[c * w->n_players + i] = w->intent[i] != wanted;
        }
        move_players(w, &g, w->stuck + c * w->n_players);
        for (size_t i = 0; i < w->n_players; i++) {
            if (w->intent[i] == LOAD)
                load(w, &g, i, c, reward);
        }
        over = is_empty(w, &g);
        for (size_t i = 0; i < w->n_players; i++)
            terminated[i][c] = (uint8_t)over;
    }
}

/* ---- observing ---- */

static const struct env_metric *foraging_metrics(const struct env_class *class)
{
    static const struct env_metric metrics[] = {
        {"food", "share of the food, by its levels, that was collected", 1}, {NULL}};

    return metrics;
}

static void foraging_measure(void *world, size_t metric, double *ret)
{
    const struct world *w = world;

    for (size_t c = 0; c < w->n_copies; c++) {
        const struct grid g = grid_of(w, c);
        int64_t left = 0;

        for (int32_t i = 0; i < w->rows * w->cols; i++)
            left += g.cell[i];
        ret[c] = *g.all_food > 0 ? 1 - (double)left / *g.all_food : (double)NAN;
    }
}

static size_t player_width(const struct params *p)
{
    return p->observe_levels ? 3 : 2;
}

/* width: 3, or 2 to leave the level out. */
static float *foraging_put(float *ret, size_t width, int32_t row, int32_t col,
                           int32_t level)
{
    *ret++ = (float)row;
    *ret++ = (float)col;
    if (width == 3)
        *ret++ = (float)level;
    return ret;
}

static float *put_unseen(float *ret, size_t width, const float *end)
{
    while (ret < end)
        ret = foraging_put(ret, width, -1, -1, 0);
    return ret;
}

static float *put_players(const struct world *w, const struct grid *g, size_t self,
                          float *ret)
{
    const struct player *me = &g->player[self];

    for (size_t i = 0; i < w->n_players; i++) {
        size_t who = i == 0 ? self : i <= self ? i - 1 : i;
        const struct player *p = &g->player[who];
        int32_t row = p->row - me->row + least(w->sight, me->row);
        int32_t col = p->col - me->col + least(w->sight, me->col);

        if (row >= 0 && col >= 0 && row <= 2 * w->sight && col <= 2 * w->sight)
            ret = foraging_put(ret, player_width(&w->p), row, col, p->level);
    }
    return ret;
}

/* The food in sight, in row order; there is none beyond the field. */
static float *put_food(const struct world *w, const struct grid *g,
                       const struct player *me, float *ret)
{
    const int32_t top = most(me->row - w->sight, 0), left = most(me->col - w->sight, 0);
    const int32_t bottom = least(me->row + w->sight, w->rows - 1);
    const int32_t right = least(me->col + w->sight, w->cols - 1);

    for (int32_t row = top; row <= bottom; row++) {
        const int32_t *cell = g->cell + row * w->cols;

        for (int32_t col = left; col <= right; col++) {
            if (cell[col] > 0)
                ret = foraging_put(ret, 3, row - top, col - left, cell[col]);
        }
    }
    return ret;
}

static void observe_list(const struct world *w, const struct grid *g, size_t i,
                         float *row)
{
    const size_t food_width = 3 * (size_t)w->p.food, each = player_width(&w->p);
    float *end = put_food(w, g, &g->player[i], row);

    (void)put_unseen(end, 3, row + food_width);
    end = put_players(w, g, i, row + food_width);
    (void)put_unseen(end, each, row + food_width + each * w->n_players);
}

/* Three layers of the cells around the player: players, food, and where one can go. */
static void observe_grid(const struct world *w, const struct grid *g, size_t i,
                         float *layers)
{
    const int32_t side = 2 * w->sight + 1, cells = side * side;
    const int32_t top = g->player[i].row - w->sight, left = g->player[i].col - w->sight;

    for (int32_t k = 0; k < cells; k++) {
        const int32_t row = top + k / side, col = left + k % side;
        const int32_t food = food_at(w, g, row, col);

        layers[k] = 0;
        layers[cells + k] = (float)food;
        layers[2 * cells + k] =
            row >= 0 && col >= 0 && row < w->rows && col < w->cols && food == 0;
    }
    for (size_t p = 0; p < w->n_players; p++) {
        const struct player *other = &g->player[p];
        const int32_t row = other->row - top, col = other->col - left;

        if (row < 0 || col < 0 || row >= side || col >= side)
            continue;
        layers[row * side + col] = w->p.observe_levels ? (float)other->level : 1;
        layers[2 * cells + row * side + col] = 0;
    }
}

/* ---- as entities: food, then the other players ---- */

enum { FOOD, PLAYER, ENTITY_WIDTH = 6 /* its kind (one-hot), place, level; there */ };

static float *put_entity(float *ret, int kind, const struct player *me, int32_t row,
                         int32_t col, int32_t level)
{
    *ret++ = kind == FOOD;
    *ret++ = kind == PLAYER;
    *ret++ = (float)(row - me->row);
    *ret++ = (float)(col - me->col);
    *ret++ = (float)level;
    *ret++ = 1;
    return ret;
}

static size_t entities_of(const struct params *p)
{
    return (size_t)(p->food + p->players - 1);
}

/* The own part is the player as `observe_list` shows it. What is out of sight or was
 * collected is not there. */
static void observe_entities(const struct world *w, const struct grid *g, size_t self,
                             float *row)
{
    const struct player *me = &g->player[self];
    float *next = foraging_put(row, player_width(&w->p), least(w->sight, me->row),
                               least(w->sight, me->col), me->level);
    float *end = next + ENTITY_WIDTH * entities_of(&w->p);

    for (int32_t r = me->row - w->sight; r <= me->row + w->sight; r++)
        for (int32_t c = me->col - w->sight; c <= me->col + w->sight; c++)
            if (food_at(w, g, r, c) > 0)
                next = put_entity(next, FOOD, me, r, c, food_at(w, g, r, c));
    for (size_t i = 0; i < w->n_players; i++) {
        const struct player *p = &g->player[i];

        if (i != self && abs(p->row - me->row) <= w->sight &&
            abs(p->col - me->col) <= w->sight)
            next = put_entity(next, PLAYER, me, p->row, p->col,
                              w->p.observe_levels ? p->level : 0);
    }
    memset(next, 0, (size_t)(end - next) * sizeof(*next));
}

static int32_t sight_of(const struct params *p)
{
    const int64_t rows = rows_of(p), cols = columns_of(p);

    return (int32_t)(p->sight != 0 ? p->sight : rows > cols ? rows : cols);
}

static size_t obs_width(const struct params *p, int entities)
{
    const size_t side = 2 * (size_t)sight_of(p) + 1;

    if (entities)
        return player_width(p) + ENTITY_WIDTH * entities_of(p);
    return p->grid ? 3 * side * side
                   : 3 * (size_t)p->food + player_width(p) * (size_t)p->players;
}

static void foraging_observe(void *world, size_t first, size_t n, float *const *obs)
{
    const struct world *w = world;
    const size_t width = obs_width(&w->p, w->entities);

    for (size_t i = 0; i < w->n_players; i++) {
        for (size_t c = first; c < first + n; c++) {
            const struct grid g = grid_of(w, c);

            if (w->entities)
                observe_entities(w, &g, i, obs[i] + c * width);
            else if (w->p.grid)
                observe_grid(w, &g, i, obs[i] + c * width);
            else
                observe_list(w, &g, i, obs[i] + c * width);
        }
    }
}

/* ---- the rest of a world ---- */

/* The most food that fits into a grid of this size: cells off the border, no two nearer
 * than three steps (is_free_for_food). Found by exhaustive search. */
static int64_t most_food(int64_t size)
{
    static const uint8_t at_size[] = {0,  0,  0,  1,  1,  2,  4,  6,  8,  10,
                                      13, 17, 20, 25, 29, 34, 40, 45, 52, 58};

    return size < (int64_t)sizeof(at_size) ? at_size[size] : MAX_FOOD;
}

/* Checks that food and players fit. For food on a field that is not square, checks the
 * square around it; if the field itself has less room, less food is placed. */
static int check_room(const struct params *p, const struct yaml_node *params,
                      struct err *err)
{
    const int64_t rows = rows_of(p), columns = columns_of(p);
    const int64_t cells = rows * columns,
                  food = most_food(rows > columns ? rows : columns);
    const char *key = p->players >= cells ? "players" : "food";
    const struct yaml_node *at = yaml_find(params, key);
    char path[32];

    if (p->food <= food && p->food + p->players <= cells)
        return 0;
    if (at == NULL) /* report the line of whichever parameter was given */
        at = params->child[0];
    (void)snprintf(path, sizeof(path), "env.params.%s", key);
    return yaml_fail(at, path, err,
                     "%lld players and %lld food do not fit into size %lld, which has "
                     "%lld cells, and places for %lld food",
                     (long long)p->players, (long long)p->food,
                     (long long)(rows > columns ? rows : columns), (long long)cells,
                     (long long)food);
}

/* Refuses value `name` if it is below `least`, the value of `other`. */
static int check_least(const struct yaml_node *params, const char *name, int64_t value,
                       const char *other, int64_t least, struct err *err)
{
    const struct yaml_node *at = yaml_find(params, name);
    char path[48];

    if (value >= least)
        return 0;
    (void)snprintf(path, sizeof(path), "env.params.%s", name);
    return yaml_fail(at != NULL ? at : params->child[0], path, err,
                     "found %lld, expected at least %s, %lld", (long long)value, other,
                     (long long)least);
}

static int check_params(const struct params *p, const struct yaml_node *params,
                        struct err *err)
{
    int rc = check_room(p, params, err);

    if (rc == 0)
        rc = check_least(params, "max_level", p->max_level, "min_level", p->min_level,
                         err);
    if (rc == 0 && p->max_food_level != 0)
        rc = check_least(params, "max_food_level", p->max_food_level, "min_food_level",
                         p->min_food_level, err);
    if (rc == 0)
        rc = check_least(params, "rows", rows_of(p), "the smallest field's", MIN_SIZE,
                         err);
    return rc == 0 ? check_least(params, "columns", columns_of(p), "the smallest field's",
                                 MIN_SIZE, err)
                   : rc;
}

static int foraging_describe(const struct env_class *class,
                             const struct env_config *config, const void *params,
                             struct arena *arena, struct env_spec *ret, struct err *err)
{
    const struct params *p = params;
    const int entities = config->observe == ENV_OBSERVE_ENTITIES;
    int rc = check_params(p, config->params, err);

    if (rc < 0)
        return rc;
    if (entities && p->grid)
        return err_set_at(err, ERR_CONFIG, ERR_AT(.key = "env.params.grid"),
                          "found true, expected false with env.observe: entities");
    ret->n_agents = (size_t)p->players;
    ret->agents = ARENA_ARRAY(arena, struct env_agent, ret->n_agents);
    for (size_t i = 0; i < ret->n_agents; i++) {
        struct env_agent *agent = &ret->agents[i];

        env_agent_set_name(agent, "player", i);
        agent->obs_width = (int32_t)obs_width(p, entities);
        agent->entities[0] = entities ? (int64_t)entities_of(p) : 0;
        agent->entities[1] = entities ? ENTITY_WIDTH : 0;
        agent->space = (struct action_space){.kind = SPACE_DISCRETE,
                                             .n_heads = 1,
                                             .heads = {N_ACTIONS},
                                             .width = N_ACTIONS};
    }
    return 0;
}

static void *foraging_open(const struct env_class *class, const struct env_config *config,
                           const void *params, size_t copies, struct arena *arena)
{
    struct world *w = ARENA_NEW(arena, struct world);

    w->p = *(const struct params *)params;
    w->entities = config->observe == ENV_OBSERVE_ENTITIES;
    w->rows = (int32_t)rows_of(&w->p);
    w->cols = (int32_t)columns_of(&w->p);
    w->sight = sight_of(&w->p);
    w->n_players = (size_t)w->p.players;
    w->n_copies = copies;
    w->state_width = 3 * w->n_players + (size_t)(w->rows * w->cols) + 1;
    w->state = ARENA_ARRAY(arena, int32_t, copies * w->state_width);
    w->intent = ARENA_ARRAY(arena, int32_t, w->n_players);
    w->last = ARENA_ARRAY(arena, int8_t, copies * w->n_players);
    w->stuck = ARENA_ARRAY(arena, uint8_t, copies * w->n_players);
    return w;
}

static size_t foraging_state_bytes(const void *world)
{
    const struct world *w = world;

    return w->n_copies * w->state_width * sizeof(*w->state);
}

static void foraging_save(const void *world, void *dst)
{
    const struct world *w = world;

    memcpy(dst, w->state, foraging_state_bytes(w));
}

static int is_possible(const struct world *w, size_t i, int32_t x)
{
    size_t at = i % w->state_width;

    if (at >= 3 * w->n_players || at % 3 == 2)
        return x >= 0 && x <= MAX_LEVEL * MAX_PLAYERS * MAX_FOOD;
    return x >= 0 && x < (at % 3 == 0 ? w->rows : w->cols);
}

static int foraging_load(void *world, const void *src, struct err *err)
{
    struct world *w = world;

    for (size_t i = 0; i < w->n_copies * w->state_width; i++) {
        int32_t x;

        memcpy(&x, (const char *)src + i * sizeof(x), sizeof(x));
        if (!is_possible(w, i, x))
            return err_set(err, ERR_CORRUPT,
                           "entry %zu of the grids has the impossible value %d", i,
                           (int)x);
    }
    memcpy(w->state, src, foraging_state_bytes(w));
    memset(w->last, -1, w->n_copies * w->n_players);
    return 0;
}

/* ---- drawing ---- */

static struct scene_thing *foraging_add(const struct world *w, struct scene *ret,
                                        enum scene_kind kind, int32_t row, int32_t col,
                                        double size)
{
    return scene_add(ret, kind, col + 0.5, w->rows - row - 0.5, size);
}

static void draw_player(const struct world *w, const struct player *p, size_t i,
                        size_t copy, struct scene *ret)
{
    const int last = w->last[copy * w->n_players + i];
    const int stuck = w->stuck[copy * w->n_players + i];
    struct scene_thing *t = foraging_add(w, ret, SCENE_AGENT, p->row, p->col, 0.32);
    int32_t row, col;

    t->id = t->agent = (int32_t)i;
    scene_label(t, "%d", (int)p->level);
    if (last < 0)
        return;
    scene_set_action(ret, i, stuck ? 0.3 : 1.0, "%c", "-NSWEL"[last]);
    if (last == LOAD && !stuck)
        foraging_add(w, ret, SCENE_LOADING, p->row, p->col, 0.42)->agent = (int32_t)i;
    if (last == LOAD || !stuck)
        return;
    step_from(p, last, &row, &col);
    t = foraging_add(w, ret, SCENE_CONTACT, p->row, p->col, 0.14);
    t->x += (col - p->col) * 0.44;
    t->y -= (row - p->row) * 0.44;
}

static void foraging_draw(const void *world, size_t copy, struct scene *ret)
{
    const struct world *w = world;
    const struct grid g = grid_of(w, copy);

    ret->x1 = w->cols;
    ret->y1 = w->rows;
    ret->is_grid = 1;
    ret->frame_ms = 300;
    ret->verb = "does";
    ret->action_key = "N S W E moves, L loads, - stays; pale: in vain";
    ret->name[SCENE_AGENT] = "player and its level";
    ret->name[SCENE_FOOD] = "food and its level";
    ret->name[SCENE_CONTACT] = "blocked";
    for (int32_t i = 0; i < w->rows * w->cols; i++) {
        struct scene_thing *t;

        if (g.cell[i] == 0)
            continue;
        t = foraging_add(w, ret, SCENE_FOOD, i / w->cols, i % w->cols, 0.36);
        t->id = (int32_t)w->n_players + i;
        scene_label(t, "%d", (int)g.cell[i]);
    }
    for (size_t i = 0; i < w->n_players; i++)
        draw_player(w, &g.player[i], i, copy, ret);
}

const struct env_ops foraging_ops = {
    .describe = foraging_describe,
    .open = foraging_open,
    .reset = foraging_reset,
    .step = foraging_step,
    .metrics = foraging_metrics,
    .measure = foraging_measure,
    .observe = foraging_observe,
    .state_bytes = foraging_state_bytes,
    .save = foraging_save,
    .load = foraging_load,
    .draw = foraging_draw,
};
