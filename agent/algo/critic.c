/* A critic alone, driven from outside: what an observation and an action are worth.
 *
 * It has no stages and does not act; a client runs its graph. Names, under the agent's:
 *
 *     inputs:0 (B, O)  action:0 (B, U)  q_predicted:0 (B, 1)  is_weight:0 (B, 1)   fed
 *     q:0 (B, 1)  target_q:0 (B, 1)  td_error:0 (B, 1)  loss:0  grad_norm:0
 *     action_gradients:0 (B, U), of q's mean                                   fetched
 *     train          one step down mean(is_weight (q_predicted - q)^2)
 *     update_target  target = (1 - polyak) target + polyak performance
 *     performance_network/... and target_network/..., variables
 *
 * The network is the configuration's; by default that of the first users: 128 and 32
 * leaky ReLU, then the action joins, 64 leaky ReLU, 1, the last weights in +-3e-3.
 */
#include "agent/algo/kit.h"
#include "agent/graph/arithmetic.h"

struct algo {
    struct kit kit;
    struct output inputs, action, q_predicted, is_weight;
    struct output q;
    struct live *rate;
};

static const struct kit_plan plan; /* it has no stages */

/* ---- the graph ---- */

static struct output network(struct algo *a, const char *scope)
{
    struct graph *g = a->kit.graph;
    struct output q, joined;

    variable_scope_enter(g, scope, NULL, REUSE_AUTO);
    q = critic_network(g, a->inputs, a->action, &a->kit.config->critic, &joined);
    variable_scope_leave(g);
    return q;
}

static void make_training(struct algo *a)
{
    struct kit *k = &a->kit;
    struct graph *g = k->graph;
    struct output error = binary(g, "Sub", a->q_predicted, a->q, "td_error"), loss;
    size_t step;

    kit_add_clip_norm(k);
    loss = mean_of(g, mul(g, a->is_weight, square(g, error)), "loss");
    step = kit_add_step(k, kit_critic_step(k, "performance_network", a->rate, loss));
    if (k->step[step].train == NULL)
        return;
    kit_make_critic_rate(k, a->rate);
    (void)named(g, k->step[step].norm, "grad_norm");
    (void)group(g, &k->step[step].train, 1, "train");
}

static int build_graph(struct algo *a, struct err *err)
{
    static const struct following target = {"target_network", "performance_network"};
    struct kit *k = &a->kit;
    struct graph *g = k->graph;

    variable_scope_enter(g, k->scope, NULL, REUSE_INHERIT);
    a->inputs = kit_placeholder(k, k->self->obs, "inputs");
    a->action = kit_placeholder(k, k->self->width, "action");
    a->q_predicted = kit_placeholder(k, 1, "q_predicted");
    a->is_weight = kit_placeholder(k, 1, "is_weight");
    a->q = named(g, network(a, "performance_network"), "q");
    make_training(a);
    struct output mean = mean_of(g, a->q, "q_mean"), grad;
    if (graph_gradients(g, &mean, 1, &a->action, 1, NULL, NULL, 0, &grad, &k->failure) ==
        0)
        (void)named(g, grad, "action_gradients");
    (void)named(g, network(a, "target_network"), "target_q");
    kit_add_polyak(k);
    kit_follow(k, &target, 1, kit_keep(k), "update_target", "init_target");
    variable_scope_leave(g);
    return kit_finish(k, err);
}

/* ---- the algorithm ---- */

static void critic_done(struct algo *a)
{
    kit_done(&a->kit);
}

static int critic_build(struct algo *a, const struct algo_args *args, struct err *err)
{
    const struct agent_config *c = args->config;
    struct obs_form none;
    int rc = obs_form_of(&c->critic, "critic.conv", &args->agents[args->self], NULL, 1,
                         &none, err);

    if (rc < 0) /* without an environment nothing says what an image is */
        return rc;
    if (network_optimizer(c, &c->critic)->type == OPT_ACCEPT_REJECT)
        return err_set_at(err, ERR_CONFIG, ERR_AT(.key = "optimizer.type"),
                          "accept_reject tries changes on batches of its "
                          "own; a critic that clients train needs gradients");
    kit_init(&a->kit, args, &plan, 0);
    a->rate = kit_add_live(&a->kit, (struct live){0});
    return build_graph(a, err);
}

/* ---- description ---- */

static const char *const settings[] = {"clip_by", NULL};

static const struct algorithm_default defaults[] = {
    {"critic.hidden", "[128, 32]"},
    {"critic.activation", "leaky_relu"},
    {"critic.after_action", "[64]"},
    {"critic.output_init", "0.003"},
    {NULL},
};

static const struct algo_about about = {
    .info = {.summary = "a critic alone, trained by a client with targets of its own",
             .use = "for a program that computes the targets itself, through `brood run` "
                    "and its socket",
             .stages = "",
             .source = "brood's own",
             .defaults = defaults,
             .own_critic = 1,
             .without_env = 1},
    .settings = settings};

const struct algo_ops critic_ops = {
    .name = "critic",
    .about = &about,
    .size = sizeof(struct algo),
    .build = critic_build,
    .done = critic_done,
    .lives = kit_lives,
    .init = kit_init_values,
};
