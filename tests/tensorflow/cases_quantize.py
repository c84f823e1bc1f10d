"""Numbers rounded to steps: agent/ops/quantize.c."""
import numpy as np

from cases import case, feed, normal, steps, tf

BOUNDS = {"both_sides": (-1.3, 2.1), "above": (0.4, 3.0), "below": (-5.0, -0.5), "zero": (0.0, 0.0),
          "from_zero": (0.0, 1.0)}
EDGES = [0.0, -0.0, 1.0, -1.0, 1e-30, 300, -300, float("inf"), -float("inf")]

for name, (low, high) in BOUNDS.items():
    for options in ({}, {"num_bits": 4, "narrow_range": True}):
        how = f"{name}_{'narrow' if options else 'wide'}"

        @case(name=f"quantized_by_values_{how}")
        def by_values(low=low, high=high, options=options):
            return tf.quantization.fake_quant_with_min_max_vars(
                feed(2 * normal(5, 7), [None, 7]), feed(low, dtype="float32"),
                feed(high, dtype="float32"), **options)

        if low < high:
            @case(name=f"quantized_by_attributes_{how}")
            def by_attributes(low=low, high=high, options=options):
                return tf.quantization.fake_quant_with_min_max_args(
                    feed(2 * normal(5, 7)), low, high, **options)


@case
def quantized_by_channels():
    low, high = np.array(list(BOUNDS.values()), "float32").T
    return tf.quantization.fake_quant_with_min_max_vars_per_channel(
        feed(2 * normal(3, 2, 5), [None, None, 5]), feed(low), feed(high), num_bits=5)


@case(gradients=False)
def edges_are_quantized():
    return [tf.quantization.fake_quant_with_min_max_args(feed(EDGES, dtype="float32")),
            tf.quantization.fake_quant_with_min_max_args(
                feed(np.linspace(-7, 7, 999, dtype="float32")), num_bits=7)]


@case
def a_layer_is_trained_quantized():
    w = tf.get_variable("w", initializer=normal(4, 3), use_resource=True)
    low = tf.get_variable("low", initializer=-0.5, use_resource=True)
    high = tf.get_variable("high", initializer=0.75, use_resource=True)
    y = feed(normal(6, 4)) @ tf.quantization.fake_quant_with_min_max_vars(w, low, high)
    steps(tf.train.GradientDescentOptimizer(0.05).minimize(tf.reduce_sum(y ** 2)), 3)
    return y


@case(fails="is not below max", gradients=False)
def bounds_the_other_way_round():
    return tf.quantization.fake_quant_with_min_max_args(feed(normal(3)), 2.0, 1.0)
