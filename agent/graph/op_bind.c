#include "agent/graph/op_bind.h"

#include "common/err/check.h"
#include "common/mem/xmalloc.h"

#include <stdlib.h>
#include <string.h>

/* ---- attributes: copied into the graph ---- */

struct attr *builder_add_attr(struct op_builder *b, const char *name, size_t len,
                              enum attr_kind kind)
{
    /* the signature's own copy of a name that it has */
    const struct signature_attr *s =
        b->sig != NULL ? signature_attr(b->sig, (struct span){name, len}) : NULL;

    ARRAY_GROW(b->attrs, b->n_attrs, b->cap_attrs);
    b->attrs[b->n_attrs] = (struct attr){
        .name = s != NULL ? s->text : arena_strndup(&b->graph->arena, name, len),
        .kind = kind};
    return &b->attrs[b->n_attrs++];
}

#define SPAN_FMT    "%.*s"
#define SPAN_ARG(s) (int)(s).len, (s).p

static struct attr *find_attr(struct op_builder *b, struct span name)
{
    for (int i = 0; i < b->n_attrs; i++)
        if (b->attrs[i].name[0] == name.p[0] && span_is(name, b->attrs[i].name))
            return &b->attrs[i];
    return NULL;
}

static struct attr *new_attr(struct op_builder *b, struct span name, enum attr_kind kind)
{
    return builder_add_attr(b, name.p, name.len, kind);
}

int bind_check_inputs(struct binding *bind)
{
    struct op_builder *b = bind->b;

    for (int i = 0; i < b->n_inputs; i++) {
        struct output x = b->inputs[i];

        if (!output_valid(x))
            return bind_fail(bind, ERR_ARG, "input %d is missing", i);
        if (x.op->graph != bind->g)
            return graph_fail(bind->g, ERR_ARG,
                              "Tensor \"%s:%d\" is not an element of this graph.",
                              x.op->name, x.index);
    }
    return 0;
}

int bind_check_attrs(struct binding *bind)
{
    for (int i = 0; i < bind->b->n_attrs; i++) {
        const struct attr *a = &bind->b->attrs[i];
        const struct signature_attr *s = signature_attr(bind->sig, span_of(a->name));

        if (s == NULL && a->name[0] != '_')
            return bind_fail(bind, ERR_ARG, "there is no attribute '%s'", a->name);
        if (s != NULL && s->kind != a->kind && a->kind != ATTR_OPAQUE)
            return bind_fail(bind, ERR_ARG, "attribute '%s' is a " SPAN_FMT, a->name,
                             SPAN_ARG(s->kind_name));
    }
    return 0;
}

/* The number of tensors in each list of inputs (all lists have equally many); -1 if the
 * inputs do not fit. */
static int list_length(const struct binding *bind)
{
    int n_lists = 0, n_counted = 0, rest;

    for (int i = 0; i < bind->sig->n_in; i++) {
        n_lists += bind->sig->in[i].is_list;
        n_counted += bind->sig->in[i].number.len != 0;
    }
    rest = bind->b->n_inputs - (bind->sig->n_in - n_lists);
    if (n_lists == 0)
        return rest == 0 ? 0 : -1;
    return rest >= (n_counted > 0) && rest % n_lists == 0 ? rest / n_lists : -1;
}

/* The number of tensors in a list according to the attribute that counts them; -1 if that
 * is not set. */
static int64_t given_length(const struct binding *bind, const struct signature_arg *arg)
{
    const struct attr *a;

    if (!arg->is_list)
        return 1;
    a = find_attr(bind->b, arg->number.len != 0 ? arg->number : arg->type);
    if (a == NULL)
        return -1;
    return a->kind == ATTR_LIST_TYPE ? (int64_t)a->n : a->i;
}

/* Whether a list may have no tensors: those of ParseExample alone. */
static int may_be_empty(struct span number)
{
    return number.len == 0 || span_is(number, "Nsparse") || span_is(number, "Ndense");
}

/* Whether the attributes give the length of every list, and these lengths match the
 * inputs. */
