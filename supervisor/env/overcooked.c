#include "supervisor/env/overcooked.h"

#include "common/config/yaml_tree.h"
#include "supervisor/env/env_class.h"

#include <string.h>

enum { COOKS = 2, MAX_SIDE = 32, MAX_INGREDIENTS = 3, N_LAYERS = 26, N_DIRECTIONS = 4 };
enum { NORTH, SOUTH, EAST, WEST, STAY, INTERACT, N_ACTIONS };
enum { FOR_INGREDIENT = 3, FOR_DISH = 3, FOR_SOUP = 5, URGENT = 40 };

struct params {
    const char *layout;
    const struct yaml_node *recipes;
    double shaping;
    int64_t horizon;
};

static const struct field fields[] = {
    {"layout", FIELD_TEXT, SCHEMA_AT(struct params, layout), .flags = FIELD_MEANING,
     .default_text = "cramped_room",
     .doc = "a kitchen's name, or a kitchen of your own, one line a row"},
    {"recipes", FIELD_TREE, SCHEMA_AT(struct params, recipes),
     .default_text = "{ooo: {value: 20, time: 20}}",
     .doc = "the soups that are ordered: {oot: {value: 20, time: 20, bonus: false}}"},
    {"shaping", FIELD_F64, SCHEMA_AT(struct params, shaping), SCHEMA_WITHIN(0, 1e6),
     .default_text = "1", .doc = "weight of rewards for steps towards a soup"},
    {"horizon", FIELD_I64, SCHEMA_AT(struct params, horizon), SCHEMA_WITHIN(1, INT32_MAX),
     .default_text = "400",
     .doc = "steps of a game: the last layer is 1 in the last 39 of them"},
};
const struct schema overcooked_params = {SCHEMA_TABLE(fields), sizeof(struct params)};

static const struct {
    const char *name, *text;
} kitchens[] = {
    {"cramped_room", "XXPXX\nO  2O\nX1  X\nXDXSX"},
    {"asymmetric_advantages", "XXXXXXXXX\nO XSXOX S\nX   P 1 X\nX2  P   X\nXXXDXDXXX"},
    {"coordination_ring", "XXXPX\nX 1 P\nD2X X\nO   X\nXOSXX"},
    {"forced_coordination", "XXXPX\nO X1P\nO2X X\nD X X\nXXXSX"},
    {"counter_circuit", "XXXPPXXX\nX  2   X\nD XXXX S\nX  1   X\nXXXOOXXX"},
};
enum { N_KITCHENS = sizeof(kitchens) / sizeof(kitchens[0]) };

/* ---- the kitchen ---- */

struct recipe {
    double value;
    int64_t time;
    int bonus, is_ordered;
};

static const struct field recipe_fields[] = {
    {"value", FIELD_F64, SCHEMA_AT(struct recipe, value), SCHEMA_WITHIN(-1e6, 1e6),
     .default_text = "20"},
    {"time", FIELD_I64, SCHEMA_AT(struct recipe, time), SCHEMA_WITHIN(1, INT32_MAX),
     .default_text = "20"},
    {"bonus", FIELD_BOOL, SCHEMA_AT(struct recipe, bonus), .default_text = "false"},
};
static const struct schema recipe_schema = {SCHEMA_TABLE(recipe_fields),
                                            sizeof(struct recipe)};

struct kitchen {
    int32_t width, height;
    char *cell;           /* (height, width): X O T D P S, or a space */
    int32_t start[COOKS]; /* cells */
    struct recipe recipe[MAX_INGREDIENTS + 1][MAX_INGREDIENTS + 1]; /* onions, tomatoes */
};

static int fail_layout(const struct yaml_node *params, struct err *err, int64_t line,
                       const char *what)
{
    return yaml_fail(yaml_find(params, "layout"), "env.params.layout", err,
                     "line %lld of the kitchen: %s", (long long)line, what);
}

static int fail_name(const struct params *p, const struct yaml_node *params,
                     struct err *err)
{
    const char *names[N_KITCHENS];

    for (size_t i = 0; i < N_KITCHENS; i++)
        names[i] = kitchens[i].name;
    return schema_fail_choice(yaml_find(params, "layout"), "env.params.layout", p->layout,
                              names, N_KITCHENS, err);
}

