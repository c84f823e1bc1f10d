#!/usr/bin/python3
"""One update of real agents against an independent computation of the recipe.

dump_maddpg makes a few updates of a team and writes the data of the next one: variables
before, rows, weights and noise, variables after, scalars. This script computes the same
update with NumPy in float64, layer by layer with hand-written gradients, from the recipe:

(1) the rows are given; (2) every agent's target policy proposes at its own next
observation, softmax((logits + Gumbel) / temperature) per head over what is possible there,
or tanh scaled to the bounds, and nothing where its task is over;
(3) y = r + discount (1 - terminated) Q'(all next observations, all proposals);
(4) critic loss = mean of w (Q - y)^2; (5) policy with the critic just updated: own action
anew, others' as stored, loss = -mean Q + penalty mean(raw^2, 0 where it is not possible),
gradient into the policy only; (6) t = (1 - polyak) t + polyak v. Each variable's gradient is
clipped by its own norm, or all by the common one. All variables, slots, targets and scalars
agree in 1e-5.
"""
import subprocess
import sys

try:
    import msgpack
    import numpy as np
except ImportError as e:
    print(f"skipped: {e}")
    sys.exit(77)

TOLERANCE = 1e-5
FLT_MIN = float(np.finfo(np.float32).tiny)
DTYPES = {1: np.float32, 3: np.int32, 9: np.int64}

RATES = "optimizer: {learning_rate: 0.01}"
CASES = [
    ("as shipped", "{" + RATES + "}", "moves", {}),
    ("two heads, soft, temperature, global clipping",
     "{settings: {execute: soft, temperature: 0.7, clip_by: global}, polyak: 0.1, "
     + RATES + "}", "heads", {}),
    ("first users' critic",
     "{critic: {hidden: [128, 32], activation: leaky_relu, after_action: [64], "
     "output_init: 0.003}, actor: {hidden: [32, 32, 32], activation: tanh}, "
     "discount: 0.5, clip_norm: none, " + RATES + "}", "moves",
     {"join_at": 2, "critic": "leaky_relu", "actor": "tanh"}),
    ("local critics, rmsprop and momentum",
     "{critic: {input: own, optimizer: {type: rmsprop, learning_rate: 0.001, "
     "momentum: 0.5}}, actor: {optimizer: {type: momentum, learning_rate: 0.1, "
     "momentum: 0.9}}}", "moves",
     {"critic_optimizer": ("RMSProp", {"decay": 0.9, "momentum": 0.5, "epsilon": 1e-10}),
      "actor_optimizer": ("Momentum", {"momentum": 0.9})}),
    ("deterministic policy", "{" + RATES + "}", "box", {}),
    ("ddpg", "{algorithm: ddpg, " + RATES + "}", "moves", {}),
    ("masks", "{" + RATES + "}", "masked", {}),
    ("ddpg with masks", "{algorithm: ddpg, settings: {logit_penalty: 0.5}, "
     + RATES + "}", "masked", {}),
]


def decode(x):
    """Converts tensors [dtype, [dims], bytes] to float64 arrays, in maps and lists, too."""
    if isinstance(x, list) and len(x) == 3 and isinstance(x[2], bytes):
        a = np.frombuffer(x[2], DTYPES[x[0]]).reshape(x[1])
        return a.astype(np.float64)
    if isinstance(x, list):
        return [decode(y) for y in x]
    if isinstance(x, dict):
        return {k: decode(v) for k, v in x.items()}
    return x


class Net:
    """Fully connected layers; the action joins the input of layer `join_at`."""

    ACTIVATIONS = {
        "relu": (lambda x: np.maximum(x, 0), lambda x, y: (x > 0) * 1.0),
        "leaky_relu": (lambda x: np.where(x > 0, x, 0.2 * x),
                       lambda x, y: np.where(x > 0, 1.0, 0.2)),
        "tanh": (np.tanh, lambda x, y: 1 - y * y),
    }

    def __init__(self, variables, scope, activation, join_at=0):
        self.names = [n for n in variables if n.startswith(scope)]
        values = [variables[n] for n in self.names]
        self.layers = list(zip(values[::2], values[1::2]))
        self.f, self.df = self.ACTIVATIONS[activation]
        self.join_at = join_at

    def forward(self, x, action=None):
        self.trace = []
        for i, (w, b) in enumerate(self.layers):
            if action is not None and i == self.join_at:
                x = np.concatenate([x, action], 1)
            z = x @ w + b
            y = z if i == len(self.layers) - 1 else self.f(z)
            self.trace.append((x, z, y))
            x = y
        return x

    def backward(self, d, n_action=0):
        """(gradients in the order of names, gradient of the action)"""
        grads, d_action = [], None
        for i in reversed(range(len(self.layers))):
            x, z, y = self.trace[i]
            if i < len(self.layers) - 1:
                d = d * self.df(z, y)
            grads = [x.T @ d, d.sum(0)] + grads
            d = d @ self.layers[i][0].T
            if n_action and i == self.join_at:
                d_action = d[:, -n_action:]
                d = d[:, :-n_action]
        return grads, d_action


