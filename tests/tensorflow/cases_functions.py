"""Functions of numbers, and other operations element by element: agent/ops/functions.c, and the
newer rows of math.c and nn.c."""
from cases import case, feed, integers, normal, tf, uniform

INF, NAN = float("inf"), float("nan")
EDGES = [0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 1e-30, INF, -INF, NAN]


def op(name, keys, *inputs, **attributes):
    """The operation of this type."""
    return getattr(tf.raw_ops, name)(**dict(zip(keys.split(), inputs)), **attributes)


# the argument's name, and numbers in the domain
UNARY = {"Log1p": (-0.9, 5), "Expm1": (-3, 3), "Sin": (-9, 9), "Cos": (-9, 9), "Tan": (-1.4, 1.4),
         "Asin": (-0.95, 0.95), "Acos": (-0.95, 0.95), "Atan": (-9, 9), "Sinh": (-3, 3),
         "Cosh": (-3, 3), "Asinh": (-9, 9), "Acosh": (1.1, 9), "Atanh": (-0.95, 0.95),
         "Erf": (-3, 3), "Erfc": (-3, 3), "Erfinv": (-0.95, 0.95), "Ndtri": (0.02, 0.98),
         "Lgamma": (0.2, 9), "Digamma": (0.2, 9), "Inv": (0.2, 3), "Ceil": (-5, 5),
         "Rint": (-5, 5), "Round": (-5, 5)}
for name, (low, high) in UNARY.items():
    # TensorFlow computes several of these in float32, less precisely
    @case(name=f"{name}_single", tolerance=4e-6)
    def unary_single(name=name, low=low, high=high):
        return op(name, "x", feed(uniform(low, high, 4, 5), shape=[None, 5]))

    @case(name=f"{name}_double", tolerance=1e-11)
    def unary_double(name=name, low=low, high=high):
        return op(name, "x", feed(uniform(low, high, 3, 4, dtype="float64")))

    if name not in ("Lgamma", "Digamma", "Erfinv", "Ndtri", "Sin", "Cos", "Tan"):
        @case(name=f"{name}_edges", gradients=False, tolerance=4e-6)
        def unary_edges(name=name):
            return op(name, "x", feed(EDGES, dtype="float32"))


@case(tolerance=4e-6)
def gamma_below_zero():
    x = feed([-0.5, -1.25, -2.75, -7.5], dtype="float64")
    return [tf.lgamma(x), tf.digamma(x)]


@case
def halves_are_rounded_to_even():
    x = feed([0.5, 1.5, 2.5, -0.5, -1.5, -2.5], dtype="float32")
    return [tf.round(x), tf.rint(x), tf.round(feed([3, -4]))]


ACTIVATIONS = ["Relu6", "Selu", "Softsign"]
for name in ACTIVATIONS:
    @case(name=f"{name}_values", tolerance=2e-6)
    def activation(name=name):
        return op(name, "features", feed(3 * normal(4, 5), shape=[None, 5]))

    @case(name=f"{name}_edges", gradients=False)
    def activation_edges(name=name):
        return op(name, "features", feed(EDGES + [6.0, 7.0], dtype="float32"))

for name in ["Relu6", "Selu"]:
    @case(name=f"{name}_second_gradient", tolerance=1e-11)
    def activation_twice(name=name):
        x = feed(3 * normal(6, dtype="float64"))
        return tf.gradients(tf.square(op(name, "features", x)), x)


@case
def relu6_integers():
    return tf.nn.relu6(feed([-3, 0, 5, 6, 7, 99]))


BINARY = {"Atan2": ("y x", -3, 3), "Xlogy": ("x y", 0.2, 3), "Xlog1py": ("x y", 0.2, 3),
          "Xdivy": ("x y", 0.2, 3), "MulNoNan": ("x y", 0.2, 3), "Igamma": ("a x", 0.3, 5),
          "Igammac": ("a x", 0.3, 5), "TruncateDiv": ("x y", 0.4, 5)}
for name, (keys, low, high) in BINARY.items():
    @case(name=f"{name}_single", tolerance=2e-5)
    def binary_single(name=name, keys=keys, low=low, high=high):
        return op(name, keys, feed(uniform(low, high, 3, 4)), feed(uniform(low, high, 3, 4)))

    @case(name=f"{name}_broadcast", tolerance=1e-9)
    def binary_broadcast(name=name, keys=keys, low=low, high=high):
        return op(name, keys, feed(uniform(low, high, 3, 1, dtype="float64"), shape=[None, 1]),
                  feed(uniform(low, high, 4, dtype="float64"), shape="unknown"))


