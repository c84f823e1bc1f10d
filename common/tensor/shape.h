/* shape.h - the dimensions of a tensor, fully or partly known.
 *
 * Dimension -1 is unknown (a batch size); with rank -1 nothing is known.
 */
#ifndef COMMON_TENSOR_SHAPE_H
#define COMMON_TENSOR_SHAPE_H

#include <stddef.h>
#include <stdint.h>

#define SHAPE_MAX_RANK 8

struct shape {
    int rank; /* 0 scalar, -1 unknown */
    int64_t dim[SHAPE_MAX_RANK];
};

#define SHAPE_SCALAR  ((struct shape){0})
#define SHAPE_UNKNOWN ((struct shape){.rank = -1})
/* SHAPE(3, 4): a literal of known rank */
#define SHAPE(...)                                                                       \
    ((struct shape){(int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)),           \
                    {__VA_ARGS__}})

struct shape shape_of_rank(int rank); /* no dimension is known */
/* Puts a dimension before dimension `axis`; s has fewer than SHAPE_MAX_RANK. */
void shape_insert(struct shape *s, int axis, int64_t dim);
void shape_remove(struct shape *s, int axis);

int shape_known(const struct shape *s); /* rank and all dimensions */
/* The number of elements; -1 if it is unknown or overflows. */
int64_t shape_elements(const struct shape *s);
int shape_equal(const struct shape *a,
                /* a dimension unknown in one must be unknown in the other */
                const struct shape *b);
/* Whether one tensor could have both shapes. */
int shape_compatible(const struct shape *a, const struct shape *b);
/* Combines the known dimensions of both. Returns 0, or ERR_SHAPE if they disagree. */
int shape_merge(const struct shape *a, const struct shape *b, struct shape *ret);
/* NumPy's broadcasting; unknown dimensions stay unknown. 0 or ERR_SHAPE. */
int shape_broadcast(const struct shape *a, const struct shape *b, struct shape *ret);
/* "(3, ?)", "()", "<unknown>"; returns buf. */
const char *shape_format(const struct shape *s, char *buf, size_t size);
#define SHAPE_TEXT    128
/* shape_text(&s): for printf arguments; valid until the end of the enclosing block. */
#define shape_text(s) shape_format((s), (char[SHAPE_TEXT]){0}, SHAPE_TEXT)

#endif
