#include "supervisor/export/policy.h"

#include "common/ckpt/ckpt_find.h"
#include "common/ckpt/saved_model.h"
#include "supervisor/export/translate.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Below all scores, and short enough for a program. */
#define LOWEST (-3e38f)

enum { MAX_GRAPH_BYTES = 256 << 20, MAX_COMBINATIONS = 1 << 20, MAX_WIDTH = 1 << 28 };

/* What its graph says of a policy, and the widths of what it sees. */
struct policy {
    const char *observation, *carry, *next_carry, *gives;
    enum { GIVES_ACTION, GIVES_LOGITS, GIVES_HYBRID } kind;
    int64_t input;       /* columns of `observation` */
    int64_t units;       /* of the carry */
    int64_t last_action; /* width of the last action that it sees; 0: it does not */
    int64_t id[2];       /* width and place of its id; width 0: none */
    int64_t state;       /* H: the carry, then the last action */
    int of_combinations;
};

/* ---- which tensors are the policy's ---- */

static int64_t columns_of(const struct graph_def *g, const char *tensor)
{
    const struct graph_node *n = tensor != NULL ? graph_def_find(g, tensor, NULL) : NULL;
    const struct shape shape = n != NULL ? graph_node_shape(n, "shape") : SHAPE_UNKNOWN;

    return shape.rank == 2 ? shape.dim[1] : 0;
}

static int find_policy(struct policy *p, const struct graph_def *g, const char *agent,
                       struct err *err)
{
    static const char *const gives[] = {[GIVES_ACTION] = "policy/action",
                                        [GIVES_LOGITS] = "policy/logits",
                                        [GIVES_HYBRID] = "policy/hybrid"};

    *p = (struct policy){.observation = graph_def_named(g, "policy/observation"),
                         .carry = graph_def_named(g, "policy/carry"),
                         .next_carry = graph_def_named(g, "policy/next_carry"),
                         .of_combinations =
                             graph_def_named(g, "policy/combinations") != NULL};
    for (int i = GIVES_ACTION; i <= GIVES_HYBRID && p->gives == NULL; i++) {
        p->gives = graph_def_named(g, gives[i]);
        p->kind = i;
    }
    if (p->observation == NULL || p->gives == NULL)
        return err_set(err, ERR_UNSUPPORTED,
                       "%s has no policy of its own to export: its graph names none "
                       "(`brood algorithms` lists those that learn one)",
                       agent);
    p->input = columns_of(g, p->observation);
    if (p->next_carry != NULL)
        p->units = columns_of(g, p->carry);
    (void)graph_def_ints(g, "policy/last_action", &p->last_action, 1);
    (void)graph_def_ints(g, "policy/id", p->id, 2);
    for (size_t i = 0; i < 5; i++) {
        const int64_t w[] = {p->input, p->units, p->last_action, p->id[0], p->id[1]};

        if (w[i] < 0 || w[i] > MAX_WIDTH)
            return err_set(err, ERR_FORMAT, "%s: its graph gives a width of %lld", agent,
                           (long long)w[i]);
    }
    p->state = p->units + p->last_action;
    return 0;
}

/* ---- what it sees ---- */

static struct net_value *clip(struct network *net, struct net_value *x, double low,
                              double high)
{
    if (!isfinite((float)low) || !isfinite((float)high))
        return x;
    return network_op(net, NET_CLIP,
                      (struct net_value *const[]){x, network_number(net, (float)low),
                                                  network_number(net, (float)high)},
                      3, NULL, 0);
}

/* The agent's id, one-hot, in each row of x. */
static struct net_value *make_id(struct network *net, const struct policy *p,
                                 struct net_value *x, int64_t columns)
{
    struct tensor id;
    struct err err;

    if (p->id[0] <= 0)
        return NULL;
    if (p->id[1] < 0 || p->id[1] >= p->id[0] ||
        tensor_alloc(&id, DT_FLOAT, SHAPE(1, p->id[0]), &err) < 0) {
        (void)err_set(&err, ERR_FORMAT, "the policy's id cannot be read");
        network_fail(net, &err);
        return NULL;
    }
    tensor_f32(&id)[p->id[1]] = 1;
    x = network_binary(net, NET_MUL, network_columns(net, x, 0, 1, columns),
                       network_number(net, 0));
    x = network_binary(net, NET_ADD, x, network_constant(net, &id));
    tensor_free(&id);
    return x;
}

static int feed(struct translation *t, const struct policy *p, const struct policy_of *of,
                struct net_value *x, struct net_value *state, struct err *err)
{
    const struct env_agent *agent = &of->spec->agents[of->agent];
    const int64_t seen = (int64_t)env_seen_width(of->spec, of->agent);
    const double most = of->spec->clip_observations;
    struct network *net = t->net;
    struct net_value *last = NULL;

