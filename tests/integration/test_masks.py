"""Environments with action masks: what is learned, what the log contains, and that neither
deaths nor a resume change it.

BROOD_KILLS=50 in the environment sets the number of kills.
"""
import json
import os
import random
import struct
import time

import harness
from test_environments import BRIDGE, EXAMPLES, PYTHON, outcome, without_state

ROOMS = harness.SOURCE / "tests" / "support" / "rooms.py"
WALK, TAKE = 0, 1
WALKING = {"host_0": 2, "guest_0": 1}  # the value of it; of taking: 10
KILLS = int(os.environ.get("BROOD_KILLS", 4 if harness.SANITIZED else 8))

CONFIG = """
run: {{name: masks, seed: 1, env_steps: {steps}}}
env:
  command: [{command}]
  copies: 5
  processes: 2
  restart: {{max_restarts: 100000, delay: 0s}}
experience: {{capacity: 20000, batch_size: 64, warmup: 200, update_every: 5, keep: true}}
evaluation: {{every_env_steps: {evaluate}, episodes: 6}}
checkpoint: {{every_env_steps: {checkpoint}}}
log: {{every_env_steps: 500}}
defaults:
  algorithm: {algorithm}
  discount: 0.5
  polyak: 0.1
  restart: {{max_restarts: 100000, delay: 0s}}
  optimizer: {{learning_rate: 0.01}}
  actor: {{hidden: [16]}}
  critic: {{hidden: [16]}}
"""


def config(w, environment, algorithm, steps=4000, evaluate=0, checkpoint=2000):
    command = ", ".join(json.dumps(str(word)) for word in (PYTHON, BRIDGE, environment))
    return w.write(f"{algorithm}.yaml", CONFIG.format(
        command=command, algorithm=algorithm, steps=steps, evaluate=evaluate,
        checkpoint=checkpoint))


# ---- what is learned ----


def fetch(w, run, agent, name, *feeds):
    """Fetch values from the graph of an agent's last checkpoint."""
    steps = max(int(p.name) for p in (w.run_dir(run) / "checkpoints").iterdir())
    feeds = [word for feed in feeds for word in ("--feed", feed)]
    out, _ = w.brood("graph", w.run_dir(run) / "checkpoints" / str(steps) / agent, "--json",
                     *feeds, "--fetch", name)
    return harness.json_lines(out)[0]["values"]


def assert_about(value, want):
    assert abs(value - want) < 0.2, (value, want)


def test_iql_learns_what_can_come(w):
    w.brood("run", config(w, ROOMS, "iql"), "--name", "iql")
    for agent, walking in WALKING.items():
        q = fetch(w, "iql", agent, f"{agent}/q:0", f"{agent}/observation:0=[[1]]")
        print(f"# {agent}: {q}")
        assert_about(q[WALK], walking)
        assert_about(q[TAKE], 10)


def test_critics_learn_what_can_come(w):
    """With a critic of the joint action, and with one of the agent's own."""
    moves = {WALK: "[[1, 0, 0]]", TAKE: "[[0, 1, 0]]"}
    for algorithm in ("maddpg", "ddpg"):
        w.brood("run", config(w, ROOMS, algorithm), "--name", algorithm)
        for i, (agent, walking) in enumerate(WALKING.items()):
            for move, want in ((WALK, walking), (TAKE, 10)):
                seen = [i] if algorithm == "ddpg" else [0, 1]
                q, = fetch(w, algorithm, agent, f"{agent}/q_func/fully_connected_1/BiasAdd:0",
                           *(f"observation{k}:0=[[1]]" for k in seen),
                           *(f"{agent}/action{k}:0={moves[move]}" for k in seen))
                print(f"# {algorithm}, {agent}, {move}: {q}")
                assert_about(q, want)


# ---- the log ----


def read_log(run):
    """Column -> a tuple for each row (common/store/layout.h)."""
    data = (run / "experience").read_bytes()
    n_columns, row_bytes = struct.unpack_from("<12xIQ", data)
    columns = {}
    for i in range(n_columns):
        name, dtype, n, offset = struct.unpack_from("<112sIIQ", data, 32 + 128 * i)
        kind = {1: "f", 4: "B"}[dtype]
        columns[name.rstrip(b"\0").decode()] = [
            struct.unpack_from(f"<{n}{kind}", data, at + offset)
            for at in range(1 << 20, len(data), row_bytes)]
    return columns


