/* Plays a built-in world for packages.py: from standard input actions, one byte for each head of
 * each agent in each step; to standard output what the world says.
 *
 *     play_env ID PARAMS STEPS
 *
 * For each episode: reads all its actions; writes the first observations of all agents (float32),
 * then for each step the observations, the rewards (float64), and a byte that says whether
 * the task is over. Episodes do not end before the last step. Ends at the end of its input.
 */
#include "common/config/yaml_tree.h"
#include "supervisor/env/env_class.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct play {
    const struct env_class *class;
    void *world;
    struct env_spec spec;
    size_t n_steps, n_heads;
    uint8_t *choices; /* (steps, heads of all agents) */
    float **actions;  /* [A] */
    float **obs;      /* [A] */
    double **rewards; /* [A] */
    uint8_t **over;   /* [A] */
};

static void open_world(struct play *p, const char *id, const char *params,
                       struct arena *arena)
{
    struct env_config config = {.id = id};
    struct yaml_node *tree;
    const void *values;
    struct err err = {0};

    p->class = env_class_find(id);
    if (p->class == NULL ||
        yaml_tree_parse(&tree, arena, params, strlen(params), id, 1, &err) < 0)
        exit(2);
    config.params = tree;
    if (env_class_describe(p->class, &config, arena, &values, &p->spec, &err) < 0) {
        (void)fprintf(stderr, "%s\n", err.msg);
        exit(2);
    }
    p->world = p->class->ops->open(p->class, &config, values, 1, arena);
}

static void allocate(struct play *p, struct arena *arena)
{
    const size_t n = p->spec.n_agents;

    p->actions = ARENA_ARRAY(arena, float *, n);
    p->obs = ARENA_ARRAY(arena, float *, n);
    p->rewards = ARENA_ARRAY(arena, double *, n);
    p->over = ARENA_ARRAY(arena, uint8_t *, n);
    for (size_t a = 0; a < n; a++) {
        const struct env_agent *agent = &p->spec.agents[a];

        p->n_heads += (size_t)agent->space.n_heads;
        p->actions[a] = ARENA_ARRAY(arena, float, (size_t)agent->space.width);
        p->obs[a] = ARENA_ARRAY(arena, float, (size_t)agent->obs_width);
        p->rewards[a] = ARENA_ARRAY(arena, double, 1);
        p->over[a] = ARENA_ARRAY(arena, uint8_t, 1);
    }
    p->choices = ARENA_ARRAY(arena, uint8_t, p->n_steps * p->n_heads);
}

static void write_obs(const struct play *p)
{
    p->class->ops->observe(p->world, 0, 1, p->obs);
    for (size_t a = 0; a < p->spec.n_agents; a++)
        (void)fwrite(p->obs[a], sizeof(float), (size_t)p->spec.agents[a].obs_width,
                     stdout);
}

/* Sets one-hot actions; returns the choices behind this step's. */
static const uint8_t *set_actions(const struct play *p, const uint8_t *choice)
{
    for (size_t a = 0; a < p->spec.n_agents; a++) {
        const struct action_space *s = &p->spec.agents[a].space;
        float *head = p->actions[a];

        memset(head, 0, (size_t)s->width * sizeof(*head));
        for (int h = 0; h < s->n_heads; head += s->heads[h], h++)
            head[*choice++] = 1;
    }
    return choice;
}

static void play_episode(const struct play *p, uint64_t number)
{
    const struct env_episode episode = {
        .key = rng_key_make(1, "play", "env"), .episode = number, .number = number};
    const uint8_t *choice = p->choices;

    p->class->ops->reset(p->world, 0, &episode);
    write_obs(p);
    for (size_t t = 0; t < p->n_steps; t++) {
        choice = set_actions(p, choice);
        for (size_t a = 0; a < p->spec.n_agents; a++)
            p->over[a][0] = 0;
        p->class->ops->step(p->world, (const float *const *)p->actions,
                            (double *const *)p->rewards, (uint8_t *const *)p->over);
        write_obs(p);
        for (size_t a = 0; a < p->spec.n_agents; a++)
            (void)fwrite(p->rewards[a], sizeof(double), 1, stdout);
        (void)fwrite(p->over[0], 1, 1, stdout);
    }
    (void)fflush(stdout);
}

int main(int argc, char **argv)
{
    struct arena arena = {0};
    struct play p = {0};

    if (argc != 4)
        return 2;
    p.n_steps = strtoul(argv[3], NULL, 10);
    open_world(&p, argv[1], argv[2], &arena);
    allocate(&p, &arena);
    for (uint64_t number = 0;
         fread(p.choices, 1, p.n_steps * p.n_heads, stdin) == p.n_steps * p.n_heads;
         number++)
        play_episode(&p, number);
    arena_done(&arena);
    return 0;
}
