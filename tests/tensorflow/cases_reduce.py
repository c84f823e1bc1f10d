"""Sums, means and extrema: agent/ops/reduce.c."""
from cases import case, feed, integers, normal, tf, uniform

DIALECT = "tf1"
AXES = {"all": None, "first": 0, "last": -1, "two": [0, 2], "none": []}
NAMES = ["reduce_sum", "reduce_mean", "reduce_max", "reduce_min"]

for name in NAMES + ["reduce_prod"]:
    for kind, axis in AXES.items():
        for keep in (False, True):
            @case(name=f"{name}_{kind}{'_keep' if keep else ''}", floor=1e-6 * 24)
            def reductions(name=name, axis=axis, keep=keep):
                return getattr(tf, name)(feed(normal(2, 3, 4)), axis, keepdims=keep)

    @case(name=f"{name}_double")
    def doubles(name=name):
        return getattr(tf, name)(feed(normal(3, 5, dtype="float64")), 1)

    @case(name=f"{name}_unknown_shape")
    def unknown(name=name):
        return getattr(tf, name)(feed(normal(3, 5), shape=[None, 5]), 0)

    @case(name=f"{name}_unknown_rank")
    def unknown_rank(name=name):
        return getattr(tf, name)(feed(normal(3, 5), shape="unknown"))

    @case(name=f"{name}_fed_axis")
    def fed_axis(name=name):
        return getattr(tf, name)(feed(normal(3, 2)), feed(1, dtype="int32"))

    for dtype in ["int32", "int64"]:
        @case(name=f"{name}_{dtype}")
        def of_integers(name=name, dtype=dtype):
            return getattr(tf, name)(feed(integers(-5, 6, 3, 4, dtype=dtype)), 0)

    @case(name=f"{name}_nothing", gradients=name != "reduce_prod")
    def nothing(name=name):
        return getattr(tf, name)(feed(normal(0, 3)), 0)

    # brood's gradient of a product divides the product of all by each
    @case(name=f"{name}_nan", gradients=name != "reduce_prod")
    def with_nan(name=name):
        return getattr(tf, name)(feed([[1, float("nan"), 2], [float("inf"), 1, 2],
                                       [-float("inf"), float("inf"), 3]], dtype="float32"), 1)

for name in ["reduce_all", "reduce_any"]:
    for kind, axis in AXES.items():
        @case(name=f"{name}_{kind}")
        def of_bools(name=name, axis=axis):
            return getattr(tf, name)(feed(integers(0, 4, 2, 3, 4) > 0), axis)

for name in ["argmax", "argmin"]:
    for kind, axis in {"first": 0, "last": -1, "middle": 1}.items():
        @case(name=f"{name}_{kind}")
        def arg(name=name, axis=axis):
            return getattr(tf, name)(feed(normal(2, 3, 4)), axis)

    @case(name=f"{name}_ties")
    def arg_ties(name=name):
        return getattr(tf, name)(feed(integers(0, 2, 4, 6)), 1, output_type=tf.int32)

    @case(name=f"{name}_nan")
    def arg_nan(name=name):
        nan = float("nan")
        return getattr(tf, name)(feed([[1, nan, 2], [nan, 0, 1], [2, 1, nan], [nan] * 3],
                                      dtype="float32"), 1)


@case
def max_ties_share_the_gradient():
    x = feed([[1, 3, 3], [2, 2, 2]], dtype="float32")
    return [tf.reduce_max(x, 1), tf.reduce_min(x, 0)]


@case
def l2_loss():
    return tf.nn.l2_loss(feed(normal(3, 4)))


@case
def l2_loss_double():
    return tf.nn.l2_loss(feed(normal(7, dtype="float64")))


@case
def logsumexp():
    return tf.reduce_logsumexp(feed(normal(3, 4) * 20), 1)


@case
def moments():
    return tf.nn.moments(feed(normal(6, 3)), [0])


@case
def long_sum():
    return tf.reduce_sum(feed(uniform(0, 1, 1000)))


@case
def norms():
    x, y = feed(normal(3, 2)), feed(normal(4))
    clipped, norm = tf.clip_by_global_norm([x, y], 1.0)
    return [*clipped, norm, tf.clip_by_norm(x, 0.5), tf.norm(y)]