static int lengths_given(const struct binding *bind)
{
    int64_t total = 0;

    for (int i = 0; i < bind->sig->n_in; i++) {
        int64_t n = given_length(bind, &bind->sig->in[i]);

        if (n < !may_be_empty(bind->sig->in[i].number) || n > bind->b->n_inputs)
            return 0;
        total += n;
    }
    return total == bind->b->n_inputs;
}

static int bind_number(struct binding *bind, struct span name, int n)
{
    struct attr *a = find_attr(bind->b, name);

    if (a == NULL)
        new_attr(bind->b, name, ATTR_INT)->i = n;
    else if (a->i != n)
        return bind_fail(bind, ERR_ARG, SPAN_FMT " is %lld, but %d inputs are given",
                         SPAN_ARG(name), (long long)a->i, n);
    return 0;
}

/* Checks one input against a dtype's name or a type attribute, which it sets if it is
 * unset. */
static int bind_type(struct binding *bind, const struct signature_arg *arg,
                     struct output x)
{
    struct attr *a = arg->type_attr >= 0 ? find_attr(bind->b, arg->type) : NULL;
    enum dtype is = output_dtype(x), want;

    if (arg->type_attr >= 0 && a == NULL) {
        new_attr(bind->b, arg->type, ATTR_TYPE)->i = is;
        return 0;
    }
    want = a != NULL ? (enum dtype)a->i : arg->dtype;
    if (is != want)
        return bind_fail(
            bind, ERR_DTYPE, "input '" SPAN_FMT "' is %s:%d of type %s, not %s",
            SPAN_ARG(arg->name), x.op->name, x.index, dtype_name(is), dtype_name(want));
    return 0;
}

/* Checks the types of a list of inputs against the attribute that lists them. */
static int bind_types(struct binding *bind, const struct signature_arg *arg, int n)
{
    const struct output *x = &bind->b->inputs[bind->next_input];
    struct attr *a = find_attr(bind->b, arg->type);
    int64_t *types;

    for (int i = 0; a != NULL && (size_t)i < a->n && i < n; i++)
        if (a->list_i[i] != output_dtype(x[i]))
            return bind_fail(
                bind, ERR_DTYPE, "input '" SPAN_FMT "' is %s:%d of type %s, not %s",
                SPAN_ARG(arg->name), x[i].op->name, x[i].index,
                dtype_name(output_dtype(x[i])), dtype_name((enum dtype)a->list_i[i]));
    if (a == NULL)
        a = new_attr(bind->b, arg->type, ATTR_LIST_TYPE);
    types = ARENA_ARRAY(&bind->g->arena, int64_t, n);
    for (int i = 0; i < n; i++)
        types[i] = output_dtype(x[i]);
    a->list_i = types;
    a->n = (size_t)n;
    return 0;
}

static int bind_arg(struct binding *bind, const struct signature_arg *arg, int n)
{
    int lists_types = arg->is_list && arg->number.len == 0;

    if (arg->number.len != 0 && bind_number(bind, arg->number, n) != 0)
        return -1;
    if (lists_types && bind_types(bind, arg, n) != 0)
        return -1;
    for (int i = 0; i < n; i++) {
        struct output x = bind->b->inputs[bind->next_input++];

        if (arg->is_ref && !output_is_ref(x))
            return bind_fail(bind, ERR_ARG,
                             "input '" SPAN_FMT "' is not a variable: %s:%d",
                             SPAN_ARG(arg->name), x.op->name, x.index);
        if (!lists_types && bind_type(bind, arg, x) != 0)
            return -1;
    }
    return 0;
}

int bind_inputs(struct binding *bind)
{
    int given = lengths_given(bind);
    int list_n = given ? 0 : list_length(bind);

    if (list_n < 0)
        return bind_fail(bind, ERR_ARG, "takes %d arguments, but %d are given",
                         bind->sig->n_in, bind->b->n_inputs);
    for (int i = 0; i < bind->sig->n_in; i++) {
        const struct signature_arg *arg = &bind->sig->in[i];
        int n = given ? (int)given_length(bind, arg) : list_n;

        if (bind_arg(bind, arg, arg->is_list ? n : 1) != 0)
            return -1;
    }
    return 0;
}

