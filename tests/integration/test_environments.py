"""External environments, in processes of their own: through the bridge, and misbehaving ones.

BROOD_KILLS=50 in the environment sets the number of kills.
"""
import json
import os
import random
import re
import shutil
import signal
import subprocess
import time

import harness
from test_exactness import outcome
from test_steering import need_msgpack

try:
    import msgpack
except ImportError:
    pass

BRIDGE = harness.SOURCE / "scripts" / "pettingzoo_bridge.py"
EXAMPLES = harness.SOURCE / "tests" / "examples"
SOURCE_OF_PLUGINS = harness.SOURCE / "agent" / "plugin"
FAKE_ENV = harness.BUILD / "tests" / "supervisor" / "fake_env"
PYTHON = "/usr/bin/python3"
KILLS = int(os.environ.get("BROOD_KILLS", 8 if harness.SANITIZED else 16))
ENVIRONMENTS = {"env_0", "env_1", "eval_env_0", "eval_env_1"}

CONFIG = """
run: {{name: foreign, seed: 1, env_steps: {steps}}}
env:
  command: [{command}]
  copies: 5
  processes: {processes}
  restart: {{max_restarts: 100000, delay: 0s}}
  verify: false
experience: {{capacity: 20000, batch_size: 32, warmup: 200, update_every: 20}}
evaluation: {{every_env_steps: {evaluate}, episodes: 7}}
checkpoint: {{every_env_steps: {checkpoint}}}
log: {{every_env_steps: 200}}
defaults:
  algorithm: {algorithm}
  actor: {{hidden: [16, 16]}}
  critic: {{hidden: [16, 16]}}
"""


def config(w, *command, name="foreign.yaml", steps=2000, evaluate=500, checkpoint=1000,
           algorithm="maddpg", processes=2):
    words = ", ".join(json.dumps(str(word)) for word in command)
    return w.write(name, CONFIG.format(command=words, steps=steps, evaluate=evaluate,
                                       checkpoint=checkpoint, algorithm=algorithm,
                                       processes=processes))


def bridged(w, environment, **more):
    return config(w, PYTHON, BRIDGE, environment, **more)


def hallway(w, **more):
    return bridged(w, EXAMPLES / "hallway.py", **more)


def processes_of(w, name):
    """name -> pid of the live run's environment processes."""
    return {e["name"]: e["pid"] for e in w.status(name)["environments"] if e["pid"]}


def without_state(files):
    """Without run.state, which contains the run's length and its processes."""
    return {k: v for k, v in files.items() if k != "run.state"}


def final(run):
    """The last checkpoint, for any number of agents."""
    steps = max(int(p.name) for p in (run / "checkpoints").iterdir() if p.name.isdigit())
    return harness.tree_bytes(run / "checkpoints" / str(steps))


def weights(run):
    return {k: v for k, v in final(run).items() if "model.ckpt" in k}


def test_a_change_during_a_round_counts_from_the_next_one_on(w):
    """The environments are stopped: the round that has begun cannot end meanwhile."""
    p = w.start("run", hallway(w, steps=harness.FOREVER, evaluate=0), "--name", "changed")
    run = w.run_dir("changed")
    harness.wait_until("the rounds", lambda: (run / "control.sock").exists() and
                       w.status("changed")["env_steps"] > 0)
    pids = list(processes_of(w, "changed").values())
    for i in range(3):
        for pid in pids:
            harness.kill(pid, signal.SIGSTOP)
        steps = []

        def stands():
            steps.append(w.status("changed")["env_steps"])
            return len(steps) > 2 and len(set(steps[-3:])) == 1
        harness.wait_until("the stop", stands)
        w.brood("set", "changed", f"defaults.discount=0.{i + 5}")
        for pid in pids:
            harness.kill(pid, signal.SIGCONT)

        def lines(event):
            return re.findall(event, (run / "journal").read_text())
        harness.wait_until("the change", lambda: len(lines(r"event=changed .*\n")) == i + 1)
        promised = lines(r"event=set at=(\d+) ")
        assert lines(r" step=(\d+) event=changed") == promised, promised
    w.brood("stop", "changed")
    assert p.wait(timeout=harness.DEADLINE_S) == 4, p.log.read_text()


def test_it_trains_and_says_where_it_stands(w):
    p = w.start("run", hallway(w, steps=harness.FOREVER), "--name", "live")
    harness.wait_until("evaluations", lambda: (w.run_dir("live") / "control.sock").exists()
                       and ENVIRONMENTS <= processes_of(w, "live").keys())
    s = w.status("live")
    assert s["exact"] is True and len(s["agents"]) == 3, s
    assert all(e["restarts"] == 0 and e["rss_bytes"] > 0 for e in s["environments"]), s
    text = w.brood("status", "live")[0]
    assert "eval_env_1" in text and "walker_2" in text, text
    w.brood("respawn", "live", "env_1")
    was, = (e["pid"] for e in s["environments"] if e["name"] == "env_1")
    now = harness.wait_until("a new process", lambda: (
        now := processes_of(w, "live")) and now.get("env_1", was) != was and now)
    w.brood("stop", "live")
    assert p.wait(timeout=harness.DEADLINE_S) == 4, p.log.read_text()
    assert not any(harness.alive(pid) for pid in now.values()), now
    journal = (w.run_dir("live") / "journal").read_text()
    assert "event=respawn environment=env_1 pid=" in journal, journal
    assert w.brood("eval", "live", "--copies", "1", "--json")[0] == \
        w.brood("eval", "live", "--copies", "7", "--json")[0]


