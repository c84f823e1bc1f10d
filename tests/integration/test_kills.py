"""Kills and stops of random agents at random moments: the same bytes, and nothing leaks.

`scripts/test --kills 1000` runs the long version.
"""
import collections
import os
import random
import re
import time

import harness
from test_exactness import outcome

KILLS = int(os.environ.get("BROOD_KILLS", 30 if harness.SANITIZED else 100))
FIRST_KILLS, FIRST_CHECKPOINTS, INTERVAL = 20, 30, 200
STOP_EVERY = 15  # one of so many is a SIGSTOP, which the watchdog has to end
RSS_SLACK_KIB = 1024
SETTINGS = ("--set", "defaults.restart={max_restarts: 1000000, delay: 0s}", "--set",
            "defaults.respond_within=" + ("3s" if harness.SANITIZED else "300ms"))


def kill_at_random(p, draw, with_stop):
    """Kill one agent after a moment; wait until it or the watchdog has ended it."""
    until = time.monotonic() + draw.uniform(0, 0.02) * harness.PATIENCE
    while time.monotonic() < until:
        pass
    agents = harness.wait_until("an agent", lambda: harness.agents_of(p.pid))
    pid = draw.choice(sorted(agents.values()))
    harness.kill(pid, harness.signal.SIGSTOP if with_stop else harness.signal.SIGKILL)
    harness.wait_until(f"the end of {pid}", lambda: not harness.alive(pid))


def print_table(journal):
    """Print what the agents were doing when they died, and how they died."""
    deaths = re.findall(r" event=exit agent=\S+ pid=\d+ signal=(\S+) in=(\S+)( why=)?", journal)
    table = collections.Counter((state, "stopped" if why else signum)
                                for signum, state, why in deaths)
    states = sorted({state for state, _ in table})
    print("#", "died in".ljust(10), *(s.rjust(12) for s in states), "sum".rjust(8))
    for how in sorted({how for _, how in table}):
        numbers = [table[state, how] for state in states]
        print("#", how.ljust(10), *(str(n).rjust(12) for n in numbers),
              str(sum(numbers)).rjust(8), flush=True)
    return sum(table.values())


def test_kills_at_random_moments_leave_nothing(w):
    draw = random.Random(3)
    config, run = w.small(steps=harness.FOREVER, evaluate=3000, checkpoint=INTERVAL), \
        w.run_dir("killed")
    p = w.start("run", config, "--name", "killed", *SETTINGS, env=harness.VISIBLE)
    harness.wait_until("the agents", lambda: len(harness.agents_of(p.pid)) == 3)
    supervisor = harness.supervisor_of(p.pid)
    # Memory that is allocated once and reused, also by each thread that writes checkpoints.
    for _ in range(FIRST_KILLS):
        kill_at_random(p, draw, False)
    harness.wait_until("checkpoints", lambda: (run / "journal").read_text().count(
        " event=checkpoint") >= FIRST_CHECKPOINTS)
    for is_last in (False, True):
        before = harness.settled(supervisor, 3)
        for i in range(KILLS):
            kill_at_random(p, draw, i % STOP_EVERY == STOP_EVERY - 1)
        try:
            harness.assert_nothing_grew(supervisor, 3, before, RSS_SLACK_KIB)
            break
        except AssertionError:  # once, as for a thread that had not written yet, is no leak
            if is_last:
                raise
    n = print_table((run / "journal").read_text())
    assert n >= KILLS, (n, KILLS)
    steps = harness.set_last_step(w, run, INTERVAL)
    assert p.wait(timeout=harness.DEADLINE_S) == 0, p.log.read_text()
    calm = w.start("run", config, "--name", "calm", *SETTINGS, "--set",
                   f"run.env_steps={steps}")
    harness.wait_until("the undisturbed run", lambda: calm.poll() is not None,
                       harness.DEADLINE_S + KILLS)
    assert calm.returncode == 0, calm.log.read_text()
    calm, killed = (outcome(w.run_dir(name)) for name in ("calm", "killed"))
    harness.assert_same_files(calm, killed)
    print(f"# {n} deaths in {steps} steps; the checkpoints are byte for byte the same")


if __name__ == "__main__":
    harness.main()
