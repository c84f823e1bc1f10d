#!/usr/bin/env python3
"""Train every algorithm on climbing and on penalty and print what each finds.

    tests/bench/matrix_games.py [ALGORITHM...] [--seeds 3] [--jobs 2]

Prints the greedy return of an episode of 25 steps after 100,000 steps, the mean and the range
over the seeds. Climbing's joint actions pay at most 11 a step (275; its equilibria 7 and 5),
penalty's 10 (250) or, what is safe, 2 (50). iql is configs/climbing.yaml and penalty.yaml.
"""
import argparse
import concurrent.futures
import statistics
import tempfile

from learning import ROOT, brood

GAMES = {"climbing": ("climbing", ()),
         **{f"penalty {k}": ("penalty", (f"env.params.k={k}",)) for k in (0, -25, -100)}}
TEAM = ("env.reward=team_mean", "defaults.share=team", "defaults.settings.agent_id=true")
VALUES = (*TEAM, "env.copies=1", "defaults.settings.epsilon=1 to 0.05 over 50000",
          "experience.batch_size=32", "experience.capacity=12500", "experience.warmup=800",
          "experience.update_every=25", "defaults.settings.target_every=200",
          "defaults.clip_norm=10")
WINDOWS = ("env.copies=10", "experience.update_every=250", "defaults.settings.entropy=0.01")
ROWS = ("env.copies=1",)
SETTINGS = {"vdn": VALUES, "qmix": VALUES,
            "happo": (*WINDOWS, "env.reward=team_mean", "defaults.settings.agent_id=true"),
            **{name: (*WINDOWS, *TEAM) for name in ("ippo", "mappo", "ia2c", "maa2c", "coma")},
            **{name: ROWS for name in ("maddpg", "ddpg", "matd3", "isac", "masac")}}
BASE = """run: {name: game, env_steps: 100000}
env: {id: %s}
defaults: {algorithm: %s, critic: {hidden: [32]}, actor: {hidden: [32]}}
"""


def train(folder, game, algorithm, seed):
    env, changes = GAMES[game]
    name = f"{game.replace(' ', '')}-{algorithm}-{seed}"
    if algorithm == "iql":
        file = ROOT / "configs" / f"{env}.yaml"
    else:
        file = f"{folder}/{name}.yaml"
        with open(file, "w") as f:
            f.write(BASE % (env, algorithm))
    where = ["--runs-dir", folder, "--json"]
    words = [x for w in (*changes, *SETTINGS.get(algorithm, ())) for x in ("--set", w)]
    brood("run", file, "--name", name, "--seed", seed, "-q", *words, *where)
    return brood("eval", name, "--episodes", 10, *where)["team_return_mean"]


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("algorithm", nargs="*", default=["iql", *SETTINGS])
    p.add_argument("--seeds", type=int, default=3)
    p.add_argument("--jobs", type=int, default=2, help="runs side by side")
    options = p.parse_args()
    print("algorithm " + "".join(f"{game:>22}" for game in GAMES))
    with tempfile.TemporaryDirectory(prefix="brood-games-") as folder, \
            concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        runs = {(a, g): [pool.submit(train, folder, g, a, s)
                         for s in range(1, options.seeds + 1)]
                for a in options.algorithm for g in GAMES}
        for a in options.algorithm:
            cells = []
            for g in GAMES:
                found = [run.result() for run in runs[a, g]]
                cells.append(f"{statistics.mean(found):6.1f} ({min(found):.0f} to "
                             f"{max(found):.0f})")
            print(f"{a:10}" + "".join(f"{cell:>22}" for cell in cells), flush=True)


if __name__ == "__main__":
    main()
