#include "agent/saver/op_list.h"

#include "agent/graph/signature.h"
#include "agent/saver/attr_proto.h"
#include "common/err/check.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

/* ---- from a signature ---- */

static char *span_text(struct arena *a, struct span s)
{
    return arena_strndup(a, s.p, s.len);
}

static int32_t number_of_dtype(const char *name)
{
    int32_t number = 0;

    if (name[0] == '#')
        (void)sscanf(name + 1, "%d", &number);
    else
        number = (int32_t)dtype_from_name(name);
    return number;
}

static Tf__OpDef__ArgDef *arg_to_proto(struct arena *a, const struct signature *sig,
                                       const struct signature_arg *arg)
{
    Tf__OpDef__ArgDef *p = MESSAGE_NEW(a, OpDef__ArgDef, op_def__arg_def);
    const struct signature_attr *type = signature_attr(sig, arg->type);
    char *type_name = span_text(a, arg->type);

    p->name = span_text(a, arg->name);
    p->is_ref = arg->is_ref;
    if (arg->number.len != 0)
        p->number_attr = span_text(a, arg->number);
    if (type == NULL)
        p->type = number_of_dtype(type_name);
    else if (type->kind == ATTR_LIST_TYPE)
        p->type_list_attr = type_name;
    else
        p->type_attr = type_name;
    return p;
}

static Tf__OpDef__AttrDef *attr_def_to_proto(struct arena *a,
                                             const struct signature_attr *attr)
{
    Tf__OpDef__AttrDef *p = MESSAGE_NEW(a, OpDef__AttrDef, op_def__attr_def);
    int is_type = attr->kind == ATTR_TYPE;
    struct attr value;

    p->name = span_text(a, attr->name);
    p->type = is_type ? arena_strdup(a, "type") : span_text(a, attr->kind_name);
    if (attr->has_default) {
        CHECK(signature_default(attr, &value) == 0, "%s", p->name);
        p->default_value = attr_to_proto(a, &value);
    }
    return p;
}

static int takes_variable(const struct signature *sig)
{
    for (int i = 0; i < sig->n_in; i++)
        if (sig->in[i].is_ref)
            return 1;
    return 0;
}

Tf__OpDef *op_def_to_proto(struct arena *a, const struct op_def *def)
{
    Tf__OpDef *p = MESSAGE_NEW(a, OpDef, op_def);
    struct signature_room room;
    struct signature sig;

    CHECK(signature_parse(&sig, &room, def->signature) == 0, "%s", def->type);
    p->name = arena_strdup(a, def->type);
    p->input_arg = ARENA_ARRAY(a, Tf__OpDef__ArgDef *, sig.n_in);
    p->output_arg = ARENA_ARRAY(a, Tf__OpDef__ArgDef *, sig.n_out);
    p->attr = ARENA_ARRAY(a, Tf__OpDef__AttrDef *, sig.n_attrs);
    for (int i = 0; i < sig.n_in; i++)
        p->input_arg[p->n_input_arg++] = arg_to_proto(a, &sig, &sig.in[i]);
    for (int i = 0; i < sig.n_out; i++)
        p->output_arg[p->n_output_arg++] = arg_to_proto(a, &sig, &sig.out[i]);
    for (int i = 0; i < sig.n_attrs; i++)
        p->attr[p->n_attr++] = attr_def_to_proto(a, &sig.attrs[i]);
    /* TensorFlow sets this flag for ops that are or create state, not for those that
     * receive a reference to it. */
    p->is_stateful = (def->flags & OP_STATEFUL) != 0 && !takes_variable(&sig);
    return p;
}

/* ---- to a signature ---- */

static int is_identifier(const char *s)
{
    if (!isalpha((unsigned char)*s) && *s != '_')
        return 0;
    for (; *s != '\0'; s++)
        if (!isalnum((unsigned char)*s) && *s != '_')
            return 0;
    return 1;
}

static void op_list_put(struct wbuf *b, const char *text)
{
    wbuf_bytes(b, text, strlen(text));
}

static int put_arg(struct wbuf *b, const Tf__OpDef__ArgDef *arg)
{
    const char *attr = arg->type_attr[0] != '\0' ? arg->type_attr : arg->type_list_attr;
    char number[16];

    if (!is_identifier(arg->name) || (attr[0] != '\0' && !is_identifier(attr)) ||
        (arg->number_attr[0] != '\0' && !is_identifier(arg->number_attr)))
        return -1;
    op_list_put(b, arg->name);
    op_list_put(b, arg->is_ref ? ":&" : ":");
    if (arg->number_attr[0] != '\0') {
        op_list_put(b, arg->number_attr);
        op_list_put(b, "*");
    }
    (void)snprintf(number, sizeof(number), "#%d", arg->type);
    op_list_put(b, attr[0] != '\0' ? attr : number);
    return 0;
}

