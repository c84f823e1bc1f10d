"""What a person does around runs: looks at those that live or are over, and removes them."""
import contextlib
import json
import os
import pathlib
import pty
import re
import signal
import subprocess
import time

import harness
from harness import output
from test_changes import edit, journal
from test_control import AGENT, STATUS
from test_endings import start_run

HOSTILE = harness.BUILD / "tests" / "support" / "hostile_agent"


def status(w, *args, **more):
    return harness.json_lines(w.brood("status", *args, "--json", **more)[0])[0]


def start_saved(w, name, *more):
    """A run whose first checkpoint is on the disk."""
    p = start_run(w, name, *more)
    harness.wait_until("a checkpoint", (w.run_dir(name) / "checkpoints" / "0").exists)
    return p


def interrupt(p):
    harness.kill(p.pid, signal.SIGINT)
    assert p.wait(timeout=harness.DEADLINE_S) == 4, p.log.read_text()


def disk_bytes(folder):
    return int(subprocess.run(["du", "-s", "--block-size=1", folder], check=True,
                              capture_output=True).stdout.split()[0])


# ---- status of what is over ----

def test_status_of_a_run_that_is_done(w):
    w.brood("run", w.small(), "--name", "a")
    s = status(w)
    assert STATUS | {"exit_code", "team_return_mean"} <= s.keys(), s
    assert (s["run"], s["state"], s["exit_code"]) == ("a", "done", 0), s
    assert s["env_steps"] == s["total_steps"] == s["checkpoint_step"] == 2000, s
    assert s["round"] == 500 and s["episodes"] == 80 and s["exact"] is True, s
    assert s["pid"] == s["keeper_pid"] == 0 and s["team_return_mean"] < 0, s
    assert s["elapsed_seconds"] > 0 and s["steps_per_second"] == 0, s
    assert [a["name"] for a in s["agents"]] == ["agent_0", "agent_1", "agent_2"], s
    for agent in s["agents"]:
        assert agent.keys() == AGENT, agent
        assert (agent["state"], agent["pid"], agent["last_exit"]) == ("gone", 0, "code 0")
        assert agent["update"] == 91 and agent["rss_bytes"] == -1, agent
    assert "a: done, step 2,000 of 2,000; exit code 0\n" in w.brood("status", "a")[0]


def test_status_tells_every_end(w):
    p = start_run(w, "stopped")
    harness.kill(harness.agents_of(p.pid)["agent_1"])
    harness.wait_until("a respawn", lambda: journal(w.run_dir("stopped"), "respawn"))
    interrupt(p)
    s = status(w, "stopped")
    assert (s["state"], s["exit_code"]) == ("stopped", 4), s
    assert [a["restarts"] for a in s["agents"]] == [0, 1, 0], s

    p = start_run(w, "cut")
    for pid in harness.agents_of(p.pid).values():
        harness.kill(pid, signal.SIGSTOP)
    harness.kill(p.pid, signal.SIGINT)
    harness.wait_until("the first interrupt noticed",
                       lambda: "interrupt" in p.log.read_text().lower())
    harness.kill(p.pid, signal.SIGTERM)
    p.wait(timeout=harness.DEADLINE_S)
    s = status(w, "cut")
    assert (s["state"], s["exit_code"]) == ("cut off", 128 + signal.SIGTERM), s

    program = w.program_with_agent(HOSTILE)
    (program.parent / "brood-agent.does").write_text("complain-and-die")
    w.brood("run", w.small(), "--name", "failed", program=program, code=1)
    s = status(w, "failed")
    assert (s["state"], s["exit_code"]) == ("failed", 1), s


def test_a_killed_run_is_known_as_one(w):
    p = start_run(w, "supervisor")
    harness.kill_holder(p, w.run_dir("supervisor"))
    s = status(w, "supervisor")
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
    s = status(w, "both")
    assert (s["state"], s["exit_code"]) == ("killed", 137), s
    assert s["checkpoint_step"] == 0 and s["total_steps"] == 10_000_000, s

    # A resume begins anew.
    p = w.start("resume", "both")
    harness.wait_until("it lives", lambda: status(w, "both")["state"] == "running")
    interrupt(p)
    assert status(w, "both")["state"] == "stopped"


