"""The same configuration and seed give the same bytes, on a busy machine and with deaths."""
import json
import pathlib
import random
import subprocess
import sys
import time

import harness


def outcome(run):
    """What must be equal: final checkpoints, and progress.csv without its times."""
    steps = max(int(p.name) for p in (run / "checkpoints").iterdir() if p.name.isdigit())
    files = harness.tree_bytes(run / "checkpoints" / str(steps))
    assert len(files) >= 9, files.keys()
    files["progress.csv"] = harness.progress_without_times(run)
    return files


def test_same_bytes_beside_a_busy_loop_on_one_core(w):
    config = w.small()
    w.brood("run", config, "--name", "calm")
    busy = subprocess.Popen(["taskset", "-c", "0", sys.executable, "-c",
                             "while True: pass"])
    try:
        w.brood("run", config, "--name", "busy", prefix=("taskset", "-c", "0"))
    finally:
        busy.kill()
        busy.wait()
    harness.assert_same_files(outcome(w.run_dir("calm")), outcome(w.run_dir("busy")))


def test_a_stop_in_an_evaluation_changes_nothing(w):
    """The resume plays it again, and its requests are counted once. Nearly all of the time is
    that of evaluations; without an update the counts of requests go on to the end."""
    config = w.small(steps=harness.FOREVER, evaluate=4)
    never_learn = ("--set", "experience.warmup=20000")
    p = w.start("run", config, "--name", "cut", *never_learn)
    harness.wait_until("the socket", lambda: (w.run_dir("cut") / "control.sock").exists())
    harness.wait_until("the rounds", lambda: w.status("cut")["env_steps"] > 0)
    said, = harness.json_lines(w.brood("stop", "cut", "--json")[0])
    assert p.wait(timeout=harness.DEADLINE_S) == 4, p.log.read_text()
    length = ("--set", f"run.env_steps={said['env_steps'] + 8}")
    w.brood("resume", "cut", *length)
    w.brood("run", config, "--name", "calm", *never_learn, *length)
    harness.assert_same_files(outcome(w.run_dir("calm")), outcome(w.run_dir("cut")))


def test_the_other_seed_gives_other_bytes(w):
    config = w.small(steps=400)
    w.brood("run", config, "--name", "one")
    w.brood("run", config, "--name", "two", "--seed", "2")
    assert outcome(w.run_dir("one")) != outcome(w.run_dir("two"))


AGENTS = ("agent_0", "agent_1", "agent_2")
KILLS_EACH = 8 if not harness.SANITIZED else 4


def ready_pids(p):
    """agent -> pid of the live processes that are ready, from the --json events."""
    found = {}
    for event in harness.json_lines(pathlib.Path(str(p.log) + ".out").read_text()):
        if event["event"] == "ready":
            found[event["agent"]] = event["pid"]
        elif event["event"] in ("exit", "spawn", "respawn"):
            found.pop(event["agent"], None)
    return {agent: pid for agent, pid in found.items() if harness.alive(pid)}


def kill_at_random(p, left, draw):
    """Kill one of the agents that have to die more often: some at once, while they start or
    replay, most at a random moment after they are ready."""
    name = draw.choice([n for n in AGENTS if left[n]])
    if draw.random() < 0.2:
        pid = harness.wait_until(f"a process of {name}", lambda: p.poll() is not None or
                                 harness.agents_of(p.pid).get(name))
    else:
        pid = harness.wait_until(f"{name} to be ready", lambda: p.poll() is not None or
                                 ready_pids(p).get(name))
        until = time.monotonic() + draw.uniform(0, 0.02) * harness.PATIENCE
        while time.monotonic() < until:
            pass
    if pid is not True:
        harness.kill_and_wait(pid)
        left[name] -= 1


def test_kills_of_each_agent_change_nothing(w):
    config = w.small(steps=harness.FOREVER, evaluate=1000, checkpoint=1000)
    # Kills that come faster than an agent can learn must not end the run.
    patient = ("--set", "defaults.restart={max_restarts: 1000, delay: 0s}")
    p = w.start("run", config, "--name", "killed", "--json", *patient)
    left = dict.fromkeys(AGENTS, KILLS_EACH)
    draw = random.Random(7)
    while any(left.values()) and p.poll() is None:
        kill_at_random(p, left, draw)
    steps = harness.set_last_step(w, "killed", 1000)
    p.wait(timeout=harness.DEADLINE_S)
    out = pathlib.Path(str(p.log) + ".out").read_text()
    assert p.returncode == 0, p.log.read_text()
    done = json.loads(out.splitlines()[-1])
    assert done["env_steps"] == steps, done
    assert done["restarts"] == KILLS_EACH * len(AGENTS), done
    w.brood("run", config, "--name", "calm", *patient, "--set", f"run.env_steps={steps}")
    harness.assert_same_files(outcome(w.run_dir("calm")), outcome(w.run_dir("killed")))


if __name__ == "__main__":
    harness.main()