/* The text of the kitchen; NULL: there is none of that name. */
static const char *find_text(const char *layout)
{
    for (size_t i = 0; i < N_KITCHENS; i++) {
        if (strcmp(kitchens[i].name, layout) == 0)
            return kitchens[i].text;
    }
    return strchr(layout, '\n') != NULL ? layout : NULL;
}

/* Whether all that a kitchen needs is there, and nobody can leave it. */
static int check_kitchen(const struct kitchen *k, const struct yaml_node *params,
                         struct err *err)
{
    for (int32_t c = 0; c < k->width * k->height; c++) {
        const int32_t x = c % k->width, y = c / k->width;
        const int at_border = x == 0 || y == 0 || x == k->width - 1 || y == k->height - 1;

        if (at_border && k->cell[c] == ' ')
            return fail_layout(params, err, y + 1, "a cook could leave here");
    }
    for (const char *need = "DPS"; *need != '\0'; need++) {
        if (memchr(k->cell, *need, (size_t)(k->width * k->height)) == NULL)
            return fail_layout(params, err, 1, "expected at least one D, P and S each");
    }
    return k->start[0] >= 0 && k->start[1] >= 0
               ? 0
               : fail_layout(params, err, 1, "expected one 1 and one 2, the cooks");
}

static int read_cell(struct kitchen *k, int32_t at, char c)
{
    const int cook = c == '1' || c == '2';

    if (strchr("XOTDPS 12", c) == NULL || (cook && k->start[c - '1'] >= 0))
        return -1;
    if (cook)
        k->start[c - '1'] = at;
    k->cell[at] = cook ? ' ' : c;
    return 0;
}

static int read_layout(const struct params *p, const struct yaml_node *params,
                       struct arena *arena, struct kitchen *ret, struct err *err)
{
    const char *text = find_text(p->layout);
    size_t n;

    if (text == NULL)
        return fail_name(p, params, err);
    text += strspn(text, "\n");
    n = strlen(text);
    while (n > 0 && text[n - 1] == '\n')
        n--;
    *ret = (struct kitchen){
        .width = (int32_t)strcspn(text, "\n"), .height = 1, .start = {-1, -1}};
    for (size_t i = 0; i < n; i++)
        ret->height += text[i] == '\n';
    if (ret->width > MAX_SIDE || ret->height > MAX_SIDE)
        return fail_layout(params, err, 1, "a kitchen has at most 32 x 32 cells");
    ret->cell = ARENA_ARRAY(arena, char, (size_t)ret->width *(size_t)ret->height + 1);
    for (int32_t y = 0; y < ret->height; y++) {
        const char *row = text;

        if ((int32_t)strcspn(row, "\n") != ret->width)
            return fail_layout(params, err, y + 1, "it is not as long as the first");
        for (int32_t x = 0; x < ret->width; x++) {
            if (read_cell(ret, y * ret->width + x, row[x]) < 0)
                return fail_layout(params, err, y + 1,
                                   "expected X, O, T, D, P, S, spaces, one 1 and one 2");
        }
        text += ret->width + 1;
    }
    return check_kitchen(ret, params, err);
}

/* Reads ingredients such as "oot"; returns how many, 0 if it is no recipe. */
static size_t count_ingredients(const char *text, size_t *ret_onions)
{
    const size_t onions = strspn(text, "o"), tomatoes = strspn(text + onions, "t");

    *ret_onions = onions;
    return text[onions + tomatoes] == '\0' && onions + tomatoes <= MAX_INGREDIENTS
               ? onions + tomatoes
               : 0;
}

static int read_recipes(const struct yaml_node *recipes, struct arena *arena,
                        struct kitchen *ret, struct err *err)
{
    int rc = 0;

    for (size_t o = 0; o <= MAX_INGREDIENTS; o++) {
        for (size_t t = 0; t <= MAX_INGREDIENTS; t++)
            schema_defaults(&recipe_schema, &ret->recipe[o][t], arena);
    }
    for (size_t i = 0; rc == 0 && i < recipes->n; i++) {
        const struct yaml_node *node = recipes->child[i];
        size_t onions, n = count_ingredients(node->key, &onions);
        struct recipe *r;
        char path[64];

        if (n == 0)
            return yaml_fail(node, "env.params.recipes", err,
                             "found '%s', expected 1 to 3 ingredients, o before t: oot",
                             node->key);
        r = &ret->recipe[onions][n - onions];
        r->is_ordered = 1;
        (void)snprintf(path, sizeof(path), "env.params.recipes.%s", node->key);
        rc = schema_read(&recipe_schema, node, path, r, arena, err);
    }
    return rc;
}