def heads_of(x, heads):
    return np.split(x, np.cumsum(heads)[:-1], 1)


def opened(mask, heads):
    """The mask, with heads for which nothing is allowed counted as entirely allowed."""
    return np.concatenate([np.where(h.any(1, keepdims=True), h, 1)
                           for h in heads_of(mask, heads)], 1)


class Policy:
    def __init__(self, net, space, temperature):
        self.net, self.space, self.temperature = net, space, temperature

    def act(self, obs, noise, mask=None):
        self.raw = self.net.forward(obs)
        self.possible = np.ones_like(self.raw) if mask is None else \
            opened(mask, self.space["heads"])
        if not self.space["heads"]:
            low, high = self.space["low"], self.space["high"]
            self.tanh = np.tanh(self.raw)
            self.action = low + (self.tanh + 1) * (high - low) / 2
            return self.action
        u = noise * (1 - FLT_MIN) + FLT_MIN
        x = (self.raw - np.log(-np.log(u))) / self.temperature
        x = np.where(self.possible, x, -np.inf)
        parts = []
        for h in heads_of(x, self.space["heads"]):
            e = np.exp(h - h.max(1, keepdims=True))
            parts.append(e / e.sum(1, keepdims=True))
        self.action = np.concatenate(parts, 1)
        return self.action

    def backward(self, d_action):
        """Gradient of the values before softmax or tanh."""
        if not self.space["heads"]:
            half = (self.space["high"] - self.space["low"]) / 2
            return d_action * half * (1 - self.tanh ** 2)
        parts = []
        for d, a in zip(heads_of(d_action, self.space["heads"]),
                        heads_of(self.action, self.space["heads"])):
            parts.append(a * (d - (d * a).sum(1, keepdims=True)))
        return np.concatenate(parts, 1) / self.temperature


def clip(grads, clip_norm, by_global):
    norm = np.sqrt(sum((g ** 2).sum() for g in grads))
    if clip_norm == 0:
        return grads, norm
    if by_global:
        return [g * min(1.0, clip_norm / norm) for g in grads], norm
    norms = [np.sqrt((g ** 2).sum()) for g in grads]
    return [g * clip_norm / max(n, clip_norm) for g, n in zip(grads, norms)], norm


ADAM = ("Adam", {"beta1": 0.9, "beta2": 0.999, "epsilon": 1e-8})


def optimize(variables, agent, names, grads, rate, optimizer, powers):
    """Writes the new values of variables, slots and powers into `variables`."""
    kind, o = optimizer
    for name, g in zip(names, grads):
        slot, second = f"{agent}/{name}/{kind}", f"{agent}/{name}/{kind}_1"
        if kind == "Adam":
            b1, b2 = variables[f"{powers}/beta1_power"], variables[f"{powers}/beta2_power"]
            m = o["beta1"] * variables[slot] + (1 - o["beta1"]) * g
            v = o["beta2"] * variables[second] + (1 - o["beta2"]) * g * g
            step = rate * np.sqrt(1 - b2) / (1 - b1) * m / (np.sqrt(v) + o["epsilon"])
            variables[slot], variables[second] = m, v
        elif kind == "RMSProp":
            v = o["decay"] * variables[slot] + (1 - o["decay"]) * g * g
            step = o["momentum"] * variables[second] + rate * g / np.sqrt(v + o["epsilon"])
            variables[slot], variables[second] = v, step
        else:
            m = o["momentum"] * variables[slot] + g
            step = rate * m
            variables[slot] = m
        variables[name] = variables[name] - step
    if kind == "Adam":
        variables[f"{powers}/beta1_power"] = b1 * o["beta1"]
        variables[f"{powers}/beta2_power"] = b2 * o["beta2"]


def rate_of(variables, agent, net):
    own = f"{agent}/hyperparameters/{net}/optimizer/learning_rate"
    return variables.get(own, variables[f"{agent}/hyperparameters/optimizer/learning_rate"])


