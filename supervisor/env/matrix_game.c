#include "supervisor/env/matrix_game.h"

#include "common/config/yaml_tree.h"
#include "common/err/check.h"
#include "supervisor/env/env_class.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_PLAYERS = 8, MAX_ACTIONS = 64, MAX_CELLS = 1 << 16 };

const struct matrix_game matrix_game_climbing = {
    "{all: [[11, -30, 0], [-30, 7, 6], [0, 0, 5]]}"};
const struct matrix_game matrix_game_penalty = {
    "{all: [[10, 0, k], [0, 2, 0], [k, 0, 10]]}"};
const struct matrix_game matrix_game_prisoners_dilemma = {
    "{agent_0: [[3, 0], [5, 1]], agent_1: [[3, 5], [0, 1]]}"};
const struct matrix_game matrix_game_stag_hunt = {
    "{agent_0: [[4, 1], [3, 2]], agent_1: [[4, 3], [1, 2]]}"};
const struct matrix_game matrix_game_any = {NULL};

/* ---- parameters ---- */

struct params {
    int observe_last;
    double k;
    const struct yaml_node *payoffs;
};

#define OBSERVE_LAST                                                                     \
    {                                                                                    \
        "observe_last", FIELD_BOOL, SCHEMA_AT(struct params, observe_last),              \
            .flags = FIELD_MEANING, .default_text = "false",                             \
            .doc = "the last joint action is observed"                                   \
    }

static const struct field fields[] = {OBSERVE_LAST};
const struct schema matrix_game_params = {SCHEMA_TABLE(fields), sizeof(struct params)};

static const struct field penalty_fields[] = {
    {"k", FIELD_F64, SCHEMA_AT(struct params, k), SCHEMA_WITHIN(-1e6, 0),
     .default_text = "-25", .doc = "payoff of missing each other"},
    OBSERVE_LAST,
};
const struct schema matrix_game_penalty_params = {SCHEMA_TABLE(penalty_fields),
                                                  sizeof(struct params)};

static const struct field any_fields[] = {
    {"payoffs", FIELD_TREE, SCHEMA_AT(struct params, payoffs), .flags = FIELD_MEANING,
     .default_text = "{all: [[1, 0], [0, 1]]}",
     .doc = "{all: TABLE}, or a table for each agent"},
    OBSERVE_LAST,
};
const struct schema matrix_game_any_params = {SCHEMA_TABLE(any_fields),
                                              sizeof(struct params)};

/* ---- the table ---- */

struct game {
    size_t n_players, n_cells;
    size_t actions[MAX_PLAYERS];
    double *payoff[MAX_PLAYERS]; /* (n_cells), the first player's action slowest */
};

struct world {
    struct game game;
    int observe_last;
    size_t n_copies;
    int32_t *last; /* (players, E): the last actions; -1 before the first step */
};

/* Measures the levels of a table: each level must have the same length everywhere. */
static int measure(struct game *g, const struct yaml_node *table, struct err *err)
{
    g->n_players = 0;
    g->n_cells = 1;
    for (const struct yaml_node *n = table; n->kind == YAML_LIST; n = n->child[0]) {
        if (n->n == 0 || n->n > MAX_ACTIONS || g->n_players == MAX_PLAYERS)
            return yaml_fail(n, "env.params.payoffs", err,
                             "expected 1 to %d actions of at most %d agents", MAX_ACTIONS,
                             MAX_PLAYERS);
        g->actions[g->n_players++] = n->n;
        g->n_cells *= n->n;
        if (g->n_cells > MAX_CELLS)
            return yaml_fail(n, "env.params.payoffs", err, "more than %d joint actions",
                             MAX_CELLS);
    }
    if (g->n_players == 0)
        return yaml_fail(table, "env.params.payoffs", err,
                         "expected lists within lists, e.g. {all: [[1, 0], [0, 1]]}");
    return 0;
}

