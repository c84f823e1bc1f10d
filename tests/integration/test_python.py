"""scripts/brood.py: a client of live runs, and of those that are over or were killed; policies
that play as `brood eval` does; and the example for people."""
import json
import math
import os
import re
import signal
import subprocess
import sys

import harness
from test_environments import TELLING, bridged

sys.path[:0] = [str(harness.SOURCE / "scripts"), str(harness.SOURCE / "tests" / "support")]
os.environ["BROOD"] = str(harness.BROOD)
try:
    import numpy as np
    import brood
    import recorded
    MISSING = None
except ImportError as why:
    MISSING = why

FAMILIES = """\
run: {{name: families, seed: 1, env_steps: 200}}
env:
  command: [{python}, {bridge}, {environment}]
  params: {{agents: [{agents}], record: {record}}}
  copies: 2
  max_steps: 6
  stack: 3
  reward: team_mean
  verify: false
experience: {{warmup: 40, batch_size: 16, update_every: 40}}
evaluation: {{every_env_steps: 0}}
defaults: {{actor: {{hidden: [8]}}, critic: {{hidden: [8]}}, algorithm: maddpg}}
agents:
  choices-maddpg: {{settings: {{agent_id: true}}}}
  numbers-matd3: {{algorithm: matd3}}
  choices-mappo: {{algorithm: mappo}}
  parts-ippo: {{algorithm: ippo, actor: {{activation: tanh}}}}
  numbers-ippo: {{algorithm: ippo, actor: {{activation: leaky_relu}}}}
  parts-masac: {{algorithm: masac, actor: {{activation: elu}}}}
  numbers-isac: {{algorithm: isac}}
  parts-iql: {{algorithm: iql}}
  choices-qmix:
    algorithm: qmix
    share: team
    settings: {{agent_id: true, last_action: true, recurrent: 8}}
  picture-ippo: {{algorithm: ippo, actor: {{conv: [[4, 3, 2]]}}}}
  choices-random: {{algorithm: random}}
"""
AGENTS = ["choices-maddpg_0", "choices-maddpg_1", "numbers-matd3", "choices-mappo_0",
          "choices-mappo_1", "parts-ippo", "numbers-ippo", "parts-masac", "numbers-isac",
          "parts-iql", "choices-qmix_0", "choices-qmix_1", "picture-ippo", "choices-random"]


def needs_numpy(test):
    def wrapped(w):
        if MISSING:
            raise harness.Skip(MISSING)
        test(w)
    return wrapped


def once(test):
    """Of what is in Python, the sanitizers see nothing."""
    def wrapped(w):
        if harness.SANITIZED:
            raise harness.Skip("played once, by the release build")
        test(w)
    return needs_numpy(wrapped)


def refused(what, function, *args, **more):
    try:
        function(*args, **more)
    except brood.Error as e:
        assert what in str(e) and "\n" not in str(e), e
        return e
    raise AssertionError(f"not refused: {what}")


def until(events, name):
    """Reads events up to the first of that name, and returns it."""
    return next(e for e in events if e["event"] == name)


def until_it_learns(events):
    """The first row with a loss."""
    return next(e for e in events if e["event"] == "row" and
                e.get("train/agent_0/critic_loss") is not None)


def begin(w, name):
    """A run that ends only on request."""
    config = w.small(steps=100000000, evaluate=0, checkpoint=1000000000)
    return brood.launch(config, name=name, runs_dir=w.runs, seed=3,
                        **{"defaults.actor.hidden": [8, 8], "defaults.actor.layer_norm": True})


