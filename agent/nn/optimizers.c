#include "agent/nn/nn.h"

#include "agent/graph/arithmetic.h"
#include "common/err/check.h"
#include "common/mem/xmalloc.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#define MAX_SLOTS     2
#define MAX_CONSTANTS 4
#define MAX_POWERS    2

/* An optimiser's update op takes, in this order: the variable, its slots, the powers of
 * the decay rates, constants, the gradient, further constants. */
struct optimizer_rule {
    const char *name, *op;
    int n_slots;
    int first_slot_is_one; /* RMSProp's mean square starts at 1, not 0 */
    int n_constants;
    int gradient_after; /* constants that precede the gradient */
    struct {
        const char *name;
        size_t offset; /* of a double in struct optimizer_config */
    } constants[MAX_CONSTANTS];
    int n_powers; /* Adam: constants 1 and 2 to the power of t */
    const char *powers[MAX_POWERS];
};

#define FROM(field) offsetof(struct optimizer_config, field)

static const struct optimizer_rule rules[] = {
    [OPT_ADAM] = {"Adam", "ApplyAdam", .n_slots = 2, .n_constants = 4,
                  .gradient_after = 4,
                  .constants = {{"learning_rate", FROM(learning_rate)},
                                {"beta1", FROM(beta1)},
                                {"beta2", FROM(beta2)},
                                {"epsilon", FROM(epsilon)}},
                  .n_powers = 2, .powers = {"beta1_power", "beta2_power"}},
    [OPT_SGD] = {"GradientDescent", "ApplyGradientDescent", .n_constants = 1,
                 .gradient_after = 1,
                 .constants = {{"learning_rate", FROM(learning_rate)}}},
    [OPT_MOMENTUM] = {"Momentum", "ApplyMomentum", .n_slots = 1, .n_constants = 2,
                      .gradient_after = 1,
                      .constants = {{"learning_rate", FROM(learning_rate)},
                                    {"momentum", FROM(momentum)}}},
    [OPT_RMSPROP] = {"RMSProp", "ApplyRMSProp", .n_slots = 2, .first_slot_is_one = 1,
                     .n_constants = 4, .gradient_after = 4,
                     .constants = {{"learning_rate", FROM(learning_rate)},
                                   {"decay", FROM(decay)},
                                   {"momentum", FROM(momentum)},
                                   {"epsilon", FROM(epsilon)}}},
};

/* The state of one call of apply_gradients. */
struct application {
    struct graph *g;
    const struct optimizer_rule *rule;
    const struct optimizer_config *config;
    struct output constants[MAX_CONSTANTS];
    struct variable *powers[MAX_POWERS];
};

static double config_value(const struct application *a, int constant)
{
    double v;

    memcpy(&v, (const char *)a->config + a->rule->constants[constant].offset, sizeof(v));
    return v;
}

/* An optimiser's variables are resources if those that it changes are. */
static unsigned kind_of(const struct variable *v)
{
    return output_dtype(v->ref) == DT_RESOURCE ? VARIABLE_RESOURCE : 0;
}

int compute_gradients(struct graph *g, struct output loss, struct variable *const *vars,
                      size_t n, struct gradient *ret_grads, struct err *err)
{
    struct output *xs = xcalloc(n + 1, sizeof(*xs)), *grads = xcalloc(n + 1, sizeof(*xs));
    int rc;

    for (size_t i = 0; i < n; i++)
        xs[i] = kind_of(vars[i]) == VARIABLE_RESOURCE ? vars[i]->ref : vars[i]->read;
    rc = graph_gradients_gated(g, loss, xs, n, grads, err);
    for (size_t i = 0; i < n; i++)
        ret_grads[i] = (struct gradient){grads[i], vars[i]};
    free(xs);
    free(grads);
    return rc;
}

/* Compares names in the order in which Python sorts "a:0" and "b:0". */
static int compare_tensor_names(const char *a, const char *b)
{
    for (; *a != '\0' && *a == *b; a++)
        b++;
    return (*a != '\0' ? *a : ':') - (*b != '\0' ? *b : ':');
}

