"""Shapes, joins, slices and gathers: agent/ops/array.c, join.c, slice.c, index.c."""
from cases import case, feed, integers, normal, tf, uniform

DIALECT = "tf1"
DTYPES = ["float32", "float64", "int32", "int64", "bool"]


def any_values(dtype, *shape):
    return integers(0, 2, *shape).astype(bool) if dtype == "bool" else \
        (10 * normal(*shape)).astype(dtype)


for dtype in DTYPES:
    @case(name=f"reshape_{dtype}")
    def reshape(dtype=dtype):
        x = feed(any_values(dtype, 2, 3, 4))
        return [tf.reshape(x, [4, -1]), tf.reshape(x, feed([6, 4], dtype="int32"))]

    @case(name=f"transpose_{dtype}")
    def transpose(dtype=dtype):
        x = feed(any_values(dtype, 2, 3, 4))
        return [tf.transpose(x), tf.transpose(x, [1, 0, 2])]

    @case(name=f"tile_{dtype}")
    def tile(dtype=dtype):
        return tf.tile(feed(any_values(dtype, 2, 3)), [2, 3])

    @case(name=f"concat_{dtype}")
    def concat(dtype=dtype):
        x, y = feed(any_values(dtype, 2, 3)), feed(any_values(dtype, 2, 1))
        return [tf.concat([x, y, x], 1), tf.concat([x, x], -2)]

    @case(name=f"stack_{dtype}")
    def stack(dtype=dtype):
        x, y = feed(any_values(dtype, 2, 3)), feed(any_values(dtype, 2, 3))
        return [tf.stack([x, y]), tf.stack([x, y], -1), *tf.unstack(x, axis=1)]

    @case(name=f"split_{dtype}")
    def split(dtype=dtype):
        x = feed(any_values(dtype, 2, 6))
        return [*tf.split(x, 3, 1), *tf.split(x, [1, 5], 1), *tf.split(x, 2, 0)]

    @case(name=f"slice_{dtype}")
    def slices(dtype=dtype):
        x = feed(any_values(dtype, 4, 5))
        return [tf.slice(x, [1, 0], [2, -1]), x[1:3], x[:, ::2], x[::-1, 1], x[-1],
                x[..., tf.newaxis, 2:4], x[3:1:-1]]

    @case(name=f"pad_{dtype}", gradients=dtype != "bool")
    def pad(dtype=dtype):
        return tf.pad(feed(any_values(dtype, 2, 3)), [[1, 0], [2, 1]])

    @case(name=f"gather_{dtype}")
    def gather(dtype=dtype):
        x, i = feed(any_values(dtype, 5, 2)), feed(integers(0, 5, 2, 3))
        return [tf.gather(x, i), tf.gather(x, feed(integers(0, 2, 4, dtype="int64")), axis=1)]

    @case(name=f"gather_nd_{dtype}")
    def gather_nd(dtype=dtype):
        x = feed(any_values(dtype, 3, 4))
        return [tf.gather_nd(x, feed([[0, 1], [2, 3], [0, 1]], dtype="int32")),
                tf.gather_nd(x, feed([[2], [0]], dtype="int32"))]

    @case(name=f"fill_{dtype}")
    def fill(dtype=dtype):
        x = feed(any_values(dtype, 2, 3))
        return [tf.fill([2, 3], feed(any_values(dtype, 1)[0])), tf.zeros_like(x), tf.ones_like(x)]

    @case(name=f"expand_{dtype}")
    def expand(dtype=dtype):
        x = feed(any_values(dtype, 2, 1, 3))
        return [tf.expand_dims(x, 0), tf.expand_dims(x, -1), tf.squeeze(x), tf.squeeze(x, [1])]

    @case(name=f"where_{dtype}")
    def where(dtype=dtype):
        x = feed(any_values(dtype, 3, 4))
        return [tf.where(tf.cast(x, tf.bool)), tf.boolean_mask(x, feed([True, False, True]))]


