#!/usr/bin/env python3
"""Measure teams of two algorithms: predators and prey of simple_tag, each pair of algorithms
with several seeds, against random opponents.

    tests/bench/mixed_teams.py [PREDATORS/PREY...] [--seeds 2] [--episodes 500] [--kills 20]

Every pair (maddpg/ddpg and ddpg/maddpg without arguments) is trained twice, once while random
agents are killed, and the checkpoints of both must be equal byte for byte. Then one team at a
time plays greedily against a random one. Prints a table: a team's return is the mean over its
agents; the gain is that over a random team. Three minutes a seed and pair on two cores.
"""
import argparse
import json
import math
import os
import pathlib
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import threading

from against_random import World, team_of
from learning import BROOD

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))

from signals import signal_process

TEAMS = {"predators": ["adversary_0", "adversary_1", "adversary_2"], "prey": ["agent_0"]}
CHANCE = {agent: "{algorithm: random}" for team in TEAMS.values() for agent in team}


def kill_agents(world, name, draw, kills, over):
    """Kill a random agent now and then, until the run is over; returns how many."""
    done = 0
    while done < kills and not over.wait(draw.uniform(0, 2)):
        status = subprocess.run([BROOD, "status", name, *world.where], text=True, check=False,
                                stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        pids = [agent["pid"] for agent in json.loads(status.stdout)["agents"]
                if agent.get("pid")] if status.returncode == 0 else []
        if pids:
            signal_process(draw.choice(pids), signal.SIGKILL)
            done += 1
    return done


def train(world, pair, seed, kills):
    """Train a pair twice, the second time with kills; the number of kills."""
    sets = ["env.id=simple_tag", f"agents.adversary.algorithm={pair[0]}",
            f"agents.agent.algorithm={pair[1]}", *world.options.set]
    name = "-".join(pair) + f"-s{seed}"
    world.run(name, seed, sets)
    over, found = threading.Event(), []
    killer = threading.Thread(target=lambda: found.append(kill_agents(
        world, f"simple_tag-{name}-killed", random.Random(seed), kills, over)))
    killer.start()
    world.run(f"{name}-killed", seed,
              [*sets, "defaults.restart={max_restarts: 1000000, delay: 0s}"])
    over.set()
    killer.join()
    calm, killed = (contents(world, f"{name}{more}") for more in ("", "-killed"))
    if calm != killed or not calm:
        sys.exit(f"{name}: the checkpoints differ after {found[0]} kills")
    return name, found[0]


def contents(world, name):
    """The variables' files of the newest checkpoint, by path."""
    places = pathlib.Path(world.where[1], f"simple_tag-{name}", "checkpoints")
    newest = max((p for p in places.iterdir() if p.name.isdigit()), key=lambda p: int(p.name))
    return {p.relative_to(newest): p.read_bytes() for p in newest.rglob("*")
            if p.suffix == ".index" or ".data-" in p.name}


def play(world, name, seed):
    """By team: (random return, its error), (trained return, its error)."""
    base = world.play(f"random-{seed}", seed, CHANCE)
    taught = f"{{algorithm: frozen, settings: {{from: simple_tag-{name}}}}}"
    found = {}
    for team, agents in TEAMS.items():
        played = world.play(f"{team}-{name}", seed, {**CHANCE, **dict.fromkeys(agents, taught)})
        found[team] = team_of(base, agents), team_of(played, agents)
    return found


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("pairs", nargs="*", metavar="PREDATORS/PREY",
                   default=["maddpg/ddpg", "ddpg/maddpg"])
    p.add_argument("--seeds", type=int, default=2)
    p.add_argument("--episodes", type=int, default=500)
    p.add_argument("--kills", type=int, default=20, help="in each run that is disturbed")
    p.add_argument("--set", action="append", default=[], metavar="KEY=VALUE",
                   help="of the training")
    options = p.parse_args()
    print("| predators / prey | team | random | trained | gain | kills |")
    print("|---|---|---|---|---|---|", flush=True)
    for pair in options.pairs:
        with tempfile.TemporaryDirectory(prefix="brood-mixed-") as folder:
            world, found, kills = World(options, folder, "simple_tag"), [], 0
            for seed in range(1, options.seeds + 1):
                name, killed = train(world, pair.split("/"), seed, options.kills)
                found.append(play(world, name, seed))
                kills += killed
        for team in TEAMS:
            rows = [seed[team] for seed in found]
            chance, trained = (statistics.mean(r[k][0] for r in rows) for k in (0, 1))
            error = math.sqrt(sum(c[1] ** 2 + t[1] ** 2 for c, t in rows)) / len(rows)
            print(f"| {pair} | {team} | {chance:.1f} | {trained:.1f} | "
                  f"{trained - chance:+.1f} ± {error:.1f} | {kills}, same bytes |", flush=True)


if __name__ == "__main__":
    main()
