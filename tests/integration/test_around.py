"""Commands around runs: `brood new`, `tag`, `prune`, `doctor`, and which of them
`runs` lists."""
import csv
import fcntl
import os
import re
import resource
import shutil
import subprocess

import harness


# ---- brood new ----

# These take part in no game by themselves.
WITHOUT_POLICY = {"critic", "graph", "frozen"}
LIKE_CLIMBING = {"penalty", "prisoners_dilemma", "stag_hunt"}


def names(w, command, key):
    return [x[key] for x in harness.json_lines(w.brood(command, "--json")[0])]


def test_every_pair_is_written_or_refused_in_a_line(w):
    """What `new` writes, `check` accepts, with as many agents; what `check` refuses, `new`
    refuses in one line that names the key."""
    envs, algorithms = names(w, "envs", "id"), names(w, "algorithms", "name")
    envs = [e for e in envs if e not in LIKE_CLIMBING]
    if harness.SANITIZED:
        envs, algorithms = envs[::6], algorithms[::5]
    made, refused = {}, set()
    for env in envs:
        started = [(a, w.start("new", env, "--algorithm", a, "--out", f"{env}-{a}.yaml"))
                   for a in algorithms if env == envs[0] or a not in WITHOUT_POLICY]
        for a, p in started:
            file = f"{env}-{a}.yaml"
            if p.wait(timeout=harness.DEADLINE_S) == 0:
                made[file] = a
                continue
            text = p.log.read_text()
            assert p.returncode == 2 and len(text.splitlines()) == 1, (file, text)
            assert text.startswith("brood new: ") and f" {a} " in f" {text}", (file, text)
            assert not (w.path / file).exists()
            refused.add(a)
    assert refused <= WITHOUT_POLICY | {"heuristic"}, refused
    out, err = w.brood("check", *made)
    good = [line for line in out.splitlines() if ": ok: " in line]
    assert [line.split(":")[0] for line in good] == list(made), (out, err)
    # A full disk of this machine may be warned of.
    assert all(": warning: " in line for line in err.splitlines()), err
    assert all(f", {a}, " in line for line, a in zip(good, made.values())), good


def test_a_written_configuration_explains_itself_and_trains_alike(w):
    text, _ = w.brood("new", "simple_tag", "--algorithm", "mappo", "--set",
                      "run.env_steps=60", "--set", "env.params={adversaries: 2}", "--set",
                      "env.copies=2", "--set", "evaluation.every_env_steps=0")
    help_text = w.brood("check", "--help")[0]
    for line in help_text.split("what it is for:")[1].splitlines():
        key, _, doc = line.strip().partition(" ")
        if key in ("run.seed", "checkpoint.max_to_keep", "defaults.settings.clip_ratio",
                   "experience.priority", "agents"):
            assert f"# {doc.split(maxsplit=1)[-1]}\n" in text or doc.strip() in text, line
    assert "\n    adversaries: 2 " in text and "\n  adversary_0: {}\n" in text, text
    assert "\n  # update_every:" in text and "\n  env_steps: 60 " in text, text
    w.write("long.yaml", text)
    w.write("short.yaml", "run: {env_steps: 60}\nenv: {id: simple_tag, params: {adversaries: 2}, "
            "copies: 2}\nevaluation: {every_env_steps: 0}\ndefaults: {algorithm: mappo}\n")
    for name in ("long", "short"):
        w.brood("run", f"{name}.yaml", "--name", name, "-q")
    long, short = (harness.tree_bytes(w.run_dir(name) / "checkpoints" / "60",
                                      lambda p: p.name != "run.state")
                   for name in ("long", "short"))
    assert long
    harness.assert_same_files(long, short)


