"""Parts of variables that graphs read and write, and how programs use them: embeddings with each
optimiser of tf.train, replay buffers, counters. agent/ops/scatter.c, index.c, slice.c, state.c."""
import numpy as np

from cases import case, feed, integers, normal, steps, tf, uniform

DIALECT = "tf1"


def variable(name, value, is_handle=False):
    return tf.get_variable(name, initializer=value, use_resource=is_handle)


def after(op, v):
    """v's value after the op."""
    with tf.control_dependencies([op]):
        return tf.identity(v.read_value())


# ---- nodes that fail if they are run, as TensorFlow's do ----

for kind in ("reference", "handle"):
    @case(name=f"misfit_for_a_slice_{kind}", fails="a value of shape", gradients=False)
    def misfit_for_a_slice(kind=kind):
        v = variable("v", np.zeros((2, 2), "float32"), kind == "handle")
        return after(v[0].assign(feed(normal(2, 3, 2))), v)


@case
def a_handle_that_is_saved():
    """As the saving nodes of TensorFlow 2's SavedModels read it."""
    v = variable("v", np.float32([1, 2]), True)
    with tf.control_dependencies([tf.raw_ops.DisableCopyOnRead(resource=v.handle)]):
        return v.read_value() * feed([3, 4], dtype="float32")


# ---- values that are changed copies ----

@case
def gather_batches():
    x, i = feed(normal(2, 3, 4, 2)), feed(integers(0, 3, 2, 2))
    return [tf.gather(x, i, batch_dims=1), tf.gather(x, feed(integers(0, 4, 2, 5)), batch_dims=1,
                                                     axis=2),
            tf.gather(x, feed(integers(0, 4, 2, 3, 2, dtype="int64")), batch_dims=2),
            tf.gather(x, feed(integers(0, 2, 2, 2)), axis=3, batch_dims=-1)]


@case
def gather_batches_of_unknown_size():
    x = feed(normal(3, 5), [None, 5])
    i = feed(integers(0, 5, 3, 2), [None, 2])
    return [tf.gather(x, i, batch_dims=1), tf.batch_gather(x, i)]


for name in ("Update", "Add", "Sub", "Min", "Max"):
    @case(name=f"tensor_scatter_{name.lower()}")
    def tensor_scatter(name=name):
        op = getattr(tf.raw_ops, f"TensorScatter{name}")
        x = feed(normal(4, 3))
        return [op(tensor=x, indices=feed([[2], [0]], dtype="int32"), updates=feed(normal(2, 3))),
                op(tensor=x, indices=feed([[2, 1], [0, 2], [3, 0]], dtype="int64"),
                   updates=feed(normal(3)))]


for name in ("Add", "Sub"):
    @case(name=f"tensor_scatter_{name.lower()}_twice")
    def tensor_scatter_twice(name=name):
        op = getattr(tf.raw_ops, f"TensorScatter{name}")
        return op(tensor=feed(normal(4)), indices=feed([[2], [0], [2]], dtype="int32"),
                  updates=feed(normal(3)))


@case
def scatter_nd_add_to_a_tensor():
    return tf.raw_ops.ScatterNdNonAliasingAdd(
        input=feed(normal(4, 2)), indices=feed([[1], [1]], dtype="int32"),
        updates=feed(normal(2, 2)))


@case
def slices_replaced():
    x, y = feed(normal(4, 3)), feed(normal(2, 1))

    def replace(value, begin, end, step, **masks):
        return tf.raw_ops.TensorStridedSliceUpdate(input=x, begin=begin, end=end, strides=step,
                                                   value=value, **masks)
    return [replace(feed(normal(2, 3)), [1], [3], [1]), replace(y, [3], [0], [-2]),
            replace(feed(normal(3)), [1], [2], [1], shrink_axis_mask=1),
            replace(feed(normal()), [0, 1], [0, 2], [1, 1], begin_mask=1, end_mask=1)]


# ---- writes to parts ----

