"""Graphs built elsewhere, hosted by agents (`algorithm: graph`): a client trains them with
their own train ops, through kills and a resume.

BROOD_KILLS=100 in the environment sets the number of kills.
"""
import os
import shutil
import signal
import subprocess
import sys

import harness
from test_changes import end, final, journal
from test_graph import MADDPG, fetched, path_of, variables
from test_steering import need_msgpack

sys.path.insert(0, str(harness.SOURCE / "scripts"))

KILLS = int(os.environ.get("BROOD_KILLS", 8 if harness.SANITIZED else 24))
TRAINER = harness.BUILD / "tests" / "golden" / "train_regression"
ROWS, INPUTS, OUTPUTS = 4, 3, 2

CONFIG = """
run: {name: hosted, seed: 1}
env: {id: none}
checkpoint: {every_seconds: 3600}
defaults:
  algorithm: graph
  restart: {max_restarts: 1000000, delay: 1ms, max_delay: 1ms}
agents:
  trained: {settings: {from: given/m-20}}
  fresh: {settings: {from: alone.meta}}
"""


def connect(run):
    from drive_critics import Run
    client = Run(run)
    harness.wait_until("the start", lambda: client.call("status")["state"] != "starting")
    return client


def give_graphs(w):
    """m-20: a regression with values of 20 steps of Adam; alone: its graph without values."""
    (w.path / "given").mkdir()
    subprocess.run([TRAINER, w.path / "given", "adam"], check=True)
    shutil.copy(w.path / "given" / "m-20.meta", w.path / "alone.meta")


def serve(w, name, text=CONFIG):
    p = w.start("run", w.write("hosted.yaml", text), "--name", name)
    run = w.run_dir(name)
    harness.wait_until("its folder", lambda: run.is_dir() or p.poll() is not None)
    return p, run


def numbers(n, of):
    return [((i * 37 + of * 11) % 13) / 6.5 - 1 for i in range(n)]


def step(client, agent, t):
    """Sends a step of the graph's own train op; the loss is that before it."""
    from drive_critics import tensor
    x = numbers(ROWS * INPUTS, t)
    y = [v for row in zip(*[iter(x)] * INPUTS) for v in (2 * row[0] - row[1], row[2])]
    return client.send("run", agent=agent, targets=["train"], fetches=["loss:0"],
                       feeds={"x:0": tensor(x, ROWS, INPUTS),
                              "y:0": tensor(y, ROWS, OUTPUTS)})


def train(client, p, first, last, kills=0):
    """The losses of both agents. Kills fall on agents that owe answers."""
    from drive_critics import floats
    losses, done = [], 0
    for t in range(first, last):
        asked = [step(client, agent, t) for agent in ("trained", "fresh")]
        if done * (last - first) < kills * (t - first + 1):
            victim = ("trained", "fresh")[done % 2]
            pid = harness.wait_until("its process",
                                     lambda: harness.agents_of(p.pid).get(victim))
            harness.signal_process(pid, signal.SIGKILL)
            done += 1
        losses.append([floats(client.answer(a)["fetched"][0])[0] for a in asked])
    assert done == kills
    return losses


def test_a_graph_is_trained_through_kills_and_a_resume(w):
    need_msgpack()
    give_graphs(w)
    steps, results = max(60, KILLS), {}
    for name in ("calm", "killed"):
        p, run = serve(w, name)
        client = connect(run)
        kills = KILLS if name == "killed" else 0
        losses = train(client, p, 0, steps, kills)
        client.call("checkpoint")
        if name == "killed":
            assert len(journal(run, "respawn")) >= kills, p.log.read_text()
            losses += train(client, p, steps, steps + 5)
            losses = losses[:steps]  # these steps are lost with the run
            end(p, run)
            p = w.start("resume", run)
            harness.wait_until("the resume", lambda: f"continues from step {2 * steps}" in
                               p.log.read_text() or p.poll() is not None)
            client = connect(run)
        losses += train(client, p, steps, steps + 20)
        client.call("stop")
        p.wait(timeout=harness.DEADLINE_S)
        assert p.returncode == 4, p.log.read_text()
        last = harness.checkpoints(run)[-1]
        assert last == 2 * (steps + 20), last
        results[name] = losses, final(run, last)
    assert results["calm"][0] == results["killed"][0]
    harness.assert_same_files(results["calm"][1], results["killed"][1])
    fresh = [loss[1] for loss in results["calm"][0]]
    assert sum(fresh[-10:]) < sum(fresh[:10]) / 2, fresh


