#!/usr/bin/env python3
"""Draw configurations, kill processes of their runs, and compare each run with a calm one.

    tests/bench/kill_configurations.py [--first SEED] [--count N] [--algorithm NAME ...]

Seed K draws one configuration of brood's own algorithms and environments: sharing, recurrence,
symmetries, entities, stacks, priorities, normalisation, and so on. One that `brood check` refuses
is counted: it must be one line that names the file. The others are trained three times:

    calm        until the end,
    killed      with agents and, of those that share, the ps killed at random moments,
    resumed     with the supervisor killed after the second checkpoint.

Prints a line for each: the kills, and whether all checkpoints and metrics are equal. Exit 1 if
any differ, with the configuration, which is JSON and so YAML.
"""
import argparse
import json
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import time

from kill_programs import outcome
from programs import BROOD, command, events, wait

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))

from signals import signal_process

WINDOWS = ("ia2c", "maa2c", "ippo", "mappo", "happo", "coma")
DRAWN = ("iql", "maddpg", "ddpg", "matd3", "isac", "masac")
EPISODES = ("vdn", "qmix", "iql")
TEAM = ("vdn", "qmix", "maa2c", "happo", "coma")  # of one reward for a team
WORLDS = ("simple_spread", "simple_tag", "simple_reference", "simple_speaker_listener", "foraging",
          "simple_adversary", "simple_world_comm", "stag_hunt", "simple_crypto")
SYMMETRIC = ("simple_spread", "simple_tag", "simple_adversary", "simple_world_comm")
ENTITIES = ("simple_spread", "simple_tag", "foraging")
MOST_KILLS, LASTS_AT_MOST_S = 12, 600


def start(folder, config, run):
    """What a supervisor's death prints is of no interest here."""
    return command(folder, {}, "run", config, "--name", run, stderr=subprocess.DEVNULL)


class Draws(random.Random):
    """Draws parts of a configuration."""
    def often(self, share):
        return self.random() < share

    def put(self, into, share, key, *values):
        if self.often(share):
            into[key] = self.choice(values)


def draw_env(r, algorithm):
    env = {"id": r.choice(WORLDS), "copies": r.choice((1, 2, 5))}
    if algorithm in TEAM or r.often(0.4):
        env["reward"] = "team_mean"
    if env["id"] in ENTITIES and r.often(0.35):
        env["observe"] = "entities"
    else:
        r.put(env, 0.3, "stack", 2, 3)
    r.put(env, 0.3, "clip_observations", 0.5, 2)
    r.put(env, 0.3, "clip_rewards", 0.5, 1)
    r.put(env, 0.5, "max_steps", 7, 13, 25)
    return env


def draw_network(r, env):
    net = {"hidden": r.choice(([8], [8, 8]))}
    if env.get("observe") == "entities":
        net["entities"] = {"units": [8], "pool": r.choice(("mean", "max", "attention"))}
    r.put(net, 0.25, "layer_norm", True)
    r.put(net, 0.25, "init", "orthogonal")
    return net


def draw_windows(r, algorithm, settings):
    settings.update(epochs=r.choice((1, 3)), minibatches=r.choice((1, 2)))
    r.put(settings, 0.5, "recurrent", 4, 8)
    if algorithm != "coma":
        r.put(settings, 0.4, "recurrent_critic", 4, 8)
    settings.update(cell=r.choice(("gru", "lstm")), chunk=r.choice((3, 5, 10)))
    r.put(settings, 0.35, "normalize_observations", "running")
    r.put(settings, 0.25, "target_kl", 0.001, 0.02)
    r.put(settings, 0.4, "value_norm", "none", "popart")
    r.put(settings, 0.2, "advantage_norm", False)
    if algorithm != "coma":
        r.put(settings, 0.3, "gae", 0.9)
    return {"update_every": r.choice((10, 20, 30))}


def draw_rows(r, algorithm, settings):
    rows = {"update_every": r.choice((8, 20)), "batch_size": 8, "warmup": 100,
            "capacity": r.choice((500, 2000))}
    if algorithm in EPISODES and (algorithm != "iql" or r.often(0.5)):
        if r.often(0.3):
            settings["lambda"] = 0.7
        else:
            settings["n_step"] = r.choice((1, 3))
        if r.often(0.5):
            settings.update(recurrent=6, cell=r.choice(("gru", "lstm")))
        r.put(settings, 0.4, "last_action", True)
    if algorithm not in ("isac", "masac", "ddpg"):
        r.put(rows, 0.3, "priority", {"alpha": 0.6})
    if algorithm not in ("vdn", "qmix"):
        r.put(settings, 0.2, "own_batches", True)
    return rows


