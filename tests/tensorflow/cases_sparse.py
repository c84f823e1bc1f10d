"""Sparse tensors: agent/ops/sparse.c."""
import numpy as np

from cases import case, feed, integers, normal, tf

DIALECT = "tf1"
PLACES = [[0, 1], [1, 0], [1, 3], [2, 2]]


def sparse(places, shape, values=None):
    """All three parts are fed; values None: random floats."""
    values = normal(len(places)) if values is None else values
    return tf.SparseTensor(feed(places, [None, len(shape)], "int64"), feed(values, [None]),
                           feed(shape, dtype="int64"))


def parts(x):
    return [x.indices, x.values, x.dense_shape]


for adjoint_a in [False, True]:
    for adjoint_b in [False, True]:
        @case(name=f"product{'_of_adjoint' * adjoint_a}{'_with_adjoint' * adjoint_b}")
        def product(a=adjoint_a, b=adjoint_b):
            x, rows = sparse(PLACES, [3, 4]), 3 if a else 4
            y = feed(normal(*((2, rows) if b else (rows, 2))))
            return tf.sparse_tensor_dense_matmul(x, y, adjoint_a=a, adjoint_b=b)


@case
def product_of_a_constant():
    x = tf.SparseTensor(PLACES, feed(normal(4, dtype="float64")), [3, 4])
    return tf.sparse_tensor_dense_matmul(x, feed(normal(4, 1, dtype="float64")))


@case
def product_of_int32_indices():
    x = tf.raw_ops.SparseTensorDenseMatMul(
        a_indices=feed(PLACES, dtype="int32"), a_values=feed(normal(4)),
        a_shape=feed([3, 4], dtype="int64"), b=feed(normal(4, 2)))
    return x


@case(fails="out of bounds")
def product_of_an_index_outside():
    return tf.sparse_tensor_dense_matmul(sparse([[0, 4]], [3, 4]), feed(normal(4, 2)))


@case(fails="inner dimension")
def product_that_does_not_fit():
    return tf.sparse_tensor_dense_matmul(sparse([[0, 0]], [3, 4]), feed(normal(3, 2)))


@case
def reshaped():
    x = sparse(PLACES, [3, 4])
    return parts(tf.sparse_reshape(x, [2, -1])) + parts(
        tf.sparse_reshape(x, feed([2, 3, -1], dtype="int64")))


@case(fails="dense values")
def reshaped_to_another_size():
    return tf.sparse_reshape(sparse(PLACES, [3, 4]), [5, -1]).indices


@case
def reordered():
    x = sparse([[2, 0], [0, 3], [0, 1], [1, 1]], [3, 4])
    return parts(tf.sparse_reorder(x))


@case(gradients=False)
def reordered_strings():
    x = sparse([[1], [0]], [2], np.array([b"one", b"zero"], object))
    return parts(tf.sparse_reorder(x))


@case
def sums():
    x = sparse(PLACES, [3, 4])
    return [tf.sparse_reduce_sum(x), tf.sparse_reduce_sum(x, 0), tf.sparse_reduce_sum(x, [-1]),
            tf.sparse_reduce_sum(x, 1, keepdims=True), tf.sparse_reduce_sum(x, [0, 1])]


@case(gradients=False)
def sums_of_other_types():
    x = sparse([[0, 1, 1], [1, 0, 0], [1, 0, 1]], [2, 2, 2], integers(-9, 9, 3))
    axes = feed([], dtype="int32")
    return [tf.sparse_reduce_sum(x, 2), tf.sparse_reduce_sum(x, [0, 2]),
            tf.raw_ops.SparseReduceSum(input_indices=x.indices, input_values=x.values,
                                       input_shape=x.dense_shape, reduction_axes=axes)]


@case
def empty_rows_filled():
    x = sparse([[1, 0], [1, 3], [3, 2]], [5, 4])
    filled, was_empty = tf.sparse_fill_empty_rows(x, feed(2.5, dtype="float32"))
    return parts(filled) + [was_empty]


@case
def rows_filled_out_of_order():
    x = sparse([[3, 0], [1, 3], [3, 2]], [4, 4])
    return [*tf.raw_ops.SparseFillEmptyRows(indices=x.indices, values=x.values,
                                            dense_shape=x.dense_shape, default_value=0.0)]


@case(gradients=False)
def no_row_has_an_element():
    x = sparse(np.zeros([0, 2]), [2, 3])
    return parts(tf.sparse_fill_empty_rows(x, -1.0)[0])


