#include "common/msg/msg.h"

#include "common/mem/xmalloc.h"

#include <limits.h>
#include <string.h>

/* [message types] number of elements of the outer array */
static const uint32_t type_elements[] = {
    [MSG_REQUEST] = 4,
    [MSG_RESPONSE] = 4,
    [MSG_NOTIFICATION] = 3,
};

static int is_tensor(const msgpack_object *o)
{
    return o->type == MSGPACK_OBJECT_ARRAY && o->via.array.size == 3 &&
           o->via.array.ptr[0].type == MSGPACK_OBJECT_POSITIVE_INTEGER &&
           o->via.array.ptr[1].type == MSGPACK_OBJECT_ARRAY &&
           o->via.array.ptr[2].type == MSGPACK_OBJECT_BIN;
}

/* msgpack places bytes at any address, but tensors are read in place: copies the bytes
 * of an unaligned tensor to the zone. */
static int align_tensor(struct msg *m, msgpack_object *o, struct err *err)
{
    uint64_t dtype = o->via.array.ptr[0].via.u64;
    msgpack_object_bin *bin = &o->via.array.ptr[2].via.bin;
    size_t size = dtype <= INT_MAX ? dtype_size((enum dtype)dtype) : 0;
    void *copy;

    if (size <= 1 || (uintptr_t)bin->ptr % size == 0 || bin->size == 0)
        return 0;
    /* the zone aligns to pointers; complex128 only needs the alignment of double */
    if (size == 16 && (uintptr_t)bin->ptr % sizeof(double) == 0)
        return 0;
    copy = msgpack_zone_malloc(&m->zone, bin->size);
    if (copy == NULL)
        return err_set(err, ERR_NOMEM, "no memory for a tensor of %u bytes", bin->size);
    bin->ptr = memcpy(copy, bin->ptr, bin->size);
    return 0;
}

/* Aligns tensors anywhere in the object. Recursion depth: at most MSG_MAX_DEPTH. */
static int align_tensors(struct msg *m, msgpack_object *o, struct err *err)
{
    int rc = 0;

    if (o->type == MSGPACK_OBJECT_MAP) {
        for (uint32_t i = 0; rc == 0 && i < o->via.map.size; i++) {
            rc = align_tensors(m, &o->via.map.ptr[i].key, err);
            if (rc == 0)
                rc = align_tensors(m, &o->via.map.ptr[i].val, err);
        }
    } else if (o->type == MSGPACK_OBJECT_ARRAY) {
        rc = is_tensor(o) ? align_tensor(m, o, err) : 0;
        for (uint32_t i = 0; rc == 0 && i < o->via.array.size; i++)
            rc = align_tensors(m, &o->via.array.ptr[i], err);
    }
    return rc;
}

static int copy_method(struct msg *m, const msgpack_object *o, struct err *err)
{
    if (o->type != MSGPACK_OBJECT_STR || o->via.str.size == 0 ||
        o->via.str.size >= sizeof(m->method) ||
        memchr(o->via.str.ptr, '\0', o->via.str.size) != NULL)
        return err_set(err, ERR_PROTOCOL, "the method is no string of 1 to %zu bytes",
                       sizeof(m->method) - 1);
    memcpy(m->method, o->via.str.ptr, o->via.str.size);
    m->method[o->via.str.size] = '\0';
    return 0;
}

/* Copies at most size - 1 bytes, up to a NUL; "" if the object is no string. */
static void copy_text(char *ret, size_t size, const msgpack_object *o)
{
    size_t n = 0;

    if (o != NULL && o->type == MSGPACK_OBJECT_STR) {
        n = o->via.str.size < size ? o->via.str.size : size - 1;
        memcpy(ret, o->via.str.ptr, n);
    }
    ret[n] = '\0';
}

/* Reads an error. A brood process sends {"code", "message"} and the place if it is known
 * (pack_why); another program may send any object. */
