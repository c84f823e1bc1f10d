/* Hand-written rules, one table row per environment: a baseline for learned teams.
 *
 * The rules see the agent's newest observation only (supervisor/env/simple_*.c document its
 * elements) and return an action of the agent's space. An agent moves with full thrust
 * along the axis on which it is farther from its goal, counting the distance that it will
 * still drift.
 */
#include "agent/algo/choices.h"
#include "agent/algo/fixed.h"

#include "common/mem/xmalloc.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct vec {
    float x, y;
};

enum { MOVES = 5, MAX_OTHERS = 256 };

struct rules;

struct heuristic {
    const struct rules *rules;
    const struct space *agents;
    size_t n_agents, self;
    int64_t width; /* of an observation: of a stack, the newest */
    int openai;    /* moves 1 to 4 are right, left, up, down; mpe2: left, right, ... */
    size_t n_landmarks; /* from the width of the observation */
    size_t first_prey;  /* simple_tag: the adversaries hunt, the good agents flee */
};

struct rules {
    const char *env;
    /* The number of landmarks in an observation of that width; -1: the width is not one
     * of this world's. */
    int64_t (*landmarks)(const struct heuristic *h, int64_t width);
    void (*decide)(const struct heuristic *h, const float *obs, float *action);
};

static struct vec at(const float *obs, size_t i)
{
    return (struct vec){obs[2 * i], obs[2 * i + 1]};
}

static struct vec sum(struct vec a, struct vec b, float times)
{
    return (struct vec){a.x + times * b.x, a.y + times * b.y};
}

static float length2(struct vec v)
{
    return v.x * v.x + v.y * v.y;
}

/* ---- moving ---- */

/* The index, among the five moves, of the move along an axis in that direction. */
static int move_along(const struct heuristic *h, int axis, int positive)
{
    return 1 + 2 * axis + (h->openai ? !positive : positive);
}

static void thrust(const struct heuristic *h, struct vec d, float *move)
{
    const int axis = fabsf(d.y) > fabsf(d.x);

    move[move_along(h, axis, (axis ? d.y : d.x) > 0)] = 1.0f;
}

/* dt 0.1 and damping 0.25: without thrust a velocity v drifts 0.1 v (3/4 + 9/16 + ...) =
 * 0.3 v further, and one thrust of force 5 moves by 0.2 in the end. */
#define DRIFT    0.3f
#define ONE_PUSH 0.2f

static void go_to(const struct heuristic *h, struct vec to, struct vec velocity,
                  float *move)
{
    const struct vec d = sum(to, velocity, -DRIFT);

    if (fmaxf(fabsf(d.x), fabsf(d.y)) < ONE_PUSH / 2)
        move[0] = 1.0f;
    else
        thrust(h, d, move);
}

/* ---- simple: velocity, landmark ---- */

static int64_t simple_landmarks(const struct heuristic *h, int64_t width)
{
    return width == 4 ? 1 : -1;
}

static void simple_decide(const struct heuristic *h, const float *obs, float *action)
{
    go_to(h, at(obs, 1), at(obs, 0), action);
}

/* ---- simple_spread: velocity, position, landmarks, others, speech ---- */

/* Of each other agent two numbers are its position, two its speech. */
static int64_t spread_landmarks(const struct heuristic *h, int64_t width)
{
    const int64_t n = (int64_t)h->n_agents;

    return width == 4 + 2 * n + 4 * (n - 1) ? n : -1;
}

/* The position of agent a relative to this agent. */
static struct vec of_agent(const struct heuristic *h, const float *others, size_t a)
{
    if (a == h->self)
        return (struct vec){0, 0};
    return at(others, a < h->self ? a : a - 1);
}

/* Assigns each landmark, in order, to the nearest agent without one; this agent moves to
 * its own. */
static void spread_decide(const struct heuristic *h, const float *obs, float *action)
{
    const float *landmarks = obs + 4, *others = landmarks + 2 * h->n_landmarks;
    uint8_t taken[MAX_OTHERS + 1] = {0};

    for (size_t l = 0; l < h->n_landmarks; l++) {
        float best = INFINITY;
        size_t who = 0;

        for (size_t a = 0; a < h->n_agents; a++) {
            const float d = length2(sum(at(landmarks, l), of_agent(h, others, a), -1.0f));

            if (!taken[a] && d < best) {
                best = d;
                who = a;
            }
        }
        taken[who] = 1;
        if (who == h->self) {
            go_to(h, at(landmarks, l), at(obs, 0), action);
            return;
        }
    }
}

/* ---- simple_speaker_listener: the goal's colour; velocity, landmarks, speech ---- */

enum { COLOURS = 3 };

static int64_t listener_landmarks(const struct heuristic *h, int64_t width)
{
    return width == COLOURS || width == 8 + COLOURS ? COLOURS : -1;
}

static int is_silence(const float *said, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (said[i] != 0.0f)
            return 0;
    return 1;
}

/* Moves to the landmark that the speech names; stays in place during silence. */
static void go_where_told(const struct heuristic *h, const float *obs, const float *said,
                          size_t n_symbols, float *move)
{
    if (is_silence(said, n_symbols))
        go_to(h, (struct vec){0, 0}, at(obs, 0), move);
    else
        go_to(h, at(obs, 1 + (size_t)choice_best(said, (int32_t)h->n_landmarks)),
              at(obs, 0), move);
}

static void listener_decide(const struct heuristic *h, const float *obs, float *action)
{
    if (h->width == COLOURS)
        action[choice_best(obs, COLOURS)] = 1.0f;
    else
        go_where_told(h, obs, obs + 8, COLOURS, action);
}

/* ---- simple_reference: velocity, landmarks, the partner's colour, its speech ---- */

enum { REFERENCE_SYMBOLS = 10 };