static int read_kitchen(const struct params *p, const struct yaml_node *params,
                        struct arena *arena, struct kitchen *ret, struct err *err)
{
    int rc = read_layout(p, params, arena, ret, err);

    return rc == 0 ? read_recipes(p->recipes, arena, ret, err) : rc;
}

/* ---- the world ---- */

enum thing_kind { NOTHING, ONION, TOMATO, DISH, SOUP, N_KINDS };

struct thing {
    int32_t kind;
    int32_t onions, tomatoes; /* of a soup */
    int32_t cooked;           /* steps that a soup has cooked; -1: it does not cook yet */
};

struct cook {
    int32_t cell, direction;
    struct thing held;
};

/* One copy: `things` has one a cell, on counters and in pots. */
struct state {
    int32_t *step, *served;
    struct cook *cook; /* [COOKS] */
    struct thing *thing;
};

struct world {
    struct params p;
    struct kitchen kitchen;
    size_t n_copies, n_cells, state_bytes; /* of a copy */
    char *state;                           /* (E, state_bytes) */
    int8_t *last; /* (E, cooks): the last action, for pictures; -1: none yet */
};

static struct state state_at(char *at)
{
    struct state s = {.step = (int32_t *)(void *)at};

    s.served = s.step + 1;
    s.cook = (struct cook *)(void *)(s.step + 2);
    s.thing = (struct thing *)(void *)(s.cook + COOKS);
    return s;
}

static struct state state_of(const struct world *w, size_t copy)
{
    return state_at(w->state + copy * w->state_bytes);
}

static void overcooked_reset(void *world, size_t copy, const struct env_episode *episode)
{
    struct world *w = world;
    const struct state s = state_of(w, copy);

    memset(w->state + copy * w->state_bytes, 0, w->state_bytes);
    memset(w->last + copy * COOKS, -1, COOKS);
    for (int i = 0; i < COOKS; i++)
        s.cook[i] = (struct cook){.cell = w->kitchen.start[i], .direction = NORTH};
}

/* ---- a step ---- */

static int32_t cell_towards(const struct world *w, int32_t cell, int32_t direction)
{
    return cell + (direction == EAST) - (direction == WEST) +
           w->kitchen.width * ((direction == SOUTH) - (direction == NORTH));
}

static const struct recipe *recipe_of(const struct world *w, const struct thing *soup)
{
    return &w->kitchen.recipe[soup->onions][soup->tomatoes];
}

static int is_ready(const struct world *w, const struct thing *soup)
{
    return soup->kind == SOUP && soup->cooked >= recipe_of(w, soup)->time;
}

static int is_full(const struct thing *soup)
{
    return soup->cooked >= 0 || soup->onions + soup->tomatoes == MAX_INGREDIENTS;
}

/* How many pots have something in them that is, or can become with more, a soup. */
static int count_started_pots(const struct world *w, const struct state *s)
{
    int n = 0;

    for (size_t c = 0; c < w->n_cells; c++) {
        const struct thing *t = &s->thing[c];

        n += w->kitchen.cell[c] == 'P' && t->kind == SOUP &&
             (t->cooked >= 0 || !is_full(t));
    }
    return n;
}

static int is_dish_useful(const struct world *w, const struct state *s, int started_pots)
{
    int dishes = 0;

    for (size_t c = 0; c < w->n_cells; c++) {
        if (s->thing[c].kind == DISH)
            return 0;
    }
    for (int i = 0; i < COOKS; i++)
        dishes += s->cook[i].held.kind == DISH;
    return dishes < started_pots;
}

/* What interacting gives: to all, and to the cook alone. */
struct gain {
    double served, shaped;
};

static void use_pot(const struct world *w, struct cook *cook, struct thing *soup,
                    struct gain *gain)
{
    const int held = cook->held.kind;

