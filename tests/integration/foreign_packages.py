"""Trains, kills, resumes and evaluates on thirty environments of real packages.

    foreign_packages.py FOLDER|peers [NAME...]

peers: the packages that tests/support/peers.py installs. FOLDER has checkouts of Gymnasium, PettingZoo, MPE2, lb-foraging and, if wanted, rware, each in a
folder of any name that contains the package (gymnasium, pettingzoo, mpe2, lbforaging, rware).
NAME: only environments whose name contains one of these; the suite plays a few. Checkouts need
what the packages import: python3-numpy, python3-scipy, python3-pygame, python3-cloudpickle,
python3-typing-extensions, python3-networkx.

For each environment: `brood check`; a run; a run of which an environment process, an agent and
the supervisor are killed, and which is then resumed; an evaluation of both. Both must end with
the same weights, unless the run reports that the environment is not reproducible.
pettingzoo.butterfly.knights_archers_zombies is left out: it carries state from an episode into
the next. Environments whose package is missing are listed as skipped; it fails if none could be
played.
"""
import json
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
os.environ.setdefault("BROOD_BUILD_DIR", str(ROOT / "build"))
os.environ.setdefault("BROOD_SOURCE_DIR", str(ROOT))

import harness
import peers
from test_environments import BRIDGE, PYTHON, final, processes_of, weights

PACKAGES = ("gymnasium", "pettingzoo", "mpe2", "lbforaging", "rware")
# Package -> its environments; with " key=value" the parameters.
ENVIRONMENTS = {
    "gymnasium": ["CartPole-v1", "Acrobot-v1", "MountainCar-v0", "MountainCarContinuous-v0",
                  "Pendulum-v1", "Taxi-v4", "FrozenLake-v1", "CliffWalking-v1",
                  "Blackjack-v1"],
    "mpe2": ["mpe2.simple_v3", "mpe2.simple_adversary_v3", "mpe2.simple_crypto_v3",
             "mpe2.simple_push_v3", "mpe2.simple_reference_v3",
             "mpe2.simple_speaker_listener_v4", "mpe2.simple_spread_v3",
             "mpe2.simple_spread_v3:env", "mpe2.simple_tag_v3", "mpe2.simple_world_comm_v3",
             "mpe2.simple_line_v1", "mpe2.simple_formation_v1", "mpe2.collect_treasure_v1"],
    "pettingzoo": ["pettingzoo.classic.tictactoe_v3", "pettingzoo.classic.connect_four_v3",
                   "pettingzoo.classic.rps_v2", "pettingzoo.sisl.pursuit_v5 max_cycles=50"],
    "lbforaging": ["lbforaging:Foraging-5x5-2p-1f-v3", "lbforaging:Foraging-8x8-2p-2f-coop-v3",
                   "lbforaging:Foraging-2s-8x8-3p-1f-v3"],
    "rware": ["rware:rware-tiny-2ag-v2"],
}
# Pygame draws into memory; the packages' folders are found by PYTHONPATH.
CONFIG = """
run: {{name: foreign, seed: 1, env_steps: {steps}}}
env:
  command: [env, SDL_VIDEODRIVER=dummy, PYGAME_HIDE_SUPPORT_PROMPT=1, "PYTHONPATH={path}",
            {python}, -Wignore, {bridge}, "{name}"]
  params: {{{params}}}
  copies: 4
  processes: 2
  restart: {{delay: 1ms}}
experience: {{capacity: 4000, batch_size: 16, warmup: 100, update_every: 40}}
evaluation: {{every_env_steps: 0}}
checkpoint: {{every_env_steps: 200}}
defaults:
  algorithm: {algorithm}
  actor: {{hidden: [16]}}
  critic: {{hidden: [16]}}
"""
STEPS = 1200


def search_path(folder):
    """The checkouts in which the packages are, as PYTHONPATH."""
    found = [f for f in sorted(folder.iterdir()) if f.is_dir() and
             any((f / p / "__init__.py").is_file() for p in PACKAGES)]
    return ":".join(map(str, found))