def test_values_of_single_agents_and_teams_are_written(w):
    given = ("agents.agent_0.discount=0.5", "agents.adversary.algorithm=iql",
             "agents.adversary_1.settings.epsilon=0.3", "run.env_steps=60", "env.copies=2",
             "evaluation.every_env_steps=0", "experience.warmup=20",
             "experience.batch_size=16")
    sets = [word for one in given for word in ("--set", one)]
    text, _ = w.brood("new", "simple_tag", *sets)
    assert "  agent_0:\n    discount: 0.5\n" in text and text.count("algorithm: iql\n") == 3, text
    w.write("long.yaml", text)
    w.write("short.yaml", "env: {id: simple_tag}\ndefaults: {algorithm: maddpg}\n")
    w.brood("run", "long.yaml", "--name", "long", "-q", *sets[-4:])
    w.brood("run", "short.yaml", "--name", "short", "-q", *sets)
    long, short = ((w.run_dir(name) / "config.yaml").read_text().split("\ndefaults:")[1]
                   for name in ("long", "short"))
    assert long == short, (long, short)


def test_no_file_is_replaced_unasked(w):
    w.write("a.yaml", "mine\n")
    _, err = w.brood("new", "simple", "--out", "a.yaml", code=2)
    assert err == "brood new: a.yaml exists already; --force replaces it\n", err
    assert (w.path / "a.yaml").read_text() == "mine\n"
    out, _ = w.brood("new", "simple", "--out", "a.yaml", "--force", "--json")
    assert harness.json_lines(out) == [{"env": "simple", "algorithm": "maddpg",
                                        "file": "a.yaml"}], out
    assert "id: simple " in (w.path / "a.yaml").read_text()
    printed, = harness.json_lines(w.brood("new", "simple", "--json")[0])
    assert printed["file"] is None and printed["text"] == (w.path / "a.yaml").read_text()
    for words, why in ((["simpel"], "there is no environment 'simpel'; did you mean 'simple'?"),
                       (["simple", "--algorithm", "magic"], "'magic'"),
                       (["simple", "--set", "run.speed=1"], "run.speed: unknown key"),
                       (["simple", "--out", "no/a.yaml"], "no/a.yaml: No such file"),
                       ([], "expected the name of one environment")):
        _, err = w.brood("new", *words, code=1 if "--out" in words else 2)
        assert why in err and len(err.splitlines()) == 1, err


# ---- brood tag, brood runs --where ----


def listed(w, *words):
    return [x["run"] for x in harness.json_lines(w.brood("runs", "--json", *words)[0])]


def test_runs_are_tagged_and_found(w):
    config = w.small(steps=40, evaluate=0)
    for name, more in (("one", ()), ("two", ("--set", "defaults.algorithm=ippo"))):
        w.brood("run", config, "--name", name, "-q", *more)
    out, _ = w.brood("tag", "one", "paper", "fig3", "--note", "the left curve")
    assert out == "one: paper, fig3; the left curve\n", out
    assert w.brood("tag", "two", "paper")[0] == "two: paper\n"
    out, _ = w.brood("tag", "one", "--remove", "fig3", "best", "paper", "--json")
    assert harness.json_lines(out) == [{"run": "one", "tags": ["paper", "best"],
                                        "note": "the left curve"}], out
    assert w.brood("tag", "one")[0] == "one: paper, best; the left curve\n"
    status, = harness.json_lines(w.brood("status", "one", "--json")[0])
    assert status["tags"] == ["paper", "best"] and status["note"] == "the left curve", status

    table = w.brood("runs")[0].splitlines()
    assert table[0].endswith("  tags") and [line.split("  ")[-1] for line in table[1:]] == \
        ["paper", "paper, best"], table
    assert listed(w) == ["two", "one"]
    for where, found in (("tag=paper", ["two", "one"]), ("tag=be*", ["one"]),
                         ("state=done algorithm=ippo", ["two"]), ("name=?ne", ["one"]),
                         ("env=simple_spread tag=best", ["one"]), ("env=simple", []),
                         ("state=failed", []), ("algorithm=m* tag=paper", ["one"])):
        assert listed(w, "--where", where) == found, where
    assert w.brood("runs", "--where", "state=failed")[0].count("\n") <= 1
    w.brood("tag", "two", "--remove", "paper")
    w.brood("tag", "one", "--remove", "paper", "--remove", "best", "--note", "")
    assert w.brood("tag", "one")[0] == "one: no tags\n"
    assert "tags" not in w.brood("runs")[0]


