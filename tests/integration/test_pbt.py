"""`brood sweep` with population based training: forks of the better, exactly."""
import csv
import importlib.util
import json
import os
import random
import re
import shutil
import signal

import harness
from test_live_view import Terminal, screen_of
from test_sweep import BASE, EACH, assert_same_runs, kill_at_random

STUDY = """\
base: base.yaml
search:
  defaults.optimizer.learning_rate: {log_uniform: [0.0003, 0.03]}
  defaults.discount: [0.9, 0.95, 0.99]
method: {pbt: {population: 4, interval: 160, rounds: 3, quantile: 0.5, resample: 0.3}}
metric: {column: rollout/team_return/agent, last: 2}
seeds: [1]
"""


def write(w, text=STUDY):
    w.write("base.yaml", BASE)
    return w.write("pbt.yaml", text)


def sweep(w, study, name, *more):
    """Sweep a study; its report as CSV, and what was printed."""
    _, err = w.brood("sweep", study, "--name", name, *more)
    return w.brood("report", name, "--csv")[0], err


def members(folder):
    return sorted(run for run in os.listdir(folder) if run[0].isdigit())


def assert_same_study(w, one, other):
    assert members(w.runs / one) == members(w.runs / other)
    for run in members(w.runs / one):
        assert_same_runs(w, run, one, other)


def test_the_result_depends_on_neither_jobs_nor_kills_nor_on_when_rounds_were_added(w):
    study = write(w)
    calm, err = sweep(w, study, "calm")
    rows = list(csv.DictReader(calm.splitlines()))
    assert [(r["round"], r["env_steps"], r["member"]) for r in rows] == [
        (str(n), str(160 * n), str(m)) for n in (1, 2, 3) for m in (1, 2, 3, 4)], rows
    said, = harness.json_lines(w.brood("status", "calm", "--json")[0])
    assert said["state"] == "done" and said["stage"] == "round 3 of 3", said
    assert {(str(t["trial"]), t["value"]) for t in said["trials"]} == {
        (r["member"], float(r["value"])) for r in rows[8:]}, (said, rows)
    forks = [r for r in rows if r["from"] not in ("", r["member"])]
    assert forks and "becomes a fork of" in err, err
    rate = "defaults.optimizer.learning_rate"
    for fork in forks:
        before = {r["member"]: r for r in rows if int(r["round"]) == int(fork["round"]) - 1}
        source = before[fork["from"]]
        assert float(source["value"]) > float(before[fork["member"]]["value"]), (fork, source)
        assert 0.0003 <= float(fork[rate]) <= 0.03, fork
    assert any(fork[rate] != r[rate] for fork in forks for r in rows
               if (r["member"], int(r["round"])) == (fork["from"], int(fork["round"]) - 1))
    last = {f["member"]: f for f in forks}  # the newest of each member
    names = [f"{m}-r{int(last[m]['round']) - 1}-s1" if m in last else f"{m}-s1" for m in "1234"]
    assert members(w.runs / "calm") == names, names
    for m, run in zip("1234", names):
        text = (w.runs / "calm" / run / "config.yaml").read_text()
        assert f"learning_rate: {rows[7 + int(m)][rate]}" in text, (run, rows)
    # One round, later two more; with kills of runs, keepers, agents and the sweep itself. On
    # a busy machine a study may be over before each has been killed: then another one.
    for name in (f"killed-{i}" for i in range(20)):
        write(w, STUDY.replace("rounds: 3", "rounds: 1"))
        sweep(w, study, name)
        write(w)
        if kill_some(w, study, name):
            break
    else:
        raise AssertionError("no study lasted until each kind of process had been killed")
    again, _ = sweep(w, study, name, "--jobs", "2")
    assert again == calm, (again, calm)
    assert_same_study(w, "calm", name)
    text = w.brood("report", "calm", "--svg", w.path / "calm.svg")[0]
    assert text.count(" became a fork of ") == len(forks), text
    picture = (w.path / "calm.svg").read_text()
    assert picture.count("stroke-dasharray") == len(forks)
    assert picture.count("<circle") == len(rows)
    report = json.loads(w.brood("report", "calm", "--json")[0])
    assert [str(x["from"] or "") for x in report["lineage"]] == [r["from"] for r in rows]
    write(w, STUDY.replace("rounds: 3", "rounds: 2"))
    _, err = w.brood("sweep", study, "--name", "calm", code=2)
    assert "`method` is not what the study began with (runs/calm/study.yaml); rounds may be " \
        "added" in err and err.count("\n") == 1, err


def kill_some(w, study, name):
    """Sweep with two jobs; kill one process of each kind, the sweep once a round has ended,
    while forks are made, and others at random. Whether each kind was killed."""
    draw, rounds = random.Random(5), w.runs / name / "rounds.csv"
    seen = rounds.read_text()
    if not all(kill_at_random(w, study, name, draw, EACH).values()):
        return False
    p = w.start("sweep", study, "--name", name, "--jobs", "2")
    harness.wait_until("the end of a round", lambda: p.poll() is not None or
                       rounds.read_text() != seen)
    assert p.poll() in (None, 0), p.log.read_text()  # 0: this process was the slower one
    p.kill()
    p.wait()
    kill_at_random(w, study, name, draw, ("agent", "run") * (1 if harness.SANITIZED else 4))
    return True