def test_a_run_that_does_not_answer_is_told_all_the_same(w):
    p = start_run(w, "a")
    supervisor = harness.supervisor_of(p.pid)
    harness.kill(supervisor, signal.SIGSTOP)
    s = status(w)
    assert s["state"] == "not answering" and s["pid"] == supervisor, s
    assert s["keeper_pid"] == p.pid and s["env_steps"] > 0, s
    runs = harness.json_lines(w.brood("runs", "--json")[0])
    assert runs[0]["state"] == "not answering", runs
    harness.kill(supervisor, signal.SIGCONT)
    harness.wait_until("it answers", lambda: status(w)["state"] == "running")
    interrupt(p)


def test_a_damaged_record_tells_what_it_can(w):
    w.brood("run", w.small(), "--name", "a")
    run = w.run_dir("a")
    for name in ("config.yaml", "metrics/progress.csv"):
        (run / name).write_bytes(b"\xff\x00 nonsense: [")
    s = status(w)
    assert (s["state"], s["env_steps"], s["total_steps"]) == ("done", 2000, 0), s
    (run / "journal").write_bytes(os.urandom(100_000) + b"\n" + b"x" * 10_000_000)
    assert status(w)["state"] == "killed"
    (run / "journal").unlink()
    assert status(w)["state"] == "killed"


# ---- wait ----

def test_wait_ends_with_the_runs_exit_code(w):
    w.brood("wait", code=3)
    p = start_run(w, "stopped")
    waiter = w.start("wait")
    other = w.start("wait", "stopped", "--json")
    quiet = w.start("wait", "stopped", "-q")
    interrupt(p)
    for x in (waiter, other, quiet):
        assert x.wait(timeout=harness.DEADLINE_S) == 4, x.log.read_text()
    assert output(waiter) == "stopped: stopped, exit code 4\n"
    assert json.loads(output(other))["state"] == "stopped" and output(quiet) == ""
    w.brood("wait", "stopped", code=4)  # over already
    p = w.start("run", w.small(), "--name", "done")
    harness.wait_until("it begins", (w.run_dir("done") / "journal").exists)
    w.brood("wait", "done")
    p.wait(timeout=harness.DEADLINE_S)
    w.brood("wait", "nothing", code=3)


def test_wait_notices_whoever_was_killed(w):
    for who in ("supervisor", "keeper", "both"):
        p = start_run(w, who)
        supervisor = harness.supervisor_of(p.pid)
        waiter = w.start("wait", who)
        harness.wait_until("it watches", lambda: pidfds_of(waiter.pid) == 2)
        for pid in {"supervisor": [supervisor], "keeper": [p.pid],
                    "both": [p.pid, supervisor]}[who]:
            harness.kill(pid)
        begin = time.monotonic()
        p.wait()
        assert waiter.wait(timeout=harness.DEADLINE_S) == 137, waiter.log.read_text()
        assert time.monotonic() - begin < 1 * harness.PATIENCE
        assert output(waiter) == f"{who}: killed, exit code 137\n"
        w.brood("wait", who, code=137)


def pidfds_of(pid):
    found = 0
    for entry in os.scandir(f"/proc/{pid}/fd"):
        with contextlib.suppress(OSError):
            found += "pidfd" in os.readlink(entry.path)
    return found