def test_returns_of_opponents_are_not_averaged(w):
    config = w.write("tag.yaml", "env: {id: simple_tag, copies: 8}\n"
                                 "run: {env_steps: 800}\n"
                                 "evaluation: {every_env_steps: 400, episodes: 2}\n")
    _, err = w.brood("run", config, "--name", "a")
    status, = harness.json_lines(w.brood("status", "a", "--json")[0])
    row, = harness.json_lines(w.brood("runs", "--json")[0])
    assert status["returns"] == row["returns"], (status["returns"], row["returns"])
    assert [x["team"] for x in row["returns"]] == ["adversary", "agent"], row
    assert None not in [x[k] for x in row["returns"] for k in ("trained", "evaluated")], row
    told = ", ".join(f"{x['team']} {x['trained']:.2f}" for x in row["returns"])
    assert f", return {told}, 0 restarts" in err, err
    assert told in w.brood("runs")[0].splitlines()[1], w.brood("runs")[0]


def test_a_live_run_is_tagged(w):
    w.start("run", w.small(steps=100000000, evaluate=0, checkpoint=1000000000), "--name", "a")
    harness.wait_until("the rounds", lambda: harness.rows(w.run_dir("a")) > 0)
    w.brood("tag", "a", "watched")
    assert listed(w, "--where", "tag=watched state=running") == ["a"]
    status, = harness.json_lines(w.brood("status", "a", "--json")[0])
    assert status["state"] == "running" and status["tags"] == ["watched"], status
    w.brood("stop", "a")
    w.brood("wait", "a", code=4)
    assert listed(w, "--where", "tag=watched state=stopped") == ["a"]


def test_wrong_tags_and_conditions_are_one_line(w):
    w.brood("run", w.small(steps=40, evaluate=0), "--name", "a", "-q")
    for words, why, code in (
            (("tag", "a", "two words"), "'two words' is no tag, expected a name", 2),
            (("tag", "a", "--remove", "x"), "a: it has no tag x", 2),
            (("tag", "a", "--note", "two\nlines"), "the note is not one line", 2),
            (("tag", "b", "x"), "there is no run b", 3),
            (("tag",), "expected a run", 2),
            (("runs", "--where", "colour=red"), "there is no field 'colour', expected state, "
             "tag, name, env or algorithm", 2),
            (("runs", "--where", "done"), "'done': expected FIELD=VALUE", 2),
            (("runs", "--where", " "), "--where: it is empty", 2)):
        _, err = w.brood(*words, code=code)
        assert why in err and len(err.splitlines()) == 1, (words, err)
    assert not (w.run_dir("a") / "tags").exists()


# ---- brood prune ----


def checkpoints(w, run):
    return harness.checkpoints(w.run_dir(run))


def trained(w, name="a", *more):
    w.brood("run", w.small(steps=240, evaluate=40, checkpoint=40), "--name", name, "-q",
            "--set", "checkpoint.max_to_keep=none", "--set", "log.every_env_steps=20", *more)
    with open(w.run_dir(name) / "metrics" / "progress.csv", encoding="utf-8") as f:
        rows = list(csv.DictReader(f))
    column = "eval/team_return/agent"
    returns = {int(r["env_steps"]): float(r[column]) for r in rows if r[column]}
    assert len(returns) >= 5 and set(returns) <= set(checkpoints(w, name)), returns
    return sorted(returns, key=returns.get, reverse=True)


