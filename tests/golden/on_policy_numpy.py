#!/usr/bin/python3
"""Updates of recurrent policies against NumPy: PPO over chunks of a window, a GRU trained
through time, observations normalised by what was seen, or seen as entities.

Each case is a run that keeps its log and a checkpoint of every update. From the checkpoint
before an update and the rows of its window, this script makes the update anew in float64, as
the papers have it: acting step by step (Cho et al. 2014, torch.nn.GRUCell), generalised
advantages (Schulman et al. 2016, equation 16), the clipped losses (Schulman et al. 2017,
equation 7; Yu et al. 2022), Adam as TensorFlow has it, and the statistics of observations by
numpy.mean and numpy.var. A recurrent critic is unrolled from the first window on, each with the
checkpoint that it was played with. What the policy carried, the log-probabilities of its actions, all
variables with their slots, statistics, and reported numbers agree in 1e-5. One case has hybrid
actions with masks: the probability of a choice times the density of two normal numbers.

Gradients come from a tape of NumPy operations, which knows nothing of brood's graphs.
"""
import csv
import functools
import json
import pathlib
import re
import sys
import tempfile

import tf_files
import numpy as np

import rng_numpy as rng
from steps_numpy import brood, prefix, read_log

tf_files.DTYPES[2] = np.float64
TOLERANCE = 1e-5
SEED, COPIES, STEPS = 4, 8, 33  # episodes of 25 steps end inside a window
ROWS = COPIES * STEPS
DISCOUNT, GAE, CLIP, CLIP_NORM, ENTROPY, RATE = 0.9, 0.8, 0.1, 0.2, 0.02, 0.003
BETA1, BETA2, EPSILON = 0.9, 0.999, 1e-5
OWN, K, WIDTH, HEADS = 4, 5, 5, 2  # numbers of its own, entities, their numbers, heads

SOURCE = pathlib.Path(__file__).resolve().parents[2]
SPREAD = "id: simple_spread"
GOALS = f"""command: {json.dumps(["python3", str(SOURCE / "scripts/pettingzoo_bridge.py"),
                                 str(SOURCE / "tests/support/goals.py")])},
      params: {{agents: 3, steps: 25, masked: true}}, verify: false"""
CONFIG = """
env: {{{env}, reward: team_mean, copies: 8}}
run: {{env_steps: 792, seed: 4}}
experience: {{update_every: 264, keep: true}}
checkpoint: {{every_env_steps: 264, max_to_keep: none}}
evaluation: {{every_env_steps: 0}}
log: {{every_env_steps: 264}}
defaults:
  algorithm: {algorithm}
  discount: 0.9
  clip_norm: 0.2
  optimizer: {{learning_rate: 0.003}}
  actor: {{hidden: [16], activation: tanh{actor}}}
  critic: {{hidden: [11, 9]{critic}}}
  settings: {{recurrent: 12, gae: 0.8, clip_ratio: 0.1, entropy: 0.02, {settings}}}
"""


class Case:
    def __init__(self, algorithm, chunk, epochs, minibatches, **more):
        self.algorithm, self.chunk = algorithm, chunk
        self.epochs, self.minibatches = epochs, minibatches
        self.layer_norm = more.get("layer_norm", False)
        self.normalized = more.get("normalized", False)
        self.scaled = more.get("scaled", True)  # value_norm: running; huber: 10
        self.entities = more.get("entities")  # pools of policy and critic
        self.hybrid = more.get("hybrid", False)  # three choices, two numbers
        self.critic = more.get("critic", 0)  # units of its recurrent layer

    def config(self):
        settings = f"chunk: {self.chunk}, epochs: {self.epochs}, minibatches: {self.minibatches}"
        if self.normalized:
            settings += ", normalize_observations: running"
        if not self.scaled:
            settings += ", value_norm: none, huber: none, advantage_norm: false"
        if self.critic:
            settings += f", recurrent_critic: {self.critic}"
        actor = ", layer_norm: true, init: orthogonal" if self.layer_norm else ""
        env, critic = GOALS if self.hybrid else SPREAD, ""
        if self.entities:
            env += ", observe: entities"
            actor, critic = (f", entities: {{units: [6], pool: {pool}" +
                             (f", heads: {HEADS}}}" if pool == "attention" else "}")
                             for pool in self.entities)
        return CONFIG.format(algorithm=self.algorithm, settings=settings, actor=actor, env=env,
                             critic=critic)


