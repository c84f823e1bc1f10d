"""TensorFlow 2's conditions, loops and calls: nodes that call functions of the file's library,
and the tensor lists and optionals in which their gradients keep values. brood inlines the
functions (agent/saver/inline.h)."""
from cases import case, feed, normal, steps, tf

LOOPS = "gradients through loops are not built"
LISTS = "gradients through these are not built"


def fed(*values):
    return feed(values, dtype="float32")


def weights(*values):
    return tf.get_variable("w", initializer=tf.constant(values, tf.float32), use_resource=True)


def trained(loss, *fetches, count=3):
    """A gradient step, which needs TensorFlow's gradients of conditions and loops."""
    steps(tf.train.GradientDescentOptimizer(0.05).minimize(tf.reduce_sum(loss)), count)
    return [*fetches, loss]


# ---- conditions ----

for side, value in (("true", 0.5), ("false", -0.5)):
    @case(name=f"a_condition_that_is_{side}", functional=True)
    def _(value=value):
        x, w = fed(value, 0.25, 0.125), weights(1, 2, 3)
        y = tf.cond(tf.reduce_sum(x) > 0, lambda: tf.tanh(w * x) * w, lambda: tf.exp(-w) * x)
        return trained(y * y, y)

    @case(name=f"conditions_in_a_condition_that_is_{side}", functional=True)
    def _(value=value):
        x, w = fed(value), weights(2)
        return trained(tf.cond(
            x[0] > 0,
            lambda: tf.cond(x[0] > 1, lambda: x * w, lambda: x + w),
            lambda: tf.cond(x[0] < -1, lambda: w - x, lambda: w * w)))

    @case(name=f"a_loop_in_a_condition_that_is_{side}", functional=True, gradient_refused=LOOPS)
    def _(value=value):
        x, w = fed(value, -0.4), weights(0.5, 0.6)
        return trained(tf.cond(x[0] > 0, lambda: tf.while_loop(
            lambda i, y: i < 3, lambda i, y: (i + 1, tf.tanh(y * w) + y), [0, x])[1],
            lambda: x * w))

    @case(name=f"a_condition_without_results_that_is_{side}", functional=True)
    def _(value=value):
        x, w = fed(value), weights(1, 2)
        steps(tf.group(tf.cond(x[0] > 0, lambda: tf.group(w.assign_add([1.0, 1.0])), tf.no_op)))
        return tf.identity(x)

for index in (1, 7):
    @case(name=f"case_{index}_of_three", functional=True)
    def _(index=index):
        x, w = feed(index, dtype="int32"), weights(1, 2)
        return trained(tf.switch_case(x, [lambda: w * 2, lambda: w + 5, lambda: tf.tanh(w)]))


@case(functional=True)
def branches_without_inputs():
    x, index = fed(0.5), feed(1, dtype="int32")
    rate = tf.cond(x[0] > 0, lambda: tf.constant(0.25), lambda: tf.constant(1.0))
    return trained(weights(1, 2) * rate * x, rate,
                   tf.switch_case(index, [lambda: tf.constant(3.0), lambda: tf.constant(4.0)]))


@case(functional=True)
def branches_that_write():
    x, w = fed(0.5), weights(1, 2)

    def write():
        with tf.control_dependencies([w.assign_add(tf.concat([x, x], 0))]):
            return tf.identity(x * 2)

    steps(tf.group(tf.cond(x[0] > 0, write, lambda: x * 3)), 2)
    return tf.identity(x)


# ---- loops ----

@case(functional=True, gradients=False)
def a_loop_names_its_results():
    x = feed(4, dtype="int32")
    results = tf.while_loop(lambda i, s, c: i < x, lambda i, s, c: (i + 1, s + c, c),
                            [0, 1.0, 0.5], name="loop")
    node = results[0].op.inputs[0].op
    return [*results, node.outputs[2], node.outputs[3], node.outputs[4]]


