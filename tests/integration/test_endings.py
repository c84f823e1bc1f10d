"""However a run ends (interrupt, death, refusal), no process or file of it is left behind."""
import contextlib
import os
import signal

import harness
import test_environments as environments

GONE_WITHIN_S = 1.0
HOSTILE = harness.BUILD / "tests" / "support" / "hostile_agent"


def start_run(w, name, *more, steps=10_000_000, **popen):
    """Start an endless run and wait until all its agents learn."""
    config = w.small(steps=steps, evaluate=0, checkpoint=5_000_000)
    p = w.start("run", config, "--name", name, *more, **popen)
    harness.wait_until("three agents", lambda: len(harness.agents_of(p.pid)) == 3)
    harness.wait_until("rows of progress", lambda: harness.rows(w.run_dir(name)) > 1)
    return p


def wait_gone(pids):
    harness.wait_within(lambda: f"the end of {harness.left_of(pids)}",
                        lambda: not any(harness.alive(pid) for pid in pids), GONE_WITHIN_S)


def assert_gone(pids):
    """None of the processes exists; does not wait."""
    left = [pid for pid in pids if harness.alive(pid)]
    assert not left, [harness.processes().get(pid) for pid in left]


def wait_end(p):
    """The exit code of a run that has to end within a second."""
    harness.wait_within("its end", lambda: p.poll() is not None, GONE_WITHIN_S)
    return p.returncode


def test_one_interrupt_ends_in_order(w):
    """Ctrl-C, and SIGTERM the same; SIGHUP of a terminal: test_keeper."""
    for signum in (signal.SIGINT, signal.SIGTERM):
        name = signum.name.lower()
        p = start_run(w, name)
        agents = list(harness.agents_of(p.pid).values())
        harness.kill(p.pid, signum)
        assert p.wait(timeout=harness.DEADLINE_S) == 4, p.log.read_text()
        assert_gone(agents)
        run = w.run_dir(name)
        steps = [int(s.name) for s in (run / "checkpoints").iterdir()]
        assert max(steps) > 0, "a checkpoint is made at the end"
        last = p.log.read_text().splitlines()[-1]
        assert f"`brood resume {run.relative_to(w.path)}` continues from the " \
            f"checkpoint of step {max(steps)}" in last, last


def test_an_interrupt_before_the_first_checkpoint_says_what_is_next(w):
    program = w.program_with_agent(HOSTILE)
    (program.parent / "brood-agent.does").write_text("begin-no-run")
    p = w.start("run", w.small(), "--name", "early", program=program)
    harness.wait_until("the agents", lambda: len(harness.agents_of(p.pid)) == 3)
    harness.kill(p.pid, signal.SIGINT)
    assert p.wait(timeout=harness.DEADLINE_S) == 4, p.log.read_text()
    assert p.log.read_text().endswith(
        "early: there is no checkpoint yet; `brood run` with --name early --force starts "
        "over\n"), p.log.read_text()
    w.brood("run", w.small(steps=200), "--name", "early", "--force")


def send_to_supervisor(p, signum):
    """Send the run a signal; return when it is pending in the supervisor or has ended it."""
    supervisor = harness.supervisor_of(p.pid)
    harness.kill(p.pid, signum)
    harness.wait_until("the signal", lambda: p.poll() is not None or
                       harness.is_pending(supervisor, signum))


def opened_for_reading(fifo):
    """A descriptor to write to a FIFO once another process opens it."""
    def look():
        with contextlib.suppress(OSError):  # nobody reads
            return os.open(fifo, os.O_WRONLY | os.O_NONBLOCK)
    return harness.wait_until(f"an open of {fifo}", look)


def drain(fd):
    """Read all that there is now."""
    with contextlib.suppress(BlockingIOError):
        while True:
            os.read(fd, 65536)


def is_kept(path):
    """Whether a resume that does not go on leaves the file as it is."""
    return path.parent.name != "logs" and path.name not in ("lock", "control.sock")