def test_neither_processes_nor_evaluations_change_it(w):
    file = hallway(w, steps=1000, checkpoint=500)
    w.brood("run", file, "--name", "two")
    w.brood("run", file, "--name", "three", "--set", "env.processes=3")
    w.brood("run", file, "--name", "calm", "--set", "evaluation.every_env_steps=0")
    harness.assert_same_files(without_state(outcome(w.run_dir("two"))),
                              without_state(outcome(w.run_dir("three"))))
    harness.assert_same_files(weights(w.run_dir("two")), weights(w.run_dir("calm")))


def descriptors(pid):
    return len(os.listdir(f"/proc/{pid}/fd"))


def kill_environments(w, name, kills, draw):
    """Kill one process after the other at random moments; the number of kills of each."""
    hits = dict.fromkeys(ENVIRONMENTS, 0)
    while sum(hits.values()) < kills:
        found = processes_of(w, name)
        victim = draw.choice(sorted(found)) if found else None
        if victim is None or not harness.alive(found[victim]):
            continue
        until = time.monotonic() + draw.uniform(0, 0.05) * harness.PATIENCE
        while time.monotonic() < until:
            pass
        harness.kill_and_wait(found[victim])
        hits[victim] += 1
    return hits


def test_kills_change_nothing_and_nothing_leaks(w):
    draw = random.Random(5)
    sized = {"steps": harness.FOREVER, "evaluate": 1000, "checkpoint": 2000}
    p = w.start("run", hallway(w, **sized), "--name", "killed", env=harness.VISIBLE)
    run = w.run_dir("killed")
    harness.wait_until("evaluations", lambda: (run / "control.sock").exists()
                       and ENVIRONMENTS <= processes_of(w, "killed").keys())
    supervisor = harness.supervisor_of(p.pid)
    before = descriptors(supervisor)
    hits = kill_environments(w, "killed", KILLS, draw)
    print(f"# kills: {hits}")
    harness.wait_until("the last one's successor", lambda: sum(
        e["restarts"] for e in w.status("killed")["environments"]) >= KILLS)
    assert w.status("killed")["exact"] is True
    harness.settled(supervisor, 3 + len(ENVIRONMENTS))
    harness.wait_until("as few descriptors", lambda: descriptors(supervisor) <= before)
    steps = harness.set_last_step(w, run, 2000)
    assert p.wait(timeout=harness.DEADLINE_S) == 0, p.log.read_text()
    assert "not reproducible" not in p.log.read_text()
    w.brood("run", hallway(w, **sized), "--name", "calm", "--set",
            f"run.env_steps={steps}")
    harness.assert_same_files(without_state(outcome(run)),
                              without_state(outcome(w.run_dir("calm"))))


def kill_and_resume(w, file, name, at):
    """Kill the supervisor of an endless run behind that step, resume it to its next
    checkpoint, and make another run of that length."""
    p, run = w.start("run", file, "--name", name), w.run_dir(name)
    harness.wait_until("a checkpoint", lambda: p.poll() is not None or
                       max(harness.checkpoints(run), default=0) >= at)
    harness.kill_holder(p, run)
    kept = harness.checkpoints(run)
    length = ("--set", f"run.env_steps={2 * kept[-1] - kept[-2]}")
    w.brood("resume", name, *length)
    w.brood("run", file, "--name", name + "-calm", *length)
    harness.assert_same_files(final(w.run_dir(name + "-calm")), final(run))


def test_resume_plays_the_episodes_again(w):
    sized = {"steps": harness.FOREVER, "checkpoint": 400}
    for name, environment in (("hall", "hallway.py"), ("cart", "cart.py:Cart")):
        algorithm = "maddpg" if name == "hall" else "ddpg"
        kill_and_resume(w, bridged(w, EXAMPLES / environment, algorithm=algorithm, **sized),
                        name, 1200)


def test_who_has_left_stays_as_it_was(w):
    """Data that a process sends about an absent agent is ignored, in the first play and in
    a replay."""
    sized = {"steps": 1500, "checkpoint": 500}
    w.brood("run", config(w, FAKE_ENV, "good", **sized), "--name", "calm")
    w.brood("run", config(w, FAKE_ENV, "kills-29", **sized), "--name", "deaths")
    assert "event=respawn" in (w.run_dir("deaths") / "journal").read_text()
    harness.assert_same_files(without_state(outcome(w.run_dir("calm"))),
                              without_state(outcome(w.run_dir("deaths"))))
    kill_and_resume(w, config(w, FAKE_ENV, "good", steps=harness.FOREVER, checkpoint=500),
                    "stopped", 1000)


MOODY = """
import os, sys
sys.path.insert(0, {examples!r})
from hallway import Hallway


class Moody(Hallway):
    def step(self, actions):
        obs, *rest = super().step(actions)
        if self.time == 3:
            for a in obs:
                obs[a][0] += os.getpid() * 1e-6
        return obs, *rest


parallel_env = Moody
"""