CASES = {
    "ippo, chunks of 10, normalised observations, layer norm":
        Case("ippo", 10, 2, 3, normalized=True, layer_norm=True),
    "mappo, chunks of 33, normalised observations": Case("mappo", 33, 3, 1, normalized=True),
    "mappo, chunks of 7, plain losses": Case("mappo", 7, 2, 2, scaled=False),
    "mappo, entities by attention and max":
        Case("mappo", 33, 1, 2, entities=("attention", "max")),
    "ippo, entities by mean and attention":
        Case("ippo", 33, 1, 1, entities=("mean", "attention")),
    "mappo, chunks of 10, hybrid actions": Case("mappo", 10, 2, 3, hybrid=True),
    "mappo, chunks of 10, recurrent critic, normalised observations":
        Case("mappo", 10, 2, 3, critic=7, normalized=True),
}


# ---- gradients ----

class Number:
    """A node of the tape: a value, and functions that give its inputs their gradients."""
    __array_ufunc__ = None  # an array leaves sums and products with it to the methods below

    def __init__(self, value, *inputs):
        self.value, self.inputs, self.grad = np.asarray(value, np.float64), inputs, 0

    def __add__(self, b):
        return together(np.add, self, b, lambda g, x, y: g, lambda g, x, y: g)

    def __sub__(self, b):
        return together(np.subtract, self, b, lambda g, x, y: g, lambda g, x, y: -g)

    def __rsub__(self, b):
        return number(b) - self

    def __mul__(self, b):
        return together(np.multiply, self, b, lambda g, x, y: g * y, lambda g, x, y: g * x)

    __radd__, __rmul__ = __add__, __mul__

    def __neg__(self):
        return self * -1.0

    def __matmul__(self, b):
        return Number(self.value @ b.value, (self, lambda g: g @ b.value.T),
                      (b, lambda g: self.value.T @ g))

    def __getitem__(self, key):
        def back(g):
            whole = np.zeros_like(self.value)
            whole[key] = g
            return whole
        return Number(self.value[key], (self, back))

    def sum(self, axis=None):
        def back(g):
            return np.broadcast_to(g, self.value.shape)
        return Number(self.value.sum(axis, keepdims=axis is not None), (self, back))


def number(x):
    return x if isinstance(x, Number) else Number(x)


def fold(g, shape):
    """The sum of a gradient over what was broadcast."""
    g = g.sum(tuple(range(g.ndim - len(shape))))
    return g.sum(tuple(i for i, n in enumerate(shape) if n == 1 < g.shape[i]), keepdims=True)


def together(op, a, b, to_a, to_b):
    a, b = number(a), number(b)
    x, y = a.value, b.value
    return Number(op(x, y), (a, lambda g: fold(to_a(g, x, y), x.shape)),
                  (b, lambda g: fold(to_b(g, x, y), y.shape)))


def smaller(a, b):
    return together(np.minimum, a, b, lambda g, x, y: g * (x <= y), lambda g, x, y: g * (x > y))


def larger(a, b):
    return -smaller(-a, -number(b))


def clip(x, low, high):
    return smaller(larger(x, low), high)


def mapped(x, value, slope):
    return Number(value, (x, lambda g: g * slope))


def exp(x):
    y = np.exp(x.value)
    return mapped(x, y, y)


def log(x):
    return mapped(x, np.log(x.value), 1 / x.value)


def tanh(x):
    y = np.tanh(x.value)
    return mapped(x, y, 1 - y * y)


def sigmoid(x):
    y = 1 / (1 + np.exp(-x.value))
    return mapped(x, y, y * (1 - y))


def relu(x):
    return mapped(x, np.maximum(x.value, 0), x.value > 0)


