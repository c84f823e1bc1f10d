#include "common/msg/obs_msg.h"

#include "common/msg/msg.h"

void msg_put_image(struct msg_out *o, const struct image_part *p, int64_t width,
                   int64_t stack)
{
    const int is_whole = image_size(p) == width;

    if (p->shape[0] == 0)
        return;
    msg_key(o, is_whole ? "image" : "image_part");
    if (!is_whole) {
        msg_map(o, 2u + (p->is_u8 != 0));
        msg_key(o, "shape");
    }
    msg_array(o, 3);
    for (int i = 0; i < 3; i++)
        msg_u64(o, (uint64_t)(p->shape[i] * (is_whole && i == 2 ? stack : 1)));
    if (is_whole)
        return;
    msg_put_u64(o, "at", (uint64_t)p->at);
    if (p->is_u8)
        msg_put_bool(o, "uint8", 1);
}

/* Whether the array is three sizes; their product is at most `most`. */
static int take_shape(const msgpack_object *array, int64_t most, int64_t ret[3])
{
    int64_t size = 1;

    if (array == NULL || array->via.array.size != 3)
        return 0;
    for (uint32_t i = 0; i < 3; i++) {
        const msgpack_object *n = &array->via.array.ptr[i];

        if (n->type != MSGPACK_OBJECT_POSITIVE_INTEGER || n->via.u64 < 1 ||
            n->via.u64 > (uint64_t)(most / size))
            return 0;
        ret[i] = (int64_t)n->via.u64;
        size *= ret[i];
    }
    return 1;
}

static int take_part(const msgpack_object *map, int64_t width, int is_u8,
                     struct image_part *ret, struct err *err)
{
    const msgpack_object *shape = NULL;
    uint64_t at = 0;
    int rc;

    if ((rc = msg_get_array(map, "shape", &shape, err)) < 0 ||
        (rc = msg_get_u64(map, "at", (uint64_t)width, &at, err)) < 0 ||
        (rc = msg_get_bool(map, "uint8", &ret->is_u8, err)) < 0)
        return err_wrap(err, "image_part"), rc;
    ret->at = (int64_t)at;
    ret->is_u8 = ret->is_u8 || is_u8;
    return take_shape(shape, width - ret->at, ret->shape)
               ? 0
               : err_set(
                     err, ERR_PROTOCOL,
                     "image_part: height, width and channels within %lld values expected",
                     (long long)(width - ret->at));
}

int msg_get_image(const msgpack_object *map, int64_t width, int64_t stack, int is_u8,
                  struct image_part *ret, struct err *err)
{
    const msgpack_object *shape = NULL, *part = NULL;
    int rc;

    *ret = (struct image_part){0};
    if ((rc = msg_get_array(map, "image", &shape, err)) < 0 ||
        (rc = msg_get_map(map, "image_part", &part, err)) < 0)
        return rc;
    if (shape == NULL)
        return part != NULL ? take_part(part, width / stack, is_u8, ret, err) : 0;
    ret->is_u8 = is_u8;
    if (take_shape(shape, width, ret->shape) && image_size(ret) == width)
        return 0;
    return err_set(err, ERR_PROTOCOL,
                   "image: height, width and channels of %lld values expected",
                   (long long)width);
}

void msg_put_entities(struct msg_out *o, const int64_t entities[2])
{
    if (entities[0] == 0)
        return;
    msg_key(o, "entities");
    msg_array(o, 2);
    msg_u64(o, (uint64_t)entities[0]);
    msg_u64(o, (uint64_t)entities[1]);
}

static int is_count(const msgpack_object *o, uint64_t least, int64_t most)
{
    return o->type == MSGPACK_OBJECT_POSITIVE_INTEGER && o->via.u64 >= least &&
           o->via.u64 <= (uint64_t)most;
}

int msg_get_entities(const msgpack_object *map, int64_t width, int64_t ret[2],
                     struct err *err)
{
    const msgpack_object *array = NULL, *n;
    int rc = msg_get_array(map, "entities", &array, err);

    if (rc < 0 || array == NULL)
        return rc;
    n = array->via.array.ptr;
    if (array->via.array.size == 2 && is_count(&n[0], 1, width) &&
        is_count(&n[1], 2, width) && (int64_t)(n[0].via.u64 * n[1].via.u64) < width) {
        ret[0] = (int64_t)n[0].via.u64;
        ret[1] = (int64_t)n[1].via.u64;
        return 0;
    }
    return err_set(err, ERR_PROTOCOL,
                   "entities: their number and width within %lld numbers expected",
                   (long long)width);
}