def test_what_is_not_reproducible_is_told_and_discarded(w):
    moody = w.write("moody.py", MOODY.format(examples=str(EXAMPLES)))
    p = w.start("run", bridged(w, moody, steps=harness.FOREVER, evaluate=0), "--name", "moody")
    harness.wait_until("rounds", lambda: (w.run_dir("moody") / "control.sock").exists()
                       and w.status("moody")["env_steps"] > 2000)

    def disturb():
        env = w.status("moody")["environments"][0]
        if env["state"] in ("idle", "busy"):
            harness.kill_and_wait(env["pid"])
        return "not reproducible" in p.log.read_text()
    harness.wait_until("it is noticed", disturb)
    line = [l for l in p.log.read_text().splitlines() if "not reproducible" in l][0]
    assert line.startswith("env_0: this environment is not reproducible: replayed from "
                           "its seed, copy ") and "answered differently in step 3" in line, \
        line
    s = w.status("moody")
    assert s["exact"] is False, s
    assert "not exact" in w.brood("status", "moody")[0]
    at = s["env_steps"]
    harness.wait_until("it goes on", lambda: p.poll() is not None or
                       w.status("moody")["env_steps"] > at + 1000)
    assert p.poll() is None, p.log.read_text()
    w.brood("stop", "moody")
    assert p.wait(timeout=harness.DEADLINE_S) == 4, p.log.read_text()
    assert w.status("moody")["exact"] is False
    at = w.status("moody")["env_steps"]
    out, err = w.brood("resume", "moody", "--set", f"run.env_steps={at + 1000}", "--anyway")
    assert "is not exact" in err, err


def test_it_is_found_out_at_the_start(w):
    """The configuration of this file leaves env.verify out, to save time."""
    moody = w.write("moody.py", MOODY.format(examples=str(EXAMPLES)))
    file = bridged(w, moody, steps=200, evaluate=0, algorithm="random", processes=1)
    says = ("this environment is not reproducible: two processes answered the same seed and "
            "actions differently in step 3")
    w.brood("run", file, "--name", "unchecked")
    assert w.status("unchecked")["exact"] is True
    assert w.brood("check", file)[1] == ""
    out, err = w.brood("check", file, "--set", "env.verify=true")
    assert err == f"{file}: env.command: warning: {says}\n", err
    err = w.brood("run", file, "--set", "env.verify=true", "--name", "checked")[1]
    assert f"{says}\n" in err, err
    assert w.status("checked")["exact"] is False
    file.write_text(file.read_text().replace("  verify: false\n", "").replace(
        str(moody), str(EXAMPLES / "hallway.py")))
    assert w.brood("check", file)[1] == ""
    w.brood("run", file, "--name", "sound")
    assert w.status("sound")["exact"] is True


SHORT_MASK = """
import sys
sys.path.insert(0, {support!r})
from rooms import Rooms


class ShortMask(Rooms):
    def step(self, actions):
        self.move = max(range(3), key=lambda move: move in actions.values())
        obs, rewards, ends, cuts, infos = super().step(actions)
        return obs, rewards, ends, cuts, {{a: {{"action_mask": [1, 1]}} for a in infos}}


parallel_env = ShortMask
"""


def test_check_plays_a_few_random_steps(w):
    mask = w.write("short_mask.py", SHORT_MASK.format(support=str(EXAMPLES.parent / "support")))
    for file, setting, says in (
            (faulty(w), "env.params.what=step", "faulty.py:14: RuntimeError: no more way way way"),
            (bridged(w, mask, name="mask.yaml"), "env.params.max_cycles=9",
             "host_0: an action mask of 2, expected 3"),
            (config(w, FAKE_ENV, "nan-5", name="nan.yaml"), "env.copies=5",
             "observation of scout_0 in copy 0: entry 2 is nan")):
        err = w.brood("check", file, "--set", setting, code=2)[1]
        assert err.startswith(f"{file}:4: env.command: ") and err.count("\n") == 1 and \
            err.endswith(says + "\n"), err
        assert " step: " in err, err


CARELESS = """
import sys
sys.path.insert(0, {examples!r})
from hallway import Hallway


class Careless(Hallway):
    def __init__(self, what, **more):
        super().__init__(**more)
        self.what = what

    def step(self, actions):
        obs, rewards, *rest = super().step(actions)
        if self.what in ("box", "large") and self.time == 3:
            obs = {{a: [9.0 if self.what == "box" else 1e300] * len(x) for a, x in obs.items()}}
        return obs, {{}} if self.what == "unpaid" else rewards, *rest


parallel_env = Careless
"""


def is_told(patterns, lines):
    """Which process is the first to say something depends on chance."""
    assert len(lines) == len(patterns) and all(map(re.fullmatch, patterns, sorted(lines))), lines


def test_what_is_hardly_meant_is_told_once(w):
    file = bridged(w, w.write("careless.py", CARELESS.format(examples=str(EXAMPLES))),
                   algorithm="random", evaluate=400)
    entry = r"\(copy \d, step 3: entry 0 is 9, the space has -1 to 1\)"
    lines = {"box": [fr"walker_{i}: an observation outside of its Box {entry}" for i in range(3)],
             "unpaid": [r"a step without any reward: all count as 0 \(copy \d, step 1\)"],
             "nothing": []}
    for what, says in lines.items():
        setting = f"env.params={{what: {what}, agents: 3, length: 9}}"
        err = w.brood("check", file, "--set", setting, "--set", "env.verify=true")[1]
        before = f"{file}: env.command: warning: "
        assert all(x.startswith(before) for x in err.splitlines()), err
        is_told(says, [x.removeprefix(before) for x in err.splitlines()])
        # Two processes of a run train, and two evaluate.
        w.brood("run", file, "--set", setting, "--name", what)
        told = re.findall(r'event=warning why="(.*)"', (w.run_dir(what) / "journal").read_text())
        is_told(says, told)
        log = (w.run_dir(what) / "logs" / "supervisor.log").read_text()
        assert log.count(": warning: ") == len(says), log
    err = w.brood("check", file, "--set", "env.params.what=large", code=2)[1]
    assert re.search(r": entry 0 is inf, or a number that float32 cannot have\n$", err), err


KINDS = """
import sys
sys.path.insert(0, {support!r})
from kinds import parallel_env
"""

