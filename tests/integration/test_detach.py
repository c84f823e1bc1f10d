"""Runs in the background: `run --detach`, and `attach`."""
import contextlib
import json
import os
import pathlib
import pty
import re
import signal

import harness
from harness import output
from test_changes import edit, journal
from test_control import AGENT
from test_lifecycle import HOSTILE, interrupt
from test_live_view import Terminal, measured


def detach(w, name, *more, steps=10_000_000, **popen):
    """Start a detached run: its keeper and supervisor."""
    config = w.small(steps=steps, evaluate=0, checkpoint=5_000_000)
    out, err = w.brood("run", config, "--name", name, "--detach", "--json", *more, **popen)
    start, report = harness.json_lines(out)
    # The log of so long a run may not fit onto the disk, which is warned of.
    assert all("warning: experience.capacity" in line for line in err.splitlines()), err
    assert start["event"] == "start" and start["run"] == name, (out, err)
    assert (report["event"], report["run"]) == ("detached", name), report
    assert report["path"] == str(w.run_dir(name)), report
    return report["keeper_pid"], report["pid"]


def wait_gone(pids):
    harness.wait_until("the end of all", lambda: not any(map(harness.alive, pids)))


def stop(w):
    w.brood("stop")
    w.brood("wait", code=4)


def test_a_detached_run_goes_on_by_itself(w):
    keeper, supervisor = detach(w, "a")
    s = w.status()
    assert (s["pid"], s["keeper_pid"]) == (supervisor, keeper), s
    assert s["round"] >= 1 and s["state"] == "running", s
    everyone = harness.members(keeper)
    assert len(everyone) == 6, everyone  # with three agents and the sweeper
    stop(w)
    wait_gone(everyone)
    out, err = w.brood("resume", "a", "--detach")
    assert out.startswith("a: running as pid ") and err == "", (out, err)
    assert w.status()["round"] > s["round"]
    stop(w)
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
    harness.wait_until("the end of all of it", lambda: not [
        p for p, (_, _, line) in harness.processes().items()
        if p not in before and str(w.path) in line])
    w.brood("wait", "b", code=1)


def test_an_interrupt_before_the_first_round_is_passed_on(w):
    program = w.program_with_agent(HOSTILE)
    (program.parent / "brood-agent.does").write_text("begin-no-run")
    p = w.start("run", w.small(), "--name", "a", "--detach", program=program)
    harness.wait_until("the agents", lambda: len(journal(w.run_dir("a"), "spawn")) == 3)
    everyone = harness.members(p.pid)
    interrupt(p)
    assert "interrupted" in p.log.read_text() and output(p) == "", p.log.read_text()
    wait_gone(everyone)
    assert w.status()["state"] == "stopped"


def test_who_waits_may_be_killed(w):
    config = w.small(steps=10_000_000, evaluate=0)
    p = w.start("run", config, "--name", "a", "--detach")
    harness.wait_until("it begins", (w.run_dir("a") / "lock").exists)
    harness.kill(p.pid)
    harness.wait_until("it lives", lambda: (status_if_there(w) or {}).get("env_steps"))
    stop(w)


def open_files(pid):
    found = set()
    for entry in os.scandir(f"/proc/{pid}/fd"):
        with contextlib.suppress(OSError):
            found.add(os.readlink(entry.path))
    return found


def has_terminal(pid):
    try:
        text = pathlib.Path(f"/proc/{pid}/stat").read_text()
    except OSError:  # it is gone: an agent of the supervisor that was killed
        return False
    return int(text[text.rindex(")") + 2:].split()[4]) != 0