static int put_args(struct wbuf *b, Tf__OpDef__ArgDef *const *args, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (i > 0)
            op_list_put(b, ", ");
        if (put_arg(b, args[i]) != 0)
            return -1;
    }
    return 0;
}

/* Appends a default that signatures can express. Omits any other, which the importer
 * takes from the definition. */
static void put_default(struct wbuf *b, const char *kind, const Tf__AttrValue *v)
{
    char text[48] = "";

    switch (v != NULL ? v->value_case : TF__ATTR_VALUE__VALUE__NOT_SET) {
    case TF__ATTR_VALUE__VALUE_I:
        (void)snprintf(text, sizeof(text), "=%lld", (long long)v->i);
        break;
    case TF__ATTR_VALUE__VALUE_F:
        (void)snprintf(text, sizeof(text), "=%.9g", (double)v->f);
        break;
    case TF__ATTR_VALUE__VALUE_B:
        (void)snprintf(text, sizeof(text), "=%s", v->b ? "true" : "false");
        break;
    case TF__ATTR_VALUE__VALUE_TYPE:
        if (dtype_valid(v->type))
            (void)snprintf(text, sizeof(text), "=%s", dtype_name((enum dtype)v->type));
        break;
    case TF__ATTR_VALUE__VALUE_S:
        if (v->s.len == 0)
            (void)snprintf(text, sizeof(text), "=");
        break;
    case TF__ATTR_VALUE__VALUE_LIST:
        if (strcmp(kind, "list(int)") == 0 && v->list->n_i == 0)
            (void)snprintf(text, sizeof(text), "=[]");
        break;
    default:
        break;
    }
    op_list_put(b, text);
}

static int put_attr(struct wbuf *b, const Tf__OpDef__AttrDef *attr)
{
    if (!is_identifier(attr->name) || strpbrk(attr->type, ",;:=") != NULL)
        return -1;
    op_list_put(b, attr->name);
    op_list_put(b, ":");
    op_list_put(b, attr->type);
    put_default(b, attr->type, attr->default_value);
    return 0;
}

const struct op_def *op_def_from_proto(struct graph *g, const Tf__OpDef *p)
{
    const struct op_def *def = NULL;
    struct wbuf b = {0};
    int bad = !is_identifier(p->name) ||
              p->n_input_arg + p->n_output_arg + p->n_attr > 3 * (size_t)SIGNATURE_MAX;

    if (!bad)
        bad = put_args(&b, p->input_arg, p->n_input_arg);
    op_list_put(&b, " -> ");
    if (!bad)
        bad = put_args(&b, p->output_arg, p->n_output_arg);
    for (size_t i = 0; !bad && i < p->n_attr; i++) {
        op_list_put(&b, i == 0 ? "; " : ", ");
        bad = put_attr(&b, p->attr[i]);
    }
    wbuf_u8(&b, '\0');
    if (!bad)
        def = op_def_foreign(g, p->name, (const char *)b.data,
                             p->is_stateful ? OP_STATEFUL : 0);
    wbuf_done(&b);
    return def;
}

static const char *const kind_names[] = {
    [ATTR_INT] = "int",
    [ATTR_FLOAT] = "float",
    [ATTR_BOOL] = "bool",
    [ATTR_TYPE] = "type",
    [ATTR_SHAPE] = "shape",
    [ATTR_STRING] = "string",
    [ATTR_TENSOR] = "tensor",
    [ATTR_LIST_INT] = "list(int)",
    [ATTR_LIST_FLOAT] = "list(float)",
    [ATTR_LIST_TYPE] = "list(type)",
    [ATTR_LIST_SHAPE] = "list(shape)",
    [ATTR_LIST_STRING] = "list(string)",
    [ATTR_OPAQUE] = "func",
};

static int put_attr_of_value(struct wbuf *b, const struct attr *a)
{
    if (!is_identifier(a->name))
        return -1;
    op_list_put(b, a->name);
    op_list_put(b, ":");
    op_list_put(b, kind_names[a->kind]);
    return 0;
}

