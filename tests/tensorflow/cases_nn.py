"""Activations, losses and products: agent/ops/nn.c, matrix.c."""
from cases import case, feed, integers, normal, tf, uniform

DIALECT = "tf1"
EDGES = [0.0, -0.0, 1.0, -1.0, 20.0, -20.0, 90.0, -90.0, 1e-30, float("inf"), float("-inf"),
         float("nan")]

for name in ["relu", "leaky_relu", "tanh", "sigmoid", "softplus"]:
    @case(name=f"{name}_edges", floor=1e-7)
    def activation_edges(name=name):
        return getattr(tf.nn, name)(feed(EDGES, dtype="float32"))

    @case(name=f"{name}_double")
    def activation_double(name=name):
        return getattr(tf.nn, name)(feed(normal(3, 4, dtype="float64")))

    @case(name=f"{name}_unknown_shape")
    def activation_unknown(name=name):
        return getattr(tf.nn, name)(feed(normal(3, 4), shape="unknown"))


@case
def leaky_relu_alpha():
    return tf.nn.leaky_relu(feed(normal(3, 4)), alpha=0.3)


for name in ["softmax", "log_softmax"]:
    for kind, x in {"matrix": (3, 4), "vector": (5,), "cube": (2, 3, 4)}.items():
        @case(name=f"{name}_{kind}")
        def of_shape(name=name, x=x):
            return getattr(tf.nn, name)(feed(normal(*x)))

    @case(name=f"{name}_double")
    def of_doubles(name=name):
        return getattr(tf.nn, name)(feed(normal(3, 4, dtype="float64")))

    @case(name=f"{name}_edges")
    def of_edges(name=name):
        inf = float("inf")
        return getattr(tf.nn, name)(feed([[1000, 0, -1000], [-inf, 0, 1], [88, 89, 90],
                                          [float("nan"), 1, 2]], dtype="float32"))

    @case(name=f"{name}_other_axis")
    def of_axis(name=name):
        return getattr(tf.nn, name)(feed(normal(3, 4)), axis=0)


@case
def softmax_cross_entropy():
    labels = tf.nn.softmax(feed(normal(4, 3)))
    return tf.nn.softmax_cross_entropy_with_logits_v2(labels=labels, logits=feed(normal(4, 3)))


@case
def softmax_cross_entropy_version_1():
    return tf.nn.softmax_cross_entropy_with_logits(labels=feed(uniform(0, 1, 4, 3)),
                                                   logits=feed(normal(4, 3)))


@case
def softmax_cross_entropy_double():
    return tf.nn.softmax_cross_entropy_with_logits_v2(
        labels=feed(uniform(0, 1, 2, 3, dtype="float64")), logits=feed(normal(2, 3,
                                                                              dtype="float64")))


def raw_cross_entropy(logits, labels):
    return list(tf.raw_ops.SoftmaxCrossEntropyWithLogits(features=logits, labels=labels))


for shape, known in [((1, 3), [1, 3]), ((1, 3), [None, None]), ((4, 1), [None, None])]:
    # TensorFlow builds gradients only if it does not see that the labels are broadcast
    @case(name=f"softmax_cross_entropy_labels_{shape[0]}_{shape[1]}_{known[0]}",
          gradients=known[0] is None)
    def broadcast_labels(shape=shape, known=known):
        labels = tf.placeholder_with_default(uniform(0, 1, *shape), known)
        return [*raw_cross_entropy(feed(normal(4, 3), [None, 3]), labels),
                *raw_cross_entropy(feed(normal(4, 3, dtype="float64")),
                                   tf.cast(labels, tf.float64))]


@case(gradients=False)
def softmax_cross_entropy_spreads_logits():
    return raw_cross_entropy(feed(normal(1, 3), [None, None]), feed(uniform(0, 1, 4, 3)))


for dtype in ["int32", "int64"]:
    @case(name=f"sparse_softmax_cross_entropy_{dtype}")
    def sparse_cross_entropy(dtype=dtype):
        return tf.nn.sparse_softmax_cross_entropy_with_logits(
            labels=feed(integers(0, 5, 4, dtype=dtype)), logits=feed(normal(4, 5)))


@case
def sigmoid_cross_entropy():
    return tf.nn.sigmoid_cross_entropy_with_logits(labels=feed(uniform(0, 1, 3, 4)),
                                                   logits=feed(normal(3, 4) * 3))


@case
def bias_add():
    return tf.nn.bias_add(feed(normal(3, 4)), feed(normal(4)))


@case
def bias_add_rank_4():
    return tf.nn.bias_add(feed(normal(2, 3, 3, 4)), feed(normal(4)))


for dtype in ["float32", "float64", "int32"]:
    for a in (False, True):
        for b in (False, True):
            @case(name=f"matmul_{dtype}_{'t' if a else 'n'}{'t' if b else 'n'}",
                  floor=2e-6 if dtype == "float32" else None)
            def products(dtype=dtype, a=a, b=b):
                x, y = ((4, 3) if a else (3, 4)), ((5, 4) if b else (4, 5))
                make = integers if dtype == "int32" else None
                return tf.matmul(*[feed(make(-9, 9, *s) if make else normal(*s, dtype=dtype))
                                   for s in (x, y)], transpose_a=a, transpose_b=b)


@case
def matmul_nothing_between():
    return tf.matmul(feed(normal(3, 0)), feed(normal(0, 2)))


@case
def matmul_no_rows():
    return tf.matmul(feed(normal(0, 3), shape=[None, 3]), feed(normal(3, 2)))


for a in (False, True):
    for b in (False, True):
        @case(name=f"batch_matmul_{'t' if a else 'n'}{'t' if b else 'n'}", floor=2e-6)
        def batches(a=a, b=b):
            x, y = ((2, 4, 3) if a else (2, 3, 4)), ((2, 5, 4) if b else (2, 4, 5))
            return tf.matmul(feed(normal(*x)), feed(normal(*y)), adjoint_a=a, adjoint_b=b)


@case(floor=2e-6)
def batch_matmul_broadcasts():
    return tf.matmul(feed(normal(2, 1, 3, 4)), feed(normal(3, 4, 2)))


@case(floor=2e-6)
def dense_layers():
    x = feed(normal(6, 4), shape=[None, 4])
    h = tf.nn.relu(tf.matmul(x, feed(normal(4, 5))) + feed(normal(5)))
    y = tf.nn.bias_add(tf.matmul(h, feed(normal(5, 2))), feed(normal(2)))
    return [y, tf.reduce_mean(tf.squared_difference(y, feed(normal(6, 2))))]
