"""`brood sweep`: many runs of one study, compared by one number, exactly."""
import json
import os
import pathlib
import random
import re
import signal

import harness
from test_exactness import outcome

BASE = """\
run: {name: small, seed: 2, env_steps: 640}
env: {id: simple_spread, copies: 4, max_steps: 10, reward: team_mean}
experience: {capacity: 200, batch_size: 16, warmup: 100, update_every: 20}
checkpoint: {every_env_steps: 160}
evaluation: {every_env_steps: 320, episodes: 4}
log: {every_env_steps: 80}
defaults: {algorithm: maddpg, actor: {hidden: [8]}, critic: {hidden: [8]},
           restart: {max_restarts: 1000, delay: 0s}}
"""
STUDY = """\
base: base.yaml
search:
  defaults.optimizer.learning_rate: {log_uniform: [0.0003, 0.03]}
  defaults.discount: [0.9, 0.95, 0.99]
  "defaults.actor.hidden, defaults.critic.hidden": [[8], [12]]
method: {asha: {rungs: [160, 320, 640], keep: 0.34}}
metric: {column: rollout/team_return/agent, last: 2}
trials: 6
seeds: [1, 2]
"""


def write(w, text=STUDY, name="lr.yaml"):
    w.write("base.yaml", BASE)
    return w.write(name, text)


def sweep(w, study, name, *more, **how):
    """Sweep a study; its report as CSV, and what was printed."""
    _, err = w.brood("sweep", study, "--name", name, *more, **how)
    return w.brood("report", name, "--csv")[0], err


def victims(p, kind):
    """The processes of a sweep of that kind; "run": keepers, supervisors and sweepers."""
    if kind == "sweep":
        return [p.pid]
    found = {pid: harness.look_at(pid) for pid in harness.members(p.pid) - {p.pid}}
    return sorted(pid for pid, seen in found.items() if seen and seen[0] != "Z" and
                  is_agent(seen[2]) == (kind == "agent"))


def is_agent(line):
    """By the command line: one of brood's own, or a program of tests/support."""
    return line.split()[1:2] == ["agent"] or "plain_program.py" in line


EACH = ("agent", "run", "sweep")


def kill_at_random(w, study, name, draw, kinds):
    """Sweep a study and kill a process of each of the kinds, some of them when a run has got
    further, as long as the study is not over; how many of each kind were killed. The first of
    EACH are killed at once, before a study of many runs can be over."""
    killed = dict.fromkeys(EACH, 0)

    def steps():
        return sum(max(harness.checkpoints(run), default=0)
                   for run in (w.runs / name).glob("*-s*"))
    p = w.start("sweep", study, "--name", name, "--jobs", "2")
    for i, kind in enumerate(kinds):
        if i >= len(EACH) and draw.random() < 0.3:
            at = steps()
            harness.wait_until("a newer checkpoint", lambda n=at: p.poll() is not None or
                               steps() > n)
        found = harness.wait_until(f"a process to kill: {kind}", lambda k=kind:
                                   p.poll() is not None or victims(p, k))
        if p.poll() is not None:
            assert p.returncode == 0, p.log.read_text()
            break
        harness.kill_and_wait(draw.choice(found))
        killed[kind] += 1
        if kind == "sweep":
            p.wait()
            p = w.start("sweep", study, "--name", name, "--jobs", "2")
    p.kill()
    p.wait()
    print(f"# killed: {killed}")
    return killed


def assert_same_runs(w, run, *studies):
    """The last checkpoint and the rows of a run of two studies."""
    harness.assert_same_files(*(outcome(w.runs / name / run) for name in studies))


