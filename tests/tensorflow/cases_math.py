"""Element-wise arithmetic, comparisons and choices: agent/ops/math.c."""
from cases import case, feed, integers, normal, tf, uniform

DIALECT = "tf1"
INF, NAN = float("inf"), float("nan")
EDGES = [0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 1e-30, 1e30, -1e30, INF, -INF, NAN]
# x and y with which the two-sided ops differ in their corner cases
XS = [0.0, 0.0, 1.0, -1.0, 7.0, -7.0, 7.0, -7.0, INF, INF, NAN, 2.0, 3.0, -0.0]
YS = [0.0, 1.0, 0.0, 0.0, 3.0, 3.0, -3.0, -3.0, INF, 1.0, 1.0, NAN, 3.0, -2.0]
SHAPES = {"same": ((2, 3), (2, 3)), "row": ((2, 3), (3,)), "scalar": ((), (3, 2)),
          "outer": ((4, 1, 2), (3, 1)), "empty": ((0, 3), (1, 3))}


def op(name, *inputs, **attributes):
    """The operation of this type."""
    keys = ("x", "y") if len(inputs) == 2 else ("x",)
    return getattr(tf.raw_ops, name)(**dict(zip(keys, inputs)), **attributes)


for name in ["Neg", "Square", "Sqrt", "Rsqrt", "Exp", "Log", "Abs", "Sign", "Reciprocal", "Floor"]:
    @case(name=f"{name}_edges")
    def unary_edges(name=name):
        return op(name, feed(EDGES, dtype="float32"))

    @case(name=f"{name}_double")
    def unary_double(name=name):
        return op(name, feed(uniform(0.1, 3, 2, 3, dtype="float64")))

    @case(name=f"{name}_unknown_shape")
    def unary_unknown(name=name):
        return op(name, feed(uniform(0.1, 3, 3, 2), shape="unknown"))

for name in ["Neg", "Square", "Abs", "Sign"]:
    for dtype in ["int32", "int64"]:
        @case(name=f"{name}_{dtype}")
        def unary_integers(name=name, dtype=dtype):
            return op(name, feed([0, 1, -1, 7, -12345, 46340], dtype=dtype))

BINARY = ["Add", "AddV2", "Sub", "Mul", "RealDiv", "Div", "DivNoNan", "Maximum", "Minimum", "Pow",
          "SquaredDifference", "FloorDiv", "FloorMod", "Mod"]
for name in BINARY:
    graded = name != "Mod"

    @case(name=f"{name}_edges", gradients=graded and name not in ("Pow", "FloorMod"))
    def binary_edges(name=name):
        return op(name, feed(XS, dtype="float32"), feed(YS, dtype="float32"))

    @case(name=f"{name}_double", gradients=graded)
    def binary_double(name=name):
        return op(name, feed(uniform(0.2, 4, 3, 2, dtype="float64")),
                  feed(uniform(0.2, 4, 2, dtype="float64")))

    for kind, (x, y) in SHAPES.items():
        @case(name=f"{name}_{kind}", gradients=graded)
        def binary_shapes(name=name, x=x, y=y):
            return op(name, feed(uniform(0.2, 4, *x)), feed(uniform(0.2, 4, *y)))

    @case(name=f"{name}_unknown_shape", gradients=graded)
    def binary_unknown(name=name):
        return op(name, feed(uniform(0.2, 4, 2, 3), shape=[None, 3]),
                  feed(uniform(0.2, 4, 2, 1), shape="unknown"))

    if name not in ("DivNoNan", "RealDiv"):
        for dtype in ["int32", "int64"]:
            @case(name=f"{name}_{dtype}")
            def binary_integers(name=name, dtype=dtype):
                y = [3, -3, 3, -3, 2, 5, 1] if name != "Pow" else [3, 2, 0, 1, 2, 5, 1]
                return op(name, feed([7, 7, -7, -7, 0, 12, -1], dtype=dtype), feed(y, dtype=dtype))

for name in ["Equal", "NotEqual", "Greater", "GreaterEqual", "Less", "LessEqual"]:
    @case(name=f"{name}_edges")
    def compare_edges(name=name):
        return op(name, feed(XS, dtype="float32"), feed(YS, dtype="float32"))

    for dtype in ["float64", "int32", "int64"]:
        @case(name=f"{name}_{dtype}")
        def compare_types(name=name, dtype=dtype):
            return op(name, feed(integers(-2, 3, 4, 3, dtype=dtype)),
                      feed(integers(-2, 3, 3, dtype=dtype)))


@case
def equal_bool():
    return tf.equal(feed([True, False, True, False]), feed([True, True, False, False]))


@case
def not_equal_scalar():
    return tf.not_equal(feed(integers(0, 3, 5)), feed(1, dtype="int32"))


@case
def logic():
    x, y = feed([[True], [False]]), feed([True, False])
    return [tf.logical_and(x, y), tf.logical_or(x, y), tf.logical_not(x), tf.logical_xor(x, y)]


@case
def add_n():
    return tf.add_n([feed(normal(2, 3)) for _ in range(4)])


@case
def add_n_one_integer():
    return tf.add_n([feed(integers(-9, 9, 3))])


@case
def select_same():
    return tf.where(feed([[True, False], [False, True]]), feed(normal(2, 2)), feed(normal(2, 2)))


@case
def select_rows():
    return tf.where(feed([True, False, True]), feed(normal(3, 2)), feed(normal(3, 2)))


@case
def select_scalar_condition():
    return tf.raw_ops.Select(condition=feed(True), x=feed(normal(2, 2)), y=feed(normal(2, 2)))


@case
def select_hides_nan():
    x = feed([1.0, 0.0, -1.0], dtype="float32")
    return tf.where(x > 0, tf.log(x), tf.zeros_like(x))


for kind, (c, x, y) in {"same": ((2, 3),) * 3, "row": ((2, 1), (3,), (2, 3)),
                        "scalars": ((2, 2), (), ())}.items():
    @case(name=f"select_v2_{kind}")
    def select_v2(c=c, x=x, y=y):
        return tf.where_v2(feed(integers(0, 2, *c).astype(bool)), feed(normal(*x)),
                           feed(normal(*y)))


@case
def clip_scalars():
    return tf.clip_by_value(feed(EDGES, dtype="float32"), -1.0, 0.5)


@case
def clip_elements():
    x = feed(normal(3, 2))
    low = feed(normal(3, 2) - 1)
    return tf.clip_by_value(x, low, low + 1.5)


@case
def clip_integers():
    return tf.clip_by_value(feed(integers(-9, 9, 8)), -3, 4)


CASTS = ["float32", "float64", "int32", "int64", "bool", "uint8"]
for source in CASTS:
    for target in CASTS:
        @case(name=f"cast_{source}_{target}")
        def cast(source=source, target=target):
            x = [0, 1, 2, 100] if source in ("bool", "uint8") or target == "uint8" else \
                [0, 1, -1, 2.75, -2.75, 100, 16777217]
            return tf.cast(feed(x, dtype=source), target)


@case
def two_uses():
    """The gradients of one x by several ways are summed."""
    x, y = feed(normal(2, 3)), feed(normal(3))
    z = x * y + tf.square(x) / (1 + tf.exp(-y))
    return [z, tf.sqrt(tf.abs(z)) + x]


@case
def second_gradient():
    x = feed(uniform(0.5, 2, 4))
    return tf.gradients(tf.exp(x) * tf.rsqrt(x) + tf.log(x) / tf.sqrt(x), x)


@case
def stop_gradient():
    x = feed(normal(3))
    return tf.stop_gradient(x * 2) * x