@case(gradients=False)
def empty_rows_filled_with_text():
    x = sparse([[1, 0]], [3, 1], np.array([b"word"], object))
    return parts(tf.sparse_fill_empty_rows(x, "")[0])


@case(fails="is invalid")
def filled_outside():
    return parts(tf.sparse_fill_empty_rows(sparse([[3, 0]], [3, 1]), 0.0)[0])


@case
def softmaxes():
    return tf.sparse_softmax(sparse([[0, 1], [1, 0], [1, 1], [1, 3]], [3, 4])).values


@case
def softmaxes_of_batches():
    x = sparse([[0, 0, 1], [0, 0, 3], [0, 1, 3], [1, 0, 1], [1, 0, 2]], [2, 2, 4],
               normal(5, dtype="float64"))
    return tf.sparse_softmax(x).values


@case(gradients=False)
def concatenated():
    x, y = sparse(PLACES, [3, 4]), sparse([[0, 0], [2, 1]], [3, 2])
    z = sparse([[1, 1]], [2, 4])
    return parts(tf.sparse_concat(1, [x, y])) + parts(tf.sparse_concat(-1, [y, x])) + parts(
        tf.sparse_concat(0, [x, z]))


@case(fails="imension")
def concatenated_that_do_not_fit():
    return tf.sparse_concat(0, [sparse([[0, 0]], [1, 2]), sparse([[0, 0]], [1, 3])]).indices


@case
def sliced():
    x = sparse(PLACES, [3, 4])
    return parts(tf.sparse_slice(x, [1, 0], [2, 3])) + parts(
        tf.sparse_slice(x, feed([0, 1], dtype="int64"), feed([9, 9], dtype="int64")))


@case(gradients=False)
def with_dense_operands():
    x = sparse(PLACES, [3, 4])
    y, row = feed(normal(3, 4)), feed(normal(1, 4))
    f = tf.raw_ops.SparseDenseCwiseAdd
    of = dict(sp_indices=x.indices, sp_values=x.values, sp_shape=x.dense_shape)
    return [f(**of, dense=y), f(**of, dense=row), f(**of, dense=row[0])]


@case
def times_dense_operands():
    x = sparse(PLACES, [3, 4])
    column, row = feed(normal(3, 1)), feed(normal(4))
    return [(x * feed(normal(3, 4))).values, (x * column).values, (x * row).values]


@case(fails="broadcasts dense to sparse only")
def times_what_does_not_fit():
    return (sparse(PLACES, [3, 4]) * feed(normal(3))).values


@case
def added_to_dense():
    return tf.sparse_add(sparse(PLACES, [3, 4]), feed(normal(3, 4)))


@case
def made_dense():
    x = sparse(PLACES, [3, 4])
    return [tf.sparse_tensor_to_dense(x), tf.sparse_to_dense(x.indices, x.dense_shape, x.values)]


@case
def retained():
    x = sparse(PLACES, [3, 4])
    kept = tf.sparse_retain(x, feed([True, False, True, True]))
    return parts(kept) + [tf.sparse_tensor_to_dense(kept)]


for combiner in ["sum", "mean", "sqrtn"]:
    @case(name=f"embeddings_{combiner}", gradients=False)
    def embeddings(combiner=combiner):
        ids = sparse([[0, 0], [0, 1], [2, 0], [2, 3]], [3, 4], integers(0, 5, 4, dtype="int64"))
        table = feed(normal(5, 2))
        weights = tf.SparseTensor(ids.indices, feed(normal(4)), ids.dense_shape)
        return [tf.nn.embedding_lookup_sparse(table, ids, None, combiner=combiner),
                tf.nn.embedding_lookup_sparse(table, ids, weights, combiner=combiner)]

    @case(name=f"safe_embeddings_{combiner}", gradients=False)
    def safe_embeddings(combiner=combiner):
        ids = sparse([[0, 0], [0, 1], [2, 0], [2, 3]], [4, 4],
                     np.array([1, -1, 3, 3], "int64"))
        return tf.nn.safe_embedding_lookup_sparse([feed(normal(5, 2))], ids,
                                                  combiner=combiner, default_id=2)


@case
def factors_of_a_linear_model():
    """A linear model of sparse features, as wide models have it."""
    x = sparse(PLACES, [3, 4])
    w = feed(normal(4, 1))
    logits = tf.sparse_tensor_dense_matmul(x, w)
    labels = feed([[1], [0], [1]], dtype="float32")
    return tf.nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=logits)
