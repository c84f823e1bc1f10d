"""What a user sees of live and finished runs, and how runs are removed."""
import json
import os
import signal
import subprocess
import time

import harness
from test_changes import journal
from test_control import AGENT, STATUS
from test_endings import start_run

HOSTILE = harness.BUILD / "tests" / "support" / "hostile_agent"


def start_saved(w, name, *more):
    """Start a run and wait until its first checkpoint is on the disk."""
    p = start_run(w, name, *more)
    harness.wait_until("a checkpoint", (w.run_dir(name) / "checkpoints" / "0").exists)
    return p


def interrupt(p):
    harness.kill(p.pid, signal.SIGINT)
    assert p.wait(timeout=harness.DEADLINE_S) == 4, p.log.read_text()


def disk_bytes(folder):
    return int(subprocess.run(["du", "-s", "--block-size=1", folder], check=True,
                              capture_output=True).stdout.split()[0])


# ---- status of finished runs ----

def test_status_of_a_run_that_is_done(w):
    w.brood("run", w.small(), "--name", "a")
    s = w.status()
    assert STATUS | {"exit_code", "team_return_mean"} <= s.keys(), s
    assert (s["run"], s["state"], s["exit_code"]) == ("a", "done", 0), s
    assert s["env_steps"] == s["total_steps"] == s["checkpoint_step"] == 2000, s
    assert s["round"] == 500 and s["episodes"] == 80 and s["exact"] is True, s
    assert s["pid"] == s["keeper_pid"] == 0 and s["team_return_mean"] < 0, s
    assert s["elapsed_seconds"] > 0 and s["steps_per_second"] == 0, s
    assert [a["name"] for a in s["agents"]] == ["agent_0", "agent_1", "agent_2"], s
    for agent in s["agents"]:
        assert agent.keys() == AGENT, agent
        assert (agent["state"], agent["pid"]) == ("gone", 0), agent
        # The search for leaks at the end may take longer than a run waits for its agents.
        assert agent["last_exit"] == "code 0" or (
            harness.SANITIZED and agent["last_exit"] in ("SIGTERM", "SIGKILL")), agent
        assert agent["update"] == 91 and agent["rss_bytes"] == -1, agent
    assert "a: done, step 2,000 of 2,000; exit code 0\n" in w.brood("status", "a")[0]


def test_a_resume_counts_on(w):
    """Time and restarts of all supervisors, beside those of the newest."""
    p, run = start_saved(w, "long"), w.run_dir("long")
    harness.kill(harness.agents_of(p.pid)["agent_1"])
    harness.wait_until("a respawn", lambda: journal(run, "respawn"))
    assert w.status("long")["total_restarts"] == 1
    interrupt(p)
    before = w.status("long")
    assert before["total_restarts"] == 1, before
    assert before["total_seconds"] == before["elapsed_seconds"] > 0, before
    assert "1 restart;" in p.log.read_text(), p.log.read_text()
    steps = before["env_steps"] + 2000
    out, err = w.brood("resume", "long", "--json", "--set", f"run.env_steps={steps}")
    end, after = harness.json_lines(out)[-1], w.status("long")
    assert (end["restarts"], end["total_restarts"]) == (0, 1), end
    assert "1 restart;" in err, err
    assert after["total_restarts"] == 1, after
    for now, total in ((end["wall_seconds"], end["total_seconds"]),
                       (after["elapsed_seconds"], after["total_seconds"])):
        assert abs(now + before["total_seconds"] - total) < 0.01, (before, end, after)
    out, _ = w.brood("resume", "long", "--json")  # it is done already
    assert abs(harness.json_lines(out)[-1]["total_seconds"] - end["total_seconds"]) < 0.01, out