def test_the_best_and_the_newest_checkpoint_stay(w):
    best = trained(w)[0]
    all_of_them = checkpoints(w, "a")
    newest = all_of_them[-1]
    stay = sorted({best, newest})
    size = sum(p.stat().st_blocks * 512 for s in all_of_them if s not in stay
               for p in (w.run_dir("a") / "checkpoints" / str(s)).rglob("*"))
    dry, = harness.json_lines(w.brood("prune", "a", "--dry-run", "--json")[0])
    assert dry["kept"] == stay and checkpoints(w, "a") == all_of_them, dry
    done, = harness.json_lines(w.brood("prune", "a", "--json")[0])
    assert done == {**dry, "dry_run": False}, (dry, done)
    assert done["removed"] == [s for s in all_of_them if s not in stay], done
    assert done["best"][0]["team"] == "agent" and done["best"][0]["checkpoint"] == best, done
    assert done["freed_bytes"] >= size > 0 and not done["log_removed"], (done, size)
    assert checkpoints(w, "a") == stay
    # What is left is complete: TensorFlow's state file, evaluation, resume from either.
    state = w.brood("inspect", w.run_dir("a") / "checkpoints" / str(best) / "agent_0",
                    "--state")[0]
    assert best != newest and f"model.ckpt-{best}" in state and f"model.ckpt-{newest}" not in state, state
    w.brood("eval", "a", "--checkpoint", best, "--episodes", "2")
    w.brood("resume", "a", "--from", best, "-q")
    assert checkpoints(w, "a")[-1] == newest
    assert "0 of" in w.brood("prune", "a", "--keep", "9")[0]


def test_what_takes_a_lock_and_does_not_train_keeps_the_order_of_runs(w):
    """Commands without RUN mean the run whose supervisor began last."""
    file = w.small(steps=40)
    for name in ("a", "b"):
        w.brood("run", file, "--name", name, "-q")
    for command in (("prune", "a", "--dry-run"), ("prune", "a"),
                    ("resume", "a", "--set", "run.env_steps=4", "?2"), ("resume", "a")):
        code = 2 if command[-1] == "?2" else 0
        w.brood(*command[:-1] if code else command, code=code)
        assert w.status()["run"] == "b", command
    w.brood("resume", "a", "--set", "run.env_steps=80", "-q")
    assert w.status()["run"] == "a"


def test_the_best_of_each_of_many_teams_stays(w):
    trained(w)
    first, second = checkpoints(w, "a")[1:3]  # there is no evaluation before the first round
    file = w.run_dir("a") / "metrics" / "progress.csv"
    head, *rows = file.read_text().splitlines()
    step = head.split(",").index("env_steps")
    teams = 70
    # The last team alone was best at the second checkpoint.
    better = {first: ["1"] * (teams - 1) + ["0"], second: ["0"] * (teams - 1) + ["1"]}
    lines = [",".join([head, *(f"eval/team_return/team_{i}" for i in range(teams))])]
    for row in rows:
        lines.append(",".join([row, *better.get(int(row.split(",")[step]), [""] * teams)]))
    file.write_text("\n".join(lines) + "\n")
    done, = harness.json_lines(w.brood("prune", "a", "--json")[0])
    assert {first, second} <= set(done["kept"]) and len(done["best"]) == teams + 1, done
    assert {first, second} <= set(checkpoints(w, "a"))


def test_pruned_or_not_a_run_resumes_alike(w):
    trained(w, "a")
    shutil.copytree(w.run_dir("a"), w.run_dir("b"))
    w.brood("prune", "a", "-q")
    for name in ("a", "b"):
        w.brood("resume", name, "--set", "run.env_steps=280", "-q")
    a, b = (harness.tree_bytes(w.run_dir(name) / "checkpoints" / "280") for name in "ab")
    assert a
    harness.assert_same_files(a, b)


def test_logs_are_removed_of_runs_that_are_done(w):
    trained(w, "done")
    w.brood("run", w.path / "small.yaml", "--name", "cut", "--until", "40", "-q", code=4)
    assert (w.run_dir("done") / "experience").exists()
    _, err = w.brood("prune", "cut", "--log", code=2)
    assert "cut is not done: a resume would need its experience log" in err, err
    out, _ = w.brood("prune", "--log")  # all that are done
    assert "done: its experience log is removed, so that it cannot be made longer" in out, out
    assert "cut" not in out and not (w.run_dir("done") / "experience").exists()
    assert (w.run_dir("cut") / "experience").exists()
    assert "experience" in w.brood("resume", "done", "--set", "run.env_steps=900", code=3)[1]
    assert harness.json_lines(w.brood("prune", "done", "--log", "--json")[0])[0][
        "log_removed"] is False


