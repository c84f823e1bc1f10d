"""Operations on branches that are not taken, and in loops without iterations, that could not be run
with what is fed: agent/plan/plan_lower.c. They are errors only where they run."""
from cases import case, feed, integers, normal, steps, tf

LOOPS = "not built here"
TOO_MANY = "squeeze"  # the name of the operation that fails


def squeezed_or_first(x, single):
    """[batch, steps, n] -> [batch, n]: as crf_decode has it for sequences of one step."""
    return tf.cond(single, lambda: tf.squeeze(x, [1], name=TOO_MANY), lambda: x[:, 0])


for functional in (False, True):
    how = "functional" if functional else "switched"
    how_not = {"functional": functional, "gradients": False}
    # a session that has run a condition can have no gradients of its functions any more
    how_so = {"functional": functional, "gradients": not functional}
    how_loops = {**how_so, "gradient_refused": None if functional else LOOPS}

    @case(name=f"shapes_that_only_another_branch_has_{how}", **how_so)
    def only_another():
        x = feed(normal(2, 3, 4), [None, None, 4])
        return squeezed_or_first(tf.tanh(x), tf.reduce_sum(x) > 1e6)

    @case(name=f"shapes_of_the_branch_that_is_taken_{how}", **how_so)
    def of_the_taken():
        x = feed(normal(2, 1, 4), [None, None, 4])
        return squeezed_or_first(tf.tanh(x), tf.reduce_sum(x) < 1e6)

    @case(name=f"the_branch_that_cannot_run_is_taken_{how}", **how_so, fails=TOO_MANY)
    def taken_and_fails():
        x = feed(normal(2, 3, 4), [None, None, 4])
        return squeezed_or_first(x, tf.reduce_sum(x) < 1e6)

    @case(name=f"a_branch_in_a_branch_that_cannot_run_{how}", **how_so)
    def in_a_branch():
        x = feed(normal(2, 3, 4), [None, None, 4])

        def other():
            y = tf.exp(tf.squeeze(x, [1]))
            return tf.cond(y[0, 0] > 0, lambda: y * 2, lambda: tf.reduce_sum(x, 1) - y)
        return [tf.cond(tf.reduce_sum(x) > 1e6, other, lambda: tf.reduce_mean(x, 1)),
                tf.cond(tf.reduce_sum(x) < 1e6, lambda: tf.ones([4]), lambda: other()[0])]

    @case(name=f"a_loop_on_a_branch_that_cannot_run_{how}", **how_loops)
    def loop_on_a_branch():
        x = feed(normal(2, 3, 4), [None, None, 4])

        def other():
            return tf.while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, y * 2),
                                 [0, tf.squeeze(x, [1])])[1]
        return tf.cond(tf.reduce_sum(x) > 1e6, other, lambda: tf.reduce_max(x, 1))

    @case(name=f"branches_that_cannot_run_in_a_loop_{how}", **how_not)
    def in_a_loop():
        x = feed(normal(2, 3, 4), [None, None, 4])
        return tf.while_loop(lambda i, y: i < 4, lambda i, y: (
            i + 1, tf.cond(i > 8, lambda: tf.reshape(y, [5, 5, 5]), lambda: y + x)),
            [0, x], shape_invariants=[tf.TensorShape([]), tf.TensorShape([None, None, None])])

    @case(name=f"an_iteration_takes_a_branch_that_cannot_run_{how}", **how_so,
          fails=TOO_MANY)
    def in_an_iteration():
        x = feed(normal(2, 3), [None, None])
        return tf.while_loop(lambda i, y: i < 4, lambda i, y: (
            i + 1, tf.cond(i > 2, lambda: tf.squeeze(y, [1], name=TOO_MANY), lambda: y + x)),
            [0, x], shape_invariants=[tf.TensorShape([]), tf.TensorShape(None)])

    @case(name=f"the_body_of_a_loop_without_iterations_{how}", **how_loops)
    def without_iterations():
        x, n = feed(normal(2, 3, 4), [None, None, 4]), feed(0, dtype="int32")
        return tf.while_loop(lambda i, y: i < n, lambda i, y: (
            i + 1, tf.reshape(tf.squeeze(y, [1]), tf.shape(y))), [0, x],
            shape_invariants=[tf.TensorShape([]), tf.TensorShape([None, None, 4])])

    @case(name=f"writes_on_branches_that_cannot_run_{how}", **how_so)
    def writes():
        x = feed(normal(2, 3), [None, None])
        v = tf.get_variable("v", initializer=[1.0, 2.0], use_resource=True)

        def other():
            return tf.group(v.assign_add(tf.squeeze(x, [1])))
        steps(tf.group(tf.cond(x[0, 0] > 1e6, other,
                               lambda: tf.group(v.assign_sub(x[:, 2])))), 2)
        return tf.cond(x[0, 0] > 1e6, lambda: tf.squeeze(x, [1]) + v, lambda: v * 2)

    @case(name=f"operations_that_brood_has_not_{how}", **how_not)
    def complex_numbers():
        x = feed(normal(5), [None])
        return tf.cond(x[0] > 1e6, lambda: tf.math.real(tf.signal.fft(tf.complex(x, -x))),
                       lambda: 2 * x)

    @case(name=f"constants_that_cannot_be_computed_{how}", **how_so)
    def folded():
        x = feed(normal(5), [None])
        return tf.cond(x[0] > 1e6, lambda: x * tf.cast(tf.gather([1, 2], tf.size(x)), "float32"),
                       lambda: 2 * x)


