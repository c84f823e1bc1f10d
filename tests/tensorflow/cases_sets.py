"""Equal elements, partitions, segments, order: agent/ops/sets.c, segments.c, order.c."""
from cases import case, feed, integers, normal, tf, uniform

DIALECT = "tf1"


@case
def unique_of_fed_values():
    x = feed(integers(0, 5, 12), [None])
    y, at = tf.unique(x)
    return [y, at, tf.shape(y)[0] + 1]


@case
def unique_of_a_constant():
    return list(tf.unique(tf.constant([3, 1, 3, 2, 1])))


@case(gradients=False)
def unique_of_floats():
    nan = float("nan")
    return list(tf.unique(feed([0.0, -0.0, nan, 1, nan, 1], dtype="float32"), tf.int64))


@case
def unique_along_an_axis():
    x = feed(integers(0, 2, 6, 2))
    return list(tf.raw_ops.UniqueV2(x=x, axis=[0])) + list(tf.raw_ops.UniqueV2(x=x, axis=[1]))


@case
def unique_with_counts():
    x = feed(integers(0, 4, 9))
    return list(tf.unique_with_counts(x)) + list(
        tf.raw_ops.UniqueWithCountsV2(x=tf.reshape(x, [3, 3]), axis=[-1]))


@case
def lists_differ():
    return list(tf.setdiff1d(feed(integers(0, 9, 8)), feed(integers(0, 9, 4))))


@case
def where_of_bools_and_numbers():
    x = feed(normal(3, 4))
    return [tf.where(x > 0), tf.raw_ops.Where(condition=tf.maximum(x, 0))]


@case
def boolean_mask_of_rows():
    x = feed(normal(5, 2), [None, 2])
    return tf.boolean_mask(x * 2, tf.reduce_sum(x, 1) > 0)


@case
def masked_loss_of_a_batch():
    x, y = feed(normal(6, 3), [None, 3]), feed(normal(6), [None])
    kept = tf.boolean_mask(tf.square(tf.reduce_sum(x, 1) - y), y > -0.5)
    return tf.reduce_mean(kept)


@case
def partition_and_stitch():
    x, to = feed(normal(6, 2), [None, 2]), feed(integers(0, 3, 6), [None])
    parts = tf.dynamic_partition(x, to, 3)
    rows = tf.dynamic_partition(tf.range(tf.shape(x)[0]), to, 3)
    parts = [p * (i + 1) for i, p in enumerate(parts)]
    return [tf.dynamic_stitch(rows, parts), tf.stack([tf.shape(p)[0] for p in parts])]


@case
def partition_by_a_matrix():
    return tf.dynamic_partition(feed(normal(2, 3)), feed(integers(0, 2, 2, 3)), 2)


@case
def parallel_stitch():
    return tf.raw_ops.ParallelDynamicStitch(indices=[feed(integers(0, 1, 1) + 2), [0, 1]],
                                            data=[feed(normal(1, 2)), feed(normal(2, 2))])


@case
def a_stitch_that_overwrites():
    return tf.dynamic_stitch([feed([0, 1, 1], dtype="int32"), [2]],
                             [feed(normal(3)), feed(normal(1))])


@case(fails="is not in [0, 2)")
def partition_out_of_range():
    return tf.dynamic_partition(feed(normal(3)), feed([0, 2, 1], dtype="int32"), 2)


IDS = [0, 0, 2, 2, 2, 3]
for name in ["sum", "mean", "max", "min"]:
    @case(name=f"segment_{name}")
    def segments(name=name):
        return getattr(tf, f"segment_{name}")(feed(normal(6, 2), [None, 2]),
                                              feed(IDS, [None], dtype="int32"))

    @case(name=f"segment_{name}_of_constant_ids")
    def constant_segments(name=name):
        return getattr(tf, f"segment_{name}")(feed(normal(6, 2)), IDS)

for name in ["sum", "mean", "max", "min", "prod", "sqrt_n"]:
    @case(name=f"unsorted_segment_{name}")
    def unsorted_segments(name=name):
        f = getattr(tf.math, f"unsorted_segment_{name}")
        # without a segment that has no rows, whose extremum is the least number
        return f(feed(normal(6, 2)), feed([2, 0, 1, -1, 2, 0], dtype="int32"), 3)

for name in ["sum", "mean", "sqrt_n"]:
    @case(name=f"sparse_segment_{name}")
    def sparse_segments(name=name):
        f = getattr(tf, f"sparse_segment_{name}")
        rows, ids = feed([3, 0, 3, 1], dtype="int32"), feed([0, 0, 1, 3], dtype="int32")
        x = feed(normal(4, 2))
        return [f(x, rows, ids), f(x, rows, ids, num_segments=6)]