def test_a_run_whose_keeper_goes_on_is_not_over(w):
    p = start_saved(w, "a", "--set", "run.on_supervisor_death=resume")
    waiter = w.start("wait")
    follower = w.start("logs", "journal", "-f")
    for _ in range(3):
        supervisor = harness.supervisor_of(p.pid)
        harness.kill(supervisor)
        harness.wait_until("another one", lambda: harness.supervisor_of(p.pid)
                           not in (None, supervisor) and
                           status(w)["state"] == "running")
    assert waiter.poll() is None and follower.poll() is None
    interrupt(p)
    assert waiter.wait(timeout=harness.DEADLINE_S) == 4
    assert follower.wait(timeout=harness.DEADLINE_S) == 0
    assert output(follower) == (w.run_dir("a") / "journal").read_text()
    assert output(follower).count(" event=supervisor-exit ") == 3


def test_one_of_several_seeds_is_waited_for_alone(w):
    p = w.start("run", w.small(steps=2000), "--name", "a", "--seeds", "1,2",
                "--set", "log.every_env_steps=100")
    harness.wait_until("the first", (w.run_dir("a-s1") / "journal").exists)
    w.brood("wait", "a-s1")
    assert p.poll() is None or p.returncode == 0
    w.brood("logs", "a-s1", "-f")
    assert p.wait(timeout=harness.DEADLINE_S) == 0
    w.brood("wait", "a-s2")


# ---- logs ----

def test_logs_of_a_run_that_is_over(w):
    w.brood("run", w.small(), "--name", "a")
    journal_text = (w.run_dir("a") / "journal").read_text()
    logs = w.run_dir("a") / "logs"
    early = journal_text[:24]
    (logs / "agent_0.log").write_text(f"{early} info agent_0[1]: hello\nmore of it\n")
    (logs / "agent_1.log").write_bytes(b"without a time \xff\nand without an end")
    for name in ("agent_2", "supervisor"):
        (logs / f"{name}.log").write_text("")
    (logs / "no-log").write_text("never shown")
    assert w.brood("logs", "a", "journal")[0] == journal_text
    begin = time.monotonic()
    merged = w.brood("logs", "-f")[0].splitlines()  # it ends all the same
    assert time.monotonic() - begin < 2 * harness.PATIENCE
    lines = journal_text.splitlines()
    at = merged.index(f"agent_0: {early} info agent_0[1]: hello")
    assert merged[at + 1] == "agent_0: more of it" and at <= 2, merged[:5]
    assert merged[-2:] == ["agent_1: without a time \ufffd",
                           "agent_1: and without an end"], merged[-3:]
    assert [line for line in merged if not line.startswith("agent_")] == lines
    assert w.brood("logs", "agent_0")[0].endswith("hello\nmore of it\n")
    assert w.brood("logs", "a", "agent_2", "-f")[0] == ""
    objects = [json.loads(line) for line in w.brood("logs", "--json")[0].splitlines()]
    assert objects[0]["event"] == "start" and objects[0]["env_steps"] == 0, objects[0]
    assert {"log": "agent_0", "text": "more of it"} in objects, objects
    assert objects[-2] == {"log": "agent_1", "text": "without a time \ufffd"}, objects[-2]
    for words in (("a", "agent_9"), ("agent_9",), ("a", "../journal"),
                  ("a", "../logs/agent_0")):
        _, err = w.brood("logs", *words, code=3)
        assert "there are: journal, supervisor, agent_0" in err, err


def test_logs_are_followed(w):
    p = start_run(w, "a")
    run = w.run_dir("a")
    everything = w.start("logs", "-f")
    one = w.start("logs", "a", "agent_1", "-f")
    harness.wait_until("the journal", lambda: (run / "journal").read_text() in
                       output(everything))
    latency = []
    for i in range(20):
        with open(run / "logs" / "agent_1.log", "ab") as f:
            f.write(f"line {i}\n".encode())
        begin = time.monotonic()
        harness.wait_until("the line", lambda: f"line {i}\n" in output(one) and
                           f"agent_1: line {i}\n" in output(everything))
        latency.append(time.monotonic() - begin)
    assert sorted(latency)[10] < 0.05 * harness.PATIENCE, latency
    w.brood("kill", "a", "agent_0")
    harness.wait_until("the kill", lambda: " event=exit agent=agent_0 " in
                       output(everything))
    interrupt(p)
    for x in (everything, one):
        assert x.wait(timeout=harness.DEADLINE_S) == 0, x.log.read_text()
    assert [line for line in output(everything).splitlines()
            if not line.startswith(("agent_", "supervisor"))] == \
        (run / "journal").read_text().splitlines()