def test_a_run_without_its_logs_is_resumed(w):
    file = w.small(steps=400)
    w.brood("run", file, "--name", "bare", "-q")
    shutil.copytree(w.run_dir("bare"), w.run_dir("empty"))
    shutil.rmtree(w.run_dir("empty") / "checkpoints")
    out, err = w.brood("prune")
    assert "empty: 0 B freed, 0 of 0 checkpoints; keeps none\n" in out and not err, (out, err)
    for folder in ("logs", "metrics"):
        shutil.rmtree(w.run_dir("bare") / folder)
    w.brood("resume", "bare", "--set", "run.env_steps=800", "-q")
    assert (w.run_dir("bare") / "metrics" / "progress.csv").exists()
    assert "Not a directory" in w.brood("runs", "--runs-dir", file, code=1)[1]


def test_runs_of_a_study_on_which_a_sweep_works_stay(w):
    study = w.runs / "study"
    trained(w, "a")
    study.mkdir()
    (w.runs / "a").rename(study / "1-s1")
    run = study / "1-s1"
    steps = harness.checkpoints(run)
    with open(study / "study.lock", "w", encoding="utf-8") as lock:
        fcntl.lockf(lock, fcntl.LOCK_EX)
        assert w.brood("prune", "--runs-dir", study)[0] == "" and harness.checkpoints(run) == steps
    out, _ = w.brood("prune", "--runs-dir", study)
    assert "1-s1: " in out and harness.checkpoints(run) != steps, (out, steps)


def test_damaged_checkpoints_stay_and_live_runs_are_refused(w):
    best, second, *_ = trained(w, "a")
    steps = checkpoints(w, "a")
    assert steps[-1] not in (best, second), (steps, best, second)
    for step in (best, steps[-1]):
        (w.run_dir("a") / "checkpoints" / str(step) / "run.state").write_bytes(b"brodrun1")
    out, = harness.json_lines(w.brood("prune", "a", "--json")[0])
    newest = max({*steps} - {best, steps[-1]})
    assert set(out["kept"]) == {best, steps[-1], second, newest}, (steps, best, out)
    assert [b["checkpoint"] for b in out["best"]] == [second], (second, out)
    p = w.start("run", w.small(steps=100000000, evaluate=0, checkpoint=1000000000),
                "--name", "live")
    harness.wait_until("the rounds", lambda: harness.rows(w.run_dir("live")) > 0)
    _, err = w.brood("prune", "live", code=2)
    assert "live" in err and len(err.splitlines()) == 1, err
    assert "live" not in w.brood("prune")[0]
    w.brood("stop", "live")
    p.wait(timeout=harness.DEADLINE_S)
    for words, why in ((["b"], "there is no run b"), (["a", "--keep", "0"], "--keep 0")):
        _, err = w.brood("prune", *words, code=2 if "a" in words else 3)
        assert why in err and len(err.splitlines()) == 1, err


def test_without_descriptors_no_run_is_passed_over(w):
    """A command about all runs either has them all, or fails."""
    if harness.SANITIZED:
        raise harness.Skip("a sanitizer needs descriptors of its own")
    for name in ("a", "b"):
        w.brood("run", w.small(steps=40, checkpoint=10), "--name", name, "-q", "--set",
                "checkpoint.max_to_keep=none")
    n_failed = 0
    for command in (("runs",), ("runs", "--json"), ("prune", "--dry-run"), ("prune",)):
        for files in range(4, 40):
            p = subprocess.run(["bash", "-c", f'ulimit -n {files} && exec "$@"', "bash",
                                harness.BROOD, *command], cwd=w.path, capture_output=True,
                               text=True)
            rows = len(p.stdout.splitlines()) - (command == ("runs",))
            assert (p.returncode, rows) == (0, 2) or (p.returncode != 0 and p.stderr), (files, p)
            n_failed += p.returncode != 0
            if p.returncode == 0:
                break
    assert n_failed >= 4, n_failed


# ---- brood doctor ----