def test_status_tells_every_end(w):
    p = start_run(w, "stopped")
    harness.kill(harness.agents_of(p.pid)["agent_1"])
    harness.wait_until("a respawn", lambda: journal(w.run_dir("stopped"), "respawn"))
    interrupt(p)
    s = w.status("stopped")
    assert (s["state"], s["exit_code"]) == ("stopped", 4), s
    assert [a["restarts"] for a in s["agents"]] == [0, 1, 0], s
    assert not any(" lines=" in line for line in journal(w.run_dir("stopped"), "exit"))

    p = start_run(w, "cut")
    for pid in harness.agents_of(p.pid).values():
        harness.kill(pid, signal.SIGSTOP)
    harness.kill(p.pid, signal.SIGINT)
    harness.wait_until("the first interrupt noticed",
                       lambda: "interrupt" in p.log.read_text().lower())
    harness.kill(p.pid, signal.SIGTERM)
    p.wait(timeout=harness.DEADLINE_S)
    s = w.status("cut")
    assert (s["state"], s["exit_code"]) == ("cut off", 128 + signal.SIGTERM), s

    program = w.program_with_agent(HOSTILE)
    (program.parent / "brood-agent.does").write_text("complain-and-die")
    w.brood("run", w.small(), "--name", "failed", program=program, code=1)
    s = w.status("failed")
    assert (s["state"], s["exit_code"]) == ("failed", 1), s
    last_words = [line for line in journal(w.run_dir("failed"), "exit")
                  if ' lines="' in line and "I cannot go on" in line]
    assert last_words and "out of luck" in last_words[0], journal(w.run_dir("failed"), "exit")


def test_a_killed_run_is_known_as_one(w):
    p = start_run(w, "supervisor")
    harness.kill_holder(p, w.run_dir("supervisor"))
    s = w.status("supervisor")
    assert (s["state"], s["exit_code"], s["pid"]) == ("killed", 137, 0), s
    # Its rows of progress are known, though no line of the journal came after them.
    assert s["env_steps"] >= 400 and s["episodes"] > 0 and s["round"] is None, s
    assert " signal=SIGKILL" in journal(w.run_dir("supervisor"), "end")[0]

    p = start_saved(w, "both")
    supervisor = harness.supervisor_of(p.pid)
    agents = harness.agents_of(p.pid)
    harness.kill(p.pid)
    harness.kill(supervisor)
    p.wait()
    w.brood("wait", "both", code=137)
    harness.wait_until("the end of all", lambda: not any(map(harness.alive,
                                                             agents.values())))
    assert not journal(w.run_dir("both"), "end")
    s = w.status("both")
    assert (s["state"], s["exit_code"]) == ("killed", 137), s
    assert s["checkpoint_step"] == 0 and s["total_steps"] == 10_000_000, s

    # The run can be resumed.
    p = w.start("resume", "both")
    harness.wait_until("it lives", lambda: w.status("both")["state"] == "running")
    interrupt(p)
    assert w.status("both")["state"] == "stopped"


def test_a_run_that_does_not_answer_is_told_all_the_same(w):
    p = start_run(w, "a")
    supervisor = harness.supervisor_of(p.pid)
    harness.kill(supervisor, signal.SIGSTOP)
    harness.wait_until("the stop", lambda: harness.look_at(supervisor)[0] == "T")
    s = w.status(hangs=True)
    assert s["state"] == "suspended" and s["pid"] == supervisor, s
    assert s["keeper_pid"] == p.pid and s["env_steps"] > 0, s
    runs = harness.json_lines(w.brood("runs", "--json")[0])
    assert runs[0]["state"] == "suspended", runs
    assert "a: suspended, step " in w.brood("status", "a")[0]
    assert "\na    suspended " in w.brood("runs", "--where", "state=suspended")[0]
    harness.kill(supervisor, signal.SIGCONT)
    harness.wait_until("it answers", lambda: w.status()["state"] == "running")
    interrupt(p)


def test_a_damaged_record_tells_what_it_can(w):
    w.brood("run", w.small(), "--name", "a")
    run = w.run_dir("a")
    for name in ("config.yaml", "metrics/progress.csv"):
        (run / name).write_bytes(b"\xff\x00 nonsense: [")
    s = w.status()
    assert (s["state"], s["env_steps"], s["total_steps"]) == ("done", 2000, 0), s
    (run / "journal").write_bytes(os.urandom(100_000) + b"\n" + b"x" * 10_000_000)
    assert w.status()["state"] == "killed"
    (run / "journal").unlink()
    assert w.status()["state"] == "killed"


def test_status_of_a_live_run_feels_immediate(w):
    """The best of several tries while the run trains, because the machine may be busy."""
    p = start_run(w, "a")
    took = []
    for _ in range(10):
        begin = time.monotonic()
        asker = w.start("status")
        os.waitid(os.P_PID, asker.pid, os.WEXITED | os.WNOWAIT)
        took.append(time.monotonic() - begin)
        assert asker.wait() == 0
    print(f"# status: {min(took) * 1000:.1f} to {max(took) * 1000:.1f} ms")
    assert min(took) < harness.allowed_s(0.1), took
    interrupt(p)


# ---- runs ----