static int64_t reference_landmarks(const struct heuristic *h, int64_t width)
{
    return width == 8 + COLOURS + REFERENCE_SYMBOLS ? COLOURS : -1;
}

static void reference_decide(const struct heuristic *h, const float *obs, float *action)
{
    go_where_told(h, obs, obs + 8 + COLOURS, REFERENCE_SYMBOLS, action);
    action[MOVES + choice_best(obs + 8, COLOURS)] = 1.0f;
}

/* ---- simple_tag: velocity, position, obstacles, others, velocities of other prey ---- */

static int64_t n_other_prey(const struct heuristic *h)
{
    return (int64_t)(h->n_agents - h->first_prey) - (h->self >= h->first_prey);
}

static int64_t tag_landmarks(const struct heuristic *h, int64_t width)
{
    const int64_t rest = width - 4 - 2 * (int64_t)(h->n_agents - 1) - 2 * n_other_prey(h);

    if (h->first_prey == h->n_agents) /* env.teams: all: nobody is prey */
        return -1;
    return rest >= 0 && rest % 2 == 0 ? rest / 2 : -1;
}

/* Moves to the expected position of the nearest prey. */
static void hunt(const struct heuristic *h, const float *obs, const float *others,
                 float *action)
{
    const float *velocity = others + 2 * (h->n_agents - 1);
    const size_t n_prey = h->n_agents - h->first_prey;
    size_t best = 0;

    for (size_t i = 1; i < n_prey; i++)
        if (length2(at(others, h->first_prey - 1 + i)) <
            length2(at(others, h->first_prey - 1 + best)))
            best = i;
    thrust(h,
           sum(sum(at(others, h->first_prey - 1 + best), at(velocity, best), 0.3f),
               at(obs, 0), -DRIFT),
           action);
}

/* Chooses the thrust after which the nearest hunter is farthest; the arena's edge counts
 * as a hunter. */
static void flee(const struct heuristic *h, const float *obs, const float *others,
                 float *action)
{
    const float ahead = 0.3f;
    float best = -INFINITY;
    int move = 0;

    for (int axis = 0; axis < 2; axis++) {
        for (int positive = 0; positive < 2; positive++) {
            const float push = positive ? 1.0f : -1.0f;
            const struct vec go = sum(
                axis ? (struct vec){0, push} : (struct vec){push, 0}, at(obs, 0), 1.0f);
            const struct vec there = sum(at(obs, 1), go, ahead);
            float room =
                1.0f - fmaxf(fabsf(there.x), fabsf(there.y)); /* to the arena's edge */

            for (size_t a = 0; a < h->first_prey; a++)
                room = fminf(room, sqrtf(length2(sum(at(others, a), go, -ahead))));
            if (room > best) {
                best = room;
                move = move_along(h, axis, positive);
            }
        }
    }
    action[move] = 1.0f;
}

static void tag_decide(const struct heuristic *h, const float *obs, float *action)
{
    const float *others = obs + 4 + 2 * h->n_landmarks;

    if (h->self < h->first_prey)
        hunt(h, obs, others, action);
    else
        flee(h, obs, others, action);
}

/* ---- the policy ---- */

static const struct rules all_rules[] = {
    {"simple", simple_landmarks, simple_decide},
    {"simple_reference", reference_landmarks, reference_decide},
    {"simple_speaker_listener", listener_landmarks, listener_decide},
    {"simple_spread", spread_landmarks, spread_decide},
    {"simple_tag", tag_landmarks, tag_decide},
};

static const struct rules *find_rules(const char *env)
{
    for (size_t i = 0; i < sizeof(all_rules) / sizeof(all_rules[0]); i++)
        if (strcmp(all_rules[i].env, env) == 0)
            return &all_rules[i];
    return NULL;
}

static int heuristic_open(void **ret, const struct algo_args *a, struct err *err)
{
    const struct space *self = &a->agents[a->self];
    struct heuristic h = {.rules = find_rules(a->env),
                          .agents = a->agents,
                          .n_agents = a->n_agents,
                          .self = a->self,
                          .width = self->obs / (self->stack > 1 ? self->stack : 1),
                          .openai = a->rules == ENV_RULES_OPENAI};
    int64_t n;

    if (h.rules == NULL || a->n_agents > MAX_OTHERS)
        return err_set_at(err, ERR_CONFIG, ERR_AT(.key = "algorithm"),
                          "there are no rules for %s of %zu", a->env, a->n_agents);
    while (h.first_prey < a->n_agents &&
           strcmp(a->agents[h.first_prey].team, a->agents[0].team) == 0)
        h.first_prey++;
    n = h.rules->landmarks(&h, h.width);
    if (n < 0 || self->entities[0] > 0)
        return err_set_at(err, ERR_CONFIG, ERR_AT(.key = "algorithm"),
                          "%s observes %lld numbers, not what %s "
                          "shows",
                          self->name, (long long)h.width, a->env);
    h.n_landmarks = (size_t)n;
    *ret = xcalloc(1, sizeof(h));
    memcpy(*ret, &h, sizeof(h));
    return 0;
}

static int heuristic_decide(void *policy, const struct space *self, struct session *s,
                            const struct act_args *args, struct act_result *ret,
                            struct err *err)
{
    const struct heuristic *h = policy;
    float *actions = ret->actions;

    memset(actions, 0, args->n_copies * (size_t)self->width * sizeof(*actions));
    for (size_t i = 0; i < args->n_copies; i++)
        h->rules->decide(h, args->obs + (int64_t)(i + 1) * self->obs - h->width,
                         actions + i * (size_t)self->width);
    return 0;
}

const struct fixed_policy heuristic_policy = {
    .open = heuristic_open, .close = free, .decide = heuristic_decide};