    if (held == NOTHING && soup->kind == SOUP && soup->cooked < 0) {
        soup->cooked = 0;
    } else if (held == DISH && is_ready(w, soup)) {
        cook->held = *soup;
        *soup = (struct thing){0};
        gain->shaped += FOR_SOUP;
    } else if (held == ONION || held == TOMATO) {
        if (soup->kind == NOTHING)
            *soup = (struct thing){.kind = SOUP, .cooked = -1};
        if (is_full(soup))
            return;
        soup->onions += held == ONION;
        soup->tomatoes += held == TOMATO;
        cook->held = (struct thing){0};
        gain->shaped += FOR_INGREDIENT;
    }
}

static void serve(const struct world *w, const struct state *s, struct cook *cook,
                  struct gain *gain)
{
    const struct recipe *r = recipe_of(w, &cook->held);

    if (cook->held.kind != SOUP)
        return;
    gain->served += r->is_ordered ? r->value * (r->bonus ? 2 : 1) : 0;
    *s->served += *s->served < INT32_MAX;
    cook->held = (struct thing){0};
}

/* started_pots: before anybody interacted in this step. */
static struct gain interact(const struct world *w, const struct state *s, int who,
                            int started_pots)
{
    struct cook *cook = &s->cook[who];
    const int32_t cell = cell_towards(w, cook->cell, cook->direction);
    const char what = w->kitchen.cell[cell];
    const int has_nothing = cook->held.kind == NOTHING;
    struct gain gain = {0, 0};

    if (what == 'X' && has_nothing != (s->thing[cell].kind == NOTHING)) {
        const struct thing held = cook->held;

        cook->held = s->thing[cell];
        s->thing[cell] = held;
    } else if (what == 'P') {
        use_pot(w, cook, &s->thing[cell], &gain);
    } else if (what == 'S') {
        serve(w, s, cook, &gain);
    } else if (has_nothing && what == 'D') {
        gain.shaped += is_dish_useful(w, s, started_pots) ? FOR_DISH : 0;
        cook->held.kind = DISH;
    } else if (has_nothing && (what == 'O' || what == 'T')) {
        cook->held.kind = what == 'O' ? ONION : TOMATO;
    }
    return gain;
}

static void move(const struct world *w, const struct state *s, const int32_t *action)
{
    int32_t to[COOKS];

    for (int i = 0; i < COOKS; i++) {
        to[i] = s->cook[i].cell;
        if (action[i] >= STAY)
            continue;
        s->cook[i].direction = action[i];
        to[i] = cell_towards(w, s->cook[i].cell, action[i]);
        if (w->kitchen.cell[to[i]] != ' ')
            to[i] = s->cook[i].cell;
    }
    if (to[0] == to[1] || (to[0] == s->cook[1].cell && to[1] == s->cook[0].cell))
        return;
    for (int i = 0; i < COOKS; i++)
        s->cook[i].cell = to[i];
}

static void simmer(const struct world *w, const struct state *s)
{
    for (size_t c = 0; c < w->n_cells; c++) {
        struct thing *t = &s->thing[c];

        if (t->kind == SOUP && t->cooked >= 0 && !is_ready(w, t))
            t->cooked++;
    }
}

static void overcooked_step(void *world, const float *const *actions,
                            double *const *reward, uint8_t *const *terminated)
{
    struct world *w = world;

    for (size_t c = 0; c < w->n_copies; c++) {
        const struct state s = state_of(w, c);
        const int started_pots = count_started_pots(w, &s);
        int32_t action[COOKS];
        double served = 0;

        for (int i = 0; i < COOKS; i++) {
            struct gain gain = {0, 0};

            action[i] = (int32_t)env_choice(actions[i] + c * N_ACTIONS, N_ACTIONS);
            w->last[c * COOKS + (size_t)i] = (int8_t)action[i];
            if (action[i] == INTERACT)
                gain = interact(w, &s, i, started_pots);
            served += gain.served;
            reward[i][c] = w->p.shaping * gain.shaped;
        }
        for (int i = 0; i < COOKS; i++) {
            reward[i][c] += served;
            terminated[i][c] = 0;
        }
        move(w, &s, action);
        simmer(w, &s);
        *s.step += *s.step < INT32_MAX;
    }
}

