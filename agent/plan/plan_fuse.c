/* Groups nodes into steps. An element-wise node joins the step that computes the last of
 * its operands, if that step is a loop over as many elements. So one step computes a
 * product, adds its bias, applies its activation or the gradient of the previous
 * activation, and computes sums over the result (tails). Joining only moves a node to an
 * earlier time, and never before anything it depends on. */
#include "agent/plan/group.h"

#include <stdio.h>
#include <string.h>

struct fusing {
    struct plan *plan;
    struct arena *scratch;
    struct group *groups;
    int n;
    int *node_of;    /* [values] the node that computes it, or -1 */
    int *last_write; /* [values] for a variable, the group that wrote it last, or -1 */
    int *writers;    /* [roots] the first and the last node that writes it, or -1 */
    int n_variables;
};

/* ---- products of which only some columns are used ---- */

/* If the node slices whole columns from a product, returns the product's node; otherwise
 * -1. */
static int columns_of_product(const struct fusing *f, const struct node *n)
{
    const struct plan *p = f->plan;

    if (n->dead || n->kind != NODE_CALL || n->call != kern_slice)
        return -1;
    const struct value *x = &p->values[n->in[0]], *y = &p->values[n->out[0]];
    int m = f->node_of[x->root];
    if (m < 0 || p->nodes[m].kind != NODE_GEMM || x->root != n->in[0] ||
        p->values[n->in[1]].kind != VALUE_CONST || x->tensor.shape.rank != 2 ||
        y->tensor.shape.dim[0] != x->tensor.shape.dim[0])
        return -1;
    return m;
}

static int written_between(const struct fusing *f, int first, int last, int v)
{
    const struct plan *p = f->plan;
    const int *writers = f->writers + 2 * plan_root(p, v);

    if (p->values[plan_root(p, v)].kind != VALUE_VARIABLE || writers[1] <= first ||
        writers[0] >= last)
        return 0;
    for (int k = first + 1; k < last; k++)
        for (int i = 0; p->nodes[k].writes && i < p->nodes[k].n_in; i++)
            if (plan_root(p, p->nodes[k].in[i]) == plan_root(p, v))
                return 1;
    return 0;
}

static void narrow_products(struct fusing *f)
{
    struct plan *p = f->plan;
    int *taken = ARENA_ARRAY(f->scratch, int, p->n_nodes + 1);

    for (int k = 0; k < p->n_nodes; k++) {
        int m = columns_of_product(f, &p->nodes[k]);

        if (m >= 0 && !written_between(f, m, k, p->nodes[m].in[0]) &&
            !written_between(f, m, k, p->nodes[m].in[1]))
            taken[m]++;
    }
    for (int k = 0; k < p->n_nodes; k++) {
        struct node *n = &p->nodes[k];
        int m = columns_of_product(f, n);

        if (m < 0 || taken[m] != p->values[p->nodes[m].out[0]].uses)
            continue;
        const struct node *product = &p->nodes[m];
        n->kind = NODE_GEMM;
        n->column_begin = tensor_int(&p->values[n->in[1]].tensor, 1);
        n->transpose_a = product->transpose_a;
        n->transpose_b = product->transpose_b;
        n->in[0] = product->in[0];
        n->in[1] = product->in[1];
        n->n_in = 2;
    }
}

/* ---- repeated operands ---- */

/* Whether Tile only repeats axes with one element, which broadcasting also does. */
static int repeats_as_broadcast(const struct plan *p, const struct node *n)
{
    if (n->dead || n->kind != NODE_CALL || n->call != kern_tile)
        return 0;
    const struct shape *x = &p->values[n->in[0]].tensor.shape;
    const struct shape *y = &p->values[n->out[0]].tensor.shape;
    for (int d = 0; d < y->rank; d++)
        if (x->dim[d] != y->dim[d] && x->dim[d] != 1)
            return 0;
    return 1;
}

/* Makes loops read the operand of such a Tile directly. */
static void skip_tiles(struct fusing *f)
{
    struct plan *p = f->plan;

    for (int k = 0; k < p->n_nodes; k++) {
        struct node *n = &p->nodes[k];

        for (int i = 0; n->kind == NODE_LOOP && i < n->n_in; i++) {
            int t = f->node_of[n->in[i]];
            struct loop_arg arg;

            if (t < 0 || !repeats_as_broadcast(p, &p->nodes[t]) ||
                written_between(f, t, k, p->nodes[t].in[0]) ||
                !loop_classify(&p->values[p->nodes[t].in[0]].tensor.shape,
                               &p->values[n->out[0]].tensor.shape, &arg))
                continue;
            n->in[i] = p->nodes[t].in[0];
        }
    }
}

/* ---- bias and activation ---- */