static void take_why(const msgpack_object *o, struct err *ret)
{
    const msgpack_object *code = msg_get(o, "code");
    const int is_map = o->type == MSGPACK_OBJECT_MAP;
    char text[ERR_MSG_BYTES], cause[ERR_MSG_BYTES], file[ERR_FILE_BYTES];
    char key[ERR_NAME_BYTES], agent[ERR_NAME_BYTES], tensor[ERR_NAME_BYTES];
    uint64_t line = 0;

    copy_text(text, sizeof(text), is_map ? msg_get(o, "message") : o);
    (void)err_set(ret, ERR_AGENT, "%s", text[0] != '\0' ? text : "unnamed error");
    if (code != NULL && code->type == MSGPACK_OBJECT_NEGATIVE_INTEGER &&
        code->via.i64 >= INT_MIN)
        ret->code = (int)code->via.i64;
    ret->from_peer = 1;
    copy_text(cause, sizeof(cause), msg_get(o, "cause"));
    if (cause[0] != '\0' && strlen(cause) < strlen(ret->msg))
        ret->cause = (unsigned)(strlen(ret->msg) - strlen(cause));
    copy_text(file, sizeof(file), msg_get(o, "file"));
    copy_text(key, sizeof(key), msg_get(o, "key"));
    copy_text(agent, sizeof(agent), msg_get(o, "agent"));
    copy_text(tensor, sizeof(tensor), msg_get(o, "tensor"));
    (void)msg_get_u64(o, "line", INT_MAX, &line, NULL);
    (void)err_note(ret, ERR_AT(.file = file, .line = (int)line, .key = key,
                               .agent = agent, .tensor = tensor));
}

int msg_refused(const msgpack_object *result, struct err *err)
{
    const msgpack_object *refused = msg_get(result, "refused");
    struct err why;

    if (refused == NULL)
        return 0;
    take_why(refused, &why);
    return err_pass(err, &why);
}

static int is_envelope(const msgpack_object *o)
{
    const msgpack_object_array *a = &o->via.array;

    return o->type == MSGPACK_OBJECT_ARRAY && a->size > 0 &&
           a->ptr[0].type == MSGPACK_OBJECT_POSITIVE_INTEGER &&
           a->ptr[0].via.u64 <= MSG_NOTIFICATION &&
           a->size == type_elements[a->ptr[0].via.u64];
}

/* Returns the map of params. Many clients can only send an array of arguments, which then
 * has the map as its only element, or is empty if there are no params. */
static msgpack_object take_params(const msgpack_object *o)
{
    if (o->type != MSGPACK_OBJECT_ARRAY || o->via.array.size > 1)
        return *o;
    return o->via.array.size == 1 ? o->via.array.ptr[0]
                                  : (msgpack_object){.type = MSGPACK_OBJECT_NIL};
}

static int take_envelope(struct msg *m, const msgpack_object *root, struct err *err)
{
    const msgpack_object *e;
    uint32_t n;
    int rc = 0;

    if (!is_envelope(root))
        return err_set(err, ERR_PROTOCOL, "not a msgpack-rpc message");
    e = root->via.array.ptr;
    n = root->via.array.size;
    m->type = (enum msg_type)e[0].via.u64;
    if (m->type != MSG_NOTIFICATION) {
        if (e[1].type != MSGPACK_OBJECT_POSITIVE_INTEGER || e[1].via.u64 > UINT32_MAX)
            return err_set(err, ERR_PROTOCOL, "the message's id is no 32-bit number");
        m->id = (uint32_t)e[1].via.u64;
    }
    if (m->type != MSG_RESPONSE)
        rc = copy_method(m, &e[n - 2], err);
    else if (e[2].type != MSGPACK_OBJECT_NIL)
        take_why(&e[2], &m->error);
    if (rc < 0)
        return rc;
    m->body = m->type == MSG_REQUEST ? take_params(&e[n - 1]) : e[n - 1];
    if (m->body.type != MSGPACK_OBJECT_MAP && m->body.type != MSGPACK_OBJECT_NIL)
        return err_set(err, ERR_PROTOCOL, "params and results are maps");
    return 0;
}

int msg_reparse(struct msg *m, const void *data, size_t len, struct err *err)
{
    msgpack_object root;
    int rc;

    m->id = 0;
    m->method[0] = '\0';
    if (m->error.code != 0)
        m->error = (struct err){0};
    m->body = (msgpack_object){.type = MSGPACK_OBJECT_NIL};
    if (m->has_zone)
        msgpack_zone_clear(&m->zone);
    else if (!msgpack_zone_init(&m->zone, MSGPACK_ZONE_CHUNK_SIZE))
        return err_set(err, ERR_NOMEM, "no memory for a message");
    m->has_zone = 1;
    if ((rc = msg_unpack(data, len, &m->zone, &root, err)) < 0 ||
        (rc = align_tensors(m, &root, err)) < 0)
        return rc;
    return take_envelope(m, &root, err);
}

int msg_parse(struct msg *ret, const void *data, size_t len, struct err *err)
{
    int rc;

    *ret = (struct msg){0};
    rc = msg_reparse(ret, data, len, err);
    if (rc < 0)
        msg_done(ret);
    return rc;
}

void msg_done(struct msg *m)
{
    if (m->has_zone)
        msgpack_zone_destroy(&m->zone);
    *m = (struct msg){0};
}