@case(gradients=False, tolerance=2e-6)
def zeros_hide_what_has_no_value():
    x = feed([0, 0, 0, 1, INF, NAN, 2, -0.0], dtype="float32")
    y = feed([0, -1, NAN, 0, 0, 0, 3, INF], dtype="float32")
    return [tf.raw_ops.Xlogy(x=x, y=y), tf.raw_ops.Xlog1py(x=x, y=y), tf.raw_ops.Xdivy(x=x, y=y),
            tf.raw_ops.MulNoNan(x=x, y=y), tf.atan2(x, y)]


@case(tolerance=1e-9)
def polygamma_of_orders():
    n = feed([0, 1, 2, 3, 5], dtype="float64")
    return tf.polygamma(n, feed([[0.5, 1.5, 2.25, 9.5, 3], [4, 0.25, 7, 1, 0.75]],
                                dtype="float64"))


@case(tolerance=1e-9)
def zeta_of_many():
    x = feed([1.5, 2, 3.25, 9], dtype="float64")
    return tf.zeta(x, feed([[0.5], [1], [20]], dtype="float64"))


@case(tolerance=1e-9)
def betainc_of_many():
    a, b = feed([0.5, 2, 3.5, 10], dtype="float64"), feed([0.5, 3, 1.25, 4], dtype="float64")
    return tf.betainc(a, b, feed([0.25, 0.5, 0.875, 0.0625], dtype="float64"))


@case(tolerance=2e-5)
def beta_policy():
    """The log probability and the entropy of a beta distribution, as policies have it."""
    a, b, x = feed(uniform(1, 4, 3, 2)), feed(uniform(1, 4, 3, 2)), feed(uniform(0.1, 0.9, 3, 2))
    log_beta = tf.lgamma(a) + tf.lgamma(b) - tf.lgamma(a + b)
    log_p = (a - 1) * tf.log(x) + (b - 1) * tf.log1p(-x) - log_beta
    entropy = log_beta - (a - 1) * tf.digamma(a) - (b - 1) * tf.digamma(b) + \
        (a + b - 2) * tf.digamma(a + b)
    return [log_p, entropy]


@case
def classes_of_numbers():
    x = feed(EDGES + [3e38], dtype="float32")
    y = feed(EDGES, dtype="float64")
    return [f(v) for v in (x, y) for f in (tf.is_nan, tf.is_inf, tf.is_finite)]


@case
def nearly_equal():
    x = feed([1, 1, 1, NAN, INF], dtype="float32")
    y = feed([1, 1.000001, 1.1, NAN, INF], dtype="float32")
    return [tf.raw_ops.ApproximateEqual(x=x, y=y),
            tf.raw_ops.ApproximateEqual(x=x, y=y, tolerance=0.2)]


for dtype in ["int32", "int64", "int16", "uint8"]:
    @case(name=f"bits_{dtype}")
    def bits(dtype=dtype):
        x = feed(integers(-100 if dtype != "uint8" else 0, 100, 3, 4, dtype=dtype))
        y = feed(integers(0, 7, 4, dtype=dtype))
        two = [op(name, "x y", x, y) for name in
               ("BitwiseAnd", "BitwiseOr", "BitwiseXor", "LeftShift", "RightShift")]
        return two + [tf.raw_ops.Invert(x=x)]


@case
def shifts_by_any_number():
    x, y = feed([1, -1, 5, -8, 8, 7]), feed([40, -3, 2, 1, 99, -1])
    return [tf.raw_ops.LeftShift(x=x, y=y), tf.raw_ops.RightShift(x=x, y=y)]


@case
def truncated_integers():
    x, y = feed([7, -7, 7, -7, 0]), feed([2, 2, -2, -2, 5])
    return [tf.truncatediv(x, y), tf.truncatemod(x, y)]


@case(gradients=False)
def truncated_remainder():
    return tf.truncatemod(feed([7, -7, 7.5, -7], dtype="float32"),
                          feed([2, 2, -2, -2], dtype="float32"))


@case
def accumulate_many():
    x = [feed(normal(2, 3)) for _ in range(3)]
    return tf.raw_ops.AccumulateNV2(inputs=x, shape=(2, 3))


@case(tolerance=2e-6)
def sigmoid_cross_entropy():
    return tf.nn.sigmoid_cross_entropy_with_logits(labels=feed(uniform(0, 1, 3, 2)),
                                                   logits=feed(3 * normal(3, 2)))


@case
def next_after():
    x, y = feed(normal(3, 4)), feed(normal(4))
    return [tf.raw_ops.NextAfter(x1=x, x2=y),
            tf.raw_ops.NextAfter(x1=feed([1.0, -1.0, 0.0], dtype="float64"),
                                 x2=tf.constant([2.0, 2.0, -1.0], tf.float64))]