for name in ["Sum", "Mean", "SqrtN"]:
    @case(name=f"sparse_segment_{name.lower()}_grad_v2", gradients=False)
    def some_rows(name=name):
        f = getattr(tf.raw_ops, f"SparseSegment{name}GradV2")
        rows, ids = feed([3, 0, 3, 1], dtype="int32"), feed([0, 0, 1, 3], dtype="int32")
        return [*f(grad=feed(normal(4, 2)), indices=rows, segment_ids=ids,
                   dense_output_dim0=5)]

    @case(name=f"sparse_segment_{name.lower()}_with_a_sparse_gradient")
    def sparse_gradient(name=name):
        f = getattr(tf.raw_ops, f"SparseSegment{name}")
        rows, ids = feed([3, 0, 3, 1], dtype="int32"), feed([0, 0, 1, 2], dtype="int32")
        return f(data=feed(normal(4, 2)), indices=rows, segment_ids=ids, sparse_gradient=True)


@case
def segment_prod():
    return tf.segment_prod(feed(normal(6, 2)), feed(IDS, dtype="int32"))


@case
def unsorted_prod_with_zeros():
    return tf.math.unsorted_segment_prod(feed([0, 2, 3, 0, 0, 5], dtype="float32"),
                                         feed([0, 0, 0, 1, 1, 2], dtype="int32"), 3)


@case(fails="not increasing")
def segments_out_of_order():
    return tf.segment_sum(feed(normal(3)), feed([1, 0, 1], dtype="int32"))


for kind, x in {"rows": (4, 7), "vector": (9,), "deep": (2, 2, 5)}.items():
    @case(name=f"top_k_{kind}")
    def top_k(x=x):
        values, at = tf.nn.top_k(feed(normal(*x)), 3)
        return [values, at]


@case
def top_k_ties():
    return list(tf.nn.top_k(feed([1, 2, 2, 1, 2], dtype="float32"), 4))


@case
def top_k_of_integers_by_a_fed_number():
    return list(tf.nn.top_k(feed(integers(-9, 9, 3, 6)), feed(2, dtype="int32")))


@case(fails="largest elements of")
def top_k_of_too_few():
    return list(tf.nn.top_k(feed(normal(2, 2), "unknown"), 3))


@case
def in_top_k():
    x, at = feed(normal(5, 4)), feed([0, 1, 2, 3, 9], dtype="int32")
    return [tf.nn.in_top_k(x, at, 2), tf.raw_ops.InTopK(predictions=x, targets=at, k=1)]


@case
def in_top_k_of_what_is_not_finite():
    inf, nan = float("inf"), float("nan")
    return tf.nn.in_top_k(feed([[1, inf], [nan, 1], [2, 1], [2, 2]], dtype="float32"),
                          feed([0, 1, 0, 1], dtype="int32"), 1)


@case
def sorted_search():
    rows, x = feed([[1, 2, 2, 5], [0, 0, 1, 1]], dtype="float32"), feed(uniform(-1, 6, 2, 5))
    return [tf.searchsorted(rows, x), tf.searchsorted(rows, x, side="right"),
            tf.searchsorted(rows, tf.round(x), side="right", out_type=tf.int64)]


@case(gradients=False)
def bincounts():
    x = feed(integers(0, 6, 3, 4))
    w = feed(normal(3, 4))
    return [tf.raw_ops.Bincount(arr=x, size=4, weights=w),
            tf.raw_ops.Bincount(arr=x, size=tf.reduce_max(x) + 1,
                                weights=tf.zeros([0], tf.int32)),
            tf.raw_ops.DenseBincount(input=x, size=5, weights=w),
            tf.raw_ops.DenseBincount(input=x, size=7, weights=tf.zeros([0], tf.int64),
                                     binary_output=True)]


@case
def crosses():
    return tf.linalg.cross(feed(normal(2, 3)), feed(normal(2, 3)))


@case
def rows_of_a_variable_by_unique_ids():
    ids = feed(integers(0, 5, 8), [None])
    v = tf.Variable([1.0, 2.0, 3.0, 4.0, 5.0], name="v", use_resource=False)
    y, at = tf.unique(ids)
    n = tf.math.unsorted_segment_sum(tf.ones_like(at), at, tf.shape(y)[0])
    return tf.reduce_sum(tf.gather(v, y) * tf.cast(n, tf.float32))


@case(gradients=False)
def unique_in_a_loop():
    x = feed(integers(0, 9, 10), [None])

    def body(i, y):
        return i + 1, tf.unique(y // 2)[0]
    return tf.while_loop(lambda i, y: i < 3, body, [0, x],
                         shape_invariants=[tf.TensorShape([]), tf.TensorShape([None])])


@case
def where_on_a_branch():
    x = feed(normal(5), [None])
    return tf.cond(tf.reduce_sum(x) > 100, lambda: tf.boolean_mask(x, x > 0),
                   lambda: tf.boolean_mask(2 * x, x < 0))