    if (p->input != seen + p->last_action + p->id[0])
        return err_set(err, ERR_UNSUPPORTED,
                       "%s: its network sees %lld numbers, the environment shows %lld",
                       agent->name, (long long)p->input, (long long)seen);
    if (most > 0 && !env_has_bytes(agent))
        x = clip(net, x, -most, most);
    if (p->last_action > 0)
        last = network_columns(net, state, p->units, p->last_action, p->state);
    x = network_concat(
        net, (struct net_value *const[]){x, last, make_id(net, p, x, seen)}, 3, 1);
    translation_feed(t, p->observation, x);
    if (p->units > 0)
        translation_feed(t, p->carry, network_columns(net, state, 0, p->units, p->state));
    return 0;
}

/* ---- what it chooses ---- */

static int64_t choices_of(const struct action_space *s)
{
    int64_t n = 0;

    for (int h = 0; h < s->n_heads; h++)
        n += s->heads[h];
    return n;
}

/* Of all heads together: a policy that scores them has few (agent/algo/choices.h). */
static int64_t combinations_of(const struct action_space *s)
{
    int64_t n = 1;

    for (int h = 0; h < s->n_heads && n < MAX_COMBINATIONS; h++)
        n *= s->heads[h];
    return n;
}

/* mask (N, n): which of n choices of a part of the action may be made: all, if none may. */
static struct net_value *open_choices(struct network *net, struct net_value *mask)
{
    const struct net_attr attrs[] = {{.name = "axes", .n = 1, .ints = {1}},
                                     NET_INT("keepdims", 1)};
    struct net_value *any = network_op(net, NET_REDUCE_MAX, &mask, 1, attrs, 2);

    any = network_binary(net, NET_SUB, any, network_number(net, 0.5f));
    return network_binary(net, NET_GREATER, mask, any);
}

/* The largest of x (N, n) that is open; NULL: all are. */
static struct net_value *best(struct network *net, struct net_value *x,
                              struct net_value *open)
{
    if (open != NULL)
        x = network_op(net, NET_WHERE,
                       (struct net_value *const[]){open, x, network_number(net, LOWEST)},
                       3, NULL, 0);
    return network_op(net, NET_ARGMAX, &x, 1, &NET_INT("axis", 1), 1);
}

static struct net_value *one_hot(struct network *net, struct net_value *choice, int64_t n)
{
    static float values[] = {0, 1};
    const struct tensor off_on = tensor_view(DT_FLOAT, SHAPE(2), values);

    return network_op(net, NET_ONE_HOT,
                      (struct net_value *const[]){choice, network_integer(net, n),
                                                  network_constant(net, &off_on)},
                      3, NULL, 0);
}

/* The part of each head of x (N, the sum of their choices); x NULL: of none. */
static void cut_heads(struct network *net, struct net_value *x,
                      const struct action_space *s, struct net_value **ret)
{
    int64_t begin = 0;

    for (int h = 0; h < s->n_heads; begin += s->heads[h++])
        ret[h] =
            x != NULL ? network_columns(net, x, begin, s->heads[h], choices_of(s)) : NULL;
}

/* One-hot vectors of the heads, side by side. */
static struct net_value *choose_each(struct network *net, struct net_value *logits,
                                     struct net_value *mask, const struct action_space *s)
{
    struct net_value *scores[SPACE_MAX_HEADS], *open[SPACE_MAX_HEADS];

    cut_heads(net, logits, s, scores);
    cut_heads(net, mask, s, open);
    for (int h = 0; h < s->n_heads; h++)
        scores[h] = one_hot(
            net, best(net, scores[h], mask != NULL ? open_choices(net, open[h]) : NULL),
            s->heads[h]);
    return network_concat(net, scores, (size_t)s->n_heads, 1);
}

/* Which of the heads' combinations may be chosen, (N, all): the first head's number changes
 * fastest. */
static struct net_value *open_combinations(struct network *net, struct net_value *mask,
                                           const struct action_space *s)
{
    struct net_value *part[SPACE_MAX_HEADS], *all = NULL;
    int64_t dims[SPACE_MAX_HEADS + 1];

    cut_heads(net, mask, s, part);
    for (int h = 0; h < s->n_heads; h++) {
        struct net_value *x = network_unary(net, NET_CAST, open_choices(net, part[h]));

        for (int i = 0; i < s->n_heads; i++)
            dims[s->n_heads - i] = i == h ? s->heads[h] : 1;
        dims[0] = -1;
        x = network_binary(net, NET_RESHAPE, x,
                           network_ints(net, dims, (size_t)s->n_heads + 1));
        all = all == NULL ? x : network_binary(net, NET_MUL, all, x);
    }
    dims[0] = -1;
    dims[1] = combinations_of(s);
    all = network_binary(net, NET_RESHAPE, all, network_ints(net, dims, 2));
    return network_binary(net, NET_GREATER, all, network_number(net, 0.5f));
}

