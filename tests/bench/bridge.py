#!/usr/bin/env python3
"""Measure steps per second through the bridge, with agents that act at random, against the
same environments driven directly in Python: one copy in one process, and 16 copies in two
(against two processes that drive it directly).

    BROOD_BUILD_DIR=build tests/bench/bridge.py [--rounds N] [ENVIRONMENT...]

ENVIRONMENT is a part of a name below. The two sides take turns, N times; printed are the
median of the N ratios, and the smallest and largest. One copy is played on one core, on which
nothing ever happens at the same time anyhow; 16 on two. As root, everything has a real-time
priority, so that other processes do not change the figures. Environments of packages that
this Python lacks are left out.
"""
import argparse
import csv
import importlib.util
import json
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
BUSY = "tests/bench/busy_env.py"
ENVIRONMENTS = {  # name: (environment, params, goal of the ratio with one copy)
    "busy: 2 agents, lists, 200 us": (BUSY, {}, 0.7),
    "busy: 3 agents, arrays, 200 us": (f"{BUSY}:Arrays", {"agents": 3, "width": 18}, 0.7),
    "cart pole: 1 agent, 2 us": ("tests/examples/cart_pole.py:CartPole", {}, None),
    "Gymnasium's CartPole": ("CartPole-v1", {}, None),
    "MPE2's simple_spread": ("mpe2.simple_spread_v3", {}, None),
}
PACKAGES = {"CartPole-v1": "gymnasium", "mpe2.simple_spread_v3": "mpe2"}
DIRECT_S, RUN_S = 0.5, 1.0
REALTIME = 10

sys.path.insert(0, str(ROOT / "scripts"))


def drive(environment, params):
    """Steps per second of a process that does nothing else."""
    import pettingzoo_bridge

    env, draw, steps = pettingzoo_bridge.find_maker(environment)(**params), random.Random(1), 0
    begin = time.perf_counter()
    while time.perf_counter() < begin + DIRECT_S:
        env.reset(seed=steps)
        if not hasattr(env, "possible_agents"):
            n, over = env.action_space.n, False
            while not over:
                _, _, ended, cut, _ = env.step(draw.randrange(n))
                over, steps = ended or cut, steps + 1
            continue
        n = env.action_space(env.possible_agents[0]).n
        while env.agents:
            env.step({a: draw.randrange(n) for a in env.agents})
            steps += 1
    return steps / (time.perf_counter() - begin)


def prepare(cores):
    """What a child does before it becomes another program."""
    def do():
        os.sched_setaffinity(0, cores)
        if os.geteuid() == 0:
            os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(REALTIME))
    return do


def directly(environment, params, cores):
    """The sum of the rates of one process per core."""
    command = [sys.executable, __file__, "--drive", environment, json.dumps(params)]
    started = [subprocess.Popen(command, preexec_fn=prepare({core}), cwd=ROOT, text=True,
                                stdout=subprocess.PIPE) for core in cores]
    return sum(float(p.communicate()[0]) for p in started)


def bridged(environment, params, copies, cores, steps):
    """Steps per second of a run: the median of its rows of metrics."""
    with tempfile.TemporaryDirectory(prefix="brood-bench-") as runs:
        sets = [f"env.command=[{sys.executable}, scripts/pettingzoo_bridge.py, {environment}]",
                f"env.params={json.dumps(params)}", f"env.directory={ROOT}",
                f"env.copies={copies}", f"env.processes={len(cores)}",
                f"run.env_steps={12 * steps}", f"log.every_env_steps={steps}"]
        subprocess.run([BROOD, "run", HERE / "bridge.yaml", "--runs-dir", runs, "-q",
                        "--name", "b", *(w for s in sets for w in ("--set", s))],
                       check=True, preexec_fn=prepare(cores))
        with open(pathlib.Path(runs) / "b" / "metrics" / "progress.csv") as f:
            rows = list(csv.DictReader(f))
        return statistics.median(float(r["time/env_steps_per_second"]) for r in rows[1:])


def compare(name, copies, cores, rounds):
    environment, params, goal = ENVIRONMENTS[name]
    direct, through = [], []
    for _ in range(rounds):
        direct.append(directly(environment, params, cores))
        # About RUN_S, at the last rate known; a row is a twelfth of it, in whole rounds.
        rate = through[-1] if through else direct[-1] / 3
        steps = max(int(rate * RUN_S / 12 / copies), 1) * copies
        through.append(bridged(environment, params, copies, sorted(cores), steps))
    ratios = sorted(t / d for t, d in zip(through, direct))
    text = f" (goal {goal})" if goal is not None else ""
    print(f"{name:31} {copies:2} in {len(cores)}: directly {statistics.median(direct):7.0f} "
          f"steps/s, through the bridge {statistics.median(through):7.0f}: "
          f"{statistics.median(ratios):.2f} of it ({ratios[0]:.2f} to {ratios[-1]:.2f}){text}",
          flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--drive", nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("environments", nargs="*")
    args = parser.parse_args()
    if args.drive is not None:
        print(drive(args.drive[0], json.loads(args.drive[1])))
        return
    cores = sorted(os.sched_getaffinity(0))
    for name, (environment, _, _) in ENVIRONMENTS.items():
        if args.environments and not any(part in name for part in args.environments):
            continue
        package = PACKAGES.get(environment)
        if package is not None and importlib.util.find_spec(package) is None:
            continue
        compare(name, 1, cores[-1:], args.rounds)
        compare(name, 16, cores[:2], args.rounds)


if __name__ == "__main__":
    main()
