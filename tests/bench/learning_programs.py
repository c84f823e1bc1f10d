#!/usr/bin/env python3
"""Measure how well the examples in Python learn: train each with several seeds, and evaluate it.

    tests/bench/learning_programs.py [CASE ...] [--seeds 3] [--python PYTHON] [--list]

Prints a line per case and seed: seconds of training, the mean return of greedy policies (of the
final checkpoint, over --episodes), and whether it reaches the case's bar. PYTHON has NumPy,
msgpack and, but for numpy_q, torch. Exit 1 if a bar is missed. All cases take about an
hour and a half on two busy cores.
"""
import argparse
import json
import os
import pathlib
import sys
import tempfile
import time

from learning import ROOT, brood

AGENTS = ROOT / "tests" / "examples" / "agents"


def bridged(what):
    return {"command": ["python3", str(ROOT / "scripts" / "pettingzoo_bridge.py"), str(ROOT / what)]}


CART_POLE = bridged("tests/examples/cart_pole.py:CartPole")
WINDOWS = {"env": {**CART_POLE, "copies": 8}, "experience": {"update_every": 1024}}
REPLAY = {"env": {**CART_POLE, "copies": 4},
          "experience": {"capacity": 10000, "batch_size": 128, "warmup": 1000, "update_every": 8}}
# The loss is of squares: with errors that count linearly beyond 1 the ends of episodes, one row in
# twenty, weigh too little against values that grow towards them, and those run away.
Q = {"discount": 0.99, "polyak": 0.02, "clip_norm": "none", "actor": {"hidden": [256]},
     "critic": {"hidden": [120, 84]}, "optimizer": {"learning_rate": 0.00025},
     "settings": {"epsilon": "1 to 0.05 over 200000"}}
SPREAD = {"id": "simple_spread", "reward": "team_mean"}
# name: (environment steps, bar, the configuration, that of the agents)
CASES = {
    "numpy_q": (400000, 450, REPLAY, Q),
    "dqn": (400000, 450, REPLAY, {**Q, "actor": {"hidden": [120, 84]}}),
    "dueling_dqn": (400000, 450, REPLAY, {**Q, "settings": {**Q["settings"], "huber": 0}}),
    "ppo": (150000, 450, WINDOWS, {
        "discount": 0.99, "optimizer": {"learning_rate": "0.001 to 0 over 150000"},
        "settings": {"entropy": 0, "minibatches": 4}}),
    "recurrent_ppo": (100000, 0.9, {
        "env": {**bridged("tests/bench/memory_tasks.py:Recall"), "copies": 16},
        "experience": {"update_every": 1056}}, {
            "optimizer": {"learning_rate": 0.001}, "settings": {"minibatches": 4}}),
    "mappo_bonus": (300000, -17, {
        "env": {**SPREAD, "copies": 32}, "experience": {"update_every": 800}}, {
            "discount": 0.9, "actor": {"hidden": [128, 128]}, "critic": {"hidden": [128, 128]},
            "optimizer": {"learning_rate": "0.0007 to 0 over 300000"},
            "settings": {"minibatches": 4}}),
    "maddpg": (300000, -17, {
        "env": {**SPREAD, "copies": 32}, "experience": {"batch_size": 1024, "update_every": 100}},
               {}),
}


def one_seed(options, folder, name, seed):
    steps, _, config, agents = CASES[name]
    file = pathlib.Path(folder, f"{name}.json")
    file.write_text(json.dumps({
        "run": {"env_steps": steps}, **config, "evaluation": {"every_env_steps": 0},
        "checkpoint": {"every_env_steps": steps},
        "defaults": {"algorithm": "program",
                     "command": [options.python, str(AGENTS / f"{name}.py")], **agents}}))
    where = ["--runs-dir", folder, "--json"]
    changes = [w for s in options.set for w in ("--set", s)]
    run = f"{name}{seed}"
    began = time.monotonic()
    brood("run", file, "--name", run, "--seed", seed, "-q", *changes, *where)
    seconds = time.monotonic() - began
    return seconds, brood("eval", run, "--episodes", options.episodes, *where)["team_return_mean"]


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("cases", nargs="*", metavar="CASE", help=f"of {', '.join(CASES)}")
    p.add_argument("--seeds", type=int, default=3)
    p.add_argument("--first-seed", type=int, default=1)
    p.add_argument("--episodes", type=int, default=100)
    p.add_argument("--python", default=os.environ.get("BROOD_TORCH_PYTHON", "python3"))
    p.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    p.add_argument("--list", action="store_true", help="print the cases and their bars")
    options = p.parse_args()
    unknown = [name for name in options.cases if name not in CASES]
    if unknown:
        p.error(f"there is no case {unknown[0]}: {', '.join(CASES)}")
    if options.list:
        for name, (steps, bar, _, _) in CASES.items():
            print(f"{name:14s} {steps:7d} steps  bar {bar}")
        return 0
    missed = 0
    with tempfile.TemporaryDirectory(prefix="brood-learning-") as folder:
        for name in options.cases or CASES:
            for seed in range(options.first_seed, options.first_seed + options.seeds):
                seconds, found = one_seed(options, folder, name, seed)
                missed += found < CASES[name][1]
                print(f"{name:14s} seed {seed}  {seconds:6.0f} s  return {found:8.2f}  bar "
                      f"{CASES[name][1]:6}  {'PASS' if found >= CASES[name][1] else 'FAIL'}",
                      flush=True)
    return missed > 0


if __name__ == "__main__":
    sys.exit(main())
