"""Learning curves and a table over the seeds of a run."""
import csv
import json
import math
import re
import xml.etree.ElementTree as xml

import harness
import numpy as np


def test_seeds_are_told_together(w):
    w.brood("run", w.small(steps=800), "--name", "a", "--seeds", "1,2",
            "--set", "evaluation.every_env_steps=0")
    svg = w.path / "curves.svg"
    out, _ = w.brood("report", "a-s1", "a-s2", "--json", "--svg", svg)
    (row,) = harness.json_lines(out)
    assert row["runs"] == "a" and row["n"] == 2, row
    assert row["metric"] == "rollout/team_return/agent", row
    assert row["low"] <= row["mean"] <= row["high"], row
    out, _ = w.brood("report", "a-s1", "a-s2", "--csv")
    rows = list(csv.DictReader(out.splitlines()))
    assert [r["env_steps"] for r in rows] == ["200", "400", "600", "800"], rows
    assert math.isclose(float(rows[-1]["mean"]), row["mean"]), (rows[-1], row)
    before = svg.read_bytes()
    w.brood("report", "a-s1", "--svg", svg, code=1, prefix=("prlimit", "--fsize=1000"))
    assert svg.read_bytes() == before, "curves that cannot be written whole replace none"
    lines = [e for e in xml.parse(svg).iter() if e.tag.endswith("polyline")]
    assert len(lines) == 1 and len(lines[0].get("points").split()) == 4, lines
    out, _ = w.brood("report", "a-s1", "--metric", "train/agent_0/critic_loss")
    assert "train/agent_0/critic_loss" in out and "a-s1" in out, out


def test_what_is_not_there_is_told_in_one_line(w):
    _, err = w.brood("report", "nothing", code=3)
    assert len(err.splitlines()) == 1, err
    _, err = w.brood("report", "nothing", "--svg", "curves.png", code=2)
    assert "curves.png: curves are drawn as .svg" in err and err.count("\n") == 1, err
    w.brood("run", w.small(steps=400), "--name", "a")
    _, err = w.brood("report", "a", "--metric", "x", code=3)
    assert err == "brood report: runs/a has no metric x\n", err


def test_curves_that_differ_by_a_rounding_are_drawn(w):
    """A tick of their axis may be less than a rounding."""
    w.brood("run", w.small(steps=400, evaluate=0), "--name", "a")
    progress = w.run_dir("a") / "metrics" / "progress.csv"
    head, *rows = [line.split(",") for line in progress.read_text().splitlines()]
    at = head.index("rollout/team_return/agent")
    for i, row in enumerate(rows):
        row[at] = repr(1e15 + i / 8)
    progress.write_text("".join(",".join(row) + "\n" for row in (head, *rows)))
    w.brood("report", "a", "--svg", "a.svg")
    assert len(rows) > 1 and (w.path / "a.svg").stat().st_size < 20000


def test_a_statistics_package_gets_the_values(w):
    config = w.small(steps=1000, evaluate=500)
    for algorithm in ("maddpg", "matd3"):
        w.brood("run", config, "--name", algorithm, "--seeds", "1,2", "--set",
                f"defaults.algorithm={algorithm}")
    w.brood("report", "ma*", "--marl-eval", "x.json", "-q")
    found = json.loads((w.path / "x.json").read_text())["brood"]["simple_spread"]
    assert sorted(found) == ["maddpg", "matd3"] and sorted(found["matd3"]) == ["seed_1", "seed_2"]
    out, _ = w.brood("report", "maddpg-s1", "--csv")
    rows = [(int(r["env_steps"]), float(r["mean"])) for r in csv.DictReader(out.splitlines())]
    one = found["maddpg"]["seed_1"]
    final = one.pop("absolute_metrics")["return"]
    assert [(v["step_count"], *v["return"]) for v in one.values()] == rows and len(rows) == 2
    assert final == [rows[1][1]], final
    w.brood("run", config, "--name", "again", "--set", "defaults.algorithm=matd3")
    _, err = w.brood("report", "matd3-s1", "again", "--marl-eval", "y.json", code=1)
    assert "both have seed 1 of matd3 in simple_spread" in err and not (w.path / "y.json").exists()