@case
def shapes():
    x = feed(normal(2, 3), shape=[None, 3])
    return [tf.shape(x), tf.shape(x, out_type=tf.int64), tf.size(x), tf.rank(x),
            *tf.shape_n([x, x])]


@case
def ranges():
    return [tf.range(feed(5, dtype="int32")), tf.range(2, 12, 3),
            tf.range(1.0, 2.0, 0.25), tf.range(5, 0, -2), tf.range(feed(3, dtype="int64"))]


@case(refused="depends on values that only the run knows")
def range_of_a_fed_float():
    return tf.range(feed(1.0, dtype="float32"), 2.0, 0.25)


@case
def one_hot():
    i = feed([[0, 2], [-1, 3]], dtype="int32")
    return [tf.one_hot(i, 3), tf.one_hot(i, 3, 5.0, -1.0), tf.one_hot(i, 3, axis=0),
            tf.one_hot(i, 3, dtype=tf.int32), tf.one_hot(feed([1, 0], dtype="int64"), 2,
                                                         True, False)]


@case
def scatter_nd():
    return tf.scatter_nd(feed([[1], [3], [1]], dtype="int32"), feed(normal(3, 2)), [4, 2])


@case
def unsorted_segment_sum():
    return tf.unsorted_segment_sum(feed(normal(5, 2)), feed([2, 0, 2, -1, 0], dtype="int32"), 4)


@case
def dynamic_stitch():
    return tf.dynamic_stitch([feed([0, 2], dtype="int32"), feed([1, 3], dtype="int32")],
                             [feed(normal(2, 2)), feed(normal(2, 2))])


@case
def invert_permutation():
    return tf.invert_permutation(feed([2, 0, 3, 1], dtype="int32"))


@case(fails="is not in [0, 3)")
def gather_out_of_range():
    return tf.gather(feed(normal(3, 2)), feed([0, 3], dtype="int32"))


@case(fails="is not in [0, 3)")
def gather_negative():
    return tf.gather(feed(normal(3, 2)), feed([-1], dtype="int32"))


@case
def unravelled_indices():
    return [tf.unravel_index(feed([22, 0, 7]), [2, 3, 4]),
            tf.unravel_index(feed(7, dtype="int32"), feed([3, 4], dtype="int32"))]


@case(fails="out of bound")
def unravelled_index_outside():
    return tf.unravel_index(feed(24, dtype="int32"), [2, 3, 4])


@case(gradients=False)
def bitcasts():
    x = feed(normal(2, 3))
    return [tf.bitcast(x, tf.int32), tf.bitcast(x, tf.uint8), tf.bitcast(x[:, :2], tf.int64),
            tf.bitcast(tf.bitcast(x, tf.uint8), tf.float32)]


for name in ["GatherNd", "ScatterNd", "TensorScatterUpdate"]:
    # TensorFlow 2 can pass over indices out of range
    @case(name=f"bad_indices_{name}", gradients=False,
          refused="cannot be run with its value of the attribute 'bad_indices_policy'")
    def bad_indices(name=name):
        x, at = feed(normal(2, 2)), feed([[0], [7]], dtype="int32")
        inputs = {"GatherNd": dict(params=x, indices=at),
                  "ScatterNd": dict(updates=x, indices=at, shape=[3, 2]),
                  "TensorScatterUpdate": dict(tensor=x, updates=x, indices=at)}[name]
        return getattr(tf.raw_ops, name)(**inputs, bad_indices_policy="IGNORE")


@case
def gather_repeated_rows():
    """The gradients of a row that is gathered twice are summed."""
    return tf.gather(feed(normal(3, 2)), feed([1, 1, 0, 1], dtype="int32")) * 2


@case
def with_default():
    x = tf.placeholder_with_default([1.0, 2.0], [2])
    return [x * 2, x * feed(uniform(0, 1, 2))]


@case
def broadcast_gradient_shapes():
    return tf.raw_ops.BroadcastGradientArgs(s0=feed([2, 1, 3], dtype="int32"),
                                            s1=feed([4, 1], dtype="int32"))