def test_runs_are_listed_with_the_newest_first(w):
    assert w.brood("runs") == ("", "")
    for name in ("b", "a"):
        w.brood("run", w.small(), "--name", name)
    (w.runs / "no-run").mkdir()
    live = start_run(w, "c")
    runs = harness.json_lines(w.brood("runs", "--json")[0])
    assert [r["run"] for r in runs] == ["c", "a", "b"], runs
    assert [r["state"] for r in runs] == ["running", "done", "done"], runs
    assert runs[0]["exit_code"] is None and runs[0]["pid"] > 0, runs
    assert runs[1]["exit_code"] == 0 and runs[1]["team_return_mean"] < 0, runs
    for r in runs[1:]:
        assert r["disk_bytes"] == disk_bytes(w.runs / r["run"]), r
        assert r["began"].startswith("20") and r["path"] == f"runs/{r['run']}", r
    table = w.brood("runs")[0].splitlines()
    assert table[0].split()[:3] == ["run", "state", "steps"] and len(table) == 4, table
    assert table[2].split()[:5] == ["a", "done", "2,000", "100", "%"], table
    (w.run_dir("b")).rename(w.run_dir("simple_spread_masac-12"))
    table = w.brood("runs")[0].splitlines()
    assert len({len(line) for line in table[1:]}) == 1 and len(table[1]) <= 80, table
    interrupt(live)


def test_the_newest_run_of_a_configuration_is_found_by_its_name(w):
    for _ in range(2):
        w.brood("run", w.small(steps=200))
    w.brood("run", w.small(steps=200), "--name", "small-x")
    assert sorted(os.listdir(w.runs)) == ["small-1", "small-2", "small-x"]
    for words in (("eval", "small", "--episodes", "2"), ("status", "small"),
                  ("report", "small")):
        out, _ = w.brood(*words)
        assert "small-2" in out and "small-1" not in out, (words, out)
    w.brood("resume", "small", "--set", "run.env_steps=300")
    _, err = w.brood("rm", "small", code=3)
    assert err == "brood rm: there is no run small; the newest of that name is small-2\n", err
    w.brood("run", w.small(steps=200), "--name", "small")
    assert "small at step 200" in w.brood("eval", "small", "--episodes", "2")[0]


# ---- rm ----

def test_runs_that_are_over_are_removed(w):
    for name in ("a", "b", "c"):
        w.brood("run", w.small(steps=200), "--name", name)
    live = start_run(w, "live")
    out, err = w.brood("rm", "a", "live", "nowhere", w.runs / "b", code=2)
    assert out == f"a was removed\n{w.runs / 'b'} was removed\n", out
    assert "live: supervisor" in err and "no run nowhere" in err, err
    assert sorted(os.listdir(w.runs)) == ["c", "live"]
    assert w.status("live")["state"] == "running"
    interrupt(live)
    assert json.loads(w.brood("rm", "live", "--json")[0]) == {"removed": "live"}
    w.brood("rm", code=2)  # what goes must be named
    w.brood("rm", "a", code=3)
    assert os.listdir(w.runs) == ["c"]


def test_a_run_whose_job_nobody_knows_is_kept(w):
    """Its job may wait in a queue whose controller is down, and would begin it again."""
    w.brood("run", w.small(steps=200), "--name", "a")
    job = w.runs / ".jobs" / "a"
    job.mkdir(parents=True)
    (job / "job").write_text("12\n")
    programs = w.path / "bin"
    programs.mkdir()
    squeue = programs / "squeue"
    says = "#!/bin/sh\necho slurm_load_jobs error: %s >&2\nexit 1\n"
    squeue.write_text(says % "no answer")
    squeue.chmod(0o755)
    path = {"PATH": f"{programs}:{os.environ['PATH']}"}
    _, err = w.brood("rm", "a", code=2, env=path)
    assert "Slurm job 12 is over (" in err and "no answer" in err and str(job) in err, err
    assert len(err.splitlines()) == 1 and (w.runs / "a").exists()
    assert "no answer" in w.brood("status", "a", "--json", env=path)[0]
    squeue.write_text(says % "Invalid job id specified")
    w.brood("rm", "a", env=path)
    assert not job.exists() and not (w.runs / "a").exists()