def test_a_signal_before_a_run_goes_on(w):
    """While `resume` still waits for an environment: an interrupt ends it in order, and a
    hang-up rereads config.yaml, for which it is too early."""
    fifo = w.path / "fifo"
    script = w.write("environment", f"[ ! -p {fifo} ] || read none < {fifo}\n"
                     f"exec {environments.FAKE_ENV}\n")
    w.brood("run", environments.config(w, "sh", script, steps=200), "--name", "early")
    run = w.run_dir("early")
    before = harness.tree_bytes(run, is_kept)
    for signum, code in ((signal.SIGINT, 4), (signal.SIGTERM, 4), (signal.SIGHUP, 0)):
        os.mkfifo(fifo)
        p = w.start("resume", "early", "--set", "run.env_steps=400", start_new_session=True)
        fd = opened_for_reading(fifo)
        fifo.unlink()
        if signum == signal.SIGHUP:
            send_to_supervisor(p, signum)
            # A line for each process that has the path, also for one that opens it only now.
            os.write(fd, b"\n" * 16)
        else:
            harness.kill(p.pid, signum)
        assert p.wait(timeout=harness.DEADLINE_S) == code, (signum, p.log.read_text())
        os.close(fd)
        if signum != signal.SIGHUP:
            assert p.log.read_text() == "brood resume: interrupted\n", p.log.read_text()
            harness.assert_same_files(before, harness.tree_bytes(run, is_kept))
    assert "config.yaml is not applied" in p.log.read_text(), p.log.read_text()


def test_an_interrupt_while_the_environment_is_tried(w):
    """The run exists, its agents do not: it was stopped, and has not failed."""
    fifo = w.path / "fifo"
    os.mkfifo(fifo)
    run = w.run_dir("early")
    script = w.write("environment", f"[ ! -f {run}/config.yaml ] || read none < {fifo}\n"
                     f"exec {environments.FAKE_ENV}\n")
    config = environments.config(w, "sh", script, steps=200)
    for signum in (signal.SIGINT, signal.SIGTERM):
        p = w.start("run", config, "--name", "early", "--set", "env.verify=true")
        fd = opened_for_reading(fifo)
        harness.kill(p.pid, signum)
        assert p.wait(timeout=harness.DEADLINE_S) == 4, p.log.read_text()
        os.close(fd)
        assert "--force starts over\n" in p.log.read_text(), p.log.read_text()
        assert w.status("early")["state"] == "stopped"
        w.brood("rm", "early")


def test_an_interrupt_before_there_is_a_run(w):
    """It does not wait for an agent that hangs, and leaves nothing."""
    program = w.program_with_agent(HOSTILE)
    (program.parent / "brood-agent.does").write_text("begin-never")
    p = w.start("run", w.small(), "--name", "none", program=program)
    harness.wait_until("the trial", lambda: "trial" in harness.agents_of(p.pid))
    harness.kill(p.pid, signal.SIGINT)
    assert p.wait(timeout=harness.DEADLINE_S) == 4, p.log.read_text()
    assert p.log.read_text().endswith("interrupted\n"), p.log.read_text()
    assert not w.run_dir("none").exists()


def test_an_interrupt_of_a_run_that_has_failed(w):
    """It does not change the exit code, although the run takes long to end."""
    w.brood("run", w.small(steps=200), "--name", "failed", "--set",
            "defaults.restart.max_restarts=0")
    program = w.program_with_agent(HOSTILE)
    (program.parent / "brood-agent.does").write_text("begin-no-run")
    os.mkfifo(w.path / "fifo")
    fd = os.open(w.path / "fifo", os.O_RDWR | os.O_NONBLOCK)
    with contextlib.suppress(BlockingIOError):
        while True:
            os.write(fd, bytes(4096))
    # With -q the supervisor writes only its last line to stderr, and has to wait there.
    p = w.start("resume", "failed", "--set", "run.env_steps=400", "-qv", program=program,
                prefix=("sh", "-c", 'exec "$@" 2>fifo', "sh"))
    harness.kill(harness.wait_until("agent_0", lambda: harness.agents_of(p.pid).get("agent_0")))
    log = w.run_dir("failed") / "logs" / "supervisor.log"
    harness.wait_until("its end", lambda: "-> over" in log.read_text())
    send_to_supervisor(p, signal.SIGINT)
    harness.wait_until("the exit code", lambda: drain(fd) or p.poll() is not None)
    os.close(fd)
    assert p.returncode == 1


