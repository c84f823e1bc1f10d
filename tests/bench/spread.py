#!/usr/bin/env python3
"""Train every algorithm on simple_spread and print what it reaches beside what was published.

    tests/bench/spread.py [ALGORITHM...] [--rules openai] [--seeds 5] [--jobs 2] [--steps N]

The published returns (Papoudakis et al. 2021, table 3, shared parameters) are those of the
`openai` rules: off-policy algorithms after 2,050,000 steps, the others after 20,000,000, and of
the best evaluation of each. Here the final policies play 500 episodes: greedily, and policy
gradients as they sample, too, as in the paper. No seed is left out. Under these rules a random
team gets -231.0, a greedy one written by hand -124.5; under `mpe2` -26.4 and -9.1.
"""
import argparse
import concurrent.futures
import statistics
import tempfile

from learning import ROOT, brood

STEPS = 2_050_000
RATE = "defaults.optimizer.learning_rate={} to 0 over {}"
OFF_POLICY = ("env.reward=team_mean", "defaults.discount=0.9", "defaults.settings.symmetry=env",
              "defaults.actor.hidden=[128, 128]", "defaults.critic.hidden=[128, 128]",
              RATE.format(0.003, "{steps}"))
WINDOWS = (RATE.format(0.0005, "{steps}"),)
ONCE = ("defaults.settings.epochs=1", "defaults.settings.minibatches=1",
        "experience.update_every=160", RATE.format(0.001, "{steps}"))
# algorithm: configuration, changes to it, published return, whether its policy is drawn from
ALGORITHMS = {
    "iql": ("vdn", (RATE.format(0.001, "{steps}"),), -132.63, False),
    "vdn": ("vdn", (RATE.format(0.001, "{steps}"),), -131.03, False),
    "qmix": ("qmix", (RATE.format(0.001, "{steps}"),), -126.62, False),
    "maddpg": (None, OFF_POLICY, -141.70, True),
    "matd3": ("matd3", OFF_POLICY, None, True),
    "isac": ("masac", (), None, True),
    "masac": ("masac", (), None, True),
    "ia2c": ("mappo", ONCE, -134.43, True),
    "maa2c": ("mappo", ONCE, -129.90, True),
    "ippo": ("mappo", WINDOWS, -133.86, True),
    "mappo": ("mappo", WINDOWS, -133.54, True),
    "happo": ("happo", WINDOWS, None, True),
    "coma": ("coma", (), -204.31, True),
}


def train(options, runs_dir, name, seed):
    """(seconds, greedy return, sampled return or None)"""
    config, changes, _, draws = ALGORITHMS[name]
    file = ROOT / "configs" / ("simple_spread.yaml" if config is None
                               else f"simple_spread_{config}.yaml")
    words = [f"defaults.algorithm={name}", f"env.rules={options.rules}",
             f"run.env_steps={options.steps}", "experience.keep=false",
             *(c.format(steps=options.steps) for c in changes), *options.set]
    where = ["--runs-dir", runs_dir, "--json"]
    run = f"{name}-seed{seed}"
    done = brood("run", file, "--name", run, "--seed", seed, "-q", *where,
                 *(x for word in words for x in ("--set", word)))
    play = ["eval", run, "--episodes", options.episodes, *where]
    return (done["wall_seconds"], brood(*play)["team_return_mean"],
            brood(*play, "--stochastic")["team_return_mean"] if draws else None)


def print_row(name, results):
    seconds, greedy, drawn = zip(*results)
    published = ALGORITHMS[name][2]
    print(f"{name:8s} {len(results):5d} {statistics.mean(seconds):7.0f} "
          f"{statistics.mean(greedy):9.2f} {min(greedy):9.2f} " +
          (f"{statistics.mean(drawn):9.2f}" if drawn[0] is not None else " " * 9) +
          (f" {published:9.2f}" if published is not None else ""), flush=True)


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("algorithm", nargs="*", default=list(ALGORITHMS))
    p.add_argument("--rules", choices=("openai", "mpe2"), default="openai")
    p.add_argument("--seeds", type=int, default=5)
    p.add_argument("--episodes", type=int, default=500)
    p.add_argument("--steps", type=int, default=STEPS)
    p.add_argument("--jobs", type=int, default=2, help="runs side by side")
    p.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    options = p.parse_args()
    for name in options.algorithm:
        if name not in ALGORITHMS:
            p.error(f"{name}: choose from {', '.join(ALGORITHMS)}")
    print(f"simple_spread, {options.rules} rules, {options.steps:,} steps")
    print("algorithm seeds seconds    greedy     worst   sampled published")
    with tempfile.TemporaryDirectory(prefix="brood-spread-") as runs_dir, \
            concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        started = {name: [pool.submit(train, options, runs_dir, name, seed)
                          for seed in range(1, options.seeds + 1)]
                   for name in options.algorithm}
        for name, runs in started.items():
            print_row(name, [run.result() for run in runs])


if __name__ == "__main__":
    main()