GYMNASIUM = """
import sys
import types
sys.path.insert(0, {examples!r})
from cart import Cart
from cart_pole import CartPole


class error:
    class UnregisteredEnv(Exception):
        pass


def make(id, **kwargs):
    if id not in ("Cart-v1", "CartPole-v1"):
        raise error.UnregisteredEnv(f"Environment `{{id}}` doesn't exist.")
    env = Cart(**kwargs) if id == "Cart-v1" else CartPole(**kwargs)
    env.spec = types.SimpleNamespace(id=id, max_episode_steps=kwargs.get("max_steps"))
    return env
"""


def package(w, name, **modules):
    folder = w.path / name
    folder.mkdir()
    for module, text in modules.items():
        (folder / f"{module}.py").write_text(text.format(
            examples=str(EXAMPLES), support=str(EXAMPLES.parent / "support")))


def test_modules_and_ids_are_played_with_every_kind_of_space(w):
    package(w, "zoo", __init__="", kinds_v0=KINDS)
    file = bridged(w, "zoo.kinds_v0", steps=300, algorithm="random", processes=1)
    told = w.brood("envs", file)[0]
    assert all(name in told for name in ("one", "many", "bits", "uneven", "whole")), told
    w.brood("run", file, "--name", "kinds", "--set", "env.params.limit=4")
    facts = json.loads(w.brood("eval", "kinds", "--episodes", "3", "--json")[0])
    assert set(facts["return_mean"].values()) == {4.0} and facts["length_mean"] == 4, facts

    package(w, "gymnasium", __init__=GYMNASIUM)
    file = bridged(w, "Cart-v1", name="cart.yaml", steps=300, algorithm="random", processes=1)
    w.brood("run", file, "--name", "cart", "--set", "env.params.max_steps=7")
    assert json.loads(w.brood("eval", "cart", "--json")[0])["length_mean"] <= 7
    file = bridged(w, "CartPole-v1", name="long.yaml", algorithm="vdn", processes=1)
    for params, code in (("{max_steps: 7}", 0), ("{}", 2)):
        err = w.brood("check", file, "--set", "env.reward=team_mean", "--set",
                      f"env.params={params}", code=code)[1]
        assert not err if code == 0 else "env.max_steps: found 0, expected" in err, err
    err = w.brood("check", bridged(w, "Cart-v2"), code=2)[1]
    assert err.count("\n") == 1 and err.endswith(
        "there is no Python module Cart-v2, and gymnasium says: Environment `Cart-v2` "
        "doesn't exist.\n"), err


def test_an_environment_may_have_a_long_path(w):
    folder = w.path / ("deep" * 30)
    folder.mkdir()
    (folder / "kinds_v0.py").write_text(KINDS.format(support=str(EXAMPLES.parent / "support")))
    file = bridged(w, f"{folder}/kinds_v0.py:parallel_env", steps=100, algorithm="random",
                   processes=1, evaluate=0)
    w.brood("run", file, "--name", "deep")
    line = w.brood("eval", "deep", "--episodes", "1")[0].splitlines()[0]
    assert re.search(r" of \.\.\.[dep]+/kinds_v0\.py:parallel_env, ", line), line


TELLING = """
def parallel_env(**params):
    raise ValueError(", ".join(f"{k}={v!r}" for k, v in params.items()))
"""


def test_parameters_have_the_types_of_yaml(w):
    file = bridged(w, w.write("telling.py", TELLING))
    for params, says in (
            ("a: true, b: False, c: TRUE, d: tRUE, e: 'True'",
             "a=True, b=False, c=True, d='tRUE', e='True'"),
            ("a: ~, b: null, c: Null, d: NULL, e: 'null', f: nULL",
             "a=None, b=None, c=None, d=None, e='null', f='nULL'"),
            ("a: 7, b: -7, c: 1e3, d: .5, e: '7', f: 0x1F, g: 0o17, h: 0x, i: 0x-1, j: 0o8",
             "a=7, b=-7, c=1000.0, d=0.5, e='7', f=31, g=15, h='0x', i='0x-1', j='0o8'"),
            ("a: .inf, b: -.INF, c: +.Inf, d: .NaN, e: inf, f: nan, g: '.inf', h: 1e999",
             "a=inf, b=-inf, c=inf, d=nan, e='inf', f='nan', g='.inf', h='1e999'")):
        err = w.brood("check", file, "--set", f"env.params={{{params}}}", code=2)[1]
        assert err.endswith(f"ValueError: {says}\n"), err


GREEDY = """
import pathlib, sys
sys.path.insert(0, {examples!r})
from hallway import Hallway


class Greedy(Hallway):
    def step(self, actions):
        if self.time == 3 and not hasattr(type(self), "more"):
            type(self).more = bytearray(200 << 20)
        return super().step(actions)


parallel_env = Greedy
"""


def told(w, p, *words):
    """A line of the run's output that contains all of these."""
    def look():
        lines = p.log.read_text().splitlines()
        return next((l for l in lines if all(word in l for word in words)), None)
    return harness.wait_until(f"a line with {words}", look)


def change(w, p, name, setting):
    out, _ = w.brood("set", name, setting)
    assert re.fullmatch(rf"from step \d+ on: {setting}\n", out), out
    journal = w.run_dir(name) / "journal"
    harness.wait_until(f"the change of {setting}", lambda: p.poll() is not None or
                       re.search(rf"event=changed .*{setting}", journal.read_text()))


