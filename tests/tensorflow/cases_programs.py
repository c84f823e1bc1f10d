"""Whole programs, as people wrote them for TensorFlow 1: networks, losses, ten training steps."""
from cases import case, feed, integers, normal, steps, tf, uniform

DIALECT = "tf1"
# Ten steps of an optimiser enlarge the rounding of each.
TRAINED = {"tolerance": 1e-5, "floor": 1e-6}


def dense(x, units, name, activation=None):
    with tf.variable_scope(name):
        w = tf.get_variable("kernel", [int(x.shape[-1]), units])
        b = tf.get_variable("bias", [units], initializer=tf.zeros_initializer())
        y = tf.nn.bias_add(tf.matmul(x, w), b)
        return y if activation is None else activation(y)


def variables(scope):
    scope = f"{tf.get_variable_scope().name}/{scope}/"
    return tf.get_collection(tf.GraphKeys.GLOBAL_VARIABLES, scope)


@case(**TRAINED)
def dqn_with_a_target_network():
    state, after = feed(normal(8, 4), shape=[None, 4]), feed(normal(8, 4), shape=[None, 4])
    action, reward = feed(integers(0, 3, 8), shape=[None]), feed(normal(8), shape=[None])
    done = feed(integers(0, 2, 8, dtype="float32"), shape=[None])

    def network(x, scope):
        with tf.variable_scope(scope):
            return dense(dense(x, 10, "l1", tf.nn.relu), 3, "q")

    q, after_q = network(state, "eval"), network(after, "target")
    best = reward + 0.9 * (1 - done) * tf.reduce_max(after_q, axis=1)
    chosen = tf.reduce_sum(q * tf.one_hot(action, 3), axis=1)
    loss = tf.reduce_mean(tf.squared_difference(tf.stop_gradient(best), chosen))
    train = tf.train.RMSPropOptimizer(0.01).minimize(loss, var_list=variables("eval"))
    copy = tf.group(*[tf.assign(t, e) for t, e in zip(variables("target"), variables("eval"))])
    steps(train, 5)
    steps(copy)
    steps(train, 5)
    return [q, best, loss]


@case(**TRAINED)
def actor_critic_with_a_shared_trunk():
    state, action = feed(normal(6, 5), shape=[None, 5]), feed(integers(0, 4, 6), shape=[None])
    returns = feed(normal(6), shape=[None])
    count = tf.Variable(0, trainable=False, name="global_step")
    trunk = dense(dense(state, 8, "trunk1", tf.tanh), 8, "trunk2", tf.tanh)
    logits, value = dense(trunk, 4, "policy"), tf.squeeze(dense(trunk, 1, "value"), [1])
    advantage = tf.stop_gradient(returns - value)
    log_prob = -tf.nn.sparse_softmax_cross_entropy_with_logits(labels=action, logits=logits)
    p = tf.nn.softmax(logits)
    entropy = -tf.reduce_sum(p * tf.log(p + 1e-10), 1)
    loss = (-tf.reduce_mean(log_prob * advantage) - 0.01 * tf.reduce_mean(entropy) +
            0.5 * tf.reduce_mean(tf.square(returns - value)))
    params = tf.trainable_variables(tf.get_variable_scope().name)
    grads, norm = tf.clip_by_global_norm(tf.gradients(loss, params), 0.5)
    rate = tf.train.exponential_decay(0.01, count, 3, 0.9, staircase=True)
    train = tf.train.AdamOptimizer(rate).apply_gradients(zip(grads, params), global_step=count)
    steps(train, 10)
    return [p, value, loss, norm]


class Lstm:
    """A cell for dynamic_rnn, with the variables of BasicLSTMCell."""

    def __init__(self, units):
        self.units = units
        self.state_size, self.output_size = (units, units), units

    def zero_state(self, n, dtype):
        return (tf.zeros([n, self.units], dtype), tf.zeros([n, self.units], dtype))

    def __call__(self, x, state, scope=None):
        c, h = state
        gates = dense(tf.concat([x, h], 1), 4 * self.units, "basic_lstm_cell")
        i, j, f, o = tf.split(gates, 4, 1)
        c = c * tf.sigmoid(f + 1.0) + tf.sigmoid(i) * tf.tanh(j)
        h = tf.tanh(c) * tf.sigmoid(o)
        return h, (c, h)


@case(gradient_refused="are not built", **TRAINED)
def lstm_over_sequences_of_several_lengths():
    x, y = feed(normal(3, 5, 2), shape=[None, None, 2]), feed(normal(3, 1), shape=[None, 1])
    length = feed([5, 2, 4], dtype="int32", shape=[None])
    outputs, (_, last) = tf.nn.dynamic_rnn(Lstm(4), x, sequence_length=length,
                                           dtype=tf.float32)
    loss = tf.reduce_mean(tf.square(dense(last, 1, "head") - y))
    steps(tf.train.AdamOptimizer(0.01).minimize(loss), 10)
    return [outputs, last, loss]


