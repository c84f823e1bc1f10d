"""Agents in a real run: ordinary and hostile ones."""
import os
import shutil

import harness

HOSTILE = harness.BUILD / "tests" / "support" / "hostile_agent"


def test_an_agent_at_work_is_one_thread_and_speaks_on_stderr(w):
    p = w.start("run", w.small(steps=10_000_000, evaluate=0, checkpoint=5_000_000),
                "--name", "a", env=harness.VISIBLE)
    agents = harness.wait_until("three agents", lambda: len(found := harness.agents_of(
        p.pid)) == 3 and found)
    progress = w.run_dir("a") / "metrics" / "progress.csv"
    harness.wait_until("learning", lambda: progress.exists()
                       and progress.read_text().count("\n") > 3)
    for pid in agents.values():
        assert len(os.listdir(f"/proc/{pid}/task")) == 1
        fds = {int(fd): os.readlink(f"/proc/{pid}/fd/{fd}")
               for fd in os.listdir(f"/proc/{pid}/fd")}
        assert fds[0] == "/dev/null" and fds[1] == fds[2], fds
        assert fds[1] not in (fds[3], fds[4]) and fds[3] != fds[4], fds
    p.terminate()
    assert p.wait(timeout=harness.DEADLINE_S) == 4


def run_with_hostile_agents(w, does):
    """Run brood with the hostile agent executable; the run's stderr."""
    place = w.path / does
    place.mkdir()
    shutil.copy(harness.BROOD, place / "brood")
    shutil.copy(HOSTILE, place / "brood-agent")
    (place / "brood-agent.does").write_text(does)
    # a limit on memory: a length that is believed would end it with another code
    limits = ("prlimit", "--core=0") if harness.SANITIZED else \
        ("prlimit", "--core=0", f"--as={1 << 36}", f"--data={1 << 28}")
    _, err = w.brood("run", w.small(steps=400), "--name", does, "--set",
                     "defaults.restart.delay=1ms", code=1, prefix=limits,
                     program=place / "brood")
    assert "Sanitizer" not in err, err
    assert err.count("brood run: ") == 1, f"one report: {err}"
    report = next(line for line in err.splitlines() if line.startswith("brood run: "))
    assert "agent_" in report, report
    left = [c for _, _, c in harness.processes().values() if str(place) in c]
    assert not left, left
    return report


def test_nothing_an_agent_writes_hurts_the_supervisor(w):
    for does in ("garbage", "endless-frame", "deep-message", "huge-array", "say-nothing",
                 "say-huge-block", "say-no-stages", "say-wide-carry",
                 "say-wrong-variables"):
        run_with_hostile_agents(w, does)


def test_the_last_lines_of_the_dead_are_quoted(w):
    report = run_with_hostile_agents(w, "complain-and-die")
    assert "SIGKILL" in report and "I cannot go on: " in report, report
    assert "\\x1b[31m\\x9b\\x9bout of luck" in report, repr(report)
    assert "(pid " in report, report


def test_a_flood_of_lines_is_bounded(w):
    report = run_with_hostile_agents(w, "flood-stderr")
    assert "code 3" in report and "the very last" in report, report
    assert len(report) < 1000, len(report)
    # The one whose six deaths ended the run has written 24 MB; others may have died less often.
    logs = (w.run_dir("flood-stderr") / "logs").glob("agent_*.log")
    assert 16 << 20 <= max(log.stat().st_size for log in logs) < (16 << 20) + 100


if __name__ == "__main__":
    harness.main()