def stacked(xs):
    ends = np.cumsum([len(x.value) for x in xs])
    return Number(np.vstack([x.value for x in xs]),
                  *((x, lambda g, e=e, n=len(x.value): g[e - n:e]) for x, e in zip(xs, ends)))


def beside(xs):
    ends = np.cumsum([x.value.shape[1] for x in xs])
    return Number(np.hstack([x.value for x in xs]),
                  *((x, lambda g, e=e, n=x.value.shape[1]: g[:, e - n:e]) for x, e in zip(xs, ends)))


def descend(loss):
    """Sets the gradients of all numbers that the loss was made of."""
    order, seen = [], set()

    def visit(x):
        stack = [(x, iter(x.inputs))]
        while stack:
            node, inputs = stack[-1]
            step = next(((a, iter(a.inputs)) for a, _ in inputs if id(a) not in seen), None)
            if step is not None:
                seen.add(id(step[0]))
                stack.append(step)
            else:
                order.append(stack.pop()[0])

    visit(loss)
    loss.grad = np.ones_like(loss.value)
    for x in reversed(order):
        for a, back in x.inputs:
            a.grad = a.grad + back(x.grad)


# ---- networks ----

class Networks:
    """Of one agent, over its variables {name: Number}."""
    def __init__(self, case, variables, agent):
        self.case, self.agent = case, agent
        self.v = {n[len(agent) + 1:]: Number(x) for n, x in variables.items()}

    def dense(self, x, scope):
        return x @ self.v[f"{scope}/weights"] + self.v[f"{scope}/biases"]

    def norm(self, x, scope):
        n = x.value.shape[1]
        centred = x - x.sum(1) * (1 / n)
        variance = (centred * centred).sum(1) * (1 / n)
        scaled = centred * exp(log(variance + 1e-5) * -0.5)
        return scaled * self.v[f"{scope}/gamma"] + self.v[f"{scope}/beta"]

    def seen(self, x):
        """Observations as the networks see them."""
        if not self.case.normalized:
            return number(x)
        n = x.shape[1]
        mean, scale = (self.v[f"observation_norm/{k}"].value[:n] for k in ("mean", "scale"))
        return number(np.clip((x - mean) * scale, -10, 10))

    def attend(self, own, h, scope):
        """Vaswani et al. 2017, equation 1; a query from the own numbers, values as in Iqbal and
        Sha 2019, equation 6."""
        d, heads = h[0].value.shape[1] // HEADS, []
        query = own @ self.v[f"{scope}/query/weights"]
        keys = [x @ self.v[f"{scope}/key/weights"] for x in h]
        values = [self.activation(scope)(self.dense(x, f"{scope}/value")) for x in h]
        for at in (slice(i * d, (i + 1) * d) for i in range(HEADS)):
            weights = [exp((k * query)[:, at].sum(1) * d ** -0.5) for k in keys]
            total = sum(weights, number(0.0))
            heads.append(sum((v[:, at] * w for v, w in zip(values, weights)), number(0.0))
                         * exp(-log(total)))
        return beside(heads)

    @staticmethod
    def activation(scope):
        return tanh if scope.startswith("p_func") else relu

    def entities(self, x, net, pool):
        """Each agent's own numbers, and its entities as one vector (Zaheer et al. 2017)."""
        parts, scope = [], f"{net}/entities"
        for seen in np.split(x, x.shape[1] // (OWN + K * WIDTH), axis=1):
            own, each = number(seen[:, :OWN]), seen[:, OWN:].reshape(len(x), K, WIDTH)
            assert (each[:, :, -1] == 1).all()  # all are there
            h = [self.activation(scope)(self.dense(number(each[:, i, :-1]),
                                                   f"{scope}/fully_connected")) for i in range(K)]
            if pool == "attention":
                parts += [own, self.attend(own, h, scope)]
            elif pool == "mean":
                parts += [own, sum(h, number(0.0)) * (1 / K)]
            else:
                parts += [own, functools.reduce(larger, h)]
        return beside(parts)

    def critic_hidden(self, state):
        x = self.seen(state)
        if self.case.entities:
            x = self.entities(state, "v_func", self.case.entities[1])
        x = relu(self.dense(x, "v_func/fully_connected"))
        return relu(self.dense(x, "v_func/fully_connected_1"))

    def value(self, state, h=None):
        """h: what a recurrent critic carries into the step."""
        x = self.critic_hidden(state)
        if self.case.critic:
            x = self.cell(x, number(h), "v_func")
        return self.dense(x, "v_func/fully_connected_2")

    def unroll(self, x, h, first, each):
        """The outputs of a cell over hidden layers x, `each` sequences side by side in the order of
        time; scope v_func."""
        outputs = []
        for k in range(len(first) // each):
            at = slice(k * each, (k + 1) * each)
            h = self.cell(x[at], h * (1 - first[at]), "v_func")
            outputs.append(h)
        return stacked(outputs)

    def before_cell(self, obs):
        x = self.seen(obs)
        if self.case.entities:
            x = self.entities(obs, "p_func", self.case.entities[0])
        if self.case.layer_norm:
            x = self.norm(x, "p_func/LayerNorm")
        x = tanh(self.dense(x, "p_func/fully_connected"))
        return self.norm(x, "p_func/LayerNorm_1") if self.case.layer_norm else x

    def cell(self, x, h, net="p_func"):
        def gates(y, kind):
            y = y @ self.v[f"{net}/gru/weight_{kind}"] + self.v[f"{net}/gru/bias_{kind}"]
            n = y.value.shape[1] // 3
            return [y[:, n * i:n * (i + 1)] for i in range(3)]

        (ir, iz, i_n), (hr, hz, hn) = gates(x, "ih"), gates(h, "hh")
        r, z = sigmoid(ir + hr), sigmoid(iz + hz)
        return (1.0 - z) * tanh(i_n + r * hn) + z * h

    def after_cell(self, h, taken, allowed):
        """Log-probabilities of what was taken, and entropies: of a choice, and of the numbers
        beside it, if there are any."""
        h = self.norm(h, "p_func/LayerNorm_2") if self.case.layer_norm else h
        x = self.dense(h, "p_func/fully_connected_1")
        n = allowed.shape[1] if self.case.hybrid else x.value.shape[1]
        mean = x[:, n:]
        x = x[:, :n] - 1e8 * (1 - allowed[:, :n])
        x = x - x.value.max(1, keepdims=True)
        x = x - log(exp(x).sum(1))
        log_prob, entropy = (x * taken[:, :n]).sum(1), -(exp(x) * x).sum(1)
        if self.case.hybrid:
            log_std, log_2_pi = self.v["p_func/log_std"], np.log(2 * np.pi)
            z = (number(taken[:, n:]) - mean) * exp(-log_std)
            log_prob = log_prob - (z * z * 0.5 + log_std + log_2_pi / 2).sum(1)
            entropy = entropy + (log_std + (1 + log_2_pi) / 2).sum()
        return log_prob, entropy


# ---- an update ----

class Window:
    """An update's rows, (n, .) with n = E T in the order (copy, time)."""
    def __init__(self, run, update, agent, case):
        agents = [f"agent_{i}" for i in range(3)]
        joint = [agent] + [a for a in agents if a != agent]
        rows = update * ROWS + np.arange(ROWS).reshape(STEPS, COPIES).T.ravel()
        log = {k: v.astype(np.float64) for k, v in read_log(run, rows).items()}
        if case.algorithm == "ippo":
            joint = [agent]
        self.state, self.next_state = (np.hstack([log[f"{a}/{c}"] for a in joint])
                                       for c in ("obs", "next_obs"))
        drawn = "sample" if case.hybrid else "action"
        self.obs, self.action, self.reward, self.terminated, self.old_log_prob, self.carry = (
            log[f"{agent}/{c}"]
            for c in ("obs", drawn, "reward", "terminated", "log_prob", "carry"))
        self.allowed = log[f"{agent}/allowed"][:, :3] if case.hybrid else np.ones((ROWS, 5))
        self.first = log["first"]


def play(nets, w):
    """Log-probabilities of the actions, and what was carried into each step, from the carry at
    the window's start: step by step, copies side by side."""
    h, carried, probs = number(w.carry.reshape(COPIES, STEPS, -1)[:, 0]), [], []
    for t in range(STEPS):
        at = slice(t, ROWS, STEPS)
        h = number(h.value * (1 - w.first[at]))
        carried.append(h.value)
        h = nets.cell(nets.before_cell(w.obs[at]), h)
        probs.append(nets.after_cell(h, w.action[at], w.allowed[at])[0].value)
    order = np.arange(ROWS).reshape(STEPS, COPIES).T.ravel()
    return np.vstack(probs)[order], np.vstack(carried)[order]


def critic_carries(nets, w, h):
    """What a recurrent critic carries into each row of the window, and behind it."""
    time = np.arange(ROWS).reshape(COPIES, STEPS).T.ravel()  # rows in the order of time
    order = np.arange(ROWS).reshape(STEPS, COPIES).T.ravel()
    after = nets.unroll(nets.critic_hidden(w.state[time]), number(h), w.first[time], COPIES).value
    into = np.vstack([h, after[:-COPIES]]) * (1 - w.first[time])
    return into[order], after[order]


class ValueScale:
    def __init__(self, statistics):
        m1, m2, debias = statistics if statistics is not None else (0, 1, 1)
        self.mean = m1 / max(debias, 1e-5)
        self.deviation = max(m2 / max(debias, 1e-5) - self.mean ** 2, 0.01) ** 0.5


def advantages(w, value, next_value):
    """Schulman et al. 2016, backwards in time."""
    found = np.zeros((ROWS, 1))
    for i in reversed(range(ROWS)):
        goes_on = (i + 1) % STEPS and not w.first[i + 1, 0]
        delta = w.reward[i] + DISCOUNT * (1 - w.terminated[i]) * (
            value[i + 1] if goes_on else next_value[i]) - value[i]
        found[i] = delta + (DISCOUNT * GAE * found[i + 1] if goes_on else 0)
    return found


def permutation(key, counter, n):
    order = np.zeros(n, int)
    for i in range(n):
        j = rng.below(key, counter, i, i + 1, 1)[0]
        order[i], order[j] = order[j], i
    return order


def mean_of(x, there):
    return (x * (there / there.sum())).sum()


def half_square(error, bound):
    """Half the square; beyond the bound linear (Huber)."""
    inside = clip(error, -bound, bound)
    return inside * (error - inside * 0.5)


def rows_of(case, chunks):
    """The rows of chunks in the order of time, (steps, chunks), and whether they are there."""
    each = -(-STEPS // case.chunk)
    t = np.array([[c // each * STEPS + c % each * case.chunk + t for c in chunks]
                  for t in range(case.chunk)])
    there = np.array([[c % each * case.chunk + t < STEPS for c in chunks]
                      for t in range(case.chunk)])
    # padding is a copy of some row that counts 0
    return np.where(there, t, 0).ravel(), there.reshape(-1, 1).astype(float)


def actor_loss(nets, case, w, chunks, advantage):
    """Of the policy over the rows of some chunks; and what is reported."""
    place, there = rows_of(case, chunks)
    h, outputs = number(w.carry[place[:len(chunks)]]), []
    x = nets.before_cell(w.obs[place])
    for k in range(case.chunk):
        at = slice(k * len(chunks), (k + 1) * len(chunks))
        h = nets.cell(x[at], h * (1 - w.first[place[at]]))
        outputs.append(h)
    log_prob, entropy = nets.after_cell(stacked(outputs), w.action[place], w.allowed[place])
    ratio = exp(log_prob - w.old_log_prob[place])
    gain = smaller(ratio * advantage[place], clip(ratio, 1 - CLIP, 1 + CLIP) * advantage[place])
    entropy = mean_of(entropy, there)
    loss = -(mean_of(gain, there) + entropy * ENTROPY)
    d = log_prob.value - w.old_log_prob[place]
    kl = ((np.exp(d) - 1 - d) * there).sum() / there.sum()
    clipped = ((abs(np.exp(d) - 1) > CLIP) * there).sum() / there.sum()
    return loss, [loss.value, entropy.value, kl, clipped]


def critic_loss(nets, case, w, rows, returns, old_value, carries):
    """rows: single ones, or chunks of a recurrent critic."""
    bound, there = 10.0 if case.scaled else 1e9, np.ones((len(rows), 1))
    if case.critic:
        n = len(rows)
        rows, there = rows_of(case, rows)
        h = nets.unroll(nets.critic_hidden(w.state[rows]), number(carries[rows[:n]]),
                        w.first[rows], n)
        value = nets.dense(h, "v_func/fully_connected_2")
    else:
        value = nets.value(w.state[rows])
    near = clip(value - old_value[rows], -CLIP, CLIP) + old_value[rows]
    error = larger(half_square(returns[rows] - value, bound),
                   half_square(returns[rows] - near, bound))
    return mean_of(error, there)


def adam(variables, agent, nets, loss, scope, power):
    """One step, clipped by the norm of all gradients (TensorFlow's form of Kingma, Ba 2015).
    Returns the norm."""
    descend(loss)
    names = [n for n in nets.v if n.startswith(scope)]
    norm = np.sqrt(sum((nets.v[n].grad ** 2).sum() for n in names))
    b1, b2 = f"{agent}/beta1_power{power}", f"{agent}/beta2_power{power}"
    rate = RATE * np.sqrt(1 - variables[b2]) / (1 - variables[b1])
    for n in names:
        x = f"{agent}/{n}"
        g = nets.v[n].grad * CLIP_NORM / max(norm, CLIP_NORM)
        m, v = f"{agent}/{x}/Adam", f"{agent}/{x}/Adam_1"
        variables[m] = BETA1 * variables[m] + (1 - BETA1) * g
        variables[v] = BETA2 * variables[v] + (1 - BETA2) * g * g
        variables[x] = variables[x] - rate * variables[m] / (np.sqrt(variables[v]) + EPSILON)
    variables[b1], variables[b2] = variables[b1] * BETA1, variables[b2] * BETA2
    return norm


def count(variables, agent, seen):
    """The statistics of all observations so far; seen (rows, S)."""
    scope = f"{agent}/observation_norm"
    mean, variance = seen.mean(0), seen.var(0)
    variables[f"{scope}/statistics"] = np.concatenate([[len(seen)], mean, variance * len(seen)])
    variables[f"{scope}/mean"], variables[f"{scope}/scale"] = mean, (variance + 1e-8) ** -0.5


def update(case, variables, agent, number_of, run):
    """Changes the variables; returns what the agent reported."""
    w = Window(run, number_of, agent, case)
    statistics = f"{agent}/value_norm/statistics"
    nets = Networks(case, variables, agent)
    played = play(nets, w)
    for got, want in zip((w.old_log_prob, w.carry), played):
        assert np.abs(got - want).max() < TOLERANCE, (agent, np.abs(got - want).max())

    into = after = None
    if case.critic:
        h = np.zeros((COPIES, case.critic))
        for k in range(number_of):
            of_then = tf_files.read_checkpoint(prefix(run, k * ROWS, agent))
            h = critic_carries(Networks(case, of_then, agent), Window(run, k, agent, case),
                               h)[1][STEPS - 1::STEPS]
        into, after = critic_carries(nets, w, h)
    old_value = nets.value(w.state, into).value
    was = ValueScale(variables.get(statistics))
    value = old_value * was.deviation + was.mean
    advantage = advantages(w, value, nets.value(w.next_state, after).value * was.deviation + was.mean)
    returns = advantage + value
    explained = 1 - (returns - value).var() / returns.var()
    if case.scaled:
        keep = 0.99999 ** (case.epochs * case.minibatches)
        variables[statistics] = keep * variables[statistics] + (1 - keep) * np.array(
            [returns.mean(), (returns ** 2).mean(), 1])
        advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-5)
        now = ValueScale(variables[statistics])
        returns = (returns - now.mean) / now.deviation

    key, reported = rng.make_key(SEED, agent, "permutation"), []
    for epoch in range(case.epochs):
        orders = [permutation(key, number_of * case.epochs + epoch, n)
                  for n in (COPIES * -(-STEPS // case.chunk), ROWS)]
        for k in range(case.minibatches):
            chunks, rows = (x[k * len(x) // case.minibatches:
                              (k + 1) * len(x) // case.minibatches] for x in orders)
            nets = Networks(case, variables, agent)
            actor, scalars = actor_loss(nets, case, w, chunks, advantage)
            critic = critic_loss(nets, case, w, chunks if case.critic else rows, returns,
                                 old_value, into)
            reported.append([*scalars, critic.value,
                             adam(variables, agent, nets, actor, "p_func/", ""),
                             adam(variables, agent, nets, critic, "v_func/", "_1")])
    if case.normalized:
        before = [Window(run, u, agent, case) for u in range(number_of + 1)]
        count(variables, agent, np.vstack([x.state for x in before]))
    return np.append(np.mean(reported, 0), explained)


# ---- comparing ----

SCALARS = ("actor_loss", "entropy", "approx_kl", "clip_fraction", "critic_loss",
           "actor_grad_norm", "critic_grad_norm", "explained_variance")


def difference(name, got, want):
    """Of a variable, in parts of its largest element, or of 0.01, some steps of the optimiser; of a
    slot, in those of the network's: its gradients were clipped by one norm. Second moments by
    their roots."""
    kind = re.search("(p_func|v_func)/.*/(Adam|Adam_1)$", name)
    same = [name] if kind is None else [
        n for n in want if kind[1] in n and n.endswith(f"/{kind[2]}")]
    size = max(np.abs(want[n]).max() for n in same)
    if kind is None:
        return np.abs(got[name] - want[name]).max() / max(size, 0.01)
    if kind[2] == "Adam":
        return np.abs(got[name] - want[name]).max() / size
    return np.abs(np.sqrt(got[name]) - np.sqrt(want[name])).max() / np.sqrt(size)


def check(folder, title, case):
    folder.mkdir()
    (folder / "run.yaml").write_text(case.config())
    brood(folder, "run", "run.yaml", "--name", "a", "-q")
    run, worst, moved = folder / "runs" / "a", (0, ""), 0
    with open(run / "metrics" / "progress.csv", newline="") as f:
        lines = list(csv.DictReader(f))
    for u, agent in enumerate(("agent_0", "agent_1", "agent_2")):
        before = tf_files.read_checkpoint(prefix(run, u * ROWS, agent))
        after = tf_files.read_checkpoint(prefix(run, (u + 1) * ROWS, agent))
        made = {n: x.astype(np.float64) for n, x in before.items()}
        scalars = update(case, made, agent, u, run)
        assert made.keys() == after.keys(), made.keys() ^ after.keys()
        found = [(difference(n, made, after), n) for n in after]
        for name, x in zip(SCALARS, scalars):
            text = lines[u][f"train/{agent}/{name}"]
            found.append((abs(float(text) - x) / max(abs(x), 1e-2), name))
        worst = max(worst, *found)
        moved += sum(not np.array_equal(before[n], after[n]) for n in after)
    if case.layer_norm:
        first = tf_files.read_checkpoint(prefix(run, 0, "agent_0"))
        w, b = (first[f"agent_0/p_func/gru/{n}_hh"] for n in ("weight", "bias"))
        assert np.abs(w @ w.T - np.eye(12)).max() < TOLERANCE and not b.any(), (w, b)
    good = worst[0] <= TOLERANCE and moved > 0
    print(f"{'ok' if good else 'FAILED'}: {title}: {moved} variables moved, largest difference "
          f"{worst[0]:.1e} ({worst[1]})")
    return good


def main():
    with tempfile.TemporaryDirectory() as folder:
        good = [check(pathlib.Path(folder) / str(i), *case)
                for i, case in enumerate(CASES.items())]
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main())