def test_the_result_depends_on_neither_jobs_nor_kills(w):
    study = write(w)
    calm, err = sweep(w, study, "calm")
    rows = calm.splitlines()
    assert rows[0] == "trial,value,low,high,seeds,rung,defaults.optimizer.learning_rate," \
        'defaults.discount,"defaults.actor.hidden, defaults.critic.hidden"', rows
    assert [row.split(",")[5] for row in rows[1:]] == ["2", "1", "0", "0", "0", "0"], rows
    assert "2 of 6 trials continue from step 160" in err, err
    table = [line.split() for line in w.brood("report", "calm")[0].splitlines()[:7]]
    assert "rung" in table[0] and [line[line.index("of") - 1] for line in table[1:]] == \
        ["3", "2", "1", "1", "1", "1"], table
    said, = harness.json_lines(w.brood("status", "calm", "--json")[0])
    assert said["state"] == "done" and said["stage"] == "rung 3 of 3", said
    assert [str(t["trial"]) for t in said["trials"]] == [rows[1].split(",")[0]], (said, rows)
    assert sorted(os.listdir(w.runs / "calm"))[:3] == ["1-s1", "1-s2", "2-s1"]
    draw, more = random.Random(4), [*EACH, "agent", "run"] * (1 if harness.SANITIZED else 6)
    draw.shuffle(more)
    assert all(kill_at_random(w, study, "killed", draw, [*EACH, *more]).values())
    again, _ = sweep(w, study, "killed", "--jobs", "2")
    assert again == calm, (again, calm)
    for run in ("1-s1", f"{rows[1].split(',')[0]}-s2"):
        assert_same_runs(w, run, "calm", "killed")


def test_a_grid_has_its_own_trials_and_grows_by_seeds(w):
    grid = STUDY.replace("{log_uniform: [0.0003, 0.03]}", "[0.001, 0.01]").replace(
        "method: {asha: {rungs: [160, 320, 640], keep: 0.34}}\n", "").replace("trials: 6\n", "")
    grid = grid.replace("defaults.discount: [0.9, 0.95, 0.99]", "defaults.discount: [0.9]")
    study = write(w, grid.replace("seeds: [1, 2]", "seeds: [1]"), "grid.yaml")
    out, err = w.brood("sweep", study, "--json")
    events = harness.json_lines(out)
    assert [e["event"] for e in events] == ["trial"] * 4 + ["done"], events
    assert all(e["time"] for e in events), events
    best = events[-1]["best"]
    assert events[-1]["study"] == "grid" and events[-1]["trials"] == 4
    assert best["value"] == max(e["value"] for e in events[:-1]), events
    assert best["settings"].keys() == {"defaults.optimizer.learning_rate", "defaults.discount",
                                       "defaults.actor.hidden, defaults.critic.hidden"}
    text = (w.runs / "grid" / "3-s1" / "config.yaml").read_text()
    assert "learning_rate: 0.01" in text and text.count("hidden: [8]") >= 2, text
    write(w, grid, "grid.yaml")
    _, err = w.brood("sweep", study, "--jobs", "2")
    assert "grid: 8 of 8: " in err and "grid: 4 of 8" not in err, err
    said, = harness.json_lines(w.brood("status", "grid", "--json")[0])
    assert said["state"] == "done" and said["stage"] is None and said["part"] == 1, said
    assert said["ended"] == said["runs"] == 8 and len(said["trials"]) == 4, said
    assert said["best"] == said["trials"][0] and said["best"]["settings"].keys() == \
        best["settings"].keys(), said
    table = w.brood("status", "grid")[0].splitlines()
    assert table[0].startswith("grid: done  ") and "  8 of 8 runs" in table[0], table
    assert [line.split()[1:3] for line in table[3:]] == [["done", "640"]] * 4, table
    _, err = w.brood("attach", "grid", code=3)
    assert "no `brood sweep` works on runs/grid; `brood status grid` " in err, err
    table = w.brood("report", "grid", "--svg", w.path / "grid.svg")[0]
    assert "defaults.optimizer.learning_rate: rank correlation " in table, table
    said = json.loads(w.brood("report", "grid", "--json")[0])
    assert set(said["search"].values()) == {"choice"} and said["search"].keys() == best["settings"].keys(), said["search"]
    for key, share in said["variance_share"].items():   # anew, from the trials
        values = [t["value"] for t in said["trials"]]
        mean = sum(values) / len(values)
        groups = {}
        for t in said["trials"]:
            groups.setdefault(t["settings"][key], []).append(t["value"] - mean)
        between = sum(sum(g) ** 2 / len(g) for g in groups.values())
        assert abs(share - between / sum((v - mean) ** 2 for v in values)) < 1e-9, (key, share)
        assert f"variance share {share:.2f}" in table, table
    assert "95 % interval" in table and (w.path / "grid.svg").read_text().count("<path") == 8
    write(w, grid.replace("0.9]", "0.8]"), "grid.yaml")
    _, err = w.brood("sweep", study, code=2)
    assert "grid.yaml: `search` is not what the study began with (runs/grid/study.yaml)" in \
        err and err.count("\n") == 1, err