def test_followed_files_may_be_absent_and_replaced(w):
    p = start_run(w, "a")
    log = w.run_dir("a") / "logs" / "agent_1.log"
    log.unlink()
    one = w.start("logs", "a", "agent_1", "-f")
    everything = w.start("logs", "a", "-f")
    harness.wait_until("the journal", lambda: "event=start" in output(everything))
    for i, replace in enumerate((lambda: None,  # it comes
                                 lambda: log.rename(log.with_suffix(".1")),
                                 lambda: os.truncate(log, 0), log.unlink)):
        replace()
        line = str(i) + "." * (4 - i)  # ever shorter: the size tells
        with open(log, "ab") as f:
            f.write(f"{line}\n".encode())
        harness.wait_until(f"line {i}", lambda: output(one).endswith(f"{line}\n") and
                           f"agent_1: {line}\n" in output(everything))
    (log.parent / "late.log").write_text("a new one\n")
    harness.wait_until("a new file", lambda: "late: a new one\n" in output(everything))
    assert output(one) == "0....\n1...\n2..\n3.\n"
    interrupt(p)
    assert one.wait(timeout=harness.DEADLINE_S) == 0
    assert everything.wait(timeout=harness.DEADLINE_S) == 0


def test_a_follower_whose_reader_is_gone_ends(w):
    p = start_run(w, "a")
    follower = subprocess.Popen([harness.BROOD, "logs", "-f"], cwd=w.path,
                                stdout=subprocess.PIPE)
    w.started.append(follower)
    follower.log = p.log
    follower.stdout.readline()
    follower.stdout.close()
    follower.wait(timeout=harness.DEADLINE_S)
    interrupt(p)


# ---- run --detach ----

def detach(w, name, *more, steps=10_000_000, **popen):
    """A run that nobody stays in front of: its keeper and supervisor."""
    config = w.small(steps=steps, evaluate=0, checkpoint=5_000_000)
    out, err = w.brood("run", config, "--name", name, "--detach", "--json", *more, **popen)
    start, report = harness.json_lines(out)
    assert err == "" and start["event"] == "start" and start["run"] == name, (out, err)
    assert (report["event"], report["run"]) == ("detached", name), report
    assert report["path"] == str(w.run_dir(name)), report
    return report["keeper_pid"], report["pid"]


def members(keeper):
    """Everything that belongs to a run, by its keeper."""
    found = {keeper}
    while True:
        more = {pid for pid, (_, ppid, _) in harness.processes().items()
                if ppid in found} - found
        if not more:
            return found
        found |= more


def wait_gone(pids):
    harness.wait_until("the end of all", lambda: not any(map(harness.alive, pids)))


def test_a_detached_run_goes_on_by_itself(w):
    keeper, supervisor = detach(w, "a")
    s = status(w)
    assert (s["pid"], s["keeper_pid"]) == (supervisor, keeper), s
    assert s["round"] >= 1 and s["state"] == "running", s
    everyone = members(keeper)
    assert len(everyone) == 6, everyone  # with three agents and the sweeper
    w.brood("stop")
    w.brood("wait", code=4)
    wait_gone(everyone)
    out, err = w.brood("resume", "a", "--detach")
    assert out.startswith("a: under way as pid ") and err == "", (out, err)
    assert status(w)["round"] > s["round"]
    w.brood("stop")
    w.brood("wait", code=4)
    out, err = w.brood("run", w.small(steps=400), "--name", "short", "--detach", "-q")
    assert (out, err) == ("", ""), (out, err)
    w.brood("wait", "short")
    assert not (w.run_dir("short") / "logs" / "supervisor.log").read_text()


