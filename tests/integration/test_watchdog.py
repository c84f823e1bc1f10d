"""A supervisor that is stopped or hangs: the keeper notices, everybody is told since when and
why, and with run.watchdog it is ended as if it had died."""
import fcntl
import os
import signal

import harness
from test_changes import journal
from test_exactness import outcome
from test_failing_environment import fields
from test_give_up import done, wait_for

EVERY = 400


def start(w, name, *more, **how):
    p = w.start("run", w.small(steps=harness.FOREVER, evaluate=EVERY, checkpoint=EVERY),
                "--name", name, *more, **how)
    run = w.run_dir(name)
    harness.wait_until("checkpoints", lambda: len(harness.checkpoints(run)) >= 2)
    return p, run


def test_a_stop_is_told_at_once(w):
    p, run = start(w, "stopped")
    supervisor = harness.holder_of(run)
    harness.kill(supervisor, signal.SIGSTOP)
    harness.wait_until("the stop", lambda: harness.is_stopped(supervisor))
    why = f"it was stopped by a signal: `kill -CONT {supervisor}` continues it"
    # It is not asked: no socket is opened that it would have to answer.
    trace = w.status("stopped", hangs=True)
    assert trace["state"] == "suspended" and trace["stalled_why"] == why, trace
    wait_for(run, "supervisor-stalls")
    line, = journal(run, "supervisor-stalls")
    assert int(fields(line)["pid"]) == supervisor and why in line, line
    s = w.status("stopped", hangs=True)
    assert s["stalled_since"] == fields(line)["since"], (s, line)
    text = w.brood("status", "stopped")[0]
    assert f"its supervisor has not gone on since {s['stalled_since']}: {why}" in text, text
    assert f"(pid {supervisor}) does not go on: {why}" in p.log.read_text()
    harness.kill(supervisor, signal.SIGCONT)
    wait_for(run, "supervisor-goes-on")
    s = w.status("stopped")
    assert s["state"] == "running" and s["stalled_since"] is s["stalled_why"] is None, s
    assert f"(pid {supervisor}) goes on" in p.log.read_text()
    w.brood("stop", "stopped")
    assert p.wait(timeout=harness.DEADLINE_S) == 4


def test_a_stop_through_the_keeper_is_none(w):
    p, run = start(w, "job")
    supervisor = harness.holder_of(run)
    harness.kill(p.pid, signal.SIGTSTP)
    harness.wait_until("the stop of both", lambda: harness.is_stopped(supervisor) and
                       harness.is_stopped(p.pid))
    newest = harness.checkpoints(run)[-1]
    harness.kill(p.pid, signal.SIGCONT)
    harness.wait_until("more work", lambda: harness.checkpoints(run)[-1] > newest + EVERY)
    assert w.status("job")["state"] == "running"
    w.brood("stop", "job")
    assert p.wait(timeout=harness.DEADLINE_S) == 4
    assert not journal(run, "supervisor-stalls"), journal(run, "supervisor-stalls")


def test_the_watchdog_ends_what_is_stopped_and_the_run_goes_on(w):
    p, run = start(w, "resumed", "--set", "run.watchdog=2s",
                   "--set", "run.on_supervisor_death=resume")
    supervisor = harness.holder_of(run)
    harness.kill(supervisor, signal.SIGSTOP)
    wait_for(run, "resume")
    assert f"(pid {supervisor}) has not gone on for 2 s (run.watchdog): it was ended" in \
        p.log.read_text()
    steps = harness.set_last_step(w, run, EVERY)
    done(p)
    w.brood("run", w.small(steps=steps, evaluate=EVERY, checkpoint=EVERY), "--name", "calm")
    theirs, ours = outcome(w.run_dir("calm")), outcome(run)
    for files in theirs, ours:
        files.pop("run.state")  # it has the configuration
    harness.assert_same_files(theirs, ours)


def test_a_live_change_of_the_watchdog(w):
    p, run = start(w, "live")
    w.brood("set", "live", "run.watchdog=3s")
    harness.wait_until("the change", lambda: journal(run, "changed"))
    harness.kill(harness.holder_of(run), signal.SIGSTOP)
    assert p.wait(timeout=harness.DEADLINE_S) == 128 + signal.SIGKILL
    assert "code=137" in journal(run, "end")[-1]
    w.brood("resume", "live", "--set", f"run.env_steps={harness.checkpoints(run)[-1] + 4}")


def test_a_hang_is_told_and_ended(w):
    """Its loop waits for a reader of its messages, who does not read."""
    read_end, write_end = os.pipe()
    fcntl.fcntl(write_end, fcntl.F_SETPIPE_SZ, 4096)
    p = harness.Process([str(harness.BROOD), "run", str(w.small(steps=harness.FOREVER)), "--name",
                         "hang", "--set", "run.watchdog=15s", "--set",
                         "defaults.restart={max_restarts: 100000, delay: 0s}"],
                        cwd=w.path, stderr=write_end)
    p.log = w.path / "small.yaml"
    w.started.append(p)
    os.close(write_end)
    run = w.run_dir("hang")
    harness.wait_until("checkpoints", lambda: len(harness.checkpoints(run)) >= 2)

    def stalls():
        for pid in harness.agents_of(p.pid).values():
            harness.kill(pid)
        return journal(run, "supervisor-stalls")

    line = harness.wait_until("a hang", stalls)[0]
    assert 'why="it waits' in line, line
    supervisor = int(fields(line)["pid"])
    s = w.status("hang", hangs=True)
    assert s["state"] == "not answering" and s["stalled_since"] == fields(line)["since"], s
    assert s["stalled_why"].startswith("it waits"), s
    harness.wait_until("its end", lambda: not harness.alive(supervisor))
    with os.fdopen(read_end, "rb") as told:
        text = told.read().decode()
    assert p.wait(timeout=harness.DEADLINE_S) == 128 + signal.SIGKILL
    assert "has not gone on for 15 s (run.watchdog)" in text, text


def test_values_of_the_watchdog(w):
    """The supervisor beats ten times a second, and the keeper may look twice in between."""
    for value, code in (("none", 0), ("5m", 0), ("1s", 0), ("999ms", 2), ("0s", 2), ("5", 2),
                        ("soon", 2)):
        err = w.brood("check", w.small(), "--set", f"run.watchdog={value}", code=code)[1]
        assert code == 0 or "run.watchdog: " in err and "expected none or a time of 1s or more" in err, err


if __name__ == "__main__":
    harness.main()