static const struct env_metric *overcooked_metrics(const struct env_class *class)
{
    static const struct env_metric metrics[] = {
        {"served", "soups served in the episode", 1}, {NULL}};

    return metrics;
}

static void overcooked_measure(void *world, size_t metric, double *ret)
{
    const struct world *w = world;

    for (size_t c = 0; c < w->n_copies; c++)
        ret[c] = *state_of(w, c).served;
}

/* ---- observing ---- */

enum layer {
    AT_COOK,
    AT_DIRECTION = AT_COOK + COOKS,
    AT_MAP = AT_DIRECTION + COOKS * N_DIRECTIONS, /* P X O T D S */
    AT_POT_ONIONS = AT_MAP + 6,
    AT_POT_TOMATOES,
    AT_SOUP_ONIONS,
    AT_SOUP_TOMATOES,
    AT_TIME_LEFT,
    AT_READY,
    AT_DISHES,
    AT_ONIONS,
    AT_TOMATOES,
    AT_URGENCY
};
_Static_assert(AT_URGENCY + 1 == N_LAYERS, "layers");

/* The numbers of a cell: the image has x before y. */
static float *at_cell(const struct world *w, float *image, int32_t cell)
{
    const int32_t x = cell % w->kitchen.width, y = cell / w->kitchen.width;

    return image + (x * w->kitchen.height + y) * N_LAYERS;
}

static void put_thing(const struct world *w, const struct thing *t, int in_pot,
                      float *ret)
{
    if (t->kind == DISH || t->kind == ONION || t->kind == TOMATO) {
        ret[t->kind == DISH    ? AT_DISHES
            : t->kind == ONION ? AT_ONIONS
                               : AT_TOMATOES] += 1;
        return;
    }
    if (t->kind != SOUP)
        return;
    ret[in_pot && t->cooked < 0 ? AT_POT_ONIONS : AT_SOUP_ONIONS] += (float)t->onions;
    ret[in_pot && t->cooked < 0 ? AT_POT_TOMATOES : AT_SOUP_TOMATOES] +=
        (float)t->tomatoes;
    if (in_pot && t->cooked >= 0)
        ret[AT_TIME_LEFT] += (float)(recipe_of(w, t)->time - t->cooked);
    ret[AT_READY] += !in_pot || is_ready(w, t);
}

static void observe_cook(const struct world *w, const struct state *s, int self,
                         float *image)
{
    static const char map[] = "PXOTDS";
    const int is_urgent = w->p.horizon - *s->step < URGENT;

    memset(image, 0, w->n_cells * N_LAYERS * sizeof(*image));
    for (size_t c = 0; c < w->n_cells; c++) {
        float *here = at_cell(w, image, (int32_t)c);
        const char *what = strchr(map, w->kitchen.cell[c]);

        if (what != NULL)
            here[AT_MAP + (what - map)] = 1;
        here[AT_URGENCY] = (float)is_urgent;
        put_thing(w, &s->thing[c], w->kitchen.cell[c] == 'P', here);
    }
    for (int i = 0; i < COOKS; i++) {
        const struct cook *cook = &s->cook[i == 0 ? self : 1 - self];
        float *here = at_cell(w, image, cook->cell);

        here[AT_COOK + i] = 1;
        here[AT_DIRECTION + i * N_DIRECTIONS + cook->direction] = 1;
        put_thing(w, &cook->held, 0, here);
    }
}

static void overcooked_observe(void *world, size_t first, size_t n, float *const *obs)
{
    const struct world *w = world;

    for (size_t c = first; c < first + n; c++) {
        const struct state s = state_of(w, c);

        for (int i = 0; i < COOKS; i++)
            observe_cook(w, &s, i, obs[i] + c * w->n_cells * N_LAYERS);
    }
}

/* ---- the rest of a world ---- */

static int overcooked_describe(const struct env_class *class,
                               const struct env_config *config, const void *params,
                               struct arena *arena, struct env_spec *ret, struct err *err)
{
    struct kitchen k;
    int rc = read_kitchen(params, config->params, arena, &k, err);

