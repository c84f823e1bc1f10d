#!/usr/bin/env python3
"""Measure what nodes cost: the time of a run with three `local` nodes against that of the same
run without any, in turn, and the bytes that each node is sent for an environment step.

    BROOD_BUILD_DIR=build tests/bench/nodes.py [CONFIG] [--steps 60000] [--pairs 3] [--set KEY=VALUE]

Times are of whole runs; starting the nodes takes about half a second of them. A busy machine
slows both: only the ratio is of use.
"""
import argparse
import os
import pathlib
import re
import statistics
import subprocess
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BROOD = pathlib.Path(os.environ.get("BROOD_BUILD_DIR", ROOT / "build")) / "supervisor" / "brood"
CLUSTERS = {"here": "{launcher: none}", "nodes": "{launcher: local, nodes: 3}"}


def run(config, folder, where, steps, sets):
    """Seconds, and the bytes that were sent to each node."""
    began = time.monotonic()
    subprocess.run([BROOD, "run", config, "--name", where, "--runs-dir", folder,
                    "--set", f"run.env_steps={steps}", "--set", f"cluster={CLUSTERS[where]}",
                    *(word for s in sets for word in ("--set", s))],
                   check=True, stderr=subprocess.DEVNULL)
    took = time.monotonic() - began
    log = pathlib.Path(folder, where, "logs", "supervisor.log").read_text()
    return took, [int(n) for n in re.findall(r"node \d+: (\d+) bytes were sent", log)]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("config", nargs="?", default=ROOT / "configs" / "simple_spread.yaml")
    parser.add_argument("--steps", type=int, default=60000)
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--set", action="append", default=[])
    args = parser.parse_args()
    ratios = []
    for _ in range(args.pairs):
        with tempfile.TemporaryDirectory(prefix="brood-bench-") as folder:
            here, _ = run(args.config, folder, "here", args.steps, args.set)
            nodes, sent = run(args.config, folder, "nodes", args.steps, args.set)
        ratios.append(here / nodes)
        print(f"{args.steps / here:10,.0f} steps/s here  {args.steps / nodes:10,.0f} with nodes  "
              f"ratio {here / nodes:.2f}  bytes/step to each node "
              + " ".join(f"{n / args.steps:,.0f}" for n in sent), flush=True)
    print(f"median ratio {statistics.median(ratios):.2f}")


if __name__ == "__main__":
    main()
