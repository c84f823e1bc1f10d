#!/usr/bin/python3
"""Check that two builds give the same bytes: make ten short runs with each and compare every
file of their last checkpoints. For changes that must not affect results.

    same_as.py BUILD_DIR      an older build's folder; this one's is $BROOD_BUILD_DIR or build/
"""
import pathlib
import subprocess
import sys
import tempfile
import time

import hashes

SOURCE = pathlib.Path(__file__).resolve().parents[2]
HALLWAY = f"{SOURCE}/scripts/pettingzoo_bridge.py, {SOURCE}/tests/examples/hallway.py"
DEADLINE_S = 300
SMALL = """
run: {{seed: 7, env_steps: {steps}}}
env: {{{env}}}
experience: {{capacity: 4000, batch_size: 64, warmup: 200, update_every: 20}}
evaluation: {{every_env_steps: 300, episodes: 3}}
checkpoint: {{every_env_steps: 200}}
defaults:
  algorithm: {algorithm}
  settings: {{{settings}}}
  actor: {{hidden: [16, 16]}}
  critic: {{hidden: [16, 16]}}
  optimizer: {{{optimizer}}}
{more}
"""
SPREAD = "id: simple_spread, copies: 4"


def config(algorithm, env=SPREAD, optimizer="type: adam", settings="", steps=800, more=""):
    return SMALL.format(algorithm=algorithm, env=env, optimizer=optimizer, more=more,
                        settings=settings, steps=steps)


RUNS = {
    "maddpg-adam": config("maddpg"),
    "maddpg-sgd": config("maddpg", optimizer="type: sgd, learning_rate: 0.001"),
    "maddpg-rmsprop-frozen": config("maddpg", optimizer="type: rmsprop",
                                    more="agents: {agent_1: {algorithm: random}}"),
    "maddpg-accept_reject": config("maddpg", optimizer="type: accept_reject"),
    "ddpg-momentum": config("ddpg", env="id: simple_tag, actions: continuous, copies: 3",
                            optimizer="type: momentum, momentum: 0.9, learning_rate: 0.001"),
    "iql-foraging": config("iql", settings="epsilon: 0.3",
                           env="id: foraging, copies: 3, max_steps: 20"),
    "iql-processes": config(
        "iql", env=f"command: [/usr/bin/python3, {HALLWAY}], copies: 4, processes: 2"),
    "maddpg-resumed": config("maddpg", steps=400),
    "maddpg-killed": config("maddpg", steps=8000),
    "maddpg-clipped": config("maddpg", steps=1200,
                             more="agents: {agent_2: {clip_norm: 0.1, polyak: 0.2}}"),
}


class Build:
    def __init__(self, folder, place):
        self.brood = pathlib.Path(folder).resolve() / "supervisor" / "brood"
        self.place = pathlib.Path(place)
        self.place.mkdir()

    def run(self, *words):
        subprocess.run([self.brood, *map(str, words)], cwd=self.place, check=True,
                       stdout=subprocess.DEVNULL, timeout=DEADLINE_S)

    def start(self, *words):
        return subprocess.Popen([self.brood, *map(str, words)], cwd=self.place)

    def last(self, name):
        """file -> bytes of the run's last checkpoint."""
        steps = (self.place / "runs" / name / "checkpoints").iterdir()
        folder = max((p for p in steps if p.name.isdigit()), key=lambda p: int(p.name))
        return {f"{folder.name}/{p.relative_to(folder)}": p.read_bytes()
                for p in sorted(folder.glob("*/*")) if p.name.endswith(hashes.FILES)}


def kill_now_and_then(build, p, name):
    """Kills one agent after the other with SIGKILL until the run is over."""
    kills = 0
    while p.poll() is None:
        agent = f"agent_{kills % 3}"
        done = subprocess.run([build.brood, "kill", name, agent],
                              cwd=build.place, capture_output=True, check=False)
        kills += done.returncode == 0
        time.sleep(0.02)  # how often it dies is not what is compared
    return kills


def play(build, name, text):
    path = build.place / f"{name}.yaml"
    path.write_text(text)
    words = ("run", path, "--name", name, "-q")
    if name.endswith("-killed"):
        p = build.start(*words)
        kills = kill_now_and_then(build, p, name)
        assert p.wait() == 0 and kills > 0, (name, p.returncode, kills)
        return f"{kills} kills"
    build.run(*words)
    if name.endswith("-resumed"):
        build.run("resume", name, "--set", "run.env_steps=900", "-q")
    return ""


def main():
    if len(sys.argv) != 2 or not pathlib.Path(sys.argv[1], "supervisor", "brood").exists():
        sys.exit(__doc__)
    good = 0
    with tempfile.TemporaryDirectory() as folder:
        builds = [Build(sys.argv[1], f"{folder}/old"), Build(hashes.BUILD, f"{folder}/new")]
        for name, text in RUNS.items():
            notes = [play(build, name, text) for build in builds]
            old, new = (build.last(name) for build in builds)
            differ = sorted(p for p in old.keys() | new.keys() if old.get(p) != new.get(p))
            good += not differ
            print(f"{name:24s} {len(new):3d} files, {sum(map(len, new.values())):8d} bytes: "
                  f"{'same' if not differ else 'DIFFER: ' + ' '.join(differ)}"
                  f"{'  (' + ', '.join(notes) + ')' if any(notes) else ''}", flush=True)
    print(f"{good} of {len(RUNS)} runs the same")
    return 0 if good == len(RUNS) else 1


if __name__ == "__main__":
    sys.exit(main())