def test_what_concerns_the_processes_changes_in_a_live_run(w):
    greedy = w.write("greedy.py", GREEDY.format(examples=str(EXAMPLES)))
    p = w.start("run", bridged(w, greedy, steps=harness.FOREVER, evaluate=0, algorithm="random"),
                "--name", "live")
    harness.wait_until("rounds", lambda: (w.run_dir("live") / "control.sock").exists()
                       and w.status("live")["env_steps"] > 100)
    change(w, p, "live", "env.memory_limit=3G")
    change(w, p, "live", "env.respond_within=1s")
    harness.kill(harness.wait_until("env_1", lambda: processes_of(w, "live").get("env_1")),
                 signal.SIGSTOP)
    told(w, p, "env_1", "it did not answer ", ": it is stopped")
    change(w, p, "live", "env.respond_within=30s")
    change(w, p, "live", "env.restart.policy=temporary")
    harness.kill(harness.wait_until("env_0", lambda: processes_of(w, "live").get("env_0")))
    assert p.wait(timeout=harness.DEADLINE_S) == 1, p.log.read_text()
    last = p.log.read_text().splitlines()[-1]
    err = w.brood("eval", "live", "--render", "x.gif", code=1)[1]
    assert "it cannot be drawn: it takes no render_mode" in err, err
    assert re.search(r"process env_0 \(pid \d+\): killed by SIGKILL.* its restart policy is "
                     "temporary", last), last


def test_such_a_change_is_also_for_processes_that_start_later(w):
    p = w.start("run", hallway(w, steps=harness.FOREVER, evaluate=0, algorithm="random"),
                "--name", "live")
    harness.wait_until("rounds", lambda: (w.run_dir("live") / "control.sock").exists()
                       and w.status("live")["env_steps"] > 100)
    change(w, p, "live", "env.restart.policy=temporary")
    change(w, p, "live", "evaluation.every_env_steps=500")
    harness.kill(harness.wait_until("an evaluation", lambda: processes_of(
        w, "live").get("eval_env_0")))
    assert p.wait(timeout=harness.DEADLINE_S) == 1, p.log.read_text()
    last = p.log.read_text().splitlines()[-1]
    assert re.search(r"process eval_env_0 \(pid \d+\): killed by SIGKILL.* its restart "
                     "policy is temporary", last), last


def test_a_memory_limit_set_in_a_live_run_is_kept(w):
    greedy = w.write("greedy.py", GREEDY.format(examples=str(EXAMPLES)))
    p = w.start("run", bridged(w, greedy, steps=harness.FOREVER, evaluate=0, algorithm="random"),
                "--name", "live")
    harness.wait_until("rounds", lambda: (w.run_dir("live") / "control.sock").exists()
                       and w.status("live")["env_steps"] > 100)
    change(w, p, "live", "env.memory_limit=100M")
    told(w, p, "was killed: it takes ", "M of memory, its memory_limit is 100M")
    # An interrupt would wait for the round, which each new process dies in.
    harness.kill_holder(p, w.run_dir("live"))


def test_what_only_a_new_run_can_have_is_refused(w):
    p = w.start("run", hallway(w, steps=harness.FOREVER, evaluate=0), "--name", "live",
                start_new_session=True)
    harness.wait_until("rounds", lambda: (w.run_dir("live") / "control.sock").exists()
                       and w.status("live")["env_steps"] > 100)
    for setting, says in (
            ("env.copies=6", "begins a new one"),
            ("env.processes=3", "begins a new one"),
            ("env.max_steps=9", "begins a new one"),
            ("env.command=[true]", "begins a new one"),
            ("env.params={agents: 2}", "begins a new one"),
            ("env.directory=/tmp", "begins a new one"),
            ("env.restart.on_give_up=noop", "nothing can replace an environment")):
        err = w.brood("set", "live", setting, code=2)[1]
        assert says in err and err.count("\n") == 1, (setting, err)
    journal = (w.run_dir("live") / "journal").read_text()
    assert " event=set " not in journal and "event=changed" not in journal, journal

    # The file is read again without asking a process what it is.
    config = w.run_dir("live") / "config.yaml"
    text = config.read_text()
    config.write_text(re.sub("directory: .*", "directory: /tmp", text))
    harness.signal_process(p.pid, signal.SIGHUP)
    told(w, p, "the environment of a live run cannot be replaced")
    config.write_text(text.replace("respond_within: 30s", "respond_within: 29s", 1))
    harness.signal_process(p.pid, signal.SIGHUP)
    told(w, p, "env.respond_within=29s")
    assert set(processes_of(w, "live")) == {"env_0", "env_1"}
    w.brood("stop", "live")
    assert p.wait(timeout=harness.DEADLINE_S) == 4, p.log.read_text()


# What a process does, and the message with which brood must report it.
RUDE = {
    "nan-5": r"env_0: answer to step: observation of scout_0 in copy 1: entry 2 is nan|"
             r"env_1: answer to step: observation of scout_0 in copy 3: entry 2 is nan",
    "infinite-4": r"env_[01]: answer to step: reward of rover_0 in copy [02] is inf",
    "warns_badly-4": r"env_[01]: answer to step: warnings: one without a string `where`",
    "short-4": r"env_[01]: answer to step: obs: 36 bytes, expected 40",
    "maskless-4": r"env_[01]: answer to step: allowed is missing",
    "nobody-2": r"env_[01]: answer to reset: copy [02] has no agent after its reset",
    "refuses-4": r"process env_[01] \(pid \d+\): step: the rover has no wheels",
    "garbage-4": r"process env_[01] \(pid \d+\): step ended it 3 times, the last time killed "
                 r"because byte 0 is no msgpack",
    "giant-4": r"process env_[01] \(pid \d+\): step ended it 3 times, the last time killed "
               r"because a frame of 4294967295 bytes, at most 67108864 are accepted",
    "bomb-4": r"process env_[01] \(pid \d+\): step ended it 3 times, the last time killed "
              r"because a msgpack container before byte 5 promises more than there is",
    "always-4": r"process env_[01] \(pid \d+\): died 3 times within 60 s without progress, "
                r"the last time in step killed by SIGKILL; its last lines: "
                r"last words",
    "hangs-4": r"process env_[01] \(pid \d+\): step ended it 3 times, the last time killed "
               r"because it did not answer step for \d+\.\d s: it waits for something that "
               r"does not come",
    "changes": r"env_[01]: answer to configure: its agents differ from those it had before",
}
RUDE_AT_ONCE = {
    "version": "it speaks protocol version 99, the supervisor 1",
    "names": "its answer to configure: two agents are called twin",
    "refuses-1": "configure: the rover has no wheels",
    "heads": "its answer to configure: rover_0: its heads are not as wide as its actions",
    "wide": "its answer to configure: rover_0: obs: 1073741824 is more than 16777216",
    "always-1": "killed by SIGKILL in configure; its last lines: last words",
}