    if (rc < 0)
        return rc;
    ret->n_agents = COOKS;
    ret->agents = ARENA_ARRAY(arena, struct env_agent, COOKS);
    for (size_t i = 0; i < COOKS; i++) {
        struct env_agent *agent = &ret->agents[i];

        env_agent_set_name(agent, "cook", i);
        agent->obs_width = k.width * k.height * N_LAYERS;
        agent->image = (struct image_part){.shape = {k.width, k.height, N_LAYERS}};
        agent->space = (struct action_space){.kind = SPACE_DISCRETE,
                                             .n_heads = 1,
                                             .heads = {N_ACTIONS},
                                             .width = N_ACTIONS};
    }
    return 0;
}

static void *overcooked_open(const struct env_class *class,
                             const struct env_config *config, const void *params,
                             size_t copies, struct arena *arena)
{
    struct world *w = ARENA_NEW(arena, struct world);

    w->p = *(const struct params *)params;
    (void)read_kitchen(&w->p, config->params, arena, &w->kitchen, NULL); /* described */
    w->n_copies = copies;
    w->n_cells = (size_t)w->kitchen.width * (size_t)w->kitchen.height;
    w->state_bytes = 2 * sizeof(int32_t) + COOKS * sizeof(struct cook) +
                     w->n_cells * sizeof(struct thing);
    w->state = ARENA_ARRAY(arena, char, copies * w->state_bytes);
    w->last = ARENA_ARRAY(arena, int8_t, copies * COOKS);
    return w;
}

static size_t overcooked_state_bytes(const void *world)
{
    const struct world *w = world;

    return w->n_copies * w->state_bytes;
}

static void overcooked_save(const void *world, void *dst)
{
    const struct world *w = world;

    memcpy(dst, w->state, overcooked_state_bytes(w));
}

static int is_possible_thing(const struct world *w, const struct thing *t)
{
    const int n = t->kind == SOUP;

    if (t->kind < 0 || t->kind >= N_KINDS || t->onions < 0 || t->tomatoes < 0 ||
        t->onions > n * MAX_INGREDIENTS || t->tomatoes > n * MAX_INGREDIENTS - t->onions)
        return 0;
    return n == 0 ? t->cooked == 0
                  : t->onions + t->tomatoes > 0 && t->cooked >= -1 &&
                        t->cooked <= recipe_of(w, t)->time;
}

static int is_possible_cook(const struct world *w, const struct cook *c)
{
    return c->cell >= 0 && (size_t)c->cell < w->n_cells &&
           w->kitchen.cell[c->cell] == ' ' && c->direction >= 0 &&
           c->direction < N_DIRECTIONS && is_possible_thing(w, &c->held) &&
           (c->held.kind != SOUP || is_ready(w, &c->held));
}

/* Whether what is in a cell can be there: soups alone in pots, and ready ones on counters. */
static int is_possible_place(const struct world *w, size_t cell, const struct thing *t)
{
    const char what = w->kitchen.cell[cell];

    if (!is_possible_thing(w, t))
        return 0;
    return t->kind == NOTHING || (what == 'P' && t->kind == SOUP) ||
           (what == 'X' && (t->kind != SOUP || is_ready(w, t)));
}

static int is_possible(const struct world *w, const struct state *s)
{
    int ok = *s->step >= 0 && *s->served >= 0 && s->cook[0].cell != s->cook[1].cell;

    for (int i = 0; i < COOKS; i++)
        ok = ok && is_possible_cook(w, &s->cook[i]);
    for (size_t c = 0; ok && c < w->n_cells; c++)
        ok = is_possible_place(w, c, &s->thing[c]);
    return ok;
}

static int overcooked_load(void *world, const void *src, struct err *err)
{
    struct world *w = world;
    int32_t words[2 + COOKS * sizeof(struct cook) / sizeof(int32_t) +
                  MAX_SIDE * MAX_SIDE * sizeof(struct thing) / sizeof(int32_t)];

    for (size_t c = 0; c < w->n_copies; c++) {
        struct state s = state_at((char *)words);

        memcpy(words, (const char *)src + c * w->state_bytes, w->state_bytes);
        if (!is_possible(w, &s))
            return err_set(err, ERR_CORRUPT, "copy %zu of the kitchen is impossible", c);
    }
    memcpy(w->state, src, overcooked_state_bytes(w));
    memset(w->last, -1, w->n_copies * COOKS);
    return 0;
}

