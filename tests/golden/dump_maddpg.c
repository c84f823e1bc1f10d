/* Writes one update of a team to stdout, as one framed message, for maddpg_numpy.py: the
 * variables before and after, the rows, the noise, and the scalars of every agent.
 *
 *     dump_maddpg CONFIG [SPACE]    an agent's section as YAML; SPACE: "moves" (five),
 *                                   "heads" (moves and speech), "masked" (the same, not
 *                                   all always possible), "box" (bounds -3, 1)
 */
#include "common/err/check.h"
#include "common/msg/msg.h"
#include "common/rng/rng.h"
#include "tests/support/team.h"

#include <stdio.h>
#include <string.h>

#define BATCH  128
#define N_ROWS 400
#define WARM   3 /* updates before the dump, which change moments and targets */

/* The draws and fields that the file contains for each agent. */
static const char *const columns[] = {"obs", "action", "reward", "next_obs",
                                      "terminated"};
#define N_COLUMNS 5

static void pack_variables(struct team *t, size_t i, struct msg_out *o)
{
    const int n = graph_n_variables(t->members[i].graph);

    msg_map(o, (size_t)n);
    for (int k = 0; k < n; k++) {
        const struct variable *v = graph_variable_at(t->members[i].graph, k);
        struct tensor value;

        CHECK(session_variable(t->members[i].session, v, &value, NULL) == 0);
        msg_key(o, v->name);
        msg_tensor(o, &value);
    }
}

static void pack_column(struct team *t, size_t i, const char *name, const uint64_t *rows,
                        struct msg_out *o)
{
    const int c = store_layout_find(&t->layout, t->spaces[i].name, name);
    const uint32_t width = t->layout.columns[c].elements;
    struct tensor x;

    CHECK(tensor_alloc(&x, DT_FLOAT, SHAPE(BATCH, width), NULL) == 0);
    store_view_gather(t->store, c, rows, BATCH, tensor_f32(&x), width);
    msg_key(o, name);
    msg_tensor(o, &x);
    tensor_free(&x);
}

static void pack_mask(struct team *t, size_t i, const char *name, const uint64_t *rows,
                      struct msg_out *o)
{
    const int c = store_layout_find(&t->layout, t->spaces[i].name, name);
    const uint32_t width = t->layout.columns[c].elements;
    uint8_t mask[BATCH * 64];
    struct tensor x;

    CHECK(width <= 64 && tensor_alloc(&x, DT_FLOAT, SHAPE(BATCH, width), NULL) == 0);
    store_view_gather_bytes(t->store, c, rows, BATCH, mask);
    for (size_t k = 0; k < BATCH * width; k++)
        tensor_f32(&x)[k] = mask[k];
    msg_key(o, name);
    msg_tensor(o, &x);
    tensor_free(&x);
}

/* Masks that allow half of all choices; some heads have no allowed choice. */
static void draw_masks(struct team *t)
{
    static const char *const names[] = {"allowed", "next_allowed"};

    for (uint64_t row = 0; row < N_ROWS; row++) {
        for (size_t i = 0; i < 2 * t->args.n; i++) {
            const struct rng_key key = rng_key_make(13, "golden", names[i % 2]);
            const size_t width = (size_t)t->spaces[0].width;
            float u[64];
            uint8_t mask[64];

            rng_uniform_f32(key, row, i * width, u, width);
            for (size_t k = 0; k < width; k++)
                mask[k] = u[k] < 0.5f;
            team_write_mask(t, row, i / 2, names[i % 2], mask);
        }
    }
}

/* The uniform numbers that this agent's random op draws in a stage. */
static void pack_noise(struct team *t, size_t i, const char *key, const char *stage,
                       const char *op, struct msg_out *o)
{
    const int64_t width = t->spaces[i].width;
    char name[256];
    struct tensor u;

    (void)snprintf(name, sizeof(name), "%s_1/%s/RandomUniform", t->spaces[i].name, op);
    CHECK(graph_operation(t->members[i].graph, name) != NULL, "%s", name);
    CHECK(tensor_alloc(&u, DT_FLOAT, SHAPE(BATCH, width), NULL) == 0);
    rng_uniform_f32(rng_key_derive(team_stage_key(t, i, stage), name), WARM, 0,
                    tensor_f32(&u), (size_t)(BATCH * width));
    msg_key(o, key);
    msg_tensor(o, &u);
    tensor_free(&u);
}