def is_missing(path, python, package):
    """None, or why the package cannot be imported."""
    p = subprocess.run([python, "-Wignore", "-c", f"import {package}"], capture_output=True,
                       text=True, check=False, env={**os.environ, "PYTHONPATH": path,
                                                    "SDL_VIDEODRIVER": "dummy"})
    return None if p.returncode == 0 else p.stderr.strip().splitlines()[-1]


def configuration(w, path, python, environment, algorithm):
    name, *params = environment.split(" ")
    return w.write("foreign.yaml", CONFIG.format(
        steps=STEPS, path=path, python=python, bridge=BRIDGE, name=name, algorithm=algorithm,
        params=", ".join(p.replace("=", ": ") for p in params)))


def run_with_kills(w, file):
    p = w.start("run", file, "--name", "killed")
    run = w.run_dir("killed")
    harness.wait_until("the rounds", lambda: p.poll() is not None or
                       (run / "control.sock").exists() and w.status("killed")["env_steps"] > 0)
    assert p.poll() is None, "it ended before it could be killed"
    harness.kill(processes_of(w, "killed")["env_0"])
    agents = w.status("killed")["agents"]
    harness.kill(agents[len(agents) // 2]["pid"])
    harness.wait_until("a checkpoint", lambda: p.poll() is not None or
                       (run / "checkpoints" / "200").is_dir())
    assert p.poll() is None, "it ended before its supervisor could be killed"
    harness.kill_holder(p, run)
    w.brood("resume", "killed")


def mean_return(w, name):
    facts = json.loads(w.brood("eval", name, "--episodes", "4", "--json")[0])
    return {team: round(x, 2) for team, x in facts["return_mean"].items()}


def play(w, path, python, environment):
    file = configuration(w, path, python, environment, "maddpg")
    warning = w.brood("check", file)[1]
    assert not warning or "not reproducible" in warning, warning
    w.brood("run", file, "--name", "calm")
    run_with_kills(w, file)
    if not w.status("killed")["exact"]:
        journal = (w.run_dir("killed") / "journal").read_text()
        return "reported: " + re.search("this environment is not reproducible[^\"\n]*",
                                        journal)[0]
    harness.assert_same_files(weights(w.run_dir("calm")), weights(w.run_dir("killed")))
    assert len(final(w.run_dir("calm"))) > 0
    returns = mean_return(w, "calm")
    assert returns == mean_return(w, "killed")
    restarts = re.findall("event=respawn", (w.run_dir("killed") / "journal").read_text())
    return f"{len(restarts)} respawns, one resume, same weights; returns {returns}"


def tell_missing(path, python):
    """Which packages there are, and why not the others."""
    there = []
    for package in PACKAGES:
        why = is_missing(path, python, package)
        print(f"# {package}: {why or 'found'}")
        there += [package] if why is None else []
    return there


def main():
    folder, wanted = (sys.argv[1:2] or [""])[0], sys.argv[2:]
    if folder == "peers":
        path, python = "", peers.python_with_peers()
        if python is None:
            print("1..0 # SKIP the packages are not installed (tests/support/peers.py)")
            sys.exit(peers.SKIPPED)
    elif pathlib.Path(folder).is_dir():
        path, python = search_path(pathlib.Path(folder).resolve()), PYTHON
    else:
        sys.exit(__doc__)
    there = tell_missing(path, python)
    passed = failed = skipped = 0
    for package, environments in ENVIRONMENTS.items():
        for name in environments:
            if wanted and not any(part in name for part in wanted):
                continue
            if package not in there:
                print(f"skipped - {name}: no {package}")
                skipped += 1
                continue
            w = harness.Workplace()
            try:
                print(f"ok - {name}: {play(w, path, python, name)}", flush=True)
                passed += 1
            except Exception as e:
                print(f"not ok - {name}: {e}", flush=True)
                failed += 1
            finally:
                w.close()
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    sys.exit(1 if failed or not passed else 0)


if __name__ == "__main__":
    main()
