"""env.metrics: what environments measure, and what the infos of foreign ones say; and that old and
new columns of progress.csv stay the same whatever is killed."""
import csv
import json
import random
import subprocess

import harness
from test_environments import PYTHON, BRIDGE, ENVIRONMENTS, FAKE_ENV, SOURCE_OF_PLUGINS, config, \
    kill_environments, processes_of, without_state
from test_exactness import outcome

# A walk to the right, with numbers of all kinds in its infos. step % 2: not in every step; slow
# says it of one agent alone.
WALK = """
import sys
sys.path.insert(0, SCRIPTS)
import brood


class Walk(brood.Env):
    possible_agents = ["slow", "fast"]
    observations = brood.Box(-1, 1, (1,))
    actions = brood.Discrete(3)
    max_steps = 9

    def begin(self):
        self.at = self.draw.randint(0, 3)
        return self.look()

    def act(self, actions):
        self.at += sum(int(a) for a in actions.values())
        return self.look(), {a: float(self.at) for a in actions}, self.at >= 20

    def look(self):
        return {a: [self.at / 40] for a in self.agents}

    def step(self, actions):
        obs, rewards, ends, cuts, infos = super().step(actions)
        for a in infos:
            infos[a]["at"] = self.at + (a == "fast")
            infos[a]["episode"] = {"time": self.time}
        if self.time % 2 == 0:
            infos["slow"]["even"] = self.time
        if not self.agents:
            infos["fast"]["success"] = self.at >= 20
        infos["slow"]["text"], infos["slow"]["none"] = "words", float("nan")
        return obs, rewards, ends, cuts, infos


parallel_env = Walk
""".replace("SCRIPTS", repr(str(harness.SOURCE / "scripts")))
NAMES = ["at", "episode.time", "even", "success"]


def walk(w, metrics, **more):
    (w.path / "walk.py").write_text(WALK)
    path = config(w, PYTHON, BRIDGE, "walk.py", algorithm="ddpg", **more)
    text = path.read_text().replace("  copies: 5", f"  metrics: [{', '.join(metrics)}]\n  copies: 5")
    path.write_text(text)
    return path


def rows_of(run):
    with open(run / "metrics" / "progress.csv", newline="") as f:
        return list(csv.DictReader(f))


def test_infos_are_recorded(w):
    w.brood("run", walk(w, NAMES), "--name", "a")
    rows = rows_of(w.run_dir("a"))
    columns = [k for k in rows[0] if "/metric/" in k]
    assert columns == [f"{kind}/metric/{n}" for kind in ("rollout", "eval") for n in NAMES], columns
    for row in rows[1:]:
        value = {n: float(row[f"rollout/metric/{n}"]) for n in NAMES}
        length = float(row["rollout/episode_length"])
        assert 1 < value["at"] < 40 and 0 <= value["success"] <= 1, row
        assert abs(value["episode.time"] - (length + 1) / 2) < 1e-9, row
        assert 2 <= value["even"] <= 5, row
    assert any(row["eval/metric/at"] for row in rows)
    # the same in an evaluation, in the events of a run, and in its status
    out, _ = w.brood("eval", "a", "--episodes", "6", "--json")
    found = json.loads(out)
    assert list(found["metrics"]) == NAMES, found
    assert abs(found["metrics"]["episode.time"] - (found["length_mean"] + 1) / 2) < 1e-9, found
    text, _ = w.brood("eval", "a", "--episodes", "6")
    assert f"  success          {found['metrics']['success']:10.3f}\n" in text, text
    status = json.loads(w.brood("status", "a", "--json")[0])["metrics"]
    last = {k: float(v) for k, v in rows[-1].items() if v}
    assert {k: status[k] for k in last} == last
    assert "  metrics  at " in w.brood("status", "a")[0]


def test_what_never_comes_is_told(w):
    p = w.start("run", walk(w, ["at", "text", "none", "nothing"]), "--name", "a")
    assert p.wait() == 0
    log = p.log.read_text()
    for name in ("text", "none", "nothing"):
        assert log.count(f"no episode so far had '{name}'") == 1, log
    assert "'at'" not in log
    assert {row["rollout/metric/nothing"] for row in rows_of(w.run_dir("a"))} == {""}