const struct op_def *op_def_guess(struct graph *g, const char *type,
                                  const struct attr *attrs, size_t n_attrs)
{
    const struct op_def *def = NULL;
    struct wbuf b = {0};
    int bad = !is_identifier(type);

    op_list_put(&b, "in:" GUESSED_INPUT_TYPES " -> out:" GUESSED_OUTPUT_TYPES "; "
                    "" GUESSED_INPUT_TYPES ":list(type)=[], " GUESSED_OUTPUT_TYPES
                    ":list(type)=[]");
    for (size_t i = 0; !bad && i < n_attrs; i++) {
        if (attrs[i].name[0] == '_')
            continue;
        op_list_put(&b, ", ");
        bad = put_attr_of_value(&b, &attrs[i]);
    }
    wbuf_u8(&b, '\0');
    if (!bad)
        def = op_def_foreign(g, type, (const char *)b.data, 0);
    wbuf_done(&b);
    return def;
}

const struct op_def *op_def_widen(struct graph *g, struct name_table *known,
                                  const struct op_def *row, const Tf__OpDef *p,
                                  const struct attr *attrs, size_t n_attrs)
{
    const struct signature *sig = op_def_signature(g, row);
    const size_t begin =
        strlen(row->type) + 1; /* the key has the type before the signature */
    const struct op_def *def = NULL;
    struct name_entry *e;
    struct wbuf b = {0};
    int bad = 0;

    op_list_put(&b, row->type);
    op_list_put(&b, " ");
    op_list_put(&b, row->signature);
    for (size_t i = 0; !bad && i < n_attrs; i++) {
        const Tf__OpDef__AttrDef *d = op_def_attr(p, attrs[i].name);

        if (attrs[i].name[0] == '_' ||
            signature_attr(sig, span_of(attrs[i].name)) != NULL)
            continue;
        op_list_put(&b, memchr(b.data, ';', b.len) == NULL ? "; " : ", ");
        bad = d != NULL ? put_attr(&b, d) : put_attr_of_value(&b, &attrs[i]);
    }
    wbuf_u8(&b, '\0');
    e = bad ? NULL : name_table_find(known, (const char *)b.data);
    if (e != NULL) {
        def = e->value;
    } else if (!bad) {
        const char *key = arena_strdup(graph_arena(g), (const char *)b.data);

        def = op_def_widened(g, row, key + begin);
        memcpy(&name_table_add(known, key)->value, &def, sizeof(def));
    }
    wbuf_done(&b);
    return def;
}

static const Tf__AttrValue *value_in(const Tf__NodeDef *node, struct span name)
{
    for (size_t i = 0; name.len > 0 && i < node->n_attr; i++)
        if (span_is(name, node->attr[i]->key))
            return node->attr[i]->value;
    return NULL;
}

enum dtype op_def_input_type(const struct signature *sig, const Tf__NodeDef *node,
                             int place)
{
    for (int i = 0; i < sig->n_in; i++) {
        const struct signature_arg *arg = &sig->in[i];
        const Tf__AttrValue *number = value_in(node, arg->number),
                            *type =
                                arg->type_attr >= 0 ? value_in(node, arg->type) : NULL;
        const int is_list_of_types = type != NULL && type->list != NULL &&
                                     type->value_case == TF__ATTR_VALUE__VALUE_LIST;
        const int64_t n = is_list_of_types ? (int64_t)type->list->n_type
                          : number != NULL ? number->i
                                           : 1;

        if (arg->is_list && !is_list_of_types && number == NULL)
            return DT_INVALID;
        if (place >= n) {
            place -= (int)(n > 0 ? n : 0);
            continue;
        }
        if (is_list_of_types)
            return (enum dtype)type->list->type[place];
        if (arg->type_attr < 0)
            return arg->dtype;
        return type != NULL && type->value_case == TF__ATTR_VALUE__VALUE_TYPE
                   ? (enum dtype)type->type
                   : DT_INVALID;
    }
    return DT_INVALID;
}

int op_def_is_guess(const struct op_def *def)
{
    return strstr(def->signature, GUESSED_OUTPUT_TYPES) != NULL;
}

const Tf__OpDef__AttrDef *op_def_attr(const Tf__OpDef *p, const char *name)
{
    for (size_t i = 0; p != NULL && i < p->n_attr; i++)
        if (strcmp(p->attr[i]->name, name) == 0)
            return p->attr[i];
    return NULL;
}
