#!/usr/bin/python3
"""Compare what checkpoints' `.meta` files compute with what the run computed.

Runs of every algorithm with every optimiser get other live settings while they go on, and
keep a checkpoint of every update. From the files of one checkpoint and the batch,
graph_numpy makes the next update in NumPy, which must give the variables of the next
checkpoint. So training an exported graph in TensorFlow makes the same steps as the run.

Parts without a node in the graph are computed here as the algorithms' headers define them:
the rows drawn, the targets y = r + discount (1 - terminated) Q', and the trials of
accept_reject. Their settings are the initial values of the graph's hyperparameters. Critics
that a client trains have nodes for everything.
"""
import contextlib
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

import tf_files
import numpy as np

import rng_numpy as rng
from graph_numpy import Graph

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent.parent / "scripts"))
import drive_critics

CRITICS = HERE.parent.parent / "configs" / "node_critics.yaml"
BUILD = pathlib.Path(os.environ.get("BROOD_BUILD_DIR", HERE.parent.parent / "build"))
BROOD = BUILD / "supervisor" / "brood"
TOLERANCE = 1e-5  # of the largest element of a variable; NumPy sums in another order
TRIED_TOLERANCE = 1e-4  # where noise was added, little may be left of a bias
DEADLINE_S = 600
SEED, EVERY, BATCH = 1, 10, 24
TABLE, NOISE_BLOCK = 1 << 18, 4096  # accept_reject.c

CONFIG = """
run: {{seed: 1, env_steps: 1000000}}
env: {env}
experience: {{capacity: 1000000, batch_size: 24, warmup: 50, update_every: 10}}
checkpoint: {{every_env_steps: 10, max_to_keep: 0}}
evaluation: {{every_env_steps: 0}}
defaults: {defaults}
"""
SPREAD = "{id: simple_spread, copies: 2, params: {agents: 2}}"
BOX = "{id: simple_spread, copies: 2, actions: continuous, params: {agents: 2}}"
FORAGING = "{id: foraging, copies: 2, max_steps: 20, params: {size: 5, players: 2, food: 2}}"
NETS = "actor: {hidden: [8], activation: tanh}, critic: {hidden: [9, 7]}"