def test_a_population_of_programs_survives_kills(w):
    """A setting that the agents, programs of the user's, say that they have is searched."""
    if importlib.util.find_spec("msgpack") is None:
        raise harness.Skip("Python has no msgpack")
    shutil.copy(harness.SOURCE / "tests" / "support" / "plain_program.py", w.path)
    program = "algorithm: program, command: [python3, plain_program.py],"
    base = w.write("base.yaml", re.sub(r"algorithm: .*\n", program + "\n",
                                       BASE.replace("env_steps: 640", "env_steps: 1920")))
    assert program in base.read_text()
    study = w.write("pbt.yaml", STUDY.replace(
        "defaults.optimizer.learning_rate: {log_uniform: [0.0003, 0.03]}",
        "defaults.settings.step: {uniform: [0.01, 0.9]}").replace("interval: 160", "interval: 640"))
    calm, err = sweep(w, study, "calm")
    assert "becomes a fork of" in err, err
    for name in (f"killed-{i}" for i in range(20)):
        if all(kill_at_random(w, study, name, random.Random(3), EACH).values()):
            break
    else:
        raise AssertionError("no study lasted until each kind of process had been killed")
    again, _ = sweep(w, study, name, "--jobs", "2")
    assert again == calm, (again, calm)
    assert_same_study(w, "calm", name)


def test_a_member_that_fails_is_replaced(w):
    # One of the two learning rates makes the weights infinite.
    study = write(w, STUDY.replace("{log_uniform: [0.0003, 0.03]}", "[0.001, 1.0e+30]")
                  .replace("rounds: 3", "rounds: 2").replace("seeds: [1]", "seeds: [1, 2]"))
    _, err = w.brood("sweep", study, "--jobs", "2")
    rows = list(csv.DictReader(w.brood("report", "pbt", "--csv")[0].splitlines()))
    bad = [r for r in rows if r["value"] == ""]
    assert bad and all(r["defaults.optimizer.learning_rate"] == "1.0e+30" for r in bad), rows
    text = w.brood("report", "pbt")[0]
    assert all(f"after step 160: {r['member']} (failed) became a fork of" in text
               for r in bad if r["round"] == "1"), text
    assert "95 % interval" in text, text


def state_of(w, run):
    """None: there is no such run, perhaps because it is about to begin anew."""
    p = w.start("status", run, "--json")
    p.wait(timeout=harness.DEADLINE_S)
    says = harness.json_lines(harness.output(p))
    return says[0]["state"] if says else None


def wait_for_checkpoint(run):
    """One after the first round: the first of all is there before any."""
    harness.wait_until("a checkpoint", lambda: any(
        path.name.isdigit() and path.name != "0" for path in (run / "checkpoints").glob("*")))


def test_a_round_waits_for_a_member_that_somebody_stops(w):
    study = write(w, STUDY.replace("population: 4, interval: 160, rounds: 3",
                                   "population: 2, interval: 50000000, rounds: 2"))
    study.write_text(study.read_text() + "limits: {cores: 1}\n")
    w.write("base.yaml", BASE.replace("env_steps: 640", "env_steps: 100000000"))
    p = w.start("sweep", study, "--jobs", "2")
    for run in ("1-s1", "2-s1"):
        wait_for_checkpoint(w.runs / "pbt" / run)
        pid = json.loads(w.brood("status", f"pbt/{run}", "--json")[0])["agents"][0]["pid"]
        assert len(os.sched_getaffinity(pid)) == 1
        w.brood("stop", f"pbt/{run}")
    assert p.wait(timeout=harness.DEADLINE_S) == 4, p.log.read_text()
    err = p.log.read_text()
    assert err.endswith("pbt: round 1 waits for 1-s1\npbt: stopped; the same command continues "
                        "it\n"), err
    assert not (w.runs / "pbt" / "rounds.csv").exists()


def test_a_trial_that_fails_is_a_row_with_its_reason_and_may_be_continued(w):
    w.write("base.yaml", BASE.replace("env_steps: 640", "env_steps: 100000000").replace(
        "max_restarts: 1000, delay: 0s", "policy: temporary"))
    study = w.write("grid.yaml", "base: base.yaml\nsearch: {defaults.discount: [0.9]}\n")
    p = w.start("sweep", study, "--json")
    wait_for_checkpoint(w.runs / "grid" / "1-s1")
    status = json.loads(w.brood("status", "grid/1-s1", "--json")[0])
    harness.kill(status["agents"][1]["pid"])
    assert p.wait(timeout=harness.DEADLINE_S) == 1, p.log.read_text()
    text = w.brood("report", "grid")[0]
    assert "\nfailed: 1-s1 at step " in text and "agent agent_1: " in text, text
    assert "(pid" not in text, text
    report = json.loads(w.brood("report", "grid", "--json")[0])
    assert report["best"] is None and "agent_1" in report["trials"][0]["failure"], report
    _, err = w.brood("sweep", study, code=1)  # it is left alone
    assert "1 of 1" not in err, err
    p = w.start("sweep", study, "--retry-failed")
    harness.wait_until("the run", lambda: state_of(w, "grid/1-s1") == "running")
    harness.set_last_step(w, "grid/1-s1", 160)
    assert p.wait(timeout=harness.DEADLINE_S) == 0, p.log.read_text()
    text = w.brood("report", "grid")[0]
    assert "failed" not in text and " - " not in text, text


