"""A hostile neighbour in a folder of runs: one run of each kind of damage, which belongs to
another user if this is root. Every command answers within seconds, whatever it finds.

Of each damaged run a few commands are asked, in turn; with BROOD_NEIGHBOUR_ALL=1 all of them.
"""
import os
import signal
import time

import damaged_runs
import harness

LIMIT_S = 5
EACH = 1 if harness.SANITIZED else 2  # commands about a run; what they wait for takes its seconds
ALL = bool(os.environ.get("BROOD_NEIGHBOUR_ALL"))
ABOUT_A_RUN = (("status",), ("status", "--json"), ("logs",), ("tag",), ("prune", "--dry-run"),
               ("report",), ("eval", "--episodes", "1"), ("replay",), ("wait",),
               ("set", "run.env_steps=7"), ("stop",), ("trace",), ("attach",))
# The others wait for what a run does (test_commands_that_wait_for_a_run_that_pretends).
ABOUT_A_LIVE_RUN = ABOUT_A_RUN[:8]
ABOUT_ALL = (("runs", "--json"), ("runs",), ("prune", "--dry-run"), ("status",),
             ("complete", "--", "brood", "status", ""), ("logs",), ("status", "base"),
             ("tag", "base"), ("runs", "--where", "env=simple_spread"), ("report", "base"))


class Times:
    """How long commands took, and which took too long."""

    def __init__(self, w):
        self.w, self.all, self.slow = w, [], []

    def measure(self, *command):
        """stdout and stderr of the command, whatever its exit code."""
        began = time.monotonic()
        p = self.w.start(*command)
        limit_s = harness.allowed_s(LIMIT_S)
        try:
            p.wait(timeout=limit_s)
        except harness.subprocess.TimeoutExpired:
            p.kill()
            p.wait()
            self.slow.append(command)
        self.all.append((time.monotonic() - began, " ".join(map(str, command))))
        assert p.returncode in (0, 1, 2, 3, 4, -9), (command, p.returncode)
        err = p.log.read_text(errors="replace")
        assert "Sanitizer" not in err and "runtime error" not in err, (command, err)
        return harness.output(p), err

    def end(self):
        assert not self.slow, self.slow
        print("# longest:", *(f"{s:.1f} s {name};" for s, name in sorted(self.all)[:-4:-1]))


def of_each(times, names, commands, n):
    """Ask of each run n of the commands."""
    for i, name in enumerate(names):
        for k in range(len(commands) if ALL else n):
            command = commands[(i * n + k) % len(commands)]
            times.measure(command[0], name, *command[1:])


def ask_about_all(times, names):
    for command in ABOUT_ALL if ALL else ABOUT_ALL[:7]:
        out, err = times.measure(*command)
        if command == ("runs", "--json"):
            runs = {r["run"]: r for r in harness.json_lines(out)}
            assert runs["base"]["state"] == "done", runs["base"]
            assert runs["base"]["tags"] == ["paper"], runs["base"]
            assert {runs[n]["state"] for n in names if n.startswith("live-")} == \
                {"not answering"}, runs
            assert {runs[f"{kind}-journal"]["state"] for kind in ("huge", "folder", "fifo")} == \
                {"unreadable"}, runs
            assert os.geteuid() != 0 or "of other users were not read whole" in err, err


def test_every_command_beside_damaged_runs(w):
    w.brood("run", w.small(steps=100, evaluate=100, checkpoint=100), "--name", "base")
    (w.run_dir("base") / "tags").write_text("tag: paper\n")
    names, pretenders = damaged_runs.make(w.runs, w.run_dir("base"))
    try:
        times = Times(w)
        ask_about_all(times, names)
        live = [n for n in names if n.startswith("live-")]
        of_each(times, live, ABOUT_A_LIVE_RUN, EACH)
        of_each(times, [n for n in names if n not in live], ABOUT_A_RUN, EACH)
        for name in ("huge-tags", "huge-journal", "wide-and-long", "fifo-lock"):
            for command in ABOUT_A_RUN[:1 if harness.SANITIZED else 5]:
                times.measure(command[0], name, *command[1:])
        times.end()
    finally:
        for p in pretenders:
            p.close()


ANSWERS_S = 30       # CLI_ANSWERS_WITHIN_MS
LISTENS_S = 5        # how long a run that has just started may have no socket
AT_ONCE = (("kill", "agent_0"), ("continue",), ("set", "--cancel"))
AS_LONG_AS_IT_TAKES = (("stop",), ("pause",), ("checkpoint",), ("trace",), ("respawn", "agent_0"),
                       ("set", "run.env_steps=7"))


def ask_run(w, name, command):
    return w.start(command[0], name, *command[1:])


def welcomes(s, over):
    """Answers the first two requests, and then sends events without end."""
    for _ in range(2):
        s.recv(4096)
        s.sendall(b"\x94\x01\x01\xc0\x81\xa9env_steps\x07")
    damaged_runs.flood(s, over)


def test_commands_that_wait_for_a_run_that_pretends(w):
    """What a run does at once has a deadline. Other commands wait, say so once, and can be
    interrupted."""
    w.brood("run", w.small(steps=100, evaluate=100, checkpoint=100), "--name", "base")
    names, pretenders = damaged_runs.make(w.runs, w.run_dir("base"),
                                          lambda name: name in ("live-drips", "live-deaf"))
    try:
        late = [(c, ask_run(w, "live-drips", c)) for c in AT_ONCE]
        late += [(c, ask_run(w, "live-deaf", c)) for c in AT_ONCE + AS_LONG_AS_IT_TAKES]
        waiting = [(c, ask_run(w, "live-drips", c)) for c in AS_LONG_AS_IT_TAKES]
        for c, p in waiting:
            harness.wait_until("what it waits for", lambda p=p: p.log.read_text().endswith("\n"))
            assert p.log.read_text() == (
                f"brood {c[0]}: live-drips has not done it after 5 s: still waiting (Ctrl-C ends "
                "this command alone)\n")
            harness.kill(p.pid, signal.SIGINT)
            assert p.wait(timeout=harness.DEADLINE_S) == -signal.SIGINT
        for c, p in late:
            harness.wait_within(f"an error of {c}", lambda p=p: p.poll() is not None,
                                LISTENS_S + 2 * ANSWERS_S)
            assert p.returncode == 1, (c, p.returncode, p.log.read_text())
            assert "the run does not answer" in p.log.read_text(), (c, p.log.read_text())
    finally:
        for p in pretenders:
            p.close()


def test_a_run_that_pretends_to_be_one(w):
    """It answers: a stop that never comes to its end says so; and an attached view that is
    flooded hears Ctrl-C."""
    w.brood("run", w.small(steps=100, evaluate=100, checkpoint=100), "--name", "base")
    run = harness.copy_run(w.run_dir("base"), w.runs / "false")
    pretender = damaged_runs.Pretender(run, welcomes)
    try:
        stop, view = ask_run(w, "false", ("stop",)), ask_run(w, "false", ("attach",))
        harness.wait_until("the view", lambda: "leaves it alone" in view.log.read_text())
        harness.kill(view.pid, signal.SIGINT)
        harness.wait_within("the view's end", lambda: view.poll() is not None, LIMIT_S)
        assert view.returncode == 0, view.log.read_text()
        harness.wait_until("what it waits for", lambda: "still waiting" in stop.log.read_text())
        harness.kill(stop.pid, signal.SIGINT)
        assert stop.wait(timeout=harness.DEADLINE_S) == -signal.SIGINT
    finally:
        pretender.close()


if __name__ == "__main__":
    harness.main()