for is_handle in (False, True):
    kind = "handle" if is_handle else "ref"

    for name in ("update", "add", "sub", "mul", "div", "min", "max"):
        @case(name=f"scatter_{name}_{kind}")
        def scatter(name=name, is_handle=is_handle):
            v = variable("v", normal(4, 2), is_handle)
            n = variable("n", integers(1, 9, 4, dtype="int64"), is_handle)
            write = getattr(tf, f"scatter_{name}")
            i = feed([2, 0, 2], dtype="int32")
            steps(tf.group(write(v, i, feed(normal(3, 2))), write(n, i, 3)), 2)
            return tf.gather(v, i)

    for name in ("update", "add", "sub"):
        @case(name=f"scatter_nd_{name}_{kind}")
        def scatter_nd(name=name, is_handle=is_handle):
            v = variable("v", normal(4, 2), is_handle)
            n = variable("n", integers(1, 9, 4), is_handle)
            write = getattr(tf, f"scatter_nd_{name}")
            i = feed([[2, 1], [0, 0], [2, 1]], dtype="int32")
            steps(tf.group(write(v, i, feed(normal(3))),
                           write(n, feed([[3]], dtype="int64"), [5])), 2)
            return tf.gather_nd(v, i)

    @case(name=f"batch_scatter_update_{kind}", gradients=False)
    def batch_scatter(is_handle=is_handle):
        v = variable("v", normal(2, 4, 2), is_handle)
        steps(tf.batch_scatter_update(v, feed([[1, 3], [0, 1]], dtype="int32"),
                                      feed(normal(2, 2, 2))).op)
        return v.read_value()

    @case(name=f"slice_assign_{kind}")
    def slice_assign(is_handle=is_handle):
        v = variable("v", normal(4, 3), is_handle)
        writes = [v[1:3].assign(feed(normal(2, 3))), v[::2, 1].assign([7.0, 8.0]),
                  v[-1].assign(feed(normal(3))), v[:, 0:1].assign(feed(normal(4, 1)))]
        for w in writes:
            steps(w.op)
        steps(v[0].assign([1.0]).op)
        return tf.identity(v)

    @case(name=f"counter_{kind}", gradients=False)
    def counter(is_handle=is_handle):
        v = variable("v", np.int32(3), is_handle)
        up = tf.raw_ops.ResourceCountUpTo(resource=v.handle, limit=9, T=tf.int32) if is_handle \
            else tf.count_up_to(v, 9)
        steps(up.op, 3)
        return [up * 2, after(up, v)]

    @case(name=f"order_of_parts_{kind}", gradients=False)
    def order(is_handle=is_handle):
        """Reads before and after a write to a part; the write's own result."""
        v = variable("v", normal(4, 2), is_handle)
        before = tf.gather(v, [1, 2])
        with tf.control_dependencies([before]):
            write = tf.scatter_add(v, [1, 1], [[1.0, 2.0], [3.0, 4.0]])
        with tf.control_dependencies([write]):
            late = tf.gather(v, [1, 2])
        return [late - before, tf.reduce_sum(write)]

    @case(name=f"own_rows_{kind}", gradients=False)
    def own_rows(is_handle=is_handle):
        """A ring that turns: the values are the variable's own."""
        v = variable("v", normal(4, 2), is_handle)
        steps(tf.scatter_update(v, [1, 2, 3, 0], v.read_value()).op)
        return tf.identity(v)

    @case(name=f"replay_buffer_{kind}", gradients=False)
    def replay_buffer(is_handle=is_handle):
        """A write at a position that counts up, and a batch of what has been written."""
        buffer = variable("buffer", np.zeros((4, 3), "float32"), is_handle)
        n = variable("n", np.int64(0), is_handle)
        at = tf.floormod(n.read_value(), 4)
        write = tf.scatter_update(buffer, at, feed(normal(3)))
        with tf.control_dependencies([write]):
            steps(tf.assign_add(n, 1).op, 6)
        return tf.gather(buffer, feed([0, 3], dtype="int32"))

    @case(name=f"parts_in_a_loop_{kind}", gradients=False)
    def parts_in_a_loop(is_handle=is_handle):
        v = variable("v", normal(4, 2), is_handle)

        def body(i, total):
            write = tf.scatter_add(v, [i, 0], tf.ones([2, 2]))
            with tf.control_dependencies([write]):
                return i + 1, total + tf.gather(v, 0)
        _, total = tf.while_loop(lambda i, total: i < 3, body, [0, tf.zeros([2])],
                                 parallel_iterations=1)
        steps(total.op)
        return tf.identity(v)

    @case(name=f"parts_in_a_branch_{kind}", gradients=False)
    def parts_in_a_branch(is_handle=is_handle):
        v = variable("v", normal(4), is_handle)
        b = feed(True)
        done = tf.cond(b, lambda: after(tf.scatter_sub(v, [1], [2.0]), v),
                       lambda: after(v[2:].assign([0.0]), v))
        other = tf.cond(tf.logical_not(b), lambda: after(tf.scatter_sub(v, [1], [2.0]), v),
                        lambda: after(v[2:].assign([0.0]), v))
        steps(done.op)
        steps(other.op)
        return tf.identity(v)

    @case(name=f"wrong_row_{kind}", fails="is not in [0, 4)", gradients=False)
    def wrong_row(is_handle=is_handle):
        v = variable("v", normal(4), is_handle)
        return after(tf.scatter_add(v, feed([1, 4], dtype="int32"), [1.0, 1.0]), v)

    # ---- embeddings ----

    @case(name=f"lookup_{kind}", gradients=False)
    def lookup(is_handle=is_handle):
        v = variable("v", normal(5, 3), is_handle)
        i = feed([[4, 1], [0, 4]], dtype="int32")
        rows = tf.nn.embedding_lookup(v, i)
        grads = tf.gradients(tf.reduce_sum(rows * feed(normal(2, 2, 3))), v)[0]
        return [rows, tf.convert_to_tensor(grads), tf.nn.embedding_lookup(v, i, max_norm=1.0)]

    @case(name=f"lookup_nd_{kind}", gradients=False)
    def lookup_nd(is_handle=is_handle):
        v = variable("v", normal(3, 4), is_handle)
        rows = tf.gather_nd(v, feed([[2, 1], [0, 3], [2, 1]], dtype="int32"))
        return [rows, tf.convert_to_tensor(tf.gradients(rows * feed(normal(3)), v)[0])]

    for strategy in ("mod", "div"):
        @case(name=f"partitioned_{strategy}_{kind}", gradients=False)
        def partitioned(strategy=strategy, is_handle=is_handle):
            whole = normal(7, 2)

            def part(shape, dtype, partition_info):
                at = partition_info.var_offset[0]
                return tf.constant(whole[at:at + shape[0]], dtype)  # shape: of the part
            v = tf.get_variable("v", [7, 2], partitioner=tf.fixed_size_partitioner(3),
                                initializer=part, use_resource=is_handle)
            rows = tf.nn.embedding_lookup(v, feed([6, 0, 3, 6], dtype="int32"),
                                          partition_strategy=strategy)
            loss = tf.reduce_mean(tf.square(rows - feed(normal(4, 2))))
            steps(tf.train.AdagradOptimizer(0.1).minimize(loss), 3)
            return [rows, tf.convert_to_tensor(v)]

    OPTIMIZERS = {
        "descent": lambda: tf.train.GradientDescentOptimizer(0.1),
        "momentum": lambda: tf.train.MomentumOptimizer(0.1, 0.9),
        "nesterov": lambda: tf.train.MomentumOptimizer(0.1, 0.9, use_nesterov=True),
        "adam": lambda: tf.train.AdamOptimizer(0.1, epsilon=1e-3),
        "rmsprop": lambda: tf.train.RMSPropOptimizer(0.01, momentum=0.5),
        "rmsprop_centered": lambda: tf.train.RMSPropOptimizer(0.01, centered=True, epsilon=1e-3),
        "adagrad": lambda: tf.train.AdagradOptimizer(0.1),
        "adadelta": lambda: tf.train.AdadeltaOptimizer(1.0, epsilon=1e-3),
        "ftrl": lambda: tf.train.FtrlOptimizer(0.1, l1_regularization_strength=0.01),
        "ftrl_shrinking": lambda: tf.train.FtrlOptimizer(
            0.1, l2_shrinkage_regularization_strength=0.01),
        "proximal_descent": lambda: tf.train.ProximalGradientDescentOptimizer(
            0.1, l1_regularization_strength=0.01),
        "proximal_adagrad": lambda: tf.train.ProximalAdagradOptimizer(
            0.1, l2_regularization_strength=0.1),
        "adagrad_da": lambda: tf.train.AdagradDAOptimizer(
            0.1, tf.train.get_or_create_global_step(), initial_gradient_squared_accumulator_value=1.0),
    }
    for name, optimizer in OPTIMIZERS.items():
        @case(name=f"train_{name}_{kind}", gradients=False, tolerance=4e-6)
        def train(optimizer=optimizer, is_handle=is_handle):
            """An embedding, whose rows occur twice, and a dense layer."""
            v = variable("v", normal(5, 3), is_handle)
            w = variable("w", normal(3, 2), is_handle)
            rows = tf.nn.embedding_lookup(v, feed([4, 1, 4, 0], dtype="int32"))
            loss = tf.reduce_mean(tf.square(tf.matmul(rows, w) - feed(normal(4, 2))))
            steps(optimizer().minimize(loss), 10)
            return loss


@case(gradients=False)
def sparse_lookup():
    v = variable("v", normal(6, 2))
    ids = tf.SparseTensor(feed([[0, 0], [0, 1], [2, 0]], dtype="int64"),
                          feed([5, 1, 5], dtype="int64"), [3, 2])
    weights = tf.SparseTensor(ids.indices, feed(uniform(1, 2, 3)), [3, 2])
    sums = [tf.nn.embedding_lookup_sparse(v, ids, None, combiner="mean"),
            tf.nn.embedding_lookup_sparse(v, ids, weights, combiner="sum"),
            tf.nn.embedding_lookup_sparse(v, ids, weights, combiner="sqrtn")]
    loss = tf.add_n([tf.reduce_sum(tf.square(s)) for s in sums[1:]])
    steps(tf.train.AdamOptimizer(0.1, epsilon=1e-3).minimize(loss), 3)
    return sums