def test_what_cannot_be_begun_is_told_at_once(w):
    _, err = w.brood("run", "nowhere.yaml", "--detach", code=2)
    assert "nowhere.yaml" in err and len(err.splitlines()) == 1, err
    w.brood("run", w.small(steps=200), "--name", "a")
    _, err = w.brood("run", w.small(), "--name", "a", "--detach", code=2)
    assert "--force replaces it" in err, err
    program = w.program_with_agent(HOSTILE)
    (program.parent / "brood-agent.does").write_text("complain-and-die")
    before = set(harness.processes())
    out, err = w.brood("run", w.small(), "--name", "b", "--detach", program=program,
                       code=1)
    assert out == "" and "I cannot go on" in err, (out, err)
    left = [p for p, (_, _, line) in harness.processes().items()
            if p not in before and str(w.path) in line]
    assert not left, left
    w.brood("wait", "b", code=1)


def test_an_interrupt_before_the_first_round_is_passed_on(w):
    program = w.program_with_agent(HOSTILE)
    (program.parent / "brood-agent.does").write_text("begin-never")
    p = w.start("run", w.small(), "--name", "a", "--detach", program=program)
    harness.wait_until("the agents", lambda: len(journal(w.run_dir("a"), "spawn")) == 3)
    everyone = members(p.pid)
    interrupt(p)
    assert "interrupted" in p.log.read_text() and output(p) == "", p.log.read_text()
    wait_gone(everyone)
    assert status(w)["state"] == "stopped"


def test_who_waits_may_be_killed(w):
    config = w.small(steps=10_000_000, evaluate=0)
    p = w.start("run", config, "--name", "a", "--detach")
    harness.wait_until("it begins", (w.run_dir("a") / "lock").exists)
    harness.kill(p.pid)
    harness.wait_until("it lives", lambda: status(w)["env_steps"] > 0)
    w.brood("stop")
    w.brood("wait", code=4)


def open_files(pid):
    found = set()
    for entry in os.scandir(f"/proc/{pid}/fd"):
        with contextlib.suppress(OSError):
            found.add(os.readlink(entry.path))
    return found


def has_terminal(pid):
    text = pathlib.Path(f"/proc/{pid}/stat").read_text()
    return int(text[text.rindex(")") + 2:].split()[4]) != 0


def test_nothing_of_the_callers_is_kept(w):
    config = w.small(steps=10_000_000, evaluate=0)
    kept = w.write("kept", "")
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(w.path)
        os.dup2(os.open(kept, os.O_RDWR), 17)
        os.execv(harness.BROOD, ["brood", "run", str(config), "--name", "a", "--detach"])
    said = b""
    while not said.endswith(b"\n"):
        said += os.read(terminal, 4096)
    assert os.waitpid(pid, 0)[1] == 0, said
    assert said.startswith(b"a: under way") and said.count(b"\n") == 1, said
    os.close(terminal)  # hangs up
    s = status(w)
    everyone = members(s["keeper_pid"])
    assert len(everyone) == 6, everyone
    for member in everyone:
        files = open_files(member)
        assert not any("/pts/" in f or f == str(kept) for f in files), (member, files)
        assert not has_terminal(member), member
    harness.wait_until("it goes on", lambda: status(w)["env_steps"] > s["env_steps"] + 200)
    w.brood("stop")
    w.brood("wait", code=4)
    wait_gone(everyone)


