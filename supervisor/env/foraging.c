#include "supervisor/env/foraging.h"

#include "common/config/yaml_tree.h"
#include "common/err/check.h"
#include "supervisor/env/env_class.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_SIZE = 64, MAX_PLAYERS = 32, MAX_FOOD = 64, MAX_LEVEL = 100, ATTEMPTS = 1000 };
enum { NONE, NORTH, SOUTH, WEST, EAST, LOAD, N_ACTIONS };

struct params {
    int64_t size, players, food, max_level, sight;
    int cooperate;
    double penalty;
};

static const struct field fields[] = {
    {"size", FIELD_I64, SCHEMA_AT(struct params, size), SCHEMA_WITHIN(4, MAX_SIZE),
     .default_text = "8", .doc = "number of rows and of columns"},
    {"players", FIELD_I64, SCHEMA_AT(struct params, players), .flags = FIELD_MEANING,
     SCHEMA_WITHIN(1, MAX_PLAYERS), .default_text = "2", .doc = "agents"},
    {"food", FIELD_I64, SCHEMA_AT(struct params, food), .flags = FIELD_MEANING,
     SCHEMA_WITHIN(1, MAX_FOOD), .default_text = "2",
     .doc = "food at most; less if there is no place for all"},
    {"max_level", FIELD_I64, SCHEMA_AT(struct params, max_level),
     SCHEMA_WITHIN(1, MAX_LEVEL), .default_text = "2",
     .doc = "highest level of a player"},
    {"sight", FIELD_I64, SCHEMA_AT(struct params, sight), .flags = FIELD_MEANING,
     SCHEMA_WITHIN(0, MAX_SIZE), .default_text = "0",
     .doc = "cells that a player sees in each direction; 0: all"},
    {"cooperate", FIELD_BOOL, SCHEMA_AT(struct params, cooperate),
     .default_text = "false", .doc = "no player can load food alone"},
    {"penalty", FIELD_F64, SCHEMA_AT(struct params, penalty), SCHEMA_WITHIN(0, 1e6),
     .default_text = "0", .doc = "reward subtracted when players fail to load"},
};
const struct schema foraging_params = {SCHEMA_TABLE(fields), sizeof(struct params)};

struct player {
    int32_t row, col, level;
};

/* One copy: players and the level of the food in each cell, 0: none. */
struct grid {
    struct player *player;
    int32_t *cell;     /* (size, size) */
    int32_t *all_food; /* sum of the levels after the reset */
};

struct world {
    struct params p;
    int32_t size, sight;
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
    if (row < 0 || col < 0 || row >= w->size || col >= w->size)
        return 0;
    return g->cell[row * w->size + col];
}

/* ---- reset ---- */

struct draws {
    const struct env_episode *e;
    uint64_t index;
};

