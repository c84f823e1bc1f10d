#include "agent/algo/parts.h"

#include "agent/algo/algo.h"
#include "agent/algo/seen.h"
#include "agent/graph/arithmetic.h"
#include "agent/nn/nn.h"
#include "common/mem/xmalloc.h"

#include <stdlib.h>
#include <string.h>

static void collect(struct graph *g, const char *key, struct output x)
{
    collection_add(g, key, (struct collection_item){.kind = ITEM_OUTPUT, .output = x});
}

void name_policy(struct graph *g, struct output observation, struct output action,
                 enum policy_gives gives)
{
    static const char *const names[] = {[POLICY_GIVES_ACTION] = POLICY_ACTION,
                                        [POLICY_SCORES_CHOICES] = POLICY_LOGITS,
                                        [POLICY_SCORES_COMBINATIONS] = POLICY_LOGITS,
                                        [POLICY_GIVES_HYBRID] = POLICY_HYBRID};

    collect(g, POLICY_OBSERVATION, observation);
    collect(g, names[gives], action);
    if (gives == POLICY_SCORES_COMBINATIONS)
        collect(g, POLICY_COMBINATIONS, action);
}

void name_policy_carry(struct graph *g, struct output carry, struct output next_carry)
{
    collect(g, POLICY_CARRY, carry);
    collect(g, POLICY_NEXT_CARRY, next_carry);
}

static void collect_int(struct graph *g, const char *key, int64_t x)
{
    collection_add(g, key, (struct collection_item){.kind = ITEM_INT, .i = x});
}

void name_policy_inputs(struct graph *g, int64_t last_action, const struct agent_id *id)
{
    if (last_action > 0)
        collect_int(g, POLICY_LAST_ACTION, last_action);
    if (id->width > 0) {
        collect_int(g, POLICY_ID, id->width);
        collect_int(g, POLICY_ID, id->place);
    }
}

struct output of_each_head(struct graph *g, const char *type, struct output x,
                           const struct space *space)
{
    struct output head[sizeof(space->heads) / sizeof(space->heads[0])];
    int64_t begin = 0;

    if (space->n_heads == 1)
        return unary(g, type, x, NULL);
    for (int i = 0; i < space->n_heads; i++) {
        head[i] = unary(g, type, slice_columns(g, x, begin, space->heads[i], NULL), NULL);
        begin += space->heads[i];
    }
    return concat(g, head, (size_t)space->n_heads, 1, NULL);
}

struct output squash(struct graph *g, struct output x, double low, double high)
{
    const double half = (high - low) / 2;

    x = unary(g, "Tanh", x, NULL);
    x = mul(g, x, constant_f32(g, (float)half, NULL));
    return add(g, x, constant_f32(g, (float)(low + half), NULL));
}

const struct optimizer_config *network_optimizer(const struct agent_config *c,
                                                 const struct network_config *net)
{
    return net->has_optimizer ? &net->optimizer : &c->optimizer;
}

/* Every convolution must have room for its kernel. */
static int check_room(const struct conv_layers *conv, const char *key,
                      const struct obs_form *p, struct err *err)
{
    int64_t y = p->height, x = p->width;

    for (int64_t i = 0; i < conv->n; i++) {
        const struct conv_layer *layer = &conv->layer[i];
        const int64_t kernel = layer->kernel;

        if (kernel > y || kernel > x)
            return err_set_at(err, ERR_CONFIG, ERR_AT(.key = key),
                              "the kernel of convolution %lld is %lld wide, but what it "
                              "sees is %lld x %lld",
                              (long long)i + 1, (long long)kernel, (long long)y,
                              (long long)x);
        y = conv_layer_output(layer, y);
        x = conv_layer_output(layer, x);
    }
    return 0;
}

static int sees_alike(const struct space *a, const struct space *b)
{
    return a->obs == b->obs && image_is_same(&a->image, &b->image) &&
           memcmp(a->entities, b->entities, sizeof(a->entities)) == 0;
}

