#!/usr/bin/env python3
"""Trains on several nodes, behind a relay, in network namespaces, and as jobs of a Slurm of its
own, while agents, nodes, launchers, links, disks, jobs, slurmds and the supervisor fail at random
moments, and compares the bytes with those of a calm run
(tests/integration/test_node_faults.py is the short form).

    BROOD_BUILD_DIR=build tests/bench/node_faults.py --kills 100 --seed 2
"""
import argparse
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    build = pathlib.Path(os.environ.get("BROOD_BUILD_DIR", ROOT / "build")).resolve()
    env = dict(os.environ, BROOD_BUILD_DIR=str(build), BROOD_SOURCE_DIR=str(ROOT),
               BROOD_KILLS=str(args.kills), BROOD_FAULT_SEED=str(args.seed))
    return subprocess.run([sys.executable, ROOT / "tests/integration/test_node_faults.py"],
                          env=env).returncode


if __name__ == "__main__":
    sys.exit(main())
