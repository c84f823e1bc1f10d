/* Copies the attributes of an operation under construction into its graph. */
#include "agent/graph/import.h"
#include "agent/graph/op_bind.h"

#include "common/mem/xmalloc.h"

#include <string.h>

/* The signature's own copy of the name of an attribute that it has; otherwise a copy in
 * the graph's arena. */
static const char *keep_name(struct op_builder *b, const char *name, size_t len)
{
    const struct signature_attr *s =
        b->sig != NULL ? signature_attr(b->sig, (struct span){name, len}) : NULL;

    return s != NULL ? s->text : arena_strndup(&b->graph->arena, name, len);
}

struct attr *builder_add_attr(struct op_builder *b, const char *name, size_t len,
                              enum attr_kind kind)
{
    if (b->n_attrs == b->cap_attrs) {
        b->cap_attrs = b->cap_attrs != 0 ? b->cap_attrs * 2 : 8;
        b->attrs = xreallocarray(b->attrs, (size_t)b->cap_attrs, sizeof(*b->attrs));
    }
    b->attrs[b->n_attrs] = (struct attr){.name = keep_name(b, name, len), .kind = kind};
    return &b->attrs[b->n_attrs++];
}

static struct attr *add(struct op_builder *b, const char *name, enum attr_kind kind)
{
    return builder_add_attr(b, name, strlen(name), kind);
}

void op_attr_int(struct op_builder *b, const char *name, int64_t v)
{
    add(b, name, ATTR_INT)->i = v;
}

void op_attr_float(struct op_builder *b, const char *name, float v)
{
    add(b, name, ATTR_FLOAT)->f = v;
}

void op_attr_bool(struct op_builder *b, const char *name, int v)
{
    add(b, name, ATTR_BOOL)->i = v != 0;
}

void op_attr_type(struct op_builder *b, const char *name, enum dtype v)
{
    add(b, name, ATTR_TYPE)->i = v;
}

void op_attr_shape(struct op_builder *b, const char *name, const struct shape *v)
{
    add(b, name, ATTR_SHAPE)->shape = *v;
}

void op_attr_string(struct op_builder *b, const char *name, const char *v)
{
    struct attr *a = add(b, name, ATTR_STRING);

    a->s = arena_strdup(&b->graph->arena, v);
    a->s_len = strlen(v);
}

/* A zero follows the bytes, so that names can be read as C strings. */
static char *copy_bytes(struct arena *arena, const void *bytes, size_t n)
{
    char *copy = arena_alloc(arena, n + 1);

    if (n > 0)
        memcpy(copy, bytes, n);
    return copy;
}

static struct tensor_string *copy_strings(struct arena *arena,
                                          const struct tensor_string *from, size_t n)
{
    struct tensor_string *to = ARENA_ARRAY(arena, struct tensor_string, n);

    for (size_t i = 0; i < n; i++)
        to[i] = (struct tensor_string){
            copy_bytes(arena, from[i].bytes, from[i].len_bytes), from[i].len_bytes};
    return to;
}

static struct tensor copy_tensor(struct arena *arena, const struct tensor *t)
{
    void *data = t->dtype == DT_STRING
                     ? copy_strings(arena, t->data, (size_t)tensor_elements(t))
                     : arena_memdup(arena, t->data, tensor_bytes(t));

    return tensor_view(t->dtype, t->shape, data);
}

void op_attr_tensor(struct op_builder *b, const char *name, const struct tensor *v)
{
    add(b, name, ATTR_TENSOR)->tensor = copy_tensor(&b->graph->arena, v);
}

void op_attr_ints(struct op_builder *b, const char *name, const int64_t *v, size_t n)
{
    struct attr *a = add(b, name, ATTR_LIST_INT);

    a->list_i = arena_memdup(&b->graph->arena, v, n * sizeof(*v));
    a->n = n;
}

void op_attr(struct op_builder *b, const struct attr *a)
{
    struct arena *arena = &b->graph->arena;
    struct attr *to = add(b, a->name, a->kind);
    const char *name = to->name;

    *to = *a;
    to->name = name;
    if (a->kind == ATTR_TENSOR)
        to->tensor = copy_tensor(arena, &a->tensor);
    if (a->s != NULL)
        to->s = copy_bytes(arena, a->s, a->s_len);
    if (a->list_i != NULL)
        to->list_i = arena_memdup(arena, a->list_i, a->n * sizeof(*a->list_i));
    if (a->list_f != NULL)
        to->list_f = arena_memdup(arena, a->list_f, a->n * sizeof(*a->list_f));
    if (a->list_shape != NULL)
        to->list_shape = arena_memdup(arena, a->list_shape, a->n * sizeof(struct shape));
    if (a->list_s != NULL)
        to->list_s = copy_strings(arena, a->list_s, a->n);
}