# title, environment, defaults, what is set while the run goes on
CASES = [
    ("maddpg, adam, clipping switched off", SPREAD,
     f"{{{NETS}, optimizer: {{learning_rate: 0.01}}, clip_norm: 0.1}}",
     ["clip_norm=none", "optimizer.learning_rate=0.003", "polyak=0.25", "discount=0.5",
      "settings.logit_penalty=0.5", "settings.temperature=0.7"]),
    ("maddpg, rmsprop, no clipping", SPREAD,
     f"{{{NETS}, optimizer: {{type: rmsprop, learning_rate: 0.01, momentum: 0.5}}, "
     "clip_norm: none}", ["optimizer.learning_rate=0.002"]),
    ("maddpg, momentum, clipping switched on", SPREAD,
     f"{{{NETS}, optimizer: {{type: momentum, learning_rate: 0.01, momentum: 0.9}}, "
     "clip_norm: none, settings: {clip_by: global}}", ["clip_norm=0.05"]),
    ("maddpg, gradient descent, global, no clipping", SPREAD,
     f"{{{NETS}, optimizer: {{type: sgd, learning_rate: 0.01}}, clip_norm: none, "
     "settings: {clip_by: global}}", ["optimizer.learning_rate=0.1"]),
    ("maddpg, accept_reject", SPREAD,
     f"{{{NETS}, optimizer: {{type: accept_reject, learning_rate: 0.05, tries: 8}}}}",
     ["optimizer.learning_rate=0.02"]),
    ("maddpg, adam with another beta1, processes replaced", SPREAD,
     f"{{{NETS}}}", ["optimizer.beta1=0.5"]),
    ("ddpg, adam, rates of their own", BOX,
     "{algorithm: ddpg, settings: {policy: deterministic}, "
     "actor: {hidden: [8], optimizer: {learning_rate: 0.01}}, "
     "critic: {hidden: [9], activation: leaky_relu, after_action: [7], "
     "optimizer: {type: momentum, momentum: 0.5, learning_rate: 0.001}}, clip_norm: 0.2}",
     ["actor.optimizer.learning_rate=0.002", "critic.optimizer.learning_rate=0.05",
      "clip_norm=none", "discount=0.8"]),
    ("ddpg, rmsprop", SPREAD,
     f"{{algorithm: ddpg, {NETS}, optimizer: {{type: rmsprop}}}}", ["polyak=0.5"]),
    ("ddpg, gradient descent", SPREAD,
     f"{{algorithm: ddpg, {NETS}, optimizer: {{type: sgd}}, clip_norm: none}}",
     ["settings.logit_penalty=0.1"]),
    ("ddpg, accept_reject", BOX,
     "{algorithm: ddpg, settings: {policy: deterministic}, actor: {hidden: [8]}, "
     "critic: {hidden: [8]}, optimizer: {type: accept_reject, tries: 8}}",
     ["optimizer.learning_rate=0.2", "polyak=0.5"]),
    ("iql, adam, clipping switched off", FORAGING,
     "{algorithm: iql, critic: {hidden: [8], activation: elu}, clip_norm: 0.01}",
     ["clip_norm=none", "optimizer.learning_rate=0.003", "discount=0.5", "polyak=0.25",
      "settings.hysteresis=0.3"]),
    ("iql, rmsprop, a rate of its own", FORAGING,
     "{algorithm: iql, critic: {hidden: [8], optimizer: {type: rmsprop}}, clip_norm: none}",
     ["critic.optimizer.learning_rate=0.003"]),
    ("iql, momentum", FORAGING,
     "{algorithm: iql, critic: {hidden: [8]}, optimizer: {type: momentum}}",
     ["clip_norm=0.001"]),
    ("iql, gradient descent", FORAGING,
     "{algorithm: iql, critic: {hidden: [8]}, optimizer: {type: sgd}, "
     "settings: {clip_by: global}, clip_norm: none}", ["optimizer.learning_rate=0.5"]),
]


# ---- a run and its files ----

def brood(folder, *words):
    p = subprocess.run([BROOD, *map(str, words)], cwd=folder, capture_output=True, text=True,
                       check=False, timeout=DEADLINE_S)
    if p.returncode != 0:
        raise RuntimeError(f"brood {' '.join(map(str, words))}: {p.returncode}\n{p.stderr}")
    return p.stdout


def wait_until(what, condition):
    deadline = time.monotonic() + DEADLINE_S
    while not (found := condition()):
        if time.monotonic() > deadline:
            raise TimeoutError(what)
        time.sleep(0.01)
    return found


def steps_of(run):
    folder = run / "checkpoints"
    return sorted(int(p.name) for p in folder.iterdir() if p.name.isdigit()) \
        if folder.is_dir() else []


