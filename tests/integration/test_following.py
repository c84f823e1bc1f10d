"""Commands that wait for a run's end or follow its logs, whichever process is killed."""
import contextlib
import json
import os
import subprocess
import time

import harness
from harness import output
from test_changes import journal
from test_endings import start_run
from test_lifecycle import interrupt, start_saved


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
        assert time.monotonic() - begin < harness.allowed_s(1)
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
                           w.status()["state"] == "running")
    assert waiter.poll() is None and follower.poll() is None
    interrupt(p)
    assert waiter.wait(timeout=harness.DEADLINE_S) == 4
    assert follower.wait(timeout=harness.DEADLINE_S) == 0
    assert output(follower) == (w.run_dir("a") / "journal").read_text()
    assert output(follower).count(" event=supervisor-exit ") == 3


def test_a_supervisor_killed_at_its_first_checkpoint_is_resumed(w):
    """Even if its keeper does not know of the checkpoint yet: nothing that is on the disk is
    discarded, the journal included."""
    for i in range(4):
        config = w.small(steps=harness.FOREVER, checkpoint=harness.FOREVER)
        p = w.start("run", config, "--name", f"first-{i}", "--set",
                    "run.on_supervisor_death=resume")
        run = w.run_dir(f"first-{i}")
        watch = harness.Stopwatch()
        while not (run / "checkpoints" / "0").exists():  # does not sleep, to be in time
            assert watch.seconds() < harness.DEADLINE_S, p.log.read_text()
        supervisor = harness.holder_of(run)
        harness.kill(supervisor)
        harness.wait_until("a resume", lambda: journal(run, "resume"))
        assert f"pid={supervisor} signal=SIGKILL" in (run / "journal").read_text()
        interrupt(p)


def test_each_of_several_seeds_goes_until_the_step(w):
    """One that is stopped before it ends the series."""
    file = w.small(steps=2000, checkpoint=400)
    for name, *how in (("in-turn",), ("at-once", "--jobs", "2")):
        w.brood("run", file, "--name", name, "--seeds", "1,2,3", "--until", "400", *how, code=4)
        assert [w.status(f"{name}-s{i}")["env_steps"] for i in (1, 2, 3)] == [400] * 3
    w.small(steps=harness.FOREVER)
    p = w.start("run", file, "--name", "cut", "--seeds", "1,2", "--until", harness.FOREVER - 4)
    harness.wait_until("a round", lambda: harness.rows(w.run_dir("cut-s1")))
    w.brood("stop", "cut-s1")
    assert p.wait(harness.DEADLINE_S) == 4 and not w.run_dir("cut-s2").exists()


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
    assert time.monotonic() - begin < harness.allowed_s(2)
    lines = journal_text.splitlines()
    at = merged.index(f"agent_0: {early} info agent_0[1]: hello")
    assert merged[at + 1] == "agent_0: more of it" and at <= 2, merged[:5]
    assert merged[-2:] == ["agent_1: without a time \\xff",
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


def test_the_journal_tells_what_happened(w):
    """Events are in order; in JSON, numbers are numbers and names are strings."""
    p = start_run(w, "a")
    old = harness.agents_of(p.pid)["agent_1"]
    harness.kill(old)
    harness.wait_until("a new one", lambda: len(journal(w.run_dir("a"), "ready")) == 4)
    for words in (["pause"], ["continue"], ["checkpoint"],
                  ["set", "defaults.discount=0.9", "defaults.optimizer.beta1=0.5"]):
        w.brood(*words)
    harness.wait_until("the change", lambda: journal(w.run_dir("a"), "changed"))
    interrupt(p)
    events = harness.json_lines(w.brood("logs", "journal", "--json")[0])

    def of(agent):
        return [e["event"] for e in events if e.get("agent") == agent]
    begin = ["spawn", "hello", "ready"]
    assert of("agent_0") == begin + ["exit"], of("agent_0")
    assert of("agent_1") == begin + ["exit", "respawn", "hello", "ready", "exit"], events
    run = [e for e in events if "agent" not in e]
    names = [e["event"] for e in run]
    assert [n for n in names if n != "checkpoint"] == [
        "start", "pause", "continue", "waits", "set", "changed", "signal", "stop",
        "stopped", "end"] and names.count("checkpoint") >= 2, names
    at = {e["event"]: e for e in run}
    assert at["pause"]["env_steps"] == at["continue"]["env_steps"] > 0, at
    assert at["set"]["at"] == at["changed"]["env_steps"], at
    assert at["set"]["changes"] == {"defaults.discount": 0.9}, at
    assert at["waits"]["changes"] == {"defaults.optimizer.beta1": 0.5}, at
    assert at["start"]["keeper"] == p.pid and isinstance(at["start"]["build"], str), at
    assert [e["pid"] for e in events if e["event"] == "exit"][0] == old, events
    assert at["end"]["code"] == 4 and at["end"]["restarts"] == 1, at
    assert isinstance(at["end"]["seconds"], float) and at["end"]["return"] < 0, at


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
    assert sorted(latency)[10] < harness.allowed_s(0.05), latency
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


if __name__ == "__main__":
    harness.main()