/* Reads one payoff. k: the value of the letter k; NULL: k is not allowed. */
static int read_cell(const struct yaml_node *n, const double *k, double *ret,
                     struct err *err)
{
    const int is_plain = n->kind == YAML_SCALAR && !n->quoted;
    char *end = NULL;

    if (is_plain && k != NULL && strcmp(n->text, "k") == 0) {
        *ret = *k;
        return 0;
    }
    *ret = is_plain ? strtod(n->text, &end) : 0;
    if (end == NULL || end == n->text || *end != '\0' || !isfinite(*ret))
        return yaml_fail(n, "env.params.payoffs", err, "expected a number for a payoff");
    return 0;
}

/* Reads the payoffs below one list of the table. */
static int read_level(const struct game *g, const struct yaml_node *n, size_t player,
                      const double *k, double **cell, struct err *err)
{
    int rc = 0;

    if (player == g->n_players)
        return read_cell(n, k, (*cell)++, err);
    if (n->kind != YAML_LIST || n->n != g->actions[player])
        return yaml_fail(n, "env.params.payoffs", err, "expected a list of %zu here",
                         g->actions[player]);
    for (size_t i = 0; rc == 0 && i < n->n; i++)
        rc = read_level(g, n->child[i], player + 1, k, cell, err);
    return rc;
}

/* payoffs: {all: TABLE}, or {agent_0: TABLE, agent_1: TABLE, ...}. */
static int read_game(struct game *g, const struct yaml_node *payoffs, const double *k,
                     struct arena *arena, struct err *err)
{
    const struct yaml_node *all = yaml_find(payoffs, "all");
    int rc = measure(g, payoffs->child[0], err);

    if (rc < 0)
        return rc;
    if (payoffs->n != (all != NULL ? 1 : g->n_players))
        return yaml_fail(payoffs, "env.params.payoffs", err,
                         "found %zu tables of %zu agents, expected all, or one of each",
                         payoffs->n, g->n_players);
    for (size_t p = 0; rc == 0 && p < g->n_players; p++) {
        double *cell = g->payoff[p] = ARENA_ARRAY(arena, double, g->n_cells);
        const struct yaml_node *table = all;
        struct env_agent agent;

        env_agent_set_name(&agent, "agent", p);
        if (all == NULL)
            table = yaml_find(payoffs, agent.name);
        if (table == NULL)
            return yaml_fail(payoffs, "env.params.payoffs", err, "%s has no table",
                             agent.name);
        rc = read_level(g, table, 0, k, &cell, err);
    }
    return rc;
}

static int load_game(struct game *g, const struct matrix_game *row,
                     const struct params *p, struct arena *arena, struct err *err)
{
    struct yaml_node *payoffs;
    int rc;

    if (row->payoffs == NULL)
        return read_game(g, p->payoffs, NULL, arena, err);
    rc = yaml_tree_parse(&payoffs, arena, row->payoffs, strlen(row->payoffs), "payoffs",
                         0, err);
    return rc < 0 ? rc : read_game(g, payoffs, &p->k, arena, err);
}

/* ---- playing ---- */

static size_t joint_width(const struct game *g)
{
    size_t width = 0;

    for (size_t p = 0; p < g->n_players; p++)
        width += g->actions[p];
    return width;
}

static int matrix_describe(const struct env_class *class, const struct env_config *config,
                           const void *params, struct arena *arena, struct env_spec *ret,
                           struct err *err)
{
    const struct params *p = params;
    struct game g;
    int rc = load_game(&g, class->scenario, p, arena, err);

    if (rc < 0)
        return rc;
    ret->n_agents = g.n_players;
    ret->agents = ARENA_ARRAY(arena, struct env_agent, g.n_players);
    for (size_t a = 0; a < g.n_players; a++) {
        struct env_agent *agent = &ret->agents[a];

        env_agent_set_name(agent, "agent", a);
        agent->obs_width = p->observe_last ? (int32_t)joint_width(&g) : 1;
        agent->space = (struct action_space){.kind = SPACE_DISCRETE,
                                             .n_heads = 1,
                                             .heads = {(int32_t)g.actions[a]},
                                             .width = (int32_t)g.actions[a]};
    }
    return 0;
}

