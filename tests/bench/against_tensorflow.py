#!/usr/bin/env python3
"""brood's graphs and checkpoints against TensorFlow: every comparison there is, one after another.

    tests/bench/against_tensorflow.py [--graphs 2000] [--seed 1] [PART...]

PART: only these.
    files     tests/tensorflow/exchange.py --all: programs that TensorFlow saved and brood reads,
              and the runs of all shipped configurations, optimisers and recurrent networks, which
              TensorFlow reads, with both numerics: variables, values, training steps
    values    all cases of tests/tensorflow/cases_*.py, of which TensorFlow computes values and
              gradients now (write_golden.py), in brood (test_golden.py)
    graphs    tests/fuzz/references.py: random graphs of variables, run by both

Prints what they print, with its tables, then a line for each. BROOD_BUILD_DIR: the build, by
default build/. An hour and more on two cores, most of it for `files`. Without TensorFlow
(tests/support/peers.py) exit code 77; 1 if anything differs.
"""
import argparse
import os
import pathlib
import subprocess
import sys
import tempfile
import time

TESTS = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(TESTS / "support"))
import peers

BUILD = pathlib.Path(os.environ.get("BROOD_BUILD_DIR", TESTS.parent / "build"))
RUN_META = BUILD / "tests" / "support" / "run_meta"


def python(*words):
    """Whether the program succeeded. Its output is shown."""
    return subprocess.run([sys.executable, *map(str, words)], check=False).returncode == 0


def check_files(options):
    return python(TESTS / "tensorflow" / "exchange.py", RUN_META, "--all")


def check_values(options):
    with tempfile.TemporaryDirectory() as folder:
        golden = ["--golden", folder]
        return python(TESTS / "tensorflow" / "write_golden.py", *golden) and \
            python(TESTS / "tensorflow" / "test_golden.py", RUN_META, *golden)


def check_graphs(options):
    return python(TESTS / "fuzz" / "references.py", RUN_META, "--graphs", options.graphs,
                  "--seed", options.seed)


PARTS = {"files": check_files, "values": check_values, "graphs": check_graphs}


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("parts", nargs="*", metavar="PART")
    p.add_argument("--graphs", type=int, default=2000)
    p.add_argument("--seed", type=int, default=1)
    options = p.parse_intermixed_args()
    unknown = set(options.parts) - set(PARTS)
    if unknown:
        p.error(f"no part {min(unknown)}: there are {', '.join(PARTS)}")
    peers.load_tensorflow()  # or ends the program
    lines, good = [], True
    for name in options.parts or PARTS:
        print(f"==== {name} ====", flush=True)
        begun = time.monotonic()
        equal = PARTS[name](options)
        good &= equal
        lines.append(f"{name:<8} {'equal' if equal else 'DIFFERS'}  "
                     f"{(time.monotonic() - begun) / 60:.1f} min")
    print("====", *lines, sep="\n")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