@needs_numpy
def test_a_live_run(w):
    run = begin(w, "a")
    assert [r["run"] for r in brood.runs(w.runs)] == ["a"] and run.is_live()
    assert brood.attach("a", w.runs).path == brood.attach(runs_dir=w.runs).path == run.path
    status, events = run.status(), run.subscribe()
    assert status["state"] == "running" and len(status["agents"]) == 3, status
    assert "hidden: [8, 8]" in (run.path / "config.yaml").read_text()
    run.kill("agent_1")
    died = until(events, "exit")
    assert died["agent"] == "agent_1" and died["signal"] == 9, died
    assert run.respawn("agent_2") > 0
    assert until_it_learns(events)["env_steps"] <= run.status()["env_steps"]
    assert run.metrics().env_steps[0] > 0  # perhaps in the middle of a row

    later = run.set({"defaults.discount": 0.5, "defaults.polyak": 1e-05}, at=99999999)
    assert later["at"] == 99999999, later
    assert {p["key"] for p in run.status()["pending"]} == {"defaults.discount",
                                                           "defaults.polyak"}
    assert [c["key"] for c in run.cancel("defaults.discount")] == ["defaults.discount"]
    assert run.set({"defaults.clip_norm": None, "run.env_steps": 90000000})["changes"]
    e = refused("defaults.actor.hidden cannot change", run.set, {"defaults.actor.hidden": [3]})
    assert isinstance(e.details["code"], int), e.details
    refused("there are: agent_0, agent_1, agent_2", run.kill, "bob")
    refused("there is no run b", brood.attach, "b", w.runs)
    assert "event=set" in run.logs() and "SIGKILL" in run.logs("supervisor")

    hasty = brood.attach("a", w.runs, timeout_s=0.1)
    harness.signal_process(status["pid"], signal.SIGSTOP)
    harness.wait_until("the stop", lambda: harness.is_stopped(status["pid"]))
    assert hasty.status()["state"] == "suspended"
    refused("does not answer", hasty.call, "status")
    harness.signal_process(status["pid"], signal.SIGCONT)

    step = run.pause()
    assert run.checkpoint() == step and run.checkpoints()[-1] == step
    policy = brood.load_policy(f"{run.path}@{step}", "agent_0")
    assert repr(policy) == f"<brood.Policy a@{step} agent_0: maddpg, observation 18 numbers, " \
        "action discrete>", policy
    x = np.random.default_rng(0).normal(size=(7, 18)).astype("f4")
    layer = policy._network.wanted[0]
    live = run.run("agent_0", layer, {"observation0": x})
    # A row of little variance is normalised with a large factor, rounding errors included.
    scores = policy.scores(x)
    assert live.shape == (7, 5) and np.allclose(scores, live, 1e-4, 1e-4), scores - live
    assert policy(x[0]) == np.argmax(live[0]) and len(run.run("agent_1", [])) == 0
    refused("has an environment", run.run, "agent_0", [], targets=["init"])
    # The old subscriber has much to read, and a run that ends gives it only a second.
    events = run.subscribe()
    run.continue_()
    last = run.stop()
    assert until(events, "stopped")["env_steps"] == last
    assert all(e["event"] != "row" for e in events)  # it ends
    assert run.wait() == 4 and not run.is_live()
    it_is_over(run, "stopped", 4)


def it_is_over(run, state, code):
    status = run.status()
    assert status["state"] == state and status["exit_code"] == code, status
    for function in (run.pause, run.stop, run.subscribe):
        refused(f"{run.path} is not running", function)
    rows = run.metrics()
    assert len(rows) > 0 and rows.env_steps.dtype == np.int64
    assert np.isfinite(rows["train/agent_0/critic_loss"]).any()  # not in every row
    assert brood.load_policy(run, "agent_0").scores(np.zeros(18)).shape == (1, 5)
    assert run.evaluate(episodes=2)["episodes"] == 2


@needs_numpy
def test_a_run_that_was_killed(w):
    run = begin(w, "dead")
    events = run.subscribe()
    until_it_learns(events)
    run.checkpoint()
    for pid in (run.status()["keeper_pid"], run.status()["pid"]):
        harness.kill(pid)
    assert not [e for e in events if e["event"] in ("done", "stopped")]
    harness.wait_until("its end", lambda: run.status()["state"] == "killed")
    it_is_over(run, "killed", 137)


@needs_numpy
def test_what_is_wrong_is_one_line(w):
    refused("nope.yaml: No such file or directory", brood.launch, w.path / "nope.yaml")
    refused("env.id: there is no environment 'x'", brood.launch, {"env": {"id": "x"}},
            runs_dir=w.runs)
    assert brood.runs(w.runs) == []
    refused("there is no run in", brood.attach, None, w.runs)
    text = {"hidden": np.array([8, 8]), "on": True, "none": None, "lr": 1e-5, "name": "a: b"}
    assert brood._text(text) == \
        '{hidden: [8, 8], on: true, none: none, lr: 1e-05, name: "a: b"}'
    assert brood._text({"clip_norm": None, "params": {"limit": None, "title": "\N{SNAIL}"}}) == \
        '{clip_norm: none, params: {limit: ~, title: "\N{SNAIL}"}}'