def findings(w, *words, code=None, **more):
    """code: of the exit; None: 1 if anything is bad, else 0."""
    p = w.start("doctor", "--json", *words, **more)
    p.wait(timeout=harness.DEADLINE_S)
    found = {f["check"]: f for f in harness.json_lines(harness.output(p))}
    if code is None:
        code = int(any(f["state"] == "bad" for f in found.values()))
    assert p.returncode == code, (p.returncode, found)
    return found


def test_the_doctor_reads_this_machine(w):
    found = findings(w)
    assert found["agent"]["state"] == "ok", found
    assert all(f["found"] for f in found.values()), found
    full = {"disk", "memory"}  # what others leave of them is not for this test
    assert all(f["state"] in ("ok", "note") for name, f in found.items()
               if name not in full), found
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    files = "unlimited" if files == resource.RLIM_INFINITY else files
    assert found["open files"]["found"].startswith(f"{files} at most, "), found
    assert found["cores"]["found"].split(",")[0] == str(len(os.sched_getaffinity(0))), found
    version, = harness.json_lines(w.brood("version", "--json")[0])
    assert found["CPU"]["found"].startswith(f"kernels: {version['kernels']}"), found
    text, _ = w.brood("doctor", code=int(any(f["state"] == "bad" for f in found.values())))
    assert len(text.splitlines()) == len(found) and "ok    agent " in text, text
    quiet = w.start("doctor", "-q")
    quiet.wait(timeout=harness.DEADLINE_S)
    assert harness.output(quiet) == ""


def test_the_doctor_finds_what_is_taken_away(w):
    """Each reading follows what the machine is given."""
    found = findings(w, env={"PATH": str(w.path), "LC_ALL": "C", "BROOD_KERNELS": "portable"})
    assert found["python3"]["found"] == "not here" and "apt" in found["python3"]["advice"]
    assert found["ssh"]["found"] == found["Slurm"]["found"] == "not here", found
    assert found["locale"]["state"] == "note", found
    assert found["CPU"]["found"].startswith("kernels: portable"), found
    for name in ("sbatch", "srun", "ssh"):
        w.write(name, "").chmod(0o755)
    found = findings(w, env={"PATH": f"/nowhere:{w.path}"})
    assert found["Slurm"]["found"] == "sbatch and srun are here", found
    assert found["ssh"]["found"] == "here", found

    few = w.write("few", f'#!/bin/sh\nulimit -n 300\nexec {harness.BROOD} "$@"\n')
    few.chmod(0o755)
    found = findings(w, "--agents", "100", code=1, program=few)
    assert found["open files"]["state"] == "bad", found
    assert found["open files"]["found"].startswith("300 at most, "), found
    assert "LimitNOFILE" in found["open files"]["advice"], found
    found = findings(w, "--runs-dir", "/proc/runs", code=1)
    assert found["runs directory"]["state"] == "bad", found
    assert found["runs directory"]["found"].startswith("/proc cannot be written: "), found
    _, err = w.brood("doctor", "--agents", "none", code=2)
    assert "--agents none: expected a whole number" in err, err


def test_the_doctor_tries_an_agent(w):
    """Of a brood whose agent is missing, or is no program."""
    folder = w.path / "bin"
    folder.mkdir()
    shutil.copy(harness.BROOD, folder / "brood")
    for make in (lambda: None, lambda: w.write("bin/brood-agent", "").chmod(0o755)):
        make()
        p = w.start("doctor", program=folder / "brood")
        out = (p.wait(timeout=harness.DEADLINE_S), p.log.with_name(p.log.name + ".out"))
        assert out[0] == 1 and "bad   agent " in out[1].read_text(), out[1].read_text()


