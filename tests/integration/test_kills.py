"""Kills and stops of random agents at random moments: the same bytes, and nothing leaks.

BROOD_KILLS=1000 in the environment makes it the long one.
"""
import collections
import os
import random
import time

import harness
from test_exactness import outcome

KILLS = int(os.environ.get("BROOD_KILLS", 30 if harness.SANITIZED else 150))
STOP_EVERY = 15  # one of so many is a SIGSTOP, which the watchdog has to end
FOREVER = 10_000_000
RSS_SLACK_KIB = 4096
SETTINGS = ("--set", "defaults.restart={max_restarts: 100000, delay: 0s}", "--set",
            "defaults.respond_within=" + ("3s" if harness.SANITIZED else "300ms"))


def test_kills_at_random_moments_leave_nothing(w):
    draw = random.Random(3)
    config = w.small(steps=FOREVER, evaluate=3000, checkpoint=3000)
    p = w.start("run", config, "--name", "killed", *SETTINGS)
    progress = w.run_dir("killed") / "metrics" / "progress.csv"
    harness.wait_until("rows", lambda: progress.exists()
                       and progress.read_text().count("\n") > 20)
    supervisor = harness.supervisor_of(p.pid)
    before, rss_before = harness.settled(supervisor, 3)
    states = collections.Counter()
    for i in range(KILLS):
        agents = harness.wait_until("an agent", lambda: harness.agents_of(p.pid))
        pid = draw.choice(sorted(agents.values()))
        with_stop = i % STOP_EVERY == STOP_EVERY - 1
        states[harness.processes().get(pid, "X")[0]] += 1
        harness.kill(pid, harness.signal.SIGSTOP if with_stop else harness.signal.SIGKILL)
        harness.wait_until(f"the end of {pid}",
                           lambda: with_stop or not harness.alive(pid))
        until = time.monotonic() + draw.uniform(0, 0.02) * harness.PATIENCE
        while time.monotonic() < until:
            pass
    # Checkpoints are written meanwhile, through descriptors of their own.
    after, rss_after = harness.wait_until(
        "no more descriptors than before",
        lambda: (now := harness.settled(supervisor, 3))[0]["descriptors"] <= before["descriptors"]
        and now, 10 * harness.PATIENCE)
    print(f"# {KILLS} kills; the process was, when hit: "
          + ", ".join(f"{k}: {n}" for k, n in sorted(states.items())))
    print(f"# supervisor before {before}, {rss_before} KiB; after {after}, {rss_after} KiB")
    grown = {k: (before[k], after[k]) for k in before if after[k] > before[k]
             and k != "mappings"}
    assert not grown, grown
    if not harness.SANITIZED:  # whose allocator keeps what is freed
        assert after["mappings"] <= before["mappings"] + 8, (before, after)
        assert rss_after <= rss_before + RSS_SLACK_KIB, (rss_before, rss_after)
    harness.kill(p.pid, harness.signal.SIGINT)
    assert p.wait(timeout=harness.DEADLINE_S) == 4, p.log.read_text()
    steps = max(int(s.name) for s in (w.run_dir("killed") / "checkpoints").iterdir())
    w.brood("run", config, "--name", "calm", *SETTINGS, "--set", f"run.env_steps={steps}")
    calm, killed = (outcome(w.run_dir(name)) for name in ("calm", "killed"))
    for files in (calm, killed):  # their lengths are in it
        files.pop("run.state")
    harness.assert_same_files(calm, killed)


if __name__ == "__main__":
    harness.main()