@needs_numpy
def test_parameters_keep_their_types(w):
    file = bridged(w, w.write("telling.py", TELLING))
    for settings in ({"env.params.a": "007", "env.params.b": "true", "env.params.c": "~",
                      "env.params.d": {"e": None}, "env.params.f": [-math.inf, np.float32(2)]},
                     {"env.params": {"a": "007", "b": "true", "c": "~", "d": {"e": None},
                                     "f": [-math.inf, 2.0]}}):
        refused("ValueError: a='007', b='true', c='~', d={'e': None}, f=[-inf, 2.0]",
                brood.launch, file, runs_dir=w.runs, **settings)
    file = bridged(w, w.path / "telling.py", name="limited.yaml")
    file.write_text(file.read_text().replace("  copies: 5", "  params: {limit: 3}\n  copies: 5"))
    refused("ValueError: a='none'", brood.launch, file, runs_dir=w.runs,
            **{"env.params.limit": None, "env.params.a": "none"})


# ---- policies ----


def episodes_of(record):
    """What was written by environments, by environment: seeds, and actions."""
    lines = [json.loads(line) for line in record.read_text().splitlines()]
    return [what for by in dict.fromkeys(who for who, _ in lines)
            for who, what in lines if who == by]


SWITCHES = """\
import sys
sys.path.insert(0, {scripts!r})
import brood


class Switches(brood.Env):
    possible_agents = ["a"]
    observations = brood.Box(0, 1, (2,))
    actions = brood.MultiDiscrete([2, 2])  # as many combinations as choices
    max_steps = 20

    def begin(self):
        self.shown = [self.draw.randint(0, 1), self.draw.randint(0, 1)]
        return {{"a": self.shown}}

    def act(self, actions):
        right = sum(x == y for x, y in zip(actions["a"], self.shown)) + 0.1 * actions["a"][0]
        return self.begin(), {{"a": float(right)}}, False


parallel_env = Switches
"""


@needs_numpy
def test_a_frozen_policy_of_combinations_acts_as_its_source(w):
    """Also where the combinations are as many as the choices, so that sizes do not tell; and
    when Python loads both."""
    place = w.write("switches.py", SWITCHES.format(scripts=str(harness.SOURCE / "scripts")))
    scope: dict = {}
    exec(place.read_text(), scope)  # pylint: disable=exec-used
    env = {"command": brood.bridged(place), "max_steps": 20}
    for algorithm in ("iql", "masac"):
        common = {"run": {"env_steps": 100, "name": algorithm}, "env": env,
                  "experience": {"warmup": 20, "batch_size": 8, "update_every": 20}}
        w.write("a.yaml", brood._text({**common, "defaults": {"algorithm": algorithm}}))
        w.write("b.yaml", brood._text({**common, "defaults": {
            "algorithm": "frozen", "settings": {"from": f"{algorithm}-source"}}}))
        returns, actions = [], []
        for file, name in (("a.yaml", f"{algorithm}-source"), ("b.yaml", f"{algorithm}-copy")):
            w.brood("run", w.path / file, "--name", name)
            out, _ = w.brood("eval", name, "--episodes", "10", "--json")
            returns.append(harness.json_lines(out)[-1]["return_mean"])
            policy, = brood.load_policies(w.runs / name, scope["Switches"]()).values()
            actions.append([policy(x).tolist() for x in ([0, 0], [0, 1], [1, 0], [1, 1])])
        assert returns[0] == returns[1], (algorithm, returns)
        assert actions[0] == actions[1], (algorithm, actions)