FAULTY = """
import contextlib, sys
sys.path.insert(0, {examples!r})
from hallway import Hallway


class Faulty(Hallway):
    def __init__(self, what, **more):
        super().__init__(**more)
        self.what = what

    def step(self, actions):
        if self.what == "step":
            raise RuntimeError("no more " + "way " * 3)
        if self.what == "once" and self.time == 2:
            self.what = "nothing"
            with contextlib.suppress(FileExistsError):
                open("failed", "x").close()
                raise RuntimeError("the simulator is gone")
        return super().step(actions)

    def close(self):
        if self.what == "close":
            raise OSError("it is\\ngone")


parallel_env = Faulty
"""


def faulty(w):
    file = w.write("faulty.py", FAULTY.format(examples=str(EXAMPLES)))
    return bridged(w, file, algorithm="random", evaluate=0, steps=400)


def test_an_environment_whose_folder_has_moved_resumes(w):
    """Exactly, and without --anyway; so do a fork and a replay. Without its new place, the line
    names the key; a change of the command itself is none of a place."""
    before, after = w.path / "before", w.path / "after"
    before.mkdir()
    shutil.copy(EXAMPLES / "hallway.py", before)
    file = w.write("moved.yaml", f"""\
run: {{env_steps: 1200}}
env:
  command: [{PYTHON}, {BRIDGE}, {before}/hallway.py]
  directory: {before}
  copies: 4
checkpoint: {{every_env_steps: 400, max_to_keep: 0}}
evaluation: {{every_env_steps: 0}}
experience: {{keep: true}}
defaults: {{algorithm: random}}
""")
    w.brood("run", file, "--name", "calm")
    w.brood("run", file, "--name", "moved", "--until", 400, code=4)
    run = w.run_dir("moved")
    before.rename(after)
    _, err = w.brood("resume", run, code=2)
    assert "env.directory" in err and str(before) in err and err.count("\n") == 1, err
    command = f"env.command=[{PYTHON}, {BRIDGE}, {after}/hallway.py]"
    w.brood("resume", run, "--set", f"env.directory={after}", "--set",
            command.replace(f"[{PYTHON}", f"[{PYTHON}, -B"), code=2)
    w.brood("resume", run, "--set", f"env.directory={after}", "--set", command)
    assert w.status("moved")["exact"] is True
    harness.assert_same_files(without_state(final(w.run_dir("calm"))), without_state(final(run)))
    w.brood("replay", run, "--from", 400, "--to", 440)
    w.brood("fork", f"{run}@400", "--name", "branch")
    harness.assert_same_files(without_state(final(w.run_dir("calm"))),
                              without_state(final(w.run_dir("branch"))))


def test_what_starts_slowly_needs_more_time(w):
    """An environment that imports for long, or builds its world for long, and an agent."""
    waits = r"it waits for something that does not come; if it is slow to start, raise "
    w.write("slow.yaml", "env: {command: [sleep, '1000'], respond_within: 0.2s}\n")
    _, err = w.brood("check", "slow.yaml", code=2)
    assert re.search(r"did not answer hello for \d+\.\d s: " + waits +
                     r"env\.respond_within \(0\.2s\)$", err.strip()), err
    w.write("builds.py", "import time\ndef parallel_env():\n    time.sleep(1000)\n")
    _, err = w.brood("check", bridged(w, w.path / "builds.py"), "--set",
                     f"env.respond_within={2 * harness.PATIENCE}s", code=2)
    assert re.search(r"did not answer configure for \d+\.\d s: " + waits +
                     r"env\.respond_within \(\d+s\)$", err.strip()), err
    _, err = w.brood("run", w.small(), "--name", "slow", "--set", "agents.agent_1.respond_within=1s",
                     "--set", "defaults.restart={policy: temporary}", code=1,
                     program=w.program_with_agent(harness.FAULT_AGENT),
                     env={"BROOD_FAULT": "agent_1:configure:before-reply:1,hang"})
    assert re.search(r"agent_1 .*did not answer configure for \d+\.\d s: " + waits +
                     r"agents\.agent_1\.respond_within \(1s\)", err), err


KILLED = """
import signal, sys
sys.path.insert(0, {examples!r})
from hallway import Hallway


def begin():
    with open({count!r}, "a") as f:
        f.write("x")
        f.flush()
        if f.tell() <= {kills}:
            signal.raise_signal(signal.SIGKILL)


begin()
parallel_env = lambda **params: begin() or Hallway(**params)
"""