static void *matrix_open(const struct env_class *class, const struct env_config *config,
                         const void *params, size_t copies, struct arena *arena)
{
    const struct params *p = params;
    struct world *w = ARENA_NEW(arena, struct world);
    int rc = load_game(&w->game, class->scenario, p, arena, NULL);

    CHECK(rc == 0, "a game that was described cannot be opened");
    w->observe_last = p->observe_last;
    w->n_copies = copies;
    w->last = ARENA_ARRAY(arena, int32_t, w->game.n_players * copies);
    return w;
}

static void matrix_reset(void *world, size_t copy, const struct env_episode *episode)
{
    struct world *w = world;

    for (size_t p = 0; p < w->game.n_players; p++)
        w->last[p * w->n_copies + copy] = -1;
}

static void matrix_step(void *world, const float *const *actions, double *const *reward,
                        uint8_t *const *terminated)
{
    struct world *w = world;
    const struct game *g = &w->game;

    for (size_t c = 0; c < w->n_copies; c++) {
        size_t cell = 0;

        for (size_t p = 0; p < g->n_players; p++) {
            size_t a = env_choice(actions[p] + c * g->actions[p], g->actions[p]);

            w->last[p * w->n_copies + c] = (int32_t)a;
            cell = cell * g->actions[p] + a;
        }
        for (size_t p = 0; p < g->n_players; p++)
            reward[p][c] = g->payoff[p][cell];
    }
}

/* One copy's observation, which is the same for all agents. */
static void put_last(const struct world *w, size_t copy, float *ret)
{
    for (size_t p = 0; p < w->game.n_players; p++) {
        int32_t last = w->last[p * w->n_copies + copy];

        for (size_t i = 0; i < w->game.actions[p]; i++)
            *ret++ = (int32_t)i == last ? 1.0f : 0.0f;
    }
}

static void matrix_observe(void *world, size_t first, size_t n, float *const *obs)
{
    const struct world *w = world;
    const size_t width = w->observe_last ? joint_width(&w->game) : 1;

    for (size_t a = 0; a < w->game.n_players; a++) {
        for (size_t c = first; c < first + n; c++) {
            if (w->observe_last)
                put_last(w, c, obs[a] + c * width);
            else
                obs[a][c] = 1.0f;
        }
    }
}

static size_t matrix_state_bytes(const void *world)
{
    const struct world *w = world;

    return w->game.n_players * w->n_copies * sizeof(*w->last);
}

static void matrix_save(const void *world, void *dst)
{
    const struct world *w = world;

    memcpy(dst, w->last, matrix_state_bytes(w));
}

static int matrix_load(void *world, const void *src, struct err *err)
{
    struct world *w = world;

    for (size_t i = 0; i < w->game.n_players * w->n_copies; i++) {
        int32_t last;

        memcpy(&last, (const char *)src + i * sizeof(last), sizeof(last));
        if (last < -1 || last >= (int32_t)w->game.actions[i / w->n_copies])
            return err_set(err, ERR_CORRUPT, "entry %zu: there is no action %d", i,
                           (int)last);
    }
    memcpy(w->last, src, matrix_state_bytes(w));
    return 0;
}

/* ---- drawing: the first agent's actions are rows, the second's columns ---- */

/* The cell in this row and column; agents from the third on as in their last action. */
static size_t cell_at(const struct world *w, size_t copy, size_t row, size_t col)
{
    const struct game *g = &w->game;
    size_t cell = 0;

    for (size_t p = 0; p < g->n_players; p++) {
        int32_t last = w->last[p * w->n_copies + copy];
        size_t a = p == 0 ? row : p == 1 ? col : last < 0 ? 0 : (size_t)last;

        cell = cell * g->actions[p] + a;
    }
    return cell;
}