/* Refuses an agent that has nothing for the layers, or another form than the first. */
static int check_seen(const struct network_config *net, const char *key,
                      const struct space *first, const struct space *s, struct err *err)
{
    const int has_part = net->has_entities ? s->entities[0] > 0 : s->image.shape[0] > 0;

    if (!has_part)
        return err_set_at(
            err, ERR_CONFIG, ERR_AT(.key = key), "%s observes no %s, but %lld numbers",
            s->name, net->has_entities ? "entities" : "image (height, width, channels)",
            (long long)s->obs);
    if (sees_alike(first, s))
        return 0;
    return err_set_at(err, ERR_CONFIG, ERR_AT(.key = key),
                      net->has_entities
                          ? "the entities of %s and %s differ in number or width"
                          : "the images of %s and %s, or the numbers beside them, differ "
                            "in shape or type",
                      first->name, s->name);
}

/* The form of what an agent observes. A stack of images alone is one image (obs_msg.h). */
static struct obs_form form_of(const struct network_config *net, const struct space *s)
{
    const struct image_part *image = &s->image;
    const int is_stack = s->stack > 1 && image_size(image) < s->obs;
    const int64_t stack = is_stack ? s->stack : 1;

    if (net->has_entities) {
        const int64_t size = s->entities[0] * s->entities[1];

        return (struct obs_form){.stack = 1,
                                 .each = s->obs,
                                 .at = s->obs - size,
                                 .size = size,
                                 .k = s->entities[0],
                                 .entity_width = s->entities[1]};
    }
    return (struct obs_form){.stack = stack,
                             .each = s->obs / stack,
                             .at = image->at,
                             .size = image_size(image),
                             .height = image->shape[0],
                             .width = image->shape[1],
                             .channels = image->shape[2],
                             .is_u8 = image->is_u8};
}

int obs_form_of(const struct network_config *net, const char *key,
                const struct space *agents, const size_t *which, size_t n,
                struct obs_form *ret, struct err *err)
{
    const struct space *first = &agents[which != NULL ? which[0] : 0];
    char entities_key[32];
    int rc = 0;

    *ret = (struct obs_form){0};
    if (!network_has_obs_layers(net))
        return 0;
    (void)snprintf(entities_key, sizeof(entities_key), "%.*s.entities",
                   (int)strcspn(key, "."), key);
    for (size_t i = 0; i < n && rc == 0; i++)
        rc = check_seen(net, net->has_entities ? entities_key : key, first,
                        &agents[which != NULL ? which[i] : i], err);
    if (rc < 0)
        return rc;
    *ret = form_of(net, first);
    ret->n = (int64_t)n;
    return net->has_entities ? 0 : check_room(&net->conv, key, ret, err);
}

int obs_forms_of(const struct agent_config *c, const struct space *self,
                 const struct space *agents, const size_t *which, size_t n,
                 struct obs_form *ret_actor, struct obs_form *ret_critic, struct err *err)
{
    int rc = obs_form_of(&c->actor, "actor.conv", self, NULL, 1, ret_actor, err);

    return rc < 0 ? rc
                  : obs_form_of(&c->critic, "critic.conv", agents, which, n, ret_critic,
                                err);
}

static int check_optimizer(const struct optimizer_config *o, const char *key,
                           struct err *err)
{
    if (o->type != OPT_ACCEPT_REJECT)
        return 0;
    return err_set_at(err, ERR_CONFIG, ERR_AT(.key = key),
                      "accept_reject makes no use of gradients, which this algorithm "
                      "learns by");
}

int check_optimizers(const struct agent_config *c, struct err *err)
{
    int rc = check_optimizer(&c->optimizer, "optimizer.type", err);

    if (rc == 0 && c->actor.has_optimizer)
        rc = check_optimizer(&c->actor.optimizer, "actor.optimizer.type", err);
    if (rc == 0 && c->critic.has_optimizer)
        rc = check_optimizer(&c->critic.optimizer, "critic.optimizer.type", err);
    return rc;
}