static void join_biases(struct fusing *f)
{
    struct plan *p = f->plan;

    for (int k = 0; k < p->n_nodes; k++) {
        struct node *n = &p->nodes[k];
        int m = n->dead || n->kind != NODE_LOOP ? -1 : f->node_of[n->in[0]];
        const struct node *bias = m < 0 ? NULL : &p->nodes[m];
        char type[64];

        if (bias == NULL || bias->kind != NODE_LOOP || p->values[bias->out[0]].uses > 1 ||
            strcmp(bias->loop->type, "BiasAdd") != 0 ||
            written_between(f, m, k, bias->in[0]) ||
            written_between(f, m, k, bias->in[1]))
            continue;
        (void)snprintf(type, sizeof(type), "BiasAdd%s", n->loop->type);
        const struct loop_row *both = kern_loop_find(type, n->loop->dtype);
        if (both == NULL)
            continue;
        n->loop = both;
        n->in = bias->in;
        n->n_in = bias->n_in;
    }
}

/* ---- target variables that follow others ---- */

/* Returns the node that computes operand i of node k, if only node k uses it and both
 * have the same guard; otherwise -1. */
static int private_operand(const struct fusing *f, int k, int i)
{
    const struct plan *p = f->plan;
    const int v = p->nodes[k].in[i], m = f->node_of[v];

    if (m < 0 || p->nodes[m].kind != NODE_LOOP ||
        p->nodes[m].guard != p->nodes[k].guard || p->values[v].root != v ||
        p->values[v].uses != 1)
        return -1;
    return m;
}

/* Whether node m multiplies a tensor with as many elements as `like` by a scalar, and no
 * write comes between m and k. ret: tensor and scalar. */
static int scales(const struct fusing *f, int m, int k, int like, int ret[2])
{
    const struct plan *p = f->plan;
    const struct node *n = &p->nodes[m];
    const int swapped = n->n_in == 2 && plan_elements(p, n->in[1]) != 1;

    if (strcmp(n->loop->type, "Mul") != 0 || n->loop->dtype != DT_FLOAT)
        return 0;
    ret[0] = n->in[swapped];
    ret[1] = n->in[!swapped];
    return plan_elements(p, ret[1]) == 1 &&
           plan_elements(p, ret[0]) == plan_elements(p, like) &&
           p->values[plan_root(p, ret[0])].kind != VALUE_FEED &&
           !written_between(f, m, k, ret[0]) && !written_between(f, m, k, ret[1]);
}

/* Replaces Assign of x p + y q by one step if nothing else uses the sum. */
static void join_follows(struct fusing *f)
{
    struct plan *p = f->plan;

    for (int k = 0; k < p->n_nodes; k++) {
        struct node *n = &p->nodes[k];
        const int sum = n->call == kern_assign ? private_operand(f, k, 1) : -1;
        int in[4];

        if (sum < 0 || (strcmp(p->nodes[sum].loop->type, "Add") != 0 &&
                        strcmp(p->nodes[sum].loop->type, "AddV2") != 0))
            continue;
        const int x = private_operand(f, sum, 0), y = private_operand(f, sum, 1);
        if (x < 0 || y < 0 || !scales(f, x, k, n->in[0], &in[0]) ||
            !scales(f, y, k, n->in[0], &in[2]))
            continue;
        const int var = n->in[0];
        n->call = kern_follow;
        n->n_in = 5;
        n->in = ARENA_ARRAY(f->scratch, int, n->n_in);
        n->in[0] = var;
        memcpy(n->in + 1, in, sizeof(in));
    }
}

/* ---- grouping ---- */

static struct group *new_group(struct fusing *f, int guard)
{
    struct group *g = &f->groups[f->n++];

    *g = (struct group){.guard = guard};
    return g;
}

/* Whether the node may join group g, which computes the latest of its operands. */
static int may_join(const struct fusing *f, const struct node *n, int g, int64_t total)
{
    const struct plan *p = f->plan;

    if (g < 0 || f->groups[g].call != NULL || f->groups[g].total != total ||
        f->groups[g].guard != n->guard || f->groups[g].n_members == GROUP_MAX ||
        f->groups[g].n_tails == GROUP_MAX)
        return 0;
    for (int i = 0; i < n->n_in; i++) {
        const struct value *r = &p->values[plan_root(p, n->in[i])];

        if (r->producer == g && (r->from_tail || plan_elements(p, n->in[i]) != total))
            return 0;
        /* the node comes after this write, so it must not read the variable earlier */
        if (r->kind == VALUE_VARIABLE && f->last_write[r->index] > g)
            return 0;
    }
    return 1;
}