def test_nothing_of_the_callers_is_kept(w):
    config = w.small(steps=10_000_000, evaluate=0)
    kept = w.write("kept", "")
    pid, terminal = pty.fork()
    if pid == 0:
        harness.fork_from_leader()
        os.chdir(w.path)
        os.dup2(os.open(kept, os.O_RDWR), 17)
        os.environ.update(harness.VISIBLE)
        os.execv(harness.BROOD, ["brood", "run", str(config), "--name", "a", "--detach"])
    said = b""
    while not said.endswith(b"\n"):
        said += os.read(terminal, 4096)
    assert os.waitpid(pid, 0)[1] == 0, said
    assert said.startswith(b"a: running as pid ") and said.count(b"\n") == 1, said
    os.close(terminal)  # hangs up
    s = w.status()
    everyone = harness.members(s["keeper_pid"])
    assert len(everyone) == 6, everyone
    for member in everyone:
        files = open_files(member)
        assert not any("/pts/" in f or f == str(kept) for f in files), (member, files)
        assert not has_terminal(member), member
    harness.wait_until("it goes on", lambda: w.status()["env_steps"] > s["env_steps"] + 200)
    stop(w)
    wait_gone(everyone)


def test_an_edit_of_a_detached_run_is_applied_by_a_hang_up(w):
    keeper, supervisor = detach(w, "a")
    run = w.run_dir("a")
    for pid, before, after in ((keeper, "discount: 0.95", "discount: 0.9"),
                               (supervisor, "polyak: 0.01", "polyak: 0.02")):
        edit(run, before, after)
        harness.signal_process(pid, signal.SIGHUP)
        harness.wait_until("the change", lambda: any(
            after.replace(": ", "=") in line for line in journal(run, "changed")))
    at = int(re.search(r" at=(\d+) ", journal(run, "set")[-1]).group(1))
    assert f" step={at} " in journal(run, "changed")[-1], journal(run, "changed")
    edit(run, "copies: 4", "copies: 8")
    harness.signal_process(keeper, signal.SIGHUP)
    refusal = "env.copies cannot change while the run lives"
    harness.wait_until("the refusal", lambda: any(
        refusal in line for line in journal(run, "refused")))
    harness.wait_until("it in the log", lambda: refusal in
                       w.brood("logs", "a", "supervisor")[0])
    assert w.status()["state"] == "running" and len(journal(run, "changed")) == 2
    edit(run, "copies: 8", "copies: 4")
    end = harness.pause(w, "a") + 40
    edit(run, "env_steps: 10000000", f"env_steps: {end}")
    harness.signal_process(keeper, signal.SIGHUP)
    harness.wait_until("the new length", lambda: any(
        f"run.env_steps={end}" in line for line in journal(run, "set")))
    w.brood("continue", "a")
    w.brood("wait", "a")
    assert harness.checkpoints(run)[-1] == end


def test_a_detached_run_outlives_its_supervisor(w):
    keeper, supervisor = detach(w, "a", "--set", "run.on_supervisor_death=resume")
    for _ in range(3):
        harness.signal_process(supervisor, signal.SIGKILL)
        supervisor = harness.wait_until("another one", lambda: next(
            (s["pid"] for s in [status_if_there(w)] if s and s["state"] == "running"
             and s["pid"] not in (0, supervisor)), None))
    assert w.status()["keeper_pid"] == keeper
    assert not any(has_terminal(p) for p in harness.members(keeper))
    stop(w)


def status_if_there(w):
    """The status; None while there is none yet, or a run without a checkpoint is restarted."""
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


# ---- attach ----

def test_attach_shows_a_run_that_goes_on_elsewhere(w):
    keeper, _ = detach(w, "a")
    t = Terminal(w, "attach", "a")
    harness.wait_until("the view", lambda: "agent_2" in t.text())
    harness.kill(harness.agents_of(keeper)["agent_1"])
    harness.wait_until("word of it", lambda: "was respawned" in t.text())
    # An agent's return is known once an episode has ended, its memory once it was measured.
    harness.wait_until("every agent's return and memory", lambda: [
        words[4] != "-" for words in measured(t.text())] == [True] * 3)
    w.brood("stop")
    lines, wrapped = t.end(4)
    assert not wrapped, wrapped
    assert re.search(r"\x1b\[\d+A", t.text()), "it was never drawn over"
    heads = [i for i, line in enumerate(lines) if line.split()[:2] == ["agent", "pid"]]
    assert len(heads) == 1 and "of 10,000,000 steps" in lines[heads[0] - 1], lines
    for i in range(3):
        words = lines[heads[0] + 1 + i].split()
        assert words[0] == f"agent_{i}" and words[1].isdigit(), lines
        assert int(words[3]) == (1 if i == 1 else 0), lines
        assert float(words[4]) < 0 and words[8] == "MB", lines
    assert any(re.match(r"a: stopped after [\d,]+ steps in \d:\d\d, return -", line)
               for line in lines), lines