/* Powers are plain tf.Variables beside the first variable by name, made before the
 * optimiser's own name scope is opened (Optimizer._create_non_slot_variable). */
static void make_powers(struct application *a, const struct gradient *grads, size_t n)
{
    const struct variable *first;

    if (a->rule->n_powers == 0)
        return;
    first = grads[0].variable;
    for (size_t i = 1; i < n; i++)
        if (compare_tensor_names(grads[i].variable->name, first->name) < 0)
            first = grads[i].variable;
    colocate_with_enter(a->g, first->ref.op);
    for (int i = 0; i < a->rule->n_powers; i++) {
        const float initial = (float)config_value(a, 1 + i);
        const struct tensor value = tensor_scalar_f32(&initial);

        a->powers[i] = variable_new_constant(a->g, &value, a->rule->powers[i],
                                             VARIABLE_NOT_TRAINABLE | kind_of(first));
    }
    colocate_with_leave(a->g);
}

/* slot_creator.create_slot: beside the variable, under its full name inside the current
 * variable scope, made unique there (`x/Adam`, `x/Adam_1`). */
static struct variable *make_slot(struct application *a, const struct variable *v,
                                  int ones)
{
    const struct initializer init = ones ? ones_initializer() : zeros_initializer();
    char *scope = xasprintf("%s/%s", v->name, a->rule->name);
    struct variable *slot;

    colocate_with_enter(a->g, v->ref.op);
    variable_scope_enter(a->g, NULL, scope, REUSE_INHERIT);
    slot = get_variable(a->g, "", v->dtype, &v->shape, &init,
                        VARIABLE_NOT_TRAINABLE | kind_of(v));
    variable_scope_leave(a->g);
    colocate_with_leave(a->g);
    free(scope);
    return slot;
}

static struct operation *update(struct application *a, const struct gradient *grad,
                                struct variable *const *slots)
{
    const struct optimizer_rule *rule = a->rule;
    char *scope = xasprintf("update_%s", grad->variable->name);
    char *type =
        xasprintf("%s%s", kind_of(grad->variable) != 0 ? "Resource" : "", rule->op);
    struct op_builder *b;
    struct operation *op;

    name_scope_enter(a->g, scope);
    b = op_begin(a->g, type, NULL);
    op_input(b, grad->variable->ref);
    for (int i = 0; i < rule->n_slots; i++)
        op_input(b, slots[i] != NULL ? slots[i]->ref : OUTPUT_NONE);
    for (int i = 0; i < rule->n_powers; i++)
        op_input(b, a->powers[i] != NULL ? a->powers[i]->read : OUTPUT_NONE);
    for (int i = 0; i < rule->n_constants; i++) {
        if (i == rule->gradient_after)
            op_input(b, grad->grad);
        op_input(b, a->constants[i]);
    }
    if (rule->gradient_after == rule->n_constants)
        op_input(b, grad->grad);
    op_colocate(b, grad->variable->name);
    op = op_finish(b);
    name_scope_leave(a->g);
    free(scope);
    free(type);
    return op;
}

/* Appends power = power * rate to ops[n], ..., after all updates, since they read the old
 * powers. Returns the new n. */
static size_t advance_powers(struct application *a, struct operation **ops, size_t n)
{
    if (a->rule->n_powers == 0 || a->powers[0] == NULL)
        return n;
    control_dependencies_enter(a->g, ops, n);
    colocate_with_enter(a->g, a->powers[0]->ref.op);
    for (int i = 0; i < a->rule->n_powers && a->powers[i] != NULL; i++) {
        struct output next = mul(a->g, a->powers[i]->read, a->constants[1 + i]);

        ops[n + (size_t)i] = variable_assign(a->powers[i], next, NULL).op;
    }
    colocate_with_leave(a->g);
    control_dependencies_leave(a->g);
    return n + (size_t)a->rule->n_powers;
}

/* Groups all updates. A step counter is incremented after them, under the optimiser's own
 * name. scope: the optimiser's, with its slash. */
