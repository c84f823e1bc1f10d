/* strided.h - strided copies, which carry out slices, transposes, tiles and pads. */
#ifndef AGENT_KERNELS_STRIDED_H
#define AGENT_KERNELS_STRIDED_H

#include "common/tensor/tensor.h"

#include <stddef.h>
#include <stdint.h>

/* A strided copy: `rank` dimensions of `dim` elements, strides in bytes (0: broadcast).
 */
struct copy_plan {
    int rank;
    int64_t dim[SHAPE_MAX_RANK];
    int64_t src_stride[SHAPE_MAX_RANK];
    int64_t dst_stride[SHAPE_MAX_RANK];
};
void copy_strided(void *dst, const void *src, const struct copy_plan *c, size_t elem);
/* Row-major strides in bytes. */
void dense_strides(const struct shape *s, size_t elem, int64_t *ret);

#endif