static struct net_value *choose_combination(struct network *net, struct net_value *logits,
                                            struct net_value *mask,
                                            const struct action_space *s)
{
    struct net_value *head[SPACE_MAX_HEADS];
    struct net_value *choice =
        best(net, logits, mask != NULL ? open_combinations(net, mask, s) : NULL);
    int64_t step = 1;

    for (int h = 0; h < s->n_heads; step *= s->heads[h++]) {
        head[h] = network_binary(net, NET_QUOTIENT, choice, network_integer(net, step));
        head[h] =
            network_binary(net, NET_MOD, head[h], network_integer(net, s->heads[h]));
        head[h] = one_hot(net, head[h], s->heads[h]);
    }
    return network_concat(net, head, (size_t)s->n_heads, 1);
}

/* ---- the whole ---- */

/* Outputs logits, if it has any, and returns the action. */
static struct net_value *decide(struct network *net, const struct policy *p,
                                const struct policy_of *of, struct net_value *x,
                                struct net_value *mask)
{
    const struct action_space *s = &of->spec->agents[of->agent].space;
    const int64_t all = s->width, choices = choices_of(s);
    struct net_value *numbers = NULL, *action;

    if (p->kind == GIVES_ACTION)
        return clip(net, x, s->low, s->high);
    if (p->kind == GIVES_HYBRID) {
        numbers = network_columns(net, x, choices, all - choices, all);
        numbers = clip(net, numbers, s->low, s->high);
        x = network_columns(net, x, 0, choices, all);
    }
    network_output(net, "logits", p->of_combinations ? combinations_of(s) : choices, x);
    action = p->of_combinations && s->n_heads > 1 ? choose_combination(net, x, mask, s)
                                                  : choose_each(net, x, mask, s);
    return network_concat(net, (struct net_value *const[]){action, numbers}, 2, 1);
}

/* Whether the layer that gives x has another width; what others give is not known. */
static int check_width(const struct net_value *x, const struct policy *p,
                       const struct policy_of *of, struct err *err)
{
    const struct env_agent *agent = &of->spec->agents[of->agent];
    const struct action_space *s = &agent->space;
    const int64_t want = p->kind != GIVES_LOGITS ? s->width
                         : p->of_combinations    ? combinations_of(s)
                                                 : choices_of(s);

    if (x->by == NULL || x->by->op != NET_GEMM ||
        x->by->in[1]->value.shape.dim[0] == want)
        return 0;
    return err_set(err, ERR_UNSUPPORTED,
                   "%s: its network gives %lld numbers for an action, the environment "
                   "expects %lld",
                   agent->name, (long long)x->by->in[1]->value.shape.dim[0],
                   (long long)want);
}

static int make(struct translation *t, const struct policy_of *of, struct err *err)
{
    const char *agent = of->spec->agents[of->agent].name;
    struct network *net = t->net;
    struct net_value *x, *action, *mask = NULL, *state = NULL, *carry = NULL;
    struct policy p;
    int rc = find_policy(&p, t->graph, agent, err);

    if (rc < 0)
        return rc;
    net->about = arena_printf(&net->arena, "The policy of %s of %s.", agent, of->run);
    x = network_input(net, "observation", (int64_t)env_seen_width(of->spec, of->agent));
    if (p.kind != GIVES_ACTION && env_is_masked(of->spec, of->agent))
        mask = network_input(net, "mask", choices_of(&of->spec->agents[of->agent].space));
    if (p.state > 0)
        state = network_input(net, "state", p.state);
    rc = feed(t, &p, of, x, state, err);
    if (rc < 0)
        return rc;
    x = translate(t, p.gives);
    if (p.units > 0)
        carry = translate(t, p.next_carry);
    if (net->failure.code < 0)
        return err_pass(err, &net->failure);
    rc = check_width(x, &p, of, err);
    if (rc < 0)
        return rc;
    action = decide(net, &p, of, x, mask);
    network_output(net, "action", of->spec->agents[of->agent].space.width, action);
    if (state != NULL)
        network_output(net, "next_state", p.state,
                       network_concat(net,
                                      (struct net_value *const[]){
                                          carry, p.last_action > 0 ? action : NULL},
                                      2, 1));
    return net->failure.code < 0 ? err_pass(err, &net->failure) : 0;
}

int policy_network(struct network *ret, const struct policy_of *of, struct err *err)
{
    struct translation t = {.net = ret, .agent = of->spec->agents[of->agent].name};
    struct wbuf metagraph = {0};
    struct graph_def graph;
    int rc = ckpt_read_graph(&metagraph, of->prefix, NULL, MAX_GRAPH_BYTES, err);

    if (rc == 0)
        rc = graph_def_read(&graph, &ret->arena, metagraph.data, metagraph.len, err);
    if (rc == 0)
        rc = bundle_reader_new(&t.values, of->prefix, err);
    t.graph = &graph;
    if (rc == 0)
        rc = make(&t, of, err);
    translation_done(&t);
    bundle_reader_free(t.values);
    wbuf_done(&metagraph);
    return rc;
}