def kill_at_the_end(run, after_end):
    """Rewrite the journal of a run that is done as if its supervisor had been killed when its
    last checkpoint was there: before its line `end`, or after it."""
    journal = run / "journal"
    *lines, end = journal.read_text().splitlines(keepends=True)
    assert "event=end state=done" in end, end
    killed = re.sub("state=done.*", "state=killed code=137 pid=%s signal=SIGKILL" %
                    re.search(r" pid=(\d+)", end)[1], end)
    journal.write_text("".join([*lines, *[end] * after_end, killed]))


def test_keys_that_the_algorithm_does_not_use_are_dropped(w):
    """As `brood run` does: named once, not for each trial."""
    study = write(w, "base: base.yaml\nsearch: {defaults.discount: [0.9, 0.95]}\n", "ppo.yaml")
    base = w.path / "base.yaml"
    base.write_text(base.read_text().replace("maddpg", "ippo"))
    _, err = w.brood("sweep", study)
    assert err.count("batch_size") == 1 and "2 of 2: 2-s1 -" in err, err


def test_a_trial_that_is_killed_again_and_again_is_left_alone(w):
    """It would be started for ever, if a machine has too little memory for it."""
    study = write(w, "base: base.yaml\nsearch: {run.env_steps: [1000000000, 640]}\n", "big.yaml")
    base = w.path / "base.yaml"
    base.write_text(re.sub(r"(?<=every_env_steps: )\d+", "1000000000", base.read_text()))
    p = w.start("sweep", study, "--jobs", "1")

    lock, killed = w.runs / "big" / "1-s1" / "lock", set()

    def end_it():
        """Each of the trial's supervisors, as soon as it holds the run."""
        holder = lock.read_text().split()[:1] if lock.exists() else []
        for pid in map(int, holder):
            if pid not in killed and harness.alive(pid):
                killed.add(pid)
                harness.kill(pid)
        return p.poll() is not None
    harness.wait_until("the end of the sweep", end_it)
    err = p.log.read_text()
    assert err.count("big: 1-s1 was killed 5 times at step 0: it is left alone") == 1, err
    assert "2-s1 -" in err and "1-s1 has no value (exit code 137)" in err, err


def test_a_supervisor_killed_at_the_very_end_is_no_endless_trial(w):
    grid = "base: base.yaml\nsearch: {defaults.discount: [0.9, 0.95]}\n"
    study = write(w, grid, "grid.yaml")
    w.brood("sweep", study)
    mode = (w.runs / "grid" / "base.yaml").stat().st_mode
    assert (w.runs / "grid" / "study.lock").stat().st_mode == mode  # others may look at it
    run, other = w.runs / "grid" / "1-s1", w.runs / "grid" / "2-s1"
    for one, after_end in ((run, False), (other, True)):
        kill_at_the_end(one, after_end)
    assert w.status("grid/1-s1")["state"] == "killed"
    assert w.status("grid/2-s1")["state"] == "done"
    _, err = w.brood("sweep", study)
    assert err.count("1-s1: done, 640 steps") == 1 and "2-s1: done" not in err, err
    said = w.status("grid/1-s1")
    assert said["state"] == "done" and said["exit_code"] == 0, said
    assert said["env_steps"] == 640 and said["exact"], said
    w.brood("wait", "grid/1-s1")
    before = (run / "journal").read_bytes()
    w.brood("resume", "grid/1-s1")
    assert (run / "journal").read_bytes() == before


