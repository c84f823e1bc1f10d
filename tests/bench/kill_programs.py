#!/usr/bin/env python3
"""Kill processes of runs at random moments, and compare each run with a calm one.

    tests/bench/kill_programs.py [EXAMPLE ...] [--python PYTHON] [--kills 100] [--seed 1]
                                 [--steps N] [--way agents|supervisor|fork|nodes]

Every example of tests/examples/agents in Python is trained on simple_spread, calm, and

    agents      with its agents killed (--kills),
    supervisor  with the supervisor killed up to five times, and resumed,
    fork        forked from a checkpoint in the middle,
    nodes       on three nodes of this machine, with its agents killed.

BROOD_SNAPSHOT_AFTER makes snapshots rare, so that the next process repeats up to REPEATED
requests. Prints a line per example and way: kills, the most requests that one process repeated,
and whether weights and metrics are equal (of forks only weights). Exit 1 if any differs, or if
fewer than LEAST were repeated in a run whose agents were killed 50 times or more.
"""
import argparse
import pathlib
import random
import signal
import sys
import tempfile
import time

from programs import AGENTS, command, events, has, ready, start, status, wait

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))

from signals import signal_process

CONFIG = """
env: {{id: simple_spread, copies: 4}}
run: {{env_steps: {steps}, seed: 3}}
experience: {{{rows}}}
checkpoint: {{every_env_steps: {checkpoint}, max_to_keep: none}}
defaults:
  algorithm: program
  command: [{python}, {example}]
  discount: 0.9  # 0.99 lets values run away in windows of 8 steps
  actor: {{hidden: {hidden}}}
  critic: {{hidden: {hidden}}}
  settings: {settings}
  restart: {{max_restarts: 1000000, delay: 0s}}
"""
REPEATED, LEAST = 200, 50
RARE = {"BROOD_SNAPSHOT_AFTER": str(REPEATED)}
WAYS = ("agents", "supervisor", "fork", "nodes")
DRAWN = "capacity: 20000, batch_size: 16, warmup: 400, update_every: 8"
WINDOW = "update_every: 32"
# example: (rows, environment steps)
CASES = {"numpy_q": (DRAWN, 60000), "dqn": (DRAWN, 24000), "dueling_dqn": (DRAWN, 24000),
         "ppo": (WINDOW, 60000), "mappo_bonus": (WINDOW, 60000),
         "recurrent_ppo": (WINDOW, 60000), "maddpg": (DRAWN, 16000)}


def outcome(folder, run):
    """The bytes that must be equal: weights, and what was measured but times."""
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
        # now and then long enough for many updates, which the next process then repeats
        time.sleep(draws.uniform(0.02, 0.25) if draws.random() < 0.93 else draws.uniform(3, 8))
        agents = [a for a in status(folder, run)["agents"]
                  if a.get("pid") and a["state"] in ("idle", "busy")]
        if len(agents) == 3 and ready(folder, run) >= 3:
            try:
                signal_process(draws.choice(agents)["pid"], signal.SIGKILL)
                killed += 1
            except ProcessLookupError:
                pass
    return killed


def kill_supervisor(folder, run, p, n, draws):
    """Kills the run's supervisor n times and resumes the run; (kills, the last process)."""
    killed = before = 0
    while killed < n:
        wait(lambda b=before, q=p: ready(folder, run) >= b + 3 or q.poll() is not None)
        time.sleep(draws.uniform(0.2, 1.5))
        if p.poll() is not None:
            break
        pid = status(folder, run).get("pid")
        if not pid:
            continue  # it is over, or has not said so yet
        signal_process(pid, signal.SIGKILL)
        p.wait()
        killed += 1
        before = ready(folder, run)
        p = command(folder, RARE, "resume", run)
    return killed, p


def write_config(folder, name, a):
    rows, steps = CASES[name]
    steps = a.steps or steps
    config = pathlib.Path(folder) / f"{name}.yaml"
    config.write_text(CONFIG.format(
        steps=steps, rows=rows, python=a.python, example=AGENTS / f"{name}.py",
        checkpoint=steps // 4, settings="{epochs: 1}" if rows == WINDOW else "{}",
        hidden="[64]" if name == "numpy_q" else "[32, 32]"))
    return config


def go_way(way, folder, name, config, a, draws):
    """Returns (run, kills, exit code)."""
    run, killed = f"{name}_{way}", 0
    if way == "supervisor":
        p = start(folder, config, run, RARE)
        killed, p = kill_supervisor(folder, run, p, min(a.kills, 5), draws)
    elif way == "fork":
        at = sorted(int(p.name) for p in (pathlib.Path(folder) / f"{name}_calm" /
                                          "checkpoints").iterdir())[2]
        p = command(folder, RARE, "fork", f"{name}_calm@{at}", "--name", run)
    else:
        more = ("--set", "cluster={launcher: local, nodes: 3}") if way == "nodes" else ()
        p = start(folder, config, run, RARE, *more)
        killed = kill_some(folder, run, p, a.kills, draws)
    return run, killed, p.wait()


def try_one(folder, name, a, draws):
    config = write_config(folder, name, a)
    if start(folder, config, f"{name}_calm", {}).wait() != 0:
        print(f"{name}: the calm run fails", flush=True)
        return False
    calm, good = outcome(folder, f"{name}_calm"), True
    for way in a.way or WAYS:
        run, killed, code = go_way(way, folder, name, config, a, draws)
        seen = [e for _, e in events(folder, run)]
        repeated = max([int(e.get("replayed", 0)) for e in seen], default=0)
        found = outcome(folder, run) if code == 0 else {}
        differ = [k for k in calm if found.get(k) != calm[k]
                  and not (way == "fork" and k == "progress.csv")]  # which begins at the fork
        enough = repeated >= LEAST or killed < 50
        good = good and not differ and enough
        said = "equal" if not differ else f"DIFFERS: {differ[0]} (exit code {code})"
        print(f"{name:14} {way:10} {killed:4} killed, {repeated:4} requests repeated at most: "
              f"{said}{'' if enough else ', but too FEW repeated'}", flush=True)
    return good


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("examples", nargs="*", default=[])
    parser.add_argument("--python", default="python3")
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--steps", type=int, default=0, help="environment steps of each run")
    parser.add_argument("--way", action="append", choices=WAYS, help="only this one")
    a = parser.parse_args()
    draws = random.Random(a.seed)
    names = a.examples or [n for n in CASES if n == "numpy_q" or has(a.python, "torch")]
    with tempfile.TemporaryDirectory(prefix="brood-bench-") as folder:
        same = [try_one(folder, name, a, draws) for name in names]
    sys.exit(0 if all(same) else 1)


if __name__ == "__main__":
    main()
