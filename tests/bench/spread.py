#!/usr/bin/env python3
"""Train every algorithm on simple_spread and print what it reaches beside what was published.

    tests/bench/spread.py [ALGORITHM...] [--rules openai] [--seeds 5] [--jobs 2]
                          [--runs-dir DIR] [--steps N] [--set KEY=VALUE]

Each algorithm trains as its file in configs/ says (simple_spread_mappo.yaml, ...). With
--runs-dir the runs are kept there, and the same command goes on where it was interrupted.

The published returns (Papoudakis et al. 2021, table 3, shared parameters) are those of the
`openai` rules: off-policy algorithms after 2,050,000 steps, the others after 20,000,000, and of
the best evaluation of each. Here the final policies play 500 episodes: greedily, and policy
gradients as they sample, too, as in the paper. No seed is left out. Under these rules a random
team gets -231.0, a greedy one written by hand -124.5; under `mpe2` -26.4 and -9.1.
"""
import argparse
import concurrent.futures
import pathlib
import statistics
import tempfile

from learning import ROOT, brood

# algorithm: published return, whether its policy is drawn from
ALGORITHMS = {
    "iql": (-132.63, False),
    "vdn": (-131.03, False),
    "qmix": (-126.62, False),
    "maddpg": (-141.70, True),
    "matd3": (None, True),
    "isac": (None, True),
    "masac": (None, True),
    "ia2c": (-134.43, True),
    "maa2c": (-129.90, True),
    "ippo": (-133.86, True),
    "mappo": (-133.54, True),
    "happo": (None, True),
    "coma": (-204.31, True),
}


def train(options, runs_dir, name, seed):
    """(steps, seconds, greedy return, sampled return or None)"""
    run = f"{name}-seed{seed}"
    where = ["--runs-dir", runs_dir, "--json"]
    if (pathlib.Path(runs_dir) / run).exists():
        if brood("status", run, *where)["state"] != "done":
            brood("resume", run, "-q", *where)
    else:
        words = [f"env.rules={options.rules}", "experience.keep=false", *options.set]
        if options.steps:
            words.append(f"run.env_steps={options.steps}")
        brood("run", ROOT / "configs" / f"simple_spread_{name}.yaml", "--name", run, "--seed",
              seed, "-q", *where, *(x for word in words for x in ("--set", word)))
    status = brood("status", run, *where)
    play = ["eval", run, "--episodes", options.episodes, *where]
    return (status["env_steps"], status["elapsed_seconds"], brood(*play)["team_return_mean"],
            brood(*play, "--stochastic")["team_return_mean"] if ALGORITHMS[name][1] else None)


def print_row(name, results):
    steps, seconds, greedy, drawn = zip(*results)
    published = ALGORITHMS[name][0]
    print(f"{name:9s} {len(results):5d} {max(steps):9,d} {statistics.mean(seconds):7.0f} "
          f"{statistics.mean(greedy):8.2f} {min(greedy):8.2f} " +
          (f"{statistics.mean(drawn):8.2f}" if drawn[0] is not None else " " * 8) +
          (f" {published:9.2f}" if published is not None else ""), flush=True)


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("algorithm", nargs="*", default=list(ALGORITHMS))
    p.add_argument("--rules", choices=("openai", "mpe2"), default="openai")
    p.add_argument("--seeds", type=int, default=5)
    p.add_argument("--episodes", type=int, default=500)
    p.add_argument("--steps", type=int, help="instead of those of the configuration")
    p.add_argument("--jobs", type=int, default=2, help="runs side by side")
    p.add_argument("--runs-dir", help="keeps the runs there")
    p.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    options = p.parse_args()
    for name in options.algorithm:
        if name not in ALGORITHMS:
            p.error(f"{name}: choose from {', '.join(ALGORITHMS)}")
    print(f"simple_spread, {options.rules} rules")
    print("algorithm seeds     steps seconds   greedy    worst  sampled published")
    with tempfile.TemporaryDirectory(prefix="brood-spread-") as folder, \
            concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        runs_dir = options.runs_dir or folder
        started = {name: [pool.submit(train, options, runs_dir, name, seed)
                          for seed in range(1, options.seeds + 1)]
                   for name in options.algorithm}
        for name, runs in started.items():
            print_row(name, [run.result() for run in runs])


if __name__ == "__main__":
    main()