# Of each task's runs by algorithm and seed, the value at which they end.
ENDS = {"simple": {"maddpg": [-4, -1.5, -3, -2.5, -2.25], "matd3": [-4.5, -2.5, -3.5, -5, -3.75]},
        "simple_spread": {"maddpg": [30, 35, 52, 41, 38], "matd3": [44, 33.5, 60, 57, 47]}}


def end_with(run, value, seed):
    """Makes the run end with the value, as one of that seed."""
    (run / "metrics" / "progress.csv").write_text(
        f"env_steps,eval/team_return/agent\n100,0\n200,{value}\n")
    config = run / "config.yaml"
    text, n = re.subn(r"(?m)^  seed: \d+$", f"  seed: {seed}", config.read_text(), count=1)
    assert n == 1
    config.write_text(text)


def several_tasks(w, ends):
    config = w.small(steps=200, evaluate=0)
    for task, algorithms in ends.items():
        for algorithm, values in algorithms.items():
            name = f"{task}-{algorithm}"
            w.brood("run", config, "--name", f"{name}-s1", "-q", "--set", f"env.id={task}", "--set",
                    "env.params=", "--set", f"defaults.algorithm={algorithm}")
            for seed in range(len(values), 0, -1):
                run = w.run_dir(f"{name}-s1")
                if seed > 1:
                    run = harness.copy_run(run, run.with_name(f"{name}-s{seed}"))
                end_with(run, values[seed - 1], seed)


def aggregates(scores):
    """Of (tasks, runs), as Agarwal et al. 2021 define them."""
    ordered, means = np.sort(scores.ravel()), scores.mean(axis=1)
    cut = scores.size // 4
    return {"iqm": ordered[cut:-cut].mean(), "median": np.median(means), "mean": means.mean(),
            "optimality_gap": 1 - np.minimum(scores, 1).mean()}


def better(x, y):
    more = x[:, :, None] - y[:, None, :]
    return ((more > 0) + 0.5 * (more == 0)).mean()


def resampled(rng, scores):
    return np.take_along_axis(scores, rng.integers(scores.shape[1], size=scores.shape), axis=1)


def assert_interval(estimate, value, resamples):
    """The value, and the interval of other resamples but for what chance makes of it."""
    low, high = np.percentile(resamples, [2.5, 97.5])
    near = {"rel_tol": 0, "abs_tol": 0.1 * (high - low)}
    assert math.isclose(estimate["value"], value, rel_tol=1e-12), (estimate, value)
    assert math.isclose(estimate["low"], low, **near), (estimate, low, high)
    assert math.isclose(estimate["high"], high, **near), (estimate, low, high)


