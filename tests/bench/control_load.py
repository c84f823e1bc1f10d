#!/usr/bin/env python3
"""Measure what constant requests cost a run: steps per second with two clients that send 500
requests per second each, valid and invalid ones, against no clients. Both are measured in
one run, in alternating slices.

    BROOD_BUILD_DIR=build tests/bench/control_load.py
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
BROOD = pathlib.Path(os.environ.get("BROOD_BUILD_DIR", ROOT / "build")) / "supervisor" / "brood"
LOAD = HERE.parent / "support" / "control_load.py"
CLIENTS, RATE, SLICE_S, SLICES, WARM_STEPS = 2, 500, 10, 3, 40000
GOAL = 0.05

sys.path.insert(0, str(ROOT / "scripts"))
import drive_critics


def slice_of(run, folder, is_loaded):
    """Steps of one slice and its seconds; the clients' output."""
    clients = [subprocess.Popen(["/usr/bin/python3", LOAD, folder, "--rate", str(RATE),
                                 "--seed", str(i), "--seconds", str(SLICE_S + 1)],
                                stdout=subprocess.PIPE, text=True)
               for i in range(CLIENTS if is_loaded else 0)]
    time.sleep(0.5)  # they have begun
    begin, steps = time.monotonic(), run.call("status")["env_steps"]
    time.sleep(SLICE_S)
    steps = run.call("status")["env_steps"] - steps
    seconds = time.monotonic() - begin
    return steps, seconds, [json.loads(c.communicate()[0]) for c in clients]


def main():
    with tempfile.TemporaryDirectory(prefix="brood-bench-") as runs:
        p = subprocess.Popen([BROOD, "run", ROOT / "configs" / "simple_spread.yaml", "-q",
                              "--runs-dir", runs, "--name", "b", "--set",
                              "run.env_steps=1000000000"], stderr=subprocess.DEVNULL)
        folder = pathlib.Path(runs) / "b"
        while not folder.exists():
            time.sleep(0.01)
        run = drive_critics.Run(folder)
        while run.call("status")["env_steps"] < WARM_STEPS:
            time.sleep(0.1)
        total, said = {False: [0, 0], True: [0, 0]}, []
        for _ in range(SLICES):
            for is_loaded in (False, True):
                steps, seconds, answers = slice_of(run, folder, is_loaded)
                total[is_loaded][0] += steps
                total[is_loaded][1] += seconds
                said += answers
        run.call("stop")
        p.wait()
    alone, loaded = (total[k][0] / total[k][1] for k in (False, True))
    rate = sum(a["per_second"] for a in said) / SLICES
    print(f"alone {alone:.0f} steps/s; with {CLIENTS} clients, {rate:.0f} requests/s of "
          f"{CLIENTS * RATE} in all, {loaded:.0f} steps/s: {(1 - loaded / alone) * 100:.1f} % "
          f"slower (goal: at most {GOAL * 100:.0f} %)")
    print(f"an answer took {max(a['median_ms'] for a in said)} ms, "
          f"one of a hundred more than {max(a['p99_ms'] for a in said)} ms; wrong: "
          f"{[a['wrong'] for a in said if a['wrong']] or 'none'}")


if __name__ == "__main__":
    main()
