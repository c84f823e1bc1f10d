#!/usr/bin/env python3
"""Train mappo on one side of simple_tag against the other side's frozen maddpg policies.

    tests/bench/frozen_opponents.py [--seeds 2] [--episodes 500] [--set KEY=VALUE]

maddpg trains both sides as configs/simple_tag.yaml says. Then mappo learns with predators
against maddpg's prey, whose weights no longer change, and with prey against its predators.
Prints a row per side: the mean return of its agents, who play greedily against the frozen
opponent, if they act at random, as maddpg and as mappo learnt. Ten minutes on two cores.
"""
import argparse
import math
import statistics
import tempfile

from against_random import World, team_of
from mixed_teams import TEAMS

OPPONENT = {"predators": "prey", "prey": "predators"}
SECTION = {"predators": "adversary", "prey": "agent"}
MAPPO = ["env.copies=32", "env.reward=team_mean", "experience.update_every=800",
         "experience.keep=false", "run.env_steps=1000000"]
LEARNER = ("{algorithm: mappo, actor: {hidden: [128, 128], output_init: 0.003}, "
           "critic: {hidden: [128, 128]}, discount: 0.95, "
           "optimizer: {learning_rate: 0.0005 to 0 over 1000000}, "
           "settings: {epochs: 10, minibatches: 4, entropy: 0.01, symmetry: env}}")


def frozen(run, team):
    return dict.fromkeys(TEAMS[team], f"{{algorithm: frozen, settings: {{from: {run}}}}}")


def play_seed(world, seed):
    """By side: (return, error) of random agents, of maddpg and of mappo."""
    first = f"maddpg-{seed}"
    world.run(first, seed, world.options.set)
    found = {}
    for team, other in OPPONENT.items():
        against = frozen(f"simple_tag-{first}", other)
        taught = f"mappo-{team}-{seed}"
        learners = {SECTION[team]: LEARNER, **against}
        world.run(taught, seed, [*MAPPO, *(f"agents.{a}={s}" for a, s in learners.items()),
                                 *world.options.set])
        sides = {"random": dict.fromkeys(TEAMS[team], "{algorithm: random}"),
                 "maddpg": frozen(f"simple_tag-{first}", team),
                 "mappo": frozen(f"simple_tag-{taught}", team)}
        found[team] = [team_of(world.play(f"{name}-{team}-{seed}-played", seed,
                                          {**side, **against}), TEAMS[team])
                       for name, side in sides.items()]
    return found


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--seeds", type=int, default=2)
    p.add_argument("--episodes", type=int, default=500)
    p.add_argument("--set", action="append", default=[], metavar="KEY=VALUE",
                   help="of the training")
    options = p.parse_args()
    with tempfile.TemporaryDirectory(prefix="brood-frozen-") as folder:
        world = World(options, folder, "simple_tag")
        seeds = [play_seed(world, seed) for seed in range(1, options.seeds + 1)]
    print("| side | against frozen | random | maddpg | mappo |")
    print("|---|---|---|---|---|")
    for team, other in OPPONENT.items():
        cells = []
        for k in range(3):
            rows = [seed[team][k] for seed in seeds]
            error = math.sqrt(sum(r[1] ** 2 for r in rows)) / len(rows)
            cells.append(f"{statistics.mean(r[0] for r in rows):.1f} ± {error:.1f}")
        print(f"| {team} | {other} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