def test_algorithms_are_compared_over_tasks(w):
    several_tasks(w, ENDS)
    svg = w.path / "profiles.svg"
    out, err = w.brood("report", "simple*", "--tasks", "--bounds", "simple=-5,0", "--json", "--svg", svg)
    (found,) = harness.json_lines(out)
    assert err == "" and found["resamples"] == 2000
    # the lowest and the highest run of a task, unless they are given
    assert [(t["task"], t["low"], t["high"], t["given"], t["runs"]) for t in found["tasks"]] == [
        ("simple", -5, 0, True, 10), ("simple_spread", 30, 60, False, 10)], found["tasks"]
    scores = {a: np.array([(np.array(ENDS["simple"][a]) + 5) / 5,
                           (np.array(ENDS["simple_spread"][a]) - 30) / 30]) for a in ("maddpg", "matd3")}
    rng, tau = np.random.default_rng(1), np.arange(101) / 100
    again = {a: [resampled(rng, s) for _ in range(4000)] for a, s in scores.items()}
    for row in found["algorithms"]:
        name = row["algorithm"]
        assert np.allclose(row["scores"], scores[name], rtol=1e-15, atol=0), row["scores"]
        of = aggregates(scores[name])
        others = [aggregates(s) for s in again[name]]
        for key, value in of.items():
            assert_interval(row[key], value, [o[key] for o in others])
        profile = row["profile"]
        assert np.array_equal(profile["tau"], tau)
        above = [(np.array(row["scores"]) > t).mean() for t in tau]
        assert np.allclose(profile["above"], above, rtol=1e-15), profile
        for key, at in ("low", 2.5), ("high", 97.5):
            other = [np.percentile([(s > t).mean() for s in again[name]], at) for t in tau[5::10]]
            assert np.abs(np.array(profile[key])[5::10] - other).max() < 0.101, (key, profile, other)
    for pair in found["improvement"]:
        x, y = pair["better"], pair["than"]
        assert_interval(pair["probability"], better(scores[x], scores[y]),
                        [better(a, b) for a, b in zip(again[x], again[y])])
    assert [(p["better"], p["than"]) for p in found["improvement"]] == [
        ("maddpg", "matd3"), ("matd3", "maddpg")]
    lines = [e for e in xml.parse(svg).iter() if e.tag.endswith("polyline")]
    assert [len(e.get("points").split()) for e in lines] == [101, 101], lines
    # any order of the runs gives the same
    runs = [f"{t}-{a}-s{s}" for a in ("matd3", "maddpg") for t in ENDS for s in (3, 1, 5, 4, 2)]
    assert w.brood("report", *runs, "--tasks", "--bounds", "simple=-5,0", "--json")[0] == out
    out, _ = w.brood("report", "simple*", "--tasks", "--bounds", "simple=-5,0")
    row, = re.findall(r"(?m)^  matd3 +10 .*$", out)
    assert f" {of['iqm']:.2f} [" in row and row.count("[") == 4, out
    assert re.search(r"(?m)^  maddpg    > matd3 +0\.\d\d \[0\.\d\d, 0\.\d\d\]$", out), out


def test_what_cannot_be_compared_over_tasks_is_told(w):
    several_tasks(w, {"simple": {"maddpg": [1, 2], "matd3": [2, 3]},
                      "simple_spread": {"maddpg": [5, 5], "matd3": [5, 5]}})

    def refused(*args, code=1):
        out, err = w.brood("report", *args, code=code)
        assert out == "" and err.count("\n") == 1, (out, err)
        return err

    assert "all runs are of simple, but --tasks compares over several tasks" in refused("simple-*", "--tasks")
    assert "in simple_spread, all runs end with 5" in refused("*", "--tasks")
    bounds = ("--tasks", "--bounds", "simple_spread=0,10")
    w.brood("report", "*", *bounds)
    assert "all runs are of matd3, but" in refused("*-matd3-*", *bounds)
    assert "runs of matd3: 2 in simple, but 1 in simple_spread; --tasks needs equally many" in refused(
        "simple-*", "*spread-maddpg-*", "*spread-matd3-s1", *bounds)
    assert "runs of matd3: 0 in simple, but 2 in simple_spread" in refused("*-maddpg-*", "*spread-matd3-*", *bounds)
    assert "--bounds simple_sprea: none of the runs is of this task; did you mean 'simple_spread'?" in refused(
        "*", "--tasks", "--bounds", "simple_sprea=0,10")
    for bad in "simple", "simple=3", "simple=3,2", "simple=0,x", "=0,1", "simple=0,inf":
        assert f"--bounds {bad}: expected TASK=LOW,HIGH" in refused("*", "--tasks", "--bounds", bad, code=2)
    assert "--bounds is for --tasks" in refused("*", "--bounds", "simple=0,1", code=2)
    assert "--csv" in refused("*", "--tasks", "--csv", code=2)
    assert "has no metric" in w.brood("report", "*", "--tasks", "--metric", "x", code=3)[1]
    end_with(w.run_dir("simple-matd3-s1"), 2, 2)
    assert "both have seed 2 of matd3 in simple" in refused("*", *bounds)
    end_with(w.run_dir("simple-matd3-s1"), 2, 1)
    progress = w.run_dir("simple-matd3-s1") / "metrics" / "progress.csv"
    progress.write_text(progress.read_text().replace("eval", "rollout"))
    assert "rollout/team_return/agent: choose one with --metric" in refused("*", *bounds)
    _, err = w.brood("report", "*", *bounds, "--metric", "eval/team_return/agent", code=1)
    assert [line.split(": ")[1] for line in err.splitlines()] == ["left out", "runs of matd3"], err