@case(functional=True, gradient_refused=LOOPS)
def loops_in_a_loop():
    x, w = feed(normal(4)), weights(0.9)

    def inner(y):
        return tf.while_loop(lambda j, z: j < 3, lambda j, z: (j + 1, tf.tanh(z) * w + x),
                             [0, y])[1]

    return trained(tf.while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, inner(y) * 1.1),
                                 [0, x])[1])


@case(functional=True, gradient_refused=LOOPS)
def conditions_in_a_loop():
    x, w = feed(normal(2)), weights(0.5, 0.6)
    return trained(tf.while_loop(lambda i, y: i < 4, lambda i, y: (i + 1, tf.cond(
        tf.equal(i % 2, 0), lambda: tf.tanh(y * w), lambda: y + w * w)), [0, x])[1])


@case(functional=True, gradient_refused=LOOPS)
def a_loop_with_a_limit():
    x, w = fed(0.2, 0.4), weights(1, 0.5)
    return trained(tf.while_loop(lambda a: tf.reduce_sum(a) < 100, lambda a: a * 1.5 + w, [x],
                                 maximum_iterations=4))


@case(functional=True)
def a_loop_that_writes():
    x, w = fed(0.5), weights(1)

    def body(i):
        with tf.control_dependencies([w.assign_add(x * tf.cast(i, tf.float32))]):
            return tf.identity(i + 1)

    steps(tf.group(tf.while_loop(lambda i: i < 5, body, [0])))
    return tf.identity(x)


@case(functional=True, gradients=False)
def two_gradients_of_one_loop():
    x, w = fed(0.2, 0.4), weights(1, 0.5)
    y = tf.while_loop(lambda i, a: i < 3, lambda i, a: (i + 1, tf.tanh(a * w) + a), [0, x])[1]
    return [y, *tf.gradients(y, w), *tf.gradients(y * y, w)]


@case(functional=True, gradients=False)
def a_gradient_of_a_gradient_of_a_loop():
    x, w = fed(0.2, 0.4), weights(1, 0.5)
    y = tf.while_loop(lambda i, a: i < 3, lambda i, a: (i + 1, tf.tanh(a * w) + a), [0, x])[1]
    grad, = tf.gradients(y, w)
    return [grad, *tf.gradients(grad * grad, w)]


# ---- loops with arrays ----

@case(functional=True, gradient_refused=LISTS)
def maps_scans_and_folds():
    x, w = feed(normal(6, 2), shape=[None, 2]), weights(0.5, 0.2)
    mapped = tf.map_fn(lambda row: tf.tanh(row * w), x)
    scanned = tf.scan(lambda a, row: tf.tanh(a * w + row), x, initializer=tf.zeros([2]))
    left = tf.foldl(lambda a, row: a + row * w, x)
    right = tf.foldr(lambda a, row: a * w + row, x)
    return trained(tf.reduce_sum(mapped) + tf.reduce_sum(scanned * scanned) +
                   tf.reduce_sum(left * right), mapped, scanned, left, right)


@case(functional=True, gradient_refused=LISTS)
def an_array_that_grows():
    x, w = feed(normal(7, 2), shape=[None, 2]), weights(1, 0.5)

    def body(i, a, array):
        a = tf.tanh(a * w + x[i])
        return i + 1, a, array.write(i, a)

    array = tf.TensorArray(tf.float32, size=0, dynamic_size=True)
    y = tf.while_loop(lambda i, a, array: i < tf.shape(x)[0], body,
                      [0, tf.zeros([2]), array])[2].stack()
    return trained(y * y, y)


@case(functional=True, gradient_refused=LISTS)
def arrays_are_cut_and_joined():
    x = feed(normal(6, 2))
    joined = tf.TensorArray(tf.float32, size=3, infer_shape=False).split(x, [1, 2, 3]).concat()
    whole = tf.TensorArray(tf.float32, size=6).unstack(x)
    some = tf.TensorArray(tf.float32, size=5).scatter([4, 0, 2], x[:3])
    grown = tf.TensorArray(tf.float32, size=0, dynamic_size=True).write(0, x[0]).write(3, x[1])
    return [joined, whole.gather([3, 1, 1]), whole.stack(), some.stack(), grown.stack(),
            grown.size()]