static int is_text(const msgpack_object *obj, const char *s, size_t len)
{
    return obj->type == MSGPACK_OBJECT_STR && obj->via.str.size == len &&
           memcmp(obj->via.str.ptr, s, len) == 0;
}

int msg_str_is(const msgpack_object *obj, const char *s)
{
    return obj != NULL && is_text(obj, s, strlen(s));
}

const msgpack_object *msg_get(const msgpack_object *map, const char *key)
{
    const size_t len = strlen(key);

    if (map == NULL || map->type != MSGPACK_OBJECT_MAP)
        return NULL;
    for (uint32_t i = 0; i < map->via.map.size; i++) {
        const msgpack_object_kv *kv = &map->via.map.ptr[i];

        if (is_text(&kv->key, key, len))
            return kv->val.type == MSGPACK_OBJECT_NIL ? NULL : &kv->val;
    }
    return NULL;
}

int msg_require(const msgpack_object *map, const char *key, struct err *err)
{
    if (msg_get(map, key) == NULL)
        return err_set(err, ERR_PROTOCOL, "%s is missing", key);
    return 0;
}

static int expected(const char *key, const char *what, struct err *err)
{
    return err_set(err, ERR_PROTOCOL, "%s: expected %s", key, what);
}

int msg_get_u64(const msgpack_object *map, const char *key, uint64_t max, uint64_t *ret,
                struct err *err)
{
    const msgpack_object *o = msg_get(map, key);

    if (o == NULL)
        return 0;
    if (o->type != MSGPACK_OBJECT_POSITIVE_INTEGER)
        return expected(key, "a whole number", err);
    if (o->via.u64 > max)
        return err_set(err, ERR_PROTOCOL, "%s: %llu is more than %llu", key,
                       (unsigned long long)o->via.u64, (unsigned long long)max);
    *ret = o->via.u64;
    return 0;
}

int msg_get_f64(const msgpack_object *map, const char *key, double *ret, struct err *err)
{
    const msgpack_object *o = msg_get(map, key);

    if (o == NULL)
        return 0;
    switch (o->type) {
    case MSGPACK_OBJECT_FLOAT32:
    case MSGPACK_OBJECT_FLOAT64:
        *ret = o->via.f64;
        return 0;
    case MSGPACK_OBJECT_POSITIVE_INTEGER:
        *ret = (double)o->via.u64;
        return 0;
    case MSGPACK_OBJECT_NEGATIVE_INTEGER:
        *ret = (double)o->via.i64;
        return 0;
    default:
        return expected(key, "a number", err);
    }
}

int msg_get_bool(const msgpack_object *map, const char *key, int *ret, struct err *err)
{
    const msgpack_object *o = msg_get(map, key);

    if (o == NULL)
        return 0;
    if (o->type != MSGPACK_OBJECT_BOOLEAN)
        return expected(key, "true or false", err);
    *ret = o->via.boolean;
    return 0;
}

int msg_get_str(const msgpack_object *map, const char *key, char *ret, size_t size,
                struct err *err)
{
    const msgpack_object *o = msg_get(map, key);

    if (o == NULL)
        return 0;
    if (o->type != MSGPACK_OBJECT_STR)
        return expected(key, "a string", err);
    if (o->via.str.size >= size)
        return err_set(err, ERR_PROTOCOL, "%s: a string of %u bytes, at most %zu fit",
                       key, o->via.str.size, size - 1);
    if (o->via.str.size > 0 && memchr(o->via.str.ptr, '\0', o->via.str.size) != NULL)
        return expected(key, "a string without NUL", err);
    copy_text(ret, size, o);
    return 0;
}

static int get_typed(const msgpack_object *map, const char *key, msgpack_object_type type,
                     const char *what, const msgpack_object **ret, struct err *err)
{
    const msgpack_object *o = msg_get(map, key);

    if (o == NULL)
        return 0;
    if (o->type != type)
        return expected(key, what, err);
    *ret = o;
    return 0;
}

int msg_get_map(const msgpack_object *map, const char *key, const msgpack_object **ret,
                struct err *err)
{
    return get_typed(map, key, MSGPACK_OBJECT_MAP, "a map", ret, err);
}

int msg_get_array(const msgpack_object *map, const char *key, const msgpack_object **ret,
                  struct err *err)
{
    return get_typed(map, key, MSGPACK_OBJECT_ARRAY, "an array", ret, err);
}

