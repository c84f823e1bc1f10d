/* Joint steps per second of the particle worlds and the grids, 64 copies on one core, with observations
 * and rewards, compared with the goal for each world. Arguments: names of worlds; none:
 * all of them are measured. */
#include "supervisor/env/env.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { COPIES = 64, MAX_AGENTS = 8, MAX_WIDTH = 16, REPEATS = 5, SHEETS = 64 };

static const double SECONDS = 0.15; /* length of one repeat */

/* The actions: random zeros and ones (no valid choice is needed), the same in every run.
 * Those of an agent are `width` floats for each copy, packed, so that they stay in the
 * second-level cache: in a run, too, they have just arrived. */
static float moves[SHEETS * MAX_AGENTS * COPIES * MAX_WIDTH];
static const float *sheets[SHEETS][MAX_AGENTS];

static double now_s(void)
{
    struct timespec t;

    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void fill_sheets(const struct env_spec *spec)
{
    uint32_t x = 1;
    float *next = moves;

    for (int s = 0; s < SHEETS; s++) {
        for (size_t a = 0; a < spec->n_agents; a++) {
            uint32_t width = (uint32_t)spec->agents[a].space.width;

            sheets[s][a] = next;
            for (uint32_t i = 0; i < COPIES * width; i++) {
                x = x * 1664525u + 1013904223u;
                *next++ = (float)(x >> 16 & 1);
            }
        }
    }
}

static double steps_per_second(struct vec_env *v)
{
    size_t n = vec_env_spec(v)->n_agents;
    struct env_step step;
    double start = now_s(), passed = 0;
    size_t rounds = 0;

    for (; passed < SECONDS; passed = now_s() - start) {
        for (int r = 0; r < SHEETS; r++, rounds++) {
            const float *actions[MAX_AGENTS];

            for (size_t a = 0; a < n; a++)
                actions[a] = sheets[r][a];
            if (vec_env_step(v, actions, &step, NULL) < 0)
                exit(1);
        }
    }
    return COPIES * (double)rounds / passed;
}

static void measure(const char *id, enum env_actions actions, enum env_rules rules,
                    double goal)
{
    struct env_config config = {
        .id = id, .actions = actions, .rules = rules, .copies = COPIES, .max_steps = 25};
    struct vec_env *v;
    double best = 0.0;

    if (vec_env_new(&v, &config, 1, ENV_DRAWS_TRAINING, 0, NULL) < 0)
        exit(1);
    fill_sheets(vec_env_spec(v));
    vec_env_reset(v);
    for (int i = 0; i < REPEATS; i++) {
        double rate = steps_per_second(v);

        best = rate > best ? rate : best;
    }
    (void)printf("%-24s %-10s %-6s %6.2f million steps/s", id,
                 actions == ENV_ACTIONS_DISCRETE ? "discrete" : "continuous",
                 rules == ENV_RULES_MPE2 ? "mpe2" : "openai", best / 1e6);
    if (goal > 0.0)
        (void)printf(", %.2f of the goal", best / goal);
    (void)printf("\n");
    vec_env_free(v);
}

static int is_wanted(const char *id, int argc, char **argv)
{
    int wanted = argc == 1;

    for (int i = 1; i < argc; i++)
        wanted |= strcmp(argv[i], id) == 0;
    return wanted;
}

int main(int argc, char **argv)
{
    static const struct {
        const char *id;
        double goal;
    } worlds[] = {
        {"simple_spread", 12e6}, {"simple_tag", 8e6},     {"simple_world_comm", 5e6},
        {"simple", 0},           {"simple_adversary", 0}, {"simple_crypto", 0},
        {"simple_push", 0},      {"simple_reference", 0}, {"simple_speaker_listener", 0},
        {"simple_line", 0},      {"simple_formation", 0}, {"collect_treasure", 0}};
    static const char *const grids[] = {"foraging", "rware", "overcooked"};

    for (size_t i = 0; i < sizeof(grids) / sizeof(grids[0]); i++) {
        if (is_wanted(grids[i], argc, argv))
            measure(grids[i], ENV_ACTIONS_DISCRETE, ENV_RULES_MPE2, 0);
    }
    for (size_t i = 0; i < sizeof(worlds) / sizeof(worlds[0]); i++) {
        if (!is_wanted(worlds[i].id, argc, argv))
            continue;
        measure(worlds[i].id, ENV_ACTIONS_DISCRETE, ENV_RULES_MPE2, worlds[i].goal);
        measure(worlds[i].id, ENV_ACTIONS_DISCRETE, ENV_RULES_OPENAI, worlds[i].goal);
        measure(worlds[i].id, ENV_ACTIONS_CONTINUOUS, ENV_RULES_MPE2, worlds[i].goal);
    }
    return 0;
}