@case(gradients=False)
def elements_that_nothing_writes():
    """As dynamic_rnn leaves behind the longest sequence: zeros of the shape that others have."""
    x = feed(normal(2, 3), shape=[None, 3])
    y = tf.TensorArray(tf.float32, size=4, element_shape=[None, 3]).write(1, x).stack()
    return [y, tf.gradients(y * y, x)[0]]


@case(gradients=False)
def lists_are_values():
    raw = tf.raw_ops
    of = {"element_shape": [2], "element_dtype": tf.float32}
    x = feed(normal(4, 2))
    first = raw.TensorListFromTensor(tensor=x, element_shape=[2])
    longer = raw.TensorListResize(input_handle=first, size=6)
    changed = raw.TensorListSetItem(input_handle=longer, index=5, item=x[0] * 2)
    popped, last = raw.TensorListPopBack(input_handle=changed, **of)
    pushed = raw.TensorListPushBack(input_handle=popped, tensor=x[1] * 7)
    other = raw.TensorListPushBack(input_handle=popped, tensor=x[2] * 5)
    cut = raw.TensorListSplit(tensor=x, element_shape=[-1, 2],
                              lengths=tf.constant([1, 3], tf.int64))
    spread = raw.TensorListScatterV2(tensor=x, indices=[3, 0, 1, 5], element_shape=[2],
                                     num_elements=-1)
    into = raw.TensorListScatterIntoExistingList(input_handle=spread, tensor=x[:2], indices=[0, 4])
    lists = [first, longer, changed, popped, pushed, other, spread, into,
             raw.AddN(inputs=[first, first, first]), raw.ZerosLike(x=first)]
    joined = raw.TensorListConcatV2(input_handle=cut, element_shape=[-1, 2],
                                    leading_dims=tf.constant([], tf.int64),
                                    element_dtype=tf.float32)
    return [last, joined.tensor, joined.lengths,
            raw.TensorListLength(input_handle=longer),
            raw.TensorListElementShape(input_handle=longer, shape_type=tf.int32),
            raw.TensorListGetItem(input_handle=cut, index=1, element_shape=[-1, 2],
                                  element_dtype=tf.float32),
            raw.TensorListGather(input_handle=changed, indices=[5, 0, 4], **of),
            *[raw.TensorListStack(input_handle=a, **of) for a in lists]]


# ---- calls ----

@case
def functions_call_functions():
    x, w = fed(0.5, 0.7), weights(1, 2)

    @tf.function
    def inner(a, b):
        return a * b + w, tf.tanh(a)

    @tf.function
    def outer(a):
        p, q = inner(a, a * 2)
        return p - q

    y = outer(x)
    return trained(y * y, y)


@case
def a_function_that_writes():
    x, w = fed(0.5), weights(1)

    @tf.function
    def write(a):
        w.assign_add(a)
        return w * 2.0

    steps(write(x).op, 3)
    return tf.identity(x)


@case(gradients=False)
def gradients_by_old_stacks():
    """A loop's values are kept as TensorFlow 1.0 kept them."""
    from tensorflow.python.ops import gen_data_flow_ops as ops
    names = ["stack_v2", "stack_push_v2", "stack_pop_v2"]
    new = [getattr(ops, name) for name in names]
    ops.stack_v2 = lambda max_size, elem_type, name=None: ops._stack(elem_type, name=name)
    ops.stack_push_v2, ops.stack_pop_v2 = ops.stack_push, ops.stack_pop
    try:
        x, w = feed(normal(3, 2)), feed(normal(2, 2))
        y = tf.while_loop(lambda i, h: i < 4,
                          lambda i, h: (i + 1, tf.tanh(tf.matmul(h, w))), [0, x])[1]
        grads = tf.gradients(tf.reduce_sum(y), [x, w])
    finally:
        for name, f in zip(names, new):
            setattr(ops, name, f)
    assert {"Stack", "StackPush", "StackPop", "RefEnter"} <= {
        op.type for op in tf.get_default_graph().get_operations()}
    return [y, *grads]