/* ---- drawing ---- */

static struct scene_thing *overcooked_add(const struct world *w, struct scene *ret,
                                          enum scene_kind kind, int32_t cell, double size)
{
    const int32_t x = cell % w->kitchen.width, y = cell / w->kitchen.width;

    return scene_add(ret, kind, x + 0.5, w->kitchen.height - y - 0.5, size);
}

/* "o" for an onion, "d" for a dish, "oot 7" for a soup that cooks for 7 more steps. */
static void label_thing(const struct world *w, const struct thing *t,
                        struct scene_thing *ret)
{
    static const char *const plain[] = {"", "o", "t", "d"};
    const char *ingredients = &"ooottt"[MAX_INGREDIENTS - t->onions];

    if (t->kind != SOUP)
        scene_label(ret, "%s", plain[t->kind]);
    else if (t->cooked < 0 || is_ready(w, t))
        scene_label(ret, "%.*s%s", (int)(t->onions + t->tomatoes), ingredients,
                    t->cooked < 0 ? "" : "!");
    else
        scene_label(ret, "%.*s %d", (int)(t->onions + t->tomatoes), ingredients,
                    (int)(recipe_of(w, t)->time - t->cooked));
}

static void draw_cell(const struct world *w, const struct state *s, int32_t cell,
                      struct scene *ret)
{
    const char what = w->kitchen.cell[cell];
    const struct thing *t = &s->thing[cell];
    struct scene_thing *drawn;

    if (what == ' ')
        return;
    drawn = overcooked_add(w, ret,
                           what == 'S'   ? SCENE_GOAL
                           : what == 'P' ? SCENE_LANDMARK
                           : what == 'X' ? SCENE_OBSTACLE
                                         : SCENE_FOOD,
                           cell, what == 'X' ? 0.5 : 0.4);
    drawn->id = COOKS + cell;
    if (what != 'X' && what != 'P' && what != 'S')
        scene_label(drawn, "%c", what);
    else if (t->kind != NOTHING)
        label_thing(w, t, drawn);
}

static void overcooked_draw(const void *world, size_t copy, struct scene *ret)
{
    static const char *const arrow[] = {"^", "v", ">", "<"};
    const struct world *w = world;
    const struct state s = state_of(w, copy);

    ret->x1 = w->kitchen.width;
    ret->y1 = w->kitchen.height;
    ret->is_grid = 1;
    ret->frame_ms = 200;
    ret->verb = "does";
    ret->action_key = "N S E W moves, I interacts, - stays";
    ret->name[SCENE_AGENT] = "cook and where it looks";
    ret->name[SCENE_OBSTACLE] = "counter";
    ret->name[SCENE_FOOD] = "onions, tomatoes or dishes";
    ret->name[SCENE_LANDMARK] = "pot: what is in it, steps left, ! ready";
    ret->name[SCENE_GOAL] = "where soups are served";
    ret->name[SCENE_LOADING] = "carries";
    for (size_t c = 0; c < w->n_cells; c++)
        draw_cell(w, &s, (int32_t)c, ret);
    for (int i = 0; i < COOKS; i++) {
        const int last = w->last[copy * COOKS + (size_t)i];
        struct scene_thing *t = overcooked_add(w, ret, SCENE_AGENT, s.cook[i].cell, 0.3);

        t->id = t->agent = i;
        scene_label(t, "%s", arrow[s.cook[i].direction]);
        if (s.cook[i].held.kind != NOTHING) {
            t = overcooked_add(w, ret, SCENE_LOADING, s.cook[i].cell, 0.42);
            t->agent = i;
            label_thing(w, &s.cook[i].held, t);
        }
        if (last >= 0)
            scene_set_action(ret, (size_t)i, 1, "%c", "NSEW-I"[last]);
    }
}

const struct env_ops overcooked_ops = {
    .describe = overcooked_describe,
    .open = overcooked_open,
    .reset = overcooked_reset,
    .step = overcooked_step,
    .metrics = overcooked_metrics,
    .measure = overcooked_measure,
    .observe = overcooked_observe,
    .state_bytes = overcooked_state_bytes,
    .save = overcooked_save,
    .load = overcooked_load,
    .draw = overcooked_draw,
};
