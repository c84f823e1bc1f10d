#!/usr/bin/env python3
"""Measure what the shipped configurations of the particle worlds learn: train each with
several seeds, let each trained team play greedily against random opponents, and compare with
a random team. Prints the table of README.md.

    tests/bench/against_random.py [WORLD...] [--seeds 3] [--episodes 500] [--set KEY=VALUE]

A team's return is the mean over its agents. Its gain is the trained team's return minus the
random one's, printed with its standard error: that over the seeds or that over the episodes,
whichever is larger. If there are hand-written rules for a cooperating team (`algorithm:
heuristic`), the last column is the gain as a part of the rules' gain. All nine worlds with
three seeds take about fifteen minutes on two cores.
"""
import argparse
import math
import pathlib
import statistics
import sys
import tempfile

from learning import ROOT, brood

# The members of each team; agents are named <member>_<number>.
TEAMS = {
    "simple": [["agent"]],
    "simple_adversary": [["adversary"], ["agent"]],
    "simple_crypto": [["eve"], ["bob", "alice"]],
    "simple_push": [["adversary"], ["agent"]],
    "simple_reference": [["agent"]],
    "simple_speaker_listener": [["speaker", "listener"]],
    "simple_spread": [["agent"]],
    "simple_tag": [["adversary"], ["agent"]],
    "simple_world_comm": [["leadadversary", "adversary"], ["agent"]],
}
RULES = {"simple", "simple_reference", "simple_speaker_listener", "simple_spread"}
MIN_ERRORS, MIN_WAY = 2.0, 0.6


class World:
    def __init__(self, options, runs_dir, name):
        self.options, self.name = options, name
        self.config = ROOT / "configs" / f"{name}.yaml"
        self.where = ["--runs-dir", runs_dir, "--json"]

    def run(self, name, seed, sets):
        extra = [word for s in sets for word in ("--set", s)]
        return brood("run", self.config, "--name", f"{self.name}-{name}", "--seed", seed,
                     "-q", "--set", "experience.keep=false", *extra, *self.where)

    def evaluate(self, name, seed):
        return brood("eval", f"{self.name}-{name}", "--episodes", self.options.episodes,
                     "--seed", seed, *self.where)

    def play(self, name, seed, algorithms):
        """Episodes of agents that do not learn; algorithms: agent -> its section."""
        sets = ["run.env_steps=1", "evaluation.every_env_steps=0"]
        self.run(name, seed, sets + [f"agents.{a}={s}" for a, s in algorithms.items()])
        return self.evaluate(name, seed)


def team_of(played, agents):
    """Mean return of a team and its error, as if its agents' returns rose and fell
    together."""
    return (statistics.mean(played["return_mean"][a] for a in agents),
            statistics.mean(played["return_se"][a] for a in agents))


def play_seed(world, seed):
    """Per team: (random, error), (trained, error), rules or None."""
    done = world.run(f"s{seed}", seed, world.options.set)
    agents = list(world.evaluate(f"s{seed}", seed)["return_mean"])
    chance = {a: "{algorithm: random}" for a in agents}
    taught = f"{{algorithm: frozen, settings: {{from: {world.name}-s{seed}}}}}"
    base = world.play(f"random{seed}", seed, chance)
    found = []
    for i, members in enumerate(TEAMS[world.name]):
        team = [a for a in agents if a.rsplit("_", 1)[0] in members]
        played = world.play(f"team{i}-{seed}", seed, {**chance, **dict.fromkeys(team, taught)})
        rules = None
        if world.name in RULES:
            by_hand = dict.fromkeys(team, "{algorithm: heuristic}")
            rules, _ = team_of(world.play(f"rules{seed}", seed, by_hand), team)
        found.append((team_of(base, team), team_of(played, team), rules))
    print(f"{world.name} seed {seed}: {done['wall_seconds']:.0f} s of training",
          file=sys.stderr, flush=True)
    return found


def row(world, members, seeds):
    """One line of the table, and whether all goals were reached."""
    gains = [trained[0] - chance[0] for chance, trained, _ in seeds]
    gain = statistics.mean(gains)
    played = math.sqrt(sum(c[1] ** 2 + t[1] ** 2 for c, t, _ in seeds)) / len(seeds)
    between = statistics.stdev(gains) / math.sqrt(len(gains)) if len(gains) > 1 else 0.0
    error = max(played, between)
    chance = statistics.mean(c[0] for c, _, _ in seeds)
    cells = [world, " and ".join(members), f"{chance:.1f}", f"{chance + gain:.1f}",
             f"{gain:+.1f} ± {error:.1f}"]
    reached = gain > MIN_ERRORS * error
    way = ""
    if seeds[0][2] is not None:
        rules = statistics.mean(r for _, _, r in seeds)
        share = gain / (rules - chance)
        way = f"{100 * share:.0f} % ({rules:.1f})"
        reached = reached and share >= MIN_WAY
    return "| " + " | ".join(cells + [way]) + " |", reached


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("worlds", nargs="*", metavar="WORLD", help=", ".join(TEAMS))
    p.add_argument("--seeds", type=int, default=3)
    p.add_argument("--episodes", type=int, default=500)
    p.add_argument("--set", action="append", default=[], metavar="KEY=VALUE",
                   help="of the training")
    options = p.parse_args()
    for name in options.worlds:
        if name not in TEAMS:
            p.error(f"no world {name}; there are {', '.join(TEAMS)}")
    missed = []
    print("| world | team | random | trained | gain | of the way to rules by hand |\n"
          "|---|---|---|---|---|---|", flush=True)
    for name in options.worlds or TEAMS:
        with tempfile.TemporaryDirectory(prefix="brood-random-") as runs_dir:
            world = World(options, pathlib.Path(runs_dir), name)
            seeds = [play_seed(world, seed) for seed in range(1, options.seeds + 1)]
        for i, members in enumerate(TEAMS[name]):
            line, reached = row(name, members, [s[i] for s in seeds])
            print(line, flush=True)
            if not reached:
                missed.append(f"{name} ({' and '.join(members)})")
    print(f"\nNot {MIN_ERRORS:.0f} standard errors above random, or less than "
          f"{100 * MIN_WAY:.0f} % of the way: {', '.join(missed) or 'none'}.")


if __name__ == "__main__":
    main()