def test_one_trial_may_be_stopped_and_one_may_fail(w):
    study = write(w, STUDY.replace("trials: 6", "trials: 2").replace("seeds: [1, 2]",
                                                                     "seeds: [1]"))
    w.write("base.yaml", BASE.replace("env_steps: 640", "env_steps: 100000000"))
    text = study.read_text().replace("rungs: [160, 320, 640]", "rungs: [90000000, 100000000]")
    study.write_text(text)
    p = w.start("sweep", study)
    first = w.runs / "lr" / "1-s1"
    harness.wait_until("the first trial", lambda: (first / "checkpoints" / "160").exists())
    _, err = w.brood("sweep", study, code=2)
    assert err == "brood sweep: another `brood sweep` works on runs/lr\n", err
    said, = harness.json_lines(w.brood("status", "lr", "--json")[0])
    assert said["state"] == "running" and said["stage"] == "rung 1 of 2", said
    assert [(t["trial"], t["state"]) for t in said["trials"]] == [
        (1, "running"), (2, "waiting")] and said["trials"][0]["env_steps"] >= 160, said
    assert "lr" in w.brood("complete", "--", "attach", "")[0].split()
    follows = w.start("attach", "lr", "--json")
    shown = pathlib.Path(str(follows.log) + ".out")
    harness.wait_until("what attach shows", lambda: "\n" in shown.read_text())
    w.brood("stop", "lr/1-s1")
    second = w.runs / "lr" / "2-s1"
    harness.wait_until("the second trial", lambda: (second / "checkpoints" / "160").exists())
    harness.kill(p.pid, signal.SIGINT)
    assert p.wait(timeout=harness.DEADLINE_S) == 4, p.log.read_text()
    err = p.log.read_text()
    assert "lr: 1 of 2: 1-s1 has no value (exit code 4)" in err, err
    assert err.endswith("lr: stopped; the same command continues it\n"), err
    states = {r["run"]: r["state"] for r in harness.json_lines(
        w.brood("runs", "--json", "--runs-dir", w.runs / "lr")[0])}
    assert states == {"1-s1": "stopped", "2-s1": "stopped"}, states
    assert follows.wait(timeout=harness.DEADLINE_S) == 4, follows.log.read_text()
    assert "lr" not in w.brood("complete", "--", "attach", "")[0].split()
    assert "lr" in w.brood("complete", "--", "status", "")[0].split()
    seen = [e["state"] for e in harness.json_lines(shown.read_text())]
    assert seen[0] == "running" and seen[-1] == "stopped", seen


def test_a_rung_that_is_over_keeps_its_values(w):
    """A stop within the interval of the log writes a row that the resume replaces."""
    study = write(w, STUDY.replace("seeds: [1, 2]", "seeds: [1]"))
    w.write("base.yaml", BASE.replace("log: {every_env_steps: 80}", "log: {every_env_steps: 240}"))
    calm, err = sweep(w, study, "lr")
    assert "2 of 6 trials continue from step 160" in err, err
    kept = (w.runs / "lr" / "rungs.csv").read_text().splitlines()
    assert kept[0] == "env_steps,trial,seed,value" and len(kept) == 1 + 6 + 2 + 1, kept
    again, err = sweep(w, study, "lr")
    assert again == calm and " at step " not in err, (again, calm, err)
    (w.runs / "lr" / "7-s1").mkdir()  # a run that was killed before it had a lock
    study.write_text(study.read_text().replace("trials: 6", "trials: 7"))
    more, _ = sweep(w, study, "lr")
    assert more.count("\n") == calm.count("\n") + 1 and "\n7," in more, more
    (w.runs / "lr" / "rungs.csv").write_text("\n".join(kept[:2]) + ",")
    _, err = w.brood("report", "lr", code=1)
    assert "lr/rungs.csv:2: expected environment steps, trial, seed and value" in err, err