def test_a_program_that_knows_no_metrics_goes_on_working(w):
    path = config(w, FAKE_ENV)
    path.write_text(path.read_text().replace("  copies: 5", "  metrics: [speed]\n  copies: 5"))
    p = w.start("run", path, "--name", "a")
    assert p.wait() == 0, p.log.read_text()
    assert "no episode so far had 'speed'" in p.log.read_text()


# The bridge, with answers that somebody wrote who had not read the protocol.
MANGLED = """
import struct, sys
sys.path[:0] = [SCRIPTS, "."]
import pettingzoo_bridge as bridge

class Mangled(bridge.Server):
    def gather(self, copies, parts, width):
        answer = super().gather(copies, parts, width)
        if "reward" in answer:
            answer["metrics"] = {"short": b"abc", "text": "abc",
                                 "infinite": struct.pack("<d", float("inf")) * len(copies)}[sys.argv[1]]
        return answer

Mangled("walk.py").serve()
""".replace("SCRIPTS", repr(str(harness.SOURCE / "scripts")))


def test_malformed_metrics_end_a_run_and_infinite_ones_are_none(w):
    walk(w, ["at"])
    (w.path / "mangled.py").write_text(MANGLED)
    for how, code in (("short", 1), ("text", 1), ("infinite", 0)):
        path = config(w, PYTHON, "mangled.py", how, algorithm="ddpg", processes=1)
        path.write_text(path.read_text().replace("  copies: 5", "  metrics: [at]\n  copies: 5"))
        _, err = w.brood("run", path, "--name", how, code=None)
        assert ("metrics: 3 bytes, expected 40" in err) == (how == "short"), err
        assert ("done after" in err) == (code == 0), err
        if code == 0:
            assert "no episode so far had 'at'" in err, err


def test_a_plugin_measures(w):
    """One of an older interface, without the function, does not."""
    for name, changes in (("pursuit", {}), ("old", {".abi = BROOD_ENV_ABI": ".abi = 2"}),
                          ("none", {".metric = metric": ".metric = NULL"})):
        source = (harness.SOURCE / "tests/examples/pursuit.c").read_text()
        for was, now in changes.items():
            assert was in source
            source = source.replace(was, now)
        (w.path / f"{name}.c").write_text(source)
        subprocess.run(["cc", "-shared", "-fPIC", "-O2", "-I", SOURCE_OF_PLUGINS, "-o",
                        w.path / f"{name}.so", w.path / f"{name}.c"], check=True)
        path = config(w, "x", algorithm="ddpg")
        path.write_text(path.read_text().replace(
            'command: ["x"]', f"plugin: ./{name}.so\n  metrics: [caught, nothing]"))
        _, err = w.brood("run", path, "--name", name)
        assert "no episode so far had 'nothing'" in err, err
        assert ("no episode so far had 'caught'" in err) == bool(changes), err
        caught = [float(r["rollout/metric/caught"] or "nan") for r in rows_of(w.run_dir(name))]
        if not changes:  # where both leave, a step of each episode was one of a capture
            assert any(0 < x <= 1 for x in caught), caught


def test_metrics_change_nothing_else(w):
    """Weights, rows of the log and all other columns."""
    w.brood("run", walk(w, NAMES), "--name", "with")
    path = walk(w, ["at"])
    path.write_text(path.read_text().replace("  metrics: [at]\n", ""))
    w.brood("run", path, "--name", "without")
    a, b = w.run_dir("with"), w.run_dir("without")
    for rows in (rows_of(a), rows_of(b)):
        assert len(rows) > 5
    times = lambda k: k.startswith("time/") or "/metric/" in k
    assert [{k: v for k, v in r.items() if not times(k)} for r in rows_of(a)] == \
        [{k: v for k, v in r.items() if not times(k)} for r in rows_of(b)]
    files = [{k: v for k, v in harness.tree_bytes(run / "checkpoints").items()
              if not k.endswith("run.state")} for run in (a, b)]
    harness.assert_same_files(*files)
    assert (a / "experience").read_bytes()[4096:] == (b / "experience").read_bytes()[4096:]