def test_who_is_killed_before_it_describes_itself_is_asked_again(w):
    """The first process while it imports, the second one in `configure`. One that dies each
    time has its own reasons."""
    file = bridged(w, w.path / "killed.py")
    for kills, code in ((2, 0), (100, 1)):  # no fault of the configuration
        count = w.path / f"count-{kills}"
        for command in ("check", "run"):
            count.unlink(missing_ok=True)
            w.write("killed.py", KILLED.format(examples=str(EXAMPLES), count=str(count),
                                               kills=kills))
            err = w.brood(command, file, code=code)[1]
            assert code == 0 or "killed by SIGKILL" in err, err
    assert count.read_text() == "xxx"


def test_an_exception_is_told_in_one_line(w):
    err = w.brood("run", faulty(w), "--set", "env.params.what=step", "--name", "step",
                  "--set", "env.restart.delay=1ms", code=1)[1]
    assert re.fullmatch(r"brood run: process env_[01] \(pid \d+\): step ended it 3 times, the "
                        r"last time with the error copy [02]: faulty.py:14: RuntimeError: no "
                        r"more way way way", err.splitlines()[-1]), err
    assert "ended by SIGKILL" not in err, err
    logs = [p.read_text() for p in (w.run_dir("step") / "logs").glob("env_*.log")]
    assert any("Traceback (most recent call last):" in log for log in logs), logs


def test_an_exception_is_followed_by_a_restart(w):
    """One of two processes fails once, in a step that its next process can make."""
    w.brood("run", faulty(w), "--set", "env.params.what=none", "--name", "calm")
    out, err = w.brood("run", faulty(w), "--set", "env.params.what=once", "--name", "once")
    assert re.search(r"env_[01] \(pid \d+\) was killed: step: copy [02]: faulty.py:19: "
                     "RuntimeError: the simulator is gone\n", err), err
    assert (w.run_dir("once") / "journal").read_text().count("event=respawn") == 1
    harness.assert_same_files(weights(w.run_dir("calm")), weights(w.run_dir("once")))


def test_an_environment_that_cannot_be_closed_is_told_and_done(w):
    out, err = w.brood("run", faulty(w), "--set", "env.params.what=close", "--name", "close")
    told = re.findall(r"env_[01] \(pid \d+\): shutdown: copy [02]: faulty.py:24: OSError: "
                      "it is gone", out + err)
    assert len(told) == 2, out + err
    journal = (w.run_dir("close") / "journal").read_text()
    assert not re.search("event=exit environment=.* signal=", journal), journal


def test_a_plugin_is_built_trains_and_comes_back(w):
    """The plugin is built as a user would: one compiler call with the one header."""
    subprocess.run(["cc", "-shared", "-fPIC", "-O2", "-Wall", "-Werror", "-I",
                    SOURCE_OF_PLUGINS, "-o", w.path / "pursuit.so",
                    EXAMPLES / "pursuit.c"], check=True)
    text = config(w, "x", steps=4000).read_text()
    file = w.write("plugin.yaml", text.replace('command: ["x"]', "plugin: ./pursuit.so\n"
                                               "  params: {size: 9, limit: 12}"))
    w.brood("run", file, "--name", "calm")
    assert "pursuit" in w.brood("eval", "calm", "--episodes", "20")[0]
    p = w.start("run", file, "--name", "killed", "--set", f"run.env_steps={harness.FOREVER}")
    harness.wait_until("evaluations", lambda: (w.run_dir("killed") / "control.sock").exists()
                       and ENVIRONMENTS <= processes_of(w, "killed").keys())
    kill_environments(w, "killed", 8, random.Random(2))
    w.brood("stop", "killed")
    assert p.wait(timeout=harness.DEADLINE_S) == 4, p.log.read_text()
    steps = max(int(s.name) for s in (w.run_dir("killed") / "checkpoints").iterdir())
    w.brood("run", file, "--name", "long", "--set", f"run.env_steps={steps}")
    harness.assert_same_files(without_state(final(w.run_dir("long"))),
                              without_state(final(w.run_dir("killed"))))
    err = w.brood("check", file, "--set", "env.params={size: 3}", code=2)[1]
    assert "size: a ring of at least 4 places is needed" in err, err
    err = w.brood("check", file, "--set", "env.plugin=nothing.so", code=2)[1]
    assert "nothing.so: cannot open shared object file" in err, err


ODD = """
#include "brood_env.h"
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static int agents(const struct brood_env_param *params, size_t n, struct brood_env_agent *ret,
                  size_t max, char *why, size_t why_size)
{
    const char *odd = n > 0 ? params[0].value : "";

    strcpy(ret[0].name, strncmp(odd, "name ", 5) == 0 ? odd + 5 : "one");
    ret[0].obs_width = strcmp(odd, "blind") != 0;
    ret[0].kind = strcmp(odd, "kind") == 0 ? 7
                  : strcmp(odd, "both") == 0 ? BROOD_ENV_HYBRID : BROOD_ENV_DISCRETE;
    ret[0].n_heads = strcmp(odd, "heads") == 0 ? 99 : 1;
    ret[0].heads[0] = strcmp(odd, "head") != 0;
    if (n == 1)
        return strcmp(odd, "many") == 0 ? 100000 : strcmp(odd, "none") != 0;
    for (size_t i = 0; i < n; i++)
        snprintf(why + strlen(why), why_size - strlen(why), "%s=%s;", params[i].name,
                 params[i].value);
    return -1;
}

static void *open_world(const struct brood_env_param *params, size_t n, char *why,
                        size_t why_size)
{
    return why;
}

static void close_world(void *world)
{
}

static void reset(void *world, uint64_t seed, const struct brood_env_view *out)
{
    NAP;
    out->present[0] = 1;
}

static void step(void *world, const float *const *actions, const struct brood_env_view *out)
{
    NAP;
}

const struct brood_env *brood_env_plugin(void)
{
    static struct brood_env env = {BROOD_ENV_ABI, "odd", 0, agents, open_world, close_world,
                                   reset, step};

    LACKS;
    return &env;
}
"""
ODD_AGENTS = {
    "kind": "agent 'one': kind is 7, expected BROOD_ENV_DISCRETE, BROOD_ENV_BOX or "
            "BROOD_ENV_HYBRID",
    "both": "agent 'one': box_width is 0, expected 1 or more",
    "heads": "agent 'one': n_heads is 99, expected 1 to 8",
    "head": "agent 'one': heads[0] is 0, expected 1 or more",
    "blind": "agent 'one': obs_width is 0, expected 1 or more",
    "many": "it has 100000 agents, expected at most 1000",
    "none": "it has no agents",
}
ODD_PARAMS = {
    "{a: [1], b: 2}": "env.params.a: found a list, expected one value: a plugin has its text",
    "{a: 1, b: ~}": "env.params.b: found nothing, expected one value: a plugin has its text",
    f"{{{', '.join(f'p{i}: 1' for i in range(257))}}}":
        "env.params: found 257, expected at most 256",
}