static struct operation *finish(struct application *a, struct operation *const *ops,
                                size_t n, struct variable *global_step, const char *scope)
{
    const int64_t one = 1;
    struct operation *last;
    struct tensor value = tensor_scalar_i64(&one);

    if (global_step == NULL)
        return group(a->g, ops, n, scope);
    last = group(a->g, ops, n, "update");
    control_dependencies_enter(a->g, &last, 1);
    last = variable_assign_add(global_step,
                               global_step->dtype == DT_INT64
                                   ? constant(a->g, &value, "value")
                                   : constant_i32(a->g, 1, "value"),
                               scope)
               .op;
    control_dependencies_leave(a->g);
    return last;
}

struct operation *apply_gradients(struct graph *g, const struct optimizer_config *o,
                                  const struct gradient *grads, size_t n,
                                  struct variable *global_step, const char *name,
                                  struct output *ret_learning_rate)
{
    struct application a = {.g = g, .config = o};
    struct variable *(*slots)[MAX_SLOTS];
    struct operation **ops, *train_op;

    CHECK(o->type < sizeof(rules) / sizeof(rules[0]), "it uses gradients");
    a.rule = &rules[o->type];
    slots = xcalloc(n + 1, sizeof(*slots));
    ops = xcalloc(n + MAX_POWERS, sizeof(struct operation *));
    make_powers(&a, grads, n);
    for (size_t i = 0; i < n; i++)
        for (int k = 0; k < a.rule->n_slots; k++)
            slots[i][k] =
                make_slot(&a, grads[i].variable, k == 0 && a.rule->first_slot_is_one);

    name_scope_enter(g, name != NULL ? name : a.rule->name);
    for (int i = 0; i < a.rule->n_constants; i++)
        a.constants[i] =
            constant_f32(g, (float)config_value(&a, i), a.rule->constants[i].name);
    for (size_t i = 0; i < n; i++)
        ops[i] = update(&a, &grads[i], slots[i]);
    n = advance_powers(&a, ops, n);
    train_op = finish(&a, ops, n, global_step, graph_name_scope(g));
    name_scope_leave(g);

    if (graph_error(g) != NULL)
        train_op = NULL;
    if (train_op != NULL)
        collection_add(g, TRAIN_OP,
                       (struct collection_item){.kind = ITEM_OPERATION, .op = train_op});
    if (ret_learning_rate != NULL)
        *ret_learning_rate = a.constants[0];
    free(slots);
    free(ops);
    return train_op;
}

/* ---- clipping ---- */

struct output global_norm(struct graph *g, const struct gradient *grads, size_t n)
{
    struct output *halves = xcalloc(n, sizeof(*halves));
    struct output sum;

    name_scope_enter(g, "global_norm");
    for (size_t i = 0; i < n; i++)
        halves[i] = unary(g, "L2Loss", grads[i].grad, NULL);
    sum = reduce(g, "Sum", stacked(g, halves, n, "stack"), NULL, 0, 0, NULL);
    sum = mul(g, sum, constant_f32(g, 2.0f, NULL));
    sum = unary(g, "Sqrt", sum, "global_norm");
    name_scope_leave(g);
    free(halves);
    return sum;
}

void clip_gradients_by_norm(struct graph *g, struct gradient *grads, size_t n,
                            struct output clip_norm)
{
    for (size_t i = 0; i < n; i++)
        grads[i].grad = clip_by_norm(g, grads[i].grad, clip_norm, NULL);
}

void clip_gradients_by_global_norm(struct graph *g, struct gradient *grads, size_t n,
                                   struct output norm, struct output clip_norm)
{
    struct output one, limit, scale;

    name_scope_enter(g, "clip_by_global_norm");
    one = constant_f32(g, 1.0f, NULL);
    limit = binary(g, "RealDiv", one, clip_norm, "truediv");
    scale = binary(g, "Minimum", binary(g, "RealDiv", one, norm, "truediv"), limit, NULL);
    scale = mul(g, clip_norm, scale);
    for (size_t i = 0; i < n; i++)
        grads[i].grad = mul(g, grads[i].grad, scale);
    name_scope_leave(g);
}
