"""Everything at once: signals to every process of a run while three clients, one of them
another user if this is root, send queries and changes. No crash, no changed byte, no
leftovers, no file outside the run touched.

BROOD_ATTACK_ROUNDS makes it longer.
"""
import contextlib
import os
import random
import signal
import socket
import threading

import harness
from test_exactness import outcome
from test_files import need_second_user

ROUNDS = int(os.environ.get("BROOD_ATTACK_ROUNDS", 4 if harness.SANITIZED else 10))
INTERVAL = 600
SETTINGS = ("--set", "defaults.restart={max_restarts: 1000000, delay: 0s}", "--set",
            "run.on_supervisor_death=resume")
S = signal.Signals
# Signals that end an agent, and signals that do not.
TO_AGENTS = (S.SIGKILL, S.SIGTERM, S.SIGINT, S.SIGHUP, S.SIGSEGV, S.SIGABRT, S.SIGUSR1,
             S.SIGQUIT, S.SIGALRM, S.SIGPIPE, S.SIGXFSZ, S.SIGWINCH, S.SIGSTOP)
TO_SUPERVISOR = (S.SIGHUP, S.SIGPIPE, S.SIGXFSZ, S.SIGWINCH, S.SIGURG, S.SIGCHLD, S.SIGSTOP)
DEADLY = (S.SIGKILL, S.SIGABRT, S.SIGUSR2, S.SIGALRM) if harness.SANITIZED else \
    (S.SIGKILL, S.SIGSEGV, S.SIGABRT, S.SIGUSR2, S.SIGALRM)  # ASan ends itself, code 1
TO_KEEPER = (S.SIGXFSZ, S.SIGWINCH, S.SIGURG, S.SIGCHLD, S.SIGSTOP)
GARBAGE = (b"\xc1\xdd\xff\x00\x00\x00", b"\x94\x00\x01\xa6status\xdf\xff\xff\xff\xff",
           b"\x00" * 1000, b"\x94\x00\x07\xa4stop\x81")


class Clients:
    """Threads that repeat their function until the end and record failures."""

    def __init__(self, *loops):
        self.over = threading.Event()
        self.failures, self.counts = [], [0] * len(loops)
        self.threads = [threading.Thread(target=self.repeat, args=(i, loop))
                        for i, loop in enumerate(loops)]

    def repeat(self, i, loop):
        try:
            while not self.over.is_set():
                loop()
                self.counts[i] += 1
        except Exception as e:  # whatever it is, the test fails with it
            self.failures.append(f"client {i}: {e!r}")

    def __enter__(self):
        for t in self.threads:
            t.start()
        return self

    def __exit__(self, *args):
        self.over.set()
        for t in self.threads:
            t.join()


def asking(w, *commands, codes=(0, 1, 2, 3), **more):
    """Run one command after another; none may crash or exit with an unexpected code."""
    def loop():
        for command in commands:
            p = w.start(*command, **more)
            code = p.wait(timeout=harness.DEADLINE_S)
            assert code in codes, (command, code, p.log.read_text())
    return loop


def throwing(run):
    """Send malformed messages to the run's socket."""
    draw = random.Random(11)

    def loop():
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as s:
            folder = os.open(run, os.O_PATH)
            try:
                s.settimeout(1)
                s.connect(f"/proc/self/fd/{folder}/control.sock")
                s.sendall(draw.choice(GARBAGE))
                s.recv(4096)
            finally:
                os.close(folder)
    return loop


def attack_round(p, run, draw, kill_supervisor):
    """Send a signal to every process; then wait for another checkpoint."""
    supervisor = harness.wait_until("a supervisor", lambda: p.poll() is not None or
                                    harness.supervisor_of(p.pid))
    assert p.poll() is None, p.log.read_text()
    before = harness.checkpoints(run)[-1]
    stopped = []
    targets = [(pid, draw.choice(TO_AGENTS)) for pid in harness.agents_of(p.pid).values()]
    targets.append((p.pid, draw.choice(TO_KEEPER)))
    targets.append((supervisor, draw.choice(DEADLY if kill_supervisor else TO_SUPERVISOR)))
    for pid, signum in targets:
        harness.kill(pid, signum)
        if signum == S.SIGSTOP:
            stopped.append(pid)
    for pid in stopped:
        harness.kill(pid, S.SIGCONT)
    if kill_supervisor:
        harness.wait_until("the supervisor's end", lambda: not harness.alive(supervisor))
    harness.wait_until("another checkpoint", lambda: p.poll() is not None or
                       harness.checkpoints(run)[-1] > before)
    assert p.poll() is None, p.log.read_text()


def test_signals_to_every_process_with_three_clients(w):
    draw = random.Random(5)
    config, run = w.small(steps=harness.FOREVER, evaluate=3000, checkpoint=INTERVAL), \
        w.run_dir("attacked")
    bystander = w.write("bystander", "not brood's")
    try:
        other = need_second_user(w)
    except harness.Skip:
        other = None
    p = w.start("run", config, "--name", "attacked", *SETTINGS)
    harness.wait_until("a checkpoint", lambda: harness.checkpoints(run))
    asks = asking(w, ("status", run, "--json"), ("runs",), ("logs", run),
                  ("set", run, f"checkpoint.every_env_steps={INTERVAL}"))
    steers = asking(w, ("kill", run, "agent_0"), ("checkpoint", run), ("respawn", run, "agent_1"))
    strangers = throwing(run) if other is None else asking(
        w, ("stop", run), ("rm", run), ("wait", run), ("resume", run), codes=(3,), **other)
    with Clients(asks, steers, strangers) as clients:
        for i in range(ROUNDS):
            attack_round(p, run, draw, i % 3 == 2)
            throwing(run)()
            assert not clients.failures, clients.failures
        harness.wait_until("each client's turn", lambda: clients.failures or
                           all(clients.counts))
    assert not clients.failures, clients.failures

    everything = harness.members(p.pid)
    steps = harness.set_last_step(w, run, INTERVAL)
    assert p.wait(timeout=harness.DEADLINE_S) == 0, p.log.read_text()
    harness.wait_until("nothing left", lambda: not any(map(harness.alive, everything)))
    assert not [c for _, _, c in harness.processes().values() if str(run) in c]
    assert bystander.read_text() == "not brood's"
    status = w.status(run)
    assert status["state"] == "done" and status["exact"], status
    w.brood("run", config, "--name", "calm", *SETTINGS, "--set", f"run.env_steps={steps}")
    harness.assert_same_files(outcome(w.run_dir("calm")), outcome(run))
    print(f"# {ROUNDS} rounds, clients' turns {clients.counts}, {steps} steps")


if __name__ == "__main__":
    harness.main()
