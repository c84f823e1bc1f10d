#!/usr/bin/env python3
"""Measure joint steps per second through the bridge, with an environment that takes 200 us
per step and random agents, against the same environment driven directly in Python: one copy
in one process, and 16 copies in two (against two processes that drive it directly). Each is
measured several times alternately; prints medians and their ratio.

    BROOD_BUILD_DIR=build tests/bench/bridge.py
"""
import csv
import multiprocessing
import os
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
BROOD = pathlib.Path(os.environ.get("BROOD_BUILD_DIR", ROOT / "build")) / "supervisor" / "brood"
REPEATS, DIRECT_S, STEPS = 3, 1.5, 6000
GOAL = 0.7

sys.path.insert(0, str(HERE))
import busy_env


def drive(answer=None):
    """Steps per second of one process that does nothing else."""
    env, draw, steps = busy_env.Busy(), random.Random(1), 0
    begin = time.perf_counter()
    while time.perf_counter() < begin + DIRECT_S:
        env.reset(seed=steps)
        while env.agents:
            env.step({a: draw.randrange(5) for a in env.agents})
            steps += 1
    rate = steps / (time.perf_counter() - begin)
    if answer is not None:
        answer.put(rate)
    return rate


def drive_in(processes):
    answer = multiprocessing.Queue()
    started = [multiprocessing.Process(target=drive, args=(answer,)) for _ in range(processes)]
    for p in started:
        p.start()
    rate = sum(answer.get() for _ in started)
    for p in started:
        p.join()
    return rate


def bridged(copies, processes):
    """Steps per second of a run: the median of its rows of metrics."""
    steps = STEPS * processes
    with tempfile.TemporaryDirectory(prefix="brood-bench-") as runs:
        sets = [f"env.copies={copies}", f"env.processes={processes}",
                f"run.env_steps={steps}", f"log.every_env_steps={steps // 12}",
                f"env.directory={ROOT}"]
        subprocess.run([BROOD, "run", HERE / "bridge.yaml", "--runs-dir", runs, "-q",
                        "--name", "b", *(w for s in sets for w in ("--set", s))],
                       check=True, stderr=subprocess.DEVNULL)
        with open(pathlib.Path(runs) / "b" / "metrics" / "progress.csv") as f:
            rows = list(csv.DictReader(f))
        return statistics.median(float(r["time/env_steps_per_second"]) for r in rows[1:])


def main():
    for copies, processes in ((1, 1), (16, 2)):
        direct, through = [], []
        for _ in range(REPEATS):
            direct.append(drive_in(processes))
            through.append(bridged(copies, processes))
        d, t = statistics.median(direct), statistics.median(through)
        print(f"{copies:2} copies in {processes}: directly {d:7.0f} steps/s, through the "
              f"bridge {t:7.0f}: {t / d:.2f} of it (goal {GOAL})", flush=True)


if __name__ == "__main__":
    main()
