#include "common/err/check.h"
#include "common/msg/frame.h"
#include "common/msg/msg.h"

#include <string.h>

/* The program itself decides the size of what it packs, so running out of memory may end
 * the process. */
static int append(void *buf, const char *data, size_t n)
{
    CHECK(msgpack_sbuffer_write(buf, data, n) == 0, "no memory for a message");
    return 0;
}

void msg_out_init(struct msg_out *o)
{
    msgpack_sbuffer_init(&o->buf);
    msgpack_packer_init(&o->pk, &o->buf, append);
}

void msg_out_done(struct msg_out *o)
{
    msgpack_sbuffer_destroy(&o->buf);
    msg_out_init(o);
}

static void msg_out_begin(struct msg_out *o, enum msg_type type, size_t n_elements)
{
    static const char no_length_yet[FRAME_HEADER_BYTES];

    /* the packer points to the buffer, which may have moved with the struct */
    o->pk.data = &o->buf;
    msgpack_sbuffer_clear(&o->buf);
    (void)append(&o->buf, no_length_yet, sizeof(no_length_yet));
    msg_array(o, n_elements);
    msg_u64(o, type);
}

void msg_begin_request(struct msg_out *o, uint32_t id, const char *method)
{
    msg_out_begin(o, MSG_REQUEST, 4);
    msg_u64(o, id);
    msg_str(o, method);
}

void msg_begin_response(struct msg_out *o, uint32_t id)
{
    msg_out_begin(o, MSG_RESPONSE, 4);
    msg_u64(o, id);
    msg_nil(o);
}

void msg_begin_notification(struct msg_out *o, const char *method)
{
    msg_out_begin(o, MSG_NOTIFICATION, 3);
    msg_str(o, method);
}

static void pack_name(struct msg_out *o, const char *key, const char *text)
{
    if (*text == '\0')
        return;
    msg_key(o, key);
    msg_str(o, text);
}

static void pack_why(struct msg_out *o, const struct err *why)
{
    const char *cause = why->cause > 0 ? err_cause(why) : "";

    msg_map(o, 2 + (*cause != '\0') + (*why->file != '\0') + (why->line > 0) +
                   (*why->key != '\0') + (*why->agent != '\0') + (*why->tensor != '\0'));
    msg_key(o, "code");
    msg_i64(o, why->code);
    msg_key(o, "message");
    msg_str(o, why->msg);
    pack_name(o, "cause", cause);
    pack_name(o, "file", why->file);
    if (why->line > 0) {
        msg_key(o, "line");
        msg_u64(o, (uint64_t)why->line);
    }
    pack_name(o, "key", why->key);
    pack_name(o, "agent", why->agent);
    pack_name(o, "tensor", why->tensor);
}

void msg_error_response(struct msg_out *o, uint32_t id, const struct err *err)
{
    msg_out_begin(o, MSG_RESPONSE, 4);
    msg_u64(o, id);
    pack_why(o, err);
    msg_nil(o);
}

void msg_refusal(struct msg_out *o, const struct err *why)
{
    msg_key(o, "refused");
    pack_why(o, why);
}

void msg_end(struct msg_out *o, const uint8_t **ret, size_t *ret_len)
{
    size_t len = o->buf.size - FRAME_HEADER_BYTES;

    CHECK(len > 0 && len <= UINT32_MAX, "a message of %zu bytes", len);
    for (unsigned i = 0; i < FRAME_HEADER_BYTES; i++)
        o->buf.data[i] = (char)(uint8_t)(len >> (8 * i));
    *ret = (const uint8_t *)o->buf.data;
    *ret_len = o->buf.size;
}

void msg_map(struct msg_out *o, size_t n_pairs)
{
    (void)msgpack_pack_map(&o->pk, n_pairs);
}

void msg_array(struct msg_out *o, size_t n)
{
    (void)msgpack_pack_array(&o->pk, n);
}

void msg_key(struct msg_out *o, const char *key)
{
    msg_str(o, key);
}

void msg_str(struct msg_out *o, const char *s)
{
    (void)msgpack_pack_str_with_body(&o->pk, s, strlen(s));
}

void msg_u64(struct msg_out *o, uint64_t v)
{
    (void)msgpack_pack_uint64(&o->pk, v);
}

void msg_i64(struct msg_out *o, int64_t v)
{
    (void)msgpack_pack_int64(&o->pk, v);
}

void msg_f64(struct msg_out *o, double v)
{
    (void)msgpack_pack_double(&o->pk, v);
}

void msg_bool(struct msg_out *o, int v)
{
    (void)(v ? msgpack_pack_true(&o->pk) : msgpack_pack_false(&o->pk));
}

void msg_nil(struct msg_out *o)
{
    (void)msgpack_pack_nil(&o->pk);
}

void msg_put_str(struct msg_out *o, const char *key, const char *s)
{
    msg_key(o, key);
    msg_str(o, s);
}

void msg_put_u64(struct msg_out *o, const char *key, uint64_t v)
{
    msg_key(o, key);
    msg_u64(o, v);
}

void msg_put_i64(struct msg_out *o, const char *key, int64_t v)
{
    msg_key(o, key);
    msg_i64(o, v);
}

void msg_put_f64(struct msg_out *o, const char *key, double v)
{
    msg_key(o, key);
    msg_f64(o, v);
}

void msg_put_bool(struct msg_out *o, const char *key, int v)
{
    msg_key(o, key);
    msg_bool(o, v);
}

void msg_bin_begin(struct msg_out *o, size_t n)
{
    (void)msgpack_pack_bin(&o->pk, n);
}

void msg_bin(struct msg_out *o, const void *data, size_t n)
{
    msg_bin_begin(o, n);
    msg_bin_body(o, data, n);
}

/* All of a tensor but its elements. */
static void tensor_head(struct msg_out *o, enum dtype dtype, const struct shape *shape)
{
    msg_array(o, 3);
    msg_u64(o, dtype);
    msg_array(o, (size_t)shape->rank);
    for (int i = 0; i < shape->rank; i++)
        msg_u64(o, (uint64_t)shape->dim[i]);
}

void msg_tensor_begin(struct msg_out *o, enum dtype dtype, const struct shape *shape)
{
    int64_t elements = shape_elements(shape);

    CHECK(elements >= 0 && dtype_size(dtype) > 0, "%s %s", dtype_name(dtype),
          shape_text(shape));
    tensor_head(o, dtype, shape);
    msg_bin_begin(o, (size_t)elements * dtype_size(dtype));
}

void msg_bin_body(struct msg_out *o, const void *data, size_t n)
{
    if (n > 0)
        (void)msgpack_pack_bin_body(&o->pk, data, n);
}

void msg_tensor(struct msg_out *o, const struct tensor *t)
{
    const struct tensor_string *s = t->data;
    const size_t n = (size_t)tensor_elements(t);

    if (t->dtype != DT_STRING) {
        msg_tensor_begin(o, t->dtype, &t->shape);
        msg_bin_body(o, t->data, tensor_bytes(t));
        return;
    }
    tensor_head(o, DT_STRING, &t->shape);
    msg_array(o, n);
    for (size_t i = 0; i < n; i++)
        msg_bin(o, s[i].bytes, s[i].len_bytes);
}
