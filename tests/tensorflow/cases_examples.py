"""Records of examples, bytes as numbers, and lists of elements: agent/ops/examples.c."""
import struct

import numpy as np
from cases import case, feed, normal, tf


def varint(n):
    n &= (1 << 64) - 1
    return bytes([n]) if n < 128 else bytes([n & 127 | 128]) + varint(n >> 7)


def field(number, data):
    return varint(number << 3 | 2) + varint(len(data)) + data


def floats(*values, packed=True):
    data = [struct.pack("<f", v) for v in values]
    return field(2, field(1, b"".join(data)) if packed else
                 b"".join(varint(1 << 3 | 5) + d for d in data))


def integers(*values, packed=True):
    data = [varint(v) for v in values]
    return field(3, field(1, b"".join(data)) if packed else
                 b"".join(varint(1 << 3) + d for d in data))


def texts(*values):
    return field(1, b"".join(field(1, v) for v in values))


def example(**features):
    return field(1, b"".join(field(1, field(1, k.encode()) + field(2, v))
                             for k, v in features.items()))


EXAMPLES = [example(x=floats(1, -2.5), n=integers(3, -4, packed=False), s=texts(b"a\0b", b""),
                    d=floats(0.5, packed=False), t=texts(b"first")),
            example(d=floats(7), t=texts(b"second"), n=integers()),
            example(x=floats(9), s=texts(b"c"), d=floats(-1), other=integers(1))]


def features(default=b"none"):
    return {"x": tf.VarLenFeature("float32"), "n": tf.VarLenFeature("int64"),
            "s": tf.VarLenFeature("string"), "gone": tf.VarLenFeature("int64"),
            "d": tf.FixedLenFeature([], "float32"),
            "t": tf.FixedLenFeature([1], "string", default_value=[default]),
            "twice": tf.FixedLenFeature([2], "int64", default_value=[5, 6])}


def flat(parsed):
    """All tensors, of sparse ones their three."""
    ret = []
    for name in sorted(parsed):
        x = parsed[name]
        ret += [x.indices, x.values, x.dense_shape] if isinstance(x, tf.SparseTensor) else [x]
    return [tf.identity(x, f"out_{i}") for i, x in enumerate(ret)]


def given(examples):
    return feed(np.array(examples, object))


@case
def examples_in_a_batch():
    return flat(tf.io.parse_example(given(EXAMPLES), features()))


@case
def examples_of_known_number():
    return flat(tf.io.parse_example(tf.constant(EXAMPLES[:1]), features()))


@case
def no_examples():
    return flat(tf.io.parse_example(feed(np.array([], object), shape=[None]), features()))


@case
def example_alone():
    return flat(tf.io.parse_single_example(given(EXAMPLES[0]), features()))


def first_version(serialized, keys=("x", "s"), dense=("d",), default=()):
    out = tf.raw_ops.ParseExample(
        serialized=serialized, names=[], sparse_keys=list(keys), dense_keys=list(dense),
        dense_defaults=[tf.constant(list(default), tf.float32)],
        sparse_types=[tf.float32, tf.string], dense_shapes=[[]])
    return [tf.identity(x) for part in out for x in part]


@case
def examples_in_the_first_version():
    return first_version(given(EXAMPLES))


@case
def examples_of_dense_features_in_the_first_version():
    return tf.raw_ops.ParseExample(
        serialized=given(EXAMPLES), names=[], sparse_keys=[], dense_keys=["d"],
        dense_defaults=[tf.constant([], tf.float32)], sparse_types=[], dense_shapes=[[]]
    ).dense_values


@case
def example_alone_in_the_first_version():
    out = tf.raw_ops.ParseSingleExample(
        serialized=given(EXAMPLES[0]), dense_defaults=[tf.constant([], tf.float32)],
        num_sparse=2, sparse_keys=["n", "s"], dense_keys=["d"],
        sparse_types=[tf.int64, tf.string], dense_shapes=[[]])
    return [tf.identity(x) for part in out for x in part]


@case
def sequences_are_padded():
    spec = tf.FixedLenSequenceFeature([2], "float32", allow_missing=True, default_value=-1.0)
    batch = [example(x=floats(1, 2, 3, 4)), example(), example(x=floats(5, 6))]
    return tf.io.parse_example(given(batch), {"x": spec})["x"]


@case(fails="is required but could not be found")
def a_feature_is_missing():
    return tf.io.parse_example(given([example()]), {"d": tf.FixedLenFeature([], "float32")})["d"]


@case(fails="Data types don't match")
def a_feature_of_another_type():
    return tf.io.parse_example(given(EXAMPLES), {"d": tf.FixedLenFeature([], "int64")})["d"]


@case(fails="Number of")
def a_feature_of_another_size():
    return tf.io.parse_example(given(EXAMPLES), {"d": tf.FixedLenFeature([2], "float32")})["d"]


@case(fails="Could not parse example input")
def no_example():
    return flat(tf.io.parse_example(given([b"\x0a\x05ab"]), features()))


for dtype in ("uint8", "int32", "float64", "int16"):
    @case(name=f"raw_{dtype}")
    def raw(dtype=dtype):
        return tf.decode_raw(given([bytes(range(16)), bytes(range(100, 116))]), dtype)


@case
def raw_of_the_other_order():
    return tf.decode_raw(given([bytes(range(8))]), "int16", little_endian=False)


@case(fails="not a multiple")
def raw_of_odd_length():
    return tf.decode_raw(given([b"abc"]), "int16")


@case(fails="same size")
def raw_of_several_lengths():
    return tf.decode_raw(given([b"ab", b"abcd"]), "int16")


@case
def sparse_to_dense():
    return tf.sparse_to_dense([[0, 1], [1, 0], [1, 2]], [2, 3], feed(normal(3)),
                              feed(np.float32(0.5)))


@case(gradients=False)  # TensorFlow's rule takes no vector of indices
def sparse_to_dense_of_fed_size():
    return tf.sparse_to_dense(feed([1, 3], dtype="int64"), feed([5], dtype="int64"),
                              feed(normal(2)), 0.0)


@case
def sparse_to_dense_of_one_value():
    return tf.sparse_to_dense(feed([2, 0], dtype="int32"), [4], 7, validate_indices=False)


@case(fails="out of order")
def sparse_to_dense_out_of_order():
    return tf.sparse_to_dense(feed([2, 0], dtype="int32"), [4], 7)


@case(fails="repeated")
def sparse_to_dense_repeated():
    return tf.sparse_to_dense(feed([2, 2], dtype="int32"), [4], 7)


@case(fails="out of bounds")
def sparse_to_dense_outside():
    return tf.sparse_to_dense(feed([2, 4], dtype="int32"), [4], 7)