static double mean_payoff(const struct game *g, size_t cell)
{
    double sum = 0;

    for (size_t p = 0; p < g->n_players; p++)
        sum += g->payoff[p][cell];
    return sum / (double)g->n_players;
}

static int is_common(const struct game *g)
{
    int common = 1;

    for (size_t p = 1; p < g->n_players; p++)
        common &= memcmp(g->payoff[p], g->payoff[0], g->n_cells * sizeof(double)) == 0;
    return common;
}

static void draw_headers(const struct world *w, size_t copy, size_t player,
                         struct scene *ret)
{
    const double rows = (double)w->game.actions[0];
    const int32_t last = w->last[player * w->n_copies + copy];

    for (size_t i = 0; i < w->game.actions[player]; i++) {
        double at = (double)i + 0.5;
        struct scene_thing *t = player == 0
                                    ? scene_add(ret, SCENE_HEADER, -0.35, rows - at, 0.25)
                                    : scene_add(ret, SCENE_HEADER, at, rows + 0.35, 0.25);

        t->agent = (int32_t)player;
        t->value = (int32_t)i == last;
        scene_label(t, "%zu", i);
    }
}

static void draw_cells(const struct world *w, size_t copy, struct scene *ret)
{
    const struct game *g = &w->game;
    const size_t rows = g->actions[0], cols = g->n_players > 1 ? g->actions[1] : 1;
    const int common = is_common(g);
    double low = mean_payoff(g, 0), high = low;

    for (size_t i = 1; i < g->n_cells; i++) {
        low = fmin(low, mean_payoff(g, i));
        high = fmax(high, mean_payoff(g, i));
    }
    for (size_t i = 0; i < rows * cols; i++) {
        size_t cell = cell_at(w, copy, i / cols, i % cols);
        struct scene_thing *t = scene_add(ret, SCENE_CELL, (double)(i % cols) + 0.5,
                                          (double)(rows - i / cols) - 0.5, 0.5);

        t->id = (int32_t)i;
        t->value = high > low ? (mean_payoff(g, cell) - low) / (high - low) : 0.5;
        /* the common payoff, or each agent's, or with many agents their mean */
        if (common || g->n_players > 3)
            scene_label(t, "%.6g", mean_payoff(g, cell));
        else if (g->n_players == 2)
            scene_label(t, "%.5g, %.5g", g->payoff[0][cell], g->payoff[1][cell]);
        else
            scene_label(t, "%.4g, %.4g, %.4g", g->payoff[0][cell], g->payoff[1][cell],
                        g->payoff[2][cell]);
    }
}

static void matrix_draw(const void *world, size_t copy, struct scene *ret)
{
    const struct world *w = world;
    const struct game *g = &w->game;
    const size_t rows = g->actions[0], cols = g->n_players > 1 ? g->actions[1] : 1;

    ret->x0 = -0.7;
    ret->y1 = (double)rows + (g->n_players > 1 ? 0.7 : 0.0);
    ret->x1 = (double)cols;
    ret->frame_ms = 500;
    ret->verb = "plays";
    ret->name[SCENE_CELL] = "payoff, darker is more";
    draw_cells(w, copy, ret);
    for (size_t p = 0; p < g->n_players; p++) {
        int32_t last = w->last[p * w->n_copies + copy];

        if (p < 2)
            draw_headers(w, copy, p, ret);
        if (last >= 0)
            scene_set_action(ret, p, 1.0, "%d", (int)last);
    }
    if (w->last[copy] >= 0) {
        double row = w->last[copy],
               col = g->n_players > 1 ? w->last[w->n_copies + copy] : 0;

        (void)scene_add(ret, SCENE_CHOSEN, col + 0.5, (double)rows - row - 0.5, 0.5);
    }
}

const struct env_ops matrix_game_ops = {
    .describe = matrix_describe,
    .open = matrix_open,
    .reset = matrix_reset,
    .step = matrix_step,
    .observe = matrix_observe,
    .state_bytes = matrix_state_bytes,
    .save = matrix_save,
    .load = matrix_load,
    .draw = matrix_draw,
};
