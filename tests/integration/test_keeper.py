"""The keeper in front of a run: whoever is killed, nothing is left; the terminal's jobs."""
import itertools
import os
import pathlib
import pty
import signal
import time

import harness
from test_endings import GONE_WITHIN_S, start_run, wait_gone
from test_exactness import outcome

LEAVER = harness.BUILD / "tests" / "support" / "leaving_agent"


def victims(p, who):
    found = {"keeper": p.pid, "supervisor": harness.supervisor_of(p.pid)}
    return [found[w] for w in who.split("+") if found[w] is not None]


def kill_in_phase(w, name, who, phase):
    """A run of which `who` is killed in a phase; all of it must go within a second."""
    if phase == "starting":
        p = w.start("run", w.small(steps=10_000_000, evaluate=0), "--name", name)
        harness.wait_until("an agent", lambda: harness.agents_of(p.pid))
    else:
        p = start_run(w, name)
    if phase == "stopped":
        for pid in harness.agents_of(p.pid).values():
            harness.kill(pid, signal.SIGSTOP)
    if phase == "supervisor stopped":
        harness.kill(harness.supervisor_of(p.pid), signal.SIGSTOP)
    if phase == "checkpointing":
        harness.kill(p.pid, signal.SIGINT)
    everyone = harness.members(p)
    for pid in victims(p, who):
        harness.kill(pid)
    p.wait(timeout=harness.DEADLINE_S)
    wait_gone(everyone)
    return p


def test_whoever_is_killed_nothing_is_left(w):
    phases = ("starting", "learning", "stopped", "supervisor stopped", "checkpointing")
    for i, (who, phase) in enumerate(itertools.product(
            ("supervisor", "keeper", "keeper+supervisor"), phases)):
        p = kill_in_phase(w, f"r{i}", who, phase)
        if who == "supervisor" and phase == "learning":
            assert p.returncode == 128 + signal.SIGKILL, p.returncode
            assert "was ended by SIGKILL" in p.log.read_text(), p.log.read_text()


def marked(keeper):
    """pids of processes that carry the mark of that keeper's run."""
    found = set()
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            try:
                text = pathlib.Path(entry.path, "environ").read_bytes()
            except OSError:
                continue
            if f"BROOD_MARK={keeper}-".encode() in text:
                found.add(int(entry.name))
    return found


def test_grandchildren_that_left_their_session_go_too(w):
    for who in ("supervisor", "keeper", "keeper+supervisor", "nobody"):
        p = w.start("run", w.small(steps=10_000_000, evaluate=0), "--name",
                    who.replace("+", "-"), program=w.program_with_agent(LEAVER))
        harness.wait_until("agents", lambda: len(harness.agents_of(p.pid)) == 3)
        harness.wait_until("grandchildren", lambda: len(marked(p.pid)) >= 9)
        if who == "nobody":
            harness.kill(p.pid, signal.SIGINT)
        else:
            for pid in victims(p, who):
                harness.kill(pid)
        p.wait(timeout=harness.DEADLINE_S)
        harness.wait_until("the end of all that is marked", lambda: not marked(p.pid),
                           GONE_WITHIN_S * harness.PATIENCE)


def test_the_exit_code_is_passed_on(w):
    w.brood("run", w.path / "nothing.yaml", code=2)
    w.brood("run", "--help")
    w.brood("resume", "nobody", code=3)


def test_a_supervisor_that_does_not_listen_is_cut_off(w):
    p = start_run(w, "deaf")
    everyone = harness.members(p)
    harness.kill(p.pid, signal.SIGINT)
    harness.wait_until("the first interrupt noticed",
                       lambda: "interrupt" in p.log.read_text().lower()
                       or p.poll() is not None)
    supervisor = harness.supervisor_of(p.pid)
    begin = time.monotonic()
    if supervisor is not None:
        harness.kill(p.pid, signal.SIGTERM)
        harness.kill(supervisor, signal.SIGSTOP)
    code = p.wait(timeout=harness.DEADLINE_S)
    assert code in (4, 128 + signal.SIGTERM), (code, p.log.read_text())
    assert time.monotonic() - begin < GONE_WITHIN_S * harness.PATIENCE
    wait_gone(everyone, 0.1)


