"""How programs train: the optimisers of tf.keras in a graph, whose steps are get_updates, and
updates of rows by hand. Refused rates. agent/ops/training.c, scatter.c."""
import importlib

import numpy as np

from cases import case, feed, normal, steps, tf

DIALECT = "tf1"
KERAS = {
    "sgd": dict(learning_rate=0.1), "sgd_momentum": dict(learning_rate=0.1, momentum=0.9),
    "sgd_nesterov": dict(learning_rate=0.1, momentum=0.9, nesterov=True),
    "rmsprop": dict(learning_rate=0.01), "adagrad": dict(learning_rate=0.1),
    "rmsprop_centered": dict(learning_rate=0.01, momentum=0.5, centered=True, epsilon=1e-3),
    "adadelta": dict(learning_rate=1.0, epsilon=1e-3),
    "adam": dict(learning_rate=0.1, epsilon=1e-3),
    "adam_amsgrad": dict(learning_rate=0.1, epsilon=1e-3, amsgrad=True),
    "adamax": dict(learning_rate=0.1, epsilon=1e-3), "nadam": dict(learning_rate=0.1, epsilon=1e-3),
    "ftrl": dict(learning_rate=0.1, l1_regularization_strength=0.01),
}
# of the copy of tf.keras that is a part of TensorFlow
CLASSES = {"sgd": "gradient_descent.SGD", "rmsprop": "rmsprop.RMSprop",
           "adagrad": "adagrad.Adagrad", "adadelta": "adadelta.Adadelta", "adam": "adam.Adam",
           "adamax": "adamax.Adamax", "nadam": "nadam.Nadam", "ftrl": "ftrl.Ftrl"}

for name, options in KERAS.items():
    for is_sparse in (False, True):
        @case(name=f"keras_{name}_{'rows' if is_sparse else 'dense'}", gradients=False,
              tolerance=4e-6)
        def keras(name=name, options=options, is_sparse=is_sparse):
            v = tf.get_variable("v", initializer=normal(5, 3), use_resource=True)
            rows = tf.nn.embedding_lookup(v, feed([4, 1, 4, 0], dtype="int32")) if is_sparse \
                else tf.tanh(v)[:4]
            loss = tf.reduce_mean(tf.square(rows - feed(normal(4, 3))))
            module, kind = CLASSES[name.split("_")[0]].split(".")
            module = importlib.import_module(f"tensorflow.python.keras.optimizer_v2.{module}")
            updates = getattr(module, kind)(**options).get_updates(loss=loss, params=[v])
            steps(tf.group(*updates), 10)
            return loss


@case(gradients=False, tolerance=4e-6)
def adam_of_rows():
    """Adam that moves only the rows that occur, as contrib's LazyAdamOptimizer. Of references:
    by handles TensorFlow races with itself."""
    v, m, s = (tf.get_variable(n, initializer=x, use_resource=False) for n, x in
               (("v", normal(5, 3)), ("m", np.zeros((5, 3), "float32")),
                ("s", np.zeros((5, 3), "float32"))))
    grads = tf.gradients(tf.square(tf.gather(v, feed([4, 1, 4, 0], dtype="int32")) -
                                   feed(normal(4, 3))), v)[0]
    unique, at = tf.unique(grads.indices)
    g = tf.unsorted_segment_sum(grads.values, at, tf.shape(unique)[0])
    new_m = tf.scatter_update(m, unique, 0.9 * tf.gather(m, unique) + 0.1 * g)
    new_s = tf.scatter_update(s, unique, 0.99 * tf.gather(s, unique) + 0.01 * tf.square(g))
    step = 0.1 * tf.gather(new_m, unique) / (tf.sqrt(tf.gather(new_s, unique)) + 1e-3)
    steps(tf.group(tf.scatter_sub(v, unique, step), new_m, new_s), 10)
    return g


def refused(op, is_sparse, **changed):
    scalars = {"lr": 0.1, "l1": 0.0, "l2": 0.0}
    names = ["var", "accum"]
    if op == "Ftrl":
        names.append("linear")
        scalars["lr_power"] = -0.5
    scalars.update(changed)
    variables = [tf.get_variable(n, initializer=np.ones((4, 2), "float32"), use_resource=True)
                 for n in names]
    args = {n: v.handle for n, v in zip(names, variables)}
    args.update((n, tf.constant(x, "float32")) for n, x in scalars.items())
    args["grad"] = tf.constant(np.ones((2 if is_sparse else 4, 2), "float32"))
    if is_sparse:
        args["indices"] = [0, 1]
    kind = f"Resource{'Sparse' if is_sparse else ''}Apply{op}"
    with tf.control_dependencies([getattr(tf.raw_ops, kind)(**args)]):
        return variables[0].read_value()


for op, is_sparse in (("ProximalAdagrad", False), ("ProximalAdagrad", True), ("Ftrl", True)):
    for scalar, value, why in (("lr", 0.0, "lr must be positive, but is 0"),
                               ("l2", -1.0, "must not be negative, but one is -1"),
                               ("lr_power", 0.5, "lr_power must not be positive, but is 0.5")):
        if scalar != "lr_power" or op == "Ftrl":
            @case(name=f"{op}_{'rows' if is_sparse else 'dense'}_{scalar}".lower(), fails=why)
            def refused_scalar(op=op, is_sparse=is_sparse, scalar=scalar, value=value):
                return refused(op, is_sparse, **{scalar: value})


@case(gradients=False)
def ftrl_dense_without_rate():
    """TensorFlow does not look at the rate here."""
    return refused("Ftrl", False, lr=0.0)