@contextlib.contextmanager
def running(folder, name, config, *words):
    """Makes a run that goes on until it is stopped; its folder."""
    with open(folder / f"{name}.log", "wb") as log:
        p = subprocess.Popen([BROOD, "run", config, "--name", name, "-q", *words],
                             cwd=folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    try:
        run = folder / "runs" / name
        wait_until("a checkpoint", lambda: p.poll() is not None or steps_of(run))
        if p.poll() is not None:
            raise RuntimeError((folder / f"{name}.log").read_text())
        yield run
        brood(folder, "stop", run)
        p.wait(timeout=DEADLINE_S)
    finally:
        p.kill()
        p.wait()


def begin_anew(folder, run):
    """Replaces the agents' processes; returns the step from which changes that needed new
    processes are in effect."""
    names = agents_of(run, steps_of(run)[0])
    for name in names:
        brood(folder, "respawn", run, name)

    def changed():
        return re.findall(r" step=(\d+) .*event=changed |event=changed .*step=(\d+)",
                          (run / "journal").read_text())

    found = wait_until("changes", lambda: len(x := changed()) == len(names) and x)
    return max(int(a or b) for a, b in found)


def play(folder, name, env, defaults, changes):
    """A run, and a step of it after the changes for which the checkpoint before exists."""
    config = folder / f"{name}.yaml"
    config.write_text(CONFIG.format(env=env, defaults=defaults))
    with running(folder, name, config) as run:
        wait_until("an update", lambda: steps_of(run)[-1] > 100)
        said = brood(folder, "set", run, *(f"defaults.{c}" for c in changes), "--json")
        at = json.loads(said)["at"]
        if any("beta1" in c for c in changes):
            at = begin_anew(folder, run)
        last = (at // EVERY + 3) * EVERY
        wait_until("a checkpoint", lambda: last in steps_of(run))
    return run, last


def prefix(run, step, agent):
    return str(run / "checkpoints" / str(step) / agent / f"model.ckpt-{step}")


def agents_of(run, step):
    return sorted(p.name for p in (run / "checkpoints" / str(step)).iterdir() if p.is_dir())


def read_log(run, rows):
    """{column: (rows, elements)}"""
    data = np.memmap(run / "experience", np.uint8, "r")
    _, _, n, row_bytes, _ = np.frombuffer(
        data[:32].tobytes(), np.dtype("<u8,<u4,<u4,<u8,<u8"))[0]
    found = {}
    for i in range(n):
        at = 32 + 128 * i
        name = data[at:at + 112].tobytes().rstrip(b"\0").decode()
        kind, elements = (int(x) for x in np.frombuffer(data[at + 112:at + 120].tobytes(),
                                                        "<u4"))
        offset = int(np.frombuffer(data[at + 120:at + 128].tobytes(), "<u8")[0])
        if kind not in (1, 4):  # DT_FLOAT, DT_UINT8
            continue
        dtype = np.dtype("<f4" if kind == 1 else "u1")
        places = (1 << 20) + rows.astype(np.int64) * int(row_bytes) + offset
        found[name] = np.stack([np.frombuffer(data[p:p + dtype.itemsize * elements].tobytes(),
                                              dtype) for p in places])
    return found


def number_of_update(run, step, agent):
    """The number of the update before this checkpoint; the first one is 0."""
    def data(at):
        return pathlib.Path(prefix(run, at, agent) + ".data-00000-of-00001").read_bytes()

    first = next(at for at in range(EVERY, step, EVERY) if data(at) != data(0))
    return (step - first) // EVERY


# ---- the agents ----

class Agent:
    def __init__(self, run, step, name, update):
        self.name, self.update = name, update
        self.graph = Graph(prefix(run, step, name))

    def setting(self, key):
        """A hyperparameter as NumPy float32: the initial value of the graph's variable."""
        name = f"{self.name}/hyperparameters/{key}/Initializer/Const"
        return self.graph.constant(name)

    def draws(self, stage):
        key = rng.make_key(SEED, self.name, f"stage {stage}")
        return lambda op, n: rng.uniform(rng.derive(key, op), self.update, n)

    def run(self, stage, **more):
        return self.graph.run(draw=self.draws(stage), **more)

    def train_ops(self):
        return [t.decode() for t in self.graph.collections.get("train_op", [])]

    def try_changes(self, stage, network, loss, rate, tries, feeds):
        """accept_reject.h: (1+1) evolution strategy with noise from a table."""
        key = rng.derive(rng.make_key(SEED, self.name, f"stage {stage}"), "accept_reject")
        table = rng.normal(rng.derive(key, "table"), 0, TABLE + NOISE_BLOCK)
        names = [n for n in self.graph.variables if n.startswith(f"{self.name}/{network}/")]
        best = self.run(stage, feeds=feeds, fetches=[loss])[0]
        for i in range(tries):
            before = dict(self.graph.variables)
            for n in names:
                x = before[n]
                at = rng.below(rng.derive(key, n), self.update, i, TABLE, 1)[0]
                assert x.size <= NOISE_BLOCK
                noise = table[at:at + x.size].reshape(x.shape)
                self.graph.variables[n] = x + np.float32(rate) * noise
            new = self.run(stage, feeds=feeds, fetches=[loss])[0]
            if new < best:
                best = new
            else:
                self.graph.variables = before


def targets(agent, log, next_q):
    """(B, 1)"""
    return log[f"{agent.name}/reward"] + agent.setting("discount") * (
        1 - log[f"{agent.name}/terminated"]) * next_q


def target_action(agent):
    """The second policy's output, of the second name scope."""
    scope = f"{agent.name}_1"
    nodes = agent.graph.nodes
    return f"{scope}/Softmax_1:0" if f"{scope}/Softmax_1" in nodes else f"{scope}/add_2:0"


def actor_critic_update(agents, log, one_stage):
    """maddpg.c"""
    first = "learn" if one_stage else "propose"
    index = {a.name: i for i, a in enumerate(agents)}
    proposals = {a.name: a.run(first, fetches=[target_action(a)],
                               feeds={f"observation{index[a.name]}": log[f"{a.name}/next_obs"]}
                               )[0] for a in agents}
    for a in agents:
        seen = [a] if one_stage else agents

        def feeds(obs, actions, a=a, seen=seen):
            f = {f"observation{index[b.name]}": log[f"{b.name}/{obs}"] for b in seen}
            return {**f, **{f"{a.name}/action{index[b.name]}": actions(b) for b in seen}}

        def played(b):
            return log[f"{b.name}/action"]

        layers = [n for n in a.graph.nodes if n.startswith(f"{a.name}/target_q_func/") and
                  n.endswith("/BiasAdd")]
        next_q = a.run(first, fetches=[layers[-1]],
                       feeds=feeds("next_obs", lambda b: proposals[b.name]))[0]
        critic = {**feeds("obs", played), f"{a.name}/target": targets(a, log, next_q),
                  f"{a.name}/is_weight": log[f"{a.name}/alive"]}
        actor = feeds("obs", played)
        del actor[f"{a.name}/action{index[a.name]}"]
        ops = a.train_ops()
        if ops:
            a.run("learn" if one_stage else "critic", feeds=critic, targets=[ops[0]])
            a.run("learn", feeds=actor, targets=[ops[1]])
        else:
            rate = a.setting("optimizer/learning_rate")
            a.try_changes("learn" if one_stage else "critic", "q_func",
                          f"{a.name}/Mean_1", rate, 8, critic)
            a.try_changes("learn", "p_func", actor_loss(a), rate, 8, actor)
        a.run("learn", targets=[f"{a.name}_1/update_targets"])


def actor_loss(agent):
    """-mean Q + penalty: what adds the negative."""
    scope = f"{agent.name}_1/"
    return next(n.name for n in agent.graph.nodes.values()
                if n.op == "Add" and n.name.startswith(scope + "add") and
                n.inputs[0][0].startswith(scope + "Neg"))


def iql_update(agents, log):
    """iql.c"""
    for a in agents:
        next_q = a.run("learn", fetches=[f"{a.name}/target_q"],
                       feeds={f"{a.name}/observation": log[f"{a.name}/next_obs"]})[0]
        feeds = {f"{a.name}/observation": log[f"{a.name}/obs"],
                 f"{a.name}/choice": log[f"{a.name}/action"],
                 f"{a.name}/target": targets(a, log, next_q.max(1, keepdims=True)),
                 f"{a.name}/is_weight": log[f"{a.name}/alive"]}
        a.run("learn", feeds=feeds, targets=a.train_ops())
        a.run("learn", targets=[f"{a.name}/update_target"])


# ---- comparing ----

def difference(got, want):
    return float(np.abs(got - want).max() / max(np.abs(want).max(), 1e-30))


def compare(title, before, got, want):
    """One agent's variables: as wanted, and many of them moved."""
    assert got.keys() == want.keys(), got.keys() ^ want.keys()
    worst = max((difference(got[n], want[n]), n) for n in want)
    moved = sum(not np.array_equal(before[n], want[n]) for n in want)
    tolerance = TRIED_TOLERANCE if "accept_reject" in title else TOLERANCE
    good = worst[0] <= tolerance and moved > 0
    print(f"{'ok' if good else 'FAILED'}: {title}: {moved} of {len(want)} variables move, "
          f"largest difference {worst[0]:.1e} ({worst[1]})")
    return good


def check(folder, number, case):
    title, env, defaults, changes = case
    run, step = play(folder, f"case{number}", env, defaults, changes)
    names = agents_of(run, step)
    update = number_of_update(run, step, names[0])
    rows = rng.below(rng.make_key(SEED, "experience", "rows"), update, 0, step, BATCH)
    log = read_log(run, rows)
    agents = [Agent(run, step - EVERY, n, update) for n in names]
    before = [dict(a.graph.variables) for a in agents]
    if title.startswith("iql"):
        iql_update(agents, log)
    else:
        actor_critic_update(agents, log, title.startswith("ddpg"))
    return all([compare(f"{title}: {a.name}", b, a.graph.variables,
                        tf_files.read_checkpoint(prefix(run, step, a.name)))
                for a, b in zip(agents, before)])


# ---- critics ----

CRITIC_CASES = [
    ("critic, adam, as shipped", [], ["optimizer.learning_rate=0.01", "polyak=0.1"]),
    ("critic, rmsprop, clipping switched off",
     ["optimizer.type=rmsprop", "clip_norm=0.01"], ["clip_norm=none", "polyak=0.5"]),
    ("critic, momentum, clipping switched on",
     ["optimizer.type=momentum", "settings.clip_by=global"], ["clip_norm=0.01"]),
    ("critic, gradient descent, global, no clipping",
     ["optimizer.type=sgd", "settings.clip_by=global"], ["optimizer.learning_rate=0.1"]),
]
CRITIC = "node_1"


def critic_batch(seed):
    r = np.random.default_rng(seed)
    return {"inputs": r.standard_normal((BATCH, 54)), "action": r.standard_normal((BATCH, 15)),
            "q_predicted": r.standard_normal((BATCH, 1)), "is_weight": r.random((BATCH, 1))}


def check_critic(folder, number, case):
    title, settings, changes = case
    set_words = [w for s in settings for w in ("--set", f"defaults.{s}")]
    fetches, targets = [f"{CRITIC}/loss:0"], [f"{CRITIC}/train", f"{CRITIC}/update_target"]
    with running(folder, f"critic{number}", CRITICS, *set_words) as run:
        client = drive_critics.Run(run)

        def train(seed):
            feeds = {f"{CRITIC}/{k}:0": v.astype(np.float32)
                     for k, v in critic_batch(seed).items()}
            sent = {k: [1, list(v.shape), v.tobytes()] for k, v in feeds.items()}
            loss = client.call("run", agent=CRITIC, feeds=sent, fetches=fetches,
                               targets=targets)["fetched"][0]
            return feeds, np.frombuffer(loss[2], np.float32)[0]

        for seed in range(3):
            train(seed)
        brood(folder, "set", run, *(f"defaults.{c}" for c in changes))
        train(3)
        first = client.call("checkpoint")["env_steps"]
        feeds, loss = train(4)
        last = client.call("checkpoint")["env_steps"]
    graph = Graph(prefix(run, first, CRITIC))
    before = dict(graph.variables)
    got, = graph.run(feeds=feeds, fetches=fetches, targets=targets)
    return abs(got - loss) <= TOLERANCE * abs(loss) and compare(
        title, before, graph.variables, tf_files.read_checkpoint(prefix(run, last, CRITIC)))


def main():
    good = True
    with tempfile.TemporaryDirectory() as folder:
        for number, case in enumerate(CASES):
            good = check(pathlib.Path(folder), number, case) and good
        for number, case in enumerate(CRITIC_CASES):
            good = check_critic(pathlib.Path(folder), number, case) and good
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
