/* Joint steps per second of simple_spread (3 agents, 64 copies), with observations and
 * rewards; the goal is 5 million on one core. */
#include "supervisor/env/env.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { COPIES = 64, AGENTS = 3, MOVES = 5, ROUNDS = 20000, REPEATS = 5, SHEETS = 64 };

static const double GOAL = 5e6;

static float sheets[SHEETS][AGENTS][COPIES * MOVES];

static double now_s(void)
{
    struct timespec t;

    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Random moves (any will do), the same every time. */
static void fill_sheets(void)
{
    uint32_t x = 1;

    for (int s = 0; s < SHEETS; s++) {
        for (int a = 0; a < AGENTS; a++) {
            for (int c = 0; c < COPIES; c++) {
                x = x * 1664525u + 1013904223u;
                sheets[s][a][c * MOVES + (x >> 16) % MOVES] = 1.0f;
            }
        }
    }
}

static double steps_per_second(struct vec_env *v)
{
    struct env_step step;
    double start = now_s();

    for (int r = 0; r < ROUNDS; r++) {
        const float *actions[AGENTS];

        for (int a = 0; a < AGENTS; a++)
            actions[a] = sheets[r % SHEETS][a];
        if (vec_env_step(v, actions, &step, NULL) < 0)
            exit(1);
    }
    return (double)COPIES * ROUNDS / (now_s() - start);
}

static void measure(enum env_actions actions, enum env_rules rules, const char *what)
{
    struct env_config config = {.id = "simple_spread",
                                .actions = actions,
                                .rules = rules,
                                .copies = COPIES,
                                .max_steps = 25};
    struct vec_env *v;
    double best = 0.0;

    if (vec_env_new(&v, &config, 1, ENV_DRAWS_TRAINING, 0, NULL) < 0)
        exit(1);
    vec_env_reset(v);
    for (int i = 0; i < REPEATS; i++) {
        double rate = steps_per_second(v);

        best = rate > best ? rate : best;
    }
    (void)printf("%-22s %6.2f million steps/s, %.2f of the goal\n", what, best / 1e6,
                 best / GOAL);
    vec_env_free(v);
}

int main(void)
{
    fill_sheets();
    measure(ENV_ACTIONS_DISCRETE, ENV_RULES_MPE2, "discrete, mpe2");
    measure(ENV_ACTIONS_CONTINUOUS, ENV_RULES_MPE2, "continuous, mpe2");
    measure(ENV_ACTIONS_DISCRETE, ENV_RULES_OPENAI, "discrete, openai");
    return 0;
}