/* Uniform in low .. high - 1. */
static int32_t draw(struct draws *d, int32_t low, int32_t high)
{
    double u;

    rng_uniform_f64(d->e->key, d->e->episode, d->index++, &u, 1);
    return low + (int32_t)(u * (double)(high - low));
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
    for (size_t i = 0; i < w->n_players; i++) {
        struct player *p = &g->player[i];
        int tries = 0;

        do {
            p->row = draw(d, 0, w->size);
            p->col = draw(d, 0, w->size);
        } while (is_taken(g, i, p->row, p->col) && ++tries < ATTEMPTS);
        p->level = draw(d, 1, (int32_t)w->p.max_level + 1);
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

/* The highest level of food: what the three weakest players can load together. */
static int32_t most_level(const struct world *w, const struct grid *g)
{
    int32_t levels[MAX_PLAYERS], sum = 0;

    for (size_t i = 0; i < w->n_players; i++)
        levels[i] = g->player[i].level;
    qsort(levels, w->n_players, sizeof(levels[0]), by_value);
    for (size_t i = 0; i < w->n_players && i < 3; i++)
        sum += levels[i];
    return sum;
}

static void place_food(struct world *w, struct grid *g, struct draws *d)
{
    const int32_t most = most_level(w, g), least = w->p.cooperate ? most : 1;
    int64_t placed = 0;

    for (int tries = 0; placed < w->p.food && tries < ATTEMPTS; tries++) {
        int32_t row = draw(d, 1, w->size - 1), col = draw(d, 1, w->size - 1);

        if (!is_free_for_food(w, g, row, col))
            continue;
        g->cell[row * w->size + col] = draw(d, least, most + 1);
        *g->all_food += g->cell[row * w->size + col];
        placed++;
    }
}

static void foraging_reset(void *world, size_t copy, const struct env_episode *episode)
{
    struct world *w = world;
    struct grid g = grid_of(w, copy);
    struct draws d = {.e = episode};

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
    if (row < 0 || col < 0 || row >= w->size || col >= w->size ||
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
        else
            reward[k][copy] =
                (double)g->player[k].level * food / ((double)sum * *g->all_food);
    }
    if (sum >= food)
        g->cell[row * w->size + col] = 0;
}

static int is_empty(const struct world *w, const struct grid *g)
{
    for (int32_t i = 0; i < w->size * w->size; i++) {
        if (g->cell[i] != 0)
            return 0;
    }
    return 1;
}

/* Sets the action of player i of a copy, and records the chosen one for pictures. */
static void choose(struct world *w, const struct grid *g, size_t i, size_t copy,
                   const float *action)
{
    const int32_t wanted = (int32_t)env_choice(action, N_ACTIONS);

    w->intent[i] = executed_action(w, g, &g->player[i], wanted);
    w->last[copy * w->n_players + i] = (int8_t)wanted;
    w->stuck[copy * w->n_players + i] = w->intent[i] != wanted;
}

static void foraging_step(void *world, const float *const *actions, double *const *reward,
                          uint8_t *const *terminated)
{
    struct world *w = world;

    for (size_t c = 0; c < w->n_copies; c++) {
        struct grid g = grid_of(w, c);

        for (size_t i = 0; i < w->n_players; i++) {
            reward[i][c] = 0.0;
            choose(w, &g, i, c, actions[i] + c * N_ACTIONS);
        }
        move_players(w, &g, w->stuck + c * w->n_players);
        for (size_t i = 0; i < w->n_players; i++) {
            if (w->intent[i] == LOAD)
                load(w, &g, i, c, reward);
        }
        for (size_t i = 0; i < w->n_players; i++)
            terminated[i][c] = (uint8_t)is_empty(w, &g);
    }
}

/* ---- observing ---- */

static float *put(float *ret, int32_t row, int32_t col, int32_t level)
{
    *ret++ = (float)row;
    *ret++ = (float)col;
    *ret++ = (float)level;
    return ret;
}

static float *put_unseen(float *ret, const float *end)
{
    while (ret < end)
        ret = put(ret, -1, -1, 0);
    return ret;
}

static int32_t least(int32_t a, int32_t b)
{
    return a < b ? a : b;
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
            ret = put(ret, row, col, p->level);
    }
    return ret;
}

static float *put_food(const struct world *w, const struct grid *g,
                       const struct player *me, float *ret)
{
    for (int32_t row = me->row - w->sight; row <= me->row + w->sight; row++) {
        for (int32_t col = me->col - w->sight; col <= me->col + w->sight; col++) {
            if (food_at(w, g, row, col) > 0)
                ret = put(ret, row - me->row + least(w->sight, me->row),
                          col - me->col + least(w->sight, me->col),
                          food_at(w, g, row, col));
        }
    }
    return ret;
}

static void foraging_observe(void *world, size_t first, size_t n, float *const *obs)
{
    const struct world *w = world;
    const size_t food_width = 3 * (size_t)w->p.food;
    const size_t width = food_width + 3 * w->n_players;

    for (size_t i = 0; i < w->n_players; i++) {
        for (size_t c = first; c < first + n; c++) {
            const struct grid g = grid_of(w, c);
            float *row = obs[i] + c * width, *end;

            end = put_food(w, &g, &g.player[i], row);
            (void)put_unseen(end, row + food_width);
            end = put_players(w, &g, i, row + food_width);
            (void)put_unseen(end, row + width);
        }
    }
}

/* ---- the rest of a world ---- */

/* The most food that fits into a grid of this size: cells off the border, no two nearer
 * than three steps (is_free_for_food). Found by exhaustive search. */
static int64_t most_food(int64_t size)
{
    static const uint8_t most[] = {0,  0,  0,  1,  1,  2,  4,  6,  8,  10,
                                   13, 17, 20, 25, 29, 34, 40, 45, 52, 58};

    return size < (int64_t)sizeof(most) ? most[size] : MAX_FOOD;
}

static int check_room(const struct params *p, const struct yaml_node *params,
                      struct err *err)
{
    const int64_t cells = p->size * p->size, food = most_food(p->size);
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
                     (long long)p->players, (long long)p->food, (long long)p->size,
                     (long long)cells, (long long)food);
}