def test_patterns_mean_runs(w):
    config = w.small(steps=200)
    for name in ("a-s10", "a-s2", "b"):
        w.brood("run", config, "--name", name)
    w.write("lr.yaml", "base: small.yaml\nsearch: {defaults.discount: [0.9, 0.95]}\n")
    w.brood("sweep", "lr.yaml")

    def listed(*words):
        return [line.get("run", line.get("study"))
                for line in harness.json_lines(w.brood("runs", "--json", *words)[0])]
    assert listed("a-*") == ["a-s2", "a-s10"] and listed("?") == ["b"]
    assert listed("lr/*") == ["2-s1", "1-s1"] and listed("l*") == ["lr"]
    assert listed("b", "lr", "b/") == ["b", "lr", "b"] and listed("lr/1-s1") == ["1-s1"]
    assert re.search(r"^lr/2-s1  done ", w.brood("runs", "*/2*")[0], re.M)
    _, err = w.brood("runs", "x*", code=3)
    assert err == "brood runs: no run in runs matches 'x*'\n", err
    assert "there is no run bb in runs" in w.brood("runs", "bb", code=3)[1]
    out, err = w.brood("report", "a-*", "b", "a-s2")
    assert [line.split()[:2] for line in out.splitlines()[2:]] == [["a", "2"], ["b", "1"]], out
    assert err == "brood report: left out: a-s2: the run is given twice\n", err
    csv = w.brood("report", "lr/*", "--csv")[0]
    assert csv.splitlines()[1].startswith("1-s1,"), csv
    assert "no run in runs matches 'x*'" in w.brood("report", "x*", code=3)[1]


def test_a_state_that_no_run_has_is_refused(w):
    w.brood("run", w.small(steps=200), "--name", "a")
    _, err = w.brood("runs", "--where", "state=foo", code=2)
    assert "--where: state: found 'foo', expected starting, running, paused, " in err, err
    _, err = w.brood("runs", "--where", "state=doen", code=2)
    assert "; did you mean 'done'?; see " in err, err
    assert "\na " in w.brood("runs", "--where", "state=d?ne")[0]
    assert w.brood("runs", "--where", "state=stop*")[0] == ""


def test_the_last_lines_of_logs(w):
    w.brood("run", w.small(steps=200), "--name", "a")
    whole = w.brood("logs", "a")[0].splitlines()
    for words, n in ((["-n", "3"], 3), (["--lines=1"], 1), (["-qn", "0"], 0),
                     (["-n", "100000"], len(whole))):
        assert w.brood("logs", "a", *words)[0].splitlines() == whole[len(whole) - n:], words
    journal = w.brood("logs", "a", "journal", "-n2")[0].splitlines()
    assert len(journal) == 2 and "event=end" in journal[1], journal
    assert len(w.brood("logs", "a", "-fn", "2")[0].splitlines()) == 2
    for words, says in ((["-n"], "a value is missing after -n"), (["-n", "x"], "--lines x: ")):
        assert says in w.brood("logs", *words, code=2)[1], words


def test_the_last_lines_are_read_from_the_end(w):
    """The same lines as of all; a line without a time stands behind the one before it, and what
    cannot be read further up does not matter."""
    w.brood("run", w.small(steps=200), "--name", "a")
    logs = w.runs / "a" / "logs"
    for name, offset in (("x", 0), ("y", 1)):
        with open(logs / f"{name}.log", "w") as f:
            for i in range(3000):
                f.write(f"2999-01-01T00:{i // 60:02}:{i % 60:02}.{offset:03}Z {name} {i}\n")
                if i % 5 == 0 or i == 2999:
                    f.write(f"  and more of {name}\n" * 2)
    (logs / "z.log").write_text("no time at all\n" * 5000)
    whole = w.brood("logs", "a")[0].splitlines()
    for n in (1, 3, 4999, 5000, 5001, 5003, 6000, len(whole) - 1):
        assert w.brood("logs", "a", "-n", n)[0].splitlines() == whole[-n:], n
    (logs / "z.log").unlink()
    for name in "xy":
        text = (logs / f"{name}.log").read_bytes()
        with open(logs / f"{name}.log", "wb") as f:
            f.seek(1 << 30)
            f.write(b"\n" + text)
    out, err = w.brood("logs", "a", "-n", "10")
    assert out.splitlines() == [line for line in whole if line != "z: no time at all"][-10:]
    assert err == "", err
    assert "zeros instead of text from byte 0 on" in w.brood("logs", "a", code=1)[1]


if __name__ == "__main__":
    harness.main()