def test_a_quiet_run_says_errors_only(w):
    p = start_run(w, "quiet", "-q")
    agent = harness.agents_of(p.pid)["agent_0"]
    harness.kill(agent)
    harness.wait_until("another one", lambda: harness.agents_of(p.pid).get("agent_0")
                       not in (None, agent))
    harness.kill(p.pid, signal.SIGINT)
    assert p.wait(timeout=harness.DEADLINE_S) == 4 and p.log.read_text() == ""
    p = start_run(w, "wrong", "-q", start_new_session=True)
    with open(w.run_dir("wrong") / "config.yaml", "a") as f:
        f.write("copies: 8\n")
    harness.kill(p.pid, signal.SIGHUP)
    harness.wait_until("the error", lambda: p.log.read_text().endswith("\n"))
    said = p.log.read_text()
    assert said.startswith("config.yaml is not applied: ") and said.count("\n") == 1, said
    _, err = w.brood("run", w.small(), "--name", "wrong", "-q", code=2)
    assert "--force replaces it" in err and len(err.splitlines()) == 1, err


def test_two_interrupts_cut_it_off(w):
    p = start_run(w, "twice")
    agents = list(harness.agents_of(p.pid).values())
    for pid in agents:
        harness.kill(pid, signal.SIGSTOP)
    harness.kill(p.pid, signal.SIGINT)
    harness.wait_until("the first interrupt noticed",
                       lambda: "interrupt" in p.log.read_text().lower())
    harness.kill(p.pid, signal.SIGINT)
    assert wait_end(p) == 128 + signal.SIGINT
    assert_gone(agents)


def test_an_agent_that_cannot_live_ends_the_run_with_one_report(w):
    # max_restarts=0: deaths with progress in between do not count, so that any higher number
    # would depend on how fast a loaded machine restarts the agents.
    p = start_run(w, "doomed", "--set", "defaults.restart.max_restarts=0")

    def killed_and_over():
        for pid in harness.agents_of(p.pid).values():
            harness.kill(pid)
        return p.poll() is not None

    harness.wait_until("the end", killed_and_over)
    err = p.log.read_text()
    assert p.returncode == 1, (p.returncode, err)
    assert "SIGKILL" in err and "agent_" in err, err
    s = w.status("doomed")
    assert f"brood run: {s['failure']}\n" in err and s["failure_agent"] in s["failure"], s
    assert s["failure_file"] is None and s["failure_line"] is None, s
    assert f"\n  why: {s['failure']}\n" in w.brood("status", "doomed")[0]


def test_two_runs_of_one_directory_are_kept_apart(w):
    p = start_run(w, "mine")
    _, err = w.brood("run", w.small(), "--name", "mine", "--force", code=2)
    assert str(p.pid) in err, err
    harness.kill(p.pid, signal.SIGINT)
    p.wait()


def test_runs_leave_nothing(w):
    def shared_files():
        return {name for name in os.listdir("/dev/shm")  # but for what other tests keep
                if "brood" in name and not name.startswith("brood-test-")}
    config = w.small(steps=40)
    before = shared_files()
    temporary = w.path / "tmp"
    temporary.mkdir()
    for i in range(10 if not harness.SANITIZED else 5):
        w.brood("run", config, "--name", f"r{i}", "--set", "experience.warmup=20",
                "--set", "experience.batch_size=16", env={"TMPDIR": str(temporary)})
    left = [c for _, _, c in harness.processes().values() if str(w.path) in c]
    assert not left, left
    assert not list(temporary.iterdir())
    assert shared_files() <= before, shared_files() - before


if __name__ == "__main__":
    harness.main()