@once
def test_policies_act_as_in_eval(w):
    """Of every family of algorithms, in every kind of space, with stacked observations: the environment writes down what
    `brood eval` did, and the policies are asked the same."""
    record = w.path / "record"
    config = w.write("families.yaml", FAMILIES.format(
        python=sys.executable, bridge=harness.SOURCE / "scripts" / "pettingzoo_bridge.py",
        environment=recorded.__file__, agents=", ".join(AGENTS), record=record))
    w.brood("run", config, "--name", "families")
    run = brood.attach("families", w.runs)
    record.unlink()
    judged = run.evaluate(episodes=4)
    env = recorded.Recorded(AGENTS)
    policies = {a: brood.load_policy(run, a, env) for a in AGENTS[:-1]}
    for name, policy in policies.items():  # one line, with the environment's own spaces
        said = repr(policy)
        assert f"@{run.checkpoints()[-1]} {name}: {policy.algorithm}, observation " in said, said
        assert re.search(r"observation [A-Z]\w+\(.*, action [A-Z]\w+\(", said), said
        assert "\n" not in said and len(said) < 240, said
    n = 0
    for what in episodes_of(record):
        if isinstance(what, int):
            observations, infos = env.reset(seed=what)
            for policy in policies.values():
                policy.reset()
            continue
        for a, policy in policies.items():
            action = policy(observations[a], infos[a].get("action_mask"))
            assert np.allclose(action, what[a], 1e-6, 1e-6), (a, action, what[a])
            n += 1
        observations, _, _, _, infos = env.step(
            {a: np.array(x) if isinstance(x, list) else x for a, x in what.items()})
    assert n >= judged["episodes"] * env.max_steps * len(policies), n
    what_cannot_be_loaded(run, env)


def what_cannot_be_loaded(run, env):
    refused("choices-random has no policy to load: its algorithm is random",
            brood.load_policy, run, "choices-random", env)
    refused("there is no agent bob; there are: choices-maddpg_0", brood.load_policy, run, "bob")
    refused("there is no checkpoint 7 in", brood.load_policy, f"{run.path}@7", "parts-iql")
    refused("sees its last action", brood.load_policy, run, "choices-qmix_0")
    refused("sees several pictures", brood.load_policy, run, "picture-ippo")
    refused("it makes a int, which is neither", brood.load_policy, run, "parts-iql", 5)
    refused("it makes a int, which is neither", brood.load_policies, run, 5)
    policy = brood.load_policy(run, "parts-iql", env)
    refused("parts-iql: ", policy, np.zeros(7))
    other = recorded.Recorded(["parts-iql", "numbers-ippo"])
    refused("the environment has no agent parts-ippo", brood.load_policy, run, "parts-ippo",
            other)
    for name, change, what in (
            ("parts-iql", {"observations": brood.Box(0, 1, (4,))}, "sees 15 numbers, the "
             "environment shows 12"),
            ("parts-iql", {"actions": brood.Discrete(9)}, "gives 4 numbers for an action, the "
             "environment expects 9"),
            ("numbers-ippo", {"actions": brood.Discrete(2)}, "a policy of continuous actions")):
        other = recorded.Recorded(["parts-iql", "numbers-ippo"])
        vars(other).update(change)
        refused(what, brood.load_policy, run, name, other)
    data = next((run.path / "checkpoints" / "200" / "parts-iql").glob("*.data-*"))
    data.write_bytes(bytes(x ^ 1 for x in data.read_bytes()))
    refused("damaged", brood.load_policy, run, "parts-iql")


# ---- for people ----


def python(w, *args):
    p = subprocess.run([sys.executable, *args], cwd=w.path, capture_output=True, text=True,
                       env={**os.environ, "PYTHONPATH": str(harness.SOURCE / "scripts")},
                       check=False)
    assert p.returncode == 0, p.stdout + p.stderr
    return p.stdout


@once
def test_the_example(w):
    """It trains in an environment of thirty lines, and compares its policies' returns with
    those of `brood eval`."""
    out = python(w, harness.SOURCE / "tests" / "examples" / "from_python.py")
    assert "defaults.actor.hidden cannot change" in out and "brood eval" in out, out


@once
def test_the_lines_of_the_readme(w):
    code = re.search(r"```python\n(.*?)```", (harness.SOURCE / "README.md").read_text(),
                     re.DOTALL)[1]
    (w.path / "configs").mkdir()
    w.small("configs/simple_spread.yaml", steps=100000000, evaluate=0, checkpoint=1000000000)
    out = python(w, "-c", code)
    assert "running" in out, out
    assert brood.attach("py", w.runs).status()["state"] == "stopped"


if __name__ == "__main__":
    harness.main()
