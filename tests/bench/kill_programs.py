#!/usr/bin/env python3
"""Kill agents that are programs at random moments, and compare each run with a calm one.

    tests/bench/kill_programs.py [EXAMPLE ...] [--python PYTHON] [--kills 100] [--seed 1]

Every example of tests/examples/agents in Python is trained twice on simple_spread, with large
networks: the less often their block is copied, the more requests does the next process do again.
Prints a line per example: kills, the most requests that one process
repeated, and whether weights, metrics and logs are equal. Exit 1 if any differs.
"""
import argparse
import pathlib
import random
import signal
import sys
import tempfile
import time

from programs import AGENTS, events, has, ready, start, status

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))

from signals import signal_process

CONFIG = """
env: {{id: simple_spread, copies: 4}}
run: {{env_steps: {steps}, seed: 3}}
experience: {{{rows}}}
checkpoint: {{every_env_steps: 100000000}}
defaults:
  algorithm: program
  command: [{python}, {example}]
  actor: {{hidden: {hidden}}}
  critic: {{hidden: {hidden}}}
  settings: {settings}
  restart: {{max_restarts: 1000000, delay: 0s}}
"""
DRAWN = "capacity: 20000, batch_size: 16, warmup: 400, update_every: 8"
WINDOW = "update_every: 32"
# example: (rows, environment steps)
CASES = {"numpy_q": (DRAWN, 8000), "dqn": (DRAWN, 8000), "dueling_dqn": (DRAWN, 8000),
         "ppo": (WINDOW, 30000), "mappo_bonus": (WINDOW, 30000),
         "recurrent_ppo": (WINDOW, 30000), "maddpg": (DRAWN, 8000)}


def outcome(folder, run):
    """The bytes that must be equal: weights, and what was measured and logged but times."""
    top = pathlib.Path(folder) / run
    last = max((top / "checkpoints").iterdir(), key=lambda p: int(p.name))
    found = {str(p.relative_to(last)): p.read_bytes() for p in last.rglob("*")
             if p.is_file() and (".data-" in p.name or p.name.endswith(".index"))}
    lines = [line.split(",") for line in
             (top / "metrics" / "progress.csv").read_text().splitlines()]
    kept = [i for i, name in enumerate(lines[0]) if not name.startswith("time/")]
    found["progress.csv"] = [[row[i] for i in kept] for row in lines]
    return found


def kill_some(folder, run, p, n, draws):
    """Kills agents of a run at random moments; their number."""
    killed = 0
    while p.poll() is None and killed < n:
        time.sleep(draws.uniform(0.05, 0.4))
        agents = [a for a in status(folder, run)["agents"]
                  if a.get("pid") and a["state"] in ("idle", "busy")]
        if len(agents) == 3 and ready(folder, run) >= 3:
            try:
                signal_process(draws.choice(agents)["pid"], signal.SIGKILL)
                killed += 1
            except ProcessLookupError:
                pass
    return killed


def try_one(folder, name, a, draws):
    rows, steps = CASES[name]
    config = pathlib.Path(folder) / f"{name}.yaml"
    hidden = "[60000]" if name == "numpy_q" else "[1024, 1024]"
    settings = "{epochs: 1}" if rows == WINDOW else "{}"
    config.write_text(CONFIG.format(steps=steps, rows=rows, python=a.python, hidden=hidden, settings=settings,
                                    example=AGENTS / f"{name}.py"))
    if start(folder, config, f"{name}_calm", {}).wait() != 0:
        print(f"{name}: the calm run fails", flush=True)
        return False
    p = start(folder, config, f"{name}_killed", {})
    killed = kill_some(folder, f"{name}_killed", p, a.kills, draws)
    code = p.wait()
    seen = [e for _, e in events(folder, f"{name}_killed")]
    replayed = max(int(e.get("replayed", 0)) for e in seen)
    same = code == 0 and outcome(folder, f"{name}_calm") == outcome(folder, f"{name}_killed")
    print(f"{name:14} {killed} killed, {sum(e.get('event') == 'respawn' for e in seen)} respawns, "
          f"up to {replayed} requests repeated: {'equal' if same else f'DIFFERS (exit {code})'}",
          flush=True)
    return same


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("examples", nargs="*", default=[])
    parser.add_argument("--python", default="python3")
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    a = parser.parse_args()
    draws = random.Random(a.seed)
    names = a.examples or [n for n in CASES if n == "numpy_q" or has(a.python, "torch")]
    with tempfile.TemporaryDirectory(prefix="brood-bench-") as folder:
        same = [try_one(folder, name, a, draws) for name in names]
    sys.exit(0 if all(same) else 1)


if __name__ == "__main__":
    main()