def test_an_interrupt_of_attach_leaves_the_run_alone(w):
    w.brood("attach", code=3)
    detach(w, "a")
    p = w.start("attach")
    harness.wait_until("a line of progress", lambda: " of 10,000,000 steps" in
                       p.log.read_text())
    harness.kill(p.pid, signal.SIGINT)
    assert p.wait(timeout=harness.DEADLINE_S) == 0
    assert p.log.read_text().endswith("a continues\n"), p.log.read_text()
    assert w.status()["state"] == "running"
    stop(w)
    _, err = w.brood("attach", "a", code=3)
    assert err == ("brood attach: runs/a is not running; it is over (stopped): "
                   "`brood resume a` goes on\n"), err


def test_attach_ends_with_the_run_and_tells_programs(w):
    detach(w, "a", "--set", "log.every_env_steps=500", steps=harness.FOREVER)
    p = w.start("attach", "--json")
    harness.wait_until("a row", lambda: '"event": "row"' in output(p) or
                       p.poll() is not None)
    steps = harness.set_last_step(w, "a", 500)
    assert p.wait(timeout=harness.DEADLINE_S) == 0, p.log.read_text()
    events = [json.loads(line) for line in output(p).splitlines()]
    assert events[0]["event"] == "attached" and events[0]["run"] == "a", events[0]
    assert AGENT == events[0]["agents"][0].keys(), events[0]
    assert (events[-1]["event"], events[-1]["state"]) == ("over", "done"), events[-1]
    assert events[-1]["exit_code"] == 0 and events[-1]["env_steps"] == steps, events[-1]
    rows = [e for e in events if e["event"] == "row"]
    assert rows[-1]["env_steps"] == steps and rows[-1]["episodes"] == steps / 25, rows[-1]
    assert "train/agent_1/critic_loss" in rows[-1], rows[-1]
    assert any(e["event"] == "done" and e["env_steps"] == steps for e in events), events


def test_attach_goes_on_with_the_next_supervisor(w):
    _, supervisor = detach(w, "a", "--set", "run.on_supervisor_death=resume")
    p = w.start("attach")
    t = Terminal(w, "attach", "a", env={"TERM": "dumb"})
    for x in (lambda: p.log.read_text(), t.text):
        harness.wait_until("a line of progress", lambda: " steps" in x())
    harness.signal_process(supervisor, signal.SIGKILL)
    for x in (lambda: p.log.read_text(), t.text):
        harness.wait_until("the next one", lambda: "another supervisor continues a" in x())
    assert p.poll() is None
    stop(w)
    assert p.wait(timeout=harness.DEADLINE_S) == 4, p.log.read_text()
    t.end(4)


def test_attach_tells_of_a_run_that_hangs(w):
    _, supervisor = detach(w, "a")
    p = w.start("attach")
    harness.wait_until("a line of progress", lambda: " steps" in p.log.read_text())
    harness.signal_process(supervisor, signal.SIGSTOP)
    harness.wait_until("word of it", lambda: "a does not answer" in p.log.read_text())
    harness.signal_process(supervisor, signal.SIGKILL)
    assert p.wait(timeout=harness.DEADLINE_S) == 137, p.log.read_text()
    assert "a: killed after " in p.log.read_text(), p.log.read_text()


if __name__ == "__main__":
    harness.main()
