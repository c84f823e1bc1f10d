"""Learning curves and a table over the seeds of a run."""
import csv
import json
import math
import xml.etree.ElementTree as xml

import harness


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