def test_a_task_is_an_environment_with_its_parameters(w):
    config = w.small(steps=200)
    for agents, seed in (2, 1), (3, 1), (3, 2):
        w.brood("run", config, "--name", f"a{agents}-s{seed}", "-q", "--seed", seed, "--set",
                f"env.params.agents={agents}")
    w.brood("report", "a*", "--marl-eval", "x.json", "-q")
    found = json.loads((w.path / "x.json").read_text())["brood"]
    assert {task: len(of["maddpg"]) for task, of in found.items()} == {
        "simple_spread {agents: 2}": 1, "simple_spread {agents: 3}": 2}, found.keys()
    # of a program, the last word of its command
    for seed, words in (1, "a/x.py:A"), (2, "a/x.py:A"), (3, "a/x.py:B"), (4, "-u, a/x.py:B"):
        run = harness.copy_run(w.run_dir("a3-s1"), w.run_dir("a3-s1").with_name(f"b-{seed}"))
        config = run / "config.yaml"
        text = re.sub(r"(?ms)^env:$.*?^(?=\w)", f"env: {{command: [python3, {words}]}}\n", config.read_text())
        config.write_text(re.sub(r"(?m)^  seed: 1$", f"  seed: {seed}", text, count=1))
    w.brood("report", "b-*", "--marl-eval", "x.json", "-q")
    found = json.loads((w.path / "x.json").read_text())["brood"]
    assert {task: len(of["maddpg"]) for task, of in found.items()} == {
        "x.py:A": 2, 'x.py:B [python3, "a/x.py:B"]': 1, 'x.py:B [python3, -u, "a/x.py:B"]': 1}, found.keys()


def test_what_cannot_be_used_is_left_out_by_name(w):
    w.brood("run", w.small(steps=400), "--name", "a-s1")
    harness.copy_run(w.run_dir("a-s1"), w.run_dir("a-s2"))
    progress = w.run_dir("a-s2") / "metrics" / "progress.csv"
    progress.write_text(progress.read_text().splitlines()[0] + "\n")
    out, err = w.brood("report", "a-s1", "a-s2", "a-s3", "--json")
    assert [(r["runs"], r["n"]) for r in harness.json_lines(out)] == [("a-s1", 1)], out
    assert err == ("brood report: left out: there is no run a-s3 in runs\n"
                   "brood report: left out: runs/a-s2 has no value of "
                   "eval/team_return/agent yet\n"), err
    _, err = w.brood("report", "a-s2", code=3)
    assert err == "brood report: runs/a-s2 has no returns yet\n", err


def test_a_path_names_its_run_as_the_name_does(w):
    """With a slash at its end, from within, and only once."""
    w.brood("run", w.small(steps=400), "--name", "a", "--until", "200", code=4)
    out, err = w.brood("report", "a", "runs/a", "runs/a/", "--json")
    row, = harness.json_lines(out)
    assert (row["runs"], row["n"]) == ("a", 1), row
    assert err == ("brood report: left out: runs/a: the run is given twice\n"
                   "brood report: left out: runs/a/: the run is given twice\n"), err
    for path in ("runs/a/", "runs/a/logs/../"):
        out, _ = w.brood("eval", path, "--episodes", "1", "--json")
        assert harness.json_lines(out)[0]["run"] == "a", out
    study = w.write("s.yaml", "base: small.yaml\nsearch: {defaults.discount: [0.9]}\n")
    w.brood("sweep", study, "-q")
    for command in ("status", "report"):
        out, _ = w.brood(command, "runs/s/", "--json")
        assert harness.json_lines(out)[0]["study"] == "s", out


if __name__ == "__main__":
    harness.main()
