/* obs_msg.h - the part of an observation that networks see as an image, or as entities, and its
 * form in `configure`.
 *
 * Image    If the whole observation is one: image [height, width, channels]; of env.stack
 *          observations, whose points stand side by side, with the channels of all. If numbers
 *          are beside it: image_part {shape [height, width, channels], at u, uint8? bool}, its
 *          place in each observation, which stack as a whole.
 * Entities entities [k, w]: the observation ends with k entities of w numbers each, the last of
 *          which is 1 if the entity is there; if it is 0, all of them are 0. Numbers of another
 *          kind stand before.
 */
#ifndef COMMON_MSG_OBS_MSG_H
#define COMMON_MSG_OBS_MSG_H

#include <stdint.h>
#include <string.h>

struct err;
struct msg_out;
struct msgpack_object;

/* Rows of points, each point with its channels side by side. */
struct image_part {
    int64_t shape[3]; /* height, width, channels; 0: no image */
    int64_t at;       /* numbers of the observation before it */
    int is_u8; /* its values are bytes, 0 to 255, also where they are sent as floats */
};

static inline int64_t image_size(const struct image_part *p)
{
    return p->shape[0] * p->shape[1] * p->shape[2];
}

static inline int image_is_same(const struct image_part *a, const struct image_part *b)
{
    return memcmp(a->shape, b->shape, sizeof(a->shape)) == 0 && a->at == b->at &&
           a->is_u8 == b->is_u8;
}

/* Packs a key and its value, if there is an image. width: of one observation. */
void msg_put_image(struct msg_out *o, const struct image_part *p, int64_t width,
                   int64_t stack);
/* Either key, if the map has one. width: of what is seen, `stack` observations; is_u8: they
 * are bytes. ERR_PROTOCOL: it does not fit. */
int msg_get_image(const struct msgpack_object *map, int64_t width, int64_t stack,
                  int is_u8, struct image_part *ret, struct err *err);
/* Pack and read the key of entities, {k, w}; 0: there are none. width: of the observation. */
void msg_put_entities(struct msg_out *o, const int64_t entities[2]);
int msg_get_entities(const struct msgpack_object *map, int64_t width, int64_t ret[2],
                     struct err *err);

#endif