def test_a_removal_that_was_cut_off_is_finished_by_the_next(w):
    for name in ("a", "b"):
        w.brood("run", w.small(steps=200), "--name", name)
    # As rm leaves it at its first, any later, and its last two steps.
    (w.runs / "a").rename(w.runs / ".rm-a-1")
    (w.runs / ".rm-c-2" / "checkpoints" / "0").mkdir(parents=True)
    (w.runs / ".rm-c-2" / "lock").write_text("1\n")
    for left in (".rm-a-1", ".rm-c-2"):
        (w.runs / left / "unwanted").symlink_to(left)
    (w.runs / ".rm-d-3").mkdir()
    (w.runs / ".rm-e-4").mkdir()
    (w.runs / ".rm-e-4" / "lock").write_text("1\n")
    assert [r["run"] for r in harness.json_lines(w.brood("runs", "--json")[0])] == ["b"]
    w.brood("rm", "nothing", code=3)
    assert os.listdir(w.runs) == ["b"]


def test_what_a_removal_has_left_in_a_study_goes_with_its_next_run(w):
    w.brood("run", w.small(steps=200), "--name", "1-s1", "--runs-dir", w.runs / "study")
    left = w.runs / "study" / ".rm-2-s1-9"
    (left / "logs").mkdir(parents=True)
    (left / "lock").write_text("1\n")
    (left / "unwanted").symlink_to(left.name)
    w.brood("rm", "study/1-s1")
    assert os.listdir(w.runs / "study") == []


def test_a_removal_under_way_is_left_alone(w):
    p = start_run(w, "a")  # who holds the lock, holds the folder
    (w.runs / "a").rename(w.runs / ".rm-a-1")
    (w.runs / ".rm-a-1" / "unwanted").symlink_to(".rm-a-1")
    w.brood("run", w.small(steps=200), "--name", "b")
    w.brood("rm", "b")
    assert os.listdir(w.runs) == [".rm-a-1"]
    harness.kill(p.pid)
    p.wait()


def test_only_runs_are_removed(w):
    w.brood("run", w.small(steps=200), "--name", "a")
    kept = w.path / "kept"
    kept.mkdir()
    (kept / "thesis.tex").write_text("x")
    (w.runs / "a" / "logs" / "link").symlink_to(kept)
    (w.runs / "link").symlink_to("a")
    w.brood("rm", kept, code=3)
    _, err = w.brood("rm", "link", code=2)
    assert "is a link" in err, err
    w.brood("rm", "a")
    assert (kept / "thesis.tex").read_text() == "x"


# ---- names that others chose ----

def test_names_cannot_write_other_lines(w):
    """A folder's name, a log's, a column's and an agent's in a journal, chosen to look like
    another line or to turn one round; --json has them as they are."""
    w.brood("run", w.small(steps=200, evaluate=100, checkpoint=100), "--name", "a")
    evil = "x\ndone\x1b]0;title\x07\u202etxt\u2066\u2028"
    run = w.runs / evil
    (w.runs / "a").rename(run)
    (run / "logs" / f"{evil}.log").write_text("text\n")
    csv = (run / "metrics" / "progress.csv").read_text()
    name = next(n for n in csv.split("\n")[0].split(",") if n.startswith("eval/team_return/"))
    (run / "metrics" / "progress.csv").write_text(csv.replace(name, name + "\u202e"))
    with open(run / "journal", "a") as f:
        f.write('2026-01-01T00:00:00.000Z step=1 event=respawn agent="x\\ndone" pid=7\n')
    shown = r"x\x0adone\x1b]0;title\x07\xe2\x80\xaetxt\xe2\x81\xa6\xe2\x80\xa8"
    for command in (("runs",), ("status", run), ("status",), ("logs",), ("tag", run, "y"),
                    ("wait", run), ("prune", run, "--dry-run"), ("report", run),
                    ("complete", "--", "brood", "status", ""), ("rm", "none"),
                    ("status", "no\nrun\u202e"), ("eval", run, "--episodes", "1")):
        code = 3 if command[1:] in (("none",), ("no\nrun\u202e",)) else 0
        out, err = w.brood(*command, code=code)
        lines = (out + err).split("\n")
        assert not [line for line in lines if line.startswith("done")], (command, out, err)
        assert not [c for c in out + err if c in "\x1b\x07\u202e\u2066\u2028"], (command, out, err)
        assert command[0] not in ("runs", "status", "tag", "wait", "prune") or code != 0 or \
            shown in out, (command, out)
    for command in (("runs",), ("status", run), ("tag", run), ("prune", run, "--dry-run"),
                    ("wait", run)):
        out, _ = w.brood(*command, "--json")
        assert json.loads(out)["run"] == evil, (command, out)
    for line in w.brood("logs", run, "--json")[0].splitlines():
        json.loads(line)


if __name__ == "__main__":
    harness.main()