struct operation *apply_clipped(struct graph *g, struct gradient *grads, size_t n,
                                struct minimizer *m)
{
    m->norm = global_norm(g, grads, n);
    if (m->clip_by == CLIP_BY_GLOBAL)
        clip_gradients_by_global_norm(g, grads, n, m->norm, m->clip_norm);
    else
        clip_gradients_by_norm(g, grads, n, m->clip_norm);
    return apply_gradients(g, m->optimizer, grads, n, NULL, NULL, &m->learning_rate);
}

struct operation *minimize_clipped(struct graph *g, struct output loss,
                                   struct minimizer *m, struct err *err)
{
    const struct collection_item *items;
    size_t n = collection_get(g, TRAINABLE_VARIABLES, m->scope, &items);
    struct variable **vars = xcalloc(n, sizeof(struct variable *));
    struct gradient *grads = xcalloc(n, sizeof(*grads));
    struct operation *op = NULL;

    for (size_t i = 0; i < n; i++)
        vars[i] = items[i].variable;
    if (compute_gradients(g, loss, vars, n, grads, err) == 0)
        op = apply_clipped(g, grads, n, m);
    free(vars);
    free(grads);
    return op;
}

/* Handles one pair of scopes: adds to ops[] and copies[] and returns the number added. */
static size_t follow_scope(struct graph *g, const char *agent, const struct following *f,
                           struct output keep, struct output polyak,
                           struct operation **ops, struct operation **copies)
{
    char *target = xasprintf("%s/%s/", agent, f->target);
    char *source = xasprintf("%s/%s/", agent, f->source);
    const struct collection_item *t, *v;
    size_t n = collection_get(g, TRAINABLE_VARIABLES, target, &t);

    (void)collection_get(g, TRAINABLE_VARIABLES, source, &v);
    for (size_t i = 0; i < n; i++) {
        struct output kept = mul(g, keep, t[i].variable->read);
        struct output moved = mul(g, polyak, v[i].variable->read);

        moved = add(g, kept, moved);
        ops[i] = variable_assign(t[i].variable, moved, NULL).op;
        copies[i] = variable_assign(t[i].variable, v[i].variable->read, NULL).op;
    }
    free(target);
    free(source);
    return n;
}

void follow_variables(struct graph *g, const char *agent, const struct following *f,
                      size_t n, struct output keep, struct output polyak,
                      const char *update, const char *copy, struct operation **ret_update,
                      struct operation **ret_copy)
{
    size_t room = collection_get(g, TRAINABLE_VARIABLES, NULL, NULL), used = 0;
    struct operation **ops = xcalloc(room, sizeof(struct operation *));
    struct operation **copies = xcalloc(room, sizeof(struct operation *));

    for (size_t i = 0; i < n; i++)
        used += follow_scope(g, agent, &f[i], keep, polyak, ops + used, copies + used);
    *ret_update = group(g, ops, used, update);
    *ret_copy = group(g, copies, used, copy);
    free(ops);
    free(copies);
}

int finish_graph(struct graph *g, int rc, struct operation **ret_init, struct err *err)
{
    int n = graph_n_variables(g);
    struct variable **vars = xcalloc((size_t)n + 1, sizeof(struct variable *));

    for (int i = 0; i < n; i++)
        vars[i] = graph_variable_at(g, i);
    *ret_init = variables_initializer(g, vars, (size_t)n, "init");
    free(vars);
    return graph_error(g) != NULL ? err_pass(err, graph_error(g)) : rc;
}

int check_agent_id(const struct algorithm_settings *set, struct err *err)
{
    if (!set->agent_id || set->symmetry == SYMMETRY_NONE)
        return 0;
    return err_set_at(
        err, ERR_CONFIG, ERR_AT(.key = "settings.agent_id"),
        "an agent's id has no place in the environment's symmetry; expected "
        "agent_id: false or symmetry: none");
}