def expected_update(data, case):
    """Each agent's variables and scalars after the update."""
    agents = data["agents"][: len(data["agents"]) // 2]
    own_critic = data["own_critic"] or data["algorithm"] == "ddpg"
    live = {a["name"]: {k.split("hyperparameters/")[1]: v
                        for k, v in a["variables"].items() if "/hyperparameters/" in k}
            for a in agents}
    proposals = {}
    for a in agents:
        policy = Policy(Net(a["variables"], a["name"] + "/target_p_func/",
                            case.get("actor", "relu")), data,
                        live[a["name"]]["settings/temperature"])
        proposals[a["name"]] = policy.act(a["rows"]["next_obs"],
                                          a["rows"].get("next_noise"),
                                          a["rows"].get("next_allowed"))
        proposals[a["name"]] = proposals[a["name"]] * (1 - a["rows"]["terminated"])
    results = []
    for a in agents:
        name, v, h = a["name"], dict(a["variables"]), live[a["name"]]
        seen = [a] if own_critic else agents
        act_at = [b["name"] for b in seen].index(name)
        obs = np.concatenate([b["rows"]["obs"] for b in seen], 1)
        next_obs = np.concatenate([b["rows"]["next_obs"] for b in seen], 1)
        actions = [b["rows"]["action"] for b in seen]
        n_action = sum(x.shape[1] for x in actions)
        width, batch = actions[act_at].shape[1], len(obs)
        critic_args = (case.get("critic", "relu"), case.get("join_at", 0))

        target = Net(v, name + "/target_q_func/", *critic_args)
        next_q = target.forward(next_obs,
                                np.concatenate([proposals[b["name"]] for b in seen], 1))
        y = a["rows"]["reward"] + h["discount"] * (1 - a["rows"]["terminated"]) * next_q

        critic = Net(v, name + "/q_func/", *critic_args)
        q = critic.forward(obs, np.concatenate(actions, 1))
        grads, _ = critic.backward(2 * data["weights"] * (q - y) / batch, n_action)
        scalars = {"critic_loss": (data["weights"] * (q - y) ** 2).mean(),
                   "td_error": np.abs(q - y)[data["weights"] != 0].mean(),
                   "critic_learning_rate": rate_of(v, name, "critic"),
                   "actor_learning_rate": rate_of(v, name, "actor"),
                   "q_mean": q.mean(), "target_q_mean": y.mean(), "target_q_std": y.std()}
        grads, scalars["critic_grad_norm"] = clip(grads, h["clip_norm"],
                                                  data["clip_by_global"])
        optimize(v, name, critic.names, grads, rate_of(v, name, "critic"),
                 case.get("critic_optimizer", ADAM), name)

        policy = Policy(Net(v, name + "/p_func/", case.get("actor", "relu")), data,
                        h["settings/temperature"])
        actions[act_at] = policy.act(a["rows"]["obs"], a["rows"].get("noise"),
                                     a["rows"].get("allowed"))
        critic = Net(v, name + "/q_func/", *critic_args)
        q = critic.forward(obs, np.concatenate(actions, 1))
        _, d_action = critic.backward(np.full((batch, 1), -1 / batch), n_action)
        begin = sum(x.shape[1] for x in actions[:act_at])
        penalty = h["settings/logit_penalty"]
        d_raw = policy.backward(d_action[:, begin:begin + width])
        possible = policy.raw * policy.possible
        d_raw = d_raw + penalty * 2 * possible / possible.size
        grads, _ = policy.net.backward(d_raw)
        scalars["actor_loss"] = -q.mean() + penalty * (possible ** 2).mean()
        grads, scalars["actor_grad_norm"] = clip(grads, h["clip_norm"],
                                                 data["clip_by_global"])
        optimize(v, name, policy.net.names, grads, rate_of(v, name, "actor"),
                 case.get("actor_optimizer", ADAM), name + "_1")

        for n in v:
            if n.startswith((name + "/target_q_func/", name + "/target_p_func/")):
                source = n.replace("/target_", "/")
                v[n] = (1 - h["polyak"]) * v[n] + h["polyak"] * v[source]
        results.append({"variables": v, "scalars": scalars})
    return results


def difference(got, want):
    got, want = np.asarray(got), np.asarray(want)
    return float((np.abs(got - want) / np.maximum(1, np.abs(want))).max())


def check(dumper, title, config, space, case):
    out = subprocess.run([dumper, config, space], stdout=subprocess.PIPE, check=True).stdout
    data = decode(msgpack.unpackb(out[4:], strict_map_key=False)[2])
    n = len(data["agents"]) // 2
    worst, moved = (0.0, ""), 0.0
    for before, got, want in zip(data["agents"][:n], data["agents"][n:],
                                 expected_update(data, case)):
        for part in ("variables", "scalars"):
            assert set(got[part]) == set(want[part]), set(got[part]) ^ set(want[part])
            for k in got[part]:
                d = difference(got[part][k], want[part][k])
                worst = max(worst, (d, f"{before['name']}: {k}"))
        moved += sum(difference(got["variables"][k], x)
                     for k, x in before["variables"].items())
    ok = worst[0] <= TOLERANCE and moved > 0.01
    print(f"{'ok' if ok else 'FAILED'}: {title}: largest difference {worst[0]:.2e} "
          f"({worst[1]})")
    return ok


if __name__ == "__main__":
    results = [check(sys.argv[1], *c) for c in CASES]
    sys.exit(not all(results))
