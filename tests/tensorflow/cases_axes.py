"""What reverses, rolls, accumulates, mirrors, repeats or passes on tensors, and bins:
agent/ops/{axes,pass,bins}.c, and the newer rows of array.c, slice.c and reduce.c."""
from cases import case, feed, integers, normal, tf, uniform

NAN = float("nan")

for name, value, axis in [("one", (3, 4), [1]), ("two", (2, 3, 2), [-1, 0]), ("none", (4,), []),
                          ("empty", (0, 3), [0])]:
    @case(name=f"reverse_{name}")
    def reverse(value=value, axis=axis):
        return tf.reverse(feed(normal(*value)), feed(axis, dtype="int32"))


@case
def reverse_integers():
    return tf.reverse(feed(integers(0, 9, 2, 3)), [1])


@case
def reverse_marked():
    return tf.raw_ops.Reverse(tensor=feed(normal(2, 3)), dims=feed([False, True]))


@case(fails="twice")
def reverse_twice():
    return tf.reverse(feed(normal(2, 3)), feed([1, -1]))


@case
def reverse_sequences():
    return tf.reverse_sequence(feed(normal(3, 4, 2), shape=[None, None, 2]), feed([2, 0, 4]),
                               seq_axis=1, batch_axis=0)


@case
def reverse_sequences_by_time():
    return tf.reverse_sequence(feed(normal(4, 3)), feed([1, 3, 4], dtype="int64"), seq_axis=0,
                               batch_axis=1)


for name, shift, axis in [("one", 2, 1), ("two", [-4, 1], [1, 0]), ("same", [3, -10], [0, 0])]:
    @case(name=f"roll_{name}")
    def roll(shift=shift, axis=axis):
        return tf.roll(feed(normal(3, 5)), shift, axis)

for name in ["cumsum", "cumprod"]:
    for exclusive in (False, True):
        for reverse in (False, True):
            @case(name=f"{name}_{'exclusive' * exclusive}{'reverse' * reverse}")
            def running(name=name, exclusive=exclusive, reverse=reverse):
                return getattr(tf, name)(feed(uniform(0.5, 2, 3, 4)), axis=1,
                                         exclusive=exclusive, reverse=reverse)

    @case(name=f"{name}_integers")
    def running_integers(name=name):
        return getattr(tf, name)(feed(integers(1, 4, 2, 3)), axis=0)

    @case(name=f"{name}_fed_axis")
    def running_fed(name=name):
        return getattr(tf, name)(feed(uniform(0.5, 2, 3, 2, dtype="float64"), shape="unknown"),
                                 axis=feed(-2, dtype="int32"))


@case
def discounted_returns():
    rewards, discount = feed(normal(5)), feed(uniform(0.9, 1, 5))
    return tf.cumsum(rewards * tf.cumprod(discount, exclusive=True), reverse=True)


for reverse in (False, True):
    @case(name=f"cumulative_logsumexp_{'reverse' * reverse}", tolerance=2e-6)
    def logs(reverse=reverse):
        return tf.math.cumulative_logsumexp(feed(normal(2, 4)), axis=1, reverse=reverse)


@case(tolerance=1e-11)
def cumulative_logsumexp_exclusive():
    """The first result is -inf, which stays out of the gradient."""
    x = feed(normal(2, 4, dtype="float64"))
    return tf.math.cumulative_logsumexp(x, axis=1, exclusive=True)[:, 1:]


@case
def pad_value():
    return tf.pad(feed(normal(2, 3)), [[1, 0], [2, 1]], constant_values=-1.5)


for mode in ["REFLECT", "SYMMETRIC"]:
    @case(name=f"mirror_pad_{mode.lower()}")
    def mirror(mode=mode):
        return tf.pad(feed(normal(3, 4)), feed([[2, 1], [0, 3]]), mode)

    @case(name=f"mirror_pad_twice_{mode.lower()}")
    def mirror_twice(mode=mode):
        x = feed(normal(3, 4, dtype="float64"))
        return tf.gradients(tf.square(tf.pad(x, [[2, 1], [0, 3]], mode)), x)


@case(fails="at most 2 each")
def mirror_pad_too_far():
    return tf.pad(feed(normal(3)), feed([[3, 0]]), "REFLECT")


@case
def broadcast_to_rows():
    return tf.broadcast_to(feed(normal(3), shape=[None]), [2, 3])


@case
def broadcast_to_fed():
    return tf.broadcast_to(feed(normal(2, 1)), feed([2, 2, 4], dtype="int64"))


@case
def broadcast_to_itself():
    x = feed(normal(2, 3), shape=[None, 3])
    return tf.broadcast_to(x, tf.shape(x)) * x


@case(fails="does not broadcast")
def broadcast_to_other():
    return tf.broadcast_to(feed(normal(2, 3), shape="unknown"), feed([3]))


@case
def broadcast_shapes():
    return [tf.broadcast_dynamic_shape(feed([3, 1]), feed([4, 1, 2])),
            tf.raw_ops.BroadcastArgs(s0=feed([], dtype="int64"), s1=feed([4], dtype="int64"))]


@case
def passes():
    x, n = feed(normal(2, 3)), feed(integers(0, 9, 4))
    y, m = tf.identity_n([x, n])
    return [y * x, m, tf.ensure_shape(x, [None, 3]) * 2.0,
            tf.Print(x, [n, x], "shown:", summarize=2) + 1.0]


@case(fails="is not compatible with")
def ensure_other_shape():
    return tf.ensure_shape(feed(normal(2, 3), shape="unknown"), [2, 2])


@case(gradients=False)
def passes_without_gradients():
    x = feed(normal(2))
    return [tf.raw_ops.PreventGradient(input=x, message="why"), tf.raw_ops.Snapshot(input=x),
            tf.raw_ops.DeepCopy(x=x)]


for keep in (False, True):
    @case(name=f"euclidean_norm_{'keep' * keep}", tolerance=2e-6)
    def norm(keep=keep):
        return tf.raw_ops.EuclideanNorm(input=feed(normal(3, 4, 2)), axis=[0, -1], keep_dims=keep)


def line_of(start, stop, num, dtype="float32"):
    return tf.raw_ops.LinSpace(start=feed(start, dtype=dtype), stop=feed(stop, dtype=dtype),
                               num=num)


@case
def line():
    return [line_of(1, 4, feed(7)), line_of(-1, 4, 1, "float64"),
            tf.linspace(feed(1, dtype="float32"), 4.0, 7)]


@case(fails="num must be 1 or more")
def line_of_none():
    return line_of(1, 4, feed(0))


@case
def histogram():
    return [tf.histogram_fixed_width(feed([-1, 0, 1.5, 2, 5, 15, 4.9999], dtype="float32"),
                                     feed([0, 5], dtype="float32"), 5),
            tf.histogram_fixed_width(feed(integers(0, 50, 40)), feed([0, 49], dtype="int32"),
                                     feed(7, dtype="int32"), "int64")]


@case
def buckets():
    return tf.raw_ops.Bucketize(input=feed([[-1, 0, 0.5], [2, 5, 15]], dtype="float32"),
                                boundaries=[0, 2, 5])


@case(gradients=False)
def counts():
    x = feed([1, 1, 3, 9], dtype="int32")
    return [tf.raw_ops.Bincount(arr=x, size=feed(size, dtype="int32"),
                                weights=feed(weights, dtype=dtype))
            for size, weights, dtype in ((5, [], "int32"), (4, [0.5, 2, 3, 4], "float64"))]
