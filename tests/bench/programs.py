#!/usr/bin/env python3
"""Measure what agents that are programs cost, beside one of brood's own: starts, respawns, memory
and whole runs, with a prepared process and without one.

    tests/bench/programs.py [--python PYTHON] [--kills N] [--many N]

PYTHON has NumPy, msgpack and torch (the lines of those that it lacks are left out). All figures
are of one machine in one run; the last columns are ratios to brood's own agent. The supervisor's
time depends on how long a run lasts: it wakes up for each answer where fast agents' answers come
together, and finds its caches cold. So its last column compares it with that of brood's own agent
with wider layers, which learns about as slowly as a program. With --many N: N agents of one
program in one run, up, killed at once, and compared with a calm run.
"""
import argparse
import datetime
import json
import os
import pathlib
import resource
import signal
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "support"))
from signals import signal_process

BROOD = os.environ.get("BROOD_BIN", str(ROOT / "scripts" / "brood"))
AGENTS = ROOT / "tests" / "examples" / "agents"
ENV = "env: {{id: simple_spread, params: {{agents: {n}}}}}\n"
CONFIG = """
run: {{env_steps: {steps}, seed: 1}}
experience: {{capacity: 20000, batch_size: {batch}, warmup: 1000, update_every: 100}}
checkpoint: {{every_env_steps: 1000000}}
defaults:
  {agent}
  restart: {{max_restarts: 1000000, delay: 0s}}
"""


def program(python, name):
    return f"algorithm: program\n  command: [{python}, {AGENTS / name}]"


def has(python, module):
    return subprocess.run([python, "-c", f"import msgpack, {module}"], capture_output=True,
                          check=False).returncode == 0


def status(folder, run):
    out = subprocess.run([BROOD, "status", run, "--json", "--runs-dir", folder],
                         capture_output=True, text=True, check=False).stdout
    return json.loads(out.splitlines()[0]) if out.startswith("{") else {"agents": []}


def events(folder, run):
    """(seconds, {key: value}) of each line of the journal."""
    path = pathlib.Path(folder) / run / "journal"
    for line in path.read_text().splitlines() if path.exists() else ():
        when, *pairs = line.split(" ")
        at = datetime.datetime.fromisoformat(when.replace("Z", "+00:00")).timestamp()
        yield at, dict(p.split("=", 1) for p in pairs if "=" in p)


def ready(folder, run):
    return sum(e.get("event") == "ready" for _, e in events(folder, run))


def wait(condition):
    while not condition():
        time.sleep(0.01)


def unshared_bytes(pid):
    """What would be free if the process ended."""
    with open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as f:
        return sum(int(line.split()[1]) << 10 for line in f if line.startswith("Private_"))


def command(folder, env, *words, **more):
    """Starts brood, in a session of its own; env: variables besides those of this process."""
    return subprocess.Popen([BROOD, *words, "-q", "--runs-dir", folder],
                            env={**os.environ, **env}, stdout=subprocess.DEVNULL,
                            start_new_session=True, **more)


def start(folder, config, run, env, *more):
    return command(folder, env, "run", config, "--name", run, *more)


def processors_time(pid, before):
    """Seconds that a process has used; `before` if it is gone."""
    try:
        stat = pathlib.Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return before
    return sum(map(int, stat.rsplit(")", 1)[1].split()[11:13])) / os.sysconf("SC_CLK_TCK")


def run_to_its_end(folder, config, run, env):
    """Processors' time of the supervisor alone, without its start."""
    p = start(folder, config, run, env)
    wait(lambda: ready(folder, run) == 3)
    pid = next(e["pid"] for _, e in events(folder, run) if e.get("event") == "start")
    began = used = processors_time(pid, 0)
    while p.poll() is None:
        used = processors_time(pid, used)
        time.sleep(0.005)
    return used - began