def draw_configuration(seed, algorithms):
    r = Draws(seed)
    algorithm = r.choice(algorithms or WINDOWS * 3 + DRAWN + EPISODES)
    env, settings = draw_env(r, algorithm), {}
    agent = {"algorithm": algorithm, "settings": settings, "actor": draw_network(r, env),
             "critic": draw_network(r, env),
             "restart": {"max_restarts": 1000000, "delay": "0s"}}
    rows = (draw_windows if algorithm in WINDOWS else draw_rows)(r, algorithm, settings)
    if algorithm != "happo" and settings.get("value_norm") != "popart":
        r.put(agent, 0.5, "share", "team")
    if r.often(0.6):
        r.put(settings, 0.5, "agent_id", True)
    elif env["id"] in SYMMETRIC:
        settings["symmetry"] = "env"
    r.put(settings, 0.25, "reward_scale", "running", "standard")
    return {"run": {"env_steps": r.choice((900, 1500, 2100)), "seed": r.randrange(99)},
            "env": env, "experience": rows, "checkpoint": {"every_env_steps": 400},
            "log": {"every_env_steps": 300},
            "evaluation": {"every_env_steps": 700, "episodes": 2}, "defaults": agent}


def agents_of(folder, run):
    """The processes of a run's agents that are there."""
    pids = {int(e["pid"]) for _, e in events(folder, run) if e.get("event") == "spawn"}
    for pid in sorted(pids):
        try:
            if pathlib.Path(f"/proc/{pid}/comm").read_text().startswith("brood"):
                yield pid
        except OSError:
            pass


def kill_agents(folder, run, p, r):
    killed, began = 0, time.monotonic()
    while p.poll() is None and time.monotonic() - began < LASTS_AT_MOST_S:
        time.sleep(r.uniform(0.02, 0.25))
        pids = list(agents_of(folder, run)) if killed < MOST_KILLS else ()
        if pids:
            try:
                signal_process(r.choice(pids), signal.SIGKILL)
                killed += 1
            except ProcessLookupError:
                pass
    return killed


def kill_supervisor(folder, run, p, r):
    """Kills it after the second checkpoint, and resumes the run; (kills, the last process)."""
    def of(event):
        return [e for _, e in events(folder, run) if e.get("event") == event]
    wait(lambda: p.poll() is not None or len(of("checkpoint")) >= 2)
    time.sleep(r.uniform(0, 0.2))
    if p.poll() is None:
        signal_process(int(of("start")[0]["pid"]), signal.SIGKILL)
    if p.wait() == 0:
        return 0, p
    return 1, command(folder, {}, "resume", run)


def try_one(folder, seed, algorithms):
    """None: it is refused; otherwise whether all is equal."""
    configuration, r = draw_configuration(seed, algorithms), Draws(seed)
    config = pathlib.Path(folder) / f"{seed}.yaml"
    config.write_text(json.dumps(configuration, indent=1))
    name = f"{seed:6} {configuration['defaults']['algorithm']:7} {configuration['env']['id']:24}"
    checked = subprocess.run([BROOD, "check", config, "-q", "--runs-dir", folder],
                             capture_output=True, text=True, check=False)
    if checked.returncode != 0:
        lines = [x for x in checked.stderr.splitlines() if " dropped " not in x]
        fine = checked.returncode == 2 and len(lines) == 1 and lines[0].startswith(str(config))
        print(f"{name} {'refused' if fine else 'REFUSED BADLY'}: {' '.join(lines)}", flush=True)
        return None if fine else False

    calm, killed, resumed = (f"{way}{seed}" for way in ("calm", "killed", "resumed"))
    if start(folder, config, calm).wait() != 0:
        print(f"{name} FAILS calmly: {config.read_text()}", flush=True)
        return False
    p = start(folder, config, killed)
    n = kill_agents(folder, killed, p, r)
    code = p.wait()
    more, p = kill_supervisor(folder, resumed, start(folder, config, resumed), r)
    differ = [run for run, ended in ((killed, code), (resumed, p.wait()))
              if ended != 0 or outcome(folder, run) != outcome(folder, calm)]
    said = f"DIFFERS: {' '.join(differ)}, {config.read_text()}" if differ else "equal"
    print(f"{name} {n + more:3} killed: {said}", flush=True)
    return not differ


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--first", type=int, default=1, metavar="SEED")
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--algorithm", action="append", default=[])
    a = parser.parse_args()
    found = []
    for seed in range(a.first, a.first + a.count):
        with tempfile.TemporaryDirectory(prefix="brood-bench-") as folder:
            found.append(try_one(folder, seed, a.algorithm))
    tried = [x for x in found if x is not None]
    print(f"{len(tried)} tried, {tried.count(False)} bad, {found.count(None)} refused")
    sys.exit(1 if False in tried else 0)


if __name__ == "__main__":
    main()