static int is_private(const struct binding *bind, const struct attr *a)
{
    return a->name[0] == '_' && signature_attr(bind->sig, span_of(a->name)) == NULL;
}

/* Stores the attributes in the order of the signature, with defaults, and then those that
 * begin with "_". */
int bind_attrs(struct binding *bind, struct operation *op)
{
    struct op_builder *b = bind->b;
    int n = bind->sig->n_attrs + (b->colocate.n > 0); /* one for _class */

    for (int i = 0; i < b->n_attrs; i++)
        n += is_private(bind, &b->attrs[i]);
    op->attrs = ARENA_ARRAY(&bind->g->arena, struct attr, n);
    for (int i = 0; i < bind->sig->n_attrs; i++) {
        const struct signature_attr *s = &bind->sig->attrs[i];
        struct attr *a = find_attr(b, s->name);

        if (a == NULL && !s->has_default)
            return bind_fail(bind, ERR_ARG, "attribute '" SPAN_FMT "' is missing",
                             SPAN_ARG(s->name));
        if (a == NULL) {
            struct attr value;

            a = new_attr(b, s->name, s->kind);
            CHECK(signature_default(s, &value) == 0, "%s: default of %s", b->type,
                  a->name);
            value.name = a->name;
            if (s->kind == ATTR_STRING)
                value.s = arena_strndup(&bind->g->arena, value.s, value.s_len);
            *a = value;
        }
        if (s->kind == ATTR_TYPE && (b->def->flags & OP_FOREIGN) == 0 &&
            !(dtype_valid((int)a->i) && signature_type_allowed(s, (enum dtype)a->i)))
            return bind_fail(bind, ERR_DTYPE, "'" SPAN_FMT "' may not be %s",
                             SPAN_ARG(s->name), dtype_name((enum dtype)a->i));
        op->attrs[op->n_attrs++] = *a;
    }
    for (int i = 0; i < b->n_attrs; i++)
        if (is_private(bind, &b->attrs[i]))
            op->attrs[op->n_attrs++] = b->attrs[i];
    return 0;
}

static int64_t attr_count(const struct operation *op, struct span name)
{
    for (int i = 0; i < op->n_attrs; i++)
        if (span_is(name, op->attrs[i].name))
            return op->attrs[i].kind == ATTR_LIST_TYPE ? (int64_t)op->attrs[i].n
                                                       : op->attrs[i].i;
    return 1;
}

static enum dtype output_type(const struct operation *op, const struct signature_arg *arg,
                              int64_t i)
{
    const struct attr *a;

    if (arg->type_attr < 0)
        return arg->dtype;
    a = &op->attrs[arg->type_attr]; /* op->attrs begins with those of the signature */
    return (enum dtype)(a->kind == ATTR_LIST_TYPE ? a->list_i[i] : a->i);
}

enum { MAX_OUTPUTS = 65536 };

int bind_outputs(struct binding *bind, struct operation *op)
{
    int64_t total = 0;

    for (int pass = 0; pass < 2; pass++) {
        for (int i = 0; i < bind->sig->n_out; i++) {
            const struct signature_arg *arg = &bind->sig->out[i];
            struct span counter = arg->number.len != 0 ? arg->number : arg->type;
            int64_t n = arg->is_list ? attr_count(op, counter) : 1;

            if (n < 0 || n > MAX_OUTPUTS)
                return bind_fail(bind, ERR_LIMIT, "%lld outputs", (long long)n);
            if (pass == 0)
                total += n;
            for (int64_t k = 0; pass == 1 && k < n; k++)
                op->outputs[op->n_outputs++] = (struct output_info){
                    output_type(op, arg, k), arg->is_ref, SHAPE_UNKNOWN};
        }
        if (pass == 0)
            op->outputs = ARENA_ARRAY(&bind->g->arena, struct output_info, total);
    }
    return 0;
}