def test_the_log_has_what_was_possible(w):
    w.brood("run", config(w, ROOMS, "random", steps=1000), "--name", "rows")
    log, copies, only = read_log(w.run_dir("rows")), 5, {(1, 0, 0), (0, 1, 0)}
    left = 0
    for i in range(1000):
        last = log["host_0/terminated"][i] == (1,) or log["truncated"][i] == (1,)
        for agent in WALKING:
            mask, after = log[agent + "/allowed"][i], log[agent + "/next_allowed"][i]
            assert mask in only and after == mask, (i, agent)
            action = log[agent + "/action"][i]
            alive = log[agent + "/alive"][i] == (1,)
            assert action == (tuple(map(float, mask)) if alive else (0, 0, 0)), (i, agent)
            left += not alive
            if not last and i + copies < 1000:
                assert log[agent + "/allowed"][i + copies] == after, (i, agent)
    assert 200 < left < 450, left
    assert not any("allowed" in name for name in unmasked_columns(w))


def unmasked_columns(w):
    w.brood("run", w.small(steps=400), "--name", "plain", "--set", "experience.keep=true")
    return read_log(w.run_dir("plain"))


FERRY = """
import sys
sys.path.insert(0, {support!r})
from rooms import Box, Discrete


class Ferry:
    possible_agents = ["crew_0", "guest_0"]

    def observation_space(self, agent):
        return Box(0.0, 9.0, (1,))

    def action_space(self, agent):
        return Discrete(3)

    def reset(self, seed=None, options=None):
        self.time = 0
        return self.look()

    def look(self):
        self.agents = self.possible_agents[:1 if self.time % 2 else 2]
        mask = [int(move == self.time % 3) for move in range(3)]
        return ({{a: [float(self.time)] for a in self.agents}},
                {{a: {{"action_mask": mask}} for a in self.agents}})

    def step(self, actions):
        for agent, move in actions.items():
            assert move == self.time % 3, f"{{agent}} cannot do {{move}} here"
        self.time += 1
        obs, infos = self.look()
        if self.time == 6:
            self.agents = []
        none = dict.fromkeys(actions, False)
        return obs, dict.fromkeys(actions, 1.0), none, none, infos


parallel_env = Ferry
"""


def test_who_comes_back_acts_on_what_is_there(w):
    """An agent that is present only in every second step."""
    ferry = w.write("ferry.py", FERRY.format(support=str(ROOMS.parent)))
    w.brood("run", config(w, ferry, "maddpg", steps=600), "--name", "ferry")
    log = read_log(w.run_dir("ferry"))
    for i in range(600):
        time_ = i // 5 % 6
        is_there = time_ % 2 == 0
        seen = time_ if is_there else time_ - 1
        assert log["crew_0/obs"][i] == (time_,), i
        assert log["guest_0/alive"][i] == (is_there,), i
        assert log["guest_0/obs"][i] == (seen,), i
        assert log["guest_0/allowed"][i] == tuple(int(m == seen % 3) for m in range(3)), i


# ---- deaths ----


def victims(w, name):
    state = w.status(name)
    return {e["name"]: e["pid"] for e in state["environments"] + state["agents"] if e["pid"]}


def kill_at_random(w, name, kills, draw):
    """Kill agents and environments at random moments, then the supervisor."""
    hits = {}
    while sum(hits.values()) < kills:
        found = victims(w, name)
        who = draw.choice(sorted(found)) if found else None
        if who is None or not harness.alive(found[who]):
            continue
        until = time.monotonic() + draw.uniform(0, 0.05) * harness.PATIENCE
        while time.monotonic() < until:
            pass
        harness.kill_and_wait(found[who])
        hits[who] = hits.get(who, 0) + 1
    return hits


def test_deaths_and_a_resume_change_nothing(w):
    """The hallway has walls, and a forbidden move is an error."""
    draw = random.Random(11)
    for algorithm in ("iql", "maddpg"):
        run = w.run_dir(algorithm)
        sized = {"steps": harness.FOREVER, "evaluate": 1000, "checkpoint": 500}
        file = config(w, EXAMPLES / "hallway.py", algorithm, **sized)
        p = w.start("run", file, "--name", algorithm)
        harness.wait_until("a checkpoint", lambda: max(harness.checkpoints(run), default=0) > 0)
        print(f"# kills: {kill_at_random(w, algorithm, KILLS, draw)}")
        harness.kill_holder(p, run)
        steps = f"run.env_steps={harness.checkpoints(run)[-1] + 1000}"
        w.brood("resume", algorithm, "--set", steps)
        w.brood("run", file, "--name", algorithm + "-calm", "--set", steps)
        harness.assert_same_files(without_state(outcome(w.run_dir(algorithm + "-calm"))),
                                  without_state(outcome(run)))


if __name__ == "__main__":
    harness.main()