def measure(folder, name, agent, env, kills):
    config = pathlib.Path(folder) / f"{name}.yaml"
    config.write_text(ENV.format(n=3) + CONFIG.format(steps=100000, batch=256, agent=agent))
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    supervisor = run_to_its_end(folder, config, f"{name}_whole", env)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    found = {"run": after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime,
             "supervisor": supervisor}

    config.write_text(ENV.format(n=3) + CONFIG.format(steps=100000000, batch=256, agent=agent))
    run, began = f"{name}_killed", time.time()
    p = start(folder, config, run, env)
    wait(lambda: ready(folder, run) == 3)
    found["start"] = max(at for at, e in events(folder, run) if e.get("event") == "ready") - began
    for i in range(kills):
        wait(lambda: any(a["name"] == "agent_0" and a.get("pid") for a in
                         status(folder, run)["agents"]))
        pid = next(a["pid"] for a in status(folder, run)["agents"] if a["name"] == "agent_0")
        signal_process(pid, signal.SIGKILL)
        wait(lambda n=4 + i: ready(folder, run) >= n)
    seen = [(at, e["event"]) for at, e in events(folder, run) if e.get("agent") == "agent_0"
            and e.get("event") in ("exit", "ready")]
    found["respawn"] = statistics.median(b[0] - a[0] for a, b in zip(seen, seen[1:])
                                         if a[1] == "exit")
    found["memory"] = statistics.mean(unshared_bytes(a["pid"])
                                      for a in status(folder, run)["agents"] if a.get("pid"))
    subprocess.run([BROOD, "stop", run, "--runs-dir", folder], capture_output=True, check=False)
    p.wait()
    return found


def table(folder, a):
    cases = [("brood's own (iql)", "own", "algorithm: iql", {}),
             ("the same, wider", "wider", "algorithm: iql\n  critic: {hidden: [256, 256]}", {})]
    for module, example in (("numpy", "numpy_q.py"), ("torch", "dqn.py")):
        if has(a.python, module):
            for words, env in (("", {}), (", executed", {"BROOD_PREPARED": "no"})):
                cases.append((f"{module}{words}", module + str(len(env)),
                              program(a.python, example), env))
    print(f"{'agent':20} {'start s':>9} {'respawn ms':>11} {'memory MB':>10} {'run, CPU s':>11}"
          f" {'supervisor':>11} {'start':>7} {'respawn':>8} {'memory':>7} {'run':>6} {'sup.':>5} {'to wider':>8}")
    own = wider = None
    for words, name, agent, env in cases:
        m = measure(folder, name, agent, env, a.kills)
        own = own or m
        wider = m if name == "wider" else wider
        print(f"{words:20} {m['start']:9.2f} {m['respawn'] * 1e3:11.1f} {m['memory'] / 1e6:10.1f}"
              f" {m['run']:11.2f} {m['supervisor']:11.2f} " + " ".join(
                  f"{m[k] / own[k]:{w}.{d}f}" for k, w, d in (
                      ("start", 7, 1), ("respawn", 8, 1), ("memory", 7, 1), ("run", 6, 1),
                      ("supervisor", 5, 2))) +
              (f" {m['supervisor'] / wider['supervisor']:8.2f}" if wider else ""), flush=True)


def weights(folder, run):
    checkpoint = max((pathlib.Path(folder) / run / "checkpoints").iterdir(),
                     key=lambda p: int(p.name))
    return {p.relative_to(checkpoint): p.read_bytes() for p in checkpoint.rglob("*.data-*")}


def many(folder, a):
    """N agents: up, killed at once, and the bytes of a calm run."""
    config = pathlib.Path(folder) / "many.yaml"
    example = "dqn.py" if has(a.python, "torch") else "numpy_q.py"
    config.write_text(ENV.format(n=a.many) + CONFIG.format(
        steps=4000, batch=16, agent=program(a.python, example)))
    for run in ("calm", "killed"):
        began = time.time()
        p = start(folder, config, run, {})
        wait(lambda run=run: ready(folder, run) >= a.many or p.poll() is not None)
        print(f"{run}: {a.many} agents of {example} ready after {time.time() - began:.1f} s",
              flush=True)
        if run == "killed":
            pids = [x["pid"] for x in status(folder, run)["agents"] if x.get("pid")]
            used = sum(map(unshared_bytes, pids))
            killed_at = time.time()
            for pid in pids:
                signal_process(pid, signal.SIGKILL)
            wait(lambda: ready(folder, "killed") >= a.many + len(pids) or p.poll() is not None)
            print(f"{len(pids)} killed at once, {used / 1e6:.0f} MB of their own; ready again "
                  f"after {time.time() - killed_at:.1f} s", flush=True)
        if p.wait() != 0:
            sys.exit(f"{run}: exit code {p.returncode}")
    same = weights(folder, "calm") == weights(folder, "killed")
    print("equal bytes" if same else "DIFFERENT bytes")
    return same


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--python", default="python3")
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--many", type=int, default=0)
    a = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="brood-bench-") as folder:
        if a.many:
            sys.exit(0 if many(folder, a) else 1)
        table(folder, a)


if __name__ == "__main__":
    main()