int msg_get_bin(const msgpack_object *map, const char *key, const void **ret,
                size_t *ret_len, struct err *err)
{
    const msgpack_object *o = NULL;
    int rc = get_typed(map, key, MSGPACK_OBJECT_BIN, "bytes", &o, err);

    if (rc < 0 || o == NULL)
        return rc;
    *ret = o->via.bin.ptr;
    *ret_len = o->via.bin.size;
    return 0;
}

static int take_dims(const msgpack_object_array *dims, const char *what,
                     struct shape *ret, struct err *err)
{
    if (dims->size > SHAPE_MAX_RANK)
        return err_set(err, ERR_PROTOCOL, "%s: a tensor of rank %u, at most %d", what,
                       dims->size, SHAPE_MAX_RANK);
    ret->rank = (int)dims->size;
    for (uint32_t i = 0; i < dims->size; i++) {
        if (dims->ptr[i].type != MSGPACK_OBJECT_POSITIVE_INTEGER ||
            dims->ptr[i].via.u64 > INT64_MAX)
            return err_set(err, ERR_PROTOCOL, "%s: dimension %u is no size", what, i);
        ret->dim[i] = dims->ptr[i].via.i64;
    }
    return 0;
}

int msg_to_tensor(const msgpack_object *obj, const char *what, struct tensor *ret,
                  struct err *err)
{
    struct shape shape = SHAPE_SCALAR;
    const msgpack_object *e;
    int64_t elements;
    size_t size;
    int rc;

    if (!is_tensor(obj))
        return expected(what, "a tensor: [dtype, [dims], bytes]", err);
    e = obj->via.array.ptr;
    size = e[0].via.u64 <= INT_MAX && dtype_valid((int)e[0].via.u64)
               ? dtype_size((enum dtype)e[0].via.u64)
               : 0;
    if (size == 0)
        return err_set(err, ERR_PROTOCOL, "%s: no tensor of data type %llu is sent", what,
                       (unsigned long long)e[0].via.u64);
    rc = take_dims(&e[1].via.array, what, &shape, err);
    if (rc < 0)
        return rc;
    elements = shape_elements(&shape);
    if (elements < 0 || (uint64_t)elements > UINT32_MAX ||
        (uint64_t)elements * size != e[2].via.bin.size)
        return err_set(err, ERR_PROTOCOL, "%s: %u bytes for shape %s of %s", what,
                       e[2].via.bin.size, shape_text(&shape),
                       dtype_name((enum dtype)e[0].via.u64));
    *ret = tensor_const_view((enum dtype)e[0].via.u64, shape, e[2].via.bin.ptr);
    return 0;
}

static int is_strings(const msgpack_object *o)
{
    return o->type == MSGPACK_OBJECT_ARRAY && o->via.array.size == 3 &&
           o->via.array.ptr[0].type == MSGPACK_OBJECT_POSITIVE_INTEGER &&
           o->via.array.ptr[0].via.u64 == DT_STRING &&
           o->via.array.ptr[1].type == MSGPACK_OBJECT_ARRAY &&
           o->via.array.ptr[2].type == MSGPACK_OBJECT_ARRAY;
}

int msg_to_any_tensor(const msgpack_object *obj, const char *what, struct tensor *ret,
                      struct err *err)
{
    const msgpack_object_array *list;
    struct shape shape = SHAPE_SCALAR;
    struct tensor_string *s;
    int rc;

    if (!is_strings(obj))
        return msg_to_tensor(obj, what, ret, err);
    list = &obj->via.array.ptr[2].via.array;
    rc = take_dims(&obj->via.array.ptr[1].via.array, what, &shape, err);
    if (rc < 0)
        return rc;
    if (shape_elements(&shape) != (int64_t)list->size)
        return err_set(err, ERR_PROTOCOL, "%s: %u strings for shape %s", what, list->size,
                       shape_text(&shape));
    for (uint32_t i = 0; i < list->size; i++)
        if (list->ptr[i].type != MSGPACK_OBJECT_BIN)
            return err_set(err, ERR_PROTOCOL, "%s: string %u is not of bytes", what, i);
    rc = tensor_alloc(ret, DT_STRING, shape, err);
    s = ret->data;
    for (uint32_t i = 0; rc == 0 && i < list->size; i++) {
        const msgpack_object_bin *bin = &list->ptr[i].via.bin;

        if (bin->size > 0)
            s[i] = (struct tensor_string){memcpy(xmalloc(bin->size), bin->ptr, bin->size),
                                          bin->size};
    }
    return rc;
}

int msg_get_tensor(const msgpack_object *map, const char *key, struct tensor *ret,
                   struct err *err)
{
    const msgpack_object *o = msg_get(map, key);

    return o == NULL ? 0 : msg_to_tensor(o, key, ret, err);
}