@case
def a_placeholder_on_a_branch_that_is_not_fed():
    x = feed(normal(5), [None])
    return tf.cond(x[0] > 1e6, lambda: x + tf.placeholder(tf.float32, [5]), lambda: 2 * x)


@case(gradient_refused=LOOPS)
def viterbi_decoding():
    """As tf.contrib.crf.crf_decode."""
    x, lengths = feed(normal(3, 5, 4), [None, None, 4]), feed([5, 2, 3], [None], "int32")
    transitions = tf.constant(normal(4, 4))

    def single():
        first = tf.squeeze(x, [1])
        return (tf.expand_dims(tf.argmax(first, 1, output_type=tf.int32), 1),
                tf.reduce_max(first, 1))

    def several():
        def cell(state, scores):
            through = tf.expand_dims(state[0], 2) + transitions
            return (scores + tf.reduce_max(through, 1),
                    tf.argmax(through, 1, output_type=tf.int32))
        first = tf.squeeze(tf.slice(x, [0, 0, 0], [-1, 1, -1]), [1])
        rest = tf.transpose(x[:, 1:], [1, 0, 2])
        known = tf.cast(tf.sequence_mask(lengths - 1, tf.shape(rest)[0]), tf.float32)
        scores, back = tf.scan(lambda s, at: [
            tf.where_v2(at[1][:, None] > 0, a, b)
            for a, b in zip(cell(s, at[0]), (s[0], tf.zeros_like(s[1]) + tf.range(4)))],
            [rest, tf.transpose(known)], [first, tf.zeros_like(first, tf.int32)])
        best = tf.argmax(scores[-1], 1, output_type=tf.int32)
        tags = tf.scan(lambda tag, pointers: tf.gather(pointers, tag, axis=1, batch_dims=1), back,
                       best, reverse=True)
        return tf.transpose(tf.concat([tags, [best]], 0)), tf.reduce_max(scores[-1], 1)
    return list(tf.cond(tf.equal(tf.shape(x)[1], 1), single, several))


@case
def sizes_that_the_other_branch_computes():
    """They are computed before the run, in which the branch is not taken."""
    x, n = feed(normal(6), [None]), feed(4, dtype="int32")
    return tf.cond(x[0] > 1e6, lambda: tf.reshape(x, [n * 5, -1]),
                   lambda: tf.reshape(x, [n - 2, -1]))


@case(gradients=False)
def integers_of_both_kinds():
    x = feed(integers(0, 9, 4), [None])
    return [tf.cond(x[0] < 0, lambda: tf.split(x, 3)[0], lambda: x[:2]),
            tf.cond(x[0] < 0, lambda: tf.stack([x, x[1:]]), lambda: tf.stack([x, x]))]
