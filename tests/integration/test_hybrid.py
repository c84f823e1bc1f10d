"""Hybrid actions: choices and numbers in one action are learnt together; their probabilities are
those of NumPy; deaths, frozen policies and a resume change nothing; who cannot take them is told
so before any agent starts."""
import csv
import json
import sys

import harness
import numpy as np
from test_exactness import outcome
from test_on_policy import floats_of_the_log

sys.path[:0] = [str(harness.SOURCE / "scripts" / "python"),
                str(harness.SOURCE / "tests" / "support")]

import brood
import goals

CONFIG = """
env: {{command: {command}, params: {{{params}}}, reward: team_mean, copies: 16, verify: false}}
run: {{env_steps: {steps}, seed: 4}}
experience: {{update_every: {window}, keep: true}}
checkpoint: {{every_env_steps: {window}, max_to_keep: none}}
evaluation: {{every_env_steps: {evaluate}, episodes: 20}}
log: {{every_env_steps: {window}}}
defaults:
  algorithm: {algorithm}
  discount: 0.5
  actor: {{hidden: [32]}}
  critic: {{hidden: [32]}}
  optimizer: {{learning_rate: 0.005}}
  restart: {{max_restarts: 1000000, delay: 0s}}
  {more}
"""
COMMAND = json.dumps(["python3", str(harness.SOURCE / "scripts" / "pettingzoo_bridge.py"),
                      str(harness.SOURCE / "tests" / "support" / "goals.py") + ":Goals"])
# (algorithm, parameters of the environment, other keys)
CASES = {
    "learns": ("ippo", "", "settings: {epochs: 4, minibatches: 4}"),
    "masks": ("ippo", "masked: true, agents: 2",
              "settings: {epochs: 1, entropy: 0.05, agent_id: true}"),
    "shared": ("mappo", "masked: true, agents: 3", "share: team\n  settings: {epochs: 2}"),
    "recurrent": ("happo", "masked: true, agents: 2", "settings: {recurrent: 8, chunk: 4}"),
}


def config(w, name, steps, window=256, evaluate=512):
    algorithm, params, more = CASES[name]
    return w.write(f"{name}.yaml", CONFIG.format(
        command=COMMAND, algorithm=algorithm, params=params, more=more, steps=steps, window=window,
        evaluate=evaluate))


def reported(w, run, ending):
    with open(w.run_dir(run) / "metrics" / "progress.csv", newline="") as f:
        rows = list(csv.DictReader(f))
    name = next(c for c in rows[0] if c.endswith(ending))
    return [float(r[name]) for r in rows if r[name]]


def evaluated(w, run):
    return json.loads(w.brood("eval", run, "--episodes", "20", "--json")[0].splitlines()[-1])[
        "team_return_mean"]


def test_both_parts_are_learnt(w):
    """The best return of four steps is 4; choosing at random, from the best points, gives 4 / 3."""
    steps = 1024 if harness.SANITIZED else 10240  # the former is not enough to learn it
    w.brood("run", config(w, "learns", steps, 512, 16384), "--name", "learns")
    found = evaluated(w, "learns")
    assert found > 3.7 or harness.SANITIZED, found
    env = goals.Goals()
    policy = brood.load_policy(w.run_dir("learns"), "agent_0", env)
    returns = brood.play(env, {"agent_0": policy}, 20)["agent_0"]
    assert np.isclose(found, returns.mean(), atol=0.3), (found, returns.mean())
    try:
        brood.load_policy(w.run_dir("learns"), "agent_0")
    except brood.Error as e:
        assert str(e).endswith("its actions are choices and numbers: give the environment, too"), e
    else:
        raise AssertionError("it was loaded without its environment")


def test_probabilities_are_those_of_numpy(w):
    """Of the actions drawn with the weights of the first checkpoint, and their mean entropy."""
    w.brood("run", config(w, "masks", 512), "--name", "masks")
    log, prefix = w.run_dir("masks") / "experience", w.run_dir("masks") / "checkpoints" / "256"
    for agent in "agent_0", "agent_1":
        def variable(name, a=agent):
            return np.array(json.loads(w.brood("inspect", prefix / a, "--tensor",
                                               f"{a}/p_func/{name}", "--json")[0])["values"])

        seen, drawn, taken, log_prob = (
            np.array(floats_of_the_log(log, f"{agent}/{name}"))[256:512]
            for name in ("obs", "sample", "action", "log_prob"))
        mask = bytes_of_the_log(log, f"{agent}/allowed")[256:512, :3] > 0
        assert len(seen) == 256 and (mask.sum(1) == 2).all()
        x = np.hstack([seen, np.tile([agent == "agent_0", agent == "agent_1"], (256, 1))])
        w1, b1, w2, b2, log_std = map(variable, (
            "fully_connected/weights", "fully_connected/biases", "fully_connected_1/weights",
            "fully_connected_1/biases", "log_std"))
        x = np.maximum(x @ w1.reshape(5, 32) + b1, 0) @ w2.reshape(32, 5) + b2
        p = np.where(mask, np.exp(x[:, :3]), 0)
        p /= p.sum(1, keepdims=True)
        z = (drawn[:, 3:] - x[:, 3:]) / np.exp(log_std)
        wanted = np.log((p * drawn[:, :3]).sum(1)) - \
            (z ** 2 / 2 + log_std + np.log(2 * np.pi) / 2).sum(1)
        assert np.abs(wanted - log_prob[:, 0]).max() < 1e-5, np.abs(wanted - log_prob[:, 0]).max()
        entropy = (log_std + (1 + np.log(2 * np.pi)) / 2).sum() - \
            np.where(mask, p * np.log(np.where(mask, p, 1)), 0).sum(1).mean()
        found = reported(w, "masks", f"{agent}/entropy")[-1]
        assert abs(entropy - found) < 1e-5, (entropy, found)
        assert (taken[:, :3] == drawn[:, :3]).all() and (taken[:, :3].sum(1) == 1).all()
        assert (taken[:, 3:] == np.clip(drawn[:, 3:], -1, 1)).all()
        assert (np.abs(drawn[:, 3:]) > 1).any()
    assert abs(reported(w, "masks", "agent_0/approx_kl")[-1]) < 1e-6