static void group_node(struct fusing *f, int k)
{
    struct plan *p = f->plan;
    struct node *n = &p->nodes[k];
    struct loop_tail tail;
    int latest = -1, from_tail = 0;

    for (int i = 0; i < n->n_in; i++) {
        const int producer = p->values[plan_root(p, n->in[i])].producer;

        latest = producer > latest ? producer : latest;
    }
    if (n->kind == NODE_LOOP) {
        int64_t total = plan_elements(p, n->out[0]);

        if (!may_join(f, n, latest, total)) {
            latest = f->n;
            new_group(f, n->guard)->total = total;
        }
        f->groups[latest].members[f->groups[latest].n_members++] = n;
    } else if (group_tail(p, n, &tail) &&
               may_join(f, n, latest, plan_elements(p, n->in[0])) &&
               p->values[plan_root(p, n->in[0])].producer == latest) {
        f->groups[latest].tails[f->groups[latest].n_tails++] = n;
        from_tail = 1;
    } else {
        latest = f->n;
        struct group *g = new_group(f, n->guard);
        g->total = n->kind == NODE_GEMM ? plan_elements(p, n->out[0]) : 0;
        *(n->kind == NODE_GEMM ? &g->gemm : &g->call) = n;
        for (int i = 0; n->writes && i < n->n_in; i++)
            if (takes_reference(n->op, i))
                f->last_write[p->values[plan_root(p, n->in[i])].index] = latest;
    }
    for (int i = 0; i < n->n_out; i++) {
        p->values[n->out[i]].producer = latest;
        p->values[n->out[i]].from_tail = from_tail;
    }
}

/* ---- steps ---- */

static void set_call(struct plan *p, struct step *s, const struct node *n)
{
    s->call = n->call;
    s->n_in = n->n_in;
    s->n_out = n->n_out;
    s->refusal = n->refusal;
    s->in = arena_memdup(&p->arena, n->in, sizeof(int) * (size_t)n->n_in);
    s->out = arena_memdup(&p->arena, n->out, sizeof(int) * (size_t)n->n_out);
    s->draws = (operation_def(n->op)->flags & OP_DRAWS) != 0 &&
               n->call == operation_def(n->op)->kernel.call;
    if (n->call == kern_assign || n->call == kern_follow || n->call == kern_destroy)
        s->sets_flag = p->values[n->in[0]].index;
    if (n->call == kern_is_initialized || n->call == kern_need_value ||
        n->call == kern_destroy)
        s->reads_flag = p->values[n->in[0]].index;
}

void plan_fuse(struct plan *p, struct arena *scratch)
{
    struct fusing f = {.plan = p, .scratch = scratch};

    f.groups = ARENA_ARRAY(scratch, struct group, p->n_nodes + 1);
    f.node_of = ARENA_ARRAY(scratch, int, p->n_values + 1);
    f.last_write = ARENA_ARRAY(scratch, int, p->n_values + graph_n_operations(p->graph));
    memset(f.node_of, -1, sizeof(int) * (size_t)(p->n_values + 1));
    memset(f.last_write, -1,
           sizeof(int) * (size_t)(p->n_values + graph_n_operations(p->graph)));
    for (int k = 0; k < p->n_nodes; k++)
        for (int i = 0; i < p->nodes[k].n_out; i++)
            f.node_of[p->nodes[k].out[i]] = k;
    f.writers = ARENA_ARRAY(scratch, int, 2 * p->n_values + 2);
    memset(f.writers, -1, sizeof(int) * (size_t)(2 * p->n_values + 2));
    for (int k = 0; k < p->n_nodes; k++)
        for (int i = 0; p->nodes[k].writes && i < p->nodes[k].n_in; i++) {
            int *w = f.writers + 2 * plan_root(p, p->nodes[k].in[i]);

            if (w[0] < 0)
                w[0] = k;
            w[1] = k;
        }
    narrow_products(&f);
    skip_tiles(&f);
    plan_count_uses(p);
    join_biases(&f);
    plan_count_uses(p);
    join_follows(&f);
    plan_count_uses(p);
    for (int k = 0; k < p->n_nodes; k++)
        if (!p->nodes[k].dead)
            group_node(&f, k);
    p->n_steps = f.n;
    p->steps = ARENA_ARRAY(&p->arena, struct step, f.n + 1);
    for (int i = 0; i < f.n; i++) {
        const struct group *g = &f.groups[i];
        struct step *s = &p->steps[i];

        s->sets_flag = s->reads_flag = -1;
        s->guard = g->guard;
        s->op = (g->call != NULL   ? g->call
                 : g->gemm != NULL ? g->gemm
                                   : g->members[0])
                    ->op;
        if (g->call != NULL)
            set_call(p, s, g->call);
        else
            s->loop = group_program(p, &p->arena, g);
    }
}
