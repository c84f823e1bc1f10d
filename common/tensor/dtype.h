/* dtype.h - element types, with TensorFlow's DataType numbers (types.proto). */
#ifndef COMMON_TENSOR_DTYPE_H
#define COMMON_TENSOR_DTYPE_H

#include <stddef.h>

/* symbol, number, name, bytes per element (0: not of fixed size). A variant is a tensor list of
 * one run, by its number (agent/flow/lists.h): it is in no file and in no message. */
#define DTYPE_MAP(X)                                                                     \
    X(DT_FLOAT, 1, "float32", 4)                                                         \
    X(DT_DOUBLE, 2, "float64", 8)                                                        \
    X(DT_INT32, 3, "int32", 4)                                                           \
    X(DT_UINT8, 4, "uint8", 1)                                                           \
    X(DT_INT16, 5, "int16", 2)                                                           \
    X(DT_INT8, 6, "int8", 1)                                                             \
    X(DT_STRING, 7, "string", 0)                                                         \
    X(DT_COMPLEX64, 8, "complex64", 8)                                                   \
    X(DT_INT64, 9, "int64", 8)                                                           \
    X(DT_BOOL, 10, "bool", 1)                                                            \
    X(DT_BFLOAT16, 14, "bfloat16", 2)                                                    \
    X(DT_UINT16, 17, "uint16", 2)                                                        \
    X(DT_COMPLEX128, 18, "complex128", 16)                                               \
    X(DT_HALF, 19, "float16", 2)                                                         \
    X(DT_RESOURCE, 20, "resource", 0)                                                    \
    X(DT_VARIANT, 21, "variant", 8)                                                      \
    X(DT_UINT32, 22, "uint32", 4)                                                        \
    X(DT_UINT64, 23, "uint64", 8)

enum dtype {
    DT_INVALID = 0,
#define DTYPE_ENUM(symbol, number, name, bytes) symbol = number,
    DTYPE_MAP(DTYPE_ENUM)
#undef DTYPE_ENUM
};

int dtype_valid(int number); /* 1 if it is one of the above */
/* "float32"; "invalid" if there is no such type */
const char *dtype_name(enum dtype dtype);
const char *dtype_symbol(enum dtype dtype); /* "DT_FLOAT" */
/* For people and files, also of a type that has no name here: "float32", or "type 21" by
 * its number. */
#define DTYPE_LABEL_BYTES 24
const char *dtype_label(enum dtype dtype, char ret[DTYPE_LABEL_BYTES]);
size_t dtype_size(enum dtype dtype); /* bytes per element; 0 if not of fixed size */
enum dtype dtype_from_name(const char *name); /* DT_INVALID if there is no such type */
int dtype_is_floating(enum dtype dtype);      /* half, bfloat16, float32, float64 */
int dtype_is_integer(enum dtype dtype);

#endif
