#!/usr/bin/python3
"""The variables of each algorithm, in the order of the block that has their values: runs that are
resumed by another build need the same. Their hashes are in layouts.txt.

    layouts.py            compare
    layouts.py --write    write layouts.txt again, after CHANGES.md says which runs cannot be
                          resumed any more

Uses the binaries in $BROOD_BUILD_DIR; by default in build/."""
import argparse
import hashlib
import json
import pathlib
import sys
import tempfile

from hashes import HERE, brood

LAYOUTS = HERE / "layouts.txt"
SPREAD = ("run: {{seed: 1, env_steps: 16}}\n"
          "env: {{id: simple_spread, params: {{agents: 2}}, actions: {actions}, reward: team_mean}}\n"
          "defaults: {{algorithm: {algorithm}, share: {share}, settings: {{{settings}}}}}\n")
SCALED = "reward_scale: running"
# Each algorithm as it is, and with settings that add variables.
MORE = {  # actions, share, settings
    "coma": ("discrete", "team", SCALED),
    "ddpg": ("continuous", "team", SCALED),
    "happo": ("continuous", "none", f"{SCALED}, recurrent: 8, recurrent_critic: 8"),
    "ia2c": ("discrete", "team", "recurrent: 8, normalize_observations: running"),
    "ippo": ("continuous", "team", "recurrent: 8, recurrent_critic: 8"),
    "iql": ("discrete", "team", f"{SCALED}, recurrent: 8"),
    "isac": ("continuous", "team", SCALED),
    "maa2c": ("continuous", "none", "value_norm: popart"),
    "maddpg": ("continuous", "team", SCALED),
    "mappo": ("discrete", "none", f"{SCALED}, value_norm: running, normalize_observations: running"),
    "masac": ("continuous", "team", SCALED),
    "matd3": ("continuous", "team", SCALED),
    "qmix": ("discrete", "team", f"{SCALED}, recurrent: 8"),
    "vdn": ("discrete", "team", "recurrent: 8"),
}
CASES = {**{f"{a}-more": (a, *more) for a, more in MORE.items()},
         **{a: (a, "continuous" if a == "ddpg" else "discrete", "none", "") for a in MORE}}


def variables(folder, prefix):
    """The names of a checkpoint's variables in the order of its graph, with their shapes."""
    shapes = {}
    for line in brood(folder, "", "inspect", prefix, "--json").splitlines():
        tensor = json.loads(line)
        shapes[tensor["name"]] = tensor["shape"]
    nodes = map(json.loads, brood(folder, "", "graph", prefix, "--nodes", "--json").splitlines())
    return [f"{n['name']} {shapes.get(n['name'])}" for n in nodes if n["op"].startswith("Variable")]


def layouts():
    """{case/process: hash}"""
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, (algorithm, actions, share, settings) in CASES.items():
            path = pathlib.Path(folder, f"{name}.yaml")
            path.write_text(SPREAD.format(algorithm=algorithm, actions=actions, share=share,
                                          settings=settings))
            brood(folder, "", "run", str(path), "--name", name, "-q")
            first = pathlib.Path(folder, "runs", name, "checkpoints", "0")
            for index in sorted(first.glob("*/*.index")):
                text = "\n".join(variables(folder, str(index.with_suffix(""))))
                found[f"{name}/{index.parent.name}"] = hashlib.sha256(
                    text.encode()).hexdigest()[:16]
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true", help=f"write {LAYOUTS.name}")
    args = parser.parse_args()
    found = layouts()
    if args.write:
        LAYOUTS.write_text("".join(f"{h}  {name}\n" for name, h in found.items()))
    wanted = {name: h for h, name in (line.split("  ")
                                      for line in LAYOUTS.read_text().splitlines())}
    wrong = sorted(name for name in found.keys() | wanted.keys()
                   if found.get(name) != wanted.get(name))
    for name in wrong:
        print(f"FAILED: {name}: other variables than in {LAYOUTS.name}, or in another order: "
              "runs made before cannot be resumed")
    print(f"{len(found) - len(wrong)} of {len(wanted)} layouts as in {LAYOUTS.name}")
    return 1 if wrong or not found else 0


if __name__ == "__main__":
    sys.exit(main())