def test_kills_change_no_metric(w):
    """Of environment processes, of the supervisor, and none: one progress.csv."""
    draw = random.Random(3)
    sized = {"steps": harness.FOREVER, "evaluate": 1000, "checkpoint": 2000}
    p = w.start("run", walk(w, NAMES, **sized), "--name", "killed", env=harness.VISIBLE)
    run = w.run_dir("killed")
    harness.wait_until("evaluations", lambda: (run / "control.sock").exists()
                       and ENVIRONMENTS <= processes_of(w, "killed").keys())
    kill_environments(w, "killed", 8, draw)
    steps = harness.set_last_step(w, run, 2000)
    assert p.wait(timeout=harness.DEADLINE_S) == 0, p.log.read_text()
    length = ("--set", f"run.env_steps={steps}")
    w.brood("run", walk(w, NAMES, **sized), "--name", "calm", *length)
    calm = without_state(outcome(w.run_dir("calm")))
    harness.assert_same_files(without_state(outcome(run)), calm)

    p = w.start("run", walk(w, NAMES, **sized), "--name", "cut")
    harness.wait_until("a checkpoint", lambda: p.poll() is not None or
                       max(harness.checkpoints(w.run_dir("cut")), default=0) >= 2000)
    harness.kill_holder(p, w.run_dir("cut"))
    kept = harness.checkpoints(w.run_dir("cut"))
    length = ("--set", f"run.env_steps={2 * kept[-1] - kept[-2]}")
    w.brood("resume", "cut", *length)
    w.brood("run", walk(w, NAMES, **sized), "--name", "whole", *length)
    harness.assert_same_files(without_state(outcome(w.run_dir("cut"))),
                              without_state(outcome(w.run_dir("whole"))))


def test_own_environments_measure(w):
    text = w.brood("envs", "simple_spread")[0]
    assert "occupied" in text and "collisions" in text, text
    listed = json.loads(w.brood("envs", "foraging", "--json")[0])
    assert [m["name"] for m in listed["metrics"]] == ["food"] and listed["metrics"][0]["at_end"]
    path = w.small()
    _, err = w.brood("check", path, "--set", "env.metrics=[occupid]", code=2)
    assert "expected some of occupied, collisions; did you mean 'occupied'?" in err, err
    w.brood("run", path, "--name", "a", "--set", "env.metrics=[occupied]")
    values = [float(r["rollout/metric/occupied"]) for r in rows_of(w.run_dir("a"))
              if r["rollout/episode_length"]]
    assert values and all(0 <= v <= 3 for v in values), values
    _, err = w.brood("resume", "a", "--set", "env.metrics=[collisions]", code=2)
    assert "had 'metrics: occupied'" in err, err
    old = rows_of(w.run_dir("a"))
    w.brood("resume", "a", "--anyway", "--set", "env.metrics=[collisions]",
            "--set", "run.env_steps=3000")
    rows = rows_of(w.run_dir("a"))
    for before, after in zip(old, rows):
        assert after["rollout/metric/occupied"] == before["rollout/metric/occupied"]
        assert after["rollout/metric/collisions"] == ""
    assert len(rows) > len(old) and rows[-1]["rollout/metric/collisions"] and \
        not rows[-1]["rollout/metric/occupied"], rows[-1]


def test_events_have_metrics(w):
    out, _ = w.brood("run", w.small(), "--name", "a", "--json", "--set",
                     "env.metrics=[occupied, collisions]")
    events = [json.loads(line) for line in out.splitlines()]
    tried = [e for e in events if e["event"] == "evaluation"]
    rows = [e for e in events if e["event"] == "row"]
    assert tried and all({"eval/metric/occupied", "eval/metric/collisions"} <= e.keys()
                         for e in tried), tried
    assert rows and all("rollout/metric/occupied" in e for e in rows)


if __name__ == "__main__":
    harness.main()