static int foraging_describe(const struct env_class *class,
                             const struct env_config *config, const void *params,
                             struct arena *arena, struct env_spec *ret, struct err *err)
{
    const struct params *p = params;
    int rc = check_room(p, config->params, err);

    if (rc < 0)
        return rc;
    ret->n_agents = (size_t)p->players;
    ret->agents = ARENA_ARRAY(arena, struct env_agent, ret->n_agents);
    for (size_t i = 0; i < ret->n_agents; i++) {
        struct env_agent *agent = &ret->agents[i];

        env_agent_set_name(agent, "player", i);
        agent->obs_width = (int32_t)(3 * (p->food + p->players));
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
    w->size = (int32_t)w->p.size;
    w->sight = w->p.sight != 0 ? (int32_t)w->p.sight : w->size;
    w->n_players = (size_t)w->p.players;
    w->n_copies = copies;
    w->state_width = 3 * w->n_players + (size_t)(w->size * w->size) + 1;
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
    return x >= 0 && x < w->size;
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

static struct scene_thing *add(const struct world *w, struct scene *ret,
                               enum scene_kind kind, int32_t row, int32_t col,
                               double size)
{
    return scene_add(ret, kind, col + 0.5, w->size - row - 0.5, size);
}

static void draw_food(const struct world *w, const struct grid *g, struct scene *ret)
{
    for (int32_t i = 0; i < w->size * w->size; i++) {
        struct scene_thing *t;

        if (g->cell[i] == 0)
            continue;
        t = add(w, ret, SCENE_FOOD, i / w->size, i % w->size, 0.36);
        t->id = (int32_t)w->n_players + i;
        scene_label(t, "%d", (int)g->cell[i]);
    }
}

static void draw_player(const struct world *w, const struct player *p, size_t i,
                        size_t copy, struct scene *ret)
{
    const int last = w->last[copy * w->n_players + i];
    const int stuck = w->stuck[copy * w->n_players + i];
    struct scene_thing *t = add(w, ret, SCENE_AGENT, p->row, p->col, 0.32);
    int32_t row, col;

    t->id = t->agent = (int32_t)i;
    scene_label(t, "%d", (int)p->level);
    if (last < 0)
        return;
    scene_set_action(ret, i, stuck ? 0.3 : 1.0, "%c", "-NSWEL"[last]);
    if (last == LOAD && !stuck)
        add(w, ret, SCENE_LOADING, p->row, p->col, 0.42)->agent = (int32_t)i;
    if (last == LOAD || !stuck)
        return;
    step_from(p, last, &row, &col);
    t = add(w, ret, SCENE_CONTACT, p->row, p->col, 0.14);
    t->x += (col - p->col) * 0.44;
    t->y -= (row - p->row) * 0.44;
}

static void foraging_draw(const void *world, size_t copy, struct scene *ret)
{
    const struct world *w = world;
    const struct grid g = grid_of(w, copy);

    ret->x1 = ret->y1 = w->size;
    ret->is_grid = 1;
    ret->frame_ms = 300;
    ret->verb = "does";
    ret->action_key = "N S W E moves, L loads, - stays; pale: in vain";
    ret->name[SCENE_AGENT] = "player and its level";
    ret->name[SCENE_FOOD] = "food and its level";
    ret->name[SCENE_CONTACT] = "blocked";
    draw_food(w, &g, ret);
    for (size_t i = 0; i < w->n_players; i++)
        draw_player(w, &g.player[i], i, copy, ret);
}

const struct env_ops foraging_ops = {
    .describe = foraging_describe,
    .open = foraging_open,
    .reset = foraging_reset,
    .step = foraging_step,
    .observe = foraging_observe,
    .state_bytes = foraging_state_bytes,
    .save = foraging_save,
    .load = foraging_load,
    .draw = foraging_draw,
};