def test_a_trial_above_its_memory_limit_has_failed(w):
    # A run without an end: a short one may be over before its memory is looked at again.
    w.write("base.yaml", BASE.replace("env_steps: 640", f"env_steps: {harness.FOREVER}"))
    text = "base: base.yaml\nsearch: {defaults.discount: [0.9]}\nlimits: {cores: 1, memory: %s}\n"
    study = w.write("grid.yaml", text % "1M")
    _, err = w.brood("sweep", study, code=1)
    said = "the run's processes take "
    assert f"1-s1: brood run: {said}" in err and "its memory limit is 1M" in err, err
    table = w.brood("report", "grid")[0]
    assert "\nfailed: 1-s1 at step " in table and said in table, table
    w.write("grid.yaml", text % "64G")
    p = w.start("sweep", study, "--retry-failed")
    harness.wait_until("the run", lambda: state_of(w, "grid/1-s1") == "running")
    harness.set_last_step(w, "grid/1-s1", 160)
    assert p.wait(timeout=harness.DEADLINE_S) == 0, p.log.read_text()
    table = w.brood("report", "grid", "--svg", w.path / "grid.svg")[0]
    assert (w.path / "grid.svg").read_text().count("<circle") == 1  # one trial, one key
    assert "failed" not in table and table.splitlines()[1].split()[1].startswith("-"), table
    _, err = w.brood("run", "base.yaml", "--memory-limit", "much", code=2)
    assert "--memory-limit 'much': expected a size such as 8G" in err, err


def test_the_view_of_a_study_redraws_in_place(w):
    study = write(w, STUDY.replace("population: 4, interval: 160, rounds: 3",
                                   "population: 30, interval: 50000000, rounds: 2"))
    w.write("base.yaml", BASE.replace("env_steps: 640", "env_steps: 100000000"))
    t = Terminal(w, "sweep", study, "--jobs", "2", rows=12)
    steps = harness.wait_until("steps of a run", lambda: [
        line for line in screen_of(t.text()) if "running" in line and " 0 " not in line])
    assert steps[0].split()[0] in "12", steps
    lines = screen_of(t.text())
    assert any("round 1 of 2  0 of 30 runs" in line for line in lines), lines
    assert "+23 more: 23 waiting" in lines, lines
    w.brood("stop", "pbt/1-s1")
    harness.wait_until("another one", lambda: any(
        line.split()[:2] == ["3", "running"] for line in screen_of(t.text())))
    other = Terminal(w, "attach", "pbt", rows=12)
    harness.wait_until("the same view", lambda: any(
        line.split()[:2] == ["3", "running"] for line in screen_of(other.text())))
    assert any("round 1 of 2  " in line for line in screen_of(other.text())), other.text()
    other.process.send_signal(signal.SIGINT)
    lines, wrapped = other.end(0)
    assert not wrapped and lines[-2:] == [
        "pbt: the sweep continues; `brood status pbt` shows how far it is", ""], lines
    t.process.send_signal(signal.SIGINT)
    lines, wrapped = t.end(4)
    assert not wrapped, wrapped
    said = [line for line in lines if "has no value" in line]
    assert len(said) == 3 and "pbt: 1 of 30: 1-s1 has no value (exit code 4)" in said[0], lines
    assert not any("best so far: none" in line for line in lines), lines
    assert lines[-2:] == ["pbt: stopped; the same command continues it", ""], lines


def test_what_pbt_cannot_search_is_refused_before_any_run(w):
    for old, new, says in (
            ("defaults.discount: [0.9, 0.95, 0.99]", "defaults.actor.hidden: [[8], [12]]",
             "pbt.yaml:4: defaults.actor.hidden: cannot change in a run that has begun"),
            ("rounds: 3", "rounds: 5", "pbt.yaml: method.pbt.rounds: 5 rounds of 160 steps are "
             "more than run.env_steps of the base, 640"),
            # The third round ends at step 640: a round of the runs has four steps.
            ("interval: 160, rounds: 3", "interval: 213, rounds: 4", "pbt.yaml: "
             "method.pbt.rounds: 4 rounds of 213 steps are more than run.env_steps of the base"),
            ("0.95, 0.99]", "0.95, 1.5]", "pbt.yaml:4: --set defaults.discount=1.5: "),
            ("seeds: [1]", "trials: 3", "trials: pbt has a trial for each of `population`")):
        study = write(w, STUDY.replace(old, new))
        _, err = w.brood("sweep", study, code=2)
        assert says in err and err.count("\n") == 1, err
    assert not w.runs.exists() or os.listdir(w.runs) == []


if __name__ == "__main__":
    harness.main()