@case(**TRAINED)
def convolution_with_batch_normalisation():
    image, label = feed(uniform(0, 1, 4, 6, 6, 2)), feed(integers(0, 3, 4))
    training = feed(True)
    w = tf.get_variable("filter", [3, 3, 2, 4])
    x = tf.nn.conv2d(image, w, [1, 1, 1, 1], "SAME")
    mean, variance = tf.nn.moments(x, [0, 1, 2])
    gamma = tf.get_variable("gamma", [4], initializer=tf.ones_initializer())
    beta = tf.get_variable("beta", [4], initializer=tf.zeros_initializer())
    moving = [tf.get_variable(name, [4], trainable=False, initializer=tf.zeros_initializer())
              for name in ("moving_mean", "moving_variance")]
    updates = [tf.assign_sub(m, 0.1 * (m - now)) for m, now in zip(moving, (mean, variance))]
    mean = tf.cond(training, lambda: mean, lambda: tf.identity(moving[0]))
    variance = tf.cond(training, lambda: variance, lambda: tf.identity(moving[1]))
    x = tf.nn.relu(tf.nn.batch_normalization(x, mean, variance, beta, gamma, 1e-3))
    x = tf.nn.max_pool(x, [1, 2, 2, 1], [1, 2, 2, 1], "VALID")
    logits = dense(tf.reshape(x, [-1, 3 * 3 * 4]), 3, "logits")
    loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=label,
                                                                         logits=logits))
    with tf.control_dependencies(updates):
        train = tf.train.MomentumOptimizer(0.1, 0.9).minimize(loss)
    steps(train, 10)
    return [logits, loss]


@case(**TRAINED)
def soft_actor_critic_with_polyak_averages():
    state, after = feed(normal(6, 3)), feed(normal(6, 3))
    action, reward = feed(uniform(-1, 1, 6, 2)), feed(normal(6, 1))
    # small: where tanh is nearly 1, the rounding of 1 - tanh^2 is all there is
    noise, after_noise = feed(uniform(-1, 1, 6, 2)), feed(uniform(-1, 1, 6, 2))

    def policy(s, n):
        with tf.variable_scope("pi", reuse=tf.AUTO_REUSE):
            h = dense(s, 8, "h", tf.nn.relu)
            mu, log_std = dense(h, 2, "mu"), tf.clip_by_value(dense(h, 2, "std"), -5.0, -1.0)
        u = mu + n * tf.exp(log_std)
        log_p = tf.reduce_sum(-0.5 * tf.square(n) - log_std - 0.919, 1, keepdims=True)
        a = tf.tanh(u)
        return a, log_p - tf.reduce_sum(tf.log(1 - tf.square(a) + 1e-6), 1, keepdims=True)

    def critic(s, a, scope):
        with tf.variable_scope(scope, reuse=tf.AUTO_REUSE):
            return dense(dense(tf.concat([s, a], 1), 8, "h", tf.nn.relu), 1, "q")

    a, log_p = policy(state, noise)
    after_a, after_log_p = policy(after, after_noise)
    target = tf.minimum(critic(after, after_a, "target1"), critic(after, after_a, "target2"))
    y = tf.stop_gradient(reward + 0.99 * (target - 0.2 * after_log_p))
    q_loss = sum(tf.reduce_mean(tf.square(y - critic(state, action, s))) for s in ("q1", "q2"))
    pi_loss = tf.reduce_mean(0.2 * log_p - tf.minimum(critic(state, a, "q1"),
                                                      critic(state, a, "q2")))
    with tf.control_dependencies([y]):  # or TensorFlow's threads read pi before or after
        train_pi = tf.train.AdamOptimizer(0.003).minimize(pi_loss, var_list=variables("pi"))
    with tf.control_dependencies([train_pi]):
        train_q = tf.train.AdamOptimizer(0.003).minimize(
            q_loss, var_list=variables("q1") + variables("q2"))
    with tf.control_dependencies([train_q]):
        polyak = tf.group(*[tf.assign(t, 0.9 * t + 0.1 * v)
                            for i in "12" for t, v in zip(variables(f"target{i}"),
                                                          variables(f"q{i}"))])
    steps(polyak, 10)
    return [a, log_p, q_loss, pi_loss]


@case(**TRAINED)
def embeddings():
    words, label = feed(integers(0, 7, 5, 3), shape=[None, 3]), feed(integers(0, 2, 5))
    table = tf.get_variable("embeddings", [7, 4])
    x = tf.reduce_mean(tf.nn.embedding_lookup(table, words), 1)
    logits = dense(x, 2, "logits")
    loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=label,
                                                                         logits=logits))
    steps(tf.train.AdamOptimizer(0.05).minimize(loss), 10)
    return [x, logits, loss]


@case(**TRAINED)
def resource_variables():
    x, y = feed(normal(6, 3)), feed(normal(6, 1))
    with tf.variable_scope("net", use_resource=True):
        loss = tf.reduce_mean(tf.square(dense(dense(x, 5, "h", tf.nn.elu), 1, "y") - y))
    average = tf.train.ExponentialMovingAverage(0.9)
    train = tf.train.MomentumOptimizer(0.05, 0.9, use_nesterov=True).minimize(loss)
    with tf.control_dependencies([train]):
        averaged = average.apply(variables("net"))
    steps(averaged, 10)
    return loss