def test_its_checkpoint_is_one_of_the_graph(w):
    """Variables keep their names, begin with the checkpoint's values, and what `graph`
    computes from a checkpoint of the run is what the agent computed."""
    need_msgpack()
    give_graphs(w)
    from drive_critics import floats, tensor
    p, run = serve(w, "once")
    client = connect(run)
    prefixes = [run / "checkpoints" / "0" / agent / "model.ckpt-0"
                for agent in ("trained", "fresh")]
    harness.wait_until("the first checkpoint", lambda: 0 in harness.checkpoints(run))
    given = variables(w, w.path / "given" / "m-20")
    first, fresh = (variables(w, prefix) for prefix in prefixes)
    assert first.keys() == given.keys() == fresh.keys(), (first.keys(), given.keys())
    assert all((first[name] == given[name]).all() for name in given)
    assert fresh["fully_connected/weights"].any() and not fresh["fully_connected/biases"].any()
    assert (fresh["fully_connected/weights"] != given["fully_connected/weights"]).any()
    train(client, p, 0, 3)
    x = numbers(INPUTS, 1)
    out = floats(client.call("run", agent="trained", fetches=["fully_connected_1/BiasAdd:0"],
                             feeds={"x:0": tensor(x, 1, INPUTS)})["fetched"][0])
    client.call("stop")
    p.wait(timeout=harness.DEADLINE_S)
    y, = fetched(w, run / "checkpoints" / "6" / "trained" / "model.ckpt-6", "--feed",
                 f"x={[x]}", "--fetch", "fully_connected_1/BiasAdd")
    assert list(out) == y.flatten().tolist(), (out, y)


def test_what_cannot_be_hosted_is_told(w):
    give_graphs(w)
    (w.path / "text.meta").write_text("no graph")
    with_env = CONFIG.replace("none", "simple_spread")
    for text, says in (
            (CONFIG.replace("alone.meta", "nothing"), "agents.fresh.settings.from"),
            (CONFIG.replace("alone.meta", "text"), "not a MetaGraphDef"),
            (CONFIG.replace("settings: {from: alone.meta}", ""),
             "hosts a checkpoint's graph, expected from:"),
            (with_env.replace("fresh", "agent_0").replace("trained", "agent_1"),
             "expected env.id: none")):
        out, err = w.brood("check", w.write("wrong.yaml", text), code=2)
        assert says in err and len(err.splitlines()) == 1, (says, err)


def test_a_graph_of_tensorflow_is_trained(w):
    """The critic of another's MADDPG, as TensorFlow 1.13 saved it."""
    need_msgpack()
    from drive_critics import floats, tensor
    names = {"observation0:0": 8, "observation1:0": 8, "agent_0/action0:0": 9,
             "agent_0/action1:0": 9}
    text = f"""
run: {{name: foreign, seed: 1}}
env: {{id: none}}
defaults: {{algorithm: graph}}
agents:
  a: {{settings: {{from: {path_of(MADDPG)}}}}}
  b: {{settings: {{from: {path_of(MADDPG)}}}}}
"""
    p, run = serve(w, "foreign", text)
    client = connect(run)
    feeds = {name: tensor(numbers(4 * n, n), 4, n) for name, n in names.items()}
    feeds["agent_0/target:0"] = tensor(numbers(4, 3), 4)
    q = "agent_0/q_func/fully_connected_2/BiasAdd:0"
    values = []
    for _ in range(30):
        before = client.call("run", agent="a", fetches=[q], targets=["agent_0/Adam"],
                             feeds=feeds)["fetched"]
        values.append(list(floats(before[0])))
    untouched = client.call("run", agent="b", fetches=[q], feeds=feeds)["fetched"][0]
    client.call("stop")
    p.wait(timeout=harness.DEADLINE_S)
    assert list(floats(untouched)) == values[0]
    want = numbers(4, 3)  # of the four rows

    def error(q):
        return sum((a - b) ** 2 for a, b in zip(q, want))
    assert error(values[-1]) < error(values[0]), (values[0], values[-1])


if __name__ == "__main__":
    harness.main()