def bytes_of_the_log(path, column):
    """All rows of a column of bytes (common/store/layout.h)."""
    data = path.read_bytes()
    n, row_bytes = np.frombuffer(data, "<u4,<u8", 1, 12)[0]
    for i in range(n):
        entry = data[32 + 128 * i:][:128]
        elements, offset = np.frombuffer(entry, "<u4,<u8", 1, 116)[0]
        if entry[:112].split(b"\0")[0].decode() == column:
            rows = np.frombuffer(data[1 << 20:], "u1").reshape(-1, row_bytes)
            return rows[:, offset:offset + elements]
    raise AssertionError(column)


def test_deaths_change_nothing(w):
    """With masks, in a group that shares parameters; a fork of a checkpoint goes on as its run."""
    file = config(w, "shared", 1536, evaluate=1536)
    w.brood("run", file, "--name", "shared")
    p = w.start("run", file, "--name", "killed")
    harness.wait_until("its rows", lambda: harness.checkpoints(w.run_dir("killed")))
    w.kill_agents(p, "killed")
    assert p.wait() == 0, p.log.read_text()
    harness.assert_same_files(outcome(w.run_dir("shared")), outcome(w.run_dir("killed")))
    assert "event=respawn" in (w.run_dir("killed") / "journal").read_text()
    w.brood("fork", "shared@512", "--name", "fork")
    w.brood("resume", "fork")
    harness.assert_same_files(outcome(w.run_dir("shared")), outcome(w.run_dir("fork")))


def test_frozen_and_random_agents_take_them(w):
    """Frozen agents, also recurrent ones, play as their checkpoint is evaluated; others at random,
    within what the masks allow, which the environment asserts."""
    w.brood("run", config(w, "recurrent", 256), "--name", "past")
    played = evaluated(w, "past")
    text = config(w, "recurrent", 256, evaluate=256).read_text().replace(
        "algorithm: happo", "algorithm: frozen").replace(CASES["recurrent"][2],
                                                        "settings: {from: past}")
    w.brood("run", w.write("frozen.yaml", text), "--name", "frozen")
    assert reported(w, "frozen", "eval/team_return/agent") == [played], played
    others = text.replace("agents: 2", "agents: 3").replace("settings: {from: past}", "").replace(
        "frozen", "random") + "agents:\n  agent_1: {algorithm: noop}\n" \
        "  agent_0: {algorithm: frozen, settings: {from: past, choose: sample}}\n"
    w.brood("run", w.write("others.yaml", others), "--name", "others")
    _, err = w.brood("check", w.write("other.yaml", text.replace("masked: true", "plain: true")),
                     code=2)
    assert err.count("\n") == 1 and "(rows, 3) expected here" in err, err


def test_others_are_refused_before_any_agent_starts(w):
    can = ["frozen", "happo", "ia2c", "ippo", "maa2c", "mappo", "noop", "random"]
    found = [json.loads(line) for line in w.brood("algorithms", "--json")[0].splitlines()]
    assert sorted(a["name"] for a in found if a["hybrid"]) == can
    file = config(w, "masks", 256)
    for command, name in ("check", "coma"), ("run", "isac"):
        _, err = w.brood(command, file, "--set", f"agents.agent_1.algorithm={name}", "--set",
                         "agents.agent_1.settings={}", code=2)
        assert err.endswith(
            f"agents.agent_1.algorithm: {name} cannot take the hybrid actions of agent_1, choices "
            f"beside numbers, expected {', '.join(can[:-1])} or random (agent agent_1)\n"), err
        assert err.count("\n") == 1, err
    assert not list(w.runs.glob("*"))


PROGRAM = """
import sys
sys.path.insert(0, {path!r})
import brood
import numpy as np


class Best(brood.Agent):
    hybrid = {hybrid}

    def act(self, obs, ctx):
        space = self.me.action
        assert (space.kind, space.heads, space.width, space.low) == ("hybrid", (3,), 5, -1.0), space
        return np.hstack([obs, obs @ np.array({places}, np.float32)])


brood.main(Best)
"""


def test_programs_say_that_they_can(w):
    file = config(w, "learns", 256, evaluate=256)
    text = file.read_text().replace("algorithm: ippo", "algorithm: program\n  command: [python3, "
                                    "best.py]").replace(CASES["learns"][2], "")
    file = w.write("program.yaml", text)
    for hybrid in True, False:
        w.write("best.py", PROGRAM.format(path=str(harness.SOURCE / "scripts" / "python"),
                                          hybrid=hybrid, places=goals.PLACES))
        if hybrid:
            w.brood("run", file, "--name", "best")
            assert reported(w, "best", "eval/team_return/agent") == [4.0]
        else:
            _, err = w.brood("check", file, code=2)
            assert err.count("\n") == 1 and "Best cannot take the hybrid actions" in err, err


if __name__ == "__main__":
    harness.main()