def test_an_edit_of_a_detached_run_is_applied_by_a_hang_up(w):
    keeper, supervisor = detach(w, "a")
    run = w.run_dir("a")
    for pid, before, after in ((keeper, "discount: 0.95", "discount: 0.9"),
                               (supervisor, "polyak: 0.01", "polyak: 0.02")):
        edit(run, before, after)
        os.kill(pid, signal.SIGHUP)
        harness.wait_until("the change", lambda: any(
            after.replace(": ", "=") in line for line in journal(run, "changed")))
    at = int(re.search(r" at=(\d+) ", journal(run, "set")[-1]).group(1))
    assert f" step={at} " in journal(run, "changed")[-1], journal(run, "changed")
    edit(run, "copies: 4", "copies: 8")
    os.kill(keeper, signal.SIGHUP)
    refusal = "env.copies cannot change while the run lives"
    harness.wait_until("the refusal", lambda: any(
        refusal in line for line in journal(run, "refused")))
    harness.wait_until("it in the log", lambda: refusal in
                       w.brood("logs", "a", "supervisor")[0])
    assert status(w)["state"] == "running" and len(journal(run, "changed")) == 2
    w.brood("stop")
    w.brood("wait", code=4)


def test_a_detached_run_outlives_its_supervisor(w):
    keeper, supervisor = detach(w, "a", "--set", "run.on_supervisor_death=resume")
    for _ in range(3):
        os.kill(supervisor, signal.SIGKILL)
        supervisor = harness.wait_until("another one", lambda: next(
            (s["pid"] for s in [status_if_there(w)] if s and s["state"] == "running"
             and s["pid"] not in (0, supervisor)), None))
    assert status(w)["keeper_pid"] == keeper
    assert not any(has_terminal(p) for p in members(keeper))
    w.brood("stop")
    w.brood("wait", code=4)


def status_if_there(w):
    """Between two supervisors a run without a checkpoint is begun anew."""
    p = w.start("status", "--json")
    p.wait(timeout=harness.DEADLINE_S)
    return harness.json_lines(output(p))[0] if p.returncode == 0 else None


def test_a_failure_after_the_first_round_is_in_the_log(w):
    keeper, _ = detach(w, "a", "--set", "defaults.restart.max_restarts=0")
    p = w.start("wait", "a")
    while p.poll() is None:
        for pid in harness.agents_of(keeper).values():
            harness.kill(pid)
    assert p.returncode == 1
    log = w.brood("logs", "a", "supervisor")[0]
    assert "SIGKILL" in log and "brood run: agent agent_" in log, log


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
    assert table[2].split()[:5] == ["a", "done", "2,000", "of", "2,000"], table
    interrupt(live)


# ---- rm ----

def test_runs_that_are_over_are_removed(w):
    for name in ("a", "b", "c"):
        w.brood("run", w.small(steps=200), "--name", name)
    live = start_run(w, "live")
    out, err = w.brood("rm", "a", "live", "nowhere", w.runs / "b", code=2)
    assert out == f"a is removed\n{w.runs / 'b'} is removed\n", out
    assert "live: supervisor" in err and "no run nowhere" in err, err
    assert sorted(os.listdir(w.runs)) == ["c", "live"]
    assert status(w, "live")["state"] == "running"
    interrupt(live)
    assert json.loads(w.brood("rm", "live", "--json")[0]) == {"removed": "live"}
    w.brood("rm", code=2)  # what goes must be named
    w.brood("rm", "a", code=3)
    assert os.listdir(w.runs) == ["c"]


def test_a_removal_that_was_cut_off_is_finished_by_the_next(w):
    for name in ("a", "b"):
        w.brood("run", w.small(steps=200), "--name", name)
    # As rm leaves it at its first, any later, and its last step.
    (w.runs / "a").rename(w.runs / ".rm-a-1")
    (w.runs / ".rm-c-2" / "checkpoints" / "0").mkdir(parents=True)
    (w.runs / ".rm-c-2" / "lock").write_text("1\n")
    (w.runs / ".rm-d-3").mkdir()
    assert [r["run"] for r in harness.json_lines(w.brood("runs", "--json")[0])] == ["b"]
    w.brood("rm", "nothing", code=3)
    assert os.listdir(w.runs) == ["b"]


def test_a_removal_under_way_is_left_alone(w):
    p = start_run(w, "a")  # who holds the lock, holds the folder
    (w.runs / "a").rename(w.runs / ".rm-a-1")
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


if __name__ == "__main__":
    harness.main()