static void pack_space(const struct team *t, struct msg_out *o)
{
    const struct space *s = &t->spaces[0];

    msg_key(o, "heads");
    msg_array(o, (size_t)s->n_heads);
    for (int i = 0; i < s->n_heads; i++)
        msg_u64(o, (uint64_t)s->heads[i]);
    msg_put_f64(o, "low", s->low);
    msg_put_f64(o, "high", s->high);
    msg_put_str(o, "algorithm", t->config.algorithm);
    msg_put_bool(o, "own_critic", t->config.critic.input == CRITIC_OWN);
    msg_put_bool(o, "clip_by_global", t->settings.clip_by == CLIP_BY_GLOBAL);
}

static void pack_agent_before(struct team *t, size_t i, const uint64_t *rows,
                              struct msg_out *o)
{
    const int gumbel = t->spaces[i].n_heads > 0, masked = t->spaces[i].masked;

    msg_map(o, 3);
    msg_put_str(o, "name", t->spaces[i].name);
    msg_key(o, "variables");
    pack_variables(t, i, o);
    msg_key(o, "rows");
    msg_map(o, N_COLUMNS + (gumbel ? 2 : 0) + (masked ? 2 : 0));
    for (int c = 0; c < N_COLUMNS; c++)
        pack_column(t, i, columns[c], rows, o);
    if (gumbel) { /* ddpg has no propose stage: it draws in `learn` */
        const int one_stage = strcmp(t->config.algorithm, "ddpg") == 0;

        pack_noise(t, i, "noise", "learn", "random_uniform", o);
        pack_noise(t, i, "next_noise", one_stage ? "learn" : "propose",
                   "random_uniform_1", o);
    }
    if (masked) {
        pack_mask(t, i, "allowed", rows, o);
        pack_mask(t, i, "next_allowed", rows, o);
    }
}

static void pack_agent_after(struct team *t, size_t i, struct msg_out *o)
{
    const struct stage_result *res = &t->members[i].learned;

    msg_map(o, 2);
    msg_key(o, "variables");
    pack_variables(t, i, o);
    msg_key(o, "scalars");
    msg_map(o, (size_t)res->n_scalars);
    for (int k = 0; k < res->n_scalars; k++) {
        msg_put_f64(o, res->scalar[k].name, res->scalar[k].value);
    }
}

static void draw_batch(uint64_t number, uint64_t *rows, float *weights)
{
    const struct rng_key key = rng_key_make(11, "golden", "rows");

    rng_below(key, number, 0, N_ROWS, rows, BATCH);
    rng_uniform_f32(key, number, 1 << 20, weights, BATCH);
}

int main(int argc, char **argv)
{
    struct team_args args = team_spread(argc > 1 ? argv[1] : "{}", N_ROWS);
    const char *space = argc > 2 ? argv[2] : "";
    uint64_t rows[BATCH];
    float weights[BATCH];
    struct tensor w = tensor_const_view(DT_FLOAT, SHAPE(BATCH, 1), weights);
    const uint8_t *frame;
    struct msg_out o;
    struct team *t;
    size_t len;

    if (strcmp(space, "heads") == 0)
        args.space = (struct space){.width = 8,
                                    .box = 1,
                                    .particle = 1,
                                    .n_heads = 2,
                                    .heads = {5, 3},
                                    .high = 1};
    else if (strcmp(space, "masked") == 0)
        args.space =
            (struct space){.width = 8, .n_heads = 2, .heads = {5, 3}, .masked = 1};
    else if (strcmp(space, "box") == 0)
        args.space = (struct space){.width = 3, .box = 1, .low = -3, .high = 1};
    t = team_new(&args);
    if (args.space.masked)
        draw_masks(t);
    for (uint64_t u = 0; u < WARM; u++) {
        draw_batch(u, rows, weights);
        team_update(t, u, rows, 1, BATCH, weights);
    }
    draw_batch(WARM, rows, weights);

    msg_out_init(&o);
    msg_begin_notification(&o, "golden");
    msg_map(&o, 8);
    pack_space(t, &o);
    msg_key(&o, "weights");
    msg_tensor(&o, &w);
    msg_key(&o, "agents");
    msg_array(&o, 2 * t->args.n);
    for (size_t i = 0; i < t->args.n; i++)
        pack_agent_before(t, i, rows, &o);
    team_update(t, WARM, rows, 1, BATCH, weights);
    for (size_t i = 0; i < t->args.n; i++)
        pack_agent_after(t, i, &o);
    msg_end(&o, &frame, &len);
    CHECK(fwrite(frame, 1, len, stdout) == len);
    msg_out_done(&o);
    team_free(t);
    return 0;
}
