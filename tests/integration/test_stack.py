"""env.stack: agents learn from what they saw when they acted, from observations that the log has
once; and clipping. Kills, a resume and a fork change no byte."""
import csv
import importlib.util
import json

import harness
from test_exactness import outcome

EXAMPLES = harness.SOURCE / "tests" / "examples"
BRIDGE = harness.SOURCE / "scripts" / "pettingzoo_bridge.py"
CONFIG = """
env: {{{env}, stack: {stack}, copies: {copies}}}
run: {{env_steps: {steps}, seed: 4}}
experience: {{{experience}, keep: true}}
checkpoint: {{every_env_steps: {every}, max_to_keep: {kept}}}
evaluation: {{every_env_steps: {every}, episodes: 3}}
log: {{every_env_steps: {every}}}
defaults:
  algorithm: {algorithm}
  actor: {{hidden: [16]{conv}}}
  critic: {{hidden: [16]{conv}}}
  restart: {{max_restarts: 1000000, delay: 0s}}
  settings: {{{settings}}}
  {more}
"""
SPREAD = "id: simple_spread, reward: team_mean, max_steps: 7"
WINDOW = "update_every: 160"
REPLAY = "capacity: 400, batch_size: 32, warmup: 100, update_every: 40"
CATCH = f"command: [python3, {BRIDGE}, {EXAMPLES / 'catch.py'}]"
CONV = ", conv: [[2, 12, 12]]"


def config(w, name, algorithm, **changes):
    values = {"env": SPREAD, "stack": 4, "copies": 8, "steps": 800, "every": 400, "kept": "none",
              "experience": WINDOW, "conv": "", "settings": "", "more": "", **changes}
    return w.write(f"{name}.yaml", CONFIG.format(algorithm=algorithm, **values))


def column(w, run, ending):
    with open(w.run_dir(run) / "metrics" / "progress.csv", newline="") as f:
        rows = list(csv.DictReader(f))
    name = next(c for c in rows[0] if c.endswith(ending))
    return [float(r[name]) for r in rows if r[name]]


def test_the_first_step_learns_from_what_was_played(w):
    """In brood-agent: log-probabilities are those of acting. Of vectors, through a memory, and of
    pictures."""
    for name, changes in {
            "vectors": {"settings": "epochs: 1", "more": "share: team"},
            "memory": {"settings": "epochs: 1, recurrent: 8, chunk: 10", "stack": 2},
            "pictures": {"env": CATCH, "conv": CONV, "settings": "epochs: 1", "stack": 3,
                         "steps": 320, "every": 160}}.items():
        if harness.SANITIZED and name == "memory":
            continue
        w.brood("run", config(w, name, "ippo", **changes), "--name", name)
        moved = column(w, name, "_0/approx_kl")
        assert moved and set(moved) == {0.0}, (name, moved)


PROGRAM = """
import numpy as np
import brood


class Compares(brood.Agent):
    "Adds what it sees to each row, and compares it with what it learns from."
    rows = brood.transitions(2)
    reads = ("obs", "next_obs", "seen", "first", "*/obs", "*/seen")
    columns = {{"seen": {width}}}

    def build(self):
        assert (self.me.obs, self.me.stack) == ({width}, {stack}), self.me
        self.n = self.variable("rows", np.zeros(3))

    def act(self, obs, ctx):
        return brood.Act(np.floor(ctx.uniform() * self.me.action.width).astype(int),
                         {{"seen": obs}})

    def learn(self, batch, ctx):
        obs, after, seen = batch["obs"], batch["next_obs"], batch["seen"]
        goes_on = batch.present[:, 1] & (batch["first"][:, 1] == 0)
        assert np.array_equal(obs, seen), "obs"
        assert np.array_equal(after[goes_on, 0], seen[goes_on, 1]), "next_obs"
        assert np.array_equal(batch["*/obs"], batch["*/seen"]), "*/obs"
        old, new = (obs[..., ::3], obs[..., 2::3]) if self.me.image else \\
            (obs[..., :18], obs[..., -18:])
        self.n += len(obs), goes_on.sum(), (old != new).any(-1).sum()


if __name__ == "__main__":
    brood.main(Compares)
"""


