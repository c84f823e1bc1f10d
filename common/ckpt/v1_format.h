/* v1_format.h - numbers of fields in V1 checkpoints, shared by their reader (bundle_v1.c) and
 * their writer (v1_writer.c). Private.
 *
 *     key ""                 SavedTensorSlices {1: meta {1: tensor {1: name, 2: shape,
 *                            3: dtype, 4: slices}, 2: version {1: producer}}}
 *     a slice's key          SavedTensorSlices {2: data {1: name, 2: slice, 3: TensorProto}}
 *
 * Keys of slices are those of a bundle. The TensorProto has only values, in the field of
 * their dtype.
 *
 * Source   tensorflow/core/util/{tensor_slice_writer,tensor_slice_reader}.cc,
 *          saved_tensor_slice.proto
 */
#ifndef COMMON_CKPT_V1_FORMAT_H
#define COMMON_CKPT_V1_FORMAT_H

#include "common/tensor/dtype.h"

#include <stdint.h>

enum {
    SLICES_META = 1,
    SLICES_DATA = 2,
    META_TENSOR = 1,
    META_VERSION = 2,
    TENSOR_NAME = 1,
    TENSOR_SHAPE = 2,
    TENSOR_DTYPE = 3,
    TENSOR_SLICE = 4,
    DATA_NAME = 1,
    DATA_SLICE = 2,
    DATA_VALUES = 3,
};

/* Where a TensorProto has the values of a dtype. */
struct v1_field {
    uint32_t number;  /* of the field; 0: none, the dtype is not supported */
    unsigned n_parts; /* elements of the field for each value: 2 for complex numbers */
    unsigned fixed;   /* bytes of such an element; 0: it is a varint */
};

struct v1_field v1_field_of(enum dtype dtype);

#endif
