#!/usr/bin/python3
"""The same bytes on every machine: the SHA-256 of the final checkpoints of three short runs
are in hashes.txt, and hold for all kernels of all CPUs (common/numerics/numerics.h).

    hashes.py            compare, with every kind of kernels that this CPU has
    hashes.py --print    print the hashes of each kind, and whether they match
    hashes.py --write    write hashes.txt again, after NUMERICS_VERSION was raised

Uses the binaries in $BROOD_BUILD_DIR; by default in build/."""
import argparse
import hashlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
BUILD = pathlib.Path(os.environ.get("BROOD_BUILD_DIR", HERE.parent.parent / "build"))
BROOD = BUILD / "supervisor" / "brood"
HASHES = HERE / "hashes.txt"
KERNELS = ("portable", "neon", "avx2", "avx512")
FILES = (".index", ".data-00000-of-00001")

# Sizes that are no multiples of a register tile or of a block of 128 rows. Together the runs
# use every optimiser with state, three activations, masks, both kinds of actions, clipping.
RUNS = {
    "maddpg": """
run: {seed: 1, env_steps: 600}
env: {id: simple_spread, copies: 5, params: {agents: 3}}
experience: {capacity: 1000, batch_size: 200, warmup: 200, update_every: 20}
evaluation: {every_env_steps: 300, episodes: 8}
defaults: {actor: {hidden: [64, 33]}, critic: {hidden: [64, 33]}}
""",
    "iql": """
run: {seed: 2, env_steps: 800}
env: {id: foraging, copies: 3, max_steps: 20, params: {size: 6, players: 2, food: 2}}
experience: {capacity: 1000, batch_size: 130, warmup: 200, update_every: 20}
evaluation: {every_env_steps: 400, episodes: 4}
defaults:
  algorithm: iql
  settings: {epsilon: 0.3}
  critic: {hidden: [48, 17], activation: elu}
  optimizer: {type: rmsprop}
""",
    "ddpg": """
run: {seed: 3, env_steps: 600}
env: {id: simple_tag, actions: continuous, copies: 4}
experience: {capacity: 1000, batch_size: 65, warmup: 200, update_every: 20}
evaluation: {every_env_steps: 0}
defaults:
  algorithm: ddpg
  actor: {hidden: [20], activation: tanh}
  critic: {hidden: [40, 24], activation: leaky_relu, after_action: [9]}
  optimizer: {type: momentum, momentum: 0.9, learning_rate: 0.001}
""",
}


def brood(folder, kernels, *words):
    p = subprocess.run([BROOD, *words], cwd=folder, capture_output=True, text=True,
                       env={**os.environ, "BROOD_KERNELS": kernels}, check=False)
    if p.returncode != 0:
        sys.exit(f"brood {' '.join(words)}: exit code {p.returncode}\n{p.stderr}")
    return p.stdout


def version(kernels):
    return json.loads(brood("/", kernels, "version", "--json"))


def kinds_here():
    return [k for k in KERNELS if version(k)["kernels"] == k]


def hashes_with(kernels):
    """run/agent/file -> SHA-256 of the file at the end of the run."""
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, text in RUNS.items():
            path = pathlib.Path(folder, f"{name}.yaml")
            path.write_text(text)
            brood(folder, kernels, "run", str(path), "--name", name, "-q")
            checkpoints = pathlib.Path(folder, "runs", name, "checkpoints")
            last = max((p for p in checkpoints.iterdir() if p.name.isdigit()),
                       key=lambda p: int(p.name))
            for file in sorted(last.glob("*/*")):
                if file.name.endswith(FILES):
                    found[f"{name}/{file.relative_to(last)}"] = hashlib.sha256(
                        file.read_bytes()).hexdigest()
    return found


def read_hashes():
    """(numerics version, the same as hashes_with)."""
    first, *lines = HASHES.read_text().splitlines()
    return int(first.split()[-1]), {path: digest for digest, path in
                                    (line.split("  ") for line in lines)}


def write_hashes():
    found = hashes_with("portable")
    lines = [f"{digest}  {path}\n" for path, digest in found.items()]
    HASHES.write_text(f"# numerics {version('')['numerics']}\n" + "".join(lines))


def compare(found, wanted, kernels):
    """Prints the differences; returns whether there are none."""
    wrong = sorted(path for path in found.keys() | wanted.keys()
                   if found.get(path) != wanted.get(path))
    for path in wrong:
        print(f"FAILED: {path}: {found.get(path)} with {kernels} kernels, "
              f"{wanted.get(path)} in {HASHES.name}")
    print(f"{len(found) - len(wrong)} of {len(wanted)} files as in {HASHES.name} with "
          f"{kernels} kernels")
    return not wrong and len(found) == len(wanted) > 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--print", action="store_true", help="print every hash")
    parser.add_argument("--write", action="store_true", help=f"write {HASHES.name}")
    args = parser.parse_args()
    if args.write:
        write_hashes()
    number, wanted = read_hashes()
    good = number == version("")["numerics"]
    if not good:
        print(f"FAILED: {HASHES.name} is of numerics {number}, this build of "
              f"{version('')['numerics']}: tests/golden/hashes.py --write")
    for kernels in kinds_here():
        found = hashes_with(kernels)
        if args.print:
            for path, digest in found.items():
                print(f"{kernels:8s}  {digest}  {path}")
        good = compare(found, wanted, kernels) and good
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
