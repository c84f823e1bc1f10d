#include "agent/saver/attr_proto.h"

#include <string.h>

/* ---- shapes ---- */

/* 0, or -1 if `struct shape` cannot represent it. */
static int shape_from_proto(const Tf__TensorShapeProto *p, struct shape *ret)
{
    struct shape s = {0};

    *ret = SHAPE_UNKNOWN;
    if (p == NULL || p->unknown_rank)
        return 0;
    if (p->n_dim > SHAPE_MAX_RANK)
        return -1;
    s.rank = (int)p->n_dim;
    for (int i = 0; i < s.rank; i++) {
        s.dim[i] = p->dim[i]->size;
        if (s.dim[i] < -1)
            return -1;
    }
    *ret = s;
    return 0;
}

static Tf__TensorShapeProto *shape_to_proto(struct arena *a, const struct shape *s)
{
    Tf__TensorShapeProto *p = MESSAGE_NEW(a, TensorShapeProto, tensor_shape_proto);

    p->unknown_rank = s->rank < 0;
    if (s->rank <= 0)
        return p;
    p->dim = ARENA_ARRAY(a, Tf__TensorShapeProto__Dim *, s->rank);
    for (int i = 0; i < s->rank; i++) {
        p->dim[i] = MESSAGE_NEW(a, TensorShapeProto__Dim, tensor_shape_proto__dim);
        p->dim[i]->size = s->dim[i];
    }
    p->n_dim = (size_t)s->rank;
    return p;
}

/* ---- tensors ---- */

/* Where a TensorProto keeps the values of a dtype: in a list, of which each value takes
 * `stride` bytes and uses the lowest. */
struct value_list {
    size_t n, data; /* offsets of the list's length and of the list in the message */
    size_t stride;
    size_t parts; /* elements of the list for one value: 2 for a complex number */
};