def test_a_program_learns_from_what_it_acted_on(w):
    """In NumPy: vectors of several agents, and bytes of pictures."""
    for module in ("numpy", "msgpack"):
        if importlib.util.find_spec(module) is None:
            raise harness.Skip(f"Python has no {module}")
    for name, width, changes in (
            ("vectors", 4 * 18, {"experience": REPLAY, "steps": 200, "every": 200}),
            ("pictures", 3 * 84 * 84, {"experience": REPLAY.replace("32", "4"), "env": CATCH,
                                       "stack": 3, "steps": 120, "every": 120})):
        (w.path / "agents").mkdir(exist_ok=True)
        (w.path / "agents" / "compares.py").write_text(
            PROGRAM.format(width=width, stack=changes.get("stack", 4)))
        w.brood("run", config(w, name, "program", **changes,
                              more="command: [python3, agents/compares.py]"), "--name", name)
        step = max(harness.checkpoints(w.run_dir(name)))
        agent = "agent_0" if name == "vectors" else "player_0"
        found = json.loads(w.brood("inspect", w.run_dir(name) / "checkpoints" / str(step) / agent,
                                   "--tensor", f"{agent}/rows", "--json")[0])["values"]
        assert min(found) > 0, (name, found)


CASES = {
    "window": ("mappo", {"settings": "epochs: 2, minibatches: 2", "more": "share: team"}),
    "replay": ("maddpg", {"experience": REPLAY.replace("400", "160"), "settings": "symmetry: env"}),
}


def test_deaths_and_a_resume_change_nothing(w):
    """Rows of windows, and of a small replay window, with those before it that are kept."""
    for name in ("replay",) if harness.SANITIZED else CASES:
        algorithm, changes = CASES[name]
        file = config(w, name, algorithm, steps=1600, every=400, kept=2, **changes)
        w.brood("run", file, "--name", name)
        p = w.start("run", file, "--name", f"{name}-killed")
        harness.wait_until("its rows", lambda n=name: harness.checkpoints(
            w.run_dir(f"{n}-killed")))
        w.kill_agents(p, f"{name}-killed")
        if p.poll() is None:
            harness.kill_holder(p, w.run_dir(f"{name}-killed"))
        p.wait()
        w.brood("resume", f"{name}-killed", code=None)
        harness.assert_same_files(outcome(w.run_dir(name)), outcome(w.run_dir(f"{name}-killed")))
    w.brood("fork", "replay@1200", "--name", "fork")
    w.brood("resume", "fork")
    harness.assert_same_files(outcome(w.run_dir("replay")), outcome(w.run_dir("fork")))


def test_what_was_shown_before_is_learnt(w):
    """The sign that is shown two steps before it is asked for: 0.25 for an agent that sees the
    present alone."""
    recall = harness.SOURCE / "tests" / "bench" / "memory_tasks.py"
    file = config(w, "recall", "ippo", stack=3, copies=16, every=9600,
                  env=f'command: [python3, {BRIDGE}, "{recall}:Recall"], params: {{wait: 2}}',
                  steps=960 if harness.SANITIZED else 9600, experience="update_every: 480",
                  settings="epochs: 4, minibatches: 4", more="optimizer: {learning_rate: 0.01}")
    w.brood("run", file, "--name", "recall")
    found = json.loads(w.brood("eval", "recall", "--episodes", "100", "--json")
                       [0].splitlines()[-1])["team_return_mean"]
    assert harness.SANITIZED or found > 0.9, found


def test_clipping(w):
    """Learners see clipped rewards; what is reported is as it was."""
    for name, more in (("plain", ()), ("clipped", ("--set", "env.clip_rewards=0.5"))):
        w.brood("run", config(w, name, "random", stack=1, copies=1, steps=70, every=70,
                              experience=REPLAY), "--name", name, *more)
    returns = [column(w, name, "return/agent_0") for name in ("plain", "clipped")]
    assert returns[0] == returns[1] and returns[0][-1] < -7 * 0.5, returns
    file = config(w, "bytes", "ippo", env=CATCH)
    for given, why in (
            (("env.clip_observations=5",), "env.clip_observations: is for numbers, but player_0"),
            (("env.stack=65",), "at most 64"), (("env.stack=0",), "at least 1"),
            (("env.copies=16000", "--set", "experience.update_every=16000"),
             "env.stack: 4 observations of player_0, of 7056 numbers each, in 16000 copies are "
             "too many")):
        _, err = w.brood("check", file, "--set", *given, code=2)
        assert why in err and err.count("\n") == 1, err
    none = w.write("none.yaml", "env: {id: none, clip_rewards: 1}\nrun: {env_steps: 1}\n"
                   "agents: {a: {algorithm: graph}}\n")
    _, err = w.brood("check", none, code=2)
    assert "env.clip_rewards: is for runs with an environment" in err, err
    _, err = w.brood("check", config(w, "entities", "ippo"), "--set", "env.observe=entities", code=2)
    assert "env.stack: entities are seen one observation at a time" in err, err


if __name__ == "__main__":
    harness.main()