def plugin(w, name, lacks, nap=""):
    source = w.write("odd.c", ODD.replace("LACKS", lacks).replace("NAP", nap))
    subprocess.run(["cc", "-shared", "-fPIC", "-I", SOURCE_OF_PLUGINS, "-o", w.path / name,
                    source], check=True)
    return w.write("odd.yaml", f"env: {{plugin: ./{name}}}\ndefaults: {{algorithm: random}}\n")


def test_a_plugin_has_its_parameters_as_they_are_written(w):
    file = plugin(w, "odd.so", "")
    for params, says in ODD_PARAMS.items():
        err = w.brood("check", file, "--set", f"env.params={params}", code=2)[1]
        assert err.endswith(says + "\n") and err.count("\n") == 1, err
    err = w.brood("check", file, "--set",
                  "env.params={a: 0.1, b: 007, c: 'x y', d: true, e: 1e3}", code=2)[1]
    assert err.endswith("configure: a=0.1;b=007;c=x y;d=true;e=1e3;\n"), err


def test_a_slow_plugin_shows_that_it_lives(w):
    need_msgpack()
    plugin(w, "slow.so", "", nap="usleep(100000)")
    # The first copy, three times.
    zeros = {"copies": bytes([0, 0, 0, 0] * 3)}
    frames = [msgpack.packb([0, i, *request]) for i, request in enumerate((
        ("configure", {"copies": 3, "first": 0, "params": {"odd": "no"}}),
        ("reset", {**zeros, "seed": bytes(24)}), ("step", {**zeros, "actions": bytes(12)}),
        ("shutdown", {})))]
    # As the supervisor does, it is given its pipes as descriptors 3 and 4.
    p = subprocess.run(["sh", "-c", 'exec "$@" 3<&0 4>&1', "sh", harness.AGENT, "plugin",
                        str(os.getpid()), w.path / "slow.so"], stdout=subprocess.PIPE,
                       input=b"".join(len(f).to_bytes(4, "little") + f for f in frames),
                       check=True, timeout=harness.DEADLINE_S)
    data, told = p.stdout, []
    while data:
        n = int.from_bytes(data[:4], "little")
        told.append(msgpack.unpackb(data[4:4 + n])[1])
        data = data[4 + n:]
    assert told == ["hello", 0, "progress", "progress", 1, "progress", "progress", 2, 3], told


def test_an_odd_plugin_is_told_what_is_odd(w):
    file = plugin(w, "odd.so", "")
    w.brood("check", file, "--set", "env.params={odd: no}")
    for odd, says in ODD_AGENTS.items():
        err = w.brood("check", file, "--set", f"env.params={{odd: {odd}}}", code=2)[1]
        assert err.endswith(f"configure: {says}\n") and err.count("\n") == 1, err
    for name in ("run.state", "supervisor", "env_0"):
        err = w.brood("check", file, "--set", f"env.params={{odd: name {name}}}", code=2)[1]
        assert err.endswith(f"its answer to configure: '{name}' cannot name an agent: the run "
                            "has a process or a file that is called so\n"), err
    for part in ("name", "agents", "open", "close", "reset", "step"):
        file = plugin(w, f"no_{part}.so", f"env.{part} = NULL")
        err = w.brood("check", file, code=2)[1]
        assert err.endswith(f"no_{part}.so: `{part}` of its brood_env is NULL\n"), err


def test_rude_processes_end_the_run_in_one_line(w):
    for mode, says in RUDE.items():
        file = config(w, FAKE_ENV, mode, name=f"{mode}.yaml", algorithm="random", evaluate=0)
        within = "1s" if mode == "hangs-4" else "100s"
        err = w.brood("run", file, "--set", "env.restart={max_restarts: 2, delay: 1ms}",
                      "--set", f"env.respond_within={within}", "--set", "env.copies=4",
                      "--name", mode, code=1)[1]
        last = err.splitlines()[-1]
        assert re.fullmatch("brood run: (" + says + ")", last), (mode, last)


def test_rude_processes_are_refused_before_the_run(w):
    for mode, says in RUDE_AT_ONCE.items():
        file = config(w, FAKE_ENV, mode, name=f"{mode}.yaml", algorithm="random")
        err = w.brood("check", file, code=1 if mode == "always-1" else 2)[1]
        assert err.startswith(f"{file}:4: env.command: ") and err.count("\n") == 1, err
        assert err.rstrip().endswith(says), (mode, err)


if __name__ == "__main__":
    harness.main()