def test_pictures_place_words_and_numbers_alike(w):
    """Points and labels of a key whose choices are not all numbers."""
    w.write("base.yaml", BASE.replace("env_steps: 640", "env_steps: 160"))
    study = w.write("clip.yaml", "base: base.yaml\n"
                    "search: {defaults.clip_norm: [none, 0.5, 10]}\n")
    w.brood("sweep", study)
    w.brood("report", "clip", "--svg", w.path / "clip.svg")
    text = (w.path / "clip.svg").read_text()
    points = [float(x) for x in re.findall(r'<circle cx="([0-9.]+)"', text)]
    labels = [float(re.findall(rf'<text x="([0-9.]+)"[^>]*>{name}</text>', text)[-1])
              for name in ("none", "0.5", "10")]
    assert points == labels and len(set(points)) == 3, (points, labels)


def test_trials_find_a_policy_beside_the_study(w):
    """`from` is the name of a run; the runs of a study are in a folder of their own."""
    w.brood("run", write(w, BASE.replace("env_steps: 640", "env_steps: 160"), "base.yaml"),
            "--name", "source")
    frozen = "agents: {agent_0: {algorithm: frozen, settings: {from: %s}}}\n"
    study = w.write("s.yaml", "base: mixed.yaml\nsearch: {defaults.discount: [0.9]}\n")
    for source, code in (("sauce", 2), ("source", 0)):
        w.write("mixed.yaml", (w.path / "base.yaml").read_text() + frozen % source)
        _, err = w.brood("sweep", study, code=code)
        assert ("there is no run sauce in " in err) == (code == 2), err
    assert harness.checkpoints(w.runs / "s" / "1-s1")
    assert w.status("s/1")["env_steps"] == w.status("s/1-s1")["env_steps"] == 160
    w.brood("rm", "s/1", code=3)
    harness.copy_run(w.runs / "s" / "1-s1", w.runs / "s" / "1-s2")
    _, err = w.brood("status", "s/1", code=3)
    assert "there is no run s/1 in " in err, err


def test_a_study_without_values_has_failed(w):
    write(w)
    study = w.write("none.yaml", "base: base.yaml\nsearch: {defaults.discount: [0.9]}\n"
                    "metric: {column: train/agent_0/critic_loss}\n")
    w.write("base.yaml", BASE.replace("env_steps: 640", "env_steps: 160").replace(
        "warmup: 100", "warmup: 200"))
    _, err = w.brood("sweep", study, code=1)
    assert "1-s1 has no value of train/agent_0/critic_loss (exit code 0)" in err, err
    assert "none: no trial has a value" in err, err
    w.write("none.yaml", study.read_text().replace(  # no run is repeated
        "train/agent_0/critic_loss", "rollout/team_return/agent"))
    _, err = w.brood("sweep", study)
    assert "1 of 1" not in err, err


