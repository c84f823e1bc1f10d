/* msg.h - msgpack-rpc messages: bounded reading, convenient writing.
 *
 * Reading  depth, element counts and sizes are checked before memory is allocated for
 *          them (unpack.h): a message takes at most a small multiple of its own length.
 *          Objects and tensors point into the caller's bytes, which must outlive them.
 *          A request's params may also be an array: [params], or [] if there are none.
 * Writing  a struct msg_out is a frame under construction: begin, then pack params or
 *          result as a map, then msg_end, which fills in the length.
 * Source   msgpack-rpc specification; protocol.h lists the messages.
 */
#ifndef COMMON_MSG_MSG_H
#define COMMON_MSG_MSG_H

#include "common/err/err.h"
#include "common/msg/unpack.h"
#include "common/tensor/tensor.h"

#include <msgpack.h>
#include <stddef.h>
#include <stdint.h>

enum msg_type { MSG_REQUEST = 0, MSG_RESPONSE = 1, MSG_NOTIFICATION = 2 };

struct msg {
    enum msg_type type;
    uint32_t id;         /* request, response */
    char method[64];     /* request, notification */
    msgpack_object body; /* params or result: a map, or nil */
    struct err error;    /* response: code 0, or the error the peer sent (from_peer) */
    msgpack_zone zone;   /* private */
    int has_zone;        /* private */
};

/* Parses one message, which must take exactly len bytes. Release it with msg_done.
 * ERR_FORMAT, ERR_LIMIT, ERR_PROTOCOL. */
int msg_parse(struct msg *ret, const void *data, size_t len, struct err *err);
/* msg_parse into a struct that is all-zero or holds an earlier message, whose memory it
 * reuses: a loop over messages does not allocate. */
int msg_reparse(struct msg *m, const void *data, size_t len, struct err *err);
void msg_done(struct msg *m); /* an all-zero struct is fine */

/* Lookups in a map. If the key is absent or its value nil, they return 0 (msg_get: NULL)
 * and leave *ret unchanged; msg_require checks for that. A value of the wrong type or
 * range is ERR_PROTOCOL, with the key in the message. msg_get_str copies the string and
 * terminates it; strings that contain a NUL are refused. */
const msgpack_object *msg_get(const msgpack_object *map, const char *key);
int msg_get_u64(const msgpack_object *map, const char *key, uint64_t max, uint64_t *ret,
                struct err *err);
int msg_get_f64(const msgpack_object *map, const char *key, double *ret, struct err *err);
int msg_get_bool(const msgpack_object *map, const char *key, int *ret, struct err *err);
int msg_get_str(const msgpack_object *map, const char *key, char *ret, size_t size,
                struct err *err);
int msg_get_map(const msgpack_object *map, const char *key, const msgpack_object **ret,
                struct err *err);
int msg_get_array(const msgpack_object *map, const char *key, const msgpack_object **ret,
                  struct err *err);
int msg_get_bin(const msgpack_object *map, const char *key, const void **ret,
                size_t *ret_len, struct err *err);
/* Reads [dtype, [dims], bin] as a view, which msg_parse has aligned for its dtype. Checks
 * that size, dtype and shape agree. */
int msg_get_tensor(const msgpack_object *map, const char *key, struct tensor *ret,
                   struct err *err);
int msg_to_tensor(const msgpack_object *obj, const char *what, struct tensor *ret,
                  struct err *err);
/* Reads any tensor that a request `run` may carry: also strings, [7, [dims], [bin...]],
 * which ret owns. tensor_free either. */
int msg_to_any_tensor(const msgpack_object *obj, const char *what, struct tensor *ret,
                      struct err *err);
/* ERR_PROTOCOL, with the key in the message, if it is absent or its value nil. */
int msg_require(const msgpack_object *map, const char *key, struct err *err);
int msg_str_is(const msgpack_object *obj, const char *s);
/* Returns the code of a refusal ("refused", protocol.h) and sets err; 0: it is none. */
int msg_refused(const msgpack_object *result, struct err *err);

struct msg_out {
    msgpack_sbuffer buf;
    msgpack_packer pk;
};

void msg_out_init(struct msg_out *o);
void msg_out_done(struct msg_out *o);
/* Each begins a new frame, reusing the memory. The caller then packs one object. */
void msg_begin_request(struct msg_out *o, uint32_t id, const char *method);
void msg_begin_response(struct msg_out *o, uint32_t id);
void msg_begin_notification(struct msg_out *o, const char *method);
/* Packs a whole error response: its error is {"code", "message"}, its result nil. If
 * known, "file", "line", "key", "agent" and "tensor" give the place of the error, and
 * "cause" is the message without its place. */
void msg_error_response(struct msg_out *o, uint32_t id, const struct err *err);
/* Packs one pair of a result's map, "refused": why. It means that the request was
 * understood but cannot be executed. */
void msg_refusal(struct msg_out *o, const struct err *why);
/* Fills in the frame's length and returns the whole frame, valid until the next begin. */
void msg_end(struct msg_out *o, const uint8_t **ret, size_t *ret_len);

void msg_map(struct msg_out *o, size_t n_pairs);
void msg_array(struct msg_out *o, size_t n);
void msg_key(struct msg_out *o, const char *key); /* a string */
void msg_str(struct msg_out *o, const char *s);
void msg_u64(struct msg_out *o, uint64_t v);
void msg_i64(struct msg_out *o, int64_t v);
void msg_f64(struct msg_out *o, double v);
void msg_bool(struct msg_out *o, int v);
void msg_nil(struct msg_out *o);
/* A key of a map and its value. */
void msg_put_str(struct msg_out *o, const char *key, const char *s);
void msg_put_u64(struct msg_out *o, const char *key, uint64_t v);
void msg_put_i64(struct msg_out *o, const char *key, int64_t v);
void msg_put_f64(struct msg_out *o, const char *key, double v);
void msg_put_bool(struct msg_out *o, const char *key, int v);
void msg_bin(struct msg_out *o, const void *data, size_t n);
/* Packs the header for n bytes; the caller appends the bytes with msg_bin_body. */
void msg_bin_begin(struct msg_out *o, size_t n);
/* Also of strings, as [7, [dims], [bin...]]. */
void msg_tensor(struct msg_out *o, const struct tensor *t);
/* Packs the array and bin headers of a tensor; the caller appends all of its bytes with
 * msg_bin_body, in one or more pieces. */
void msg_tensor_begin(struct msg_out *o, enum dtype dtype, const struct shape *shape);
void msg_bin_body(struct msg_out *o, const void *data, size_t n);

#endif
