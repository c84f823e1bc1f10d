#!/usr/bin/python3
"""Graphs that TensorFlow wrote, with the variables it saved, against NumPy.

run_meta imports the files, restores the variables, runs the graphs' own tensors and
training ops with placeholders and random nodes fed. The same is computed here from the
same checkpoint (read by tf_files.py) in float64, layer by layer, gradients by hand. An
actor's and a critic's forward pass, and every variable after a training op, agree within
1e-5 of their largest element.
"""
import sys

import tf_files
import numpy as np

TOLERANCE = 1e-5
BATCH = 12
BETA1, BETA2 = float(np.float32(0.9)), float(np.float32(0.999))  # as the graphs have them


def relu(x):
    return np.maximum(x, 0)


def softmax(x):
    e = np.exp(x - x.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


class Layers:
    """y = x W + b with ReLUs between; names: pairs of weights and biases."""

    def __init__(self, variables, names):
        self.names = [n for pair in names for n in pair]
        self.layers = [(variables[w], variables[b]) for w, b in names]

    def forward(self, x):
        self.inputs, self.sums = [], []
        for i, (w, b) in enumerate(self.layers):
            self.inputs.append(relu(x) if i else x)
            x = self.inputs[-1] @ w + b
            self.sums.append(x)
        return x

    def backward(self, d):
        """(gradients in the order of names, gradient of the input)"""
        grads = []
        for i in reversed(range(len(self.layers))):
            if i < len(self.layers) - 1:
                d = d * (self.sums[i] > 0)
            grads = [self.inputs[i].T @ d, d.sum(0)] + grads
            d = d @ self.layers[i][0].T
        return grads, d


def clip_by_norm(g, norm):
    return g * norm / max(np.sqrt((g * g).sum()), norm)


def adam(variables, names, grads, slot_scope, powers, rate):
    """What ApplyAdam of every variable and the Assigns of the powers leave."""
    after = dict(variables)
    b1, b2 = (variables[p] for p in powers)
    for name, g in zip(names, grads):
        m_name, v_name = (f"{slot_scope}{name}/Adam{end}" for end in ("", "_1"))
        m = variables[m_name] + (g - variables[m_name]) * (1 - BETA1)
        v = variables[v_name] + (g * g - variables[v_name]) * (1 - BETA2)
        step = rate * np.sqrt(1 - b2) / (1 - b1) * m / (np.sqrt(v) + 1e-8)
        after.update({name: variables[name] - step, m_name: m, v_name: v})
    after.update({powers[0]: b1 * BETA1, powers[1]: b2 * BETA2})
    return after


class Model:
    def __init__(self, program, folder, prefix):
        self.program, self.prefix = program, f"{folder}/{prefix}"
        self.saved = tf_files.read_checkpoint(self.prefix)
        self.variables = {k: v.astype(np.float64) for k, v in self.saved.items()}
        self.rng = np.random.default_rng(7)
        self.ok = True

    def normal(self, *shape):
        return self.rng.standard_normal(shape).astype(np.float32)

    def run(self, feeds, fetches, target=None):
        """What the graph gives; with a target, all variables after it."""
        runs = [{"feeds": feeds, "fetches": fetches}]
        if target:
            runs = [{"feeds": feeds, "targets": [target]},
                    {"fetches": [f"{n}:0" for n in self.saved]}]
        return tf_files.run_meta(self.program, self.prefix, runs)[-1]

    def compare(self, what, got, want):
        scale = max(np.abs(want).max(), 1e-6)
        d = float(np.abs(got - want).max() / scale)
        if got.shape != want.shape or not d <= TOLERANCE:
            self.ok = False
            print(f"FAILED: {self.prefix}: {what}: largest difference {d:.2e}")
        return d

    def forward(self, what, feeds, expected):
        got = self.run(feeds, list(expected))
        worst = max(self.compare(n, g, w) for g, (n, w) in zip(got, expected.items()))
        print(f"{what}: {worst:.2e}")

    def training(self, what, feeds, target, expected):
        got = self.run(feeds, [], target)
        moved = [n for n in self.saved if np.any(expected[n] != self.variables[n])]
        still = [n for n, g in zip(self.saved, got)
                 if n not in moved and not np.array_equal(g, self.saved[n])]
        worst = max(self.compare(f"{target}: {n}", g, expected[n])
                    for n, g in zip(self.saved, got))
        if not moved or still:
            self.ok = False
            print(f"FAILED: {target}: {len(moved)} variables move, {still} should not")
        print(f"{what}: {target} changes {len(moved)} variables: {worst:.2e}")


def check_maddpg(program, folder):
    """openai/maddpg, two agents: TensorFlow 1.13."""
    m = Model(program, folder, "01-mbeliaev1-maddpg/policy/h10s5/5/")

    def net(agent, scope):
        return Layers(m.variables, [[f"agent_{agent}/{scope}/fully_connected{i}/{p}"
                                     for p in ("weights", "biases")]
                                    for i in ("", "_1", "_2")])

    for agent in range(2):
        scope, scope_1 = f"agent_{agent}", f"agent_{agent}_1"
        obs = [m.normal(BATCH, 8) for _ in range(2)]
        actions = [softmax(m.normal(BATCH, 9)) for _ in range(2)]
        target, u = m.normal(BATCH), m.rng.uniform(0.01, 0.99, (BATCH, 9))
        u = u.astype(np.float32)
        feeds = {f"observation{i}{'_1' if agent else ''}:0": x
                 for i, x in enumerate(obs)}
        critic_feeds = {**feeds, f"{scope}/target:0": target,
                        **{f"{scope}/action{i}:0": x for i, x in enumerate(actions)}}
        other = 1 - agent
        actor_feeds = {**feeds, f"{scope_1}/action{other}:0": actions[other],
                       f"{scope_1}/random_uniform_1/RandomUniform:0": u}

        critic = net(agent, "q_func")
        q = critic.forward(np.concatenate(obs + actions, 1))
        m.forward(f"maddpg {agent}, critic", critic_feeds, {
            f"{scope}/strided_slice:0": q[:, 0],
            f"{scope}/Mean:0": np.mean((q[:, 0] - target) ** 2)})
        grads, _ = critic.backward(2 * (q - target[:, None]) / BATCH)
        m.training(f"maddpg {agent}, critic", critic_feeds, f"{scope}/Adam", adam(
            m.variables, critic.names, [clip_by_norm(g, 0.5) for g in grads],
            f"{scope}/", [f"{scope}/beta{i}_power" for i in (1, 2)], 0.01))

        actor = net(agent, "p_func")
        p = actor.forward(obs[agent])
        a = softmax(p - np.log(-np.log(u.astype(np.float64))))
        m.forward(f"maddpg {agent}, actor", actor_feeds, {
            f"{scope_1}/p_func/fully_connected_2/BiasAdd:0": p,
            f"{scope_1}/Softmax_1:0": a})
        joint = list(actions)
        joint[agent] = a
        critic.forward(np.concatenate(obs + joint, 1))
        _, d = critic.backward(np.full((BATCH, 1), -1 / BATCH))
        d = d[:, 16 + 9 * agent:25 + 9 * agent]
        d = a * (d - (d * a).sum(1, keepdims=True)) + 1e-3 * 2 * p / p.size
        grads, _ = actor.backward(d)
        m.training(f"maddpg {agent}, actor", actor_feeds, f"{scope_1}/Adam", adam(
            m.variables, actor.names, [clip_by_norm(g, 0.5) for g in grads],
            f"{scope}/", [f"{scope_1}/beta{i}_power" for i in (1, 2)], 0.01))
    return m.ok


class DdpgCritic:
    """relu(s W_s + a W_a + b), then a linear layer."""

    def __init__(self, variables, scope):
        self.names = [f"{scope}/{n}" for n in ("w1_s", "w1_a", "b1", "dense/kernel",
                                               "dense/bias")]
        self.values = [variables[n] for n in self.names]

    def forward(self, s, a):
        w_s, w_a, b, w, b_out = self.values
        self.s, self.a, self.sum = s, a, s @ w_s + a @ w_a + b
        return relu(self.sum) @ w + b_out

    def backward(self, d):
        """(gradients in the order of names, gradient of the action)"""
        w = self.values[3]
        d_sum = d @ w.T * (self.sum > 0)
        grads = [self.s.T @ d_sum, self.a.T @ d_sum, d_sum.sum(0, keepdims=True),
                 relu(self.sum).T @ d, d.sum(0)]
        return grads, d_sum @ self.values[1].T


def check_ddpg(program, folder):
    """Car following by DDPG: TensorFlow 1.10."""
    m = Model(program, folder,
              "08-MeixinZhu-Velocity_control/save/model_origin_4.001_NOCA.ckpt")

    def actor(scope):
        return Layers(m.variables, [[f"Actor/{scope}/{layer}/{p}"
                                     for p in ("kernel", "bias")]
                                    for layer in ("l1", "a")])

    s, s_, r = m.normal(BATCH, 3), m.normal(BATCH, 3), m.normal(BATCH, 1)
    played = m.normal(BATCH, 1)
    policy, critic = actor("eval"), DdpgCritic(m.variables, "Critic/eval")
    a = np.tanh(policy.forward(s))
    q = critic.forward(s, 2 * a)
    m.forward("ddpg, actor and critic", {"s:0": s}, {
        "Actor/eval/scaled_a:0": 2 * a, "Critic/eval/dense/BiasAdd:0": q})
    _, d = critic.backward(np.full((BATCH, 1), -1 / BATCH))
    grads, _ = policy.backward(d * 2 * (1 - a * a))
    m.training("ddpg, actor", {"s:0": s}, "Adam_1", adam(
        m.variables, policy.names, grads, "", ["beta1_power_1", "beta2_power_1"], 1e-3))

    next_a = 2 * np.tanh(actor("target").forward(s_))
    y = r + 0.9 * DdpgCritic(m.variables, "Critic/target").forward(s_, next_a)
    q = critic.forward(s, played)
    feeds = {"s:0": s, "s_:0": s_, "r:0": r, "Actor/eval/scaled_a:0": played}
    m.forward("ddpg, critic's loss", feeds,
              {"mean_squared_error/value:0": np.mean((q - y) ** 2)})
    grads, _ = critic.backward(2 * (q - y) / BATCH)
    m.training("ddpg, critic", feeds, "Adam", adam(
        m.variables, critic.names, grads, "", ["beta1_power", "beta2_power"], 1e-3))
    return m.ok


def check_actor_critic(program, folder):
    """Tic-tac-toe by advantage actor-critic: TensorFlow 1.10."""
    m = Model(program, folder, "12-EpicDuckPotato-TicTacToe_PolicyGradient/"
              "trained_models/tic_tac_toe_actor_nobad_a2c")
    actor = Layers(m.variables, [["dense/kernel", "dense/bias"],
                                 ["dense_1/kernel", "dense_1/bias"]])
    critic = Layers(m.variables, [[f"dense_{i}/{p}" for p in ("kernel", "bias")]
                                  for i in (2, 3, 4)])
    boards, values = m.normal(BATCH, 9), m.normal(BATCH, 9)
    policy = softmax(actor.forward(boards))
    m.forward("actor-critic, actor", {"states:0": boards}, {"policy:0": policy})

    q = critic.forward(boards)
    feeds = {"states_1:0": boards, "Placeholder:0": values}
    m.forward("actor-critic, critic", feeds, {
        "action_values:0": q, "mean_squared_error/value:0": np.mean((q - values) ** 2)})
    grads, _ = critic.backward(2 * (q - values) / q.size)
    m.training("actor-critic, critic", feeds, "Adam", adam(
        m.variables, critic.names, grads, "", ["beta1_power", "beta2_power"], 1e-3))

    # The actor's step is one of gradient descent: d log(p) of the actions played, which
    # the graph picks by tf.boolean_mask.
    boards, rows = m.normal(5 * BATCH, 9), np.arange(5 * BATCH)
    policy = softmax(actor.forward(boards))
    played = m.rng.integers(0, 9, len(rows)).astype(np.int32)
    advantage = m.normal(len(rows))
    d = np.zeros_like(policy)
    d[rows, played] = -advantage / (policy[rows, played] + 1e-9)
    grads, _ = actor.backward(policy * (d - (d * policy).sum(1, keepdims=True)))
    after = dict(m.variables)
    after.update({n: m.variables[n] - 1e-3 * g for n, g in zip(actor.names, grads)})
    m.training("actor-critic, actor", {"states:0": boards, "action:0": played,
                                       "advantage:0": advantage},
               "GradientDescent", after)
    return m.ok


if __name__ == "__main__":
    folder = tf_files.shared_checkpoints()
    sys.exit(not all([check(sys.argv[1], folder)
                      for check in (check_maddpg, check_ddpg, check_actor_critic)]))