#define LIST(list, ...)                                                                  \
    {                                                                                    \
        offsetof(Tf__TensorProto, n_##list), offsetof(Tf__TensorProto, list),            \
            __VA_ARGS__                                                                  \
    }

static const struct value_list *list_of(int dtype)
{
    static const struct value_list smaller_integers = LIST(int_val, 4, 1);
    static const struct value_list lists[] = {
        [DT_FLOAT] = LIST(float_val, 4, 1),
        [DT_DOUBLE] = LIST(double_val, 8, 1),
        [DT_INT64] = LIST(int64_val, 8, 1),
        [DT_UINT64] = LIST(uint64_val, 8, 1),
        [DT_UINT32] = LIST(uint32_val, 4, 1),
        [DT_BOOL] = LIST(bool_val, sizeof(protobuf_c_boolean), 1),
        [DT_HALF] = LIST(half_val, 4, 1),
        [DT_BFLOAT16] = LIST(half_val, 4, 1),
        [DT_COMPLEX64] = LIST(scomplex_val, 8, 2),
        [DT_COMPLEX128] = LIST(dcomplex_val, 16, 2),
    };

    return (size_t)dtype < sizeof(lists) / sizeof(lists[0]) && lists[dtype].stride > 0
               ? &lists[dtype]
               : &smaller_integers;
}

/* The last value is repeated to the end; without any, all are zero. */
static void attr_proto_fill(const Tf__TensorProto *p, char *to, size_t n)
{
    const struct value_list *l = list_of(p->dtype);
    const size_t size = dtype_size((enum dtype)p->dtype);
    const char *data;
    size_t n_values;

    memcpy(&data, (const char *)p + l->data, sizeof(data));
    memcpy(&n_values, (const char *)p + l->n, sizeof(n_values));
    n_values /= l->parts;
    for (size_t i = 0; i < n && n_values > 0; i++) {
        size_t from = i < n_values ? i : n_values - 1;

        memcpy(to + i * size, data + from * l->stride, size);
    }
}

static void fill_strings(const Tf__TensorProto *p, struct tensor_string *to, size_t n)
{
    for (size_t i = 0; i < n && p->n_string_val > 0; i++) {
        size_t from = i < p->n_string_val ? i : p->n_string_val - 1;

        to[i].bytes = (char *)p->string_val[from].data;
        to[i].len_bytes = p->string_val[from].len;
    }
}

static int bytes_of(const struct tensor *t, size_t *ret)
{
    size_t size =
        t->dtype == DT_STRING ? sizeof(struct tensor_string) : dtype_size(t->dtype);
    int64_t n = shape_known(&t->shape) ? shape_elements(&t->shape) : -1;

    return n >= 0 && !__builtin_mul_overflow((size_t)n, size, ret);
}

/* Whether values of the type mean something only in one run. */
static int is_handle(int dtype)
{
    return dtype == DT_RESOURCE || dtype == DT_VARIANT;
}

/* A few values can be repeated many times, so *budget_bytes limits the total size of
 * tensors. */
static int tensor_from_proto(struct arena *a, const Tf__TensorProto *p,
                             size_t *budget_bytes, struct tensor *ret, struct err *err)
{
    struct tensor t = {.dtype = (enum dtype)p->dtype};
    size_t n, bytes = 0;

    if (p->tensor_shape != NULL && shape_from_proto(p->tensor_shape, &t.shape) != 0)
        return err_set(err, ERR_LIMIT, "a constant of %zu dimensions",
                       p->tensor_shape->n_dim);
    if (!dtype_valid(p->dtype) || is_handle(p->dtype) || !bytes_of(&t, &bytes))
        return err_set(err, ERR_FORMAT, "a constant of type %d and shape %s", p->dtype,
                       shape_text(&t.shape));
    if (bytes > *budget_bytes)
        return err_set(err, ERR_LIMIT, "a constant of shape %s: too large",
                       shape_text(&t.shape));
    *budget_bytes -= bytes;
    n = (size_t)shape_elements(&t.shape);
    t.data = arena_alloc(a, bytes);
    if (t.dtype == DT_STRING)
        fill_strings(p, t.data, n);
    else if (p->tensor_content.len == 0)
        attr_proto_fill(p, t.data, n);
    else if (p->tensor_content.len == bytes)
        memcpy(t.data, p->tensor_content.data, bytes);
    else
        return err_set(err, ERR_FORMAT, "a constant of shape %s in %zu bytes",
                       shape_text(&t.shape), p->tensor_content.len);
    *ret = t;
    return 0;
}

/* Puts one value in the list of its type. */
static void put_value(struct arena *a, Tf__TensorProto *p, const void *value)
{
    const struct value_list *l = list_of(p->dtype);
    const size_t size = dtype_size((enum dtype)p->dtype);
    unsigned char *list = ARENA_ARRAY(a, unsigned char, l->stride);

    memcpy(list, value, size);
    if (p->dtype == DT_BOOL)
        list[0] = list[0] != 0;
    if ((p->dtype == DT_INT8 || p->dtype == DT_INT16) && list[size - 1] >= 0x80)
        memset(list + size, 0xff, l->stride - size); /* a negative number */
    memcpy((char *)p + l->n, &l->parts, sizeof(l->parts));
    memcpy((char *)p + l->data, &list, sizeof(list));
}

/* Whether the tensor is one number, or all its floating-point elements have the same
 * bits, as from zeros and ones. Lists of integers are mostly sizes, which TensorFlow
 * writes in full. */
static int filled(const struct tensor *t)
{
    size_t bytes = tensor_bytes(t), size = dtype_size(t->dtype);

    if (bytes > size && !dtype_is_floating(t->dtype))
        return 0;
    return bytes >= size && memcmp(t->data, (char *)t->data + size, bytes - size) == 0;
}

/* As TensorFlow 1 writes it: one value for a floating-point tensor of equal elements, the
 * bytes for any other tensor. */
static Tf__TensorProto *tensor_to_proto(struct arena *a, const struct tensor *t)
{
    Tf__TensorProto *p = MESSAGE_NEW(a, TensorProto, tensor_proto);

    p->dtype = (int32_t)t->dtype;
    p->tensor_shape = shape_to_proto(a, &t->shape);
    if (t->dtype == DT_STRING) {
        const struct tensor_string *s = t->data;

        p->n_string_val = (size_t)tensor_elements(t);
        p->string_val = ARENA_ARRAY(a, ProtobufCBinaryData, p->n_string_val);
        for (size_t i = 0; i < p->n_string_val; i++)
            p->string_val[i] = message_bytes(a, s[i].bytes, s[i].len_bytes);
    } else if (tensor_elements(t) > 0 && filled(t)) {
        put_value(a, p, t->data);
    } else {
        p->tensor_content = message_bytes(a, t->data, tensor_bytes(t));
    }
    return p;
}

/* ---- attributes ---- */

/* Returns 0 if the graph can represent the list. */
static int list_from_proto(struct arena *a, const Tf__AttrValue__ListValue *l,
                           enum attr_kind empty_list, struct attr *ret)
{
    size_t n = l->n_s + l->n_i + l->n_f + l->n_b + l->n_type + l->n_shape + l->n_tensor +
               l->n_func;

    *ret = (struct attr){.kind = empty_list};
    if (n == 0)
        return empty_list == ATTR_OPAQUE ? -1 : 0;
    if (n == l->n_s) {
        struct tensor_string *s = ARENA_ARRAY(a, struct tensor_string, n);

        for (size_t i = 0; i < n; i++)
            s[i] = (struct tensor_string){(char *)l->s[i].data, l->s[i].len};
        *ret = (struct attr){.kind = ATTR_LIST_STRING, .n = n, .list_s = s};
    } else if (n == l->n_i) {
        *ret = (struct attr){.kind = ATTR_LIST_INT, .n = n, .list_i = l->i};
    } else if (n == l->n_f) {
        *ret = (struct attr){.kind = ATTR_LIST_FLOAT, .n = n, .list_f = l->f};
    } else if (n == l->n_type) {
        int64_t *types = ARENA_ARRAY(a, int64_t, n);

        for (size_t i = 0; i < n; i++)
            types[i] = l->type[i];
        *ret = (struct attr){.kind = ATTR_LIST_TYPE, .n = n, .list_i = types};
    } else if (n == l->n_shape) {
        struct shape *s = ARENA_ARRAY(a, struct shape, n);

        for (size_t i = 0; i < n; i++)
            if (shape_from_proto(l->shape[i], &s[i]) != 0)
                return -1;
        *ret = (struct attr){.kind = ATTR_LIST_SHAPE, .n = n, .list_shape = s};
    } else {
        return -1;
    }
    return 0;
}

static int has_form(const Tf__TensorProto *t)
{
    return dtype_valid(t->dtype) && !is_handle(t->dtype) &&
           (t->tensor_shape == NULL || t->tensor_shape->n_dim <= SHAPE_MAX_RANK);
}

int attr_from_proto(struct arena *a, const Tf__AttrValue *v, enum attr_kind empty_list,
                    size_t *budget_bytes, struct attr *ret, struct err *err)
{
    int known = 1;

    *ret = (struct attr){0};
    switch (v->value_case) {
    case TF__ATTR_VALUE__VALUE_S:
        *ret = (struct attr){.kind = ATTR_STRING,
                             .s = v->s.data != NULL ? (const char *)v->s.data : "",
                             .s_len = v->s.len};
        break;
    case TF__ATTR_VALUE__VALUE_I:
        *ret = (struct attr){.kind = ATTR_INT, .i = v->i};
        break;
    case TF__ATTR_VALUE__VALUE_F:
        *ret = (struct attr){.kind = ATTR_FLOAT, .f = v->f};
        break;
    case TF__ATTR_VALUE__VALUE_B:
        *ret = (struct attr){.kind = ATTR_BOOL, .i = v->b != 0};
        break;
    case TF__ATTR_VALUE__VALUE_TYPE:
        *ret = (struct attr){.kind = ATTR_TYPE, .i = v->type};
        break;
    case TF__ATTR_VALUE__VALUE_SHAPE:
        ret->kind = ATTR_SHAPE;
        known = shape_from_proto(v->shape, &ret->shape) == 0;
        break;
    case TF__ATTR_VALUE__VALUE_LIST:
        known = list_from_proto(a, v->list, empty_list, ret) == 0;
        break;
    case TF__ATTR_VALUE__VALUE_TENSOR:
        ret->kind = ATTR_TENSOR;
        known = has_form(v->tensor);
        if (known)
            return tensor_from_proto(a, v->tensor, budget_bytes, &ret->tensor, err);
        break;
    default:
        known = 0;
    }
    if (!known) {
        const ProtobufCBinaryData b = message_packed(a, v);

        *ret =
            (struct attr){.kind = ATTR_OPAQUE, .s = (const char *)b.data, .s_len = b.len};
    }
    return 0;
}

static Tf__AttrValue__ListValue *list_to_proto(struct arena *a, const struct attr *attr)
{
    Tf__AttrValue__ListValue *l =
        MESSAGE_NEW(a, AttrValue__ListValue, attr_value__list_value);

    switch (attr->kind) {
    case ATTR_LIST_INT:
        l->n_i = attr->n;
        l->i = arena_memdup(a, attr->list_i, attr->n * sizeof(*attr->list_i));
        break;
    case ATTR_LIST_FLOAT:
        l->n_f = attr->n;
        l->f = arena_memdup(a, attr->list_f, attr->n * sizeof(*attr->list_f));
        break;
    case ATTR_LIST_TYPE:
        l->n_type = attr->n;
        l->type = ARENA_ARRAY(a, int32_t, attr->n);
        for (size_t i = 0; i < attr->n; i++)
            l->type[i] = (int32_t)attr->list_i[i];
        break;
    case ATTR_LIST_SHAPE:
        l->n_shape = attr->n;
        l->shape = ARENA_ARRAY(a, Tf__TensorShapeProto *, attr->n);
        for (size_t i = 0; i < attr->n; i++)
            l->shape[i] = shape_to_proto(a, &attr->list_shape[i]);
        break;
    default: /* strings */
        l->n_s = attr->n;
        l->s = ARENA_ARRAY(a, ProtobufCBinaryData, attr->n);
        for (size_t i = 0; i < attr->n; i++)
            l->s[i] = message_bytes(a, attr->list_s[i].bytes, attr->list_s[i].len_bytes);
    }
    return l;
}

Tf__AttrValue *attr_to_proto(struct arena *a, const struct attr *attr)
{
    Tf__AttrValue *v;

    if (attr->kind == ATTR_OPAQUE)
        return MESSAGE_UNPACK(a, attr_value, attr->s, attr->s_len);
    v = MESSAGE_NEW(a, AttrValue, attr_value);
    switch (attr->kind) {
    case ATTR_INT:
        v->value_case = TF__ATTR_VALUE__VALUE_I, v->i = attr->i;
        break;
    case ATTR_FLOAT:
        v->value_case = TF__ATTR_VALUE__VALUE_F, v->f = attr->f;
        break;
    case ATTR_BOOL:
        v->value_case = TF__ATTR_VALUE__VALUE_B, v->b = attr->i != 0;
        break;
    case ATTR_TYPE:
        v->value_case = TF__ATTR_VALUE__VALUE_TYPE, v->type = (int32_t)attr->i;
        break;
    case ATTR_SHAPE:
        v->value_case = TF__ATTR_VALUE__VALUE_SHAPE;
        v->shape = shape_to_proto(a, &attr->shape);
        break;
    case ATTR_STRING:
        v->value_case = TF__ATTR_VALUE__VALUE_S;
        v->s = message_bytes(a, attr->s, attr->s_len);
        break;
    case ATTR_TENSOR:
        v->value_case = TF__ATTR_VALUE__VALUE_TENSOR;
        v->tensor = tensor_to_proto(a, &attr->tensor);
        break;
    default:
        v->value_case = TF__ATTR_VALUE__VALUE_LIST;
        v->list = list_to_proto(a, attr);
    }
    return v;
}
