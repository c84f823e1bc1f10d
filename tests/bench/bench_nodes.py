#!/usr/bin/env python3
"""What nodes cost a run: environment steps a second on one node behind a relay that adds
latency, beside the same run without nodes; bytes on the wire; the share of the encryption; and
many nodes: how long until all are up, the time of a round, memory.

    BROOD_BUILD_DIR=build tests/bench/bench_nodes.py [--seconds 5] [--nodes 64]
"""
import argparse
import json
import os
import pathlib
import socket
import statistics
import sys
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
os.environ.setdefault("BROOD_BUILD_DIR", str(ROOT / "build"))
os.environ.setdefault("BROOD_SOURCE_DIR", str(ROOT))
sys.path.insert(0, str(ROOT / "tests/integration"))
import harness  # noqa: E402
from network import Relay  # noqa: E402
from test_cluster import nodes_of  # noqa: E402

ROUND_TRIPS_MS = (0, 0.2, 1, 5)
COPIES = (32, 256, 2048)
RUN = """\
extends: {root}/configs/simple_spread.yaml
run: {{env_steps: 100000000}}
env: {{copies: {copies}}}
evaluation: {{every_env_steps: 0}}
checkpoint: {{every_env_steps: 0}}
"""
# Many small agents, which only act: what is left is the round itself.
MANY = """\
run: {{env_steps: 100000000}}
env: {{id: constant_reward, copies: 1, max_steps: 5, params: {{agents: {agents}}}}}
experience: {{capacity: 100000, batch_size: 8, warmup: 100000, update_every: 20}}
evaluation: {{every_env_steps: 0}}
checkpoint: {{every_env_steps: 0}}
defaults: {{algorithm: ddpg, actor: {{hidden: [4]}}, critic: {{hidden: [4], input: own}}}}
"""


class Running:
    """A run that is measured while it lives, and stopped."""

    def __init__(self, w, text, *args):
        self.w = w
        self.name = f"run-{len(w.started)}"
        self.began = time.monotonic()
        self.p = w.start("run", w.write(f"{self.name}.yaml", text), "--name", self.name, *args)

    def __enter__(self):
        harness.wait_until("steps", lambda: self.p.poll() is not None or self.steps() > 0)
        assert self.p.poll() is None, self.p.log.read_text()
        self.up_s = time.monotonic() - self.began
        return self

    def __exit__(self, *_):
        harness.kill(self.p.pid, 15)
        self.p.wait()

    def steps(self):
        p = self.w.start("status", self.name, "--json")
        return json.loads(harness.output(p))["env_steps"] if p.wait() == 0 else 0

    def rate(self, seconds, warm=0):
        """Environment steps a second, from the step `warm` on: the best of so many seconds,
        since others may use the machine."""
        harness.wait_until("warmth", lambda: self.steps() >= warm)
        best, at, before = 0.0, time.monotonic(), self.steps()
        for _ in range(int(seconds)):
            time.sleep(1)
            now, steps = time.monotonic(), self.steps()
            best = max(best, (steps - before) / (now - at))
            at, before = now, steps
        return best


def local(more=""):
    return ("--set", f"cluster={{launcher: local, nodes: 1{more}}}")


def round_trip_us(relay, w):
    """Of one byte there and back through the relay, the best of 200."""
    with socket.create_server(("127.0.0.1", 0)) as echo:
        def serve():
            s, _ = echo.accept()
            s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            while data := s.recv(10):
                s.sendall(data)
        threading.Thread(target=serve, daemon=True).start()
        (w.path / "relay.target").write_text(f"127.0.0.1:{echo.getsockname()[1]}\n")
        host, port = relay.address.split(":")
        took = []
        with socket.create_connection((host, int(port))) as s:
            s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for _ in range(200):
                at = time.perf_counter()
                s.sendall(b"x")
                s.recv(1)
                took.append((time.perf_counter() - at) * 1e6)
    return min(took)


def measure(w, copies, seconds, *args):
    text = RUN.format(root=ROOT, copies=copies)
    # From the first updates on: 1024 rows, in rounds of `copies`.
    with Running(w, text, *args) as run:
        return run.rate(seconds, warm=4 * max(copies, 1024))


def latencies(w, seconds, all_copies):
    """Without nodes, on loopback, and behind a relay with each round trip; beside the better of
    the two runs without nodes."""
    relay = Relay(w)
    for copies in all_copies:
        def one(what, *args):
            rate = measure(w, copies, seconds, *args)
            rows.append((what, rate))
            return rate
        rows = []
        here = one("none")
        one("loopback", *local())
        one("loopback, encrypt: false", *local(", encrypt: false"))
        for ms in ROUND_TRIPS_MS:
            relay.say(f"delay {int(ms * 500)}")
            us = round_trip_us(relay, w)
            one(f"relay, +{ms} ms ({us:.0f} us measured)", *relay.cluster(1))
        here = max(here, one("none, again"))
        for what, rate in rows:
            print(f"| {copies} | {what} | {rate:.0f} | {rate / here:.2f} |", flush=True)


def wire(w, seconds):
    """Bytes a step in each direction."""
    relay = Relay(w)
    with Running(w, RUN.format(root=ROOT, copies=256), *relay.cluster(1)) as run:
        harness.wait_until("warmth", lambda: run.steps() >= 8192)
        before, at = relay.carried(), run.steps()
        time.sleep(seconds)
        after, steps = relay.carried(), run.steps() - at
    up, down = ((after[i] - before[i]) / steps for i in range(2))
    print(f"bytes a step: {down:.0f} to the node, {up:.0f} from it ({steps} steps)", flush=True)
    return up, down


def pss_kib(pid):
    text = pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text()
    return int(text.split("Pss:")[1].split()[0])


def many(w, nodes, each, seconds):
    """Nodes on loopback with that many agents each."""
    text = MANY.format(agents=nodes * each)
    with Running(w, text, "--set", f"cluster={{launcher: local, nodes: {nodes}, silence: 300s}}") as run:
        rate = run.rate(seconds)
        pids = nodes_of(run.p.pid)
        pss = [pss_kib(pid) for pid in pids]
        supervisor = pss_kib(harness.supervisor_of(run.p.pid))
    round_ms = 1 / rate * 1000 if rate else float("nan")
    print(f"| {len(pids)} | {nodes * each} | {run.up_s:.1f} | {round_ms:.1f} | "
          f"{round_ms / (nodes * each) * 1000:.0f} | {statistics.mean(pss) / 1024:.1f} | "
          f"{supervisor / 1024:.0f} |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--seconds", type=int, default=5, help="of each measurement")
    parser.add_argument("--copies", type=int, nargs="+", default=COPIES)
    parser.add_argument("--nodes", type=int, default=64)
    parser.add_argument("--agents", type=int, default=8, help="of each node")
    parser.add_argument("--only", choices=("latency", "wire", "many"))
    args = parser.parse_args()
    w = harness.Workplace()
    try:
        if args.only in (None, "latency"):
            print("| copies | node | steps/s | beside none |\n|---|---|---|---|")
            latencies(w, args.seconds, args.copies)
        if args.only in (None, "wire"):
            wire(w, args.seconds)
        if args.only in (None, "many"):
            print("| nodes | agents | up, s | round, ms | us an agent | node's PSS, MB | "
                  "supervisor's |\n|---|---|---|---|---|---|---|")
            for n in (4, 16, 32, 64, 128):
                if n <= args.nodes:
                    many(w, n, args.agents, args.seconds)
        print(f"load {os.getloadavg()[0]:.1f} on {len(os.sched_getaffinity(0))} cores")
    finally:
        w.close()


if __name__ == "__main__":
    main()