def states(pids):
    return [harness.processes().get(pid, "X")[0] for pid in pids]


def test_the_terminals_stop_holds_all_and_goes_on(w):
    p = start_run(w, "paused")
    supervisor = harness.supervisor_of(p.pid)
    everyone = [p.pid, supervisor, *harness.agents_of(p.pid).values()]
    progress = w.run_dir("paused") / "metrics" / "progress.csv"
    for _ in range(3):
        harness.kill(p.pid, signal.SIGTSTP)
        harness.wait_until("all stopped", lambda: states(everyone) == ["T"] * 5)
        rows = progress.read_text()
        harness.kill(p.pid, signal.SIGCONT)
        harness.wait_until("all going on", lambda: "T" not in states(everyone))
        harness.wait_until("more rows", lambda: progress.read_text() != rows)
    harness.kill(p.pid, signal.SIGINT)
    assert p.wait(timeout=harness.DEADLINE_S) == 4, p.log.read_text()
    assert " restarts" not in p.log.read_text() or ", 0 restarts" in p.log.read_text()


def test_an_interrupt_from_the_terminal_counts_once(w):
    config = w.small(steps=10_000_000, evaluate=0)
    pid, fd = pty.fork()
    if pid == 0:
        os.chdir(w.path)
        os.execv(harness.BROOD, ["brood", "run", str(config), "--name", "tty"])
    progress = w.run_dir("tty") / "metrics" / "progress.csv"
    os.set_blocking(fd, False)

    def read():
        try:
            return os.read(fd, 65536)
        except OSError:
            return b""
    harness.wait_until("rows", lambda: read() is not None and progress.exists()
                       and progress.read_text().count("\n") > 2)
    os.write(fd, b"\x03")
    status = []

    def ended():
        read()
        done, code = os.waitpid(pid, os.WNOHANG)
        status.append(code)
        return done
    harness.wait_until("its end", ended)
    os.close(fd)
    assert os.waitstatus_to_exitcode(status[-1]) == 4, status[-1]


def test_supervisors_that_are_killed_change_nothing(w):
    kills = 20 if not harness.SANITIZED else 6
    config = w.small(steps=80_000 if not harness.SANITIZED else 12_000, evaluate=4000,
                     checkpoint=1000)
    more = ("--set", "run.on_supervisor_death=resume")
    w.brood("run", config, "--name", "calm", *more)
    p = w.start("run", config, "--name", "killed", *more)
    checkpoints = w.run_dir("killed") / "checkpoints"

    def newest():
        steps = [int(s.name) for s in checkpoints.iterdir() if s.name.isdigit()] \
            if checkpoints.exists() else []
        return max(steps, default=0)
    for _ in range(kills):
        at = newest()
        harness.wait_until("a newer checkpoint", lambda: newest() > at
                           or p.poll() is not None)
        pid = harness.wait_until("a supervisor", lambda: harness.supervisor_of(p.pid)
                                 or p.poll() is not None)
        assert p.poll() is None, p.log.read_text()
        harness.kill(pid)
        harness.wait_until("its end", lambda: not harness.alive(pid))
    assert p.wait(timeout=harness.DEADLINE_S) == 0, p.log.read_text()
    said = p.log.read_text()
    assert said.count("going on from the newest checkpoint") == kills, said
    harness.assert_same_files(outcome(w.run_dir("calm")), outcome(w.run_dir("killed")))


def test_a_supervisor_that_dies_again_and_again_is_given_up(w):
    p = w.start("run", w.small(steps=10_000_000, evaluate=0, checkpoint=5_000_000),
                "--name", "loop", "--set", "run.on_supervisor_death=resume")
    while p.poll() is None:
        pid = harness.supervisor_of(p.pid)
        if pid is not None and harness.agents_of(p.pid):
            harness.kill(pid)
            harness.wait_until("its end", lambda: not harness.alive(pid))
    said = p.log.read_text()
    assert p.returncode == 128 + signal.SIGKILL, said
    # Five without any checkpoint, and five after the first one.
    assert 5 <= said.count("going on from the newest checkpoint") <= 10, said


if __name__ == "__main__":
    harness.main()