def test_what_cannot_be_searched_is_refused_before_any_run(w):
    for old, new, says in (
            ("defaults.discount", "defaults.discont", "trial 1: --set defaults.discont=0.95: "),
            ("[0.9, 0.95, 0.99]", "[1.5]", "defaults.discount=1.5: "),
            ("[0.9, 0.95, 0.99]", "[0.9, 0.95, 0.90]",
             "lr.yaml:4: defaults.discount: 0.90 is given twice"),
            ("[[8], [12]]", "[[8], [12], [8]]", "critic.hidden: [8] is given twice"),
            ("[0.0003, 0.03]", "[0.03, 0.0003]", "lr.yaml:3: defaults.optimizer.learning_rate: the "
             "lower end comes first: log_uniform: [0.0003, 0.03]"),
            ("[0.0003, 0.03]", "[0.03, 0.03]", "log_uniform: [0.03, 0.03] is one value"),
            ("base: base.yaml", "base: none.yaml", "none.yaml: No such file or directory"),
            ("320, 640]", "320, 641]", "the last rung, 641, is beyond run.env_steps, 640"),
            ("[160, 320", "[20, 320", "method.asha.rungs: trials are compared at step 20, before an "
             "episode has ended (env.copies x max_steps is 40)"),
            ("column: rollout/", "column: eval/", "method.asha.rungs: trials are compared at step "
             "160, before the first evaluation (evaluation.every_env_steps is 320)"),
            ("column: rollout/team_return/agent", "column: rollout/team_returns/agent",
             "metric.column: progress.csv will have no column 'rollout/team_returns/agent'; "
             "did you mean 'rollout/team_return/agent'?"),
            ("defaults.discount: ", "? " + ", ".join(f"agents.a{i}.discount" for i in range(129)) +
             "\n  : ", "lr.yaml:4: search: at most 128 paths, of all keys together"),
            ("trials: 6", "trials: none",
             "lr.yaml:8: trials: found 'none', expected a whole number of at least 1")):
        study = write(w, STUDY.replace(old, new))
        _, err = w.brood("sweep", study, code=2)
        assert says in err and err.count("\n") == 1, err
    grid = "base: base.yaml\nsearch: {defaults.discount: [0.9]}\nmetric: {column: %s/team_return/agent}\n"
    for column, words, says in (
            ("eval", ["evaluation.every_env_steps=0"], "before the first evaluation"),
            ("rollout", ["run.env_steps=20"],
             "metric.column: trials are compared at step 20, before an episode has ended"),
            ("eval", ["defaults.discount=0.8"], "--set defaults.discount=0.8: the study searches "
             "defaults.discount: change it in "),
            ("eval", ["run.seed=3"], "the seeds of a study are given by `seeds: [1, 2]`"),
            ("eval", ["defaults.discont=0.8"], "did you mean 'discount'?")):
        _, err = w.brood("sweep", write(w, grid % column), *(f"--set={word}" for word in words), code=2)
        assert says in err and err.count("\n") == 1, err
    _, err = w.brood("sweep", write(w, grid.split("metric")[0]), "--set=run.env_steps=20",
                     "--set=evaluation.every_env_steps=0", code=2)
    assert "lr.yaml: base: trials are compared at step 20, before an episode has ended" in err, err
    for name in "", "..", "a/b":
        assert "expected a run's name" in w.brood("sweep", write(w), "--name", name, code=2)[1]
    assert not w.runs.exists() or os.listdir(w.runs) == []
    w.brood("run", write(w, BASE, "taken.yaml"), "--name", "taken")
    _, err = w.brood("sweep", write(w), "--name", "taken", code=2)
    assert "runs/taken is a run; --name gives the study another name" in err, err


def test_set_changes_the_base_of_all_trials(w):
    study = write(w, "base: base.yaml\nsearch: {defaults.discount: [0.9, 0.95]}\n")
    w.brood("sweep", study, "--set", "run.env_steps=320", "--set", "defaults.polyak=0.5")
    for run in ("1-s1", "2-s1"):
        text = (w.runs / "lr" / run / "config.yaml").read_text()
        assert "env_steps: 320\n" in text and "polyak: 0.5\n" in text, text
    _, err = w.brood("sweep", study, code=2)
    assert "lr.yaml: `base` is not what the study began with" in err and err.count("\n") == 1, err
    assert "discount" in w.brood("sweep", study, "--set=run.env_steps=320",
                                 "--set=defaults.polyak=0.5")[0]


def listed(w, *words):
    """The studies that `brood runs` lists."""
    lines = harness.json_lines(w.brood("runs", "--json", *words)[0])
    return [line for line in lines if "study" in line]


def test_studies_are_listed_and_removed(w):
    study = write(w, STUDY.replace("seeds: [1, 2]", "seeds: [1]"))
    w.brood("sweep", study, "--name", "over")
    told, = listed(w)
    assert (told["study"], told["state"], told["trials"], told["trials_done"]) == \
        ("over", "done", 6, 6) and told["best"]["rung"] == 2, told
    table = w.brood("runs")[0].splitlines()
    assert re.fullmatch(r"study +state +trials +best trial +disk", table[0]), table
    assert re.fullmatch(rf"over +done +6 of 6 +{told['best']['trial']} with \S+ +\S+ (kB|MB)",
                        table[1]), table
    for words in ["--where", "state=done name=ov*"], ["over"], ["o*"], ["runs/over"], ["over/"]:
        assert listed(w, *words) == [told], words
    assert not listed(w, "--where", "tag=paper") and not listed(w, "--where", "state=running")
    assert not listed(w, "--where", "name=un*")
    assert "no run" in w.brood("runs", "ove", code=3)[1]
    (w.runs / "link").symlink_to("over")
    _, err = w.brood("rm", "link", code=2)
    assert "is a link; give what it leads to" in err and (w.runs / "over" / "1-s1").is_dir(), err
    (w.runs / "link").unlink()
    run = w.runs / "over" / "9-s1"
    run.symlink_to("1-s1")
    _, err = w.brood("rm", "over", code=2)
    assert "9-s1 is a link" in err and (w.runs / "over" / "1-s1").is_dir(), err
    run.unlink()
    assert w.brood("rm", "over")[0] == "over was removed, with its 6 runs\n"
    assert os.listdir(w.runs) == [] and w.brood("runs")[0] == ""


def test_a_folder_with_the_files_of_a_study_is_not_removed(w):
    """One's own sources, beside runs/, with the names that a study has in its folder."""
    sources = w.path / "exp"
    sources.mkdir()
    for name in "study.yaml", "base.yaml", "train.py":
        (sources / name).write_text("{}\n")
    names = sorted(os.listdir(sources))
    _, err = w.brood("rm", "exp", code=2)
    assert "exp has no study.lock: no sweep has begun it" in err, err
    w.brood("run", w.write("base.yaml", BASE), "--name", "exp")
    assert w.brood("rm", "exp")[0] == "exp was removed\n"
    assert sorted(os.listdir(sources)) == names and os.listdir(w.runs) == []
    # what a removal that was killed has left
    (w.runs / "left").mkdir()
    for name in "study.yaml", "study.lock":
        (w.runs / "left" / name).write_text("{}\n")
    w.brood("rm", "left")
    assert os.listdir(w.runs) == []


def test_a_study_that_goes_on_is_not_removed(w):
    w.write("base.yaml", BASE.replace("env_steps: 640", f"env_steps: {harness.FOREVER}"))
    study = w.write("lr.yaml", "base: base.yaml\nsearch: {defaults.discount: [0.9, 0.95]}\n")
    p = w.start("sweep", study, "--name", "lr")
    harness.wait_until("a live trial", (w.runs / "lr" / "1-s1" / "checkpoints" / "160").is_dir)
    told, = listed(w)
    assert (told["state"], told["trials_done"], told["best"]) == ("running", 0, None), told
    _, err = w.brood("rm", "lr", code=2)
    assert "another `brood sweep` works on runs/lr" in err, err
    p.send_signal(signal.SIGINT)
    p.wait(timeout=harness.DEADLINE_S)
    w.brood("resume", "lr/1-s1", "--detach")
    assert listed(w)[0]["state"] == "stopped"
    _, err = w.brood("rm", "lr", code=2)
    assert "runs/lr/1-s1 is running; `brood stop runs/lr/1-s1` stops it" in err, err
    w.brood("stop", "lr/1-s1")
    assert (w.runs / "lr" / "1-s1" / "config.yaml").is_file()
    (w.runs / "lr" / "study.yaml").write_text("base: [\n")
    assert (listed(w)[0]["state"], listed(w)[0]["trials"]) == ("unreadable", None)
    assert re.search(r"^lr +unreadable +- +- ", w.brood("runs")[0], re.M)
    w.brood("rm", "lr", "--quiet")
    assert os.listdir(w.runs) == []


if __name__ == "__main__":
    harness.main()
